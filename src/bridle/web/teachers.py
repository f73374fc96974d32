"""As which of several teachers a person judges: chosen once for an agent, and remembered.

A cookie of the agent's own pages holds the name. It says whose word it is and gives no right: that
is the token's, which the log names beside it.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from bridle.agent.state import AgentState
from bridle.api.models import Page as Part
from bridle.server.handlers import teachers as api
from bridle.server.handlers.teachers import (
    Judgement,
    OpenCase,
    TeacherShown,
    TeachersShown,
    WhomShown,
)
from bridle.server.problems import Problem
from bridle.store.writer import UnitOfWork
from bridle.web.page import Html, Page, Redirect, Shown, Visit
from bridle.web.rendering import arm_words, url

__all__ = ["PAGES", "Voice", "came", "for_whom", "said_by", "voice_of", "word_name"]


COOKIE = "bridle-as"
YEAR = 365 * 86_400
BACK = {"teach": ("teach",), "checks": ("checks",), "bulk": ("teach", "bulk")}
SEE = "GET /v1/agents/{agent}/teachers"


class Voice(NamedTuple):
    """Who there is, and who this person is; `names` is empty if no teachers are declared."""

    names: tuple[str, ...]
    mine: str | None

    @property
    def asks(self) -> bool:
        """Whether they must say who they are before they can judge."""
        return bool(self.names) and self.mine is None


def voice_of(visit: Visit, state: AgentState) -> Voice:
    """Return as whom a person judges: the only one there is, or whom they chose before."""
    names = tuple(teacher.name for teacher in state.teachers.teachers)
    if len(names) == 1:
        return Voice(names, names[0])
    chosen = _chosen(visit)
    return Voice(names, chosen if chosen in names else None)


def _chosen(visit: Visit) -> str | None:
    texts = visit.headers.getlist("cookie")
    for part in (part.strip() for text in texts for part in text.split(";")):
        if part.startswith(f"{COOKIE}="):
            return unquote_to_bytes(part.removeprefix(f"{COOKIE}=")).decode(errors="replace")
    return None


async def choose(visit: Visit) -> Shown:
    """Remember as whom a person judges."""
    wanted, back = visit.form.get("teacher"), BACK.get(visit.form.get("back"), ("teach",))

    def read(work: UnitOfWork) -> bool:
        return work.aggregate.state.declares(wanted)

    if not await visit.service.do(visit.agent, read):
        raise Problem("invalid_value", f"{wanted[:100]!r} is no teacher here.", field="teacher")
    path = url("agents", visit.agent)
    cookie = (
        f"{COOKIE}={quote(wanted, safe='')}; Path={path}; Max-Age={YEAR}; HttpOnly; SameSite=Strict"
    )
    return Redirect(url("agents", visit.agent, *back), (cookie,))


def word_name(*parts: str) -> str:
    """Name what a person says on a page: a form that is sent twice says it once.

    What was answered is one of the parts, so that another answer is another word.
    """
    return f"page.{hashlib.blake2b(chr(0).join(parts).encode(), digest_size=12).hexdigest()}"


def said_by(state: AgentState, by: str | None, mine: str | None) -> bool:
    """Say whether an example is this person's, or is among others' by the teacher that they are."""
    if by == mine:
        return True
    return by is not None and state.declares(mine) and mine in by.split(", ")


def came(judgement: Judgement, allowed: bool) -> dict[str, str]:
    """Say what came of a word, as the address of the next page carries it."""
    if judgement.allowed is not None:
        return {"said": "settled-yes" if judgement.allowed else "settled-no"}
    if judgement.said.get(judgement.teacher) is not allowed:
        return {"said": "before"}  # the form was sent before; they have changed their mind since
    return {"said": "open", "to": "" if judgement.next is None else judgement.next.teacher}


def for_whom(whom: WhomShown | None, mine: str | None) -> tuple[str, str]:
    """Say whom a question is for, and why, to who is shown it."""
    if whom is None:
        why = "No further answer is worth its price here. You can answer it all the same."
        return "For nobody", why
    name = "you" if whom.teacher == mine else whom.teacher
    if whom.explores:
        why = "Two teachers are asked about it, to learn how often each of them errs."
    elif whom.teacher == mine:
        why = f"Your answer is worth its price: about {whom.cost:.2g} to settle it."
    else:
        why = f"Their answer is worth its price: about {whom.cost:.2g} to settle it."
    return f"For {name}", why if name == "you" else f"{why} You can answer it all the same."


# --- Several teachers: how often each errs, drawn and in words, and what their words left open

PER_PAGE = 50
LAST = 2**53
# The scale of the pictures ends here, or further where an interval does.
LEAST_SCALE, STEP = 0.2, 0.1


class CaseRow(NamedTuple):
    """An open case in words."""

    case: OpenCase
    arm: str


async def show(visit: Visit) -> Shown:
    """Show the teachers, and what stands open."""
    after = visit.query.whole("after", 0, low=0, high=LAST)
    shown: TeachersShown = await visit.api(api.teachers, query=Part(after=after, limit=PER_PAGE))

    def read(work: UnitOfWork) -> tuple[Voice, list[CaseRow]]:
        state = work.aggregate.state
        rows = [
            CaseRow(one, arm_words(state.arms[state.number_of[one.arm]]))
            for one in shown.open
            if one.arm in state.number_of
        ]
        return voice_of(visit, state), rows

    voice, rows = await visit.service.do(visit.agent, read)
    values: dict[str, Any] = {
        "agent": visit.agent,
        "shown": shown,
        "cases": rows,
        "voice": voice,
        "after": after,
        "per_page": PER_PAGE,
        "most": _scale(shown.teachers),
        "words": _words(shown),
    }
    return Html("teachers.html", values)


def _scale(teachers: list[TeacherShown]) -> float:
    """Return where the common scale ends: at a whole ten in 100."""
    high = max((one.high for one in teachers), default=0.0)
    return max(LEAST_SCALE, min(0.5, math.ceil(high / STEP - 1e-9) * STEP))


def _words(shown: TeachersShown) -> str:
    """Say in a sentence how far the teachers are known."""
    known = sum(one.known for one in shown.teachers)
    if known == len(shown.teachers):
        return "How often each of them errs is known."
    left = len(shown.teachers) - known
    many = "one of them errs" if left == 1 else f"{left} of them err"
    return (
        f"How often {many} is not known well yet. Until it is, two are asked about the same case "
        "now and then."
    )


PAGES: tuple[Page, ...] = (
    Page(method="POST", path="/agents/{agent}/as", handle=choose, like=(SEE,)),
    Page(method="GET", path="/agents/{agent}/teachers", handle=show, like=(SEE,)),
)

"""Spot checks: plays that wait to be judged, one at a time, and what was found so far."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bridle.agent.config import Arm
from bridle.agent.events import Decided
from bridle.agent.queries import unit_name
from bridle.agent.state import AgentState
from bridle.api.replies import CheckJudged, CheckList, CheckShown
from bridle.api.requests import CheckJudgement, CheckQuery, StartAnew
from bridle.errors import Duplicate, NotPossible, UnknownId
from bridle.server.handlers import checks as checking
from bridle.server.handlers import promise
from bridle.server.handlers.agents import who
from bridle.server.problems import Problem
from bridle.store.idempotency import id_of, text_of
from bridle.store.writer import UnitOfWork
from bridle.web.examples import ExampleLine, line_of
from bridle.web.page import Html, Page, Redirect, Shown, Visit, said_of
from bridle.web.progress import Undone, undone_of
from bridle.web.rendering import schema_context_words, short_words, url
from bridle.web.standing import one_in, plays
from bridle.web.teachers import Voice, came, said_by, voice_of, word_name

__all__ = ["PAGES"]

SEE = "GET /v1/agents/{agent}/checks"
JUDGE = "POST /v1/agents/{agent}/checks/{id}"
FRESH = "POST /v1/agents/{agent}/fresh-start"
MOST_UNITS = 50  # rows of the table
MOST_LINES = 12  # of a context that are shown at once; the rest is folded away


class Waiting(NamedTuple):
    """A play that waits, in words."""

    id: str
    title: str
    lines: list[tuple[str, str]]
    arm: Arm
    item: str | None
    coin: str
    at: float | None


class UnitRow(NamedTuple):
    """What is known of exceptions in a group of arms, or in an arm."""

    name: str
    judged: int
    found: int
    rate: float
    coin: str  # which plays are checked now


class Found(NamedTuple):
    """What checks have found so far."""

    judged: int
    found: int
    drawn: int
    units: list[UnitRow]
    left_out: int
    off: bool
    promised: bool
    frozen: bool


class _Look(NamedTuple):
    waiting: Waiting | None
    found: Found
    last: ExampleLine | None
    undone: Undone | None
    open: int


async def show(visit: Visit) -> Shown:
    """Show the oldest play that waits, and what was found so far."""
    after = visit.query.whole("after", 0, low=0, high=2**53)
    voice = await visit.service.do(visit.agent, lambda work: voice_of(visit, work.aggregate.state))
    listed = await _listed(visit, voice, after)
    if not listed.checks and after:  # all others were skipped, or judged meanwhile
        passed, after = after, 0
        listed = await _listed(visit, voice, 0)
    else:
        passed = after
    one = listed.checks[0] if listed.checks else None
    last, undone = visit.query.get("last"), visit.query.get("undone")
    mine, to = voice.mine if voice.names else _mine(visit), visit.query.get("to")

    def read(work: UnitOfWork) -> _Look:
        return _Look(
            None if one is None else _waiting(work, one),
            _found(work.aggregate.state),
            _last(work.aggregate.state, mine, last),
            undone_of(work, mine, undone) if undone else None,
            len(work.aggregate.state.checks.open),
        )

    look = await visit.service.do(visit.agent, read)
    values = {
        "agent": visit.agent,
        "total": listed.total,
        "after": after,
        "passed": passed,
        "most_lines": MOST_LINES,
        "voice": voice,
        "to": to if to in voice.names else "",
        "elsewhere": look.open - listed.total,
        **look._asdict(),
    }
    return Html("checks.html", values)


async def _listed(visit: Visit, voice: Voice, after: int) -> CheckList:
    """List what waits; of several teachers, for the one that this person is."""
    query = CheckQuery(after=after, limit=1, teacher=voice.mine)
    listed: CheckList = await visit.api(checking.checks, query=query)
    return listed


async def judge(visit: Visit) -> Shown:
    """Take a person's verdict on a play; the same one twice is one."""
    given = visit.form.need("answer")
    if given not in ("allowed", "denied"):
        raise Problem("invalid_value", f"{given[:40]!r} is no answer.", field="answer")
    after = visit.form.whole("after", 0, low=0, high=2**53) or None
    here = ("agents", visit.agent, "checks")
    decision, teacher = visit.form.need("decision"), visit.form.optional("teacher")
    word = None if teacher is None else word_name(decision, teacher, given)
    form = CheckJudgement(allowed=given == "allowed", teacher=teacher, id=word, **said_of(visit))
    try:
        taken: CheckJudged = await visit.api(checking.judge, form, id=decision)
    except (Duplicate, NotPossible, UnknownId):
        return Redirect(url(*here, after=after, said="before"))
    told = {} if taken.judgement is None else came(taken.judgement, form.allowed)
    if taken.started_anew:
        told["said"] = "begun-anew"
    last = "" if taken.example is None else text_of(taken.example)
    return Redirect(url(*here, after=after, last=last, **told))


async def start_again(visit: Visit) -> Shown:
    """Begin anew what was learned of the limits, where that is proposed."""
    if visit.form.get("sure") != "yes":
        why = "Starting again cannot be undone: tick that you know it."
        raise Problem("invalid_value", why, field="sure")
    said = "anew"
    try:
        await visit.api(promise.start_anew, StartAnew(**said_of(visit)))
    except NotPossible:
        said = "not-anew"
    return Redirect(url("agents", visit.agent, "teach", said=said))


# -- in words --------------------------------------------------------------------------------


def _waiting(work: UnitOfWork, one: CheckShown) -> Waiting:
    state = work.aggregate.state
    schema, id = state.settings.features, text_of(one.decision)
    lines = schema_context_words(schema, one.context)
    if len(lines) > MOST_LINES:
        lines.sort(key=lambda line: line[1] in ("no", "none", "not known"))
    return Waiting(
        id,
        short_words(schema, one.context),
        lines,
        state.arms[state.arm_number(one.arm)],
        None if one.item is None else str(one.item),
        one_in(one.coin),
        _when(work, id),
    )


def _when(work: UnitOfWork, id: str) -> float | None:
    """Say when a play was made; one that asked first was made when it was settled."""
    for stood in (work.find("settled", id), work.find("decision", id)):
        if stood is not None and isinstance(stood.event, Decided):
            return stood.event.at
    return None


def _last(state: AgentState, mine: str | None, text: str) -> ExampleLine | None:
    """Give what this person has just said, if it stands."""
    example = state.examples.get(id_of(text)) if text else None
    mine_it_is = example is not None and said_by(state, example.by, mine)
    return line_of(state, example) if example is not None and mine_it_is else None


def _found(state: AgentState) -> Found:
    checks, rates, purse = state.checks, state.limits_state.rates, state.purse
    frozen = purse is not None and purse.frozen
    units: list[UnitRow] = []
    many = 0
    if rates is not None:
        many = rates.units
        least = 0.0 if purse is None or frozen else purse.coin()
        granted = checks.may(state.decisions + 1)
        # The worst first, then those of which most is known.
        order = np.lexsort((-rates.judged.sum(axis=1), -rates.rates, -rates.judged[:, 1]))
        for u in order[:MOST_UNITS].tolist():
            coin = max(rates.coin(u) if granted and not frozen else 0.0, least)
            units.append(
                UnitRow(
                    unit_name(state, u),
                    int(rates.judged[u].sum()),
                    int(rates.judged[u, 1]),
                    float(rates.rates[u]),
                    plays(coin) if coin > 0.0 else "none",
                )
            )
    off = rates is None and purse is None
    return Found(
        checks.judged,
        checks.found,
        checks.drawn,
        units,
        many - len(units),
        off,
        purse is not None,
        frozen,
    )


def _mine(visit: Visit) -> str | None:
    """Give how the log names who has signed in."""
    return who(visit.caller, said_of(visit)["by"])


_ROWS: tuple[tuple[str, str, Any, str], ...] = (
    ("GET", "/agents/{agent}/checks", show, SEE),
    ("POST", "/agents/{agent}/checks/judge", judge, JUDGE),
    ("POST", "/agents/{agent}/fresh-start", start_again, FRESH),
)
PAGES: tuple[Page, ...] = tuple(
    Page(method=method, path=path, handle=handle, like=(like,))
    for method, path, handle, like in _ROWS
)

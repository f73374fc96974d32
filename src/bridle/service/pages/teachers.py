"""Several teachers: how often each errs, drawn and in words, and what their words left open."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from bridle.service import teachers as api
from bridle.service.forms import Page as Part
from bridle.service.pages.page import Html, Page, Shown, Visit
from bridle.service.pages.voices import Voice, voice_of
from bridle.service.pages.words import arm_words
from bridle.service.teachers import OpenCase, TeacherShown, TeachersShown
from bridle.store.writing import Desk

__all__ = ["PAGES"]

SEE = "GET /v1/agents/{agent}/teachers"
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

    def read(desk: Desk) -> tuple[Voice, list[CaseRow]]:
        know = desk.kept.know
        rows = [
            CaseRow(one, arm_words(know.arms[know.number_of[one.arm]]))
            for one in shown.open
            if one.arm in know.number_of
        ]
        return voice_of(visit, know), rows

    voice, rows = await visit.service.do(visit.agent, read)
    values: dict[str, Any] = {
        "agent": visit.agent, "shown": shown, "cases": rows, "voice": voice, "after": after,
        "per_page": PER_PAGE, "most": _scale(shown.teachers), "words": _words(shown),
    }  # fmt: skip
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
    Page(method="GET", path="/agents/{agent}/teachers", handle=show, like=(SEE,)),
)

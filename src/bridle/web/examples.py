"""The examples that stand: a list, as a csv, and where they contradict each other."""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from bridle.agent.config import ArmId, ItemId
from bridle.agent.limits_state import Example
from bridle.agent.state import AgentState
from bridle.server.handlers import teaching
from bridle.store.writer import UnitOfWork
from bridle.web.csvs import MAX_ROWS, example_columns, written
from bridle.web.page import Data, Html, Page, Redirect, Shown, Visit
from bridle.web.rendering import arm_words, url

__all__ = ["PAGES", "Disagreement", "ExampleLine", "disagreements", "line_of"]

PER_PAGE = 50
LAST = 2**53
MOST_LOOKED_AT = 5_000  # examples, the latest, that are compared with each other
MOST_VOICES = 3  # of each side of a disagreement


class ExampleLine(NamedTuple):
    """An example in words."""

    id: ItemId
    context: dict[str, Any]
    arm: str
    allowed: bool
    by: str | None
    note: str | None
    item: ArmId | None = None
    scope: str = "all"  # "item": it says nothing of other items
    until: float | None = None  # when it ends


class Disagreement(NamedTuple):
    """Examples of one context and one arm that do not say the same, each side's latest first.

    `older`: the other side is not among them, as it was taught too long ago.
    """

    context: dict[str, Any]
    arm: str
    voices: list[ExampleLine]
    teachers: int
    older: bool


def line_of(state: AgentState, example: Example) -> ExampleLine:
    """Give an example in words."""
    context = state.settings.features.decode(np.frombuffer(example.context))
    arm = arm_words(state.arms[example.arm])
    return ExampleLine(
        example.id,
        context,
        arm,
        example.allowed,
        example.by,
        example.note,
        example.item,
        example.scope,
        example.until,
    )


def disagreements(state: AgentState, most: int) -> list[Disagreement]:
    """Find what the latest examples say both ways of: the same context, the same arm."""
    found: dict[tuple[bytes, int], list[Example]] = {}
    for one in islice(reversed(state.examples.values()), MOST_LOOKED_AT):
        other = state.denials if one.allowed else state.allowances
        if one.arm in other.get(one.context, ()):
            voices = found.setdefault((one.context, one.arm), [])
            voices.append(one)
    return [_disagreement(state, voices) for voices in islice(found.values(), most)]


def _disagreement(state: AgentState, voices: list[Example]) -> Disagreement:
    """Show both sides, a few voices of each; the other side may lie too far back to be seen."""
    sides = [[one for one in voices if one.allowed is side] for side in (True, False)]
    shown = [*sides[0][:MOST_VOICES], *sides[1][:MOST_VOICES]]
    lines = [line_of(state, one) for one in shown]
    teachers = len({one.by for one in voices})
    return Disagreement(lines[0].context, lines[0].arm, lines, teachers, not all(sides))


def _for_good(one: Example) -> bool:
    return one.scope == "all" and one.until is None


async def listing(visit: Visit) -> Shown:
    """List the examples that stand, the latest first."""
    after = visit.query.whole("after", 0, low=0, high=LAST)

    def look(work: UnitOfWork) -> dict[str, Any]:
        state = work.aggregate.state
        some = islice(reversed(state.examples.values()), after, after + PER_PAGE)
        return {
            "examples": [line_of(state, one) for one in some],
            "total": len(state.examples),
            "some_live": any(not _for_good(one) for one in state.examples.values()),
        }

    values = await visit.service.do(visit.agent, look)
    return Html(
        "teach-examples.html",
        {"agent": visit.agent, "after": after, "per_page": PER_PAGE, **values},
    )


async def download(visit: Visit) -> Shown:
    """Give the examples that stand as a csv: one that can be sent back in."""

    def look(work: UnitOfWork) -> tuple[Any, list[Any], list[Example]]:
        state = work.aggregate.state
        # A csv has no place for a scope or an end, and would come back as said of all for ever.
        some = (one for one in state.examples.values() if _for_good(one))
        return state.settings.features, state.arms, list(islice(some, MAX_ROWS))

    schema, arms, some = await visit.service.do(visit.agent, look)

    def write() -> bytes:
        rows: list[list[object]] = [list(example_columns(schema))]
        for one in some:
            context = schema.decode(np.frombuffer(one.context))
            named = [context.get(feature.name, one.item) for feature in schema.features]
            rows.append([*named, arms[one.arm].id, one.allowed])
        return written(rows).encode()

    body = await visit.service.aside(write)
    return Data(body, "text/csv; charset=utf-8", f"{visit.agent}-examples.csv")


async def retract(visit: Visit) -> Shown:
    """Take an example back."""
    after = visit.form.whole("after", 0, low=0, high=LAST)
    await visit.api(teaching.retract, id=visit.form.need("example"))
    parts = ("examples",) if visit.form.get("back") != "teach" else ()
    return Redirect(
        url("agents", visit.agent, "teach", *parts, after=after or None, said="retracted")
    )


PAGES: tuple[Page, ...] = (
    Page(
        method="GET",
        path="/agents/{agent}/teach/examples",
        handle=listing,
        like=("GET /v1/agents/{agent}/examples",),
    ),
    Page(
        method="GET",
        path="/agents/{agent}/teach/examples.csv",
        handle=download,
        like=("GET /v1/agents/{agent}/examples",),
    ),
    Page(
        method="POST",
        path="/agents/{agent}/teach/retract",
        handle=retract,
        like=("DELETE /v1/agents/{agent}/examples/{id}",),
    ),
)

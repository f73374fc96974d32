"""What if: a situation by hand, which arms would be allowed in it, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from bridle.errors import InvalidValue
from bridle.explaining import DENIED_HERE, DENIED_ITEM, NOT_CERTIFIED, SURELY_DENIED, UNSURE
from bridle.features import Schema
from bridle.service.looking import ArmBelieved, BelievedShown, WhatIf, believed
from bridle.service.pages.contextform import (
    MOST_FIELDS,
    PREFIX,
    context_from,
    fields_of,
    is_given,
)
from bridle.service.pages.page import Html, Page, Shown, Visit
from bridle.service.pages.whywords import guess_words, is_untaught
from bridle.service.pages.words import arm_words, item_from, schema_context_words
from bridle.service.problems import Problem
from bridle.settings import Arm
from bridle.store.writing import Desk

__all__ = ["PAGES"]

ARMS = 50
FAR = 2**31
SHOWS = {"all": "All arms", "allowed": "Allowed", "doubt": "In doubt", "denied": "Not allowed"}
WHY = {
    DENIED_HERE: "A teacher said no in this very situation.",
    DENIED_ITEM: "A teacher said no to it for this item.",
    NOT_CERTIFIED: "The certificate does not cover it.",
    UNSURE: "What was taught does not make it sure.",
    SURELY_DENIED: "What was taught rules it out.",
}
# Above this what is believed is mostly a guess of how examples carry over.
MOSTLY_NEW = 0.5


class _Agent(NamedTuple):
    """What the page needs of the agent."""

    schema: Schema
    arms: Sequence[Arm]
    unit_of: list[int]
    taught: bool
    bound: bool  # whether it plays only what is surely allowed
    items: bool  # whether items have names


class Line(NamedTuple):
    """An arm, for the template; `mark` is "yes", "no" or "unsure"."""

    name: str
    unit: int
    p: float
    guess: str  # in the place of a chance that only looks certain
    mark: str
    why: str
    unseen: str


async def what_if(visit: Visit) -> Shown:
    """Show the form and, once it is filled in, what would be allowed."""
    query = visit.query
    show = query.get("show") if query.get("show") in SHOWS else "all"
    after = query.whole("after", 0, low=0, high=FAR)
    find = query.get("find")[:200]
    agent = await visit.service.do(visit.agent, _looked_up)
    given = is_given(query)
    item = query.get("item").strip()[:200]
    values: dict[str, Any] = {
        "agent": visit.agent,
        "fields": fields_of(agent.schema, query if given else None),
        "left_out": max(len(agent.schema.features) - MOST_FIELDS, 0),
        "taught": agent.taught,
        "bound": agent.bound,
        "show": show,
        "shows": SHOWS,
        "find": find,
        "item": item,
        "items": agent.items,
        "found": None,
        "wrong": None,
    }
    if not given:
        return Html("whatif.html", values)
    try:
        context = context_from(agent.schema, query)
        form = WhatIf(context=context, item=item_from(item))  # type: ignore[arg-type]
        answer: BelievedShown = await visit.api(believed, body=form)
    except (Problem, InvalidValue) as problem:
        values["wrong"] = problem
        return Html("whatif.html", values, 422)
    encoded = agent.schema.encode(context)
    pairs = schema_context_words(agent.schema, agent.schema.decode(encoded))
    lines = _lines(agent, answer.arms)
    counts = {mark: sum(line.mark == mark for line in lines) for mark in ("yes", "unsure", "no")}
    wanted = [line for line in lines if _wanted(line, show, find)]
    values |= {
        "found": wanted[after : after + ARMS],
        "total": len(wanted),
        "counts": counts,
        "of": len(lines),
        "after": after,
        "per": ARMS,
        "pairs": pairs[:MOST_FIELDS],
        "query": _carried(visit, show, find) | ({"item": item} if item else {}),
    }
    return Html("whatif.html", values)


def _looked_up(desk: Desk) -> _Agent:
    know = desk.kept.know
    return _Agent(
        know.settings.features, know.arms, know.believing.unit_of.tolist(),
        bool(know.examples or know.rules), know.policy.needs_limits, not know.settings.legacy,
    )  # fmt: skip


def _lines(agent: _Agent, arms: Sequence[ArmBelieved]) -> list[Line]:
    """Give the arms, those that are allowed first and then by how likely that is."""
    # An arm that came in between the two looks has no name yet.
    each = zip(arms, agent.arms, agent.unit_of, strict=False)
    found = [
        Line(
            arm_words(arm),
            unit,
            one.p,
            guess_words(one.p, one.safe, one.novelty),
            _mark(one),
            _why(one),
            _unseen(one),
        )
        for one, arm, unit in each
    ]
    return sorted(found, key=lambda line: (line.mark != "yes", -line.p))


def _mark(one: ArmBelieved) -> str:
    if one.playable:
        return "yes"
    untaught = is_untaught(one.why_not, one.novelty)
    return "unsure" if one.possible or untaught else "no"


def _why(one: ArmBelieved) -> str:
    if is_untaught(one.why_not, one.novelty):
        return "Nothing was taught of it yet."
    if one.why_not is not None:
        plain = one.why_not[:1].upper() + one.why_not[1:] + "."
        return WHY.get(one.why_not, plain)
    if one.novelty > MOSTLY_NEW:
        return "It seems sure, though little like this was taught."
    return "What was taught makes it sure."


def _unseen(one: ArmBelieved) -> str:
    return ", ".join(name.replace("=", " ", 1) for name in one.unseen[:8])


def _wanted(line: Line, show: str, find: str) -> bool:
    if find and find.casefold() not in line.name.casefold():
        return False
    return show == "all" or line.mark == {"allowed": "yes", "doubt": "unsure", "denied": "no"}[show]


def _carried(visit: Visit, show: str, find: str) -> dict[str, Any]:
    """Give what links to other parts of the list carry along."""
    query: dict[str, Any] = {}
    for name, value in visit.query:
        if name.startswith(PREFIX):
            query.setdefault(name, []).append(value)
    return query | {"show": show, "find": find}


PAGES: tuple[Page, ...] = (
    Page(
        method="GET", path="/agents/{agent}/limits/what-if", handle=what_if,
        like=("POST /v1/agents/{agent}/believed",),
    ),
)  # fmt: skip

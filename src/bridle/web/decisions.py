"""The log of decisions: searched, filtered, page by page, and exported."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from bridle.agent.config import ArmId
from bridle.agent.events import Taught
from bridle.errors import Busy, InvalidValue
from bridle.schema import Feature, Id, Schema
from bridle.store.aggregate import log_head
from bridle.store.log import Store
from bridle.web.log import (
    CHECKS,
    OUTCOMES,
    Earned,
    Looked,
    Made,
    Naming,
    Wanted,
    arms_like,
    by_id,
    check_of,
    earned,
    earned_by,
    look_back,
    look_on,
    seq_at,
    time_of,
    verdicts,
)
from bridle.web.page import Html, Page, Shown, Stream, Visit
from bridle.web.rendering import iso, url

__all__ = ["PAGES"]

A_PAGE = 50
# Entries of which an export makes one piece.
A_PIECE = 1_000
FIELDS = ("id", "arm", "outcome", "reward", "check", "from", "to")
REWARDS = {"yes": True, "no": False}
CHECK_WORDS = {"denied": "not allowed", "allowed": "allowed", "waiting": "waits"}
# What a spreadsheet would take for the beginning of a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True)
class Asked:
    """What somebody looks for, as they wrote it."""

    given: dict[str, str]

    @property
    def query(self) -> dict[str, str]:
        """That which is not empty, for addresses."""
        return {name: text for name, text in self.given.items() if text}


class Times(NamedTuple):
    """From when to when."""

    first: float | None
    last: float | None


async def listing(visit: Visit) -> Shown:
    """List decisions, the newest first."""
    asked = _asked(visit)
    service, store, agent = visit.service, visit.service.store, visit.agent
    naming = await Naming.of(service, agent)
    had: dict[str, Earned] = {}
    said: dict[str, Taught] = {}
    looked, wrong = Looked([], 1, False), None
    before = visit.query.whole("before", 2**53, low=1, high=2**53)
    try:
        arms = await _arms(visit, asked)
        times = _times(asked)

        def read() -> tuple[Looked, dict[str, Earned], dict[str, Taught]]:
            if asked.given["id"]:
                found = Looked(by_id(store, agent, asked.given["id"]), 1, False)
            else:
                wanted, head = _wanted(store, agent, asked, arms, times)
                found = look_back(store, agent, wanted, min(before, head + 1), A_PAGE)
            return (found, earned(store, agent, found.found), verdicts(store, agent, found.found))

        looked, had, said = await service.aside(read)
    except InvalidValue as error:
        wrong = str(error)
    await naming.learn(service, looked.found)
    here = {"before": before} if before < 2**53 else {}
    return Html(
        "decisions.html",
        {
            "agent": agent,
            "given": asked.given,
            "query": asked.query,
            "wrong": wrong,
            "rows": [
                naming.shown(one, earned_by(one, had), check_of(one, said)) for one in looked.found
            ],
            "looked": looked,
            "later": bool(here),
            "size": A_PAGE,
            "csv": url("agents", agent, "decisions.csv", **asked.query),
            "lines": url("agents", agent, "decisions.jsonl", **asked.query),
        },
        200 if wrong is None else 422,
    )


async def export_csv(visit: Visit) -> Shown:
    """Give all that the filter matches as a table, the oldest first."""
    naming = await Naming.of(visit.service, visit.agent)
    head = _csv_line(
        [
            "entry",
            "id",
            "time (UTC)",
            "outcome",
            "arm",
            "name of the arm",
            "item",
            *(f"context: {feature.name}" for feature in _told(naming.schema)),
            "chance",
            "version",
            "reward",
            "what became of the reward",
            "chance of a check",
            "check",
        ]
    )
    pieces = await _export(visit, naming, _csv_row, head)
    return Stream(pieces, "text/csv; charset=utf-8", f"{visit.agent}-decisions.csv")


async def export_lines(visit: Visit) -> Shown:
    """Give all that the filter matches as JSON, a line each, the oldest first."""
    naming = await Naming.of(visit.service, visit.agent)
    pieces = await _export(visit, naming, _json_row, "")
    return Stream(pieces, "application/jsonl; charset=utf-8", f"{visit.agent}-decisions.jsonl")


# -- what is looked for ----------------------------------------------------------------------


def _asked(visit: Visit) -> Asked:
    return Asked({name: visit.query.get(name)[:200] for name in FIELDS})


def _times(asked: Asked) -> Times:
    times = Times(time_of(asked.given["from"], "from"), time_of(asked.given["to"], "to"))
    if times.first is not None and times.last is not None and times.first > times.last:
        raise InvalidValue("from", "the form", "before the end", asked.given["from"])
    return times


async def _arms(visit: Visit, asked: Asked) -> frozenset[ArmId] | None:
    """Give the arms that are meant: the one of that id, or all whose name or group holds it."""
    text = asked.given["arm"]
    if not text:
        return None
    found = await visit.service.do(visit.agent, lambda work: arms_like(work.aggregate, text))
    if not found:
        wanted = "the id of an arm, or a part of its name or group"
        raise InvalidValue("arm", "the form", wanted, text)
    return found


def _wanted(
    store: Store, agent: str, asked: Asked, arms: frozenset[ArmId] | None, times: Times
) -> tuple[Wanted, int]:
    """Give what is looked for, and the last entry of the log."""
    head = log_head(store, agent).seq
    if asked.given["id"]:
        return Wanted(last=head), head  # an id stands once: all else is no matter
    outcome, reward = asked.given["outcome"], asked.given["reward"]
    if outcome and outcome not in OUTCOMES:
        raise InvalidValue("outcome", "the form", f"one of {', '.join(OUTCOMES)}", outcome)
    if reward and reward not in REWARDS:
        raise InvalidValue("reward", "the form", f"one of {', '.join(REWARDS)}", reward)
    check = asked.given["check"]
    if check and check not in CHECKS:
        raise InvalidValue("check", "the form", f"one of {', '.join(CHECKS)}", check)
    wanted = Wanted(
        arms=arms,
        outcome=outcome or None,
        rewarded=REWARDS.get(reward),
        check=check or None,
        last=head,
    )
    if times.first is not None:
        first = seq_at(store, agent, head, times.first) + 1
        wanted = replace(wanted, first=first, since=times.first)
    if times.last is not None:
        until = times.last + 1.0  # all of the second that is named belongs to it
        wanted = replace(wanted, last=seq_at(store, agent, head, until), until=until)
    return wanted, head


# -- exports ---------------------------------------------------------------------------------

Row = Callable[[Naming, Made, Earned | None, str | None], str]


async def _export(visit: Visit, naming: Naming, row: Row, head: str) -> AsyncIterator[bytes]:
    """Begin an export. What is wrong with the filter is told before the first byte."""
    asked = _asked(visit)
    service, store, agent = visit.service, visit.service.store, visit.agent
    arms, times = await _arms(visit, asked), _times(asked)
    wanted, _ = await service.aside(lambda: _wanted(store, agent, asked, arms, times))
    # What comes while it is written is not part of it, so it has an end.
    one = asked.given["id"]

    def read(after: int) -> tuple[list[Made], dict[str, Earned], dict[str, Taught], int]:
        if one:
            made, last = by_id(store, agent, one)[::-1], wanted.last
        else:
            made, last = look_on(store, agent, wanted, after, A_PIECE)
        return made, earned(store, agent, made), verdicts(store, agent, made), last

    async def pieces() -> AsyncIterator[bytes]:
        yield head.encode()
        after = wanted.first - 1
        while after < wanted.last:
            try:
                made, had, said, after = await service.aside(partial(read, after))
            except Busy:
                await asyncio.sleep(0.25)  # those who wait for an answer come first
                continue
            await naming.learn(service, made)
            text = "".join(
                row(naming, choice, earned_by(choice, had), check_of(choice, said))
                for choice in made
            )
            if text:
                yield text.encode()

    return pieces()


def _csv_row(naming: Naming, made: Made, had: Earned | None, check: str | None) -> str:
    context: Sequence[Any] = [""] * len(_told(naming.schema))
    if made.context is not None:
        context = [_plain(value) for value in naming.schema.decode(made.context).values()]
    return _csv_line(
        [
            made.seq,
            made.id,
            None if made.at is None else iso(made.at),
            f"{made.outcome}, erased" if made.erased else made.outcome,
            made.arm,
            naming.arm(made.arm),
            made.item,
            *context,
            made.propensity,
            made.version,
            None if had is None else had.value,
            None if had is None else had.how,
            made.coin,
            None if check is None else CHECK_WORDS[check],
        ]
    )


def _json_row(naming: Naming, made: Made, had: Earned | None, check: str | None) -> str:
    said = {
        "entry": made.seq,
        "id": made.id,
        "at": made.at,
        "outcome": made.outcome,
        "erased": made.erased,
        "arm": made.arm,
        "arm_name": naming.arm(made.arm) or None,
        "item": made.item,
        "context": None if made.context is None else naming.schema.decode(made.context),
        "propensity": made.propensity,
        "version": made.version,
        "reward": None if had is None else had.value,
        "reward_outcome": None if had is None else had.how,
        "coin": made.coin,
        "check": check,
    }
    return json.dumps(said, ensure_ascii=False) + "\n"


def _told(schema: Schema) -> list[Feature]:
    """Return the features that a context holds: the name of an item stands apart."""
    return [feature for feature in schema.features if not isinstance(feature, Id)]


def _csv_line(cells: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Give a cell; a text that a spreadsheet would reckon with is marked as text.

    Examples
    --------
    >>> _cell("=1+1"), _cell(-1.5), _cell("plain")
    ("'=1+1", -1.5, 'plain')
    """
    if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA):
        return f"'{value}"
    return "" if value is None else value


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


_EVENTS = ("GET /v1/agents/{agent}/events",)
PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/decisions", handle=listing, like=_EVENTS),
    # Beside the decisions, not below: any word below is a decision's id.
    Page(method="GET", path="/agents/{agent}/decisions.csv", handle=export_csv, like=_EVENTS),
    Page(method="GET", path="/agents/{agent}/decisions.jsonl", handle=export_lines, like=_EVENTS),
)

"""Limits: what was learned as a picture, the examples behind each cell, and taking one back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bridle.knowledge import Knowledge
from bridle.rules import describe
from bridle.service.pages.page import Html, Page, Redirect, Shown, Visit
from bridle.service.pages.picture import (
    Cell,
    Column,
    Row,
    Unit,
    columns_of,
    examples_behind,
    rows_of,
    rule_behind,
    units_of,
    without_part,
)
from bridle.service.pages.rendering import url
from bridle.service.pages.together import together
from bridle.service.pages.words import arm_words
from bridle.service.problems import Problem
from bridle.service.teaching import retract
from bridle.store.kept import Kept
from bridle.store.writing import Desk

__all__ = ["PAGES"]

ROWS = 50
COLUMNS = 40
RULES = 50
EXAMPLES = 50
FAR = 2**31

BELIEVED = "POST /v1/agents/{agent}/believed"
LISTED = "GET /v1/agents/{agent}/examples"
RETRACTED = "DELETE /v1/agents/{agent}/examples/{id}"


class _Ask(NamedTuple):
    """Which part of the picture."""

    find: str
    feature: str
    rows: int
    columns: int
    rules: int


async def limits(visit: Visit) -> Shown:
    """Show what was learned."""
    query = visit.query
    ask = _Ask(
        query.get("find")[:200],
        query.get("feature")[:200],
        *(query.whole(name, 0, low=0, high=FAR) for name in ("rows", "columns", "rules")),
    )
    found = await visit.service.do(visit.agent, lambda desk: _picture(desk.kept, ask))
    return Html("limits.html", {"agent": visit.agent, "ask": ask, **found})


def _picture(kept: Kept, ask: _Ask) -> dict[str, Any]:
    know = kept.know
    text = ask.feature.casefold()
    every = columns_of(know.settings.features)
    aside = without_part(know)
    columns = [c for c in every if c.at not in aside and text in c.name.casefold()]
    units = units_of(know, ask.find)
    shown = columns[ask.columns : ask.columns + COLUMNS]
    taught = bool(know.examples or know.rules)
    some = units[ask.rows : ask.rows + ROWS] if taught else []
    rows = rows_of(know, some, shown)
    rules = list(know.rules.values())
    return {
        "taught": taught,
        "examples": len(know.examples),
        "rows": rows,
        "columns": shown,
        "together": together(know, some, columns, kept.recent.contexts),
        "heads": _heads(shown),
        "units": len(units),
        "all_columns": len(columns),
        "groups": any(unit.group for unit in units[:ROWS]),
        "in_words": any(row.denied or row.unsure for row in rows),
        "aside": list(dict.fromkeys(c.feature for c in every if c.at in aside))[:20],
        "numbers": any(c.value not in (0.0, 1.0) for c in shown),
        "rules": [
            (rule.id, describe(rule), rule.note) for rule in rules[ask.rules : ask.rules + RULES]
        ],
        "all_rules": len(rules),
        "per": {"rows": ROWS, "columns": COLUMNS, "rules": RULES},
    }


def _heads(columns: list[Column]) -> list[tuple[str, int]]:
    """Give each feature with how many columns in a row are its own."""
    found: list[tuple[str, int]] = []
    for column in columns:
        if found and found[-1][0] == column.feature:
            found[-1] = column.feature, found[-1][1] + 1
        else:
            found.append((column.feature, 1))
    return found


# -- one cell --------------------------------------------------------------------------------


class _Behind(NamedTuple):
    """An example, for the template."""

    id: int | str
    context: dict[str, object]
    arm: str
    allowed: bool
    by: str | None
    note: str | None


class _Place(NamedTuple):
    """A cell, by its unit and its column; without a column, all of the unit."""

    unit: int
    column: int | None
    after: int


async def cell(visit: Visit) -> Shown:
    """Show the examples behind a cell."""
    query = visit.query
    place = _Place(
        query.whole("unit", 0, low=0, high=FAR),
        query.whole("column", low=0, high=FAR) if query.get("column") else None,
        query.whole("after", 0, low=0, high=FAR),
    )
    found = await visit.service.do(visit.agent, lambda desk: _behind(desk, place))
    return Html("limits-cell.html", {"agent": visit.agent, "place": place, **found})


def _behind(desk: Desk, place: _Place) -> dict[str, Any]:
    know = desk.kept.know
    columns = columns_of(know.settings.features)
    units = know.believing.limits.units
    if place.unit >= units or (place.column is not None and place.column >= len(columns)):
        raise Problem("not_found", "There is no such cell.", remedy="Go back to the picture.")
    column = None if place.column is None else columns[place.column]
    unit = _unit(know, place.unit)
    some, total, of_unit = examples_behind(know, place.unit, column, place.after, EXAMPLES)
    believed, rules = _believed(know, unit, column)
    decode = know.settings.features.decode
    return {
        "unit": unit,
        "column": column,
        "cell": believed,
        "rules": rules,
        "behind": [
            _Behind(
                one.id, decode(np.frombuffer(one.context)), arm_words(know.arms[one.arm]),
                one.allowed, one.by, one.note,
            )
            for one in some
        ],
        "total": total,
        "of_unit": of_unit,
        "per": EXAMPLES,
    }  # fmt: skip


def _unit(know: Knowledge, number: int) -> Unit:
    return next(unit for unit in units_of(know) if unit.number == number)


def _believed(
    know: Knowledge, unit: Unit, column: Column | None
) -> tuple[Cell | None, list[tuple[str, str, str]]]:
    if column is None:
        return None, []
    row: Row = rows_of(know, [unit], [column])[0]
    rules = [one.rule for one in rule_behind(know, unit.number, column)[:EXAMPLES]]
    return row.cells[0], [(rule.id, describe(rule), rule.note) for rule in rules]


async def take_back(visit: Visit) -> Shown:
    """Take an example back, and show the cell again."""
    form = visit.form
    place = {name: form.get(name)[:20] for name in ("unit", "column")}
    await visit.api(retract, id=form.need("id"))
    return Redirect(url("agents", visit.agent, "limits", "cell", **place, said="retracted"))


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/limits", handle=limits, like=(BELIEVED,)),
    Page(method="GET", path="/agents/{agent}/limits/cell", handle=cell, like=(BELIEVED, LISTED)),
    Page(
        method="POST", path="/agents/{agent}/limits/retract", handle=take_back, like=(RETRACTED,)
    ),
)  # fmt: skip

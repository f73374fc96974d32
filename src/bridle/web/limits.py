"""What was learned as a picture: a row for each arm or group, a column for each thing to hold.

A cell is what is believed of a context that holds just that, with all else neutral: no flag, no
word, and numbers in the middle of their range. All of it is read on the writer's thread, so rows
and columns of a page are bounded.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple, assert_never

import numpy as np
import numpy.typing as npt

from bridle.agent.config import Arm
from bridle.agent.limits_state import Example
from bridle.agent.queries import (
    DENIED_HERE,
    DENIED_ITEM,
    NOT_CERTIFIED,
    SURELY_DENIED,
    UNSURE,
    sentences_of,
)
from bridle.agent.state import AgentState
from bridle.api.replies import ArmBelieved, BelievedShown
from bridle.api.requests import WhatIf
from bridle.errors import InvalidValue
from bridle.kernels import doubt
from bridle.kernels.types import Bools, Floats
from bridle.limits import Beliefs
from bridle.limits.declared import CompiledRule, denied_arms, describe
from bridle.schema import Category, Flag, Labels, Number, Schema
from bridle.server.handlers.explanations import believed
from bridle.server.handlers.teaching import retract
from bridle.server.problems import Problem
from bridle.store.aggregate import Aggregate
from bridle.store.writer import UnitOfWork
from bridle.web.decisions import guess_words, is_untaught
from bridle.web.forms import MOST_FIELDS, PREFIX, context_from, fields_of, is_given
from bridle.web.page import Html, Page, Redirect, Shown, Visit
from bridle.web.rendering import (
    arm_words,
    item_from,
    number_words,
    schema_context_words,
    url,
)

__all__ = [
    "PAGES",
    "Cell",
    "Column",
    "NotablePairs",
    "Pair",
    "Row",
    "Unit",
    "cells_of",
    "columns_of",
    "examples_behind",
    "neutral_row",
    "notable_pairs",
    "row_of",
    "rows_of",
    "rule_behind",
    "units_of",
    "without_part",
]

MARKS = {doubt.SAFE: "yes", doubt.UNSURE: "unsure", doubt.DENIED: "no"}
MOST_TERMS = 50_000  # of all rows of a page together, that are put into words
LEVELS = 10


class Column(NamedTuple):
    """One thing that a context can hold.

    Attributes
    ----------
    number : int
        Its index among all columns of the picture, used in links.
    feature, word : str
        The name of the feature, and its value in words.
    at : int
        The column of an encoded context.
    value, low, high : float
        The encoded value, and the range in which an example belongs to the column.
    """

    number: int
    feature: str
    word: str
    at: int
    value: float
    low: float
    high: float

    @property
    def name(self) -> str:
        """The column in words."""
        return self.feature if self.word == "yes" else f"{self.feature} {self.word}"


class Unit(NamedTuple):
    """An arm, or a group of arms that share their limits."""

    number: int
    name: str
    arms: int
    group: bool


class Cell(NamedTuple):
    """What is believed: `mark` is "yes", "no" or "unsure"; `level` is p in tenths.

    `rule` is "all" where a declared rule denies it, "some" where one does to some of the arms.
    """

    p: float
    mark: str
    level: int
    rule: str


class Row(NamedTuple):
    """A unit with its cells, how many examples it has, and its limits in words."""

    unit: Unit
    cells: tuple[Cell, ...]
    examples: int
    denied: tuple[str, ...]
    unsure: tuple[str, ...]


# -- columns ---------------------------------------------------------------------------------


def columns_of(schema: Schema) -> list[Column]:
    """Return all columns of the picture.

    Examples
    --------
    >>> schema = Schema([Flag("late"), Category("age", ["12-17", "18+"]), Number("kg", 0, 90)])
    >>> [column.name for column in columns_of(schema)]
    ['late', 'age 12-17', 'age 18+', 'kg 0', 'kg 45', 'kg 90']
    """
    found: list[Column] = []
    for feature, at in schema.encoded:
        if isinstance(feature, Flag):
            found.append(Column(len(found), feature.name, "yes", at, 1.0, 0.5, math.inf))
        elif isinstance(feature, Number):
            found += _number_columns(feature, at, len(found))
        elif isinstance(feature, Category | Labels):
            found += [
                Column(len(found) + n, feature.name, word, at + n, 1.0, 0.5, math.inf)
                for n, word in enumerate(feature.values)
            ]
        else:
            assert_never(feature)
    return found


def _number_columns(feature: Number, at: int, first: int) -> list[Column]:
    """Return both ends and the middle; 1 for a number of any size, which may be a flag."""
    if feature.low is None or feature.high is None:
        return [Column(first, feature.name, "1", at, 1.0, 0.5, math.inf)]
    middle = feature.low + (feature.high - feature.low) / 2
    thirds = (-math.inf, 1 / 3, 2 / 3, math.inf)
    unit = f" {feature.unit}" if feature.unit else ""
    return [
        Column(
            first + n,
            feature.name,
            f"{number_words(value)}{unit}",
            at,
            n / 2,
            thirds[n],
            thirds[n + 1],
        )
        for n, value in enumerate((feature.low, middle, feature.high))
    ]


def row_of(schema: Schema, column: Column) -> Floats:
    """Return the encoded context that holds just this."""
    row = neutral_row(schema)
    row[column.at] = column.value
    return row


def neutral_row(schema: Schema) -> Floats:
    """Return the encoded context that holds nothing."""
    row = np.zeros(schema.width)
    for feature, at in schema.numbers:
        raw = feature.missing
        rest = 0.0 if feature.low is None else 0.5
        row[at] = rest if raw is None else feature.scale(raw)
    return row


def without_part(state: AgentState) -> set[int]:
    """Return the columns of a context that play no part: numbers, where all limits are rules."""
    named = {column for rule in state.compiled_rules for column, _, _ in rule.conditions}
    return state.limits_state.limits.unused_columns - named


# -- rows ------------------------------------------------------------------------------------


def units_of(state: AgentState, wanted: str = "") -> list[Unit]:
    """Return the units whose name, or that of one of their arms, contains a text; in order."""
    unit_of = state.limits_state.unit_of.tolist()
    shared = state.settings.share == "group" and state.limits_state.limits.shares_groups
    sizes = np.bincount(state.limits_state.unit_of).tolist()
    text = wanted.casefold()
    found: dict[int, Unit] = {}
    firsts: dict[int, str] = {}
    for u, arm in zip(unit_of, state.arms, strict=True):
        group = arm.group if shared else None
        first = firsts.setdefault(u, group if group is not None else arm.label)
        if u in found:
            continue
        if not text or text in arm.label.casefold() or text in (arm.group or "").casefold():
            found[u] = Unit(u, first, sizes[u], group is not None)
    return [found[u] for u in sorted(found)]


def rows_of(state: AgentState, units: Sequence[Unit], columns: Sequence[Column]) -> list[Row]:
    """Return the rows of some units."""
    limits_state, schema = state.limits_state, state.settings.features
    by_column = cells_of(state, units, [row_of(schema, column) for column in columns])
    words = _Words(state, len(units))
    return [
        Row(
            unit,
            tuple(mine[n] for mine in by_column),
            len(limits_state.examples_of(unit.number)),
            *words.of(unit.number),
        )
        for n, unit in enumerate(units)
    ]


def cells_of(state: AgentState, units: Sequence[Unit], rows: Sequence[Floats]) -> list[list[Cell]]:
    """Return, for each encoded context, what is believed of each unit there."""
    members = [np.flatnonzero(state.limits_state.unit_of == unit.number) for unit in units]
    found: list[list[Cell]] = []
    for row in rows:
        seen = state.limits_state.seen(row.tobytes())
        denied = denied_arms(state.compiled_rules, row, len(state.arms))
        said = state.said(row, state.offered(row, None))
        found.append(
            [
                _cell(float(seen.p[arms[0]]), int(seen.marks[arms[0]]), denied[arms], said[arms])
                for arms in members
            ]
        )
    return found


def _cell(p: float, mark: int, denied: Bools, said: npt.NDArray[np.int8]) -> Cell:
    """Return a cell; what rules deny, or a teacher said of just this, to all arms is certain."""
    if denied.all():
        return Cell(0.0, "no", 0, "all")
    if (said == doubt.SAID_NO).all():
        return Cell(0.0, "no", 0, "some" if denied.any() else "")
    if (said == doubt.SAID_YES).all():
        return Cell(1.0, "yes", LEVELS, "")
    return Cell(p, MARKS[mark], round(p * LEVELS), "some" if denied.any() else "")


class _Words:
    """Limits as lists of what is denied and what is unsure; empty where they are no rules."""

    def __init__(self, state: AgentState, units: int) -> None:
        limits = state.limits_state.limits
        self._read: Beliefs | None = None
        self._names = state.settings.features.columns
        self._short: set[str] = set()
        terms = limits.terms
        if terms is not None and len(terms) * units <= MOST_TERMS:
            self._read = limits
            self._short = set(terms.names(self._names)[: terms.singles])

    def of(self, unit: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what is denied, and what is unsure of single things: pairs would be too many."""
        if self._read is None or self._read.by_degrees(unit):
            return (), ()
        said = self._read.describe(unit, self._names)
        return said.denied, tuple(word for word in said.unsure if word in self._short)


# -- what is behind a cell -------------------------------------------------------------------


def examples_behind(
    state: AgentState, unit: int, column: Column | None, after: int, limit: int
) -> tuple[list[Example], int, int]:
    """Return examples of a unit that hold what a column is about, the latest first.

    Returns
    -------
    list of Example, int, int
        Some of them, how many there are, and how many the unit has in all.
    """
    every = state.limits_state.examples_of(unit)
    found = every
    if column is not None:
        at, low, high = 8 * column.at, column.low, column.high
        values = (struct.unpack_from("d", one.context, at)[0] for one in every)
        found = [one for one, value in zip(every, values, strict=True) if low <= value <= high]
    last = len(found) - after
    return found[max(last - limit, 0) : max(last, 0)][::-1], len(found), len(every)


def rule_behind(state: AgentState, unit: int, column: Column) -> list[CompiledRule]:
    """Return the declared rules that deny an arm of a unit where just this holds."""
    row = row_of(state.settings.features, column)
    arms = state.limits_state.unit_of == unit
    return [rule for rule in state.compiled_rules if rule.denied(row) and (rule.arms & arms).any()]


# --- Pairs of which something else is believed than of each alone: no cell can show them ---
#
# All pairs would be too many. Only pairs out of examples and recent contexts are examined, and of
# them so many that the page stays quick.


MOST_PAIRS = 200  # that are examined
MOST_CELLS = 4_000  # pairs and units together
FEWEST_PAIRS = 20
MOST_SHOWN = 30
MOST_EXAMPLES = 200  # whose pairs count
MOST_HELD = 12  # things of one context
FAR = 0.25  # a probability that differs by so much from both alone is shown
DENIED = 1_000  # the weight of a pair that was denied: before all that only occurred


class Pair(NamedTuple):
    """Two things that a context can hold, and what is believed of a unit with both and each."""

    unit: Unit
    name: str
    cell: Cell
    alone: tuple[Cell, Cell]


class NotablePairs(NamedTuple):
    """The pairs to show, and how many were examined."""

    pairs: list[Pair]
    looked_at: int


def notable_pairs(
    state: AgentState, units: Sequence[Unit], columns: Sequence[Column], recent: Iterable[bytes]
) -> NotablePairs:
    """Return pairs of columns of which something else is believed than of each alone."""
    if not units:
        return NotablePairs([], 0)
    most = max(FEWEST_PAIRS, min(MOST_PAIRS, MOST_CELLS // state.limits_state.limits.units))
    met = _pair_counts(state, units, columns, recent)
    pairs = [pair for pair, _ in met.most_common(most)]
    schema = state.settings.features
    by_number = {column.number: column for column in columns}
    numbers = sorted({number for pair in pairs for number in pair})
    alone = cells_of(state, units, [row_of(schema, by_number[number]) for number in numbers])
    single = dict(zip(numbers, alone, strict=True))
    rows = [_row(schema, by_number[one], by_number[two]) for one, two in pairs]
    found: list[Pair] = []
    for (one, two), both in zip(pairs, cells_of(state, units, rows), strict=True):
        name = f"{by_number[one].name} with {by_number[two].name}"
        each = zip(units, both, single[one], single[two], strict=True)
        found += [
            Pair(unit, name, cell, (a, b))
            for unit, cell, a, b in each
            if _is_notable(cell, a, b) and (cell.rule or state.limits_state.taught(unit.number))
        ]
    found.sort(key=lambda pair: pair.cell.p - min(cell.p for cell in pair.alone))
    return NotablePairs(found[:MOST_SHOWN], len(pairs))


def _is_notable(cell: Cell, one: Cell, two: Cell) -> bool:
    """Whether neither thing alone predicts what is believed of both."""
    if cell.mark != "yes" and one.mark == two.mark == "yes":
        return True
    return min(abs(cell.p - one.p), abs(cell.p - two.p)) > FAR


def _row(schema: Schema, one: Column, two: Column) -> Floats:
    row = row_of(schema, one)
    row[two.at] = two.value
    return row


def _pair_counts(
    state: AgentState, units: Sequence[Unit], columns: Sequence[Column], recent: Iterable[bytes]
) -> Counter[tuple[int, int]]:
    """Count how often pairs of columns, by their numbers, occurred."""
    rest = neutral_row(state.settings.features)
    # A number in the middle of its range is neutral: that is so in every cell.
    movable = [column for column in columns if column.value != rest[column.at]]
    met: Counter[tuple[int, int]] = Counter()
    for raw, weight in (*_taught(state, units), *((raw, 1) for raw in recent)):
        row = np.frombuffer(raw)
        held = [c for c in movable if c.low <= row[c.at] <= c.high][:MOST_HELD]
        for one, two in combinations(held, 2):
            if one.at != two.at:
                met[one.number, two.number] += weight
    return met


def _taught(state: AgentState, units: Sequence[Unit]) -> Iterator[tuple[bytes, int]]:
    """Yield contexts of the last examples of each unit, and of its last denials."""
    each = max(4, MOST_EXAMPLES // len(units))
    for unit in units:
        mine: list[Example] = state.limits_state.examples_of(unit.number)
        denied = [one for one in mine[-10 * MOST_EXAMPLES :] if not one.allowed]
        yield from ((one.context, DENIED) for one in denied[-each:])
        yield from ((one.context, 1) for one in mine[-each:])


# --- The pages: the picture, the examples behind a cell, and retracting one ---


ROWS = 50
COLUMNS = 40
# A column is read for all arms at once: of so many arms there are fewer on a page.
MANY_ARMS, FEW_COLUMNS = 5_000, 10
SENTENCES = 50
RULES = 50
EXAMPLES = 50
_MOST_PLACES = 2**31

BELIEVED = "POST /v1/agents/{agent}/believed"
LISTED = "GET /v1/agents/{agent}/examples"
RETRACTED = "DELETE /v1/agents/{agent}/examples/{id}"


class _View(NamedTuple):
    """The part of the picture to show."""

    find: str
    feature: str
    rows: int
    columns: int
    rules: int


async def limits(visit: Visit) -> Shown:
    """Show what was learned."""
    query = visit.query
    ask = _View(
        query.get("find")[:200],
        query.get("feature")[:200],
        *(query.whole(name, 0, low=0, high=_MOST_PLACES) for name in ("rows", "columns", "rules")),
    )
    found = await visit.service.do(visit.agent, lambda work: _picture(work.aggregate, ask))
    return Html("limits.html", {"agent": visit.agent, "ask": ask, **found})


def _picture(aggregate: Aggregate, ask: _View) -> dict[str, Any]:
    state = aggregate.state
    text = ask.feature.casefold()
    every = columns_of(state.settings.features)
    aside = without_part(state)
    columns = [c for c in every if c.at not in aside and text in c.name.casefold()]
    units = units_of(state, ask.find)
    per = COLUMNS if len(state.arms) <= MANY_ARMS else FEW_COLUMNS
    shown = columns[ask.columns : ask.columns + per]
    pairs = state.limits_state.pairs
    # Limits over pairs are one for all arms, and read back as such.
    said = sentences_of(state) if taught_pairs(state) else []
    taught = bool(state.examples or state.rules)
    some = units[ask.rows : ask.rows + ROWS] if taught else []
    rows = rows_of(state, some, shown)
    rules = list(state.rules.values())
    return {
        "taught": taught,
        "examples": len(state.examples),
        "rows": rows,
        "columns": shown,
        "together": NotablePairs([], 0)
        if pairs is not None
        else notable_pairs(state, some, columns, aggregate.recent.contexts),
        "sentences": said[:SENTENCES],
        "all_sentences": len(said),
        "heads": _heads(shown),
        "units": len(units),
        "all_columns": len(columns),
        "groups": any(unit.group for unit in units[:ROWS]),
        "in_words": pairs is None and any(row.denied or row.unsure for row in rows),
        "aside": list(dict.fromkeys(c.feature for c in every if c.at in aside))[:20],
        "numbers": any(c.value not in (0.0, 1.0) for c in shown),
        "rules": [
            (rule.id, describe(rule), rule.note) for rule in rules[ask.rules : ask.rules + RULES]
        ],
        "all_rules": len(rules),
        "per": {"rows": ROWS, "columns": per, "rules": RULES},
    }


def taught_pairs(state: AgentState) -> bool:
    """Whether examples taught limits over pairs that can be put into sentences."""
    pairs = state.limits_state.pairs
    return pairs is not None and pairs.has_sentences and bool(state.examples)


def _heads(columns: list[Column]) -> list[tuple[str, int]]:
    """Return each feature with the number of its columns in a row."""
    found: list[tuple[str, int]] = []
    for column in columns:
        if found and found[-1][0] == column.feature:
            found[-1] = column.feature, found[-1][1] + 1
        else:
            found.append((column.feature, 1))
    return found


# -- one cell --------------------------------------------------------------------------------


class _ExampleRow(NamedTuple):
    """An example, for the template."""

    id: int | str
    context: dict[str, object]
    arm: str
    allowed: bool
    by: str | None
    note: str | None


class _CellQuery(NamedTuple):
    """A cell, by its unit and its column; without a column, all of the unit."""

    unit: int
    column: int | None
    after: int


async def cell(visit: Visit) -> Shown:
    """Show the examples behind a cell."""
    query = visit.query
    place = _CellQuery(
        query.whole("unit", 0, low=0, high=_MOST_PLACES),
        query.whole("column", low=0, high=_MOST_PLACES) if query.get("column") else None,
        query.whole("after", 0, low=0, high=_MOST_PLACES),
    )
    found = await visit.service.do(visit.agent, lambda work: _cell_page(work, place))
    return Html("limits-cell.html", {"agent": visit.agent, "place": place, **found})


def _cell_page(work: UnitOfWork, place: _CellQuery) -> dict[str, Any]:
    state = work.aggregate.state
    columns = columns_of(state.settings.features)
    units = state.limits_state.limits.units
    if place.unit >= units or (place.column is not None and place.column >= len(columns)):
        raise Problem("not_found", "There is no such cell.", remedy="Go back to the picture.")
    column = None if place.column is None else columns[place.column]
    unit = _unit(state, place.unit)
    some, total, of_unit = examples_behind(state, place.unit, column, place.after, EXAMPLES)
    believed, rules = _believed(state, unit, column)
    decode = state.settings.features.decode
    return {
        "unit": unit,
        "column": column,
        "cell": believed,
        "rules": rules,
        "behind": [
            _ExampleRow(
                one.id,
                decode(np.frombuffer(one.context)),
                arm_words(state.arms[one.arm]),
                one.allowed,
                one.by,
                one.note,
            )
            for one in some
        ],
        "total": total,
        "of_unit": of_unit,
        "per": EXAMPLES,
    }


def _unit(state: AgentState, number: int) -> Unit:
    return next(unit for unit in units_of(state) if unit.number == number)


def _believed(
    state: AgentState, unit: Unit, column: Column | None
) -> tuple[Cell | None, list[tuple[str, str, str]]]:
    if column is None:
        return None, []
    row: Row = rows_of(state, [unit], [column])[0]
    rules = [one.rule for one in rule_behind(state, unit.number, column)[:EXAMPLES]]
    return row.cells[0], [(rule.id, describe(rule), rule.note) for rule in rules]


async def retract_example(visit: Visit) -> Shown:
    """Retract an example, and show the cell again."""
    form = visit.form
    place = {name: form.get(name)[:20] for name in ("unit", "column")}
    await visit.api(retract, id=form.need("id"))
    return Redirect(url("agents", visit.agent, "limits", "cell", **place, said="retracted"))


# --- What if: a context by hand, which arms would be allowed in it, and why ---------------


ARMS = 50
SHOWS = {"all": "All arms", "allowed": "Allowed", "doubt": "In doubt", "denied": "Not allowed"}
WHY = {
    DENIED_HERE: "A teacher said no in this very situation.",
    DENIED_ITEM: "A teacher said no to it for this item.",
    NOT_CERTIFIED: "The certificate does not cover it.",
    UNSURE: "What was taught does not make it sure.",
    SURELY_DENIED: "What was taught rules it out.",
}
# Above this a belief is mostly extrapolated from other examples.
MOSTLY_NEW = 0.5


class _Agent(NamedTuple):
    """What the page needs of the agent."""

    schema: Schema
    arms: Sequence[Arm]
    unit_of: list[int]
    taught: bool
    bound: bool  # whether it plays only what is surely allowed
    items: bool  # whether items have names


class ArmRow(NamedTuple):
    """An arm, for the template; `mark` is "yes", "no" or "unsure"."""

    name: str
    unit: int
    p: float
    guess: str  # in place of a probability that only looks certain
    mark: str
    why: str
    unseen: str


async def what_if(visit: Visit) -> Shown:
    """Show the form and, once it is filled in, what would be allowed."""
    query = visit.query
    show = query.get("show") if query.get("show") in SHOWS else "all"
    after = query.whole("after", 0, low=0, high=_MOST_PLACES)
    find = query.get("find")[:200]
    agent = await visit.service.do(visit.agent, _read_agent)
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
        return Html("limits-what-if.html", values)
    try:
        context = context_from(agent.schema, query)
        form = WhatIf(context=context, item=item_from(item))  # type: ignore[arg-type]
        answer: BelievedShown = await visit.api(believed, body=form)
    except (Problem, InvalidValue) as problem:
        values["wrong"] = problem
        return Html("limits-what-if.html", values, 422)
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
    return Html("limits-what-if.html", values)


def _read_agent(work: UnitOfWork) -> _Agent:
    state = work.aggregate.state
    return _Agent(
        state.settings.features,
        state.arms,
        state.limits_state.unit_of.tolist(),
        bool(state.examples or state.rules),
        state.policy.needs_limits,
        not state.settings.legacy,
    )


def _lines(agent: _Agent, arms: Sequence[ArmBelieved]) -> list[ArmRow]:
    """Return the arms: those that are allowed first, then by how likely that is."""
    # An arm that was added between the two reads has no name yet.
    each = zip(arms, agent.arms, agent.unit_of, strict=False)
    found = [
        ArmRow(
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


def _wanted(line: ArmRow, show: str, find: str) -> bool:
    if find and find.casefold() not in line.name.casefold():
        return False
    return show == "all" or line.mark == {"allowed": "yes", "doubt": "unsure", "denied": "no"}[show]


def _carried(visit: Visit, show: str, find: str) -> dict[str, Any]:
    """Return the query that links to other parts of the list carry along."""
    query: dict[str, Any] = {}
    for name, value in visit.query:
        if name.startswith(PREFIX):
            query.setdefault(name, []).append(value)
    return query | {"show": show, "find": find}


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/limits", handle=limits, like=(BELIEVED,)),
    Page(method="GET", path="/agents/{agent}/limits/cell", handle=cell, like=(BELIEVED, LISTED)),
    Page(
        method="POST",
        path="/agents/{agent}/limits/retract",
        handle=retract_example,
        like=(RETRACTED,),
    ),
    Page(method="GET", path="/agents/{agent}/limits/what-if", handle=what_if, like=(BELIEVED,)),
)

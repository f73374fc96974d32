"""What was learned as a picture: a row for each arm or group, a column for each thing to hold.

A cell is what is believed of a context that holds just that, with all else at rest: no flag, no
word, and numbers in the middle of their range. All of it is read on the writer's thread, so each
look is bounded by how many rows and columns are shown.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.believing import Example
from bridle.features import Flag, Id, Number, Schema
from bridle.kernels import doubt
from bridle.kernels.types import Bools, Floats
from bridle.knowledge import Knowledge
from bridle.limits import FoundLimits, LinearLimits, Mixed, RuleLimits
from bridle.rules import CompiledRule, denied_arms
from bridle.service.pages.words import number_words

__all__ = [
    "Cell",
    "Column",
    "Row",
    "Unit",
    "cells_of",
    "columns_of",
    "examples_behind",
    "rest_of",
    "row_of",
    "rows_of",
    "rule_behind",
    "units_of",
    "without_part",
]

MARKS = {doubt.SAFE: "yes", doubt.UNSURE: "unsure", doubt.DENIED: "no"}
MOST_TERMS = 50_000  # of all rows of a page together, that are read back in words
LEVELS = 10


class Column(NamedTuple):
    """One thing that a context can hold.

    Attributes
    ----------
    number : int
        Its place among all columns of the picture, by which links name it.
    feature, word : str
        The feature's name, and what of it.
    at : int
        The column of an encoded context.
    value, low, high : float
        What stands there, and the range in which an example is one of this.
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
        """What it is, in words."""
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
    """Give all columns of the picture.

    Examples
    --------
    >>> from bridle.features import Category
    >>> schema = Schema([Flag("late"), Category("age", ["12-17", "18+"]), Number("kg", 0, 90)])
    >>> [column.name for column in columns_of(schema)]
    ['late', 'age 12-17', 'age 18+', 'kg 0', 'kg 45', 'kg 90']
    """
    found: list[Column] = []
    for feature in schema.features:
        at = schema.place(feature.name)[1]
        if isinstance(feature, Flag):
            found.append(Column(len(found), feature.name, "yes", at, 1.0, 0.5, math.inf))
        elif isinstance(feature, Number):
            found += _of_number(feature, at, len(found))
        elif not isinstance(feature, Id):
            found += [
                Column(len(found) + n, feature.name, word, at + n, 1.0, 0.5, math.inf)
                for n, word in enumerate(feature.values)
            ]
    return found


def _of_number(feature: Number, at: int, first: int) -> list[Column]:
    """Both ends and the middle; 1 for a number of any size, which may be a flag in disguise."""
    if feature.low is None or feature.high is None:
        return [Column(first, feature.name, "1", at, 1.0, 0.5, math.inf)]
    middle = feature.low + (feature.high - feature.low) / 2
    thirds = (-math.inf, 1 / 3, 2 / 3, math.inf)
    unit = f" {feature.unit}" if feature.unit else ""
    return [
        Column(
            first + n, feature.name, f"{number_words(value)}{unit}", at, n / 2, thirds[n],
            thirds[n + 1],
        )
        for n, value in enumerate((feature.low, middle, feature.high))
    ]  # fmt: skip


def row_of(schema: Schema, column: Column) -> Floats:
    """Give the encoded context that holds just this."""
    row = rest_of(schema)
    row[column.at] = column.value
    return row


def rest_of(schema: Schema) -> Floats:
    """Give the encoded context that holds nothing."""
    row = np.zeros(schema.width)
    for feature in schema.features:
        if isinstance(feature, Number):
            raw = feature.missing
            rest = 0.0 if feature.low is None else 0.5
            row[schema.place(feature.name)[1]] = rest if raw is None else feature.scale(raw)
    return row


def without_part(know: Knowledge) -> set[int]:
    """Give the columns of a context that play no part: numbers, where all limits are rules."""
    limits = know.believing.limits
    if not isinstance(limits, RuleLimits | FoundLimits):
        return set()
    named = {column for rule in know.compiled_rules for column, _, _ in rule.conditions}
    return set(range(limits.features)) - set(limits.terms.columns.tolist()) - named


# -- rows ------------------------------------------------------------------------------------


def units_of(know: Knowledge, wanted: str = "") -> list[Unit]:
    """Give all units whose name, or that of one of their arms, holds a text; in order."""
    unit_of = know.believing.unit_of.tolist()
    alone = isinstance(know.believing.limits, FoundLimits | LinearLimits)  # whatever the groups
    shared = know.settings.share == "group" and not alone
    sizes = np.bincount(know.believing.unit_of).tolist()
    text = wanted.casefold()
    found: dict[int, Unit] = {}
    firsts: dict[int, str] = {}
    for u, arm in zip(unit_of, know.arms, strict=True):
        group = arm.group if shared else None
        first = firsts.setdefault(u, group if group is not None else arm.label)
        if u in found:
            continue
        if not text or text in arm.label.casefold() or text in (arm.group or "").casefold():
            found[u] = Unit(u, first, sizes[u], group is not None)
    return [found[u] for u in sorted(found)]


def rows_of(know: Knowledge, units: Sequence[Unit], columns: Sequence[Column]) -> list[Row]:
    """Give the rows of some units."""
    believing, schema = know.believing, know.settings.features
    by_column = cells_of(know, units, [row_of(schema, column) for column in columns])
    words = _Words(know, len(units))
    return [
        Row(
            unit, tuple(mine[n] for mine in by_column), len(believing.examples_of(unit.number)),
            *words.of(unit.number),
        )
        for n, unit in enumerate(units)
    ]  # fmt: skip


def cells_of(know: Knowledge, units: Sequence[Unit], rows: Sequence[Floats]) -> list[list[Cell]]:
    """Give, for each encoded context, what is believed of each unit there."""
    members = [np.flatnonzero(know.believing.unit_of == unit.number) for unit in units]
    found: list[list[Cell]] = []
    for row in rows:
        seen = know.believing.seen(row.tobytes())
        denied = denied_arms(know.compiled_rules, row, len(know.arms))
        said = know.said(row, know.offered(row, None))
        found.append([
            _cell(float(seen.p[arms[0]]), int(seen.marks[arms[0]]), denied[arms], said[arms])
            for arms in members
        ])  # fmt: skip
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
    """Limits read back as what is denied and what is unsure; nothing where they are no rules."""

    def __init__(self, know: Knowledge, units: int) -> None:
        limits = know.believing.limits
        self._read: RuleLimits | Mixed | FoundLimits | None = None
        self._names = know.settings.features.columns
        self._short: set[str] = set()
        terms = limits.terms if isinstance(limits, RuleLimits | FoundLimits | Mixed) else None
        if terms is not None and len(terms) * units <= MOST_TERMS:
            self._read = limits  # type: ignore[assignment]
            self._short = set(terms.names(self._names)[: terms.singles])

    def of(self, unit: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Give what is denied; and what is unsure, of single things: pairs would be too many."""
        if self._read is None or (isinstance(self._read, Mixed) and self._read.by_degrees(unit)):
            return (), ()
        said = self._read.describe(unit, self._names)
        return said.denied, tuple(word for word in said.unsure if word in self._short)


# -- what is behind a cell -------------------------------------------------------------------


def examples_behind(
    know: Knowledge, unit: int, column: Column | None, after: int, limit: int
) -> tuple[list[Example], int, int]:
    """Give examples of a unit that hold what a column is about, the latest first.

    Returns
    -------
    list of Example, int, int
        Some of them, how many there are, and how many the unit has in all.
    """
    every = know.believing.examples_of(unit)
    found = every
    if column is not None:
        at, low, high = 8 * column.at, column.low, column.high
        values = (struct.unpack_from("d", one.context, at)[0] for one in every)
        found = [one for one, value in zip(every, values, strict=True) if low <= value <= high]
    last = len(found) - after
    return found[max(last - limit, 0) : max(last, 0)][::-1], len(found), len(every)


def rule_behind(know: Knowledge, unit: int, column: Column) -> list[CompiledRule]:
    """Give the declared rules that deny an arm of a unit where just this holds."""
    row = row_of(know.settings.features, column)
    arms = know.believing.unit_of == unit
    return [rule for rule in know.compiled_rules if rule.denied(row) and (rule.arms & arms).any()]

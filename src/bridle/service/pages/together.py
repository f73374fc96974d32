"""What is believed otherwise of two things together than of each alone: what no cell can show.

All pairs would be too many. Those are looked at that examples or contexts met of late hold, and of
them only so many that a look at the page stays short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from bridle.believing import Example
from bridle.features import Schema
from bridle.kernels.types import Floats
from bridle.knowledge import Knowledge
from bridle.service.pages.picture import Cell, Column, Unit, cells_of, rest_of, row_of

__all__ = ["Pair", "Together", "together"]

MOST_PAIRS = 200  # that are looked at
MOST_CELLS = 4_000  # pairs and units together
FEWEST_PAIRS = 20
MOST_SHOWN = 30
MOST_EXAMPLES = 200  # whose pairs count
MOST_HELD = 12  # things of one context
FAR = 0.25  # a chance that differs by so much from both alone is worth telling
DENIED = 1_000  # a pair that was denied once comes before all that was only met


class Pair(NamedTuple):
    """Two things that a context can hold, and what is believed of a unit there and of each."""

    unit: Unit
    name: str
    cell: Cell
    alone: tuple[Cell, Cell]


class Together(NamedTuple):
    """The pairs to show, and how many were looked at."""

    pairs: list[Pair]
    looked_at: int


def together(
    know: Knowledge, units: Sequence[Unit], columns: Sequence[Column], recent: Iterable[bytes]
) -> Together:
    """Give pairs of columns of which something else is believed than of each alone."""
    if not units:
        return Together([], 0)
    most = max(FEWEST_PAIRS, min(MOST_PAIRS, MOST_CELLS // know.believing.limits.units))
    met = _met(know, units, columns, recent)
    pairs = [pair for pair, _ in met.most_common(most)]
    schema = know.settings.features
    by_number = {column.number: column for column in columns}
    numbers = sorted({number for pair in pairs for number in pair})
    alone = cells_of(know, units, [row_of(schema, by_number[number]) for number in numbers])
    single = dict(zip(numbers, alone, strict=True))
    rows = [_row(schema, by_number[one], by_number[two]) for one, two in pairs]
    found: list[Pair] = []
    for (one, two), both in zip(pairs, cells_of(know, units, rows), strict=True):
        name = f"{by_number[one].name} with {by_number[two].name}"
        each = zip(units, both, single[one], single[two], strict=True)
        found += [
            Pair(unit, name, cell, (a, b))
            for unit, cell, a, b in each
            if _tells(cell, a, b) and (cell.rule or know.believing.taught(unit.number))
        ]
    found.sort(key=lambda pair: pair.cell.p - min(cell.p for cell in pair.alone))
    return Together(found[:MOST_SHOWN], len(pairs))


def _tells(cell: Cell, one: Cell, two: Cell) -> bool:
    """Whether neither thing alone lets one expect what is believed of both."""
    if cell.mark != "yes" and one.mark == two.mark == "yes":
        return True
    return min(abs(cell.p - one.p), abs(cell.p - two.p)) > FAR


def _row(schema: Schema, one: Column, two: Column) -> Floats:
    row = row_of(schema, one)
    row[two.at] = two.value
    return row


def _met(
    know: Knowledge, units: Sequence[Unit], columns: Sequence[Column], recent: Iterable[bytes]
) -> Counter[tuple[int, int]]:
    """Count how often pairs of columns, by their numbers, were met."""
    rest = rest_of(know.settings.features)
    # A number in the middle of its range is at rest: that is so in every cell.
    told = [column for column in columns if column.value != rest[column.at]]
    met: Counter[tuple[int, int]] = Counter()
    for raw, weight in (*_taught(know, units), *((raw, 1) for raw in recent)):
        row = np.frombuffer(raw)
        held = [c for c in told if c.low <= row[c.at] <= c.high][:MOST_HELD]
        for one, two in combinations(held, 2):
            if one.at != two.at:
                met[one.number, two.number] += weight
    return met


def _taught(know: Knowledge, units: Sequence[Unit]) -> Iterator[tuple[bytes, int]]:
    """Give contexts of the last examples of each unit, and of its last denials."""
    each = max(4, MOST_EXAMPLES // len(units))
    for unit in units:
        mine: list[Example] = know.believing.examples_of(unit.number)
        denied = [one for one in mine[-10 * MOST_EXAMPLES :] if not one.allowed]
        yield from ((one.context, DENIED) for one in denied[-each:])
        yield from ((one.context, 1) for one in mine[-each:])

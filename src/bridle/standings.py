"""Where audits stand: the records that an audit meter gives and keeps, and its windows."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from operator import add
from typing import Literal, NamedTuple

from bridle.believing import hashed
from bridle.errors import LimitReached, NotPossible
from bridle.settings import ItemId
from bridle.validate import FloatRange, IntRange

__all__ = [
    "MAX_NAMES",
    "Bounds",
    "Ids",
    "Standing",
    "State",
    "Tally",
    "Window",
    "standing_of",
    "tally_of",
]

State = Literal["shown good", "not shown", "alarm"]

DELTA = FloatRange(0.0, 1.0, open_low=True, open_high=True)
# A shorter block could say nothing.
LENGTH = IntRange(10, 2**31 - 1)
NUMBER = IntRange(0, 2**63 - 2)
# Each is kept as a 64-bit hash, to see that none comes twice.
MAX_NAMES = 4_000_000


class Bounds(NamedTuple):
    """Bounds on a number of violations."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Window:
    """Blocks of steps, one after the other, that are each metered on their own: for drift.

    Block i = 1, 2, … has the error δ_i = delta · 6 / (π² i²); they add up to delta. So with
    probability 1 − delta or more no upper bound of any block is ever wrong, and the same for the
    lower bounds.

    Parameters
    ----------
    length : int
        Steps of a block.
    delta : float
        The error of all blocks together.
    """

    length: int
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", LENGTH.check(self.length, "length", "Window"))
        object.__setattr__(self, "delta", DELTA.check(self.delta, "delta", "Window"))

    def delta_of(self, block: int) -> float:
        """Give the error of one block, numbered from 1."""
        return self.delta * 6.0 / (math.pi * block) ** 2


@dataclass(frozen=True)
class Standing:
    """What audits say for a level, and the numbers behind it. It prints as a sentence.

    Attributes
    ----------
    state : {"shown good", "not shown", "alarm"}
        Whether the upper bound is within what the level grants, the lower bound beyond it, or
        neither.
    level : float
        Violations that are granted, per step.
    granted : float
        Violations that are granted: the level times the steps; of a block, times its length.
    bounds : Bounds
        On the violations so far. Each is wrong with probability at most `delta`.
    first, steps : int
        The first of the steps that are meant (from 1), and how many there were so far.
    actions, judged, found, pending : int
        Steps that were no abstentions; audits answered; violations among them; audits that wait.
    delta : float
        The error of each bound.
    """

    state: State
    level: float
    granted: float
    bounds: Bounds
    first: int
    steps: int
    actions: int
    judged: int
    found: int
    pending: int
    delta: float

    def __str__(self) -> str:
        lower, upper = (f"{bound:,.1f}" for bound in self.bounds)
        said = {
            "shown good": f"at most {upper}",
            "not shown": f"between {lower} and {upper}",
            "alarm": f"at least {lower}",
        }[self.state]
        where = f"steps {self.first:,} to {self.first + self.steps - 1:,}"
        return (
            f"{self.state}: {said} violations in {where if self.steps else 'no steps'}, where a "
            f"level of {self.level:g} grants {self.granted:,.1f} ({self.found:,} found in "
            f"{self.judged:,} audits, {self.pending:,} not answered yet; a bound is wrong with "
            f"probability {self.delta:.2g} at most)"
        )


@dataclass(slots=True)
class Tally:
    """What became of the actions of some steps.

    Attributes
    ----------
    actions, found, clean, pending : int
        Steps that were no abstentions; violations found; audits judged clean; audits that wait.
    coins : tuple of int or None
        Of the audits at another coin than the meter's own q: how many of them were found, how many
        wait, what those found or waiting weigh together for each λ of the upper bound, and what
        those found weigh for each λ of the lower one (`kernels.audits.weights`). None: there were
        none, or whoever kept the tally did not keep this.
    """

    actions: int = 0
    found: int = 0
    clean: int = 0
    pending: int = 0
    coins: tuple[int, ...] | None = None

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The four counts."""
        return self.actions, self.found, self.clean, self.pending

    def weigh(self, more: tuple[int, ...]) -> None:
        """Add to `coins`; whole numbers, so what is added can be taken away again."""
        self.coins = more if self.coins is None else tuple(map(add, self.coins, more))


def tally_of(row: list[int], coins: list[int] | None = None) -> Tally:
    """Return a tally that was written as a row of counts, and one of `coins` if it had any."""
    actions, found, clean, pending = (NUMBER.check(n, "count", "AuditMeter") for n in row)
    kept = None if coins is None else tuple(NUMBER.check(n, "coins", "AuditMeter") for n in coins)
    return Tally(actions, found, clean, pending, kept)


def standing_of(
    level: float, bounds: Bounds, tally: Tally, first: int, steps: int, ahead: int, delta: float
) -> Standing:
    """Say where these steps stand; `ahead` are those that still belong to them."""
    granted = level * (steps + ahead)
    state: State = "not shown"
    if steps and bounds.upper + ahead <= granted:
        state = "shown good"
    elif bounds.lower > granted:
        state = "alarm"
    judged = tally.found + tally.clean
    return Standing(
        state, level, granted, bounds, first, steps, tally.actions, judged, tally.found,
        tally.pending, delta,
    )  # fmt: skip


class Ids:
    """Which ids were met: numbers as ranges, as most come in turn; names as 64-bit hashes."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []  # the first number after each range
        self.names: set[int] = set()

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Give each range of numbers, with the first number after it."""
        return zip(self.starts, self.ends, strict=True)

    def __len__(self) -> int:
        return sum(self.ends) - sum(self.starts) + len(self.names)

    def __contains__(self, id: ItemId) -> bool:
        if isinstance(id, str):
            return hashed(id) in self.names
        at = bisect_right(self.starts, id)
        return at > 0 and id < self.ends[at - 1]

    def add(self, id: ItemId) -> None:
        """Keep an id, or refuse one that was met."""
        if id in self:
            raise NotPossible(
                f"Decision {id!r} was observed before, and its coin may be known: a violation "
                "could hide behind it. Give each decision an id of its own."
            )
        if isinstance(id, str):
            if len(self.names) >= MAX_NAMES:
                remedy = "Use numbers as ids, or go on with a new meter."
                raise LimitReached("named decisions", MAX_NAMES, remedy)
            self.names.add(hashed(id))
            return
        at = bisect_right(self.starts, id)
        if at > 0 and self.ends[at - 1] == id:
            self.ends[at - 1] += 1
        else:
            self.starts.insert(at, id)
            self.ends.insert(at, id + 1)
            at += 1
        if at < len(self.starts) and self.starts[at] == id + 1:  # the gap to the next is closed
            self.ends[at - 1] = self.ends.pop(at)
            del self.starts[at]

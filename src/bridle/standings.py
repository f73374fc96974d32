"""Where audits stand: the records that an audit meter gives, and the windows it is given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from bridle.validate import FloatRange, IntRange

__all__ = ["Bounds", "Standing", "State", "Tally", "Window", "standing_of", "tally_of"]

State = Literal["shown good", "not shown", "alarm"]

DELTA = FloatRange(0.0, 1.0, open_low=True, open_high=True)
# A shorter block could say nothing.
LENGTH = IntRange(10, 2**31 - 1)
NUMBER = IntRange(0, 2**63 - 1)


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
    """What became of the actions of some steps."""

    actions: int = 0
    found: int = 0
    clean: int = 0
    pending: int = 0


def tally_of(row: list[int]) -> Tally:
    """Give back a tally that was written as a row of counts."""
    return Tally(*(NUMBER.check(count, "count", "AuditMeter") for count in row))


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

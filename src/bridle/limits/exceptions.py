"""How often what limits call safe is denied all the same: a rate by unit, learned from checks.

Belief confirms itself. What is believed safe is never asked about, so rare exceptions inside it are
never met, and answers about what is in doubt say nothing of them. Spot checks do: after a play a
coin decides whether the teacher judges it. What they find is the rate of exceptions, and that rate
is in the probability of every item not yet judged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle.errors import CorruptState
from bridle.kernels import mixture as kernel
from bridle.kernels.types import Floats, Ints
from bridle.limits.base import Prediction
from bridle.limits.rules import check

__all__ = ["START", "ExceptionRates"]

# All constants here are part of what `form` 3 of an agent's settings means: with others a log would
# replay to other bits, so another value is another form.
#
# What the rate may be where the doubt is .01 or more, and how likely each is beforehand. The mean
# of the prior is below .01, so nothing is doubted before something is found.
RATES = (1e-5, 0.003, 0.01, 0.03, 0.1)
PRIOR = (0.55, 0.2, 0.1, 0.1, 0.05)
USUAL = 0.01
# Probability that a unit has another rate than most.
DEVIATION = 0.3
# How many checks there are, about: ZEAL for each factor e by which the plays that nobody had judged
# grow beyond START, and ZEAL_UNIT, spread over the units, for each by which those of a unit do. So
# a high rate is found soon, a long life costs little, and a unit that is new is looked at. With
# more than FEW units each matters less, and there are fewer checks, but not below a share FEWEST.
ZEAL = 105.0
ZEAL_UNIT = 8.0
START = 60.0
FEW = 4
FEWEST = 0.55
# Each exception that was found, up to MOST_FOUND, adds so much of that again: where there is one
# there are more.
MORE = 0.75
MOST_FOUND = 3
# Before so many exceptions were found they put nothing in doubt outside of their own units.
ENOUGH = 2
# Exceptions are looked for where the teacher denies most; a unit in which nothing is denied is
# checked so often beside one in which most is.
LENIENT = 0.35


class ExceptionRates:
    """The rate of exceptions to what limits call safe, by unit; and where to look for them.

    Each unit's rate is one of a few, most units share theirs, and each may deviate from it
    (`kernels.mixture.weigh`). Evidence is the first judgement, by a check or a question, of each
    pair of an item and a unit that the limits themselves call safe. All that is kept are counts, so
    what is taken back leaves no trace.

    Parameters
    ----------
    units : int
        How many units there are, U.
    doubt : float, default 0.01
        What rate is too much. Below .01 rates are looked for that are lower in proportion.
    error : float, default 0
        How often the teacher errs.

    Attributes
    ----------
    judged : array (U, 2)
        First judgements of what the limits called safe: allowed, denied.
    answers : array (U, 2)
        The same of all first judgements.
    unjudged : array (U,)
        Plays that had a coin: of what nobody had judged.
    rates : array (U,)
        The expected rate of exceptions.

    Examples
    --------
    >>> rates = ExceptionRates(2)
    >>> bool(rates.rates.max() < 0.01)
    True
    >>> rates.fold(0, allowed=False, safe=True)
    >>> rates.holds(0), rates.holds(1)  # it may be about the one unit
    (False, True)
    >>> rates.fold(0, allowed=False, safe=True)
    >>> rates.holds(0), rates.holds(1)  # what one unit has, the other may have
    (False, False)
    """

    def __init__(self, units: int, *, doubt: float = USUAL, error: float = 0.0) -> None:
        self._doubt, self._error = doubt, error
        scale = min(1.0, doubt / USUAL)
        self._rates = tuple(rate * scale for rate in RATES)
        self.judged: Ints = np.zeros((units, 2), np.int64)
        self.answers: Ints = np.zeros((units, 2), np.int64)
        self.unjudged: Ints = np.zeros(units, np.int64)
        self._weigh()

    @property
    def units(self) -> int:
        """Number of units, U."""
        return len(self.unjudged)

    def fold(self, unit: int, *, allowed: bool, safe: bool) -> None:
        """Fold the first judgement of a pair; `safe`: the limits themselves called it so."""
        self._count(unit, allowed, safe, 1)

    def forget(self, unit: int, *, allowed: bool, safe: bool) -> None:
        """Remove what `fold` added."""
        self._count(unit, allowed, safe, -1)

    def coin(self, unit: int) -> float:
        """Return the probability with which a play of what nobody has judged is checked."""
        return float(coin_of(self.zeal[unit], int(self.unjudged.sum()), int(self.unjudged[unit])))

    def lower(self, prediction: Prediction, of: Ints | None = None) -> Prediction:
        """Return what limits believe, (U, n), less the exceptions to what they call safe.

        of: the rate to which each row belongs, where that is not its own.
        """
        rates, holds = self.rates, np.array([self.holds(u) for u in range(self.units)])
        if of is not None:
            rates, holds = rates[of], holds[of]
        least = np.broadcast_to(1.0 - rates[:, None], prediction.p.shape)
        p = np.where(prediction.safe, np.minimum(prediction.p, least), prediction.p)
        safe = prediction.safe & holds[:, None]
        information = np.where(prediction.safe, 0.0, prediction.information)
        return Prediction(p, safe, prediction.possible, information, prediction.sd)

    def holds(self, unit: int) -> bool:
        """Return whether exceptions are rare enough for what the limits call safe to be safe."""
        return bool(self.rates[unit] <= self._doubt)

    def copy(self) -> ExceptionRates:
        """Return rates that stand where these do and go on apart from them."""
        return ExceptionRates.from_state(self.to_state(), doubt=self._doubt, error=self._error)

    def grow(self, units: int) -> None:
        """Add units of which nothing is known, after the others, until there are so many."""
        more = units - self.units
        self.judged = np.concatenate([self.judged, np.zeros((more, 2), np.int64)])
        self.answers = np.concatenate([self.answers, np.zeros((more, 2), np.int64)])
        self.unjudged = np.concatenate([self.unjudged, np.zeros(more, np.int64)])
        self._weigh()

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays."""
        return {
            "judged": self.judged.copy(),
            "answers": self.answers.copy(),
            "unjudged": self.unjudged.copy(),
        }

    @classmethod
    def from_state(
        cls, state: Mapping[str, npt.NDArray[Any]], *, doubt: float = USUAL, error: float = 0.0
    ) -> Self:
        """Return rates as they were at `to_state`, or raise `CorruptState`."""
        owner = "ExceptionRates"
        if set(state) != {"judged", "answers", "unjudged"}:
            raise CorruptState(f"{owner}: these are not its arrays: {sorted(state)!r:.200}.")
        units = len(state["unjudged"])
        for name, shape in (
            ("judged", (units, 2)),
            ("answers", (units, 2)),
            ("unjudged", (units,)),
        ):
            check(state[name], np.int64, shape, name, owner)
        self = cls(units, doubt=doubt, error=error)
        self.judged, self.answers = state["judged"].copy(), state["answers"].copy()
        self.unjudged = state["unjudged"].copy()
        if (
            (self.judged < 0).any()
            or (self.judged > self.answers).any()
            or (self.unjudged < 0).any()
        ):
            raise CorruptState(f"{owner}: its counts contradict each other.")
        self._weigh()
        return self

    def _count(self, unit: int, allowed: bool, safe: bool, by: int) -> None:
        self.answers[unit, int(not allowed)] += by
        if safe:
            self.judged[unit, int(not allowed)] += by
        self._weigh()

    def _weigh(self) -> None:
        U, J = self.units, len(RATES)
        evidence, weights, shared = np.empty((U, J)), np.empty((U, J)), np.empty(J)
        for u, (clean, found) in enumerate(self.judged.tolist()):
            for j, rate in enumerate(self._rates):
                denied = self._error + (1.0 - 2.0 * self._error) * rate
                evidence[u, j] = clean * math.log1p(-denied) + found * math.log(denied)
        logs = np.array([math.log(share) for share in PRIOR])
        kernel.weigh(evidence, logs, DEVIATION, weights, shared)
        means = [
            math.fsum(w * rate for w, rate in zip(row, self._rates, strict=True))
            for row in weights.tolist()
        ]
        found = int(self.judged[:, 1].sum())
        if found < ENOUGH:  # it may be about the one unit, or a slip
            means = [
                min(mean, self._doubt) if not own else mean
                for mean, own in zip(means, self.judged[:, 1].tolist(), strict=True)
            ]
        self.rates: Floats = np.array(means)
        shares = [(no + 0.5) / (yes + no + 2.0) for yes, no in self.answers.tolist()]
        strictest = max(shares, default=1.0)
        many = min(1.0, max(FEW / max(U, 1), FEWEST))
        more = 1.0 + MORE * min(found, MOST_FOUND)
        # (U, 2): by all plays that nobody had judged, and by those of the unit.
        self.zeal: Floats = np.empty((U, 2))
        for u, share in enumerate(shares):
            here = many * more * max(share / strictest, LENIENT)
            self.zeal[u, 0], self.zeal[u, 1] = ZEAL * here, ZEAL_UNIT * here / U


def coin_of(zeal: Floats, plays: int, here: int) -> float:
    """Return the coin of a play, after so many plays that nobody had judged, in all and here."""
    return float(kernel.check_coin(zeal, START, plays, here))

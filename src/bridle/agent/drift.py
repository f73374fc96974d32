"""Whether the teacher's answers come as the limits foretold: a test that holds at any time.

Before each answer the limits give a probability of "allowed". A gambler who starts with 1 bets on
the less likely answer, at odds that are fair if the probability is true. Then his wealth is a
martingale (and shrinks if the likelier answer comes more often still). By Ville's inequality it
ever reaches 1/level with probability at most level, however the probabilities were made and
whenever one looks. If answers drift away from what was foretold, he grows rich.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle.errors import BridleError, CorruptState
from bridle.limits.rules import check
from bridle.validation import FRACTION, FloatRange, IntRange, truth

__all__ = ["SurpriseTest"]

LEVEL = FloatRange(0.0, 1.0, open_low=True, open_high=True)
# Bets that the odds of "allowed" are so many times what was foretold: where "allowed" is the
# likelier answer those below 1 are made, else those above. Powers of two, and no logarithms: the
# bits are the same on every machine.
TILTS = (1 / 64, 1 / 8, 1 / 2, 2.0, 8.0, 64.0)
# Bets that this share of answers is a toss of a coin, whatever was foretold.
TOSSES = (1 / 64, 1 / 16, 1 / 4, 1.0)
BETS = len(TILTS) + len(TOSSES)
# What is won beyond is given away, which a gambler may do: no number overflows.
MOST = 1e100


class SurpriseTest:
    """A gambler's wealth against "the likelier answer comes at least as often as foretold".

    So limits that are more cautious than they need be are no surprise. The gambler spreads his
    money over ten ways in which answers may differ from what was foretold, and over the time from
    which on they do: before answer s he still holds 1/√s of his first money back, so that a change
    is seen also after a long time in which all was well.

    It holds for any probabilities that were fixed before the answer was known, however they
    depend on the past. They must be those of the teacher's *answer*: if the teacher errs at times,
    that is part of them.

    Parameters
    ----------
    level : float
        Probability, at most, that the test ever rejects although answers come as foretold.

    Examples
    --------
    >>> test = SurpriseTest(0.01)
    >>> for _ in range(500):
    ...     rejected = test.observe(allowed=True, foretold=0.98)
    >>> rejected
    False
    >>> for i in range(30):
    ...     rejected = test.observe(allowed=i % 3 > 0, foretold=0.98)
    >>> print(test)
    The answers do not come as foretold: seen at answer 522 of 530, wrongly so with probability
    0.01 at most (p-value by now 0.00011).
    """

    def __init__(self, level: float) -> None:
        self._level = LEVEL.check(level, "level", "SurpriseTest")
        self._answers = 0
        self._rejected_at = 0
        self._peak = 1.0
        self._stakes = [0.0] * BETS  # what each bet has made of the money given to it so far

    @property
    def level(self) -> float:
        """Probability, at most, of a rejection that is wrong."""
        return self._level

    @property
    def answers(self) -> int:
        """How many answers were observed."""
        return self._answers

    @property
    def wealth(self) -> float:
        """What the gambler has now. He started with 1."""
        return math.fsum([1.0 / math.sqrt(self._answers + 1), *self._stakes])

    @property
    def p_value(self) -> float:
        """The least level at which the test would have rejected by now. It never rises."""
        return 1.0 / self._peak

    @property
    def rejected(self) -> bool:
        """Whether the wealth has ever reached 1/level."""
        return self._rejected_at > 0

    @property
    def rejected_at(self) -> int | None:
        """Number of the answer at which it did, from 1."""
        return self._rejected_at or None

    def observe(self, allowed: bool, foretold: float) -> bool:
        """Take an answer, and the probability of "allowed" foretold; say whether it is rejected.

        Parameters
        ----------
        allowed : bool
            The teacher's answer.
        foretold : float
            The probability of "allowed" that was given before the answer was known.
        """
        owner = "SurpriseTest.observe"
        yes = truth(allowed, "allowed", owner)
        return self.update(yes, FRACTION.check(foretold, "foretold", owner))

    def update(self, yes: bool, p: float) -> bool:
        """Fold an answer and its predicted probability, both checked before; see `observe`."""
        s = self._answers + 1
        started = (1.0 / math.sqrt(s) - 1.0 / math.sqrt(s + 1)) / BETS
        chance = p if yes else 1.0 - p
        won = [1.0] * BETS
        for j, tilt in enumerate(TILTS):
            # Towards the less likely answer only: else "more often than foretold" would pay.
            if (tilt - 1.0) * (p - 0.5) < 0.0:
                won[j] = (tilt if yes else 1.0) / (p * tilt + (1.0 - p))
        for j, toss in enumerate(TOSSES, start=len(TILTS)):
            # What could not happen, and has, wins all there is.
            won[j] = (1.0 - toss) + toss / (2.0 * chance) if chance > 0.0 else math.inf
        for j in range(BETS):
            self._stakes[j] = min((self._stakes[j] + started) * won[j], MOST)
        self._answers = s
        self._peak = max(self._peak, self.wealth)
        if not self._rejected_at and self._peak >= 1.0 / self._level:
            self._rejected_at = s
        return self.rejected

    def copy(self) -> SurpriseTest:
        """Return a test that stands where this one does and goes on apart from it."""
        return SurpriseTest.from_state(self.to_state())

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that the test knows, as named arrays."""
        return {
            "level": np.array([self._level]),
            "counts": np.array([self._answers, self._rejected_at], np.int64),
            "peak": np.array([self._peak]),
            "stakes": np.array(self._stakes),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return a test as it was at `to_state`."""
        if not isinstance(state, Mapping):
            raise CorruptState(f"SurpriseTest needs named arrays, not {state!r:.200}.")
        if set(state) != {"level", "counts", "peak", "stakes"}:
            raise CorruptState(
                f"SurpriseTest: these are not its arrays: {sorted(map(str, state))!r:.200}."
            )
        for name, size in (("level", 1), ("peak", 1), ("stakes", BETS)):
            check(state[name], np.float64, (size,), name, "SurpriseTest")
        check(state["counts"], np.int64, (2,), "counts", "SurpriseTest")
        stakes, peak = state["stakes"].tolist(), float(state["peak"][0])
        answers, rejected_at = state["counts"].tolist()
        try:
            self = cls(float(state["level"][0]))
            IntRange(0, 2**62).check(answers, "answers", "SurpriseTest")
            IntRange(0, answers).check(rejected_at, "rejected_at", "SurpriseTest")
        except BridleError as error:
            raise CorruptState(f"SurpriseTest: the state is damaged: {error}") from None
        self._answers, self._rejected_at, self._stakes, self._peak = (
            answers,
            rejected_at,
            stakes,
            peak,
        )
        good = all(0.0 <= stake <= MOST for stake in stakes) and self.wealth <= peak <= 11 * MOST
        if not good or self.rejected != (peak >= 1.0 / self._level):
            raise CorruptState("SurpriseTest: its numbers contradict each other.")
        return self

    def __str__(self) -> str:
        if not self.rejected:
            return (
                f"Nothing speaks against the answers coming as foretold, at level {self._level:g} "
                f"({self._answers:,} answers; p-value {self.p_value:.2g})."
            )
        return (
            f"The answers do not come as foretold: seen at answer {self._rejected_at:,} of "
            f"{self._answers:,}, wrongly so with probability {self._level:g} at most (p-value "
            f"by now {self.p_value:.2g})."
        )

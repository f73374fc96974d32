"""What was taught: a belief about which arm is allowed in which context.

Two seams. `Limits` is what the paper's blend needs: for every arm, how strongly "allowed" is
believed, and how much that is doubted. `Beliefs` is what a learned mask, active teaching and asking
when in doubt need: the probability of "allowed", whether it is as good as sure, and what an answer
would teach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

from bridle.kernels.types import Bools, Floats, Ints

__all__ = ["Beliefs", "Limits", "Look"]


@runtime_checkable
class Limits(Protocol):
    """What any kind of limits can do. Arms are numbers 0 … K−1, contexts are encoded."""

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        ...

    @property
    def features(self) -> int:
        """Length of a context, d."""
        ...

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool) -> None:
        """Fold one answer of the teacher."""
        ...

    def relearn(self, arm: int, contexts: npt.ArrayLike, allowed: npt.ArrayLike) -> None:
        """Forget the arm's answers and fold these, in order: what a retraction leaves."""
        ...

    def scores(self, context: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Belief and doubt about every arm: mean and standard deviation, two arrays of K."""
        ...

    def scores_many(self, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Belief and doubt for each context: two arrays (n, K)."""
        ...

    def grow(self, arms: int = 1) -> None:
        """Add arms of which nothing was taught."""
        ...

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that is known, as named arrays."""
        ...


@dataclass(frozen=True, eq=False)
class Look:
    """What limits believe of one unit in n contexts; arrays of n.

    Attributes
    ----------
    p : array
        Probability that the arm is allowed.
    safe : array of bools
        Surely allowed: a mask plays it.
    possible : array of bools
        Not surely denied. What is safe is possible.
    information : array
        What an answer would teach, in nats: mutual information of the answer and what is not yet
        known (BALD). Never below 0.
    """

    p: Floats
    safe: Bools
    possible: Bools
    information: Floats


@runtime_checkable
class Beliefs(Protocol):
    """Limits that know what they do not know.

    What is believed is kept by *unit*: an arm, or a group of arms that share their limits. Contexts
    are encoded, arms and units are numbers.
    """

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        ...

    @property
    def features(self) -> int:
        """Length of a context, d."""
        ...

    @property
    def units(self) -> int:
        """Number of units, U."""
        ...

    @property
    def unit_of(self) -> Ints:
        """The unit of each arm: (K,)."""
        ...

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; give the units whose belief changed.

        `key` is the answer's own random bits (64 of them), for limits that sample: equal answers
        with equal keys, in the same order, give equal bits.
        """
        ...

    def look(self, unit: int, contexts: npt.ArrayLike) -> Look:
        """Say what is believed of a unit in each of n contexts, (n, d)."""
        ...

    def copy(self) -> Beliefs:
        """Limits with the same knowledge that learn apart from now on."""
        ...

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that is known, as named arrays."""
        ...

"""What was taught: a belief about which arm is allowed in which context.

Two seams. `Limits` is what the paper's blend needs: for every arm, how strongly "allowed" is
believed, and how much that is doubted. `Beliefs` is what a learned mask, active teaching and asking
when in doubt need: the probability of "allowed", whether it is as good as sure, and what an answer
would teach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

from bridle.kernels.types import Bools, Floats, Ints

__all__ = ["Beliefs", "Limits", "Mixed", "Prediction", "Refits"]


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

    # What the two below give is not used: limits may say which units changed, or nothing.

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool) -> object:
        """Fold one answer of the teacher."""
        ...

    def refit(self, arm: int, contexts: npt.ArrayLike, allowed: npt.ArrayLike, /) -> object:
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
class Prediction:
    """What limits believe of one unit in n contexts: arrays of n; of all U units: (U, n).

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
    sd : array
        Standard deviation of P(allowed) under what is not known. Where a rule settles it, allowed
        is 0 or 1 given the rule, and this is √(p(1−p)).
    """

    p: Floats
    safe: Bools
    possible: Bools
    information: Floats
    sd: Floats


@runtime_checkable
class Beliefs(Protocol):
    """Limits that know what they do not know.

    What is believed is kept by *unit*: an arm, or a group of arms that share their limits. Contexts
    are encoded, arms and units are numbers.

    To forget is not part of it: see `Refits`.
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

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Prediction:
        """Say what is believed of a unit in each of n contexts, (n, d)."""
        ...

    def predict_all(self, contexts: npt.ArrayLike) -> Prediction:
        """Say what is believed of all units at once: (U, n), the bits of `predict` unit by unit."""
        ...

    def grow(self, arms: int = 1, groups: Sequence[str | int | None] | None = None) -> None:
        """Add arms, after the others; one in a known group starts with what the group knows."""
        ...

    def copy(self) -> Beliefs:
        """Limits with the same knowledge that learn apart from now on."""
        ...

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that is known, as named arrays."""
        ...


@runtime_checkable
class Refits(Beliefs, Protocol):
    """Beliefs that can forget the answers of one unit: all kinds but `FoundLimits`.

    There any answer moves what is believed of all units, and `refit` takes all answers anew. As
    `isinstance` goes by names alone, ask whether limits are `FoundLimits` first.
    """

    def refit(
        self, unit: int, contexts: npt.ArrayLike, allowed: npt.ArrayLike, keys: npt.ArrayLike, /
    ) -> Ints:
        """Forget a unit's answers and fold these, in order; give the units whose belief changed."""
        ...


@runtime_checkable
class Mixed(Beliefs, Protocol):
    """Beliefs that weigh several kinds of limits: those of ``limits="auto"``."""

    members: dict[str, Any]
    surprises: list[Any]
    doubt: float

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences that say which kinds could not take part, and why."""
        ...

    @property
    def terms(self) -> Any:
        """What its rules can deny; None: it has no rules."""
        ...

    def weights(self, unit: int | None = None) -> dict[str, float]:
        """Return how much each member is believed, of a unit or by all units together."""
        ...

    def exceptions(self, unit: int) -> dict[str, float]:
        """Return how often what each member allows is expected to be denied all the same."""
        ...

    def by_degrees(self, unit: int) -> bool:
        """Return whether members that no sentence can say have most of a unit's weight."""
        ...

    def describe(self, unit: int, names: Sequence[str]) -> Any:
        """Read a unit's rule back, in the names of the columns of a context."""
        ...

    def set_known(self, unit: int, terms: Any) -> None:
        """Replace what is known for certain of a unit, and forget its answers."""
        ...

"""The paper's limits: linear in the context, an arm at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.arms import LinearArms
from bridle.errors import CorruptState
from bridle.kernels.types import Bools, Floats, Ints

__all__ = ["LABEL_CODINGS", "LinearLimits"]

# (value of "allowed", value of "denied"), by the name of the coding.
LABEL_CODINGS = {"1/0": (1.0, 0.0), "1/-1": (1.0, -1.0), "0/-1": (0.0, -1.0)}


class LinearLimits:
    """The paper's limits: a second set of `LinearArms`, fed with the teacher's labels.

    Parameters
    ----------
    arms, features : int
        K and d.
    ridge : float, default 1.0
        The prior's precision.
    label_coding : {"1/0", "1/-1", "0/-1"}, default "1/0"
        The numbers that stand for "allowed" and "denied".

    Examples
    --------
    >>> limits = LinearLimits(arms=2, features=1)
    >>> limits.learn([1.0], 0, True)
    >>> limits.scores([1.0])[0].tolist()
    [0.5, 0.0]
    """

    def __init__(
        self, *, arms: int, features: int, ridge: float = 1.0, label_coding: str = "1/0"
    ) -> None:
        self.label_coding = validate.one_of(
            label_coding, LABEL_CODINGS, "label_coding", "LinearLimits"
        )
        self.linear = LinearArms(arms=arms, features=features, ridge=ridge)

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return self.linear.arms

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return self.linear.features

    def code(self, allowed: npt.ArrayLike) -> Floats:
        """Numbers that stand for these answers."""
        high, low = LABEL_CODINGS[self.label_coding]
        return np.where(np.asarray(allowed, bool), high, low)

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool) -> None:
        """Fold one answer of the teacher."""
        answer = validate.truth(allowed, "allowed", "LinearLimits.learn")
        self.linear.update(arm, context, LABEL_CODINGS[self.label_coding][not answer])

    def relearn(self, arm: int, contexts: npt.ArrayLike, allowed: npt.ArrayLike) -> None:
        """Forget the arm's answers and fold these, in order."""
        owner = "LinearLimits.relearn"
        C = validate.matrix(contexts, self.features, "contexts", owner)
        k = validate.IntRange(0, self.arms - 1).check(arm, "arm", owner)
        answers: Bools = validate.truths(allowed, len(C), "allowed", owner)
        self.linear.reset(k)
        which: Ints = np.full(len(C), k, np.int64)
        self.linear.update_many(which, C, self.code(answers))

    def scores(self, context: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the label of every arm."""
        return self.linear.scores(context)

    def scores_many(self, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the label of every arm, for each context."""
        return self.linear.scores_many(contexts)

    def grow(self, arms: int = 1) -> None:
        """Add arms of which nothing was taught."""
        self.linear.grow(arms)

    def copy(self) -> LinearLimits:
        """Limits with the same knowledge that learn apart from now on."""
        twin = object.__new__(LinearLimits)
        twin.label_coding = self.label_coding
        twin.linear = self.linear.copy()
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that is known, as named arrays."""
        state = self.linear.to_state()
        state["coding"] = np.array(LABEL_CODINGS[self.label_coding])
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Limits as they were at `to_state`."""
        if not isinstance(state, Mapping):
            raise CorruptState(f"LinearLimits needs named arrays, not {state!r:.200}.")
        rest = dict(state)
        coding = rest.pop("coding", np.empty(0))
        names = [name for name, pair in LABEL_CODINGS.items() if np.array_equal(coding, pair)]
        if not names:
            raise CorruptState("LinearLimits: the array 'coding' names no label coding.")
        linear = LinearArms.from_state(rest)
        self = cls(arms=1, features=linear.features, label_coding=names[0])
        self.linear = linear
        return self

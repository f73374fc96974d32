"""The paper's limits: linear in the context, an arm at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import CorruptState
from bridle.kernels import posterior as kernel
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits.base import Attribution, Beliefs, Prediction
from bridle.reward.posterior import LinearArms

__all__ = ["LABEL_CODINGS", "LinearLimits"]

# (value of "allowed", value of "denied"), by the name of the coding.
LABEL_CODINGS = {"1/0": (1.0, 0.0), "1/-1": (1.0, -1.0), "0/-1": (0.0, -1.0)}
# Safe is what is this level or higher by a standard deviation, as logistic limits have it.
LEVEL = 0.5


class LinearLimits(Beliefs):
    """The paper's limits: a second set of `LinearArms`, fed with the teacher's labels.

    As `Beliefs` they take the label's mean for the probability of "allowed", on a scale where the
    number for "denied" is 0 and the one for "allowed" is 1; an arm is safe where that mean is .5
    or more even if it is lower by its standard deviation. Every arm is a unit of its own.

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
    array([0])
    >>> limits.scores([1.0])[0].tolist()
    [0.5, 0.0]
    """

    linear: LinearArms
    shares_groups = False
    scale = "label"

    def __init__(
        self, *, arms: int, features: int, ridge: float = 1.0, label_coding: str = "1/0"
    ) -> None:
        self.label_coding = validation.one_of(
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

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; return the unit whose belief changed: the arm.

        Nothing here is random: `key` is not used.
        """
        answer = validation.truth(allowed, "allowed", "LinearLimits.learn")
        self.linear.update(arm, context, LABEL_CODINGS[self.label_coding][not answer])
        return np.array([arm])

    def refit(
        self,
        unit: int,
        contexts: npt.ArrayLike,
        allowed: npt.ArrayLike,
        keys: npt.ArrayLike | None = None,
    ) -> Ints:
        """Forget an arm's answers and fold these, in order; return the unit whose belief changed.

        Nothing here is random: `keys` are not used.
        """
        owner = "LinearLimits.refit"
        C = validation.matrix(contexts, self.features, "contexts", owner)
        k = validation.IntRange(0, self.arms - 1).check(unit, "unit", owner)
        answers: Bools = validation.truths(allowed, len(C), "allowed", owner)
        self.linear.reset(k)
        which: Ints = np.full(len(C), k, np.int64)
        self.linear.update_many(which, C, self.code(answers))
        return np.array([k])

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of an arm in each of n contexts, (n, d)."""
        owner = "LinearLimits.predict"
        k = validation.IntRange(0, self.arms - 1).check(unit, "unit", owner)
        C = validation.matrix(contexts, self.features, "contexts", owner)
        mean, sd = np.empty((2, len(C), 1))
        post = self.linear.kernel_state
        kernel.score_many(post.A[k : k + 1], post.mu[k : k + 1], C, mean, sd)
        return self._prediction(mean[:, 0], sd[:, 0])

    def predict_all(self, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of all units: (U, n), the bits of `predict` unit by unit."""
        mean, sd = self.scores_many(contexts)
        return self._prediction(np.ascontiguousarray(mean.T), np.ascontiguousarray(sd.T))

    def scores(self, context: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the label of every arm."""
        return self.linear.scores(context)

    def scores_many(self, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the label of every arm, for each context."""
        return self.linear.scores_many(contexts)

    def chances(self, contexts: npt.ArrayLike) -> Floats:
        """Return the mean as if "allowed" were 1 and "denied" 0, not cut to [0, 1]: (n, K)."""
        high, low = LABEL_CODINGS[self.label_coding]
        return (self.scores_many(contexts)[0] - low) / (high - low)

    def rank_scores(self, contexts: npt.ArrayLike) -> Floats:
        """Return the mean label, bent into (0, 1): the order is the mean's, and 0.5 stays 0.5.

        A mean cut to [0, 1] would make equals of all that lies beyond.
        """
        z = 2.0 * self.chances(contexts) - 1.0
        return np.ascontiguousarray(0.5 + 0.5 * z / (1.0 + np.abs(z)))

    def belief(self, unit: int, context: Floats) -> float:
        """Return the mean label of an arm in one context."""
        return math.fsum((self.linear.kernel_state.mu[unit] * context).tolist())

    def attribute(self, unit: int, context: Floats, absent: Floats) -> Attribution:
        """Return what each feature contributed to the mean label."""
        weights = self.linear.kernel_state.mu[unit]
        parts = tuple(
            ((i,), float(context[i]), float(context[i] * weights[i]))
            for i in np.flatnonzero(context).tolist()
        )
        return Attribution("label", math.fsum([0.0, *(gave for _, _, gave in parts)]), 0.0, parts)

    def refit_seconds(self, n: int) -> float:
        """Return how long a refit takes: measured on one core, 10 to 100 features, n ≤ 1,000."""
        return 2e-4 + n * (1.2e-6 + 6e-10 * self.features**2)

    def hope(self, prediction: Prediction) -> Floats:
        """Return the probability that the label is nearer to "allowed" than to "denied".

        The mean of a label is no probability: where nothing was taught it is 0, and nobody would
        ask about what can never be allowed.
        """
        z = (LEVEL - prediction.p) / np.maximum(prediction.sd, 1e-12) * math.sqrt(0.5)
        each = [0.5 * math.erfc(x) for x in z.ravel().tolist()]  # numpy's own bits would differ
        return np.array(each).reshape(z.shape)

    def grow(self, arms: int = 1, groups: Sequence[str | int | None] | None = None) -> None:
        """Add arms of which nothing was taught.

        `groups` are not used: in the paper every arm has limits of its own.
        """
        self.linear.grow(arms)

    def copy(self) -> LinearLimits:
        """Return limits with the same knowledge that learn apart from now on."""
        twin = object.__new__(LinearLimits)
        twin.label_coding = self.label_coding
        twin.linear = self.linear.copy()
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays."""
        state = self.linear.to_state()
        state["coding"] = np.array(LABEL_CODINGS[self.label_coding])
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return limits as they were at `to_state`."""
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

    def _prediction(self, mean: Floats, sd: Floats) -> Prediction:
        high, low = LABEL_CODINGS[self.label_coding]
        p, spread = (mean - low) / (high - low), sd / (high - low)
        safe, possible = p - spread >= LEVEL, p + spread >= LEVEL
        # Of a normal answer with noise 1, and a mean that is known to sd.
        information = 0.5 * np.log1p(sd * sd)
        return Prediction(np.clip(p, 0.0, 1.0), safe, possible, information, spread)

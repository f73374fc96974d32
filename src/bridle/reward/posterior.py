"""LinearArms: each arm's Bayesian linear posterior, from (context, outcome) pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import CorruptState, InvalidValue
from bridle.kernels import loop
from bridle.kernels import posterior as kernel
from bridle.kernels.types import Bools, Floats, Ints, Places, Posterior

__all__ = ["LinearArms"]

MAX_ARMS = validation.IntRange(1, 1_000_000)
MAX_FEATURES = validation.IntRange(1, 10_000)


class LinearArms:
    """K Bayesian linear models over d features, one an arm, that share nothing.

    After the examples (c, y) of arm k: B = ridge·I + Σ c cᵀ, f = Σ c·y, μ = B⁻¹ f. The belief about
    the arm's weights is N(μ, v²B⁻¹); the spread v is the policy's, so the standard deviations
    given here are for v = 1.

    The sums are folded in the order of the calls, to twice the usual precision; the inverse follows
    by rank-one updates and is computed anew from the sums every 100 updates of an arm. All that
    is known is a function of the examples in their order, bit for bit, however they are split
    into batches.

    Parameters
    ----------
    arms : int
        Number of arms, K.
    features : int
        Length of a context, d.
    ridge : float, default 1.0
        The prior's precision.

    Examples
    --------
    >>> arms = LinearArms(arms=2, features=1)
    >>> arms.update(0, [1.0], 1.0)
    >>> mean, sd = arms.scores([1.0])
    >>> mean.tolist(), sd.round(3).tolist()
    ([0.5, 0.0], [0.707, 1.0])
    """

    _scratch: tuple[Places, Floats] | None = None  # what `fold` works in

    def __init__(self, *, arms: int, features: int, ridge: float = 1.0) -> None:
        K = MAX_ARMS.check(arms, "arms", "LinearArms")
        d = MAX_FEATURES.check(features, "features", "LinearArms")
        # The arrays themselves, for kernels that fold in place.
        self.kernel_state = untrained(K, d, validation.RIDGE.check(ridge, "ridge", "LinearArms"))
        self._kept: tuple[Floats, Floats, Ints, Places] | None = None  # what `pick` keeps

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return int(self.kernel_state.mu.shape[0])

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return int(self.kernel_state.mu.shape[1])

    @property
    def ridge(self) -> float:
        """The prior's precision."""
        return self.kernel_state.ridge

    @property
    def counts(self) -> Ints:
        """Examples folded, by arm."""
        return self.kernel_state.times.copy()

    @property
    def means(self) -> Floats:
        """The posterior means μ: (K, d)."""
        return self.kernel_state.mu.copy()

    @property
    def covariances(self) -> Floats:
        """The posterior covariances B⁻¹, as they stand: (K, d, d)."""
        return self.kernel_state.A.copy()

    @property
    def precisions(self) -> Floats:
        """The sums B = ridge·I + Σ c cᵀ: (K, d, d)."""
        d = self.features
        B = np.empty((self.arms, d, d))
        i, j = np.tril_indices(d)
        B[:, i, j] = B[:, j, i] = self.kernel_state.gram + (
            self.kernel_state.gram_low + self.kernel_state.gram_new
        )
        return B

    def update(self, arm: int, context: npt.ArrayLike, outcome: float) -> None:
        """Fold one example into an arm."""
        k = self._arm(arm, "update")
        c = validation.vector(context, self.features, "context", "LinearArms.update")
        y = validation.OUTCOME.check(outcome, "outcome", "LinearArms.update")
        self.fold(k, c, y)

    def fold(self, arm: int, context: Floats, outcome: float) -> bool:
        """`update` for values that were checked before: no checks, no conversion.

        True where other arms are to move, too, which those of this class never do.
        """
        if self._scratch is None:
            self._scratch = np.zeros(self.features, np.uint32), np.zeros(self.features)
        kernel.fold_with(*self.kernel_state, arm, context, outcome, *self._scratch)
        return False

    def update_many(
        self, arms: npt.ArrayLike, contexts: npt.ArrayLike, outcomes: npt.ArrayLike
    ) -> None:
        """Fold examples in order: the same bits as `update` one by one."""
        owner = "LinearArms.update_many"
        C = validation.matrix(contexts, self.features, "contexts", owner)
        y = validation.outcomes(outcomes, len(C), "outcomes", owner)
        k = validation.indices(arms, len(C), self.arms, "arms", owner)
        kernel.fold_many(self.kernel_state, k, C, y)

    def fold_many(self, arms: Ints, contexts: Floats, outcomes: Floats) -> None:
        """`update_many` for values that were checked before: no checks, no conversion.

        Contexts that are one feature short lack a trailing 1.
        """
        kernel.fold_many(self.kernel_state, arms, contexts, outcomes)

    def scores(self, context: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean cᵀμ and standard deviation √(cᵀB⁻¹c) of every arm: two arrays of K."""
        c = validation.vector(context, self.features, "context", "LinearArms.scores")
        mean, sd = np.empty(self.arms), np.empty(self.arms)
        kernel.score(self.kernel_state.A, self.kernel_state.mu, c, mean, sd)
        return mean, sd

    def scores_many(self, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of every arm for each context: two arrays (n, K)."""
        C = validation.matrix(contexts, self.features, "contexts", "LinearArms.scores_many")
        mean, sd = np.empty((len(C), self.arms)), np.empty((len(C), self.arms))
        kernel.score_many(self.kernel_state.A, self.kernel_state.mu, C, mean, sd)
        return mean, sd

    def pulled_scores(self, contexts: Floats, pull: float) -> tuple[Floats, Floats]:
        """Return `scores_many` of contexts that were checked before, means drawn by a `pull`."""
        mean, sd = np.empty((len(contexts), self.arms)), np.empty((len(contexts), self.arms))
        kernel.score_many(self.kernel_state.A, self.kernel_state.mu, contexts, mean, sd, pull)
        return mean, sd

    def pick(
        self, weights: Floats, pull: float, context: Floats, may: Bools, start: Any, number: Any
    ) -> int:
        """Return the arm that a policy of these weights plays, or -1 if it may play none.

        The arm of `choice.choose` with the scores of `choice.reward_parts`, where limits have no
        weight; most scores are not computed.
        """
        post = self.kernel_state
        if self._kept is None:
            K, d = post.mu.shape
            kept, lines = loop.kept_shapes(K, d)
            known = np.full(K + 1, -1)
            known[K] = 0
            self._kept = np.zeros(kept), np.zeros(lines), known, np.zeros(d, np.uint32)
        return int(
            loop.pick_one(
                weights,
                post.A,
                post.mu,
                post.times,
                post.ridge,
                pull,
                context,
                may,
                start,
                number,
                *self._kept,
            )
        )

    def grow(self, arms: int = 1) -> None:
        """Add arms that know nothing yet, after the others."""
        more = validation.COUNT.check(arms, "arms", "LinearArms.grow")
        MAX_ARMS.check(self.arms + more, "arms", "LinearArms")
        new = self._untrained(more)
        pairs = zip(arrays_of(self.kernel_state).items(), arrays_of(new).values(), strict=True)
        joined = {name: np.concatenate([old, more]) for (name, old), more in pairs}
        self.kernel_state = Posterior(**joined, ridge=self.ridge)
        self._kept = None

    def reset(self, arm: int) -> None:
        """Forget every example of one arm."""
        k = self._arm(arm, "reset")
        new = arrays_of(self._untrained(1))
        for name, mine in arrays_of(self.kernel_state).items():
            mine[k] = new[name][0]
        self._kept = None

    def merge(self, other: LinearArms) -> None:
        """Take in what `other` learned apart from these arms: B_a + B_b − ridge·I, f_a + f_b.

        Equal to one fold of both histories but for rounding (not in bits), so whoever keeps a log
        writes the merge down as an event of its own.
        """
        if not isinstance(other, LinearArms):
            raise InvalidValue("other", "LinearArms.merge", "a LinearArms", other)
        mine, its = (
            (self.arms, self.features, self.ridge),
            (other.arms, other.features, other.ridge),
        )
        if mine != its:
            raise InvalidValue(
                "other", "LinearArms.merge", f"of the same (arms, features, ridge) {mine}", its
            )
        kernel.merge_sums(self.kernel_state, other.kernel_state)
        kernel.refresh_all(self.kernel_state)
        self._kept = None

    def copy(self) -> LinearArms:
        """Arms with the same knowledge that learn apart from now on."""
        twin = object.__new__(LinearArms)
        copies = {name: array.copy() for name, array in arrays_of(self.kernel_state).items()}
        twin.kernel_state = Posterior(**copies, ridge=self.ridge)
        twin._kept = None
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that the arms know, as named arrays: sums, inverse as it stands, counts."""
        state = {name: array.copy() for name, array in arrays_of(self.kernel_state).items()}
        return {**state, "ridge": np.array(self.ridge)}

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Arms as they were at `to_state`: what follows has the same bits as with no pause."""
        names = set(Posterior._fields)
        named = isinstance(state, Mapping) and all(
            isinstance(array, np.ndarray) for array in state.values()
        )
        if not named or set(state) != names:
            raise CorruptState(f"LinearArms needs the arrays {sorted(names)}, not {state!r:.200}.")
        ridge, mu = state["ridge"], state["mu"]
        if ridge.shape != () or ridge.dtype != np.float64 or mu.ndim != 2 or not mu.size:
            raise CorruptState("LinearArms: 'ridge' or 'mu' does not have its shape.")
        if not validation.RIDGE.low <= ridge <= validation.RIDGE.high:
            raise CorruptState(
                f"LinearArms: ridge must be {validation.RIDGE}. Got {ridge} instead."
            )
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, (dtype, shape) in _shapes(*mu.shape).items():
            given = state[name]
            if given.shape != shape or given.dtype != dtype:
                raise CorruptState(
                    f"LinearArms: array '{name}' must be {np.dtype(dtype)} of shape {shape}. "
                    f"Got {given.dtype} of shape {given.shape} instead."
                )
            if not np.isfinite(given).all():
                raise CorruptState(f"LinearArms: array '{name}' holds numbers that are not finite.")
            arrays[name] = np.array(given, order="C")
        self = object.__new__(cls)
        self.kernel_state = Posterior(**arrays, ridge=float(ridge))
        self._kept = None
        return self

    def _untrained(self, arms: int) -> Posterior:
        """Return more arms like these, which have learned nothing."""
        return untrained(arms, self.features, self.ridge)

    def _arm(self, arm: int, method: str) -> int:
        return validation.IntRange(0, self.arms - 1).check(arm, "arm", f"LinearArms.{method}")


def _shapes(K: int, d: int) -> dict[str, tuple[type, tuple[int, ...]]]:
    P = d * (d + 1) // 2
    sums = dict.fromkeys(("gram", "gram_low", "gram_new"), (np.float64, (K, P)))
    vectors = dict.fromkeys(("f", "f_low", "f_new", "mu"), (np.float64, (K, d)))
    counts = dict.fromkeys(("times", "since"), (np.int64, (K,)))
    return {**sums, **vectors, "A": (np.float64, (K, d, d)), **counts}


def untrained(K: int, d: int, ridge: float) -> Posterior:
    """Return the arrays of arms that have learned nothing."""
    arrays: dict[str, npt.NDArray[Any]] = {
        name: np.zeros(shape, dtype) for name, (dtype, shape) in _shapes(K, d).items()
    }
    diagonal = np.arange(d)
    arrays["gram"][:, diagonal * (diagonal + 1) // 2 + diagonal] = ridge
    arrays["A"][:, diagonal, diagonal] = 1.0 / ridge
    return Posterior(**arrays, ridge=ridge)


def arrays_of(post: Posterior) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of arms by their names."""
    return {name: array for name, array in post._asdict().items() if name != "ridge"}

"""Pooled logistic limits: arms or groups of arms share what they have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import BridleError, CorruptState
from bridle.kernels import logistic as scoring
from bridle.kernels import pooled as kernel
from bridle.kernels.types import Floats, Ints
from bridle.limits.base import Prediction
from bridle.limits.logistic import (
    MAX_ARMS,
    MAX_ENTRIES,
    MAX_FEATURES,
    PRIOR_SD,
    Tally,
    check_columns,
)
from bridle.limits.rules import DAMAGE, Group, check, checked_groups, units_of

__all__ = ["PooledLimits"]

DOUBT = validation.FloatRange(0.0, 0.5, open_low=True)
# Beliefs of all units are kept until the next answer up to so many numbers, 32 MB; beyond, each
# is worked out at every look.
MAX_KEPT = 4_000_000
ARRAYS = ("settings", "groups", "ends", "contexts", "allowed", "denied")

Normal = tuple[Floats, Floats]
# Of an untaught unit, among the beliefs by unit.
UNTAUGHT = -1


class PooledLimits:
    """Bayesian logistic regression of the teacher's answers, pooled over units.

    A unit u is an arm, or a group of arms. The log odds of "allowed" in context c are a_u + (w +
    v_u)·c: w is shared by all units, v_u and a_u are the unit's own, all normal with mean 0 and the
    standard deviations below. After the answers they are believed to be normal, with mean at the
    highest posterior and the inverse of the curvature there as covariance (Laplace). So what is
    taught about one unit is evidence, weaker, about all; a unit that is new starts from what the
    others have in common.

    The log odds then have mean m and standard deviation s, P(allowed) = sigmoid(m / √(1 + πs²/8)),
    and an arm is safe where P(allowed) ≥ 1 − doubt, possible where P(allowed) ≥ doubt.

    Counts of the answers for each unit and distinct context are all that is kept. The model is
    fitted anew at the first look after an answer, by Newton's method from zero: what is believed is
    a function of the counts, bit for bit, whatever the order of the answers.

    Parameters
    ----------
    arms, features : int
        K and d.
    groups : sequence of K str, int or None, optional
        Arms of one group share their limits; None is an arm of its own. By default all are.
    shared_sd : float, default 1.5
        Prior standard deviation of w, a weight that all units share.
    own_sd : float, default 0.75
        Prior standard deviation of v_u, a unit's deviation from it.
    intercept_sd : float, default 3.0
        Prior standard deviation of a_u, a unit's intercept.
    doubt : float, default 0.01
        How unsure P(allowed) may be where an arm is safe.

    Examples
    --------
    Two bands are denied a genre again and again; of a third, little is known.

    >>> limits = PooledLimits(arms=3, features=2)
    >>> for _ in range(10):
    ...     for arm in (0, 1):
    ...         units = limits.learn([1.0, 0.0], arm, False)
    ...         units = limits.learn([0.0, 1.0], arm, True)
    >>> units.tolist()
    [0, 1, 2]
    >>> limits.look(2, [[1.0, 0.0], [0.0, 1.0]]).p.round(2).tolist()
    [0.25, 0.75]
    >>> units = limits.learn([0.0, 1.0], 2, True)
    >>> limits.look(2, [[1.0, 0.0], [0.0, 1.0]]).p.round(2).tolist()
    [0.27, 0.82]
    """

    def __init__(
        self,
        *,
        arms: int,
        features: int,
        groups: Sequence[Group] | None = None,
        shared_sd: float = 1.5,
        own_sd: float = 0.75,
        intercept_sd: float = 3.0,
        doubt: float = 0.01,
    ) -> None:
        owner = "PooledLimits"
        K = MAX_ARMS.check(arms, "arms", owner)
        self._features = MAX_FEATURES.check(features, "features", owner)
        self._columns = check_columns(self._features, False, owner)
        self._groups: tuple[Group, ...] = checked_groups(groups, K, owner)
        self.shared_sd = PRIOR_SD.check(shared_sd, "shared_sd", owner)
        self.own_sd = PRIOR_SD.check(own_sd, "own_sd", owner)
        self.intercept_sd = PRIOR_SD.check(intercept_sd, "intercept_sd", owner)
        self.doubt = DOUBT.check(doubt, "doubt", owner)
        self._unit_of: Ints = units_of(self._groups)
        self._tallies: list[Tally] = []
        self._make_tallies()
        self._places: dict[int, int] = {}
        self._changed()

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return len(self._groups)

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return self._features

    @property
    def units(self) -> int:
        """Number of units, U: groups, and arms of no group."""
        return len(self._tallies)

    @property
    def unit_of(self) -> Ints:
        """The unit of each arm: (K,). Units are numbered as they first occur."""
        return self._unit_of.copy()

    @property
    def groups(self) -> tuple[Group, ...]:
        """The group of each arm, None where it has none."""
        return self._groups

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; return the units whose belief changed: all.

        Nothing here is random: `key` is not used.
        """
        owner = "PooledLimits.learn"
        u = self._unit_of[validation.IntRange(0, self.arms - 1).check(arm, "arm", owner)]
        c = validation.vector(context, self._features, "context", owner)
        self._tallies[u].add(c, validation.truth(allowed, "allowed", owner))
        return self._changed()

    def learn_many(
        self, contexts: npt.ArrayLike, arms: npt.ArrayLike, allowed: npt.ArrayLike
    ) -> Ints:
        """Fold answers; return the units whose belief changed: all, if there is any answer."""
        owner = "PooledLimits.learn_many"
        C = validation.matrix(contexts, self._features, "contexts", owner)
        which = self._unit_of[validation.indices(arms, len(C), self.arms, "arms", owner)]
        answers = validation.truths(allowed, len(C), "allowed", owner)
        new = {u: self._tallies[u].copy() for u in np.unique(which).tolist()}
        for u, tally in new.items():
            tally.add_many(C[which == u], answers[which == u])
        for u, tally in new.items():  # after all that may fail
            self._tallies[u] = tally
        return self._changed() if new else np.empty(0, np.int64)

    def hear(self, context: Floats, unit: int, allowed: bool, key: int = 0) -> float:
        """`learn` for values that were checked before; return the P(allowed) until then."""
        p, spread = np.empty((2, 1))
        scoring.chances(*self._scores(unit, context[None]), p, spread)
        self._tallies[unit].add(context, allowed)
        self._changed()
        return float(p[0])

    def check_room(self, unit: int, more: int) -> None:
        """Refuse so many answers more, if their contexts could be more than a unit can hold."""
        tally = self._tallies[self._unit(unit, "check_room")]
        if len(tally) + more > tally.most:
            tally.refuse()

    def refit(
        self,
        unit: int,
        contexts: npt.ArrayLike,
        allowed: npt.ArrayLike,
        keys: npt.ArrayLike | None = None,
    ) -> Ints:
        """Forget the unit's answers and fold these: what a retraction leaves.

        Returns the units whose belief changed: all. Nothing here is random: `keys` are not used.
        """
        owner = "PooledLimits.relearn"
        C = validation.matrix(contexts, self._features, "contexts", owner)
        u = self._unit(unit, "relearn")
        tally = self._new_tally()
        tally.add_many(C, validation.truths(allowed, len(C), "allowed", owner))
        self._tallies[u] = tally
        return self._changed()

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of a unit in each of n contexts, (n, d)."""
        u = self._unit(unit, "look")
        C = validation.matrix(contexts, self._features, "contexts", "PooledLimits.look")
        return self._looked(*self._scores(u, C))

    def predict_all(self, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of all units at once: (U, n), the bits of `predict` by unit."""
        C = validation.matrix(contexts, self._features, "contexts", "PooledLimits.look_all")
        mean, sd = np.empty((2, self.units, len(C)))
        if not all(map(len, self._tallies)):
            mean[:], sd[:] = self._scores(UNTAUGHT, C)  # untaught units are all alike
        for u, tally in enumerate(self._tallies):
            if len(tally):
                mean[u], sd[u] = self._scores(u, C)
        return self._looked(mean, sd)

    def log_odds(self, unit: int, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return mean m and standard deviation s of the log odds of "allowed", by context."""
        u = self._unit(unit, "log_odds")
        C = validation.matrix(contexts, self._features, "contexts", "PooledLimits.log_odds")
        return self._scores(u, C)

    def weights(self, unit: int) -> tuple[Floats, Floats]:
        """Return mean (d + 1,) and covariance (d + 1, d + 1) of (w + v_u, a_u)."""
        mean, cov = self._belief(self._unit(unit, "weights"))
        return mean.copy(), cov.copy()

    def counts(self, unit: int) -> tuple[Floats, Ints, Ints]:
        """Return the distinct contexts of a unit, and how often each was allowed, denied."""
        tally = self._tallies[self._unit(unit, "counts")]
        return (
            tally.contexts.copy(),
            tally.allowed.astype(np.int64),
            tally.denied.astype(np.int64),
        )

    def grow(self, arms: int = 1, groups: Sequence[Group] | None = None) -> None:
        """Add arms, after the others; one in a known group starts with what the group knows."""
        owner = "PooledLimits.grow"
        more = validation.COUNT.check(arms, "arms", owner)
        MAX_ARMS.check(self.arms + more, "arms", "PooledLimits")
        self._groups += checked_groups(groups, more, owner)
        self._unit_of = units_of(self._groups)
        self._make_tallies()

    def copy(self) -> PooledLimits:
        """Return limits with the same knowledge that learn apart from now on."""
        twin = object.__new__(PooledLimits)
        twin.__dict__.update(self.__dict__)
        twin._tallies = [tally.copy() for tally in self._tallies]
        twin._beliefs = self._beliefs.copy()  # the arrays of a fit or a belief never change
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays: the counts. The fit follows from them."""
        tallies = self._tallies
        return {
            "settings": np.array([self.shared_sd, self.own_sd, self.intercept_sd, self.doubt]),
            "groups": np.array([json.dumps(group) for group in self._groups]),
            "ends": np.cumsum([len(tally) for tally in tallies], dtype=np.int64),
            "contexts": np.concatenate([tally.contexts for tally in tallies]),
            "allowed": np.concatenate([t.allowed for t in tallies]).astype(np.int64),
            "denied": np.concatenate([t.denied for t in tallies]).astype(np.int64),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return limits as they were at `to_state`: what follows has the bits of no pause."""
        if not isinstance(state, Mapping) or set(state) != set(ARRAYS):
            raise CorruptState(f"PooledLimits needs the arrays {ARRAYS}, not {state!r:.200}.")
        try:
            return cls._read(*(state[name] for name in ARRAYS))
        except CorruptState:
            raise
        except (BridleError, *DAMAGE) as error:
            raise CorruptState(f"PooledLimits: the state is damaged: {error}") from None

    @classmethod
    def _read(
        cls,
        settings: npt.NDArray[Any],
        groups: npt.NDArray[Any],
        ends: npt.NDArray[Any],
        contexts: npt.NDArray[Any],
        allowed: npt.NDArray[Any],
        denied: npt.NDArray[Any],
    ) -> Self:
        owner = "PooledLimits"
        check(settings, np.float64, (4,), "settings", owner)
        n, d = contexts.shape
        sds = dict(zip(("shared_sd", "own_sd", "intercept_sd"), settings.tolist(), strict=False))
        names = [json.loads(name) for name in groups.tolist()]
        self = cls(arms=len(names), features=d, groups=names, doubt=float(settings[3]), **sds)
        check(ends, np.int64, (self.units,), "ends", owner)
        check(contexts, np.float64, (n, d), "contexts", owner)
        check(allowed, np.int64, (n,), "allowed", owner)
        check(denied, np.int64, (n,), "denied", owner)
        C = validation.matrix(contexts, d, "contexts", owner)
        starts = [0, *ends.tolist()]
        if starts != sorted(starts) or starts[-1] != n:
            raise CorruptState("PooledLimits: 'ends' does not part the contexts among the units.")
        for u, (low, high) in enumerate(pairwise(starts)):
            tally = Tally.of(C[low:high], allowed[low:high], denied[low:high], self._most)
            if tally is None:
                raise CorruptState(f"PooledLimits: the counts of unit {u} are not in order.")
            self._tallies[u] = tally
        return self

    @property
    def _most(self) -> int:
        return MAX_ENTRIES // self._columns

    @property
    def _variances(self) -> kernel.Variances:
        return self.shared_sd**2, self.own_sd**2, self.intercept_sd**2

    def _new_tally(self) -> Tally:
        return Tally(features=self._features, most=self._most)

    def _make_tallies(self) -> None:
        while len(self._tallies) <= self._unit_of.max():
            self._tallies.append(self._new_tally())

    def _unit(self, unit: int, method: str) -> int:
        owner = f"PooledLimits.{method}"
        return validation.IntRange(0, self.units - 1).check(unit, "unit", owner)

    def _changed(self) -> Ints:
        """Drop what followed from the counts before; return all units."""
        self._fitted: kernel.Fitted | None = None
        self._beliefs: dict[int, Normal] = {}
        return np.arange(self.units)

    def _fit(self) -> kernel.Fitted:
        if self._fitted is None:
            taught = [u for u, tally in enumerate(self._tallies) if len(tally)]
            tallies = [self._tallies[u] for u in taught]
            blank = np.empty(0)
            self._fitted = kernel.fit(
                np.concatenate([np.empty((0, self._features)), *(t.contexts for t in tallies)]),
                np.concatenate([blank, *(t.allowed for t in tallies)]),
                np.concatenate([blank, *(t.denied for t in tallies)]),
                np.cumsum([0, *map(len, tallies)], dtype=np.int64),
                self._variances,
            )
            self._places = {u: i for i, u in enumerate(taught)}  # among the units of the fit
        return self._fitted

    def _belief(self, unit: int) -> Normal:
        """Return mean and covariance of a unit's (w + v_u, a_u)."""
        u = unit if unit != UNTAUGHT and len(self._tallies[unit]) else UNTAUGHT
        if u in self._beliefs:
            return self._beliefs[u]
        D = self._columns
        done: Normal = np.empty(D), np.empty((D, D))
        fitted = self._fit()
        kernel.belief(*fitted, self._places.get(u, -1), self._variances, *done)
        if len(self._places) * D * D <= MAX_KEPT:
            self._beliefs[u] = done
        return done

    def _scores(self, unit: int, C: Floats) -> tuple[Floats, Floats]:
        mean, sd = np.empty((2, len(C)))
        scoring.score_many(C, False, *self._belief(unit), mean, sd)
        return mean, sd

    def _looked(self, mean: Floats, sd: Floats) -> Prediction:
        p, nats, spread = np.empty((3, mean.size))
        scoring.chances(mean.ravel(), sd.ravel(), p, spread)
        safe, possible = np.empty((2, mean.size), np.bool_)
        scoring.judge(mean.ravel(), sd.ravel(), 0.0, 0.0, safe, possible, nats)
        np.greater_equal(p, 1.0 - self.doubt, out=safe)  # by P(allowed), not by m and s
        np.greater_equal(p, self.doubt, out=possible)
        shape = mean.shape
        return Prediction(
            p.reshape(shape),
            safe.reshape(shape),
            possible.reshape(shape),
            nats.reshape(shape),
            spread.reshape(shape),
        )

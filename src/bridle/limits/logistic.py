"""Logistic limits: the log odds of "allowed" are linear in the context, for each arm or group."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.errors import BridleError, CorruptState, InvalidValue
from bridle.kernels import logistic as kernel
from bridle.kernels.types import Floats, Ints
from bridle.limits.base import Look
from bridle.limits.crosses import check_columns
from bridle.limits.label import Tally

__all__ = ["LogisticLimits"]

MAX_ARMS = validate.IntRange(1, 1_000_000)
MAX_FEATURES = validate.IntRange(1, 10_000)
PRIOR_SD = validate.FloatRange(1e-3, 1e3)
BETA = validate.FloatRange(0.0, 100.0)
TAU = validate.FloatRange(0.0, 1.0, open_low=True, open_high=True)
# Distinct contexts × columns of one unit: a fit holds them all, 12 bytes each.
MAX_ENTRIES = 20_000_000

Group = str | int | None
Weights = tuple[Floats, Floats]


class LogisticLimits:
    """Bayesian logistic regression of the teacher's answers, for each arm or group of arms.

    With x = [c, 1, crosses?] the log odds of "allowed" are x·w, where w ~ N(0, prior_sd²·I). After
    the answers w is believed to be N(ŵ, C): ŵ has the highest posterior, and C⁻¹ is the curvature
    there (Laplace). So x·w has mean m and standard deviation s, P(allowed) = sigmoid(m / √(1 +
    πs²/8)), and an arm is safe where m − beta·s ≥ logit(tau), possible where m + beta·s ≥ it.

    Counts of the answers for each distinct context are all that is kept. A unit is fitted anew at
    the first look after an answer, by Newton's method from zero, with the contexts in an order of
    their own: what is believed is a function of the counts, bit for bit, whatever the order of the
    answers, their batches, or what was learned and forgotten in between.

    Parameters
    ----------
    arms, features : int
        K and d.
    groups : sequence of K str, int or None, optional
        Arms of one group share their limits; None is an arm of its own. By default all are.
    crosses : bool, default False
        Whether pairwise products of features are columns too, for limits such as "not both".
    prior_sd : float, default 3.0
        Standard deviation of a weight before any answer.
    beta : float, default 1.0
        How many standard deviations "safe" and "possible" keep from the level.
    tau : float, default 0.5
        The level: the probability of "allowed" that a safe arm surely has.

    Examples
    --------
    >>> limits = LogisticLimits(arms=3, features=2, groups=["child", "child", "adult"])
    >>> for _ in range(3):
    ...     unit = limits.learn([1.0, 0.0], 0, False)
    ...     unit = limits.learn([0.0, 1.0], 1, True)
    >>> unit.tolist()
    [0]
    >>> look = limits.look(0, [[1.0, 0.0], [0.0, 1.0]])
    >>> look.p.round(2).tolist(), look.safe.tolist(), look.possible.tolist()
    ([0.17, 0.83], [False, True], [False, True])
    """

    def __init__(
        self,
        *,
        arms: int,
        features: int,
        groups: Sequence[Group] | None = None,
        crosses: bool = False,
        prior_sd: float = 3.0,
        beta: float = 1.0,
        tau: float = 0.5,
    ) -> None:
        owner = "LogisticLimits"
        K = MAX_ARMS.check(arms, "arms", owner)
        self._features = MAX_FEATURES.check(features, "features", owner)
        self.crosses = validate.truth(crosses, "crosses", owner)
        self.prior_sd = PRIOR_SD.check(prior_sd, "prior_sd", owner)
        self.beta = BETA.check(beta, "beta", owner)
        self.tau = TAU.check(tau, "tau", owner)
        self._columns = check_columns(self._features, self.crosses, owner)
        prior = np.zeros(self._columns), np.eye(self._columns) / self._precision
        self._prior: Weights = prior
        self._groups: list[Group] = []
        self._units: dict[str | int, int] = {}  # of each group's name
        self._unit_of: list[int] = []
        self._tallies: list[Tally] = []
        self._fits: list[Weights | None] = []  # None: answers came since the last fit
        self._join(_groups(groups, K, owner))

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return len(self._unit_of)

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return self._features

    @property
    def columns(self) -> int:
        """Length of x = [c, 1, crosses?]."""
        return self._columns

    @property
    def units(self) -> int:
        """Number of units, U: groups, and arms of no group."""
        return len(self._tallies)

    @property
    def unit_of(self) -> Ints:
        """The unit of each arm: (K,). Units are numbered as they first occur."""
        return np.array(self._unit_of, np.int64)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The group of each arm, None where it has none."""
        return tuple(self._groups)

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; give the unit whose belief changed.

        Nothing here is random: `key` is not used.
        """
        owner = "LogisticLimits.learn"
        u = self._unit_of[validate.IntRange(0, self.arms - 1).check(arm, "arm", owner)]
        c = validate.vector(context, self._features, "context", owner)
        self._tallies[u].add(c, validate.truth(allowed, "allowed", owner))
        self._fits[u] = None
        return np.array([u])

    def hear(self, context: Floats, unit: int, allowed: bool, key: int = 0) -> float:
        """`learn` for values that were checked before; gives the P(allowed) until then."""
        mean, sd, p, spread = np.empty((4, 1))
        kernel.score_many(context[None], self.crosses, *self._fit(unit), mean, sd)
        kernel.chances(mean, sd, p, spread)
        self._tallies[unit].add(context, allowed)
        self._fits[unit] = None
        return float(p[0])

    def learn_many(
        self, contexts: npt.ArrayLike, arms: npt.ArrayLike, allowed: npt.ArrayLike
    ) -> Ints:
        """Fold answers, each unit fitted once; give the units whose belief changed."""
        owner = "LogisticLimits.learn_many"
        C = validate.matrix(contexts, self._features, "contexts", owner)
        which = self.unit_of[validate.indices(arms, len(C), self.arms, "arms", owner)]
        answers = validate.truths(allowed, len(C), "allowed", owner)
        units: Ints = np.unique(which)
        new = [self._tallies[u].copy() for u in units]
        for u, tally in zip(units, new, strict=True):
            mine = which == u
            tally.add_many(C[mine], answers[mine])
        for u, tally in zip(units, new, strict=True):  # after all that may fail
            self._tallies[u] = tally
            self._fits[u] = None
        return units

    def check_room(self, unit: int, more: int) -> None:
        """Refuse so many answers more, if their contexts could be more than a unit can hold."""
        tally = self._tallies[self._unit(unit, "check_room")]
        if len(tally) + more > tally.most:
            tally.refuse()

    def forget(self, context: npt.ArrayLike, arm: int, allowed: bool) -> Ints:
        """Take back one answer, exactly; give the unit whose belief changed."""
        owner = "LogisticLimits.forget"
        u = self._unit_of[validate.IntRange(0, self.arms - 1).check(arm, "arm", owner)]
        c = validate.vector(context, self._features, "context", owner)
        self._tallies[u].remove(c, validate.truth(allowed, "allowed", owner))
        self._fits[u] = None
        return np.array([u])

    def relearn(
        self,
        unit: int,
        contexts: npt.ArrayLike,
        allowed: npt.ArrayLike,
        keys: npt.ArrayLike | None = None,
    ) -> Ints:
        """Forget the unit's answers and fold these: what a retraction leaves.

        Gives the unit whose belief changed. Nothing here is random: `keys` are not used.
        """
        owner = "LogisticLimits.relearn"
        C = validate.matrix(contexts, self._features, "contexts", owner)
        u = self._unit(unit, "relearn")
        tally = self._new_tally()
        tally.add_many(C, validate.truths(allowed, len(C), "allowed", owner))
        self._tallies[u] = tally
        self._fits[u] = None
        return np.array([u])

    def look(self, unit: int, contexts: npt.ArrayLike) -> Look:
        """Say what is believed of a unit in each of n contexts, (n, d)."""
        u = self._unit(unit, "look")
        C = validate.matrix(contexts, self._features, "contexts", "LogisticLimits.look")
        return self._looked(*self._scores(u, C))

    def look_all(self, contexts: npt.ArrayLike) -> Look:
        """Say what is believed of all units at once: (U, n), the bits of `look` unit by unit."""
        C = validate.matrix(contexts, self._features, "contexts", "LogisticLimits.look_all")
        mean, sd = np.empty((2, self.units, len(C)))
        kernel.score_many(C, self.crosses, *self._prior, mean[0], sd[0])
        mean[1:], sd[1:] = mean[0], sd[0]  # untaught units are all alike
        for u, fit in enumerate(self._fits):
            if fit is not self._prior:
                kernel.score_many(C, self.crosses, *self._fit(u), mean[u], sd[u])
        return self._looked(mean, sd)

    def log_odds(self, unit: int, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean m and standard deviation s of the log odds of "allowed", for each context."""
        u = self._unit(unit, "log_odds")
        C = validate.matrix(contexts, self._features, "contexts", "LogisticLimits.log_odds")
        return self._scores(u, C)

    def weights(self, unit: int) -> tuple[Floats, Floats]:
        """Weights of the highest posterior, and their covariance: arrays (D,) and (D, D).

        Columns are those of `bridle.limits.crosses.names`; the square root of the covariance's
        diagonal is what each weight is known to.
        """
        w, C = self._fit(self._unit(unit, "weights"))
        return w.copy(), C.copy()

    def counts(self, unit: int) -> tuple[Floats, Ints, Ints]:
        """The distinct contexts that a unit was taught, and how often each was allowed, denied."""
        tally = self._tallies[self._unit(unit, "counts")]
        return (
            tally.contexts.copy(),
            tally.allowed.astype(np.int64),
            tally.denied.astype(np.int64),
        )

    def scores(self, context: npt.ArrayLike) -> tuple[Floats, Floats]:
        """P(allowed) of every arm, and its standard deviation: p(1−p)·s where s is small."""
        c = validate.vector(context, self._features, "context", "LogisticLimits.scores")
        mean, sd = self._chances(c[None])
        return mean[0], sd[0]

    def scores_many(self, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """P(allowed) of every arm and its standard deviation, for each context: (n, K)."""
        owner = "LogisticLimits.scores_many"
        return self._chances(validate.matrix(contexts, self._features, "contexts", owner))

    def grow(self, arms: int = 1, groups: Sequence[Group] | None = None) -> None:
        """Add arms, after the others; one in a known group starts with what the group knows."""
        owner = "LogisticLimits.grow"
        more = validate.COUNT.check(arms, "arms", owner)
        MAX_ARMS.check(self.arms + more, "arms", "LogisticLimits")
        self._join(_groups(groups, more, owner))

    def copy(self) -> LogisticLimits:
        """Limits with the same knowledge that learn apart from now on."""
        twin = object.__new__(LogisticLimits)
        twin.__dict__.update(self.__dict__)
        for name in ("_groups", "_units", "_unit_of", "_fits"):  # a fit's arrays never change
            setattr(twin, name, getattr(self, name).copy())
        twin._tallies = [tally.copy() for tally in self._tallies]
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that is known, as named arrays: the counts. The fits follow from them."""
        groups = json.dumps(self._groups).encode()
        ends = np.cumsum([len(tally) for tally in self._tallies])
        return {
            "settings": np.array([self.prior_sd, self.beta, self.tau]),
            "crosses": np.array(self.crosses),
            "groups": np.frombuffer(groups, np.uint8).astype(np.int64),
            "ends": ends.astype(np.int64),
            "contexts": np.concatenate([tally.contexts for tally in self._tallies]),
            "allowed": np.concatenate([t.allowed for t in self._tallies]).astype(np.int64),
            "denied": np.concatenate([t.denied for t in self._tallies]).astype(np.int64),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Limits as they were at `to_state`: what follows has the same bits as with no pause."""
        settings, crosses, groups, ends, contexts, allowed, denied = _checked(state)
        try:
            names = json.loads(bytes(groups.astype(np.uint8)))
            self = cls(
                arms=len(names),
                features=contexts.shape[1],
                groups=names,
                crosses=bool(crosses),
                prior_sd=float(settings[0]),
                beta=float(settings[1]),
                tau=float(settings[2]),
            )
            validate.matrix(contexts, None, "contexts", "LogisticLimits")
        except (BridleError, ValueError, TypeError, RecursionError) as error:
            raise CorruptState(f"LogisticLimits: {error}") from None
        starts = np.concatenate([[0], ends])
        shaped = len(ends) == self.units and starts[-1] == len(contexts)
        if not shaped or (np.diff(starts) < 0).any():
            raise CorruptState("LogisticLimits: 'ends' does not part the contexts among the units.")
        for u, (low, high) in enumerate(pairwise(starts)):
            tally = Tally.of(
                contexts[low:high] + 0.0, allowed[low:high], denied[low:high], self._most
            )
            if tally is None:
                raise CorruptState(f"LogisticLimits: the counts of unit {u} are not in order.")
            self._tallies[u] = tally
            self._fits[u] = None
        return self

    @property
    def _precision(self) -> float:
        return 1.0 / (self.prior_sd * self.prior_sd)

    @property
    def _level(self) -> float:
        return math.log(self.tau) - math.log1p(-self.tau)

    @property
    def _most(self) -> int:
        return MAX_ENTRIES // self._columns

    def _new_tally(self) -> Tally:
        return Tally(features=self._features, most=self._most)

    def _unit(self, unit: int, method: str) -> int:
        owner = f"LogisticLimits.{method}"
        return validate.IntRange(0, self.units - 1).check(unit, "unit", owner)

    def _join(self, groups: list[Group]) -> None:
        for group in groups:
            u = self.units if group is None else self._units.setdefault(group, self.units)
            if u == self.units:
                self._tallies.append(self._new_tally())
                self._fits.append(self._prior)
            self._unit_of.append(u)
            self._groups.append(group)

    def _fit(self, u: int) -> Weights:
        done = self._fits[u]
        if done is None:
            tally = self._tallies[u]
            if len(tally):
                D = self._columns
                done = np.empty(D), np.empty((D, D))
                kernel.fit(
                    tally.contexts,
                    tally.allowed,
                    tally.denied,
                    self.crosses,
                    self._precision,
                    *done,
                )
            else:
                done = self._prior
            self._fits[u] = done
        return done

    def _scores(self, u: int, C: Floats) -> Weights:
        mean, sd = np.empty(len(C)), np.empty(len(C))
        kernel.score_many(C, self.crosses, *self._fit(u), mean, sd)
        return mean, sd

    def _looked(self, mean: Floats, sd: Floats) -> Look:
        p, nats, spread = np.empty((3, mean.size))
        safe, possible = np.empty((2, mean.size), np.bool_)
        kernel.chances(mean.ravel(), sd.ravel(), p, spread)
        kernel.judge(mean.ravel(), sd.ravel(), self.beta, self._level, safe, possible, nats)
        shape = mean.shape
        return Look(
            p.reshape(shape),
            safe.reshape(shape),
            possible.reshape(shape),
            nats.reshape(shape),
            spread.reshape(shape),
        )

    def _chances(self, C: Floats) -> tuple[Floats, Floats]:
        p, spread = np.empty((self.units, len(C))), np.empty((self.units, len(C)))
        for u in range(self.units):
            kernel.chances(*self._scores(u, C), p[u], spread[u])
        each = self._unit_of
        return np.ascontiguousarray(p[each].T), np.ascontiguousarray(spread[each].T)


def _groups(groups: object, n: int, owner: str) -> list[Group]:
    if groups is None:
        return [None] * n
    wanted = f"{n} names of groups (strings of at most 200 characters, ints or None)"
    if isinstance(groups, str) or not isinstance(groups, Sequence) or len(groups) != n:
        raise InvalidValue("groups", owner, wanted, groups)
    for group in groups:
        # True would be the group 1, and 1.0 as well.
        named = type(group) is str and len(group) <= 200
        if group is not None and not named and type(group) is not int:
            raise InvalidValue("groups", owner, wanted, group)
    return list(groups)


SHAPES: dict[str, tuple[type, int]] = {
    "settings": (np.float64, 1),
    "crosses": (np.bool_, 0),
    "groups": (np.int64, 1),
    "ends": (np.int64, 1),
    "contexts": (np.float64, 2),
    "allowed": (np.int64, 1),
    "denied": (np.int64, 1),
}


def _checked(state: object) -> list[npt.NDArray[Any]]:
    if not isinstance(state, Mapping) or set(state) != set(SHAPES):
        raise CorruptState(f"LogisticLimits needs the arrays {sorted(SHAPES)}, not {state!r:.200}.")
    for name, (dtype, dimensions) in SHAPES.items():
        array = state[name]
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != dimensions:
            raise CorruptState(
                f"LogisticLimits: '{name}' must be {np.dtype(dtype)} in {dimensions} dimensions."
            )
    bytelike = ((state["groups"] >= 0) & (state["groups"] < 256)).all()
    rows = {len(state[name]) for name in ("contexts", "allowed", "denied")}
    if len(state["settings"]) != 3 or not bytelike or len(rows) != 1:
        raise CorruptState("LogisticLimits: an array does not have its length.")
    return [state[name] for name in SHAPES]

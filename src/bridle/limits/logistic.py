"""Logistic limits: the log odds of "allowed" are linear in the context.

`LogisticLimits` have a regression for each arm or group of arms, `PooledLimits` one for all, in
which units share what they have in common. A model that is linear in the features cannot say that a
and b are denied together and allowed alone; with crosses, the product a·b as a column, it can.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import BridleError, CorruptState, InvalidValue, LimitReached, NotPossible
from bridle.kernels import logistic as kernel
from bridle.kernels import pooled as pooling
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits.base import Attribution, Beliefs, Parts, Prediction
from bridle.limits.rules import DAMAGE, Group, check, checked_groups, units_of

__all__ = [
    "MAX_COLUMNS",
    "LogisticLimits",
    "PooledLimits",
    "Tally",
    "columns",
    "expand",
    "names",
]


# One fit takes time with the cube of the columns (seconds at a thousand) and memory with their
# square: 32 MB a unit here.
MAX_COLUMNS = 2_000


def columns(features: int, crosses: bool) -> int:
    """Return the number of columns of x = [c, 1, crosses?].

    Examples
    --------
    >>> columns(10, crosses=False), columns(10, crosses=True), columns(41, crosses=True)
    (11, 56, 862)
    """
    return features + 1 + (features * (features - 1) // 2 if crosses else 0)


def check_columns(features: int, crosses: bool, owner: str) -> int:
    """Return the number of columns, or raise `InvalidValue` where there are too many."""
    D = columns(features, crosses)
    if D > MAX_COLUMNS:
        what = "with crosses " if crosses else ""
        raise InvalidValue(
            "features",
            owner,
            f"so many that {what}there are at most {MAX_COLUMNS:,} columns",
            f"{features} features, {D:,} columns",
            "Leave the crosses out, or take fewer features." if crosses else "Take fewer features.",
        )
    return D


def expand(contexts: npt.ArrayLike, crosses: bool = True) -> Floats:
    """Return x = [c, 1, crosses?] of each context, as the logistic limits see it.

    Examples
    --------
    >>> expand([[2.0, 3.0, 5.0]]).tolist()
    [[2.0, 3.0, 5.0, 1.0, 6.0, 10.0, 15.0]]
    """
    C = validation.matrix(contexts, None, "contexts", "expand")
    D = check_columns(C.shape[1], crosses, "expand")
    X = np.zeros((len(C), D))
    where, x = np.empty(D, np.uint32), np.empty(D)
    for row, c in zip(X, C, strict=True):
        n = kernel.expand(c, crosses, where, x)
        row[where[:n]] = x[:n]
    return X


def names(features: Sequence[str], crosses: bool = True) -> tuple[str, ...]:
    """Return a name for each column of x.

    Examples
    --------
    >>> names(["horror", "comedy"])
    ('horror', 'comedy', '1', 'horror and comedy')
    """
    d = len(features)
    pairs = ((i, j) for i in range(d) for j in range(i + 1, d)) if crosses else ()
    return (*features, "1", *(f"{features[i]} and {features[j]}" for i, j in pairs))


# --- Count a teacher's answers by context -------------------------------------------------


class Tally:
    """How often each distinct context was allowed and denied, for one unit.

    Contexts are kept in the order of their bytes, so what is held depends on the answers and not on
    their order.

    Parameters
    ----------
    features : int
        Length of a context, d.
    most : int
        How many distinct contexts it takes.

    Examples
    --------
    >>> tally = Tally(features=1, most=10)
    >>> tally.add(np.array([1.0]), False)
    >>> tally.add(np.array([0.0]), True)
    >>> tally.add(np.array([0.0]), True)
    >>> tally.contexts.tolist(), tally.allowed.tolist(), tally.denied.tolist()
    ([[0.0], [1.0]], [2.0, 0.0], [0.0, 1.0])
    """

    __slots__ = ("_contexts", "_counts", "_keys", "_most")

    def __init__(self, *, features: int, most: int) -> None:
        self._most = most
        self._keys: list[bytes] = []
        self._contexts: Floats = np.empty((0, features))
        # Row 1: allowed, row 0: denied. Floats, as the fit takes them; whole up to 2**53.
        self._counts: Floats = np.empty((2, 0))

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def contexts(self) -> Floats:
        """The distinct contexts: (n, d). Not a copy."""
        return self._contexts[: len(self._keys)]

    @property
    def allowed(self) -> Floats:
        """How often each was allowed: (n,). Not a copy."""
        return self._counts[1, : len(self._keys)]

    @property
    def denied(self) -> Floats:
        """How often each was denied: (n,). Not a copy."""
        return self._counts[0, : len(self._keys)]

    def add(self, context: Floats, allowed: bool) -> None:
        """Count one answer."""
        key = context.tobytes()
        n = len(self._keys)
        at = bisect_left(self._keys, key)
        if at == n or self._keys[at] != key:
            self._check(n + 1)
            if n == len(self._contexts):
                self._room(max(8, 2 * n))
            self._contexts[at + 1 : n + 1] = self._contexts[at:n]
            self._counts[:, at + 1 : n + 1] = self._counts[:, at:n]
            self._contexts[at] = context
            self._counts[:, at] = 0.0
            self._keys.insert(at, key)
        self._counts[int(allowed), at] += 1.0

    def add_many(self, contexts: Floats, allowed: Bools) -> None:
        """Count answers; the same as one by one, but sorted once."""
        first: dict[bytes, int] = {}
        which = np.empty(len(contexts), np.int64)
        for i, context in enumerate(contexts):
            which[i] = first.setdefault(context.tobytes(), len(first))
        more = np.zeros((2, len(first)))
        np.add.at(more, (allowed.astype(np.int64), which), 1.0)
        n = len(self._keys)
        places = [bisect_left(self._keys, key) for key in first]
        old = np.array(
            [at < n and self._keys[at] == key for at, key in zip(places, first, strict=True)], bool
        )
        self._check(n + int((~old).sum()))
        at = np.array(places, np.int64)
        self._counts[:, at[old]] += more[:, old]
        if old.all():
            return
        _, rows = np.unique(which, return_index=True)  # where each first occurs
        keys = self._keys + [key for key, known in zip(first, old, strict=True) if not known]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        self._contexts = np.concatenate([self.contexts, contexts[rows[~old]]])[order]
        counts = np.concatenate([self._counts[:, :n], more[:, ~old]], axis=1)[:, order]
        self._counts = np.ascontiguousarray(counts)  # the kernels are compiled for this layout
        self._keys = [keys[i] for i in order]

    def remove(self, context: Floats, allowed: bool) -> None:
        """Remove one answer."""
        key = context.tobytes()
        n = len(self._keys)
        at = bisect_left(self._keys, key)
        if at == n or self._keys[at] != key or self._counts[int(allowed), at] == 0.0:
            word = "allowed" if allowed else "denied"
            raise NotPossible(
                f"No answer '{word}' stands for this context and unit. "
                "Forget an answer that was learned and not yet forgotten."
            )
        self._counts[int(allowed), at] -= 1.0
        if not self._counts[:, at].any():
            self._contexts[at : n - 1] = self._contexts[at + 1 : n]
            self._counts[:, at : n - 1] = self._counts[:, at + 1 : n]
            del self._keys[at]

    def copy(self) -> Tally:
        """Count on apart from here."""
        twin = object.__new__(Tally)
        twin._most = self._most
        twin._keys = self._keys.copy()
        twin._contexts = self._contexts.copy()
        twin._counts = self._counts.copy()
        return twin

    @classmethod
    def of(cls, contexts: Floats, allowed: Ints, denied: Ints, most: int) -> Tally | None:
        """Make a tally of its own arrays; None if these are not as a tally keeps them."""
        keys = [context.tobytes() for context in contexts]
        rising = all(a < b for a, b in pairwise(keys))
        counted = bool(((allowed >= 0) & (denied >= 0) & (allowed + denied > 0)).all())
        if not rising or not counted or len(keys) > most:
            return None
        self = cls(features=contexts.shape[1], most=most)
        self._keys = keys
        self._contexts = np.array(contexts, np.float64, order="C")
        self._counts = np.array([denied, allowed], np.float64)
        return self

    @property
    def most(self) -> int:
        """How many distinct contexts it takes."""
        return self._most

    def refuse(self) -> NoReturn:
        """Raise `LimitReached`: there are too many distinct contexts."""
        raise LimitReached(
            "distinct contexts of one unit",
            self._most,
            "Round or bin the features, or leave the crosses out.",
        )

    def _check(self, n: int) -> None:
        if n > self._most:
            self.refuse()

    def _room(self, rows: int) -> None:
        n, d = self._contexts.shape
        contexts, counts = np.empty((rows, d)), np.empty((2, rows))
        contexts[:n], counts[:, :n] = self._contexts, self._counts
        self._contexts, self._counts = contexts, counts


# --- Logistic limits: the log odds of "allowed" are linear in the context, for each arm or group


MAX_ARMS = validation.IntRange(1, 1_000_000)
MAX_FEATURES = validation.IntRange(1, 10_000)
PRIOR_SD = validation.FloatRange(1e-3, 1e3)
BETA = validation.FloatRange(0.0, 100.0)
TAU = validation.FloatRange(0.0, 1.0, open_low=True, open_high=True)
# Distinct contexts × columns of one unit: a fit holds them all, 12 bytes each.
MAX_ENTRIES = 20_000_000

Weights = tuple[Floats, Floats]


class LogisticLimits(Beliefs):
    """Bayesian logistic regression of the teacher's answers, for each arm or group of arms.

    With x = [c, 1, crosses?] the log odds of "allowed" are x·w, where w ~ N(0, prior_sd²·I). After
    the answers w is believed to be N(ŵ, C): ŵ has the highest posterior, and C⁻¹ is the curvature
    there (Laplace). So x·w has mean m and standard deviation s, P(allowed) = sigmoid(m / √(1 +
    πs²/8)), and an arm is safe where m − beta·s ≥ logit(tau), possible where m + beta·s ≥ it.

    Counts of the answers for each distinct context are all that is kept. A unit is fitted anew at
    the first prediction after an answer, by Newton's method from zero, with the contexts in an
    order of their own: what is believed is a function of the counts, bit for bit, whatever the
    order of the answers, their batches, or what was learned and forgotten in between.

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
    >>> look = limits.predict(0, [[1.0, 0.0], [0.0, 1.0]])
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
        self.crosses = validation.truth(crosses, "crosses", owner)
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
        self.room = self._most
        self._join(checked_groups(groups, K, owner))

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
        """Fold one answer of the teacher; return the unit whose belief changed.

        Nothing here is random: `key` is not used.
        """
        owner = "LogisticLimits.learn"
        u = self._unit_of[validation.IntRange(0, self.arms - 1).check(arm, "arm", owner)]
        c = validation.vector(context, self._features, "context", owner)
        self._tallies[u].add(c, validation.truth(allowed, "allowed", owner))
        self._fits[u] = None
        return np.array([u])

    def fold(self, context: Floats, unit: int, allowed: bool, key: int) -> tuple[Parts, Ints]:
        """Fold one answer; return what `predictive` was until then, and the unit that changed."""
        before = self.predictive(unit, context[None])
        self._tallies[unit].add(context, allowed)
        self._fits[unit] = None
        return before, np.array([unit])

    def learn_many(
        self, contexts: npt.ArrayLike, arms: npt.ArrayLike, allowed: npt.ArrayLike
    ) -> Ints:
        """Fold answers, each unit fitted once; return the units whose belief changed."""
        owner = "LogisticLimits.learn_many"
        C = validation.matrix(contexts, self._features, "contexts", owner)
        which = self.unit_of[validation.indices(arms, len(C), self.arms, "arms", owner)]
        answers = validation.truths(allowed, len(C), "allowed", owner)
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
        """Raise `LimitReached` if so many answers more could be more than a unit can hold."""
        tally = self._tallies[self._unit(unit, "check_room")]
        if len(tally) + more > tally.most:
            tally.refuse()

    def forget(self, context: npt.ArrayLike, arm: int, allowed: bool) -> Ints:
        """Remove one answer, exactly; return the unit whose belief changed."""
        owner = "LogisticLimits.forget"
        u = self._unit_of[validation.IntRange(0, self.arms - 1).check(arm, "arm", owner)]
        c = validation.vector(context, self._features, "context", owner)
        self._tallies[u].remove(c, validation.truth(allowed, "allowed", owner))
        self._fits[u] = None
        return np.array([u])

    def refit(
        self,
        unit: int,
        contexts: npt.ArrayLike,
        allowed: npt.ArrayLike,
        keys: npt.ArrayLike | None = None,
    ) -> Ints:
        """Forget the unit's answers and fold these: what a retraction leaves.

        Gives the unit whose belief changed. Nothing here is random: `keys` are not used.
        """
        owner = "LogisticLimits.refit"
        C = validation.matrix(contexts, self._features, "contexts", owner)
        u = self._unit(unit, "refit")
        tally = self._new_tally()
        tally.add_many(C, validation.truths(allowed, len(C), "allowed", owner))
        self._tallies[u] = tally
        self._fits[u] = None
        return np.array([u])

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of a unit in each of n contexts, (n, d)."""
        u = self._unit(unit, "predict")
        C = validation.matrix(contexts, self._features, "contexts", "LogisticLimits.predict")
        return self._prediction(*self._scores(u, C))

    def predict_all(self, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of all units: (U, n), the bits of `predict` unit by unit."""
        C = validation.matrix(contexts, self._features, "contexts", "LogisticLimits.predict_all")
        return self._predict_all(C)

    def predictive(self, unit: int, contexts: Floats) -> Parts:
        """Return P(allowed), the same again, information and standard deviation: (n,)."""
        prediction = self._prediction(*self._scores(unit, contexts))
        return prediction.p, prediction.p, prediction.information, prediction.sd

    def predictive_pairs(self, contexts: Floats, arms: Floats, scale: Floats) -> Parts:
        """Return what `predictive` does of the first unit, for ((1, x) ⊗ (1, a))·scale: (n·m,)."""
        mean, sd = np.empty((2, len(contexts) * len(arms)))
        kernel.score_pairs(contexts, arms, scale, *self._fit(0), mean, sd)
        prediction = self._prediction(mean, sd)
        return prediction.p, prediction.p, prediction.information, prediction.sd

    def predictive_all(self, contexts: Floats) -> Floats:
        """Return what `predictive` does, of all units: (4, U, n), the same bits."""
        prediction = self._predict_all(contexts)
        return np.array((prediction.p, prediction.p, prediction.information, prediction.sd))

    def _predict_all(self, C: Floats) -> Prediction:
        mean, sd = np.empty((2, self.units, len(C)))
        kernel.score_many(C, self.crosses, *self._prior, mean[0], sd[0])
        mean[1:], sd[1:] = mean[0], sd[0]  # untaught units are all alike
        for u, fit in enumerate(self._fits):
            if fit is not self._prior:
                kernel.score_many(C, self.crosses, *self._fit(u), mean[u], sd[u])
        return self._prediction(mean, sd)

    def log_odds(self, unit: int, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean m and standard deviation s of the log odds of "allowed", for each context."""
        u = self._unit(unit, "log_odds")
        C = validation.matrix(contexts, self._features, "contexts", "LogisticLimits.log_odds")
        return self._scores(u, C)

    def coefficients(self, unit: int) -> tuple[Floats, Floats]:
        """Weights of the highest posterior, and their covariance: arrays (D,) and (D, D).

        Columns are those of `bridle.limits.logistic.names`; the square root of the covariance's
        diagonal is what each weight is known to.
        """
        w, C = self._fit(self._unit(unit, "coefficients"))
        return w.copy(), C.copy()

    def counts(self, unit: int) -> tuple[Floats, Ints, Ints]:
        """The distinct contexts that a unit was taught, and how often each was allowed, denied."""
        tally = self._tallies[self._unit(unit, "counts")]
        return (
            tally.contexts.copy(),
            tally.allowed.astype(np.int64),
            tally.denied.astype(np.int64),
        )

    def attribute(self, unit: int, context: Floats, absent: Floats) -> Attribution:
        """Return what each column of x contributed to the log odds, by the likeliest weights."""
        d = self._features
        weights, _ = self._fit(unit)
        x = expand(context[None], self.crosses)[0]
        columns: list[tuple[int, ...]] = [*((i,) for i in range(d)), ()]
        if self.crosses:
            columns += [(i, j) for i in range(d) for j in range(i + 1, d)]
        parts = tuple(
            (columns[i], float(x[i]), float(x[i] * weights[i]))
            for i in np.flatnonzero(x).tolist()
            if i != d
        )
        base = float(weights[d])
        total = math.fsum([base, *(gave for _, _, gave in parts)])
        return Attribution("log-odds", total, base, parts)

    def refit_seconds(self, n: int) -> float:
        """Return how long a refit takes: measured on one core, 10 to 100 features, n ≤ 1,000."""
        D = self._columns
        return 2e-4 + n * (2e-6 + 2e-9 * D**2) + 4e-9 * D**3

    def scores(self, context: npt.ArrayLike) -> tuple[Floats, Floats]:
        """P(allowed) of every arm, and its standard deviation: p(1−p)·s where s is small."""
        c = validation.vector(context, self._features, "context", "LogisticLimits.scores")
        mean, sd = self._chances(c[None])
        return mean[0], sd[0]

    def scores_many(self, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """P(allowed) of every arm and its standard deviation, for each context: (n, K)."""
        owner = "LogisticLimits.scores_many"
        return self._chances(validation.matrix(contexts, self._features, "contexts", owner))

    def grow(self, arms: int = 1, groups: Sequence[Group] | None = None) -> None:
        """Add arms, after the others; one in a known group starts with what the group knows."""
        owner = "LogisticLimits.grow"
        more = validation.COUNT.check(arms, "arms", owner)
        MAX_ARMS.check(self.arms + more, "arms", "LogisticLimits")
        self._join(checked_groups(groups, more, owner))

    def copy(self) -> LogisticLimits:
        """Return limits with the same knowledge that learn apart from now on."""
        twin = object.__new__(LogisticLimits)
        twin.__dict__.update(self.__dict__)
        for name in ("_groups", "_units", "_unit_of", "_fits"):  # a fit's arrays never change
            setattr(twin, name, getattr(self, name).copy())
        twin._tallies = [tally.copy() for tally in self._tallies]
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays: the counts. The fits follow from them."""
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
        """Return limits as they were at `to_state`: what follows has the bits of no pause."""
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
            validation.matrix(contexts, None, "contexts", "LogisticLimits")
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
        return validation.IntRange(0, self.units - 1).check(unit, "unit", owner)

    def _join(self, groups: tuple[Group, ...]) -> None:
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

    def _prediction(self, mean: Floats, sd: Floats) -> Prediction:
        p, nats, spread = np.empty((3, mean.size))
        safe, possible = np.empty((2, mean.size), np.bool_)
        kernel.chances(mean.ravel(), sd.ravel(), p, spread)
        kernel.judge(mean.ravel(), sd.ravel(), self.beta, self._level, safe, possible, nats)
        shape = mean.shape
        return Prediction(
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


# --- Pooled: units share what they have in common ---------------------------------------


DOUBT = validation.FloatRange(0.0, 0.5, open_low=True)
# Beliefs of all units are kept until the next answer up to so many numbers, 32 MB; beyond, each
# is worked out at every look.
MAX_KEPT = 4_000_000
POOLED_ARRAYS = ("settings", "groups", "ends", "contexts", "allowed", "denied")

# Of an untaught unit, among the beliefs by unit.
UNTAUGHT = -1


class PooledLimits(Beliefs):
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
    fitted anew at the first prediction after an answer, by Newton's method from zero: what is
    believed is a function of the counts, bit for bit, whatever the order of the answers.

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
    >>> limits.predict(2, [[1.0, 0.0], [0.0, 1.0]]).p.round(2).tolist()
    [0.25, 0.75]
    >>> units = limits.learn([0.0, 1.0], 2, True)
    >>> limits.predict(2, [[1.0, 0.0], [0.0, 1.0]]).p.round(2).tolist()
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
        self.room = self._most
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

    def fold(self, context: Floats, unit: int, allowed: bool, key: int) -> tuple[Parts, Ints]:
        """Fold one answer; return what `predictive` was until then, and all units: they changed."""
        before = self.predictive(unit, context[None])
        self._tallies[unit].add(context, allowed)
        return before, self._changed()

    def check_room(self, unit: int, more: int) -> None:
        """Raise `LimitReached` if so many answers more could be more than a unit can hold."""
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
        owner = "PooledLimits.refit"
        C = validation.matrix(contexts, self._features, "contexts", owner)
        u = self._unit(unit, "refit")
        tally = self._new_tally()
        tally.add_many(C, validation.truths(allowed, len(C), "allowed", owner))
        self._tallies[u] = tally
        return self._changed()

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of a unit in each of n contexts, (n, d)."""
        u = self._unit(unit, "predict")
        C = validation.matrix(contexts, self._features, "contexts", "PooledLimits.predict")
        return self._prediction(*self._scores(u, C))

    def predict_all(self, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of all units at once: (U, n), the bits of `predict` by unit."""
        C = validation.matrix(contexts, self._features, "contexts", "PooledLimits.predict_all")
        return self._predict_all(C)

    def predictive(self, unit: int, contexts: Floats) -> Parts:
        """Return P(allowed), the same again, information and standard deviation: (n,)."""
        prediction = self._prediction(*self._scores(unit, contexts))
        return prediction.p, prediction.p, prediction.information, prediction.sd

    def predictive_all(self, contexts: Floats) -> Floats:
        """Return what `predictive` does, of all units: (4, U, n), the same bits."""
        prediction = self._predict_all(contexts)
        return np.array((prediction.p, prediction.p, prediction.information, prediction.sd))

    def _predict_all(self, C: Floats) -> Prediction:
        mean, sd = np.empty((2, self.units, len(C)))
        if not all(map(len, self._tallies)):
            mean[:], sd[:] = self._scores(UNTAUGHT, C)  # untaught units are all alike
        for u, tally in enumerate(self._tallies):
            if len(tally):
                mean[u], sd[u] = self._scores(u, C)
        return self._prediction(mean, sd)

    def log_odds(self, unit: int, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return mean m and standard deviation s of the log odds of "allowed", by context."""
        u = self._unit(unit, "log_odds")
        C = validation.matrix(contexts, self._features, "contexts", "PooledLimits.log_odds")
        return self._scores(u, C)

    def coefficients(self, unit: int) -> tuple[Floats, Floats]:
        """Return mean (d + 1,) and covariance (d + 1, d + 1) of (w + v_u, a_u)."""
        mean, cov = self._belief(self._unit(unit, "coefficients"))
        return mean.copy(), cov.copy()

    def refit_seconds(self, n: int) -> float:
        """Return how long a refit takes: measured on one core, 10 to 100 features, n ≤ 1,000."""
        D = self._columns
        return 2e-4 + n * (2e-6 + 4e-9 * D**2) + 1e-8 * self.units * D**3

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
        if not isinstance(state, Mapping) or set(state) != set(POOLED_ARRAYS):
            needed = f"the arrays {POOLED_ARRAYS}"
            raise CorruptState(f"PooledLimits needs {needed}, not {state!r:.200}.")
        try:
            return cls._read(*(state[name] for name in POOLED_ARRAYS))
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
    def _variances(self) -> pooling.Variances:
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
        self._fitted: pooling.Fitted | None = None
        self._beliefs: dict[int, Weights] = {}
        return np.arange(self.units)

    def _fit(self) -> pooling.Fitted:
        if self._fitted is None:
            taught = [u for u, tally in enumerate(self._tallies) if len(tally)]
            tallies = [self._tallies[u] for u in taught]
            blank = np.empty(0)
            self._fitted = pooling.fit(
                np.concatenate([np.empty((0, self._features)), *(t.contexts for t in tallies)]),
                np.concatenate([blank, *(t.allowed for t in tallies)]),
                np.concatenate([blank, *(t.denied for t in tallies)]),
                np.cumsum([0, *map(len, tallies)], dtype=np.int64),
                self._variances,
            )
            self._places = {u: i for i, u in enumerate(taught)}  # among the units of the fit
        return self._fitted

    def _belief(self, unit: int) -> Weights:
        """Return mean and covariance of a unit's (w + v_u, a_u)."""
        u = unit if unit != UNTAUGHT and len(self._tallies[unit]) else UNTAUGHT
        if u in self._beliefs:
            return self._beliefs[u]
        D = self._columns
        done: Weights = np.empty(D), np.empty((D, D))
        fitted = self._fit()
        pooling.belief(*fitted, self._places.get(u, -1), self._variances, *done)
        if len(self._places) * D * D <= MAX_KEPT:
            self._beliefs[u] = done
        return done

    def _scores(self, unit: int, C: Floats) -> tuple[Floats, Floats]:
        mean, sd = np.empty((2, len(C)))
        kernel.score_many(C, False, *self._belief(unit), mean, sd)
        return mean, sd

    def _prediction(self, mean: Floats, sd: Floats) -> Prediction:
        p, nats, spread = np.empty((3, mean.size))
        kernel.chances(mean.ravel(), sd.ravel(), p, spread)
        safe, possible = np.empty((2, mean.size), np.bool_)
        kernel.judge(mean.ravel(), sd.ravel(), 0.0, 0.0, safe, possible, nats)
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

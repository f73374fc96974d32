"""What is believed of pairs of a context and an arm, both described by features.

A pair is one joint row: the columns of the context, then those of the arm. Rules deny terms of both
sides ("under 13 and Horror"), logistic limits are linear in (1, x) ⊗ (1, a), and a mixture weighs
them. `PairLimits` (in `limits.pairs`) knows which arm has which features, and asks these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.errors import CorruptState, InvalidValue
from bridle.kernels import gibbs, keys, rulesets
from bridle.kernels import mixture as kernel
from bridle.kernels.types import Bools, Floats, Ints, Uints
from bridle.limits.base import Beliefs, Prediction
from bridle.limits.bounds import BoundLimits
from bridle.limits.logistic import LogisticLimits
from bridle.limits.mixture import (
    EXACT,
    EXCEPTIONS,
    FLOOR,
    MAX_SURPRISES,
    NEVER_HELD,
    NOISY_ABOVE,
    PRIOR_ANSWERS,
    Surprise,
)
from bridle.limits.rules import (
    ERROR_GRID,
    EXPECTED,
    MAX_EXACT,
    MAX_SAMPLED,
    MOST,
    Enumerated,
    Sampled,
    Terms,
    check,
    thresholds_of,
)
from bridle.schema import Category, Flag, Labels, Number, Schema

__all__ = ["Family", "Grid", "JointRules", "Mixture", "Side", "Space", "Through"]

# All constants here are part of what an agent's log means: another value is another form.
#
# Prior weights before they are scaled to add up to 1. `crosses`: rules of single words of either
# side and of one of each; `deep`: also two words of one side, with none or one (or two) of the
# other.
PRIOR = {"allowed": 0.05, "crosses": 0.2, "deep": 0.8, "logistic": 0.1, "pooled": 0.1}
PRIOR_NUMBERS = {**PRIOR, "bounds": 20.0}
PRIOR_UNBOUNDED = {**PRIOR, "logistic": 2.5, "pooled": 2.5}
# Terms of one family of rules, and columns of logistic limits, that a mixture takes.
MOST_TERMS = 5_050
MOST_COLUMNS = 500
# Standard deviations of weights: of a context's features, an arm's, and of products; by degrees
# that differ as they like, and where contexts have most in common.
OWN_SD = 3.0, 3.0, 3.0
POOLED_SD = 3.0, 1.5, 0.75
# Prior probability that a word of a context alone denies everything.
CONTEXT_ALONE = 0.05
# Contexts of one value of a feature may have another kind of limits than most: to one band all is
# allowed, to another all but what looks like nothing. How likely that is; and of which features it
# is tried: of the first so many, with no more values than that.
DEVIATION = 0.1
MOST_PARTED, MOST_VALUES = 4, 64
# How much arms of equal features have in common beyond what those say, in one context: what members
# believe counts as so many answers beside those about such arms; infinity: they have nothing more
# in common. Fewer than three would call a kind safe after an answer or two, and large kinds are
# seldom all alike. Each is as likely beforehand; most kinds have as much in common as most others,
# and so many may differ.
ALIKE: Floats = np.array([math.inf, 10.0, 3.0])
APART = 0.5
# Labels of one context or arm that are held together, about.
LABELS_HELD = 3.0
# A member with less weight than this is not asked what it predicts: nobody could tell.
NO_WEIGHT = 1e-12
# Pairs of one call that are looked at together: numbers in an array of terms.
BLOCK = 4_000_000

_SAMPLE = np.uint64(0x50414952)  # what the keys are for: no other use of the seed shares bits


class Side:
    """One side of a pair: what contexts, or arms, are described by.

    Parameters
    ----------
    schema : Schema
        Its features.
    groups : sequence of str
        Names of declared groups: one more category, after the features.
    """

    def __init__(self, schema: Schema, groups: Sequence[str] = ()) -> None:
        self.schema, self.groups = schema, tuple(groups)
        self.width = schema.width + len(self.groups)
        self.names = (*schema.columns, *(f"group={group}" for group in self.groups))
        self.thresholds: Floats = np.concatenate(
            [thresholds_of(schema), np.full(len(self.groups), 0.5)]
        )
        self.columns: Ints = np.flatnonzero(~np.isnan(self.thresholds))
        self.above: Floats = self.thresholds[self.columns]
        places = [at for feature, at in schema.numbers if feature.low is None]
        self.unbounded = [at for at in places if np.isnan(self.thresholds[at])]
        # Words of one category exclude each other; and about how many words are held together.
        exclusive, self.held_together = np.arange(self.width) + len(schema.features) + 1, 0.0
        for number, feature in enumerate(schema.features):
            if isinstance(feature, Category):
                at = schema.place(feature.name)[1]
                exclusive[at : at + len(feature.values) + feature.optional] = number
                self.held_together += 1.0
            elif isinstance(feature, Flag):
                self.held_together += 0.5
        plain = sum(1 for _, at in schema.numbers if not np.isnan(self.thresholds[at]))
        labels = len(self.columns) - len(self.groups) - plain - len(schema.optional)
        labels -= sum(
            1 if isinstance(f, Flag) else len(f.values)
            for f in schema.features
            if isinstance(f, Flag | Category)
        )
        self.held_together += 0.5 * plain + min(LABELS_HELD, labels)
        if self.groups:
            exclusive[schema.width :] = len(schema.features)
            self.held_together += 1.0
        # The columns of features of which a row holds one value at most: what parts contexts.
        parts = [schema.place(f.name)[1] for f in schema.features]
        sizes = [len(f.values) if isinstance(f, Category) else 1 for f in schema.features]
        self.parts: tuple[Ints, ...] = tuple(
            np.arange(at, at + size)
            for f, at, size in zip(schema.features, parts, sizes, strict=True)
            if isinstance(f, Category | Flag) and size <= MOST_VALUES
        )[:MOST_PARTED]
        self.gaps: Ints = np.array([gap for _, gap in schema.optional], np.int64)
        of = exclusive[self.columns].tolist()
        pairs = [(i, j) for i, j in combinations(range(len(of)), 2) if of[i] != of[j]]
        self.pairs: Ints = np.array(pairs, np.int64).reshape(-1, 2)
        # The number of each pair by its two words, -1 where they exclude each other.
        self.pair_numbers: Ints = np.full((len(of), len(of)), -1, np.int64)
        self.pair_numbers[self.pairs[:, 0], self.pairs[:, 1]] = np.arange(len(pairs))

    def open(self, rows: Floats) -> Bools:
        """Return which rows lack a feature, so that it is not known what they are: (n,)."""
        out: Bools = np.asarray((rows[:, self.gaps] > 0.5).any(axis=1))
        return out

    def fillings(self, row: Floats) -> tuple[Floats, Ints]:
        """Return a row with what it lacks filled in by each value that it could have.

        Each feature in turn: each word alone and, of labels, all of them; the ends of a number. And
        by the number of the feature, which comes with them: 0 for rows that have all at once.
        """
        lacks = [one for one in self.schema.optional if row[one[1]] > 0.5]
        rows: list[Floats] = []
        which: list[int] = []

        def add(number: int, low: Mapping[int, float]) -> None:
            made = row.copy()
            made[list(low)] = list(low.values())
            rows.append(made)
            which.append(number)

        every: list[dict[int, float]] = [{}, {}]
        for number, (feature, gap) in enumerate(lacks, 1):
            at = self.schema.place(feature.name)[1]
            if isinstance(feature, Number):
                for end, whole in zip((0.0, 1.0), every, strict=True):
                    add(number, {at: end})
                    whole[at] = end
                continue
            words = dict.fromkeys(range(at, gap), 1.0)
            for column in words:
                add(number, {column: 1.0})
            if isinstance(feature, Labels):
                add(number, words)
            for whole in every:
                whole.update(words)
        if len(lacks) > 1:
            for whole in every:
                add(0, whole)
        return np.array(rows), np.array(which)

    @property
    def words(self) -> int:
        """Number of columns that are words, m."""
        return len(self.columns)

    def terms(self, order: int) -> int:
        """Number of terms of up to so many words, with the empty one."""
        return 1 + self.words * (order >= 1) + len(self.pairs) * (order >= 2)

    def held(self, rows: Floats, order: int) -> Bools:
        """Return which terms of up to so many words each row holds, the empty one first."""
        words = rows[:, self.columns] > self.above
        parts = [np.ones((len(rows), 1), np.bool_), words]
        if order >= 2:
            parts.append(words[:, self.pairs[:, 0]] & words[:, self.pairs[:, 1]])
        return np.concatenate(parts[: order + 1], axis=1)

    def term(self, number: int) -> tuple[int, ...]:
        """Return the columns of a term by its number, as in `held`."""
        if number == 0:
            return ()
        if number <= self.words:
            return (int(self.columns[number - 1]),)
        i, j = self.columns[self.pairs[number - 1 - self.words]].tolist()
        return (i, j)


@dataclass(frozen=True, eq=False)
class Space:
    """Both sides of a pair."""

    context: Side
    arm: Side

    @property
    def width(self) -> int:
        """Length of a joint row."""
        return self.context.width + self.arm.width

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of a joint row."""
        return (*self.context.names, *self.arm.names)

    @property
    def thresholds(self) -> Floats:
        """What each column must be above to be held; NaN: it is a number."""
        return np.concatenate([self.context.thresholds, self.arm.thresholds])


class Family:
    """The terms of rules over pairs: (terms of a context) × (terms of an arm), each perhaps empty.

    Parameters
    ----------
    space : Space
        Both sides.
    orders : (int, int)
        Words of a context, and of an arm, that a term may hold.
    """

    def __init__(self, space: Space, orders: tuple[int, int]) -> None:
        self.space, self.orders = space, orders
        self.sides = space.context.terms(orders[0]), space.arm.terms(orders[1])

    def __len__(self) -> int:
        return self.sides[0] * self.sides[1] - 1

    def term(self, number: int) -> tuple[int, ...]:
        """Return the columns of a joint row that a term is of."""
        i, j = divmod(number + 1, self.sides[1])
        d = self.space.context.width
        return (
            *self.space.context.term(i),
            *(d + column for column in self.space.arm.term(j)),
        )

    def logits(self) -> Floats:
        """Return the prior log odds of each term: people state short rules.

        About three words of an arm are denied to all, or three to those who share a word; a word of
        a context alone seldom denies everything.
        """
        c, a = self.space.context, self.space.arm
        at_c, at_a = max(c.held_together, 1.0), max(a.held_together, 1.0)
        counts = {0: 1, 1: max(c.words, 1), 2: max(len(c.pairs), 1)}
        counts_a = {0: 1, 1: max(a.words, 1), 2: max(len(a.pairs), 1)}
        density: Floats = np.empty(self.sides)
        starts_c = (0, 1, 1 + c.words, 1 + c.words + len(c.pairs))
        starts_a = (0, 1, 1 + a.words, 1 + a.words + len(a.pairs))
        for i in range(self.orders[0] + 1):
            for j in range(self.orders[1] + 1):
                if j == 0:
                    share = min(CONTEXT_ALONE, EXPECTED / counts[i])
                elif i == 0:
                    share = min(MOST[j > 1], EXPECTED / counts_a[j])
                else:
                    share = min(
                        MOST[1], EXPECTED / (counts_a[j] * at_c), EXPECTED / (counts[i] * at_a)
                    )
                here = slice(starts_c[i], starts_c[i + 1]), slice(starts_a[j], starts_a[j + 1])
                density[here] = math.log(share / (1.0 - share))
        return np.ascontiguousarray(density.ravel()[1:])


class Grid:
    """Pairs of n contexts and m arms, as members look at them: row i·m + j is context i, arm j.

    Parameters
    ----------
    space : Space
        Both sides.
    contexts, arms : array (n, d), array (m, W)
        Their rows.
    names : list of m bytes, optional
        What answers about an arm are counted by; its row by default. An arm that lacks a feature
        has a name of its own, longer than a row: who look alike there may be anything.
    """

    def __init__(
        self,
        space: Space,
        contexts: Floats,
        arms: Floats,
        names: Sequence[bytes] | None = None,
    ) -> None:
        self.space, self.contexts, self.arms = space, contexts, arms
        self._names = names
        self._sides: dict[tuple[int, int], Bools] = {}
        self._words: dict[int, Bools] = {}
        self._phi: Floats | None = None
        self._rows: Floats | None = None

    def __len__(self) -> int:
        return len(self.contexts) * len(self.arms)

    @property
    def names(self) -> Sequence[bytes]:
        """What answers about each arm are counted by."""
        if self._names is None:
            self._names = [row.tobytes() for row in self.arms]
        return self._names

    def lacks(self, name: bytes) -> bool:
        """Return whether a name is that of an arm that lacks a feature."""
        return len(name) != 8 * self.space.arm.width

    def side(self, which: int, order: int) -> Bools:
        """Return the terms of up to so many words that contexts (0), or arms (1), hold."""
        if (which, order) not in self._sides:
            side = self.space.arm if which else self.space.context
            self._sides[which, order] = side.held(self.arms if which else self.contexts, order)
        return self._sides[which, order]

    def words(self, which: int) -> Bools:
        """Return the words that contexts (0), or arms (1), hold: (n, words)."""
        if which not in self._words:
            side = self.space.arm if which else self.space.context
            rows = self.arms if which else self.contexts
            self._words[which] = np.ascontiguousarray(rows[:, side.columns] > side.above)
        return self._words[which]

    def held(self, orders: tuple[int, int]) -> Bools:
        """Return which terms of a family each pair holds: (n·m, T)."""
        c, a = self.side(0, orders[0]), self.side(1, orders[1])
        both = c[:, None, :, None] & a[None, :, None, :]
        return np.ascontiguousarray(both.reshape(len(self), -1)[:, 1:])

    @property
    def rows(self) -> Floats:
        """The joint rows: (n·m, W)."""
        if self._rows is None:
            n, m = len(self.contexts), len(self.arms)
            self._rows = np.concatenate(
                [np.repeat(self.contexts, m, axis=0), np.tile(self.arms, (n, 1))], axis=1
            )
        return self._rows

    @property
    def phi(self) -> Floats:
        """(1, x) ⊗ (1, a) without the leading 1: (n·m, (1 + d)(1 + p) − 1)."""
        if self._phi is None:
            x = np.concatenate([np.ones((len(self.contexts), 1)), self.contexts], axis=1)
            a = np.concatenate([np.ones((len(self.arms), 1)), self.arms], axis=1)
            both = x[:, None, :, None] * a[None, :, None, :] + 0.0  # -0 becomes 0
            self._phi = np.ascontiguousarray(both.reshape(len(self), -1)[:, 1:])
        return self._phi


# --- Members ------------------------------------------------------------------------------
#
# Each has one belief over all pairs. `predictive` returns P(allowed), P(the teacher says so),
# information and standard deviation, (4, n·m); `fold` the same of one pair, before it learns.


class AllAllowed:
    """Everything is allowed. There is nothing to learn or to keep."""

    degrees = False
    room: int | None = None

    def predictive(self, grid: Grid) -> Floats:
        """Return that it is sure."""
        out: Floats = np.zeros((4, len(grid)))
        out[:2] = 1.0 - FLOOR
        return out

    def fold(self, grid: Grid, allowed: bool, key: int) -> Floats:
        """Ignore an answer."""
        return self.predictive(grid)

    def clear(self) -> None:
        """Do nothing."""

    def copy(self) -> AllAllowed:
        """Return itself: it never changes."""
        return self

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return no arrays."""
        return {}

    def read(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take in no arrays."""
        if state:
            raise CorruptState(f"PairLimits: no place for {sorted(state)!r:.200}.")

    def noise(self, p: float) -> float:
        """Return 0: it learns nothing anew."""
        return 0.0

    def refit_seconds(self, n: int) -> float:
        """Return 0: it learns nothing anew."""
        return 0.0


class JointRules:
    """A set of denied terms over pairs, as `RuleLimits` has one a unit.

    Parameters
    ----------
    family : Family
        The terms.
    error : float or None
        How often the teacher errs; None: estimated, on `ERROR_GRID`.
    chains, sweeps : int
        Sampled sets, and Gibbs sweeps an answer, where there are more than 12 terms.
    start : int
        Start of the stream of its random numbers.
    """

    degrees = False
    room: int | None = None

    def __init__(
        self, family: Family, *, error: float | None, chains: int, sweeps: int, start: np.uint64
    ) -> None:
        self.family, self._start = family, start
        rates = ERROR_GRID if error is None else (error,)
        self.errors: Floats = np.array(rates)
        T = len(family)
        self.terms = Terms(T)
        self.chains, self.sweeps, self.exact = chains, sweeps, T <= MAX_EXACT
        self._logit = family.logits()
        self.clear()

    def clear(self) -> None:
        """Forget all answers."""
        self._evidence: Floats = np.zeros(len(self.errors))
        self.belief: Enumerated | Sampled = self._fresh()
        self._packed: list[Uints] | None = None  # the sampled sets, a bit each
        self._weigh()

    def _fresh(self) -> Enumerated | Sampled:
        if self.exact:
            return Enumerated(self._logit, self.terms, self.errors)
        clearing = len(self.terms) > MAX_SAMPLED
        return Sampled(self._logit, self.terms, self.errors, self.chains, self.sweeps, clearing)

    def predictive(self, grid: Grid) -> Floats:
        """Return P(allowed), P(the teacher says so), information and standard deviation."""
        if not isinstance(self.belief, Sampled):
            return self._mixed(grid.held(self.family.orders))
        # Without a row of all terms for each pair: the same bits as of these.
        if self._packed is None:
            self._packed = [gibbs.pack_sets(sets) for sets in self.belief.sets]
        shares: Floats = np.empty((len(self.errors), len(grid)))
        for g, packed in enumerate(self._packed):
            gibbs.share_pairs(
                packed,
                self.chains,
                grid.words(0),
                grid.words(1),
                grid.space.context.pair_numbers,
                grid.space.arm.pair_numbers,
                self.family.orders,
                self.family.sides,
                self.belief.place,
                self.belief.log_out[g],
                shares[g],
            )
        return self._of_shares(shares)

    def fold(self, grid: Grid, allowed: bool, key: int) -> Floats:
        """Fold an answer about the one pair of a grid; return what was predicted before."""
        held = grid.held(self.family.orders)
        before = self._mixed(held)
        own = keys.mix(np.uint64(keys.key_of(self._start, np.uint64(0))) ^ np.uint64(key))
        self._evidence += self.belief.fold(held[0], allowed, np.uint64(own))
        self._packed = None
        self._weigh()
        return before

    def marginals(self) -> Floats:
        """Return the probability that each term is denied: (T,)."""
        shares = self.belief.marginals()
        return np.array([math.fsum(self._weights * column) for column in shares.T])

    def copy(self) -> JointRules:
        """Return rules that learn apart from now on."""
        twin = object.__new__(JointRules)
        twin.__dict__.update(self.__dict__)
        twin.belief, twin._evidence = self.belief.copy(), self._evidence.copy()
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return what was learned, as named arrays."""
        return {"evidence": self._evidence.copy(), **self.belief.to_state()}

    def read(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore what `to_state` returned."""
        rest = dict(state)
        evidence = rest.pop("evidence")
        check(evidence, np.float64, self._evidence.shape, "evidence", "PairLimits")
        if not np.isfinite(evidence).all():
            raise CorruptState("PairLimits: 'evidence' holds numbers that are not finite.")
        self._evidence = evidence.copy()
        self.belief, self._packed = self._fresh(), None
        self.belief.read(rest)
        self._weigh()

    def noise(self, p: float) -> float:
        """Return how far a belief of p moves by chance: that of a sample of so many sets."""
        if self.exact:
            return 0.0
        q = (p * self.chains + 1.0) / (self.chains + 2.0)
        return math.sqrt(2.0 * q * (1.0 - q) / self.chains)

    def refit_seconds(self, n: int) -> float:
        """Return how long n answers take, roughly."""
        each = 4.5e-8 * 2.0 ** len(self.terms) if self.exact else 0.0
        if not self.exact:
            active = self.chains * self.sweeps * min(len(self.terms), 200)
            each = active * (1.8e-8 + 1.7e-11 * n)
        return n * (2e-5 + len(self.errors) * each)

    def _weigh(self) -> None:
        weights = np.exp(self._evidence - self._evidence.max())
        self._weights: Floats = weights / math.fsum(weights)

    def _mixed(self, held: Bools) -> Floats:
        shares: Floats = np.empty((len(self.errors), len(held)))
        self.belief.shares(self.belief.seen(held), shares)
        return self._of_shares(shares)

    def _of_shares(self, shares: Floats) -> Floats:
        out: Floats = np.empty((4, shares.shape[1]))
        rulesets.mix_errors(shares, self.errors, self._weights, out[0], out[1], out[2])
        out[3] = np.sqrt(out[0] * (1.0 - out[0]))
        return out


class Through:
    """Limits of one arm that see a pair as a row of their own.

    Parameters
    ----------
    make : callable
        Makes them, untaught.
    view : callable
        Turns a grid into their rows, (n·m, columns).
    degrees : bool
        Whether they speak by degrees, so that nothing that they allow is an exception.
    scale : array, optional
        If the rows are `Grid.phi` times this, and the limits logistic: no rows are made then.
    bounds : bool
        Whether they set bounds to numbers: where one is not known, an answer tells them nothing.
    """

    def __init__(
        self,
        make: Callable[[], Beliefs],
        view: Callable[[Grid], Floats],
        *,
        degrees: bool,
        read: Callable[[Mapping[str, npt.NDArray[Any]]], Beliefs] | None = None,
        scale: Floats | None = None,
        bounds: bool = False,
    ) -> None:
        self._make, self._view, self.degrees, self._scale = make, view, degrees, scale
        self._bounds = bounds
        self.limits = make()
        self._read = read or type(self.limits).from_state

    @property
    def room(self) -> int | None:
        """How many distinct pairs it can hold."""
        return self.limits.room

    def clear(self) -> None:
        """Forget all answers."""
        self.limits = self._make()

    def predictive(self, grid: Grid) -> Floats:
        """Return P(allowed), P(the teacher says so), information and standard deviation."""
        if self._scale is not None and isinstance(self.limits, LogisticLimits):
            contexts, arms = grid.contexts, grid.arms
            return np.array(self.limits.predictive_pairs(contexts, arms, self._scale))
        return np.array(self.limits.predictive(0, self._view(grid)))

    def fold(self, grid: Grid, allowed: bool, key: int) -> Floats:
        """Fold an answer about the one pair of a grid; return what was predicted before."""
        gaps = grid.space.arm.schema.optional
        if self._bounds and any(isinstance(f, Number) and grid.arms[0, g] > 0.5 for f, g in gaps):
            return self.predictive(grid)
        before, _ = self.limits.fold(self._view(grid)[0], 0, allowed, key)
        return np.array(before)

    def copy(self) -> Through:
        """Return limits that learn apart from now on."""
        twin = object.__new__(Through)
        twin.__dict__.update(self.__dict__)
        twin.limits = self.limits.copy()
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return what was learned, as named arrays."""
        return self.limits.to_state()

    def read(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore what `to_state` returned."""
        made = self._read(state)
        if (made.arms, made.features) != (1, self.limits.features):
            raise CorruptState("PairLimits: a member is about other features.")
        self.limits = made

    def noise(self, p: float) -> float:
        """Return how far a belief of p moves by chance."""
        return self.limits.noise(p)

    def refit_seconds(self, n: int) -> float:
        """Return how long n answers take, roughly."""
        return self.limits.refit_seconds(n)


Member = AllAllowed | JointRules | Through


def scales(space: Space, sds: tuple[float, float, float], base: float) -> Floats:
    """Return by what each column of `Grid.phi` is multiplied, for prior deviations of its own."""
    d, p = space.context.width, space.arm.width
    out: Floats = np.full((1 + d, 1 + p), sds[2])
    out[:, 0], out[0] = sds[0], sds[1]
    return np.ascontiguousarray(out.ravel()[1:] / base)


class Mixture:
    """Members over pairs, weighed by how well each predicted the answers, as `MixtureLimits`.

    Where a context holds one value of a feature, its band say, members are weighed for each value,
    too, and most values are believed to be of one kind, as units are in `MixtureLimits`. Whether
    that tells more than to weigh them once for all contexts is weighed by the evidence as well.
    With a single member its word is taken as it is.

    Parameters
    ----------
    space : Space
        Both sides of a pair.
    members : mapping from names to members
        What takes part.
    prior : mapping from names to floats
        Weights before the first answer.
    doubt : float
        Safe is what is allowed with probability 1 − doubt or more, possible with doubt or more.
    error : float or None
        How often the teacher errs.
    """

    def __init__(
        self,
        space: Space,
        members: Mapping[str, Member],
        prior: Mapping[str, float],
        *,
        doubt: float,
        error: float | None,
    ) -> None:
        self.space, self.members, self.doubt = space, dict(members), doubt
        raw = [prior[name] for name in self.members]
        self._log_prior: Floats = np.array([math.log(w / math.fsum(raw)) for w in raw])
        self._least = min(FLOOR, doubt / 10.0)
        self._floor = max(self._least, self._least if error is None else error)
        self._exact = error is not None and error <= NOISY_ABOVE
        self._degrees: Bools = np.array([m.degrees for m in self.members.values()])
        # The ways to part contexts, J of them: not at all, and by the values of each feature (and
        # no value). Evidence, exceptions and weights are kept for each part, those of one way after
        # those of the way before: `starts` says where they begin.
        self._ways: tuple[Ints, ...] = (np.zeros(0, np.int64),)
        if len(self.members) > 1:
            self._ways += space.context.parts
        self._starts: list[int] = np.cumsum([0, *(len(way) + 1 for way in self._ways)]).tolist()
        self.clear(members=False)

    def clear(self, *, members: bool = True) -> None:
        """Forget all answers."""
        M = len(self.members)
        if members:
            for member in self.members.values():
                member.clear()
        self._evidence: Floats = np.zeros((self._starts[-1], M))
        self._tallies: Floats = np.zeros((3, M, self._starts[-1]))
        self.allowed = 0  # answers "allowed"
        # Answers about the very features of a pair, by context and arm: allowed, denied.
        self._counts: dict[bytes, dict[bytes, list[int]]] = {}
        # Which features were not given of an arm that was denied, by `Side.gaps`.
        self._gaps: Bools = np.zeros(len(self.space.arm.gaps), np.bool_)
        # Evidence of each of `ALIKE`, by context and features of arms: a row each, in the order of
        # the first answers, and where that is.
        self._same: Floats = np.zeros((0, len(ALIKE)))
        self._place: dict[bytes, dict[bytes, int]] = {}
        self.answers = self.surprised = 0
        self.surprises: list[Surprise] = []
        self._weigh()

    @property
    def weights(self) -> dict[str, float]:
        """How much each member is believed by now, of all contexts together."""
        return dict(zip(self.members, self._weights[0].tolist(), strict=True))

    @property
    def exceptions(self) -> dict[str, float]:
        """How often what each member allows is expected to be denied, over all contexts."""
        return dict(zip(self.members, self._rates[:, 0].tolist(), strict=True))

    @property
    def noisy(self) -> bool:
        """Whether the teacher seems to err so often that one answer is not the truth."""
        rules = [m for m in self.members.values() if isinstance(m, JointRules)]
        if not rules or len(rules[0].errors) == 1:
            return self._floor > NOISY_ABOVE
        return any(math.fsum(m._weights * m.errors) > NOISY_ABOVE for m in rules)

    def predict(self, grid: Grid, *, alike: bool = True) -> Prediction:
        """Return what is believed of each pair of a grid: arrays of n·m.

        alike: whether what was said of equal arms raises it; else it is what members believe.
        """
        if not self.space.arm.open(grid.arms).any():
            return self._mixed(self._parts(grid), grid, alike=alike)
        seen = Grid(self.space, grid.contexts, self._shown(grid.arms), grid.names)
        found = self._mixed(self._parts(seen), seen, alike=alike)
        return self._doubted(found, self._least_allowed(grid, found), grid)

    def predict_answer(self, grid: Grid) -> Floats:
        """Return the probability that the teacher, who may err, says "allowed": (n·m,)."""
        parts = self._parts(grid)
        n, m = len(grid.contexts), len(grid.arms)
        weights, rates = self._weights_in(grid.contexts)
        Q = np.tile(parts[:, 1].reshape(-1, n, m), (len(self._ways), 1, 1))
        Q = np.clip(Q * (1.0 - rates[:, :, None]), self._floor, 1.0 - self._floor)
        out = [math.fsum(weights[i] * Q[:, i, j]) for i in range(n) for j in range(m)]
        return np.array(out, np.float64)

    def fold(self, grid: Grid, allowed: bool, key: int) -> Prediction:
        """Fold an answer about the one pair of a grid; return what was believed before."""
        lacks = self.space.arm.open(grid.arms)[0]
        before = self.predict(grid) if lacks else None
        parts = np.array([m.fold(grid, allowed, key) for m in self.members.values()])
        self._ask_consent(parts, grid)
        if before is None:
            before = self._mixed(parts, grid)
        raw = np.clip(parts[:, 1, 0], self._floor, 1.0 - self._floor)
        weights, _ = self._weights_in(grid.contexts)
        places = self._parts_with(grid.contexts[0])
        yes = np.clip(raw * (1.0 - self._rates[:, places].T), self._floor, 1.0 - self._floor)
        chance = yes if allowed else 1.0 - yes
        total = self._judge(grid, math.fsum(weights[0] * yes.ravel()), allowed)
        self.answers += 1
        if total < self.doubt:
            self.surprised += 1
            if len(self.surprises) < MAX_SURPRISES:
                self.surprises.append(Surprise(self.answers, 0, allowed, total))
        for place, each in zip(places.tolist(), chance.tolist(), strict=True):
            self._evidence[place] += [math.log(q) for q in each]
            kernel.count(self._tallies, place, raw, allowed, self._least, *EXCEPTIONS)
        if self._exact:
            here = self._counts.setdefault(grid.contexts[0].tobytes(), {})
            here.setdefault(grid.names[0], [0, 0])[not allowed] += 1
        self.allowed += allowed
        if lacks and not allowed:
            self._gaps = self._gaps | (grid.arms[0, self.space.arm.gaps] > 0.5)
        self._weigh()
        return before

    def without(self, grid: Grid, allowed: bool, key: int) -> Mixture:
        """Return a mixture that is weighed as if an answer about the one pair had not been given.

        The opposite answer has the inverse odds for every rule: after both, rules are believed as
        without either. What each member gave to the answer is taken from its evidence; how often
        exceptions are expected stays as it was.
        """
        twin = self.copy()
        for member in twin.members.values():
            member.fold(grid, not allowed, key)
        parts = np.array([m.predictive(grid) for m in twin.members.values()])
        raw = np.clip(parts[:, 1, 0], self._floor, 1.0 - self._floor)
        places = twin._parts_with(grid.contexts[0])
        yes = np.clip(raw * (1.0 - self._rates[:, places].T), self._floor, 1.0 - self._floor)
        twin._evidence[places] -= np.log(yes if allowed else 1.0 - yes)
        here = twin._counts.get(grid.contexts[0].tobytes(), {}).get(grid.names[0])
        if here is not None:
            here[not allowed] = max(0, here[not allowed] - 1)
        twin.allowed -= allowed
        twin._weigh()
        return twin

    def copy(self) -> Mixture:
        """Return a mixture with the same knowledge that learns apart from now on."""
        twin = object.__new__(Mixture)
        twin.__dict__.update(self.__dict__)
        twin.members = {name: member.copy() for name, member in self.members.items()}
        twin._evidence, twin._tallies = self._evidence.copy(), self._tallies.copy()
        twin._same = self._same.copy()
        twin._place = {c: dict(of) for c, of in self._place.items()}
        twin._counts = {c: {a: list(n) for a, n in of.items()} for c, of in self._counts.items()}
        twin.surprises = list(self.surprises)
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return what was learned, as named arrays; a member's follow its name, a slash."""
        seen = [(s.answer, s.allowed) for s in self.surprises]
        state: dict[str, npt.NDArray[Any]] = {
            "members": np.array(list(self.members)),
            "evidence": self._evidence.copy(),
            "tallies": self._tallies.copy(),
            "same": self._same.copy(),
            "places": np.array(
                [
                    self._place[c][arm]
                    for c, of in self._counts.items()
                    for arm in of
                    if arm in self._place.get(c, {})
                ],
                np.int64,
            ),
            "numbers": np.array([self.allowed, self.answers, self.surprised]),
            "surprises": np.array(seen, np.int64).reshape(-1, 2),
            "surprise": np.array([s.probability for s in self.surprises], np.float64),
        }
        if len(self._gaps):
            state["gaps"] = self._gaps.copy()
        for name, member in self.members.items():
            state |= {f"{name}/{key}": array for key, array in member.to_state().items()}
        return state

    def read(
        self, state: Mapping[str, npt.NDArray[Any]], counts: dict[bytes, dict[bytes, list[int]]]
    ) -> None:
        """Restore what `to_state` returned; `counts` are the answers by features."""
        owner, rest, M = "PairLimits", dict(state), len(self.members)
        if rest.pop("members").tolist() != list(self.members):
            raise CorruptState(f"{owner}: its members are not those of its settings.")
        for name, member in self.members.items():
            head = f"{name}/"
            own = {key: array for key, array in rest.items() if key.startswith(head)}
            rest = {key: array for key, array in rest.items() if key not in own}
            member.read({key.removeprefix(head): array for key, array in own.items()})
        gaps = rest.pop("gaps", self._gaps)
        check(gaps, np.bool_, self._gaps.shape, "gaps", owner)
        self._gaps = gaps.copy()
        evidence, tallies, numbers = (rest.pop(n) for n in ("evidence", "tallies", "numbers"))
        check(evidence, np.float64, self._evidence.shape, "evidence", owner)
        check(tallies, np.float64, (3, M, self._starts[-1]), "tallies", owner)
        same, places = rest.pop("same"), rest.pop("places")
        told: list[tuple[bytes, bytes]] = []
        if self._compares:
            plain = 8 * self.space.arm.width
            told = [(c, a) for c, of in counts.items() for a in of if len(a) == plain]
        check(same, np.float64, (len(told), len(ALIKE)), "same", owner)
        check(places, np.int64, (len(told),), "places", owner)
        if sorted(places.tolist()) != list(range(len(told))):
            raise CorruptState(f"{owner}: 'places' are none that can be.")
        check(numbers, np.int64, (3,), "numbers", owner)
        seen, probability = rest.pop("surprises"), rest.pop("surprise")
        n = min(len(seen), MAX_SURPRISES)
        check(seen, np.int64, (n, 2), "surprises", owner)
        check(probability, np.float64, (n,), "surprise", owner)
        finite = all(np.isfinite(a).all() for a in (evidence, tallies, same, probability))
        if not finite or numbers.min() < 0 or tallies[:2].min(initial=0.0) < 0.0 or rest:
            raise CorruptState(
                f"{owner}: a number cannot be, or no place for {sorted(rest)!r:.200}."
            )
        self._evidence, self._tallies = evidence.copy(), tallies.copy()
        self._same, self._place = same.copy(), {}
        for (c, arm), place in zip(told, places.tolist(), strict=True):
            self._place.setdefault(c, {})[arm] = place
        self.allowed, self.answers, self.surprised = numbers.tolist()
        self.surprises = [
            Surprise(answer, 0, bool(allowed), q)
            for (answer, allowed), q in zip(seen.tolist(), probability.tolist(), strict=True)
        ]
        self._counts = counts if self._exact else {}
        self._weigh()

    def _parts(self, grid: Grid) -> Floats:
        """Return what members predict, (M, 4, n·m); those of no weight are not asked."""
        parts: Floats = np.zeros((len(self.members), 4, len(grid)))
        parts[:, :2] = 0.5
        for m, member in enumerate(self.members.values()):
            if self._weights[:, m].max() >= NO_WEIGHT:
                parts[m] = member.predictive(grid)
        self._ask_consent(parts, grid)
        return parts

    def _ask_consent(self, parts: Floats, grid: Grid) -> None:
        """No rule can deny a pair that holds nothing: that any is allowed must have been said."""
        c, a = self.space.context, self.space.arm
        if self.allowed or not c.words + a.words:
            return
        empty_c: Bools = np.asarray(~grid.side(0, 1)[:, 1:].any(axis=1))
        empty_a: Bools = np.asarray(~grid.side(1, 1)[:, 1:].any(axis=1))
        empty = (empty_c[:, None] & empty_a).ravel()
        if empty.any():
            for m in np.flatnonzero(~self._degrees).tolist():
                parts[m, :2, empty] = np.minimum(parts[m, :2, empty], 0.5)

    def _mixed(self, parts: Floats, grid: Grid, *, alike: bool = True) -> Prediction:
        n, m = len(grid.contexts), len(grid.arms)
        weights, rates = self._weights_in(grid.contexts)
        whole = parts.transpose(1, 0, 2).reshape(4, -1, n, m)
        P, Q, each, sds = np.ascontiguousarray(np.tile(whole, (1, len(self._ways), 1, 1)))
        p, information, sd = np.empty((3, n, m))
        kernel.mix(
            P,
            Q,
            each,
            sds,
            rates,
            weights,
            self._least,
            self._floor,
            p,
            information,
            sd,
        )
        self._share(p, information, grid, alike=alike)
        here = p.ravel()
        safe, possible = here >= 1.0 - self.doubt, here >= self.doubt
        return Prediction(here, safe, possible, information.ravel(), sd.ravel())

    # -- what arms are that lack a feature ---------------------------------------------------

    def _shown(self, rows: Floats) -> Floats:
        """Return rows of arms without the gaps in which no denial has been seen.

        That a feature is not given is a word, which explains denials of such arms: it may be the
        rule. Nobody is suspected of that rule before a denial.
        """
        out = rows.copy()
        out[:, self.space.arm.gaps[~self._gaps]] = 0.0
        return out

    def _least_allowed(self, grid: Grid, found: Prediction) -> Floats:
        """Return P(allowed) of each pair, (n, m), by the worst that its arm could be.

        That one feature could make it lower is added up over those that are not known; and it is no
        higher than with all that they could be at once.
        """
        lacks = np.flatnonzero(self.space.arm.open(grid.arms))
        n = len(grid.contexts)
        p = found.p.reshape(n, -1)
        least: Floats = p.copy()
        alike: dict[bytes, list[int]] = {}
        for j in lacks.tolist():
            alike.setdefault(grid.arms[j].tobytes(), []).append(j)
        for same in alike.values():
            rows, which = self.space.arm.fillings(grid.arms[same[0]])
            filled = Grid(self.space, grid.contexts, self._shown(rows))
            whole = self._mixed(self._parts(filled), filled, alike=False).p.reshape(n, -1)
            low, here = p[:, same].copy(), p[:, same]
            for feature in range(1, int(which.max()) + 1):
                worst = whole[:, which == feature].min(axis=1)
                low -= np.maximum(here - worst[:, None], 0.0)
            low = np.maximum(low, 0.0)
            if (which == 0).any():
                low = np.minimum(low, whole[:, which == 0].min(axis=1)[:, None])
            for i, context in enumerate(grid.contexts):
                for denied in self._denied_alike(context, grid.arms[same[0]]):
                    one = Grid(self.space, context[None], denied[None])
                    worst = self._mixed(self._parts(one), one).p[0]
                    low[i] = np.minimum(low[i], worst)
            least[:, same] = low
        return least

    def _denied_alike(self, context: Floats, row: Floats) -> list[Floats]:
        """Return rows of what was denied in a context, and an arm that lacks features may be."""
        side, out = self.space.arm, []
        for name, count in self._counts.get((context + 0.0).tobytes(), {}).items():
            if not count[1] or len(name) != 8 * side.width:
                continue
            other = np.frombuffer(name)
            free = np.zeros(side.width, np.bool_)
            for feature, gap in side.schema.optional:
                if row[gap] > 0.5:
                    at = side.schema.place(feature.name)[1]
                    free[at : gap + 1] = (row[at : gap + 1] <= 0.5) | isinstance(feature, Number)
                    free[gap] = True
            if (other[~free] == row[~free]).all():
                out.append(other)
        return out

    def _doubted(self, found: Prediction, least: Floats, grid: Grid) -> Prediction:
        """Put pairs in doubt whose arm could be one that is denied, as a feature is not known.

        P(allowed) is half-way between what it is without the feature and the worst that the feature
        could make of it. Not where the teacher allowed this very arm in this very context.
        """
        bar, p = 1.0 - self.doubt, found.p.reshape(least.shape)
        half = np.maximum((p + least) / 2.0, np.minimum(p, self.doubt))
        out = np.where(least >= bar, np.minimum(p, least), np.where(half < bar, half, least))
        out = np.where(self.space.arm.open(grid.arms), out, p)
        place = {name: j for j, name in enumerate(grid.names) if grid.lacks(name)}
        for i, context in enumerate(grid.contexts):
            told = self._counts.get((context + 0.0).tobytes(), {})
            for name in place.keys() & told.keys():
                if told[name][0] and not told[name][1]:
                    out[i, place[name]] = 1.0 - self._floor
        whole = np.ascontiguousarray(out.ravel())
        safe, possible = whole >= bar, whole >= self.doubt
        return Prediction(whole, safe, possible, found.information, found.sd)

    # -- what arms of equal features have in common ------------------------------------------

    def in_common(self, context: bytes) -> tuple[float, dict[bytes, float]]:
        """Return how alike arms of equal features are in a context: 0 nothing in common, 1 all.

        It is the correlation of two such arms beyond what members believe, and what is left of it
        for those about which there were answers, by their features.
        """
        if not self._compares:
            return 0.0, {}
        own = ALIKE.tolist()

        def left(n: int, shares: Floats) -> float:
            return math.fsum(s / (1.0 + n + a) for s, a in zip(shares.tolist(), own, strict=True))

        told, place = self._counts.get(context, {}), self._place.get(context, {})
        here = {
            arm: left(sum(count), self._shares[place[arm]])
            for arm, count in told.items()
            if arm in place
        }
        return left(0, self._usual), here

    @property
    def _compares(self) -> bool:
        """Whether answers say how alike equal arms are: not where one member's word is taken."""
        return len(self.members) > 1 and self._exact

    def _judge(self, grid: Grid, q: float, allowed: bool) -> float:
        """Weigh how alike equal arms are; return the probability that an answer had.

        q: the probability of "allowed" by the members.
        """
        context, arm = grid.contexts[0].tobytes(), grid.names[0]
        if not self._compares or grid.lacks(arm):
            return q if allowed else 1.0 - q
        places = self._place.setdefault(context, {})
        place = places.setdefault(arm, len(self._same))
        shares = self._usual
        if place == len(self._same):
            self._same = np.concatenate([self._same, np.zeros((1, len(ALIKE)))])
        else:
            shares = self._shares[place]
        told = np.array(self._counts.get(context, {}).get(arm, (0, 0)), np.float64)
        own = self._same[place]
        return float(kernel.judge(told, q, allowed, ALIKE, shares, self._floor, own))

    def _share(self, p: Floats, information: Floats, grid: Grid, *, alike: bool) -> None:
        """Move P(allowed), (n, m), by the answers about arms of these very features.

        Things that look alike may differ, so what was said of one does not settle another. But no
        member need have a place for it: rules take a denial that they cannot explain for an error.
        """
        columns: dict[bytes, list[int]] | None = None
        told, place = np.zeros((2, *p.shape)), np.full(p.shape, -1, np.int64)
        for i, context in enumerate(grid.contexts):
            raw = (context + 0.0).tobytes()
            known = self._place.get(raw, {}) if alike else {}
            for arm, count in self._counts.get(raw, {}).items():
                if columns is None:
                    columns = {}
                    for j, name in enumerate(grid.names):
                        columns.setdefault(name, []).append(j)
                for j in columns.get(arm, ()):
                    told[:, i, j], place[i, j] = count, known.get(arm, -1)
        rest = PRIOR_ANSWERS, self._least
        kernel.share(p, information, told, place, ALIKE, self._shares, *rest)

    def _weigh_alike(self) -> None:
        even, common = np.full(len(ALIKE), -math.log(len(ALIKE))), np.empty(len(ALIKE))
        self._shares: Floats = np.empty(self._same.shape)
        kernel.weigh(self._same, even, APART, self._shares, common)
        # Of arms with features that no answer was about.
        self._usual: Floats = (1.0 - APART) * common + APART / len(ALIKE)

    def _parts_with(self, context: Floats) -> Ints:
        """Return in which part a context is, by each way to part them: (J,)."""
        out = np.array(self._starts[:-1], np.int64)
        for j, columns in enumerate(self._ways):
            held = np.flatnonzero(context[columns] > 0.5)
            out[j] += held[0] if held.size else len(columns)
        return out

    def _weights_in(self, contexts: Floats) -> tuple[Floats, Floats]:
        """Return how much members are believed in each of n contexts, and their exceptions there.

        Each member by each way to part contexts: (n, J·M) and (J·M, n).
        """
        wide = len(self._ways) * len(self.members)
        weights: Floats = np.empty((len(contexts), wide))
        rates: Floats = np.empty((wide, len(contexts)))
        for i, context in enumerate(contexts):
            places = self._parts_with(context)
            weights[i] = (self._trust[:, None] * self._weights[places]).ravel()
            rates[:, i] = self._rates[:, places].T.ravel()
        return weights, rates

    def _weigh(self) -> None:
        M, J = len(self.members), len(self._ways)
        self._weights: Floats = np.empty((self._starts[-1], M))
        self._rates: Floats = np.zeros((M, self._starts[-1]))
        shared, found = np.empty(M), [0.0] * J
        for j, (at, end) in enumerate(pairwise(self._starts)):
            # Of one part alone it says nothing how many deviate.
            deviation = DEVIATION if j else 0.5
            found[j] = kernel.weigh(
                self._evidence[at:end], self._log_prior, deviation, self._weights[at:end], shared
            )
            if M > 1:
                rates = np.empty((M, end - at))
                tallies = np.ascontiguousarray(self._tallies[:, :, at:end])
                kernel.exceptions(tallies, EXACT, self._least, *EXCEPTIONS, rates)
                self._rates[:, at:end] = rates
        self._rates[self._degrees] = 0.0
        self._weigh_alike()
        # Not to part contexts has half of the prior, the other ways share the rest.
        raw = [math.exp(e - max(found)) / (max(J - 1, 1) if j else 1) for j, e in enumerate(found)]
        self._trust: Floats = np.array(raw) / math.fsum(raw)


# --- What takes part ----------------------------------------------------------------------


def make_members(
    space: Space, kind: str, *, crosses: bool, **given: Any
) -> tuple[dict[str, Member], dict[str, float], tuple[str, ...]]:
    """Return the members for a kind of limits, their prior, and sentences: what was left out, why.

    Parameters
    ----------
    space : Space
        Both sides of a pair.
    kind : {"auto", "rules", "logistic"}
        What limits are like.
    crosses : bool
        Of rules: whether two words of one side can stand in a term.
    **given
        `error`, `doubt`, `chains`, `sweeps` and `seed`.
    """
    if kind == "logistic":
        return {"logistic": _logistic(space, OWN_SD)}, {"logistic": 1.0}, ()
    start = keys.stream(given["seed"], _SAMPLE)
    sampling = {name: given[name] for name in ("error", "chains", "sweeps")}
    words = space.context.words + space.arm.words
    if kind == "rules":
        family = _deepest(space) if crosses else Family(space, (1, 1))
        return {"rules": JointRules(family, start=start, **sampling)}, {"rules": 1.0}, ()
    members: dict[str, Member] = {"allowed": AllAllowed()}
    left_out: list[str] = []
    plain = Family(space, (1, 1))
    if words and len(plain) <= MOST_TERMS:
        members["crosses"] = JointRules(plain, start=start, **sampling)
        deep = _deepest(space)
        if deep.orders != (1, 1):
            own = np.uint64(keys.key_of(start, np.uint64(1)))
            members["deep"] = JointRules(deep, start=own, **sampling)
        if deep.orders != (2, 2) and (len(space.context.pairs) or len(space.arm.pairs)):
            left_out.append(
                "Rules with two words of one side are left out, of both sides or of one: "
                f"they would have more than {MOST_TERMS:,} terms."
            )
    elif words:
        left_out.append(
            f"Rules are left out: {space.context.words:,} words of a context and "
            f"{space.arm.words:,} of an arm make {len(plain):,} terms, and {MOST_TERMS:,} is the "
            "most."
        )
    else:
        left_out.append(
            "Rules are left out: no feature is a flag, a category or a label that one could deny."
        )
    members["logistic"] = _logistic(space, OWN_SD)
    members["pooled"] = _logistic(space, POOLED_SD)
    if not _crossed(space):
        left_out.append(
            "Logistic limits do not cross features of contexts with those of arms: there would "
            f"be more than {MOST_COLUMNS:,} columns."
        )
    above = space.thresholds
    ranged: Bools = np.array(np.isnan(above), np.bool_)
    unbounded = [*space.context.unbounded]
    unbounded += [space.context.width + at for at in space.arm.unbounded]
    ranged[unbounded] = False
    usual = PRIOR
    if ranged.any() and given["error"] is None:
        left_out.append(
            "Rules with bounds on numbers are left out: they need a declared rate of error."
        )
    elif ranged.any():
        members["bounds"] = _bounds(space, ranged, given)
        usual = PRIOR_NUMBERS
    if unbounded:
        usual = PRIOR_UNBOUNDED if "bounds" not in members else usual
        left_out.append(
            f"Rules set no bounds to {len(unbounded)} numbers without a range: declare low and "
            "high, and they do."
        )
    return members, {name: usual[name] for name in members}, tuple(left_out)


def _deepest(space: Space) -> Family:
    """Return the family with most terms that is not too large."""
    for orders in ((2, 2), (1, 2), (2, 1)):
        family = Family(space, orders)
        new = len(space.context.pairs) if orders[0] == 2 else 0
        new += len(space.arm.pairs) if orders[1] == 2 else 0
        if new and len(family) <= MOST_TERMS:
            return family
    return Family(space, (1, 1))


def _crossed(space: Space) -> bool:
    return (1 + space.context.width) * (1 + space.arm.width) <= MOST_COLUMNS


def _logistic(space: Space, sds: tuple[float, float, float]) -> Through:
    d, p = space.context.width, space.arm.width
    base = OWN_SD[0]
    if _crossed(space):
        scale = scales(space, sds, base)
        return Through(
            lambda: LogisticLimits(arms=1, features=len(scale), prior_sd=base),
            lambda grid: grid.phi * scale,
            degrees=True,
            scale=scale,
        )
    plain = np.concatenate([np.full(d, sds[0]), np.full(p, sds[1])]) / base
    return Through(
        lambda: LogisticLimits(arms=1, features=d + p, prior_sd=base),
        lambda grid: grid.rows * plain,
        degrees=True,
    )


def _bounds(space: Space, ranged: Bools, given: Mapping[str, Any]) -> Through:
    """Rules with bounds: words of either side, crosses of them if these are few, and numbers."""
    numbers = np.flatnonzero(ranged)
    family = Family(space, (1, 1))
    if not len(family) or len(family) * (1 + 2 * len(numbers)) > MOST_TERMS:
        above = space.thresholds
        above[np.isnan(above) & ~ranged] = NEVER_HELD

        def whole(grid: Grid) -> Floats:
            return grid.rows

        view: Callable[[Grid], Floats] = whole
    else:
        above = np.concatenate([np.full(len(family), 0.5), np.full(len(numbers), np.nan)])

        def crossed(grid: Grid) -> Floats:
            return np.concatenate([grid.held((1, 1)), grid.rows[:, numbers]], axis=1)

        view = crossed
    make: dict[str, Any] = {
        name: given[name] for name in ("error", "doubt", "chains", "sweeps", "seed")
    }
    return Through(
        lambda: BoundLimits(arms=1, features=len(above), thresholds=above, **make),
        view,
        degrees=False,
        bounds=True,
    )


def check_kind(kind: str, space: Space, *, crosses: bool) -> None:
    """Raise `InvalidValue` where limits of a kind cannot be made over pairs."""
    words = space.context.words + space.arm.words
    if kind == "rules" and not words:
        wanted = "another kind than 'rules' where no feature is one that a rule can deny"
        remedy = "Declare flags, categories or labels, or take limits='logistic' or limits='auto'."
        raise InvalidValue("limits", "Agent", wanted, kind, remedy)
    if kind == "rules" and len(Family(space, (1, 1))) > MOST_TERMS:
        wanted = f"another kind than 'rules' where pairs have more than {MOST_TERMS:,} terms"
        raise InvalidValue("limits", "Agent", wanted, f"{len(Family(space, (1, 1))):,} terms")

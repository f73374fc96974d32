"""Rules with bounds on numbers: "not under 16", "not over 60 kg", "no Horror under 16"."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import CorruptState, InvalidValue
from bridle.kernels import bounds as kernel
from bridle.kernels import gibbs, keys
from bridle.kernels.rulesets import mix_errors
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import rules
from bridle.limits.base import Beliefs, Parts, Prediction
from bridle.limits.rules import (
    ARMS,
    CHAINS,
    DAMAGE,
    ERROR,
    MAX_FEATURES,
    MAX_SAMPLED,
    MAX_TERMS,
    NOISY_ABOVE,
    SWEEPS,
    Group,
    Reading,
    Term,
    Terms,
    checked_answers,
    doubt_of,
)
from bridle.schema import Schema

__all__ = ["Bound", "BoundLimits"]

# Prior probability of a bound on a number alone, and of a word with one; no more than so many of
# each are expected.
MOST_BOUNDS, MOST_CROSSES = 0.33, 0.15
EXPECTED = 3.0
# Between these shares of its distribution a threshold is as good as certain to be.
QUANTILES = 0.005, 0.5, 0.995

_SAMPLE = np.uint64(0x424F554E)  # what the keys are for: no other use of the seed shares bits


@dataclass(frozen=True)
class Bound:
    """What is believed of one bound: "the number is below t", or above it, with a word or alone.

    Attributes
    ----------
    number, word : int, int or None
        Columns of a context.
    below : bool
        Whether what is below t is denied; else what is above it.
    chance : float
        Probability that the unit's rule has this bound.
    low, middle, high : float
        If it has: the .5 %, 50 % and 99.5 % quantile of t, in encoded units.
    """

    number: int
    word: int | None
    below: bool
    chance: float
    low: float
    middle: float
    high: float

    def text(self, name: str, word: str | None, ends: tuple[float, float], unit: str = "") -> str:
        """Return it in words, with t in the number's own unit.

        >>> Bound(0, None, True, 1.0, 0.14, 0.16, 0.17).text("age", None, (0.0, 100.0))
        'age under about 16 (14 to 17)'
        """
        least, most = ends
        raw = [least + (most - least) * t for t in (self.low, self.middle, self.high)]
        digits = min(max(-math.floor(math.log10(max(raw[2] - raw[0], 1e-9))), 0), 9)
        low, middle, high = (f"{value:.{digits}f}" for value in raw)
        about = f"about {middle}{unit} ({low} to {high})" if low != high else f"{middle}{unit}"
        text = f"{name} {'under' if self.below else 'over'} {about}"
        return text if word is None else f"{word} with {text}"


class _Unit:
    """The answers about one unit by distinct context, and a sample of its rule.

    Parameters
    ----------
    terms : kernels.bounds.Terms
        What the terms are.
    sizes : tuple of ints
        Words m, numbers J, sets in a sample, Gibbs sweeps an answer.
    error : float
        How often the teacher errs.
    clearing : bool
        Whether only terms that occur in a denied answer are sampled.
    """

    def __init__(
        self, terms: kernel.Terms, sizes: tuple[int, int, int, int], error: float, clearing: bool
    ) -> None:
        self.terms, self.sizes, self.error, self.clearing = terms, sizes, error, clearing
        self.odds = math.log((1.0 - error) / error)
        m, J, C, _ = sizes
        self.held: Bools = np.empty((0, m), np.bool_)
        self.Y: Floats = np.empty((0, 2 * J + 1))  # coordinates: see `coordinates`
        self.net: Ints = np.empty(0, np.int64)  # answers "allowed" less "denied", by context
        self.active: Ints = np.empty(0, np.int64)  # the terms that are sampled
        self.ranks: kernel.Ranks = np.empty((C, 0), np.int32)
        self._derive(self._lists(self.active))

    def copy(self) -> _Unit:
        """Return a copy that learns apart: arrays are replaced, never changed."""
        twin = object.__new__(_Unit)
        twin.__dict__.update(self.__dict__)
        return twin

    def fold(self, held: Bools, y: Floats, allowed: bool, key: np.uint64) -> None:
        """Fold one answer."""
        scratch: Ints = np.empty(len(self.terms.logit), np.int64)
        own = scratch[: kernel.terms_of(held, self.sizes[1], scratch)]
        new = own[self.place[own] < 0] if not (allowed and self.clearing) else own[:0]
        cleared = kernel.clearance(own, y, self.aside, self.tails, self.terms)
        lists, place, ranks, net = self.lists, self.place, self.ranks.copy(), self.net.copy()
        if len(new):
            first, cleared = len(self.active), 1.0
            self.active = np.concatenate([self.active, new])
            place = self._places(self.active)
            lists = self._lists(self.active)
            ranks = np.concatenate([ranks, np.empty((len(ranks), len(new)), np.int32)], axis=1)
            turn = np.uint64(keys.bits_of(key, 1))
            kernel.draw_terms(ranks, first, lists, self._scales(lists, net), turn)
        ids = place[own]
        ids = ids[ids >= 0]
        values = y[self.terms.scope[self.active[ids]]]
        spots = kernel.spots_of(values, ids, lists)
        chance: Floats = np.empty(len(ranks))
        right = 1.0 - self.error if allowed else self.error
        kernel.foretell(ranks, ids, values, spots, lists, cleared, right, chance)
        turn = np.uint64(keys.bits_of(key, 0))
        gibbs.redraw(cast(Any, ranks), chance, turn)
        at = np.flatnonzero((self.held == held).all(axis=1) & (self.Y == y).all(axis=1))
        if not len(at):
            sides = np.uint64(keys.bits_of(key, 2))
            kernel.split(ranks, ids, values, spots, lists, cleared, right, sides)
            self.held = np.concatenate([self.held, held[None]])
            self.Y = np.concatenate([self.Y, y[None]])
            net, at = np.append(net, 0), np.array([len(net)])
            lists = self._lists(self.active)
        net[at[0]] += 1 if allowed else -1
        kernel.move(ranks, lists, self._scales(lists, net), self.sizes[3], turn)
        self.ranks, self.net = ranks, net
        self._derive(lists)

    def shares(self, held: Bools, Y: Floats, out: Floats) -> None:
        """Fill P(allowed) for each context: (n,)."""
        kernel.share_allowing(held, Y, self.chains, self.aside, self.tails, self.terms, out)

    def segments(self, t: int) -> tuple[Floats, Floats, Floats]:
        """Return the segments in which a term's threshold may be: lower end, upper end, mass."""
        a = int(self.place[t])
        if a < 0:
            b = int(self.aside[t])
            tail = slice(int(self.tails.starts[b]), int(self.tails.starts[b + 1]))
            edge = self.tails.edge[tail]
            return edge - self.tails.width[tail], edge, self.tails.mass[tail]
        at, counts = np.unique(self.ranks[:, a], return_counts=True)
        inside = at >= 0
        edges = int(self.lists.heads[a]) + 2 * a + at[inside].astype(np.int64)
        mass = counts[inside] / len(self.ranks)
        return self.lists.edges[edges], self.lists.edges[edges + 1], mass

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that was learned, as named arrays."""
        names = ("held", "net", "active", "ranks")
        return {"x": self.Y[:, 1::2].copy(), **{name: getattr(self, name) for name in names}}

    def read(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore what `to_state` returned."""
        m, J, C, _ = self.sizes
        n, A, T = len(state["net"]), len(state["active"]), len(self.terms.logit)
        shapes: dict[str, tuple[type, tuple[int, ...]]] = {
            "held": (np.bool_, (n, m)),
            "x": (np.float64, (n, J)),
            "net": (np.int64, (n,)),
            "active": (np.int64, (A,)),
            "ranks": (np.int32, (C, A)),
        }
        for name, (dtype, shape) in shapes.items():
            rules.check(state[name], dtype, shape, name, "BoundLimits")
        x, active, ranks = state["x"], state["active"], state["ranks"]
        sound = len(state) == len(shapes) and len(set(active.tolist())) == A
        sound = sound and bool(((x >= 0.0) & (x <= 1.0)).all() and (active < T).all())
        if not sound or (A and active.min() < 0):
            raise CorruptState("BoundLimits: 'x' or 'active' cannot be those of a unit.")
        self.held, self.net = state["held"].copy(), state["net"].copy()
        self.Y, self.active = coordinates(x), active.copy()
        lists = self._lists(self.active)
        if (ranks < -1).any() or (ranks > np.diff(lists.heads)).any():
            raise CorruptState("BoundLimits: 'ranks' holds more contexts than there are.")
        self.ranks = np.array(ranks, order="C")
        self._derive(lists)

    def _places(self, which: Ints) -> Ints:
        out: Ints = np.full(len(self.terms.logit), -1, np.int64)
        out[which] = np.arange(len(which))
        return out

    def _lists(self, which: Ints) -> kernel.Lists:
        return kernel.list_contexts(self.held, self.Y, which, self.terms)

    def _scales(self, lists: kernel.Lists, net: Ints) -> kernel.Scales:
        return kernel.begin(lists, net, self.odds, self.terms.logit[self.active])

    def _derive(self, lists: kernel.Lists) -> None:
        """Work out what follows from the rest: the distinct sets, and terms that are in none."""
        self.lists: kernel.Lists = lists
        self.place: Ints = self._places(self.active)
        self.chains: kernel.Chains = kernel.gather(self.ranks, self.active, lists, self.terms)
        rest = np.flatnonzero(self.place < 0)
        self.aside: Ints = self._places(rest)  # places of terms that are not sampled
        logit = self.terms.logit[rest]
        self.tails: kernel.Tails = kernel.clear_terms(self._lists(rest), self.net, self.odds, logit)


def coordinates(x: Floats) -> Floats:
    """Return 0, x₁, 1 − x₁, x₂, …, for numbers within [0, 1]: (n, 2·J + 1)."""
    out: Floats = np.zeros((len(x), 2 * x.shape[1] + 1))
    out[:, 1::2] = np.minimum(np.maximum(x, 0.0), 1.0)
    out[:, 2::2] = 1.0 - out[:, 1::2]
    return out


def _quantiles(low: Floats, high: Floats, mass: Floats) -> list[float]:
    """Quantiles of a threshold that is uniform in each of some segments, ascending."""
    total = math.fsum(mass)
    if total <= 0.0:
        return list(QUANTILES)
    upto = np.cumsum(mass) / total
    out = []
    for share in QUANTILES:
        k = min(int(np.searchsorted(upto, share)), len(mass) - 1)
        part = (share - (upto[k] - mass[k] / total)) * total / mass[k]
        out.append(float(low[k] + (high[k] - low[k]) * min(max(part, 0.0), 1.0)))
    return out


class BoundLimits(Beliefs):
    """Limits as rules that know numbers: a set of denied terms for each unit.

    A context is denied if it holds any term of its unit's set. Terms are words (flags, labels and
    categories), "this number is below t", "this number is above t", and a word together with such a
    bound; of each there is one at most. A priori each term is in the set on its own, and t is
    uniform over the number's encoded range, [0, 1]; a value outside it counts as the nearer end. An
    answer of the teacher is right with probability 1 − `error`.

    The belief is a sample of `chains` sets. Each answer redraws them by how well they predicted it,
    and then moves each by Gibbs sampling: whether a term is in the set, and between which two asked
    values its t is, are drawn from their full conditional. Between those two values t is uniform,
    and is integrated out, not drawn. Terms that are in no denied answer are not sampled: of them
    the prior, less what the allowed answers have cleared, is exact up to terms of order error. (If
    the teacher errs in more than 2 %, that holds only of terms in no answer, up to 200 terms.)

    Parameters
    ----------
    arms, features : int
        K and d.
    groups : sequence of K str, int or None, optional
        Arms of one group share their rule, and are one unit, as in `RuleLimits`.
    thresholds : d floats
        What a feature must be above to be held as a word; NaN: it is a number, in [0, 1]. See
        `thresholds_of`. A number without a declared range should not be given to these limits.
    error : float, default 0.001
        How often the teacher errs. Unlike in `RuleLimits` it cannot be estimated.
    doubt : float, optional
        Safe is what is allowed with probability 1 − doubt or more, possible with doubt or more; by
        default as in `RuleLimits`.
    chains, sweeps : int
        Sampled sets, and Gibbs sweeps an answer.
    seed : int, default 0
        With an answer's key it gives all random numbers.
    known : mapping, optional
        By unit, words of which it is certain that they are denied (True) or are not (False).

    Examples
    --------
    >>> limits = BoundLimits(arms=1, features=1, thresholds=[float("nan")])
    >>> for age, allowed in (0.1, False), (0.3, True), (0.14, False), (0.8, True), (0.17, True):
    ...     _ = limits.learn([age], 0, allowed)
    >>> limits.predict(0, [[0.05], [0.155], [0.2]]).p.round(2).tolist()
    [0.0, 0.5, 1.0]
    >>> print(limits.describe(0, ["age"], {0: (0, 100)}).denied[0])
    age under about 16 (14 to 17)
    """

    knows_errors = True
    undoes = True
    has_sentences = True

    def __init__(
        self,
        *,
        arms: int,
        features: int,
        thresholds: npt.ArrayLike,
        groups: Sequence[Group] | None = None,
        error: float = 0.001,
        doubt: float | None = None,
        chains: int = 400,
        sweeps: int = 3,
        seed: int = 0,
        known: Mapping[int, Mapping[Term, bool]] | None = None,
    ) -> None:
        owner = "BoundLimits"
        K = ARMS.check(arms, "arms", owner)
        d = MAX_FEATURES.check(features, "features", owner)
        wanted = f"{d} floats, of which at least one is NaN: that of a number"
        above = validation.floats(thresholds, "thresholds", owner, wanted)
        if above.shape != (d,) or np.isinf(above).any() or not np.isnan(above).any():
            raise InvalidValue("thresholds", owner, wanted, thresholds)
        if error is None:
            remedy = "A rate that is to be estimated is met by RuleLimits alone."
            raise InvalidValue("error", owner, str(ERROR), error, remedy)
        self.thresholds: Floats = above.copy()
        self.numbers: Ints = np.flatnonzero(np.isnan(above))
        self.words: Ints = np.flatnonzero(~np.isnan(above))
        self.terms = Terms(d, False, above) if len(self.words) else None
        self.error = ERROR.check(error, "error", owner)
        self.doubt = doubt_of(doubt, error, owner)
        self.chains = CHAINS.check(chains, "chains", owner)
        self.sweeps = SWEEPS.check(sweeps, "sweeps", owner)
        self.seed = validation.SEED.check(seed, "seed", owner)
        self._start = keys.stream(self.seed, _SAMPLE)
        m, J = len(self.words), len(self.numbers)
        T = m + 2 * J * (m + 1)
        if T > MAX_TERMS:
            remedy = "Declare fewer numbers, or fewer words."
            raise InvalidValue("features", owner, f"of at most {MAX_TERMS:,} terms", d, remedy)
        self.density = rules.density_of(None, m, 0, "density")
        self.density_bounds = min(MOST_BOUNDS, EXPECTED / (2 * J))
        self.density_crosses = min(MOST_CROSSES, EXPECTED / max(2 * J * m, 1))
        self._clearing = T > MAX_SAMPLED or self.error <= NOISY_ABOVE
        self._groups: tuple[Group, ...] = rules.checked_groups(groups, K, owner)
        self._unit_of: Ints = rules.units_of(self._groups)
        self._units: dict[int, _Unit] = {}
        # By what is known: what is believed before any answer.
        self._blanks: dict[tuple[tuple[int, bool], ...], _Unit] = {}
        self._known: dict[int, dict[int, bool]] = {}
        if known is not None and not isinstance(known, Mapping):
            raise InvalidValue("known", owner, "a mapping from units to known terms", known)
        for unit, given in (known or {}).items():
            u = validation.IntRange(0, self.units - 1).check(unit, "known", owner)
            self._known[u] = self._checked_known(given)
        self._evidence: Floats = np.zeros(self.units)

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return len(self._unit_of)

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return len(self.thresholds)

    @property
    def units(self) -> int:
        """Number of units, U."""
        return int(self._unit_of.max()) + 1

    @property
    def unit_of(self) -> Ints:
        """The unit of each arm: (K,). Units are numbered as they first occur."""
        return self._unit_of.copy()

    @property
    def groups(self) -> tuple[Group, ...]:
        """The group of each arm, None where it has none."""
        return self._groups

    @property
    def noisy(self) -> bool:
        """Whether the teacher errs so often that a single answer should not be taken for truth."""
        return self.error > NOISY_ABOVE

    @property
    def log_evidence(self) -> float:
        """Log of the probability that was given to the answers before they came."""
        return math.fsum(self._evidence)

    @property
    def unit_evidence(self) -> Floats:
        """The same for the answers of each unit alone: (U,)."""
        return self._evidence.copy()

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; return the units whose belief changed."""
        owner = "BoundLimits.learn"
        row = validation.vector(context, self.features, "context", owner)
        k = validation.IntRange(0, self.arms - 1).check(arm, "arm", owner)
        answer = validation.truth(allowed, "allowed", owner)
        u = int(self._unit_of[k])
        return self.fold(row, u, answer, validation.SEED.check(key, "key", owner))[1]

    def fold(self, context: Floats, unit: int, allowed: bool, key: int) -> tuple[Parts, Ints]:
        """Fold one answer; return what `predictive` was until then, and the unit that changed."""
        held, Y = self._read_contexts(context[None])
        prediction, answer = self._predicted(unit, held, Y)
        q = float(answer[0])
        if unit not in self._units:
            self._units[unit] = self._blank(unit).copy()
        # The unit is part of the key: equal answers to two units are two draws.
        start = keys.key_of(self._start, np.uint64(unit))
        own = keys.mix(np.uint64(start) ^ np.uint64(key))
        self._units[unit].fold(held[0], Y[0], allowed, np.uint64(own))
        self._evidence[unit] += math.log(q if allowed else 1.0 - q)
        return (prediction.p, answer, prediction.information, prediction.sd), np.array([unit])

    def refit(
        self, unit: int, contexts: npt.ArrayLike, allowed: npt.ArrayLike, keys: npt.ArrayLike
    ) -> Ints:
        """Forget a unit's answers and fold these, in order: what a retraction leaves.

        Parameters
        ----------
        unit : int
            Its number.
        contexts, allowed, keys : arrays (n, d), (n,), (n,)
            The answers that stand, each with its key.

        Returns
        -------
        array of ints
            The units whose belief changed.
        """
        owner = "BoundLimits.refit"
        u = self._unit(unit, owner)
        C, answers, bits = checked_answers(contexts, allowed, keys, self.features, owner)
        self._forget(u)
        for row, answer, key in zip(C, answers, bits, strict=True):
            self.fold(row, u, answer, key)
        return np.array([u])

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of a unit in each of n contexts, (n, d)."""
        return self._checked(unit, contexts, "BoundLimits.predict")[0]

    def predict_answer(self, unit: int, contexts: npt.ArrayLike) -> Floats:
        """Return the probability that the teacher, who may err, says "allowed": (n,)."""
        return self._checked(unit, contexts, "BoundLimits.predict_answer")[1]

    def predict_all(self, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of all units: (U, n), the bits of `predict` unit by unit."""
        C = validation.matrix(contexts, self.features, "contexts", "BoundLimits.predict_all")
        return self._predicted(None, *self._read_contexts(C))[0]

    def predictive(self, unit: int, contexts: Floats) -> Parts:
        """Return P(allowed), P(the teacher says so), information and standard deviation: (n,)."""
        prediction, q = self._predicted(unit, *self._read_contexts(contexts))
        return prediction.p, q, prediction.information, prediction.sd

    def predictive_all(self, contexts: Floats) -> Floats:
        """Return what `predictive` does, of all units: (4, U, n), the same bits."""
        prediction, q = self._predicted(None, *self._read_contexts(contexts))
        return np.array((prediction.p, q, prediction.information, prediction.sd))

    def marginals(self, unit: int) -> Floats:
        """Return the probability that a word is denied, whatever the numbers, for each: (m,)."""
        of = self._of(self._unit(unit, "BoundLimits.marginals"))
        return np.array([math.fsum(of.segments(i)[2]) for i in range(len(self.words))])

    def bounds(self, unit: int) -> list[Bound]:
        """Return what is believed of each bound: those of a number alone come first."""
        of = self._of(self._unit(unit, "BoundLimits.bounds"))
        out = []
        for t in range(len(self.words), len(of.terms.logit)):
            number, above = divmod(int(of.terms.scope[t]) - 1, 2)
            h = int(of.terms.holder[t])
            low, high, mass = of.segments(t)
            if above:
                low, high, mass = 1.0 - high[::-1], 1.0 - low[::-1], mass[::-1]
            word = int(self.words[h]) if h >= 0 else None
            chance = min(math.fsum(mass), 1.0)
            where = _quantiles(low, high, mass)
            out.append(Bound(int(self.numbers[number]), word, not above, chance, *where))
        return out

    def describe(
        self,
        unit: int,
        names: Sequence[str] | Schema,
        ranges: Mapping[int, tuple[float, float]] | None = None,
    ) -> Reading:
        """Read a unit's rule back, in words.

        Parameters
        ----------
        unit : int
            Its number.
        names : sequence of str, or Schema
            Names of the columns of a context. A schema knows the ranges and units of numbers, too.
        ranges : mapping from columns to pairs of floats, optional
            What 0 and 1 mean, for each number; unless given they mean 0 and 1.

        Returns
        -------
        Reading
            Terms that are denied with probability above 1 − doubt, with one below doubt, and the
            rest. A word is denied, too, if bounds of its own add up to that. A word with a bound
            says nothing new where the word is denied, and is left out.
        """
        ends = dict(ranges or {})
        counted: dict[int, str] = {}
        if isinstance(names, Schema):
            for feature, at in names.numbers:
                if feature.low is not None:
                    ends[at] = feature.low, cast(float, feature.high)
                    counted[at] = f" {feature.unit}" if feature.unit else ""
            names = names.columns
        if len(names) != self.features:
            raise InvalidValue(
                "names", "BoundLimits.describe", f"{self.features} names", list(names)
            )
        columns = self.words.tolist()
        short = self.terms.names(names) if self.terms else []
        words: dict[Term, str] = dict(zip(columns, short, strict=True))
        denied = np.maximum(self.marginals(unit), self._everywhere(unit))
        chance: dict[Term, float] = dict(zip(columns, denied.tolist(), strict=True))
        # Keys for `Reading`: no column, and with a word the two of them together.
        for k, bound in enumerate(self.bounds(unit), start=self.features):
            key: Term = k if bound.word is None else (bound.word, k)
            number = bound.number
            name = None if bound.word is None else words[bound.word]
            range_ = ends.get(number, (0.0, 1.0))
            words[key] = bound.text(str(names[number]), name, range_, counted.get(number, ""))
            chance[key] = bound.chance
        return Reading.of(words, chance, self.doubt)

    def refit_seconds(self, n: int) -> float:
        """Return how long a refit with n answers takes."""
        return n * 1e-3

    def set_known(self, unit: int, terms: Mapping[Term, bool]) -> None:
        """Replace the words that are known for certain of a unit.

        The unit's answers are forgotten: they were weighed by what was known before. Give those
        that stand to `refit`.
        """
        u = self._unit(unit, "BoundLimits.set_known")
        known = self._checked_known(terms)
        self._known = {**self._known, u: known} if known else dict(self._known)
        if not known:
            self._known.pop(u, None)
        self._forget(u)

    def grow(self, arms: int = 1, groups: Sequence[Group] | None = None) -> None:
        """Add arms, after the others; one in a known group starts with what the group knows."""
        owner = "BoundLimits.grow"
        n = validation.IntRange(0, ARMS.high - self.arms).check(arms, "arms", owner)
        self._groups += rules.checked_groups(groups, n, owner)
        self._unit_of = rules.units_of(self._groups)
        more = np.zeros(self.units - len(self._evidence))
        self._evidence = np.concatenate([self._evidence, more])

    def copy(self) -> BoundLimits:
        """Return limits with the same knowledge that learn apart from now on."""
        twin = object.__new__(BoundLimits)
        twin.__dict__.update(self.__dict__)
        twin._units = {u: unit.copy() for u, unit in self._units.items()}
        twin._evidence = self._evidence.copy()
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays."""
        rows = sorted((u, t, yes) for u, given in self._known.items() for t, yes in given.items())
        state: dict[str, npt.NDArray[Any]] = {
            "thresholds": self.thresholds.copy(),
            "error": np.array(self.error),
            "doubt": np.array(self.doubt),
            "sampling": np.array([self.chains, self.sweeps]),
            "seed": np.array(self.seed, np.uint64),
            "groups": np.array([json.dumps(group) for group in self._groups]),
            "known": np.array(rows, np.int64).reshape(-1, 3),
            "evidence": self._evidence.copy(),
        }
        for u, unit in self._units.items():
            state |= {f"unit{u}.{name}": array.copy() for name, array in unit.to_state().items()}
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return limits as they were at `to_state`."""
        if not isinstance(state, Mapping):
            raise CorruptState(f"BoundLimits needs named arrays, not {state!r:.200}.")
        try:
            return cls._read(dict(state))
        except DAMAGE as error:
            raise CorruptState(f"BoundLimits: the state is damaged: {error}") from None

    @classmethod
    def _read(cls, rest: dict[str, npt.NDArray[Any]]) -> Self:
        above, evidence = rest.pop("thresholds"), rest.pop("evidence")
        groups = [json.loads(group) for group in rest.pop("groups").tolist()]
        chains, sweeps = rest.pop("sampling").tolist()
        columns = np.flatnonzero(~np.isnan(above)).tolist()
        known: dict[int, dict[Term, bool]] = {}
        for u, t, yes in rest.pop("known").tolist():
            if t < 0 or yes not in (0, 1):
                raise CorruptState("BoundLimits: 'known' holds what is no term.")
            known.setdefault(u, {})[columns[t]] = bool(yes)
        self = cls(
            arms=len(groups),
            features=len(above),
            thresholds=above,
            groups=groups,
            error=float(rest.pop("error")),
            doubt=float(rest.pop("doubt")),
            chains=chains,
            sweeps=sweeps,
            seed=int(rest.pop("seed")),
            known=known,
        )
        rules.check(evidence, np.float64, (self.units,), "evidence", "BoundLimits")
        if not np.isfinite(evidence).all():
            raise CorruptState("BoundLimits: 'evidence' holds numbers that are not finite.")
        self._evidence = evidence.copy()
        parts: dict[str, dict[str, npt.NDArray[Any]]] = {}
        for name, array in rest.items():
            head, _, tail = name.partition(".")
            parts.setdefault(head, {})[tail] = array
        for head, arrays in parts.items():
            u = int(head.removeprefix("unit"))
            if head != f"unit{u}" or not 0 <= u < self.units:
                raise CorruptState(f"BoundLimits: there is no place for the array {head!r}.")
            self._units[u] = self._blank(u).copy()
            self._units[u].read(arrays)
        return self

    def _everywhere(self, unit: int) -> Floats:
        """Return P(denied) with each word alone where, without it, all is allowed; 0 if not sure.

        A mean over numbers of all sizes: "Horror under t" with t near the end is as good as Horror.
        """
        m, J, n = len(self.words), len(self.numbers), 50
        x = (np.arange(n)[:, None] * (2 * np.arange(J) + 1) % (n + 1) + 0.5) / (n + 1)
        Y, p = coordinates(x), np.empty((m + 1, n))
        for i, held in enumerate(np.eye(m + 1, m, dtype=np.bool_)):
            self._of(unit).shares(np.repeat(held[None], n, axis=0), Y, p[i])
        open_ = p[m] >= 0.5
        if not open_.any():
            return np.zeros(m)
        out: Floats = 1.0 - (p[:m, open_] / p[m, open_]).mean(axis=1)
        return np.where(out >= 1.0 - self.doubt, out, 0.0)

    def _unit(self, unit: int, owner: str) -> int:
        return validation.IntRange(0, self.units - 1).check(unit, "unit", owner)

    def _checked_known(self, given: Mapping[Term, bool]) -> dict[int, bool]:
        if self.terms is not None:
            return self.terms.known(given)
        if not isinstance(given, Mapping) or given:
            raise InvalidValue("known", "BoundLimits", "empty, as no column is a word", given)
        return {}

    def _forget(self, u: int) -> None:
        self._units.pop(u, None)
        self._evidence[u] = 0.0

    def _blank(self, u: int | None) -> _Unit:
        """What is believed of a unit before any answer; one for all of which the same is known."""
        known = self._known.get(u, {}) if u is not None else {}
        name = tuple(sorted(known.items()))
        if name not in self._blanks:
            self._blanks[name] = self._fresh(known)
        return self._blanks[name]

    def _fresh(self, known: Mapping[int, bool]) -> _Unit:
        m, J = len(self.words), len(self.numbers)
        both = np.arange(1, 2 * J + 1)
        holder = np.concatenate([np.arange(m), np.full(2 * J, -1), np.repeat(np.arange(m), 2 * J)])
        scope = np.concatenate([np.zeros(m, np.int64), both, np.tile(both, m)])
        chances = (self.density, m), (self.density_bounds, 2 * J), (self.density_crosses, 2 * J * m)
        logit = np.concatenate([np.full(n, math.log(p / (1.0 - p))) for p, n in chances])
        for t, yes in known.items():
            logit[t] = gibbs.CERTAIN if yes else -gibbs.CERTAIN
        terms = kernel.Terms(holder, scope, logit)
        return _Unit(terms, (m, J, self.chains, self.sweeps), self.error, self._clearing)

    def _of(self, u: int) -> _Unit:
        return self._units[u] if u in self._units else self._blank(u)

    def _read_contexts(self, contexts: Floats) -> tuple[Bools, Floats]:
        held = contexts[:, self.words] > self.thresholds[self.words]
        return held, coordinates(contexts[:, self.numbers])

    def _checked(self, unit: int, contexts: npt.ArrayLike, owner: str) -> tuple[Prediction, Floats]:
        u = self._unit(unit, owner)
        C = validation.matrix(contexts, self.features, "contexts", owner)
        return self._predicted(u, *self._read_contexts(C))

    def _predicted(self, u: int | None, held: Bools, Y: Floats) -> tuple[Prediction, Floats]:
        """What is believed of one unit, (n,), or of all, (U, n); and what the teacher would say."""
        n = len(held)
        if u is not None:
            shares: Floats = np.empty((1, n))
            self._of(u).shares(held, Y, shares[0])
        else:
            shares = np.empty((self.units, n))
            self._blank(None).shares(held, Y, shares[0])
            shares[1:] = shares[:1]  # untaught units are all alike
            for v in sorted(self._known.keys() | self._units.keys()):
                self._of(v).shares(held, Y, shares[v])
        p, q, information = np.empty((3, shares.size))
        errors = np.array([self.error])
        mix_errors(shares.reshape(1, -1), errors, np.ones(1), p, q, information)
        shape = (n,) if u is not None else shares.shape
        p, q, information = (array.reshape(shape) for array in (p, q, information))
        safe, possible = p >= 1.0 - self.doubt, p >= self.doubt
        return Prediction(p, safe, possible, information, np.sqrt(p * (1.0 - p))), q

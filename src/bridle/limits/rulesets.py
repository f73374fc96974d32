"""Rules: limits that are short sets of denied terms, with all that is doubtful about them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.errors import CorruptState, InvalidValue
from bridle.kernels import gibbs, keys
from bridle.kernels import rulesets as kernel
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import rulestate, ruleunits
from bridle.limits.base import Look
from bridle.limits.ruleunits import Enumerated, Group, Sampled
from bridle.limits.terms import Reading, Term, Terms

__all__ = ["ERROR_GRID", "RuleLimits"]

# Up to so many terms all 2^T sets are weighed.
MAX_EXACT = 12
# Rates of error that are weighed if none is declared.
ERROR_GRID = (0.001, 0.01, 0.03, 0.1, 0.2)
# A rate above which an answer is no longer taken for the truth.
NOISY_ABOVE = 0.02

ERROR = validate.FloatRange(1e-6, 0.49)
DOUBT = validate.FloatRange(0.0, 0.5, open_low=True, open_high=True)
CHAINS = validate.IntRange(10, 100_000)
SWEEPS = validate.IntRange(1, 1_000)
ARMS = validate.IntRange(1, 1_000_000)

_SAMPLE = np.uint64(0x52554C45)  # what the keys are for: no other use of the seed shares bits


def doubt_of(doubt: float | None, error: float | None, owner: str) -> float:
    """Give the doubt that was asked for, or what serves for a teacher of this kind."""
    if doubt is not None:
        return DOUBT.check(doubt, "doubt", owner)
    rate = 1.0 if error is None else ERROR.check(error, "error", owner)
    return 0.001 if rate > NOISY_ABOVE else 0.01


class RuleLimits:
    """Limits as rules: a set S of denied terms for each unit, a context is denied if it holds any.

    A term is a feature or, with `pairs`, two features together (see `Terms` for what "holds"
    means). A priori each term is in S on its own, with probability `density`; an answer of the
    teacher is right with probability 1 − `error`. Up to 12 terms the belief over S is exact: all
    sets are weighed. Beyond, it is a sample of `chains` sets: each answer redraws them by how well
    they foretold it and then moves each by Gibbs sampling. Terms in no answer so far are never
    sampled: of them the prior is exact. Above 200 terms only those that occur in some denied answer
    are sampled; the others are taken to be cleared, one by one, by the allowed answers that they
    occur in: P(in S) = density · ρ^n / (1 − density + density · ρ^n) with ρ = error / (1 − error),
    as if every such answer had no other reason to be wrong. That is off by terms of order error².

    Parameters
    ----------
    arms, features : int
        K and d.
    groups : sequence of K str, int or None, optional
        Arms of one group share their rule, and are one unit; None is an arm of its own. By default
        all are. Units are numbered as they first occur.
    pairs : bool, default False
        Whether pairs of features are terms.
    density, density_pairs : float, optional
        Prior probability that a single feature, or a pair, is denied. If None: 3 denied terms
        of each kind are expected, but no more than .33 and .1 of all.
    error : float or None, default 0.001
        How often the teacher errs. None: estimated, one rate for all units, by the evidence of all
        answers for each of `ERROR_GRID`, which are carried along side by side.
    doubt : float, optional
        Safe is what is allowed with probability 1 − doubt or more, possible with doubt or more. By
        default .01, and .001 if the teacher errs, or may: then beliefs creep up to the threshold
        instead of jumping over it, and what is safe by mistake is played again and again.
    chains, sweeps : int
        Sampled sets, and Gibbs sweeps an answer.
    seed : int, default 0
        With an answer's key it gives all random numbers.
    known : mapping, optional
        By unit, terms of which it is certain that they are denied (True) or are not (False).
    thresholds : d floats, optional
        What a feature must be above to be held; NaN: it is no term. See `Terms`.

    Examples
    --------
    >>> limits = RuleLimits(arms=1, features=3)
    >>> _ = limits.learn([1, 1, 0], 0, True)
    >>> _ = limits.learn([1, 0, 1], 0, False)
    >>> limits.look(0, [[0, 1, 0], [0, 0, 1]]).p.round(3).tolist()
    [0.999, 0.004]
    >>> print(limits.describe(0, ["Comedy", "Drama", "Horror"]).sentence("all"))
    all: not Horror
    """

    def __init__(
        self,
        *,
        arms: int,
        features: int,
        groups: Sequence[Group] | None = None,
        pairs: bool = False,
        density: float | None = None,
        density_pairs: float | None = None,
        error: float | None = 0.001,
        doubt: float | None = None,
        chains: int = 400,
        sweeps: int = 3,
        seed: int = 0,
        known: Mapping[int, Mapping[Term, bool]] | None = None,
        thresholds: npt.ArrayLike | None = None,
    ) -> None:
        owner = "RuleLimits"
        K = ARMS.check(arms, "arms", owner)
        self.terms = Terms(features, pairs, thresholds)
        self.doubt = doubt_of(doubt, error, owner)
        self.chains = CHAINS.check(chains, "chains", owner)
        self.sweeps = SWEEPS.check(sweeps, "sweeps", owner)
        self.seed = validate.SEED.check(seed, "seed", owner)
        self._start = keys.stream(self.seed, _SAMPLE)
        rates = ERROR_GRID if error is None else (ERROR.check(error, "error", owner),)
        self.errors: Floats = np.array(rates)
        m, T = self.terms.singles, len(self.terms)
        self.exact = T <= MAX_EXACT  # whether all sets are weighed, not sampled
        self._clearing = T > ruleunits.MAX_SAMPLED
        self.density = ruleunits.density_of(density, m, 0, "density")
        self.density_pairs = ruleunits.density_of(density_pairs, T - m, 1, "density_pairs")
        self._groups: tuple[Group, ...] = ruleunits.checked_groups(groups, K, owner)
        self._unit_of: Ints = ruleunits.units_of(self._groups)
        self._units: dict[int, Enumerated | Sampled] = {}
        # By what is known: what is believed before any answer.
        self._blanks: dict[tuple[tuple[int, bool], ...], Enumerated | Sampled] = {}
        self._known: dict[int, dict[int, bool]] = {}
        if known is not None and not isinstance(known, Mapping):
            raise InvalidValue("known", owner, "a mapping from units to known terms", known)
        for unit, given in (known or {}).items():
            u = validate.IntRange(0, self.units - 1).check(unit, "known", owner)
            self._known[u] = self.terms.known(given)
        # Of each unit and rate, the log of the probability given to the answers before they came.
        self._evidence: Floats = np.zeros((self.units, len(rates)))
        self._weigh_errors()

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return len(self._unit_of)

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return self.terms.features

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
    def error(self) -> float:
        """How often the teacher errs, as declared or as it seems by now (posterior mean)."""
        return math.fsum(self._error_weights * self.errors)

    @property
    def noisy(self) -> bool:
        """Whether the teacher errs so often that a single answer should not be taken for truth."""
        return self.error > NOISY_ABOVE

    @property
    def log_evidence(self) -> float:
        """Log of the probability that was given to the answers before they came."""
        return ruleunits.log_mean([math.fsum(column) for column in self._evidence.T])

    @property
    def unit_evidence(self) -> Floats:
        """The same for the answers of each unit alone: (U,)."""
        return np.array([ruleunits.log_mean(row) for row in self._evidence.tolist()])

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; give the units whose belief changed.

        If the rate of error is estimated, any answer moves the beliefs of all units.
        """
        owner = "RuleLimits.learn"
        row = validate.vector(context, self.features, "context", owner)
        k = validate.IntRange(0, self.arms - 1).check(arm, "arm", owner)
        answer = validate.truth(allowed, "allowed", owner)
        bits = validate.SEED.check(key, "key", owner)
        u = int(self._unit_of[k])
        self._fold(u, self.terms.held_in(row[None])[0], answer, bits)
        self._weigh_errors()
        return np.array([u]) if len(self.errors) == 1 else np.arange(self.units)

    def hear(self, context: Floats, unit: int, allowed: bool, key: int) -> float:
        """`learn` for values that were checked before; gives what `predict` said until then."""
        held = self.terms.held_in(context[None])
        q = float(self._mixed(unit, held)[1][0])
        self._fold(unit, held[0], allowed, key)
        self._weigh_errors()
        return q

    def relearn(
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
        owner = "RuleLimits.relearn"
        u = self._unit(unit, owner)
        C = validate.matrix(contexts, self.features, "contexts", owner)
        answers = validate.truths(allowed, len(C), "allowed", owner)
        given = validate.arrays(keys, "keys", owner, f"{len(C)} keys").tolist()
        if not isinstance(given, list) or len(given) != len(C):
            raise InvalidValue("keys", owner, f"{len(C)} keys", keys)
        bits = [validate.SEED.check(key, "keys", owner) for key in given]
        self._units.pop(u, None)
        self._evidence[u] = 0.0
        for held, answer, key in zip(self.terms.held(C), answers.tolist(), bits, strict=True):
            self._fold(u, held, answer, key)
        self._weigh_errors()
        return np.array([u]) if len(self.errors) == 1 else np.arange(self.units)

    def look(self, unit: int, contexts: npt.ArrayLike) -> Look:
        """Say what is believed of a unit in each of n contexts, (n, d)."""
        return self._looked(*self._checked(unit, contexts, "RuleLimits.look"))[0]

    def look_all(self, contexts: npt.ArrayLike) -> Look:
        """Say what is believed of all units at once: (U, n), the bits of `look` unit by unit."""
        return self.foresee(contexts)[0]

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Floats:
        """Give the probability that the teacher, who may err, says "allowed": (n,)."""
        return self._checked(unit, contexts, "RuleLimits.predict")[1]

    def predictive(self, unit: int, contexts: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return P(allowed), P(the teacher says so), information and standard deviation: (n,) each.

        For contexts that were checked before.
        """
        p, q, information = self._mixed(unit, self.terms.held_in(contexts))
        return p, q, information, np.sqrt(p * (1.0 - p))

    def foresee(self, contexts: npt.ArrayLike) -> tuple[Look, Floats]:
        """Give `look_all`, and what `predict` says of all units: (U, n)."""
        held = self.terms.held(contexts, "contexts", "RuleLimits.look_all")
        G, U, n = len(self.errors), self.units, len(held)
        shares: Floats = np.empty((G, U, n))
        blank = self._blank(None)
        seen = blank.seen(held)
        blank.shares(seen, shares[:, 0])
        shares[:, 1:] = shares[:, :1]  # untaught units are all alike
        for u in self._known.keys() - self._units.keys():
            self._blank(u).shares(seen, shares[:, u])
        for u, unit in self._units.items():
            unit.shares(seen, shares[:, u])
        p, q, information = np.empty((3, U * n))
        flat = shares.reshape(G, U * n)
        kernel.mix_errors(flat, self.errors, self._error_weights, p, q, information)
        each = (array.reshape(U, n) for array in (p, q, information))
        return self._looked(*each)

    def marginals(self, unit: int) -> Floats:
        """Give the probability that a term is denied, for each: (T,)."""
        u = self._unit(unit, "RuleLimits.marginals")
        shares = self._of(u).marginals()
        return np.array([math.fsum(self._error_weights * column) for column in shares.T])

    def describe(self, unit: int, names: Sequence[str]) -> Reading:
        """Read a unit's rule back, in the names of the columns of a context.

        Terms that are denied with probability above 1 − doubt, with one below doubt, and the rest.
        A pair says nothing new where one of its features is denied, and is then left out.
        """
        every = self.terms.all()
        words = dict(zip(every, self.terms.names(names), strict=True))
        chance = dict(zip(every, self.marginals(unit).tolist(), strict=True))
        return Reading.of(words, chance, self.doubt)

    def set_known(self, unit: int, terms: Mapping[Term, bool]) -> None:
        """Replace what is known for certain of a unit.

        The unit's answers are forgotten: they were weighed by what was known before. Give those
        that stand to `relearn`.
        """
        u = self._unit(unit, "RuleLimits.set_known")
        known = self.terms.known(terms)
        self._known.pop(u, None)
        if known:
            self._known[u] = known
        self._units.pop(u, None)
        self._evidence[u] = 0.0
        self._weigh_errors()

    def grow(self, arms: int = 1, groups: Sequence[Group] | None = None) -> None:
        """Add arms, after the others; one in a known group starts with what the group knows."""
        owner = "RuleLimits.grow"
        n = validate.IntRange(0, ARMS.high - self.arms).check(arms, "arms", owner)
        self._groups += ruleunits.checked_groups(groups, n, owner)
        self._unit_of = ruleunits.units_of(self._groups)
        more = np.zeros((self.units - len(self._evidence), len(self.errors)))
        self._evidence = np.concatenate([self._evidence, more])

    def copy(self) -> RuleLimits:
        """Limits with the same knowledge that learn apart from now on."""
        twin = object.__new__(RuleLimits)
        twin.__dict__.update(self.__dict__)
        twin._units = {u: unit.copy() for u, unit in self._units.items()}
        twin._evidence = self._evidence.copy()
        twin._known = dict(self._known)  # what it holds of a unit is replaced, never changed
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that is known, as named arrays."""
        d = self.features
        above = np.full(d, np.nan)
        above[self.terms.columns] = self.terms.above
        rows = sorted((u, t, yes) for u, given in self._known.items() for t, yes in given.items())
        state: dict[str, npt.NDArray[Any]] = {
            "pairs": np.array(self.terms.pairs),
            "thresholds": above,
            "density": np.array([self.density, self.density_pairs]),
            "errors": self.errors.copy(),
            "doubt": np.array(self.doubt),
            "sampling": np.array([self.chains, self.sweeps]),
            "seed": np.array(self.seed, np.uint64),
            "groups": np.array([json.dumps(group) for group in self._groups]),
            "known": np.array(rows, np.int64).reshape(-1, 3),
            "evidence": self._evidence.copy(),
        }
        for u, unit in self._units.items():
            state |= {f"unit{u}.{name}": array for name, array in unit.to_state().items()}
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Limits as they were at `to_state`."""
        if not isinstance(state, Mapping):
            raise CorruptState(f"RuleLimits needs named arrays, not {state!r:.200}.")
        try:
            return cls._read(dict(state))
        except ruleunits.DAMAGE as error:
            raise CorruptState(f"RuleLimits: the state is damaged: {error}") from None

    @classmethod
    def _read(cls, rest: dict[str, npt.NDArray[Any]]) -> Self:
        errors, evidence = rest.pop("errors"), rest.pop("evidence")
        self = cls(**rulestate.take_settings(rest, errors))
        if not np.array_equal(errors, self.errors):
            raise CorruptState("RuleLimits: 'errors' is not a grid of this version.")
        ruleunits.check(evidence, np.float64, self._evidence.shape, "evidence")
        if not np.isfinite(evidence).all():
            raise CorruptState("RuleLimits: 'evidence' holds numbers that are not finite.")
        self._evidence = evidence.copy()
        for u, arrays in rulestate.by_unit(rest, self.units).items():
            self._units[u] = self._blank(u).copy()
            self._units[u].read(arrays)
        self._weigh_errors()
        return self

    def _unit(self, unit: int, owner: str) -> int:
        return validate.IntRange(0, self.units - 1).check(unit, "unit", owner)

    def _blank(self, u: int | None) -> Enumerated | Sampled:
        """What is believed of a unit before any answer; one for all of which the same is known."""
        known = self._known.get(u, {}) if u is not None else {}
        name = tuple(sorted(known.items()))
        if name not in self._blanks:
            self._blanks[name] = self._fresh(known)
        return self._blanks[name]

    def _fresh(self, known: Mapping[int, bool]) -> Enumerated | Sampled:
        m, T = self.terms.singles, len(self.terms)
        logit: Floats = np.empty(T)
        logit[:m] = math.log(self.density / (1.0 - self.density))
        logit[m:] = math.log(self.density_pairs / (1.0 - self.density_pairs))
        for t, yes in known.items():
            logit[t] = gibbs.CERTAIN if yes else -gibbs.CERTAIN
        if self.exact:
            return Enumerated(logit, self.terms, self.errors)
        sampling = self.chains, self.sweeps, self._clearing
        return Sampled(logit, self.terms, self.errors, *sampling)

    def _of(self, u: int) -> Enumerated | Sampled:
        return self._units[u] if u in self._units else self._blank(u)

    def _fold(self, u: int, held: Bools, allowed: bool, key: int) -> None:
        if u not in self._units:
            self._units[u] = self._blank(u).copy()
        # The unit is part of the key: equal answers to two units are two draws.
        start = keys.key_of(self._start, np.uint64(u))
        own = keys.mix(np.uint64(start) ^ np.uint64(key))
        self._evidence[u] += self._units[u].fold(held, allowed, np.uint64(own))

    def _weigh_errors(self) -> None:
        if len(self.errors) == 1:
            self._error_weights: Floats = np.ones(1)
            return
        totals = [math.fsum(column) for column in self._evidence.T]
        weights = np.exp(np.array(totals) - max(totals))
        self._error_weights = weights / math.fsum(weights)

    def _checked(
        self, unit: int, contexts: npt.ArrayLike, owner: str
    ) -> tuple[Floats, Floats, Floats]:
        u = self._unit(unit, owner)
        return self._mixed(u, self.terms.held(contexts, "contexts", owner))

    def _mixed(self, u: int, held: Bools) -> tuple[Floats, Floats, Floats]:
        p, q, information = np.empty((3, len(held)))
        shares: Floats = np.empty((len(self.errors), len(held)))
        of = self._of(u)
        of.shares(of.seen(held), shares)
        kernel.mix_errors(shares, self.errors, self._error_weights, p, q, information)
        return p, q, information

    def _looked(self, p: Floats, q: Floats, information: Floats) -> tuple[Look, Floats]:
        safe, possible = p >= 1.0 - self.doubt, p >= self.doubt
        return Look(p, safe, possible, information, np.sqrt(p * (1.0 - p))), q

"""`RuleLimits`: limits as rules, a set of denied terms for each arm or group of arms.

`Terms` are what a rule can deny: single features, and pairs of them. The posterior over sets is
exact where there are few (`Enumerated`), and a sample where there are many (`Sampled`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import CorruptState, InvalidValue
from bridle.kernels import gibbs, keys
from bridle.kernels import rulesets as kernel
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits.base import Beliefs, Parts, Prediction
from bridle.schema import Schema

__all__ = [
    "DAMAGE",
    "ERROR_GRID",
    "MAX_SAMPLED",
    "Enumerated",
    "Group",
    "Reading",
    "RuleLimits",
    "Sampled",
    "Term",
    "Terms",
    "by_unit",
    "check",
    "checked_answers",
    "checked_groups",
    "density_of",
    "log_mean",
    "take_settings",
    "thresholds_of",
    "units_of",
]


# A feature by its column, or two of them.
Term: TypeAlias = int | tuple[int, int]

MAX_FEATURES = validation.IntRange(1, 10_000)
# Each term of each unit has a byte a sampled set, and a sweep looks at all that are active.
MAX_TERMS = 50_000
HELD_ABOVE = 0.5
# So many terms that are unsure are named in a sentence.
SHOWN = 5


def thresholds_of(schema: Schema) -> Floats:
    """Thresholds for `Terms` from a schema: columns of words and flags are terms, numbers are not.

    Where all features are numbers and none has a range, they are taken for the 0 and 1 of a context
    that someone encoded before, and all are terms.

    >>> from bridle.schema import Flag, Number
    >>> thresholds_of(Schema([Number("age", 0, 100), Flag("smoker")]))
    array([nan, 0.5])
    >>> thresholds_of(Schema([Number("c1"), Number("c2")]))
    array([0.5, 0.5])
    """
    out: Floats = np.full(schema.width, HELD_ABOVE)
    plain = all(feature.low is None for feature, _ in schema.numbers)
    if plain and len(schema.numbers) == len(schema.features):
        return out
    for _, at in schema.numbers:
        out[at] = np.nan
    return out


def how_many(features: int, thresholds: npt.ArrayLike | None) -> tuple[int, int]:
    """Return the number of features that are terms, none perhaps, and of terms if pairs are too.

    >>> how_many(4, [0.5, 0.5, 0.5, float("nan")])
    (3, 6)
    """
    m = MAX_FEATURES.check(features, "features", "Terms")
    if thresholds is not None:
        above = validation.floats(thresholds, "thresholds", "Terms", f"{m} floats or NaN")
        if above.shape != (m,):
            raise InvalidValue("thresholds", "Terms", f"{m} floats or NaN", thresholds)
        m = int((~np.isnan(above)).sum())
    return m, m + m * (m - 1) // 2


@dataclass(frozen=True)
class Terms:
    """The terms of contexts with d features.

    A context holds a feature if its value is above the feature's threshold, and a pair if it holds
    both. So a feature that is a number (an age, a weight) is a term only where its threshold means
    something: give NaN for those that are none; `thresholds_of` does that for a schema.

    Parameters
    ----------
    features : int
        Length of a context, d.
    pairs : bool, default False
        Whether two features together are a term, too.
    thresholds : d floats, optional
        0.5 for each unless given; NaN: this feature is no term.

    Examples
    --------
    >>> terms = Terms(3, pairs=True)
    >>> len(terms), terms.of([1.0, 0.0, 1.0])
    (6, [0, 2, (0, 2)])
    >>> terms.names(["Comedy", "Drama", "Crime"])[-2:]
    ['Comedy with Crime', 'Drama with Crime']
    """

    features: int
    pairs: bool = False
    thresholds: npt.ArrayLike | None = field(default=None, compare=False)
    # Columns that are terms, and what their values must be above.
    columns: Ints = field(init=False, repr=False, compare=False)
    above: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        d = MAX_FEATURES.check(self.features, "features", "Terms")
        object.__setattr__(self, "pairs", validation.truth(self.pairs, "pairs", "Terms"))
        wanted = f"{d} floats, NaN where a feature is no term, and at least one that is none"
        above = np.full(d, HELD_ABOVE)
        if self.thresholds is not None:
            above = validation.floats(self.thresholds, "thresholds", "Terms", wanted)
        if above.shape != (d,) or np.isinf(above).any() or np.isnan(above).all():
            raise InvalidValue("thresholds", "Terms", wanted, self.thresholds)
        columns = np.flatnonzero(~np.isnan(above))
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "above", above[columns].copy())
        if len(self) > MAX_TERMS:
            remedy = "Leave pairs out, or give NaN as threshold of features that no rule needs."
            raise InvalidValue("features", "Terms", f"of at most {MAX_TERMS:,} terms", d, remedy)

    @property
    def singles(self) -> int:
        """Number of features that are terms, m."""
        return len(self.columns)

    def __len__(self) -> int:
        m = self.singles
        return m + m * (m - 1) // 2 if self.pairs else m

    def held(self, contexts: npt.ArrayLike, name: str = "contexts", owner: str = "Terms") -> Bools:
        """Return which of the m features each context holds: (n, m)."""
        return self.held_in(validation.matrix(contexts, self.features, name, owner))

    def held_in(self, contexts: Floats) -> Bools:
        """`held` for contexts that were checked before: no checks, no conversion."""
        return contexts[:, self.columns] > self.above

    def all(self) -> list[Term]:
        """Return the terms in the order of their numbers."""
        single = self.columns.tolist()
        both = [(i, j) for a, i in enumerate(single) for j in single[a + 1 :]]
        return [*single, *both] if self.pairs else single

    def of(self, context: npt.ArrayLike) -> list[Term]:
        """Return the terms that a context holds."""
        row = validation.vector(context, self.features, "context", "Terms.of")
        held = set(self.columns[self.held(row[None])[0]].tolist())
        each = ((term, term if isinstance(term, tuple) else (term,)) for term in self.all())
        return [term for term, parts in each if held.issuperset(parts)]

    def number(self, term: Term) -> int:
        """Return the number of a term; the order of a pair does not matter."""
        parts = term if isinstance(term, tuple) else (term,)
        at = {column: i for i, column in enumerate(self.columns.tolist())}
        wanted = f"a column in [0, {self.features - 1}] that is a term"
        wanted = f"{wanted}, or two of them" if self.pairs else wanted
        known = all(isinstance(part, int | np.integer) and int(part) in at for part in parts)
        if not known or len(set(parts)) != len(parts) or len(parts) > 1 + self.pairs:
            raise InvalidValue("term", "Terms.number", wanted, term)
        i, *rest = sorted(at[int(part)] for part in parts)
        m = self.singles
        return m + i * (2 * m - i - 1) // 2 + rest[0] - i - 1 if rest else i

    def names(self, columns: Sequence[str]) -> list[str]:
        """Name every term by the names of the columns, a schema's say.

        >>> Terms(2).names(["genres=Comedy", "genres=Crime"])
        ['Comedy', 'Crime']
        """
        if len(columns) != self.features:
            raise InvalidValue("columns", "Terms.names", f"{self.features} names", list(columns))
        short = [str(name).partition("=")[2] or str(name) for name in columns]
        if len(set(short)) < len(short):  # two features share a word: say which is meant
            short = [str(name) for name in columns]
        return [
            f"{short[term[0]]} with {short[term[1]]}" if isinstance(term, tuple) else short[term]
            for term in self.all()
        ]

    def known(self, given: Mapping[Term, bool]) -> dict[int, bool]:
        """Check known terms, and give them by number."""
        if not isinstance(given, Mapping):
            raise InvalidValue("known", "Terms", "a mapping from terms to True or False", given)
        return {
            self.number(term): validation.truth(denied, "known", "Terms")
            for term, denied in given.items()
        }


@dataclass(frozen=True)
class Reading:
    """A rule read back: its terms by name, as denied, unsure and allowed.

    Examples
    --------
    >>> print(Reading(("Horror", "Comedy with Crime"), ("Crime",), ("Drama",)).sentence("12-17"))
    12-17: not Horror, not Comedy with Crime; unsure: Crime
    """

    denied: tuple[str, ...]
    unsure: tuple[str, ...]
    allowed: tuple[str, ...]

    @classmethod
    def of(cls, words: Mapping[Term, str], chance: Mapping[Term, float], doubt: float) -> Reading:
        """Read a rule back from the probability that each term is denied, features before pairs.

        A pair says nothing new where one of its features is denied, and is then left out.

        >>> Reading.of({0: "a", 1: "b", (0, 1): "a with b"}, {0: 1.0, 1: 0.3, (0, 1): 0.5}, 0.01)
        Reading(denied=('a',), unsure=('b',), allowed=())
        """
        out: tuple[list[str], list[str], list[str]] = ([], [], [])
        gone: set[Term] = set()
        for term, word in words.items():
            if isinstance(term, tuple) and not gone.isdisjoint(term):
                continue
            denied = chance[term] >= 1.0 - doubt
            if denied:
                gone.add(term)
            out[0 if denied else 2 if chance[term] <= doubt else 1].append(word)
        return cls(*map(tuple, out))

    def sentence(self, unit: str) -> str:
        """Return it as a sentence; of what is unsure no more than a few."""
        parts = [", ".join(f"not {name}" for name in self.denied)] if self.denied else []
        if self.unsure:
            more = len(self.unsure) - SHOWN
            rest = f" and {more} more" if more > 0 else ""
            parts.append(f"unsure: {', '.join(self.unsure[:SHOWN])}{rest}")
        return f"{unit}: {'; '.join(parts) or 'all is allowed'}"


# --- The belief about one unit's rule: over all sets of denied terms, or over a sample of them


# The name of the group of an arm, None if it has none.
Group = str | int | None

# Up to so many terms all that were seen are sampled; beyond, only those once seen in a denial.
MAX_SAMPLED = 200
# Denied terms to expect, of each kind, if no density is given: people state short rules.
EXPECTED = 3.0
MOST = 0.33, 0.1
# What reading a damaged state may raise, before bridle's own checks see it.
DAMAGE = (
    KeyError,
    ValueError,
    TypeError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
    StopIteration,
)
DENSITY = validation.FloatRange(0.0, 1.0, open_low=True, open_high=True)


def check(
    array: object, dtype: type, shape: tuple[int, ...], name: str, owner: str = "RuleLimits"
) -> None:
    """Raise `CorruptState` unless an array of a saved state is as it was saved."""
    good = isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == shape
    if not good:
        got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else array
        raise CorruptState(
            f"{owner}: array '{name}' must be {np.dtype(dtype)} of shape {shape}. "
            f"Got {got!s:.200} instead."
        )


class Enumerated:
    """All 2^T sets. What is kept is how many answers contradict each: whole numbers, in no order.

    Parameters
    ----------
    logit : array (T,)
        Prior log odds of each term.
    terms : Terms
        What the terms are.
    errors : array (G,)
        Rates of error, side by side.
    """

    def __init__(self, logit: Floats, terms: Terms, errors: Floats) -> None:
        self.terms, self.errors = terms, errors
        self.prior: Floats = kernel.log_priors(logit)
        self.wrong: Ints = np.zeros(len(self.prior), np.int64)
        self._inside: Floats | None = None

    def copy(self) -> Enumerated:
        """Return a copy that learns apart."""
        twin = object.__new__(Enumerated)
        twin.__dict__.update(self.__dict__)
        twin.wrong = self.wrong.copy()
        return twin

    def fold(self, held: Bools, allowed: bool, key: np.uint64) -> Floats:
        """Fold one answer; return the log of the probability that it had, by rate of error."""
        mask = self._masks(held[None])
        q = self.errors + (1.0 - 2.0 * self.errors) * self._shares(mask)[:, 0]
        kernel.count_wrong(self.wrong, int(mask[0]), allowed)
        self._inside = None
        out: Floats = np.log(q if allowed else 1.0 - q)
        return out

    def seen(self, held: Bools) -> Ints:
        """What `shares` needs to know of the contexts; the same for all units of the same terms."""
        return self._masks(held)

    def shares(self, seen: npt.NDArray[Any], out: Floats) -> None:
        """Fill P(allowed) for each context, by rate of error: (G, n)."""
        out[:] = self._shares(seen)

    def marginals(self) -> Floats:
        """P(denied) for each term, by rate of error: (G, T)."""
        return 1.0 - self._shares(1 << np.arange(len(self.terms)))

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that was learned, as named arrays."""
        return {"wrong": self.wrong.copy()}

    def read(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore what `to_state` returned."""
        wrong = state["wrong"]
        check(wrong, np.int64, self.wrong.shape, "wrong")
        if set(state) != {"wrong"} or wrong.min() < 0:
            raise CorruptState("RuleLimits: 'wrong' must be counts, and the unit's only array.")
        self.wrong = wrong.copy()

    def _masks(self, held: Bools) -> Ints:
        out: Ints = kernel.masks_of(held, self.terms.pairs, len(self.terms))
        return out

    def _shares(self, masks: Ints) -> Floats:
        if self._inside is None:
            inside: Floats = np.empty((len(self.errors), len(self.prior)))
            for g, penalty in enumerate(np.log((1.0 - self.errors) / self.errors).tolist()):
                kernel.weigh(self.prior, self.wrong, penalty, inside[g])
            self._inside = inside
        out: Floats = self._inside[:, (len(self.prior) - 1) ^ masks]
        return out


class Sampled:
    """A sample of sets for each rate of error, and the answers by distinct context.

    Parameters
    ----------
    logit, terms, errors
        As in `Enumerated`.
    chains, sweeps : int
        Sets in a sample, Gibbs sweeps an answer.
    clearing : bool
        Whether only terms that occur in a denied answer are sampled.
    """

    def __init__(
        self, logit: Floats, terms: Terms, errors: Floats, chains: int, sweeps: int, clearing: bool
    ) -> None:
        self.logit, self.terms, self.errors = logit, terms, errors
        self.sweeps, self.clearing = sweeps, clearing
        self.odds: Floats = np.log((1.0 - errors) / errors)
        self.held: Bools = np.empty((0, terms.singles), np.bool_)
        self.net: Ints = np.empty(0, np.int64)  # answers "allowed" less "denied", by context
        self.cleared: Ints = np.zeros(len(terms), np.int64)  # answers "allowed", by term
        self.active: Ints = np.empty(0, np.int64)  # the terms that are sampled
        self.sets: Bools = np.zeros((len(errors), chains, 0), np.bool_)
        self._index()

    def copy(self) -> Sampled:
        """Return a copy that learns apart."""
        twin = object.__new__(Sampled)
        twin.__dict__.update(self.__dict__)
        for name in ("net", "cleared", "sets", "log_out"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def fold(self, held: Bools, allowed: bool, key: np.uint64) -> Floats:
        """Fold one answer; return the log of the probability that it had, by rate of error."""
        scratch: Ints = np.empty(len(self.terms), np.int64)
        own = scratch[: kernel.terms_of(held, self.terms.pairs, scratch)]
        new = own[self.place[own] < 0] if not (allowed and self.clearing) else own[:0]
        if len(new):
            self._activate(new, key)
        at = np.flatnonzero((self.held == held).all(axis=1))
        if not len(at):
            self.held = np.concatenate([self.held, held[None]])
            self.net = np.append(self.net, 0)
            at = np.array([len(self.net) - 1])
        ids = self.place[own]
        rest, ids = own[ids < 0], ids[ids >= 0]
        out: Floats = np.empty(len(self.errors))
        likelihood: Floats = np.empty(self.sets.shape[1])
        self.net[at[0]] += 1 if allowed else -1
        starts, each = gibbs.index_contexts(self.held, self.terms.pairs, self.place)
        heads, contexts = gibbs.index_terms(starts, each, len(self.active))
        for g, error in enumerate(self.errors.tolist()):
            open_ = float(np.exp(self.log_out[g, rest].sum()))
            q = gibbs.foretell(self.sets[g], ids, open_, error, likelihood)
            out[g] = np.log(q if allowed else 1.0 - q)
            chance = likelihood if allowed else 1.0 - likelihood
            turn = np.uint64(keys.bits_of(key, g))
            gibbs.redraw(self.sets[g], chance, turn)
            prior = self.logit[self.active]
            gibbs.move(
                self.sets[g],
                starts,
                each,
                heads,
                contexts,
                self.net,
                float(self.odds[g]),
                prior,
                self.sweeps,
                turn,
            )
        if allowed:
            self.cleared[own] += 1
            self._weigh(own)
        return out

    def seen(self, held: Bools) -> Bools:
        """What `shares` needs to know of the contexts; the same for all units of the same terms."""
        return held

    def shares(self, seen: npt.NDArray[Any], out: Floats) -> None:
        """Fill P(allowed) for each context, by rate of error: (G, n)."""
        for g in range(len(out)):
            gibbs.share_allowing(
                self.sets[g], seen, self.terms.pairs, self.place, self.log_out[g], out[g]
            )

    def marginals(self) -> Floats:
        """P(denied) for each term, by rate of error: (G, T)."""
        out: Floats = 1.0 - np.exp(self.log_out)
        out[:, self.active] = self.sets.mean(axis=1)
        return out

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that was learned, as named arrays."""
        names = ("held", "net", "cleared", "active", "sets")
        return {name: getattr(self, name).copy() for name in names}

    def read(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore what `to_state` returned."""
        G, C, _ = self.sets.shape
        n, A, T = len(state["net"]), len(state["active"]), len(self.terms)
        check(state["held"], np.bool_, (n, self.terms.singles), "held")
        check(state["net"], np.int64, (n,), "net")
        check(state["cleared"], np.int64, (T,), "cleared")
        check(state["active"], np.int64, (A,), "active")
        check(state["sets"], np.bool_, (G, C, A), "sets")
        active = state["active"]
        sound = len(state) == 5 and len(set(active.tolist())) == A and state["cleared"].min() >= 0
        if not sound or (A and not (0 <= active.min() and active.max() < T)):
            raise CorruptState("RuleLimits: 'active' or 'cleared' cannot be those of a unit.")
        for name, array in state.items():
            setattr(self, name, np.array(array, order="C"))
        self._index()

    def _activate(self, new: Ints, key: np.uint64) -> None:
        """Sample more terms, from what is believed of them now: with no answer yet, the prior."""
        G, C, A = self.sets.shape
        self.active = np.concatenate([self.active, new])
        more: Bools = np.zeros((G, C, len(new)), np.bool_)
        self.sets = np.concatenate([self.sets, more], axis=2)
        for g in range(G):
            logit = self.logit[self.active] - self.cleared[self.active] * self.odds[g]
            turn = np.uint64(keys.aside(np.uint64(keys.bits_of(key, G + g))))
            gibbs.draw_terms(self.sets[g], A, logit, turn)
        self._index()

    def _index(self) -> None:
        """What follows from the rest: places of active terms, chances of those that are not."""
        self.place: Ints = np.full(len(self.terms), -1, np.int64)
        self.place[self.active] = np.arange(len(self.active))
        self.log_out: Floats = np.empty((len(self.errors), len(self.terms)))
        self._weigh(slice(None))

    def _weigh(self, which: Ints | slice) -> None:
        """Work out the log of the chance that each of these terms is not denied, if not active."""
        logit = self.logit[which] - self.cleared[which] * self.odds[:, None]
        # log(1 − sigmoid(x)); where x is that of a certain term, −∞ as near as need be.
        self.log_out[:, which] = -np.logaddexp(0.0, np.minimum(logit, 1e6))


def checked_groups(groups: object, n: int, owner: str) -> tuple[Group, ...]:
    """Return the group of each of n arms, or raise `InvalidValue`."""
    if groups is None:
        return (None,) * n
    given = groups.tolist() if isinstance(groups, np.ndarray) else groups
    wanted = f"{n} names of groups (strings of at most 200 characters, ints or None)"
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != n:
        raise InvalidValue("groups", owner, wanted, groups)
    for group in given:
        named = type(group) is str and len(group) <= 200  # True would be the group 1
        if group is not None and not named and type(group) is not int:
            raise InvalidValue("groups", owner, wanted, group)
    return tuple(given)


def checked_answers(
    contexts: npt.ArrayLike, allowed: npt.ArrayLike, keys: npt.ArrayLike, features: int, owner: str
) -> tuple[Floats, list[bool], list[int]]:
    """Return the answers and keys that `refit` was given, or raise `InvalidValue`."""
    C = validation.matrix(contexts, features, "contexts", owner)
    answers = validation.truths(allowed, len(C), "allowed", owner).tolist()
    given = validation.arrays(keys, "keys", owner, f"{len(C)} keys").tolist()
    if not isinstance(given, list) or len(given) != len(C):
        raise InvalidValue("keys", owner, f"{len(C)} keys", keys)
    return C, answers, [validation.SEED.check(key, "keys", owner) for key in given]


def units_of(groups: tuple[Group, ...]) -> Ints:
    """Return the unit of each arm: that of its group, or one of its own."""
    units: dict[object, int] = {}
    each = [(k,) if group is None else group for k, group in enumerate(groups)]
    return np.array([units.setdefault(name, len(units)) for name in each], np.int64)


def density_of(given: float | None, terms: int, kind: int, name: str) -> float:
    """Return the prior probability of a term of one kind: as declared, or for a short rule."""
    if given is not None:
        return DENSITY.check(given, name, "RuleLimits")
    return min(MOST[kind], EXPECTED / max(terms, 1))


def log_mean(logs: Sequence[float]) -> float:
    """Log of the mean of numbers that are given by their logs."""
    top = max(logs)
    return top + math.log(math.fsum(math.exp(x - top) for x in logs) / len(logs))


# --- A saved state of rules, taken apart: the settings, and the arrays of each unit -------


Arrays = dict[str, npt.NDArray[Any]]


def take_settings(rest: Arrays, errors: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the settings in a state, as `RuleLimits` takes them, and remove them from it."""
    above, pairs = rest.pop("thresholds"), bool(rest.pop("pairs"))
    every = Terms(len(above), pairs, above).all()
    known: dict[int, dict[Term, bool]] = {}
    for u, t, yes in rest.pop("known").tolist():
        if t < 0 or yes not in (0, 1):
            raise CorruptState("RuleLimits: 'known' holds what is no term.")
        known.setdefault(u, {})[every[t]] = bool(yes)
    groups = [json.loads(group) for group in rest.pop("groups").tolist()]
    density, density_pairs = rest.pop("density").tolist()
    chains, sweeps = rest.pop("sampling").tolist()
    return {
        "arms": len(groups),
        "features": len(above),
        "groups": groups,
        "pairs": pairs,
        "density": density,
        "density_pairs": density_pairs,
        "error": None if len(errors) > 1 else float(errors[0]),
        "doubt": float(rest.pop("doubt")),
        "chains": chains,
        "sweeps": sweeps,
        "seed": int(rest.pop("seed")),
        "known": known,
        "thresholds": above,
    }


def by_unit(rest: Arrays, units: int) -> dict[int, Arrays]:
    """Part what is left of a state, "unit3.net" say, by unit."""
    parts: dict[int, Arrays] = {}
    for name, array in rest.items():
        head, dot, tail = name.partition(".")
        u = int(head.removeprefix("unit"))
        if not dot or not 0 <= u < units or head != f"unit{u}":
            raise CorruptState(f"RuleLimits: there is no place for the array {name!r}.")
        parts.setdefault(u, {})[tail] = array
    return parts


# --- Rules: limits that are short sets of denied terms, with all that is doubtful about them


# Up to so many terms all 2^T sets are weighed.
MAX_EXACT = 12
# Rates of error that are weighed if none is declared.
ERROR_GRID = (0.001, 0.01, 0.03, 0.1, 0.2)
# A rate above which an answer is no longer taken for the truth.
NOISY_ABOVE = 0.02

ERROR = validation.FloatRange(1e-6, 0.49)
DOUBT = validation.FloatRange(0.0, 0.5, open_low=True, open_high=True)
CHAINS = validation.IntRange(10, 100_000)
SWEEPS = validation.IntRange(1, 1_000)
ARMS = validation.IntRange(1, 1_000_000)

_SAMPLE = np.uint64(0x52554C45)  # what the keys are for: no other use of the seed shares bits


def doubt_of(doubt: float | None, error: float | None, owner: str) -> float:
    """Return the doubt that was asked for, or what serves for a teacher of this kind."""
    if doubt is not None:
        return DOUBT.check(doubt, "doubt", owner)
    rate = 1.0 if error is None else ERROR.check(error, "error", owner)
    return 0.001 if rate > NOISY_ABOVE else 0.01


class RuleLimits(Beliefs):
    """Limits as rules: a set S of denied terms for each unit, a context is denied if it holds any.

    A term is a feature or, with `pairs`, two features together (see `Terms` for what "holds"
    means). A priori each term is in S on its own, with probability `density`; an answer of the
    teacher is right with probability 1 − `error`. Up to 12 terms the belief over S is exact: all
    sets are weighed. Beyond, it is a sample of `chains` sets: each answer redraws them by how well
    they predicted it and then moves each by Gibbs sampling. Terms in no answer so far are never
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
    >>> limits.predict(0, [[0, 1, 0], [0, 0, 1]]).p.round(3).tolist()
    [0.999, 0.004]
    >>> print(limits.describe(0, ["Comedy", "Drama", "Horror"]).sentence("all"))
    all: not Horror
    """

    terms: Terms
    has_sentences = True
    asks_consent = True
    knows_errors = True

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
        self.seed = validation.SEED.check(seed, "seed", owner)
        self._start = keys.stream(self.seed, _SAMPLE)
        rates = ERROR_GRID if error is None else (ERROR.check(error, "error", owner),)
        self.errors: Floats = np.array(rates)
        m, T = self.terms.singles, len(self.terms)
        self.exact = T <= MAX_EXACT  # whether all sets are weighed, not sampled
        self._clearing = T > MAX_SAMPLED
        self.term_size = 2 if self.terms.pairs else 1
        # Not where the rate of error is estimated: the opposite answer makes a teacher who errs.
        # Nor where terms are so many that some are cleared one by one.
        self.floor = max(self.floor, rates[0]) if len(rates) == 1 else self.floor
        self.undoes = len(rates) == 1 and not self._clearing
        self.density = density_of(density, m, 0, "density")
        self.density_pairs = density_of(density_pairs, T - m, 1, "density_pairs")
        self._groups: tuple[Group, ...] = checked_groups(groups, K, owner)
        self._unit_of: Ints = units_of(self._groups)
        self._units: dict[int, Enumerated | Sampled] = {}
        # By what is known: what is believed before any answer.
        self._blanks: dict[tuple[tuple[int, bool], ...], Enumerated | Sampled] = {}
        self._known: dict[int, dict[int, bool]] = {}
        if known is not None and not isinstance(known, Mapping):
            raise InvalidValue("known", owner, "a mapping from units to known terms", known)
        for unit, given in (known or {}).items():
            u = validation.IntRange(0, self.units - 1).check(unit, "known", owner)
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
        return log_mean([math.fsum(column) for column in self._evidence.T])

    @property
    def unit_evidence(self) -> Floats:
        """The same for the answers of each unit alone: (U,)."""
        return np.array([log_mean(row) for row in self._evidence.tolist()])

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; return the units whose belief changed.

        If the rate of error is estimated, any answer moves the beliefs of all units.
        """
        owner = "RuleLimits.learn"
        row = validation.vector(context, self.features, "context", owner)
        k = validation.IntRange(0, self.arms - 1).check(arm, "arm", owner)
        answer = validation.truth(allowed, "allowed", owner)
        bits = validation.SEED.check(key, "key", owner)
        u = int(self._unit_of[k])
        self._fold(u, self.terms.held_in(row[None])[0], answer, bits)
        self._weigh_errors()
        return np.array([u]) if len(self.errors) == 1 else np.arange(self.units)

    def fold(self, context: Floats, unit: int, allowed: bool, key: int) -> tuple[Parts, Ints]:
        """Fold one answer; return what `predictive` was until then, and the units that changed."""
        held = self.terms.held_in(context[None])
        p, q, information = self._mixed(unit, held)
        self._fold(unit, held[0], allowed, key)
        self._weigh_errors()
        changed = np.array([unit]) if len(self.errors) == 1 else np.arange(self.units)
        return (p, q, information, np.sqrt(p * (1.0 - p))), changed

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
        owner = "RuleLimits.refit"
        u = self._unit(unit, owner)
        C, answers, bits = checked_answers(contexts, allowed, keys, self.features, owner)
        self._units.pop(u, None)
        self._evidence[u] = 0.0
        for held, answer, key in zip(self.terms.held(C), answers, bits, strict=True):
            self._fold(u, held, answer, key)
        self._weigh_errors()
        return np.array([u]) if len(self.errors) == 1 else np.arange(self.units)

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of a unit in each of n contexts, (n, d)."""
        return self._prediction(*self._checked(unit, contexts, "RuleLimits.predict"))

    def predict_all(self, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of all units: (U, n), the bits of `predict` unit by unit."""
        held = self.terms.held(contexts, "contexts", "RuleLimits.predict_all")
        return self._prediction(*self._mixed_all(held))

    def predict_answer(self, unit: int, contexts: npt.ArrayLike) -> Floats:
        """Return the probability that the teacher, who may err, says "allowed": (n,)."""
        return self._checked(unit, contexts, "RuleLimits.predict_answer")[1]

    def predictive(self, unit: int, contexts: Floats) -> Parts:
        """Return P(allowed), P(the teacher says so), information and standard deviation: (n,)."""
        p, q, information = self._mixed(unit, self.terms.held_in(contexts))
        return p, q, information, np.sqrt(p * (1.0 - p))

    def predictive_all(self, contexts: Floats) -> Floats:
        """Return what `predictive` does, of all units: (4, U, n), the same bits."""
        p, q, information = self._mixed_all(self.terms.held_in(contexts))
        return np.array((p, q, information, np.sqrt(p * (1.0 - p))))

    def _mixed_all(self, held: Bools) -> tuple[Floats, Floats, Floats]:
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
        return p.reshape(U, n), q.reshape(U, n), information.reshape(U, n)

    def marginals(self, unit: int) -> Floats:
        """Return the probability that a term is denied, for each: (T,)."""
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

    def holds_nothing(self, contexts: Floats) -> Bools:
        """Return which contexts hold none of its terms: (n,)."""
        return np.asarray(~self.terms.held_in(contexts).any(axis=1))

    @property
    def unused_columns(self) -> set[int]:
        """The columns that are no terms."""
        return set(range(self.features)) - set(self.terms.columns.tolist())

    def noise(self, p: float) -> float:
        """Return how far a belief of p moves by chance: that of a sample of so many sets."""
        if self.exact:
            return 0.0
        q = (p * self.chains + 1.0) / (self.chains + 2.0)  # nothing that is sampled is sure
        return math.sqrt(2.0 * q * (1.0 - q) / self.chains)

    def refit_seconds(self, n: int) -> float:
        """Return how long a refit takes: measured on one core, 10 to 100 features, n ≤ 1,000."""
        T = len(self.terms)
        each = 4.5e-8 * 2.0**T
        if not self.exact:
            active = self.chains * self.sweeps * min(T, 200)
            each = active * (1.8e-8 + 1.7e-11 * n)
        return n * (2e-5 + len(self.errors) * each)

    def set_known(self, unit: int, terms: Mapping[Term, bool]) -> None:
        """Replace what is known for certain of a unit.

        The unit's answers are forgotten: they were weighed by what was known before. Give those
        that stand to `refit`.
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
        n = validation.IntRange(0, ARMS.high - self.arms).check(arms, "arms", owner)
        self._groups += checked_groups(groups, n, owner)
        self._unit_of = units_of(self._groups)
        more = np.zeros((self.units - len(self._evidence), len(self.errors)))
        self._evidence = np.concatenate([self._evidence, more])

    def copy(self) -> RuleLimits:
        """Return limits with the same knowledge that learn apart from now on."""
        twin = object.__new__(RuleLimits)
        twin.__dict__.update(self.__dict__)
        twin._units = {u: unit.copy() for u, unit in self._units.items()}
        twin._evidence = self._evidence.copy()
        twin._known = dict(self._known)  # what it holds of a unit is replaced, never changed
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays."""
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
        """Return limits as they were at `to_state`."""
        if not isinstance(state, Mapping):
            raise CorruptState(f"RuleLimits needs named arrays, not {state!r:.200}.")
        try:
            return cls._read(dict(state))
        except DAMAGE as error:
            raise CorruptState(f"RuleLimits: the state is damaged: {error}") from None

    @classmethod
    def _read(cls, rest: dict[str, npt.NDArray[Any]]) -> Self:
        errors, evidence = rest.pop("errors"), rest.pop("evidence")
        self = cls(**take_settings(rest, errors))
        if not np.array_equal(errors, self.errors):
            raise CorruptState("RuleLimits: 'errors' is not a grid of this version.")
        check(evidence, np.float64, self._evidence.shape, "evidence")
        if not np.isfinite(evidence).all():
            raise CorruptState("RuleLimits: 'evidence' holds numbers that are not finite.")
        self._evidence = evidence.copy()
        for u, arrays in by_unit(rest, self.units).items():
            self._units[u] = self._blank(u).copy()
            self._units[u].read(arrays)
        self._weigh_errors()
        return self

    def _unit(self, unit: int, owner: str) -> int:
        return validation.IntRange(0, self.units - 1).check(unit, "unit", owner)

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

    def _prediction(self, p: Floats, q: Floats, information: Floats) -> Prediction:
        safe, possible = p >= 1.0 - self.doubt, p >= self.doubt
        return Prediction(p, safe, possible, information, np.sqrt(p * (1.0 - p)))

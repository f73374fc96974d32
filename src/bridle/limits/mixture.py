"""`auto`: several kinds of limits, weighed by how well each predicted the teacher's answers.

One probability and one bar: whatever kinds take part, an arm is safe where the mixture's own
P(allowed) is 1 − doubt or more, and no kind is asked to judge in another way.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.kernels import mixture as kernel
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits.base import Beliefs, Parts, Prediction, Predictions
from bridle.limits.bounds import BoundLimits
from bridle.limits.logistic import MAX_COLUMNS, LogisticLimits, PooledLimits, columns
from bridle.limits.rules import (
    DAMAGE,
    Group,
    Reading,
    RuleLimits,
    Term,
    check,
    checked_answers,
    checked_groups,
    doubt_of,
    how_many,
    units_of,
)
from bridle.schema import Schema

__all__ = ["FLOOR", "PRIOR", "MixtureLimits", "MixturePredictions", "Surprise"]

# All constants here are part of what `form` 2 of an agent's settings means: with others a log would
# replay to other bits, so another value is another form.
#
# Prior weights, before they are scaled to add up to 1. If those of the rules were even, rules of
# single words would soon have .85, and a pair that is 7 % likely to be denied pass for safe.
PRIOR = {"allowed": 0.05, "singles": 0.2, "pairs": 0.8, "logistic": 0.1, "pooled": 0.1}
# Where some features are numbers: rules of words cannot see those, and would soon be sure of what
# they have not looked at.
PRIOR_NUMBERS = {**PRIOR, "bounds": 20.0}
# Where numbers have no range, only logistic limits can see them.
PRIOR_UNBOUNDED = {**PRIOR, "logistic": 2.5, "pooled": 2.5}
# A threshold that nothing is above.
NEVER_HELD = 1e300
# Probability that a unit is of another kind than most.
DEVIATION = 0.1
# What rules allow may have exceptions, and belief alone never meets them: what is believed safe is
# not asked about. So rules are trusted to the letter only once enough of what they are sure of was
# confirmed. Probability that they hold to the letter; if not, each unit's rate of exceptions is
# Beta(.5, 4.5).
EXACT = 0.8
EXCEPTIONS = (0.5, 4.5)
# How much what the members say counts, in answers, where this very vector of features was judged.
PRIOR_ANSWERS = 1.0
# Pairs of words are too many to be terms from here on: 100 words.
MOST_PAIRS = 5_050
# A teacher who errs more often is not taken at their word in any single case.
NOISY_ABOVE = 0.02
# No member gives an answer less than this (or than a tenth of the doubt, if that is less), or than
# the declared rate of error.
FLOOR = 0.001
# Also where the teacher errs: the mixture knows of no member that is surer.
DOUBT = 0.01
MAX_SURPRISES = 1_000
# Members by degrees with more weight than this leave nothing for a sentence to say.
DEGREES = 0.5
# How a bound reads: "age under about 16 (14 to 17)"; and where it may lie.
_BOUND = re.compile(r"(?P<name>.+) (under|over) (about )?[-0-9.]+.*")
_RANGE = re.compile(r" \(([-0-9.]+) to ([-0-9.]+)\)$")

Known = Mapping[int, Mapping[Term, bool]]


@dataclass(frozen=True)
class Surprise:
    """An answer that the mixture was sure would not come."""

    answer: int  # how many answers were folded with it; a relearned one counts again
    unit: int
    allowed: bool
    probability: float  # that was given to it


class AllAllowed:
    """The simplest member: everything is allowed. There is nothing to learn or to keep."""

    knows_errors = False
    undoes = True
    noisy = False
    room = None
    floor = FLOOR

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Ignore an answer."""
        return np.empty(0, np.int64)

    def fold(self, context: Floats, unit: int, allowed: bool, key: int) -> tuple[Parts, Ints]:
        """Ignore an answer; return what `predictive` is."""
        return self.predictive(unit, context[None]), np.empty(0, np.int64)

    def refit(self, unit: int, contexts: npt.ArrayLike, allowed: object, keys: object) -> Ints:
        """Ignore answers."""
        return np.empty(0, np.int64)

    def predictive(self, unit: int, contexts: Floats) -> Parts:
        """Return P(allowed), the same again, and that there is nothing to find out: (n,)."""
        p: Floats = np.full(len(contexts), 1.0 - FLOOR)
        return p, p, np.zeros(len(p)), np.zeros(len(p))

    def predictive_all(self, contexts: Floats) -> Floats:
        """Return what `predictive` does: (4, 1, n), as it is the same of all units."""
        return np.array(self.predictive(0, contexts))[:, None]

    def check_room(self, unit: int, more: int) -> None:
        """Accept any number of answers."""

    def grow(self, arms: int = 1, groups: Sequence[Group] | None = None) -> None:
        """Accept any number of arms."""

    def copy(self) -> AllAllowed:
        """Return itself: it never changes."""
        return self

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return no arrays."""
        return {}

    def noise(self, p: float) -> float:
        """Return 0: it learns nothing anew."""
        return 0.0

    def refit_seconds(self, n: int) -> float:
        """Return 0: it learns nothing anew."""
        return 0.0


class MixturePredictions(Predictions):
    """What a mixture predicts in contexts that stay the same, kept up to date with what it learns.

    After an answer only the members and units that it moved are computed anew.
    """

    def __init__(self, limits: MixtureLimits, contexts: Floats) -> None:
        self._mixture, self._C = limits, contexts
        shape = len(limits.members), limits.units, len(contexts)
        self._parts: Floats = np.empty((4, *shape))
        self._seen: Ints = np.full(shape[:2], -1, np.int64)
        self._empty: Bools = limits.holds_nothing(contexts)
        self._places = _places(contexts)

    def predict(self, changed: Ints | None = None) -> Prediction:
        """Return what is believed of all units now: arrays (U, n)."""
        limits = self._mixture
        for m, stale in enumerate(self._seen != limits._revision):
            if stale.all():
                self._parts[:, m] = limits._predictive_all(m, self._C, self._empty)
                continue
            for u in np.flatnonzero(stale):
                parts = limits._predictive(m, int(u), self._C, self._empty)
                for kind, part in enumerate(parts):
                    self._parts[kind, m, u] = part
        self._seen[:] = limits._revision
        counts = limits._counts
        return limits._mixed(self._parts, limits._rates, limits._weights, counts, self._places)


class MixtureLimits(Beliefs):
    """A mixture of several kinds of limits, by their prequential evidence.

    Members: everything is allowed; rules of single words; rules with pairs of words; logistic
    limits, a unit at a time and pooled over units; where there are numbers, rules with bounds on
    them. A member's evidence is the product of the probabilities that it gave to the answers before
    they came: one that is confidently wrong is soon outweighed. Units share a kind, and each may
    deviate from it (`kernels.mixture.weigh`).

    P(allowed) is the mean of the members' predictions, each kept inside [.001, .999]. Safe is what
    has 1 − doubt or more, by that one probability. Answers to which it had given less than `doubt`
    are counted as surprises: if they go on, no kind fits, or the teacher errs.

    Parameters
    ----------
    arms, features, groups, error, chains, sweeps, seed, known, thresholds
        As in `RuleLimits`. Known terms bind the members that are rules.
    doubt : float, optional
        Safe is what is allowed with probability 1 − doubt or more, possible with doubt or more; by
        default .01.
    unbounded : sequence of ints
        Columns that are numbers without a range: no rule sets a bound to them.
    prior : mapping from names of members to weights, optional
        How much each is believed before the first answer; those left out do not take part.

    Examples
    --------
    >>> limits = MixtureLimits(arms=1, features=3)
    >>> for context, allowed in ([1, 1, 0], False), ([1, 0, 0], True), ([0, 1, 0], True):
    ...     _ = limits.learn(context, 0, allowed)
    >>> limits.weights(0)["singles"] < 0.05
    True
    """

    has_sentences = True
    knows_errors = True
    order_matters = True
    calibrated = True
    term_size = 2

    def __init__(
        self,
        *,
        arms: int,
        features: int,
        groups: Sequence[Group] | None = None,
        error: float | None = 0.001,
        doubt: float | None = None,
        chains: int = 400,
        sweeps: int = 3,
        seed: int = 0,
        known: Known | None = None,
        thresholds: npt.ArrayLike | None = None,
        unbounded: Sequence[int] = (),
        prior: Mapping[str, float] | None = None,
    ) -> None:
        owner = "MixtureLimits"
        doubt_of(None, error, owner)  # refuses an error that can not be
        self.doubt = DOUBT if doubt is None else doubt_of(doubt, None, owner)
        self._groups = checked_groups(groups, arms, owner)
        self._unit_of = units_of(self._groups)
        self._features = features
        members, usual, self.left_out = _make_members(
            arms=arms,
            features=features,
            groups=self._groups,
            known=known,
            thresholds=thresholds,
            unbounded=unbounded,
            error=error,
            doubt=doubt,
            chains=chains,
            sweeps=sweeps,
            seed=seed,
        )
        given = usual if prior is None else dict(prior)
        if not given.keys() <= members.keys() and prior is not None:
            raise InvalidValue("prior", owner, f"weights of {list(members)}", prior)
        self.members: dict[str, Any] = {n: m for n, m in members.items() if n in given}
        raw = [WEIGHT.check(given[name], "prior", owner) for name in self.members]
        self.prior: Floats = np.array(raw) / math.fsum(raw)
        self._derive()
        self._floor = max(self._least, self._least if error is None else error)
        self._evidence: Floats = np.zeros((self.units, len(self.members)))
        self._allowed: Ints = np.zeros(self.units, np.int64)  # answers "allowed" of each unit
        # Answers about this very vector of features, by unit: allowed, denied. Not of a teacher who
        # errs. They follow from the counts of logistic limits.
        self._exact = error is not None and error <= NOISY_ABOVE
        self._counts: list[dict[bytes, list[int]]] = [{} for _ in range(self.units)]
        self._tallies: Floats = np.zeros((3, len(self.members), self.units))  # of exceptions
        self._revision: Ints = np.zeros((len(self.members), self.units), np.int64)
        self.answers = 0
        self.surprised = 0
        self.surprises: list[Surprise] = []
        self._weigh()

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return len(self._unit_of)

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return self._features

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
        """Whether the teacher seems to err so often that one answer is not the truth."""
        says = [bool(getattr(member, "noisy", False)) for member in self.members.values()]
        return math.fsum(self._shared[says]) > 0.5

    def weights(self, unit: int | None = None) -> dict[str, float]:
        """Return how much each member is believed by now, for a unit or by all units together."""
        if unit is None:
            return dict(zip(self.members, self._shared.tolist(), strict=True))
        u = self._unit(unit, "weights")
        return dict(zip(self.members, self._weights[u].tolist(), strict=True))

    def exceptions(self, unit: int) -> dict[str, float]:
        """Return how often what each member allows is expected to be denied all the same."""
        u = self._unit(unit, "exceptions")
        return dict(zip(self.members, self._rates[:, u].tolist(), strict=True))

    def by_degrees(self, unit: int) -> bool:
        """Return whether members that no sentence describes have most of a unit's weight."""
        weights = self.weights(unit)
        return (
            not self._rules or weights.get("logistic", 0.0) + weights.get("pooled", 0.0) > DEGREES
        )

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; return the units whose belief changed: all.

        The weights of the members are those of all units.
        """
        owner = "MixtureLimits.learn"
        row = validation.vector(context, self.features, "context", owner)
        k = validation.IntRange(0, self.arms - 1).check(arm, "arm", owner)
        answer = validation.truth(allowed, "allowed", owner)
        bits = validation.SEED.check(key, "key", owner)
        u = int(self._unit_of[k])
        self._weigh_answer(row, u, answer, self._ask(row, u, answer, bits))
        return np.arange(self.units)

    def update(self, context: Floats, arm: int, allowed: bool, key: int) -> Prediction:
        """Fold an answer that was checked before; return what was believed there until then.

        Each member is asked once, for what it believed and to learn the answer.
        """
        u = int(self._unit_of[arm])
        parts = self._ask(context, u, allowed, key)
        before = self._mixed_unit(u, parts, context[None])
        self._weigh_answer(context, u, allowed, parts)
        return before

    def refit(
        self, unit: int, contexts: npt.ArrayLike, allowed: npt.ArrayLike, keys: npt.ArrayLike
    ) -> Ints:
        """Forget a unit's answers and fold these, in order: what a retraction leaves.

        Its evidence and its surprises are counted anew, beside what the other units' answers say
        now.
        """
        owner = "MixtureLimits.refit"
        u = self._unit(unit, "refit")
        C, answers, bits = checked_answers(contexts, allowed, keys, self.features, owner)
        self._forget(u)
        for row, answer, key in zip(C, answers, bits, strict=True):
            self._weigh_answer(row, u, answer, self._ask(row, u, answer, key))
        return np.arange(self.units)

    def predictions(self, contexts: npt.ArrayLike) -> MixturePredictions:
        """Return what is predicted in these contexts, updated after each answer."""
        C = validation.matrix(contexts, self.features, "contexts", "MixtureLimits.predictions")
        return MixturePredictions(self, C)

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of a unit in each of n contexts, (n, d)."""
        C = validation.matrix(contexts, self.features, "contexts", "MixtureLimits.predict")
        u = self._unit(unit, "predict")
        empty = self.holds_nothing(C)
        parts = np.array([self._predictive(m, u, C, empty) for m in range(len(self.members))])
        return self._mixed_unit(u, parts, C)

    def predict_all(self, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of all units: (U, n), the bits of `predict` unit by unit."""
        C = validation.matrix(contexts, self.features, "contexts", "MixtureLimits.predict_all")
        parts: Floats = np.empty((4, len(self.members), self.units, len(C)))
        for m, member in enumerate(self.members.values()):
            parts[:, m] = member.predictive_all(C)
        empty = self.holds_nothing(C)
        if empty.any():
            never = np.flatnonzero(self._allowed == 0).tolist()
            for m, u in product(np.flatnonzero(~self._degrees).tolist(), never):
                parts[:2, m, u, empty] = np.minimum(parts[:2, m, u, empty], 0.5)
        return self._mixed(parts, self._rates, self._weights, self._counts, _places(C))

    def predict_answer(self, unit: int, contexts: npt.ArrayLike) -> Floats:
        """Return the probability that the teacher, who may err, says "allowed": (n,)."""
        C = validation.matrix(contexts, self.features, "contexts", "MixtureLimits.predict_answer")
        u = self._unit(unit, "predict_answer")
        empty = self.holds_nothing(C)
        each = [self._predictive(m, u, C, empty)[1] for m in range(len(self.members))]
        Q = np.array(each) * (1.0 - self._rates[:, u : u + 1])
        Q = np.clip(Q, self._floor, 1.0 - self._floor)
        return np.array([math.fsum(self._weights[u] * column) for column in Q.T])

    def describe(self, unit: int, names: Sequence[str]) -> Reading:
        """Read a unit's rule back, in the names of the columns of a context.

        It is what the members that are rules of words believe, weighed among themselves. A pair is
        left out where one of its features is denied.
        """
        u = self._unit(unit, "describe")
        rules = {
            name: member for name, member in self._rules.items() if isinstance(member, RuleLimits)
        }
        if not rules:
            raise NotPossible(
                "No rule can be read back: these limits have no rules among their members. "
                "Declare features as flags, categories or labels."
            )
        at = [list(self.members).index(name) for name in rules]
        weights = self._weights[u, at] + 1e-300
        words: dict[Term, str] = {}
        chance: dict[Term, float] = {}
        for weight, member in zip(weights / math.fsum(weights), rules.values(), strict=True):
            every = member.terms.all()
            words |= zip(every, member.terms.names(names), strict=True)
            for term, p in zip(every, (weight * member.marginals(u)).tolist(), strict=True):
                # In a rule of single features a pair is not denied for its own sake.
                chance[term] = chance.get(term, 0.0) + p
        words = dict(sorted(words.items(), key=lambda each: isinstance(each[0], tuple)))
        return Reading.of(words, chance, self.doubt)

    def read(self, unit: int, schema: Schema, alone: Floats, never: Collection[str]) -> Reading:
        """Return what is to be said of a unit: what its rules deny, and what P(allowed) doubts."""
        weights = self.weights(unit)
        bounds = self.members.get("bounds")
        leads = weights.get("bounds", 0.0) > weights.get("singles", 0.0) + weights.get("pairs", 0.0)
        if bounds is not None and leads:
            reading = _bound_reading(bounds, unit, schema)
        else:
            reading = self.describe(unit, schema.columns)
        bound = any(" under " in term or " over " in term for term in reading.denied) and leads
        words: dict[str, Term] = {}
        if self.terms is not None:
            words = dict(zip(self.terms.names(schema.columns), self.terms.all(), strict=True))
        safe: list[str] = []
        unsure: list[str] = []
        for term, column in words.items():
            if isinstance(column, tuple) or (bound and term not in reading.unsure):
                continue  # what a bound denies is not the word's doing
            (safe if alone[column] >= 1.0 - self.doubt else unsure).append(term)
        gone = [term for term in unsure if alone[words[term]] <= self.doubt]
        denied = dict.fromkeys((*gone, *(term for term in reading.denied if term not in safe)))
        safe += self._safe_numbers(schema, unit)
        more = [t for t in reading.unsure if t not in never and t not in safe and t not in unsure]
        left = tuple(term for term in (*unsure, *more) if term not in denied)
        return replace(reading, denied=tuple(denied), unsure=left)

    def _safe_numbers(self, schema: Schema, unit: int) -> list[str]:
        """Return the numbers that leave all allowed, at either end and in the middle."""
        numbers = [(feature, at) for feature, at in schema.numbers if feature.low is not None]
        rest = np.zeros(schema.width)
        rest[[at for _, at in numbers]] = 0.5
        out = []
        for feature, at in numbers:
            rows = np.repeat(rest[None], 3, axis=0)
            rows[:, at] = 0.0, 0.5, 1.0
            if self.predict(unit, rows).safe.all():
                out.append(feature.name)
        return out

    def set_known(self, unit: int, terms: Mapping[Term, bool]) -> None:
        """Replace what is known for certain of a unit; it binds the members that are rules.

        Rules of single features ignore pairs. The unit's answers are forgotten, by all members:
        they were weighed by what was known before. Give those that stand to `refit`.
        """
        u = self._unit(unit, "set_known")
        if not isinstance(terms, Mapping):
            raise InvalidValue(
                "terms", "MixtureLimits.set_known", "a mapping from terms to True or False", terms
            )
        alone = _singles_of({u: terms})[u]
        given = []
        for member in self._rules.values():
            if member.terms is not None:
                known = terms if member.terms.pairs else alone
                member.terms.known(known)  # refuses them before anything has changed
                given.append((member, known))
        self._forget(u)
        for member, known in given:
            member.set_known(u, known)

    def check_room(self, unit: int, more: int) -> None:
        """Raise `LimitReached` if so many answers more could be more than a unit can hold."""
        for member in self.members.values():
            member.check_room(unit, more)

    def noise(self, p: float) -> float:
        """Return how far a belief of p moves by chance: the members' noise, by their weight."""
        each = zip(self._shared.tolist(), self.members.values(), strict=True)
        return math.fsum(weight * member.noise(p) for weight, member in each)

    def refit_seconds(self, n: int) -> float:
        """Return how long a refit with n answers takes: that of all members."""
        return math.fsum(member.refit_seconds(n) for member in self.members.values())

    def grow(self, arms: int = 1, groups: Sequence[Group] | None = None) -> None:
        """Add arms, after the others; one in a known group starts with what the group knows."""
        added = checked_groups(groups, arms, "MixtureLimits.grow")
        for member in self.members.values():
            member.grow(arms, list(added))
        self._groups += added
        self._unit_of = units_of(self._groups)
        M, more = len(self.members), self.units - len(self._allowed)
        self._counts += [{} for _ in range(more)]
        self._evidence = np.concatenate([self._evidence, np.zeros((more, M))])
        self._allowed = np.concatenate([self._allowed, np.zeros(more, np.int64)])
        self._tallies = np.concatenate([self._tallies, np.zeros((3, M, more))], axis=2)
        self._revision = np.concatenate([self._revision, np.zeros((M, more), np.int64)], axis=1)
        self._weigh()

    def copy(self) -> MixtureLimits:
        """Return limits with the same knowledge that learn apart from now on."""
        twin = object.__new__(MixtureLimits)
        twin.__dict__.update(self.__dict__)
        twin.members = {name: member.copy() for name, member in self.members.items()}
        twin._evidence, twin._allowed = self._evidence.copy(), self._allowed.copy()
        twin._tallies = self._tallies.copy()
        twin._counts = [{case: list(n) for case, n in of.items()} for of in self._counts]
        twin._revision = self._revision.copy()
        twin.surprises = list(self.surprises)
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays; those of a member follow its name, a slash."""
        seen = [(s.answer, s.unit, s.allowed) for s in self.surprises]
        state: dict[str, npt.NDArray[Any]] = {
            "members": np.array(list(self.members)),
            "prior": self.prior.copy(),
            "doubt": np.array([self.doubt, self._floor]),
            "groups": np.array([json.dumps(group) for group in self._groups]),
            "left_out": np.array(self.left_out, np.str_),
            "evidence": self._evidence.copy(),
            "allowed": self._allowed.copy(),
            "tallies": self._tallies.copy(),
            "counts": np.array([self.answers, self.surprised]),
            "surprises": np.array(seen, np.int64).reshape(-1, 3),
            "surprise": np.array([s.probability for s in self.surprises], np.float64),
        }
        for name, member in self.members.items():
            state |= {f"{name}/{key}": array for key, array in member.to_state().items()}
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return limits as they were at `to_state`."""
        if not isinstance(state, Mapping):
            raise CorruptState(f"MixtureLimits needs named arrays, not {state!r:.200}.")
        try:
            return cls._read(dict(state))
        except DAMAGE as error:
            raise CorruptState(f"MixtureLimits: the state is damaged: {error}") from None

    @classmethod
    def _read(cls, rest: dict[str, npt.NDArray[Any]]) -> Self:
        owner = "MixtureLimits"
        self = object.__new__(cls)
        self._groups = tuple(json.loads(group) for group in rest.pop("groups").tolist())
        self._groups = checked_groups(self._groups, len(self._groups), owner)
        self._unit_of = units_of(self._groups)
        self.members = {}
        for name in rest.pop("members").tolist():
            head = f"{name}/"
            own = {key: array for key, array in rest.items() if key.startswith(head)}
            rest = {key: array for key, array in rest.items() if key not in own}
            if name == "allowed":
                self.members[name] = AllAllowed()
                continue
            member = READERS[name]({k.removeprefix(head): a for k, a in own.items()})
            if not np.array_equal(member.unit_of, self._unit_of):
                raise CorruptState(f"{owner}: the member {name!r} is about other arms.")
            self.members[name] = member
        widths = {m.features for m in self.members.values() if not isinstance(m, AllAllowed)}
        (self._features,) = widths
        U, M = self.units, len(self.members)
        self.prior, (self.doubt, self._floor) = rest.pop("prior"), rest.pop("doubt").tolist()
        check(self.prior, np.float64, (M,), "prior", owner)
        doubt_of(self.doubt, None, owner)
        if not self.prior.min() > 0.0:
            raise CorruptState(f"{owner}: a weight of the prior is none that can be.")
        self._derive()
        self.left_out = tuple(map(str, rest.pop("left_out").tolist()))
        self._evidence, self._allowed = rest.pop("evidence"), rest.pop("allowed")
        check(self._evidence, np.float64, (U, M), "evidence", owner)
        check(self._allowed, np.int64, (U,), "allowed", owner)
        self._tallies = rest.pop("tallies")
        check(self._tallies, np.float64, (3, M, U), "tallies", owner)
        counts, seen, probability = (rest.pop(n) for n in ("counts", "surprises", "surprise"))
        check(counts, np.int64, (2,), "counts", owner)
        n = min(len(seen), MAX_SURPRISES)
        check(seen, np.int64, (n, 3), "surprises", owner)
        check(probability, np.float64, (n,), "surprise", owner)
        finite = np.isfinite(self._evidence).all() and np.isfinite(probability).all()
        sound = finite and 0.0 < self._floor < 0.5
        sound = sound and bool(np.isfinite(self._tallies).all())
        counted = (counts, self._allowed, self._tallies[:2], seen)
        if not sound or min(tally.min(initial=0) for tally in counted) < 0:
            raise CorruptState(f"{owner}: a count or a number is none that can be.")
        if (seen[:, 1] >= U).any() or rest:
            raise CorruptState(f"{owner}: no place for {sorted(rest)}, or for a surprise.")
        self.answers, self.surprised = counts.tolist()
        self.surprises = [
            Surprise(answer, unit, bool(allowed), q)
            for (answer, unit, allowed), q in zip(seen.tolist(), probability.tolist(), strict=True)
        ]
        self._revision = np.zeros((M, U), np.int64)
        self._exact = self._floor <= NOISY_ABOVE and not self.noisy_rules
        self._counts = [self._counted(u) for u in range(U)]
        self._weigh()
        return self

    @property
    def _rules(self) -> dict[str, RuleLimits | BoundLimits]:
        each = self.members.items()
        return {name: m for name, m in each if isinstance(m, RuleLimits | BoundLimits)}

    @property
    def noisy_rules(self) -> bool:
        """Whether its rules find out by themselves how often the teacher errs."""
        return any(len(m.errors) > 1 for m in self.members.values() if isinstance(m, RuleLimits))

    def _counted(self, u: int) -> dict[bytes, list[int]]:
        """Return the answers about each vector of features, as logistic limits count them."""
        member = self.members.get("logistic")
        if member is None or not self._exact:
            return {}
        contexts, allowed, denied = member.counts(u)
        counts = zip(allowed.tolist(), denied.tolist(), strict=True)
        return {row.tobytes(): list(each) for row, each in zip(contexts, counts, strict=True)}

    def _unit(self, unit: int, method: str) -> int:
        owner = f"MixtureLimits.{method}"
        return validation.IntRange(0, self.units - 1).check(unit, "unit", owner)

    def holds_nothing(self, contexts: Floats) -> Bools:
        """Return which contexts hold no word at all, though there are words: (n,)."""
        if self.terms is None:
            return np.zeros(len(contexts), np.bool_)
        return np.asarray(~self.terms.held_in(contexts).any(axis=1))

    def _predictive(self, m: int, u: int, contexts: Floats, empty: Bools) -> list[Floats]:
        """Return P, Q, information and standard deviation that a member predicts: (n,) each.

        No rule can deny what holds nothing: that a unit is ever allowed must have been said.
        """
        parts = list(list(self.members.values())[m].predictive(u, contexts))
        if empty.any() and not self._allowed[u] and not self._degrees[m]:
            parts[:2] = [np.where(empty, np.minimum(part, 0.5), part) for part in parts[:2]]
        return parts

    def _predictive_all(self, m: int, contexts: Floats, empty: Bools) -> Floats:
        """Return what `_predictive` does, of all units at once: (4, U, n)."""
        parts: Floats = np.empty((4, self.units, len(contexts)))
        parts[:] = list(self.members.values())[m].predictive_all(contexts)
        if empty.any() and not self._degrees[m]:
            for u in np.flatnonzero(self._allowed == 0):
                parts[:2, u, empty] = np.minimum(parts[:2, u, empty], 0.5)
        return parts

    def _mixed_unit(self, u: int, parts: Floats, contexts: Floats) -> Prediction:
        """Mix what members predict of one unit, (M, 4, n)."""
        stacked = np.ascontiguousarray(parts.transpose(1, 0, 2)[:, :, None, :])
        rates = np.ascontiguousarray(self._rates[:, u : u + 1])
        here = slice(u, u + 1)
        prediction = self._mixed(
            stacked, rates, self._weights[here], self._counts[here], _places(contexts)
        )
        return Prediction(
            prediction.p[0],
            prediction.safe[0],
            prediction.possible[0],
            prediction.information[0],
            prediction.sd[0],
        )

    def _mixed(
        self,
        parts: Floats,
        rates: Floats,
        weights: Floats,
        counts: Sequence[Mapping[bytes, Sequence[int]]],
        places: Mapping[bytes, list[int]],
    ) -> Prediction:
        """Mix the members; what was denied of this very vector of features lowers it further.

        Things that look alike may differ, so a denial of one does not settle another. But no member
        need have a place for it: rules take a denial that they cannot explain for an error.
        """
        _, _, U, n = parts.shape
        p, information, sd = np.empty((3, U, n))
        P, Q, each, sds = parts
        kernel.mix(
            P,
            Q,
            each,
            sds,
            rates,
            np.ascontiguousarray(weights),
            self._least,
            self._floor,
            p,
            information,
            sd,
        )
        for u, cases in enumerate(counts):
            for case, (yes, no) in cases.items():
                here = places.get(case) if no else None
                if here is not None:
                    had = p[u, here]
                    p[u, here] = np.minimum(
                        had, (yes + PRIOR_ANSWERS * had) / (yes + no + PRIOR_ANSWERS)
                    )
        return Prediction(p, p >= 1.0 - self.doubt, p >= self.doubt, information, sd)

    def _ask(self, row: Floats, u: int, allowed: bool, key: int) -> Floats:
        """Return what each member predicts, (M, 4, 1), and let it learn the answer."""
        folded = [member.fold(row, u, allowed, key) for member in self.members.values()]
        parts = np.array([before for before, _ in folded])
        if not self._allowed[u] and self.holds_nothing(row[None])[0]:
            parts[~self._degrees, :2] = np.minimum(parts[~self._degrees, :2], 0.5)
        for m, (_, changed) in enumerate(folded):
            self._revision[m, changed] += 1
        return parts

    def _weigh_answer(self, row: Floats, u: int, allowed: bool, parts: Floats) -> None:
        """Weigh the members by what each had given to an answer, and count the answer."""
        raw = np.clip(parts[:, 1, 0], self._floor, 1.0 - self._floor)
        yes = np.clip(raw * (1.0 - self._rates[:, u]), self._floor, 1.0 - self._floor)
        chance = (yes if allowed else 1.0 - yes).tolist()
        total = math.fsum((self._weights[u] * chance).tolist())
        self.answers += 1
        if total < self.doubt:
            self.surprised += 1
            if len(self.surprises) < MAX_SURPRISES:
                self.surprises.append(Surprise(self.answers, u, allowed, total))
        self._evidence[u] += [math.log(q) for q in chance]
        kernel.count(self._tallies, u, raw, allowed, self._least, *EXCEPTIONS)
        if self._exact and "logistic" in self.members:
            self._counts[u].setdefault(row.tobytes(), [0, 0])[not allowed] += 1
        if allowed and not self._allowed[u]:
            self._revision[:, u] += 1
        self._allowed[u] += allowed
        self._weigh()

    def _forget(self, u: int) -> None:
        for member in self.members.values():
            member.refit(u, np.empty((0, self.features)), [], [])
        self._evidence[u] = 0.0
        self._allowed[u] = 0
        self._counts[u] = {}
        self._tallies[:, :, u] = 0.0
        self._revision += 1
        kept = [surprise for surprise in self.surprises if surprise.unit != u]
        self.surprised -= len(self.surprises) - len(kept)
        self.surprises = kept
        self._weigh()

    def _derive(self) -> None:
        """Work out what follows from the members, the prior and the doubt, which stay as they are.

        No member is surer than `_least`, and it is well below the doubt: else nothing were safe.
        """
        self._least = min(FLOOR, self.doubt / 10.0)
        self._log_prior: Floats = np.array([math.log(share) for share in self.prior.tolist()])
        every = list(self.members.values())
        self._degrees: Bools = np.array(
            [isinstance(m, LogisticLimits | PooledLimits) for m in every]
        )
        terms = [m.terms for m in self._rules.values() if m.terms is not None]
        self.terms = max(terms, key=len) if terms else None  # with pairs, if any rules have them
        words = [m.undoes for m in every if isinstance(m, RuleLimits)]
        self.undoes = bool(words) and all(words)
        rooms = [m.room for m in every if m.room is not None]
        self.room = min(rooms, default=None)

    def _weigh(self) -> None:
        U, M = self._evidence.shape
        self._weights: Floats = np.empty((U, M))
        self._shared: Floats = np.empty(M)
        kernel.weigh(self._evidence, self._log_prior, DEVIATION, self._weights, self._shared)
        self._rates: Floats = np.empty((M, U))
        kernel.exceptions(self._tallies, EXACT, self._least, *EXCEPTIONS, self._rates)
        self._rates[self._degrees] = 0.0


def _bound_reading(bounds: BoundLimits, unit: int, schema: Schema) -> Reading:
    """Read rules with bounds back: "age under about 16, unsure from 14 to 17"."""
    reading = bounds.describe(unit, schema)
    numbers = {feature.name for feature, _ in schema.numbers}
    unsure: dict[str, None] = {}
    for term in reading.unsure:
        number = _BOUND.match(term)
        # Where a bound lies is left open while it is not known that there is one.
        unsure[number["name"] if number and number["name"] in numbers else term] = None
    unsure = {t: None for t in unsure if t in numbers or not _BOUND.match(t)}
    denied = tuple(_RANGE.sub(r", unsure from \1 to \2", term) for term in reading.denied)
    return replace(reading, denied=denied, unsure=tuple(unsure))


def _places(contexts: Floats) -> dict[bytes, list[int]]:
    """Return where each distinct context stands."""
    out: dict[bytes, list[int]] = {}
    for i, row in enumerate(contexts + 0.0):
        out.setdefault(row.tobytes(), []).append(i)
    return out


def _make_members(
    *,
    arms: int,
    features: int,
    groups: Sequence[Group],
    known: Known | None,
    thresholds: npt.ArrayLike | None,
    unbounded: Sequence[int],
    error: float | None,
    **sampling: Any,
) -> tuple[dict[str, Any], dict[str, float], tuple[str, ...]]:
    """Return the kinds that can serve here, their prior, and sentences: what was left out, why."""
    members: dict[str, Any] = {"allowed": AllAllowed()}
    left_out: list[str] = []
    m, T = how_many(features, thresholds)
    alike: dict[str, Any] = {"arms": arms, "features": features, "groups": groups}
    rules: dict[str, Any] = {**alike, "thresholds": thresholds, "error": error, **sampling}
    if m:
        members["singles"] = RuleLimits(pairs=False, known=_singles_of(known), **rules)
        if T <= MOST_PAIRS:
            members["pairs"] = RuleLimits(pairs=True, known=known, **rules)
        else:
            left_out.append(
                f"Rules with pairs are left out: {m:,} features make {T:,} terms, and "
                f"{MOST_PAIRS:,} is the most. So a limit such as 'not both' is not learned as a "
                "rule."
            )
    else:
        left_out.append(
            "Rules are left out: no feature is a flag, a category or a label that one could deny."
        )
    if columns(features, crosses=False) <= MAX_COLUMNS or len(members) == 1:
        members["logistic"] = LogisticLimits(**alike)
        members["pooled"] = PooledLimits(**alike)
    else:
        left_out.append(
            f"Logistic limits are left out: {features:,} features are more than the "
            f"{MAX_COLUMNS - 1:,} that they take."
        )
    if m == features:
        return members, {name: PRIOR[name] for name in members}, tuple(left_out)
    above = np.array(thresholds, np.float64)
    above[list(unbounded)] = NEVER_HELD
    if error is None:
        left_out.append(
            "Rules with bounds on numbers are left out: they need a declared rate of error."
        )
    elif np.isnan(above).any():
        rules["thresholds"] = above
        members["bounds"] = BoundLimits(known=_singles_of(known), **rules)
    if len(unbounded):
        left_out.append(
            f"Rules set no bounds to {len(unbounded)} numbers without a range: declare low and "
            "high, and they do."
        )
    usual = PRIOR_NUMBERS if "bounds" in members else PRIOR_UNBOUNDED
    return members, {name: usual[name] for name in members}, tuple(left_out)


def _singles_of(known: Known | None) -> dict[int, dict[Term, bool]]:
    """Return the known terms that rules of single features can take in."""
    return {
        unit: {term: denied for term, denied in terms.items() if not isinstance(term, tuple)}
        for unit, terms in (known or {}).items()
    }


WEIGHT = validation.FloatRange(0.0, 1e6, open_low=True)
READERS: dict[str, Callable[[Mapping[str, npt.NDArray[Any]]], Any]] = {
    "singles": RuleLimits.from_state,
    "pairs": RuleLimits.from_state,
    "bounds": BoundLimits.from_state,
    "logistic": LogisticLimits.from_state,
    "pooled": PooledLimits.from_state,
}

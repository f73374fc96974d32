"""How logs of the first form mean `limits="auto"`, and how they ask. Nothing new uses it.

Agents made before settings had a `form` mix their limits as `AutoLimits` does, with members that
may judge in their own way, and ask whenever the best arm that may be allowed is not the best that
surely is. Their logs replay to the same bits for ever, so this stays as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.kernels import doubt as kernel
from bridle.kernels.rulesets import mix_members
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits.base import Beliefs, Prediction
from bridle.limits.logistic import MAX_COLUMNS, LogisticLimits, columns
from bridle.limits.mixture import Surprise
from bridle.limits.rules import (
    DAMAGE,
    MAX_TERMS,
    Group,
    Reading,
    RuleLimits,
    Term,
    check,
    checked_answers,
    doubt_of,
    how_many,
)

__all__ = ["FLOOR", "PRIOR", "AutoLimits", "look_twice"]

MAX_SURPRISES = 1_000
# A kind of more weight than this has won.
WON = 0.9
WEIGHT = validation.FloatRange(0.0, 1e6, open_low=True)


# Prior weights of the kinds, before they are scaled to add up to 1. If they were even, rules of
# single features would soon have .85, and a pair that is 7 % likely to be denied pass for safe.
PRIOR = {"singles": 0.2, "pairs": 0.8, "logistic": 0.02}
# The same where some features are numbers. Rules cannot see those: had they most of the weight, the
# mixture would soon be sure of what it has not looked at, and not ask again.
PRIOR_NUMBERS = {**PRIOR, "logistic": 5.0}
# Up to so many features logistic limits then have crosses, for "not both" of a word and a number.
CROSSES_UP_TO = 24
# A member that knows nothing of errors never gives an answer less than this; or less than the
# declared rate of error, else it would outweigh rules that know of it, as long as none comes.
FLOOR = 0.001

Reader = Callable[[Mapping[str, npt.NDArray[Any]]], Beliefs]
Known = Mapping[int, Mapping[Term, bool]]


class AutoLimits(Beliefs):
    """A mixture of several kinds of limits, by their prequential evidence.

    A kind's evidence is the product of the probabilities that it gave to the answers before they
    came. A wrong kind is confidently wrong, and so is soon outweighed by one that is right. The
    evidence is pooled over units: whether people here think in single features, in pairs or in
    degrees is one question, and each unit's answers bear on it. (A unit apart from the rest costs
    answers, not errors: rules with pairs can say all that single ones can.)

    Doubt is that of the mixture: it is sure only of what all kinds of any weight are sure of.
    Answers to which it had given a probability below `doubt` are counted as surprises: if they
    go on, no kind fits, or the teacher errs.

    Parameters
    ----------
    arms, features, groups, error, chains, sweeps, seed, known, thresholds
        As in `RuleLimits`. Known terms bind the members that are rules.
    doubt : float, optional
        Safe is what is allowed with probability 1 − doubt or more, possible with doubt or more; by
        default as in `RuleLimits`.
    members : mapping from names to limits, optional
        Any `Beliefs` about the same arms and units, untaught; in place of rules of single
        features, rules with pairs, and logistic limits.
    prior : mapping from names to weights, optional
        How much each is believed before the first answer; scaled to add up to 1.

    Examples
    --------
    >>> limits = AutoLimits(arms=1, features=3)
    >>> for context, allowed in ([1, 1, 0], False), ([1, 0, 0], True), ([0, 1, 0], True):
    ...     _ = limits.learn(context, 0, allowed)
    >>> limits.weights()["singles"] < 0.01
    True
    """

    has_sentences = True
    asks_consent = True
    knows_errors = True
    term_size = 2
    winner_judges = WON

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
        known: Mapping[int, Mapping[Term, bool]] | None = None,
        thresholds: npt.ArrayLike | None = None,
        members: Mapping[str, Beliefs] | None = None,
        prior: Mapping[str, float] | None = None,
    ) -> None:
        owner = "AutoLimits"
        self.doubt = doubt_of(doubt, error, owner)
        self.left_out = ()
        usual = PRIOR
        if members is None:
            members, usual, self.left_out = make_members(
                arms=arms,
                features=features,
                groups=groups,
                known=known,
                thresholds=thresholds,
                error=error,
                doubt=doubt,
                chains=chains,
                sweeps=sweeps,
                seed=seed,
            )
        self.members: dict[str, Beliefs] = checked(members, arms, features)
        given = {**dict.fromkeys(self.members, 0.5), **usual} if prior is None else dict(prior)
        if not set(self.members) <= set(given):
            raise InvalidValue("prior", owner, f"a weight for each of {list(self.members)}", prior)
        raw = [WEIGHT.check(given[name], "prior", owner) for name in self.members]
        self.prior: Floats = np.array(raw) / math.fsum(raw)
        self._first: Beliefs = next(iter(self.members.values()))
        rules = [m for m in self.members.values() if isinstance(m, RuleLimits)]
        self.terms = max((m.terms for m in rules), key=len, default=None)
        self.undoes = bool(rules) and all(m.undoes for m in rules)
        self.room = min((m.room for m in self.members.values() if m.room is not None), default=None)
        self._floor = max(member.floor for member in self.members.values())
        # Of members that do not count it themselves.
        self._evidence: Floats = np.zeros((len(self.members), self.units))
        self.answers = 0
        self.surprised = 0
        self.surprises: list[Surprise] = []
        self._weigh()

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return self._first.arms

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return self._first.features

    @property
    def units(self) -> int:
        """Number of units, U."""
        return self._first.units

    @property
    def unit_of(self) -> Ints:
        """The unit of each arm: (K,)."""
        return self._first.unit_of

    @property
    def noisy(self) -> bool:
        """Whether the teacher seems to err so often that one answer is not the truth."""
        says = [bool(getattr(member, "noisy", False)) for member in self.members.values()]
        return math.fsum(self._weights[says]) > 0.5

    @property
    def log_evidence(self) -> float:
        """Log of the probability that was given to the answers before they came."""
        totals = np.log(self.prior) + self._totals()
        return float(totals.max() + math.log(math.fsum(np.exp(totals - totals.max()))))

    def weights(self, unit: int | None = None) -> dict[str, float]:
        """How much each kind is believed by now, the same for all units; they add up to 1."""
        return dict(zip(self.members, self._weights.tolist(), strict=True))

    def exceptions(self, unit: int) -> dict[str, float]:
        """What the members of the first form know nothing of: none."""
        return dict.fromkeys(self.members, 0.0)

    def by_degrees(self, unit: int) -> bool:
        """Whether logistic limits have won, which no sentence can say."""
        return self.weights().get("logistic", 0.0) > WON

    def holds_nothing(self, contexts: Floats) -> Bools:
        """Return which contexts hold nothing that its rules could deny: (n,)."""
        for member in self.members.values():
            if member.asks_consent:
                return member.holds_nothing(contexts)
        return np.zeros(len(contexts), np.bool_)

    def check_room(self, unit: int, more: int) -> None:
        """Raise `LimitReached` if so many answers more could be more than a unit can hold."""
        for member in self.members.values():
            member.check_room(unit, more)

    def noise(self, p: float) -> float:
        """Return how far a belief of p moves by chance: the members' noise, by their weight."""
        weights = self.weights()
        return math.fsum(weights[name] * m.noise(p) for name, m in self.members.items())

    def refit_seconds(self, n: int) -> float:
        """Return how long a refit with n answers takes: that of all members."""
        return math.fsum(member.refit_seconds(n) for member in self.members.values())

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; return the units whose belief changed: all.

        The weights of the kinds are those of all units.
        """
        owner = "AutoLimits.learn"
        row = validation.vector(context, self.features, "context", owner)
        k = validation.IntRange(0, self.arms - 1).check(arm, "arm", owner)
        answer = validation.truth(allowed, "allowed", owner)
        self._fold(row, k, answer, validation.SEED.check(key, "key", owner))
        return np.arange(self.units)

    def refit(
        self, unit: int, contexts: npt.ArrayLike, allowed: npt.ArrayLike, keys: npt.ArrayLike
    ) -> Ints:
        """Forget a unit's answers and fold these, in order: what a retraction leaves.

        Its surprises are counted anew, at the weights that the other units' answers give now.
        """
        owner = "AutoLimits.refit"
        u = validation.IntRange(0, self.units - 1).check(unit, "unit", owner)
        C, answers, bits = checked_answers(contexts, allowed, keys, self.features, owner)
        self._forget(u)
        arm = int(np.flatnonzero(self.unit_of == u)[0])
        for row, answer, key in zip(C, answers, bits, strict=True):
            self._fold(row, arm, answer, key)
        return np.arange(self.units)

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of a unit in each of n contexts, (n, d)."""
        C = validation.matrix(contexts, self.features, "contexts", "AutoLimits.predict")
        u = validation.IntRange(0, self.units - 1).check(unit, "unit", "AutoLimits.predict")
        # A kind of no weight left has no say, and need not be asked.
        weighed = [
            (m, w) for m, w in zip(self.members.values(), self._weights, strict=True) if w > 0
        ]
        predictions = [member.predict(u, C) for member, _ in weighed]
        Q = [
            answer_probability(m, u, C, self._floor, x)
            for (m, _), x in zip(weighed, predictions, strict=True)
        ]
        return self._mixed(predictions, Q, weighed)

    def predict_all(self, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of all units: (U, n), the bits of `predict` unit by unit."""
        C = validation.matrix(contexts, self.features, "contexts", "AutoLimits.predict_all")
        weighed = [
            (m, w) for m, w in zip(self.members.values(), self._weights, strict=True) if w > 0
        ]
        predictions, Q = [], []
        for member, _ in weighed:
            if member.knows_errors:
                p, q, information, sd = member.predictive_all(C)
                prediction = Prediction(p, p >= 1.0 - self.doubt, p >= self.doubt, information, sd)
            else:
                prediction = member.predict_all(C)
                q = np.clip(prediction.p, self._floor, 1.0 - self._floor)
            predictions.append(prediction)
            Q.append(q)
        return self._mixed(predictions, Q, weighed)

    def predict_answer(self, unit: int, contexts: npt.ArrayLike) -> Floats:
        """Return the probability that the teacher, who may err, says "allowed": (n,)."""
        C = validation.matrix(contexts, self.features, "contexts", "AutoLimits.predict_answer")
        each = np.array(
            [answer_probability(m, unit, C, self._floor) for m in self.members.values()]
        )
        return np.array([math.fsum(self._weights * column) for column in each.T])

    def describe(self, unit: int, names: Sequence[str]) -> Reading:
        """Read a unit's rule back, in the names of the columns of a context.

        It is what the members that are rules believe, weighed among themselves. As in `RuleLimits`
        a pair is left out where one of its features is denied.
        """
        rules = {i: m for i, m in enumerate(self.members.values()) if isinstance(m, RuleLimits)}
        if not rules:
            raise NotPossible(
                "No rule can be read back: these limits have no rules among their members. "
                "Declare features as flags, categories or labels."
            )
        totals = (np.log(self.prior) + self._totals())[list(rules)]
        weights = np.exp(totals - totals.max())
        words: dict[Term, str] = {}
        chance: dict[Term, float] = {}
        for weight, member in zip(weights / math.fsum(weights), rules.values(), strict=True):
            every = member.terms.all()
            words |= zip(every, member.terms.names(names), strict=True)
            for term, p in zip(every, (weight * member.marginals(unit)).tolist(), strict=True):
                # In a rule of single features a pair is not denied for its own sake.
                chance[term] = chance.get(term, 0.0) + p
        words = dict(sorted(words.items(), key=lambda each: isinstance(each[0], tuple)))
        return Reading.of(words, chance, self.doubt)

    def set_known(self, unit: int, terms: Mapping[Term, bool]) -> None:
        """Replace what is known for certain of a unit; it binds the members that are rules.

        Rules of single features ignore pairs. The unit's answers are forgotten, by all members:
        they were weighed by what was known before. Give those that stand to `refit`.
        """
        u = validation.IntRange(0, self.units - 1).check(unit, "unit", "AutoLimits.set_known")
        if not isinstance(terms, Mapping):
            raise InvalidValue(
                "terms", "AutoLimits.set_known", "a mapping from terms to True or False", terms
            )
        alone = singles_of({u: terms})[u]
        rules = [member for member in self.members.values() if isinstance(member, RuleLimits)]
        given = [(member, terms if member.terms.pairs else alone) for member in rules]
        for member, known in given:
            member.terms.known(known)  # refuses them before anything has changed
        self._forget(u)
        for member, known in given:
            member.set_known(u, known)

    def grow(self, arms: int = 1, groups: Sequence[Group] | None = None) -> None:
        """Add arms, after the others; one in a known group starts with what the group knows."""
        for member in self.members.values():
            member.grow(arms, groups)
        more = np.zeros((len(self.members), self.units - self._evidence.shape[1]))
        self._evidence = np.concatenate([self._evidence, more], axis=1)

    def copy(self) -> AutoLimits:
        """Return limits with the same knowledge that learn apart from now on."""
        twin = object.__new__(AutoLimits)
        twin.__dict__.update(self.__dict__)
        twin.members = {name: member.copy() for name, member in self.members.items()}
        twin._first = next(iter(twin.members.values()))
        twin._evidence = self._evidence.copy()
        twin.surprises = list(self.surprises)
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays; those of a member follow its name, a slash."""
        seen = [(s.answer, s.unit, s.allowed) for s in self.surprises]
        state: dict[str, npt.NDArray[Any]] = {
            "members": np.array(list(self.members)),
            "prior": self.prior.copy(),
            "doubt": np.array(self.doubt),
            "left_out": np.array(self.left_out, np.str_),
            "evidence": self._evidence.copy(),
            "counts": np.array([self.answers, self.surprised]),
            "surprises": np.array(seen, np.int64).reshape(-1, 3),
            "surprise": np.array([s.probability for s in self.surprises], np.float64),
        }
        for name, member in self.members.items():
            state |= {f"{name}/{key}": array for key, array in member.to_state().items()}
        return state

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, npt.NDArray[Any]],
        readers: Mapping[str, Reader] | None = None,
    ) -> Self:
        """Return limits as they were at `to_state`; `readers` by name, for members of your own."""
        if not isinstance(state, Mapping):
            raise CorruptState(f"AutoLimits needs named arrays, not {state!r:.200}.")
        try:
            return cls._read(dict(state), {**known_readers(), **(readers or {})})
        except DAMAGE as error:
            raise CorruptState(f"AutoLimits: the state is damaged: {error}") from None

    @classmethod
    def _read(cls, rest: dict[str, npt.NDArray[Any]], readers: Mapping[str, Reader]) -> Self:
        members: dict[str, Beliefs] = {}
        for name in rest.pop("members").tolist():
            head = f"{name}/"
            own = {key: array for key, array in rest.items() if key.startswith(head)}
            members[name] = readers[name]({k.removeprefix(head): a for k, a in own.items()})
            rest = {key: array for key, array in rest.items() if key not in own}
        first = next(iter(members.values()))
        prior, doubt = rest.pop("prior"), float(rest.pop("doubt"))
        check(prior, np.float64, (len(members),), "prior", "AutoLimits")
        self = cls(
            arms=first.arms,
            features=first.features,
            members=members,
            prior=dict(zip(members, prior.tolist(), strict=True)),
            doubt=doubt,
        )
        self.prior = prior.copy()  # scaled once, not twice
        self.left_out = tuple(map(str, rest.pop("left_out").tolist()))
        evidence, probability = rest.pop("evidence"), rest.pop("surprise")
        check(evidence, np.float64, self._evidence.shape, "evidence", "AutoLimits")
        self._evidence = evidence.copy()
        counts, seen = rest.pop("counts"), rest.pop("surprises")
        check(counts, np.int64, (2,), "counts", "AutoLimits")
        n = min(len(seen), MAX_SURPRISES)
        check(seen, np.int64, (n, 3), "surprises", "AutoLimits")
        check(probability, np.float64, (n,), "surprise", "AutoLimits")
        finite = np.isfinite(evidence).all() and np.isfinite(probability).all()
        if not finite or counts.min() < 0 or (seen < 0).any() or (seen[:, 1] >= self.units).any():
            raise CorruptState("AutoLimits: a count, a unit or a number is none that can be.")
        self.answers, self.surprised = counts.tolist()
        rows = seen.tolist()
        self.surprises = [
            Surprise(answer, unit, bool(allowed), q)
            for (answer, unit, allowed), q in zip(rows, probability.tolist(), strict=True)
        ]
        if rest:
            raise CorruptState(f"AutoLimits: there is no place for the arrays {sorted(rest)}.")
        self._weigh()
        return self

    def _fold(self, row: Floats, arm: int, allowed: bool, key: int) -> None:
        u = int(self.unit_of[arm])
        each = self.members.values()
        yes = [
            q if member.knows_errors else min(max(q, self._floor), 1.0 - self._floor)
            for member, q in (
                (member, float(member.fold(row, u, allowed, key)[0][1][0])) for member in each
            )
        ]
        chance = yes if allowed else [1.0 - q for q in yes]
        total = math.fsum(w * q for w, q in zip(self._weights.tolist(), chance, strict=True))
        self.answers += 1
        if total < self.doubt:
            self.surprised += 1
            if len(self.surprises) < MAX_SURPRISES:
                self.surprises.append(Surprise(self.answers, u, allowed, total))
        self._evidence[:, u] += [math.log(q) for q in chance]
        self._weigh()

    def _forget(self, u: int) -> None:
        for name, member in self.members.items():
            if member.finds_groups:  # a unit's answers alone cannot be taken out of these
                raise NotPossible(f"The limits {name!r} cannot forget. Leave them out of members.")
        for member in self.members.values():
            member.refit(u, np.empty((0, self.features)), [], [])
        self._evidence[:, u] = 0.0
        kept = [surprise for surprise in self.surprises if surprise.unit != u]
        self.surprised -= len(self.surprises) - len(kept)
        self.surprises = kept
        self._weigh()

    def _mixed(
        self,
        predictions: list[Prediction],
        Q: list[Floats],
        weighed: Sequence[tuple[Beliefs, float]],
    ) -> Prediction:
        """Mix what members believe in the same contexts, of one unit or of all.

        Limits by degrees hardly ever give an arm .99. Where they have won, what is safe, or not
        possible, is for them to judge in their own way.
        """
        shape, M = predictions[0].p.shape, len(predictions)
        P, info, sds = (
            np.array([getattr(prediction, name) for prediction in predictions]).reshape(M, -1)
            for name in ("p", "information", "sd")
        )
        p, information, sd = np.empty((3, P.shape[1]))
        answers = np.array(Q).reshape(M, -1)
        mix_members(P, answers, info, sds, np.array([w for _, w in weighed]), p, information, sd)
        p, information, sd = (array.reshape(shape) for array in (p, information, sd))
        sure, maybe = p.copy(), p.copy()
        for prediction, (member, w) in zip(predictions, weighed, strict=True):
            if w > WON and not member.knows_errors:
                sure[prediction.safe] += w * (1.0 - prediction.p[prediction.safe])
                maybe[~prediction.possible] -= w * prediction.p[~prediction.possible]
        return Prediction(p, sure >= 1.0 - self.doubt, maybe >= self.doubt, information, sd)

    def _totals(self) -> Floats:
        each = zip(self.members.values(), self._evidence, strict=True)
        return np.array([getattr(member, "log_evidence", math.fsum(row)) for member, row in each])

    def _weigh(self) -> None:
        totals = np.log(self.prior) + self._totals()
        weights = np.exp(totals - totals.max())
        self._weights: Floats = weights / math.fsum(weights)


def make_members(
    *,
    arms: int,
    features: int,
    groups: Sequence[Group] | None,
    known: Known | None,
    thresholds: npt.ArrayLike | None,
    **sampling: Any,
) -> tuple[dict[str, Beliefs], dict[str, float], tuple[str, ...]]:
    """Return the kinds that can serve here, their prior, and what was left out, and why."""
    members: dict[str, Beliefs] = {}
    left_out: list[str] = []
    m, T = how_many(features, thresholds)
    for name, pairs in (("singles", False), ("pairs", True)):
        if not m or (pairs and T > MAX_TERMS):
            continue
        terms = known if pairs else singles_of(known)
        rules = RuleLimits(
            arms=arms,
            features=features,
            groups=groups,
            pairs=pairs,
            known=terms,
            thresholds=thresholds,
            **sampling,
        )
        members[name], groups = rules, rules.groups
    if not m:
        left_out.append(
            "Rules are left out: no feature is a flag, a category or a label that one could deny."
        )
    elif T > MAX_TERMS:
        left_out.append(
            f"Rules with pairs are left out: {m:,} features make {T:,} terms, and {MAX_TERMS:,} "
            "is the most. So a limit such as 'not both' is not learned as a rule."
        )
    if columns(features, crosses=False) <= MAX_COLUMNS or not members:
        members["logistic"] = LogisticLimits(
            arms=arms,
            features=features,
            groups=groups,
            crosses=m < features <= CROSSES_UP_TO,
        )
    else:
        left_out.append(
            f"Logistic limits are left out: {features:,} features are more than the "
            f"{MAX_COLUMNS - 1:,} that they take."
        )
    return members, PRIOR_NUMBERS if m < features else PRIOR, tuple(left_out)


def singles_of(known: Known | None) -> dict[int, dict[Term, bool]]:
    """Return the known terms that rules of single features can take in."""
    return {
        unit: {term: denied for term, denied in terms.items() if not isinstance(term, tuple)}
        for unit, terms in (known or {}).items()
    }


def answer_probability(
    member: Beliefs, unit: int, contexts: Floats, floor: float, prediction: Prediction | None = None
) -> Floats:
    """P(the teacher says allowed) by one member; what it believes itself, if it has no errors."""
    if member.knows_errors:
        return member.predict_answer(unit, contexts)
    p = member.predict(unit, contexts).p if prediction is None else prediction.p
    return np.clip(p, floor, 1.0 - floor)


def known_readers() -> dict[str, Reader]:
    """How the default members are read back from their states."""
    return {
        "singles": RuleLimits.from_state,
        "pairs": RuleLimits.from_state,
        "logistic": LogisticLimits.from_state,
    }


def checked(members: Mapping[str, Beliefs], arms: int, features: int) -> dict[str, Beliefs]:
    """Return members that go together, or raise `InvalidValue`."""
    wanted = "a mapping from names to limits about the same arms, features and units"
    good = isinstance(members, Mapping) and len(members) > 0
    if not good or not all(isinstance(m, Beliefs) for m in members.values()):
        raise InvalidValue("members", "AutoLimits", wanted, members)
    unit_of = next(iter(members.values())).unit_of
    for name, member in members.items():
        validation.text(name, "members", "AutoLimits", 50)
        same = (member.arms, member.features) == (arms, features)
        if "/" in name or not same or not np.array_equal(member.unit_of, unit_of):
            raise InvalidValue("members", "AutoLimits", wanted, name)
    return dict(members)


def look_twice(
    weights: Floats,
    parts: Floats,
    marks: npt.NDArray[np.int8],
    p: Floats,
    said: npt.NDArray[np.int8],
    taken: npt.NDArray[np.bool_] | None,
    start: np.uint64,
    number: np.uint64,
    look: int,
) -> tuple[int, int, npt.NDArray[np.int8]]:
    """Return the best safe arm, the best possible arm, and what was believed of each to find them.

    taken: arms that another decision has asked about here. Where nothing is left, what is rather
    allowed than not counts as possible.
    """
    every, now = np.arange(len(said)), marks
    for lift in (False, True):
        if lift:
            now = kernel.lifted(marks, p)
        if taken is not None:
            now = np.where(taken & (now == kernel.UNSURE), kernel.DENIED, now).astype(np.int8)
        safe, wanted = kernel.look_at(weights, parts, now, said, every, start, number, look)
        if wanted >= 0:
            break
    return safe, wanted, now

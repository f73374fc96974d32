"""`auto`: several kinds of limits, weighed by how well each foretold the teacher's answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.kernels.rulesets import mix_members
from bridle.kernels.types import Floats, Ints
from bridle.limits.base import Beliefs, Look
from bridle.limits.logistic import LogisticLimits
from bridle.limits.rulesets import RuleLimits, doubt_of
from bridle.limits.ruleunits import Group
from bridle.limits.terms import Term

__all__ = ["AutoLimits", "Surprise"]

# Prior weights of the kinds, before they are scaled to add up to 1. If they were even, rules of
# single features would soon have .85, and a pair that is 7 % likely to be denied pass for safe.
PRIOR = {"singles": 0.2, "pairs": 0.8, "logistic": 0.02}
# A member that knows nothing of errors never gives an answer less than this.
FLOOR = 0.001
MAX_SURPRISES = 1_000
WEIGHT = validate.FloatRange(0.0, 1e6, open_low=True)

Reader = Callable[[Mapping[str, npt.NDArray[Any]]], Beliefs]


@dataclass(frozen=True)
class Surprise:
    """An answer that the mixture was sure would not come."""

    answer: int  # its number, counted from 1
    unit: int
    allowed: bool
    probability: float  # that was given to it


class AutoLimits:
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
        if members is None:
            rules = {
                name: RuleLimits(
                    arms=arms, features=features, groups=groups, pairs=pairs, error=error,
                    doubt=doubt, chains=chains, sweeps=sweeps, seed=seed, thresholds=thresholds,
                    known=_singles(known) if name == "singles" else known,
                )
                for name, pairs in (("singles", False), ("pairs", True))
            }  # fmt: skip
            units = next(iter(rules.values())).groups
            logistic = LogisticLimits(arms=arms, features=features, groups=units)
            members = {**rules, "logistic": logistic}
        self.members: dict[str, Beliefs] = _checked(members, arms, features)
        given = {**dict.fromkeys(self.members, 0.5), **PRIOR} if prior is None else dict(prior)
        if not set(self.members) <= set(given):
            raise InvalidValue("prior", owner, f"a weight for each of {list(self.members)}", prior)
        raw = [WEIGHT.check(given[name], "prior", owner) for name in self.members]
        self.prior: Floats = np.array(raw) / math.fsum(raw)
        self._first: Beliefs = next(iter(self.members.values()))
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

    def weights(self) -> dict[str, float]:
        """How much each kind is believed by now; they add up to 1."""
        return dict(zip(self.members, self._weights.tolist(), strict=True))

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; give the units whose belief changed: all.

        The weights of the kinds are those of all units.
        """
        owner = "AutoLimits.learn"
        row = validate.vector(context, self.features, "context", owner)
        k = validate.IntRange(0, self.arms - 1).check(arm, "arm", owner)
        answer = validate.truth(allowed, "allowed", owner)
        self._fold(row, k, answer, validate.SEED.check(key, "key", owner))
        return np.arange(self.units)

    def relearn(
        self, unit: int, contexts: npt.ArrayLike, allowed: npt.ArrayLike, keys: npt.ArrayLike
    ) -> Ints:
        """Forget a unit's answers and fold these, in order: what a retraction leaves.

        Its surprises are counted anew, at the weights that the other units' answers give now.
        """
        owner = "AutoLimits.relearn"
        u = validate.IntRange(0, self.units - 1).check(unit, "unit", owner)
        C = validate.matrix(contexts, self.features, "contexts", owner)
        answers = validate.truths(allowed, len(C), "allowed", owner).tolist()
        given = validate.arrays(keys, "keys", owner, f"{len(C)} keys").tolist()
        if not isinstance(given, list) or len(given) != len(C):
            raise InvalidValue("keys", owner, f"{len(C)} keys", keys)
        bits = [validate.SEED.check(key, "keys", owner) for key in given]
        for name, member in self.members.items():
            if not hasattr(member, "relearn"):
                raise NotPossible(f"The limits {name!r} cannot forget. Leave them out of members.")
        for member in self.members.values():
            sampling = isinstance(member, RuleLimits | AutoLimits)  # and so keyed
            nothing: tuple[Any, ...] = (np.empty((0, self.features)), [], [])[: 2 + sampling]
            getattr(member, "relearn")(u, *nothing)  # noqa: B009 (not in the protocol)
        self._evidence[:, u] = 0.0
        kept = [surprise for surprise in self.surprises if surprise.unit != u]
        self.surprised -= len(self.surprises) - len(kept)
        self.surprises = kept
        self._weigh()
        arm = int(np.flatnonzero(self.unit_of == u)[0])
        for row, answer, key in zip(C, answers, bits, strict=True):
            self._fold(row, arm, answer, key)
        return np.arange(self.units)

    def look(self, unit: int, contexts: npt.ArrayLike) -> Look:
        """Say what is believed of a unit in each of n contexts, (n, d)."""
        C = validate.matrix(contexts, self.features, "contexts", "AutoLimits.look")
        u = validate.IntRange(0, self.units - 1).check(unit, "unit", "AutoLimits.look")
        # A kind of no weight left has no say, and need not be asked.
        heard = [(m, w) for m, w in zip(self.members.values(), self._weights, strict=True) if w > 0]
        looks = [member.look(u, C) for member, _ in heard]
        P = np.array([look.p for look in looks])
        Q = np.array([_said(m, u, C, x) for (m, _), x in zip(heard, looks, strict=True)])
        info = np.array([look.information for look in looks])
        p, information = np.empty((2, len(C)))
        mix_members(P, Q, info, np.array([w for _, w in heard]), p, information)
        return Look(p, p >= 1.0 - self.doubt, p >= self.doubt, information)

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Floats:
        """Give the probability that the teacher, who may err, says "allowed": (n,)."""
        C = validate.matrix(contexts, self.features, "contexts", "AutoLimits.predict")
        each = np.array([_said(m, unit, C, None) for m in self.members.values()])
        return np.array([math.fsum(self._weights * column) for column in each.T])

    def grow(self, arms: int = 1, groups: Sequence[Group] | None = None) -> None:
        """Add arms, after the others; one in a known group starts with what the group knows."""
        for name, member in self.members.items():
            if not hasattr(member, "grow"):
                raise NotPossible(f"The limits {name!r} cannot grow. Leave them out of members.")
        for member in self.members.values():
            getattr(member, "grow")(arms, groups)  # noqa: B009 (not in the protocol)
        more = np.zeros((len(self.members), self.units - self._evidence.shape[1]))
        self._evidence = np.concatenate([self._evidence, more], axis=1)

    def copy(self) -> AutoLimits:
        """Limits with the same knowledge that learn apart from now on."""
        twin = object.__new__(AutoLimits)
        twin.__dict__.update(self.__dict__)
        twin.members = {name: member.copy() for name, member in self.members.items()}
        twin._first = next(iter(twin.members.values()))
        twin._evidence = self._evidence.copy()
        twin.surprises = list(self.surprises)
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that is known, as named arrays; those of a member follow its name and a slash."""
        seen = [(s.answer, s.unit, s.allowed) for s in self.surprises]
        state: dict[str, npt.NDArray[Any]] = {
            "members": np.array(list(self.members)),
            "prior": self.prior.copy(),
            "doubt": np.array(self.doubt),
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
        """Limits as they were at `to_state`; `readers` by name, for members of your own."""
        if not isinstance(state, Mapping):
            raise CorruptState(f"AutoLimits needs named arrays, not {state!r:.200}.")
        try:
            return cls._read(dict(state), {**_readers(), **(readers or {})})
        except (
            KeyError,
            ValueError,
            TypeError,
            IndexError,
            AttributeError,
            StopIteration,
        ) as error:
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
        self = cls(
            arms=first.arms,
            features=first.features,
            members=members,
            prior=dict(zip(members, prior.tolist(), strict=True)),
            doubt=doubt,
        )
        self.prior = prior.copy()  # scaled once, not twice
        evidence, probability = rest.pop("evidence"), rest.pop("surprise")
        if evidence.shape != self._evidence.shape or not np.isfinite(evidence).all():
            raise CorruptState("AutoLimits: 'evidence' is not a finite number a member and unit.")
        self._evidence = evidence.copy()
        self.answers, self.surprised = rest.pop("counts").tolist()
        rows = rest.pop("surprises").tolist()
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
        said = [float(_said(m, u, row[None], None)[0]) for m in self.members.values()]
        chance = said if allowed else [1.0 - q for q in said]
        total = math.fsum(w * q for w, q in zip(self._weights.tolist(), chance, strict=True))
        self.answers += 1
        if total < self.doubt:
            self.surprised += 1
            if len(self.surprises) < MAX_SURPRISES:
                self.surprises.append(Surprise(self.answers, u, allowed, total))
        for m, member in enumerate(self.members.values()):
            self._evidence[m, u] += math.log(chance[m])
            member.learn(row, arm, allowed, key)
        self._weigh()

    def _totals(self) -> Floats:
        each = zip(self.members.values(), self._evidence, strict=True)
        return np.array([getattr(member, "log_evidence", math.fsum(row)) for member, row in each])

    def _weigh(self) -> None:
        totals = np.log(self.prior) + self._totals()
        weights = np.exp(totals - totals.max())
        self._weights: Floats = weights / math.fsum(weights)


def _said(member: Beliefs, unit: int, contexts: Floats, look: Look | None) -> Floats:
    """P(the teacher says allowed) by one member; what it believes itself, if it has no errors."""
    if isinstance(member, RuleLimits | AutoLimits):
        return member.predict(unit, contexts)
    p = member.look(unit, contexts).p if look is None else look.p
    return np.clip(p, FLOOR, 1.0 - FLOOR)


def _singles(known: Mapping[int, Mapping[Term, bool]] | None) -> dict[int, dict[Term, bool]]:
    """Give the known terms that rules of single features can take in."""
    return {
        unit: {term: denied for term, denied in terms.items() if not isinstance(term, tuple)}
        for unit, terms in (known or {}).items()
    }


def _readers() -> dict[str, Reader]:
    return {
        "singles": RuleLimits.from_state,
        "pairs": RuleLimits.from_state,
        "logistic": LogisticLimits.from_state,
    }


def _checked(members: Mapping[str, Beliefs], arms: int, features: int) -> dict[str, Beliefs]:
    wanted = "a mapping from names to limits about the same arms, features and units"
    good = isinstance(members, Mapping) and len(members) > 0
    if not good or not all(isinstance(m, Beliefs) for m in members.values()):
        raise InvalidValue("members", "AutoLimits", wanted, members)
    unit_of = next(iter(members.values())).unit_of
    for name, member in members.items():
        validate.text(name, "members", "AutoLimits", 50)
        same = (member.arms, member.features) == (arms, features)
        if "/" in name or not same or not np.array_equal(member.unit_of, unit_of):
            raise InvalidValue("members", "AutoLimits", wanted, name)
    return dict(members)

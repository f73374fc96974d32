"""What each feature of a context gave to what is expected and believed of an arm in it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from bridle.agent.config import ArmId, ItemId
from bridle.agent.limits_state import Example
from bridle.agent.state import AgentState
from bridle.kernels import keys, rulesets
from bridle.kernels.types import Floats
from bridle.limits import (
    AutoLimits,
    Beliefs,
    BoundLimits,
    FoundLimits,
    LinearLimits,
    LogisticLimits,
    Mixed,
    PooledLimits,
    Refits,
    RuleLimits,
)
from bridle.limits.declared import denied_arms
from bridle.limits.legacy import WON, floor_of
from bridle.limits.logistic import expand
from bridle.limits.mixture import AllAllowed, predictive
from bridle.limits.rules import MAX_SAMPLED
from bridle.reward.base import scores_of
from bridle.reward.posterior import LinearArms
from bridle.schema import Number, Schema

__all__ = [
    "Contributions",
    "Influence",
    "Influences",
    "Share",
    "influences_of",
    "limit_shares",
    "reward_shares",
]


@dataclass(frozen=True, slots=True)
class Share:
    """What one feature, or two together, gave."""

    feature: str  # the column's name; "a & b" of two
    value: float  # as encoded
    gave: float


@dataclass(frozen=True, slots=True)
class Contributions:
    """What each feature gave to one part of an arm's score. Those that are 0 gave nothing.

    Attributes
    ----------
    arm : arm id
    part : {"reward", "constraint"}
    unit : {"reward", "label", "log-odds", "change of the probability"}
        What the numbers are. The first three add up: `base` and what was given make `total`. The
        reward is in [0, 1] units, the label is that of linear limits, the log-odds are those of
        "allowed" by the likeliest weights. The last does not add up: it is how much lower
        P(allowed), the total, would be without the feature: a flag or word that is not held, a
        number at what the schema takes if it is missing (or else at 0).
    total : float
        What all of them make.
    base : float or None
        What is there before any feature.
    shares : tuple of Share
    """

    arm: ArmId
    part: str
    unit: str
    total: float
    base: float | None
    shares: tuple[Share, ...]


def reward_shares(know: AgentState, row: Floats, k: int) -> Contributions:
    """Return what each feature gave to the mean reward of an arm."""
    if not isinstance(know.reward_model, LinearArms):
        return _moved(know, row, k)
    post = know.reward_arms.kernel_state
    weights, base = post.mu[k], 0.0
    if know.centred:
        # The posterior mean of the weights where that of the intercept, before any reward, is the
        # mean of all rewards.
        weights = weights + know.pull * post.A[k, -1]
        base = float(weights[-1])
    return _linear(know, row, k, "reward", "reward", weights, base)


def limit_shares(know: AgentState, row: Floats, k: int) -> Contributions:
    """Say what each feature gave to what is believed of an arm's limits."""
    limits = know.limits_state.limits
    if isinstance(limits, LinearLimits):
        weights = limits.linear.kernel_state.mu[k]
        return _linear(know, row, k, "constraint", "label", weights, 0.0)
    unit = int(know.limits_state.unit_of[k])
    if isinstance(limits, LogisticLimits):
        return _log_odds(know, limits, row, k, unit)
    return _left_out(know, limits, row, k, unit)


def _linear(
    know: AgentState, row: Floats, k: int, part: str, unit: str, weights: Floats, base: float
) -> Contributions:
    names = know.settings.features.columns
    shares = tuple(
        Share(names[i], float(row[i]), float(row[i] * weights[i]))
        for i in np.flatnonzero(row).tolist()
    )
    total = math.fsum([base, *(share.gave for share in shares)])
    return Contributions(know.arm_ids[k], part, unit, total, base, shares)


def _moved(know: AgentState, row: Floats, k: int) -> Contributions:
    """Return how much lower the mean reward would be without each feature: of others' models."""
    absent = _absent(know.settings.features)
    there = np.flatnonzero(row != absent)
    rows: Floats = np.tile(row, (len(there) + 1, 1))
    rows[np.arange(len(there)) + 1, there] = absent[there]
    mean = [float(scores_of(know.reward_model, one)[0][k]) for one in rows]
    names = know.settings.features.columns
    shares = tuple(
        Share(names[i], float(row[i]), mean[0] - without)
        for i, without in zip(there.tolist(), mean[1:], strict=True)
    )
    return Contributions(know.arm_ids[k], "reward", "change of the reward", mean[0], None, shares)


def _log_odds(
    know: AgentState, limits: LogisticLimits, row: Floats, k: int, unit: int
) -> Contributions:
    features = know.settings.features.columns
    d = len(features)
    weights, _ = limits.weights(unit)
    x = expand(row[None], limits.crosses)[0]
    names = [*features, ""]
    if limits.crosses:
        names += [f"{features[i]} & {features[j]}" for i in range(d) for j in range(i + 1, d)]
    shares = tuple(
        Share(names[i], float(x[i]), float(x[i] * weights[i]))
        for i in np.flatnonzero(x).tolist()
        if i != d
    )
    base = float(weights[d])
    total = math.fsum([base, *(share.gave for share in shares)])
    return Contributions(know.arm_ids[k], "constraint", "log-odds", total, base, shares)


def _left_out(know: AgentState, limits: Beliefs, row: Floats, k: int, unit: int) -> Contributions:
    absent = _absent(know.settings.features)
    there = np.flatnonzero(row != absent)
    rows: Floats = np.tile(row, (len(there) + 1, 1))
    rows[np.arange(len(there)) + 1, there] = absent[there]
    p = limits.predict(unit, rows).p.tolist()
    names = know.settings.features.columns
    shares = tuple(
        Share(names[i], float(row[i]), p[0] - without)
        for i, without in zip(there.tolist(), p[1:], strict=True)
    )
    unit_name = "change of the probability"
    return Contributions(know.arm_ids[k], "constraint", unit_name, p[0], None, shares)


def _absent(schema: Schema) -> Floats:
    """Give each column's value where its feature is not there."""
    out = np.zeros(schema.width)
    for feature in schema.features:
        if isinstance(feature, Number) and feature.missing is not None:
            out[schema.place(feature.name)[1]] = feature.scale(feature.missing)
    return out


# --- The examples that what is believed of an arm in a context rests on most --------------
#
# Nothing here changes anything: what is learned anew is learned by a copy.


# Of a unit's examples no more than so many are left out in turn, unless more are asked for.
MOST = 200
# Seconds, roughly, that this may take then.
SECONDS = 0.6
# A change of less is none.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Influence:
    """An example, and what would be believed without it."""

    id: ItemId
    context: dict[str, object]
    arm: ArmId
    allowed: bool
    by: str | None
    note: str | None
    here: bool  # whether it is about this very item, or context without a name, and arm or group
    change: float  # of what is believed here, if it is left out
    flips: bool  # whether that makes what was surely allowed here not so, or the reverse


@dataclass(frozen=True, slots=True)
class Influences:
    """The examples of an arm, or its group, that move most when left out.

    Attributes
    ----------
    arm : arm id
        Of which the belief is.
    unit : {"label", "probability"}
        What changes: the mean label of linear limits, or P(allowed).
    how : str
        How an example was left out.
    noise : float
        How far the belief moves by chance, roughly, when limits that sample learn anew. A change
        that is not well above it tells little. 0 for limits that do not sample.
    tried, of : int
        How many examples were left out in turn, of how many. The nearest in context come first,
        and those that only repeat another (the same context and answer) last.
    examples : tuple of Influence
        Those that flip whether it is surely allowed come first, then by how far they move it; none
        that does neither.
    """

    arm: ArmId
    unit: str
    how: str
    noise: float
    tried: int
    of: int
    examples: tuple[Influence, ...]


def influences_of(
    know: AgentState, row: Floats, k: int, most: int | None, top: int, item: ArmId | None = None
) -> Influences:
    """Leave out examples of an arm's unit in turn; give those that move the belief most.

    `most`: how many are tried, learning anew each time; None: up to 200, in about half a second.
    """
    limits = know.limits_state.limits
    unit = int(know.limits_state.unit_of[k])
    mine = know.limits_state.evidence(know.limits_state.examples_of(unit))
    case = _Case(know, row, k, unit, mine, item)
    way: _Way = _Anew(case)
    if isinstance(limits, FoundLimits):
        way = _Found(case, limits)
    elif most is None and way.seconds() * min(len(mine), MOST) > SECONDS and _weighs(limits):
        way = _Weighed(case, limits)
    tries = min(MOST, int(SECONDS / (way.seconds() + 1e-6))) if most is None else most
    order = _nearest_first(case)[:tries] if tries else []
    before = case.belief(limits)
    noise = 0.0 if isinstance(limits, LinearLimits) else _noise(limits, before)
    sure = case.sure(limits)
    moved = []
    for i in order:
        belief, sure_then = way.without(i)
        change = belief - before
        if noise and abs(change) <= 2.0 * noise:
            sure_then = sure  # it may be chance that they judge otherwise
        moved.append((mine[i], change, case.safe(sure_then, i) != case.safe(sure)))
    moved = sorted(
        (one for one in moved if one[2] or abs(one[1]) > ROUNDING),
        key=lambda one: (one[2], abs(one[1])),
        reverse=True,
    )
    decode = know.settings.features.decode
    return Influences(
        arm=know.arm_ids[k],
        unit="label" if isinstance(limits, LinearLimits) else "probability",
        how=way.how,
        noise=noise,
        tried=len(order),
        of=len(mine),
        examples=tuple(
            Influence(
                e.id,
                decode(np.frombuffer(e.context)),
                know.arm_ids[e.arm],
                e.allowed,
                e.by,
                e.note,
                case.about(e),
                change,
                flips,
            )
            for e, change, flips in moved[:top]
        ),
    )


class _Case:
    """The belief about one arm in one context, and the examples that it rests on."""

    def __init__(
        self,
        know: AgentState,
        row: Floats,
        k: int,
        unit: int,
        examples: Sequence[Example],
        item: ArmId | None,
    ) -> None:
        self.row, self.k, self.unit, self.examples = row, k, unit, examples
        self._item, self._legacy = item, know.settings.legacy
        self._rates, self._first = know.limits_state.rates, know.limits_state.first
        self.limits = know.limits_state.limits
        raw = np.frombuffer(b"".join(e.context for e in examples))
        self.contexts: Floats = raw.reshape(len(examples), len(row))
        self.allowed = np.array([e.allowed for e in examples], np.bool_)
        self._key = know.limits_state.key
        self._ruled = bool(denied_arms(know.compiled_rules, row, len(know.arms))[k])
        self._here = [know.remembers and self._certain(e) for e in examples]
        # A rule can deny only what holds something; all else must have been allowed once. The
        # mixture of new agents sees to that itself.
        mixed = isinstance(self.limits, Mixed) and not self._legacy
        terms = None if mixed else getattr(self.limits, "terms", None)
        self._holds = terms is None or bool(terms.held(row[None]).any())

    def about(self, example: Example) -> bool:
        """Return whether an example of the unit is about this very case."""
        same = example.context == self.row.tobytes()
        if self._legacy:
            return same and example.arm == self.k
        return same if example.item is None else example.item == self._item

    def _certain(self, example: Example) -> bool:
        """Return whether it is certain here. Without a name, two that look alike may differ."""
        unnamed = example.item is None and not self._legacy
        return self.about(example) and not (unnamed and example.allowed)

    def key(self, i: int) -> int:
        """Give the random bits of an example."""
        return self._key(self.examples[i].id)

    @cached_property
    def keys(self) -> npt.NDArray[np.uint64]:
        """Those of all examples."""
        return np.array([self._key(e.id) for e in self.examples], np.uint64)

    def belief(self, limits: Beliefs) -> float:
        """Give what limits believe here: the mean label, or P(allowed)."""
        if isinstance(limits, LinearLimits):  # whose P(allowed) is cut to [0, 1]
            return math.fsum((limits.linear.kernel_state.mu[self.k] * self.row).tolist())
        return float(limits.predict(self.unit, self.row[None]).p[0])

    def sure(self, limits: Beliefs) -> bool:
        """Say whether limits alone judge it surely allowed."""
        return bool(limits.predict(self.unit, self.row[None]).safe[0])

    def safe(self, sure: bool, without: int | None = None) -> bool:
        """Say whether it is surely allowed: with rules, and with what was said of it just here."""
        kept = [i != without for i in range(len(self.examples))]
        here = {bool(self.allowed[i]) for i, mine in enumerate(self._here) if mine and kept[i]}
        if self._ruled or False in here:
            return False
        ever = self._holds or bool((self.allowed & np.array(kept, np.bool_)).any())
        return True in here or (sure and ever and self._unexceptional(without))

    def _unexceptional(self, without: int | None) -> bool:
        """Return whether exceptions to what limits call safe are rare enough in this unit."""
        rates = self._rates
        if rates is None:
            return True
        first = None if without is None else self._first.get(self.examples[without].id)
        if without is not None and first is not None:
            rates = rates.copy()
            rates.forget(self.unit, allowed=bool(self.allowed[without]), safe=first)
        return rates.holds(self.unit)

    def refit(self, limits: Beliefs, i: int) -> None:
        """Let limits learn the unit anew, without example i."""
        kept = np.arange(len(self.keys)) != i
        cast("Refits", limits).refit(
            self.unit, self.contexts[kept], self.allowed[kept], self.keys[kept]
        )


def _nearest_first(case: _Case) -> list[int]:
    """Give places: the nearest context first, this arm's before others', repeats last."""
    far = ((case.contexts - case.row) ** 2).sum(axis=1).tolist()
    mine = case.examples
    order = sorted(range(len(mine)), key=lambda i: (far[i], mine[i].arm != case.k, i))
    met: Counter[tuple[bytes, bool]] = Counter()
    repeat: dict[int, int] = {}
    for i in order:
        same = mine[i].context, mine[i].allowed
        repeat[i] = met[same]
        met[same] += 1
    return sorted(order, key=lambda i: repeat[i])  # stable


# -- ways to leave an example out ------------------------------------------------------------


class _Way(Protocol):
    """A way to leave out one example."""

    how: str

    def seconds(self) -> float:
        """Say how long it takes, roughly: by size, so that an account is the same anywhere."""
        ...

    def without(self, i: int) -> tuple[float, bool]:
        """Give the belief without example i, and whether limits judge it surely allowed then."""
        ...


class _Anew:
    """Learns the unit anew, on a copy of the limits."""

    how = "learned anew without it"

    def __init__(self, case: _Case) -> None:
        self._case = case

    @cached_property
    def _limits(self) -> Beliefs:
        return self._case.limits.copy()

    def seconds(self) -> float:
        return _seconds(self._case.limits, len(self._case.examples))

    def without(self, i: int) -> tuple[float, bool]:
        self._case.refit(self._limits, i)
        return self._case.belief(self._limits), self._case.sure(self._limits)


class _Weighed:
    """Weighs rules as if the answer had not been given: for where learning anew takes too long.

    The opposite answer, in the same context, has the inverse odds for every rule: after both, rules
    are believed as without either. A kind's evidence falls by what it gave to the answer.
    """

    how = "weighed as if it had not been said"

    def __init__(self, case: _Case, limits: RuleLimits | Mixed) -> None:
        self._case = case
        self._members: dict[str, Any] = {"": limits}
        self._weights, self._rates = {"": 1.0}, {"": 0.0}
        if isinstance(limits, Mixed):
            self._members, self._weights = limits.members, limits.weights(case.unit)
            self._rates = limits.exceptions(case.unit)
        self._legacy = isinstance(limits, AutoLimits)
        self._floor = floor_of(self._members.values())
        self._least = 1.0 - limits.doubt  # of what is surely allowed
        self._twins = {
            name: member.copy()
            for name, member in self._members.items()
            if not isinstance(member, RuleLimits | BoundLimits | AllAllowed)
        }

    def seconds(self) -> float:
        n, each = len(self._case.examples), 0.0
        for name, member in self._members.items():
            if not isinstance(member, AllAllowed):
                anew = _seconds(member, n)
                each += anew if name in self._twins else anew / n + 5e-4 + 1e-4 * member.units
        return each

    def without(self, i: int) -> tuple[float, bool]:
        case = self._case
        context, allowed = case.contexts[i], bool(case.allowed[i])
        bits = int(keys.aside(np.uint64(case.key(i))))
        weights, beliefs, sures = [], [], []
        for name, member in self._members.items():
            if not self._weights[name]:
                continue
            twin = member
            if name in self._twins:
                twin = self._twins[name]
                case.refit(twin, i)
            elif not isinstance(member, AllAllowed):
                twin = member.copy()
                twin.learn(context, case.examples[i].arm, not allowed, bits)
            stays = 1.0 - self._rates[name]
            q = float(predictive(twin, case.unit, context[None])[1][0]) * stays
            q = min(max(q, self._floor), 1.0 - self._floor)
            weights.append(self._weights[name] / (q if allowed else 1.0 - q))
            beliefs.append(float(predictive(twin, case.unit, case.row[None])[0][0]) * stays)
            # As `AutoLimits` has it: limits by degrees that won judge in their own way.
            own = self._legacy and not hasattr(twin, "predict_answer") and case.sure(twin)
            sures.append(own)
        total = math.fsum(weights)
        shares = [w / total for w in weights]
        p = math.fsum(w * b for w, b in zip(shares, beliefs, strict=True))
        each = zip(shares, beliefs, sures, strict=True)
        more = math.fsum(w * (1.0 - b) for w, b, own in each if own and w > WON)
        return p, p + more >= self._least


class _Found:
    """Takes the answer out of the counts of found limits.

    To find the groups anew takes a minute from a thousand answers on; so they stay as they are.
    """

    how = "taken out of the counts, with the groups as they were found"

    def __init__(self, case: _Case, limits: FoundLimits) -> None:
        self._case, self._terms = case, limits.terms
        self._state = limits.to_state()
        self._cells = limits.arms * 2.0 ** len(limits.terms)

    def seconds(self) -> float:
        return 2e-3 + 1.2e-7 * self._cells

    def without(self, i: int) -> tuple[float, bool]:
        case, arm = self._case, self._case.examples[i].arm
        state = {name: array.copy() for name, array in self._state.items()}
        held = self._terms.held(case.contexts[i : i + 1])
        mask = int(rulesets.masks_of(held, False, len(self._terms))[0])
        allows = (np.arange(state["wrong"].shape[1]) & mask) == 0
        state["wrong"][arm] -= allows != case.allowed[i]
        state["answers"][arm] -= 1
        if not state["answers"][arm]:  # it is in no group then
            state["classes"][:, arm] = -1
            _number(state["classes"])
        found = FoundLimits.from_state(state)
        return case.belief(found), case.sure(found)


def _number(classes: npt.NDArray[np.int64]) -> None:
    """Number the classes of each chain from 0 on, as they first occur."""
    for chain in classes:
        numbers: dict[int, int] = {-1: -1}
        for old in chain.tolist():
            numbers.setdefault(old, len(numbers) - 1)
        chain[:] = [numbers[old] for old in chain.tolist()]


def _weighs(limits: Beliefs) -> TypeGuard[RuleLimits | Mixed]:
    """Whether an opposite answer undoes an answer, in all members that are rules.

    Not where the rate of error is estimated, for it makes the teacher one that errs; and not where
    terms are so many that some are cleared one by one.
    """
    rules = [limits] if isinstance(limits, RuleLimits) else []
    if isinstance(limits, Mixed):
        rules = [one for one in limits.members.values() if isinstance(one, RuleLimits)]
    return bool(rules) and all(
        len(one.errors) == 1 and len(one.terms) <= MAX_SAMPLED for one in rules
    )


def _noise(limits: Beliefs, p: float) -> float:
    """Say how far a belief moves by chance, roughly, when limits that sample learn anew."""
    if isinstance(limits, Mixed):
        weights = limits.weights()
        return math.fsum(weights[name] * _noise(m, p) for name, m in limits.members.items())
    if not isinstance(limits, RuleLimits) or limits.exact:
        return 0.0
    q = (p * limits.chains + 1.0) / (limits.chains + 2.0)  # nothing that is sampled is sure
    return math.sqrt(2.0 * q * (1.0 - q) / limits.chains)


def _seconds(limits: Beliefs | AllAllowed, n: int) -> float:
    """Say how long it takes, roughly, to learn n examples anew.

    The figures were measured on one core, at 10 to 100 features and up to 1,000 examples.
    """
    if isinstance(limits, LinearLimits):
        return 2e-4 + n * (1.2e-6 + 6e-10 * limits.features**2)
    if isinstance(limits, LogisticLimits):
        D = limits.columns
        return 2e-4 + n * (2e-6 + 2e-9 * D**2) + 4e-9 * D**3
    if isinstance(limits, RuleLimits):
        T = len(limits.terms)
        each = 4.5e-8 * 2.0**T
        if not limits.exact:
            active = limits.chains * limits.sweeps * min(T, 200)
            each = active * (1.8e-8 + 1.7e-11 * n)
        return n * (2e-5 + len(limits.errors) * each)
    if isinstance(limits, PooledLimits):
        D = limits.features + 1
        return 2e-4 + n * (2e-6 + 4e-9 * D**2) + 1e-8 * limits.units * D**3
    if isinstance(limits, BoundLimits):
        return n * 1e-3
    if isinstance(limits, AllAllowed):
        return 0.0
    if isinstance(limits, Mixed):
        return math.fsum(_seconds(member, n) for member in limits.members.values())
    return SECONDS

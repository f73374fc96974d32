"""What each feature of a context gave to what is expected and believed of an arm in it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from bridle.agent.config import ArmId, ItemId
from bridle.agent.limits_state import Example
from bridle.agent.state import AgentState
from bridle.explain.sharing import shared_parts
from bridle.kernels import keys
from bridle.kernels.types import Floats
from bridle.limits import Beliefs
from bridle.limits.declared import denied_arms
from bridle.reward.posterior import LinearArms
from bridle.schema import Schema

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
    # Whose feature: "context", "arm", "both", or "own", what the arm's own plays gave beside.
    side: str = "context"


@dataclass(frozen=True, slots=True)
class Contributions:
    """What each feature gave to one part of an arm's score. Those that are 0 gave nothing.

    Attributes
    ----------
    arm : arm id
    part : {"reward", "constraint"}
    unit : {"reward", "label", "log-odds", "change of the reward", "change of the probability"}
        What the numbers are. The first three add up: `base` and what was given make `total`. The
        reward is in [0, 1] units, the label is that of linear limits, the log-odds are those of
        "allowed" by the likeliest weights. The changes do not add up: they are how much lower the
        expected reward or P(allowed), the total, would be without the feature: a flag or word that
        is not held, a number at what the schema takes if it is missing (or else at 0).
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


def reward_shares(state: AgentState, row: Floats, k: int) -> Contributions:
    """Return what each feature contributed to the mean reward of an arm."""
    if state.shared is not None:
        base, parts = shared_parts(state, row, k)
        each = tuple(Share(name, value, gave, side) for side, name, value, gave in parts)
        total = math.fsum([base, *(share.gave for share in each)])
        return Contributions(state.arm_ids[k], "reward", "reward", total, base, each)
    if not isinstance(state.reward_model, LinearArms):
        return _moved(state, row, k)
    post = state.reward_arms.kernel_state
    weights, base = post.mu[k], 0.0
    if state.centred:
        # The posterior mean of the weights where that of the intercept, before any reward, is the
        # mean of all rewards.
        weights = weights + state.pull * post.A[k, -1]
        base = float(weights[-1])
    names = state.settings.features.columns
    shares = tuple(
        Share(names[i], float(row[i]), float(row[i] * weights[i]))
        for i in np.flatnonzero(row).tolist()
    )
    total = math.fsum([base, *(share.gave for share in shares)])
    return Contributions(state.arm_ids[k], "reward", "reward", total, base, shares)


def _moved(state: AgentState, row: Floats, k: int) -> Contributions:
    """Return how much lower the mean reward would be without each feature: of others' models."""
    absent, names = _absent(state.settings.features), state.settings.features.columns
    there = np.flatnonzero(row != absent)
    rows: Floats = np.tile(row, (len(there) + 1, 1))
    rows[np.arange(len(there)) + 1, there] = absent[there]
    parts = np.empty((len(rows), 7, len(state.arms)))
    state.reward_parts_many(rows, parts)
    mean = parts[:, 0, k].tolist()
    shares = tuple(
        Share(names[i], float(row[i]), mean[0] - without)
        for i, without in zip(there.tolist(), mean[1:], strict=True)
    )
    return Contributions(state.arm_ids[k], "reward", "change of the reward", mean[0], None, shares)


def limit_shares(state: AgentState, row: Floats, k: int) -> Contributions:
    """Return what each feature contributed to what is believed of an arm's limits."""
    schema = state.settings.features
    unit = int(state.limits_state.unit_of[k])
    found = state.limits_state.limits.attribute(unit, row, _absent(schema))
    shares = tuple(
        Share(" & ".join(schema.columns[i] for i in columns), value, gave)
        for columns, value, gave in found.parts
    )
    pairs = state.limits_state.pairs
    if pairs is not None:
        # Of an arm, too: what would be believed of one without the feature.
        names = pairs.space.arm.names
        shares += tuple(
            Share(names[i], value, gave, "arm")
            for (i,), value, gave in pairs.attribute_arm(unit, row).parts
        )
    return Contributions(
        state.arm_ids[k], "constraint", found.unit, found.total, found.base, shares
    )


def _absent(schema: Schema) -> Floats:
    """Return each column's value where its feature is not there."""
    out = np.zeros(schema.width)
    for feature, at in schema.numbers:
        if feature.missing is not None:
            out[at] = feature.scale(feature.missing)
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
    state: AgentState, row: Floats, k: int, most: int | None, top: int, item: ArmId | None = None
) -> Influences:
    """Leave out examples of an arm's unit in turn; return those that move the belief most.

    `most`: how many are tried, learning anew each time; None: up to 200, in about half a second.
    """
    limits = state.limits_state.limits
    unit = int(state.limits_state.unit_of[k])
    # Where limits are over pairs, what was said of any arm says something of this one.
    pairs = state.limits_state.pairs
    said = state.limits_state.examples_of(unit) if pairs is None else state.examples.values()
    mine = state.limits_state.evidence(said)
    case = _Case(state, row, k, unit, mine, item)
    way: _Way = _Anew(case)
    if pairs is not None:
        way = _Unsaid(case)
    elif limits.finds_groups:
        way = _Uncounted(case)
    elif most is None and way.seconds() * min(len(mine), MOST) > SECONDS and limits.undoes:
        way = _Weighed(case)
    tries = min(MOST, int(SECONDS / (way.seconds() + 1e-6))) if most is None else most
    order = _nearest_first(case)[:tries] if tries else []
    before = case.belief(limits)
    noise = limits.noise(before)
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
    decode = state.settings.features.decode
    return Influences(
        arm=state.arm_ids[k],
        unit=limits.scale,
        how=way.how,
        noise=noise,
        tried=len(order),
        of=len(mine),
        examples=tuple(
            Influence(
                e.id,
                decode(np.frombuffer(e.context)),
                state.arm_ids[e.arm],
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
        state: AgentState,
        row: Floats,
        k: int,
        unit: int,
        examples: Sequence[Example],
        item: ArmId | None,
    ) -> None:
        self.row, self.k, self.unit, self.examples = row, k, unit, examples
        self._pairs, self._rate_unit = state.limits_state.pairs, state.limits_state.rate_unit(k)
        self.arm_rows = state.arm_rows if self._pairs is not None else None
        self._item, self._legacy = item, state.settings.legacy
        self._rates, self._first = state.limits_state.rates, state.limits_state.first
        self.limits = state.limits_state.limits
        raw = np.frombuffer(b"".join(e.context for e in examples))
        self.contexts: Floats = raw.reshape(len(examples), len(row))
        self.allowed = np.array([e.allowed for e in examples], np.bool_)
        self._key = state.limits_state.key
        self._ruled = bool(denied_arms(state.compiled_rules, row, len(state.arms))[k])
        self._here = [state.remembers and self._certain(e) for e in examples]
        # A rule can deny only what holds something; all else must have been allowed once.
        asks = self.limits.asks_consent
        self._holds = not asks or not self.limits.holds_nothing(row[None])[0]

    def about(self, example: Example) -> bool:
        """Return whether an example of the unit is about this very case."""
        same = example.context == self.row.tobytes()
        if self._pairs is not None and example.arm != self.k:
            return False
        if self._legacy:
            return same and example.arm == self.k
        return same if example.item is None else example.item == self._item

    def _certain(self, example: Example) -> bool:
        """Return whether it is certain here. Without a name, two that look alike may differ."""
        unnamed = example.item is None and not self._legacy
        return self.about(example) and not (unnamed and example.allowed)

    def key(self, i: int) -> int:
        """Return the random bits of an example."""
        return self._key(self.examples[i].id)

    @cached_property
    def keys(self) -> npt.NDArray[np.uint64]:
        """Those of all examples."""
        return np.array([self._key(e.id) for e in self.examples], np.uint64)

    def belief(self, limits: Beliefs) -> float:
        """Return what limits believe here, on their own scale."""
        return limits.belief(self.unit, self.row)

    def sure(self, limits: Beliefs) -> bool:
        """Return whether limits alone judge it surely allowed."""
        return bool(limits.predict(self.unit, self.row[None]).safe[0])

    def safe(self, sure: bool, without: int | None = None) -> bool:
        """Return whether it is surely allowed: with rules, and what was said of just this."""
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
            rates.forget(self._rate_unit, allowed=bool(self.allowed[without]), safe=first)
        return rates.holds(self._rate_unit)

    def refit(self, limits: Beliefs, i: int) -> None:
        """Refit the unit without example i."""
        kept = np.arange(len(self.keys)) != i
        limits.refit(self.unit, self.contexts[kept], self.allowed[kept], self.keys[kept])


def _nearest_first(case: _Case) -> list[int]:
    """Return places: the nearest first, this arm's before others', repeats last."""
    mine = case.examples
    apart = ((case.contexts - case.row) ** 2).sum(axis=1)
    if case.arm_rows is not None and mine:
        theirs = case.arm_rows[[e.arm for e in mine]]
        apart = apart + ((theirs - case.arm_rows[case.k]) ** 2).sum(axis=1)
    far = apart.tolist()
    order = sorted(range(len(mine)), key=lambda i: (far[i], mine[i].arm != case.k, i))
    met: Counter[tuple[bytes, int, bool]] = Counter()
    repeat: dict[int, int] = {}
    for i in order:
        arm = -1 if case.arm_rows is None else mine[i].arm
        same = mine[i].context, arm, mine[i].allowed
        repeat[i] = met[same]
        met[same] += 1
    return sorted(order, key=lambda i: repeat[i])  # stable


# -- ways to leave an example out ------------------------------------------------------------


class _Way(Protocol):
    """A way to leave out one example."""

    how: str

    def seconds(self) -> float:
        """Return how long it takes, roughly: by size, so that an account is the same anywhere."""
        ...

    def without(self, i: int) -> tuple[float, bool]:
        """Return the belief without example i, and whether limits call it surely allowed then."""
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
        return self._case.limits.refit_seconds(len(self._case.examples))

    def without(self, i: int) -> tuple[float, bool]:
        self._case.refit(self._limits, i)
        return self._case.belief(self._limits), self._case.sure(self._limits)


class _Weighed:
    """Weighs rules as if the answer had not been given: for where learning anew takes too long.

    The opposite answer, in the same context, has the inverse odds for every rule: after both, rules
    are believed as without either. A kind's evidence falls by what it gave to the answer.
    """

    how = "weighed as if it had not been said"

    def __init__(self, case: _Case) -> None:
        self._case, limits = case, case.limits
        self._members = limits.members or {"": limits}
        self._weights = limits.weights(case.unit) or {"": 1.0}
        self._rates = limits.exceptions(case.unit) or {"": 0.0}
        self._winner = limits.winner_judges
        self._floor = max(member.floor for member in self._members.values())
        self._least = 1.0 - limits.doubt  # of what is surely allowed
        self._twins = {n: m.copy() for n, m in self._members.items() if not m.undoes}

    def seconds(self) -> float:
        n, each = len(self._case.examples), 0.0
        for name, member in self._members.items():
            if anew := member.refit_seconds(n):
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
            if name in self._twins:
                twin = self._twins[name]
                case.refit(twin, i)
            else:
                twin = member.copy()
                twin.learn(context, case.examples[i].arm, not allowed, bits)
            stays = 1.0 - self._rates[name]
            q = float(twin.predictive(case.unit, context[None])[1][0]) * stays
            q = min(max(q, self._floor), 1.0 - self._floor)
            weights.append(self._weights[name] / (q if allowed else 1.0 - q))
            beliefs.append(float(twin.predictive(case.unit, case.row[None])[0][0]) * stays)
            judges = self._winner is not None and not twin.knows_errors
            sures.append(judges and case.sure(twin))
        total = math.fsum(weights)
        shares = [w / total for w in weights]
        p = math.fsum(w * b for w, b in zip(shares, beliefs, strict=True))
        each = zip(shares, beliefs, sures, strict=True)
        won = self._winner or 1.0
        more = math.fsum(w * (1.0 - b) for w, b, judges in each if judges and w > won)
        return p, p + more >= self._least


class _Uncounted:
    """Takes the answer out of the counts of limits that find groups, and leaves the groups."""

    how = "taken out of the counts, with the groups as they were found"

    def __init__(self, case: _Case) -> None:
        self._case = case

    def seconds(self) -> float:
        return self._case.limits.refit_seconds(len(self._case.examples))

    def without(self, i: int) -> tuple[float, bool]:
        case = self._case
        arm, allowed = case.examples[i].arm, bool(case.allowed[i])
        found = case.limits.without(case.contexts[i], arm, allowed)
        return case.belief(found), case.sure(found)


class _Unsaid:
    """Weighs limits over pairs as if the answer had not been given: see `PairLimits.without`."""

    how = "weighed as if it had not been said"

    def __init__(self, case: _Case) -> None:
        self._case = case

    def seconds(self) -> float:
        return SECONDS / 30.0

    def without(self, i: int) -> tuple[float, bool]:
        case = self._case
        arm, allowed = case.examples[i].arm, bool(case.allowed[i])
        found = case.limits.without(case.contexts[i], arm, allowed)
        return case.belief(found), case.sure(found)

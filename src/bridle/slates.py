"""Slates: several arms at once, best first, inside limits on sets.

How it is called: what people declare is `SetLimits`, in the words of arms and their features.
`SetLimits.arrays` makes `Sets` of it, arrays over the arms of a catalogue; make them anew when arms
change. Then, for each decision:

- `choose_slate(scores, may, k, sets, key)`: the best slate of scores that were drawn already. From
  one joint draw of a shared model that is Thompson sampling of slates.
- `place_odds(draw, n, slate, may, k, sets, key)`: how often each arm of it has its place, over n
  further joint draws, `draw(i)` giving the scores of the i-th: the propensities of Thompson slates.
- `drawn(policy, scores, k, key, sets)`: a slate by a policy over independent scores, and where they
  are exact the probabilities of its places, each given those before it. Their product is the
  probability of the slate: `PlackettLuce`, `Softmax`, `SquareCB`, `EpsilonGreedy`, `Uniform`.
- `chain(policy, scores, arms, sets)`: the same probabilities for a slate that is given.
- `item_rewards(k, items, slate)`: what each item is credited with.

Arms are numbers here, arrays have an entry an arm, and `key` are 64 random bits of the decision.

The value of a slate is the sum of its arms' scores. Places that can be filled are filled, also by
arms of low scores. "At most m of a kind" alone is a partition matroid, where taking the best arm
that fits, again and again, is exact. Where arms exclude each other that reaches 1/p of the best sum
at least (of scores above 0), with p the most arms that one arm can stand in the way of; a search by
branch and bound then finds the best slate, or gives up after a number of steps. A `Slate` says
which it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import InvalidValue, LimitReached, NotPossible
from bridle.kernels import choice, keys, odds, slates
from bridle.kernels.types import MASK_ARGMAX, MASK_FILTER, Bools, Floats, Ints
from bridle.policies import Masked, Policy, Racing, Scores, Weighted

__all__ = [
    "MAX_PLACES",
    "AtMost",
    "NotBoth",
    "Odds",
    "SetLimits",
    "Sets",
    "Slate",
    "chain",
    "choose_slate",
    "drawn",
    "item_rewards",
    "place_odds",
]

ArmId: TypeAlias = int | str
Value: TypeAlias = str | bool
Exclusions: TypeAlias = tuple[Ints, Ints]

MAX_PLACES = 100
MAX_LIMITS = 64
MAX_NAMED = 100
PLACES = validation.IntRange(1, MAX_PLACES)
# Steps of a search: about a millisecond.
STEPS = 20_000
# How many of the best arms are ranked at first, where arms exclude each other, and by how many
# times more if those do not fill the slate.
RANKED, MORE = 64, 8


# -- limits as they are declared -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AtMost:
    """At most so many arms of a kind in one slate.

    Parameters
    ----------
    most : int
        How many.
    feature : str, optional
        The feature of arms whose values are the kinds; by default an arm's group is its kind.
    value : str or bool, optional
        Only of this value (or group); by default of each of them. Of labels an arm has several:
        it counts for each.

    Examples
    --------
    >>> AtMost(2, feature="genre", value="Horror")
    AtMost(most=2, feature='genre', value='Horror')
    """

    most: int
    _: KW_ONLY
    feature: str | None = None
    value: Value | None = None

    def __post_init__(self) -> None:
        most = validation.IntRange(0, MAX_PLACES).check(self.most, "most", "AtMost")
        object.__setattr__(self, "most", most)
        _check_kind(self.feature, () if self.value is None else (self.value,), "AtMost")

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"most": self.most, "feature": self.feature, "value": self.value}


@dataclass(frozen=True, slots=True)
class NotBoth:
    """Arms, or kinds of arms, that are not to stand in one slate.

    Parameters
    ----------
    arms : ids, optional
        No two of these.
    feature : str, optional
        The feature of arms whose values `values` are; by default they are groups.
    values : two strings or bools, optional
        No arm of the one beside an arm of the other. An arm that is of both by itself may stand
        alone.

    Examples
    --------
    >>> NotBoth(feature="genre", values=("Horror", "Children's")).values
    ('Horror', "Children's")
    """

    _: KW_ONLY
    arms: tuple[ArmId, ...] = ()
    feature: str | None = None
    values: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        for name in ("arms", "values"):
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise InvalidValue(name, "NotBoth", "a list", given)
            object.__setattr__(self, name, tuple(given))
        if bool(self.arms) == bool(self.values) or (self.arms and self.feature is not None):
            got = {"arms": self.arms, "values": self.values}
            raise InvalidValue("arms, values", "NotBoth", "given the one or the other", got)
        if self.values:
            if len(self.values) != 2 or self.values[0] == self.values[1]:
                raise InvalidValue("values", "NotBoth", "two different values", self.values)
            _check_kind(self.feature, self.values, "NotBoth")
        elif not 2 <= len(set(self.arms)) <= MAX_NAMED:
            wanted = f"2 to {MAX_NAMED} different arms"
            raise InvalidValue("arms", "NotBoth", wanted, self.arms)
        for arm in self.arms:
            if not isinstance(arm, int | str) or isinstance(arm, bool):
                raise InvalidValue("arms", "NotBoth", "ids of arms", arm)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"arms": list(self.arms), "feature": self.feature, "values": list(self.values)}


def _check_kind(feature: object, values: Sequence[object], owner: str) -> None:
    if feature is not None:
        validation.text(feature, "feature", owner)
    for value in values:
        if not isinstance(value, bool):
            validation.text(value, "value", owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLimits:
    """What no slate may break, whatever is learned.

    Parameters
    ----------
    at_most : list of AtMost
    not_both : list of NotBoth

    Examples
    --------
    >>> limits = SetLimits(at_most=[AtMost(1)], not_both=[NotBoth(arms=("a", "c"))])
    >>> sets = limits.arrays(ids=["a", "b", "c"], groups=["x", "x", None])
    >>> choose_slate(np.array([0.9, 0.8, 0.7]), np.ones(3, bool), 3, sets).arms.tolist()
    [1, 2]
    >>> SetLimits.from_json(limits.to_json()) == limits
    True
    """

    at_most: tuple[AtMost, ...] = ()
    not_both: tuple[NotBoth, ...] = ()

    def __post_init__(self) -> None:
        for name, kind in (("at_most", AtMost), ("not_both", NotBoth)):
            given = getattr(self, name)
            fine = isinstance(given, Sequence) and all(isinstance(one, kind) for one in given)
            if not fine:
                raise InvalidValue(name, "SetLimits", f"a list of {kind.__name__}", given)
            object.__setattr__(self, name, tuple(given))
        if len(self.at_most) + len(self.not_both) > MAX_LIMITS:
            raise LimitReached("limits on slates", MAX_LIMITS, "Take some out.")

    def to_json(self) -> dict[str, Any]:
        """Return them as plain JSON values."""
        return {
            "at_most": [one.to_json() for one in self.at_most],
            "not_both": [one.to_json() for one in self.not_both],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SetLimits:
        """Return what `to_json` wrote; raise `InvalidValue` for anything else."""
        try:
            strange = sorted(set(data) - {"at_most", "not_both"})
            at_most = tuple(AtMost(**one) for one in data.get("at_most", ()))
            not_both = tuple(NotBoth(**one) for one in data.get("not_both", ()))
        except (TypeError, AttributeError) as error:
            raise InvalidValue(
                "data", "SetLimits", f"as to_json writes it: {error}", data
            ) from None
        if strange:
            raise InvalidValue("data", "SetLimits", "with at_most and not_both alone", strange)
        return cls(at_most=at_most, not_both=not_both)

    def arrays(
        self,
        *,
        ids: Sequence[ArmId],
        groups: Sequence[str | None] | None = None,
        features: Mapping[str, Sequence[Any]] | None = None,
    ) -> Sets:
        """Return these limits over the arms of a catalogue.

        Parameters
        ----------
        ids : K ids
            Of the arms, in the order of the scores.
        groups : K strings or None, optional
        features : mapping from a feature's name to K values, optional
            A value is a string or bool; of labels a list of strings; None where an arm has none.
            Values and arms that a limit names and no arm has are no error: arms come and go.
        """
        K = len(ids)
        groups = [None] * K if groups is None else groups
        sources: dict[str | None, Sequence[Any]] = {None: groups}
        sources.update((features or {}).items())
        for name, column in sources.items():
            if len(column) != K:
                owner = "groups" if name is None else f"features[{name!r}]"
                raise InvalidValue(owner, "SetLimits.arrays", f"{K} values", len(column))
        limits: list[AtMost | NotBoth] = [*self.at_most, *self.not_both]
        for one in limits:
            if one.feature not in sources:
                wanted = f"one of the arms' features, {sorted(features or {})}"
                raise InvalidValue("feature", type(one).__name__, wanted, one.feature)
        rows, caps = _caps(self.at_most, sources, K)
        return Sets(rows, caps, _sides(self.not_both, sources, K), *_excluded(self.not_both, ids))


def _caps(
    limits: Sequence[AtMost], sources: Mapping[str | None, Sequence[Any]], K: int
) -> tuple[slates.Kinds, slates.Kinds]:
    """Return the kind of each arm, -1 for none, and the caps: a row for each partition."""
    rows: list[tuple[npt.NDArray[np.int32], list[int]]] = []
    for limit in limits:
        column = sources[limit.feature]
        several = any(isinstance(value, list | tuple | set | frozenset) for value in column)
        if limit.value is not None:
            row = np.array([-1 + _is(value, limit.value) for value in column], np.int32)
            rows.append((row, [limit.most]))
        elif several:  # of labels an arm has several, so each of them is a limit of its own
            for label in sorted({one for value in column for one in _each(value)}, key=str):
                row = np.array([-1 + _is(value, label) for value in column], np.int32)
                rows.append((row, [limit.most]))
        else:
            number: dict[Any, int] = {}
            places = [-1 if one is None else number.setdefault(one, len(number)) for one in column]
            rows.append((np.array(places, np.int32), [limit.most] * max(len(number), 1)))
    if len(rows) > MAX_PLACES * MAX_LIMITS:
        raise LimitReached("kinds in limits on slates", MAX_PLACES * MAX_LIMITS, "Name values.")
    kinds = np.full((len(rows), K), -1, np.int32)
    caps = np.zeros((len(rows), max((len(cap) for _, cap in rows), default=0)), np.int32)
    for p, (row, cap) in enumerate(rows):
        kinds[p] = row
        caps[p, : len(cap)] = cap
    return kinds, caps


def _sides(
    limits: Sequence[NotBoth], sources: Mapping[str | None, Sequence[Any]], K: int
) -> slates.Sides:
    kinds = [limit for limit in limits if limit.values]
    sides = np.zeros((len(kinds), K), np.uint8)
    for q, limit in enumerate(kinds):
        one, other = limit.values
        column = sources[limit.feature]
        sides[q] = [_is(value, one) + 2 * _is(value, other) for value in column]
    return sides


def _excluded(limits: Sequence[NotBoth], ids: Sequence[ArmId]) -> Exclusions:
    """Return which arms each arm excludes, row after row: where each row starts, and the arms."""
    named = [limit.arms for limit in limits if limit.arms]
    if not named:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    number = {arm: k for k, arm in enumerate(ids)}
    pairs: set[tuple[int, int]] = set()
    for arms in named:
        here = [number[arm] for arm in dict.fromkeys(arms) if arm in number]
        pairs.update((a, b) for a in here for b in here if a != b)
    start = np.zeros(len(ids) + 1, np.int64)
    for a, _ in pairs:
        start[a + 1] += 1
    others = np.array([b for _, b in sorted(pairs)], np.int64)
    return np.cumsum(start), others


def _each(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)


def _is(value: Any, wanted: Value) -> bool:
    # True == 1, but a flag is not a number.
    return any(
        one == wanted and isinstance(one, bool) == isinstance(wanted, bool) for one in _each(value)
    )


# -- limits as arrays ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Sets:
    """Limits on sets over K arms, as the kernels read them.

    Attributes
    ----------
    kinds : (P, K) ints
        The kind of each arm in each of P partitions, -1 where it has none.
    caps : (P, C) ints
        How many of each kind may stand in a slate.
    sides : (Q, K) ints
        Of each of Q conflicts between kinds: 1 for arms of the one, 2 of the other, 3 of both.
    start, others : (K + 1,) and (E,) ints
        The arms that arm k excludes are others[start[k] : start[k + 1]]; empty for none at all.
    """

    kinds: slates.Kinds
    caps: slates.Kinds
    sides: slates.Sides
    start: Ints
    others: Ints

    @classmethod
    def none(cls, arms: int) -> Sets:
        """Return no limits over so many arms."""
        empty = np.empty(0, np.int64)
        rows = np.empty((0, arms), np.int32)
        return cls(rows, np.empty((0, 0), np.int32), np.empty((0, arms), np.uint8), empty, empty)

    @classmethod
    def of_kinds(cls, kind: npt.ArrayLike, caps: int | Sequence[int]) -> Sets:
        """Return caps on kinds: `kind` has a number for each arm, -1 for none."""
        row = np.asarray(kind, np.int32)
        count = int(row.max(initial=-1)) + 1
        cap = np.broadcast_to(np.asarray(caps, np.int32), (max(count, 1),))
        none = cls.none(len(row))
        return replace(none, kinds=row[None].copy(), caps=cap[None].copy())

    @property
    def is_matroid(self) -> bool:
        """Whether taking the best that fits, again and again, is exact."""
        return len(self.kinds) <= 1 and not len(self.sides) and not len(self.others)

    @property
    def parts(self) -> tuple[slates.Kinds, slates.Kinds, slates.Sides, Ints, Ints]:
        """All of it, in the order of the kernels."""
        return self.kinds, self.caps, self.sides, self.start, self.others

    def ways(self, k: int) -> int:
        """Return how many arms of a slate of k one arm can stand in the way of, at least 1."""
        degree = int(np.diff(self.start).max(initial=0))
        return max(1, min(k, len(self.kinds) + degree + (k if len(self.sides) else 0)))

    def broken(self, arms: Sequence[int] | Ints) -> str:
        """Return which limit a slate breaks, in words; nothing if it keeps to all."""
        chosen = np.asarray(arms, np.int64)
        if len(set(chosen.tolist())) < len(chosen):
            return "an arm stands in it twice"
        for p, row in enumerate(self.kinds):
            held = np.bincount(row[chosen][row[chosen] >= 0], minlength=self.caps.shape[1])
            if (held > self.caps[p, : len(held)]).any():
                return f"too many of one kind, by limit {p}"
        for q, row in enumerate(self.sides):
            one, other = (chosen[(row[chosen] & bit) > 0] for bit in (1, 2))
            if any(a != b for a in one.tolist() for b in other.tolist()):
                return f"two kinds that exclude each other, by conflict {q}"
        for a in chosen.tolist() if len(self.start) else ():
            if np.isin(self.others[self.start[a] : self.start[a + 1]], chosen).any():
                return f"arm {a} stands beside one that it excludes"
        return ""


# -- the best slate of given scores ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Slate:
    """Arms for the places of a slate, best first.

    Attributes
    ----------
    arms : array of ints
        At most k; fewer where no more may stand together.
    how : {"exact", "search", "greedy", "open"}
        `exact`: taking the best that fits is exact here. `search`: it is not, and the best was
        searched for and found. `greedy`: the search was given up. `open`: arms that were left out
        could better it (`choose_slate` with `more` alone).
    bound : float
        The share of the best sum of scores that it has at least, if scores are not below 0: 1 but
        for `greedy`.
    chain : array of floats or None
        Where it was drawn with exact probabilities: of each place, given those before it.
    """

    arms: Ints
    how: str
    bound: float
    chain: Floats | None = None

    def __len__(self) -> int:
        return len(self.arms)

    @property
    def propensity(self) -> float | None:
        """Probability of the whole slate, in this order, if it is exact."""
        return None if self.chain is None else math.prod(self.chain.tolist())


def choose_slate(
    scores: Floats,
    may: Bools,
    k: int,
    sets: Sets | None = None,
    key: int = 0,
    *,
    steps: int = STEPS,
    more: bool = False,
) -> Slate:
    """Return the slate of the highest sum of scores.

    Parameters
    ----------
    scores : (K,) floats
    may : (K,) bools
        The arms that may be played.
    k : int
        Places.
    sets : Sets, optional
        What it may not break.
    key : int, default 0
        Equal scores fall by these bits.
    steps : int, default 20,000
        Of a search, where arms exclude each other.
    more : bool, default False
        Whether `may` leaves out further arms, none of which is above any of these. A slate that
        one of them could better is `open`: ask again with more of them.

    Examples
    --------
    >>> scores, every = np.array([0.3, 0.9, 0.8, 0.7]), np.ones(4, bool)
    >>> choose_slate(scores, every, 2).arms.tolist()
    [1, 2]
    >>> choose_slate(scores, every, 2, Sets.of_kinds([0, 1, 1, -1], caps=1)).arms.tolist()
    [1, 3]
    """
    if type(k) is not int or not 1 <= k <= MAX_PLACES:
        k = PLACES.check(k, "k", "choose_slate")
    bits = np.uint64(key)
    arms = np.empty(k, np.int64)
    scratch = np.empty(k, np.uint64)
    if sets is None:
        sets = Sets.none(len(scores))
    if sets.is_matroid:
        kind, caps = (sets.kinds[0], sets.caps[0]) if len(sets.kinds) else _FREE
        n = slates.best_of_kinds(scores, may, k, kind, caps, bits, arms, scratch)
        return Slate(arms[:n], "open" if more and n < k else "exact", 1.0)
    return _excluding(scores, may, k, sets, bits, steps, more)


_FREE = (np.empty(0, np.int32), np.empty(0, np.int32))


def _excluding(
    scores: Floats, may: Bools, k: int, sets: Sets, key: np.uint64, steps: int, more: bool
) -> Slate:
    """Take greedily, then search, among more and more of the best arms."""
    count, size = int(np.count_nonzero(may)), max(RANKED, 4 * k)
    # Nothing that keeps to fewer limits can be better than this.
    free = np.empty(k, np.int64)
    kind, caps = (sets.kinds[0], sets.caps[0]) if len(sets.kinds) else _FREE
    m = slates.best_of_kinds(scores, may, k, kind, caps, key, free, np.empty(k, np.uint64))
    while True:
        size = min(size, count)
        listed, bits = np.empty(size, np.int64), np.empty(size, np.uint64)
        n = slates.ranked(scores, may, key, listed, bits)
        arms = np.empty(k, np.int64)
        taken = slates.greedy(listed, n, k, *sets.parts, arms)
        if taken < m and size < count:
            size *= MORE
            continue
        if more and taken < k:
            return Slate(arms[:taken], "open", 0.0)
        if taken == m and (arms[:taken] == free[:m]).all():
            return Slate(arms[:taken], "exact", 1.0)
        whole = size >= count and not more
        taken, state = slates.search(scores, listed, n, whole, k, *sets.parts, steps, arms, taken)
        if state == slates.OPEN and size < count:
            size *= MORE
            continue
        if state == slates.OPEN:
            return Slate(arms[:taken], "open", 0.0)
        how = "search" if state == slates.PROVEN else "greedy"
        bound = 1.0 if state == slates.PROVEN else 1.0 / sets.ways(k)
        return Slate(arms[:taken], how, bound)


# -- slates by a policy ----------------------------------------------------------------------------


def drawn(policy: Policy, scores: Scores, k: int, key: int, sets: Sets | None = None) -> Slate:
    """Return a slate by a policy, over scores that are independent of each other.

    `Thompson` and other policies that are normal draws take the best of one draw an arm;
    `Softmax` and `PlackettLuce` of one Gumbel draw an arm, so place follows place as by a softmax
    over what is left. All others fill the places one by one, each as if it were a decision of its
    own among the arms that are left and fit.

    Examples
    --------
    >>> from bridle.policies import PlackettLuce
    >>> scores = Scores(reward_mean=np.array([0.5, 0.4, 0.1]), reward_sd=np.zeros(3))
    >>> slate = drawn(PlackettLuce(temperature=0.1), scores, 2, key=1)
    >>> slate.arms.tolist(), round(slate.propensity, 4)
    ([0, 1], 0.6872)
    """
    k = PLACES.check(k, "k", "slates.drawn")
    number = np.uint64(validation.SEED.check(key, "key", "slates.drawn"))
    inner, parts, may = _seen(policy, scores)
    sets = Sets.none(len(may)) if sets is None else sets
    mixed = np.uint64(keys.key_of(keys.stream(0, keys.DECIDE), number))
    if isinstance(inner, Racing):
        out = np.empty(len(may))
        odds.race_scores(parts[0], inner.temperature, mixed, out)
        found = _in_order(out, may, k, sets, mixed)
        return replace(found, chain=chain(policy, scores, found.arms, sets))
    if isinstance(inner, Weighted) and inner.weights.epsilon == 0.0:
        w, start = np.array(inner.weights), keys.stream(0, keys.DECIDE)
        choice.choose(w, parts, may, may, start, number)
        return choose_slate(parts[6], may, k, sets, int(mixed))
    return _one_by_one(inner, scores, may, k, sets, number)


def chain(policy: Policy, scores: Scores, arms: Sequence[int] | Ints, sets: Sets | None) -> Floats:
    """Return the probability of each place of a slate, given those before it.

    Raises `NotPossible` for a policy that takes all places from one normal draw: those have no
    formula, and `place_odds` estimates them.
    """
    inner, parts, may = _seen(policy, scores)
    sets = Sets.none(len(may)) if sets is None else sets
    chosen = validation.indices(arms, len(arms), len(may), "arms", "slates.chain")
    out = np.zeros(len(chosen))
    if isinstance(inner, Racing):
        slates.chain(parts[0], may, inner.temperature, *sets.parts, chosen, out)
        return out
    if isinstance(inner, Weighted) and inner.weights.epsilon == 0.0:
        raise NotPossible(
            f"The places of a slate by {type(inner).__name__} have no exact probabilities: "
            "estimate them with place_odds, or choose slates by PlackettLuce."
        )
    left = may.copy()
    for i, arm in enumerate(chosen.tolist()):
        slates.narrow(left, chosen, i, *sets.parts)
        if not left[arm]:
            break
        out[i] = inner.propensities(_among(scores, left))[arm]
    return out


def _seen(policy: Policy, scores: Scores) -> tuple[Policy, Floats, Bools]:
    """Return the policy that chooses, the scores that it sees, and the arms that it may play."""
    inner = policy.policy if isinstance(policy, Masked) else policy
    if not isinstance(policy, Policy) or not isinstance(scores, Scores):
        raise InvalidValue("policy", "slates", "a policy, and scores", (policy, scores))
    parts, eligible, allowed = scores.parts()
    masked = isinstance(inner, Weighted) and inner.weights.mask in (MASK_ARGMAX, MASK_FILTER)
    if not (masked or policy.needs_limits):
        return inner, parts, eligible
    if scores.allowed is None:
        raise NotPossible(f"{type(policy).__name__} must be told which arms are allowed.")
    return inner, parts, eligible & allowed


def _among(scores: Scores, left: Bools) -> Scores:
    return replace(scores, eligible=left.copy(), allowed=left.copy())


def _in_order(scores: Floats, may: Bools, k: int, sets: Sets, key: np.uint64) -> Slate:
    """Take the best that fits, again and again, without a search: place after place."""
    if sets.is_matroid:
        return choose_slate(scores, may, k, sets, int(key))
    count, size = int(np.count_nonzero(may)), max(RANKED, 4 * k)
    while True:
        size = min(size, count)
        listed, bits = np.empty(size, np.int64), np.empty(size, np.uint64)
        n = slates.ranked(scores, may, key, listed, bits)
        arms = np.empty(k, np.int64)
        taken = slates.greedy(listed, n, k, *sets.parts, arms)
        if taken == k or size == count:
            return Slate(arms[:taken], "greedy", 1.0 / sets.ways(k))
        size *= MORE


def _one_by_one(
    policy: Policy, scores: Scores, may: Bools, k: int, sets: Sets, key: np.uint64
) -> Slate:
    arms, shares = np.empty(k, np.int64), np.empty(k)
    left = may.copy()
    n = 0
    while n < k:
        slates.narrow(left, arms, n, *sets.parts)
        if not left.any():
            break
        seen = _among(scores, left)
        # The first place has the bits that a single decision has.
        arm = policy.choose(seen, int(key) if n == 0 else int(keys.bits_of(key, n)))
        arms[n], shares[n] = arm, policy.propensities(seen)[arm]
        n += 1
    how = "exact" if sets.is_matroid else "greedy"
    bound = 1.0 if sets.is_matroid else 1.0 / sets.ways(k)
    return Slate(arms[:n], how, bound, shares[:n])


# -- propensities of places ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Odds:
    """How often each arm of a slate had its place in further draws, and how far off that may be.

    Attributes
    ----------
    draws : int
        How many slates were drawn.
    hits : array of ints
        How often the arm had that very place.
    inside : array of ints
        How often it had any place.
    """

    draws: int
    hits: Ints
    inside: Ints

    @property
    def places(self) -> Floats:
        """Marginal probability of each arm in its place: (hits + 1) / (draws + 1)."""
        return np.asarray((self.hits + 1.0) / (self.draws + 1.0), np.float64)

    @property
    def anywhere(self) -> Floats:
        """Marginal probability of each arm in any place, by the same rule."""
        return np.asarray((self.inside + 1.0) / (self.draws + 1.0), np.float64)

    @property
    def errors(self) -> Floats:
        """Standard error of `places`: √(p(1 − p)/n)."""
        p = self.places
        return np.sqrt(p * (1.0 - p) / self.draws)


def place_odds(
    draw: Callable[[int], Floats],
    draws: int,
    arms: Sequence[int] | Ints,
    may: Bools,
    k: int,
    sets: Sets | None = None,
    key: int = 0,
) -> Odds:
    """Return how often each arm of a slate has its place, over further joint draws.

    Parameters
    ----------
    draw : callable
        `draw(i)` returns the scores of joint draw i, (K,), under a key of its own.
    draws : int
        How many.
    arms : ints
        The slate that was played, in order.
    may, k, sets
        As in `choose_slate`, as they were for that slate.
    key : int, default 0
        Ties of draw i fall by bits of it.

    Examples
    --------
    >>> def draw(i):
    ...     return np.random.default_rng(i).normal(size=3)
    >>> found = place_odds(draw, 300, [0, 1], np.ones(3, bool), 2)
    >>> bool((abs(found.places - 1 / 3) < 5 * found.errors).all())
    True
    """
    draws = validation.COUNT.check(draws, "draws", "place_odds")
    wanted = validation.indices(arms, len(arms), len(may), "arms", "place_odds")
    hits, inside = np.zeros((2, len(wanted)), np.int64)
    start = np.uint64(key)
    for i in range(draws):
        tie = int(keys.key_of(start, np.uint64(i + 1)))
        found = choose_slate(draw(i), may, k, sets, tie).arms
        n = min(len(found), len(wanted))
        hits[:n] += found[:n] == wanted[:n]
        inside += np.isin(wanted, found)
    return Odds(draws, hits, inside)


# -- rewards ---------------------------------------------------------------------------------------


def item_rewards(
    k: int,
    items: Sequence[float | None] | None = None,
    slate: float | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Floats:
    """Return what each of k items is credited with; NaN where nothing is known.

    Rewards of items are theirs. One reward for the whole slate is taken for the sum of what its
    items earned, of which only the sum was seen: so each is credited with an equal share, slate/k.
    Items that meet changing company are ranked right by that, as the company adds the same to all;
    but differences between items show k times smaller than they are, and the share of an item that
    stands in slates of another length is not comparable. Where it is known which item a reward
    came of, give rewards of items.

    Parameters
    ----------
    k : int
        Places of the slate.
    items : k floats or None, optional
        Rewards of the items, None for one that has none (it was not looked at, say), each in the
        reward range.
    slate : float, optional
        One reward for all, in k times the reward range.
    reward_range : (float, float)

    Examples
    --------
    >>> item_rewards(4, slate=1.0).tolist()
    [0.25, 0.25, 0.25, 0.25]
    >>> item_rewards(3, items=[0.0, 1.0, None]).tolist()
    [0.0, 1.0, nan]
    """
    k = PLACES.check(k, "k", "item_rewards")
    low, high = reward_range
    if (items is None) == (slate is None):
        got = {"items": items, "slate": slate}
        raise InvalidValue("items, slate", "item_rewards", "given the one or the other", got)
    if slate is not None:
        value = validation.FloatRange(k * low, k * high).check(slate, "slate", "item_rewards")
        return np.full(k, value / k)
    assert items is not None
    if len(items) != k:
        raise InvalidValue("items", "item_rewards", f"{k} rewards, None for no reward", items)
    inside = validation.FloatRange(low, high)
    values = [
        math.nan if one is None else inside.check(one, "items", "item_rewards") for one in items
    ]
    return np.array(values)

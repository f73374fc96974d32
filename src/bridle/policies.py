"""How scores become a choice.

A policy is a small value with two methods: `choose` and `propensities`. Most of ours blend the
scores of each arm into a normal law, draw from it and play the best eligible arm; they differ in
seven numbers (`weights`), which one kernel reads, in the agent as in the compiled simulation.
`SquareCB`, `Softmax` and `PlackettLuce` have probabilities by a formula. `Masked` keeps any of them
inside learned limits. Policies of others are registered by name (`bridle.register`); they and those
by a formula are called once a decision.

Arms are independent and only cᵀμ̃ matters, so one normal draw an arm has the law of a draw of the
whole weight vector.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np

from bridle import registry, validation
from bridle.errors import BridleError, CorruptState, InvalidValue, NotPossible
from bridle.kernels import choice, keys, odds, wins
from bridle.kernels.types import MASK_ARGMAX, MASK_FILTER, NO_MASK, Bools, Floats, Weights

__all__ = [
    "ACTIVE",
    "TEACHINGS",
    "BehaviorConstrained",
    "EpsilonGreedy",
    "Greedy",
    "KnownMask",
    "LearnedMask",
    "LinUCB",
    "Masked",
    "PlackettLuce",
    "Policy",
    "Scores",
    "Softmax",
    "SquareCB",
    "Thompson",
    "Uniform",
    "Weighted",
    "chosen",
    "in_units",
    "kernel_weights",
    "most_informative",
    "odds_of",
    "policy_from_json",
    "policy_of",
    "policy_to_json",
    "spread_of",
    "teaching_policy",
    "with_default_spread",
    "with_sigma",
    "with_spread",
]


DEFAULT_V = 0.25
# With the centred prior an untried arm does not look bad, and less exploring serves.
CENTRED_V = 0.05
# Of `SquareCB`: γ = 10·√(A·plays).
GAMMA_SCALE = 10.0
GAMMA = validation.FloatRange(0.0, 1e12)
TEMPERATURE = validation.FloatRange(1e-6, 1e6)


@dataclass(frozen=True, slots=True)
class Scores:
    """What a policy sees of one context: arrays of K, an entry an arm.

    Parameters
    ----------
    reward_mean, reward_sd : array of K floats
        The reward part: posterior mean and standard deviation (for v = 1).
    limit_mean, limit_sd : array of K floats, optional
        The constraint part; zeros if nothing is taught.
    eligible : array of K bools, optional
        The arms that may be played at all; every arm by default.
    allowed : array of K bools, optional
        The truth, for a policy that is told it (`KnownMask`); what is surely allowed, for one that
        keeps to what was learned (`LearnedMask`).
    plays : float, default 0
        How many rewards the scores were learned from.
    """

    reward_mean: Floats
    reward_sd: Floats
    limit_mean: Floats | None = None
    limit_sd: Floats | None = None
    eligible: Bools | None = None
    allowed: Bools | None = None
    plays: float = 0.0

    def parts(self) -> tuple[Floats, Bools, Bools]:
        """Return all of it, checked, as the kernels take it: (7, K), eligible, allowed."""
        wanted = "a list of numbers, one an arm"
        means = validation.floats(self.reward_mean, "reward_mean", "Scores", wanted)
        if means.ndim != 1 or not means.size:
            raise InvalidValue("reward_mean", "Scores", wanted, self.reward_mean)
        K = len(means)
        parts = np.zeros((7, K))
        names = ("reward_mean", "reward_sd", "limit_mean", "limit_sd")
        for row, name in enumerate(names):
            value = getattr(self, name)
            if value is not None:
                parts[row] = validation.vector(value, K, name, "Scores")
        for row in (1, 3):
            if (parts[row] < 0.0).any():
                raise InvalidValue(names[row], "Scores", "at least 0 for every arm", parts[row])
        every = np.ones(K, np.bool_)
        eligible = every if self.eligible is None else self.eligible
        allowed = eligible if self.allowed is None else self.allowed
        return (
            parts,
            validation.truths(eligible, K, "eligible", "Scores"),
            validation.truths(allowed, K, "allowed", "Scores"),
        )


@runtime_checkable
class Policy(Protocol):
    """What any policy can do; one of somebody else's is a frozen dataclass of plain JSON values.

    `choose` is a function of the scores and the key alone: equal keys give equal choices, other
    keys independent ones. Only arms that are `Scores.eligible` may be chosen. `propensities` are
    the probabilities, over keys, with which each arm is chosen: they sum to one, or are all zero
    where nothing may be played and `choose` returns -1. An agent has every field of `Scores` filled
    and asks only where some arm is eligible. `bridle.testing.check_policy` checks all of this.

    Attributes
    ----------
    needs_limits : bool
        Whether the policy keeps to what is surely allowed: then only such arms are eligible, and
        the agent may ask the teacher and have plays checked. Otherwise all arms are but those that
        the teacher denied in this very case or a declared rule denies.
    """

    needs_limits: ClassVar[bool]

    def choose(self, scores: Scores, key: int) -> int:
        """Return the arm to play, or -1 if none may be played; `key` are 64 random bits."""
        ...

    def propensities(self, scores: Scores) -> Floats:
        """Return the probability of each arm: K numbers."""
        ...


class Weighted:
    """`choose` and `propensities` for every policy that is seven numbers."""

    __slots__ = ()
    # True: the policy must be told which arms are allowed (Scores.allowed).
    needs_truth: ClassVar[bool] = False
    # True: the policy plays only what the limits are sure of (also Scores.allowed).
    needs_limits: ClassVar[bool] = False

    @property
    def weights(self) -> Weights:
        """What this policy makes of the scores, as the kernels read it."""
        raise NotImplementedError

    def choose(self, scores: Scores, key: int) -> int:
        """Return the arm to play, or -1 if none may be played."""
        parts, eligible, allowed = self._parts(scores)
        number = np.uint64(validation.SEED.check(key, "key", type(self).__name__))
        start = keys.stream(0, keys.DECIDE)
        w = np.array(self.weights)
        return int(choice.choose(w, parts, eligible, allowed, start, number))

    def propensities(self, scores: Scores) -> Floats:
        """Return the exact probability of each arm, to about 1e-12."""
        parts, eligible, allowed = self._parts(scores)
        w = np.array(self.weights)
        out = np.empty(parts.shape[1])
        loc = choice.locations(w, parts)
        scale = choice.spreads(w, parts)
        wins.propensities(w, loc, scale, eligible, allowed, out)
        return out

    def _parts(self, scores: Scores) -> tuple[Floats, Bools, Bools]:
        if not isinstance(scores, Scores):
            raise InvalidValue("scores", type(self).__name__, "a Scores", scores)
        if (self.needs_truth or self.needs_limits) and scores.allowed is None:
            where = (
                "simulate, where the truth is" if self.needs_truth else "an Agent, where they are"
            )
            raise NotPossible(
                f"{type(self).__name__} must be told which arms are allowed: "
                f"give Scores(allowed=...), or use it in {where} known."
            )
        return scores.parts()


def _check(policy: object, name: str, allowed: validation.FloatRange) -> None:
    # Frozen dataclasses hold what the range gave back: a float, whatever number came.
    value = allowed.check(getattr(policy, name), name, type(policy).__name__)
    object.__setattr__(policy, name, value)


def _check_spread(policy: Any) -> None:
    if policy.v is not None:
        _check(policy, "v", validation.SPREAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thompson(Weighted):
    """Contextual Thompson sampling (CTS): draw every arm's score, play the best.

    Parameters
    ----------
    v : float, optional
        Spread of the draws, in posterior standard deviations. Left out: the agent's own, by its
        prior; .25 where there is no agent.

    Examples
    --------
    >>> scores = Scores(reward_mean=np.array([0.1, 0.2]), reward_sd=np.array([1.0, 1.0]))
    >>> Thompson(v=0.1).propensities(scores).round(4).tolist()
    [0.2398, 0.7602]
    """

    v: float | None = None

    def __post_init__(self) -> None:
        _check_spread(self)

    @property
    def weights(self) -> Weights:
        """What this policy makes of the scores."""
        v = DEFAULT_V if self.v is None else self.v
        return Weights(1.0, 0.0, v, 0.0, 0.0, 0.0, NO_MASK)


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviorConstrained(Weighted):
    """Behavior constrained Thompson sampling (BCTS): a blend of reward and of what was taught.

    Parameters
    ----------
    sigma : float, default 0.25
        The dial: 0 plays only by what was taught, 1 only by reward.
    v : float, optional
        Spread of the reward draws, in posterior standard deviations; left out as in `Thompson`.
    v_constraint : float, optional
        Spread of the constraint draws; `v` by default.

    Examples
    --------
    >>> even = np.array([1.0, 1.0])
    >>> scores = Scores(np.array([0.9, 0.1]), 0 * even, np.array([0.0, 1.0]), 0 * even)
    >>> [BehaviorConstrained(sigma=sigma).choose(scores, key=1) for sigma in (0.0, 1.0)]
    [1, 0]
    """

    sigma: float = 0.25
    v: float | None = None
    v_constraint: float | None = None

    def __post_init__(self) -> None:
        _check(self, "sigma", validation.SIGMA)
        _check_spread(self)
        if self.v_constraint is not None:
            _check(self, "v_constraint", validation.SPREAD)

    @property
    def weights(self) -> Weights:
        """What this policy makes of the scores."""
        v = DEFAULT_V if self.v is None else self.v
        v_limit = v if self.v_constraint is None else self.v_constraint
        return Weights(self.sigma, 1.0 - self.sigma, v, v_limit, 0.0, 0.0, NO_MASK)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMask(Weighted):
    """The paper's Constraint Mask: Thompson sampling that is told which arms are allowed.

    Parameters
    ----------
    reading : {"argmax", "filter"}, default "argmax"
        `argmax`: the best draw among the allowed arms. `filter`: the best draw of all and, where
        that arm is denied, a uniformly random allowed one.
    v : float, optional
        Spread of the draws; .25 if left out.
    """

    reading: str = "argmax"
    v: float | None = None
    needs_truth: ClassVar[bool] = True

    def __post_init__(self) -> None:
        validation.one_of(self.reading, ("argmax", "filter"), "reading", "KnownMask")
        _check_spread(self)

    @property
    def weights(self) -> Weights:
        """What this policy makes of the scores."""
        v = DEFAULT_V if self.v is None else self.v
        mask = MASK_ARGMAX if self.reading == "argmax" else MASK_FILTER
        return Weights(1.0, 0.0, v, 0.0, 0.0, 0.0, mask)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedMask(Weighted):
    """Thompson sampling among the arms that the limits are sure of.

    Parameters
    ----------
    sigma : float, default 1.0
        How arms inside the limits are compared: 1 by reward alone; below, the probability of
        "allowed" takes part with weight 1 − sigma. No sigma leads out of the limits.
    v : float, optional
        Spread of the draws, in posterior standard deviations. Left out: the agent's own, by its
        prior; .05 where there is no agent.

    Examples
    --------
    >>> scores = Scores(np.array([0.9, 0.1]), np.zeros(2), allowed=np.array([False, True]))
    >>> LearnedMask().choose(scores, key=1)
    1
    """

    sigma: float = 1.0
    v: float | None = None
    needs_limits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self, "sigma", validation.SIGMA)
        _check_spread(self)

    @property
    def weights(self) -> Weights:
        """What this policy makes of the scores."""
        v = CENTRED_V if self.v is None else self.v
        return Weights(self.sigma, 1.0 - self.sigma, v, 0.0, 0.0, 0.0, MASK_ARGMAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform(Weighted):
    """Any eligible arm with equal probability."""

    @property
    def weights(self) -> Weights:
        """What this policy makes of the scores."""
        return Weights(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, NO_MASK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy(Weighted):
    """The arm with the highest mean reward; ties fall uniformly."""

    @property
    def weights(self) -> Weights:
        """What this policy makes of the scores."""
        return Weights(1.0, 0.0, 0.0, 0.0, 0.0, 0.0, NO_MASK)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonGreedy(Weighted):
    """With probability `epsilon` a uniformly random eligible arm, else the greedy one.

    Parameters
    ----------
    epsilon : float, default 0.1
        Share of random plays.
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        _check(self, "epsilon", validation.FRACTION)

    @property
    def weights(self) -> Weights:
        """What this policy makes of the scores."""
        return Weights(1.0, 0.0, 0.0, 0.0, 0.0, self.epsilon, NO_MASK)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinUCB(Weighted):
    """The arm with the highest upper confidence bound, mean + alpha·sd (Li et al. 2010).

    Parameters
    ----------
    alpha : float, default 1.0
        Width of the bound, in posterior standard deviations.
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "alpha", validation.SPREAD)

    @property
    def weights(self) -> Weights:
        """What this policy makes of the scores."""
        return Weights(1.0, 0.0, 0.0, 0.0, self.alpha, 0.0, NO_MASK)


class Formula:
    """`choose` and `propensities` for policies whose probabilities are a formula."""

    __slots__ = ()
    needs_truth: ClassVar[bool] = False
    needs_limits: ClassVar[bool] = False

    def choose(self, scores: Scores, key: int) -> int:
        """Return the arm to play, or -1 if none may be played."""
        parts, eligible = self._parts(scores)
        number = validation.SEED.check(key, "key", type(self).__name__)
        return self.choose_by(parts[0], eligible, scores.plays, number)

    def propensities(self, scores: Scores) -> Floats:
        """Return the exact probability of each arm."""
        parts, eligible = self._parts(scores)
        return self.propensities_by(parts[0], eligible, scores.plays)

    def choose_by(self, mean: Floats, eligible: Bools, plays: float, key: int) -> int:
        """Do what `choose` does, by the only scores that it needs, checked before."""
        if not eligible.any():
            return -1
        mixed = np.uint64(keys.key_of(keys.stream(0, keys.DECIDE), np.uint64(key)))
        return self._choose(mean, eligible, plays, mixed)

    def propensities_by(self, mean: Floats, eligible: Bools, plays: float) -> Floats:
        """Do what `propensities` does, by the only scores that it needs, checked before."""
        out = np.zeros(len(eligible))
        if eligible.any():
            self._fill(mean, eligible, plays, out)
        return out

    def _choose(self, mean: Floats, eligible: Bools, plays: float, key: np.uint64) -> int:
        raise NotImplementedError

    def _fill(self, mean: Floats, eligible: Bools, plays: float, out: Floats) -> None:
        raise NotImplementedError

    def _parts(self, scores: Scores) -> tuple[Floats, Bools]:
        if not isinstance(scores, Scores):
            raise InvalidValue("scores", type(self).__name__, "a Scores", scores)
        validation.NON_NEGATIVE.check(scores.plays, "plays", "Scores")
        parts, eligible, _ = scores.parts()
        return parts, eligible


@dataclass(frozen=True, slots=True, kw_only=True)
class SquareCB(Formula):
    """Inverse gap weighting: an arm is played the less often, the further it falls behind.

    An arm whose mean reward falls behind the best by `gap` is played with probability
    1 / (A + gamma·gap), for A arms that may be played; the best has the rest (Foster and Rakhlin
    2020).

    Parameters
    ----------
    gamma : float, optional
        The higher, the greedier. By default it grows with what was learned, as in the paper:
        10·√(A·plays), for `plays` rewards so far.

    Examples
    --------
    >>> scores = Scores(reward_mean=np.array([0.9, 0.4, 0.9]), reward_sd=np.zeros(3))
    >>> SquareCB(gamma=34.0).propensities(scores).tolist()
    [0.475, 0.05, 0.475]
    """

    gamma: float | None = None

    def __post_init__(self) -> None:
        if self.gamma is not None:
            _check(self, "gamma", GAMMA)

    def _fill(self, mean: Floats, eligible: Bools, plays: float, out: Floats) -> None:
        gamma = self.gamma
        if gamma is None:
            gamma = GAMMA_SCALE * math.sqrt(np.count_nonzero(eligible) * max(plays, 1.0))
        odds.inverse_gaps(mean, eligible, gamma, out)

    def _choose(self, mean: Floats, eligible: Bools, plays: float, key: np.uint64) -> int:
        shares = np.empty(len(mean))
        self._fill(mean, eligible, plays, shares)
        return int(odds.draw(shares, keys.uniform(np.uint64(keys.aside(key)))))


class Racing(Formula):
    """What `Softmax` and `PlackettLuce` do when one arm is played."""

    __slots__ = ()
    temperature: float

    def _fill(self, mean: Floats, eligible: Bools, plays: float, out: Floats) -> None:
        odds.softmax(mean, eligible, self.temperature, out)

    def _choose(self, mean: Floats, eligible: Bools, plays: float, key: np.uint64) -> int:
        return int(odds.race(mean, eligible, self.temperature, key))


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(Racing):
    """An arm of mean reward m with probability in proportion to e^(m / temperature).

    Parameters
    ----------
    temperature : float, default 0.05
        In rewards: at twice the temperature the best are half as far ahead.

    Examples
    --------
    >>> scores = Scores(reward_mean=np.array([0.5, 0.4]), reward_sd=np.zeros(2))
    >>> Softmax().propensities(scores).round(4).tolist()
    [0.8808, 0.1192]
    """

    temperature: float = 0.05

    def __post_init__(self) -> None:
        _check(self, "temperature", TEMPERATURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlackettLuce(Racing):
    """`Softmax` for slates: each place by a softmax over the arms that are left.

    The probability of a whole slate is the product over its places: `bridle.slates.joint`. Where
    one arm is played it is `Softmax`.

    Parameters
    ----------
    temperature : float, default 0.05
        As in `Softmax`.
    """

    temperature: float = 0.05

    def __post_init__(self) -> None:
        _check(self, "temperature", TEMPERATURE)


@dataclass(frozen=True, slots=True)
class Masked:
    """Any policy, among the arms that the limits are sure of, with its exact propensities there.

    Parameters
    ----------
    policy : Policy
        One that does not keep to limits itself: `Masked(SquareCB())`, `Masked(EpsilonGreedy())`.

    Examples
    --------
    >>> means, allowed = np.array([0.9, 0.4, 0.3]), np.array([False, True, True])
    >>> scores = Scores(reward_mean=means, reward_sd=np.zeros(3), allowed=allowed)
    >>> Masked(EpsilonGreedy(epsilon=0.2)).propensities(scores).tolist()
    [0.0, 0.9, 0.1]
    """

    policy: Policy
    needs_truth: ClassVar[bool] = False
    needs_limits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        wanted = "a policy that does not keep to limits itself"
        inner = self.policy
        known = isinstance(inner, Policy) and not isinstance(inner, type)
        if not known or inner.needs_limits or getattr(inner, "needs_truth", False):
            raise InvalidValue("policy", "Masked", wanted, inner)
        if "policy" in _parameters(type(inner)):
            raise InvalidValue("policy", "Masked", "without a field 'policy' of its own", inner)

    def choose(self, scores: Scores, key: int) -> int:
        """Return the arm to play, or -1 if none may be played."""
        return self.policy.choose(self._inside(scores), key)

    def propensities(self, scores: Scores) -> Floats:
        """Return the probability of each arm, by the policy inside."""
        return self.policy.propensities(self._inside(scores))

    def _inside(self, scores: Scores) -> Scores:
        if not isinstance(scores, Scores):
            raise InvalidValue("scores", "Masked", "a Scores", scores)
        if scores.allowed is None:
            raise NotPossible(
                "Masked must be told which arms are allowed: give Scores(allowed=...), or use it "
                "in an Agent, where they are known."
            )
        _, eligible, allowed = scores.parts()
        may = eligible & allowed
        return replace(scores, eligible=may, allowed=may.copy())


def spread_of(*, R: float, z: float, gamma: float, features: int) -> float:
    """Return the paper's spread v = R·√((24/z)·d·ln(1/γ)) for those who have its constants.

    Examples
    --------
    >>> round(spread_of(R=0.01, z=0.9, gamma=0.1, features=10), 3)
    0.248
    """
    inside = validation.FloatRange(0.0, 1.0, open_low=True)
    R = validation.POSITIVE.check(R, "R", "spread_of")
    z = inside.check(z, "z", "spread_of")
    gamma = inside.check(gamma, "gamma", "spread_of")
    d = validation.COUNT.check(features, "features", "spread_of")
    return R * math.sqrt(24.0 / z * d * math.log(1.0 / gamma))


_KINDS: dict[str, type[Policy]] = {
    kind.__name__: kind
    for kind in (
        Thompson,
        BehaviorConstrained,
        KnownMask,
        LearnedMask,
        Uniform,
        Greedy,
        EpsilonGreedy,
        LinUCB,
        SquareCB,
        Softmax,
        PlackettLuce,
        Masked,
    )
}


def policy_to_json(policy: Policy) -> registry.Options:
    """Return a policy as plain JSON values: its kind, of others' its version, every parameter.

    Raises `InvalidValue` for what is neither ours nor registered.
    """
    kind = type(policy)
    if isinstance(policy, Masked):  # flat, as options are: the kind inside beside its parameters
        inner = policy_to_json(policy.policy)
        return {"kind": "Masked", "policy": inner.pop("kind"), **inner}
    if kind.__name__ in _KINDS and kind is _KINDS[kind.__name__]:
        return {"kind": kind.__name__} | {name: getattr(policy, name) for name in _parameters(kind)}
    known = registry.of_factory("policy", kind)
    if known is None:
        remedy = "Register it first: bridle.register('policy', name, its class, version='1')."
        wanted = f"one of bridle's own, {sorted(_KINDS)}, or registered"
        raise InvalidValue("policy", "Agent", wanted, policy, remedy)
    values = {name: getattr(policy, name) for name in _parameters(kind)}
    return {"kind": known.name, "version": known.version} | registry.options_of(
        values, "policy", known.name
    )


def policy_from_json(data: registry.Options) -> Policy:
    """Return the policy that `policy_to_json` wrote.

    Raises `NotRegistered` for one of others' that is not here in this version, `CorruptState` for
    what is no policy.
    """
    rest = dict(data)
    name = str(rest.pop("kind", None))
    if name == "Masked" and "policy" in rest:
        return Masked(policy_from_json({"kind": rest.pop("policy"), **rest}))
    kind: Any = _KINDS.get(name)
    if isinstance(rest.get("version"), str):  # of somebody else's, also where ours has its name
        kind = registry.require("policy", name, str(rest.pop("version"))).factory
    if kind is None or set(rest) - set(_parameters(kind)):
        raise CorruptState(f"No policy of bridle is written as {data}.")
    return cast("Policy", kind(**rest))


def policy_of(kind: str, options: registry.Options) -> Policy:
    """Return the policy of that name, ours or registered, with these parameters.

    >>> policy_of("EpsilonGreedy", {"epsilon": 0.2})
    EpsilonGreedy(epsilon=0.2)
    """
    if kind == "Masked":
        rest = dict(options)
        inner = rest.pop("policy", None)
        if not isinstance(inner, str):
            wanted = "of Masked with the name of a policy: policy='SquareCB'"
            raise InvalidValue("policy", "Agent", wanted, inner)
        return Masked(policy_of(inner, rest))
    known: Any = _KINDS.get(kind)
    if known is None:
        found = registry.find("policy", kind)
        if found is None:
            wanted = f"one of {sorted(_KINDS)}, or one that is registered"
            raise InvalidValue("policy", "Agent", wanted, kind)
        known = found.factory
    names = _parameters(known)
    strange = sorted(set(options) - set(names))
    if strange:
        wanted = f"{', '.join(names)} alone for {kind}" if names else f"none for {kind}"
        raise InvalidValue("policy", "Agent", f"with the parameters that it has: {wanted}", strange)
    try:
        return cast("Policy", known(**options))
    except BridleError:
        raise
    except (TypeError, ValueError) as error:  # of somebody else's
        wanted = f"with parameters that {kind} takes: {error}"
        raise InvalidValue("policy", "Agent", wanted, options) from None


def _parameters(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cast("Any", kind)) if field.init]


def kernel_weights(policy: Policy) -> Floats:
    """Return the seven numbers that the kernels read.

    Of a policy that is not seven numbers those of `Greedy`: what is not chosen by it, such as what
    an answer would be worth, goes by the mean rewards.
    """
    inner = policy.policy if isinstance(policy, Masked) else policy
    return np.array((inner if isinstance(inner, Weighted) else Greedy()).weights)


def chosen(policy: Policy, scores: Scores, key: int) -> int:
    """Return the arm that somebody else's policy plays, checked; -1 where none may be played."""
    eligible = np.array(scores.eligible)  # a copy: what the policy writes into counts for nothing
    if not eligible.any():
        return -1
    k = policy.choose(scores, key)
    is_arm = isinstance(k, int | np.integer) and not isinstance(k, bool) and 0 <= k < len(eligible)
    if not is_arm or not eligible[k]:
        raise NotPossible(
            f"The policy {type(policy).__name__} chose arm {k!r:.100}, which is not eligible. "
            "bridle.testing.check_policy shows what a policy must do."
        )
    return int(k)


def odds_of(policy: Policy, scores: Scores) -> Floats:
    """Return the propensities of somebody else's policy, checked: (K,)."""
    eligible = np.array(scores.eligible)  # a copy, as in `chosen`
    if not eligible.any():
        return np.zeros(len(eligible))
    given = policy.propensities(scores)
    try:
        odds = np.array(given, np.float64)
    except (TypeError, ValueError):
        odds = np.full(len(eligible), np.nan)
    fits = odds.shape == eligible.shape and abs(float(odds.sum()) - 1.0) <= 1e-6
    if not fits or (odds < 0.0).any() or (odds[~eligible] > 0.0).any():
        raise NotPossible(
            f"The propensities of the policy {type(policy).__name__}, {odds!r:.200}, are not those "
            "of eligible arms. bridle.testing.check_policy shows what a policy must do."
        )
    return odds


def with_sigma(policy: Policy, sigma: float) -> BehaviorConstrained | LearnedMask:
    """Return the same policy with another sigma; raise `NotPossible` if it has none."""
    if not isinstance(policy, BehaviorConstrained | LearnedMask):
        raise NotPossible(
            f"{type(policy).__name__} has no sigma. Make the agent with BehaviorConstrained or "
            "LearnedMask."
        )
    return replace(policy, sigma=sigma)


def with_spread(policy: Policy, v: float) -> Policy:
    """Return the same policy with this spread of its draws; raise `NotPossible` if it has none."""
    if isinstance(policy, Masked):
        return Masked(with_spread(policy.policy, v))
    if not isinstance(policy, _DRAWING):
        raise NotPossible(f"{type(policy).__name__} does not draw: it has no spread to set.")
    return replace(policy, v=v)


def with_default_spread(policy: Policy, v: float) -> Policy:
    """Return the same policy with this spread where it leaves its own out."""
    inner = policy.policy if isinstance(policy, Masked) else policy
    left_out = isinstance(inner, _DRAWING) and inner.v is None
    return with_spread(policy, v) if left_out else policy


def in_units(policy: Policy, unit: float, noise: float) -> Policy:
    """Return the policy whose spread is `unit` times as wide, or whose bonus `noise` times."""
    if isinstance(policy, Masked):
        return Masked(in_units(policy.policy, unit, noise))
    if isinstance(policy, _DRAWING):
        return replace(policy, v=policy.weights.v * unit)
    if isinstance(policy, LinUCB):
        return replace(policy, alpha=policy.alpha * noise)
    return policy


_DRAWING = (Thompson, BehaviorConstrained, KnownMask, LearnedMask)


# --- Which arm to ask the teacher about, for the context at hand --------------------------
#
# Asking is choosing with the label in the place of the reward, so a way of teaching is a policy
# over the limits' own scores: `random` is `Uniform`, `thompson` is `Thompson` on the label. The
# active ways take the arm whose answer would teach most (`most_informative`).


TEACHINGS = ("random", "thompson")
# `arm`: the context is given, the agent picks the arm. `pool`: it picks the context too.
ACTIVE = ("arm", "pool")
# What differs by less is a tie, and falls by the question's own bits.
_TIE = 1.0 - 1e-9


def teaching_policy(teaching: str, v: float = DEFAULT_V) -> Uniform | Thompson:
    """Return the policy that picks the arm of the next question.

    Parameters
    ----------
    teaching : {"random", "thompson"}
        `random`: every arm with equal probability. `thompson`: Thompson sampling on the label,
        which asks most about arms that it believes to be allowed.
    v : float, default 0.25
        Spread of the draws of `thompson`.

    Examples
    --------
    >>> teaching_policy("thompson", v=0.1)
    Thompson(v=0.1)
    """
    validation.one_of(teaching, TEACHINGS, "teaching", "teaching_policy")
    return Thompson(v=v) if teaching == "thompson" else Uniform()


def most_informative(information: Floats, key: np.uint64) -> int:
    """Return the place of the highest information; of equal ones a uniformly random one.

    Examples
    --------
    >>> most_informative(np.array([0.1, 0.6, 0.2]), np.uint64(1))
    1
    """
    best = np.flatnonzero(information >= information.max() * _TIE)
    return int(best[int(keys.uniform(np.uint64(keys.bits_of(key, 2))) * len(best))])

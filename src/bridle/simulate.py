"""Both phases of the paper over a world's tables, at full speed.

`teach` is the teaching phase, `online` the online phase, `simulate` the one after the other. Each
runs in one compiled loop. Step for step they do what an `Agent` with the same seed does, to the
bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.agent.joint import best_few
from bridle.agent.purse import Purse
from bridle.agent.selection import scores_for
from bridle.agent.teachers import ERROR, LEAST_P, REVIEWED, SETTLES, Settled, Teacher, Teachers
from bridle.errors import InvalidValue, NotPossible
from bridle.kernels import choice, doubt, keys, loop, questions, shared
from bridle.kernels.choice import as_weights
from bridle.kernels.purse import coin_at
from bridle.kernels.scaled import Recent
from bridle.kernels.types import MASK_ARGMAX, MASK_FILTER, Bools, Floats, Ints
from bridle.limits import Beliefs, Limits, LinearLimits, PairLimits
from bridle.limits.exceptions import START, ExceptionRates
from bridle.policies import (
    CENTRED_V,
    DEFAULT_V,
    BehaviorConstrained,
    Policy,
    Thompson,
    Weighted,
    chosen,
    in_units,
    kernel_weights,
    most_informative,
    teaching_policy,
    with_default_spread,
)
from bridle.reward.base import Forget, RewardModel, boldness_of, check_forget, scores_of
from bridle.reward.posterior import LinearArms
from bridle.reward.scaled import ScaledArms
from bridle.reward.shared import SharedArms

__all__ = [
    "ON_EMPTY",
    "QUESTIONS",
    "Asking",
    "Lesson",
    "Run",
    "Tables",
    "Taught",
    "check_world",
    "learned_mask",
    "online",
    "online_asking",
    "simulate",
    "teach",
    "teach_beliefs",
]


STEPS = validation.IntRange(0, 2**40)
PRIORS = ("paper", "centred", "scaled")
# Sum and number of the rewards that the mean of all rewards starts from.
FIRST_GUESS: Floats = np.array([0.5, 1.0])
# What the kernel takes of arms that find no scale.
NOTHING: Floats = np.zeros(0)
NO_PRIOR: Floats = np.zeros((2, 0))
NO_RECENT = Recent(
    np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 2, 0)), np.zeros((0, 3)), np.zeros(0, np.int64)
)


@dataclass(frozen=True, eq=False)
class Tables:
    """A world as tables: M contexts, K arms.

    Parameters
    ----------
    contexts : array (M, d)
        What can be shown.
    rewards : array (M, K)
        What each arm earns in each context, in [0, 1].
    allowed : array (M, K) of bools
        The truth about the limits. No agent sees it, but for `KnownMask`.
    arm_features : array (K, p), optional
        What each arm is like. Then `online` learns one model for all arms (`SharedArms`), and what
        one arm earns teaches the others.
    """

    contexts: Floats
    rewards: Floats
    allowed: Bools
    arm_features: Floats | None = None

    def __post_init__(self) -> None:
        contexts = validation.matrix(self.contexts, None, "contexts", "Tables")
        rewards = validation.matrix(self.rewards, None, "rewards", "Tables")
        if not contexts.size or not rewards.size or len(rewards) != len(contexts):
            raise InvalidValue(
                "rewards",
                "Tables",
                f"of shape ({len(contexts)}, K), as contexts has "
                f"{contexts.shape}, with at least one row and column",
                rewards.shape,
            )
        if rewards.min() < 0.0 or rewards.max() > 1.0:
            worst = rewards.min() if rewards.min() < 0.0 else rewards.max()
            raise InvalidValue("rewards", "Tables", "in the range [0, 1]", float(worst))
        allowed = _table(self.allowed, rewards.shape, "allowed", "Tables")
        for name, value in (("contexts", contexts), ("rewards", rewards), ("allowed", allowed)):
            object.__setattr__(self, name, value)
        if self.arm_features is not None:
            rows = validation.matrix(self.arm_features, None, "arm_features", "Tables")
            if len(rows) != rewards.shape[1]:
                wanted = f"of shape ({rewards.shape[1]}, p), a row an arm"
                raise InvalidValue("arm_features", "Tables", wanted, rows.shape)
            object.__setattr__(self, "arm_features", rows)

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return int(self.rewards.shape[1])

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return int(self.contexts.shape[1])

    def __len__(self) -> int:
        return len(self.contexts)

    @cached_property
    def best(self) -> Floats:
        """The best reward in each context, over all arms: (M,)."""
        best: Floats = self.rewards.max(axis=1)
        return best

    @cached_property
    def best_allowed(self) -> Floats:
        """The best reward of an allowed arm, 0 where none is: (M,)."""
        best: Floats = np.where(self.allowed, self.rewards, 0.0).max(axis=1)
        return best


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a teaching phase gave.

    Attributes
    ----------
    limits : mapping from N to LinearLimits
        What was learned after the first N examples, for each N asked for.
    rows, arms : arrays
        What was asked, in order: the context's row and the arm.
    """

    limits: Mapping[int, LinearLimits]
    rows: Ints
    arms: Ints

    def denials(self, tables: Tables, examples: int) -> Bools:
        """Mark the (context, arm) pairs that the first N answers denied exactly: (M, K)."""
        examples = validation.IntRange(0, len(self.arms)).check(
            examples, "examples", "Lesson.denials"
        )
        _, kind = np.unique(tables.contexts, axis=0, return_inverse=True)
        kind = kind.ravel()
        rows, arms = self.rows[:examples], self.arms[:examples]
        said_no = ~tables.allowed[rows, arms]
        denied = np.zeros((int(kind.max()) + 1, tables.arms), np.bool_)
        denied[kind[rows[said_no]], arms[said_no]] = True
        return denied[kind]


@dataclass(frozen=True, eq=False)
class Run:
    """What an online phase gave; arrays have an entry a checkpoint.

    Attributes
    ----------
    checkpoints : array
        The steps t at which the measures were taken; the last step is among them.
    R : array
        Average regret against the best arm of all.
    Rc : array
        Average regret against the best allowed arm, a denied play earning 0.
    E : array
        Denied arms played so far.
    abstentions : array
        Steps so far at which nothing could be played.
    rows, played : arrays (T,)
        The contexts shown and the arms played (-1: none).
    arms : LinearArms
        What was learned about reward; the model that was given, if one was.
    """

    checkpoints: Ints
    R: Floats
    Rc: Floats
    E: Ints
    abstentions: Ints
    rows: Ints
    played: Ints
    arms: LinearArms

    def __repr__(self) -> str:
        if not len(self.checkpoints):
            return "Run(no steps)"
        return (
            f"Run(T={self.checkpoints[-1]}, R={self.R[-1]:.3f}, Rc={self.Rc[-1]:.3f}, "
            f"E={self.E[-1]}, abstentions={self.abstentions[-1]})"
        )


def teach(
    tables: Tables,
    *,
    examples: int | Sequence[int],
    teaching: str = "random",
    rows: npt.ArrayLike | None = None,
    seed: int = 0,
    v: float = DEFAULT_V,
    ridge: float = 1.0,
    label_coding: str = "1/0",
) -> Lesson:
    """Run the teaching phase: show a context, pick an arm, fold the teacher's answer, N times.

    Parameters
    ----------
    tables : Tables
        The world.
    examples : int or list of ints
        N, or several: teaching with N is a prefix of teaching with more, so one pass serves all.
    teaching : {"random", "thompson"}
        How the arm is picked.
    rows : array of ints, optional
        The contexts to show, in order, at least N of them. By default all of the world's, drawn
        with replacement.
    seed : int, default 0
        Two lessons with equal arguments are equal.
    v, ridge, label_coding
        As in `Agent`: v_teaching, ridge_limits, label_coding.

    Examples
    --------
    >>> tables = Tables(np.eye(2), np.ones((2, 3)), np.array([[1, 1, 0], [1, 0, 1]]))
    >>> lesson = teach(tables, examples=[100, 1000], seed=1)
    >>> lesson.limits[1000].scores([1.0, 0.0])[0].round(2).tolist()
    [0.99, 0.99, 0.0]
    """
    _check_tables(tables, "teach")
    several = isinstance(examples, list | tuple | range | np.ndarray)
    listed = np.atleast_1d(np.asarray(examples, object)).ravel() if several else [examples]
    sizes = [STEPS.check(size, "examples", "teach") for size in listed]
    shown = _shown(tables, rows, max(sizes, default=0), seed, "teach", keys.ASK)
    w = teaching_policy(teaching, v).weights
    limits = LinearLimits(
        arms=tables.arms, features=tables.features, ridge=ridge, label_coding=label_coding
    )
    start = keys.stream(validation.SEED.check(seed, "seed", "teach"), keys.ASK)
    labels = limits.code(tables.allowed)
    every = np.ones((1, tables.arms), np.bool_)
    nothing = np.zeros((1, tables.arms))
    asked = np.empty(len(shown), np.int64)
    numbers = np.arange(1, len(shown) + 1, dtype=np.uint64)
    kept: dict[int, LinearLimits] = {}
    done = 0
    for size in sorted(set(sizes)):
        loop.run(
            w,
            limits.linear.kernel_state,
            limits.linear.ridge,
            tables.contexts,
            labels,
            tables.allowed,
            every,
            nothing,
            nothing,
            shown[done:size],
            start,
            numbers[done:size],
            True,
            asked[done:size],
            False,
            np.zeros(2),
        )
        done = size
        kept[size] = limits.copy()
    return Lesson(kept, shown[:done], asked[:done])


def online(
    tables: Tables,
    *,
    policy: Policy,
    limits: Limits | None = None,
    steps: int | None = None,
    rows: npt.ArrayLike | None = None,
    eligible: npt.ArrayLike | None = None,
    checkpoints: Sequence[int] | npt.NDArray[np.integer] | None = None,
    seed: int = 0,
    ridge: float = 1.0,
    prior: str = "paper",
    model: RewardModel | None = None,
) -> Run:
    """Run the online phase: show a context, play an arm, learn from its reward, T times.

    Parameters
    ----------
    tables : Tables
        The world.
    policy : policy
        Any of `bridle.policies`, or one of your own, which runs in plain Python.
    limits : Limits, optional
        What was taught, frozen. Needed by a policy that weighs it.
    steps : int, optional
        T; the number of rows by default.
    rows : array of ints, optional
        The contexts to show, in order. By default T of the world's, drawn with replacement.
    eligible : array (M, K) of bools, optional
        Arms that may be played at all, for exact denials or known rules; all by default.
    checkpoints : list of ints, optional
        Steps at which to measure; 100 evenly spread ones by default. T is always among them.
    seed : int, default 0
        Two runs with equal arguments are equal.
    ridge : float, default 1.0
        Prior precision of the reward part.
    prior : {"paper", "centred", "scaled"}
        What is expected of an arm before it is tried: a reward of 0, as in the paper, or the mean
        of all rewards so far, with an intercept for each arm. The second needs far less spread in
        its draws: v = .05. `scaled` is the second, which finds its scale and begins anew where
        rewards change, as an `Agent` does by default; a policy that leaves out `v` has an agent's.
    model : RewardModel, optional
        Learns from the rewards in the place of ours, in plain Python; it is updated. Then `ridge`
        and `prior` say nothing. Where arms have features it is a `SharedArms` by default, which is
        compiled, too, and scales itself.

    Examples
    --------
    >>> from bridle.policies import Thompson
    >>> tables = Tables(np.ones((1, 1)), np.array([[0.2, 0.9]]), np.ones((1, 2)) == 1)
    >>> online(tables, policy=Thompson(), steps=1000, seed=1).R[-1] < 0.05
    np.True_
    """
    _check_tables(tables, "online")
    if not isinstance(policy, Policy):
        raise InvalidValue("policy", "online", "one of bridle.policies", policy)
    shown = shown_rows(tables, rows, steps, seed, "online")
    marks = marks_at(checkpoints, len(shown))
    centred = validation.one_of(prior, PRIORS, "prior", "online") != "paper"
    shape = {"arms": tables.arms, "features": tables.features + centred}
    arms = ScaledArms(**shape) if prior == "scaled" else LinearArms(**shape, ridge=ridge)
    given = _Given(
        tables=tables,
        policy=policy,
        may=_may_play(tables, policy, eligible),
        limits=_limit_scores(tables, policy, limits),
        shown=shown,
        start=keys.stream(validation.SEED.check(seed, "seed", "online"), keys.DECIDE),
        centred=centred,
    )
    _check_model(model, tables, "online")
    if model is None and tables.arm_features is not None:
        own = SharedArms(rows=tables.arm_features, features=tables.features)
        model = cast("RewardModel", own)
    if isinstance(policy, Weighted) and isinstance(model, SharedArms):
        played = _run_shared(given, policy, model)
    elif isinstance(policy, Weighted) and model is None and isinstance(arms, ScaledArms):
        played = _run_scaled(given, policy, arms)
    elif isinstance(policy, Weighted) and model is None:
        played = _run_compiled(given, policy, arms)
    else:
        played = _run_plain(given, arms if model is None else model)
    out = np.zeros((4, len(marks)))
    loop.tally(
        shown, played, tables.rewards, tables.allowed, tables.best, tables.best_allowed, marks, out
    )
    errors, abstentions = out[2].astype(np.int64), out[3].astype(np.int64)
    learned = arms if model is None else cast("LinearArms", model)
    return Run(marks, out[0], out[1], errors, abstentions, shown, played, learned)


class _Given(NamedTuple):
    """What an online phase runs on."""

    tables: Tables
    policy: Policy
    may: Bools  # (M, K), or (1, K) for all
    limits: tuple[Floats, Floats]  # belief and doubt: (M, K) each, or (1, K) for all
    shown: Ints
    start: np.uint64
    centred: bool


def _may_play(tables: Tables, policy: Policy, eligible: npt.ArrayLike | None) -> Bools:
    may = np.ones((1, tables.arms), np.bool_)
    if eligible is not None:
        may = _table(eligible, tables.rewards.shape, "eligible", "online")
    if policy.needs_limits and eligible is None:
        raise NotPossible(
            f"{policy} keeps to what was learned: "
            "give online(eligible=learned_mask(tables, limits))."
        )
    if isinstance(policy, Weighted) and policy.needs_truth and policy.weights.mask == MASK_ARGMAX:
        may = may & tables.allowed
    return may


def _limit_scores(tables: Tables, policy: Policy, limits: Limits | None) -> tuple[Floats, Floats]:
    """Return belief and doubt in every context; zeros where they play no part."""
    nothing = np.zeros((1, tables.arms))
    if isinstance(policy, Weighted) and policy.weights.limit == 0.0:
        return nothing, nothing
    if limits is None and not isinstance(policy, Weighted):
        return nothing, nothing
    if limits is None:
        raise NotPossible(f"{policy} weighs what was taught: give online(limits=...).")
    if not isinstance(limits, Limits):
        raise InvalidValue("limits", "online", "limits, as in Lesson.limits[N]", limits)
    if (limits.arms, limits.features) != (tables.arms, tables.features):
        shape = f"limits over {tables.arms} arms and {tables.features} features"
        raise InvalidValue("limits", "online", shape, (limits.arms, limits.features))
    return limits.scores_many(tables.contexts)


def _run_compiled(given: _Given, policy: Weighted, arms: LinearArms) -> Ints:
    """Return the arms that one of our policies plays, which our reward model learns from."""
    tables, T = given.tables, len(given.shown)
    played = np.empty(T, np.int64)
    loop.run(
        policy.weights,
        arms.kernel_state,
        arms.ridge,
        with_one(tables.contexts) if given.centred else tables.contexts,
        tables.rewards,
        tables.allowed,
        given.may,
        *given.limits,
        given.shown,
        given.start,
        np.arange(1, T + 1, dtype=np.uint64),
        True,
        played,
        given.centred,
        FIRST_GUESS.copy(),
    )
    return played


def _run_scaled(given: _Given, policy: Weighted, arms: ScaledArms) -> Ints:
    """Do the same where arms find their scale: in a loop of compiled steps.

    What other arms are believed to earn changes with it, which the compiled loop cannot know.
    """
    tables, T = given.tables, len(given.shown)
    if policy.weights.limit != 0.0 or policy.weights.mask == MASK_FILTER:
        raise NotPossible(
            f"{policy} blends in what was taught, or plays by the truth, which a world with the "
            "scaled prior does not know: give prior='centred' or 'paper'."
        )
    played = np.empty(T, np.int64)
    contexts = with_one(tables.contexts)
    whole = with_default_spread(policy, boldness_of(tables.arms))
    weights, unit = kernel_weights(whole), -1.0
    for t, row in enumerate(given.shown.tolist()):
        if unit != arms.unit:
            unit = arms.unit
            weights = kernel_weights(in_units(whole, unit, arms.noise))
        may = given.may[row if len(given.may) > 1 else 0]
        k = arms.pick(weights, arms.pull, contexts[row], may, given.start, np.uint64(t + 1))
        played[t] = k
        if k >= 0 and arms.fold(k, contexts[row], float(tables.rewards[row, k])):
            arms.rescale()
    return played


def _run_shared(given: _Given, policy: Weighted, model: SharedArms) -> Ints:
    """Do the same where arms share what is learned: one draw of what they share a step."""
    tables, T = given.tables, len(given.shown)
    played = np.empty(T, np.int64)
    own = getattr(policy, "v", 0.0) is None
    w = policy.weights
    if w.limit != 0.0 or w.reward != 1.0 or w.mask == MASK_FILTER:
        raise NotPossible(
            f"{policy} blends in what was taught, which a world with arm features does not know: "
            "use Thompson, LinUCB, EpsilonGreedy or Greedy with eligible=…"
        )
    each = len(given.may) > 1
    pattern = np.arange(len(tables)) if each else np.zeros(len(tables), np.int64)
    numbers = np.arange(1, T + 1, dtype=np.uint64)
    # Rivals learn outside of the loop, which then chooses one step at a time.
    whole = not model.half_lives
    for first in range(T) if not whole else (0,):
        steps = slice(0, T) if whole else slice(first, first + 1)
        shared.run(
            model.kernel_state,
            tables.contexts,
            tables.rewards,
            given.may,
            pattern,
            given.shown[steps],
            given.start,
            numbers[steps],
            model.spread if own else w.v,
            w.bonus,
            w.epsilon,
            whole,
            played[steps],
        )
        if not whole and played[first] >= 0:
            k, row = int(played[first]), int(given.shown[first])
            model.fold(k, tables.contexts[row], float(tables.rewards[row, k]))
    return played


def _run_plain(given: _Given, model: RewardModel) -> Ints:
    """Do the same in plain Python, where the policy or the reward model is somebody else's."""
    tables, policy = given.tables, given.policy
    scaled = model if isinstance(model, ScaledArms) else None
    if scaled is not None:
        policy = with_default_spread(policy, boldness_of(tables.arms))
    wide = tables.rewards.shape
    may = np.broadcast_to(given.may, wide)
    belief, doubts = (np.broadcast_to(part, wide) for part in given.limits)
    played = np.empty(len(given.shown), np.int64)
    totals, parts = FIRST_GUESS.copy(), np.empty((7, tables.arms))
    for t, row in enumerate(given.shown.tolist()):
        context = tables.contexts[row].copy()
        _score(model, context, given.centred, totals, parts)
        parts[2], parts[3] = belief[row], doubts[row]
        number = np.uint64(t + 1)
        acting = policy if scaled is None else in_units(policy, scaled.unit, scaled.noise)
        if isinstance(acting, Weighted):
            weights = kernel_weights(acting)
            allowed = np.ascontiguousarray(tables.allowed[row])
            mine = np.ascontiguousarray(may[row])
            k = int(choice.choose(weights, parts, mine, allowed, given.start, number))
        else:
            scores = scores_for(parts, may[row], totals[1])
            k = chosen(acting, scores, int(keys.key_of(given.start, number)))
        played[t] = k
        if k >= 0:
            _fold(model, context, given.centred, totals, k, float(tables.rewards[row, k]))
    return played


def _score(
    model: RewardModel, context: Floats, centred: bool, totals: Floats, parts: Floats
) -> None:
    """Fill rows 0 and 1 of `parts` with the mean and sd of every arm's reward."""
    if isinstance(model, ScaledArms):
        choice.reward_parts(model.kernel_state.A, model.kernel_state.mu, model.pull, context, parts)
    elif isinstance(model, LinearArms):
        pull = float(loop.pull_of(True, model.ridge, totals)) if centred else 0.0
        choice.reward_parts(model.kernel_state.A, model.kernel_state.mu, pull, context, parts)
    else:
        parts[0], parts[1] = scores_of(model, context)


def _fold(
    model: RewardModel, context: Floats, centred: bool, totals: Floats, k: int, reward: float
) -> None:
    if isinstance(model, LinearArms) and centred:
        context = np.append(context, 1.0)
    model.update(k, context, reward)
    totals += (reward, 1.0)


def _check_model(model: object, tables: Tables, owner: str) -> None:
    if model is not None and (
        not isinstance(model, RewardModel)
        or (model.arms, model.features) != (tables.arms, tables.features)
    ):
        wanted = f"a RewardModel of {tables.arms} arms and {tables.features} features"
        raise InvalidValue("model", owner, wanted, model)


def simulate(
    tables: Tables,
    *,
    policy: Policy,
    examples: int,
    steps: int,
    teaching: str = "random",
    teach_rows: npt.ArrayLike | None = None,
    online_rows: npt.ArrayLike | None = None,
    exact_denials: bool = False,
    checkpoints: Sequence[int] | npt.NDArray[np.integer] | None = None,
    seed: int = 0,
    v_teaching: float = DEFAULT_V,
    ridge: float = 1.0,
    ridge_limits: float = 1.0,
    label_coding: str = "1/0",
) -> Run:
    """Run both phases: `teach` with N = `examples`, then `online` for T = `steps`.

    Parameters are those of `teach` and `online`. `exact_denials` is off, as in the paper.

    Examples
    --------
    >>> from bridle.policies import BehaviorConstrained
    >>> rewards, allowed = np.array([[0.2, 0.9]]), np.array([[True, False]])
    >>> tables = Tables(np.ones((1, 1)), rewards, allowed)
    >>> dial = [BehaviorConstrained(sigma=sigma) for sigma in (0.0, 1.0)]
    >>> runs = [simulate(tables, policy=policy, examples=500, steps=500) for policy in dial]
    >>> int(runs[0].E[-1]), int(runs[1].E[-1]) > 450
    (0, True)
    """
    examples = STEPS.check(examples, "examples", "simulate")
    exact_denials = validation.truth(exact_denials, "exact_denials", "simulate")
    lesson = teach(
        tables,
        examples=examples,
        teaching=teaching,
        rows=teach_rows,
        seed=seed,
        v=v_teaching,
        ridge=ridge_limits,
        label_coding=label_coding,
    )
    denied = lesson.denials(tables, examples) if exact_denials else None
    return online(
        tables,
        policy=policy,
        limits=lesson.limits[examples],
        steps=steps,
        rows=online_rows,
        eligible=None if denied is None else ~denied,
        checkpoints=checkpoints,
        seed=seed,
        ridge=ridge,
    )


def with_one(contexts: Floats) -> Floats:
    """Return every context with a trailing 1, for the intercept: (M, d + 1)."""
    return np.hstack([contexts, np.ones((len(contexts), 1))])


def shown_rows(
    tables: Tables, rows: npt.ArrayLike | None, steps: int | None, seed: int, owner: str
) -> Ints:
    """Return the rows that an online phase shows: those given, or `steps` drawn ones."""
    if steps is None and rows is None:
        raise InvalidValue("steps", owner, "given, unless rows are", None)
    T = len(_rows(tables, rows, owner)) if steps is None else steps
    T = STEPS.check(T, "steps", owner)
    return _shown(tables, rows, T, seed, owner, keys.DECIDE)[:T]


def _shown(
    tables: Tables, rows: npt.ArrayLike | None, least: int, seed: int, owner: str, use: np.uint64
) -> Ints:
    if rows is None:
        # Apart from every agent's own draws: a generator of its own, keyed by seed and phase.
        generator = np.random.default_rng([validation.SEED.check(seed, "seed", owner), int(use)])
        return generator.integers(0, len(tables), least)
    shown = _rows(tables, rows, owner)
    if len(shown) < least:
        raise InvalidValue("rows", owner, f"at least {least} of them", f"{len(shown)} rows")
    return shown


def _rows(tables: Tables, rows: object, owner: str) -> Ints:
    given = _as_array(rows, "rows", owner)
    return validation.indices(given, given.size, len(tables), "rows", owner)


def marks_at(given: object, T: int) -> Ints:
    """Return the steps at which to measure: those given, or 100; T is always among them."""
    if given is None:
        marks = np.linspace(T / 100, T, 100).round().astype(np.int64)
    else:
        array = _as_array(given, "checkpoints", "online")
        marks = validation.indices(array, array.size, T + 1, "checkpoints", "online")
    return np.unique(np.append(marks[marks > 0], [T] if T else []).astype(np.int64))


def _check_tables(tables: object, owner: str) -> None:
    if not isinstance(tables, Tables):
        raise InvalidValue("tables", owner, "Tables(contexts, rewards, allowed)", tables)


def _as_array(value: object, name: str, owner: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError:  # ragged nested lists
        raise InvalidValue(name, owner, "an array", value) from None


def _table(value: object, shape: tuple[int, ...], name: str, owner: str) -> Bools:
    array = _as_array(value, name, owner)
    if array.shape != shape or array.dtype.kind not in "bfiu" or not np.isin(array, (0, 1)).all():
        got = f"{array.dtype} of shape {array.shape}"
        raise InvalidValue(name, owner, f"True or False in a table of shape {shape}", got)
    return np.ascontiguousarray(array, np.bool_)


# --- The online phase with questions: play what is surely allowed, ask where an answer pays
#
# Step for step: what the best arm in doubt would earn beyond the best safe one, times the
# probability that it is allowed, is added to the account of its item and unit. Once the account
# holds what an answer costs, the teacher is asked, and the agent looks again. Else the best safe
# arm is played.


ON_EMPTY = ("abstain", "safe_arm", "least_bad")
MOST = validation.IntRange(0, 1_000)
PRICE = validation.FloatRange(0.0, 1e6)
# Of a teacher who is said to be always right, as an agent has it.
LEAST_ERROR = 0.001


@dataclass(frozen=True, eq=False)
class Asking(Run):
    """What an online phase with questions gave: a `Run`, and what was asked.

    Attributes
    ----------
    asked_at, asked_rows, asked_arms : arrays (answers,)
        Of each question: the step, the context's row and the arm.
    said : array (answers,) of bools
        What the teacher answered.
    answers : array
        Answers so far, at each checkpoint.
    beliefs : Beliefs
        The limits after the last answer.
    checked_at : array (checks,)
        The steps whose plays a coin chose to be judged.
    found : array (checks,) of bools
        Which of these were not allowed.
    judged : array (checks,) of bools
        What the teacher said of these; with several teachers what is so.
    frozen : int
        Steps at which the promise let nothing be played that was not allowed at that very step.
    anew : array
        The steps at which what was learned was begun anew.
    words : array (teachers, 2)
        With several teachers: how often each answered a question, and judged a check.
    rates : array (teachers,)
        What was learned of how often each errs: the means.
    heard : array (words, 2)
        Every word of several teachers, of questions and checks: whose it was, and whether wrong.
    learned : array (words, teachers)
        What was known of the rates after each word: the means.
    """

    asked_at: Ints
    asked_rows: Ints
    asked_arms: Ints
    said: npt.NDArray[np.bool_]
    answers: Ints
    beliefs: Beliefs
    checked_at: Ints
    found: npt.NDArray[np.bool_]
    judged: npt.NDArray[np.bool_]
    frozen: int
    anew: Ints
    words: Ints
    rates: Floats
    heard: Ints
    learned: Floats

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, answers={len(self.said)}, checks={len(self.found)})"


def online_asking(
    tables: Tables,
    *,
    beliefs: Beliefs,
    policy: Policy | None = None,
    budget: int = 1_000_000,
    most: int = 3,
    steps: int | None = None,
    rows: npt.ArrayLike | None = None,
    checkpoints: npt.NDArray[np.integer] | list[int] | None = None,
    seed: int = 0,
    ridge: float = 1.0,
    prior: str = "scaled",
    forget: Forget | None = None,
    model: RewardModel | None = None,
    on_empty: str = "abstain",
    safe_arm: int | None = None,
    flips: float = 0.0,
    remember: bool = True,
    items: npt.ArrayLike | None = None,
    identity: bool = True,
    answer_price: float = 0.35,
    checks: bool = False,
    promise: tuple[float, float] | None = None,
    lag: int = 0,
    later: tuple[int, npt.ArrayLike] | None = None,
    teachers: Sequence[tuple[float, ...]] = (),
    tell: Callable[[int, int], None] | None = None,
) -> Asking:
    """Run the online phase, asking the teacher when in doubt.

    Parameters
    ----------
    tables : Tables
        The world; its `allowed` is what the teacher answers by.
    beliefs : Beliefs
        Limits that know what they do not know, with whatever they were taught. They are copied.
    policy : Thompson or BehaviorConstrained, or one of your own, optional
        How arms inside the limits are compared; Thompson by default. A policy that leaves out `v`
        has that of an agent. With sigma below 1 the probability of "allowed" takes part. One of
        your own runs in plain Python; what an answer is worth goes by the mean rewards then.
    budget, most : int
        How many questions may be asked, in all and in one step. With a budget of 0 the limits are
        a learned mask.
    steps, rows, checkpoints, seed, ridge, prior, model
        As in `online`; rewards are learned as an agent learns them where nothing is set.
    forget : "auto", "never" or float, optional
        How old rewards fade where they find their scale, as in `Agent`.
    on_empty : {"abstain", "safe_arm", "least_bad"}
        Where no arm is safe: play nothing, the arm `safe_arm`, or the one most likely allowed.
    flips : float
        Share of the teacher's answers that are wrong, to questions and to checks, at random.
    remember : bool
        Take an answer as certain for its own item and unit. Not for a teacher who errs: then an
        answer is one more piece of evidence.
    items : array (M,) of ints, optional
        Which item each row is about; by default every row is an item of its own.
    identity : bool, default True
        Whether items can be told apart. If not, an answer "allowed" is certain for its own step
        only, and one "not allowed" for this very vector of features.
    answer_price : float, default 0.35
        What an answer is worth, in rewards: about so much is given up, by item and unit, before the
        teacher is asked. An answer that teaches about other cases, too, is cheaper.
    checks : bool, default False
        Let a coin choose plays that the teacher judges afterwards: see `ExceptionRates`.
    promise : (alpha, q), optional
        Keep a promise: see `Purse`. A check that denies what the teacher had allowed begins what
        was learned anew; denials stay.
    lag : int, default 0
        Steps that the answer to a check takes; the purse is made for it.
    later : (int, array (M, K) of bools), optional
        What is allowed from this step on, where limits change.
    teachers : list of (error, price) or (error, price, told)
        Several teachers: how often each errs, what an answer of theirs costs, and what the agent is
        told of the error, which need not be true; by default nothing. A question goes to whom
        `Teachers.choose` names until its case is settled, or until nobody is worth it; then it is
        given up for this step. A check goes to who errs least. Who is asked again says the same.
        Every answer is in `said`.

    Examples
    --------
    >>> from bridle.limits import RuleLimits
    >>> tables = Tables(np.eye(2), np.array([[0.9, 0.2], [0.8, 0.3]]), np.array([[0, 1], [1, 1]]))
    >>> run = online_asking(tables, beliefs=RuleLimits(arms=2, features=2), steps=500, seed=1)
    >>> int(run.E[-1]), len(run.said) <= 4
    (0, True)
    """
    owner = "online_asking"
    check_world(tables, beliefs, owner)
    validation.one_of(prior, PRIORS, "prior", owner)
    _check_model(model, tables, owner)
    own = model is None
    if model is None:
        model = _own_model(tables, prior, ridge, forget, owner)
    elif forget is not None:
        raise InvalidValue("forget", owner, "left out with a model of your own", forget)
    policy = Thompson() if policy is None else policy
    policy = with_default_spread(policy, _default_v(model, prior))
    ours = isinstance(policy, Weighted)
    if not isinstance(policy, Thompson | BehaviorConstrained if ours else Policy):
        wanted = "Thompson or BehaviorConstrained, or one of your own"
        raise InvalidValue("policy", owner, wanted, policy)
    wrong = validation.FRACTION.check(flips, "flips", owner)
    staff = _staff(teachers, seed, owner)
    if staff is not None and wrong > 0.0:
        raise InvalidValue("flips", owner, "0 with several teachers: each has an error", flips)
    phase = _AskingPhase(
        tables=tables,
        beliefs=beliefs,
        policy=policy,
        model=model,
        own=own,
        wrong=wrong,
        staff=staff,
        empty=_on_empty(on_empty, safe_arm, tables.arms, owner),
        budget=STEPS.check(budget, "budget", owner),
        most=MOST.check(most, "most", owner),
        price=PRICE.check(answer_price, "answer_price", owner),
        shown=shown_rows(tables, rows, steps, seed, owner),
        identity=validation.truth(identity, "identity", owner),
        items=items,
        remember=remember,
        checks=checks,
        promise=promise,
        lag=lag,
        later=later,
        seed=validation.SEED.check(seed, "seed", owner),
        tell=tell,
    )
    phase.run()
    return phase.result(checkpoints)


def _own_model(
    tables: Tables, prior: str, ridge: float, forget: Forget | None, owner: str
) -> RewardModel:
    """Return what an agent in this world learns rewards by."""
    if ridge != 1.0 and (prior == "scaled" or tables.arm_features is not None):
        remedy = "Give prior='centred' or 'paper', and arms without features, for one of your own."
        raise InvalidValue("ridge", owner, "left out where rewards find their scale", ridge, remedy)
    if tables.arm_features is not None and prior != "scaled":
        raise InvalidValue("prior", owner, "'scaled' where arms have features", prior)
    if tables.arm_features is None and prior != "scaled":
        if forget not in (None, "never"):
            raise InvalidValue("forget", owner, f"'never' with prior={prior!r}", forget)
        width = tables.features + (prior == "centred")
        return LinearArms(arms=tables.arms, features=width, ridge=ridge)
    shared = tables.arm_features is not None
    fades = check_forget(
        ("never" if shared else "auto") if forget is None else forget, "forget", owner
    )
    if tables.arm_features is None:
        return ScaledArms(arms=tables.arms, features=tables.features + 1, forget=fades)
    model = SharedArms(
        rows=tables.arm_features,
        features=tables.features,
        forget=None if fades == "never" else fades,
    )
    return cast("RewardModel", model)


def _default_v(model: RewardModel, prior: str) -> float:
    """Return the spread of a policy that leaves it out, as an agent has it."""
    if isinstance(model, SharedArms):
        return model.spread
    if isinstance(model, ScaledArms):
        return boldness_of(model.arms)
    return DEFAULT_V if prior == "paper" else CENTRED_V


class _AskingPhase:
    """An online phase with questions on its way: the parameters of `online_asking`, checked.

    The kernel runs until a question or a check comes up; answers are folded here.
    """

    def __init__(
        self,
        *,
        tables: Tables,
        beliefs: Beliefs,
        policy: Policy,
        model: RewardModel,
        own: bool,
        wrong: float,
        staff: _Staff | None,
        empty: int,
        budget: int,
        most: int,
        price: float,
        shown: Ints,
        identity: bool,
        items: npt.ArrayLike | None,
        remember: bool,
        checks: bool,
        promise: tuple[float, float] | None,
        lag: int,
        later: tuple[int, npt.ArrayLike] | None,
        seed: int,
        tell: Callable[[int, int], None] | None,
    ) -> None:
        self.tables, self.beliefs, self.policy, self.model = tables, beliefs, policy, model
        self.wrong, self.staff, self.empty = wrong, staff, empty
        self.left, self.most, self.price = budget, most, price
        self.shown, self.identity, self.remember, self.lag = shown, identity, remember, lag
        self.tell = tell
        self.kinds, kind = np.unique(tables.contexts, axis=0, return_inverse=True)
        self.kind: Ints = kind.ravel().astype(np.int64)
        self.item = _items(items, self.kind, identity, "online_asking")
        self.believed = beliefs.copy()
        self.rates = _rates(self.believed, wrong) if checks else None
        self.purse = None if promise is None else Purse(alpha=promise[0], q=promise[1], lag=lag)
        self.table = _Table(self.believed, self.kinds, self.rates)
        units = self.believed.units
        self.unit: Ints = np.ascontiguousarray(self.believed.unit_of, np.int64)
        # By which account and which rate of exceptions an arm goes.
        self.accounts, self.rated = _accounts(self.believed)
        self.dearer: Floats = np.ones((len(self.kinds), int(self.accounts.max()) + 1))
        self._price()
        self.said = np.zeros((int(self.item.max()) + 1, units), np.int8)
        self.here = np.zeros(units, np.int8)  # what was said at this very step
        self.account: Floats = np.zeros((len(self.said), int(self.accounts.max()) + 1))
        self.lessons: Floats = np.zeros(self.account.shape[1])
        # What the kernel learns; and arms that find their scale.
        self.arms = model if own and isinstance(model, LinearArms) else None
        self.scaled = model if isinstance(model, ScaledArms) else None
        self.centred = self.arms is not None and self.arms.features > tables.features
        self.contexts = with_one(tables.contexts) if self.centred else tables.contexts
        # Arms that share what is learned are drawn together.
        self.shared = model if isinstance(model, SharedArms) else None
        self.totals = FIRST_GUESS.copy()
        self.start = keys.stream(seed, keys.DECIDE)
        self.ask_start = keys.stream(seed, keys.DOUBT)
        self.answers = keys.stream(seed, keys.ANSWER)
        self.of_checks = keys.stream(seed, keys.ANSWER_NAMED)
        self.numbers = np.arange(1, len(shown) + 1, dtype=np.uint64)
        nothing = np.zeros(0)
        unjudged = np.zeros(int(self.rated.max()) + 1, np.int64)
        self.coins = questions.Coins(
            keys.stream(seed, keys.CHECK), np.zeros((0, 2)), START, unjudged, nothing, np.zeros(2)
        )
        self.turn, self.allowed = _in_force(tables, later, len(shown))
        self.changes = later is not None
        self.played: Ints = np.empty(len(shown), np.int64)
        self.asked: list[tuple[int, int, int, bool]] = []  # step, row, arm, answer
        self.checked: list[tuple[int, bool, bool]] = []
        self.anew: list[int] = []
        # Checks whose answers are to come: when, and what `_audit` takes.
        self.due: deque[tuple[int, int, int, int, bool]] = deque()
        self.denied: list[tuple[int, int, int]] = []  # of each denial the row, the arm and the key
        self.taught = 0

    def run(self) -> None:
        """Run all steps."""
        at, look, T = 0, 0, len(self.shown)
        while True:
            while self.due and self.due[0][0] <= at:
                self._audit(*self.due.popleft()[1:])
            until = min(T, self.due[0][0]) if self.due else T
            step, k, why = self._advance(at, until, look)
            if why == questions.OVER:
                at, look = step, 0
                if step >= T:
                    return
                continue
            row = int(self.shown[step])
            truth = bool(self.allowed[step >= self.turn][row, k])
            if why == questions.CHECKS:
                at, look = step + 1, 0
                self._check(step, row, k, truth)
                continue
            look = look + 1 if step == at else 1
            at = step
            if self._ask(step, row, k, truth) is None:
                look = self.most
            else:
                self.left -= 1
            if self.tell is not None:
                self.tell(step, len(self.asked))

    def _advance(self, at: int, until: int, look: int) -> tuple[int, int, int]:
        """Run the kernel until something comes up; return the step, the arm and why."""
        self.coins = self.coins._replace(
            zeal=np.zeros((0, 2)) if self.rates is None else self.rates.zeal,
            purse=np.zeros(0) if self.purse is None else self.purse.kernel_state,
        )
        policy, scaled = self._acting, self.scaled
        if not isinstance(policy, Weighted) or self.arms is None:
            return self._advance_plainly(at, until, look)
        step, k, why, due = questions.run(
            policy.weights,
            self.arms.kernel_state,
            NO_RECENT if scaled is None else scaled.recent,
            NO_PRIOR if scaled is None else scaled.prior,
            NOTHING if scaled is None else scaled.num,
            self.contexts,
            self.tables.rewards,
            self.kind,
            self.item,
            self.unit,
            self.accounts,
            self.dearer,
            self.rated,
            self.table.safe,
            self.table.p,
            self.table.hope,
            self.table.information,
            self.said,
            self.here,
            self.account,
            self.lessons,
            self.price,
            isinstance(self.believed, PairLimits),
            self.shown,
            self.start,
            self.ask_start,
            self.numbers,
            self.centred,
            self.totals,
            self.empty,
            self.left,
            self.most,
            self.coins,
            at,
            until,
            look,
            self.played,
        )
        if due and scaled is not None:
            scaled.rescale()
        return step, k, why

    @property
    def _acting(self) -> Policy:
        """The policy, its spread in the units that arms find."""
        scaled = self.scaled
        return self.policy if scaled is None else in_units(self.policy, scaled.unit, scaled.noise)

    def _advance_plainly(self, at: int, until: int, look: int) -> tuple[int, int, int]:
        """Do what the kernel does, where the policy or the reward model is somebody else's."""
        for t in range(at, until):
            row, number = int(self.shown[t]), self.numbers[t]
            frozen = self.purse is not None and float(coin_at(self.coins.purse, t)) < 0.0
            marks = self._marks(row, frozen)
            k, parts = self._choose(row, marks, number)
            if self.left > 0 and look < self.most and (marks == questions.IN_DOUBT).any():
                wanted, pays = self._weigh(row, parts, marks, number, look)
                if pays:
                    return t, wanted, questions.ASKS
            own = self.item[row]
            if k < 0 and not frozen:
                no = (self.said[own] == doubt.SAID_NO) | (self.here == doubt.SAID_NO)
                denied = np.where(no, doubt.SAID_NO, doubt.UNASKED).astype(np.int8)[self.unit]
                k = int(
                    doubt.fall_back(self.empty, self.table.p[self.kind[row]], denied, self.unit)
                )
            look = 0
            self.coins.drawn[1] += frozen
            coin = -1.0
            if k >= 0 and self.here[self.unit[k]] != doubt.SAID_YES:
                judged = bool(self.said[own, self.unit[k]] == doubt.SAID_YES)
                coin = float(questions.coin_of(self.coins, self.rated[k], judged, t))
            self.here[:] = doubt.UNASKED
            self.played[t] = k
            if k >= 0:
                context, reward = (
                    self.tables.contexts[row].copy(),
                    float(self.tables.rewards[row, k]),
                )
                _fold(self.model, context, self.centred, self.totals, k, reward)
            begin = self.coins.start
            if self.purse is not None:  # a promise's coins go by the step, too
                begin = np.uint64(keys.key_of(begin, np.uint64(t + 1)))
            drawn = float(keys.uniform(np.uint64(keys.key_of(begin, number))))
            if coin > 0.0 and drawn < coin:
                self.coins.drawn[0] = coin
                return t, k, questions.CHECKS
        return until, -1, questions.OVER

    def _marks(self, row: int, frozen: bool) -> npt.NDArray[np.int8]:
        """Return what may be done with each arm: play it, ask about it, or neither."""
        said, here = self.said[self.item[row]], self.here
        known = (said == doubt.SAID_YES) | self.table.safe[self.kind[row]]
        safe = (here == doubt.SAID_YES) | (known & (not frozen))
        marks = np.where(safe, questions.SAFE, questions.IN_DOUBT)
        marks[(said == doubt.SAID_NO) | (here == doubt.SAID_NO)] = questions.OUT
        return marks.astype(np.int8)[self.unit]

    def _choose(
        self, row: int, marks: npt.NDArray[np.int8], number: np.uint64
    ) -> tuple[int, Floats]:
        """Return the safe arm that the policy plays, -1 if none is, and the parts of the scores."""
        parts: Floats = np.zeros((7, self.tables.arms))
        policy = self._acting
        if self.shared is not None and isinstance(policy, Weighted):
            key = np.uint64(keys.key_of(self.start, number))
            best, _ = self._first(self.shared, row, marks == questions.SAFE, key, 1)
            return (int(best[0]) if best.size else -1), parts
        _score(self.model, self.tables.contexts[row].copy(), self.centred, self.totals, parts)
        parts[2] = self.table.p[self.kind[row], self.unit]
        k = int(questions.play(kernel_weights(policy), parts, marks, self.start, number))
        if not isinstance(policy, Weighted):
            parts[3] = self.table.sd[self.unit, self.kind[row]]
            scores = scores_for(parts, marks == questions.SAFE, self.totals[1])
            k = chosen(policy, scores, int(keys.key_of(self.start, number)))
        return k, parts

    def _drawn(
        self, model: SharedArms, row: int, key: np.uint64, spread: float, arms: Ints
    ) -> Floats:
        """Return the scores of arms in the joint draw of a key, as the policy blends them."""
        w = as_weights(kernel_weights(self.policy))
        draws = model.draw(self.tables.contexts[row], int(key), spread, arms)
        if w.limit == 0.0:
            return draws
        p = self.table.p[self.kind[row], self.unit[arms]]
        scores: Floats = w.reward * draws + w.limit * p
        return scores

    def _first(
        self, model: SharedArms, row: int, may: Bools, key: np.uint64, few: int
    ) -> tuple[Ints, Floats]:
        """Return the arms that come first in the draw of a key, and their scores."""
        w = as_weights(kernel_weights(self.policy))
        if w.limit != 0.0:
            scores = self._drawn(model, row, key, float(w.v), np.arange(len(may)))
            arms = best_few(scores, may, key, few)
            return arms, scores[arms]
        arms, top = model.top(self.tables.contexts[row], may, int(key), float(w.v), few)
        return arms[arms >= 0], top[arms >= 0]

    def _first_looked_at(
        self, model: SharedArms, row: int, marks: npt.NDArray[np.int8], key: np.uint64
    ) -> tuple[Ints, Floats]:
        """Do the same with those among which a question is chosen: until one of them is safe."""
        may, few, many = marks != questions.OUT, questions.FIRST_LOOK, 0
        while True:
            many += few
            arms, top = self._first(model, row, may, key, min(many, len(may)))
            if len(arms) < many or (marks[arms] == questions.SAFE).any():
                return arms, top
            few *= questions.MORE

    def _weigh(
        self,
        row: int,
        parts: Floats,
        marks: npt.NDArray[np.int8],
        number: np.uint64,
        look: int,
    ) -> tuple[int, bool]:
        """Return the arm in doubt that is nearest to paying for an answer; whether it pays."""
        own, like, unit = self.item[row], self.kind[row], self.unit
        accounts, many = self.accounts, len(self.lessons)
        key = doubt.look_key(np.uint64(keys.key_of(self.ask_start, number)), look)
        drawn, scale, judged, arms = parts[4], parts[5], NOTHING, np.arange(len(unit))
        starves = isinstance(self.believed, PairLimits) and not (marks == questions.SAFE).any()
        if self.shared is not None:  # draws of their own, of all arms together
            arms, drawn = self._first_looked_at(self.shared, row, marks, np.uint64(key))
            apart = np.uint64(keys.aside(np.uint64(key)))
            judged, scale = self._drawn(self.shared, row, apart, 1.0, arms), np.zeros(len(arms))
        elif self.scaled is not None:
            weights = as_weights(kernel_weights(self._acting))
            wide = (weights.reward * self.scaled.noise) * parts[1]
            drawn, judged, marks = questions.look_wide(
                drawn, scale, drawn, wide, marks, np.uint64(key)
            )
            scale = np.zeros(len(drawn))
        starved = float(questions.total_of(self.account[own])) if starves else 0.0
        k, cost, lesson, pays = questions.nearest(
            drawn,
            scale,
            self.table.hope[like, unit[arms]],
            self.table.information[like, unit[arms]],
            marks[arms],
            accounts[arms],
            self.account[own],
            self.lessons,
            self.price,
            self.dearer[like],
            starved,
            np.uint64(key),
            judged,
            np.empty(many),
            np.empty(many, np.int64),
        )
        if k < 0:
            return -1, False
        k = int(arms[k])
        if pays:
            self.account[own, accounts[k]] = self.lessons[accounts[k]] = 0.0
        else:
            self.account[own, accounts[k]] += cost
            self.lessons[accounts[k]] += lesson
        return k, bool(pays)

    def _ask(self, step: int, row: int, k: int, truth: bool) -> bool | None:
        """Ask a question; return the answer, None if nobody is worth asking."""
        if self.staff is not None:
            return self._consult(self.staff, step, row, k, truth)
        number = np.uint64(len(self.asked) + len(self.checked) + 1)
        bits = np.uint64(keys.key_of(self.answers, number))
        answer = truth != (self.wrong > 0.0 and float(keys.uniform(bits)) < self.wrong)
        self.asked.append((step, row, k, answer))
        if self.remember:
            self.here[self.unit[k]] = doubt.SAID_YES if answer else doubt.SAID_NO
        self._learn(row, k, answer)
        self._stand_in(row, answer)
        return answer

    def _stand_in(self, row: int, answer: bool) -> None:
        """Close an item's accounts where an arm that may now be played stands in for the others."""
        if answer and isinstance(self.believed, PairLimits):
            self.account[self.item[row]] = 0.0

    def _check(self, step: int, row: int, k: int, truth: bool) -> None:
        """Put a check of what was played among those that are due."""
        found = not truth
        if self.staff is None and self.wrong > 0.0:
            bits = np.uint64(keys.key_of(self.of_checks, np.uint64(step + 1)))
            truth = truth != (float(keys.uniform(bits)) < self.wrong)
        self.checked.append((step, found, truth))
        if self.purse is not None:
            self.purse.pass_by(step - self.purse.steps)
            self.purse.step(coin=float(self.coins.drawn[0]), audit=step + 1)
        self.due.append((step + 1 + self.lag, step, row, k, truth))

    def _learn(self, row: int, k: int, answer: bool, bits: int | None = None) -> None:
        u, own = int(self.unit[k]), self.item[row]
        if bits is None:
            self.taught += 1
            alone = self.staff is None
            number = len(self.asked) + len(self.checked) if alone else self.taught
            bits = int(keys.key_of(self.answers, np.uint64(number)))
            if not answer:
                self.denied.append((row, k, bits))
        paid = int(self.accounts[k])
        self.account[own, paid], self.lessons[paid] = 0.0, 0.0
        if self.said[own, u] != doubt.UNASKED:  # the first answer alone is evidence about others
            return
        if self.rates is not None:
            safe = bool(self.table.sure[self.kind[row], u])
            self.rates.fold(int(self.rated[k]), allowed=answer, safe=safe)
        if self.remember and (self.identity or not answer):
            self.said[own, u] = doubt.SAID_YES if answer else doubt.SAID_NO
        self.table.update(self.believed.learn(self.tables.contexts[row], k, answer, bits))
        self._price()

    def _price(self) -> None:
        """Find by how much an answer is dearer in each context and account."""
        if isinstance(self.believed, PairLimits):
            for place, context in enumerate(self.kinds):
                self.dearer[place] = self.believed.dearer(context)

    def _judge(self, step: int, row: int, k: int, answer: bool) -> None:
        """Fold the answer to a check; one that breaks a promise begins what was learned anew."""
        broken = self.said[self.item[row], self.unit[k]] == doubt.SAID_YES and not answer
        if self.purse is not None:
            self.purse.answer(step + 1, answer)
        if self.purse is not None and broken:
            self._begin_anew(step)
        self._learn(row, k, answer)

    def _begin_anew(self, step: int) -> None:
        self.anew.append(step)
        self.said[self.said == doubt.SAID_YES] = doubt.UNASKED
        self.believed = self.beliefs.copy()
        self.rates = None if self.rates is None else _rates(self.believed, self.wrong)
        self.coins.unjudged[:] = 0
        self.table = _Table(self.believed, self.kinds, self.rates)
        self._price()
        self.account[:], self.lessons[:] = 0.0, 0.0
        if self.staff is not None:
            self.staff.forget()
        for place, arm, bits in self.denied:
            self.said[self.item[place], self.unit[arm]] = doubt.UNASKED
            self._learn(place, arm, False, bits)

    # -- several teachers --

    def _prior_of(self, row: int, k: int) -> float:
        p = float(self.table.p[self.kind[row], self.unit[k]])
        return min(max(p, LEAST_P), 1.0 - LEAST_P)

    def _fold_word(
        self, staff: _Staff, who: int, row: int, k: int, word: bool
    ) -> tuple[bool | None, tuple[Settled, ...]]:
        """Fold what one of several teachers said: what it settles of its case, and of others."""
        own, u = int(self.item[row]), int(self.unit[k])
        staff.cases[own, u] = row, k
        verdict = staff.known.judge(str(who), own, u, word, self._prior_of(row, k))
        staff.learned.append([rate.mean for rate in staff.known.rates().values()])
        others = staff.known.review(
            lambda case, v: self._prior_of(*staff.cases[case, v]),  # type: ignore[index]
            REVIEWED,
        )
        return verdict.allowed, others

    def _answer_hung(self, staff: _Staff, place: tuple[int, int], label: bool) -> bool:
        """Judge the checks that waited for a case to be settled; return whether there were any."""
        hung = staff.hung.pop(place, [])
        for held in hung:
            self._judge(*held, label)
        return bool(hung)

    def _learn_others(self, staff: _Staff, others: tuple[Settled, ...]) -> None:
        for one in others:
            place = (int(one.case), int(one.unit))
            if place not in staff.cases:  # all was begun anew, and what was said is forgotten
                return
            if not self._answer_hung(staff, place, one.allowed):
                self._learn(*staff.cases[place], one.allowed)

    def _consult(self, staff: _Staff, step: int, row: int, k: int, truth: bool) -> bool | None:
        """Ask several teachers until a question is settled, or nobody is worth asking."""
        own, u = int(self.item[row]), int(self.unit[k])
        if not self.identity or staff.known.settled(own, u) is not None:
            staff.drop(own, u)
        while True:
            prior = self._prior_of(row, k)
            asked = staff.known.choose(prior, self.price, case=own, unit=u)
            if asked is None:
                return None
            who = int(asked.teacher)
            word = staff.word(who, own, u, truth)
            self.asked.append((step, row, k, word))
            staff.words[who, 0] += 1
            label, others = self._fold_word(staff, who, row, k, word)
            if label is not None:
                if self.remember:
                    self.here[u] = doubt.SAID_YES if label else doubt.SAID_NO
                self._learn(row, k, label)
                self._stand_in(row, label)
                self._answer_hung(staff, (own, u), label)
            self._learn_others(staff, others)
            if label is not None:
                return label

    def _audit(self, step: int, row: int, k: int, truth: bool) -> None:
        """Judge a check, by several teachers if need be; what is not settled waits.

        Of one teacher it is their word, not the truth.
        """
        staff = self.staff
        if staff is None:
            self._judge(step, row, k, truth)
            return
        own, u = int(self.item[row]), int(self.unit[k])
        if staff.known.settled(own, u) is not None:  # limits may have changed
            staff.drop(own, u)
        while (asked := staff.known.choose_judge(own, u)) is not None:
            who = int(asked.teacher)
            word = staff.word(who, own, u, truth)
            staff.words[who, 1] += 1
            label, others = self._fold_word(staff, who, row, k, word)
            if label is not None:
                # All that wait, before a denial may begin anew and forget them.
                for held in [(step, row, k), *staff.hung.pop((own, u), [])]:
                    self._judge(*held, label)
            self._learn_others(staff, others)
            if label is not None:
                return
        staff.hung.setdefault((own, u), []).append((step, row, k))

    # -- what came out --

    def result(self, checkpoints: object) -> Asking:
        """Return what the phase gave."""
        marks = marks_at(checkpoints, len(self.shown))
        out = self._tally(marks)
        columns = np.array([entry[:3] for entry in self.asked], np.int64).reshape(-1, 3)
        staff = self.staff
        words, rates = np.zeros((0, 2), np.int64), np.array([])
        heard, learned = np.array([], np.int64), np.zeros((0, 0))
        if staff is not None:
            words, heard = staff.words, np.array(staff.heard, np.int64)
            rates = np.array([one.mean for one in staff.known.rates().values()])
            learned = np.array(staff.learned).reshape(-1, len(words))
        return Asking(
            checkpoints=marks,
            R=out[0],
            Rc=out[1],
            E=out[2].astype(np.int64),
            abstentions=out[3].astype(np.int64),
            rows=self.shown,
            played=self.played,
            arms=cast("LinearArms", self.model),
            asked_at=columns[:, 0],
            asked_rows=columns[:, 1],
            asked_arms=columns[:, 2],
            said=np.array([entry[3] for entry in self.asked], np.bool_),
            answers=np.searchsorted(columns[:, 0], marks),
            beliefs=self.believed,
            checked_at=np.array([step for step, _, _ in self.checked], np.int64),
            found=np.array([found for _, found, _ in self.checked], np.bool_),
            judged=np.array([word for _, _, word in self.checked], np.bool_),
            frozen=int(self.coins.drawn[1]),
            anew=np.array(self.anew, np.int64),
            words=words,
            rates=rates,
            heard=heard.reshape(-1, 2),
            learned=learned,
        )

    def _tally(self, marks: Ints) -> Floats:
        tables, seen = self.tables, self.shown
        if self.changes:  # rows of the second half are those of other limits
            tables = Tables(
                np.concatenate([tables.contexts] * 2),
                np.concatenate([tables.rewards] * 2),
                np.concatenate(self.allowed),
            )
            seen = seen + len(self.tables) * (np.arange(len(seen)) >= self.turn)
        out: Floats = np.zeros((4, len(marks)))
        loop.tally(
            seen,
            self.played,
            tables.rewards,
            tables.allowed,
            tables.best,
            tables.best_allowed,
            marks,
            out,
        )
        return out


def _in_force(
    tables: Tables, later: tuple[int, npt.ArrayLike] | None, steps: int
) -> tuple[int, tuple[Bools, Bools]]:
    """Return the step at which limits change, and what is allowed before and from there on."""
    if later is None:
        return steps, (tables.allowed, tables.allowed)
    owner = "online_asking"
    turn = STEPS.check(later[0], "later", owner)
    changed = validation.arrays(later[1], "later", owner, "what is allowed, as in the tables")
    if changed.shape != tables.allowed.shape or changed.dtype != np.bool_:
        wanted = f"a step, and bools of shape {tables.allowed.shape}"
        raise InvalidValue("later", owner, wanted, f"{changed.dtype} of shape {changed.shape}")
    return turn, (tables.allowed, changed)


def check_world(tables: object, beliefs: object, owner: str) -> None:
    """Raise `InvalidValue` for what is no world, or limits that are not of its size."""
    if not isinstance(tables, Tables):
        raise InvalidValue("tables", owner, "Tables(contexts, rewards, allowed)", tables)
    if not isinstance(beliefs, Beliefs):
        raise InvalidValue("beliefs", owner, "limits such as RuleLimits", beliefs)
    if (beliefs.arms, beliefs.features) != (tables.arms, tables.features):
        wanted = f"limits over {tables.arms} arms and {tables.features} features"
        raise InvalidValue("beliefs", owner, wanted, (beliefs.arms, beliefs.features))


def learned_mask(tables: Tables, beliefs: Beliefs) -> Bools:
    """Return where an arm is surely allowed, for `online(eligible=...)`: frozen limits, at speed.

    Examples
    --------
    >>> from bridle.limits import RuleLimits
    >>> tables = Tables(np.eye(2), np.ones((2, 2)), np.ones((2, 2)) == 1)
    >>> limits = RuleLimits(arms=2, features=2)
    >>> for _ in range(2):
    ...     _ = limits.learn([1.0, 0.0], 1, True)
    >>> learned_mask(tables, limits).tolist()
    [[False, True], [False, False]]
    """
    kinds, kind = np.unique(tables.contexts, axis=0, return_inverse=True)
    safe = beliefs.predict_all(kinds).safe
    return np.ascontiguousarray(safe.T[kind.ravel()][:, beliefs.unit_of])


class _Staff:
    """Several teachers in a run: what they say, and what is known of them."""

    def __init__(self, errors: Sequence[float], known: Teachers, seed: int) -> None:
        self.known = known
        self.words = np.zeros((len(errors), 2), np.int64)
        self.heard: list[tuple[int, bool]] = []
        self.learned: list[list[float]] = []
        self.cases: dict[tuple[int, int], tuple[int, int]] = {}  # the row and the arm of each
        # Checks that wait for their case to be settled: step, row, arm.
        self.hung: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self._errors = errors
        # The stream of what has a name, which nothing has here.
        self._start = keys.stream(seed, keys.ANSWER_NAMED)

    def word(self, who: int, item: int, unit: int, truth: bool) -> bool:
        """Return what a teacher says, which is the same whenever they are asked."""
        key = keys.key_of(self._start, np.uint64(who))
        key = keys.key_of(np.uint64(key), np.uint64(item))
        bits = np.uint64(keys.bits_of(np.uint64(key), unit))
        errs = float(keys.uniform(bits)) < self._errors[who]
        self.heard.append((who, errs))
        return truth != errs

    def drop(self, item: int, unit: int) -> None:
        """Forget what was said of a case, as it is asked about anew: it may be another."""
        self.hung.pop((item, unit), None)
        if self.known.said(item, unit):
            self.known.forget(item, unit)

    def forget(self) -> None:
        """Forget all cases, as limits have changed; what is known of teachers stays."""
        self.known.forget_all()
        self.cases.clear()
        self.hung.clear()


def _staff(teachers: object, seed: int, owner: str) -> _Staff | None:
    wanted = "a list of (error, price) or (error, price, told), errors in [0, 0.5]"
    if not isinstance(teachers, list | tuple):
        raise InvalidValue("teachers", owner, wanted, teachers)
    if not teachers:
        return None
    if not all(isinstance(one, list | tuple) and len(one) in (2, 3) for one in teachers):
        raise InvalidValue("teachers", owner, wanted, teachers)
    errors = [ERROR.check(one[0], "teachers", owner) for one in teachers]
    known = [
        Teacher(str(n), price=one[1], error=one[2] if len(one) > 2 else None)
        for n, one in enumerate(teachers)
    ]
    return _Staff(
        errors, Teachers(known, doubt=SETTLES), validation.SEED.check(seed, "seed", owner)
    )


class _Table:
    """What is believed of every unit in every distinct context: arrays (kinds, U).

    `sure` is what the limits themselves call safe; the rest is less the exceptions to it.
    """

    def __init__(
        self, beliefs: Beliefs, kinds: Floats, rates: ExceptionRates | None = None
    ) -> None:
        self._beliefs, self._rates = beliefs, rates
        # Of each unit, to which rate it belongs; None: each to its own.
        self._rated = _accounts(beliefs)[1] if isinstance(beliefs, PairLimits) else None
        self._predictions = beliefs.predictions(kinds)
        self._hope: Floats = np.empty((beliefs.units, len(kinds)))
        self.update(np.arange(beliefs.units))

    def update(self, units: Ints) -> None:
        """Predict these units anew."""
        look = self._predictions.predict(units)
        self._hope[units] = self._beliefs.hope(look.of(units))
        hope = self._hope
        # As the kernel takes them, which reads a context at a time.
        self.sure: Bools = np.ascontiguousarray(look.safe.T)
        if self._rates is not None:
            look = self._rates.lower(look, self._rated)
            hope = np.minimum(hope, look.p)
        self.safe: Bools = np.ascontiguousarray(look.safe.T)
        self.sd = look.sd  # (U, kinds), for policies of others alone
        self.p: Floats = np.ascontiguousarray(look.p.T)
        self.information: Floats = np.ascontiguousarray(look.information.T)
        self.hope: Floats = np.ascontiguousarray(hope.T)


def _accounts(beliefs: Beliefs) -> tuple[Ints, Ints]:
    """Return by which account of questions, and which rate of exceptions, each arm goes: (K,).

    By its unit; of pairs by the kind of the arm, and all by one rate.
    """
    if isinstance(beliefs, PairLimits):
        return beliefs.kind_of.copy(), np.zeros(beliefs.arms, np.int64)
    unit = np.ascontiguousarray(beliefs.unit_of, np.int64)
    return unit, unit


def _rates(beliefs: Beliefs, error: float) -> ExceptionRates:
    units = 1 if isinstance(beliefs, PairLimits) else beliefs.units
    return ExceptionRates(units, doubt=beliefs.doubt, error=max(error, LEAST_ERROR))


def _items(items: npt.ArrayLike | None, kind: Ints, identity: bool, owner: str) -> Ints:
    """Return the number of the item of each row; without identity that of its distinct context."""
    if not identity:
        if items is not None:
            wanted = "left out with identity=False"
            raise InvalidValue("items", owner, wanted, items)
        return kind
    if items is None:
        return np.arange(len(kind))
    given = np.asarray(items)
    most = 100 * len(kind)  # said and account have a row each
    return validation.indices(given, len(kind), most, "items", owner)


def _on_empty(on_empty: str, safe_arm: int | None, arms: int, owner: str) -> int:
    validation.one_of(on_empty, ON_EMPTY, "on_empty", owner)
    if on_empty == "safe_arm":
        return validation.IntRange(0, arms - 1).check(safe_arm, "safe_arm", owner)
    if safe_arm is not None:
        raise InvalidValue("safe_arm", owner, "left out, unless on_empty='safe_arm'", safe_arm)
    return doubt.ABSTAIN if on_empty == "abstain" else doubt.LEAST_BAD


# --- Teaching phases for limits that know what they do not know ---------------------------
#
# Three ways to choose the next question. `random`: any context, any arm. `arm`: the context comes
# as it comes, and the agent asks about the arm from which it would learn most. `pool`: it chooses
# the context too, out of all that there are.


QUESTIONS = ("random", "arm", "pool")


@dataclass(frozen=True, eq=False)
class Taught:
    """What a teaching phase gave.

    Attributes
    ----------
    beliefs : mapping from N to Beliefs
        What is believed after the first N answers, for each N asked for.
    rows, arms, said : arrays
        What was asked, in order: the context's row and the arm; and the answer.
    """

    beliefs: Mapping[int, Beliefs]
    rows: Ints
    arms: Ints
    said: Bools


def teach_beliefs(
    tables: Tables,
    *,
    beliefs: Beliefs,
    examples: int | Sequence[int],
    questions: str = "pool",
    pool: npt.ArrayLike | None = None,
    seed: int = 0,
    flips: float = 0.0,
) -> Taught:
    """Ask N questions and fold the answers.

    Parameters
    ----------
    tables : Tables
        The world; its `allowed` is what the teacher answers by.
    beliefs : Beliefs
        Where to start from. They are copied.
    examples : int or list of ints
        N, or several: one pass serves all.
    questions : {"random", "arm", "pool"}
        How the next question is chosen.
    pool : array of ints, optional
        The rows that may be asked about; all by default.
    seed : int, default 0
        Two lessons with equal arguments are equal.
    flips : float
        Share of the answers that are wrong.

    Examples
    --------
    >>> from bridle.limits import LogisticLimits
    >>> tables = Tables(np.eye(2), np.ones((2, 2)), np.array([[1, 0], [1, 1]]))
    >>> taught = teach_beliefs(tables, beliefs=LogisticLimits(arms=2, features=2), examples=40)
    >>> taught.beliefs[40].predict(1, tables.contexts).p.round(1).tolist()
    [0.1, 0.9]
    """
    owner = "teach_beliefs"
    check_world(tables, beliefs, owner)
    validation.one_of(questions, QUESTIONS, "questions", owner)
    wrong = validation.FRACTION.check(flips, "flips", owner)
    several = isinstance(examples, list | tuple | range)
    sizes = {STEPS.check(N, "examples", owner) for N in (examples if several else [examples])}  # type: ignore[union-attr]
    given = np.arange(len(tables)) if pool is None else np.asarray(pool)
    rows = validation.indices(given, given.size, len(tables), "pool", owner)
    start = keys.stream(validation.SEED.check(seed, "seed", owner), keys.ASK)
    answers = keys.stream(seed, keys.ANSWER)
    chooser = _Chooser(tables, beliefs.copy(), rows, questions)
    kept: dict[int, Beliefs] = {}
    asked: list[tuple[int, int, bool]] = []
    for n in range(max(sizes, default=0) + 1):
        if n in sizes:
            kept[n] = chooser.beliefs.copy()
        if n == max(sizes, default=0):
            break
        row, k = chooser.next(np.uint64(keys.key_of(start, np.uint64(n + 1))))
        bits = np.uint64(keys.key_of(answers, np.uint64(n + 1)))
        answer = bool(tables.allowed[row, k])
        answer ^= wrong > 0.0 and float(keys.uniform(bits)) < wrong
        asked.append((row, k, answer))
        chooser.learn(row, k, answer, int(bits))
    columns = np.array([entry[:2] for entry in asked], np.int64).reshape(-1, 2)
    said = np.array([entry[2] for entry in asked], np.bool_)
    return Taught(kept, columns[:, 0], columns[:, 1], said)


class _Chooser:
    """Knows what each question would teach, as long as the limits do not change."""

    def __init__(self, tables: Tables, beliefs: Beliefs, rows: Ints, questions: str) -> None:
        self.tables, self.beliefs, self.rows, self.questions = tables, beliefs, rows, questions
        self.kinds, first, kind = np.unique(
            tables.contexts[rows], axis=0, return_index=True, return_inverse=True
        )
        self.kind = kind.ravel()
        self.row_of = rows[first]  # a row that stands for each distinct context
        self.members = [np.flatnonzero(beliefs.unit_of == u) for u in range(beliefs.units)]
        self.information: Floats = np.zeros((len(self.kinds), beliefs.units))
        if questions != "random":
            self._look(np.arange(beliefs.units))

    def next(self, key: np.uint64) -> tuple[int, int]:
        """Choose a row and an arm; ties, and what does not matter, fall by the key."""
        place = int(keys.uniform(np.uint64(keys.bits_of(key, 0))) * len(self.rows))
        if self.questions == "random":
            k = int(keys.uniform(np.uint64(keys.bits_of(key, 1))) * self.tables.arms)
            return int(self.rows[place]), k
        if self.questions == "arm":
            here = self.kind[place]
            unit = most_informative(self.information[here], key)
            return int(self.rows[place]), self._arm(unit, key)
        best = most_informative(self.information.ravel(), key)
        at, unit = divmod(best, self.information.shape[1])
        return int(self.row_of[at]), self._arm(unit, key)

    def learn(self, row: int, arm: int, allowed: bool, key: int) -> None:
        """Fold an answer."""
        changed = self.beliefs.learn(self.tables.contexts[row], arm, allowed, key)
        if self.questions != "random":
            self._look(changed)

    def _look(self, units: Ints) -> None:
        for u in units:
            self.information[:, u] = self.beliefs.predict(int(u), self.kinds).information

    def _arm(self, unit: int, key: np.uint64) -> int:
        members = self.members[unit]
        return int(members[int(keys.uniform(np.uint64(keys.bits_of(key, 1))) * len(members))])

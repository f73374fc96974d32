"""Both phases of the paper over a world's tables, at full speed.

`teach` is the teaching phase, `online` the online phase, `simulate` the one after the other. Each
runs in one compiled loop. Step for step they do what an `Agent` with the same seed does, to the
bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.arms import LinearArms
from bridle.errors import InvalidValue, NotPossible
from bridle.kernels import keys, loop
from bridle.kernels.types import MASK_ARGMAX, Bools, Floats, Ints
from bridle.limits import Limits, LinearLimits
from bridle.policies import DEFAULT_V, Weighted
from bridle.teaching import teaching_policy

__all__ = ["Lesson", "Run", "Tables", "online", "simulate", "teach"]

STEPS = validate.IntRange(0, 2**40)
PRIORS = ("paper", "centred")
# Sum and number of the rewards that the mean of all rewards starts from.
FIRST_GUESS: Floats = np.array([0.5, 1.0])


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
    """

    contexts: Floats
    rewards: Floats
    allowed: Bools

    def __post_init__(self) -> None:
        contexts = validate.matrix(self.contexts, None, "contexts", "Tables")
        rewards = validate.matrix(self.rewards, None, "rewards", "Tables")
        if not contexts.size or not rewards.size or len(rewards) != len(contexts):
            raise InvalidValue(
                "rewards", "Tables", f"of shape ({len(contexts)}, K), as contexts has "
                f"{contexts.shape}, with at least one row and column", rewards.shape,
            )  # fmt: skip
        if rewards.min() < 0.0 or rewards.max() > 1.0:
            worst = rewards.min() if rewards.min() < 0.0 else rewards.max()
            raise InvalidValue("rewards", "Tables", "in the range [0, 1]", float(worst))
        allowed = _table(self.allowed, rewards.shape, "allowed", "Tables")
        for name, value in (("contexts", contexts), ("rewards", rewards), ("allowed", allowed)):
            object.__setattr__(self, name, value)

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
        examples = validate.IntRange(0, len(self.arms)).check(
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
        What was learned about reward.
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
    start = keys.stream(validate.SEED.check(seed, "seed", "teach"), keys.ASK)
    labels = limits.code(tables.allowed)
    every = np.ones((1, tables.arms), np.bool_)
    nothing = np.zeros((1, tables.arms))
    asked = np.empty(len(shown), np.int64)
    numbers = np.arange(1, len(shown) + 1, dtype=np.uint64)
    kept: dict[int, LinearLimits] = {}
    done = 0
    for size in sorted(set(sizes)):
        loop.run(
            w, limits.linear.kernel_state, limits.linear.ridge, tables.contexts, labels,
            tables.allowed, every, nothing, nothing, shown[done:size], start,
            numbers[done:size], True, asked[done:size], False, np.zeros(2),
        )  # fmt: skip
        done = size
        kept[size] = limits.copy()
    return Lesson(kept, shown[:done], asked[:done])


def online(
    tables: Tables,
    *,
    policy: Weighted,
    limits: Limits | None = None,
    steps: int | None = None,
    rows: npt.ArrayLike | None = None,
    eligible: npt.ArrayLike | None = None,
    checkpoints: Sequence[int] | npt.NDArray[np.integer] | None = None,
    seed: int = 0,
    ridge: float = 1.0,
    prior: str = "paper",
) -> Run:
    """Run the online phase: show a context, play an arm, learn from its reward, T times.

    Parameters
    ----------
    tables : Tables
        The world.
    policy : policy
        Any of `bridle.policies`.
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
    prior : {"paper", "centred"}
        What is expected of an arm before it is tried: a reward of 0, as in the paper, or the mean
        of all rewards so far, with an intercept for each arm. The second needs far less spread in
        its draws: v = .05.

    Examples
    --------
    >>> from bridle.policies import Thompson
    >>> tables = Tables(np.ones((1, 1)), np.array([[0.2, 0.9]]), np.ones((1, 2)) == 1)
    >>> online(tables, policy=Thompson(), steps=1000, seed=1).R[-1] < 0.05
    np.True_
    """
    _check_tables(tables, "online")
    if not isinstance(policy, Weighted):
        raise InvalidValue("policy", "online", "one of bridle.policies", policy)
    shown = shown_rows(tables, rows, steps, seed, "online")
    T = len(shown)
    marks = marks_at(checkpoints, T)
    w = policy.weights
    limit_mean = limit_sd = np.zeros((1, tables.arms))
    if w.limit != 0.0:
        if limits is None:
            raise NotPossible(f"{policy} weighs what was taught: give online(limits=...).")
        if not isinstance(limits, Limits):
            raise InvalidValue("limits", "online", "limits, as in Lesson.limits[N]", limits)
        if (limits.arms, limits.features) != (tables.arms, tables.features):
            shape = f"limits over {tables.arms} arms and {tables.features} features"
            raise InvalidValue("limits", "online", shape, (limits.arms, limits.features))
        limit_mean, limit_sd = limits.scores_many(tables.contexts)
    may = np.ones((1, tables.arms), np.bool_)
    if eligible is not None:
        may = _table(eligible, tables.rewards.shape, "eligible", "online")
    if policy.needs_limits and eligible is None:
        raise NotPossible(
            f"{policy} keeps to what was learned: "
            "give online(eligible=learned_mask(tables, limits))."
        )
    if policy.needs_truth and w.mask == MASK_ARGMAX:
        may = may & tables.allowed
    centred = validate.one_of(prior, PRIORS, "prior", "online") == "centred"
    contexts = with_one(tables.contexts) if centred else tables.contexts
    arms = LinearArms(arms=tables.arms, features=contexts.shape[1], ridge=ridge)
    played = np.empty(T, np.int64)
    start = keys.stream(validate.SEED.check(seed, "seed", "online"), keys.DECIDE)
    loop.run(
        w, arms.kernel_state, arms.ridge, contexts, tables.rewards, tables.allowed, may,
        limit_mean, limit_sd, shown, start, np.arange(1, T + 1, dtype=np.uint64), True, played,
        centred, FIRST_GUESS.copy(),
    )  # fmt: skip
    out = np.zeros((4, len(marks)))
    loop.tally(
        shown, played, tables.rewards, tables.allowed, tables.best, tables.best_allowed, marks, out
    )
    errors, abstentions = out[2].astype(np.int64), out[3].astype(np.int64)
    return Run(marks, out[0], out[1], errors, abstentions, shown, played, arms)


def simulate(
    tables: Tables,
    *,
    policy: Weighted,
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
    exact_denials = validate.truth(exact_denials, "exact_denials", "simulate")
    lesson = teach(
        tables, examples=examples, teaching=teaching, rows=teach_rows, seed=seed, v=v_teaching,
        ridge=ridge_limits, label_coding=label_coding,
    )  # fmt: skip
    denied = lesson.denials(tables, examples) if exact_denials else None
    return online(
        tables, policy=policy, limits=lesson.limits[examples], steps=steps, rows=online_rows,
        eligible=None if denied is None else ~denied, checkpoints=checkpoints, seed=seed,
        ridge=ridge,
    )  # fmt: skip


def with_one(contexts: Floats) -> Floats:
    """Give every context a trailing 1, for the intercept: (M, d + 1)."""
    return np.hstack([contexts, np.ones((len(contexts), 1))])


def shown_rows(
    tables: Tables, rows: npt.ArrayLike | None, steps: int | None, seed: int, owner: str
) -> Ints:
    """Give the rows that an online phase shows: those given, or `steps` drawn ones."""
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
        generator = np.random.default_rng([validate.SEED.check(seed, "seed", owner), int(use)])
        return generator.integers(0, len(tables), least)
    shown = _rows(tables, rows, owner)
    if len(shown) < least:
        raise InvalidValue("rows", owner, f"at least {least} of them", f"{len(shown)} rows")
    return shown


def _rows(tables: Tables, rows: object, owner: str) -> Ints:
    given = _as_array(rows, "rows", owner)
    return validate.indices(given, given.size, len(tables), "rows", owner)


def marks_at(given: object, T: int) -> Ints:
    """Give the steps at which to measure: those given, or 100; T is always among them."""
    if given is None:
        marks = np.linspace(T / 100, T, 100).round().astype(np.int64)
    else:
        array = _as_array(given, "checkpoints", "online")
        marks = validate.indices(array, array.size, T + 1, "checkpoints", "online")
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

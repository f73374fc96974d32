"""The methods of the study of real limits. What "the default" is stands in `default_run` alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import Beliefs, PairLimits, make_limits
from bridle.policies import BehaviorConstrained, KnownMask
from bridle.simulate import Asking, Run, Tables, online, online_asking, teach, teach_beliefs
from bridle_studies.environments.world import World
from bridle_studies.frontier.methods import groups_of
from bridle_studies.paper.work import Fold
from bridle_studies.real.scope import (
    ALONE_5,
    ALPHA,
    AT_WORD_20,
    COIN,
    DEFAULT,
    METHODS,
    PROMISE,
    RATES_5,
    RATES_20,
    SAID,
    STAFF,
    TOLD,
    UNCHECKED,
    Voice,
)
from bridle_studies.scaffold.extensions import Extension

__all__ = [
    "RUNS",
    "Trial",
    "calibrate",
    "default_limits",
    "default_run",
    "newcomers",
    "random_answers",
    "run_of",
]

SIGMA = 0.25  # the paper's best position of the dial
# Of one who errs and is alone no answer is certain, so there is no end to questions but this: so
# many a step, on average.
PATIENCE = 0.1
FOR_NEWCOMERS = 0x4E455743


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """What a method is run on.

    Attributes
    ----------
    fold : Fold
        A world, and its contexts in order.
    taught : int
        Random examples of a method that is taught beforehand.
    limits : str
        The kind of limits of the default.
    later : (int, array (M, K) of bools), optional
        Where limits change: what is allowed from this step on.
    marks : list of int, optional
        The steps after which measures are taken; the last is always among them.
    """

    fold: Fold
    taught: int
    limits: str = "auto"
    later: tuple[int, Bools] | None = None
    marks: list[int] | None = None


def default_limits(
    world: World, seed: int, *, limits: str = "auto", error: float = 0.001
) -> Beliefs:
    """Make the limits that an agent has where nothing is set, in the arms' declared groups.

    Over pairs, where arms have features.
    """
    groups = groups_of(world)
    if world.arm_schema is not None and world.arm_rows is not None:
        return PairLimits(
            kind=limits,
            context=world.schema,
            arm=world.arm_schema,
            rows=world.arm_rows,
            groups=groups,
            error=error,
            seed=seed,
        )
    return make_limits(limits, schema=world.schema, groups=groups, error=error, seed=seed)


def default_run(
    world: World,
    rows: Ints,
    seed: int,
    *,
    limits: str = "auto",
    checks: bool = True,
    promise: tuple[float, float] | None = None,
    later: tuple[int, Bools] | None = None,
    marks: list[int] | None = None,
    teachers: Sequence[Voice] = (),
) -> Asking:
    """Run the product's default in a world: the one place that says what it is.

    Parameters
    ----------
    world : World
        Its tables, schema and the declared groups of its arms. A row of its contexts is an item.
    rows : array (T,)
        The contexts, in order.
    seed : int
        Equal seeds give equal runs.
    limits : str, default "auto"
        The kind of limits; "found" where no groups are declared.
    checks : bool, default True
        Whether a coin chooses plays that the teacher judges afterwards.
    promise : (alpha, q), optional
        Left out by default: a promise is switched on.
    later, marks
        As in `Trial`.
    teachers : sequence of Voice
        Who is asked, if it is not one who never errs.
    """
    told = [
        (one.error, one.price) if one.told is None else (one.error, one.price, one.told)
        for one in teachers
    ]
    return online_asking(
        world.tables,
        beliefs=default_limits(world, seed, limits=limits),
        rows=rows,
        seed=seed,
        items=world.items,
        checks=checks,
        promise=promise,
        later=later,
        checkpoints=marks,
        teachers=told,
    )


def random_answers(
    world: World, sizes: tuple[int, ...], seed: int, *, limits: str = "auto"
) -> dict[int, tuple[Beliefs, Ints, Ints]]:
    """Teach the default's limits at random: by N what is believed, and the rows and arms asked."""
    taught = teach_beliefs(
        world.tables,
        beliefs=default_limits(world, seed, limits=limits),
        examples=sizes,
        questions="random",
        seed=seed,
    )
    return {N: (taught.beliefs[N], taught.rows[:N], taught.arms[:N]) for N in sizes}


def calibrate(world: World, beliefs: Beliefs, rows: Ints, arms: Ints) -> list[list[int]]:
    """Count what was said to be allowed, and how much of it is, over pairs never judged.

    A pair is an item (a row of the world) and a unit of the limits. What the limits say is counted,
    not yet lowered by the exceptions that checks have found.

    Parameters
    ----------
    world : World
        What is so.
    beliefs : Beliefs
        What is said.
    rows, arms : arrays
        What was judged, by a question or a check.

    Returns
    -------
    list of [pairs, allowed]
        For each probability of `SAID`: pairs believed to be allowed with at least that, and how
        many of them are.
    """
    p: Floats = beliefs.predict_all(world.tables.contexts).p  # (U, M)
    unit_of = np.asarray(beliefs.unit_of)
    _, first = np.unique(unit_of, return_index=True)
    truth = world.tables.allowed[:, first].T  # (U, M): arms of a unit share their limits
    unjudged = np.ones(p.shape, np.bool_)
    unjudged[unit_of[arms], rows] = False
    return [
        [int(np.count_nonzero(said)), int(np.count_nonzero(said & truth))]
        for said in (unjudged & (p >= least) for least in SAID)
    ]


def newcomers(world: World, rows: Ints, seed: int) -> dict[str, int]:
    """Hold a fifth of the arms back, run the default with the others, and then add those.

    Returns
    -------
    dict
        Of all pairs of an arm that came late and an item: `pairs`; `sure`, of those that the limits
        call surely allowed or surely denied; `right`, how many of these are; and `safe` and
        `safe_right`, the same of those called surely allowed alone.
    """
    assert world.arm_schema is not None and world.arm_rows is not None and world.items is not None
    K = world.tables.arms
    late = np.sort(np.random.default_rng([seed, FOR_NEWCOMERS]).permutation(K)[: K // 5])
    early = np.setdiff1d(np.arange(K), late)
    tables = world.tables
    part = replace(
        world,
        tables=Tables(
            tables.contexts,
            tables.rewards[:, early],
            tables.allowed[:, early],
            arm_features=world.arm_rows[early],
        ),
        arms=tuple(world.arms[k] for k in early.tolist()),
        arm_rows=world.arm_rows[early],
    )
    limits = default_run(part, rows, seed).beliefs
    assert isinstance(limits, PairLimits)
    limits.grow(len(late), rows=world.arm_rows[late])
    _, first = np.unique(world.items, return_index=True)
    look = limits.predict_all(tables.contexts[first])
    safe, denied = look.safe[len(early) :].T, ~look.possible[len(early) :].T
    truth = tables.allowed[first][:, late]
    return {
        "pairs": safe.size,
        "sure": int(np.count_nonzero(safe | denied)),
        "right": int(np.count_nonzero((safe & truth) | (denied & ~truth))),
        "safe": int(np.count_nonzero(safe)),
        "safe_right": int(np.count_nonzero(safe & truth)),
    }


# -- the methods: a run, and the teacher's answers that it took ----------------------------------


def _default(
    *,
    checks: bool = True,
    promise: tuple[float, float] | None = None,
    teachers: Sequence[Voice] = (),
) -> Callable[[Trial], tuple[Run, int]]:
    """Return the run of the default, or of the default but for checks, a promise or teachers."""

    def run(trial: Trial) -> tuple[Run, int]:
        fold = trial.fold
        made = default_run(
            fold.world,
            fold.online_rows,
            fold.seed,
            limits=trial.limits,
            checks=checks,
            promise=promise,
            later=trial.later,
            marks=trial.marks,
            teachers=teachers,
        )
        return made, len(made.said)

    return run


def _alone(trial: Trial) -> tuple[Run, int]:
    """Run the default with one teacher who errs, of whom the rate is told: `teacher_error`.

    Questions and checks have errors of their own each time; no answer is certain.
    """
    fold, world, (voice,) = trial.fold, trial.fold.world, STAFF[ALONE_5]
    beliefs = default_limits(world, fold.seed, limits=trial.limits, error=voice.error)
    made = online_asking(
        world.tables,
        beliefs=beliefs,
        rows=fold.online_rows,
        seed=fold.seed,
        checks=True,
        flips=voice.error,
        remember=False,
        budget=int(PATIENCE * len(fold.online_rows)),
        later=trial.later,
        checkpoints=trial.marks,
    )
    return made, len(made.said)


def _asking(kind: str, extension: Extension | None = None) -> Callable[[Trial], tuple[Run, int]]:
    """Return the run of one kind of limits that asks when in doubt."""

    def run(trial: Trial) -> tuple[Run, int]:
        fold, world = trial.fold, trial.fold.world
        if extension is not None:
            extension.load()
        made = online_asking(
            world.tables,
            beliefs=default_limits(world, fold.seed, limits=kind),
            rows=fold.online_rows,
            seed=fold.seed,
            items=world.items,
            later=trial.later,
            checkpoints=trial.marks,
        )
        return made, len(made.said)

    return run


def _bcts(trial: Trial) -> tuple[Run, int]:
    """Run the paper's agent: a blend of reward and of what it was taught at random."""
    fold = trial.fold
    lesson = teach(fold.world.tables, examples=trial.taught, rows=fold.teach_rows, seed=fold.seed)
    tables, rows = _in_force(trial)
    run = online(
        tables,
        policy=BehaviorConstrained(sigma=SIGMA),
        limits=lesson.limits[trial.taught],
        rows=rows,
        seed=fold.seed,
        checkpoints=trial.marks,
    )
    return run, trial.taught


def _told(trial: Trial) -> tuple[Run, int]:
    """Run the mask that is told the limits, at once where they change, with our reward side."""
    tables, rows = _in_force(trial)
    run = online(
        tables,
        policy=KnownMask(reading="argmax"),
        rows=rows,
        seed=trial.fold.seed,
        prior="scaled",
        checkpoints=trial.marks,
    )
    return run, 0


def _in_force(trial: Trial) -> tuple[Tables, Ints]:
    """Return tables and rows such that each step has the limits that are in force at it."""
    tables, rows = trial.fold.world.tables, trial.fold.online_rows
    if trial.later is None:
        return tables, rows
    turn, allowed = trial.later
    both = Tables(
        np.concatenate([tables.contexts] * 2),
        np.concatenate([tables.rewards] * 2),
        np.concatenate([tables.allowed, allowed]),
        arm_features=tables.arm_features,
    )
    return both, rows + len(tables) * (np.arange(len(rows)) >= turn)


RUNS: dict[str, Callable[[Trial], tuple[Run, int]]] = {
    DEFAULT: _default(),
    PROMISE: _default(promise=(ALPHA, COIN)),
    UNCHECKED: _default(checks=False),
    **{name: _default(teachers=STAFF[name]) for name in (RATES_20, RATES_5, AT_WORD_20)},
    ALONE_5: _alone,
    "rules": _asking("rules"),
    "logistic": _asking("logistic"),
    "bcts": _bcts,
    TOLD: _told,
}
assert set(RUNS) == set(METHODS)


def run_of(method: str, limits: Sequence[Extension]) -> Callable[[Trial], tuple[Run, int]]:
    """Return the run of a method: one of ours, or of limits of others."""
    for extension in limits:
        if extension.label == method:
            return _asking(extension.name, extension)
    return RUNS[method]

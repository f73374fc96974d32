"""The methods of the study of real limits. What "the default" is stands in `default_run` alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bridle.asking import Asking, online_asking
from bridle.kernels.types import Floats, Ints
from bridle.lessons import teach_beliefs
from bridle.limits import Beliefs, make_limits
from bridle.policies import BehaviorConstrained, KnownMask
from bridle.simulate import Run, online, teach
from bridle.study.frontier_methods import CENTRED_V, groups_of
from bridle.study.real_scope import DEFAULT, SAID, TOLD
from bridle.study.work import Fold
from bridle.worlds.world import World

__all__ = ["RUNS", "calibrate", "default_limits", "default_run", "random_answers"]

SIGMA = 0.25  # the paper's best position of the dial


def default_limits(world: World, seed: int, *, limits: str = "auto") -> Beliefs:
    """Make the limits that an agent has where nothing is set, in the arms' declared groups."""
    return make_limits(limits, schema=world.schema, groups=groups_of(world), seed=seed)


def default_run(world: World, rows: Ints, seed: int, *, limits: str = "auto") -> Asking:
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
    """
    beliefs = default_limits(world, seed, limits=limits)
    return online_asking(world.tables, beliefs=beliefs, rows=rows, seed=seed)


def random_answers(
    world: World, sizes: tuple[int, ...], seed: int, *, limits: str = "auto"
) -> dict[int, tuple[Beliefs, Ints, Ints]]:
    """Teach the default's limits at random: by N what is believed, and the rows and arms asked."""
    taught = teach_beliefs(
        world.tables, beliefs=default_limits(world, seed, limits=limits), examples=sizes,
        questions="random", seed=seed,
    )  # fmt: skip
    return {N: (taught.beliefs[N], taught.rows[:N], taught.arms[:N]) for N in sizes}


def calibrate(world: World, beliefs: Beliefs, rows: Ints, arms: Ints) -> list[list[int]]:
    """Count what was said to be allowed, and how much of it is, over pairs never asked about.

    A pair is an item (a row of the world) and a unit of the limits.

    Returns
    -------
    list of [pairs, allowed]
        For each probability of `SAID`: pairs believed to be allowed with at least that, and how
        many of them are.
    """
    p: Floats = beliefs.look_all(world.tables.contexts).p  # (U, M)
    unit_of = np.asarray(beliefs.unit_of)
    _, first = np.unique(unit_of, return_index=True)
    truth = world.tables.allowed[:, first].T  # (U, M): arms of a unit share their limits
    unasked = np.ones(p.shape, np.bool_)
    unasked[unit_of[arms], rows] = False
    return [
        [int(np.count_nonzero(said)), int(np.count_nonzero(said & truth))]
        for said in (unasked & (p >= least) for least in SAID)
    ]


# -- the others, for comparison ------------------------------------------------------------------


def _asking(kind: str) -> Callable[[Fold, int], tuple[Run, int]]:
    """Return the run of one kind of limits that asks when in doubt."""

    def run(fold: Fold, taught: int) -> tuple[Run, int]:
        world = fold.world
        beliefs = make_limits(kind, schema=world.schema, groups=groups_of(world), seed=fold.seed)
        made = online_asking(world.tables, beliefs=beliefs, rows=fold.online_rows, seed=fold.seed)
        return made, len(made.said)

    return run


def _bcts(fold: Fold, taught: int) -> tuple[Run, int]:
    """Run the paper's agent: a blend of reward and of what it was taught at random."""
    tables = fold.world.tables
    lesson = teach(tables, examples=taught, rows=fold.teach_rows, seed=fold.seed)
    run = online(
        tables, policy=BehaviorConstrained(sigma=SIGMA), limits=lesson.limits[taught],
        rows=fold.online_rows, seed=fold.seed,
    )  # fmt: skip
    return run, taught


def _told(fold: Fold, taught: int) -> tuple[Run, int]:
    """Run the mask that is told the limits, with our reward side."""
    policy = KnownMask(reading="argmax", v=CENTRED_V)
    run = online(
        fold.world.tables, policy=policy, rows=fold.online_rows, seed=fold.seed, prior="centred"
    )
    return run, 0


# By method: a run, and the teacher's answers that it took.
RUNS: dict[str, Callable[[Fold, int], tuple[Run, int]]] = {
    "rules": _asking("rules"),
    "logistic": _asking("logistic"),
    "bcts": _bcts,
    TOLD: _told,
}
assert DEFAULT not in RUNS

"""The methods of the frontier: each part gives its runs in a fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias, cast

import numpy as np

from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import make_limits as make_any_limits
from bridle.limits.base import Beliefs
from bridle.limits.clustered import MAX_TERMS, FoundLimits
from bridle.limits.logistic import LogisticLimits
from bridle.limits.mixture import MixtureLimits
from bridle.limits.rules import RuleLimits, thresholds_of
from bridle.policies import BehaviorConstrained, KnownMask, Thompson
from bridle.simulate import Run, Tables, online, online_asking, teach, teach_beliefs, with_one
from bridle_studies.environments.world import World
from bridle_studies.frontier.scope import DOUBTS, NOISY_RANDOM, SIGMAS, Point, Scope
from bridle_studies.paper.plan import agent_name
from bridle_studies.paper.work import Fold, nearest
from bridle_studies.scaffold.extensions import Extension

__all__ = [
    "COSTS",
    "GIVES",
    "PARTS",
    "Part",
    "fixed_point",
    "groups_of",
    "make_limits",
    "mask_of",
    "others_doubt",
]

CENTRED_V = 0.05
# Share of a noisy teacher's answers that are wrong. The agent is not told.
FLIPS = 0.1
FOR_FLIPS = 10  # what the stream of random numbers is for

Part: TypeAlias = Callable[[Fold, Scope], Iterator[Point]]


def groups_of(world: World) -> list[str | None]:
    """Return the declared group of each arm; None is an arm of its own."""
    return [None if arm.group is None else str(arm.group) for arm in world.arms]


def make_limits(
    kind: str, world: World, *, grouped: bool = False, noisy: bool = False, seed: int = 0
) -> Beliefs:
    """Make limits of a kind that know nothing yet; every other setting is its default.

    If `noisy`, rules find out how often the teacher errs; other kinds have no say in that.
    """
    K, d = world.tables.arms, world.tables.features
    groups = groups_of(world) if grouped else None
    if kind == "logistic":
        return LogisticLimits(arms=K, features=d, groups=groups)
    above = thresholds_of(world.schema)
    if kind == "rules":
        return RuleLimits(
            arms=K,
            features=d,
            groups=groups,
            error=None if noisy else 0.001,
            thresholds=above,
            seed=seed,
        )
    if kind == "auto":
        return MixtureLimits(arms=K, features=d, groups=groups, thresholds=above, seed=seed)
    return FoundLimits(arms=K, features=d, thresholds=above, seed=seed)


def mask_of(beliefs: Beliefs, contexts: Floats, *, likely: bool = False) -> Bools:
    """Return which arm is safe in which context, or `likely` allowed (p ≥ .5): (M, K)."""
    kinds, kind = np.unique(contexts, axis=0, return_inverse=True)
    looks = [beliefs.predict(u, kinds) for u in range(beliefs.units)]
    may = np.column_stack([look.p >= 0.5 if likely else look.safe for look in looks])
    return may[kind.ravel()][:, beliefs.unit_of]


# -- methods: each gives its runs in a fold ------------------------------------------------------


def truths(fold: Fold, scope: Scope) -> Iterator[Point]:
    """Methods that are given the truth about the limits."""
    tables, rows = fold.world.tables, fold.online_rows
    fitted = nearest(with_one(tables.contexts), tables.rewards)
    for method, value in (("best-allowed", tables.rewards), ("best-linear", fitted)):
        yield fixed_point(method, tables, rows, best_inside(tables, value))
    for method, reading, prior, v in (
        ("mask", "argmax", "paper", 0.25),
        ("mask+prior", "argmax", "centred", CENTRED_V),
        ("mask-filter", "filter", "paper", 0.25),
    ):
        policy = KnownMask(reading=reading, v=v)
        run = online(tables, policy=policy, rows=rows, seed=fold.seed, prior=prior)
        yield point(method, None, None, run)


def blends(fold: Fold, scope: Scope) -> Iterator[Point]:
    """The paper's dial, taught at random; sigma = 1 needs no answers."""
    tables, rows = fold.world.tables, fold.online_rows
    lesson = teach(tables, examples=scope.examples, rows=fold.teach_rows, seed=fold.seed)
    cells = [(0.25, N) for N in scope.examples] + [(sigma, scope.taught) for sigma in SIGMAS]
    for sigma, N in cells:
        if agent_name(sigma) not in scope.methods:
            continue
        policy = BehaviorConstrained(sigma=sigma)
        run = online(tables, policy=policy, limits=lesson.limits[N], rows=rows, seed=fold.seed)
        yield point(agent_name(sigma), N, N, run)
    if agent_name(1.0) in scope.methods:
        run = online(tables, policy=BehaviorConstrained(sigma=1.0), rows=rows, seed=fold.seed)
        yield point(agent_name(1.0), 0, 0, run)


def random_masks(fold: Fold, scope: Scope) -> Iterator[Point]:
    """Learned masks of logistic limits, an arm or in groups, taught with the paper's questions."""
    tables = fold.world.tables
    sizes = [*scope.masks, *scope.groups]
    lesson = teach(tables, examples=max(sizes), rows=fold.teach_rows, seed=fold.seed)
    said = tables.allowed[lesson.rows, lesson.arms]
    cells = [("logistic-mask", N) for N in scope.masks] + [("groups", N) for N in scope.groups]
    for method, N in cells:
        limits = make_limits("logistic", fold.world, grouped=method == "groups")
        cast(LogisticLimits, limits).learn_many(
            tables.contexts[lesson.rows[:N]], lesson.arms[:N], said[:N]
        )
        yield masked_point(method, N, fold, limits)


def noisy_random(fold: Fold, scope: Scope) -> Iterator[Point]:
    """A learned mask of rules, an arm at a time; the paper's questions, some answers wrong."""
    tables, N = fold.world.tables, scope.taught
    lesson = teach(tables, examples=N, rows=fold.teach_rows, seed=fold.seed)
    flipped = np.random.default_rng([fold.seed, FOR_FLIPS]).random(N) < FLIPS
    said = tables.allowed[lesson.rows, lesson.arms] ^ flipped
    limits = cast(RuleLimits, make_limits("rules", fold.world, noisy=True, seed=fold.seed))
    for arm in range(tables.arms):  # each at once: the order of arms is nothing to them
        mine = lesson.arms == arm
        limits.refit(arm, tables.contexts[lesson.rows[mine]], said[mine], np.flatnonzero(mine))
    yield masked_point(NOISY_RANDOM, N, fold, limits)


def active_pool(fold: Fold, scope: Scope) -> Iterator[Point]:
    """Masks of logistic limits whose questions were chosen out of a pool to teach most.

    The pool is all contexts (nobody has said anything of them), and the mask what is likely
    allowed, p ≥ .5; or it is the fold's own contexts, as for all else that is taught, and the mask
    what is safe, as a genre that the fold has none of cannot be asked about.
    """
    for method, pool in (("active-pool", None), ("active-pool-own", np.unique(fold.teach_rows))):
        taught = teach_beliefs(
            fold.world.tables,
            beliefs=make_limits("logistic", fold.world),
            examples=scope.pool,
            pool=pool,
            seed=fold.seed,
        )
        for N in scope.pool:
            yield masked_point(method, N, fold, taught.beliefs[N], likely=pool is None)


def doubt(method: str) -> Part:
    """Return the part of a method that asks when in doubt: nothing is taught beforehand."""

    def part(fold: Fold, scope: Scope) -> Iterator[Point]:
        how = DOUBTS[method]
        if (
            how.limits == "found"
            and np.isfinite(thresholds_of(fold.world.schema)).sum() > MAX_TERMS
        ):
            return  # it weighs all sets of terms, and here are too many
        limits = make_limits(
            how.limits, fold.world, grouped=how.grouped, noisy=how.noisy, seed=fold.seed
        )
        run = online_asking(
            fold.world.tables,
            beliefs=limits,
            rows=fold.online_rows,
            seed=fold.seed,
            prior=how.prior,
            flips=FLIPS if how.noisy else 0.0,
            remember=not how.noisy,
        )
        yield point(method, None, len(run.said), run)

    return part


def others_doubt(method: str, extension: Extension) -> Part:
    """Return the part of limits of somebody else's, made as an agent makes them."""

    def part(fold: Fold, scope: Scope) -> Iterator[Point]:
        world = fold.world
        extension.load()
        limits = make_any_limits(
            extension.name, schema=world.schema, groups=groups_of(world), seed=fold.seed
        )
        run = online_asking(
            world.tables,
            beliefs=limits,
            rows=fold.online_rows,
            seed=fold.seed,
            prior="centred",  # as our methods of the frontier
        )
        yield point(method, None, len(run.said), run)

    return part


def swept(fold: Fold, scope: Scope) -> Iterator[Point]:
    """The few methods of the sweep."""
    tables, rows = fold.world.tables, fold.online_rows
    yield fixed_point("best-allowed", tables, rows, best_inside(tables, tables.rewards))
    yield point("mask", None, None, online(tables, policy=KnownMask(), rows=rows, seed=fold.seed))
    N = scope.taught
    lesson = teach(tables, examples=N, rows=fold.teach_rows, seed=fold.seed)
    for sigma in (0.25, 1.0):
        run = online(
            tables,
            policy=BehaviorConstrained(sigma=sigma),
            limits=lesson.limits[N],
            rows=rows,
            seed=fold.seed,
        )
        n = N if sigma < 1.0 else 0
        yield point(agent_name(sigma), n, n, run)
    yield from doubt("doubt+rules+groups")(fold, scope)


def point(method: str, examples: int | None, answers: int | None, run: Run) -> Point:
    """Read a run's measures off its last step."""
    return Point(
        method,
        examples,
        answers,
        float(run.R[-1]),
        float(run.Rc[-1]),
        int(run.E[-1]),
        int(run.abstentions[-1]),
    )


def masked_point(
    method: str, N: int, fold: Fold, limits: Beliefs, *, likely: bool = False
) -> Point:
    """Run the online phase inside a learned mask, with the paper's reward side."""
    run = online(
        fold.world.tables,
        policy=Thompson(v=0.25),
        rows=fold.online_rows,
        seed=fold.seed,
        eligible=mask_of(limits, fold.world.tables.contexts, likely=likely),
    )
    return point(method, N, N, run)


def best_inside(tables: Tables, value: Floats) -> Ints:
    """Return the allowed arm of the highest value in each context, −1 where none is: (M,)."""
    inside = np.where(tables.allowed, value, -np.inf).argmax(axis=1)
    return np.where(tables.allowed.any(axis=1), inside, -1)


def fixed_point(method: str, tables: Tables, rows: Ints, plays: Ints) -> Point:
    """Measure a policy that never learns: the arm of each context, −1 to abstain."""
    arm = plays[rows]
    played = arm >= 0
    earned = np.where(played, tables.rewards[rows, arm], 0.0)
    denied = played & ~tables.allowed[rows, arm]
    kept = np.where(denied, 0.0, earned)
    return Point(
        method,
        None,
        None,
        float(np.mean(tables.best[rows] - earned)),
        float(np.mean(tables.best_allowed[rows] - kept)),
        int(denied.sum()),
        int((~played).sum()),
    )


PARTS: dict[str, Part] = {
    "truths": truths,
    "blends": blends,
    "random-masks": random_masks,
    "active-pool": active_pool,
    NOISY_RANDOM: noisy_random,
    **{method: doubt(method) for method in DOUBTS},
    "sweep": swept,
}
# The methods of a part; by default the part is one, and has its name.
GIVES: dict[str, tuple[str, ...]] = {
    "truths": ("best-allowed", "best-linear", "mask", "mask+prior", "mask-filter"),
    "blends": tuple(map(agent_name, (0.25, *SIGMAS, 1.0))),
    "random-masks": ("logistic-mask", "groups"),
    "active-pool": ("active-pool", "active-pool-own"),
    "sweep": ("best-allowed", "mask", "sigma=0.25", "sigma=1", "doubt+rules+groups"),
}
# Seconds of a job on one core, movies at full length, roughly.
COSTS = {
    "truths": 0.4,
    "blends": 1.3,
    "random-masks": 0.6,
    "active-pool": 3.0,
    NOISY_RANDOM: 8.0,
    "doubt": 1.3,
    "doubt+prior": 1.1,
    "doubt+groups": 0.3,
    "doubt+rules": 0.7,
    "doubt+rules+groups": 0.2,
    "doubt+rules+found": 10.0,
    "doubt+auto+groups": 3.0,
    "noisy+doubt+rules+groups": 0.8,
    "sweep": 0.5,
}

"""The frontier: how much regret and how many violations a number of the teacher's answers buys.

Every method of the paper's, and ours, on the same worlds, contexts and seeds. A *part* is a few
methods that share what is costly; a job is a part in one world and fold, and its result depends on
nothing else. So the study's engines run it anywhere, with the same bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from bridle.asking import online_asking
from bridle.errors import InvalidValue
from bridle.kernels.types import Bools, Floats, Ints
from bridle.lessons import teach_beliefs
from bridle.limits.auto import AutoLimits
from bridle.limits.base import Beliefs
from bridle.limits.found import MAX_TERMS, FoundLimits
from bridle.limits.logistic import LogisticLimits
from bridle.limits.rulesets import RuleLimits
from bridle.limits.terms import thresholds_of
from bridle.policies import BehaviorConstrained, KnownMask, Thompson
from bridle.settings import Json
from bridle.simulate import Run, Tables, online, teach, with_one
from bridle.study.plan import Plan, agent_name
from bridle.study.work import Fold, Work, nearest
from bridle.worlds.alignment import Aligned
from bridle.worlds.blocks import Block
from bridle.worlds.movies import Movies
from bridle.worlds.pairs import Pairs
from bridle.worlds.synthetic import synthetic_block
from bridle.worlds.world import Recipe, World

__all__ = [
    "DOUBTS", "METHODS", "Frontier", "Job", "Point", "Scope", "cost", "groups_of", "jobs",
    "make_limits", "mask_of", "scenes", "sweep",
]  # fmt: skip

CENTRED_V = 0.05
SIGMAS = (0.0, 0.5, 0.75)  # beside .25, at one N
DENSITIES = (0.1, 0.2, 0.33, 0.5)
ALIGNMENTS = (-1.0, -0.5, 0.0, 0.5, 1.0)
# How each method that asks when in doubt is made: limits, whether in groups, reward side.
DOUBTS: dict[str, tuple[str, bool, str]] = {
    "doubt": ("logistic", False, "paper"),
    "doubt+prior": ("logistic", False, "centred"),
    "doubt+groups": ("logistic", True, "centred"),
    "doubt+rules": ("rules", False, "centred"),
    "doubt+rules+groups": ("rules", True, "centred"),
    "doubt+rules+found": ("found", False, "centred"),
    "doubt+auto+groups": ("auto", True, "centred"),
}
# Ten times the cost of others, and rules of single features: not where pairs are denied.
COSTLY = ("doubt+rules+found",)
# All methods, in the order in which they are shown.
METHODS = (
    "best-allowed", "best-linear", "mask", "mask+prior", "mask-filter",
    *map(agent_name, (0.0, 0.25, 0.5, 0.75, 1.0)), "logistic-mask", "groups", "active-pool",
    "active-pool-all", *DOUBTS,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Scope:
    """How much is run. The defaults are those of the issue; `quick` is a small one.

    Parameters
    ----------
    folds, steps, seed, teaching_contexts
        As in `Plan`: each fold teaches on contexts of its own and goes online on the others.
    examples : tuple of int
        N at which sigma = .25 is taught at random; the other sigmas at `taught` alone.
    masks, groups, pool : tuples of int
        N for logistic masks: taught at random an arm, at random in groups, by chosen questions.
    sweep_steps : int
        T of the sweep over density and alignment.
    densities, alignments : tuples of float
        What the sweep runs over.
    """

    folds: int = 5
    steps: int = 50_000
    seed: int = 0
    teaching_contexts: int | None = None
    examples: tuple[int, ...] = (5_000, 10_000, 50_000, 75_000, 100_000)
    taught: int = 50_000
    masks: tuple[int, ...] = (10_000, 50_000)
    groups: tuple[int, ...] = (2_000,)
    pool: tuple[int, ...] = (500, 1_000, 2_000, 5_000)
    sweep_steps: int = 10_000
    densities: tuple[float, ...] = DENSITIES
    alignments: tuple[float, ...] = ALIGNMENTS

    def __post_init__(self) -> None:
        if self.taught not in self.examples:
            raise InvalidValue("taught", "Scope", f"one of {self.examples}", self.taught)
        self.plan()  # checks what both have

    @classmethod
    def quick(cls) -> Scope:
        """Give a scope that takes seconds and shows nothing but that it runs."""
        return cls(
            folds=2, steps=2_000, examples=(500, 2_000), taught=2_000, masks=(500, 2_000),
            groups=(500,), pool=(200, 500), sweep_steps=500, densities=(0.1, 0.33),
            alignments=(-1.0, 0.0, 1.0),
        )  # fmt: skip

    def plan(self, *, sweep: bool = False) -> Plan:
        """Give the plan by whose folds it runs."""
        most = max(*self.examples, *self.masks, *self.groups)
        return Plan(
            examples=(most,), folds=self.folds, steps=self.sweep_steps if sweep else self.steps,
            seed=self.seed, teaching_contexts=None if sweep else self.teaching_contexts,
        )  # fmt: skip

    def to_json(self) -> dict[str, Json]:
        """Give every choice as plain JSON values."""
        values = dataclasses.asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}


@dataclass(frozen=True)
class Point:
    """A run: what a method cost and gave.

    `examples` is the N it was taught with beforehand, None where it was not taught or asked online;
    `answers` is what the teacher was asked in all, None where the method was given the truth.
    """

    method: str
    examples: int | None
    answers: int | None
    R: float
    Rc: float
    E: int
    abstentions: int


@dataclass(frozen=True)
class Job:
    """A part of the methods in one world and fold."""

    world: str
    fold: int
    part: str


Part: TypeAlias = Callable[[Fold, Scope], Iterator[Point]]


class Frontier:
    """Does jobs of the frontier, as `Work` does those of a study.

    Parameters
    ----------
    recipes : mapping from names to recipes
        The worlds, by the names that results give them.
    scope : Scope
        How much is run.
    """

    def __init__(self, recipes: Mapping[str, Recipe], scope: Scope) -> None:
        self.recipes = dict(recipes)
        self.scope = scope
        self._last: tuple[str, Work] | None = None

    def do(self, job: Job) -> list[Point]:
        """Do one job."""
        return [*PARTS[job.part](self.fold(job.world, job.fold), self.scope)]

    def fold(self, world: str, index: int) -> Fold:
        """Draw a fold of a world; the last one made is kept."""
        if self._last is None or self._last[0] != world:
            recipe = self.recipes[world]
            plan = self.scope.plan(sweep=isinstance(recipe, Aligned))
            self._last = (world, Work(recipe, plan))
        return self._last[1].fold(index)


def scenes(recipe: Recipe) -> dict[str, Recipe]:
    """Give the worlds that a recipe is tried in: movies with three kinds of limits, others as is.

    >>> from bridle.worlds import synthetic_block
    >>> [*scenes(Movies(synthetic_block(people=5, movies=20)))]
    ['synthetic single', 'synthetic pairs', 'synthetic both']
    """
    if not isinstance(recipe, Movies):
        return {recipe.name: recipe}
    made_up = "synthetic " if recipe.origin.synthetic else ""
    kinds: dict[str, Recipe] = {
        "single": recipe, "pairs": Pairs(recipe), "both": Pairs(recipe, singles=True),
    }  # fmt: skip
    return {f"{made_up}{name}": found for name, found in kinds.items()}


def sweep(scope: Scope, block: Block | None = None) -> dict[str, Recipe]:
    """Give the synthetic worlds of the sweep over density and alignment."""
    block = block or synthetic_block()
    made = [
        Aligned(block, density=density, alignment=alignment)
        for density in scope.densities
        for alignment in scope.alignments
    ]
    return {recipe.name: recipe for recipe in made}


def jobs(recipes: Mapping[str, Recipe], scope: Scope) -> list[Job]:
    """Cut the frontier into jobs, those of one world and fold one after the other."""
    return [
        Job(world, fold, part)
        for world, recipe in recipes.items()
        for fold in range(scope.folds)
        for part in PARTS
        if (part == "sweep") == isinstance(recipe, Aligned)
        and not (part in COSTLY and isinstance(recipe, Pairs))
    ]


def groups_of(world: World) -> list[str | None]:
    """Give the declared group of each arm; None is an arm of its own."""
    return [None if arm.group is None else str(arm.group) for arm in world.arms]


def make_limits(kind: str, world: World, *, grouped: bool = False, seed: int = 0) -> Beliefs:
    """Make limits of a kind that know nothing yet; every other setting is its default."""
    K, d = world.tables.arms, world.tables.features
    groups = groups_of(world) if grouped else None
    if kind == "logistic":
        return LogisticLimits(arms=K, features=d, groups=groups)
    above = thresholds_of(world.schema)
    if kind == "rules":
        return RuleLimits(arms=K, features=d, groups=groups, thresholds=above, seed=seed)
    if kind == "auto":
        return AutoLimits(arms=K, features=d, groups=groups, thresholds=above, seed=seed)
    return FoundLimits(arms=K, features=d, thresholds=above, seed=seed)


def mask_of(beliefs: Beliefs, contexts: Floats, *, likely: bool = False) -> Bools:
    """Say which arm is safe in which context, or `likely` allowed (p ≥ .5): (M, K)."""
    kinds, kind = np.unique(contexts, axis=0, return_inverse=True)
    looks = [beliefs.look(u, kinds) for u in range(beliefs.units)]
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
        policy = BehaviorConstrained(sigma=sigma)
        run = online(tables, policy=policy, limits=lesson.limits[N], rows=rows, seed=fold.seed)
        yield point(agent_name(sigma), N, N, run)
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


def active_pool(fold: Fold, scope: Scope) -> Iterator[Point]:
    """Masks of logistic limits whose questions were chosen out of a pool to teach most.

    The pool is the fold's own contexts, as for all that is taught, and the mask what is safe; or it
    is all contexts (a genre that the fold has none of can be asked about), and the mask p ≥ .5.
    """
    for method, pool in (("active-pool", np.unique(fold.teach_rows)), ("active-pool-all", None)):
        taught = teach_beliefs(
            fold.world.tables, beliefs=make_limits("logistic", fold.world), examples=scope.pool,
            pool=pool, seed=fold.seed,
        )  # fmt: skip
        for N in scope.pool:
            yield masked_point(method, N, fold, taught.beliefs[N], likely=pool is None)


def doubt(method: str) -> Part:
    """Give the part of a method that asks when in doubt: nothing is taught beforehand."""

    def part(fold: Fold, scope: Scope) -> Iterator[Point]:
        kind, grouped, prior = DOUBTS[method]
        if kind == "found" and np.isfinite(thresholds_of(fold.world.schema)).sum() > MAX_TERMS:
            return  # it weighs all sets of terms, and here are too many
        limits = make_limits(kind, fold.world, grouped=grouped, seed=fold.seed)
        run = online_asking(
            fold.world.tables, beliefs=limits, rows=fold.online_rows, seed=fold.seed, prior=prior
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
            tables, policy=BehaviorConstrained(sigma=sigma), limits=lesson.limits[N], rows=rows,
            seed=fold.seed,
        )  # fmt: skip
        n = N if sigma < 1.0 else 0
        yield point(agent_name(sigma), n, n, run)
    yield from doubt("doubt+rules+groups")(fold, scope)


# Seconds of a job on one core, movies at full length, roughly.
COSTS = {
    "truths": 0.4, "blends": 1.3, "random-masks": 0.6, "active-pool": 3.0, "doubt": 1.3,
    "doubt+prior": 1.1, "doubt+groups": 0.3, "doubt+rules": 0.7, "doubt+rules+groups": 0.2,
    "doubt+rules+found": 10.0, "doubt+auto+groups": 3.0, "sweep": 0.5,
}  # fmt: skip
PARTS: dict[str, Part] = {
    "truths": truths,
    "blends": blends,
    "random-masks": random_masks,
    "active-pool": active_pool,
    **{method: doubt(method) for method in DOUBTS},
    "sweep": swept,
}


def point(method: str, examples: int | None, answers: int | None, run: Run) -> Point:
    """Read a run's measures off its last step."""
    return Point(
        method, examples, answers, float(run.R[-1]), float(run.Rc[-1]), int(run.E[-1]),
        int(run.abstentions[-1]),
    )  # fmt: skip


def masked_point(
    method: str, N: int, fold: Fold, limits: Beliefs, *, likely: bool = False
) -> Point:
    """Go online inside a learned mask, with the paper's reward side."""
    run = online(
        fold.world.tables, policy=Thompson(v=0.25), rows=fold.online_rows, seed=fold.seed,
        eligible=mask_of(limits, fold.world.tables.contexts, likely=likely),
    )  # fmt: skip
    return point(method, N, N, run)


def best_inside(tables: Tables, value: Floats) -> Ints:
    """Give the allowed arm of the highest value in each context, −1 where none is: (M,)."""
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
        method, None, None,
        float(np.mean(tables.best[rows] - earned)),
        float(np.mean(tables.best_allowed[rows] - kept)),
        int(denied.sum()), int((~played).sum()),
    )  # fmt: skip


def cost(job: Job) -> float:
    """Guess what a job costs, beside others: for the bar."""
    return COSTS.get(job.part, 1.0)

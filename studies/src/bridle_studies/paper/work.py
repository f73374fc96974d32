"""The work of a study, cut into jobs: each is plain data, and its result depends on nothing else.

So a job may run in this process, in another or on another machine: the bits are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bridle.errors import InvalidValue
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import LABEL_CODINGS, LinearLimits
from bridle.policies import Policy
from bridle.reward.base import RewardModel
from bridle.reward.posterior import LinearArms
from bridle.simulate import Lesson, Tables, learned_mask, online, teach
from bridle_studies.environments.world import Recipe, World
from bridle_studies.paper.plan import Plan
from bridle_studies.scaffold.journal import file_name

__all__ = ["Batch", "BatchResult", "Class", "ClassResult", "Fold", "Job", "Result", "Work", "jobs"]

# What a stream of random numbers is for; a number each, so that none is used twice.
FOR_PARTS, FOR_WORLD, FOR_ROWS, FOR_AGENTS = range(4)


@dataclass(frozen=True)
class Class:
    """A job: teach in one fold, in one way, up to the largest N."""

    fold: int
    teaching: str

    @property
    def key(self) -> str:
        """A name that no other job of the study has."""
        return f"class-{self.fold}-{self.teaching}"


@dataclass(frozen=True)
class Batch:
    """A job: let agents go online in one fold, with what was taught by N answers.

    `limits` and `denied` come out of a `Class`; agents that do not look at what was taught need
    neither. `policy` is that of somebody else's, whose runs are a job of their own.
    """

    fold: int
    teaching: str | None
    examples: int | None
    agents: tuple[str, ...]
    limits: dict[str, npt.NDArray[Any]] | None = field(default=None, repr=False, compare=False)
    denied: Bools | None = field(default=None, repr=False, compare=False)
    policy: str = ""

    @property
    def key(self) -> str:
        """A name that no other job of the study has."""
        if self.teaching is None:
            return f"batch-{self.fold}"
        own = f"-{file_name(self.policy)}" if self.policy else ""
        return f"batch-{self.fold}-{self.teaching}-{self.examples}{own}"


Job: TypeAlias = Class | Batch


@dataclass(frozen=True, eq=False)
class ClassResult:
    """What teaching gave: the curve of a lesson, and what was learned by each N."""

    n: Ints  # (points,)
    denied: Ints  # (points,): answers "not allowed" among the first n
    regret: Floats  # (points,): best possible label minus label, summed over the first n
    limits: dict[int, dict[str, npt.NDArray[Any]]]
    exact: dict[int, Bools]


@dataclass(frozen=True, eq=False)
class BatchResult:
    """What agents did online: measures by agent and checkpoint."""

    t: Ints  # (points,)
    R: Floats  # (agents, points), as all below
    Rc: Floats
    E: Ints
    abstentions: Ints
    blend_regret: Floats  # nan for agents that are not on the dial


Result: TypeAlias = ClassResult | BatchResult


@dataclass(frozen=True, eq=False)
class Fold:
    """A world and its contexts, in the order in which every agent of the fold sees them."""

    world: World
    seed: int
    teach_rows: Ints
    online_rows: Ints
    reward_value: Floats  # (M, K): c·μ*, the linear reward that is nearest to the true one
    limit_value: Floats  # (M, K): c·μ^e*, the same of the limits


def jobs(plan: Plan) -> tuple[list[Class], list[Batch]]:
    """Cut a plan into jobs: what has to be taught, and what then goes online."""
    classes = [Class(f, way) for f in range(plan.folds) for way in plan.teaching]
    batches = [Batch(f, None, None, plan.untaught) for f in range(plan.folds)]
    if plan.blends:
        batches += [
            Batch(job.fold, job.teaching, N, plan.blends) for job in classes for N in plan.examples
        ]
    batches += [
        Batch(job.fold, job.teaching, N, (agent,), policy=agent)
        for agent in plan.others
        for job in classes
        for N in plan.examples
    ]
    return classes, batches


class Work:
    """Does jobs of a study.

    Parameters
    ----------
    recipe : Recipe
        What the worlds are drawn from.
    plan : Plan
        What to run.
    """

    def __init__(self, recipe: Recipe, plan: Plan) -> None:
        self.recipe = recipe
        self.plan = plan
        self._folds: dict[int, Fold] = {}

    def do(self, job: Job) -> Result:
        """Do one job."""
        return self.teach(job) if isinstance(job, Class) else self.run(job)

    def fold(self, index: int) -> Fold:
        """Draw a fold's world and the order of its contexts; the last one made is kept."""
        if index not in self._folds:
            self._folds = {index: self._make(index)}
        return self._folds[index]

    def world(self, index: int) -> World:
        """Draw a fold's world."""
        drawn = index if self.plan.redraw_constraints else 0
        return self.recipe.world(_seed(self.plan.seed, FOR_WORLD, drawn))

    def _make(self, index: int) -> Fold:
        plan, M = self.plan, len(self.recipe)
        each = plan.contexts_to_teach(M)
        order = np.random.default_rng([plan.seed, FOR_PARTS]).permutation(M)
        chosen = np.zeros(M, np.bool_)
        chosen[order[index * each : (index + 1) * each]] = True
        world = self.world(index)
        rng = np.random.default_rng([plan.seed, FOR_ROWS, index])
        to_teach, others = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        teach_rows = to_teach[rng.integers(0, len(to_teach), max(plan.examples))]
        # A stream of its own: more examples do not change what comes online.
        rng = np.random.default_rng([plan.seed, FOR_ROWS, index, 1])
        online_rows = others[rng.integers(0, len(others), plan.steps)]
        return Fold(
            world=world,
            seed=_seed(plan.seed, FOR_AGENTS, index),
            teach_rows=teach_rows,
            online_rows=online_rows,
            reward_value=nearest(world.tables.contexts, world.tables.rewards),
            limit_value=nearest(world.tables.contexts, self._labels(world.tables.allowed)),
        )

    def _labels(self, allowed: Bools) -> Floats:
        high, low = LABEL_CODINGS[self.plan.label_coding]
        return np.where(allowed, high, low)

    def teach(self, job: Class) -> ClassResult:
        """Run a teaching phase; shorter ones are its beginnings."""
        plan, fold = self.plan, self.fold(job.fold)
        lesson = teach(
            fold.world.tables,
            examples=plan.examples,
            teaching=job.teaching,
            rows=fold.teach_rows,
            seed=fold.seed,
            v=plan.v if plan.v_teaching is None else plan.v_teaching,
            ridge=plan.ridge_limits,
            label_coding=plan.label_coding,
        )
        allowed = fold.world.tables.allowed
        label: Ints = allowed[lesson.rows, lesson.arms].astype(np.int64)
        could: Ints = np.asarray(allowed.any(axis=1))[lesson.rows].astype(np.int64)
        n = points(len(label), plan.checkpoints)
        return ClassResult(
            n=n,
            denied=np.cumsum(1 - label)[n - 1],
            regret=np.cumsum(could - label)[n - 1].astype(np.float64),
            limits={N: limits.to_state() for N, limits in lesson.limits.items()},
            exact=self._exact(lesson, fold),
        )

    def _exact(self, lesson: Lesson, fold: Fold) -> dict[int, Bools]:
        if not self.plan.exact_denials:
            return {}
        return {N: lesson.denials(fold.world.tables, N) for N in self.plan.examples}

    def run(self, job: Batch) -> BatchResult:
        """Run online phases, one for each agent."""
        plan, fold = self.plan, self.fold(job.fold)
        tables = fold.world.tables
        limits = None if job.limits is None else LinearLimits.from_state(job.limits)
        if limits is None and not set(job.agents) <= set(plan.untaught):
            raise InvalidValue("limits", "Batch", "what was taught", None)
        t = points(plan.steps, plan.checkpoints)
        measures: dict[str, list[npt.NDArray[Any]]] = {
            name: [] for name in ("R", "Rc", "E", "abstentions", "blend_regret")
        }
        for agent in job.agents:
            policy = plan.policy(agent)
            run = online(
                tables,
                policy=policy,
                limits=limits,
                rows=fold.online_rows,
                eligible=_eligible(tables, policy, limits, job.denied),
                checkpoints=t.tolist(),
                seed=fold.seed,
                ridge=plan.ridge,
                model=self._model(tables),
            )
            for name in ("R", "Rc", "E", "abstentions"):
                measures[name].append(getattr(run, name))
            measures["blend_regret"].append(self._blend_regret(fold, agent, run.played)[t - 1])
        return BatchResult(t=t, **{name: np.array(rows) for name, rows in measures.items()})

    def _model(self, tables: Tables) -> RewardModel | None:
        if self.plan.reward is None:
            return None
        model: RewardModel = self.plan.reward.load().factory(
            arms=tables.arms, features=tables.features
        )
        return model

    def _blend_regret(self, fold: Fold, agent: str, played: Ints) -> Floats:
        """Definition 2's regret up to each step, by the agent's own sigma; a pause costs all."""
        if agent not in self.plan.dial:
            return np.full(len(played), np.nan)
        sigma = self.plan.dial[agent]
        value = sigma * fold.reward_value + (1.0 - sigma) * fold.limit_value
        best = value.max(axis=1)
        got = np.where(played >= 0, value[fold.online_rows, played], 0.0)
        return np.cumsum(best[fold.online_rows] - got)


def _eligible(
    tables: Tables, policy: Policy, limits: LinearLimits | None, denied: Bools | None
) -> Bools | None:
    may = None if denied is None else ~denied
    if limits is not None and policy.needs_limits:
        safe = learned_mask(tables, limits)
        return safe if may is None else safe & may
    return may


def nearest(contexts: Floats, outcomes: Floats) -> Floats:
    """Fit each arm's outcomes by a linear function of the context, and give its values: (M, K).

    Least squares by the agent's own arms, with a ridge that is next to nothing: unlike a library's
    solver they give the same bits whatever the number of threads.
    """
    M, K = outcomes.shape
    arms = LinearArms(arms=K, features=contexts.shape[1], ridge=1e-6)
    for k in range(K):
        arms.update_many(np.full(M, k, np.int64), contexts, np.ascontiguousarray(outcomes[:, k]))
    return arms.scores_many(contexts)[0]


def points(length: int, count: int) -> Ints:
    """Return `count` steps, evenly spread up to `length`, which is the last.

    >>> points(100, 4).tolist(), points(2, 100).tolist()
    ([25, 50, 75, 100], [1, 2])
    """
    spread = np.linspace(length / count, length, count).round().astype(np.int64)
    return np.unique(spread[spread > 0])


def steps_of(plan: Plan, job: Job) -> int:
    """Return the size of a job, in steps of the compiled loop."""
    if isinstance(job, Class):
        return max(plan.examples)
    return plan.steps * len(job.agents)


def _seed(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0])

"""Limits that people really set: whether the default keeps them, and at what price.

Every world is drawn several times; in each draw every method sees the same contexts in the same
order. A job is a method in one world and draw, and its result depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bridle.errors import InvalidValue
from bridle.simulate import Run
from bridle.study.plan import Plan
from bridle.study.real_methods import RUNS, calibrate, default_run, random_answers
from bridle.study.real_scope import CALIBRATION, DEFAULT, OWN, Job, Result, Scene, Scope
from bridle.study.work import Fold, Work
from bridle.worlds.world import World

__all__ = ["Real"]

# The frontier has five folds to a seed: draws 0 to 4 are those of its seed, 5 to 9 of the next.
FOLDS = 5
# What a stream of random numbers is for.
FOR_WORLD, FOR_TEACHING, FOR_ROWS, FOR_AGENTS = range(0x5245_0000, 0x5245_0004)


class Real:
    """Does jobs of the study.

    Parameters
    ----------
    scenes : sequence of Scene
        The worlds.
    scope : Scope
        How much is run.
    """

    def __init__(self, scenes: Sequence[Scene], scope: Scope) -> None:
        self.scenes = {scene.name: scene for scene in scenes}
        if len(self.scenes) < len(scenes):
            raise InvalidValue("scenes", "Real", "of distinct names", [s.name for s in scenes])
        self.scope = scope
        self._last: tuple[str, int, Fold] | None = None

    def do(self, job: Job) -> Result:
        """Do one job."""
        scene, fold = self.scenes[job.world], self.fold(job.world, job.seed)
        if job.part == CALIBRATION:
            answers = random_answers(
                fold.world, self.scope.calibrated, fold.seed, limits=scene.limits
            )
            counts = {
                str(N): calibrate(fold.world, beliefs, rows, arms)
                for N, (beliefs, rows, arms) in answers.items()
            }
            return {"calibration": counts}
        if job.part == DEFAULT:
            asked = default_run(fold.world, fold.online_rows, fold.seed, limits=scene.limits)
            counts = {OWN: calibrate(fold.world, asked.beliefs, asked.asked_rows, asked.asked_arms)}
            return {"run": _measures(asked, len(asked.said)), "calibration": counts}
        run, many = RUNS[job.part](fold, self.scope.taught)
        return {"run": _measures(run, many)}

    def fold(self, name: str, seed: int) -> Fold:
        """Draw a world and the order of its contexts; the last one made is kept."""
        if self._last is None or self._last[:2] != (name, seed):
            scene = self.scenes[name]
            made = self._fold_of_rules(scene, seed) if scene.rules else self._fold(scene, seed)
            self._last = (name, seed, made)
        return self._last[2]

    def _fold_of_rules(self, scene: Scene, seed: int) -> Fold:
        """Draw a fold as the frontier does."""
        plan = Plan(
            examples=(self.scope.taught,), folds=FOLDS, steps=scene.steps,
            seed=self.scope.seed + seed // FOLDS, teaching_contexts=scene.teaching_contexts,
        )  # fmt: skip
        fold = Work(scene.recipe, plan).fold(seed % FOLDS)
        return replace(fold, world=_ungrouped(fold.world)) if scene.limits == "found" else fold

    def _fold(self, scene: Scene, seed: int) -> Fold:
        """Draw a world whose contexts are all taught on and all shown online."""
        world = scene.recipe.world(self._seed(FOR_WORLD, seed))
        M, draws = len(world.tables), (self.scope.seed, seed)
        nothing = np.zeros((0, 0))
        return Fold(
            world=world,
            seed=self._seed(FOR_AGENTS, seed),
            teach_rows=np.random.default_rng([*draws, FOR_TEACHING]).integers(
                0, M, self.scope.taught
            ),
            online_rows=np.random.default_rng([*draws, FOR_ROWS]).integers(0, M, scene.steps),
            reward_value=nothing,
            limit_value=nothing,
        )

    def _seed(self, what: int, seed: int) -> int:
        sequence = np.random.SeedSequence([self.scope.seed, seed, what])
        return int(sequence.generate_state(1, np.uint64)[0])


def _ungrouped(world: World) -> World:
    """Return the world with arms whose groups nobody has declared."""
    return replace(world, arms=tuple(replace(arm, group=None) for arm in world.arms))


def _measures(run: Run, answers: int) -> dict[str, Any]:
    return {
        "answers": answers,
        "audits": 0,
        "E": int(run.E[-1]),
        "T": len(run.rows),
        "R": float(run.R[-1]),
        "Rc": float(run.Rc[-1]),
        "abstentions": int(run.abstentions[-1]),
    }

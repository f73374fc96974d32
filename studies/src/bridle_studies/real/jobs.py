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
from bridle.kernels.types import Ints
from bridle.simulate import Asking, Run
from bridle_studies.environments.changes import paying, stricter
from bridle_studies.environments.world import World
from bridle_studies.paper.plan import Plan
from bridle_studies.paper.work import Fold, Work
from bridle_studies.real.methods import Trial, calibrate, newcomers, random_answers, run_of
from bridle_studies.real.scope import (
    CALIBRATION,
    DEFAULT,
    NEWCOMERS,
    OWN,
    TEACHERS,
    TOLD,
    Job,
    Result,
    Scene,
    Scope,
)
from bridle_studies.real.teachers import hear

__all__ = ["Real"]

# The frontier has five folds to a seed: draws 0 to 4 are those of its seed, 5 to 9 of the next.
FOLDS = 5
# Where limits change: so many measures over a run, and as many over a part of it after the change.
EVENLY, CLOSE = 100, 20
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
            taught = random_answers(
                fold.world, self.scope.calibrated, fold.seed, limits=scene.limits
            )
            counts = {
                str(N): calibrate(fold.world, beliefs, rows, arms)
                for N, (beliefs, rows, arms) in taught.items()
            }
            return {"calibration": counts}
        if job.part == NEWCOMERS:
            return {"newcomers": newcomers(fold.world, fold.online_rows, fold.seed)}
        run, answers = run_of(job.part, self.scope.limits)(self._trial(scene, fold))
        result: Result = {"run": _measures(run, answers, scene.turn)}
        if job.part == DEFAULT and scene.calibrated and isinstance(run, Asking):
            result["calibration"] = {OWN: calibrate(fold.world, run.beliefs, *_judged(run))}
        if scene.turn is not None and job.part != TOLD:
            result["course"] = _course(run, answers)
        if scene.kind == TEACHERS and isinstance(run, Asking):
            result["teachers"] = hear(run, job.part, fold.world.tables)
        return result

    def _trial(self, scene: Scene, fold: Fold) -> Trial:
        turn = scene.turn
        return Trial(
            fold=fold,
            taught=self.scope.taught,
            limits=scene.limits,
            later=None if turn is None else (turn, stricter(fold.world).allowed),
            marks=None if turn is None else _marks(scene.steps, turn),
        )

    def fold(self, name: str, seed: int) -> Fold:
        """Draw a world and the order of its contexts; the last one made is kept."""
        if self._last is None or self._last[:2] != (name, seed):
            scene = self.scenes[name]
            made = self._fold_of_rules(scene, seed) if scene.rules else self._fold(scene, seed)
            if scene.pays:
                tables = paying(made.world.tables, scene.pays)
                made = replace(made, world=replace(made.world, tables=tables))
            self._last = (name, seed, made)
        return self._last[2]

    def _fold_of_rules(self, scene: Scene, seed: int) -> Fold:
        """Draw a fold as the frontier does."""
        plan = Plan(
            examples=(self.scope.taught,),
            folds=FOLDS,
            steps=scene.steps,
            seed=self.scope.seed + seed // FOLDS,
            teaching_contexts=scene.teaching_contexts,
        )
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


def _marks(steps: int, turn: int) -> list[int]:
    """Return where a run is measured on its way: evenly, and closely after the change."""
    evenly = np.linspace(0, steps, EVENLY + 1)
    closely = np.linspace(turn, turn + steps / CLOSE, EVENLY + 1)
    marks = np.concatenate([evenly, closely]).round().astype(np.int64)
    return [int(t) for t in np.unique(np.append(marks, turn)) if 0 < t <= steps]


def _judged(run: Asking) -> tuple[Ints, Ints]:
    """Return the rows and arms that the teacher judged, asked or checked."""
    rows = np.concatenate([run.asked_rows, run.rows[run.checked_at]])
    return rows, np.concatenate([run.asked_arms, run.played[run.checked_at]])


def _measures(run: Run, answers: int, turn: int | None = None) -> dict[str, Any]:
    """Return what `real.csv` says of a run; where limits change at `turn`, E from there on, too."""
    checked = run if isinstance(run, Asking) else None
    after = None if turn is None else int(run.E[-1]) - _until(run.checkpoints, run.E, turn)
    return {
        "answers": answers,
        "audits": 0 if checked is None else len(checked.found),
        "found": 0 if checked is None else int(np.count_nonzero(checked.found)),
        "frozen": 0 if checked is None else checked.frozen,
        "anew": 0 if checked is None else len(checked.anew),
        "E_after": after,
        "E": int(run.E[-1]),
        "T": len(run.rows),
        "R": float(run.R[-1]),
        "Rc": float(run.Rc[-1]),
        "abstentions": int(run.abstentions[-1]),
    }


def _until(marks: Ints, counts: Ints, step: int) -> int:
    """Return a count as it was after so many steps; they are among the marks, or none."""
    return int(counts[np.searchsorted(marks, step)]) if step else 0


def _course(run: Run, answers: int) -> dict[str, list[int]]:
    """Return what was asked, checked and violated until each mark."""
    marks = run.checkpoints
    asked, checked = [answers] * len(marks), [0] * len(marks)  # of one that never asks
    if isinstance(run, Asking):
        asked = run.answers.tolist()
        checked = np.searchsorted(run.checked_at, marks).tolist()
    return {"t": marks.tolist(), "answers": asked, "audits": checked, "E": run.E.tolist()}

"""Run the study of real limits: all its jobs, then the tables, the figures and the report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import polars as pl
from rich.console import Console

import bridle
from bridle.agent.config import Json
from bridle_studies.real.figures import draw_real
from bridle_studies.real.jobs import Real
from bridle_studies.real.parts import is_whole
from bridle_studies.real.report import about_newcomers, lead, print_real, write_real_report
from bridle_studies.real.scope import TEACHERS, Scene, Scope, cost, jobs
from bridle_studies.real.summary import (
    CALIBRATION_SCHEMA,
    COURSE_SCHEMA,
    NEWCOMERS_SCHEMA,
    RUNS_SCHEMA,
    calibration_frame,
    cells,
    course_frame,
    newcomers_frame,
    runs_frame,
)
from bridle_studies.real.teachers import (
    BARS,
    RATES_SCHEMA,
    TEACHERS_SCHEMA,
    judge,
    rates_frame,
    teacher_cells,
    teachers_frame,
)
from bridle_studies.scaffold.engines import Engine
from bridle_studies.scaffold.jobs import do_jobs
from bridle_studies.scaffold.journal import Files, Journal, JsonParts, figure_files
from bridle_studies.scaffold.report import mapping
from bridle_studies.scaffold.study import fingerprint, run_study, table_bytes

__all__ = ["RealOutcome", "real"]

RUNS, CALIBRATION, COURSE = "real.csv", "calibration.csv", "course.csv"
NEWCOMERS = "newcomers.csv"
VOICES, RATES, JUDGED = "teachers.csv", "rates.csv", "teachers.json"
TABLES = (RUNS, CALIBRATION, COURSE, VOICES, RATES, NEWCOMERS)
SCHEMAS = (
    RUNS_SCHEMA,
    CALIBRATION_SCHEMA,
    COURSE_SCHEMA,
    TEACHERS_SCHEMA,
    RATES_SCHEMA,
    NEWCOMERS_SCHEMA,
)
FIGURES = ("real", "calibration", "seeds", "exceptions", "changes", "teachers")


class Frames(NamedTuple):
    """What the tables of the study hold, each of its own name, and `runs` for `real.csv`."""

    runs: pl.DataFrame
    calibration: pl.DataFrame
    course: pl.DataFrame
    teachers: pl.DataFrame
    rates: pl.DataFrame
    newcomers: pl.DataFrame


@dataclass(frozen=True, eq=False, kw_only=True)
class RealOutcome:
    """What the study gave.

    Attributes
    ----------
    out : Path
        The folder with all files.
    runs, calibration, course, teachers, rates, newcomers : DataFrame
        What `real.csv`, `calibration.csv`, `course.csv`, `teachers.csv`, `rates.csv` and
        `newcomers.csv` hold.
    manifest : dict
        How it was made.
    """

    out: Path
    runs: pl.DataFrame
    calibration: pl.DataFrame
    course: pl.DataFrame
    teachers: pl.DataFrame
    rates: pl.DataFrame
    newcomers: pl.DataFrame
    manifest: dict[str, Json]


def real(
    scenes: Sequence[Scene],
    scope: Scope,
    out: Path | str,
    *,
    skipped: Sequence[str] = (),
    engine: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    fresh: bool = False,
    quick: bool = False,
    command: str = "",
    console: Console | None = None,
) -> RealOutcome:
    """Run every method in every world, and write what came out.

    Parameters
    ----------
    scenes : sequence of Scene
        The worlds.
    scope : Scope
        How much is run.
    out : Path
        The folder to write into.
    skipped : sequence of str
        What is not run and why, for the report.
    engine, workers, address, fresh, quick, command, console
        As in `run_study`.
    """
    frames, manifest = run_study(
        _Study(Real([_with_others(scene, scope) for scene in scenes], scope)),
        Path(out),
        engine=engine,
        workers=workers,
        address=address,
        fresh=fresh,
        how={"command": command, "quick": quick, "skipped": list(skipped)},
        console=console,
    )
    return RealOutcome(out=Path(out), **frames._asdict(), manifest=manifest)


class _Study:
    """The study of real limits as a `Study`."""

    name = "real"
    files = Files(results=TABLES, also=(JUDGED, *figure_files(*FIGURES)))

    def __init__(self, work: Real) -> None:
        self.work = work
        self.scenes = [*work.scenes.values()]
        self.parts = JsonParts(lambda job, result: is_whole(job, result, work))
        self.fingerprint = fingerprint(
            bridle.__version__,
            self.name,
            work.scope.to_json(),
            *map(_settings, self.scenes),
            *(data for one in self.scenes for data in table_bytes(work.fold(one.name, 0).world)),
        )

    def warm_up(self) -> None:
        tiny = Scope(taught=20, calibrated=(5,), limits=self.work.scope.limits)
        kinds: dict[tuple[str, frozenset[str]], Scene] = {}
        for scene in self.scenes:
            kinds.setdefault((scene.limits, frozenset(scene.methods)), scene)
        small = Real([replace(scene, steps=20, seeds=1) for scene in kinds.values()], tiny)
        for job in jobs([*small.scenes.values()]):
            small.do(job)

    def run(self, engine: Engine, journal: Journal, console: Console, begin: float) -> Frames:
        todo = jobs(self.scenes)
        worlds = len({job.world for job in todo})
        results = do_jobs(
            engine,
            todo,
            lambda job: cost(job, self.work.scenes[job.world]),
            f"{len(todo)} jobs in {worlds} world{'s' if worlds > 1 else ''}",
            journal=journal,
            console=console,
            begin=begin,
        )
        done = [*zip(todo, results, strict=True)]
        return Frames(
            runs_frame(done, {scene.name: scene.kind for scene in self.scenes}),
            calibration_frame(done),
            course_frame(done),
            teachers_frame(done),
            rates_frame(done),
            newcomers_frame(done),
        )

    def facts(self, frames: Frames) -> Mapping[str, Json]:
        scope, scenes = self.work.scope, self.scenes
        return {
            "worlds": [scene.name for scene in scenes],
            "settings": {
                "scope": scope.to_json(),
                "worlds": {scene.name: _settings(scene) for scene in scenes},
            },
            "origins": {
                scene.name: {**scene.recipe.origin.to_json(), "limits": scene.about}
                for scene in scenes
            },
            "seed": scope.seed,
            "runs": len(frames.runs),
            "steps": int(frames.runs["T"].sum()),
        }

    def read(self, out: Path) -> Frames:
        tables = zip(TABLES, SCHEMAS, strict=True)
        return Frames(*(pl.read_csv(out / name, schema=schema) for name, schema in tables))

    def write(self, out: Path, frames: Frames, manifest: Mapping[str, Json]) -> Path:
        for frame, name in zip(frames, TABLES, strict=True):
            frame.write_csv(out / name)
        runs, calibration, course, teachers, rates, newcomers = frames
        if not teachers.is_empty():
            mine = cells(runs.filter(pl.col("kind") == TEACHERS))
            judged = {"bars": BARS, "methods": judge(mine, teacher_cells(teachers))}
            (out / JUDGED).write_text(json.dumps(judged, indent=2) + "\n", encoding="utf-8")
        origins = mapping(manifest["origins"])
        about = {world: str(origin["limits"]) for world, origin in origins.items()}
        figures = draw_real(
            out, runs, calibration, about, course=course, teachers=teachers, rates=rates
        )
        return write_real_report(
            out,
            manifest=manifest,
            runs=runs,
            calibration=calibration,
            figures=figures,
            teachers=teachers,
            newcomers=newcomers,
        )

    def show(self, console: Console, out: Path, frames: Frames) -> None:
        print_real(console, frames.runs, frames.teachers)

    def lead(self, frames: Frames) -> Sequence[str]:
        told = lead(frames.runs, frames.calibration, frames.teachers)
        return [*told, *about_newcomers(frames.newcomers)]


def _with_others(scene: Scene, scope: Scope) -> Scene:
    """Return a scene with the limits of others among its methods; teachers who err have none."""
    if scene.kind == TEACHERS:
        return scene
    others = [one.label for one in scope.limits if one.label not in scene.methods]
    return replace(scene, methods=(*scene.methods, *others))


def _settings(scene: Scene) -> dict[str, Json]:
    return {
        "steps": scene.steps,
        "seeds": scene.seeds,
        "limits": scene.limits,
        "rules": scene.rules,
        "teaching_contexts": scene.teaching_contexts,
        "kind": scene.kind,
        "methods": list(scene.methods),
        "calibrated": scene.calibrated,
        "turn": scene.turn,
        "bonus": scene.pays,
        **scene.recipe.settings(),
    }

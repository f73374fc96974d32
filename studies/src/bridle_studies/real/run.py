"""Run the study of real limits: all its jobs, then the tables, the figures and the report."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

import polars as pl
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

import bridle
from bridle.agent.config import Json
from bridle_studies.paper.plan import fingerprint
from bridle_studies.paper.report import mapping
from bridle_studies.paper.work import table_bytes
from bridle_studies.real.figures import draw_real
from bridle_studies.real.jobs import Real
from bridle_studies.real.parts import Parts
from bridle_studies.real.report import lead, print_real, write_real_report
from bridle_studies.real.scope import TEACHERS, Job, Result, Scene, Scope, cost, jobs
from bridle_studies.real.summary import (
    CALIBRATION_SCHEMA,
    COURSE_SCHEMA,
    RUNS_SCHEMA,
    calibration_frame,
    cells,
    course_frame,
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
from bridle_studies.scaffold.engines import Engine, make_engine
from bridle_studies.scaffold.journal import FOLDER, MANIFEST, OWNER
from bridle_studies.scaffold.once import made_by, refuse_foreign
from bridle_studies.scaffold.waiting import patience

__all__ = ["RealOutcome", "real"]

RUNS, CALIBRATION, COURSE = "real.csv", "calibration.csv", "course.csv"
VOICES, RATES, JUDGED = "teachers.csv", "rates.csv", "teachers.json"
TABLES = (RUNS, CALIBRATION, COURSE, VOICES, RATES)


class Frames(NamedTuple):
    """What `real.csv`, `calibration.csv`, `course.csv`, `teachers.csv` and `rates.csv` hold."""

    runs: pl.DataFrame
    calibration: pl.DataFrame
    course: pl.DataFrame
    teachers: pl.DataFrame
    rates: pl.DataFrame


@dataclass(frozen=True, eq=False, kw_only=True)
class RealOutcome:
    """What the study gave.

    Attributes
    ----------
    out : Path
        The folder with all files.
    runs, calibration, course, teachers, rates : DataFrame
        What `real.csv`, `calibration.csv`, `course.csv`, `teachers.csv` and `rates.csv` hold.
    manifest : dict
        How it was made.
    """

    out: Path
    runs: pl.DataFrame
    calibration: pl.DataFrame
    course: pl.DataFrame
    teachers: pl.DataFrame
    rates: pl.DataFrame
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
        The folder to write into. One that holds something else is refused. An interrupted study
        goes on; a finished one is only drawn again.
    skipped : sequence of str
        What is not run and why, for the report.
    engine, workers, address, fresh, quick, command, console
        As in `study`.
    """
    out = Path(out)
    console = console or Console(quiet=True)
    work = Real(scenes, scope)
    mark = fingerprint(
        bridle.__version__,
        "real",
        scope.to_json(),
        *map(_settings, scenes),
        *(data for scene in scenes for data in table_bytes(work.fold(scene.name, 0).world)),
    )
    made = make_engine(engine, cast(Any, work), workers=workers, address=address)
    if not fresh and not (out / FOLDER / OWNER).exists():
        refuse_foreign(out, (*TABLES, JUDGED), "this study")
    parts = Parts(out, mark, scope, scenes, fresh=fresh)
    try:
        found = None if fresh else _finished(out, mark)
        if found is None:
            how: dict[str, Json] = {
                "engine": engine,
                "command": command,
                "quick": quick,
                "skipped": list(skipped),
            }
            found = _run(work, made, parts, mark, console, how)
        else:
            line = f"{out} holds this very study: nothing to run, drawing it again."
            console.print(line, markup=False, soft_wrap=True)
        outcome = _write(out, *found, console)
        parts.clear()
        return outcome
    finally:
        parts.close()


def _run(
    work: Real,
    engine: Engine,
    parts: Parts,
    mark: str,
    console: Console,
    how: Mapping[str, Json],
) -> tuple[Frames, dict[str, Json]]:
    started = datetime.now(UTC)
    scenes, scope = [*work.scenes.values()], work.scope
    with patience(console):
        _warm_up(work)
    begin = time.perf_counter() - parts.seconds
    todo = jobs(scenes)
    results = _do(engine, todo, work.scenes, parts, begin, console)
    done = [*zip(todo, results, strict=True)]
    runs = runs_frame(done, {scene.name: scene.kind for scene in scenes})
    frames = Frames(
        runs, calibration_frame(done), course_frame(done), teachers_frame(done), rates_frame(done)
    )
    return frames, {
        "study": "real",
        "worlds": [scene.name for scene in scenes],
        **made_by(mark),
        "settings": {
            "scope": scope.to_json(),
            "worlds": {scene.name: _settings(scene) for scene in scenes},
        },
        "origins": {
            scene.name: {**scene.recipe.origin.to_json(), "limits": scene.about} for scene in scenes
        },
        "seed": scope.seed,
        "runs": len(runs),
        "steps": int(runs["T"].sum()),
        "seconds": round(time.perf_counter() - begin, 3),
        "workers": engine.workers,
        "started": started.isoformat(timespec="seconds"),
        **how,
    }


def _do(
    engine: Engine,
    todo: Sequence[Job],
    scenes: Mapping[str, Scene],
    parts: Parts,
    begin: float,
    console: Console,
) -> list[Result]:
    """Do the jobs that are not yet done; each is kept as soon as it is there."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    results: list[Result | None] = [parts.load(job) for job in todo]
    left = [place for place, result in enumerate(results) if result is None]
    costs = [cost(job, scenes[job.world]) for job in todo]
    total = sum(costs)
    done = total - sum(costs[place] for place in left)
    if len(left) < len(todo):
        console.print(f"Going on: {len(todo) - len(left)} of {len(todo)} jobs are there.")
    worlds = len({job.world for job in todo})
    text = f"{len(todo)} jobs in {worlds} world{'s' if worlds > 1 else ''}"
    with Progress(*columns, console=console) as progress, engine:
        bar = progress.add_task(text, total=total, completed=int(done))
        for number, result in engine.run(cast(Any, [todo[place] for place in left])):
            job = todo[left[number]]
            results[left[number]] = made = cast(Result, result)
            parts.save(job, made, time.perf_counter() - begin)
            before, done = done, done + costs[left[number]]
            progress.update(bar, completed=done)
            if not console.is_terminal and int(10 * done / total) > int(10 * before / total):
                console.print(f"{text}: {100 * done / total:.0f} %")  # a log has no bar
    return cast("list[Result]", results)


def _warm_up(work: Real) -> None:
    """Call each kernel once, here, so that workers find it compiled."""
    tiny = Scope(taught=20, calibrated=(5,))
    kinds: dict[tuple[str, frozenset[str]], Scene] = {}
    for scene in work.scenes.values():
        kinds.setdefault((scene.limits, frozenset(scene.methods)), scene)
    small = Real([replace(scene, steps=20, seeds=1) for scene in kinds.values()], tiny)
    for job in jobs([*small.scenes.values()]):
        small.do(job)


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


def _finished(out: Path, mark: str) -> tuple[Frames, dict[str, Json]] | None:
    """Return the results that are there, if they are of this very study."""
    try:
        manifest = json.loads((out / MANIFEST).read_bytes())
        frames = Frames(
            pl.read_csv(out / RUNS, schema=RUNS_SCHEMA),
            pl.read_csv(out / CALIBRATION, schema=CALIBRATION_SCHEMA),
            pl.read_csv(out / COURSE, schema=COURSE_SCHEMA),
            pl.read_csv(out / VOICES, schema=TEACHERS_SCHEMA),
            pl.read_csv(out / RATES, schema=RATES_SCHEMA),
        )
    except (OSError, ValueError, pl.exceptions.PolarsError):
        return None
    same = isinstance(manifest, dict) and manifest.get("fingerprint") == mark
    return (frames, manifest) if same else None


def _write(out: Path, frames: Frames, manifest: dict[str, Json], console: Console) -> RealOutcome:
    """Write every file; the manifest last, as it says that all is there."""
    runs, calibration, course, teachers, rates = frames
    for frame, name in zip(frames, TABLES, strict=True):
        frame.write_csv(out / name)
    if not teachers.is_empty():
        mine = cells(runs.filter(pl.col("kind") == TEACHERS))
        judged = {"bars": BARS, "methods": judge(mine, teacher_cells(teachers))}
        (out / JUDGED).write_text(json.dumps(judged, indent=2) + "\n", encoding="utf-8")
    with console.status("drawing ..."):
        origins = mapping(manifest["origins"])
        about = {world: str(origin["limits"]) for world, origin in origins.items()}
        figures = draw_real(
            out, runs, calibration, about, course=course, teachers=teachers, rates=rates
        )
        report = write_real_report(
            out,
            manifest=manifest,
            runs=runs,
            calibration=calibration,
            figures=figures,
            teachers=teachers,
        )
    (out / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    print_real(console, runs, teachers)
    console.print()
    for sentence in lead(runs, calibration, teachers):
        console.print(sentence, markup=False)
    if manifest.get("quick"):
        console.print("A quick run: too short to show anything.")
    console.print()
    console.print(
        f"{manifest['runs']} runs in {manifest['seconds']:.1f} s ({manifest['engine']}, "
        f"{manifest['workers']} at a time)."
    )
    console.print(f"The report is in {report}.", markup=False, soft_wrap=True)
    return RealOutcome(out=out, **frames._asdict(), manifest=manifest)

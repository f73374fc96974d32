"""Run a study: all jobs of its plan, then tables, figures, report and verdict."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import cast

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
from bridle_studies.environments.world import Fixed, Recipe
from bridle_studies.paper.figures import draw_figures
from bridle_studies.paper.frames import curves_frame, lessons_frame, results_frame
from bridle_studies.paper.inputs import read_results
from bridle_studies.paper.plan import Plan, fingerprint
from bridle_studies.paper.published import MOVIES, WARFARIN
from bridle_studies.paper.report import write_report
from bridle_studies.paper.summary import summarise
from bridle_studies.paper.tables import print_tables, write_tables
from bridle_studies.paper.verdict import Claim, judge, print_verdict, write_verdict
from bridle_studies.paper.work import (
    Batch,
    BatchResult,
    Class,
    ClassResult,
    Job,
    Result,
    Work,
    jobs,
    steps_of,
    table_bytes,
)
from bridle_studies.scaffold.engines import Engine, make_engine
from bridle_studies.scaffold.journal import MANIFEST, Journal
from bridle_studies.scaffold.waiting import patience

__all__ = ["Outcome", "run_jobs", "study", "warm_up"]

PACKAGES = ("numpy", "numba", "polars", "matplotlib", "scipy", "jinja2", "ray")


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """What a study gave.

    Attributes
    ----------
    out : Path
        The folder with all files.
    results, curves, lessons : polars frames
        A row a run; a row a run and checkpoint; a row a lesson and checkpoint.
    claims : list of Claim
        What became of the paper's claims.
    manifest : dict
        How it was made: settings, seeds, versions, checksums, time.
    """

    out: Path
    results: pl.DataFrame
    curves: pl.DataFrame
    lessons: pl.DataFrame
    claims: list[Claim]
    manifest: dict[str, Json]


def study(
    recipe: Recipe,
    plan: Plan,
    out: Path | str,
    *,
    engine: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    fresh: bool = False,
    quick: bool = False,
    command: str = "",
    console: Console | None = None,
) -> Outcome:
    """Run a study, or go on with it where it was interrupted.

    Parameters
    ----------
    recipe : Recipe
        What the worlds are drawn from.
    plan : Plan
        What to run.
    out : Path
        The folder to write into. Parts that are finished there are kept, those of another study
        refused.
    engine : {"processes", "in-process", "ray"}
        Where the jobs run. The results are the same bits.
    workers, address
        How many at a time, and the address of a Ray cluster.
    fresh : bool
        Start anew, whatever is in `out`.
    quick, command
        What the manifest and the report say about how it was called.
    console : rich Console, optional
        Where progress, tables and verdict are shown; nowhere by default.
    """
    out = Path(out)
    console = console or Console(quiet=True)
    name = f"own {recipe.name}" if _misnamed(recipe) else recipe.name
    work = Work(recipe, plan)
    mark = fingerprint(
        bridle.__version__,
        plan.to_json(),
        recipe.settings(),
        recipe.origin.to_json()["files"],
        name,
        *table_bytes(work.world(0)),
    )
    made = make_engine(engine, work, workers=workers, address=address)
    plan.contexts_to_teach(len(recipe))
    how: dict[str, Json] = {"engine": engine, "command": command, "quick": quick}
    journal = Journal(out, mark, fresh=fresh)
    try:
        return _study(recipe, name, plan, work, made, journal, mark, console, how)
    finally:
        journal.close()


def _study(
    recipe: Recipe,
    name: str,
    plan: Plan,
    work: Work,
    made: Engine,
    journal: Journal,
    mark: str,
    console: Console,
    how: dict[str, Json],
) -> Outcome:
    out = journal.out
    started = datetime.now(UTC)
    if journal.finished():
        _say(console, f"{out} holds this very study: nothing to run, drawing it again.")
        frames = dict(zip(("results", "curves", "lessons"), read_results(out), strict=True))
        manifest = cast("dict[str, Json]", json.loads((out / MANIFEST).read_bytes()))
    else:
        with patience(console):
            warm_up(work)
        begin = time.perf_counter() - journal.seconds
        classes, batches = jobs(plan)
        taught, ran = run_jobs(made, plan, journal, classes, batches, console, begin)
        curves = curves_frame(name, batches, ran)
        frames = {
            "results": results_frame(curves, plan),
            "curves": curves,
            "lessons": lessons_frame(name, classes, taught),
        }
        manifest = {
            "study": _kind(name),
            "world": name,
            "fingerprint": mark,
            "bridle": bridle.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": versions(),
            "settings": {"plan": plan.to_json(), "world": recipe.settings()},
            "origin": recipe.origin.to_json(),
            "seed": plan.seed,
            "runs": plan.runs,
            "steps": sum(steps_of(plan, job) for job in [*classes, *batches]),
            "seconds": round(time.perf_counter() - begin, 3),
            "workers": made.workers,
            "started": started.isoformat(timespec="seconds"),
            **how,
        }
    return _write(out, journal, frames, manifest, console)


def warm_up(work: Work) -> None:
    """Call each kernel once, here, so that workers find it compiled."""
    tiny = Plan(
        examples=(2,),
        folds=work.plan.folds,
        steps=2,
        checkpoints=1,
        teaching_contexts=work.plan.teaching_contexts,
    )
    small = Work(work.recipe, tiny)
    classes, batches = jobs(tiny)
    taught = small.teach(classes[0])
    for job in (batches[0], Batch(0, "random", 2, tiny.blends, limits=taught.limits[2])):
        small.run(job)


def run_jobs(
    engine: Engine,
    plan: Plan,
    journal: Journal,
    classes: Sequence[Class],
    batches: Sequence[Batch],
    console: Console,
    begin: float | None = None,
) -> tuple[dict[str, ClassResult], dict[str, BatchResult]]:
    """Do what is not yet done, in two rounds: online runs need what the classes taught.

    `begin` is the moment, by the performance counter, from which the study's time counts.
    """
    begin = time.perf_counter() if begin is None else begin
    taught, ran = _finished(journal, classes, batches)
    left = [job for job in batches if job.key not in ran]
    pupils = {(job.fold, job.teaching) for job in left}
    # A class is taught again if only its curve is there and somebody still needs its lesson.
    to_teach = [
        job for job in classes if job.key not in taught or (job.fold, job.teaching) in pupils
    ]
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    every: list[Job] = [*classes, *batches]
    doing: list[Job] = [*to_teach, *left]
    todo = {job.key for job in doing}
    done = sum(steps_of(plan, job) for job in every if job.key not in todo)
    if ran:
        there = sum(len(job.agents) for job in batches if job.key in ran)
        console.print(f"Going on: {there} of {plan.runs} runs are there.")
    with Progress(*columns, console=console) as progress, engine:
        total = sum(steps_of(plan, job) for job in every)
        text = f"{plan.runs} runs of {plan.steps:,} steps"
        bar = progress.add_task(text, total=total, completed=done)

        def finished(job: Job, result: Result) -> None:
            nonlocal done
            journal.save(job, result, time.perf_counter() - begin)
            before, done = done, done + steps_of(plan, job)
            progress.update(bar, completed=done)
            if not console.is_terminal and 5 * done // total > 5 * before // total:
                console.print(f"{text}: {100 * done // total} %")  # a log has no bar

        for number, result in engine.run(to_teach):
            taught[to_teach[number].key] = cast(ClassResult, result)
            finished(to_teach[number], result)
        ready = [_with_limits(job, taught) for job in left]
        for number, result in engine.run(ready):
            ran[left[number].key] = cast(BatchResult, result)
            finished(left[number], result)
    return taught, ran


def _finished(
    journal: Journal, classes: Sequence[Class], batches: Sequence[Batch]
) -> tuple[dict[str, ClassResult], dict[str, BatchResult]]:
    taught = {job.key: journal.load(job) for job in classes}
    ran = {job.key: journal.load(job) for job in batches}
    return (
        {key: cast(ClassResult, found) for key, found in taught.items() if found is not None},
        {key: cast(BatchResult, found) for key, found in ran.items() if found is not None},
    )


def _with_limits(job: Batch, taught: Mapping[str, ClassResult]) -> Batch:
    if job.teaching is None or job.examples is None:
        return job
    lesson = taught[Class(job.fold, job.teaching).key]
    return Batch(
        job.fold,
        job.teaching,
        job.examples,
        job.agents,
        lesson.limits[job.examples],
        lesson.exact.get(job.examples),
    )


def _write(
    out: Path,
    journal: Journal,
    frames: Mapping[str, pl.DataFrame],
    manifest: dict[str, Json],
    console: Console,
) -> Outcome:
    """Write every file; the manifest last, as it says that all is there."""
    results, curves, lessons = frames["results"], frames["curves"], frames["lessons"]
    for name, frame in frames.items():
        frame.write_parquet(out / f"{name}.parquet")
    origin = cast("dict[str, Json]", manifest["origin"])
    title = str(origin["title"])
    summary = summarise(results)
    claims = judge(results, curves, lessons)
    with console.status("drawing ..."):
        write_tables(out, results, data=title)
        write_verdict(out, claims)
        figures = draw_figures(
            out, curves, world=str(manifest["world"]), synthetic=bool(origin["synthetic"])
        )
        report = write_report(
            out, manifest=manifest, results=results, summary=summary, claims=claims, figures=figures
        )
    (out / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    journal.clear()
    print_tables(console, results, data=title, full=True)
    console.print()
    print_verdict(console, claims, brief=True)
    _say(console, f"The evidence: bridle study verdict {out}")
    console.print()
    console.print(
        f"{manifest['runs']} runs, {manifest['steps']:,} steps in {manifest['seconds']:.1f} s "
        f"({manifest['engine']}, {manifest['workers']} at a time)."
    )
    _say(console, f"The report is in {report}.")
    return Outcome(
        out=out, results=results, curves=curves, lessons=lessons, claims=claims, manifest=manifest
    )


def _say(console: Console, line: str) -> None:
    # A path may hold brackets, which are no markup.
    console.print(line, markup=False, soft_wrap=True)


def _misnamed(recipe: Recipe) -> bool:
    """Say whether a world of the user's own has the name of one of the paper's."""
    return isinstance(recipe, Fixed) and recipe.name in (*MOVIES, *WARFARIN)


def _kind(world: str) -> str:
    if world in MOVIES:
        return "movies"
    return "warfarin" if world in WARFARIN else "own"


def versions() -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found

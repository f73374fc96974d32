"""Run a study: all jobs of its plan, then tables, figures, report and verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, cast

import polars as pl
from rich.console import Console

import bridle
from bridle.agent.config import Json
from bridle_studies.environments.world import Fixed, Recipe
from bridle_studies.paper.figures import draw_figures
from bridle_studies.paper.frames import curves_frame, lessons_frame, results_frame
from bridle_studies.paper.inputs import read_results
from bridle_studies.paper.parts import PaperParts
from bridle_studies.paper.plan import Plan
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
)
from bridle_studies.scaffold.engines import Engine
from bridle_studies.scaffold.jobs import progress_bar
from bridle_studies.scaffold.journal import Files, Journal
from bridle_studies.scaffold.study import fingerprint, run_study, table_bytes

__all__ = ["FILES", "Outcome", "run_jobs", "study", "warm_up"]

FILES = Files(
    results=("results.parquet", "curves.parquet", "lessons.parquet"),
    also=(
        "table1.csv",
        "table2.csv",
        "tables.csv",
        "tables.md",
        "verdict.json",
        "overview.*",
        "figure1*.png",
        "figure1*.svg",
        "regret-*.*",
        "errors-*.*",
    ),
)


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
    plan.contexts_to_teach(len(recipe))
    frames, manifest = run_study(
        _Study(Work(recipe, plan)),
        Path(out),
        engine=engine,
        workers=workers,
        address=address,
        fresh=fresh,
        how={"command": command, "quick": quick},
        console=console,
    )
    return Outcome(out=Path(out), **frames._asdict(), claims=judge(*frames), manifest=manifest)


class Frames(NamedTuple):
    """A row a run; a row a run and checkpoint; a row a lesson and checkpoint."""

    results: pl.DataFrame
    curves: pl.DataFrame
    lessons: pl.DataFrame


class _Study:
    """The paper's experiment on one world as a `Study`."""

    files = FILES
    parts = PaperParts()

    def __init__(self, work: Work) -> None:
        self.work = work
        recipe, plan = work.recipe, work.plan
        self.world = f"own {recipe.name}" if _misnamed(recipe) else recipe.name
        self.name = _kind(self.world)
        self.fingerprint = fingerprint(
            bridle.__version__,
            plan.to_json(),
            recipe.settings(),
            recipe.origin.to_json()["files"],
            self.world,
            *table_bytes(work.world(0)),
        )

    def warm_up(self) -> None:
        warm_up(self.work)

    def run(self, engine: Engine, journal: Journal, console: Console, begin: float) -> Frames:
        plan = self.work.plan
        classes, batches = jobs(plan)
        taught, ran = run_jobs(engine, plan, journal, classes, batches, console, begin)
        curves = curves_frame(self.world, batches, ran)
        lessons = lessons_frame(self.world, classes, taught)
        return Frames(results_frame(curves, plan), curves, lessons)

    def facts(self, frames: Frames) -> Mapping[str, Json]:
        recipe, plan = self.work.recipe, self.work.plan
        return {
            "world": self.world,
            "settings": {"plan": plan.to_json(), "world": recipe.settings()},
            "origin": recipe.origin.to_json(),
            "seed": plan.seed,
            "runs": plan.runs,
            "steps": sum(steps_of(plan, job) for part in jobs(plan) for job in part),
        }

    def read(self, out: Path) -> Frames:
        return Frames(*read_results(out))

    def write(self, out: Path, frames: Frames, manifest: Mapping[str, Json]) -> Path:
        for name, frame in frames._asdict().items():
            frame.write_parquet(out / f"{name}.parquet")
        origin = cast("dict[str, Json]", manifest["origin"])
        claims = judge(*frames)
        write_tables(out, frames.results, data=str(origin["title"]))
        write_verdict(out, claims)
        figures = draw_figures(
            out, frames.curves, world=self.world, synthetic=bool(origin["synthetic"])
        )
        return write_report(
            out,
            manifest=manifest,
            results=frames.results,
            summary=summarise(frames.results),
            claims=claims,
            figures=figures,
        )

    def show(self, console: Console, out: Path, frames: Frames) -> None:
        title = self.work.recipe.origin.title
        print_tables(console, frames.results, data=title, full=True)
        console.print()
        print_verdict(console, judge(*frames), brief=True)
        # A path may hold brackets, which are no markup.
        line = f"The evidence: bridle study verdict {out}"
        console.print(line, markup=False, soft_wrap=True)

    def lead(self, frames: Frames) -> Sequence[str]:
        return ()  # the verdict says it


def warm_up(work: Work) -> None:
    """Call each kernel once, here, so that workers find it compiled."""
    tiny = Plan(
        examples=(2,),
        folds=work.plan.folds,
        steps=2,
        checkpoints=1,
        teaching_contexts=work.plan.teaching_contexts,
        policies=work.plan.policies,
        reward=work.plan.reward,
    )
    small = Work(work.recipe, tiny)
    classes, batches = jobs(tiny)
    taught = small.teach(classes[0])
    limits = taught.limits[2]
    small.run(batches[0])
    for agents in (tiny.blends, *((agent,) for agent in tiny.others)):
        small.run(Batch(0, "random", 2, agents, limits=limits))


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
    every: list[Job] = [*classes, *batches]
    doing: list[Job] = [*to_teach, *left]
    todo = {job.key for job in doing}
    done = sum(steps_of(plan, job) for job in every if job.key not in todo)
    if ran:
        there = sum(len(job.agents) for job in batches if job.key in ran)
        console.print(f"Going on: {there} of {plan.runs} runs are there.")
    total = sum(steps_of(plan, job) for job in every)
    text = f"{plan.runs} runs of {plan.steps:,} steps"
    with progress_bar(console, text, total, done) as advance, engine:

        def finished(job: Job, result: Result) -> None:
            journal.save(job, result, time.perf_counter() - begin)
            advance(steps_of(plan, job))

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
    exact = lesson.exact.get(job.examples)
    return replace(job, limits=lesson.limits[job.examples], denied=exact)


def _misnamed(recipe: Recipe) -> bool:
    """Whether a world of the user's own has the name of one of the paper's."""
    return isinstance(recipe, Fixed) and recipe.name in (*MOVIES, *WARFARIN)


def _kind(world: str) -> str:
    if world in MOVIES:
        return "movies"
    return "warfarin" if world in WARFARIN else "own"

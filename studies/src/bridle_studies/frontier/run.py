"""Run the frontier: all its jobs, then the table, the figures and the report."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import polars as pl
from rich.console import Console

import bridle
from bridle.agent.config import Json
from bridle_studies.environments.blocks import Block
from bridle_studies.environments.movies import Movies
from bridle_studies.environments.world import Recipe
from bridle_studies.frontier.headline import draw_headline, print_headline
from bridle_studies.frontier.jobs import Frontier, Job, cost, jobs, scenes, sweep
from bridle_studies.frontier.report import draw_frontier, lead, print_table, write_frontier_report
from bridle_studies.frontier.scope import METHODS, Point, Scope
from bridle_studies.paper.plan import fingerprint
from bridle_studies.paper.work import table_bytes
from bridle_studies.scaffold.engines import Engine, make_engine
from bridle_studies.scaffold.journal import MANIFEST, Journal
from bridle_studies.scaffold.once import do_jobs, made_by, refuse_foreign
from bridle_studies.scaffold.waiting import patience

__all__ = ["COLUMNS", "FrontierOutcome", "frontier", "means", "runs_frame"]

CSV, PARQUET = "frontier.csv", "frontier.parquet"
COLUMNS = ("world", "method", "answers", "R", "E", "Rc", "abstentions", "seeds")
SCHEMA: dict[str, Any] = {
    "world": pl.String,
    "method": pl.String,
    "examples": pl.Int64,
    "fold": pl.Int64,
    "steps": pl.Int64,
    "answers": pl.Int64,
    "R": pl.Float64,
    "E": pl.Int64,
    "Rc": pl.Float64,
    "abstentions": pl.Int64,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class FrontierOutcome:
    """What a frontier gave.

    Attributes
    ----------
    out : Path
        The folder with all files.
    runs : DataFrame
        A row a run.
    table : DataFrame
        A row a world and method, as in `frontier.csv`.
    manifest : dict
        How it was made.
    """

    out: Path
    runs: pl.DataFrame
    table: pl.DataFrame
    manifest: dict[str, Json]


def frontier(
    recipe: Recipe,
    scope: Scope,
    out: Path | str,
    *,
    engine: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    fresh: bool = False,
    quick: bool = False,
    headline: bool = False,
    command: str = "",
    console: Console | None = None,
    sweep_block: Block | None = None,
) -> FrontierOutcome:
    """Run every method in every world of a recipe, and write what came out.

    Movies run in three worlds (limits by single genres, by pairs, by both), and with them goes the
    synthetic sweep over density and alignment. Anything else runs as it is.

    Parameters
    ----------
    recipe : Recipe
        What the worlds are drawn from.
    scope : Scope
        How much is run.
    out : Path
        The folder to write into. One that holds something else is refused.
    engine, workers, address, quick, command, console
        As in `study`.
    fresh : bool
        Replace whatever is in `out`. The frontier takes minutes and is never resumed: a finished
        one is only drawn again.
    headline : bool
        Only the few methods of `HEADLINE`, in the first world, without the sweep: in seconds, with
        a short table and one figure. What is run has the same bits as in the whole frontier.
    sweep_block : Block, optional
        What the sweep moves the ratings of; `synthetic_block()` by default.
    """
    out = Path(out)
    console = console or Console(quiet=True)
    recipes = scenes(recipe)
    if headline:
        scope, recipes = scope.headline(), dict([*recipes.items()][:1])
    elif isinstance(recipe, Movies):
        recipes |= sweep(scope, sweep_block)
    work = Frontier(recipes, scope)
    mark = fingerprint(
        bridle.__version__,
        "frontier",
        scope.to_json(),
        _settings(recipes),
        recipe.origin.to_json()["files"],
        *table_bytes(work.fold(next(iter(recipes)), 0).world),
    )
    made = make_engine(engine, cast(Any, work), workers=workers, address=address)
    if not fresh:
        refuse_foreign(out, (CSV, PARQUET), "the frontier")
    how: dict[str, Json] = {
        "engine": engine,
        "command": command,
        "quick": quick,
        "headline": headline,
    }
    journal = Journal(out, mark, fresh=fresh)
    try:
        found = None if fresh else _finished(out, mark)
        if found is None:
            found = _run(recipe, work, made, mark, console, how)
        else:
            line = f"{out} holds this very frontier: nothing to run, drawing it again."
            console.print(line, markup=False, soft_wrap=True)
        return _write(out, *found, console)
    finally:
        journal.close()


def runs_frame(
    done: Sequence[tuple[Job, Sequence[Point]]], steps: Mapping[str, int]
) -> pl.DataFrame:
    """Give a row a run, in the order of worlds and methods; `steps` by world."""
    rows = [
        {"world": job.world, "fold": job.fold, "steps": steps[job.world], **asdict(point)}
        for job, points in done
        for point in points
    ]
    order = {name: place for place, name in enumerate(METHODS)}
    worlds = {name: place for place, name in enumerate(steps)}
    rows.sort(
        key=lambda row: (
            worlds[row["world"]],
            order[row["method"]],
            row["examples"] or 0,
            row["fold"],
        )
    )
    return pl.DataFrame(rows, schema=SCHEMA)


def means(runs: pl.DataFrame) -> pl.DataFrame:
    """Give the means over seeds, a row a world, method and N: the columns of `frontier.csv`."""
    return (
        runs.group_by("world", "method", "examples", maintain_order=True)
        .agg(
            pl.col("answers").mean().round(2),
            pl.col("R").mean().round(6),
            pl.col("E").mean().round(2),
            pl.col("Rc").mean().round(6),
            pl.col("abstentions").mean().round(2),
            pl.len().cast(pl.Int64).alias("seeds"),
        )
        .select(COLUMNS)
    )


def _run(
    recipe: Recipe,
    work: Frontier,
    engine: Engine,
    mark: str,
    console: Console,
    how: Mapping[str, Json],
) -> tuple[pl.DataFrame, dict[str, Json]]:
    scope, started, begin = work.scope, datetime.now(UTC), time.perf_counter()
    with patience(console):
        _warm_up(work)
    todo = jobs(work.recipes, scope)
    worlds = len({job.world for job in todo})
    text = f"{len(todo)} jobs in {worlds} world{'s' if worlds > 1 else ''}"
    results = do_jobs(engine, todo, cost, text, console)
    steps = {name: scope.plan(sweep=name not in scenes(recipe)).steps for name in work.recipes}
    runs = runs_frame([*zip(todo, results, strict=True)], steps)
    return runs, {
        "study": "frontier",
        "world": recipe.name,
        "worlds": [name for name in scenes(recipe) if name in work.recipes],
        **made_by(mark),
        "settings": {"scope": scope.to_json(), "worlds": _settings(work.recipes)},
        "origin": recipe.origin.to_json(),
        "seed": scope.seed,
        "runs": len(runs),
        "steps": int(runs["steps"].sum()),
        "seconds": round(time.perf_counter() - begin, 3),
        "workers": engine.workers,
        "started": started.isoformat(timespec="seconds"),
        **how,
    }


def _warm_up(work: Frontier) -> None:
    """Call each kernel once, here, so that workers find it compiled."""
    tiny = Scope(
        folds=work.scope.folds,
        steps=20,
        teaching_contexts=work.scope.teaching_contexts,
        examples=(20,),
        taught=20,
        masks=(20,),
        groups=(20,),
        pool=(5,),
        sweep_steps=20,
        methods=work.scope.methods,
    )
    first = next(iter(work.recipes))
    small = Frontier({first: work.recipes[first]}, tiny)
    for job in jobs(small.recipes, tiny):
        if job.fold == 0:
            small.do(job)


def _settings(recipes: Mapping[str, Recipe]) -> dict[str, Json]:
    return {name: recipe.settings() for name, recipe in recipes.items()}


def _finished(out: Path, mark: str) -> tuple[pl.DataFrame, dict[str, Json]] | None:
    """Give the runs that are there, if they are of this very frontier."""
    try:
        manifest = json.loads((out / MANIFEST).read_bytes())
        runs = pl.read_parquet(out / PARQUET)
    except (OSError, ValueError, pl.exceptions.PolarsError):
        return None
    same = isinstance(manifest, dict) and manifest.get("fingerprint") == mark
    return (runs, manifest) if same and dict(runs.schema) == SCHEMA else None


def _write(
    out: Path, runs: pl.DataFrame, manifest: dict[str, Json], console: Console
) -> FrontierOutcome:
    """Write every file; the manifest last, as it says that all is there."""
    table = means(runs)
    runs.write_parquet(out / PARQUET)
    table.write_csv(out / CSV)
    with console.status("drawing ..."):
        synthetic = bool(cast("dict[str, Json]", manifest["origin"])["synthetic"])
        draw = draw_headline if manifest.get("headline") else draw_frontier
        figures = draw(out, runs, synthetic=synthetic)
        report = write_frontier_report(out, manifest=manifest, runs=runs, figures=figures)
    (out / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    tell = print_headline if manifest.get("headline") else print_table
    tell(console, runs, manifest)
    console.print()
    for sentence in lead(runs):
        console.print(sentence, markup=False)
    console.print()
    console.print(
        f"{manifest['runs']} runs in {manifest['seconds']:.1f} s ({manifest['engine']}, "
        f"{manifest['workers']} at a time)."
    )
    also = ", the figure in headline.png beside it" if manifest.get("headline") else ""
    console.print(f"The report is in {report}{also}.", markup=False, soft_wrap=True)
    return FrontierOutcome(out=out, runs=runs, table=table, manifest=manifest)

"""Run the frontier: all its jobs, then the table, the figures and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
from bridle_studies.scaffold.engines import Engine
from bridle_studies.scaffold.jobs import do_jobs
from bridle_studies.scaffold.journal import Files, Journal, JsonParts, figure_files
from bridle_studies.scaffold.study import fingerprint, run_study, table_bytes

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
FIGURES = ("frontier*", "alignment", "headline")


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
        The folder to write into.
    engine, workers, address, fresh, quick, command, console
        As in `run_study`.
    headline : bool
        Only the few methods of `HEADLINE`, in the first world, without the sweep: in seconds, with
        a short table and one figure. What is run has the same bits as in the whole frontier.
    sweep_block : Block, optional
        What the sweep moves the ratings of; `synthetic_block()` by default.
    """
    recipes = scenes(recipe)
    if headline:
        scope, recipes = scope.headline(), dict([*recipes.items()][:1])
    elif isinstance(recipe, Movies):
        recipes |= sweep(scope, sweep_block)
    runs, manifest = run_study(
        _Study(recipe, Frontier(recipes, scope), headline=headline),
        Path(out),
        engine=engine,
        workers=workers,
        address=address,
        fresh=fresh,
        how={"command": command, "quick": quick, "headline": headline},
        console=console,
    )
    return FrontierOutcome(out=Path(out), runs=runs, table=means(runs), manifest=manifest)


def runs_frame(
    done: Sequence[tuple[Job, Sequence[Point]]], steps: Mapping[str, int]
) -> pl.DataFrame:
    """Return a row a run, in the order of worlds and methods; `steps` by world."""
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
            order.get(row["method"], len(order)),
            row["method"] if row["method"] not in order else "",
            row["examples"] or 0,
            row["fold"],
        )
    )
    return pl.DataFrame(rows, schema=SCHEMA)


def means(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the means over seeds, a row a world, method and N: the columns of `frontier.csv`."""
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


class _Study:
    """The frontier as a `Study`."""

    name = "frontier"
    files = Files(results=(PARQUET,), also=(CSV, *figure_files(*FIGURES)))

    def __init__(self, recipe: Recipe, work: Frontier, *, headline: bool) -> None:
        self.recipe, self.work, self.headline = recipe, work, headline
        self.parts = JsonParts(
            to_json=lambda points: [asdict(point) for point in points],
            from_json=lambda values: [Point(**value) for value in values],
        )
        self.fingerprint = fingerprint(
            bridle.__version__,
            self.name,
            work.scope.to_json(),
            _settings(work.recipes),
            recipe.origin.to_json()["files"],
            *table_bytes(work.fold(next(iter(work.recipes)), 0).world),
        )

    def warm_up(self) -> None:
        scope = self.work.scope
        tiny = Scope(
            folds=scope.folds,
            steps=20,
            teaching_contexts=scope.teaching_contexts,
            examples=(20,),
            taught=20,
            masks=(20,),
            groups=(20,),
            pool=(5,),
            sweep_steps=20,
            methods=scope.methods,
            limits=scope.limits,
        )
        first = next(iter(self.work.recipes))
        small = Frontier({first: self.work.recipes[first]}, tiny)
        for job in jobs(small.recipes, tiny):
            if job.fold == 0:
                small.do(job)

    def run(self, engine: Engine, journal: Journal, console: Console, begin: float) -> pl.DataFrame:
        recipes, scope = self.work.recipes, self.work.scope
        todo = jobs(recipes, scope)
        worlds = len({job.world for job in todo})
        text = f"{len(todo)} jobs in {worlds} world{'s' if worlds > 1 else ''}"
        results = do_jobs(engine, todo, cost, text, journal=journal, console=console, begin=begin)
        own = scenes(self.recipe)
        steps = {name: scope.plan(sweep=name not in own).steps for name in recipes}
        return runs_frame([*zip(todo, results, strict=True)], steps)

    def facts(self, runs: pl.DataFrame) -> Mapping[str, Json]:
        recipes, scope = self.work.recipes, self.work.scope
        return {
            "world": self.recipe.name,
            "worlds": [name for name in scenes(self.recipe) if name in recipes],
            "settings": {"scope": scope.to_json(), "worlds": _settings(recipes)},
            "origin": self.recipe.origin.to_json(),
            "seed": scope.seed,
            "runs": len(runs),
            "steps": int(runs["steps"].sum()),
        }

    def read(self, out: Path) -> pl.DataFrame:
        runs = pl.read_parquet(out / PARQUET)
        if dict(runs.schema) != SCHEMA:
            raise ValueError(f"{PARQUET} has other columns")
        return runs

    def write(self, out: Path, runs: pl.DataFrame, manifest: Mapping[str, Json]) -> Path:
        runs.write_parquet(out / PARQUET)
        means(runs).write_csv(out / CSV)
        synthetic = bool(cast("dict[str, Json]", manifest["origin"])["synthetic"])
        draw = draw_headline if self.headline else draw_frontier
        figures = draw(out, runs, synthetic=synthetic)
        return write_frontier_report(out, manifest=manifest, runs=runs, figures=figures)

    def show(self, console: Console, out: Path, runs: pl.DataFrame) -> None:
        show = print_headline if self.headline else print_table
        show(console, runs, self.facts(runs))
        if self.headline:
            console.print(f"The figure is in {out / 'headline.png'}.", markup=False, soft_wrap=True)

    def lead(self, runs: pl.DataFrame) -> Sequence[str]:
        return lead(runs)


def _settings(recipes: Mapping[str, Recipe]) -> dict[str, Json]:
    return {name: recipe.settings() for name, recipe in recipes.items()}

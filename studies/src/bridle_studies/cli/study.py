"""`bridle study`: the paper's experiments, and the verdict on its claims."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridle.cli.console import Grid, Where, friendly_errors, numbers, with_options, words
from bridle_studies.cli.extensions import Others, named
from bridle_studies.cli.frontier import frontier
from bridle_studies.cli.promises import promises
from bridle_studies.cli.real import real

if TYPE_CHECKING:
    from bridle_studies.environments import Recipe
    from bridle_studies.paper import Plan

__all__ = ["study"]

study = typer.Typer(
    name="study",
    help="Run the paper's experiments, and judge its claims.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Data = Annotated[
    Path | None, typer.Option(metavar="PATH", help="Real data; without it the world is synthetic.")
]
# A --quick study runs this much, unless other options say otherwise.
QUICK: dict[str, Any] = {"examples": (500, 2_000), "folds": 2, "steps": 2_000}


@study.command()
@with_options(where=Where, grid=Grid, others=Others)
def movies(
    where: Where,
    grid: Grid,
    others: Others,
    data: Data = None,
    genres: Annotated[
        str | None, typer.Option(help="The genres that count, by commas. [the paper's and Crime]")
    ] = None,
    movies: Annotated[
        int | None, typer.Option(help="How many of the most rated movies. [1000]")
    ] = None,
    people: Annotated[
        int | None, typer.Option(help="How many of the keenest raters. [100]")
    ] = None,
    min_overlap: Annotated[
        int, typer.Option(help="Movies that two people must share to be compared.")
    ] = 5,
    positive_only: Annotated[
        bool,
        typer.Option(
            "--positive-only/--all-similarities", help="Fill gaps by people of like taste only."
        ),
    ] = True,
    ages: Annotated[
        str, typer.Option(help="Age bands: census (drawn) or data (ml-1m and ml-100k have some).")
    ] = "census",
    density: Annotated[
        float, typer.Option(help="Probability that a genre is denied to a band.")
    ] = 0.33,
    limits: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV", help="Your own limits: a row a band, a column a genre, 1 = denied."
        ),
    ] = None,
) -> None:
    """Movies: to whom to recommend them, within limits by age and genre.

    Without --data on synthetic movies. With it on MovieLens: any of its files, zips or folders. A
    study that was interrupted goes on when the same command is given again.
    """

    def recipe() -> Recipe:
        from bridle_studies.paper import inputs

        return inputs.movies(
            data,
            genres=words(genres, "--genres"),
            movies=movies,
            people=people,
            min_overlap=min_overlap,
            positive_only=positive_only,
            ages=ages,
            density=density,
            limits=limits,
        )

    _run("movies", recipe, where, grid, others, steps=50_000)


@study.command()
@with_options(where=Where, grid=Grid, others=Others)
def warfarin(
    where: Where,
    grid: Grid,
    others: Others,
    data: Data = None,
    p_feature: Annotated[
        float, typer.Option(help="Probability of each of the two further features.")
    ] = 0.5,
    low_below: Annotated[float, typer.Option(help="A dose below is low, in mg a week.")] = 21.0,
    high_above: Annotated[float, typer.Option(help="A dose above is high, in mg a week.")] = 49.0,
) -> None:
    """Warfarin: which dose to give, and to whom none may be given.

    Without --data on synthetic patients. With it on the IWPC data: the csv or the spreadsheet.
    """

    def recipe() -> Recipe:
        from bridle_studies.paper import inputs

        return inputs.warfarin(
            data, p_feature=p_feature, low_below=low_below, high_above=high_above
        )

    _run("warfarin", recipe, where, grid, others, steps=20_000, teaching_contexts=200)


@study.command()
@with_options(where=Where, grid=Grid, others=Others)
def own(
    where: Where,
    grid: Grid,
    others: Others,
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="A folder with contexts, rewards and allowed.")
    ],
) -> None:
    """Run the same grid on a world of your own: a folder of csv or parquet tables."""

    def recipe() -> Recipe:
        from bridle_studies.paper import inputs

        return inputs.own(data)

    _run("own", recipe, where, grid, others, steps=50_000)


study.command()(frontier)
study.command()(promises)
study.command()(real)


@study.command()
def verdict(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where a study was written to.")],
) -> None:
    """Check the paper's claims on the results of a study, each with its evidence."""
    with friendly_errors():
        from rich.console import Console

        from bridle_studies.paper.inputs import read_results, told_by
        from bridle_studies.paper.verdict import judge, print_verdict

        console = Console(highlight=False)
        results, curves, lessons = read_results(folder)
        console.print(told_by(folder), markup=False)
        print_verdict(console, judge(results, curves, lessons))


def _run(
    name: str,
    recipe: Callable[[], Recipe],
    where: Where,
    grid: Grid,
    others: Others,
    *,
    steps: int,
    teaching_contexts: int | None = None,
) -> None:
    with friendly_errors():
        from dataclasses import replace

        from rich.console import Console
        from rich.padding import Padding

        from bridle_studies import paper as library

        console = Console(highlight=False)
        # Before the data are read, which may take long.
        plan = _with_others(_plan(grid, where.quick, steps, teaching_contexts), others)
        with console.status("loading the data ..."):
            made = recipe()
        if grid.spread is not None:
            plan = replace(plan, v=_spread(made, grid))
        title, about = made.origin.title, made.origin.about
        console.print(made.name if title == made.name else f"{made.name}: {title}", style="bold")
        console.print(about, markup=False)
        for note in made.origin.notes:
            console.print(Padding(f"- {note}", (0, 0, 0, 2)), markup=False)
        library.study(
            made,
            plan,
            where.out,
            engine=where.engine,
            workers=where.workers,
            address=where.address,
            fresh=where.fresh,
            quick=where.quick,
            command=shlex.join(["bridle", *sys.argv[1:]]),
            console=console,
        )


def _plan(grid: Grid, quick: bool, steps: int, teaching_contexts: int | None) -> Plan:
    from bridle_studies.paper import Plan

    small = QUICK if quick else {"steps": steps}
    given: dict[str, Any] = {
        "examples": numbers(grid.examples, "--examples", int),
        "folds": grid.folds,
        "steps": grid.steps,
        "teaching_contexts": (
            teaching_contexts if grid.teaching_contexts is None else grid.teaching_contexts
        ),
        "v": grid.v,
        "v_constraint": grid.v_constraint,
        "v_teaching": grid.v_teaching,
    }
    return Plan(
        teaching=words(grid.teaching, "--teaching") or (),
        sigmas=numbers(grid.sigmas, "--sigmas", float) or (),
        redraw_constraints=grid.redraw_constraints,
        seed=grid.seed,
        ridge=grid.ridge,
        ridge_limits=grid.ridge_limits,
        label_coding=grid.label_coding,
        exact_denials=grid.exact_denials,
        checkpoints=grid.checkpoints,
        **(small | {name: value for name, value in given.items() if value is not None}),
    )


def _with_others(plan: Plan, others: Others) -> Plan:
    from dataclasses import replace

    policies = named("policy", others.policy, others.plugin)
    reward = named("reward", others.reward, others.plugin)
    if len(reward) > 1:
        raise typer.BadParameter("Give one name.", param_hint="'--reward'")
    return replace(plan, policies=policies, reward=reward[0] if reward else None)


def _spread(recipe: Recipe, grid: Grid) -> float:
    from bridle.policies import spread_of

    if grid.v is not None:
        raise typer.BadParameter("Give --v or --spread, not both.", param_hint="'--spread'")
    constants = numbers(grid.spread, "--spread", float) or ()
    if len(constants) != 3:
        raise typer.BadParameter("Three numbers: R,z,gamma.", param_hint="'--spread'")
    R, z, gamma = constants
    return spread_of(R=R, z=z, gamma=gamma, features=recipe.world(0).tables.features)

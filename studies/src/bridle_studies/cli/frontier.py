"""`bridle study frontier`: what an answer of the teacher buys, by the paper's methods and ours."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridle.cli.console import friendly_errors
from bridle_studies.cli.extensions import Limits, Plugins, named

if TYPE_CHECKING:
    from bridle_studies.environments import Recipe

__all__ = ["frontier"]

WORLDS = ("movies", "warfarin")
# With --quick so many of the movies, and of the people.
SMALL = {"movies": 200, "people": 30}


def frontier(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Write everything into this folder.")],
    world: Annotated[
        str, typer.Argument(metavar="[movies|warfarin]", help="Which world.")
    ] = "movies",
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Real data; without it the world is synthetic."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="In seconds: 30 people, 200 movies, 2 folds, T = 2000.")
    ] = False,
    headline: Annotated[
        bool,
        typer.Option(
            "--headline",
            help="Only ours, the paper's σ = .25, the mask and the best possible, in one world.",
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Equal seeds give equal results, to the bit.")
    ] = 0,
    folds: Annotated[
        int | None, typer.Option(help="Folds, each with limits of its own. [5]")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="T, steps of an online phase. [50000; Warfarin: 20000]")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="processes, in-process or ray: equal results, to the bit.")
    ] = "processes",
    workers: Annotated[int | None, typer.Option(help="Jobs at a time. [all cores]")] = None,
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster, with --engine ray; else one is started.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start anew, whatever study is in the folder.")
    ] = False,
    limits: Limits = None,
    plugin: Plugins = None,
) -> None:
    """The frontier: regret and violations over the number of the teacher's answers.

    Movies run with limits by single genres, by pairs and by both, and with a synthetic sweep of
    density and alignment. Without --data on synthetic movies or patients. It takes minutes; with
    --headline a few methods run in the first world alone, in seconds, and end in one figure.
    """
    if world not in WORLDS:
        raise typer.BadParameter(f"{world!r} is none of {', '.join(WORLDS)}.")
    with friendly_errors("What is finished is kept: the same command goes on."):
        from dataclasses import replace

        from rich.console import Console
        from rich.padding import Padding

        from bridle_studies.environments import synthetic_block
        from bridle_studies.frontier.run import frontier as run
        from bridle_studies.frontier.scope import Scope
        from bridle_studies.paper import inputs

        console = Console(highlight=False)
        given: dict[str, Any] = {"folds": folds, "steps": steps}
        if world == "warfarin":
            given["teaching_contexts"] = 200
            given["steps"] = steps or (None if quick else 20_000)
        kept = {name: value for name, value in given.items() if value is not None}
        others = named("limits", limits, plugin)
        scope = replace(Scope.quick() if quick else Scope(), seed=seed, limits=others, **kept)
        with console.status("loading the data ..."):
            size: dict[str, Any] = SMALL if quick else {}
            recipe: Recipe = (
                inputs.movies(data, **size) if world == "movies" else inputs.warfarin(data)
            )
        title, about = recipe.origin.title, recipe.origin.about
        console.print(
            recipe.name if title == recipe.name else f"{recipe.name}: {title}", style="bold"
        )
        console.print(about, markup=False)
        for note in recipe.origin.notes:
            console.print(Padding(f"- {note}", (0, 0, 0, 2)), markup=False)
        run(
            recipe,
            scope,
            out,
            engine=engine,
            workers=workers,
            address=address,
            fresh=fresh,
            quick=quick,
            headline=headline,
            command=shlex.join(["bridle", *sys.argv[1:]]),
            console=console,
            sweep_block=synthetic_block(**size),
        )

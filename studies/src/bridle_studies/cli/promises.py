"""`bridle study promises`: each promise tried many times, and how often it was broken."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bridle.cli.console import friendly_errors

__all__ = ["promises"]

# With --quick so many of the movies, and of the people.
SMALL = {"movies": 200, "people": 30}


def promises(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Write everything into this folder.")],
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="MovieLens; without it the movies are synthetic."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="In seconds: fewer of all, too few to show that they hold."),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Equal seeds give equal results, to the bit.")
    ] = 0,
    engine: Annotated[
        str, typer.Option(help="processes or in-process: equal results, to the bit.")
    ] = "processes",
    workers: Annotated[int | None, typer.Option(help="Jobs at a time. [all cores]")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start anew, whatever study is in the folder.")
    ] = False,
) -> None:
    """Promises: certificates, audits, the purse and evaluations, tried where the truth is known.

    Writes promises.json, figures and a report. It takes a few minutes.
    """
    with friendly_errors("What is finished is kept: the same command goes on."):
        from dataclasses import replace

        from rich.console import Console
        from rich.padding import Padding

        from bridle_studies.guarantees.run import promises as run
        from bridle_studies.guarantees.scope import Scope
        from bridle_studies.paper import inputs

        console = Console(highlight=False)
        scope = replace(Scope.quick() if quick else Scope(), seed=seed)
        with console.status("loading the data ..."):
            size: dict[str, Any] = SMALL if quick else {}
            recipe = inputs.movies(data, **size)
        title = recipe.origin.title
        console.print(
            recipe.name if title == recipe.name else f"{recipe.name}: {title}", style="bold"
        )
        console.print(recipe.origin.about, markup=False)
        for note in recipe.origin.notes:
            console.print(Padding(f"- {note}", (0, 0, 0, 2)), markup=False)
        run(
            recipe,
            scope,
            out,
            engine=engine,
            workers=workers,
            fresh=fresh,
            quick=quick,
            command=shlex.join(["bridle", *sys.argv[1:]]),
            console=console,
        )

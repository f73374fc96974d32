"""`bridle study real`: limits that people really set, in one table or in all that are there."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bridle.cli.console import friendly_errors, words
from bridle_studies.cli.extensions import Limits, Plugins, named

__all__ = ["real"]


def real(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Write everything into this folder.")],
    items: Annotated[
        Path | None,
        typer.Option(metavar="CSV", help="A table of your own: a row an item. [all worlds]"),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column that orders the items; with --items."),
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(
            metavar="LEVELS",
            help="Its values, lowest first, by commas: G,PG,PG-13,R+NC-17 (+ joins two).",
        ),
    ] = None,
    ratings: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="MovieLens, for tables with a movieId; else tastes are drawn."
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns to read, by commas: genres,keywords:60 (60 words). [all others]",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the public data are, without --items. [$BRIDLE_DATA, or ../shared/data]",
        ),
    ] = None,
    worlds: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Only these worlds, by commas; exceptions and teachers who err are several.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="In seconds: 2 seeds, T = 400, small worlds.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Equal seeds give equal results, to the bit.")
    ] = 0,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Draws of each world. [10; where groups are found 30; with exceptions 20]"
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="T, steps of a run. [20000; worlds of rules: 50000]")
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
    """Limits that people really set: how many answers, what goes wrong, is the doubt right.

    Without --items in all worlds whose data are there: film certificates, game ratings, Warfarin,
    ages as numbers, the rules of the frontier, limits that change half-way, violating that pays,
    teachers who err, and rare exceptions to what is free for all. With it in a table of your own.
    A study that was interrupted goes on when the same command is given again.
    """
    _check(items, label, levels, ratings, features, data, worlds)
    with friendly_errors():
        from dataclasses import replace

        from rich.console import Console

        from bridle_studies.real.run import real as run
        from bridle_studies.real.scope import Scope
        from bridle_studies.real.worlds import Found, data_folder, own_scene, scenes

        console = Console(highlight=False)
        given: dict[str, Any] = {
            "seeds": seeds,
            "seeds_found": seeds,
            "seeds_exceptions": seeds,
            "steps": steps,
            "steps_rules": steps,
        }
        kept = {name: value for name, value in given.items() if value is not None}
        others = named("limits", limits, plugin)
        scope = replace(Scope.quick() if quick else Scope(), seed=seed, limits=others, **kept)
        with console.status("loading the data ..."):
            if items is None:
                only = words(worlds, "--worlds")
                found = scenes(data_folder(data), scope, only=only, small=quick)
            else:
                scene = own_scene(
                    items,
                    scope,
                    label=label or "",
                    levels=words(levels, "--levels") or (),
                    features=words(features, "--features"),
                    ratings=ratings,
                )
                found = Found([scene], [])
        _print(console, found)
        run(
            found.scenes,
            scope,
            out,
            skipped=found.skipped,
            engine=engine,
            workers=workers,
            address=address,
            fresh=fresh,
            quick=quick,
            command=shlex.join(["bridle", *sys.argv[1:]]),
            console=console,
        )


def _check(
    items: Path | None,
    label: str | None,
    levels: str | None,
    ratings: Path | None,
    features: str | None,
    data: Path | None,
    worlds: str | None,
) -> None:
    """Raise an error if options do not go together."""
    of_items = {"label": label, "levels": levels, "ratings": ratings, "features": features}
    if items is None:
        for name, value in of_items.items():
            if value is not None:
                raise typer.BadParameter("Give --items with it.", param_hint=f"'--{name}'")
        return
    for name in ("label", "levels"):
        if of_items[name] is None:
            raise typer.BadParameter(
                "A table needs --label, the column that orders its items, and --levels, its "
                "values from the lowest on.",
                param_hint=f"'--{name}'",
            )
    for name, other in (("data", data), ("worlds", worlds)):
        if other is not None:
            raise typer.BadParameter("Give it without --items.", param_hint=f"'--{name}'")


def _print(console: Any, found: Any) -> None:
    """Show what was read, and what is skipped."""
    from rich.padding import Padding

    same: dict[tuple[str, ...], list[Any]] = {}
    for scene in found.scenes:
        same.setdefault(scene.recipe.origin.notes, []).append(scene)
    for notes, scenes in same.items():
        console.print(", ".join(scene.name for scene in scenes), style="bold", markup=False)
        abouts = {scene.recipe.origin.about for scene in scenes}
        if len(abouts) == 1:
            console.print(*abouts, markup=False)
        else:  # worlds of one table that differ: in few words, the report has all
            for scene in scenes:
                console.print(f"{scene.name}: {scene.about}.", markup=False)
        for note in notes:
            console.print(Padding(f"- {note}", (0, 0, 0, 2)), markup=False)
    for line in found.skipped:
        console.print(line, style="bold yellow", markup=False)

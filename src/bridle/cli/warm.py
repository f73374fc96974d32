"""`bridle warm`: compile every kernel before anybody waits for it."""

from __future__ import annotations

from typing import Annotated

import typer

from bridle.cli.console import friendly_errors

__all__ = ["warm"]


def warm(
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Compile every kernel beforehand. They are kept, so it takes a minute or two only once."""
    with friendly_errors("Stopped. What was compiled is kept."):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from bridle.warm import STEPS
        from bridle.warm import warm as compile_kernels

        console = Console(stderr=True, quiet=quiet)
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task("compiling", total=len(STEPS))
            done = 0

            def show(name: str) -> None:
                nonlocal done
                progress.update(bar, description=f"compiling: {name}", completed=done)
                done += 1

            kernels, seconds = compile_kernels(show)
        if kernels:
            console.print(f"{kernels} kernels compiled in {seconds:.0f} s. They are kept.")
        else:
            console.print(f"All kernels were there already ({seconds:.1f} s).")

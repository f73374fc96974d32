"""`bridle demo`: a short story in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Which synthetic worlds to show.")
    ] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the steps: rougher numbers.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            help="Save the figure there (.png, .svg or .pdf); needs matplotlib.",
        ),
    ] = None,
) -> None:
    """Teach and act in small synthetic worlds.

    The first run compiles the kernels, which takes up to a minute.
    """
    from bridle.errors import NotPossible
    from bridle_studies.demo import story

    if out is not None:
        try:
            story.check_out(out)
        except NotPossible as error:
            raise typer.BadParameter(str(error), param_hint="'--out'") from None
    story.demo(seed=seed, quick=quick, out=out)

"""How waiting for kernels is shown to a person at a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from bridle.kernels.compiling import compiled, notices_to

__all__ = ["patience"]


@contextmanager
def patience(console: Console) -> Iterator[None]:
    """Show that kernels are loaded; where they are compiled, show that, and how long it took."""
    text = "compiling the kernels (first run only, up to a minute or two) ..."
    with console.status("loading the kernels ...") as status:

        def show(_: str) -> None:
            if console.is_terminal:
                status.update(text)
            else:
                console.print(text)

        before, start = compiled(), time.perf_counter()
        with notices_to(show):
            yield
    kernels, seconds = compiled() - before, time.perf_counter() - start
    if kernels:
        line = f"{kernels} kernels took {seconds:.0f} s to compile. They are kept."
        console.print(line, style="dim")

"""How waiting is shown to a person at a terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

__all__ = ["patience"]


@contextmanager
def patience(console: Console) -> Iterator[None]:
    """Show that kernels are being loaded and, if it takes long, why."""
    text = "compiling the kernels (first run only, up to a minute) ..."
    with console.status("loading the kernels ...") as status:
        say = (lambda: status.update(text)) if console.is_terminal else lambda: console.print(text)
        timer = threading.Timer(4.0, say)
        timer.daemon = True
        timer.start()
        start = time.perf_counter()
        try:
            yield
        finally:
            timer.cancel()
    seconds = time.perf_counter() - start
    if seconds > 5.0:
        console.print(f"The kernels took {seconds:.0f} s to compile. They are kept.", style="dim")

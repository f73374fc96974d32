"""numba's `njit`, and one line for people when it really compiles.

Every kernel takes its `njit` from here. Compiled kernels are kept on disk, so only the first calls
on a machine (and after an update) wait for the compiler. Then one line says so: to the logger
`bridle.kernels` where somebody configured it, else to a person at a terminal or in a notebook, else
to nobody. Nothing is said where kernels come from the cache.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from numba import njit
from numba.core import event

__all__ = ["NOTICE", "bare", "compiled", "counted", "njit", "notices_to"]

LOG = logging.getLogger("bridle.kernels")
NOTICE = (
    "bridle compiles its kernels, once on this machine: up to a minute or two. "
    "`bridle warm` does it beforehand."
)


# For kernels that make no array and return none. numba counts who holds an array, with a locked
# instruction for each row that is looked at: in inner loops as much work as the arithmetic.
#
# What a bare kernel calls is bare, too, unless it says otherwise: what makes arrays is `counted`.
if TYPE_CHECKING:  # the types of numba do not know the flag
    bare = counted = njit(cache=True)
else:
    bare, counted = njit(cache=True, _nrt=False), njit(cache=True, _nrt=True)


class _Notice(event.Listener):
    """Hears of compilations; the first one of ours is announced."""

    def __init__(self) -> None:
        self.compiled = 0
        self.announced = False
        self.lock = threading.Lock()
        self.receivers: list[Callable[[str], None]] = []

    def on_start(self, event: event.Event) -> None:
        """Announce the compilation if it is the first; numba calls this."""
        kernel = getattr((event.data or {}).get("dispatcher"), "py_func", None)
        if not getattr(kernel, "__module__", "").startswith("bridle."):
            return
        with self.lock:
            self.compiled += 1
            first, self.announced = not self.announced, True
        if first:
            (self.receivers[-1] if self.receivers else _announce)(NOTICE)

    def on_end(self, event: event.Event) -> None:
        """Do nothing; numba calls this."""


_NOTICE = _Notice()
event.register("numba:compile", _NOTICE)  # type: ignore[no-untyped-call]


def compiled() -> int:
    """Return how many kernels this process has compiled so far, not counting those in the cache."""
    return _NOTICE.compiled


@contextmanager
def notices_to(receiver: Callable[[str], None]) -> Iterator[None]:
    """Hand the notice to `receiver` instead, as who shows progress of their own does."""
    _NOTICE.receivers.append(receiver)
    try:
        yield
    finally:
        _NOTICE.receivers.remove(receiver)


def _announce(text: str) -> None:
    if LOG.hasHandlers() and LOG.isEnabledFor(logging.INFO):
        LOG.info(text)
    elif "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty()):
        print(text, file=sys.stderr)

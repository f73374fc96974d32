"""On what figures were made: the machine, and how long its disk takes to sync."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

__all__ = ["fsync_ms", "machine"]


def fsync_ms(times: int = 50) -> float:
    """Give the median of milliseconds that a write of 4 KiB and its sync take, where tests write.

    Figures of durable commits mean little without it: some disks of virtual machines do not wait.
    """
    took = []
    with tempfile.TemporaryDirectory() as folder:
        number = os.open(Path(folder) / "file", os.O_CREAT | os.O_RDWR)
        try:
            for _ in range(times):
                os.write(number, bytes(4_096))
                began = time.perf_counter()
                os.fsync(number)
                took.append(1_000.0 * (time.perf_counter() - began))
        finally:
            os.close(number)
    return round(statistics.median(took), 3)


def machine() -> str:
    """Say what this machine is, in a line."""
    name = platform.processor() or platform.machine()
    with_model = [
        line.partition(":")[2].strip()
        for line in _lines(Path("/proc/cpuinfo"))
        if line.startswith("model name")
    ]
    if with_model:
        name = with_model[0]
    return (
        f"{os.cpu_count()} cores, {name}, {platform.system()}, Python {platform.python_version()}"
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []

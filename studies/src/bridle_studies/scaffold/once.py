"""What studies share that run at once and are never resumed: bar, refusals, manifest."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

import bridle
from bridle.agent.config import Json
from bridle.errors import NotPossible
from bridle_studies.paper.run import versions
from bridle_studies.scaffold.engines import Engine
from bridle_studies.scaffold.journal import MANIFEST

__all__ = ["do_jobs", "made_by", "refuse_foreign"]

J = TypeVar("J")


def do_jobs(
    engine: Engine, todo: Sequence[J], cost: Callable[[J], float], text: str, console: Console
) -> list[Any]:
    """Do jobs, with a bar that moves by what each costs; give their results in order."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    results: list[Any] = [None] * len(todo)
    total, done = sum(map(cost, todo)), 0.0
    with Progress(*columns, console=console) as progress, engine:
        bar = progress.add_task(text, total=total)
        for number, result in engine.run(cast(Any, todo)):
            results[number] = result
            before, done = done, done + cost(todo[number])
            progress.update(bar, completed=done)
            if not console.is_terminal and int(5 * done / total) > int(5 * before / total):
                console.print(f"{text}: {100 * done / total:.0f} %")  # a log has no bar
    return results


def refuse_foreign(out: Path, names: Sequence[str], what: str) -> None:
    """Refuse a folder with files that we would overwrite and that are of no study."""
    files = [name for name in names if (out / name).exists()]
    if files and not (out / MANIFEST).exists():
        raise NotPossible(
            f"{out} has files that {what} would overwrite, {files[0]!r} among them. Give "
            "another --out, or --fresh to replace them."
        )


def made_by(mark: str) -> Mapping[str, Json]:
    """Say with what a study was made, for its manifest."""
    return {
        "fingerprint": mark,
        "bridle": bridle.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions(),
    }

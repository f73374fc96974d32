"""Jobs of a study, done where an engine does them, with progress; what is finished is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bridle_studies.scaffold.engines import Engine
from bridle_studies.scaffold.journal import Journal

__all__ = ["do_jobs", "progress_bar"]

J = TypeVar("J")
LINES = 10  # in a log, which has no bar


@contextmanager
def progress_bar(
    console: Console, text: str, total: float, done: float = 0.0
) -> Iterator[Callable[[float], None]]:
    """Show progress; the function that is yielded takes what another job cost.

    At a terminal it is a bar; elsewhere a line for each tenth.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(text, total=total)
        progress.update(bar, completed=done)

        def advance(cost: float) -> None:
            nonlocal done
            before, done = done, done + cost
            progress.update(bar, completed=done)
            if not console.is_terminal and int(LINES * done / total) > int(LINES * before / total):
                console.print(f"{text}: {100 * done / total:.0f} %")

        yield advance


def do_jobs(
    engine: Engine,
    todo: Sequence[J],
    cost: Callable[[J], float],
    text: str,
    *,
    journal: Journal,
    console: Console,
    begin: float | None = None,
) -> list[Any]:
    """Do the jobs that are not yet done, keep each result as it comes, return all in order.

    Parameters
    ----------
    engine : Engine
        Where they are done. It is entered here.
    todo : sequence of jobs
        Each with a `key` that no other has.
    cost : callable
        What a job costs beside others, for the bar.
    text : str
        What the bar is about.
    journal : Journal
        What is finished, and where results are kept.
    console : Console
        Where progress is shown.
    begin : float, optional
        The moment, by the performance counter, from which the study's time counts.
    """
    begin = time.perf_counter() if begin is None else begin
    results: list[Any] = [journal.load(job) for job in todo]
    left = [place for place, result in enumerate(results) if result is None]
    costs = [cost(job) for job in todo]
    done = sum(costs) - sum(costs[place] for place in left)
    if len(left) < len(todo):
        console.print(f"Going on: {len(todo) - len(left)} of {len(todo)} jobs are there.")
    with progress_bar(console, text, sum(costs), done) as advance, engine:
        for number, result in engine.run([todo[place] for place in left]):
            place = left[number]
            results[place] = result
            journal.save(todo[place], result, time.perf_counter() - begin)
            advance(costs[place])
    return results

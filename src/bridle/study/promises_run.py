"""Run the study of promises: all its jobs, then `promises.json`, the figures and the report."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

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
from bridle.errors import NotPossible
from bridle.settings import Json
from bridle.study.engines import Engine, make_engine
from bridle.study.journal import MANIFEST, Journal
from bridle.study.plan import fingerprint
from bridle.study.promises import Promises
from bridle.study.promises_figures import draw_promises
from bridle.study.promises_report import lead, print_promises, write_promises_report
from bridle.study.promises_scope import Found, Job, Scope, cost, jobs
from bridle.study.promises_summary import summary
from bridle.study.run import versions
from bridle.study.work import table_bytes
from bridle.waiting import patience
from bridle.worlds.movies import Movies

__all__ = ["PromisesOutcome", "promises"]

PROMISES, RUNS = "promises.json", "promises-runs.json"


@dataclass(frozen=True, eq=False, kw_only=True)
class PromisesOutcome:
    """What the study gave.

    Attributes
    ----------
    out : Path
        The folder with all files.
    summary : dict
        What `promises.json` holds.
    manifest : dict
        How it was made.
    """

    out: Path
    summary: dict[str, list[dict[str, Any]]]
    manifest: dict[str, Json]


def promises(
    recipe: Movies,
    scope: Scope,
    out: Path | str,
    *,
    engine: str = "processes",
    workers: int | None = None,
    fresh: bool = False,
    quick: bool = False,
    command: str = "",
    console: Console | None = None,
) -> PromisesOutcome:
    """Try every promise many times, and write how often it was broken.

    Parameters
    ----------
    recipe : Movies
        What the worlds of the certificates are drawn from.
    scope : Scope
        How much is tried.
    out : Path
        The folder to write into. One that holds something else is refused.
    engine, workers, quick, command, console
        As in `study`.
    fresh : bool
        Replace whatever is in `out`. It takes minutes and is never resumed: a finished one is only
        drawn again.
    """
    out = Path(out)
    console = console or Console(quiet=True)
    work = Promises(recipe, scope)
    mark = fingerprint(
        bridle.__version__, "promises", scope.to_json(), recipe.settings(),
        recipe.origin.to_json()["files"], *table_bytes(recipe.world(scope.seed)),
    )  # fmt: skip
    made = make_engine(engine, cast(Any, work), workers=workers)
    if not fresh:
        _refuse_foreign(out)
    journal = Journal(out, mark, fresh=fresh)
    try:
        found = None if fresh else _finished(out, mark)
        if found is None:
            how: dict[str, Json] = {"engine": engine, "command": command, "quick": quick}
            found = _run(work, made, mark, console, how)
        else:
            line = f"{out} holds this very study: nothing to run, drawing it again."
            console.print(line, markup=False, soft_wrap=True)
        return _write(out, *found, console)
    finally:
        journal.close()


def _run(
    work: Promises, engine: Engine, mark: str, console: Console, how: Mapping[str, Json]
) -> tuple[list[Found], dict[str, Json]]:
    started, begin = datetime.now(UTC), time.perf_counter()
    with patience(console):
        _warm_up(work)
    todo = jobs(work.scope)
    results = _do(engine, todo, console)
    recipe = work.recipe
    return results, {
        "study": "promises",
        "world": recipe.name,
        "fingerprint": mark,
        "bridle": bridle.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions(),
        "settings": {"scope": work.scope.to_json(), "world": recipe.settings()},
        "origin": recipe.origin.to_json(),
        "seed": work.scope.seed,
        "seconds": round(time.perf_counter() - begin, 3),
        "workers": engine.workers,
        "started": started.isoformat(timespec="seconds"),
        **how,
    }


def _do(engine: Engine, todo: Sequence[Job], console: Console) -> list[Found]:
    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    results: list[Found] = [{} for _ in todo]
    total, done, text = sum(map(cost, todo)), 0.0, f"{len(todo)} jobs"
    with Progress(*columns, console=console) as progress, engine:
        bar = progress.add_task(text, total=total)
        for number, result in engine.run(cast(Any, todo)):
            results[number] = cast(Found, result)
            before, done = done, done + cost(todo[number])
            progress.update(bar, completed=done)
            if not console.is_terminal and int(5 * done / total) > int(5 * before / total):
                console.print(f"{text}: {100 * done / total:.0f} %")  # a log has no bar
    return results


def _warm_up(work: Promises) -> None:
    """Call each kernel once, here, so that workers find it compiled."""
    tiny = Scope(
        folds=1, recalibrations=1, contexts=230, taught=5, taught_linear=20, steps=20, adaptive=1,
        later=5, sequences=1, length=100, logs=1, decisions=10,
    )  # fmt: skip
    small = Promises(work.recipe, tiny)
    seen = set()
    for job in jobs(tiny):
        if (job.part, job.name) not in seen:
            seen.add((job.part, job.name))
            small.do(job)


def _refuse_foreign(out: Path) -> None:
    """Refuse a folder with files that we would overwrite and that are of no study."""
    files = [name for name in (PROMISES, RUNS) if (out / name).exists()]
    if files and not (out / MANIFEST).exists():
        raise NotPossible(
            f"{out} has files that this study would overwrite, {files[0]!r} among them. Give "
            "another --out, or --fresh to replace them."
        )


def _finished(out: Path, mark: str) -> tuple[list[Found], dict[str, Json]] | None:
    """Give the results that are there, if they are of this very study."""
    try:
        manifest = json.loads((out / MANIFEST).read_bytes())
        runs = json.loads((out / RUNS).read_bytes())
    except (OSError, ValueError):
        return None
    same = isinstance(manifest, dict) and manifest.get("fingerprint") == mark
    return (runs, manifest) if same and isinstance(runs, list) else None


def _write(
    out: Path, found: list[Found], manifest: dict[str, Json], console: Console
) -> PromisesOutcome:
    """Write every file; the manifest last, as it says that all is there."""
    told = summary(found)
    (out / RUNS).write_text(json.dumps(found) + "\n", encoding="utf-8")
    (out / PROMISES).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    with console.status("drawing ..."):
        synthetic = bool(cast("dict[str, Json]", manifest["origin"])["synthetic"])
        figures = draw_promises(out, found, synthetic=synthetic)
        report = write_promises_report(out, manifest=manifest, found=found, figures=figures)
    (out / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    print_promises(console, found)
    console.print()
    for sentence in lead(found):
        console.print(sentence, markup=False)
    if manifest.get("quick"):
        console.print("A quick run: too few tries to show that a promise holds.")
    console.print()
    console.print(
        f"{manifest['seconds']:.1f} s ({manifest['engine']}, {manifest['workers']} at a time)."
    )
    console.print(f"The report is in {report}.", markup=False, soft_wrap=True)
    return PromisesOutcome(out=out, summary=told, manifest=manifest)

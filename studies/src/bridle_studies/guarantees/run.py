"""Run the study of promises: all its jobs, then `promises.json`, the figures and the report."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from rich.console import Console

import bridle
from bridle.agent.config import Json
from bridle_studies.environments.movies import Movies
from bridle_studies.guarantees.figures import draw_promises
from bridle_studies.guarantees.jobs import Promises
from bridle_studies.guarantees.report import lead, print_promises, write_promises_report
from bridle_studies.guarantees.scope import Found, Scope, cost, jobs
from bridle_studies.guarantees.summary import summary
from bridle_studies.paper.plan import fingerprint
from bridle_studies.paper.work import table_bytes
from bridle_studies.scaffold.engines import Engine, make_engine
from bridle_studies.scaffold.journal import MANIFEST, Journal
from bridle_studies.scaffold.once import do_jobs, made_by, refuse_foreign
from bridle_studies.scaffold.waiting import patience

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
        bridle.__version__,
        "promises",
        scope.to_json(),
        recipe.settings(),
        recipe.origin.to_json()["files"],
        *table_bytes(recipe.world(scope.seed)),
    )
    made = make_engine(engine, cast(Any, work), workers=workers)
    if not fresh:
        refuse_foreign(out, (PROMISES, RUNS), "this study")
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
    results: list[Found] = do_jobs(engine, todo, cost, f"{len(todo)} jobs", console)
    recipe = work.recipe
    return results, {
        "study": "promises",
        "world": recipe.name,
        **made_by(mark),
        "settings": {"scope": work.scope.to_json(), "world": recipe.settings()},
        "origin": recipe.origin.to_json(),
        "seed": work.scope.seed,
        "seconds": round(time.perf_counter() - begin, 3),
        "workers": engine.workers,
        "started": started.isoformat(timespec="seconds"),
        **how,
    }


def _warm_up(work: Promises) -> None:
    """Call each kernel once, here, so that workers find it compiled."""
    tiny = Scope(
        folds=1,
        recalibrations=1,
        contexts=230,
        taught=5,
        taught_linear=20,
        steps=20,
        adaptive=1,
        later=5,
        sequences=1,
        length=100,
        varied=100,
        runs=2,
        horizon=100,
        logs=1,
        decisions=10,
    )
    small = Promises(work.recipe, tiny)
    seen = set()
    for job in jobs(tiny):
        if (job.part, job.name) not in seen:
            seen.add((job.part, job.name))
            small.do(job)


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

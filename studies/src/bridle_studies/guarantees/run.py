"""Run the study of promises: all its jobs, then `promises.json`, the figures and the report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from bridle_studies.scaffold.engines import Engine
from bridle_studies.scaffold.jobs import do_jobs
from bridle_studies.scaffold.journal import Files, Journal, JsonParts, figure_files
from bridle_studies.scaffold.study import fingerprint, run_study, table_bytes

__all__ = ["PromisesOutcome", "promises"]

PROMISES, RUNS = "promises.json", "promises-runs.json"
FIGURES = ("certificates", "shortcuts", "audits", "alarms", "promise", "evaluations")


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
        The folder to write into.
    engine, workers, fresh, quick, command, console
        As in `run_study`.
    """
    found, manifest = run_study(
        _Study(Promises(recipe, scope)),
        Path(out),
        engine=engine,
        workers=workers,
        fresh=fresh,
        how={"command": command, "quick": quick},
        console=console,
    )
    return PromisesOutcome(out=Path(out), summary=summary(found), manifest=manifest)


class _Study:
    """The study of promises as a `Study`."""

    name = "promises"
    files = Files(results=(RUNS,), also=(PROMISES, *figure_files(*FIGURES)))
    parts = JsonParts()

    def __init__(self, work: Promises) -> None:
        self.work = work
        recipe, scope = work.recipe, work.scope
        self.fingerprint = fingerprint(
            bridle.__version__,
            self.name,
            scope.to_json(),
            recipe.settings(),
            recipe.origin.to_json()["files"],
            *table_bytes(recipe.world(scope.seed)),
        )

    def warm_up(self) -> None:
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
        small = Promises(self.work.recipe, tiny)
        for job in {(job.part, job.name): job for job in reversed(jobs(tiny))}.values():
            small.do(job)

    def run(self, engine: Engine, journal: Journal, console: Console, begin: float) -> list[Found]:
        todo = jobs(self.work.scope)
        text = f"{len(todo)} jobs"
        found = do_jobs(engine, todo, cost, text, journal=journal, console=console, begin=begin)
        # As they are read again, whether they were done now or before.
        return cast("list[Found]", json.loads(json.dumps(found)))

    def facts(self, found: list[Found]) -> Mapping[str, Json]:
        recipe, scope = self.work.recipe, self.work.scope
        return {
            "world": recipe.name,
            "settings": {"scope": scope.to_json(), "world": recipe.settings()},
            "origin": recipe.origin.to_json(),
            "seed": scope.seed,
        }

    def read(self, out: Path) -> list[Found]:
        found = json.loads((out / RUNS).read_bytes())
        if not isinstance(found, list):
            raise ValueError(f"{RUNS} is no list")
        return found

    def write(self, out: Path, found: list[Found], manifest: Mapping[str, Json]) -> Path:
        (out / RUNS).write_text(json.dumps(found) + "\n", encoding="utf-8")
        told = json.dumps(summary(found), indent=2) + "\n"
        (out / PROMISES).write_text(told, encoding="utf-8")
        synthetic = bool(cast("dict[str, Json]", manifest["origin"])["synthetic"])
        figures = draw_promises(out, found, synthetic=synthetic)
        return write_promises_report(out, manifest=manifest, found=found, figures=figures)

    def show(self, console: Console, out: Path, found: list[Found]) -> None:
        print_promises(console, found)

    def lead(self, found: list[Found]) -> Sequence[str]:
        return lead(found)

"""What every study is, and how it is run: jobs, progress, resume, manifest, files, report.

A study says what its jobs are, what they depend on and what is made of their results; the rest is
done here. `docs/development.md` has a checklist for a new one.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import polars as pl
from rich.console import Console

import bridle
from bridle.agent.config import Json
from bridle_studies.environments.world import World
from bridle_studies.scaffold.engines import Engine, Work, make_engine
from bridle_studies.scaffold.journal import MANIFEST, Files, Journal, Parts
from bridle_studies.scaffold.waiting import patience

__all__ = ["Study", "fingerprint", "run_study", "table_bytes", "versions"]

PACKAGES = ("numpy", "numba", "polars", "matplotlib", "scipy", "jinja2", "ray")

R = TypeVar("R")


class Study(Protocol[R]):
    """A study whose results, after all jobs, are an R: frames, or plain values.

    `files` are what it writes; `fingerprint` is the function's of this name.
    """

    files: Files

    @property
    def name(self) -> str:
        """What the manifest calls it."""
        ...

    @property
    def fingerprint(self) -> str:
        """All that its results depend on, hashed."""
        ...

    @property
    def parts(self) -> Parts:
        """How results of jobs are kept."""
        ...

    @property
    def work(self) -> Work:
        """What does one job."""
        ...

    def warm_up(self) -> None:
        """Call each kernel once, here, so that workers find it compiled."""
        ...

    def run(self, engine: Engine, journal: Journal, console: Console, begin: float, /) -> R:
        """Do all jobs, those in the journal excepted, and return the results."""
        ...

    def facts(self, results: R, /) -> Mapping[str, Json]:
        """Return what the manifest says of it: settings, seed, data, how much was run."""
        ...

    def read(self, out: Path, /) -> R:
        """Return the results of a finished study from its files."""
        ...

    def write(self, out: Path, results: R, manifest: Mapping[str, Json], /) -> Path:
        """Write tables, figures and report; return the path of the report."""
        ...

    def show(self, console: Console, out: Path, results: R, /) -> None:
        """Show the tables in the terminal."""
        ...

    def lead(self, results: R, /) -> Sequence[str]:
        """Return what came out, in sentences computed from the results alone."""
        ...


def run_study(
    study: Study[R],
    out: Path,
    *,
    engine: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    fresh: bool = False,
    how: Mapping[str, Json],
    console: Console | None = None,
) -> tuple[R, dict[str, Json]]:
    """Run a study, or go on with it where it was interrupted; return its results and its manifest.

    Parameters
    ----------
    study : Study
        What to run.
    out : Path
        The folder to write into. Jobs that are finished there are kept; a finished study is only
        drawn again; another study raises `NotPossible`.
    engine : {"processes", "in-process", "ray"}
        Where the jobs run. The results are the same bits.
    workers, address
        How many at a time, and the address of a Ray cluster.
    fresh : bool
        Start anew, whatever is in `out`.
    how : mapping
        What the manifest and the report say about how it was called: `command`, `quick`, ...
    console : rich Console, optional
        Where progress and results are shown; nowhere by default.
    """
    console = console or Console(quiet=True)
    made = make_engine(engine, study.work, workers=workers, address=address)
    journal = Journal(out, study.fingerprint, files=study.files, parts=study.parts, fresh=fresh)
    try:
        found = _finished(study, journal)
        if found is None:
            found = _run(study, made, journal, console, {"engine": engine, **how})
        else:
            _print(console, f"{out} holds this very study: nothing to run, drawing it again.")
        results, manifest = found
        with console.status("drawing ..."):
            report = study.write(out, results, manifest)
        journal.finish(manifest)
    finally:
        journal.close()
    study.show(console, out, results)
    console.print()
    for sentence in (lead := study.lead(results)):
        console.print(sentence, markup=False)
    if manifest.get("quick"):
        console.print("A quick run: too small to show anything.")
    if lead or manifest.get("quick"):
        console.print()
    console.print(_cost(manifest))
    _print(console, f"The report is in {report}.")
    return results, manifest


def _run(
    study: Study[R], engine: Engine, journal: Journal, console: Console, how: Mapping[str, Json]
) -> tuple[R, dict[str, Json]]:
    started = datetime.now(UTC)
    with patience(console):
        study.warm_up()
    begin = time.perf_counter() - journal.seconds
    results = study.run(engine, journal, console, begin)
    return results, {
        "study": study.name,
        "fingerprint": study.fingerprint,
        "bridle": bridle.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions(),
        **study.facts(results),
        "seconds": round(time.perf_counter() - begin, 3),
        "workers": engine.workers,
        "started": started.isoformat(timespec="seconds"),
        **how,
    }


def _finished(study: Study[R], journal: Journal) -> tuple[R, dict[str, Json]] | None:
    if not journal.finished():
        return None
    try:
        manifest: dict[str, Json] = json.loads((journal.out / MANIFEST).read_bytes())
        return study.read(journal.out), manifest
    except (OSError, ValueError, pl.exceptions.PolarsError):
        return None  # damaged: it is run again


def _cost(manifest: Mapping[str, Json]) -> str:
    """Return what the study ran and how long it took, in a line."""
    counts = [
        f"{value:,} {name}"
        for name in ("runs", "steps")
        if isinstance(value := manifest.get(name), int)
    ]
    many = f"{', '.join(counts)} in " if counts else ""
    where = f"{manifest['engine']}, {manifest['workers']} at a time"
    return f"{many}{manifest['seconds']:.1f} s ({where})."


def _print(console: Console, line: str) -> None:
    # A path may hold brackets, which are no markup.
    console.print(line, markup=False, soft_wrap=True)


def versions() -> dict[str, Json]:
    """Return the versions of the packages that results may depend on; None if not installed."""
    found: dict[str, Json] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def fingerprint(*parts: object) -> str:
    """Hash plain JSON values and bytes: equal inputs, equal fingerprint."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def table_bytes(world: World) -> Iterator[bytes]:
    """Yield the bytes of a world's tables, to be hashed."""
    for table in (world.tables.contexts, world.tables.rewards, world.tables.allowed):
        yield repr(table.shape).encode()
        yield np.ascontiguousarray(table).tobytes()

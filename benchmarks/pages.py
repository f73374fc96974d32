"""Every page at a long log and at a short one: ``python -m benchmarks.pages [--events N]``.

The measure is a ratio in one run: how long a page takes at 1,000,000 events and 1,000 arms over how
long it takes at 1,000 events. Goal: at most 3. Each page is asked for in the same process, without
a network, and of several times the middle one counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bridle import Agent, Arm, Category, Flag, Labels
from bridle.agent.events import AuditBegun, Audited, Created
from bridle.policies import LearnedMask
from bridle.store.sqlite import SqliteStore
from bridle.store.writer import UnitOfWork, Writer
from bridle.web.app import pages
from tests.server.driving import Server
from tests.web.browsing import Person

GOAL = 3.0
NAME = "films"
GENRES = ["Horror", "Drama", "Comedy", "Crime", "Action", "Romance"]
AGES = ["12-17", "18-24", "25-34", "35-44", "45+"]
EXAMPLES = 200
STEP = 500  # decisions at a time, each with its reward
# Not pages: files, streams, parts of pages, and what has no end.
LEFT_OUT = ("/static/", "stream", "export", "download", "/visit", ".csv", ".jsonl")


def context(rng: np.random.Generator) -> dict[str, Any]:
    """Return somebody who comes."""
    return {
        "age": AGES[int(rng.integers(len(AGES)))],
        "likes": [one for one in GENRES if rng.random() < 0.2],
        "late": bool(rng.random() < 0.5),
    }


def fill(db: Path, arms: int, events: int, progress: Progress) -> None:
    """Write a log of about so many events."""
    store = SqliteStore(db)
    writer = Writer(store)
    settings = Agent(
        arms=[Arm(f"film-{k}", f"Film {k}", GENRES[k % len(GENRES)]) for k in range(arms)],
        features=[Category("age", AGES), Labels("likes", GENRES), Flag("late")],
        limits="rules",
        policy=LearnedMask(sigma=0.5, v=0.25),
        budget=100_000,
        on_doubt="play_safe",
        seed=3,
    ).settings
    rng = np.random.default_rng(5)
    writer.do(NAME, lambda work: None, created=Created(settings, 1.0e9))
    writer.do(NAME, partial(_teach, rng=rng, arms=arms))
    task = progress.add_task(f"{events:,} events, {arms:,} arms", total=events)
    version = 0
    while version < events:
        version = writer.do(NAME, partial(_live, rng=rng, most=events - version))
        progress.update(task, completed=version)
    writer.close()
    store.close()


def _teach(work: UnitOfWork, rng: np.random.Generator, arms: int) -> None:
    kept = work.aggregate
    kept.record(AuditBegun(0.01, 0.05, 7, ((1_000, 0.05),), at=work.now))
    for n in range(EXAMPLES):
        one, k = context(rng), n % arms
        allowed = not (k % len(GENRES) == 0 and one["age"] == "12-17")
        kept.record(kept.agent.make.taught(one, f"film-{k}", allowed, by="Ann", at=work.now))


def _live(work: UnitOfWork, rng: np.random.Generator, most: int) -> int:
    kept = work.aggregate
    many = max(1, min(STEP, most // 2))
    made = kept.agent.make.decided_many(
        [context(rng) for _ in range(many)], propensity=many < 50, details=False, at=work.now
    )
    kept.record_many(made)
    for id, arm in zip(made.ids, made.numbers, strict=True):
        if arm >= 0:
            kept.record(kept.agent.make.rewarded(id, float(rng.random()), at=work.now))
    for id in list(kept.auditing.pending)[20:]:
        kept.record(Audited(id, bool(rng.random() < 0.95), "Ann", None, work.now))
    return kept.version


def measure(db: Path, times: int) -> dict[str, float]:
    """Return the milliseconds of each page."""
    store = SqliteStore(db)
    server = Server(db.parent, store=store)
    found = {}
    try:
        ann = Person(server, "admin")
        decision = str(
            server.call("GET", f"/v1/agents/{NAME}/events?after=400").json["events"][0]["seq"]
        )
        for page in pages():
            path = page.path.replace("{agent}", NAME).replace("{id}", decision)
            if page.method != "GET" or any(part in path for part in LEFT_OUT) or "{" in path:
                continue
            took = []
            for _ in range(times):
                began = time.perf_counter()
                shown = ann.get(path)
                took.append(1e3 * (time.perf_counter() - began))
                assert shown.status in (200, 303, 404), (path, shown.status, shown.text[:300])
            if shown.status == 200:
                found[page.path] = statistics.median(took)
    finally:
        server.close()
        store.close()
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write pages.json; 1 if a page is too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--arms", type=int, default=1_000)
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("build"))
    options = parser.parse_args(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    options.out.mkdir(parents=True, exist_ok=True)
    sizes = {
        "short": (10, 1_000),
        "short, many arms": (options.arms, 1_000),
        "long": (options.arms, options.events),
    }
    report: dict[str, Any] = {"sizes": sizes, "ms": {}}
    with (
        tempfile.TemporaryDirectory(dir=options.out) as name,
        Progress(console=console) as progress,
    ):
        for size, (arms, events) in sizes.items():
            folder = Path(name) / size.replace(", ", "-").replace(" ", "-")
            folder.mkdir()
            fill(folder / "logs.db", arms, events, progress)
        for size in sizes:
            folder = Path(name) / size.replace(", ", "-").replace(" ", "-")
            report["ms"][size] = measure(folder / "logs.db", options.times)
    short, many, long = (report["ms"][size] for size in sizes)
    report["ratios"] = {path: long[path] / short[path] for path in long if path in short}
    table = Table(title="milliseconds of each page, the middle one")
    table.add_column("page")
    for size, (arms, events) in sizes.items():
        table.add_column(f"{size}: {events:,} events, {arms:,} arms", justify="right")
    table.add_column("long / short", justify="right")
    for path, ratio in report["ratios"].items():
        cells = [f"{one[path]:.1f}" for one in (short, many, long)]
        table.add_row(path, *cells, f"{ratio:.2f}")
    console.print(table)
    worst = max(report["ratios"], key=lambda path: float(report["ratios"][path]))
    report["worst"] = worst
    console.print(f"the worst is {worst}: {report['ratios'][worst]:.2f} (goal {GOAL:g})")
    (options.out / "pages.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0 if report["ratios"][worst] <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())

"""The paper's whole grid of movies: how long it takes, and how long the pseudo-code would.

The pseudo-code is that of `tests/reference.py`, in two forms: as the paper prints it (an inverse
and a d-vector for each arm, at each step), and with the short cuts that let the tests end in time.
Nobody waits for either: a piece is measured, and what the same runs would take is computed.
Teaching counts once for each fold and way, as it does with us: shorter lessons are beginnings of
longer ones.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console

from bridle_studies.environments import Movies, synthetic_block
from bridle_studies.paper.parts import PaperParts
from bridle_studies.paper.plan import Plan
from bridle_studies.paper.run import FILES, run_jobs, warm_up
from bridle_studies.paper.work import Work, jobs
from bridle_studies.scaffold.engines import make_engine
from bridle_studies.scaffold.journal import Journal
from tests import reference

GOAL = 3_000.0
V = 0.25


def main(quick: bool = False, console: Console | None = None) -> dict[str, float]:
    """Measure both, print the ratios and return every figure."""
    console = console or Console()
    plan = Plan(steps=2_000, examples=(500, 2_000), folds=2) if quick else Plan()
    work = Work(Movies(synthetic_block()), plan)
    warm_up(work)
    console.print(f"the grid of the movies: {plan.runs} runs of {plan.steps:,} steps ...")
    classes, batches = jobs(plan)
    with tempfile.TemporaryDirectory() as folder:
        engine = make_engine("processes", work)
        start = time.perf_counter()
        journal = Journal(Path(folder), "bench", files=FILES, parts=PaperParts())
        run_jobs(engine, plan, journal, classes, batches, console)
        seconds = time.perf_counter() - start
    found = {"runs": float(plan.runs), "seconds": seconds, "workers": float(engine.workers)}
    for name, kind, steps in (
        ("pseudo-code", reference.AsPrinted, 20 if quick else 100),
        ("reference", reference.Arms, 100 if quick else 1_000),
    ):
        console.print(f"{steps} steps of each part of the {name} ...")
        found[f"{name} seconds"] = extrapolated(work, kind, steps)
        found[f"{name} ratio"] = found[f"{name} seconds"] / seconds
    for line in (
        f"{plan.runs} runs took {seconds:.1f} s with {engine.workers} processes.",
        f"The pseudo-code as printed would take {_days(found['pseudo-code seconds'])}: "
        f"{found['pseudo-code ratio']:,.0f} × as long (goal: {GOAL:,.0f}).",
        f"With the short cuts of tests/reference.py, {_days(found['reference seconds'])}: "
        f"{found['reference ratio']:,.0f} ×.",
    ):
        console.print(line)
    return found


def extrapolated(work: Work, kind: type[reference.Arms], steps: int) -> float:
    """Return the seconds that the reference would need for all runs of the plan."""
    plan, fold = work.plan, work.fold(0)
    tables = fold.world.tables
    world = reference.World(tables.contexts, tables.rewards, tables.allowed)
    rng = np.random.default_rng(0)
    rows = fold.online_rows[:steps]
    taught = reference.teach(world, rows, how="random", v=V, rng=rng, kind=kind)
    parts: dict[str, Callable[[], object]] = {
        "random": lambda: reference.teach(world, rows, how="random", v=V, rng=rng, kind=kind),
        "thompson": lambda: reference.teach(world, rows, how="thompson", v=V, rng=rng, kind=kind),
        "blend": lambda: reference.bcts(
            world, rows, taught.limits, sigma=0.5, v=V, rng=rng, kind=kind
        ),
        "mask": lambda: reference.mask(world, rows, v=V, rng=rng, kind=kind),
    }
    seconds = {}
    for name, part in parts.items():
        start = time.perf_counter()
        part()
        seconds[name] = (time.perf_counter() - start) / steps
    blends = plan.runs - plan.folds * len(plan.untaught)
    total = blends * plan.steps * seconds["blend"]
    total += (plan.runs - blends) * plan.steps * seconds["mask"]
    total += sum(plan.folds * max(plan.examples) * seconds[way] for way in plan.teaching)
    return total


def _days(seconds: float) -> str:
    hours = seconds / 3600.0
    return f"{hours:,.1f} hours" if hours < 100.0 else f"{hours / 24.0:,.1f} days"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grid", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small grid, in seconds")
    main(parser.parse_args().quick)

"""Run the benchmarks: ``python -m benchmarks [--quick] [--case 100x10] [--mode fit]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import chart, goals, grid, growth, limits, loading, measure, ours, report, roofline
from benchmarks.cases import CASES, STEPS, World, make_world
from benchmarks.catalogue import CATALOGUES, CatalogueCase, make_catalogue, stepping
from benchmarks.catalogue import PEERS as CATALOGUE_PEERS
from benchmarks.measure import MODES, Contest, Effort, Mode, Result
from benchmarks.peers import PEERS, Peer

CONTESTANTS: tuple[type[Peer], ...] = (ours.Bridle, *PEERS)
WHO = [*(make.name for make in CONTESTANTS), "matvec"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write bench.json, bench-extra.json and bench.png."""
    options = _options(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)  # a log file has no width of its own
    cases = [case for case in CASES if case.name in options.case]
    effort = measure.QUICK if options.quick else measure.FULL
    steps = STEPS // 10 if options.quick else STEPS
    found = report.Report(cases=cases, results=[])
    wanted = [make for make in CONTESTANTS if make.name in options.who]
    contestants = _installed(wanted, found, make_world(CASES[0], steps=1, size=CASES[0].arms))

    columns = (TextColumn("{task.description:<40}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        ladders = growth.QUICK if options.quick else growth.FULL
        has_bridle = ours.Bridle in contestants
        names = {make.name for make in contestants} | {"matvec"} & set(options.who)
        contests = len(cases) * (3 * len(contestants) + has_bridle)
        total = contests * measure.turns(effort)
        total += 0 if options.part else len(cases) + has_bridle * ladders.turns
        task = progress.add_task("", total=total)

        def tick(text: str) -> None:
            progress.update(task, description=text, advance=1)

        for case in cases:
            world = make_world(case, steps=steps)
            found.results += _contests(contestants, options.mode, world, effort, tick)
            if options.part:
                continue
            tick(f"{case.name}: flops and draws alone")
            few = min(steps, 2_000 if case.arms >= 1_000 else 20_000)
            found.floors[case.name] = roofline.decisions_per_second(world, steps=few)
        for large in CATALOGUES:
            if large.name in options.case:
                found.results += _large(large, names, options.mode, effort, tick)
        if has_bridle and not options.part:
            found.growth = growth.growth(ladders, tick)
            found.memory = [growth.memory_per_arm(case) for case in cases]
            found.memory += [
                growth.memory_of_catalogue(case) for case in CATALOGUES if case.name in options.case
            ]
            found.startup = growth.startup(ladders, tick)
    cost: limits.Found | None = None
    if not options.decisions and not options.part:
        found.grid = grid.main(options.quick, console)
        found.loading = loading.main(options.quick, folder=options.out, tell=console.print)
        cost = limits.main(options.quick, console, options.out)
        found.limits = cost.to_json()
    found.goals = goals.judge(goals.rates_of(found.results), found.startup)
    found.goals += goals.judge_study(found.grid, found.loading)
    if cost is not None:
        found.goals += goals.judge_limits(cost.refit, cost.masks, cost.ratios)

    report.print_report(found, console)
    options.out.mkdir(parents=True, exist_ok=True)
    paths = [*report.write_json(found, options.out), options.out / "bench.png"]
    if cases:
        chart.draw(found.results, cases, paths[-1])
    console.print("written: " + ", ".join(str(path) for path in paths))
    if options.quick:
        console.print("A quick run: too short for figures to be quoted.", style="yellow")
    return 0 if has_bridle else 1


def _contests(
    contestants: Sequence[type[Peer]],
    modes: Sequence[Mode],
    world: World,
    effort: Effort,
    tick: growth.Tick,
) -> list[Result]:
    """Hold all contests of one case. A peer's loop is its single steps: it has no other."""
    case = world.case.name
    results: list[Result] = []
    if "loop" in modes or "single" in modes:
        stepping: list[Contest] = []
        if ours.Bridle in contestants and "loop" in modes:
            stepping.append(ours.compiled_loop(world))
        alone = [] if "single" in modes else [ours.Bridle]
        stepping += [measure.stepwise(make, world) for make in contestants if make not in alone]
        results += measure.hold(stepping, case, effort, tick)
        peers = {peer.name for peer in PEERS}
        results += [replace(r, mode="loop") for r in results if r.who in peers]
    for mode, build in (("batch", measure.batchwise), ("fit", measure.from_log)):
        if mode in modes:
            contests = [build(make, world) for make in contestants]
            results += measure.hold(contests, case, effort, tick)
    return results


def _large(
    case: CatalogueCase, names: set[str], modes: Sequence[Mode], effort: Effort, tick: growth.Tick
) -> list[Result]:
    """Hold the contests of a catalogue. A peer's loop is its single steps: it has no other."""
    world = make_catalogue(case)
    contests: list[Contest] = []
    for mode in ours.BridleCatalogue.MODES:
        if "bridle" in names and mode in modes:
            mine = ours.BridleCatalogue(world, mode)
            contests.append(stepping("bridle", mode, mine, world))
    for who in case.peers:
        if who in names and {"loop", "single"} & set(modes):
            contests.append(stepping(who, "single", CATALOGUE_PEERS[who](world), world))
    results = measure.hold(contests, case.name, effort, tick)
    return results + [replace(r, mode="loop") for r in results if r.who in case.peers]


def _installed(
    wanted: Sequence[type[Peer]], found: report.Report, world: World
) -> list[type[Peer]]:
    """Keep the contestants that can be imported, and say of the others why not."""
    kept = []
    for make in wanted:
        try:
            make(world, seed=1)
        except ImportError as error:
            found.skipped[make.name] = f"not installed: {error}"
        else:
            kept.append(make)
    return kept


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = [case.name for case in (*CASES, *CATALOGUES)]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="two minutes instead of ten, rough figures"
    )
    parser.add_argument("--case", action="append", choices=names, help="only this one; may repeat")
    parser.add_argument(
        "--decisions", action="store_true", help="decisions only: no grid, no loading, no limits"
    )
    parser.add_argument("--mode", action="append", choices=MODES, help="only this one; may repeat")
    parser.add_argument(
        "--who",
        action="append",
        choices=WHO,
        help="only this contestant; may repeat",
    )
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder for the files")
    options = parser.parse_args(arguments)
    # Of a part, rates alone are measured: no growth, no start-up, no study.
    options.part = bool(options.mode or options.who)
    options.case = options.case or names
    options.mode = options.mode or list(MODES)
    options.who = options.who or WHO
    return options


if __name__ == "__main__":
    sys.exit(main())

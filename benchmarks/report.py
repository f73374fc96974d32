"""What a run leaves behind: tables in the terminal and two JSON files."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import THREAD_VARIABLES
from benchmarks.cases import CASES, STEPS, Case
from benchmarks.catalogue import CATALOGUES
from benchmarks.goals import Goal, Rates, rates_of
from benchmarks.growth import Growth, Memory, Startup
from benchmarks.measure import Mode, Result
from benchmarks.peers import PEERS

DISTRIBUTIONS = (
    "bridle",
    "numpy",
    "numba",
    "mabwiser",
    "contextualbandits",
    "vowpalwabbit",
    "river",
    "bayesianbandits",
)

CATALOGUE_NAMES = frozenset(case.name for case in CATALOGUES)

LOOP_NOTE = (
    "No peer has a compiled loop: a peer's 'loop' figure is its 'single' figure, the rate "
    "at which a Python loop around it goes."
)


@dataclass(kw_only=True)
class Report:
    """Everything that one run found out."""

    cases: Sequence[Case]
    results: list[Result]
    skipped: dict[str, str] = field(default_factory=dict)
    floors: dict[str, float] = field(default_factory=dict)  # decisions/s of bare arithmetic
    growth: list[Growth] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    startup: Startup | None = None
    goals: list[Goal] = field(default_factory=list)
    grid: dict[str, float] | None = None  # the paper's grid against the pseudo-code
    loading: dict[str, Any] | None = None  # MovieLens 20M against a bare scan
    limits: dict[str, Any] | None = None  # refits, answers and masks, in compiled decisions


def write_json(report: Report, folder: Path) -> tuple[Path, Path]:
    """Write the rates in their fixed form, and all other facts beside them."""
    rates = [
        {"case": r.case, "mode": r.mode, "who": r.who, "per_second": r.per_second}
        for r in report.results
    ]
    extra: dict[str, Any] = {
        "notes": [LOOP_NOTE],
        "machine": _machine(),
        "versions": {name: _version(name) for name in DISTRIBUTIONS},
        "skipped": report.skipped,
        "steps": [
            {"case": r.case, "mode": r.mode, "who": r.who, "steps": r.steps} for r in report.results
        ],
        "draws": {peer.name: peer.draws for peer in PEERS},
        "remarks": {peer.name: peer.remark for peer in PEERS if peer.remark},
        "flops_and_draws_per_second": report.floors,
        "share_of_flops_and_draws": _shares(report),
        "growth": [asdict(g) for g in report.growth],
        "memory": [asdict(m) for m in report.memory],
        "startup_seconds": asdict(report.startup) if report.startup else None,
        "grid": report.grid,
        "loading": report.loading,
        "limits": report.limits,
        "goals": [{**asdict(g), "reached": g.reached} for g in report.goals],
    }
    paths = folder / "bench.json", folder / "bench-extra.json"
    for path, content in zip(paths, (rates, extra), strict=True):
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return paths


def print_report(report: Report, console: Console) -> None:
    """Print rates and ratios, growth, memory, start-up and the goals."""
    for case in report.cases:
        console.print(_rates_table(report, case))
    if any(r.case in CATALOGUE_NAMES for r in report.results):
        console.print(_catalogue_table(report))
    console.print(
        f"Rates are decisions with their reward (fit: rows of the log) per second, on one "
        f"thread. In brackets: bridle / peer; in the loop column bridle's compiled loop is "
        f"set against a peer's single steps, as no peer has such a loop. A batch has "
        f"{CASES[0].batch:,} contexts. * = fewer than {STEPS:,} steps a slice, as a "
        f"slow contestant would take too long. † = one draw for the whole batch, ‡ = no draws.",
        style="dim",
    )
    for who, reason in report.skipped.items():
        console.print(f"skipped: {who} ({reason})", style="yellow")
    if report.floors:
        console.print(_floors_table(report))
    if report.growth:
        console.print(_growth_table(report))
    if report.memory:
        console.print(_memory_table(report))
    if report.startup is not None:
        s = report.startup
        console.print(
            f"Start-up: python {s.python * 1e3:.0f} ms, import numpy {s.numpy * 1e3:.0f} ms, "
            f"import bridle {s.bridle * 1e3:.0f} ms, bridle --help {s.help * 1e3:.0f} ms"
        )
    if report.goals:
        console.print(_goals_table(report))


def _rates_table(report: Report, case: Case) -> Table:
    rates = rates_of(report.results)
    steps = {(r.mode, r.who): r.steps for r in report.results if r.case == case.name}
    kind = "binary" if case.binary else "dense"
    table = Table(title=f"{case.name}: {case.arms:,} arms, {case.features} {kind} features")
    table.add_column("who", no_wrap=True)
    modes: tuple[Mode, ...] = ("loop", "single", "batch", "fit")
    for mode in modes:
        table.add_column(mode, justify="right")
    draws = {peer.name: peer.draws for peer in PEERS}
    names = ["bridle", *(peer.name for peer in PEERS)]
    for who in names:
        if not any((case.name, mode, who) in rates for mode in modes):
            continue
        cells = [
            _cell(rates, case.name, mode, who, steps.get((mode, who), 0), draws.get(who, "anew"))
            for mode in modes
        ]
        table.add_row(who, *cells, style="bold" if who == "bridle" else None)
    return table


def _catalogue_table(report: Report) -> Table:
    modes: tuple[Mode, ...] = ("loop", "single", "loop-limits", "slate-1", "slate-10")
    table = Table(title="Arms with features (arms x arm features x context features)")
    for name in ("case", "who", *modes):
        table.add_column(name, justify="left" if name in ("case", "who") else "right")
    rates = rates_of(r for r in report.results if r.case in CATALOGUE_NAMES)
    for case, who in dict.fromkeys((case, who) for case, _, who in rates):
        found = [rates.get((case, mode, who)) for mode in modes]
        table.add_row(case, who, *("" if one is None else number(one) for one in found))
    return table


def _cell(rates: Rates, case: str, mode: Mode, who: str, steps: int, draws: str) -> str:
    rate = rates.get((case, mode, who))
    if rate is None:
        return ""
    text = number(rate) + ("*" if steps < STEPS else "")
    if mode == "batch":
        text += {"anew": "", "shared": "†", "none": "‡"}[draws]
    ours = rates.get((case, mode, "bridle"))
    if who == "bridle" or ours is None:
        return text
    return f"{text} ({number(ours / rate)}×)"


def _shares(report: Report) -> dict[str, float]:
    rates = rates_of(report.results)
    return {
        case: rates[case, "loop", "bridle"] / floor
        for case, floor in report.floors.items()
        if (case, "loop", "bridle") in rates
    }


def _floors_table(report: Report) -> Table:
    table = Table(title="Flops and draws alone (every arm's mean, quadratic form and normal)")
    for name in ("case", "decisions/s", "share of the loop's time"):
        table.add_column(name, justify="left" if name == "case" else "right")
    shares = _shares(report)
    for case, floor in report.floors.items():
        share = f"{shares[case]:.0%}" if case in shares else ""
        table.add_row(case, number(floor), share)
    table.caption = "Over 100 % where a bound spares most quadratic forms."
    return table


def _growth_table(report: Report) -> Table:
    table = Table(title="Growth of the compiled loop (seconds ~ size ^ exponent)")
    for name in ("size", "from", "to", "with", "exponent", "R²"):
        table.add_column(name)
    for g in report.growth:
        low, high = f"{g.sizes[0]:,}", f"{g.sizes[-1]:,}"
        table.add_row(g.size, low, high, g.fixed, f"{g.exponent:.2f}", f"{g.fit:.3f}")
    return table


def _memory_table(report: Report) -> Table:
    table = Table(title="Memory an arm")
    for name in ("case", "bytes", "bare numbers"):
        table.add_column(name, justify="left" if name == "case" else "right")
    for m in report.memory:
        table.add_row(m.case, f"{m.bytes_per_arm:,.0f}", f"{m.bare_bytes:,}")
    return table


def _goals_table(report: Report) -> Table:
    table = Table(title="Goals")
    for name in ("goal", "wanted", "got", ""):
        table.add_column(name, justify="right" if name in ("wanted", "got") else "left")
    for goal in report.goals:
        sign = "≤" if goal.at_most else "≥"
        verdict = "[green]reached[/]" if goal.reached else "[red]not reached[/]"
        table.add_row(goal.text, f"{sign} {number(goal.wanted)}×", f"{number(goal.got)}×", verdict)
    return table


def number(value: float) -> str:
    """Write a number with three significant digits and separators.

    >>> number(1234567.8), number(12.345), number(0.5)
    ('1,230,000', '12.3', '0.5')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100.0 else f"{rounded:g}"


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": {name: os.environ.get(name) for name in THREAD_VARIABLES},
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()

"""What a run of the regret benchmark leaves behind: rows, a table, verdicts and a figure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks import openbandit
from benchmarks.goals import Goal
from benchmarks.regretworlds import STEPS

OURS = "bridle"
FREE = "bridle-no-forgetting"
# Where the regret so far is noted, for the figure.
LADDER = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
MARKS = {"bilinear": (2_000, 20_000)}
"""At how many decisions a world is read; the others at their end."""
HALVES = {"drift"}
"""Worlds that are read by their second half: what changes does so half-way."""
BARS = {
    ("clicks", 50_000): 0.0185,
    ("clicks-high", 50_000): 0.020,
    ("bilinear", 2_000): 0.07,
    ("bilinear", 20_000): 0.022,
    ("drift", 20_000): 0.06,
    ("cold", 20_000): 0.065,
    ("movies", 20_000): 0.115,
}
PRICE = 1.15
"""The first half of `drift`, with forgetting over without."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A contestant's regret in a world, or its log loss on a log: a line of regret.json."""

    world: str
    who: str
    seed: int
    n: int
    mean: float
    second_half: float


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The mean regret a decision over the first so many: a line of regret-curves.json."""

    world: str
    who: str
    seed: int
    at: list[int]
    mean: list[float]


def columns_of(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """Return each world that was played, with the number of decisions at which it is read."""
    worlds = dict.fromkeys(row.world for row in rows)
    return [(world, mark) for world in worlds for mark in marks_of(world)]


def marks_of(world: str) -> tuple[int, ...]:
    """Return at how many decisions a world is read; a log has no such number: 0."""
    return MARKS.get(world, (STEPS.get(world, 0),))


def read(rows: Sequence[Row], who: str, world: str, mark: int) -> list[Row]:
    """Return a contestant's rows of one column, a row a seed: what came nearest to its mark.

    >>> row = Row(world="bilinear", who="vw", seed=0, n=800, mean=0.4, second_half=0.3)
    >>> [len(read([row], "vw", "bilinear", mark)) for mark in MARKS["bilinear"]]
    [1, 0]
    """
    below = max((m for m in marks_of(world) if m < mark), default=0)
    best: dict[int, Row] = {}
    for row in rows:
        here = (row.world, row.who) == (world, who) and (not mark or below < row.n <= mark)
        if here and (row.seed not in best or best[row.seed].n < row.n):
            best[row.seed] = row
    return [best[seed] for seed in sorted(best)]


def figure_of(found: Sequence[Row], world: str) -> float:
    """Return what a world is read by, the mean over seeds."""
    values = [row.second_half if world in HALVES else row.mean for row in found]
    return float(np.mean(values))


def judge(rows: Sequence[Row]) -> list[Goal]:
    """Judge the default by the bars; of a run that was too short for one, nothing is said."""
    goals = []
    for (world, mark), bar in BARS.items():
        found = _whole(rows, OURS, world, mark)
        if found:
            what = "regret in the second half" if world in HALVES else "regret"
            text = f"{world}, {mark:,} decisions: {what}"
            goals.append(Goal(text=text, wanted=bar, got=figure_of(found, world), at_most=True))
    halves = [_first_half(_whole(rows, who, "drift", STEPS["drift"])) for who in (OURS, FREE)]
    if halves[0] is not None and halves[1]:
        ratio = halves[0] / halves[1]
        text = "drift: the first half / without forgetting"
        goals.append(Goal(text=text, wanted=PRICE, got=ratio, at_most=True))
    ours, constant = (read(rows, who, openbandit.NAME, 0) for who in (OURS, "constant"))
    if ours and constant:
        ratio = figure_of(ours, openbandit.NAME) / figure_of(constant, openbandit.NAME)
        text = "open-bandit: log loss / the constant's"
        goals.append(Goal(text=text, wanted=1.0, got=ratio, at_most=True))
    return goals


def _whole(rows: Sequence[Row], who: str, world: str, mark: int) -> list[Row]:
    """Return a contestant's rows at a mark, if every run reached it."""
    found = read(rows, who, world, mark)
    return found if all(row.n == mark for row in found) else []


def _first_half(found: Sequence[Row]) -> float | None:
    return float(np.mean([2.0 * row.mean - row.second_half for row in found])) if found else None


def table(rows: Sequence[Row]) -> Table:
    """Return the table of all: a line a contestant, a column a world."""
    goals = {(world, mark): bar for (world, mark), bar in BARS.items()}
    columns = columns_of(rows)
    shown = Table(title="Mean expected regret a decision (open-bandit: log loss)")
    shown.add_column("")
    for world, mark in columns:
        more = "\nsecond half" if world in HALVES else f"\n{mark:,}" if mark else "\nlog loss"
        shown.add_column(world + more, justify="right")
    bars = [f"≤ {goals[column]:.4g}" if column in goals else "" for column in columns]
    shown.add_row("bar", *bars, style="dim", end_section=True)
    for who in dict.fromkeys(row.who for row in rows):
        cells = [_cell(rows, who, *column) for column in columns]
        shown.add_row(who, *cells, style="bold" if who == OURS else "")
    return shown


def _cell(rows: Sequence[Row], who: str, world: str, mark: int) -> str:
    found = read(rows, who, world, mark)
    if not found:
        return "–"
    n = round(np.mean([row.n for row in found]))
    if mark and n < mark and world in HALVES:
        return "–"  # it saw no change, or less of it
    text = f"{figure_of(found, world):.4f}"
    return text if not mark or n == mark else f"{text} @{n:,}"


def write(rows: Sequence[Row], curves: Sequence[Curve], folder: Path) -> list[Path]:
    """Write regret.json and regret-curves.json."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "regret.json", folder / "regret-curves.json"]
    both: tuple[Sequence[Row | Curve], ...] = (rows, curves)
    for path, entries in zip(paths, both, strict=True):
        lines = ",\n".join(json.dumps(asdict(entry)) for entry in entries)
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return paths


# Okabe and Ito's colours, which people with any colour vision tell apart; markers say it again.
LOOKS = {
    "bridle": ("#D55E00", "o"),
    "bridle-centred": ("#E69F00", "v"),
    "bridle-no-forgetting": ("#F0E442", "<"),
    "mabwiser-lints": ("#0072B2", "s"),
    "mabwiser-linucb": ("#56B4E9", "D"),
    "river": ("#009E73", "^"),
    "bayesianbandits": ("#CC79A7", "P"),
    "vw-epsilon": ("#000000", "X"),
    "vw-squarecb": ("#8a94a0", "*"),
}
ACROSS = 4


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Draw a panel a world: the mean regret so far over decisions, a line a contestant.

    Where a contestant's runs are of different lengths its line ends with the shortest.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import matplotlib.ticker

    worlds = [*dict.fromkeys(curve.world for curve in curves)]
    down = -(-len(worlds) // ACROSS)
    figure, axes = plt.subplots(
        down, ACROSS, figsize=(15.0, 3.7 * down + 0.8), squeeze=False, layout="constrained"
    )
    drawn: dict[str, Any] = {}
    for axis, world in zip(axes.flat, worlds, strict=False):
        for who, (tint, marker) in LOOKS.items():
            at, mean = _mean_curve([c for c in curves if (c.world, c.who) == (world, who)])
            if at:
                ours = who == OURS
                (drawn[who],) = axis.plot(
                    at, mean, color=tint, marker=marker, linewidth=2.4 if ours else 1.2,
                    markersize=6 if ours else 4, zorder=3 if ours else 2,
                )  # fmt: skip
        for (name, mark), bar in BARS.items():
            if name == world:
                where = "second half" if world in HALVES else f"at {mark:,}"
                axis.plot([mark], [bar], color="#b00020", marker="_", markersize=16, mew=2.2)
                axis.annotate(
                    f"bar {where}", (mark, bar), xytext=(4, -11), textcoords="offset points",
                    ha="right", fontsize=7, color="#b00020",
                )  # fmt: skip
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_ylim(axis.get_ylim()[0] / 1.15)  # room for the name of a bar
        for side, subs in ((axis.xaxis, (1.0,)), (axis.yaxis, (1.0, 2.0, 3.0, 5.0))):
            side.set_major_locator(mpl.ticker.LogLocator(subs=subs))
            side.set_major_formatter(mpl.ticker.FuncFormatter(lambda at, _: f"{at:,g}"))
            side.set_minor_locator(mpl.ticker.NullLocator())
        axis.set_title(world, fontsize=11, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="#e4e7ea", linewidth=0.8)
    for axis in axes.flat[len(worlds) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("mean regret a decision, so far")
    for axis in axes[-1]:
        axis.set_xlabel("decisions")
    figure.legend([*drawn.values()], [*drawn], loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle("Regret on equal contexts and rewards; a slow contestant stops early")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _mean_curve(curves: Sequence[Curve]) -> tuple[list[int], list[float]]:
    """Return the mean over seeds at the marks that all reached.

    >>> one = Curve(world="w", who="x", seed=0, at=[100, 150], mean=[0.4, 0.3])
    >>> other = Curve(world="w", who="x", seed=1, at=[100, 200], mean=[0.2, 0.1])
    >>> at, mean = _mean_curve([one, other])
    >>> at, round(mean[0], 9)
    ([100], 0.3)
    """
    if not curves:
        return [], []
    common = sorted(set.intersection(*(set(curve.at) for curve in curves)))
    noted = [dict(zip(curve.at, curve.mean, strict=True)) for curve in curves]
    return common, [float(np.mean([one[mark] for one in noted])) for mark in common]

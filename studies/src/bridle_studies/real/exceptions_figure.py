"""The figure of rare exceptions: what spot checks do about them, and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bridle_studies.frontier.figures import dark
from bridle_studies.real.canvas import (
    by_world,
    heading,
    mark_of,
    methods_of,
    percent,
    seeds_and_steps,
    share_axis,
    tint_of,
    words_of,
)
from bridle_studies.real.scope import EXCEPTIONS
from bridle_studies.real.summary import DOUBT, Cell
from bridle_studies.scaffold.canvas import GREY, INK, number, save_figure

__all__ = ["draw_exceptions"]

LINE, GAP = 0.185, 0.6  # inches: of a method; in lines: between two worlds
TOP, BOTTOM = 1.5, 0.62
CHECKS: dict[str, Any] = {"alpha": 0.4, "hatch": "////"}


def draw_exceptions(out: Path, runs: pl.DataFrame) -> dict[str, Path]:
    """Draw E/T of every seed beside answers and checks; nothing where there are no such worlds."""
    found = by_world(runs, EXCEPTIONS)
    if not found:
        return {}
    mine = runs.filter(pl.col("kind") == EXCEPTIONS)
    tall = sum(len(members) + GAP for members in found.values())
    high = TOP + BOTTOM + LINE * tall
    figure = Figure(figsize=(11.4, high))
    shares, spent = figure.subplots(1, 2, sharey=True, width_ratios=(1.35, 1.0))
    figure.subplots_adjust(
        left=0.232, right=0.965, top=1 - TOP / high, bottom=BOTTOM / high, wspace=0.07
    )
    most = max(cell.spent for members in found.values() for cell in members)
    start, middles = 0.0, list[float]()
    for world, members in found.items():
        for place, cell in enumerate(members):
            seeds = mine.filter((pl.col("world") == world) & (pl.col("method") == cell.method))
            _dots(shares, start + place, cell, (seeds["E"] / seeds["T"]).to_list())
            _bars(spent, start + place, cell, most)
        if start:
            for axes in (shares, spent):
                axes.axhline(start - 0.5 - GAP / 2, color="#e3e3e3", linewidth=0.8)
        middles.append(start + (len(members) - 1) / 2)
        start += len(members) + GAP
    worst = max(cell.worst for members in found.values() for cell in members)
    share_axis(shares, "x", 1.25 * max(worst, 0.05))
    shares.axvline(DOUBT, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    shares.axvspan(shares.get_xlim()[0], DOUBT, color="#009E73", alpha=0.07, linewidth=0)
    shares.set_yticks(middles, [*found])
    for tick in shares.get_yticklabels():
        tick.set_fontweight("bold")
    shares.set_ylim(tall - GAP - 0.35, -0.75)
    spent.set_xlim(0.0, 1.3 * most)
    spent.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    for axes in (shares, spent):
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
    shares.set_xlabel("share of plays that were not allowed (linear to .1 %, then log)")
    spent.set_xlabel("answers and checks, means over seeds")
    shares.set_title("Denied plays: a mark is a seed", fontsize=9.8, color=INK, loc="left")
    spent.set_title("What the teacher was asked for", fontsize=9.8, color=INK, loc="left")
    title = "Rare exceptions to what is free for all: what spot checks do"
    heading(
        figure,
        title,
        f"{seeds_and_steps(mine)} Most items are of kinds that are free for all; of these a few "
        "per cent deviate, and no feature tells.\nPaying: what deviates earns more. The green "
        "area is up to 1 %.",
    )
    methods = methods_of(found.values())
    handles: list[Artist] = [
        *(
            Line2D([], [], linestyle="", marker=mark_of(method), color=tint_of(method))
            for method in methods
        ),
        Patch(facecolor=GREY),
        Patch(facecolor=GREY, **CHECKS),
    ]
    figure.legend(
        handles,
        [*(words_of(method) for method in methods), "answers", "checks"],
        loc="upper left",
        bbox_to_anchor=(0.006, 1 - 0.84 / high),
        ncols=len(methods) + 2,
        frameon=False,
        fontsize=9,
        handletextpad=0.4,
        columnspacing=1.8,
    )
    caption = (
        "What is believed safe is never asked about, so exceptions inside it are never met, unless "
        "a coin has plays judged. Left: E/T of every run. Right: answers, and hatched the checks "
        "beside them; means over seeds."
    )
    words = "; ".join(
        f"{world}, {words_of(cell.method)}: mean {percent(cell.share)}, "
        f"worst {percent(cell.worst)}, {number(cell.answers, 'E')} answers, "
        f"{number(cell.audits, 'E')} checks"
        for world, members in found.items()
        for cell in members
    )
    return save_figure(figure, out, "exceptions", title, f"{caption}\n\n{words}", dpi=160)


def _dots(axes: Axes, y: float, cell: Cell, shares: list[float]) -> None:
    """Draw a mark a seed; those of runs without any denied play lie on each other."""
    axes.plot(
        shares,
        [y] * len(shares),
        mark_of(cell.method),
        markersize=5.2,
        color=tint_of(cell.method),
        markeredgecolor="white",
        markeredgewidth=0.5,
        alpha=0.8,
        clip_on=False,
        zorder=3,
    )
    none = shares.count(0.0)
    if none > 1:
        axes.annotate(
            f"× {none}",
            (0.0, y),
            xytext=(6, 0),
            fontsize=7.6,
            va="center",
            textcoords="offset points",
            color=GREY,
        )


def _bars(axes: Axes, y: float, cell: Cell, most: float) -> None:
    """Draw the answers, the checks beside them, and both numbers at the end."""
    tint = tint_of(cell.method)
    axes.barh(y, cell.answers, color=tint, height=0.74, zorder=2)
    axes.barh(
        y,
        cell.audits,
        left=cell.answers,
        color=tint,
        edgecolor="white",
        linewidth=0.0,
        height=0.74,
        zorder=2,
        **CHECKS,
    )
    checks = f" + {number(cell.audits, 'E')}" if cell.audits else ""
    axes.text(
        cell.spent + 0.012 * most,
        y,
        f"{number(cell.answers, 'E')}{checks}",
        va="center",
        fontsize=8.2,
        color=dark(tint) if cell.ours else "#4a4a4a",
        fontweight="bold" if cell.ours else "normal",
        zorder=4,
    )

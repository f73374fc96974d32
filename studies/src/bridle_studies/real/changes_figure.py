"""The figure of limits that change half-way: what is violated, asked and checked over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bridle_studies.frontier.figures import dark
from bridle_studies.real.canvas import (
    by_world,
    heading,
    methods_of,
    seeds_and_steps,
    tint_of,
    words_of,
)
from bridle_studies.real.scope import CHANGES
from bridle_studies.real.summary import Cell
from bridle_studies.scaffold.canvas import INK, count_axis, number, save_figure, spread

__all__ = ["draw_changes"]

TOP, BOTTOM, EACH = 1.42, 0.62, 3.1  # inches: above, below, and of each world
APART = 0.065  # of a panel's height: between two labels
PANELS = {
    "E": "Plays that were not allowed, so far",
    "answers": "Answers, so far",
    "audits": "Checks, so far",
}


def draw_changes(out: Path, runs: pl.DataFrame, course: pl.DataFrame) -> dict[str, Path]:
    """Draw a row a world whose limits change, a line a method; nothing where there are none."""
    found = by_world(runs, CHANGES)
    if not found or course.is_empty():
        return {}
    mine = runs.filter(pl.col("kind") == CHANGES)
    high = TOP + BOTTOM + EACH * len(found) + 0.3 * (len(found) - 1)
    figure = Figure(figsize=(11.4, high))
    grid = figure.subplots(len(found), 3, squeeze=False, width_ratios=(1.5, 1.0, 1.0))
    figure.subplots_adjust(
        left=0.075, right=0.972, top=1 - TOP / high, bottom=BOTTOM / high, wspace=0.2, hspace=0.3
    )
    for row, (world, members) in zip(grid, found.items(), strict=True):
        theirs = course.filter(pl.col("world") == world)
        turn = members[0].T // 2
        for axes, (measure, title) in zip(row, PANELS.items(), strict=True):
            for cell in members:
                _lines(axes, theirs.filter(pl.col("method") == cell.method), measure, cell.method)
            axes.axvline(turn, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
            axes.set_xlim(0, 1.22 * members[0].T if measure == "E" else members[0].T)
            told = f"{world}: {title[:1].lower()}{title[1:]}" if measure == "E" else title
            axes.set_title(told, fontsize=9.8, color=INK, loc="left")
            axes.set_xlabel("step")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.set_xticks([0, turn, members[0].T])
        count_axis(row[0], "y", float(str(theirs["E"].max())), "E")
        row[0].annotate(
            " limits change",
            (turn, 1.0),
            xycoords=("data", "axes fraction"),
            fontsize=7.8,
            va="top",
            color=INK,
        )
        for axes in row[1:]:
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        _ends(row[0], members)
    title = "Limits that change half-way: how soon it is noticed"
    heading(
        figure,
        title,
        f"{seeds_and_steps(mine)} Nobody says that limits have become stricter. Thick: means; "
        "thin: every seed.",
    )
    methods = methods_of(found.values())
    figure.legend(
        [Line2D([], [], color=tint_of(method), linewidth=2.2) for method in methods],
        [words_of(method) for method in methods],
        loc="upper left",
        frameon=False,
        fontsize=9,
        bbox_to_anchor=(0.006, 1 - 0.68 / high),
        ncols=len(methods),
        columnspacing=1.8,
    )
    caption = (
        "Denied plays, answers and checks over time. What the teacher once allowed is not asked "
        "about again; with a promise every play may be checked, and a check that denies what was "
        "allowed begins what was learned anew."
    )
    words = "; ".join(
        f"{world}, {words_of(cell.method)}: {number(cell.E, 'E')} denied plays, "
        f"{number(cell.after or 0.0, 'E')} of them after the change"
        for world, members in found.items()
        for cell in members
    )
    return save_figure(figure, out, "changes", title, f"{caption}\n\n{words}", dpi=160)


def _ends(axes: Axes, members: Sequence[Cell]) -> None:
    """Write at the end of each line what was violated after the change."""
    to_axes = axes.transData + axes.transAxes.inverted()
    wanted = [float(to_axes.transform((0.0, cell.E))[1]) for cell in members]
    places = spread(wanted, APART, 0.03, 0.97)
    for cell, y in zip(members, places, strict=True):
        axes.annotate(
            f"{number(cell.after or 0.0, 'E')} after it",
            (cell.T, y),
            xytext=(5, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            fontsize=8.4,
            va="center",
            color=dark(tint_of(cell.method)),
            annotation_clip=False,
        )


def _lines(axes: Axes, course: pl.DataFrame, measure: str, method: str) -> None:
    """Draw each seed, and their mean."""
    tint = tint_of(method)
    for _, seed in course.group_by("seed", maintain_order=True):
        axes.plot(seed["t"], seed[measure], color=tint, linewidth=0.6, alpha=0.35, zorder=2)
    mean = course.group_by("t", maintain_order=True).agg(pl.col(measure).mean()).sort("t")
    axes.plot(mean["t"], mean[measure], color=tint, linewidth=2.0, zorder=3)

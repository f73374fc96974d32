"""The headline: what our methods need and give, beside the paper's, in a table and a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.scale import SymmetricalLogScale
from rich.console import Console
from rich.table import Table

from bridle_studies.frontier.figures import dark
from bridle_studies.frontier.report import Cell, cells
from bridle_studies.scaffold.canvas import GREY, INK, number, save_figure, styled
from bridle_studies.scaffold.report import mapping

__all__ = ["WORDS", "draw_headline", "print_headline"]

# What each method is, in the order in which it is shown.
WORDS = {
    "best-allowed": "best allowed arm, every time",
    "best-linear": "best linear policy inside the limits",
    "mask+prior": "mask, with our reward side",
    "mask": "mask",
    "sigma=0.25": "the paper’s σ = .25",
    "doubt+auto+groups": "ours, kind of limits not told (auto)",
    "doubt+rules+groups": "ours, taking limits for single rules",
}
OURS, PAPERS, GIVEN = "#009E73", "#D55E00", "#9a9a9a"
# Each panel: measure, title, and whether its axis is logarithmic above 10.
PANELS = (
    ("answers", "answers of the teacher (log)", True),
    ("R", "R, average regret", False),
    ("E", "E, violations", False),
)


def print_headline(console: Console, runs: pl.DataFrame, manifest: Mapping[str, Any]) -> None:
    """Show the short table in the terminal: means over seeds."""
    found = _ordered(runs)
    if not found:
        return
    title = str(mapping(manifest.get("origin")).get("title") or manifest.get("world") or "")
    table = Table(
        title=f"{found[0].world}: {title}, T = {found[0].steps:,}, means over {found[0].seeds} "
        "seeds",
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 1, 0, 0),
    )
    for name in ("", "method", "answers", "R", "E"):
        side = "left" if name in ("", "method") else "right"
        table.add_column(name, justify=side, no_wrap=name != "")  # type: ignore[arg-type]
    for cell in found:
        style = "bold" if cell.method.startswith("doubt") else None
        texts = [_text(cell, name) for name, _, _ in PANELS]
        table.add_row(_words(cell), cell.method, *texts, style=style)
    console.print()
    console.print(table)


def draw_headline(out: Path, runs: pl.DataFrame, *, synthetic: bool) -> dict[str, Path]:
    """Draw `headline.png` and `.svg`: a line a method, a panel a measure.

    Parameters
    ----------
    out : Path
        The folder to write into.
    runs : DataFrame
        A row a run, of one world.
    synthetic : bool
        Whether the data were made up; then the title says so.
    """
    found = _ordered(runs)
    if not found:
        return {}
    made_up = " (synthetic)" if synthetic and "synthetic" not in found[0].world else ""
    title = f"What limits cost, and what they buy: {found[0].world}{made_up}"
    subtitle = (
        f"T = {found[0].steps:,}, means over {found[0].seeds} seeds; thin lines: from the least to "
        "the most.\nGrey: told the limits. Green: told which arms share theirs. Shorter is "
        "better."
    )
    with styled():
        figure = Figure(figsize=(11.0, 1.5 + 0.42 * len(found)))
        panels = figure.subplots(1, len(PANELS), sharey=True)
        figure.subplots_adjust(left=0.275, right=0.975, top=0.76, bottom=0.06, wspace=0.16)
        for axes, (name, words, log) in zip(panels, PANELS, strict=True):
            _panel(axes, found, name, log=log)
            axes.set_title(words, fontsize=9.5, color=INK, loc="left")
        panels[0].set_yticks(range(len(found)), [_words(cell) for cell in found])
        for tick, cell in zip(panels[0].get_yticklabels(), found, strict=True):
            tick.set_color(dark(_tint(cell)))
            tick.set_fontweight("bold" if cell.method.startswith("doubt") else "normal")
        panels[0].invert_yaxis()
        figure.text(0.02, 0.94, title, fontsize=11.5, fontweight="bold", color=INK)
        figure.text(0.02, 0.845, subtitle, fontsize=8.5, color="#5a5a5a")
        caption = (
            f"The teacher's answers, regret R and violations E, world “{found[0].world}”{made_up}. "
            "Grey: methods that were told the limits, and so asked nothing. Ours is told which "
            "arms share their limits. Shorter is better."
        )
        each = "; ".join(
            f"{_words(cell)}: {_answers(cell)}, R {_text(cell, 'R')}, E {_text(cell, 'E')}"
            for cell in found
        )
        return save_figure(figure, out, "headline", title, f"{caption}\n\n{each}", dpi=170)


def _ordered(runs: pl.DataFrame) -> list[Cell]:
    """Return the cells of the first world, in the order of the headline."""
    every = cells(runs)
    # Of several N of one method the last, which is the largest.
    here = {cell.method: cell for cell in every if cell.world == every[0].world}
    others = [method for method in here if "@" in method]  # limits of others come last
    return [here[method] for method in (*WORDS, *others) if method in here]


def _words(cell: Cell) -> str:
    return WORDS.get(cell.method, cell.method)


def _text(cell: Cell, name: str) -> str:
    value = cell.mean[name]
    return "told" if value is None else number(value, "R" if name == "R" else "E")


def _answers(cell: Cell) -> str:
    return "limits told" if cell.mean["answers"] is None else f"{_text(cell, 'answers')} answers"


def _tint(cell: Cell) -> str:
    if cell.method.startswith("doubt"):
        return OURS
    return GIVEN if cell.mean["answers"] is None else PAPERS


def _panel(axes: Axes, found: Sequence[Cell], name: str, *, log: bool) -> None:
    """Draw a bar for each method, its number at its end, its range over seeds upon it."""
    most = max([cell.high[name] or 0.0 for cell in found] + [1.0 if name != "R" else 0.0])
    place = _log_place(most) if log else lambda value: value / most
    for line, cell in enumerate(found):
        value, low, high = cell.mean[name], cell.low[name], cell.high[name]
        tint, end = _tint(cell), 0.0
        if value is not None and low is not None and high is not None:
            axes.barh(line, place(value), color=tint, height=0.62, zorder=2)
            axes.plot([place(low), place(high)], [line] * 2, color=INK, linewidth=0.8, zorder=3)
            end = place(high)
        axes.text(
            end + 0.02,
            line,
            _text(cell, name),
            va="center",
            fontsize=9,
            color=GREY if value is None else dark(tint),
            fontweight="bold" if tint == OURS else "normal",
        )
    # The numbers stand at the bars: an axis would say it twice.
    axes.set_xlim(0.0, 1.22)
    axes.set_xticks([])
    axes.grid(visible=False)
    axes.spines[["bottom", "left"]].set_visible(False)
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    axes.tick_params(axis="y", length=0)


def _log_place(most: float) -> Callable[[float], float]:
    """Return where a count stands between 0 and `most`: straight up to 10, logarithmic beyond."""
    scale = SymmetricalLogScale(None, linthresh=10.0).get_transform()
    top = float(scale.transform([most])[0])
    return lambda value: float(scale.transform([value])[0]) / top

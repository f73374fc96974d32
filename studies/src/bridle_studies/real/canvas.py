"""What the figures of the study of real limits share: words and colours of methods, scales."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.scale import SymmetricalLogScale

from bridle_studies.real.scope import (
    ALONE_5,
    ALPHA,
    AT_WORD_20,
    COIN,
    DEFAULT,
    PROMISE,
    RATES_5,
    RATES_20,
    TOLD,
    UNCHECKED,
    order_of,
)
from bridle_studies.real.summary import Cell, cells
from bridle_studies.scaffold.canvas import FAINT, INK

__all__ = [
    "WORDS",
    "by_world",
    "heading",
    "log_place",
    "mark_of",
    "methods_of",
    "percent",
    "seeds_and_steps",
    "share_axis",
    "tint_of",
    "words_of",
]

# What each method is, in the order in which it is shown.
WORDS = {
    DEFAULT: "bridle as it comes",
    PROMISE: f"with a promise of {100 * ALPHA:g} %, coins ≥ {100 * COIN:g} %",
    UNCHECKED: "without checks",
    RATES_20: "good and cheap (20 % wrong), rates learned",
    RATES_5: "good and cheap (5 % wrong), rates learned",
    AT_WORD_20: "good and cheap (20 % wrong), at their word",
    ALONE_5: "one who errs in 5 %, alone, rate told",
    "rules": "only rules are learned",
    "logistic": "only log odds are learned",
    "bcts": "the paper’s agent, σ = .25",
}
TINTS = {
    DEFAULT: "#009E73",
    PROMISE: "#0072B2",
    UNCHECKED: "#E69F00",
    RATES_20: "#0072B2",
    RATES_5: "#56B4E9",
    AT_WORD_20: "#D55E00",
    ALONE_5: "#CC79A7",
    "rules": "#7FA8C9",
    "logistic": "#B3B3B3",
    "bcts": "#D55E00",
}
MARKS = {
    DEFAULT: "o",
    PROMISE: "P",
    UNCHECKED: "X",
    RATES_20: "s",
    RATES_5: "D",
    AT_WORD_20: "X",
    ALONE_5: "v",
    "rules": "s",
    "logistic": "D",
    "bcts": "^",
}
LINEAR_TO = 0.001  # of a share, where the scale turns from linear to logarithmic
SHARES = (0.0, 0.001, 0.01, 0.1, 1.0)


def by_world(runs: pl.DataFrame, kind: str) -> dict[str, list[Cell]]:
    """Gather the cells of each world of a kind, without the mask that is told the limits."""
    found: dict[str, list[Cell]] = {}
    for cell in cells(runs.filter(pl.col("kind") == kind)):
        if cell.method != TOLD:
            found.setdefault(cell.world, []).append(cell)
    return found


def methods_of(found: Iterable[Sequence[Cell]]) -> list[str]:
    """Return the methods that are in any of these worlds, in order."""
    there = {cell.method for members in found for cell in members}
    return sorted(there, key=order_of)


def words_of(method: str) -> str:
    """Return what a method is, in a few words."""
    return WORDS.get(method, f"limits {method}")


def tint_of(method: str) -> str:
    """Return a method's colour; limits of others share one."""
    return TINTS.get(method, "#8C6BB1")


def mark_of(method: str) -> str:
    """Return the form of a method's point."""
    return MARKS.get(method, "h")


def heading(figure: Figure, title: str, text: str) -> None:
    """Write a title and a sentence below it, at the top."""
    high = figure.get_size_inches()[1]
    figure.text(0.013, 1 - 0.18 / high, title, fontsize=13, fontweight="bold", color=INK, va="top")
    figure.text(
        0.013, 1 - 0.47 / high, text, fontsize=8.6, color="#5a5a5a", va="top", linespacing=1.4
    )


def percent(share: float) -> str:
    """Write a share.

    >>> percent(0.0), percent(0.00012), percent(0.0431), percent(0.268)
    ('0', '.01 %', '4.3 %', '27 %')
    """
    value = 100.0 * share
    if value == 0.0:
        return "0"
    if value >= 10.0:
        return f"{value:.0f} %"
    return f"{value:.1f} %" if value >= 0.95 else f"{value:.2f} %".lstrip("0")


def seeds_and_steps(runs: pl.DataFrame) -> str:
    """Return how many seeds and steps there were; both may differ between worlds."""
    gathered = runs.group_by("world").agg(pl.col("seed").n_unique(), pl.col("T").max())
    one = gathered["seed"].max() == 1
    return f"{_ends(gathered['seed'])} seed{'' if one else 's'} of {_ends(gathered['T'])} steps."


def _ends(values: pl.Series) -> str:
    low, high = int(str(values.min())), int(str(values.max()))
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def share_axis(axes: Axes, which: Literal["x", "y"], most: float) -> None:
    """Scale an axis of shares so that .1 % and 50 % can both be read."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    how: dict[str, Any] = {
        f"{which}scale": SymmetricalLogScale(axis, linthresh=LINEAR_TO),
        f"{which}lim": (-0.12 * LINEAR_TO, most),
    }
    axes.set(**how)
    ticks = [tick for tick in SHARES if tick <= most]
    axis.set_ticks(ticks, [f"{100 * tick:g} %" if tick else "0" for tick in ticks])
    axis.set_ticks([], minor=True)
    axes.tick_params(which="both", color=FAINT)


def log_place(most: float, linear_to: float) -> Callable[[float], float]:
    """Return where a value stands between 0 and `most`: linear at first, then logarithmic."""
    scale = SymmetricalLogScale(None, linthresh=linear_to).get_transform()
    top = float(scale.transform([max(most, linear_to)])[0])
    return lambda value: float(scale.transform([value])[0]) / top

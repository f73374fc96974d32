"""The paper's Figure 1, and one of our own: what each position of the dial costs.

Each figure is a PNG and an SVG. The SVG carries its title, its caption and what it shows in words,
so that whoever shows it (`report.py`) need not know how it was made. Equal frames give equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.special import stdtrit

from bridle.errors import InvalidValue
from bridle_studies.paper.published import MASKS, MOVIES, WARFARIN, published
from bridle_studies.paper.summary import nearest_examples
from bridle_studies.scaffold.canvas import (
    FAINT,
    GREY,
    INK,
    agent_label,
    colour,
    count_axis,
    crowds,
    hold_on_to_means,
    label_ends,
    label_points,
    marker_sizes,
    number,
    save_figure,
    sort_agents,
    styled,
)

__all__ = [
    "Sheet",
    "draw_curves",
    "draw_figures",
    "draw_overview",
    "nearest_examples",
    "sheets",
]

MEASURES = {"R": "average regret R(t)", "E": "denied plays E(t)"}
TEACHINGS = {"thompson": "Thompson teaching", "random": "random teaching"}
# The paper's names for them, by teaching and measure. Warfarin with random teaching is ours.
NAMES = {
    MOVIES: {
        ("thompson", "R"): "figure1a",
        ("random", "R"): "figure1b",
        ("thompson", "E"): "figure1d",
        ("random", "E"): "figure1e",
    },
    WARFARIN: {
        ("thompson", "R"): "figure1c",
        ("thompson", "E"): "figure1f",
        ("random", "R"): "figure1c-random",
        ("random", "E"): "figure1f-random",
    },
}
# The form of a point and of the line, by teaching.
SHAPES: dict[str, tuple[str, Any]] = {"random": ("o", "-"), "thompson": ("s", (0, (5, 2)))}


def draw_figures(
    out: Path, curves: pl.DataFrame, *, world: str, synthetic: bool, examples: int = 50_000
) -> dict[str, Path]:
    """Draw every figure of a study into the folder `out`, each as PNG and SVG.

    Movies give the paper's figure1a, b, d and e, Warfarin its figure1c and f (and beyond the paper
    the same with random teaching: figure1c-random, figure1f-random), any other world figures named
    by measure and teaching: regret-thompson, errors-random. Each study has an `overview`, ours:
    R against E along the dial. What the grid has no runs for is not drawn.

    Parameters
    ----------
    out : Path
        A folder, made if it is not there.
    curves : DataFrame
        Rows of `world, fold, teaching, examples, agent, t, R, E`. Agents that were not taught have
        neither teaching nor examples and belong to every figure.
    world : str
        Which world of `curves`, and what the titles call it.
    synthetic : bool
        Whether titles and captions must say that the world is made up.
    examples : int, default 50,000
        N. If the grid has not got it, the nearest one is drawn, and the figure says so.

    Returns
    -------
    dict from file name to path
        `{"figure1a.png": ..., "figure1a.svg": ..., "overview.png": ...}`.
    """
    runs = curves.filter(pl.col("world") == world)
    if runs.is_empty():
        names = ", ".join(repr(name) for name in curves["world"].unique().sort())
        raise InvalidValue("world", "draw_figures", f"one of the curves' ({names})", world)
    drawn: dict[str, Path] = {}
    with styled():
        for sheet in sheets(runs, world=world, synthetic=synthetic, examples=examples):
            figure = draw_overview(sheet) if sheet.measure == "" else draw_curves(sheet)
            words = f"{sheet.caption}\n\n{sheet.words}"
            drawn |= save_figure(figure, out, sheet.name, sheet.title, words)
    return drawn


# -- what is drawn -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """What one figure shows; `measure` and `teaching` are empty for the overview."""

    name: str
    measure: str
    teaching: str
    cells: pl.DataFrame  # teaching, agent, t, folds, and of R and E the mean, low and high
    N: int | None
    title: str
    subtitle: str
    caption: str
    world: str

    @property
    def words(self) -> str:
        """What can be seen at the end of the lines, for those who cannot see it."""
        last = self.cells.filter(pl.col("t") == pl.col("t").max())
        told = []
        for row in last.iter_rows(named=True):
            name = agent_label(row["agent"])
            if not self.measure and row["teaching"]:
                name += f" after {TEACHINGS.get(row['teaching'], row['teaching'])}"
            values = [
                f"{letter} = {number(row[letter], letter)}" for letter in self.measure or "RE"
            ]
            told.append(f"{name}: {', '.join(values)}")
        return f"At t = {last['t'][0]:,}: {'; '.join(told)}."


def sheets(runs: pl.DataFrame, *, world: str, synthetic: bool, examples: int) -> Iterator[Sheet]:
    """Return which figures there are for the runs of a world, and what each shows."""
    N = nearest_examples(runs, examples)
    runs = runs.filter(pl.col("examples").is_null() | (pl.col("examples") == (N or 0)))
    cells = _means(runs)
    folds, last = int(cells["folds"].max()), int(cells["t"].max())  # type: ignore[arg-type]
    shown = _shown(world, synthetic)
    taught = "" if N is None else f"N = {N:,} examples"
    if N is not None and examples != N:
        taught += f" (nearest to {examples:,})"
    mean = f"mean of {folds} folds" if folds > 1 else "one fold"
    reach = "95 % interval" if folds > 2 else "from one to the other"
    cross = f"{mean}, cross: {reach}" if folds > 1 else mean
    band = f"{mean}, band: {reach}" if folds > 1 else mean
    names = next((names for worlds, names in NAMES.items() if world in worlds), None)
    for measure, title in MEASURES.items():
        for teaching in _teachings(cells):
            how = TEACHINGS.get(teaching, f"{teaching} teaching")
            word = "regret" if measure == "R" else "errors"
            name = (names or {}).get((teaching, measure), f"{word}-{_file_name(teaching)}")
            of_cell = (
                published(world, last, teaching, N, agent) for agent in cells["agent"].unique()
            )
            marked = any(printed and getattr(printed, measure) is not None for printed in of_cell)
            head = ""  # only the paper's worlds have figures that it numbers
            if names and (teaching, measure) in names:
                label, _, beyond = name.removeprefix("figure").partition("-")
                ours = f" with {beyond} teaching, which the paper does not show" if beyond else ""
                head = f"Figure {label}{ours}. "
            yield Sheet(
                name=name,
                measure=measure,
                teaching=teaching,
                N=N,
                world=world,
                cells=cells.filter(pl.col("teaching").is_null() | (pl.col("teaching") == teaching)),
                title=f"{shown}: {title}, {how}",
                subtitle="; ".join(filter(None, (taught, band, "◇ the paper at T" * marked))),
                caption=head + _caption(shown, synthetic, measure, how, taught, band, marked),
            )
    yield Sheet(
        name="overview",
        measure="",
        teaching="",
        N=N,
        world=world,
        cells=cells.filter(pl.col("t") == last),
        title=f"{shown}: what each position of the dial costs",
        subtitle="; ".join(filter(None, (taught, f"T = {last:,}", cross))),
        caption=_overview_caption(shown, synthetic, taught, last, cross),
    )


def _caption(
    shown: str, synthetic: bool, measure: str, how: str, taught: str, band: str, marked: bool
) -> str:
    what = {
        "R": "Average regret R(t) up to step t: lower is more reward, denied or not.",
        "E": "Denied arms played up to step t, E(t): lower is better behaved.",
    }[measure]
    kind = " (made up by bridle, not real data)" if synthetic else ""
    parts = [f"{shown}{kind}, {how}, {taught}. {what} {_upper(band)}."]
    if marked:
        other = ", which is about real data" if synthetic else ""
        parts.append(f"Diamonds mark the paper’s values at T{other}.")
    return " ".join(parts)


def _overview_caption(shown: str, synthetic: bool, taught: str, last: int, cross: str) -> str:
    kind = " (made up by bridle, not real data)" if synthetic else ""
    after = f" after {taught}" if taught else ""
    return (
        f"The dial. {shown}{kind}: regret R against denied plays E{after} and T = {last:,} "
        f"online steps, {cross}. Each path goes from σ = 0, only what was taught, to σ = 1, only "
        "reward. The masks are told the limits, which no agent is: they are the yardstick."
    )


def _means(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the mean over folds at each t, with its 95 % interval (Student's t; of one fold none).

    The interval of two folds would fill the figure: it goes from one to the other instead.
    """
    # In one order, so that sums have the same bits each time.
    cells = (
        runs.sort("fold")
        .group_by("teaching", "agent", "t", maintain_order=True)
        .agg(
            pl.len().alias("folds"),
            pl.col("R", "E").cast(pl.Float64).mean(),
            pl.col("R", "E").cast(pl.Float64).std().fill_null(0.0).name.suffix("_std"),
        )
    )
    counts = cells["folds"].unique().to_list()
    reach = {n: float(stdtrit(n - 1, 0.975)) / math.sqrt(n) for n in counts if n > 2}
    reach |= {1: 0.0, 2: math.sqrt(0.5)}  # times the standard deviation
    half = pl.col("folds").replace_strict(reach, return_dtype=pl.Float64)
    order = {agent: place for place, agent in enumerate(sort_agents(runs["agent"].to_list()))}
    return cells.with_columns(
        *((pl.col(x) - half * pl.col(f"{x}_std")).alias(f"{x}_low") for x in "RE"),
        *((pl.col(x) + half * pl.col(f"{x}_std")).alias(f"{x}_high") for x in "RE"),
        pl.col("agent").replace_strict(order, return_dtype=pl.Int64).alias("place"),
    ).sort("place", "teaching", "t")


def _teachings(cells: pl.DataFrame) -> list[str]:
    found = cells["teaching"].drop_nulls().unique().to_list()
    return sorted(found, key=lambda name: (name not in TEACHINGS, [*TEACHINGS, name].index(name)))


# -- how it is drawn -----------------------------------------------------------------------------


def draw_curves(sheet: Sheet) -> Figure:
    """Draw R(t) or E(t): a line an agent, named where it ends."""
    figure = Figure(figsize=(7.2, 4.2))
    axes = figure.add_axes((0.115, 0.125, 0.64, 0.725))
    letter, last = sheet.measure, int(sheet.cells["t"].max())  # type: ignore[arg-type]
    ends: list[tuple[str, float]] = []
    values: list[float] = []
    for (agent,), line in sheet.cells.group_by(["agent"], maintain_order=True):
        agent = str(agent)
        t, mean = line["t"].to_list(), line[letter].to_list()
        look: dict[str, Any] = {"color": colour(agent), "linewidth": 1.8, "label": agent}
        if agent in MASKS:
            dash: Any = (0, (4, 2)) if agent == "mask-filter" else "-"
            look |= {"linewidth": 1.4, "linestyle": dash, "zorder": 3}
        axes.plot(t, mean, **look)
        if line["folds"].max() > 1:  # type: ignore[operator]
            low, high = line[f"{letter}_low"].to_list(), line[f"{letter}_high"].to_list()
            if letter == "E":
                low = [max(value, 0.0) for value in low]  # plays are counted
            axes.fill_between(t, low, high, color=colour(agent), alpha=0.08, linewidth=0)
        ends.append((agent, float(mean[-1])))
        values += mean
        printed = published(sheet.world, last, sheet.teaching, sheet.N, agent)
        value = printed and getattr(printed, letter)
        if value is not None and agent != "mask-filter":  # the paper has one mask: one diamond
            axes.plot([last], [value], **_diamond(agent))
            values.append(value)
    axes.set_xlim(0, last)
    axes.set_xlabel("t: online steps")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    if letter == "E":
        count_axis(axes, "y", max(values), "E(t): denied plays")
    else:
        axes.set_ylabel("R(t): average regret")
        hold_on_to_means(axes, values)
    label_ends(axes, ends, last, letter)
    _head(figure, sheet, 0.115)
    return figure


def draw_overview(sheet: Sheet) -> Figure:
    """Draw R against E at T, a path along the dial for each teaching."""
    figure = Figure(figsize=(9.0, 5.0))
    axes = figure.add_axes((0.075, 0.12, 0.9, 0.735))
    cells, last = sheet.cells, int(sheet.cells["t"].max())  # type: ignore[arg-type]
    count_axis(axes, "x", float(cells["E"].max()), f"E: denied plays of {last:,}")  # type: ignore[arg-type]
    axes.set_ylabel("R: average regret, lower is better")
    others = pl.col("agent").is_in(MASKS) | pl.col("agent").str.contains("@", literal=True)
    dial = cells.filter(~others)
    teachings = _teachings(cells)
    for teaching in teachings:
        path = dial.filter(pl.col("teaching").is_null() | (pl.col("teaching") == teaching))
        marker, dash = SHAPES.get(teaching, ("v", ":"))
        axes.plot(
            path["E"].to_list(),
            path["R"].to_list(),
            color=FAINT,
            linewidth=1.4,
            linestyle=dash,
            marker=marker,
            markersize=7,
            label=TEACHINGS.get(teaching, teaching),
            zorder=2,
        )
    for row in cells.iter_rows(named=True):
        _cross(axes, row)
    hold_on_to_means(axes, cells["R"].to_list())
    if axes.get_xscale() != "linear" and crowds(axes, cells.to_dicts()):
        left, right = axes.get_xlim()
        axes.set_xlim(left, 6.0 * right)  # agents that err much crowd there: room for their names
    # From the end of the dial back: where points lie on each other, the later is the smaller.
    rows = cells.reverse().to_dicts()
    for row, size in zip(rows, marker_sizes(axes, rows), strict=True):
        agent = row["agent"]
        look: dict[str, Any] = {
            "marker": SHAPES.get(row["teaching"] or "random", ("v", ":"))[0],
            "markersize": size,
        }
        if agent in MASKS:
            look = {"marker": "*", "markersize": 15}
        if agent == "mask-filter":  # hollow: where both masks are at one place, both are seen
            look |= {"markerfacecolor": "none", "markeredgecolor": GREY, "markersize": 17}
        look = {"markeredgecolor": "white", "markeredgewidth": 0.8, "color": colour(agent), **look}
        axes.plot([row["E"]], [row["R"]], linestyle="", label=f"_{agent}", zorder=4, **look)
    if teachings:
        figure.legend(
            frameon=False,
            loc="upper right",
            bbox_to_anchor=(0.98, 0.98),
            borderpad=0,
            handlelength=3.5,
        )
    label_points(axes, cells)
    _head(figure, sheet, 0.075)
    return figure


def _cross(axes: Axes, row: dict[str, Any]) -> None:
    """Draw the 95 % intervals of a point as a thin cross."""
    if row["folds"] < 2:
        return
    look: dict[str, Any] = {
        "color": colour(row["agent"]),
        "linewidth": 0.9,
        "alpha": 0.55,
        "zorder": 1,
    }
    axes.plot([row["E"]] * 2, [row["R_low"], row["R_high"]], **look)
    axes.plot([max(row["E_low"], 0.0), row["E_high"]], [row["R"]] * 2, **look)


def _diamond(agent: str) -> dict[str, Any]:
    return {
        "marker": "D",
        "markersize": 5.5,
        "color": colour(agent),
        "markerfacecolor": "white",
        "linestyle": "",
        "clip_on": False,
        "zorder": 6,
        "label": f"paper {agent}",
    }


def _head(figure: Figure, sheet: Sheet, left: float) -> None:
    figure.text(left, 0.945, sheet.title, fontsize=11.5, fontweight="bold", color=INK)
    figure.text(left, 0.895, sheet.subtitle, fontsize=8.5, color="#5a5a5a")


def _shown(world: str, synthetic: bool) -> str:
    """Return the world's name as a title: one line, no control characters, not endless."""
    name = "".join(sign if sign.isprintable() else " " for sign in world).strip()
    name = name if len(name) <= 40 else f"{name[:39]}…"
    if synthetic and "synthetic" not in name.lower():
        name = f"synthetic {name}"
    return _upper(name)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _file_name(text: str) -> str:
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in text)[:40]

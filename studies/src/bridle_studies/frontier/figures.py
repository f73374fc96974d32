"""Figures of the frontier: regret and violations over answers, and over density and alignment."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from bridle_studies.scaffold.canvas import (
    FAINT,
    GREY,
    INK,
    count_axis,
    number,
    save_figure,
    spread,
    styled,
)

__all__ = ["dark", "draw_frontier", "method_label", "swept_worlds"]

SWEPT = re.compile(r"synthetic density=(?P<density>\S+) alignment=(?P<alignment>\S+)")
# Okabe and Ito's colours, which people with any colour vision tell apart; markers say it again.
FAMILIES = {
    "the paper's": ("#D55E00", "o"),
    "taught masks": ("#0072B2", "s"),
    "asked in doubt": ("#009E73", "D"),
}
REFERENCES = ("best-allowed", "best-linear", "mask+prior", "mask", "mask-filter")
SWEEP_LOOK = {
    "best-allowed": (FAINT, ":"),
    "mask": (INK, "--"),
    "sigma=0.25": ("#D55E00", "-"),
    "sigma=1": ("#CC79A7", "-"),
    "doubt+rules+groups": ("#009E73", "-"),
}
DOT: dict[str, Any] = {"markersize": 6.5, "markeredgecolor": "white", "markeredgewidth": 0.8}
# Wider than a dot, and seen through: one may lie beneath.
RING: dict[str, Any] = {"markersize": 9.5, "markerfacecolor": "none", "markeredgewidth": 1.3}
HOLLOW = " Hollow: one answer in ten is wrong, and the method is not told."
LETTERS = {"R": "R, average regret", "Rc": "Rc, regret inside the limits", "E": "E, violations"}
# A label's height and a letter's width, in points.
TALL, LETTER = 10.0, 5.0


class Place(NamedTuple):
    """Where a point is drawn, in points from the lower left of the figure."""

    x: float
    y: float


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """What a figure is called and says."""

    name: str
    title: str
    subtitle: str
    caption: str
    words: str


def method_label(method: str) -> str:
    """Name a method for people.

    >>> method_label("sigma=0.25"), method_label("doubt+rules")
    ('σ = 0.25', 'doubt+rules')
    """
    return method.replace("sigma=", "σ = ")


def swept_worlds(runs: pl.DataFrame) -> dict[str, tuple[float, float]]:
    """Return the worlds of the sweep, with their density and alignment."""
    found: dict[str, tuple[float, float]] = {}
    for world in runs["world"].unique(maintain_order=True):
        if match := SWEPT.fullmatch(world):
            found[world] = (float(match["density"]), float(match["alignment"]))
    return found


def draw_frontier(out: Path, runs: pl.DataFrame, *, synthetic: bool) -> dict[str, Path]:
    """Draw a figure a world, and one for the sweep: PNG and SVG, by file name.

    Parameters
    ----------
    out : Path
        The folder to write into.
    runs : DataFrame
        A row a run.
    synthetic : bool
        Whether the data were made up; then every title says so.
    """
    swept = swept_worlds(runs)
    paths: dict[str, Path] = {}
    with styled():
        for world in runs["world"].unique(maintain_order=True).to_list():
            if world not in swept:
                paths |= _draw_world(out, runs.filter(world=world), world, synthetic)
        if swept:
            paths |= _draw_sweep(out, runs, swept)
    return paths


# -- a world -------------------------------------------------------------------------------------


def _draw_world(out: Path, runs: pl.DataFrame, world: str, synthetic: bool) -> dict[str, Path]:
    rows = _cells(runs)
    asked = [row for row in rows if row["answers"] is not None]
    given = [row for row in rows if row["answers"] is None and row["method"] in REFERENCES]
    some = [row["answers"] for row in asked if row["answers"] > 0]
    nothing = 10.0 ** math.floor(math.log10(min(some, default=10.0))) / 2.0  # where 0 stands
    for row in asked:
        row["x"] = max(row["answers"], nothing)
    # What abstains most of the time has a regret that would press all others together.
    top = 1.12 * max([row["R"] for row in asked if _family(row) == "the paper's"] + [0.05])
    figure = Figure(figsize=(10.2, 7.6))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1.7, 1.0))
    figure.subplots_adjust(left=0.085, right=0.845, top=0.875, bottom=0.085, hspace=0.09)
    for axes, letter in ((upper, "R"), (lower, "E")):
        axes.set_xscale("log")
        axes.set_xlim(nothing * 0.8, 2.2 * max([*some, 10.0 * nothing]))
        for method in dict.fromkeys(row["method"] for row in asked):
            _plot(axes, [row for row in asked if row["method"] == method], letter, top)
    upper.set_ylim(0.0, top)
    upper.set_ylabel(LETTERS["R"])
    count_axis(lower, "y", max([row["E"] for row in asked] + [1.0]), LETTERS["E"])
    ticks = [10**power for power in range(math.ceil(math.log10(nothing * 2)), 6)]
    ticks = [tick for tick in ticks if tick <= 1.1 * max([*some, 10.0 * nothing])]
    shown = any(row["answers"] == 0 for row in asked)
    lower.set_xticks(
        [*([nothing] if shown else []), *ticks],
        [*(["0"] if shown else []), *(f"{tick:,}" for tick in ticks)],
    )
    lower.set_xticks([], minor=True)
    lower.set_xlabel("answers of the teacher (log)")
    _references(upper, given)
    _label(figure, upper, asked, top)
    T, seeds = max(runs["steps"].to_list()), rows[0]["seeds"]
    made_up = " (synthetic)" if synthetic and "synthetic" not in world else ""
    sheet = Sheet(
        name="frontier-" + re.sub(r"[^a-z0-9]+", "-", world.lower())[:40],
        title=f"What an answer buys: {world}{made_up}",
        subtitle=f"T = {T:,}, means over {seeds} seeds; thin lines: from the least to the most",
        caption=f"Regret R and violations E over the number of the teacher's answers, world "
        f"“{world}”{made_up}. Dashed: methods that were given the limits. Down and to the left is "
        "better. A triangle at the upper edge is a method that mostly abstains, with its R."
        + (HOLLOW if any(map(_noisy, asked)) else ""),
        words="; ".join(
            f"{method_label(row['method'])}: "
            + ("limits given" if row["answers"] is None else f"{row['answers']:,.0f} answers")
            + f", R {row['R']:.3f}, E {number(row['E'], 'E')}"
            for row in rows
        ),
    )
    _head(figure, sheet)
    for place, (family, (tint, marker)) in enumerate(FAMILIES.items()):
        upper.plot([], [], color=tint, marker=marker, linestyle="", label=family, zorder=place)
    if any(map(_noisy, asked)):
        grey = RING | {"markeredgecolor": GREY, "marker": "o", "linestyle": ""}
        upper.plot([], [], label="1 answer in 10 is wrong", **grey)
    upper.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize=9,
        ncols=4,
        handletextpad=0.2,
        columnspacing=1.2,
    )
    words = f"{sheet.caption}\n\n{sheet.words}"
    return save_figure(figure, out, sheet.name, sheet.title, words, dpi=170)


def _cells(runs: pl.DataFrame) -> list[dict[str, Any]]:
    gathered = runs.group_by("world", "method", "examples", maintain_order=True).agg(
        pl.len().alias("seeds"),
        *(pl.col(name).mean() for name in ("answers", "R", "E", "Rc")),
        *(pl.col(name).min().alias(f"{name}_low") for name in ("answers", "R", "E", "Rc")),
        *(pl.col(name).max().alias(f"{name}_high") for name in ("answers", "R", "E", "Rc")),
    )
    return gathered.to_dicts()


def _family(row: Mapping[str, Any]) -> str:
    method = row["method"]
    if method.startswith("sigma="):
        return "the paper's"
    return "asked in doubt" if "doubt" in method else "taught masks"


def _noisy(row: Mapping[str, Any]) -> bool:
    return str(row["method"]).startswith("noisy")


def _plot(axes: Axes, rows: Sequence[Mapping[str, Any]], letter: str, top: float) -> None:
    tint, marker = FAMILIES[_family(rows[0])]
    noisy = _noisy(rows[0])
    rows = sorted(rows, key=lambda row: row["x"])
    seen = [row for row in rows if letter != "R" or row["R"] <= top]
    axes.plot([row["x"] for row in seen], [row[letter] for row in seen], color=tint, linewidth=1.0)
    for row in rows:
        off = letter == "R" and row["R"] > top
        value = top * 0.985 if off else row[letter]
        if not off:
            bar: dict[str, Any] = {"color": tint, "linewidth": 0.8, "alpha": 0.6, "zorder": 1}
            axes.plot([row["x"]] * 2, [row[f"{letter}_low"], row[f"{letter}_high"]], **bar)
            low, high = row["answers_low"], row["answers_high"]
            if low > 0:
                axes.plot([low, high], [value] * 2, **bar)
        axes.plot(
            row["x"],
            value,
            marker="^" if off else marker,
            zorder=4,
            clip_on=False,
            **(RING | {"markeredgecolor": tint} if noisy else DOT | {"color": tint}),
        )


def _references(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw what is reached with the limits given, as lines that are named at their ends."""
    low, high = axes.get_ylim()
    wanted = [(row["R"] - low) / (high - low) for row in rows]
    places = spread(wanted, gap=0.042, low=0.0, high=1.0)
    for row, want, place in zip(rows, wanted, places, strict=True):
        axes.axhline(row["R"], color=GREY, linewidth=0.9, linestyle=(0, (5, 3)), zorder=0)
        axes.annotate(
            "",
            (1.002, want),
            (1.022, place),
            "axes fraction",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": GREY,
                "linewidth": 0.7,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
        axes.text(
            1.027,
            place,
            f"{method_label(row['method'])}  {row['R']:.3f}",
            va="center",
            transform=axes.transAxes,
            fontsize=8.5,
            color="#555555",
        )


def _label(figure: Figure, axes: Axes, rows: Sequence[Mapping[str, Any]], top: float) -> None:
    """Name each method once, beside one of its points, where nothing else is in the way."""
    figure.draw_without_rendering()
    scale = 72.0 / figure.dpi

    def place(x: float, y: float) -> Place:
        dot = axes.transData.transform((x, y))
        return Place(float(dot[0]) * scale, float(dot[1]) * scale)

    points = [place(row["x"], min(row["R"], top * 0.985)) for row in rows]
    ink = [Place(p.x + dx, p.y + dy) for p in points for dx, dy in product((-3, 0, 3), (-3, 0, 3))]
    box = axes.get_window_extent()
    last = {row["method"]: i for i, row in enumerate(rows)}
    named = [i for i, row in enumerate(rows) if last[row["method"]] == i or row["R"] > top]
    for i in sorted(named, key=lambda i: (points[i].x, points[i].y)):
        row, at = rows[i], points[i]
        text = method_label(row["method"]) + (f" (R {row['R']:.2f})" if row["R"] > top else "")
        wide = LETTER * len(text)
        best, found = math.inf, (0.0, 0.0)
        for dx, dy in product(
            (7.0, -7.0 - wide, -wide / 2),
            (-TALL / 2, 7.0, -7.0 - TALL, 18.0, -18.0 - TALL, 30.0, -30.0 - TALL, 42.0),
        ):
            x0, y0 = at.x + dx, at.y + dy
            hits = sum(x0 - 1 < a < x0 + wide + 1 and y0 - 1 < b < y0 + TALL + 1 for a, b in ink)
            inside = (
                box.x0 * scale < x0
                and x0 + wide < box.x1 * scale
                and box.y0 * scale < y0
                and y0 + TALL < box.y1 * scale
            )
            far = abs(dy + TALL / 2) + (4.0 if dx < 0 else 0.0)
            # It must not be taken for the name of a neighbour.
            box_ = (x0, y0, x0 + wide, y0 + TALL)
            others = [
                _gap(p, box_) for p, other in zip(points, rows, strict=True) if other is not row
            ]
            unclear = min(others, default=math.inf) < _gap(at, box_) + 2.0
            price = 10.0 * hits + 0.4 * far + 25.0 * unclear + (0.0 if inside else 500.0)
            if price < best:
                best, found = price, (dx, dy)
        x0, y0 = at.x + found[0], at.y + found[1]
        ink += [Place(x0 + wide * a / 10, y0 + TALL * b / 3) for a in range(11) for b in range(4)]
        tint = FAMILIES[_family(row)][0]
        value = min(row["R"], top * 0.985)
        axes.annotate(
            text,
            (row["x"], value),
            xytext=(found[0], found[1] + 2.0),
            fontsize=8.5,
            zorder=6,
            textcoords="offset points",
            color=dark(tint),
            annotation_clip=False,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )
        dy = max(found[1], min(0.0, found[1] + TALL))
        if abs(dy) > 12.0:
            axes.annotate(
                "",
                (row["x"], value),
                xytext=(0.0, dy),
                textcoords="offset points",
                zorder=3,
                arrowprops={
                    "arrowstyle": "-",
                    "color": tint,
                    "linewidth": 0.6,
                    "shrinkA": 0,
                    "shrinkB": 0,
                },
            )


def _gap(point: Place, box: tuple[float, float, float, float]) -> float:
    """Return the distance from a point to a box."""
    dx = max(box[0] - point.x, 0.0, point.x - box[2])
    dy = max(box[1] - point.y, 0.0, point.y - box[3])
    return math.hypot(dx, dy)


# -- the sweep -----------------------------------------------------------------------------------


def _draw_sweep(
    out: Path, runs: pl.DataFrame, swept: Mapping[str, tuple[float, float]]
) -> dict[str, Path]:
    rows = _cells(runs.filter(pl.col("world").is_in([*swept])))
    for row in rows:
        row["density"], row["alignment"] = swept[row["world"]]
    densities = sorted({row["density"] for row in rows})
    wide = 3.4 + 2.2 * len(densities)
    figure = Figure(figsize=(wide, 7.4))
    grid = figure.subplots(3, len(densities), sharex=True, sharey="row", squeeze=False)
    figure.subplots_adjust(
        left=0.9 / wide, right=1.0 - 2.1 / wide, top=0.87, bottom=0.075, wspace=0.1, hspace=0.13
    )
    most = max([row["E"] for row in rows] + [1.0])
    for line, letter in zip(grid, LETTERS, strict=True):
        for axes, density in zip(line, densities, strict=True):
            for method, here in _lines([row for row in rows if row["density"] == density]):
                tint, dash = SWEEP_LOOK.get(method, (GREY, "-"))
                axes.plot(
                    [row["alignment"] for row in here],
                    [row[letter] for row in here],
                    color=tint,
                    linestyle=dash,
                    marker="o",
                    markersize=3.5,
                    linewidth=1.4,
                )
            if letter == "E":
                count_axis(axes, "y", most, "")
                axes.set(xlabel="alignment", ylabel="")
        line[0].set_ylabel(LETTERS[letter] + (" (log above 10)" if letter == "E" else ""))
        if letter != "E":
            line[0].set_ylim(bottom=0.0)
        ends = [
            (method, here[-1][letter])
            for method, here in _lines([row for row in rows if row["density"] == densities[-1]])
        ]
        _name_ends(line[-1], ends, max(row["alignment"] for row in rows), letter)
    for axes, density in zip(grid[0], densities, strict=True):
        axes.set_title(f"density {density:g}", fontsize=9.5, color=INK, loc="left")
    T = max(runs.filter(pl.col("world").is_in([*swept]))["steps"].to_list())
    sheet = Sheet(
        name="alignment",
        title="How limits and rewards interact: synthetic movies",
        subtitle=f"alignment −1: violating pays; 1: what is denied earns little. T = {T:,}, "
        f"means over {rows[0]['seeds']} seeds",
        caption="Synthetic movies. R, Rc and E over the alignment of reward and limits, for each "
        "density of limits. What is allowed earns the same everywhere; only what is denied is "
        "moved. R is against the best of all arms, so it rises where violating pays.",
        words="; ".join(
            f"density {row['density']:g}, alignment {row['alignment']:g}, "
            f"{method_label(row['method'])}: R {row['R']:.3f}, E {number(row['E'], 'E')}"
            for row in rows
        ),
    )
    _head(figure, sheet)
    words = f"{sheet.caption}\n\n{sheet.words}"
    return save_figure(figure, out, sheet.name, sheet.title, words, dpi=170)


def _lines(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for method in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == method]
        yield method, sorted(mine, key=lambda row: row["alignment"])


def _name_ends(axes: Axes, ends: Sequence[tuple[str, float]], last: float, letter: str) -> None:
    axes.autoscale_view()
    to_axes = axes.transData + axes.transAxes.inverted()
    wanted = [float(to_axes.transform((last, value))[1]) for _, value in ends]
    places = spread(wanted, gap=0.11, low=0.0, high=1.0)
    for (method, value), place in zip(ends, places, strict=True):
        tint = SWEEP_LOOK.get(method, (GREY, "-"))[0]
        axes.text(
            1.05,
            place,
            f"{method_label(method)}  {number(value, letter[:1])}",
            va="center",
            transform=axes.transAxes,
            fontsize=8.5,
            color=dark(tint),
        )


# -- both ----------------------------------------------------------------------------------------


def _head(figure: Figure, sheet: Sheet) -> None:
    figure.text(0.03, 0.955, sheet.title, fontsize=11.5, fontweight="bold", color=INK)
    figure.text(0.03, 0.927, sheet.subtitle, fontsize=8.5, color="#5a5a5a")


def dark(tint: str) -> str:
    """Make a colour one that can be read as text on white."""
    parts = [int(int(tint[i : i + 2], 16) * 0.68) for i in (1, 3, 5)]
    return "#" + "".join(f"{part:02x}" for part in parts)

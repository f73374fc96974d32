"""How figures look: the style, each agent's colour, labels that do not cover each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Any, Literal

import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.scale import SymmetricalLogScale

from bridle.cli.figure import DIAL, FAINT, GREY, INK, save_figure, styled

__all__ = [
    "DIAL",
    "FAINT",
    "GREY",
    "INK",
    "LINEAR_TO",
    "agent_label",
    "colour",
    "count_axis",
    "crowds",
    "hold_on_to_means",
    "label_ends",
    "label_points",
    "marker_sizes",
    "number",
    "save_figure",
    "sort_agents",
    "spread",
    "styled",
]

SHORT = {"thompson": "Thompson"}
LABELS = {"mask": "mask (argmax)", "mask-filter": "mask (filter)"}
MASKS = tuple(LABELS)
OTHER = "#8C6BB1"  # of policies of others, whose names have an @
# In points (1/72 inch): markers that lie on each other, and that are too close for labels between;
# how far a column of names stands off; a line of them, a letter.
TOUCHING, CROWDED, ASIDE, TALL, LETTER = 8.0, 24.0, 20.0, 11.0, 5.9
LINEAR_TO = 10  # where the symlog scale of E turns from linear to logarithmic


def sort_agents(agents: Sequence[str]) -> list[str]:
    """Put agents in the order in which they are shown: masks first, then along the dial.

    >>> sort_agents(["sigma=1", "sigma=0.25", "mask-filter", "mask"])
    ['mask', 'mask-filter', 'sigma=0.25', 'sigma=1']
    """
    return sorted(set(agents), key=lambda agent: (_sigma(agent), agent))


def agent_label(agent: str) -> str:
    """Name an agent for people.

    >>> agent_label("sigma=0.25"), agent_label("mask")
    ('σ = 0.25', 'mask (argmax)')
    """
    return LABELS.get(agent, agent.replace("sigma=", "σ = "))


def colour(agent: str) -> str:
    """Return an agent's colour, the same in every figure.

    >>> colour("sigma=0"), colour("sigma=1"), colour("mask")
    ('#0072b2', '#d55e00', '#222222')
    """
    sigma = _sigma(agent)
    if not 0.0 <= sigma <= 1.0:
        return OTHER if "@" in agent else GREY if agent == "mask-filter" else INK
    return str(to_hex(LinearSegmentedColormap.from_list("dial", DIAL, N=1025)(sigma)))


def number(value: float, letter: str) -> str:
    """Write a value of R (three places) or E (a count, or a mean of counts).

    >>> number(0.25, "R"), number(1.6, "E"), number(22006.8, "E")
    ('0.250', '1.6', '22,007')
    """
    if letter == "R":
        return f"{value:.3f}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move labels apart: at least `gap` between two of them, each as near as can be to its wish.

    The least sum of squares, within [low, high], by pooling neighbours that would overlap. Where
    there is no room for all, the gap is smaller.

    >>> spread([0.5, 0.5, 1.0], gap=0.25, low=0.0, high=1.0)
    [0.375, 0.625, 1.0]
    """
    gap = min(gap, (high - low) / max(len(wanted) - 1, 1))
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    pools: list[tuple[float, int]] = []  # mean, count, of the wishes less the gaps below them
    for place, i in enumerate(order):
        mean, count = wanted[i] - place * gap, 1
        while pools and pools[-1][0] > mean:
            before, many = pools.pop()
            mean, count = (before * many + mean * count) / (many + count), many + count
        pools.append((mean, count))
    top = high - (len(wanted) - 1) * gap
    flat = [min(max(mean, low), top) for mean, count in pools for _ in range(count)]
    placed = [0.0] * len(wanted)
    for place, i in enumerate(order):
        placed[i] = flat[place] + place * gap
    return placed


def count_axis(axes: Axes, which: Literal["x", "y"], highest: float, label: str) -> None:
    """Scale an axis of counts so that 3 and 20,000 can both be read, and say so on it."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = -0.03 * max(highest, 1.0), 1.08 * max(highest, 1.0)
    if highest > 5 * LINEAR_TO:
        low, high = -0.08 * LINEAR_TO, 1.8 * highest
        axes.set(**{f"{which}scale": SymmetricalLogScale(axis, linthresh=LINEAR_TO)})
        ticks = [0, *(10**power for power in range(1, int(math.log10(high)) + 1))]
        axis.set_ticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.set_ticks([], minor=True)
        label += f" (linear to {LINEAR_TO}, then log)"
    axes.set(**{f"{which}lim": (low, high), f"{which}label": label})


def hold_on_to_means(axes: Axes, means: Sequence[float]) -> None:
    """Keep wide intervals from pressing the means together: cut them off instead."""
    axes.autoscale_view()
    room = 0.4 * max(max(means) - min(means), 0.02)
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, min(means) - room), min(high, max(means) + room))


def label_ends(axes: Axes, ends: list[tuple[str, float]], last: int, letter: str) -> None:
    """Name each line where it ends, moved apart where ends are close."""
    axes.autoscale_view()  # or the places would be those of other limits
    to_axes = axes.transData + axes.transAxes.inverted()
    wanted = [float(to_axes.transform((last, value))[1]) for _, value in ends]
    placed = spread(wanted, gap=0.066, low=0.0, high=1.0)
    for (agent, value), end, place in zip(ends, wanted, placed, strict=True):
        axes.annotate(
            "",
            (1.018, end),
            (1.045, place),
            "axes fraction",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour(agent),
                "linewidth": 0.7,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
        axes.text(
            1.052,
            place,
            f"{agent_label(agent)}  {number(value, letter)}",
            transform=axes.transAxes,
            va="center",
            fontsize=9,
            color=_darker(colour(agent)),
        )


def marker_sizes(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the size of each marker, drawn in this order: one that covers another is smaller.

    So points that lie on each other are all seen, as rings.
    """
    places = _in_points(axes, rows)
    sizes: list[float] = []
    for i, place in enumerate(places):
        under = [
            sizes[j]
            for j in range(i)
            if math.dist(place, places[j]) < TOUCHING and rows[j]["agent"] not in MASKS
        ]
        alone = not any(
            math.dist(place, other) < TOUCHING for j, other in enumerate(places) if j != i
        )
        sizes.append(9.0 if alone else max(min(under, default=16.5) - 3.5, 5.5))
    return sizes


def label_points(axes: Axes, cells: pl.DataFrame) -> None:
    """Name each point on that side of it where the least ink is in the way.

    Points in a crowd are named in a column beside it instead, each by a line that leads there.
    """
    axes.autoscale_view()
    scale = 72.0 / axes.figure.dpi  # from pixels to points
    ink: list[tuple[float, float]] = []  # where there is some, in points from the lower left
    for line in axes.lines:
        ends = [(x * scale, y * scale) for x, y in axes.transData.transform(line.get_xydata())]
        weight = 1 if str(line.get_label()).startswith("_") else 2
        for (x0, y0), (x1, y1) in pairwise([*ends, ends[-1]]):
            pieces = max(1, int(math.hypot(x1 - x0, y1 - y0) / 4))
            ink += [
                (x0 + (x1 - x0) * i / pieces, y0 + (y1 - y0) * i / pieces)
                for i in range(pieces + 1)
            ] * weight
    box = axes.get_window_extent()
    left, right, low, high = (edge * scale for edge in (box.x0, box.x1, box.y0, box.y1))
    # First those that stand in every path.
    rows = cells.sort("teaching", nulls_last=False, maintain_order=True).to_dicts()
    places = _in_points(axes, rows)
    crowded = crowds(axes, rows)
    for crowd in crowded:
        ink += _label_crowd(axes, [rows[i] for i in crowd], [places[i] for i in crowd])
    alone = [i for i in range(len(rows)) if not any(i in crowd for crowd in crowded)]
    for row, (x, y) in ((rows[i], places[i]) for i in alone):
        text = agent_label(row["agent"])
        wide = LETTER * len(text)
        best, place = math.inf, (0.0, 0.0)
        for dx, dy in product(
            (8.0, -8.0 - wide, 30.0, -wide / 2, -30.0 - wide),
            (4.0, -4.0 - TALL, -TALL / 2, 10.0, -10.0 - TALL, 20.0, -20.0 - TALL),
        ):
            x0, y0 = x + dx, y + dy
            inside = left < x0 and x0 + wide < right and low < y0 and y0 + TALL < high
            hits = sum(x0 < a < x0 + wide and y0 < b < y0 + TALL for a, b in ink)
            far = math.hypot(max(dx, -dx - wide, 0.0), max(dy, -dy - TALL, 0.0))
            cost = hits + 0.3 * far + (0 if inside else 1_000)
            if cost < best:
                best, place = cost, (dx, dy)
        ink += _covered(x + place[0], y + place[1], wide)
        tint = colour(row["agent"])
        axes.annotate(
            text,
            (row["E"], row["R"]),
            xytext=(place[0], place[1] + 2.0),
            textcoords="offset points",
            fontsize=9,
            color=_darker(tint),
            zorder=6,
        )
        dx = max(place[0], min(0.0, place[0] + wide))  # from the point to the label's nearest edge
        dy = max(place[1], min(0.0, place[1] + TALL))
        if math.hypot(dx, dy) > 16.0:
            _lead(axes, row, (dx, dy))


def _label_crowd(
    axes: Axes, rows: Sequence[Mapping[str, Any]], places: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Name the points of a crowd in a column beside it; give where that put ink."""
    box, scale = axes.get_window_extent(), 72.0 / axes.figure.dpi
    texts = [
        agent_label(row["agent"])
        + (f" ({SHORT.get(row['teaching'], row['teaching'])})" if row["teaching"] else "")
        for row in rows
    ]
    wide = 5.2 * max(len(text) for text in texts)  # long ones are narrower, a letter
    column = max(x for x, _ in places) + ASIDE
    if column + wide > box.x1 * scale:  # no room at the right
        column = min(x for x, _ in places) - ASIDE - wide
    low, high = box.y0 * scale + TALL, box.y1 * scale - TALL
    heights = spread([y for _, y in places], gap=1.35 * TALL, low=low, high=high)
    ink: list[tuple[float, float]] = []
    for row, text, (x, y), height in zip(rows, texts, places, heights, strict=True):
        length = 5.2 * len(text)
        at = column if column > x else column + wide - length
        axes.annotate(
            text,
            (row["E"], row["R"]),
            xytext=(at - x, height - y - 3.5),
            textcoords="offset points",
            fontsize=9,
            color=_darker(colour(row["agent"])),
            zorder=6,
        )
        end = (column - 3.0 if column > x else column + wide + 3.0) - x
        _lead(axes, row, (end, height - y))
        ink += _covered(at, height - TALL / 2, length)
        ink += [(x + end * i / 10, y + (height - y) * i / 10) for i in range(11)]
    return ink


def _lead(axes: Axes, row: Mapping[str, Any], end: tuple[float, float]) -> None:
    """Draw a thin line from a point to its name."""
    axes.annotate(
        "",
        (row["E"], row["R"]),
        xytext=end,
        textcoords="offset points",
        zorder=3,
        arrowprops={
            "arrowstyle": "-",
            "color": colour(row["agent"]),
            "linewidth": 0.8,
            "shrinkA": 0,
            "shrinkB": 0,
        },
    )


def crowds(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """Find the rows whose points are too close to be named singly: three or more, chained."""
    places = _in_points(axes, rows)
    found: list[list[int]] = []
    for i, place in enumerate(places):
        if rows[i]["agent"] in MASKS:
            continue
        near = [c for c in found if any(math.dist(place, places[j]) < CROWDED for j in c)]
        found = [c for c in found if c not in near] + [[j for c in near for j in c] + [i]]
    return [sorted(crowd) for crowd in found if len(crowd) > 2]


def _covered(x: float, y: float, wide: float) -> list[tuple[float, float]]:
    """Return points all over a label, as ink that others must avoid."""
    return [(x + wide * i / 12, y + TALL * j / 3) for i in range(13) for j in range(4)] * 3


def _in_points(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Return where (E, R) of each row is drawn, in points from the lower left."""
    scale = 72.0 / axes.figure.dpi
    placed = axes.transData.transform([(row["E"], row["R"]) for row in rows])
    return [(float(x) * scale, float(y) * scale) for x, y in placed]


def _sigma(agent: str) -> float:
    """Return an agent's place on the dial; masks stand before it, what is unknown after."""
    if agent in MASKS:
        return -1.0
    try:
        return float(agent.removeprefix("sigma="))
    except ValueError:
        return math.inf


def _darker(hex_colour: str) -> str:
    """Make a line's colour one that can be read as text on white."""
    red, green, blue = to_rgb(hex_colour)
    return str(to_hex((0.68 * red, 0.68 * green, 0.68 * blue)))

"""A chart of shares that make a whole: areas on top of each other, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from bridle.service.pages.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH

__all__ = ["Area", "stack"]


class Area(NamedTuple):
    """What is called so, and how many of it there were at each place; `style` is a class."""

    label: str
    counts: Sequence[int]
    style: str


def stack(
    title: str, xs: Sequence[float], areas: Sequence[Area], x_ticks: Sequence[tuple[float, str]]
) -> Markup:
    """Draw shares over a common axis, the first at the bottom, with a legend in the same order."""
    wholes = [sum(area.counts[i] for area in areas) for i in range(len(xs))]
    places = [i for i, whole in enumerate(wholes) if whole]
    if not places:
        nothing = Markup('<text class="axis" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            WIDTH // 2, HEIGHT // 2, "nothing to show yet"
        )
        return _figure(title, nothing, Markup(""))
    x0, x1 = xs[0], xs[-1]
    across = [_x(xs[i], x0, x1) for i in places]
    if len(across) == 1:  # one place is as wide as all of it
        across, places = [float(LEFT), float(WIDTH - RIGHT)], places * 2
    parts = []
    below = [0] * len(places)
    for area in areas:
        above = [low + area.counts[i] for low, i in zip(below, places, strict=True)]
        edges = [
            [
                f"{x:.1f},{_y(n / wholes[i]):.1f}"
                for x, n, i in zip(across, counts, places, strict=True)
            ]
            for counts in (above, below)
        ]
        points = " ".join([*edges[0], *reversed(edges[1])])
        parts.append(Markup('<polygon class="area {}" points="{}"/>').format(area.style, points))
        below = above
    keys = Markup("").join(
        Markup('<span><i class="key {}"></i>{}</span>').format(area.style, escape(area.label))
        for area in areas
    )
    legend = Markup("<figcaption class='legend'>{}</figcaption>").format(keys)
    return _figure(title, Markup("").join([*parts, *_axes(x_ticks, x0, x1)]), legend)


def _x(x: float, x0: float, x1: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * ((x - x0) / (x1 - x0) if x1 > x0 else 0.0)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def _axes(ticks: Sequence[tuple[float, str]], x0: float, x1: float) -> list[Markup]:
    found = [
        Markup(
            '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
            '<text class="axis" x="{}" y="{:.1f}" text-anchor="end">{}</text>'
        ).format(LEFT, WIDTH - RIGHT, _y(share), _y(share), LEFT - 6, _y(share) + 4, text)
        for share, text in ((0.0, "0"), (0.5, "0.5"), (1.0, "1"))
    ]
    for n, (x, text) in enumerate(ticks):
        anchor = "start" if n == 0 else "end" if n == len(ticks) - 1 else "middle"
        found.append(
            Markup('<text class="axis" x="{:.1f}" y="{}" text-anchor="{}">{}</text>').format(
                _x(x, x0, x1), HEIGHT - BOTTOM + 16, anchor, text
            )
        )
    return found


def _figure(title: str, inner: Markup, legend: Markup) -> Markup:
    return Markup(
        '<figure class=\'chart\'><svg class="plot" viewBox="0 0 {} {}" role="img" '
        'aria-label="{}">{}</svg>{}</figure>'
    ).format(WIDTH, HEIGHT, title, inner, legend)

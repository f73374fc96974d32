"""Charts as SVG, written on the server: colours are classes of the style sheet, so both themes fit.

All functions return `Markup`: numbers are formatted here and words are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

__all__ = [
    "Area",
    "Line",
    "bar",
    "curve",
    "diverging",
    "error_rate",
    "interval",
    "sparkline",
    "stack",
]


WIDTH, HEIGHT = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 28


class Line(NamedTuple):
    """One line of a chart: points (x, y) and its label; `style` is a class, c1 to c6.

    With `low` and `high`, values in the order of the points, a band is drawn behind it.
    """

    label: str
    points: Sequence[tuple[float, float | None]]
    style: str = "c1"
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


def curve(
    title: str,
    lines: Sequence[Line],
    *,
    x_label: str = "",
    y_low: float | None = None,
    y_high: float | None = None,
    x_ticks: Sequence[tuple[float, str]] = (),
) -> Markup:
    """Draw lines over a common axis, with a legend and a title for screen readers."""
    xs = [x for line in lines for x, y in line.points if y is not None]
    ys = [y for line in lines for _, y in line.points if y is not None]
    ys += [y for line in lines for y in (*line.low, *line.high) if y is not None]
    if not xs:
        return _empty(title)
    x0, x1 = min(xs), max(xs)
    low = min(ys) if y_low is None else y_low
    high = max(ys) if y_high is None else max(y_high, *ys) if y_high < max(ys) else y_high
    x1 = x1 if x1 > x0 else x0 + 1.0
    high = high if high > low else low + 1.0
    plot = _Plot(x0, x1, low, high)
    parts = [plot.axes(x_ticks)]
    for line in lines:
        if line.low and line.high:
            parts.append(plot.band(line))
        parts.append(plot.path(line))
    if x_label:
        parts.append(
            Markup('<text class="axis" x="{}" y="{}" text-anchor="end">{}</text>').format(
                WIDTH - RIGHT, HEIGHT - 4, x_label
            )
        )
    drawn = _svg(title, Markup("").join(parts))
    return Markup("<figure class='chart'>{}{}</figure>").format(drawn, _legend(lines))


def bar(share: float, style: str = "c1", label: str = "") -> Markup:
    """Draw one bar from 0 to 1."""
    width = 100.0 * min(max(share, 0.0), 1.0)
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><rect class="rail" width="100" height="10"/>'
        '<rect class="{}" width="{:.2f}" height="10"/></svg>'
    ).format(label or f"{100 * share:.0f} percent", style, width)


def diverging(value: float, most: float, label: str = "") -> Markup:
    """Draw a bar to the left of the middle if it is negative, to the right if it is positive."""
    share = 0.0 if most <= 0 else max(-1.0, min(1.0, value / most))
    left, width = (50.0 + 50.0 * min(share, 0.0)), 50.0 * abs(share)
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><rect class="rail" width="100" height="10"/>'
        '<rect class="{}" x="{:.2f}" width="{:.2f}" height="10"/>'
        '<rect class="middle" x="49.8" width="0.4" height="10"/></svg>'
    ).format(label or f"{value:.3g}", "plus" if value >= 0 else "minus", left, width)


def interval(value: float, low: float, high: float, most: float, style: str = "c1") -> Markup:
    """Draw a value with its interval, on a rail from 0 to `most`."""
    scale = 0.0 if most <= 0 else 100.0 / most

    def at(y: float) -> float:
        return min(max(y * scale, 0.0), 100.0)

    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" '
        'aria-label="{:.3g}, between {:.3g} and {:.3g}"><rect class="rail" width="100" '
        'height="10"/><rect class="{} soft" x="{:.2f}" y="2" width="{:.2f}" height="6"/>'
        '<rect class="{}" x="{:.2f}" width="1" height="10"/></svg>'
    ).format(value, low, high, style, at(low), at(high) - at(low), style, at(value) - 0.5)


def error_rate(
    mean: float, low: float, high: float, most: float, trust: float, label: str
) -> Markup:
    """Draw a share of errors with its interval over a scale from 0, and the share that is trusted.

    Examples
    --------
    >>> drawn = error_rate(0.1, 0.05, 0.2, 0.2, 0.02, "model errs in about 10 %")
    >>> 'aria-label="model errs in about 10 %"' in drawn and "20 %" in drawn
    True
    """
    left, width, top, height = 8.0, 304.0, 6.0, 14.0

    def at(share: float) -> float:
        return left + width * min(max(share / most, 0.0), 1.0)

    tall = round(top + height)
    parts = [
        Markup('<rect class="rail" x="{:.1f}" y="{:.0f}" width="{:.1f}" height="{:.0f}"/>').format(
            left, top, width, height
        ),
        Markup(
            '<rect class="c1 soft" x="{:.1f}" y="{:.0f}" width="{:.1f}" height="{:.0f}"/>'
        ).format(at(low), top, max(at(high) - at(low), 1.0), height),
        Markup('<line class="mark" x1="{0:.1f}" x2="{0:.1f}" y1="2" y2="{1}"/>').format(
            at(trust), tall + 4
        ),
        Markup('<rect class="c1" x="{:.1f}" y="{:.0f}" width="3" height="{:.0f}"/>').format(
            at(mean) - 1.5, top - 3, height + 6
        ),
    ]
    steps = round(most / 0.1)
    for n in range(steps + 1):
        anchor = "start" if n == 0 else "end" if n == steps else "middle"
        x = left + width * n / steps
        text = f"{100 * most * n / steps:.0f} %"
        parts.append(
            Markup('<text class="axis" x="{:.1f}" y="{}" text-anchor="{}">{}</text>').format(
                x, tall + 20, anchor, text
            )
        )
    return Markup(
        '<svg class="rate" viewBox="0 0 320 46" role="img" aria-label="{}">{}</svg>'
    ).format(label, Markup("").join(parts))


def sparkline(values: Sequence[float | None], label: str, style: str = "c1") -> Markup:
    """Draw a small line without axes."""
    known = [y for y in values if y is not None]
    if len(known) < 2:
        return Markup(
            '<svg class="spark" viewBox="0 0 120 24" role="img" aria-label="{}"></svg>'
        ).format(label)
    low, high = min(known), max(known)
    span = high - low if high > low else 1.0
    step = 120.0 / max(len(values) - 1, 1)
    points = " ".join(
        f"{i * step:.1f},{22.0 - 20.0 * (y - low) / span:.1f}"
        for i, y in enumerate(values)
        if y is not None
    )
    return Markup(
        '<svg class="spark" viewBox="0 0 120 24" role="img" aria-label="{}">'
        '<polyline class="line {}" points="{}"/></svg>'
    ).format(label, style, points)


class _Plot:
    def __init__(self, x0: float, x1: float, low: float, high: float) -> None:
        self.x0, self.x1, self.low, self.high = x0, x1, low, high

    def x(self, x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (x - self.x0) / (self.x1 - self.x0)

    def y(self, y: float) -> float:
        share = (y - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    def axes(self, x_ticks: Sequence[tuple[float, str]]) -> Markup:
        found = []
        for value in _ticks(self.low, self.high):
            y = self.y(value)
            found.append(
                Markup(
                    '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
                    '<text class="axis" x="{}" y="{:.1f}" text-anchor="end">{}</text>'
                ).format(LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, f"{value:.4g}")
            )
        for n, (x, text) in enumerate(x_ticks):
            anchor = "start" if n == 0 else "end" if n == len(x_ticks) - 1 else "middle"
            found.append(
                Markup('<text class="axis" x="{:.1f}" y="{}" text-anchor="{}">{}</text>').format(
                    self.x(x), HEIGHT - BOTTOM + 16, anchor, text
                )
            )
        return Markup("").join(found)

    def path(self, line: Line) -> Markup:
        runs: list[list[str]] = [[]]
        for x, y in line.points:
            if y is None:
                runs.append([])
            else:
                runs[-1].append(f"{self.x(x):.1f},{self.y(y):.1f}")
        return Markup("").join(
            Markup('<polyline class="line {}" points="{}"/>').format(line.style, " ".join(run))
            if len(run) > 1
            else Markup('<circle class="dot {}" cx="{}" cy="{}" r="3"/>').format(
                line.style, *run[0].split(",")
            )
            for run in runs
            if run
        )

    def band(self, line: Line) -> Markup:
        known = [
            (x, a, b)
            for (x, _), a, b in zip(line.points, line.low, line.high, strict=True)
            if a is not None and b is not None
        ]
        upper = [f"{self.x(x):.1f},{self.y(min(b, self.high)):.1f}" for x, _, b in known]
        lower = [f"{self.x(x):.1f},{self.y(max(a, self.low)):.1f}" for x, a, _ in reversed(known)]
        return Markup('<polygon class="band {}" points="{}"/>').format(
            line.style, " ".join([*upper, *lower])
        )


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round values within a range."""
    raw = (high - low) / 4
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    found = []
    while first * step <= high + 1e-9 * step:
        found.append(first * step)
        first += 1
    return found


def _svg(title: str, inner: Markup) -> Markup:
    return Markup(
        '<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, title, inner)


def _empty(title: str) -> Markup:
    text = Markup('<text class="axis" x="{}" y="{}" text-anchor="middle">{}</text>').format(
        WIDTH // 2, HEIGHT // 2, "nothing to show yet"
    )
    return Markup("<figure class='chart'>{}</figure>").format(_svg(title, text))


def _legend(lines: Sequence[Line]) -> Markup:
    if len(lines) == 1 and not lines[0].label:
        return Markup("")
    items = Markup("").join(
        Markup('<span><i class="key {}"></i>{}</span>').format(line.style, escape(line.label))
        for line in lines
    )
    return Markup("<figcaption class='legend'>{}</figcaption>").format(items)


# --- Stacked areas: shares of a whole --------------


class Area(NamedTuple):
    """One layer of a stacked chart: its label and its counts by place; `style` is a class."""

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
    if len(across) == 1:  # a single place takes the whole width
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

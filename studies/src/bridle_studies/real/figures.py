"""Figures of the study of real limits: the headline, the doubt against the truth, every seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bridle_studies.frontier.figures import dark
from bridle_studies.real.canvas import (
    LINEAR_TO,
    by_world,
    heading,
    log_place,
    mark_of,
    methods_of,
    percent,
    seeds_and_steps,
    share_axis,
    tint_of,
    words_of,
)
from bridle_studies.real.changes_figure import draw_changes
from bridle_studies.real.exceptions_figure import draw_exceptions
from bridle_studies.real.scope import DEFAULT, LIMITS, OWN, SAID
from bridle_studies.real.summary import COURSE_SCHEMA, DOUBT, Cell, Said, calibrations
from bridle_studies.real.teachers import RATES_SCHEMA, TEACHERS_SCHEMA
from bridle_studies.real.teachers_figure import draw_teachers
from bridle_studies.scaffold.canvas import GREY, INK, number, save_figure, styled

__all__ = ["draw_real"]

IN_A_ROW = 4  # methods in a legend
COLUMNS = 3  # panels of calibration in a row
BLUES = ("#A6CBE3", "#4F97C4", "#0B5C8E", "#053A5C")
FEW = 100  # pairs: fewer say little


def draw_real(
    out: Path,
    runs: pl.DataFrame,
    calibration: pl.DataFrame,
    about: Mapping[str, str] | None = None,
    *,
    course: pl.DataFrame | None = None,
    teachers: pl.DataFrame | None = None,
    rates: pl.DataFrame | None = None,
) -> dict[str, Path]:
    """Draw every figure as PNG and SVG, and return the paths by name.

    Parameters
    ----------
    out : Path
        The folder to write into.
    runs, calibration : DataFrame
        What `real.csv` and `calibration.csv` hold.
    about : mapping from worlds to str, optional
        What the limits of each world are, in a few words.
    course, teachers, rates : DataFrame, optional
        What `course.csv`, `teachers.csv` and `rates.csv` hold.
    """
    voices = pl.DataFrame(schema=TEACHERS_SCHEMA) if teachers is None else teachers
    learned = pl.DataFrame(schema=RATES_SCHEMA) if rates is None else rates
    empty = pl.DataFrame(schema=COURSE_SCHEMA)
    with styled():
        return {
            **_headline(out, runs, about or {}),
            **draw_exceptions(out, runs),
            **draw_changes(out, runs, empty if course is None else course),
            **draw_teachers(out, runs, voices, learned),
            **_calibration(out, calibration),
            **_seeds(out, runs),
        }


# -- the headline --------------------------------------------------------------------------------


def _headline(out: Path, runs: pl.DataFrame, about: Mapping[str, str]) -> dict[str, Path]:
    """Draw a row a world, a bar a method, a panel a measure."""
    found = by_world(runs, LIMITS)
    if not found:
        return {}
    methods = methods_of(found.values())
    line, gap = 0.205, 0.26  # inches: a bar, and between two worlds
    top, bottom = (1.62 if len(methods) > IN_A_ROW else 1.42), 0.3
    starts, tall = _starts(found.values(), gap / line)
    high = top + bottom + tall * line
    figure = Figure(figsize=(11.4, high))
    panels = figure.subplots(1, 4, sharey=True, width_ratios=(1.0, 0.62, 1.12, 0.8))
    figure.subplots_adjust(
        left=0.212, right=0.985, top=1 - top / high, bottom=bottom / high, wspace=0.07
    )
    checks = max([cell.audits for members in found.values() for cell in members] + [1.0])
    answers = log_place(max(cell.answers for members in found.values() for cell in members), 10.0)
    worst = max(cell.worst for members in found.values() for cell in members)
    share = log_place(max(worst, 0.1), LINEAR_TO)
    dearest = max([abs(cell.excess) for members in found.values() for cell in members] + [0.01])
    for start, (world, members) in zip(starts, found.items(), strict=True):
        for place, cell in enumerate(members):
            y = start + place
            _bar(
                panels[0],
                y,
                answers(cell.answers),
                cell,
                number(cell.answers, "E"),
                (answers(cell.fewest), answers(cell.most)),
            )
            if cell.audits:
                _bar(panels[1], y, cell.audits / checks, cell, number(cell.audits, "E"))
            _bar(panels[2], y, share(cell.share), cell, _errors(cell), (None, share(cell.worst)))
            _bar(panels[3], y, cell.excess / dearest, cell, f"{cell.excess:+.3f}".replace("-", "−"))
        middle = start + (len(members) - 1) / 2
        panels[0].text(
            -0.03,
            middle - 0.45,
            world,
            ha="right",
            va="center",
            fontsize=10.5,
            fontweight="bold",
            color=INK,
        )
        panels[0].text(
            -0.03,
            middle + 0.75,
            _folded(about.get(world, "")),
            ha="right",
            va="center",
            fontsize=7.6,
            color=GREY,
            linespacing=1.15,
        )
        for axes in panels if start else ():
            axes.axhline(start - (1 + gap / line) / 2, color="#e3e3e3", linewidth=0.8)
    panels[2].axvline(share(DOUBT), color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    panels[2].text(share(DOUBT), -0.85, " 1 % of plays", fontsize=7.8, color=INK, va="bottom")
    titles = (
        "Answers asked of the teacher",
        "Checks",
        "Plays that were not allowed, E",
        "Regret above a mask\nthat is told the limits",
    )
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=9.8, color=INK, loc="left", pad=15)
        axes.set_xlim(-0.02, 1.42)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines[["bottom", "left"]].set_visible(False)
        axes.axvline(0.0, color=GREY, linewidth=0.8)
    lowest = min([cell.excess for members in found.values() for cell in members] + [0.0])
    panels[1].set_xlim(-0.02, 1.55)
    panels[2].set_xlim(-0.02, 1.82)
    panels[3].set_xlim(min(lowest / dearest * 1.1, -0.02), 1.55)
    panels[0].set_ylim(tall - gap / line - 0.3, -0.9)
    title = "Limits that people really set: what is asked, and what goes wrong"
    mine = runs.filter(pl.col("kind") == LIMITS)
    heading(
        figure,
        title,
        f"{seeds_and_steps(mine)} Shorter is better everywhere. Thin lines "
        "reach from the least to the most of the seeds.",
    )
    _legend(figure, methods, 1 - 0.66 / high)
    caption = (
        "Means over seeds; thin lines reach from the least to the most. Beside E stands its share "
        "of the plays in the worst seed. Answers are on a scale that is logarithmic above 10, E/T "
        "above .1 %. Shorter is better everywhere."
    )
    words = "; ".join(
        f"{world}, {words_of(cell.method)}: {number(cell.answers, 'E')} answers, "
        f"{number(cell.audits, 'E')} checks, E {_errors(cell)}, regret {cell.excess:+.3f}"
        for world, members in found.items()
        for cell in members
    )
    return save_figure(figure, out, "real", title, f"{caption}\n\n{words}", dpi=160)


def _bar(
    axes: Axes,
    y: float,
    end: float,
    cell: Cell,
    text: str,
    span: tuple[float | None, float] | None = None,
) -> None:
    """Draw a bar with its number at its end, and a thin line over the range of the seeds."""
    tint = tint_of(cell.method)
    axes.barh(y, end, color=tint, height=0.74, zorder=2)
    last = max(end, 0.0)
    if span is not None and cell.seeds > 1:
        low = span[0] if span[0] is not None else min(end, span[1])
        axes.plot([low, span[1]], [y, y], color=INK, linewidth=0.7, zorder=3)
        last = max(last, span[1])
    axes.text(
        last + 0.02,
        y,
        text,
        va="center",
        fontsize=8.4,
        zorder=4,
        color=dark(tint) if cell.ours else "#4a4a4a",
        fontweight="bold" if cell.ours else "normal",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
    )


def _legend(figure: Figure, methods: Sequence[str], y: float) -> None:
    drawn = figure.legend(
        [Patch(color=tint_of(method)) for method in methods],
        [words_of(method) for method in methods],
        loc="upper left",
        bbox_to_anchor=(0.006, y),
        ncols=min(len(methods), IN_A_ROW),
        frameon=False,
        fontsize=9,
        handlelength=1.1,
        handleheight=0.9,
        columnspacing=1.8,
    )
    for text, method in zip(drawn.get_texts(), methods, strict=True):
        text.set_fontweight("bold" if method == DEFAULT else "normal")
        text.set_color(dark(tint_of(DEFAULT)) if method == DEFAULT else INK)


def _starts(worlds: Iterable[Sequence[Cell]], gap: float) -> tuple[list[float], float]:
    """Return where each world's lines begin, counted in lines, and where the last one's end."""
    starts, end = list[float](), 0.0
    for members in worlds:
        starts.append(end)
        end += len(members) + gap
    return starts, end


def _errors(cell: Cell) -> str:
    if cell.E == 0:
        return "0"
    share = f"worst {percent(cell.worst)}" if cell.seeds > 1 else percent(cell.share)
    return f"{number(cell.E, 'E')}  ({share})"


# -- the doubt against the truth -----------------------------------------------------------------


def _calibration(out: Path, calibration: pl.DataFrame) -> dict[str, Path]:
    """Draw a panel a world: of what was said to be allowed, how much was not."""
    found = calibrations(calibration)
    if not found:
        return {}
    columns = min(COLUMNS, len(found))
    rows = math.ceil(len(found) / columns)
    high = 1.55 + 2.55 * rows + 0.35
    wide = 11.4  # inches, as the legend needs
    figure = Figure(figsize=(wide, high))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    figure.subplots_adjust(
        left=0.85 / wide,
        right=1 - 0.15 / wide,
        top=1 - 1.55 / high,
        bottom=0.72 / high,
        hspace=0.24,
        wspace=0.06,
    )
    labels: dict[str, Line2D] = {}
    for axes, (world, by_answers) in zip(grid.flat, found.items(), strict=False):
        _panel(axes, by_answers, labels)
        axes.set_title(world, fontsize=10, fontweight="bold", color=INK, loc="left")
    for axes in grid.flat[len(found) :]:
        axes.set_visible(False)
    for place in range(len(found)):  # below the last panel of each column
        row, column = divmod(place, columns)
        grid[row][column].tick_params(labelbottom=place + columns >= len(found))
    title = "Is the doubt right about what was never asked?"
    figure.text(0.013, 1 - 0.18 / high, title, fontsize=13, fontweight="bold", color=INK, va="top")
    figure.text(
        0.013,
        1 - 0.5 / high,
        "Items and bands that nobody asked about, of which it was said: allowed, with at least "
        "this probability.\nHow many of them are not? Hollow: of fewer than "
        f"{FEW}.",
        fontsize=8.6,
        color="#5a5a5a",
        va="top",
        linespacing=1.4,
    )
    said = Patch(facecolor="#DFF2EC", edgecolor="#009E73")
    figure.legend(
        [*labels.values(), said],
        [*labels, "no more than was said"],
        loc="upper left",
        bbox_to_anchor=(0.006, 1 - 0.88 / high),
        ncols=len(labels) + 1,
        frameon=False,
        fontsize=9,
        columnspacing=1.8,
    )
    figure.supxlabel("said to be allowed with at least", fontsize=9.5, color=INK, y=0.16 / high)
    figure.supylabel("not allowed", fontsize=9.5, color=INK, x=0.16 / wide)
    caption = (
        "What the default believes of pairs of an item and a band that it never asked about, after "
        "random answers and after its own questions. Those are asked where it is unsure: what is "
        "left is what it was sure of."
    )
    words = "; ".join(
        f"{world}, {_after(answers)}: "
        + ", ".join(
            f"at least {one.least:g}: {one.pairs:,} pairs"
            + (
                ""
                if one.true_share is None
                else f", {100 * (1 - one.true_share):.2f} % not allowed"
            )
            for one in said
        )
        for world, by_answers in found.items()
        for answers, said in by_answers.items()
    )
    return save_figure(figure, out, "calibration", title, f"{caption}\n\n{words}", dpi=160)


def _panel(axes: Axes, by_answers: Mapping[str, Sequence[Said]], labels: dict[str, Line2D]) -> None:
    places = range(len(SAID))
    limit = [1.0 - least for least in SAID]
    axes.fill_between(places, 0.0, limit, color="#009E73", alpha=0.11, linewidth=0, zorder=0)
    axes.plot(places, limit, color="#009E73", linewidth=0.9, zorder=1)
    taught = [answers for answers in by_answers if answers != OWN]
    for answers, said in by_answers.items():
        tint = INK if answers == OWN else BLUES[min(taught.index(answers), len(BLUES) - 1)]
        # Of nothing there is no share.
        there = [
            (x, 1.0 - one.true_share, one.pairs)
            for x, one in zip(places, said, strict=True)
            if one.true_share is not None
        ]
        wide = 1.9 if answers == OWN else 1.4
        axes.plot(
            [x for x, _, _ in there], [y for _, y, _ in there], color=tint, linewidth=wide, zorder=3
        )
        for x, y, pairs in there:
            axes.plot(
                [x],
                [y],
                "o",
                markersize=4.6,
                color=tint,
                zorder=4,
                markerfacecolor=tint if pairs >= FEW else "white",
            )
        key = Line2D([], [], color=tint, linewidth=wide, marker="o", markersize=4.6)
        labels.setdefault(_after(answers), key)
    share_axis(axes, "y", 1.35)
    axes.set_xticks(places, [f"{least:g}".lstrip("0") for least in SAID])
    axes.set_xlim(-0.25, len(SAID) - 0.75)


def _after(answers: str) -> str:
    return "after its own questions" if answers == OWN else f"after {int(answers):,} random answers"


# -- every seed ----------------------------------------------------------------------------------


def _seeds(out: Path, runs: pl.DataFrame) -> dict[str, Path]:
    """Draw E/T of every run: a row a world, a line in it a method, a dot a seed."""
    found = by_world(runs, LIMITS)
    if not found:
        return {}
    methods = methods_of(found.values())
    gap, bottom = 0.9, 0.6
    top = 1.3 if len(methods) > IN_A_ROW else 1.1
    starts, tall = _starts(found.values(), gap)
    high = top + bottom + 0.16 * tall
    figure = Figure(figsize=(11.4, high))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.21, right=0.975, top=1 - top / high, bottom=bottom / high)
    worst = 0.0
    for start, (world, members) in zip(starts, found.items(), strict=True):
        for place, cell in enumerate(members):
            mine = runs.filter((pl.col("world") == world) & (pl.col("method") == cell.method))
            shares = (mine["E"] / mine["T"]).to_list()
            worst = max(worst, *shares)
            axes.plot(
                shares,
                [start + place] * len(shares),
                mark_of(cell.method),
                markersize=5.4,
                color=tint_of(cell.method),
                markeredgecolor="white",
                markeredgewidth=0.5,
                alpha=0.85,
                clip_on=False,
                zorder=3,
            )
            none = shares.count(0.0)
            if none > 1:  # they lie on each other
                axes.annotate(
                    f"× {none}",
                    (0.0, start + place),
                    xytext=(6, 0),
                    fontsize=7.6,
                    textcoords="offset points",
                    va="center",
                    color=GREY,
                )
        if start:
            axes.axhline(start - 0.95, color="#e3e3e3", linewidth=0.8)
    share_axis(axes, "x", 1.25 * max(worst, 0.05))
    axes.axvline(DOUBT, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    axes.axvspan(axes.get_xlim()[0], DOUBT, color="#009E73", alpha=0.07, linewidth=0)
    axes.grid(visible=False, axis="y")
    middles = [
        start + (len(members) - 1) / 2
        for start, members in zip(starts, found.values(), strict=True)
    ]
    axes.set_yticks(middles, [*found])
    for tick in axes.get_yticklabels():
        tick.set_fontweight("bold")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(tall - gap - 0.2, -0.8)
    axes.set_xlabel("share of plays that were not allowed (linear to .1 %, then log)")
    title = "Every seed: how much of what was played was not allowed"
    mine = runs.filter(pl.col("kind") == LIMITS)
    heading(figure, title, f"{seeds_and_steps(mine)} A dot is a seed; the green area is up to 1 %.")
    handles = [
        Line2D([], [], linestyle="", marker=mark_of(method), color=tint_of(method))
        for method in methods
    ]
    figure.legend(
        handles,
        [words_of(method) for method in methods],
        loc="upper left",
        frameon=False,
        bbox_to_anchor=(0.006, 1 - 0.68 / high),
        ncols=min(len(handles), IN_A_ROW),
        fontsize=9,
        handletextpad=0.3,
        columnspacing=1.8,
    )
    caption = (
        "E/T of every run. A mean hides a seed that goes wrong: what is believed safe is never "
        "asked about, so a wrong belief can last."
    )
    words = "; ".join(
        f"{world}, {words_of(cell.method)}: mean {percent(cell.share)}, worst {percent(cell.worst)}"
        for world, cells_of in found.items()
        for cell in cells_of
    )
    return save_figure(figure, out, "seeds", title, f"{caption}\n\n{words}", dpi=160)


# -- words -----------------------------------------------------------------------------------------


def _folded(text: str, wide: int = 34) -> str:
    """Break a text into lines."""
    lines: list[str] = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > wide:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)

"""The figure of teachers who err: what is violated, who was asked, and what was learned of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

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
    percent,
    seeds_and_steps,
    share_axis,
    tint_of,
    words_of,
)
from bridle_studies.real.scope import DEFAULT, RATES_20, STAFF, TEACHERS
from bridle_studies.real.summary import Cell
from bridle_studies.real.teachers import AFTER, BARS, TeacherCell, teacher_cells
from bridle_studies.scaffold.canvas import GREY, INK, number, save_figure

__all__ = ["ALONE", "draw_teachers"]

ALONE = "one who does not err, alone"  # what the default is, here
TOP, BOTTOM, EACH, APART = 1.42, 0.62, 2.7, 0.75  # inches: above, below, a world, between two
GOOD, CHEAP = "#0072B2", "#E69F00"
MOST = 400  # answers of a teacher that are shown


def draw_teachers(
    out: Path, runs: pl.DataFrame, teachers: pl.DataFrame, rates: pl.DataFrame
) -> dict[str, Path]:
    """Draw a row a world: denied plays, answers by teacher, learned rates; nothing without any.

    Parameters
    ----------
    out : Path
        The folder to write into.
    runs, teachers, rates : DataFrame
        What `real.csv`, `teachers.csv` and `rates.csv` hold.
    """
    if teachers.is_empty():
        return {}
    found = {
        world: [cell for cell in members if cell.method in STAFF]
        for world, members in by_world(runs, TEACHERS).items()
    }
    mine = runs.filter(pl.col("kind") == TEACHERS)
    voices: dict[tuple[str, str], list[TeacherCell]] = {}
    for voice in teacher_cells(teachers):
        voices.setdefault((voice.world, voice.method), []).append(voice)
    high = TOP + BOTTOM + EACH * len(found) + APART * (len(found) - 1)
    figure = Figure(figsize=(11.4, high))
    grid = figure.subplots(len(found), 3, squeeze=False, width_ratios=(1.0, 1.15, 1.0))
    figure.subplots_adjust(
        left=0.19,
        right=0.985,
        top=1 - TOP / high,
        bottom=BOTTOM / high,
        wspace=0.14,
        hspace=APART / EACH,
    )
    for (shares, asked, learned), (world, members) in zip(grid, found.items(), strict=True):
        _shares(shares, mine.filter(pl.col("world") == world), members)
        _asked(asked, members, {cell.method: voices[world, cell.method] for cell in members})
        _learned(learned, rates.filter(pl.col("world") == world))
        shares.set_title(
            f"{world}: denied plays, a mark a seed", fontsize=9.8, color=INK, loc="left", x=-0.62
        )
        asked.set_title("Questions answered, by teacher", fontsize=9.8, color=INK, loc="left")
        learned.set_title("Rates learned: how often they err", fontsize=9.8, color=INK, loc="left")
    title = "Teachers who err: what learning their rates buys"
    heading(
        figure,
        title,
        f"{seeds_and_steps(mine)} The good one never errs and costs .35 an answer, the cheap one "
        "costs .02. Where rates are to be learned,\nnobody says who is the good one. Green: up to "
        f"{100 * BARS['share']:g} % of the plays; bands: within {BARS['within']:g} of how often "
        "they err.",
    )
    handles: list[Artist] = [
        Patch(facecolor=GOOD),
        Patch(facecolor=CHEAP),
        Patch(facecolor=GREY),
        Line2D([], [], color=INK, linewidth=0.9, linestyle=(0, (4, 3))),
        Line2D([], [], color=CHEAP, linewidth=2.0),
        Line2D([], [], color=CHEAP, linewidth=2.0, linestyle=(0, (1, 1))),
    ]
    figure.legend(
        handles,
        [
            "good",
            "cheap",
            "errs, alone",
            "what the good one takes alone",
            "beside 20 %",
            "beside 5 %",
        ],
        loc="upper left",
        bbox_to_anchor=(0.006, 1 - 0.88 / high),
        ncols=6,
        frameon=False,
        fontsize=9,
        handletextpad=0.5,
        columnspacing=1.6,
    )
    caption = (
        "Left: E/T of every run. Middle: questions by who answered them, means over seeds, beside "
        "what the good one takes alone; checks come on top. Right: what was believed of each "
        f"teacher’s error rate after so many answers of theirs; thick means, thin every seed; a "
        f"line at {AFTER} answers."
    )
    words = "; ".join(
        f"{world}, {_name(cell.method)}: worst {percent(cell.worst)} denied, "
        + ", ".join(
            f"{voice.teacher} {number(voice.questions, 'E')} questions"
            for voice in voices[world, cell.method]
        )
        for world, members in found.items()
        for cell in members
    )
    return save_figure(figure, out, "teachers", title, f"{caption}\n\n{words}", dpi=160)


def _name(method: str) -> str:
    return ALONE if method == DEFAULT else words_of(method)


def _folded(text: str) -> str:
    """Break a text at the comma nearest to its middle."""
    commas = [place for place, letter in enumerate(text) if letter == ","]
    if len(text) < 30 or not commas:
        return text
    middle = min(commas, key=lambda place: abs(place - len(text) / 2))
    return f"{text[: middle + 1]}\n{text[middle + 2 :]}"


def _shares(axes: Axes, runs: pl.DataFrame, members: Sequence[Cell]) -> None:
    for y, cell in enumerate(members):
        mine = runs.filter(pl.col("method") == cell.method)
        shares = (mine["E"] / mine["T"]).to_list()
        axes.plot(
            shares,
            [y] * len(shares),
            mark_of(cell.method),
            markersize=5.6,
            alpha=0.8,
            color=tint_of(cell.method),
            markeredgecolor="white",
            markeredgewidth=0.5,
            clip_on=False,
            zorder=3,
        )
        none = shares.count(0.0)
        if none > 1:  # they lie on each other
            axes.annotate(
                f"× {none}",
                (0.0, y),
                xytext=(3, 4),
                fontsize=7.6,
                va="bottom",
                textcoords="offset points",
                color=GREY,
            )
        if cell.abstentions > 0.01 * cell.T:
            axes.annotate(
                f"plays nothing in {100 * cell.abstentions / cell.T:.0f} % of the steps",
                (1.0, y),
                xycoords=("axes fraction", "data"),
                xytext=(0, -9),
                fontsize=7.4,
                textcoords="offset points",
                va="top",
                ha="right",
                color=GREY,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
            )
    share_axis(axes, "x", 1.25 * max(max(cell.worst for cell in members), 0.02))
    axes.axvline(BARS["share"], color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    axes.axvspan(axes.get_xlim()[0], BARS["share"], color="#009E73", alpha=0.07, linewidth=0)
    axes.set_yticks(range(len(members)), [_folded(_name(cell.method)) for cell in members])
    axes.set_ylim(len(members) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("share of plays that were not allowed")


def _asked(
    axes: Axes, members: Sequence[Cell], voices: Mapping[str, Sequence[TeacherCell]]
) -> None:
    most = max(cell.answers for cell in members)
    for y, cell in enumerate(members):
        left = 0.0
        for voice in voices[cell.method]:
            tint = {"good": GOOD, "cheap": CHEAP}.get(voice.teacher, GREY)
            axes.barh(y, voice.questions, left=left, color=tint, height=0.62, zorder=2)
            left += voice.questions
        told = " + ".join(number(voice.questions, "E") for voice in voices[cell.method])
        first = voices[cell.method][0]
        ratio = f"\ngood: {first.of_alone:.2f} × alone" if first.told is None else ""
        axes.text(
            left + 0.015 * most,
            y,
            f"{told}{ratio}",
            va="center",
            fontsize=8.0,
            color=dark(GOOD) if ratio else "#4a4a4a",
            linespacing=1.25,
        )
        if cell.method == DEFAULT:
            axes.axvline(cell.answers, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=3)
    axes.set_xlim(0.0, 1.38 * most)
    axes.set_ylim(len(members) - 0.4, -0.6)
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("questions, means over seeds")


def _learned(axes: Axes, rates: pl.DataFrame) -> None:
    near = BARS["within"]
    for (method, teacher), theirs in rates.group_by("method", "teacher", maintain_order=True):
        tint = GOOD if teacher == "good" else CHEAP
        dash = "-" if method == RATES_20 else (0, (1, 1))
        error = next(one.error for one in STAFF[str(method)] if one.name == teacher)
        if teacher != "good" or method == RATES_20:  # the good one's would lie on each other
            axes.axhspan(max(error - near, 0.0), error + near, color=tint, alpha=0.10, linewidth=0)
            axes.text(
                0.985 * MOST,
                error + 0.004,
                f"{teacher}: {100 * error:g} %",
                fontsize=8.2,
                ha="right",
                va="bottom",
                color=dark(tint),
                zorder=4,
            )
        theirs = theirs.filter(pl.col("answers") <= MOST)
        for _, seed in theirs.group_by("seed", maintain_order=True):
            axes.plot(
                seed["answers"],
                seed["rate"],
                color=tint,
                linewidth=0.6,
                alpha=0.35,
                linestyle=dash,
                zorder=2,
            )
        # A mean of all seeds only: fewer and fewer would make it jump.
        counted = theirs.group_by("answers").agg(pl.col("rate").mean(), pl.len()).sort("answers")
        mean = counted.filter(pl.col("len") == theirs["seed"].n_unique())
        axes.plot(
            mean["answers"], mean["rate"], color=tint, linewidth=2.0, linestyle=dash, zorder=3
        )
    axes.axvline(AFTER, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    axes.set_xlim(0, MOST)
    axes.set_ylim(0.0, 0.35)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_xlabel("answers of theirs")

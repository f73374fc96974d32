"""Figures of the study of promises: how often each was broken, beside what was promised."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from bridle_studies.guarantees.acting import FROZEN
from bridle_studies.guarantees.scope import (
    AFTER,
    ALPHAS,
    AUDIT_DELTA,
    BEFORE,
    CASES,
    COINS,
    DELTA,
    LAGS,
    LEVEL,
    PAYS,
    PLAIN,
    PLAYERS,
    RATES,
    Found,
)
from bridle_studies.guarantees.summary import (
    Certified,
    alarms,
    certified,
    most,
    piloted,
    promised,
    summary,
)
from bridle_studies.scaffold.canvas import FAINT, GREY, INK, save_figure, styled

__all__ = ["draw_promises"]

# Okabe and Ito's colours, which people with any colour vision tell apart; markers say it again.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE = "#CC79A7"
COVER = 0.95
# How the players of the promise are drawn.
LOOKS = tuple(zip(PLAYERS, "sD^o", (BLUE, ORANGE, PURPLE, GREEN), strict=True))


def draw_promises(out: Path, found: Sequence[Found], *, synthetic: bool) -> dict[str, Path]:
    """Draw every figure as PNG and SVG; give the paths by file name.

    Parameters
    ----------
    out : Path
        The folder to write into.
    found : results of the jobs
        What was tried.
    synthetic : bool
        Whether the movies were made up; then the titles of what they are in say so.
    """
    made_up = ", synthetic movies" if synthetic else ""
    with styled():
        return {
            **_draw_certificates(out, found, made_up),
            **_draw_shortcuts(out, found, made_up),
            **_draw_audits(out, found),
            **_draw_alarms(out, found),
            **_draw_promise(out, found),
            **_draw_evaluations(out, found),
        }


def _draw_certificates(out: Path, found: Sequence[Found], made_up: str) -> dict[str, Path]:
    """Draw the exact share of every certificate, and what agents did inside."""
    cells = certified(found)
    kinds = [cell.limits for cell in cells if cell.alpha == ALPHAS[0]]
    figure = Figure(figsize=(10.6, 0.85 * len(kinds) + 2.2))
    panels = figure.subplots(1, len(ALPHAS), sharey=True)
    figure.subplots_adjust(
        left=0.165,
        right=0.985,
        top=1 - 0.8 / figure.get_figheight(),
        bottom=0.95 / figure.get_figheight(),
        wspace=0.06,
    )
    for axes, alpha in zip(panels, ALPHAS, strict=True):
        axes.axvspan(alpha, 10.0, color=RED, alpha=0.07, linewidth=0)
        axes.axvline(alpha, color=RED, linewidth=1.2)
        for place, cell in enumerate(c for c in cells if c.alpha == alpha):
            _strip(axes, place, cell)
        mine = [c for c in cells if c.alpha == alpha]
        highest = max(v for c in mine for v in (*c.shares, *c.rates[PLAIN], *c.rates[PAYS]))
        # Room at the right, for what is said of each kind.
        axes.set_xlim(-0.05 * alpha, max(highest, alpha) + 0.52 * alpha)
        axes.set_xticks(alpha * np.linspace(0.0, 1.0, 6))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:g}"))
        tries = len(cells[0].shares)
        axes.set_title(
            f"α = {100 * alpha:g} %; more than {most(tries, DELTA)} of {tries} broken would refute",
            fontsize=9.5,
            color=INK,
            loc="left",
        )
        axes.set_xlabel("% of contexts with a denied arm in the certified set")
    panels[0].set_yticks(range(len(kinds)), kinds)
    panels[0].set_ylim(len(kinds) - 0.45, -0.65)
    for x, marker, tint, text in (
        (0.165, "o", BLUE, "a certificate"),
        (0.305, "D", GREEN, "violations a step of an agent that learns inside"),
        (0.635, "^", ORANGE, "the same where violating pays"),
    ):
        _key(figure, x, 0.28 / figure.get_figheight(), marker, tint, text)
    title = f"How often certificates broke their promise{made_up}"
    broken = "; ".join(
        f"{c.limits}, α = {100 * c.alpha:g} %: {c.broken} of {len(c.shares)} broken" for c in cells
    )
    caption = (
        "Each dot is a certificate of the same limits from other calibration contexts; right of "
        f"the line its promise is broken, which may happen with probability {DELTA:g}. An agent "
        "that stays in the certified set violates no more often, on average, than its dot says."
    )
    return _saved(figure, out, "certificates", title, caption, broken)


def _strip(axes: Axes, place: int, cell: Certified) -> None:
    """Draw the certificates of one kind as dots in a row, and the runs below them."""
    shares = np.array(cell.shares)
    # Fixed offsets that do not follow the order of the draws: equal results, equal figures.
    lift = np.modf(np.arange(len(shares)) * 0.6180339887)[0]
    bad = shares > cell.alpha
    for which, tint in ((~bad, BLUE), (bad, RED)):
        axes.plot(
            shares[which],
            place - 0.38 + 0.4 * lift[which],
            "o",
            color=tint,
            markersize=3.2,
            alpha=0.55,
            markeredgewidth=0,
        )
    for rewards, marker, tint, low in ((PLAIN, "D", GREEN, 0.13), (PAYS, "^", ORANGE, 0.28)):
        rates = cell.rates[rewards]
        axes.plot(
            rates,
            [place + low] * len(rates),
            marker,
            color=tint,
            markersize=4.6,
            alpha=0.75,
            markeredgecolor="white",
            markeredgewidth=0.5,
        )
    said = f"{cell.broken} broken\n{100 * cell.keeps:.0f} % keep an arm"
    axes.text(
        0.99,
        place,
        said,
        transform=axes.get_yaxis_transform(),
        ha="right",
        va="center",
        fontsize=8,
        color=INK,
        linespacing=1.35,
    )


def _draw_shortcuts(out: Path, found: Sequence[Found], made_up: str) -> dict[str, Path]:
    """Draw how often the sound way and both shortcuts were broken."""
    cells, pilots = certified(found), piloted(found)
    rows: list[tuple[str, str, dict[float, float]]] = []
    for kind in dict.fromkeys(cell.limits for cell in cells):
        mine = [cell for cell in cells if cell.limits == kind]
        rows.append(
            (f"{kind}: the whole set", BLUE, {c.alpha: c.broken / len(c.shares) for c in mine})
        )
        rows.append(
            (
                f"{kind}: one random arm",
                RED,
                {c.alpha: c.one_arm_broken / len(c.one_arm) for c in mine},
            )
        )
    for rewards in (PLAIN, PAYS):
        later = {p.alpha: p.broken / p.runs for p in pilots if p.rewards == rewards}
        where = "violating pays" if rewards == PAYS else f"rewards {rewards}"
        rows.append((f"σ by a pilot, {where}", RED, later))
    figure = Figure(figsize=(10.6, 0.27 * len(rows) + 1.9))
    panels = figure.subplots(1, len(ALPHAS), sharey=True)
    figure.subplots_adjust(
        left=0.27,
        right=0.975,
        top=1 - 0.8 / figure.get_figheight(),
        bottom=0.6 / figure.get_figheight(),
        wspace=0.08,
    )
    for axes, alpha in zip(panels, ALPHAS, strict=True):
        for place, (_, tint, by_alpha) in enumerate(rows):
            value = by_alpha[alpha]
            axes.barh(place, value, color=tint, height=0.66)
            # Behind the bar, or behind the line of δ where the bar ends before it.
            at = max(value, DELTA if value > DELTA - 0.09 else 0.0)
            axes.text(
                at + 0.012, place, f"{100 * value:.0f} %", va="center", fontsize=8.5, color=GREY
            )
        axes.axvline(DELTA, color=INK, linewidth=1.0, linestyle="--")
        axes.set_xlim(0.0, 1.12)
        axes.set_xticks(np.linspace(0.0, 1.0, 6))
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.grid(visible=False, axis="y")
        axes.set_title(f"α = {100 * alpha:g} %", fontsize=9.5, color=INK, loc="left")
        axes.set_xlabel(f"of these promises were broken (dashed: δ = {100 * DELTA:g} %)")
    panels[0].set_yticks(range(len(rows)), [text for text, _, _ in rows])
    panels[0].set_ylim(len(rows) - 0.4, -0.6)
    words = "; ".join(
        f"{text}, α = {100 * alpha:g} %: {100 * value:.0f} %"
        for text, _, by_alpha in rows
        for alpha, value in by_alpha.items()
    )
    caption = (
        "How many promises were broken: by certifying the whole set, as we do; by certifying one "
        "random arm of it; and by choosing σ on a pilot. Neither shortcut is sound: who learns "
        "what pays finds what was let through."
    )
    title = f"The sound way, and two shortcuts{made_up}"
    return _saved(figure, out, "shortcuts", title, caption, words)


def _draw_audits(out: Path, found: Sequence[Found]) -> dict[str, Path]:
    """Draw both bounds over one run, and how often a bound was ever wrong."""
    course = next(one for one in found if one["part"] == "course")
    points = np.array(course["points"], float)
    t, truth, lower, upper = points.T
    figure = Figure(figsize=(10.6, 4.7))
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
    figure.subplots_adjust(left=0.075, right=0.985, top=0.8, bottom=0.13, wspace=0.2)
    left.fill_between(t, lower, upper, color=BLUE, alpha=0.13, linewidth=0)
    for values, tint, text in (
        (upper, BLUE, "at most"),
        (lower, BLUE, "at least"),
        (truth, INK, "the truth"),
    ):
        left.plot(t, values, color=tint, linewidth=1.6 if tint == INK else 1.2)
        left.annotate(
            f"{text} {values[-1]:,.0f}",
            (t[-1], values[-1]),
            xytext=(-4, 5),
            textcoords="offset points",
            ha="right",
            fontsize=9,
            color=tint,
        )
    left.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    left.set(xlabel="step", ylabel="violations so far", xlim=(0, t[-1]), ylim=(0, None))
    q, rate = course["q"], course["rate"]
    left.set_title(
        f"One run: q = {q:g}, {100 * rate:g} % of the plays violate",
        fontsize=9.5,
        color=INK,
        loc="left",
    )
    cells = {(cell["rate"], cell["q"]): cell for cell in summary(found)["audit"]}
    for q, marker, tint in zip(COINS, "osD", (BLUE, GREEN, ORANGE), strict=True):
        wrong = [cells[rate, q]["wrong"] / cells[rate, q]["sequences"] for rate in RATES]
        shift = 0.16 * (COINS.index(q) - 1)
        right.plot(
            np.arange(len(RATES)) + shift,
            wrong,
            marker,
            color=tint,
            markersize=6.5,
            label=f"q = {q:g}",
        )
    right.axhline(AUDIT_DELTA, color=RED, linewidth=1.2)
    right.text(
        0.01,
        AUDIT_DELTA,
        f"δ = {100 * AUDIT_DELTA:g} %, of each bound",
        color=RED,
        va="bottom",
        fontsize=9,
        transform=right.get_yaxis_transform(),
    )
    right.set_xticks(range(len(RATES)), [f"{100 * rate:g} %" for rate in RATES])
    right.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    tops = [cell["wrong"] / cell["sequences"] for cell in cells.values()]
    right.set(xlabel="violations a play, in truth", ylim=(-0.002, 1.2 * max(*tops, AUDIT_DELTA)))
    tries = next(iter(cells.values()))["sequences"]
    right.set_title(
        f"Of {tries:,} meters, ever wrong with either bound", fontsize=9.5, color=INK, loc="left"
    )
    right.legend(frameon=False, fontsize=9, loc="upper right", bbox_to_anchor=(1.0, 0.82))
    words = "; ".join(
        f"rate {rate:g}, q {q:g}: {cell['wrong']} of {cell['sequences']} wrong"
        for (rate, q), cell in cells.items()
    )
    caption = (
        "Left: both bounds of one meter, and the truth. Answers come up to 200 steps late; until "
        "then an audit counts as a violation in the upper bound, which falls as they come. Right: "
        "the share of meters, each with coins of its own, of which any bound was ever wrong."
    )
    return _saved(
        figure, out, "audits", "Audits: the bounds, and how often they were wrong", caption, words
    )


def _draw_alarms(out: Path, found: Sequence[Found]) -> dict[str, Path]:
    """Draw how many meters had raised the alarm, by steps after the change."""
    each = alarms(found)
    figure = Figure(figsize=(10.6, 4.2))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.075, right=0.83, top=0.79, bottom=0.14)
    last = each[0]["changed"]
    for one, tint, line in zip(each, (BLUE, GREEN, ORANGE), ("--", "-.", "-"), strict=True):
        delays = one["delays"]
        risen = np.arange(1, len(delays) + 1) / one["runs"]
        axes.step(
            [0, *delays, last],
            [0.0, *risen, risen[-1] if delays else 0.0],
            where="post",
            color=tint,
            linestyle=line,
            linewidth=1.8,
        )
        end = float(risen[-1]) if delays else 0.0
        axes.text(
            1.015,
            end,
            f"q = {one['q']:g}: {100 * end:.0f} %",
            color=tint,
            fontsize=9.5,
            va="center",
            transform=axes.get_yaxis_transform(),
        )
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.set(
        xlabel="steps after the change",
        ylabel="of the meters, alarm raised",
        xlim=(0, last),
        ylim=(-0.02, 1.05),
    )
    window, false = each[0]["window"], sum(one["false"] for one in each)
    axes.set_title(
        f"violations go from {100 * BEFORE:g} % to {100 * AFTER:g} % of the plays; {100 * LEVEL:g} "
        f"% are granted; windows of {window:,} steps; false alarms before: {false}",
        fontsize=9.5,
        color=INK,
        loc="left",
    )
    words = "; ".join(
        f"q {one['q']:g}: {len(one['delays'])} of {one['runs']} alarms, half of them within "
        f"{_middle(one['delays'])} steps, {one['false']} false"
        for one in each
    )
    caption = (
        "Limits that change half-way: the share of meters of which a window has raised the alarm. "
        "With few audits it comes late, or never."
    )
    title = "How soon the windows raise the alarm"
    return _saved(figure, out, "alarms", title, caption, words)


def _draw_promise(out: Path, found: Sequence[Found]) -> dict[str, Path]:
    """Draw denied plays on what the bound is made of, and what a clean player is frozen."""
    tried = promised(found)
    cells = {(one["row"]["case"], one["row"]["lag"]): one for one in tried}
    steps, first = tried[0]["steps"], tried[0]["row"]
    grown, last = first["alpha"] * steps, 1.0 / first["q"]
    figure = Figure(figsize=(10.6, 5.6))
    left, right = figure.subplots(1, 2, width_ratios=(1.75, 1.0))
    figure.subplots_adjust(left=0.075, right=0.985, top=0.85, bottom=0.185, wspace=0.17)
    for place, lag in enumerate(LAGS):
        row = cells["clean", lag]["row"]
        low = 0.0
        for high, tint, text in (
            (grown, "#dcdcdc", f"αT = {grown:,.0f}"),
            (row["b"], "#eaeaea", f"b = {row['b']:,.0f}"),
            (last, "#f4f4f4", f"1/q = {last:,.0f}"),
        ):
            left.bar(place, high, 0.86, low, color=tint)
            left.text(place - 0.4, low + high / 2, text, va="center", fontsize=8, color=INK)
            low += high
        left.plot([place - 0.43, place + 0.43], [low, low], color=RED, linewidth=1.8)
        left.annotate(
            f"at most {row['bound']:,.0f}",
            (place, low),
            xytext=(0, 4),
            ha="center",
            textcoords="offset points",
            fontsize=9,
            color=RED,
        )
        for shift, (name, marker, tint) in zip((0.02, 0.13, 0.24, 0.35), LOOKS, strict=True):
            left.plot(
                [place + shift],
                [cells[name, lag]["row"]["mean_E"]],
                marker,
                color=tint,
                markersize=6.5,
                markeredgecolor="white",
                markeredgewidth=0.6,
                clip_on=False,
                zorder=3,
            )
    top = max(one["row"]["bound"] for one in tried)
    tops = [top, *(one["row"]["mean_E"] for one in tried)]
    left.set(xlim=(-0.55, len(LAGS) - 0.45), ylim=(0.0, 1.1 * max(tops)))
    left.set_ylabel("denied plays, mean")
    left.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    left.grid(visible=False, axis="x")
    left.set_title(
        f"{first['runs']:,} runs of {steps:,} steps; red: promised, and in grey what it is made of",
        fontsize=9.5,
        color=INK,
        loc="left",
    )
    for (name, marker, tint), x in zip(LOOKS, (0.075, 0.24, 0.42, 0.595), strict=True):
        free = max(cells[name, lag]["without"] for lag in LAGS)
        _key(figure, x, 0.052, marker, tint, f"{name} ({free:,.0f})")
    figure.text(0.7, 0.052, "in brackets: without a promise", va="center", fontsize=9, color=GREY)
    wide = 0.36
    for shift, what, tint, text in (
        (-wide / 2, "frozen_at_once", FAINT, f"b = {tried[0]['b_at_once']:,.0f} at every lag"),
        (wide / 2, "frozen_share", GREEN, "b by the lag, as is the default"),
    ):
        shares = [cells["clean", lag][what] for lag in LAGS]
        right.bar(np.arange(len(LAGS)) + shift, shares, wide, color=tint, label=text)
        for place, share in enumerate(shares):
            right.annotate(
                f"{100 * share:.1f}",
                (place + shift, share),
                xytext=(0, 3),
                ha="center",
                textcoords="offset points",
                fontsize=8.5,
                color=INK,
            )
    right.axhline(FROZEN, color=RED, linewidth=1.2)
    right.text(
        0.015,
        FROZEN,
        f"granted: {100 * FROZEN:g} %",
        color=RED,
        va="bottom",
        ha="left",
        fontsize=9,
        transform=right.get_yaxis_transform(),
    )
    highest = max(one["frozen_at_once"] for one in tried)
    right.set_ylim(0.0, 1.35 * max(FROZEN, highest))
    right.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    right.grid(visible=False, axis="x")
    right.legend(frameon=False, fontsize=9, loc="upper left")
    right.set_title("Steps frozen where nothing is denied", fontsize=9.5, color=INK, loc="left")
    for axes in (left, right):
        axes.set_xticks(range(len(LAGS)), [f"{lag}" for lag in LAGS])
        axes.set_xlabel("steps until an audit is answered")
    words = "; ".join(
        f"{row['case']}, lag {row['lag']}: {row['mean_E']:,.0f} of {row['bound']:,.0f} granted"
        for row in (one["row"] for one in tried)
    )
    caption = (
        "Left: denied plays with a promise on, beside what was promised. Players that break "
        "the limits are stopped short of it, whatever they do; who does nothing wrong pays with "
        "audits alone. Answers that come late weaken the promise: audits that wait are counted as "
        "denied, so the purse must hold more. Right: were it not filled for that, it would freeze "
        "those who do nothing wrong."
    )
    return _saved(figure, out, "promise", "A promise that acts", caption, words)


def _draw_evaluations(out: Path, found: Sequence[Found]) -> dict[str, Path]:
    """Draw how many logs were refused, and how often the interval held the truth in the others."""
    cases = summary(found)["evaluate"]
    figure = Figure(figsize=(10.6, 3.6))
    left, right = figure.subplots(1, 2, sharey=True)
    figure.subplots_adjust(left=0.215, right=0.975, top=0.76, bottom=0.155, wspace=0.09)
    for place, case in enumerate(cases):
        told = case["logs"] - case["refused"]
        left.barh(place, case["refused"] / case["logs"], color=FAINT, height=0.5)
        left.text(
            case["refused"] / case["logs"] + 0.012,
            place,
            f"{case['refused']} of {case['logs']}",
            va="center",
            fontsize=9,
        )
        if not told:
            paper = {"facecolor": "white", "edgecolor": "none"}
            right.text(
                COVER,
                place,
                "all refused",
                ha="center",
                va="center",
                fontsize=9,
                color=GREY,
                bbox=paper,
            )
            continue
        share = case["covered"] / told
        noise = 1.96 * float(np.sqrt(COVER * (1.0 - COVER) / told))
        right.plot(
            [COVER - noise, COVER + noise],
            [place] * 2,
            color=FAINT,
            linewidth=7,
            alpha=0.35,
            solid_capstyle="butt",
        )
        right.plot([share], [place], "o", color=BLUE, markersize=8)
        right.annotate(
            f"{100 * share:.1f} % of {told}",
            (share, place),
            xytext=(0, 10),
            textcoords="offset points",
            ha="right" if share > 0.985 else "center",
            fontsize=9,
        )
    right.axvline(COVER, color=INK, linewidth=1.0, linestyle="--", zorder=0)
    right.axvline(0.93, color=RED, linewidth=1.0, zorder=0)
    for axes in (left, right):
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    left.set(xlim=(0.0, 1.24), xlabel="of the logs refused", xticks=np.linspace(0.0, 1.0, 6))
    shares = [c["covered"] / (c["logs"] - c["refused"]) for c in cases if c["logs"] > c["refused"]]
    right.set_xlim(min([0.895, *(share - 0.02 for share in shares)]), 1.005)
    right.set_xlabel("of the others, the interval holds the truth")
    right.set_title(
        "dashed: 95 %; red: the least we accept; grey: noise", fontsize=9.5, color=INK, loc="left"
    )
    left.set_yticks(range(len(cases)), [f"{c['case']}\n{CASES[c['case']]}" for c in cases])
    left.set_ylim(len(cases) - 0.45, -0.55)
    words = "; ".join(
        f"{case['case']}: {case['covered']} of {case['logs'] - case['refused']} covered, "
        f"{case['refused']} refused"
        for case in cases
    )
    caption = (
        "Logs whose truth is known: does the 95 % interval of what another setting would have "
        "earned hold it? Where the log has too little to say the answer is a refusal."
    )
    title = "What another setting would have earned"
    return _saved(figure, out, "evaluations", title, caption, words)


def _middle(delays: Sequence[int]) -> str:
    return f"{delays[len(delays) // 2]:,}" if delays else "no"


def _key(figure: Figure, x: float, y: float, marker: str, tint: str, text: str) -> None:
    """Explain a marker below the panels."""
    from matplotlib.lines import Line2D

    figure.add_artist(
        Line2D(
            [x],
            [y],
            marker=marker,
            color=tint,
            linestyle="",
            markersize=6,
            transform=figure.transFigure,
        )
    )
    figure.text(x + 0.012, y, text, va="center", fontsize=9, color=INK)


def _saved(
    figure: Figure, out: Path, name: str, title: str, caption: str, words: str
) -> dict[str, Path]:
    how: dict[str, Any] = {"x": 0.015, "ha": "left", "va": "top"}
    figure.text(
        y=1 - 0.14 / figure.get_figheight(),
        s=title,
        fontsize=13,
        color=INK,
        fontweight="bold",
        **how,
    )
    return save_figure(figure, out, name, title, f"{caption}\n\n{words}", dpi=150)

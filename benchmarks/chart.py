"""The rates as a picture: horizontal bars on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.cases import Case
from benchmarks.goals import rates_of
from benchmarks.measure import Mode, Result
from benchmarks.peers import PEERS
from benchmarks.report import number

OURS = "#c8501e"
OURS_LIGHT = "#e39a78"
THEIRS = "#8a94a0"

PANELS: tuple[tuple[Mode, str], ...] = (
    ("single", "one step at a time"),
    ("batch", "in batches"),
    ("fit", "fit from a log"),
)

Bar = tuple[str, float, str]
"""Label, items per second, colour."""


def draw(results: Sequence[Result], cases: Sequence[Case], path: Path) -> None:
    """Draw a row of panels for each case, the fastest on top."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows, columns = len(cases), len(PANELS)
    figure, axes = plt.subplots(
        rows, columns, figsize=(15.0, 3.1 * rows + 0.9), squeeze=False, layout="constrained"
    )
    for i, case in enumerate(cases):
        for j, (mode, title) in enumerate(PANELS):
            bars = _bars(results, case.name, mode)
            _panel(axes[i][j], bars, f"{case.arms:,} arms × {case.features} features, {title}")
    for axis in axes[-1]:
        axis.set_xlabel("per second (logarithmic)")
    figure.suptitle(
        "Decisions with their reward per second (fit: rows of the log), one thread; "
        "longer is faster",
        fontsize=12,
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _bars(results: Sequence[Result], case: str, mode: Mode) -> list[Bar]:
    rates = rates_of(results)
    notes = {"shared": " (shared draw)", "none": " (no draws)"}
    bars: list[Bar] = []
    for peer in PEERS:
        if (case, mode, peer.name) in rates:
            note = notes.get(peer.draws, "") if mode == "batch" else ""
            bars.append((peer.name + note, rates[case, mode, peer.name], THEIRS))
    if (case, mode, "bridle") in rates:
        colour = OURS_LIGHT if mode == "single" else OURS
        label = "bridle from Python" if mode == "single" else "bridle"
        bars.append((label, rates[case, mode, "bridle"], colour))
    if mode == "single" and (case, "loop", "bridle") in rates:
        bars.append(("bridle compiled loop", rates[case, "loop", "bridle"], OURS))
    return sorted(bars, key=lambda bar: bar[1])


def _panel(axis, bars: Sequence[Bar], title: str) -> None:  # type: ignore[no-untyped-def]
    axis.set_title(title, fontsize=10, loc="left")
    axis.spines[["top", "right"]].set_visible(False)
    if not bars:
        axis.set_axis_off()
        return
    labels, values, colours = zip(*bars, strict=True)
    drawn = axis.barh(range(len(bars)), values, color=colours, height=0.72)
    axis.set_yticks(range(len(bars)), labels, fontsize=9)
    for tick, label in zip(axis.get_yticklabels(), labels, strict=True):
        tick.set_fontweight("bold" if label.startswith("bridle") else "normal")
    axis.bar_label(drawn, [number(value) for value in values], padding=3, fontsize=8)
    axis.set_xscale("log")
    # From a full decade below the slowest, so that its bar has a length; room for labels.
    axis.set_xlim(min(values) / 4.0, max(values) * 8.0)
    axis.grid(axis="x", color="#e4e7ea", linewidth=0.8)
    axis.set_axisbelow(True)

"""`bridle evaluate`: what other positions of the dial would have earned, from an agent's log."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridle.cli.console import friendly_errors, numbers

if TYPE_CHECKING:
    from rich.table import Table

    from bridle.agent.events import Event
    from bridle.evaluation.evaluate import Evaluation

__all__ = ["evaluate"]

# Of one event, in bytes; those of agents with many arms are long.
MAX_LINE = 100_000_000
COLUMNS = (
    "sigma",
    "decisions",
    "missing",
    "left_out",
    "logged",
    "dr",
    "dr_low",
    "dr_high",
    "ips",
    "ips_low",
    "ips_high",
    "effective_plays",
    "largest_weight",
    "support",
    "abstains",
    "violations_by_belief",
    "refused",
)


def evaluate(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG.jsonl", help="The events of an agent, one JSON object per line."
        ),
    ],
    sigma: Annotated[
        str, typer.Option(help="Positions of the dial, separated by commas.")
    ] = "0,0.25,0.5,0.75,1",
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    budget: Annotated[
        float | None,
        typer.Option(help="Violations per decision: recommend the largest sigma within it."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write evaluation.csv and a figure into this folder."),
    ] = None,
) -> None:
    """Estimate what other positions of the dial would have earned, from an agent's log.

    The agent must have decided with propensity=True. Where the log cannot tell, there is a reason
    in the place of a number. Violations are what the limits believed; if the log has audits
    (AuditBegun, Audited), what those show stands beside it.
    """
    sigmas = numbers(sigma, "--sigma", float) or ()
    with friendly_errors("Nothing was written."):
        from rich.console import Console

        from bridle.audit.log import audits_in
        from bridle.evaluation.evaluate import evaluate as run
        from bridle.evaluation.recommend import recommend
        from bridle.validation import FRACTION

        if budget is not None:
            FRACTION.check(budget, "--budget", "bridle evaluate")
        if out is not None:
            _make_folder(out)
        console = Console(highlight=False)
        with console.status("reading the log ..."):
            audits = audits_in(_events(log))
            found = run(_events(log), sigma=sigmas, level=level, audits=audits)
        console.print(_table(found))
        for one in found:
            if one.refused is not None:
                console.print(one.refused, markup=False)
        for line in _notes(found[0]):
            console.print(line, style="dim", markup=False)
        if budget is not None:
            with console.status("reading the log again ..."):
                advice = recommend(_events(log), budget, sigmas, audits=audits)
            console.print(str(advice), markup=False)
        if out is not None:
            for path in _write(found, out):
                typer.echo(path)


def _make_folder(out: Path) -> None:
    """Make the folder for what is written, before the work begins."""
    from bridle.errors import NotPossible

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NotPossible(f"--out {str(out)!r} is no folder: {error.strerror}.") from error


def _events(path: Path) -> Iterator[Event]:
    """Read a log, event by event."""
    from bridle.agent.events import event_from_json
    from bridle.errors import CorruptState, NotPossible

    try:
        file = path.open("rb")
    except OSError as error:
        raise NotPossible(f"The log {str(path)!r} cannot be read: {error.strerror}.") from error
    with file:
        number = 0
        while line := file.readline(MAX_LINE):
            number += 1
            if not line.strip():
                continue
            try:
                yield event_from_json(json.loads(line))
            except (ValueError, RecursionError, CorruptState) as error:
                raise CorruptState(f"Line {number} of {str(path)!r} is no event: {error}") from None


def _table(found: list[Evaluation]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("sigma", justify="right")
    # An interval stands on one line, also at 80 columns.
    for name in ("earned (DR)", "earned (SNIPS)"):
        table.add_column(name, no_wrap=True, min_width=20)
    idle = any(one.abstains > 0.0 for one in found)
    for name in ("plays", "support", *["abstains"] * idle, "violates"):
        table.add_column(name, justify="right")
    for one in found:
        table.add_row(
            f"{one.sigma:g}",
            "refused" if one.dr is None else str(one.dr),
            "" if one.ips is None else str(one.ips),
            f"{one.support.size:,.0f}",
            f"{one.support.choices:.1%}",
            *[f"{one.abstains:.1%}"] * idle,
            f"{one.believed:.4f}",
        )
    return table


def _notes(one: Evaluation) -> list[str]:
    notes = [
        "Earned: the reward a decision, with its interval. Plays: how many plays of its own the "
        "log is worth. Violates: a decision, by the model's belief.",
        f"{one.decisions:,} decisions, each in its own context and state; they earned "
        f"{one.logged:.3f} and violated {one.believed_logged:.4f} by the model's belief.",
    ]
    if one.audited is not None:
        low, high = one.audited
        notes.append(f"By the audits they violated between {low:.4f} and {high:.4f} a decision.")
    if one.missing:
        notes.append(
            f"{one.missing:,} of them have no reward: the intervals allow for any that may come."
        )
    if one.left_out:
        notes.append(f"{one.left_out:,} more have no propensity in the log and are left out.")
    if one.draws is not None:
        notes.append(
            f"Propensities were estimated by {one.draws:,} draws at least; of the error "
            f"{one.sampling:.0%} is due to that, and counted."
        )
    return notes


def _write(found: list[Evaluation], out: Path) -> list[Path]:
    """Write the table and the figure; return the paths."""
    table = out / "evaluation.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for one in found:
            ends: list[object] = []
            for interval in (one.dr, one.ips):
                if interval is None:
                    ends += [""] * 3
                else:
                    ends += [interval.value, interval.low, interval.high]
            rows.writerow(
                [
                    one.sigma,
                    one.decisions,
                    one.missing,
                    one.left_out,
                    one.logged,
                    *ends,
                    one.support.size,
                    one.support.largest,
                    one.support.choices,
                    one.abstains,
                    one.believed,
                    one.refused or "",
                ]
            )
    return [table, *_draw(found, out)]


def _draw(found: list[Evaluation], out: Path) -> list[Path]:
    """Draw what each sigma would have earned and violated."""
    from matplotlib.figure import Figure

    from bridle.cli.figure import DIAL, FAINT, GREY, save_figure, styled

    found = sorted(found, key=lambda one: one.sigma or 0.0)
    estimated = [one for one in found if one.refused is None]
    title = "What another sigma would have earned"
    words = (
        f"{found[0].decisions:,} decisions of a log: for each sigma the reward a decision, with "
        "intervals, and the violations a decision by the model's belief."
    )
    with styled():
        figure = Figure(figsize=(9.0, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        for name, colour, move in (("dr", DIAL[0], -0.01), ("ips", DIAL[3], 0.01)):
            values = [getattr(one, name) for one in estimated]
            left.errorbar(
                [(one.sigma or 0.0) + move for one in estimated],
                [v.value for v in values],
                [[v.value - v.low for v in values], [v.high - v.value for v in values]],
                color=colour,
                marker="o",
                markersize=5,
                linewidth=1.4,
                capsize=3,
                label={"dr": "doubly robust", "ips": "self-normalised"}[name],
            )
        left.axhline(found[0].logged, color=GREY, linewidth=1.0, linestyle="--")
        refused = [one.sigma or 0.0 for one in found if one.refused is not None]
        if refused:
            # On the axis itself, whatever its range: no reward is meant.
            left.plot(
                refused,
                [0.0] * len(refused),
                "x",
                color=FAINT,
                clip_on=False,
                transform=left.get_xaxis_transform(),
                label="refused",
            )
        left.plot([], [], "--", color=GREY, linewidth=1.0, label="the log itself")
        left.set(xlabel="sigma", ylabel="reward a decision", xlim=(-0.04, 1.04))
        left.set_title(title, fontsize=10.5)
        left.legend(frameon=False, fontsize=8.5)
        right.plot(
            [one.sigma or 0.0 for one in found],
            [one.believed for one in found],
            color=DIAL[4],
            marker="o",
            markersize=5,
            linewidth=1.4,
            label="by the model's belief",
        )
        right.axhline(
            found[0].believed_logged,
            color=GREY,
            linewidth=1.0,
            linestyle="--",
            label="the log itself",
        )
        right.set(xlabel="sigma", ylabel="violations a decision", xlim=(-0.04, 1.04))
        right.set_title("And violated, as the limits believed", fontsize=10.5)
        right.set_ylim(0.0, 1.08 * max(0.01, *(one.believed for one in found)))
        right.legend(frameon=False, fontsize=8.5)
        return list(save_figure(figure, out, "evaluation", title, words).values())

"""What the study of real limits says: sentences, tables in the terminal, and one page to read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

from bridle.errors import NotPossible
from bridle.study.canvas import number
from bridle.study.real_figures import DOUBT, WORDS
from bridle.study.real_scope import DEFAULT, OWN, TOLD
from bridle.study.real_summary import Cell, Said, calibrations, cells
from bridle.study.report import (
    MAX_SETTINGS,
    REPORT,
    drawing,
    environment,
    flat,
    link,
    listed,
    made,
    mapping,
)

__all__ = ["lead", "print_real", "write_real_report"]

SURE = 0.99  # what the default plays is at least as probable
MEANINGS = {
    "Answers": "How often the teacher was asked whether an arm is allowed. The paper’s agent is "
    "taught with random examples beforehand.",
    "Checks": "Plays that were judged afterwards, as spot checks.",
    "E": "Plays that were not allowed. E/T is their share of all plays; “worst” is that of the "
    "worst seed.",
    "R": "Average regret: the best reward of all arms, denied ones too, less that of the arm "
    "played.",
    "Rc": "Average regret against the best allowed arm; a play that was not allowed earns nothing.",
    "Rc − told": "Rc above that of a mask that is told the limits and learns rewards as we do: "
    "what not knowing the limits costs.",
    "Abstentions": "Steps in which nothing was played, because nothing was known to be allowed.",
    "default": "bridle as it comes: what kind of limits there are is found out from the answers, "
    "arms in a declared group share theirs, and it asks when in doubt.",
    "rules, logistic": "The same questions, but only rules are learned, or only log odds.",
    "bcts": "The paper’s agent: it blends reward with what it was taught, σ = .25.",
    "Pairs": "An item and a unit: a band of people who share their limits, or a person where "
    "nobody declared bands.",
}


def lead(runs: pl.DataFrame, calibration: pl.DataFrame) -> list[str]:
    """Say what came out, in sentences computed from the results alone."""
    ours = [cell for cell in cells(runs) if cell.ours]
    others = [cell for cell in cells(runs) if cell.method not in (DEFAULT, TOLD)]
    told = [_on_errors(ours), _on_answers(ours), _on_others(others), _on_doubt(calibration)]
    return [sentence for sentence in told if sentence]


def _on_errors(ours: Sequence[Cell]) -> str:
    """Say where the default kept the share of denied plays below its doubt, in every seed."""
    if not ours:
        return ""
    kept = [cell for cell in ours if cell.worst <= DOUBT]
    broke = [cell for cell in ours if cell.worst > DOUBT]
    runs = sum(cell.seeds for cell in ours)
    if not broke:
        worst = max(ours, key=lambda cell: cell.worst)
        return (
            f"In every one of {runs} runs of the default at most {100 * worst.worst:.2f} % of the "
            f"plays were not allowed (the most in “{worst.world}”); it grants itself "
            f"{100 * DOUBT:g} %."
        )
    each = "; ".join(
        f"“{cell.world}” {100 * cell.share:.1f} % on average, {100 * cell.worst:.1f} % in the "
        "worst seed"
        for cell in sorted(broke, key=lambda cell: -cell.worst)
    )
    return (
        f"The default grants itself {100 * DOUBT:g} % of plays that are not allowed. It kept to "
        f"that in every seed of {len(kept)} of {len(ours)} worlds, and did NOT in {each}."
    )


def _on_answers(ours: Sequence[Cell]) -> str:
    """Say what the default asked for, and what not knowing the limits cost."""
    if not ours:
        return ""
    least, most = (end(ours, key=lambda cell: cell.answers) for end in (min, max))
    dear = max(ours, key=lambda cell: cell.excess)
    if len(ours) == 1:
        asked = f"{number(most.answers, 'E')} answers{_range(most)}"
    else:
        asked = (
            f"{number(least.answers, 'E')} (“{least.world}”) to {number(most.answers, 'E')} "
            f"answers (“{most.world}”) on average"
        )
    checks = max(cell.audits for cell in ours)
    checked = f" and had up to {number(checks, 'E')} plays checked" if checks else ""
    where = f" (“{dear.world}”)" if len(ours) > 1 else ""
    return (
        f"It asked for {asked}{checked}. Its regret is on average {dear.excess:.3f} above "
        f"that of a mask that is told the limits{where}."
    )


def _range(cell: Cell) -> str:
    return "" if cell.fewest == cell.most else f" ({cell.fewest:,} to {cell.most:,})"


def _on_others(others: Sequence[Cell]) -> str:
    told = []
    for method in WORDS:
        mine = [cell for cell in others if cell.method == method]
        if mine:
            worst = max(mine, key=lambda cell: cell.worst)
            kept = sum(cell.worst <= DOUBT for cell in mine)
            told.append(
                f"{method} kept below {100 * DOUBT:g} % in {kept} of {len(mine)} worlds (the worst "
                f"run: {100 * worst.worst:.1f} %, “{worst.world}”)"
            )
    return f"Beside it: {'; '.join(told)}." if told else ""


def _on_doubt(calibration: pl.DataFrame) -> str:
    """Say how right the doubt is, where it matters most: at the bar for playing."""
    told = []
    for by_answers in calibrations(calibration).values():
        for one in by_answers.get(OWN, ()):
            if one.least == SURE and one.true_share is not None:
                wrong = 100 * (1 - one.true_share)
                told.append(f"“{one.world}” {wrong:.2f} % of {one.pairs:,}")
    if not told:
        return ""
    return (
        f"Of pairs that it never asked about and was {100 * SURE:g} % sure of, so many are not "
        f"allowed: {'; '.join(told)}."
    )


# -- the terminal --------------------------------------------------------------------------------


HEADINGS = ("answers", "checks", "E", "E/T, worst", "R", "Rc − told", "abst.")


def print_real(console: Console, runs: pl.DataFrame) -> None:
    """Show the table of each world in the terminal."""
    for world, members in _by_world(runs).items():
        table = Table(
            title=f"{world}: T = {members[0].T:,}, means over {members[0].seeds} seeds",
            title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0),
            pad_edge=False,
        )  # fmt: skip
        table.add_column("method", overflow="fold")
        for name in HEADINGS:
            table.add_column(name, justify="right", no_wrap=True)
        for cell in members:
            table.add_row(cell.method, *_entries(cell), style="bold" if cell.ours else None)
        console.print()
        console.print(table)


def _entries(cell: Cell) -> list[str]:
    told = cell.method == TOLD
    return [
        "told" if told else f"{number(cell.answers, 'E')}{_range(cell)}",
        number(cell.audits, "E"), number(cell.E, "E"), f"{100 * cell.worst:.2f} %",
        f"{cell.R:.3f}", "–" if told else f"{cell.excess:+.3f}", number(cell.abstentions, "E"),
    ]  # fmt: skip


def _by_world(runs: pl.DataFrame) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in cells(runs):
        found.setdefault(cell.world, []).append(cell)
    return found


# -- the page ------------------------------------------------------------------------------------


def write_real_report(
    out: Path,
    *,
    manifest: Mapping[str, Any],
    runs: pl.DataFrame,
    calibration: pl.DataFrame,
    figures: Mapping[str, Path],
) -> Path:
    """Write `report.html` into the folder `out` and return its path.

    Parameters
    ----------
    out : Path
        A folder that is there.
    manifest : mapping
        How the study was made, as in `manifest.json`. What is absent is left out.
    runs, calibration : DataFrame
        What `real.csv` and `calibration.csv` hold.
    figures : mapping from file name to path
        As `draw_real` returns it. The SVG files are taken into the page.
    """
    view = _view(manifest, runs, calibration, figures)
    page = environment().get_template("real.html.j2").render(**view)
    path = Path(out) / REPORT
    draft = path.with_name(f".{REPORT}.{os.getpid()}")
    try:
        draft.write_text(page, encoding="utf-8", newline="\n")
        draft.replace(path)  # never half a page
    except OSError as error:
        raise NotPossible(
            f"The report {str(path)!r} cannot be written: {error.strerror or error}."
        ) from error
    return path


def _view(
    manifest: Mapping[str, Any],
    runs: pl.DataFrame,
    calibration: pl.DataFrame,
    figures: Mapping[str, Path],
) -> dict[str, Any]:
    """Return everything that the page shows, as texts."""
    origins = mapping(manifest.get("origins"))
    return {
        "title": "Limits that people really set",
        "quick": bool(manifest.get("quick")),
        "facts": _facts(manifest, runs),
        "lead": lead(runs, calibration),
        "skipped": listed(manifest.get("skipped")),
        "drawings": [drawing(path) for path in figures.values() if path.suffix == ".svg"],
        "words": MEANINGS,
        "tables": [_table(members) for members in _by_world(runs).values()],
        "doubts": [_doubt(world, said) for world, said in calibrations(calibration).items()],
        "origins": _origins(origins),
        "command": str(manifest.get("command") or ""),
        "settings": [*flat(mapping(manifest.get("settings")))][:MAX_SETTINGS],
        "made": made(manifest),
    }


def _facts(manifest: Mapping[str, Any], runs: pl.DataFrame) -> list[str]:
    worlds = runs["world"].n_unique()
    facts = [f"{worlds} world{'s' if worlds > 1 else ''}", f"{len(runs):,} runs"]
    if isinstance(manifest.get("seconds"), int | float):
        facts.append(f"{manifest['seconds']:,.0f} s")
    if manifest.get("started"):
        facts.append(str(manifest["started"])[:10])
    if manifest.get("bridle"):
        facts.append(f"bridle {manifest['bridle']}")
    return facts


def _table(members: Sequence[Cell]) -> dict[str, Any]:
    first = members[0]
    return {
        "caption": f"{first.world}: T = {first.T:,}, {first.seeds} seed"
        f"{'s' if first.seeds > 1 else ''}",
        "rows": [
            {
                "method": cell.method, "words": WORDS.get(cell.method, "told the limits"),
                "ours": cell.ours, "entries": [*_pairs(cell)],
            }
            for cell in members
        ],
    }  # fmt: skip


def _pairs(cell: Cell) -> list[tuple[str, str, bool | None]]:
    """Return the entries of a row: a value, what stands below it, and whether it is good."""
    told = cell.method == TOLD
    ends = "" if told or cell.fewest == cell.most else f"{cell.fewest:,}–{cell.most:,}"
    good = None if told else cell.worst <= DOUBT
    return [
        ("told" if told else number(cell.answers, "E"), ends, None),
        (number(cell.audits, "E"), "", None),
        (number(cell.E, "E"), f"{100 * cell.share:.2f} %", None),
        (f"{100 * cell.worst:.2f} %", "", good),
        (f"{cell.R:.3f}", "", None),
        (f"{cell.Rc:.3f}", "", None),
        ("–" if told else f"{cell.excess:+.3f}", "", None),
        (number(cell.abstentions, "E"), "", None),
    ]


def _doubt(world: str, by_answers: Mapping[str, Sequence[Said]]) -> dict[str, Any]:
    rows = []
    for answers, said in by_answers.items():
        after = "own questions" if answers == OWN else f"{int(answers):,} random"
        entries = [
            ("–", "", None)
            if one.true_share is None
            else (
                f"{100 * one.true_share:.2f} %", f"of {one.pairs:,}", one.true_share >= one.least,
            )
            for one in said
        ]  # fmt: skip
        rows.append({"after": after, "entries": entries})
    thresholds = [f"≥ {one.least:g}" for one in next(iter(by_answers.values()))]
    return {"world": world, "columns": thresholds, "rows": rows}


def _origins(origins: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return where data came from; worlds that share theirs stand together."""
    found: dict[str, dict[str, Any]] = {}
    for world, given in origins.items():
        origin = mapping(given)
        limits = str(origin.get("limits") or "")
        same = {key: value for key, value in origin.items() if key != "limits"}
        entry = found.setdefault(
            json.dumps(same, sort_keys=True, default=str),
            {
                "worlds": [],
                "synthetic": bool(origin.get("synthetic")),
                **{key: str(origin.get(key) or "") for key in ("title", "about", "licence")},
                "link": link(origin.get("url")),
                "notes": listed(origin.get("notes")),
                "files": mapping(origin.get("files")),
            },
        )
        entry["worlds"].append((world, limits))
    return [*found.values()]

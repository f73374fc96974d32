"""What the frontier shows: figures, a table in the terminal, and one page to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

from bridle_studies.frontier.figures import draw_frontier, method_label, swept_worlds
from bridle_studies.scaffold.canvas import number
from bridle_studies.scaffold.report import (
    drawings,
    facts,
    mapping,
    origin_view,
    run_view,
    write_page,
)

__all__ = ["Cell", "cells", "draw_frontier", "lead", "print_table", "write_frontier_report"]

# What the headline is held against: the paper's best position of the dial, and its answers.
PAPERS, PAPERS_N = "sigma=0.25", 50_000
AUTO = "doubt+auto+groups"
# Of methods with at most so many violations the one with the fewest answers is the headline.
CLEAN = 1.0
WORDS = {
    "Answers": "How often the teacher was asked whether an arm is allowed. Empty where a method "
    "was given the truth.",
    "R": "Average regret: the best reward of all arms, denied ones too, less that of the arm "
    "played.",
    "E": "Violations: how many denied arms were played.",
    "Rc": "Average regret against the best allowed arm; a denied play earns nothing. R alone "
    "rewards violating.",
    "Abstentions": "Steps in which nothing was played, because nothing was allowed or known to be. "
    "They earn nothing.",
    "single, pairs, both": "Three kinds of limits on the same movies: single genres are denied to "
    "age bands; four random pairs of genres are, to each; both.",
    "mask, best-linear, best-allowed": "They are given the limits: the paper’s agent inside them, "
    "the best linear policy inside them, the best allowed arm of every movie.",
    "σ": "The paper’s agent: it blends reward and what it was taught at random. σ = 1 looks at "
    "reward alone.",
    "logistic-mask, groups, active-pool": "Masks learned beforehand: from random questions, an arm "
    "or an age band; or from questions chosen to teach most, out of all contexts, where the mask "
    "is what is likely allowed (“-own”: out of the fold’s own, and it is what is safe).",
    "doubt": "Nothing is taught beforehand. The agent asks where the best arm that may be allowed "
    "is not surely allowed. “+prior”: with a better reward side, as all that follow; “+groups”: "
    "arms of one band share their limits; “+rules”: limits are short rules; “+found”: groups are "
    "found, not declared; “+auto”: the kind of limits is found, too.",
    "noisy": "One answer in ten is wrong, at random, and the method finds that out by itself. "
    "“-random”: a mask learned beforehand from random questions, rules an arm at a time. Only "
    "where single genres are denied.",
}


@dataclass(frozen=True)
class Cell:
    """A method in a world: means over seeds, and the least and most of each measure."""

    world: str
    method: str
    examples: int | None
    seeds: int
    steps: int
    mean: Mapping[str, float | None]
    low: Mapping[str, float | None]
    high: Mapping[str, float | None]


MEASURES = ("answers", "R", "E", "Rc", "abstentions")


def cells(runs: pl.DataFrame) -> list[Cell]:
    """Gather runs into a cell for each world, method and N, in the order in which they stand."""
    gathered = runs.group_by("world", "method", "examples", maintain_order=True).agg(
        pl.len().alias("seeds"),
        pl.col("steps").max(),
        *(pl.col(name).mean().alias(f"{name}_mean") for name in MEASURES),
        *(pl.col(name).min().cast(pl.Float64).alias(f"{name}_low") for name in MEASURES),
        *(pl.col(name).max().cast(pl.Float64).alias(f"{name}_high") for name in MEASURES),
    )
    return [
        Cell(
            row["world"],
            row["method"],
            row["examples"],
            row["seeds"],
            row["steps"],
            *(
                {name: row[f"{name}_{kind}"] for name in MEASURES}
                for kind in ("mean", "low", "high")
            ),
        )
        for row in gathered.iter_rows(named=True)
    ]


def lead(runs: pl.DataFrame) -> list[str]:
    """Return what came out, in sentences computed from the runs alone."""
    shown = [cell for cell in cells(runs) if cell.world not in swept_worlds(runs)]
    if not shown:
        return []
    first = [cell for cell in shown if cell.world == shown[0].world]
    told = [_headline(first), _best_possible(first), _auto(shown), _noisy(first)]
    return [sentence for sentence in told if sentence]


def _headline(first: Sequence[Cell]) -> str:
    """Compare the cheapest clean method of ours with the paper's."""
    clean = [
        cell
        for cell in first
        if cell.method.startswith("doubt") and (cell.mean["E"] or 0.0) <= CLEAN
    ]
    paper = _paper(first)
    if paper is None:
        return ""
    theirs = f"{method_label(paper.method)} ({_told(paper)})"
    if not clean:
        return f"No method that asks when in doubt kept E at {CLEAN:g} or below; beside {theirs}."
    ours = min(clean, key=lambda cell: cell.mean["answers"] or 0.0)
    return (
        f"In the world “{ours.world}”, {ours.method} took {_count(ours.mean['answers'])} answers "
        f"({_range(ours, 'answers')} over {ours.seeds} seeds) instead of the paper’s "
        f"{_count(paper.mean['answers'])}: E {number(ours.mean['E'] or 0.0, 'E')} and R "
        f"{number(ours.mean['R'] or 0.0, 'R')}, beside {theirs}."
    )


def _best_possible(first: Sequence[Cell]) -> str:
    known = {cell.method: cell.mean["R"] or 0.0 for cell in first if cell.mean["answers"] is None}
    if not known.keys() >= {"best-allowed", "best-linear", "mask"}:
        return ""
    linear = known["best-linear"]
    asked = [cell for cell in first if cell.method.startswith("doubt+")]
    near = min(
        (c for c in asked if (c.mean["E"] or 0.0) <= CLEAN),
        key=lambda c: c.mean["R"] or 0.0,
        default=None,
    )
    text = (
        f"Who is given the limits has R {known['mask']:.3f} as the paper’s mask, {linear:.3f} as "
        f"the best linear policy inside them and {known['best-allowed']:.3f} with the best allowed "
        "arm each time."
    )
    if near is None:
        return text
    gap = (near.mean["R"] or 0.0) - linear
    return (
        f"{text} {near.method}, which is told no limits and asks, has {near.mean['R']:.3f}: "
        f"{abs(gap):.3f} {'above' if gap > 0 else 'below'} the best linear policy, its "
        "abstentions counted."
    )


def _auto(shown: Sequence[Cell]) -> str:
    found = [cell for cell in shown if cell.method == AUTO]
    if not found:
        return ""
    each = "; ".join(
        f"{_count(cell.mean['answers'])} answers, E {number(cell.mean['E'] or 0.0, 'E')} in "
        f"“{cell.world}”"
        for cell in found
    )
    return f"Without being told what kind of limits there are ({AUTO}, one setting): {each}."


def _noisy(first: Sequence[Cell]) -> str:
    found = [cell for cell in first if cell.method.startswith("noisy")]
    if not found:
        return ""
    each = "; ".join(f"{cell.method}: {_told(cell)}" for cell in found)
    return f"With one answer in ten wrong, and nobody telling how many: {each}."


def _paper(first: Sequence[Cell]) -> Cell | None:
    dial = [cell for cell in first if cell.method == PAPERS]
    exact = [cell for cell in dial if cell.examples == PAPERS_N]
    return next(iter(exact or dial[-1:]), None)


def _told(cell: Cell) -> str:
    E, R = number(cell.mean["E"] or 0.0, "E"), number(cell.mean["R"] or 0.0, "R")
    return f"{_count(cell.mean['answers'])} answers, E {E}, R {R}"


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _range(cell: Cell, name: str) -> str:
    low, high = cell.low[name], cell.high[name]
    if low is None or high is None:
        return ""
    form = ".3f" if name in ("R", "Rc") else ",.0f"
    ends = dict.fromkeys((f"{low:{form}}", f"{high:{form}}"))
    return "–".join(ends)


def print_table(console: Console, runs: pl.DataFrame, manifest: Mapping[str, Any]) -> None:
    """Show the table of each world in the terminal, without the sweep."""
    title = str(mapping(manifest.get("origin")).get("title") or manifest.get("world") or "")
    for world, members in _by_world(runs):
        table = Table(
            title=f"{world}: {title}, T = {members[0].steps:,}, means (and ranges) over "
            f"{members[0].seeds} seeds",
            title_justify="left",
            title_style="bold",
            box=None,
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        for name in ("method", "answers", "R", "E", "Rc", "abst."):
            # In a narrow terminal a long name is folded, never a number.
            if name == "method":
                table.add_column(name, overflow="fold")
            else:
                table.add_column(name, justify="right", no_wrap=True)
        for cell in members:
            row = [_entry(cell, name) for name in MEASURES]
            table.add_row(
                cell.method,
                *(
                    f"{value} ({spread})" if spread and name in ("answers", "E") else value
                    for name, (value, spread) in zip(MEASURES, row, strict=True)
                ),
            )
        console.print()
        console.print(table)


def _entry(cell: Cell, name: str) -> tuple[str, str]:
    """Return a value and its range over seeds, as texts; the range only where there is one."""
    value = cell.mean[name]
    if value is None:
        return "", ""
    text = number(value, "R" if name in ("R", "Rc") else "E")
    low, high = cell.low[name], cell.high[name]
    alone = name in ("Rc", "abstentions") or low == high
    return text, "" if alone else _range(cell, name)


def _by_world(runs: pl.DataFrame) -> Iterable[tuple[str, list[Cell]]]:
    swept = swept_worlds(runs)
    gathered: dict[str, list[Cell]] = {}
    for cell in cells(runs):
        if cell.world not in swept:
            gathered.setdefault(cell.world, []).append(cell)
    return gathered.items()


def write_frontier_report(
    out: Path,
    *,
    manifest: Mapping[str, Any],
    runs: pl.DataFrame,
    figures: Mapping[str, Path],
) -> Path:
    """Write `report.html` into the folder `out` and return its path.

    Parameters
    ----------
    out : Path
        A folder that is there.
    manifest : mapping
        How the frontier was made, as in `manifest.json`. What is absent is left out.
    runs : DataFrame
        A row a run.
    figures : mapping from file name to path
        As `draw_frontier` returns it. The SVG files are taken into the page.
    """
    return write_page(out, "frontier.html.j2", _view(manifest, runs, figures))


def _view(
    manifest: Mapping[str, Any], runs: pl.DataFrame, figures: Mapping[str, Path]
) -> dict[str, Any]:
    """Return everything that the page shows, as texts."""
    origin = mapping(manifest.get("origin"))
    synthetic = bool(origin.get("synthetic"))
    name = str(origin.get("title") or manifest.get("world") or "a world")
    drawn = drawings(figures)
    swept = [cell for cell in cells(runs) if cell.world in swept_worlds(runs)]
    return {
        "title": f"Limits learned with few answers: {name}",
        "synthetic": synthetic,
        "facts": _facts(manifest, runs),
        "lead": lead(runs),
        "drawings": [drawing for drawing in drawn if drawing.name != "alignment"],
        "alignment": next((drawing for drawing in drawn if drawing.name == "alignment"), None),
        "words": WORDS,
        "tables": [
            {
                "caption": f"{world}{_made_up(world, synthetic)}, T = {members[0].steps:,}, "
                f"{members[0].seeds} seeds",
                "rows": [_row(cell) for cell in members],
            }
            for world, members in _by_world(runs)
        ],
        "sweep": {
            "caption": f"Density and alignment, synthetic, T = {swept[0].steps:,}, "
            f"{swept[0].seeds} seeds",
            "rows": [{**_row(cell), "world": cell.world} for cell in swept],
        }
        if swept
        else None,
        **origin_view(origin),
        **run_view(manifest),
    }


def _row(cell: Cell) -> dict[str, Any]:
    entries = [_entry(cell, name) for name in MEASURES]
    clean = cell.mean["answers"] is not None and (cell.mean["E"] or 0.0) <= CLEAN
    return {
        "method": cell.method.replace("sigma=", "σ = "),
        "entries": entries,
        "clean": clean,
        "ours": "doubt" in cell.method,
    }


def _facts(manifest: Mapping[str, Any], runs: pl.DataFrame) -> list[str]:
    seeds = runs["fold"].n_unique()
    return [f"{len(runs):,} runs", "1 seed" if seeds == 1 else f"{seeds} seeds", *facts(manifest)]


def _made_up(world: str, synthetic: bool) -> str:
    return " (synthetic data)" if synthetic and "synthetic" not in world else ""

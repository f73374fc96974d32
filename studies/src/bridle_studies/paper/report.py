"""The report of a study: one page that needs nothing else, no script, no request of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from bridle_studies.paper.claim import Claim
from bridle_studies.paper.figures import TEACHINGS
from bridle_studies.paper.published import MOVIES, WARFARIN, Figures, agrees
from bridle_studies.paper.telling import PAPER_TITLE, WORDS, in_greek, lead, reasons
from bridle_studies.scaffold.canvas import DIAL, agent_label, number, sort_agents
from bridle_studies.scaffold.report import (
    drawings,
    facts,
    mapping,
    origin_view,
    run_view,
    write_page,
)

__all__ = ["write_report"]

TABLES = {"thompson": "Table 1", "random": "Table 2"}  # the paper's, for movies
VERDICTS = {True: "holds", False: "does not hold", None: "not judged"}


def write_report(
    out: Path,
    *,
    manifest: Mapping[str, Any],
    results: pl.DataFrame,
    summary: pl.DataFrame,
    claims: Sequence[Claim],
    figures: Mapping[str, Path],
) -> Path:
    """Write `report.html` into the folder `out` and return its path.

    Parameters
    ----------
    out : Path
        A folder, made if it is not there.
    manifest : mapping
        How the study was made, as in `manifest.json`. What is absent is left out.
    results, summary : DataFrame
        A row a run; a row a cell, as `summarise` gives it.
    claims : list of Claim
        What became of the paper's claims.
    figures : mapping from file name to path
        As `draw_figures` gives it. The SVG files are taken into the page; titles, captions and
        alternative texts are read from them.
    """
    view = _view(manifest, results, summary, claims, figures)
    return write_page(out, "report.html.j2", view)


def _view(
    manifest: Mapping[str, Any],
    results: pl.DataFrame,
    summary: pl.DataFrame,
    claims: Sequence[Claim],
    figures: Mapping[str, Path],
) -> dict[str, Any]:
    """Return everything that the page shows, as texts."""
    origin = mapping(manifest.get("origin"))
    world = str(manifest.get("world") or (results["world"][0] if len(results) else "a world"))
    synthetic = bool(origin.get("synthetic")) or "synthetic" in world.lower()
    named = world if "synthetic" in world.lower() or not synthetic else f"synthetic {world}"
    T = int(results["steps"].max() or 0)  # type: ignore[arg-type]
    # In the order in which they were drawn: regret before errors, Thompson before random.
    drawn = drawings(figures)
    everywhere = _said_by_all(claims)
    own = world not in (*MOVIES, *WARFARIN)
    shown = named[:1].upper() + named[1:]
    return {
        "title": f"{shown}: the paper’s experiment on a world of your own"
        if own
        else f"{shown}: the paper, reproduced",
        "own": own,
        "paper": PAPER_TITLE,
        "synthetic": synthetic,
        "dial": DIAL,
        "lead": lead(manifest, results, summary, claims, str(origin.get("title") or named)),
        "facts": _facts(manifest, results, T, synthetic),
        "overview": next((drawing for drawing in drawn if drawing.name == "overview"), None),
        "drawings": [drawing for drawing in drawn if drawing.name != "overview"],
        "words": WORDS,
        "tables": [*_tables(summary, world, named, T)],
        "compared": any(summary[f"paper_{letter}"].is_not_null().any() for letter in "RE"),
        "claims": [
            {
                "key": claim.key,
                "title": in_greek(claim.title),
                "paper": in_greek(claim.paper),
                "caveat": claim.caveat,
                "verdict": VERDICTS[claim.holds],
                "mark": {True: "✓", False: "✗", None: "?"}[claim.holds],
                "evidence": [in_greek(line) for line in claim.evidence if line not in everywhere],
            }
            for claim in claims
        ],
        "verdicts": {
            word: sum(claim.holds is value for claim in claims) for value, word in VERDICTS.items()
        },
        "everywhere": [in_greek(line) for line in everywhere],
        "reasons": reasons(
            summary, world=world, T=T, synthetic=synthetic, features=_features(manifest)
        ),
        **origin_view(origin),
        **run_view(manifest),
    }


# -- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One number of a table: ours, its interval, the paper's, and whether they agree."""

    value: str
    interval: str = ""
    paper: str = ""
    agrees: bool | None = None


def _tables(summary: pl.DataFrame, world: str, named: str, T: int) -> Iterator[dict[str, Any]]:
    found = summary["teaching"].unique().to_list()
    known = [name for name in TEACHINGS if name in found]
    others = sorted(name for name in found if name is not None and name not in TEACHINGS)
    for teaching in [*known, *others] or [None]:
        rows = summary.filter(pl.col("teaching").eq_missing(pl.lit(teaching, pl.String)))
        agents = sort_agents(rows["agent"].to_list())
        groups = []
        for N in rows["examples"].unique().sort().to_list():
            cells = {
                row["agent"]: row
                for row in rows.filter(pl.col("examples").eq_missing(N)).iter_rows(named=True)
            }
            lines = [
                (letter, [_entry(cells.get(agent), letter) for agent in agents])
                for letter in ("R", "E", "Rc")
            ]
            groups.append({"N": "none" if N is None else f"{N:,}", "lines": lines})
        how = TEACHINGS.get(teaching or "", f"{teaching} teaching" if teaching else "no teaching")
        number_ = f"{TABLES[teaching]}. " if world in MOVIES and teaching in TABLES else ""
        yield {
            "caption": f"{number_}{named[:1].upper()}{named[1:]}, {how}, T = {T:,}",
            "agents": [agent_label(agent) for agent in agents],
            "groups": groups,
        }


def _entry(row: Mapping[str, Any] | None, letter: str) -> _Entry:
    if row is None or row.get(letter) is None:
        return _Entry(value="–")
    form = "R" if letter != "E" else "E"
    low, high = row.get(f"{letter}_low"), row.get(f"{letter}_high")
    paper = row.get(f"paper_{letter}")
    same = None
    if paper is not None:
        theirs = Figures(paper, None) if letter == "R" else Figures(None, paper)
        same = agrees(row["R"], row["E"], theirs)
    return _Entry(
        value=number(row[letter], form),
        interval="" if low is None or high is None else f"{number(low, form)}–{number(high, form)}",
        paper="" if paper is None else number(paper, form),
        agrees=same,
    )


# -- how it was done -----------------------------------------------------------------------------


def _facts(
    manifest: Mapping[str, Any], results: pl.DataFrame, T: int, synthetic: bool
) -> list[str]:
    runs = int(manifest.get("runs") or len(results))
    folds = results["fold"].n_unique()
    title = mapping(manifest.get("origin")).get("title")
    data = [str(title)] if title and not synthetic else []
    folded = "1 fold" if folds == 1 else f"{folds} folds"
    return [*data, f"{runs:,} runs", f"T = {T:,}", folded, *facts(manifest)]


def _features(manifest: Mapping[str, Any]) -> int | None:
    """Return d, the length of a context, where the settings of the world say it."""
    world = mapping(mapping(manifest.get("settings")).get("world"))
    for name in ("features", "genres"):  # a movie is its genres
        value = world.get(name)
        found = len(value) if isinstance(value, list | tuple) else value
        if isinstance(found, int) and not isinstance(found, bool) and found > 0:
            return found
    return None


def _said_by_all(claims: Sequence[Claim]) -> list[str]:
    """Return the sentences in the evidence of every claim, which need be read only once."""
    if len(claims) < 2:
        return []
    first, *rest = claims
    return [line for line in first.evidence if all(line in claim.evidence for claim in rest)]

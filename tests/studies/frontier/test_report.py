from __future__ import annotations

import io
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest
from rich.console import Console

from bridle_studies.frontier.figures import draw_frontier, swept_worlds
from bridle_studies.frontier.report import cells, lead, print_table, write_frontier_report
from bridle_studies.frontier.run import SCHEMA
from tests.studies.paper.test_report import Page

MANIFEST: dict[str, Any] = {
    "world": "movies",
    "quick": False,
    "seconds": 61.0,
    "bridle": "0.9",
    "seed": 4,
    "started": "2026-11-16T06:00:00+00:00",
    "settings": {"scope": {"folds": 2}},
    "origin": {
        "title": "Movie <Lens>",
        "synthetic": False,
        "about": "Ratings.",
        "files": {"a.zip": "ab" * 32},
        "notes": ["a note"],
        "url": "javascript:alert(1)",
    },
    "command": "bridle study frontier --out x",
}


def row(world, method, answers, R, E, *, fold=0, examples=None, steps=1_000):
    return {
        "world": world,
        "method": method,
        "examples": examples,
        "fold": fold,
        "steps": steps,
        "answers": answers,
        "R": R,
        "E": E,
        "Rc": R / 2,
        "abstentions": 3,
    }


def runs_of(*rows):
    return pl.DataFrame(list(rows), schema=SCHEMA)


RUNS = runs_of(
    *(
        line
        for fold in (0, 1)
        for line in (
            row("single", "best-allowed", None, 0.01, 0, fold=fold),
            row("single", "best-linear", None, 0.12, 0, fold=fold),
            row("single", "mask", None, 0.17, 0, fold=fold),
            row("single", "sigma=0.25", 5_000, 0.27, 300, fold=fold, examples=5_000),
            row("single", "sigma=0.25", 50_000, 0.22, 2 + fold, fold=fold, examples=50_000),
            row("single", "sigma=1", 0, 0.16, 20_000, fold=fold, examples=0),
            row("single", "active-pool", 500, 0.95, 0, fold=fold, examples=500),
            row("single", "doubt+rules", 900 + fold, 0.121, 0, fold=fold),
            row("single", "doubt+rules+groups", 70 + 4 * fold, 0.124, 0, fold=fold),
            row("single", "doubt+auto+groups", 90, 0.13, 0, fold=fold),
            row("pairs", "doubt+rules+groups", 50, 0.11, 3_000, fold=fold),
            row("pairs", "doubt+auto+groups", 260, 0.11, 1, fold=fold),
            row("synthetic density=0.1 alignment=-1", "mask", None, 0.2, 0, fold=fold),
            row("synthetic density=0.1 alignment=1", "mask", None, 0.1, 0, fold=fold),
        )
    )
)


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    return draw_frontier(tmp_path_factory.mktemp("figures"), RUNS, synthetic=False)


@pytest.fixture(scope="module")
def html(figures):
    folder = next(iter(figures.values())).parent
    path = write_frontier_report(folder, manifest=MANIFEST, runs=RUNS, figures=figures)
    assert path.name == "report.html"
    return path.read_text(encoding="utf-8")


def test_the_headline_is_the_cheapest_clean_method_of_ours():
    first, best, auto = lead(RUNS)
    assert "doubt+rules+groups took 72 answers (70–74 over 2 seeds)" in first
    assert "instead of the paper’s 50,000" in first
    assert "E 0 and R 0.124" in first and "E 2.5, R 0.220" in first
    assert "0.170 as the paper’s mask, 0.120" in best and "0.010" in best
    assert "doubt+rules, which is told no limits and asks, has 0.121: 0.001 above" in best
    assert "90 answers, E 0 in “single”; 260 answers, E 1 in “pairs”" in auto


def test_the_headline_says_if_none_was_clean():
    dirty = RUNS.with_columns(
        E=pl.when(pl.col("method").str.starts_with("doubt")).then(50).otherwise(pl.col("E"))
    )
    assert lead(dirty)[0].startswith("No method that asks when in doubt kept E at 1")
    assert "doubt" not in lead(dirty)[1]


def test_a_noisy_teacher_has_a_sentence_and_a_hollow_mark(tmp_path):
    noisy = runs_of(
        *RUNS.rows(named=True),
        row("single", "noisy-random", 50_000, 0.171, 0, examples=50_000),
        row("single", "noisy+doubt+rules+groups", 285, 0.13, 0),
    )
    assert lead(noisy)[:3] == lead(RUNS)  # they do not count as the cheapest
    assert lead(noisy)[3] == (
        "With one answer in ten wrong, and nobody telling how many: noisy-random: 50,000 answers, "
        "E 0, R 0.171; noisy+doubt+rules+groups: 285 answers, E 0, R 0.130."
    )
    console = Console(record=True, width=62, file=io.StringIO())
    print_table(console, noisy, MANIFEST)
    assert "285 0.130" in console.export_text()  # a narrow terminal folds names, not numbers
    figures = draw_frontier(tmp_path, noisy, synthetic=False)
    assert "Hollow: one answer in ten" in figures["frontier-single.svg"].read_text("utf-8")
    assert "Hollow" not in figures["frontier-pairs.svg"].read_text("utf-8")


def test_nothing_is_said_of_nothing():
    assert lead(RUNS.filter(pl.col("world").str.contains("density"))) == []
    assert lead(runs_of()) == []


def test_cells_have_least_and_most():
    cell = next(c for c in cells(RUNS) if c.method == "doubt+rules+groups")
    assert (cell.low["answers"], cell.mean["answers"], cell.high["answers"]) == (70, 72, 74)
    assert cell.seeds == 2 and cell.steps == 1_000


def test_the_page_is_whole_and_needs_nothing_else(html):
    page = Page(html)
    assert html.lstrip().startswith("<!doctype html>")
    for image in page.all("img"):
        assert image["src"].startswith("data:image/svg+xml;base64,") and image["alt"]
    assert not page.all("script") and not page.all("link")
    assert all(not a["href"].startswith("javascript") for a in page.all("a"))
    assert "Movie &lt;Lens&gt;" in html
    for sentence in lead(RUNS):
        assert sentence in page.text
    assert "70–74" in page.text and "σ = 0.25" in page.text
    assert "synthetic: data made up" not in page.text  # the data are real, the sweep is not
    assert "Synthetic movies." in page.text


def test_what_is_synthetic_is_called_so(tmp_path):
    made_up = {**MANIFEST, "origin": {**MANIFEST["origin"], "synthetic": True}}
    figures = draw_frontier(tmp_path, RUNS.filter(world="single"), synthetic=True)
    path = write_frontier_report(tmp_path, manifest=made_up, runs=RUNS, figures=figures)
    assert "synthetic: data made up by bridle" in path.read_text(encoding="utf-8")
    assert "(synthetic)" in figures["frontier-single.svg"].read_text(encoding="utf-8")


def test_figures_have_words_and_come_out_the_same(figures, tmp_path):
    assert {*figures} == {
        f"{name}.{kind}"
        for name in ("frontier-single", "frontier-pairs", "alignment")
        for kind in ("png", "svg")
    }
    root = ElementTree.fromstring(figures["frontier-single.svg"].read_bytes())
    said = next(e.text for e in root.iter("{http://purl.org/dc/elements/1.1/}description"))
    assert said is not None and "doubt+rules+groups: 72 answers, R 0.124, E 0" in said
    again = draw_frontier(tmp_path, RUNS, synthetic=False)
    assert again["alignment.svg"].read_bytes() == figures["alignment.svg"].read_bytes()


def test_worlds_of_the_sweep_are_told_by_their_names():
    assert swept_worlds(RUNS) == {
        "synthetic density=0.1 alignment=-1": (0.1, -1.0),
        "synthetic density=0.1 alignment=1": (0.1, 1.0),
    }


def test_the_terminal_shows_each_world_but_not_the_sweep():
    console = Console(record=True, width=110, file=io.StringIO())
    print_table(console, RUNS, MANIFEST)
    text = console.export_text()
    assert "single: Movie <Lens>" in text and "72 (70–74)" in text
    assert "density=" not in text

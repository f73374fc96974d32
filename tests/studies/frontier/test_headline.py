from __future__ import annotations

import io
from xml.etree import ElementTree

import polars as pl
from rich.console import Console

from bridle_studies.frontier.headline import WORDS, draw_headline, print_headline
from bridle_studies.frontier.scope import HEADLINE
from tests.studies.frontier.test_report import MANIFEST, RUNS, runs_of


def shown(runs, width=80):
    console = Console(record=True, width=width, file=io.StringIO())
    print_headline(console, runs, MANIFEST)
    return console.export_text()


def test_every_method_of_the_headline_has_words():
    assert tuple(WORDS) == HEADLINE


def test_the_terminal_shows_answers_regret_and_violations():
    lines = shown(RUNS).splitlines()
    assert lines[1].startswith("single: Movie <Lens>, T = 1,000, means over 2 seeds")
    (ours,) = (line for line in lines if "doubt+rules+groups" in line)
    assert ours.split()[-4:] == ["doubt+rules+groups", "72", "0.124", "0"]
    (mask,) = (line for line in lines if line.startswith("mask "))
    assert mask.split()[-4:] == ["mask", "told", "0.170", "0"]
    (paper,) = (line for line in lines if "sigma=0.25" in line)
    assert paper.split()[-3:] == ["50,000", "0.220", "2.5"]  # the largest N


def test_other_methods_and_worlds_are_left_out():
    text = shown(RUNS)
    assert "active-pool" not in text and "pairs" not in text and "density" not in text


def test_the_figure_has_words_and_comes_out_the_same(tmp_path):
    paths = draw_headline(tmp_path, RUNS, synthetic=False)
    assert {*paths} == {"headline.png", "headline.svg"}
    svg = paths["headline.svg"].read_bytes()
    root = ElementTree.fromstring(svg)
    said = next(e.text for e in root.iter("{http://purl.org/dc/elements/1.1/}description"))
    assert said is not None
    assert "ours, taking limits for single rules: 72 answers, R 0.124, E 0" in said
    assert "mask: told answers" not in said and "mask: limits told, R 0.170, E 0" in said
    assert (
        draw_headline(tmp_path / "again", RUNS, synthetic=False)["headline.svg"].read_bytes() == svg
    )


def test_what_is_synthetic_is_called_so(tmp_path):
    paths = draw_headline(tmp_path, RUNS, synthetic=True)
    assert "single (synthetic)" in paths["headline.svg"].read_text("utf-8")


def test_a_world_without_any_violation_or_answer_is_drawn(tmp_path):
    clean = RUNS.filter(pl.col("method") == "mask")
    assert draw_headline(tmp_path, clean, synthetic=False)["headline.png"].stat().st_size > 0


def test_nothing_is_shown_of_nothing(tmp_path):
    assert draw_headline(tmp_path, runs_of(), synthetic=False) == {}
    assert shown(runs_of()) == ""

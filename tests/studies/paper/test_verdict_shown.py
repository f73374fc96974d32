"""How verdicts are shown and written; what they are is in test_verdict."""

from __future__ import annotations

import io
import json
import re

import polars as pl
import pytest
from rich.console import Console

from bridle.errors import NotPossible
from bridle_studies.paper.verdict import (
    Claim,
    judge,
    print_verdict,
    verdict_in_words,
    write_verdict,
)
from tests.studies.frames import make
from tests.studies.paper.test_verdict import RANDOM, agent, at, printed


@pytest.fixture(scope="module")
def movies():
    return make("movies")


@pytest.fixture(scope="module")
def patients():
    return make("warfarin")


@pytest.mark.parametrize("width", [60, 100])
def test_the_verdict_is_printed_with_its_evidence(movies, width):
    broken = movies.change("R", agent("sigma=0.75") & RANDOM & at(5_000), pl.col("R") + 0.02)
    claims = judge(*broken)
    text = printed(claims, width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert "(a) DOES NOT HOLD: " in text
    assert "(b) HOLDS: " in text
    assert "(f-mask) NOT JUDGED: " in text
    flat = " ".join(text.split())
    for claim in claims:
        for line in (claim.title, claim.paper, *claim.evidence):
            assert " ".join(line.split()) in flat
    assert flat.endswith("11 of 14 hold, 1 does not, 2 are not judged.")


def test_what_holds_for_all_claims_is_printed_once():
    text = printed(judge(*make("synthetic movies", examples=(50,), folds=2)), 200)
    assert text.count("made up by bridle") == 1


def test_square_brackets_are_words_not_markup():
    text = printed([Claim("a", "in [0, 1]", "[bold]", True, ("[red]1[/]",))], 100)
    for word in ("in [0, 1]", "[bold]", "[red]1[/]"):
        assert word in text


def test_the_verdict_is_written_as_json(movies, tmp_path):
    claims = judge(*movies)
    path = write_verdict(tmp_path, claims)
    assert path == tmp_path / "verdict.json"
    body = json.loads(path.read_text(encoding="utf-8"))
    assert body["summary"] == verdict_in_words(claims)
    for claim, read in zip(claims, body["claims"], strict=True):
        assert Claim(**{**read, "evidence": tuple(read["evidence"])}) == claim
    with pytest.raises(NotPossible, match="cannot be written"):
        write_verdict(tmp_path / "nowhere", claims)


@pytest.mark.parametrize("brief", [False, True])
def test_lines_that_go_on_are_indented(patients, brief):
    file = io.StringIO()
    print_verdict(Console(file=file, width=60), judge(*patients), brief=brief)
    lines = file.getvalue().splitlines()[1:]
    for line in filter(None, lines):
        assert line.startswith(("(", " ", "9 of 14")), line


def test_numbers_of_the_terminal_have_a_digit_before_the_point(movies, patients):
    for frames in (movies, patients):
        for claim in judge(*frames):
            for line in (claim.title, claim.paper, *claim.evidence):
                assert not re.search(r"(?<![\w.])\.\d", line), line
                assert "sigma = " not in line

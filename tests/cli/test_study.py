from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridle.cli import app
from bridle.worlds import synthetic_movies, write_world

TINY = [
    "--quick",
    "--steps",
    "100",
    "--examples",
    "20,40",
    "--folds",
    "2",
    "--engine",
    "in-process",
]
SMALL = ["--movies", "80", "--people", "12", *TINY]


def run(*arguments: str):
    return CliRunner().invoke(app, ["study", *arguments], catch_exceptions=False)


def test_movies_and_the_verdict(tmp_path):
    out = tmp_path / "out"
    result = run("movies", "--out", str(out), *SMALL)
    assert result.exit_code == 0
    assert "synthetic movies" in result.output and "Table 1" in result.output
    assert (out / "report.html").is_file() and (out / "figure1a.svg").is_file()
    told = run("verdict", str(out))
    assert told.exit_code == 0
    assert "(a)" in told.output and "(i-T)" in told.output and "synthetic" in told.output


def test_warfarin(tmp_path):
    out = tmp_path / "out"
    assert run("warfarin", "--out", str(out), *TINY).exit_code == 0
    assert (out / "figure1c.png").is_file() and (out / "figure1f.svg").is_file()
    settings = json.loads((out / "manifest.json").read_text())["settings"]
    assert settings["plan"]["teaching_contexts"] == 200
    assert settings["world"]["p_feature"] == 0.5


def test_a_world_of_ones_own(tmp_path):
    write_world(synthetic_movies(people=6, movies=40), tmp_path / "mine")
    result = run("own", "--data", str(tmp_path / "mine"), "--out", str(tmp_path / "out"), *TINY)
    assert result.exit_code == 0
    assert (tmp_path / "out" / "report.html").is_file()


def test_every_choice_reaches_the_plan(tmp_path):
    out = tmp_path / "out"
    result = run(
        "movies", "--out", str(out), *SMALL, "--teaching", "thompson", "--sigmas", "0.3,1",
        "--seed", "7", "--spread", "0.01,0.9,0.1", "--v-constraint", "0.1", "--v-teaching", "0.2",
        "--ridge", "2", "--ridge-limits", "3", "--label-coding", "1/-1", "--exact-denials",
        "--same-constraints", "--teaching-contexts", "20", "--checkpoints", "4", "--density", "0.2",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    settings = json.loads((out / "manifest.json").read_text())["settings"]
    plan = settings["plan"]
    assert plan.pop("v") == pytest.approx(0.2478, abs=1e-3)  # R = .01, z = .9, gamma = .1, d = 10
    assert plan == {
        "teaching": ["thompson"], "examples": [20, 40], "sigmas": [0.3, 1.0], "folds": 2,
        "steps": 100, "teaching_contexts": 20, "redraw_constraints": False, "seed": 7,
        "v_constraint": 0.1, "v_teaching": 0.2, "ridge": 2.0, "ridge_limits": 3.0,
        "label_coding": "1/-1", "exact_denials": True, "checkpoints": 4,
    }  # fmt: skip
    assert settings["world"]["density"] == 0.2


def test_the_defaults_are_the_papers():
    from bridle.cli.options import Grid
    from bridle.cli.study import _plan
    from bridle.study import Plan
    from tests.study.small import RECIPE

    assert _plan(RECIPE, Grid(), False, 50_000, None) == Plan()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--examples", "many"], "'many' is no list of whole numbers"),
        (["--examples", "5,,6"], "no list by commas"),
        (["--sigmas", "0,2"], r"range \[0, 1\]. Got 2.0"),
        (["--teaching", "guess"], "one of 'random', 'thompson'"),
        (["--v", "1", "--spread", "1,1,1"], "not both"),
        (["--spread", "1,1"], "Three numbers"),
        (["--engine", "threads"], "one of 'processes', 'in-process', 'ray'"),
        (["--address", "x"], "give --engine ray"),
        (["--density", "2"], "'density' parameter"),
        (["--data", "/no/such/place"], "/no/such/place"),
        (["--genres", "Action"], "give --genres with --data"),
        (["--limits", "/no/such.csv"], "cannot be read"),
    ],
)
def test_bad_options_are_said_and_nothing_is_written(tmp_path, options, message):
    result = run("movies", "--out", str(tmp_path / "out"), *SMALL, *options)
    assert result.exit_code == 2
    assert re.search(message, re.sub(r"\s+", " ", result.output)), result.output
    assert not (tmp_path / "out" / "results.parquet").exists()


def test_a_verdict_on_nothing_is_said(tmp_path):
    result = run("verdict", str(tmp_path))
    assert result.exit_code == 2 and "no results.parquet" in result.output


def test_interrupted_by_hand_it_goes_on(tmp_path):
    """Ctrl-C in the middle of a study that would take hours, in a process of its own."""
    command = [
        sys.executable, "-m", "bridle", "study", "movies", "--out", str(tmp_path / "out"),
        "--movies", "80", "--people", "12", "--examples", "20", "--folds", "2",
        "--engine", "in-process", "--steps", "20000000",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        parts = tmp_path / "out" / "parts"
        while process.poll() is None and not list(parts.glob("class-1-thompson.npz")):
            pass
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"The same command goes on from here" in said
    assert b"Traceback" not in said
    assert Path(parts / "class-0-random.npz").is_file()

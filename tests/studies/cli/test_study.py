from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridle import registry
from bridle.cli import app
from bridle_studies.environments import synthetic_movies, write_world

EXAMPLES = Path(__file__).parents[3] / "examples"
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


@pytest.mark.parametrize("module", ["study", "frontier"])
def test_a_command_can_be_imported_before_the_command_line(module):
    program = f"import bridle_studies.cli.{module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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


def test_a_policy_and_a_reward_model_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_known", {})
    write_world(synthetic_movies(people=6, movies=40), tmp_path / "mine")
    mine = ["own", "--data", str(tmp_path / "mine"), "--out", str(tmp_path / "out"), *TINY]
    plugins = ",".join(str(EXAMPLES / name) for name in ("top_few.py", "logistic_reward.py"))
    names = ["--policy", "TopFew", "--reward", "logistic"]
    result = run(*mine, *names, "--plugin", plugins)
    assert result.exit_code == 0 and "TopFew@1" in result.output
    plan = json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"]["plan"]
    assert plan["policies"] == [{"name": "TopFew", "version": "1"}]
    assert plan["reward"] == {"name": "logistic", "version": "1"}
    refused = run(*mine, "--policy", "Nobody")
    assert refused.exit_code == 2 and "'Nobody' is not registered" in refused.output
    refused = run(*mine, "--plugin", "no_such_module")
    assert refused.exit_code == 2 and "cannot be loaded" in refused.output
    refused = run(*mine, "--reward", "logistic,logistic2")
    assert refused.exit_code == 2


def test_every_choice_reaches_the_plan(tmp_path):
    out = tmp_path / "out"
    result = run(
        "movies",
        "--out",
        str(out),
        *SMALL,
        "--teaching",
        "thompson",
        "--sigmas",
        "0.3,1",
        "--seed",
        "7",
        "--spread",
        "0.01,0.9,0.1",
        "--v-constraint",
        "0.1",
        "--v-teaching",
        "0.2",
        "--ridge",
        "2",
        "--ridge-limits",
        "3",
        "--label-coding",
        "1/-1",
        "--exact-denials",
        "--same-constraints",
        "--teaching-contexts",
        "20",
        "--checkpoints",
        "4",
        "--density",
        "0.2",
    )
    assert result.exit_code == 0, result.output
    settings = json.loads((out / "manifest.json").read_text())["settings"]
    plan = settings["plan"]
    assert plan.pop("v") == pytest.approx(0.2478, abs=1e-3)  # R = .01, z = .9, gamma = .1, d = 10
    assert plan == {
        "teaching": ["thompson"],
        "examples": [20, 40],
        "sigmas": [0.3, 1.0],
        "folds": 2,
        "steps": 100,
        "teaching_contexts": 20,
        "redraw_constraints": False,
        "seed": 7,
        "v_constraint": 0.1,
        "v_teaching": 0.2,
        "ridge": 2.0,
        "ridge_limits": 3.0,
        "label_coding": "1/-1",
        "exact_denials": True,
        "checkpoints": 4,
    }
    assert settings["world"]["density"] == 0.2


def test_the_defaults_are_the_papers():
    from bridle.cli.console import Grid
    from bridle_studies.cli.study import _plan
    from bridle_studies.paper import Plan

    assert _plan(Grid(), False, 50_000, None) == Plan()


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
        (["--density", "2"], "--density must be a float"),
        (["--folds", "100"], "--folds must be few enough for a world of 80 contexts"),
        (["--data", "/no/such/place"], "/no/such/place"),
        (["--genres", "Action"], "give --genres with --data"),
        (["--limits", "/no/such.csv"], "cannot be read"),
        (["--movies", "0"], "--movies must be an int in the range"),
        (["--people", "0"], "--people must be an int in the range"),
        (["--teaching-contexts", "0"], "--teaching-contexts must be an int"),
        (["--workers", "0"], "--workers must be an int"),
    ],
)
def test_bad_options_are_said_and_nothing_is_written(tmp_path, options, message):
    result = run("movies", "--out", str(tmp_path / "out"), *SMALL, *options)
    assert result.exit_code == 2
    assert re.search(message, re.sub(r"\s+", " ", result.output)), result.output
    assert not (tmp_path / "out" / "results.parquet").exists()


def test_brackets_in_a_path_are_no_markup(tmp_path):
    result = run("movies", "--out", str(tmp_path / "a[/b]"), *SMALL)
    assert result.exit_code == 0 and "a[/b]/report.html" in result.output


def test_a_world_of_ones_own_is_not_taken_for_the_papers(tmp_path):
    write_world(synthetic_movies(people=6, movies=40), tmp_path / "movies")
    run("own", "--data", str(tmp_path / "movies"), "--out", str(tmp_path / "out"), *TINY)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["study"] == "own" and manifest["world"] == "own synthetic movies"


def test_what_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    result = run("movies", "--out", str(tmp_path / "file" / "below"), *SMALL)
    assert result.exit_code == 2 and "cannot be used" in result.output


def test_results_that_are_damaged_are_said(tmp_path):
    run("movies", "--out", str(tmp_path), *SMALL)
    (tmp_path / "curves.parquet").write_bytes(b"PAR1 no")
    result = run("movies", "--out", str(tmp_path), *SMALL)
    assert result.exit_code == 2 and "with --fresh" in result.output
    assert run("movies", "--out", str(tmp_path), *SMALL, "--fresh").exit_code == 0


def test_a_verdict_on_nothing_is_said(tmp_path):
    result = run("verdict", str(tmp_path))
    assert result.exit_code == 2 and "no results.parquet" in result.output


def test_interrupted_by_hand_it_goes_on(tmp_path):
    """Ctrl-C in the middle of a study that would take hours, in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "bridle",
        "study",
        "movies",
        "--out",
        str(tmp_path / "out"),
        "--movies",
        "80",
        "--people",
        "12",
        "--examples",
        "20",
        "--folds",
        "2",
        "--engine",
        "in-process",
        "--steps",
        "20000000",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        parts = tmp_path / "out" / "parts"
        while process.poll() is None and not list(parts.glob("job-class-1-thompson.npz")):
            pass
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"The same command goes on from here" in said
    assert b"Traceback" not in said
    assert Path(parts / "job-class-0-random.npz").is_file()

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from bridle import Agent
from bridle.agent.events import event_to_json
from bridle.cli.evaluate import evaluate
from tests.histories import PAPER

APP = typer.Typer()
APP.command("evaluate")(evaluate)
APP.callback()(lambda: None)


def run(*arguments: str):
    return CliRunner().invoke(APP, ["evaluate", *arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Write a log of the paper's agent, with one decision pending and one without propensity."""
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    events: list = []
    agent = Agent(
        **PAPER, arms=3, features=2, sigma=0.5, seed=3, exact_denials=False, sink=events.extend
    )
    rng = np.random.default_rng(1)
    for i in range(12):
        agent.teach(rng.integers(0, 2, 2).astype(float), i % 3, i % 3 > 0)
    for _ in range(150):
        made: Any = agent.decide(rng.integers(0, 2, 2).astype(float), propensity=True)
        agent.reward(made.id, 0.9 - 0.3 * made.arm)
    agent.decide([1.0, 1.0], propensity=True)
    agent.decide([1.0, 1.0])
    path.write_text("".join(json.dumps(event_to_json(event)) + "\n" for event in events))
    return path


def test_a_table_a_figure_and_advice(log, tmp_path):
    out = tmp_path / "out"
    result = run(str(log), "--sigma", "0.4,0.5,1", "--out", str(out), "--budget", "0.9")
    assert result.exit_code == 0, result.output
    for words in (
        "earned (DR)",
        "the reward a decision",
        "151 decisions",
        "1 of them have no reward",
        "1 more have no propensity",
        "by the model's belief alone",
    ):
        assert words in " ".join(result.output.split()), words
    rows = list(csv.DictReader((out / "evaluation.csv").read_text().splitlines()))
    assert [row["sigma"] for row in rows] == ["0.4", "0.5", "1.0"]
    own = rows[1]
    assert float(own["dr_low"]) <= float(own["logged"]) <= float(own["dr_high"])
    for name in ("evaluation.png", "evaluation.svg"):
        assert (out / name).is_file() and name in result.output


def test_what_is_refused_is_said(log, tmp_path):
    short = tmp_path / "short.jsonl"
    short.write_text("".join(log.read_text().splitlines(keepends=True)[:60]))
    result = run(str(short), "--sigma", "0.5", "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "refused" in result.output and "plays of its own" in " ".join(result.output.split())
    lines = (tmp_path / "out" / "evaluation.csv").read_text().splitlines()
    row = next(csv.DictReader(lines))
    assert row["dr"] == "" and "cannot be evaluated" in row["refused"]


@pytest.mark.parametrize(
    ("text", "arguments", "told"),
    [
        (None, [], "cannot be read"),
        ("", [], "begins with the event Created"),
        ("nonsense\n", [], "Line 1 of"),
        ("\udcff\n", [], "Line 1 of"),
        ('{"event": "Tulip"}\n', [], "No event is called 'Tulip'"),
        ("", ["--sigma", "a,b"], "list of numbers"),
        ("", ["--sigma", "2"], "range [0, 1]"),
    ],
)
def test_mistakes_are_told(tmp_path, text, arguments, told):
    path = tmp_path / "a.jsonl"
    if text is not None:
        path.write_bytes(text.encode(errors="surrogateescape"))
    result = run(str(path), *arguments)
    assert result.exit_code == 2 and told in " ".join(result.output.split())

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from bridle_studies.cli import promises as module

APP = typer.Typer()
APP.command("promises")(module.promises)
APP.callback()(lambda: None)

TINY = ["--quick", "--engine", "in-process"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    from bridle_studies.guarantees.scope import Scope

    tiny = Scope(
        folds=1,
        recalibrations=2,
        contexts=230,
        taught=20,
        taught_linear=50,
        steps=50,
        adaptive=1,
        later=20,
        sequences=5,
        length=200,
        varied=200,
        runs=5,
        horizon=500,
        logs=1,
        decisions=20,
    )
    monkeypatch.setattr(module, "SMALL", {"movies": 30, "people": 8})
    monkeypatch.setattr(Scope, "quick", classmethod(lambda cls: tiny))


def run(*arguments: str):
    return CliRunner().invoke(APP, ["promises", *arguments], catch_exceptions=False)


def test_it_runs_and_writes(tmp_path, monkeypatch):
    out = tmp_path / "out"
    result = run("--out", str(out), *TINY, "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "A quick run" in result.output and "What a certificate costs" in result.output
    told = json.loads((out / "promises.json").read_text())
    assert [*told] == ["certificate", "audit", "evaluate", "promise", "meter_varying"]
    assert "A promise that acts: α = 1 %, q = 0.02, 500 steps, 5 runs each" in result.output
    assert "Audits whose coin varies" in result.output and "The promise that acts" in result.output
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["seed"] == 3 and manifest["quick"] is True
    assert "quick run" in (out / "report.html").read_text()
    # Another one is refused, --fresh replaces it.
    refused = run("--out", str(out), *TINY)
    assert refused.exit_code == 2 and "--fresh" in refused.output
    monkeypatch.setattr("bridle_studies.guarantees.run.draw_promises", lambda *_, **how: {})  # slow
    assert run("--out", str(out), *TINY, "--fresh").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--data", "no/such/file"], "no/such/file"),
        (["--engine", "horses"], "horses"),
        (["--workers", "0"], "--workers"),
    ],
)
def test_mistakes_are_told(tmp_path, arguments, told):
    result = run(*arguments, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2 and told in result.output
    assert not (tmp_path / "out").exists()

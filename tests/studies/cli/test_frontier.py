from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bridle import registry
from bridle_studies.cli import frontier as module

APP = typer.Typer()
APP.command("frontier")(module.frontier)
APP.callback()(lambda: None)

EXAMPLES = Path(__file__).parents[3] / "examples"
TINY = ["--quick", "--steps", "40", "--folds", "1", "--engine", "in-process"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    from bridle_studies.frontier.scope import Scope

    tiny = Scope(
        folds=1,
        steps=40,
        examples=(20,),
        taught=20,
        masks=(20,),
        groups=(20,),
        pool=(5,),
        sweep_steps=20,
        densities=(0.2,),
        alignments=(0.0,),
    )
    monkeypatch.setattr(module, "SMALL", {"movies": 30, "people": 8})
    monkeypatch.setattr(Scope, "quick", classmethod(lambda cls: tiny))


def run(*arguments: str):
    return CliRunner().invoke(APP, ["frontier", *arguments], catch_exceptions=False)


def test_limits_of_others(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(registry, "_known", {})
    tree = ["--limits", "tree", "--plugin", str(EXAMPLES / "tree_limits.py")]
    result = run("movies", "--headline", "--out", str(tmp_path / "out"), *TINY, *tree)
    assert result.exit_code == 0, result.output
    assert "doubt+tree@1" in result.output
    refused = run("movies", "--out", str(tmp_path / "none"), *TINY, "--limits", "bush")
    assert refused.exit_code == 2 and "'bush'" in refused.output


def test_movies(tmp_path):
    out = tmp_path / "out"
    result = run("movies", "--out", str(out), *TINY, "--seed", "3")
    assert result.exit_code == 0, result.output
    assert "synthetic single" in result.output and "doubt+rules+groups" in result.output
    for name in (
        "frontier.csv",
        "frontier.parquet",
        "report.html",
        "alignment.png",
        "frontier-synthetic-pairs.svg",
    ):
        assert (out / name).is_file(), name
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["seed"] == 3 and manifest["settings"]["scope"]["steps"] == 40
    assert manifest["quick"] is True
    # Another one is refused, --fresh replaces it.
    refused = run("movies", "--out", str(out), *TINY)
    assert refused.exit_code == 2 and "--fresh" in refused.output
    assert run("movies", "--out", str(out), *TINY, "--fresh").exit_code == 0


def test_warfarin(tmp_path):
    result = run("warfarin", "--out", str(tmp_path / "out"), *TINY)
    assert result.exit_code == 0, result.output
    header, *rows = (tmp_path / "out" / "frontier.csv").read_text().splitlines()
    assert header == "world,method,answers,R,E,Rc,abstentions,seeds"
    assert all(row.startswith("synthetic patients,") for row in rows)
    assert not (tmp_path / "out" / "alignment.png").exists()


def test_the_headline(tmp_path):
    out = tmp_path / "out"
    result = run("--headline", "--out", str(out), *TINY)
    assert result.exit_code == 0, result.output
    assert "ours, taking limits for single rules" in result.output
    assert "headline.png" in result.output and (out / "headline.png").is_file()
    methods = {line.split(",")[1] for line in (out / "frontier.csv").read_text().splitlines()[1:]}
    assert methods == {
        "best-allowed",
        "best-linear",
        "mask",
        "mask+prior",
        "sigma=0.25",
        "doubt+auto+groups",
        "doubt+rules+groups",
    }
    assert not (out / "alignment.png").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["tulips"], "movies, warfarin"),
        (["movies", "--folds", "0"], "--folds"),
        (["movies", "--data", "no/such/file"], "no/such/file"),
    ],
)
def test_mistakes_are_told(tmp_path, arguments, told):
    result = run(*arguments, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2 and told in result.output
    assert not (tmp_path / "out").exists()

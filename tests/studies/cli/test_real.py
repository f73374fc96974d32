from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bridle import registry
from bridle_studies.cli import real as module

APP = typer.Typer()
APP.command("real")(module.real)
APP.callback()(lambda: None)

EXAMPLES = Path(__file__).parents[3] / "examples"
TINY = ["--quick", "--steps", "40", "--seeds", "1", "--engine", "in-process"]
TABLE = "name,red,level\na,1,low\nb,0,high\nc,1,low\nd,0,odd\ne,0,low\n"


def run(*arguments: str):
    return CliRunner().invoke(APP, ["real", *arguments], catch_exceptions=False)


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "things.csv"
    path.write_text(TABLE)
    return ["--items", str(path), "--label", "level"]


def test_a_table_of_your_own(tmp_path, items):
    out = tmp_path / "out"
    mine = [*items, "--levels", "low,high", "--out", str(out), *TINY]
    result = run(*mine, "--seed", "3")
    assert result.exit_code == 0, result.output
    flat = " ".join(result.output.split())
    assert "4 of 5 rows kept, by level: low 3, high 1." in flat and "odd 1" in flat
    assert "Left out: column name, all values differ" in flat and "Flags: 1 column, red." in flat
    assert "A quick run" in flat and "The report is in" in flat
    for name in ("real.csv", "calibration.csv", "report.html", "real.png", "seeds.svg"):
        assert (out / name).is_file(), name
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["seed"] == 3 and manifest["worlds"] == ["things"]
    assert manifest["settings"]["scope"]["steps"] == manifest["settings"]["scope"]["steps_rules"]
    refused = run(*mine)
    assert refused.exit_code == 2 and "--fresh" in refused.output
    assert run(*mine, "--fresh").exit_code == 0


def test_limits_of_others(tmp_path, items, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(registry, "_known", {})
    out = tmp_path / "out"
    tree = ["--limits", "tree", "--plugin", str(EXAMPLES / "tree_limits.py")]
    result = run(*items, "--levels", "low,high", "--out", str(out), *TINY, *tree)
    assert result.exit_code == 0, result.output
    assert "tree@1" in result.output and "tree@1" in (out / "real.csv").read_text()
    refused = run(*items, "--levels", "low,high", "--out", str(out), *TINY, "--limits", "bush")
    assert refused.exit_code == 2 and "'bush'" in refused.output


def test_all_worlds_that_are_there(tmp_path):
    out, data = tmp_path / "out", tmp_path / "data"
    data.mkdir()
    result = run("--data", str(data), "--out", str(out), *TINY)
    assert result.exit_code == 0, result.output
    assert "ESRB: skipped" in result.output and "ages" in result.output
    assert "films.csv" in json.loads((out / "manifest.json").read_text())["skipped"][0]
    assert "exceptions 2 % made-up" in result.output and "exceptions ESRB: skipped" in result.output
    assert (out / "exceptions.png").is_file() and (out / "course.csv").is_file()
    few = tmp_path / "few"
    names = "exceptions 1 % made-up paying,ages"
    result = run("--data", str(data), "--worlds", names, "--out", str(few), *TINY)
    assert result.exit_code == 0, result.output
    manifest = json.loads((few / "manifest.json").read_text())
    assert manifest["worlds"] == ["ages", "exceptions 1 % made-up paying"]
    assert manifest["settings"]["scope"]["seeds_exceptions"] == 1
    alone = run("--data", str(data), "--worlds", "ESRB", "--out", str(tmp_path / "no"), *TINY)
    assert alone.exit_code == 2 and "No world can be run" in alone.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--levels", "low,high", "--label", "levle"], "--label must be a column of the table"),
        (["--levels", "low,tall"], "--levels must be values"),
        (["--levels", "low,,high"], "no list by commas"),
        (["--levels", "low,high", "--features", "blue"], "--features must be a column"),
        (["--levels", "low,high", "--ratings", "x.zip"], "--ratings must be given with a table"),
        (["--levels", "low,high", "--items", "none.csv"], "--items must be a csv file"),
        (["--levels", "low,high", "--seeds", "0"], "seeds"),
        (["--levels", "low,high", "--data", "."], "without --items"),
        (["--levels", "low,high", "--worlds", "ESRB"], "without --items"),
        ([], "--levels"),
    ],
)
def test_mistakes_are_told(tmp_path, items, arguments, told):
    result = run(*items, *arguments, "--quick", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2 and told in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--label", "x"], "Give --items with it"),
        (["--ratings", "x"], "Give --items with it"),
        (["--worlds", "tulips"], "tulips"),
        (["--data", "no/such/folder"], "no/such/folder"),
    ],
)
def test_mistakes_without_a_table_are_told(tmp_path, arguments, told):
    result = run(*arguments, "--quick", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2 and told in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()

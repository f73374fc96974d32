from __future__ import annotations

import dataclasses
import io
import json

import polars as pl
import pytest
from rich.console import Console

from bridle.errors import NotPossible
from bridle_studies.environments import Fixed, World
from bridle_studies.paper import Plan, study
from bridle_studies.paper.work import Work
from bridle_studies.scaffold import study as scaffold
from tests.studies.small import PLAN, RECIPE

FILES = {
    "results.parquet",
    "curves.parquet",
    "lessons.parquet",
    "table1.csv",
    "table2.csv",
    "tables.csv",
    "tables.md",
    "verdict.json",
    "report.html",
    "manifest.json",
    "overview.png",
    "overview.svg",
    *(f"figure1{x}.{kind}" for x in "abde" for kind in ("png", "svg")),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study that was never interrupted."""
    out = tmp_path_factory.mktemp("whole")
    file = io.StringIO()
    found = study(
        RECIPE,
        PLAN,
        out,
        engine="in-process",
        command="bridle study movies",
        console=Console(file=file, width=100),
    )
    return found, file.getvalue()


def test_every_file_is_written(whole):
    found, said = whole
    assert {path.name for path in found.out.iterdir()} == FILES
    assert "Table 1" in said and "Table 2" in said and "report.html" in said
    assert "synthetic" in said
    manifest = json.loads((found.out / "manifest.json").read_text())
    assert manifest["runs"] == PLAN.runs and manifest["settings"]["plan"] == PLAN.to_json()
    assert manifest["settings"]["world"]["density"] == 0.33
    assert manifest["origin"]["synthetic"] is True and manifest["packages"]["numpy"]
    assert manifest["command"] == "bridle study movies"


def test_results_are_a_row_a_run_and_curves_end_there(whole):
    found, _ = whole
    assert len(found.results) == PLAN.runs
    assert len(found.curves) == PLAN.runs * PLAN.checkpoints
    assert len(found.lessons) == 2 * 2 * PLAN.checkpoints
    for name, frame in (("results", found.results), ("curves", found.curves)):
        assert pl.read_parquet(found.out / f"{name}.parquet").equals(frame)
    ends = found.curves.filter(pl.col("t") == PLAN.steps)
    assert ends["R"].equals(found.results["R"])
    once = found.results.filter(pl.col("teaching").is_null())
    assert sorted(set(once["agent"])) == ["mask", "mask-filter", "sigma=1"]
    assert once["sigma"].null_count() == once["blend_regret"].null_count() == 4


def test_the_long_table_has_every_cell_and_the_columns_that_were_asked_for(whole):
    table = pl.read_csv(whole[0].out / "tables.csv")
    assert table.columns == [
        "world",
        "teaching",
        "examples",
        "agent",
        "R",
        "R_low",
        "R_high",
        "E",
        "E_low",
        "E_high",
        "Rc",
        "paper_R",
        "paper_E",
    ]
    assert len(table) == 2 * 2 * 5
    assert set(table["agent"]) == {"mask", "mask-filter", "sigma=0", "sigma=0.5", "sigma=1"}


class Stop(Exception):
    pass


@pytest.mark.parametrize("after", [1, 5, 9])
def test_an_interrupted_study_goes_on_and_ends_the_same(tmp_path, whole, monkeypatch, after):
    done: list[str] = []
    do = Work.do

    def some(self: Work, job):
        if len(done) == after:
            raise Stop
        done.append(job.key)
        return do(self, job)

    monkeypatch.setattr(Work, "do", some)
    with pytest.raises(Stop):
        study(RECIPE, PLAN, tmp_path, engine="in-process")
    assert len(list((tmp_path / "parts").glob("*.npz"))) == after
    assert not (tmp_path / "results.parquet").exists()

    before, again = set(done), list[str]()

    def noted(self: Work, job):
        again.append(job.key)
        return do(self, job)

    monkeypatch.setattr(Work, "do", noted)
    found = study(RECIPE, PLAN, tmp_path, engine="in-process")
    assert found.results.equals(whole[0].results) and found.curves.equals(whole[0].curves)
    assert found.lessons.equals(whole[0].lessons)
    # Online runs are not run twice; a class is taught again if somebody still needs it.
    assert not {key for key in before if key.startswith("batch")} & set(again)
    assert not (tmp_path / "parts").exists()


def test_a_finished_study_is_drawn_again_but_not_run(tmp_path, whole, monkeypatch):
    study(RECIPE, PLAN, tmp_path, engine="in-process")
    report = (tmp_path / "report.html").read_bytes()
    (tmp_path / "report.html").unlink()
    monkeypatch.setattr(Work, "do", None)
    file = io.StringIO()
    again = study(RECIPE, PLAN, tmp_path, console=Console(file=file, width=100))
    assert "nothing to run" in file.getvalue()
    assert again.results.equals(whole[0].results)
    assert (tmp_path / "report.html").read_bytes() == report
    with pytest.raises(NotPossible, match="holds another study"):
        study(RECIPE, dataclasses.replace(PLAN, seed=1), tmp_path)
    monkeypatch.undo()
    fresh = study(RECIPE, dataclasses.replace(PLAN, seed=1), tmp_path, fresh=True)
    assert not fresh.results.equals(whole[0].results)


def test_other_data_are_another_study(tmp_path, whole):
    tables = RECIPE.world(0).tables
    small = dataclasses.replace(PLAN, examples=(20,), sigmas=(0.5,))
    for rewards, fits in ((tables.rewards, True), (tables.rewards * 0.5, False)):
        world = World.from_tables(tables.contexts, rewards, tables.allowed, name="mine")
        if fits:
            found = study(Fixed(world), small, tmp_path, engine="in-process")
            assert found.manifest["world"] == "mine"
        else:
            with pytest.raises(NotPossible, match="holds another study"):
                study(Fixed(world), small, tmp_path, engine="in-process")


def test_processes_give_the_same_results(tmp_path, whole):
    found = study(RECIPE, PLAN, tmp_path, engine="processes", workers=2)
    assert found.results.equals(whole[0].results) and found.curves.equals(whole[0].curves)


def test_one_fold_and_one_agent_are_enough(tmp_path):
    plan = Plan(examples=(10,), sigmas=(1.0,), folds=1, steps=20, teaching=("random",))
    found = study(RECIPE, plan, tmp_path, engine="in-process")
    assert len(found.results) == 3 and (tmp_path / "report.html").is_file()


def test_versions_that_are_not_installed_are_none(monkeypatch):
    monkeypatch.setattr(scaffold, "PACKAGES", ("numpy", "no-such-thing"))
    assert scaffold.versions()["no-such-thing"] is None

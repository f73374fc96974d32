"""Policies, limits and reward models of others in studies, in small."""

from __future__ import annotations

import copy
import dataclasses
import json
from importlib.metadata import EntryPoint
from pathlib import Path

import polars as pl
import pytest

from bridle import registry
from bridle.errors import InvalidValue, NotPossible, NotRegistered
from bridle_studies.environments import Movies, synthetic_block
from bridle_studies.frontier.run import frontier
from bridle_studies.frontier.scope import Scope as FrontierScope
from bridle_studies.paper import Plan, study
from bridle_studies.paper.work import jobs
from bridle_studies.real.run import real
from bridle_studies.real.scope import TEACHERS, Scene, Scope
from bridle_studies.scaffold.extensions import Extension, find_extensions, load_plugin

EXAMPLES = Path(__file__).parents[3] / "examples"
FEW, TREE, LOGISTIC = (
    str(EXAMPLES / f"{name}.py") for name in ("top_few", "tree_limits", "logistic_reward")
)
RECIPE = Movies(synthetic_block(people=6, movies=40, seed=3))
KINDS = ("single", "pairs", "both")
PLAN = Plan(
    teaching=("random",), examples=(30,), sigmas=(0.5, 1.0), folds=2, steps=60, checkpoints=3
)


@pytest.fixture(autouse=True)
def unregistered():
    before = dict(registry._known)
    yield
    registry._known.clear()
    registry._known.update(before)


def top_few() -> tuple[Extension, ...]:
    return find_extensions("policy", ["TopFew"], [FEW])


def tree() -> tuple[Extension, ...]:
    pytest.importorskip("sklearn")
    return find_extensions("limits", ["tree"], [TREE])


def test_a_plugin_is_a_file_a_module_or_an_entry_point(monkeypatch, tmp_path):
    (found,) = top_few()
    assert (found.label, found.plugins) == ("TopFew@1", (FEW,))
    (tmp_path / "some_plugin.py").write_text(Path(FEW).read_text().replace('"TopFew', '"OwnFew'))
    monkeypatch.syspath_prepend(tmp_path)
    assert find_extensions("policy", ["OwnFew"], ["some_plugin"])[0].plugins == ("some_plugin",)
    entry = EntryPoint("Entered", "late_plugin", "bridle.policies")
    (tmp_path / "late_plugin.py").write_text(Path(FEW).read_text().replace("TopFew", "Entered"))
    monkeypatch.setattr(registry, "entry_points", lambda **_: [entry])
    assert find_extensions("policy", ["Entered"])[0].label == "Entered@1"
    (tmp_path / "broken.py").write_text("raise RuntimeError('no')")
    for wrong in ("no_such_module", str(tmp_path / "none.py"), str(tmp_path / "broken.py")):
        with pytest.raises(NotPossible, match="cannot be loaded"):
            load_plugin(wrong)
    with pytest.raises(NotRegistered, match=r"--plugin.*TopFew"):
        find_extensions("policy", ["Nobody"], [FEW])


def test_a_worker_loads_the_plugin_and_refuses_another_version():
    (found,) = top_few()
    registry.unregister("policy", "TopFew")
    there = copy.copy(found)
    assert there.load().name == "TopFew" and there == found
    with pytest.raises(NotRegistered, match="'2'"):
        dataclasses.replace(found, version="2").load()


def test_a_plan_takes_what_fits_alone():
    policies = top_few()
    with pytest.raises(InvalidValue, match="reward"):
        dataclasses.replace(PLAN, reward=policies[0])
    with pytest.raises(InvalidValue, match="policy"):
        dataclasses.replace(PLAN, policies=("TopFew",))
    with pytest.raises(InvalidValue, match="repetitions"):
        dataclasses.replace(PLAN, policies=policies * 2)
    with pytest.raises(InvalidValue, match="limits"):
        Scope(limits=policies)
    with pytest.raises(InvalidValue, match="limits"):
        FrontierScope(limits=policies)


@pytest.mark.parametrize("engine", ["in-process", "processes"])
def test_a_policy_beside_the_dial(tmp_path, engine):
    plan = dataclasses.replace(PLAN, policies=top_few())
    assert any("TopFew%401" in job.key for job in jobs(plan)[1])
    made = study(RECIPE, plan, tmp_path / "out", engine=engine, workers=1)
    runs = made.results.filter(pl.col("agent") == "TopFew@1")
    assert runs.height == PLAN.folds and runs["sigma"].is_null().all()
    assert made.results.height == plan.runs and runs["blend_regret"].is_null().all()
    settings = json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"]
    assert settings["plan"]["policies"] == [{"name": "TopFew", "version": "1"}]
    assert "TopFew@1: of others" in (tmp_path / "out" / "tables.md").read_text()
    # All others have the bits that they have without it.
    alone = study(RECIPE, PLAN, tmp_path / "alone", engine="in-process")
    assert made.results.filter(pl.col("agent") != "TopFew@1").equals(alone.results)


def test_another_version_is_another_study(tmp_path):
    plan = dataclasses.replace(PLAN, policies=top_few())
    study(RECIPE, plan, tmp_path, engine="in-process")
    policy = registry.require("policy", "TopFew", "1").factory
    registry.register("policy", "TopFew", policy, version="2")
    later = dataclasses.replace(PLAN, policies=find_extensions("policy", ["TopFew"]))
    with pytest.raises(NotPossible, match="holds another study"):
        study(RECIPE, later, tmp_path, engine="in-process")


def test_a_reward_model_in_place_of_ours(tmp_path):
    (reward,) = find_extensions("reward", ["logistic"], [LOGISTIC])
    plan = dataclasses.replace(PLAN, folds=1, reward=reward)
    made = study(RECIPE, plan, tmp_path / "out", engine="in-process")
    ours = study(RECIPE, dataclasses.replace(PLAN, folds=1), tmp_path / "ours", engine="in-process")
    assert made.results["R"].to_list() != ours.results["R"].to_list()
    settings = json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"]
    assert settings["plan"]["reward"] == {"name": "logistic", "version": "1"}


@pytest.mark.parametrize("engine", ["in-process", "processes"])
def test_limits_among_the_methods_of_real_limits(tmp_path, engine):
    scope = Scope(taught=20, calibrated=(5,), limits=tree())
    scene = Scene(
        name="films",
        recipe=RECIPE,
        steps=25,
        seeds=1,
        methods=("default", "told"),
        calibrated=False,
    )
    taught = dataclasses.replace(
        scene, name="erring", kind=TEACHERS, methods=("default", "rates-20", "told")
    )
    made = real([scene, taught], scope, tmp_path, engine=engine, workers=1)
    found = made.runs.filter(pl.col("method") == "tree@1")
    assert found["world"].to_list() == ["films"] and found["answers"][0] > 0
    settings = json.loads((tmp_path / "manifest.json").read_text())["settings"]
    assert settings["scope"]["limits"] == [{"name": "tree", "version": "1"}]
    assert "tree@1" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("headline", [True, False])
def test_limits_among_the_methods_of_the_frontier(tmp_path, headline):
    scope = FrontierScope(
        folds=1,
        steps=25,
        examples=(20,),
        taught=20,
        masks=(20,),
        groups=(20,),
        pool=(5,),
        sweep_steps=10,
        densities=(0.2,),
        alignments=(0.0,),
        methods=("mask", "doubt+rules+groups"),
        limits=tree(),
    )
    block = synthetic_block(people=6, movies=40, seed=3)
    made = frontier(
        RECIPE, scope, tmp_path, engine="in-process", headline=headline, sweep_block=block
    )
    worlds = made.runs.filter(pl.col("method") == "doubt+tree@1")["world"].to_list()
    assert worlds == (["synthetic single"] if headline else [f"synthetic {x}" for x in KINDS])
    assert made.runs["method"].to_list()[-1 if headline else 2] == "doubt+tree@1"
    settings = json.loads((tmp_path / "manifest.json").read_text())["settings"]
    assert settings["scope"]["limits"] == [{"name": "tree", "version": "1"}]

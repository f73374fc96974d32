from __future__ import annotations

import dataclasses
import json

import numpy as np
import polars as pl
import pytest

from bridle.errors import InvalidValue, NotPossible
from bridle.limits.rules import RuleLimits
from bridle_studies.environments import Movies, Warfarin, synthetic_block, synthetic_patients
from bridle_studies.frontier.jobs import NOISY, Frontier, Job, jobs, scenes, sweep
from bridle_studies.frontier.methods import (
    COSTS,
    FLIPS,
    GIVES,
    PARTS,
    fixed_point,
    groups_of,
    make_limits,
    mask_of,
)
from bridle_studies.frontier.run import COLUMNS, frontier, means
from bridle_studies.frontier.scope import DOUBTS, HEADLINE, METHODS, Scope
from bridle_studies.paper.plan import Plan
from bridle_studies.paper.work import Batch, Class, Work

BLOCK = synthetic_block(people=8, movies=40, seed=3)
RECIPE = Movies(BLOCK)
SCOPE = Scope(
    folds=2,
    steps=60,
    examples=(20, 40),
    taught=40,
    masks=(30,),
    groups=(20,),
    pool=(5, 10),
    sweep_steps=30,
    densities=(0.2,),
    alignments=(-1.0, 1.0),
)


def made(out, **how):
    return frontier(RECIPE, SCOPE, out, engine="in-process", sweep_block=BLOCK, **how)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    return made(tmp_path_factory.mktemp("frontier"))


def test_the_table_is_the_mean_of_the_runs(outcome):
    table = pl.read_csv(outcome.out / "frontier.csv")
    runs = pl.read_parquet(outcome.out / "frontier.parquet")
    assert tuple(table.columns) == COLUMNS
    assert COLUMNS == ("world", "method", "answers", "R", "E", "Rc", "abstentions", "seeds")
    assert set(table["seeds"]) == {2}
    row = table.row(
        by_predicate=(pl.col("world") == "synthetic pairs") & (pl.col("method") == "doubt+groups"),
        named=True,
    )
    mine = [
        run
        for run in runs.iter_rows(named=True)
        if (run["world"], run["method"]) == ("synthetic pairs", "doubt+groups")
    ]
    for name in ("answers", "R", "E", "Rc", "abstentions"):
        assert row[name] == pytest.approx(np.mean([run[name] for run in mine]), abs=0.006)


def test_every_method_in_every_world(outcome):
    found: dict[str, list[str]] = {}
    for row in outcome.table.iter_rows(named=True):
        found.setdefault(row["world"], []).append(row["method"])
    worlds = ["synthetic single", "synthetic pairs", "synthetic both"]
    assert [*found] == [
        *worlds,
        "synthetic density=0.2 alignment=-1",
        "synthetic density=0.2 alignment=1",
    ]
    assert [*dict.fromkeys(found[worlds[0]])] == [*METHODS]
    for world in worlds[1:]:
        assert [*dict.fromkeys(found[world])] == [
            m for m in METHODS if "found" not in m and "noisy" not in m
        ]
    # Several N of one method are several rows.
    assert found[worlds[0]].count("sigma=0.25") == 2 and found[worlds[0]].count("active-pool") == 2


def test_answers_are_empty_where_the_truth_was_given(outcome):
    for row in outcome.table.iter_rows(named=True):
        given = row["method"].startswith(("mask", "best"))
        assert (row["answers"] is None) == given
        if given:
            assert row["E"] == 0
    at = {row["method"]: row for row in outcome.table.iter_rows(named=True)}
    assert at["sigma=1"]["answers"] == 0 and at["groups"]["answers"] == 20


def test_the_best_allowed_arm_is_the_best_there_is(outcome):
    for world, rows in outcome.table.group_by("world"):
        best = rows.filter(method="best-allowed")
        assert best["Rc"].item() == 0.0, world
        assert (rows["Rc"] >= 0.0).all()


def test_what_both_studies_run_is_the_same():
    # The paper's study with the same folds and N gives the same plays.
    plan = Plan(
        examples=(20, 40), sigmas=(0.0, 0.25, 0.5, 0.75, 1.0), folds=2, steps=60, seed=SCOPE.seed
    )
    work = Work(RECIPE, plan)
    fold = work.fold(1)
    lesson = work.teach(Class(1, "random"))
    points = Frontier(scenes(RECIPE), SCOPE).do(Job("synthetic single", 1, "blends"))
    theirs = work.run(Batch(1, "random", 20, ("sigma=0.25",), lesson.limits[20]))
    ours = next(p for p in points if (p.method, p.examples) == ("sigma=0.25", 20))
    assert (ours.R, ours.E) == (theirs.R[0, -1], theirs.E[0, -1])
    assert fold.seed == Frontier(scenes(RECIPE), SCOPE).fold("synthetic single", 1).seed


def test_any_engine_gives_the_same_bits(outcome, tmp_path):
    recipes = {name: scenes(RECIPE)[name] for name in ("synthetic single",)}
    work = Frontier(recipes, SCOPE)
    for job in jobs(recipes, SCOPE):
        if job.part in ("truths", "doubt+rules+groups"):
            assert work.do(job) == Frontier(recipes, SCOPE).do(job)


def test_fixed_plays_are_measured_by_hand():
    tables = RECIPE.world(1).tables
    rows, plays = np.array([0, 3, 3, 9]), np.full(40, -1)
    plays[[0, 3]] = 2
    got = fixed_point("x", tables, rows, plays)
    best, inside = tables.rewards.max(axis=1), tables.best_allowed
    earned = [tables.rewards[0, 2], tables.rewards[3, 2], tables.rewards[3, 2], 0.0]
    ok = [tables.allowed[0, 2], tables.allowed[3, 2], tables.allowed[3, 2], True]
    assert got.R == pytest.approx(np.mean([best[r] - e for r, e in zip(rows, earned, strict=True)]))
    kept = [e if fine else 0.0 for e, fine in zip(earned, ok, strict=True)]
    assert got.Rc == pytest.approx(
        np.mean([inside[r] - e for r, e in zip(rows, kept, strict=True)])
    )
    assert got.E == sum(not fine for fine in ok) and got.abstentions == 1


def test_a_mask_is_what_each_unit_says():
    limits = RuleLimits(arms=3, features=2, groups=["a", "b", "a"])
    assert not mask_of(limits, np.eye(2)).any()
    assert mask_of(limits, np.eye(2), likely=True).all()  # .67 each
    for _ in range(2):
        limits.learn([1, 0], 0, False)
        limits.learn([0, 1], 2, True)
        limits.learn([1, 1], 1, True)
    contexts = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    mask = mask_of(limits, contexts)
    assert mask.tolist() == [[True, True, True], [False, True, False], [True, True, True]]


def test_warfarin_has_groups_and_no_sweep(tmp_path):
    recipe = Warfarin(synthetic_patients(patients=80))
    assert groups_of(recipe.world(0)) == ["dose", "dose", "dose", "no dose"]
    scope = dataclasses.replace(SCOPE, steps=30, teaching_contexts=20, folds=1)
    recipes = scenes(recipe)
    assert [*recipes] == ["synthetic patients"]
    work = Frontier(recipes, scope)
    assert work.do(Job("synthetic patients", 0, "doubt+rules+found")) == []  # too many terms
    assert work.do(Job("synthetic patients", 0, "doubt+groups"))[0].answers is not None
    assert not {job.part for job in jobs(recipes, scope)} & {*NOISY}


def test_jobs_cover_each_part_once():
    recipes = scenes(RECIPE) | sweep(SCOPE, BLOCK)
    todo = jobs(recipes, SCOPE)
    assert len(set(todo)) == len(todo)
    single = [job.part for job in todo if job.world == "synthetic single" and job.fold == 0]
    assert single == [part for part in PARTS if part != "sweep"]
    assert {job.part for job in todo if "density" in job.world} == {"sweep"}
    assert set(DOUBTS) <= set(METHODS) and set(COSTS) == set(PARTS)


def test_a_part_gives_the_methods_that_it_says():
    recipes = scenes(RECIPE) | sweep(SCOPE, BLOCK)
    work = Frontier(recipes, SCOPE)
    for part in GIVES:
        world = [*recipes][-1] if part == "sweep" else "synthetic single"
        assert {point.method for point in work.do(Job(world, 0, part))} == set(GIVES[part])


def test_only_the_methods_asked_for_are_run():
    few = dataclasses.replace(SCOPE, methods=("mask", "sigma=1"))
    recipes = {"synthetic single": RECIPE}
    todo = jobs(recipes, few)
    assert {job.part for job in todo} == {"truths", "blends"}
    work = Frontier(recipes, few)
    points = [point for job in todo if job.fold == 0 for point in work.do(job)]
    assert [point.method for point in points] == ["mask", "sigma=1"]
    everything = Frontier(recipes, SCOPE)
    assert points[0] in everything.do(Job("synthetic single", 0, "truths"))  # to the bit


def test_a_noisy_teacher_is_found_out():
    # 3,000 answers, a tenth of them flipped. Of the rates that are weighed those next to .1 are .03
    # and .2, and they explain the answers as well as .1 only if a share below .06 or above .14 of
    # them is flipped: probability below exp(−3,000 · KL(.06‖.1)) + exp(−3,000 · KL(.14‖.1)) < 1e-9.
    scope = dataclasses.replace(SCOPE, examples=(3_000,), taught=3_000)
    work = Frontier({"synthetic single": RECIPE}, scope)
    fold = work.fold("synthetic single", 0)
    limits = make_limits("rules", fold.world, noisy=True)
    assert isinstance(limits, RuleLimits)
    tables, rng = fold.world.tables, np.random.default_rng(5)
    rows, arms = rng.integers(0, len(tables), 3_000), rng.integers(0, tables.arms, 3_000)
    said = tables.allowed[rows, arms] ^ (rng.random(3_000) < FLIPS)
    for arm in range(tables.arms):
        mine = arms == arm
        limits.refit(arm, tables.contexts[rows[mine]], said[mine], np.zeros(mine.sum(), int))
    assert limits.error == pytest.approx(FLIPS, abs=0.01)
    (found,) = work.do(Job("synthetic single", 0, "noisy-random"))
    assert (found.method, found.examples, found.answers) == ("noisy-random", 3_000, 3_000)
    assert (
        found
        == Frontier({"synthetic single": RECIPE}, scope).do(
            Job("synthetic single", 0, "noisy-random")
        )[0]
    )


def test_who_asks_a_noisy_teacher_asks_more(outcome):
    # In the very same steps: he who knows that answers may be wrong asks again.
    at = {
        row["method"]: row
        for row in outcome.table.iter_rows(named=True)
        if row["world"] == "synthetic single"
    }
    assert at["noisy+doubt+rules+groups"]["answers"] > at["doubt+rules+groups"]["answers"]
    assert at["noisy-random"]["answers"] == SCOPE.taught


def test_the_headline_is_a_piece_of_the_frontier(outcome, tmp_path):
    short = made(tmp_path, headline=True)
    assert {*short.runs["method"]} == {*HEADLINE} and {*short.runs["world"]} == {"synthetic single"}
    both = short.runs.join(outcome.runs, on=outcome.runs.columns, how="semi", nulls_equal=True)
    assert len(both) == len(short.runs)  # to the bit
    assert short.manifest["headline"] is True and short.manifest["worlds"] == ["synthetic single"]
    assert (tmp_path / "headline.png").is_file() and (tmp_path / "report.html").is_file()
    assert not (tmp_path / "frontier-synthetic-single.png").exists()
    again = made(tmp_path, headline=True)
    assert again.manifest["started"] == short.manifest["started"]  # nothing ran
    with pytest.raises(NotPossible, match="another study"):
        made(tmp_path)


def test_the_scope_is_checked():
    with pytest.raises(InvalidValue, match="folds"):
        Scope(folds=0)
    with pytest.raises(InvalidValue, match="taught"):
        Scope(examples=(10,), taught=20)
    with pytest.raises(InvalidValue, match="methods"):
        Scope(methods=("tulips",))
    assert Scope.quick().to_json()["pool"] == [200, 500]


def test_a_finished_frontier_is_drawn_again_and_another_refused(outcome, tmp_path):
    manifest = json.loads((outcome.out / "manifest.json").read_text())
    assert manifest["study"] == "frontier" and manifest["origin"]["synthetic"] is True
    again = made(outcome.out)
    assert again.runs.equals(outcome.runs)
    assert again.manifest["started"] == outcome.manifest["started"]  # nothing ran
    with pytest.raises(NotPossible, match="another study"):
        frontier(
            RECIPE,
            dataclasses.replace(SCOPE, seed=1),
            outcome.out,
            engine="in-process",
            sweep_block=BLOCK,
        )
    (tmp_path / "frontier.csv").write_text("mine")
    with pytest.raises(NotPossible, match=r"frontier\.csv"):
        made(tmp_path)
    assert (tmp_path / "frontier.csv").read_text() == "mine"


def test_means_keep_the_order(outcome):
    assert means(outcome.runs).equals(outcome.table)

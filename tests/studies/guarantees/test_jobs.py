"""The study of promises, in small: what it counts, what it writes, what it refuses."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import binom

from bridle.certificates.calibration import Calibration, broken, certify
from bridle.certificates.certificate import scores_of
from bridle.errors import InvalidValue, NotPossible
from bridle.evaluation.evaluate import evaluate
from bridle.policies import Uniform
from bridle_studies.environments import Movies, synthetic_block
from bridle_studies.guarantees.jobs import FOR_CALIBRATION, Promises, logged, masked, paying
from bridle_studies.guarantees.report import lead, write_promises_report
from bridle_studies.guarantees.run import promises
from bridle_studies.guarantees.scope import (
    ALPHAS,
    CASES,
    COINS,
    DELTA,
    KINDS,
    PAYS,
    PLAIN,
    RATES,
    Job,
    Scope,
    cost,
    jobs,
)
from bridle_studies.guarantees.summary import alarms, certified, mean, most, piloted, summary

RECIPE = Movies(synthetic_block(people=12, movies=60, seed=3))
SCOPE = Scope(
    folds=2,
    recalibrations=6,
    contexts=230,
    taught=40,
    taught_linear=200,
    steps=200,
    adaptive=1,
    later=100,
    sequences=30,
    length=600,
    varied=600,
    runs=30,
    horizon=3_000,
    logs=2,
    decisions=60,
)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    out = tmp_path_factory.mktemp("promises")
    return promises(RECIPE, SCOPE, out, engine="in-process", command="bridle study promises")


@pytest.fixture(scope="module")
def found(outcome):
    return json.loads((outcome.out / "promises-runs.json").read_text())


def test_the_file_has_the_form_that_was_asked_for(outcome):
    told = json.loads((outcome.out / "promises.json").read_text())
    assert told == outcome.summary
    assert [*told] == ["certificate", "audit", "evaluate", "promise", "meter_varying"]
    assert [(row["limits"], row["alpha"]) for row in told["certificate"]] == [
        (kind, alpha) for kind in KINDS for alpha in ALPHAS
    ]
    for row in told["certificate"]:
        assert [*row] == ["limits", "alpha", "delta", "recalibrations", "broken"]
        assert row["delta"] == DELTA and row["recalibrations"] == 12
        # An error of 1e-6 for all 24 rows that are held to chance here.
        assert 0 <= row["broken"] <= binom.isf(1e-6 / 24, 12, DELTA)
    assert [(row["rate"], row["q"]) for row in told["audit"]] == [
        (rate, q) for rate in RATES for q in COINS
    ]
    for row in told["audit"]:
        assert [*row] == ["rate", "q", "delta", "sequences", "wrong"]
        assert row["sequences"] == 30 and 0 <= row["wrong"]
        assert row["wrong"] <= binom.isf(1e-6 / 24, 30, 2 * row["delta"])
    assert [row["case"] for row in told["evaluate"]] == [*CASES]
    for row in told["evaluate"]:
        assert [*row] == ["case", "logs", "covered", "refused"]
        assert row["logs"] == 2 and row["covered"] + row["refused"] <= 2
    assert told["evaluate"][-1]["refused"] == 2


def test_everything_is_written(outcome):
    for name in ("certificates", "shortcuts", "audits", "alarms", "promise", "evaluations"):
        for kind in ("png", "svg"):
            assert (outcome.out / f"{name}.{kind}").stat().st_size > 1_000
    page = (outcome.out / "report.html").read_text()
    assert "synthetic: data made up" in page and "http-equiv" in page
    assert page.count("data:image/svg+xml") == 6
    manifest = json.loads((outcome.out / "manifest.json").read_text())
    assert manifest["study"] == "promises" and manifest["settings"]["scope"] == SCOPE.to_json()


def test_equal_seeds_give_equal_results_and_others_other_ones(found):
    work = Promises(RECIPE, SCOPE)
    for job in (
        Job("certificate", "rules", 1),
        Job("audit", "", 3, 0.1, 0.2),
        Job("pilot"),
        Job("promise", "limits change", 50),
    ):
        place = jobs(SCOPE).index(job)
        assert json.loads(json.dumps(work.do(job))) == found[place]
    other = Promises(RECIPE, dataclasses.replace(SCOPE, seed=1)).do(Job("certificate", "rules", 1))
    assert other != found[jobs(SCOPE).index(Job("certificate", "rules", 1))]


def test_shares_are_those_of_real_certificates(found):
    """The study takes a short way; `certify` and `broken` are the long one."""
    work = Promises(RECIPE, SCOPE)
    for name in ("logistic", "linear", "rules (pairs denied)"):
        one = found[jobs(SCOPE).index(Job("certificate", name, 0))]
        world, to_teach, pool = work.world(KINDS[name], 0)
        assert len(to_teach) == 12 and len(pool) == 48 and not set(to_teach) & set(pool)
        limits = work.limits(KINDS[name], world, to_teach, 0)
        contexts, allowed = world.tables.contexts[pool], world.tables.allowed[pool]
        for part in one["by_alpha"]:
            rng = np.random.default_rng([SCOPE.seed, FOR_CALIBRATION, 0])
            for share, kept in zip(part["shares"], part["keeps"], strict=True):
                rows = rng.integers(0, 48, SCOPE.contexts)
                made = certify(
                    limits, Calibration(contexts[rows], allowed[rows]), part["alpha"], DELTA
                )
                assert share == pytest.approx(broken(made, contexts, allowed))
                inside = scores_of(limits, contexts) > made.threshold
                assert kept == inside.any(axis=1).mean()
            # Nobody plays a denied arm where the certified set has none.
            for run in part["runs"]:
                assert run["most"] >= 0 and run["steps"] == 200
                assert part["shares"][0] > 0.0 or run["E"] == 0


def test_violating_pays_where_it_is_meant_to(found):
    tables = RECIPE.world(1).tables
    paid = paying(tables)
    more = paid.rewards - tables.rewards
    assert (more[tables.allowed] == 0.0).all() and (paid.rewards <= 1.0).all()
    assert (more[~tables.allowed & (tables.rewards < 1.0)] > 0.0).all()
    for one in found:
        if one["part"] == "certificate":
            assert {*one["free"]} == {PLAIN, PAYS}


def test_numbers_are_gathered_by_kind_and_alpha(found):
    cells = certified(found)
    assert len(cells) == 2 * len(KINDS)
    for cell in cells:
        assert len(cell.shares) == len(cell.one_arm) == 12 and len(cell.rates[PAYS]) == 2
        assert cell.broken == sum(share > cell.alpha for share in cell.shares)
        assert cell.taught == (200 if cell.limits == "linear" else 40)
        assert 0.0 <= cell.keeps <= 1.0 and cell.beyond <= 4
    for pilot in piloted(found):
        assert pilot.runs == 12 and pilot.broken + pilot.none <= 12
    for one in alarms(found):
        assert len(one["delays"]) + one["false"] + one["never"] == 30
    assert mean([]) == 0.0 and mean([1, 2]) == 1.5


def test_a_pilot_is_held_to_the_steps_after_it(monkeypatch):
    monkeypatch.setattr("bridle_studies.guarantees.jobs.unsound_pilot", lambda *_: 1.0)
    seen = []

    def all_later(tables, limits, sigma, rows, seed):
        seen.append((sigma, len(rows)))
        return np.arange(len(rows)) >= SCOPE.contexts  # not one in the pilot

    monkeypatch.setattr("bridle_studies.guarantees.jobs._violated", all_later)
    runs = Promises(RECIPE, SCOPE).do(Job("pilot"))["runs"]
    assert all(run["rate"] == 1.0 and run["broken"] and run["sigma"] == 1.0 for run in runs)
    assert seen[0] == (0.0, 230) and seen[11:13] == [(1.0, 330), (1.0, 330)]


def test_what_would_refute_has_an_error_of_one_in_a_million():
    for tries, chance in ((300, 0.1), (1_000, 0.05), (40, 0.1)):
        assert binom.sf(most(tries, chance), tries, chance) <= 1e-6
        assert binom.sf(most(tries, chance) - 1, tries, chance) > 1e-6


def test_the_course_of_a_meter_goes_on_to_the_end(found):
    (course,) = (one for one in found if one["part"] == "course")
    t, truth, lower, upper = np.array(course["points"]).T
    assert t[-1] == 600 and (np.diff(truth) >= 0).all()
    assert (np.diff(lower) >= 0).all() and (lower <= upper).all() and (upper <= t).all()


def test_logs_have_a_truth_and_those_of_a_mask_none():
    log, truths = logged(np.random.default_rng(3), (0.5, 0.5), 60)
    assert truths[0] == truths[1]
    said = evaluate(log, sigma=0.5)
    assert said.decisions == 60 and 0.0 < truths[0] < 1.0
    with pytest.raises(NotPossible, match="never done in the log"):
        evaluate(masked(np.random.default_rng(3), 60), policy=Uniform())


def test_sentences_are_about_what_was_found(found):
    good = json.loads(json.dumps(found))
    for one in good:
        if one["part"] == "certificate":
            for part in one["by_alpha"]:
                part["shares"] = [0.0] * len(part["shares"])
        if one["part"] == "audit":
            one["wrong"] = 0
    said = " ".join(lead(good))
    assert "Certificates held" in said and "bounds held" in said and "2 of 2 logs refused" in said
    bad = json.loads(json.dumps(found))
    for one in bad:
        if one["part"] == "certificate":
            for part in one["by_alpha"]:
                part["shares"] = [1.0] * len(part["shares"])
                part["one_arm"] = [0.0] * len(part["shares"])
        if one["part"] == "audit":
            one["wrong"] = 30
        if one["part"] == "pilot":
            for run in one["runs"]:
                run["broken"] = False
        if one["part"] == "evaluate":
            for log in one["logs"]:
                log["refused"] = False
    said = " ".join(lead(bad))
    assert "Certificates did NOT hold" in said and "bounds did NOT hold" in said
    assert "Not sound" not in said
    assert summary(bad)["certificate"][0]["broken"] == 12


def test_a_finished_study_is_only_drawn_again_and_another_is_refused(
    outcome, monkeypatch, tmp_path
):
    out = shutil.copytree(outcome.out, tmp_path / "copy")
    monkeypatch.setattr(Promises, "do", lambda self, job: pytest.fail("nothing is to be run"))
    monkeypatch.setattr("bridle_studies.guarantees.run.draw_promises", lambda *_, **how: {})  # slow
    console = Console(record=True, width=100)
    again = promises(RECIPE, SCOPE, out, engine="in-process", console=console)
    assert again.summary == outcome.summary and "drawing it again" in console.export_text()
    other = dataclasses.replace(SCOPE, seed=5)
    with pytest.raises(NotPossible, match="--fresh"):
        promises(RECIPE, other, out, engine="in-process")


def test_files_of_others_are_left_alone(tmp_path):
    (tmp_path / "promises.json").write_text("mine")
    with pytest.raises(NotPossible, match=r"promises\.json"):
        promises(RECIPE, SCOPE, tmp_path, engine="in-process")
    assert (tmp_path / "promises.json").read_text() == "mine"


def test_a_report_that_cannot_be_written_is_told(found, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotPossible, match="cannot be written"):
        write_promises_report(tmp_path / "file", manifest={}, found=found, figures={})
    page = write_promises_report(tmp_path, manifest={}, found=found, figures={}).read_text()
    assert "Promises that hold: a world" in page


@pytest.mark.parametrize(
    ("name", "value"),
    [("contexts", 229), ("adaptive", 7), ("folds", 0), ("seed", -1), ("length", 99), ("runs", 1)],
)
def test_a_scope_that_is_none_is_refused(name, value):
    with pytest.raises(InvalidValue, match=f"'{name}' parameter of Scope"):
        dataclasses.replace(SCOPE, **{name: value})


def test_the_full_scope_is_that_of_the_issue():
    full = Scope()
    assert Scope.quick().recalibrations < full.recalibrations
    assert full.folds * full.recalibrations == 300 and full.sequences >= 1_000
    assert full.length == 10_000 and full.logs >= 400
    assert full.runs >= 1_000 and full.horizon == 20_000
    assert most(300, DELTA) == 57
    assert all(cost(job) > 0.0 for job in jobs(full))
    assert sum(job.part == "certificate" for job in jobs(full)) == 5 * len(KINDS)

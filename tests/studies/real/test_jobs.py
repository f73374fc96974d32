"""The study of real limits, in small: what it counts, what it writes, what it refuses."""

from __future__ import annotations

import dataclasses
import json
import shutil
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from bridle.errors import InvalidValue, NotPossible
from bridle.limits import RuleLimits
from bridle.simulate import Asking
from bridle_studies.environments import Movies, synthetic_block
from bridle_studies.environments.ages import Ages
from bridle_studies.environments.changes import stricter
from bridle_studies.environments.exceptions import Exceptions
from bridle_studies.frontier.jobs import Frontier
from bridle_studies.frontier.scope import Scope as FrontierScope
from bridle_studies.real import canvas
from bridle_studies.real import worlds as real_worlds
from bridle_studies.real.figures import draw_real
from bridle_studies.real.jobs import Real
from bridle_studies.real.methods import (
    RUNS,
    Trial,
    calibrate,
    default_limits,
    default_run,
    random_answers,
)
from bridle_studies.real.parts import MEASURES, is_whole
from bridle_studies.real.report import lead, print_real, write_real_report
from bridle_studies.real.run import real
from bridle_studies.real.scope import (
    CALIBRATION,
    CHANGES,
    EXCEPTIONS,
    METHODS,
    SAID,
    STAFF,
    TEACHERS,
    USUAL,
    Job,
    Scene,
    Scope,
    cost,
    jobs,
)
from bridle_studies.real.summary import calibrations, cells, runs_frame
from bridle_studies.real.teachers import (
    AFTER,
    VOICE,
    hear,
    holds,
    judge,
    rates_frame,
    teacher_cells,
    teachers_frame,
)
from bridle_studies.real.worlds import FAMILIES, NAMES, OURS, TAUGHT, data_folder, own_scene, scenes
from bridle_studies.scaffold.journal import JsonParts
from tests.studies.environments.made_up import real as real_data

SCOPE = Scope(
    seeds=2,
    seeds_found=2,
    seeds_exceptions=2,
    steps=120,
    steps_rules=120,
    taught=80,
    calibrated=(5, 20),
)
MOVIES = Movies(synthetic_block(people=12, movies=60, seed=3))
TABLE = "kind,level\n" + "".join(
    f"{'|'.join(w for w, there in (('a', i % 2), ('b', i % 3), ('c', i % 5)) if there)},"
    f"{('low', 'mid', 'high')[i % 3]}\n"
    for i in range(30)
)


@pytest.fixture(scope="module")
def small_scenes(tmp_path_factory):
    path = tmp_path_factory.mktemp("items") / "toys.csv"
    path.write_text(TABLE)
    return [
        own_scene(path, SCOPE, label="level", levels=["low", "mid", "high"]),
        Scene(name="ages", recipe=Ages(viewers=40, each=2), steps=120, seeds=2, about="by age"),
        Scene(name="found", recipe=MOVIES, steps=120, seeds=2, rules=True, limits="found"),
        Scene(
            name="rare",
            recipe=Exceptions(rate=0.05, items=300, people=10),
            steps=120,
            seeds=2,
            kind=EXCEPTIONS,
            methods=("default", "unchecked", "told"),
            calibrated=False,
        ),
        Scene(
            name="change",
            recipe=_items(path),
            steps=120,
            seeds=2,
            kind=CHANGES,
            methods=OURS,
            calibrated=False,
            stricter=True,
        ),
        Scene(
            name="taught",
            recipe=_items(path),
            steps=120,
            seeds=2,
            kind=TEACHERS,
            methods=TAUGHT,
            calibrated=False,
        ),
    ]


def _items(path):
    return own_scene(path, SCOPE, label="level", levels=["low", "mid", "high"]).recipe


@pytest.fixture(scope="module")
def outcome(small_scenes, tmp_path_factory):
    out = tmp_path_factory.mktemp("real") / "out"
    return real(
        small_scenes,
        SCOPE,
        out,
        engine="in-process",
        quick=True,
        command="bridle study real",
        skipped=["ESRB: skipped, as games.csv is not there."],
    )


def test_the_files_have_the_form_that_was_asked_for(outcome):
    header, *rows = (outcome.out / "real.csv").read_text().splitlines()
    old = "world,method,seed,answers,audits,E,T,R,Rc,told_Rc,abstentions"
    assert header == f"{old},found,frozen,anew,E_after,kind"
    assert len(rows) == 2 * (3 * len(USUAL) + 3 + len(OURS) + len(TAUGHT))
    assert METHODS[0] == "default" and not any(m.startswith("default") for m in METHODS[1:])
    runs = outcome.runs
    assert set(runs["T"]) == {120}
    for (method,), mine in runs.group_by("method"):
        unchecked = set(METHODS) - {"default", "promise", *STAFF}
        assert mine["audits"].sum() == 0 if method in unchecked else True, method
        assert (mine["found"] <= mine["audits"]).all()
        assert method == "promise" or mine["frozen"].sum() == 0
        assert method == "promise" or mine["anew"].sum() == 0
    changed = pl.col("world") == "change"
    assert runs.filter(~changed)["E_after"].null_count() == len(runs.filter(~changed))
    assert (runs.filter(changed)["E_after"] <= runs.filter(changed)["E"]).all()
    assert dict(runs.select("world", "kind").unique().rows()) == {
        "toys": "limits",
        "ages": "limits",
        "found": "limits",
        "rare": "exceptions",
        "change": "changes",
        "taught": "teachers",
    }
    for (_, _), mine in runs.group_by("world", "seed"):
        told = mine.filter(pl.col("method") == "told")
        assert told["E"].item() == 0 and told["answers"].item() == 0
        assert set(mine["told_Rc"]) == {told["Rc"].item()}
        assert set(mine.filter(pl.col("method") == "bcts")["answers"]) <= {80}
    header, *rows = (outcome.out / "calibration.csv").read_text().splitlines()
    assert header == "world,answers,said_at_least,pairs,true_share"
    assert len(rows) == 3 * 3 * len(SAID)
    assert [*dict.fromkeys(outcome.calibration["answers"])] == ["5", "20", "own"]
    for by_answers in calibrations(outcome.calibration).values():
        for said in by_answers.values():
            pairs = [one.pairs for one in said]
            assert pairs == sorted(pairs, reverse=True)  # a higher bar, fewer pairs
            assert all((one.true_share is None) == (one.pairs == 0) for one in said)


def test_everything_is_written(outcome):
    for name in ("real", "calibration", "seeds", "exceptions", "changes", "teachers"):
        for kind in ("png", "svg"):
            assert (outcome.out / f"{name}.{kind}").stat().st_size > 1_000
    page = (outcome.out / "report.html").read_text()
    assert page.count("data:image/svg+xml") == 6 and "http-equiv" in page
    assert (
        "Teachers who err" in page and "300 of theirs" in page and page.count('id="teachers"') == 1
    )
    assert "quick run" in page and "games.csv is not there" in page and "toys" in page
    assert "30 of 30 rows kept" in page and "<script" not in page
    manifest = json.loads((outcome.out / "manifest.json").read_text())
    assert manifest["study"] == "real" and manifest["settings"]["scope"] == SCOPE.to_json()
    assert manifest["worlds"] == ["toys", "ages", "found", "rare", "change", "taught"]
    of_change = manifest["settings"]["worlds"]["change"]
    assert of_change["turn"] == 60 and of_change["methods"] == list(OURS)
    assert not (outcome.out / "parts").exists()


def test_a_job_depends_on_nothing_else(small_scenes, outcome):
    work = Real(small_scenes, SCOPE)
    for job in (
        Job("found", 1, "default"),
        Job("toys", 1, "logistic"),
        Job("ages", 0, "told"),
        Job("rare", 1, "unchecked"),
        Job("change", 1, "promise"),
        Job("taught", 1, "rates-20"),
    ):
        run = work.do(job)["run"]
        row = outcome.runs.filter(
            (pl.col("world") == job.world)
            & (pl.col("method") == job.part)
            & (pl.col("seed") == job.seed)
        ).row(0, named=True)
        assert {name: row[name] for name in run} == run
    other = Real(small_scenes, dataclasses.replace(SCOPE, seed=1))
    job = Job("toys", 1, "default")
    assert other.do(job) != work.do(job)


def test_worlds_of_rules_are_the_folds_of_the_frontier():
    scope = FrontierScope(folds=5, steps=120, examples=(80,), taught=80, masks=(5,), groups=(5,))
    for seed, offset in ((3, 0), (7, 1)):
        frontier = Frontier(
            {"x": MOVIES}, dataclasses.replace(scope, seed=scope.seed + offset)
        ).fold("x", seed % 5)
        scene = Scene(name="x", recipe=MOVIES, steps=120, seeds=10, rules=True)
        mine = Real([scene], SCOPE).fold("x", seed)
        assert mine.seed == frontier.seed
        assert np.array_equal(mine.online_rows, frontier.online_rows)
        assert np.array_equal(mine.world.tables.allowed, frontier.world.tables.allowed)
        assert mine.world.arms[0].group is not None
    found = Scene(name="x", recipe=MOVIES, steps=120, seeds=1, rules=True, limits="found")
    assert all(arm.group is None for arm in Real([found], SCOPE).fold("x", 0).world.arms)


def test_the_default_is_run_in_declared_groups(small_scenes):
    fold = Real(small_scenes, SCOPE).fold("toys", 0)
    run = default_run(fold.world, fold.online_rows, fold.seed)
    assert run.beliefs.units == 3 and len(run.said) > 0
    again = default_run(fold.world, fold.online_rows, fold.seed)
    assert np.array_equal(run.played, again.played)


def test_the_default_is_checked_and_the_other_is_not(small_scenes):
    fold = Real(small_scenes, SCOPE).fold("rare", 0)
    run = default_run(fold.world, fold.online_rows, fold.seed)
    assert len(run.found) > 0 and run.frozen == 0
    bare = default_run(fold.world, fold.online_rows, fold.seed, checks=False)
    assert len(bare.found) == 0
    for method, expected in (("default", run), ("unchecked", bare)):
        made, answers = RUNS[method](Trial(fold=fold, taught=1))
        assert np.array_equal(made.played, expected.played) and answers == len(expected.said)


def test_where_limits_change_every_method_lives_through_it(small_scenes):
    work = Real(small_scenes, SCOPE)
    scene, fold = work.scenes["change"], work.fold("change", 0)
    later = stricter(fold.world).allowed
    trial = Trial(fold=fold, taught=80, later=(60, later), marks=[30, 60, 90])
    in_force = np.where(
        np.arange(120)[:, None] < 60,
        fold.world.tables.allowed[fold.online_rows],
        later[fold.online_rows],
    )
    for method, run in RUNS.items():
        made, _ = run(trial)
        there = made.played >= 0
        denied = there & ~in_force[np.arange(120), made.played]
        assert made.checkpoints.tolist() == [30, 60, 90, 120]
        assert made.E.tolist() == [denied[:t].sum() for t in (30, 60, 90, 120)], method
        if method == "told":
            assert not denied.any()  # it is told at once
        if method not in scene.methods:
            continue
        result = work.do(Job("change", 0, method))
        assert result["run"]["E"] == denied.sum()
        assert result["run"]["E_after"] == denied[60:].sum()
        if method != "told":
            course = result["course"]
            assert course["E"] == [denied[:t].sum() for t in course["t"]]
            assert course["audits"][-1] == result["run"]["audits"]
            assert course["answers"][-1] == result["run"]["answers"]
            assert 60 in course["t"] and course["t"][-1] == 120


def test_calibration_is_counted_over_pairs_never_asked(small_scenes):
    fold = Real(small_scenes, SCOPE).fold("toys", 0)
    world = fold.world
    ((beliefs, rows, arms),) = random_answers(world, (20,), fold.seed).values()
    assert len(rows) == len(arms) == 20
    counted = calibrate(world, beliefs, rows, arms)
    group = [str(arm.group) for arm in world.arms]
    unit = {str(world.arms[k].group): int(u) for k, u in enumerate(beliefs.unit_of)}
    asked = {(int(row), group[arm]) for row, arm in zip(rows, arms, strict=True)}
    for least, (pairs, allowed) in zip(SAID, counted, strict=True):
        expected = [0, 0]
        for name, u in unit.items():
            p = beliefs.predict(u, world.tables.contexts).p
            for row in range(len(world.tables)):
                if (row, name) not in asked and p[row] >= least:
                    expected[0] += 1
                    expected[1] += bool(world.tables.allowed[row, group.index(name)])
        assert [pairs, allowed] == expected
    assert isinstance(default_limits(world, 0, limits="rules"), RuleLimits)


def test_an_interrupted_study_goes_on(small_scenes, outcome, tmp_path, monkeypatch):
    out = tmp_path / "out"
    do, done = Real.do, list[Job]()

    def failing(self, job):
        if self.scope == SCOPE:
            if len(done) == 7:
                raise KeyboardInterrupt
            done.append(job)
        return do(self, job)

    monkeypatch.setattr(Real, "do", failing)
    with pytest.raises(KeyboardInterrupt):
        real(small_scenes, SCOPE, out, engine="in-process")
    assert len([*(out / "parts").glob("job-*.json")]) == 7
    # A part that was damaged is done again; another study is refused meanwhile.
    path = next((out / "parts").glob("job-*.json"))
    path.write_text("{")
    with pytest.raises(NotPossible, match="holds another study"):
        real(small_scenes, dataclasses.replace(SCOPE, seed=9), out, engine="in-process")
    (out / "real.csv").write_text("left over")
    again = list[Job]()

    def counting(self, job):
        again.append(job) if self.scope == SCOPE else None
        return do(self, job)

    monkeypatch.setattr(Real, "do", counting)
    console = Console(record=True, width=100, file=open("/dev/null", "w"))  # noqa: SIM115
    whole = real(small_scenes, SCOPE, out, engine="in-process", console=console)
    console.file.close()
    assert "Going on: 6 of 68 jobs are there." in console.export_text()
    assert len(again) == 62 and not (out / "parts").exists()
    assert whole.runs.equals(outcome.runs) and whole.calibration.equals(outcome.calibration)
    assert whole.course.equals(outcome.course)
    assert whole.teachers.equals(outcome.teachers) and whole.rates.equals(outcome.rates)


def test_a_finished_study_is_only_drawn_again_and_another_is_refused(
    small_scenes, outcome, tmp_path, monkeypatch
):
    out = shutil.copytree(outcome.out, tmp_path / "copy")
    before = (out / "report.html").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(Real, "do", lambda self, job: pytest.fail("nothing is to be run"))
        again = real(small_scenes, SCOPE, out, engine="in-process")
    assert again.course.equals(outcome.course) and len(again.course) > 0
    assert again.teachers.equals(outcome.teachers) and len(again.rates) > 0
    assert again.runs.equals(outcome.runs) and (out / "report.html").read_bytes() == before
    other = dataclasses.replace(SCOPE, seed=9)
    with pytest.raises(NotPossible, match="holds another study"):
        real(small_scenes, other, out, engine="in-process")
    tiny = dataclasses.replace(other, seeds=1)
    few = [dataclasses.replace(small_scenes[1], seeds=1)]
    fresh = real(few, tiny, out, engine="in-process", fresh=True)
    assert len(fresh.runs) == len(USUAL) and fresh.course.is_empty()
    assert not (out / "changes.png").exists() and not (out / "exceptions.svg").exists()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "real.csv").write_text("mine")
    with pytest.raises(NotPossible, match="overwrite"):
        real(few, tiny, foreign, engine="in-process")


def test_processes_give_the_same_bits(small_scenes, outcome, tmp_path):
    few = [dataclasses.replace(small_scenes[0], seeds=1)]
    scope = dataclasses.replace(SCOPE, seeds=1)
    made = real(few, scope, tmp_path / "out", engine="processes", workers=1)
    same = outcome.runs.filter((pl.col("world") == "toys") & (pl.col("seed") == 0))
    assert made.runs.equals(same)


def test_parts_of_another_form_count_as_not_there():
    small = [
        Scene(name=name, recipe=MOVIES, steps=10, seeds=1, calibrated=name == "w", stricter=change)
        for name, change in (("w", False), ("bare", False), ("turn", True))
    ]
    small.append(dataclasses.replace(small[1], name="taught", kind=TEACHERS))
    work = Real(small, SCOPE)
    parts = JsonParts(lambda job, result: is_whole(job, result, work))
    run = dict.fromkeys(MEASURES, 1)
    old = dict.fromkeys(("answers", "audits", "E", "T", "R", "Rc", "abstentions"), 1)
    course = {"t": [1, 2], "answers": [0, 0], "audits": [0, 0], "E": [0, 1]}
    own = {"own": [[0, 0]] * len(SAID)}
    voice = dict.fromkeys(VOICE, 1)
    job, said = Job("w", 0, "default"), Job("w", 0, CALIBRATION)
    cases = [
        (job, {"run": run, "calibration": own}, True),
        (job, {"run": run}, False),
        (job, {"run": {}, "calibration": own}, False),
        (job, {"run": run, "calibration": {"own": []}}, False),
        (job, {"run": run, "calibration": {"5": own["own"]}}, False),
        (Job("w", 0, "rules"), {"run": run}, True),
        (said, {"calibration": {"5": own["own"], "20": own["own"]}}, True),
        (said, {"calibration": own}, False),
        (job, {"run": old, "calibration": own}, False),
        (Job("bare", 0, "default"), {"run": run}, True),
        (Job("turn", 0, "promise"), {"run": run, "course": course}, True),
        (Job("turn", 0, "promise"), {"run": run, "course": {**course, "E": [0]}}, False),
        (Job("turn", 0, "promise"), {"run": run}, False),
        (Job("turn", 0, "told"), {"run": run}, True),
        (Job("gone", 0, "told"), {"run": run}, False),
        (Job("taught", 0, "told"), {"run": run}, True),
        (Job("taught", 0, "rates-5"), {"run": run}, False),
        (Job("taught", 0, "rates-5"), {"run": run, "teachers": [voice] * 2}, True),
        (Job("taught", 0, "rates-5"), {"run": run, "teachers": [voice]}, False),
        (Job("taught", 0, "rates-5"), {"run": run, "teachers": [voice, {}]}, False),
        (Job("taught", 0, "rates-5"), {"run": run, "teachers": "ab"}, False),
    ]
    for one, result, whole in cases:
        data = parts.encode(one, result, "mark")
        assert (parts.decode(one, data, "mark") == result) is whole, result


# -- teachers who err ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*STAFF])
def test_what_each_teacher_said_is_counted(small_scenes, method):
    work = Real(small_scenes, SCOPE)
    fold = work.fold("taught", 0)
    run, answers = RUNS[method](Trial(fold=fold, taught=1))
    assert isinstance(run, Asking)
    voices = work.do(Job("taught", 0, method))["teachers"]
    assert voices == hear(run, method, fold.world.tables)
    assert [voice.keys() for voice in voices] == [VOICE] * len(STAFF[method])
    assert sum(voice["questions"] for voice in voices) == answers
    for place, (voice, one) in enumerate(zip(voices, STAFF[method], strict=True)):
        assert (voice["teacher"], voice["error"], voice["told"]) == (one.name, one.error, one.told)
        words = voice["questions"] + voice["checks"]
        assert voice["wrong"] <= words and (one.error > 0.0 or voice["wrong"] == 0)
        assert voice["rate_300"] is None and voice["wrong_300"] is None  # it is too short
        if one.told is None:
            numbers, rates, _ = zip(*voice["marks"], strict=True)
            last = np.flatnonzero(run.heard[:, 0] == place)[-1]
            assert numbers[-1] == words and rates[-1] == run.learned[last, place]
            assert voice["rate"] == run.rates[place]  # what others said since counts, too
            assert voice["marks"][-1][2] == voice["wrong"] / words
        else:
            assert voice["marks"] == [] and voice["rate"] == one.told


def test_rates_after_300_answers_are_those_of_then(small_scenes):
    """A run of many words, made up: what was known after 300 of theirs, and of all."""
    work = Real(small_scenes, SCOPE)
    fold = work.fold("taught", 0)
    run, _ = RUNS["rates-20"](Trial(fold=fold, taught=1))
    assert isinstance(run, Asking)
    n = 2 * AFTER
    heard = np.column_stack([np.arange(n) % 2, (np.arange(n) % 10) == 1])
    learned = np.column_stack([np.zeros(n), np.arange(n) / n])
    many = dataclasses.replace(run, heard=heard, learned=learned)
    good, cheap = hear(many, "rates-20", fold.world.tables)
    assert cheap["rate_300"] == learned[n - 1, 1] and cheap["wrong_300"] == 0.2
    assert cheap["rate_300_all"] == learned[AFTER - 1, 1] and cheap["wrong_300_all"] == 0.2
    assert good["rate_300"] == good["wrong_300"] == 0.0
    few = hear(
        dataclasses.replace(run, heard=heard[:AFTER], learned=learned[:AFTER]),
        "rates-20",
        fold.world.tables,
    )
    assert few[1]["rate_300"] is None and few[1]["rate_300_all"] is not None


def heard_by(rates=(0.21, 0.27), E=(0, 50)):
    """Runs and what their teachers said, made up: a seed each."""
    runs = made_up(E, worlds=["one"], kind=TEACHERS)
    done = []
    for method, staff in STAFF.items():
        for seed, rate in enumerate(rates):
            voices = []
            for one in staff:
                at: dict[str, Any] = {"rate_300": None, "wrong_300": None}
                if one.told is None:
                    known = rate if one.error else 0.001
                    at = {"rate_300": known, "wrong_300": known - 0.001 * bool(one.error)}
                voices.append(
                    {
                        "teacher": one.name,
                        "error": one.error,
                        "price": one.price,
                        "told": one.told,
                        "questions": 60 if method == "rates-20" else 50,
                        "checks": 20,
                        "wrong": 7,
                        "rate": at["rate_300"] if one.told is None else one.told,
                        **at,
                        "rate_300_all": None,
                        "wrong_300_all": None,
                        "marks": []
                        if one.told is not None
                        else [[10, 0.1, 0.1], [300, known, 0.2]],
                    }
                )
            done.append((Job("one", seed, method), {"teachers": voices}))
    return runs, teachers_frame(done), rates_frame(done)


def test_the_bars_are_held_against_what_was_found():
    runs, teachers, _ = heard_by()
    members = {cell.method: cell for cell in cells(runs)}
    voices = [voice for voice in teacher_cells(teachers) if voice.method == "rates-20"]
    good, cheap = voices
    assert good.of_alone == good.of_alone_most == 1.2
    assert cheap.own is not None and (cheap.own.seeds, cheap.own.beyond) == (2, 1)
    assert cheap.own.off == pytest.approx(0.07) and cheap.own.from_given == pytest.approx(0.001)
    assert cheap.all is None and cheap.rate == pytest.approx(0.24)
    kept = members["told"]
    assert holds(kept, voices) == {"share": True, "of_alone": True, "within": False}
    closer = teacher_cells(heard_by(rates=(0.21, 0.22))[1])
    twice = [v for v in closer if v.method == "rates-20"]
    assert holds(members["rates-20"], twice) == {"share": False, "of_alone": True, "within": True}
    told = [v for v in closer if v.method == "at-word-20"]
    assert holds(kept, told) == {"share": True, "of_alone": None, "within": None}
    judged = judge([*members.values()], teacher_cells(teachers))
    assert [entry["method"] for entry in judged] == [*STAFF]
    assert judged[1]["holds"]["within"] is False and judged[1]["teachers"][1]["own"]["beyond"] == 1
    assert json.loads(json.dumps(judged)) == judged


def test_sentences_and_pictures_of_teachers(tmp_path):
    runs, teachers, rates = heard_by()
    told = " ".join(lead(runs, NOTHING, teachers))
    assert "Beside a cheap one who errs in 20 %, rates not told, in “one”: 300 denied plays" in told
    assert "the good one answers 60 questions, 1.20 × of what it takes alone" in told
    assert "cheap off by up to 0.070 (by more than 0.05 in 1 of 2 seeds; up to 0.001 from" in told
    assert "The same two taken at their word in “one”" in told
    assert "One alone who errs in 5 %, which is told" in told
    assert "the default" not in told and "errs" not in " ".join(lead(runs, NOTHING))
    console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
    print_real(console, runs, teachers)
    console.file.close()
    text = console.export_text()
    assert "one, by teacher: T = 1,000" in text and "0.070" in text and "1/2" in text
    figures = draw_real(tmp_path, runs, NOTHING, teachers=teachers, rates=rates)
    assert {*figures} == {"teachers.png", "teachers.svg"}
    assert draw_real(tmp_path / "none", runs, NOTHING) == {}


def test_taught_worlds_are_their_worlds(small_scenes):
    """What the good one alone takes is what the default takes: the base of comparison."""
    work = Real(small_scenes, SCOPE)
    assert work.do(Job("taught", 1, "default"))["run"] == work.do(Job("toys", 1, "default"))["run"]


# -- sentences and pictures ----------------------------------------------------------------------


def made_up(default_errors, worlds=("one", "two"), audits=0, kind="limits"):
    done = []
    for world in worlds:
        for seed, errors in enumerate(default_errors):
            for method in METHODS:
                E = errors if method == "default" else 0 if method == "told" else 300
                run = {
                    "answers": 50 + seed,
                    "audits": audits,
                    "E": E,
                    "T": 1_000,
                    "R": 0.2,
                    "Rc": 0.11 if method == "default" else 0.1,
                    "abstentions": 0,
                    "anew": 0,
                    "found": 0,
                    "frozen": 20 if method == "promise" else 0,
                    "E_after": E // 2 if kind == CHANGES else None,
                }
                done.append((Job(world, seed, method), {"run": run}))
    return runs_frame(done, dict.fromkeys(worlds, kind))


NOTHING = pl.DataFrame(
    schema={
        "world": pl.String,
        "answers": pl.String,
        "said_at_least": pl.Float64,
        "pairs": pl.Int64,
        "true_share": pl.Float64,
    }
)


def test_sentences_are_about_what_was_found(outcome):
    good = " ".join(lead(made_up([0, 10]), NOTHING))
    assert "In every one of 4 runs of the default at most 1.00 % of the plays" in good
    assert "NOT" not in good and "on average 0.010 above" in good
    bad = " ".join(lead(made_up([0, 11], audits=4), NOTHING))
    assert "kept to that in every seed of 0 of 2 worlds" in bad and "did NOT in “one”" in bad
    assert "rules kept below 1 % in 0 of 2 worlds (the worst run: 30.0 %" in bad
    assert "4 plays checked" in bad
    assert (
        "With a promise of 1 %: in “one” 300 denied plays, 50.5 answers and 4 checks, 2.0 %" in bad
    )
    alone = " ".join(lead(made_up([0, 0], worlds=["one"]), NOTHING))
    assert "50.5 answers (50 to 51)" in alone
    assert lead(NOTHING_RUN, NOTHING) == []
    sure = NOTHING.vstack(
        pl.DataFrame(
            {
                "world": ["one"],
                "answers": ["own"],
                "said_at_least": [0.99],
                "pairs": [200],
                "true_share": [0.995],
            }
        )
    )
    assert "“one” 0.50 % of 200" in lead(made_up([0]), sure)[-1]


def test_sentences_about_exceptions_and_changes():
    rare = " ".join(lead(made_up([0, 11], audits=4, kind=EXCEPTIONS), NOTHING))
    assert "with checks 2 of 4 runs played more than 1 % of denied arms, the worst 1.10 %" in rare
    assert "for 54.5 answers and checks on average; without checks 4 of 4 runs" in rare
    assert "the default" not in rare  # limits as they are were not run
    changes = lead(made_up([0, 11], worlds=["one"], kind=CHANGES), NOTHING)
    assert changes[0].startswith(
        "Denied plays after the change in “one”: default 2.5 (5 in the worst seed), promise 150"
    )
    both = pl.concat([made_up([2], kind=EXCEPTIONS), made_up([2], worlds=["two"], kind=CHANGES)])
    console = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
    print_real(console, both.filter(pl.col("world") == "one").vstack(made_up([2], ["two"])))
    print_real(console, made_up([2], ["two"], kind=CHANGES))
    console.file.close()
    text = console.export_text()
    assert "Rare exceptions: T = 1,000, means over 1 seed" in text and "unchecked:" in text
    assert "E after" in text and "frozen" in text and "2.0 %" in text


NOTHING_RUN = made_up([0]).clear()


def test_cells_have_the_worst_seed_and_the_ends():
    (mine,) = (cell for cell in cells(made_up([0, 30], worlds=["one"])) if cell.ours)
    assert (mine.fewest, mine.most, mine.seeds) == (50, 51, 2)
    assert mine.worst == 0.03 and mine.share == 0.015 and mine.excess == pytest.approx(0.01)
    assert mine.broke == 1 and mine.spent == 50.5 and mine.after is None


def test_pictures_of_extremes(tmp_path):
    for number, runs in enumerate((made_up([0], worlds=["one"]), made_up([1_000, 0], audits=7))):
        out = tmp_path / str(number)
        figures = draw_real(out, runs, NOTHING, {"one": "a text of many words " * 4})
        assert {*figures} == {"real.png", "real.svg", "seeds.png", "seeds.svg"}
        manifest = {"origins": {"one": {"title": "t", "url": "javascript:x"}}}
        page = write_real_report(
            out, manifest=manifest, runs=runs, calibration=NOTHING, figures=figures
        )
        assert "javascript:" not in page.read_text()
    (tmp_path / "file").write_text("")
    with pytest.raises(NotPossible, match="cannot be written"):
        write_real_report(
            tmp_path / "file" / "folder", manifest={}, runs=runs, calibration=NOTHING, figures={}
        )
    for kind in (EXCEPTIONS, CHANGES, TEACHERS):  # of the others nothing is drawn without more
        made = draw_real(tmp_path / kind, made_up([1_000, 0], audits=7, kind=kind), NOTHING)
        assert {*made} == ({"exceptions.png", "exceptions.svg"} if kind == EXCEPTIONS else set())
    for table in (canvas.WORDS, canvas.TINTS, canvas.MARKS):
        assert set(table) == set(METHODS) - {"told"}


# -- scopes and worlds ---------------------------------------------------------------------------


def test_scopes():
    assert Scope().calibrated == (100, 300, 1_000) and Scope().seeds == 10
    for how in (
        {"seeds": 0},
        {"seeds_exceptions": 0},
        {"steps": 0},
        {"seed": -1},
        {"calibrated": ()},
        {"calibrated": (5, 5)},
        {"calibrated": (0,)},
        {"taught": 1.5},
    ):
        with pytest.raises(InvalidValue):
            Scope(**how)


def test_jobs_are_named_apart(small_scenes):
    todo = jobs(small_scenes)
    assert len(todo) == 2 * (3 * 7 + 3 + 4 + 6) and len({job.key for job in todo}) == len(todo)
    names = {Job(name, 0, "default").key for name in NAMES}
    assert len(names) == len(NAMES)
    assert Job("a/b c", 3, "told").key == "a-b-c-3-told"
    by_name = {scene.name: scene for scene in small_scenes}
    assert all(cost(job, by_name[job.world]) > 0 for job in todo)
    with pytest.raises(InvalidValue, match="distinct"):
        Real([small_scenes[0]] * 2, SCOPE)


def test_worlds_without_data_are_skipped_plainly(tmp_path):
    found = scenes(tmp_path, SCOPE, small=True)
    assert [scene.name for scene in found.scenes] == ["ages", *FAMILIES["exceptions made-up"]]
    assert len(found.skipped) == 6 and found.skipped[-1].startswith("exceptions ESRB: skipped")
    assert all("skipped, as" in line and "is not there" in line for line in found.skipped)
    with pytest.raises(NotPossible, match="No world can be run"):
        scenes(tmp_path, SCOPE, only=["ESRB"])
    few = scenes(tmp_path, SCOPE, only=["exceptions 2 % made-up paying"], small=True).scenes
    how = [(s.recipe.settings()["rate"], s.recipe.settings()["pays"], s.seeds) for s in few]
    assert how == [(0.02, 0.3, 2)]
    assert all(" made-up" in s.name for s in scenes(tmp_path, SCOPE, only=["exceptions"]).scenes)
    assert not any("," in name for name in (*NAMES, *FAMILIES))  # --worlds takes them by commas
    with pytest.raises(InvalidValue, match="among MPAA genres"):
        scenes(tmp_path, SCOPE, only=["tulips"])


def test_where_data_are_looked_for(tmp_path, monkeypatch):
    assert data_folder(tmp_path) == tmp_path
    monkeypatch.setenv("BRIDLE_DATA", str(tmp_path / "there"))
    assert data_folder(None) == tmp_path / "there"
    monkeypatch.delenv("BRIDLE_DATA")
    assert data_folder(None).parts[-2:] == ("shared", "data")
    with pytest.raises(InvalidValue, match="a folder with"):
        data_folder(tmp_path / "none")


def test_all_worlds_of_the_real_data(tmp_path):
    promised = ("MPAA genres", "ESRB", "MPAA violating pays", "MPAA stricter half-way")
    folder = real_data("mpaa/films.csv").parents[1]
    for need in ("esrb/games.csv", "warfarin/warfarin.csv", "ml-1m", "census"):
        real_data(need)
    scope = dataclasses.replace(
        SCOPE, seeds=1, seeds_found=1, seeds_exceptions=1, steps=30, steps_rules=30
    )
    found = scenes(folder, scope, small=True)
    assert tuple(scene.name for scene in found.scenes) == NAMES and not found.skipped
    assert len(NAMES) == 9 + 2 + 2 + 2 + 18 and found.scenes[3].teaching_contexts == 200
    by_name = {scene.name: scene for scene in found.scenes}
    assert by_name["groups found"].limits == "found"
    assert all(("promise" in by_name[name].methods) is (name in promised) for name in NAMES)
    work = Real(found.scenes, scope)
    late = work.do(Job("MPAA films as arms", 0, "newcomers"))
    assert late["newcomers"]["pairs"] == 202 * 4
    for name in NAMES:
        result = work.do(Job(name, 0, "default"))
        assert result["run"]["T"] == 30
        if by_name[name].calibrated:
            assert len(result["calibration"]["own"]) == len(SAID)
        else:
            assert "calibration" not in result
    plain, pays = (work.fold(n, 0).world.tables for n in ("MPAA genres", "MPAA violating pays"))
    assert np.array_equal(plain.allowed, pays.allowed)
    more = pays.rewards - plain.rewards
    assert not more[plain.allowed].any() and more[~plain.allowed].max() == pytest.approx(0.3)
    assert real_worlds.SMALL["people"] == work.fold("ESRB", 0).world.tables.arms

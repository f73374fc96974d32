from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bridle.errors import InvalidValue
from bridle.limits import LinearLimits
from bridle.policies import BehaviorConstrained, KnownMask
from bridle.simulate import online, teach
from bridle_studies.paper.plan import Plan
from bridle_studies.paper.work import Batch, Class, Job, Work, jobs, nearest, points, steps_of
from bridle_studies.theory import blend_regret
from tests.studies.small import PLAN, RECIPE, bits, by_hand


@pytest.fixture(scope="module")
def work() -> Work:
    return Work(RECIPE, PLAN)


def test_every_cell_of_the_grid_is_one_job():
    classes, batches = jobs(PLAN)
    assert len(classes) == 2 * 2 and len(batches) == 2 + 2 * 2 * 2
    assert sum(len(job.agents) for job in batches) == PLAN.runs
    every: list[Job] = [*classes, *batches]
    assert len({job.key for job in every}) == len(classes) + len(batches)
    assert sum(steps_of(PLAN, job) for job in batches) == PLAN.runs * PLAN.steps
    assert jobs(Plan(sigmas=(1.0,), folds=1))[1] == [
        Batch(0, None, None, ("mask", "mask-filter", "sigma=1"))
    ]


def test_folds_are_a_partition_and_teach_on_their_own(work):
    seen = []
    for f in range(2):
        fold = work.fold(f)
        assert len(fold.teach_rows) == 60 and len(fold.online_rows) == 150
        assert set(fold.teach_rows).isdisjoint(fold.online_rows)
        seen.append(set(fold.teach_rows))
    assert seen[0].isdisjoint(seen[1])
    assert len(seen[0]) <= 30


def test_the_order_of_contexts_does_not_depend_on_the_examples(work):
    more = Work(RECIPE, dataclasses.replace(PLAN, examples=(20, 90)))
    assert np.array_equal(more.fold(1).online_rows, work.fold(1).online_rows)
    assert np.array_equal(more.fold(1).teach_rows[:60], work.fold(1).teach_rows)


def test_limits_are_drawn_anew_for_each_fold_or_once(work):
    assert not np.array_equal(work.fold(0).world.denied, work.fold(1).world.denied)
    same = Work(RECIPE, dataclasses.replace(PLAN, redraw_constraints=False))
    assert np.array_equal(same.fold(0).world.denied, same.fold(1).world.denied)


def test_a_job_is_what_the_simulation_does(work):
    fold = work.fold(1)
    tables = fold.world.tables
    taught, ran = by_hand(work)
    lesson = teach(
        tables, examples=[20, 60], teaching="thompson", rows=fold.teach_rows, seed=fold.seed
    )
    said = tables.allowed[lesson.rows, lesson.arms]
    curve = taught["class-1-thompson"]
    assert curve.n.tolist() == [12, 24, 36, 48, 60]
    assert curve.denied.tolist() == [int((~said[:n]).sum()) for n in curve.n]
    # Every movie is allowed to someone: a question that was answered "no" could have had a "yes".
    assert curve.regret.tolist() == curve.denied.tolist()
    for agent, policy in (
        ("sigma=0", BehaviorConstrained(sigma=0.0)),
        ("sigma=0.5", BehaviorConstrained(sigma=0.5)),
    ):
        run = online(
            tables,
            policy=policy,
            limits=lesson.limits[20],
            rows=fold.online_rows,
            seed=fold.seed,
            checkpoints=[30, 60, 90, 120, 150],
        )
        a = PLAN.blends.index(agent)
        result = ran["batch-1-thompson-20"]
        for name in ("R", "Rc", "E", "abstentions"):
            assert np.array_equal(getattr(result, name)[a], getattr(run, name))
    mask = online(
        tables, policy=KnownMask(), rows=fold.online_rows, seed=fold.seed, checkpoints=[150]
    )
    assert ran["batch-1"].R[0, -1] == mask.R[-1] and ran["batch-1"].E[0, -1] == 0


def test_the_blends_regret_is_definition_2s(work):
    fold = work.fold(0)
    taught, ran = by_hand(work)
    tables = fold.world.tables
    stars, limits = (
        np.linalg.lstsq(tables.contexts, table, rcond=None)[0].T
        for table in (tables.rewards, tables.allowed.astype(float))
    )
    np.testing.assert_allclose(fold.reward_value, tables.contexts @ stars.T, atol=1e-5)
    np.testing.assert_allclose(fold.limit_value, tables.contexts @ limits.T, atol=1e-5)
    run = online(
        tables,
        policy=BehaviorConstrained(sigma=0.5),
        limits=LinearLimits.from_state(taught["class-0-random"].limits[60]),
        rows=fold.online_rows,
        seed=fold.seed,
    )
    whole = blend_regret(
        tables.contexts[run.rows], run.played, mu_star=stars, mu_e_star=limits, sigma_star=0.5
    )
    got = ran["batch-0-random-60"].blend_regret[PLAN.blends.index("sigma=0.5")]
    np.testing.assert_allclose(got, whole[[29, 59, 89, 119, 149]], atol=1e-3)
    masks = ran["batch-0"].blend_regret[:2]
    assert np.isnan(masks).all() and not np.isnan(ran["batch-0"].blend_regret[2]).any()


def test_the_blend_is_that_of_the_agents_own_labels():
    other = Work(RECIPE, dataclasses.replace(PLAN, label_coding="1/-1"))
    ones = Work(RECIPE, PLAN).fold(0)
    signs = other.fold(0)
    tables = ones.world.tables
    centre = nearest(tables.contexts, np.ones_like(tables.rewards))
    np.testing.assert_allclose(signs.limit_value, 2.0 * ones.limit_value - centre, atol=1e-4)


def test_nearest_is_least_squares():
    rng = np.random.default_rng(0)
    contexts, mu = rng.random((50, 3)), rng.random((3, 4))
    np.testing.assert_allclose(nearest(contexts, contexts @ mu), contexts @ mu, atol=1e-5)


def test_equal_plans_give_equal_bits_and_other_seeds_do_not(work):
    _, ran = by_hand(work)
    _, again = by_hand(Work(RECIPE, PLAN))
    _, other = by_hand(Work(RECIPE, dataclasses.replace(PLAN, seed=1)))
    for key, result in ran.items():
        assert bits(result) == bits(again[key])
    assert any(bits(ran[key]) != bits(other[key]) for key in ran)


def test_exact_denials_are_kept_out():
    plan = dataclasses.replace(PLAN, exact_denials=True, examples=(3_000,), sigmas=(0.9,))
    work = Work(RECIPE, plan)
    taught, ran = by_hand(work)
    fold, lesson = work.fold(0), taught["class-0-random"]
    denied = lesson.exact[3_000]
    assert denied.any() and not (denied & fold.world.tables.allowed).any()
    runs = [
        online(
            fold.world.tables,
            policy=BehaviorConstrained(sigma=0.9),
            rows=fold.online_rows,
            limits=LinearLimits.from_state(lesson.limits[3_000]),
            seed=fold.seed,
            eligible=may,
        )
        for may in (~denied, None)
    ]
    assert ran["batch-0-random-3000"].R[0, -1] == runs[0].R[-1] != runs[1].R[-1]


def test_a_blend_without_limits_is_refused(work):
    with pytest.raises(InvalidValue, match="what was taught"):
        work.do(Batch(0, "random", 20, ("sigma=0",)))
    assert work.do(Class(0, "random")).n[-1] == 60


def test_points_are_spread_evenly():
    assert points(50_000, 100)[[0, 1, -1]].tolist() == [500, 1_000, 50_000]
    assert points(7, 3).tolist() == [2, 5, 7]
    assert points(1, 5).tolist() == [1]

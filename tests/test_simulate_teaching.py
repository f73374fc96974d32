"""Teaching phases that choose their questions."""

from __future__ import annotations

import numpy as np
import pytest

from bridle import Tables
from bridle.errors import InvalidValue
from bridle.simulate import teach_beliefs
from tests.conftest import check_counts, size
from tests.test_simulate_asking import Counting, world


def test_shorter_lessons_are_beginnings_of_longer_ones():
    tables = world(1)
    for questions in ("random", "arm", "pool"):
        whole = teach_beliefs(
            tables, beliefs=Counting(5, 3), examples=[3, 20], questions=questions, seed=4
        )
        part = teach_beliefs(
            tables, beliefs=Counting(5, 3), examples=3, questions=questions, seed=4
        )
        assert whole.rows[:3].tolist() == part.rows.tolist()
        assert whole.arms[:3].tolist() == part.arms.tolist()
        assert whole.beliefs[3].counts == part.beliefs[3].counts  # type: ignore[attr-defined]
        assert sum(map(sum, whole.beliefs[20].counts.values())) == 20  # type: ignore[attr-defined]


def test_answers_are_the_truth_and_are_folded():
    tables = world(2)
    given = Counting(5, 3)
    taught = teach_beliefs(tables, beliefs=given, examples=30, questions="pool")
    assert taught.said.tolist() == tables.allowed[taught.rows, taught.arms].tolist()
    assert not given.counts  # what was given stays as it was
    mine = Counting(5, 3)
    for row, k, yes in zip(taught.rows, taught.arms, taught.said, strict=True):
        mine.learn(tables.contexts[row], int(k), bool(yes))
    assert mine.counts == taught.beliefs[30].counts  # type: ignore[attr-defined]


def test_a_pool_asks_where_it_learns_most():
    """Every (context, arm) once before any twice: an answer always takes information away."""
    tables = world(3)
    kinds = len(np.unique(tables.contexts, axis=0))
    taught = teach_beliefs(tables, beliefs=Counting(5, 3), examples=5 * kinds, questions="pool")
    seen = {
        (tables.contexts[row].tobytes(), int(k))
        for row, k in zip(taught.rows, taught.arms, strict=True)
    }
    assert len(seen) == 5 * kinds


def test_an_arm_is_chosen_for_the_context_that_comes():
    tables = Tables(np.ones((1, 1)), np.ones((1, 3)), np.array([[1, 0, 1]]))
    taught = teach_beliefs(tables, beliefs=Counting(3, 1), examples=3, questions="arm")
    assert sorted(taught.arms.tolist()) == [0, 1, 2]


def test_random_questions_are_uniform_over_the_pool_and_the_arms():
    tables = world(4, M=12)
    pool = [2, 5, 7]
    n = size(6_000, 300)
    taught = teach_beliefs(
        tables, beliefs=Counting(5, 3), examples=n, questions="random", pool=pool, seed=9
    )
    pairs = [pool.index(row) * 5 + k for row, k in zip(taught.rows, taught.arms, strict=True)]
    check_counts(np.bincount(pairs, minlength=15), np.full(15, 1 / 15))


def test_arms_of_a_group_are_asked_alike():
    tables = world(5)
    taught = teach_beliefs(
        tables, beliefs=Counting(5, 3, [0, 0, 0, 0, 0]), examples=size(2_000, 200), questions="pool"
    )
    check_counts(np.bincount(taught.arms, minlength=5), np.full(5, 0.2))


def test_flipped_answers_come_at_their_rate():
    # 4,000 answers at .1: a standard deviation of 19, so 95 is 5 of them: error below 1e-6.
    tables, n = world(6), size(4_000, 400)
    taught = teach_beliefs(
        tables, beliefs=Counting(5, 3), examples=n, questions="random", flips=0.1, seed=2
    )
    wrong = (taught.said != tables.allowed[taught.rows, taught.arms]).sum()
    assert abs(wrong - 0.1 * n) < 5 * (0.09 * n) ** 0.5


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tables": None}, "Tables"),
        ({"beliefs": 3}, "limits such as RuleLimits"),
        ({"beliefs": Counting(4, 3)}, "limits over 5 arms"),
        ({"examples": -1}, "'examples' parameter"),
        ({"questions": "clever"}, "one of 'random', 'arm', 'pool'"),
        ({"pool": [99]}, "'pool' parameter"),
        ({"flips": -0.1}, "'flips' parameter"),
        ({"seed": -1}, "'seed' parameter"),
    ],
)
def test_bad_input_is_refused(wrong, message):
    good = {"tables": world(0), "beliefs": Counting(5, 3), "examples": 3}
    call = good | wrong
    with pytest.raises(InvalidValue, match=message):
        teach_beliefs(call.pop("tables"), **call)

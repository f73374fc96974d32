"""What is played and what is asked about, against plain loops over arms and units."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.kernels import keys
from bridle.kernels import questions as kernel
from bridle.kernels.questions import ASKED, IN_DOUBT, OUT, SAFE
from bridle.policies import Thompson

KEY = np.uint64(12345)


def drawn(loc, scale, key):
    z = np.array([0.0] * len(loc))
    keys.fill_normals(np.uint64(key), z)
    return np.where(scale > 0.0, loc + scale * z, loc)


def nearest(
    loc,
    scale,
    p,
    information,
    marks,
    unit,
    costs,
    price,
    key=KEY,
    lessons=None,
    dearer=None,
    starved=0.0,
    judged=(),
):
    U = len(costs)
    dearer = np.ones(U) if dearer is None else np.asarray(dearer, float)
    lessons = np.zeros(U) if lessons is None else np.asarray(lessons, float)
    return kernel.nearest(
        np.asarray(loc, float),
        np.asarray(scale, float),
        np.asarray(p, float),
        np.asarray(information, float),
        np.asarray(marks, np.int8),
        np.asarray(unit, np.int64),
        np.asarray(costs, float),
        lessons,
        price,
        dearer,
        starved,
        key,
        np.asarray(judged, float),
        np.empty(U),
        np.empty(U, np.int64),
    )


def plain(loc, scale, p, information, marks, unit, costs, price, key, lessons):
    draws = drawn(loc, scale, key)
    base = max((draws[k] for k in range(len(loc)) if marks[k] == SAFE), default=0.0)
    found = []
    for u in range(len(costs)):
        mine = [k for k in range(len(loc)) if unit[k] == u and marks[k] == IN_DOUBT]
        if mine:
            k = max(mine, key=lambda k: draws[k])
            cost = p[k] * (draws[k] - base)
            due = price * max(0.0, 1.0 - information[k] / math.log(2.0))
            if cost > 0.0:
                lesson = cost * min(information[k] / math.log(2.0), 1.0)
                pays = costs[u] + cost >= due or lessons[u] + lesson >= price
                found.append(((costs[u] + cost) / max(due, 1e-3), k, cost, lesson, pays))
    return max(found, key=lambda one: one[0])[1:] if found else (-1, 0.0, 0.0, False)


@given(st.integers(0, 2**32 - 1))
def test_the_arm_that_is_nearest_to_paying(seed):
    rng = np.random.default_rng(seed)
    K, U = int(rng.integers(1, 9)), int(rng.integers(1, 4))
    loc, p, information = rng.random((3, K))
    scale = rng.choice([0.0, 0.3], K)
    marks = rng.integers(0, 4, K).astype(np.int8)
    unit = rng.integers(0, U, K)
    costs = rng.choice([0.0, 0.1, 0.5], U)
    price = float(rng.choice([0.0, 0.3, 3.0]))
    key = np.uint64(rng.integers(2**63))
    lessons = rng.choice([0.0, 0.2, 0.29], U)
    case = (loc, scale, p, information, marks, unit, costs, price, key, lessons)
    k, cost, lesson, pays = nearest(*case)
    arm, lost, taught, due = plain(*case)
    assert k == arm and cost == pytest.approx(lost) and lesson == pytest.approx(taught)
    assert pays == due


ONE = {"loc": [0.5, 0.9], "scale": [0, 0], "p": [1, 0.5], "information": [0, 0], "unit": [0, 1]}


def test_it_costs_what_the_arm_could_earn_beyond_the_best_safe_one():
    k, cost, _, pays = nearest(**ONE, marks=[SAFE, IN_DOUBT], costs=[0, 0], price=0.3)
    assert (k, pays) == (1, False) and cost == pytest.approx(0.5 * 0.4)
    k, cost, _, pays = nearest(**ONE, marks=[SAFE, IN_DOUBT], costs=[0, 0.1], price=0.3)
    assert (k, pays) == (1, True) and cost == pytest.approx(0.2)  # .1 + .2 reaches the price
    k, cost, _, pays = nearest(**ONE, marks=[OUT, IN_DOUBT], costs=[0, 0], price=0.3)
    assert cost == pytest.approx(0.45) and pays  # none is safe: it could earn .9 in the place of 0


@pytest.mark.parametrize("mark", [OUT, ASKED, SAFE])
def test_of_what_is_out_asked_about_or_safe_nothing_is_asked(mark):
    assert nearest(**ONE, marks=[SAFE, mark], costs=[0, 9], price=0.3) == (-1, 0.0, 0.0, False)


def test_what_is_no_better_costs_nothing():
    worse = {**ONE, "loc": [0.9, 0.5]}
    assert nearest(**worse, marks=[SAFE, IN_DOUBT], costs=[0, 9], price=0.0) == (
        -1,
        0.0,
        0.0,
        False,
    )


def test_a_free_answer_is_asked_for_at_once_and_one_without_end_never():
    marks = [SAFE, IN_DOUBT]
    assert nearest(**ONE, marks=marks, costs=[0, 0], price=0.0)[3]
    assert not nearest(**ONE, marks=marks, costs=[0, 1e4], price=1e6)[3]


def test_what_never_comes_again_is_asked_about_once_it_has_cost_enough_in_all():
    case = {**ONE, "information": [0, math.log(2) / 2], "marks": [SAFE, IN_DOUBT]}
    k, cost, lesson, pays = nearest(**case, costs=[0, 0], price=2.0, lessons=[0, 1.85])
    assert (k, pays) == (1, False) and lesson == pytest.approx(0.5 * cost)
    assert nearest(**case, costs=[0, 0], price=2.0, lessons=[0, 1.95])[3]  # 1.95 + .1 reaches 2


@pytest.mark.parametrize(("information", "share"), [(0.0, 1.0), (math.log(2) / 4, 0.75), (9.9, 0)])
def test_an_answer_that_teaches_is_cheaper(information, share):
    assert kernel.price_of(0.3, information) == pytest.approx(0.3 * share)


@given(st.integers(0, 2**32 - 1))
def test_the_best_draw_of_a_safe_arm_is_played(seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(1, 9))
    loc, scale = rng.choice([0.2, 0.5], K), rng.choice([0.0, 0.05, 0.4], K)
    marks = rng.integers(0, 4, K).astype(np.int8)
    key = np.uint64(rng.integers(2**63))
    safe = [k for k in range(K) if marks[k] == SAFE]
    draws = drawn(loc, scale, key)
    bits = [int(keys.bits_of(key, k)) for k in range(K)]
    best = max(safe, key=lambda k: (draws[k], bits[k]), default=-1)
    assert kernel.best_safe(loc, scale, marks, key) == best


def test_play_fills_what_was_blended_and_drawn():
    K, start, number = 3, np.uint64(7), np.uint64(1)
    parts = np.zeros((7, K))
    parts[0], parts[1] = [0.1, 0.5, 0.3], [0.2, 0.2, 0.2]
    weights = np.array(Thompson(v=0.5).weights)
    marks = np.array([SAFE, IN_DOUBT, SAFE], np.int8)
    k = kernel.play(weights, parts, marks, start, number)
    key = np.uint64(keys.key_of(start, number))
    assert parts[4] == pytest.approx(parts[0]) and parts[5] == pytest.approx(0.5 * parts[1])
    assert parts[6] == pytest.approx(drawn(parts[4], parts[5], key))
    assert k == max((0, 2), key=lambda k: parts[6, k])
    assert kernel.play(weights, parts, np.zeros(K, np.int8), start, number) == -1


def test_an_answer_is_dearer_where_it_settles_less_than_the_account_is_of():
    case = {**ONE, "marks": [SAFE, IN_DOUBT], "price": 0.3}
    assert nearest(**case, costs=[0, 0.15])[3]
    assert not nearest(**case, costs=[0, 0.15], dearer=[1, 2])[3]  # .075 + .2
    assert nearest(**case, costs=[0, 0.25], dearer=[1, 2])[3]
    # What this decision costs counts whole: a large kind is never asked about later than a small.
    assert nearest(**{**case, "price": 0.2}, costs=[0, 0], dearer=[1, 9])[3]


def test_where_nothing_is_safe_what_all_accounts_hold_can_pay():
    case = {**ONE, "price": 0.6, "costs": [0, 0.1]}
    nothing = [IN_DOUBT, IN_DOUBT]
    assert not nearest(**case, marks=nothing)[3]
    assert nearest(**case, marks=nothing, starved=0.6)[3]


def test_an_arm_is_found_by_one_draw_and_judged_by_another():
    """Arm 2 is best in the first draw; what it earns, and the safe arm, stands in the second."""
    case = {
        "loc": [0.5, 0.6, 0.9],
        "scale": [0.0] * 3,
        "p": [1.0, 0.5, 0.5],
        "information": [0.0] * 3,
        "marks": [SAFE, IN_DOUBT, IN_DOUBT],
        "unit": [0, 1, 1],
        "costs": [0.0, 0.0],
        "price": 0.3,
    }
    assert nearest(**case)[:2] == pytest.approx((2, 0.2))
    assert nearest(**case, judged=[0.4, 0.9, 0.5])[:2] == pytest.approx((2, 0.05))
    assert nearest(**case, judged=[0.4, 0.9, 0.3])[0] == -1
    nothing = {**case, "marks": [OUT, IN_DOUBT, IN_DOUBT]}
    assert nearest(**nothing, judged=[0.4, 0.9, 0.5])[:2] == pytest.approx((2, 0.25))


@pytest.mark.parametrize(("safe", "wanted"), [(3, 16), (15, 16), (16, 80), (90, 336), (None, 400)])
def test_the_arms_that_come_first_are_weighed_until_one_is_safe(safe, wanted):
    rng = np.random.default_rng(1)
    best_first = rng.permutation(400)
    drawn = np.empty(400)
    drawn[best_first] = -np.arange(400.0)
    marks = np.full(400, IN_DOUBT, np.int8)
    if safe is not None:
        marks[best_first[safe]] = SAFE
    found = kernel.first_of(drawn, marks, KEY)
    assert sorted(np.flatnonzero(found != OUT)) == sorted(best_first[:wanted])
    assert (found[found != OUT] == marks[found != OUT]).all()


def test_who_is_out_does_not_count_among_the_first():
    drawn, marks = np.arange(40.0), np.full(40, OUT, np.int8)
    marks[:20] = IN_DOUBT
    marks[10] = SAFE
    assert np.flatnonzero(kernel.first_of(drawn, marks, KEY)).tolist() == list(range(4, 20))


def test_the_second_draw_is_as_wide_as_what_is_known():
    loc, scale, wide = np.full(50, 0.5), np.full(50, 0.01), np.full(50, 0.2)
    marks = np.full(50, IN_DOUBT, np.int8)
    drawn, judged, _ = kernel.look_wide(loc, scale, loc, wide, marks, KEY)
    z, apart = np.empty(50), np.empty(50)
    keys.fill_normals(KEY, z)
    keys.fill_normals(np.uint64(keys.aside(KEY)), apart)
    assert drawn.tolist() == (loc + scale * z).tolist()
    assert judged.tolist() == (loc + wide * apart).tolist()

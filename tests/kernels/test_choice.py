"""Choosing: as if every draw were computed, with ties by the decision's own bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from bridle.kernels import choice, keys, loop, posterior
from bridle.kernels.types import MASK_ARGMAX, MASK_FILTER, NO_MASK, Weights
from bridle.reward.posterior import LinearArms
from tests.conftest import check_counts, size

THOMPSON = Weights(1.0, 0.0, 0.25, 0.0, 0.0, 0.0, NO_MASK)
BLEND = Weights(0.3, 0.7, 0.25, 0.5, 0.0, 0.0, NO_MASK)
UCB = Weights(1.0, 0.0, 0.0, 0.0, 1.5, 0.0, NO_MASK)
EPSILON = Weights(1.0, 0.0, 0.0, 0.0, 0.0, 0.3, NO_MASK)
ARGMAX = Weights(1.0, 0.0, 0.25, 0.0, 0.0, 0.0, MASK_ARGMAX)
FILTER = Weights(1.0, 0.0, 0.25, 0.0, 0.0, 0.0, MASK_FILTER)
UNIFORM = Weights(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, NO_MASK)
ALL = [THOMPSON, BLEND, UCB, EPSILON, ARGMAX, FILTER, UNIFORM]


def u64(x: int) -> np.uint64:
    return np.uint64(int(x))


def bits_of(key: np.uint64, k: int) -> np.uint64:
    return u64(keys.bits_of(key, k))


def aside(key: np.uint64) -> np.uint64:
    return u64(keys.aside(key))


# The same, with every draw computed.


def plain_draws(loc, scale, key) -> list[float]:
    return [
        float(loc[k] + scale[k] * keys.normal(bits_of(key, k)) if scale[k] > 0.0 else loc[k])
        for k in range(len(loc))
    ]


def plain_best(loc, scale, eligible, key) -> int:
    draws = plain_draws(loc, scale, key)
    order = [(draws[k], bits_of(key, k), k) for k in range(len(loc)) if eligible[k]]
    return max(order)[2] if order else -1


def plain_random(key, marked) -> int:
    order = [(bits_of(key, k), k) for k in range(len(marked)) if marked[k]]
    return max(order)[1] if order else -1


def plain_pick(w, loc, scale, eligible, allowed, key) -> int:
    if w.epsilon > 0.0 and keys.uniform(aside(key)) < w.epsilon:
        return plain_random(aside(key), eligible)
    if w.mask == MASK_ARGMAX:
        return plain_best(loc, scale, eligible & allowed, key)
    arm = plain_best(loc, scale, eligible, key)
    if w.mask == MASK_FILTER and arm >= 0 and not allowed[arm]:
        return plain_random(aside(key), eligible & allowed)
    return arm


# Few values, so that scores tie and the bounds are met exactly.
LEVELS = st.sampled_from([-1.0, -0.0, 0.0, 0.5, 0.5 + 2**-53, 1.0, 1e6])
SPREADS = st.sampled_from([0.0, 0.0, 1e-18, 1e-9, 0.3, 1.0, 1e6])


@st.composite
def races(draw):
    K = draw(st.integers(1, 8))
    loc = np.array(draw(st.lists(LEVELS, min_size=K, max_size=K)))
    scale = np.array(draw(st.lists(SPREADS, min_size=K, max_size=K)))
    marks = st.lists(st.booleans(), min_size=K, max_size=K)
    key = u64(draw(st.integers(0, 2**64 - 1)))
    return loc, scale, np.array(draw(marks)), np.array(draw(marks)), key


@given(races())
def test_the_best_arm_is_the_one_of_all_draws(race) -> None:
    loc, scale, eligible, _, key = race
    wanted, reach = plain_best(loc, scale, eligible, key), np.empty(len(loc))
    assert choice.best_arm(loc, scale, eligible, key) == wanted
    assert choice.best_of_many(loc, scale, eligible, key, reach) == wanted


@pytest.mark.parametrize("K", [1, 2, 30, 500])
def test_the_best_of_many_is_the_one_of_all_draws(K) -> None:
    rng = np.random.default_rng(K)
    for number in range(size(300, 5) if K < 500 else size(30, 2)):
        loc = rng.standard_normal(K) * rng.choice([0.0, 0.01, 1.0])
        scale = rng.random(K) * rng.choice([0.0, 1e-6, 0.3, 3.0])
        eligible = rng.random(K) < 0.9
        key = u64(keys.key_of(keys.stream(1, keys.DECIDE), u64(number)))
        wanted, reach = plain_best(loc, scale, eligible, key), np.empty(K)
        assert choice.best_arm(loc, scale, eligible, key) == wanted
        assert choice.best_of_many(loc, scale, eligible, key, reach) == wanted


@pytest.mark.parametrize("limit", [0.0, 0.4])
@pytest.mark.parametrize("size_of", [1.0, 1e-80, 1e-200, 0.0])
def test_a_blend_is_that_of_each_arm_to_the_bit(limit, size_of) -> None:
    rng = np.random.default_rng(5)
    w = Weights(1.0 - limit, limit, 0.3, 0.2, 0.1, 0.0, 0.0)
    scores = rng.random((4, 57)) * np.array([[1.0], [size_of], [1.0], [1.0]])
    loc, scale = np.empty((2, 57))
    mean, sd, limit_mean, limit_sd = scores
    choice.blend(w, mean, sd, limit_mean, limit_sd, loc, scale)
    for k, (m, s, me, se) in enumerate(scores.T.tolist()):
        assert loc[k] == choice.location(w, m, s, me)
        assert scale[k] == choice.spread(w, s, se)


@given(races(), st.sampled_from(ALL))
def test_picks_are_those_of_the_plain_rule(race, w) -> None:
    loc, scale, eligible, allowed, key = race
    expected = plain_pick(w, loc, scale, eligible, allowed, key)
    assert choice.pick(w, loc, scale, eligible, allowed, key) == expected


def test_nothing_to_choose_from_is_minus_one() -> None:
    none, every = np.zeros(3, np.bool_), np.ones(3, np.bool_)
    x = np.zeros(3)
    for number in range(20):
        key = u64(number)
        assert choice.random_arm(key, none, every) == -1
        assert choice.random_arm(key, every, none) == -1
        assert choice.best_arm(x, x, none, key) == -1
        assert choice.best_of_many(x, x, none, key, x.copy()) == -1
        for w in ALL:
            assert choice.pick(w, x, x, none, every, key) == -1
        for w in (ARGMAX, FILTER):
            assert choice.pick(w, x, x, every, none, key) == -1


# Ties


@njit(cache=True)
def count_best(loc, scale, eligible, start, counts, steps):
    for number in range(steps):
        key = keys.key_of(start, np.uint64(number))
        counts[choice.best_arm(loc, scale, eligible, key)] += 1


@njit(cache=True)
def count_random(eligible, also, start, counts, steps):
    for number in range(steps):
        key = keys.key_of(start, np.uint64(number))
        counts[choice.random_arm(key, eligible, also)] += 1


@pytest.mark.parametrize("scale", [0.0, 1e-18])
def test_ties_fall_uniformly(scale) -> None:
    # Chi-square, errs once in 1e6, each. A spread below the resolution of floats ties as none does.
    loc = np.array([1.0, 0.5, 1.0, 1.0, 2.0, 1.0])
    eligible = np.array([True, True, True, True, False, True])
    counts = np.zeros(6, np.int64)
    start = keys.stream(2, keys.DECIDE)
    count_best(loc, np.full(6, scale), eligible, start, counts, size(200_000, 2_000))
    check_counts(counts, np.array([1, 0, 1, 1, 0, 1]) / 4.0)


def test_a_random_arm_has_both_marks_and_is_uniform() -> None:
    # Chi-square, errs once in 1e6.
    eligible = np.array([True, True, False, True, True])
    also = np.array([True, False, True, True, True])
    counts = np.zeros(5, np.int64)
    count_random(eligible, also, keys.stream(3, keys.DECIDE), counts, size(200_000, 2_000))
    check_counts(counts, np.array([1, 0, 0, 1, 1]) / 3.0)


# Blends


@pytest.mark.parametrize("w", ALL)
def test_blends_are_the_formula(w) -> None:
    rng = np.random.default_rng(5)
    parts = np.abs(rng.standard_normal((7, 4)))
    m, s, me, se = parts[:4]
    weights = np.array(w)
    loc, scale = choice.locations(weights, parts), choice.spreads(weights, parts)
    assert loc.tolist() == (w.reward * m + w.limit * me + w.bonus * s).tolist()
    expected = np.hypot(w.reward * w.v * s, w.limit * w.v_limit * se)
    assert scale == pytest.approx(expected, rel=1e-15)
    for k in range(4):
        assert choice.location(w, m[k], s[k], me[k]) == loc[k]
        assert choice.spread(w, s[k], se[k]) == scale[k]
    assert choice.as_weights(weights) == w


@pytest.mark.parametrize("w", ALL)
@pytest.mark.parametrize("K", [1, 7])
def test_choose_blends_draws_and_picks(w, K) -> None:
    rng = np.random.default_rng(6)
    start, weights = keys.stream(4, keys.DECIDE), np.array(w)
    for number in range(size(200, 10)):
        parts = np.full((7, K), np.nan)
        parts[:4] = np.abs(rng.standard_normal((4, K)))
        parts[3, 0] = 0.0
        given_parts = parts[:4].tolist()
        eligible, allowed = rng.random(K) < 0.8, rng.random(K) < 0.5
        arm = choice.choose(weights, parts, eligible, allowed, start, u64(number))
        key = u64(keys.key_of(start, u64(number)))
        assert parts[:4].tolist() == given_parts
        assert parts[4].tolist() == choice.locations(weights, parts).tolist()
        assert parts[5].tolist() == choice.spreads(weights, parts).tolist()
        assert parts[6].tolist() == plain_draws(parts[4], parts[5], key)
        assert arm == plain_pick(w, parts[4], parts[5], eligible, allowed, key)


# Contexts


def two_models(rng, K: int, d: int) -> tuple[LinearArms, LinearArms]:
    models = LinearArms(arms=K, features=d), LinearArms(arms=K, features=d, ridge=2.0)
    for model in models:
        C, y = rng.standard_normal((30, d)), rng.random(30)
        posterior.fold_many(model.kernel_state, rng.integers(0, K, 30), C, y)
    return models


@pytest.mark.parametrize("w", ALL)
@pytest.mark.parametrize(("K", "d"), [(1, 1), (4, 3), (3, 15)])
@pytest.mark.parametrize("tables", [1, 12])
def test_decide_scores_and_chooses_one_or_many(w, K, d, tables) -> None:
    rng = np.random.default_rng([K, d])
    reward, limit = (model.kernel_state for model in two_models(rng, K, d))
    n = 12
    C = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    eligible = rng.random((tables, K)) < 0.8
    start, weights = keys.stream(5, keys.DECIDE), np.array(w)
    numbers = rng.integers(0, 2**63, n).astype(np.uint64)
    parts, arms = np.full((n, 7, K), np.nan), np.full(n, -2)
    choice.reward_parts_many(reward.A, reward.mu, 0.0, C, parts)
    means, sds = np.empty((2, n, K)), np.empty((2, n, K))
    posterior.score_many(reward.A, reward.mu, C, means[0], sds[0])
    posterior.score_many(limit.A, limit.mu, C, means[1], sds[1])
    parts[:, 2], parts[:, 3] = means[1], sds[1]
    choice.choose_many(weights, parts, eligible, start, numbers, arms)
    for t in range(n):
        may = eligible[t if tables > 1 else 0]
        one = np.full((7, K), np.nan)
        arm = choice.decide(
            weights, reward.A, reward.mu, 0.0, limit.A, limit.mu, C[t], may, start, numbers[t], one
        )
        assert one[:4].tolist() == [x[t].tolist() for x in (means[0], sds[0], means[1], sds[1])]
        again = one.copy()
        assert arm == choice.choose(weights, again, may, may, start, numbers[t])
        assert again.tolist() == one.tolist()
        assert arms[t] == arm
        assert parts[t].tolist() == one.tolist()
    # Only picking, from scores that are there already; the limits may be one row that serves all.
    for rows in (n, 1):
        picked = np.full(n, -2)
        choice.pick_many(
            weights,
            means[0],
            sds[0],
            means[1, :rows],
            sds[1, :rows],
            eligible,
            start,
            numbers,
            picked,
        )
        if rows == n or w.limit == 0.0:
            assert picked.tolist() == arms.tolist()


def test_equal_contexts_in_a_batch_get_draws_of_their_own() -> None:
    rng = np.random.default_rng(7)
    reward, _ = (model.kernel_state for model in two_models(rng, 5, 3))
    n = 50
    C = np.repeat(rng.standard_normal((1, 3)), n, axis=0)
    parts, arms = np.zeros((n, 7, 5)), np.empty(n, np.int64)
    choice.reward_parts_many(reward.A, reward.mu, 0.0, C, parts)
    choice.choose_many(
        np.array(BLEND),
        parts,
        np.ones((1, 5), np.bool_),
        keys.stream(6, keys.DECIDE),
        np.arange(n, dtype=np.uint64),
        arms,
    )
    assert len(np.unique(parts[:, 6])) == 5 * n
    assert math.isclose(np.ptp(parts[:, 4], axis=0).max(), 0.0)


@pytest.mark.parametrize(("K", "d"), [(9, 3), (4, 20)])
def test_an_intercept_and_a_pull_are_those_of_the_loop(K, d) -> None:
    # The loop has two ways to score, by size; one decision has the bits of both.
    rng = np.random.default_rng([K, d])
    model = LinearArms(arms=K, features=d + 1)
    C = rng.standard_normal((30, d)) * (rng.random((30, d)) < 0.7)
    ones = np.hstack([C, np.ones((30, 1))])
    posterior.fold_many(model.kernel_state, rng.integers(0, K, 30), ones, rng.random(30))
    totals = np.array([14.5, 31.0])
    pull = loop.pull_of(True, 1.0, totals)
    assert pull == 14.5 / 31.0 and loop.pull_of(False, 1.0, totals) == 0.0
    post = model.kernel_state
    parts, arms, looped = np.zeros((30, 7, K)), np.empty(30, np.int64), np.empty(30, np.int64)
    choice.reward_parts_many(post.A, post.mu, pull, C, parts)
    B, r = np.linalg.inv(model.covariances), 14.5 / 31.0
    f, h = np.einsum("kij,kj->ki", B, model.means), B[:, :, -1] - np.eye(d + 1)[-1]
    expected = r + np.einsum("ti,kij,kj->tk", ones, model.covariances, f - r * h)
    np.testing.assert_allclose(parts[:, 0], expected, atol=1e-9)
    w, every, start = THOMPSON, np.ones((1, K), np.bool_), keys.stream(8, keys.DECIDE)
    numbers = np.arange(30, dtype=np.uint64)
    choice.choose_many(np.array(w), parts, every, start, numbers, arms)
    nothing, zero = np.empty((0, K)), np.zeros((1, K))
    loop.run(
        w,
        post,
        1.0,
        ones,
        nothing,
        every,
        every,
        zero,
        zero,
        np.arange(30),
        start,
        numbers,
        False,
        looped,
        True,
        totals,
    )
    assert arms.tolist() == looped.tolist()

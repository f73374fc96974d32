"""Win probabilities are exact: held against adaptive quadrature, closed forms and draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy.special import ndtr

from bridle.kernels import choice, keys, wins
from bridle.kernels.types import MASK_ARGMAX, MASK_FILTER, NO_MASK, Weights
from tests import reference
from tests.conftest import JIT, check_counts, size

RATIOS = [1.0, 10.0, 1e2, 1e4, 1e6]


def won(loc, scale, eligible=None):
    loc, scale = np.array(loc, np.float64), np.array(scale, np.float64)
    may = np.ones(len(loc), np.bool_) if eligible is None else np.array(eligible, np.bool_)
    out = np.full(len(loc), np.nan)
    wins.win_probabilities(loc, scale, may, out)
    return out


def propensities(weights, loc, scale, eligible, allowed):
    out = np.full(len(loc), np.nan)
    wins.propensities(np.array(weights), np.array(loc), np.array(scale), eligible, allowed, out)
    return out


def laws(K: int, ratio: float, kind: str):
    """Scores whose spreads lie from 1/ratio to 1; in some cases a few have none."""
    rng = np.random.default_rng([K, int(ratio), len(kind)])
    scale = np.exp(rng.uniform(-math.log(ratio), 0.0, K))
    scale[0], scale[-1] = 1.0, 1.0 / ratio
    loc = 0.5 * rng.standard_normal(K)
    if kind == "close":  # narrow scores where the wide ones are decided
        loc = 0.7 + 0.5 * scale * rng.standard_normal(K)
    elif kind == "some fixed":
        scale[1 :: max(2, K // 4)] = 0.0
    elif kind == "fixed tie":
        scale[1:] = np.where(np.arange(1, K) % 3 == 0, 0.0, scale[1:])
        loc[scale == 0.0] = 0.3
    return loc, scale


def check(loc, scale) -> None:
    out, truth = won(loc, scale), reference.win_probabilities(loc, scale)
    assert np.abs(out - truth).sum() <= 1e-6  # what is promised
    assert np.abs(out - truth).max() <= 1e-9  # what is reached, and more
    assert abs(out.sum() - 1.0) <= 1e-12


# Against adaptive quadrature


@pytest.mark.parametrize("kind", ["far", "close", "some fixed", "fixed tie"])
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("K", [2, 5])
def test_probabilities_are_those_of_adaptive_quadrature(K, ratio, kind) -> None:
    check(*laws(K, ratio, kind))


@pytest.mark.parametrize(
    ("ratio", "kind"),
    [(1.0, "close"), (1e2, "some fixed"), (1e4, "close"), (1e6, "far"), (1e6, "some fixed")],
)
@pytest.mark.skipif(not JIT, reason="only about size")
def test_twenty_arms(ratio, kind) -> None:
    check(*laws(20, ratio, kind))


@pytest.mark.parametrize("ratio", [1e2, 1e6])
@pytest.mark.skipif(not JIT, reason="only about size")
def test_a_hundred_arms(ratio) -> None:
    # Quadrature takes a while for each: the likeliest, the narrowest and one in the middle.
    loc, scale = laws(100, ratio, "close")
    out = won(loc, scale)
    assert abs(out.sum() - 1.0) <= 1e-12
    for k in {int(out.argmax()), int(scale.argmin()), int(np.argsort(out)[50])}:
        rest = np.arange(100) != k
        truth = reference._win(loc[k], scale[k], loc[rest], scale[rest], -np.inf)
        assert abs(out[k] - truth) <= 1e-9


# Against closed forms


@given(
    st.tuples(st.floats(-10, 10), st.floats(-10, 10)),
    st.tuples(st.floats(-14, 2), st.floats(-14, 2)),
)
def test_two_arms_have_a_closed_form(loc, powers) -> None:
    a, b = 10.0 ** powers[0], 10.0 ** powers[1]
    expected = ndtr((loc[0] - loc[1]) / math.hypot(a, b))
    assert won(loc, [a, b]) == pytest.approx([expected, 1.0 - expected], abs=1e-9)


def test_scores_that_begin_to_matter_at_one_place_but_for_rounding() -> None:
    # Nothing below the highest m − 8.5·s is looked at. Here two are the same but for last bits.
    rng = np.random.default_rng(7)
    wide = rng.standard_normal(size(300, 20))
    narrow = rng.random(len(wide))
    for m, s in zip(wide.tolist(), narrow.tolist(), strict=True):
        loc = [m, m - 8.5 + 8.5 * s]
        expected = ndtr((loc[0] - loc[1]) / math.hypot(1.0, s))
        assert won(loc, [1.0, s]) == pytest.approx([expected, 1.0 - expected], abs=1e-12)
    out = won([-0.023653039062769745, -7.287127964477249], [1.0, 0.14547353818653175])
    assert out == pytest.approx([1.0, 0.0], abs=1e-11)


@pytest.mark.parametrize("K", [1, 2, 3, 10, 100] if JIT else [1, 3])
@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-12, 1.0, 1e6])
@pytest.mark.parametrize("loc", [0.0, -1e6, 12345.678])
def test_equal_arms_win_equally(K, scale, loc) -> None:
    assert won([loc] * K, [scale] * K) == pytest.approx([1.0 / K] * K, rel=1e-9)


def test_tens_of_thousands_of_equal_arms_win_equally(monkeypatch) -> None:
    # So many that the chance of all lying low is below the smallest float, where the integral
    # begins, and that the highest draw has a law far narrower than any of theirs.
    K, error = 40_000, 1e-6
    if not JIT:  # longer pieces get there with few arms; not as exact
        K, error = 200, 0.1
        monkeypatch.setattr(wins, "PIECE", 6.0)
    assert won([0.0] * K, [1.0] * K) == pytest.approx([1.0 / K] * K, rel=error)


def test_a_fixed_score_against_a_random_one() -> None:
    assert won([1.0, 0.0], [0.0, 2.0]) == pytest.approx([ndtr(0.5), ndtr(-0.5)], abs=1e-14)


def test_fixed_scores_at_the_top_share_and_lower_ones_never_win() -> None:
    out = won([1.0, 1.0, 0.999, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0, 0.0])
    third = ndtr(1.0) / 3.0
    assert out == pytest.approx([third, third, 0.0, ndtr(-1.0), third], abs=1e-14)


@pytest.mark.parametrize("K", [1, 4])
def test_nothing_eligible_has_no_probability(K) -> None:
    assert won(np.zeros(K), np.ones(K), [False] * K).tolist() == [0.0] * K


def test_arms_that_are_not_eligible_are_not_there() -> None:
    rng = np.random.default_rng(4)
    for _ in range(size(50, 5)):
        loc, scale = rng.standard_normal(6), rng.random(6) * (rng.random(6) < 0.7)
        may = rng.random(6) < 0.6
        loc[~may] += rng.choice([0.0, 100.0])
        out = won(loc, scale, may)
        assert not out[~may].any()
        if may.any():
            assert out[may].tolist() == won(loc[may], scale[may]).tolist()


def test_the_order_of_arms_does_not_matter() -> None:
    loc, scale = laws(12, 1e3, "some fixed")
    turn = np.random.default_rng(5).permutation(12)
    assert won(loc[turn], scale[turn]) == pytest.approx(won(loc, scale)[turn], abs=1e-14)


# Where floats end


@given(
    st.integers(1, 6),
    st.floats(-1e6, 1e6),
    st.lists(st.floats(-20, 3), min_size=6, max_size=6),
    st.lists(st.floats(-3, 3), min_size=6, max_size=6),
)
def test_probabilities_sum_to_one_wherever_the_scores_lie(K, offset, powers, steps) -> None:
    # Spreads down to 1e-20 around 1e6: below what a float can tell there.
    scale = 10.0 ** np.array(powers[:K])
    loc = offset + scale * np.array(steps[:K])
    out = won(loc, scale)
    assert (out >= 0.0).all()
    assert abs(out.sum() - 1.0) <= 1e-9


@pytest.mark.parametrize("offset", [-1e6, -1.0, 1e3, 1e6])
def test_a_common_offset_changes_nothing(offset) -> None:
    # Steps of 2**-20 are exact at every offset.
    loc = np.array([0.0, 3.0, -1.0, 2.0]) * 2.0**-20
    scale = np.array([1.0, 2.0, 0.0, 1e-3]) * 2.0**-20
    assert won(loc + offset, scale) == pytest.approx(won(loc, scale), abs=1e-12)


@pytest.mark.parametrize(
    ("loc", "scale", "expected"),
    [
        ([1.0], [1e-20], [1.0]),
        ([1e6, 1e6], [1e-12, 1e-12], [0.5, 0.5]),
        ([1e6, 1e6], [1e-11, 1e-3], [0.5, 0.5]),
        ([1.0, 1.0, 0.0], [1e-17, 1e-16, 1.0], [0.5 * ndtr(1.0), 0.5 * ndtr(1.0), ndtr(-1.0)]),
        # Where the other's reach begins, a step of this one's spread is none in floats.
        ([0.0, -8.5], [1.0, 2e-16], [1.0, 0.0]),
        # The next float up is so many spreads away that it wins.
        ([1.0, 1.0 + 2**-52], [1e-20, 1e-20], [0.0, 1.0]),
    ],
)
def test_spreads_below_the_resolution_of_floats(loc, scale, expected) -> None:
    assert won(loc, scale) == pytest.approx(expected, abs=1e-9)


# Against draws


@njit(cache=True)
def count_choices(weights, loc, scale, eligible, allowed, start, steps, counts):
    w = choice.as_weights(weights)
    for number in range(steps):
        key = keys.key_of(start, np.uint64(number))
        counts[choice.pick(w, loc, scale, eligible, allowed, key)] += 1


def counted(weights, loc, scale, eligible, allowed, seed):
    counts = np.zeros(len(loc), np.int64)
    start = keys.stream(seed, keys.DECIDE)
    count_choices(
        np.array(weights), loc, scale, eligible, allowed, start, size(1_000_000, 1_500), counts
    )
    return counts


def weighted(mask: float = NO_MASK, epsilon: float = 0.0) -> Weights:
    return Weights(1.0, 0.0, 1.0, 0.0, 0.0, epsilon, mask)


@pytest.mark.parametrize("kind", ["far", "close", "some fixed", "fixed tie"])
@pytest.mark.parametrize("ratio", [1.0, 1e2, 1e6])
def test_a_million_draws_have_these_probabilities(ratio, kind) -> None:
    # Chi-square, errs once in 1e6.
    loc, scale = laws(10, ratio, kind)
    every = np.ones(10, np.bool_)
    out = won(loc, scale)
    check_counts(counted(weighted(), loc, scale, every, every, seed=11), out)


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("mask", [NO_MASK, MASK_ARGMAX, MASK_FILTER])
def test_draws_have_the_propensities_of_every_kind_of_policy(mask, epsilon) -> None:
    # Chi-square, errs once in 1e6. No policy has both a mask and an epsilon.
    if mask != NO_MASK and epsilon:
        mask = NO_MASK
    loc, scale = laws(6, 10.0, "fixed tie")
    eligible = np.array([True, True, True, True, False, True])
    allowed = np.array([True, False, True, False, True, True])
    out = propensities(weighted(mask, epsilon), loc, scale, eligible, allowed)
    assert abs(out.sum() - 1.0) <= 1e-12
    check_counts(counted(weighted(mask, epsilon), loc, scale, eligible, allowed, seed=12), out)


# Propensities


LOC, SCALE = np.array([0.1, 0.4, 0.2]), np.array([0.3, 0.2, 0.5])
EVERY, NONE = np.ones(3, np.bool_), np.zeros(3, np.bool_)


def test_an_argmax_mask_is_the_race_of_the_allowed() -> None:
    allowed = np.array([True, False, True])
    out = propensities(weighted(MASK_ARGMAX), LOC, SCALE, EVERY, allowed)
    assert out.tolist() == won(LOC, SCALE, allowed).tolist()


def test_a_filter_mask_shares_what_the_denied_won() -> None:
    allowed = np.array([True, False, True])
    plain = won(LOC, SCALE)
    out = propensities(weighted(MASK_FILTER), LOC, SCALE, EVERY, allowed)
    expected = [plain[0] + plain[1] / 2.0, 0.0, plain[2] + plain[1] / 2.0]
    assert out == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("mask", [NO_MASK, MASK_ARGMAX, MASK_FILTER])
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_nothing_playable_has_no_propensity(mask, epsilon) -> None:
    assert not propensities(weighted(mask, epsilon), LOC, SCALE, NONE, EVERY).any()
    if mask != NO_MASK and not epsilon:
        assert not propensities(weighted(mask, epsilon), LOC, SCALE, EVERY, NONE).any()


def test_epsilon_is_shared_among_the_eligible() -> None:
    may = np.array([True, False, True])
    out = propensities(weighted(epsilon=0.3), LOC, SCALE, may, may)
    assert out == pytest.approx(0.7 * won(LOC, SCALE, may) + 0.3 * may / 2.0, abs=1e-14)


@pytest.mark.parametrize("tables", [1, 5])
def test_many_are_each_as_one(tables) -> None:
    rng = np.random.default_rng(6)
    weights = np.array(weighted(epsilon=0.1))
    parts = np.abs(rng.standard_normal((5, 7, 3)))
    eligible = rng.random((tables, 3)) < 0.7
    out = np.empty((5, 3))
    wins.propensities_many(weights, parts, eligible, out)
    for t in range(5):
        may = eligible[t if tables > 1 else 0]
        one = propensities(weights, parts[t, 4], parts[t, 5], may, may)
        assert out[t].tolist() == one.tolist()

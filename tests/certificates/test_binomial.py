"""The binomial law against exact fractions and scipy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta, binom

from bridle.certificates.binomial import (
    _above,
    _below,
    binomial_quantile,
    contexts_needed,
    most_broken,
    upper_bound,
)
from bridle.errors import InvalidValue


def test_tails_are_those_of_exact_fractions():
    rng = np.random.default_rng(1)
    for _ in range(150):
        n = int(rng.integers(1, 90))
        k = int(rng.integers(0, n))
        p = float(rng.random() ** rng.integers(1, 8))
        P = Fraction(p)
        chance = [math.comb(n, j) * P**j * (1 - P) ** (n - j) for j in range(n + 1)]
        low, high = sum(chance[: k + 1]), sum(chance[k + 1 :])
        assert _below(k, n, p) == pytest.approx(float(low), rel=1e-12)
        assert _above(k, n, p) == pytest.approx(float(high), rel=1e-12)


def test_tails_hold_for_a_million_and_far_out():
    rng = np.random.default_rng(2)
    for _ in range(200):
        n = int(10 ** rng.uniform(2, 6))
        p = float(rng.uniform(0.001, 0.999))
        k = int(np.clip(n * p + rng.uniform(-9, 9) * math.sqrt(n * p * (1 - p)), 0, n - 1))
        assert _below(k, n, p) == pytest.approx(binom.cdf(k, n, p), rel=1e-8)
        assert _above(k, n, p) == pytest.approx(binom.sf(k, n, p), rel=1e-8)
    assert _below(0, 10**6, 0.5) == 0.0
    assert _above(10**6 - 1, 10**6, 0.5) == 0.0
    # Where a complement would leave no digits.
    assert _above(0, 72, 1e-13) == pytest.approx(72e-13, rel=1e-11)


def test_the_upper_bound_is_clopper_and_pearsons():
    rng = np.random.default_rng(3)
    for _ in range(100):
        n = int(10 ** rng.uniform(0, 4))
        k = int(rng.integers(0, n))
        delta = float(rng.uniform(0.001, 0.6))
        assert upper_bound(k, n, delta) == pytest.approx(beta.ppf(1 - delta, k + 1, n - k), 1e-10)
    assert upper_bound(7, 7, 0.1) == 1.0
    assert upper_bound(0, 1, 0.5) == 0.5


def test_the_most_that_may_be_broken_is_the_last_with_a_bound_within_alpha():
    rng = np.random.default_rng(4)
    for _ in range(100):
        n = int(10 ** rng.uniform(0, 3.5))
        alpha, delta = float(rng.uniform(0.002, 0.6)), float(rng.uniform(0.001, 0.9))
        k = most_broken(n, alpha, delta)
        assert (k >= 0) == (n >= math.log(delta) / math.log1p(-alpha))
        assert k < 0 or upper_bound(k, n, delta) <= alpha * (1 + 1e-12)
        assert upper_bound(k + 1, n, delta) > alpha


def test_a_round_case_is_not_refused_for_its_last_digit():
    # (1/2)² = 1/4: two contexts are just enough.
    assert contexts_needed(0.5, 0.25) == 2
    assert most_broken(2, 0.5, 0.25) == 0
    assert most_broken(1, 0.5, 0.25) == -1
    assert contexts_needed(0.9, 0.9) == 1


def test_the_quantile_is_scipys_and_can_be_taken_of_two_thousand_million_steps():
    rng = np.random.default_rng(5)
    for _ in range(100):
        n = int(10 ** rng.uniform(0, 5))
        alpha, delta = float(rng.uniform(0.001, 0.9)), float(rng.uniform(0.001, 0.9))
        assert binomial_quantile(n, alpha, delta) == binom.ppf(1 - delta, n, alpha)
    assert binomial_quantile(2**31 - 1, 0.05, 0.01) == binom.ppf(0.99, 2**31 - 1, 0.05)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 1.5, float("nan"), "x", None, 1e-13])
def test_chances_outside_their_range_are_refused(bad):
    for call in (
        lambda: contexts_needed(bad, 0.1),
        lambda: contexts_needed(0.1, bad),
        lambda: most_broken(10, bad, 0.1),
        lambda: upper_bound(1, 10, bad),
        lambda: binomial_quantile(10, 0.1, bad),
    ):
        with pytest.raises(InvalidValue, match="must be a float in the range"):
            call()


def test_counts_outside_their_range_are_refused():
    for call in (
        lambda: most_broken(0, 0.1, 0.1),
        lambda: upper_bound(11, 10, 0.1),
        lambda: upper_bound(-1, 10, 0.1),
        lambda: binomial_quantile(0, 0.1, 0.1),
        lambda: binomial_quantile(2.5, 0.1, 0.1),
    ):
        with pytest.raises(InvalidValue, match="must be an int in the range"):
            call()

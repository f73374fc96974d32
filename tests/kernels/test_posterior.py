"""Folding and scoring: the documented sums in the documented order, to the bit, and exact."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.kernels import choice, posterior
from bridle.reward.posterior import LinearArms
from tests import reference
from tests.conftest import JIT, size

# Where the branches for few and for many nonzero features part, on both sides.
SHAPES = [(1, 1.0), (2, 0.5), (5, 1.0), (12, 1.0), (13, 1.0), (14, 0.9), (17, 1.0), (40, 0.2)]
SHAPES += [(40, 0.3), (40, 0.36), (40, 0.6), (40, 1.0), (43, 1.0), (50, 0.97)]


def contexts(rng, n: int, d: int, filled: float):
    """Rows with about this share of nonzeros, among them zeros of either sign."""
    C = rng.standard_normal((n, d)) * (rng.random((n, d)) < filled)
    C[rng.random((n, d)) < 0.1] *= -1.0  # 0 becomes -0
    return C


def trained(rng, K: int, d: int, n: int, filled: float = 0.7, ridge: float = 1.0) -> LinearArms:
    arms = LinearArms(arms=K, features=d, ridge=ridge)
    C = contexts(rng, n, d, filled)
    posterior.fold_many(arms.kernel_state, rng.integers(0, K, n), C, rng.random(n))
    return arms


def fold_each(arms: LinearArms, which, C, y) -> None:
    for k, c, outcome in zip(which.tolist(), C, y.tolist(), strict=True):
        posterior.fold_one(*arms.kernel_state, k, c, outcome)


def bits(arms: LinearArms) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arms.to_state().items()}


# The same in plain Python, in the order that the kernels document.


def plain_score(A, mu, c) -> tuple[float, float]:
    where = [i for i, x in enumerate(c) if x != 0.0]
    mean = total = 0.0
    for i in where:
        mean += c[i] * mu[i]
        below = 0.0
        for j in where:
            if j < i:
                below += c[j] * A[j][i]
        total += c[i] * (c[i] * A[i][i] + 2.0 * below)
    return mean, math.sqrt(max(total, 0.0))


def plain_update(A, mu, c, y) -> None:
    d = len(c)
    where = [i for i, x in enumerate(c) if x != 0.0]
    g = [0.0] * d
    for a in where:
        for i in range(d):
            g[i] += c[a] * A[a][i]
    q = m = 0.0
    for i in where:
        q += c[i] * g[i]
        m += c[i] * mu[i]
    w = 1.0 / (1.0 + q)
    for i in range(d):
        mu[i] += ((y - m) * w) * g[i]
    root = math.sqrt(w)
    g = [x * root for x in g]
    for i in range(d):
        for j in range(d):
            A[i][j] += -g[i] * g[j]


def test_nonzeros_are_found_in_order_and_zeros_of_either_sign_are_none() -> None:
    c = np.array([0.0, 1.0, -0.0, -2.0, 1e-300, 0.0])
    where = np.zeros(6, np.uint32)
    assert posterior.nonzeros(c, where) == 3
    assert where[:3].tolist() == [1, 3, 4]


@pytest.mark.parametrize(("d", "filled"), SHAPES)
def test_scores_have_the_bits_of_the_plain_sums(d, filled) -> None:
    rng = np.random.default_rng([d, int(100 * filled)])
    arms = trained(rng, 3, d, size(200, 20))
    A, mu = arms.covariances, arms.means
    C = contexts(rng, posterior.BLOCK + 6, d, filled)  # dense ones go in blocks, the rest alone
    C[1] = 0.0
    C[2] = -0.0
    means, sds = np.empty((len(C), 3)), np.empty((len(C), 3))
    posterior.score_many(A, mu, C, means, sds, 0.0)
    for t in range(0, len(C), size(1, 5)):
        mean, sd = np.empty(3), np.empty(3)
        posterior.score(A, mu, C[t], mean, sd)
        plain = [plain_score(A[k].tolist(), mu[k].tolist(), C[t].tolist()) for k in range(3)]
        assert list(zip(mean.tolist(), sd.tolist(), strict=True)) == plain
        assert list(zip(means[t].tolist(), sds[t].tolist(), strict=True)) == plain
    # With a trailing 1 and a pull: as one by one.
    C[:, -1] = 1.0
    posterior.score_many(A, mu, C, means, sds, 0.7)
    for t in range(0, len(C), size(1, 5)):
        parts = np.empty((7, 3))
        choice.reward_parts(A, mu, 0.7, C[t], parts)
        assert (means[t].tolist(), sds[t].tolist()) == (parts[0].tolist(), parts[1].tolist())


@pytest.mark.parametrize(("d", "filled"), SHAPES)
def test_a_fold_has_the_bits_of_the_plain_sums(d, filled) -> None:
    rng = np.random.default_rng([d, int(100 * filled), 1])
    steps = size(30, 6)
    C, y = contexts(rng, steps, d, filled), rng.random(steps)
    C[3] = -0.0
    arms = LinearArms(arms=2, features=d, ridge=2.0)
    fold_each(arms, np.ones(steps, np.int64), C, y)
    A = [[0.5 if i == j else 0.0 for j in range(d)] for i in range(d)]
    mu = [0.0] * d
    for c, outcome in zip(C.tolist(), y.tolist(), strict=True):
        plain_update(A, mu, c, outcome)
    assert arms.covariances[1].tolist() == A
    assert arms.means[1].tolist() == mu
    # The other arm knows nothing of it.
    assert arms.covariances[0].tolist() == (np.eye(d) * 0.5).tolist()
    assert arms.counts.tolist() == [0, steps]


def test_a_negative_square_is_a_spread_of_zero() -> None:
    # Rounding can leave A a hair below zero in a direction; no root of that.
    A, mu = -np.eye(2)[None] * 1e-20, np.zeros((1, 2))
    mean, sd = np.empty(1), np.empty(1)
    posterior.score(A, mu, np.ones(2), mean, sd)
    assert sd.tolist() == [0.0]
    n = 2 * posterior.BLOCK + 1
    means, sds = np.empty((n, 1)), np.empty((n, 1))
    posterior.score_many(A, mu, np.ones((n, 2)), means, sds, 0.0)
    assert sds.tolist() == [[0.0]] * n


# Sums


@given(st.lists(st.floats(-1e15, 1e15, allow_subnormal=False), min_size=1, max_size=40))
def test_a_pair_holds_a_sum_to_twice_the_precision(terms) -> None:
    high, low = np.zeros(1), np.zeros(1)
    for x in terms:
        posterior.add(high, low, 0, x)
    sums = list(itertools.accumulate(map(Fraction, terms)))
    # Two-sum is exact; `low` alone is rounded, and it is below an ulp of the largest sum.
    largest = max(abs(total) for total in sums)
    error = abs(Fraction(high[0]) + Fraction(low[0]) - sums[-1])
    assert error <= len(terms) ** 2 * Fraction(2.0**-105) * largest


@pytest.mark.parametrize("d", [1, 4, 9])
def test_sums_are_those_of_all_examples(d) -> None:
    rng = np.random.default_rng(d)
    n = size(3_000, 300)
    C, y = contexts(rng, n, d, 0.6), rng.random(n)
    arms = LinearArms(arms=1, features=d, ridge=0.5)
    posterior.fold_many(arms.kernel_state, np.zeros(n, np.int64), C, y)
    mu, B = reference.posterior(C, y, d, ridge=0.5)
    assert arms.precisions[0] == pytest.approx(B, rel=1e-12, abs=1e-12)
    assert arms.means[0] == pytest.approx(mu, rel=1e-11, abs=1e-12)
    assert arms.covariances[0] == pytest.approx(np.linalg.inv(B), rel=1e-10, abs=1e-13)


# Refreshes


def test_after_a_refresh_the_inverse_comes_from_the_sums_alone() -> None:
    # Whatever A was before: it is spoiled here on purpose.
    rng = np.random.default_rng(8)
    d, n = 3, posterior.REFRESH_AFTER
    C, y = contexts(rng, n, d, 1.0), rng.random(n)
    arms = LinearArms(arms=1, features=d)
    posterior.fold_many(arms.kernel_state, np.zeros(n - 1, np.int64), C[:-1], y[:-1])
    assert arms.kernel_state.since.tolist() == [n - 1]
    arms.kernel_state.A[...] = 7.0
    posterior.fold_one(*arms.kernel_state, 0, C[-1], y[-1])
    assert arms.kernel_state.since.tolist() == [0]
    mu, B = reference.posterior(C, y, d)
    assert arms.covariances[0] == pytest.approx(np.linalg.inv(B), rel=1e-11, abs=1e-15)
    assert arms.means[0] == pytest.approx(mu, rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_refresh_inverts(d) -> None:
    rng = np.random.default_rng(d)
    arms = trained(rng, 2, d, 50)
    before = arms.covariances
    posterior.refresh_all(arms.kernel_state)
    assert arms.kernel_state.since.tolist() == [0, 0]
    assert arms.covariances == pytest.approx(before, rel=1e-11, abs=1e-13)
    for k in range(2):
        assert arms.covariances[k] @ arms.precisions[k] == pytest.approx(np.eye(d), abs=1e-12)


@pytest.mark.parametrize("filled", [0.3, 1.0])
def test_the_inverse_is_symmetric_in_bits(filled) -> None:
    rng = np.random.default_rng(9)
    arms = LinearArms(arms=1, features=6)
    for n in (posterior.REFRESH_AFTER - 10, 5, 10, 100):  # before a refresh, at one, after it
        posterior.fold_many(
            arms.kernel_state, np.zeros(n, np.int64), contexts(rng, n, 6, filled), rng.random(n)
        )
        A = arms.covariances[0]
        assert A.tobytes() == A.T.tobytes()


# Splits


@given(st.data())
def test_any_split_into_batches_has_the_bits_of_one_by_one(data) -> None:
    d, K = data.draw(st.integers(1, 14)), data.draw(st.integers(1, 3))
    n = data.draw(st.integers(0, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    C, y = contexts(rng, n, d, data.draw(st.sampled_from([0.1, 0.5, 1.0]))), rng.random(n)
    C *= data.draw(st.sampled_from([1e-6, 1.0, 1e3]))
    which = rng.integers(0, K, n)
    one_by_one, split = (LinearArms(arms=K, features=d, ridge=0.3) for _ in range(2))
    # Some arms stand a few steps before their refresh.
    for arms in (one_by_one, split):
        arms.kernel_state.since[...] = posterior.REFRESH_AFTER - np.arange(1, K + 1) * 4
    fold_each(one_by_one, which, C, y)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    for low, high in zip([0, *cuts], [*cuts, n], strict=True):
        posterior.fold_many(split.kernel_state, which[low:high], C[low:high], y[low:high])
    assert bits(split) == bits(one_by_one)


@pytest.mark.parametrize("d", [2, 5, 20] if JIT else [2, 3])
@pytest.mark.parametrize("distinct", [1, 2, 50])
@pytest.mark.parametrize("ridge", [1.0, 1e-6])
@pytest.mark.parametrize("magnitude", [1.0, 1e6])
def test_splits_and_numbers_stay_sound_where_rounding_eats_the_ridge(
    d, distinct, ridge, magnitude
) -> None:
    # The largest contexts and the smallest ridge that are taken at all, over several refreshes.
    rng = np.random.default_rng([d, distinct])
    n = 2 * posterior.REFRESH_AFTER + 50
    which = np.zeros(n, np.int64)
    C = magnitude * rng.random((distinct, d))[rng.integers(0, distinct, n)]
    y = rng.random(n)
    one_by_one, batch, halves = (LinearArms(arms=1, features=d, ridge=ridge) for _ in range(3))
    fold_each(one_by_one, which, C, y)
    posterior.fold_many(batch.kernel_state, which, C, y)
    half = posterior.REFRESH_AFTER // 2
    posterior.fold_many(halves.kernel_state, which[:half], C[:half], y[:half])
    posterior.fold_many(halves.kernel_state, which[half:], C[half:], y[half:])
    for arms in (one_by_one, batch, halves):
        assert all(np.isfinite(array).all() for array in arms.to_state().values())
    assert bits(batch) == bits(one_by_one)
    assert bits(halves) == bits(one_by_one)


def test_numbers_stay_finite_from_the_first_steps_on() -> None:
    rng = np.random.default_rng(3)
    arms = LinearArms(arms=1, features=5, ridge=1e-6)
    C = 1e6 * rng.random((2, 5))
    for t in range(30):
        posterior.fold_one(*arms.kernel_state, 0, C[t % 2], 0.5)
        assert all(np.isfinite(array).all() for array in arms.to_state().values())


# Merges


def test_merged_sums_are_those_of_one_fold() -> None:
    rng = np.random.default_rng(10)
    n, d = size(2_500, 200), 4
    C, y, which = contexts(rng, n, d, 0.8), rng.random(n), rng.integers(0, 2, n)
    whole, left, right = (LinearArms(arms=2, features=d, ridge=3.0) for _ in range(3))
    posterior.fold_many(whole.kernel_state, which, C, y)
    cut = n // 3
    posterior.fold_many(left.kernel_state, which[:cut], C[:cut], y[:cut])
    posterior.fold_many(right.kernel_state, which[cut:], C[cut:], y[cut:])
    posterior.merge_sums(left.kernel_state, right.kernel_state)
    posterior.refresh_all(left.kernel_state)
    assert left.counts.tolist() == whole.counts.tolist()
    assert left.precisions == pytest.approx(whole.precisions, rel=1e-12, abs=1e-12)
    assert left.means == pytest.approx(whole.means, rel=1e-12, abs=1e-13)
    assert left.covariances == pytest.approx(whole.covariances, rel=1e-12, abs=1e-15)


# Drift

STEP = 2**26
as_ints = np.frompyfunc(int, 1, 1)


def on_the_grid(X):
    """Multiples of 1/STEP below 64: so fine that no sum of products is exact in the kernel."""
    return np.round(np.clip(X, -63.0, 63.0) * STEP) / STEP


def exact_products(X, Y):
    """XᵀY·STEP² in whole numbers: of pieces so short that sums of products are exact in floats."""
    pieces = []
    for rest in (X, Y):
        high = np.round(rest * 2.0**8) / 2.0**8
        middle = np.round((rest - high) * 2.0**17) / 2.0**17
        pieces.append((high, middle, (rest - high) - middle))
    return sum(as_ints((P.T @ Q) * float(STEP) ** 2) for P in pieces[0] for Q in pieces[1])


def exact_solve(B, right):
    """B⁻¹·right, times the determinant of B, and that: elimination without fractions (Bareiss)."""
    M, last = np.concatenate([B, right], axis=1), 1
    for k in range(len(B)):
        row = M[k].copy()
        M = (M * row[k] - np.outer(M[:, k], row)) // last
        M[k], last = row, row[k]
    return M[:, len(B) :], last


@pytest.mark.parametrize("rotated", [False, True])
def test_a_million_updates_drift_less_than_a_billionth(rotated) -> None:
    # cond(B) = 1e8: scales of the contexts from 9 down to 1e-4, along the axes or turned away
    # from them. 200 passes over one table: the same sums as over as many rows that differ. One
    # short of a million, so that the inverse is as old as it gets if a refresh divides that.
    passes, rows, d = 200, 5_000, 50
    if not JIT:
        passes, rows, d = 2, 300, 3
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0] if rotated else np.eye(d)
    C = on_the_grid((rng.standard_normal((rows, d)) * np.geomspace(9.0, 1e-4, d)) @ turn.T)
    y = on_the_grid(C @ turn @ (0.1 * rng.standard_normal(d)) + rng.standard_normal(rows))
    arms = LinearArms(arms=1, features=d)
    which = np.zeros(rows, np.int64)
    for left in range(passes, 0, -1):
        n = rows if left > 1 else rows - 1
        posterior.fold_many(arms.kernel_state, which[:n], C[:n], y[:n])
    assert arms.counts.tolist() == [passes * rows - 1]

    B = passes * exact_products(C, C) - exact_products(C[-1:], C[-1:])
    B += np.diag([STEP**2] * d)
    f = passes * exact_products(C, y[:, None]) - exact_products(C[-1:], y[-1:, None])
    assert not JIT or 7e7 < np.linalg.cond(B.astype(np.float64)) <= 1e8
    outside = on_the_grid(rng.standard_normal((6, d)))
    best_known = on_the_grid(10.0 * turn.T[:1])
    probes = np.concatenate([C[:6], outside, best_known])
    solved, det = exact_solve(B, np.concatenate([f, as_ints(probes.T * float(STEP))], axis=1))

    means, sds = np.empty((len(probes), 1)), np.empty((len(probes), 1))
    posterior.score_many(arms.covariances, arms.means, probes, means, sds)
    for t, c in enumerate(as_ints(probes * float(STEP))):
        mean = float(Fraction(sum(c * solved[:, 0]), det * STEP))
        sd = math.sqrt(Fraction(sum(c * solved[:, 1 + t]), det))
        assert abs(means[t, 0] - mean) <= 1e-9 * (1.0 + abs(mean))
        # Along the one direction that is known best, a float64 inverse has no more digits than
        # the condition leaves: 16 − 8, and half a digit of luck.
        assert abs(sds[t, 0] - sd) <= (1e-9 if t < 12 else 2e-8) * sd

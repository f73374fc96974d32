"""The kernels of the shared model against plain numpy."""

from __future__ import annotations

import math

import numpy as np

from bridle.kernels import shared


def plain_half_bits(key, arms):
    mask = 0xFFFFFFFF
    low, high = key & mask, key >> 32
    out = []
    for k in arms:
        x = (k * 0x9E3779B9 + low) & mask
        x = ((x ^ (x >> 16)) * 0x7FEB352D) & mask
        x = (((x ^ (x >> 15)) + high) * 0x846CA68B) & mask
        x = ((x ^ (x >> 16)) * 0x7FEB352D) & mask
        out.append(x ^ (x >> 15))
    return np.array(out)


def bits(key, n):
    return np.array([int(shared.own_bits(np.uint64(key), k)) for k in range(n)], np.uint64)


def test_random_bits_of_own_effects_are_those_of_the_plain_mixer():
    key = 0xDEADBEEF12345678
    np.testing.assert_array_equal(bits(key, 300) >> np.uint64(32), plain_half_bits(key, range(300)))


def test_random_bits_of_own_effects_are_uniform_over_arms_and_keys():
    # Each of 256 cells has n/256 expected; chi² of 255 degrees exceeds 255 + 5.5·√510 with
    # probability < 1e-6 (a bound by Laurent and Massart gives 255 + 2√(255·14) + 28 = 402.5).
    over_arms = bits(99, 20_000)
    over_keys = np.array(
        [
            int(shared.own_bits(np.uint64(key * 0x9E3779B97F4A7C15 % 2**64), 3))
            for key in range(20_000)
        ],
        np.uint64,
    )
    for drawn in (over_arms, over_keys):
        for shift in (56, 44, 34):
            cells = np.bincount((drawn >> np.uint64(shift)).astype(np.int64) % 256, minlength=256)
            chi2 = ((cells - len(drawn) / 256) ** 2 / (len(drawn) / 256)).sum()
            assert chi2 < 255 + 2 * math.sqrt(255 * 14) + 28


def test_factor_and_root_products_are_those_of_numpy():
    rng = np.random.default_rng(0)
    for D in (1, 3, 8, 21, 33, 64, 150):
        G = rng.normal(size=(2 * D, D))
        S = G.T @ G
        tri = S[np.tril_indices(D)]
        none, ridge = np.zeros_like(tri), rng.uniform(0.2, 2.0, D)
        U, V = np.empty((D, D)), np.empty((D, D))
        log_det = shared.factor(tri, none, none, ridge, U)
        B = S + np.diag(ridge)
        assert math.isclose(log_det, np.linalg.slogdet(B)[1], rel_tol=1e-12, abs_tol=1e-12)
        shared.invert_factor(U, V)
        np.testing.assert_allclose(V @ V.T, np.linalg.inv(B), rtol=1e-9, atol=1e-12)
        assert (np.tril(V, -1) == 0.0).all()
        v, h, out = rng.normal(size=D), np.empty(D), np.ones(D)
        v[::3] = 0.0
        shared.onto_root(V, v, h)
        np.testing.assert_allclose(h, V.T @ v, rtol=1e-12, atol=1e-12)
        shared.by_inverse(V, v, np.empty((2, D)), out)
        np.testing.assert_allclose(out, 1.0 + np.linalg.solve(B, v), rtol=1e-9, atol=1e-12)


def test_scores_of_a_tile_are_sums_in_single_precision_in_order():
    rng = np.random.default_rng(1)
    for P in (1, 2, 4, 5, 6, 21):
        # Features that are 0 or 1 in any places, and whether they are read as bits or not.
        binary = rng.random(P) < 0.5
        tile = rng.normal(size=(P, shared.LANES)).astype(np.float32)
        tile[binary] = tile[binary] > 0.5
        powers = np.uint64(1) << np.arange(shared.LANES, dtype=np.uint64)
        marks = ((tile == 1.0) * powers).sum(axis=1, dtype=np.uint64)
        w = rng.normal(size=P).astype(np.float32)
        total = np.zeros(shared.LANES, np.float32)
        for j in range(P):
            total += w[j] * tile[j]
        for as_bits in (binary, np.zeros(P, np.bool_)):
            out = np.empty(shared.LANES, np.float32)
            shared.tile_scores(tile[None], marks[None], as_bits, w, 0, out)
            np.testing.assert_array_equal(out, total)


def test_when_scales_are_estimated():
    due = [n for n in range(1, 1000) if shared.is_due(n)]
    assert due == [12, 24, 48, 96, 192, 384, 768]
    assert shared.period(10, 1.0) == 100
    assert shared.period(231, 1.0) == 231
    assert 0.9 <= 0.99 ** shared.period(231, 0.99) < 0.92

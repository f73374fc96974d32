"""Rows in vectors: the bits of the plain loop, whatever is left over at the end of a row."""

from __future__ import annotations

import numpy as np
import pytest

from bridle.kernels import lanes, posterior
from bridle.kernels.compiling import njit
from tests.conftest import size

# Around every number of whole vectors that is a case of its own, and beyond them.
LENGTHS = [*range(1, size(40, 10)), 47, 48, 49, 63, 64, 65, 71, 128, 129, 200][: size(99, 12)]


@njit
def add_rows(y, a, X):
    lanes.add_rows(y, a, X)


@njit
def take_outer(A, a, x):
    lanes.take_outer(A, a, x)


@njit
def sum_below(h, c, A):
    lanes.sum_below(h, c, A)


@njit
def add_products(sums, X):
    lanes.add_products(sums, X)


@njit
def settle_products(high, low, X):
    lanes.settle_products(high, low, X)


@njit
def fetch(X, row):
    lanes.fetch(X, row)


@njit
def row_products(out, X, v):
    lanes.row_products(out, X, v)


@njit
def add_marked(out, w, marks, tile, begin, end):
    lanes.add_marked(out, w, marks, tile, begin, end)


def numbers(rng, *shape: int):
    """Of many sizes, some of them zeros of either sign: any other order has other bits."""
    found = rng.standard_normal(shape) * 10.0 ** rng.integers(-8, 8, shape)
    found[rng.random(shape) < 0.1] = 0.0
    found[rng.random(shape) < 0.1] *= -1.0
    return found


@pytest.mark.parametrize("n", LENGTHS)
def test_rows_are_added_one_after_the_other(n) -> None:
    rng = np.random.default_rng(n)
    for rows in (0, 1, 2, 10):
        y, a, X = numbers(rng, n), numbers(rng, rows, 3)[:, 1], numbers(rng, rows, n + 3)
        expected = y.tolist()
        for r in range(rows):
            expected = [x + float(a[r]) * float(X[r, j]) for j, x in enumerate(expected)]
        beside = np.full(n + 16, 7.0)  # what is beside the row is not touched
        beside[8 : 8 + n] = y
        add_rows(beside[8 : 8 + n], a, X)
        assert beside[8 : 8 + n].tobytes() == np.array(expected).tobytes()
        assert (beside[:8] == 7.0).all()
        assert (beside[8 + n :] == 7.0).all()


@pytest.mark.parametrize("n", LENGTHS)
def test_an_outer_product_is_taken_from_every_row(n) -> None:
    rng = np.random.default_rng(n)
    for rows in (1, 3, n):
        A, a, x = numbers(rng, rows + 2, n), numbers(rng, rows), numbers(rng, n)
        expected = A.copy()
        for r in range(rows):
            for j in range(n):
                expected[1 + r, j] = float(A[1 + r, j]) - float(a[r]) * float(x[j])
        take_outer(A[1 : 1 + rows], a, x)
        assert A.tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", LENGTHS)
def test_what_is_above_the_diagonal_is_summed_in_order(n) -> None:
    rng = np.random.default_rng(n)
    A, c = numbers(rng, n, n), numbers(rng, n)
    h = np.full(n + 8, 7.0)
    sum_below(h, c, A)
    expected = np.zeros(n)
    for i in range(n):
        total = 0.0
        for j in range(i):
            total += float(c[j]) * float(A[j, i])
        expected[i] = total
    assert h[:n].tobytes() == expected.tobytes()
    assert (h[n:] == 7.0).all()


@pytest.mark.parametrize("n", LENGTHS)
def test_products_of_rows_are_added_to_the_triangle_in_order(n) -> None:
    rng = np.random.default_rng(n)
    for rows in (0, 1, 10):
        X, sums = numbers(rng, rows, n), numbers(rng, n * (n + 1) // 2 + 8)
        expected = sums.copy()
        i, j = np.tril_indices(n)
        for x in X:
            expected[:-8] += x[i] * x[j]
        new = np.zeros(len(sums) - 8)
        for x in X:
            new += x[i] * x[j]
        high, low = sums.copy(), numbers(rng, len(sums))
        pairs = high.copy(), low.copy()
        for p, x in enumerate(new):
            posterior.add(*pairs, p, x)
        settle_products(high[:-8], low[:-8], X)
        assert (high.tobytes(), low.tobytes()) == (pairs[0].tobytes(), pairs[1].tobytes())
        add_products(sums[:-8], X)
        assert sums.tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", LENGTHS)
def test_rows_are_multiplied_in_eight_sums(n) -> None:
    rng = np.random.default_rng(n)
    for rows in (0, 1, 7, 8, 9):
        X, v = numbers(rng, rows, n), numbers(rng, n)
        expected = []
        for r in range(rows):
            sums = [0.0] * 8
            for i in range(n):
                sums[i % 8] += float(X[r, i]) * float(v[i])
            halves = [sums[i] + sums[i + 4] for i in range(4)]
            expected.append((halves[0] + halves[2]) + (halves[1] + halves[3]))
        out = np.full(rows + 2, 7.0)
        row_products(out[1 : 1 + rows], X, v)
        assert out[1 : 1 + rows].tobytes() == np.array(expected).tobytes()
        assert (out[[0, -1]] == 7.0).all()


@pytest.mark.parametrize("rows", [0, 1, 2, 21])
def test_a_weight_is_added_where_a_bit_is_set(rows) -> None:
    rng = np.random.default_rng(rows)
    w = rng.standard_normal(rows + 2).astype(np.float32)
    bits = rng.random((3, rows + 2, lanes.MARKS)) < 0.3
    powers = np.uint64(1) << np.arange(lanes.MARKS, dtype=np.uint64)
    out = rng.standard_normal(3 * lanes.MARKS).astype(np.float32)
    expected = out.copy()
    for r in range(1, rows + 1):
        for i in np.flatnonzero(bits[1, r]):
            expected[lanes.MARKS + i] += w[r]
    add_marked(out, w, (bits * powers).sum(axis=2, dtype=np.uint64), 1, 1, rows + 1)
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("n", [1, 8, 9, 41])
def test_to_ask_for_a_row_changes_nothing(n) -> None:
    X = numbers(np.random.default_rng(n), 3, n)
    before = X.copy()
    for row in range(3):
        fetch(X, row)
    assert X.tobytes() == before.tobytes()

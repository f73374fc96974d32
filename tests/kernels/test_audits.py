"""The meter's formulas against plain ones, its coin, and its runs against a slow meter of lists."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, getcontext

import numpy as np
import pytest

from bridle.kernels import audits, keys
from tests.conftest import check_counts, size

START = keys.stream(7, np.uint64(0x4155444954))
LAMBDAS: list[float] = [0.02 * 200.0 ** (j / 14) for j in range(15)] + [30.0]


def upper(found: int, q: float, delta: float) -> float:
    price = math.log(16 / delta)
    return min((x * found + price) / -math.log(1 - q * (1 - math.exp(-x))) for x in LAMBDAS)


def lower(found: int, q: float, delta: float) -> float:
    price = math.log(16 / delta)
    return max((x * found - price) / math.log(1 + q * (math.exp(x) - 1)) for x in LAMBDAS)


def tables(T: int, q: float, delta: float) -> tuple:
    costs, gains, price = audits.costs(q), audits.gains(q), audits.price(delta)
    uppers = [audits.upper_of(s, audits.GRID, costs, price) for s in range(T + 1)]
    lowers = [audits.lower_of(s, audits.GRID, gains, price) for s in range(T + 1)]
    return np.array(uppers), np.array(lowers)


def starts(n: int) -> np.ndarray:
    return np.array([keys.stream(seed, np.uint64(1)) for seed in range(n)], np.uint64)


def coins(start: np.uint64, T: int, q: float) -> list[bool]:
    return [bool(audits.coin(start, np.uint64(t + 1), q)) for t in range(T)]


def judged(t: int, drawn: list[bool], delays: np.ndarray) -> list[int]:
    """The steps whose answers have come when step t is over."""
    return [i for i in range(t + 1) if drawn[i] and i + delays[i] <= t]


@pytest.mark.parametrize("q", [0.001, 0.05, 0.2, 0.7])
@pytest.mark.parametrize("delta", [0.001, 0.1])
def test_both_bounds_are_the_formulas(q: float, delta: float) -> None:
    uppers, lowers = tables(300, q, delta)
    for found in (0, 1, 2, 5, 40, 300):
        assert uppers[found] == pytest.approx(upper(found, q, delta), rel=1e-9)
        assert lowers[found] == pytest.approx(max(lower(found, q, delta), 0.0), rel=1e-9)


@pytest.mark.parametrize("q", [1e-6, 0.3, 0.5, 0.999, 1.0 - 2**-53, 1.0])
def test_what_a_violation_costs_has_all_its_digits(q: float) -> None:
    getcontext().prec = 60
    for x, cost in zip(audits.GRID.tolist(), audits.costs(q).tolist(), strict=True):
        exact = -(1 - Decimal(q) * (1 - (-Decimal(x)).exp())).ln()
        assert cost == pytest.approx(float(exact), rel=1e-14)


def test_the_lower_formula_never_passes_the_upper() -> None:
    # Both lie on their side of S/q, by Jensen's inequality.
    for q in (0.01, 0.3, 1.0):
        uppers, lowers = tables(200, q, 0.5)
        found = np.arange(201)
        assert (uppers >= found / q * (1 - 1e-12)).all()
        assert (lowers <= found / q * (1 + 1e-12)).all()
        assert (np.diff(uppers) > 0).all() and (np.diff(lowers) >= 0).all()


def test_the_coin_falls_as_often_as_it_should() -> None:
    n = size(100_000, 1_000)
    for q in (0.03, 0.5):
        yes = sum(coins(START, n, q))
        check_counts([yes, n - yes], [q, 1 - q])  # fails wrongly once in a million
    assert all(coins(START, 50, 1.0))


def test_the_coin_has_nothing_to_do_with_the_agents_draws() -> None:
    n = size(100_000, 1_000)
    decide = keys.stream(7, keys.DECIDE)
    cells = np.zeros(4)
    for i in range(1, n + 1):
        drawn = audits.coin(START, np.uint64(i), 0.5)
        key = np.uint64(int(keys.key_of(decide, np.uint64(i))))
        cells[2 * drawn + (keys.normal(np.uint64(int(keys.bits_of(key, 0)))) > 0)] += 1
    check_counts(cells, [0.25] * 4)  # fails wrongly once in a million


@pytest.mark.parametrize("latest", [0, 9])
def test_meters_run_as_a_slow_one_does(latest: int) -> None:
    T, n, q, delta = 60, 150, 0.4, 0.9  # an error so large that some bounds are wrong
    rng = np.random.default_rng(1)
    violates, delays = rng.random(T) < 0.6, rng.integers(0, latest + 1, T)
    uppers, lowers = tables(T, q, delta)
    wrong, last = np.empty((n, 2), np.int64), np.empty((n, 2))
    audits.run_meters(starts(n), q, violates, delays, uppers, lowers, wrong, last)
    for i, start in enumerate(starts(n)):
        drawn = coins(start, T, q)
        first = [0, 0]
        for t in range(T):
            known = judged(t, drawn, delays)
            found = sum(bool(violates[s]) for s in known)
            most = t + 1 - (len(known) - found)
            pending = sum(drawn[: t + 1]) - len(known)
            bounds = min(uppers[found + pending], most), min(max(lowers[found], found), most)
            happened = int(violates[: t + 1].sum())
            first[0] = first[0] or (t + 1 if happened > bounds[0] else 0)
            first[1] = first[1] or (t + 1 if happened < bounds[1] else 0)
        assert wrong[i].tolist() == first
        assert last[i].tolist() == [float(bound) for bound in bounds]
    assert latest or wrong.any(axis=0).all()


@pytest.mark.parametrize("latest", [0, 30])
def test_windows_run_as_slow_ones_do(latest: int) -> None:
    T, n, q, length, budget = 75, size(40, 6), 0.5, 20, 6.0
    rng = np.random.default_rng(2)
    violates, delays = rng.random(T) < 0.6, rng.integers(0, latest + 1, T)
    gains = audits.gains(q)
    prices = np.array([audits.price(0.5 / b**2) for b in (1, 2, 3, 4)])
    alarm = np.empty(n, np.int64)
    run = (starts(n), q, violates, delays, length, budget, audits.GRID, gains, prices, alarm)
    audits.run_windows(*run)
    seen = set()
    for i, start in enumerate(starts(n)):
        drawn = coins(start, T, q)
        first = 0
        for t, b in itertools.product(range(T), range(4)):
            known = [s for s in judged(t, drawn, delays) if s // length == b]
            found = sum(bool(violates[s]) for s in known)
            most = min(t + 1 - b * length, length) - (len(known) - found)
            low = audits.lower_of(found, audits.GRID, gains, prices[b])
            first = first or (t + 1 if min(max(low, found), most) > budget else 0)
        assert alarm[i] == first
        seen.add(first)
    assert len(seen) > 2


@pytest.mark.parametrize(("q", "delta"), [(0.3, 0.9), (0.6, 0.99), (1.0, 0.5)])
def test_the_chance_to_be_wrong_is_that_of_all_coins(q: float, delta: float) -> None:
    N = 10
    uppers, lowers = tables(N, q, delta)
    low = high = 0.0
    for fell in itertools.product((0, 1), repeat=N):
        chance = math.prod(q if one else 1 - q for one in fell)
        found = list(itertools.accumulate(fell))
        high += chance * any(n > uppers[s] for n, s in enumerate(found, start=1))
        low += chance * any(n < lowers[s] for n, s in enumerate(found, start=1))
    assert audits.chance_wrong(q, uppers, True) == pytest.approx(high, abs=1e-12)
    assert audits.chance_wrong(q, lowers, False) == pytest.approx(low, abs=1e-12)
    assert (high > 0) == (low > 0) == (q < 1)

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


# Coins that vary


def exact_weights(q: float, coin: float) -> list[tuple[Decimal, Decimal]]:
    """The formulas of SPEC 11.4, whose ρ are the images of the grid's λ, to 60 digits."""
    getcontext().prec = 60
    pairs = []
    for x in map(Decimal, audits.GRID.tolist()):
        up = -(1 - Decimal(q) * (1 - (-x).exp())).ln()  # ρ < −ln(1 − q)
        low = (1 + Decimal(q) * (x.exp() - 1)).ln()  # ρ > 0
        above = -(1 - (1 - (-up).exp()) / Decimal(coin)).ln()
        below = (1 + (low.exp() - 1) / Decimal(coin)).ln()
        pairs.append((above, below))
    return pairs


@pytest.mark.parametrize("q", [1e-6, 0.02, 0.3, 0.9])
@pytest.mark.parametrize("share", [1e-12, 0.01, 0.3, 1.0])
def test_weights_are_the_formulas_rounded_to_the_safe_side(q: float, share: float) -> None:
    coin = min(q + share * (1.0 - q), 1.0)
    ups, lows = audits.weights(q, coin)
    unit = Decimal(audits.UNIT)
    for up, low, (above, below) in zip(ups, lows, exact_weights(q, coin), strict=True):
        # Doubles round too: by a hundredth of a unit at most, where λ is 30.
        assert above * unit - Decimal("0.01") <= up <= above * unit + Decimal("1.01")
        assert below * unit - Decimal("1.01") <= low <= below * unit + Decimal("0.01")


@pytest.mark.parametrize("q", [0.02, 0.3])
def test_a_fixed_coin_is_the_case_in_which_all_weigh_lambda(q: float) -> None:
    for x, (above, below) in zip(audits.GRID.tolist(), exact_weights(q, q), strict=True):
        assert float(above) == pytest.approx(x, rel=1e-14)
        assert float(below) == pytest.approx(x, rel=1e-14)
    ups, lows = audits.weights(q, 1.0)  # and what is always judged weighs ρ: it stands for itself
    assert np.array(ups) / audits.UNIT == pytest.approx(audits.costs(q), rel=1e-7)
    assert np.array(lows) / audits.UNIT == pytest.approx(audits.gains(q), rel=1e-7)


@pytest.mark.parametrize("q", [1e-6, 0.05, 0.7])
def test_with_nothing_at_other_coins_the_bounds_have_the_same_bits(q: float) -> None:
    costs, gains, price = audits.costs(q), audits.gains(q), audits.price(0.05)
    none = np.zeros(16, np.int64)
    for found in (0, 1, 7, 1000):
        upper = audits.upper_of(found, audits.GRID, costs, price)
        lower = audits.lower_of(found, audits.GRID, gains, price)
        assert audits.upper_varied(found, none, audits.GRID, costs, price) == upper
        assert audits.lower_varied(found, none, audits.GRID, gains, price) == lower


def varied(found: list[float], waiting: list[float], q: float, delta: float) -> tuple[float, float]:
    """Both bounds, plainly, from the coins of what was found and of what waits."""
    price = math.log(16 / delta)
    uppers, lowers = [], []
    for x in LAMBDAS:
        up, low = -math.log(1 - q * (1 - math.exp(-x))), math.log(1 + q * (math.exp(x) - 1))
        above = sum(-math.log(1 - (1 - math.exp(-up)) / c) for c in found + waiting)
        below = sum(math.log(1 + (math.exp(low) - 1) / c) for c in found)
        uppers.append((above + price) / up)
        lowers.append((below - price) / low)
    return min(uppers), max(lowers)


@pytest.mark.parametrize("rule", [audits.GIVEN, audits.AFTER_FOUND])
@pytest.mark.parametrize("latest", [0, 9])
@pytest.mark.parametrize("hides", [0.5, 1.0])
def test_meters_with_varied_coins_run_as_slow_ones_do(rule: int, latest: int, hides: float) -> None:
    T, n, q, delta = 60, size(60, 10), 0.3, 0.9
    rng = np.random.default_rng(3)
    violates, delays = rng.random(T) < 0.6, rng.integers(0, latest + 1, T)
    levels, which = np.array([q, 0.45, 0.8, 1.0]), rng.integers(0, 4, T)
    pairs = [((0,) * 16, (0,) * 16), *(audits.weights(q, c) for c in levels[1:].tolist())]
    ups, lows = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    wrong, last = np.empty((n, 2), np.int64), np.empty((n, 2))
    audits.run_varied(
        starts(n),
        levels,
        which,
        rule,
        ups,
        lows,
        violates,
        hides,
        delays,
        audits.GRID,
        audits.costs(q),
        audits.gains(q),
        audits.price(delta),
        wrong,
        last,
    )
    for i, start in enumerate(starts(n)):
        coin: list[float] = []
        bad: list[bool] = []
        drawn: list[bool] = []
        first, alert = [0, 0], 0
        for t in range(T):
            coin.append(float(levels[which[t]]) if rule == audits.GIVEN else q)
            if rule == audits.AFTER_FOUND and t < alert:
                coin[t] = 1.0
            bad.append(bool(violates[t]) and coin[t] <= hides)
            drawn.append(bool(audits.coin(start, np.uint64(t + 1), coin[t])))
            known = judged(t, drawn, delays)
            found = [coin[s] for s in known if bad[s]]
            waiting = [coin[s] for s in range(t + 1) if drawn[s] and s not in known]
            if any(bad[s] and s + delays[s] == t for s in known):
                alert = t + 1 + audits.ALERT
            most = t + 1 - (len(known) - len(found))
            upper, lower = varied(found, waiting, q, delta)
            bounds = min(upper, most), min(max(lower, len(found)), most)
            happened = sum(bad)
            # Sums of other roundings: no bound of the slow one may lie just at the truth.
            assert all(b == most or b == len(found) or abs(b - happened) > 1e-6 for b in bounds)
            first[0] = first[0] or (t + 1 if happened > bounds[0] else 0)
            first[1] = first[1] or (t + 1 if happened < bounds[1] else 0)
        assert wrong[i].tolist() == first
        assert last[i].tolist() == pytest.approx(bounds, rel=1e-7)


def test_coins_that_do_not_vary_run_as_a_fixed_one_does() -> None:
    T, n, q, delta = 80, size(100, 10), 0.4, 0.9
    rng = np.random.default_rng(4)
    violates, delays = rng.random(T) < 0.5, rng.integers(0, 9, T)
    made = []
    for kind in ("fixed", "varied"):
        wrong, last = np.empty((n, 2), np.int64), np.empty((n, 2))
        if kind == "fixed":
            uppers, lowers = tables(T, q, delta)
            audits.run_meters(starts(n), q, violates, delays, uppers, lowers, wrong, last)
        else:
            none = np.zeros((1, 16), np.int64)
            audits.run_varied(
                starts(n),
                np.array([q]),
                np.zeros(T, np.int64),
                audits.GIVEN,
                none,
                none,
                violates,
                1.0,
                delays,
                audits.GRID,
                audits.costs(q),
                audits.gains(q),
                audits.price(delta),
                wrong,
                last,
            )
        made.append((wrong.tobytes(), last.tobytes()))
    assert made[0] == made[1]


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

"""The audit meter's coin and bounds, and many meters at once over a known course of violations."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from bridle.kernels import keys
from bridle.kernels.compiling import njit
from bridle.kernels.types import Bools, Floats, Ints, Uints

# The fixed λ of both bounds. Small ones serve when much was found, large ones when little was.
GRID: Floats = np.append(np.geomspace(0.02, 4.0, 15), 30.0)
# What audits at other coins weigh is kept in whole units of 2^-36, rounded to the safe side. Whole
# numbers can be taken back when an answer comes, and their sum has the same bits in any order.
UNIT = 2.0**36
# At most 30 λ each, so many of them fit into 63 bits.
MAX_VARIED = 4_000_000
# What the kernel makes of the coins: as given, or 1 for some steps after a violation was found.
GIVEN, AFTER_FOUND = 0, 1
ALERT = 20
# What is left of a distribution below this is given up, and counted as if it had gone wrong.
_NOTHING = 1e-40


def costs(q: float) -> Floats:
    """−ln(1 − q(1 − e^−λ)) for each λ of the grid."""
    if q < 0.5:
        return -np.log1p(q * np.expm1(-GRID))
    # The other form has no digits left where q is near 1 and λ large; here 1 − q is exact.
    inside: Floats = -np.log((1.0 - q) + q * np.exp(-GRID))
    return inside


def gains(q: float) -> Floats:
    """ln(1 + q(e^λ − 1)) for each λ of the grid."""
    return np.log1p(q * np.expm1(GRID))


@lru_cache(maxsize=4096)
def weights(q: float, coin: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return what an audit at a coin above q weighs in the upper and in the lower bound, in units.

    For each λ of the grid with r = q / coin: −ln(1 − r(1 − e^−λ)), rounded up, and
    ln(1 + r(e^λ − 1)), rounded down. At coin = q both are λ.
    """
    # Where coin is near q and λ large, 1 − r is all that counts: it is had without loss.
    r, short = q / coin, (coin - q) / coin
    ups, lows = [], []
    for x in GRID.tolist():
        up = -math.log1p(r * math.expm1(-x)) if r < 0.5 else -math.log(short + r * math.exp(-x))
        ups.append(math.ceil(up * UNIT))
        lows.append(math.floor(math.log1p(r * math.expm1(x)) * UNIT))
    return tuple(ups), tuple(lows)


def price(delta: float) -> float:
    """ln(J/δ): what it costs to hold at all times and for every λ of the grid."""
    return math.log(GRID.size / delta)


@njit(cache=True)
def coin(start: np.uint64, number: np.uint64, q: float) -> bool:
    """Say whether the coin of one decision falls on "judge it"."""
    return bool(keys.uniform(keys.bits_of(keys.key_of(start, number), 0)) < q)


@njit(cache=True)
def upper_of(found: int, grid: Floats, costs: Floats, price: float) -> float:
    """Least over j of (λ_j S + ln(J/δ)) / −ln(1 − q(1 − e^−λ_j)); `price` is ln(J/δ)."""
    best = math.inf
    for j in range(grid.shape[0]):
        best = min(best, (grid[j] * found + price) / costs[j])
    return best


@njit(cache=True)
def lower_of(found: int, grid: Floats, gains: Floats, price: float) -> float:
    """Most over j of (λ_j S − ln(J/δ)) / ln(1 + q(e^λ_j − 1)), and at least 0."""
    best = 0.0
    for j in range(grid.shape[0]):
        best = max(best, (grid[j] * found - price) / gains[j])
    return best


@njit(cache=True)
def upper_varied(found: int, sums: Ints, grid: Floats, costs: Floats, price: float) -> float:
    """`upper_of` with so many found at q, and beside them `sums`: (J,) of others, in units."""
    best = math.inf
    for j in range(grid.shape[0]):
        best = min(best, (grid[j] * found + sums[j] / UNIT + price) / costs[j])
    return best


@njit(cache=True)
def lower_varied(found: int, sums: Ints, grid: Floats, gains: Floats, price: float) -> float:
    """`lower_of` with so many found at q, and beside them `sums`: (J,) of others, in units."""
    best = 0.0
    for j in range(grid.shape[0]):
        best = max(best, (grid[j] * found + sums[j] / UNIT - price) / gains[j])
    return best


@njit(cache=True)
def run_meters(
    starts: Uints,
    q: float,
    violates: Bools,
    delays: Ints,
    uppers: Floats,
    lowers: Floats,
    wrong: Ints,
    last: Floats,
) -> None:
    """Run one meter for each start of a stream of coins; decisions are numbered from 1.

    uppers, lowers: (T + 1,) the formulas' bounds by violations found. Fills wrong: (n, 2), the
    first step at which the upper and the lower bound was wrong, or 0; last: (n, 2), the bounds
    after the last step. Bounds are looked at after each step's answers have come: before that
    they are wider.
    """
    T = violates.shape[0]
    for i in range(starts.shape[0]):
        due = np.zeros((T, 2), np.int64)  # answers that come at each step: clean, violation
        happened = pending = found = clean = 0
        wrong[i, 0] = wrong[i, 1] = 0
        for t in range(T):
            happened += violates[t]
            if coin(starts[i], np.uint64(t + 1), q):
                pending += 1
                if t + delays[t] < T:
                    due[t + delays[t], np.int64(violates[t])] += 1
            clean += due[t, 0]
            found += due[t, 1]
            pending -= due[t, 0] + due[t, 1]
            most = t + 1 - clean
            last[i, 0] = min(uppers[found + pending], float(most))
            last[i, 1] = min(max(lowers[found], float(found)), float(most))
            if happened > last[i, 0] and wrong[i, 0] == 0:
                wrong[i, 0] = t + 1
            if happened < last[i, 1] and wrong[i, 1] == 0:
                wrong[i, 1] = t + 1


@njit(cache=True)
def run_varied(
    starts: Uints,
    coins: Floats,
    which: Ints,
    rule: int,
    ups: Ints,
    lows: Ints,
    violates: Bools,
    hides: float,
    delays: Ints,
    grid: Floats,
    costs: Floats,
    gains: Floats,
    price: float,
    wrong: Ints,
    last: Floats,
) -> None:
    """Run meters as `run_meters` does, with a coin for each step.

    coins: (m,) ascending, the first is q; which: (T,) the coin of each step, if the rule is GIVEN.
    AFTER_FOUND takes the last coin in the ALERT steps after the answer that found a violation, and
    the first otherwise. ups, lows: (m, J) what an audit weighs, in units; none at q, where audits
    are counted. `hides`: of `violates`, only those where the coin is no higher come true.
    """
    T, J = violates.shape[0], grid.shape[0]
    for i in range(starts.shape[0]):
        comes = np.full(T, -1, np.int64)  # the last of the judged steps whose answer comes then
        before = np.full(T, -1, np.int64)  # the one before it whose answer comes at the same step
        taken = np.zeros(T, np.int64)  # the coin of each step
        true = np.zeros(T, np.bool_)  # whether it was a violation
        up, low = np.zeros(J, np.int64), np.zeros(J, np.int64)
        happened = found = clean = alert = 0
        at_q = found_at_q = 0  # audits at q that were found or wait; that were found
        upper, lower = upper_of(0, grid, costs, price), 0.0
        wrong[i, 0] = wrong[i, 1] = 0
        for t in range(T):
            k = which[t]
            if rule == AFTER_FOUND:
                k = coins.shape[0] - 1 if t < alert else 0
            taken[t] = k
            true[t] = violates[t] and coins[k] <= hides
            happened += true[t]
            drawn = coin(starts[i], np.uint64(t + 1), coins[k])
            if drawn:
                at_q += k == 0
                for j in range(J):
                    up[j] += ups[k, j]
                if t + delays[t] < T:
                    before[t] = comes[t + delays[t]]
                    comes[t + delays[t]] = t
            judged = comes[t]
            changed = drawn or judged >= 0
            while judged >= 0:
                k = taken[judged]
                if true[judged]:
                    found += 1
                    found_at_q += k == 0
                    for j in range(J):
                        low[j] += lows[k, j]
                    alert = t + 1 + ALERT
                else:
                    clean += 1
                    at_q -= k == 0
                    for j in range(J):
                        up[j] -= ups[k, j]
                judged = before[judged]
            if changed:
                upper = upper_varied(at_q, up, grid, costs, price)
                lower = lower_varied(found_at_q, low, grid, gains, price)
            most = t + 1 - clean
            last[i, 0] = min(upper, float(most))
            last[i, 1] = min(max(lower, float(found)), float(most))
            if happened > last[i, 0] and wrong[i, 0] == 0:
                wrong[i, 0] = t + 1
            if happened < last[i, 1] and wrong[i, 1] == 0:
                wrong[i, 1] = t + 1


@njit(cache=True)
def run_windows(
    starts: Uints,
    q: float,
    violates: Bools,
    delays: Ints,
    length: int,
    budget: float,
    grid: Floats,
    gains: Floats,
    prices: Floats,
    alarm: Ints,
) -> None:
    """Run blocks of `length` steps, each with its price; fill the step of the first alarm, or 0.

    An alarm is a lower bound on a block's violations above `budget`.
    """
    T = violates.shape[0]
    for i in range(starts.shape[0]):
        comes = np.full(T, -1, np.int64)  # the last of the judged steps whose answer comes then
        before = np.full(T, -1, np.int64)  # the one before it whose answer comes at the same step
        found = np.zeros(prices.shape[0], np.int64)
        clean = np.zeros(prices.shape[0], np.int64)
        alarm[i] = 0
        for t in range(T):
            if coin(starts[i], np.uint64(t + 1), q) and t + delays[t] < T:
                before[t] = comes[t + delays[t]]
                comes[t + delays[t]] = t
            newest = t // length
            oldest = newest  # of the blocks in which something changed
            judged = comes[t]
            while judged >= 0:
                b = judged // length
                found[b] += violates[judged]
                clean[b] += not violates[judged]
                oldest = min(oldest, b)
                judged = before[judged]
            for b in range(oldest, newest + 1):
                most = min(t + 1 - b * length, length) - clean[b]
                low = lower_of(found[b], grid, gains, prices[b])
                if min(max(low, float(found[b])), float(most)) > budget:
                    alarm[i] = t + 1
            if alarm[i] > 0:
                break


@njit(cache=True)
def chance_wrong(q: float, bounds: Floats, upper: bool) -> float:
    """Exact probability that a bound is wrong at or before the N-th violation.

    bounds: (N + 1,) by violations found. What the steps between violations do is of no matter:
    neither the violations nor those found change there. So this is a walk: each violation is found
    with probability q, and once the bound has been wrong the walk has ended.
    """
    N = bounds.shape[0] - 1
    p = np.zeros(N + 1)  # probability of so many found and never wrong
    p[0] = 1.0
    low, high = 0, 0  # where there is any
    wrong = 0.0
    for n in range(1, N + 1):
        high += 1
        for s in range(high, low, -1):
            p[s] = p[s] * (1.0 - q) + p[s - 1] * q
        p[low] *= 1.0 - q
        while low < high and (p[low] < _NOTHING or (upper and n > bounds[low])):
            wrong += p[low]
            p[low] = 0.0
            low += 1
        while low < high and (p[high] < _NOTHING or (not upper and n < bounds[high])):
            wrong += p[high]
            p[high] = 0.0
            high -= 1
    return wrong

"""The binomial law, exact to 12 digits and without scipy: what a count says of a probability.

Sums run away from the mean, from a first term in Loader's form ("Fast and accurate computation of
binomial probabilities", 2000), so that nothing cancels even for millions of trials.
"""

from __future__ import annotations

import math
from functools import lru_cache

from bridle import validation

__all__ = ["CHANCE", "binomial_quantile", "contexts_needed", "most_broken", "upper_bound"]

# What is rarer would need more contexts than anyone has.
CHANCE = validation.FloatRange(1e-12, 1.0, open_high=True)


def contexts_needed(alpha: float, delta: float) -> int:
    """Return the least number of calibration contexts that can show alpha at 1 − delta.

    >>> contexts_needed(0.05, 0.1), contexts_needed(0.01, 0.1)
    (45, 230)
    """
    owner = "contexts_needed"
    a, d = CHANCE.check(alpha, "alpha", owner), CHANCE.check(delta, "delta", owner)
    # That none of n is broken has probability (1 − alpha)ⁿ or less if more than alpha are.
    return math.ceil(math.log(d) / math.log1p(-a))


def most_broken(n: int, alpha: float, delta: float) -> int:
    """Return the most broken ones among n contexts at which `upper_bound` is still alpha or less.

    −1 if n is too small for any.

    >>> most_broken(44, 0.05, 0.1), most_broken(45, 0.05, 0.1), most_broken(300, 0.05, 0.1)
    (-1, 0, 9)
    """
    owner = "most_broken"
    count = validation.COUNT.check(n, "n", owner)
    a, d = CHANCE.check(alpha, "alpha", owner), CHANCE.check(delta, "delta", owner)
    return _most_broken(count, a, d)


@lru_cache(maxsize=1024)
def _most_broken(n: int, alpha: float, delta: float) -> int:
    if n < contexts_needed(alpha, delta):
        return -1
    # The bound for k is alpha or less just where P(X ≤ k) ≤ delta under Binomial(n, alpha). It
    # never is for k = n.
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        if _below(middle, n, alpha) <= delta:
            low = middle
        else:
            high = middle
    return low


def upper_bound(k: int, n: int, delta: float) -> float:
    """Bound a probability from above at 1 − delta when k of n were seen (Clopper-Pearson).

    >>> round(upper_bound(9, 300, 0.1), 6), upper_bound(3, 3, 0.1)
    (0.046942, 1.0)
    """
    owner = "upper_bound"
    count = validation.COUNT.check(n, "n", owner)
    seen = validation.IntRange(0, count).check(k, "k", owner)
    d = CHANCE.check(delta, "delta", owner)
    if seen == count:
        return 1.0
    if seen == 0:
        return -math.expm1(math.log(d) / count)
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2.0) < high:
        low, high = (low, middle) if _below(seen, count, middle) <= d else (middle, high)
    return high


def binomial_quantile(steps: int, alpha: float, delta: float) -> int:
    """Return the (1 − delta) quantile of Binomial(steps, alpha): the least m with P(X > m) ≤ delta.

    >>> binomial_quantile(1_000, 0.05, 0.1), binomial_quantile(1, 0.05, 0.1)
    (59, 0)
    """
    owner = "binomial_quantile"
    T = validation.COUNT.check(steps, "steps", owner)
    a, d = CHANCE.check(alpha, "alpha", owner), CHANCE.check(delta, "delta", owner)
    low, high = -1, T  # P(X > low) > delta ≥ P(X > high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _above(middle, T, a) <= d else (middle, high)
    return high


def _below(k: int, n: int, p: float) -> float:
    """Return P(X ≤ k) under Binomial(n, p), for 0 ≤ k < n."""
    if k < n * p:
        return _tail(k, n, p, -1)
    return 1.0 - _tail(k + 1, n, p, 1)


def _above(k: int, n: int, p: float) -> float:
    """Return P(X > k) under Binomial(n, p), for 0 ≤ k < n."""
    if k + 1 > n * p:
        return _tail(k + 1, n, p, 1)
    return 1.0 - _tail(k, n, p, -1)


def _tail(k: int, n: int, p: float, step: int) -> float:
    """Sum the probabilities of k, k + step, …, away from the mean: each is less than the last."""
    odds = p / (1.0 - p)
    term = total = 1.0
    j = k
    while 0 <= j + step <= n and term > 1e-18 * total:
        term *= (n - j) / (j + 1) * odds if step == 1 else j / ((n - j + 1) * odds)
        total += term
        j += step
    return min(1.0, math.exp(_log_chance(k, n, p)) * total)


def _log_chance(k: int, n: int, p: float) -> float:
    """Log of P(X = k), in Loader's form: no difference of large logs of factorials."""
    if k == 0:
        return n * math.log1p(-p)
    if k == n:
        return n * math.log(p)
    rest = _stirling(n) - _stirling(k) - _stirling(n - k)
    far = _deviance(k, n * p) + _deviance(n - k, n * (1.0 - p))
    return rest - far + 0.5 * math.log(n / (2.0 * math.pi * k * (n - k)))


def _stirling(n: int) -> float:
    """Return ln n! less Stirling's formula for it."""
    if n <= 15:
        return math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2.0 * math.pi)
    s = 1.0 / (n * n)
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188)))) / n


def _deviance(x: float, m: float) -> float:
    """Return x ln(x/m) + m − x, by its series where x is near m and the formula would cancel."""
    if abs(x - m) >= 0.1 * (x + m):
        return x * math.log(x / m) + m - x
    v = (x - m) / (x + m)
    total, power = (x - m) * v, 2.0 * x * v
    for j in range(1, 100):  # pragma: no branch  # v is at most .1: a dozen will do
        power *= v * v
        before, total = total, total + power / (2 * j + 1)
        if total == before:
            break
    return total

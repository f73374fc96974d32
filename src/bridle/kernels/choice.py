"""From scores to a choice: blend, draw, take the best; ties fall by the decision's own bits."""

from __future__ import annotations

import math

import numpy as np

from bridle.kernels.compiling import bare, njit
from bridle.kernels.keys import BIN_SHIFT, BIN_TOP, aside, bits_of, key_of, normal, uniform
from bridle.kernels.posterior import mean_of, nonzeros, sd_of
from bridle.kernels.types import MASK_ARGMAX, MASK_FILTER, Bools, Floats, Ints, Uints, Weights


@njit(cache=True, inline="always")
def location(w: Weights, m: float, s: float, me: float) -> float:
    """Middle of an arm's score."""
    return w.reward * m + w.limit * me + w.bonus * s


@njit(cache=True, inline="always")
def spread(w: Weights, s: float, se: float) -> float:
    """Standard deviation of an arm's score."""
    x = (w.reward * w.v) * s
    y = (w.limit * w.v_limit) * se
    return math.sqrt(x * x + y * y)


@bare
def random_arm(key: np.uint64, eligible: Bools, also: Bools) -> int:
    """Return a uniformly random arm among those with both marks, or -1 if there is none."""
    best = -1
    top = np.uint64(0)
    for k in range(eligible.shape[0]):
        if eligible[k] and also[k]:
            bits = bits_of(key, k)
            if best < 0 or bits > top:
                best = k
                top = bits
    return best


@bare
def blend(
    w: Weights,
    mean: Floats,
    sd: Floats,
    limit_mean: Floats,
    limit_sd: Floats,
    loc: Floats,
    scale: Floats,
) -> None:
    """Fill `loc` and `scale` with the `location` and the `spread` of every arm."""
    by_reward = w.limit == 0.0
    factor = w.reward * w.v
    for k in range(mean.shape[0]):
        loc[k] = location(w, mean[k], sd[k], limit_mean[k])
        scale[k] = factor * sd[k]
        # The root of a square is the number, to the bit, but where the square is too small.
        by_reward &= (scale[k] == 0.0) | ((scale[k] > 1e-150) & (scale[k] < 1e150))
    if not by_reward:
        for k in range(mean.shape[0]):
            scale[k] = spread(w, sd[k], limit_sd[k])


@bare
def best_arm(loc: Floats, scale: Floats, eligible: Bools, key: np.uint64) -> int:
    """Return the eligible arm with the highest draw loc + scale·z, or -1 if none is eligible.

    A draw is computed only where its bound reaches the best so far. Multiplying by scale ≥ 0 and
    adding loc are monotone also after rounding, so no arm that could win is passed over, and the
    choice has the same bits as with every draw computed.
    """
    best = -1
    top = -math.inf
    tie = np.uint64(0)
    for k in range(loc.shape[0]):
        if eligible[k]:
            bits = bits_of(key, k)
            if best < 0 or loc[k] + scale[k] * BIN_TOP[bits >> BIN_SHIFT] >= top:
                drawn = loc[k]
                if scale[k] > 0.0:
                    drawn += scale[k] * normal(bits)
                if best < 0 or drawn > top or (drawn == top and bits > tie):
                    best = k
                    top = drawn
                    tie = bits
    return best


@bare
def best_of_many(loc: Floats, scale: Floats, eligible: Bools, key: np.uint64, reach: Floats) -> int:
    """Do what `best_arm` does, faster where arms are many.

    All bounds are computed at once, and the draw of the arm whose bound is highest comes first.
    reach: (K,) scratch, filled with the bounds.
    """
    K = loc.shape[0]
    for k in range(K):
        bound = loc[k] + scale[k] * BIN_TOP[bits_of(key, k) >> BIN_SHIFT]
        reach[k] = bound if eligible[k] else -math.inf
    first = highest(reach)
    if first < 0:
        return -1
    best = -1
    top = -math.inf
    tie = np.uint64(0)
    for turn in range(-1, K):
        k = first if turn < 0 else turn
        if reach[k] >= top and turn != first:
            bits = bits_of(key, k)
            drawn = loc[k]
            if scale[k] > 0.0:
                drawn += scale[k] * normal(bits)
            if best < 0 or drawn > top or (drawn == top and bits > tie):
                best = k
                top = drawn
                tie = bits
    return best


@bare
def highest(x: Floats) -> int:
    """Return the place of the highest number, the first of equals; -1 if all are −∞.

    Four at a time, which need not wait for each other.
    """
    a, b, c, d = -math.inf, -math.inf, -math.inf, -math.inf
    fours = x.shape[0] - x.shape[0] % 4
    for i in range(0, fours, 4):
        a = x[i] if x[i] > a else a
        b = x[i + 1] if x[i + 1] > b else b
        c = x[i + 2] if x[i + 2] > c else c
        d = x[i + 3] if x[i + 3] > d else d
    for i in range(fours, x.shape[0]):
        a = x[i] if x[i] > a else a
    most = max(max(a, b), max(c, d))
    if most == -math.inf:
        return -1
    i = 0
    while x[i] != most:
        i += 1
    return i


@njit(cache=True)
def pick(
    w: Weights, loc: Floats, scale: Floats, eligible: Bools, allowed: Bools, key: np.uint64
) -> int:
    """Return the arm that the policy plays, or -1 if it may play none."""
    if w.epsilon > 0.0 and uniform(aside(key)) < w.epsilon:
        return random_arm(aside(key), eligible, eligible)
    if w.mask == MASK_ARGMAX:
        return best_arm(loc, scale, eligible & allowed, key)
    arm = best_arm(loc, scale, eligible, key)
    if w.mask == MASK_FILTER and arm >= 0 and not allowed[arm]:
        return random_arm(aside(key), eligible, allowed)
    return arm


@njit(cache=True, inline="always")
def as_weights(row: Floats) -> Weights:
    """Name seven numbers: numba looks up a call with a named tuple 100 times slower."""
    return Weights(row[0], row[1], row[2], row[3], row[4], row[5], row[6])


@njit(cache=True)
def choose(
    weights: Floats,
    parts: Floats,
    eligible: Bools,
    allowed: Bools,
    start: np.uint64,
    number: np.uint64,
) -> int:
    """Blend, draw and pick for one decision.

    parts: (7, K); rows 0 to 3 are given (mean and sd of the reward part, of the constraint part),
    rows 4 to 6 are filled (middle, spread and draw of the blend).
    """
    w = as_weights(weights)
    key = key_of(start, number)
    for k in range(parts.shape[1]):
        parts[4, k] = location(w, parts[0, k], parts[1, k], parts[2, k])
        parts[5, k] = spread(w, parts[1, k], parts[3, k])
        parts[6, k] = parts[4, k]
        if parts[5, k] > 0.0:
            parts[6, k] += parts[5, k] * normal(bits_of(key, k))
    return pick(w, parts[4], parts[5], eligible, allowed, key)


@njit(cache=True)
def with_one(c: Floats, d: int) -> Floats:
    """Return a context with the trailing 1 that arms of d features want, if it lacks it."""
    if c.shape[0] == d:
        return c
    out = np.empty(d)
    out[: d - 1] = c
    out[d - 1] = 1.0
    return out


@njit(cache=True)
def reward_parts(A: Floats, mu: Floats, pull: float, c: Floats, parts: Floats) -> None:
    """Fill rows 0 and 1 of `parts`: mean and sd of every arm's reward.

    Arms of one feature more than the context have an intercept. A `pull` is that of
    `loop.pull_of`, and the sums are those of `loop.score_columns`, in their order.
    """
    K, d = mu.shape
    x = with_one(c, d)
    where = np.empty(d, np.uint32)
    h = np.empty(d)
    n = nonzeros(x, where)
    for k in range(K):
        parts[0, k] = mean_of(mu, k, x, where, n)
        if pull != 0.0:
            last = 0.0
            for a in range(n):
                last += x[where[a]] * A[k, d - 1, where[a]]
            parts[0, k] += pull * last
        parts[1, k] = sd_of(A, k, x, where, n, h)


@njit(cache=True)
def reward_parts_many(A: Floats, mu: Floats, pull: float, C: Floats, parts: Floats) -> None:
    """Do what `reward_parts` does for each row of C; parts: (n, 7, K)."""
    for t in range(C.shape[0]):
        reward_parts(A, mu, pull, C[t], parts[t])


@njit(cache=True)
def decide(
    weights: Floats,
    reward_A: Floats,
    reward_mu: Floats,
    pull: float,
    limit_A: Floats,
    limit_mu: Floats,
    c: Floats,
    eligible: Bools,
    start: np.uint64,
    number: np.uint64,
    parts: Floats,
) -> int:
    """Score, blend, draw and pick in one call: `choose` for two sets of linear arms."""
    d = c.shape[0]
    where = np.empty(d, np.uint32)
    h = np.empty(d)
    n = nonzeros(c, where)
    reward_parts(reward_A, reward_mu, pull, c, parts)
    for k in range(parts.shape[1]):
        parts[2, k] = mean_of(limit_mu, k, c, where, n)
        parts[3, k] = sd_of(limit_A, k, c, where, n, h)
    return choose(weights, parts, eligible, eligible, start, number)


@njit(cache=True)
def choose_many(
    weights: Floats,
    parts: Floats,
    eligible: Bools,
    start: np.uint64,
    numbers: Uints,
    arms: Ints,
) -> None:
    """Do what `choose` does for each of parts (n, 7, K); fill `arms` (n).

    eligible: (n, K), or (1, K) for one that serves all.
    """
    for t in range(parts.shape[0]):
        may = eligible[t if eligible.shape[0] > 1 else 0]
        arms[t] = choose(weights, parts[t], may, may, start, numbers[t])


@njit(cache=True)
def locations(weights: Floats, parts: Floats) -> Floats:
    """Middles of the blend of every arm, from rows 0 to 2 of `parts`."""
    w = as_weights(weights)
    out = np.empty(parts.shape[1])
    for k in range(parts.shape[1]):
        out[k] = location(w, parts[0, k], parts[1, k], parts[2, k])
    return out


@njit(cache=True)
def spreads(weights: Floats, parts: Floats) -> Floats:
    """Standard deviations of the blend of every arm, from rows 1 and 3 of `parts`."""
    w = as_weights(weights)
    out = np.empty(parts.shape[1])
    for k in range(parts.shape[1]):
        out[k] = spread(w, parts[1, k], parts[3, k])
    return out


@njit(cache=True)
def pick_many(
    weights: Floats,
    reward_mean: Floats,
    reward_sd: Floats,
    limit_mean: Floats,
    limit_sd: Floats,
    eligible: Bools,
    start: np.uint64,
    numbers: Uints,
    arms: Ints,
) -> None:
    """Blend and pick for each row of the scores (n, K); fill `arms` (n).

    eligible, limit_mean, limit_sd: (n, K), or (1, K) for one that serves all. Only the draws that
    can win are computed.
    """
    w = as_weights(weights)
    n, K = reward_mean.shape
    loc = np.empty(K)
    scale = np.empty(K)
    for t in range(n):
        limit = t if limit_mean.shape[0] > 1 else 0
        may = eligible[t if eligible.shape[0] > 1 else 0]
        for k in range(K):
            loc[k] = location(w, reward_mean[t, k], reward_sd[t, k], limit_mean[limit, k])
            scale[k] = spread(w, reward_sd[t, k], limit_sd[limit, k])
        arms[t] = pick(w, loc, scale, may, may, key_of(start, numbers[t]))

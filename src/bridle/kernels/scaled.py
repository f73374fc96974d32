"""Arms that find their scale: the noise, the prior's precision, and when to begin anew.

Beside what was learned of all plays stands, if it is wanted, what was learned of the recent ones
alone: sums that fade, halved in so many plays. Both predict each reward before it is learned. By
how much the recent one predicted better, in log likelihood and never below 0, is its surplus (a
CUSUM test): once that is large, the world has changed, and the recent one takes the other's place.
"""

from __future__ import annotations

import math

import numpy as np

from bridle.kernels.compiling import njit
from bridle.kernels.posterior import (
    REFRESH_AFTER,
    add,
    add_scaled,
    add_sums,
    by_arm,
    count,
    fold,
    invert,
    mean_of,
    nonzeros,
    sd_of,
    settle,
)
from bridle.kernels.types import Floats, Ints, Places, Posterior

# Places in `num`. The sums are of rewards, 1 and squares: of all that counts; of what is recent.
COUNT, SUM, MASS, SQUARES, NOISE = range(5)
NEW_SUM, NEW_MASS, NEW_SQUARES, SURPLUS, HALF_LIFE = range(5, 10)
NUMBERS = 10

# One observation before all others: its reward, and the square of how far it is off.
FIRST, FIRST_SQUARE = 0.5, 0.0625
# Plays in which what is recent is halved; it fades in blocks, of which so many halve it.
RECENT, BLOCKS = 500.0, 8
# No single reward says more than this; in all, a chance of e^-15 a time that nothing has changed.
MOST_SURPRISED, SURE = 3.0, 15.0
# Ratios of noise to prior that are tried, and what is expected of them: log-normal.
RIDGES = np.array([3.0, 10.0, 30.0, 100.0])
RIDGE_GUESS, RIDGE_DOUBT = 10.0, 1.5


@njit(cache=True, inline="always")
def rate_of(total: float, mass: float) -> float:
    """Return the mean of rewards and of the first guess."""
    return (total + FIRST) / (mass + 1.0)


@njit(cache=True)
def block_of(half_life: float) -> int:
    """Return how many plays are a block, in which nothing fades."""
    return max(1, int(half_life) // BLOCKS)


@njit(cache=True)
def fade_sums(post: Posterior, k: int, g: float) -> None:
    """Multiply the sums of arm k by g; the prior is whole, A and μ are to be computed anew."""
    settle(post, k)
    for sums in (post.gram[k], post.gram_low[k]):
        for p in range(sums.shape[0]):
            sums[p] *= g
    for sums in (post.f[k], post.f_low[k]):
        for i in range(sums.shape[0]):
            sums[i] *= g
    for i in range(post.mu.shape[1]):
        add(post.gram[k], post.gram_low[k], i * (i + 1) // 2 + i, post.ridge * (1.0 - g))
    post.since[k] = 0


@njit(cache=True)
def fade(post: Posterior, k: int, g: float) -> None:
    """Multiply what arm k has learned by g."""
    fade_sums(post, k, g)
    invert(post, k)


@njit(cache=True, inline="always")
def faded(blocks: int) -> float:
    """Return what is left of something recent after so many blocks."""
    return float(2.0 ** (-blocks / BLOCKS))


@njit(cache=True)
def fade_to(post: Posterior, stamps: Ints, block: int, k: int) -> None:
    """Let what is recent of arm k fade to the present block."""
    if stamps[k] < block and post.times[k] > 0:
        fade(post, k, faded(block - stamps[k]))
    stamps[k] = block


@njit(cache=True)
def fold_one(
    gram: Floats,
    gram_low: Floats,
    gram_new: Floats,
    f: Floats,
    f_low: Floats,
    f_new: Floats,
    A: Floats,
    mu: Floats,
    times: Ints,
    since: Ints,
    new_gram: Floats,
    new_gram_low: Floats,
    new_gram_new: Floats,
    new_f: Floats,
    new_f_low: Floats,
    new_f_new: Floats,
    new_A: Floats,
    new_mu: Floats,
    new_times: Ints,
    new_since: Ints,
    ridge: float,
    stamps: Ints,
    num: Floats,
    k: int,
    c: Floats,
    y: float,
) -> None:
    """Fold one example into arm k, and into what is recent if that is kept (stamps: (K,), or (0,)).

    It takes posteriors in pieces: numba looks up a call with a named tuple 100 times slower.
    """
    post = Posterior(gram, gram_low, gram_new, f, f_low, f_new, A, mu, times, since, ridge)
    d = c.shape[0]
    where = np.empty(d, np.uint32)
    n = nonzeros(c, where)
    g = np.empty(d)
    if stamps.shape[0] > 0:
        new = Posterior(
            new_gram,
            new_gram_low,
            new_gram_new,
            new_f,
            new_f_low,
            new_f_new,
            new_A,
            new_mu,
            new_times,
            new_since,
            ridge,
        )
        every = block_of(RECENT)
        fade_to(new, stamps, int(num[COUNT]) // every, k)
        old_error, old_square = missed(post, k, c, y, where, n, g, rate_of(num[SUM], num[MASS]))
        error, square = missed(new, k, c, y, where, n, g, rate_of(num[NEW_SUM], num[NEW_MASS]))
        noise = num[NOISE] * num[NOISE]
        gain = 0.5 * (
            (old_error * old_error / old_square - error * error / square) / noise
            + math.log(old_square / square)
        )
        gain = min(max(gain, -MOST_SURPRISED), MOST_SURPRISED)
        num[SURPLUS] = max(0.0, num[SURPLUS] + gain)
        fold(new, k, c, y, where, n, g)
        num[NEW_SUM] += y
        num[NEW_MASS] += 1.0
        num[NEW_SQUARES] += y * y
        if (int(num[COUNT]) + 1) % every == 0:
            for i in range(NEW_SUM, NEW_SQUARES + 1):
                num[i] *= 2.0 ** (-1.0 / BLOCKS)
    fold(post, k, c, y, where, n, g)
    num[COUNT] += 1.0
    num[SUM] += y
    num[MASS] += 1.0
    num[SQUARES] += y * y


@njit(cache=True, inline="always")
def missed(
    post: Posterior,
    k: int,
    c: Floats,
    y: float,
    where: Places,
    n: int,
    h: Floats,
    rate: float,
) -> tuple[float, float]:
    """Return by how much arm k misses an outcome, and its variance in units of the noise."""
    drawn = rate * post.ridge * mean_of(post.A[k], c.shape[0] - 1, c, where, n)
    sd = sd_of(post.A, k, c, where, n, h)
    return y - (mean_of(post.mu, k, c, where, n) + drawn), 1.0 + sd * sd


@njit(cache=True)
def fold_recent(
    post: Posterior, stamps: Ints, num: Floats, first: int, arms: Ints, C: Floats, y: Floats
) -> None:
    """Fold examples into what is recent, row t of C as number first + t; nothing is compared.

    Arms go one after the other. What fades computes A from the sums alone, so before an arm's last
    fading the sums are all that is needed. The bits are those of one by one.
    """
    K, d = post.mu.shape
    where = np.empty(d, np.uint32)
    g = np.empty(d)
    every = block_of(RECENT)
    order, ends = by_arm(arms, K)
    begin = 0
    for k in range(K):
        if ends[k] == begin:
            continue
        last = (first + order[ends[k] - 1]) // every
        for place in range(begin, ends[k]):
            t = order[place]
            block = (first + t) // every
            n = nonzeros(C[t], where)
            if block == last:
                fade_to(post, stamps, block, k)
                fold(post, k, C[t], y[t], where, n, g)
                continue
            if stamps[k] < block and post.times[k] > 0:
                fade_sums(post, k, faded(block - stamps[k]))
            stamps[k] = block
            add_sums(post, k, C[t], y[t], where, n)
            if count(post, k):
                settle(post, k)
            if post.since[k] >= REFRESH_AFTER:
                post.since[k] = 0
        begin = ends[k]
    for t in range(arms.shape[0]):
        num[NEW_SUM] += y[t]
        num[NEW_MASS] += 1.0
        num[NEW_SQUARES] += y[t] * y[t]
        if (first + t + 1) % every == 0:
            for i in range(NEW_SUM, NEW_SQUARES + 1):
                num[i] *= 2.0 ** (-1.0 / BLOCKS)


@njit(cache=True)
def fade_all(post: Posterior, g: float) -> None:
    """Multiply what every arm has learned by g."""
    for k in range(post.mu.shape[0]):
        if post.times[k] > 0:
            fade(post, k, g)


@njit(cache=True)
def fade_all_to(post: Posterior, stamps: Ints, block: int) -> None:
    """Let what is recent of every arm fade to the present block."""
    for k in range(post.mu.shape[0]):
        fade_to(post, stamps, block, k)


@njit(cache=True)
def noise_of(post: Posterior, rate: float, total: float, mass: float, squares: float) -> float:
    """Return the standard deviation of the noise: that of rewards which arms do not explain.

    The square is Σ(r − r̄)² − Σ_k h_kᵀB_k⁻¹h_k a reward, h_k = f_k − r̄ Σc.
    """
    K, d = post.mu.shape
    last = d * (d - 1) // 2
    rest = squares - 2.0 * rate * total + rate * rate * mass
    for k in range(K):
        if post.times[k] == 0:
            continue
        for i in range(d):
            one = 1.0 if i == d - 1 else 0.0
            sums = post.gram[k, last + i] + (
                post.gram_low[k, last + i] + post.gram_new[k, last + i]
            )
            h = post.f[k, i] + (post.f_low[k, i] + post.f_new[k, i])
            h -= rate * (sums - post.ridge * one)
            rest -= h * (post.mu[k, i] - rate * (one - post.ridge * post.A[k, d - 1, i]))
    return math.sqrt((max(rest, 0.0) + FIRST_SQUARE) / (mass + 1.0))


@njit(cache=True)
def evidence(
    post: Posterior,
    ridge: float,
    rate: float,
    total: float,
    mass: float,
    squares: float,
    U: Floats,
    h: Floats,
) -> float:
    """Return the log evidence of a prior precision, the noise at its best; U (d, d), h: scratch."""
    K, d = post.mu.shape
    last = d * (d - 1) // 2
    rest = squares - 2.0 * rate * total + rate * rate * mass
    log_det = 0.0
    for k in range(K):
        if post.times[k] == 0:
            continue
        p = 0
        for j in range(d):
            for i in range(j + 1):
                U[i, j] = post.gram[k, p] + (post.gram_low[k, p] + post.gram_new[k, p])
                p += 1
            U[j, j] += ridge - post.ridge
        for i in range(d):
            sums = post.gram[k, last + i] + (
                post.gram_low[k, last + i] + post.gram_new[k, last + i]
            )
            if i == d - 1:
                sums -= post.ridge
            h[i] = post.f[k, i] + (post.f_low[k, i] + post.f_new[k, i]) - rate * sums
        for i in range(d):
            row = U[i, i:]
            pivot = max(row[0], ridge)
            log_det += math.log(pivot / ridge)
            rest -= h[i] * h[i] / pivot
            for r in range(i + 1, d):
                x = U[i, r] / pivot
                if x != 0.0:
                    h[r] -= x * h[i]
                    add_scaled(U[r, r:], -x, U[i, r:])
    return -0.5 * (mass * math.log(max(rest, 1e-9) / max(mass, 1.0)) + log_det)


@njit(cache=True)
def best_ridge(post: Posterior, total: float, mass: float, squares: float) -> float:
    """Return the prior precision, of those that are tried, with the highest posterior."""
    d = post.mu.shape[1]
    U = np.zeros((d, d))
    h = np.empty(d)
    rate = rate_of(total, mass)
    best = post.ridge
    top = -math.inf
    for ridge in RIDGES:
        off = math.log(ridge / RIDGE_GUESS) / RIDGE_DOUBT
        found = evidence(post, ridge, rate, total, mass, squares, U, h) - 0.5 * off * off
        if found > top:
            best = ridge
            top = found
    return best


@njit(cache=True)
def change_ridge(post: Posterior, ridge: float) -> None:
    """Change the prior precision of every arm; A and μ are to be computed anew by it."""
    for k in range(post.mu.shape[0]):
        for i in range(post.mu.shape[1]):
            add(post.gram[k], post.gram_low[k], i * (i + 1) // 2 + i, ridge - post.ridge)

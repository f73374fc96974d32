"""Arms that find their scale: the noise, the prior's mean and precision, and when to begin anew.

Before an arm is played its weights are N(r̄e + w, s²Λ⁻¹): e is the trailing 1 of contexts, r̄ the
mean of all rewards, and w explains r − r̄ of all plays, of whatever arm. Λ is diagonal, with one
precision for the intercept and another for all slopes: arms differ more in how much they earn
everywhere than in what moves it. `prior` (2, d) is w and Λ; the ridge of `post` is the intercept's
precision, which is never the larger one. So an arm
that nobody tried is expected to earn what is earned on average in such a context. That average is
of plays, not of arms: it rises as the better arms are found, and what is worse than it is not
tried for long. The prior's part of f, Λw, stands in the sums of the arm.

Beside what was learned of all plays stands, if it is wanted, what was learned of the recent ones
alone: sums that fade from one block of plays to the next. Within a block both predict the rewards
of an arm by the weights that they had for it as the block began. By how much the recent one
predicted better, in log likelihood and never below 0, is its surplus (a CUSUM test): once that is
large, the world has changed, and the recent one takes the other's place.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bridle.kernels.compiling import bare, counted, njit
from bridle.kernels.lanes import add_products, add_rows, row_products
from bridle.kernels.posterior import (
    HELD,
    add,
    add_scaled,
    by_arm,
    fold,
    fold_arms,
    hold,
    invert,
    nonzeros,
    settle,
)
from bridle.kernels.types import Floats, Ints, Places, Posterior

# Places in `num`. The sums are of rewards, 1 and squares: of all that counts; of what is recent.
COUNT, SUM, MASS, SQUARES, NOISE = range(5)
NEW_SUM, NEW_MASS, NEW_SQUARES, SURPLUS, WIDTH, HOLD, HALF_LIFE = range(5, 12)
# The mean of all rewards and of recent ones, as the block began.
RATE, NEW_RATE = range(12, 14)
NUMBERS = 14
# Rows of `prior`: what weights are expected to be, beside r̄e; and Λ, how tightly.
MEAN, PRECISION = 0, 1

# One observation before all others: its reward, and the square of how far it is off.
FIRST, FIRST_SQUARE = 0.5, 0.0625
# Where old examples fade, they do so in blocks, of which so many are a half-life.
BLOCKS = 8
# Plays in which what is recent is halved, and plays of a block of it.
RECENT, BLOCK = 500.0, 250
# No single reward says more than this; in all, a chance of e^-15 a time that nothing has changed.
MOST_SURPRISED, SURE = 3.0, 15.0
# Ratios of noise to prior that are tried, half decades, and what is expected of them: log-normal.
# It takes much evidence to leave the guess, since who chooses by what was learned learns little of
# arms that seem bad, and a prior that is too tight keeps it so.
RIDGES = np.array([m * 10.0**e for e in range(-1, 7) for m in (3.0, 10.0)])
RIDGE_GUESS, RIDGE_DOUBT = 10.0, 0.5
# The same of the intercept, in units of the ridge of slopes; the guess is 1.
LOOSER = np.array([1.0, 0.3, 0.1, 0.03])
LOOSER_DOUBT = 1.0
# Finding a ridge costs d³ an arm: so many numbers at most, but some arms in any case.
WORK, LEAST_ASKED = 2_000_000, 8
# Of what arms have in common, and of all where a history is learned at once, the guess is a
# variance in units of (r̄(1 − r̄))², that is on the scale of log odds. It is tighter than RIDGE_GUESS
# where rewards are rare, which is right for predicting; who chooses by it from the first play on
# tries too little. HOLD is what a history found for what arms have in common; 0: the guess.
SCALE_GUESS, SCALE_DOUBT = 0.1, 3.0
# Draws are narrower by so much whenever what counts has doubled: 2^-.1.
NARROWER = 0.9330329915368074


@njit(cache=True, inline="always")
def rate_of(total: float, mass: float) -> float:
    """Return the mean of rewards and of the first guess."""
    return (total + FIRST) / (mass + 1.0)


@njit(cache=True)
def block_of(half_life: float) -> int:
    """Return how many plays are a block, in which nothing fades."""
    return max(1, int(half_life) // BLOCKS)


@njit(cache=True)
def fade_sums(post: Posterior, prior: Floats, k: int, g: float) -> None:
    """Multiply the sums of arm k by g; the prior is whole, A and μ are to be computed anew."""
    settle(post, k)
    d = post.mu.shape[1]
    for sums in (post.gram[k], post.gram_low[k]):
        for p in range(sums.shape[0]):
            sums[p] *= g
    for sums in (post.f[k], post.f_low[k]):
        for i in range(sums.shape[0]):
            sums[i] *= g
    for i in range(d):
        more = prior[PRECISION, i] * (1.0 - g)
        add(post.gram[k], post.gram_low[k], i * (i + 1) // 2 + i, more)
        add(post.f[k], post.f_low[k], i, more * prior[MEAN, i])
    post.since[k] = 0


@njit(cache=True)
def fade(post: Posterior, prior: Floats, k: int, g: float) -> None:
    """Multiply what arm k has learned by g."""
    fade_sums(post, prior, k, g)
    invert(post, k)


@njit(cache=True, inline="always")
def earned(post: Posterior, prior: Floats, k: int, i: int) -> float:
    """Return Σ c_i r of arm k, without the prior's part."""
    f: float = post.f[k, i] + (post.f_low[k, i] + post.f_new[k, i])
    f -= prior[PRECISION, i] * prior[MEAN, i]
    return f


class Recent(NamedTuple):
    """What has faded of the sums of arms, and how their rewards are predicted in this block.

    What is recent is the sums of all plays less these. Twos are of all plays, and of recent ones.
    """

    gram: Floats  # (K, d(d+1)/2) Σ (1 − w) c cᵀ over plays that count w by now
    f: Floats  # (K, d) Σ (1 − w) c·y
    weights: Floats  # (K, 2, d) what predicts y, from c
    scales: Floats  # (K, 3) the variances of these predictions in units of the noise, and half the
    # logarithm of their ratio
    stamps: Ints  # (K,) the block up to which it has faded; −1 − block: weights are of an older one


@bare
def fade_recent(post: Posterior, recent: Recent, prior: Floats, k: int, block: int) -> None:
    """Let what is recent of arm k fade to a block; its weights are to be found anew."""
    stamp = recent.stamps[k]
    gone = 1.0 - 2.0 ** (((stamp if stamp >= 0 else -1 - stamp) - block) * (BLOCK / RECENT))
    recent.stamps[k] = -1 - block
    if gone == 0.0 or post.times[k] == 0:
        return
    old, high, low, new = recent.gram[k], post.gram[k], post.gram_low[k], post.gram_new[k]
    for p in range(old.shape[0]):
        old[p] += gone * ((high[p] + (low[p] + new[p])) - old[p])
    for i in range(prior.shape[1]):
        old[i * (i + 1) // 2 + i] -= gone * prior[PRECISION, i]
        f = earned(post, prior, k, i)
        recent.f[k, i] += gone * (f - recent.f[k, i])


@njit(cache=True)
def fade_all_recent(post: Posterior, recent: Recent, prior: Floats, block: int) -> None:
    """Let what is recent of every arm fade to a block."""
    for k in range(recent.stamps.shape[0]):
        fade_recent(post, recent, prior, k, block)


@counted
def predict(
    post: Posterior, recent: Recent, prior: Floats, num: Floats, k: int, block: int
) -> None:
    """Find what predicts the rewards of arm k in this block.

    Within it the variance of a prediction is taken to be the same: that of an arm which knows as
    much in every direction, for contexts as long as those so far.
    """
    fade_recent(post, recent, prior, k, block)
    recent.stamps[k] = block
    d = prior.shape[1]
    B = np.empty((d, d))
    factors = np.empty((2, d))
    length = 1.0
    for which in range(2):
        w = recent.weights[k, which]
        trace = 0.0
        p = 0
        for j in range(d):
            for i in range(j + 1):
                B[i, j] = post.gram[k, p] + (post.gram_low[k, p] + post.gram_new[k, p])
                if which == 1:
                    B[i, j] -= recent.gram[k, p]
                p += 1
            w[j] = post.f[k, j] + (post.f_low[k, j] + post.f_new[k, j])
            if which == 1:
                w[j] -= recent.f[k, j]
            trace += B[j, j]
        plays = B[d - 1, d - 1] - post.ridge
        if which == 0 and plays > 0.0:
            length = (trace - prior[PRECISION].sum()) / plays
        w[d - 1] += num[RATE + which] * post.ridge
        eliminate(B, w, 0.0, 0.0, post.ridge, B, w, factors)
        solve(B, w)
        recent.scales[k, which] = 1.0 + length * d / trace
    recent.scales[k, 2] = 0.5 * math.log(recent.scales[k, 0] / recent.scales[k, 1])


@bare
def compare(recent: Recent, num: Floats, k: int, c: Floats, y: float, means: Floats) -> None:
    """Add to the surplus by how much better what is recent predicts; means: (2,) scratch."""
    row_products(means, recent.weights[k], c)
    old, new = y - means[0], y - means[1]
    gain = old * old / recent.scales[k, 0] - new * new / recent.scales[k, 1]
    gain = 0.5 * gain / (num[NOISE] * num[NOISE]) + recent.scales[k, 2]
    num[SURPLUS] = max(0.0, num[SURPLUS] + min(max(gain, -MOST_SURPRISED), MOST_SURPRISED))


@bare
def count_reward(num: Floats, y: float, keeps_recent: bool) -> None:
    """Add a reward to the sums of rewards; those of recent ones fade where a block ends."""
    num[COUNT] += 1.0
    num[SUM] += y
    num[MASS] += 1.0
    num[SQUARES] += y * y
    if keeps_recent:
        num[NEW_SUM] += y
        num[NEW_MASS] += 1.0
        num[NEW_SQUARES] += y * y
        if int(num[COUNT]) % BLOCK == 0:
            for i in range(NEW_SUM, NEW_SQUARES + 1):
                num[i] *= 2.0 ** (-BLOCK / RECENT)
            keep_rates(num)


@bare
def keep_rates(num: Floats) -> None:
    """Keep the means of rewards as they stand, for the predictions of a block."""
    num[RATE] = rate_of(num[SUM], num[MASS])
    num[NEW_RATE] = rate_of(num[NEW_SUM], num[NEW_MASS])


@bare
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
    ridge: float,
    old_gram: Floats,
    old_f: Floats,
    weights: Floats,
    scales: Floats,
    stamps: Ints,
    prior: Floats,
    num: Floats,
    k: int,
    c: Floats,
    y: float,
    where: Places,
    g: Floats,
    means: Floats,
) -> bool:
    """Fold one example into arm k, and compare it with what is recent if that is kept.

    Return whether something is due: the scale is to be found anew, to fade, or to begin anew.

    It takes tuples in pieces: numba looks up a call with a named tuple 100 times slower. where, g:
    (d,), means: (2,) scratch.
    """
    post = Posterior(gram, gram_low, gram_new, f, f_low, f_new, A, mu, times, since, ridge)
    keeps = stamps.shape[0] > 0
    if keeps:
        recent = Recent(old_gram, old_f, weights, scales, stamps)
        block = int(num[COUNT]) // BLOCK
        if stamps[k] != block:
            predict(post, recent, prior, num, k, block)
        compare(recent, num, k, c, y, means)
    fold(post, k, c, y, where, nonzeros(c, where), g)
    count_reward(num, y, keeps)
    return num[SURPLUS] > SURE or int(num[COUNT]) == next_due(int(num[COUNT]) - 1, num[HALF_LIFE])


@bare
def next_due(count: int, half_life: float) -> int:
    """Return at which count after this one the scale is found anew, or what was learned fades."""
    due = count + 1
    every = eighth(due)
    while due % every != 0:  # it changes at multiples of itself
        due += every - due % every
        every = eighth(due)
    if half_life > 0.0:
        block = block_of(half_life)
        due = min(due, count + block - count % block)
    return due


@njit(cache=True)
def fold_until_due(
    post: Posterior,
    recent: Recent,
    prior: Floats,
    num: Floats,
    arms: Ints,
    C: Floats,
    y: Floats,
    first: int,
) -> tuple[int, bool]:
    """Do what `fold_one` does with rows first, first + 1, … of C until something is due.

    Return where to go on, and whether something is due before.

    Arms go one after the other through each block. What A and μ are before a refresh nobody asks,
    but who begins anew, and then they are computed from the sums.
    """
    K, d = post.mu.shape
    keeps = recent.stamps.shape[0] > 0
    count = int(num[COUNT])
    due = next_due(count, num[HALF_LIFE])
    end = min(arms.shape[0], first + due - count)
    more = np.zeros(K, np.int64)
    for t in range(first, end):
        more[arms[t]] += 1
    held, outcomes, g = np.empty((HELD, d)), np.empty(HELD), np.empty(d)
    where, means = np.empty(d, np.uint32), np.empty(2)
    while first < end:
        last = end
        if keeps:
            block = int(num[COUNT]) // BLOCK
            last = min(end, first + (block + 1) * BLOCK - int(num[COUNT]))
            for t in range(first, last):
                if recent.stamps[arms[t]] != block:
                    predict(post, recent, prior, num, arms[t], block)
                compare(recent, num, arms[t], C[t], y[t], means)
                if num[SURPLUS] > SURE:
                    last = t + 1
                    break
        for t in range(first, last):
            count_reward(num, y[t], keeps)
            more[arms[t]] -= 1
        order, ends = by_arm(arms[first:last], K)
        fold_arms(post, order, ends, C[first:last], y[first:last], more, held, outcomes, where, g)
        first = last
        if num[SURPLUS] > SURE:
            return first, True
    return end, int(num[COUNT]) == due


@njit(cache=True)
def eighth(count: int) -> int:
    """Return the largest power of two that is at most an eighth of a count, 1 at least."""
    part = 1
    while part * 16 <= count:
        part *= 2
    return part


@njit(cache=True)
def fold_recent(recent: Recent, num: Floats, count: int, arms: Ints, C: Floats, y: Floats) -> None:
    """Add plays to what is recent as it fades until count + n plays, row t as number count + t.

    The sums of `recent` are what is recent here, not what has faded. Nothing is compared.
    """
    K, d = recent.f.shape
    n = arms.shape[0]
    block = (count + n) // BLOCK
    order, ends = by_arm(arms, K)
    held, outcomes = np.empty((HELD, d)), np.empty(HELD)
    begin = 0
    for k in range(K):
        for first in range(begin, ends[k], HELD):
            m = min(HELD, ends[k] - first)
            hold(C, y, order[first : first + m], held, outcomes)
            for r in range(m):
                root = 2.0 ** (((count + order[first + r]) // BLOCK - block) * (BLOCK / RECENT / 2))
                outcomes[r] *= root
                for i in range(d):
                    held[r, i] *= root
            add_products(recent.gram[k], held[:m])
            add_rows(recent.f[k], outcomes[:m], held[:m])
        begin = ends[k]
    for t in range(n):
        num[NEW_SUM] += y[t]
        num[NEW_MASS] += 1.0
        num[NEW_SQUARES] += y[t] * y[t]
        if (count + t + 1) % BLOCK == 0:
            for i in range(NEW_SUM, NEW_SQUARES + 1):
                num[i] *= 2.0 ** (-BLOCK / RECENT)


@njit(cache=True)
def turn_recent(post: Posterior, recent: Recent, prior: Floats) -> None:
    """Turn what has faded into what is recent in the sums of `recent`, or back."""
    for k in range(post.mu.shape[0]):
        if post.times[k] == 0:
            continue
        old = recent.gram[k]
        for p in range(old.shape[0]):
            old[p] = (post.gram[k, p] + (post.gram_low[k, p] + post.gram_new[k, p])) - old[p]
        for i in range(prior.shape[1]):
            old[i * (i + 1) // 2 + i] -= prior[PRECISION, i]
            recent.f[k, i] = earned(post, prior, k, i) - recent.f[k, i]


@njit(cache=True)
def begin_anew(post: Posterior, recent: Recent) -> None:
    """Take what has faded out of what was learned; nothing has faded then."""
    for k in range(post.mu.shape[0]):
        settle(post, k)
        for p in range(post.gram.shape[1]):
            add(post.gram[k], post.gram_low[k], p, -recent.gram[k, p])
            recent.gram[k, p] = 0.0
        for i in range(post.mu.shape[1]):
            add(post.f[k], post.f_low[k], i, -recent.f[k, i])
            recent.f[k, i] = 0.0


@njit(cache=True)
def fade_all(post: Posterior, prior: Floats, g: float) -> None:
    """Multiply what every arm has learned by g."""
    for k in range(post.mu.shape[0]):
        if post.times[k] > 0:
            fade(post, prior, k, g)


@njit(cache=True)
def learned(post: Posterior, prior: Floats, k: int, B: Floats, f: Floats) -> None:
    """Fill the upper half of Σ c cᵀ (d, d) and Σ c r (d) of arm k, without the prior's part."""
    d = f.shape[0]
    p = 0
    for j in range(d):
        for i in range(j + 1):
            B[i, j] = post.gram[k, p] + (post.gram_low[k, p] + post.gram_new[k, p])
            p += 1
        B[j, j] -= prior[PRECISION, j]
        f[j] = earned(post, prior, k, j)


@njit(cache=True)
def less(B: Floats, weights: Floats, h: Floats) -> None:
    """Subtract B·weights from h, of a B whose upper half (d, d) is known."""
    d = h.shape[0]
    for i in range(d):
        for j in range(d):
            h[i] -= (B[i, j] if i <= j else B[j, i]) * weights[j]


@njit(cache=True)
def left_of(post: Posterior, prior: Floats, k: int, rate: float, B: Floats, h: Floats) -> None:
    """Fill the upper half of Σ c cᵀ, and Σ c (r − r̄ − cᵀw): what the prior of arm k misses."""
    learned(post, prior, k, B, h)
    d = h.shape[0]
    for i in range(d):
        h[i] -= rate * B[i, d - 1]
    less(B, prior[MEAN], h)


@bare
def eliminate(
    G: Floats,
    g: Floats,
    slopes: float,
    intercept: float,
    floor: float,
    B: Floats,
    h: Floats,
    factors: Floats,
) -> float:
    """Eliminate in B = G + Λ, of a G whose upper half (d, d) is known, and in h = g.

    Λ is diagonal: what is given for slopes, and last for the intercept. Return hᵀB⁻¹h. No pivot is
    below the floor, as B is at least that. B and h may be G and g; factors: (2, d) scratch.
    """
    d = g.shape[0]
    square = 0.0
    for i in range(d):
        row = B[i, i:]
        for j in range(d - i):
            row[j] = G[i, i + j]
        row[0] += slopes if i < d - 1 else intercept
        x = g[i]
        for r in range(i):
            factors[0, r] = -B[r, i] * factors[1, r]
            x += factors[0, r] * h[r]
        add_rows(row, factors[0, :i], B[:i, i:])
        row[0] = max(row[0], floor)
        factors[1, i] = 1.0 / row[0]
        h[i] = x
        square += x * x * factors[1, i]
    return square


@bare
def log_det(B: Floats) -> float:
    """Return the logarithm of the determinant, after `eliminate`."""
    total, product = 0.0, 1.0
    for i in range(B.shape[0]):
        product *= B[i, i]
        if i % 8 == 7:  # a logarithm costs as much as many products
            total += math.log(product)
            product = 1.0
    return total + math.log(product)


@njit(cache=True)
def solve(B: Floats, h: Floats) -> None:
    """Turn h into B⁻¹h, after `eliminate`."""
    d = h.shape[0]
    for i in range(d - 1, -1, -1):
        for j in range(i + 1, d):
            h[i] -= B[i, j] * h[j]
        h[i] /= B[i, i]


@njit(cache=True)
def fit(mass: float, rest: float, log_ratio: float) -> float:
    """Return the log evidence where squares of `rest` are left, the noise at its best."""
    return -0.5 * (mass * math.log(max(rest, 1e-9) / max(mass, 1.0)) + log_ratio)


@njit(cache=True)
def guess_of(rate: float, noise: float) -> float:
    """Return the ratio of noise to prior that is expected on the scale of log odds."""
    unit = max((rate * (1.0 - rate)) ** 2, 1e-8)
    return noise * noise / (unit * SCALE_GUESS)


@njit(cache=True)
def squares_of(num: Floats) -> float:
    """Return Σ(r − r̄)² of all that counts."""
    rate = rate_of(num[SUM], num[MASS])
    squares: float = num[SQUARES] - 2.0 * rate * num[SUM] + rate * rate * num[MASS]
    return squares


@njit(cache=True)
def scatter(num: Floats) -> float:
    """Return the standard deviation of rewards."""
    return math.sqrt((max(squares_of(num), 0.0) + FIRST_SQUARE) / (num[MASS] + 1.0))


@njit(cache=True)
def width_of(mass: float) -> float:
    """Return how wide draws are after so many plays that count, in units of what they began at."""
    width = 1.0
    while mass >= 2.0:
        mass *= 0.5
        width *= NARROWER
    return width


@njit(cache=True)
def add_up(post: Posterior, prior: Floats, num: Floats, total: Floats, sums: Floats) -> None:
    """Fill the upper half of Σ c cᵀ (d, d), and Σ c (r − r̄) (d), over the plays of all arms."""
    K, d = post.mu.shape
    total[:] = 0.0
    sums[:] = 0.0
    for k in range(K):
        if post.times[k] == 0:
            continue
        p = 0
        for j in range(d):
            for i in range(j + 1):
                total[i, j] += post.gram[k, p] + (post.gram_low[k, p] + post.gram_new[k, p])
                p += 1
            total[j, j] -= prior[PRECISION, j]
            sums[j] += earned(post, prior, k, j)
    rate = rate_of(num[SUM], num[MASS])
    for i in range(d):
        sums[i] -= rate * total[i, d - 1]


@njit(cache=True)
def find_common(total: Floats, sums: Floats, num: Floats, find: bool, out: Floats) -> None:
    """Fill what arms have in common; with `find`, how tightly it is held is found by evidence."""
    d = sums.shape[0]
    guess = guess_of(rate_of(num[SUM], num[MASS]), num[NOISE])
    B, factors = np.empty((d, d)), np.empty((2, d))
    if find:
        squares = squares_of(num)
        top = -math.inf
        for ridge in RIDGES:
            square = eliminate(total, sums, ridge, ridge, ridge, B, out, factors)
            off = math.log(ridge / guess) / SCALE_DOUBT
            found = fit(num[MASS], squares - square, log_det(B) - d * math.log(ridge))
            if found - 0.5 * off * off > top:
                top = found - 0.5 * off * off
                num[HOLD] = ridge
    held = num[HOLD] if num[HOLD] > 0.0 else guess
    eliminate(total, sums, held, held, held, B, out, factors)
    solve(B, out)


@njit(cache=True)
def shift(post: Posterior, prior: Floats, common: Floats) -> None:
    """Change what arms have in common; A and μ are right afterwards."""
    K, d = post.mu.shape
    for k in range(K):
        for i in range(d):
            x = prior[PRECISION, i] * (common[i] - prior[MEAN, i])
            add(post.f[k], post.f_low[k], i, x)
            add_scaled(post.mu[k], x, post.A[k, i])
    prior[MEAN] = common


@njit(cache=True)
def squares_left(total: Floats, sums: Floats, prior: Floats, num: Floats) -> float:
    """Return Σ(r − r̄ − cᵀw)² of all that counts, of what `add_up` found."""
    rest = squares_of(num)
    for i in range(prior.shape[1]):
        rest -= 2.0 * prior[MEAN, i] * sums[i]
    return rest + through(total, prior[MEAN])


@njit(cache=True)
def through(total: Floats, common: Floats) -> float:
    """Return wᵀBw of a B whose upper half (d, d) is known."""
    square = 0.0
    for i in range(common.shape[0]):
        square += common[i] * common[i] * total[i, i]
        for j in range(i + 1, common.shape[0]):
            square += 2.0 * common[i] * common[j] * total[i, j]
    return square


@njit(cache=True)
def noise_of(post: Posterior, prior: Floats, num: Floats, total: Floats, sums: Floats) -> float:
    """Return the standard deviation of the noise: that of rewards which arms do not explain.

    The square is Σ(r − r̄ − cᵀw)² − Σ_k h_kᵀδ_k a reward, with h_k = Σ c (r − r̄ − cᵀw) = H_k − G_k w
    and δ_k = (G_k + Λ)⁻¹h_k. As G_k δ_k = h_k − Λδ_k, no G_k is needed but in Σ_k wᵀG_k w.
    """
    K, d = post.mu.shape
    rate = rate_of(num[SUM], num[MASS])
    rest = squares_left(total, sums, prior, num) - through(total, prior[MEAN])
    last = d * (d - 1) // 2  # where the last column of a packed half begins
    for k in range(K):
        if post.times[k] == 0:
            continue
        for i in range(d):
            p = last + i
            ones = post.gram[k, p] + (post.gram_low[k, p] + post.gram_new[k, p])
            if i == d - 1:
                ones -= post.ridge
            H = earned(post, prior, k, i) - rate * ones
            one = 1.0 if i == d - 1 else 0.0
            mean = rate * (one - post.ridge * post.A[k, d - 1, i]) + prior[MEAN, i]
            moved = post.mu[k, i] - mean
            rest -= H * (moved - prior[MEAN, i]) + prior[PRECISION, i] * prior[MEAN, i] * moved
    return math.sqrt((max(rest, 0.0) + FIRST_SQUARE) / (num[MASS] + 1.0))


@njit(cache=True)
def best_prior(
    post: Posterior,
    prior: Floats,
    num: Floats,
    total: Floats,
    sums: Floats,
    guess: float,
    doubt: float,
) -> tuple[float, float]:
    """Return the precisions of slopes and of the intercept with the highest posterior.

    Of many arms those are asked that were played most: the others count as noise.
    """
    d = post.mu.shape[1]
    rate = rate_of(num[SUM], num[MASS])
    G, B, factors = np.empty((d, d)), np.empty((d, d)), np.empty((2, d))
    g, h = np.empty(d), np.empty(d)
    explained = np.zeros((LOOSER.shape[0], RIDGES.shape[0]))
    ratios = np.zeros((LOOSER.shape[0], RIDGES.shape[0]))
    for k in np.argsort(-post.times, kind="mergesort")[: max(LEAST_ASKED, WORK // d**3)]:
        if post.times[k] == 0:
            break
        left_of(post, prior, k, rate, G, g)
        for r, slopes in enumerate(RIDGES):
            for q, looser in enumerate(LOOSER):
                intercept = looser * slopes
                explained[q, r] += eliminate(G, g, slopes, intercept, intercept, B, h, factors)
                ratios[q, r] += log_det(B) - (d * math.log(slopes) + math.log(looser))
    squares = squares_left(total, sums, prior, num)
    best = (prior[PRECISION, 0], prior[PRECISION, d - 1])
    top = -math.inf
    for r, slopes in enumerate(RIDGES):
        for q, looser in enumerate(LOOSER):
            off, far = math.log(slopes / guess) / doubt, math.log(looser) / LOOSER_DOUBT
            found = fit(num[MASS], squares - explained[q, r], ratios[q, r])
            found -= 0.5 * (off * off + far * far)
            if found > top:
                best = (slopes, looser * slopes)
                top = found
    return best


@njit(cache=True)
def change_precision(post: Posterior, prior: Floats, slopes: float, intercept: float) -> None:
    """Change the prior's precision in the sums of arms; A and μ are to be computed anew by it."""
    K, d = post.mu.shape
    for i in range(d):
        new = slopes if i < d - 1 else intercept
        by = new - prior[PRECISION, i]
        prior[PRECISION, i] = new
        for k in range(K):
            add(post.gram[k], post.gram_low[k], i * (i + 1) // 2 + i, by)
            add(post.f[k], post.f_low[k], i, by * prior[MEAN, i])


@njit(cache=True)
def change_mean(post: Posterior, prior: Floats, common: Floats) -> None:
    """Change what arms have in common in their sums; μ is to be computed anew."""
    K, d = post.mu.shape
    for i in range(d):
        by = prior[PRECISION, i] * (common[i] - prior[MEAN, i])
        prior[MEAN, i] = common[i]
        for k in range(K):
            add(post.f[k], post.f_low[k], i, by)

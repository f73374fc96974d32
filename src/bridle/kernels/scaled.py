"""Arms that find their scale: the noise, the prior's mean and precision, and when to begin anew.

Before an arm is played its weights are N(r̄e + w, s²/ridge·I): e is the trailing 1 of contexts, r̄
the mean of all rewards, and w (`common`) explains r − r̄ of all plays, of whatever arm. So an arm
that nobody tried is expected to earn what is earned on average in such a context. That average is
of plays, not of arms: it rises as the better arms are found, and what is worse than it is not
tried for long. The prior's part of f, ridge·w, stands in the sums of the arm.

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
NEW_SUM, NEW_MASS, NEW_SQUARES, SURPLUS, WIDTH, HOLD, HALF_LIFE = range(5, 12)
NUMBERS = 12

# One observation before all others: its reward, and the square of how far it is off.
FIRST, FIRST_SQUARE = 0.5, 0.0625
# Plays in which what is recent is halved; it fades in blocks, of which so many halve it.
RECENT, BLOCKS = 500.0, 8
# No single reward says more than this; in all, a chance of e^-15 a time that nothing has changed.
MOST_SURPRISED, SURE = 3.0, 15.0
# Ratios of noise to prior that are tried, half decades, and what is expected of them: log-normal.
# It takes much evidence to leave the guess, since who chooses by what was learned learns little of
# arms that seem bad, and a prior that is too tight keeps it so.
RIDGES = np.array([m * 10.0**e for e in range(7) for m in (3.0, 10.0)])
RIDGE_GUESS, RIDGE_DOUBT = 10.0, 0.5
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
def fade_sums(post: Posterior, common: Floats, k: int, g: float) -> None:
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
        prior = post.ridge * (1.0 - g)
        add(post.gram[k], post.gram_low[k], i * (i + 1) // 2 + i, prior)
        add(post.f[k], post.f_low[k], i, prior * common[i])
    post.since[k] = 0


@njit(cache=True)
def fade(post: Posterior, common: Floats, k: int, g: float) -> None:
    """Multiply what arm k has learned by g."""
    fade_sums(post, common, k, g)
    invert(post, k)


@njit(cache=True, inline="always")
def faded(blocks: int) -> float:
    """Return what is left of something recent after so many blocks."""
    return float(2.0 ** (-blocks / BLOCKS))


@njit(cache=True)
def fade_to(post: Posterior, common: Floats, stamps: Ints, block: int, k: int) -> None:
    """Let what is recent of arm k fade to the present block; A and μ are right afterwards."""
    last = stamps[k] if stamps[k] >= 0 else -1 - stamps[k]
    if last < block and post.times[k] > 0:
        fade(post, common, k, faded(block - last))
    elif stamps[k] < 0:
        invert(post, k)
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
    common: Floats,
    stamps: Ints,
    num: Floats,
    k: int,
    c: Floats,
    y: float,
) -> bool:
    """Fold one example into arm k, and into what is recent if that is kept (stamps: (K,), or (0,)).

    Return whether something is due: the scale is to be found anew, to fade, or to begin anew.

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
        fade_to(new, common, stamps, int(num[COUNT]) // every, k)
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
    seen = int(num[COUNT])
    if num[SURPLUS] > SURE or seen % eighth(seen) == 0:
        return True
    return num[HALF_LIFE] > 0.0 and seen % block_of(num[HALF_LIFE]) == 0


@njit(cache=True)
def fold_until_due(
    post: Posterior,
    new: Posterior,
    common: Floats,
    stamps: Ints,
    num: Floats,
    arms: Ints,
    C: Floats,
    y: Floats,
    first: int,
) -> tuple[int, bool]:
    """Fold rows by `fold_one`; return where to go on, and whether something is due before."""
    for t in range(first, arms.shape[0]):
        due = fold_one(
            post.gram,
            post.gram_low,
            post.gram_new,
            post.f,
            post.f_low,
            post.f_new,
            post.A,
            post.mu,
            post.times,
            post.since,
            new.gram,
            new.gram_low,
            new.gram_new,
            new.f,
            new.f_low,
            new.f_new,
            new.A,
            new.mu,
            new.times,
            new.since,
            post.ridge,
            common,
            stamps,
            num,
            arms[t],
            C[t],
            y[t],
        )
        if due:
            return t + 1, True
    return arms.shape[0], False


@njit(cache=True)
def eighth(count: int) -> int:
    """Return the largest power of two that is at most an eighth of a count, 1 at least."""
    part = 1
    while part * 16 <= count:
        part *= 2
    return part


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
    post: Posterior,
    common: Floats,
    stamps: Ints,
    num: Floats,
    first: int,
    arms: Ints,
    C: Floats,
    y: Floats,
) -> None:
    """Fold examples into what is recent, row t of C as number first + t; nothing is compared.

    Arms go one after the other, and their sums alone are right afterwards: a stamp of −1 − block
    says that A and μ are to be computed when they are needed.
    """
    K, d = post.mu.shape
    where = np.empty(d, np.uint32)
    every = block_of(RECENT)
    order, ends = by_arm(arms, K)
    begin = 0
    for k in range(K):
        if ends[k] == begin:
            continue
        last = stamps[k] if stamps[k] >= 0 else -1 - stamps[k]
        for place in range(begin, ends[k]):
            t = order[place]
            block = (first + t) // every
            if last < block and post.times[k] > 0:
                fade_sums(post, common, k, faded(block - last))
            last = block
            add_sums(post, k, C[t], y[t], where, nonzeros(C[t], where))
            if count(post, k):
                settle(post, k)
            if post.since[k] >= REFRESH_AFTER:
                post.since[k] = 0
        stamps[k] = -1 - last
        begin = ends[k]
    for t in range(arms.shape[0]):
        num[NEW_SUM] += y[t]
        num[NEW_MASS] += 1.0
        num[NEW_SQUARES] += y[t] * y[t]
        if (first + t + 1) % every == 0:
            for i in range(NEW_SUM, NEW_SQUARES + 1):
                num[i] *= 2.0 ** (-1.0 / BLOCKS)


@njit(cache=True)
def fade_all(post: Posterior, common: Floats, g: float) -> None:
    """Multiply what every arm has learned by g."""
    for k in range(post.mu.shape[0]):
        if post.times[k] > 0:
            fade(post, common, k, g)


@njit(cache=True)
def fade_all_to(post: Posterior, common: Floats, stamps: Ints, block: int) -> None:
    """Let what is recent of every arm fade to the present block."""
    for k in range(post.mu.shape[0]):
        fade_to(post, common, stamps, block, k)


@njit(cache=True)
def learned(post: Posterior, common: Floats, k: int, B: Floats, f: Floats) -> None:
    """Fill the upper half of Σ c cᵀ (d, d) and Σ c r (d) of arm k, without the prior's part."""
    d = f.shape[0]
    p = 0
    for j in range(d):
        for i in range(j + 1):
            B[i, j] = post.gram[k, p] + (post.gram_low[k, p] + post.gram_new[k, p])
            p += 1
        B[j, j] -= post.ridge
        f[j] = post.f[k, j] + (post.f_low[k, j] + post.f_new[k, j]) - post.ridge * common[j]


@njit(cache=True)
def less(B: Floats, weights: Floats, h: Floats) -> None:
    """Subtract B·weights from h, of a B whose upper half (d, d) is known."""
    d = h.shape[0]
    for i in range(d):
        for j in range(d):
            h[i] -= (B[i, j] if i <= j else B[j, i]) * weights[j]


@njit(cache=True)
def left_of(post: Posterior, common: Floats, k: int, rate: float, B: Floats, h: Floats) -> None:
    """Fill the upper half of Σ c cᵀ, and Σ c (r − r̄ − cᵀw): what the prior of arm k misses."""
    learned(post, common, k, B, h)
    d = h.shape[0]
    for i in range(d):
        h[i] -= rate * B[i, d - 1]
    less(B, common, h)


@njit(cache=True)
def eliminate(B: Floats, h: Floats, floor: float) -> tuple[float, float]:
    """Eliminate in the upper half of B (d, d), and h: return log det B and hᵀB⁻¹h.

    No pivot is below the floor, as B is at least that.
    """
    d = h.shape[0]
    log_det = 0.0
    square = 0.0
    for i in range(d):
        row = B[i, i:]
        pivot = max(row[0], floor)
        row[0] = pivot
        log_det += math.log(pivot)
        square += h[i] * h[i] / pivot
        for r in range(i + 1, d):
            x = B[i, r] / pivot
            if x != 0.0:
                h[r] -= x * h[i]
                add_scaled(B[r, r:], -x, B[i, r:])
    return log_det, square


@njit(cache=True)
def solve(B: Floats, h: Floats) -> None:
    """Turn h into B⁻¹h, after `eliminate`."""
    d = h.shape[0]
    for i in range(d - 1, -1, -1):
        for j in range(i + 1, d):
            h[i] -= B[i, j] * h[j]
        h[i] /= B[i, i]


@njit(cache=True)
def fit(mass: float, rest: float, log_det: float) -> float:
    """Return the log evidence where squares of `rest` are left, the noise at its best."""
    return -0.5 * (mass * math.log(max(rest, 1e-9) / max(mass, 1.0)) + log_det)


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
def add_up(post: Posterior, common: Floats, num: Floats, total: Floats, sums: Floats) -> None:
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
            total[j, j] -= post.ridge
            sums[j] += post.f[k, j] + (post.f_low[k, j] + post.f_new[k, j])
            sums[j] -= post.ridge * common[j]
    rate = rate_of(num[SUM], num[MASS])
    for i in range(d):
        sums[i] -= rate * total[i, d - 1]


@njit(cache=True)
def find_common(total: Floats, sums: Floats, num: Floats, find: bool, out: Floats) -> None:
    """Fill what arms have in common; with `find`, how tightly it is held is found by evidence."""
    d = sums.shape[0]
    guess = guess_of(rate_of(num[SUM], num[MASS]), num[NOISE])
    B = np.empty((d, d))
    if find:
        squares = squares_of(num)
        top = -math.inf
        for ridge in RIDGES:
            log_det, square = held_by(total, sums, ridge, B, out)
            off = math.log(ridge / guess) / SCALE_DOUBT
            found = fit(num[MASS], squares - square, log_det - d * math.log(ridge))
            if found - 0.5 * off * off > top:
                top = found - 0.5 * off * off
                num[HOLD] = ridge
    held_by(total, sums, num[HOLD] if num[HOLD] > 0.0 else guess, B, out)
    solve(B, out)


@njit(cache=True)
def held_by(total: Floats, sums: Floats, hold: float, B: Floats, h: Floats) -> tuple[float, float]:
    """Eliminate in total + hold·I, which fills B, and in sums, which fill h: as `eliminate`."""
    B[:] = total
    h[:] = sums
    for i in range(sums.shape[0]):
        B[i, i] += hold
    return eliminate(B, h, hold)


@njit(cache=True)
def shift(post: Posterior, change: Floats) -> None:
    """Add so much to what all arms have in common."""
    K, d = post.mu.shape
    for k in range(K):
        for i in range(d):
            x = post.ridge * change[i]
            add(post.f[k], post.f_low[k], i, x)
            add_scaled(post.mu[k], x, post.A[k, i])


@njit(cache=True)
def squares_left(total: Floats, sums: Floats, common: Floats, num: Floats) -> float:
    """Return Σ(r − r̄ − cᵀw)² of all that counts, of what `add_up` found."""
    rest = squares_of(num)
    for i in range(common.shape[0]):
        rest -= 2.0 * common[i] * sums[i]
    return rest + through(total, common)


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
def noise_of(post: Posterior, common: Floats, num: Floats, total: Floats, sums: Floats) -> float:
    """Return the standard deviation of the noise: that of rewards which arms do not explain.

    The square is Σ(r − r̄ − cᵀw)² − Σ_k h_kᵀδ_k a reward, with h_k = Σ c (r − r̄ − cᵀw) = H_k − G_k w
    and δ_k = (G_k + λI)⁻¹h_k. As G_k δ_k = h_k − λδ_k, no G_k is needed but in Σ_k wᵀG_k w.
    """
    K, d = post.mu.shape
    rate = rate_of(num[SUM], num[MASS])
    rest = squares_left(total, sums, common, num) - through(total, common)
    last = d * (d - 1) // 2  # where the last column of a packed half begins
    for k in range(K):
        if post.times[k] == 0:
            continue
        for i in range(d):
            p = last + i
            ones = post.gram[k, p] + (post.gram_low[k, p] + post.gram_new[k, p])
            if i == d - 1:
                ones -= post.ridge
            H = post.f[k, i] + (post.f_low[k, i] + post.f_new[k, i]) - post.ridge * common[i]
            H -= rate * ones
            one = 1.0 if i == d - 1 else 0.0
            mean = rate * (one - post.ridge * post.A[k, d - 1, i]) + common[i]
            moved = post.mu[k, i] - mean
            rest -= H * (moved - common[i]) + post.ridge * common[i] * moved
    return math.sqrt((max(rest, 0.0) + FIRST_SQUARE) / (num[MASS] + 1.0))


@njit(cache=True)
def evidence(
    post: Posterior,
    common: Floats,
    ridge: float,
    num: Floats,
    which: Ints,
    squares: float,
    B: Floats,
    h: Floats,
) -> float:
    """Return the log evidence of a ridge, the noise at its best; B (d, d), h: scratch."""
    d = post.mu.shape[1]
    rate = rate_of(num[SUM], num[MASS])
    log_det = 0.0
    prior = d * math.log(ridge)
    for k in which:
        if post.times[k] == 0:
            continue
        left_of(post, common, k, rate, B, h)
        for i in range(d):
            B[i, i] += ridge
        one, square = eliminate(B, h, ridge)
        log_det += one - prior
        squares -= square
    return fit(num[MASS], squares, log_det)


@njit(cache=True)
def best_ridge(
    post: Posterior,
    common: Floats,
    num: Floats,
    total: Floats,
    sums: Floats,
    guess: float,
    doubt: float,
) -> float:
    """Return the ridge, of those that are tried, with the highest posterior.

    Of many arms those are asked that were played most: the others count as noise.
    """
    d = post.mu.shape[1]
    B = np.empty((d, d))
    h = np.empty(d)
    squares = squares_left(total, sums, common, num)
    which = np.argsort(-post.times, kind="mergesort")[: max(LEAST_ASKED, WORK // d**3)]
    best = post.ridge
    top = -math.inf
    for ridge in RIDGES:
        off = math.log(ridge / guess) / doubt
        found = evidence(post, common, ridge, num, which, squares, B, h) - 0.5 * off * off
        if found > top:
            best = ridge
            top = found
    return best


@njit(cache=True)
def change_prior(post: Posterior, common: Floats, by: float) -> None:
    """Add `by` to the ridge in the sums of every arm; A and μ are to be computed anew by it."""
    K, d = post.mu.shape
    for k in range(K):
        for i in range(d):
            add(post.gram[k], post.gram_low[k], i * (i + 1) // 2 + i, by)
            add(post.f[k], post.f_low[k], i, by * common[i])


@njit(cache=True)
def expect(post: Posterior, common: Floats, times: float) -> None:
    """Add what arms have in common to sums that expect nothing of it; -1 takes it out."""
    K, d = post.mu.shape
    for k in range(K):
        for i in range(d):
            add(post.f[k], post.f_low[k], i, times * (post.ridge * common[i]))

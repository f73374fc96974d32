"""Whole simulations in one compiled loop: choose, observe, fold, T times.

Two ways to find the arm that the policy plays, with the same result to the bit. *Columns*: for
many arms over few features, mean and spread of all arms at once, one feature after the other, in
vector code. *Lazy*: for many features, bound every arm's draw first (its random bits and a bound
on its spread are cheap) and compute the spread of those alone that can still win.
"""

from __future__ import annotations

import math

import numpy as np

from bridle.kernels.choice import as_weights, best_of_many, blend, location, random_arm, spread
from bridle.kernels.compiling import bare, njit
from bridle.kernels.keys import BIN_SHIFT, BIN_TOP, aside, bits_of, key_of, normal, uniform
from bridle.kernels.lanes import add_rows
from bridle.kernels.posterior import (
    REFRESH_AFTER,
    SETTLE_AFTER,
    add_held,
    count,
    invert,
    nonzeros,
    sd_of,
    update_inverse,
)
from bridle.kernels.types import MASK_FILTER, Bools, Floats, Ints, Places, Posterior, Uints, Weights

# Measured: below, vector code over arms wins; above, laziness.
COLUMNS_UP_TO = 16
# The bound on an arm's spread must hold for the computed number, not only for the true one, and
# across a refresh, which takes the drift of rank-one updates back.
_SLACK = 1.0 + 1e-6
_ROUNDING = 1e-7


@njit(cache=True)
def by_columns(K: int, d: int) -> bool:
    """Return whether all arms are scored at once, one feature after the other."""
    return d <= COLUMNS_UP_TO and K >= 8


@bare
def score_columns(
    mu: Floats,
    A: Floats,
    c: Floats,
    where: Places,
    n: int,
    pull: float,
    h: Floats,
    mean: Floats,
    sd: Floats,
) -> None:
    """Do what `posterior.score` does, over arms-last copies: mu (d, K), A (d(d+1)/2, K).

    With a `pull` (see `pull_of`) the context ends in 1, and means are drawn towards the mean of
    all rewards: mean += pull · cᵀA_last.
    """
    K = mean.shape[0]
    for k in range(K):
        mean[k] = 0.0
        sd[k] = 0.0
    for a in range(n):
        i = where[a]
        ci = c[i]
        row = i * (i + 1) // 2
        if a == 0:
            for k in range(K):
                mean[k] += ci * mu[i, k]
                h[k] = 0.0
                sd[k] += ci * (ci * A[row + i, k])
        else:
            first = c[where[0]]
            p = row + where[0]
            for k in range(K):
                mean[k] += ci * mu[i, k]
                h[k] = 0.0 + first * A[p, k]
            for b in range(1, a):
                cj = c[where[b]]
                p = row + where[b]
                for k in range(K):
                    h[k] += cj * A[p, k]
            for k in range(K):
                sd[k] += ci * (ci * A[row + i, k] + 2.0 * h[k])
        if pull != 0.0 and a == n - 1:  # the row of the trailing 1: h is half of cᵀA_last already
            for k in range(K):
                mean[k] += pull * (h[k] + ci * A[row + i, k])
    for k in range(K):
        sd[k] = math.sqrt(max(sd[k], 0.0))


@njit(cache=True, inline="always")
def pull_of(centred: bool, ridge: float, totals: Floats) -> float:
    """Return how far the means of arms are drawn: to r̄, the mean of all rewards; 0 for not at all.

    With a trailing 1 in every context, h = Σ c is the last column of B less the ridge, so
    r̄ + cᵀB⁻¹(f − r̄h) = cᵀμ + r̄·ridge·cᵀA_last: nothing but r̄ is kept.
    """
    return ridge * totals[0] / totals[1] if centred else 0.0


@bare
def widest_spread(A: Floats, k: int, ridge: float) -> float:
    """Bound the spread of arm k for contexts of length 1: √λ_max(A), and it is ≤ 1/√ridge.

    λ_max is at most ‖A‖_F, and at most the largest Σ|A_ij| of a row: an arm of many examples
    knows about as much in every direction, and then that of rows is the tighter bound.
    """
    squares, rows = 0.0, 0.0
    for i in range(A.shape[1]):
        square, length = norms(A[k, i])
        squares += square
        rows = max(rows, length)
    return math.sqrt(min(math.sqrt(squares), rows, 1.0 / ridge)) * _SLACK


@njit(cache=True, inline="always")
def norms(x: Floats) -> tuple[float, float]:
    """Return Σx² and Σ|x|, several sums at once: they are for bounds, whatever their order."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    e, f, g, h = 0.0, 0.0, 0.0, 0.0
    fours = x.shape[0] - x.shape[0] % 4
    for i in range(0, fours, 4):
        a += x[i] * x[i]
        b += x[i + 1] * x[i + 1]
        c += x[i + 2] * x[i + 2]
        d += x[i + 3] * x[i + 3]
        e += abs(x[i])
        f += abs(x[i + 1])
        g += abs(x[i + 2])
        h += abs(x[i + 3])
    for i in range(fours, x.shape[0]):
        a += x[i] * x[i]
        e += abs(x[i])
    return (a + b) + (c + d), (e + f) + (g + h)


@bare
def split(c: Floats, middle: Floats) -> tuple[float, float]:
    """Return how far c goes along `middle`, and how far from there: bounds, with their slack."""
    part = 0.0
    for i in range(c.shape[0]):
        part += c[i] * middle[i]
    rest = 0.0
    for i in range(c.shape[0]):
        off = c[i] - part * middle[i]
        rest += off * off
    part = abs(part) * _SLACK
    # The last term: cᵀAc may be rounded up by d·2⁻⁵²‖c‖²‖A‖, whatever is left of it.
    rest = math.sqrt(rest) * _SLACK
    return part, rest + _ROUNDING * math.sqrt(c.shape[0]) * (part + rest)


@bare
def direction(C: Floats, middle: Floats) -> None:
    """Fill `middle` with the direction of the mean context, of length 1 (or 0, if it has none)."""
    M, d = C.shape
    for i in range(d):
        middle[i] = 0.0
    for t in range(M):
        for i in range(d):
            middle[i] += C[t, i]
    length = 0.0
    for i in range(d):
        length += middle[i] * middle[i]
    if length > 0.0:
        scale = 1.0 / math.sqrt(length)
        for i in range(d):
            middle[i] *= scale


@bare
def best_arm_lazily(
    w: Weights,
    A: Floats,
    mu: Floats,
    last: Floats,
    pull: float,
    part: float,
    rest: float,
    along: Floats,
    across: Floats,
    c: Floats,
    where: Places,
    n: int,
    limit_mean: Floats,
    limit_sd: Floats,
    eligible: Bools,
    key: np.uint64,
    h: Floats,
    mean: Floats,
    reach: Floats,
) -> int:
    """Do what `best_arm` does, with a spread computed only where it matters; mu, last: (d, K).

    Contexts lie around their middle, a direction in which every arm soon knows much. With c =
    a·middle + the rest, √(cᵀAc) ≤ |a|·along + ‖rest‖·across: `along` is the arm's spread at
    the middle, `across` bounds it in any direction; part, rest: what `split` says of c.
    """
    K = mean.shape[0]
    for k in range(K):
        mean[k] = 0.0
        reach[k] = 0.0
    if 2 * n > c.shape[0]:
        add_rows(mean, c, mu)
        if pull != 0.0:
            add_rows(reach, c, last)
    else:
        for a in range(n):
            i = where[a]
            ci = c[i]
            for k in range(K):
                mean[k] += ci * mu[i, k]
            if pull != 0.0:
                for k in range(K):
                    reach[k] += ci * last[i, k]
    if pull != 0.0:
        for k in range(K):
            mean[k] += pull * reach[k]
    first = -1
    for k in range(K):
        if eligible[k]:
            widest = part * along[k] + rest * across[k]
            z = BIN_TOP[bits_of(key, k) >> BIN_SHIFT]
            reach[k] = location(w, mean[k], widest, limit_mean[k])
            if z > 0.0:
                reach[k] += spread(w, widest, limit_sd[k]) * z
            reach[k] += 1e-12 * abs(reach[k])
            if first < 0 or reach[k] > reach[first]:
                first = k
    best = -1
    top = -math.inf
    tie = np.uint64(0)
    # The most promising arm goes first, so that most others are passed over at a glance.
    for turn in range(-1, K):
        k = first if turn < 0 else turn
        if k < 0 or turn == first or not eligible[k] or reach[k] < top:
            continue
        s = sd_of(A, k, c, where, n, h)
        loc = location(w, mean[k], s, limit_mean[k])
        scale = spread(w, s, limit_sd[k])
        bits = bits_of(key, k)
        if loc + scale * BIN_TOP[bits >> BIN_SHIFT] >= top:
            drawn = loc
            if scale > 0.0:
                drawn += scale * normal(bits)
            if best < 0 or drawn > top or (drawn == top and bits > tie):
                best = k
                top = drawn
                tie = bits
    return best


@njit(cache=True, inline="always")
def fold_held(
    post: Posterior,
    k: int,
    C: Floats,
    row: int,
    outcomes: Floats,
    where: Places,
    n: int,
    g: Floats,
    waiting: Ints,
    many: Ints,
    held: Floats,
    earned: Floats,
    places: Places,
) -> bool:
    """Do what `posterior.fold` does with row `row` of the tables, its sums held back.

    They are needed only where A is computed anew. waiting: (K, SETTLE_AFTER) the rows of each arm
    that are not in its sums yet, many: (K,) how many; held, earned, places: scratch of
    `add_waiting`.
    """
    waiting[k, many[k]] = row
    many[k] += 1
    if count(post, k):
        add_waiting(post, k, C, outcomes, waiting, many, held, earned, True, places)
    if post.since[k] >= REFRESH_AFTER:
        post.since[k] = 0
    elif update_inverse(post.A[k], post.mu[k], C[row], outcomes[row, k], where, n, g):
        return False
    add_waiting(post, k, C, outcomes, waiting, many, held, earned, False, places)
    invert(post, k)
    return True


@bare
def add_waiting(
    post: Posterior,
    k: int,
    C: Floats,
    outcomes: Floats,
    waiting: Ints,
    many: Ints,
    held: Floats,
    earned: Floats,
    settles: bool,
    places: Places,
) -> None:
    """Add the rows of arm k that wait to its newest sums.

    held: (SETTLE_AFTER, d), earned: (SETTLE_AFTER,), places: (d,) are scratch.
    """
    for r in range(many[k]):
        row = waiting[k, r]
        for i in range(C.shape[1]):
            held[r, i] = C[row, i]
        earned[r] = outcomes[row, k]
    add_held(post, k, held, earned, many[k], settles, places)
    many[k] = 0


@njit(cache=True)
def run(
    w: Weights,
    post: Posterior,
    ridge: float,
    C: Floats,
    outcomes: Floats,
    allowed: Bools,
    eligible: Bools,
    limit_mean: Floats,
    limit_sd: Floats,
    rows: Ints,
    start: np.uint64,
    numbers: Uints,
    learn: bool,
    arms: Ints,
    centred: bool,
    totals: Floats,
) -> None:
    """Run len(rows) steps: fill `arms` with what is played (-1: nothing), fold into `post`.

    C: (M, d), outcomes, allowed: (M, K); eligible: (M, K), or (1, K) for one that serves all;
    limit_mean and limit_sd: (M, K), or (1, K) if the policy gives them no weight. Step t shows row
    rows[t] under the key of decision numbers[t]. Without `learn` nothing is observed and nothing
    folded: a batch of decisions. If `centred`, contexts end in 1; totals: (2,) the sum and the
    number of rewards so far, folded too.
    """
    K, d = post.mu.shape
    columns = by_columns(K, d)
    run_with(
        w,
        post,
        ridge,
        C,
        outcomes,
        allowed,
        eligible,
        limit_mean,
        limit_sd,
        rows,
        start,
        numbers,
        learn,
        arms,
        centred,
        totals,
        np.empty((2, d), np.uint32),
        np.empty((3, d)),
        np.zeros((7, K)),
        post.mu.T.copy(),
        post.A[:, d - 1, :].T.copy() if centred else np.empty((0, 0)),
        np.empty((d * (d + 1) // 2 if columns else 0, K)),
        np.empty((2, 0 if columns else C.shape[0])),
        np.empty((K if learn else 0, SETTLE_AFTER), np.int64),
        np.zeros(K, np.int64),
        np.empty((SETTLE_AFTER, d)),
        np.empty(SETTLE_AFTER),
    )


@bare
def run_with(
    w: Weights,
    post: Posterior,
    ridge: float,
    C: Floats,
    outcomes: Floats,
    allowed: Bools,
    eligible: Bools,
    limit_mean: Floats,
    limit_sd: Floats,
    rows: Ints,
    start: np.uint64,
    numbers: Uints,
    learn: bool,
    arms: Ints,
    centred: bool,
    totals: Floats,
    places: Places,
    lines: Floats,
    scores: Floats,
    mu: Floats,
    last: Floats,
    A: Floats,
    lengths: Floats,
    waiting: Ints,
    many: Ints,
    held: Floats,
    earned: Floats,
) -> None:
    """Do what `run` does, which makes the arrays that are worked in.

    mu, last: (d, K) copies of means and of the last rows of A (if `centred`); A: all of it, as
    `score_columns` takes it, if arms are scored so; lengths: what `split` says of each row, else.
    """
    K, d = post.mu.shape
    where, every = places[0], places[1]
    middle, g, narrow = lines[0], lines[1], lines[2]
    mean, sd, loc, scale, along, across, h = (
        scores[0],
        scores[1],
        scores[2],
        scores[3],
        scores[4],
        scores[5],
        scores[6],
    )
    scored = w.reward != 0.0 or w.bonus != 0.0
    columns = by_columns(K, d)
    for i in range(d):
        every[i] = i
    if not columns:
        direction(C, middle)
        for row in range(C.shape[0]):
            lengths[0, row], lengths[1, row] = split(C[row], middle)
    for k in range(K):
        if columns:
            for i in range(d):
                for j in range(i + 1):
                    A[i * (i + 1) // 2 + j, k] = post.A[k, i, j]
        else:
            along[k] = sd_of(post.A, k, middle, every, d, narrow) * _SLACK
            across[k] = widest_spread(post.A, k, ridge)
    for t in range(rows.shape[0]):
        row = rows[t]
        c = C[row]
        n = nonzeros(c, where)
        key = key_of(start, numbers[t])
        limit = row if w.limit != 0.0 else 0
        may = eligible[row if eligible.shape[0] > 1 else 0]
        pull = pull_of(centred, ridge, totals)
        if w.epsilon > 0.0 and uniform(aside(key)) < w.epsilon:
            arm = random_arm(aside(key), may, may)
        elif scored and not columns:
            arm = best_arm_lazily(
                w,
                post.A,
                mu,
                last,
                pull,
                lengths[0, row],
                lengths[1, row],
                along,
                across,
                c,
                where,
                n,
                limit_mean[limit],
                limit_sd[limit],
                may,
                key,
                narrow,
                mean,
                loc,
            )
        else:
            if scored:
                score_columns(mu, A, c, where, n, pull, h, mean, sd)
            blend(w, mean, sd, limit_mean[limit], limit_sd[limit], loc, scale)
            arm = best_of_many(loc, scale, may, key, h)
        if w.mask == MASK_FILTER and arm >= 0 and not allowed[row, arm]:
            arm = random_arm(aside(key), may, allowed[row])
        arms[t] = arm
        if learn and arm >= 0:
            anew = fold_held(
                post, arm, C, row, outcomes, where, n, g, waiting, many, held, earned, where
            )
            totals[0] += outcomes[row, arm]
            totals[1] += 1.0
            for i in range(d):
                mu[i, arm] = post.mu[arm, i]
            if centred and not columns:
                for i in range(d):
                    last[i, arm] = post.A[arm, d - 1, i]
            if columns:
                for i in range(d):
                    for j in range(i + 1):
                        A[i * (i + 1) // 2 + j, arm] = post.A[arm, i, j]
            else:
                # A only shrinks, so an old bound stays true; a new one now and then is tighter.
                times = post.times[arm]
                if anew or times <= 16 or times % 16 == 0:
                    along[arm] = sd_of(post.A, arm, middle, every, d, narrow) * _SLACK
                if anew or times & (times - 1) == 0:
                    across[arm] = widest_spread(post.A, arm, ridge)
    for k in range(K):
        if many[k] > 0:
            add_waiting(post, k, C, outcomes, waiting, many, held, earned, False, where)


@bare
def tally(
    rows: Ints,
    arms: Ints,
    rewards: Floats,
    allowed: Bools,
    best: Floats,
    best_allowed: Floats,
    checkpoints: Ints,
    out: Floats,
) -> None:
    """Fill `out` (4, n) at each checkpoint t: R(t), Rc(t), E(t) and abstentions so far."""
    regret = 0.0
    regret_allowed = 0.0
    errors = 0
    abstained = 0
    place = 0
    for t in range(rows.shape[0]):
        row = rows[t]
        arm = arms[t]
        earned = 0.0
        earned_allowed = 0.0
        if arm < 0:
            abstained += 1
        else:
            earned = rewards[row, arm]
            if allowed[row, arm]:
                earned_allowed = earned
            else:
                errors += 1
        regret += best[row] - earned
        regret_allowed += best_allowed[row] - earned_allowed
        while place < checkpoints.shape[0] and checkpoints[place] == t + 1:
            out[0, place] = regret / (t + 1)
            out[1, place] = regret_allowed / (t + 1)
            out[2, place] = errors
            out[3, place] = abstained
            place += 1


# Rows of what `pick_one` keeps between decisions: bounds, scratch, and then each arm as a column.
_ALONG, _ACROSS, _MEAN, _REACH, _SD, _SCALE, _H, _ARMS = range(8)
# Rows as long as a context: where the middle is, the sum of contexts, this context, scratch.
_MIDDLE, _SUM, _CONTEXT, _SCRATCH = range(4)


def kept_shapes(K: int, d: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the shapes of `kept` and `lines` of `pick_one`."""
    return (_ARMS + d + (d * (d + 1) // 2 if by_columns(K, d) else d), K), (4, d)


@bare
def keep_arm(
    A: Floats,
    mu: Floats,
    k: int,
    ridge: float,
    lines: Floats,
    kept: Floats,
    where: Places,
) -> None:
    """Copy what `pick_one` needs of an arm that has learned."""
    K, d = mu.shape
    for i in range(d):
        kept[_ARMS + i, k] = mu[k, i]
    row = _ARMS + d
    if by_columns(K, d):
        for i in range(d):
            for j in range(i + 1):
                kept[row + i * (i + 1) // 2 + j, k] = A[k, i, j]
    else:
        for i in range(d):
            kept[row + i, k] = A[k, d - 1, i]
        for i in range(d):
            where[i] = i
        kept[_ALONG, k] = sd_of(A, k, lines[_MIDDLE], where, d, lines[_SCRATCH]) * _SLACK
        kept[_ACROSS, k] = widest_spread(A, k, ridge)


@bare
def pick_one(
    weights: Floats,
    A: Floats,
    mu: Floats,
    times: Ints,
    ridge: float,
    pull: float,
    c: Floats,
    may: Bools,
    start: np.uint64,
    number: np.uint64,
    kept: Floats,
    lines: Floats,
    known: Ints,
    where: Places,
) -> int:
    """Return the arm that `choice.choose` picks where limits have no weight, -1 if none may be.

    As in `run`, scores are computed only where they can matter. kept, lines: as `kept_shapes`
    says, kept between calls; known: (K + 1,) the examples of each arm as it is kept there (below 0:
    not at all), and the number of calls, at first 0; where: (d,) scratch. Contexts that come show
    where their middle is; it is found anew whenever their number has doubled.
    """
    w = as_weights(weights)
    key = key_of(start, number)
    if w.epsilon > 0.0 and uniform(aside(key)) < w.epsilon:
        return random_arm(aside(key), may, may)
    K, d = mu.shape
    x = lines[_CONTEXT]
    x[d - 1] = 1.0  # which a context may lack
    for i in range(c.shape[0]):
        x[i] = c[i]
    columns = by_columns(K, d)
    known[K] += 1
    if not columns:
        for i in range(d):
            lines[_SUM, i] += x[i]
        if known[K] & (known[K] - 1) == 0:
            direction(lines[_SUM : _SUM + 1], lines[_MIDDLE])
            for k in range(K):
                known[k] = -1
    for k in range(K):
        if known[k] != times[k]:
            keep_arm(A, mu, k, ridge, lines, kept, where)
            known[k] = times[k]
    n = nonzeros(x, where)
    means, rest = kept[_ARMS : _ARMS + d], kept[_ARMS + d :]
    mean, reach, h = kept[_MEAN], kept[_REACH], kept[_H]
    if columns:
        sd, scale = kept[_SD], kept[_SCALE]
        score_columns(means, rest, x, where, n, pull, h, mean, sd)
        loc = kept[_ALONG]
        for k in range(K):
            h[k] = 0.0
        blend(w, mean, sd, h, h, loc, scale)
        return best_of_many(loc, scale, may, key, reach)
    for k in range(K):
        h[k] = 0.0
    part, off = split(x, lines[_MIDDLE])
    return best_arm_lazily(
        w,
        A,
        means,
        rest,
        pull,
        part,
        off,
        kept[_ALONG],
        kept[_ACROSS],
        x,
        where,
        n,
        h,
        h,
        may,
        key,
        lines[_SCRATCH],
        mean,
        reach,
    )

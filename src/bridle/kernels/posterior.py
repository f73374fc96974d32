"""Fold examples into the arms, and score a context.

The order of every sum is fixed. Zeros of a context are skipped: adding 0 changes no bit.
"""

from __future__ import annotations

import math

import numpy as np

from bridle.kernels.compiling import bare, counted, njit
from bridle.kernels.lanes import (
    add_products,
    add_rows,
    fetch,
    settle_products,
    sum_below,
    take_outer,
)
from bridle.kernels.types import Floats, Ints, Places, Posterior

# Rank-one updates lose digits with the root of their number; a refresh costs d³ operations.
REFRESH_AFTER = 100
# Plain sums are as good as exact for this many terms; adding them to a pair costs more.
SETTLE_AFTER = 10
# Rows that are copied side by side before they are added up.
HELD = 50
# Up to so many nonzero features, reading single entries beats whole rows.
FEW = 12
# Contexts that are scored together.
BLOCK = 64


@njit(cache=True, inline="always")
def add_scaled(y: Floats, a: float, x: Floats) -> None:
    """Add a·x to y.

    On slices counted from 0, numba drops its check for negative indices, and the compiler can make
    vector code of the loop.
    """
    for i in range(x.shape[0]):
        y[i] += a * x[i]


@bare
def nonzeros(c: Floats, where: Places) -> int:
    """Write the positions of the nonzero entries of `c`; give their number."""
    n = 0
    for i in range(c.shape[0]):  # without a branch: there is always a place to write to
        where[n] = i
        n += c[i] != 0.0
    return n


@njit(cache=True, inline="always")
def mean_of(mu: Floats, k: int, c: Floats, where: Places, n: int) -> float:
    """Posterior mean cᵀμ of one arm."""
    total = 0.0
    for a in range(n):
        total += c[where[a]] * mu[k, where[a]]
    return total


@njit(cache=True, inline="always")
def sd_of(A: Floats, k: int, c: Floats, where: Places, n: int, h: Floats) -> float:
    """Posterior standard deviation √(cᵀAc) of one arm; `h` is d numbers of scratch.

    cᵀAc = Σ_i c_i (c_i A_ii + 2 h_i) with h_i = Σ_{j<i} c_j A_ji. Both branches do these sums in
    this order; the second reads whole rows, in vector code.
    """
    d = c.shape[0]
    total = 0.0
    if n <= FEW or 3 * n < d:
        for a in range(n):
            i = where[a]
            below = 0.0
            for b in range(a):
                below += c[where[b]] * A[k, where[b], i]
            total += c[i] * (c[i] * A[k, i, i] + 2.0 * below)
    else:
        sum_below(h, c, A[k])
        for a in range(n):
            i = where[a]
            total += c[i] * (c[i] * A[k, i, i] + 2.0 * h[i])
    # Rounding may leave a tiny negative number where the truth is a tiny positive one.
    return math.sqrt(max(total, 0.0))


@njit(cache=True)
def score(A: Floats, mu: Floats, c: Floats, mean: Floats, sd: Floats) -> None:
    """Fill mean and standard deviation of every arm for one context."""
    d = c.shape[0]
    score_with(A, mu, c, mean, sd, np.empty(d, np.uint32), np.empty(d))


@bare
def score_with(
    A: Floats, mu: Floats, c: Floats, mean: Floats, sd: Floats, where: Places, h: Floats
) -> int:
    """Do what `score` does, in scratch of d numbers each; return how many features are nonzero."""
    n = nonzeros(c, where)
    for k in range(mu.shape[0]):
        mean[k] = mean_of(mu, k, c, where, n)
        sd[k] = sd_of(A, k, c, where, n, h)
    return n


@njit(cache=True)
def score_many(
    A: Floats, mu: Floats, C: Floats, mean: Floats, sd: Floats, pull: float = 0.0
) -> None:
    """Fill mean and standard deviation of every arm, for each row of C.

    Dense contexts go in blocks, turned on their side, so that one entry of A serves the whole
    block in vector code: the same sums in the same order. With a `pull` (see `loop.pull_of`)
    contexts end in 1, and means are drawn: mean += pull · cᵀA_last.
    """
    T, d = C.shape
    filled = 0
    for t in range(T):
        for i in range(d):
            if C[t, i] != 0.0:
                filled += 1
    block = BLOCK if 2 * filled > T * d else 1
    scratch = np.empty((3, block))
    score_rows(
        A, mu, C, mean, sd, pull, np.zeros((d, block)), scratch, np.empty(d, np.uint32), np.empty(d)
    )


@bare
def score_rows(
    A: Floats,
    mu: Floats,
    C: Floats,
    mean: Floats,
    sd: Floats,
    pull: float,
    side: Floats,
    scratch: Floats,
    where: Places,
    g: Floats,
) -> None:
    """Do what `score_many` does; side: (d, block) of zeros, scratch: (3, block), where, g: (d,)."""
    T, d = C.shape
    block = side.shape[1]
    h, m, q = scratch[0], scratch[1], scratch[2]
    done = 0
    while block > 1 and done + block // 4 <= T:  # the last one may be filled in part
        size = min(block, T - done)
        for t in range(size):
            for i in range(d):
                side[i, t] = C[done + t, i]
        for k in range(mu.shape[0]):
            score_block(A[k], mu[k], side, h, m, q)
            for t in range(size):
                mean[done + t, k] = m[t]
                sd[done + t, k] = math.sqrt(max(q[t], 0.0))
            if pull != 0.0:  # h is that of the last row, without its own entry
                for t in range(size):
                    mean[done + t, k] += pull * (h[t] + side[d - 1, t] * A[k, d - 1, d - 1])
        done += size
    for t in range(done, T):
        n = score_with(A, mu, C[t], mean[t], sd[t], where, g)
        if pull != 0.0:
            for k in range(mu.shape[0]):
                mean[t, k] += pull * mean_of(A[k], d - 1, C[t], where, n)


@bare
def score_block(
    A: Floats, mu: Floats, side: Floats, h: Floats, mean: Floats, square: Floats
) -> None:
    """Fill cᵀμ and cᵀAc of one arm for each context, a column of `side` (d, block)."""
    d = side.shape[0]
    for t in range(side.shape[1]):
        mean[t] = 0.0
        square[t] = 0.0
    add_rows(mean, mu, side)
    for i in range(d):
        c = side[i]
        for t in range(side.shape[1]):
            h[t] = 0.0
        add_rows(h, A[i, :i], side)
        for t in range(side.shape[1]):
            square[t] += c[t] * (c[t] * A[i, i] + 2.0 * h[t])


@njit(cache=True, inline="always")
def add(high: Floats, low: Floats, i: int, x: float) -> None:
    """Add x to the pair (high, low)[i]: two-sum (Knuth), exact but for the rounding of low."""
    old = high[i]
    new = old + x
    part = new - old
    low[i] += (old - (new - part)) + (x - part)
    high[i] = new


@bare
def add_pairs(high: Floats, low: Floats, new: Floats) -> None:
    """Add each of `new` to its pair, and begin it anew."""
    for i in range(new.shape[0]):
        add(high, low, i, new[i])
        new[i] = 0.0


@bare
def settle(post: Posterior, k: int) -> None:
    """Move the newest sums of arm k into the sums before them."""
    add_pairs(post.gram[k], post.gram_low[k], post.gram_new[k])
    add_pairs(post.f[k], post.f_low[k], post.f_new[k])


@njit(cache=True, inline="always")
def add_sums(post: Posterior, k: int, c: Floats, y: float, where: Places, n: int) -> None:
    """Add one (context, outcome) to the newest sums of arm k."""
    for a in range(n):
        i = where[a]
        ci = c[i]
        row = i * (i + 1) // 2
        sums = post.gram_new[k, row : row + i + 1]
        if n == c.shape[0]:  # the same sums without the detour by `where`, which bars vector code
            for j in range(sums.shape[0]):
                sums[j] += ci * c[j]
        else:
            for b in range(a + 1):
                sums[where[b]] += ci * c[where[b]]
        post.f_new[k, i] += ci * y


@njit(cache=True, inline="always")
def count(post: Posterior, k: int) -> bool:
    """Count one example of arm k; True: its newest sums are to be settled."""
    post.times[k] += 1
    post.since[k] += 1
    return bool(post.since[k] % SETTLE_AFTER == 0)


@bare
def add_held(
    post: Posterior,
    k: int,
    held: Floats,
    outcomes: Floats,
    m: int,
    settles: bool,
    where: Places,
) -> None:
    """Add the first m rows of `held`, (≥ m, d), to the newest sums of arm k; settle them.

    The sums of `add_sums`, in its order, with each of them read and written once. Zeros that are
    not skipped change no bit. `where` (d) is scratch.
    """
    d = held.shape[1]
    X = held[:m]
    filled = 0
    for i in range(d):  # of the first: it says what the others are like
        if m > 0 and X[0, i] != 0.0:
            filled += 1
    if d <= FEW or 2 * filled >= d:
        add_rows(post.f_new[k], outcomes[:m], X)
        if settles and m >= SETTLE_AFTER:  # so nothing was in the newest sums before
            settle_products(post.gram[k], post.gram_low[k], X)
            add_pairs(post.f[k], post.f_low[k], post.f_new[k])
            return
        add_products(post.gram_new[k], X)
    else:
        for r in range(m):
            n = nonzeros(X[r], where)
            add_sums(post, k, X[r], outcomes[r], where, n)
    if settles:
        settle(post, k)


@njit(cache=True, inline="always")
def update_inverse(
    A: Floats, mu: Floats, c: Floats, y: float, where: Places, n: int, g: Floats
) -> bool:
    """Update A and μ of one arm: A −= (Ac)(Ac)ᵀ / (1 + cᵀAc) (Sherman, Morrison).

    False, and nothing is changed, if rounding has eaten what would be left of A.
    """
    d = c.shape[0]
    for i in range(d):
        g[i] = 0.0
    if 2 * n > d:
        add_rows(g, c, A)
    else:
        for a in range(n):
            add_scaled(g, c[where[a]], A[where[a]])
    q = 0.0
    m = 0.0
    for a in range(n):
        i = where[a]
        q += c[i] * g[i]
        m += c[i] * mu[i]
    if not q >= 0.0:
        return False
    w = 1.0 / (1.0 + q)
    for i in range(d):
        if not A[i, i] > g[i] * g[i] * w:
            return False
    add_scaled(mu, (y - m) * w, g)
    root = math.sqrt(w)
    for i in range(d):
        g[i] *= root
    take_outer(A, g, g)  # gi·gj = gj·gi: A stays symmetric in bits
    return True


@njit(cache=True, inline="always")
def fold(post: Posterior, k: int, c: Floats, y: float, where: Places, n: int, g: Floats) -> bool:
    """Fold one (context, outcome) into arm k; `g` (d) is scratch. True: A was computed anew."""
    add_sums(post, k, c, y, where, n)
    if count(post, k):
        settle(post, k)
    if post.since[k] >= REFRESH_AFTER:
        post.since[k] = 0
    elif update_inverse(post.A[k], post.mu[k], c, y, where, n, g):
        return False
    invert(post, k)
    return True


@bare
def residuals(G: Floats, rest: Floats, mu: Floats, high: Floats, low: Floats) -> None:
    """Subtract Bμ from f, with products and sums to twice the usual precision.

    G + rest: (d, d) is B, high + low: (d,) is f, and then what is left of it. All entries of one
    column of B at a time, so that it is vector code; each sum has its order.
    """
    d = mu.shape[0]
    for j in range(d):
        b = mu[j]
        b_top = 134217729.0 * b
        b_top -= b_top - b
        b_rest = b - b_top
        column, beside = G[j], rest[j]
        for i in range(d):
            # Dekker's product: a·b = x + y exactly, from halves of 26 bits.
            a = column[i]
            a_top = 134217729.0 * a
            a_top -= a_top - a
            a_rest = a - a_top
            x = a * b
            y = ((a_top * b_top - x) + a_top * b_rest + a_rest * b_top) + a_rest * b_rest
            old = high[i]
            new = old - x
            part = new - old
            lost = low[i] + ((old - (new - part)) - (x + part) - y)
            low[i] = lost - beside[i] * b
            high[i] = new


@bare
def unpack(post: Posterior, k: int, G: Floats, rest: Floats) -> None:
    """Fill G and `rest` with the sums of arm k and what is not in them yet, (d, d) each."""
    high, low, new = post.gram[k], post.gram_low[k], post.gram_new[k]
    p = 0
    for i in range(G.shape[0]):
        for j in range(i + 1):
            G[i, j] = G[j, i] = high[p]
            rest[i, j] = rest[j, i] = low[p] + new[p]
            p += 1


@counted
def invert(post: Posterior, k: int) -> None:
    """Compute A = B⁻¹ and μ = A f of arm k anew from the sums, by Cholesky.

    B = UᵀU, V = U⁻ᵀ, A = VᵀV; every inner loop runs along a row. As B ≥ ridge·I, no pivot is below
    the ridge. Where rounding has eaten one, only the ridge is known of what is left, and the rest
    of its row is noise.
    """
    d = post.mu.shape[1]
    squares = np.empty((4, d, d))
    invert_with(post, k, squares, np.empty((3, d)))


@bare
def invert_with(post: Posterior, k: int, squares: Floats, rows: Floats) -> None:
    """Do what `invert` does, in scratch: squares (4, d, d), rows (3, d)."""
    d = post.mu.shape[1]
    G, rest, U, V = squares[0], squares[1], squares[2], squares[3]
    factors, high, low = rows[0], rows[1], rows[2]
    A = post.A[k]
    mu = post.mu[k]
    unpack(post, k, G, rest)
    for i in range(d):
        for j in range(i, d):
            U[i, j] = G[i, j] + rest[i, j]
    for i in range(d):
        for r in range(i):
            factors[r] = -U[r, i]
        add_rows(U[i, i:], factors[:i], U[:i, i:])
        noise = d * 2e-15 * G[i, i]
        if not U[i, i] >= max(post.ridge, noise):
            U[i, i] = max(post.ridge, U[i, i])
            for j in range(i + 1, d):
                U[i, j] = 0.0
        scale = 1.0 / math.sqrt(U[i, i])
        for j in range(i, d):
            U[i, j] *= scale
    for i in range(d):
        for j in range(d):
            V[i, j] = 0.0
        V[i, i] = 1.0
        for r in range(i):
            factors[r] = -U[r, i]
        add_rows(V[i, :i], factors[:i], V[:i, :i])  # right of the diagonal are zeros
        scale = 1.0 / U[i, i]
        for j in range(i + 1):
            V[i, j] *= scale
    for i in range(d):
        for j in range(i + 1):
            A[i, j] = 0.0
        add_rows(A[i, : i + 1], V[i:, i], V[i:, : i + 1])
    for i in range(d):
        for j in range(i):
            A[j, i] = A[i, j]
    for i in range(d):
        mu[i] = 0.0
        high[i] = post.f[k, i]
        low[i] = post.f_low[k, i] + post.f_new[k, i]
        factors[i] = high[i] + low[i]
    add_rows(mu, factors, A)
    # f is as large as B, and A f loses what B⁻¹ f would keep: once more, with what is missing.
    residuals(G, rest, mu, high, low)
    for i in range(d):
        factors[i] = high[i] + low[i]
    add_rows(mu, factors, A)


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
    ridge: float,
    k: int,
    c: Floats,
    y: float,
) -> None:
    """Fold one example into arm k.

    It takes a posterior in pieces: numba looks up a call with a named tuple 100 times slower.
    """
    d = c.shape[0]
    where, g = np.empty(d, np.uint32), np.empty(d)
    fold_with(
        gram, gram_low, gram_new, f, f_low, f_new, A, mu, times, since, ridge, k, c, y, where, g
    )


@bare
def fold_with(
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
    k: int,
    c: Floats,
    y: float,
    where: Places,
    g: Floats,
) -> None:
    """Do what `fold_one` does; where, g: (d,) scratch."""
    post = Posterior(gram, gram_low, gram_new, f, f_low, f_new, A, mu, times, since, ridge)
    fold(post, k, c, y, where, nonzeros(c, where), g)


@njit(cache=True)
def by_arm(arms: Ints, K: int) -> tuple[Ints, Ints]:
    """Return the places of each arm's examples, arm by arm, in their order; and where each ends."""
    ends = np.zeros(K, np.int64)
    for t in range(arms.shape[0]):
        ends[arms[t]] += 1
    total = 0
    for k in range(K):
        total += ends[k]
        ends[k] = total - ends[k]
    order = np.empty(arms.shape[0], np.int64)
    for t in range(arms.shape[0]):
        order[ends[arms[t]]] = t
        ends[arms[t]] += 1
    return order, ends


@njit(cache=True, inline="always")
def hold(C: Floats, y: Floats, places: Ints, held: Floats, outcomes: Floats) -> None:
    """Copy the rows of C at these places, and their outcomes, to the first rows of `held`."""
    for r in range(places.shape[0]):
        row = C[places[r]]
        for i in range(row.shape[0]):
            held[r, i] = row[i]
        outcomes[r] = y[places[r]]


@njit(cache=True)
def fold_many(post: Posterior, arms: Ints, C: Floats, y: Floats) -> None:
    """Fold examples in order: row t of C with outcome y[t] goes to arm arms[t].

    C: (n, d), or (n, d − 1) for contexts that lack their trailing 1. Arms share nothing, so they
    go one after the other, each with its examples in order. A refresh computes A from the sums
    alone, so what comes before an arm's last one need not update A at all. The bits are those of
    `fold_one`, one by one.
    """
    K, d = post.mu.shape
    order, ends = by_arm(arms, K)
    held, where = np.ones((HELD, d)), np.empty(d, np.uint32)
    more = np.zeros(K, np.int64)
    fold_arms(post, order, ends, C, y, more, held, np.empty(HELD), where, np.empty(d))


@bare
def fold_arms(
    post: Posterior,
    order: Ints,
    ends: Ints,
    C: Floats,
    y: Floats,
    more: Ints,
    held: Floats,
    outcomes: Floats,
    where: Places,
    g: Floats,
) -> None:
    """Do what `fold_many` does, where so many `more` examples of each arm follow at once.

    What comes before a refresh among those need not update A, either. held: (HELD, d) of ones,
    outcomes: (HELD,), where, g: (d,).
    """
    begin = 0
    for k in range(ends.shape[0]):
        if ends[k] == begin:
            continue
        # How many examples of the arm until its last refresh.
        after = post.since[k] + ends[k] - begin + more[k]
        sums_only = after - after % REFRESH_AFTER - post.since[k]
        place = begin
        while sums_only > 0 and place < ends[k]:
            # To where sums are settled, or as many times on as there is place for.
            m = SETTLE_AFTER - post.since[k] % SETTLE_AFTER
            if m == SETTLE_AFTER:
                m = min(HELD, REFRESH_AFTER - post.since[k])
            m = min(m, ends[k] - place)
            hold(C, y, order[place : place + m], held, outcomes)
            for at in range(place + m, min(place + m + HELD, ends[k])):
                fetch(C, order[at])
            for r in range(0, m, SETTLE_AFTER):
                few = min(SETTLE_AFTER, m - r)
                post.since[k] += few
                settles = post.since[k] % SETTLE_AFTER == 0
                add_held(post, k, held[r : r + few], outcomes[r : r + few], few, settles, where)
            place += m
            sums_only -= m
            post.times[k] += m
            if post.since[k] >= REFRESH_AFTER:
                post.since[k] = 0
                if sums_only == 0:
                    invert(post, k)
        m = 0
        while place < ends[k]:
            c = held[m]
            hold(C, y, order[place : place + 1], held[m:], outcomes[m:])
            place += 1
            m += 1
            if count(post, k):
                add_held(post, k, held, outcomes, m, True, where)
                m = 0
            n = nonzeros(c, where)
            outcome = y[order[place - 1]]
            if not update_inverse(post.A[k], post.mu[k], c, outcome, where, n, g):
                add_held(post, k, held, outcomes, m, False, where)
                m = 0
                invert(post, k)
        add_held(post, k, held, outcomes, m, False, where)
        begin = ends[k]


@njit(cache=True)
def sum_many(post: Posterior, arms: Ints, C: Floats, y: Floats) -> None:
    """Add examples to the sums of their arms, in order; A and μ are to be computed anew."""
    K, d = post.mu.shape
    order, ends = by_arm(arms, K)
    held = np.ones((HELD, d))
    outcomes, where = np.empty(HELD), np.empty(d, np.uint32)
    begin = 0
    for k in range(K):
        settle(post, k)
        for first in range(begin, ends[k], HELD):
            m = min(HELD, ends[k] - first)
            hold(C, y, order[first : first + m], held, outcomes)
            for at in range(first + m, min(first + m + HELD, ends[K - 1])):
                fetch(C, order[at])
            add_held(post, k, held[:m], outcomes[:m], m, True, where)
        post.times[k] += ends[k] - begin
        begin = ends[k]


@njit(cache=True)
def add_in_order(total: float, terms: Floats) -> float:
    """Return total + terms[0] + terms[1] + …: a sum in pairs would have other bits."""
    for t in range(terms.shape[0]):
        total += terms[t]
    return total


@njit(cache=True)
def refresh_all(post: Posterior) -> None:
    """Refresh every arm from its sums, as after a merge."""
    for k in range(post.mu.shape[0]):
        post.since[k] = 0
        settle(post, k)
        invert(post, k)


@njit(cache=True)
def merge_sums(post: Posterior, other: Posterior) -> None:
    """Add the sums of `other` to those of `post`: B_a + B_b − ridge·I, f_a + f_b."""
    K, d = post.mu.shape
    for k in range(K):
        high, low = post.gram[k], post.gram_low[k]
        f, f_low = post.f[k], post.f_low[k]
        for p in range(high.shape[0]):
            add(high, low, p, other.gram[k, p])
            add(high, low, p, other.gram_low[k, p])
            add(high, low, p, other.gram_new[k, p])
        for i in range(d):
            add(high, low, i * (i + 1) // 2 + i, -post.ridge)
            add(f, f_low, i, other.f[k, i])
            add(f, f_low, i, other.f_low[k, i])
            add(f, f_low, i, other.f_new[k, i])
        post.times[k] += other.times[k]

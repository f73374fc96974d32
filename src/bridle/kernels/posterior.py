"""Fold examples into the arms, and score a context.

The order of every sum is fixed. Zeros of a context are skipped: adding 0 changes no bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from bridle.kernels.types import Posterior

if TYPE_CHECKING:
    from bridle.kernels.types import Floats, Ints

# Rank-one updates lose about half a digit over this many steps; a refresh costs d³ operations.
REFRESH_AFTER = 1000


@njit(cache=True, inline="always")
def add_scaled(y: Floats, a: float, x: Floats) -> None:
    """Add a·x to y. On slices from 0 on, numba drops its check for negative indices, and so the
    compiler can make vector code of the loop."""
    for i in range(x.shape[0]):
        y[i] += a * x[i]


@njit(cache=True)
def nonzeros(c: Floats, where: Ints) -> int:
    """Write the positions of the nonzero entries of `c`; give their number."""
    n = 0
    for i in range(c.shape[0]):
        if c[i] != 0.0:
            where[n] = i
            n += 1
    return n


@njit(cache=True, inline="always")
def mean_of(mu: Floats, k: int, c: Floats, where: Ints, n: int) -> float:
    """Posterior mean cᵀμ of one arm."""
    total = 0.0
    for a in range(n):
        total += c[where[a]] * mu[k, where[a]]
    return total


@njit(cache=True, inline="always")
def sd_of(A: Floats, k: int, c: Floats, where: Ints, n: int, h: Floats) -> float:
    """Posterior standard deviation √(cᵀAc) of one arm; `h` is d numbers of scratch.

    cᵀAc = Σ_i c_i (c_i A_ii + 2 h_i) with h_i = Σ_{j<i} c_j A_ji. Both branches do these sums in
    this order; the second reads whole rows, which the compiler turns into vector code.
    """
    d = c.shape[0]
    total = 0.0
    if 3 * n < d:
        for a in range(n):
            i = where[a]
            below = 0.0
            for b in range(a):
                below += c[where[b]] * A[k, where[b], i]
            total += c[i] * (c[i] * A[k, i, i] + 2.0 * below)
    else:
        for i in range(d):
            h[i] = 0.0
        for a in range(n - 1):
            j = where[a]
            add_scaled(h[j + 1 :], c[j], A[k, j, j + 1 :])
        for a in range(n):
            i = where[a]
            total += c[i] * (c[i] * A[k, i, i] + 2.0 * h[i])
    # Rounding may leave a tiny negative number where the truth is a tiny positive one.
    return math.sqrt(max(total, 0.0))


@njit(cache=True)
def score(A: Floats, mu: Floats, c: Floats, mean: Floats, sd: Floats) -> None:
    """Fill mean and standard deviation of every arm for one context."""
    d = c.shape[0]
    where = np.empty(d, np.int64)
    h = np.empty(d)
    n = nonzeros(c, where)
    for k in range(mu.shape[0]):
        mean[k] = mean_of(mu, k, c, where, n)
        sd[k] = sd_of(A, k, c, where, n, h)


@njit(cache=True)
def score_many(A: Floats, mu: Floats, C: Floats, mean: Floats, sd: Floats) -> None:
    """Fill mean and standard deviation of every arm, for each row of C."""
    for t in range(C.shape[0]):
        score(A, mu, C[t], mean[t], sd[t])


@njit(cache=True, inline="always")
def add(high: Floats, low: Floats, i: int, x: float) -> None:
    """Add x to the pair (high, low)[i]: two-sum (Knuth), exact but for the rounding of low."""
    old = high[i]
    new = old + x
    part = new - old
    low[i] += (old - (new - part)) + (x - part)
    high[i] = new


@njit(cache=True, inline="always")
def fold(
    post: Posterior, k: int, c: Floats, y: float, where: Ints, n: int, g: Floats, work: Floats
) -> None:
    """Fold one (context, outcome) into arm k; `g` (d) and `work` (2, d, d) are scratch."""
    d = c.shape[0]
    for a in range(n):
        i = where[a]
        ci = c[i]
        row = i * (i + 1) // 2
        high = post.gram[k, row : row + i + 1]
        low = post.gram_low[k, row : row + i + 1]
        if n == d:  # the same sums without the detour by `where`, which bars vector code
            for j in range(high.shape[0]):
                add(high, low, j, ci * c[j])
        else:
            for b in range(a + 1):
                add(high, low, where[b], ci * c[where[b]])
        add(post.f[k], post.f_low[k], i, ci * y)
    post.count[k] += 1
    post.since[k] += 1
    if post.since[k] >= REFRESH_AFTER:
        post.since[k] = 0
        refresh(post, k, work)
        return
    # Sherman-Morrison: A −= (Ac)(Ac)ᵀ / (1 + cᵀAc), and μ follows.
    A = post.A[k]
    mu = post.mu[k]
    for i in range(d):
        g[i] = 0.0
    for a in range(n):
        add_scaled(g, c[where[a]], A[where[a]])
    q = 0.0
    m = 0.0
    for a in range(n):
        i = where[a]
        q += c[i] * g[i]
        m += c[i] * mu[i]
    w = 1.0 / (1.0 + q)
    add_scaled(mu, (y - m) * w, g)
    root = math.sqrt(w)
    for i in range(d):
        g[i] *= root
    for i in range(d):
        add_scaled(A[i], -g[i], g)  # gi·gj = gj·gi: A stays symmetric in bits


@njit(cache=True)
def refresh(post: Posterior, k: int, work: Floats) -> None:
    """Compute A = B⁻¹ and μ = A f of arm k anew from the sums, by Cholesky.

    B = UᵀU, V = U⁻ᵀ, A = VᵀV; every inner loop runs along a row. B ≥ ridge·I, so a pivot that is
    not positive means that rounding ate the ridge: then A stands as it is.
    """
    d = post.mu.shape[1]
    U = work[0]
    V = work[1]
    A = post.A[k]
    mu = post.mu[k]
    for i in range(d):
        for j in range(i, d):
            p = j * (j + 1) // 2 + i
            U[i, j] = post.gram[k, p] + post.gram_low[k, p]
    for i in range(d):
        for r in range(i):
            add_scaled(U[i, i:], -U[r, i], U[r, i:])
        if not U[i, i] > 0.0:
            return
        scale = 1.0 / math.sqrt(U[i, i])
        for j in range(i, d):
            U[i, j] *= scale
    for i in range(d):
        for j in range(i):
            V[i, j] = 0.0
        V[i, i] = 1.0
        for r in range(i):
            add_scaled(V[i, : r + 1], -U[r, i], V[r, : r + 1])
        scale = 1.0 / U[i, i]
        for j in range(i + 1):
            V[i, j] *= scale
    for i in range(d):
        for j in range(i + 1):
            A[i, j] = 0.0
    for r in range(d):
        for i in range(r + 1):
            add_scaled(A[i, : i + 1], V[r, i], V[r, : i + 1])
    for i in range(d):
        for j in range(i):
            A[j, i] = A[i, j]
    for i in range(d):
        mu[i] = 0.0
    for i in range(d):
        add_scaled(mu, post.f[k, i] + post.f_low[k, i], A[i])


@njit(cache=True)
def fold_one(
    gram: Floats,
    gram_low: Floats,
    f: Floats,
    f_low: Floats,
    A: Floats,
    mu: Floats,
    count: Ints,
    since: Ints,
    k: int,
    c: Floats,
    y: float,
) -> None:
    """Fold one example into arm k.

    It takes a posterior in pieces: numba looks up a call with a named tuple 100 times slower.
    """
    post = Posterior(gram, gram_low, f, f_low, A, mu, count, since)
    d = c.shape[0]
    where = np.empty(d, np.int64)
    n = nonzeros(c, where)
    work = np.empty((2, d, d)) if post.since[k] + 1 >= REFRESH_AFTER else np.empty((2, 0, 0))
    fold(post, k, c, y, where, n, np.empty(d), work)


@njit(cache=True)
def fold_many(post: Posterior, arms: Ints, C: Floats, y: Floats) -> None:
    """Fold examples in order: row t of C with outcome y[t] goes to arm arms[t]."""
    d = C.shape[1]
    where = np.empty(d, np.int64)
    g = np.empty(d)
    work = np.empty((2, d, d))
    for t in range(arms.shape[0]):
        n = nonzeros(C[t], where)
        fold(post, arms[t], C[t], y[t], where, n, g, work)


@njit(cache=True)
def refresh_all(post: Posterior) -> None:
    """Refresh every arm from its sums, as after a merge."""
    d = post.mu.shape[1]
    work = np.empty((2, d, d))
    for k in range(post.mu.shape[0]):
        post.since[k] = 0
        refresh(post, k, work)


@njit(cache=True)
def merge_sums(post: Posterior, other: Posterior, ridge: float) -> None:
    """Add the sums of `other` to those of `post`: B_a + B_b − ridge·I, f_a + f_b."""
    K, d = post.mu.shape
    for k in range(K):
        high, low = post.gram[k], post.gram_low[k]
        f, f_low = post.f[k], post.f_low[k]
        for p in range(high.shape[0]):
            add(high, low, p, other.gram[k, p])
            add(high, low, p, other.gram_low[k, p])
        for i in range(d):
            add(high, low, i * (i + 1) // 2 + i, -ridge)
            add(f, f_low, i, other.f[k, i])
            add(f, f_low, i, other.f_low[k, i])
        post.count[k] += other.count[k]

"""Rules as sets of denied terms: which terms a context holds, and all sets weighed at once.

Terms are numbered: the m features that can be held come first, then, with pairs, (0, 1), (0, 2),
…, (m−2, m−1). A set of up to a dozen terms is an integer, bit t for term t.
"""

from __future__ import annotations

import math

import numpy as np

from bridle.kernels.compiling import njit
from bridle.kernels.types import Bools, Floats, Ints


@njit(cache=True)
def terms_of(held: Bools, pairs: bool, out: Ints) -> int:
    """Write the numbers of the terms that a context holds, ascending; give how many there are."""
    m = held.shape[0]
    n = 0
    for i in range(m):
        if held[i]:
            out[n] = i
            n += 1
    if not pairs:
        return n
    singles = n
    for a in range(singles):
        i = out[a]
        for b in range(a + 1, singles):
            out[n] = m + i * (2 * m - i - 1) // 2 + (out[b] - i - 1)
            n += 1
    return n


@njit(cache=True)
def masks_of(held: Bools, pairs: bool, terms: int) -> Ints:
    """Give the terms of each context, a row of `held`, as bits of one integer."""
    masks = np.zeros(held.shape[0], np.int64)
    ids = np.empty(terms, np.int64)
    for c in range(held.shape[0]):
        for a in range(terms_of(held[c], pairs, ids)):
            masks[c] |= 1 << ids[a]
    return masks


@njit(cache=True)
def log_priors(logit: Floats) -> Floats:
    """Log of the prior weight of every set, up to a constant: the sum of its terms' log odds."""
    T = logit.shape[0]
    out = np.zeros(1 << T)
    for t in range(T):
        for S in range(1 << t):
            out[(1 << t) + S] = out[S] + logit[t]
    return out


@njit(cache=True)
def count_wrong(wrong: Ints, mask: int, allowed: bool) -> None:
    """Count one answer against every set that says otherwise."""
    for S in range(wrong.shape[0]):
        if ((S & mask) == 0) != allowed:
            wrong[S] += 1


@njit(cache=True)
def weigh(prior: Floats, wrong: Ints, penalty: float, inside: Floats) -> float:
    """Fill inside[M] with the posterior share of the sets within M; give the log of the total.

    A set's weight is exp(prior − wrong · penalty). The sums over all subsets of every M come in one
    pass (the zeta transform): T·2^(T−1) additions. P(allowed) of a context that holds the terms
    `mask` is then inside[all ^ mask].
    """
    n = prior.shape[0]
    top = -math.inf
    for S in range(n):
        inside[S] = prior[S] - wrong[S] * penalty
        top = max(top, inside[S])
    for S in range(n):
        inside[S] = math.exp(inside[S] - top)
    bit = 1
    while bit < n:
        for start in range(bit, n, 2 * bit):
            for S in range(start, start + bit):
                inside[S] += inside[S - bit]
        bit *= 2
    total = inside[n - 1]
    for S in range(n):
        inside[S] /= total
    return top + math.log(total)


@njit(cache=True)
def entropy(q: float) -> float:
    """Entropy of a coin, in nats."""
    if q <= 0.0 or q >= 1.0:
        return 0.0
    return -q * math.log(q) - (1.0 - q) * math.log1p(-q)


@njit(cache=True)
def mix_errors(
    shares: Floats, errors: Floats, weights: Floats, p: Floats, q: Floats, information: Floats
) -> None:
    """Mix over rates of error g: P(allowed), P(the teacher says so), and what that would teach.

    shares: (G, n) P(allowed) if g is the rate. An answer's entropy less that of its error.
    """
    G, n = shares.shape
    known = 0.0
    for g in range(G):
        known += weights[g] * entropy(errors[g])
    for c in range(n):
        p[c] = 0.0
        q[c] = 0.0
        for g in range(G):
            p[c] += weights[g] * shares[g, c]
            q[c] += weights[g] * (errors[g] + (1.0 - 2.0 * errors[g]) * shares[g, c])
        p[c] = min(p[c], 1.0)
        information[c] = max(0.0, entropy(q[c]) - known)


@njit(cache=True)
def mix_members(
    P: Floats,
    Q: Floats,
    each: Floats,
    sds: Floats,
    weights: Floats,
    p: Floats,
    information: Floats,
    sd: Floats,
) -> None:
    """Mix kinds of limits: P(allowed), and what an answer teaches about kind and rule together.

    P, Q, each, sds: (M, n) P(allowed), P(the teacher says so), information and standard deviation,
    by kind. What is left of the answer's entropy once the kind m and its rule are known is
    entropy(Q[m]) − each[m]. The variance is that within the kinds, and between them.
    """
    M, n = P.shape
    for c in range(n):
        p[c] = 0.0
        q = 0.0
        left = 0.0
        square = 0.0
        for m in range(M):
            p[c] += weights[m] * P[m, c]
            square += weights[m] * (sds[m, c] * sds[m, c] + P[m, c] * P[m, c])
            q += weights[m] * Q[m, c]
            left += weights[m] * (entropy(Q[m, c]) - each[m, c])
        p[c] = min(p[c], 1.0)
        information[c] = max(0.0, entropy(q) - left)
        sd[c] = math.sqrt(max(0.0, square - p[c] * p[c]))

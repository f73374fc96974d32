"""With what probability each of several independent normal scores is the highest, exactly.

P(arm k wins) = ∫ φ_k(x) Π_{j≠k} Φ_j(x) dx. One pass over x serves all arms. The pieces of the
integral are as short as the narrowest score that is still undecided there, whatever the ratio of
the spreads; a fixed rule misses narrow scores altogether.
"""

from __future__ import annotations

import math

import numpy as np

from bridle.kernels.choice import as_weights
from bridle.kernels.compiling import njit
from bridle.kernels.types import MASK_ARGMAX, MASK_FILTER, Bools, Floats

# 16-point Gauss-Legendre, on pieces of this many standard deviations.
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(16)
PIECE = 1.5
# Beyond this many standard deviations a normal is decided: Φ(-8.5) = 1e-17.
REACH = 8.5
_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


@njit(cache=True, inline="always")
def below(x: float) -> float:
    """Standard normal distribution function."""
    return 0.5 * math.erfc(-x * _ROOT_HALF)


@njit(cache=True)
def all_below(base: float, u: float, loc: Floats, scale: Floats, n: int) -> float:
    """Probability that the first n scores all lie below base + u."""
    product = 1.0
    for j in range(n):
        z = ((base - loc[j]) + u) / scale[j]
        if z < REACH:
            product *= below(z)
    return product


@njit(cache=True)
def win_probabilities(loc: Floats, scale: Floats, eligible: Bools, out: Floats) -> None:
    """Fill `out` (K) with the probability that each arm has the highest draw.

    Arms of no spread that tie at the top share what the others leave them. A place on the line is
    a pair, base + u, with the middle of the narrowest arm at hand as its base: one float could not
    tell the parts of a narrow score apart that lies far from 0.
    """
    K = loc.shape[0]
    floor = -math.inf  # the best score that is certain
    tied = 0
    for k in range(K):
        out[k] = 0.0
        if eligible[k] and scale[k] == 0.0:
            if loc[k] > floor:
                floor = loc[k]
                tied = 1
            elif loc[k] == floor:
                tied += 1
    # Nothing below base + u can win: some arm is above it, but for one chance in 1e17.
    base = floor
    u = 0.0
    for k in range(K):
        above = (loc[k] - base) + (-REACH * scale[k] - u) > 0.0
        if eligible[k] and scale[k] > 0.0 and (base == -math.inf or above):
            base = loc[k]
            u = -REACH * scale[k]
    arm = np.empty(K, np.int64)
    m = np.empty(K)
    s = np.empty(K)
    n = 0
    narrowest = math.inf
    near = base
    for k in range(K):
        if eligible[k] and scale[k] > 0.0 and (loc[k] - base) + (REACH * scale[k] - u) > 0.0:
            arm[n] = k
            m[n] = loc[k]
            s[n] = scale[k]
            n += 1
            if scale[k] < narrowest:
                narrowest = scale[k]
                near = loc[k]
    if tied > 0:
        share = all_below(floor, 0.0, m, s, n) / tied
        for k in range(K):
            if eligible[k] and scale[k] == 0.0 and loc[k] == floor:
                out[k] = share
    elif n > 0 and (near - base) + (-REACH * narrowest - u) <= 0.0:
        u = (base - near) + u
        base = near
    cdf = np.empty(n)
    pdf = np.empty(n)
    while True:
        left = 0.0
        for j in range(n):
            left = max(left, (m[j] - base) + (REACH * s[j] - u))
        if left <= 0.0:
            return
        step = left
        next_base = base
        next_u = u + step
        for j in range(n):
            begin = (m[j] - base) + (-REACH * s[j] - u)
            wanted = PIECE * s[j]
            if begin > 0.0:
                wanted = max(begin, wanted)
            if wanted < step and (m[j] - base) + (REACH * s[j] - u) > 0.0:
                step = wanted
                next_base = base
                next_u = u + step
                if begin > 0.0:
                    next_base = m[j]
                    next_u = -REACH * s[j] + (step - begin)
        if next_base == base and not next_u > u:  # a spread below the resolution of floats at u
            next_u = np.nextafter(u, math.inf)
            step = next_u - u
        # All that is left to win before the next place is the chance that all scores lie below it.
        if all_below(next_base, next_u, m, s, n) > 1e-18:
            half = 0.5 * step
            for node in range(NODES.shape[0]):
                at = u + half * (1.0 + NODES[node])
                product = 1.0
                for j in range(n):
                    z = ((base - m[j]) + at) / s[j]
                    cdf[j] = below(z)
                    pdf[j] = _DENSITY * math.exp(-0.5 * z * z)
                    product *= cdf[j]
                if product > 0.0:
                    for j in range(n):
                        # half / s first: either alone may be beyond what a float can hold.
                        out[arm[j]] += (
                            product * NODE_WEIGHTS[node] * (half / s[j]) * pdf[j] / cdf[j]
                        )
        base = next_base
        u = next_u


@njit(cache=True)
def propensities(
    weights: Floats, loc: Floats, scale: Floats, eligible: Bools, allowed: Bools, out: Floats
) -> None:
    """Fill `out` (K) with the probability that the policy plays each arm."""
    w = as_weights(weights)
    K = loc.shape[0]
    if w.mask == MASK_ARGMAX:
        eligible = eligible & allowed
    win_probabilities(loc, scale, eligible, out)
    if w.mask == MASK_FILTER:
        lost = 0.0
        keep = 0
        for k in range(K):
            if eligible[k] and allowed[k]:
                keep += 1
            else:
                lost += out[k]
                out[k] = 0.0
        for k in range(K):
            if eligible[k] and allowed[k]:
                out[k] += lost / keep
    if w.epsilon > 0.0:
        n = 0
        for k in range(K):
            if eligible[k]:
                n += 1
        for k in range(K):
            out[k] *= 1.0 - w.epsilon
            if eligible[k]:
                out[k] += w.epsilon / n


@njit(cache=True)
def propensities_many(weights: Floats, parts: Floats, eligible: Bools, out: Floats) -> None:
    """Fill `out` (n, K) from `parts` (n, 7, K); eligible: (n, K), or (1, K) to serve all."""
    for t in range(out.shape[0]):
        may = eligible[t if eligible.shape[0] > 1 else 0]
        propensities(weights, parts[t, 4], parts[t, 5], may, may, out[t])

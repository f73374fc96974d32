"""Policies whose probabilities are a formula: inverse gap weighting and softmax, in O(K).

A softmax is drawn by its race (Gumbel-max): the highest of m/τ − log(−log U), with the arm's own
bits for U. So one draw serves a whole slate, and most of it need not be computed.
"""

from __future__ import annotations

import math

import numpy as np

from bridle.kernels.compiling import njit
from bridle.kernels.keys import BIN_SHIFT, bits_of, uniform
from bridle.kernels.types import Bools, Floats

# The Gumbel quantile at the upper edge of each of 1,024 equal bins of (0, 1), as `keys.BIN_TOP` for
# normals. The largest uniform is 1 − 2⁻⁵³, of quantile 36.8.
GUMBEL_TOP = np.array([-math.log(-math.log((i + 1) / 1024)) + 1e-9 for i in range(1023)] + [37.0])


@njit(cache=True, inline="always")
def gumbel(bits: np.uint64) -> float:
    """Map 64 random bits to a standard Gumbel number, increasing in the bits."""
    return -math.log(-math.log(uniform(bits)))


@njit(cache=True)
def inverse_gaps(mean: Floats, eligible: Bools, gamma: float, out: Floats) -> int:
    """Fill `out` (K) with 1 / (A + γ·gap), the best arms sharing the rest; return A.

    A: how many arms are eligible; gap: how far the mean falls behind the best.
    """
    K = mean.shape[0]
    count = 0
    top = -math.inf
    for k in range(K):
        out[k] = 0.0
        if eligible[k]:
            count += 1
            top = max(top, mean[k])
    total = 0.0
    best = 0
    for k in range(K):
        if eligible[k]:
            if mean[k] == top:
                best += 1
            else:
                out[k] = 1.0 / (count + gamma * (top - mean[k]))
                total += out[k]
    for k in range(K):
        if eligible[k] and mean[k] == top:
            out[k] = (1.0 - total) / best
    return count


@njit(cache=True)
def softmax(mean: Floats, eligible: Bools, temperature: float, out: Floats) -> None:
    """Fill `out` (K) with e^(m/τ) over its sum, zeros where nothing is eligible."""
    K = mean.shape[0]
    top = -math.inf
    for k in range(K):
        out[k] = 0.0
        if eligible[k]:
            top = max(top, mean[k])
    total = 0.0
    for k in range(K):
        if eligible[k]:
            out[k] = math.exp((mean[k] - top) / temperature)
            total += out[k]
    if total > 0.0:
        for k in range(K):
            out[k] /= total


@njit(cache=True)
def draw(odds: Floats, u: float) -> int:
    """Return the arm at which the sum of `odds` (K) passes u·total, or -1 if all are 0."""
    total = 0.0
    for k in range(odds.shape[0]):
        total += odds[k]
    wanted = u * total
    so_far = 0.0
    last = -1
    for k in range(odds.shape[0]):
        if odds[k] > 0.0:
            last = k
            so_far += odds[k]
            if so_far > wanted:
                break
    return last


@njit(cache=True)
def race(mean: Floats, eligible: Bools, temperature: float, key: np.uint64) -> int:
    """Return the arm with the highest m + τ·Gumbel, or -1: it has the law of `softmax`.

    A draw is computed only where its bound reaches the best so far, as in `choice.best_arm`.
    """
    best = -1
    top = -math.inf
    tie = np.uint64(0)
    for k in range(mean.shape[0]):
        if eligible[k]:
            bits = bits_of(key, k)
            if best < 0 or mean[k] + temperature * GUMBEL_TOP[bits >> BIN_SHIFT] >= top:
                drawn = mean[k] + temperature * gumbel(bits)
                if best < 0 or drawn > top or (drawn == top and bits > tie):
                    best = k
                    top = drawn
                    tie = bits
    return best


@njit(cache=True)
def race_scores(mean: Floats, temperature: float, key: np.uint64, out: Floats) -> None:
    """Fill `out` (K) with the draws that `race` compares."""
    for k in range(mean.shape[0]):
        out[k] = mean[k] + temperature * gumbel(bits_of(key, k))

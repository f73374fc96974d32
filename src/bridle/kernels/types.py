"""The shapes that kernels take and give."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Uints = npt.NDArray[np.uint64]
Singles = npt.NDArray[np.float32]
# Places of nonzero features. Unsigned, so that numba need not look for negative indices; 32 bits,
# as 64 without sign and 64 with sign have no common integer type.
Places = npt.NDArray[np.uint32]
Wholes = npt.NDArray[np.uint32]
Bools = npt.NDArray[np.bool_]


class Posterior(NamedTuple):
    """K Bayesian linear models over d features, one block of numbers an arm.

    A sum of a million terms, rounded at each, loses the digits that a badly conditioned inverse
    needs. So the newest few are summed apart and then added to the sum before them, which is kept
    as a pair: the rounded sum and what rounding dropped.
    """

    gram: Floats  # (K, d(d+1)/2) lower triangle of B = ridge·I + Σ c cᵀ, row by row
    gram_low: Floats  # (K, d(d+1)/2) what rounding dropped from it
    gram_new: Floats  # (K, d(d+1)/2) the newest of Σ c cᵀ, not yet in it
    f: Floats  # (K, d) Σ c·y
    f_low: Floats  # (K, d) what rounding dropped from it
    f_new: Floats  # (K, d) the newest of Σ c·y, not yet in it
    A: Floats  # (K, d, d) B⁻¹ as it stands, symmetric in bits
    mu: Floats  # (K, d) B⁻¹ f as it stands
    times: Ints  # (K,) updates
    since: Ints  # (K,) updates since the last refresh of A and mu
    ridge: float  # the prior's precision


class Weights(NamedTuple):
    """What a policy makes of the scores: every policy of bridle is one row of these numbers.

    The score of an arm is drawn from N(reward·m + limit·m_e + bonus·s, (reward·v·s)² +
    (limit·v_limit·s_e)²), and the best eligible arm is played.
    """

    reward: float  # weight of the reward part
    limit: float  # weight of the constraint part
    v: float  # spread of the reward part, in posterior standard deviations
    v_limit: float  # spread of the constraint part
    bonus: float  # optimism: so many posterior standard deviations of the reward part
    epsilon: float  # with this probability a uniformly random eligible arm instead
    mask: float  # what a known mask does: NO_MASK, MASK_ARGMAX or MASK_FILTER


NO_MASK = 0.0
MASK_ARGMAX = 1.0  # only allowed arms compete
MASK_FILTER = 2.0  # all compete; a denied winner is swapped for a random allowed arm

"""Random numbers that are a function of (seed, decision, arm) and of nothing else.

No generator is carried along. Arm k of decision n has its 64 random bits at one fixed place, so a
draw can be made late, twice or not at all, and a replay finds the same bits. The hash is
splitmix64 (Steele, Lea, Flood 2014), read at random access.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from bridle.kernels.compiling import njit
from bridle.kernels.types import Floats

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S12 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(12)

# What a stream is for. Two uses of one seed never share bits.
DECIDE, DECIDE_NAMED, ASK, ASK_NAMED, ANSWER, ANSWER_NAMED = map(np.uint64, range(1, 7))
# Whether an answer would pay, in the course of a decision.
DOUBT, DOUBT_NAMED = map(np.uint64, range(7, 9))
# Whether a play is checked: the coin.
CHECK, CHECK_NAMED = map(np.uint64, range(9, 11))
_ASIDE = np.uint64(0xD1B54A32D192ED03)

# The normal quantile at the upper edge of each of 1,024 equal bins of (0, 1): a bound on a draw
# that costs one look-up. The slack covers the last bits in which `normal` may not be monotone;
# `normal` never gives more than 8.3, as its argument has 52 bits.
BIN_SHIFT = np.uint64(54)
BIN_TOP = np.array([NormalDist().inv_cdf((i + 1) / 1024) + 1e-9 for i in range(1023)] + [8.5])


@njit(cache=True, inline="always")
def mix(x: np.uint64) -> np.uint64:
    """Scramble 64 bits: the finaliser of splitmix64."""
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


@njit(cache=True)
def _stream(seed: np.uint64, use: np.uint64) -> np.uint64:
    return mix(mix(seed + GOLDEN) + use * GOLDEN)


def stream(seed: int, use: np.uint64) -> np.uint64:
    """Start of the stream of keys for one use of a seed."""
    # A kernel gives Python an int, which the next kernel would not take for 64 bits without sign.
    return np.uint64(_stream(np.uint64(seed), use))


@njit(cache=True, inline="always")
def key_of(start: np.uint64, number: np.uint64) -> np.uint64:
    """Key of decision (or question) `number` in a stream."""
    return mix(start + number * GOLDEN)


@njit(cache=True, inline="always")
def bits_of(key: np.uint64, arm: int) -> np.uint64:
    """Random bits of one arm under one key."""
    return mix(key + np.uint64(arm + 1) * GOLDEN)


@njit(cache=True, inline="always")
def aside(key: np.uint64) -> np.uint64:
    """Give a second key of the same decision: for coins that must not depend on the draws."""
    return mix(key ^ _ASIDE)


@njit(cache=True, inline="always")
def uniform(bits: np.uint64) -> float:
    """Map 64 random bits to the open interval (0, 1), at 52 bits.

    With 53 the half that is added would round the largest of them up to 1.
    """
    return (np.float64(bits >> _S12) + 0.5) * (1.0 / 4503599627370496.0)


@njit(cache=True)
def normal(bits: np.uint64) -> float:
    """Map 64 random bits to a standard normal, increasing in the bits.

    The inverse of the distribution function (Wichura 1988, AS 241, PPND16; relative error 1e-16).
    A ziggurat is faster for one draw, but an increasing map can be bounded before it is computed,
    and most draws then need not be.
    """
    p = uniform(bits)
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = 2509.0809287301226727 * r + 33430.575583588128105
        top = (top * r + 67265.770927008700853) * r + 45921.953931549871457
        top = (top * r + 13731.693765509461125) * r + 1971.5909503065514427
        top = (top * r + 133.14166789178437745) * r + 3.387132872796366608
        low = 5226.495278852545925 * r + 28729.085735721942674
        low = (low * r + 39307.89580009271061) * r + 21213.794301586595867
        low = (low * r + 5394.1960214247511077) * r + 687.1870074920579083
        low = (low * r + 42.313330701600911252) * r + 1.0
        return q * top / low
    r = math.sqrt(-math.log(p if q < 0.0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        top = 7.7454501427834140764e-4 * r + 0.0227238449892691845833
        top = (top * r + 0.24178072517745061177) * r + 1.27045825245236838258
        top = (top * r + 3.64784832476320460504) * r + 5.7694972214606914055
        top = (top * r + 4.6303378461565452959) * r + 1.42343711074968357734
        low = 1.05075007164441684324e-9 * r + 5.475938084995344946e-4
        low = (low * r + 0.0151986665636164571966) * r + 0.14810397642748007459
        low = (low * r + 0.68976733498510000455) * r + 1.6763848301838038494
        low = (low * r + 2.05319162663775882187) * r + 1.0
    else:
        r -= 5.0
        top = 2.01033439929228813265e-7 * r + 2.71155556874348757815e-5
        top = (top * r + 0.0012426609473880784386) * r + 0.026532189526576123093
        top = (top * r + 0.29656057182850489123) * r + 1.7848265399172913358
        top = (top * r + 5.4637849111641143699) * r + 6.6579046435011037772
        low = 2.04426310338993978564e-15 * r + 1.4215117583164458887e-7
        low = (low * r + 1.8463183175100546818e-5) * r + 7.868691311456132591e-4
        low = (low * r + 0.0148753612908506148525) * r + 0.13692988092273580531
        low = (low * r + 0.59983220655588793769) * r + 1.0
    return -top / low if q < 0.0 else top / low


@njit(cache=True)
def fill_normals(key: np.uint64, out: Floats) -> None:
    """Fill `out` with the draws of arms 0, 1, … under one key."""
    for k in range(out.shape[0]):
        out[k] = normal(bits_of(key, k))


@njit(cache=True)
def place(start: np.uint64, number: np.uint64, n: int) -> int:
    """Give a uniformly random place in [0, n) for one key, apart from the arms' own bits."""
    return int(uniform(aside(key_of(start, number))) * n)

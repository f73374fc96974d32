"""What is believed of arms and what the teacher said of them; and how the first form chose.

Logs of the first form play the best safe arm and ask where the best possible arm is another:
`look_at`. `kernels.questions` is what agents do now.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bridle.kernels.choice import as_weights, location, spread
from bridle.kernels.compiling import njit
from bridle.kernels.keys import BIN_SHIFT, BIN_TOP, GOLDEN, bits_of, key_of, mix, normal
from bridle.kernels.types import Floats, Ints

Marks = npt.NDArray[np.int8]

# What is believed of an arm in a context.
DENIED, UNSURE, SAFE = 0, 1, 2
# What the teacher said of this very arm in this very context.
UNASKED, SAID_NO, SAID_YES = 0, 1, 2
# What to do where no arm is safe: nothing, or the arm that is most likely allowed; a number from 0
# on is an arm that is always allowed.
ABSTAIN, LEAST_BAD = -1, -2
_LOOK = np.uint64(0xA0761D6478BD642F)


@njit(cache=True, inline="always")
def look_key(key: np.uint64, look: int) -> np.uint64:
    """Key of the look-th look of a decision: the first is the decision's own."""
    return key if look == 0 else mix(key ^ (np.uint64(look) * _LOOK + GOLDEN))


@njit(cache=True)
def best_two(
    loc: Floats, scale: Floats, marks: Marks, said: Marks, unit: Ints, key: np.uint64
) -> tuple[int, int]:
    """Give the best safe arm and the best possible arm by their draws; -1 where there is none.

    marks: (U,) what is believed of each unit here; said: (K,) what the teacher said of each arm. A
    draw is computed only where its bound reaches the best so far.
    """
    safe = -1
    possible = -1
    top_safe = -math.inf
    top_possible = -math.inf
    tie_safe = np.uint64(0)
    tie_possible = np.uint64(0)
    for k in range(loc.shape[0]):
        mark = SAFE if said[k] == SAID_YES else marks[unit[k]]
        if said[k] == SAID_NO or mark == DENIED:
            continue
        bits = bits_of(key, k)
        top = top_safe if mark == SAFE else top_possible
        if loc[k] + scale[k] * BIN_TOP[bits >> BIN_SHIFT] >= top:
            drawn = loc[k]
            if scale[k] > 0.0:
                drawn += scale[k] * normal(bits)
            if mark == SAFE and (
                safe < 0 or drawn > top_safe or (drawn == top_safe and bits > tie_safe)
            ):
                safe = k
                top_safe = drawn
                tie_safe = bits
            if (
                possible < 0
                or drawn > top_possible
                or (drawn == top_possible and bits > tie_possible)
            ):
                possible = k
                top_possible = drawn
                tie_possible = bits
    return safe, possible


@njit(cache=True)
def lifted(marks: Marks, p: Floats) -> Marks:
    """Give marks by which what is rather allowed than not is at least in doubt.

    Limits may put off a question that would teach little. Where nothing else is left to play or to
    ask about, it is asked.
    """
    out = marks.copy()
    for u in range(marks.shape[0]):
        if marks[u] == DENIED and p[u] > 0.5:
            out[u] = UNSURE
    return out


@njit(cache=True)
def fall_back(on_empty: int, p: Floats, said: Marks, unit: Ints) -> int:
    """Give the arm to play where none is safe, or -1."""
    if on_empty >= 0:
        return on_empty
    best = -1
    if on_empty == LEAST_BAD:
        for k in range(said.shape[0]):
            if said[k] != SAID_NO and (best < 0 or p[unit[k]] > p[unit[best]]):
                best = k
    return best


@njit(cache=True)
def look_at(
    weights: Floats,
    parts: Floats,
    marks: Marks,
    said: Marks,
    every: Ints,
    start: np.uint64,
    number: np.uint64,
    look: int,
) -> tuple[int, int]:
    """Blend and draw for the look-th look of a decision: `best_two`, an arm a unit.

    parts: (7, K); rows 0 to 3 are given, rows 4 to 6 are filled. every: 0 … K−1.
    """
    w = as_weights(weights)
    key = look_key(key_of(start, number), look)
    for k in range(parts.shape[1]):
        parts[4, k] = location(w, parts[0, k], parts[1, k], parts[2, k])
        parts[5, k] = spread(w, parts[1, k], parts[3, k])
        parts[6, k] = parts[4, k]
        if parts[5, k] > 0.0:
            parts[6, k] += parts[5, k] * normal(bits_of(key, k))
    return best_two(parts[4], parts[5], marks, said, every, key)

"""The best few of many: who comes first among candidates, without sorting all of them."""

from __future__ import annotations

import numpy as np

from bridle.kernels.compiling import njit
from bridle.kernels.keys import bits_of
from bridle.kernels.types import Bools, Floats, Ints


@njit(cache=True, inline="always")
def _before(one: float, i: int, other: float, j: int, key: np.uint64) -> bool:
    """Return whether candidate i comes before j; of equal scores the one with the higher bits."""
    if one != other:
        return one > other
    return bool(bits_of(key, i) > bits_of(key, j))


@njit(cache=True)
def best_few(scores: Floats, may: Bools, key: np.uint64, few: int) -> Ints:
    """Return the places of the `few` highest scores among those that may be, best first.

    scores, may: (n,). Of equal scores the one with the higher bits comes first. O(n + few²) for
    scores in random order: a place is looked for only by what is better than the last of the few.
    """
    out = np.empty(few, np.int64)
    size = 0
    for i in range(scores.shape[0]):
        if not may[i]:
            continue
        if size == few and not _before(scores[i], i, scores[out[size - 1]], out[size - 1], key):
            continue
        at = size if size < few else few - 1
        while at > 0 and _before(scores[i], i, scores[out[at - 1]], out[at - 1], key):
            if at < few:
                out[at] = out[at - 1]
            at -= 1
        out[at] = i
        if size < few:
            size += 1
    return out[:size]

"""The best k arms of a slate, inside limits on sets, in one pass over the scores.

Kinds with caps are a partition matroid: the best set of what was seen so far is kept, and each arm
takes the place of the lowest one that it may replace (exact for sums of scores, whatever the
order). Where arms exclude each other the best few are ranked, taken greedily and, up to a number of
steps, searched (branch and bound). Ties fall by each arm's own bits.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bridle.kernels.compiling import njit
from bridle.kernels.keys import bits_of
from bridle.kernels.types import Bools, Floats, Ints, Uints

Kinds = npt.NDArray[np.int32]
Sides = npt.NDArray[np.uint8]

# What a search found: the best there is; not all within its steps; better may lie beyond the list.
PROVEN, OUT_OF_STEPS, OPEN = 0, 1, 2


@njit(cache=True, inline="always")
def behind(score: float, bits: np.uint64, other: float, other_bits: np.uint64) -> bool:
    """Whether a score comes after another one, ties by bits."""
    return bool(score < other or (score == other and bits < other_bits))


@njit(cache=True)
def _lowest(scores: Floats, arms: Ints, bits: Uints, n: int) -> int:
    low = 0
    for i in range(1, n):
        if behind(scores[arms[i]], bits[i], scores[arms[low]], bits[low]):
            low = i
    return low


@njit(cache=True)
def best_of_kinds(
    scores: Floats,
    may: Bools,
    k: int,
    kind: Kinds,
    caps: Kinds,
    key: np.uint64,
    arms: Ints,
    bits: Uints,
) -> int:
    """Fill `arms` (k) with the best k, at most caps[g] of kind g, best first; return how many.

    kind: (K,) or (0,) for no kinds, -1 for an arm of none. bits: (k,), scratch.
    """
    n = 0
    low = 0
    least = -math.inf
    limited = kind.shape[0] > 0
    for a in range(scores.shape[0]):
        if not may[a]:
            continue
        score = scores[a]
        if n == k and score < least:
            continue
        own = bits_of(key, a)
        if n == k and score == least and own < bits[low]:
            continue
        place = n
        if limited and kind[a] >= 0:
            held = 0
            worst = -1
            for i in range(n):
                if kind[arms[i]] == kind[a]:
                    held += 1
                    if worst < 0 or behind(
                        scores[arms[i]], bits[i], scores[arms[worst]], bits[worst]
                    ):
                        worst = i
            if held >= caps[kind[a]]:
                if worst < 0 or behind(score, own, scores[arms[worst]], bits[worst]):
                    continue
                place = worst
        if place == k:
            place = low
        if place == n:
            n += 1
        arms[place] = a
        bits[place] = own
        if n == k:
            low = _lowest(scores, arms, bits, n)
            least = scores[arms[low]]
    _sort(scores, arms, bits, n)
    return n


@njit(cache=True)
def _sort(scores: Floats, arms: Ints, bits: Uints, n: int) -> None:
    for i in range(1, n):
        arm = arms[i]
        own = bits[i]
        j = i
        while j > 0 and behind(scores[arms[j - 1]], bits[j - 1], scores[arm], own):
            arms[j] = arms[j - 1]
            bits[j] = bits[j - 1]
            j -= 1
        arms[j] = arm
        bits[j] = own


@njit(cache=True)
def _sift(scores: Floats, arms: Ints, bits: Uints, n: int, i: int) -> None:
    """Move entry i of a heap, whose lowest is on top, down to its place."""
    arm = arms[i]
    own = bits[i]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and behind(
            scores[arms[child + 1]], bits[child + 1], scores[arms[child]], bits[child]
        ):
            child += 1
        if not behind(scores[arms[child]], bits[child], scores[arm], own):
            break
        arms[i] = arms[child]
        bits[i] = bits[child]
        i = child
    arms[i] = arm
    bits[i] = own


@njit(cache=True)
def ranked(scores: Floats, may: Bools, key: np.uint64, arms: Ints, bits: Uints) -> int:
    """Fill `arms` (N) with the best N of all, best first; return how many there are."""
    most = arms.shape[0]
    n = 0
    for a in range(scores.shape[0]):
        if not may[a] or (n == most and scores[a] < scores[arms[0]]):
            continue
        own = bits_of(key, a)
        if n < most:
            arms[n] = a
            bits[n] = own
            n += 1
            if n == most:
                for i in range(n // 2 - 1, -1, -1):
                    _sift(scores, arms, bits, n, i)
        elif behind(scores[arms[0]], bits[0], scores[a], own):
            arms[0] = a
            bits[0] = own
            _sift(scores, arms, bits, n, 0)
    if n < most:
        for i in range(n // 2 - 1, -1, -1):
            _sift(scores, arms, bits, n, i)
    for end in range(n - 1, 0, -1):  # the lowest goes last
        arm = arms[0]
        own = bits[0]
        arms[0] = arms[end]
        bits[0] = bits[end]
        arms[end] = arm
        bits[end] = own
        _sift(scores, arms, bits, end, 0)
    return n


@njit(cache=True)
def fits(
    arm: int,
    chosen: Ints,
    n: int,
    kinds: Kinds,
    caps: Kinds,
    sides: Sides,
    start: Ints,
    others: Ints,
) -> bool:
    """Whether an arm may join the first n of `chosen`.

    kinds: (P, K), caps: (P, C); sides: (Q, K) with bit 1 for one side of a conflict of kinds and
    bit 2 for the other; start: (K + 1,) or (0,), and others: the arms that each arm excludes.
    """
    for p in range(kinds.shape[0]):
        kind = kinds[p, arm]
        if kind >= 0:
            held = 0
            for i in range(n):
                if kinds[p, chosen[i]] == kind:
                    held += 1
            if held >= caps[p, kind]:
                return False
    for q in range(sides.shape[0]):
        mine = sides[q, arm]
        if mine:
            turned = ((mine & 1) << 1) | (mine >> 1)
            for i in range(n):
                if sides[q, chosen[i]] & turned:
                    return False
    if start.shape[0] > 0:
        for e in range(start[arm], start[arm + 1]):
            for i in range(n):
                if others[e] == chosen[i]:
                    return False
    return True


@njit(cache=True)
def greedy(
    listed: Ints,
    n: int,
    k: int,
    kinds: Kinds,
    caps: Kinds,
    sides: Sides,
    start: Ints,
    others: Ints,
    arms: Ints,
) -> int:
    """Fill `arms` (k) with the first of `listed` (n) that fit each after the others."""
    taken = 0
    for i in range(n):
        if taken == k:
            break
        if fits(listed[i], arms, taken, kinds, caps, sides, start, others):
            arms[taken] = listed[i]
            taken += 1
    return taken


@njit(cache=True)
def search(
    scores: Floats,
    listed: Ints,
    n: int,
    whole: bool,
    k: int,
    kinds: Kinds,
    caps: Kinds,
    sides: Sides,
    start: Ints,
    others: Ints,
    steps: int,
    arms: Ints,
    held: int,
) -> tuple[int, int]:
    """Better the slate of the first `held` of `arms`; return how many it has, and what is known.

    The most places that can be filled come first, then the highest sum. listed: the best n arms,
    best first; whole: whether there are no others.
    """
    prefix = np.zeros(n + 1)
    for i in range(n):
        prefix[i + 1] = prefix[i] + scores[listed[i]]
    last = scores[listed[n - 1]] if n else 0.0
    best_sum = 0.0
    for i in range(held):
        best_sum += scores[arms[i]]
    now = np.empty(k, np.int64)
    total = np.zeros(k + 1)
    at = np.zeros(k + 1, np.int64)
    depth = 0
    is_open = False
    while depth >= 0:
        steps -= 1
        if steps < 0:
            return held, OUT_OF_STEPS
        i = at[depth]
        more = min(k - depth, n - i)
        top = total[depth] + prefix[i + more] - prefix[i]
        size = depth + more
        if not whole and size < k:
            top += (k - size) * last
            size = k
        hopeful = size > held or (size == held and top > best_sum)
        if hopeful and i < n and depth < k:
            at[depth] = i + 1
            if fits(listed[i], now, depth, kinds, caps, sides, start, others):
                now[depth] = listed[i]
                total[depth + 1] = total[depth] + scores[listed[i]]
                at[depth + 1] = i + 1
                depth += 1
            continue
        if hopeful and depth < k and not whole:
            is_open = True
        if depth > held or (depth == held and total[depth] > best_sum):
            held = depth
            best_sum = total[depth]
            for j in range(depth):
                arms[j] = now[j]
        depth -= 1
    return held, OPEN if is_open else PROVEN


@njit(cache=True)
def narrow(
    left: Bools,
    chosen: Ints,
    n: int,
    kinds: Kinds,
    caps: Kinds,
    sides: Sides,
    start: Ints,
    others: Ints,
) -> None:
    """Take out of `left` (K) the first n of `chosen`, and what does not fit after them."""
    for i in range(n):
        left[chosen[i]] = False
    if kinds.shape[0] + sides.shape[0] + start.shape[0] > 0:
        for a in range(left.shape[0]):
            if left[a] and not fits(a, chosen, n, kinds, caps, sides, start, others):
                left[a] = False


@njit(cache=True)
def chain(
    mean: Floats,
    may: Bools,
    temperature: float,
    kinds: Kinds,
    caps: Kinds,
    sides: Sides,
    start: Ints,
    others: Ints,
    arms: Ints,
    out: Floats,
) -> None:
    """Fill `out` with the probability of each of `arms` after those before it, by a softmax.

    It is over the arms that are left and fit; 0 from the first one on that is not among them.
    """
    left = may.copy()
    weight = np.empty(mean.shape[0])
    for i in range(arms.shape[0]):
        out[i] = 0.0
    total = 0.0
    for i in range(arms.shape[0]):
        narrow(left, arms, i, kinds, caps, sides, start, others)
        if not left[arms[i]]:
            return
        if i > 0:
            total = 0.0
            for a in range(mean.shape[0]):
                if left[a]:
                    total += weight[a]
        # What is left may be far below what is gone: then its weights are formed anew.
        if total < 1e-100:
            top = -math.inf
            for a in range(mean.shape[0]):
                if left[a]:
                    top = max(top, mean[a])
            total = 0.0
            for a in range(mean.shape[0]):
                if left[a]:
                    weight[a] = math.exp((mean[a] - top) / temperature)
                    total += weight[a]
        out[i] = weight[arms[i]] / total

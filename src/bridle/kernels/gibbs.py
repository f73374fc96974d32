"""Rules as sets of denied terms, where there are too many sets: a cloud of sampled ones.

Each answer first redraws the sets by how well they foretold it, then moves each on its own by
Gibbs sampling (a sequential sampler: Chopin 2002). All random numbers are a function of the key.
"""

from __future__ import annotations

import math

import numpy as np

from bridle.kernels.compiling import njit
from bridle.kernels.keys import aside, bits_of, uniform
from bridle.kernels.rulesets import terms_of
from bridle.kernels.types import Bools, Floats, Ints, Uints

# Log odds of a term that is known to be in, or known not to be: beyond what answers can move.
CERTAIN = 1e12
# Log odds below which a draw would never be true: once in 1e13.
NEVER = -30.0


@njit(cache=True)
def index_contexts(held: Bools, pairs: bool, place: Ints) -> tuple[Ints, Ints]:
    """List the active terms of each context: those of context i are ids[starts[i]:starts[i + 1]].

    place: (T,) number of each term among the active ones, −1 if it is not.
    """
    n = held.shape[0]
    scratch = np.empty(place.shape[0], np.int64)
    starts = np.zeros(n + 1, np.int64)
    for i in range(n):
        starts[i + 1] = starts[i]
        for a in range(terms_of(held[i], pairs, scratch)):
            if place[scratch[a]] >= 0:
                starts[i + 1] += 1
    ids = np.empty(starts[n], np.int64)
    at = 0
    for i in range(n):
        for a in range(terms_of(held[i], pairs, scratch)):
            if place[scratch[a]] >= 0:
                ids[at] = place[scratch[a]]
                at += 1
    return starts, ids


@njit(cache=True)
def index_terms(starts: Ints, ids: Ints, terms: int) -> tuple[Ints, Ints]:
    """Turn the lists around: the contexts that hold each active term."""
    heads = np.zeros(terms + 1, np.int64)
    for a in range(ids.shape[0]):
        heads[ids[a] + 1] += 1
    for t in range(terms):
        heads[t + 1] += heads[t]
    contexts = np.empty(ids.shape[0], np.int64)
    at = heads.copy()
    for i in range(starts.shape[0] - 1):
        for a in range(starts[i], starts[i + 1]):
            contexts[at[ids[a]]] = i
            at[ids[a]] += 1
    return heads, contexts


@njit(cache=True, inline="always")
def sigmoid(x: float) -> float:
    """1 / (1 + e^−x); where e^|x| would overflow, 0 or 1."""
    if x > 700.0:
        return 1.0
    if x < -700.0:
        return 0.0
    return 1.0 / (1.0 + math.exp(-x))


@njit(cache=True)
def draw_terms(sets: Bools, first: int, logit: Floats, key: np.uint64) -> None:
    """Draw the active terms from number `first` on, in every set, by their log odds."""
    for c in range(sets.shape[0]):
        own = bits_of(key, c)
        for t in range(first, sets.shape[1]):
            sets[c, t] = uniform(bits_of(own, t)) < sigmoid(logit[t])


@njit(cache=True)
def foretell(sets: Bools, ids: Ints, cleared: float, error: float, likelihood: Floats) -> float:
    """Fill P(the teacher says allowed) by each set, for a context with the active terms `ids`.

    cleared: probability that none of its other terms is denied. Gives the mean.
    """
    total: float = 0.0
    for c in range(sets.shape[0]):
        open_: float = cleared
        for a in range(ids.shape[0]):
            if sets[c, ids[a]]:
                open_ = 0.0
                break
        likelihood[c] = error + (1.0 - 2.0 * error) * open_
        total += likelihood[c]
    mean: float = total / sets.shape[0]
    return mean


@njit(cache=True)
def redraw(sets: Bools, likelihood: Floats, key: np.uint64) -> None:
    """Redraw the sets by their likelihoods, with one random number for all (systematic).

    Equal likelihoods leave every set where it is.
    """
    C = sets.shape[0]
    total = 0.0
    low = likelihood[0]
    high = likelihood[0]
    for c in range(C):
        total += likelihood[c]
        low = min(low, likelihood[c])
        high = max(high, likelihood[c])
    if low == high:
        return
    old = sets.copy()
    u = uniform(aside(key))
    below = likelihood[0]
    source = 0
    for c in range(C):
        while below < (c + u) / C * total and source < C - 1:
            source += 1
            below += likelihood[source]
        for t in range(sets.shape[1]):
            sets[c, t] = old[source, t]


@njit(cache=True)
def turn(
    t: int,
    step: int,
    S: Bools,
    starts: Ints,
    ids: Ints,
    heads: Ints,
    contexts: Ints,
    net: Ints,
    count: Ints,
    field: Ints,
) -> None:
    """Put term t into the set S (step 1), or take it out (−1), and keep count and field right.

    count: (n,) denied terms of each context. field: (A,) of each term, the net answers to the
    contexts that hold it and no other denied term: only those have a say in whether it is denied.
    """
    S[t] = step == 1
    for a in range(heads[t], heads[t + 1]):
        i = contexts[a]
        others = count[i] if step == 1 else count[i] - 1
        count[i] += step
        change = -step * net[i]
        if others == 0:
            for b in range(starts[i], starts[i + 1]):
                field[ids[b]] += change
            field[t] -= change
        elif others == 1:
            for b in range(starts[i], starts[i + 1]):
                if S[ids[b]] and ids[b] != t:
                    field[ids[b]] += change
                    break


@njit(cache=True)
def chances(logit: Floats, odds: float) -> tuple[Ints, Floats, int]:
    """Tabulate the probability that a term is denied: by its prior log odds, and by its field.

    Gives the row of each term, the table, and how far a field reaches, on either side: beyond, a
    term is denied for certain, or for certain not. There are few prior log odds, and fields are
    whole numbers: so no inner loop needs an exponential.
    """
    A = logit.shape[0]
    row = np.empty(A, np.int64)
    values = np.empty(A)
    rows = 0
    far = 0.0
    for t in range(A):
        r = 0
        while r < rows and values[r] != logit[t]:
            r += 1
        if r == rows:
            values[r] = logit[t]
            rows += 1
            if abs(logit[t]) < 0.5 * CERTAIN:
                far = max(far, abs(logit[t]))
        row[t] = r
    reach = int((far - NEVER) / odds) + 1
    table = np.empty((rows, 2 * reach + 1))
    for r in range(rows):
        for f in range(-reach, reach + 1):
            x = values[r] - odds * f
            table[r, f + reach] = 0.0 if x < NEVER else 1.0 if x > -NEVER else sigmoid(x)
    return row, table, reach


@njit(cache=True)
def move(
    sets: Bools,
    starts: Ints,
    ids: Ints,
    heads: Ints,
    contexts: Ints,
    net: Ints,
    odds: float,
    logit: Floats,
    sweeps: int,
    key: np.uint64,
) -> None:
    """Move every set: `sweeps` times each term in turn, and then where one denial sits.

    net: answers "allowed" less "denied", by context; odds: the log odds that one answer is right.
    A term seldom turns, and two sets seldom differ by much. So what speaks for and against each
    term is kept, in whole numbers, from draw to draw and from set to set, and not summed anew.

    One term at a time, a sparse prior leaves the sole denied term of a denied context stuck. So
    each sweep ends with one such context, picked at random: if it has exactly one denied term, that
    term is drawn anew among all of its terms.
    """
    C, A = sets.shape
    n = net.shape[0]
    row, table, reach = chances(logit, odds)
    S = np.zeros(A, np.bool_)
    count = np.zeros(n, np.int64)
    field = np.zeros(A, np.int64)
    for t in range(A):
        for a in range(heads[t], heads[t + 1]):
            field[t] += net[contexts[a]]
    weight = np.empty(A)
    sole = np.zeros(n, np.bool_)
    denied = np.empty(n, np.int64)
    n_denied = 0
    for i in range(n):
        if net[i] < 0:
            denied[n_denied] = i
            n_denied += 1
    for c in range(C):
        for t in range(A):
            if S[t] != sets[c, t]:
                step = -1 if S[t] else 1
                turn(t, step, S, starts, ids, heads, contexts, net, count, field)
        own = bits_of(key, c)
        draw = 0
        for _ in range(sweeps):
            for t in range(A):
                p = table[row[t], min(max(field[t], -reach), reach) + reach]
                draw += 1
                if (uniform(bits_of(own, draw)) < p) != S[t]:
                    step = -1 if S[t] else 1
                    turn(t, step, S, starts, ids, heads, contexts, net, count, field)
            if n_denied == 0:
                continue
            draw += 1
            i = denied[int(uniform(bits_of(own, draw)) * n_denied)]
            if count[i] != 1:
                continue
            first, last = starts[i], starts[i + 1]
            t = ids[first]
            for a in range(first, last):
                if S[ids[a]]:
                    t = ids[a]
            if logit[t] >= 0.5 * CERTAIN:
                continue
            # The fields as they would be without t; most often it stays.
            for a in range(heads[t], heads[t + 1]):
                sole[contexts[a]] = count[contexts[a]] == 1
            top = -math.inf
            for a in range(first, last):
                s = ids[a]
                f = field[s]
                if s != t:
                    for b in range(heads[s], heads[s + 1]):
                        if sole[contexts[b]]:
                            f += net[contexts[b]]
                weight[a - first] = logit[s] - odds * f
                top = max(top, weight[a - first])
            for a in range(heads[t], heads[t + 1]):
                sole[contexts[a]] = False
            total = 0.0
            for a in range(last - first):
                weight[a] = math.exp(max(weight[a] - top, -700.0))
                total += weight[a]
            draw += 1
            u = uniform(bits_of(own, draw)) * total
            a = 0
            while a < last - first - 1 and u >= weight[a]:
                u -= weight[a]
                a += 1
            if ids[first + a] != t:
                turn(t, -1, S, starts, ids, heads, contexts, net, count, field)
                turn(ids[first + a], 1, S, starts, ids, heads, contexts, net, count, field)
        sets[c] = S


@njit(cache=True)
def share_allowing(
    sets: Bools, held: Bools, pairs: bool, place: Ints, log_out: Floats, out: Floats
) -> None:
    """Fill P(allowed) of each context, a row of `held`.

    The share of the sets that hold none of its active terms, times the probability that none of
    the others is denied; log_out: (T,) the log of that, term by term.
    """
    T = place.shape[0]
    C = sets.shape[0]
    scratch = np.empty(T, np.int64)
    hit = np.empty(C, np.bool_)
    for i in range(held.shape[0]):
        for c in range(C):
            hit[c] = False
        rest = 0.0
        for a in range(terms_of(held[i], pairs, scratch)):
            t = place[scratch[a]]
            if t < 0:
                rest += log_out[scratch[a]]
            else:
                for c in range(C):
                    hit[c] |= sets[c, t]
        clean = 0
        for c in range(C):
            if not hit[c]:
                clean += 1
        out[i] = clean / C * math.exp(rest)


@njit(cache=True)
def pack_sets(sets: Bools) -> Uints:
    """Return by active term which sets hold it, a bit each: (A, ⌈C/64⌉)."""
    C, A = sets.shape
    out = np.zeros((A, (C + 63) // 64), np.uint64)
    for c in range(C):
        bit = np.uint64(1) << np.uint64(c % 64)
        for t in range(A):
            if sets[c, t]:
                out[t, c // 64] |= bit
    return out


@njit(cache=True)
def count_bits(x: np.uint64) -> int:
    """Return how many bits of a word are set."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    half = x + (x >> np.uint64(8))
    half = half + (half >> np.uint64(16))
    return int(np.int64((half + (half >> np.uint64(32))) & np.uint64(0x7F)))


@njit(cache=True)
def side_terms(words: Bools, pairs: Ints, order: int, out: Ints) -> int:
    """Write the terms of up to so many words of one side that it holds, ascending, the empty first.

    pairs: (m, m) the number of each pair of words among the pairs, -1 if they are none. Return how
    many there are.
    """
    m = words.shape[0]
    out[0] = 0
    n = 1
    if order >= 1:
        for i in range(m):
            if words[i]:
                out[n] = 1 + i
                n += 1
    singles = n
    if order >= 2:
        for a in range(1, singles):
            for b in range(a + 1, singles):
                number = pairs[out[a] - 1, out[b] - 1]
                if number >= 0:
                    out[n] = 1 + m + number
                    n += 1
    return n


@njit(cache=True)
def share_pairs(
    packed: Uints,
    chains: int,
    contexts: Bools,
    arms: Bools,
    context_pairs: Ints,
    arm_pairs: Ints,
    orders: tuple[int, int],
    sides: tuple[int, int],
    place: Ints,
    log_out: Floats,
    out: Floats,
) -> None:
    """Do what `share_allowing` does for all pairs of n contexts and m arms: the same bits.

    packed: see `pack_sets`; contexts, arms: (n, words), (m, words) what they hold; sides: how many
    terms each side has, with the empty one.
    """
    n, m, size = contexts.shape[0], arms.shape[0], packed.shape[1]
    mine, its = np.empty(sides[0], np.int64), np.empty(sides[1], np.int64)
    hit = np.empty(size, np.uint64)
    for i in range(n):
        of_context = side_terms(contexts[i], context_pairs, orders[0], mine)
        for j in range(m):
            of_arm = side_terms(arms[j], arm_pairs, orders[1], its)
            for c in range(size):
                hit[c] = np.uint64(0)
            rest = 0.0
            for a in range(of_context):
                for b in range(of_arm):
                    term = mine[a] * sides[1] + its[b] - 1
                    if term < 0:
                        continue
                    t = place[term]
                    if t < 0:
                        rest += log_out[term]
                    else:
                        for c in range(size):
                            hit[c] |= packed[t, c]
            clean = chains
            for c in range(size):
                clean -= count_bits(hit[c])
            out[i * m + j] = clean / chains * math.exp(rest)

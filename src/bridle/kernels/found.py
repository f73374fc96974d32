"""Arms that fall into classes, each with a rule of its own: which arms go together is sampled.

A Dirichlet process over rules. A chain holds the class of every arm that was asked about. The rules
of the classes are not sampled but summed over, all 2^T of them, and so is the class of the arm that
is looked at: what is believed of it is exact but for the classes of the other arms. (Neal 2000,
algorithm 3; the arm's own rule is drawn on the way to its class.)

What a class knows is how many answers of its members contradict each rule: whole numbers, in no
order. Weights of rules are products, never logs, so that no inner loop needs an exponential.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bridle.kernels.compiling import njit
from bridle.kernels.keys import bits_of, uniform
from bridle.kernels.types import Floats, Ints

# Answers against each rule. 32 bits: twice as many go through the processor at once.
Counts = npt.NDArray[np.int32]

# Where an arm's answers are less likely than this under some rule (relative to the best), its part
# in a class cannot be divided out: what the others know may have been lost to underflow.
SMALLEST = 1e-130


@njit(cache=True)
def total_of(v: Floats) -> float:
    """Sum, in four strands: the order is fixed, and no addition waits for the one before it."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = v.shape[0] - v.shape[0] % 4
    for i in range(0, whole, 4):
        a += v[i]
        b += v[i + 1]
        c += v[i + 2]
        d += v[i + 3]
    for i in range(whole, v.shape[0]):
        a += v[i]
    return (a + b) + (c + d)


@njit(cache=True)
def dot(v: Floats, w: Floats) -> float:
    """Sum of products, in four strands."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = v.shape[0] - v.shape[0] % 4
    for i in range(0, whole, 4):
        a += v[i] * w[i]
        b += v[i + 1] * w[i + 1]
        c += v[i + 2] * w[i + 2]
        d += v[i + 3] * w[i + 3]
    for i in range(whole, v.shape[0]):
        a += v[i] * w[i]
    return (a + b) + (c + d)


@njit(cache=True)
def weigh_class(prior: Floats, tally: Counts, power: Floats, w: Floats) -> None:
    """Fill w with the posterior share of each rule of a class.

    tally: (N,) how many answers contradict each rule; power: (P,) what 0, 1, … of them leave of its
    weight, the last of them nothing.
    """
    low = tally[0]
    for S in range(tally.shape[0]):
        low = min(low, tally[S])
    last = power.shape[0] - 1
    for S in range(tally.shape[0]):
        w[S] = prior[S] * power[min(tally[S] - low, last)]
    scale = 1.0 / total_of(w)
    for S in range(tally.shape[0]):
        w[S] *= scale


@njit(cache=True)
def open_chain(
    z: Ints,
    asked: Ints,
    wrong: Counts,
    prior: Floats,
    power: Floats,
    alpha: float,
    size: Ints,
    tally: Counts,
    w: Floats,
    urn: Floats,
) -> int:
    """Work out what the classes of one chain know; give how many there are.

    z: (K,) the class of each arm, −1 if it has none; asked: (n,) arms with answers, ascending.
    size: (n + 1,), tally, w: (n + 1, N) of each class. urn: (N,) how much speaks for each rule
    before an arm's own answers: alpha · prior + Σ size · w.
    """
    used = 0
    for k in asked:
        used = max(used, z[k] + 1)
    size[:used] = 0
    tally[:used] = 0
    for k in asked:
        if z[k] >= 0:
            size[z[k]] += 1
            for S in range(prior.shape[0]):
                tally[z[k], S] += wrong[k, S]
    for S in range(prior.shape[0]):
        urn[S] = alpha * prior[S]
    for c in range(used):
        weigh_class(prior, tally[c], power, w[c])
        for S in range(prior.shape[0]):
            urn[S] += size[c] * w[c, S]
    return used


@njit(cache=True)
def draw_class(
    z: Ints,
    k: int,
    used: int,
    wrong: Counts,
    like: Floats,
    prior: Floats,
    power: Floats,
    alpha: float,
    bits: np.uint64,
    size: Ints,
    tally: Counts,
    w: Floats,
    urn: Floats,
    v: Floats,
) -> int:
    """Draw the class of arm k anew, given those of all others; give how many numbers are in use.

    wrong, like: (N,) the arm's own. A class that is left empty keeps its number for the next new
    one.
    """
    N = prior.shape[0]
    old = z[k]
    if old >= 0:
        take_out(urn, w[old], size[old], prior, alpha)
        size[old] -= 1
        if size[old] > 0:
            for S in range(N):
                tally[old, S] -= wrong[S]
            weigh_class(prior, tally[old], power, w[old])
            for S in range(N):
                urn[S] += size[old] * w[old, S]
    for S in range(N):
        v[S] = urn[S] * like[S]
    # First its rule, then, of what speaks for that rule, a class, or a new one.
    u = uniform(bits_of(bits, 0)) * total_of(v)
    rule = 0
    for S in range(N):
        if v[S] > 0.0:
            rule = S
            u -= v[S]
            if u < 0.0:
                break
    total = alpha * prior[rule]
    for c in range(used):
        if size[c] > 0:
            total += size[c] * w[c, rule]
    u = uniform(bits_of(bits, 1)) * total - alpha * prior[rule]
    new = -1
    for c in range(used):
        if u >= 0.0 and size[c] > 0:
            new = c
            u -= size[c] * w[c, rule]
    if new < 0:
        new = 0
        while new < used and size[new] > 0:
            new += 1
        used = max(used, new + 1)
        size[new] = 0
        tally[new] = 0
    else:
        take_out(urn, w[new], size[new], prior, alpha)
    z[k] = new
    size[new] += 1
    for S in range(N):
        tally[new, S] += wrong[S]
    weigh_class(prior, tally[new], power, w[new])
    for S in range(N):
        urn[S] += size[new] * w[new, S]
    return used


@njit(cache=True, inline="always")
def take_out(urn: Floats, w: Floats, size: int, prior: Floats, alpha: float) -> None:
    """Take a class out of the urn. The prior's part stays, whatever rounding takes away."""
    for S in range(urn.shape[0]):
        urn[S] = max(urn[S] - size * w[S], alpha * prior[S])


@njit(cache=True)
def move(
    classes: Ints,
    asked: Ints,
    first: int,
    others: int,
    wrong: Counts,
    like: Floats,
    prior: Floats,
    power: Floats,
    alpha: float,
    key: np.uint64,
) -> None:
    """Draw anew, in every chain, the class of arm `first` and of so many others, at random.

    classes: (C, K); wrong, like: (K, N) of each arm, how many of its answers contradict each rule
    and their probability under it, up to a factor.
    """
    n = asked.shape[0]
    N = prior.shape[0]
    size = np.zeros(n + 1, np.int64)
    tally = np.zeros((n + 1, N), np.int32)
    w = np.empty((n + 1, N))
    urn = np.empty(N)
    v = np.empty(N)
    name = np.empty(n + 1, np.int64)
    for chain in range(classes.shape[0]):
        z = classes[chain]
        bits = bits_of(key, chain)
        used = open_chain(z, asked, wrong, prior, power, alpha, size, tally, w, urn)
        for turn in range(others + 1):
            own = bits_of(bits, turn)
            k = first if turn == 0 else asked[int(uniform(bits_of(own, 2)) * n)]
            used = draw_class(
                z, k, used, wrong[k], like[k], prior, power, alpha, own, size, tally, w, urn, v
            )
        # Number the classes as they first occur: no gaps, and equal partitions have equal bits.
        name[:] = -1
        used = 0
        for k in asked:
            if name[z[k]] < 0:
                name[z[k]] = used
                used += 1
            z[k] = name[z[k]]


@njit(cache=True)
def believe(
    classes: Ints,
    asked: Ints,
    wrong: Counts,
    like: Floats,
    prior: Floats,
    power: Floats,
    alpha: float,
    inside: Floats,
    unseen: Floats,
) -> None:
    """Fill inside[k, M] with P(the rule of arm k is a set within M); unseen: of any other arm.

    Means over the chains; in each, exact given the classes of all other arms. inside: (K, N), only
    the rows of `asked` are written; unseen: (N,).
    """
    n = asked.shape[0]
    N = prior.shape[0]
    size = np.zeros(n + 1, np.int64)
    tally = np.zeros((n + 1, N), np.int32)
    w = np.empty((n + 1, N))
    urn = np.empty(N)
    v = np.empty(N)
    rest = np.empty(N, np.int32)
    inverse = np.ones((n, N))
    divides = np.empty(n, np.bool_)
    unseen[:] = 0.0
    for i in range(n):
        divides[i] = like[asked[i]].min() > SMALLEST
        if divides[i]:
            for S in range(N):
                inverse[i, S] = 1.0 / like[asked[i], S]
        inside[asked[i]] = 0.0
    for chain in range(classes.shape[0]):
        z = classes[chain]
        open_chain(z, asked, wrong, prior, power, alpha, size, tally, w, urn)
        for S in range(N):
            unseen[S] += urn[S]
        for i in range(n):
            k = asked[i]
            c = z[k]
            m = size[c]
            for S in range(N):
                v[S] = max(urn[S] - m * w[c, S], alpha * prior[S]) * like[k, S]
            # Of its own class, what it knows without the arm, times the arm's own answers, is what
            # it knows, times the probability that it gives to those answers.
            fit = 0.0
            if m > 1 and divides[i]:
                fit = 1.0 / dot(w[c], inverse[i])
            elif m > 1:
                for S in range(N):
                    rest[S] = tally[c, S] - wrong[k, S]
                weigh_class(prior, rest, power, inverse[i])
                fit = dot(inverse[i], like[k])
            fit *= m - 1
            scale = 1.0 / (total_of(v) + fit)
            fit *= scale
            for S in range(N):
                inside[k, S] += v[S] * scale + w[c, S] * fit
    for k in asked:
        sum_within(inside[k])
    sum_within(unseen)


@njit(cache=True)
def sum_within(v: Floats) -> None:
    """Turn the weight of each set into the share of the sets within it, in place.

    The zeta transform: T · 2^(T−1) additions.
    """
    N = v.shape[0]
    bit = 1
    while bit < N:
        for start in range(bit, N, 2 * bit):
            for S in range(start, start + bit):
                v[S] += v[S - bit]
        bit *= 2
    total = v[N - 1]
    for S in range(N):
        v[S] /= total


@njit(cache=True)
def share_rules(
    classes: Ints, asked: Ints, wrong: Counts, prior: Floats, power: Floats, out: Floats
) -> None:
    """Fill out[i, j] with P(arms asked[i] and asked[j] have the same rule): (n, n).

    In one class they have; two classes may have the same rule by chance.
    """
    C = classes.shape[0]
    n = asked.shape[0]
    N = prior.shape[0]
    size = np.zeros(n + 1, np.int64)
    tally = np.zeros((n + 1, N), np.int32)
    w = np.empty((n + 1, N))
    urn = np.empty(N)
    same = np.empty((n + 1, n + 1))
    out[:] = 0.0
    for chain in range(C):
        z = classes[chain]
        used = open_chain(z, asked, wrong, prior, power, 1.0, size, tally, w, urn)
        for a in range(used):
            same[a, a] = 1.0
            for b in range(a):
                both = dot(w[a], w[b])
                same[a, b] = both
                same[b, a] = both
        for i in range(n):
            for j in range(n):
                out[i, j] += same[z[asked[i]], z[asked[j]]] / C

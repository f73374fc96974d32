"""Rules with bounds on numbers: sets of denied words, "below t", "above t", and a word with one.

Every term is "the holder is there, and y < t": the holder is a word or, −1, any context; y is one
of a context's *coordinates*: 0 for a plain word, x for "x below t", 1 − x for "x above 1 − t". All
are in [0, 1], and t is uniform there a priori. What the answers say depends on t only through the
*rank* of a term, the number of asked contexts that it denies: those of its holder with y < t, in
the order of y. So a sampled set is a rank for each term, −1 if it is out, and given the ranks each
t is uniform between two values that were asked. The cloud of sets is redrawn and moved as in
`gibbs`; all random numbers are a function of the key.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.kernels.compiling import njit
from bridle.kernels.gibbs import sigmoid
from bridle.kernels.keys import bits_of, mix, uniform
from bridle.kernels.types import Bools, Floats, Ints

Ranks = npt.NDArray[np.int32]

# A share of a term's weight that is not worth a place in a table.
NEGLIGIBLE = 1e-18


class Terms(NamedTuple):
    """What the T terms are: m words, then 2·J bounds, then each word with each bound."""

    holder: Ints  # (T,) a word, or −1
    scope: Ints  # (T,) a coordinate in [0, 2·J]
    logit: Floats  # (T,) prior log odds


class Lists(NamedTuple):
    """The asked contexts of each active term, and the active terms of each asked context."""

    heads: Ints  # (A + 1,) where the contexts of each term begin in `order`
    order: Ints  # the contexts that hold its holder, ascending in y
    edges: Floats  # 0, their values of y, 1: those of term a begin at heads[a] + 2·a
    starts: Ints  # (n + 1,) where the terms of each context begin in `ids`
    ids: Ints  # the terms
    spots: Ints  # the place of the context in the order of that term


class Scales(NamedTuple):
    """What speaks for and against the terms of one set, as it is moved."""

    net: Ints  # (n,) answers "allowed" less "denied", by context
    prior: Floats  # (A,) prior odds; of a term that is known to be in, ∞
    table: Floats  # see `powers`
    cut: int  # a field so much above the least has next to no weight
    hope: Ints  # for each place in `order`, how much the field can fall after it
    denials: Ints  # (n,) terms that deny each context
    sole: Bools  # (n,) contexts of which one denied term is not to be counted


class Chains(NamedTuple):
    """The distinct sets of a sample, with t between `low` and `high` for each term that is in."""

    alike: Ints  # (D,) how many are like it
    starts: Ints  # (D + 1,) where the terms of each begin
    holder: Ints
    scope: Ints
    low: Floats
    high: Floats


class Tails(NamedTuple):
    """Of each term that is not sampled, P(it is in, and t in this segment); of others nothing."""

    starts: Ints  # (T + 1,)
    edge: Floats  # upper end of a segment
    width: Floats
    mass: Floats
    beyond: Floats  # mass of the segments after this one


@njit(cache=True)
def terms_of(held: Bools, numbers: int, out: Ints) -> int:
    """Write the terms whose holder a context holds, ascending; give how many there are."""
    m = held.shape[0]
    n = 0
    for i in range(m):
        if held[i]:
            out[n] = i
            n += 1
    for s in range(2 * numbers):
        out[n] = m + s
        n += 1
    for i in range(m):
        if held[i]:
            for s in range(2 * numbers):
                out[n] = m + 2 * numbers * (i + 1) + s
                n += 1
    return n


@njit(cache=True)
def powers(odds: float) -> Floats:
    """Tabulate e^(−odds·k) for k = 0, 1, … up to where it is nothing; the last entry is 0."""
    out = np.empty(int(700.0 / odds) + 2)
    for k in range(out.shape[0] - 1):
        out[k] = math.exp(-odds * k)
    out[out.shape[0] - 1] = 0.0
    return out


@njit(cache=True)
def list_contexts(held: Bools, Y: Floats, which: Ints, terms: Terms) -> Lists:
    """List the asked contexts of each of the terms `which`, in the order of y, and turn it around.

    held: (n, m), Y: (n, 2·J + 1). Among equals the newest is last.
    """
    n, A = held.shape[0], which.shape[0]
    by_scope = np.empty((Y.shape[1], n), np.int64)
    for s in range(Y.shape[1]):
        by_scope[s] = np.argsort(Y[:, s], kind="mergesort")
    heads = np.zeros(A + 1, np.int64)
    starts = np.zeros(n + 1, np.int64)
    for a in range(A):
        h = terms.holder[which[a]]
        heads[a + 1] = heads[a]
        for i in range(n):
            if h < 0 or held[i, h]:
                heads[a + 1] += 1
                starts[i + 1] += 1
    for i in range(n):
        starts[i + 1] += starts[i]
    order = np.empty(heads[A], np.int64)
    edges = np.empty(heads[A] + 2 * A)
    ids = np.empty(heads[A], np.int64)
    spots = np.empty(heads[A], np.int64)
    at = starts.copy()
    for a in range(A):
        h, s = terms.holder[which[a]], terms.scope[which[a]]
        place = 0
        first = heads[a] + 2 * a
        edges[first] = 0.0
        for k in range(n):
            i = by_scope[s, k]
            if h < 0 or held[i, h]:
                order[heads[a] + place] = i
                ids[at[i]] = a
                spots[at[i]] = place
                at[i] += 1
                place += 1
                edges[first + place] = Y[i, s]
        edges[first + place + 1] = 1.0
    return Lists(heads, order, edges, starts, ids, spots)


@njit(cache=True)
def begin(lists: Lists, net: Ints, odds: float, logit: Floats) -> Scales:
    """Set the scales up for an empty set, which denies no context."""
    n, A = net.shape[0], logit.shape[0]
    prior = np.empty(A)
    hope = np.zeros(lists.order.shape[0], np.int64)
    for a in range(A):
        prior[a] = math.inf if logit[a] > 700.0 else math.exp(max(logit[a], -746.0))
        for e in range(lists.heads[a + 1] - 2, lists.heads[a] - 1, -1):
            hope[e] = hope[e + 1] - min(net[lists.order[e + 1]], 0)
    cut = int(-math.log(NEGLIGIBLE) / odds) + 1
    denials, sole = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    return Scales(net, prior, powers(odds), cut, hope, denials, sole)


@njit(cache=True)
def weigh(
    a: int,
    first: int,
    least: int,
    rank: int,
    heads: Ints,
    order: Ints,
    edges: Floats,
    net: Ints,
    hope: Ints,
    cut: int,
    denials: Ints,
    sole: Bools,
    table: Floats,
) -> tuple[float, int]:
    """Sum the weights of term a's ranks from `first` on: Σ length·e^(−odds·field).

    A rank's field is the net answers to the contexts that it denies and no other term does; a is
    at `rank` now. Gives the sum and the least field, which is `least` or smaller: the sum is to be
    multiplied by e^(−odds·least). What is negligible beside e^(−odds·least) is left out.
    """
    head = heads[a]
    n = heads[a + 1] - head
    edge = head + 2 * a
    far = table.shape[0] - 1
    field = 0
    total = 0.0
    for s in range(n + 1):
        length = edges[edge + s + 1] - edges[edge + s]
        if s >= first and length > 0.0:
            if field < least:
                total *= table[min(least - field, far)]
                least = field
            total += length * table[min(field - least, far)]
        if s < n:
            i = order[head + s]
            if denials[i] == (1 if s < rank or sole[i] else 0):
                field += net[i]
            if field - hope[head + s] - least > cut:
                break
    return total, least


@njit(cache=True)
def chance_of(prior: float, total: float, least: int, table: Floats) -> float:
    """Give the probability of a term by its prior odds and what `weigh` gave; no exponentials."""
    if prior == math.inf or prior == 0.0:
        return 1.0 if prior > 0.0 else 0.0
    power: float = table[min(abs(least), table.shape[0] - 1)]
    for_, against = (prior * total, power) if least < 0 else (prior * total * power, 1.0)
    return for_ / (for_ + against)


@njit(cache=True)
def pick(
    a: int,
    first: int,
    u: float,
    least: int,
    rank: int,
    heads: Ints,
    order: Ints,
    edges: Floats,
    net: Ints,
    denials: Ints,
    sole: Bools,
    table: Floats,
) -> int:
    """Give the rank at which the running sum of the weights, as in `weigh`, passes u."""
    head = heads[a]
    n = heads[a + 1] - head
    edge = head + 2 * a
    far = table.shape[0] - 1
    field = 0
    out = -1
    for s in range(n + 1):
        length = edges[edge + s + 1] - edges[edge + s]
        if s >= first and length > 0.0:
            w = length * table[min(field - least, far)]
            if w > 0.0 or out < 0:  # a word that is known to be denied may have no weight left
                out = s
            if u < w:
                break
            u -= w
        if s < n:
            i = order[head + s]
            if denials[i] == (1 if s < rank or sole[i] else 0):
                field += net[i]
    return out


@njit(cache=True)
def turn(a: int, rank: int, R: Ints, lists: Lists, net: Ints, denials: Ints, stale: Bools) -> None:
    """Give term a another rank; keep the counts right, and mark the terms that are stale by it."""
    heads, order, _, starts, ids, spots = lists
    old, new = max(R[a], 0), max(rank, 0)
    step = 1 if new > old else -1
    R[a] = rank
    for s in range(min(old, new), max(old, new)):
        i = order[heads[a] + s]
        others = denials[i] if step == 1 else denials[i] - 1
        denials[i] += step
        if net[i] == 0:
            continue
        if others == 0:
            mine = stale[a]
            for e in range(starts[i], starts[i + 1]):
                stale[ids[e]] = True
            stale[a] = mine
        elif others == 1:
            for e in range(starts[i], starts[i + 1]):
                if ids[e] != a and spots[e] < R[ids[e]]:
                    stale[ids[e]] = True
                    break


@njit(cache=True, inline="always")
def explain(
    i: int, u: float, R: Ints, lists: Lists, x: Scales, weight: Floats, least: Ints
) -> tuple[int, int, int]:
    """Draw the sole denied term of context i anew: any that is out and could deny it, at any rank.

    The others stay as they are, so this is a draw from a conditional distribution, too. weight and
    least: (A,) to work in. Gives the term that it was, the one that it is now, and its rank.
    """
    heads, order, edges, starts, ids, spots = lists
    net, prior, table, cut, hope, denials, sole = x
    first, last = starts[i], starts[i + 1]
    a, spot = -1, -1
    for e in range(first, last):
        if spots[e] < R[ids[e]]:
            a, spot = ids[e], spots[e]
    if prior[a] == math.inf:
        return a, a, R[a]
    for e in range(heads[a], heads[a] + R[a]):
        sole[order[e]] = True
    low = 0
    far = table.shape[0] - 1
    total = 0.0
    # First a itself: what is negligible beside it need not be summed up.
    _, low = weigh(a, spot + 1, 0, R[a], heads, order, edges, net, hope, cut, denials, sole, table)
    for e in range(first, last):
        k, b = e - first, ids[e]
        weight[k] = 0.0
        if b == a or R[b] < 0:
            weight[k], least[k] = weigh(
                b,
                spots[e] + 1,
                low,
                R[b],
                heads,
                order,
                edges,
                net,
                hope,
                cut,
                denials,
                sole,
                table,
            )
            total *= table[min(low - least[k], far)]
            low = least[k]
            if weight[k] > 0.0:
                total += prior[b] * weight[k]
    u *= total
    b, new = a, R[a]  # as it was, if u passes all by a rounding
    for k in range(last - first):
        if weight[k] > 0.0:
            power = prior[ids[first + k]] * table[min(least[k] - low, far)]
            if u < power * weight[k]:
                b = ids[first + k]
                new = pick(
                    b,
                    spots[first + k] + 1,
                    u / power,
                    least[k],
                    R[b],
                    heads,
                    order,
                    edges,
                    net,
                    denials,
                    sole,
                    table,
                )
                break
            u -= power * weight[k]
    for e in range(heads[a], heads[a] + R[a]):
        sole[order[e]] = False
    return a, b, new


@njit(cache=True)
def move(ranks: Ranks, lists: Lists, x: Scales, sweeps: int, key: np.uint64) -> None:
    """Move every set: `sweeps` times each term in turn, from its full conditional; see `gibbs`.

    ranks: (C, A); x: as `begin` gives it. A term is weighed anew only if what speaks for or against
    it has changed, in this set or since the set before. Each sweep ends with one denied context,
    picked at random: if it has exactly one denied term, that is drawn anew among all that could
    deny it.
    """
    C, A = ranks.shape
    heads, order, edges = lists.heads, lists.order, lists.edges
    net, prior, table, cut, hope, denials, sole = x
    R, stale = np.full(A, -1, np.int64), np.ones(A, np.bool_)
    total, chance, weight = np.empty(A), np.empty(A), np.empty(A)
    least, lows = np.zeros(A, np.int64), np.zeros(A, np.int64)
    denied = np.flatnonzero(net < 0)
    for c in range(C):
        for a in range(A):
            if R[a] != ranks[c, a]:
                turn(a, ranks[c, a], R, lists, net, denials, stale)
        own = bits_of(key, c)
        draw = 0
        for _ in range(sweeps):
            for a in range(A):
                if stale[a]:
                    total[a], least[a] = weigh(
                        a, 0, 0, R[a], heads, order, edges, net, hope, cut, denials, sole, table
                    )
                    chance[a] = chance_of(prior[a], total[a], least[a], table)
                    stale[a] = False
                draw += 1
                u = uniform(bits_of(own, draw))
                new = -1
                if u < chance[a]:
                    new = pick(
                        a,
                        0,
                        u / chance[a] * total[a],
                        least[a],
                        R[a],
                        heads,
                        order,
                        edges,
                        net,
                        denials,
                        sole,
                        table,
                    )
                if new != R[a]:
                    turn(a, new, R, lists, net, denials, stale)
            if denied.shape[0] > 0:
                i = denied[int(uniform(bits_of(own, draw + 1)) * denied.shape[0])]
                draw += 2
                if denials[i] == 1:
                    u = uniform(bits_of(own, draw))
                    a, b, new = explain(i, u, R, lists, x, weight, lows)
                    if b != a:
                        turn(a, -1, R, lists, net, denials, stale)
                    if new != R[b]:
                        turn(b, new, R, lists, net, denials, stale)
        for a in range(A):
            ranks[c, a] = R[a]


@njit(cache=True)
def draw_terms(ranks: Ranks, first: int, lists: Lists, x: Scales, key: np.uint64) -> None:
    """Draw the active terms from number `first` on, in every set, as if no other were denied."""
    heads, order, edges = lists.heads, lists.order, lists.edges
    net, prior, table, cut, hope, denials, sole = x
    for a in range(first, ranks.shape[1]):
        total, least = weigh(a, 0, 0, -1, heads, order, edges, net, hope, cut, denials, sole, table)
        chance = chance_of(prior[a], total, least, table)
        for c in range(ranks.shape[0]):
            u = uniform(bits_of(bits_of(key, c), a))
            ranks[c, a] = -1
            if u < chance:
                ranks[c, a] = pick(
                    a,
                    0,
                    u / chance * total,
                    least,
                    -1,
                    heads,
                    order,
                    edges,
                    net,
                    denials,
                    sole,
                    table,
                )


@njit(cache=True)
def cover(a: int, y: float, rank: int, spot: int, lists: Lists) -> float:
    """P(t > y) for term a at this rank, if `spot` of its values are at most y."""
    if rank != spot:
        return 0.0 if rank < spot else 1.0
    edge = lists.heads[a] + 2 * a + rank
    low, high = lists.edges[edge], lists.edges[edge + 1]
    return (high - y) / (high - low) if high > low else 0.0


@njit(cache=True)
def spots_of(own: Floats, ids: Ints, lists: Lists) -> Ints:
    """Give how many values of each of the active terms `ids` are at most the context's own."""
    out = np.zeros(ids.shape[0], np.int64)
    for k in range(ids.shape[0]):
        edge = lists.heads[ids[k]] + 2 * ids[k] + 1
        n = lists.heads[ids[k] + 1] - lists.heads[ids[k]]
        while out[k] < n and lists.edges[edge + out[k]] <= own[k]:
            out[k] += 1
    return out


@njit(cache=True)
def foretell(
    ranks: Ranks,
    ids: Ints,
    own: Floats,
    spots: Ints,
    lists: Lists,
    cleared: float,
    said: float,
    likelihood: Floats,
) -> None:
    """Fill P(the answer) by each set, for a context with the active terms `ids`.

    own, spots: its value of y for each, and `spots_of` them. cleared: probability that none of its
    other terms is denied. said: P(the answer) if the context is allowed; 1 − said if it is not.
    """
    for c in range(ranks.shape[0]):
        open_ = cleared
        for k in range(ids.shape[0]):
            if ranks[c, ids[k]] >= spots[k]:
                open_ *= 1.0 - cover(ids[k], own[k], ranks[c, ids[k]], spots[k], lists)
        likelihood[c] = open_ * said + (1.0 - open_) * (1.0 - said)


@njit(cache=True)
def split(
    ranks: Ranks,
    ids: Ints,
    own: Floats,
    spots: Ints,
    lists: Lists,
    cleared: float,
    said: float,
    key: np.uint64,
) -> None:
    """Make place for a new context among those of its active terms: give their ranks after it.

    Where t may be on either side of its y, the side is drawn given the answer; see `foretell`.
    """
    chance = np.empty(ids.shape[0])
    for c in range(ranks.shape[0]):
        open_ = 1.0
        for k in range(ids.shape[0]):
            chance[k] = cover(ids[k], own[k], ranks[c, ids[k]], spots[k], lists)
            open_ *= 1.0 - chance[k]
        draws = bits_of(key, c)
        free = open_ * (cleared * said + (1.0 - cleared) * (1.0 - said))
        shut = (1.0 - open_) * (1.0 - said)
        if uniform(bits_of(draws, 0)) * (free + shut) < free:
            continue  # none denies it, and all ranks stay
        # One at least does: term by term, given that there was none before it.
        none = True
        for k in range(ids.shape[0]):
            p = chance[k]
            if none and p > 0.0:
                p = p / max(1.0 - open_, p)
                open_ = open_ / (1.0 - chance[k]) if chance[k] < 1.0 else 1.0
            if uniform(bits_of(draws, k + 1)) < p:
                ranks[c, ids[k]] += 1
                none = False


@njit(cache=True)
def gather(ranks: Ranks, which: Ints, lists: Lists, terms: Terms) -> Chains:
    """Give the distinct sets of the sample, in the order in which they first occur."""
    C, A = ranks.shape
    marks = np.empty(C, np.uint64)
    source = np.empty(C, np.int64)
    count = np.zeros(C, np.int64)
    D = 0
    size = 0
    for c in range(C):
        mark = np.uint64(0)
        inside = 0
        for a in range(A):
            if ranks[c, a] >= 0:
                mark = mix(mark ^ bits_of(np.uint64(a), ranks[c, a]))
                inside += 1
        d = 0
        while d < D:
            if marks[d] == mark and (ranks[source[d]] == ranks[c]).all():
                break
            d += 1
        if d == D:
            marks[d], source[d] = mark, c
            D += 1
            size += inside
        count[d] += 1
    starts = np.zeros(D + 1, np.int64)
    holder, scope = np.empty(size, np.int64), np.empty(size, np.int64)
    low, high = np.empty(size), np.empty(size)
    at = 0
    for d in range(D):
        for a in range(A):
            rank = ranks[source[d], a]
            if rank >= 0:
                edge = lists.heads[a] + 2 * a + rank
                holder[at], scope[at] = terms.holder[which[a]], terms.scope[which[a]]
                low[at], high[at] = lists.edges[edge], lists.edges[edge + 1]
                at += 1
        starts[d + 1] = at
    return Chains(count[:D].copy(), starts, holder, scope, low, high)


@njit(cache=True)
def clear_terms(lists: Lists, net: Ints, odds: float, logit: Floats) -> Tails:
    """Weigh each term as if no other were denied: where it stands if it is under no suspicion.

    Segments beyond the first few allowed values have next to no mass, and are left out.
    """
    A = logit.shape[0]
    table = powers(odds)
    far = table.shape[0] - 1
    starts = np.zeros(A + 1, np.int64)
    edge, width, mass, beyond = np.empty((4, lists.edges.shape[0]))
    at = 0
    for a in range(A):
        head = lists.heads[a]
        n = lists.heads[a + 1] - head
        field = 0
        power = 1.0
        total = 0.0
        for s in range(n + 1):
            edge[at] = lists.edges[head + 2 * a + s + 1]
            width[at] = edge[at] - lists.edges[head + 2 * a + s]
            if width[at] > 0.0:
                mass[at] = width[at] * power
                total += mass[at]
                at += 1
            if s < n and logit[a] <= 700.0:  # nothing clears what is known to be denied
                field += net[lists.order[head + s]]
                power = table[min(field, far)]
                if power < NEGLIGIBLE:
                    break
        starts[a + 1] = at
        share = sigmoid(logit[a] + math.log(total)) / total if total > 0.0 else 0.0
        after = 0.0
        for k in range(at - 1, starts[a] - 1, -1):
            beyond[k] = after
            mass[k] *= share
            after += mass[k]
    return Tails(starts, edge[:at].copy(), width[:at].copy(), mass[:at].copy(), beyond[:at].copy())


@njit(cache=True)
def clearance(own: Ints, y: Floats, place: Ints, tails: Tails, terms: Terms) -> float:
    """Give P(none of the terms `own` of a context denies it), of those that are not sampled.

    place: (T,) number of each term among the tails, −1 if it has none.
    """
    open_ = 1.0
    for k in range(own.shape[0]):
        a = place[own[k]]
        if a < 0:
            continue
        value = y[terms.scope[own[k]]]
        for e in range(tails.starts[a], tails.starts[a + 1]):
            if value < tails.edge[e]:
                part = (tails.edge[e] - value) / tails.width[e]
                open_ *= 1.0 - (tails.beyond[e] + min(part, 1.0) * tails.mass[e])
                break
    return open_


@njit(cache=True)
def share_allowing(
    held: Bools, Y: Floats, chains: Chains, place: Ints, tails: Tails, terms: Terms, out: Floats
) -> None:
    """Fill P(allowed) of each context: t is integrated out between the values that were asked."""
    scratch = np.empty(place.shape[0], np.int64)
    C = 0
    for d in range(chains.alike.shape[0]):
        C += chains.alike[d]
    for i in range(held.shape[0]):
        own = scratch[: terms_of(held[i], (Y.shape[1] - 1) // 2, scratch)]
        rest = clearance(own, Y[i], place, tails, terms)
        sum_ = 0.0
        for d in range(chains.alike.shape[0]):
            open_ = 1.0 * chains.alike[d]
            for e in range(chains.starts[d], chains.starts[d + 1]):
                if chains.holder[e] < 0 or held[i, chains.holder[e]]:
                    y = Y[i, chains.scope[e]]
                    if y <= chains.low[e]:
                        open_ = 0.0
                        break
                    if y < chains.high[e]:
                        open_ *= (y - chains.low[e]) / (chains.high[e] - chains.low[e])
            sum_ += open_
        out[i] = sum_ / C * rest

"""Terms with thresholds: lists, weights and draws, each against the plain form of it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.kernels import bounds, gibbs, keys
from tests.conftest import check_counts, size


def terms_for(m: int, J: int, logit: float = 0.0) -> bounds.Terms:
    both = list(range(1, 2 * J + 1))
    holder = [*range(m), *[-1] * (2 * J), *(i for i in range(m) for _ in both)]
    scope = [0] * m + both * (m + 1)
    return bounds.Terms(np.array(holder), np.array(scope), np.full(len(scope), logit))


def contexts_for(rng, n: int, m: int, J: int, grid: int = 6):
    """Contexts with many equal values."""
    held = rng.random((n, m)) < 0.5
    x = rng.integers(0, grid + 1, (n, J)) / grid
    Y = np.zeros((n, 2 * J + 1))
    Y[:, 1::2], Y[:, 2::2] = x, 1.0 - x
    return held, Y


def scene(seed: int, n: int, m: int, J: int, logit: float = -1.0):
    """Lists of some of the terms, answers, and the terms of each context in words."""
    rng = np.random.default_rng(seed)
    terms = terms_for(m, J, logit)
    held, Y = contexts_for(rng, n, m, J)
    which = rng.permutation(len(terms.holder))[: rng.integers(1, len(terms.holder) + 1)]
    net = rng.integers(-2, 3, n)
    return rng, terms, held, Y, which, net, bounds.list_contexts(held, Y, which, terms)


def order_of(lists, a: int) -> list[int]:
    return [*map(int, lists.order[lists.heads[a] : lists.heads[a + 1]])]


def edges_of(lists, a: int) -> list[float]:
    return [*map(float, lists.edges[lists.heads[a] + 2 * a : lists.heads[a + 1] + 2 * a + 2])]


SCENES = st.tuples(st.integers(0, 10**6), st.integers(0, 8), st.integers(0, 2), st.integers(1, 2))


@given(st.integers(0, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_a_context_holds_a_term_if_it_holds_its_holder(m, J, seed) -> None:
    held = np.random.default_rng(seed).random(m) < 0.5
    terms = terms_for(m, J)
    out = np.empty(len(terms.holder), np.int64)
    n = bounds.terms_of(held, J, out)
    assert out[:n].tolist() == [t for t, h in enumerate(terms.holder) if h < 0 or held[h]]


@given(SCENES)
def test_contexts_are_listed_by_value_and_back(sizes) -> None:
    _, terms, held, Y, which, _, lists = scene(*sizes)
    n = len(held)
    back: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for a, t in enumerate(which):
        h, s = terms.holder[t], terms.scope[t]
        plain = sorted((i for i in range(n) if h < 0 or held[i, h]), key=lambda i: (Y[i, s], i))
        assert order_of(lists, a) == plain
        assert edges_of(lists, a) == [0.0, *Y[plain, s], 1.0]
        for spot, i in enumerate(plain):
            back[i].append((a, spot))
    for i, (low, high) in enumerate(itertools.pairwise(lists.starts)):
        pairs = zip(lists.ids[low:high].tolist(), lists.spots[low:high].tolist(), strict=True)
        assert list(pairs) == back[i]


def plain_weights(a: int, R, lists, net, odds: float) -> list[float]:
    """Weight of each rank of term a, given the others."""
    weights: list[float] = []
    field = 0.0
    edges = edges_of(lists, a)
    for s, length in enumerate(np.diff(edges)):
        weights.append(float(length) * math.exp(-odds * field))
        if s < len(edges) - 2:
            i = order_of(lists, a)[s]
            others = (b for b in range(len(R)) if b != a and R[b] > 0)
            if not any(i in order_of(lists, b)[: R[b]] for b in others):
                field += net[i]
    return weights


def counted(R, lists, n: int) -> np.ndarray:
    denials = np.zeros(n, np.int64)
    for a, rank in enumerate(R):
        for i in order_of(lists, a)[: max(rank, 0)]:
            denials[i] += 1
    return denials


def random_ranks(rng, lists) -> np.ndarray:
    return np.array([rng.integers(-1, n + 1) for n in np.diff(lists.heads)])


def weigh(a, first, least, R, lists, x):
    return bounds.weigh(
        a,
        first,
        least,
        R[a],
        lists.heads,
        lists.order,
        lists.edges,
        x.net,
        x.hope,
        x.cut,
        x.denials,
        x.sole,
        x.table,
    )


@given(SCENES, st.sampled_from([0.2, 2.0, 6.9]))
def test_a_term_is_weighed_by_the_contexts_that_no_other_denies(sizes, odds) -> None:
    rng, _, _, _, which, net, lists = scene(*sizes)
    R = random_ranks(rng, lists)
    x = bounds.begin(lists, net, odds, np.zeros(len(which)))
    x.denials[:] = counted(R, lists, len(net))
    for a in range(len(which)):
        plain = plain_weights(a, R, lists, net, odds)
        first = int(rng.integers(0, len(plain)))
        total, least = weigh(a, first, 0, R, lists, x)
        got = total * math.exp(-odds * least)
        assert got == pytest.approx(sum(plain[first:]), rel=1e-9, abs=1e-15)
        if total > 1e-12:
            u = rng.random()
            s = bounds.pick(
                a,
                first,
                u * total,
                least,
                R[a],
                lists.heads,
                lists.order,
                lists.edges,
                net,
                x.denials,
                x.sole,
                x.table,
            )
            below = sum(plain[first:s])
            assert plain[s] > 0.0
            assert below - 1e-9 <= u * sum(plain[first:]) <= (below + plain[s]) * (1 + 1e-9)


def test_odds_make_a_chance() -> None:
    table = bounds.powers(2.0)
    assert table[0] == 1.0
    assert table[-1] == 0.0
    for prior, total, least in itertools.product([0.1, 3.0], [0.2, 1.0], [-3, 0, 2]):
        odds = prior * total * math.exp(-2.0 * least)
        assert bounds.chance_of(prior, total, least, table) == pytest.approx(odds / (1 + odds))
    assert bounds.chance_of(0.1, 0.5, -(10**6), table) == 1.0
    assert bounds.chance_of(0.1, 0.5, 10**6, table) == 0.0
    assert bounds.chance_of(math.inf, 0.0, 10**6, table) == 1.0
    assert bounds.chance_of(0.0, 1.0, -(10**6), table) == 0.0


@given(SCENES)
def test_counts_are_kept_as_terms_turn_and_what_is_not_stale_still_holds(sizes) -> None:
    rng, _, _, _, which, net, lists = scene(*sizes)
    A, n = len(which), len(net)
    R, stale = np.full(A, -1), np.zeros(A, np.bool_)
    x = bounds.begin(lists, net, 2.0, np.zeros(A))
    known = [weigh(a, 0, 0, R, lists, x) for a in range(A)]
    for _ in range(8):
        a = int(rng.integers(0, A))
        rank = int(random_ranks(rng, lists)[a])
        bounds.turn(a, rank, R, lists, net, x.denials, stale)
        assert R[a] == rank
        assert x.denials.tolist() == counted(R, lists, n).tolist()
        for b in range(A):
            if stale[b]:
                known[b], stale[b] = weigh(b, 0, 0, R, lists, x), False
            assert weigh(b, 0, 0, R, lists, x) == pytest.approx(known[b])


def plain_posterior(lists, net, odds: float, prior) -> dict[tuple[int, ...], float]:
    """Weight of every set of ranks."""
    A, n = len(prior), len(net)
    out = {}
    for R in itertools.product(*(range(-1, k + 1) for k in np.diff(lists.heads))):
        w = 1.0
        for a in range(A):
            length = np.diff(edges_of(lists, a))[R[a]] if R[a] >= 0 else 0.0
            w *= prior[a] * length if R[a] >= 0 else 1.0 - prior[a]
        out[R] = w * math.exp(odds * sum(net[counted(R, lists, n) == 0]))
    total = sum(out.values())
    return {R: w / total for R, w in out.items() if w > 0.0}


def small_scene():
    terms = terms_for(1, 1)
    held = np.array([[True], [False], [True], [False]])
    x = np.array([0.2, 0.3, 0.7, 0.3])
    Y = np.column_stack([np.zeros(4), x, 1.0 - x])
    return terms, held, Y, np.array([-1, 1, -1, 0])


@pytest.mark.parametrize("error", [0.02, 0.3])
def test_sweeps_come_to_the_posterior_from_anywhere(error) -> None:
    """From the empty set, 40 sweeps, against all sets; the chains are independent: chi-square.

    Wrong once in a million.
    """
    terms, held, Y, net = small_scene()
    prior = np.array([0.3, 0.25, 0.25, 0.1, 0.1])
    which = np.arange(5)
    lists = bounds.list_contexts(held, Y, which, terms)
    odds = math.log((1 - error) / error)
    plain = plain_posterior(lists, net, odds, prior)
    n = size(20_000, 300)
    ranks = np.full((n, 5), -1, np.int32)
    x = bounds.begin(lists, net, odds, np.log(prior / (1 - prior)))
    bounds.move(ranks, lists, x, 40, np.uint64(9))
    number = {R: k for k, R in enumerate(plain)}
    seen = [number[tuple(row)] for row in ranks.tolist()]
    check_counts(np.bincount(seen, minlength=len(plain)), list(plain.values()))


def test_one_denial_moves_among_its_terms_though_the_prior_is_sparse() -> None:
    """All start at the word; word, bounds and both must come to be the one by their lengths.

    Independent chains, chi-square: wrong once in a million. One more term is known to be in, and
    one known to be out: they stay so.
    """
    terms = terms_for(1, 1)
    held, Y = np.array([[True]]), np.array([[0.0, 0.4, 0.6]])
    lists = bounds.list_contexts(held, Y, np.arange(5), terms)
    n = size(10_000, 500)
    ranks = np.full((n, 5), -1, np.int32)
    ranks[:, 0] = 1
    sparse = math.log(1e-9)
    x = bounds.begin(lists, np.array([-1]), 80.0, np.full(5, sparse))
    bounds.move(ranks, lists, x, 1, np.uint64(3))
    assert ((ranks == 1).sum(axis=1) == 1).all()
    lengths = np.array([1.0, 0.6, 0.4, 0.6, 0.4])
    check_counts((ranks == 1).sum(axis=0), lengths / lengths.sum())
    for net in (-30, 30):
        logit = np.array([gibbs.CERTAIN, sparse, sparse, -gibbs.CERTAIN, sparse])
        x = bounds.begin(lists, np.array([net]), 1.0, logit)
        few = np.full((50, 5), -1, np.int32)
        few[:, 0] = 1
        bounds.move(few, lists, x, 5, np.uint64(1))
        assert (few[:, 0] == 1).all()
        assert (few[:, 3] == -1).all()


def test_new_terms_are_drawn_as_if_there_were_no_other() -> None:
    """Chi-square for each of 4 terms at 1e-7: wrong once in 2.5e6."""
    terms, held, Y, net = small_scene()
    lists = bounds.list_contexts(held, Y, np.arange(5), terms)
    n = size(20_000, 500)
    ranks = np.full((n, 5), -7, np.int32)
    net = abs(net)
    x = bounds.begin(lists, net, 1.0, np.full(5, math.log(0.5)))
    bounds.draw_terms(ranks, 1, lists, x, np.uint64(5))
    assert (ranks[:, 0] == -7).all()  # was there before
    for a in range(1, 5):
        weights = [1.0, *(0.5 * w for w in plain_weights(a, [-1] * 5, lists, net, 1.0))]
        counts = np.bincount(ranks[:, a] + 1, minlength=len(weights))
        check_counts(counts, np.array(weights) / sum(weights), error=1e-7)


def test_a_new_context_splits_ranks_given_the_answer() -> None:
    """A word below t and a bound below t, both between .2 and .7; the new context is at .5.

    So either denies it with probability .4. Independent draws, 4 times chi-square at 1e-7: wrong
    once in 2.5e6.
    """
    terms, held, Y, _ = small_scene()
    which = np.array([1, 3])
    lists = bounds.list_contexts(held[[0, 2]], Y[[0, 2]], which, terms)
    ids, own = np.arange(2), np.array([0.5, 0.5])
    spots = bounds.spots_of(own, ids, lists)
    assert spots.tolist() == [1, 1]
    n = size(20_000, 500)
    d, error = 0.4, 0.1
    for allowed, cleared in itertools.product([True, False], [1.0, 0.7]):
        said = 1 - error if allowed else error
        ranks = np.ones((n, 2), np.int32)
        chance = np.empty(n)
        bounds.foretell(ranks, ids, own, spots, lists, cleared, said, chance)
        free = (1 - d) ** 2 * cleared
        assert chance == pytest.approx(free * said + (1 - free) * (1 - said))
        bounds.split(ranks, ids, own, spots, lists, cleared, said, np.uint64(4))
        weights = {
            (1, 1): (1 - d) ** 2 * (cleared * said + (1 - cleared) * (1 - said)),
            (1, 2): (1 - d) * d * (1 - said),
            (2, 1): (1 - d) * d * (1 - said),
            (2, 2): d * d * (1 - said),
        }
        counts = [(ranks == R).all(axis=1).sum() for R in weights]
        check_counts(counts, np.array([*weights.values()]) / sum(weights.values()), error=1e-7)


def test_a_new_context_leaves_ranks_below_it_and_moves_those_above() -> None:
    terms, held, Y, _ = small_scene()
    lists = bounds.list_contexts(held, Y, np.array([1]), terms)  # .2, .3, .3, .7
    ids = np.array([0])
    for y, spot in ((0.1, 0), (0.3, 3), (0.9, 4)):
        spots = bounds.spots_of(np.array([y]), ids, lists)
        assert spots.tolist() == [spot]
        ranks = np.array([[-1], [0], [1], [3], [4]], np.int32)
        bounds.split(ranks, ids, np.array([y]), spots, lists, 1.0, 0.5, np.uint64(1))
        moved = ranks[:, 0] - [-1, 0, 1, 3, 4]
        sure = [0 if r < spot else 1 for r in (-1, 0, 1, 3, 4)]
        free = [r == spot and y not in (0.2, 0.3, 0.7) for r in (-1, 0, 1, 3, 4)]
        assert all(m == s or f for m, s, f in zip(moved, sure, free, strict=True))


@given(SCENES)
def test_cleared_terms_and_distinct_sets_give_the_share_that_allows(sizes) -> None:
    """Against the plain mean over the sets and the plain product over cleared terms."""
    rng, terms, held, Y, which, net, lists = scene(*sizes)
    T, odds, C = len(terms.holder), 1.5, 12
    ranks = np.array([random_ranks(rng, lists) for _ in range(3)], np.int32)
    for a in range(len(which)):  # a set never holds a threshold where there is no room
        lengths = np.diff(edges_of(lists, a))
        for row in ranks:
            if row[a] >= 0 and lengths[row[a]] <= 0.0:
                row[a] = -1
    ranks = ranks[rng.integers(0, 3, C)]
    chains = bounds.gather(ranks, which, lists, terms)
    assert chains.alike.sum() == C
    assert len(chains.alike) == len({tuple(row) for row in ranks.tolist()})
    rest = np.setdiff1d(np.arange(T), which)
    net = abs(net)
    others = bounds.list_contexts(held, Y, rest, terms)
    tails = bounds.clear_terms(others, net, odds, terms.logit[rest])
    place = np.full(T, -1)
    place[rest] = np.arange(len(rest))
    new_held, new = contexts_for(rng, 4, held.shape[1], (Y.shape[1] - 1) // 2, grid=12)
    out = np.empty(4)
    bounds.share_allowing(new_held, new, chains, place, tails, terms, out)

    def beyond(edges, s: int, y: float) -> float:
        low, high = edges[s], edges[s + 1]
        return min(max((high - y) / (high - low), 0.0), 1.0) if high > low else 0.0

    for i in range(4):
        clear = 1.0
        for b, t in enumerate(rest):
            if terms.holder[t] >= 0 and not new_held[i, terms.holder[t]]:
                continue
            w = [math.exp(-1.0) * x for x in plain_weights(b, [-1] * T, others, net, odds)]
            y = new[i, terms.scope[t]]
            shut = sum(x * beyond(edges_of(others, b), s, y) for s, x in enumerate(w))
            clear *= 1.0 - shut / (1.0 + sum(w))
        mean = 0.0
        for row in ranks:
            free = 1.0
            for a, t in enumerate(which):
                if row[a] >= 0 and (terms.holder[t] < 0 or new_held[i, terms.holder[t]]):
                    free *= 1.0 - beyond(edges_of(lists, a), row[a], new[i, terms.scope[t]])
            mean += free / C
        assert out[i] == pytest.approx(mean * clear, abs=1e-12)


def test_equal_keys_give_equal_bits_and_other_keys_do_not() -> None:
    terms, held, Y, net = small_scene()
    lists = bounds.list_contexts(held, Y, np.arange(5), terms)
    runs = []
    for key in (1, 1, 2):
        ranks = np.full((40, 5), -1, np.int32)
        turn = np.uint64(keys.mix(np.uint64(key)))
        x = bounds.begin(lists, net, 1.0, np.zeros(5))
        bounds.move(ranks, lists, x, 2, turn)
        runs.append(ranks.tobytes())
    assert runs[0] == runs[1] != runs[2]

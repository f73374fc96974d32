"""Sets of denied terms: the kernels against sums over all sets, written out plainly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.kernels import gibbs, keys
from bridle.kernels import rulesets as kernel
from tests.conftest import size


def plain_terms(held, pairs):
    """Terms as frozensets of features, in the order of their numbers, and those held."""
    m = len(held)
    every = [frozenset([i]) for i in range(m)]
    if pairs:
        every += [frozenset(both) for both in itertools.combinations(range(m), 2)]
    have = set(np.flatnonzero(held).tolist())
    return [t for t, term in enumerate(every) if term <= have]


def plain_posterior(prior, contexts, answers, error):
    """The weight of every set, as a dict from frozensets of terms; terms by number."""
    T = len(prior)
    weights = {}
    for bits in itertools.product([False, True], repeat=T):
        S = frozenset(t for t in range(T) if bits[t])
        w = math.prod(prior[t] if t in S else 1.0 - prior[t] for t in range(T))
        for terms, allowed in zip(contexts, answers, strict=True):
            w *= 1.0 - error if S.isdisjoint(terms) == allowed else error
        weights[S] = w
    total = sum(weights.values())
    return {S: w / total for S, w in weights.items()}, total


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.booleans())
def test_the_terms_of_a_context_are_those_that_it_has_all_features_of(held, pairs) -> None:
    out = np.empty(100, np.int64)
    n = kernel.terms_of(np.array(held), pairs, out)
    assert out[:n].tolist() == plain_terms(held, pairs)
    if n < 60 and len(held) < 9:
        mask = kernel.masks_of(np.array([held]), pairs, 63)[0]
        assert mask == sum(1 << t for t in plain_terms(held, pairs))


@given(st.integers(1, 6), st.integers(0, 8), st.sampled_from([0.001, 0.1, 0.3]), st.data())
def test_the_exact_belief_is_the_sum_over_all_sets(T, n, error, data) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    prior = rng.uniform(0.05, 0.9, T)
    contexts = [np.flatnonzero(rng.random(T) < 0.5).tolist() for _ in range(n)]
    answers = (rng.random(n) < 0.5).tolist()
    weights, total = plain_posterior(prior, contexts, answers, error)
    wrong = np.zeros(1 << T, np.int64)
    for terms, allowed in zip(contexts, answers, strict=True):
        kernel.count_wrong(wrong, sum(1 << t for t in terms), allowed)
    inside = np.empty(1 << T)
    logs = kernel.log_priors(np.log(prior / (1.0 - prior)))
    log_total = kernel.weigh(logs, wrong, math.log((1.0 - error) / error), inside)
    scale = np.log(1.0 - prior).sum() + n * math.log(1.0 - error)
    assert log_total + scale == pytest.approx(math.log(total), abs=1e-9)
    for mask in range(1 << T):
        terms = [t for t in range(T) if mask >> t & 1]
        plain = sum(w for S, w in weights.items() if S.isdisjoint(terms))
        assert inside[(1 << T) - 1 ^ mask] == pytest.approx(plain, abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=2), st.floats(0, 1))
def test_information_is_that_of_answer_and_truth_and_rate(shares, weight) -> None:
    errors, weights = np.array([0.01, 0.2]), np.array([weight, 1.0 - weight])
    p, q, information = np.empty((3, 1))
    kernel.mix_errors(np.array(shares)[:, None], errors, weights, p, q, information)
    # The joint law of (rate, truth) and the answer, cell by cell.
    joint = [
        [w * truth * (1.0 - e if allowed else e), w * truth * (e if allowed else 1.0 - e)]
        for w, s, e in zip(weights, shares, errors, strict=True)
        for allowed, truth in ((True, s), (False, 1.0 - s))
    ]
    table = np.array(joint)
    apart = np.outer(table.sum(axis=1), table.sum(axis=0))
    some = table > 1e-12
    plain = (table[some] * np.log(table[some] / apart[some])).sum()
    assert p[0] == pytest.approx(np.dot(weights, shares), abs=1e-12)
    assert q[0] == pytest.approx(table[:, 0].sum(), abs=1e-12)
    assert information[0] == pytest.approx(plain, abs=1e-9)
    assert information[0] >= 0.0


def test_a_mixture_of_one_kind_is_that_kind() -> None:
    P = np.array([[0.2, 0.9]])
    Q = np.array([[0.21, 0.89]])
    each = np.array([[0.3, 0.1]])
    sds = np.array([[0.1, 0.3]])
    p, information, sd = np.empty((3, 2))
    kernel.mix_members(P, Q, each, sds, np.ones(1), p, information, sd)
    assert p.tolist() == P[0].tolist()
    assert sd == pytest.approx(sds[0], abs=1e-12)
    assert information == pytest.approx(each[0], abs=1e-12)


def test_two_sure_kinds_that_disagree_leave_one_bit() -> None:
    P = np.array([[0.0], [1.0]])
    none = np.zeros((2, 1))
    p, information, sd = np.empty((3, 1))
    kernel.mix_members(P, P, none, none, np.array([0.5, 0.5]), p, information, sd)
    assert p[0] == sd[0] == 0.5
    assert information[0] == pytest.approx(math.log(2.0), abs=1e-12)


# Sampling


@given(st.integers(1, 8), st.integers(0, 9), st.booleans(), st.integers(0, 10**6))
def test_contexts_and_terms_are_indexed_both_ways(m, n, pairs, seed) -> None:
    rng = np.random.default_rng(seed)
    held = rng.random((n, m)) < 0.5
    T = m + m * (m - 1) // 2 if pairs else m
    active = rng.permutation(T)[: rng.integers(0, T + 1)]
    place = np.full(T, -1)
    place[active] = np.arange(len(active))
    starts, ids = gibbs.index_contexts(held, pairs, place)
    plain = [[place[t] for t in plain_terms(row, pairs) if place[t] >= 0] for row in held]
    assert [ids[a:b].tolist() for a, b in itertools.pairwise(starts)] == plain
    heads, contexts = gibbs.index_terms(starts, ids, len(active))
    assert [contexts[a:b].tolist() for a, b in itertools.pairwise(heads)] == [
        [i for i in range(n) if t in plain[i]] for t in range(len(active))
    ]


@given(st.integers(1, 7), st.integers(0, 8), st.integers(0, 10**6))
def test_what_speaks_for_each_term_is_kept_as_terms_turn(A, n, seed) -> None:
    rng = np.random.default_rng(seed)
    lists = [np.flatnonzero(rng.random(A) < 0.5).tolist() for _ in range(n)]
    net = rng.integers(-2, 3, n)
    starts = np.cumsum([0, *map(len, lists)])
    ids = np.array([t for terms in lists for t in terms], np.int64)
    heads, contexts = gibbs.index_terms(starts, ids, A)
    S = np.zeros(A, np.bool_)
    count = np.zeros(n, np.int64)
    field = np.array([sum(net[i] for i in range(n) if t in lists[i]) for t in range(A)], np.int64)
    for t in rng.integers(0, A, 12):
        step = -1 if S[t] else 1
        gibbs.turn(t, step, S, starts, ids, heads, contexts, net, count, field)
        assert S[t] == (step == 1)
        assert count.tolist() == [int(S[terms].sum()) for terms in lists]
        for s in range(A):
            mine = [i for i in range(n) if s in lists[i]]
            alone = [i for i in mine if not any(S[r] for r in lists[i] if r != s)]
            assert field[s] == sum(net[i] for i in alone)


def test_sweeps_leave_the_posterior_as_it_is_and_come_to_it_from_anywhere() -> None:
    """Chains started at the empty set, far from the posterior, against all 64 sets.

    The chains are independent: the count of each term is binomial. 8 bounds at 5.5 standard
    deviations: wrong once in 3e6.
    """
    prior = np.array([0.3, 0.3, 0.1, 0.1, 0.05, 0.05])
    contexts = [[0, 1, 2], [1, 3], [2, 4, 5], [0, 4]]
    answers = [False, True, False, True]
    error = 0.05
    weights, _ = plain_posterior(prior, contexts, answers, error)
    starts = np.cumsum([0, *map(len, contexts)])
    ids = np.array([t for terms in contexts for t in terms])
    heads, back = gibbs.index_terms(starts, ids, 6)
    net, odds = np.where(answers, 1, -1), math.log((1.0 - error) / error)
    n = size(20_000, 300)
    sets = np.zeros((n, 6), np.bool_)
    logit = np.log(prior / (1.0 - prior))
    gibbs.move(sets, starts, ids, heads, back, net, odds, logit, 60, np.uint64(7))
    for t in range(6):
        p = sum(w for S, w in weights.items() if t in S)
        assert abs(sets[:, t].mean() - p) < 5.5 * math.sqrt(p * (1.0 - p) / n) + 1e-3
    for terms in ([0, 2], [1, 2, 5]):
        p = sum(w for S, w in weights.items() if S.isdisjoint(terms))
        seen = (~sets[:, terms].any(axis=1)).mean()
        assert abs(seen - p) < 5.5 * math.sqrt(p * (1.0 - p) / n) + 1e-3


def test_one_denial_moves_among_its_terms_though_the_prior_is_sparse() -> None:
    """All start at term 0 of ten alike; each must come to be the one in equal shares.

    Chi-square by hand: each of ten counts within 5.5 standard deviations, wrong once in 2.6e6.
    """
    n = size(10_000, 500)
    sets = np.zeros((n, 10), np.bool_)
    sets[:, 0] = True
    starts, ids = np.array([0, 10]), np.arange(10)
    heads, back = gibbs.index_terms(starts, ids, 10)
    logit = np.full(10, math.log(1e-9))
    gibbs.move(sets, starts, ids, heads, back, np.array([-1]), 80.0, logit, 1, np.uint64(3))
    assert (sets.sum(axis=1) == 1).all()
    assert (abs(sets.mean(axis=0) - 0.1) < 5.5 * math.sqrt(0.09 / n)).all()


def test_known_terms_never_move() -> None:
    sets = np.zeros((50, 3), np.bool_)
    sets[:, 0] = True
    starts, ids = np.array([0, 3]), np.arange(3)
    logit = np.array([gibbs.CERTAIN, -gibbs.CERTAIN, 0.0])
    heads, back = gibbs.index_terms(starts, ids, 3)
    for net in (-30, 30):
        gibbs.move(sets, starts, ids, heads, back, np.array([net]), 1.0, logit, 5, np.uint64(1))
        assert sets[:, 0].all()
        assert not sets[:, 1].any()


@given(st.lists(st.sampled_from([0.001, 0.999]), min_size=1, max_size=30), st.integers(0, 2**63))
def test_a_redraw_copies_each_set_as_often_as_its_share_says(likelihood, key) -> None:
    n = len(likelihood)
    sets = np.eye(n, dtype=np.bool_)
    w = np.array(likelihood)
    gibbs.redraw(sets, w, np.uint64(key))
    copies = sets.sum(axis=0)
    assert (sets.sum(axis=1) == 1).all()
    assert (abs(copies - n * w / w.sum()) < 1.0 + 1e-9).all()
    if len(set(likelihood)) == 1:
        assert (sets == np.eye(n, dtype=np.bool_)).all()


def test_terms_are_drawn_by_their_log_odds() -> None:
    n = size(20_000, 1_000)
    sets = np.zeros((n, 4), np.bool_)
    logit = np.array([9.0, math.log(0.25 / 0.75), -gibbs.CERTAIN, gibbs.CERTAIN])
    gibbs.draw_terms(sets, 1, logit, np.uint64(5))
    assert not sets[:, 0].any()  # was there before
    # Binomial, 5.2 standard deviations: wrong once in 5e6.
    assert abs(sets[:, 1].mean() - 0.25) < 5.2 * math.sqrt(0.25 * 0.75 / n)
    assert not sets[:, 2].any()
    assert sets[:, 3].all()


def test_sets_foretell_and_share() -> None:
    sets = np.array([[True, False], [False, False], [False, True], [False, False]])
    likelihood = np.empty(4)
    mean = gibbs.foretell(sets, np.array([0]), 0.5, 0.1, likelihood)
    assert likelihood == pytest.approx([0.1, 0.5, 0.5, 0.5])
    assert mean == pytest.approx(0.4)
    held = np.array([[True, False, False], [True, False, True], [True, True, True]])
    place, log_out = np.array([0, 1, -1]), np.array([9.0, 9.0, math.log(0.5)])
    out = np.empty(3)
    gibbs.share_allowing(sets, held, False, place, log_out, out)
    assert out == pytest.approx([0.75, 0.375, 0.25])


def test_equal_keys_give_equal_bits_and_other_keys_do_not() -> None:
    starts, ids = np.array([0, 5]), np.arange(5)
    heads, back = gibbs.index_terms(starts, ids, 5)
    runs = []
    for key in (1, 1, 2):
        sets = np.zeros((40, 5), np.bool_)
        turn = np.uint64(keys.mix(np.uint64(key)))
        gibbs.move(sets, starts, ids, heads, back, np.array([-3]), 1.0, np.zeros(5), 2, turn)
        runs.append(sets.tobytes())
    assert runs[0] == runs[1] != runs[2]

"""Classes of arms: every number held against a plain sum, and the draws against their exact law."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.kernels import found as kernel
from tests.conftest import check_counts, size

ERROR = 0.1


def powers(error: float = ERROR):
    power = (error / (1.0 - error)) ** np.arange(200.0)
    power[-1] = 0.0
    return power


def prior_of(T: int, density: float = 0.3):
    ones = np.array([bin(S).count("1") for S in range(1 << T)])
    return density**ones * (1.0 - density) ** (T - ones)


def state(seed: int, K: int, T: int, C: int, most: int = 4):
    """Counts of wrong answers, likelihoods and classes, as they may come; arm 1 was not asked."""
    rng = np.random.default_rng(seed)
    wrong = rng.integers(0, most, (K, 1 << T)).astype(np.int32)
    asked = np.delete(np.arange(K), 1)
    wrong[1] = 0
    like = powers()[np.minimum(wrong - wrong.min(axis=1, keepdims=True), 199)]
    classes = np.full((C, K), -1)
    classes[:, asked] = rng.integers(0, 3, (C, len(asked)))
    for row in classes:
        row[asked] = numbered(row[asked])
    return wrong, like, classes, asked


def numbered(labels):
    names: dict[int, int] = {}
    return [names.setdefault(int(c), len(names)) for c in labels]


def partitions(n: int):
    """All ways to put n arms into classes, numbered as they first occur."""
    rows = [[0]]
    for _ in range(n - 1):
        rows = [[*row, c] for row in rows for c in range(max(row) + 2)]
    return rows


def class_weights(members, wrong, prior):
    """Unnormalised weight of each rule for a class of these arms."""
    return prior * np.prod([(ERROR / (1 - ERROR)) ** wrong[k] for k in members], axis=0)


def crp(row, alpha):
    """Probability of a partition under the Chinese restaurant process."""
    out, seen = 1.0, list[int]()
    for i, c in enumerate(row):
        out *= (seen.count(c) or alpha) / (i + alpha)
        seen.append(c)
    return out


@given(st.integers(0, 10**6), st.integers(1, 40))
def test_sums_in_strands_are_sums(seed, n) -> None:
    v, w = np.random.default_rng(seed).random((2, n))
    assert kernel.total_of(v) == pytest.approx(math.fsum(v), rel=1e-14)
    assert kernel.dot(v, w) == pytest.approx(math.fsum(v * w), rel=1e-14)


@given(st.integers(0, 10**6), st.integers(0, 4), st.sampled_from([3, 1000]))
def test_a_class_weighs_each_rule_by_the_answers_against_it(seed, T, most) -> None:
    tally = np.random.default_rng(seed).integers(0, most, 1 << T).astype(np.int32)
    prior, w = prior_of(T), np.empty(1 << T)
    kernel.weigh_class(prior, tally, powers(), w)
    logs = np.log(prior) + (tally - tally.min()) * math.log(ERROR / (1 - ERROR))
    plain = np.exp(logs)
    assert w == pytest.approx(plain / plain.sum(), rel=1e-12, abs=1e-150)


@given(st.integers(0, 10**6), st.integers(0, 5))
def test_sums_within_are_sums_over_all_subsets(seed, T) -> None:
    v = np.random.default_rng(seed).random(1 << T)
    out = v.copy()
    kernel.sum_within(out)
    plain = [sum(v[S] for S in range(1 << T) if S & ~M == 0) for M in range(1 << T)]
    assert out == pytest.approx(np.array(plain) / v.sum(), rel=1e-12)
    assert out[-1] == 1.0


@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([2, 4, 400]))
def test_beliefs_are_exact_given_the_classes_of_the_others(seed, K, most) -> None:
    # Up to 400 answers against a rule: weights underflow, and no division by them is sound.
    T, C, alpha = 2, 3, 0.7
    wrong, like, classes, asked = state(seed, K, T, C, most)
    prior, power = prior_of(T), powers()
    inside, unseen = np.full((K, 1 << T), np.nan), np.empty(1 << T)
    kernel.believe(classes, asked, wrong, like, prior, power, alpha, inside, unseen)
    assert np.isnan(inside[1]).all()  # it is no row of theirs

    def posterior(z, members, own):
        """Posterior of a rule, given the classes of `members`, by a sum over all it may join."""
        total = alpha * prior
        for c in {z[j] for j in members}:
            w, these = np.empty(1 << T), [j for j in members if z[j] == c]
            kernel.weigh_class(prior, wrong[these].sum(axis=0, dtype=np.int32), power, w)
            total = total + len(these) * w
        return total * own / (total * own).sum()

    def within(rows):
        v = np.mean(rows, axis=0)
        return [sum(v[S] for S in range(1 << T) if S & ~M == 0) for M in range(1 << T)]

    assert unseen == pytest.approx(within([posterior(z, asked, 1.0) for z in classes]), abs=1e-9)
    for k in asked:
        rest = asked[asked != k]
        plain = within([posterior(z, rest, like[k]) for z in classes])
        assert inside[k] == pytest.approx(plain, abs=1e-9)


@given(st.integers(0, 10**6), st.integers(2, 6))
def test_arms_share_a_rule_in_one_class_or_by_chance(seed, K) -> None:
    T, C = 2, 4
    wrong, _, classes, asked = state(seed, K, T, C)
    prior, n = prior_of(T), len(asked)
    out = np.empty((n, n))
    kernel.share_rules(classes, asked, wrong, prior, powers(), out)
    plain = np.zeros((n, n))
    for z in classes:
        for i, k in enumerate(asked):
            for j, other in enumerate(asked):
                w = [
                    class_weights([a for a in asked if z[a] == z[b]], wrong, prior)
                    for b in (k, other)
                ]
                chance = (w[0] / w[0].sum()) @ (w[1] / w[1].sum())
                plain[i, j] += (1.0 if z[k] == z[other] else chance) / C
    assert out == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_chains_come_to_the_exact_law_of_who_goes_together(alpha) -> None:
    # Error probability 1e-6 each, by chi-square. The likelihoods are weak, so that chains forget
    # where they came from within a few of these rounds of 5 draws.
    T, K = 1, 4
    C, rounds = size(40_000, 400), size(20, 6)
    wrong = np.array([[0, 1], [1, 0], [0, 1], [0, 0]], np.int32)
    prior, power = prior_of(T), powers()
    like = power[wrong - wrong.min(axis=1, keepdims=True)]
    classes, asked = np.full((C, K), -1), np.arange(K)
    for first in range(K):  # arms come one by one
        key = np.uint64(100 + first)
        own = np.arange(first + 1)
        kernel.move(classes, own, first, 1, wrong, like, prior, power, alpha, key)
    for turn in range(rounds):
        key = np.uint64(turn + 1)
        kernel.move(classes, asked, turn % K, K, wrong, like, prior, power, alpha, key)
    rows = partitions(K)
    chance = []
    for row in rows:
        groups = [[k for k in range(K) if row[k] == c] for c in set(row)]
        fits = [class_weights(group, wrong, prior).sum() for group in groups]
        chance.append(crp(row, alpha) * math.prod(fits))
    at = {tuple(row): i for i, row in enumerate(rows)}
    counts = np.zeros(len(rows))
    for row in classes.tolist():  # any other numbering would be no key here
        counts[at[tuple(row)]] += 1
    check_counts(counts, np.array(chance) / math.fsum(chance))


@given(st.integers(0, 10**6), st.integers(0, 2**64 - 1))
def test_draws_are_a_function_of_the_key_chain_by_chain(seed, key) -> None:
    T, K, C = 2, 5, 4
    wrong, like, classes, asked = state(seed, K, T, C)
    prior, power = prior_of(T), powers()
    more, fewer = classes.copy(), classes[:2].copy()
    kernel.move(more, asked, 0, 3, wrong, like, prior, power, 1.0, np.uint64(key))
    kernel.move(fewer, asked, 0, 3, wrong, like, prior, power, 1.0, np.uint64(key))
    assert more[:2].tolist() == fewer.tolist()
    assert (more[:, 1] == -1).all()
    for row in more:
        assert row[asked].tolist() == numbered(row[asked])

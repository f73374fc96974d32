"""The mixture's kernels against plain numpy: the formulas as they are written down."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, xlogy

from bridle.kernels import mixture as kernel


def plain_weights(evidence, prior, eta):
    """SPEC 11.2, in probabilities and not in logs."""
    e = np.exp(evidence)
    Z = e @ prior
    stays = (1 - eta) * e
    L = np.log(prior) + np.log(stays + eta * Z[:, None]).sum(axis=0)
    shared = np.exp(L - logsumexp(L))
    s = stays / (stays + eta * Z[:, None])
    apart = ((1 - s) * shared).sum(axis=1)
    return shared * s + apart[:, None] * prior * e / Z[:, None], shared


def weighed(evidence, prior, eta=0.1):
    U, M = evidence.shape
    weights, shared = np.empty((U, M)), np.empty(M)
    kernel.weigh(evidence, np.log(prior), eta, weights, shared)
    return weights, shared


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 6))
def test_weights_are_those_of_the_formula(seed, U, M):
    rng = np.random.default_rng(seed)
    evidence = -rng.exponential(8.0, (U, M))
    prior = rng.dirichlet(np.ones(M))
    eta = float(rng.uniform(0.01, 0.5))
    weights, shared = weighed(evidence, prior, eta)
    expected, together = plain_weights(evidence, prior, eta)
    assert weights == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert shared == pytest.approx(together, rel=1e-9, abs=1e-12)
    assert weights.sum(axis=1) == pytest.approx(np.ones(U), abs=1e-12)
    assert shared.sum() == pytest.approx(1.0, abs=1e-12)


def test_without_answers_the_weights_are_the_prior():
    prior = np.array([0.2, 0.5, 0.3])
    weights, shared = weighed(np.zeros((3, 3)), prior)
    assert shared == pytest.approx(prior)
    assert weights == pytest.approx(np.tile(prior, (3, 1)))


def test_evidence_far_below_what_a_float_holds_is_weighed():
    weights, shared = weighed(np.array([[-3000.0, -3010.0], [-2500.0, -2400.0]]), np.full(2, 0.5))
    assert np.isfinite(weights).all() and weights.sum(axis=1) == pytest.approx(np.ones(2))
    assert weights[0, 0] > 0.99 and weights[1, 1] > 0.99  # each its own kind: it may deviate
    assert shared.sum() == pytest.approx(1.0)


def test_a_unit_of_which_nothing_was_said_follows_the_others():
    evidence = np.array([[0.0, -20.0], [0.0, -20.0], [0.0, 0.0]])
    weights, _ = weighed(evidence, np.full(2, 0.5))
    # A unit of the shared kind has it with .9 + .1 / 2; that the others both deviate is rare.
    shared = 1.0 / (1.0 + (0.05 / 0.95) ** 2)
    assert weights[2, 0] == pytest.approx(0.95 * shared + 0.05 * (1.0 - shared), abs=1e-6)


class Plain:
    """One member and unit after the other, from the list of its answers."""

    def __init__(self, answers, a, b, rare):
        self.none = self.some = self.odds = 0.0
        for q, allowed in answers:
            rate = (a + self.some) / (a + b + self.none + self.some)
            if allowed:
                self.none += 1
                self.odds += math.log((1 - rate) / (1 - rare))
            else:
                by_exception = q * rate / (1 - q + q * rate)
                self.odds += math.log((1 - q + q * rate) / (1 - q + q * rare))
                self.some += by_exception
        self.own = (a + self.some) / (a + b + self.none + self.some)


@given(st.integers(0, 2**32 - 1))
def test_exceptions_are_counted_and_rated_as_written_down(seed):
    rng = np.random.default_rng(seed)
    M, U, a, b, rare, exact = 3, 2, 0.5, 4.5, 1e-3, 0.8
    tallies = np.zeros((3, M, U))
    heard: dict[tuple[int, int], list[tuple[float, bool]]] = {
        (m, u): [] for m in range(M) for u in range(U)
    }
    for _ in range(int(rng.integers(0, 25))):
        u, allowed = int(rng.integers(U)), bool(rng.random() < 0.7)
        Q = rng.uniform(0.001, 0.999, M)
        kernel.count(tallies, u, Q, allowed, rare, a, b)
        for m in range(M):
            heard[m, u].append((Q[m], allowed))
    rates = np.empty((M, U))
    kernel.exceptions(tallies, exact, rare, a, b, rates)
    for m in range(M):
        units = [Plain(heard[m, u], a, b, rare) for u in range(U)]
        odds = (1 - exact) / exact * math.exp(sum(unit.odds for unit in units))
        some = odds / (1 + odds)
        for u, unit in enumerate(units):
            assert tallies[:, m, u] == pytest.approx([unit.none, unit.some, unit.odds], rel=1e-9)
            assert rates[m, u] == pytest.approx(some * unit.own + (1 - some) * rare, rel=1e-9)


def test_rules_that_were_confirmed_are_trusted_to_the_letter_and_one_exception_ends_it():
    tallies, rates = np.zeros((3, 1, 2)), np.empty((1, 2))

    def rate():
        kernel.exceptions(tallies, 0.8, 1e-3, 0.5, 4.5, rates)
        return rates[0].tolist()

    assert rate() == pytest.approx([0.2 * 0.1 + 0.8 * 0.001] * 2)  # above a doubt of 1 %
    for _ in range(5):
        kernel.count(tallies, 0, np.array([0.999]), True, 1e-3, 0.5, 4.5)
    assert max(rate()) < 0.02 and rate()[0] < rate()[1]  # its own answers say more
    kernel.count(tallies, 0, np.array([0.999]), False, 1e-3, 0.5, 4.5)
    assert rate()[0] > 0.1 and rate()[1] > 0.08  # and in the other unit they are expected, too
    tallies[2] = -400.0  # far more than any teacher could say
    assert rate() == [1e-3, 1e-3]


def entropy(p):
    return -xlogy(p, p) - xlogy(1 - p, 1 - p)


@given(st.integers(0, 2**32 - 1))
def test_the_mean_the_information_and_the_spread_of_a_mixture(seed):
    rng = np.random.default_rng(seed)
    M, U, n, least, floor = 3, 2, 4, 1e-3, 0.05
    P, Q = rng.random((2, M, U, n))
    P[0, 0, 0], Q[1, 1, 1] = 1.0, 0.0  # kept inside the floor
    each, sds = rng.random((2, M, U, n)) * 0.3
    rates, weights = rng.random((M, U)) * 0.2, rng.dirichlet(np.ones(M), U)
    p, information, sd = np.empty((3, U, n))
    kernel.mix(P, Q, each, sds, rates, weights, least, floor, p, information, sd)
    here = np.clip(P * (1 - rates[:, :, None]), least, 1 - least)
    there = np.clip(Q * (1 - rates[:, :, None]), floor, 1 - floor)
    w = weights.T[:, :, None]
    mean, said = (w * here).sum(axis=0), (w * there).sum(axis=0)
    left = (w * np.maximum(entropy(there) - each, 0.0)).sum(axis=0)
    square = (w * (sds**2 + here**2)).sum(axis=0)
    assert p == pytest.approx(mean, abs=1e-12)
    assert information == pytest.approx(np.maximum(0.0, entropy(said) - left), abs=1e-12)
    assert sd == pytest.approx(np.sqrt(np.maximum(0.0, square - mean**2)), abs=1e-7)

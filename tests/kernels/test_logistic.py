"""The logistic kernels against scipy's optimiser and against integrals on a grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm

from bridle.kernels import logistic as kernel
from tests.conftest import JIT, size


def plain_expand(C: np.ndarray, crosses: bool) -> np.ndarray:
    n, d = C.shape
    pairs = [C[:, i] * C[:, j] for i in range(d) for j in range(i + 1, d)] if crosses else []
    return np.column_stack([C, np.ones(n), *pairs])


def fitted(C, yes, no, crosses=False, sd=3.0):
    D = plain_expand(C[:1], crosses).shape[1]
    w, cov = np.empty(D), np.empty((D, D))
    steps = kernel.fit(
        np.ascontiguousarray(C, float),
        np.asarray(yes, float),
        np.asarray(no, float),
        crosses,
        1.0 / sd**2,
        w,
        cov,
    )
    return w, cov, steps


class Plain:
    """The log posterior of 7.1, its slope and its curvature, as they stand in the specification."""

    def __init__(self, C, yes, no, crosses=False, sd=3.0):
        self.X = plain_expand(np.asarray(C, float), crosses)
        self.yes, self.no = np.asarray(yes, float), np.asarray(no, float)
        self.precision = 1.0 / sd**2

    def value(self, w):
        m = self.X @ w
        likelihood = -self.yes @ np.logaddexp(0.0, -m) - self.no @ np.logaddexp(0.0, m)
        return float(likelihood - 0.5 * self.precision * w @ w)

    def slope(self, w):
        m = self.X @ w
        return self.X.T @ (self.yes * expit(-m) - self.no * expit(m)) - self.precision * w

    def curvature(self, w):
        m = self.X @ w
        weight = (self.yes + self.no) * expit(m) * expit(-m)
        return (self.X.T * weight) @ self.X + self.precision * np.eye(len(w))

    def best(self):
        # A trust region never fails on a concave function, and has no step of ours in it.
        found = minimize(
            lambda w: -self.value(w),
            np.zeros(self.X.shape[1]),
            jac=lambda w: -self.slope(w),
            hess=self.curvature,
            method="trust-exact",
            options={"gtol": 1e-8, "maxiter": 10_000},
        )
        return found.x


def check_fit(C, yes, no, crosses=False, sd=3.0, far=1e-6) -> None:
    """Assert that the slope vanishes at w, and that C is the inverse of the curvature there."""
    w, cov, steps = fitted(C, yes, no, crosses, sd)
    plain = Plain(C, yes, no, crosses, sd)
    H = plain.curvature(w)
    g = plain.slope(w)
    # What is left to go, in posterior standard deviations.
    assert np.sqrt(g @ np.linalg.solve(H, g)) <= far
    assert np.array_equal(cov, cov.T)
    # In the coordinates in which H is the identity, whatever the scales of the features.
    L = np.linalg.cholesky(H)
    assert L.T @ cov @ L == pytest.approx(np.eye(len(w)), abs=1e-5)
    assert steps < kernel.MAX_STEPS


@st.composite
def counts(draw, most=12):
    """Random counts: binary or real contexts, some separable, some of a million answers."""
    seed = draw(st.integers(0, 2**32 - 1))
    n, d = draw(st.integers(1, most)), draw(st.integers(1, 5))
    rng = np.random.default_rng(seed)
    if draw(st.booleans()):
        C = (rng.random((n, d)) < 0.5).astype(float)
    else:
        C = rng.standard_normal((n, d)) * draw(st.sampled_from([0.01, 1.0, 30.0]))
    scale = draw(st.sampled_from([1, 20, 10**6]))
    total = rng.integers(1, scale + 1, n)
    if draw(st.booleans()):  # answers that a plane parts
        yes = np.where(C @ rng.standard_normal(d) >= 0.0, total, 0)
    else:
        yes = rng.integers(0, total + 1)
    return C, yes, total - yes, draw(st.booleans()), draw(st.sampled_from([0.5, 3.0, 30.0]))


@given(counts())
def test_the_fit_is_the_highest_posterior(case) -> None:
    check_fit(*case)


@given(counts(most=6))
def test_the_fit_is_where_an_optimiser_ends(case) -> None:
    w, _, _ = fitted(*case)
    plain = Plain(*case)
    assert plain.value(w) >= plain.value(plain.best()) - 1e-9 * (1.0 + abs(plain.value(w)))


@pytest.mark.parametrize("kind", ["parted", "mixed", "one side"])
@pytest.mark.parametrize("d", [41, 200])
@pytest.mark.skipif(not JIT, reason="hours in plain Python")
def test_many_features(d, kind) -> None:
    rng = np.random.default_rng(d)
    for C in (rng.standard_normal((300, d)), (rng.random((300, d)) < 0.1).astype(float)):
        if kind == "one side":
            yes = np.full(300, 5)
        elif kind == "parted":
            yes = 5 * (C @ rng.standard_normal(d) > 0.0)
        else:
            yes = rng.integers(0, 6, 300)
        check_fit(C, yes, 5 - yes)


@pytest.mark.skipif(not JIT, reason="hours in plain Python")
def test_crosses_of_forty_one_features() -> None:
    rng = np.random.default_rng(7)
    C = (rng.random((150, 41)) < 0.08).astype(float)
    yes = 4 * ~((C[:, 0] > 0.0) & (C[:, 1] > 0.0))
    check_fit(C, yes, 4 - yes, crosses=True)


@pytest.mark.parametrize("crosses", [False, True])
def test_huge_and_tiny_features_give_an_answer(crosses) -> None:
    # Scores of a million beside scores of one: rounding may keep Newton from being done.
    C = np.array([[1e6, 1.0], [1.0, -1e6], [1e-6, 1e6], [1.0, 0.0], [-1e6, -1e6]])
    for yes in ([1, 0, 1, 1, 0], [10**6, 3, 0, 10**6, 1], [5, 5, 5, 5, 5]):
        no = [10**6, 2, 0, 0, 7]
        w, cov, steps = fitted(C, yes, no, crosses)
        assert np.isfinite(w).all() and np.isfinite(cov).all()
        assert (np.diag(cov) > 0.0).all() and (np.diag(cov) <= 9.0 * (1.0 + 1e-9)).all()
        assert steps <= kernel.MAX_STEPS
        assert Plain(C, yes, no, crosses).value(w) >= Plain(C, yes, no, crosses).value(0.0 * w)


def test_no_step_lowers_the_log_posterior(monkeypatch) -> None:
    rng = np.random.default_rng(3)
    for _ in range(size(40, 8)):
        C = rng.standard_normal((8, 3)) * 10.0 ** rng.integers(-2, 5, (1, 3))
        yes = rng.integers(0, 10**6, 8) * (rng.random(8) < 0.5)
        no = rng.integers(0, 10**6, 8) * (rng.random(8) < 0.5)
        plain = Plain(C, yes, no, sd=30.0)
        # Stopped after 0, 1, 2, … steps, in plain Python: compiled code keeps its constants.
        values = [plain.value(np.zeros(4))]
        fit: Any = getattr(kernel.fit, "py_func", kernel.fit)
        for steps in range(1, 12):
            monkeypatch.setitem(fit.__globals__, "MAX_STEPS", steps)
            w, cov = np.empty(4), np.empty((4, 4))
            fit(C, yes.astype(float), no.astype(float), False, 1.0 / 900.0, w, cov)
            values.append(plain.value(w))
        rounding = 1e-12 * np.abs(values).max()
        assert (np.diff(values) >= -rounding).all()


def test_columns_that_never_occur_keep_the_prior() -> None:
    C = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 1.0]])
    w, cov, _ = fitted(C, [3, 0], [0, 3])
    assert w[1] == 0.0
    assert cov[1].tolist() == [0.0, 1.0 / (1.0 / 9.0), 0.0, 0.0]
    less, cov_less, _ = fitted(C[:, [0, 2]], [3, 0], [0, 3])
    assert w[[0, 2, 3]].tolist() == less.tolist()
    assert cov[np.ix_([0, 2, 3], [0, 2, 3])].tolist() == cov_less.tolist()


@given(counts())
def test_scores_are_the_formulas(case) -> None:
    C, _, _, crosses, _ = case
    w, cov, _ = fitted(*case)
    X = plain_expand(C, crosses)
    mean, sd, p, spread = (np.empty(len(C)) for _ in range(4))
    kernel.score_many(C, crosses, w, cov, mean, sd)
    assert mean == pytest.approx(X @ w, rel=1e-9, abs=1e-9 * np.abs(X * w).sum(1).max())
    squares = np.einsum("ni,ij,nj->n", X, cov, X)
    assert sd**2 == pytest.approx(squares, rel=1e-6, abs=1e-12 * (X**2).sum(1).max())
    kernel.chances(mean, sd, p, spread)
    assert p == pytest.approx(expit(mean / np.sqrt(1.0 + np.pi * sd**2 / 8.0)), rel=1e-12)
    assert (spread <= p * (1.0 - p) * sd * (1.0 + 1e-9) + 1e-15).all() and (spread <= 0.5).all()
    safe, possible = np.empty(len(C), bool), np.empty(len(C), bool)
    nats = np.empty(len(C))
    kernel.judge(mean, sd, 1.0, 0.25, safe, possible, nats)
    assert safe.tolist() == (mean - sd >= 0.25).tolist()
    assert possible.tolist() == (mean + sd >= 0.25).tolist()
    assert (nats >= 0.0).all() and not (safe & ~possible).any()


Z = np.linspace(-9.0, 9.0, 6001)
SHARES = norm.pdf(Z) / norm.pdf(Z).sum()


def entropy(p):
    q = np.clip(p, 1e-300, 1.0 - 1e-16)
    return -q * np.log(q) - (1.0 - q) * np.log1p(-q)


@given(st.floats(-15.0, 15.0), st.floats(0.0, 20.0))
def test_information_is_the_integral_within_2e_4(m, s) -> None:
    # A grid of 6,001 points over ±9 standard deviations: exact to 1e-7 for these smooth functions.
    f = -abs(m) + s * Z
    truth = entropy(SHARES @ expit(f)) - SHARES @ entropy(expit(f))
    assert kernel.information(m, s) == pytest.approx(truth, abs=2e-4)


def test_information_is_nothing_where_nothing_is_unknown() -> None:
    for m in (0.0, 1.0, -3.0, 8.0, 50.0, -700.0, 1e6):
        assert 0.0 <= kernel.information(m, 0.0) <= 1e-4
    assert kernel.information(0.0, 1e9) == pytest.approx(np.log(2.0), abs=1e-6)

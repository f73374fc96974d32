"""The pooled fit against one dense Hessian over all parameters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from bridle.kernels import logistic
from bridle.kernels import pooled as kernel
from tests.conftest import JIT, size

PRIOR = (2.25, 0.5625, 9.0)


class Plain:
    """The log posterior over (w, v_1, a_1, v_2, a_2, …), all parameters in one vector."""

    def __init__(self, C, yes, no, unit, U, variances=PRIOR):
        common, own, offset = variances
        n, d = C.shape
        self.d, self.U = d, U
        self.yes, self.no = np.asarray(yes, float), np.asarray(no, float)
        self.X = np.zeros((n, d + U * (d + 1)))
        self.X[:, :d] = C
        for i, u in enumerate(unit):
            self.X[i, self.own(u)] = [*C[i], 1.0]
        block = [1.0 / own] * d + [1.0 / offset]
        self.precision = np.array([1.0 / common] * d + block * U)

    def own(self, u):
        return slice(self.d + u * (self.d + 1), self.d + (u + 1) * (self.d + 1))

    def value(self, t):
        m = self.X @ t
        likelihood = -self.yes @ np.logaddexp(0.0, -m) - self.no @ np.logaddexp(0.0, m)
        return float(likelihood - 0.5 * self.precision @ (t * t))

    def slope(self, t):
        m = self.X @ t
        return self.X.T @ (self.yes * expit(-m) - self.no * expit(m)) - self.precision * t

    def curvature(self, t):
        m = self.X @ t
        weight = (self.yes + self.no) * expit(m) * expit(-m)
        return (self.X.T * weight) @ self.X + np.diag(self.precision)

    def best(self):
        t = np.zeros(self.X.shape[1])
        for _ in range(500):
            step = np.linalg.solve(self.curvature(t), self.slope(t))
            far = np.abs(self.X @ step).max()
            t = t + step * min(1.0, 1.0 / max(far, 1e-300))  # never too long to rise
            if far < 1e-12:
                break
        return t

    def beliefs(self):
        """Mean and covariance of each unit's (w + v_u, a_u)."""
        t = self.best()
        cov = np.linalg.inv(self.curvature(t))
        out = []
        for u in range(self.U):
            L = np.zeros((self.d + 1, len(t)))
            L[: self.d, : self.d] = np.eye(self.d)
            L[:, self.own(u)] += np.eye(self.d + 1)
            out.append((L @ t, L @ cov @ L.T))
        return out


def fitted(C, yes, no, unit, U, variances=PRIOR):
    """The kernel's beliefs about all U units; `unit` rises."""
    taught, ends = np.unique(unit, return_index=True)
    done = kernel.fit(
        np.ascontiguousarray(C, float),
        np.asarray(yes, float),
        np.asarray(no, float),
        np.append(ends, len(C)).astype(np.int64),
        variances,
    )
    place = {int(u): i for i, u in enumerate(taught)}
    D = C.shape[1] + 1
    out = []
    for u in range(U):
        mean, cov = np.empty(D), np.empty((D, D))
        kernel.belief(*done, place.get(u, -1), variances, mean, cov)
        out.append((mean, cov))
    return done, out


def odds(belief, C):
    mean, cov = belief
    m, s = np.empty((2, len(C)))
    logistic.score_many(np.ascontiguousarray(C, float), False, mean, cov, m, s)
    return m, s


@st.composite
def cases(draw, scales=(0.01, 1.0), most=20):
    """Random counts of several units, some untaught; few contexts for the columns, or many."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d, U = draw(st.integers(1, size(most, 6))), draw(st.integers(1, size(9, 4))), 4
    C = (rng.random((n, d)) < draw(st.sampled_from([0.2, 0.6]))).astype(float)
    if draw(st.booleans()):  # numbers
        C *= rng.standard_normal((n, d)) * draw(st.sampled_from(scales))
    unit = np.sort(rng.integers(0, draw(st.integers(1, U - 1)), n))
    total = rng.integers(1, draw(st.sampled_from([1, 20, 3000])) + 1, n)
    kind = draw(st.sampled_from(["mixed", "parted", "one side"]))
    if kind == "mixed":
        yes = rng.integers(0, total + 1)
    elif kind == "parted":
        yes = np.where(C @ rng.standard_normal(d) >= 0.0, total, 0)
    else:
        yes = total
    variances = draw(st.sampled_from([PRIOR, (9.0, 0.01, 1.0), (0.25, 4.0, 9.0)]))
    return C, yes, total - yes, unit, U, variances


@given(cases())
def test_the_beliefs_are_those_of_the_whole_hessian(case) -> None:
    C, _, _, unit, U, variances = case
    done, got = fitted(*case)
    assert len(np.unique(unit)) < U  # one is untaught
    for mine, wanted in zip(got, Plain(*case).beliefs(), strict=True):
        assert np.array_equal(mine[1], mine[1].T)
        for one in (C, np.eye(C.shape[1])):
            X = np.column_stack([one, np.ones(len(one))])
            m, s = odds(mine, one)
            assert m == pytest.approx(X @ wanted[0], abs=1e-8)
            assert s == pytest.approx(
                np.sqrt(np.einsum("ni,ij,nj->n", X, wanted[1], X)), abs=1e-8, rel=1e-8
            )
    # Columns that never occur keep the prior.
    for j in np.flatnonzero(~C.any(axis=0)):
        for mean, cov in got:
            assert mean[j] == 0.0 and cov[j, j] == variances[0] + variances[1]
            assert np.count_nonzero(cov[j]) == 1
    assert done[1][-1] == C.shape[1]


@pytest.mark.parametrize("n", [6, 60])
def test_both_forms_are_used_and_agree_with_the_reference(n) -> None:
    rng = np.random.default_rng(n)
    d = 14
    C = (rng.random((n, d)) < 0.4).astype(float)
    unit = np.arange(n) // (n // 3)
    yes = (C[:, 0] == 0.0).astype(float)
    done, got = fitted(C, yes, 1.0 - yes, unit, 3)
    assert done[5].tolist() == [n == 6] * 3
    for mine, wanted in zip(got, Plain(C, yes, 1.0 - yes, unit, 3).beliefs(), strict=True):
        assert mine[0] == pytest.approx(wanted[0], abs=1e-9)
        assert mine[1] == pytest.approx(wanted[1], abs=1e-9)


def test_a_unit_that_is_well_known_is_not_kept_as_few_contexts() -> None:
    C = np.eye(6)
    unit = np.array([0, 0, 0, 1, 1, 1])
    for total in (10, 10**6):
        yes = np.full(6, total // 2)
        case = C, yes, total - yes, unit, 2
        done, got = fitted(*case)
        assert done[5].tolist() == [total == 10] * 2
        for mine, wanted in zip(got, Plain(*case).beliefs(), strict=True):
            assert odds(mine, C)[1] == pytest.approx(
                [
                    np.sqrt(wanted[1][j, j] + 2 * wanted[1][j, 6] + wanted[1][6, 6])
                    for j in range(6)
                ],
                rel=1e-7,
            )


def test_no_answers_are_the_prior() -> None:
    _, got = fitted(np.empty((0, 3)), [], [], np.empty(0, int), 2)
    for mean, cov in got:
        assert not mean.any()
        assert cov.tolist() == np.diag([2.8125, 2.8125, 2.8125, 9.0]).tolist()


def parameters(plain, done):
    """All parameters in one vector, as the fit left them."""
    ends, used, w, v, *_ = done
    t = np.zeros(plain.X.shape[1])
    t[used[:-1]] = w
    for u in range(len(ends) - 1):
        t[plain.own(u)][used] = v[u]
    return t


def among_taught(C, yes, no, unit, U, variances) -> Plain:
    taught = np.unique(unit)
    return Plain(C, yes, no, np.searchsorted(taught, unit), len(taught), variances)


def check_finite(*case) -> None:
    """Assert that there are numbers, and no log posterior below that of the start."""
    done, got = fitted(*case)
    for mean, cov in got:
        assert np.isfinite(mean).all() and np.isfinite(cov).all()
        assert (np.diag(cov) > 0.0).all()
        for array in odds((mean, cov), case[0]):
            assert np.isfinite(array).all()
    plain = among_taught(*case)
    t = parameters(plain, done)
    assert plain.value(t) >= plain.value(0.0 * t) * (1.0 + 1e-9)


@given(cases(scales=(1e-3, 1e3, 1e6), most=8), st.sampled_from([1, 1000, 10**6]))
def test_there_are_numbers_at_any_scale(case, times) -> None:
    C, yes, no, *rest = case
    check_finite(np.clip(C, -1e6, 1e6), yes * times, no * times, *rest)


def test_a_million_answers_about_features_of_a_million_give_an_answer() -> None:
    # More than 64 bits can tell apart: Newton's steps are partly rounding, and some are given up.
    rng = np.random.default_rng(1)
    for _ in range(size(200, 12)):
        n, d = rng.integers(4, 12), rng.integers(2, 9)
        C = np.clip(rng.standard_normal((n, d)) * 3e5, -1e6, 1e6)
        unit = np.sort(rng.integers(0, 4, n))
        total = rng.integers(1, 10**6, n)
        yes = rng.integers(0, total + 1)
        check_finite(C, yes, total - yes, unit, 4, PRIOR)


@given(cases(scales=(1e-3, 1.0, 1e3)))
def test_the_slope_vanishes_where_the_fit_ends(case) -> None:
    plain = among_taught(*case)
    t = parameters(plain, fitted(*case)[0])
    g = plain.slope(t)
    # What is left to go, in posterior standard deviations.
    assert np.sqrt(g @ np.linalg.solve(plain.curvature(t), g)) <= 1e-6


def test_a_step_is_made_longer_shorter_or_given_up() -> None:
    def stride(move, yes, no, along=0.0, square=0.0, most=10.0, m0=0.0):
        m, rest, weight = np.full(1, m0), np.empty(1), np.empty(1)
        moves, many, none = np.array([move]), np.array([yes]), np.array([no])
        gain = move * (yes * expit(-m0) - no * expit(m0)) - along
        t = kernel.stride(
            m, moves, many, none, 1.0, along, square, gain, most, abs(move), rest, weight
        )
        z = m0 + t * move
        if t:
            assert rest[0] == pytest.approx(yes * expit(-z) - no * expit(z))
            assert weight[0] == pytest.approx((yes + no) * expit(z) * expit(-z))
        return t

    assert stride(1.0, 9.0, 3.0) == 1.0
    assert stride(1.0, 1e6, 0.0) == 2.0
    assert stride(1.0, 1e6, 0.0, most=0.5) == 0.5
    assert stride(40.0, 9.0, 8.0) < 0.1
    # Longer would be too long.
    assert stride(5.0, 1.0, 0.0, square=1.0, m0=-6.0) == 1.0
    # No score moves, but the prior says that the step is far too long, or leads down.
    assert stride(1e-9, 1.0, 0.0, along=-1.0, square=100.0) == pytest.approx(1.0 / 64.0)
    assert stride(1e-9, 1.0, 0.0, along=-1e-30, square=1e30) == 0.0


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.skipif(not JIT, reason="minutes in plain Python")
def test_many_features_and_units(dense) -> None:
    rng = np.random.default_rng(5)
    n, d, U = 150, 60, 12
    C = rng.standard_normal((n, d)) if dense else (rng.random((n, d)) < 0.1).astype(float)
    unit = np.sort(np.concatenate([np.zeros(60, int), rng.integers(0, U - 1, n - 60)]))
    yes = (C @ rng.standard_normal(d) > 0.0).astype(float)
    done, got = fitted(C, yes, 1.0 - yes, unit, U)
    assert len(set(done[5].tolist())) == 2  # a unit of many contexts among units of few
    for mine, wanted in zip(got, Plain(C, yes, 1.0 - yes, unit, U).beliefs(), strict=True):
        assert mine[0] == pytest.approx(wanted[0], abs=1e-9)
        assert mine[1] == pytest.approx(wanted[1], abs=1e-9)

"""The shared model against a direct solve of the full mixed model, and against itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bridle.errors import CorruptState, InvalidValue, LimitReached
from bridle.kernels.shared import PASSED
from bridle.reward.posterior import LinearArms
from bridle.reward.shared import SharedArms, kept_pairs
from tests.conftest import size as size_of


def plays(seed, n, K, p, d, *, noise=0.3, own=0.3):
    """Return arm rows, arms, contexts and rewards of a random history."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(K, p))
    theta = rng.normal(size=(d + 1, p + 1))
    u = own * rng.normal(size=K)
    arms = rng.integers(0, K, n)
    x = rng.normal(size=(n, d))
    x[:, 0] = 0.5  # as good as the constant: the posterior must cope
    fit = np.einsum("ti,ij,tj->t", ones(x), theta, ones(rows)[arms])
    return rows, arms, x, fit + u[arms] + noise * rng.normal(size=n)


def ones(x):
    return np.column_stack([np.ones(len(x)), x])


def joint(x, rows, kept=None):
    """φ of each (context, row), (n, D)."""
    phi = np.einsum("ti,tj->tij", ones(x), ones(rows))
    return phi[:, np.ones(phi.shape[1:], bool) if kept is None else kept]


class Dense:
    """The full mixed model over (θ, u), solved directly."""

    def __init__(self, model, phi, arms, r, weights=None):
        K, n = model.arms, len(r)
        Z = np.zeros((n, K))
        Z[np.arange(n), arms] = 1.0
        F = np.column_stack([phi, Z])
        w = np.ones(n) if weights is None else weights
        D = phi.shape[1]
        prior = np.concatenate([model.ridge, np.full(K, 1.0 / model.rho)])
        self.D, self.K = D, K
        self.cov = np.linalg.inv(np.diag(prior) + F.T @ (w[:, None] * F)) * model.scale**2
        base = model.base_rate
        self.mean = np.linalg.solve(np.diag(prior) + F.T @ (w[:, None] * F), F.T @ (w * (r - base)))
        self.mean[0] += base

    def scores(self, phi):
        F = np.column_stack([phi, np.eye(self.K)])
        return F @ self.mean, F @ self.cov @ F.T


@pytest.mark.parametrize(
    ("n", "K", "p", "d"), [(100_000, 6, 2, 2), (20_000, 40, 5, 4), (700, 300, 3, 2)]
)
def test_posterior_of_theta_and_own_effects_is_the_mixed_model(n, K, p, d):
    rows, arms, x, r = plays(1, n, K, p, d)
    model = SharedArms(rows=rows, features=d)
    model.fold_many(arms, x, r)
    truth = Dense(model, joint(x, rows[arms]), arms, r)
    assert model.rho > 0.0
    np.testing.assert_allclose(model.theta.ravel(), truth.mean[: truth.D], rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.own_effects()[0], truth.mean[truth.D :], rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.covariance, truth.cov[: truth.D, : truth.D], rtol=0, atol=1e-9)
    mean, cov = truth.scores(joint(np.repeat(x[:1], K, 0), rows))
    got = model.scores(x[0])
    np.testing.assert_allclose(got[0], mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(got[1], np.sqrt(np.diag(cov)), rtol=0, atol=1e-9)
    # After every refresh the noise is that of the marginal likelihood.
    s2 = (np.sum((r - model.base_rate) ** 2) - _explained(model, joint(x, rows[arms]), arms, r)) / n
    assert model.scale**2 == pytest.approx(s2, rel=0.01)


def _explained(model, phi, arms, r):
    Z = np.eye(model.arms)[arms]
    F = np.column_stack([phi, Z])
    prior = np.concatenate([model.ridge, np.full(model.arms, 1 / model.rho)])
    y = F.T @ (r - model.base_rate)
    return y @ np.linalg.solve(np.diag(prior) + F.T @ F, y)


def test_rank_one_updates_are_the_direct_sums():
    rows, arms, x, r = plays(2, 90, 7, 3, 2)  # fewer than a refresh needs
    model = SharedArms(rows=rows, features=2, lam=[0.5, 1.0, 2.0], rho=0.2)
    for k, c, y in zip(arms.tolist(), x, r.tolist(), strict=True):
        model.fold(k, c, y)
    truth = Dense(model, joint(x, rows[arms]), arms, r)
    np.testing.assert_allclose(model.theta.ravel(), truth.mean[: truth.D], rtol=0, atol=1e-11)
    np.testing.assert_allclose(
        model.covariance, truth.cov[: truth.D, : truth.D], rtol=0, atol=1e-11
    )


@pytest.mark.parametrize("split", [(1000,), (1,) * 1000, (37, 463, 1, 499)])
@pytest.mark.parametrize("forget", [None, 300.0])
def test_bits_do_not_depend_on_batches_and_pauses(split, forget):
    rows, arms, x, r = plays(3, 1000, 9, 2, 3)
    whole = SharedArms(rows=rows, features=3, forget=forget)
    whole.fold_many(arms, x, r)
    parts = SharedArms(rows=rows, features=3, forget=forget)
    at = 0
    for number, size in enumerate(split):
        if size == 1:
            parts.fold(int(arms[at]), x[at], float(r[at]))
        else:
            parts.fold_many(arms[at : at + size], x[at : at + size], r[at : at + size])
        at += size
        if number % 100 == 0:
            parts = SharedArms.from_state(parts.to_state())
    mine, its = whole.to_state(), parts.to_state()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, its[name], err_msg=name)
    may = np.ones(9, bool)
    assert whole.best(x[0], may, 5, 1.0)[0] == parts.best(x[0], may, 5, 1.0)[0]
    np.testing.assert_array_equal(whole.draw(x[0], 5, 1.0), parts.draw(x[0], 5, 1.0))


def test_without_own_effects_and_with_arms_as_features_it_is_one_posterior_an_arm():
    K, d = 5, 3
    rng = np.random.default_rng(4)
    kept = np.zeros((d + 1, K + 1), bool)
    kept[1:, 1:] = True
    model = SharedArms(rows=np.eye(K), features=d, interactions=kept, lam=2.0, rho=0.0, noise=0.25)
    alone = LinearArms(arms=K, features=d, ridge=2.0)
    arms, x, r = rng.integers(0, K, 500), rng.normal(size=(500, d)), rng.random(500)
    model.fold_many(arms, x, r)
    alone.fold_many(arms, x, r)
    for c in x[:5]:
        mean, sd = model.scores(c)
        want, spread = alone.scores(c)
        np.testing.assert_allclose(mean, want, rtol=0, atol=1e-12)
        np.testing.assert_allclose(sd, 0.25 * spread, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.theta[1:, 1:].T, alone.means, rtol=0, atol=1e-12)


def test_merge_is_one_fold_of_both_histories():
    rows, arms, x, r = plays(5, 2000, 8, 3, 2)
    both = SharedArms(rows=rows, features=2, lam=1.0, rho=0.3)
    both.fold_many(arms, x, r)
    one = SharedArms(rows=rows, features=2, lam=1.0, rho=0.3)
    other = one.copy()
    one.fold_many(arms[:700], x[:700], r[:700])
    other.fold_many(arms[700:], x[700:], r[700:])
    one.merge(other)
    assert one.plays == both.plays == 2000
    np.testing.assert_allclose(one.theta, both.theta, rtol=0, atol=1e-11)
    np.testing.assert_allclose(one.covariance, both.covariance, rtol=0, atol=1e-11)
    np.testing.assert_allclose(one.own_effects()[0], both.own_effects()[0], rtol=0, atol=1e-11)
    assert one.scale == pytest.approx(both.scale, rel=1e-9)
    with pytest.raises(InvalidValue):
        one.merge(SharedArms(rows=rows[:4], features=2))


def test_changed_features_leave_the_past_as_it_was():
    rows, arms, x, r = plays(6, 3000, 8, 3, 2)
    later = rows.copy()
    later[2] += 1.0
    latest = later.copy()
    latest[[2, 3]] -= 0.5
    tables = [rows, later, latest]
    phi = np.concatenate(
        [
            joint(x[t : t + 1000], table[arms[t : t + 1000]])
            for t, table in zip((0, 1000, 2000), tables, strict=True)
        ]
    )
    model = SharedArms(rows=rows, features=2, lam=1.0, rho=0.3)
    model.fold_many(arms[:1000], x[:1000], r[:1000])
    model.change(2, later[2])
    model.fold_many(arms[1000:2000], x[1000:2000], r[1000:2000])
    model.change(2, latest[2])
    model.change(3, latest[3])
    model = SharedArms.from_state(model.to_state())
    model.fold_many(arms[2000:], x[2000:], r[2000:])
    truth = Dense(model, phi, arms, r)
    np.testing.assert_allclose(model.theta.ravel(), truth.mean[: truth.D], rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.own_effects()[0], truth.mean[truth.D :], rtol=0, atol=1e-10)
    mean, cov = truth.scores(joint(np.repeat(x[:1], 8, 0), latest))
    got = model.scores(x[0])
    np.testing.assert_allclose(got[0], mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(got[1], np.sqrt(np.diag(cov)), rtol=0, atol=1e-10)
    twin = SharedArms(rows=latest, features=2, lam=1.0, rho=0.3)
    assert not np.array_equal(model.scores(x[0])[0], twin.scores(x[0])[0])


def test_two_arms_share_the_draw_of_theta():
    rows, arms, x, r = plays(7, 400, 6, 2, 2, own=0.1)
    rows[1] = rows[0]  # the same features: they differ by their own effects alone
    model = SharedArms(rows=rows, features=2, lam=1.0, rho=0.05)
    model.fold_many(arms, x, r)
    c = np.array([0.5, 2.0])
    truth = Dense(model, joint(x, rows[arms]), arms, r)
    mean, cov = truth.scores(joint(np.repeat(c[None], 6, 0), rows))
    n = 40_000
    drawn = np.array([model.draw(c, key, 1.0) for key in range(n)])
    # Every entry of a sample covariance has a standard error of at most √2 √(c_ii c_jj) / √n, every
    # mean of √(c_ii / n): 27 comparisons at 5.5 of them fail with probability < 27 · 3.8e-8 ≈ 1e-6.
    sd = np.sqrt(np.diag(cov))
    assert (abs(drawn.mean(0) - mean) <= 5.5 * sd / math.sqrt(n)).all()
    got = np.cov(drawn.T)
    assert (abs(got - cov) <= 5.5 * math.sqrt(2) * np.outer(sd, sd) / math.sqrt(n)).all()
    truth_of_two = cov[0, 1] / (sd[0] * sd[1])
    assert truth_of_two > 0.5  # not at all independent
    np.testing.assert_array_equal(model.draw(c, 3, 1.0), model.draw(c, 3, 1.0))


def test_a_subset_is_drawn_as_the_whole_and_the_best_is_its_best():
    rows, arms, x, r = plays(8, 3000, 200, 3, 2)
    model = SharedArms(rows=rows, features=2)
    model.fold_many(arms, x, r)
    model.grow(rows[:50] + 0.01)
    rng = np.random.default_rng(0)
    few = 0
    for key in range(300):
        c = x[key]
        drawn = model.draw(c, key, 0.3)
        some = rng.permutation(250)[:40]
        np.testing.assert_array_equal(model.draw(c, key, 0.3, arms=some), drawn[some])
        may = rng.random(250) < 0.7
        k, computed = model.best(c, may, key, 0.3)
        few += computed
        assert k == np.flatnonzero(may)[drawn[may].argmax()]
        order, scores = model.top(c, may, key, 0.3, 5)
        want = np.flatnonzero(may)[np.argsort(-drawn[may])][:5]
        np.testing.assert_array_equal(order, want)
        np.testing.assert_array_equal(scores, drawn[want])
    assert few < 300 * 100  # most own effects were not needed
    assert model.best(x[0], np.zeros(250, bool), 1, 0.3)[0] == -1


@pytest.mark.parametrize("forget", [None, 100.0])
@pytest.mark.parametrize("words", [0, 3, 7])
def test_the_best_few_are_those_of_all_scores(words, forget):
    """Whatever features are 0 or 1, for arms that were played, changed, forgotten or never met."""
    rng = np.random.default_rng(words)
    K, p, d, n = size_of(300, 80), 7, 3, size_of(400, 40)
    rows = rng.normal(size=(K, p))
    rows[:, rng.permutation(p)[:words]] = rng.random((K, words)) < 0.3
    model = SharedArms(rows=rows, features=d, forget=forget)
    weights = rng.normal(size=(p, d))
    for t in range(n):
        arm, x = int(rng.integers(0, K // 2)), rng.normal(size=d)
        z = rows[arm] @ weights @ x + rng.normal()
        model.update(arm, x, 1.0 / (1.0 + np.exp(-z)))
        if t % (n // 4) == n // 5:
            model.change(arm, rows[-1])
            model.change(K - 2, rows[t % K])
    model.grow(rows[:5])
    may = rng.random(model.arms) < 0.8
    for key in range(size_of(20, 4)):
        x = rng.normal(size=d)
        drawn, means = model.draw(x, key, 0.3), model.draw(x, key, 0.0)
        for scores, v, bonus in ((drawn, 0.3, 0.0), (means + 0.7 * model.scores(x)[1], 0.0, 0.7)):
            order = np.argsort(-np.where(may, scores, -np.inf), kind="stable")
            for places in (1, 5, 70):
                arms, top = model.top(x, may, key, v, places, bonus)
                m = min(places, int(may.sum()))
                # Two sums of the same numbers may differ in their last bits.
                np.testing.assert_allclose(top[:m], scores[order[:m]], rtol=1e-12, atol=1e-12)
                np.testing.assert_allclose(scores[arms[:m]], top[:m], rtol=1e-12, atol=1e-12)
                assert len(set(arms[:m].tolist())) == m
                assert may[arms[:m]].all()
                assert (arms[m:] == -1).all()


def test_win_shares_are_those_of_draws_one_by_one():
    rows, arms, x, r = plays(9, 300, 12, 3, 2)
    model = SharedArms(rows=rows, features=2)
    model.fold_many(arms, x, r)
    may = np.arange(12) != 3
    counts = model.win_shares(x[0], may, 77, 2.0, 501)
    wins = np.zeros(12, int)
    for number in range(501):
        drawn = model.draw(x[0], model.draw_key(77, number), 2.0)
        wins[np.flatnonzero(may)[drawn[may].argmax()]] += 1
    np.testing.assert_array_equal(counts, wins)
    places = model.place_shares(x[0], may, 77, 2.0, 100, 3)
    assert (places.sum(1) == 100).all()


def test_win_shares_against_a_million_independent_draws():
    rows, arms, x, r = plays(10, 60, 8, 2, 2)
    model = SharedArms(rows=rows, features=2, lam=1.0, rho=0.5)
    model.fold_many(arms, x, r)
    n = 1_000_000
    counts = model.win_shares(x[0], np.ones(8, bool), 1, 5.0, n)
    truth = Dense(model, joint(x, rows[arms]), arms, r)
    mean, cov = truth.scores(joint(np.repeat(x[:1], 8, 0), rows))
    rng = np.random.default_rng(3)
    wins = np.bincount(rng.multivariate_normal(mean, 25.0 * cov, n).argmax(1), minlength=8)
    # Hoeffding for the difference of two shares of n draws each: P(|difference| ≥ ε) ≤ 2 exp(−nε²);
    # 8 of them at ε = √(ln(2·8·10⁶)/n) fail with probability ≤ 1e-6.
    epsilon = math.sqrt(math.log(2 * 8 * 1e6) / n)
    assert (abs(counts - wins) / n <= epsilon).all()
    assert (wins > 1000).sum() >= 3


def test_arms_that_nobody_stored_are_drawn_in_the_same_draw():
    rows, arms, x, r = plays(11, 400, 10, 3, 2)
    model = SharedArms(rows=rows, features=2, lam=1.0, rho=0.0)
    model.fold_many(arms, x, r)
    drawn = model.draw(x[0], 9, 1.0)
    ids = np.arange(10, dtype=np.uint64)
    np.testing.assert_allclose(model.draw_rows(x[0], 9, 1.0, rows, ids), drawn, atol=1e-5)
    own = SharedArms(rows=rows, features=2, lam=1.0, rho=0.5, noise=0.2)
    one, two = own.draw_rows(x[0], 9, 1.0, rows[[0, 0]], ids[:2])
    assert one != two
    mean, sd = own.score_rows(x[0], rows)
    np.testing.assert_array_equal(np.array(own.scores(x[0])), np.array([mean, sd]))


def test_forgetting_is_the_plain_recursion():
    rows, arms, x, r = plays(12, 1500, 5, 2, 2)
    half = 200.0
    model = SharedArms(rows=rows, features=2, lam=[1.0, 0.5, 2.0], rho=0.3, forget=half)
    gamma = 0.5 ** (1.0 / half)
    D = 9
    prior, P, f = np.diag(model.ridge), np.zeros((D, D)), np.zeros(D)
    n_k, S, R = np.zeros(5), np.zeros((5, D)), np.zeros(5)
    total, mass = 0.0, 0.0
    worst = 0.0
    for t, k in enumerate(arms.tolist()):
        model.fold(k, x[t], float(r[t]))
        for part in (P, f, n_k, S, R):
            part *= gamma
        total, mass = gamma * total, gamma * mass
        phi = joint(x[t : t + 1], rows[[k]])[0]
        kappa = model.rho / (1.0 + n_k[k] * model.rho)
        v, y = phi - kappa * S[k], r[t] - kappa * R[k]
        P += np.outer(v, v) / (1.0 + kappa)
        f += v * y / (1.0 + kappa)
        n_k[k] += 1.0
        S[k] += phi
        R[k] += r[t]
        total, mass = total + r[t], mass + 1.0
        faded = prior * model.kernel_state.num[PASSED]  # the prior fades until the next refresh
        base = (total + 0.5) / (mass + 1.0)
        mean = np.linalg.solve(faded + P, f + base * faded[0])
        worst = max(worst, abs(mean - model.theta.ravel()).max())
        np.testing.assert_allclose(model.counts, n_k, rtol=1e-9)
    assert worst < 1e-9
    assert model.half_life == pytest.approx(half)
    assert mass < 300
    inverse = np.linalg.inv(faded + P) * model.scale**2
    np.testing.assert_allclose(model.covariance, inverse, rtol=1e-8, atol=1e-12)


def test_what_has_faded_keeps_its_weight_when_forgetting_ends():
    rows, arms, x, r = plays(20, 300, 6, 2, 2)
    model = SharedArms(rows=rows, features=2, lam=1.0, rho=0.3)
    model.fold_many(arms[:100], x[:100], r[:100])
    model.forget(40.0)
    model.fold_many(arms[100:200], x[100:200], r[100:200])
    model.forget(None)
    model.fold_many(arms[200:], x[200:], r[200:])
    age = np.concatenate([np.full(100, 100.0), np.arange(99.0, -1.0, -1.0), np.zeros(100)])
    truth = Dense(model, joint(x, rows[arms]), arms, r, 0.5 ** (age / 40.0))
    np.testing.assert_allclose(model.theta.ravel(), truth.mean[: truth.D], rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.own_effects()[0], truth.mean[truth.D :], rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.covariance, truth.cov[: truth.D, : truth.D], rtol=0, atol=1e-9)


def test_what_is_forgotten_is_forgotten():
    rows, arms, x, r = plays(13, 4000, 6, 2, 2)
    still = SharedArms(rows=rows, features=2)
    moves = SharedArms(rows=rows, features=2, forget=300)
    fresh = SharedArms(rows=rows, features=2)
    for model in (still, moves):
        model.fold_many(arms[:2000], x[:2000], -r[:2000])
        model.fold_many(arms[2000:], x[2000:], r[2000:])
    fresh.fold_many(arms[2000:], x[2000:], r[2000:])
    want = fresh.scores(x[0])[0]
    assert abs(moves.scores(x[0])[0] - want).max() < 0.2 * abs(still.scores(x[0])[0] - want).max()
    moves.forget(None)
    assert moves.half_life is None
    moves.fold_many(arms[:10], x[:10], r[:10])


def test_auto_follows_a_change_and_else_forgets_nothing():
    rows, arms, x, r = plays(17, 3000, 6, 2, 2)
    still = SharedArms(rows=rows, features=2)
    auto = SharedArms(rows=rows, features=2, forget="auto")
    still.fold_many(arms[:1500], x[:1500], r[:1500])
    auto.fold_many(arms[:1500], x[:1500], r[:1500])
    assert auto.half_life is None
    np.testing.assert_array_equal(auto.scores(x[0])[0], still.scores(x[0])[0])
    still.fold_many(arms[1500:], x[1500:], -r[1500:])
    auto.fold_many(arms[1500:], x[1500:], -r[1500:])
    assert auto.half_life is not None
    fresh = SharedArms(rows=rows, features=2)
    fresh.fold_many(arms[1500:], x[1500:], -r[1500:])
    want = fresh.scores(x[0])[0]
    assert abs(auto.scores(x[0])[0] - want).max() < 0.2 * abs(still.scores(x[0])[0] - want).max()
    again = SharedArms.from_state(auto.to_state())
    np.testing.assert_array_equal(again.scores(x[0]), auto.scores(x[0]))
    for name, spoilt in (
        ("lead", np.array([3])),
        ("merits", np.array([0.0, math.nan, 0.0])),
        ("4.num", np.zeros(3)),
        ("2.rows", rows * 2.0),
    ):
        with pytest.raises(CorruptState):
            SharedArms.from_state({**auto.to_state(), name: spoilt})


def test_merging_with_changed_features_and_forgetting():
    """Two logs of the same arms, some of them changed in both, are one fold of both."""
    rows, arms, x, r = plays(18, 900, 8, 3, 2)
    fixed = {"rows": rows, "features": 2, "lam": 1.0, "rho": 0.3}
    one, other, both = (SharedArms(**fixed) for _ in range(3))
    for model, part in ((one, slice(0, 300)), (other, slice(300, 600))):
        model.fold_many(arms[part], x[part], r[part])
        both.fold_many(arms[part], x[part], r[part])
    for model in (one, other, both):
        model.change(2, rows[2] + 1.0)
    other.change(3, rows[3])  # to what it was
    other.fold_many(arms[600:], x[600:], r[600:])
    both.fold_many(arms[600:], x[600:], r[600:])
    one.merge(other)
    np.testing.assert_allclose(one.theta, both.theta, rtol=0, atol=1e-10)
    np.testing.assert_allclose(one.covariance, both.covariance, rtol=0, atol=1e-10)
    np.testing.assert_allclose(one.own_effects(), both.own_effects(), rtol=0, atol=1e-10)
    np.testing.assert_allclose(one.scores(x[0]), both.scores(x[0]), rtol=0, atol=1e-10)
    fades = [SharedArms(**fixed, forget=100.0) for _ in range(2)]
    for model in fades:
        model.fold_many(arms[:300], x[:300], r[:300])
    # Twice the same history: twice the sums, half of the covariance but for the prior.
    mean = fades[0].theta
    fades[0].merge(fades[1])
    assert fades[0].plays == 600
    np.testing.assert_allclose(fades[0].counts, 2.0 * fades[1].counts, rtol=1e-9)
    assert abs(fades[0].theta - mean).max() < 0.3


def test_little_noise_does_not_end_the_search():
    """Rewards without noise that features say nothing of: what is not known stays wide."""
    rng = np.random.default_rng(19)
    K = 30
    rows, truth = rng.normal(size=(K, 3)), rng.random(K)
    model = SharedArms(rows=rows, features=1)
    few = rng.integers(0, 10, 400)
    model.fold_many(few, rng.random((400, 1)), truth[few])
    assert model.scale < 0.05
    # An arm that nobody played may be anything; one that was played is known.
    sd = model.scores([0.5])[1]
    assert sd[10:].min() > 0.1 and sd[few].max() < 0.05


def test_features_that_say_nothing_leave_it_to_own_effects():
    rng = np.random.default_rng(14)
    K, n = 60, 6000
    rows = rng.normal(size=(K, 4))
    u = rng.normal(size=K)
    arms, x = rng.integers(0, K, n), rng.normal(size=(n, 2))
    model = SharedArms(rows=rows, features=2)
    model.fold_many(arms, x, u[arms] + 0.3 * rng.normal(size=n))
    assert model.rho >= 3.0
    # 100 plays an arm: a standard error of .03; 60 arms at 6 of them fail with 60 · 2e-9.
    assert abs(model.scores(x[0])[0] - u).max() < 6 * 0.3 / math.sqrt(60)


def test_each_kind_of_feature_finds_a_scale_of_its_own():
    """What contexts say of all arms alike is no reason to believe that products with arms do."""
    rng = np.random.default_rng(21)
    K, n = 40, 3000
    rows, u = rng.normal(size=(K, 4)), 0.15 * rng.normal(size=K)
    arms, x = rng.integers(0, K, n), (rng.random((n, 3)) < 0.4).astype(float)
    r = 0.4 + x @ [0.2, -0.2, 0.1] + u[arms] + 0.02 * rng.normal(size=n)
    model = SharedArms(rows=rows, features=3)
    model.fold_many(arms, x, r)
    of_context, of_arm, of_both = model.lam
    assert of_context < of_arm < of_both
    assert of_both >= 1000.0 * of_context
    np.testing.assert_array_equal(model.ridge.reshape(4, 5)[1:, 1:], of_both)
    # A weight is off by .02/√(.24·3000) at most, as standard deviation; 12 of them at 6.
    assert abs(model.theta[1:, 1:]).max() < 6 * 0.02 / math.sqrt(0.24 * n)


def test_expectations_do_not_depend_on_the_units_of_features():
    """Expected is how much all features of a kind say, so that larger numbers change nothing."""
    rows, arms, x, r = plays(22, 400, 12, 3, 2, own=0.1)
    one = SharedArms(rows=rows, features=2)
    wide = SharedArms(rows=10.0 * rows, features=2)
    one.fold_many(arms, x, r)
    wide.fold_many(arms, x, r)
    assert wide.lam == pytest.approx(np.multiply(one.lam, [1.0, 100.0, 100.0]))
    assert wide.rho == one.rho
    np.testing.assert_allclose(wide.scores(x[0]), one.scores(x[0]), rtol=1e-9)


def test_interactions_and_limits():
    assert kept_pairs(2, 3).sum() == 12
    assert kept_pairs(2, 3, "none").sum() == 6
    rows, arms, x, r = plays(15, 500, 6, 3, 2)
    mask = kept_pairs(2, 3, "none")
    mask[2, 3] = True
    model = SharedArms(rows=rows, features=2, interactions=mask, lam=1.0, rho=0.2)
    model.fold_many(arms, x, r)
    truth = Dense(model, joint(x, rows[arms], mask), arms, r)
    np.testing.assert_allclose(model.theta[mask], truth.mean[: truth.D], rtol=0, atol=1e-10)
    _, cov = truth.scores(joint(np.repeat(x[:1], 6, 0), rows, mask))
    np.testing.assert_allclose(model.scores(x[0])[1], np.sqrt(np.diag(cov)), rtol=0, atol=1e-10)
    with pytest.raises(LimitReached):
        SharedArms(rows=np.zeros((2, 100)), features=100)
    with pytest.raises(InvalidValue):
        SharedArms(rows=rows, features=2, interactions="some")
    with pytest.raises(InvalidValue):
        SharedArms(rows=rows, features=2, lam=1.0)
    with pytest.raises(InvalidValue, match="one number or 3"):
        SharedArms(rows=rows, features=2, lam=[1.0, 2.0], rho=0.1)
    with pytest.raises(InvalidValue):
        model.change(0, [math.nan, 0.0, 0.0])


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("rows", lambda a: a[:, :1]),
        ("rows", lambda a: a * math.nan),
        ("played", lambda a: a[::-1].copy()),
        ("own", lambda a: -a),
        ("kept", lambda a: a.astype(float)),
        ("num", lambda a: -a),
        ("num", lambda a: np.r_[0.0, a[1:]]),
        ("num", lambda a: np.r_[a[:-1], -1.0]),
        ("lower", lambda a: a[:2]),
        ("counts", lambda a: a.astype(float)),
    ],
)
def test_a_state_that_makes_no_sense_is_refused(name, spoil):
    rows, arms, x, r = plays(16, 50, 4, 2, 1)
    model = SharedArms(rows=rows, features=1)
    model.fold_many(arms, x, r)
    state = model.to_state()
    with pytest.raises(CorruptState):
        SharedArms.from_state({**state, name: spoil(state[name])})
    with pytest.raises(CorruptState):
        SharedArms.from_state({"rows": rows})


def test_arms_of_one_kind_are_one_row_and_order_changes_nothing():
    rng = np.random.default_rng(8)
    words = (rng.random((300, 5)) < 0.3).astype(float)
    model = SharedArms(rows=words, features=3)
    assert model.kinds == len(np.unique(words, axis=0))
    may = np.ones(300, np.bool_)
    for t in range(400):
        x = (rng.random(3) < 0.5).astype(float)
        if t % 90 == 60:
            model.change(int(rng.integers(300)), (rng.random(5) < 0.3).astype(float))
        if t % 100 == 70:
            model.grow((rng.random((2, 5)) < 0.3).astype(float))
            may = np.ones(model.arms, np.bool_)
        best, top = model.top(x, may, t, 0.3, 6)
        every = model.draw(x, t, 0.3)
        np.testing.assert_array_equal(top, np.sort(every)[::-1][:6])
        np.testing.assert_array_equal(every[best], top)
        model.fold(int(rng.integers(model.arms)) if t % 3 else int(best[0]), x, float(rng.random()))
    assert model.kernel_state.sizes[1] > 150  # of many that were played most are passed over
    assert model.computed < 100


def test_an_arm_played_often_or_a_batch_leaves_its_bound_true():
    rng = np.random.default_rng(9)
    model = SharedArms(rows=rng.normal(size=(200, 4)), features=2)
    may = np.ones(200, np.bool_)
    for t in range(12):
        C = rng.normal(size=(60, 2))
        model.fold_many(rng.integers(0, 200, 60), C, rng.random(60))
        _, top = model.top(C[0], may, t, 1.0, 5)
        every = model.draw(C[0], t, 1.0)
        np.testing.assert_array_equal(top, np.sort(every)[::-1][:5])


def test_means_are_the_bits_of_scores() -> None:
    rng = np.random.default_rng(5)
    for binary in (True, False):
        rows = rng.random((150, 4)).round(1)
        if binary:
            rows = (rows < 0.4).astype(np.float64)
        model = SharedArms(rows=rows, features=3)
        for t in range(60):
            model.update(int(rng.integers(0, 40)), rng.random(3), float(rng.random()))
            if t % 20 == 19:
                model.change(int(rng.integers(0, 40)), rows[t])
        model.grow(rows[:3])
        x = rng.random(3)
        assert model.means(x).tobytes() == model.scores(x)[0].tobytes()

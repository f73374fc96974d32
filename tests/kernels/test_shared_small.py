"""Small lives of the shared model, which also run as plain Python: held to a dense solve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridle.errors import InvalidValue
from bridle.kernels import shared as kernel
from bridle.policies import EpsilonGreedy, LinUCB, Thompson
from bridle.reward.shared import SharedArms
from bridle.simulate import Tables, online

D, P, K = 2, 2, 6


def rows_of(seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 3, (K, P)) / 2.0


def plays(n: int, seed: int = 1, arms: int = K) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    C = rng.integers(0, 2, (n, D)).astype(float)
    return rng.integers(0, arms, n), C, rng.random(n)


def direct(model: SharedArms, history: list[tuple[int, Any, Any, float]]) -> tuple[Any, Any]:
    """Return mean and covariance (noise 1) of every arm's score at (1, 0), by a dense solve."""
    rho, kept = model.rho, model.kept
    n = int(kept.sum())

    def phi(x: Any, a: Any) -> Any:
        return np.outer(np.r_[1.0, x], np.r_[1.0, a])[kept]

    count = model.arms
    Z = np.zeros((len(history), n + count))
    for t, (k, x, a, _) in enumerate(history):
        Z[t, :n] = phi(x, a)
        Z[t, n + k] = 1.0
    prior = np.r_[model.ridge, np.full(count, 1.0 / rho)]
    y = np.array([r for *_, r in history]) - model.base_rate
    B = Z.T @ Z + np.diag(prior)
    mean = np.linalg.solve(B, Z.T @ y)
    X = np.array([np.r_[phi([1.0, 0.0], a), np.eye(count)[k]] for k, a in enumerate(model.rows)])
    return X @ mean + model.base_rate, X @ np.linalg.solve(B, X.T)


@pytest.mark.parametrize("interactions", ["all", "none"])
def test_the_posterior_is_that_of_a_dense_solve(interactions):
    rows = rows_of()
    model = SharedArms(
        rows=rows, features=D, interactions=interactions, lam=[1.5, 0.7, 3.0], rho=0.4, noise=0.2
    )
    arms, C, y = plays(130)
    model.fold_many(arms[:70], C[:70], y[:70])
    history = [(int(k), x, rows[k], r) for k, x, r in zip(arms, C, y, strict=True)]
    model.change(2, [1.0, 1.0])  # what it earned before counts with the old features
    history[70:] = [(k, x, np.ones(2) if k == 2 else a, r) for k, x, a, r in history[70:]]
    for k, x, r in zip(arms[70:].tolist(), C[70:], y[70:].tolist(), strict=True):
        model.fold(k, x, r)
    mean, sd = model.scores([1.0, 0.0])
    wanted, cov = direct(model, history)
    np.testing.assert_allclose(mean, wanted, atol=1e-9)
    np.testing.assert_allclose(sd, 0.2 * np.sqrt(np.diag(cov)), atol=1e-9)


@pytest.mark.parametrize("forget", [None, 40.0, "auto"])
def test_state_goes_out_and_in_and_on(forget):
    arms, C, y = plays(120)
    whole = SharedArms(rows=rows_of(), features=D, forget=forget)
    whole.fold_many(arms, C, y)
    half = SharedArms(rows=rows_of(), features=D, forget=forget)
    half.fold_many(arms[:60], C[:60], y[:60])
    again = SharedArms.from_state(half.to_state())
    again.fold_many(arms[60:], C[60:], y[60:])
    for name, array in whole.to_state().items():
        np.testing.assert_array_equal(array, again.to_state()[name])
    assert again.copy().half_life == whole.half_life
    assert again.copy().half_lives == whole.half_lives


def test_forgetting_can_be_changed_on_the_way():
    arms, C, y = plays(60)
    model = SharedArms(rows=rows_of(), features=D)
    model.fold_many(arms, C, y)
    model.forget(20.0)
    model.fold_many(arms, C, y)
    model.forget(None)
    model.fold_many(arms[:5], C[:5], y[:5])
    assert np.isfinite(model.scores([1.0, 0.0])[0]).all()


def test_a_merge_is_one_fold_of_both():
    arms, C, y = plays(80)
    given: dict[str, Any] = {"rows": rows_of(), "features": D, "lam": 1.0, "rho": 0.3, "noise": 0.2}
    whole, one, other = (SharedArms(**given) for _ in range(3))
    whole.fold_many(arms, C, y)
    one.fold_many(arms[:40], C[:40], y[:40])
    other.fold_many(arms[40:], C[40:], y[40:])
    one.merge(other)
    for mine, its in zip(one.scores([1.0, 0.0]), whole.scores([1.0, 0.0]), strict=True):
        np.testing.assert_allclose(mine, its, atol=1e-9)


def test_rivals_are_models_of_their_own():
    arms, C, y = plays(40)
    auto = SharedArms(rows=rows_of(), features=D, forget="auto")
    assert auto.half_lives[0] is None
    assert auto.half_lives[1:] == pytest.approx((1500.0, 300.0))
    auto.fold_many(arms, C, y)
    auto.change(2, [1.0, 1.0])
    auto.grow([[0.5, 0.5]])
    auto.fold(6, C[0], 0.5)
    twin = SharedArms(rows=rows_of(), features=D)
    twin.fold_many(arms, C, y)
    twin.change(2, [1.0, 1.0])
    twin.grow([[0.5, 0.5]])
    twin.fold(6, C[0], 0.5)
    assert auto.half_life is None  # 41 plays are too few for anything else
    np.testing.assert_array_equal(auto.draw(C[0], 3, 1.0), twin.draw(C[0], 3, 1.0))
    other = auto.copy()
    other.fold_many(arms, C, y)
    auto.merge(other)
    assert auto.plays == 122
    auto.forget("auto")  # as it is
    assert auto.plays == 122 and len(auto.half_lives) == 3
    auto.forget(50.0)
    assert auto.half_life == pytest.approx(50.0) and not auto.half_lives
    with pytest.raises(InvalidValue):
        auto.merge(other)
    with pytest.raises(InvalidValue):
        auto.forget("always")


@pytest.mark.parametrize("scaled", [True, False])
def test_best_and_top_are_those_of_the_whole_draw(scaled):
    fixed: dict[str, Any] = {} if scaled else {"lam": 1.0, "rho": 0.5}
    model = SharedArms(rows=rows_of(), features=D, **fixed)
    arms, C, y = plays(130)
    model.fold_many(arms, C, y)
    model.change(1, [0.5, 1.0])
    model.grow([[0.0, 1.0], [1.0, 1.0]])
    may = np.ones(model.arms, bool)
    may[3] = False
    for key in range(12):
        draw = model.draw(np.array([1.0, 0.0]), key, 0.7)
        order = [k for k in np.argsort(-draw) if may[k]]
        assert model.best(np.array([1.0, 0.0]), may, key, 0.7)[0] == order[0]
        top, scores = model.top(np.array([1.0, 0.0]), may, key, 0.7, 9)
        assert top[top >= 0].tolist() == order
        np.testing.assert_allclose(scores[top >= 0], draw[order], atol=1e-5)
        some = model.draw(np.array([1.0, 0.0]), key, 0.7, np.array([4, 0]))
        np.testing.assert_array_equal(some, draw[[4, 0]])
    ids = np.arange(2, dtype=np.uint64)
    assert model.draw_rows(np.ones(2), 3, 0.7, np.ones((2, P)), ids).shape == (2,)
    assert (model.score_rows(np.ones(2), np.ones((2, P)))[1] > 0.0).all()
    shares = model.place_shares(np.ones(2), may, 7, 0.7, 30, 2)
    assert shares.sum(axis=1).tolist() == [30, 30] and not shares[:, 3].any()
    assert model.best(np.ones(2), np.zeros(model.arms, bool), 1, 0.7)[0] == -1
    assert model.own_effects()[0].shape == (8,) and model.memory_per_arm > 0


@pytest.mark.parametrize(
    "policy", [Thompson(v=0.3), LinUCB(), EpsilonGreedy(epsilon=0.3)], ids=repr
)
@pytest.mark.parametrize("whole", [True, False])
def test_the_compiled_loop_is_step_by_step(policy, whole):
    rng = np.random.default_rng(3)
    C = rng.integers(0, 2, (4, D)).astype(float)
    rewards, allowed = rng.random((4, K)), np.ones((4, K), bool)
    tables = Tables(C, rewards, allowed, arm_features=rows_of())
    may = None if whole else rng.random((4, K)) < 0.7
    runs = []
    for forget in (None, "auto"):
        model = SharedArms(rows=rows_of(), features=D, forget=forget)
        given: Any = {"eligible": may, "model": model}
        runs.append(online(tables, policy=policy, steps=40, seed=2, **given))
        assert model.plays == 40
    # Which rival leads changes after hundreds of plays.
    np.testing.assert_array_equal(runs[0].played, runs[1].played)


def test_arms_of_few_words_without_a_constant_or_own_effects():
    words = np.eye(9)[np.arange(70) % 9]
    kept = np.ones((D + 1, 10), bool)
    kept[0, 0] = False  # nothing is expected but 0
    arms, C, y = plays(450, arms=70)
    given: dict[str, Any] = {"rows": words, "features": D, "interactions": kept, "lam": 1.0}
    model = SharedArms(**given, rho=0.0, noise=0.2)
    model.fold_many(arms, C, y)
    phi = np.einsum("ti,tj->tij", np.c_[np.ones(450), C], np.c_[np.ones(450), words[arms]])[:, kept]
    B = phi.T @ phi + np.eye(int(kept.sum()))
    np.testing.assert_allclose(model.theta[kept], np.linalg.solve(B, phi.T @ y), atol=1e-9)
    assert model.base_rate == 0.0 and not model.own_effects()[0].any()
    may = np.ones(70, bool)
    x, ids = np.array([1.0, 0.0]), np.arange(70, dtype=np.uint64)
    for spread in (0.0, 0.5):
        draw = model.draw(x, 5, spread)
        assert draw[model.best(x, may, 5, spread)[0]] == draw.max()
        np.testing.assert_allclose(model.draw_rows(x, 5, spread, words, ids), draw, atol=1e-6)
        assert model.win_shares(x, may, 5, spread, 9).sum() == 9
    assert model.win_shares(x, ~may, 5, 0.5, 9).sum() == 0


def test_own_effects_of_arms_of_few_words():
    words = np.eye(9)[np.arange(70) % 9]
    arms, C, y = plays(300, arms=60)
    model = SharedArms(rows=words, features=D, lam=1.0, rho=0.4, noise=0.2)
    model.fold_many(arms, C, y)
    history = [(int(k), x, words[k], r) for k, x, r in zip(arms, C, y, strict=True)]
    mean, sd = model.scores([1.0, 0.0])
    wanted, cov = direct(model, history)
    np.testing.assert_allclose(mean, wanted, atol=1e-9)
    np.testing.assert_allclose(sd, 0.2 * np.sqrt(np.diag(cov)), atol=1e-9)
    may = np.ones(70, bool)
    for key in range(20):
        draw = model.draw(np.array([1.0, 0.0]), key, 0.3)
        assert model.best(np.array([1.0, 0.0]), may, key, 0.3)[0] == draw.argmax()


def test_a_pivot_that_rounding_has_eaten_is_the_prior():
    v = np.array([1e9, 1e9 * (1.0 + 1e-16), 1.0])
    tri = np.outer(v, v)[np.tril_indices(3)]
    U = np.empty((3, 3))
    log_det = kernel.factor(tri, np.zeros(6), np.zeros(6), np.full(3, 1e-4), U)
    assert np.isfinite(log_det) and (np.diag(U) ** 2 >= 1e-4 * (1.0 - 1e-9)).all()
    assert U[1, 2] == 0.0

"""The compiled loop plays what a plain loop over `choose` and `fold_one` plays, to the bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.kernels import choice, keys, loop, posterior
from bridle.kernels.types import MASK_ARGMAX, MASK_FILTER, NO_MASK, Weights
from bridle.reward.posterior import LinearArms
from tests.conftest import JIT, size

POLICIES = {
    "thompson": Weights(1.0, 0.0, 0.25, 0.0, 0.0, 0.0, NO_MASK),
    "blend": Weights(0.4, 0.6, 0.25, 0.5, 0.0, 0.0, NO_MASK),
    "taught only": Weights(0.0, 1.0, 0.25, 0.25, 0.0, 0.0, NO_MASK),
    "uniform": Weights(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, NO_MASK),
    "greedy": Weights(1.0, 0.0, 0.0, 0.0, 0.0, 0.0, NO_MASK),
    "epsilon": Weights(1.0, 0.0, 0.0, 0.0, 0.0, 0.3, NO_MASK),
    "ucb": Weights(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, NO_MASK),
    "ucb alone": Weights(0.0, 0.0, 0.0, 0.0, 1.0, 0.0, NO_MASK),
    "optimist": Weights(0.5, 0.5, 0.25, 0.1, 0.7, 0.1, NO_MASK),
    "argmax": Weights(1.0, 0.0, 0.25, 0.0, 0.0, 0.0, MASK_ARGMAX),
    "filter": Weights(1.0, 0.0, 0.25, 0.0, 0.0, 0.0, MASK_FILTER),
}
# (K, d) of either regime: columns from 8 arms on up to 16 features, lazy otherwise; both edges.
COLUMNS = [(8, 1), (8, 16), (30, 5)]
LAZY = [(1, 1), (7, 3), (7, 16), (8, 17), (20, 30)]


def u64(x: int) -> np.uint64:
    return np.uint64(int(x))


class Case:
    """The tables of a run, and both ways to play it."""

    def __init__(self, K: int, d: int, T: int, seed: int = 1, *, contexts=None, ridge: float = 1.0):
        rng = np.random.default_rng([K, d, seed])
        M = 12
        if contexts is None:
            contexts = rng.standard_normal((M, d)) * (rng.random((M, d)) < 0.7) + 0.3
            contexts[rng.random((M, d)) < 0.2] = 0.0
            contexts[0] = 0.0  # every arm ties here
            contexts[1] *= -0.0
        self.C = np.ascontiguousarray(contexts)
        M = len(self.C)
        self.ridge = ridge
        self.outcomes = np.round(rng.random((M, K)), 2)
        self.allowed = rng.random((M, K)) < 0.6
        self.allowed[-1] = False
        self.eligible = rng.random((M, K)) < 0.8
        self.eligible[M // 2] = False
        limits = LinearArms(arms=K, features=d)
        n = 40
        posterior.fold_many(
            limits.kernel_state,
            rng.integers(0, K, n),
            self.C[rng.integers(0, M, n)],
            rng.integers(0, 2, n).astype(np.float64),
        )
        self.limits = limits.scores_many(self.C)
        self.rows = rng.integers(0, M, T)
        self.start = keys.stream(seed, keys.DECIDE)
        self.numbers = rng.integers(0, 2**63, T).astype(np.uint64)
        self.K, self.d = K, d

    def tables(self, w: Weights, kind: str):
        """Eligible arms and limits, in the forms that the loop takes."""
        every = np.ones((1, self.K), np.bool_)
        eligible = {"every": every, "some": self.eligible, "one row": self.eligible[:1]}[kind]
        if w.mask == MASK_ARGMAX:  # the loop is given what a mask leaves
            eligible = eligible & self.allowed
        limits = self.limits if w.limit else (np.zeros((1, self.K)), np.zeros((1, self.K)))
        return eligible, limits

    def compiled(self, w: Weights, kind: str, arms: LinearArms, learn: bool = True):
        eligible, (belief, doubt) = self.tables(w, kind)
        played = np.full(len(self.rows), -2)
        loop.run(
            w,
            arms.kernel_state,
            self.ridge,
            self.C,
            self.outcomes,
            self.allowed,
            eligible,
            belief,
            doubt,
            self.rows,
            self.start,
            self.numbers,
            learn,
            played,
            False,
            np.zeros(2),
        )
        return played

    def plain(self, w: Weights, kind: str, arms: LinearArms, learn: bool = True):
        eligible, (belief, doubt) = self.tables(w, kind)
        post, weights = arms.kernel_state, np.array(w)
        played = np.full(len(self.rows), -2)
        for t, row in enumerate(self.rows):
            parts = np.empty((7, self.K))
            posterior.score(post.A, post.mu, self.C[row], parts[0], parts[1])
            parts[2:4] = belief[row if w.limit else 0], doubt[row if w.limit else 0]
            may = eligible[row if len(eligible) > 1 else 0]
            arm = choice.choose(weights, parts, may, self.allowed[row], self.start, self.numbers[t])
            played[t] = arm
            if learn and arm >= 0:
                posterior.fold_one(*post, int(arm), self.C[row], self.outcomes[row, arm])
        return played

    def arms(self) -> LinearArms:
        return LinearArms(arms=self.K, features=self.d, ridge=self.ridge)

    def check(self, w: Weights, kind: str = "every") -> None:
        one, other = self.arms(), self.arms()
        played = self.compiled(w, kind, one)
        assert played.tolist() == self.plain(w, kind, other).tolist()
        for mine, its in zip(one.to_state().values(), other.to_state().values(), strict=True):
            assert mine.tobytes() == its.tobytes()
        # What was learned decides a batch, in which nothing is learned.
        again = self.compiled(w, kind, one, learn=False)
        assert again.tolist() == self.plain(w, kind, other, learn=False).tolist()
        for mine, its in zip(one.to_state().values(), other.to_state().values(), strict=True):
            assert mine.tobytes() == its.tobytes()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("kind", ["every", "some", "one row"])
@pytest.mark.parametrize(("K", "d"), COLUMNS + LAZY)
def test_the_loop_plays_what_a_plain_loop_plays(K, d, kind, name) -> None:
    T = size(400, 20) if K * d < 100 else size(200, 3)
    Case(K, d, T).check(POLICIES[name], kind)


@pytest.mark.parametrize("name", ["thompson", "blend", "ucb"])
@pytest.mark.parametrize(("K", "d"), [(2, 20), (10, 4), (4, 2)] if JIT else [(2, 2)])
def test_the_loop_stays_true_over_refreshes(K, d, name) -> None:
    if JIT:
        Case(K, d, 6_000).check(POLICIES[name])
    else:  # two arms, one context, one refresh
        case = Case(2, 2, posterior.REFRESH_AFTER + 20, contexts=np.ones((1, 2)))
        case.eligible[...] = [[False, True]]
        case.check(POLICIES[name], "some")


@pytest.mark.parametrize("kind", ["positive", "one", "near", "sparse", "unscaled"])
@pytest.mark.parametrize("name", ["thompson", "ucb", "optimist"])
@pytest.mark.parametrize(("K", "d"), [(3, 2), (5, 20), (40, 18)] if JIT else [(3, 2), (19, 18)])
def test_laziness_passes_over_no_winner(K, d, kind, name) -> None:
    # Contexts around a middle, where the bounds are tight.
    rng = np.random.default_rng(d)
    contexts = {
        "positive": rng.random((30, d)),
        "one": rng.random((1, d)),
        "near": rng.random(d) + 1e-3 * rng.random((20, d)),
        "sparse": (rng.random((50, d)) < 0.2).astype(np.float64),
        "unscaled": rng.random((20, d)) * np.geomspace(1.0, 1e3, d),
    }[kind]
    Case(K, d, size(3_000, 8), contexts=contexts).check(POLICIES[name])


@pytest.mark.parametrize("distinct", [1, 20])
@pytest.mark.parametrize("magnitude", [1e4, 1e5, 1e6])
@pytest.mark.parametrize("name", ["thompson", "ucb"])
@pytest.mark.parametrize(("K", "d"), [(4, 3), (5, 20)] if JIT else [(4, 3)])
def test_laziness_passes_over_no_winner_where_rounding_rules(
    K, d, name, magnitude, distinct
) -> None:
    # Large contexts of (almost) one direction: spreads are noise there, and bounds on them too.
    rng = np.random.default_rng(d)
    contexts = magnitude * (rng.random(d) + 1e-6 * rng.random((distinct, d)))
    Case(K, d, size(3_000, 8), contexts=contexts).check(POLICIES[name])


@given(st.data())
def test_any_small_run_is_as_the_plain_loop_plays_it(data) -> None:
    K, d = data.draw(st.integers(1, 10)), data.draw(st.integers(1, 18))
    seed = data.draw(st.integers(0, 10**6))
    w = POLICIES[data.draw(st.sampled_from(sorted(POLICIES)))]
    kind = data.draw(st.sampled_from(["every", "some", "one row"]))
    ridge = data.draw(st.sampled_from([0.1, 1.0, 10.0]))
    T = data.draw(st.integers(0, size(60, 4)))
    Case(K, d, T, seed, ridge=ridge).check(w, kind)


# The pieces


@pytest.mark.parametrize(
    ("K", "d", "n"), [(1, 1, 1), (3, 4, 0), (9, 5, 2), (8, 16, 16), (20, 7, 3)]
)
def test_columns_have_the_bits_of_rows(K, d, n) -> None:
    rng = np.random.default_rng([K, d, n])
    arms = LinearArms(arms=K, features=d)
    C = rng.standard_normal((60, d))
    posterior.fold_many(arms.kernel_state, rng.integers(0, K, 60), C, rng.random(60))
    A, mu = arms.covariances, arms.means
    i, j = np.tril_indices(d)
    for _ in range(size(20, 3)):
        c = np.zeros(d)
        c[rng.permutation(d)[:n]] = rng.standard_normal(n)
        where = np.empty(d, np.uint32)
        assert posterior.nonzeros(c, where) == n
        mean, sd, h = np.full(K, np.nan), np.full(K, np.nan), np.empty(max(K, d))
        loop.score_columns(
            np.ascontiguousarray(mu.T),
            np.ascontiguousarray(A[:, i, j].T),
            c,
            where,
            n,
            0.0,
            h,
            mean,
            sd,
        )
        rows_mean, rows_sd = np.empty(K), np.empty(K)
        posterior.score(A, mu, c, rows_mean, rows_sd)
        assert mean.tolist() == rows_mean.tolist()
        assert sd.tolist() == rows_sd.tolist()


def test_columns_give_no_root_of_a_negative_square() -> None:
    mean, sd, h = np.empty(2), np.empty(2), np.empty(2)
    A = np.full((1, 2), -1e-20)
    loop.score_columns(np.zeros((1, 2)), A, np.ones(1), np.zeros(1, np.uint32), 1, 0.0, h, mean, sd)
    assert sd.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("d", [1, 3, 10])
@pytest.mark.parametrize("ridge", [0.1, 1.0, 7.0])
def test_the_widest_spread_bounds_every_spread(d, ridge) -> None:
    rng = np.random.default_rng(d)
    arms = LinearArms(arms=2, features=d, ridge=ridge)
    n = 30
    posterior.fold_many(
        arms.kernel_state, np.zeros(n, np.int64), rng.standard_normal((n, d)), rng.random(n)
    )
    C = rng.standard_normal((size(300, 30), d))
    C /= np.sqrt((C * C).sum(axis=1, keepdims=True))
    _, sd = arms.scores_many(C)
    for k in range(2):
        widest = loop.widest_spread(arms.covariances, k, ridge)
        assert sd[:, k].max() <= widest
        assert widest <= 1.00001 / math.sqrt(ridge)


def test_the_direction_of_the_middle() -> None:
    C = np.array([[1.0, 2.0, 0.0], [2.0, 2.0, 0.0]])
    middle, none = np.empty(3), np.empty(2)
    loop.direction(C, middle)
    assert middle == pytest.approx([0.6, 0.8, 0.0], rel=1e-15)
    loop.direction(np.array([[1.0, -1.0], [-1.0, 1.0]]), none)
    assert none.tolist() == [0.0, 0.0]


# Measures


@pytest.mark.parametrize("marks", [[], [1], [1, 2, 50, 80], [80]])
def test_measures_are_the_sums_by_hand(marks) -> None:
    rng = np.random.default_rng(4)
    M, K, T = 6, 3, 80
    rewards, allowed = rng.random((M, K)), rng.random((M, K)) < 0.5
    allowed[2] = False
    rows, arms = rng.integers(0, M, T), rng.integers(-1, K, T)
    best = rewards.max(axis=1)
    best_allowed = np.where(allowed, rewards, 0.0).max(axis=1)
    out = np.full((4, len(marks)), np.nan)
    checkpoints = np.array(marks, np.int64)
    loop.tally(rows, arms, rewards, allowed, best, best_allowed, checkpoints, out)
    for place, t in enumerate(marks):
        steps = list(zip(rows[:t], arms[:t], strict=True))
        earned = [rewards[r, k] if k >= 0 else 0.0 for r, k in steps]
        lawful = [rewards[r, k] if k >= 0 and allowed[r, k] else 0.0 for r, k in steps]
        R = sum(best[r] - e for (r, _), e in zip(steps, earned, strict=True)) / t
        Rc = sum(best_allowed[r] - e for (r, _), e in zip(steps, lawful, strict=True)) / t
        E = sum(k >= 0 and not allowed[r, k] for r, k in steps)
        abstained = sum(k < 0 for _, k in steps)
        assert out[:, place] == pytest.approx([R, Rc, E, abstained], rel=1e-13)


# -- the centred prior -----------------------------------------------------------------------------


@pytest.mark.parametrize(("K", "d"), [(9, 4), (3, 4), (12, 20), (4, 1)])
def test_a_centred_prior_expects_the_mean_of_all_rewards(K, d) -> None:
    """Against SPEC's formula, r̄ + cᵀB⁻¹(f − r̄h), with the draws of the loop; no draw is near a tie.

    Few arms or many features take the lazy way, the others the columns.
    """
    rng = np.random.default_rng([K, d, 7])
    M, T, ridge, v = 30, size(400, 40), 1.5, 0.05
    C = np.hstack([(rng.random((M, d)) < 0.5) * rng.random((M, d)), np.ones((M, 1))])
    rewards = rng.random((M, K))
    arms = LinearArms(arms=K, features=d + 1, ridge=ridge)
    rows, played = rng.integers(0, M, T), np.full(T, -2)
    totals = np.array([0.5, 1.0])
    start = keys.stream(3, keys.DECIDE)
    every = np.ones((1, K), np.bool_)
    nothing = np.zeros((1, K))
    loop.run(
        Weights(1.0, 0.0, v, 0.0, 0.0, 0.0, NO_MASK),
        arms.kernel_state,
        ridge,
        C,
        rewards,
        np.ones((M, K), np.bool_),
        every,
        nothing,
        nothing,
        rows,
        start,
        np.arange(1, T + 1, dtype=np.uint64),
        True,
        played,
        True,
        totals,
    )
    B = np.stack([ridge * np.eye(d + 1)] * K)
    f, h = np.zeros((K, d + 1)), np.zeros((K, d + 1))
    total, count = 0.5, 1.0
    z = np.empty(K)
    for t, row in enumerate(rows):
        c, mean_reward = C[row], total / count
        keys.fill_normals(np.uint64(keys.key_of(start, np.uint64(t + 1))), z)
        inverse = np.linalg.inv(B)
        mean = mean_reward + (inverse @ (f - mean_reward * h)[:, :, None])[:, :, 0] @ c
        score = mean + v * np.sqrt(np.einsum("i,kij,j->k", c, inverse, c)) * z
        assert played[t] == score.argmax()
        k = int(played[t])
        B[k] += np.outer(c, c)
        f[k] += c * rewards[row, k]
        h[k] += c
        total, count = total + rewards[row, k], count + 1.0
    assert totals.tolist() == pytest.approx([total, count])

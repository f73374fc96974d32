"""The reference itself, held against closed forms and against sums by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binomtest, chi2

from tests import reference
from tests.reference import ABSTAINED, Arms, World

# Two contexts, three arms; nothing is allowed in the third row.
WORLD = World(
    contexts=np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    rewards=np.array([[0.9, 0.5, 0.1], [0.2, 0.4, 0.6], [0.3, 0.8, 0.5]]),
    allowed=np.array([[False, True, True], [True, True, False], [False, False, False]]),
)


def trained(seed: int, K: int = 3, d: int = 2, n: int = 40) -> tuple[Arms, np.random.Generator]:
    rng = np.random.default_rng(seed)
    arms = Arms(K, d)
    for _ in range(n):
        arms.update(rng.normal(size=d), int(rng.integers(K)), float(rng.random()))
    return arms, rng


# Arms


def test_posterior_of_one_example_by_hand() -> None:
    mu, B = reference.posterior([[1.0, 2.0]], [3.0], d=2, ridge=1.0)
    # (I + c c')^-1 c y = c y / (1 + c'c)
    assert mu == pytest.approx([0.5, 1.0])
    assert B.tolist() == [[2.0, 2.0], [2.0, 5.0]]


def test_nothing_seen_is_the_prior() -> None:
    mu, B = reference.posterior([], [], d=3, ridge=2.0)
    assert mu.tolist() == [0.0, 0.0, 0.0]
    assert B.tolist() == (2.0 * np.eye(3)).tolist()


@pytest.mark.parametrize("ridge", [0.1, 1.0, 5.0])
def test_arms_are_the_posterior_of_their_own_examples(ridge: float) -> None:
    rng = np.random.default_rng(1)
    contexts, played, outcomes = rng.normal(size=(60, 4)), rng.integers(0, 3, 60), rng.random(60)
    arms = Arms(3, 4, ridge)
    for c, k, y in zip(contexts, played, outcomes, strict=True):
        arms.update(c, int(k), float(y))
    for k in range(3):
        mu, B = reference.posterior(contexts[played == k], outcomes[played == k], 4, ridge)
        assert arms.mu[k] == pytest.approx(mu, rel=1e-12, abs=1e-13)
        assert arms.B[k] == pytest.approx(B, rel=1e-13)
        assert arms.inverse[k] @ B == pytest.approx(np.eye(4), abs=1e-12)


def test_draws_have_the_posteriors_law() -> None:
    """(x - mu)' B (x - mu) / v^2 is chi-square of d; of n draws the sum is chi-square of n d, and
    n times that of their mean is so of d. 3 arms, 2 tests, 2 tails of 5e-8: fails with 6e-7.
    """
    arms, rng = trained(2)
    n, d, v, tail = 4000, 2, 0.7, 5e-8
    draws = np.array([arms.draw(v, rng) for _ in range(n)])  # (n, K, d)
    for k in range(3):
        off = (draws[:, k] - arms.mu[k]) / v
        spread = float(np.einsum("ni,ij,nj->", off, arms.B[k], off))
        centre = float(n * off.mean(axis=0) @ arms.B[k] @ off.mean(axis=0))
        assert chi2.ppf(tail, n * d) < spread < chi2.isf(tail, n * d)
        assert chi2.ppf(tail, d) < centre < chi2.isf(tail, d)


def test_paper_v() -> None:
    assert reference.paper_v(R=0.01, z=0.9, gamma=0.1, d=10) == pytest.approx(0.248, abs=5e-4)


# Probabilities of winning


def test_two_arms_have_a_closed_form() -> None:
    for m, s in [((0.3, 0.1), (0.2, 0.5)), ((0.0, 3.0), (1.0, 1e-3)), ((1.0, 1.0), (1e-6, 1.0))]:
        p = reference.win_probabilities(m, s)
        expected = ndtr((m[0] - m[1]) / np.hypot(*s))
        assert p == pytest.approx([expected, 1.0 - expected], abs=1e-9)


def test_equal_arms_share_equally() -> None:
    assert reference.win_probabilities([0.4] * 7, [0.3] * 7) == pytest.approx(
        [1 / 7] * 7, abs=1e-12
    )


def test_arms_without_spread() -> None:
    win = reference.win_probabilities
    assert win([0.1, 0.9, 0.9], [0.0, 0.0, 0.0]).tolist() == [0.0, 0.5, 0.5]
    p = ndtr(-0.5)  # N(0, 1) above .5
    expected = [p, (1 - p) / 2, (1 - p) / 2, 0.0]
    assert win([0.0, 0.5, 0.5, 0.4], [1.0, 0.0, 0.0, 0.0]) == pytest.approx(expected, abs=1e-12)
    # Far below the fixed one
    assert win([0.0, 1.0], [0.01, 0.0]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("ratio", [1.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("fixed", [0, 2])
def test_win_probabilities_sum_to_one(ratio: float, fixed: int) -> None:
    rng = np.random.default_rng(4)
    means, sds = rng.normal(size=8), ratio ** -rng.random(8)
    sds[0], sds[1] = 1.0, 1.0 / ratio
    sds[8 - fixed :] = 0.0
    p = reference.win_probabilities(means, sds)
    assert (p >= 0.0).all()
    assert p.sum() == pytest.approx(1.0, abs=1e-9)


def test_one_draw_of_the_blend_has_the_law_of_the_vectors() -> None:
    """SPEC 2.3, by chi-square over 20,000 choices made with whole vectors; fails with 1e-6."""
    arms, rng = trained(5, K=4)
    limits, _ = trained(6, K=4)
    c, sigma, v, v_e, n = np.array([0.6, -0.9]), 0.3, 0.4, 0.8, 20_000
    wins = np.zeros(4)
    for _ in range(n):
        blend = sigma * (arms.draw(v, rng) @ c) + (1 - sigma) * (limits.draw(v_e, rng) @ c)
        wins[reference.best(blend, rng)] += 1
    moments = reference.blend_moments(arms, limits, c, sigma=sigma, v=v, v_constraint=v_e)
    expected = n * reference.win_probabilities(*moments)
    assert expected.min() > 100
    assert ((wins - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 3)


def test_simple_choices() -> None:
    arms = Arms(3, 1)
    c = np.array([2.0])
    assert reference.greedy_shares(arms, c) == pytest.approx([1 / 3] * 3)
    arms.update(c, 1, 1.0)  # B = 5, f = 2: mean .8, spread 2 / sqrt 5 = .894; the others 0 and 2
    arms.update(c, 2, 0.0)  # mean 0, spread .894
    assert arms.means(c) == pytest.approx([0.0, 0.8, 0.0])
    assert arms.spreads(c) == pytest.approx([2.0, 2 / 5**0.5, 2 / 5**0.5])
    assert reference.greedy_shares(arms, c).tolist() == [0.0, 1.0, 0.0]
    assert reference.epsilon_greedy_shares(arms, c, 0.3) == pytest.approx([0.1, 0.8, 0.1])
    assert reference.linucb_shares(arms, c, alpha=0.1).tolist() == [0.0, 1.0, 0.0]
    assert reference.linucb_shares(arms, c, alpha=1.0).tolist() == [1.0, 0.0, 0.0]


# The two phases


def test_teaching_labels_what_was_asked() -> None:
    rows = np.tile([0, 1], 100)
    for how in ("random", "thompson"):
        for coding, (yes, no) in reference.LABELS.items():
            rng = np.random.default_rng(7)
            taught = reference.teach(WORLD, rows, how=how, v=0.25, coding=coding, rng=rng)
            expected = np.where(WORLD.allowed[rows, taught.asked], yes, no)
            assert taught.labels.tolist() == expected.tolist()
            for k in range(3):
                mine = taught.asked == k
                contexts = WORLD.contexts[rows[mine]]
                mu, _ = reference.posterior(contexts, taught.labels[mine], 2)
                assert taught.limits.mu[k] == pytest.approx(mu, abs=1e-12)


def test_thompson_teaching_comes_to_ask_about_allowed_arms() -> None:
    """Rows 0 and 1 have two allowed arms of three. Over 200 other seeds 399 of 400 questions were
    about them, with sd 1.1 and never below 393; uniform asking has 267 with sd 9.4. So 320 is 70 sd
    below the one (a failure with probability < 1e-100) and 5.6 sd above the other.
    """
    rng = np.random.default_rng(8)
    rows = np.tile([0, 1], 200)
    taught = reference.teach(WORLD, rows, how="thompson", v=0.25, rng=rng)
    assert WORLD.allowed[rows, taught.asked].sum() > 320


def test_fewer_questions_are_a_prefix() -> None:
    rows = np.tile([0, 1], 50)
    for how in ("random", "thompson"):
        short, long = (
            reference.teach(WORLD, rows[:n], how=how, v=0.25, rng=np.random.default_rng(9)).asked
            for n in (30, 100)
        )
        assert short.tolist() == long[:30].tolist()


def test_counts_by_hand() -> None:
    """A forced order of arms: denied, best allowed, other allowed, abstained, denied."""
    rows = np.array([0, 0, 1, 2, 2])
    forced = iter([0, 1, 0, ABSTAINED, 1])
    run = reference.play(
        WORLD, rows, lambda *_: next(forced), v=0.25, rng=np.random.default_rng(10)
    )
    regrets = [0.9 - 0.9, 0.9 - 0.5, 0.6 - 0.2, 0.8 - 0.0, 0.8 - 0.8]
    # Best allowed: .5, .5, .4, none (0), none (0); a denied play earns 0.
    allowed_regrets = [0.5 - 0.0, 0.5 - 0.5, 0.4 - 0.2, 0.0, 0.0]
    steps = np.arange(1, 6)
    assert run.arms.tolist() == [0, 1, 0, ABSTAINED, 1]
    assert run.R_curve == pytest.approx(np.cumsum(regrets) / steps)
    assert run.Rc_curve == pytest.approx(np.cumsum(allowed_regrets) / steps)
    assert run.E_curve.tolist() == [1, 1, 1, 1, 2]
    assert (run.R, run.Rc, run.E) == (run.R_curve[-1], run.Rc_curve[-1], 2)
    assert run.abstentions == 1
    assert run.vectors.shape == (5, 3, 2)


def test_masks_never_violate_and_abstain_where_nothing_is_allowed() -> None:
    rows = np.tile([0, 1, 2], 100)
    for reading in ("argmax", "filter"):
        run = reference.mask(WORLD, rows, v=0.25, reading=reading, rng=np.random.default_rng(11))
        assert run.E == 0
        assert run.abstentions == 100
        assert ((run.arms == ABSTAINED) == (rows == 2)).all()


def test_both_readings_of_the_mask_from_the_vectors_drawn() -> None:
    """`argmax` plays the best allowed draw; `filter` the best draw or, if denied, any allowed arm.

    The replacements are fair coins: fails with 1e-6.
    """
    world = World(np.ones((1, 1)), np.array([[0.9, 0.6, 0.1]]), np.array([[False, True, True]]))
    rows = np.zeros(2000, dtype=np.int64)
    run = reference.mask(world, rows, v=2.0, reading="argmax", rng=np.random.default_rng(12))
    assert (run.arms == 1 + run.vectors[:, 1:, 0].argmax(axis=1)).all()

    run = reference.mask(world, rows, v=2.0, reading="filter", rng=np.random.default_rng(12))
    picks = run.vectors[:, :, 0].argmax(axis=1)
    denied = picks == 0
    assert (run.arms[~denied] == picks[~denied]).all()
    replaced = run.arms[denied]
    assert len(replaced) > 500  # about 760: arm 0 is never tried, so it stays at N(0, 4) against .6
    assert binomtest(int((replaced == 1).sum()), len(replaced)).pvalue > 1e-6


def test_sigma_0_ignores_rewards_and_sigma_1_ignores_limits() -> None:
    rng = np.random.default_rng(13)
    rows = rng.integers(0, 3, 200)
    other = World(WORLD.contexts, 1.0 - WORLD.rewards, WORLD.allowed)
    taught, untaught = trained(14)[0], trained(15)[0]

    def arms(world: World, limits: Arms, sigma: float) -> list[int]:
        run = reference.bcts(
            world, rows, limits, sigma=sigma, v=0.25, rng=np.random.default_rng(16)
        )
        return [int(k) for k in run.arms]

    assert arms(WORLD, taught, 0.0) == arms(other, taught, 0.0)
    assert arms(WORLD, taught, 1.0) == arms(WORLD, untaught, 1.0)
    assert arms(WORLD, taught, 0.5) != arms(other, taught, 0.5)
    assert arms(WORLD, taught, 0.5) != arms(WORLD, untaught, 0.5)


def test_the_arm_played_is_the_best_of_the_vectors_drawn() -> None:
    rows = np.random.default_rng(17).integers(0, 3, 200)
    limits = trained(18)[0]
    run = reference.bcts(WORLD, rows, limits, sigma=0.4, v=0.25, rng=np.random.default_rng(19))
    c = WORLD.contexts[rows]
    blend = np.einsum("tkd,td->tk", 0.4 * run.vectors + 0.6 * run.limit_vectors, c)
    assert (run.arms == blend.argmax(axis=1)).all()
    plain = reference.cts(WORLD, rows, v=0.25, rng=np.random.default_rng(19))
    assert (plain.arms == np.einsum("tkd,td->tk", plain.vectors, c).argmax(axis=1)).all()
    assert plain.limit_vectors.shape == (200, 3, 0)


def test_unknown_words_are_refused() -> None:
    rng, rows = np.random.default_rng(20), np.array([0])
    with pytest.raises(ValueError, match="clever"):
        reference.teach(WORLD, rows, how="clever", v=0.25, rng=rng)
    with pytest.raises(ValueError, match="clever"):
        reference.mask(WORLD, rows, v=0.25, reading="clever", rng=rng)

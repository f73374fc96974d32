"""The threshold is the one that the definition gives; shortcuts to it do not hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from bridle.certificates.binomial import most_broken
from bridle.certificates.certificate import lambda_hat, unsound_one_arm, unsound_pilot, worst_scores
from bridle.errors import InvalidValue, NotPossible

ALPHA, DELTA, RUNS, N = 0.05, 0.1, 300, 200
# A promise that holds is broken in at most DELTA of the runs: more than MOST of 300 is seen with
# a probability below 1e-6.
MOST = 57


def test_more_than_the_most_is_less_likely_than_one_in_a_million():
    assert binom.sf(MOST, RUNS, DELTA) < 1e-6 < binom.sf(MOST - 2, RUNS, DELTA)


def by_definition(worst, alpha, delta, lambda_min):
    """SPEC 7.5, word for word; None where it refuses."""
    n = len(worst)

    def upper(threshold):
        k = sum(w > threshold for w in worst)
        return 1.0 if k == n else beta.ppf(1 - delta, k + 1, n - k)

    candidates = {lambda_min, *(w for w in worst if w > lambda_min)}
    good = {one: upper(one) <= alpha for one in candidates}
    fine = [one for one in candidates if all(good[o] for o in candidates if o >= one)]
    return min(fine) if fine else None


@given(
    st.lists(
        st.sampled_from([-np.inf, 0.1, 0.3, 0.5, 0.55, 0.7, 0.9, 1.0]), min_size=1, max_size=60
    ),
    st.sampled_from([0.05, 0.1, 0.3, 0.7]),
    st.sampled_from([0.01, 0.1, 0.5]),
    st.sampled_from([0.0, 0.2, 0.5, 0.7]),
)
def test_the_threshold_is_the_definitions(worst, alpha, delta, lambda_min):
    wanted = by_definition(worst, alpha, delta, lambda_min)
    if wanted is None:
        with pytest.raises(NotPossible, match="calibration contexts cannot show"):
            lambda_hat(worst, alpha, delta, lambda_min)
    else:
        assert lambda_hat(worst, alpha, delta, lambda_min) == wanted


def test_the_refusal_says_how_many_are_needed():
    with pytest.raises(NotPossible, match="at least 45 are needed"):
        lambda_hat([-np.inf] * 44, ALPHA, DELTA)
    assert lambda_hat([-np.inf] * 45, ALPHA, DELTA) == 0.5
    with pytest.raises(NotPossible, match="at least 230 are needed"):
        lambda_hat([-np.inf] * 229, 0.01, DELTA)


def test_worst_is_the_highest_denied_score_above_the_least():
    scores = np.array([[0.2, 0.9, 0.6], [0.4, 0.8, 0.8], [0.9, 0.9, 0.9], [0.5, 0.6, 0.1]])
    allowed = np.array([[0, 1, 0], [0, 1, 1], [1, 1, 1], [0, 1, 0]])
    assert worst_scores(scores, allowed).tolist() == [0.6, -np.inf, -np.inf, -np.inf]
    assert worst_scores(scores, allowed, 0.0).tolist() == [0.6, 0.4, -np.inf, 0.5]


@pytest.mark.parametrize("lambda_min", [-0.1, 1.0, np.nan, "x", None])
def test_a_least_threshold_that_is_none_is_refused(lambda_min):
    with pytest.raises(InvalidValue, match="'lambda_min' parameter of lambda_hat"):
        lambda_hat([0.5] * 60, ALPHA, DELTA, lambda_min)
    with pytest.raises(InvalidValue, match="'lambda_min' parameter of worst_scores"):
        worst_scores([[0.5]], [[True]], lambda_min)


@pytest.mark.parametrize("bad", [[], [[0.5]], [np.nan] * 60, "x", ["a"]])
def test_scores_that_are_none_are_refused(bad):
    with pytest.raises(InvalidValue, match="'worst' parameter of lambda_hat"):
        lambda_hat(bad, ALPHA, DELTA)


def test_tables_of_other_shapes_are_refused():
    for scores, allowed in (([[0.5]], [True]), ([[0.5]], [[True, True]]), ([[0.5]], [[2]])):
        with pytest.raises(InvalidValue, match="'allowed' parameter of worst_scores"):
            worst_scores(scores, allowed)
    nothing: list = [[], [[]], [0.5], [[np.nan]], np.zeros((0, 2))]
    for none in nothing:
        with pytest.raises(InvalidValue, match="'scores' parameter of worst_scores"):
            worst_scores(none, [[True]])


def test_strictly_above_holds_where_or_equal_breaks():
    """Few distinct contexts: many tie with the threshold, and with ≥ all of them come in."""
    rng = np.random.default_rng(1)
    values, chances = np.array([0.9, 0.8, -np.inf]), np.array([0.02, 0.2, 0.78])
    above = at_least = 0
    for _ in range(RUNS):
        threshold = lambda_hat(rng.choice(values, N, p=chances), ALPHA, DELTA)
        above += chances[values > threshold].sum() > ALPHA
        at_least += chances[values >= threshold].sum() > ALPHA
    assert above <= MOST  # error 1e-6
    # The threshold is .8 wherever at most 5 of 200 are .9: then ≥ lets .22 through.
    chance = binom.cdf(most_broken(N, ALPHA, DELTA), N, 0.02)
    assert binom.cdf(MOST, RUNS, chance) < 1e-6
    assert at_least > MOST


def test_one_random_arm_of_the_set_is_no_certificate():
    """In 30 % of contexts one arm of ten is denied. A random one is so in 3 %."""
    rng = np.random.default_rng(2)
    M, K, alpha = 1_000, 10, 0.1
    scores = rng.uniform(0.6, 0.9, (M, K))
    allowed = np.ones((M, K), bool)
    allowed[np.arange(300), rng.integers(0, K, 300)] = False
    worst = worst_scores(scores, allowed)
    sound = shortcut = 0
    for _ in range(RUNS):
        rows = rng.integers(0, M, N)
        sound += (worst > lambda_hat(worst[rows], alpha, DELTA)).mean() > alpha
        threshold = unsound_one_arm(scores[rows], allowed[rows], alpha, DELTA, rng)
        shortcut += (worst > threshold).mean() > alpha
    assert sound <= MOST  # error 1e-6
    # A promise that held would be seen broken so often with a probability below 1e-6. (It is
    # broken in nearly all runs: .03 is seen at the lowest threshold, where .3 is true.)
    assert shortcut > MOST


def test_one_random_arm_is_drawn_of_each_set_as_described():
    rng = np.random.default_rng(3)
    for _ in range(30):
        n, K = 60, 4
        scores = rng.choice([0.3, 0.6, 0.7, 0.8, 0.9], (n, K))
        allowed = rng.random((n, K)) < 0.9
        seed = int(rng.integers(0, 2**32))
        found = unsound_one_arm(scores, allowed, 0.1, 0.3, np.random.default_rng(seed))
        # Lots belong to the places in the order of scores.
        order = np.argsort(-scores, axis=1, kind="stable")
        lots = np.empty((n, K))
        np.put_along_axis(lots, order, np.random.default_rng(seed).random((n, K)), 1)
        slow = None
        for threshold in (0.9, 0.8, 0.7, 0.6, 0.5):
            inside = scores > threshold
            pick = np.where(inside, lots, -1.0).argmax(axis=1)
            lost = inside.any(axis=1) & ~allowed[np.arange(n), pick]
            if lost.sum() > most_broken(n, 0.1, 0.3):
                break
            if threshold == 0.5 or (scores == threshold).any():
                slow = threshold
        assert found == slow


def test_a_sigma_chosen_on_a_pilot_is_no_certificate():
    """In the pilot nothing is known of what pays; later the denied arm is known to pay most."""
    rng = np.random.default_rng(4)
    M, alpha = 2_000, 0.1
    p = np.column_stack([rng.uniform(0.1, 0.6, M), rng.uniform(0.5, 0.95, (M, 2))])
    pays = np.array([1.0, 0.4, 0.4])  # arm 0 is denied everywhere
    sigmas = np.linspace(0.0, 1.0, 21)

    def plays_denied(rewards, rows, sigma):
        return (sigma * rewards + (1 - sigma) * p[rows]).argmax(axis=1) == 0

    later = [plays_denied(pays, np.arange(M), sigma).mean() for sigma in sigmas]
    broke = 0
    for _ in range(RUNS):
        rows = rng.integers(0, M, N)
        guesses = rng.normal(0.5, 0.05, (N, 3))
        pilot = np.array([plays_denied(guesses, rows, sigma) for sigma in sigmas])
        sigma = unsound_pilot(sigmas, pilot, alpha, DELTA)
        broke += sigma is not None and later[np.searchsorted(sigmas, sigma)] > alpha
    # A promise that held would be seen broken so often with a probability below 1e-6.
    assert broke > MOST


def test_the_pilots_sigma_is_the_largest_below_the_first_bad_one():
    bad, good = np.ones(60, bool), np.zeros(60, bool)
    sigmas = [0.0, 0.5, 1.0]
    assert unsound_pilot(sigmas, np.array([good, good, good]), ALPHA, DELTA) == 1.0
    assert unsound_pilot(sigmas, np.array([good, bad, good]), ALPHA, DELTA) == 0.0
    assert unsound_pilot(sigmas, np.array([bad, good, good]), ALPHA, DELTA) is None
    for case in ([0.5, 0.5, 1.0], 3.0):
        with pytest.raises(InvalidValue, match="'sigmas' parameter"):
            unsound_pilot(case, np.array([good, good, good]), ALPHA, DELTA)
    for pilot in ([good, good], np.zeros((3, 60)), np.zeros((3, 0), bool)):
        with pytest.raises(InvalidValue, match="'violated' parameter"):
            unsound_pilot(sigmas, pilot, ALPHA, DELTA)

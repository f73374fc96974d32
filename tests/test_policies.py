"""Policies: what they choose, with what probability, and that one draw an arm is enough."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from bridle import policies
from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.kernels.types import MASK_ARGMAX, MASK_FILTER, NO_MASK
from bridle.policies import (
    BehaviorConstrained,
    EpsilonGreedy,
    Greedy,
    KnownMask,
    LinUCB,
    Policy,
    Scores,
    Thompson,
    Uniform,
    Weighted,
    policy_from_json,
    policy_to_json,
    spread_of,
    with_sigma,
)
from bridle.reward.posterior import LinearArms
from tests import reference
from tests.conftest import check_counts, check_same_law

POLICIES = [
    Thompson(),
    Thompson(v=0.0),
    BehaviorConstrained(),
    BehaviorConstrained(sigma=0.0, v=0.5),
    BehaviorConstrained(sigma=1.0),
    BehaviorConstrained(sigma=0.6, v=0.2, v_constraint=1.0),
    KnownMask(),
    KnownMask(reading="filter", v=0.5),
    Uniform(),
    Greedy(),
    EpsilonGreedy(),
    EpsilonGreedy(epsilon=1.0),
    LinUCB(),
    LinUCB(alpha=0.0),
]
SCORES = Scores(
    reward_mean=np.array([0.3, 0.5, 0.5, 0.1, 0.9]),
    reward_sd=np.array([0.6, 0.2, 0.2, 1.5, 0.4]),
    limit_mean=np.array([0.9, 0.2, 0.2, 0.8, 0.5]),
    limit_sd=np.array([0.1, 0.7, 0.7, 0.0, 0.3]),
    eligible=np.array([True, True, True, True, False]),
    allowed=np.array([True, False, True, True, True]),
)


def counted(policy, scores, n: int = 5_000):
    counts = np.zeros(len(scores.reward_mean))
    for key in range(n):
        counts[policy.choose(scores, key)] += 1
    return counts


# Choices and propensities agree


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_choices_have_the_propensities(policy) -> None:
    # Chi-square, errs once in 1e6, each.
    odds = policy.propensities(SCORES)
    assert odds.shape == (5,)
    assert odds.sum() == pytest.approx(1.0, abs=1e-12)
    assert odds[4] == 0.0  # not eligible
    check_counts(counted(policy, SCORES), odds)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_the_same_key_gives_the_same_choice(policy) -> None:
    keys = [0, 1, 7, 2**63, 2**64 - 1]
    assert isinstance(policy, Policy)
    assert isinstance(policy.choose(SCORES, 3), int)
    once = [policy.choose(SCORES, key) for key in keys]
    assert once == [policy.choose(SCORES, np.uint64(key)) for key in keys]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_nothing_to_play_is_minus_one_with_no_propensity(policy) -> None:
    none, every = np.zeros(2, np.bool_), np.ones(2, np.bool_)
    cases = [Scores(np.ones(2), np.ones(2), eligible=none, allowed=every)]
    if policy.needs_truth:
        cases.append(Scores(np.ones(2), np.ones(2), eligible=every, allowed=none))
    for scores in cases:
        assert {policy.choose(scores, key) for key in range(20)} == {-1}
        assert policy.propensities(scores).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_one_arm_is_always_played(policy) -> None:
    scores = Scores(np.array([-3.0]), np.array([0.5]), allowed=np.array([True]))
    assert {policy.choose(scores, key) for key in range(20)} == {0}
    assert policy.propensities(scores) == pytest.approx([1.0], abs=1e-12)


# What each one plays


def test_fixed_rules_play_the_best_and_share_ties() -> None:
    m, s = np.array([0.5, 0.9, 0.9, 0.2]), np.array([0.6, 0.1, 0.1, 0.9])
    scores = Scores(m, s)
    assert Uniform().propensities(scores).tolist() == [0.25] * 4
    assert Greedy().propensities(scores).tolist() == [0.0, 0.5, 0.5, 0.0]
    assert Thompson(v=0.0).propensities(scores).tolist() == [0.0, 0.5, 0.5, 0.0]
    mixed = EpsilonGreedy(epsilon=0.2).propensities(scores)
    assert mixed == pytest.approx([0.05, 0.45, 0.45, 0.05], abs=1e-15)
    # 0.5 + 0.6 = 1.1 and 0.2 + 0.9 = 1.1; at alpha = 0.5 the tie is the other one.
    assert LinUCB(alpha=1.0).propensities(scores).tolist() == [0.5, 0.0, 0.0, 0.5]
    assert LinUCB(alpha=0.5).propensities(scores).tolist() == [0.0, 0.5, 0.5, 0.0]
    assert {Greedy().choose(scores, key) for key in range(50)} == {1, 2}
    assert {LinUCB().choose(scores, key) for key in range(50)} == {0, 3}


def test_the_rules_are_the_references() -> None:
    rng = np.random.default_rng(1)
    arms, plain = LinearArms(arms=4, features=3), reference.Arms(4, 3)
    for _ in range(30):
        c, k, y = rng.standard_normal(3), int(rng.integers(4)), float(rng.random())
        arms.update(k, c, y)
        plain.update(c, k, y)
    for c in (rng.standard_normal(3), np.zeros(3)):
        scores = Scores(*arms.scores(c))
        assert Greedy().propensities(scores).tolist() == reference.greedy_shares(plain, c).tolist()
        for epsilon in (0.0, 0.3, 1.0):
            expected = reference.epsilon_greedy_shares(plain, c, epsilon)
            mine = EpsilonGreedy(epsilon=epsilon).propensities(scores)
            assert mine == pytest.approx(expected, abs=1e-15)
        for alpha in (0.0, 0.7, 2.0):
            expected = reference.linucb_shares(plain, c, alpha)
            assert LinUCB(alpha=alpha).propensities(scores).tolist() == expected.tolist()
        for v in (0.1, 1.0):
            expected = reference.win_probabilities(plain.means(c), v * plain.spreads(c))
            assert Thompson(v=v).propensities(scores) == pytest.approx(expected, abs=1e-9)


def test_the_blend_is_the_formula_and_its_ends_are_the_parts() -> None:
    m, s, me, se = SCORES.parts()[0][:4]
    every = Scores(m, s, me, se)
    for sigma, v, v_e in ((0.25, 0.25, 0.25), (0.6, 0.2, 1.0), (0.0, 0.3, 0.3), (1.0, 0.3, 0.3)):
        loc = sigma * m + (1.0 - sigma) * me
        scale = np.sqrt((sigma * v * s) ** 2 + ((1.0 - sigma) * v_e * se) ** 2)
        policy = BehaviorConstrained(sigma=sigma, v=v, v_constraint=v_e)
        expected = reference.win_probabilities(loc, scale)
        assert policy.propensities(every) == pytest.approx(expected, abs=1e-9)
    plain = Thompson(v=0.3).propensities(Scores(m, s))
    assert BehaviorConstrained(sigma=1.0, v=0.3).propensities(every).tolist() == plain.tolist()
    taught = Thompson(v=0.3).propensities(Scores(me, se))
    assert BehaviorConstrained(sigma=0.0, v=0.3).propensities(every).tolist() == taught.tolist()
    # v_constraint is v unless it is given.
    one, other = BehaviorConstrained(v=0.4), BehaviorConstrained(v=0.4, v_constraint=0.4)
    assert one.weights == other.weights


def test_both_readings_of_the_mask() -> None:
    m, s = SCORES.reward_mean, SCORES.reward_sd
    allowed = np.array([True, False, True, False, True])
    scores = Scores(m, s, allowed=allowed)
    plain = reference.win_probabilities(m, 0.25 * s)
    among = np.zeros(5)
    among[allowed] = reference.win_probabilities(m[allowed], 0.25 * s[allowed])
    assert KnownMask().propensities(scores) == pytest.approx(among, abs=1e-9)
    swapped = np.where(allowed, plain + plain[~allowed].sum() / 3.0, 0.0)
    assert KnownMask(reading="filter").propensities(scores) == pytest.approx(swapped, abs=1e-9)
    assert KnownMask().weights.mask == MASK_ARGMAX
    assert KnownMask(reading="filter").weights.mask == MASK_FILTER
    assert Thompson().weights.mask == NO_MASK
    # What is not eligible is no allowed arm either.
    barred = Scores(m, s, allowed=allowed, eligible=np.array([True, True, False, True, True]))
    for reading in ("argmax", "filter"):
        odds = KnownMask(reading=reading).propensities(barred)
        assert odds[[1, 2, 3]].tolist() == [0.0, 0.0, 0.0]
        assert odds.sum() == pytest.approx(1.0, abs=1e-12)


# One draw an arm has the law of a draw of the whole weight vector


def models(seed: int, K: int = 4, d: int = 5):
    """Reward arms and limits with one history, here and in the reference."""
    rng = np.random.default_rng(seed)
    ours = LinearArms(arms=K, features=d), LinearArms(arms=K, features=d)
    plain = reference.Arms(K, d), reference.Arms(K, d)
    for arms, other in zip(ours, plain, strict=True):
        for _ in range(25):
            c, k, y = rng.standard_normal(d), int(rng.integers(K)), float(rng.random())
            arms.update(k, c, y)
            other.update(c, k, y)
    return *ours, *plain, rng.standard_normal(d), rng


def vector_scores(plain, c, v, rng, n):
    """c'mu~ of n draws of every arm's whole vector: (n, K)."""
    L = np.linalg.cholesky(plain.inverse)
    z = rng.standard_normal((n, *plain.mu.shape))
    return (plain.mu + v * np.einsum("kij,nkj->nki", L, z)) @ c


def test_one_normal_draw_is_as_good_as_a_vector() -> None:
    ours, _, plain, _, c, rng = models(2)
    scores, v = Scores(*ours.scores(c)), 0.8
    best = vector_scores(plain, c, v, rng, 200_000).argmax(axis=1)
    vectors = np.bincount(best, minlength=4)
    policy = Thompson(v=v)
    # Chi-squares, each errs once in 1e6: vectors against exact odds, and against our choices.
    check_counts(vectors, policy.propensities(scores))
    check_same_law(vectors, counted(policy, scores, 10_000))


@pytest.mark.parametrize("sigma", [0.0, 0.4, 1.0])
def test_one_normal_draw_is_as_good_as_two_vectors_in_a_blend(sigma) -> None:
    ours, limits, plain, plain_limits, c, rng = models(3)
    scores, v, v_e, n = Scores(*ours.scores(c), *limits.scores(c)), 0.8, 0.5, 200_000
    blend = sigma * vector_scores(plain, c, v, rng, n)
    blend += (1.0 - sigma) * vector_scores(plain_limits, c, v_e, rng, n)
    vectors = np.bincount(blend.argmax(axis=1), minlength=4)
    policy = BehaviorConstrained(sigma=sigma, v=v, v_constraint=v_e)
    # As above.
    check_counts(vectors, policy.propensities(scores))
    check_same_law(vectors, counted(policy, scores, 10_000))
    mean, sd = reference.blend_moments(plain, plain_limits, c, sigma=sigma, v=v, v_constraint=v_e)
    expected = reference.win_probabilities(mean, sd)
    assert policy.propensities(scores) == pytest.approx(expected, abs=1e-9)


WORLD = reference.World(
    contexts=np.array([[1.0, 0.2], [0.3, -1.0], [0.8, 0.9]]),
    rewards=np.array([[0.9, 0.1, 0.5], [0.2, 0.8, 0.4], [0.6, 0.3, 0.9]]),
    allowed=np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], np.bool_),
)


@pytest.mark.parametrize(
    ("policy", "theirs"),
    [
        (Thompson(v=0.7), lambda rows, rng, _: reference.cts(WORLD, rows, v=0.7, rng=rng)),
        (
            BehaviorConstrained(sigma=0.4, v=0.7, v_constraint=0.3),
            lambda rows, rng, limits: reference.bcts(
                WORLD, rows, limits, sigma=0.4, v=0.7, v_constraint=0.3, rng=rng
            ),
        ),
        (KnownMask(v=0.7), lambda rows, rng, _: reference.mask(WORLD, rows, v=0.7, rng=rng)),
        (
            KnownMask(reading="filter", v=0.7),
            lambda rows, rng, _: reference.mask(WORLD, rows, v=0.7, rng=rng, reading="filter"),
        ),
    ],
    ids=["cts", "bcts", "argmax", "filter"],
)
def test_whole_runs_have_the_law_of_the_papers_pseudo_code(policy, theirs) -> None:
    # The sequence of arms in four steps, one of 81, over many runs; two-sample chi-square, errs
    # once in 1e6. Four steps depend on each other through what was learned.
    rows, runs = np.array([0, 1, 2, 0]), 2_000
    rng = np.random.default_rng(4)
    plain, limits = reference.Arms(3, 2), LinearArms(arms=3, features=2)
    for row, k in ((0, 0), (1, 0), (2, 1), (2, 2)):
        label = float(WORLD.allowed[row, k])
        plain.update(WORLD.contexts[row], k, label)
        limits.update(k, WORLD.contexts[row], label)
    taught = [limits.scores(c) for c in WORLD.contexts]
    counts = np.zeros((2, 81))
    for run in range(runs):
        played = theirs(rows, rng, plain).arms
        counts[0, int(played @ [27, 9, 3, 1])] += 1
        arms = LinearArms(arms=3, features=2)
        place = 0
        for t, row in enumerate(rows):
            c = WORLD.contexts[row]
            (mean, sd), (belief, doubt) = arms.scores(c), taught[row]
            scores = Scores(mean, sd, belief, doubt, allowed=WORLD.allowed[row])
            arm = policy.choose(scores, key=4 * run + t)
            arms.update(arm, c, WORLD.rewards[row, arm])
            place = 3 * place + arm
        counts[1, place] += 1
    check_same_law(*counts)


# Scores


def test_what_is_left_out_of_scores_is_nothing() -> None:
    m, s = np.array([0.1, 0.2]), np.array([0.3, 0.4])
    parts, eligible, allowed = Scores(m, s).parts()
    assert parts.tolist() == [m.tolist(), s.tolist(), *[[0.0, 0.0]] * 5]
    assert eligible.tolist() == allowed.tolist() == [True, True]
    may = np.array([True, False])
    _, eligible, allowed = Scores(m, s, eligible=may).parts()
    assert eligible.tolist() == allowed.tolist() == [True, False]
    parts, *_ = Scores([1, 2], [0, 1], [True, False], [0.5, 0.25], [1, 0], [0, 1]).parts()
    assert parts[:4].tolist() == [[1.0, 2.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.25]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward_mean": [0.1, "a"]}, "The 'reward_mean' parameter of Scores must be"),
        ({"reward_mean": []}, "The 'reward_mean' parameter of Scores must be"),
        ({"reward_mean": [[0.1], [0.2, 0.3]]}, "The 'reward_mean' parameter of Scores must be"),
        ({"reward_mean": [0.1, math.nan]}, "must be 2 numbers in the range [-1e+06, 1e+06]"),
        (
            {"reward_sd": [0.1]},
            "The 'reward_sd' parameter of Scores must be 2 numbers in the range",
        ),
        (
            {"reward_sd": [0.1, -0.1]},
            "'reward_sd' parameter of Scores must be at least 0 for every",
        ),
        ({"limit_mean": [math.inf, 0.0]}, "The 'limit_mean' parameter of Scores must be 2 numbers"),
        (
            {"limit_sd": [-1.0, 0.0]},
            "The 'limit_sd' parameter of Scores must be at least 0 for ever",
        ),
        ({"eligible": [True]}, "'eligible' parameter of Scores must be 2 times True or False"),
        ({"eligible": [0.5, 1.0]}, "'eligible' parameter of Scores must be 2 times True or False"),
        ({"allowed": ["yes", "no"]}, "'allowed' parameter of Scores must be 2 times True or False"),
    ],
)
def test_bad_scores_are_refused(change, message) -> None:
    scores = Scores(**{"reward_mean": [0.1, 0.2], "reward_sd": [0.3, 0.4], **change})
    for ask in (lambda p: p.choose(scores, 1), lambda p: p.propensities(scores)):
        with pytest.raises(InvalidValue) as caught:
            ask(Thompson())
        assert message in str(caught.value)


@pytest.mark.parametrize("key", [-1, 2**64, 1.0, True, None, "1"])
def test_bad_keys_are_refused(key) -> None:
    with pytest.raises(InvalidValue, match="The 'key' parameter of Greedy must be an int in the"):
        Greedy().choose(SCORES, key)


def test_a_mask_must_be_told_the_truth() -> None:
    blind = Scores(np.ones(2), np.ones(2))
    for ask in (lambda p: p.choose(blind, 1), lambda p: p.propensities(blind)):
        with pytest.raises(NotPossible, match="KnownMask must be told which arms are allowed"):
            ask(KnownMask())


# Parameters


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Thompson(v=-0.1), "'v' parameter of Thompson must be a float in the range [0, "),
        (lambda: Thompson(v=math.nan), "Got nan instead."),
        (lambda: Thompson(v=10**400), "'v' parameter of Thompson must be a float"),
        (lambda: Thompson(v=True), "Got True instead."),
        (lambda: BehaviorConstrained(sigma=1.5), "a float in the range [0, 1]. Got 1.5 instead."),
        (lambda: BehaviorConstrained(sigma=-0.1), "'sigma' parameter of BehaviorConstrained must"),
        (lambda: BehaviorConstrained(sigma=None), "Got None instead."),
        (lambda: BehaviorConstrained(v="1"), "'v' parameter of BehaviorConstrained must be a f"),
        (lambda: BehaviorConstrained(v_constraint=-1.0), "'v_constraint' parameter of Behav"),
        (lambda: KnownMask(reading="both"), "be one of 'argmax', 'filter'. Got 'both' instead"),
        (lambda: KnownMask(reading=None), "'reading' parameter of KnownMask must be one of"),
        (lambda: KnownMask(v=math.inf), "'v' parameter of KnownMask must be a float in the range"),
        (lambda: EpsilonGreedy(epsilon=1.1), "a float in the range [0, 1]. Got 1.1 instead."),
        (lambda: EpsilonGreedy(epsilon=-1), "'epsilon' parameter of EpsilonGreedy must be a float"),
        (lambda: LinUCB(alpha=-1), "'alpha' parameter of LinUCB must be a float in the range [0, "),
        (lambda: spread_of(R=0, z=0.5, gamma=0.5, features=1), "'R' parameter of spread_of must"),
        (lambda: spread_of(R=1, z=0.0, gamma=0.5, features=1), "'z' parameter of spread_of must"),
        (lambda: spread_of(R=1, z=0.5, gamma=1.5, features=1), "'gamma' parameter of spread_of"),
        (lambda: spread_of(R=1, z=0.5, gamma=0.5, features=0), "'features' parameter of spread"),
    ],
)
def test_bad_parameters_are_refused(make, message) -> None:
    with pytest.raises(InvalidValue) as caught:
        make()
    assert message in str(caught.value)


def test_parameters_become_floats_and_stay() -> None:
    policy = BehaviorConstrained(sigma=1, v=np.float32(0.5), v_constraint=2)
    assert [type(x) for x in (policy.sigma, policy.v, policy.v_constraint)] == [float] * 3
    with pytest.raises(FrozenInstanceError):
        policy.sigma = 0.5  # type: ignore[misc]
    with pytest.raises(TypeError):
        Thompson(0.5)  # type: ignore[call-arg]
    with pytest.raises(NotImplementedError):
        _ = Weighted().weights


def test_spread_of_is_the_papers_formula() -> None:
    for R, z, gamma, d in ((0.01, 0.9, 0.1, 10), (0.5, 0.5, 0.01, 3), (1.0, 1.0, 1.0, 1)):
        mine = spread_of(R=R, z=z, gamma=gamma, features=d)
        assert mine == pytest.approx(reference.paper_v(R, z, gamma, d), rel=1e-15)


def test_the_defaults_are_the_specifications() -> None:
    for policy in (Thompson(), BehaviorConstrained(), KnownMask()):
        assert policy.v is None and policy.weights.v == 0.25
    assert KnownMask().reading == "argmax"
    assert BehaviorConstrained().v_constraint is None
    assert BehaviorConstrained(v=0.7).weights.v_limit == 0.7


# JSON


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_json_brings_a_policy_back(policy) -> None:
    data = policy_to_json(policy)
    back = policy_from_json(json.loads(json.dumps(data)))
    assert back == policy
    assert type(back) is type(policy)
    # Every parameter is spelled out, and nothing else.
    assert set(data) == {"kind", *(field.name for field in fields(policy))}


class Mine(Weighted):
    """A policy that is not bridle's own."""


def test_json_is_for_our_own_policies() -> None:
    with pytest.raises(
        InvalidValue, match="The 'policy' parameter of Agent must be one of bridle's"
    ):
        policy_to_json(Mine())


@pytest.mark.parametrize(
    "data", [{}, {"v": 1.0}, {"kind": "Mine"}, {"kind": None}, {"kind": "Thompson", "sigma": 1.0}]
)
def test_other_json_is_refused(data) -> None:
    before = dict(data)
    with pytest.raises(CorruptState, match="No policy of bridle is written as"):
        policy_from_json(data)
    assert data == before


def test_sigma_can_be_replaced_where_there_is_one() -> None:
    policy = BehaviorConstrained(sigma=0.2, v=0.3, v_constraint=0.4)
    assert with_sigma(policy, 0.9) == BehaviorConstrained(sigma=0.9, v=0.3, v_constraint=0.4)
    assert policy.sigma == 0.2
    with pytest.raises(InvalidValue, match="'sigma' parameter of BehaviorConstrained"):
        with_sigma(policy, -0.1)
    with pytest.raises(NotPossible, match="Thompson has no sigma"):
        with_sigma(Thompson(), 0.5)


@pytest.mark.parametrize("name", policies.__all__)
def test_every_public_name_is_there(name) -> None:
    assert hasattr(policies, name)

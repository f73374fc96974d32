"""Policies whose probabilities are a formula, and any policy kept inside learned limits."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from bridle import Agent, Decision, evaluate, register
from bridle.agent.events import Decided
from bridle.errors import InvalidValue, NotPossible, NotRegistered
from bridle.kernels import keys, odds
from bridle.policies import (
    EpsilonGreedy,
    Greedy,
    KnownMask,
    LearnedMask,
    LinUCB,
    Masked,
    PlackettLuce,
    Scores,
    Softmax,
    SquareCB,
    Thompson,
    Uniform,
    kernel_weights,
    policy_from_json,
    policy_of,
    policy_to_json,
)
from bridle.simulate import Tables, learned_mask, online
from tests.conftest import check_counts, size

SCORES = Scores(
    reward_mean=np.array([0.3, 0.5, 0.5, 0.1, 0.9, 0.45]),
    reward_sd=np.array([0.6, 0.2, 0.2, 1.5, 0.4, 0.1]),
    eligible=np.array([True, True, True, True, False, True]),
    allowed=np.array([True, False, True, True, True, True]),
    plays=16.0,
)
FORMULAS = [
    SquareCB(),
    SquareCB(gamma=0.0),
    SquareCB(gamma=1e3),
    SquareCB(gamma=20.0),
    Softmax(),
    Softmax(temperature=2.0),
    Softmax(temperature=1e-6),
    PlackettLuce(temperature=0.3),
]
INSIDE = [
    *(Masked(policy) for policy in FORMULAS),
    Masked(EpsilonGreedy(epsilon=0.4)),
    Masked(LinUCB()),
    Masked(Greedy()),
    Masked(Uniform()),
    Masked(Thompson(v=0.3)),
]


def plain_softmax(mean, temperature):
    z = np.exp((mean - mean.max()) / temperature)
    return z / z.sum()


def plain_gaps(mean, gamma):
    behind = mean.max() - mean
    out = 1.0 / (len(mean) + gamma * behind)
    best = behind == 0.0
    out[best] = (1.0 - out[~best].sum()) / best.sum()
    return out


# -- the formulas ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [*FORMULAS, *INSIDE], ids=str)
def test_choices_have_the_propensities(policy):
    # Chi-square, errs once in 1e6, each.
    shares = policy.propensities(SCORES)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert shares[4] == 0.0
    if isinstance(policy, Masked):
        assert shares[1] == 0.0
    seen = np.zeros(6)
    for key in range(5_000):
        seen[policy.choose(SCORES, key)] += 1
    check_counts(seen, shares)


def test_propensities_are_the_formulas():
    may = np.flatnonzero(SCORES.eligible)
    mean = SCORES.reward_mean[may]
    for gamma in (0.0, 3.0, 1e3):
        found = SquareCB(gamma=gamma).propensities(SCORES)
        assert found[may] == pytest.approx(plain_gaps(mean, gamma), abs=1e-15)
    # By default gamma grows with what was learned: 10·√(5 arms · 16 rewards).
    grown = SquareCB(gamma=10.0 * math.sqrt(5 * 16)).propensities(SCORES)
    assert SquareCB().propensities(SCORES).tolist() == grown.tolist()
    assert SquareCB().propensities(replace(SCORES, plays=0.0)).max() < grown.max()
    for kind in (Softmax, PlackettLuce):
        for temperature in (0.01, 0.05, 1.0):
            found = kind(temperature=temperature).propensities(SCORES)
            assert found[may] == pytest.approx(plain_softmax(mean, temperature), abs=1e-15)


def test_what_is_inside_limits_is_the_policy_among_fewer_arms():
    may = SCORES.eligible & SCORES.allowed  # type: ignore[operator]
    fewer = Scores(SCORES.reward_mean[may], SCORES.reward_sd[may], plays=16.0)
    for policy in INSIDE:
        found = policy.propensities(SCORES)
        assert found[~may].tolist() == [0.0, 0.0]
        assert found[may] == pytest.approx(policy.policy.propensities(fewer), abs=1e-12)


def test_a_hundred_thousand_arms():
    K = size(100_000, 300)
    rng = np.random.default_rng(6)
    mean = rng.random(K)
    eligible = rng.random(K) < 0.5
    scores = Scores(mean, rng.random(K), eligible=eligible, allowed=eligible, plays=100.0)
    may = np.flatnonzero(eligible)
    for policy in (SquareCB(), Softmax(), Masked(SquareCB()), EpsilonGreedy(), LinUCB()):
        shares = policy.propensities(scores)
        assert shares.sum() == pytest.approx(1.0, abs=1e-9)
        assert not shares[~eligible].any()
    assert SquareCB(gamma=50.0).propensities(scores)[may] == pytest.approx(
        plain_gaps(mean[may], 50.0), rel=1e-9
    )
    assert Softmax().propensities(scores)[may] == pytest.approx(
        plain_softmax(mean[may], 0.05), rel=1e-9
    )
    # By tenths of the arms' shares: chi-squares, each errs once in 1e6.
    bins = (10.0 * np.argsort(np.argsort(mean)) / K).astype(int)
    for policy in (SquareCB(), Softmax()):
        shares = np.bincount(bins, weights=policy.propensities(scores), minlength=10)  # type: ignore[assignment]
        chosen = [policy.choose(scores, key) for key in range(size(2_000, 300))]
        check_counts(np.bincount(bins[chosen], minlength=10), shares)


def test_a_race_computes_only_what_can_win_and_finds_the_best_draw():
    rng = np.random.default_rng(7)
    draws = np.empty(50)
    for number in range(size(2_000, 50)):
        key = np.uint64(keys.key_of(np.uint64(1), np.uint64(number)))
        mean, eligible = rng.random(50) * rng.choice([0.01, 1.0]), rng.random(50) < 0.7
        odds.race_scores(mean, 0.05, key, draws)
        best = int(np.argmax(np.where(eligible, draws, -np.inf))) if eligible.any() else -1
        assert odds.race(mean, eligible, 0.05, key) == best


def test_the_bound_of_each_bin_holds():
    top = 2**54 - 1
    for place in range(1024):
        bits = np.uint64((place << 54) | top)
        assert odds.gumbel(bits) <= odds.GUMBEL_TOP[place]


def test_a_draw_is_at_its_place():
    shares = np.array([0.0, 0.25, 0.0, 0.75, 0.0])
    assert [odds.draw(shares, u) for u in (1e-9, 0.2499, 0.2501, 1.0 - 1e-16)] == [1, 1, 3, 3]
    assert odds.draw(np.zeros(3), 0.5) == -1


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SquareCB(gamma=-1.0), "The 'gamma' parameter of SquareCB must be a float in"),
        (lambda: SquareCB(gamma=math.nan), "The 'gamma' parameter of SquareCB must be"),
        (lambda: Softmax(temperature=0.0), "The 'temperature' parameter of Softmax must be"),
        (lambda: PlackettLuce(temperature=-1), "'temperature' parameter of PlackettLuce must"),
        (lambda: Masked(LearnedMask()), "The 'policy' parameter of Masked must be a policy that"),
        (lambda: Masked(KnownMask()), "The 'policy' parameter of Masked must be a policy that"),
        (lambda: Masked(Masked(Greedy())), "The 'policy' parameter of Masked must be a policy"),
        (lambda: Masked(SquareCB), "The 'policy' parameter of Masked must be a policy that"),
        (lambda: Masked(1), "The 'policy' parameter of Masked must be a policy that"),
        (lambda: SquareCB().choose(replace(SCORES, plays=-1), 1), "The 'plays' parameter of Sco"),
        (lambda: policy_of("Masked", {}), "of Masked with the name of a policy"),
        (lambda: policy_of("Masked", {"policy": "SquareCB", "tau": 1}), "gamma alone for SquareCB"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(InvalidValue) as caught:
        make()
    assert message in str(caught.value)


def test_a_mask_must_be_told_what_is_allowed():
    with pytest.raises(NotPossible, match="Masked must be told which arms are allowed"):
        Masked(Softmax()).propensities(Scores(np.ones(2), np.ones(2)))


# -- JSON ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [*FORMULAS, *INSIDE], ids=str)
def test_json_brings_a_policy_back(policy):
    data = policy_to_json(policy)
    assert all(not isinstance(value, dict | list) for value in data.values())
    assert policy_from_json(json.loads(json.dumps(data))) == policy
    kind = data.pop("kind")
    assert policy_of(kind, data) == policy


def test_json_is_flat_and_names_the_kind_inside():
    assert policy_to_json(Masked(SquareCB(gamma=3))) == {
        "kind": "Masked",
        "policy": "SquareCB",
        "gamma": 3.0,
    }


def test_a_name_that_was_free_before_is_still_theirs_in_their_logs():
    @dataclass(frozen=True)
    class Theirs:
        needs_limits: ClassVar[bool] = False

        def choose(self, scores, key):
            return int(np.argmax(scores.eligible))

        def propensities(self, scores):
            return np.eye(len(scores.eligible))[self.choose(scores, 0)]

    logged = {"kind": "Softmax", "version": "1"}
    with pytest.raises(NotRegistered, match="policy 'Softmax'"):
        policy_from_json(logged)
    register("policy", "Softmax", Theirs, version="1")
    assert policy_from_json(logged) == Theirs()
    assert policy_to_json(Theirs()) == logged
    assert policy_of("Softmax", {}) == policy_from_json({"kind": "Softmax"}) == Softmax()
    log: list[Any] = []
    Agent(arms=2, features=1, policy=Theirs(), sink=log.extend).decide([1.0])
    assert not Agent.replay(log).differing


def test_what_is_not_chosen_by_it_goes_by_the_means_or_by_the_policy_inside():
    assert kernel_weights(SquareCB()).tolist() == list(Greedy().weights)
    assert kernel_weights(Masked(Softmax())).tolist() == list(Greedy().weights)
    assert kernel_weights(Masked(LinUCB(alpha=2.0))).tolist() == list(LinUCB(alpha=2.0).weights)


# -- in agents, simulations and evaluation ---------------------------------------------------------


def live(policy, steps=120):
    log: list[Any] = []
    agent = Agent(arms=["a", "b", "c"], features=2, policy=policy, seed=3, sink=log.extend)
    for _ in range(3):
        for arm in "abc":
            agent.teach([1.0, 0.0], arm, allowed=arm != "c")
            agent.teach([0.0, 1.0], arm, allowed=True)
    for step in range(steps):
        context = [1.0, 0.0] if step % 2 else [0.0, 1.0]
        made = agent.decide(context, propensity=True)
        if isinstance(made, Decision):
            assert made.propensity == made.propensities["abc".index(made.arm)]  # type: ignore[index]
            agent.reward(made.id, {"a": 0.7, "b": 0.4, "c": 1.0}[made.arm])  # type: ignore[index]
    agent.decide_many([[1.0, 0.0]] * 4, propensity=True)
    return agent, log


@pytest.mark.parametrize("policy", [SquareCB(), Softmax(), PlackettLuce()], ids=str)
def test_an_agent_lives_with_it_and_its_log_replays(policy):
    agent, log = live(policy)
    found = Agent.replay(log)
    assert not found.differing and found.checked > 100
    assert type(agent.policy) is type(policy)
    assert policy_from_json(policy_to_json(agent.policy)) == policy


@pytest.mark.parametrize("policy", INSIDE[:5:2] + INSIDE[-5:], ids=str)
def test_inside_limits_nothing_denied_is_played(policy):
    _, log = live(policy)
    played = [event for event in log if isinstance(event, Decided)]
    assert len(played) > 100
    assert all(event.arm != "c" for event in played if event.context == (1.0, 0.0))
    assert not Agent.replay(log).differing


def test_a_gamma_that_grows_is_a_function_of_the_rewards_so_far():
    agent, _ = live(SquareCB(), steps=0)
    before = agent.decide([1.0, 0.0], propensity=True)
    agent.reward(before.id, 0.5)
    for _ in range(30):
        made = agent.decide([1.0, 0.0], propensity=True)
        agent.reward(made.id, 0.9 if made.arm == "a" else 0.1)
    after = agent.decide([1.0, 0.0], propensity=True)
    assert after.propensities.max() > before.propensities.max()


def test_evaluation_takes_them_as_targets_and_as_loggers():
    _, log = live(SquareCB(gamma=5.0), steps=400)
    same, other = evaluate(log, policy=[SquareCB(gamma=5.0), Softmax(temperature=0.5)])
    assert same.earned.value == pytest.approx(same.logged, abs=0.05)
    assert same.support.largest == pytest.approx(1.0)
    assert other.refused is None


def test_a_simulation_has_the_choices_of_an_agent():
    rng = np.random.default_rng(8)
    tables = Tables(np.eye(3), rng.random((3, 4)), rng.random((3, 4)) < 0.7)
    for policy in (SquareCB(), Softmax()):
        run = online(tables, policy=policy, steps=60, seed=4, prior="centred")
        agent = Agent(arms=4, features=3, policy=policy, seed=4, prior="centred")
        for row, arm in zip(run.rows.tolist(), run.played.tolist(), strict=True):
            made = agent.decide(tables.contexts[row])
            assert made.arm == arm  # type: ignore[union-attr]
            agent.reward(made.id, tables.rewards[row, arm])
    beliefs = Agent(arms=4, features=3).limits
    run = online(
        tables, policy=Masked(SquareCB()), steps=20, eligible=learned_mask(tables, beliefs)
    )
    assert len(run.played) == 20
    with pytest.raises(NotPossible, match="keeps to what was learned"):
        online(tables, policy=Masked(SquareCB()), steps=20)

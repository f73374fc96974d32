"""What another sigma would have earned: intervals that hold, and refusals where they would not."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from bridle import (
    Agent,
    AuditMeter,
    BehaviorConstrained,
    Flag,
    KnownMask,
    LearnedMask,
    Thompson,
    Uniform,
)
from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.evaluation.evaluate import evaluate
from bridle.kernels import wins
from tests.histories import PAPER

NEAR, FAR = 0.6, 1.0


def truth_of(agent: Any, made: Any, sigma: float, rewards: Any) -> float:
    """Sum what a sigma earns on average in a batch: Σ_k π(k) r(c, k) at the states of the log.

    By the paper's formula (SPEC 2.5), and not by the code that the evaluation runs.
    """
    parts = np.array([one.parts for one in made])
    v = agent.policy.v
    parts[:, 4] = sigma * parts[:, 0] + (1.0 - sigma) * parts[:, 2]
    parts[:, 5] = v * np.hypot(sigma * parts[:, 1], (1.0 - sigma) * parts[:, 3])
    pi = np.empty((len(made), parts.shape[2]))
    every = np.ones((1, parts.shape[2]), np.bool_)
    wins.propensities_many(np.array(BehaviorConstrained().weights), parts, every, pi)
    return float((pi * rewards).sum())


def a_world_and_its_log(seed: int, targets: tuple[float, ...]) -> tuple[list[Any], list[float]]:
    """Log 70 decisions of the paper's agent at sigma = .5, in batches that it learns between."""
    rng = np.random.default_rng(seed)
    contexts = np.hstack([np.ones((6, 1)), rng.integers(0, 2, (6, 2))])
    rewards = np.clip(0.5 + contexts @ rng.normal(0.0, 0.25, (3, 3)), 0.05, 0.95)
    allowed = rng.random((6, 3)) < 0.6
    log: list[Any] = []
    agent = Agent(
        **PAPER, arms=3, features=3, sigma=0.5, exact_denials=False, seed=seed, sink=log.extend
    )
    for row, arm in zip(rng.integers(0, 6, 12), rng.integers(0, 3, 12), strict=True):
        agent.teach(contexts[row], int(arm), bool(allowed[row, arm]))
    truths = [0.0] * len(targets)
    for _ in range(5):
        rows = rng.integers(0, 6, 14)
        made = agent.decide_many(contexts[rows], propensity=True)
        for j, sigma in enumerate(targets):
            truths[j] += truth_of(agent, made, sigma, rewards[rows]) / 70.0
        earned = rewards[rows, made.numbers]
        if seed % 2:  # clicks
            earned = (rng.random(14) < earned).astype(float)
        agent.reward_many(made.ids, earned)
    return log, truths


def test_intervals_hold_what_the_target_would_have_earned_and_else_it_refuses():
    # The truth: the mean over the log's decisions, given their contexts and states. An interval
    # that holds it with probability .95 fails this test with a probability of 1e-6 (binomial).
    logs = 400
    held, refused = np.zeros((2, 2), int), np.zeros(2, int)
    for seed in range(logs):
        log, truths = a_world_and_its_log(seed, (NEAR, FAR))
        for j, found in enumerate(evaluate(log, sigma=(NEAR, FAR))):
            if found.ips is None or found.dr is None:
                refused[j] += 1
                continue
            held[j] += truths[j] in found.ips, truths[j] in found.dr
    told = logs - refused
    assert refused[0] <= 4 and 40 <= refused[1] <= 360, refused
    for j in range(2):
        least = told[j] - binom.isf(1e-6 / 4.0, told[j], 0.05)
        assert (held[j] >= least).all(), (held, told)


def a_log(n: int = 120, *, reward: Any = None, **more: Any) -> tuple[Any, list[Any]]:
    log: list[Any] = []
    how = {**PAPER, "sigma": 0.5, "seed": 2, "arms": 2, "features": 1, **more}
    agent: Any = Agent(sink=log.extend, **how)
    rng = np.random.default_rng(7)
    for _ in range(n):
        made = agent.decide([1.0], propensity=True)
        if hasattr(made, "arm"):
            agent.reward(made.id, rng.random() if reward is None else reward(made.arm))
    return agent, log


def test_the_logs_own_sigma_earned_what_the_log_earned():
    _, log = a_log(reward_range=(-2.0, 5.0))
    found = evaluate(log, sigma=0.5)
    assert found.ips is not None
    assert found.ips.value == pytest.approx(found.logged)
    assert found.logged in found.earned and found.support.size == pytest.approx(120.0)
    assert found.support.largest == pytest.approx(1.0)
    assert (found.support.choices, found.support.decisions) == (1.0, 1.0)
    assert (found.decisions, found.left_out, found.missing, found.abstains) == (120, 0, 0, 0.0)
    assert found.sigma == 0.5 and "sigma = 0.5: earns" in str(found)
    assert found.believed == pytest.approx(found.believed_logged) and found.audited is None
    wide = evaluate(log, sigma=0.5, level=0.999).earned
    assert wide.low < found.earned.low and found.earned.high < wide.high


def test_arms_that_always_earn_the_same_are_found_out():
    _, log = a_log(400, reward=float, policy=Uniform(), sigma=None)
    best, worst = evaluate(log, policy=[Thompson(v=0.5), Uniform()])
    assert best.earned.value > 0.9 and worst.earned.value == pytest.approx(0.5, abs=0.02)
    assert best.earned.high <= 1.0
    assert best.sigma is None and "Thompson" in str(best)


def test_one_target_or_several():
    _, log = a_log()
    one = evaluate(log, sigma=0.6)
    several = evaluate(iter(log), sigma=np.array([0.4, 0.6]))
    assert several[1] == one and [found.sigma for found in several] == [0.4, 0.6]
    other = evaluate(log, sigma=0.6, policy=BehaviorConstrained(v=0.5))
    assert other.policy == BehaviorConstrained(sigma=0.6, v=0.5) and other != one


def test_a_log_without_propensities_is_refused_and_says_how_to_have_them():
    log: list[Any] = []
    agent = Agent(arms=2, features=1, sigma=0.5, sink=log.extend)
    with pytest.raises(NotPossible, match="propensity=True"):
        evaluate(log, sigma=0.5)
    for _ in range(60):
        agent.reward(agent.decide([1.0]).id, 0.5)
    with pytest.raises(NotPossible, match="propensity=True"):
        evaluate(log, sigma=0.5)
    for _ in range(60):
        agent.reward(agent.decide([1.0], propensity=True).id, 0.5)
    found = evaluate(log, sigma=0.5)
    assert (found.decisions, found.left_out) == (60, 60)


def a_mask_log(n: int = 200, **more: Any) -> tuple[Any, list[Any]]:
    """Log a mask that was told of one context that arms 0 and 1 may be played there, and not 2."""
    log: list[Any] = []
    agent: Any = Agent(
        arms=3,
        features=1,
        limits="rules",
        exact_denials=False,
        teacher_error=0.1,
        doubt=0.2,
        seed=1,
        sink=log.extend,
        **more,
    )
    for i in range(30):
        agent.teach([1.0], i % 3, i % 3 < 2)
    for _ in range(n):
        made = agent.decide([1.0], propensity=True)
        agent.reward(made.id, 0.5)
    return agent, log


def test_a_mask_never_plays_what_it_holds_unsafe_so_its_log_cannot_speak_of_it():
    _, log = a_mask_log()
    with pytest.raises(NotPossible, match=r"33\.3% of what it would do is never done"):
        evaluate(log, policy=Uniform())
    uniform, mask = evaluate(log, policy=[Uniform(), LearnedMask(sigma=0.9)])
    assert uniform.refused is not None and uniform.ips is None and mask.refused is None
    assert uniform.support.choices == pytest.approx(2.0 / 3.0) and uniform.support.decisions == 0.0
    assert "cannot be evaluated" in str(uniform)
    assert mask.believed < 0.1 < 0.3 < uniform.believed < 0.4
    with pytest.raises(NotPossible, match="never done"):
        _ = uniform.earned


def test_little_that_has_no_support_widens_the_interval_as_far_as_it_may_matter():
    log: list[Any] = []
    agent: Any = Agent(
        arms=2,
        features=[Flag("a"), Flag("b")],
        limits="rules",
        sink=log.extend,
        policy=LearnedMask(v=1e6),
    )
    here, there = {"a": True, "b": False}, {"a": False, "b": True}
    for arm, context in ((0, here), (1, here), (0, there)):
        agent.teach(context, arm, True)
    for context in [here] * 97 + [there] * 3:  # where the mask plays arm 0 alone
        agent.reward(agent.decide(context, propensity=True).id, 0.5)
    found = evaluate(log, policy=Uniform())
    assert found.support.choices == pytest.approx(0.985) and found.support.decisions == 0.97
    assert found.ips is not None and found.ips.value == pytest.approx(0.5)
    z2 = NormalDist().inv_cdf(0.975) ** 2
    for interval in (found.ips, found.earned):
        # The rewards were all equal; as few as there are, they may not have been.
        assert 0.0 < 0.985 * 0.5 - interval.low <= 1.02 * z2 / (97.0 + z2)
        assert 0.0 < interval.high - 0.985 * 0.5 - 0.015 <= 1.02 * z2 / (97.0 + z2)


def test_rewards_that_hardly_ever_come_are_covered():
    # If the intervals held the truth, .02, in 95 % of the logs: P(more than 27 of 200 miss it) is
    # 9.6e-7.
    rng, missed = np.random.default_rng(5), np.zeros(2)
    for seed in range(200):
        log: list[Any] = []
        agent = Agent(arms=2, features=1, sigma=0.5, seed=seed, sink=log.extend)
        clicks = rng.random(70) < 0.02
        for click in clicks:
            agent.reward(agent.decide([1.0], propensity=True).id, float(click))
        found = evaluate(log, sigma=0.5)
        assert found.ips is not None and found.ips.high > 0.02  # also where none came at all
        missed += [0.02 not in found.ips, 0.02 not in found.earned]
    assert (missed <= 27).all() and binom.sf(27, 200, 0.05) < 1e-6


def test_what_expired_earned_the_default_and_what_another_played_is_left_out():
    log: list[Any] = []
    agent = Agent(arms=2, features=1, sigma=0.5, sink=log.extend, wait=60, default_reward=0.25)
    for _ in range(60):
        agent.expire(agent.decide([1.0], propensity=True).id)
    assert evaluate(log, sigma=0.5).logged == 0.25
    agent.set_wait(60)
    agent.expire(agent.decide([1.0], propensity=True).id)
    made = agent.shadow([1.0], 1, propensity=True)
    agent.reward(made.id, 1.0)
    found = evaluate(log, sigma=0.5)
    assert (found.decisions, found.left_out, found.missing, found.logged) == (61, 1, 1, 0.25)


def test_too_few_plays_are_refused():
    _, log = a_log(49)
    with pytest.raises(NotPossible, match=r"worth 49\.0 plays of its own; 50 are needed"):
        evaluate(log, sigma=0.5)


def test_missing_rewards_widen_the_interval_and_too_many_refuse():
    agent, log = a_log(100, reward=lambda arm: 0.5)
    sure = evaluate(log, sigma=0.5)
    assert sure.ips is not None and sure.ips.low == pytest.approx(0.5, abs=0.04)
    for _ in range(10):
        agent.decide([1.0], propensity=True)
    found = evaluate(log, sigma=0.5)
    assert found.missing == 10 and found.ips is not None
    for interval in (found.ips, found.earned):
        # All of them 0, or all of them 1; and their share of the error.
        assert interval.low < 50 / 110 and 60 / 110 < interval.high
        assert interval.value == pytest.approx(0.5, abs=0.02)
    for _ in range(2):
        agent.decide([1.0], propensity=True)
    with pytest.raises(NotPossible, match="missing for 12 of 112 decisions, more than 10%"):
        evaluate(log, sigma=0.5)


def test_an_abstention_earns_nothing():
    log: list[Any] = []
    agent = Agent(arms=2, features=1, limits="rules", reward_range=(1.0, 5.0), sink=log.extend)
    for _ in range(10):
        agent.decide([1.0], propensity=True)
    found = evaluate(log, sigma=0.5)
    assert found.abstains == 1.0 and found.logged == 0.0 and found.believed == 0.0
    assert (found.earned.low, found.earned.high) == (0.0, 0.0)
    with pytest.raises(NotPossible, match=r"100\.0% of what it would do"):
        evaluate(log, policy=Uniform())
    for arm in (0, 1):
        agent.teach([1.0], arm, True)
    for _ in range(90):
        agent.reward(agent.decide([1.0], propensity=True).id, 3.0)
    found = evaluate(log, sigma=0.5)
    assert found.ips is not None and found.abstains == pytest.approx(0.1)
    assert found.logged == pytest.approx(2.7) and found.ips.value == pytest.approx(2.7)
    assert found.earned.value == pytest.approx(2.7) and found.earned.low < 2.7001


def test_a_target_may_abstain_where_the_log_played():
    log: list[Any] = []
    agent = Agent(arms=2, features=1, limits="rules", policy=Uniform(), sink=log.extend)
    for _ in range(100):
        agent.reward(agent.decide([1.0], propensity=True).id, 1.0)
    found = evaluate(log, policy=LearnedMask())
    assert found.abstains == 1.0 and found.earned.high == 0.0 and found.logged == 1.0


def test_decisions_that_asked_first_are_evaluated_too():
    log: list[Any] = []
    agent: Any = Agent(
        arms=3, features=1, limits="rules", policy=LearnedMask(v=1.0), budget=3, sink=log.extend
    )
    for _ in range(150):
        made: Any = agent.decide([1.0], propensity=True)
        while not hasattr(made, "parts"):
            made = agent.answer(made, made.arm != 2).then
        agent.reward(made.id, 0.25 + 0.5 * made.arm)
    near = evaluate(log, sigma=0.9)
    assert near.refused is None and near.decisions == 150 and near.missing == 0
    assert near.support.size > 100.0 and near.logged in near.earned


def test_audits_stand_beside_the_belief():
    agent, log = a_log(100)
    meter = AuditMeter(0.5, 0.1, seed=3)
    for id in range(1, 101):
        if meter.observe(id):
            meter.answer(id, id % 10 > 0)
    lower, upper = meter.bounds()
    assert evaluate(log, sigma=0.5, audits=meter).audited == (lower / 100.0, upper / 100.0)
    nothing: Any
    for nothing in (7, AuditMeter, "meter", meter.bounds(), [meter]):
        with pytest.raises(InvalidValue, match="must be an AuditMeter"):
            evaluate(log, sigma=0.5, audits=nothing)
    meter.observe(101)
    with pytest.raises(InvalidValue, match=r"one of 101 steps.*1 more, which are not in this log"):
        evaluate(log, sigma=0.5, audits=meter)
    agent.reward(agent.decide([1.0], propensity=True).id, 0.5)
    audited = evaluate(log, sigma=0.5, audits=meter).audited
    assert audited is not None and audited[0] <= audited[1]


def test_a_decision_that_waits_is_not_yet_one_for_the_audits():
    log: list[Any] = []
    agent: Any = Agent(
        arms=2, features=1, limits="rules", policy=LearnedMask(v=1.0), budget=5, sink=log.extend
    )
    for arm in (0, 1):
        agent.teach([0.0], arm, True)
    meter = AuditMeter(0.5, 0.1, seed=3)
    for _ in range(90):
        made = agent.decide([0.0], propensity=True)
        agent.reward(made.id, 0.5)
        meter.observe(made.id)
    question = agent.decide([1.0], propensity=True)
    assert not hasattr(question, "parts")
    assert evaluate(log, sigma=1.0, audits=meter).audited is not None
    meter.observe(question.decision)
    with pytest.raises(InvalidValue, match="1 more, which are not in this log"):
        evaluate(log, sigma=1.0, audits=meter)


def test_ids_that_come_again_have_no_meter():
    log: list[Any] = []
    agent: Any = Agent(**PAPER, sigma=0.5, arms=2, features=1, sink=log.extend)
    meter = AuditMeter(0.5, 0.1, seed=3)
    meter.observe("a")
    for _ in range(60):
        agent.decide([1.0], id="a", propensity=True)
        agent.reward("a", 0.5)
    with pytest.raises(InvalidValue, match="an id comes twice in the log"):
        evaluate(log, sigma=0.5, audits=meter)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "Say which sigma"),
        ({"sigma": 1.5}, r"range \[0, 1\]"),
        ({"sigma": "0.5"}, r"range \[0, 1\]"),
        ({"sigma": []}, "1 to 1,000"),
        ({"sigma": np.array(0.5)}, r"range \[0, 1\]"),
        ({"sigma": np.array([[0.5]])}, r"range \[0, 1\]"),
        ({"sigma": [0.5, None]}, r"range \[0, 1\]"),
        ({"sigma": float("nan")}, r"range \[0, 1\]"),
        ({"sigma": b"\x00"}, r"range \[0, 1\]"),
        ({"sigma": {0.5}}, r"range \[0, 1\]"),
        ({"sigma": 0.5, "level": 1.0}, "level"),
        ({"sigma": 0.5, "level": None}, "level"),
        ({"policy": np.array(None)}, "registered"),
        ({"policy": Thompson}, "registered"),
        ({"policy": KnownMask()}, "not told the truth"),
        ({"policy": "Thompson"}, "registered"),
        ({"sigma": 0.5, "policy": [Thompson()]}, "registered"),
    ],
)
def test_bad_arguments_are_named(arguments, told):
    _, log = a_log(3)
    with pytest.raises(InvalidValue, match=told):
        evaluate(log, **arguments)


@pytest.mark.parametrize("events", [None, 7, "log", b"log", [7], {"a": 1}, [], np.ones(3), Agent])
def test_what_is_no_log_is_named(events):
    with pytest.raises((InvalidValue, CorruptState)):
        evaluate(events, sigma=0.5)


def test_a_sigma_needs_a_policy_that_has_one():
    _, log = a_log(3, policy=Thompson(), sigma=None)
    with pytest.raises(NotPossible, match="has no sigma"):
        evaluate(log, sigma=0.5)

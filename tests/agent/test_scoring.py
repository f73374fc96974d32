"""Scores that are computed when asked for are those of the moment of the decision, to the bit."""

from __future__ import annotations

import copy
import gc
import weakref

import numpy as np
import pytest

import bridle
from bridle.agent import scoring
from bridle.agent.outcomes import Abstention, Decision
from bridle.agent.scoring import MOST_SAVED, MOST_UNSCORED, Scoring

K = 40


def an_agent(d: int = 6, *, policy: bridle.Policy | None = None, **more) -> bridle.Agent:
    policy = bridle.Thompson(v=0.25) if policy is None else policy
    # A scale that is found anew has the scores that wait computed, so here it is given.
    return bridle.Agent(arms=K, features=d, policy=policy, seed=3, **{"prior": "centred", **more})


def contexts(d: int, n: int = 60):
    rng = np.random.default_rng(d)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    X[0] = 0.0
    return X


def eager(agent: bridle.Agent, context) -> Decision:
    """Decide with propensities, which need every score at once; nothing is folded."""
    made = agent.make.decided(context, propensity=True)
    assert isinstance(made, Decision)
    assert isinstance(made.scored, np.ndarray)
    return made


def late(agent: bridle.Agent, context) -> Decision:
    made = agent.make.decided(context)
    assert isinstance(made, Decision)
    assert isinstance(made.scored, Scoring)
    return made


def its_scoring(made: Decision) -> Scoring:
    assert isinstance(made.scored, Scoring)
    return made.scored


POLICIES = {
    "thompson": bridle.Thompson(v=0.25),
    "bold": bridle.Thompson(v=2.0),
    "greedy": bridle.Greedy(),
    "epsilon": bridle.EpsilonGreedy(epsilon=0.4),
    "ucb": bridle.LinUCB(alpha=0.7),
}


@pytest.mark.parametrize("prior", ["centred", "paper"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("d", [1, 6, 15, 16, 17, 23])
def test_the_arm_and_the_scores_are_those_of_every_score_computed(d, policy, prior) -> None:
    agent = an_agent(d, policy=POLICIES[policy], prior=prior)
    rng = np.random.default_rng(d)
    some = list(range(0, K, 3))
    for t, context in enumerate(np.vstack([contexts(d), contexts(d)])):
        expected, made = eager(agent, context), late(agent, context)
        assert made.arm == expected.arm
        assert made.parts.tobytes() == expected.parts.tobytes()
        assert made.parts is made.parts
        few = agent.make.decided(context, among=some)
        assert isinstance(few, Decision)
        wanted = agent.make.decided(context, among=some, propensity=True)
        assert isinstance(wanted, Decision)
        assert few.arm == wanted.arm
        agent.reward(agent.decide(context).id, rng.random())
        if t == 30:  # many at once, and arms that know nothing
            agent.learn(contexts(d), rng.integers(0, K, 60), rng.random(60))


def test_scores_are_of_their_moment_whatever_is_rewarded_later() -> None:
    agent = an_agent()
    X = contexts(6)
    kept, wanted = [], []
    for t in range(50):
        wanted.append(eager(agent, X[t]).parts.copy())
        made = agent.decide(X[t])
        assert isinstance(made, Decision)
        kept.append(made)
        agent.reward(made.id, t / 50)
        if t % 7 == 6:
            agent.expire(agent.decide(X[t]).id)
    assert sum(not its_scoring(one).computed for one in kept) > 2
    for one, parts in zip(kept, wanted, strict=True):
        assert one.parts.tobytes() == parts.tobytes()
    assert len(agent._state.unscored) == 0


def test_an_arm_is_put_aside_once_and_shared() -> None:
    agent = an_agent()
    X = contexts(6)
    first, second = its_scoring(late(agent, X[1])), its_scoring(late(agent, X[2]))
    agent.reward(agent.decide(X[1], among=[5]).id, 1.0)
    assert [list(one.saved) for one in (first, second)] == [[5], [5]]
    held = first.saved[5]
    assert held is second.saved[5]
    agent.reward(agent.decide(X[1], among=[5]).id, 0.0)
    assert first.saved[5] is held
    first.parts()
    assert not first.saved


def test_after_many_arms_have_learned_the_scores_are_computed() -> None:
    agent = an_agent()
    context = contexts(6)[1]
    wanted, made = eager(agent, context).parts, late(agent, context)
    for k in range(MOST_SAVED + 1):
        assert its_scoring(made).computed is False
        agent.reward(agent.decide(context, among=[k]).id, 0.5)
    assert its_scoring(made).computed
    assert made.parts.tobytes() == wanted.tobytes()


def test_of_many_that_are_kept_the_oldest_are_computed_and_of_the_others_nothing_is_kept() -> None:
    agent = an_agent()
    X = contexts(6)
    kept = [late(agent, X[i % 60]) for i in range(3 * MOST_UNSCORED)]
    waiting = [not its_scoring(one).computed for one in kept]
    assert MOST_UNSCORED // 2 <= sum(waiting) <= MOST_UNSCORED
    assert waiting == sorted(waiting)
    watch = weakref.ref(its_scoring(kept[-1]))
    kept.clear()
    gc.collect()
    assert watch() is None
    for i in range(5 * MOST_UNSCORED):
        late(agent, X[i % 60])
    assert len(agent._state.unscored._waiting) <= MOST_UNSCORED
    assert len(agent._state.unscored) == 0


CHANGES = {
    "teach": lambda agent, X: agent.teach(X[2], 3, allowed=False),
    "learn": lambda agent, X: agent.learn(X[:9], range(9), [0.5] * 9),
    "grow": lambda agent, X: agent.add_arms(["new"]),
    "batch": lambda agent, X: agent.reward_many(agent.decide_many(X).ids, np.full(len(X), 0.7)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_before_anything_else_changes_the_scores_are_computed(change) -> None:
    agent = an_agent()
    X = contexts(6)
    for i in range(9):
        agent.reward(agent.decide(X[i]).id, 0.1 * i)
    wanted, made = eager(agent, X[2]).parts, late(agent, X[2])
    CHANGES[change](agent, X)
    assert its_scoring(made).computed
    assert made.parts.tobytes() == wanted.tobytes()
    assert made.parts.shape == (7, K)
    again = late(agent, X[2])  # and what is decided then is of then
    assert again.parts.tobytes() == eager(agent, X[2]).parts.tobytes()


def test_a_copy_has_the_numbers_and_what_is_written_into_them_changes_nothing() -> None:
    agent = an_agent()
    context = contexts(6)[1]
    wanted, made = eager(agent, context).parts.copy(), late(agent, context)
    twin = copy.deepcopy(made)
    assert isinstance(twin.scored, np.ndarray)
    twin.parts[:] = 7.0
    assert made.parts.tobytes() == wanted.tobytes()
    made.parts[:] = 8.0
    assert late(agent, context).parts.tobytes() == wanted.tobytes()


def test_a_context_of_the_caller_may_be_changed_afterwards() -> None:
    agent = an_agent()
    X = contexts(6)
    wanted = eager(agent, X[1]).parts
    made = agent.make.selector.decision(X[1], 1, 1, None, False, None)
    assert isinstance(made, Decision)
    X[1] = 9.0
    assert made.parts.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("d", [6, 23])
def test_inside_a_learned_mask_the_arm_and_the_scores_are_the_same(d) -> None:
    agent = bridle.Agent(
        arms=[bridle.Arm(f"a{k}", group=f"g{k % 5}") for k in range(K)],
        features=d,
        policy=bridle.LearnedMask(v=0.1),
        limits="logistic",
        seed=3,
    )
    X = contexts(d)
    rng = np.random.default_rng(1)
    for i in range(300):
        agent.teach(X[1 + i % 9], f"a{i % 5}", allowed=i % 5 > 1)
    kinds = set()
    for context in np.vstack([X[:20], X[:20]]):
        expected = agent.make.decided(context, propensity=True)
        made = agent.make.decided(context)
        kinds.add(type(made))
        assert made.event.context == expected.event.context
        if isinstance(made, Decision):
            assert isinstance(expected, Decision)
            assert isinstance(made.scored, Scoring)
            assert (made.arm, made.parts.tobytes()) == (expected.arm, expected.parts.tobytes())
        played = agent.decide(context)
        if isinstance(played, Decision):
            agent.reward(played.id, rng.random())
    assert Decision in kinds
    assert kinds <= {Decision, Abstention}


def test_where_a_question_may_pay_every_score_is_computed() -> None:
    agent = an_agent(policy=bridle.LearnedMask(v=0.1), budget=10_000, on_doubt="play_safe")
    X = contexts(6)
    for k in range(K):
        for i in range(1, 6):
            agent.teach(X[i], k, allowed=True)
    made = agent.make.decided(X[2])
    twin = agent.make.decided(X[2], propensity=True)
    assert type(made) is type(twin)
    assert made.events[1:] == twin.events[1:]
    if isinstance(made, Decision) and isinstance(twin, Decision):
        assert made.parts.tobytes() == twin.parts.tobytes()


def test_few_arms_are_scored_at_once(monkeypatch) -> None:
    agent = bridle.Agent(arms=4, features=6, policy=bridle.Thompson(v=0.25))
    monkeypatch.setattr(scoring, "Scoring", None)
    made = agent.decide(contexts(6)[1])
    assert isinstance(made, Decision)
    assert isinstance(made.scored, np.ndarray)

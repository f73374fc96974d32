"""Agents that find the scale of rewards: boldness, forgetting, replay, snapshots, simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridle import (
    Agent,
    Arm,
    BehaviorConstrained,
    Category,
    Decision,
    EpsilonGreedy,
    LearnedMask,
    LinUCB,
    Thompson,
)
from bridle.agent.events import (
    Event,
    ForgettingChanged,
    PolicyChanged,
    event_from_json,
    event_to_json,
)
from bridle.errors import InvalidValue, NotPossible
from bridle.kernels.scaled import MASS
from bridle.reward.scaled import ScaledArms
from bridle.simulate import Tables, online
from tests.histories import bits

CONTEXTS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
MEANS = np.array([[0.2, 0.4, 0.6], [0.7, 0.3, 0.5], [0.1, 0.9, 0.2], [0.5, 0.5, 0.8]])


def live(agent: Agent, steps: int, *, means=MEANS, many: bool = False, seed: int = 0) -> list[int]:
    """Play and reward; return the arms."""
    rng = np.random.default_rng(seed)
    played: list[int] = []
    for _ in range(steps):
        row = int(rng.integers(4))
        made = agent.decide(CONTEXTS[row])
        assert isinstance(made, Decision)
        k = int(made.arm)
        played.append(k)
        value = float(np.clip(means[row, k] + rng.normal(0, 0.1), 0, 1))
        if many:
            agent.reward_many([made.id], [value])
        else:
            agent.reward(made.id, value)
    return played


def thompson(log: list[Event] | None = None, **settings) -> Any:
    return Agent(
        arms=3,
        features=2,
        seed=7,
        policy=Thompson(),
        sink=None if log is None else log.extend,
        **settings,
    )


def spread(agent: Any) -> object:
    return agent.policy.v


def saved(agent: Any) -> dict[str, bytes]:
    return {name: part.tobytes() for name, part in agent._state.reward_model.to_state().items()}


def test_it_is_the_default_and_says_so() -> None:
    settings = thompson().settings
    assert (settings.prior, settings.forget) == ("scaled", "auto")
    assert isinstance(thompson()._state.reward_model, ScaledArms)
    centred = Agent(arms=3, features=2, prior="centred").settings
    assert centred.forget == "never"
    assert "forget" not in centred.to_json()


@pytest.mark.parametrize("prior", ["scaled", "centred", "paper"])
def test_a_policy_without_a_spread_has_the_agents_own(prior) -> None:
    own = spread(Agent(arms=3, features=2, prior=prior))
    assert own == {"scaled": 1.0, "centred": 0.05, "paper": 0.25}[prior]
    for policy in (Thompson(), BehaviorConstrained(), LearnedMask()):
        agent = Agent(arms=3, features=2, prior=prior, policy=policy)
        assert spread(agent) == own
        agent.set_policy(Thompson())
        assert spread(agent) == own
    assert spread(Agent(arms=3, features=2, prior=prior, policy=Thompson(v=0.7))) == 0.7


def test_draws_are_in_units_of_the_noise() -> None:
    agent = thompson(boldness=0.5)
    live(agent, 100)
    made = agent.decide(CONTEXTS[1], propensity=True)
    model = agent._state.reward_model
    _, sd = model.scores(np.array([0.0, 1.0, 1.0]))
    narrower = 2.0**-0.6  # 64 plays are six doublings
    assert made.parts[5] == pytest.approx(0.5 * narrower * sd, rel=1e-12)
    # The exact propensities are those of 200,000 draws: the error of a share is below 5.5 standard
    # deviations, .0062, but with probability 3 · 4e-8.
    rng = np.random.default_rng(1)
    wins = np.bincount(
        (made.parts[4] + made.parts[5] * rng.standard_normal((200_000, 3))).argmax(axis=1),
        minlength=3,
    )
    assert np.abs(np.asarray(made.propensities) - wins / 200_000).max() < 0.0062


def test_ucb_has_its_bonus_in_units_of_the_noise() -> None:
    agent: Any = Agent(arms=3, features=2, policy=LinUCB(alpha=2.0), seed=1)
    live(agent, 60)
    made = agent.decide(CONTEXTS[2], propensity=True)
    mean, sd = agent._state.reward_model.scores(np.array([1.0, 0.0, 1.0]))
    assert made.parts[4] == pytest.approx(mean + 2.0 * sd, rel=1e-12)


@pytest.mark.parametrize("forget", ["auto", "never", 60.0])
def test_a_log_replays_to_the_same_bits(forget) -> None:
    log: list[Event] = []
    agent = thompson(log, forget=forget)
    live(agent, 150)
    agent.learn(CONTEXTS, [0, 1, 2, 0], [0.1, 0.2, 0.3, 0.4])
    agent.set_boldness(0.1, by="Ann", note="calmer")
    agent.set_forget(90.0, by="Ann")
    live(agent, 60, seed=1)
    twin = Agent.replay([event_from_json(event_to_json(event)) for event in log]).agent
    assert saved(twin) == saved(agent)
    assert twin.policy == agent.policy == Thompson(v=0.1)
    assert live(agent, 40, seed=2) == live(twin, 40, seed=2)


@pytest.mark.parametrize("forget", ["auto", "never", 60.0])
def test_a_saved_agent_goes_on_as_if_nothing_had_been(forget, tmp_path) -> None:
    agent = thompson(forget=forget)
    live(agent, 90)
    agent.set_forget("auto")
    live(agent, 33, seed=1)
    agent.save(tmp_path / "agent.bridle")
    twin = Agent.load(tmp_path / "agent.bridle")
    assert saved(twin) == saved(agent)
    assert live(agent, 70, seed=2) == live(twin, 70, seed=2)
    assert saved(twin) == saved(agent)


def test_rewards_in_bulk_are_the_same_bits_as_one_by_one() -> None:
    one, many = thompson(), thompson()
    assert live(one, 120) == live(many, 120, many=True)
    assert saved(one) == saved(many)


def test_a_change_is_noticed() -> None:
    followed, never = thompson(), thompson(forget="never")
    turned, order = MEANS[:, [1, 2, 0]], np.array([1, 2, 0])
    rows, rng = np.empty(1500, np.int64), np.random.default_rng(1)
    for t in range(len(rows)):  # those that `live` draws
        rows[t] = rng.integers(4)
        rng.normal()
    earned = []
    for agent in (followed, never):
        live(agent, 2000)
        played = live(agent, 1500, means=turned, seed=1)
        earned.append(MEANS[rows, order[played]].mean())
    assert followed._state.reward_model.num[MASS] < 2500.0
    assert earned[0] > earned[1]


def test_decisions_explain_what_was_so_when_they_were_made() -> None:
    # With so many arms scores wait; a new scale must not move those of decisions in hand.
    agent: Any = Agent(arms=40, features=2, policy=Thompson(), seed=3)
    eager: Any = Agent(arms=40, features=2, policy=Thompson(), seed=3)
    rng = np.random.default_rng(4)
    for step in range(40):
        row = CONTEXTS[int(rng.integers(4))]
        made, other = agent.decide(row), eager.decide(row)
        want = np.array(other.parts)
        value = float(rng.random())
        agent.reward(made.id, value)
        eager.reward(other.id, value)
        assert np.array_equal(made.parts, want), step


def test_the_simulator_is_the_agent() -> None:
    rows = np.random.default_rng(5).integers(0, 4, 400)
    tables = Tables(CONTEXTS, MEANS, np.ones((4, 3), np.bool_))
    run = online(tables, policy=Thompson(), rows=rows, seed=7, prior="scaled")
    agent = thompson()
    for t, row in enumerate(rows):
        made = agent.decide(CONTEXTS[row])
        assert made.arm == run.played[t]
        agent.reward(made.id, MEANS[row, int(made.arm)])


def test_live_changes_are_events() -> None:
    log: list[Event] = []
    agent = thompson(log)
    agent.set_boldness(0.7, by="Ann", note="try more")
    agent.set_forget(500)
    assert log[-2:] == [
        PolicyChanged(Thompson(v=0.7), "Ann", "try more"),
        ForgettingChanged(500),
    ]
    with pytest.raises(InvalidValue, match="boldness"):
        agent.set_boldness(-1.0)
    with pytest.raises(InvalidValue, match="forget"):
        agent.set_forget("weekly")
    agent.set_policy(EpsilonGreedy())
    with pytest.raises(NotPossible, match="does not draw"):
        agent.set_boldness(0.1)
    paper = Agent(arms=3, features=2, prior="paper")
    with pytest.raises(NotPossible, match="scaled prior"):
        paper.set_forget("auto")
    with pytest.raises(InvalidValue, match="forget"):
        Agent(arms=3, features=2, prior="centred", forget="auto")


def test_another_way_to_forget_after_a_pause(tmp_path):
    arms = [Arm(0, features={"kind": "a"})]
    agent = Agent(
        arms=arms,
        features=2,
        arm_features=[Category("kind", ["a", "b"])],
        seed=1,
        forget="auto",
    )
    agent.save(tmp_path / "saved")
    again = Agent.load(tmp_path / "saved")
    for one in (agent, again):
        one.set_forget(50.0)
        one.add_arms([Arm(1, features={"kind": "b"})])
        made = one.decide([1.0, 0.0], ask=False)
        if isinstance(made, Decision):
            one.reward(made.id, 0.5)
    assert bits(agent) == bits(again)

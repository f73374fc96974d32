"""What becomes of a decision without a reward of its own: it waits in vain, or another played."""

from __future__ import annotations

from typing import Any

import pytest

from bridle import Abstention, Agent, Rule
from bridle.agent.events import Expired, Shadowed
from bridle.errors import InvalidValue, UnknownId
from tests.histories import PAPER, bits


def test_a_decision_that_waited_in_vain_learns_the_default():
    log: list[Any] = []
    agent = Agent(**PAPER, arms=2, features=1, wait=60, default_reward=0.25, sink=log.extend)
    twin = Agent(**PAPER, arms=2, features=1, wait=60, default_reward=0.25)
    made, other = agent.decide([1.0]), twin.decide([1.0])
    agent.expire(made.id)
    twin.reward(other.id, 0.25)
    assert log[-1] == Expired(made.id, 0.25)
    assert agent._state.reward_arms.kernel_state.mu.tobytes() == (
        twin._state.reward_arms.kernel_state.mu.tobytes()
    )
    with pytest.raises(UnknownId):  # at most one of both
        agent.reward(made.id, 1.0)
    agent.set_wait(5.0, by="Ann")
    before = bits(agent)
    made = agent.decide([1.0])
    agent.expire(made.id)
    assert log[-1] == Expired(made.id, None) and agent.pending == 0
    assert agent._state.totals[1] == twin._state.totals[1]  # nothing was learned
    assert bits(agent) != before
    with pytest.raises(InvalidValue, match="default_reward"):
        agent.set_wait(None, 0.5)
    with pytest.raises(InvalidValue, match="default_reward"):
        Agent(arms=2, features=1, wait=1.0, default_reward=2.0)


def test_in_the_shadow_the_reward_is_the_incumbents():
    agent = Agent(**PAPER, arms=["ours", "theirs"], features=1, rules=[Rule("r", arms=["theirs"])])
    twin = Agent(**PAPER, arms=["ours", "theirs"], features=1)
    made: Any = agent.shadow([1.0], "theirs", propensity=True)
    assert made.arm == "ours" and made.propensity == pytest.approx(1.0)
    agent.reward(made.id, 1.0)
    twin.learn([[1.0]], ["theirs"], [1.0])
    assert agent._state.reward_arms.kernel_state.mu.tobytes() == (
        twin._state.reward_arms.kernel_state.mu.tobytes()
    )
    nothing = agent.shadow([1.0], "theirs", among=["theirs"])
    assert isinstance(nothing, Abstention)
    agent.reward(nothing.id, 0.0)  # the incumbent played all the same
    with pytest.raises(UnknownId):
        agent.shadow([1.0], "nobody")
    with pytest.raises(InvalidValue, match="context"):
        agent.apply(Shadowed(agent.decide([1.0]).id, (2.0,), "theirs"))
    with pytest.raises(InvalidValue, match=r"one of bridle\.agent\.events"):
        agent.note(Expired(1, None))

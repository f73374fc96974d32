from __future__ import annotations

import numpy as np
import pytest

from bridle import Agent
from bridle.agent.config import Arm
from bridle.limits.declared import Rule
from bridle.schema import Flag, Schema
from bridle.store.projections import Recent


@pytest.fixture
def agent():
    made = Agent(
        arms=[Arm("a", group="one"), Arm("b", group="one"), Arm("c", group="two")],
        features=Schema([Flag("late"), Flag("child")]),
        limits="rules",
        seed=1,
    )
    for late in (True, False):
        for child in (True, False):
            made.teach({"late": late, "child": child}, "a", True)
    return made


def recent_of(agent):
    recent = Recent(agent._state)
    encode = agent._state.settings.features.encode
    recent.fold_rows(np.array([encode({"late": late, "child": True}) for late in (True, False)]))
    return recent


def test_what_is_unsure_is_of_the_groups_as_they_are_now(agent):
    recent = recent_of(agent)
    before = recent.unsure()
    agent.regroup({"b": None})
    assert recent.unsure() == recent_of(agent).unsure() > before


def test_what_is_unsure_is_of_the_rules_as_they_are_now(agent):
    recent = recent_of(agent)
    agent.declare(Rule("one", arms=["a"]))
    before = recent.unsure()
    agent.withdraw("one")
    agent.declare(Rule("two", arms=["c"]))
    after = recent.unsure()
    assert after == recent_of(agent).unsure() != before

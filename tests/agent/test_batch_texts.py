"""The text of a batch's events is that of the events themselves."""

from __future__ import annotations

from typing import Any

import pytest

from bridle import Agent, Arm, Rule
from bridle.agent.events import event_to_text
from tests.histories import PAPER


@pytest.mark.parametrize("propensity", [False, True])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("among", [None, ['ü"', 1]])
def test_the_text_of_a_batch_is_that_of_its_events(propensity, named, among):
    arms = [Arm('ü"'), Arm(1), Arm("closed")]
    agent: Any = Agent(**PAPER, arms=arms, features=2, rules=[Rule("r", arms=["closed"])])
    contexts = [[0.1, -0.0], [1e-7, 123456.789], [3.0, 1 / 3]]
    ids = ["a", 'b"', "ü"] if named else None
    for given in (among, ["closed"]):  # of the last nothing may be played
        made = agent.make.decided_many(contexts, given, ids, propensity=propensity, at=12.5)
        assert made.texts() == [event_to_text(event) for event in made.events()]
        assert [made.propensity(i) for i in range(3)] == [e.propensity for e in made.events()]
        assert made.first_version == 1

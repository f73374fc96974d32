"""Logs of the second and third form read, replay and fold to the bits of their time.

As in `test_golden.py`: written once (`golden/later.py`), never again. If a test fails here, change
the code and not the files.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from bridle import Agent
from bridle.agent.snapshot import state_from_arrays, state_to_arrays
from tests.golden import seeing
from tests.golden.seeing import HERE, differences, events_of, sight_of, state_of


@cache
def expected(form: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"form{form}" / "expected.json").read_text())
    return found


NAMES = [(form, name) for form in (2, 3) for name in expected(form)["logs"]]


def lines_of(form: int, name: str) -> list[str]:
    return (HERE / f"form{form}" / f"{name}.jsonl").read_text().splitlines()


def test_what_there_is():
    assert len(NAMES) == 13
    kinds = {json.loads(line)["event"] for form, name in NAMES for line in lines_of(form, name)}
    assert {"Judged", "Promised", "StartedAnew", "Retracted", "Taught", "Asked"} <= kinds
    for form, name in NAMES:
        created = json.loads(lines_of(form, name)[0])
        assert created["settings"]["form"] == form, name


@pytest.mark.parametrize(("form", "name"), NAMES)
def test_every_line_is_read_and_written_again(form: int, name: str):
    for number, line in enumerate(lines_of(form, name), 1):
        assert not seeing.rewritten(line), f"line {number}"


@pytest.mark.parametrize(("form", "name"), NAMES)
def test_every_choice_and_every_bit_comes_out_again(form: int, name: str):
    events, seen = events_of(lines_of(form, name)), expected(form)["logs"][name]
    assert len(events) == seen["events"]
    found = Agent.replay(events)
    assert found.agrees and found.checked == seen["checked"] > 0
    agent = Agent.replay(events[:1]).agent
    compared = 0
    for event in events[1:]:
        agent.apply(event)
        then = seen["at"].get(str(agent.version))
        if then is not None:
            assert not differences(then["state"], state_of(agent))
            assert not differences(then["sight"], sight_of(agent, seen["contexts"]))
            again = state_from_arrays(*state_to_arrays(agent._state))
            assert state_to_arrays(again)[0] == state_to_arrays(agent._state)[0]
            compared += 1
    assert compared == len(seen["at"]) >= 2

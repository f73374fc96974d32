"""Logs of rewards that find their scale, and of catalogues, replay and fold to the bits of then.

As in `test_golden.py`: written once (`golden/catalogues.py`), never again. If a test fails here,
change the code and not the files.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from typing import Any

import pytest

from bridle import Agent
from bridle.agent.snapshot import state_from_arrays, state_to_arrays
from bridle.agent.state import AgentState
from tests.golden import seeing
from tests.golden.seeing import HERE, differences, events_of, sight_of, state_of

FOLDER = HERE / "catalogues"
LOGS: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())["logs"]


@cache
def lines_of(name: str) -> list[str]:
    return lzma.decompress((FOLDER / f"{name}.jsonl.xz").read_bytes()).decode().splitlines()


def packed(state: AgentState) -> tuple[Any, dict[str, bytes]]:
    """Return a state as it is saved: plain values, and the bytes of each array."""
    plain, arrays = state_to_arrays(state)
    return plain, {name: array.tobytes() for name, array in arrays.items()}


def test_what_there_is():
    kinds = {json.loads(line)["event"] for name in LOGS for line in lines_of(name)}
    assert kinds >= {
        "ArmsAdded",
        "ArmsVisited",
        "ArmsChanged",
        "ArmsRetired",
        "ArmsRestored",
        "PolicyChanged",
        "ForgettingChanged",
        "Learned",
        "Promised",
    }
    policies = {
        json.loads(line)["policy"]["kind"]
        for line in lines_of("policies")
        if json.loads(line)["event"] == "PolicyChanged"
    }
    assert len(policies) == 4


@pytest.mark.parametrize("name", LOGS)
def test_every_line_is_read_and_written_again(name: str):
    for number, line in enumerate(lines_of(name), 1):
        assert not seeing.rewritten(line), f"line {number}"


@pytest.mark.parametrize("name", LOGS)
def test_every_choice_and_every_bit_comes_out_again(name: str):
    events, seen = events_of(lines_of(name)), LOGS[name]
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
            assert packed(again) == packed(agent._state)
            compared += 1
    assert compared == len(seen["at"]) >= 2

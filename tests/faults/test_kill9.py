from __future__ import annotations

from faults.kill9 import kill9
from faults.starting import Nursery


def test_a_server_that_is_killed_loses_nothing_and_does_nothing_twice(nursery: Nursery) -> None:
    found = kill9(kills=10, seconds=1.0, plain=False, nursery=nursery)
    assert found["examples"] == []
    assert found["kills"] >= 10 and found["acknowledged"] > 0
    assert (found["lost"], found["double"], found["replay_equal"]) == (0, 0, True)

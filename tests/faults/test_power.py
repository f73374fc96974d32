from __future__ import annotations

from faults.power import power


def test_power_cuts_lose_nothing_that_was_acknowledged() -> None:
    found = power(cuts=60)
    assert found["examples"] == []
    assert found["cuts"] == 60 and found["acknowledged"] > 0
    assert (found["lost"], found["corrupt"]) == (0, 0)


def test_the_same_cuts_lose_events_where_commits_do_not_wait_for_the_disk() -> None:
    # Every run has the same seed, the same groups and the same cuts.
    found = power(cuts=60, synchronous="NORMAL")
    assert found["lost"] > 0
    assert found["corrupt"] == 0, found["examples"]

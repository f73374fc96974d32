from __future__ import annotations

from faults.disk import disk


def test_a_disk_that_fails_is_never_taken_for_one_that_works() -> None:
    found = disk(faults=40, requests=8)
    assert found["examples"] == []
    assert found["faults"] >= 20
    assert found["false_acks"] == found["false_refusals"] == 0
    assert found["not_503"] == found["not_mended"] == 0

from __future__ import annotations

import pytest

from faults.starting import Nursery
from tests.store.postgres_server import NoPostgres

pytest.importorskip("psycopg", reason="psycopg is not installed")


def test_two_servers_stay_equal_while_their_database_crashes(nursery: Nursery) -> None:
    from faults.replicas import replicas

    try:
        found = replicas(restarts=2, seconds=0.7, nursery=nursery)
    except NoPostgres as reason:
        pytest.skip(str(reason))
    assert found["examples"] == []
    assert found["restarts"] == 2 and found["acknowledged"] > 0
    assert (found["lost"], found["double"], found["replicas_equal"]) == (0, 0, True)

from __future__ import annotations

import numpy as np
import pytest

from bridle.agent.snapshot import state_to_arrays
from bridle.errors import InvalidValue, UnknownId
from bridle.store.aggregate import agent_at, load
from bridle.store.sqlite import SqliteStore
from bridle.store.writer import Writer
from tests.store.lives import begin, decide, live, teach


@pytest.fixture
def store(tmp_path):
    store = SqliteStore(tmp_path / "a.db")
    writer = Writer(store)
    begin(writer, budget=30)
    live(writer, 12)
    writer.close()  # with a snapshot
    writer = Writer(store)
    for n in range(12):
        writer.do("movies", decide(n, f"e{n}"))
        writer.do("movies", teach(n, n % 2 == 0))
    writer.close(snapshots=False)
    yield store
    store.close()


def test_what_an_agent_knew_is_the_same_with_and_without_what_stands_beside(store):
    assert store.snapshots("movies")
    head = store.head("movies").seq
    for version in {1, 2, head // 2, store.snapshots("movies")[0], head - 1, head}:
        meta, arrays = state_to_arrays(load(store, "movies", version).state)
        bare_meta, bare_arrays = state_to_arrays(agent_at(store, "movies", version)._state)
        assert meta == bare_meta and arrays.keys() == bare_arrays.keys()
        assert all(np.array_equal(arrays[name], bare_arrays[name]) for name in arrays)


def test_versions_that_are_not_there(store):
    for version in (0, -1, store.head("movies").seq + 1):
        with pytest.raises(InvalidValue):
            agent_at(store, "movies", version)
    with pytest.raises(UnknownId):
        agent_at(store, "nobody", 1)

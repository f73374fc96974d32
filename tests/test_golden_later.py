"""Logs, a store and saved agents of later forms read, replay and fold to the bits of their time.

As in `test_golden.py`: written once (`golden/later.py`, `later_store.py`), never again. If a test
fails here, change the code and not the files.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import pytest

from bridle import Agent
from bridle.agent.events import Event
from bridle.agent.snapshot import state_from_arrays, state_to_arrays
from bridle.agent.state import AgentState
from bridle.store.aggregate import load
from bridle.store.maintenance import replay, verify
from bridle.store.sqlite import SqliteStore
from bridle.store.writer import UnitOfWork, Writer
from tests.golden import seeing
from tests.golden.seeing import HERE, differences, events_of, sight_of, state_of


@cache
def expected(form: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"form{form}" / "expected.json").read_text())
    return found


NAMES = [(form, name) for form in (2, 3) for name in expected(form)["logs"]]


def lines_of(form: int, name: str) -> list[str]:
    return (HERE / f"form{form}" / f"{name}.jsonl").read_text().splitlines()


def packed(state: AgentState) -> tuple[Any, dict[str, bytes]]:
    """Return a state as it is saved: plain values, and the bytes of each array."""
    plain, arrays = state_to_arrays(state)
    return plain, {name: array.tobytes() for name, array in arrays.items()}


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
            assert packed(again) == packed(agent._state)
            compared += 1
    assert compared == len(seen["at"]) >= 2


# -- the store of the third form, and its agents as they were saved ------------------------------


STORE: dict[str, Any] = json.loads((HERE / "form3" / "store.json").read_text())["agents"]


@pytest.fixture
def store(tmp_path) -> Iterator[SqliteStore]:
    path = tmp_path / "store.db"
    path.write_bytes(lzma.decompress((HERE / "form3" / "store.db.xz").read_bytes()))
    opened = SqliteStore(path)
    yield opened
    opened.close()


def test_the_store_holds_every_kind_of_event(store: SqliteStore):
    kinds = {entry.kind for name in STORE for entry in store.read(name)}
    # Erased stands in the place of an entry whose payload is gone; the others came later.
    later = {"ArmsVisited", "ArmsChanged", "ArmsRetired", "ArmsRestored", "PolicyChanged"}
    later.add("ForgettingChanged")
    assert kinds == {kind.__name__ for kind in get_args(Event)} - {"Erased"} - later
    assert sorted(STORE) == [row.name for row in store.agents()]


@pytest.mark.parametrize("name", STORE)
def test_the_store_verifies_and_replays(store: SqliteStore, name: str):
    seen = STORE[name]
    entries = store.read(name)
    assert [entry.kind for entry in entries] == seen["kinds"]
    assert [entry.seq for entry in entries if entry.payload is None] == seen["erased"]
    assert sum(map(len, store.names(name, 0, len(entries)).values())) == seen["names"]
    assert not verify(store, name, expect=seen["head"]).problems
    found = replay(store, name)
    assert (found.choices, found.same, found.unchecked) == (
        seen["choices"],
        seen["same"],
        seen["unchecked"],
    )


@pytest.mark.parametrize("name", STORE)
def test_snapshots_of_the_store_are_the_fold(store: SqliteStore, name: str):
    assert store.snapshots(name) == STORE[name]["snapshots"]
    for seq, then in STORE[name]["at"].items():
        read = load(store, name, int(seq))
        assert not differences(then, seeing.kept_of(read))
        assert read.to_blob() == load(store, name, int(seq), snapshots=False).to_blob()


def test_agents_of_the_store_were_saved(tmp_path):
    saved = {name: seen for name, seen in STORE.items() if "saved" in seen}
    assert len(saved) == 2
    for name, seen in saved.items():
        packed = (HERE / "form3" / f"{name}-{seen['saved']}.xz").read_bytes()
        (tmp_path / name).write_bytes(lzma.decompress(packed))
        agent = Agent.load(tmp_path / name)
        assert agent.version == seen["saved"]
        assert not differences(seen["state"], state_of(agent))


def test_the_store_goes_on(store: SqliteStore):
    writer = Writer(store, clock=lambda: 1_700_002_000.0)

    def decide(work: UnitOfWork) -> None:
        context = dict.fromkeys(("comedy", "horror", "late"), False)
        for event in work.aggregate.agent.make.decided(context, at=work.now).events:
            work.aggregate.record(event)

    for name in STORE:
        writer.do(name, decide)
    writer.close()
    for name, seen in STORE.items():
        assert not verify(store, name, expect=seen["head"]).problems
        assert replay(store, name).choices > seen["choices"]

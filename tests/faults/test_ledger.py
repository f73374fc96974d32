"""A check that finds nothing proves nothing unless it finds what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridle.server.handlers.decisions import plain_choice
from bridle.store.sqlite import SqliteStore
from bridle.store.writer import UnitOfWork, Writer
from faults.ledger import Ledger, Told, check, same_states
from tests.store.lives import CONTEXTS, begin, live


@pytest.fixture
def store(tmp_path: Path) -> Any:
    made = SqliteStore(tmp_path / "logs.db")
    yield made
    made.close()


def decide(writer: Writer, id: str) -> dict[str, Any]:
    def do(work: UnitOfWork) -> dict[str, Any]:
        made = work.aggregate.agent.make.decided(CONTEXTS[0], id=id, propensity=True)
        for event in made.events:
            work.aggregate.record(event)
        return plain_choice(made)

    return writer.do("movies", do)


def test_what_was_told_is_found_as_it_was_told(store: SqliteStore) -> None:
    writer, ledger = Writer(store), Ledger()
    begin(writer)
    told = decide(writer, "a")
    ledger.ack(Told("movies", "decision", "a", None, told), 1)
    assert check(ledger, store, ["movies"]).lost == 0
    ledger.ack(Told("movies", "decision", "a", None, told | {"version": told["version"] + 1}), 1)
    ledger.ack(Told("movies", "decision", "b", None, told | {"id": "b"}), 1)
    found = check(ledger, store, ["movies"])
    assert (found.lost, found.double) == (2, 0)
    writer.close()


def test_what_was_refused_or_told_in_two_ways_counts(store: SqliteStore) -> None:
    writer, ledger = Writer(store), Ledger()
    begin(writer)
    decide(writer, "a")
    ledger.refuse("movies", "decision", "a")
    ledger.refuse("movies", "decision", "never")
    ledger.differ("two answers")
    ledger.give_up("movies", "decision", "a")
    assert check(ledger, store, ["movies"]).double == 2
    writer.close()


def test_unnamed_decisions_are_counted(store: SqliteStore) -> None:
    writer, ledger = Writer(store), Ledger()
    begin(writer)
    for _ in range(3):
        writer.do("movies", _unnamed)
    ledger.give_up("movies", "decision", None)
    assert check(ledger, store, ["movies"]).double == 2
    writer.close()


def _unnamed(work: UnitOfWork) -> None:
    for event in work.aggregate.agent.make.decided(CONTEXTS[0], ask=False).events:
        work.aggregate.record(event)


def test_a_snapshot_that_is_not_the_fold_is_found(store: SqliteStore) -> None:
    writer = Writer(store)
    begin(writer, budget=5)
    live(writer, 8)
    writer.close()
    assert same_states(store, ["movies"]) == (True, [])
    whole = store.snapshot("movies")
    assert whole is not None
    writer = Writer(store)
    live(writer, 1, first="x")
    writer.close(snapshots=False)
    equal, [why] = same_states(store, ["movies"])
    assert not equal and "no snapshot of the end" in why

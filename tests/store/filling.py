"""Logs to test with."""

from __future__ import annotations

from collections.abc import Sequence

from bridle.store.log import Entry, Head, Name, New, Store
from bridle.store.sql import SqlStore


def new(number: int, *, named: bool = True) -> New:
    """Give an entry of its own for each number; `named` for a decision of that id."""
    names = (Name("decision", f"d{number}", bytes([number % 256]) * 32),) if named else ()
    return New("Decided", f'{{"event":"Decided","id":"d{number}"}}'.encode(), names)


def fill(store: Store, agent: str = "a", count: int = 10, *, create: bool = True) -> Head:
    """Append `count` entries to a log."""
    with store.transaction() as transaction:
        if create:
            transaction.create(agent, 1.5)
        first = transaction.lock([agent])[agent].seq
        return transaction.append(agent, [new(first + i + 1) for i in range(count)])


def whole(store: Store, agent: str = "a") -> list[Entry]:
    """Read a log in small pages."""
    entries: list[Entry] = []
    while page := store.read(agent, len(entries), 7):
        entries += page
    return entries


def seqs(entries: Sequence[Entry]) -> list[int]:
    return [entry.seq for entry in entries]


def seq_of(store: Store, agent: str = "a") -> int:
    head = store.head(agent)
    assert head is not None
    return head.seq


def tamper(store: Store, statement: str, values: Sequence[object] = ()) -> None:
    """Change a database behind the store's back."""
    assert isinstance(store, SqlStore)
    with store._transaction() as transaction:
        transaction._connection.execute(statement, values)

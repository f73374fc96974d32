"""What is read from a database, in a transaction or beside it; the same words do for both kinds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import cast

from bridle.store.records import START, AgentRow, Entry, Found, Head, Name, Snapshot, TokenRow
from bridle.store.seam import Connection

__all__ = [
    "PLACE",
    "agents",
    "entries",
    "find",
    "heads",
    "names",
    "snapshot",
    "snapshots",
    "tokens",
]

# Where a payload stands is one number: an agent's number and, in the lower 40 bits, the sequence.
PLACE = 1 << 40
# SQLite takes at least 999 values in a statement.
_MOST_VALUES = 500
_NUMBER = "(SELECT number FROM agents WHERE name = ?)"


def _groups(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), _MOST_VALUES):
        yield items[start : start + _MOST_VALUES]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def agents(connection: Connection) -> list[AgentRow]:
    """Give all agents, by name."""
    rows = connection.execute(
        "SELECT name, head_seq, head_hash, created, origin FROM agents ORDER BY name"
    )
    return [
        AgentRow(name, Head(seq, hash), created, origin)
        for name, seq, hash, created, origin in rows
    ]


def heads(connection: Connection, names: Sequence[str]) -> dict[str, tuple[int, Head]]:
    """Give the numbers and heads of these agents, as far as there are such."""
    found = {}
    for group in _groups(names):
        rows = connection.execute(
            f"SELECT name, number, head_seq, head_hash FROM agents WHERE name IN ({_marks(group)})",
            group,
        )
        for name, number, seq, hash in rows:
            found[name] = (number, Head(seq, hash))
    return found


def entries(connection: Connection, agent: str, after: int, limit: int) -> list[Entry]:
    """Give up to `limit` entries that follow `after`, in order."""
    rows = connection.execute(
        "SELECT e.seq, e.kind, e.hash, e.payload_hash, p.salt, p.payload "
        f"FROM entries e LEFT JOIN payloads p ON p.place = e.agent * {PLACE} + e.seq "
        f"WHERE e.agent = {_NUMBER} AND e.seq > ? ORDER BY e.seq LIMIT ?",
        (agent, after, limit),
    )
    found = [Entry(*row) for row in rows]
    for place, entry in enumerate(found):
        # SQLite lets whoever tampers put a text in the place of bytes: it must not pass for less.
        if isinstance(cast("object", entry.payload), str) or isinstance(
            cast("object", entry.salt), str
        ):
            found[place] = entry._replace(salt=_raw(entry.salt), payload=_raw(entry.payload))
    return found


def _raw(value: object) -> bytes | None:
    return value.encode() if isinstance(value, str) else cast("bytes | None", value)


def find(connection: Connection, agent: str, space: str, ids: Sequence[str]) -> dict[str, Found]:
    """Say where these names stand; those that do not stand are left out."""
    found = {}
    for group in _groups(ids):
        rows = connection.execute(
            f"SELECT id, seq, digest FROM names WHERE agent = {_NUMBER} AND space = ? "
            f"AND id IN ({_marks(group)})",
            (agent, space, *group),
        )
        for id, seq, digest in rows:
            found[id] = Found(seq, digest)
    return found


def names(
    connection: Connection, agent: str, after: int, limit: int
) -> dict[int, tuple[Name, ...]]:
    """Give the names of the entries from `after` + 1 to `after` + `limit`."""
    rows = connection.execute(
        f"SELECT seq, space, id, digest FROM names WHERE agent = {_NUMBER} "
        "AND seq > ? AND seq <= ? ORDER BY seq, space, id",
        (agent, after, after + limit),
    )
    found: dict[int, tuple[Name, ...]] = {}
    for seq, space, id, digest in rows:
        found[seq] = (*found.get(seq, ()), Name(space, id, digest))
    return found


def snapshot(connection: Connection, agent: str, at_most: int | None = None) -> Snapshot | None:
    """Give the latest snapshot that is whole and belongs to the log."""
    while True:
        rows = connection.execute(
            "SELECT s.seq, s.hash, s.sha256, s.blob, e.hash FROM snapshots s "
            "LEFT JOIN entries e ON e.agent = s.agent AND e.seq = s.seq "
            f"WHERE s.agent = {_NUMBER} AND s.seq <= ? ORDER BY s.seq DESC LIMIT 1",
            (agent, at_most if at_most is not None else PLACE),
        )
        if not rows:
            return None
        [(seq, hash, digest, blob, of_log)] = rows
        belongs = hash == (START.hash if seq == 0 else of_log)
        if belongs and isinstance(blob, bytes) and sha256(blob).digest() == digest:
            return Snapshot(Head(seq, hash), blob)
        at_most = seq - 1


def snapshots(connection: Connection, agent: str) -> list[int]:
    """Give the sequences of all snapshots, in order."""
    rows = connection.execute(
        f"SELECT seq FROM snapshots WHERE agent = {_NUMBER} ORDER BY seq", (agent,)
    )
    return [seq for (seq,) in rows]


def tokens(connection: Connection, id: str | None = None) -> list[TokenRow]:
    """Give all tokens, oldest first, or the one of an id."""
    rows = connection.execute(
        "SELECT id, hash, role, agents, created, expires, revoked, note FROM tokens "
        + ("ORDER BY number" if id is None else "WHERE id = ?"),
        () if id is None else (id,),
    )
    return [
        TokenRow(id, hash, role, None if of is None else tuple(json.loads(of)), *rest)
        for id, hash, role, of, *rest in rows
    ]

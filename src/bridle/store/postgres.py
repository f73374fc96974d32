"""Logs in PostgreSQL: many processes write, and the lock of a head puts them in order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bridle.store import reads
from bridle.store.postgresarrays import ByteaArray, Int8Array, TextArray
from bridle.store.postgreslink import link_to
from bridle.store.records import Entry, Head
from bridle.store.seam import Connection, SqlError
from bridle.store.sqlstore import SqlStore
from bridle.store.sqltransaction import NameRow, SqlTransaction

__all__ = ["PostgresStore"]

# One round trip for all of an append. The names' insert leaves out those that stand, and so tells
# of them without an error, after which a transaction could not even be asked which one it was.
_APPEND = f"""
WITH entry AS (
    INSERT INTO entries (agent, seq, kind, payload_hash, hash)
    SELECT ?, * FROM unnest(?::bigint[], ?::text[], ?::bytea[], ?::bytea[])
), payload AS (
    INSERT INTO payloads (place, salt, payload)
    SELECT ?::bigint * {reads.PLACE} + seq, salt, payload
    FROM unnest(?::bigint[], ?::bytea[], ?::bytea[]) AS new (seq, salt, payload)
), name AS (
    INSERT INTO names (agent, space, id, seq, digest)
    SELECT ?, * FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bytea[])
    ON CONFLICT DO NOTHING RETURNING 1
), head AS (
    UPDATE agents SET head_seq = ?, head_hash = ? WHERE number = ?
)
SELECT count(*) FROM name
"""


class PostgresStore(SqlStore):
    """The logs of many agents in one schema of a PostgreSQL database.

    Parameters
    ----------
    url : str
        "postgresql://USER:PASSWORD@HOST:PORT/NAME", with any parameters of libpq.
    schema : str
        Where the tables are; it is made if it is missing.
    migrations : Path, optional
        Another folder of migrations; for tests.
    """

    def __init__(self, url: str, *, schema: str = "bridle", migrations: Path | None = None) -> None:
        self._link = link_to(url, schema, migrations)
        super().__init__(self._link.where)
        self._link.prepare()

    def _connect(self) -> Connection:
        return self._link.connect()

    def _start(self, connection: Connection) -> SqlTransaction:
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        return _Transaction(connection, self._where)

    def _settle(self, connection: Connection, error: SqlError) -> bool:
        # If anything but a clear word comes in the place of "COMMIT", it may have come after it.
        self._discard_writer()
        return error.kind in ("constraint", "rolled back")


class _Transaction(SqlTransaction):
    """A head is locked as a row, in the order of names: so nobody waits in a circle."""

    def _take(self, agents: Sequence[str]) -> dict[str, tuple[int, Head]]:
        rows = self._connection.execute(
            "SELECT name, number, head_seq, head_hash FROM agents WHERE name = ANY(?) "
            "ORDER BY name FOR UPDATE",
            (list(agents),),
        )
        return {name: (number, Head(seq, hash)) for name, number, seq, hash in rows}

    def _insert(
        self, number: int, entries: Sequence[Entry], names: Sequence[NameRow], head: Head
    ) -> bool:
        kept = [entry for entry in entries if entry.salt is not None]
        [(count,)] = self._connection.execute(
            _APPEND,
            (
                number,
                Int8Array([entry.seq for entry in entries]),
                TextArray([entry.kind for entry in entries]),
                ByteaArray([entry.payload_hash for entry in entries]),
                ByteaArray([entry.hash for entry in entries]),
                number,
                Int8Array([entry.seq for entry in kept]),
                ByteaArray([entry.salt for entry in kept]),
                ByteaArray([entry.payload for entry in kept]),
                number,
                TextArray([space for space, _, _, _ in names]),
                TextArray([id for _, id, _, _ in names]),
                Int8Array([seq for _, _, seq, _ in names]),
                ByteaArray([digest for _, _, _, digest in names]),
                *head,
                number,
            ),
        )
        return bool(count == len(names))

"""Logs in a SQLite file: one writer, readers beside it, every commit on disk before it is said."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from bridle.store import reads
from bridle.store.records import Entry, Head
from bridle.store.seam import Connection, Library, SqlError
from bridle.store.sqlitefile import SqliteFile, Synchronous
from bridle.store.sqlstore import SqlStore
from bridle.store.sqltransaction import NameRow, SqlTransaction

__all__ = ["SqliteStore"]

_SETTLE = "UPDATE settled SET times = times + 1"
# Few sizes, so that each statement is prepared once. At most 320 values: old SQLite takes 999.
_ROWS_AT_ONCE = (64, 8, 1)


class SqliteStore(SqlStore):
    """The logs of many agents in one SQLite file.

    Parameters
    ----------
    path : Path or str
        The file. It is made if it is missing, and brought to this version's form if it is older.
    library, vfs, synchronous : optional
        For tests: "apsw" in the place of "sqlite3", a file system registered with it, and when
        SQLite waits for the disk. Whatever is not "FULL" loses commits when the power goes. With a
        `vfs` there is one connection, which also reads: such a file system has no shared memory.
    wait : float
        How many seconds to wait for the locks of other processes.
    migrations : Path, optional
        Another folder of migrations; for tests.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        library: Library = "sqlite3",
        vfs: str | None = None,
        synchronous: Synchronous = "FULL",
        wait: float = 10.0,
        migrations: Path | None = None,
    ) -> None:
        self._file = SqliteFile(Path(path), library, vfs, synchronous, wait, migrations)
        super().__init__(str(path), alone=self._file.alone)
        self._unsettled = False  # whether a commit failed, and none has been made since
        self._file.prepare()

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._file.path

    def _connect(self) -> Connection:
        return self._file.connect()

    def _start(self, connection: Connection) -> SqlTransaction:
        connection.execute("BEGIN IMMEDIATE")
        if self._unsettled:
            # A commit of nothing writes nothing, and would say that the disk works again.
            connection.execute(_SETTLE)
        return _Transaction(connection, self._where)

    def _commit(self, connection: Connection) -> None:
        super()._commit(connection)
        self._unsettled = False

    def _settle(self, connection: Connection, error: SqlError) -> bool:
        """Make sure that a commit that failed will not come back.

        If the disk failed while it synced, the whole commit may stand in the write-ahead log. It
        counts for nothing as long as a process has the file open, but after a crash it would be
        found and taken for good. The next commit overwrites it.
        """
        self._unsettled = True
        self._roll_back(connection)
        if self._writer is None:
            return False
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_SETTLE)
            connection.execute("COMMIT")
        except SqlError:
            self._discard_writer()
            return False
        self._unsettled = False
        return True

    def _after_erasing(self, connection: Connection) -> None:
        # The write-ahead log holds pages as they were. If a reader is in the way, a later
        # checkpoint overwrites them.
        with contextlib.suppress(SqlError):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class _Transaction(SqlTransaction):
    """Between `BEGIN IMMEDIATE` and `COMMIT` nobody else writes: every head is locked."""

    def _take(self, agents: Sequence[str]) -> dict[str, tuple[int, Head]]:
        return reads.heads(self._connection, agents)

    def _insert(
        self, number: int, entries: Sequence[Entry], names: Sequence[NameRow], head: Head
    ) -> bool:
        base = number * reads.PLACE
        try:
            self._insert_rows(
                "names", [(number, space, id, seq, digest) for space, id, seq, digest in names]
            )
            self._insert_rows(
                "entries",
                [(number, seq, kind, hashed, hash) for seq, kind, hash, hashed, _, _ in entries],
            )
            self._insert_rows(
                "payloads",
                [
                    (base + seq, salt, payload)
                    for seq, _, _, _, salt, payload in entries
                    if salt is not None
                ],
            )
        except SqlError as error:
            if error.kind == "constraint":
                return False
            raise
        self._connection.execute(
            "UPDATE agents SET head_seq = ?, head_hash = ? WHERE number = ?", (*head, number)
        )
        return True

    def _insert_rows(self, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Insert many rows in few statements.

        Each one lets go of the interpreter, and gets it back when the loop that answers requests
        has nothing to do: with a statement for each row a batch would wait for it all the time.
        """
        done = 0
        for size in _ROWS_AT_ONCE:
            while len(rows) - done >= size:
                values = [value for row in rows[done : done + size] for value in row]
                self._connection.execute(_insertion(table, len(rows[done]), size), values)
                done += size


@cache
def _insertion(table: str, width: int, rows: int) -> str:
    row = f"({', '.join('?' * width)})"
    return f"INSERT INTO {table} VALUES {', '.join([row] * rows)}"

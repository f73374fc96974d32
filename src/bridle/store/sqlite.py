"""Logs in a SQLite file: connections, how the file is made and migrated, and the store.

`sqlite3` of the standard library is what runs. `apsw`, which brings a SQLite of its own, is asked
for by tests that need a file system that loses power. Both get the same statements.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from bridle.errors import CorruptState, StoreFailed
from bridle.store.log import Entry, Head
from bridle.store.migrations import migrate, migrations
from bridle.store.sql import (
    PLACE,
    Connection,
    Kind,
    NameRow,
    Row,
    SqlError,
    SqlStore,
    SqlTransaction,
    failed,
)

if TYPE_CHECKING:
    import apsw

__all__ = [
    "Library",
    "SqliteFile",
    "SqliteStore",
    "Synchronous",
    "connect",
    "statements",
    "sync_folder",
]


Library: TypeAlias = Literal["sqlite3", "apsw"]
Synchronous: TypeAlias = Literal["FULL", "NORMAL", "OFF"]
# Of the write-ahead log, in pages of 4 KiB. Names are spread over the whole file, so a commit
# changes many pages and the next changes some of them again: the fewer the checkpoints, the fewer
# of them are written twice.
_CHECKPOINT_PAGES = 4_000
_PAUSE = 0.01


# By SQLite's primary result codes; both libraries give the same ones.
_KINDS: dict[int, Kind] = {
    5: "busy",
    6: "busy",
    8: "readonly",
    10: "io",
    11: "corrupt",
    13: "full",
    14: "unopened",
    19: "constraint",
    26: "corrupt",  # not a database
}

_APSW_CODES = {"IOError": 10, "FullError": 13}


def connect(
    path: Path, *, library: Library = "sqlite3", vfs: str | None = None, wait: float
) -> Connection:
    """Open an existing database file, or raise `SqlError`.

    Parameters
    ----------
    path : Path
        The file. With a `vfs` of its own it may be one that only that file system knows, and is
        made if it is missing.
    library : str
        Who serves the calls.
    vfs : str, optional
        The name of a file system that was registered with apsw; for tests.
    wait : float
        How many seconds to wait for other processes' locks.
    """
    if library == "apsw":
        return _Apsw(path, vfs, wait)
    return _Sqlite3(path, wait)


class _Sqlite3:
    def __init__(self, path: Path, wait: float) -> None:
        try:
            # Any thread may use it, one at a time: the store sees to that.
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw",
                timeout=wait,
                isolation_level=None,
                check_same_thread=False,
                uri=True,
            )
        except sqlite3.Error as error:
            raise _from_sqlite3(error) from None

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
            raise _from_sqlite3(error) from None

    def executemany(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        try:
            self._connection.executemany(statement, rows)
        except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
            raise _from_sqlite3(error) from None

    def script(self, text: str) -> None:
        for statement in statements(text):
            self.execute(statement)

    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()


class _Apsw:
    def __init__(self, path: Path, vfs: str | None, wait: float) -> None:
        import apsw

        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if vfs else 0)
        self._error: type[Exception] = apsw.Error
        try:
            self._connection: apsw.Connection = apsw.Connection(
                str(path.absolute()), flags=flags, vfs=vfs
            )
            self._connection.set_busy_timeout(int(1000 * wait))
        except apsw.Error as error:
            raise _from_apsw(error) from None

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        try:
            return list(self._connection.execute(statement, tuple(values)))
        except (self._error, UnicodeEncodeError, OverflowError, OSError) as error:
            raise _from_apsw(error) from None

    def executemany(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        try:
            self._connection.executemany(statement, rows)
        except (self._error, UnicodeEncodeError, OverflowError, OSError) as error:
            raise _from_apsw(error) from None

    def script(self, text: str) -> None:
        for statement in statements(text):
            self.execute(statement)

    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def close(self) -> None:
        with contextlib.suppress(self._error, OSError):
            self._connection.close(True)


def statements(text: str) -> Iterator[str]:
    """Split a script: `executescript` would commit what came before."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def _from_sqlite3(error: Exception) -> SqlError:
    code = getattr(error, "sqlite_errorcode", 0)
    return SqlError(_KINDS.get(code & 0xFF, "other"), str(error))


def _from_apsw(error: Exception) -> SqlError:
    # What a file system written in Python raises has no code, or is an error of Python's own.
    code = getattr(error, "result", 0) or _APSW_CODES.get(type(error).__name__, 0)
    if isinstance(error, OSError):
        code = 10
    return SqlError(_KINDS.get(code & 0xFF, "other"), str(error) or type(error).__name__)


# --- The file -----------------------------------------------------------------------------------


class SqliteFile(NamedTuple):
    """Where a database is and how connections to it are made."""

    path: Path
    library: Library = "sqlite3"
    vfs: str | None = None
    synchronous: Synchronous = "FULL"
    wait: float = 10.0
    migrations: Path | None = None

    @property
    def alone(self) -> bool:
        """Whether there can be one connection only.

        A file system written with apsw has no shared memory, which readers beside the writer need.
        """
        return self.vfs is not None

    def make(self) -> None:
        """Make an empty file that only its owner may read, unless there is one."""
        if self.vfs is not None:
            return
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            sync_folder(self.path.parent)
        except FileExistsError:
            if self.path.is_dir():
                raise StoreFailed(f"{self.path} is a folder. Name a file.") from None
        except OSError as error:
            raise StoreFailed(f"Could not make {self.path}: {error.strerror}.") from None

    def connect(self) -> Connection:
        """Open a connection with the settings that all of them have, or raise `SqlError`."""
        connection = connect(self.path, library=self.library, vfs=self.vfs, wait=self.wait)
        try:
            if self.alone:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            # What is erased leaves no trace in free pages.
            connection.execute("PRAGMA secure_delete = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def prepare(self) -> None:
        """Make the file if it is missing, and bring it to this version's form."""
        self.make()
        try:
            connection = self.connect()
            try:
                self._to_wal(connection)
                known = migrations("sqlite", self.migrations)
                migrate(
                    connection, known, f"{self.path}", lambda: self._begin_migration(connection)
                )
            finally:
                connection.close()
        except SqlError as error:
            raise failed(error, "open", f"{self.path}") from None

    def _to_wal(self, connection: Connection) -> None:
        # Two that open a new file at once: SQLite tells one that it is busy, without waiting.
        end = time.monotonic() + self.wait
        while True:
            try:
                [(mode,)] = connection.execute("PRAGMA journal_mode = WAL")
                break
            except SqlError as error:
                if error.kind != "busy" or time.monotonic() > end:
                    raise
                time.sleep(_PAUSE)
        if mode != "wal":
            raise StoreFailed(
                f"{self.path} cannot have a write-ahead log: it stayed in mode {mode!r}. "
                f"Is it on a disk that is read-only or shared over a network?"
            )

    def _begin_migration(self, connection: Connection) -> bool:
        connection.execute("BEGIN IMMEDIATE")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if tables and "migrations" not in tables:
            connection.execute("ROLLBACK")
            raise CorruptState(
                f"{self.path} is a database, but not one of bridle. Name another file."
            )
        return bool(tables)


def sync_folder(folder: Path) -> None:
    """Make sure that a new file's name survives a power cut."""
    if os.name == "nt":
        return  # Windows has no such call, and needs none.
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# --- Logs in a SQLite file: one writer, readers beside it, every commit on disk before it is said


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

    def _insert(
        self, number: int, entries: Sequence[Entry], names: Sequence[NameRow], head: Head
    ) -> bool:
        base = number * PLACE
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

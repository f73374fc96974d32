"""The few calls through which a store talks to its database, and SQLite's two libraries for it.

`sqlite3` of the standard library is what runs. `apsw`, which brings a SQLite of its own, is asked
for by tests that need a file system that loses power. Both get the same statements. PostgreSQL
serves the same calls, in postgreslink.py.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from bridle.errors import BridleError, CorruptState, StoreFailed

if TYPE_CHECKING:
    import apsw

__all__ = ["Connection", "Kind", "Library", "Row", "SqlError", "connect", "failed", "statements"]

Library: TypeAlias = Literal["sqlite3", "apsw"]
Row: TypeAlias = tuple[Any, ...]
Kind: TypeAlias = Literal[
    "busy",
    "constraint",
    "corrupt",
    "full",
    "io",
    "lost",
    "readonly",
    "rolled back",
    "unopened",
    "other",
]

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


class SqlError(Exception):
    """What the database refused, and why. It does not leave the store."""

    def __init__(self, kind: Kind, text: str) -> None:
        self.kind = kind
        super().__init__(text)


class Connection(Protocol):
    """A connection that commits every statement by itself, unless `BEGIN` was sent."""

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement and give all its rows, or raise `SqlError`."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each of `rows`, or raise `SqlError`."""
        ...

    def script(self, text: str) -> None:
        """Run several statements, or raise `SqlError`."""
        ...

    def in_transaction(self) -> bool:
        """Say whether a transaction is open."""
        ...

    def close(self) -> None:
        """Close it; what was not committed is rolled back."""
        ...


def failed(error: SqlError, doing: str, where: str, unknown: bool = False) -> BridleError:
    """Give the error to raise for what the database refused."""
    what = f"Could not {doing} {where}"
    if error.kind == "corrupt":
        return CorruptState(
            f"{what}: {error}. It is damaged, or not a database of bridle. Restore a backup."
        )
    remedy = {
        "busy": "Another process holds it. Try again, or stop that process.",
        "full": "The disk is full. Make room; bridle then goes on by itself.",
        "io": "The disk failed. bridle goes on by itself when it works again.",
        "lost": "Is the server there? bridle connects again by itself when it answers.",
        "readonly": "It, or its folder, may not be written to.",
        "unopened": "Is it there, and may it be opened?",
    }.get(error.kind, "")
    text = str(error).rstrip(".")
    return StoreFailed(f"{what}: {text}. {remedy}".rstrip(), unknown=unknown)


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

"""A SQLite file of logs: how it is made, opened and brought to this version's form."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from bridle.errors import CorruptState, StoreFailed
from bridle.store.migrating import migrate, migrations
from bridle.store.seam import Connection, Library, SqlError, connect, failed

__all__ = ["SqliteFile", "Synchronous", "sync_folder"]

Synchronous: TypeAlias = Literal["FULL", "NORMAL", "OFF"]
# Of the write-ahead log, in pages of 4 KiB. Names are spread over the whole file, so a commit
# changes many pages and the next changes some of them again: the fewer the checkpoints, the fewer
# of them are written twice.
_CHECKPOINT_PAGES = 4_000
_PAUSE = 0.01


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

"""Copies of logs: backups while the store is in use, restoring them, and forks."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bridle.errors import CorruptState, NotPossible, StoreFailed
from bridle.store.migrating import due, migrations
from bridle.store.records import AgentRow, Entry, Head, Name, Store
from bridle.store.sqlite import SqliteStore
from bridle.store.sqlitefile import sync_folder
from bridle.store.verifying import Progress, verify

__all__ = ["backup", "check_backup", "fork", "restore"]

_PAGE = 1_000


def backup(store: Store, path: Path | str, *, progress: Progress | None = None) -> dict[str, Head]:
    """Copy a store that may be in use into a new SQLite file; give the heads that are in it.

    Each log is copied up to the head that it had at the beginning. The file appears under its name
    when it is whole, verified and on disk.

    Parameters
    ----------
    store : Store
        What to copy, of either kind.
    path : Path or str
        The file to make. There may be none of that name.
    progress : callable, optional
        Called after each page with the number of entries done and of all.
    """
    path = Path(path)
    if path.exists():
        raise NotPossible(f"There is a file {path} already. Name another for the backup.")
    rows = store.agents()
    total, done = sum(row.head.seq for row in rows), 0
    with (
        _failing(path),
        tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder,
    ):
        partial = Path(folder) / "partial.db"
        # Nothing of it counts before all of it is synced, so no commit needs to be.
        with contextlib.closing(SqliteStore(partial, synchronous="OFF")) as target:
            for row in rows:
                with target.transaction() as transaction:
                    transaction.create(row.name, row.created, row.origin)
                for entries, names in _pages(store, row):
                    with target.transaction() as transaction:
                        transaction.lock([row.name])
                        transaction.adopt(row.name, entries, names)
                    done += len(entries)
                    if progress is not None:
                        progress(done, total)
                _copy_snapshots(store, target, row)
            with target.transaction() as transaction:
                for token in store.tokens():
                    transaction.add_token(token)
            _check(target, rows)
        if _size(partial.with_name("partial.db-wal")):
            raise StoreFailed(f"The backup could not be written in full to {path.parent}.")
        _sync_file(partial)
        _move(partial, path)
        sync_folder(path.parent)
    return {row.name: row.head for row in rows}


def check_backup(path: Path | str) -> None:
    """Raise an error unless a file can be restored; look at its form, and not at its logs.

    For whoever makes a store to restore it into: if there is nothing to restore, none is made.
    """
    path = Path(path)
    if not path.is_file():
        raise NotPossible(f"There is no backup {path}.")
    if _size(path.with_name(path.name + "-wal")):
        raise NotPossible(
            f"{path} is in use, or was not closed. Make a backup of it, and take that."
        )
    try:
        # So SQLite writes nothing, not beside it either, also where it could.
        address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            applied = dict(connection.execute("SELECT version, sha256 FROM migrations"))
    except sqlite3.Error as error:
        raise CorruptState(
            f"{path} is not a backup of bridle, or is damaged: {error}. Name another."
        ) from None
    due(applied, migrations("sqlite"), str(path))


def restore(path: Path | str, store: Store, *, progress: Progress | None = None) -> dict[str, Head]:
    """Bring a backup into an empty store of either kind; give the heads.

    All logs and tokens come in one transaction: if it fails, the store is empty as before. The
    backup is not touched, and may be of an older version.
    """
    path = Path(path)
    check_backup(path)
    if store.agents() or store.tokens():
        raise NotPossible("Only an empty store can take a backup. Name a new file or schema.")
    beside = store.path.parent if isinstance(store, SqliteStore) else None
    with _failing(path), tempfile.TemporaryDirectory(prefix=".restore.", dir=beside) as folder:
        copy = Path(folder) / "copy.db"
        shutil.copyfile(path, copy)
        copy.chmod(0o600)
        with contextlib.closing(SqliteStore(copy, synchronous="OFF")) as source:
            return _bring_in(source, store, progress)


def _bring_in(source: Store, store: Store, progress: Progress | None) -> dict[str, Head]:
    rows = source.agents()
    total, done = sum(row.head.seq for row in rows), 0
    with store.transaction() as transaction:
        for row in rows:
            transaction.create(row.name, row.created, row.origin)
            for entries, names in _pages(source, row):
                transaction.adopt(row.name, entries, names)
                done += len(entries)
                if progress is not None:
                    progress(done, total)
        for token in source.tokens():
            transaction.add_token(token)
    for row in rows:
        _copy_snapshots(source, store, row)
    return {row.name: row.head for row in rows}


def fork(store: Store, agent: str, at: int, name: str, *, created: float | None = None) -> Head:
    """Begin a log of another name that is the first `at` entries of `agent`'s, hash for hash.

    What is erased from one of the two later stays in the other.
    """
    with store.transaction() as transaction:
        head = transaction.fork(agent, at, name, time.time() if created is None else created)
    snapshot = store.snapshot(agent, at_most=at)
    if snapshot is not None:
        store.keep_snapshot(name, snapshot)
    return head


def _pages(
    source: Store, row: AgentRow
) -> Iterator[tuple[list[Entry], Mapping[int, tuple[Name, ...]]]]:
    """Give a log in parts, up to the head in `row`, or raise `CorruptState`."""
    last = Head(0, bytes(32))
    while last.seq < row.head.seq:
        count = min(_PAGE, row.head.seq - last.seq)
        entries = source.read(row.name, last.seq, count)
        if len(entries) < count:
            break
        yield entries, source.names(row.name, last.seq, count)
        last = Head(entries[-1].seq, entries[-1].hash)
    if last != row.head:
        raise CorruptState(
            f"The log of {row.name!r} ends with {last}, but its store says {row.head}. Verify it."
        )


def _copy_snapshots(source: Store, target: Store, row: AgentRow) -> None:
    for seq in source.snapshots(row.name):
        snapshot = source.snapshot(row.name, at_most=seq) if seq <= row.head.seq else None
        # For one that is damaged, or was dropped meanwhile, an older one comes.
        if snapshot is not None and snapshot.head.seq == seq:
            target.keep_snapshot(row.name, snapshot)


def _check(target: Store, rows: list[AgentRow]) -> None:
    for row in rows:
        verified = verify(target, row.name, expect=str(row.head))
        if verified.problems or verified.head != row.head:
            problem = verified.problems[0].text if verified.problems else "it has another head"
            raise CorruptState(f"The backup of {row.name!r} is not as it was written: {problem}.")


@contextlib.contextmanager
def _failing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreFailed(f"Could not copy with {path}: {error.strerror}.") from None


def _sync_file(path: Path) -> None:
    number = os.open(path, os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _move(source: Path, target: Path) -> None:
    try:
        # A link, unlike a move, never takes the place of a file that came meanwhile.
        os.link(source, target)
    except FileExistsError:
        raise NotPossible(f"A file {target} came meanwhile. Name another for the backup.") from None
    except OSError:
        # Some file systems have no links.
        source.replace(target)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0

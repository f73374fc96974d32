from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bridle.errors import CorruptState, StoreFailed
from bridle.store import sql
from bridle.store import sqlite as sqlitefile
from bridle.store.maintenance import verify
from bridle.store.sql import Connection, Row, SqlError
from bridle.store.sqlite import SqliteStore, connect
from tests.store.filling import fill, new, seq_of, tamper

apsw = pytest.importorskip("apsw", reason="apsw is not installed")

from tests.store.failing_disk import FailingDisk  # noqa: E402


@pytest.fixture
def disk():
    return FailingDisk()


@pytest.fixture
def store(disk: FailingDisk, tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db", library="apsw", vfs=disk.name)
    fill(store, count=3)
    yield store
    disk.broken = lambda operation, file: None
    store.close()


def after_a_crash(folder: Path) -> int:
    """Say how many entries there are for who finds the files as they are now."""
    with_copy = folder / "crashed"
    with_copy.mkdir()
    for name in ("a.db", "a.db-wal"):
        shutil.copy(folder / name, with_copy / name)
    found = SqliteStore(with_copy / "a.db")
    assert verify(found, "a").problems == ()
    count = seq_of(found)
    found.close()
    shutil.rmtree(with_copy)
    return count


def test_only_the_owner_may_read_the_files(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db")
    fill(store)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(list(tmp_path.iterdir())) == 3
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]


@pytest.mark.parametrize("library", ["sqlite3", "apsw"])
def test_both_libraries_have_the_same_settings(tmp_path: Path, library):
    store = SqliteStore(tmp_path / "a.db", library=library)
    settings = [
        store._connect().execute(f"PRAGMA {name}")
        for name in ("journal_mode", "synchronous", "secure_delete", "wal_autocheckpoint")
    ]
    assert settings == [[("wal",)], [(2,)], [(1,)], [(4000,)]]
    store.close()


def test_a_commit_that_failed_once_is_undone_for_good(
    disk: FailingDisk, store: SqliteStore, tmp_path: Path
):
    failures = [apsw.IOError]

    def once(operation: str, file: str):
        return failures.pop() if operation == "sync" and failures else None

    disk.broken = once
    with pytest.raises(StoreFailed, match="commit") as caught:
        fill(store, count=5, create=False)
    assert failures == []
    # Not unknown: a commit after it has overwritten what it left.
    assert not caught.value.unknown
    assert after_a_crash(tmp_path) == 3
    assert fill(store, count=1, create=False).seq == 4
    assert verify(store, "a").problems == ()


def test_a_commit_is_unknown_while_the_disk_is_broken(
    disk: FailingDisk, store: SqliteStore, tmp_path: Path
):
    disk.broken = lambda operation, file: apsw.IOError if operation == "sync" else None
    with pytest.raises(StoreFailed) as caught:
        fill(store, count=5, create=False)
    assert caught.value.unknown
    disk.broken = lambda operation, file: None
    # Then only the log knows. Whichever it is, it goes on from there without a restart.
    found = seq_of(store)
    assert found in (3, 8)
    with store.transaction() as transaction:
        transaction.lock(["a"])
        assert transaction.append("a", [new(100)]).seq == found + 1
    assert after_a_crash(tmp_path) == found + 1


def test_what_a_failed_sync_leaves_may_be_found_after_a_crash(
    disk: FailingDisk, store: SqliteStore, tmp_path: Path
):
    """Why `_settle` is there: without it this would be a false "not committed"."""
    counts = []

    def look(operation: str, file: str):
        if operation != "sync":
            return None
        counts.append(after_a_crash(tmp_path))
        return apsw.IOError

    disk.broken = look
    with pytest.raises(StoreFailed):
        fill(store, count=5, create=False)
    assert counts[0] == 8


def test_a_full_disk_is_said_and_used_again_when_there_is_room(
    disk: FailingDisk, store: SqliteStore, tmp_path: Path
):
    disk.broken = lambda operation, file: apsw.FullError if operation == "write" else None
    for _ in range(3):
        with pytest.raises(StoreFailed, match="disk is full"):
            fill(store, count=5, create=False)
        assert seq_of(store) == 3
    assert after_a_crash(tmp_path) == 3
    disk.broken = lambda operation, file: None
    assert fill(store, count=1, create=False).seq == 4
    assert verify(store, "a").problems == ()


def test_a_statement_that_fails_spoils_its_transaction(store: SqliteStore):
    with pytest.raises(StoreFailed) as caught, store.transaction() as transaction:
        transaction.lock(["a"])
        transaction.append("a", [new(4)])
        with pytest.raises(StoreFailed):
            transaction.find("a", "decision", ["\ud800"])
        with pytest.raises(StoreFailed):
            transaction.lock(["a"])
    assert not caught.value.unknown
    assert seq_of(store) == 3


def test_a_reader_that_failed_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = SqliteStore(tmp_path / "a.db")
    fill(store, count=3)
    assert seq_of(store) == 3
    store._idle[0].close()
    with pytest.raises(StoreFailed, match="read"):
        store.head("a")
    assert seq_of(store) == 3
    store.close()


def test_entries_beyond_the_head_stop_an_append(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db")
    fill(store, count=3)
    [second] = store.read("a", 1, 1)
    tamper(store, "UPDATE agents SET head_seq = 2, head_hash = ?", (second.hash,))
    with pytest.raises(CorruptState, match="beyond"), store.transaction() as transaction:
        transaction.lock(["a"])
        transaction.append("a", [new(9)])
    store.close()


def test_erased_words_are_nowhere_in_the_files(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db")
    with store.transaction() as transaction:
        transaction.create("a", 0.0)
        secret = new(1)._replace(payload=b"the secret of Ann" * 500)
        transaction.append("a", [new(0), secret, new(2)])
    with store.transaction() as transaction:
        assert transaction.erase("a", [2]) == 1
    for path in tmp_path.iterdir():
        assert b"secret of Ann" not in path.read_bytes()
    store.close()


# -- files that are no good ------------------------------------------------------------------


def test_a_file_that_is_no_database(tmp_path: Path):
    (tmp_path / "a.db").write_bytes(b"no database" * 1000)
    for library in ("sqlite3", "apsw"):
        with pytest.raises(CorruptState, match="not a database"):
            SqliteStore(tmp_path / "a.db", library=library)


def test_a_database_of_somebody_else(tmp_path: Path):
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(CorruptState, match="not one of bridle"):
        SqliteStore(tmp_path / "a.db")


def test_a_folder_and_a_place_that_is_not_there(tmp_path: Path):
    with pytest.raises(StoreFailed, match="folder"):
        SqliteStore(tmp_path)
    with pytest.raises(StoreFailed, match="No such file"):
        SqliteStore(tmp_path / "missing" / "a.db")


def test_pages_that_were_overwritten(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db")
    fill(store, count=500)
    store.close()
    size = (tmp_path / "a.db").stat().st_size
    with (tmp_path / "a.db").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(CorruptState):
        store = SqliteStore(tmp_path / "a.db")
        try:
            store.read("a")
        finally:
            store.close()


READ_ONLY = """
import os, sys
from bridle.errors import StoreFailed
from bridle.store.sqlite import SqliteStore
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    SqliteStore(sys.argv[1])
except StoreFailed as error:
    print("refused:", error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_file_that_may_not_be_written_to(tmp_path: Path):
    path = tmp_path / "a.db"
    store = SqliteStore(path)
    fill(store)
    store.close()
    for folder in [tmp_path, *tmp_path.parents[:-2]]:
        folder.chmod(0o755)
    path.chmod(0o644)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, path], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("refused: Could not"), done


def test_a_lock_that_another_process_holds_is_said(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db", wait=0.0)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreFailed, match="Another process") as caught:
        fill(store)
    assert not caught.value.unknown
    with pytest.raises(StoreFailed, match="Another process"):
        SqliteStore(tmp_path / "a.db", wait=0.0)
    other.close()
    fill(store)
    store.close()


def test_a_file_that_is_missing_is_not_made_by_a_connection(tmp_path: Path):
    for library in ("sqlite3", "apsw"):
        with pytest.raises(SqlError) as caught:
            connect(tmp_path / "a.db", library=library, wait=0.0).execute("SELECT 1 FROM x")
        assert caught.value.kind == "unopened"
    assert list(tmp_path.iterdir()) == []


class Scripted:
    """A connection that does what the test says before it does what it was told."""

    def __init__(self, connection: Connection, act: Callable[[str], None]) -> None:
        self._connection = connection
        self._act = act

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        self._act(statement)
        return self._connection.execute(statement, values)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


def scripted(monkeypatch: pytest.MonkeyPatch, act: Callable[[str], None]) -> None:
    monkeypatch.setattr(
        sqlitefile, "connect", lambda *args, **kwargs: Scripted(connect(*args, **kwargs), act)
    )


def test_a_file_that_others_are_opening_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    left = [1, 2]

    def busy(statement: str) -> None:
        if "journal_mode" in statement and left:
            left.pop()
            raise SqlError("busy", "database is locked")

    scripted(monkeypatch, busy)
    SqliteStore(tmp_path / "a.db").close()
    assert left == []
    left.append(1)
    with pytest.raises(StoreFailed, match="Another process"):
        SqliteStore(tmp_path / "a.db", wait=-1.0)


def test_a_rollback_that_fails_costs_the_connection_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    broken: list[str] = []

    def fail(statement: str) -> None:
        if statement in broken:
            raise SqlError("io", f"no {statement}")

    scripted(monkeypatch, fail)
    store = SqliteStore(tmp_path / "a.db")
    fill(store, count=1)
    broken[:] = ["ROLLBACK"]
    with pytest.raises(ZeroDivisionError), store.transaction() as transaction:
        transaction.lock(["a"])
        transaction.append("a", [new(2)])
        raise ZeroDivisionError
    broken[:] = ["ROLLBACK", "COMMIT"]
    with pytest.raises(StoreFailed, match="no COMMIT") as caught:
        fill(store, count=1, create=False)
    assert caught.value.unknown
    broken.clear()
    assert fill(store, count=1, create=False).seq == 2
    store.close()


def test_who_interrupts_a_commit_or_a_read_leaves_the_store_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    interrupted: list[str] = []

    def interrupt(statement: str) -> None:
        if interrupted and statement.startswith(interrupted[0]):
            raise KeyboardInterrupt

    scripted(monkeypatch, interrupt)
    store = SqliteStore(tmp_path / "a.db")
    fill(store, count=1)
    for statement, act in (
        ("COMMIT", lambda: fill(store, count=1, create=False)),
        ("SELECT", lambda: store.head("a")),
    ):
        interrupted[:] = [statement]
        with pytest.raises(KeyboardInterrupt):
            act()
        interrupted.clear()
        assert seq_of(store) == 1
    assert fill(store, count=1, create=False).seq == 2
    store.close()


def test_a_store_that_is_closed_while_another_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = SqliteStore(tmp_path / "a.db")
    fill(store, count=1)
    monkeypatch.setattr(sql, "read_agents", lambda connection: store.close())
    store.agents()
    assert store._idle == []
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]

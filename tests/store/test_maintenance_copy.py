from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from bridle.errors import CorruptState, Duplicate, InvalidValue, NotPossible, StoreFailed, UnknownId
from bridle.store import maintenance, sql
from bridle.store.log import START, Head, Snapshot, Store, TokenRow
from bridle.store.maintenance import Problem, Verified, backup, check_backup, fork, restore, verify
from bridle.store.sqlite import SqliteStore
from tests.store.conftest import Opener
from tests.store.filling import fill, seqs, tamper, whole

TOKEN = TokenRow("t1", b"h" * 32, "teacher", ("a",), 1.0, None, 3.0, "of Ann")


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_PAGE", 4)
    monkeypatch.setattr(sql, "_FORKED_AT_ONCE", 3)


def filled(store: Store) -> Store:
    fill(store, "a", 10)
    fill(store, "b", 3)
    with store.transaction() as transaction:
        transaction.create("empty", 7.0, "a@0")
        transaction.erase("a", [4])
        transaction.add_token(TOKEN)
    for seq in (3, 8):
        [entry] = store.read("a", seq - 1, 1)
        store.keep_snapshot("a", Snapshot(Head(seq, entry.hash), b"state" * seq))
    return store


def contents(store: Store) -> object:
    agents = store.agents()
    return (
        agents,
        [store.read(row.name) for row in agents],
        [store.names(row.name, 0, 100) for row in agents],
        [[store.snapshot(row.name, seq) for seq in store.snapshots(row.name)] for row in agents],
        store.tokens(),
    )


def test_a_backup_comes_back_whole_in_every_kind_of_store(opener: Opener, tmp_path: Path):
    store = filled(opener("first"))
    steps: list[tuple[int, int]] = []
    heads = backup(store, tmp_path / "copy", progress=lambda *step: steps.append(step))
    assert heads == {row.name: row.head for row in store.agents()}
    assert steps == [(4, 13), (8, 13), (10, 13), (13, 13)]
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o600
    before = (tmp_path / "copy").read_bytes()

    target = opener("second")
    again: list[tuple[int, int]] = []
    assert restore(tmp_path / "copy", target, progress=lambda *step: again.append(step)) == heads
    assert again == steps
    assert contents(target) == contents(store)
    assert verify(target, "a", expect=str(heads["a"])).problems == ()
    assert fill(target, "a", 2, create=False).seq == 12
    # The backup itself is as it was, and nothing lies beside it.
    assert (tmp_path / "copy").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if "copy" in path.name] == ["copy"]
    assert not list(tmp_path.glob(".*"))


def test_a_backup_of_a_store_in_use_ends_where_it_began(opener: Opener, tmp_path: Path):
    store = filled(opener())

    def go_on(*_: int) -> None:
        fill(store, "a", 3, create=False)

    heads = backup(store, tmp_path / "copy", progress=go_on)
    assert heads["a"].seq == 10
    copy = SqliteStore(tmp_path / "copy")
    assert seqs(whole(copy)) == list(range(1, 11))
    assert sorted(copy.names("a", 0, 100)) == list(range(1, 11))
    copy.close()


def test_a_backup_takes_no_file_s_place(store: Store, tmp_path: Path):
    (tmp_path / "copy").write_text("something else")
    with pytest.raises(NotPossible, match="already"):
        backup(store, tmp_path / "copy")
    with pytest.raises(StoreFailed, match="missing"):
        backup(store, tmp_path / "missing" / "copy")


def test_a_file_that_came_meanwhile_is_left_alone(store: Store, tmp_path: Path):
    fill(store, count=1)
    with pytest.raises(NotPossible, match="meanwhile"):
        backup(store, tmp_path / "copy", progress=lambda *_: (tmp_path / "copy").touch())
    assert (tmp_path / "copy").read_bytes() == b""


def test_where_there_are_no_links_a_backup_is_moved(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def no_links(*_: object) -> None:
        raise PermissionError(1, "not here")

    monkeypatch.setattr("os.link", no_links)
    assert backup(store, tmp_path / "copy") == {}
    assert (tmp_path / "copy").is_file()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE payloads SET payload = salt WHERE (place & 1023) = 6",
        "DELETE FROM entries WHERE seq = 6",
        "DELETE FROM entries WHERE seq = 10",
        "UPDATE agents SET head_hash = hash FROM entries WHERE seq = 3",
    ],
)
def test_no_backup_is_made_of_a_damaged_log(store: Store, tmp_path: Path, statement: str):
    fill(store, count=10)
    tamper(store, statement)
    with pytest.raises(CorruptState):
        backup(store, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_backup_that_is_not_as_it_was_written_is_not_kept(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fill(store, count=3)
    with monkeypatch.context() as patch:
        wrong = Verified(START, 0, 0, (Problem("gap", 1, "nothing there"),))
        patch.setattr(maintenance, "verify", lambda *args, **kwargs: wrong)
        with pytest.raises(CorruptState, match="nothing there"):
            backup(store, tmp_path / "copy")
    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "_size", lambda path: 1)
        with pytest.raises(StoreFailed, match="in full"):
            backup(store, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_damaged_snapshot_is_not_copied(opener: Opener, tmp_path: Path):
    store = filled(opener())
    tamper(store, "UPDATE snapshots SET blob = hash WHERE seq = 8")
    backup(store, tmp_path / "copy")
    copy = SqliteStore(tmp_path / "copy")
    assert copy.snapshots("a") == [3]
    copy.close()


def test_only_an_empty_store_takes_a_backup(opener: Opener, tmp_path: Path):
    store = filled(opener())
    backup(store, tmp_path / "copy")
    with pytest.raises(NotPossible, match="empty store"):
        restore(tmp_path / "copy", store)
    with pytest.raises(NotPossible, match="no backup"):
        restore(tmp_path / "nothing", opener("new"))


def test_a_damaged_backup_leaves_the_store_empty(opener: Opener, tmp_path: Path):
    store = filled(opener())
    backup(store, tmp_path / "copy")
    connection = sqlite3.connect(tmp_path / "copy")
    connection.execute("UPDATE entries SET kind = 'x' WHERE agent = 2 AND seq = 3")
    connection.commit()
    connection.close()
    target = opener("target")
    with pytest.raises(CorruptState, match="'b'"):
        restore(tmp_path / "copy", target)
    assert target.agents() == []
    (tmp_path / "junk").write_bytes(b"no database at all" * 100)
    with pytest.raises(CorruptState, match="not a database"):
        restore(tmp_path / "junk", target)


def test_a_database_in_use_is_no_backup(tmp_path: Path):
    store = filled(SqliteStore(tmp_path / "live.db"))
    target = SqliteStore(tmp_path / "target.db")
    with pytest.raises(NotPossible, match="in use"):
        restore(tmp_path / "live.db", target)
    store.close()
    target.close()


def test_what_is_no_backup_is_seen_before_a_store_is_made(tmp_path: Path):
    store = filled(SqliteStore(tmp_path / "live.db"))
    backup(store, tmp_path / "copy #1?")
    with pytest.raises(NotPossible, match="in use"):
        check_backup(tmp_path / "live.db")
    store.close()
    check_backup(tmp_path / "copy #1?")
    with pytest.raises(NotPossible, match="no backup"):
        check_backup(tmp_path / "nothing")
    (tmp_path / "empty").touch()
    (tmp_path / "junk").write_bytes(b"no database at all" * 100)
    with sqlite3.connect(tmp_path / "other") as connection:
        connection.execute("CREATE TABLE people (name text)")
    connection.close()
    for name in ("empty", "junk", "other"):
        with pytest.raises(CorruptState, match="not a backup of bridle"):
            check_backup(tmp_path / name)
    with sqlite3.connect(tmp_path / "copy #1?") as connection:
        connection.execute("INSERT INTO migrations VALUES (9999, 'later', '')")
    connection.close()
    with pytest.raises(CorruptState, match="newer bridle"):
        check_backup(tmp_path / "copy #1?")


def test_a_fork_is_the_same_log_up_to_there(store: Store):
    filled(store)
    head = fork(store, "a", 9, "try", created=5.0)
    assert store.read("try") == store.read("a")[:9]
    assert store.names("try", 0, 100) == store.names("a", 0, 9)
    assert verify(store, "try").problems == ()
    row = next(row for row in store.agents() if row.name == "try")
    assert row == ("try", head, 5.0, "a@9")
    assert store.snapshots("try") == [8]
    # Both go on, each its own way.
    first, second = fill(store, "try", 2, create=False), fill(store, "a", 2, create=False)
    assert (first.seq, second.seq) == (11, 12)
    with store.transaction() as transaction:
        transaction.erase("a", [1])
    assert store.read("try")[0].payload is not None
    assert verify(store, "a").problems == ()


def test_a_fork_of_nothing_is_empty(store: Store):
    filled(store)
    assert fork(store, "a", 0, "try") == START
    assert store.read("try") == []


def test_a_fork_needs_a_log_a_version_and_a_new_name(store: Store):
    filled(store)
    with pytest.raises(UnknownId, match="nobody"):
        fork(store, "nobody", 1, "try")
    for at in (-1, 11):
        with pytest.raises(InvalidValue, match="from 0 to 10"):
            fork(store, "a", at, "try")
    with pytest.raises(Duplicate, match="'b'"):
        fork(store, "a", 3, "b")
    assert [row.name for row in store.agents()] == ["a", "b", "empty"]
    assert store.head("b") is not None

from __future__ import annotations

import multiprocessing
import sqlite3
from concurrent.futures import ProcessPoolExecutor
from importlib.resources import files
from pathlib import Path

import pytest

from bridle.errors import CorruptState, StoreFailed
from bridle.store.log import Store
from bridle.store.migrations import Migration, due, migrations
from bridle.store.postgres import PostgresStore
from bridle.store.sql import SqlStore
from bridle.store.sqlite import SqliteStore, statements
from tests.store.conftest import Opener
from tests.store.filling import fill, seq_of
from tests.store.postgres_server import PostgresServer


def steps_and(tmp_path: Path, database: str, text: str) -> Path:
    """Give a folder with all migrations that there are, and one more."""
    folder = tmp_path / "steps"
    folder.mkdir()
    source = files("bridle.store").joinpath("migrations", database)
    for file in source.iterdir():
        (folder / file.name).write_text(file.read_text())
    (folder / f"{len(list(folder.iterdir())) + 1:04}_more.sql").write_text(text)
    (folder / "README").write_text("not a step")
    return folder


def again(store: Store, folder: Path) -> SqlStore:
    if isinstance(store, SqliteStore):
        return SqliteStore(store.path, library=store._file.library, migrations=folder)
    assert isinstance(store, PostgresStore)
    link = store._link
    url = f"postgresql://bridle@/postgres?host={link.parameters['host']}"
    return PostgresStore(url, schema=link.schema, migrations=folder)


def kind_of(store: Store) -> str:
    return "sqlite" if isinstance(store, SqliteStore) else "postgres"


MORE = """
-- Another form; with a ; in a comment.
CREATE TABLE more (x integer);
INSERT INTO more VALUES (1);
UPDATE agents SET origin = 'changed; by a step';
"""


def test_an_old_database_opens_in_a_new_version(store: Store, opener: Opener, tmp_path: Path):
    fill(store, count=3)
    store.close()
    newer = again(store, steps_and(tmp_path, kind_of(store), MORE))
    assert newer.agents()[0].origin == "changed; by a step"
    assert fill(newer, count=1, create=False).seq == 4
    newer.close()
    # Once is enough.
    newer = again(store, tmp_path / "steps")
    with newer._transaction() as transaction:
        assert transaction._connection.execute("SELECT count(*) FROM more") == [(1,)]
    newer.close()
    with pytest.raises(CorruptState, match="newer bridle"):
        opener()


def test_a_step_that_fails_leaves_nothing(store: Store, opener: Opener, tmp_path: Path):
    fill(store, count=3)
    store.close()
    folder = steps_and(tmp_path, kind_of(store), MORE + "INSERT INTO nowhere VALUES (1);")
    with pytest.raises(StoreFailed, match="nowhere"):
        again(store, folder)
    old = opener()
    assert old.agents()[0].origin is None
    assert seq_of(old) == 3


def test_other_statements_under_the_same_number_are_refused(store: Store, tmp_path: Path):
    folder = steps_and(tmp_path, kind_of(store), MORE)
    first = next(folder.glob("0001_*"))
    first.write_text(first.read_text() + "-- changed\n")
    with pytest.raises(CorruptState, match="other statements"):
        again(store, folder)


def test_the_ends_of_lines_do_not_count(tmp_path: Path):
    (tmp_path / "0001_a.sql").write_bytes(b"SELECT 1;\r\nSELECT 2;\r\n")
    [step] = migrations("sqlite", tmp_path)
    (tmp_path / "0001_a.sql").write_bytes(b"SELECT 1;\nSELECT 2;\n")
    assert migrations("sqlite", tmp_path) == [step]
    assert list(statements(step.text)) == ["SELECT 1;\n", "SELECT 2;\n"]


def test_steps_without_a_gap(tmp_path: Path):
    (tmp_path / "0001_a.sql").touch()
    (tmp_path / "0003_c.sql").touch()
    with pytest.raises(CorruptState, match="numbered"):
        migrations("sqlite", tmp_path)
    step = Migration(1, "a", "", "x")
    assert due({}, [step], "it") == [step]
    assert due({1: "x"}, [step], "it") == []


def _open_sqlite(path: Path) -> int:
    store = SqliteStore(path)
    count = len(store.agents())
    store.close()
    return count


def _open_postgres(url: str) -> int:
    store = PostgresStore(url, schema="at_once")
    count = len(store.agents())
    store.close()
    return count


def _processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn"))


def test_processes_that_open_a_new_file_at_once(tmp_path: Path):
    with _processes() as pool:
        assert (
            list(pool.map(_open_sqlite, [tmp_path / f"{i // 4}.db" for i in range(24)])) == [0] * 24
        )
    connection = sqlite3.connect(tmp_path / "0.db")
    assert connection.execute("SELECT count(*) FROM migrations").fetchall() == [
        (len(migrations("sqlite")),)
    ]
    connection.close()


def test_processes_that_open_a_new_schema_at_once(postgres: PostgresServer):
    with _processes() as pool:
        assert list(pool.map(_open_postgres, [postgres.url] * 8)) == [0] * 8

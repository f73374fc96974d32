"""The commands on a store: each says what it did, and what it did not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from bridle.cli import app
from bridle.store.sqlite import SqliteStore
from bridle.store.writing import Writer
from tests.store.lives import begin, live


@pytest.fixture
def db(tmp_path: Path) -> str:
    path = tmp_path / "logs.db"
    store = SqliteStore(path)
    writer = Writer(store, clock=lambda: 100.0)
    begin(writer)
    live(writer, 6)
    writer.close()
    store.close()
    return str(path)


def run(*words: str) -> Any:
    return CliRunner().invoke(app, words)


def head_of(db: str) -> str:
    return str(run("agents", "--db", db).output.split()[1])


def test_a_whole_log_is_verified_and_replayed(db):
    found = run("verify", "--db", db)
    assert found.exit_code == 0 and "whole" in found.output
    head = head_of(db)
    assert re.fullmatch(r"\d+:[0-9a-f]{64}", head) and head in found.output
    assert run("verify", "movies", "--db", db, "--expect", head).exit_code == 0
    seq = int(head.partition(":")[0])
    cut = run("verify", "movies", "--db", db, "--expect", f"{seq + 3}:{'0' * 64}")
    assert cut.exit_code == 1 and "DAMAGED" in cut.output
    other = run("verify", "movies", "--db", db, "--expect", f"{seq}:{'0' * 64}")
    assert other.exit_code == 1
    again = run("replay", "movies", "--db", db)
    assert again.exit_code == 0 and "the same to the last bit" in again.output
    for words in (
        ["verify", "nobody"],
        ["replay", "nobody"],
        ["verify", "movies", "--expect", "x"],
    ):
        wrong = run(*words, "--db", db)
        assert wrong.exit_code == 2 and "Error: " in wrong.output
    assert run("verify", "--db", db, "--expect", head).exit_code == 2


def test_a_log_that_was_changed_is_seen(db):
    import sqlite3

    with sqlite3.connect(db) as connection:
        connection.execute("UPDATE payloads SET payload = replace(payload, 'Ann', 'Eve')")
    found = run("verify", "--db", db)
    assert found.exit_code == 1 and "DAMAGED" in found.output
    assert run("replay", "movies", "--db", db).exit_code == 0  # the choices are still the same


def test_a_backup_comes_back(db, tmp_path):
    saved, fresh = str(tmp_path / "saved.db"), str(tmp_path / "fresh.db")
    head = head_of(db)
    made = run("backup", saved, "--db", db)
    assert made.exit_code == 0 and head in made.output
    assert run("backup", saved, "--db", db).exit_code == 2  # never over another file
    back = run("restore", saved, "--db", fresh)
    assert back.exit_code == 0 and head in back.output and head_of(fresh) == head
    assert run("restore", saved, "--db", fresh).exit_code == 2  # only into an empty store
    assert run("verify", "--db", fresh).exit_code == 0


def test_a_fork_begins_where_it_is_told(db):
    made = run("fork", "movies", "--to", "try", "--at", "5", "--db", db)
    assert made.exit_code == 0 and made.output.startswith("try  5:")
    assert "(from movies@5)" in run("agents", "--db", db).output
    assert run("fork", "movies", "--to", "all", "--db", db).exit_code == 0
    assert run("fork", "movies", "--to", "try", "--db", db).exit_code == 2
    assert run("fork", "movies", "--to", "more", "--at", "9999", "--db", db).exit_code == 2


def test_a_log_is_a_table_in_one_call(db, tmp_path):
    path = tmp_path / "log.parquet"
    made = run("export", "movies", str(path), "--db", db)
    assert made.exit_code == 0
    table = pl.read_parquet(path)
    assert len(table) == int(head_of(db).partition(":")[0]) and table["kind"][0] == "Created"


def test_what_is_erased_is_gone_and_the_log_still_whole(db):
    assert run("erase", "movies", "--decision", "d1", "--db", db).exit_code == 1  # not confirmed
    done = run("erase", "movies", "--decision", "d1", "--note", "asked", "--yes", "--db", db)
    assert done.exit_code == 0
    assert "of them erased" in run("verify", "--db", db).output
    assert run("replay", "movies", "--db", db).exit_code == 0
    assert run("erase", "movies", "--decision", "none", "--yes", "--db", db).exit_code == 2


def test_a_token_is_printed_once_and_kept_as_a_hash(db):
    made = run("token", "teacher", "--agent", "movies", "--days", "3", "--note", "Ann", "--db", db)
    assert made.exit_code == 0
    assert re.fullmatch(r"brd_[a-z0-9]{12}_[A-Za-z0-9_-]{43}\n", made.output)
    assert made.output.strip().rpartition("_")[2].encode() not in Path(db).read_bytes()
    assert run("token", "king", "--db", db).exit_code == 2
    assert run("token", "agent", "--agent", "nobody", "--db", db).exit_code == 2

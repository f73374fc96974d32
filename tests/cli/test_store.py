"""The commands on a store: each says what it did, and what it did not."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from bridle.cli import app
from bridle.cli import store as commands
from bridle.store.sqlite import SqliteStore
from bridle.store.writer import Writer
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
    secret = made.output.strip()[len("brd_") + 12 + 1 :]  # it may hold underscores itself
    assert len(secret) == 43 and secret.encode() not in Path(db).read_bytes()
    assert run("token", "king", "--db", db).exit_code == 2
    assert run("token", "agent", "--agent", "nobody", "--db", db).exit_code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["agents"],
        ["verify"],
        ["verify", "movies"],
        ["replay", "movies"],
        ["backup", "copy.db"],
        ["export", "movies", "out.parquet"],
        ["fork", "movies", "--to", "try"],
        ["erase", "movies", "--decision", "d1"],
        ["erase", "movies", "--decision", "d1", "--yes"],
        ["token", "agent", "--agent", "movies"],
    ],
)
def test_a_mistyped_store_is_an_error_and_not_a_new_one(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for db in ("typo.db", "sqlite:///typo.db"):
        wrong = run(*words, "--db", db)
        assert wrong.exit_code == 2
        assert "Error: There is no store at 'typo.db'. " in wrong.output
    assert list(tmp_path.iterdir()) == []


def test_a_first_token_makes_the_store_which_then_has_no_agents(tmp_path):
    db = tmp_path / "new.db"
    assert run("token", "admin", "--db", str(db)).exit_code == 0 and db.exists()
    for command in ("agents", "verify"):
        found = run(command, "--db", str(db))
        assert found.exit_code == 0 and "The store has no agents yet." in found.output


def test_a_restore_of_nothing_makes_no_store(tmp_path):
    (tmp_path / "junk").write_text("no database" * 100)
    for name in ("missing.db", "junk"):
        refused = run("restore", str(tmp_path / name), "--db", str(tmp_path / "new.db"))
        assert refused.exit_code == 2 and "Error: " in refused.output
    assert [path.name for path in tmp_path.iterdir()] == ["junk"]


@pytest.mark.parametrize("days", ["nan", "inf", "-inf", "-1", "0", "36500.5", "1e300"])
def test_a_token_is_good_for_a_time_that_can_be(days, tmp_path):
    db = tmp_path / "new.db"
    refused = run("token", "agent", "--days", days, "--db", str(db))
    assert refused.exit_code == 2 and "'--days'" in refused.output
    assert not db.exists()


def test_the_longest_time_of_a_token(db):
    assert run("token", "agent", "--days", "36500", "--db", db).exit_code == 0


NOTES = ["", "Ann’s ✓", "x" * 200, "x" * 201, "two\nlines", "end\n", "\x1b[31m", "\x7f", "\udc80"]


@pytest.mark.parametrize("note", NOTES)
def test_a_note_is_taken_where_http_takes_it(note, db):
    pydantic = pytest.importorskip("pydantic", reason="the serve extra is not installed")
    from bridle.api.requests import Grant

    try:
        Grant(role="agent", note=note)
        taken = True
    except pydantic.ValidationError:
        taken = False
    made = run("token", "agent", "--note", note, "--db", db)
    assert made.exit_code == (0 if taken else 2)
    assert taken or "'--note'" in made.output
    assert taken == (note in NOTES[:3])


def test_a_fork_has_a_name_that_http_can_say(db):
    pytest.importorskip("pydantic", reason="the serve extra is not installed")
    from bridle.api.base import AGENT_NAME

    assert f"^{commands.NAME.pattern}$" == AGENT_NAME
    for name in ("", "Try", "a b", "-a", ".a", "a/b", "a\n", "é", "a" * 101):
        refused = run("fork", "movies", f"--to={name}", "--db", db)
        assert refused.exit_code == 2 and "'--to'" in refused.output
    for at in ("0", "-1"):
        refused = run("fork", "movies", "--to", "try", "--at", at, "--db", db)
        assert refused.exit_code == 2 and "--at" in refused.output
    assert len(run("agents", "--db", db).output.splitlines()) == 1
    assert run("fork", "movies", "--to", "a" * 100, "--at", "1", "--db", db).exit_code == 0


def test_a_table_is_not_written_as_what_it_is_not(db, tmp_path):
    refused = run("export", "movies", str(tmp_path / "out.csv"), "--db", db)
    assert refused.exit_code == 2 and "name it 'out.parquet'" in refused.output
    assert not (tmp_path / "out.csv").exists()


def test_a_port_that_is_taken_is_said_before_a_store_is_made(tmp_path):
    pytest.importorskip("uvicorn", reason="the serve extra is not installed")
    db = tmp_path / "new.db"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for more in ([], ["--demo"]):
            refused = run("serve", "--port", port, "--db", str(db), *more)
            assert refused.exit_code == 2
            assert f"Port {port} of 127.0.0.1 is taken." in refused.output
            assert "--port 0" in refused.output and "token" not in refused.output
    # An address that RFC 5737 gives to nobody, and a name that is too long to be one.
    for host in ("192.0.2.1", "a" * 70):
        refused = run("serve", "--host", host, "--db", str(db))
        assert refused.exit_code == 2 and "--host" in refused.output
    assert not db.exists()

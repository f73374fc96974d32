from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bridle.errors import InvalidValue, NotPossible, StoreFailed
from bridle.store.opening import open_store
from bridle.store.postgres import PostgresStore
from bridle.store.sqlite import SqliteStore
from tests.store.filling import fill, seq_of
from tests.store.postgres_server import PostgresServer


def test_a_file_has_many_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    store = open_store("a b#?%20.db")
    fill(store, count=2)
    store.close()
    for address in (
        Path("a b#?%20.db"),
        "sqlite:///a b#?%20.db",
        f"sqlite:///{tmp_path}/a b#?%20.db",
        f"{tmp_path}/a b#?%20.db",
    ):
        store = open_store(address)
        assert isinstance(store, SqliteStore)
        assert seq_of(store) == 2
        store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a b#?%20.db"]


def test_a_mistyped_file_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for address in (Path("typo.db"), "typo.db", "sqlite:///typo.db", "missing/typo.db"):
        with pytest.raises(NotPossible, match=r"There is no store at '\S*typo\.db'\. "):
            open_store(address, create=False)
    assert list(tmp_path.iterdir()) == []
    open_store("new.db").close()
    open_store("new.db", create=False).close()
    with pytest.raises(StoreFailed, match="folder"):
        open_store(tmp_path, create=False)


def test_without_psycopg_the_remedy_is_no_stranger_s_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(NotPossible, match=r"pip install '\.\[postgres\]' in bridle's folder"):
        open_store("postgresql://localhost/x")


def test_postgres_by_its_address(postgres: PostgresServer):
    for scheme in ("postgresql", "postgres"):
        store = open_store(postgres.url.replace("postgresql", scheme, 1), schema="opened")
        assert isinstance(store, PostgresStore)
        assert store.agents() == []
        store.close()


@pytest.mark.parametrize(
    "address", ["", "sqlite://", "sqlite:///", "sqlite://a.db", "mysql://me:secret@host/x"]
)
def test_other_addresses_are_refused(address: str):
    with pytest.raises(InvalidValue, match="address") as caught:
        open_store(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:secret@localhost:1/x",
        "postgresql://me:secret@localhost:port/x",
        "postgresql://me:secret@/x?host=/nowhere",
        "postgresql://me:secret%zz@localhost/x",
        "postgresql://me:the/secret@localhost/x",
        "postgresql://me:secret/the@localhost/x",
        "postgresql://me:the@secret@localhost/x",
        "postgresql://me:the?secret@localhost/x",
        "postgresql://localhost:1/x?password=secret",
    ],
)
def test_no_message_has_the_password(address: str):
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with pytest.raises((InvalidValue, StoreFailed)) as caught:
        open_store(address)
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(vars(caught.value))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None

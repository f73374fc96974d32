"""Stores of every kind, for tests that hold for all of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from bridle.store.log import Store
from bridle.store.sqlite import SqliteStore
from tests.store.postgres_server import NoPostgres, PostgresServer

Opener: TypeAlias = Callable[..., Store]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    try:
        server = PostgresServer()
    except NoPostgres as reason:
        pytest.skip(str(reason))
    yield server
    server.close()


_schemas = itertools.count(1)


@pytest.fixture(params=["sqlite3", "apsw", "postgres"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Open stores by a name: the same name, the same store. All are closed at the end."""
    opened: list[Store] = []
    schemas: dict[str, str] = {}

    def open_one(name: str = "main") -> Store:
        store: Store
        if request.param == "postgres":
            from bridle.store.postgres import PostgresStore

            server = request.getfixturevalue("postgres")
            schema = schemas.setdefault(name, f"test_{next(_schemas)}")
            store = PostgresStore(server.url, schema=schema)
        else:
            if request.param == "apsw":
                pytest.importorskip("apsw", reason="apsw is not installed")
            store = SqliteStore(tmp_path / f"{name}.db", library=request.param)
        opened.append(store)
        return store

    open_one.kind = request.param  # type: ignore[attr-defined]
    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Opener) -> Store:
    return opener()

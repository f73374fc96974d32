from __future__ import annotations

import itertools
import sys
import threading

import pytest

from bridle.errors import InvalidValue, NotPossible, StoreFailed
from bridle.store import postgres as postgreslink
from bridle.store.maintenance import verify
from bridle.store.postgres import ByteaArray, Int8Array, PostgresStore, TextArray
from tests.store.filling import fill, new, seq_of
from tests.store.postgres_server import PostgresServer

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

_schemas = itertools.count(1)


@pytest.fixture
def store(postgres: PostgresServer):
    store = PostgresStore(postgres.url, schema=f"own_{next(_schemas)}")
    fill(store, count=3)
    yield store
    store.close()


def kill(postgres: PostgresServer, store: PostgresStore) -> None:
    """Kill the server's process behind the writer, and wait for its end."""
    assert store._writer is not None
    pid = store._writer._connection.info.backend_pid  # type: ignore[attr-defined]
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 60000)", (pid,))


def test_it_connects_again_after_a_restart(postgres: PostgresServer, store: PostgresStore):
    assert seq_of(store) == 3
    for mode in ("fast", "immediate"):
        postgres.restart(mode)
        assert seq_of(store) == 3
        postgres.restart(mode)
        fill(store, f"agent of {mode}", 2)
    assert fill(store, count=1, create=False).seq == 4


def test_while_the_server_is_down_it_says_so(postgres: PostgresServer, store: PostgresStore):
    seq_of(store)
    postgres.stop()
    try:
        with pytest.raises(StoreFailed, match="connects again") as caught:
            store.head("a")
        assert not caught.value.unknown
        with pytest.raises(StoreFailed, match="connects again") as caught:
            fill(store, count=1, create=False)
        assert not caught.value.unknown
    finally:
        postgres.start()
    assert fill(store, count=1, create=False).seq == 4


def test_what_is_lost_before_the_commit_is_known_not_to_stand(
    postgres: PostgresServer, store: PostgresStore
):
    with pytest.raises(StoreFailed) as caught, store.transaction() as transaction:
        transaction.lock(["a"])
        transaction.append("a", [new(4)])
        kill(postgres, store)
        transaction.append("a", [new(5)])
    assert not caught.value.unknown
    assert seq_of(store) == 3
    assert fill(store, count=1, create=False).seq == 4


def test_what_is_lost_in_the_commit_is_unknown(postgres: PostgresServer, store: PostgresStore):
    with pytest.raises(StoreFailed) as caught, store.transaction() as transaction:
        transaction.lock(["a"])
        transaction.append("a", [new(4)])
        kill(postgres, store)
    assert caught.value.unknown
    assert seq_of(store) == 3
    assert fill(store, count=1, create=False).seq == 4
    assert verify(store, "a").problems == ()


def test_a_transaction_that_the_server_gave_up_is_not_said_to_be_committed(store: PostgresStore):
    refused = pytest.raises(StoreFailed, match="rolled back")
    with refused as caught, store.transaction() as transaction:
        transaction.lock(["a"])
        transaction.append("a", [new(4)])
        # Past the guards that would have seen it.
        with pytest.raises(Exception, match="nowhere"):
            transaction._connection.execute("SELECT * FROM nowhere")  # type: ignore[attr-defined]
    assert not caught.value.unknown
    assert seq_of(store) == 3


def test_nothing_waits_for_ever(store: PostgresStore):
    connection = store._connect()
    settings = {
        name: connection.execute(f"SHOW {name}")[0][0]
        for name in (
            "statement_timeout",
            "lock_timeout",
            "idle_in_transaction_session_timeout",
            "synchronous_commit",
        )
    }
    connection.close()
    assert settings == {
        "statement_timeout": "30s",
        "lock_timeout": "10s",
        "idle_in_transaction_session_timeout": "1min",
        "synchronous_commit": "on",
    }
    assert store._link.parameters["connect_timeout"] == 10


def test_a_head_that_another_process_holds_is_waited_for(
    postgres: PostgresServer, store: PostgresStore
):
    other = PostgresStore(postgres.url, schema=store._link.schema)
    with other.transaction() as transaction:
        transaction.lock(["a"])
        refused = pytest.raises(StoreFailed, match="Another process")
        with refused as caught, store.transaction() as waiting:
            waiting._connection.execute("SET LOCAL lock_timeout = '10ms'")  # type: ignore[attr-defined]
            waiting.lock(["a"])
        assert not caught.value.unknown
        transaction.append("a", [new(4)])
    other.close()
    assert seq_of(store) == 4


def test_of_two_that_create_the_same_agent_one_does(postgres: PostgresServer, store: PostgresStore):
    other = PostgresStore(postgres.url, schema=store._link.schema)
    said: list[str] = []

    def create() -> None:
        try:
            fill(other, "new", 1)
        except Exception as error:
            said.append(type(error).__name__)

    thread = threading.Thread(target=create)
    with store.transaction() as transaction:
        transaction.create("new", 0.0)
        thread.start()
        # The other has found no such agent and waits for us to end.
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while thread.is_alive() and not connection.execute(waiting).fetchall():
                pass
    thread.join()
    other.close()
    assert said == ["Duplicate"]
    assert seq_of(store, "new") == 0


def test_a_server_that_answers_before_it_is_on_disk_is_told_not_to(postgres: PostgresServer):
    store = PostgresStore(
        f"{postgres.url}&options=-c%20synchronous_commit%3Doff", schema="not_lazy"
    )
    connection = store._connect()
    assert connection.execute("SHOW synchronous_commit") == [("on",)]
    connection.close()
    store.close()


def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg.conninfo", None)
    with pytest.raises(NotPossible, match="psycopg"):
        PostgresStore("postgresql:///x")


def test_a_setting_that_the_server_refuses_leaves_no_connection(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(postgreslink, "_LOCK", "no number of ")
    with pytest.raises(StoreFailed, match="lock_timeout"):
        PostgresStore(postgres.url, schema="refused")


def test_many_statements_that_fail_are_said(store: PostgresStore):
    with pytest.raises(StoreFailed, match="NUL"):
        store.drop_snapshots("a\0", [1])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([b"", b"abc", None, bytes(range(256))], ByteaArray),
        (["", "ä", "x" * 1000], TextArray),
        ([0, -1, 2**63 - 1, -(2**63)], Int8Array),
        ([], ByteaArray),
        ([], TextArray),
        ([], Int8Array),
    ],
)
def test_packed_arrays_are_those_that_were_packed(store: PostgresStore, values: list, kind: type):
    cast = {ByteaArray: "bytea", TextArray: "text", Int8Array: "bigint"}[kind]
    connection = store._connect()
    assert connection.execute(f"SELECT ?::{cast}[]", (kind(values),)) == [(values,)]
    connection.close()


@pytest.mark.parametrize("schema", ["", "Upper", "a b", 'a"; DROP', "1a", "a" * 64])
def test_a_schema_has_a_plain_name(schema: str):
    with pytest.raises(InvalidValue, match="schema"):
        PostgresStore("postgresql:///x", schema=schema)

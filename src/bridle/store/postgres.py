"""Logs in a PostgreSQL database: connections, how the schema is made and migrated, and the store.

Columns of an append are packed here as PostgreSQL takes arrays (`_Packed`): psycopg packs lists
item by item in Python, which costs an append half of its time.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bridle.errors import InvalidValue, NotPossible
from bridle.store import sql
from bridle.store.log import Entry, Head
from bridle.store.migrations import migrate, migrations
from bridle.store.sql import (
    Connection,
    Kind,
    NameRow,
    Row,
    SqlError,
    SqlStore,
    SqlTransaction,
    failed,
)

if TYPE_CHECKING:
    import psycopg

__all__ = [
    "ByteaArray",
    "Int8Array",
    "PostgresLink",
    "PostgresStore",
    "TextArray",
    "link_to",
    "register",
]


_HEAD = struct.Struct("!iIiii")  # dimensions, whether there are nulls, type, length, first index
_NULL = struct.pack("!i", -1)
_LENGTH = struct.Struct("!i").pack
_INT8 = struct.Struct("!iq").pack


class _Packed:
    """An array in the binary form of the protocol. Each kind of it has a type number."""

    __slots__ = ("data",)
    oid = 0

    def _pack(self, parts: list[bytes], count: int, nulls: bool) -> None:
        self.data = _HEAD.pack(1, nulls, self.oid, count, 1) + b"".join(parts)


class ByteaArray(_Packed):
    """A column of bytes, some of which may be None."""

    oid = 17

    def __init__(self, values: Iterable[bytes | None]) -> None:
        parts: list[bytes] = []
        count, nulls = 0, False
        for value in values:
            count += 1
            if value is None:
                parts.append(_NULL)
                nulls = True
            else:
                parts.append(_LENGTH(len(value)))
                parts.append(value)
        self._pack(parts, count, nulls)


class TextArray(_Packed):
    """A column of words."""

    oid = 25

    def __init__(self, values: Iterable[str]) -> None:
        parts: list[bytes] = []
        for value in values:
            data = value.encode()
            parts.append(_LENGTH(len(data)))
            parts.append(data)
        self._pack(parts, len(parts) // 2, False)


class Int8Array(_Packed):
    """A column of whole numbers."""

    oid = 20

    def __init__(self, values: Iterable[int]) -> None:
        parts = [_INT8(8, value) for value in values]
        self._pack(parts, len(parts), False)


def register(connection: psycopg.Connection[Any]) -> None:
    """Register these arrays as values of a connection."""
    import psycopg
    from psycopg.adapt import Dumper

    for kind, of_array in ((ByteaArray, 1001), (TextArray, 1009), (Int8Array, 1016)):

        class PackedDumper(Dumper):
            format = psycopg.pq.Format.BINARY
            oid = of_array

            def dump(self, value: _Packed) -> bytes:
                return value.data

        connection.adapters.register_dumper(kind, PackedDumper)


# --- Connections to PostgreSQL that serve the calls of the seam. Nothing in them waits for ever


_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
# Where the server, the network or another client hangs: seconds until we give up.
_CONNECT, _STATEMENT, _LOCK, _IDLE, _MIGRATION = 10, 30, 10, 60, 600
_DEFAULTS: dict[str, object] = {
    "connect_timeout": _CONNECT,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 1000 * _STATEMENT,
    "application_name": "bridle",
}
# A key of our own for the lock that migrations take.
_MIGRATING = 0x627264
# By the first two characters of SQLSTATE, or by all five.
_KINDS: dict[str, Kind] = {
    "08": "lost",
    "23": "constraint",
    "40": "busy",
    "53": "io",
    "53100": "full",
    "53300": "lost",  # too many connections
    "55": "busy",
    "57": "lost",
    "57014": "busy",  # a statement that took too long
    "58": "io",
    "25006": "readonly",
    "28": "unopened",
    "3D": "unopened",
    "42501": "readonly",
    "XX001": "corrupt",
    "XX002": "corrupt",
}


class PostgresLink(NamedTuple):
    """Where a database is and how connections to it are made."""

    parameters: Mapping[str, Any]
    schema: str
    migrations: Path | None = None

    @property
    def where(self) -> str:
        """What to call the database in a message: never with its password."""
        host = self.parameters.get("host") or self.parameters.get("hostaddr") or "localhost"
        return f"the PostgreSQL database {self.parameters.get('dbname', '')!r} at {host}"

    def connect(self) -> Connection:
        """Open a connection with the settings that all of them have, or raise `SqlError`."""
        import psycopg

        try:
            raw = psycopg.connect(**self.parameters, autocommit=True)
        except psycopg.Error as error:
            text = str(error)
            password = self.parameters.get("password")
            if password:
                text = text.replace(str(password), "…")
            raise SqlError(_kind(error, "lost"), _one_line(text)) from None
        register(raw)
        connection = _Postgres(raw)
        try:
            connection.execute(
                "SELECT set_config(name, value, false) FROM (VALUES ('search_path', ?), "
                f"('statement_timeout', '{_STATEMENT}s'), ('lock_timeout', '{_LOCK}s'), "
                f"('idle_in_transaction_session_timeout', '{_IDLE}s')) AS settings (name, value)",
                (self.schema,),
            )
            # A server may be set to answer before a commit is on disk; we may not.
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def prepare(self) -> None:
        """Bring the database to this version's form."""
        known = migrations("postgres", self.migrations)
        try:
            connection = self.connect()
            try:
                migrate(connection, known, self.where, lambda: self._begin(connection))
            finally:
                connection.close()
        except SqlError as error:
            raise failed(error, "open", self.where) from None

    def _begin(self, connection: Connection) -> bool:
        connection.execute("BEGIN")
        connection.execute(f"SET LOCAL statement_timeout = '{_MIGRATION}s'")
        connection.execute(f"SET LOCAL lock_timeout = '{_MIGRATION}s'")
        connection.execute("SELECT pg_advisory_xact_lock(?)", (_MIGRATING,))
        # Asked first, since making what is there needs rights that a plain user may not have.
        if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (self.schema,)):
            connection.execute(f"CREATE SCHEMA {self.schema}")
        tables = "SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'migrations'"
        return bool(connection.execute(tables, (self.schema,)))


def link_to(url: str, schema: str = "bridle", migrations: Path | None = None) -> PostgresLink:
    """Read the address of a database, without connecting."""
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise NotPossible(
            "PostgreSQL needs psycopg: pip install '.[postgres]' in bridle's folder."
        ) from None
    if not _SCHEMA.fullmatch(schema):
        wanted = "a name of lower-case letters, digits and _, up to 63 characters"
        raise InvalidValue("schema", "PostgresStore", wanted, schema)
    # What psycopg says of an address, and the address itself, may hold the password.
    wanted = "postgresql://USER:PASSWORD@HOST:PORT/NAME"
    remedy = "Signs such as @ and / in a password are written %40 and %2F."
    wrong = InvalidValue("url", "PostgresStore", wanted, "postgresql://…", remedy)
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        raise wrong from None
    # Where such a sign was not written so, the rest of the password stands in one of these.
    parts = [str(given.get(part, "")) for part in ("dbname", "host", "port")]
    if any("@" in part[1:] for part in parts) or not set(parts[2]) <= set("0123456789,"):
        raise wrong
    return PostgresLink({**_DEFAULTS, **given}, schema, migrations)


class _Postgres:
    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        import psycopg

        self._error = psycopg.Error
        self._connection = connection
        self._idle = psycopg.pq.TransactionStatus.IDLE
        self._cursor = connection.cursor(binary=True)

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        try:
            cursor = self._cursor.execute(_translated(statement), tuple(values) or None)
            rows = cursor.fetchall() if cursor.description else []
            said = cursor.statusmessage
        except (self._error, UnicodeEncodeError) as error:
            raise self._failure(error) from None
        if statement == "COMMIT" and said != "COMMIT":
            # A transaction in which a statement failed ends so, without an error.
            raise SqlError("rolled back", "the server rolled back")
        return rows

    def executemany(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        try:
            self._cursor.executemany(_translated(statement), rows)
        except (self._error, UnicodeEncodeError) as error:
            raise self._failure(error) from None

    def script(self, text: str) -> None:
        try:
            # As text: only so a server takes several statements at once.
            self._connection.execute(text.encode())
        except self._error as error:
            raise self._failure(error) from None

    def in_transaction(self) -> bool:
        return self._connection.info.transaction_status != self._idle

    def close(self) -> None:
        with contextlib.suppress(self._error):
            self._connection.close()

    def _failure(self, error: Exception) -> SqlError:
        if self._connection.closed:
            return SqlError("lost", _one_line(str(error)))
        return SqlError(_kind(error, "other"), _one_line(str(error)))


def _translated(statement: str) -> bytes:
    # The statements of the store are written for both kinds of database, and have no % in them.
    return statement.replace("?", "%s").encode()


def _kind(error: Exception, otherwise: Kind) -> Kind:
    code = getattr(error, "sqlstate", None) or ""
    return _KINDS.get(code) or _KINDS.get(code[:2]) or otherwise


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- Logs in PostgreSQL: many processes write, and the lock of a head puts them in order --


# One round trip for all of an append. The names' insert leaves out those that stand, and so tells
# of them without an error, after which a transaction could not even be asked which one it was.
_APPEND = f"""
WITH entry AS (
    INSERT INTO entries (agent, seq, kind, payload_hash, hash)
    SELECT ?, * FROM unnest(?::bigint[], ?::text[], ?::bytea[], ?::bytea[])
), payload AS (
    INSERT INTO payloads (place, salt, payload)
    SELECT ?::bigint * {sql.PLACE} + seq, salt, payload
    FROM unnest(?::bigint[], ?::bytea[], ?::bytea[]) AS new (seq, salt, payload)
), name AS (
    INSERT INTO names (agent, space, id, seq, digest)
    SELECT ?, * FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bytea[])
    ON CONFLICT DO NOTHING RETURNING 1
), head AS (
    UPDATE agents SET head_seq = ?, head_hash = ? WHERE number = ?
)
SELECT count(*) FROM name
"""


class PostgresStore(SqlStore):
    """The logs of many agents in one schema of a PostgreSQL database.

    Parameters
    ----------
    url : str
        "postgresql://USER:PASSWORD@HOST:PORT/NAME", with any parameters of libpq.
    schema : str
        Where the tables are; it is made if it is missing.
    migrations : Path, optional
        Another folder of migrations; for tests.
    """

    def __init__(self, url: str, *, schema: str = "bridle", migrations: Path | None = None) -> None:
        self._link = link_to(url, schema, migrations)
        super().__init__(self._link.where)
        self._link.prepare()

    def _connect(self) -> Connection:
        return self._link.connect()

    def _start(self, connection: Connection) -> SqlTransaction:
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        return _Transaction(connection, self._where)

    def _settle(self, connection: Connection, error: SqlError) -> bool:
        # If anything but a clear word comes in the place of "COMMIT", it may have come after it.
        self._discard_writer()
        return error.kind in ("constraint", "rolled back")


class _Transaction(SqlTransaction):
    """A head is locked as a row, in the order of names: so nobody waits in a circle."""

    def _take(self, agents: Sequence[str]) -> dict[str, tuple[int, Head]]:
        rows = self._connection.execute(
            "SELECT name, number, head_seq, head_hash FROM agents WHERE name = ANY(?) "
            "ORDER BY name FOR UPDATE",
            (list(agents),),
        )
        return {name: (number, Head(seq, hash)) for name, number, seq, hash in rows}

    def _insert(
        self, number: int, entries: Sequence[Entry], names: Sequence[NameRow], head: Head
    ) -> bool:
        present = [entry for entry in entries if entry.salt is not None]
        [(count,)] = self._connection.execute(
            _APPEND,
            (
                number,
                Int8Array([entry.seq for entry in entries]),
                TextArray([entry.kind for entry in entries]),
                ByteaArray([entry.payload_hash for entry in entries]),
                ByteaArray([entry.hash for entry in entries]),
                number,
                Int8Array([entry.seq for entry in present]),
                ByteaArray([entry.salt for entry in present]),
                ByteaArray([entry.payload for entry in present]),
                number,
                TextArray([space for space, _, _, _ in names]),
                TextArray([id for _, id, _, _ in names]),
                Int8Array([seq for _, _, seq, _ in names]),
                ByteaArray([digest for _, _, _, digest in names]),
                *head,
                number,
            ),
        )
        return bool(count == len(names))

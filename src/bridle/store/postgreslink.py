"""Connections to PostgreSQL that serve the calls of the seam. Nothing in them waits for ever."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bridle.errors import InvalidValue, NotPossible
from bridle.store.migrating import migrate, migrations
from bridle.store.postgresarrays import register
from bridle.store.seam import Connection, Kind, Row, SqlError, failed

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresLink", "link_to"]

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

"""Opening a store by its address."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from bridle.errors import InvalidValue
from bridle.store.postgres import PostgresStore
from bridle.store.sqlite import SqliteStore

__all__ = ["AnyStore", "open_store"]

AnyStore: TypeAlias = SqliteStore | PostgresStore
_WANTED = "a path, sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME"


def open_store(address: str | Path, *, schema: str = "bridle") -> AnyStore:
    """Open the store at an address; make it if it is new.

    Parameters
    ----------
    address : str or Path
        The path of a SQLite file, also as "sqlite:///relative.db" or "sqlite:////absolute.db", or
        a PostgreSQL database as "postgresql://USER:PASSWORD@HOST:PORT/NAME".
    schema : str
        Where in PostgreSQL the tables are.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(pathlib.Path(folder) / "logs.db")
    ...     print(store.agents())
    ...     store.close()
    []
    """
    if isinstance(address, Path):
        return SqliteStore(address)
    scheme, colon, rest = address.partition("://")
    if not colon:
        if not address:
            raise InvalidValue("address", "open_store", _WANTED, address)
        return SqliteStore(address)
    if scheme in ("postgresql", "postgres"):
        return PostgresStore(address, schema=schema)
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SqliteStore(rest[1:])
    # The rest of it may hold a password.
    raise InvalidValue("address", "open_store", _WANTED, f"{scheme}://…")

"""Opening a store by its address."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from bridle.errors import InvalidValue, NotPossible, shown
from bridle.store.postgres import PostgresStore
from bridle.store.sqlite import SqliteStore

__all__ = ["AnyStore", "open_store"]

AnyStore: TypeAlias = SqliteStore | PostgresStore
_WANTED = "a path, sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME"


def open_store(address: str | Path, *, schema: str = "bridle", create: bool = True) -> AnyStore:
    """Open the store at an address; make it if it is new.

    Parameters
    ----------
    address : str or Path
        The path of a SQLite file, also as "sqlite:///relative.db" or "sqlite:////absolute.db", or
        a PostgreSQL database as "postgresql://USER:PASSWORD@HOST:PORT/NAME".
    schema : str
        Where in PostgreSQL the tables are.
    create : bool
        Whether a SQLite file that is missing is made. Else a mistyped name is an error, and not an
        empty store. Whoever names a database of PostgreSQL wrongly hears of it from the server.

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
        return _open_file(address, create)
    scheme, colon, rest = address.partition("://")
    if not colon:
        if not address:
            raise InvalidValue("address", "open_store", _WANTED, address)
        return _open_file(address, create)
    if scheme in ("postgresql", "postgres"):
        return PostgresStore(address, schema=schema)
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return _open_file(rest[1:], create)
    # The rest of it may hold a password.
    raise InvalidValue("address", "open_store", _WANTED, f"{scheme}://…")


def _open_file(path: str | Path, create: bool) -> SqliteStore:
    if not create and not os.path.lexists(path):
        raise NotPossible(
            f"There is no store at {shown(str(path))}. Name the file of one; a new one is made by "
            f"`bridle serve`, `bridle restore` and `bridle token`."
        )
    return SqliteStore(path)

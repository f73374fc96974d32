"""Numbered SQL files that bring an old database to the form that this version reads.

Each file is applied once, in one transaction, and recorded with its sha256. A backend applies them;
which ones are due is said here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

from bridle.errors import CorruptState
from bridle.store.sql import Connection

__all__ = ["Migration", "due", "migrate", "migrations"]

# The one table that no migration makes. The same words do for both kinds of database.
_CREATE_TABLE = """
CREATE TABLE migrations (
    version integer NOT NULL PRIMARY KEY,
    name text NOT NULL,
    sha256 text NOT NULL
)
"""
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")


class Migration(NamedTuple):
    """One step of a database's form."""

    version: int
    name: str
    text: str
    sha256: str


def migrations(
    database: Literal["sqlite", "postgres"], folder: Path | None = None
) -> list[Migration]:
    """Return all steps for a kind of database, in order; from another `folder` in tests."""
    source = folder or files("bridle.store").joinpath("migrations", database)
    steps = []
    for file in source.iterdir():
        match = _FILE.fullmatch(file.name)
        if match is None:
            continue
        # A checkout may have changed the ends of lines.
        text = file.read_text(encoding="utf-8").replace("\r\n", "\n")
        digest = sha256(text.encode()).hexdigest()
        steps.append(Migration(int(match[1]), match[2], text, digest))
    steps.sort()
    if [step.version for step in steps] != list(range(1, len(steps) + 1)):
        raise CorruptState(
            f"The migrations of bridle for {database} are not numbered 1, 2, 3 …: "
            f"{[step.version for step in steps]}. Install bridle anew."
        )
    return steps


def due(applied: Mapping[int, str], known: Sequence[Migration], where: str) -> list[Migration]:
    """Return the steps that a database still needs.

    Parameters
    ----------
    applied : Mapping
        The sha256 of each version that was applied to it.
    known : sequence of Migration
        All steps that this version of bridle knows.
    where : str
        What to call the database in a message.
    """
    newest = max(applied, default=0)
    if newest > len(known):
        raise CorruptState(
            f"{where} has schema version {newest}, from a newer bridle; this one knows versions up "
            f"to {len(known)}. Open it with the newer bridle."
        )
    for step in known[:newest]:
        if applied.get(step.version) != step.sha256:
            raise CorruptState(
                f"{where} was brought to schema version {step.version} by other statements than "
                f"those of this bridle. Open it with the bridle that made it."
            )
    return list(known[newest:])


def migrate(
    connection: Connection, known: Sequence[Migration], where: str, begin: Callable[[], bool]
) -> None:
    """Apply what is due, each step in a transaction of its own.

    Parameters
    ----------
    connection : Connection
        To the database, with no transaction open.
    known : sequence of Migration
        All steps that this version of bridle knows.
    where : str
        What to call the database in a message.
    begin : callable
        Begins a transaction in which nobody else migrates, and says whether there is a table of
        migrations. Whoever comes second waits in it, and then finds the work done.
    """
    while True:
        there = begin()
        try:
            if not there:
                connection.execute(_CREATE_TABLE)
            applied: dict[int, str] = dict(
                connection.execute("SELECT version, sha256 FROM migrations")
            )
            steps = due(applied, known, where)
            for step in steps[:1]:
                connection.script(step.text)
                connection.execute(
                    "INSERT INTO migrations VALUES (?, ?, ?)",
                    (
                        step.version,
                        step.name,
                        step.sha256,
                    ),
                )
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction():
                connection.execute("ROLLBACK")
            raise
        if len(steps) <= 1:
            return

"""A store over SQL connections: one writer, a few readers beside it."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from bridle.errors import NotPossible, StoreFailed
from bridle.store import reads
from bridle.store.records import (
    AgentRow,
    Entry,
    Found,
    Head,
    Name,
    Snapshot,
    TokenRow,
    Transaction,
)
from bridle.store.seam import Connection, SqlError, failed
from bridle.store.sqltransaction import SqlTransaction

__all__ = ["SqlStore"]

P = ParamSpec("P")
T = TypeVar("T")
_MOST_READERS = 8


class SqlStore(ABC):
    """The logs of many agents in a database. Which one, and how it fails, subclasses say.

    Parameters
    ----------
    where : str
        What to call the database in a message.
    alone : bool
        Whether there can be one connection only; then it also reads.
    """

    def __init__(self, where: str, *, alone: bool = False) -> None:
        self._where = where
        self._alone = alone
        # Held by whoever writes. A thread may take it twice, to read where one connection does all.
        self._writing = threading.RLock()
        self._writer: Connection | None = None
        self._in_transaction = False
        self._readers = threading.BoundedSemaphore(_MOST_READERS)
        self._idle: list[Connection] = []
        self._closed = False

    @abstractmethod
    def _connect(self) -> Connection:
        """Open a connection, or raise `SqlError`."""

    @abstractmethod
    def _start(self, connection: Connection) -> SqlTransaction:
        """Begin a transaction, or raise `SqlError`."""

    @abstractmethod
    def _settle(self, connection: Connection, error: SqlError) -> bool:
        """After a commit that failed: say whether it is sure that it will not stand."""

    def _after_erasing(self, connection: Connection) -> None:  # noqa: B027
        """Remove what is left of payloads that were erased, as far as it can be done now."""

    # -- writing -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin a transaction; leaving the block commits, an exception rolls back."""
        with self._transaction() as transaction:
            yield transaction

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[SqlTransaction]:
        with self._writing:
            if self._in_transaction:
                raise NotPossible("This thread is in a transaction of this store already.")
            connection, transaction = self._begin()
            self._in_transaction = True
            try:
                yield transaction
                if transaction.spoiled is not None:
                    raise transaction.spoiled
            except BaseException:
                self._roll_back(connection)
                raise
            else:
                self._commit(connection)
                if transaction.erased:
                    self._after_erasing(connection)
            finally:
                self._in_transaction = False

    def _begin(self) -> tuple[Connection, SqlTransaction]:
        self._check_open()
        old = self._writer is not None
        try:
            if self._writer is None:
                self._writer = self._connect()
            return self._writer, self._start(self._writer)
        except SqlError as error:
            if error.kind != "busy":
                self._discard_writer()
            if error.kind == "lost" and old:
                # It was lost while nothing was done with it: a new one may do.
                return self._begin()
            raise failed(error, "write to", self._where) from None

    def _roll_back(self, connection: Connection) -> None:
        try:
            # Some errors make SQLite roll back by itself.
            if connection.in_transaction():
                connection.execute("ROLLBACK")
        except SqlError:
            self._discard_writer()

    def _commit(self, connection: Connection) -> None:
        try:
            connection.execute("COMMIT")
        except SqlError as error:
            unknown = not self._settle(connection, error)
            raise failed(error, "commit to", self._where, unknown) from None
        except BaseException:
            self._discard_writer()
            raise

    def _discard_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def keep_snapshot(self, agent: str, snapshot: Snapshot) -> None:
        """Keep a snapshot, beside the earlier ones."""
        with self._transaction() as transaction:
            transaction.keep_snapshot(agent, snapshot)

    def drop_snapshots(self, agent: str, seqs: Sequence[int]) -> None:
        """Drop snapshots."""
        with self._transaction() as transaction:
            transaction.drop_snapshots(agent, seqs)

    # -- reading -----------------------------------------------------------------------------

    def _read(
        self,
        what: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        try:
            if self._alone:
                with self._writing:
                    self._check_open()
                    if self._writer is None:
                        self._writer = self._connect()
                    return what(self._writer, *args, **kwargs)
            with self._readers:
                return self._read_beside(what, *args, **kwargs)
        except SqlError as error:
            raise failed(error, "read", self._where) from None

    def _read_beside(
        self,
        what: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        while True:
            self._check_open()
            try:
                connection, old = self._idle.pop(), True
            except IndexError:
                connection, old = self._connect(), False
            try:
                result = what(connection, *args, **kwargs)
            except SqlError as error:
                connection.close()
                if error.kind == "lost" and old:
                    continue
                raise
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)
            if self._closed:
                self._close_idle()
            return result

    def agents(self) -> list[AgentRow]:
        """Give all agents, by name."""
        return self._read(reads.agents)

    def head(self, agent: str) -> Head | None:
        """Give the end of a log; None if there is no such agent."""
        found = self._read(reads.heads, [agent]).get(agent)
        return found[1] if found else None

    def read(self, agent: str, after: int = 0, limit: int = 1_000) -> list[Entry]:
        """Give up to `limit` entries that follow `after`, in order."""
        return self._read(reads.entries, agent, after, limit)

    def find(self, agent: str, space: str, ids: Sequence[str]) -> dict[str, Found]:
        """Say where these names stand; those that do not stand are left out."""
        return self._read(reads.find, agent, space, ids)

    def names(self, agent: str, after: int, limit: int) -> dict[int, tuple[Name, ...]]:
        """Give the names of the entries `after` + 1 to `after` + `limit`; for copies."""
        return self._read(reads.names, agent, after, limit)

    def snapshot(self, agent: str, at_most: int | None = None) -> Snapshot | None:
        """Give the latest snapshot, up to a sequence; None if there is none that is whole."""
        return self._read(reads.snapshot, agent, at_most)

    def snapshots(self, agent: str) -> list[int]:
        """Give the sequences of all snapshots, in order."""
        return self._read(reads.snapshots, agent)

    def tokens(self) -> list[TokenRow]:
        """Give all tokens, oldest first."""
        return self._read(reads.tokens)

    def token(self, id: str) -> TokenRow | None:
        """Give one token."""
        return next(iter(self._read(reads.tokens, id)), None)

    # -- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Close all connections, after the transaction that is open."""
        with self._writing:
            self._closed = True
            self._close_idle()
            self._discard_writer()

    def _close_idle(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreFailed(f"{self._where} was closed. Open it again.")

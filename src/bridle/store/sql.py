"""Logs in an SQL database: what is read and written, the same for SQLite and PostgreSQL.

A store talks to its database through a `Connection` of a few calls, which sqlite.py and postgres.py
serve.
"""

from __future__ import annotations

import contextlib
import json
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import (
    Any,
    Concatenate,
    Literal,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
)

from bridle.errors import (
    BridleError,
    CorruptState,
    Duplicate,
    InvalidValue,
    NotPossible,
    StoreFailed,
    UnknownId,
)
from bridle.store.log import (
    START,
    AgentRow,
    Entry,
    Found,
    Head,
    Name,
    New,
    Snapshot,
    TokenRow,
    Transaction,
    broken,
    link,
)

__all__ = [
    "PLACE",
    "Connection",
    "Kind",
    "NameRow",
    "Row",
    "SqlError",
    "SqlStore",
    "SqlTransaction",
    "failed",
    "read_agents",
    "read_entries",
    "read_find",
    "read_heads",
    "read_names",
    "read_snapshot",
    "read_snapshots",
    "read_tokens",
]


Row: TypeAlias = tuple[Any, ...]
Kind: TypeAlias = Literal[
    "busy",
    "constraint",
    "corrupt",
    "full",
    "io",
    "lost",
    "readonly",
    "rolled back",
    "unopened",
    "other",
]


class SqlError(Exception):
    """What the database refused, and why. It does not leave the store."""

    def __init__(self, kind: Kind, text: str) -> None:
        self.kind = kind
        super().__init__(text)


class Connection(Protocol):
    """A connection that commits every statement by itself, unless `BEGIN` was sent."""

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement and return all its rows, or raise `SqlError`."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each of `rows`, or raise `SqlError`."""
        ...

    def script(self, text: str) -> None:
        """Run several statements, or raise `SqlError`."""
        ...

    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""
        ...

    def close(self) -> None:
        """Close it; what was not committed is rolled back."""
        ...


def failed(error: SqlError, doing: str, where: str, unknown: bool = False) -> BridleError:
    """Return the error to raise for what the database refused."""
    what = f"Could not {doing} {where}"
    if error.kind == "corrupt":
        return CorruptState(
            f"{what}: {error}. It is damaged, or not a database of bridle. Restore a backup."
        )
    remedy = {
        "busy": "Another process holds it. Try again, or stop that process.",
        "full": "The disk is full. Make room; bridle then goes on by itself.",
        "io": "The disk failed. bridle goes on by itself when it works again.",
        "lost": "Is the server there? bridle connects again by itself when it answers.",
        "readonly": "It, or its folder, may not be written to.",
        "unopened": "Is it there, and may it be opened?",
    }.get(error.kind, "")
    text = str(error).rstrip(".")
    return StoreFailed(f"{what}: {text}. {remedy}".rstrip(), unknown=unknown)


# --- What is read from a database, in a transaction or beside it; the same words do for both kinds


# Where a payload stands is one number: an agent's number and, in the lower 40 bits, the sequence.
PLACE = 1 << 40
# SQLite takes at least 999 values in a statement.
_MOST_VALUES = 500
_NUMBER = "(SELECT number FROM agents WHERE name = ?)"


def _groups(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), _MOST_VALUES):
        yield items[start : start + _MOST_VALUES]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def read_agents(connection: Connection) -> list[AgentRow]:
    """Return all agents, by name."""
    rows = connection.execute(
        "SELECT name, head_seq, head_hash, created, origin FROM agents ORDER BY name"
    )
    return [
        AgentRow(name, Head(seq, hash), created, origin)
        for name, seq, hash, created, origin in rows
    ]


def read_heads(connection: Connection, names: Sequence[str]) -> dict[str, tuple[int, Head]]:
    """Return the numbers and heads of these agents, as far as there are such."""
    found = {}
    for group in _groups(names):
        rows = connection.execute(
            f"SELECT name, number, head_seq, head_hash FROM agents WHERE name IN ({_marks(group)})",
            group,
        )
        for name, number, seq, hash in rows:
            found[name] = (number, Head(seq, hash))
    return found


def read_entries(connection: Connection, agent: str, after: int, limit: int) -> list[Entry]:
    """Return up to `limit` entries that follow `after`, in order."""
    rows = connection.execute(
        "SELECT e.seq, e.kind, e.hash, e.payload_hash, p.salt, p.payload "
        f"FROM entries e LEFT JOIN payloads p ON p.place = e.agent * {PLACE} + e.seq "
        f"WHERE e.agent = {_NUMBER} AND e.seq > ? ORDER BY e.seq LIMIT ?",
        (agent, after, limit),
    )
    found = [Entry(*row) for row in rows]
    for place, entry in enumerate(found):
        # SQLite lets whoever tampers put a text in the place of bytes: it must not pass for less.
        if isinstance(cast("object", entry.payload), str) or isinstance(
            cast("object", entry.salt), str
        ):
            found[place] = entry._replace(salt=_raw(entry.salt), payload=_raw(entry.payload))
    return found


def _raw(value: object) -> bytes | None:
    return value.encode() if isinstance(value, str) else cast("bytes | None", value)


def read_find(
    connection: Connection, agent: str, space: str, ids: Sequence[str]
) -> dict[str, Found]:
    """Return where these names are; those that are not in the log are left out."""
    found = {}
    for group in _groups(ids):
        rows = connection.execute(
            f"SELECT id, seq, digest FROM names WHERE agent = {_NUMBER} AND space = ? "
            f"AND id IN ({_marks(group)})",
            (agent, space, *group),
        )
        for id, seq, digest in rows:
            found[id] = Found(seq, digest)
    return found


def read_names(
    connection: Connection, agent: str, after: int, limit: int
) -> dict[int, tuple[Name, ...]]:
    """Return the names of the entries from `after` + 1 to `after` + `limit`."""
    rows = connection.execute(
        f"SELECT seq, space, id, digest FROM names WHERE agent = {_NUMBER} "
        "AND seq > ? AND seq <= ? ORDER BY seq, space, id",
        (agent, after, after + limit),
    )
    found: dict[int, tuple[Name, ...]] = {}
    for seq, space, id, digest in rows:
        found[seq] = (*found.get(seq, ()), Name(space, id, digest))
    return found


def read_snapshot(
    connection: Connection, agent: str, at_most: int | None = None
) -> Snapshot | None:
    """Return the latest snapshot that is whole and belongs to the log."""
    while True:
        rows = connection.execute(
            "SELECT s.seq, s.hash, s.sha256, s.blob, e.hash FROM snapshots s "
            "LEFT JOIN entries e ON e.agent = s.agent AND e.seq = s.seq "
            f"WHERE s.agent = {_NUMBER} AND s.seq <= ? ORDER BY s.seq DESC LIMIT 1",
            (agent, at_most if at_most is not None else PLACE),
        )
        if not rows:
            return None
        [(seq, hash, digest, blob, of_log)] = rows
        belongs = hash == (START.hash if seq == 0 else of_log)
        if belongs and isinstance(blob, bytes) and sha256(blob).digest() == digest:
            return Snapshot(Head(seq, hash), blob)
        at_most = seq - 1


def read_snapshots(connection: Connection, agent: str) -> list[int]:
    """Return the sequences of all snapshots, in order."""
    rows = connection.execute(
        f"SELECT seq FROM snapshots WHERE agent = {_NUMBER} ORDER BY seq", (agent,)
    )
    return [seq for (seq,) in rows]


def read_tokens(connection: Connection, id: str | None = None) -> list[TokenRow]:
    """Return all tokens, oldest first, or the one of an id."""
    rows = connection.execute(
        "SELECT id, hash, role, agents, created, expires, revoked, note FROM tokens "
        + ("ORDER BY number" if id is None else "WHERE id = ?"),
        () if id is None else (id,),
    )
    return [
        TokenRow(id, hash, role, None if of is None else tuple(json.loads(of)), *rest)
        for id, hash, role, of, *rest in rows
    ]


# --- What can be done in a transaction; databases differ in `_take` and `_insert` ----------------


_FORKED_AT_ONCE = 50_000
NameRow: TypeAlias = tuple[str, str, int, bytes | None]  # space, id, seq, digest


class SqlTransaction(ABC):
    """A transaction over a connection on which one was begun.

    Parameters
    ----------
    connection : Connection
        Where the statements go.
    where : str
        What to call the database in a message.
    """

    def __init__(self, connection: Connection, where: str) -> None:
        self._connection = connection
        self._where = where
        self._locked: dict[str, tuple[int, Head]] = {}
        # What went wrong, if something did: then nothing may be committed.
        self.spoiled: BridleError | None = None
        self.erased = False

    def _take(self, agents: Sequence[str]) -> dict[str, tuple[int, Head]]:
        """Lock the heads of these agents and return them, with the agents' numbers.

        Where whoever writes is alone with the database, to read them is enough.
        """
        return read_heads(self._connection, agents)

    @abstractmethod
    def _insert(
        self, number: int, entries: Sequence[Entry], names: Sequence[NameRow], head: Head
    ) -> bool:
        """Insert entries, names and the new head; return False if a name is in the log already."""

    def create(self, agent: str, created: float, origin: str | None = None) -> None:
        """Begin an empty log, or raise `Duplicate` if there is an agent of that name."""
        duplicate = Duplicate("agent", agent, "Choose another name.")
        with self._guarded(duplicate):
            if read_heads(self._connection, [agent]):
                raise duplicate
            self._connection.execute(
                "INSERT INTO agents (name, head_seq, head_hash, created, origin) "
                "VALUES (?, ?, ?, ?, ?)",
                (agent, *START, created, origin),
            )
            self._locked |= read_heads(self._connection, [agent])

    def lock(self, agents: Sequence[str]) -> dict[str, Head]:
        """Lock these logs until the end and return their heads. Unknown agents are left out."""
        with self._guarded():
            found = self._take(sorted(set(agents)))
        self._locked |= found
        return {agent: head for agent, (_, head) in found.items()}

    def append(self, agent: str, entries: Sequence[New]) -> Head:
        """Append to a log whose head is locked; return its new head."""
        _, head = self._held(agent)
        names = [
            (space, id, seq, digest)
            for seq, new in enumerate(entries, head.seq + 1)
            for space, id, digest in new.names
        ]
        return self._write(agent, link(head, entries), names)

    def adopt(
        self, agent: str, entries: Sequence[Entry], names: Mapping[int, Sequence[Name]]
    ) -> Head:
        """Append entries of another log as they are, with their names; for copies."""
        _, head = self._held(agent)
        for entry in entries:
            wrong = broken(head, entry)
            if wrong:
                raise CorruptState(f"Cannot take over the log of {agent!r}: {wrong}.")
            head = Head(entry.seq, entry.hash)
        rows = [
            (space, id, entry.seq, digest)
            for entry in entries
            for space, id, digest in names.get(entry.seq, ())
        ]
        return self._write(agent, entries, rows)

    def fork(self, agent: str, at: int, name: str, created: float) -> Head:
        """Begin a log that is the first `at` entries of another, with their names."""
        before = self.lock([agent]).get(agent)
        if before is None:
            raise UnknownId("agent", agent, "The store has no log of that name.")
        if not 0 <= at <= before.seq:
            wanted = f"a whole number from 0 to {before.seq}, the versions of {agent!r}"
            raise InvalidValue("at", "fork", wanted, at)
        self.create(name, created, f"{agent}@{at}")
        (old, _), (new, _) = self._locked[agent], self._locked[name]
        with self._guarded():
            # In parts, so that none takes longer than a statement may.
            for after in range(0, at, _FORKED_AT_ONCE):
                span = (old, after, min(at, after + _FORKED_AT_ONCE))
                self._connection.execute(
                    "INSERT INTO entries SELECT ?, seq, kind, payload_hash, hash FROM entries "
                    "WHERE agent = ? AND seq > ? AND seq <= ?",
                    (new, *span),
                )
                self._connection.execute(
                    "INSERT INTO names SELECT ?, space, id, seq, digest FROM names "
                    "WHERE agent = ? AND seq > ? AND seq <= ?",
                    (new, *span),
                )
                places = (old * PLACE + span[1], old * PLACE + span[2])
                self._connection.execute(
                    "INSERT INTO payloads SELECT place + ?, salt, payload FROM payloads "
                    "WHERE place > ? AND place <= ?",
                    ((new - old) * PLACE, *places),
                )
            if at:
                self._connection.execute(
                    "UPDATE agents SET head_seq = ?, head_hash = "
                    "(SELECT hash FROM entries WHERE agent = ? AND seq = ?) WHERE number = ?",
                    (at, old, at, new),
                )
            self._locked |= read_heads(self._connection, [name])
        return self._locked[name][1]

    def _held(self, agent: str) -> tuple[int, Head]:
        held = self._locked.get(agent)
        if held is None:
            raise NotPossible(f"The log of {agent!r} is not locked. Call `lock` before.")
        return held

    def _write(self, agent: str, entries: Sequence[Entry], names: Sequence[NameRow]) -> Head:
        number, before = self._held(agent)
        if not entries:
            return before
        head = Head(entries[-1].seq, entries[-1].hash)
        with self._guarded():
            if not self._insert(number, entries, names, head):
                self._spoil(self._standing(agent, before, names))
        self._locked[agent] = (number, head)
        return head

    def _standing(self, agent: str, before: Head, names: Sequence[NameRow]) -> BridleError:
        """Return the error of the name that is in the log, or twice among these."""
        counts = Counter((space, id) for space, id, _, _ in names)
        for (space, id), count in counts.items():
            found = read_find(self._connection, agent, space, [id]).get(id)
            if count > 1 or (found is not None and found.seq <= before.seq):
                return Duplicate(space, id)
        # Nobody else can have written to the log.
        return CorruptState(f"{self._where} has entries beyond the head of {agent!r}. Verify it.")

    def read(self, agent: str, after: int, limit: int) -> list[Entry]:
        """Return up to `limit` entries that follow `after`, in order."""
        with self._guarded():
            return read_entries(self._connection, agent, after, limit)

    def find(self, agent: str, space: str, ids: Sequence[str]) -> dict[str, Found]:
        """Return where these names are; those that are not in the log are left out."""
        with self._guarded():
            return read_find(self._connection, agent, space, ids)

    def erase(self, agent: str, seqs: Sequence[int]) -> int:
        """Erase payloads and salts; snapshots from the first of them on go, too."""
        with self._guarded():
            # Nobody copies the log meanwhile, so no copy is made of what is erased.
            known = self._take([agent]).get(agent)
            if known is None:
                return 0
            number, head = known
            # Whatever is not a sequence of this log could be the place of another's payload.
            wanted = sorted({seq for seq in seqs if 1 <= seq <= head.seq})
            present = [
                seq
                for seq in wanted
                if self._connection.execute(
                    "SELECT 1 FROM payloads WHERE place = ?", (number * PLACE + seq,)
                )
            ]
            if not present:
                return 0
            self._connection.executemany(
                "DELETE FROM payloads WHERE place = ?",
                [(number * PLACE + seq,) for seq in present],
            )
            # The digest of a request would tell who guesses it whether he is right.
            self._connection.executemany(
                "UPDATE names SET digest = NULL WHERE agent = ? AND seq = ?",
                [(number, seq) for seq in present],
            )
            self._connection.execute(
                "DELETE FROM snapshots WHERE agent = ? AND seq >= ?", (number, present[0])
            )
        self.erased = True
        return len(present)

    def keep_snapshot(self, agent: str, snapshot: Snapshot) -> None:
        """Keep a snapshot of a state that the log had."""
        seq, hash = snapshot.head
        with self._guarded():
            known = read_heads(self._connection, [agent]).get(agent)
            entries = read_entries(self._connection, agent, seq - 1, 1) if seq else []
            in_log = START.hash if seq == 0 else entries[0].hash if entries else None
            if known is None or hash != in_log:
                raise NotPossible(f"The log of {agent!r} never had the head {snapshot.head}.")
            self._connection.execute(
                "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?) ON CONFLICT (agent, seq) DO UPDATE "
                "SET hash = excluded.hash, sha256 = excluded.sha256, blob = excluded.blob",
                (known[0], seq, hash, sha256(snapshot.blob).digest(), snapshot.blob),
            )

    def drop_snapshots(self, agent: str, seqs: Sequence[int]) -> None:
        """Drop snapshots."""
        with self._guarded():
            self._connection.executemany(
                "DELETE FROM snapshots "
                "WHERE agent = (SELECT number FROM agents WHERE name = ?) AND seq = ?",
                [(agent, seq) for seq in seqs],
            )

    def add_token(self, token: TokenRow) -> None:
        """Keep a token."""
        duplicate = Duplicate("token", token.id)
        with self._guarded(duplicate):
            if read_tokens(self._connection, token.id):
                raise duplicate
            agents = None if token.agents is None else json.dumps(token.agents)
            self._connection.execute(
                "INSERT INTO tokens (id, hash, role, agents, created, expires, revoked, note) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*token[:3], agents, *token[4:]),
            )

    def revoke_token(self, id: str, at: float) -> bool:
        """Revoke a token; return whether there was one to revoke."""
        with self._guarded():
            found = read_tokens(self._connection, id)
            if not found or found[0].revoked is not None:
                return False
            self._connection.execute("UPDATE tokens SET revoked = ? WHERE id = ?", (at, id))
            return True

    @contextlib.contextmanager
    def _guarded(self, duplicate: Duplicate | None = None) -> Iterator[None]:
        """A transaction in which a statement failed must not be committed.

        `duplicate`: what a constraint that does not hold means, where another process was faster.
        """
        try:
            if self.spoiled is not None:
                raise self.spoiled
            yield
        except SqlError as error:
            if error.kind == "constraint" and duplicate is not None:
                self._spoil(duplicate)
            self._spoil(failed(error, "write to", self._where))
        except UnicodeEncodeError as error:
            self._spoil(failed(SqlError("other", str(error)), "write to", self._where))

    def _spoil(self, error: BridleError) -> NoReturn:
        self.spoiled = error
        raise error from None


# --- A store over SQL connections: one writer, a few readers beside it --------------------


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
        self._unsettled = False  # whether a commit failed, and none has been made since
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
        """Return whether it is sure that a commit that failed will not stand."""

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
            self._unsettled = False
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
        """Return all agents, by name."""
        return self._read(read_agents)

    def head(self, agent: str) -> Head | None:
        """Return the end of a log; None if there is no such agent."""
        found = self._read(read_heads, [agent]).get(agent)
        return found[1] if found else None

    def read(self, agent: str, after: int = 0, limit: int = 1_000) -> list[Entry]:
        """Return up to `limit` entries that follow `after`, in order."""
        return self._read(read_entries, agent, after, limit)

    def find(self, agent: str, space: str, ids: Sequence[str]) -> dict[str, Found]:
        """Return where these names are; those that are not in the log are left out."""
        return self._read(read_find, agent, space, ids)

    def names(self, agent: str, after: int, limit: int) -> dict[int, tuple[Name, ...]]:
        """Return the names of the entries `after` + 1 to `after` + `limit`; for copies."""
        return self._read(read_names, agent, after, limit)

    def snapshot(self, agent: str, at_most: int | None = None) -> Snapshot | None:
        """Return the latest snapshot, up to a sequence; None if there is none that is whole."""
        return self._read(read_snapshot, agent, at_most)

    def snapshots(self, agent: str) -> list[int]:
        """Return the sequences of all snapshots, in order."""
        return self._read(read_snapshots, agent)

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, oldest first."""
        return self._read(read_tokens)

    def token(self, id: str) -> TokenRow | None:
        """Return one token."""
        return next(iter(self._read(read_tokens, id)), None)

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

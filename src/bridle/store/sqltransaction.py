"""What can be done in a transaction; the same for both kinds of database but for two steps."""

from __future__ import annotations

import contextlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NoReturn, TypeAlias

from bridle.errors import BridleError, CorruptState, Duplicate, InvalidValue, NotPossible, UnknownId
from bridle.store import reads
from bridle.store.chain import broken, link
from bridle.store.records import START, Entry, Found, Head, Name, New, Snapshot, TokenRow
from bridle.store.seam import Connection, SqlError, failed

__all__ = ["NameRow", "SqlTransaction"]

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

    @abstractmethod
    def _take(self, agents: Sequence[str]) -> dict[str, tuple[int, Head]]:
        """Lock the heads of these agents and give them, with the agents' numbers."""

    @abstractmethod
    def _insert(
        self, number: int, entries: Sequence[Entry], names: Sequence[NameRow], head: Head
    ) -> bool:
        """Write entries, names and the new head; say False if a name stands already."""

    def create(self, agent: str, created: float, origin: str | None = None) -> None:
        """Begin an empty log, or raise `Duplicate` if there is an agent of that name."""
        duplicate = Duplicate("agent", agent, "Choose another name.")
        with self._guarded(duplicate):
            if reads.heads(self._connection, [agent]):
                raise duplicate
            self._connection.execute(
                "INSERT INTO agents (name, head_seq, head_hash, created, origin) "
                "VALUES (?, ?, ?, ?, ?)",
                (agent, *START, created, origin),
            )
            self._locked |= reads.heads(self._connection, [agent])

    def lock(self, agents: Sequence[str]) -> dict[str, Head]:
        """Take the heads of these logs until the end. Unknown agents are left out."""
        with self._guarded():
            found = self._take(sorted(set(agents)))
        self._locked |= found
        return {agent: head for agent, (_, head) in found.items()}

    def append(self, agent: str, entries: Sequence[New]) -> Head:
        """Append to a log whose head is locked; give its new head."""
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
                places = (old * reads.PLACE + span[1], old * reads.PLACE + span[2])
                self._connection.execute(
                    "INSERT INTO payloads SELECT place + ?, salt, payload FROM payloads "
                    "WHERE place > ? AND place <= ?",
                    ((new - old) * reads.PLACE, *places),
                )
            if at:
                self._connection.execute(
                    "UPDATE agents SET head_seq = ?, head_hash = "
                    "(SELECT hash FROM entries WHERE agent = ? AND seq = ?) WHERE number = ?",
                    (at, old, at, new),
                )
            self._locked |= reads.heads(self._connection, [name])
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
        """Say which of these names stood before, or stands twice among them."""
        counts = Counter((space, id) for space, id, _, _ in names)
        for (space, id), count in counts.items():
            found = reads.find(self._connection, agent, space, [id]).get(id)
            if count > 1 or (found is not None and found.seq <= before.seq):
                return Duplicate(space, id)
        # Nobody else can have written to the log.
        return CorruptState(f"{self._where} has entries beyond the head of {agent!r}. Verify it.")

    def read(self, agent: str, after: int, limit: int) -> list[Entry]:
        """Give up to `limit` entries that follow `after`, in order."""
        with self._guarded():
            return reads.entries(self._connection, agent, after, limit)

    def find(self, agent: str, space: str, ids: Sequence[str]) -> dict[str, Found]:
        """Say where these names stand; those that do not stand are left out."""
        with self._guarded():
            return reads.find(self._connection, agent, space, ids)

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
                    "SELECT 1 FROM payloads WHERE place = ?", (number * reads.PLACE + seq,)
                )
            ]
            if not present:
                return 0
            self._connection.executemany(
                "DELETE FROM payloads WHERE place = ?",
                [(number * reads.PLACE + seq,) for seq in present],
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
            known = reads.heads(self._connection, [agent]).get(agent)
            entries = reads.entries(self._connection, agent, seq - 1, 1) if seq else []
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
            if reads.tokens(self._connection, token.id):
                raise duplicate
            agents = None if token.agents is None else json.dumps(token.agents)
            self._connection.execute(
                "INSERT INTO tokens (id, hash, role, agents, created, expires, revoked, note) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*token[:3], agents, *token[4:]),
            )

    def revoke_token(self, id: str, at: float) -> bool:
        """Revoke a token; say whether there was one to revoke."""
        with self._guarded():
            found = reads.tokens(self._connection, id)
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

"""What a store of event logs holds, and the few calls that every backend serves.

A store keeps one log for each agent. A log is a hash chain: entry n holds a hash of entry n − 1 and
of its own payload. Payloads stand apart from the chain, each with a salt of its own, so that one
can be erased while the chain still verifies.

All changes are made inside a transaction. `lock` takes an agent's head, and whoever holds it is
alone with that log until the end: sequences have no gaps and come in the order of commits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple, Protocol

__all__ = [
    "SALT_BYTES",
    "START",
    "AgentRow",
    "Entry",
    "Found",
    "Head",
    "Name",
    "New",
    "Snapshot",
    "Store",
    "TokenRow",
    "Transaction",
    "broken",
    "entry_hash",
    "link",
    "payload_hash",
]


class Head(NamedTuple):
    """The end of a log: how many entries it has, and the hash of the last."""

    seq: int
    hash: bytes  # 32 bytes

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash.hex()}"


START = Head(0, bytes(32))


class Name(NamedTuple):
    """What an entry is the one to say: no other entry of the log has the same space and id.

    So a decision has one outcome, an example one beginning and one retraction, whoever asks twice.
    `digest` is of the request that led to it: the same request again is answered from the log.
    """

    space: str
    id: str
    digest: bytes | None = None


class New(NamedTuple):
    """An entry to append."""

    kind: str  # the event's name
    payload: bytes  # the event as JSON, in UTF-8
    names: tuple[Name, ...] = ()


class Entry(NamedTuple):
    """An entry of a log. `salt` and `payload` are None once it was erased."""

    seq: int  # from 1
    kind: str
    hash: bytes
    payload_hash: bytes  # sha256 of salt and payload
    salt: bytes | None
    payload: bytes | None


class Found(NamedTuple):
    """Where a name stands."""

    seq: int
    digest: bytes | None


class AgentRow(NamedTuple):
    """An agent as the store knows it."""

    name: str
    head: Head
    created: float  # seconds since 1970
    origin: str | None  # "other@version", if it was forked


class Snapshot(NamedTuple):
    """The fold of a log up to `head`: a shortcut, and never more than that."""

    head: Head
    blob: bytes


class TokenRow(NamedTuple):
    """Who may call. Of the secret only a hash is kept."""

    id: str
    hash: bytes
    role: str
    agents: tuple[str, ...] | None  # None: all
    created: float
    expires: float | None
    revoked: float | None
    note: str


class Transaction(Protocol):
    """All of it is committed, or none. It is the only way to change a store."""

    def create(self, agent: str, created: float, origin: str | None = None) -> None:
        """Begin an empty log, or raise `Duplicate` if there is an agent of that name."""
        ...

    def lock(self, agents: Sequence[str]) -> dict[str, Head]:
        """Lock these logs until the end and return their heads. Unknown agents are left out."""
        ...

    def append(self, agent: str, entries: Sequence[New]) -> Head:
        """Append to a log whose head is locked; return its new head.

        Raises `Duplicate` if a name stands already: then nothing of the transaction may be
        committed.
        """
        ...

    def adopt(
        self, agent: str, entries: Sequence[Entry], names: Mapping[int, Sequence[Name]]
    ) -> Head:
        """Append entries of another log as they are, with their names; for copies.

        Raises `CorruptState` if they do not follow from the head.
        """
        ...

    def fork(self, agent: str, at: int, name: str, created: float) -> Head:
        """Begin a log that is the first `at` entries of another, with their names.

        Both heads are locked after it. Raises `UnknownId`, `InvalidValue` or `Duplicate`.
        """
        ...

    def read(self, agent: str, after: int, limit: int) -> list[Entry]:
        """Return up to `limit` entries that follow `after`, in order."""
        ...

    def find(self, agent: str, space: str, ids: Sequence[str]) -> dict[str, Found]:
        """Return where these names are; those that are not in the log are left out."""
        ...

    def erase(self, agent: str, seqs: Sequence[int]) -> int:
        """Erase payloads and salts; snapshots from the first of them on go, too."""
        ...

    def add_token(self, token: TokenRow) -> None:
        """Keep a token."""
        ...

    def revoke_token(self, id: str, at: float) -> bool:
        """Revoke a token; return whether there was one to revoke."""
        ...


class Store(Protocol):
    """The logs of many agents. Reads see what is committed, and may come from any thread."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction; leaving the block commits, an exception rolls back.

        One at a time and store; a second one waits. Raises `StoreFailed` if it could not be begun
        or committed. `StoreFailed.unknown` is True if the commit may have happened all the same:
        then only the log knows.
        """
        ...

    def agents(self) -> list[AgentRow]:
        """Return all agents, by name."""
        ...

    def head(self, agent: str) -> Head | None:
        """Return the end of a log; None if there is no such agent."""
        ...

    def read(self, agent: str, after: int = 0, limit: int = 1_000) -> list[Entry]:
        """Return up to `limit` entries that follow `after`, in order."""
        ...

    def find(self, agent: str, space: str, ids: Sequence[str]) -> dict[str, Found]:
        """Return where these names are; those that are not in the log are left out."""
        ...

    def names(self, agent: str, after: int, limit: int) -> Mapping[int, tuple[Name, ...]]:
        """Return the names of the entries `after` + 1 to `after` + `limit`; for copies."""
        ...

    def keep_snapshot(self, agent: str, snapshot: Snapshot) -> None:
        """Keep a snapshot, beside the earlier ones."""
        ...

    def snapshot(self, agent: str, at_most: int | None = None) -> Snapshot | None:
        """Return the latest snapshot, up to a sequence; None if there is none that is whole."""
        ...

    def drop_snapshots(self, agent: str, seqs: Sequence[int]) -> None:
        """Drop snapshots."""
        ...

    def snapshots(self, agent: str) -> list[int]:
        """Return the sequences of all snapshots, in order."""
        ...

    def tokens(self) -> list[TokenRow]:
        """Return all tokens, oldest first."""
        ...

    def token(self, id: str) -> TokenRow | None:
        """Return one token."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


# --- The hash chain of a log: entries are linked when they are appended, and checked when read
#
# An entry's hash covers the hash before it, its place, its kind and the hash of its salted payload.
# The salt makes the hash of an erased payload say nothing: without it a short payload, such as a
# "yes", could be guessed from its hash.


SALT_BYTES = 16
_PREFIX = b"bridle chain 1\0"


def payload_hash(salt: bytes, payload: bytes) -> bytes:
    """Return the hash that stands for a payload in the chain."""
    return sha256(salt + payload).digest()


def entry_hash(previous: bytes, seq: int, kind: str, payload_hash: bytes) -> bytes:
    """Return the hash of an entry from the hash before it and from what it holds.

    Examples
    --------
    >>> entry_hash(bytes(32), 1, "Created", payload_hash(bytes(16), b"{}")).hex()[:16]
    '7933812da1e406ce'
    """
    place = seq.to_bytes(8, "big")
    return sha256(_PREFIX + previous + place + _framed(kind) + payload_hash).digest()


def link(head: Head, entries: Sequence[New]) -> list[Entry]:
    """Return the entries that follow `head`, with fresh salts."""
    salts = _salts.take(SALT_BYTES * len(entries))
    seq, last = head
    linked = []
    for i, (kind, payload, _) in enumerate(entries):
        seq += 1
        salt = salts[SALT_BYTES * i : SALT_BYTES * (i + 1)]
        hashed = sha256(salt + payload).digest()
        last = entry_hash(last, seq, kind, hashed)
        linked.append(Entry(seq, kind, last, hashed, salt, payload))
    return linked


def broken(previous: Head, entry: Entry) -> str | None:
    """Return why `entry` does not follow `previous`; None if it does."""
    if entry.seq != previous.seq + 1:
        return f"entry {entry.seq} follows entry {previous.seq}"
    if entry.hash != entry_hash(previous.hash, entry.seq, entry.kind, entry.payload_hash):
        return f"the hash of entry {entry.seq} does not follow from the one before it"
    if (entry.salt is None) != (entry.payload is None):
        return f"entry {entry.seq} has a payload or a salt, but not both"
    if entry.salt is None or entry.payload is None:
        return None
    if payload_hash(entry.salt, entry.payload) != entry.payload_hash:
        return f"the payload of entry {entry.seq} is not the one that was hashed"
    return None


@lru_cache(maxsize=256)
def _framed(kind: str) -> bytes:
    # With its length before it, no kind can be taken for the beginning of what follows.
    data = kind.encode()
    return len(data).to_bytes(2, "big") + data


class _Salts:
    """Random bytes, asked of the system in large pieces.

    Each call to the system lets go of the interpreter, and whoever answers requests may keep it
    for long: a commit would wait for that.
    """

    AT_ONCE = 2**16

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = b""
        os.register_at_fork(after_in_child=self._forget)

    def take(self, size: int) -> bytes:
        with self._lock:
            if len(self._left) < size:
                self._left += os.urandom(max(size, self.AT_ONCE))
            taken, self._left = self._left[:size], self._left[size:]
            return taken

    def _forget(self) -> None:
        # Two processes may not use the same.
        self._lock, self._left = threading.Lock(), b""


_salts = _Salts()

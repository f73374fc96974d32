"""The hash chain of a log: entries are linked when they are appended, and checked when read.

An entry's hash covers the hash before it, its place, its kind and the hash of its salted payload.
The salt makes the hash of an erased payload say nothing: without it a short payload, such as a
"yes", could be guessed from its hash.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256

from bridle.store.records import Entry, Head, New

__all__ = ["SALT_BYTES", "broken", "entry_hash", "link", "payload_hash"]

SALT_BYTES = 16
_PREFIX = b"bridle chain 1\0"


def payload_hash(salt: bytes, payload: bytes) -> bytes:
    """Give the hash that stands for a payload in the chain."""
    return sha256(salt + payload).digest()


def entry_hash(previous: bytes, seq: int, kind: str, payload_hash: bytes) -> bytes:
    """Give the hash of an entry from the hash before it and from what it holds.

    Examples
    --------
    >>> entry_hash(bytes(32), 1, "Created", payload_hash(bytes(16), b"{}")).hex()[:16]
    '7933812da1e406ce'
    """
    place = seq.to_bytes(8, "big")
    return sha256(_PREFIX + previous + place + _framed(kind) + payload_hash).digest()


def link(head: Head, entries: Sequence[New]) -> list[Entry]:
    """Give the entries that follow `head`, with fresh salts."""
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
    """Say why `entry` does not follow `previous`; None if it does."""
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

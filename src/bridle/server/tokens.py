"""Who calls: tokens of the form brd_<id>_<secret>, of which only a hash is kept.

All tokens that are in force are held in memory and read anew every two seconds. So an id that is
unknown costs as much as a wrong secret, and neither reaches the store.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple, cast

from bridle.errors import LimitReached, NotPossible
from bridle.server.endpoints import Caller, Role
from bridle.server.limits import Limits
from bridle.server.problems import Problem, later
from bridle.store.log import Store, TokenRow

__all__ = ["NewToken", "Tokens", "in_force", "is_master", "make_token"]

# 12 characters that are easily read out: no 0, 1, l, o. The secret: 32 bytes.
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_FORM = re.compile(rb"[Bb]earer brd_([a-z2-9]{12})_([A-Za-z0-9_-]{43})")
_NOBODY = hashlib.sha256(secrets.token_bytes(32)).digest()
_REMEDY = "Send the header 'Authorization: Bearer brd_…' with a token that is in force."


class NewToken(NamedTuple):
    """A token that was just made. `text` is shown once, and kept nowhere."""

    row: TokenRow
    text: str

    def __repr__(self) -> str:
        return f"NewToken({self.row.id})"


class _Known(NamedTuple):
    hash: bytes
    expires: float | None
    caller: Caller


def make_token(
    role: Role,
    *,
    now: float,
    agents: tuple[str, ...] | None = None,
    expires: float | None = None,
    note: str = "",
) -> NewToken:
    """Make a token; it is in force once its row is in the store."""
    id = "".join(secrets.choice(_LETTERS) for _ in range(12))
    secret = base64.urlsafe_b64encode(secrets.token_bytes(32)).rstrip(b"=")
    row = TokenRow(id, hashlib.sha256(secret).digest(), role, agents, now, expires, None, note)
    return NewToken(row, f"brd_{id}_{secret.decode()}")


class Tokens:
    """The tokens that are in force, and how much of its rate each has left.

    Parameters
    ----------
    store : Store
        Where they are kept.
    limits : Limits
        How many, how often, and how soon a change elsewhere is seen.
    clock : callable
        The time, for expiry.
    steady : callable
        A clock that is never set back, for rates and for the age of what is held.
    """

    def __init__(
        self,
        store: Store,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._limits = limits
        self._clock = clock
        self._steady = steady
        self._known: dict[str, _Known] = {}
        self._read_at = -float("inf")
        self._changes = 0  # made here, so that an older reading does not undo them
        self._reading: asyncio.Task[None] | None = None
        self._buckets: dict[str, tuple[float, float]] = {}

    # -- checking ----------------------------------------------------------------------------

    async def fresh(self) -> None:
        """See to it that what is held is not too old. Nearly always there is nothing to do."""
        age = self._steady() - self._read_at
        if 2.0 * age < self._limits.token_seconds:
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
            # Whoever waits for it gets the error; if nobody does, the next one tries again.
            self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        if age > self._limits.token_seconds:
            await asyncio.shield(self._reading)

    def caller(self, header: bytes | None) -> Caller:
        """Say whose token it is, or raise a 401."""
        if header is None:
            raise _refused("There is no token.")
        match = _FORM.fullmatch(header)
        if match is None:
            raise _refused("That is no token of the form brd_<id>_<secret>.")
        known = self._known.get(match[1].decode())
        expected = _NOBODY if known is None else known.hash
        same = hmac.compare_digest(hashlib.sha256(match[2]).digest(), expected)
        if known is None or not same:
            raise _refused("The token is unknown, or was revoked.")
        if known.expires is not None and known.expires <= self._clock():
            raise _refused("The token has expired.")
        return known.caller

    def spend(self, caller: Caller) -> None:
        """Count a request against the rate of its token, or raise a 429."""
        limits, now = self._limits, self._steady()
        left, at = self._buckets.get(caller.id, (limits.burst, now))
        left = min(limits.burst, left + (now - at) * limits.rate)
        if left < 1.0:
            self._buckets[caller.id] = left, now
            raise Problem(
                "too_often",
                f"A token may be used {limits.rate:g} times a second.",
                remedy="Wait, or send batches.",
                headers=later((1.0 - left) / limits.rate),
            )
        self._buckets[caller.id] = left - 1.0, now

    # -- the store ---------------------------------------------------------------------------

    async def _read(self) -> None:
        at, changes = self._steady(), self._changes
        rows = await asyncio.to_thread(self._store.tokens)
        if changes == self._changes:
            self.hold(rows, at)

    def hold(self, rows: list[TokenRow], at: float) -> None:
        """Take what the store has, read at a time of the steady clock."""
        now = self._clock()
        self._known = {row.id: _known(row) for row in rows if in_force(row, now)}
        self._buckets = {id: left for id, left in self._buckets.items() if id in self._known}
        self._read_at = at

    def first(self) -> NewToken | None:
        """Make the first token, of an admin, if there was never any. It blocks."""
        at = self._steady()
        with self._store.transaction() as transaction:
            rows = self._store.tokens()
            made = None
            if not rows:
                made = make_token("admin", now=self._clock(), note="made at the first start")
                transaction.add_token(made.row)
        self.hold([*rows, *([made.row] if made else [])], at)
        return made

    async def add(self, made: NewToken) -> None:
        """Keep a token in the store."""
        await asyncio.to_thread(self._add, made.row)
        self._changes += 1
        self._known[made.row.id] = _known(made.row)

    async def revoke(self, id: str) -> bool:
        """Revoke a token, here at once; say whether there was one to revoke."""
        revoked = await asyncio.to_thread(self._revoke, id)
        self._changes += 1
        self._known.pop(id, None)
        return revoked

    async def all(self) -> list[TokenRow]:
        """Give all tokens, oldest first, also those that are not in force."""
        return await asyncio.to_thread(self._store.tokens)

    def _add(self, row: TokenRow) -> None:
        now = self._clock()
        with self._store.transaction() as transaction:
            if sum(in_force(row, now) for row in self._store.tokens()) >= self._limits.tokens:
                raise LimitReached("tokens", self._limits.tokens, "Revoke some.")
            transaction.add_token(row)

    def _revoke(self, id: str) -> bool:
        now = self._clock()
        with self._store.transaction() as transaction:
            masters = [row.id for row in self._store.tokens() if is_master(row, now)]
            if masters == [id]:
                raise NotPossible("It is the last admin token of all agents. Make another first.")
            return transaction.revoke_token(id, now)


def in_force(row: TokenRow, now: float) -> bool:
    """Say whether a token is neither revoked nor expired."""
    return row.revoked is None and (row.expires is None or row.expires > now)


def is_master(row: TokenRow, now: float) -> bool:
    """Say whether a token can make any other."""
    return row.role == "admin" and row.agents is None and in_force(row, now)


def _known(row: TokenRow) -> _Known:
    return _Known(row.hash, row.expires, Caller(row.id, cast(Role, row.role), row.agents, row.note))


def _refused(why: str) -> Problem:
    return Problem("no_token", why, remedy=_REMEDY, headers={"WWW-Authenticate": "Bearer"})

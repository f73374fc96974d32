"""Tokens, of the form brd_<id>_<secret>, of which only a hash is kept; and what they permit.

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
from bridle.server.problems import Problem, retry_after
from bridle.store.log import Store, TokenRow

__all__ = ["NewToken", "Tokens", "in_force", "is_master", "make_token"]

# 12 characters that are easily read out: no 0, 1, l, o. The secret: 32 bytes.
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_FORM = re.compile(rb"[Bb]earer brd_([a-z2-9]{12})_([A-Za-z0-9_-]{43})")
_NOBODY = hashlib.sha256(secrets.token_bytes(32)).digest()
_REMEDY = "Send the header 'Authorization: Bearer brd_…' with a token that is in force."


class NewToken(NamedTuple):
    """A token that was just made. `text` is shown once, and stored nowhere."""

    row: TokenRow
    text: str

    def __repr__(self) -> str:
        return f"NewToken({self.row.id})"


class _Held(NamedTuple):
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
    """The tokens that are in force, and what is left of the rate of each.

    Parameters
    ----------
    store : Store
        Where they are stored.
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
        self._held: dict[str, _Held] = {}
        self._read_at = -float("inf")
        self._changes = 0  # made here, so that an older reading does not undo them
        self._reading: asyncio.Task[None] | None = None
        self._buckets: dict[str, tuple[float, float]] = {}

    # -- checking ----------------------------------------------------------------------------

    async def admit(
        self, header: bytes | None, roles: frozenset[Role], agent: str | None
    ) -> Caller:
        """Return who calls, and count the call against their rate; raise a 401, 429 or 403."""
        caller = await self.authenticate(header)
        self._spend(caller)
        if caller.role not in roles:
            raise Problem(
                "forbidden",
                f"A token of the role {caller.role!r} may not do this.",
                remedy=f"It takes one of: {', '.join(sorted(roles))}.",
            )
        if agent is not None and caller.agents is not None and agent not in caller.agents:
            raise Problem("forbidden", "The token is not for this agent.", field="agent")
        return caller

    async def authenticate(self, header: bytes | None) -> Caller:
        """Return the owner of a token, as the store has it by now; raise a 401."""
        if 2.0 * (self._steady() - self._read_at) >= self._limits.token_seconds:
            await self._refresh()
        return self.caller(header)

    async def _refresh(self) -> None:
        age = self._steady() - self._read_at
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
            # Whoever waits for it gets the error; if nobody does, the next one tries again.
            self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        if age > self._limits.token_seconds:
            await asyncio.shield(self._reading)

    def caller(self, header: bytes | None) -> Caller:
        """Return the owner of a token, as it is held; raise a 401."""
        if header is None:
            raise _refused("There is no token.")
        match = _FORM.fullmatch(header)
        if match is None:
            raise _refused("That is no token of the form brd_<id>_<secret>.")
        held = self._held.get(match[1].decode())
        expected = _NOBODY if held is None else held.hash
        same = hmac.compare_digest(hashlib.sha256(match[2]).digest(), expected)
        if held is None or not same:
            raise _refused("The token is unknown, or was revoked.")
        if held.expires is not None and held.expires <= self._clock():
            raise _refused("The token has expired.")
        return held.caller

    def _spend(self, caller: Caller) -> None:
        limits, now = self._limits, self._steady()
        left, at = self._buckets.get(caller.id, (limits.burst, now))
        left = min(limits.burst, left + (now - at) * limits.rate)
        if left < 1.0:
            self._buckets[caller.id] = left, now
            raise Problem(
                "too_often",
                f"A token may be used {limits.rate:g} times a second.",
                remedy="Wait, or send batches.",
                headers=retry_after((1.0 - left) / limits.rate),
            )
        self._buckets[caller.id] = left - 1.0, now

    # -- the store ---------------------------------------------------------------------------

    async def _read(self) -> None:
        at, changes = self._steady(), self._changes
        rows = await asyncio.to_thread(self._store.tokens)
        if changes == self._changes:
            self.hold(rows, at)

    def hold(self, rows: list[TokenRow], at: float) -> None:
        """Hold what the store has, read at a time of the steady clock."""
        now = self._clock()
        self._held = {row.id: _held(row) for row in rows if in_force(row, now)}
        self._buckets = {id: left for id, left in self._buckets.items() if id in self._held}
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
        """Store a token."""
        await asyncio.to_thread(self._add, made.row)
        self._changes += 1
        self._held[made.row.id] = _held(made.row)

    async def revoke(self, id: str) -> bool:
        """Revoke a token, here at once; return whether there was one to revoke."""
        revoked = await asyncio.to_thread(self._revoke, id)
        self._changes += 1
        self._held.pop(id, None)
        return revoked

    async def all(self) -> list[TokenRow]:
        """Return all tokens, oldest first, also those that are not in force."""
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
    """Return whether a token is neither revoked nor expired."""
    return row.revoked is None and (row.expires is None or row.expires > now)


def is_master(row: TokenRow, now: float) -> bool:
    """Return whether a token can make any other."""
    return row.role == "admin" and row.agents is None and in_force(row, now)


def _held(row: TokenRow) -> _Held:
    return _Held(row.hash, row.expires, Caller(row.id, cast(Role, row.role), row.agents, row.note))


def _refused(why: str) -> Problem:
    return Problem("no_token", why, remedy=_REMEDY, headers={"WWW-Authenticate": "Bearer"})

"""`bridle serve --demo`: all of it alive within seconds, in made-up worlds.

The past of the two agents is written before the first visitor comes, with times that lie back; from
then on simulated people keep coming. Doors are open to whoever comes, for a day.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import time
from collections.abc import AsyncIterator, Callable

import numpy as np

from bridle.errors import NotPossible
from bridle.server.endpoints import Role
from bridle.server.service import Guest, Service
from bridle.server.tokens import make_token
from bridle.store.opening import open_store
from bridle.web.visitor import ApiCaller, Visiting
from bridle_studies.demo.cinema import AGES, CHILD, Cinema
from bridle_studies.demo.clinic import Clinic
from bridle_studies.demo.crowd import ADA, Crowd
from bridle_studies.demo.scenes import Scene

__all__ = ["DemoClock", "check_empty", "check_host", "demonstration"]

DAY = 86_400.0
# The past: so many seconds, of which the first part is teaching.
PAST, TEACHING = 1_200.0, 300.0
AT_ONCE = 4  # examples that are taught at a time


class DemoClock:
    """The time; or, while the past is written, a time that lies back."""

    def __init__(self, real: Callable[[], float] = time.time) -> None:
        self._real = real
        self._at: float | None = None

    def __call__(self) -> float:
        """Return the time."""
        at = self._at
        return self._real() if at is None else at

    def set(self, at: float | None) -> None:
        """Stand at a time; None: run."""
        self._at = at


def check_host(host: str) -> None:
    """Raise an error if others can reach the host: the doors are open to whoever comes."""
    try:
        near = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        near = False
    if not near:
        raise NotPossible(
            f"A demonstration lets in whoever comes, also as admin, and {host!r} may be reached by "
            "others. Leave --host out, or add --force if that is what you want."
        )


def check_empty(db: str) -> None:
    """Raise an error if the store holds anything: it is never filled up with what is made up."""
    with contextlib.closing(open_store(db)) as store:
        if store.agents() or store.tokens():
            raise NotPossible(
                "The database is not empty, and a demonstration is only put into an empty one. "
                "Give another --db or none, or serve this one without --demo."
            )


@contextlib.asynccontextmanager
async def demonstration(
    service: Service, clock: DemoClock, *, share: float = 1.0
) -> AsyncIterator[Service]:
    """Fill a service that has just been started, and have people come while it is used.

    Parameters
    ----------
    service : Service
        It runs, on this clock, and its store is empty.
    clock : DemoClock
        The service's own.
    share : float
        How much of a past it gets; less, in tests.
    """
    tokens = _Tokens(service)
    admin = await tokens.first()
    program = await tokens.hand("agent", "The programs (simulated)")
    teacher = await tokens.hand("teacher", ADA)
    cinema, clinic = await asyncio.to_thread(lambda: (Cinema(), Clinic()))
    scenes: tuple[tuple[Scene, float], ...] = (cinema, 3.0), (clinic, 0.5)
    crowds = [
        Crowd(scene, program=program, teacher=teacher, admin=admin, rate=rate, seed=seed)
        for seed, (scene, rate) in enumerate(scenes)
    ]
    now = clock()
    try:
        await _past(crowds[0], clock, now, answers=14, groups=round(30 * share), together=16)
        await _past(crowds[1], clock, now, answers=4, groups=round(20 * share), together=15)
    finally:
        clock.set(None)
    service.visiting = Visiting(
        agent=cinema.name,
        movies=tuple(arm["id"] for arm in cinema.arms),
        ages=AGES,
        child=CHILD,
        hand=await tokens.hand("agent", "Visitors", (cinema.name,)),
        remember=crowds[0].remember,
    )
    service.guests = await tokens.guests()
    tasks = [asyncio.create_task(crowd.keep_coming()) for crowd in crowds]
    try:
        yield service
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        service.guests, service.visiting = (), None


async def _past(
    crowd: Crowd, clock: DemoClock, now: float, *, answers: int, groups: int, together: int
) -> None:
    """Write the past of one agent."""
    clock.set(now - PAST)
    await crowd.begin()
    taught = now - PAST + TEACHING
    when = np.linspace(now - PAST + 1.0, taught, answers)
    await crowd.teach(when.tolist(), clock.set, AT_ONCE)
    await crowd.disagree()
    # Squared: they come slowly at first, and so often in the end as from then on.
    when = now - (now - taught) * np.linspace(1.0, 0.0, groups, endpoint=False) ** 2
    await crowd.live_before(when.tolist(), clock.set, together)


class _Tokens:
    """Makes the tokens of a demonstration, all for a day."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._expires = service.clock() + DAY
        self._admin: ApiCaller | None = None
        self._first = ""

    async def first(self) -> ApiCaller:
        """Make the admin's, with which the others are made."""
        service = self._service
        made = make_token("admin", now=service.clock(), expires=self._expires, note="Visitor")
        await service.tokens.add(made)
        self._admin, self._first = ApiCaller(service, made.text), made.text
        return self._admin

    async def hand(self, role: Role, note: str, agents: tuple[str, ...] | None = None) -> ApiCaller:
        """Make a token for somebody who calls from here."""
        return ApiCaller(self._service, await self._grant(role, note, agents))

    async def guests(self) -> tuple[Guest, ...]:
        """Make a token of each role for whoever comes."""
        teacher = await self._grant("teacher", "Visitor", None)
        auditor = await self._grant("auditor", "Visitor", None)
        guests = ("teacher", teacher), ("auditor", auditor), ("admin", self._first)
        return tuple(Guest(name, token) for name, token in guests)

    async def _grant(self, role: Role, note: str, agents: tuple[str, ...] | None) -> str:
        assert self._admin is not None
        body = {"role": role, "note": note, "expires": self._expires, "agents": agents}
        made = await self._admin.call("POST /v1/tokens", body)
        return str(made["token"])

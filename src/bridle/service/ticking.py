"""When the wait for a reward is over, or the life of an example: a ticker that says so in the log.

The clock decides only when that is. What follows from it, the log alone says.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from bridle.errors import BridleError, Busy
from bridle.store.keeping import load
from bridle.store.kept import Kept
from bridle.store.writing import Desk

if TYPE_CHECKING:
    from bridle.service.serving import Service

__all__ = ["Ticker"]

log = logging.getLogger("bridle.service")

MOST_AGENTS = 100  # that are looked at in one tick
ENDING_SECONDS = 0.25  # after which no further example of an agent is ended in one tick
OVER = "Its time is over."  # as `Agent.end_examples` says it


class _Noted(NamedTuple):
    version: int
    due: float | None  # when a decision may have waited long enough, or an example ends


class Ticker:
    """Knows of each agent when to look at it next.

    It learns that from all work that is done. Agents that nothing was done with since the start, or
    that others have changed, are found by a sweep over the heads of all logs.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._noted: dict[str, _Noted] = {}
        self._held: set[str] = set()  # agents that the writer has worked with
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to tick."""
        limits = self._service.limits
        self._tasks = [
            asyncio.create_task(self._every(limits.sweep_seconds, self.sweep, at_once=True)),
            asyncio.create_task(self._every(limits.tick_seconds, self.tick)),
        ]

    async def stop(self) -> None:
        """Tick no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def note(self, agent: str, kept: Kept) -> None:
        """Take note of an agent that work was just done with. It is called by the writer."""
        self._held.add(agent)
        self._noted[agent] = _noted(kept)

    def forget(self, agent: str) -> None:
        """Know nothing of an agent: its last work failed, and the sweep must look again."""
        self._noted.pop(agent, None)

    async def tick(self) -> int:
        """Have expired what has waited long enough, and ended what is over; say how many."""
        now = self._service.clock()
        noted = list(self._noted.items())
        due = [agent for agent, (_, at) in noted if at is not None and at <= now]
        expired = await asyncio.gather(*(self._expire(agent) for agent in due[:MOST_AGENTS]))
        return sum(expired)

    async def sweep(self) -> None:
        """Look at all agents of which the log says more than what was noted."""
        for row in await self._service.aside(self._service.store.agents):
            noted = self._noted.get(row.name)
            if noted is None or noted.version < row.head.seq:
                with contextlib.suppress(Busy):
                    await self._look(row.name, row.head.seq)

    async def _look(self, agent: str, version: int) -> None:
        service = self._service
        try:
            if agent in self._held:
                await service.do(agent, lambda desk: None)
            else:
                # Not through the writer: a long log takes long, and others want to write.
                noted = await service.aside(lambda: _noted(load(service.store, agent)))
                known = self._noted.get(agent)
                if known is None or known.version < noted.version:
                    self._noted[agent] = noted
        except Busy:
            raise
        except BridleError as error:
            log.warning("the deadlines of agent %s are not known: %s", agent, error)
            self._noted[agent] = _Noted(version, None)

    async def _expire(self, agent: str) -> int:
        most = self._service.limits.expired_at_once

        def expire(desk: Desk) -> int:
            ids = list(islice(desk.kept.deadlines.due(desk.now), most))
            for id in ids:
                desk.kept.record(desk.kept.agent.make.expired(id, at=desk.now))
            return len(ids) + _end(desk, most, self._service.steady)

        try:
            return await self._service.do(agent, expire)
        except BridleError as error:  # the next tick tries again
            log.warning("what is over of agent %s could not end: %s", agent, error)
            return 0

    async def _every(self, seconds: float, do: object, *, at_once: bool = False) -> None:
        assert callable(do)
        if not at_once:
            await asyncio.sleep(seconds)
        while True:
            try:
                await do()
            except BridleError as error:
                log.warning("the ticker will try again: %s", error)
            except Exception:
                log.exception("the ticker failed for a reason that was not foreseen")
            await asyncio.sleep(seconds)


def _end(desk: Desk, most: int, steady: Callable[[], float]) -> int:
    """Retract examples whose time is over, one or more; the rest is still due at the next tick."""
    kept, began, ended = desk.kept, steady(), 0
    for id in kept.lives.due(desk.now, most):
        # What an example taught is learned anew without it, which takes long where there are many.
        if ended and steady() - began > ENDING_SECONDS:
            break
        kept.record(kept.agent.make.retracted(id, note=OVER, at=desk.now))
        ended += 1
    return ended


def _noted(kept: Kept) -> _Noted:
    wait, since = kept.know.wait, kept.deadlines.since
    dues = [since[0][1] + wait] if since and wait is not None else []
    ends = kept.lives.next
    return _Noted(kept.version, min([*dues, *([] if ends is None else [ends])], default=None))

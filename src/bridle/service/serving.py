"""A service: a store, its one writer, and what stands around them in a running process.

Handlers use three things of it: `do` for all that has to do with an agent in memory, `aside` for
slow reads, and `clock`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from bridle.errors import BridleError, Busy, StoreFailed, UnknownId
from bridle.events import Created
from bridle.service.limits import Limits
from bridle.service.metrics import Metrics
from bridle.service.ticking import Ticker
from bridle.service.tokens import NewToken, Tokens
from bridle.store.records import Head, New, Store
from bridle.store.writing import Desk, Halfway, Work, Writer

if TYPE_CHECKING:
    from bridle.service.demonstrating.visiting import Visiting
    from bridle.service.pages.jobs import Jobs

__all__ = ["Door", "Service"]

T = TypeVar("T")
log = logging.getLogger("bridle.service")


class Door(NamedTuple):
    """A way into the pages of a demonstration, for whoever comes."""

    name: str
    token: str


class Service:
    """All that a handler needs. It is started and stopped inside an event loop.

    Parameters
    ----------
    store : Store
        Where the logs are. It is not closed with the service.
    limits : Limits, optional
        How much is taken.
    clock : callable
        Gives the time, in seconds since 1970.
    steady : callable
        Gives a time that is never set back; for rates.
    """

    def __init__(
        self,
        store: Store,
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.limits = limits if limits is not None else Limits()
        self.clock = clock
        self.steady = steady
        self.tokens = Tokens(store, self.limits, clock=clock, steady=steady)
        self.metrics = Metrics()
        self.ticker = Ticker(self)
        self.in_flight = 0
        self.document = b""  # the OpenAPI document; the app writes it
        self.open_doors: tuple[Door, ...] = ()  # of a demonstration: who may come in, by a click
        self.visiting: Visiting | None = None  # of a demonstration: how a visitor is recommended to
        self.jobs: Jobs | None = None  # long work that pages began: see `jobs_of`
        self.leaving = False  # whether the server is about to stop: what has no end ends now
        self._aside = 0
        self._many: dict[Any, Any] = {}
        self._writer: Writer | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.metrics.watch("waiting", "Work that waits for the writer", lambda: self.waiting)
        self.metrics.watch("in_flight", "Requests under way", lambda: self.in_flight)
        self.metrics.watch("agents_held", "Agents in memory", lambda: self.agents_held)

    # -- beginning and end -------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether it was started, and not stopped."""
        return self._writer is not None

    async def start(self, *, ticking: bool = True) -> NewToken | None:
        """Begin; give the first admin token if this made it. It is told nowhere else."""
        limits = self.limits
        first = await asyncio.to_thread(self.tokens.first)
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(limits.aside_threads, thread_name_prefix="bridle-aside")
        self._writer = Writer(
            self.store,
            waiting=limits.waiting,
            together=limits.together,
            agents=limits.agents_held,
            clock=self.clock,
            deliver=self._deliver,
        )
        if ticking:
            self.ticker.start()
        return first

    async def stop(self) -> None:
        """Do what waits, keep snapshots, and end."""
        await self.ticker.stop()
        jobs, self.jobs = self.jobs, None
        if jobs is not None:
            await asyncio.to_thread(jobs.close)
        writer, pool = self._writer, self._pool
        if writer is not None:
            await asyncio.to_thread(writer.close)
        if pool is not None:
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)
        # What the writer handed out last is on its way through the loop.
        await asyncio.sleep(0)
        self._writer = self._pool = None

    # -- what handlers use -------------------------------------------------------------------

    async def do(
        self,
        agent: str,
        do: Callable[[Desk], T],
        *,
        created: Created | None = None,
        timeout: float | None = None,
        many: Callable[[Desk, list[Any]], list[T] | None] | None = None,
        item: Any = None,
    ) -> T:
        """Have the writer do something with an agent; give what it gave, after the commit.

        With `many`, a function of a module, what waits in a row is done at once: see `Work`.

        A request has a limit on its time already; `timeout` is for who has none. If it passes, the
        work may be done all the same.
        """
        writer, loop = self._writer, self._loop
        if writer is None or loop is None:
            raise StoreFailed("The service is not running.")
        future: asyncio.Future[T] = loop.create_future()

        def watched(desk: Desk) -> tuple[T, list[New]]:
            return self._watched(agent, desk, do, created)

        # The writer only hands it back.
        together = None if many is None else self._watched_many(many)
        work = Work(agent, watched, created, cast(Any, future), many=together, item=item)
        writer.put(work)
        if timeout is None:
            return await future
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise StoreFailed(f"Nothing was heard of the work for {timeout:g} s.", True) from None

    async def aside(self, do: Callable[[], T]) -> T:
        """Do something slow that reads, in a thread of its own; `Busy` if too much waits."""
        pool, limits = self._pool, self.limits
        if pool is None:
            raise StoreFailed("The service is not running.")
        if self._aside >= limits.aside_threads + limits.aside_waiting:
            raise Busy(self._aside)
        self._aside += 1
        future = asyncio.get_running_loop().run_in_executor(pool, do)
        future.add_done_callback(self._done_aside)
        # Who waits may give up; the thread goes on, and counts until it ends.
        return await asyncio.shield(future)

    async def check_ready(self) -> None:
        """Raise `StoreFailed` if the store does not answer, or does not take what is written."""
        await self.aside(lambda: self.store.token(""))
        writer = self._writer
        if writer is not None and writer.failing:
            # Nobody sends work to who is not ready: an empty commit is tried in its place.
            with contextlib.suppress(UnknownId):
                await self.do("", lambda desk: None)

    @property
    def waiting(self) -> int:
        """How much work waits for the writer."""
        return 0 if self._writer is None else self._writer.waiting

    @property
    def agents_held(self) -> int:
        """How many agents are in memory."""
        return 0 if self._writer is None else self._writer.agents_held

    def head_of(self, agent: str) -> Head | None:
        """Give the end of a log as memory has it: it holds all that was answered so far."""
        kept = None if self._writer is None else self._writer.held(agent)
        return None if kept is None else kept.head

    # -- the writer's thread -----------------------------------------------------------------

    def _watched(
        self, agent: str, desk: Desk, do: Callable[[Desk], T], created: Created | None
    ) -> tuple[T, list[New]]:
        kept = desk.kept
        before = len(kept.staged)
        try:
            given = do(desk)
        except Exception as error:
            if len(kept.staged) == before or isinstance(error, StoreFailed):
                raise
            raise Halfway from error
        self.ticker.note(agent, kept)
        return given, kept.staged[0 if created is not None else before :]

    def _watched_many(self, many: Callable[[Desk, list[Any]], list[T] | None]) -> Any:
        """Give what does many pieces of work, and says what was recorded. One for each `many`."""
        found = self._many.get(many)
        if found is None:

            def found(desk: Desk, items: list[Any]) -> list[tuple[T, list[New]]] | None:
                kept = desk.kept
                before = len(kept.staged)
                given = many(desk, items)
                if given is None:
                    return None
                self.ticker.note(desk.agent, kept)
                nothing: list[New] = []
                staged = kept.staged[before:]
                return [(one, nothing if n else staged) for n, one in enumerate(given)]

            self._many[many] = found
        return found

    def _deliver(self, works: Sequence[Work[Any]]) -> None:
        assert self._loop is not None
        # A loop that is closed has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._hand_out, works)

    # -- the loop ----------------------------------------------------------------------------

    def _hand_out(self, works: Sequence[Work[Any]]) -> None:
        kinds: Counter[str] = Counter()
        failed = False
        for work in works:
            future, error = cast("asyncio.Future[Any]", work.result), work.error
            if error is not None:
                failed = failed or isinstance(error, StoreFailed)
                if not isinstance(error, BridleError) or isinstance(error, StoreFailed):
                    self.ticker.forget(work.agent)
                if not future.done():
                    future.set_exception(error)
                continue
            given, staged = work.given
            for new in staged:
                kinds[new.kind] += 1
            if not future.done():
                future.set_result(given)
        self.metrics.group(len(works), failed)
        self.metrics.recorded(kinds)

    def _done_aside(self, future: asyncio.Future[Any]) -> None:
        self._aside -= 1
        if not future.cancelled():
            future.exception()  # it is told to who waits, if anyone does

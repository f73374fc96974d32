"""What can be watched: counts and times, in the form that Prometheus reads.

Requests are counted by hand, in plain numbers, and only told in Prometheus' form: they are counted
thousands of times a second, and asked for every few seconds.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from bridle.agent.events import Created
from bridle.errors import BridleError, Busy, StoreFailed, UnknownId
from bridle.server.limits import Limits
from bridle.server.tokens import NewToken, Tokens
from bridle.store.aggregate import Aggregate, load
from bridle.store.log import Head, New, Store
from bridle.store.writer import PartialWork, UnitOfWork, Work, Writer

if TYPE_CHECKING:
    from bridle.web.jobs import Jobs
    from bridle.web.visitor import Visiting

__all__ = ["Door", "Metrics", "Service", "Ticker"]


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_GROUPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_OUTCOMES = {"Decided": "decision", "Abstained": "abstention", "Asked": "question"}


class _Requests(Collector):
    """Requests by endpoint and status, and the times to answer them. For one thread."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, int], int] = {}
        # For each endpoint: how many in each bucket, those over the last, and the sum of all times.
        self.times: dict[tuple[str, str], list[float]] = {}

    def add(self, method: str, path: str, status: int, seconds: float) -> None:
        key = method, path, status
        self.counts[key] = self.counts.get(key, 0) + 1
        times = self.times.get(key[:2])
        if times is None:
            times = self.times[key[:2]] = [0.0] * (len(_SECONDS) + 2)
        times[bisect_left(_SECONDS, seconds)] += 1.0
        times[-1] += seconds

    def collect(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """Tell all of it."""
        counts = CounterMetricFamily(
            "bridle_requests", "Requests", labels=["method", "path", "status"]
        )
        for (method, path, status), count in self.counts.items():
            counts.add_metric([method, path, str(status)], count)
        yield counts
        times = HistogramMetricFamily(
            "bridle_request_seconds", "Time to answer", labels=["method", "path"]
        )
        for (method, path), (*buckets, total) in self.times.items():
            ends = [*map(str, _SECONDS), "+Inf"]
            sums = [sum(buckets[: i + 1]) for i in range(len(ends))]
            times.add_metric([method, path], list(zip(ends, sums, strict=True)), total)
        yield times


class Metrics:
    """Counts of one service, apart from those of any other in the same process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = _Requests()
        registry.register(self._requests)
        self._groups = Histogram(
            "bridle_group_size", "Pieces of work in one commit", registry=registry, buckets=_GROUPS
        )
        self._commits = Counter("bridle_commits", "Groups that were committed", registry=registry)
        self._failures = Counter(
            "bridle_store_failures", "Groups that the store failed to commit", registry=registry
        )
        self._events = Counter("bridle_events", "Events by kind", ["kind"], registry=registry)
        self._outcomes = Counter(
            "bridle_outcomes", "Decisions, abstentions, questions", ["outcome"], registry=registry
        )
        for outcome in _OUTCOMES.values():
            self._outcomes.labels(outcome)

    def watch(self, name: str, words: str, value: Callable[[], float]) -> None:
        """Add a value that is looked up whenever it is asked for."""
        Gauge(f"bridle_{name}", words, registry=self._registry).set_function(value)

    def answered(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request. `path` is the table's, so that there are few."""
        self._requests.add(method, path, status, seconds)

    def group(self, size: int, failed: bool) -> None:
        """Count a group of work that was committed, or that failed."""
        self._groups.observe(size)
        (self._failures if failed else self._commits).inc()

    def recorded(self, counts: Mapping[str, int]) -> None:
        """Count events that were committed, by kind."""
        for kind, count in counts.items():
            self._events.labels(kind).inc(count)
            outcome = _OUTCOMES.get(kind)
            if outcome is not None:
                self._outcomes.labels(outcome).inc(count)

    def text(self) -> bytes:
        """Give all of it."""
        return generate_latest(self._registry)


# --- When the wait for a reward is over, or the life of an example: a ticker that says so in the
# log
#
# The clock decides only when that is. What follows from it, the log alone says.


log = logging.getLogger("bridle.server")

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

    def note(self, agent: str, kept: Aggregate) -> None:
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
                await service.do(agent, lambda unit_of_work: None)
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

        def expire(unit_of_work: UnitOfWork) -> int:
            ids = list(islice(unit_of_work.aggregate.deadlines.due(unit_of_work.now), most))
            for id in ids:
                unit_of_work.aggregate.record(
                    unit_of_work.aggregate.agent.make.expired(id, at=unit_of_work.now)
                )
            return len(ids) + _end(unit_of_work, most, self._service.steady)

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


def _end(unit_of_work: UnitOfWork, most: int, steady: Callable[[], float]) -> int:
    """Retract examples whose time is over, one or more; the rest is still due at the next tick."""
    kept, began, ended = unit_of_work.aggregate, steady(), 0
    for id in kept.expiries.due(unit_of_work.now, most):
        # What an example taught is learned anew without it, which takes long where there are many.
        if ended and steady() - began > ENDING_SECONDS:
            break
        kept.record(kept.agent.make.retracted(id, note=OVER, at=unit_of_work.now))
        ended += 1
    return ended


def _noted(kept: Aggregate) -> _Noted:
    wait, since = kept.state.wait, kept.deadlines.since
    dues = [since[0][1] + wait] if since and wait is not None else []
    ends = kept.expiries.next
    return _Noted(kept.version, min([*dues, *([] if ends is None else [ends])], default=None))


# --- A service: a store, its one writer, and what stands around them in a running process -
#
# Handlers use three things of it: `do` for all that has to do with an agent in memory, `aside` for
# slow reads, and `clock`.


T = TypeVar("T")


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
        do: Callable[[UnitOfWork], T],
        *,
        created: Created | None = None,
        timeout: float | None = None,
        many: Callable[[UnitOfWork, list[Any]], list[T] | None] | None = None,
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

        def watched(unit_of_work: UnitOfWork) -> tuple[T, list[New]]:
            return self._watched(agent, unit_of_work, do, created)

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
                await self.do("", lambda unit_of_work: None)

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
        self,
        agent: str,
        unit_of_work: UnitOfWork,
        do: Callable[[UnitOfWork], T],
        created: Created | None,
    ) -> tuple[T, list[New]]:
        kept = unit_of_work.aggregate
        before = len(kept.staged)
        try:
            given = do(unit_of_work)
        except Exception as error:
            if len(kept.staged) == before or isinstance(error, StoreFailed):
                raise
            raise PartialWork from error
        self.ticker.note(agent, kept)
        return given, kept.staged[0 if created is not None else before :]

    def _watched_many(self, many: Callable[[UnitOfWork, list[Any]], list[T] | None]) -> Any:
        """Give what does many pieces of work, and says what was recorded. One for each `many`."""
        found = self._many.get(many)
        if found is None:

            def found(
                unit_of_work: UnitOfWork, items: list[Any]
            ) -> list[tuple[T, list[New]]] | None:
                kept = unit_of_work.aggregate
                before = len(kept.staged)
                given = many(unit_of_work, items)
                if given is None:
                    return None
                self.ticker.note(unit_of_work.agent, kept)
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
        kinds: collections.Counter[str] = collections.Counter()
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

"""A service: a store, its one writer, and what a running process has around them.

Handlers use `Service.do` for all that needs an agent in memory, `Service.aside` for slow reads, and
`Service.clock`. Beside it stand the `Metrics` of a service and its `Ticker`.
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

from bridle.agent.commands import OVER
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

__all__ = ["Guest", "Metrics", "Service", "Ticker"]


# --- Metrics ------------------------------------------------------------------------------

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_GROUPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_OUTCOMES = {"Decided": "decision", "Abstained": "abstention", "Asked": "question"}


class _Requests(Collector):
    """Requests by endpoint and status, and the times to answer them. For one thread.

    They are counted in plain numbers, thousands of times a second, and put into Prometheus' form
    only when it asks, every few seconds.
    """

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
        """Yield all counts and times, for Prometheus."""
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
    """Counts and times of one service, apart from any other in the same process."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = _Requests()
        registry.register(self._requests)
        self._groups = Histogram(
            "bridle_group_size", "Units of work in one commit", registry=registry, buckets=_GROUPS
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
        """Add a gauge whose value is read whenever Prometheus asks."""
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
        """Return all metrics in Prometheus' text form."""
        return generate_latest(self._registry)


# --- The ticker: records in the log when the wait for a reward is over, or the life of an example
#
# The clock decides only when that is. What follows from it, the log alone decides.


log = logging.getLogger("bridle.server")

MAX_AGENTS = 100  # of one tick
ENDING_SECONDS = 0.25  # after which no further example of an agent is ended in one tick


class _Due(NamedTuple):
    version: int  # of the agent that it was computed from
    at: float | None  # when a decision may have waited long enough, or an example ends


class Ticker:
    """Expires decisions and ends examples when their time is over.

    When that is next, it learns from all work that is done. Agents that nothing was done with since
    the start, or that other processes have changed, are found by a sweep over all heads of logs.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._due: dict[str, _Due] = {}
        self._held: set[str] = set()  # agents that the writer has worked with
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start ticking."""
        limits = self._service.limits
        self._tasks = [
            asyncio.create_task(self._every(limits.sweep_seconds, self.sweep, at_once=True)),
            asyncio.create_task(self._every(limits.tick_seconds, self.tick)),
        ]

    async def stop(self) -> None:
        """Stop ticking."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def note(self, agent: str, aggregate: Aggregate) -> None:
        """Update what is due of an agent that work was just done with. The writer calls it."""
        self._held.add(agent)
        self._due[agent] = _due(aggregate)

    def forget(self, agent: str) -> None:
        """Drop what is due of an agent: its last work failed, and the sweep must read it again."""
        self._due.pop(agent, None)

    async def tick(self) -> int:
        """Expire decisions and end examples whose time is over; return how many."""
        now = self._service.clock()
        due = [agent for agent, (_, at) in [*self._due.items()] if at is not None and at <= now]
        expired = await asyncio.gather(*(self._expire(agent) for agent in due[:MAX_AGENTS]))
        return sum(expired)

    async def sweep(self) -> None:
        """Read all agents whose log has grown since what is due of them was computed."""
        for row in await self._service.aside(self._service.store.agents):
            due = self._due.get(row.name)
            if due is None or due.version < row.head.seq:
                with contextlib.suppress(Busy):
                    await self._read(row.name, row.head.seq)

    async def _read(self, agent: str, version: int) -> None:
        service = self._service
        try:
            if agent in self._held:
                await service.do(agent, lambda work: None)
            else:
                # Not through the writer: a long log takes long, and others want to write.
                due = await service.aside(lambda: _due(load(service.store, agent)))
                known = self._due.get(agent)
                if known is None or known.version < due.version:
                    self._due[agent] = due
        except Busy:
            raise
        except BridleError as error:
            log.warning("the deadlines of agent %s are not known: %s", agent, error)
            self._due[agent] = _Due(version, None)

    async def _expire(self, agent: str) -> int:
        most = self._service.limits.expired_at_once

        def expire(work: UnitOfWork) -> int:
            aggregate = work.aggregate
            ids = list(islice(aggregate.deadlines.due(work.now), most))
            for id in ids:
                aggregate.record(aggregate.agent.make.expired(id, at=work.now))
            return len(ids) + _end_examples(work, most, self._service.steady)

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
                log.exception("the ticker failed unexpectedly")
            await asyncio.sleep(seconds)


def _end_examples(work: UnitOfWork, most: int, steady: Callable[[], float]) -> int:
    """Retract examples whose time is over, one or more; the rest is still due at the next tick."""
    aggregate, began, ended = work.aggregate, steady(), 0
    for id in aggregate.expiries.due(work.now, most):
        # The limits are refitted without the example, which takes long where there are many.
        if ended and steady() - began > ENDING_SECONDS:
            break
        aggregate.record(aggregate.agent.make.retracted(id, note=OVER, at=work.now))
        ended += 1
    return ended


def _due(aggregate: Aggregate) -> _Due:
    wait, since = aggregate.state.wait, aggregate.deadlines.since
    times = [since[0][1] + wait] if since and wait is not None else []
    ends = aggregate.expiries.next
    if ends is not None:
        times.append(ends)
    return _Due(aggregate.state.version, min(times, default=None))


# --- The service --------------------------------------------------------------------------


T = TypeVar("T")


class Guest(NamedTuple):
    """A role that anyone may take on the pages of a demonstration, with its token."""

    name: str
    token: str


class Service:
    """What handlers work with. It is started and stopped inside an event loop.

    Parameters
    ----------
    store : Store
        Where the logs are. It is not closed with the service.
    limits : Limits, optional
        How much is accepted.
    clock : callable
        Returns the time, in seconds since 1970.
    steady : callable
        Returns a time that is never set back; for rates.
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
        self.guests: tuple[Guest, ...] = ()  # of a demonstration: who may sign in by a click
        self.visiting: Visiting | None = None  # of a demonstration: its recommendations
        self.jobs: Jobs | None = None  # long work that pages started: see `jobs_of`
        self.leaving = False  # whether the server is about to stop: endless streams end
        self._aside = 0
        self._many: dict[Any, Any] = {}
        self._writer: Writer | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.metrics.watch("waiting", "Work that waits for the writer", lambda: self.waiting)
        self.metrics.watch("in_flight", "Requests under way", lambda: self.in_flight)
        self.metrics.watch("agents_held", "Agents in memory", lambda: self.agents_held)

    # -- start and stop ----------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether it was started, and not stopped."""
        return self._writer is not None

    async def start(self, *, ticking: bool = True) -> NewToken | None:
        """Start; return the first admin token if this made it. It is shown nowhere else."""
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
        """Do the work that waits, write snapshots, and stop."""
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
        """Return what `do` returns in the writer's thread, once its events are committed.

        With `many`, a function of a module, work that waits in a row is done at once: see `Work`.

        Requests have a time limit of their own; `timeout` is for callers that have none. If it
        passes, the work may be done all the same.
        """
        writer, loop = self._writer, self._loop
        if writer is None or loop is None:
            raise StoreFailed("The service is not running.")
        future: asyncio.Future[T] = loop.create_future()

        def watched(unit: UnitOfWork) -> tuple[T, list[New]]:
            return self._watched(agent, unit, do, created)

        # The writer only hands the future back.
        together = None if many is None else self._watched_many(many)
        work = Work(agent, watched, created, cast(Any, future), many=together, item=item)
        writer.put(work)
        if timeout is None:
            return await future
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise StoreFailed(f"The work did not end within {timeout:g} s.", True) from None

    async def aside(self, do: Callable[[], T]) -> T:
        """Return the result of a slow read in another thread; raise `Busy` if too many wait."""
        pool, limits = self._pool, self.limits
        if pool is None:
            raise StoreFailed("The service is not running.")
        if self._aside >= limits.aside_threads + limits.aside_waiting:
            raise Busy(self._aside)
        self._aside += 1
        future = asyncio.get_running_loop().run_in_executor(pool, do)
        future.add_done_callback(self._done_aside)
        # The caller may give up; the thread goes on, and counts until it ends.
        return await asyncio.shield(future)

    async def check_ready(self) -> None:
        """Raise `StoreFailed` if the store does not answer, or does not take what is written."""
        await self.aside(lambda: self.store.token(""))
        writer = self._writer
        if writer is not None and writer.failing:
            # A service that is not ready gets no work: an empty commit is tried in its place.
            with contextlib.suppress(UnknownId):
                await self.do("", lambda work: None)

    @property
    def waiting(self) -> int:
        """How many units of work wait for the writer."""
        return 0 if self._writer is None else self._writer.waiting

    @property
    def agents_held(self) -> int:
        """How many agents are in memory."""
        return 0 if self._writer is None else self._writer.agents_held

    def head_of(self, agent: str) -> Head | None:
        """Return the end of a log as memory has it: it covers all that was answered so far."""
        held = None if self._writer is None else self._writer.held(agent)
        return None if held is None else held.head

    # -- the writer's thread -----------------------------------------------------------------

    def _watched(
        self,
        agent: str,
        work: UnitOfWork,
        do: Callable[[UnitOfWork], T],
        created: Created | None,
    ) -> tuple[T, list[New]]:
        aggregate = work.aggregate
        before = len(aggregate.staged)
        try:
            given = do(work)
        except Exception as error:
            if len(aggregate.staged) == before or isinstance(error, StoreFailed):
                raise
            raise PartialWork from error
        self.ticker.note(agent, aggregate)
        return given, aggregate.staged[0 if created is not None else before :]

    def _watched_many(self, many: Callable[[UnitOfWork, list[Any]], list[T] | None]) -> Any:
        """Return `many` with its events beside the results; the same for the same `many`."""
        found = self._many.get(many)
        if found is None:

            def found(work: UnitOfWork, items: list[Any]) -> list[tuple[T, list[New]]] | None:
                aggregate = work.aggregate
                before = len(aggregate.staged)
                given = many(work, items)
                if given is None:
                    return None
                self.ticker.note(work.agent, aggregate)
                nothing: list[New] = []
                staged = aggregate.staged[before:]
                return [(one, nothing if n else staged) for n, one in enumerate(given)]

            self._many[many] = found
        return found

    def _deliver(self, works: Sequence[Work[Any]]) -> None:
        assert self._loop is not None
        # Nobody waits in a loop that is closed.
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
            future.exception()  # whoever waits gets it; nobody may

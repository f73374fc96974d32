"""The one thread that makes all changes of a store: many units of work in one commit.

`Work` is called with a `UnitOfWork`: an agent as the log has it, on which it records events. What
it returns is handed out after the commit, and not before. If a commit fails, or nobody knows
whether it happened, the agents that it was about are dropped from memory: they are read from the
log again when they are next needed.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from bridle.agent.events import Created, Event, event_from_json
from bridle.errors import BridleError, Busy, Duplicate, StoreFailed, UnknownId
from bridle.store.aggregate import Aggregate, catch_up, event_of, keep_snapshot, load, next_snapshot
from bridle.store.log import Head, Store, Transaction

__all__ = ["Existing", "PartialWork", "UnitOfWork", "Work", "Writer"]

T = TypeVar("T")
log = logging.getLogger("bridle.store")

MOST_WAITING = 1_024
MOST_TOGETHER = 256
MOST_AGENTS = 100


class Existing(NamedTuple):
    """An event that has a name, the digest of its request, and its sequence."""

    event: Event
    digest: bytes | None
    seq: int


class PartialWork(Exception):
    """Work failed after a part of it was recorded, or unexpectedly: nothing of it may be kept.

    Memory may have that part already. So the whole commit is dropped, and what else was in it is
    done again, each by itself.
    """


class UnitOfWork:
    """What work is done with: one agent, a transaction and the time.

    Attributes
    ----------
    agent : str
        Its name.
    aggregate : Aggregate
        The agent, as the log has it and with what was recorded before in the same commit.
    now : float
        The time, in seconds since 1970: one for all events of a unit of work.
    """

    def __init__(
        self, aggregate: Aggregate, agent: str, transaction: Transaction, now: float
    ) -> None:
        self.aggregate = aggregate
        self.now = now
        self.agent = agent
        self._transaction = transaction

    def find(self, space: str, id: str) -> Existing | None:
        """Return the event that has a name, whenever it came."""
        return self.find_many(space, [id])[0]

    def find_many(self, space: str, ids: Sequence[str]) -> list[Existing | None]:
        """Return the event that has each of these names; None where there is none."""
        staged = [self.aggregate.staged_as(space, id) for id in ids]
        open_ = [id for id, one in zip(ids, staged, strict=True) if one is None]
        places = self._transaction.find(self.agent, space, open_) if open_ else {}
        found: list[Existing | None] = []
        for id, one in zip(ids, staged, strict=True):
            if one is not None:
                found.append(Existing(*one))
            elif id in places:
                seq, digest = places[id]
                [entry] = self._transaction.read(self.agent, seq - 1, 1)
                found.append(Existing(event_of(entry), digest, seq))
            else:
                found.append(None)
        return found

    def at(self, seq: int) -> Event | None:
        """Return the event at a place of the log; None beyond its end."""
        head, staged = self.aggregate.head.seq, self.aggregate.staged
        if seq > head:
            place = seq - head - 1
            return (
                event_from_json(json.loads(staged[place].payload)) if place < len(staged) else None
            )
        [entry] = self._transaction.read(self.agent, seq - 1, 1)
        return event_of(entry)


@dataclass(eq=False)
class Work(Generic[T]):
    """Something to be done with one agent; `result` has what it gave, after the commit.

    `created` begins a new agent. Work that waits in a row with the same `many` may be done at once:
    it takes the `item` of each and gives what each would have given, or None if they do not go
    together. If it refuses them, each is done by itself, and learns what is wrong with it.
    """

    agent: str
    do: Callable[[UnitOfWork], T]
    created: Created | None = None
    result: Any = None  # what hands it out: a Future, or what `deliver` knows
    given: Any = None
    error: BaseException | None = None
    many: Callable[[UnitOfWork, list[Any]], list[T] | None] | None = None
    item: Any = None


class Writer:
    """Does work in the order in which it comes, as much of it in one commit as waits.

    Parameters
    ----------
    store : Store
        Where to.
    waiting : int
        How much work may wait; more is refused with `Busy`.
    together : int
        How much work is done in one commit.
    agents : int
        How many agents are held in memory.
    clock : callable
        Returns the time.
    deliver : callable, optional
        Takes a group of work when it is done, in the place of its futures.
    """

    def __init__(
        self,
        store: Store,
        *,
        waiting: int = MOST_WAITING,
        together: int = MOST_TOGETHER,
        agents: int = MOST_AGENTS,
        clock: Callable[[], float] = time.time,
        deliver: Callable[[Sequence[Work[Any]]], None] | None = None,
    ) -> None:
        self._store = store
        self._queue: queue.Queue[Work[Any] | None] = queue.Queue(waiting)
        self._together = together
        self._agents = agents
        self._clock = clock
        self._deliver = deliver if deliver is not None else _hand_out
        self._held: OrderedDict[str, Aggregate] = OrderedDict()
        self._closing = threading.Event()
        self.failing = False  # whether the last commit failed
        self._thread = threading.Thread(target=self._run, name="bridle-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How much work waits."""
        return self._queue.qsize()

    @property
    def agents_held(self) -> int:
        """How many agents are in memory."""
        return len(self._held)

    def held(self, agent: str) -> Aggregate | None:
        """Return an agent that is in memory, for its `head`: the rest is the thread's."""
        return self._held.get(agent)

    def submit(
        self, agent: str, do: Callable[[UnitOfWork], T], *, created: Created | None = None
    ) -> Work[T]:
        """Hand in work; `Busy` if too much waits."""
        work = Work(agent, do, created, Future())
        self.put(work)
        return work

    def put(self, work: Work[Any]) -> None:
        """Hand in work that was made before."""
        if self._closing.is_set():
            raise StoreFailed("The store is being closed.")
        try:
            self._queue.put_nowait(work)
        except queue.Full:
            raise Busy(self._queue.qsize()) from None

    def do(
        self,
        agent: str,
        do: Callable[[UnitOfWork], T],
        *,
        created: Created | None = None,
        timeout: float | None = None,
    ) -> T:
        """Hand in work and wait for what it gives."""
        given: T = self.submit(agent, do, created=created).result.result(timeout)
        return given

    def close(self, *, snapshots: bool = True) -> None:
        """Do what waits, keep snapshots, and end."""
        if not self._closing.is_set():
            self._closing.set()
            self._queue.put(None)
        self._thread.join()
        if snapshots and not self.failing:
            for agent, aggregate in self._held.items():
                if aggregate.head.seq > aggregate.snapped[0]:
                    self._snapshot(agent, aggregate)
        self._held.clear()

    # -- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        ending = False
        while not ending:
            group = [self._queue.get()]
            while len(group) < self._together:
                try:
                    group.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            ending = None in group
            works = [work for work in group if work is not None]
            if works:
                self._do_all(works)
        # Whoever came while it ended.
        left = [work for work in list(self._queue.queue) if work is not None]
        for work in left:
            work.error = StoreFailed("The store is being closed.")
        if left:
            self._deliver(left)

    def _do_all(self, works: list[Work[Any]]) -> None:
        try:
            self._commit(works)
            self.failing = False
        except Duplicate as error:
            # An idempotency key was in the log already: find out whose, one by one.
            if len(works) > 1:
                for work in works:
                    work.error = None
                    self._do_all([work])
                return
            works[0].error = error
        except PartialWork as error:
            if len(works) > 1:
                for work in works:
                    work.error = work.given = None
                    self._do_all([work])
                return
            cause = error.__cause__
            unexpected = cause if not isinstance(cause, BridleError) else None
            log.error("work on agent %s failed: %s", works[0].agent, cause, exc_info=unexpected)
            works[0].error = cause or error
        except BaseException as error:
            self.failing = isinstance(error, StoreFailed)
            if not isinstance(error, BridleError):
                log.exception("a commit failed for an unexpected reason")
                error = StoreFailed("The store failed for an unexpected reason.", True)
            for work in works:
                work.error = error
        self._deliver(works)

    def _commit(self, works: list[Work[Any]]) -> None:
        """Do works in one transaction; if it does not commit, drop the agents it was about."""
        touched: dict[str, Aggregate] = {}
        heads: dict[str, Head] = {}
        agents = sorted({work.agent for work in works})
        for agent in {work.agent for work in works if work.created is None} - self._held.keys():
            # Before the transaction: a long log takes long to fold, and others want to write.
            self._load(agent, works)
        try:
            with self._store.transaction() as transaction:
                for work in works:
                    if work.created is not None:
                        self._create(work, transaction, touched)
                locked = transaction.lock(agents)
                for run in _runs(work for work in works if work.error is None):
                    if len(run) < 2 or not self._do_many(run, transaction, locked, touched):
                        for work in run:
                            self._do(work, transaction, locked, touched)
                for agent, aggregate in touched.items():
                    if aggregate.staged:
                        heads[agent] = transaction.append(agent, aggregate.staged)
        except BaseException:
            for agent in touched:
                self._held.pop(agent, None)
            raise
        for agent, head in heads.items():
            touched[agent].committed(head)
            self._held[agent] = touched[agent]
        for agent, aggregate in touched.items():
            if aggregate.head.seq - aggregate.snapped[0] >= next_snapshot(aggregate.snapped[1]):
                self._snapshot(agent, aggregate)
        while len(self._held) > self._agents:
            self._held.popitem(last=False)

    def _load(self, agent: str, works: list[Work[Any]]) -> None:
        """Load an agent, if there is one; where its log cannot be read, only its own work fails."""
        try:
            if self._store.head(agent) is not None:
                self._held[agent] = load(self._store, agent)
        except StoreFailed:
            raise
        except Exception as error:  # also what somebody else's model raises
            if not isinstance(error, BridleError):
                log.exception("agent %s cannot be loaded", agent)
            for work in works:
                if work.agent == agent:
                    work.error = error

    def _create(
        self, work: Work[Any], transaction: Transaction, touched: dict[str, Aggregate]
    ) -> None:
        assert work.created is not None
        if work.agent in touched or self._store.head(work.agent) is not None:
            work.error = Duplicate("agent", work.agent, "Choose another name.")
            return
        try:
            aggregate = Aggregate.begin(work.created)
        except Exception as error:  # also what somebody else's model raises
            if not isinstance(error, BridleError):
                log.exception("agent %s cannot be made", work.agent)
            work.error = error
            return
        transaction.create(work.agent, self._clock())
        touched[work.agent] = aggregate

    def _do(
        self,
        work: Work[Any],
        transaction: Transaction,
        locked: dict[str, Head],
        touched: dict[str, Aggregate],
    ) -> None:
        try:
            work.given = work.do(self._unit_for(work.agent, transaction, locked, touched))
        except (StoreFailed, PartialWork):
            raise
        except BridleError as error:
            work.error = error
        except Exception as error:  # a bug, or somebody else's model: a fold may be half done
            raise PartialWork from error

    def _do_many(
        self,
        run: list[Work[Any]],
        transaction: Transaction,
        locked: dict[str, Head],
        touched: dict[str, Aggregate],
    ) -> bool:
        """Do a run of work at once; return whether it was done."""
        many = run[0].many
        assert many is not None
        try:
            unit = self._unit_for(run[0].agent, transaction, locked, touched)
        except StoreFailed:
            raise
        except BridleError:
            return False  # each gets the error by itself
        before = len(unit.aggregate.staged)
        try:
            given = many(unit, [work.item for work in run])
        except (StoreFailed, PartialWork):
            raise
        except Exception as error:
            if len(unit.aggregate.staged) != before or not isinstance(error, BridleError):
                raise PartialWork from error
            return False
        if given is None:
            return False
        for work, one in zip(run, given, strict=True):
            work.given = one
        return True

    def _unit_for(
        self,
        agent: str,
        transaction: Transaction,
        locked: dict[str, Head],
        touched: dict[str, Aggregate],
    ) -> UnitOfWork:
        aggregate = touched.get(agent)
        if aggregate is None:
            head = locked.get(agent)
            if head is None:
                raise UnknownId("agent", agent, "Create it first.")
            aggregate = touched[agent] = self._at(agent, head, transaction)
        return UnitOfWork(aggregate, agent, transaction, self._clock())

    def _at(self, agent: str, head: Head, transaction: Transaction) -> Aggregate:
        """Return an agent as of its locked head."""
        aggregate = self._held.get(agent)
        if aggregate is None or aggregate.head.seq > head.seq:
            aggregate = load(self._store, agent)
        else:
            self._held.move_to_end(agent)
        if aggregate.head.seq < head.seq:
            before = aggregate.erasures.count
            catch_up(aggregate, self._store, agent, head.seq, within=transaction)
            if aggregate.erasures.count != before:
                # Somebody erased what is folded here: begin anew without it.
                aggregate = load(self._store, agent)
        self._held[agent] = aggregate
        return aggregate

    def _snapshot(self, agent: str, aggregate: Aggregate) -> None:
        try:
            keep_snapshot(self._store, agent, aggregate)
        except Exception as error:  # it is only a shortcut; somebody else's state may not be saved
            unexpected = None if isinstance(error, BridleError) else error
            log.warning("no snapshot of %s: %s", agent, error, exc_info=unexpected)


def _runs(works: Iterable[Work[Any]]) -> Iterator[list[Work[Any]]]:
    """Yield works in their order, those that may be done at once together."""
    run: list[Work[Any]] = []
    for work in works:
        if run and (work.many is None or (work.many, work.agent) != (run[0].many, run[0].agent)):
            yield run
            run = []
        run.append(work)
    if run:
        yield run


def _hand_out(works: Sequence[Work[Any]]) -> None:
    for work in works:
        if work.error is None:
            work.result.set_result(work.given)
        else:
            work.result.set_exception(work.error)

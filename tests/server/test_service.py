from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from bridle.agent.agent import Agent
from bridle.agent.events import Created
from bridle.errors import Busy, NotPossible, StoreFailed, UnknownId
from bridle.policies import Thompson
from bridle.server.limits import Limits
from bridle.server.service import Service
from bridle.store.log import Store
from bridle.store.sqlite import SqliteStore
from bridle.store.writer import UnitOfWork, Work
from tests.server.driving import Server


def created(**settings) -> Created:
    return Created(
        Agent(arms=2, features=2, seed=1, policy=Thompson(v=0.1), **settings).settings, 1.0
    )


def kinds(store: Store, agent: str = "ann") -> list[str]:
    """Give the events of a log, without what the writer says of itself."""
    return [entry.kind for entry in store.read(agent) if entry.kind != "RunsOn"]


def make(server: Server, name: str = "ann", **settings) -> None:
    server.runner.run(server.service.do(name, lambda work: None, created=created(**settings)))


def decide(work: UnitOfWork) -> object:
    made = work.aggregate.agent.make.decided([0.5, 0.5], at=work.now)
    for event in made.events:
        work.aggregate.record(event)
    return made.id


def test_work_is_done_and_counted(server: Server):
    make(server)
    assert server.runner.run(server.service.do("ann", decide)) == 1
    assert kinds(server.store) == ["Created", "Decided"]
    text = server.service.metrics.text().decode()
    assert 'bridle_events_total{kind="Created"} 1.0' in text
    assert 'bridle_events_total{kind="Decided"} 1.0' in text
    assert 'bridle_outcomes_total{outcome="decision"} 1.0' in text
    assert "bridle_agents_held 1.0" in text
    assert "bridle_commits_total 2.0" in text
    assert "bridle_group_size_sum 2.0" in text


def test_a_group_is_handed_out_by_one_call_into_the_loop(server: Server, monkeypatch):
    make(server)
    service = server.service
    begun, go = threading.Event(), threading.Event()

    def slow(work: UnitOfWork) -> None:
        begun.set()
        go.wait(30.0)

    async def many() -> list[object]:
        loop = asyncio.get_running_loop()
        first = asyncio.create_task(service.do("ann", slow))
        await loop.run_in_executor(None, begun.wait)
        rest = [asyncio.create_task(service.do("ann", decide)) for _ in range(50)]
        await asyncio.sleep(0)
        go.set()
        return await asyncio.gather(first, *rest)

    calls: list[int] = []
    hand_out = service._hand_out

    def counted(works: Sequence[Work[Any]]) -> None:
        calls.append(len(works))
        hand_out(works)

    monkeypatch.setattr(service, "_hand_out", counted)
    assert server.runner.run(many()) == [None, *range(1, 51)]
    assert calls == [1, 50]


def test_errors_come_back_and_leave_the_others_alone(server: Server):
    make(server)

    def refuse(work: UnitOfWork) -> None:
        raise NotPossible("no")

    async def both() -> list[object]:
        service = server.service
        works = [service.do("ann", decide), service.do("ann", refuse), service.do("bob", decide)]
        return await asyncio.gather(*works, return_exceptions=True)

    done, refused, unknown = server.runner.run(both())
    assert done == 1
    assert isinstance(refused, NotPossible)
    assert isinstance(unknown, UnknownId)


def test_work_that_fails_halfway_takes_its_commit_with_it(server: Server, caplog):
    make(server)

    def half(work: UnitOfWork) -> None:
        decide(work)
        raise NotPossible("after all")

    with pytest.raises(NotPossible):
        server.runner.run(server.service.do("ann", half))
    assert kinds(server.store) == ["Created"]
    assert server.runner.run(server.service.do("ann", decide)) == 1
    assert "work on agent ann failed" in caplog.text


def test_too_much_work_is_refused(serve):
    server = serve(limits=Limits(waiting=2, together=1))
    make(server)
    begun, go = threading.Event(), threading.Event()

    def slow(work: UnitOfWork) -> None:
        begun.set()
        go.wait(30.0)

    async def crowd() -> Any:
        service = server.service
        first = asyncio.create_task(service.do("ann", slow))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait)
        waiting = [asyncio.create_task(service.do("ann", decide)) for _ in range(2)]
        await asyncio.sleep(0)
        assert service.waiting == 2
        with pytest.raises(Busy):
            await service.do("ann", decide)
        go.set()
        return await asyncio.gather(first, *waiting)

    assert server.runner.run(crowd()) == [None, 1, 2]


def test_who_waits_may_give_up_and_the_work_is_done(server: Server):
    make(server)
    begun, go = threading.Event(), threading.Event()

    def slow(work: UnitOfWork) -> object:
        begun.set()
        go.wait(30.0)
        return decide(work)

    async def impatient() -> None:
        with pytest.raises(StoreFailed) as caught:
            await server.service.do("ann", slow, timeout=0.01)
        assert caught.value.unknown
        go.set()
        assert await server.service.do("ann", decide) == 2

    server.runner.run(impatient())


def test_slow_reads_are_bounded(serve):
    server = serve(limits=Limits(aside_threads=1, aside_waiting=1))
    begun, go = threading.Event(), threading.Event()

    def slow() -> int:
        begun.set()
        go.wait(30.0)
        return 7

    async def crowd() -> list[int]:
        service = server.service
        first = asyncio.create_task(service.aside(slow))
        second = asyncio.create_task(service.aside(lambda: 8))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await service.aside(lambda: 9)
        # Who gives up leaves its place only when the thread is done.
        given_up = second
        given_up.cancel()
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await service.aside(lambda: 9)
        await asyncio.get_running_loop().run_in_executor(None, begun.wait)
        go.set()
        done = await first
        return [done, await service.aside(lambda: 10)]

    assert server.runner.run(crowd()) == [7, 10]


def test_errors_of_slow_reads_come_back(server: Server):
    def fail() -> None:
        raise StoreFailed("down")

    with pytest.raises(StoreFailed, match="down"):
        server.runner.run(server.service.aside(fail))


def test_before_the_start_and_after_the_end_nothing_is_done(tmp_path):
    store = SqliteStore(tmp_path / "a.db")
    service = Service(store)

    async def life() -> None:
        for _ in range(2):
            assert not service.running
            with pytest.raises(StoreFailed):
                await service.do("ann", decide)
            with pytest.raises(StoreFailed):
                await service.aside(lambda: 1)
            await service.start()
            await service.stop()
        assert (service.waiting, service.agents_held) == (0, 0)

    asyncio.run(life())
    store.close()


def test_the_end_does_what_waits_and_keeps_snapshots(tmp_path):
    store = SqliteStore(tmp_path / "a.db")
    service = Service(store)

    async def life() -> list[object]:
        await service.start()
        await service.do("ann", lambda work: None, created=created())
        works = [asyncio.create_task(service.do("ann", decide)) for _ in range(20)]
        await asyncio.sleep(0)
        await service.stop()
        return await asyncio.gather(*works)

    assert asyncio.run(life()) == list(range(1, 21))
    head = store.head("ann")
    assert head is not None
    assert store.snapshots("ann") == [head.seq]
    assert kinds(store) == ["Created"] + 20 * ["Decided"]
    store.close()

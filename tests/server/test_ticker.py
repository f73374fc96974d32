from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bridle.agent.events import WaitChanged
from bridle.errors import StoreFailed
from bridle.server.limits import Limits
from bridle.store.aggregate import load
from bridle.store.writer import UnitOfWork
from tests.server.driving import Server
from tests.server.test_service import decide, kinds, make

WAITING: dict[str, Any] = {"wait": 60.0, "default_reward": 0.25}


def tick(server: Server) -> int:
    return server.runner.run(server.service.ticker.tick())


def sweep(server: Server) -> None:
    server.runner.run(server.service.ticker.sweep())


def do(server: Server, work: Any, agent: str = "ann") -> Any:
    return server.runner.run(server.service.do(agent, work))


def reward(unit_of_work: UnitOfWork) -> None:
    unit_of_work.aggregate.record(
        unit_of_work.aggregate.agent.make.rewarded(1, 1.0, at=unit_of_work.now)
    )


def test_a_decision_expires_once_when_its_wait_is_over(server: Server):
    make(server, **WAITING)
    do(server, decide)
    server.clock.now += 59.9
    assert tick(server) == 0
    server.clock.now += 0.1
    assert tick(server) == 1
    assert tick(server) == 0
    assert kinds(server.store) == ["Created", "Decided", "Expired"]
    assert not load(server.store, "ann").state.pending


def test_what_was_rewarded_does_not_expire(server: Server):
    make(server, **WAITING)
    do(server, decide)
    do(server, reward)
    server.clock.now += 1_000.0
    assert tick(server) == 0
    assert kinds(server.store) == ["Created", "Decided", "Rewarded"]


def test_nothing_is_handed_in_before_anything_is_due(server: Server, monkeypatch):
    make(server, **WAITING)
    make(server, "bob")
    do(server, decide)
    do(server, decide, "bob")
    monkeypatch.setattr(server.service, "do", None)
    assert tick(server) == 0


def test_a_tick_takes_some_hundred_and_the_next_ones_the_rest(serve):
    server = serve(limits=Limits(expired_at_once=2))
    make(server, **WAITING)
    for _ in range(5):
        do(server, decide)
    server.clock.now += 60.0
    assert [tick(server) for _ in range(4)] == [2, 2, 1, 0]


def test_agents_that_nobody_used_since_the_start_are_found(serve):
    first = serve()
    for name, settings in (("ann", WAITING), ("bob", {})):
        make(first, name, **settings)
        do(first, decide, name)
    second = serve(store=first.store)
    second.clock.now += 60.0
    assert tick(second) == 0
    sweep(second)
    assert second.service.agents_held == 0  # they were only looked at
    assert tick(second) == 1
    assert kinds(second.store, "bob") == ["Created", "Decided"]


def test_what_others_did_is_found_by_the_next_sweep(serve):
    here = serve()
    make(here, **WAITING)
    there = serve(store=here.store)
    for _ in range(2):
        # Once as an agent that was only looked at, once as one that was worked with.
        sweep(there)
        do(here, decide)
        there.clock.now = here.clock.now = here.clock.now + 60.0
        found = tick(there)
        sweep(there)
        assert found + tick(there) == 1
    assert tick(here) == 0
    assert kinds(here.store) == ["Created", "Decided", "Expired", "Decided", "Expired"]


def test_a_wait_that_was_set_later_counts(server: Server):
    make(server)
    do(server, decide)
    change = WaitChanged(10.0, None, at=server.clock.now)
    do(server, lambda unit_of_work: unit_of_work.aggregate.record(change))
    server.clock.now += 10.0
    assert tick(server) == 1


def test_an_agent_whose_commit_failed_is_looked_at_again(server: Server, monkeypatch):
    make(server, **WAITING)
    do(server, decide)
    server.clock.now += 60.0

    def fail() -> None:
        raise StoreFailed("down")

    with monkeypatch.context() as broken:
        broken.setattr(server.store, "transaction", fail)
        assert tick(server) == 0
        assert tick(server) == 0
    assert tick(server) == 0  # forgotten, as nothing is sure after a failure
    sweep(server)
    assert tick(server) == 1


def test_an_agent_that_cannot_be_read_is_left_out(serve, monkeypatch, caplog):
    first = serve()
    make(first, **WAITING)
    do(first, decide)
    second = serve(store=first.store)

    def damaged(*args: object) -> None:
        raise StoreFailed("damaged")

    monkeypatch.setattr("bridle.server.service.load", damaged)
    sweep(second)
    assert "the deadlines of agent ann are not known" in caplog.text
    second.clock.now += 60.0
    assert tick(second) == 0


def test_it_ticks_by_itself_and_survives_failures(serve, monkeypatch, caplog):
    server = serve(limits=Limits(tick_seconds=0.001, sweep_seconds=0.001))
    ticker = server.service.ticker
    told = asyncio.Event()
    calls: list[str] = []

    async def fail() -> int:
        calls.append("tick")
        if len(calls) >= 3:
            told.set()
        raise StoreFailed("down") if len(calls) % 2 else RuntimeError("unforeseen")

    monkeypatch.setattr(ticker, "tick", fail)

    async def life() -> None:
        ticker.start()
        await told.wait()
        await ticker.stop()

    server.runner.run(life())
    assert "the ticker will try again: down" in caplog.text
    assert "failed unexpectedly" in caplog.text


@pytest.mark.parametrize("busy", [True, False])
def test_a_crowd_makes_the_sweep_come_back_later(serve, busy: bool):
    first = serve()
    make(first, **WAITING)
    do(first, decide)
    second = serve(store=first.store, limits=Limits(aside_threads=1, aside_waiting=0))
    second.clock.now += 60.0

    async def crowded() -> None:
        sweeping = asyncio.create_task(second.service.ticker.sweep())
        await asyncio.sleep(0)
        # The list of agents has the one place that there is; who asks for another is refused.
        if busy:
            second.service._aside += 1
        await sweeping
        if busy:
            second.service._aside -= 1

    second.runner.run(crowded())
    assert tick(second) == (0 if busy else 1)

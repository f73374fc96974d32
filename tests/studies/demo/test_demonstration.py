"""The demonstration: its worlds, its past and the people who keep coming."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridle.errors import Busy, NotPossible
from bridle.server.problems import Problem
from bridle.server.service import Service
from bridle.server.tokens import make_token
from bridle.store.maintenance import replay, verify
from bridle.store.sqlite import SqliteStore
from bridle.web.visitor import ApiCaller
from bridle_studies.demo import crowd as crowds
from bridle_studies.demo.cinema import AGES, CHILD, TITLES, Cinema
from bridle_studies.demo.clinic import BLEEDING, SURGERY, Clinic
from bridle_studies.demo.crowd import ADA, Crowd
from bridle_studies.demo.demonstration import (
    DAY,
    PAST,
    DemoClock,
    check_empty,
    check_host,
    demonstration,
)
from bridle_studies.environments.bands import BANDS

NOW = 2_000_000.0


# -- the worlds ------------------------------------------------------------------------------


def test_the_cinema():
    cinema, again = Cinema(), Cinema()
    assert len(cinema.arms) == sum(map(len, TITLES.values())) == 40
    assert len({arm["id"] for arm in cinema.arms}) == 40
    assert cinema.arms == again.arms and (cinema.denied == again.denied).all()
    assert cinema.denied.shape == (7, 10) and 0.2 < cinema.denied.mean() < 0.45
    genres = [
        "Action",
        "Adventure",
        "Comedy",
        "Crime",
        "Drama",
        "Fantasy",
        "Horror",
        "Romance",
        "Sci-Fi",
        "Thriller",
    ]
    for arm in cinema.arms:
        own = [genres.index(genre) for genre in arm["group"].split(", ")]
        for row, age in enumerate(AGES):
            fine = not cinema.denied[row, own].any()
            assert cinema.allowed({"age": age, CHILD: False}, arm["id"]) == fine
            child = fine and not {"Crime", "Horror", "Thriller"} & set(arm["group"].split(", "))
            assert cinema.allowed({"age": age, CHILD: True}, arm["id"]) == child
    # Everybody may see something, nobody everything, also with a child.
    for context in cinema.pool:
        share = np.mean([cinema.allowed(context, arm["id"]) for arm in cinema.arms])
        assert 0.1 < share < 0.95


def test_guests_of_the_cinema():
    cinema, rng = Cinema(), np.random.default_rng(1)
    guests = [cinema.guest(rng) for _ in range(2_000)]
    for age, share in BANDS.items():
        met = np.mean([guest.context["age"] == age for guest in guests])
        # Two standard deviations are .02; five, of seven shares and a fixed seed, are enough.
        assert abs(met - share) < 0.05
    rewards = [cinema.reward(guest, "the-long-night") for guest in guests]
    assert 0.1 <= min(rewards) < max(rewards) <= 1.0


def test_the_clinic():
    clinic, rng = Clinic(), np.random.default_rng(1)
    both = {BLEEDING: True, SURGERY: True}
    assert not clinic.allowed(both, "high") and clinic.allowed(both, "none")
    assert clinic.allowed(both | {SURGERY: False}, "high")
    for _ in range(100):
        guest = clinic.guest(rng)
        earned = [clinic.reward(guest, arm) for arm in ("low", "medium", "high", "none")]
        assert sorted(earned) == [0.0, 0.0, 0.0, 1.0]


# -- where it may be -------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_hosts_of_this_machine(host):
    check_host(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org", ""])
def test_hosts_that_others_reach(host):
    with pytest.raises(NotPossible, match="--force"):
        check_host(host)


def test_only_an_empty_store_is_filled(tmp_path):
    path = tmp_path / "a.db"
    check_empty(str(path))
    store = SqliteStore(path)
    with store.transaction() as transaction:
        transaction.add_token(make_token("admin", now=1.0).row)
    store.close()
    with pytest.raises(NotPossible, match="not empty"):
        check_empty(str(path))


def test_a_clock_that_can_be_set_back():
    clock = DemoClock(lambda: 7.0)
    assert clock() == 7.0
    clock.set(3.0)
    assert clock() == 3.0
    clock.set(None)
    assert clock() == 7.0


# -- all of it -------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def begun(folder: Path) -> AsyncIterator[tuple[Service, DemoClock]]:
    store = SqliteStore(folder / "demo.db")
    clock = DemoClock(lambda: NOW)
    service = Service(store, clock=clock)
    await service.start(ticking=False)
    try:
        yield service, clock
    finally:
        await service.stop()
        store.close()


Running = Callable[[Callable[[Service, DemoClock], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def running(tmp_path: Path) -> Running:
    def run(do: Callable[[Service, DemoClock], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with begun(tmp_path) as (service, clock):
                await do(service, clock)

        asyncio.run(main())

    return run


def entries(service: Service, agent: str) -> Iterator[Any]:
    for entry in service.store.read(agent, 0, 10_000):
        yield json.loads(entry.payload or b"{}")


def test_a_past_that_lies_back_and_doors_that_are_open(running):
    async def do(service: Service, clock: DemoClock) -> None:
        async with demonstration(service, clock, share=0.3):
            assert clock() == NOW
            assert [row.name for row in service.store.agents()] == ["movies", "warfarin"]
            for agent in ("movies", "warfarin"):
                events = list(entries(service, agent))
                times = [one["at"] for one in events if one.get("at") is not None]
                assert times == sorted(times)
                assert times[0] == NOW - PAST and times[-1] <= NOW
                kinds = [one["event"] for one in events]
                # Audits from the first decision on, so that they can be evaluated with it.
                assert kinds.index("AuditBegun") < kinds.index("Decided")
                decided = [one for one in events if one["event"] == "Decided"]
                assert len(decided) > 50
                assert all(one["propensity"] is not None for one in decided)
                assert kinds.count("Rewarded") >= len(decided)
                assert kinds.count("Audited") > 0
                teachers = {one["by"] for one in events if one["event"] == "Taught"}
                assert {by.partition(" (token")[0] for by in teachers} == {ADA, crowds.BEN}
            assert "Asked" in [one["event"] for one in entries(service, "movies")]
            seen = await service.do("movies", lambda work: work.aggregate.recent.unsure())
            assert seen is not None and 0.1 < seen < 0.7
            assert [guest.name for guest in service.guests] == ["teacher", "auditor", "admin"]
            for guest in service.guests:
                caller = service.tokens.caller(b"Bearer " + guest.token.encode())
                assert caller.role == guest.name
            made = [row for row in service.store.tokens() if row.note != "made at the first start"]
            assert {row.expires for row in made} == {NOW + DAY}
            assert service.visiting is not None and len(service.visiting.movies) == 40
        assert service.guests == () and service.visiting is None

    running(do)


def test_its_log_replays_and_verifies(running):
    async def do(service: Service, clock: DemoClock) -> None:
        async with demonstration(service, clock, share=0.1):
            pass
        for agent in ("movies", "warfarin"):
            assert not verify(service.store, agent).problems
            assert replay(service.store, agent).agrees

    running(do)


# -- those who keep coming -------------------------------------------------------------------


async def gathered(service: Service) -> tuple[Crowd, dict[str, Any]]:
    """Give a crowd around a new agent of movies, and the tokens of its hands."""
    made = {role: make_token(role, now=NOW) for role in ("agent", "teacher", "admin")}
    for one in made.values():
        await service.tokens.add(one)
    hands = {role: ApiCaller(service, one.text) for role, one in made.items()}
    crowd = Crowd(
        Cinema(),
        program=hands["agent"],
        teacher=hands["teacher"],
        admin=hands["admin"],
        rate=1e6,
        seed=3,
    )
    await crowd.begin()
    return crowd, made


def test_guests_come_rate_and_are_looked_after(running):
    async def do(service: Service, clock: DemoClock) -> None:
        crowd, _ = await gathered(service)
        await crowd.teach([NOW] * 5, clock.set, 4)
        clock.set(None)
        for _ in range(120):
            await crowd.come()
        kept = await service.do("movies", lambda work: work.aggregate)
        assert kept.state.decisions == 120
        # All have rated but the last few.
        played = sum(span.decisions for span in kept.timeline.spans)
        assert sum(span.rewards for span in kept.timeline.spans) == played - crowds.LAG
        assert kept.state.taught > 20  # questions from the inbox were answered
        assert len(kept.state.questions.open) >= crowds.QUESTIONS_LEFT - 1
        # What came after the teacher last looked may wait, too.
        assert len(kept.auditing.pending) <= crowds.AUDITS_LEFT + crowds.A_JUDGEMENT
        assert crowd.events > 240

    running(do)


def test_they_stop_when_the_log_is_long_enough(running, monkeypatch):
    async def do(service: Service, clock: DemoClock) -> None:
        crowd, _ = await gathered(service)
        monkeypatch.setattr(crowds, "SLOW_AFTER", 20)
        monkeypatch.setattr(crowds, "MOST_EVENTS", 40)
        await crowd.keep_coming()
        assert 40 <= crowd.events < 60

    running(do)


def test_they_stop_when_they_may_no_more(running):
    async def do(service: Service, clock: DemoClock) -> None:
        crowd, tokens = await gathered(service)
        await service.tokens.revoke(tokens["agent"].row.id)
        await crowd.keep_coming()
        assert crowd.events == 0

    running(do)


def test_they_survive_errors(running, monkeypatch, caplog):
    async def do(service: Service, clock: DemoClock) -> None:
        crowd, _ = await gathered(service)
        monkeypatch.setattr(crowds, "LONGEST_PAUSE", 0.0)
        real, errors = crowd.come, [Busy(5), Problem("busy", "Full."), RuntimeError("odd")]
        monkeypatch.setattr(crowds, "MOST_EVENTS", 10)

        async def come() -> None:
            if errors:
                raise errors.pop()
            await real()

        monkeypatch.setattr(crowd, "come", come)
        await crowd.keep_coming()
        assert not errors and crowd.events >= 10

    running(do)


def test_audits_of_what_nobody_saw_are_left_to_people(running):
    async def do(service: Service, clock: DemoClock) -> None:
        crowd, _ = await gathered(service)
        await crowd.teach([NOW] * 5, clock.set, 4)
        for _ in range(60):
            await crowd._decide()
        crowd._known.clear()
        waits = await service.do("movies", lambda work: len(work.aggregate.auditing.pending))
        assert waits > 0
        await crowd._judge(0)
        assert waits == await service.do(
            "movies", lambda work: len(work.aggregate.auditing.pending)
        )

    running(do)


def test_what_is_remembered_is_bounded(running, monkeypatch):
    async def do(service: Service, clock: DemoClock) -> None:
        crowd, _ = await gathered(service)
        monkeypatch.setattr(crowds, "REMEMBERED", 2)
        for id in "abc":
            crowd.remember(id, {}, "x")
        assert [*crowd._known] == ["b", "c"]
        await crowd.disagree()  # nothing was taught: there is nothing to say the contrary of
        assert await service.do("movies", lambda work: len(work.aggregate.state.examples)) == 0

    running(do)


# -- hands -----------------------------------------------------------------------------------


def test_a_hand_may_what_its_token_may(running):
    async def do(service: Service, clock: DemoClock) -> None:
        _, tokens = await gathered(service)
        hand = ApiCaller(service, tokens["agent"].text)
        with pytest.raises(Problem) as refused:
            await hand.call("GET /v1/agents/{agent}/examples", agent="movies")
        assert refused.value.code == "forbidden"
        with pytest.raises(Problem) as wrong:
            await hand.call("POST /v1/agents/{agent}/decisions", {"context": 3}, agent="movies")
        assert wrong.value.code == "invalid_value"
        with pytest.raises(Problem) as nobody:
            await ApiCaller(service, "brd_x").call("GET /v1/agents")
        assert nobody.value.code == "no_token"

    running(do)

"""Checks, promises, lives of examples and fresh starts, in a store: kept, erased, replayed."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from bridle import Agent, Question
from bridle.agent.events import Decided, Erased, Retracted, StartedAnew, Taught
from bridle.errors import Duplicate, UnknownId
from bridle.store import projections
from bridle.store.aggregate import Aggregate, agent_at, events_in, keep_snapshot, load
from bridle.store.log import Name, New
from bridle.store.maintenance import erase, replay, verify
from bridle.store.writer import UnitOfWork, Writer
from tests.store.lives import CONTEXTS, begin, state

NOW = 100.0


def promise(work: UnitOfWork) -> None:
    kept = work.aggregate
    kept.record(kept.agent.make.promised(0.05, 0.3, b=20.0, seed=11, by="officer", at=work.now))


def teach(work: UnitOfWork) -> None:
    """Allow all of it, so that it plays."""
    make = work.aggregate.agent.make
    for n in range(16):
        arm = ["crime", "nature"][n // 4 % 2]
        for event in make.taught_many([CONTEXTS[n % 4]], [arm], [True], by="Ann", at=work.now):
            work.aggregate.record(event)


def decide(work: UnitOfWork, n: int, id: str | None = None) -> Any:
    make = work.aggregate.agent.make
    made = make.decided(CONTEXTS[n % 4], id=id, item=f"i{n % 5}", propensity=True, at=work.now)
    for event in made.events:
        work.aggregate.record(event, b"d" * 32)
    return made


def judge(work: UnitOfWork, decision: Any, allowed: bool = True, by: str = "Ann") -> list[Any]:
    made = work.aggregate.agent.make.judged(decision, allowed, by=by, at=work.now)
    for event in made:
        work.aggregate.record(event, b"j" * 32)
    return made


def forget(work: UnitOfWork, id: str) -> None:
    work.aggregate.record(Retracted(id))


@pytest.fixture
def lived(store):
    """A log with a promise, and checks of which some are judged, the last one denied."""
    writer = Writer(store, clock=lambda: NOW)
    begin(writer, limits="rules", budget=0)
    writer.do("movies", teach)
    writer.do("movies", promise)
    for n in range(40):
        made = writer.do("movies", partial(decide, n=n, id=f"d{n}" if n % 2 else None))
        assert not isinstance(made, Question)
        if getattr(made, "check", None) is not None and n % 4 < 2:
            writer.do("movies", partial(judge, decision=made.id))
        if n == 20:
            rows = [CONTEXTS[k % 4] for k in range(12)]
            items = [f"b{k % 3}" for k in range(12)]

            def batch(work: UnitOfWork, rows: Any = rows, items: Any = items) -> None:
                many = work.aggregate.agent.make.decided_many(
                    rows, items=items, propensity=True, at=work.now
                )
                work.aggregate.record_many(many)

            writer.do("movies", batch)
    writer.do(
        "movies", lambda work: judge(work, next(iter(work.aggregate.state.checks.open)), False)
    )
    writer.close()
    return store


def checked_of(store: Any, *, judged: bool) -> str:
    """Return a decision that was checked, and judged or not."""
    events = list(events_in(store, "movies"))
    answered = {event.check for event in events if isinstance(event, Taught)}
    return str(
        next(
            event.id
            for event in events
            if isinstance(event, Decided) and event.checked and (event.id in answered) == judged
        )
    )


def test_it_is_the_same_from_a_snapshot_and_from_the_log(lived):
    folded = load(lived, "movies", snapshots=False)
    assert folded.state.checks.drawn > 5 and folded.state.checks.judged > 3
    assert folded.state.purse is not None and folded.state.purse.found > 0
    meter = folded.auditing.promise_meter
    assert meter is not None and meter.steps == 52 == folded.state.purse.steps
    assert meter.tally.found == folded.state.purse.found
    assert list(folded.auditing.promise_pending) == folded.state.purse.waiting
    again = Aggregate.from_blob(folded.to_blob(), folded.head)
    assert state(again) == state(folded) and again.to_blob() == folded.to_blob()
    assert again.expiries.next is None
    keep_snapshot(lived, "movies", folded)
    writer = Writer(lived, clock=lambda: NOW)
    writer.do("movies", lambda work: [decide(work, n) for n in range(9)] and None)
    writer.close()
    now = load(lived, "movies", snapshots=False)
    assert state(load(lived, "movies")) == state(now)
    assert load(lived, "movies").to_blob() == now.to_blob()
    found = replay(lived, "movies")
    assert found.agrees and found.choices == found.same == 61


def test_a_curve_of_the_promise_has_the_bounds_that_held_then(lived):
    head = load(lived, "movies").head.seq
    kept = load(lived, "movies", snapshots=False)
    meter = kept.auditing.promise_meter
    assert meter is not None and kept.timeline.width == 1  # a span for every entry
    assert any(span.promise is not None and span.promise.coins for span in kept.timeline.spans)
    again = Aggregate.from_blob(kept.to_blob(), kept.head)
    looked = 0
    for span in again.timeline.spans:
        then = load(lived, "movies", span.last, snapshots=False).auditing.promise_meter
        if then is None:
            assert span.promise is None
            continue
        assert span.promise is not None
        assert meter.bounds_at(span.promise) == then.bounds()
        looked += 1
    assert looked > 40 and again.timeline.spans[-1].last == head
    drawn = sum(span.drawn for span in again.timeline.spans)
    judged = sum(span.checks for span in again.timeline.spans)
    found = sum(span.exceptions for span in again.timeline.spans)
    checks = kept.state.checks
    assert (drawn, judged, found) == (checks.drawn, checks.judged, checks.found)


def test_a_batch_is_counted_as_one_by_one(opener):
    """Without a promise a batch is folded at once, its checks with it."""
    whole = []
    for many in (True, False):
        writer = Writer(opener(), clock=lambda: NOW)
        name = f"many-{many}"
        begin(writer, name, limits="rules", budget=0)
        writer.do(name, teach)

        def batch(work: UnitOfWork, many: bool = many) -> None:
            rows = [CONTEXTS[k % 4] for k in range(30)]
            items = [f"b{k}" for k in range(30)]
            make, ids = work.aggregate.agent.make, [f"x{k}" for k in range(30)]
            made = make.decided_many(rows, ids=ids, items=items, propensity=True, at=work.now)
            assert sum(made.checked(i) for i in range(30)) > 2
            if many:
                work.aggregate.record_many(made)
            else:
                for event in made.events():
                    work.aggregate.record(event)

        writer.do(name, batch)
        kept: Any = writer.do(name, lambda work: work.aggregate)
        whole.append((kept.timeline.to_arrays(), kept.state.checks.drawn, kept.state.checks.open))
        writer.close()
    one, other = whole
    assert one[1:] == other[1:] and one[1] > 2
    assert all((one[0][name] == other[0][name]).all() for name in one[0] if name != "sums")


@pytest.mark.parametrize("judged", [True, False])
def test_a_checked_decision_is_erased_with_its_judgement(lived, judged):
    decision = checked_of(lived, judged=judged)
    before = load(lived, "movies")
    head = erase(lived, "movies", decisions=[decision], note="as asked")
    after = list(events_in(lived, "movies"))
    gone = [seq for seq, event in enumerate(after, 1) if isinstance(event, Erased)]
    assert len(gone) == 1 + judged and gone == list(after[-1].events)  # type: ignore[union-attr]
    kinds = [event.kind for event in after if isinstance(event, Erased)]
    assert kinds == ["Decided", "Taught"][: len(gone)]
    found = verify(lived, "movies", expect=str(head))
    assert found.problems == () and found.erased == len(gone)
    assert replay(lived, "movies").agrees
    kept = load(lived, "movies", snapshots=False)
    assert kept.state.checks.drawn == before.state.checks.drawn - 1
    assert kept.state.checks.judged == before.state.checks.judged - judged
    assert kept.state.decisions == before.state.decisions
    assert kept.state.taught == before.state.taught
    # A step of the promise passed all the same, and both bounds hold without it.
    assert kept.state.purse is not None and kept.state.purse.steps == 52
    assert kept.auditing.promise_meter is not None and kept.auditing.promise_meter.steps == 52
    assert state(Aggregate.from_blob(kept.to_blob(), kept.head)) == state(kept)
    writer = Writer(lived, clock=lambda: NOW)
    writer.do("movies", lambda work: [decide(work, n) for n in range(5)] and None)
    if judged:
        assert writer.do("movies", lambda work: work.find("check", decision)) is not None
    else:
        with pytest.raises(UnknownId, match="open check"):
            writer.do("movies", lambda work: judge(work, decision))
    writer.close()
    assert replay(lived, "movies").agrees
    assert agent_at(lived, "movies", 30)._state.version == 30


def test_a_play_is_judged_once(lived):
    decision = checked_of(lived, judged=True)
    event = next(
        one
        for one in events_in(lived, "movies")
        if isinstance(one, Taught) and str(one.check) == decision
    )
    writer = Writer(lived, clock=lambda: NOW)
    stood = writer.do("movies", lambda work: work.find("check", decision))
    assert stood is not None and stood.event == event and stood.digest == b"j" * 32
    with pytest.raises(UnknownId, match="judged already"):
        writer.do("movies", lambda work: judge(work, event.check))
    writer.close()
    # And the database itself keeps it so.
    with pytest.raises(Duplicate), lived.transaction() as transaction:
        transaction.lock(["movies"])
        transaction.append("movies", [New("Taught", b"{}", (Name("check", decision),))])


def test_answers_replace_and_what_they_replaced_can_be_erased(store):
    writer = Writer(store, clock=lambda: NOW)
    begin(writer, limits="rules")

    def say(allowed: bool, by: str, id: str) -> None:
        def do(work: UnitOfWork) -> None:
            work.aggregate.record(
                work.aggregate.agent.make.taught(
                    CONTEXTS[0], "crime", allowed, item="film", id=id, by=by, at=work.now
                )
            )

        writer.do("movies", do)

    for n, allowed in enumerate([True, False, True]):
        say(allowed, "Ann", f"a{n}")
    say(True, "Ben", "b0")
    kept: Any = writer.do("movies", lambda work: work.aggregate)
    assert list(kept.state.examples) == ["a2", "b0"]
    writer.close()
    taught = {e.id: e.replaces for e in events_in(store, "movies") if isinstance(e, Taught)}
    assert taught == {"a0": (), "a1": ("a0",), "a2": ("a1",), "b0": ()}
    # As if it had never been: what it replaced stands again, beside what replaced it.
    erase(store, "movies", examples=["a1"])
    kept = load(store, "movies", snapshots=False)
    assert list(kept.state.examples) == ["a0", "a2", "b0"] and kept.erasures.examples == {"a1"}
    assert [e.id for e in events_in(store, "movies") if isinstance(e, Taught)] == ["a0", "a2", "b0"]
    assert replay(store, "movies").agrees and verify(store, "movies").problems == ()
    keep_snapshot(store, "movies", kept)
    writer = Writer(store, clock=lambda: NOW)
    say(False, "Ann", "a3")
    writer.close()
    kept = load(store, "movies")
    assert list(kept.state.examples) == ["b0", "a3"]
    assert kept.to_blob() == load(store, "movies", snapshots=False).to_blob()


def test_a_contradiction_begins_anew_and_is_read_again(store):
    writer = Writer(store, clock=lambda: NOW)
    begin(writer, limits="rules")
    writer.do("movies", teach)
    writer.do("movies", promise)

    def say(work: UnitOfWork) -> None:
        make = work.aggregate.agent.make
        for arm in ("crime", "nature"):
            work.aggregate.record(
                make.taught(CONTEXTS[1], arm, True, item="i1", by="Ben", at=work.now)
            )

    writer.do("movies", say)
    for _ in range(200):
        made = writer.do("movies", lambda work: decide(work, 1))
        if made.check is not None:
            break
    events = writer.do("movies", lambda work: judge(work, made.id, False))
    assert [type(event) for event in events] == [Taught, StartedAnew]
    kept: Any = writer.do("movies", lambda work: work.aggregate)
    assert not any(one.allowed for one in kept.state.examples.values())
    writer.close()
    assert state(load(store, "movies", snapshots=False)) == state(kept)
    assert replay(store, "movies").agrees
    erase(store, "movies", decisions=[str(made.id)])
    kept = load(store, "movies", snapshots=False)
    assert kept.state.examples == {}  # a fresh start is nobody's own, and stays
    assert replay(store, "movies").agrees


def test_lives_end_in_their_order(store, monkeypatch):
    writer = Writer(store, clock=lambda: NOW)
    begin(writer, limits="rules")

    def say(until: float | None, id: str | None = None) -> Any:
        def do(work: UnitOfWork) -> Any:
            event = work.aggregate.agent.make.taught(
                CONTEXTS[0], "crime", True, item=f"i{id}{until}", id=id, until=until, by="Ann"
            )
            work.aggregate.record(event)
            return event.id

        return writer.do("movies", do)

    ids = [say(300.0), say(None), say(200.0, "b"), say(200.0), say(250.0, "c")]
    kept: Any = writer.do("movies", lambda work: work.aggregate)
    assert kept.expiries.next == 200.0 and kept.expiries.due(199.0, 9) == []
    assert kept.expiries.due(260.0, 9) == ["b", ids[3], "c"] == kept.expiries.due(260.0, 9)
    assert kept.expiries.due(1e9, 2) == ["b", ids[3]]
    assert Aggregate.from_blob(kept.to_blob(), kept.head).expiries.due(1e9, 9) == kept.expiries.due(
        1e9, 9
    )

    def retract(work: UnitOfWork) -> None:
        for event in work.aggregate.agent.make.retracted_many(["b", ids[0]]):
            work.aggregate.record(event)

    writer.do("movies", retract)
    assert kept.expiries.due(1e9, 9) == [ids[3], "c"]
    over = kept.agent.make.ended(260.0)
    assert [event.example for event in over] == kept.expiries.due(260.0, 9)
    # Those that were retracted long before their end are swept out.
    for n in range(30):
        say(5e5 + n, f"x{n}")
        writer.do("movies", partial(forget, id=f"x{n}"))
    assert len(kept.expiries._ends) >= 30
    monkeypatch.setattr(projections, "SWEEP", 1)
    say(6e5, "last")
    assert len(kept.expiries._ends) == 3
    writer.close()


def test_a_seed_is_in_the_log_and_in_nothing_that_is_shown(lived):
    """The log must have it: without it no decision comes out again."""
    said = [json.loads(e.payload) for e in lived.read("movies", 0) if e.kind == "Promised"]
    assert [one["seed"] for one in said] == [11]
    agent: Agent = load(lived, "movies").agent
    assert agent.promised is not None and "seed" not in agent.promised.to_state()

"""A writer: what is answered is in the log, what is in the log is what is known."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest

from bridle.agent.events import AuditBegun, Audited, Calibrated
from bridle.errors import (
    Busy,
    CorruptState,
    Duplicate,
    InvalidValue,
    NotPossible,
    NotRegistered,
    StoreFailed,
    UnknownId,
)
from bridle.store import aggregate
from bridle.store import writer as writer_module
from bridle.store.aggregate import Aggregate, events_in, keep_snapshot, load
from bridle.store.idempotency import id_of, text_of
from bridle.store.log import Head, Snapshot
from bridle.store.maintenance import verify
from bridle.store.writer import Work, Writer
from tests.store.lives import CONTEXTS, begin, created, decide, live, state, teach


@pytest.fixture
def writer(store):
    made = Writer(store, clock=lambda: 100.0)
    yield made
    made.close()


def kept_of(writer: Writer, name: str = "movies") -> Any:
    return writer.do(name, lambda unit_of_work: unit_of_work.aggregate)


MASKED = {"budget": 1000, "on_doubt": "wait", "wait": 60.0, "default_reward": 0.0}


@pytest.mark.parametrize("options", [{}, MASKED, {**MASKED, "on_doubt": "play_safe"}], ids=repr)
def test_memory_is_the_fold_of_the_log_and_of_every_snapshot(store, writer, options):
    begin(writer, **options)
    live(writer, 12)
    now = kept_of(writer)
    assert verify(store, "movies").problems == ()
    full = load(store, "movies", snapshots=False)
    assert state(full) == state(now)
    middle = load(store, "movies", 30)
    keep_snapshot(store, "movies", middle)
    assert middle.version == 30
    assert state(load(store, "movies")) == state(now)
    again = Aggregate.from_blob(now.to_blob(), now.head)
    assert state(again) == state(now) and again.to_blob() == now.to_blob()
    assert len(list(events_in(store, "movies", 3))) == 3
    with pytest.raises(InvalidValue, match="version"):
        load(store, "movies", 10_000)
    with pytest.raises(UnknownId):
        load(store, "nobody")


def test_an_agent_comes_back_after_a_restart(store):
    first = Writer(store, clock=lambda: 1.0)
    begin(first)
    live(first, 6)
    before = state(kept_of(first))
    first.close()  # keeps a snapshot
    assert store.snapshots("movies")
    second = Writer(store, clock=lambda: 2.0)
    assert state(kept_of(second)) == before
    second.do("movies", decide(1))
    second.close()


def test_two_writers_follow_each_other(opener):
    one, two = opener(), opener()
    first, second = Writer(one, clock=lambda: 1.0), Writer(two, clock=lambda: 1.0)
    begin(first)
    errors: list[BaseException] = []

    def work(writer: Writer, n: int) -> None:
        try:
            for i in range(15):
                writer.do("movies", teach(i, True))
                writer.do("movies", decide(i, f"w{n}-{i}"))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(w, n)) for n, w in enumerate([first, second])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert state(kept_of(first)) == state(kept_of(second))
    assert kept_of(first).version == 62 and verify(one, "movies").problems == ()
    assert state(load(one, "movies", snapshots=False)) == state(kept_of(second))
    first.close()
    second.close()


def test_a_denial_elsewhere_is_known_before_the_next_decision(opener):
    one, two = opener(), opener()
    first, second = Writer(one, clock=lambda: 1.0), Writer(two, clock=lambda: 1.0)
    begin(first)
    context = CONTEXTS[3]  # an adult, early
    first.do("movies", teach(3, True))  # crime is allowed there
    assert second.do("movies", decide(3)).arm == "crime"
    denied: Any = first.do(
        "movies",
        lambda unit_of_work: unit_of_work.aggregate.record(
            unit_of_work.aggregate.agent.make.taught(context, "crime", False)
        ),
    )
    assert denied is None
    # The second has not heard of it. It locks the log, reads what is new, and decides then.
    made: Any = second.do("movies", decide(3))
    assert made.version == kept_of(first).version - 1 and getattr(made, "arm", None) != "crime"
    first.close()
    second.close()


def test_many_threads_share_commits(store, writer):
    begin(writer)
    writer.do("movies", teach(0, True))
    works: list[Work[Any]] = [writer.submit("movies", decide(n)) for n in range(50)]
    ids = [work.result.result().id for work in works]
    assert ids == list(range(1, 51))
    assert store.head("movies") == kept_of(writer).head and kept_of(writer).version == 53


def test_what_fails_alone_fails_alone(store, writer):
    begin(writer)

    def bug(unit_of_work: Any) -> None:
        raise ZeroDivisionError

    def wrong(unit_of_work: Any) -> None:
        unit_of_work.aggregate.record(unit_of_work.aggregate.agent.make.rewarded(99, 1.0))

    works: list[Work[Any]] = [writer.submit("movies", do) for do in (teach(0, True), wrong, bug)]
    works.append(writer.submit("nobody", bug))
    works.append(writer.submit("movies", bug, created=created()))
    works[0].result.result()
    errors = UnknownId, ZeroDivisionError, UnknownId, Duplicate
    for work, error in zip(works[1:], errors, strict=True):
        with pytest.raises(error):
            work.result.result()
    assert kept_of(writer).version == 3  # Created, RunsOn, Taught
    with pytest.raises(NotPossible, match="coin did not choose"):
        writer.do("movies", lambda unit_of_work: unit_of_work.aggregate.record(Audited(1, True)))
    with pytest.raises(NotPossible, match="No calibration"):
        writer.do("movies", lambda unit_of_work: unit_of_work.aggregate.record(Calibrated(True)))
    writer.do("movies", lambda unit_of_work: unit_of_work.aggregate.record(AuditBegun(0.5, 0.1, 3)))
    with pytest.raises(NotPossible, match="begun already"):
        writer.do(
            "movies", lambda unit_of_work: unit_of_work.aggregate.record(AuditBegun(0.5, 0.1, 3))
        )
    assert state(load(store, "movies", snapshots=False)) == state(kept_of(writer))


@pytest.mark.parametrize("at_once", [False, True])
def test_what_fails_in_the_middle_of_a_fold_leaves_nothing_in_memory(store, writer, at_once):
    for name in ("movies", "songs"):
        begin(writer, name)

    def half(unit_of_work: Any) -> None:
        unit_of_work.aggregate.state.taught += 5  # as a model of somebody else's may leave it
        raise ZeroDivisionError

    def together(unit_of_work: Any, items: list[Any]) -> list[Any]:
        half(unit_of_work)
        return items

    many = together if at_once else None
    works: list[Work[Any]] = [
        Work("movies", half, many=many),
        Work("movies", teach(0, True), many=many),
        Work("songs", teach(0, True)),
    ]
    first, second, third = _in_one_group(writer, works)
    with pytest.raises(ZeroDivisionError):
        first.result.result()
    assert second.result.result() == third.result.result() == 1
    assert state(load(store, "movies", snapshots=False)) == state(kept_of(writer))


def test_a_log_that_cannot_be_read_fails_its_own_work_alone(store, monkeypatch):
    first = Writer(store, clock=lambda: 1.0)
    for name in ("movies", "games", "songs"):
        begin(first, name)
    first.close()

    def load_but_movies(store: Any, agent: str, *more: Any) -> Aggregate:
        if agent == "movies":
            raise NotRegistered("policy", "TopFew", "2")
        return load(store, agent, *more)

    monkeypatch.setattr(writer_module, "load", load_but_movies)
    writer = Writer(store, clock=lambda: 1.0)
    works = _in_one_group(writer, [Work(name, teach(0, True)) for name in ("movies", "games")])
    with pytest.raises(NotRegistered, match="TopFew"):
        works[0].result.result()
    assert works[1].result.result() == 1
    writer.close()


def test_work_done_at_once_on_a_log_that_cannot_be_read_gets_the_error(opener, monkeypatch):
    one, two = opener(), opener()
    writer, other = Writer(one, clock=lambda: 1.0), Writer(two, clock=lambda: 1.0)
    for name in ("movies", "songs"):
        begin(writer, name)
    other.do("movies", teach(0, True))  # so that the first writer has to read on

    def damaged(*given: Any, **named: Any) -> None:
        raise CorruptState("The log is damaged.")

    def together(unit_of_work: Any, items: list[Any]) -> list[Any]:
        raise AssertionError("there is no agent to do it with")

    monkeypatch.setattr(writer_module, "catch_up", damaged)
    twins: list[Work[Any]] = [Work("movies", teach(n, True), many=together) for n in (1, 2)]
    *both, last = _in_one_group(writer, [*twins, Work("songs", teach(0, True))])
    for work in both:
        with pytest.raises(CorruptState, match="damaged"):
            work.result.result()
    assert last.result.result() == 1
    writer.close()
    other.close()


def _in_one_group(writer: Writer, works: list[Work[Any]]) -> list[Work[Any]]:
    """Hand in work that the writer finds waiting all at once."""
    busy, gate = threading.Event(), threading.Event()

    def wait(unit_of_work: Any) -> None:
        busy.set()
        gate.wait(10)

    writer.submit("songs", wait)
    assert busy.wait(10)
    for work in works:
        work.result = Future()
        writer.put(work)
    gate.set()
    return works


def test_a_name_stands_once_and_is_found_again(store, writer):
    begin(writer)
    writer.do("movies", teach(0, True))
    writer.do("movies", decide(0, "mine"))

    def look(unit_of_work: Any) -> Any:
        staged = decide(1, "other")(unit_of_work)
        return (
            unit_of_work.find("decision", "mine"),
            unit_of_work.find("decision", "other"),
            staged,
        )

    mine, other, staged = writer.do("movies", look)
    assert mine.event.id == "mine" and mine.digest == b"d" * 32 and mine.seq == 4
    assert other.event == staged.event and other.seq == 5
    assert writer.do("movies", lambda unit_of_work: unit_of_work.find("decision", "none")) is None
    with pytest.raises(Duplicate):  # an agent does not know all its decisions: the store does
        writer.do("movies", lambda unit_of_work: _reward_again(unit_of_work))
    assert kept_of(writer).version == 5


def _reward_again(unit_of_work: Any) -> None:
    make = unit_of_work.aggregate.agent.make
    unit_of_work.aggregate.record(make.rewarded("mine", 0.5))
    for event in make.judged("mine", True):  # while it waits to be judged, the agent knows it
        unit_of_work.aggregate.record(event)
    made = make.decided(CONTEXTS[0], id="mine")
    for event in made.events:
        unit_of_work.aggregate.record(event)


class Broken:
    """A store whose commits fail when they are told to."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.fails = False

    def transaction(self) -> Any:
        if self.fails:
            raise StoreFailed("The disk is full.")
        return self._store.transaction()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_commit_that_fails_is_as_if_it_had_never_been(store):
    broken = Broken(store)
    writer = Writer(broken, clock=lambda: 1.0)
    begin(writer)
    writer.do("movies", teach(0, True))
    before = state(kept_of(writer))
    broken.fails = True
    with pytest.raises(StoreFailed, match="full"):
        writer.do("movies", decide(0, "lost"))
    assert writer.failing
    broken.fails = False
    assert state(kept_of(writer)) == before and not writer.failing
    assert writer.do("movies", decide(0, "lost")).id == "lost"
    writer.close()


def test_too_much_work_is_refused(store):
    writer = Writer(store, waiting=2, clock=lambda: 1.0)
    begin(writer)
    gate = threading.Event()
    first = writer.submit("movies", lambda unit_of_work: gate.wait(10))
    waiting = []
    with pytest.raises(Busy, match="wait already"):
        for _ in range(5):  # one of them may be in hand already
            waiting.append(writer.submit("movies", decide(0)))
    gate.set()
    assert first.result.result() is True
    for work in waiting:
        work.result.result()
    writer.close()
    with pytest.raises(StoreFailed, match="closed"):
        writer.submit("movies", decide(0))


def test_a_snapshot_is_only_a_shortcut(store, writer, monkeypatch):
    monkeypatch.setattr(aggregate, "EVERY", 5)
    monkeypatch.setattr(aggregate, "BYTES_AN_EVENT", 10**6)
    begin(writer)
    live(writer, 5)
    seqs = store.snapshots("movies")
    assert len(seqs) >= 2
    now = kept_of(writer)
    with pytest.raises(NotPossible, match="never had the head"):  # whole, and of another chain
        store.keep_snapshot("movies", Snapshot(Head(now.head.seq, bytes(32)), now.to_blob()))
    store.keep_snapshot("movies", Snapshot(now.head, b"no agent"))
    assert state(load(store, "movies")) == state(now)
    with pytest.raises(CorruptState, match="version"):
        Aggregate.from_blob(now.to_blob(), Head(3, bytes(32)))


def test_what_was_erased_counts_and_says_nothing(store, writer):
    begin(writer)
    live(writer, 6)
    before = kept_of(writer)
    found = store.find("movies", "decision", ["d1"])["d1"].seq
    outcome = store.find("movies", "outcome", ["d1"])
    seqs = [found, *(one.seq for one in outcome.values())]
    with store.transaction() as transaction:
        transaction.lock(["movies"])
        assert transaction.erase("movies", seqs) == len(seqs)
    assert verify(store, "movies").problems == () and verify(store, "movies").erased == len(seqs)
    after = load(store, "movies")
    assert after.head == before.head and after.state.decisions == before.state.decisions
    assert after.state.totals[1] == before.state.totals[1] - len(outcome)


def test_ids_come_back_as_they_were():
    for id in (7, "a7", "007a", 2**53):
        assert id_of(text_of(id)) == id

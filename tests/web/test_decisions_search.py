from __future__ import annotations

import pytest

from bridle.agent.events import (
    Abstained,
    Asked,
    Decided,
    Erasure,
    Expired,
    Rewarded,
    RewardedLate,
    RunsOn,
    Taught,
)
from bridle.errors import InvalidValue
from bridle.store.aggregate import payload_of
from bridle.store.log import Name, New
from bridle.store.sqlite import SqliteStore
from bridle.web import decisions
from bridle.web.decisions import (
    ChoiceFilter,
    by_id,
    rewards_of,
    search_back,
    search_forward,
    seq_at,
)

NOW = 1_000.0


def decided(id, arm="a", at=NOW):
    return New("Decided", payload_of(Decided(id, (0.5,), arm, 1, at=at)), (_name("decision", id),))


def _name(space, id):
    return Name(space, str(id))


class Counted:
    """A store that counts the entries that were read."""

    def __init__(self, store):
        self._store, self.read_entries, self.reads = store, 0, 0

    def read(self, agent, after=0, limit=1_000):
        found = self._store.read(agent, after, limit)
        self.read_entries += len(found)
        self.reads += 1
        return found

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.fixture
def log(tmp_path):
    store = SqliteStore(tmp_path / "log.db")
    with store.transaction() as transaction:
        transaction.create("films", 0.0)

    def write(entries):
        with store.transaction() as transaction:
            transaction.lock(["films"])
            transaction.append("films", entries)
        return Counted(store)

    yield write
    store.close()


def seqs(looked):
    return [one.seq for one in looked.found]


def test_the_newest_come_first_and_pages_follow_on_each_other(log):
    store = log([decided(n) for n in range(1, 1_001)])
    first = search_back(store, "films", ChoiceFilter(), 1_001, 50)
    assert seqs(first) == list(range(1_000, 950, -1)) and first.more and first.back_to == 951
    assert store.read_entries <= 250
    second = search_back(store, "films", ChoiceFilter(), first.back_to, 50)
    assert seqs(second) == list(range(950, 900, -1))
    last = search_back(store, "films", ChoiceFilter(), 21, 50)
    assert seqs(last) == list(range(20, 0, -1)) and not last.more


def test_a_look_back_is_bounded_and_says_how_far_it_went(log):
    store = log([decided(n, "b" if n == 3 else "a") for n in range(1, 5_001)])
    wanted = ChoiceFilter(arms=frozenset({"b"}))
    looked = search_back(store, "films", wanted, 5_001, 50)
    assert not looked.found and looked.more and looked.back_to == 3_001
    assert store.read_entries == decisions.SCAN
    looked = search_back(store, "films", wanted, looked.back_to, 50)
    looked = search_back(store, "films", wanted, looked.back_to, 50)
    assert seqs(looked) == [3] and not looked.more and looked.back_to == 1


def test_what_is_wanted(log):
    store = log(
        [
            decided(1),
            decided(2, "b"),
            New("Abstained", payload_of(Abstained(3, (0.5,), 1)), (_name("decision", 3),)),
            New(
                "Asked",
                payload_of(Asked(1, (0.5,), "b", 1, decision=4)),
                (_name("decision", 4), _name("question", 1)),
            ),
            New("Asked", payload_of(Asked(2, (0.5,), "a", 1)), (_name("question", 2),)),
            New("Taught", payload_of(Taught(1, (0.5,), "a", True)), (_name("example", 1),)),
            New("Rewarded", payload_of(Rewarded(1, 0.5, NOW)), (_name("outcome", 1),)),
            New("Expired", payload_of(Expired(2, None, NOW)), (_name("outcome", 2),)),
            decided(5),
            decided(6),
            New("Expired", payload_of(Expired(5, 0.25, NOW)), (_name("outcome", 5),)),
        ]
    )

    def found(**wanted):
        return seqs(search_back(store, "films", ChoiceFilter(**wanted), 100, 50))

    assert found() == [10, 9, 4, 3, 2, 1]  # a question to be taught by is no decision
    assert found(outcome="decision") == [10, 9, 2, 1]
    assert found(outcome="abstention") == [3]
    assert found(outcome="question") == [4]
    assert found(arms=frozenset({"b"})) == [4, 2]
    assert found(rewarded=True) == [9, 1]
    assert found(rewarded=False) == [10, 2]
    assert found(first=2, last=4) == [4, 3, 2]
    assert found(outcome="question", rewarded=False) == []
    assert found(first=50) == []


def test_on_and_on_is_the_same_as_back(log):
    store = log([decided(n, "ab"[n % 2]) for n in range(1, 301)])
    wanted = ChoiceFilter(arms=frozenset({"b"}), first=11, last=250)
    found, after = [], 0
    while after < wanted.last:
        some, after = search_forward(store, "films", wanted, after, 70)
        found += some
    assert found == search_back(store, "films", wanted, 301, 1_000).found[::-1]
    assert [one.seq for one in found] == list(range(11, 251, 2))
    assert search_forward(store, "films", ChoiceFilter(last=400), 300, 70) == ([], 400)


def test_what_became_of_rewards(log):
    store = log(
        [
            *(decided(n) for n in range(1, 6)),
            New("Rewarded", payload_of(Rewarded(1, 0.5, NOW)), (_name("outcome", 1),)),
            New("Expired", payload_of(Expired(2, None, NOW)), (_name("outcome", 2),)),
            New("Expired", payload_of(Expired(3, 0.25, NOW)), (_name("outcome", 3),)),
            *(decided(n) for n in range(100, 300)),
            New("RewardedLate", payload_of(RewardedLate(2, 0.75, NOW)), (_name("late", 2),)),
        ]
    )
    made = search_back(store, "films", ChoiceFilter(), 10, 50).found
    had = rewards_of(store, "films", made)
    assert {id: (one.how, one.value) for id, one in had.items()} == {
        "1": ("came", 0.5),
        "2": ("late", 0.75),
        "3": ("assumed", 0.25),
    }
    assert rewards_of(store, "films", []) == {}


def test_by_id_a_decision_that_asked_stands_twice(log):
    store = log(
        [
            New(
                "Asked",
                payload_of(Asked(7, (0.5,), "b", 1, decision="ann:1")),
                (_name("decision", "ann:1"), _name("question", 7)),
            ),
            decided(2),
            New(
                "Decided",
                payload_of(Decided("ann:1", (0.5,), "a", 2)),
                (_name("settled", "ann:1"),),
            ),
        ]
    )
    assert [one.seq for one in by_id(store, "films", "ann:1")] == [3, 1]
    assert [one.id for one in by_id(store, "films", "7")] == ["ann:1"]
    assert by_id(store, "films", "nobody") == []


def test_what_was_erased_is_told_by_its_id_alone(log):
    store = log(
        [
            decided(1),
            decided("ann"),
            New("Asked", payload_of(Asked(9, (0.5,), "b", 1)), (_name("question", 9),)),
            New("Erasure", payload_of(Erasure((2, 3)))),
        ]
    )
    with store.transaction() as transaction:
        transaction.lock(["films"])
        transaction.erase("films", [2, 3])
    found = search_back(store, "films", ChoiceFilter(), 10, 50).found
    assert [(one.seq, one.id, one.erased, one.context) for one in found] == [
        (2, "ann", True, None),
        (1, "1", False, (0.5,)),
    ]
    assert seqs(search_back(store, "films", ChoiceFilter(rewarded=False), 10, 50)) == [1]
    assert seqs(search_back(store, "films", ChoiceFilter(arms=frozenset("a")), 10, 50)) == [1]
    assert [one.erased for one in by_id(store, "films", "ann")] == [True]


def test_the_place_of_a_time(log):
    silent = New("RunsOn", payload_of(RunsOn("here")))
    entries = [silent if n % 3 == 0 else decided(n, at=10.0 * n) for n in range(1, 3_001)]
    store = log(entries)
    for at in (0.0, 10.0, 11.0, 20.0, 15_000.0, 29_990.0, 29_991.0, 1e9):
        came = [n for n in range(1, 3_001) if n % 3 and 10.0 * n < at]
        found = seq_at(store, "films", 3_000, at)
        # What says no time may be counted on either side.
        assert max(came, default=0) <= found <= max(came, default=0) + 1, at
    assert store.reads < 8 * 30 and seq_at(store, "films", 0, 5.0) == 0


def test_the_place_of_a_time_where_hardly_anything_says_one(log):
    silent = New("RunsOn", payload_of(RunsOn("here")))
    store = log([decided(1, at=10.0), *[silent] * 2_000, decided(2, at=20.0)])
    assert seq_at(store, "films", 2_002, 5.0) == 0
    assert 1 <= seq_at(store, "films", 2_002, 15.0) < 2_002
    assert seq_at(store, "films", 2_002, 25.0) == 2_002


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01T00:00", "9" * 40, "<script>"])
def test_what_is_no_time(text):
    with pytest.raises(InvalidValue):
        decisions.parse_time(text, "from")

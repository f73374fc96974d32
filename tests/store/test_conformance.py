"""What every backend must do alike."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

from bridle.errors import CorruptState, Duplicate, NotPossible, StoreFailed
from bridle.store.log import (
    START,
    AgentRow,
    Found,
    Head,
    Name,
    New,
    Snapshot,
    Store,
    TokenRow,
    broken,
)
from tests.store.conftest import Opener
from tests.store.filling import fill, new, seq_of, seqs, whole


def test_a_new_store_is_empty(store: Store):
    assert store.agents() == []
    assert store.tokens() == []
    assert store.head("a") is None
    assert store.read("a") == []
    assert store.find("a", "decision", ["d1"]) == {}
    assert store.names("a", 0, 10) == {}
    assert store.snapshot("a") is None
    assert store.snapshots("a") == []
    assert store.token("t") is None


def test_what_was_appended_is_read_in_order_and_linked(store: Store):
    head = fill(store, count=20)
    entries = whole(store)
    assert seqs(entries) == list(range(1, 21))
    assert [entry.payload for entry in entries] == [new(i).payload for i in range(1, 21)]
    last = START
    for entry in entries:
        assert broken(last, entry) is None
        last = Head(entry.seq, entry.hash)
    assert last == head == store.head("a")
    assert store.agents() == [AgentRow("a", head, 1.5, None)]
    assert seqs(store.read("a", after=5, limit=3)) == [6, 7, 8]
    assert store.read("a", after=20) == []


def test_equal_payloads_have_salts_of_their_own(store: Store):
    with store.transaction() as transaction:
        transaction.create("a", 0.0)
        transaction.append("a", [New("Decided", b"{}")] * 3)
    entries = whole(store)
    assert len({entry.salt for entry in entries}) == 3
    assert len({entry.payload_hash for entry in entries}) == 3


def test_appends_of_one_transaction_follow_each_other(store: Store):
    with store.transaction() as transaction:
        transaction.create("a", 0.0)
        transaction.create("b", 0.0, origin="a@3")
        first = transaction.append("a", [new(1), new(2)])
        assert transaction.append("a", []) == first
        transaction.append("b", [new(1)])
        second = transaction.append("a", [new(3)])
        assert seqs(transaction.read("a", 1, 10)) == [2, 3]
        assert transaction.find("a", "decision", ["d3", "d4"]) == {"d3": Found(3, b"\3" * 32)}
    assert (first.seq, second.seq) == (2, 3)
    assert [(row.name, row.head.seq, row.origin) for row in store.agents()] == [
        ("a", 3, None),
        ("b", 1, "a@3"),
    ]


def test_any_bytes_and_words_come_back(store: Store):
    payload, id = bytes(range(256)) * 50, "ü → 'quoted\" % ? %s \\ 𝄞"
    with store.transaction() as transaction:
        transaction.create(id, 0.0)
        transaction.append(id, [New("Kind", payload, (Name(id, id, None), Name("b", "", b"\0")))])
    [entry] = store.read(id)
    assert entry.payload == payload
    assert store.find(id, id, [id]) == {id: Found(1, None)}
    assert store.names(id, 0, 1) == {1: (Name("b", "", b"\0"), Name(id, id, None))}


def test_words_that_are_no_unicode_are_refused(store: Store):
    fill(store, count=1)
    for act in (
        lambda t: t.append("a", [New("K", b"", (Name("decision", "\ud800"),))]),
        lambda t: t.find("a", "decision", ["\ud800"]),
        lambda t: t.create("\ud800", 0.0),
    ):
        with pytest.raises(StoreFailed), store.transaction() as transaction:
            transaction.lock(["a"])
            act(transaction)
    with pytest.raises(StoreFailed):
        store.head("\ud800")
    assert seq_of(store) == 1


def test_agents_come_by_name(store: Store):
    with store.transaction() as transaction:
        for name in ("b", "a", "C", "ä", "a-b", "a b"):
            transaction.create(name, 0.0)
    assert [row.name for row in store.agents()] == ["C", "a", "a b", "a-b", "b", "ä"]


def test_a_second_agent_of_a_name_is_refused_and_the_first_stands(store: Store):
    fill(store, count=2)
    with store.transaction() as transaction:
        with pytest.raises(Duplicate) as caught:
            transaction.create("a", 9.0)
        transaction.create("b", 2.0)
    assert (caught.value.kind, caught.value.id) == ("agent", "a")
    assert [(row.name, row.head.seq) for row in store.agents()] == [("a", 2), ("b", 0)]


def test_a_log_must_be_locked_to_be_appended_to(store: Store):
    fill(store, count=1)
    with store.transaction() as transaction, pytest.raises(NotPossible, match="not locked"):
        transaction.append("a", [new(2)])
    assert seq_of(store) == 1


def test_lock_leaves_out_unknown_agents(store: Store):
    head = fill(store, count=1)
    with store.transaction() as transaction:
        assert transaction.lock(["x", "a", "y", "a"]) == {"a": head}
        assert transaction.lock([]) == {}


def test_a_name_stands_once(store: Store):
    fill(store, count=3)
    with pytest.raises(Duplicate) as caught, store.transaction() as transaction:
        transaction.lock(["a"])
        transaction.append("a", [new(4), new(2)])
    assert (caught.value.kind, caught.value.id) == ("decision", "d2")
    assert seq_of(store) == 3
    # Not even the name that was free stands.
    assert store.find("a", "decision", ["d4"]) == {}
    assert fill(store, count=1, create=False).seq == 4


def test_a_name_stands_once_among_those_that_come_together(store: Store):
    fill(store, count=1)
    with pytest.raises(Duplicate, match="d7"), store.transaction() as transaction:
        transaction.lock(["a"])
        transaction.append("a", [new(7), new(7)])
    with pytest.raises(Duplicate, match="d8"), store.transaction() as transaction:
        transaction.lock(["a"])
        transaction.append("a", [new(8)])
        transaction.append("a", [new(8)])
    assert seq_of(store) == 1


def test_nothing_is_committed_after_a_duplicate_even_if_it_was_caught(store: Store):
    fill(store, count=1)
    with pytest.raises(Duplicate), store.transaction() as transaction:
        transaction.lock(["a"])
        transaction.append("a", [new(2)])
        with pytest.raises(Duplicate):
            transaction.append("a", [new(1)])
    assert seq_of(store) == 1


def test_the_same_name_may_stand_in_other_logs_and_spaces(store: Store):
    fill(store, "a", 1)
    fill(store, "b", 1)
    with store.transaction() as transaction:
        transaction.lock(["a"])
        transaction.append("a", [New("Rewarded", b"{}", (Name("outcome", "d1"),))])
    assert store.find("a", "outcome", ["d1"]) == {"d1": Found(2, None)}
    assert store.find("b", "outcome", ["d1"]) == {}


def test_many_names_are_found_in_one_call(store: Store):
    fill(store, count=1_200)
    found = store.find("a", "decision", [f"d{i}" for i in range(2_000)])
    assert {id: place.seq for id, place in found.items()} == {f"d{i}": i for i in range(1, 1_201)}
    assert sorted(store.names("a", 1_100, 1_000)) == list(range(1_101, 1_201))


def test_what_is_rolled_back_leaves_nothing(store: Store):
    before = fill(store, count=2)
    with pytest.raises(ZeroDivisionError), store.transaction() as transaction:
        transaction.create("b", 0.0)
        transaction.lock(["a"])
        transaction.append("a", [new(3)])
        transaction.append("b", [new(3)])
        transaction.erase("a", [1])
        transaction.add_token(TOKEN)
        raise ZeroDivisionError
    assert store.head("a") == before
    assert [row.name for row in store.agents()] == ["a"]
    assert store.find("a", "decision", ["d3"]) == {}
    assert store.read("a")[0].payload is not None
    assert store.tokens() == []


def test_a_transaction_in_a_transaction_is_refused(store: Store):
    with store.transaction() as transaction:
        transaction.create("a", 0.0)
        with pytest.raises(NotPossible, match="transaction"), store.transaction():
            pass
    assert store.head("a") == START


def test_readers_see_only_what_is_committed(store: Store):
    fill(store, count=1)
    with store.transaction() as transaction:
        transaction.lock(["a"])
        transaction.append("a", [new(2)])
        assert seq_of(store) == 1
        assert len(store.read("a")) == 1
    assert seq_of(store) == 2


def test_eight_threads_and_two_stores_make_one_log_without_gaps(opener: Opener):
    stores = [opener(), opener()]
    with stores[0].transaction() as transaction:
        transaction.create("a", 0.0)
        transaction.create("b", 0.0)
    seen: list[tuple[str, int, int]] = []
    failures: list[BaseException] = []

    def write(thread: int) -> None:
        store = stores[thread % 2]
        try:
            for turn in range(25):
                # In both orders: whoever takes two logs may not wait for whoever has the other.
                agents = ["a", "b"] if turn % 2 else ["b", "a"]
                with store.transaction() as transaction:
                    transaction.lock(agents)
                    heads = {}
                    for agent in agents:
                        name = Name("n", f"{thread}-{turn}")
                        entry = New("K", f"{thread}-{turn}".encode(), (name,))
                        heads[agent] = transaction.append(agent, [entry]).seq
                seen.extend((agent, seq, thread) for agent, seq in heads.items())
                assert seq_of(store) >= heads["a"]
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for agent in ("a", "b"):
        entries = whole(stores[0], agent)
        assert seqs(entries) == list(range(1, 201))
        assert sorted(seq for name, seq, _ in seen if name == agent) == list(range(1, 201))
        ends = [START, *(Head(entry.seq, entry.hash) for entry in entries)]
        assert [broken(end, entry) for end, entry in zip(ends, entries, strict=False)] == [
            None
        ] * 200
        # Each thread's own come in the order in which it wrote them.
        for i in range(8):
            turns = [
                int(entry.payload.decode().split("-")[1])
                for entry in entries
                if entry.payload is not None and entry.payload.startswith(f"{i}-".encode())
            ]
            assert all(a < b for a, b in pairwise(turns)) and len(turns) == 25


def test_erased_payloads_are_gone_and_the_chain_stands(store: Store):
    fill(store, count=6)
    for at in (2, 3, 6):
        store.keep_snapshot("a", Snapshot(_head(store, at), b"state"))
    with store.transaction() as transaction:
        assert transaction.erase("a", [3, 5, 3, 99, 0, -7]) == 2
        assert transaction.erase("nobody", [1]) == 0
    entries = whole(store)
    assert [entry.seq for entry in entries if entry.payload is None] == [3, 5]
    assert [entry.seq for entry in entries if entry.salt is None] == [3, 5]
    ends = [START, *(Head(entry.seq, entry.hash) for entry in entries)]
    assert [broken(end, entry) for end, entry in zip(ends, entries, strict=False)] == [None] * 6
    assert store.snapshots("a") == [2]
    # A second time there is nothing to erase, and no snapshot to blame.
    store.keep_snapshot("a", Snapshot(_head(store, 6), b"state"))
    with store.transaction() as transaction:
        assert transaction.erase("a", [3]) == 0
    assert store.snapshots("a") == [2, 6]


def test_erasing_leaves_other_logs_alone(store: Store):
    fill(store, "a", 3)
    fill(store, "b", 3)
    with store.transaction() as transaction:
        transaction.erase("a", [2])
    assert [entry.payload is None for entry in whole(store, "b")] == [False] * 3


def test_snapshots_are_kept_found_and_dropped(store: Store):
    fill(store, count=9)
    blob = bytes(range(256)) * 1_000
    store.keep_snapshot("a", Snapshot(START, b"nothing yet"))
    store.keep_snapshot("a", Snapshot(_head(store, 4), b"old"))
    store.keep_snapshot("a", Snapshot(_head(store, 4), b"four"))
    store.keep_snapshot("a", Snapshot(_head(store, 8), blob))
    assert store.snapshot("a") == Snapshot(_head(store, 8), blob)
    assert store.snapshot("a", at_most=7) == Snapshot(_head(store, 4), b"four")
    assert store.snapshot("a", at_most=3) == Snapshot(START, b"nothing yet")
    assert store.snapshots("a") == [0, 4, 8]
    store.drop_snapshots("a", [8, 0, 77])
    assert store.snapshots("a") == [4]
    store.drop_snapshots("nobody", [4])
    assert store.snapshots("a") == [4]


def test_a_snapshot_of_another_log_is_refused(store: Store):
    fill(store, "a", 3)
    fill(store, "b", 3)
    for agent, head in (
        ("a", _head(store, 2, "b")),
        ("a", Head(4, bytes(32))),
        ("a", Head(0, b"\1" * 32)),
        ("nobody", START),
    ):
        with pytest.raises(NotPossible, match="never had the head"):
            store.keep_snapshot(agent, Snapshot(head, b"state"))
    assert store.snapshots("a") == []


TOKEN = TokenRow("t1", b"h" * 32, "teacher", ("a", "b"), 1.0, 2.5, None, "of Ann")


def test_tokens_are_kept_and_revoked(store: Store):
    other = TokenRow("t0", b"i" * 32, "admin", None, 2.0, None, None, "")
    nothing = TokenRow("t2", b"j" * 32, "agent", (), 3.0, None, 4.0, "")
    with store.transaction() as transaction:
        for token in (TOKEN, other, nothing):
            transaction.add_token(token)
    assert store.tokens() == [TOKEN, other, nothing]
    assert store.token("t0") == other
    with store.transaction() as transaction:
        assert transaction.revoke_token("t1", 9.0)
        assert not transaction.revoke_token("t1", 10.0)
        assert not transaction.revoke_token("unknown", 9.0)
        with pytest.raises(Duplicate, match="token"):
            transaction.add_token(other)
    assert store.token("t1") == TOKEN._replace(revoked=9.0)


def test_entries_are_adopted_as_they_are(opener: Opener):
    source, target = opener("source"), opener("target")
    fill(source, count=6)
    with source.transaction() as transaction:
        transaction.erase("a", [2])
    entries, names = source.read("a"), source.names("a", 0, 6)
    with target.transaction() as transaction:
        transaction.create("copy", 0.0)
        transaction.adopt("copy", entries[:3], names)
        assert transaction.adopt("copy", entries[3:], names) == source.head("a")
    assert target.read("copy") == entries
    assert target.names("copy", 0, 6) == names
    assert fill(target, "copy", 1, create=False).seq == 7


def test_entries_that_do_not_follow_are_not_adopted(opener: Opener):
    source, target = opener("source"), opener("target")
    fill(source, count=3)
    entries = source.read("a")
    for wrong in (entries[1:], [entries[0]._replace(payload=b"{}")], [entries[0], entries[2]]):
        with pytest.raises(CorruptState), target.transaction() as transaction:
            transaction.create("copy", 0.0)
            transaction.adopt("copy", wrong, {})
    assert target.agents() == []


def test_a_store_can_be_opened_again(opener: Opener):
    first = opener()
    head = fill(first, count=3)
    first.close()
    again = opener()
    assert again.head("a") == head
    assert fill(again, count=1, create=False).seq == 4


def test_a_closed_store_says_so(store: Store):
    fill(store)
    store.close()
    store.close()
    with pytest.raises(StoreFailed, match="closed"):
        store.agents()
    with pytest.raises(StoreFailed, match="closed"), store.transaction():
        pass


def _head(store: Store, at: int, agent: str = "a") -> Head:
    [entry] = store.read(agent, at - 1, 1)
    return Head(entry.seq, entry.hash)

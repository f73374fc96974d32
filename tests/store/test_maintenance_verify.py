from __future__ import annotations

import pytest

from bridle.errors import InvalidValue, UnknownId
from bridle.store import maintenance
from bridle.store.log import START, Head, New, Snapshot, Store, link
from bridle.store.maintenance import head_from_text, verify
from tests.store.filling import fill, tamper


def kinds(store: Store, expect: str | None = None) -> list[tuple[str, int]]:
    return [(p.kind, p.seq) for p in verify(store, "a", expect=expect).problems]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_PAGE", 4)


def test_a_whole_log_has_no_problems(store: Store):
    head = fill(store, count=10)
    with store.transaction() as transaction:
        transaction.erase("a", [3, 9])
    done: list[tuple[int, int]] = []
    verified = verify(store, "a", progress=lambda *steps: done.append(steps))
    assert verified == (head, 10, 2, ())
    assert done == [(4, 10), (8, 10), (10, 10)]
    assert head_from_text(str(head)) == head


def test_an_empty_log_has_no_problems(store: Store):
    fill(store, count=0)
    assert verify(store, "a", expect=str(START)) == (START, 0, 0, ())


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE entries SET kind = 'Other' WHERE seq = 5", [("hash", 5)]),
        ("UPDATE entries SET hash = payload_hash WHERE seq = 5", [("hash", 5), ("hash", 6)]),
        (
            "UPDATE entries SET payload_hash = hash WHERE seq = 5",
            [("hash", 5), ("payload", 5)],
        ),
        ("UPDATE payloads SET salt = payload WHERE (place & 1023) = 5", [("payload", 5)]),
        ("DELETE FROM entries WHERE seq = 5", [("gap", 5), ("name", 5)]),
        ("DELETE FROM entries WHERE seq <= 4", [("gap", 1), *[("name", i) for i in range(1, 5)]]),
        ("DELETE FROM entries WHERE seq > 8", [("head", 8), ("name", 9), ("name", 10)]),
        ("UPDATE agents SET head_hash = hash FROM entries WHERE seq = 3", [("head", 10)]),
        ("UPDATE names SET seq = 77 WHERE id = 'd5'", [("name", 77)]),
        ("UPDATE names SET seq = -1 WHERE id = 'd5'", [("name", -1)]),
    ],
)
def test_every_kind_of_tampering_is_found(store: Store, statement: str, found: list[object]):
    fill(store, count=10)
    tamper(store, statement)
    assert kinds(store) == found


def test_entries_after_the_head_are_found(store: Store):
    fill(store, count=10)
    before = store.read("a", 7, 1)[0]
    tamper(store, "UPDATE agents SET head_seq = ?, head_hash = ?", (8, before.hash))
    assert kinds(store) == [("head", 9), ("name", 9), ("name", 10)]


def test_a_cut_tail_is_seen_by_who_kept_a_head(store: Store):
    head = fill(store, count=10)
    cut = store.read("a", 6, 1)[0]
    for table, column in (("entries", "seq"), ("names", "seq"), ("payloads", "(place & 1023)")):
        tamper(store, f"DELETE FROM {table} WHERE {column} > 7")
    tamper(store, "UPDATE agents SET head_seq = ?, head_hash = ?", (7, cut.hash))
    assert kinds(store) == []
    assert kinds(store, str(head)) == [("cut", 10)]
    assert kinds(store, str(Head(7, cut.hash))) == []


def test_a_rewritten_chain_is_seen_by_who_kept_a_head(store: Store):
    head = fill(store, count=10)
    early = Head(2, store.read("a", 1, 1)[0].hash)
    kept = Head(6, store.read("a", 5, 1)[0].hash)
    for entry in link(early, [New("Decided", f"{i}".encode()) for i in range(3, 11)]):
        seq, kind, hash, hashed, salt, payload = entry
        tamper(
            store,
            "UPDATE entries SET kind = ?, hash = ?, payload_hash = ? WHERE seq = ?",
            (kind, hash, hashed, seq),
        )
        tamper(
            store,
            "UPDATE payloads SET salt = ?, payload = ? WHERE (place & 1023) = ?",
            (salt, payload, seq),
        )
    tamper(store, "UPDATE agents SET head_hash = ?", (entry.hash,))
    assert kinds(store) == []
    assert kinds(store, str(early)) == []
    assert kinds(store, str(kept)) == [("rewritten", 6)]
    assert kinds(store, str(head)) == [("rewritten", 10)]
    assert kinds(store, f"0:{'1' * 64}") == [("rewritten", 0)]


def test_what_is_appended_meanwhile_is_no_problem(store: Store):
    fill(store, count=6)
    verified = verify(store, "a", progress=lambda *_: fill(store, count=2, create=False))
    assert (verified.head.seq, verified.entries, verified.problems) == (6, 6, ())


def test_of_a_flood_of_problems_the_first_are_told(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(maintenance, "_MOST_PROBLEMS", 3)
    fill(store, count=10)
    tamper(store, "UPDATE payloads SET payload = salt")
    assert kinds(store) == [("payload", 1), ("payload", 2), ("payload", 3), ("more", 4)]


@pytest.mark.parametrize("text", ["", "5", "5:", "5:abc", f"-1:{'0' * 64}", f"1:{'A' * 64}"])
def test_an_expected_head_has_a_form(store: Store, text: str):
    fill(store, count=1)
    with pytest.raises(InvalidValue, match="SEQ:HASH"):
        verify(store, "a", expect=text)


def test_an_unknown_agent_is_said(store: Store):
    with pytest.raises(UnknownId, match="nobody"):
        verify(store, "nobody")


def test_a_damaged_snapshot_gives_way_to_an_older_one(store: Store):
    fill(store, count=10)
    for seq in (3, 6, 9):
        [entry] = store.read("a", seq - 1, 1)
        store.keep_snapshot("a", Snapshot(Head(seq, entry.hash), f"state {seq}".encode()))
    tamper(store, "UPDATE snapshots SET blob = sha256 WHERE seq = 9")
    found = store.snapshot("a")
    assert found is not None and found.blob == b"state 6"
    # One that is whole, but of another chain.
    tamper(store, "UPDATE snapshots SET hash = sha256 WHERE seq = 6")
    found = store.snapshot("a")
    assert found is not None and found.head.seq == 3
    tamper(store, "UPDATE snapshots SET sha256 = hash")
    assert store.snapshot("a") is None

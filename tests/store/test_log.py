from __future__ import annotations

import os
import warnings
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.store.log import SALT_BYTES, START, Head, New, broken, entry_hash, link, payload_hash


def test_the_hashes_are_those_of_the_documented_form():
    salt, payload = bytes(range(16)), b'{"event":"Rewarded"}'
    hashed = payload_hash(salt, payload)
    assert hashed == sha256(salt + payload).digest()
    previous = bytes([7]) * 32
    plain = b"bridle chain 1\0" + previous + bytes([0, 0, 0, 0, 0, 0, 1, 2])
    plain += b"\0\x08Rewarded" + hashed
    assert entry_hash(previous, 258, "Rewarded", hashed) == sha256(plain).digest()


@given(st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=50)), max_size=20))
def test_what_is_linked_follows(events: list[tuple[str, bytes]]):
    try:
        entries = link(START, [New(kind, payload) for kind, payload in events])
    except UnicodeEncodeError:
        return
    last = START
    for entry, (kind, payload) in zip(entries, events, strict=True):
        assert (entry.kind, entry.payload) == (kind, payload)
        assert entry.salt is not None and len(entry.salt) == SALT_BYTES
        assert broken(last, entry) is None
        last = Head(entry.seq, entry.hash)
    assert last.seq == len(events)


def test_a_batch_continues_another():
    first = link(START, [New("A", b"1")])
    [second] = link(Head(1, first[0].hash), [New("B", b"2")])
    assert second.seq == 2
    assert broken(Head(1, first[0].hash), second) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seq": 3}, "follows entry"),
        ({"kind": "Other"}, "hash of entry 2"),
        ({"hash": bytes(32)}, "hash of entry 2"),
        ({"payload_hash": bytes(32)}, "hash of entry 2"),
        ({"payload": b"other"}, "payload of entry 2"),
        ({"salt": bytes(16)}, "payload of entry 2"),
        ({"salt": None}, "not both"),
        ({"payload": None}, "not both"),
    ],
)
def test_every_change_is_seen(change: dict[str, object], said: str):
    first, second = link(START, [New("A", b"1"), New("B", b"2")])
    previous = Head(1, first.hash)
    assert broken(previous, second) is None
    wrong = broken(previous, second._replace(**change))
    assert wrong is not None and said in wrong


def test_an_erased_entry_still_follows():
    [entry] = link(START, [New("A", b"1")])
    assert broken(START, entry._replace(salt=None, payload=None)) is None


def test_no_salt_comes_twice_in_a_process_or_in_its_child():
    from bridle.store.log import _salts

    news = [New("Note", b"{}")] * 5_000
    salts = [entry.salt for entry in link(START, news)]
    assert len(set(salts)) == len(salts)
    ours = _salts.take(16)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons: threads run
        child = os.fork()
    if child == 0:
        os.write(writing, _salts.take(16))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 16)
    os.close(reading)
    os.close(writing)
    assert len(theirs) == 16 and theirs not in (ours, _salts.take(16))
    assert len(_salts.take(3 * 2**16)) == 3 * 2**16

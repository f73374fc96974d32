"""Verifying a log: every hash is computed again, and nothing that is there is taken on trust."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from bridle.errors import InvalidValue, UnknownId
from bridle.store.chain import entry_hash, payload_hash
from bridle.store.records import START, Entry, Head, Store

__all__ = ["Problem", "Progress", "Verified", "head_from_text", "verify"]

Progress: TypeAlias = Callable[[int, int], None]  # how many entries are done, and of how many
_PAGE = 1_000
_MOST_PROBLEMS = 1_000
_EVERYTHING = 1 << 40
_HEAD = re.compile(r"([0-9]{1,12}):([0-9a-f]{64})")


class Problem(NamedTuple):
    """Something that does not fit.

    `kind`: "gap" (an entry is missing), "hash" (an entry was changed), "payload" (a payload was
    changed), "name" (a name points nowhere), "head" (the log does not end where the store says),
    "cut" (it ends before what was expected), "rewritten" (it had another hash there), "more" (there
    are more problems than are told).
    """

    kind: Literal["gap", "hash", "payload", "name", "head", "cut", "rewritten", "more"]
    seq: int
    text: str


class Verified(NamedTuple):
    """What was found of a log. It is whole if there are no problems."""

    head: Head
    entries: int
    erased: int  # payloads
    problems: tuple[Problem, ...]


class _Tally:
    """What was seen so far; of a flood of problems only the first."""

    def __init__(self) -> None:
        self.entries = 0
        self.erased = 0
        self.problems: list[Problem] = []

    def add(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            if len(self.problems) == _MOST_PROBLEMS:
                text = f"there are more than {_MOST_PROBLEMS:,} problems"
                self.problems.append(Problem("more", problem.seq, text))
            elif len(self.problems) < _MOST_PROBLEMS:
                self.problems.append(problem)


def verify(
    store: Store, agent: str, *, expect: str | None = None, progress: Progress | None = None
) -> Verified:
    """Verify the log of an agent, up to the head that it has now.

    Parameters
    ----------
    store : Store
        Where the log is. It may be in use.
    agent : str
        Whose log.
    expect : str, optional
        A head that the log is known to have had, as "SEQ:HASH". A chain alone cannot tell that its
        tail was cut, or that all of it was made anew: a head that was kept elsewhere can.
    progress : callable, optional
        Called after each page with the number of entries done and of all.
    """
    head = store.head(agent)
    if head is None:
        raise UnknownId("agent", agent, "The store has no log of that name.")
    expected = START if expect is None else head_from_text(expect)
    tally = _Tally()
    if expected.seq == 0 and expected != START:
        tally.add([Problem("rewritten", 0, "a log of no entries has a hash of zeros")])
    last = START
    while last.seq < head.seq:
        page = store.read(agent, last.seq, min(_PAGE, head.seq - last.seq))
        page = [entry for entry in page if entry.seq <= head.seq]
        if not page:
            break
        first = last.seq
        for entry in page:
            tally.entries += 1
            tally.erased += entry.payload is None
            tally.add(_problems(last, entry, expected))
            last = Head(entry.seq, entry.hash)
        tally.add(_lost_names(store, agent, first, page))
        if progress is not None:
            progress(last.seq, head.seq)
    tally.add(_problems_of_end(store, agent, last, head))
    if expected.seq > head.seq:
        text = f"the log ends at {head.seq}, before {expected.seq}: its tail was cut off"
        tally.add([Problem("cut", expected.seq, text)])
    return Verified(head, tally.entries, tally.erased, tuple(tally.problems))


def head_from_text(text: str) -> Head:
    """Read a head from "SEQ:HASH", the form in which it is printed."""
    match = _HEAD.fullmatch(text)
    if match is None:
        raise InvalidValue("expect", "verify", "SEQ:HASH, as verify prints it", text)
    return Head(int(match[1]), bytes.fromhex(match[2]))


def _problems(last: Head, entry: Entry, expected: Head) -> Iterator[Problem]:
    seq = entry.seq
    if seq != last.seq + 1:
        yield Problem("gap", last.seq + 1, f"entries {last.seq + 1} to {seq - 1} are missing")
    # After a gap, and after a wrong hash, it goes on from what is there: so each is told once.
    elif entry.hash != entry_hash(last.hash, seq, entry.kind, entry.payload_hash):
        yield Problem("hash", seq, f"the hash of entry {seq} does not follow from what it holds")
    if entry.salt is not None and entry.payload is not None:
        if payload_hash(entry.salt, entry.payload) != entry.payload_hash:
            yield Problem("payload", seq, f"the payload of entry {seq} is not the one hashed")
    elif entry.salt is not entry.payload:
        yield Problem("payload", seq, f"entry {seq} has a payload or a salt, but not both")
    if last.seq < expected.seq <= seq and Head(seq, entry.hash) != expected:
        text = f"entry {expected.seq} had the hash {expected.hash.hex()}: the chain was rewritten"
        yield Problem("rewritten", expected.seq, text)


def _lost_names(store: Store, agent: str, first: int, page: list[Entry]) -> Iterator[Problem]:
    there = {entry.seq for entry in page}
    for seq, names in store.names(agent, first, page[-1].seq - first).items():
        if seq not in there:
            yield from _pointing_nowhere(seq, len(names))


def _problems_of_end(store: Store, agent: str, last: Head, head: Head) -> Iterator[Problem]:
    if last != head:
        text = f"the log ends with {last}, but the store says {head}"
        yield Problem("head", last.seq, text)
    for after, count in ((-_EVERYTHING, _EVERYTHING), (last.seq, head.seq - last.seq)):
        for seq, names in store.names(agent, after, count).items():
            yield from _pointing_nowhere(seq, len(names))
    # Others may have appended meanwhile. What they wrote is seen before the head is read again.
    beyond = store.read(agent, head.seq, 1)
    names_beyond = store.names(agent, head.seq, _EVERYTHING)
    now = store.head(agent)
    newest = head.seq if now is None else now.seq
    if beyond and beyond[0].seq > newest:
        yield Problem("head", beyond[0].seq, f"entry {beyond[0].seq} stands after the head {head}")
    for seq, names in names_beyond.items():
        if seq > newest:
            yield from _pointing_nowhere(seq, len(names))


def _pointing_nowhere(seq: int, count: int) -> Iterator[Problem]:
    yield Problem("name", seq, f"{count} names point to entry {seq}, which is not there")

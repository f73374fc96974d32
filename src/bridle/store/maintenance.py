"""What an operator does with logs: verify, replay, export, erase, back up, restore, fork.

Verifying computes every hash again and trusts nothing that is there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from bridle.agent.config import ItemId
from bridle.agent.events import (
    Abstained,
    Asked,
    Created,
    Decided,
    Erased,
    Erasure,
    Event,
    Judged,
    RunsOn,
    Taught,
)
from bridle.agent.replay import remade
from bridle.agent.selection import Choice
from bridle.agent.state import AgentState
from bridle.errors import (
    BridleError,
    CorruptState,
    InvalidValue,
    NotPossible,
    StoreFailed,
    UnknownId,
)
from bridle.store.aggregate import Progress as ReplayProgress
from bridle.store.aggregate import events_in, load, log_head, payload_of, platform_here
from bridle.store.idempotency import ids_in
from bridle.store.log import (
    START,
    AgentRow,
    Entry,
    Head,
    Name,
    New,
    Store,
    entry_hash,
    payload_hash,
)
from bridle.store.migrations import due, migrations
from bridle.store.sqlite import SqliteStore, sync_folder

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Problem",
    "Progress",
    "Replayed",
    "Verified",
    "backup",
    "check_backup",
    "erase",
    "export",
    "fork",
    "head_from_text",
    "replay",
    "restore",
    "verify",
]


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


# --- Replaying a log: every choice in it is made again, and compared ----------------------


# On other versions, or on another platform, the last bits of a logarithm may differ.
NEAR = 1e-9
SHOWN = 100


@dataclass(frozen=True)
class Replayed:
    """How many choices came out again as they stand in the log.

    Attributes
    ----------
    choices : int
        Decisions, abstentions and questions of the log.
    same : int
        Those that came out the same, to the last bit.
    near : int
        Those of other versions or another platform with the same arm, and propensities that differ
        by no more than 1e-9.
    differing : int
        All others.
    unchecked : int
        Those that rest on events whose contents were erased since.
    elsewhere : int
        Choices that other versions, or another platform, made.
    examples : tuple of ids
        The first of those that differ.
    """

    choices: int = 0
    same: int = 0
    near: int = 0
    differing: int = 0
    unchecked: int = 0
    elsewhere: int = 0
    examples: tuple[ItemId, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether all that can be checked came out as it must."""
        return self.differing == 0


def replay(store: Store, agent: str, *, progress: ReplayProgress | None = None) -> Replayed:
    """Fold a log from its first event and make every choice in it again."""
    head = log_head(store, agent)
    erased = _erasures(store, agent, head.seq)
    watch = _Watch(progress, head.seq)
    stream = watch.over(events_in(store, agent, head.seq))
    created = next(stream, None)
    if not isinstance(created, Created):
        raise CorruptState("A log begins with the event Created.")
    state = AgentState(created.settings)
    counts = Replayed()
    for choice, again in remade(state, stream):
        here = watch.platform_at(state.version) == platform_here()
        counts = _counted(counts, choice, again, here, _rests_on(erased, choice.version))
    return counts


class _Watch:
    """Sees the events go by: on what they were made, and how far the replay is."""

    def __init__(self, progress: ReplayProgress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._places: list[tuple[int, str]] = []

    def over(self, events: Iterator[Event]) -> Iterator[Event]:
        for seq, event in enumerate(events, 1):
            if isinstance(event, RunsOn):
                self._places.append((seq, event.platform))
            if self._progress is not None and seq % 1_000 == 0:
                self._progress(seq, self._total)
            yield event
        if self._progress is not None:
            self._progress(self._total, self._total)

    def platform_at(self, version: int) -> str | None:
        """Return on what the event after so many was made. A choice may be a few events old."""
        last = None
        for seq, name in self._places:
            if seq > version + 1:
                break
            last = name
        return last


def _counted(
    counts: Replayed, choice: Choice, again: Choice | None, here: bool, unchecked: bool
) -> Replayed:
    counts = replace(counts, choices=counts.choices + 1, elsewhere=counts.elsewhere + (not here))
    if again == choice:
        return replace(counts, same=counts.same + 1)
    if unchecked:
        return replace(counts, unchecked=counts.unchecked + 1)
    if not here and again is not None and _near(choice, again):
        return replace(counts, near=counts.near + 1)
    shown = counts.examples if len(counts.examples) >= SHOWN else (*counts.examples, choice.id)
    return replace(counts, differing=counts.differing + 1, examples=shown)


def _near(one: Choice, other: Choice) -> bool:
    if one.propensity is None or other.propensity is None:
        return False
    apart = abs(one.propensity - other.propensity)
    same = replace(other, propensity=one.propensity)
    return isinstance(one, Decided | Abstained | Asked) and same == one and apart <= NEAR


def _erasures(store: Store, agent: str, until: int) -> list[tuple[int, int]]:
    """Return the spans in which choices rest on what was erased: from an event to its erasure."""
    spans = []
    last_erased = 0
    for seq, event in enumerate(events_in(store, agent, until), 1):
        if isinstance(event, Erasure) and event.events:
            spans.append((min(event.events), seq))
        elif isinstance(event, Erased):
            last_erased = last_erased or seq
    if last_erased and not spans:  # erased by hand, and never written down
        spans.append((last_erased, until))
    return spans


def _rests_on(spans: list[tuple[int, int]], version: int) -> bool:
    return any(first <= version < last for first, last in spans)


# --- A log as a parquet file, for whoever wants to look at it with other tools ------------


_EXPORT_PAGE = 5_000
# What an event's own id names.
_ID_OF = {
    "Decided": "decision",
    "Abstained": "decision",
    "Taught": "example",
    "Asked": "question",
}
_IDS = ("decision", "example", "question")


def export(store: Store, agent: str, path: Path | str) -> int:
    """Write the log of an agent to a parquet file, and return the number of its entries.

    The columns are seq, kind, at, decision, example, question, arm, value, propensity, coin,
    checked, allowed, by and payload, which holds the whole event as JSON, the seeds of coins among
    them: it is not for everybody. Ids and arms are text there, whatever they are in the event. An
    example that judges a play, and the word of one of several teachers on it, name its decision.
    What an event does not have is null; an erased one has only seq and kind.

    Parameters
    ----------
    store : Store
        Where the log is. It may be in use: what is appended meanwhile is left out.
    agent : str
        Whose log.
    path : Path or str
        The file to write, with a name that ends in .parquet. It takes the place of one of that name
        when it is whole.
    """
    path = Path(path)
    if not path.name.lower().endswith(".parquet"):
        # Who asks for a .csv would find out only when another program cannot read it.
        remedy = f"The table is written as Parquet: name it {path.stem + '.parquet'!r}."
        raise InvalidValue("path", "export", "a name that ends in .parquet", path.name, remedy)
    try:
        from polars.io.plugins import register_io_source
    except ImportError:
        raise NotPossible(
            "Parquet needs polars: pip install '.[study]' in bridle's folder."
        ) from None
    head = store.head(agent)
    if head is None:
        raise UnknownId("agent", agent, "The store has no log of that name.")
    failures: list[BridleError] = []

    # The order and the names of the arguments are polars'. It asks for all of it.
    def frames(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        try:
            for frame in _frames(store, agent, head):
                yield frame if with_columns is None else frame.select(with_columns)
        except BridleError as error:
            # polars would make it one of its own.
            failures.append(error)

    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            partial = Path(folder) / "partial.parquet"
            # Streamed: only some pages are in memory at a time.
            register_io_source(frames, schema=_schema()).sink_parquet(
                partial, row_group_size=_EXPORT_PAGE, maintain_order=True
            )
            if failures:
                raise failures[0]
            partial.replace(path)
    except OSError as error:
        raise StoreFailed(f"Could not write {path}: {error.strerror or error}.") from None
    return head.seq


def _schema() -> dict[str, Any]:
    import polars as pl

    text, number = pl.String, pl.Float64
    return {
        "seq": pl.Int64,
        "kind": text,
        "at": number,
        "decision": text,
        "example": text,
        "question": text,
        "arm": text,
        "value": number,
        "propensity": number,
        "coin": number,
        "checked": pl.Boolean,
        "allowed": pl.Boolean,
        "by": text,
        "payload": text,
    }


def _frames(store: Store, agent: str, head: Head) -> Iterator[pl.DataFrame]:
    import polars as pl

    after = 0
    while after < head.seq:
        page = store.read(agent, after, min(_EXPORT_PAGE, head.seq - after))
        if not page:
            return
        after = page[-1].seq
        yield pl.DataFrame([_row(entry) for entry in page], schema=_schema(), orient="row")


def _row(entry: Entry) -> tuple[object, ...]:
    event: dict[str, Any] = {}
    text = None
    if entry.payload is not None:
        text = entry.payload.decode(errors="replace")
        with contextlib.suppress(ValueError):
            read = json.loads(text)
            event = read if isinstance(read, dict) else {}
    named = _ID_OF.get(entry.kind)
    if entry.kind in ("Taught", "Judged"):
        event["decision"] = event.get("check")
    ids = (event.get("id") if name == named else event.get(name) for name in _IDS)
    return (
        entry.seq,
        entry.kind,
        _number(event.get("at")),
        *map(_text, ids),
        _text(event.get("arm")),
        _number(event.get("value")),
        _number(event.get("propensity")),
        _number(event.get("coin")),
        _truth(event.get("checked")),
        _truth(event.get("allowed")),
        _text(event.get("by")),
        text,
    )


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, int | str) else None


# --- Erasing what the log holds of a person: all events that have to do with a decision or an
# example
#
# A decision has to do with the questions that came up in it, those with their answers, and so on,
# and with the judgement of its play, if a coin chose that: all of them hold the same context. Where
# several teachers are declared, so do their words and the example that these settled. What is
# erased stays in the chain as a hash, so the log still verifies. From then on the agent is what it
# would be if those events had never been.


def erase(
    store: Store,
    agent: str,
    *,
    decisions: Sequence[str] = (),
    examples: Sequence[str] = (),
    by: str | None = None,
    note: str | None = None,
    at: float | None = None,
) -> Head:
    """Erase all events that name these decisions and examples; return the new head.

    The word of one of several teachers goes by its own id, as an example does.

    Nobody else may hold this agent in memory: stop the service before. Backups and forks have
    copies of their own, which are not touched.
    """
    log_head(store, agent)
    if not decisions and not examples:
        raise InvalidValue("decisions", "erase", "at least one decision or example", decisions)
    seqs = _places(store, agent, decisions, examples)
    with store.transaction() as transaction:
        transaction.lock([agent])
        event = Erasure(tuple(seqs), by, note, at)
        head = transaction.append(agent, [New("Erasure", payload_of(event))])
        transaction.erase(agent, seqs)
    load(store, agent)  # what is left can be folded
    return head


def _places(
    store: Store, agent: str, decisions: Sequence[str], examples: Sequence[str]
) -> list[int]:
    """Return the sequences of all events that have to do with these, however far around."""
    wanted = {("decision", id) for id in decisions} | {("example", id) for id in examples}
    for space, id in sorted(wanted):
        spaces = ("example", "word") if space == "example" else (space,)
        if not any(id in store.find(agent, one, [id]) for one in spaces):
            raise UnknownId(space, id, "The log has none of that id.")
    found: set[int] = set()
    declared: set[str] = set()
    size = -1
    while size != len(found):  # until a pass over the log adds nothing
        size = len(found)
        for seq, event in enumerate(events_in(store, agent), 1):
            if isinstance(event, Created):
                declared = {teacher.name for teacher in event.settings.teachers}
            mine, case = ids_in(event), _case(event, declared)
            # What answers a question or a check goes with that, and not with its case: another
            # decision may have been about the same.
            bound = any(space in ("question", "decision") for space, _ in mine)
            if seq not in found and not wanted.isdisjoint(mine if bound else mine | case):
                found.add(seq)
                wanted |= mine | case
    return sorted(found)


def _case(event: Event, declared: set[str]) -> set[tuple[str, str]]:
    """Name the case of a word of one of several teachers, and of what their words settled.

    What is settled later than it was said names neither a word nor a question, but holds the same
    context: it must go with the words.
    """
    if not isinstance(event, Judged):
        by = event.by if isinstance(event, Taught) else None
        if by is None or not declared or not declared.issuperset(by.split(", ")):
            return set()
    assert isinstance(event, Judged | Taught)
    about = repr((event.context, event.item, event.arm))
    return {("case", hashlib.blake2b(about.encode(), digest_size=16).hexdigest())}


# --- Copies of logs: backups while the store is in use, restoring them, and forks ---------


def backup(store: Store, path: Path | str, *, progress: Progress | None = None) -> dict[str, Head]:
    """Copy a store that may be in use into a new SQLite file; return the heads that are in it.

    Each log is copied up to the head that it had at the beginning. The file appears under its name
    when it is whole, verified and on disk.

    Parameters
    ----------
    store : Store
        What to copy, of either kind.
    path : Path or str
        The file to make. There may be none of that name.
    progress : callable, optional
        Called after each page with the number of entries done and of all.
    """
    path = Path(path)
    if path.exists():
        raise NotPossible(f"There is a file {path} already. Name another for the backup.")
    rows = store.agents()
    total, done = sum(row.head.seq for row in rows), 0
    with (
        _failing(path),
        tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder,
    ):
        partial = Path(folder) / "partial.db"
        # Nothing of it counts before all of it is synced, so no commit needs to be.
        with contextlib.closing(SqliteStore(partial, synchronous="OFF")) as target:
            for row in rows:
                with target.transaction() as transaction:
                    transaction.create(row.name, row.created, row.origin)
                for entries, names in _pages(store, row):
                    with target.transaction() as transaction:
                        transaction.lock([row.name])
                        transaction.adopt(row.name, entries, names)
                    done += len(entries)
                    if progress is not None:
                        progress(done, total)
                _copy_snapshots(store, target, row)
            with target.transaction() as transaction:
                for token in store.tokens():
                    transaction.add_token(token)
            _check(target, rows)
        if _size(partial.with_name("partial.db-wal")):
            raise StoreFailed(f"The backup could not be written in full to {path.parent}.")
        _sync_file(partial)
        _move(partial, path)
        sync_folder(path.parent)
    return {row.name: row.head for row in rows}


def check_backup(path: Path | str) -> None:
    """Raise an error unless a file can be restored; look at its form, and not at its logs.

    For whoever makes a store to restore it into: if there is nothing to restore, none is made.
    """
    path = Path(path)
    if not path.is_file():
        raise NotPossible(f"There is no backup {path}.")
    if _size(path.with_name(path.name + "-wal")):
        raise NotPossible(
            f"{path} is in use, or was not closed. Make a backup of it, and take that."
        )
    try:
        # So SQLite writes nothing, not beside it either, also where it could.
        address = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            applied = dict(connection.execute("SELECT version, sha256 FROM migrations"))
    except sqlite3.Error as error:
        raise CorruptState(
            f"{path} is not a backup of bridle, or is damaged: {error}. Name another."
        ) from None
    due(applied, migrations("sqlite"), str(path))


def restore(path: Path | str, store: Store, *, progress: Progress | None = None) -> dict[str, Head]:
    """Restore a backup into an empty store of either kind; return the heads.

    All logs and tokens come in one transaction: if it fails, the store is empty as before. The
    backup is not touched, and may be of an older version.
    """
    path = Path(path)
    check_backup(path)
    if store.agents() or store.tokens():
        raise NotPossible("Only an empty store can take a backup. Name a new file or schema.")
    beside = store.path.parent if isinstance(store, SqliteStore) else None
    with _failing(path), tempfile.TemporaryDirectory(prefix=".restore.", dir=beside) as folder:
        copy = Path(folder) / "copy.db"
        shutil.copyfile(path, copy)
        copy.chmod(0o600)
        with contextlib.closing(SqliteStore(copy, synchronous="OFF")) as source:
            return _bring_in(source, store, progress)


def _bring_in(source: Store, store: Store, progress: Progress | None) -> dict[str, Head]:
    rows = source.agents()
    total, done = sum(row.head.seq for row in rows), 0
    with store.transaction() as transaction:
        for row in rows:
            transaction.create(row.name, row.created, row.origin)
            for entries, names in _pages(source, row):
                transaction.adopt(row.name, entries, names)
                done += len(entries)
                if progress is not None:
                    progress(done, total)
        for token in source.tokens():
            transaction.add_token(token)
    for row in rows:
        _copy_snapshots(source, store, row)
    return {row.name: row.head for row in rows}


def fork(store: Store, agent: str, at: int, name: str, *, created: float | None = None) -> Head:
    """Begin a log of another name that is the first `at` entries of `agent`'s, hash for hash.

    What is erased from one of the two later stays in the other.
    """
    with store.transaction() as transaction:
        head = transaction.fork(agent, at, name, time.time() if created is None else created)
    snapshot = store.snapshot(agent, at_most=at)
    if snapshot is not None:
        store.keep_snapshot(name, snapshot)
    return head


def _pages(
    source: Store, row: AgentRow
) -> Iterator[tuple[list[Entry], Mapping[int, tuple[Name, ...]]]]:
    """Return a log in parts, up to the head in `row`, or raise `CorruptState`."""
    last = Head(0, bytes(32))
    while last.seq < row.head.seq:
        count = min(_PAGE, row.head.seq - last.seq)
        entries = source.read(row.name, last.seq, count)
        if len(entries) < count:
            break
        yield entries, source.names(row.name, last.seq, count)
        last = Head(entries[-1].seq, entries[-1].hash)
    if last != row.head:
        raise CorruptState(
            f"The log of {row.name!r} ends with {last}, but its store says {row.head}. Verify it."
        )


def _copy_snapshots(source: Store, target: Store, row: AgentRow) -> None:
    for seq in source.snapshots(row.name):
        snapshot = source.snapshot(row.name, at_most=seq) if seq <= row.head.seq else None
        # For one that is damaged, or was dropped meanwhile, an older one comes.
        if snapshot is not None and snapshot.head.seq == seq:
            target.keep_snapshot(row.name, snapshot)


def _check(target: Store, rows: list[AgentRow]) -> None:
    for row in rows:
        verified = verify(target, row.name, expect=str(row.head))
        if verified.problems or verified.head != row.head:
            problem = verified.problems[0].text if verified.problems else "it has another head"
            raise CorruptState(f"The backup of {row.name!r} is not as it was written: {problem}.")


@contextlib.contextmanager
def _failing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreFailed(f"Could not copy with {path}: {error.strerror}.") from None


def _sync_file(path: Path) -> None:
    number = os.open(path, os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _move(source: Path, target: Path) -> None:
    try:
        # A link, unlike a move, never takes the place of a file that came meanwhile.
        os.link(source, target)
    except FileExistsError:
        raise NotPossible(f"A file {target} came meanwhile. Name another for the backup.") from None
    except OSError:
        # Some file systems have no links.
        source.replace(target)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0

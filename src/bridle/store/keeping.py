"""Agents out of a store: from the last snapshot, or from the first event, to any version."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bridle.agent import Agent
from bridle.errors import CorruptState, InvalidValue, UnknownId
from bridle.events import Created, Event
from bridle.knowledge import Knowledge
from bridle.store.chain import broken
from bridle.store.kept import Kept, event_of, without_erased
from bridle.store.records import START, Entry, Head, Name, Snapshot, Store, Transaction

__all__ = [
    "agent_at",
    "catch_up",
    "events_in",
    "keep_snapshot",
    "load",
    "log_head",
    "next_snapshot",
]

PAGE = 1_000
# A snapshot every so many events, or bytes of it for each event since, whichever is later.
EVERY = 10_000
BYTES_AN_EVENT = 300
Progress = Callable[[int, int], None]


def load(
    store: Store,
    agent: str,
    at: int | None = None,
    *,
    snapshots: bool = True,
    progress: Progress | None = None,
) -> Kept:
    """Give an agent as its log has it, at a version or now.

    Every entry that is read is checked against the chain. A snapshot is used only if it is whole
    and belongs to this chain; without `snapshots` all is folded from the first event.
    """
    kept, until = _nearest(store, agent, at, snapshots)
    catch_up(kept, store, agent, until, progress)
    return kept


def agent_at(store: Store, agent: str, version: int) -> Agent:
    """Give what an agent knew at a version: in half the time of `load`, and nothing beside it."""
    kept, until = _nearest(store, agent, version, True)
    catch_up(kept, store, agent, until, bare=True)
    return kept.agent


def _nearest(store: Store, agent: str, at: int | None, snapshots: bool) -> tuple[Kept, int]:
    """Give the agent as it was at or before a version, and the version."""
    head = log_head(store, agent)
    if at is not None and not 1 <= at <= head.seq:
        raise InvalidValue("version", "load", f"an int in the range [1, {head.seq}]", at)
    until = head.seq if at is None else at
    kept = _from_snapshot(store, agent, until) if snapshots else None
    return kept if kept is not None else _from_the_start(store, agent), until


def log_head(store: Store, agent: str) -> Head:
    """Give the end of the log of an agent that there is."""
    head = store.head(agent)
    if head is None or head.seq == 0:
        known = ", ".join(repr(row.name) for row in store.agents()[:5])
        remedy = f"The store has {known}, …" if known else "The store has none."
        raise UnknownId("agent", agent, remedy)
    return head


def catch_up(
    kept: Kept,
    store: Store,
    agent: str,
    until: int,
    progress: Progress | None = None,
    within: Transaction | None = None,
    *,
    bare: bool = False,
) -> None:
    """Fold what the log has beyond what is folded, up to a sequence; `bare` as in `Kept.follow`."""
    while kept.head.seq < until:
        source = store if within is None else within
        entries = source.read(agent, kept.head.seq, min(PAGE, until - kept.head.seq))
        if not entries:
            raise CorruptState(f"The log of {agent!r} ends at {kept.head.seq}, before {until}.")
        kept.follow(entries, _names_of_erased(store, agent, entries), bare=bare)
        if progress is not None:
            progress(kept.head.seq, until)


def events_in(store: Store, agent: str, until: int | None = None) -> Iterator[Event]:
    """Give the events of a log, in order, up to a sequence or to its end."""
    at, erased = 0, set[str]()
    while until is None or at < until:
        entries = store.read(agent, at, PAGE if until is None else min(PAGE, until - at))
        if not entries:
            return
        names = _names_of_erased(store, agent, entries)
        for entry in entries:
            said = names.get(entry.seq, ())
            yield without_erased(event_of(entry, said), said, erased)
        at = entries[-1].seq


def next_snapshot(size: int) -> int:
    """Say after how many events the next snapshot is worth its bytes."""
    return max(EVERY, size // BYTES_AN_EVENT)


def keep_snapshot(store: Store, agent: str, kept: Kept) -> int:
    """Keep a snapshot of an agent that has nothing staged; give its size."""
    blob = kept.to_blob()
    store.keep_snapshot(agent, Snapshot(kept.head, blob))
    kept.snapped = kept.head.seq, len(blob)
    return len(blob)


def _from_snapshot(store: Store, agent: str, until: int) -> Kept | None:
    at_most = until
    while (found := store.snapshot(agent, at_most)) is not None:
        try:
            [entry] = store.read(agent, found.head.seq - 1, 1)
            if entry.hash == found.head.hash:
                kept = Kept.from_blob(found.blob, found.head)
                kept.snapped = found.head.seq, len(found.blob)
                return kept
        except (CorruptState, ValueError):
            pass  # it is only a shortcut: an older one, or the log itself, will do
        at_most = found.head.seq - 1
    return None


def _from_the_start(store: Store, agent: str) -> Kept:
    entries = store.read(agent, 0, 1)
    why = broken(START, entries[0]) if entries else "it is empty"
    if why is not None:
        raise CorruptState(f"The log of {agent!r} is damaged: {why}. See `bridle verify`.")
    created = event_of(entries[0])
    if not isinstance(created, Created):
        raise CorruptState("A log begins with the event Created.")
    return Kept(Agent.of(Knowledge(created.settings)), Head(1, entries[0].hash))


def _names_of_erased(store: Store, agent: str, entries: list[Entry]) -> dict[int, tuple[Name, ...]]:
    """Give the names of entries that were erased: what is left of them."""
    if all(entry.payload is not None for entry in entries):
        return {}
    return dict(store.names(agent, entries[0].seq - 1, len(entries)))

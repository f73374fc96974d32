"""One agent in memory: the fold of its log, and what is about to be appended to it.

`record` folds an event and stages it. Nothing that is staged may be answered to anyone before it is
committed; if that fails, this copy must be thrown away, and the log read again.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import numba
import numpy as np

from bridle.agent.agent import Agent
from bridle.agent.events import (
    Created,
    Erased,
    Event,
    RunsOn,
    Taught,
    check_event,
    event_from_json,
    event_to_text,
)
from bridle.agent.outcomes import Decisions
from bridle.agent.snapshot import (
    DAMAGE,
    pack,
    state_from_arrays,
    state_to_arrays,
    unpack,
)
from bridle.agent.state import AgentState
from bridle.audit.log import Auditing, under
from bridle.errors import CorruptState, InvalidValue, UnknownId
from bridle.store.idempotency import arms_in, names_of, text_of
from bridle.store.log import START, Entry, Head, Name, New, Snapshot, Store, Transaction, broken
from bridle.store.projections import (
    Deadlines,
    Erasures,
    Expiries,
    Guesses,
    OpenCalibration,
    Platform,
    Projections,
    Recent,
    Shadows,
    Timeline,
)

__all__ = [
    "Aggregate",
    "agent_at",
    "catch_up",
    "event_of",
    "events_in",
    "keep_snapshot",
    "load",
    "log_head",
    "next_snapshot",
    "payload_of",
    "platform_here",
    "without_erased",
]


FORM = "bridle kept 2"


class Aggregate:
    """An agent and the projections of its log.

    Attributes
    ----------
    agent : Agent
        The agent. Its verbs are not to be used: `record` what `agent.make` makes.
    auditing, erasures, calibration, deadlines, expiries, shadows, guesses, recent, …
        The projections of the log, in the order in which they fold.
    head : Head
        What of the log is folded, the staged entries left out.
    staged : list of New
        What was folded and is not committed.
    """

    def __init__(self, agent: Agent, head: Head) -> None:
        self.agent = agent
        self.state: AgentState = agent._state
        self.projections = Projections()
        add = self.projections.add
        self.auditing = add(Auditing())
        self.erasures = add(Erasures())
        self.calibration = add(OpenCalibration(agent))
        self.deadlines = add(Deadlines(self.state))
        self.expiries = add(Expiries(self.state))
        self.shadows = add(Shadows(self.state))
        self.guesses = add(Guesses(self.state))
        self.recent = add(Recent(self.state))
        self.timeline = add(Timeline(self.state, self.auditing))
        self.platform = add(Platform())
        self.head = head
        self.staged: list[New] = []
        self.snapped = head.seq, 0  # sequence and size of the last snapshot
        self._staged_names: dict[tuple[str, str], tuple[Event, bytes | None, int]] = {}

    @classmethod
    def begin(cls, created: Created) -> Aggregate:
        """Return a new agent, its creation staged."""
        check_event(created)
        aggregate = cls(Agent.of(AgentState(created.settings)), START)
        aggregate.staged.append(New("Created", payload_of(created)))
        return aggregate

    @property
    def version(self) -> int:
        """How many events are folded, the staged ones among them."""
        return self.state.version

    def record(self, event: Event, digest: bytes | None = None) -> None:
        """Fold an event of our own and stage it; `digest` is of the request that led to it.

        All checks stand before the first change: an event that is refused leaves all as it was.
        """
        state = self.state
        for check in self.projections.checks.get(type(event), ()):
            check(event)
        if self.platform.name != platform_here():
            self._record_platform(getattr(event, "at", None))
        names = names_of(event, state, digest)
        new = New(type(event).__name__, event_to_text(event).encode(), names)
        self._fold(event)
        self.staged.append(new)
        for name in names:
            self._staged_names[name[:2]] = event, digest, state.version

    def record_many(
        self, made: Decisions, digests: Sequence[bytes | None] | None = None
    ) -> list[str]:
        """Fold and stage a batch of decisions; return the JSON text of their events.

        The same as one by one, and faster: without `digests`, of ids that the agent gave, nobody
        can have a name before it is committed, and often no event need be made at all.
        """
        if self.platform.name != platform_here():
            self._record_platform(None)
        first = self.version + 1
        each = self.projections.needs_events
        events = made.events() if each or digests is not None else []
        texts = [event_to_text(event) for event in events] or made.texts()
        self.state.fold_decisions(made.ids, made.contexts, made.numbers, made.items, made.coins)
        if not each:
            self.projections.fold_many(made, first)
        for n, event in enumerate(events if each else ()):
            self.projections.fold(event, first + n)
        for n, text in enumerate(texts):
            kind = "Decided" if made.numbers[n] >= 0 else "Abstained"
            id, digest = text_of(made.ids[n]), None if digests is None else digests[n]
            self.staged.append(New(kind, text.encode(), (Name("decision", id, digest),)))
        if digests is not None:
            for n, (event, digest) in enumerate(zip(events, digests, strict=True)):
                self._staged_names["decision", text_of(event.id)] = event, digest, first + n
        return texts

    def staged_as(self, space: str, id: str) -> tuple[Event, bytes | None, int] | None:
        """Return the event of that name that is not committed yet, its digest and sequence."""
        return self._staged_names.get((space, id))

    def committed(self, head: Head) -> None:
        """Mark what was staged as written; `head` is the log's new end."""
        self.head = head
        self.staged = []
        self._staged_names = {}

    def follow(
        self, entries: Iterable[Entry], names: dict[int, tuple[Name, ...]], *, bare: bool = False
    ) -> None:
        """Fold entries that are in the log already, in order; `names` are those of erased ones.

        If `bare`, into the agent's state alone: the projections are not to be used then.
        """
        for entry in entries:
            why = broken(self.head, entry)
            if why is not None:
                raise CorruptState(f"The log is damaged: {why}. See `bridle verify`.")
            own = names.get(entry.seq, ())
            event = event_of(entry, own)
            if self.state.settings.lives:
                event = without_erased(event, own, self.erasures.examples)
            if entry.seq == 1:
                raise CorruptState("A log begins once.")
            if bare:
                self.state.fold(event)
            else:
                self._fold(event)
            self.head = Head(entry.seq, entry.hash)

    def _record_platform(self, at: float | None) -> None:
        """Record on what events are made from here on."""
        event = RunsOn(platform_here(), at)
        self._fold(event)
        self.staged.append(New("RunsOn", payload_of(event)))

    def _fold(self, event: Event) -> None:
        for fold_before in self.projections.befores.get(type(event), ()):
            fold_before(event)
        self.state.fold(event)
        self.projections.fold(event, self.state.version)

    # -- snapshots ---------------------------------------------------------------------------

    def to_blob(self) -> bytes:
        """Return all of it as bytes. Equal states give equal bytes."""
        assert not self.staged
        meta, arrays = state_to_arrays(self.state)
        facts, parts = self.projections.to_state()
        parts |= {f"agent.{name}": array for name, array in arrays.items()}
        return pack(FORM, {"agent": meta, "sides": facts}, parts)

    @classmethod
    def from_blob(cls, blob: bytes, head: Head) -> Aggregate:
        """Return what `to_blob` was called on, or raise `CorruptState`."""
        meta, parts = unpack(blob, FORM)
        try:
            state = state_from_arrays(meta["agent"], under("agent.", parts))
            if state.version != head.seq:
                raise CorruptState(f"It is of version {state.version}, not of {head.seq}.")
            aggregate = cls(Agent.of(state), head)
            aggregate.projections.restore(meta["sides"], parts)
        except DAMAGE as error:
            raise CorruptState(f"A damaged snapshot: {error}") from error
        return aggregate


@cache
def platform_here() -> str:
    """Return which versions make events here, and on what: where both are equal, bits are."""
    import bridle

    versions = [f"{one.__name__} {one.__version__}" for one in (bridle, np, numba)]
    versions.append(f"python {platform.python_version()}")
    return "; ".join([*versions, f"{platform.system()} {platform.machine()}"])


def payload_of(event: Event) -> bytes:
    """Return an event as it stands in the log."""
    return event_to_text(event).encode()


def event_of(entry: Entry, names: Iterable[Name] = ()) -> Event:
    """Return the event of an entry; an `Erased` where its payload was erased."""
    if entry.payload is None:
        named = tuple(names)
        return Erased(entry.kind, tuple(name.space for name in named), arms_in(named))
    try:
        event = event_from_json(json.loads(entry.payload.decode()))
    except (ValueError, RecursionError) as error:
        raise CorruptState(f"Entry {entry.seq} is no event: {error}") from None
    if type(event).__name__ != entry.kind:
        raise CorruptState(f"Entry {entry.seq} is a {type(event).__name__}, not a {entry.kind}.")
    return event


def without_erased(event: Event, names: Iterable[Name], erased: set[str]) -> Event:
    """Return an event of a log without the examples that it replaces and that were erased.

    `names` are those of an erased one; its example is taken into `erased`.
    """
    if isinstance(event, Erased):
        erased.update(name.id for name in names if name.space == "example")
    elif isinstance(event, Taught) and event.replaces and erased:
        left = tuple(id for id in event.replaces if text_of(id) not in erased)
        return replace(event, replaces=left)
    return event


# --- Agents out of a store: from the last snapshot, or from the first event, to any version


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
) -> Aggregate:
    """Return an agent as its log has it, at a version or now.

    Every entry that is read is checked against the chain. A snapshot is used only if it is whole
    and belongs to this chain; without `snapshots` all is folded from the first event.
    """
    aggregate, until = _nearest(store, agent, at, snapshots)
    catch_up(aggregate, store, agent, until, progress)
    return aggregate


def agent_at(store: Store, agent: str, version: int) -> Agent:
    """Return an agent as it was at a version: in half the time of `load`, without projections."""
    aggregate, until = _nearest(store, agent, version, True)
    catch_up(aggregate, store, agent, until, bare=True)
    return aggregate.agent


def _nearest(store: Store, agent: str, at: int | None, snapshots: bool) -> tuple[Aggregate, int]:
    head = log_head(store, agent)
    if at is not None and not 1 <= at <= head.seq:
        raise InvalidValue("version", "load", f"an int in the range [1, {head.seq}]", at)
    until = head.seq if at is None else at
    found = _from_snapshot(store, agent, until) if snapshots else None
    return found if found is not None else _from_the_start(store, agent), until


def log_head(store: Store, agent: str) -> Head:
    """Return the end of an agent's log, or raise `UnknownId`."""
    head = store.head(agent)
    if head is None or head.seq == 0:
        known = ", ".join(repr(row.name) for row in store.agents()[:5])
        remedy = f"The store has {known}, …" if known else "The store has none."
        raise UnknownId("agent", agent, remedy)
    return head


def catch_up(
    aggregate: Aggregate,
    store: Store,
    agent: str,
    until: int,
    progress: Progress | None = None,
    within: Transaction | None = None,
    *,
    bare: bool = False,
) -> None:
    """Fold what the log has beyond what is folded; `bare` as in `Aggregate.follow`."""
    source = store if within is None else within
    while (at := aggregate.head.seq) < until:
        entries = source.read(agent, at, min(PAGE, until - at))
        if not entries:
            raise CorruptState(f"The log of {agent!r} ends at {at}, before {until}.")
        aggregate.follow(entries, _names_of_erased(store, agent, entries), bare=bare)
        if progress is not None:
            progress(aggregate.head.seq, until)


def events_in(store: Store, agent: str, until: int | None = None) -> Iterator[Event]:
    """Yield the events of a log, in order, up to a sequence or to its end."""
    at, erased = 0, set[str]()
    while until is None or at < until:
        entries = store.read(agent, at, PAGE if until is None else min(PAGE, until - at))
        if not entries:
            return
        names = _names_of_erased(store, agent, entries)
        for entry in entries:
            own = names.get(entry.seq, ())
            yield without_erased(event_of(entry, own), own, erased)
        at = entries[-1].seq


def next_snapshot(size: int) -> int:
    """Return after how many events the next snapshot is worth its bytes."""
    return max(EVERY, size // BYTES_AN_EVENT)


def keep_snapshot(store: Store, agent: str, aggregate: Aggregate) -> int:
    """Keep a snapshot of an agent that has nothing staged; return its size."""
    blob = aggregate.to_blob()
    store.keep_snapshot(agent, Snapshot(aggregate.head, blob))
    aggregate.snapped = aggregate.head.seq, len(blob)
    return len(blob)


def _from_snapshot(store: Store, agent: str, until: int) -> Aggregate | None:
    at_most = until
    while (found := store.snapshot(agent, at_most)) is not None:
        try:
            [entry] = store.read(agent, found.head.seq - 1, 1)
            if entry.hash == found.head.hash:
                aggregate = Aggregate.from_blob(found.blob, found.head)
                aggregate.snapped = found.head.seq, len(found.blob)
                return aggregate
        except (CorruptState, ValueError):
            pass  # it is only a shortcut: an older one, or the log itself, will do
        at_most = found.head.seq - 1
    return None


def _from_the_start(store: Store, agent: str) -> Aggregate:
    entries = store.read(agent, 0, 1)
    why = broken(START, entries[0]) if entries else "it is empty"
    if why is not None:
        raise CorruptState(f"The log of {agent!r} is damaged: {why}. See `bridle verify`.")
    created = event_of(entries[0])
    if not isinstance(created, Created):
        raise CorruptState("A log begins with the event Created.")
    return Aggregate(Agent.of(AgentState(created.settings)), Head(1, entries[0].hash))


def _names_of_erased(store: Store, agent: str, entries: list[Entry]) -> dict[int, tuple[Name, ...]]:
    """Return the names of entries that were erased: what is left of them."""
    if all(entry.payload is not None for entry in entries):
        return {}
    return dict(store.names(agent, entries[0].seq - 1, len(entries)))

"""One agent in memory: the fold of its log, and what is about to be appended to it.

`record` folds an event and stages it. Nothing that is staged may be told to anyone before it is
committed; if that fails, this copy must be thrown away, and the log read again.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numba
import numpy as np

from bridle.agent.agent import Agent
from bridle.agent.events import (
    AuditBegun,
    Audited,
    Created,
    Erased,
    Erasure,
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
    Arrays,
    pack,
    state_from_arrays,
    state_to_arrays,
    unpack,
)
from bridle.agent.state import AgentState
from bridle.audit.log import Auditing
from bridle.audit.meter import AuditMeter
from bridle.certificates.calibration import Certification
from bridle.errors import CorruptState, InvalidValue, UnknownId
from bridle.store.idempotency import names_of, text_of
from bridle.store.log import START, Entry, Head, Name, New, Snapshot, Store, Transaction, broken
from bridle.store.projections import (
    Calibrating,
    Chronicle,
    Deadlines,
    Guesses,
    Lives,
    Recent,
    Shadows,
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
    """An agent and all else that follows from its log.

    Attributes
    ----------
    agent : Agent
        What the agent knows. Its verbs are not to be used: `record` what `agent.make` makes.
    auditing, deadlines, lives, shadows, calibrating, chronicle, recent, guesses
        What else follows.
    erased : set of str
        The examples that were erased, of which later ones may say that they replace them.
    head : Head
        What of the log is folded, the staged entries left out.
    staged : list of New
        What was folded and is not committed.
    """

    def __init__(self, agent: Agent, head: Head) -> None:
        self.agent = agent
        self.state: AgentState = agent._state
        self.auditing = Auditing()
        self.deadlines = Deadlines(self.state)
        self.lives = Lives(self.state)
        self.shadows = Shadows()
        self.calibrating = Calibrating(agent)
        self.chronicle = Chronicle()
        self.recent = Recent()
        self.guesses = Guesses()
        self.head = head
        self.staged: list[New] = []
        self.erased: set[str] = set()
        self.erasures = 0  # how many were read; what was folded before one may be gone since
        self.platform: str | None = None  # on what the events are made, as the log has it
        self.snapped = head.seq, 0  # sequence and size of the last snapshot
        self._staged_names: dict[tuple[str, str], tuple[Event, bytes | None, int]] = {}

    @classmethod
    def begin(cls, created: Created) -> Aggregate:
        """Give a new agent, its creation staged."""
        check_event(created)
        kept = cls(Agent.of(AgentState(created.settings)), START)
        kept.staged.append(New("Created", payload_of(created)))
        return kept

    @property
    def version(self) -> int:
        """How many events are folded, the staged ones among them."""
        return self.state.version

    def record(self, event: Event, digest: bytes | None = None) -> None:
        """Fold an event of our own and stage it; `digest` is of the request that led to it.

        All checks stand before the first change: an event that is refused leaves all as it was.
        """
        self._check(event)
        self._say_where(getattr(event, "at", None))
        said = names_of(event, self.state)
        names = tuple(Name(space, id, digest) for space, id in said)
        new = New(type(event).__name__, payload_of(event), names)
        self._fold(event)
        self.staged.append(new)
        self._staged_names |= dict.fromkeys(said, (event, digest, self.version))

    def record_many(
        self, made: Decisions, digests: Sequence[bytes | None] | None = None
    ) -> list[str]:
        """Fold and stage a batch of decisions; give the JSON text of their events.

        The same as one by one, and faster: without `digests`, of ids that the agent gave, nobody
        can have a name before it is committed, and often no event need be made at all.
        """
        self._say_where(None)
        first = self.version + 1
        follows = self.auditing.follows or self.state.wait is not None
        events = made.events() if follows or digests is not None else []
        texts = [event_to_text(event) for event in events] or made.texts()
        self.state.fold_decisions(made.ids, made.contexts, made.numbers, made.items, made.coins)
        if not follows:
            self.auditing.before += len(made)
            self.recent.fold_rows(made.contexts)
            drawn = None if made.coins is None else [checked for _, checked in made.coins]
            self.chronicle.fold_decisions(first, made.numbers, made.at, drawn)
        for n, event in enumerate(events if follows else ()):
            self._follow(event, first + n)
        for n, text in enumerate(texts):
            kind = "Decided" if made.numbers[n] >= 0 else "Abstained"
            id, digest = text_of(made.ids[n]), None if digests is None else digests[n]
            self.staged.append(New(kind, text.encode(), (Name("decision", id, digest),)))
        if digests is not None:
            for n, (event, digest) in enumerate(zip(events, digests, strict=True)):
                self._staged_names["decision", text_of(event.id)] = event, digest, first + n
        return texts

    def staged_as(self, space: str, id: str) -> tuple[Event, bytes | None, int] | None:
        """Give the event of that name that is not committed yet, its digest and its sequence."""
        return self._staged_names.get((space, id))

    def committed(self, head: Head) -> None:
        """Take note that what was staged is in the log."""
        self.head = head
        self.staged = []
        self._staged_names = {}

    def follow(
        self, entries: Iterable[Entry], names: dict[int, tuple[Name, ...]], *, bare: bool = False
    ) -> None:
        """Fold entries that are in the log already, in order; `names` are those of erased ones.

        If `bare`, into what the agent knows alone: what stands beside it is not to be used then.
        """
        for entry in entries:
            why = broken(self.head, entry)
            if why is not None:
                raise CorruptState(f"The log is damaged: {why}. See `bridle verify`.")
            said = names.get(entry.seq, ())
            event = event_of(entry, said)
            if self.state.settings.lives:
                event = without_erased(event, said, self.erased)
            if entry.seq == 1:
                raise CorruptState("A log begins once.")
            if bare:
                self.state.fold(event)
            else:
                self._fold(event)
            self.head = Head(entry.seq, entry.hash)

    def _say_where(self, at: float | None) -> None:
        """Write down on what events are made from here on, if that is not what was written last."""
        here = platform_here()
        if self.platform != here:
            event = RunsOn(here, at)
            self._fold(event)
            self.staged.append(New("RunsOn", payload_of(event)))

    def _check(self, event: Event) -> None:
        self.calibrating.check(event)
        if isinstance(event, Audited):
            self.auditing.check(event.decision)
        elif isinstance(event, AuditBegun):
            Auditing.fold(_copy_of(self.auditing), event)

    def _fold(self, event: Event) -> None:
        self.shadows.fold(event, self.state)
        self.guesses.fold(event, self.state)
        self.state.fold(event)
        self._follow(event, self.version)

    def _follow(self, event: Event, seq: int) -> None:
        self.auditing.fold(event)
        self.deadlines.fold(event)
        self.lives.fold(event)
        self.calibrating.fold(event)
        self.recent.fold(event, self.state)
        meters = self.auditing.meter, self.auditing.promise_meter
        self.chronicle.fold(seq, event, self.state, *meters)
        if isinstance(event, RunsOn):
            self.platform = event.platform
        elif isinstance(event, Erasure):
            self.erasures += 1

    # -- snapshots ---------------------------------------------------------------------------

    def to_blob(self) -> bytes:
        """Give all of it as bytes. Equal states give equal bytes."""
        assert not self.staged
        meta, arrays = state_to_arrays(self.state)
        auditing, asking = self.auditing, self.calibrating.now
        meter, promised = auditing.meter, auditing.promise_meter
        sides: dict[str, Any] = {
            "audited_before": auditing.before,
            "audits_pending": [[id, step] for id, step in auditing.pending.items()],
            "audits": meter is not None,
            "promise_pending": [[id, step] for id, step in auditing.promise_pending.items()],
            "promise": promised is not None,
            "erased": sorted(self.erased),
            "calibration": asking is not None,
            "deadlines": [id for id, _ in self.deadlines.since],
            "shadows": self.shadows.to_list(),
            "guesses": self.guesses.to_list(),
            "platform": self.platform,
        }
        parts: Arrays = {f"agent.{name}": array for name, array in arrays.items()}
        parts["deadlines"] = np.array([at for _, at in self.deadlines.since], np.float64)
        parts["recent"] = self.recent.to_array(self.state.settings.features.width)
        sources = (
            ("audits.", meter),
            ("promise.", promised),
            ("calibration.", asking),
            ("chronicle.", self.chronicle),
        )
        for prefix, thing in sources:
            if thing is not None:
                parts |= {prefix + name: array for name, array in thing.to_state().items()}
        return pack(FORM, {"agent": meta, "sides": sides}, parts)

    @classmethod
    def from_blob(cls, blob: bytes, head: Head) -> Aggregate:
        """Give back what `to_blob` wrote, or raise `CorruptState`."""
        meta, parts = unpack(blob, FORM)
        try:
            state = state_from_arrays(meta["agent"], _under("agent.", parts))
            if state.version != head.seq:
                raise CorruptState(f"It is of version {state.version}, not of {head.seq}.")
            kept, sides = cls(Agent.of(state), head), meta["sides"]
            since = zip(sides["deadlines"], parts["deadlines"].tolist(), strict=True)
            kept.deadlines.since.extend(since)
            kept.shadows = Shadows(*sides["shadows"])
            kept.guesses = Guesses.from_list(sides["guesses"])
            kept.recent.fold_rows(parts["recent"])
            kept.chronicle = Chronicle.from_state(_under("chronicle.", parts))
            kept.platform = sides["platform"]
            kept.auditing.before = sides["audited_before"]
            kept.auditing.pending = dict(sides["audits_pending"])
            if sides["audits"]:
                kept.auditing.meter = AuditMeter.from_state(_under("audits.", parts))
            # Snapshots from before there were promises have none of this.
            kept.auditing.promise_pending = dict(sides.get("promise_pending", ()))
            if sides.get("promise", False):
                kept.auditing.promise_meter = AuditMeter.from_state(_under("promise.", parts))
            kept.erased = set(sides.get("erased", ()))
            if sides["calibration"]:
                kept.calibrating.now = Certification.from_state(_under("calibration.", parts))
        except DAMAGE as error:
            raise CorruptState(f"A damaged snapshot: {error}") from error
        return kept


@cache
def platform_here() -> str:
    """Say which versions make events here, and on what: where both are equal, bits are."""
    import bridle

    versions = [f"{one.__name__} {one.__version__}" for one in (bridle, np, numba)]
    versions.append(f"python {platform.python_version()}")
    return "; ".join([*versions, f"{platform.system()} {platform.machine()}"])


def payload_of(event: Event) -> bytes:
    """Give an event as it stands in the log."""
    return event_to_text(event).encode()


def event_of(entry: Entry, names: Iterable[Name] = ()) -> Event:
    """Give the event of an entry; an `Erased` where its payload was erased."""
    if entry.payload is None:
        return Erased(entry.kind, tuple(name.space for name in names))
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


def _copy_of(auditing: Auditing) -> Auditing:
    twin = Auditing()
    twin.meter = auditing.meter
    return twin


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


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


def _nearest(store: Store, agent: str, at: int | None, snapshots: bool) -> tuple[Aggregate, int]:
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
    kept: Aggregate,
    store: Store,
    agent: str,
    until: int,
    progress: Progress | None = None,
    within: Transaction | None = None,
    *,
    bare: bool = False,
) -> None:
    """Fold what the log has beyond what is folded; `bare` as in `Aggregate.follow`."""
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


def keep_snapshot(store: Store, agent: str, kept: Aggregate) -> int:
    """Keep a snapshot of an agent that has nothing staged; give its size."""
    blob = kept.to_blob()
    store.keep_snapshot(agent, Snapshot(kept.head, blob))
    kept.snapped = kept.head.seq, len(blob)
    return len(blob)


def _from_snapshot(store: Store, agent: str, until: int) -> Aggregate | None:
    at_most = until
    while (found := store.snapshot(agent, at_most)) is not None:
        try:
            [entry] = store.read(agent, found.head.seq - 1, 1)
            if entry.hash == found.head.hash:
                kept = Aggregate.from_blob(found.blob, found.head)
                kept.snapped = found.head.seq, len(found.blob)
                return kept
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
    """Give the names of entries that were erased: what is left of them."""
    if all(entry.payload is not None for entry in entries):
        return {}
    return dict(store.names(agent, entries[0].seq - 1, len(entries)))

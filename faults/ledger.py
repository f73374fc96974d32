"""What clients were told, held against what the log says.

A client knows three states of a request: acknowledged (with what was answered), refused, and
unknown (the connection broke, and the client gave up). What was acknowledged must be in the log
exactly once and as it was told; what is unknown at most once; what was refused not at all.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bridle.agent.events import (
    Abstained,
    Asked,
    Decided,
    Event,
    Expired,
    Lapsed,
    Retracted,
    Rewarded,
    RewardedLate,
)
from bridle.agent.events import Taught as TaughtEvent
from bridle.server.handlers.decisions import plain_choice
from bridle.store.aggregate import Aggregate, catch_up, events_in, load
from bridle.store.log import Store
from bridle.store.maintenance import replay, verify
from tests.store.lives import state

SHOWN = 20


class Told(NamedTuple):
    """A request that was acknowledged: what it was about, what was sent and what came back."""

    agent: str
    what: str  # "decision", "reward", "examples", "retraction", "answer" or "question"
    id: str
    sent: Any
    answer: Any


class Ledger:
    """The three states of all requests, kept by all clients together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acknowledged: list[Told] = []
        self.events = 0
        self.refused: set[tuple[str, str, str]] = set()
        self.unknown: set[tuple[str, str, str]] = set()
        self.unnamed: Counter[str] = Counter()  # decisions without an id, of unknown outcome
        self.differing: list[str] = []
        self.statuses: Counter[int] = Counter()

    def ack(self, told: Told, events: int) -> None:
        """Take note of what was acknowledged, and how many events that means."""
        with self._lock:
            self.acknowledged.append(told)
            self.events += events

    def refuse(self, agent: str, what: str, id: str) -> None:
        """Take note of a clear no."""
        with self._lock:
            self.refused.add((agent, what, id))

    def give_up(self, agent: str, what: str, id: str | None) -> None:
        """Take note of a request whose outcome nobody will learn."""
        with self._lock:
            if id is None:
                self.unnamed[agent] += 1
            else:
                self.unknown.add((agent, what, id))

    def differ(self, text: str) -> None:
        """Take note that the same request was answered in two ways."""
        with self._lock:
            self.differing.append(text)

    def met(self, status: int) -> None:
        """Count an answer."""
        with self._lock:
            self.statuses[status] += 1


@dataclass
class Findings:
    """What does not fit. `double` also counts what was refused, or told in two ways."""

    lost: int = 0
    double: int = 0
    problems: int = 0  # of the chain
    examples: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Keep the first few in words."""
        if len(self.examples) < SHOWN:
            self.examples.append(text[:500])


class _Log:
    """One log, by what its events are about. Names are not used: they could not stand twice."""

    def __init__(self, store: Store, agent: str) -> None:
        self.events: list[Event] = []
        self.by: dict[tuple[str, str], list[int]] = defaultdict(list)  # places, from 1
        self.unnamed: set[str] = set()
        for seq, event in enumerate(events_in(store, agent), 1):
            self.events.append(event)
            for what, id in _about(event):
                self.by[what, str(id)].append(seq)
            if isinstance(event, Decided | Abstained) and isinstance(event.id, int):
                self.unnamed.add(str(event.id))
            if isinstance(event, Asked) and isinstance(event.decision, int):
                self.unnamed.add(str(event.decision))

    def one(self, what: str, id: object) -> Any:
        """Give the event, if there is one."""
        places = self.by.get((what, str(id)))
        return None if not places else self.events[places[0] - 1]

    def at(self, seq: int) -> Any:
        return self.events[seq - 1] if 1 <= seq <= len(self.events) else None


def _about(event: Event) -> list[tuple[str, object]]:
    match event:
        case Decided() | Abstained():
            return [("made", event.id)]
        case Asked():
            first = [] if event.decision is None else [("asked in", event.decision)]
            return [("question", event.id), *first]
        case TaughtEvent():
            answered = [] if event.question is None else [("answer", event.question)]
            return [("example", event.id), *answered]
        case Lapsed():
            return [("answer", event.question)]
        case Retracted():
            return [("retraction", event.example)]
        case Rewarded() | Expired():
            return [("outcome", event.decision)]
        case RewardedLate():
            return [("late", event.decision)]
    return []


def check(ledger: Ledger, store: Store, agents: list[str]) -> Findings:
    """Hold what clients were told against the logs."""
    found = Findings()
    logs = {agent: _Log(store, agent) for agent in agents}
    for agent, log in logs.items():
        for (what, id), places in log.by.items():
            if len(places) > 1 and what != "asked in":  # a decision may ask more than once
                found.double += len(places) - 1
                found.say(f"{agent}: {what} {id} stands at {places}")
        verified = verify(store, agent)
        found.problems += len(verified.problems)
        for problem in verified.problems:
            found.say(f"{agent}: {problem}")
    acknowledged = Counter[str]()
    for told in ledger.acknowledged:
        why = _missing(told, logs[told.agent])
        if why is not None:
            found.lost += 1
            found.say(f"{told}: {why}")
        if told.what == "decision" and told.id.isdigit():
            acknowledged[told.agent] += 1
    for agent, log in logs.items():
        most = acknowledged[agent] + ledger.unnamed[agent]
        if len(log.unnamed) > most:
            found.double += len(log.unnamed) - most
            found.say(f"{agent}: {len(log.unnamed)} unnamed decisions, of at most {most}")
    for agent, what, id in ledger.refused:
        if any((kind, id) in logs[agent].by for kind in _KINDS[what]):
            found.double += 1
            found.say(f"{agent}: {what} {id} was refused, and stands")
    found.double += len(ledger.differing)
    for text in ledger.differing:
        found.say(text)
    return found


_KINDS = {
    "decision": ("made", "asked in"),
    "reward": (),  # what was played in shadow, or by others, may have an outcome all the same
    "examples": ("example",),
    "retraction": ("retraction",),
    "answer": ("answer",),
    "question": ("question",),
}


def _missing(told: Told, log: _Log) -> str | None:
    """Say what of an acknowledged request is not in the log, if anything."""
    answer = told.answer
    match told.what:
        case "decision":
            return _no_choice(answer, log)
        case "reward":
            event = log.at(answer["version"])
            kind = Rewarded if answer["outcome"] == "learned" else RewardedLate
            if not isinstance(event, kind) or (str(event.decision), event.value) != (
                told.id,
                told.sent["value"],
            ):
                return f"there stands {event}"
        case "examples":
            for sent in told.sent:
                event = log.one("example", sent["id"])
                if event is None or (event.arm, event.allowed) != (sent["arm"], sent["allowed"]):
                    return f"there stands {event}"
            if log.by["example", told.sent[-1]["id"]] != [answer["version"]]:
                return "it stands elsewhere"
        case "retraction":
            if log.by.get(("retraction", told.id)) != [answer["version"]]:
                return "it stands elsewhere, or nowhere"
        case "answer":
            event = log.one("answer", told.id)
            if event is None or str(event.id) != str(answer["example"]):
                return f"there stands {event}"
            if answer["then"] is not None:
                return _no_choice(answer["then"], log)
        case "question":
            event = log.one("question", told.id)
            if event is None or event.arm != answer["arm"]:
                return f"there stands {event}"
    return None


def _no_choice(choice: dict[str, Any], log: _Log) -> str | None:
    if choice["outcome"] == "question":
        event = log.one("question", choice["question"]["id"])
    else:
        event = log.one("made", choice["id"])
    stands = None if event is None else plain_choice(event)
    if stands is not None and choice["outcome"] != "question" and choice["question"] is not None:
        # Filed beside it, while the agent plays safe.
        filed = log.one("question", choice["question"]["id"])
        if isinstance(filed, Asked) and str(filed.decision) == str(choice["id"]):
            stands["question"] = {"id": filed.id, "arm": filed.arm}
    if stands != choice:
        return f"there stands {event}"
    return None


def same_states(store: Store, agents: list[str]) -> tuple[bool, list[str]]:
    """Say whether every snapshot, and every choice in the logs, comes out of a full fold in bits.

    The last snapshot of a server that was stopped is its memory, as it was at the end.
    """
    wrong = []
    for agent in agents:
        kept: Aggregate | None = None
        head = store.head(agent)
        assert head is not None
        for seq in store.snapshots(agent):
            snapshot = store.snapshot(agent, seq)
            assert snapshot is not None and snapshot.head.seq == seq
            if kept is None:
                kept = load(store, agent, seq, snapshots=False)
            catch_up(kept, store, agent, seq)
            if state(kept) != state(Aggregate.from_blob(snapshot.blob, snapshot.head)):
                wrong.append(f"{agent}: the snapshot at {seq} is not the fold")
        if kept is None or kept.head != head:
            wrong.append(f"{agent}: no snapshot of the end, at {head.seq}")
        replayed = replay(store, agent)
        if replayed.same != replayed.choices:
            wrong.append(f"{agent}: {replayed}")
    return not wrong, wrong

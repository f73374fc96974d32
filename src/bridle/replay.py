"""Fold a log and re-derive what the agent chose in it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from bridle.choosing import Chooser
from bridle.decisions import Abstention, Decision, Question
from bridle.errors import BridleError, CorruptState, InvalidValue, UnknownId
from bridle.events import Abstained, Asked, Created, Decided, Event, check_event
from bridle.knowledge import Knowledge
from bridle.settings import ItemId

__all__ = ["Replay", "replay"]

# A choice may stand this many events after the version that it was made from. Choices are looked
# up ahead of the fold within this distance, so that memory stays flat for a log of any length.
WINDOW = 10_000
Choice: TypeAlias = Asked | Decided | Abstained
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Replay(Generic[A]):
    """What a replay found.

    Attributes
    ----------
    agent : Agent
        The agent after the last event.
    checked : int
        Decisions, abstentions and questions that were made again.
    differing : tuple of ids
        Those that came out otherwise; empty if the log and this code agree.
    """

    agent: A
    checked: int
    differing: tuple[ItemId, ...]

    @property
    def agrees(self) -> bool:
        """Whether every choice came out the same."""
        return not self.differing


def replay(agent_of: Callable[[Knowledge], A], events: Iterable[Event]) -> Replay[A]:
    """Fold `events` and make every choice in them again, from the version that it names."""
    if not isinstance(events, Iterable):
        raise InvalidValue("events", "Agent.replay", "a list of events", events)
    stream = iter(events)
    created = next(stream, None)
    if not isinstance(created, Created):
        raise CorruptState("A log begins with the event Created.")
    ahead: deque[Event] = deque()
    made_at: dict[int, list[Choice]] = defaultdict(list)
    checked, differing = 0, list[ItemId]()
    place = 1  # of the event at hand, from 1
    try:
        check_event(created)
        know = Knowledge(created.settings)
        chooser = Chooser(know)
        while True:
            for event in islice(stream, WINDOW - len(ahead)):
                place = know.version + len(ahead) + 1
                _look_at(event, know, made_at)
                ahead.append(event)
            for choice in made_at.pop(know.version, ()):
                checked += 1
                if not _agrees(chooser, know, choice):
                    differing.append(choice.id)
            if not ahead:
                break
            place = know.version + 1
            know.fold(ahead.popleft())
    except BridleError as error:
        raise CorruptState(f"Event {place} of the log does not fit: {error}") from error
    return Replay(agent_of(know), checked, tuple(differing))


def _look_at(event: Event, know: Knowledge, made_at: dict[int, list[Choice]]) -> None:
    check_event(event)
    if isinstance(event, Choice):
        know.raw(event.context)
        if event.version < know.version:
            wanted = f"at least {know.version}: no more than {WINDOW:,} events before its own"
            raise InvalidValue("version", type(event).__name__, wanted, event.version)
        made_at[event.version].append(event)


def _agrees(chooser: Chooser, know: Knowledge, event: Choice) -> bool:
    row = np.frombuffer(bytearray(know.raw(event.context)))
    wants = event.propensity is not None
    ask, id = True, event.id
    question: ItemId = know.questions.asked + 1
    if not isinstance(event, Asked):
        ask = event.ask
    elif event.decision is None:
        return chooser.question(row, event.id, event.version, event.at) == Question(event)
    else:
        id, question = event.decision, event.id
    try:
        made = chooser.decision(
            row, id, event.version, event.among, wants, event.at, ask=ask, question=question
        )
    except UnknownId:  # of an arm that was not there
        return False
    if isinstance(event, Asked) and isinstance(made, Decision | Abstention):
        return made.question is not None and made.question.event == event
    return made.event == event

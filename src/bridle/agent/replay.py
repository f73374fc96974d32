"""Fold a log and re-derive what the agent chose in it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

import numpy as np

from bridle.agent.config import ItemId
from bridle.agent.events import Asked, Created, Event, check_event
from bridle.agent.outcomes import Abstention, Decision
from bridle.agent.selection import Choice, Selector
from bridle.agent.state import AgentState
from bridle.errors import BridleError, CorruptState, InvalidValue, NotRegistered, UnknownId

__all__ = ["Replay", "remade", "replay", "state_at"]

# A choice may stand this many events after the version that it was made from. Choices are looked
# up ahead of the fold within this distance, so that memory stays flat for a log of any length.
WINDOW = 10_000
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


def replay(agent_of: Callable[[AgentState], A], events: Iterable[Event]) -> Replay[A]:
    """Fold `events` and make every choice in them again, from the version that it names."""
    if not isinstance(events, Iterable):
        raise InvalidValue("events", "Agent.replay", "a list of events", events)
    stream = iter(events)
    state = _begun(stream)
    checked, differing = 0, list[ItemId]()
    for choice, again in remade(state, stream):
        checked += 1
        if again != choice:
            differing.append(choice.id)
    return Replay(agent_of(state), checked, tuple(differing))


def state_at(events: Iterable[Event], version: int) -> AgentState:
    """Return the state after the first `version` events of a log, or raise `CorruptState`."""
    stream = iter(events)
    state = _begun(stream)
    try:
        for event in islice(stream, max(version - 1, 0)):
            check_event(event)
            state.fold(event)
    except NotRegistered:
        raise
    except BridleError as error:
        wrong = f"Event {state.version + 1} of the log does not fit: {error}"
        raise CorruptState(wrong) from error
    return state


def _begun(stream: Iterator[Event]) -> AgentState:
    """Return the state after the first event of a log."""
    created = next(stream, None)
    if not isinstance(created, Created):
        raise CorruptState("A log begins with the event Created.")
    try:
        check_event(created)
        return AgentState(created.settings)
    except NotRegistered:
        raise
    except BridleError as error:
        raise CorruptState(f"Event 1 of the log does not fit: {error}") from error


def remade(state: AgentState, events: Iterable[Event]) -> Iterator[tuple[Choice, Choice | None]]:
    """Fold `events`, which follow what the state holds, and make every choice in them again.

    Each choice is given with what came of it now, from the state at the version that it names;
    None if that names what was not there.
    """
    stream, selector = iter(events), Selector(state)
    ahead: deque[Event] = deque()
    made_at: dict[int, list[Choice]] = defaultdict(list)
    place = state.version  # of the event at hand
    try:
        while True:
            for event in islice(stream, WINDOW - len(ahead)):
                place = state.version + len(ahead) + 1
                _schedule(event, state, made_at)
                ahead.append(event)
            for choice in made_at.pop(state.version, ()):
                yield choice, _again(selector, state, choice)
            if not ahead:
                return
            place = state.version + 1
            state.fold(ahead.popleft())
    except NotRegistered:
        raise
    except BridleError as error:
        raise CorruptState(f"Event {place} of the log does not fit: {error}") from error


def _schedule(event: Event, state: AgentState, made_at: dict[int, list[Choice]]) -> None:
    """Check an event; a choice is made again once the state has the version that it names."""
    check_event(event)
    if isinstance(event, Choice):
        state.raw(event.context)
        if event.version < state.version:
            wanted = f"at least {state.version}: no more than {WINDOW:,} events before its own"
            raise InvalidValue("version", type(event).__name__, wanted, event.version)
        made_at[event.version].append(event)


def _again(selector: Selector, state: AgentState, event: Choice) -> Choice | None:
    row = np.frombuffer(bytearray(state.raw(event.context)))
    try:
        made = selector.again(event, row)
    except UnknownId:  # of an arm that was not there
        return None
    if isinstance(event, Asked) and isinstance(made, Decision | Abstention):
        return None if made.question is None else made.question.event
    return made.event

"""Fold a log and re-derive what the agent chose in it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bridle.decisions import Question
from bridle.errors import CorruptState
from bridle.events import Abstained, Asked, Created, Decided, Event
from bridle.knowledge import Knowledge
from bridle.settings import ItemId

if TYPE_CHECKING:
    from bridle.agent import Agent

__all__ = ["Replay", "replay"]

# A choice may stand this many events after the version that it was made from. Choices are looked
# up ahead of the fold within this distance, so that memory stays flat for a log of any length.
WINDOW = 10_000
Choice: TypeAlias = Asked | Decided | Abstained


@dataclass(frozen=True, slots=True)
class Replay:
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

    agent: Agent
    checked: int
    differing: tuple[ItemId, ...]

    @property
    def agrees(self) -> bool:
        """Whether every choice came out the same."""
        return not self.differing


def replay(
    kind: type[Agent], events: Iterable[Event], sink: Callable[[Sequence[Event]], None] | None
) -> Replay:
    """Fold `events` and make every choice in them again, from the version that it names."""
    stream = iter(events)
    created = next(stream, None)
    if not isinstance(created, Created):
        raise CorruptState("A log begins with the event Created.")
    agent = kind.of(Knowledge(created.settings))
    ahead: deque[Event] = deque()
    made_at: dict[int, list[Choice]] = defaultdict(list)
    checked = 0
    differing: list[ItemId] = []
    _fill(stream, ahead, made_at, WINDOW, agent.version)
    while True:
        for choice in made_at.pop(agent.version, ()):
            checked += 1
            if not _agrees(agent, choice):
                differing.append(choice.id)
        if not ahead:
            break
        agent.apply(ahead.popleft())
        _fill(stream, ahead, made_at, 1, agent.version)
    if made_at:
        raise CorruptState(f"Choices name versions that never were: {sorted(made_at)[:5]}.")
    agent.sink = sink
    return Replay(agent, checked, tuple(differing))


def _fill(
    stream: Iterator[Event],
    ahead: deque[Event],
    made_at: dict[int, list[Choice]],
    count: int,
    version: int,
) -> None:
    for event in islice(stream, count):
        if isinstance(event, Choice):
            if event.version < version:
                raise CorruptState(
                    f"Decision or question {event.id!r} names version {event.version}, more than "
                    f"{WINDOW:,} events before it."
                )
            made_at[event.version].append(event)
        ahead.append(event)


def _agrees(agent: Agent, event: Choice) -> bool:
    row = np.array(event.context)
    if isinstance(event, Asked):
        return agent.make.question(row, event.id, event.version, event.at) == Question(event)
    wants = isinstance(event, Decided) and event.propensity is not None
    made = agent.make.decision(row, event.id, event.version, event.among, wants, event.at)
    return made.event == event

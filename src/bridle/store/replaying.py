"""Replaying a log: every choice in it is made again, and compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bridle.errors import CorruptState
from bridle.events import Abstained, Asked, Created, Decided, Event
from bridle.knowledge import Knowledge
from bridle.notes import Erased, Erasure, RunsOn
from bridle.replay import Choice, remade
from bridle.settings import ItemId
from bridle.store.keeping import Progress, events_in, log_head
from bridle.store.kept import platform_here
from bridle.store.records import Store

__all__ = ["Replayed", "replay"]

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


def replay(store: Store, agent: str, *, progress: Progress | None = None) -> Replayed:
    """Fold a log from its first event and make every choice in it again."""
    head = log_head(store, agent)
    erased = _erasures(store, agent, head.seq)
    watch = _Watch(progress, head.seq)
    stream = watch.over(events_in(store, agent, head.seq))
    created = next(stream, None)
    if not isinstance(created, Created):
        raise CorruptState("A log begins with the event Created.")
    know = Knowledge(created.settings)
    counts = Replayed()
    for choice, again in remade(know, stream):
        here = watch.platform_at(know.version) == platform_here()
        counts = _counted(counts, choice, again, here, _rests_on(erased, choice.version))
    return counts


class _Watch:
    """Sees the events go by: on what they were made, and how far the replay is."""

    def __init__(self, progress: Progress | None, total: int) -> None:
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
        """Say on what the event after so many was made. A choice may be a few events old."""
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
    """Give the spans in which choices rest on what was erased: from an event to its erasure."""
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

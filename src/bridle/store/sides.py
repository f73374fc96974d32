"""What follows from a log beside what the agent knows: deadlines, lives, shadows, calibrations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from bridle.certifying import Certification
from bridle.errors import NotPossible
from bridle.events import ArmsAdded, Certified, Decided, Event, Shadowed, Taught, WaitChanged
from bridle.kernels import doubt
from bridle.knowledge import Knowledge
from bridle.notes import Calibrated, CalibrationBegun, CalibrationDropped
from bridle.reading import Reader
from bridle.settings import ItemId

__all__ = ["Calibrating", "Deadlines", "Lives", "Shadows"]

# Entries for decisions that were rewarded meanwhile are swept out when there are so many more.
SWEEP = 1_000


class Deadlines:
    """Since when each decision waits for its reward, oldest first. Empty if all wait for ever."""

    def __init__(self, know: Knowledge) -> None:
        self._know = know
        self.since: deque[tuple[ItemId, float]] = deque()

    def fold(self, event: Event) -> None:
        """Take an event that was just folded into what is known."""
        know = self._know
        if isinstance(event, WaitChanged):
            if event.wait is None:
                self.since.clear()
            elif not self.since and event.at is not None:
                self.since.extend((id, event.at) for id in know.pending)
        elif isinstance(event, Decided | Shadowed) and know.wait is not None:
            id = event.id if isinstance(event, Decided) else event.decision
            if event.at is not None:
                self.since.append((id, event.at))
                if len(self.since) > 2 * len(know.pending) + SWEEP:
                    self.since = deque((i, at) for i, at in self.since if i in know.pending)

    def due(self, now: float) -> Iterator[ItemId]:
        """Give the decisions that have waited long enough, oldest first."""
        know = self._know
        while self.since and (self.since[0][0] not in know.pending):
            self.since.popleft()
        if know.wait is None:
            return
        given = set()
        for id, at in self.since:
            if at + know.wait > now:
                return
            if id in know.pending and id not in given:
                given.add(id)
                yield id


class Lives:
    """When the examples end that have an end, the next first. It follows from those that stand."""

    def __init__(self, know: Knowledge) -> None:
        self._know = know
        # Ids may be numbers or text, which have no order: the place is that in which they came.
        self._ends: list[tuple[float, int, ItemId]] = [
            (one.until, n, id)
            for n, (id, one) in enumerate(know.examples.items())
            if one.until is not None
        ]
        self._met = len(know.examples)
        heapify(self._ends)

    def fold(self, event: Event) -> None:
        """Take an event that was just folded into what is known."""
        if isinstance(event, Taught) and event.until is not None:
            self._met += 1
            heappush(self._ends, (event.until, self._met, event.id))
            if len(self._ends) > 2 * len(self._know.examples) + SWEEP:
                standing = self._know.examples
                self._ends = [end for end in self._ends if end[2] in standing]
                heapify(self._ends)

    @property
    def next(self) -> float | None:
        """When the next example ends; None if none does."""
        while self._ends and self._ends[0][2] not in self._know.examples:
            heappop(self._ends)  # it was retracted, replaced or forgotten meanwhile
        return self._ends[0][0] if self._ends else None

    def due(self, now: float, most: int) -> list[ItemId]:
        """Return examples whose time is over, at most so many, those that ended first at first."""
        over: list[tuple[float, int, ItemId]] = []
        while len(over) < most and (end := self.next) is not None and end <= now:
            over.append(heappop(self._ends))
        for one in over:  # they stand until they are retracted, which may fail
            heappush(self._ends, one)
        return [id for _, _, id in over]


@dataclass
class Shadows:
    """How an agent that runs beside another system compares with it.

    Attributes
    ----------
    decisions : int
        How many were shadowed.
    agreed : int
        In how many it would have played the same arm.
    abstained : int
        In how many it would have played nothing.
    denied_ours, denied_theirs : int
        How many plays of each a rule or a teacher, in this very context, had denied.
    believed_ours, believed_theirs : float
        The violations of each by the model's belief, and no more.
    """

    decisions: int = 0
    agreed: int = 0
    abstained: int = 0
    denied_ours: int = 0
    denied_theirs: int = 0
    believed_ours: float = 0.0
    believed_theirs: float = 0.0

    def fold(self, event: Event, know: Knowledge) -> None:
        """Take an event that is about to be folded into what is known."""
        if not isinstance(event, Shadowed):
            return
        row = np.frombuffer(bytearray(know.raw(event.context)))
        said = know.said(row, know.offered(row, None))
        p = know.believing.seen(row.tobytes()).p
        p = np.where(said == doubt.SAID_NO, 0.0, np.where(said == doubt.SAID_YES, 1.0, p))
        theirs = know.arm_number(event.arm)
        self.decisions += 1
        self.denied_theirs += bool(said[theirs] == doubt.SAID_NO)
        self.believed_theirs += float(1.0 - p[theirs])
        if event.decision in know.pending:  # with what the agent itself chose, as yet
            ours = know.pending[event.decision][1]
            self.agreed += ours == theirs
            self.denied_ours += bool(said[ours] == doubt.SAID_NO)
            self.believed_ours += float(1.0 - p[ours])
        else:
            self.abstained += 1

    def to_list(self) -> list[float]:
        """Give all counts, for a snapshot."""
        return list(astuple(self))


class Calibrating:
    """The certification that is under way, if any: a fold of its beginning and its answers."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.now: Certification | None = None

    def check(self, event: Event) -> None:
        """Refuse what cannot be, before it is written down."""
        if isinstance(event, ArmsAdded) and self.now is not None:
            raise NotPossible(
                "A calibration is under way, of the arms as they are. Finish it or drop it, and "
                "then add arms."
            )
        if isinstance(event, CalibrationBegun):
            if self._reader.settings.on_empty == "least_bad":
                raise NotPossible(
                    "With on_empty='least_bad' the agent plays what no certificate lets through. "
                    "Make it with on_empty='abstain', or with a safe_arm."
                )
            if self.now is not None:
                done, contexts, _, _ = self.now.progress
                raise NotPossible(
                    f"A calibration is under way: {done:,} of {contexts:,} contexts are done. "
                    "Go on with it, or drop it."
                )
            self._begin(event)
        elif isinstance(event, Calibrated | CalibrationDropped):
            if self.now is None:
                raise NotPossible("No calibration is under way. Begin one, on fresh contexts.")
            if isinstance(event, Calibrated) and self.now.question() is None:
                raise NotPossible("No answer is missing. Take the certificate.")

    def fold(self, event: Event) -> None:
        """Take one event; those that are no matter of calibration change nothing."""
        if isinstance(event, CalibrationBegun):
            self.now = self._begin(event)
        elif isinstance(event, Calibrated) and self.now is not None:
            self.now.answer(event.allowed)
        elif isinstance(event, CalibrationDropped | Certified):
            self.now = None

    def _begin(self, event: CalibrationBegun) -> Certification:
        return self._reader.certification_of(
            event.contexts, event.alpha, event.delta, lambda_min=event.lambda_min, on=event.on
        )

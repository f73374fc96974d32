"""What pages for teachers need of a log: contexts met of late, and what of answers was foreseen."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from bridle.events import Abstained, Asked, Decided, Event, Judged, Taught
from bridle.kernels import doubt
from bridle.knowledge import Knowledge

__all__ = ["Guesses", "Recent"]

MOST_CONTEXTS = 64
MOST_ANSWERS = 50
MOST_TEACHERS = 200
# So many pairs of a context and an arm are looked at to say how much is unsure.
MOST_PAIRS = 4_000


class Recent:
    """The distinct contexts that decisions and questions met last, the latest at the end."""

    def __init__(self) -> None:
        self.contexts: OrderedDict[bytes, None] = OrderedDict()
        self._unsure: tuple[object, float] | None = None

    def fold(self, event: Event, know: Knowledge) -> None:
        """Take one event."""
        if isinstance(event, Decided | Abstained | Asked):
            self._meet(know.raw(event.context))

    def fold_rows(self, rows: npt.NDArray[np.float64]) -> None:
        """Take the contexts of many decisions at once: the same as one by one."""
        last: dict[bytes, None] = {}
        for row in rows[::-1]:
            last.setdefault(row.tobytes())
            if len(last) == MOST_CONTEXTS:
                break
        for context in reversed(last):
            self._meet(context)

    def unsure(self, know: Knowledge) -> float | None:
        """Give the share of choices, in contexts met of late, that are neither surely allowed nor
        surely denied; None if nothing was met.
        """  # noqa: D205
        if not self.contexts:
            return None
        # What is believed changes with examples, rules and arms; contexts as they are met.
        key = (
            tuple(self.contexts),
            know.taught,
            len(know.examples),
            tuple(know.rules.values()),
            len(know.arms),
            know.believing,  # another one once arms are regrouped
        )
        if self._unsure is not None and self._unsure[0] == key:
            return self._unsure[1]
        most = max(8, min(MOST_CONTEXTS, MOST_PAIRS // len(know.arms)))
        shares = []
        for raw in list(self.contexts)[-most:]:
            row = np.frombuffer(bytearray(raw))
            said = know.said(row, know.offered(row, None))
            marks = know.believing.seen(raw).marks
            open_ = (marks == doubt.UNSURE) & (said != doubt.SAID_YES) & (said != doubt.SAID_NO)
            shares.append(float(open_.mean()))
        share = sum(shares) / len(shares)
        self._unsure = key, share
        return share

    def to_array(self, width: int) -> npt.NDArray[np.float64]:
        """Give the contexts as rows."""
        raw = bytearray(b"".join(self.contexts))
        return np.frombuffer(raw, np.float64).reshape(len(self.contexts), width)

    def _meet(self, raw: bytes) -> None:
        self.contexts[raw] = None
        self.contexts.move_to_end(raw)
        if len(self.contexts) > MOST_CONTEXTS:
            self.contexts.popitem(last=False)


class Guesses:
    """Whether the last answers of each teacher were as the agent would have guessed.

    Attributes
    ----------
    of : dict from teachers to deques of bools
        As the log names them, who answered last at the end.
    """

    def __init__(self) -> None:
        self.of: OrderedDict[str, deque[bool]] = OrderedDict()

    def fold(self, event: Event, know: Knowledge) -> None:
        """Take an event that is about to be folded into what is known."""
        if not isinstance(event, Taught | Judged) or event.question is None or event.by is None:
            return
        if isinstance(event, Taught) and know.settled_by(event.by):
            return  # what several teachers say is counted as they say it, each for themselves
        p = know.believing.seen(know.raw(event.context)).p[know.arm_number(event.arm)]
        mine = self.of.setdefault(event.by, deque(maxlen=MOST_ANSWERS))
        mine.append(bool(p >= 0.5) == event.allowed)
        self.of.move_to_end(event.by)
        if len(self.of) > MOST_TEACHERS:
            self.of.popitem(last=False)

    def to_list(self) -> list[list[object]]:
        """Give it as plain values."""
        return [[by, [int(one) for one in answers]] for by, answers in self.of.items()]

    @classmethod
    def from_list(cls, rows: Iterable[tuple[str, list[int]]]) -> Guesses:
        """Give back what `to_list` gave."""
        made = cls()
        for by, answers in rows:
            made.of[by] = deque(map(bool, answers), MOST_ANSWERS)
        return made

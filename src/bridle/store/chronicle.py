"""What happened in the course of a log, in few numbers: for curves over time.

A log is cut into spans of equally many entries. When there are too many spans, each two become
one. So a chronicle of any log takes the same memory, can be drawn at once, and is finer the shorter
the log is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.audits import AuditMeter
from bridle.errors import CorruptState
from bridle.events import Abstained, Asked, Decided, Event, Expired, Rewarded, Taught
from bridle.known import Known
from bridle.notes import Audited
from bridle.standings import Tally

__all__ = ["Chronicle", "Span", "part_of"]

MOST_SPANS = 256
# Plays of arms beyond so many are counted together, in the last place.
MOST_ARMS = 1_000
_COUNTS = ("decisions", "abstentions", "questions", "taught", "rewards", "judged", "violations")
_TALLY = ("actions", "found", "clean", "pending")


@dataclass(slots=True)
class Span:
    """Some entries of a log that follow on each other.

    Attributes
    ----------
    first, last : int
        Their sequence numbers.
    began, ended : float or None
        When the first and the last of them came that say when.
    decisions, abstentions, questions, taught, rewards, judged, violations : int
        How many of each; questions are those that came up in decisions, judged and violations are
        of audits.
    reward : float
        The sum of rewards, in the agent's own range.
    plays : array of ints
        How often each arm was played.
    audits : Tally or None
        What audits had found when the span ended, since they began; None before.
    """

    first: int
    last: int
    began: float | None = None
    ended: float | None = None
    decisions: int = 0
    abstentions: int = 0
    questions: int = 0
    taught: int = 0
    rewards: int = 0
    judged: int = 0
    violations: int = 0
    reward: float = 0.0
    plays: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    audits: Tally | None = None


class Chronicle:
    """The spans of one log.

    Attributes
    ----------
    spans : list of Span
        In order.
    width : int
        How many entries each of them has, but for the last.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.width = 1

    def fold(self, seq: int, event: Event, know: Known, meter: AuditMeter | None) -> None:
        """Take an event that was just folded into what is known, and into the audits."""
        span = self._at(seq, getattr(event, "at", None))
        _count(span, event, know)
        if meter is not None:
            span.audits = meter.tally

    def fold_decisions(self, first: int, arms: Sequence[int], at: float | None) -> None:
        """Take many decisions at once, the first at a sequence: the same as `fold` of each.

        Only where there are no audits.
        """
        done = 0
        while done < len(arms):
            span = self._at(first + done, at)
            room = self.width - (span.last - span.first + 1)
            part = np.asarray(arms[done : done + 1 + room], np.int64)
            span.last = first + done + len(part) - 1
            played = part[part >= 0]
            span.decisions += len(played)
            span.abstentions += len(part) - len(played)
            if len(played):
                counts = np.bincount(np.minimum(played, MOST_ARMS)).astype(np.int32)
                _grow(span, len(counts))
                span.plays[: len(counts)] += counts
            done += len(part)

    def _at(self, seq: int, at: float | None) -> Span:
        """Give the span of an entry that comes next."""
        spans = self.spans
        if not spans or spans[-1].last - spans[-1].first + 1 >= self.width:
            if len(spans) == MOST_SPANS:
                self._merge()
            if not spans or spans[-1].last - spans[-1].first + 1 >= self.width:
                spans.append(Span(seq, seq))
        span = spans[-1]
        span.last = seq
        if at is not None:
            if span.began is None:
                span.began = at
            span.ended = at
        return span

    def _merge(self) -> None:
        """Make each two spans one."""
        pairs = zip(self.spans[::2], self.spans[1::2], strict=True)
        self.spans[:] = [_merged(one, two) for one, two in pairs]
        self.width *= 2

    # -- snapshots ---------------------------------------------------------------------------

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Give it as arrays."""
        spans = self.spans
        nothing = float("nan")
        arms = max((len(span.plays) for span in spans), default=0)
        plays = np.zeros((len(spans), arms), np.int32)
        for row, span in zip(plays, spans, strict=True):
            row[: len(span.plays)] = span.plays
        return {
            "width": np.array([self.width], np.int64),
            "counts": np.array(
                [[span.first, span.last, *(getattr(span, name) for name in _COUNTS)]
                 for span in spans], np.int64).reshape(len(spans), 2 + len(_COUNTS)),
            "sums": np.array(
                [[span.reward, nothing if span.began is None else span.began,
                  nothing if span.ended is None else span.ended] for span in spans],
                np.float64).reshape(len(spans), 3),
            "plays": plays,
            "lengths": np.array([len(span.plays) for span in spans], np.int64),
            "audits": np.array(
                [[-1] * 4 if span.audits is None else
                 [getattr(span.audits, name) for name in _TALLY] for span in spans],
                np.int64).reshape(len(spans), 4),
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, npt.NDArray[Any]]) -> Chronicle:
        """Give back what `to_state` gave."""
        made = cls()
        made.width = int(state["width"][0])
        rows = zip(
            state["counts"].tolist(), state["sums"].tolist(), state["plays"],
            state["lengths"].tolist(), state["audits"].tolist(), strict=True,
        )  # fmt: skip
        for (first, last, *counts), (reward, began, ended), plays, length, audits in rows:
            made.spans.append(
                Span(
                    first, last, None if began != began else began,
                    None if ended != ended else ended,
                    **dict(zip(_COUNTS, counts, strict=True)), reward=reward,
                    plays=plays[:length].astype(np.int32),
                    audits=None if audits[0] < 0 else Tally(*audits),
                )
            )  # fmt: skip
        if not 1 <= made.width < 2**53 or len(made.spans) > MOST_SPANS:
            raise CorruptState("A chronicle has too many spans.")
        return made


def part_of(whole: Span, events: Sequence[Event], know: Known) -> Span:
    """Give a span of some events of another, which say when they came."""
    part = Span(whole.first, whole.last, whole.began, whole.ended, audits=whole.audits)
    for event in events:
        _count(part, event, know)
    if events:
        part.began, part.ended = events[0].at, events[-1].at  # type: ignore[union-attr]
    return part


def _count(span: Span, event: Event, know: Known) -> None:
    if isinstance(event, Decided):
        span.decisions += 1
        _play(span, know.arm_number(event.arm))
    elif isinstance(event, Abstained):
        span.abstentions += 1
    elif isinstance(event, Asked):
        span.questions += event.decision is not None
    elif isinstance(event, Taught):
        span.taught += 1
    elif isinstance(event, Rewarded | Expired) and event.value is not None:
        span.rewards += 1
        span.reward += event.value
    elif isinstance(event, Audited):
        span.judged += 1
        span.violations += not event.allowed


def _play(span: Span, arm: int) -> None:
    place = min(arm, MOST_ARMS)
    if place >= len(span.plays):
        _grow(span, place + 1)
    span.plays[place] += 1


def _grow(span: Span, arms: int) -> None:
    if arms > len(span.plays):
        longer = np.zeros(arms, np.int32)
        longer[: len(span.plays)] = span.plays
        span.plays = longer


def _merged(one: Span, two: Span) -> Span:
    _grow(one, len(two.plays))
    _grow(two, len(one.plays))
    return Span(
        one.first, two.last,
        one.began if one.began is not None else two.began,
        two.ended if two.ended is not None else one.ended,
        **{name: getattr(one, name) + getattr(two, name) for name in _COUNTS},
        reward=one.reward + two.reward, plays=one.plays + two.plays,
        audits=two.audits,
    )  # fmt: skip

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
from bridle.events import (
    Abstained,
    Asked,
    Decided,
    Event,
    Expired,
    Judged,
    Promised,
    PromiseDropped,
    Rewarded,
    Taught,
)
from bridle.known import Known
from bridle.notes import Audited
from bridle.standings import Tally, tally_of

__all__ = ["Chronicle", "Span", "part_of"]

MOST_SPANS = 256
# Plays of arms beyond so many are counted together, in the last place.
MOST_ARMS = 1_000
_COUNTS = (
    "decisions", "abstentions", "questions", "taught", "rewards", "judged", "violations",
    "drawn", "checks", "exceptions", "words",
)  # fmt: skip
_TALLY = 4  # counts of a tally, beside its coins


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
    drawn, checks, exceptions : int
        Plays that a check's coin chose; those that were judged; those that were denied. The
        judgements are among `taught`, too.
    words : int
        What one of several teachers said, whether or not it settled its case.
    reward : float
        The sum of rewards, in the agent's own range.
    plays : array of ints
        How often each arm was played.
    audits : Tally or None
        What audits had found when the span ended, since they began; None before.
    promise : Tally or None
        The same of the audits of the promise that binds, since it began.
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
    drawn: int = 0
    checks: int = 0
    exceptions: int = 0
    words: int = 0
    reward: float = 0.0
    plays: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    audits: Tally | None = None
    promise: Tally | None = None


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

    def fold(
        self,
        seq: int,
        event: Event,
        know: Known,
        meter: AuditMeter | None,
        promise_meter: AuditMeter | None = None,
    ) -> None:
        """Take an event that was just folded into what is known, and into the meters."""
        if isinstance(event, Promised | PromiseDropped):
            # One curve is of one promise: bounds are by the meter that found the tally.
            for earlier in self.spans:
                earlier.promise = None
        span = self._at(seq, getattr(event, "at", None))
        _count(span, event, know)
        if meter is not None:
            span.audits = meter.tally
        if promise_meter is not None:
            span.promise = promise_meter.tally

    def fold_decisions(
        self,
        first: int,
        arms: Sequence[int],
        at: float | None,
        checked: Sequence[bool] | None = None,
    ) -> None:
        """Take many decisions at once, the first at a sequence: the same as `fold` of each.

        `checked`: which of them a check's coin chose. Only where there are no audits.
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
            if checked is not None:
                span.drawn += sum(checked[done : done + len(part)])
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
            **_tallies_to_state("audits", [span.audits for span in spans]),
            **_tallies_to_state("promise", [span.promise for span in spans]),
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: dict[str, npt.NDArray[Any]]) -> Chronicle:
        """Give back what `to_state` gave."""
        made = cls()
        made.width = int(state["width"][0])
        rows = zip(
            state["counts"].tolist(), state["sums"].tolist(), state["plays"],
            state["lengths"].tolist(), _tallies("audits", state), _tallies("promise", state),
            strict=True,
        )  # fmt: skip
        for (first, last, *counts), (reward, began, ended), plays, length, audits, promise in rows:
            # Those from before there were checks, or words, have fewer counts.
            counts += [0] * (len(_COUNTS) - len(counts))
            made.spans.append(
                Span(
                    first, last, None if began != began else began,
                    None if ended != ended else ended,
                    **dict(zip(_COUNTS, counts, strict=True)), reward=reward,
                    plays=plays[:length].astype(np.int32),
                    audits=audits, promise=promise,
                )
            )  # fmt: skip
        if not 1 <= made.width < 2**53 or len(made.spans) > MOST_SPANS:
            raise CorruptState("A chronicle has too many spans.")
        return made


def part_of(whole: Span, events: Sequence[Event], know: Known) -> Span:
    """Give a span of some events of another, which say when they came."""
    part = Span(whole.first, whole.last, whole.began, whole.ended)
    part.audits, part.promise = whole.audits, whole.promise
    for event in events:
        _count(part, event, know)
    if events:
        part.began, part.ended = events[0].at, events[-1].at  # type: ignore[union-attr]
    return part


def _count(span: Span, event: Event, know: Known) -> None:
    if isinstance(event, Decided):
        span.decisions += 1
        span.drawn += event.checked
        _play(span, know.arm_number(event.arm))
    elif isinstance(event, Abstained):
        span.abstentions += 1
    elif isinstance(event, Asked):
        span.questions += event.decision is not None
    elif isinstance(event, Taught):
        span.taught += 1
        if event.check is not None:
            span.checks += 1
            span.exceptions += not event.allowed
    elif isinstance(event, Judged):
        span.words += 1
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
        audits=two.audits, promise=two.promise,
    )  # fmt: skip


def _tallies_to_state(
    name: str, tallies: Sequence[Tally | None]
) -> dict[str, npt.NDArray[np.int64]]:
    """Return tallies as arrays: their counts, and what they know of coins that vary."""
    counts = [[-1] * _TALLY if one is None else list(one.counts) for one in tallies]
    coins = [None if one is None else one.coins for one in tallies]
    width = max((len(one) for one in coins if one is not None), default=0)
    rows = [[-1] * width if one is None else list(one) for one in coins]
    return {
        name: np.array(counts, np.int64).reshape(len(tallies), _TALLY),
        f"{name}_coins": np.array(rows, np.int64).reshape(len(tallies), width),
    }


def _tallies(name: str, state: dict[str, npt.NDArray[Any]]) -> list[Tally | None]:
    """Return what `_tallies_to_state` was given; nothing where a chronicle is from before it."""
    n = len(state["counts"])
    counts = state[name].tolist() if name in state else [[-1] * _TALLY] * n
    known = f"{name}_coins" in state
    coins = state[f"{name}_coins"].tolist() if known else [[]] * n
    return [
        None if row[0] < 0 else tally_of(row, None if not had or had[0] < 0 else had)
        for row, had in zip(counts, coins, strict=True)
    ]

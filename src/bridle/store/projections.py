"""What pages for teachers need of a log: contexts met of late, and what of answers was foreseen."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.agent.agent import Agent
from bridle.agent.config import ItemId
from bridle.agent.events import (
    Abstained,
    ArmsAdded,
    Asked,
    Audited,
    Calibrated,
    CalibrationBegun,
    CalibrationDropped,
    Certified,
    Decided,
    Event,
    Expired,
    Judged,
    Promised,
    PromiseDropped,
    Rewarded,
    Shadowed,
    Taught,
    WaitChanged,
)
from bridle.agent.state import AgentState
from bridle.audit.meter import AuditMeter, Tally, tally_of
from bridle.certificates.calibration import Certification
from bridle.errors import CorruptState, NotPossible
from bridle.kernels import doubt

__all__ = [
    "Calibrating",
    "Chronicle",
    "Deadlines",
    "Guesses",
    "Lives",
    "Recent",
    "Shadows",
    "Span",
    "part_of",
]


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

    def fold(self, event: Event, know: AgentState) -> None:
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

    def unsure(self, know: AgentState) -> float | None:
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
            know.limits_state,  # another one once arms are regrouped
        )
        if self._unsure is not None and self._unsure[0] == key:
            return self._unsure[1]
        most = max(8, min(MOST_CONTEXTS, MOST_PAIRS // len(know.arms)))
        shares = []
        for raw in list(self.contexts)[-most:]:
            row = np.frombuffer(bytearray(raw))
            said = know.said(row, know.offered(row, None))
            marks = know.limits_state.seen(raw).marks
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

    def fold(self, event: Event, know: AgentState) -> None:
        """Take an event that is about to be folded into what is known."""
        if not isinstance(event, Taught | Judged) or event.question is None or event.by is None:
            return
        if isinstance(event, Taught) and know.settled_by(event.by):
            return  # what several teachers say is counted as they say it, each for themselves
        p = know.limits_state.seen(know.raw(event.context)).p[know.arm_number(event.arm)]
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


# --- What happened in the course of a log, in few numbers: for curves over time -----------
#
# A log is cut into spans of equally many entries. When there are too many spans, each two become
# one. So a chronicle of any log takes the same memory, can be drawn at once, and is finer the
# shorter the log is.


MOST_SPANS = 256
# Plays of arms beyond so many are counted together, in the last place.
MOST_ARMS = 1_000
_COUNTS = (
    "decisions",
    "abstentions",
    "questions",
    "taught",
    "rewards",
    "judged",
    "violations",
    "drawn",
    "checks",
    "exceptions",
    "words",
)
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
        know: AgentState,
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
                [
                    [span.first, span.last, *(getattr(span, name) for name in _COUNTS)]
                    for span in spans
                ],
                np.int64,
            ).reshape(len(spans), 2 + len(_COUNTS)),
            "sums": np.array(
                [
                    [
                        span.reward,
                        nothing if span.began is None else span.began,
                        nothing if span.ended is None else span.ended,
                    ]
                    for span in spans
                ],
                np.float64,
            ).reshape(len(spans), 3),
            "plays": plays,
            "lengths": np.array([len(span.plays) for span in spans], np.int64),
            **_tallies_to_state("audits", [span.audits for span in spans]),
            **_tallies_to_state("promise", [span.promise for span in spans]),
        }

    @classmethod
    def from_state(cls, state: dict[str, npt.NDArray[Any]]) -> Chronicle:
        """Give back what `to_state` gave."""
        made = cls()
        made.width = int(state["width"][0])
        rows = zip(
            state["counts"].tolist(),
            state["sums"].tolist(),
            state["plays"],
            state["lengths"].tolist(),
            _tallies("audits", state),
            _tallies("promise", state),
            strict=True,
        )
        for (first, last, *counts), (reward, began, ended), plays, length, audits, promise in rows:
            # Those from before there were checks, or words, have fewer counts.
            counts += [0] * (len(_COUNTS) - len(counts))
            made.spans.append(
                Span(
                    first,
                    last,
                    None if began != began else began,
                    None if ended != ended else ended,
                    **dict(zip(_COUNTS, counts, strict=True)),
                    reward=reward,
                    plays=plays[:length].astype(np.int32),
                    audits=audits,
                    promise=promise,
                )
            )
        if not 1 <= made.width < 2**53 or len(made.spans) > MOST_SPANS:
            raise CorruptState("A chronicle has too many spans.")
        return made


def part_of(whole: Span, events: Sequence[Event], know: AgentState) -> Span:
    """Give a span of some events of another, which say when they came."""
    part = Span(whole.first, whole.last, whole.began, whole.ended)
    part.audits, part.promise = whole.audits, whole.promise
    for event in events:
        _count(part, event, know)
    if events:
        part.began, part.ended = events[0].at, events[-1].at  # type: ignore[union-attr]
    return part


def _count(span: Span, event: Event, know: AgentState) -> None:
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
        one.first,
        two.last,
        one.began if one.began is not None else two.began,
        two.ended if two.ended is not None else one.ended,
        **{name: getattr(one, name) + getattr(two, name) for name in _COUNTS},
        reward=one.reward + two.reward,
        plays=one.plays + two.plays,
        audits=two.audits,
        promise=two.promise,
    )


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


# --- What follows from a log beside what the agent knows: deadlines, lives, shadows, calibrations


# Entries for decisions that were rewarded meanwhile are swept out when there are so many more.
SWEEP = 1_000


class Deadlines:
    """Since when each decision waits for its reward, oldest first. Empty if all wait for ever."""

    def __init__(self, know: AgentState) -> None:
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

    def __init__(self, know: AgentState) -> None:
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

    def fold(self, event: Event, know: AgentState) -> None:
        """Take an event that is about to be folded into what is known."""
        if not isinstance(event, Shadowed):
            return
        row = np.frombuffer(bytearray(know.raw(event.context)))
        said = know.said(row, know.offered(row, None))
        p = know.limits_state.seen(row.tobytes()).p
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

    def __init__(self, reader: Agent) -> None:
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

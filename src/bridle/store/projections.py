"""Projections: what is folded from the events of a log beside the agent's state, for reading.

A projection has `fold`. It may also have `check` (raise on an event of the kinds in `CHECKS` that
cannot be), `fold_before` (one of `BEFORE`, with the state as it is before it), `needs_events` and
`fold_many` (a batch of decisions at once), and `to_state` and `restore` (its part of a snapshot).
`Aggregate.__init__` declares them: a new one is a class here and a line there.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, runtime_checkable

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
    Erasure,
    Event,
    Expired,
    Judged,
    Promised,
    PromiseDropped,
    Rewarded,
    RunsOn,
    Shadowed,
    Taught,
    WaitChanged,
)
from bridle.agent.outcomes import Decisions
from bridle.agent.snapshot import Arrays
from bridle.agent.state import AgentState
from bridle.audit.log import Auditing, under
from bridle.audit.meter import Tally, tally_of
from bridle.certificates.calibration import Certification
from bridle.errors import CorruptState, NotPossible
from bridle.kernels import doubt

__all__ = [
    "Deadlines",
    "Erasures",
    "Expiries",
    "Guesses",
    "OpenCalibration",
    "Platform",
    "Projection",
    "Projections",
    "Recent",
    "Shadows",
    "Span",
    "Timeline",
    "part_of",
]

Facts: TypeAlias = dict[str, Any]  # what JSON holds of a snapshot
Kinds: TypeAlias = tuple[type[Event], ...]


class Projection(Protocol):
    """Something folded from the events of a log."""

    def fold(self, event: Event, seq: int) -> None:
        """Update it with an event that was just folded into the agent's state."""
        ...


@runtime_checkable
class _Checks(Protocol):
    CHECKS: ClassVar[Kinds]

    def check(self, event: Event) -> None: ...


@runtime_checkable
class _FoldsBefore(Protocol):
    BEFORE: ClassVar[Kinds]

    def fold_before(self, event: Event) -> None: ...


@runtime_checkable
class _FoldsMany(Protocol):
    @property
    def needs_events(self) -> bool: ...
    def fold_many(self, made: Decisions, first: int) -> None: ...


@runtime_checkable
class _Saved(Protocol):
    def to_state(self) -> tuple[Facts, Arrays]: ...
    def restore(self, facts: Facts, arrays: Arrays) -> None: ...


P = TypeVar("P", bound=Projection)


class Projections:
    """The projections of one log, in the order in which they fold.

    Attributes
    ----------
    checks, befores : dict from kinds of events to lists of callables
        Who checks an event of this kind before anything changes, and who folds it before the
        agent's state does.
    """

    def __init__(self) -> None:
        self.checks: dict[type[Event], list[Callable[[Event], None]]] = {}
        self.befores: dict[type[Event], list[Callable[[Event], None]]] = {}
        self._all: list[Projection] = []
        self._many: list[_FoldsMany] = []
        self._saved: list[_Saved] = []

    def add(self, one: P) -> P:
        """Add a projection after the others, and return it."""
        self._all.append(one)
        if isinstance(one, _Checks):
            for kind in one.CHECKS:
                self.checks.setdefault(kind, []).append(one.check)
        if isinstance(one, _FoldsBefore):
            for kind in one.BEFORE:
                self.befores.setdefault(kind, []).append(one.fold_before)
        if isinstance(one, _FoldsMany):
            self._many.append(one)
        if isinstance(one, _Saved):
            self._saved.append(one)
        return one

    def fold(self, event: Event, seq: int) -> None:
        """Update all with an event that was just folded into the agent's state."""
        for one in self._all:
            one.fold(event, seq)

    @property
    def needs_events(self) -> bool:
        """Whether a batch of decisions must be folded event by event."""
        return any(one.needs_events for one in self._many)

    def fold_many(self, made: Decisions, first: int) -> None:
        """Update all with a batch of decisions at once, the first at a sequence."""
        for one in self._many:
            one.fold_many(made, first)

    def to_state(self) -> tuple[Facts, Arrays]:
        """Return all that a snapshot holds of them."""
        facts: Facts = {}
        arrays: Arrays = {}
        for one in self._saved:
            more, parts = one.to_state()
            facts |= more
            arrays |= parts
        return facts, arrays

    def restore(self, facts: Facts, arrays: Arrays) -> None:
        """Restore what `to_state` returned."""
        for one in self._saved:
            one.restore(facts, arrays)


MOST_CONTEXTS = 64
MOST_ANSWERS = 50
MOST_TEACHERS = 200
# So many pairs of a context and an arm are looked at to say how much is unsure.
MOST_PAIRS = 4_000


class Recent:
    """The distinct contexts that decisions and questions met last, the latest at the end."""

    needs_events = False

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self.contexts: OrderedDict[bytes, None] = OrderedDict()
        self._unsure: tuple[object, float] | None = None

    def fold(self, event: Event, seq: int) -> None:
        """Update it with one event."""
        if isinstance(event, Decided | Abstained | Asked):
            self._meet(self._state.raw(event.context))

    def fold_many(self, made: Decisions, first: int) -> None:
        """Update it with a batch of decisions: the same as one by one."""
        self.fold_rows(made.contexts)

    def fold_rows(self, rows: npt.NDArray[np.float64]) -> None:
        """Update it with many contexts at once: the same as one by one."""
        last: dict[bytes, None] = {}
        for row in rows[::-1]:
            last.setdefault(row.tobytes())
            if len(last) == MOST_CONTEXTS:
                break
        for context in reversed(last):
            self._meet(context)

    def unsure(self) -> float | None:
        """Return the share of choices in recent contexts that are not surely allowed or denied.

        None if nothing was met.
        """
        if not self.contexts:
            return None
        state = self._state
        # What is believed changes with examples, rules and arms; contexts as they are met.
        key = (
            tuple(self.contexts),
            state.taught,
            len(state.examples),
            tuple(state.rules.values()),
            len(state.arms),
            state.limits_state,  # another one once arms are regrouped
        )
        if self._unsure is not None and self._unsure[0] == key:
            return self._unsure[1]
        most = max(8, min(MOST_CONTEXTS, MOST_PAIRS // len(state.arms)))
        shares = []
        for raw in list(self.contexts)[-most:]:
            row = np.frombuffer(bytearray(raw))
            said = state.said(row, state.offered(row, None))
            marks = state.limits_state.seen(raw).marks
            open_ = (marks == doubt.UNSURE) & (said != doubt.SAID_YES) & (said != doubt.SAID_NO)
            shares.append(float(open_.mean()))
        share = sum(shares) / len(shares)
        self._unsure = key, share
        return share

    def to_array(self, width: int) -> npt.NDArray[np.float64]:
        """Return the contexts as rows."""
        raw = bytearray(b"".join(self.contexts))
        return np.frombuffer(raw, np.float64).reshape(len(self.contexts), width)

    def to_state(self) -> tuple[Facts, Arrays]:
        """Return what a snapshot holds of it."""
        return {}, {"recent": self.to_array(self._state.settings.features.width)}

    def restore(self, facts: Facts, arrays: Arrays) -> None:
        """Restore what `to_state` returned."""
        self.fold_rows(arrays["recent"])

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

    BEFORE: ClassVar[Kinds] = (Taught, Judged)

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self.of: OrderedDict[str, deque[bool]] = OrderedDict()

    def fold(self, event: Event, seq: int) -> None:
        """Do nothing: what counts is what the agent would have guessed before the answer."""

    def fold_before(self, event: Event) -> None:
        """Update it with an event that is about to be folded into the agent's state."""
        if not isinstance(event, Taught | Judged) or event.question is None or event.by is None:
            return
        state = self._state
        if isinstance(event, Taught) and state.settled_by(event.by):
            return  # what several teachers say is counted as they say it, each for themselves
        p = state.limits_state.seen(state.raw(event.context)).p[state.arm_number(event.arm)]
        mine = self.of.setdefault(event.by, deque(maxlen=MOST_ANSWERS))
        mine.append(bool(p >= 0.5) == event.allowed)
        self.of.move_to_end(event.by)
        if len(self.of) > MOST_TEACHERS:
            self.of.popitem(last=False)

    def to_state(self) -> tuple[Facts, Arrays]:
        """Return what a snapshot holds of it."""
        rows = [[by, [int(one) for one in answers]] for by, answers in self.of.items()]
        return {"guesses": rows}, {}

    def restore(self, facts: Facts, arrays: Arrays) -> None:
        """Restore what `to_state` returned."""
        for by, answers in facts["guesses"]:
            self.of[by] = deque(map(bool, answers), MOST_ANSWERS)


# --- What happened in the course of a log, in few numbers: for curves over time -----------
#
# A log is cut into spans of equally many entries. When there are too many spans, each two become
# one. So the timeline of any log takes the same memory, can be drawn at once, and is finer the
# shorter the log is.


MOST_SPANS = 256
# Plays of arms beyond so many are counted together, in the last place.
MOST_COUNTED_ARMS = 1_000
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


class Timeline:
    """The spans of one log.

    Attributes
    ----------
    spans : list of Span
        In order.
    width : int
        How many entries each of them has, but for the last.
    """

    needs_events = False  # with audits it does; they say so themselves

    def __init__(self, state: AgentState, auditing: Auditing) -> None:
        self._state = state
        self._auditing = auditing
        self.spans: list[Span] = []
        self.width = 1

    def fold(self, event: Event, seq: int) -> None:
        """Update it with an event that was just folded into the state, and into the audits."""
        if isinstance(event, Promised | PromiseDropped):
            # One curve is of one promise: bounds are by the meter that found the tally.
            for earlier in self.spans:
                earlier.promise = None
        span = self._at(seq, getattr(event, "at", None))
        _count(span, event, self._state)
        auditing = self._auditing
        if auditing.meter is not None:
            span.audits = auditing.meter.tally
        if auditing.promise_meter is not None:
            span.promise = auditing.promise_meter.tally

    def fold_many(self, made: Decisions, first: int) -> None:
        """Update it with a batch of decisions, the first at a sequence. Without audits."""
        drawn = None if made.coins is None else [checked for _, checked in made.coins]
        self.fold_decisions(first, made.numbers, made.at, drawn)

    def fold_decisions(
        self,
        first: int,
        arms: Sequence[int],
        at: float | None,
        checked: Sequence[bool] | None = None,
    ) -> None:
        """Update it with many decisions, the first at a sequence: the same as `fold` of each.

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
                counts = np.bincount(np.minimum(played, MOST_COUNTED_ARMS)).astype(np.int32)
                _grow(span, len(counts))
                span.plays[: len(counts)] += counts
            done += len(part)

    def _at(self, seq: int, at: float | None) -> Span:
        """Return the span of an entry that comes next."""
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
        pairs = zip(self.spans[::2], self.spans[1::2], strict=True)
        self.spans[:] = [_merged(one, two) for one, two in pairs]
        self.width *= 2

    # -- snapshots ---------------------------------------------------------------------------

    def to_state(self) -> tuple[Facts, Arrays]:
        """Return what a snapshot holds of it."""
        return {}, {f"chronicle.{name}": array for name, array in self.to_arrays().items()}

    def restore(self, facts: Facts, arrays: Arrays) -> None:
        """Restore what `to_state` returned."""
        self.from_arrays(under("chronicle.", arrays))

    def to_arrays(self) -> Arrays:
        """Return its spans as arrays."""
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

    def from_arrays(self, state: Arrays) -> None:
        """Restore what `to_arrays` returned, or raise `CorruptState`."""
        self.width, self.spans = int(state["width"][0]), []
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
            self.spans.append(
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
        if not 1 <= self.width < 2**53 or len(self.spans) > MOST_SPANS:
            raise CorruptState("A timeline has too many spans.")


def part_of(whole: Span, events: Sequence[Event], state: AgentState) -> Span:
    """Return the span of some events of another, which say when they came."""
    part = Span(whole.first, whole.last, whole.began, whole.ended)
    part.audits, part.promise = whole.audits, whole.promise
    for event in events:
        _count(part, event, state)
    if events:
        part.began, part.ended = events[0].at, events[-1].at  # type: ignore[union-attr]
    return part


def _count(span: Span, event: Event, state: AgentState) -> None:
    if isinstance(event, Decided):
        span.decisions += 1
        span.drawn += event.checked
        _play(span, state.arm_number(event.arm))
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
    place = min(arm, MOST_COUNTED_ARMS)
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
    """Return what `_tallies_to_state` was given; nothing where a snapshot is from before it."""
    n = len(state["counts"])
    counts = state[name].tolist() if name in state else [[-1] * _TALLY] * n
    known = f"{name}_coins" in state
    coins = state[f"{name}_coins"].tolist() if known else [[]] * n
    return [
        None if row[0] < 0 else tally_of(row, None if not had or had[0] < 0 else had)
        for row, had in zip(counts, coins, strict=True)
    ]


# --- Deadlines, expiries, shadows, calibrations -----------------------------------------------


# Entries for decisions that were rewarded meanwhile are swept out when there are so many more.
SWEEP = 1_000


class Deadlines:
    """Since when each decision waits for its reward, oldest first. Empty if all wait for ever."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self.since: deque[tuple[ItemId, float]] = deque()

    @property
    def needs_events(self) -> bool:
        """Whether decisions wait for their rewards for a time only."""
        return self._state.wait is not None

    def fold_many(self, made: Decisions, first: int) -> None:
        """Do nothing: the decisions of such a batch wait for ever."""

    def fold(self, event: Event, seq: int) -> None:
        """Update it with an event that was just folded into the agent's state."""
        state = self._state
        if isinstance(event, WaitChanged):
            if event.wait is None:
                self.since.clear()
            elif not self.since and event.at is not None:
                self.since.extend((id, event.at) for id in state.pending)
        elif isinstance(event, Decided | Shadowed) and state.wait is not None:
            id = event.id if isinstance(event, Decided) else event.decision
            if event.at is not None:
                self.since.append((id, event.at))
                if len(self.since) > 2 * len(state.pending) + SWEEP:
                    self.since = deque((i, at) for i, at in self.since if i in state.pending)

    def due(self, now: float) -> Iterator[ItemId]:
        """Yield the decisions that have waited long enough, oldest first."""
        state = self._state
        while self.since and (self.since[0][0] not in state.pending):
            self.since.popleft()
        if state.wait is None:
            return
        given = set()
        for id, at in self.since:
            if at + state.wait > now:
                return
            if id in state.pending and id not in given:
                given.add(id)
                yield id

    def to_state(self) -> tuple[Facts, Arrays]:
        """Return what a snapshot holds of it."""
        times = np.array([at for _, at in self.since], np.float64)
        return {"deadlines": [id for id, _ in self.since]}, {"deadlines": times}

    def restore(self, facts: Facts, arrays: Arrays) -> None:
        """Restore what `to_state` returned."""
        self.since.extend(zip(facts["deadlines"], arrays["deadlines"].tolist(), strict=True))


class Expiries:
    """When the examples end that have an end, the next first.

    A snapshot needs nothing of it: it follows from the examples that stand.
    """

    def __init__(self, state: AgentState) -> None:
        self._state = state
        # Ids may be numbers or text, which have no order: the place is that in which they came.
        self._ends: list[tuple[float, int, ItemId]] = [
            (one.until, n, id)
            for n, (id, one) in enumerate(state.examples.items())
            if one.until is not None
        ]
        self._met = len(state.examples)
        heapify(self._ends)

    def fold(self, event: Event, seq: int) -> None:
        """Update it with an event that was just folded into the agent's state."""
        if isinstance(event, Taught) and event.until is not None:
            self._met += 1
            heappush(self._ends, (event.until, self._met, event.id))
            if len(self._ends) > 2 * len(self._state.examples) + SWEEP:
                standing = self._state.examples
                self._ends = [end for end in self._ends if end[2] in standing]
                heapify(self._ends)

    @property
    def next(self) -> float | None:
        """When the next example ends; None if none does."""
        while self._ends and self._ends[0][2] not in self._state.examples:
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


_SHADOWS = (
    "decisions",
    "agreed",
    "abstained",
    "denied_ours",
    "denied_theirs",
    "believed_ours",
    "believed_theirs",
)


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

    BEFORE: ClassVar[Kinds] = (Shadowed,)

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self.decisions = 0
        self.agreed = 0
        self.abstained = 0
        self.denied_ours = 0
        self.denied_theirs = 0
        self.believed_ours = 0.0
        self.believed_theirs = 0.0

    def fold(self, event: Event, seq: int) -> None:
        """Do nothing: both are compared by what was believed before the event."""

    def fold_before(self, event: Event) -> None:
        """Update it with an event that is about to be folded into the agent's state."""
        if not isinstance(event, Shadowed):
            return
        state = self._state
        row = np.frombuffer(bytearray(state.raw(event.context)))
        said = state.said(row, state.offered(row, None))
        p = state.limits_state.seen(row.tobytes()).p
        p = np.where(said == doubt.SAID_NO, 0.0, np.where(said == doubt.SAID_YES, 1.0, p))
        theirs = state.arm_number(event.arm)
        self.decisions += 1
        self.denied_theirs += bool(said[theirs] == doubt.SAID_NO)
        self.believed_theirs += float(1.0 - p[theirs])
        if event.decision in state.pending:  # with what the agent itself chose, as yet
            ours = state.pending[event.decision][1]
            self.agreed += ours == theirs
            self.denied_ours += bool(said[ours] == doubt.SAID_NO)
            self.believed_ours += float(1.0 - p[ours])
        else:
            self.abstained += 1

    def to_list(self) -> list[float]:
        """Return all counts."""
        return [getattr(self, name) for name in _SHADOWS]

    def to_state(self) -> tuple[Facts, Arrays]:
        """Return what a snapshot holds of it."""
        return {"shadows": self.to_list()}, {}

    def restore(self, facts: Facts, arrays: Arrays) -> None:
        """Restore what `to_state` returned."""
        for name, value in zip(_SHADOWS, facts["shadows"], strict=True):
            setattr(self, name, value)


class OpenCalibration:
    """The certification that is under way, if any: a fold of its beginning and its answers."""

    CHECKS: ClassVar[Kinds] = (ArmsAdded, CalibrationBegun, Calibrated, CalibrationDropped)

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.now: Certification | None = None

    def check(self, event: Event) -> None:
        """Raise if an event does not go with the calibration under way."""
        if isinstance(event, ArmsAdded) and self.now is not None:
            raise NotPossible(
                "A calibration is under way, of the arms as they are. Finish it or drop it, and "
                "then add arms."
            )
        if isinstance(event, CalibrationBegun):
            if self._agent.settings.on_empty == "least_bad":
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

    def fold(self, event: Event, seq: int) -> None:
        """Update it with one event; those that are no matter of calibration change nothing."""
        if isinstance(event, CalibrationBegun):
            self.now = self._begin(event)
        elif isinstance(event, Calibrated) and self.now is not None:
            self.now.answer(event.allowed)
        elif isinstance(event, CalibrationDropped | Certified):
            self.now = None

    def to_state(self) -> tuple[Facts, Arrays]:
        """Return what a snapshot holds of it."""
        now = self.now
        arrays = {} if now is None else now.to_state()
        prefixed = {f"calibration.{name}": array for name, array in arrays.items()}
        return {"calibration": now is not None}, prefixed

    def restore(self, facts: Facts, arrays: Arrays) -> None:
        """Restore what `to_state` returned."""
        if facts["calibration"]:
            self.now = Certification.from_state(under("calibration.", arrays))

    def _begin(self, event: CalibrationBegun) -> Certification:
        return self._agent.certification_of(
            event.contexts, event.alpha, event.delta, lambda_min=event.lambda_min, on=event.on
        )


# --- What a log says of itself ------------------------------------------------------------------


class Erasures:
    """What was erased from a log.

    Attributes
    ----------
    examples : set of str
        Those of which later ones may say that they replace them.
    count : int
        How many erasures were read; what was folded before one may be gone since.
    """

    def __init__(self) -> None:
        self.examples: set[str] = set()
        self.count = 0

    def fold(self, event: Event, seq: int) -> None:
        """Update it with one event. Whoever reads erased entries adds their examples."""
        self.count += isinstance(event, Erasure)

    def to_state(self) -> tuple[Facts, Arrays]:
        """Return what a snapshot holds of it."""
        return {"erased": sorted(self.examples)}, {}

    def restore(self, facts: Facts, arrays: Arrays) -> None:
        """Restore what `to_state` returned."""
        # Snapshots from before examples could replace each other have none of this.
        self.examples = set(facts.get("erased", ()))


class Platform:
    """On what the events of a log are made, as the log has it last; `name` is None before."""

    def __init__(self) -> None:
        self.name: str | None = None

    def fold(self, event: Event, seq: int) -> None:
        """Update it with one event."""
        if isinstance(event, RunsOn):
            self.name = event.platform

    def to_state(self) -> tuple[Facts, Arrays]:
        """Return what a snapshot holds of it."""
        return {"platform": self.name}, {}

    def restore(self, facts: Facts, arrays: Arrays) -> None:
        """Restore what `to_state` returned."""
        self.name = facts["platform"]

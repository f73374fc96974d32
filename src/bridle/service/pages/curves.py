"""From the spans of a chronicle to the lines of charts: what happened over some time.

`course_of` runs on the writer's thread, where the chronicle is, and gives numbers; `charts_of`
draws them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from bridle.audits import AuditMeter
from bridle.events import Event
from bridle.service.pages.charts import Line, curve
from bridle.service.pages.stacks import Area, stack
from bridle.service.pages.words import arm_words
from bridle.store.chronicle import MOST_ARMS, Span, part_of
from bridle.store.kept import Kept

__all__ = ["Audits", "Course", "Edge", "Edges", "charts_of", "course_of", "edges_of"]

# A chart is as wide as so many points can be told apart.
MOST_POINTS = 48
MOST_LINES = 6
# Fewer entries than that in a point, and it shows chance alone.
LEAST_ENTRIES = 24
LONGEST_NAME = 26
# Two, unless a clock was set back.
MOST_EDGES = 4
HOUR, DAY = 3_600.0, 86_400.0


class Edge(NamedTuple):
    """A span of which only a part lies in some time: its entries, and how wide spans are."""

    first: int
    last: int
    width: int


# The events of such parts, by the first entry of the span and how wide spans are.
Edges: TypeAlias = Mapping[tuple[int, int], Sequence[Event]]


class Point(NamedTuple):
    """What happened up to a time, since the point before.

    Points lie as far apart as the log is long between them: in a night in which nothing happened
    there is nothing to see, and a busy hour is as wide as all that came in it.
    """

    place: int
    at: float
    decisions: int
    abstentions: int
    questions: int
    rewards: int
    reward: float
    plays: tuple[int, ...]  # of the arms of the course, and of all others


class Audits(NamedTuple):
    """What audits had shown at a time, since they began: counts, and shares of what was played."""

    place: int
    at: float
    plays: int
    judged: int
    found: int
    low: float
    high: float

    @property
    def share(self) -> float | None:
        """Violations among what was judged."""
        return self.found / self.judged if self.judged else None


@dataclass(frozen=True)
class Course:
    """What happened over some time.

    Attributes
    ----------
    points : tuple of Point
        In order.
    audits : tuple of Audits
        In order; empty if none had begun.
    delta : float or None
        Each bound of the audits is wrong with this probability, at most.
    names : tuple of str
        Of the arms that were played most.
    others : int
        How many arms there are beside.
    step : int
        Entries of the log that one point stands for, about.
    taught : int
        Examples.
    rough : bool
        Whether something is counted that came shortly before or after.
    """

    points: tuple[Point, ...]
    audits: tuple[Audits, ...]
    delta: float | None
    names: tuple[str, ...]
    others: int
    step: int
    taught: int
    rough: bool

    def total(self, name: str) -> float:
        """Give the sum of something over all points."""
        return float(sum(getattr(point, name) for point in self.points))

    @property
    def choices(self) -> int:
        """Decisions and abstentions."""
        return int(self.total("decisions") + self.total("abstentions"))

    @property
    def mean_reward(self) -> float | None:
        """The mean of all rewards."""
        return _share(self.total("reward"), self.total("rewards"))

    @property
    def abstained(self) -> float | None:
        """The share of choices in which nothing was played."""
        return _share(self.total("abstentions"), self.choices)

    @property
    def audited(self) -> Audits | None:
        """What audits had shown in the end."""
        return self.audits[-1] if self.audits else None


def edges_of(kept: Kept, first: float | None, last: float | None) -> list[Edge]:
    """Name the spans that lie partly between two times."""
    width = kept.chronicle.width
    cut = (
        span
        for span in kept.chronicle.spans
        if _within(span, first, last) and _is_cut(span, first, last)
    )
    return [Edge(span.first, span.last, width) for span in cut][:MOST_EDGES]


def course_of(
    kept: Kept,
    first: float | None = None,
    last: float | None = None,
    edges: Edges = {},  # noqa: B006 -- it is only read
) -> Course:
    """Give the course of an agent between two times, or from its beginning, or until now.

    Of a span that lies partly within, those `edges` are counted that were read; if there are none,
    it counts as a whole.
    """
    width = kept.chronicle.width
    spans, rough = [], False
    for span in kept.chronicle.spans:
        if not _within(span, first, last):
            continue
        if _is_cut(span, first, last):
            events = edges.get((span.first, width))
            rough = rough or events is None
            if events is not None and not events:
                continue  # what came in this time came in other spans
            span = span if events is None else part_of(span, events, kept.know)
        spans.append(span)
    size = max(1, -(-len(spans) // MOST_POINTS), LEAST_ENTRIES // width)
    groups = [spans[i : i + size] for i in range(0, len(spans), size)]
    if len(groups) > 1 and 2 * len(groups[-1]) < size:
        groups[-2:] = [groups[-2] + groups[-1]]  # a point of few entries shows chance alone
    arms = kept.know.arms
    plays = _plays(spans)
    top = np.argsort(-plays[:MOST_ARMS], kind="stable")[:MOST_LINES]
    top = top[plays[top] > 0]
    meter = kept.auditing.meter
    return Course(
        points=tuple(_point(n, group, top) for n, group in enumerate(groups)),
        audits=() if meter is None else tuple(_audits(groups, meter)),
        delta=None if meter is None else meter.delta,
        names=tuple(_cut(arm_words(arms[k])) for k in top.tolist()),
        others=len(arms) - len(top),
        step=width * size,
        taught=sum(span.taught for span in spans),
        rough=rough,
    )


class Drawn(NamedTuple):
    """A chart, what it is called and what it says."""

    name: str
    hint: str
    chart: Markup


def charts_of(course: Course) -> list[Drawn]:
    """Draw what happened."""
    points = course.points
    ticks, audit_ticks = _ticks(points), _ticks(course.audits)
    return [
        Drawn("Reward", "What decisions earned on average.",
              curve("Mean reward over time", _rewards(points), x_ticks=ticks)),
        Drawn("Not played", "How often nothing was surely allowed, and how often it asked.",
              curve("Share of choices in which nothing was played, over time",
                    _idle(points), y_low=0.0, x_ticks=ticks)),
        Drawn("Broken limits", "What teachers found when they judged plays that a coin had chosen, "
              "and what follows for all plays since audits began.",
              curve("Share of plays that broke the limits, by audits", _violations(course.audits),
                    y_low=0.0, x_ticks=audit_ticks)),
        Drawn("What it plays", "The share of each choice in all plays, in the order of the names "
              "from the bottom up.",
              stack("Share of each choice in all plays, over time",
                    [point.place for point in points], _shares(course), ticks)),
    ]  # fmt: skip


# -- numbers ---------------------------------------------------------------------------------


def _within(span: Span, first: float | None, last: float | None) -> bool:
    if span.began is None or span.ended is None:
        return False  # nothing in it says when; nothing in it is a choice that was served
    return (first is None or span.ended >= first) and (last is None or span.began <= last)


def _is_cut(span: Span, first: float | None, last: float | None) -> bool:
    assert span.began is not None and span.ended is not None
    return (first is not None and span.began < first) or (last is not None and span.ended > last)


def _plays(spans: Sequence[Span]) -> npt.NDArray[np.int64]:
    """Give how often each arm was played; those beyond the most are one, at the end."""
    sums = np.zeros(MOST_ARMS + 1, np.int64)
    for span in spans:
        sums[: len(span.plays)] += span.plays
    return sums


def _point(place: int, group: Sequence[Span], top: npt.NDArray[np.int64]) -> Point:
    plays = _plays(group)
    mine = plays[top].tolist()
    assert group[-1].ended is not None
    return Point(
        place=place,
        at=group[-1].ended,
        decisions=sum(span.decisions for span in group),
        abstentions=sum(span.abstentions for span in group),
        questions=sum(span.questions for span in group),
        rewards=sum(span.rewards for span in group),
        reward=sum(span.reward for span in group),
        plays=(*mine, int(plays.sum()) - sum(mine)),
    )


def _audits(groups: Sequence[Sequence[Span]], meter: AuditMeter) -> list[Audits]:
    found = []
    for place, group in enumerate(groups):
        tally, at = group[-1].audits, group[-1].ended
        if tally is None or not tally.actions or at is None:
            continue
        bounds = meter.bounds_at(tally)
        found.append(
            Audits(
                place, at, tally.actions, tally.found + tally.clean, tally.found,
                min(1.0, bounds.lower / tally.actions), min(1.0, bounds.upper / tally.actions),
            )
        )  # fmt: skip
    return found


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


# -- lines -----------------------------------------------------------------------------------


def _rewards(points: Sequence[Point]) -> list[Line]:
    each, so_far = [], []
    reward = rewards = 0.0
    for point in points:
        reward += point.reward
        rewards += point.rewards
        each.append((point.place, _share(point.reward, point.rewards)))
        so_far.append((point.place, _share(reward, rewards)))
    return [Line("at the time", each, "c1"), Line("so far", so_far, "c2")]


def _violations(audits: Sequence[Audits]) -> list[Line]:
    low, high = [one.low for one in audits], [one.high for one in audits]
    return [
        Line("at most", [(one.place, one.high) for one in audits], "c6"),
        Line("among those judged", [(one.place, one.share) for one in audits], "c1", low, high),
        Line("at least", [(one.place, one.low) for one in audits], "c3"),
    ]


def _idle(points: Sequence[Point]) -> list[Line]:
    def share(point: Point, count: int) -> float | None:
        # A choice may ask more than once, or wait for its answer yet: never more than all did.
        return _share(count, max(count, point.decisions + point.abstentions))

    return [
        Line("nothing played", [(p.place, share(p, p.abstentions)) for p in points], "c1"),
        Line("asked a teacher", [(p.place, share(p, p.questions)) for p in points], "c2"),
    ]


def _shares(course: Course) -> list[Area]:
    names = [*course.names, *(["all others"] if course.others > 0 else [])]
    counts = [[point.plays[n] for point in course.points] for n in range(len(names))]
    whole = max(1, sum(map(sum, counts)))
    return [
        Area(f"{100.0 * sum(mine) / whole:.0f} % {name}", mine, f"c{n + 1}")
        for n, (name, mine) in enumerate(zip(names, counts, strict=True))
        if sum(mine)
    ]


def _ticks(points: Sequence[Point | Audits]) -> list[tuple[float, str]]:
    """Give when the beginning, the middle and the end were, as fine as the time between them is."""
    if not points:
        return []
    marks = [points[0], points[len(points) // 2], points[-1]]
    spread = marks[-1].at - marks[0].at
    form = "%H:%M:%S" if spread < HOUR / 2 else "%H:%M" if spread < DAY else "%m-%d %H:%M"
    if spread > 8 * DAY:
        form = "%Y-%m-%d"
    if len(points) < 3:
        marks = marks[-1:]
    return [(one.place, datetime.fromtimestamp(one.at, UTC).strftime(form)) for one in marks]


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"

"""From the spans of a chronicle to the lines of charts: what happened over some time.

`course_of` runs on the writer's thread, where the chronicle is, and gives numbers; `charts_of`
draws them.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from bridle.agent.events import Event, Expired, Rewarded
from bridle.audit.meter import AuditMeter
from bridle.errors import Busy, InvalidValue
from bridle.store.aggregate import Aggregate, event_of, log_head
from bridle.store.idempotency import text_of
from bridle.store.log import Store
from bridle.store.projections import MOST_ARMS, Span, part_of
from bridle.web.charts import Area, Line, curve, stack
from bridle.web.log import (
    Earned,
    Made,
    Naming,
    Wanted,
    earned,
    earned_by,
    earned_words,
    look_back,
    made_of,
    seq_at,
    time_of,
)
from bridle.web.page import Html, Page, Shown, Stream, Visit
from bridle.web.rendering import arm_words, url

__all__ = ["PAGES", "Audits", "Course", "Edge", "Edges", "charts_of", "course_of", "edges_of"]


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


def edges_of(kept: Aggregate, first: float | None, last: float | None) -> list[Edge]:
    """Name the spans that lie partly between two times."""
    width = kept.timeline.width
    cut = (
        span
        for span in kept.timeline.spans
        if _within(span, first, last) and _is_cut(span, first, last)
    )
    return [Edge(span.first, span.last, width) for span in cut][:MOST_EDGES]


def course_of(
    kept: Aggregate,
    first: float | None = None,
    last: float | None = None,
    edges: Edges = {},  # noqa: B006 -- it is only read
) -> Course:
    """Give the course of an agent between two times, or from its beginning, or until now.

    Of a span that lies partly within, those `edges` are counted that were read; if there are none,
    it counts as a whole.
    """
    width = kept.timeline.width
    spans, rough = [], False
    for span in kept.timeline.spans:
        if not _within(span, first, last):
            continue
        if _is_cut(span, first, last):
            events = edges.get((span.first, width))
            rough = rough or events is None
            if events is not None and not events:
                continue  # what came in this time came in other spans
            span = span if events is None else part_of(span, events, kept.state)
        spans.append(span)
    size = max(1, -(-len(spans) // MOST_POINTS), LEAST_ENTRIES // width)
    groups = [spans[i : i + size] for i in range(0, len(spans), size)]
    if len(groups) > 1 and 2 * len(groups[-1]) < size:
        groups[-2:] = [groups[-2] + groups[-1]]  # a point of few entries shows chance alone
    arms = kept.state.arms
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
        Drawn(
            "Reward",
            "What decisions earned on average.",
            curve("Mean reward over time", _rewards(points), x_ticks=ticks),
        ),
        Drawn(
            "Not played",
            "How often nothing was surely allowed, and how often it asked.",
            curve(
                "Share of choices in which nothing was played, over time",
                _idle(points),
                y_low=0.0,
                x_ticks=ticks,
            ),
        ),
        Drawn(
            "Broken limits",
            "What teachers found when they judged plays that a coin had chosen, "
            "and what follows for all plays since audits began.",
            curve(
                "Share of plays that broke the limits, by audits",
                _violations(course.audits),
                y_low=0.0,
                x_ticks=audit_ticks,
            ),
        ),
        Drawn(
            "What it plays",
            "The share of each choice in all plays, in the order of the names from the bottom up.",
            stack(
                "Share of each choice in all plays, over time",
                [point.place for point in points],
                _shares(course),
                ticks,
            ),
        ),
    ]


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
                place,
                at,
                tally.actions,
                tally.found + tally.clean,
                tally.found,
                min(1.0, bounds.lower / tally.actions),
                min(1.0, bounds.upper / tally.actions),
            )
        )
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


# --- Watching an agent: what it decides as it does, and curves of what came of it ---------


# Rows of the list. It never grows: nothing on the page moves when something comes.
SLOTS = 20
# Entries that are read at once; when more came, the rest is only counted.
AT_ONCE = 50
# Entries that are read at an end of the time that curves are of, to count them one by one.
MOST_AT_EDGES = 2_000
TICK_SECONDS = 0.5
BEAT_SECONDS = 10.0
# Then the browser comes back by itself.
STREAM_SECONDS = 60.0
RANGES = {"all": None, "hour": 3_600.0, "day": 86_400.0}


class Range(NamedTuple):
    """Which time the curves are of."""

    name: str  # all, hour, day or own
    first: float | None
    last: float | None
    query: dict[str, str]


class News(NamedTuple):
    """What came into a log: choices, rewards, and how many entries were passed over."""

    head: int
    made: list[Made]
    rewards: dict[str, Earned]
    more: int


async def live(visit: Visit) -> Shown:
    """Show the last decisions and the curves, as they are now."""
    try:
        span, wrong = _range_of(visit), None
    except InvalidValue as error:
        span, wrong = Range("own", None, None, {}), str(error)
    naming = await Naming.of(visit.service, visit.agent)
    store, agent = visit.service.store, visit.agent

    def read() -> tuple[int, list[Made], dict[str, Earned]]:
        head = log_head(store, agent).seq
        made = look_back(store, agent, Wanted(), head + 1, SLOTS).found
        return head, made, earned(store, agent, made)

    head, made, had = await visit.service.aside(read)
    await naming.learn(visit.service, made)
    rows = [_row(naming, one, had) for one in made]
    return Html(
        "live.html",
        {
            "agent": agent,
            "rows": [*rows, *[None] * (SLOTS - len(rows))],
            "head": head,
            "wrong": wrong,
            "range": span,
            "given": _asked(visit),
            "ranges": RANGES,
            "stream": url("agents", agent, "live", "stream"),
            "curves": url("agents", agent, "live", "curves", **span.query),
            **await _course(visit, span),
        },
        200 if wrong is None else 422,
    )


async def curves(visit: Visit) -> Shown:
    """Give the curves alone, for a page that has them already."""
    return Html(
        "live-curves.html",
        {
            "agent": visit.agent,
            **await _course(visit, _range_of(visit)),
        },
    )


async def stream(visit: Visit) -> Shown:
    """Give decisions as they come."""
    naming = await Naming.of(visit.service, visit.agent)
    store, agent = visit.service.store, visit.agent
    head = (await visit.service.aside(lambda: log_head(store, agent))).seq
    after = min(_last_seen(visit, head), head)
    return Stream(_news(visit, naming, after), "text/event-stream")


async def _course(visit: Visit, span: Range) -> dict[str, Any]:
    service, store, agent = visit.service, visit.service.store, visit.agent
    edges: Edges = {}
    if span.first is not None or span.last is not None:
        cut = await service.do(agent, lambda work: edges_of(work.aggregate, span.first, span.last))
        if cut:
            edges = await service.aside(lambda: _edges(store, agent, span, cut))
    course: Course = await service.do(
        agent, lambda work: course_of(work.aggregate, span.first, span.last, edges)
    )
    return {"course": course, "charts_shown": charts_of(course)}


def _edges(store: Store, agent: str, span: Range, cut: Sequence[Edge]) -> Edges:
    """Read what of spans lies in a range, where that is not too much."""
    head = log_head(store, agent).seq
    first = 1 if span.first is None else seq_at(store, agent, head, span.first) + 1
    # What came in the very moment at which it ends belongs to it.
    last = (
        head
        if span.last is None
        else seq_at(store, agent, head, math.nextafter(span.last, math.inf))
    )
    found: dict[tuple[int, int], Sequence[Event]] = {}
    for edge in cut:
        start, end = max(edge.first, first), min(edge.last, last)
        if end - start >= MOST_AT_EDGES:
            continue
        entries = store.read(agent, start - 1, end - start + 1) if end >= start else []
        events = [event_of(entry) for entry in entries if entry.payload is not None]
        found[edge.first, edge.width] = [event for event in events if _is_in(event, span)]
    return found


def _is_in(event: Event, span: Range) -> bool:
    at = getattr(event, "at", None)
    return at is not None and (
        (span.first is None or at >= span.first) and (span.last is None or at <= span.last)
    )


# -- what comes ------------------------------------------------------------------------------


async def _news(visit: Visit, naming: Naming, after: int) -> AsyncIterator[bytes]:
    service, store = visit.service, visit.service.store
    now = asyncio.get_running_loop().time
    end, beat = now() + STREAM_SECONDS, now()
    yield b"retry: 1000\n\n"
    while not service.leaving and now() < end and await visit.still():
        try:
            news = await service.aside(partial(_since, store, visit.agent, after))
            if news is not None:
                await naming.learn(service, news.made)
                after, beat = news.head, now()
                yield _event(naming, news)
        except Busy:
            news = None  # those who wait for an answer come first
        if now() - beat > BEAT_SECONDS:
            # Who has left is noticed when something is sent.
            beat = now()
            yield b": still here\n\n"
        await asyncio.sleep(TICK_SECONDS)


def _since(store: Store, agent: str, after: int) -> News | None:
    """Read what came after an entry; None if nothing did."""
    head = store.head(agent)
    if head is None or head.seq <= after:
        return None
    first = max(after, head.seq - AT_ONCE)
    entries = store.read(agent, first, head.seq - first)
    made = [one for entry in entries if (one := made_of(entry)) is not None and not one.erased]
    rewards = {}
    for entry in entries:
        event = event_of(entry) if entry.kind in ("Rewarded", "Expired") else None
        if isinstance(event, Rewarded):
            rewards[text_of(event.decision)] = Earned("came", event.value, event.at)
        elif isinstance(event, Expired):
            how = "none" if event.value is None else "assumed"
            rewards[text_of(event.decision)] = Earned(how, event.value, event.at)
    return News(head.seq, made[-SLOTS:], rewards, first - after)


def _event(naming: Naming, news: News) -> bytes:
    """Write what came as one event: plain values, which the page only ever shows as text."""
    said = {
        "rows": [_row(naming, one, news.rewards) for one in news.made],
        "rewards": {id: earned_words(had) for id, had in news.rewards.items()},
        "more": news.more,
    }
    return f"id: {news.head}\ndata: {json.dumps(said)}\n\n".encode()


def _row(naming: Naming, made: Made, rewards: Mapping[str, Earned]) -> dict[str, Any]:
    had = earned_by(made, rewards)
    return {**naming.shown(made), "reward": "" if had is None else earned_words(had)}


def _last_seen(visit: Visit, head: int) -> int:
    """Say after which entry to begin: what the browser got last, or what the page has."""
    for name, value in visit.more["scope"]["headers"]:
        if name == b"last-event-id" and value.isdigit() and len(value) < 17:
            return int(value)
    return visit.query.whole("after", head, low=0, high=2**53)


# -- which time ------------------------------------------------------------------------------


def _asked(visit: Visit) -> dict[str, str]:
    return {name: visit.query.get(name)[:100] for name in ("range", "from", "to")}


def _range_of(visit: Visit) -> Range:
    asked = _asked(visit)
    first, last = time_of(asked["from"], "from"), time_of(asked["to"], "to")
    if first is not None or last is not None:
        if first is not None and last is not None and first > last:
            raise InvalidValue("from", "the form", "before the end", asked["from"])
        return Range("own", first, last, {k: v for k, v in asked.items() if k != "range"})
    name = asked["range"] or "all"
    if name not in RANGES:
        raise InvalidValue("range", "the page", f"one of {', '.join(RANGES)}", name)
    seconds = RANGES[name]
    since = None if seconds is None else visit.service.clock() - seconds
    return Range(name, since, None, {"range": name})


_EVENTS = ("GET /v1/agents/{agent}/events",)
PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/live", handle=live, like=_EVENTS),
    Page(method="GET", path="/agents/{agent}/live/curves", handle=curves, like=_EVENTS),
    Page(method="GET", path="/agents/{agent}/live/stream", handle=stream, like=_EVENTS),
)

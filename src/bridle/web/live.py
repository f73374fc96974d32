"""What an agent does, live: decisions as they are made, and curves of its history.

`history_of` runs on the writer's thread, where the spans of the timeline are, and returns numbers;
`charts_of` draws them.
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
from bridle.store.projections import MOST_COUNTED_ARMS, Span, part_of
from bridle.web.charts import Area, Line, curve, stack
from bridle.web.decisions import (
    Choice,
    ChoiceFilter,
    ChoiceFormatter,
    RewardOutcome,
    choice_of,
    parse_time,
    reward_of,
    reward_phrase,
    rewards_of,
    search_back,
    seq_at,
)
from bridle.web.page import Html, Page, Shown, Stream, Visit
from bridle.web.rendering import arm_words, url

__all__ = ["PAGES", "AuditPoint", "Edge", "Edges", "History", "charts_of", "edges_of", "history_of"]


# More points could not be told apart in a chart.
MOST_POINTS = 48
MOST_LINES = 6
# A point of fewer entries would show noise alone.
LEAST_ENTRIES = 24
LONGEST_NAME = 26
# Two, unless a clock was set back.
MOST_EDGES = 4
HOUR, DAY = 3_600.0, 86_400.0


class Edge(NamedTuple):
    """A span that lies partly within a range of time: its entries, and the width of spans."""

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
    plays: tuple[int, ...]  # of the arms in `History.names`, and of all others


class AuditPoint(NamedTuple):
    """What audits had shown at a time, since they began: counts, and shares of plays."""

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
class History:
    """What happened over some time.

    Attributes
    ----------
    points : tuple of Point
        In order.
    audits : tuple of AuditPoint
        In order; empty if none had begun.
    delta : float or None
        Each bound of the audits is wrong with this probability, at most.
    names : tuple of str
        The arms that were played most.
    others : int
        Number of other arms.
    step : int
        Approximate number of entries in a point.
    taught : int
        Examples.
    rough : bool
        Whether events shortly outside of the range are counted.
    """

    points: tuple[Point, ...]
    audits: tuple[AuditPoint, ...]
    delta: float | None
    names: tuple[str, ...]
    others: int
    step: int
    taught: int
    rough: bool

    def total(self, name: str) -> float:
        """Return the sum of a field over all points."""
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
    def audited(self) -> AuditPoint | None:
        """What audits had shown in the end."""
        return self.audits[-1] if self.audits else None


def edges_of(aggregate: Aggregate, first: float | None, last: float | None) -> list[Edge]:
    """Return the spans that lie partly between two times."""
    width = aggregate.timeline.width
    cut = (
        span
        for span in aggregate.timeline.spans
        if _within(span, first, last) and _is_cut(span, first, last)
    )
    return [Edge(span.first, span.last, width) for span in cut][:MOST_EDGES]


def history_of(
    aggregate: Aggregate,
    first: float | None = None,
    last: float | None = None,
    edges: Edges = {},  # noqa: B006 -- it is only read
) -> History:
    """Return the history of an agent between two times; None leaves an end open.

    Of a span that lies partly within, the events in `edges` are counted; without them the whole
    span is.
    """
    width = aggregate.timeline.width
    spans, rough = [], False
    for span in aggregate.timeline.spans:
        if not _within(span, first, last):
            continue
        if _is_cut(span, first, last):
            events = edges.get((span.first, width))
            rough = rough or events is None
            if events is not None and not events:
                continue  # the events of this time are in other spans
            span = span if events is None else part_of(span, events, aggregate.state)
        spans.append(span)
    size = max(1, -(-len(spans) // MOST_POINTS), LEAST_ENTRIES // width)
    groups = [spans[i : i + size] for i in range(0, len(spans), size)]
    if len(groups) > 1 and 2 * len(groups[-1]) < size:
        groups[-2:] = [groups[-2] + groups[-1]]  # a point of few entries shows noise alone
    arms = aggregate.state.arms
    plays = _plays(spans)
    top = np.argsort(-plays[:MOST_COUNTED_ARMS], kind="stable")[:MOST_LINES]
    top = top[plays[top] > 0]
    meter = aggregate.auditing.meter
    return History(
        points=tuple(_point(n, group, top) for n, group in enumerate(groups)),
        audits=() if meter is None else tuple(_audits(groups, meter)),
        delta=None if meter is None else meter.delta,
        names=tuple(_cut(arm_words(arms[k])) for k in top.tolist()),
        others=len(arms) - len(top),
        step=width * size,
        taught=sum(span.taught for span in spans),
        rough=rough,
    )


class Chart(NamedTuple):
    """A chart with its name and a hint."""

    name: str
    hint: str
    chart: Markup


def charts_of(history: History) -> list[Chart]:
    """Draw the charts of a history."""
    points = history.points
    ticks, audit_ticks = _ticks(points), _ticks(history.audits)
    return [
        Chart(
            "Reward",
            "What decisions earned on average.",
            curve("Mean reward over time", _rewards(points), x_ticks=ticks),
        ),
        Chart(
            "Not played",
            "How often nothing was surely allowed, and how often it asked.",
            curve(
                "Share of choices in which nothing was played, over time",
                _idle(points),
                y_low=0.0,
                x_ticks=ticks,
            ),
        ),
        Chart(
            "Broken limits",
            "What teachers found when they judged plays that a coin had chosen, "
            "and what follows for all plays since audits began.",
            curve(
                "Share of plays that broke the limits, by audits",
                _violations(history.audits),
                y_low=0.0,
                x_ticks=audit_ticks,
            ),
        ),
        Chart(
            "What it plays",
            "The share of each choice in all plays, in the order of the names from the bottom up.",
            stack(
                "Share of each choice in all plays, over time",
                [point.place for point in points],
                _shares(history),
                ticks,
            ),
        ),
    ]


# -- numbers ---------------------------------------------------------------------------------


def _within(span: Span, first: float | None, last: float | None) -> bool:
    if span.began is None or span.ended is None:
        return False  # no event in it has a time, so none is a choice that was served
    return (first is None or span.ended >= first) and (last is None or span.began <= last)


def _is_cut(span: Span, first: float | None, last: float | None) -> bool:
    assert span.began is not None and span.ended is not None
    return (first is not None and span.began < first) or (last is not None and span.ended > last)


def _plays(spans: Sequence[Span]) -> npt.NDArray[np.int64]:
    """Return how often each arm was played; those beyond the most are one, at the end."""
    sums = np.zeros(MOST_COUNTED_ARMS + 1, np.int64)
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


def _audits(groups: Sequence[Sequence[Span]], meter: AuditMeter) -> list[AuditPoint]:
    found = []
    for place, group in enumerate(groups):
        tally, at = group[-1].audits, group[-1].ended
        if tally is None or not tally.actions or at is None:
            continue
        bounds = meter.bounds_at(tally)
        found.append(
            AuditPoint(
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


def _violations(audits: Sequence[AuditPoint]) -> list[Line]:
    low, high = [one.low for one in audits], [one.high for one in audits]
    return [
        Line("at most", [(one.place, one.high) for one in audits], "c6"),
        Line("among those judged", [(one.place, one.share) for one in audits], "c1", low, high),
        Line("at least", [(one.place, one.low) for one in audits], "c3"),
    ]


def _idle(points: Sequence[Point]) -> list[Line]:
    def share(point: Point, count: int) -> float | None:
        # A choice may ask more than once, or still wait for its answer: at most all of them.
        return _share(count, max(count, point.decisions + point.abstentions))

    return [
        Line("nothing played", [(p.place, share(p, p.abstentions)) for p in points], "c1"),
        Line("asked a teacher", [(p.place, share(p, p.questions)) for p in points], "c2"),
    ]


def _shares(history: History) -> list[Area]:
    names = [*history.names, *(["all others"] if history.others > 0 else [])]
    counts = [[point.plays[n] for point in history.points] for n in range(len(names))]
    whole = max(1, sum(map(sum, counts)))
    return [
        Area(f"{100.0 * sum(mine) / whole:.0f} % {name}", mine, f"c{n + 1}")
        for n, (name, mine) in enumerate(zip(names, counts, strict=True))
        if sum(mine)
    ]


def _ticks(points: Sequence[Point | AuditPoint]) -> list[tuple[float, str]]:
    """Return the times of the beginning, middle and end, as fine as their distance needs."""
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


# --- The pages: decisions as they are made, and curves ------------------------------------


# Rows of the list. It never grows, so that nothing on the page moves.
SLOTS = 20
# Entries that are read at once; when more came, the rest is only counted.
AT_ONCE = 50
# Entries at an end of the range that are counted one by one.
MOST_AT_EDGES = 2_000
TICK_SECONDS = 0.5
BEAT_SECONDS = 10.0
# Then the browser reconnects by itself.
STREAM_SECONDS = 60.0
RANGES = {"all": None, "hour": 3_600.0, "day": 86_400.0}


class Range(NamedTuple):
    """The time that the curves cover."""

    name: str  # all, hour, day or own
    first: float | None
    last: float | None
    query: dict[str, str]


class Updates(NamedTuple):
    """What came into a log: choices, rewards, and how many entries were passed over."""

    head: int
    made: list[Choice]
    rewards: dict[str, RewardOutcome]
    more: int


async def live(visit: Visit) -> Shown:
    """Show the last decisions and the curves."""
    try:
        span, wrong = _range_of(visit), None
    except InvalidValue as error:
        span, wrong = Range("own", None, None, {}), str(error)
    formatter = await ChoiceFormatter.of(visit.service, visit.agent)
    store, agent = visit.service.store, visit.agent

    def read() -> tuple[int, list[Choice], dict[str, RewardOutcome]]:
        head = log_head(store, agent).seq
        made = search_back(store, agent, ChoiceFilter(), head + 1, SLOTS).found
        return head, made, rewards_of(store, agent, made)

    head, made, rewards = await visit.service.aside(read)
    await formatter.load_arms(visit.service, made)
    rows = [_row(formatter, one, rewards) for one in made]
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
            **await _history(visit, span),
        },
        200 if wrong is None else 422,
    )


async def curves(visit: Visit) -> Shown:
    """Show the curves alone, for a page that has the rest already."""
    return Html(
        "live-curves.html",
        {
            "agent": visit.agent,
            **await _history(visit, _range_of(visit)),
        },
    )


async def stream(visit: Visit) -> Shown:
    """Stream decisions as they are made."""
    formatter = await ChoiceFormatter.of(visit.service, visit.agent)
    store, agent = visit.service.store, visit.agent
    head = (await visit.service.aside(lambda: log_head(store, agent))).seq
    after = min(_last_seen(visit, head), head)
    return Stream(_updates(visit, formatter, after), "text/event-stream")


async def _history(visit: Visit, span: Range) -> dict[str, Any]:
    service, store, agent = visit.service, visit.service.store, visit.agent
    edges: Edges = {}
    if span.first is not None or span.last is not None:
        cut = await service.do(agent, lambda work: edges_of(work.aggregate, span.first, span.last))
        if cut:
            edges = await service.aside(lambda: _edges(store, agent, span, cut))
    history: History = await service.do(
        agent, lambda work: history_of(work.aggregate, span.first, span.last, edges)
    )
    return {"course": history, "charts_shown": charts_of(history)}


def _edges(store: Store, agent: str, span: Range, cut: Sequence[Edge]) -> Edges:
    """Read the events of cut spans that lie in a range, where that is not too much."""
    head = log_head(store, agent).seq
    first = 1 if span.first is None else seq_at(store, agent, head, span.first) + 1
    # The end is included.
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


# -- updates ---------------------------------------------------------------------------------


async def _updates(visit: Visit, formatter: ChoiceFormatter, after: int) -> AsyncIterator[bytes]:
    service, store = visit.service, visit.service.store
    now = asyncio.get_running_loop().time
    end, beat = now() + STREAM_SECONDS, now()
    yield b"retry: 1000\n\n"
    while not service.leaving and now() < end and await visit.still():
        try:
            updates = await service.aside(partial(_read_updates, store, visit.agent, after))
            if updates is not None:
                await formatter.load_arms(service, updates.made)
                after, beat = updates.head, now()
                yield _event(formatter, updates)
        except Busy:
            updates = None  # requests that wait come first
        if now() - beat > BEAT_SECONDS:
            # A closed connection is noticed when something is sent.
            beat = now()
            yield b": still here\n\n"
        await asyncio.sleep(TICK_SECONDS)


def _read_updates(store: Store, agent: str, after: int) -> Updates | None:
    """Return what came after an entry; None if nothing did."""
    head = store.head(agent)
    if head is None or head.seq <= after:
        return None
    first = max(after, head.seq - AT_ONCE)
    entries = store.read(agent, first, head.seq - first)
    made = [one for entry in entries if (one := choice_of(entry)) is not None and not one.erased]
    rewards = {}
    for entry in entries:
        event = event_of(entry) if entry.kind in ("Rewarded", "Expired") else None
        if isinstance(event, Rewarded):
            rewards[text_of(event.decision)] = RewardOutcome("came", event.value, event.at)
        elif isinstance(event, Expired):
            how = "none" if event.value is None else "assumed"
            rewards[text_of(event.decision)] = RewardOutcome(how, event.value, event.at)
    return Updates(head.seq, made[-SLOTS:], rewards, first - after)


def _event(formatter: ChoiceFormatter, updates: Updates) -> bytes:
    """Return one server-sent event: plain values, which the page only ever shows as text."""
    said = {
        "rows": [_row(formatter, one, updates.rewards) for one in updates.made],
        "rewards": {id: reward_phrase(reward) for id, reward in updates.rewards.items()},
        "more": updates.more,
    }
    return f"id: {updates.head}\ndata: {json.dumps(said)}\n\n".encode()


def _row(
    formatter: ChoiceFormatter, made: Choice, rewards: Mapping[str, RewardOutcome]
) -> dict[str, Any]:
    reward = reward_of(made, rewards)
    return {**formatter.as_row(made), "reward": "" if reward is None else reward_phrase(reward)}


def _last_seen(visit: Visit, head: int) -> int:
    """Return the entry to begin after: the last that the browser got, or that the page has."""
    seen = visit.headers.get("last-event-id", "")
    if seen.isascii() and seen.isdigit() and len(seen) < 17:
        return int(seen)
    return visit.query.whole("after", head, low=0, high=2**53)


# -- the range -------------------------------------------------------------------------------


def _asked(visit: Visit) -> dict[str, str]:
    return {name: visit.query.get(name)[:100] for name in ("range", "from", "to")}


def _range_of(visit: Visit) -> Range:
    asked = _asked(visit)
    first, last = parse_time(asked["from"], "from"), parse_time(asked["to"], "to")
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

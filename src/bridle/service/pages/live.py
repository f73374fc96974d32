"""Watching an agent: what it decides as it does, and curves of what came of it."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from bridle.errors import Busy, InvalidValue
from bridle.events import Event, Expired, Rewarded
from bridle.service.pages.curves import Course, Edge, Edges, charts_of, course_of, edges_of
from bridle.service.pages.logsearch import (
    Earned,
    Made,
    Wanted,
    earned,
    earned_by,
    look_back,
    made_of,
    seq_at,
    time_of,
)
from bridle.service.pages.logwords import Naming, earned_words
from bridle.service.pages.page import Html, Page, Shown, Stream, Visit
from bridle.service.pages.rendering import url
from bridle.store.keeping import log_head
from bridle.store.kept import event_of
from bridle.store.naming import text_of
from bridle.store.records import Store

__all__ = ["PAGES"]

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
    return Html("live.html", {
        "agent": agent, "rows": [*rows, *[None] * (SLOTS - len(rows))], "head": head,
        "wrong": wrong, "range": span, "given": _asked(visit), "ranges": RANGES,
        "stream": url("agents", agent, "live", "stream"),
        "curves": url("agents", agent, "live", "curves", **span.query),
        **await _course(visit, span),
    }, 200 if wrong is None else 422)  # fmt: skip


async def curves(visit: Visit) -> Shown:
    """Give the curves alone, for a page that has them already."""
    return Html("live-curves.html", {
        "agent": visit.agent, **await _course(visit, _range_of(visit)),
    })  # fmt: skip


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
        cut = await service.do(agent, lambda desk: edges_of(desk.kept, span.first, span.last))
        if cut:
            edges = await service.aside(lambda: _edges(store, agent, span, cut))
    course: Course = await service.do(
        agent, lambda desk: course_of(desk.kept, span.first, span.last, edges)
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

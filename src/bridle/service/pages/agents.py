"""The list of agents, with what each is doing now."""

from __future__ import annotations

from typing import Any, NamedTuple

from bridle.service import agents as api
from bridle.service.agents import AgentLine
from bridle.service.forms import Page as ListPage
from bridle.service.pages.overview import Doing, overview_of
from bridle.service.pages.page import Html, Page, Shown, Visit
from bridle.service.pages.rendering import time_words

__all__ = ["PAGES", "ago"]

A_PAGE = 20
NOW = 60.0  # who did something within so many seconds is at it
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0


class Line(NamedTuple):
    """An agent in the list."""

    name: str
    events: int
    created: float
    origin: str | None
    doing: Doing | None
    state: str  # "deciding", "quiet", "new" or "cold"
    seen: str


async def listing(visit: Visit) -> Shown:
    """List the agents of who has signed in."""
    after = visit.query.whole("after", 0, low=0, high=10**9)
    found = await visit.api(api.listing, query=ListPage(after=after, limit=A_PAGE + 1))
    some: list[AgentLine] = found.agents[:A_PAGE]
    service = visit.service
    doing = await overview_of(service).look(service, [(one.name, one.version) for one in some])
    now = service.clock()
    values: dict[str, Any] = {
        "agents": [_line(one, doing[one.name], now) for one in some],
        "after": after,
        "before": max(0, after - A_PAGE) if after else None,
        "next": after + A_PAGE if len(found.agents) > A_PAGE else None,
        "visiting": service.visiting is not None,
    }
    return Html("agents.html", values)


def _line(one: AgentLine, doing: Doing | None, now: float) -> Line:
    if doing is None:
        state = "cold"
    elif not doing.decisions:
        state = "new"
    else:
        state = "quiet" if doing.seen is None or now - doing.seen > NOW else "deciding"
    seen = "never" if doing is None or doing.seen is None else ago(now - doing.seen, doing.seen)
    return Line(one.name, one.version, one.created, one.origin, doing, state, seen)


def ago(seconds: float, at: float) -> str:
    """Say how long ago something was.

    Examples
    --------
    >>> ago(2.0, 0.0), ago(50.0, 0.0), ago(150.0, 0.0), ago(7200.0, 0.0)
    ('just now', '50 s ago', '2 min ago', '2 h ago')
    >>> ago(200_000.0, 86_400.0)
    '1970-01-02 00:00:00'
    """
    if seconds < 5.0:
        return "just now"
    if seconds < MINUTE:
        return f"{seconds:.0f} s ago"
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min ago"
    return f"{seconds // HOUR:.0f} h ago" if seconds < DAY else time_words(at)


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents", handle=listing, like=("GET /v1/agents",)),
)

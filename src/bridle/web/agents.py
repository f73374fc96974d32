"""What agents are doing now, in few numbers, without making anyone wait.

Agents in memory are asked; that is quick. Of the others a copy is loaded beside the writer, as long
as a visitor's patience lasts; what is not there by then is there at the next look.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from bridle.api.replies import AgentLine
from bridle.api.requests import Page as ListPage
from bridle.errors import BridleError, StoreFailed
from bridle.server.handlers import agents as api
from bridle.server.service import Service
from bridle.store.aggregate import Aggregate, load
from bridle.store.log import Store
from bridle.store.projections import Span
from bridle.web.page import Html, Page, Shown, Visit
from bridle.web.rendering import time_words

__all__ = ["PAGES", "Doing", "Overview", "ago", "doing_of", "overview_of"]


log = logging.getLogger("bridle.server")

MOST_KEPT = 1_000
# So many seconds a visitor waits for agents that are not in memory, and for those that are.
PATIENCE, LONG_PATIENCE = 1.0, 5.0
POINTS = 24  # of the small curve


class Doing(NamedTuple):
    """What an agent is doing.

    Attributes
    ----------
    version : int
        How many events it is of.
    decisions, taught, questions : int
        Made; examples that stand; questions that wait.
    reward : float or None
        The mean, in the agent's own range; None before the first.
    course : tuple of floats or None
        The mean reward in parts of equally many events, the latest at the end.
    unsure : float or None
        Share of choices it is not sure of, in contexts met of late; None before the first.
    seen : float or None
        When it last did anything.
    promise : {"playing", "cautious", "frozen"} or None
        Where the promise stands; None if none binds.
    teachers : int
        How many are declared.
    """

    version: int
    decisions: int
    taught: int
    questions: int
    reward: float | None
    course: tuple[float | None, ...]
    unsure: float | None
    seen: float | None
    promise: str | None = None
    teachers: int = 0


def doing_of(kept: Aggregate) -> Doing:
    """Say what an agent is doing."""
    know, spans = kept.state, kept.timeline.spans
    rewards = sum(span.rewards for span in spans)
    return Doing(
        version=kept.version,
        decisions=know.decisions,
        taught=len(know.examples),
        questions=len(know.questions.open),
        reward=sum(span.reward for span in spans) / rewards if rewards else None,
        course=_course(spans),
        unsure=kept.recent.unsure(),
        seen=next((span.ended for span in reversed(spans) if span.ended is not None), None),
        promise=None if know.purse is None else know.purse.state,
        teachers=len(know.teachers.teachers),
    )


def _course(spans: Sequence[Span]) -> tuple[float | None, ...]:
    """Give the mean reward of up to 24 parts of a log."""
    first = next((n for n, span in enumerate(spans) if span.rewards), len(spans))
    rest = spans[first:]
    size = max(1, -(-len(rest) // POINTS))
    course: list[float | None] = []
    for start in range(0, len(rest), size):
        part = rest[start : start + size]
        if course and 2 * len(part) < size:
            break  # too short for a mean that says something
        rewards = sum(span.rewards for span in part)
        course.append(sum(span.reward for span in part) / rewards if rewards else None)
    return tuple(course)


class Overview:
    """What is known of agents that are not in memory. One of them is loaded at a time."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Doing] = OrderedDict()
        self._loading = False

    async def look(
        self, service: Service, agents: Sequence[tuple[str, int]], patience: float = PATIENCE
    ) -> dict[str, Doing | None]:
        """Say what agents are doing, each given with how many events its log has.

        None stands for those of which nothing is known in time.
        """
        held = [name for name, _ in agents if service.head_of(name) is not None]
        asked = await asyncio.gather(*(_asked(service, name) for name in held))
        found: dict[str, Doing | None] = dict(zip(held, asked, strict=True))
        cold = [(name, version) for name, version in agents if name not in found]
        late = [name for name, version in cold if not self._knows(name, version)]
        if late and not self._loading:
            self._loading = True
            until = time.monotonic() + patience
            try:
                async with asyncio.timeout(patience):
                    await service.aside(lambda: self._load(service.store, late, until))
            except TimeoutError:
                pass  # the thread goes on with the one that it is at
            except BridleError:  # too much waits already
                self._loading = False
        return found | {name: self._known.get(name) for name, _ in cold}

    def _knows(self, name: str, version: int) -> bool:
        known = self._known.get(name)
        return known is not None and known.version >= version

    def _load(self, store: Store, names: Iterable[str], until: float) -> None:
        """Load agents, one by one, as long as there is time."""
        try:
            for name in names:
                if time.monotonic() >= until:
                    return
                try:
                    self._known[name] = doing_of(load(store, name))
                except BridleError as error:  # its own pages will say so
                    log.warning("what agent %s is doing is not known: %s", name, error)
                    continue
                self._known.move_to_end(name)
                if len(self._known) > MOST_KEPT:
                    self._known.popitem(last=False)
        finally:
            self._loading = False


async def _asked(service: Service, name: str) -> Doing | None:
    try:
        return await service.do(name, lambda work: doing_of(work.aggregate), timeout=LONG_PATIENCE)
    except StoreFailed:
        return None


_OVERVIEWS: WeakKeyDictionary[Service, Overview] = WeakKeyDictionary()


def overview_of(service: Service) -> Overview:
    """Give the overview of a service; there is one."""
    return _OVERVIEWS.setdefault(service, Overview())


# --- The list of agents, with what each is doing now --------------------------------------


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

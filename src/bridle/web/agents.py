"""The list of agents, what each is doing now, and the line at the head of an agent's pages.

Agents in memory are read at once. Of the others a copy is loaded beside the writer, within a time
limit; what is not loaded by then is shown at the next visit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from bridle.agent.purse import Purse
from bridle.agent.queries import FreshStart, fresh_start_of
from bridle.agent.state import AgentState
from bridle.api.replies import AgentLine
from bridle.api.requests import Page as ListPage
from bridle.errors import BridleError, StoreFailed
from bridle.server.handlers import agents as api
from bridle.server.problems import Problem
from bridle.server.service import Service
from bridle.store.aggregate import Aggregate, load
from bridle.store.log import Store
from bridle.store.projections import Span
from bridle.web.page import Html, Page, Shown, Visit
from bridle.web.rendering import percent, time_words

__all__ = [
    "PAGES",
    "Activity",
    "ActivityCache",
    "AgentStatus",
    "activity_cache",
    "activity_of",
    "ago",
    "one_in",
    "plays",
    "read_status",
    "status_of",
]

log = logging.getLogger("bridle.server")

MOST_CACHED = 1_000
# Seconds that a page waits for agents that are not in memory, and for those that are.
PATIENCE, LONG_PATIENCE = 1.0, 5.0
POINTS = 24  # of the sparkline


class Activity(NamedTuple):
    """What an agent is doing, in few numbers.

    Attributes
    ----------
    version : int
        Number of events that it reflects.
    decisions, taught, questions : int
        Decisions made, examples in force, open questions.
    reward : float or None
        The mean, in the agent's own range; None before the first.
    reward_trend : tuple of floats or None
        The mean reward in parts of equally many events, the latest at the end.
    unsure : float or None
        Share of choices in doubt, in recent contexts; None before the first.
    seen : float or None
        When it was last active.
    promise : {"playing", "cautious", "frozen"} or None
        State of the promise; None without one.
    teachers : int
        How many are declared.
    """

    version: int
    decisions: int
    taught: int
    questions: int
    reward: float | None
    reward_trend: tuple[float | None, ...]
    unsure: float | None
    seen: float | None
    promise: str | None = None
    teachers: int = 0


def activity_of(aggregate: Aggregate) -> Activity:
    """Return what an agent is doing."""
    state, spans = aggregate.state, aggregate.timeline.spans
    rewards = sum(span.rewards for span in spans)
    return Activity(
        version=aggregate.version,
        decisions=state.decisions,
        taught=len(state.examples),
        questions=len(state.questions.open),
        reward=sum(span.reward for span in spans) / rewards if rewards else None,
        reward_trend=_reward_trend(spans),
        unsure=aggregate.recent.unsure(),
        seen=next((span.ended for span in reversed(spans) if span.ended is not None), None),
        promise=None if state.purse is None else state.purse.state,
        teachers=len(state.teachers.teachers),
    )


def _reward_trend(spans: Sequence[Span]) -> tuple[float | None, ...]:
    """Return the mean reward of up to 24 parts of a log."""
    first = next((n for n, span in enumerate(spans) if span.rewards), len(spans))
    rest = spans[first:]
    size = max(1, -(-len(rest) // POINTS))
    reward_trend: list[float | None] = []
    for start in range(0, len(rest), size):
        part = rest[start : start + size]
        if reward_trend and 2 * len(part) < size:
            break  # too short for a mean that says something
        rewards = sum(span.rewards for span in part)
        reward_trend.append(sum(span.reward for span in part) / rewards if rewards else None)
    return tuple(reward_trend)


class ActivityCache:
    """A cache of what agents do that are not in memory. It loads one agent at a time."""

    def __init__(self) -> None:
        self._cached: OrderedDict[str, Activity] = OrderedDict()
        self._loading = False

    async def read(
        self, service: Service, agents: Sequence[tuple[str, int]], patience: float = PATIENCE
    ) -> dict[str, Activity | None]:
        """Return what agents are doing, each named with the number of events in its log.

        None for those that could not be read in time.
        """
        held = [name for name, _ in agents if service.head_of(name) is not None]
        asked = await asyncio.gather(*(_ask_agent(service, name) for name in held))
        found: dict[str, Activity | None] = dict(zip(held, asked, strict=True))
        cold = [(name, version) for name, version in agents if name not in found]
        late = [name for name, version in cold if not self._is_current(name, version)]
        if late and not self._loading:
            self._loading = True
            until = time.monotonic() + patience
            try:
                async with asyncio.timeout(patience):
                    await service.aside(lambda: self._load(service.store, late, until))
            except TimeoutError:
                pass  # the thread finishes the agent that it is loading
            except BridleError:  # the queue is full
                self._loading = False
        return found | {name: self._cached.get(name) for name, _ in cold}

    def _is_current(self, name: str, version: int) -> bool:
        known = self._cached.get(name)
        return known is not None and known.version >= version

    def _load(self, store: Store, names: Iterable[str], until: float) -> None:
        """Load agents one by one until time is up."""
        try:
            for name in names:
                if time.monotonic() >= until:
                    return
                try:
                    self._cached[name] = activity_of(load(store, name))
                except BridleError as error:  # its own pages report it
                    log.warning("what agent %s is doing is not known: %s", name, error)
                    continue
                self._cached.move_to_end(name)
                if len(self._cached) > MOST_CACHED:
                    self._cached.popitem(last=False)
        finally:
            self._loading = False


async def _ask_agent(service: Service, name: str) -> Activity | None:
    try:
        return await service.do(
            name, lambda work: activity_of(work.aggregate), timeout=LONG_PATIENCE
        )
    except StoreFailed:
        return None


_OVERVIEWS: WeakKeyDictionary[Service, ActivityCache] = WeakKeyDictionary()


def activity_cache(service: Service) -> ActivityCache:
    """Return the one cache of a service."""
    return _OVERVIEWS.setdefault(service, ActivityCache())


# --- The list of agents, with what each is doing now --------------------------------------


A_PAGE = 20
NOW = 60.0  # an agent that did something within so many seconds is deciding
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0


class AgentRow(NamedTuple):
    """An agent in the list."""

    name: str
    events: int
    created: float
    origin: str | None
    activity: Activity | None
    state: str  # "deciding", "quiet", "new" or "cold"
    seen: str


async def listing(visit: Visit) -> Shown:
    """Show the list of agents that the caller may see."""
    after = visit.query.whole("after", 0, low=0, high=10**9)
    found = await visit.api(api.listing, query=ListPage(after=after, limit=A_PAGE + 1))
    some: list[AgentLine] = found.agents[:A_PAGE]
    service = visit.service
    activity = await activity_cache(service).read(
        service, [(one.name, one.version) for one in some]
    )
    now = service.clock()
    values: dict[str, Any] = {
        "agents": [_line(one, activity[one.name], now) for one in some],
        "after": after,
        "before": max(0, after - A_PAGE) if after else None,
        "next": after + A_PAGE if len(found.agents) > A_PAGE else None,
        "visiting": service.visiting is not None,
    }
    return Html("agents.html", values)


def _line(one: AgentLine, activity: Activity | None, now: float) -> AgentRow:
    if activity is None:
        state = "cold"
    elif not activity.decisions:
        state = "new"
    else:
        state = "quiet" if activity.seen is None or now - activity.seen > NOW else "deciding"
    seen = (
        "never"
        if activity is None or activity.seen is None
        else ago(now - activity.seen, activity.seen)
    )
    return AgentRow(one.name, one.version, one.created, one.origin, activity, state, seen)


def ago(seconds: float, at: float) -> str:
    """Return how long ago something was, in words.

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


# --- The status of an agent: promise and spot checks in a line, for the head of its pages ---


HEAD_PATIENCE = 5.0  # seconds that a page waits for its head
ALWAYS = 0.995  # what is likelier is called "every"
OFTEN = 0.4  # what is likelier is counted out of 100


class AgentStatus(NamedTuple):
    """The status of an agent: promise, spot checks and what waits.

    Attributes
    ----------
    state : str
        That of the promise, "playing", "cautious" or "frozen". Without one, "checked", "used up" if
        no spot check is left, "off", or "unlimited" where the policy plays without limits.
    tone : {"yes", "warn", "no", "plain"}
        Good, warning, bad, or neutral.
    text : str
        In a sentence or two.
    judged, found : int
        Plays that were judged, and how many of them were not allowed.
    waiting : int
        Plays that wait to be judged.
    fresh : FreshStart or None
        The reasons to start again, if there are any.
    teachers : int
        How many are declared.
    """

    state: str
    tone: str
    text: str
    judged: int
    found: int
    waiting: int
    fresh: FreshStart | None
    teachers: int = 0


async def read_status(service: Service, agent: str) -> AgentStatus | None:
    """Return the status of an agent; None if it cannot be read now: the page is shown all the same.

    While an agent exists only its store can fail, and then its pages report it.
    """
    try:
        return await service.do(
            agent, lambda work: status_of(work.aggregate), timeout=HEAD_PATIENCE
        )
    except (BridleError, Problem) as error:
        log.warning("where agent %s stands is not known: %s", agent, error)
        return None


def status_of(aggregate: Aggregate) -> AgentStatus:
    """Return the status of an agent."""
    state = aggregate.state
    purse, checks = state.purse, state.checks
    if purse is None:
        name, tone, text = _check_status(state)
        judged, found = checks.judged, checks.found
    else:
        name, (tone, text) = purse.state, _promise_status(purse)
        judged, found = purse.audits - len(purse.waiting), purse.found
    return AgentStatus(
        state=name,
        tone=tone,
        text=text,
        judged=judged,
        found=found,
        waiting=len(checks.open),
        fresh=fresh_start_of(state),
        teachers=len(state.teachers.teachers),
    )


def one_in(coin: float) -> str:
    """Return the frequency of a coin in words.

    Examples
    --------
    >>> one_in(0.025), one_in(1 / 3), one_in(0.6), one_in(1.0)
    ('1 in 40', '1 in 3', '60 in 100', 'every')
    """
    if coin >= ALWAYS:
        return "every"
    return f"1 in {1.0 / coin:,.0f}" if coin <= OFTEN else f"{100.0 * coin:.0f} in 100"


def plays(coin: float) -> str:
    """Return which plays a coin chooses, in words.

    Examples
    --------
    >>> plays(0.025), plays(1.0)
    ('1 play in 40', 'every play')
    """
    if coin >= ALWAYS:
        return "every play"
    return one_in(coin).replace(" in ", " play in " if coin <= OFTEN else " plays in ")


def _promise_status(purse: Purse) -> tuple[str, str]:
    judged = purse.audits - len(purse.waiting)
    found = f"checks found {purse.found:,} of {judged:,} not allowed"
    if purse.state == "frozen":
        return "no", _frozen(purse)
    if purse.state == "cautious":
        return "warn", f"Careful: checking {plays(purse.coin())} · {found}"
    level = percent(purse.alpha)
    return "yes", f"Promise: at most {level} not allowed in the long run · {found}"


def _frozen(purse: Purse) -> str:
    if purse.found:
        many = "1 play that was" if purse.found == 1 else f"{purse.found:,} plays that were"
        why = f"checks found {many} not allowed."
    else:
        why = "too many checks wait to be judged."
    left = purse.thaws_in
    until = f"{left:,} more {'decision' if left == 1 else 'decisions'}"
    sooner = ", fewer if checks are judged" if purse.waiting else ""
    return (
        f"Frozen: {why} For at most {until}{sooner}, it plays only what a person allows at that "
        "moment."
    )


def _check_status(state: AgentState) -> tuple[str, str, str]:
    """Return state, tone and text where no promise binds."""
    checks = state.checks
    if not state.policy.needs_limits:
        text = "No spot checks: with its way of choosing this agent may play what is not allowed."
        return "unlimited", "warn", text
    if state.limits_state.rates is None:
        return "off", "warn", "Spot checks are off: exceptions will not be noticed."
    said = f"Spot checks: {checks.judged:,} judged, "
    said += "1 was not allowed" if checks.found == 1 else f"{checks.found:,} were not allowed"
    if not checks.may(state.decisions + 1) and isinstance(state.settings.checks, int):
        return "used up", "warn", f"{said}. All are used up: exceptions will no longer be noticed."
    return "checked", "warn" if checks.found else "plain", said


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents", handle=listing, like=("GET /v1/agents",)),
)

"""The dial, and what each of its positions is expected to give, evaluated over the whole log.

That takes milliseconds a decision, so a job does it in a thread. It finds what the page needs for
any budget in one go, so that another budget costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

from bridle.agent.events import (
    Abstained,
    Certified,
    Created,
    Decided,
    Event,
    SigmaChanged,
    Uncertified,
)
from bridle.api.requests import Change
from bridle.audit.log import Auditing
from bridle.errors import BridleError, InvalidValue, NotPossible
from bridle.evaluation.evaluate import MOST_MISSING, MOST_UNSUPPORTED, Evaluation, evaluate
from bridle.evaluation.recommend import Recommendation, recommend
from bridle.evaluation.table import RestsOnErased
from bridle.server.handlers.agents import change
from bridle.server.problems import Problem
from bridle.store.aggregate import events_in
from bridle.store.log import Store
from bridle.store.writer import UnitOfWork
from bridle.web.charts import Line, curve
from bridle.web.forms import Fields
from bridle.web.jobs import Progress, jobs_of
from bridle.web.page import Html, Page, Redirect, Shown, Visit, said_of
from bridle.web.rendering import url

__all__ = [
    "PAGES",
    "Advice",
    "DialChange",
    "DialEvaluation",
    "evaluate_dial",
    "positions_for",
    "refusal_words",
]


MOST_TURNS = 20
EVERY = 200  # events between two reports of progress
# With more decisions than that, fewer positions are evaluated: each takes as long as the next.
STEPS = ((5_000, 0.05), (50_000, 0.1))
COARSE = 0.25


class DialChange(NamedTuple):
    """A change of the dial."""

    sigma: float
    by: str | None
    note: str | None
    at: float | None


class Advice(NamedTuple):
    """The recommended position for a budget; None if no position is within it.

    `basis` is "certificate", "audits" or "belief", and `rate` the violation rate at that position.
    """

    sigma: float | None
    basis: str
    rate: float


@dataclass(frozen=True)
class DialEvaluation:
    """What each position of the dial is expected to give.

    Attributes
    ----------
    version : int
        Number of events in the log at the time.
    decisions : int
        Number of decisions in it.
    positions : tuple of Evaluation
        By sigma; empty if rewards cannot be estimated from the log.
    why_not : str
        The reason, then.
    audits : str
        "none", "part" if they do not count all of the log's decisions, or "used".
    turns : tuple of DialChange
        The last changes of the dial, the latest first.
    """

    version: int
    decisions: int
    positions: tuple[Evaluation, ...]
    why_not: str
    audits: str
    turns: tuple[DialChange, ...]
    rates: tuple[tuple[float, float], ...]
    basis: str
    alpha: float | None
    no_advice: str

    def advice(self, budget: float) -> Advice | None:
        """Return the largest position within a budget; None where none can be given."""
        if self.alpha is not None and self.alpha <= budget:
            return Advice(max(sigma for sigma, _ in self.rates), "certificate", self.alpha)
        if not self.rates:
            return None
        within = list(takewhile(lambda pair: pair[1] <= budget, self.rates))
        if within:
            return Advice(within[-1][0], self.basis, within[-1][1])
        return Advice(None, self.basis, min(rate for _, rate in self.rates))


def positions_for(decisions: int, sigma: float) -> list[float]:
    """Return the positions to evaluate: a grid, and the present one.

    Examples
    --------
    >>> positions_for(10**6, 0.3)
    [0.0, 0.25, 0.3, 0.5, 0.75, 1.0]
    """
    step = next((step for most, step in STEPS if decisions <= most), COARSE)
    n = round(1 / step)
    grid = [round(i * step, 2) for i in range(n + 1)]
    if all(abs(sigma - one) > 1e-9 for one in grid):
        grid.append(sigma)
    return sorted(grid)


def evaluate_dial(store: Store, agent: str, sigma: float, progress: Progress) -> DialEvaluation:
    """Evaluate the positions over a whole log; `sigma` is the present position."""
    head = store.head(agent)
    until = 0 if head is None else head.seq
    log = _LogReader(store, agent, until, progress)
    first = _summarize(log)
    sigmas = positions_for(first.decisions, sigma)
    audits = first.audits if first.audits is not None and not first.audits.before else None
    extra = (audits is not None) + first.certified
    log.passes = 2 + extra
    try:
        positions, why_not = _positions(log, sigmas, audits)
    except InvalidValue as error:
        if error.name != "audits":
            raise
        audits = None  # they do not count all decisions of this log, some of which may be erased
        positions, why_not = _positions(log, sigmas, audits)
    rates, basis, alpha, no_advice = _rates(log, first, sigmas, audits, positions)
    return DialEvaluation(
        version=until,
        decisions=first.decisions,
        positions=tuple(positions),
        why_not=why_not,
        audits="none" if first.audits is None else "part" if audits is None else "used",
        turns=tuple(reversed(first.turns)),
        rates=rates,
        basis=basis,
        alpha=alpha,
        no_advice=no_advice,
    )


def refusal_words(one: Evaluation) -> str:
    """Return in plain words why the log cannot tell what a position would have earned."""
    if one.missing > MOST_MISSING * one.decisions:
        return f"The reward is missing for {one.missing:,} of {one.decisions:,} choices."
    lack = 1.0 - one.support.choices
    if lack > MOST_UNSUPPORTED:
        return f"{lack:.0%} of what it would do was hardly ever tried."
    return f"Only about {one.support.size:.0f} choices in the log were like those it would make."


# -- the parts -------------------------------------------------------------------------------


class _LogReader:
    """A log that is read several times, with its progress over all of them."""

    def __init__(self, store: Store, agent: str, until: int, progress: Progress) -> None:
        self._read: Callable[[], Iterator[Event]] = lambda: events_in(store, agent, until)
        self._until, self._progress = until, progress
        self._begun = 0
        self.passes = 3

    def __call__(self) -> Iterator[Event]:
        """Iterate over the events from the start."""
        before = self._begun * self._until
        self._begun = min(self._begun + 1, self.passes - 1)
        total = self.passes * self._until
        for n, event in enumerate(self._read()):
            if n % EVERY == 0:
                self._progress(before + n, total)
            yield event


class _LogSummary(NamedTuple):
    """What the first pass over the log shows."""

    decisions: int
    asks: bool
    audits: Auditing | None
    certified: bool
    turns: deque[DialChange]


def _summarize(log: _LogReader) -> _LogSummary:
    auditing = Auditing()
    turns: deque[DialChange] = deque(maxlen=MOST_TURNS)
    decisions, asks, certified = 0, False, False
    for event in log():
        auditing.fold(event)
        if isinstance(event, Decided | Abstained):
            decisions += 1
        elif isinstance(event, SigmaChanged):
            turns.append(DialChange(event.sigma, event.by, event.note, event.at))
        elif isinstance(event, Certified | Uncertified):
            certified = isinstance(event, Certified)
        elif isinstance(event, Created):
            asks = event.settings.budget > 0
    audits = None if auditing.meter is None else auditing
    return _LogSummary(decisions, asks, audits, certified, turns)


def _positions(
    log: _LogReader, sigmas: Sequence[float], audits: Auditing | None
) -> tuple[list[Evaluation], str]:
    try:
        return evaluate(log(), sigma=list(sigmas), audits=audits), ""
    except RestsOnErased as error:
        return [], str(error)
    except NotPossible:
        return [], (
            "The log does not say how likely each choice was, so it cannot tell what another "
            "position would have earned. Programs that ask for decisions must ask for the "
            "propensity, too."
        )


def _rates(
    log: _LogReader,
    first: _LogSummary,
    sigmas: Sequence[float],
    audits: Auditing | None,
    positions: Sequence[Evaluation],
) -> tuple[tuple[tuple[float, float], ...], str, float | None, str]:
    """Return the violation rate of each position, its basis, and the α of a certificate.

    `recommend` reads the log once more, which is not needed where the belief of the model is the
    only basis.
    """
    if not first.decisions:
        return (), "", None, "There is no decision yet to judge by."
    if first.asks:
        return (
            (),
            "",
            None,
            (
                "This agent asks a teacher when in doubt. What it would have asked, been told and "
                "played at another position is not in its log."
            ),
        )
    if audits is None and not first.certified and positions and not positions[0].left_out:
        return (
            tuple(zip(sigmas, (one.believed for one in positions), strict=True)),
            "belief",
            None,
            "",
        )
    try:
        # With a budget of 0 no certificate applies, with one of 1 any in force does.
        least: Recommendation = recommend(log(), 0.0, list(sigmas), audits=audits)
        most = recommend(log(), 1.0, list(sigmas), audits=audits) if first.certified else least
    except BridleError as error:
        return (), "", None, str(error)
    alpha = most.rates[0][1] if most.basis == "certificate" else None
    return least.rates, least.basis, alpha, ""


# --- The page: sigma as a slider, with what each position is expected to give -----------


EVALUATED = "POST /v1/agents/{agent}/evaluate"
CHANGED = "PATCH /v1/agents/{agent}"
BUDGET = 0.01
TICKS = tuple((n / 4, f"{n / 4:g}") for n in range(5))

# How agents choose that have no dial.
WITHOUT = {
    "Thompson": "It goes by reward alone, and tries what it knows little of now and then.",
    "LinUCB": "It goes by reward alone, and prefers what it knows little of.",
    "Greedy": "It always plays what has earned most so far.",
    "EpsilonGreedy": "It plays what has earned most so far, and now and then anything.",
    "SquareCB": "It tries what falls behind the less often, the further it does.",
    "Softmax": "It plays what has earned more the more often.",
    "PlackettLuce": "It plays what has earned more the more often.",
    "Masked": "It plays only what is surely allowed, and of that by reward alone.",
    "Uniform": "It plays anything, each as often as any other.",
    "KnownMask": "It is told what is allowed, and goes by reward among that.",
}


class _Agent(NamedTuple):
    """What the page needs of the agent."""

    policy: str
    sigma: float | None
    version: int
    decisions: int
    rewards: tuple[float, float]


class Position(NamedTuple):
    """One position of the dial, for the template."""

    sigma: float
    reward: float | None
    low: float | None
    high: float | None
    believed: float
    abstains: float
    why_not: str
    now: bool


async def dial(visit: Visit) -> Shown:
    """Show the dial, and what its positions are expected to give."""
    return await _dial(visit)


async def _dial(visit: Visit, wrong: str = "", typed: Fields | None = None) -> Html:
    agent = await visit.service.do(visit.agent, _read_agent)
    values: dict[str, Any] = {"agent": visit.agent, "policy": agent.policy, "sigma": agent.sigma}
    if agent.sigma is None:
        instead = WITHOUT.get(agent.policy, "It has a way of its own to choose.")
        return Html("dial-none.html", values | {"instead": instead})
    wanted = agent.sigma if typed is None else _position(typed, agent.sigma)
    job = jobs_of(visit.service).find(_key(visit.agent))
    budget = visit.query.number("budget", BUDGET, low=0.0, high=1.0)
    values |= {
        "version": agent.version,
        "decisions": agent.decisions,
        "rewards": agent.rewards,
        "wanted": wanted,
        "note": "" if typed is None else typed.get("note"),
        "wrong": wrong,
        "budget": budget,
        "job": job,
        "found": None,
    }
    if job is not None and job.state == "done":
        values |= _shown(job.result, agent, wanted, budget)
    return Html("dial.html", values, 422 if wrong else 200)


def _read_agent(work: UnitOfWork) -> _Agent:
    state = work.aggregate.state
    return _Agent(
        type(state.policy).__name__,
        work.aggregate.agent.sigma,
        work.aggregate.version,
        state.decisions,
        state.settings.reward_range,
    )


def _key(agent: str) -> str:
    return f"evaluate {agent}"


def _position(typed: Fields, otherwise: float) -> float:
    """Return the position that was typed, or the present one if that is none."""
    try:
        return typed.number("sigma", low=0.0, high=1.0)
    except ValueError:
        return otherwise


def _shown(found: DialEvaluation, agent: _Agent, wanted: float, budget: float) -> dict[str, Any]:
    assert agent.sigma is not None
    rows = [_row(one, agent.sigma) for one in found.positions]
    return {
        "found": found,
        "positions": rows,
        "at": min(rows, key=lambda row: abs(row.sigma - wanted)) if rows else None,
        "logged": found.positions[0] if found.positions else None,
        "newer": agent.version - found.version,
        "advice": found.advice(budget),
        "reward_chart": _reward_chart(rows) if any(r.reward is not None for r in rows) else None,
        "belief_chart": _belief_chart(rows) if rows else None,
    }


def _row(one: Evaluation, sigma: float) -> Position:
    earned, position = one.dr, one.sigma or 0.0
    return Position(
        sigma=position,
        reward=None if earned is None else earned.value,
        low=None if earned is None else earned.low,
        high=None if earned is None else earned.high,
        believed=one.believed,
        abstains=one.abstains,
        why_not="" if one.refused is None else refusal_words(one),
        now=abs(position - sigma) < 1e-9,
    )


def _reward_chart(rows: list[Position]) -> Any:
    line = Line(
        "reward a choice, with 95 % intervals",
        [(row.sigma, row.reward) for row in rows],
        low=[row.low for row in rows],
        high=[row.high for row in rows],
    )
    last = max(row.sigma for row in rows if row.reward is not None)
    ticks = [tick for tick in TICKS if tick[0] <= last]
    return curve("Expected reward by position of the dial", [line], x_ticks=ticks)


def _belief_chart(rows: list[Position]) -> Any:
    line = Line(
        "choices that are not allowed, by the model’s belief",
        [(row.sigma, row.believed) for row in rows],
        style="c6",
    )
    return curve(
        "Believed share of choices that are not allowed, by position of the dial",
        [line],
        y_low=0.0,
        x_ticks=TICKS,
    )


async def start_evaluation(visit: Visit) -> Shown:
    """Begin to evaluate the positions; if that is under way, only show it."""
    agent = await visit.service.do(visit.agent, _read_agent)
    sigma = agent.sigma
    if sigma is None:
        raise NotPossible("This agent has no dial.")
    store, name = visit.service.store, visit.agent

    def do(progress: Progress) -> DialEvaluation:
        return evaluate_dial(store, name, sigma, progress)

    jobs_of(visit.service).start(_key(name), "Reading the whole log", do)
    budget = visit.form.get("budget")[:20]
    return Redirect(url("agents", name, "dial", budget=budget, said="begun"))


async def turn(visit: Visit) -> Shown:
    """Turn the dial; who did it and why goes into the log."""
    form = visit.form
    try:
        sigma = form.number("sigma", low=0.0, high=1.0)
    except ValueError:
        return await _dial(visit, "The dial has positions from 0 to 1.", form)
    now = (await visit.service.do(visit.agent, _read_agent)).sigma
    if now is not None and abs(sigma - now) < 1e-9:
        message = f"The dial stands at {sigma:g} already. Nothing was changed or written down."
        return await _dial(visit, message, form)
    try:
        said = said_of(visit)
    except Problem as problem:
        return await _dial(visit, problem.message, form)
    if said["note"] is None:
        return await _dial(visit, "Say why: it stands in the log, beside your name.", form)
    await visit.api(change, body=Change(sigma=sigma, **said))
    return Redirect(url("agents", visit.agent, "dial", said="changed"))


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/dial", handle=dial, like=(EVALUATED,)),
    Page(method="POST", path="/agents/{agent}/dial", handle=turn, like=(EVALUATED, CHANGED)),
    Page(
        method="POST",
        path="/agents/{agent}/dial/evaluate",
        handle=start_evaluation,
        like=(EVALUATED,),
    ),
)

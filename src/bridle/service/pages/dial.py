"""Dial: sigma as a slider, with what each position is expected to give, and turning it."""

from __future__ import annotations

from typing import Any, NamedTuple

from bridle.errors import NotPossible
from bridle.evaluating import Evaluation
from bridle.service.agents import Change, change
from bridle.service.pages.charts import Line, curve
from bridle.service.pages.evaluations import Evaluated, evaluated, why_refused
from bridle.service.pages.fields import Fields
from bridle.service.pages.jobs import Progress, jobs_of
from bridle.service.pages.page import Html, Page, Redirect, Shown, Visit
from bridle.service.pages.rendering import url
from bridle.service.pages.saying import said_of
from bridle.service.problems import Problem
from bridle.store.writing import Desk

__all__ = ["PAGES"]

EVALUATED = "POST /v1/agents/{agent}/evaluate"
CHANGED = "PATCH /v1/agents/{agent}"
BUDGET = 0.01
TICKS = tuple((n / 4, f"{n / 4:g}") for n in range(5))

# What agents do that have no dial.
WITHOUT = {
    "Thompson": "It goes by reward alone, and tries what it knows little of now and then.",
    "LinUCB": "It goes by reward alone, and prefers what it knows little of.",
    "Greedy": "It always plays what has earned most so far.",
    "EpsilonGreedy": "It plays what has earned most so far, and now and then anything.",
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
    agent = await visit.service.do(visit.agent, _looked_up)
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


def _looked_up(desk: Desk) -> _Agent:
    know = desk.kept.know
    return _Agent(
        type(know.policy).__name__, desk.kept.agent.sigma, desk.kept.version, know.decisions,
        know.settings.reward_range,
    )  # fmt: skip


def _key(agent: str) -> str:
    return f"evaluate {agent}"


def _position(typed: Fields, otherwise: float) -> float:
    """Give what was typed, to show the form again; where the dial is if that is no position."""
    try:
        return typed.number("sigma", low=0.0, high=1.0)
    except ValueError:
        return otherwise


def _shown(found: Evaluated, agent: _Agent, wanted: float, budget: float) -> dict[str, Any]:
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
        why_not="" if one.refused is None else why_refused(one),
        now=abs(position - sigma) < 1e-9,
    )


def _reward_chart(rows: list[Position]) -> Any:
    line = Line(
        "reward a choice, with 95 % intervals", [(row.sigma, row.reward) for row in rows],
        low=[row.low for row in rows], high=[row.high for row in rows],
    )  # fmt: skip
    last = max(row.sigma for row in rows if row.reward is not None)
    ticks = [tick for tick in TICKS if tick[0] <= last]
    return curve("Expected reward by position of the dial", [line], x_ticks=ticks)


def _belief_chart(rows: list[Position]) -> Any:
    line = Line(
        "choices that are not allowed, by the model’s belief",
        [(row.sigma, row.believed) for row in rows], style="c6",
    )  # fmt: skip
    return curve(
        "Believed share of choices that are not allowed, by position of the dial", [line],
        y_low=0.0, x_ticks=TICKS,
    )  # fmt: skip


async def work_out(visit: Visit) -> Shown:
    """Begin to work out what each position gives; if that is under way, only look."""
    agent = await visit.service.do(visit.agent, _looked_up)
    sigma = agent.sigma
    if sigma is None:
        raise NotPossible("This agent has no dial.")
    store, name = visit.service.store, visit.agent

    def do(progress: Progress) -> Evaluated:
        return evaluated(store, name, sigma, progress)

    jobs_of(visit.service).start(_key(name), "Reading the whole log", do)
    budget = visit.form.get("budget")[:20]
    return Redirect(url("agents", name, "dial", budget=budget, said="begun"))


async def turn(visit: Visit) -> Shown:
    """Turn the dial; who and why stands in the log."""
    form = visit.form
    try:
        sigma = form.number("sigma", low=0.0, high=1.0)
    except ValueError:
        return await _dial(visit, "The dial has positions from 0 to 1.", form)
    now = (await visit.service.do(visit.agent, _looked_up)).sigma
    if now is not None and abs(sigma - now) < 1e-9:
        stands = f"The dial stands at {sigma:g} already. Nothing was changed or written down."
        return await _dial(visit, stands, form)
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
    Page(method="POST", path="/agents/{agent}/dial/evaluate", handle=work_out, like=(EVALUATED,)),
)

"""Settings of one agent: how long decisions wait, its arms, and whether its log is what it was.

For admins. What is changed is recorded with who and why. The dial and the declared rules have pages
of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bridle.errors import UnknownId
from bridle.service import agents
from bridle.service.agentforms import ArmForm
from bridle.service.agents import Change, Grouped, Groups, Wait
from bridle.service.pages.armnames import arm_named, arm_of_text, groups_of
from bridle.service.pages.jobs import jobs_of
from bridle.service.pages.page import Html, Page, Redirect, Shown, Visit
from bridle.service.pages.rendering import url
from bridle.service.pages.saying import said_of
from bridle.service.problems import Problem
from bridle.settings import Arm
from bridle.store.replaying import replay
from bridle.store.verifying import Verified, head_from_text, verify
from bridle.store.writing import Desk

__all__ = ["PAGES"]

CHANGE = "PATCH /v1/agents/{agent}"
UNITS = {"seconds": 1.0, "minutes": 60.0, "hours": 3_600.0, "days": 86_400.0}
MOST_PROBLEMS = 50  # of a log that are shown
MOST_GROUPS = 200  # that are offered to choose from


class Facts(NamedTuple):
    """What the page tells of an agent."""

    version: int
    arms: int
    groups: list[str]
    decisions: int
    pending: int
    examples: int
    rules: int
    budget_left: int
    asks: bool
    limits: str
    wait: float | None
    default_reward: float | None
    reward_range: tuple[float, float]


class Checked(NamedTuple):
    """A log that was verified, and against which head."""

    found: Verified
    expect: str | None


async def look(visit: Visit) -> Shown:
    """Show the settings of an agent."""
    facts = await visit.service.do(visit.agent, _facts)
    head = await visit.service.aside(lambda: visit.service.store.head(visit.agent))
    jobs = jobs_of(visit.service)
    values = {
        "agent": visit.agent, "facts": facts, "head": head, "wait": _wait_words(facts.wait),
        "units": list(UNITS), "most_problems": MOST_PROBLEMS,
        "verified": jobs.find(_key("verify", visit)), "replayed": jobs.find(_key("replay", visit)),
    }  # fmt: skip
    return Html("agent-settings.html", values)


def _facts(desk: Desk) -> Facts:
    know = desk.kept.know
    return Facts(
        version=desk.kept.version, arms=len(know.arms), groups=groups_of(know.arms)[:MOST_GROUPS],
        decisions=know.decisions, pending=len(know.pending), examples=len(know.examples),
        rules=len(know.rules), budget_left=know.questions.left, asks=know.settings.budget > 0,
        limits=know.believing.kind, wait=know.wait, default_reward=know.default_reward,
        reward_range=know.settings.reward_range,
    )  # fmt: skip


def _wait_words(wait: float | None) -> tuple[str, str]:
    """Give how long, and in which unit: the largest in which it is a whole number."""
    if wait is None:
        return "", "hours"
    unit = next((u for u in reversed(UNITS) if wait % UNITS[u] == 0.0), "seconds")
    return f"{wait / UNITS[unit]:.10g}", unit


# -- changes ---------------------------------------------------------------------------------


async def set_wait(visit: Visit) -> Shown:
    """Change how long decisions wait for a reward."""
    form = visit.form
    if form.get("how") == "ever":
        wait = Wait(seconds=None)
    else:
        unit = form.get("unit")
        if unit not in UNITS:
            raise Problem("invalid_value", "It is not said in which unit.", field="unit")
        seconds = form.number("long", low=1e-3, high=3.2e9) * UNITS[unit]
        reward = None
        if form.get("default_reward"):
            reward = form.number("default_reward", low=-1e300, high=1e300)
        wait = Wait(seconds=seconds, default_reward=reward)
    return await _changed(visit, "wait", wait=wait)


async def add_arm(visit: Visit) -> Shown:
    """Add an arm."""
    form = visit.form
    text = form.need("id")
    id = arm_of_text(await _arms(visit), text)
    arm = ArmForm(id=id, label=form.optional("label"), group=form.optional("group"))
    return await _changed(visit, "arms", add_arms=(arm,))


async def regroup(visit: Visit) -> Shown:
    """Put an arm into a group, or take it out of one."""
    name, group = visit.form.need("arm"), visit.form.optional("group")
    id = arm_named(await _arms(visit), name).id
    return await _changed(visit, "arms", groups=Groups(arms=(Grouped(arm=id, group=group),)))


async def _arms(visit: Visit) -> tuple[Arm, ...]:
    return await visit.service.do(visit.agent, lambda desk: tuple(desk.kept.know.arms))


async def _changed(visit: Visit, place: str, **change: Any) -> Redirect:
    await visit.api(agents.change, Change(**change, **said_of(visit)))
    return Redirect(f"{url('agents', visit.agent, 'settings', said='changed')}#{place}")


# -- is the log what it was? -----------------------------------------------------------------


async def start_verify(visit: Visit) -> Shown:
    """Compute every hash of the log again; against a head that was kept, if one is given."""
    expect = visit.form.optional("expect")
    if expect is not None:
        head_from_text(expect)  # refused now, and not by the job
    store, agent = visit.service.store, visit.agent
    await _known(visit)
    jobs_of(visit.service).start(
        _key("verify", visit), "Verifying the log",
        lambda progress: Checked(verify(store, agent, expect=expect, progress=progress), expect),
    )  # fmt: skip
    return _to_checks(visit)


async def start_replay(visit: Visit) -> Shown:
    """Make every choice of the log again."""
    store, agent = visit.service.store, visit.agent
    await _known(visit)
    jobs_of(visit.service).start(
        _key("replay", visit), "Replaying every choice",
        lambda progress: replay(store, agent, progress=progress),
    )  # fmt: skip
    return _to_checks(visit)


def _to_checks(visit: Visit) -> Redirect:
    return Redirect(f"{url('agents', visit.agent, 'settings')}#checks")


async def _known(visit: Visit) -> None:
    head = await visit.service.aside(lambda: visit.service.store.head(visit.agent))
    if head is None:
        raise UnknownId("agent", visit.agent, "There is none of that name.")


def _key(what: str, visit: Visit) -> str:
    return f"{what} {visit.agent}"


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/settings", handle=look, like=(CHANGE,)),
    Page(method="POST", path="/agents/{agent}/settings/wait", handle=set_wait, like=(CHANGE,)),
    Page(method="POST", path="/agents/{agent}/settings/arms", handle=add_arm, like=(CHANGE,)),
    Page(method="POST", path="/agents/{agent}/settings/groups", handle=regroup, like=(CHANGE,)),
    Page(
        method="POST", path="/agents/{agent}/settings/verify", handle=start_verify, like=(CHANGE,)
    ),
    Page(
        method="POST", path="/agents/{agent}/settings/replay", handle=start_replay, like=(CHANGE,)
    ),
)  # fmt: skip

"""Agents: make one, list them, show one, change one."""

from __future__ import annotations

from typing import Any

from bridle.agent.agent import NO_CHECKS
from bridle.agent.events import Created, Event
from bridle.api.models import (
    arms_of,
    promise_of,
    rule_of,
    settings_of,
)
from bridle.api.replies import AgentLine, AgentList, AgentShown, Answered, ArmShown, ChecksShown
from bridle.api.requests import Change, NewAgent, Page
from bridle.errors import InvalidValue
from bridle.server.endpoints import ROLES, Call, Caller, Endpoint, Reply
from bridle.server.problems import Problem
from bridle.store.aggregate import Aggregate
from bridle.store.writer import UnitOfWork

__all__ = ["ENDPOINTS", "AgentShown", "shown", "who"]


def who(caller: Caller | None, said: str | None) -> str | None:
    """Return who did something: as they say, with the token that vouches for it."""
    if caller is None:
        return said
    if said is None:
        return f"token {caller.id}"
    vouched = f" (token {caller.id})"
    return said[: 200 - len(vouched)] + vouched


async def make(call: Call) -> Reply:
    """Make an agent."""
    form: NewAgent = call.body
    service = call.service
    scope = None if call.caller is None else call.caller.agents
    if scope is not None and form.name not in scope:
        raise Problem("forbidden", "Your token is not for an agent of this name.", field="name")
    # A large one takes seconds to check, which nobody else may wait for.
    settings = await service.aside(lambda: settings_of(form.agent))

    wanted = promise_of(form.agent)

    def do(work: UnitOfWork) -> AgentShown:
        aggregate = work.aggregate
        if wanted is not None:
            event = aggregate.agent.make.promised(
                wanted.alpha,
                wanted.q,
                lag=wanted.lag,
                b=wanted.b,
                by=who(call.caller, None),
                at=work.now,
            )
            aggregate.record(event)
        return shown(form.name, aggregate)

    made = await service.do(form.name, do, created=Created(settings, service.clock()))
    return Reply(201, made, {"Location": f"/v1/agents/{form.name}"})


async def listing(call: Call) -> Reply:
    """List the agents that the token is for."""
    rows = await call.service.aside(call.service.store.agents)
    scope = None if call.caller is None else call.caller.agents
    mine = [row for row in rows if scope is None or row.name in scope]
    page: Page = call.query
    lines = [
        AgentLine(
            name=row.name,
            version=row.head.seq,
            hash=row.head.hash.hex(),
            created=row.created,
            origin=row.origin,
        )
        for row in mine[page.after : page.after + page.limit]
    ]
    return Reply(200, AgentList(agents=tuple(lines)))


async def show(call: Call) -> Reply:
    """Show an agent."""
    name = call.path["agent"]
    return Reply(200, await call.service.do(name, lambda work: shown(name, work.aggregate)))


async def change(call: Call) -> Reply:
    """Change an agent: its dial, wait, arms, groups or rules."""
    form: Change = call.body
    by = who(call.caller, form.by)

    def do(work: UnitOfWork) -> Answered:
        work.aggregate.record(_event(work.aggregate, form, by, work.now))
        return Answered(version=work.aggregate.version)

    return Reply(200, await call.service.do(call.path["agent"], do))


def _event(aggregate: Aggregate, form: Change, by: str | None, at: float) -> Event:
    make = aggregate.agent.make
    said: dict[str, Any] = {"by": by, "note": form.note, "at": at}
    if form.sigma is not None:
        return make.sigma_changed(form.sigma, **said)
    if form.wait is not None:
        return make.wait_changed(form.wait.seconds, form.wait.default_reward, **said)
    if form.add_arms is not None:
        return make.arms_added(arms_of(form.add_arms), **said)
    if form.groups is not None:
        pairs = {one.arm: one.group for one in form.groups.arms}
        if len(pairs) != len(form.groups.arms):
            raise InvalidValue("groups", "PATCH agent", "each arm once", "an arm twice")
        return make.regrouped(pairs, form.groups.limits, **said)
    if form.declare is not None:
        return make.rule_declared(rule_of(form.declare), **said)
    assert form.withdraw is not None
    return make.rule_withdrawn(form.withdraw, **said)


def shown(name: str, aggregate: Aggregate) -> AgentShown:
    """Return an agent as the API shows it."""
    state, agent = aggregate.state, aggregate.agent
    settings, checks, purse = state.settings.to_json(), state.checks, state.purse
    unchecked = state.settings.lives and state.settings.checks == 0 and state.policy.needs_limits
    return AgentShown(
        name=name,
        version=aggregate.version,
        sigma=agent.sigma,
        policy=settings["policy"] | ({} if agent.sigma is None else {"sigma": agent.sigma}),  # type: ignore[operator, arg-type]
        limits=state.limits_state.kind,
        arms=tuple(ArmShown(id=arm.id, label=arm.label, group=arm.group) for arm in state.arms),
        features=tuple(settings["features"]),  # type: ignore[arg-type]
        rules=tuple(rule.to_json() for rule in state.rules.values()),
        decisions=state.decisions,
        pending=len(state.pending),
        taught=state.taught,
        examples=len(state.examples),
        open_questions=len(state.questions.open),
        budget_left=state.questions.left,
        certified=state.certificate is not None,
        audits=aggregate.auditing.meter is not None,
        wait=state.wait,
        default_reward=state.default_reward,
        reward_range=state.settings.reward_range,
        checks=ChecksShown(
            open=len(checks.open), drawn=checks.drawn, judged=checks.judged, found=checks.found
        ),
        promise=None if purse is None else purse.state,
        teachers=tuple(teacher.name for teacher in state.teachers.teachers),
        warnings=(NO_CHECKS,) if unchecked else (),
        settings={key: value for key, value in settings.items() if key != "seed"},
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/agents",
        roles=ROLES,
        handle=listing,
        summary="List agents",
        query=Page,
        replies={200: (AgentList, "The agents, by name")},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents",
        roles=("admin",),
        handle=make,
        body=NewAgent,
        summary="Make an agent",
        replies={201: (AgentShown, "The new agent")},
        problems={409: "There is an agent of that name"},
    ),
    Endpoint(
        method="GET",
        path="/v1/agents/{agent}",
        roles=ROLES,
        handle=show,
        summary="Look at an agent",
        replies={200: (AgentShown, "The agent")},
    ),
    Endpoint(
        method="PATCH",
        path="/v1/agents/{agent}",
        roles=("admin",),
        handle=change,
        body=Change,
        summary="Change an agent",
        replies={200: (Answered, "It is changed")},
        description="Turn the dial, change the wait, add arms, group them, declare or withdraw a "
        "rule: one change at a time, recorded with who and why.",
        problems={409: "Not possible with this agent"},
    ),
)

"""Agents: make one, list them, show one, change one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bridle.agent.agent import NO_CHECKS
from bridle.agent.config import Arm, ArmFeatures
from bridle.agent.events import Created, Event
from bridle.agent.state import RETIRED, STANDING, VISITING, AgentState
from bridle.api.base import MAX_PAGE
from bridle.api.models import (
    ArmForm,
    arms_of,
    check_growth,
    policy_in,
    promise_of,
    rule_of,
    settings_of,
)
from bridle.api.replies import (
    AgentLine,
    AgentList,
    AgentShown,
    Answered,
    ArmList,
    ArmShown,
    ChecksShown,
)
from bridle.api.requests import ArmQuery, Change, NewAgent, Page
from bridle.errors import InvalidValue
from bridle.policies import policy_to_json
from bridle.server.endpoints import ROLES, Call, Caller, Endpoint, Reply
from bridle.server.problems import Problem
from bridle.store.aggregate import Aggregate
from bridle.store.writer import UnitOfWork

__all__ = ["ENDPOINTS", "AgentShown", "arms_shown", "shown", "who"]

STATUS = {"standing": STANDING, "visiting": VISITING, "retired": RETIRED}
_WORDS = {int(VISITING): "visiting", int(RETIRED): "retired"}


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


async def arms(call: Call) -> Reply:
    """List the arms of an agent."""
    query: ArmQuery = call.query

    def do(work: UnitOfWork) -> ArmList:
        state = work.aggregate.state
        numbers: Any = range(len(state.arms))
        if query.status is not None:
            numbers = np.flatnonzero(state.status == STATUS[query.status]).tolist()
        page = numbers[query.after : query.after + query.limit]
        return ArmList(arms=arms_shown(state, page), total=len(numbers))

    return Reply(200, await call.service.do(call.path["agent"], do))


def arms_shown(state: AgentState, numbers: Iterable[int]) -> tuple[ArmShown, ...]:
    """Return arms as the API shows them, with their features in words."""
    return tuple(
        ArmShown(
            id=arm.id,
            label=arm.label,
            group=arm.group,
            features=dict(arm.features) if isinstance(arm.features, ArmFeatures) else None,
            status=_WORDS.get(int(state.status[k])),  # type: ignore[arg-type]
        )
        for k in numbers
        for arm in (state.arms[k],)
    )


async def change(call: Call) -> Reply:
    """Change an agent: its dial, policy, wait, arms, groups or rules."""
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
    if form.policy is not None:
        return make.policy_changed(policy_in(form.policy), **said)
    if form.boldness is not None:
        return make.boldness_changed(form.boldness, **said)
    if form.forget is not None:
        return make.forgetting_changed(form.forget, **said)
    if form.add_arms is not None:
        _check_growth(aggregate.state, len(form.add_arms))
        return make.arms_added(arms_of(form.add_arms), **said)
    if form.change_arms is not None:
        return make.arms_changed(_changed(aggregate.state, form.change_arms), **said)
    if form.retire_arms is not None:
        return make.arms_retired(form.retire_arms, **said)
    if form.restore_arms is not None:
        return make.arms_restored(form.restore_arms, **said)
    if form.groups is not None:
        pairs = {one.arm: one.group for one in form.groups.arms}
        if len(pairs) != len(form.groups.arms):
            raise InvalidValue("groups", "PATCH agent", "each arm once", "an arm twice")
        return make.regrouped(pairs, form.groups.limits, **said)
    if form.declare is not None:
        return make.rule_declared(rule_of(form.declare), **said)
    assert form.withdraw is not None
    return make.rule_withdrawn(form.withdraw, **said)


def _changed(state: AgentState, forms: Sequence[ArmForm]) -> list[Arm]:
    """Return arms as they are to be: what a form leaves out stays as it is."""
    arms = []
    for form in forms:
        now = state.arms[state.arm_number(form.id)]
        given = {name: getattr(form, name) for name in form.model_fields_set if name != "id"}
        arms.append(replace(now, **{k: v for k, v in given.items() if v is not None}))
    return arms


def _check_growth(state: AgentState, more: int) -> None:
    """Raise `LimitReached` where more arms would take more memory than an agent may have."""
    settings = state.settings
    schema = settings.arm_features
    check_growth(
        len(state.arms) + more,
        settings.features.width,
        None if schema is None else schema.width,
        shared=state.shared is not None,
    )


def shown(name: str, aggregate: Aggregate) -> AgentShown:
    """Return an agent as the API shows it."""
    state, agent = aggregate.state, aggregate.agent
    schema = state.settings.arm_features
    settings, checks, purse = state.settings.to_json(), state.checks, state.purse
    most = min(len(state.arms), MAX_PAGE)
    if schema is not None:  # a catalogue may be long, and is read in pages
        settings["arms"] = settings["arms"][:MAX_PAGE]  # type: ignore[index]
    unchecked = state.settings.lives and state.settings.checks == 0 and state.policy.needs_limits
    return AgentShown(
        name=name,
        version=aggregate.version,
        sigma=agent.sigma,
        policy=policy_to_json(state.policy),
        limits=state.limits_state.kind,
        arms=arms_shown(state, range(len(state.arms) if schema is None else most)),
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
        arm_features=None if schema is None else tuple(schema.to_json()),
        arms_total=None if schema is None else len(state.arms),
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
        method="GET",
        path="/v1/agents/{agent}/arms",
        roles=ROLES,
        handle=arms,
        query=ArmQuery,
        summary="List the arms of an agent",
        replies={200: (ArmList, "In their order, with features and status")},
    ),
    Endpoint(
        method="PATCH",
        path="/v1/agents/{agent}",
        roles=("admin",),
        handle=change,
        body=Change,
        summary="Change an agent",
        replies={200: (Answered, "It is changed")},
        description="Turn the dial, take another policy, change the wait, add, change, retire or "
        "restore arms, group them, declare or withdraw a rule: one change at a time, recorded with "
        "who and why.",
        problems={409: "Not possible with this agent"},
    ),
)

"""Spot checks: plays that a coin chose to be judged afterwards, and what teachers say of them."""

from __future__ import annotations

from itertools import islice
from typing import TypeAlias

import numpy as np

from bridle.agent.config import ItemId
from bridle.agent.events import Erased, StartedAnew, Taught
from bridle.agent.state import AgentState, OpenCheck
from bridle.api.replies import CheckJudged, CheckList, CheckShown
from bridle.api.requests import CheckJudgement, CheckQuery, digest_of
from bridle.errors import Duplicate, NotPossible
from bridle.server.endpoints import Call, Endpoint, Reply
from bridle.server.handlers.agents import who
from bridle.server.handlers.teachers import (
    earlier_outcome,
    judgement_of,
    outcomes_of,
    teacher_of,
    who_judges,
    word_id,
    word_of,
)
from bridle.server.handlers.teaching import close
from bridle.store.idempotency import id_of
from bridle.store.writer import Existing, UnitOfWork

__all__ = ["ENDPOINTS"]

MOST_WEIGHED = 1_000
Waiting: TypeAlias = tuple[ItemId, OpenCheck]


async def checks(call: Call) -> Reply:
    """List the checks that wait."""
    page: CheckQuery = call.query

    def do(work: UnitOfWork) -> CheckList:
        state = work.aggregate.state
        open_, total = state.checks.open, len(state.checks.open)
        if page.teacher is None:
            shown = list(islice(open_.items(), page.after, page.after + page.limit))
        else:
            oldest = list(islice(open_.items(), MOST_WEIGHED))
            mine = _for(state, oldest, teacher_of(state, page.teacher))
            shown, total = mine[page.after : page.after + page.limit], len(mine)
        decode = state.settings.features.decode
        some = [
            CheckShown(
                decision=id,
                context=decode(np.frombuffer(one.context)),
                arm=state.arm_ids[one.arm],
                item=one.item,
                coin=one.coin,
                whom=who_judges(state, one.context, one.item, one.arm),
            )
            for id, one in shown
        ]
        return CheckList(checks=tuple(some), total=total)

    return Reply(200, await call.service.do(call.path["agent"], do))


def _for(state: AgentState, waiting: list[Waiting], teacher: str | None) -> list[Waiting]:
    """Return the checks that one of several teachers judges."""
    return [
        (id, one)
        for id, one in waiting
        if (whom := who_judges(state, one.context, one.item, one.arm)) is not None
        and whom.teacher == teacher
    ]


async def judge(call: Call) -> Reply:
    """Record a teacher's judgement of a play that a coin chose."""
    form: CheckJudgement = call.body
    by, text = who(call.caller, form.by), call.path["id"]
    digest = digest_of(form, text)  # a word of one of several teachers may have an id of its own

    def do(work: UnitOfWork) -> CheckJudged:
        aggregate = work.aggregate
        teacher = teacher_of(aggregate.state, form.teacher)
        if teacher is not None:
            return _judged_by(work, form, text, digest, teacher, by)
        before = work.find("check", text)
        if before is not None:
            return _judged_before(work, before, digest, text)
        made = aggregate.agent.make.judged(
            id_of(text), form.allowed, by=by, note=form.note, at=work.now
        )
        for event in made:
            aggregate.record(event, digest)
        taught = made[0]
        assert isinstance(taught, Taught)
        return CheckJudged(
            version=aggregate.version, example=taught.id, started_anew=len(made) > 1, judgement=None
        )

    return Reply(200, await call.service.do(call.path["agent"], do))


def _judged_by(
    work: UnitOfWork, form: CheckJudgement, text: str, digest: bytes, teacher: str, by: str | None
) -> CheckJudged:
    """Record what one of several teachers says of a play; the check waits until it settles."""
    aggregate, word = work.aggregate, word_id(form.id, "check", text, teacher)
    found = word_of(work, word, digest)
    if found is not None:
        came, led, version = earlier_outcome(work, found)
    else:
        if work.find("check", text) is not None:
            remedy = (
                "A play is judged once, and this one is settled. Retract the example, or teach."
            )
            raise Duplicate("judgement", text, remedy)
        made = aggregate.agent.make.judged(
            id_of(text), form.allowed, by=teacher, note=form.note, at=work.now, word=word, who=by
        )
        for event in made:
            aggregate.record(event, digest)
        [came], led, version = outcomes_of(made), made[1:], aggregate.version
    judgement = judgement_of(aggregate, came)
    if found is None:
        close(work, led)
    return CheckJudged(
        version=version,
        example=came.example,
        judgement=judgement,
        started_anew=any(isinstance(event, StartedAnew) for event in led),
    )


def _judged_before(work: UnitOfWork, found: Existing, digest: bytes, text: str) -> CheckJudged:
    """Return the same answer again, or raise on another judgement."""
    event = found.event
    if isinstance(event, Erased):
        raise NotPossible(f"The decision {text!r} was erased.")
    if found.digest != digest:
        remedy = "A play is judged once. Retract the example, and teach."
        raise Duplicate("judgement", text, remedy)
    assert isinstance(event, Taught)
    # What it began anew was recorded in the same unit of work. Whoever begins anew by hand is
    # named.
    following = None if event.allowed else work.at(found.seq + 1)
    anew = isinstance(following, StartedAnew) and following.by is None
    return CheckJudged(
        version=found.seq + anew, example=event.id, started_anew=anew, judgement=None
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/agents/{agent}/checks",
        roles=("teacher", "auditor", "admin"),
        handle=checks,
        query=CheckQuery,
        summary="List the plays that wait to be judged",
        replies={200: (CheckList, "Oldest first")},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/checks/{id}",
        roles=("teacher", "auditor", "admin"),
        handle=judge,
        body=CheckJudgement,
        summary="Judge a play that a coin chose",
        description="The id is the decision's. It teaches as any answer does, says how often what "
        "is believed safe is not, and moves the purse of a promise.",
        replies={200: (CheckJudged, "The judgement is taken")},
        problems={409: "It was judged otherwise, or erased"},
    ),
)

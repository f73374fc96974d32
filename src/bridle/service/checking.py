"""Spot checks: plays that a coin chose to be judged afterwards, and what teachers say of them."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from bridle.errors import Duplicate, NotPossible
from bridle.events import StartedAnew, Taught
from bridle.notes import Erased
from bridle.service.agents import who
from bridle.service.endpoints import Call, Endpoint, Reply
from bridle.service.forms import Answered, ArmName, Form, Id, ItemName, Page, Said, digest_of
from bridle.store.naming import id_of
from bridle.store.writing import Desk, Stood

__all__ = ["ENDPOINTS"]


class CheckShown(Form):
    """A play that waits to be judged, by the limits as they stood then.

    `coin`: the probability with which it was chosen.
    """

    decision: Id
    context: dict[str, Any]
    arm: ArmName
    item: ItemName | None
    coin: Annotated[float, Field(ge=0, le=1)]


class CheckList(Form):
    """Plays that wait to be judged, oldest first, and how many there are."""

    checks: list[CheckShown]
    total: int


class CheckJudgement(Said):
    """A teacher's judgement of a play, by the limits as they stood then."""

    allowed: bool


class CheckJudged(Answered):
    """What became of a judgement: the example that it made.

    `started_anew`: it denied what a teacher had allowed, and a promise binds; so what was learned
    of the limits was begun anew.
    """

    example: Id
    started_anew: bool


async def checks(call: Call) -> Reply:
    """List the checks that wait."""
    page: Page = call.query

    def do(desk: Desk) -> CheckList:
        know = desk.kept.know
        waiting, decode = know.checks.open, know.settings.features.decode
        some = [
            CheckShown(
                decision=id, context=decode(np.frombuffer(one.context)), arm=know.arm_ids[one.arm],
                item=one.item, coin=one.coin,
            )
            for id, one in islice(waiting.items(), page.after, page.after + page.limit)
        ]  # fmt: skip
        return CheckList(checks=some, total=len(waiting))

    return Reply(200, await call.service.do(call.path["agent"], do))


async def judge(call: Call) -> Reply:
    """Take a teacher's judgement of a play that a coin chose."""
    form: CheckJudgement = call.body
    by, text, digest = who(call.caller, form.by), call.path["id"], digest_of(form)

    def do(desk: Desk) -> CheckJudged:
        kept = desk.kept
        before = desk.stood("check", text)
        if before is not None:
            return _judged_before(desk, before, digest, text)
        made = kept.agent.make.judged(id_of(text), form.allowed, by=by, note=form.note, at=desk.now)
        for event in made:
            kept.record(event, digest)
        taught = made[0]
        assert isinstance(taught, Taught)
        return CheckJudged(version=kept.version, example=taught.id, started_anew=len(made) > 1)

    return Reply(200, await call.service.do(call.path["agent"], do))


def _judged_before(desk: Desk, found: Stood, digest: bytes, text: str) -> CheckJudged:
    """Return the same answer again, or refuse another judgement."""
    event = found.event
    if isinstance(event, Erased):
        raise NotPossible(f"The decision {text!r} was erased.")
    if found.digest != digest:
        remedy = "A play is judged once. Retract the example, and teach."
        raise Duplicate("judgement", text, remedy)
    assert isinstance(event, Taught)
    # What it began anew was recorded in the same piece of work. Whoever begins anew by hand is
    # named.
    following = None if event.allowed else desk.at(found.seq + 1)
    anew = isinstance(following, StartedAnew) and following.by is None
    return CheckJudged(version=found.seq + anew, example=event.id, started_anew=anew)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET", path="/v1/agents/{agent}/checks", roles=("teacher", "auditor", "admin"),
        handle=checks, query=Page, summary="List the plays that wait to be judged",
        replies={200: (CheckList, "Oldest first")},
    ),
    Endpoint(
        method="POST", path="/v1/agents/{agent}/checks/{id}",
        roles=("teacher", "auditor", "admin"), handle=judge, body=CheckJudgement,
        summary="Judge a play that a coin chose",
        description="The id is the decision's. It teaches as any answer does, says how often what "
        "is believed safe is not, and moves the purse of a promise.",
        replies={200: (CheckJudged, "The judgement is taken")},
        problems={409: "It was judged otherwise, or erased"},
    ),
)  # fmt: skip

"""Deciding: a context in, an arm out; and what it earned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bridle.agent.events import Abstained, Asked, Decided, Erased, Event, Rewarded, RewardedLate
from bridle.agent.outcomes import Abstention, Decision, Decisions, Question
from bridle.api.replies import Choice, Choices, RewardShown
from bridle.api.requests import Decide, DecideMany, Item, Reward, digest_of
from bridle.errors import CorruptState, Duplicate, InvalidValue, NotPossible, UnknownId
from bridle.server.endpoints import Call, Endpoint, Reply
from bridle.store.idempotency import id_of
from bridle.store.writer import Existing, UnitOfWork

__all__ = ["ENDPOINTS", "choice_of", "plain_choice"]


async def decide(call: Call) -> Reply:
    """Decide."""
    form: Decide | DecideMany = call.body
    agent = call.path["agent"]
    if isinstance(form, DecideMany):
        many: DecideMany = form
        made = await call.service.do(agent, lambda work: _batch(work, many))
        return Reply(200, {"decisions": made})
    one: Decide = form
    made_one = await call.service.do(
        agent, lambda work: _single(work, one), many=_together, item=one
    )
    return Reply(200, made_one)


def _single(work: UnitOfWork, form: Decide) -> dict[str, Any]:
    aggregate, digest = work.aggregate, None
    if form.id is not None:
        digest = digest_of(form)
        found = work.find("decision", form.id)
        if found is not None:
            return _again(work, found, form.id, digest)
    if form.played is not None:
        aggregate.state.arm_number(form.played)
    made = aggregate.agent.make.decided(
        _row(form.context),
        form.among,
        form.id,
        item=form.item,
        propensity=form.propensity,
        ask=form.ask and form.played is None,
        at=work.now,
    )
    for event in made.events:
        aggregate.record(event, digest)
    if form.played is not None:
        assert isinstance(made, Decision | Abstention)
        aggregate.record(aggregate.agent.make.shadowed(made, form.played, at=work.now))
    return plain_choice(made)


def _together(work: UnitOfWork, forms: list[Decide]) -> list[dict[str, Any]] | None:
    """Decide for many callers at once, with the bits of one by one; None if they do not fit."""
    first, aggregate = forms[0], work.aggregate
    may_ask = aggregate.state.settings.budget > 0
    for form in forms:
        if (
            form.played is not None
            or (form.ask and may_ask)
            or form.propensity != first.propensity
            or form.among != first.among
            or (form.id is None) != (first.id is None)
        ):
            return None
    ids = [form.id for form in forms if form.id is not None]
    digests: list[bytes | None] | None = None
    if ids:
        if len(set(ids)) != len(ids) or any(work.find_many("decision", ids)):
            return None
        digests = [digest_of(form) for form in forms]
    made = aggregate.agent.make.decided_many(
        _rows(forms),
        first.among,
        ids or None,
        items=_items(forms),
        propensity=first.propensity,
        details=False,
        at=work.now,
    )
    aggregate.record_many(made, digests)
    return _choices(made, first.propensity)


def _batch(work: UnitOfWork, form: DecideMany) -> list[dict[str, Any]]:
    aggregate, items = work.aggregate, form.decisions
    ids = [item.id for item in items if item.id is not None]
    if ids and len(ids) != len(items):
        raise NotPossible("Give every decision of a batch an id, or none.")
    digests: list[bytes | None] = [None] * len(items)
    if ids:
        if len(set(ids)) != len(ids):
            raise InvalidValue("id", "POST decisions", "distinct in a batch", "one of them twice")
        how = form.model_dump_json(exclude={"decisions"})
        digests = [digest_of(item, how) for item in items]
        known = work.find_many("decision", ids)
        if all(found is not None for found in known):
            pairs = zip(known, ids, digests, strict=True)
            return [_again(work, one, id, digest) for one, id, digest in pairs if one is not None]
        if any(found is not None for found in known):
            raise NotPossible("Some of these decisions were made before, and some were not.")
    for item in items:
        if item.played is not None:
            aggregate.state.arm_number(item.played)
    made = aggregate.agent.make.decided_many(
        _rows(items),
        form.among,
        ids or None,
        items=_items(items),
        propensity=form.propensity,
        details=False,
        at=work.now,
    )
    shadowed = [item.played for item in items]
    events = made.events() if any(arm is not None for arm in shadowed) else []
    aggregate.record_many(made, digests if ids else None)
    for event, arm in zip(events, shadowed, strict=False):
        if arm is not None:
            aggregate.record(aggregate.agent.make.shadow_of(event, arm, at=work.now))
    return _choices(made, form.propensity)


def _choices(made: Decisions, propensity: bool) -> list[dict[str, Any]]:
    """Return what came of a batch, as plain JSON values."""
    first, odds, coins = made.first_version, made.propensity, made.coins
    nothing = None, False
    return [
        {
            "outcome": "abstention" if arm is None else "decision",
            "id": id,
            "arm": arm,
            "version": first + i,
            "propensity": odds(i) if propensity else None,
            "question": None,
            "item": item,
            "check": checked,
            "coin": coin,
        }
        for i, (id, arm, item) in enumerate(zip(made.ids, made.chosen, made.items, strict=True))
        for coin, checked in (nothing if coins is None else coins[i],)
    ]


def choice_of(made: Decision | Abstention | Question | Event) -> Choice:
    """Return what came of a decision, from what was just made or from its event in the log."""
    return Choice(**plain_choice(made))


def plain_choice(made: Decision | Abstention | Question | Event) -> dict[str, Any]:
    """Return the same as plain JSON values, which is faster."""
    filed = None
    event: Any = made
    if isinstance(made, Decision | Abstention | Question):
        event = made.event
        if not isinstance(made, Question) and made.question is not None:
            filed = {"id": made.question.id, "arm": made.question.arm}
    if isinstance(event, Decided):
        outcome, id, arm = "decision", event.id, event.arm
    elif isinstance(event, Abstained):
        outcome, id, arm = "abstention", event.id, None
    elif isinstance(event, Asked) and event.decision is not None:
        outcome, id, arm = "question", event.decision, None
        filed = {"id": event.id, "arm": event.arm}
    else:
        raise CorruptState(f"A {type(event).__name__} is no choice.")
    return {
        "outcome": outcome,
        "id": id,
        "arm": arm,
        "version": event.version,
        "propensity": event.propensity,
        "question": filed,
        "item": event.item,
        "check": isinstance(event, Decided) and event.checked,
        "coin": event.coin if isinstance(event, Decided) else None,
    }


def _row(context: Any) -> Any:
    # An array is encoded at once, a list value by value.
    return np.array(context) if isinstance(context, list) else context


def _rows(items: Sequence[Item]) -> Any:
    """Return the contexts of a batch, as one array where they can be."""
    contexts = [item.context for item in items]
    width = len(contexts[0])
    if all(isinstance(one, list) and len(one) == width for one in contexts):
        return np.array(contexts, np.float64)
    return contexts


def _items(forms: Sequence[Item]) -> list[int | str | None] | None:
    """Return the items of a batch; None if none has a name, which is faster."""
    named = [form.item for form in forms]
    return named if any(item is not None for item in named) else None


def _again(work: UnitOfWork, found: Existing, id: str, digest: bytes | None) -> dict[str, Any]:
    """Return the same answer again, or raise on another request of the same id."""
    if isinstance(found.event, Erased):
        raise NotPossible(f"The decision {id!r} was erased.")
    if found.digest != digest:
        raise Duplicate("decision", id, "It was another request: give this one another id.")
    choice = plain_choice(found.event)
    if isinstance(found.event, Decided | Abstained) and found.event.ask:
        # A question that was filed while it plays safe stands next to it.
        filed = work.at(found.seq + 1)
        if isinstance(filed, Asked) and filed.decision == found.event.id:
            choice["question"] = {"id": filed.id, "arm": filed.arm}
    return choice


async def reward(call: Call) -> Reply:
    """Reward a decision."""
    form: Reward = call.body
    text = call.path["id"]
    given = await call.service.do(call.path["agent"], lambda work: _rewarded(work, text, form))
    return Reply(200, given)


def _rewarded(work: UnitOfWork, text: str, form: Reward) -> dict[str, Any]:
    aggregate, id, digest = work.aggregate, id_of(text), digest_of(form)
    if id in aggregate.state.pending:
        aggregate.record(aggregate.agent.make.rewarded(id, form.value, at=work.now), digest)
        return _rewarded_shown("learned", aggregate.version)
    outcome = work.find("outcome", text)
    if outcome is not None and isinstance(outcome.event, Rewarded):
        return _rewarded_shown("learned", _same(outcome, digest, text))
    late = work.find("late", text)
    if late is not None:
        return _rewarded_shown("late", _same(late, digest, text))
    if outcome is None:
        _check_made(work, text)
    elif isinstance(outcome.event, Erased):
        raise NotPossible(f"The decision {text!r} was erased.")
    note = RewardedLate(id, form.value, work.now)
    aggregate.record(aggregate.agent.make.noted(note), digest)
    return _rewarded_shown("late", aggregate.version)


def _check_made(work: UnitOfWork, text: str) -> None:
    """Raise if the decision was never played."""
    found = work.find("settled", text) or work.find("decision", text)
    if found is None:
        raise UnknownId("decision", text, "No decision of that id was made.")
    event: Event = found.event
    if isinstance(event, Abstained):
        raise NotPossible(f"Nothing was played in decision {text!r}: it earns nothing.")
    if isinstance(event, Erased):
        raise NotPossible(f"The decision {text!r} was erased.")
    if not isinstance(event, Decided):
        raise NotPossible(f"The decision {text!r} waits for an answer: nothing was played yet.")


def _same(found: Existing, digest: bytes, text: str) -> int:
    """Return the version of the same reward, which came before; raise on another one."""
    if found.digest != digest:
        raise Duplicate("reward", text, "A decision has one reward, and this is another.")
    return found.seq


def _rewarded_shown(outcome: str, version: int) -> dict[str, Any]:
    return {"version": version, "outcome": outcome}


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/decisions",
        roles=("agent", "admin"),
        handle=decide,
        body=Decide | DecideMany,
        summary="Decide",
        description="One context, or up to 1,000. In shadow mode `played` says what another system "
        "played: the reward will be that arm's.",
        replies={200: (Choice | Choices, "What came of it: durable when you read this")},
        problems={409: "The id stands for another request"},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/decisions/{id}/reward",
        roles=("agent", "admin"),
        handle=reward,
        body=Reward,
        summary="Reward a decision",
        replies={200: (RewardShown, "It is learned, or was late")},
        problems={409: "It has another reward, or nothing was played"},
    ),
)

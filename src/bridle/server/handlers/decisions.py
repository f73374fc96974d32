"""Deciding: a context in, an arm out; and what it earned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bridle.agent.events import Abstained, Asked, Decided, Erased, Event, Rewarded, RewardedLate
from bridle.agent.outcomes import Abstention, Decision, Decisions, Question, SlateDecision
from bridle.agent.selection import slate_ids
from bridle.api.models import CandidateForm, candidates_of
from bridle.api.replies import Choice, Choices, RewardShown, Slate, SlateRewarded
from bridle.api.requests import Decide, DecideMany, Item, Reward, SlateReward, digest_of
from bridle.errors import CorruptState, Duplicate, InvalidValue, NotPossible, UnknownId
from bridle.server.endpoints import Call, Endpoint, Reply
from bridle.slates import item_rewards
from bridle.store.idempotency import id_of, text_of
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
    if one.k is not None:
        return Reply(200, await call.service.do(agent, lambda work: _slate(work, one)))
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
        None if form.among is None else candidates_of(form.among),
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


def _slate(work: UnitOfWork, form: Decide) -> dict[str, Any]:
    """Decide for several places at once."""
    aggregate, digest = work.aggregate, None
    assert form.k is not None
    if form.played is not None:
        wanted = "left out in shadow mode: there one arm is held against another"
        raise InvalidValue("k", "POST decisions", wanted, form.k)
    if form.id is not None:
        digest = digest_of(form)
        found = work.find("decision", form.id)
        if found is not None:
            return _slate_again(work, found, form, digest)
    made = aggregate.agent.make.slate(
        _row(form.context),
        form.k,
        _ids_alone(form.among, "a slate"),
        form.id,
        item=form.item,
        propensity=form.propensity,
        ask=form.ask,
        at=work.now,
    )
    for event in made.events:
        aggregate.record(event, digest)
    choices = [plain_choice(one) for one in made] if isinstance(made, SlateDecision) else []
    return _slate_shown(form.k, plain_choice(made.event), choices, _filed(made.question))


def _slate_again(work: UnitOfWork, found: Existing, form: Decide, digest: bytes) -> dict[str, Any]:
    """Return the same slate again, or raise on another request of the same id."""
    assert form.id is not None and form.k is not None
    first = _again(work, found, form.id, digest)
    events = _slate_of(work, found.event) if isinstance(found.event, Decided) else []
    choices = [plain_choice(event) for event in events]
    question = first.pop("question")
    if choices:
        choices[0]["question"] = question
    return _slate_shown(form.k, first, choices, question)


def _slate_of(work: UnitOfWork, first: Decided) -> list[Decided]:
    """Return the decisions of a slate by its first; raise if some were erased."""
    assert first.places is not None
    names = [text_of(id) for id in slate_ids(first.id, first.places)]
    found = [one.event for one in work.find_many("decision", names) if one is not None]
    # Where fewer were played than were asked for, numbers beyond are of other decisions.
    events = [one for one in found if isinstance(one, Decided) and one.slate == first.id]
    if any(isinstance(one, Erased) for one in found):
        raise NotPossible(f"Of the slate {first.id!r} something was erased.")
    return events


def _slate_shown(
    places: int, first: dict[str, Any], choices: list[dict[str, Any]], question: Any
) -> dict[str, Any]:
    shares = [one["propensity"] for one in choices if "draws" not in one]
    exact = len(shares) == len(choices) and None not in shares
    return {
        "outcome": "slate" if choices else "abstention",
        "slate": first["id"],
        "places": places,
        "version": first["version"],
        "propensity": (math.prod(shares) if choices else first["propensity"]) if exact else None,
        "question": question,
        "decisions": choices,
    }


def _ids_alone(among: Sequence[CandidateForm | int | str] | None, what: str) -> Any:
    """Return what can be had as ids; raise where a request brings arms along."""
    for one in among or ():
        if isinstance(one, CandidateForm):
            remedy = "Add the arms first, and name them by their ids."
            wanted = f"ids of arms that the agent has, in {what}"
            raise InvalidValue("among", "POST decisions", wanted, {"id": one.id}, remedy)
    return among


def _together(work: UnitOfWork, forms: list[Decide]) -> list[dict[str, Any]] | None:
    """Decide for many callers at once, with the bits of one by one; None if they do not fit."""
    first, aggregate = forms[0], work.aggregate
    may_ask = aggregate.state.settings.budget > 0
    for form in forms:
        if (
            form.played is not None
            or form.k is not None
            or (form.ask and may_ask)
            or form.propensity != first.propensity
            or form.among != first.among
            or (form.id is None) != (first.id is None)
        ):
            return None
    among: Any = first.among
    if any(isinstance(one, CandidateForm) for one in among or ()):
        return None
    ids = [form.id for form in forms if form.id is not None]
    digests: list[bytes | None] | None = None
    if ids:
        if len(set(ids)) != len(ids) or any(work.find_many("decision", ids)):
            return None
        digests = [digest_of(form) for form in forms]
    made = aggregate.agent.make.decided_many(
        _rows(forms),
        among,
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
    if form.k is not None:
        remedy = "Decide each slate by itself."
        raise InvalidValue("k", "POST decisions", "left out in a batch", form.k, remedy)
    among = _ids_alone(form.among, "a batch")
    ids = [item.id for item in items if item.id is not None]
    if ids and len(ids) != len(items):
        raise NotPossible("Give every decision of a batch an id, or none.")
    digests: list[bytes | None] = [None] * len(items)
    if ids:
        if len(set(ids)) != len(ids):
            raise InvalidValue("id", "POST decisions", "distinct in a batch", "one of them twice")
        how = form.model_dump_json(exclude={"decisions", "k"})
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
        among,
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
    out = [
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
    if propensity:
        for i, choice in enumerate(out):
            draws = made.draws(i)
            if draws is not None:
                choice["draws"] = draws
    return out


def choice_of(made: Decision | Abstention | Question | Event) -> Choice:
    """Return what came of a decision, from what was just made or from its event in the log."""
    return Choice(**plain_choice(made))


def plain_choice(made: Decision | Abstention | Question | Event) -> dict[str, Any]:
    """Return the same as plain JSON values, which is faster."""
    filed = None
    event: Any = made
    if isinstance(made, Decision | Abstention | Question):
        event = made.event
        if not isinstance(made, Question):
            filed = _filed(made.question)
    if isinstance(event, Decided):
        outcome, id, arm = "decision", event.id, event.arm
    elif isinstance(event, Abstained):
        outcome, id, arm = "abstention", event.id, None
    elif isinstance(event, Asked) and event.decision is not None:
        outcome, id, arm = "question", event.decision, None
        filed = {"id": event.id, "arm": event.arm}
    else:
        raise CorruptState(f"A {type(event).__name__} is no choice.")
    choice = {
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
    if isinstance(event, Decided):
        for name in ("draws", "slate", "place"):
            value = getattr(event, name)
            if value is not None:
                choice[name] = value
    return choice


def _filed(question: Question | None) -> dict[str, Any] | None:
    return None if question is None else {"id": question.id, "arm": question.arm}


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
    form: Reward | SlateReward = call.body
    text = call.path["id"]

    def do(work: UnitOfWork) -> dict[str, Any]:
        if isinstance(form, SlateReward):
            return _slate_rewarded(work, text, form)
        return _rewarded(work, text, form)

    return Reply(200, await call.service.do(call.path["agent"], do))


def _slate_rewarded(work: UnitOfWork, text: str, form: SlateReward) -> dict[str, Any]:
    """Reward the decisions of a slate, all or none: each as if it came under its own id."""
    found = work.find("decision", text)
    if found is None:
        raise UnknownId("decision", text, "No decision of that id was made.")
    if isinstance(found.event, Decided) and found.event.slate != found.event.id:
        remedy = "Reward it by itself, with a value."
        if found.event.slate is not None:
            remedy = f"Give it under the slate's id, {found.event.slate!r}."
        raise NotPossible(f"The decision {text!r} is not the first of a slate. {remedy}")
    _check_made(work, text)
    assert isinstance(found.event, Decided)
    ids = [event.id for event in _slate_of(work, found.event)]
    span = work.aggregate.state.settings.reward_range
    shares = item_rewards(len(ids), form.items, form.slate, span).tolist()
    known = [
        (text_of(id), Reward(value=one)) for id, one in zip(ids, shares, strict=True) if one == one
    ]
    for name, one in known:
        _check_reward(work, name, one)
    outcomes = {name: _rewarded(work, name, one) for name, one in known}
    items = []
    for id, value in zip(ids, shares, strict=True):
        shown = outcomes.get(text_of(id))
        items.append(
            {
                "id": id,
                "value": None if shown is None else value,
                "outcome": None if shown is None else shown["outcome"],
            }
        )
    version = max((one["version"] for one in outcomes.values()), default=work.aggregate.version)
    return {"version": version, "items": items}


def _check_reward(work: UnitOfWork, text: str, form: Reward) -> None:
    """Raise if the decision has another reward, before anything is recorded."""
    if id_of(text) in work.aggregate.state.pending:
        return
    outcome, late = work.find("outcome", text), work.find("late", text)
    if outcome is not None and isinstance(outcome.event, Erased):
        raise NotPossible(f"The decision {text!r} was erased.")
    if outcome is not None and isinstance(outcome.event, Rewarded):
        _same(outcome, digest_of(form), text)
    elif late is not None:
        _same(late, digest_of(form), text)


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
        description="One context, or up to 1,000. With `k`, a slate of several arms for one "
        "context. In shadow mode `played` says what another system played: the reward will be that "
        "arm's.",
        replies={200: (Choice | Choices | Slate, "What came of it: durable when you read this")},
        problems={409: "The id stands for another request"},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/decisions/{id}/reward",
        roles=("agent", "admin"),
        handle=reward,
        body=Reward | SlateReward,
        summary="Reward a decision, or a slate",
        description="One decision: its `value`. A slate, under the id of its first decision: what "
        "`items` earned, each by its place; or what the `slate` earned together, of which each is "
        "credited with an equal share.",
        replies={200: (RewardShown | SlateRewarded, "It is learned, or was late")},
        problems={409: "It has another reward, or nothing was played"},
    ),
)

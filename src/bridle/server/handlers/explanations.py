"""Looking: why a decision came out as it did, what is believed of a context, the log itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from bridle.agent.events import Abstained, Asked, Decided, Erased, Expired, Rewarded
from bridle.agent.queries import Believed
from bridle.api.base import MAX_PAGE
from bridle.api.replies import (
    ArmBelieved,
    BelievedShown,
    EventList,
    EventShown,
    Explained,
    ShadowShown,
)
from bridle.api.requests import EventQuery, WhatIf
from bridle.errors import NotPossible, UnknownId
from bridle.explain.account import account_of
from bridle.server.endpoints import Call, Endpoint, Reply
from bridle.store.aggregate import agent_at, event_of
from bridle.store.log import Store
from bridle.store.writer import UnitOfWork

__all__ = ["ENDPOINTS", "shown_of"]


async def explain(call: Call) -> Reply:
    """Explain a decision, from the agent as it was."""
    store, agent, text = call.service.store, call.path["agent"], call.path["id"]
    account = await call.service.aside(lambda: _account(store, agent, text))
    return Reply(200, {"account": account})


def _account(store: Store, agent: str, text: str) -> dict[str, Any]:
    found = store.find(agent, "settled", [text]) or store.find(agent, "decision", [text])
    if text not in found:
        raise UnknownId("decision", text, "No decision of that id was made.")
    event = _event_at(store, agent, found[text].seq)
    if isinstance(event, Erased):
        raise NotPossible(f"The decision {text!r} was erased.")
    assert isinstance(event, Decided | Abstained | Asked)
    outcome = store.find(agent, "outcome", [text]).get(text)
    reward = None if outcome is None else _event_at(store, agent, outcome.seq)
    value = reward.value if isinstance(reward, Rewarded | Expired) else None
    return account_of(agent_at(store, agent, event.version), event, reward=value).to_json()


def _event_at(store: Store, agent: str, seq: int) -> Any:
    [entry] = store.read(agent, seq - 1, 1)
    return event_of(entry)


async def events(call: Call) -> Reply:
    """Return a part of the log."""
    query: EventQuery = call.query
    store, agent = call.service.store, call.path["agent"]

    def read() -> EventList:
        head = store.head(agent)
        if head is None:
            raise UnknownId("agent", agent, "There is none of that name.")
        entries = store.read(agent, query.after, query.limit)
        shown = [
            EventShown(
                seq=one.seq,
                kind=one.kind,
                hash=one.hash.hex(),
                event=None if one.payload is None else _without_seeds(one.payload),
            )
            for one in entries
        ]
        more = bool(entries) and entries[-1].seq < head.seq
        return EventList(
            events=tuple(shown), next=entries[-1].seq if more else None, head=str(head)
        )

    return Reply(200, await call.service.aside(read))


def _without_seeds(payload: bytes) -> dict[str, Any]:
    """Return an event without what would let somebody predict draws or audits."""
    event: dict[str, Any] = json.loads(payload)
    if event["event"] in ("AuditBegun", "Promised"):
        event["seed"] = None
    elif event["event"] == "Created":
        event["settings"]["seed"] = None
    return event


async def believed(call: Call) -> Reply:
    """Return what is believed of a context."""
    form: WhatIf = call.body

    def do(work: UnitOfWork) -> BelievedShown:
        state = work.aggregate.state
        found = work.aggregate.agent.believed(form.context, form.item)
        if form.arms is not None:
            return shown_of(found, [state.arm_number(arm) for arm in form.arms])
        if state.settings.arm_features is None:
            return shown_of(found)
        shown = shown_of(found, range(min(len(found.arms), MAX_PAGE)))
        return shown.model_copy(update={"total": len(found.arms)})

    return Reply(200, await call.service.do(call.path["agent"], do))


def shown_of(found: Believed, numbers: Iterable[int] | None = None) -> BelievedShown:
    """Return what is believed as the API has it: of all arms, or of those of these numbers."""
    certified = found.certified
    return BelievedShown(
        arms=tuple(
            ArmBelieved(
                arm=arm,
                p=float(found.p[k]),
                safe=bool(found.safe[k]),
                possible=bool(found.possible[k]),
                certified=None if certified is None else bool(certified[k]),
                playable=bool(found.playable[k]),
                why_not=found.why[k],
                novelty=float(found.novelty[k]),
                unseen=tuple(found.unseen[k]),
            )
            for k in (range(len(found.arms)) if numbers is None else numbers)
            for arm in (found.arms[k],)
        )
    )


async def shadows(call: Call) -> Reply:
    """Compare the agent with the system beside which it runs."""

    def do(work: UnitOfWork) -> ShadowShown:
        one = work.aggregate.shadows
        return ShadowShown(
            decisions=one.decisions,
            agreed=one.agreed,
            abstained=one.abstained,
            denied_ours=one.denied_ours,
            denied_theirs=one.denied_theirs,
            believed_ours=one.believed_ours,
            believed_theirs=one.believed_theirs,
        )

    return Reply(200, await call.service.do(call.path["agent"], do))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/agents/{agent}/decisions/{id}",
        roles=("teacher", "auditor", "admin"),
        handle=explain,
        summary="Explain a decision",
        description="Every arm's reward and constraint part, what each feature gave, the odds, "
        "what other sigmas would have done, and the examples that mattered most.",
        replies={200: (Explained, "From the agent as it was at that version")},
        problems={409: "It was erased"},
    ),
    Endpoint(
        method="GET",
        path="/v1/agents/{agent}/events",
        roles=("auditor", "admin"),
        handle=events,
        query=EventQuery,
        summary="Read the log",
        replies={200: (EventList, "In order. Seeds are left out")},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/believed",
        roles=("teacher", "auditor", "admin"),
        handle=believed,
        body=WhatIf,
        summary="Say what is believed of a context",
        replies={200: (BelievedShown, "Of every arm, and why it may not be played")},
    ),
    Endpoint(
        method="GET",
        path="/v1/agents/{agent}/shadow",
        roles=("auditor", "admin"),
        handle=shadows,
        summary="Compare with the system beside which it runs",
        replies={200: (ShadowShown, "Agreement, and the violations of each")},
    ),
)

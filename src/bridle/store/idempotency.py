"""Idempotency keys: the names that an event has, and that may stand once in a log.

A name is a space and an id. The database keeps them unique, so that whatever fails or is sent
twice, a decision is made once and has one outcome, and an example begins once. A new kind of event
that has a name, or that is about something with one, says so here and nowhere else in the store.
"""

from __future__ import annotations

from bridle.agent.config import ItemId
from bridle.agent.events import (
    Abstained,
    Asked,
    Audited,
    Decided,
    Event,
    Expired,
    Judged,
    Lapsed,
    Retracted,
    Rewarded,
    RewardedLate,
    Shadowed,
    Taught,
)
from bridle.agent.state import AgentState
from bridle.store.log import Name

__all__ = ["id_of", "ids_in", "names_of", "text_of"]


def text_of(id: ItemId) -> str:
    """Return an id as it stands among the names of a log."""
    return id if isinstance(id, str) else str(id)


def id_of(text: str) -> ItemId:
    """Return the id of which `text_of` made this."""
    plain = text.isascii() and text.isdigit() and len(text) < 17 and not text.startswith("0")
    return int(text) if plain else text


def names_of(event: Event, state: AgentState, digest: bytes | None = None) -> tuple[Name, ...]:
    """Return the names of an event that is about to be folded.

    `digest` is of the request that led to it. A decision that asks is named by its question, and
    again, as settled, when it is made. The judgement of a play that a check's coin chose has the
    name of its decision. The word of one of several teachers has its own, if whoever sent it gave
    it one.
    """
    waiting = state.questions.waiting
    if isinstance(event, Decided | Abstained):
        space = "settled" if event.id in waiting else "decision"
        return (Name(space, text_of(event.id), digest),)
    if isinstance(event, Asked):
        mine = Name("question", text_of(event.id), digest)
        first = event.decision is not None and event.decision not in waiting
        if first and state.settings.on_doubt == "wait":
            assert event.decision is not None
            return (Name("decision", text_of(event.decision), digest), mine)
        return (mine,)
    if isinstance(event, Taught):
        mine = Name("example", text_of(event.id), digest)
        if event.check is not None:
            return (mine, Name("check", text_of(event.check), digest))
        if event.question is None:
            return (mine,)
        return (mine, Name("answer", text_of(event.question), digest))
    if isinstance(event, Judged):
        return () if event.id is None else (Name("word", text_of(event.id), digest),)
    if isinstance(event, Lapsed):
        return (Name("answer", text_of(event.question), digest),)
    if isinstance(event, Retracted):
        return (Name("retraction", text_of(event.example), digest),)
    if isinstance(event, Rewarded | Expired):
        return (Name("outcome", text_of(event.decision), digest),)
    if isinstance(event, RewardedLate):
        return (Name("late", text_of(event.decision), digest),)
    if isinstance(event, Shadowed):
        return (Name("shadow", text_of(event.decision), digest),)
    if isinstance(event, Audited):
        return (Name("judgement", text_of(event.decision), digest),)
    return ()


def ids_in(event: Event) -> set[tuple[str, str]]:
    """Return the decisions, questions and examples that an event is about, by space and id."""
    named: dict[str, ItemId | None] = {}
    if isinstance(event, Decided):
        # The places of a slate hold the same context.
        named = {"decision": event.id, "slate": event.slate}
    elif isinstance(event, Abstained):
        named = {"decision": event.id}
    elif isinstance(event, Rewarded | Expired | RewardedLate | Shadowed | Audited):
        named = {"decision": event.decision}
    elif isinstance(event, Asked):
        named = {"question": event.id, "decision": event.decision}
    elif isinstance(event, Taught):
        # Not what it replaces: that may be of another decision about the same item. It stands
        # again if this goes; and if that goes, this replaces nothing (`aggregate.without_erased`).
        named = {"example": event.id, "question": event.question, "decision": event.check}
    elif isinstance(event, Judged):
        named = {"example": event.id, "question": event.question, "decision": event.check}
    elif isinstance(event, Lapsed):
        named = {"question": event.question}
    elif isinstance(event, Retracted):
        named = {"example": event.example}
    return {(space, text_of(id)) for space, id in named.items() if id is not None}

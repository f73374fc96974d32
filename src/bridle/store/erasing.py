"""Erasing what the log holds of a person: all events that have to do with a decision or an example.

A decision has to do with the questions that came up in it, those with their answers, and so on, and
with the judgement of its play, if a coin chose that: all of them hold the same context. What is
erased stays in the chain as a hash, so the log still verifies. From then on the agent is what it
would be if those events had never been.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridle.errors import InvalidValue, UnknownId
from bridle.events import (
    Abstained,
    Asked,
    Decided,
    Event,
    Expired,
    Lapsed,
    Retracted,
    Rewarded,
    Shadowed,
    Taught,
)
from bridle.notes import Audited, Erasure, RewardedLate
from bridle.settings import ItemId
from bridle.store.keeping import events_in, load, log_head
from bridle.store.kept import payload_of
from bridle.store.naming import text_of
from bridle.store.records import Head, New, Store

__all__ = ["erase"]


def erase(
    store: Store,
    agent: str,
    *,
    decisions: Sequence[str] = (),
    examples: Sequence[str] = (),
    by: str | None = None,
    note: str | None = None,
    at: float | None = None,
) -> Head:
    """Erase all events that name these decisions and examples; give the new head.

    Nobody else may hold this agent in memory: stop the service before. Backups and forks have
    copies of their own, which are not touched.
    """
    log_head(store, agent)
    if not decisions and not examples:
        raise InvalidValue("decisions", "erase", "at least one decision or example", decisions)
    seqs = _places(store, agent, decisions, examples)
    with store.transaction() as transaction:
        transaction.lock([agent])
        event = Erasure(tuple(seqs), by, note, at)
        head = transaction.append(agent, [New("Erasure", payload_of(event))])
        transaction.erase(agent, seqs)
    load(store, agent)  # what is left can be folded
    return head


def _places(
    store: Store, agent: str, decisions: Sequence[str], examples: Sequence[str]
) -> list[int]:
    """Give the sequences of all events that have to do with these, however far around."""
    wanted = {("decision", id) for id in decisions} | {("example", id) for id in examples}
    for space, id in sorted(wanted):
        if id not in store.find(agent, space, [id]):
            raise UnknownId(space, id, "The log has none of that id.")
    found: set[int] = set()
    size = -1
    while size != len(found):  # until a pass over the log adds nothing
        size = len(found)
        for seq, event in enumerate(events_in(store, agent), 1):
            mine = _about(event)
            if seq not in found and not wanted.isdisjoint(mine):
                found.add(seq)
                wanted |= mine
    return sorted(found)


def _about(event: Event) -> set[tuple[str, str]]:
    """Give all that an event names: decisions, questions and examples."""
    named: dict[str, ItemId | None] = {}
    if isinstance(event, Decided | Abstained):
        named = {"decision": event.id}
    elif isinstance(event, Rewarded | Expired | RewardedLate | Shadowed | Audited):
        named = {"decision": event.decision}
    elif isinstance(event, Asked):
        named = {"question": event.id, "decision": event.decision}
    elif isinstance(event, Taught):
        # Not what it replaces: that may be of another decision about the same item. It stands
        # again if this goes; and if that goes, this replaces nothing (`kept.without_erased`).
        named = {"example": event.id, "question": event.question, "decision": event.check}
    elif isinstance(event, Lapsed):
        named = {"question": event.question}
    elif isinstance(event, Retracted):
        named = {"example": event.example}
    return {(space, text_of(id)) for space, id in named.items() if id is not None}

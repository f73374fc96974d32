"""Erasing what the log holds of a person: all events that have to do with a decision or an example.

A decision has to do with the questions that came up in it, those with their answers, and so on, and
with the judgement of its play, if a coin chose that: all of them hold the same context. Where
several teachers are declared, so do their words and the example that these settled. What is erased
stays in the chain as a hash, so the log still verifies. From then on the agent is what it
would be if those events had never been.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from bridle.errors import InvalidValue, UnknownId
from bridle.events import (
    Abstained,
    Asked,
    Created,
    Decided,
    Event,
    Expired,
    Judged,
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

    The word of one of several teachers goes by its own id, as an example does.

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
        spaces = ("example", "word") if space == "example" else (space,)
        if not any(id in store.find(agent, one, [id]) for one in spaces):
            raise UnknownId(space, id, "The log has none of that id.")
    found: set[int] = set()
    declared: set[str] = set()
    size = -1
    while size != len(found):  # until a pass over the log adds nothing
        size = len(found)
        for seq, event in enumerate(events_in(store, agent), 1):
            if isinstance(event, Created):
                declared = {teacher.name for teacher in event.settings.teachers}
            mine, case = _about(event), _case(event, declared)
            # What answers a question or a check goes with that, and not with its case: another
            # decision may have been about the same.
            bound = any(space in ("question", "decision") for space, _ in mine)
            if seq not in found and not wanted.isdisjoint(mine if bound else mine | case):
                found.add(seq)
                wanted |= mine | case
    return sorted(found)


def _case(event: Event, declared: set[str]) -> set[tuple[str, str]]:
    """Name the case of a word of one of several teachers, and of what their words settled.

    What is settled later than it was said names neither a word nor a question, but holds the same
    context: it must go with the words.
    """
    if not isinstance(event, Judged):
        by = event.by if isinstance(event, Taught) else None
        if by is None or not declared or not declared.issuperset(by.split(", ")):
            return set()
    assert isinstance(event, Judged | Taught)
    about = repr((event.context, event.item, event.arm))
    return {("case", hashlib.blake2b(about.encode(), digest_size=16).hexdigest())}


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
    elif isinstance(event, Judged):
        named = {"example": event.id, "question": event.question, "decision": event.check}
    elif isinstance(event, Lapsed):
        named = {"question": event.question}
    elif isinstance(event, Retracted):
        named = {"example": event.example}
    return {(space, text_of(id)) for space, id in named.items() if id is not None}

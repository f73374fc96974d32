"""Several teachers: how often each errs, what their words came to, and whom to ask next.

A request names the teacher who speaks; the token, and `by`, say who sent it in their name. A word
is taken once, by its id, whether or not it settles its case.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from bridle.agent.config import ItemId
from bridle.agent.events import Erased, Event, Judged, StartedAnew, Taught
from bridle.agent.queries import whom_to_ask
from bridle.agent.state import AgentState
from bridle.agent.teachers import Choice, Key
from bridle.api.replies import Judgement, OpenCase, TeacherShown, TeachersShown, WhomShown
from bridle.api.requests import Page
from bridle.errors import Duplicate, InvalidValue, NotPossible
from bridle.server.endpoints import Call, Endpoint, Reply
from bridle.store.aggregate import Aggregate
from bridle.store.writer import Existing, UnitOfWork

__all__ = [
    "ENDPOINTS",
    "WordOutcome",
    "asked_of",
    "closed_by",
    "earlier_outcome",
    "judgement_of",
    "outcome_of",
    "outcomes_of",
    "teacher_of",
    "teachers_of",
    "who_judges",
    "word_id",
    "word_of",
]

MOST_NAMED = 10  # names that an error lists
MOST_OPEN = 5_000  # questions that are looked through for those about an open case
MOST_FOLLOWING = 1_000  # events that one word can lead to


# -- whose word it is ------------------------------------------------------------------------


def teacher_of(state: AgentState, named: str | None) -> str | None:
    """Return which declared teacher speaks; None if the agent has none."""
    names = [teacher.name for teacher in state.teachers.teachers]
    if not names:
        if named is not None:
            wanted = "left out: this agent has no declared teachers"
            raise InvalidValue("teacher", "the request", wanted, named)
        return None
    if named is None and len(names) == 1:
        return names[0]
    if named not in names:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        wanted = f"one of {', '.join(map(repr, names[:MOST_NAMED]))}{more}"
        remedy = "Their words weigh differently, so it must be said whose this is."
        raise InvalidValue("teacher", "the request", wanted, named, remedy)
    return named


def word_id(given: str | None, kind: str, about: str, teacher: str) -> str:
    """Return the id of a word: as given, or one for all that a teacher says of this one thing."""
    if given is not None:
        return given
    said = hashlib.blake2b(f"{about}\0{teacher}".encode(), digest_size=16).hexdigest()
    return f"{kind}/{said}"  # no id of a client has a slash


def word_of(work: UnitOfWork, id: str, digest: bytes) -> Existing | None:
    """Return a word that was taken before; raise on another of the same id."""
    found = work.find("word", id)
    if found is None:
        return None
    if isinstance(found.event, Erased):
        raise NotPossible("What this teacher said of it was erased.")
    if found.digest != digest:
        remedy = "They said something else. If they changed their mind, give this one an id."
        raise Duplicate("word", id, remedy)
    return found


# -- what came of it -------------------------------------------------------------------------


class WordOutcome(NamedTuple):
    """What came of a word: the example that it made, if it settled its case."""

    judged: Judged
    example: ItemId | None
    allowed: bool | None


def outcomes_of(events: Sequence[Event]) -> list[WordOutcome]:
    """Return what came of each word in what was just made."""
    return [
        outcome_of(event, events[n + 1] if n + 1 < len(events) else None)
        for n, event in enumerate(events)
        if isinstance(event, Judged)
    ]


def outcome_of(judged: Judged, following: Event | None) -> WordOutcome:
    """Return what came of a word, by what stands after it in the log."""
    if isinstance(following, Taught) and _about(following) == _about(judged):
        return WordOutcome(judged, following.id, following.allowed)
    return WordOutcome(judged, None, None)


def _about(event: Taught | Judged) -> tuple[Any, ...]:
    return event.context, event.arm, event.item, event.question, event.check


def earlier_outcome(work: UnitOfWork, found: Existing) -> tuple[WordOutcome, list[Event], int]:
    """Return what came of a word that was taken before, what else it led to, and where that ends.

    All that a word settles is written right after it: over HTTP nobody else teaches such an agent.
    """
    assert isinstance(found.event, Judged)
    led: list[Event] = []
    while len(led) < MOST_FOLLOWING:
        event = work.at(found.seq + len(led) + 1)
        if not isinstance(event, Taught) and not (
            isinstance(event, StartedAnew) and event.by is None
        ):
            break
        led.append(event)
    came = outcome_of(found.event, led[0] if led else None)
    return came, led, found.seq + len(led)


def judgement_of(aggregate: Aggregate, came: WordOutcome) -> Judgement:
    """Return the state of the case that a word is about, as of now."""
    state, word = aggregate.state, came.judged
    raw, k = state.raw(word.context), state.arm_number(word.arm)
    key = state.case_key(raw, word.item, k)
    allowed = came.allowed if came.allowed is not None else state.teachers.settled(*key)
    p = state.teachers.posterior(*key, state.prior_of(raw, k))
    following = None
    if allowed is None:
        choice = (
            whom_to_ask(state, raw, word.item, k)
            if word.check is None
            else state.teachers.choose_judge(*key)
        )
        following = _whom(choice)
    return Judgement(
        teacher=word.by,
        allowed=allowed,
        p=p,
        said=state.teachers.said(*key),
        next=following,
        sentence=_sentence(allowed, p, following),
    )


def _sentence(allowed: bool | None, p: float, following: WhomShown | None) -> str:
    if allowed is not None:
        return f"Settled: {'allowed' if allowed else 'not allowed'}."
    said = f"Still open: allowed with a probability of {100 * p:.0f} %."
    if following is None:
        return f"{said} No other answer is worth its price."
    return f"{said} Ask {following.teacher} next."


def closed_by(work: UnitOfWork, made: Iterable[Event]) -> list[ItemId]:
    """Return the open questions whose case was settled by what was just recorded.

    What settled it may have been a word about something else: nobody would answer them any more.
    """
    state = work.aggregate.state
    settled: set[tuple[Key, Key]] = set()
    items, contexts = set(), set()
    for event in made:
        if isinstance(event, Taught):
            raw, k = state.raw(event.context), state.arm_number(event.arm)
            settled.add(state.case_key(raw, event.item, k))
            items.add(event.item)
            contexts.add(raw)
    if not settled:
        return []
    return [
        id
        for id, one in state.questions.open.items()
        if (one.context in contexts if one.item is None else one.item in items)
        and state.case_key(one.context, one.item, one.arm) in settled
    ]


# -- whom to ask -----------------------------------------------------------------------------


def asked_of(state: AgentState, context: bytes, item: Any, arm: int) -> WhomShown | None:
    """Return whom to ask about a case; None if no teachers are declared, or none is worth it."""
    if not state.teachers.teachers:
        return None
    return _whom(whom_to_ask(state, context, item, arm))


def who_judges(state: AgentState, context: bytes, item: Any, arm: int) -> WhomShown | None:
    """Return who judges a play that a coin chose; None if none are declared, or all have."""
    if not state.teachers.teachers:
        return None
    return _whom(state.teachers.choose_judge(*state.case_key(context, item, arm)))


def _whom(choice: Choice | None) -> WhomShown | None:
    if choice is None:
        return None
    return WhomShown(
        teacher=choice.teacher, cost=choice.cost, explores=choice.explores, reason=choice.reason
    )


# -- the view --------------------------------------------------------------------------------


async def teachers(call: Call) -> Reply:
    """Show the teachers, and what stands open."""
    page: Page = call.query
    return Reply(
        200,
        await call.service.do(call.path["agent"], lambda work: teachers_of(work.aggregate, page)),
    )


def teachers_of(aggregate: Aggregate, page: Page) -> TeachersShown:
    """Return how often each teacher errs, and the open cases."""
    state = aggregate.state
    known, rates = state.teachers, state.teachers.rates()
    shown = [
        TeacherShown(
            name=one.name,
            price=one.price,
            rate=rate.mean,
            low=rate.low,
            high=rate.high,
            answers=rate.answers,
            shared=rate.shared,
            told=rate.told,
            known=rate.known,
            trusted=rate.trusted,
            sentence=known.sentence(one.name),
        )
        for one in known.teachers
        for rate in (rates[one.name],)
    ]
    open_ = known.open
    some = open_[page.after : page.after + page.limit]
    asked = {
        state.case_key(one.context, one.item, one.arm): id
        for id, one in islice(state.questions.open.items(), MOST_OPEN if some else 0)
    }
    return TeachersShown(
        version=aggregate.version,
        teachers=tuple(shown),
        open_total=len(open_),
        doubt=known.doubt,
        trust=known.trust,
        open=tuple(_open(state, key, asked.get(key)) for key in some),
    )


def _open(state: AgentState, key: tuple[Key, Key], question: ItemId | None) -> OpenCase:
    case = state.judged[key]
    return OpenCase(
        context=state.settings.features.decode(np.frombuffer(case.context)),
        arm=state.arm_ids[case.arm],
        item=case.item,
        p=state.teachers.posterior(*key, state.prior_of(case.context, case.arm)),
        said=state.teachers.said(*key),
        question=question,
        whom=asked_of(state, case.context, case.item, case.arm),
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/agents/{agent}/teachers",
        roles=("teacher", "auditor", "admin"),
        handle=teachers,
        query=Page,
        summary="Show the teachers and how often each errs",
        description="Also the cases that some have judged and that are not settled: `after` and "
        "`limit` are of these.",
        replies={200: (TeachersShown, "The teachers, and what stands open")},
    ),
)

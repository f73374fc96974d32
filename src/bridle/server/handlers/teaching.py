"""Teaching: examples, what to ask next, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bridle.agent.events import Abstained, Asked, Decided, Erased, Event, Judged, Taught
from bridle.agent.outcomes import Question
from bridle.agent.queries import worth_of
from bridle.api.base import Id
from bridle.api.replies import (
    Answered,
    AnswerShown,
    Choice,
    ExampleList,
    ExampleShown,
    QuestionList,
    QuestionShown,
    TaughtShown,
)
from bridle.api.requests import (
    Answer,
    AskFor,
    Example,
    Life,
    Page,
    QuestionQuery,
    Teach,
    TeachMany,
    digest_of,
)
from bridle.errors import Duplicate, InvalidValue, NotPossible
from bridle.server.endpoints import Call, Endpoint, Reply
from bridle.server.handlers.agents import who
from bridle.server.handlers.decisions import choice_of
from bridle.server.handlers.teachers import (
    WordOutcome,
    asked_of,
    closed_by,
    earlier_outcome,
    judgement_of,
    outcomes_of,
    teacher_of,
    word_id,
    word_of,
)
from bridle.store.aggregate import Aggregate
from bridle.store.idempotency import id_of
from bridle.store.writer import Existing, UnitOfWork

__all__ = ["ENDPOINTS", "close"]


async def teach(call: Call) -> Reply:
    """Teach examples."""
    form: Teach | TeachMany = call.body
    examples = form.examples if isinstance(form, TeachMany) else (form,)
    by = who(call.caller, form.by)

    def do(work: UnitOfWork) -> TaughtShown:
        aggregate = work.aggregate
        more = [] if isinstance(form, Teach) else _life_said(form)
        digests = [digest_of(one, form.note, *more) for one in examples]
        teacher = teacher_of(aggregate.state, form.teacher)
        if teacher is not None:
            return _spoken(work, form, examples, digests, teacher, by)
        pairs = zip(examples, digests, strict=True)
        known = [_taught_before(work, one, digest) for one, digest in pairs]
        if all(found is not None for found in known):
            last = max(found.seq for found in known if found is not None)
            taken: tuple[Id | None, ...] = tuple(one.id or "" for one in examples)
            return TaughtShown(version=last, examples=taken, judgements=None)
        if any(found is not None for found in known):
            raise NotPossible("Some of these examples were taken before, and some were not.")
        _check_end(work, form, "POST examples")
        made: list[Taught] = _made(aggregate.agent.make.taught_many, work, examples, by, form)
        for event, digest in zip(made, digests, strict=True):
            aggregate.record(event, digest)
        taught: tuple[Id | None, ...] = tuple(event.id for event in made)
        return TaughtShown(version=aggregate.version, examples=taught, judgements=None)

    return Reply(201, await call.service.do(call.path["agent"], do))


def _life_said(form: TeachMany) -> list[object]:
    """Return what a batch says of its examples' lives, for their digests; nothing if nothing."""
    said: list[object] = []
    if form.scope != "all" or form.until is not None:
        said += [form.scope, form.until]
    return said if form.teacher is None else [*said, "by", form.teacher]


def _check_end(work: UnitOfWork, form: Life, owner: str) -> None:
    if form.until is not None and form.until <= work.now:
        wanted = f"later than now, which is {work.now:.0f}"
        raise InvalidValue("until", owner, wanted, form.until)


def _spoken(
    work: UnitOfWork,
    form: Teach | TeachMany,
    examples: tuple[Example, ...],
    digests: list[bytes],
    teacher: str,
    by: str | None,
) -> TaughtShown:
    """Teach examples of one of several teachers: each is one if it settles its case."""
    aggregate = work.aggregate
    pairs = zip(examples, digests, strict=True)
    known = [None if one.id is None else word_of(work, one.id, digest) for one, digest in pairs]
    if all(found is not None for found in known):
        earlier = [earlier_outcome(work, found) for found in known if found is not None]
        return _taught_shown(
            aggregate, [came for came, _, _ in earlier], max(end for *_, end in earlier)
        )
    if any(found is not None for found in known):
        raise NotPossible("Some of these examples were taken before, and some were not.")
    _check_end(work, form, "POST examples")
    made = _made(aggregate.agent.make.examples_by, work, examples, teacher, form, who=by).events
    digest = iter(digests)
    for event in made:
        if isinstance(event, Judged):
            mine = next(digest)
        aggregate.record(event, mine)
    shown = _taught_shown(aggregate, outcomes_of(made), aggregate.version)
    close(work, made)
    return shown


def _taught_shown(aggregate: Aggregate, came: list[WordOutcome], version: int) -> TaughtShown:
    return TaughtShown(
        version=version,
        examples=tuple(one.example for one in came),
        judgements=tuple(judgement_of(aggregate, one) for one in came),
    )


def close(work: UnitOfWork, made: Sequence[Event]) -> None:
    """Close the questions that were settled by words about something else; decisions go on."""
    aggregate = work.aggregate
    for id in closed_by(work, made):
        waits = aggregate.state.questions.get(id).decision
        aggregate.record(aggregate.agent.make.lapsed(id, at=work.now))
        _go_on(work, waits)


def _made(
    make: Callable[..., Any],
    work: UnitOfWork,
    examples: tuple[Example, ...],
    by: str | None,
    form: Teach | TeachMany,
    **more: Any,
) -> Any:
    """Make the events of examples; all of a batch have ids of their own, or none has."""
    contexts = [one.context for one in examples]
    arms, allowed = [one.arm for one in examples], [one.allowed for one in examples]
    said: dict[str, Any] = {
        "by": by,
        "note": form.note,
        "scope": form.scope,
        "until": form.until,
        "at": work.now,
        **more,
    }
    if any(one.item is not None for one in examples):
        said["items"] = [one.item for one in examples]
    ids = [one.id for one in examples]
    if all(id is None for id in ids):
        return make(contexts, arms, allowed, **said)
    if all(id is not None for id in ids):
        return make(contexts, arms, allowed, ids=ids, **said)
    raise NotPossible("Give every example of a batch an id, or none.")


def _taught_before(work: UnitOfWork, one: Example, digest: bytes) -> Existing | None:
    if one.id is None:
        return None
    found = work.find("example", one.id)
    if found is None:
        return None
    if isinstance(found.event, Erased):
        raise NotPossible(f"The example {one.id!r} was erased.")
    if found.digest != digest:
        raise Duplicate("example", one.id, "It says something else: give this one another id.")
    return found


async def retract(call: Call) -> Reply:
    """Retract an example."""
    by, text = who(call.caller, None), call.path["id"]

    def do(work: UnitOfWork) -> Answered:
        aggregate = work.aggregate
        before = work.find("retraction", text)
        if before is not None:
            return Answered(version=before.seq)
        aggregate.record(aggregate.agent.make.retracted(id_of(text), by=by, at=work.now))
        return Answered(version=aggregate.version)

    return Reply(200, await call.service.do(call.path["agent"], do))


async def examples(call: Call) -> Reply:
    """List the examples that stand."""
    page: Page = call.query

    def do(work: UnitOfWork) -> ExampleList:
        state = work.aggregate.state
        standing = list(state.examples.values())
        decode = state.settings.features.decode
        some = [
            ExampleShown(
                id=one.id,
                context=decode(np.frombuffer(one.context)),
                arm=state.arm_ids[one.arm],
                allowed=one.allowed,
                by=one.by,
                note=one.note,
                item=one.item,
                scope="item" if one.scope == "item" else "all",
                until=one.until,
            )
            for one in standing[page.after : page.after + page.limit]
        ]
        return ExampleList(examples=tuple(some), total=len(standing))

    return Reply(200, await call.service.do(call.path["agent"], do))


async def questions(call: Call) -> Reply:
    """List the questions that wait."""
    page: QuestionQuery = call.query

    def do(work: UnitOfWork) -> QuestionList:
        state = work.aggregate.state
        waiting = work.aggregate.agent.open_questions
        if page.teacher is not None:
            teacher = teacher_of(state, page.teacher)
            waiting = tuple(one for one in waiting if one.to == teacher)
        decode = state.settings.features.decode
        some = [
            QuestionShown(
                id=one.id,
                context=decode(one.context),
                arm=one.arm,
                decision=one.decision,
                item=one.item,
                worth=one.worth,
                whom=asked_of(state, state.raw(one.context), one.item, state.arm_number(one.arm)),
            )
            for one in waiting[page.after : page.after + page.limit]
        ]
        return QuestionList(questions=tuple(some), total=len(waiting))

    return Reply(200, await call.service.do(call.path["agent"], do))


async def ask(call: Call) -> Reply:
    """Ask for the next question."""
    form: AskFor = call.body
    digest = digest_of(form)

    def do(work: UnitOfWork) -> QuestionShown:
        aggregate = work.aggregate
        if form.id is not None:
            found = work.find("question", form.id)
            if found is not None:
                if found.digest != digest or not isinstance(found.event, Asked):
                    raise Duplicate("question", form.id, "It was asked for by another request.")
                return _question(work, found.event)
        made: Question = aggregate.agent.make.asked(
            form.context, pool=form.pool, item=form.item, id=form.id, at=work.now
        )
        aggregate.record(made.event, digest)
        return _question(work, made.event)

    return Reply(201, await call.service.do(call.path["agent"], do))


def _question(work: UnitOfWork, event: Asked) -> QuestionShown:
    state = work.aggregate.state
    row = np.array(event.context)
    return QuestionShown(
        id=event.id,
        context=state.settings.features.decode(row),
        arm=event.arm,
        decision=event.decision,
        item=event.item,
        worth=worth_of(state, row, state.arm_number(event.arm), event.item),
        whom=asked_of(state, state.raw(event.context), event.item, state.arm_number(event.arm)),
    )


async def answer(call: Call) -> Reply:
    """Answer a question; the decision that waits for it goes on."""
    form: Answer = call.body
    by, text, digest = who(call.caller, form.by), call.path["id"], digest_of(form)

    def do(work: UnitOfWork) -> AnswerShown:
        aggregate = work.aggregate
        if form.answer != "skip":
            teacher = teacher_of(aggregate.state, form.teacher)
            if teacher is not None:
                # A word has an id of its own, which says nothing of the question.
                return _answered_by(work, form, text, digest_of(form, text), teacher, by)
        found = work.find("answer", text)
        if found is not None:
            return _answered_before(work, found, digest, text)
        id, make = id_of(text), aggregate.agent.make
        waits = aggregate.state.questions.get(id).decision
        example = None
        if form.answer == "skip":
            aggregate.record(make.lapsed(id, at=work.now), digest)
        else:
            _check_end(work, form, "POST answer")
            taught = make.answered(
                id,
                form.answer == "allowed",
                by=by,
                note=form.note,
                scope=form.scope,
                until=form.until,
                at=work.now,
            )
            aggregate.record(taught, digest)
            example = taught.id
        then = _go_on(work, waits)
        return AnswerShown(version=aggregate.version, example=example, then=then, judgement=None)

    return Reply(200, await call.service.do(call.path["agent"], do))


def _answered_by(
    work: UnitOfWork, form: Answer, text: str, digest: bytes, teacher: str, by: str | None
) -> AnswerShown:
    """Record the answer of one of several teachers; the question is open until it is settled."""
    aggregate, id = work.aggregate, word_id(form.id, "answer", text, teacher)
    found = word_of(work, id, digest)
    if found is not None:
        return _answered_by_before(work, found, text)
    if work.find("answer", text) is not None:
        remedy = "It is settled, or was skipped. What is known all the same can be taught."
        raise Duplicate("answer", text, remedy)
    _check_end(work, form, "POST answer")
    question = id_of(text)
    waits = aggregate.state.questions.get(question).decision
    made = aggregate.agent.make.answers_by(
        [question],
        [form.answer == "allowed"],
        by=teacher,
        note=form.note,
        scope=form.scope,
        until=form.until,
        at=work.now,
        words=[id],
        who=by,
    )
    for event in made.events:
        aggregate.record(event, digest)
    [came] = outcomes_of(made.events)
    then = None if came.example is None else _go_on(work, waits)
    version, judgement = aggregate.version, judgement_of(aggregate, came)
    close(work, made.events)
    return AnswerShown(version=version, example=came.example, then=then, judgement=judgement)


def _answered_by_before(work: UnitOfWork, found: Existing, text: str) -> AnswerShown:
    """Return the same answer again; of a case that was open then, as it is now."""
    came, _, end = earlier_outcome(work, found)
    then, decision = None, _decision_of(work, text)
    following = None if came.example is None or decision is None else work.at(end + 1)
    if following is not None and _is_of(following, decision):
        then, end = choice_of(following), end + 1
    judgement = judgement_of(work.aggregate, came)
    return AnswerShown(version=end, example=came.example, then=then, judgement=judgement)


def _decision_of(work: UnitOfWork, text: str) -> Id | None:
    """Return the decision that a question came up in, if any."""
    question = work.find("question", text)
    return question.event.decision if question and isinstance(question.event, Asked) else None


def _go_on(work: UnitOfWork, decision: Any) -> Choice | None:
    """Resume the decision that waited for an answer, if one did."""
    aggregate = work.aggregate
    if decision is None or decision not in aggregate.state.questions.waiting:
        return None
    made = aggregate.agent.make.resumed(decision, at=work.now)
    for event in made.events:
        aggregate.record(event)
    return choice_of(made)


def _answered_before(work: UnitOfWork, found: Existing, digest: bytes, text: str) -> AnswerShown:
    """Return the same answer again, or raise on another one."""
    event, version = found.event, found.seq
    if found.digest != digest and not isinstance(event, Erased):
        raise Duplicate("answer", text, "It said something else. Retract the example, and teach.")
    example = event.id if isinstance(event, Taught) else None
    then = None
    decision = _decision_of(work, text)
    # A decision that waited for the answer went on in the same unit of work: it made, or asked,
    # what comes next.
    following = None if decision is None else work.at(found.seq + 1)
    if following is not None and _is_of(following, decision):
        then, version = choice_of(following), found.seq + 1
    return AnswerShown(version=version, example=example, then=then, judgement=None)


def _is_of(event: Event, decision: Id | None) -> bool:
    if isinstance(event, Asked):
        return event.decision == decision
    return isinstance(event, Decided | Abstained) and event.id == decision


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/examples",
        roles=("teacher", "admin"),
        handle=teach,
        body=Teach | TeachMany,
        summary="Teach",
        description="One example, or up to 1,000, all or none. The word of one of several teachers "
        "is an example once it, or it with others', settles its case.",
        replies={201: (TaughtShown, "They are taken")},
        problems={409: "An id stands for another example"},
    ),
    Endpoint(
        method="GET",
        path="/v1/agents/{agent}/examples",
        roles=("teacher", "auditor", "admin"),
        handle=examples,
        query=Page,
        summary="List the examples that stand",
        replies={200: (ExampleList, "In the order in which they were taught")},
    ),
    Endpoint(
        method="DELETE",
        path="/v1/agents/{agent}/examples/{id}",
        roles=("teacher", "admin"),
        handle=retract,
        summary="Retract an example",
        description="It is an event: earlier decisions replay at their own version, with it.",
        replies={200: (Answered, "It is retracted")},
    ),
    Endpoint(
        method="GET",
        path="/v1/agents/{agent}/questions",
        roles=("teacher", "auditor", "admin"),
        handle=questions,
        query=QuestionQuery,
        summary="List the questions that wait",
        replies={200: (QuestionList, "The most valuable first")},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/questions",
        roles=("teacher", "admin"),
        handle=ask,
        body=AskFor,
        summary="Ask what to teach next",
        replies={201: (QuestionShown, "The question")},
        problems={409: "There is nothing to ask about, or the id stands for another question"},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/questions/{id}/answer",
        roles=("teacher", "admin"),
        handle=answer,
        body=Answer,
        summary="Answer a question",
        description="Where several teachers are declared, the question stays open until their "
        "words settle it.",
        replies={200: (AnswerShown, "The answer is taken, and the decision went on")},
        problems={409: "It was answered otherwise"},
    ),
)

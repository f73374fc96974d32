"""Teaching: examples, what to ask next, and the answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from bridle.decisions import Question
from bridle.errors import Duplicate, InvalidValue, NotPossible
from bridle.events import Abstained, Asked, Decided, Event, Taught
from bridle.notes import Erased
from bridle.reading import worth_of
from bridle.service.agents import who
from bridle.service.choices import Choice, choice_of
from bridle.service.endpoints import Call, Endpoint, Reply
from bridle.service.forms import (
    MAX_BATCH,
    Answered,
    ArmName,
    ClientId,
    ContextForm,
    Form,
    Id,
    ItemName,
    Page,
    Said,
    digest_of,
)
from bridle.store.naming import id_of
from bridle.store.writing import Desk, Stood

__all__ = ["ENDPOINTS"]


class Example(Form):
    """What a teacher says of an arm in a context."""

    context: ContextForm
    arm: ArmName
    allowed: bool
    item: ItemName | None = None
    id: ClientId | None = None


class Life(Form):
    """Of what an example speaks, and for how long."""

    scope: Annotated[
        Literal["all", "item"],
        Field(description="Of all that looks like it, or of this very item alone"),
    ] = "all"
    until: Annotated[
        float | None,
        Field(ge=0, le=1e12, description="When it ends, in seconds since 1970; null: never"),
    ] = None


class Teach(Said, Life, Example):
    """One example. It replaces what the same teacher said before of the same item and unit."""


class TeachMany(Said, Life):
    """Up to 1,000 examples: all are taken, or none. `scope` and `until` are of all of them."""

    examples: Annotated[tuple[Example, ...], Field(min_length=1, max_length=MAX_BATCH)]


class TaughtShown(Answered):
    """What was taken."""

    examples: list[Id]


class ExampleShown(Form):
    """An example that stands."""

    id: Id
    context: dict[str, Any]
    arm: ArmName
    allowed: bool
    by: str | None
    note: str | None
    item: ItemName | None
    scope: Literal["all", "item"]
    until: float | None


class ExampleList(Form):
    """Examples that stand, in the order in which they were taught."""

    examples: list[ExampleShown]
    total: int


class QuestionShown(Form):
    """A question that waits for its answer. `decision`: the one it came up in, if any.

    `worth`: what its answer is worth now, in rewards; null beyond the oldest 1,000 questions. Of
    agents from before answers had a price it is what the answer would teach, in nats.
    """

    id: Id
    context: dict[str, Any]
    arm: ArmName
    decision: Id | None
    item: ItemName | None
    worth: float | None


class QuestionList(Form):
    """Questions that wait: the most valuable first, of equals the oldest."""

    questions: list[QuestionShown]
    total: int


class AskFor(Form):
    """Ask for the next question: about this context, out of this pool, or out of what was met.

    `item` is of the context; in a pool contexts name their items themselves, by an `id` feature.
    """

    context: ContextForm | None = None
    item: ItemName | None = None
    pool: Annotated[tuple[ContextForm, ...], Field(min_length=1, max_length=MAX_BATCH)] | None = (
        None
    )
    id: ClientId | None = None


class Answer(Said):
    """The teacher's answer; or `skip`, if nobody will answer."""

    answer: Literal["allowed", "denied", "skip"]


class AnswerShown(Answered):
    """What became of an answer: the example that it made, and the decision that went on."""

    example: Id | None
    then: Choice | None


async def teach(call: Call) -> Reply:
    """Take examples."""
    form: Teach | TeachMany = call.body
    examples = form.examples if isinstance(form, TeachMany) else (form,)
    by = who(call.caller, form.by)

    def do(desk: Desk) -> TaughtShown:
        kept = desk.kept
        more = [] if isinstance(form, Teach) else _life_said(form)
        digests = [digest_of(one, form.note, *more) for one in examples]
        pairs = zip(examples, digests, strict=True)
        known = [_taught_before(desk, one, digest) for one, digest in pairs]
        if all(found is not None for found in known):
            last = max(found.seq for found in known if found is not None)
            return TaughtShown(version=last, examples=[one.id or "" for one in examples])
        if any(found is not None for found in known):
            raise NotPossible("Some of these examples were taken before, and some were not.")
        if form.until is not None and form.until <= desk.now:
            wanted = f"later than now, which is {desk.now:.0f}"
            raise InvalidValue("until", "POST examples", wanted, form.until)
        made = _made(desk, examples, by, form)
        for event, digest in zip(made, digests, strict=True):
            kept.record(event, digest)
        return TaughtShown(version=kept.version, examples=[event.id for event in made])

    return Reply(201, await call.service.do(call.path["agent"], do))


def _life_said(form: Life) -> list[object]:
    """Return what a batch says of its examples' lives, for their digests; nothing if nothing."""
    return [] if form.scope == "all" and form.until is None else [form.scope, form.until]


def _made(
    desk: Desk, examples: tuple[Example, ...], by: str | None, form: Teach | TeachMany
) -> list[Taught]:
    """Make the events of examples; those with ids of their own and those without may be mixed."""
    make = desk.kept.agent.make
    contexts = [one.context for one in examples]
    arms, allowed = [one.arm for one in examples], [one.allowed for one in examples]
    said: dict[str, Any] = {
        "by": by, "note": form.note, "scope": form.scope, "until": form.until, "at": desk.now,
    }  # fmt: skip
    if any(one.item is not None for one in examples):
        said["items"] = [one.item for one in examples]
    ids = [one.id for one in examples]
    if all(id is None for id in ids):
        return make.taught_many(contexts, arms, allowed, **said)
    if all(id is not None for id in ids):
        return make.taught_many(contexts, arms, allowed, ids=ids, **said)  # type: ignore[arg-type]
    raise NotPossible("Give every example of a batch an id, or none.")


def _taught_before(desk: Desk, one: Example, digest: bytes) -> Stood | None:
    if one.id is None:
        return None
    found = desk.stood("example", one.id)
    if found is None:
        return None
    if isinstance(found.event, Erased):
        raise NotPossible(f"The example {one.id!r} was erased.")
    if found.digest != digest:
        raise Duplicate("example", one.id, "It says something else: give this one another id.")
    return found


async def retract(call: Call) -> Reply:
    """Take an example back."""
    by, text = who(call.caller, None), call.path["id"]

    def do(desk: Desk) -> Answered:
        kept = desk.kept
        before = desk.stood("retraction", text)
        if before is not None:
            return Answered(version=before.seq)
        kept.record(kept.agent.make.retracted(id_of(text), by=by, at=desk.now))
        return Answered(version=kept.version)

    return Reply(200, await call.service.do(call.path["agent"], do))


async def examples(call: Call) -> Reply:
    """List the examples that stand."""
    page: Page = call.query

    def do(desk: Desk) -> ExampleList:
        know = desk.kept.know
        standing = list(know.examples.values())
        decode = know.settings.features.decode
        some = [
            ExampleShown(
                id=one.id, context=decode(np.frombuffer(one.context)), arm=know.arm_ids[one.arm],
                allowed=one.allowed, by=one.by, note=one.note, item=one.item,
                scope="item" if one.scope == "item" else "all", until=one.until,
            )
            for one in standing[page.after : page.after + page.limit]
        ]  # fmt: skip
        return ExampleList(examples=some, total=len(standing))

    return Reply(200, await call.service.do(call.path["agent"], do))


async def questions(call: Call) -> Reply:
    """List the questions that wait."""
    page: Page = call.query

    def do(desk: Desk) -> QuestionList:
        waiting = desk.kept.agent.open_questions
        decode = desk.kept.know.settings.features.decode
        some = [
            QuestionShown(
                id=one.id, context=decode(one.context), arm=one.arm, decision=one.decision,
                item=one.item, worth=one.worth,
            )
            for one in waiting[page.after : page.after + page.limit]
        ]  # fmt: skip
        return QuestionList(questions=some, total=len(waiting))

    return Reply(200, await call.service.do(call.path["agent"], do))


async def ask(call: Call) -> Reply:
    """Ask for the next question."""
    form: AskFor = call.body
    digest = digest_of(form)

    def do(desk: Desk) -> QuestionShown:
        kept = desk.kept
        if form.id is not None:
            found = desk.stood("question", form.id)
            if found is not None:
                if found.digest != digest or not isinstance(found.event, Asked):
                    raise Duplicate("question", form.id, "It was asked for by another request.")
                return _question(desk, found.event)
        made: Question = kept.agent.make.asked(
            form.context, pool=form.pool, item=form.item, id=form.id, at=desk.now
        )
        kept.record(made.event, digest)
        return _question(desk, made.event)

    return Reply(201, await call.service.do(call.path["agent"], do))


def _question(desk: Desk, event: Asked) -> QuestionShown:
    know = desk.kept.know
    row = np.array(event.context)
    return QuestionShown(
        id=event.id, context=know.settings.features.decode(row), arm=event.arm,
        decision=event.decision, item=event.item,
        worth=worth_of(know, row, know.arm_number(event.arm), event.item),
    )  # fmt: skip


async def answer(call: Call) -> Reply:
    """Take the answer to a question; the decision that waits for it goes on."""
    form: Answer = call.body
    by, text, digest = who(call.caller, form.by), call.path["id"], digest_of(form)

    def do(desk: Desk) -> AnswerShown:
        kept = desk.kept
        found = desk.stood("answer", text)
        if found is not None:
            return _answered_before(desk, found, digest, text)
        id, make = id_of(text), kept.agent.make
        waits = kept.know.questions.get(id).decision
        example = None
        if form.answer == "skip":
            kept.record(make.lapsed(id, at=desk.now), digest)
        else:
            taught = make.answered(id, form.answer == "allowed", by=by, note=form.note, at=desk.now)
            kept.record(taught, digest)
            example = taught.id
        then = _go_on(desk, waits)
        return AnswerShown(version=kept.version, example=example, then=then)

    return Reply(200, await call.service.do(call.path["agent"], do))


def _go_on(desk: Desk, decision: Any) -> Choice | None:
    """Go on with the decision that waited for an answer, if one did."""
    kept = desk.kept
    if decision is None or decision not in kept.know.questions.waiting:
        return None
    made = kept.agent.make.resumed(decision, at=desk.now)
    for event in made.events:
        kept.record(event)
    return choice_of(made)


def _answered_before(desk: Desk, found: Stood, digest: bytes, text: str) -> AnswerShown:
    """Give the same answer again, or refuse another one."""
    event, version = found.event, found.seq
    if found.digest != digest and not isinstance(event, Erased):
        raise Duplicate("answer", text, "It said something else. Retract the example, and teach.")
    example = event.id if isinstance(event, Taught) else None
    then = None
    question = desk.stood("question", text)
    decision = question.event.decision if question and isinstance(question.event, Asked) else None
    # A decision that waited for the answer went on in the same piece of work: it made, or asked,
    # what comes next.
    following = None if decision is None else desk.at(found.seq + 1)
    if following is not None and _is_of(following, decision):
        then, version = choice_of(following), found.seq + 1
    return AnswerShown(version=version, example=example, then=then)


def _is_of(event: Event, decision: Id | None) -> bool:
    if isinstance(event, Asked):
        return event.decision == decision
    return isinstance(event, Decided | Abstained) and event.id == decision


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST", path="/v1/agents/{agent}/examples", roles=("teacher", "admin"),
        handle=teach, body=Teach | TeachMany, summary="Teach",
        description="One example, or up to 1,000, all or none.",
        replies={201: (TaughtShown, "They are taken")},
        problems={409: "An id stands for another example"},
    ),
    Endpoint(
        method="GET", path="/v1/agents/{agent}/examples", roles=("teacher", "auditor", "admin"),
        handle=examples, query=Page, summary="List the examples that stand",
        replies={200: (ExampleList, "In the order in which they were taught")},
    ),
    Endpoint(
        method="DELETE", path="/v1/agents/{agent}/examples/{id}", roles=("teacher", "admin"),
        handle=retract, summary="Retract an example",
        description="It is an event: earlier decisions replay at their own version, with it.",
        replies={200: (Answered, "It is retracted")},
    ),
    Endpoint(
        method="GET", path="/v1/agents/{agent}/questions", roles=("teacher", "auditor", "admin"),
        handle=questions, query=Page, summary="List the questions that wait",
        replies={200: (QuestionList, "The most valuable first")},
    ),
    Endpoint(
        method="POST", path="/v1/agents/{agent}/questions", roles=("teacher", "admin"),
        handle=ask, body=AskFor, summary="Ask what to teach next",
        replies={201: (QuestionShown, "The question")},
        problems={409: "There is nothing to ask about, or the id stands for another question"},
    ),
    Endpoint(
        method="POST", path="/v1/agents/{agent}/questions/{id}/answer",
        roles=("teacher", "admin"), handle=answer, body=Answer, summary="Answer a question",
        replies={200: (AnswerShown, "The answer is taken, and the decision went on")},
        problems={409: "It was answered otherwise"},
    ),
)  # fmt: skip

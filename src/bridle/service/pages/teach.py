"""Teaching by clicking: one question at a time, and what came of it so far."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from bridle.errors import Duplicate, UnknownId
from bridle.events import Asked, Taught
from bridle.features import Category, Flag, Id, Labels, Schema
from bridle.service import teaching
from bridle.service.agents import who
from bridle.service.pages import examples
from bridle.service.pages.nextquestion import (
    Found,
    Next,
    context_form,
    next_question,
    pair_of,
    question_id,
)
from bridle.service.pages.page import Html, Page, Redirect, Shown, Visit
from bridle.service.pages.progress import Progress, progress_of
from bridle.service.pages.rendering import url
from bridle.service.pages.saying import said_of
from bridle.service.pages.words import number_words, schema_context_words
from bridle.service.problems import Problem
from bridle.service.teaching import Answer, AnswerShown, AskFor, QuestionShown, Teach
from bridle.settings import Arm, ArmId, ItemId
from bridle.store.naming import id_of
from bridle.store.writing import Desk

__all__ = ["PAGES"]

MOST_SKIPPED = 20
MOST_AGAIN = 100  # times that the same form is sent, and what it taught taken back
MOST_LINES = 12  # of a context that are shown at once; the rest is folded away
MOST_WORDS = 6  # parts of a context in the question itself
ANSWERS = ("allowed", "denied", "skip")


class Question(NamedTuple):
    """A question as it is shown. `id` is None where it is not filed: an answer is an example."""

    id: ItemId | None
    live: bool
    title: str
    lines: list[tuple[str, str]]
    arm: Arm
    pair: str
    context: str
    key: str
    item: ArmId | None


class _Look(NamedTuple):
    """What was read of the agent for one page."""

    found: Found
    progress: Progress
    id: str
    key: str
    context: Any
    schema: Schema
    arms: list[Arm]
    numbers: dict[ArmId, int]


# -- the page ------------------------------------------------------------------------------------


async def show(visit: Visit) -> Shown:
    """Show the next question, and how far teaching is."""
    skipped = _skipped(visit.query.get("skipped"))
    teacher, mine, undone = _teacher(visit), _mine(visit), visit.query.get("undone")

    def read(desk: Desk) -> _Look:
        kept, know = desk.kept, desk.kept.know
        found = next_question(kept, teacher, desk.now, skipped)
        question = found.question
        return _Look(
            found,
            progress_of(desk, mine, undone),
            question_id(teacher, kept.version, desk.now),
            f"said.{teacher}.{kept.version}",
            None if question is None else context_form(know, question.context),
            know.settings.features,
            know.arms,
            know.number_of,
        )

    look = await visit.service.do(visit.agent, read)
    if look.found.settled is not None:  # it would wait for ever
        await visit.api(teaching.answer, Answer(answer="skip"), id=str(look.found.settled))
    following = look.found.question
    question = None if following is None else await _question(visit, look, following)
    return Html(
        "teach.html",
        {
            "agent": visit.agent, "question": question, "live": look.found.live,
            "progress": look.progress, "mine": mine, "most_lines": MOST_LINES,
            "skipped": ".".join(skipped),
        },
    )  # fmt: skip


async def _question(visit: Visit, look: _Look, following: Next) -> Question:
    """Give a question as it is shown; it is filed, if it is to be."""
    id, arm = following.id, following.arm
    if following.file:
        try:
            asked: QuestionShown = await visit.api(
                teaching.ask, AskFor(context=look.context, id=look.id)
            )
            id, arm = asked.id, look.numbers[asked.arm]
        except Duplicate:  # asked for twice in one second, of other contexts
            pass
    pair = pair_of(following.context, arm)
    said = json.dumps({"context": look.context, "arm": look.arms[arm].id})
    return Question(
        id, following.decision is not None, short_words(look.schema, look.context),
        _lines(look.schema, look.context), look.arms[arm], pair, said,
        f"{look.key}.{pair}", following.item,
    )  # fmt: skip


def _lines(schema: Schema, context: dict[str, Any]) -> list[tuple[str, str]]:
    """Give a context line by line; where some are folded away, those that hold nothing."""
    lines = schema_context_words(schema, context)
    if len(lines) > MOST_LINES:
        lines.sort(key=lambda line: line[1] in ("no", "none", "not known"))
    return lines


def short_words(schema: Schema, context: dict[str, Any]) -> str:
    """Give what a context holds, without the names that go without saying.

    Examples
    --------
    >>> schema = Schema(
    ...     [Labels("genres", ["Drama", "Horror"]), Flag("late"), Category("age", ["12"])]
    ... )
    >>> short_words(schema, {"genres": ["Drama", "Horror"], "late": False, "age": "12"})
    'Drama, Horror · 12'
    """
    parts = []
    for feature in schema.features:
        value = context.get(feature.name)
        if isinstance(feature, Id):
            continue
        if isinstance(feature, Flag):
            parts += [feature.name] if value else []
        elif isinstance(feature, Category):
            parts += [] if value is None else [str(value)]
        elif isinstance(feature, Labels):
            parts += [", ".join(value)] if value else []
        else:
            parts.append(f"{feature.name} {number_words(value)} {feature.unit or ''}".rstrip())
    more = " …" if len(parts) > MOST_WORDS else ""
    return " · ".join(parts[:MOST_WORDS]) + more or "Nothing special"


# -- what a teacher does -------------------------------------------------------------------------


async def answer(visit: Visit) -> Shown:
    """Take the answer to a question that was filed."""
    question, given = visit.form.need("question"), _answer(visit)
    said = ""
    try:
        form = Answer(answer=given, **said_of(visit))
        taken: AnswerShown = await visit.api(teaching.answer, form, id=question)
        stands = await _stands(visit, taken.example)
    except (Duplicate, UnknownId):
        stands = False
    if not stands and given != "skip":
        said = await _anyway(visit, question, given == "allowed")
    return _onward(visit, skip=given == "skip", said=said)


async def _stands(visit: Visit, example: ItemId | None) -> bool:
    """Say whether an example stands: an answer that is sent again may have been taken back."""
    return await visit.service.do(visit.agent, lambda desk: example in desk.kept.know.examples)


async def _anyway(visit: Visit, question: str, allowed: bool) -> str:
    """Take an answer to a question that is closed by now: as an example, beside what stands."""
    mine = _mine(visit)

    def read(desk: Desk) -> tuple[Any, ArmId, ArmId | None, bool | None, str | None]:
        asked, before = desk.stood("question", question), desk.stood("answer", question)
        if asked is None or not isinstance(asked.event, Asked):
            raise UnknownId("question", question, "It was never asked, or was erased.")
        know = desk.kept.know
        context = context_form(know, know.raw(asked.event.context))
        taught = before.event if before is not None else None
        if not isinstance(taught, Taught) or taught.id not in know.examples:
            return context, asked.event.arm, asked.event.item, None, None
        return context, asked.event.arm, asked.event.item, taught.allowed, taught.by

    context, arm, item, before, by = await visit.service.do(visit.agent, read)
    if before is not None and by == mine:
        return "again" if before == allowed else "before"
    id = await _free(visit, f"also.{_teacher(visit)}.{_short(question)}")
    try:
        await visit.api(
            teaching.teach,
            Teach(context=context, arm=arm, item=item, allowed=allowed, id=id, **said_of(visit)),
        )
    except Duplicate:
        return "before"
    return "disagree" if before is not None and before != allowed else "late"


async def _free(visit: Visit, id: str) -> str:
    """Give the id of an example; another, if one of that id was taken back.

    So a form that is sent twice teaches once, and one that is sent again after undo teaches anew.
    """

    def read(desk: Desk) -> str:
        for n in range(MOST_AGAIN):
            name = f"{id}.{n}" if n else id
            if desk.stood("example", name) is None or id_of(name) in desk.kept.know.examples:
                return name
        raise Problem("conflict", "This was said and taken back too often.")

    return await visit.service.do(visit.agent, read)


async def say(visit: Visit) -> Shown:
    """Take an example: of a question that was not filed, or in the place of one taken back."""
    given = _answer(visit)
    if given == "skip":
        return _onward(visit, skip=True)
    try:
        about = json.loads(visit.form.need("about"))
        context, arm = about["context"], about["arm"]
    except (ValueError, TypeError, LookupError, RecursionError):
        raise Problem("malformed", "The form is not as the page made it.") from None
    form = Teach(
        context=context, arm=arm, allowed=given == "allowed",
        id=await _free(visit, visit.form.need("key")), **said_of(visit),
    )  # fmt: skip
    said = ""
    try:
        await visit.api(teaching.teach, form)
    except Duplicate:
        said = "before"
    return _onward(visit, said=said)


async def undo(visit: Visit) -> Shown:
    """Take the last example back."""
    example = visit.form.need("example")
    await visit.api(teaching.retract, id=example)
    return _onward(visit, undone=str(id_of(example)))


# -- small parts ---------------------------------------------------------------------------------


def _onward(visit: Visit, *, skip: bool = False, undone: str = "", said: str = "") -> Redirect:
    """Go to the next question; what was skipped goes along, so that it does not come again."""
    skipped = _skipped(visit.form.get("skipped"))
    if skip:
        skipped = _skipped(".".join([*skipped, visit.form.get("pair")]))
    address = url(
        "agents", visit.agent, "teach", skipped=".".join(skipped), undone=undone, said=said
    )
    return Redirect(address)


def _skipped(text: str) -> list[str]:
    """Read which pairs were skipped, the latest at the end."""
    pairs = [pair for pair in text.split(".") if len(pair) < 40 and "-" in pair]
    return [*dict.fromkeys(reversed(pairs))][:MOST_SKIPPED][::-1]


def _answer(visit: Visit) -> Any:
    given = visit.form.need("answer")
    if given not in ANSWERS:
        raise Problem("invalid_value", f"{given[:40]!r} is no answer.", field="answer")
    return given


def _teacher(visit: Visit) -> str:
    return visit.caller.id if visit.caller is not None else "nobody"


def _mine(visit: Visit) -> str | None:
    """Give how the log names who has signed in."""
    return who(visit.caller, said_of(visit)["by"])


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


_TEACHES = (
    "POST /v1/agents/{agent}/examples",
    "POST /v1/agents/{agent}/questions",
    "POST /v1/agents/{agent}/questions/{id}/answer",
    "DELETE /v1/agents/{agent}/examples/{id}",
)

PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/teach", handle=show, like=_TEACHES),
    Page(method="POST", path="/agents/{agent}/teach/answer", handle=answer, like=_TEACHES),
    Page(method="POST", path="/agents/{agent}/teach/say", handle=say, like=_TEACHES),
    Page(method="POST", path="/agents/{agent}/teach/undo", handle=undo, like=_TEACHES),
    *examples.PAGES,
)

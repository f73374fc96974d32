"""Teaching by clicking: one question at a time, and what came of it so far."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from bridle.agent.config import Arm, ArmId, ItemId
from bridle.agent.events import Asked, Taught
from bridle.api.replies import AnswerShown, QuestionShown, TaughtShown
from bridle.api.requests import Answer, AskFor, Teach
from bridle.errors import Duplicate, InvalidValue, NotPossible, UnknownId
from bridle.schema import Schema
from bridle.server.handlers import teaching
from bridle.server.handlers.agents import who
from bridle.server.handlers.teachers import asked_of
from bridle.server.problems import Problem
from bridle.store.idempotency import id_of
from bridle.store.writer import UnitOfWork
from bridle.web import examples
from bridle.web.page import Html, Page, Redirect, Shown, Visit, said_of
from bridle.web.progress import (
    Found,
    Next,
    Progress,
    Undone,
    context_form,
    next_question,
    pair_of,
    progress_of,
    question_id,
    word_said,
)
from bridle.web.rendering import schema_context_words, short_words, url
from bridle.web.teachers import Voice, came, for_whom, voice_of, word_name

__all__ = ["PAGES"]

MOST_SKIPPED = 20
MOST_AGAIN = 100  # times that the same form is sent, and what it taught taken back
MOST_LINES = 12  # of a context that are shown at once; the rest is folded away
A_DAY = timedelta(days=1)
# To pass leaves a question to another of several teachers; to skip gives it up.
ANSWERS = ("allowed", "denied", "skip", "pass")


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
    lives: bool  # whether an answer may be for one item, or for a time
    whom: tuple[str, str] | None = None  # of several teachers: for whom it is, and why
    yours: bool = False


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
    lives: bool
    voice: Voice
    word: Undone | None


# -- the page ------------------------------------------------------------------------------------


async def show(visit: Visit) -> Shown:
    """Show the next question, and how far teaching is."""
    skipped = _skipped(visit.query.get("skipped"))
    teacher, undone, word = _teacher(visit), visit.query.get("undone"), visit.query.get("word")

    def read(work: UnitOfWork) -> _Look:
        kept, state = work.aggregate, work.aggregate.state
        voice = voice_of(visit, state)
        mine = voice.mine if voice.names else _mine(visit)
        found = Found(None)
        if not voice.asks:
            found = next_question(kept, teacher, work.now, skipped, voice.mine)
        question = found.question
        return _Look(
            found,
            progress_of(work, mine, undone),
            question_id(teacher, kept.version, work.now),
            f"said.{teacher}.{kept.version}",
            None if question is None else context_form(state, question.context),
            state.settings.features,
            state.arms,
            state.number_of,
            state.settings.lives,
            voice,
            word_said(work, mine, word) if word else None,
        )

    look = await visit.service.do(visit.agent, read)
    if look.found.settled is not None:  # it would wait for ever
        await visit.api(teaching.answer, Answer(answer="skip"), id=str(look.found.settled))
    following = look.found.question
    question = None if following is None else await _question(visit, look, following)
    return Html(
        "teach.html",
        {
            "agent": visit.agent,
            "question": question,
            "live": look.found.live,
            "progress": look.progress,
            "most_lines": MOST_LINES,
            "skipped": ".".join(skipped),
            "mine": look.voice.mine if look.voice.names else _mine(visit),
            "voice": look.voice,
            "word": look.word,
            "to": _known(look.voice, visit.query.get("to")),
        },
    )


def _known(voice: Voice, name: str) -> str:
    """Give the name of a teacher that an address carries, if there is such a one."""
    return name if name in voice.names else ""


async def _question(visit: Visit, look: _Look, following: Next) -> Question:
    """Give a question as it is shown; it is filed, if it is to be."""
    id, arm, whom = following.id, following.arm, None
    if following.file:
        try:
            asked: QuestionShown = await visit.api(
                teaching.ask, AskFor(context=look.context, id=look.id)
            )
            id, arm = asked.id, look.numbers[asked.arm]
        except Duplicate:  # asked for twice in one second, of other contexts
            pass
    if look.voice.names:
        whom = await visit.service.do(
            visit.agent,
            lambda work: asked_of(work.aggregate.state, following.context, following.item, arm),
        )
    pair = pair_of(following.context, arm)
    about = {"context": look.context, "arm": look.arms[arm].id, "item": following.item}
    mine = look.voice.mine
    return Question(
        id,
        following.decision is not None,
        short_words(look.schema, look.context),
        _lines(look.schema, look.context),
        look.arms[arm],
        pair,
        json.dumps(about),
        f"{look.key}.{pair}",
        following.item,
        look.lives,
        for_whom(whom, mine) if look.voice.names else None,
        whom is not None and whom.teacher == mine,
    )


def _lines(schema: Schema, context: dict[str, Any]) -> list[tuple[str, str]]:
    """Give a context line by line; where some are folded away, those that hold nothing."""
    lines = schema_context_words(schema, context)
    if len(lines) > MOST_LINES:
        lines.sort(key=lambda line: line[1] in ("no", "none", "not known"))
    return lines


# -- what a teacher does -------------------------------------------------------------------------


async def answer(visit: Visit) -> Shown:
    """Take the answer to a question that was filed."""
    question, given = visit.form.need("question"), _answer(visit)
    if given == "pass":
        return _onward(visit, skip=True)
    if visit.form.get("teacher") and given != "skip":
        return await _spoken(visit, question, given)
    said = ""
    try:
        form = Answer(answer=given, **_life(visit), **said_of(visit))
        taken: AnswerShown = await visit.api(teaching.answer, form, id=question)
        stands = await _stands(visit, taken.example)
    except (Duplicate, UnknownId):
        stands = False
    if not stands and given != "skip":
        said = await _anyway(visit, question, given == "allowed")
    return _onward(visit, skip=given == "skip", said=said)


async def _spoken(visit: Visit, question: str, given: Any) -> Shown:
    """Take the answer of one of several teachers."""
    teacher = visit.form.need("teacher")
    word = word_name(visit.form.get("key"), question, teacher, given)
    form = Answer(answer=given, teacher=teacher, id=word, **_life(visit), **said_of(visit))
    try:
        taken: AnswerShown = await visit.api(teaching.answer, form, id=question)
    except (Duplicate, NotPossible, UnknownId):  # it is settled, or they have said so before
        return _onward(visit, said="closed")
    assert taken.judgement is not None
    return _onward(visit, told={"word": word, **came(taken.judgement, given == "allowed")})


async def _stands(visit: Visit, example: ItemId | None) -> bool:
    """Say whether an example stands: an answer that is sent again may have been taken back."""
    return await visit.service.do(
        visit.agent, lambda work: example in work.aggregate.state.examples
    )


async def _anyway(visit: Visit, question: str, allowed: bool) -> str:
    """Take an answer to a question that is closed by now: as an example, beside what stands."""
    mine = _mine(visit)

    def read(work: UnitOfWork) -> tuple[Any, ArmId, ArmId | None, bool | None, str | None]:
        asked, before = work.find("question", question), work.find("answer", question)
        if asked is None or not isinstance(asked.event, Asked):
            raise UnknownId("question", question, "It was never asked, or was erased.")
        state = work.aggregate.state
        context = context_form(state, state.raw(asked.event.context))
        taught = before.event if before is not None else None
        if not isinstance(taught, Taught) or taught.id not in state.examples:
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

    def read(work: UnitOfWork) -> str:
        for n in range(MOST_AGAIN):
            name = f"{id}.{n}" if n else id
            if work.find("example", name) is None or id_of(name) in work.aggregate.state.examples:
                return name
        raise Problem("conflict", "This was said and taken back too often.")

    return await visit.service.do(visit.agent, read)


async def say(visit: Visit) -> Shown:
    """Take an example: of a question that was not filed, or in the place of one taken back."""
    given, teacher = _answer(visit), visit.form.optional("teacher")
    if given in ("skip", "pass"):
        return _onward(visit, skip=True)
    try:
        about = json.loads(visit.form.need("about"))
        context, arm, item = about["context"], about["arm"], about.get("item")
        life = {name: about[name] for name in ("scope", "until") if name in about} | _life(visit)
    except (ValueError, TypeError, LookupError, RecursionError):
        raise Problem("malformed", "The form is not as the page made it.") from None
    key = visit.form.need("key")
    id = await _free(visit, key) if teacher is None else word_name(key, teacher, given)
    form = Teach(
        context=context,
        arm=arm,
        item=item,
        allowed=given == "allowed",
        id=id,
        teacher=teacher,
        **life,
        **said_of(visit),
    )
    try:
        taken: TaughtShown = await visit.api(teaching.teach, form)
    except Duplicate:
        return _onward(visit, said="before")
    if taken.judgements is None:
        return _onward(visit)
    return _onward(visit, told={"word": id, **came(taken.judgements[0], form.allowed)})


async def undo(visit: Visit) -> Shown:
    """Take the last example back."""
    example = visit.form.need("example")
    await visit.api(teaching.retract, id=example)
    return _onward(visit, undone=str(id_of(example)))


# -- small parts ---------------------------------------------------------------------------------


def _onward(
    visit: Visit,
    *,
    skip: bool = False,
    undone: str = "",
    said: str = "",
    told: dict[str, str] | None = None,
) -> Redirect:
    """Go to the next question; what was skipped goes along, so that it does not come again.

    `told` is what came of the word of one of several teachers.
    """
    more = {"said": said, **(told or {})}
    if visit.form.get("back") == "checks":
        more.pop("word", None)
        return Redirect(url("agents", visit.agent, "checks", undone=undone, **more))
    skipped = _skipped(visit.form.get("skipped"))
    if skip:
        skipped = _skipped(".".join([*skipped, visit.form.get("pair")]))
    told = {"skipped": ".".join(skipped), "undone": undone, **more}
    return Redirect(url("agents", visit.agent, "teach", **told))


def _skipped(text: str) -> list[str]:
    """Read which pairs were skipped, the latest at the end."""
    pairs = [pair for pair in text.split(".") if len(pair) < 40 and "-" in pair]
    return [*dict.fromkeys(reversed(pairs))][:MOST_SKIPPED][::-1]


def _answer(visit: Visit) -> Any:
    given = visit.form.need("answer")
    if given not in ANSWERS:
        raise Problem("invalid_value", f"{given[:40]!r} is no answer.", field="answer")
    return given


def _life(visit: Visit) -> dict[str, Any]:
    """Read whether an answer is for one item alone, and until when; what is not said is left out.

    A day is meant with its end.
    """
    life: dict[str, Any] = {"scope": "item"} if visit.form.get("scope") == "item" else {}
    text = visit.form.get("until")
    if text:
        try:
            day = datetime.fromisoformat(text).replace(tzinfo=UTC)
            life["until"] = (day + A_DAY).timestamp()
        except (ValueError, OverflowError):
            wanted = "a day, as 2026-11-17"
            raise InvalidValue("until", "the form", wanted, text[:100]) from None
    return life


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

"""Teaching: one question at a time, several teachers, the list of examples, and a csv of them."""

from __future__ import annotations

import hashlib
import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote_to_bytes

import numpy as np

from bridle.agent.config import Arm, ArmId, ItemId
from bridle.agent.events import Asked, Taught
from bridle.agent.limits_state import Example
from bridle.agent.state import AgentState
from bridle.api import requests
from bridle.api.replies import (
    AnswerShown,
    Judgement,
    OpenCase,
    QuestionShown,
    TaughtShown,
    TeacherShown,
    TeachersShown,
    WhomShown,
)
from bridle.api.requests import Answer, AskFor, Teach
from bridle.api.requests import Page as Part
from bridle.errors import BridleError, Duplicate, InvalidValue, NotPossible, UnknownId
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import Beliefs
from bridle.limits.declared import CompiledRule
from bridle.schema import Schema
from bridle.server.handlers import teachers as teachers_api
from bridle.server.handlers import teaching
from bridle.server.handlers.agents import who
from bridle.server.handlers.teachers import asked_of
from bridle.server.problems import Problem, problem_of
from bridle.store.idempotency import id_of
from bridle.store.writer import UnitOfWork
from bridle.web.csvs import (
    MAX_ROWS,
    BadCsv,
    ExampleRow,
    Line,
    example_columns,
    read_examples,
    read_lines,
    written,
)
from bridle.web.page import Data, Html, Page, Redirect, Shown, Visit, said_of
from bridle.web.progress import (
    FROM_CSV,
    NextQuestion,
    Progress,
    QuestionSearch,
    Reversal,
    context_form,
    example_line,
    next_question,
    open_judgement,
    pair_of,
    progress_of,
    question_id,
    sample_contexts,
)
from bridle.web.rendering import arm_words, schema_context_words, short_words, url

__all__ = [
    "AGAINST",
    "PAGES",
    "Baseline",
    "BeliefChange",
    "JudgingAs",
    "ParsedCsv",
    "Preview",
    "ShownRow",
    "baseline_of",
    "for_whom",
    "judgement_id",
    "judgement_query",
    "judging_as",
    "preview_of",
    "read_csv",
]

MOST_SKIPPED = 20
MOST_AGAIN = 100  # times that the same form can be sent and its example retracted
MOST_LINES = 12  # of a context that are shown; the rest is folded away
A_DAY = timedelta(days=1)
# "pass" leaves a question to another teacher; "skip" drops it.
ANSWERS = ("allowed", "denied", "skip", "pass")


# --- As which of several teachers a person judges ---
#
# That is chosen once for an agent: a cookie of its own pages holds the name. It gives no right: the
# token does, which the log names beside it.


COOKIE = "bridle-as"
YEAR = 365 * 86_400
BACK = {"teach": ("teach",), "checks": ("checks",), "bulk": ("teach", "bulk")}
SEE_TEACHERS = "GET /v1/agents/{agent}/teachers"


class JudgingAs(NamedTuple):
    """The declared teachers, and which of them this person is; `names` may be empty."""

    names: tuple[str, ...]
    mine: str | None

    @property
    def asks(self) -> bool:
        """Whether they must choose a teacher before they can judge."""
        return bool(self.names) and self.mine is None


def judging_as(visit: Visit, state: AgentState) -> JudgingAs:
    """Return as which teacher a person judges: the only one, or the one chosen before."""
    names = tuple(teacher.name for teacher in state.teachers.teachers)
    if len(names) == 1:
        return JudgingAs(names, names[0])
    chosen = _chosen(visit)
    return JudgingAs(names, chosen if chosen in names else None)


def _chosen(visit: Visit) -> str | None:
    texts = visit.headers.getlist("cookie")
    for part in (part.strip() for text in texts for part in text.split(";")):
        if part.startswith(f"{COOKIE}="):
            return unquote_to_bytes(part.removeprefix(f"{COOKIE}=")).decode(errors="replace")
    return None


async def choose(visit: Visit) -> Shown:
    """Remember as which teacher a person judges."""
    wanted, back = visit.form.get("teacher"), BACK.get(visit.form.get("back"), ("teach",))

    def read(work: UnitOfWork) -> bool:
        return work.aggregate.state.declares(wanted)

    if not await visit.service.do(visit.agent, read):
        raise Problem("invalid_value", f"{wanted[:100]!r} is no teacher here.", field="teacher")
    path = url("agents", visit.agent)
    cookie = (
        f"{COOKIE}={quote(wanted, safe='')}; Path={path}; Max-Age={YEAR}; HttpOnly; SameSite=Strict"
    )
    return Redirect(url("agents", visit.agent, *back), (cookie,))


def judgement_id(*parts: str) -> str:
    """Return the id of a judgement given on a page: a form that is sent twice counts once.

    The answer is one of the parts, so that another answer is another judgement.
    """
    return f"page.{hashlib.blake2b(chr(0).join(parts).encode(), digest_size=12).hexdigest()}"


def judgement_query(judgement: Judgement, allowed: bool) -> dict[str, str]:
    """Return what came of a judgement, as the address of the next page carries it."""
    if judgement.allowed is not None:
        return {"said": "settled-yes" if judgement.allowed else "settled-no"}
    if judgement.said.get(judgement.teacher) is not allowed:
        return {"said": "before"}  # the form was sent before; they have changed their mind since
    return {"said": "open", "to": "" if judgement.next is None else judgement.next.teacher}


def for_whom(whom: WhomShown | None, mine: str | None) -> tuple[str, str]:
    """Return whom a question is for, and why, in words."""
    if whom is None:
        why = "No further answer is worth its price here. You can answer it all the same."
        return "For nobody", why
    name = "you" if whom.teacher == mine else whom.teacher
    if whom.explores:
        why = "Two teachers are asked about it, to learn how often each of them errs."
    elif whom.teacher == mine:
        why = f"Your answer is worth its price: about {whom.cost:.2g} to settle it."
    else:
        why = f"Their answer is worth its price: about {whom.cost:.2g} to settle it."
    return f"For {name}", why if name == "you" else f"{why} You can answer it all the same."


# --- One question at a time ---


class Question(NamedTuple):
    """A question to show. `id` is None where it is not filed: an answer is then an example."""

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


class _PageData(NamedTuple):
    """What was read of the agent for one page."""

    found: QuestionSearch
    progress: Progress
    id: str
    key: str
    context: Any
    schema: Schema
    arms: list[Arm]
    numbers: dict[ArmId, int]
    lives: bool
    voice: JudgingAs
    word: Reversal | None


# -- the page ------------------------------------------------------------------------------------


async def show(visit: Visit) -> Shown:
    """Show the next question, and the progress of teaching."""
    skipped = _skipped(visit.query.get("skipped"))
    teacher, undone, word = _teacher(visit), visit.query.get("undone"), visit.query.get("word")

    def read(work: UnitOfWork) -> _PageData:
        aggregate, state = work.aggregate, work.aggregate.state
        voice = judging_as(visit, state)
        mine = voice.mine if voice.names else _mine(visit)
        found = QuestionSearch(None)
        if not voice.asks:
            found = next_question(aggregate, teacher, work.now, skipped, voice.mine)
        question = found.question
        return _PageData(
            found,
            progress_of(work, mine, undone),
            question_id(teacher, aggregate.version, work.now),
            f"said.{teacher}.{aggregate.version}",
            None if question is None else context_form(state, question.context),
            state.settings.features,
            state.arms,
            state.number_of,
            state.settings.lives,
            voice,
            open_judgement(work, mine, word) if word else None,
        )

    data = await visit.service.do(visit.agent, read)
    if data.found.settled is not None:  # nobody else would close it
        await visit.api(teaching.answer, Answer(answer="skip"), id=str(data.found.settled))
    following = data.found.question
    question = None if following is None else await _question(visit, data, following)
    return Html(
        "teach.html",
        {
            "agent": visit.agent,
            "question": question,
            "live": data.found.live,
            "progress": data.progress,
            "most_lines": MOST_LINES,
            "skipped": ".".join(skipped),
            "mine": data.voice.mine if data.voice.names else _mine(visit),
            "voice": data.voice,
            "word": data.word,
            "to": _declared(data.voice, visit.query.get("to")),
        },
    )


def _declared(voice: JudgingAs, name: str) -> str:
    """Return the name of a teacher out of an address, if there is one of that name."""
    return name if name in voice.names else ""


async def _question(visit: Visit, data: _PageData, following: NextQuestion) -> Question:
    """Return a question as it is shown; it is filed first, if it is to be."""
    id, arm, whom = following.id, following.arm, None
    if following.file:
        try:
            asked: QuestionShown = await visit.api(
                teaching.ask, AskFor(context=data.context, id=data.id)
            )
            id, arm = asked.id, data.numbers[asked.arm]
        except Duplicate:  # filed twice in one second, for other contexts
            pass
    if data.voice.names:
        whom = await visit.service.do(
            visit.agent,
            lambda work: asked_of(work.aggregate.state, following.context, following.item, arm),
        )
    pair = pair_of(following.context, arm)
    about = {"context": data.context, "arm": data.arms[arm].id, "item": following.item}
    mine = data.voice.mine
    return Question(
        id,
        following.decision is not None,
        short_words(data.schema, data.context),
        _lines(data.schema, data.context),
        data.arms[arm],
        pair,
        json.dumps(about),
        f"{data.key}.{pair}",
        following.item,
        data.lives,
        for_whom(whom, mine) if data.voice.names else None,
        whom is not None and whom.teacher == mine,
    )


def _lines(schema: Schema, context: dict[str, Any]) -> list[tuple[str, str]]:
    """Return a context line by line; where some are folded away, those that hold nothing."""
    lines = schema_context_words(schema, context)
    if len(lines) > MOST_LINES:
        lines.sort(key=lambda line: line[1] in ("no", "none", "not known"))
    return lines


# -- what a teacher does -------------------------------------------------------------------------


async def answer(visit: Visit) -> Shown:
    """Record the answer to a question that was filed."""
    question, given = visit.form.need("question"), _answer(visit)
    if given == "pass":
        return _to_next(visit, skip=True)
    if visit.form.get("teacher") and given != "skip":
        return await _record_judgement(visit, question, given)
    said = ""
    try:
        form = Answer(answer=given, **_scope_and_end(visit), **said_of(visit))
        taken: AnswerShown = await visit.api(teaching.answer, form, id=question)
        in_force = await _is_in_force(visit, taken.example)
    except (Duplicate, UnknownId):
        in_force = False
    if not in_force and given != "skip":
        said = await _teach_late(visit, question, given == "allowed")
    return _to_next(visit, skip=given == "skip", said=said)


async def _record_judgement(visit: Visit, question: str, given: Any) -> Shown:
    """Record the answer of one of several teachers."""
    teacher = visit.form.need("teacher")
    word = judgement_id(visit.form.get("key"), question, teacher, given)
    form = Answer(answer=given, teacher=teacher, id=word, **_scope_and_end(visit), **said_of(visit))
    try:
        taken: AnswerShown = await visit.api(teaching.answer, form, id=question)
    except (Duplicate, NotPossible, UnknownId):  # it is settled, or they have answered before
        return _to_next(visit, said="closed")
    assert taken.judgement is not None
    return _to_next(
        visit, query={"word": word, **judgement_query(taken.judgement, given == "allowed")}
    )


async def _is_in_force(visit: Visit, example: ItemId | None) -> bool:
    """Whether an example is in force: an answer that is sent again may have been retracted."""
    return await visit.service.do(
        visit.agent, lambda work: example in work.aggregate.state.examples
    )


async def _teach_late(visit: Visit, question: str, allowed: bool) -> str:
    """Record an answer to a question that is closed by now: as a further example."""
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
    id = await _free_id(visit, f"also.{_teacher(visit)}.{_short(question)}")
    try:
        await visit.api(
            teaching.teach,
            Teach(context=context, arm=arm, item=item, allowed=allowed, id=id, **said_of(visit)),
        )
    except Duplicate:
        return "before"
    return "disagree" if before is not None and before != allowed else "late"


async def _free_id(visit: Visit, id: str) -> str:
    """Return the id of an example; another, if the example of that id was retracted.

    So a form that is sent twice teaches once, and one that is sent again after undo teaches anew.
    """

    def read(work: UnitOfWork) -> str:
        for n in range(MOST_AGAIN):
            name = f"{id}.{n}" if n else id
            if work.find("example", name) is None or id_of(name) in work.aggregate.state.examples:
                return name
        raise Problem("conflict", "This was said and taken back too often.")

    return await visit.service.do(visit.agent, read)


async def take_example(visit: Visit) -> Shown:
    """Record an example: of a question that was not filed, or in place of a retracted one."""
    given, teacher = _answer(visit), visit.form.optional("teacher")
    if given in ("skip", "pass"):
        return _to_next(visit, skip=True)
    try:
        about = json.loads(visit.form.need("about"))
        context, arm, item = about["context"], about["arm"], about.get("item")
        life = {name: about[name] for name in ("scope", "until") if name in about} | _scope_and_end(
            visit
        )
    except (ValueError, TypeError, LookupError, RecursionError):
        raise Problem("malformed", "The form is not as the page made it.") from None
    key = visit.form.need("key")
    id = await _free_id(visit, key) if teacher is None else judgement_id(key, teacher, given)
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
        return _to_next(visit, said="before")
    if taken.judgements is None:
        return _to_next(visit)
    return _to_next(visit, query={"word": id, **judgement_query(taken.judgements[0], form.allowed)})


async def undo(visit: Visit) -> Shown:
    """Retract the last example."""
    example = visit.form.need("example")
    await visit.api(teaching.retract, id=example)
    return _to_next(visit, undone=str(id_of(example)))


# -- small parts ---------------------------------------------------------------------------------


def _to_next(
    visit: Visit,
    *,
    skip: bool = False,
    undone: str = "",
    said: str = "",
    query: dict[str, str] | None = None,
) -> Redirect:
    """Redirect to the next question; skipped ones go along, so that they do not come again.

    `query` is what came of the judgement of one of several teachers.
    """
    more = {"said": said, **(query or {})}
    if visit.form.get("back") == "checks":
        more.pop("word", None)
        return Redirect(url("agents", visit.agent, "checks", undone=undone, **more))
    skipped = _skipped(visit.form.get("skipped"))
    if skip:
        skipped = _skipped(".".join([*skipped, visit.form.get("pair")]))
    query = {"skipped": ".".join(skipped), "undone": undone, **more}
    return Redirect(url("agents", visit.agent, "teach", **query))


def _skipped(text: str) -> list[str]:
    """Parse the pairs that were skipped, the latest at the end."""
    pairs = [pair for pair in text.split(".") if len(pair) < 40 and "-" in pair]
    return [*dict.fromkeys(reversed(pairs))][:MOST_SKIPPED][::-1]


def _answer(visit: Visit) -> Any:
    given = visit.form.need("answer")
    if given not in ANSWERS:
        raise Problem("invalid_value", f"{given[:40]!r} is no answer.", field="answer")
    return given


def _scope_and_end(visit: Visit) -> dict[str, Any]:
    """Parse whether an answer is for one item alone, and until when; what is not set is left out.

    The last day is included.
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
    """Return the name under which the log knows the caller."""
    return who(visit.caller, said_of(visit)["by"])


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


# --- Several teachers: how often each errs, and the open cases ---

CASES_PER_PAGE = 50
# The scale of the charts ends here, or further where an interval does.
LEAST_SCALE, STEP = 0.2, 0.1


class CaseRow(NamedTuple):
    """An open case in words."""

    case: OpenCase
    arm: str


async def show_teachers(visit: Visit) -> Shown:
    """Show the teachers, and the open cases."""
    after = visit.query.whole("after", 0, low=0, high=LAST)
    shown: TeachersShown = await visit.api(
        teachers_api.teachers, query=Part(after=after, limit=CASES_PER_PAGE)
    )

    def read(work: UnitOfWork) -> tuple[JudgingAs, list[CaseRow]]:
        state = work.aggregate.state
        rows = [
            CaseRow(one, arm_words(state.arms[state.number_of[one.arm]]))
            for one in shown.open
            if one.arm in state.number_of
        ]
        return judging_as(visit, state), rows

    voice, rows = await visit.service.do(visit.agent, read)
    values: dict[str, Any] = {
        "agent": visit.agent,
        "shown": shown,
        "cases": rows,
        "voice": voice,
        "after": after,
        "per_page": CASES_PER_PAGE,
        "most": _scale(shown.teachers),
        "words": _words(shown),
    }
    return Html("teachers.html", values)


def _scale(teachers: tuple[TeacherShown, ...]) -> float:
    """Return the end of the common scale: a multiple of ten in 100."""
    high = max((one.high for one in teachers), default=0.0)
    return max(LEAST_SCALE, min(0.5, math.ceil(high / STEP - 1e-9) * STEP))


def _words(shown: TeachersShown) -> str:
    """Return how well the teachers are known, in a sentence."""
    known = sum(one.known for one in shown.teachers)
    if known == len(shown.teachers):
        return "How often each of them errs is known."
    left = len(shown.teachers) - known
    many = "one of them errs" if left == 1 else f"{left} of them err"
    return (
        f"How often {many} is not known well yet. Until it is, two are asked about the same case "
        "now and then."
    )


# --- The list of examples, also as a csv ---


PER_PAGE = 50
LAST = 2**53


def _is_permanent(one: Example) -> bool:
    return one.scope == "all" and one.until is None


async def listing(visit: Visit) -> Shown:
    """Show the examples in force, the latest first."""
    after = visit.query.whole("after", 0, low=0, high=LAST)

    def read(work: UnitOfWork) -> dict[str, Any]:
        state = work.aggregate.state
        some = islice(reversed(state.examples.values()), after, after + PER_PAGE)
        return {
            "examples": [example_line(state, one) for one in some],
            "total": len(state.examples),
            "some_live": any(not _is_permanent(one) for one in state.examples.values()),
        }

    values = await visit.service.do(visit.agent, read)
    return Html(
        "teach-examples.html",
        {"agent": visit.agent, "after": after, "per_page": PER_PAGE, **values},
    )


async def download(visit: Visit) -> Shown:
    """Send the examples in force as a csv that can be sent back in."""

    def read(work: UnitOfWork) -> tuple[Any, list[Any], list[Example]]:
        state = work.aggregate.state
        # A csv has no column for a scope or an end: such an example would come back as permanent.
        some = (one for one in state.examples.values() if _is_permanent(one))
        return state.settings.features, state.arms, list(islice(some, MAX_ROWS))

    schema, arms, some = await visit.service.do(visit.agent, read)

    def write() -> bytes:
        rows: list[list[object]] = [list(example_columns(schema))]
        for one in some:
            context = schema.decode(np.frombuffer(one.context))
            named = [context.get(feature.name, one.item) for feature in schema.features]
            rows.append([*named, arms[one.arm].id, one.allowed])
        return written(rows).encode()

    body = await visit.service.aside(write)
    return Data(body, "text/csv; charset=utf-8", f"{visit.agent}-examples.csv")


async def retract(visit: Visit) -> Shown:
    """Retract an example."""
    after = visit.form.whole("after", 0, low=0, high=LAST)
    await visit.api(teaching.retract, id=visit.form.need("example"))
    parts = ("examples",) if visit.form.get("back") != "teach" else ()
    return Redirect(
        url("agents", visit.agent, "teach", *parts, after=after or None, said="retracted")
    )


# --- What examples out of a csv would change, before they are taught ---
#
# The agent is read twice, briefly; all that takes long is done with a copy of its limits.


MOST_SHOWN = 20
MOST_LEARNED = 1_000  # examples that are folded into a copy to see what changes
SECONDS = 5.0  # and the time limit for it
# The effect of a line: the first that applies. Those of AGAINST contradict something.
EFFECTS = ("again", "apart", "against", "rule", "surprise", "believed", "new")
AGAINST = ("apart", "against", "rule", "surprise")

Pair: TypeAlias = tuple[bytes, int]


class ParsedCsv(NamedTuple):
    """The examples of a csv, read and encoded: one of each for a line."""

    lines: list[Line]
    rows: list[ExampleRow]
    contexts: list[bytes]
    arms: list[int]


class Baseline(NamedTuple):
    """What was read of an agent at one moment, to compare with.

    `same` and `other`: of each row, whether an example in force says the same, or the opposite.
    """

    version: int
    same: list[bool]
    other: list[bool]
    limits: Beliefs
    unit_of: Ints
    rules: tuple[CompiledRule, ...]
    recent: Floats
    key: Callable[[str], int]


class ShownRow(NamedTuple):
    """A line in words, and its effect."""

    line: int
    context: dict[str, Any]
    arm: str
    allowed: bool
    effect: str


class BeliefChange(NamedTuple):
    """How many beliefs would change, of all choices in recent contexts."""

    cases: int
    choices: int
    allowed: int
    denied: int
    unsure: int


class Preview(NamedTuple):
    """What a csv would change.

    Attributes
    ----------
    total : int
        Number of lines.
    counts : mapping
        How many lines have each effect.
    shown : list of ShownRow
        The first lines.
    csv : str
        What is to be taught, without what is in force already: what contradicts nothing first.
    fine, taught : int
        How many lines of it contradict nothing, and how many it has.
    changed : BeliefChange or None
        None where it would take too long, or no context is recent.
    version : int
        Of the agent, when it was read.
    """

    total: int
    counts: dict[str, int]
    shown: list[ShownRow]
    csv: str
    fine: int
    taught: int
    changed: BeliefChange | None
    version: int


def read_csv(schema: Schema, arms: Sequence[Arm], text: str) -> ParsedCsv:
    """Read examples and encode their contexts, or raise `BadCsv`. It may take seconds."""
    rows = read_examples(schema, arms, text)
    lines = list(read_lines(text, example_columns(schema)))
    encoded = schema.encode_many([row.context for row in rows])
    number_of = {arm.id: k for k, arm in enumerate(arms)}
    return ParsedCsv(
        lines, rows, [row.tobytes() for row in encoded], [number_of[row.arm] for row in rows]
    )


def baseline_of(work: UnitOfWork, read: ParsedCsv) -> Baseline:
    """Return what the examples in force say of each row, and a copy of the beliefs."""
    aggregate, state = work.aggregate, work.aggregate.state
    said = zip(read.contexts, read.arms, read.rows, strict=True)
    same, other = [], []
    for context, arm, row in said:
        item, allowed = state.settings.features.item(row.context), row.allowed
        case: Any = context if item is None else item
        yes, no = state.allowances.get(case, ()), state.denials.get(case, ())
        same.append(arm in (yes if allowed else no))
        other.append(arm in (no if allowed else yes))
    width = state.settings.features.width
    return Baseline(
        aggregate.version,
        same,
        other,
        state.limits_state.limits.copy(),
        state.limits_state.unit_of.copy(),
        tuple(state.compiled_rules),
        aggregate.recent.to_array(width).copy(),
        state.limits_state.key,
    )


def preview_of(
    schema: Schema,
    arms: Sequence[Arm],
    read: ParsedCsv,
    baseline: Baseline,
    csv_name: Callable[[str, int], str],
) -> Preview:
    """Return what the rows of a csv would change. It may take seconds.

    `name_of` returns the prefix of the ids of its examples, from the csv and the agent's version.
    """
    effects = _effects(read, baseline)
    fine = [i for i, effect in enumerate(effects) if effect in ("believed", "new")]
    order = fine + [i for i, effect in enumerate(effects) if effect in AGAINST]
    names = list(read.lines[0].cells)
    csv = written([names, *([*read.lines[i].cells.values()] for i in order)])
    name = csv_name(csv, baseline.version)
    shown = [
        ShownRow(row.line, _decoded(schema, raw), arm_words(arms[k]), row.allowed, effect)
        for row, raw, k, effect in list(
            zip(read.rows, read.contexts, read.arms, effects, strict=True)
        )[:MOST_SHOWN]
    ]
    counts = Counter(effects)
    return Preview(
        len(effects),
        {effect: counts[effect] for effect in EFFECTS},
        shown,
        csv,
        len(fine),
        len(order),
        _belief_change(read, baseline, order, name),
        baseline.version,
    )


def _decoded(schema: Schema, raw: bytes) -> dict[str, Any]:
    return schema.decode(np.frombuffer(raw))


def _effects(read: ParsedCsv, baseline: Baseline) -> list[str]:
    """Return the effect of each row."""
    allowed = np.array([row.allowed for row in read.rows], np.bool_)
    arms = np.array(read.arms, np.int64)
    X = np.frombuffer(b"".join(read.contexts)).reshape(len(arms), -1)
    sure_yes, sure_no = _sure_beliefs(baseline, X, arms)
    ruled = _denied(baseline.rules, X, arms) & allowed
    said: dict[Pair, set[bool]] = {}
    for context, arm, answer in zip(read.contexts, read.arms, allowed.tolist(), strict=True):
        said.setdefault((context, arm), set()).add(answer)
    effects, met = [], set()
    for i, (context, arm) in enumerate(zip(read.contexts, read.arms, strict=True)):
        answer = bool(allowed[i])
        if baseline.same[i] or (context, arm, answer) in met:
            effect = "again"
        elif len(said[context, arm]) > 1:
            effect = "apart"
        elif baseline.other[i]:
            effect = "against"
        elif ruled[i]:
            effect = "rule"
        elif (sure_no if answer else sure_yes)[i]:
            effect = "surprise"
        else:
            effect = "believed" if (sure_yes if answer else sure_no)[i] else "new"
        met.add((context, arm, answer))
        effects.append(effect)
    return effects


def _sure_beliefs(baseline: Baseline, X: Floats, arms: Ints) -> tuple[Bools, Bools]:
    """Return of each row whether its arm is surely allowed, and whether it is surely denied."""
    yes, no = np.zeros((2, len(X)), np.bool_)
    units = baseline.unit_of[arms]
    for unit in np.unique(units):
        mine = np.flatnonzero(units == unit)
        prediction = baseline.limits.predict(int(unit), np.ascontiguousarray(X[mine]))
        yes[mine], no[mine] = prediction.safe, ~prediction.possible
    return yes, no


def _denied(rules: Sequence[CompiledRule], X: Floats, arms: Ints) -> Bools:
    """Return of each row whether a declared rule denies it."""
    denied = np.zeros(len(X), np.bool_)
    for rule in rules:
        holds = rule.arms[arms].copy()
        for column, low, high in rule.conditions:
            holds &= (low <= X[:, column]) & (X[:, column] <= high)
        denied |= holds
    return denied


def _belief_change(
    read: ParsedCsv, baseline: Baseline, order: list[int], name: str
) -> BeliefChange | None:
    """Teach a copy, and compare its beliefs in recent contexts."""
    recent = baseline.recent
    if not len(recent) or not order or len(order) > MOST_LEARNED:
        return None
    limits = baseline.limits.copy()
    until = time.monotonic() + SECONDS
    for place, i in enumerate(order):
        if time.monotonic() > until:
            return None
        row = np.frombuffer(read.contexts[i])
        limits.learn(row, read.arms[i], read.rows[i].allowed, baseline.key(f"{name}.{place}"))
    before, after = (_marks(one, recent) for one in (baseline.limits, limits))
    weight = np.bincount(baseline.unit_of, minlength=len(before))[:, None]
    moved = before != after
    to = [int((weight * (moved & (after == mark))).sum()) for mark in (2, 0, 1)]
    return BeliefChange(len(recent), len(recent) * len(baseline.unit_of), *to)


def _marks(limits: Beliefs, rows: Floats) -> Ints:
    """Return the belief about each unit in each context: 2 surely yes, 0 surely no, 1 unsure."""
    prediction = limits.predict_all(rows)
    return prediction.possible.astype(np.int64) + prediction.safe.astype(np.int64)


# --- Teaching from a csv: send it, see what it would change, confirm ----------------------
#
# Nothing is stored in between: the confirmation page carries what will be taught.


BATCH = 50  # examples in one unit of work, so that others can write in between
REQUEST_SECONDS = 5.0  # for one request; then the page sends the next
TEACH = "POST /v1/agents/{agent}/examples"


async def show_bulk(visit: Visit) -> Shown:
    """Show the form that takes a csv."""
    taught = visit.query.whole("taught", 0, low=0, high=MAX_ROWS)
    return await _form(visit, taught=taught)


async def preview(visit: Visit) -> Shown:
    """Show what a csv would change."""
    text = visit.form.get("csv")
    try:
        if "file" in visit.form.files:
            text = visit.form.files["file"].text
        if not text.strip():
            raise BadCsv(["Choose a file, or write some lines."])
        schema, arms = await _schema_and_arms(visit)
        read = await visit.service.aside(lambda: read_csv(schema, arms, text))
        baseline = await visit.service.do(visit.agent, lambda work: baseline_of(work, read))
        found = await visit.service.aside(
            lambda: preview_of(schema, arms, read, baseline, csv_name)
        )
        most = visit.service.limits.body_bytes * 9 // 10
        if len(found.csv.encode()) + found.csv.count("\n") > most:
            raise BadCsv([f"It is too large to be sent back: at most {most:,} bytes. Send parts."])
    except Problem as problem:
        return await _form(visit, text=text, problem=problem)
    values = {
        "agent": visit.agent,
        "found": found,
        "against": sum(found.counts[e] for e in AGAINST),
    }
    said = {"note": visit.form.get("note"), "teacher": visit.form.get("teacher")}
    return Html("teach-bulk-preview.html", {**values, **said})


async def confirm(visit: Visit) -> Shown:
    """Teach what was confirmed: as much as fits into a request, then the page goes on."""
    form = visit.form
    text = _text(form.need("csv"))
    version = form.whole("version", low=1, high=LAST)
    fine, upto = (form.whole(name, low=0, high=MAX_ROWS) for name in ("fine", "upto"))
    at = form.whole("at", 0, low=0, high=MAX_ROWS)
    try:
        schema, arms = await _schema_and_arms(visit)
        read = await visit.service.aside(lambda: read_csv(schema, arms, text))
    except Problem as problem:
        return await _form(visit, text=text, problem=problem)
    rows = read.rows[:upto]
    name, wrong = csv_name(text, version), None
    until = time.monotonic() + REQUEST_SECONDS
    while at < len(rows):
        # A batch is atomic, and a repeated request cuts the same batches.
        end = min(at + BATCH, fine if at < fine else len(rows), len(rows))
        try:
            await visit.api(teaching.teach, _batch(visit, name, rows[at:end], at))
        except (BridleError, Problem) as error:
            wrong = problem_of(error)
            break
        at = end
        if time.monotonic() >= until:
            break
    if wrong is None and at >= len(rows):
        return Redirect(url("agents", visit.agent, "teach", "bulk", taught=len(rows)))
    values = {
        "agent": visit.agent,
        "csv": text,
        "version": version,
        "fine": fine,
        "upto": upto,
        "at": at,
        "total": len(rows),
        "note": form.get("note"),
        "problem": wrong,
        "teacher": form.get("teacher"),
    }
    return Html("teach-bulk-going.html", values, 200 if wrong is None else wrong.status)


def _batch(visit: Visit, name: str, rows: list[ExampleRow], first: int) -> requests.TeachMany:
    examples = [
        requests.Example(
            context=row.context,
            arm=row.arm,
            allowed=row.allowed,
            id=f"{name}.{first + n}",
        )
        for n, row in enumerate(rows)
    ]
    teacher = visit.form.optional("teacher")
    return requests.TeachMany(examples=tuple(examples), teacher=teacher, **said_of(visit))


def csv_name(csv: str, version: int) -> str:
    """Return the name of a csv, and so of its examples: what is sent twice is taught once.

    `version` is the agent's at the preview, so that a csv can be taught again after its examples
    were retracted.
    """
    said = hashlib.blake2b(f"{version}\n{csv}".encode(), digest_size=12).hexdigest()
    return f"{FROM_CSV}{said}"


def _text(sent: str) -> str:
    """Return a csv as it was before a browser sent it: with plain ends of lines."""
    return sent.replace("\r\n", "\n").rstrip("\n") + "\n"


async def _schema_and_arms(visit: Visit) -> tuple[Schema, list[Arm]]:
    def read(work: UnitOfWork) -> tuple[Schema, list[Arm]]:
        state = work.aggregate.state
        return state.settings.features, state.arms

    return await visit.service.do(visit.agent, read)


async def _form(
    visit: Visit, text: str = "", problem: Problem | None = None, taught: int = 0
) -> Html:
    schema, arms = await _schema_and_arms(visit)
    voice = await visit.service.do(
        visit.agent, lambda work: judging_as(visit, work.aggregate.state)
    )
    wrongs: list[str] = []
    if problem is not None:
        wrongs = problem.wrongs if isinstance(problem, BadCsv) else [problem.message]
    values: dict[str, Any] = {
        "agent": visit.agent,
        "text": text,
        "wrongs": wrongs,
        "taught": taught,
        "note": visit.form.get("note"),
        "sample": _sample(schema, arms),
        "most": MAX_ROWS,
        "remedy": problem.remedy if problem is not None else None,
        "voice": voice,
    }
    return Html("teach-bulk.html", values, 200 if problem is None else problem.status)


def _sample(schema: Schema, arms: list[Arm]) -> str:
    """Return some lines as this agent reads them."""
    rows: list[list[object]] = [list(example_columns(schema))]
    for n, context in enumerate(sample_contexts(schema, 2, random.Random(1))[:2]):
        values = [context.get(feature.name, f"name {n + 1}") for feature in schema.features]
        rows.append([*values, arms[-n % len(arms)].id, n == 0])
    return written(rows)


_TEACHES = (
    "POST /v1/agents/{agent}/examples",
    "POST /v1/agents/{agent}/questions",
    "POST /v1/agents/{agent}/questions/{id}/answer",
    "DELETE /v1/agents/{agent}/examples/{id}",
)
PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/teach", handle=show, like=_TEACHES),
    Page(method="POST", path="/agents/{agent}/teach/answer", handle=answer, like=_TEACHES),
    Page(method="POST", path="/agents/{agent}/teach/say", handle=take_example, like=_TEACHES),
    Page(method="POST", path="/agents/{agent}/teach/undo", handle=undo, like=_TEACHES),
    Page(
        method="GET",
        path="/agents/{agent}/teach/examples",
        handle=listing,
        like=("GET /v1/agents/{agent}/examples",),
    ),
    Page(
        method="GET",
        path="/agents/{agent}/teach/examples.csv",
        handle=download,
        like=("GET /v1/agents/{agent}/examples",),
    ),
    Page(
        method="POST",
        path="/agents/{agent}/teach/retract",
        handle=retract,
        like=("DELETE /v1/agents/{agent}/examples/{id}",),
    ),
    Page(method="GET", path="/agents/{agent}/teach/bulk", handle=show_bulk, like=(TEACH,)),
    Page(method="POST", path="/agents/{agent}/teach/bulk", handle=preview, like=(TEACH,)),
    Page(method="POST", path="/agents/{agent}/teach/bulk/confirm", handle=confirm, like=(TEACH,)),
    Page(method="POST", path="/agents/{agent}/as", handle=choose, like=(SEE_TEACHERS,)),
    Page(method="GET", path="/agents/{agent}/teachers", handle=show_teachers, like=(SEE_TEACHERS,)),
)

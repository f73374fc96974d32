"""The next question for a teacher, the progress of teaching, and examples in words.

Questions of live decisions come first, the most valuable answer first; then the question that was
filed for this teacher and not answered; then the most valuable one, out of recent contexts and,
while these are few, some that are sampled from the schema. All reads here are bounded, and change
nothing.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, assert_never

import numpy as np

from bridle.agent.config import ArmId, ItemId
from bridle.agent.events import Judged, Taught
from bridle.agent.limits_state import Example, Open
from bridle.agent.queries import open_questions
from bridle.agent.state import AgentState
from bridle.kernels import doubt
from bridle.kernels.types import Floats
from bridle.policies import ACTIVE
from bridle.schema import Category, Encoded, Flag, Labels, Number, Schema
from bridle.store.aggregate import Aggregate
from bridle.store.idempotency import id_of
from bridle.store.writer import UnitOfWork
from bridle.web.limits import Row, Unit, rows_of
from bridle.web.rendering import arm_words

__all__ = [
    "FEW_DECISIONS",
    "FROM_CSV",
    "Disagreement",
    "ExampleLine",
    "NextQuestion",
    "Progress",
    "QuestionSearch",
    "Reversal",
    "context_form",
    "disagreements",
    "example_line",
    "is_by",
    "next_question",
    "open_judgement",
    "pair_of",
    "progress_of",
    "question_id",
    "retracted_example",
    "sample_contexts",
]

Value: TypeAlias = bool | float | str | list[str] | None

MOST_OPEN = 5_000  # open questions that are considered
MOST_PAIRS = 4_000  # pairs of a context and an arm that are compared
MOST_CONTEXTS = 64
FEW_DECISIONS = 64  # an agent that made fewer has not seen its usual contexts
LITTLE = 0.02  # nats: below this, sampled contexts are considered beside recent ones
SECONDS = 600  # for which a question shown to another teacher is left to them
UNSURE = 1e-3  # nats: the least value of an answer where the agent is unsure
NOTHING = 1e-4  # questions of less value are not asked
TIE = 1.0 - 1e-6


class NextQuestion(NamedTuple):
    """A question to show.

    Attributes
    ----------
    context : bytes
        In the encoding of the agent.
    arm : int
        Its index. Where the question is to be filed the agent may choose another arm, of which an
        answer would teach as much.
    id, decision : ItemId or None
        The open question, and the live decision that raised it.
    file : bool
        Whether to have the agent ask about this context. If not, and there is no id, an answer is
        an example like any other.
    item : ArmId or None
        The name of what it is about.
    """

    context: bytes
    arm: int
    id: ItemId | None = None
    decision: ItemId | None = None
    file: bool = False
    item: ArmId | None = None


class QuestionSearch(NamedTuple):
    """The question if any, the number of live ones, and a filed one that is settled by now."""

    question: NextQuestion | None
    live: int = 0
    settled: ItemId | None = None


def next_question(
    aggregate: Aggregate,
    teacher: str,
    now: float,
    skipped: Collection[str] = (),
    voice: str | None = None,
) -> QuestionSearch:
    """Find the next question for a teacher.

    Parameters
    ----------
    aggregate : Aggregate
        The agent.
    teacher : str
        The id of their token.
    now : float
        The time.
    skipped : collection of str
        Pairs that they skipped, as `pair_of` names them.
    voice : str, optional
        Which of several declared teachers they are: questions for them come first.
    """
    state = aggregate.state
    if state.teachers.teachers:
        return _for_teacher(aggregate, skipped, voice)
    live = sum(
        one.decision is not None
        for one in itertools.islice(state.questions.open.values(), MOST_OPEN)
    )
    if live:
        first = next(one for one in open_questions(state) if one.decision is not None)
        asked = state.questions.open[first.id]
        return QuestionSearch(
            NextQuestion(asked.context, asked.arm, first.id, first.decision, item=asked.item), live
        )
    mine, taken = _filed(state, teacher, now)
    if mine is not None and _value_of(aggregate, mine.context)[0][mine.arm] > NOTHING:
        return QuestionSearch(mine)
    best = _most_useful(aggregate, {*skipped, *taken})
    return QuestionSearch(best, settled=None if mine is None else mine.id)


def _for_teacher(
    aggregate: Aggregate, skipped: Collection[str], voice: str | None
) -> QuestionSearch:
    """Find the next question for one of several teachers; nobody is asked twice about a case.

    Their own questions come first, live ones before the rest; then live questions for others; then
    a new one; then the remaining questions for others.
    """
    state = aggregate.state
    mine: list[NextQuestion] = []
    others: list[NextQuestion] = []
    live = 0
    for one in open_questions(state)[:MOST_OPEN]:
        asked = state.questions.open[one.id]
        key = state.case_key(asked.context, asked.item, asked.arm)
        if voice in state.teachers.said(*key) or pair_of(asked.context, asked.arm) in skipped:
            continue
        live += one.decision is not None
        found = NextQuestion(asked.context, asked.arm, one.id, one.decision, item=asked.item)
        (mine if one.to == voice else others).append(found)
    for few in (mine, others):
        few.sort(key=lambda one: one.decision is None)
    if mine or (others and others[0].decision is not None):
        return QuestionSearch((mine or others)[0], live)
    # What others are asked already is not asked again.
    taken = {pair_of(one.context, one.arm) for one in others}
    best = _most_useful(aggregate, {*skipped, *taken, *_judged_by(state, voice)})
    return QuestionSearch(best if best is not None or not others else others[0], live)


def _judged_by(state: AgentState, voice: str | None) -> set[str]:
    """Return the pairs that this teacher has judged without settling them."""
    open_ = state.teachers.open[-MOST_OPEN:]
    said = [state.judged[key] for key in open_ if voice in state.teachers.said(*key)]
    return {pair_of(case.context, case.arm) for case in said}


def question_id(teacher: str, version: int, now: float) -> str:
    """Return the id of a question filed for a teacher, so that it is found again as theirs.

    Two requests in the same second file one question.

    Examples
    --------
    >>> question_id("4f1c", 17, 1234.5)
    'teach.4f1c.17.1234'
    """
    return f"teach.{teacher}.{version}.{int(now)}"


def pair_of(context: bytes, arm: int) -> str:
    """Return a short name of a context with an arm.

    Examples
    --------
    >>> pair_of(bytes(8), 12)
    'acbe79084add-12'
    """
    return f"{hashlib.blake2b(context, digest_size=6).hexdigest()}-{arm}"


def context_form(state: AgentState, context: bytes) -> dict[str, Value]:
    """Return an encoded context as the API takes it: it encodes to the same bits."""
    decoded = state.settings.features.decode(np.frombuffer(context))
    return {k: list(v) if isinstance(v, tuple) else v for k, v in decoded.items()}  # type: ignore[misc]


def _filed(state: AgentState, teacher: str, now: float) -> tuple[NextQuestion | None, set[str]]:
    """Return the question filed for a teacher, and the pairs that others were shown just now."""
    taken: set[str] = set()
    newest: Iterator[tuple[ItemId, Open]] = reversed(state.questions.open.items())
    for id, one in itertools.islice(newest, MOST_OPEN):
        parts = id.split(".") if isinstance(id, str) else []
        if len(parts) != 4 or parts[0] != "teach" or one.decision is not None:
            continue
        if parts[1] == teacher:
            return NextQuestion(one.context, one.arm, id), taken
        if parts[3].isdigit() and now - int(parts[3]) < SECONDS:
            taken.add(pair_of(one.context, one.arm))
    return None, taken


def _most_useful(aggregate: Aggregate, banned: Collection[str]) -> NextQuestion | None:
    """Return the context and the arm of which an answer would teach most."""
    state = aggregate.state
    most = max(8, min(MOST_CONTEXTS, MOST_PAIRS // len(state.arms)))
    bits = random.Random(state.taught)  # another sample each time
    met = bits.sample(list(aggregate.recent.contexts), min(most, len(aggregate.recent.contexts)))
    found = _ranked(aggregate, met, banned)
    if state.decisions < FEW_DECISIONS or max(found, default=(0.0,))[0] < LITTLE:
        # Few contexts were seen, or little is left to learn of them.
        schema = state.settings.features
        made = schema.encode_many(sample_contexts(schema, most, bits))
        found += _ranked(aggregate, [row.tobytes() for row in made], banned)
    if not found:
        return None
    # Of about equal ones prefer one that can be filed: then the log shows that the agent asked.
    near = [one for one in found if one[0] >= 0.9 * max(found)[0]]
    return max(near, key=lambda one: (one[1].file, one[0]))[1]


def _ranked(
    aggregate: Aggregate, contexts: list[bytes], banned: Collection[str]
) -> list[tuple[float, NextQuestion]]:
    """Return the best question of each context, with the value of an answer."""
    found = []
    for context in dict.fromkeys(contexts):
        worth, value = _value_of(aggregate, context)
        best = np.flatnonzero(value >= value.max() * TIE)
        out = _banned_here(context, banned) | _answered_here(aggregate, context)
        worth[[k for k in out if k < len(worth)]] = 0.0
        k = int(worth.argmax())
        # The agent chooses the arm itself where it asks: none of its candidates may be banned.
        asks = aggregate.state.settings.teaching in ACTIVE and out.isdisjoint(best.tolist())
        if worth[k] > NOTHING:
            found.append((float(worth[k]), NextQuestion(context, k, file=asks and k in best)))
    return found


def _value_of(aggregate: Aggregate, context: bytes) -> tuple[Floats, Floats]:
    """Return the value of an answer about each arm, on this page and to the agent."""
    state, row = aggregate.state, np.frombuffer(bytearray(context))
    value = aggregate.agent.make.selector.value(row)
    unsaid = state.said(row, state.eligible(row, None)) == doubt.UNASKED
    open_ = unsaid & (state.limits_state.seen(context).marks == doubt.UNSURE)
    # It does not play what it is unsure of, even where no possible rule denies it.
    return np.where(open_, np.maximum(value, UNSURE), value), value


def _answered_here(aggregate: Aggregate, context: bytes) -> set[int]:
    """Return the arms that a teacher judged in this very context: they would answer the same."""
    state = aggregate.state
    if not state.remembers:
        return set()
    said = (*state.allowances.get(context, ()), *state.denials.get(context, ()))
    return set(said if state.settings.legacy else state._with_unit(said))


def _banned_here(context: bytes, banned: Collection[str]) -> set[int]:
    if not banned:
        return set()
    name = pair_of(context, 0).partition("-")[0]
    pairs = (pair.partition("-") for pair in banned)
    return {int(arm) for mine, _, arm in pairs if mine == name and arm.isdigit()}


def sample_contexts(schema: Schema, most: int, bits: random.Random) -> list[dict[str, Value]]:
    """Return contexts of a schema: all of them if they are few, else some that cover each word.

    Examples
    --------
    >>> sample_contexts(Schema([Flag("late"), Category("age", ["12", "18"])]), 4, random.Random(1))
    ... # doctest: +NORMALIZE_WHITESPACE
    [{'late': False, 'age': '12'}, {'late': False, 'age': '18'},
     {'late': True, 'age': '12'}, {'late': True, 'age': '18'}]
    """
    named = [feature for feature, _ in schema.encoded]
    options = {feature.name: _options(feature) for feature in named}
    if math.prod(map(len, options.values())) <= most:
        every = itertools.product(*options.values())
        return [dict(zip(options, values, strict=True)) for values in every]
    flags = sum(isinstance(feature, Flag) for feature in named)
    held = min(0.5, 2.0 / max(flags, 1))  # of many flags, few are set at a time
    each = [(name, n) for name, values in options.items() for n in range(len(values))]
    bits.shuffle(each)
    made = []
    for i in range(most):
        context = {f.name: _any(f, options[f.name], held, bits) for f in named}
        if i < len(each):
            name, n = each[i]
            context[name] = options[name][n]
        made.append(context)
    return made


def _any(feature: Encoded, options: list[Value], held: float, bits: random.Random) -> Value:
    if isinstance(feature, Flag):
        return bits.random() < held
    if isinstance(feature, Labels):
        several = bits.sample(options, min(len(options), bits.choice((1, 1, 2, 2, 3))))
        return [word for one in several for word in one]  # type: ignore[union-attr]
    return bits.choice(options)


def _options(feature: Encoded) -> list[Value]:
    """Return the values of a feature that are worth a question."""
    if isinstance(feature, Flag):
        return [False, True]
    if isinstance(feature, Category):
        return [*feature.values]
    if isinstance(feature, Labels):
        return [[word] for word in feature.values]
    if isinstance(feature, Number):
        if feature.low is None or feature.high is None:
            return [0.0, 1.0]
        return [feature.low, feature.low + (feature.high - feature.low) / 2, feature.high]
    assert_never(feature)


# --- The progress of teaching: the last answer of a teacher, what is unsure, what was learned


FROM_CSV = "csv."  # the prefix of the ids of examples from a csv
MOST_LOOKED_AT = 5_000  # examples, the latest
MOST_DISAGREEMENTS = 5
MOST_UNITS = 6


class Reversal(NamedTuple):
    """A retracted example or an open judgement, and a form to say the opposite."""

    line: ExampleLine
    about: str
    key: str


class Progress(NamedTuple):
    """The progress of teaching.

    Attributes
    ----------
    examples : int
        Number in force.
    unsure : float or None
        The share of choices in doubt, in recent contexts.
    sure : bool
        Whether none is in doubt, of an agent that has decided often enough.
    guessed, answers : int
        Of this teacher's last answers, how many the agent would have given itself.
    last : ExampleLine or None
        What this teacher taught last, to be undone.
    undone : Reversal or None
        What they have just retracted.
    disagreements : list of Disagreement
        Of all teachers.
    learned : list of Row
        What is believed of the arms, or groups, that were taught about last.
    """

    examples: int
    unsure: float | None
    sure: bool
    guessed: int
    answers: int
    last: ExampleLine | None
    undone: Reversal | None
    disagreements: list[Disagreement]
    learned: list[Row]


def progress_of(work: UnitOfWork, mine: str | None, undone: str = "") -> Progress:
    """Return the progress of teaching; `mine` names the teacher in the log. It is quick."""
    aggregate, state = work.aggregate, work.aggregate.state
    unsure = aggregate.recent.unsure()
    guesses = aggregate.guesses.of.get(mine or "", ())
    return Progress(
        len(state.examples),
        unsure,
        unsure == 0.0 and state.decisions >= FEW_DECISIONS,
        sum(guesses),
        len(guesses),
        _last(state, mine),
        retracted_example(work, mine, undone) if undone else None,
        disagreements(state, MOST_DISAGREEMENTS),
        _learned(state),
    )


def _last(state: AgentState, mine: str | None) -> ExampleLine | None:
    for one in islice(reversed(state.examples.values()), MOST_LOOKED_AT):
        bulk = isinstance(one.id, str) and one.id.startswith(FROM_CSV)
        if is_by(state, one.by, mine) and not bulk:
            return example_line(state, one)
    return None


def retracted_example(work: UnitOfWork, mine: str | None, text: str) -> Reversal | None:
    """Return an example of this teacher that was retracted."""
    state, found = work.aggregate.state, work.find("example", text)
    if found is None or not isinstance(found.event, Taught) or id_of(text) in state.examples:
        return None
    event = found.event
    if not is_by(state, event.by, mine) or event.arm not in state.number_of:
        return None
    raw = state.raw(event.context)
    about = {
        "context": context_form(state, raw),
        "arm": event.arm,
        "item": event.item,
        "scope": event.scope,
        "until": event.until,
    }
    example = Example(
        event.id,
        raw,
        state.arm_number(event.arm),
        event.allowed,
        event.by,
        event.note,
        event.item,
        event.scope,
        event.until,
    )
    return Reversal(example_line(state, example), json.dumps(about), f"instead.{_key(mine, text)}")


def open_judgement(work: UnitOfWork, mine: str | None, text: str) -> Reversal | None:
    """Return the last judgement of this one of several teachers, if it has not settled its case.

    There is no example to retract; but they can say the opposite.
    """
    state, found = work.aggregate.state, work.find("word", text)
    if found is None or not isinstance(found.event, Judged) or found.event.by != mine:
        return None
    event = found.event
    if event.arm not in state.number_of:
        return None
    raw, k = state.raw(event.context), state.arm_number(event.arm)
    key = state.case_key(raw, event.item, k)
    if state.teachers.settled(*key) is not None or mine not in state.teachers.said(*key):
        return None
    allowed = state.teachers.said(*key)[mine]
    example = Example(
        event.id or "", raw, k, allowed, event.by, event.note, event.item, event.scope, event.until
    )
    about = {
        "context": context_form(state, raw),
        "arm": event.arm,
        "item": event.item,
        "scope": event.scope,
        "until": event.until,
    }
    return Reversal(example_line(state, example), json.dumps(about), f"instead.{_key(mine, text)}")


def _key(mine: str | None, text: str) -> str:
    return hashlib.blake2b(f"{mine} {text}".encode(), digest_size=12).hexdigest()


def _learned(state: AgentState) -> list[Row]:
    """Return what is believed of what was taught about last; empty where limits are no rules."""
    shared = state.settings.share == "group" and state.limits_state.limits.shares_groups
    units: dict[int, Unit] = {}
    for one in islice(reversed(state.examples.values()), MOST_LOOKED_AT):
        u, arm = int(state.limits_state.unit_of[one.arm]), state.arms[one.arm]
        if u not in units:
            group = arm.group if shared else None
            units[u] = Unit(u, arm.label if group is None else group, 1, group is not None)
        if len(units) == MOST_UNITS:
            break
    rows = rows_of(state, list(units.values()), ())
    return [row for row in rows if row.denied or row.unsure]


# --- Examples in words, and where they contradict each other ---


MOST_VOICES = 3  # of each side of a disagreement


class ExampleLine(NamedTuple):
    """An example in words."""

    id: ItemId
    context: dict[str, Any]
    arm: str
    allowed: bool
    by: str | None
    note: str | None
    item: ArmId | None = None
    scope: str = "all"  # "item": it does not apply to other items
    until: float | None = None  # when it ends


class Disagreement(NamedTuple):
    """Examples of one context and one arm that disagree, the latest of each side first.

    `older`: the other side is not among them, as it was taught too long ago.
    """

    context: dict[str, Any]
    arm: str
    voices: list[ExampleLine]
    teachers: int
    older: bool


def is_by(state: AgentState, by: str | None, mine: str | None) -> bool:
    """Whether an example is by this person, or by the teacher that they are, among others."""
    if by == mine:
        return True
    return by is not None and state.declares(mine) and mine in by.split(", ")


def example_line(state: AgentState, example: Example) -> ExampleLine:
    """Return an example in words."""
    context = state.settings.features.decode(np.frombuffer(example.context))
    arm = arm_words(state.arms[example.arm])
    return ExampleLine(
        example.id,
        context,
        arm,
        example.allowed,
        example.by,
        example.note,
        example.item,
        example.scope,
        example.until,
    )


def disagreements(state: AgentState, most: int) -> list[Disagreement]:
    """Return the pairs of a context and an arm on which the latest examples disagree."""
    found: dict[tuple[bytes, int], list[Example]] = {}
    for one in islice(reversed(state.examples.values()), MOST_LOOKED_AT):
        other = state.denials if one.allowed else state.allowances
        if one.arm in other.get(one.context, ()):
            voices = found.setdefault((one.context, one.arm), [])
            voices.append(one)
    return [_disagreement(state, voices) for voices in islice(found.values(), most)]


def _disagreement(state: AgentState, voices: list[Example]) -> Disagreement:
    """Return both sides, a few examples of each; the other side may lie too far back."""
    sides = [[one for one in voices if one.allowed is side] for side in (True, False)]
    shown = [*sides[0][:MOST_VOICES], *sides[1][:MOST_VOICES]]
    lines = [example_line(state, one) for one in shown]
    teachers = len({one.by for one in voices})
    return Disagreement(lines[0].context, lines[0].arm, lines, teachers, not all(sides))

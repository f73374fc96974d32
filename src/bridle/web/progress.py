"""Which question a teacher is shown next.

First what live decisions are in doubt about, the most valuable answer first; then the question that
was filed for this teacher and not answered; then the one whose answer is worth most, out of
contexts met of late and, while little was met, some that are made of the schema. All looks here are
bounded, and change nothing.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
from collections.abc import Collection, Iterator
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np

from bridle.agent.config import ArmId, ItemId
from bridle.agent.events import Judged, Taught
from bridle.agent.limits_state import Example, Open
from bridle.agent.queries import open_questions
from bridle.agent.state import AgentState
from bridle.kernels import doubt
from bridle.kernels.types import Floats
from bridle.limits import FoundLimits
from bridle.policies import ACTIVE
from bridle.schema import Category, Feature, Flag, Id, Labels, Number, Schema
from bridle.store.aggregate import Aggregate
from bridle.store.idempotency import id_of
from bridle.store.writer import UnitOfWork
from bridle.web.examples import Disagreement, ExampleLine, disagreements, line_of
from bridle.web.limits import Row, Unit, rows_of
from bridle.web.teachers import said_by

__all__ = [
    "FEW_DECISIONS",
    "FROM_CSV",
    "Found",
    "Next",
    "Progress",
    "Undone",
    "context_form",
    "made_contexts",
    "next_question",
    "pair_of",
    "progress_of",
    "question_id",
    "undone_of",
    "word_said",
]


Value: TypeAlias = bool | float | str | list[str] | None

MOST_OPEN = 5_000  # open questions that are looked through
MOST_PAIRS = 4_000  # pairs of a context and an arm that are weighed
MOST_CONTEXTS = 64
FEW_DECISIONS = 64  # an agent that made fewer has not met what it will meet
LITTLE = 0.02  # nats: so little is to be learned of what was met that others are looked at, too
SECONDS = 600  # so long a question that another teacher was shown is left to them
UNSURE = 1e-3  # nats: at least so much an answer is worth where the agent is unsure
NOTHING = 1e-4  # what is worth less is not asked
TIE = 1.0 - 1e-6


class Next(NamedTuple):
    """A question to show.

    Attributes
    ----------
    context : bytes
        As the agent encodes it.
    arm : int
        The arm's number. Where the question is to be filed the agent may choose another, of which
        an answer would teach as much.
    id, decision : ItemId or None
        The open question that it is, and the live decision it came up in.
    file : bool
        Whether to have the agent ask, about this context. If not, and there is no id, what the
        teacher says is an example like any other.
    item : ArmId or None
        The name of what it is about.
    """

    context: bytes
    arm: int
    id: ItemId | None = None
    decision: ItemId | None = None
    file: bool = False
    item: ArmId | None = None


class Found(NamedTuple):
    """What was found: the question if there is one, how many live decisions ask something, and a
    question that was filed for this teacher and is settled by now.
    """  # noqa: D205

    question: Next | None
    live: int = 0
    settled: ItemId | None = None


def next_question(
    kept: Aggregate,
    teacher: str,
    now: float,
    skipped: Collection[str] = (),
    voice: str | None = None,
) -> Found:
    """Find the next question for a teacher.

    Parameters
    ----------
    kept : Kept
        The agent.
    teacher : str
        The id of their token.
    now : float
        The time.
    skipped : collection of str
        Pairs that they would not answer, as `pair_of` names them.
    voice : str, optional
        Which of several declared teachers they are: what is to be asked of them comes first.
    """
    state = kept.state
    if state.teachers.teachers:
        return _for_voice(kept, skipped, voice)
    live = sum(
        one.decision is not None
        for one in itertools.islice(state.questions.open.values(), MOST_OPEN)
    )
    if live:
        first = next(one for one in open_questions(state) if one.decision is not None)
        asked = state.questions.open[first.id]
        return Found(
            Next(asked.context, asked.arm, first.id, first.decision, item=asked.item), live
        )
    mine, taken = _filed(state, teacher, now)
    if mine is not None and _worth(kept, mine.context)[0][mine.arm] > NOTHING:
        return Found(mine)
    best = _most_useful(kept, {*skipped, *taken})
    return Found(best, settled=None if mine is None else mine.id)


def _for_voice(kept: Aggregate, skipped: Collection[str], voice: str | None) -> Found:
    """Find the next question for one of several teachers; nobody is asked twice about a case.

    First what they are to be asked, live before the rest; then what live decisions wait for, of
    others; then a new one; and what is left of others at last.
    """
    state = kept.state
    mine: list[Next] = []
    others: list[Next] = []
    live = 0
    for one in open_questions(state)[:MOST_OPEN]:
        asked = state.questions.open[one.id]
        key = state.case_key(asked.context, asked.item, asked.arm)
        if voice in state.teachers.said(*key) or pair_of(asked.context, asked.arm) in skipped:
            continue
        live += one.decision is not None
        found = Next(asked.context, asked.arm, one.id, one.decision, item=asked.item)
        (mine if one.to == voice else others).append(found)
    for few in (mine, others):
        few.sort(key=lambda one: one.decision is None)
    if mine or (others and others[0].decision is not None):
        return Found((mine or others)[0], live)
    # What others are asked already is not asked anew.
    taken = {pair_of(one.context, one.arm) for one in others}
    best = _most_useful(kept, {*skipped, *taken, *_spoken_of(state, voice)})
    return Found(best if best is not None or not others else others[0], live)


def _spoken_of(state: AgentState, voice: str | None) -> set[str]:
    """Return the pairs of which this teacher has said something that settled nothing yet."""
    open_ = state.teachers.open[-MOST_OPEN:]
    said = [state.judged[key] for key in open_ if voice in state.teachers.said(*key)]
    return {pair_of(case.context, case.arm) for case in said}


def question_id(teacher: str, version: int, now: float) -> str:
    """Name a question that is filed for a teacher, so that it is found again as theirs.

    Two requests that look at the same time file one question.

    Examples
    --------
    >>> question_id("4f1c", 17, 1234.5)
    'teach.4f1c.17.1234'
    """
    return f"teach.{teacher}.{version}.{int(now)}"


def pair_of(context: bytes, arm: int) -> str:
    """Name a context with an arm, shortly.

    Examples
    --------
    >>> pair_of(bytes(8), 12)
    'acbe79084add-12'
    """
    return f"{hashlib.blake2b(context, digest_size=6).hexdigest()}-{arm}"


def context_form(state: AgentState, context: bytes) -> dict[str, Value]:
    """Give an encoded context as the API takes it: it encodes to the same bits."""
    decoded = state.settings.features.decode(np.frombuffer(context))
    return {k: list(v) if isinstance(v, tuple) else v for k, v in decoded.items()}  # type: ignore[misc]


def _filed(state: AgentState, teacher: str, now: float) -> tuple[Next | None, set[str]]:
    """Give the question that was filed for a teacher, and what others were shown just now."""
    taken: set[str] = set()
    newest: Iterator[tuple[ItemId, Open]] = reversed(state.questions.open.items())
    for id, one in itertools.islice(newest, MOST_OPEN):
        parts = id.split(".") if isinstance(id, str) else []
        if len(parts) != 4 or parts[0] != "teach" or one.decision is not None:
            continue
        if parts[1] == teacher:
            return Next(one.context, one.arm, id), taken
        if parts[3].isdigit() and now - int(parts[3]) < SECONDS:
            taken.add(pair_of(one.context, one.arm))
    return None, taken


def _most_useful(kept: Aggregate, banned: Collection[str]) -> Next | None:
    """Give the context and the arm of which an answer would teach most."""
    state = kept.state
    most = max(8, min(MOST_CONTEXTS, MOST_PAIRS // len(state.arms)))
    bits = random.Random(state.taught)  # others each time, where there are too many
    met = bits.sample(list(kept.recent.contexts), min(most, len(kept.recent.contexts)))
    found = _weighed(kept, met, banned)
    if state.decisions < FEW_DECISIONS or max(found, default=(0.0,))[0] < LITTLE:
        # Little was met, or little is left to learn of it.
        schema = state.settings.features
        made = schema.encode_many(made_contexts(schema, most, bits))
        found += _weighed(kept, [row.tobytes() for row in made], banned)
    if not found:
        return None
    # Of what is about equal, what can be filed: then the log says that the agent asked.
    near = [one for one in found if one[0] >= 0.9 * max(found)[0]]
    return max(near, key=lambda one: (one[1].file, one[0]))[1]


def _weighed(
    kept: Aggregate, contexts: list[bytes], banned: Collection[str]
) -> list[tuple[float, Next]]:
    """Give the best question of each context, with what an answer is worth."""
    found = []
    for context in dict.fromkeys(contexts):
        worth, value = _worth(kept, context)
        best = np.flatnonzero(value >= value.max() * TIE)
        out = _banned_here(context, banned) | _answered_here(kept, context)
        worth[[k for k in out if k < len(worth)]] = 0.0
        k = int(worth.argmax())
        # The agent chooses the arm itself where it asks: it may choose none that is banned.
        asks = kept.state.settings.teaching in ACTIVE and out.isdisjoint(best.tolist())
        if worth[k] > NOTHING:
            found.append((float(worth[k]), Next(context, k, file=asks and k in best)))
    return found


def _worth(kept: Aggregate, context: bytes) -> tuple[Floats, Floats]:
    """Say what an answer about each arm is worth, here and as the agent has it."""
    state, row = kept.state, np.frombuffer(bytearray(context))
    value = kept.agent.make.chooser.value(row)
    unsaid = state.said(row, state.eligible(row, None)) == doubt.UNASKED
    open_ = unsaid & (state.limits_state.seen(context).marks == doubt.UNSURE)
    # What it is unsure of it will not play, even where no rule it can think of denies it.
    return np.where(open_, np.maximum(value, UNSURE), value), value


def _answered_here(kept: Aggregate, context: bytes) -> set[int]:
    """Return the arms that a teacher spoke of in this very context: they would say the same."""
    state = kept.state
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


def made_contexts(schema: Schema, most: int, bits: random.Random) -> list[dict[str, Value]]:
    """Make contexts of a schema: all there are, if they are few, or else such as hold each word.

    Examples
    --------
    >>> made_contexts(Schema([Flag("late"), Category("age", ["12", "18"])]), 4, random.Random(1))
    ... # doctest: +NORMALIZE_WHITESPACE
    [{'late': False, 'age': '12'}, {'late': False, 'age': '18'},
     {'late': True, 'age': '12'}, {'late': True, 'age': '18'}]
    """
    named = [feature for feature in schema.features if not isinstance(feature, Id)]
    options = {feature.name: _options(feature) for feature in named}
    if math.prod(map(len, options.values())) <= most:
        every = itertools.product(*options.values())
        return [dict(zip(options, values, strict=True)) for values in every]
    flags = sum(isinstance(feature, Flag) for feature in schema.features)
    held = min(0.5, 2.0 / max(flags, 1))  # of many flags, few hold at a time
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


def _any(feature: Feature, options: list[Value], held: float, bits: random.Random) -> Value:
    if isinstance(feature, Flag):
        return bits.random() < held
    if isinstance(feature, Labels):
        several = bits.sample(options, min(len(options), bits.choice((1, 1, 2, 2, 3))))
        return [word for one in several for word in one]  # type: ignore[union-attr]
    return bits.choice(options)


def _options(feature: Feature) -> list[Value]:
    """Give the values of a feature that are worth a question."""
    if isinstance(feature, Flag):
        return [False, True]
    if isinstance(feature, Category):
        return [*feature.values]
    if isinstance(feature, Labels):
        return [[word] for word in feature.values]
    assert isinstance(feature, Number)
    if feature.low is None or feature.high is None:
        return [0.0, 1.0]
    return [feature.low, feature.low + (feature.high - feature.low) / 2, feature.high]


# --- How far teaching is: what one teacher said last, what is still unsure, what was learned


FROM_CSV = "csv."  # so the ids of examples begin that came in bulk
MOST_LOOKED_AT = 5_000  # examples, the latest
MOST_DISAGREEMENTS = 5
MOST_UNITS = 6


class Undone(NamedTuple):
    """An example that was taken back, and a form to say the opposite in its place."""

    line: ExampleLine
    about: str
    key: str


class Progress(NamedTuple):
    """How far teaching is.

    Attributes
    ----------
    examples : int
        That stand.
    unsure : float or None
        The share of choices, in contexts met of late, that are unsure.
    sure : bool
        Whether none of them is, of an agent that has met somebody.
    guessed, answers : int
        Of this teacher's last answers, how many the agent would have given itself.
    last : ExampleLine or None
        What this teacher said last, to be undone.
    undone : Undone or None
        What they have just taken back.
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
    undone: Undone | None
    disagreements: list[Disagreement]
    learned: list[Row]


def progress_of(work: UnitOfWork, mine: str | None, undone: str = "") -> Progress:
    """Read how far teaching is; `mine` is how the log names the teacher. It is quick."""
    kept, state = work.aggregate, work.aggregate.state
    unsure = kept.recent.unsure()
    guesses = kept.guesses.of.get(mine or "", ())
    return Progress(
        len(state.examples),
        unsure,
        unsure == 0.0 and state.decisions >= FEW_DECISIONS,
        sum(guesses),
        len(guesses),
        _last(state, mine),
        undone_of(work, mine, undone) if undone else None,
        disagreements(state, MOST_DISAGREEMENTS),
        _learned(state),
    )


def _last(state: AgentState, mine: str | None) -> ExampleLine | None:
    for one in islice(reversed(state.examples.values()), MOST_LOOKED_AT):
        bulk = isinstance(one.id, str) and one.id.startswith(FROM_CSV)
        if said_by(state, one.by, mine) and not bulk:
            return line_of(state, one)
    return None


def undone_of(work: UnitOfWork, mine: str | None, text: str) -> Undone | None:
    """Give an example of this teacher that does not stand any more."""
    state, found = work.aggregate.state, work.find("example", text)
    if found is None or not isinstance(found.event, Taught) or id_of(text) in state.examples:
        return None
    event = found.event
    if not said_by(state, event.by, mine) or event.arm not in state.number_of:
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
    return Undone(line_of(state, example), json.dumps(about), f"instead.{_key(mine, text)}")


def word_said(work: UnitOfWork, mine: str | None, text: str) -> Undone | None:
    """Give what this one of several teachers said last, if it has not settled its case.

    There is no example to take back; but they can say the opposite.
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
    return Undone(line_of(state, example), json.dumps(about), f"instead.{_key(mine, text)}")


def _key(mine: str | None, text: str) -> str:
    return hashlib.blake2b(f"{mine} {text}".encode(), digest_size=12).hexdigest()


def _learned(state: AgentState) -> list[Row]:
    """Read back what is believed of what was taught about last; not where limits are no rules."""
    shared = state.settings.share == "group" and not isinstance(
        state.limits_state.limits, FoundLimits
    )
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

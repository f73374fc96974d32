"""What examples out of a csv would change, before they are taught.

The agent is read twice, shortly; all that takes long is done with a copy of its limits, elsewhere.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bridle.agent.config import Arm
from bridle.api.requests import Example, TeachMany
from bridle.errors import BridleError
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import Beliefs
from bridle.limits.declared import CompiledRule
from bridle.schema import Schema
from bridle.server.handlers import teaching
from bridle.server.problems import Problem, problem_of
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
from bridle.web.page import Html, Page, Redirect, Shown, Visit, said_of
from bridle.web.progress import FROM_CSV, made_contexts
from bridle.web.rendering import arm_words, url
from bridle.web.teachers import voice_of

__all__ = [
    "AGAINST",
    "PAGES",
    "Changed",
    "Preview",
    "ReadCsv",
    "ShownRow",
    "Standing",
    "preview_of",
    "read_csv",
    "standing_of",
]


MOST_SHOWN = 20
MOST_LEARNED = 1_000  # examples that are folded into a copy to see what changes
SECONDS = 5.0  # and so long it may take
# What a line does, by the first that is so. Those of AGAINST say the opposite of something.
EFFECTS = ("again", "apart", "against", "rule", "surprise", "believed", "new")
AGAINST = ("apart", "against", "rule", "surprise")

Pair: TypeAlias = tuple[bytes, int]


class ReadCsv(NamedTuple):
    """The examples of a csv, read and encoded: one of each for a line."""

    lines: list[Line]
    rows: list[ExampleRow]
    contexts: list[bytes]
    arms: list[int]


class Standing(NamedTuple):
    """What was read of an agent at one moment, to compare with.

    `same` and `other` say of each row whether an example stands that says so, or the opposite.
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
    """A line in words, and what it does."""

    line: int
    context: dict[str, Any]
    arm: str
    allowed: bool
    effect: str


class Changed(NamedTuple):
    """What would be believed otherwise, of all choices in cases met of late."""

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
        Its lines.
    counts : mapping
        How many lines have each effect.
    shown : list of ShownRow
        The first lines.
    csv : str
        What is to be taught, without what stands already: first what contradicts nothing.
    fine, taught : int
        How many lines of it contradict nothing, and how many it has.
    changed : Changed or None
        None where it would take too long to say, or nothing was met.
    version : int
        Of the agent, when it was looked at.
    """

    total: int
    counts: dict[str, int]
    shown: list[ShownRow]
    csv: str
    fine: int
    taught: int
    changed: Changed | None
    version: int


def read_csv(schema: Schema, arms: Sequence[Arm], text: str) -> ReadCsv:
    """Read examples and encode their contexts, or raise `BadCsv`. It may take seconds."""
    rows = read_examples(schema, arms, text)
    lines = list(read_lines(text, example_columns(schema)))
    encoded = schema.encode_many([row.context for row in rows])
    number_of = {arm.id: k for k, arm in enumerate(arms)}
    return ReadCsv(
        lines, rows, [row.tobytes() for row in encoded], [number_of[row.arm] for row in rows]
    )


def standing_of(work: UnitOfWork, read: ReadCsv) -> Standing:
    """Read of the agent what its examples say of each row, and copy what it believes."""
    kept, state = work.aggregate, work.aggregate.state
    said = zip(read.contexts, read.arms, read.rows, strict=True)
    same, other = [], []
    for context, arm, row in said:
        item, allowed = state.settings.features.item(row.context), row.allowed
        case: Any = context if item is None else item
        yes, no = state.allowances.get(case, ()), state.denials.get(case, ())
        same.append(arm in (yes if allowed else no))
        other.append(arm in (no if allowed else yes))
    width = state.settings.features.width
    return Standing(
        kept.version,
        same,
        other,
        state.limits_state.limits.copy(),
        state.limits_state.unit_of.copy(),
        tuple(state.compiled_rules),
        kept.recent.to_array(width).copy(),
        state.limits_state.key,
    )


def preview_of(
    schema: Schema,
    arms: Sequence[Arm],
    read: ReadCsv,
    standing: Standing,
    name_of: Callable[[str, int], str],
) -> Preview:
    """Say what the rows of a csv would change. It may take seconds.

    `name_of` gives what the ids of its examples begin with: by the csv and the agent's version.
    """
    effects = _effects(read, standing)
    fine = [i for i, effect in enumerate(effects) if effect in ("believed", "new")]
    order = fine + [i for i, effect in enumerate(effects) if effect in AGAINST]
    names = list(read.lines[0].cells)
    csv = written([names, *([*read.lines[i].cells.values()] for i in order)])
    name = name_of(csv, standing.version)
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
        _changed(read, standing, order, name),
        standing.version,
    )


def _decoded(schema: Schema, raw: bytes) -> dict[str, Any]:
    return schema.decode(np.frombuffer(raw))


def _effects(read: ReadCsv, standing: Standing) -> list[str]:
    """Say of each row what it does."""
    allowed = np.array([row.allowed for row in read.rows], np.bool_)
    arms = np.array(read.arms, np.int64)
    X = np.frombuffer(b"".join(read.contexts)).reshape(len(arms), -1)
    sure_yes, sure_no = _sure(standing, X, arms)
    ruled = _denied(standing.rules, X, arms) & allowed
    said: dict[Pair, set[bool]] = {}
    for context, arm, answer in zip(read.contexts, read.arms, allowed.tolist(), strict=True):
        said.setdefault((context, arm), set()).add(answer)
    effects, met = [], set()
    for i, (context, arm) in enumerate(zip(read.contexts, read.arms, strict=True)):
        answer = bool(allowed[i])
        if standing.same[i] or (context, arm, answer) in met:
            effect = "again"
        elif len(said[context, arm]) > 1:
            effect = "apart"
        elif standing.other[i]:
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


def _sure(standing: Standing, X: Floats, arms: Ints) -> tuple[Bools, Bools]:
    """Say of each row whether its arm is surely allowed, and whether it is surely denied."""
    yes, no = np.zeros((2, len(X)), np.bool_)
    units = standing.unit_of[arms]
    for unit in np.unique(units):
        mine = np.flatnonzero(units == unit)
        look = standing.limits.predict(int(unit), np.ascontiguousarray(X[mine]))
        yes[mine], no[mine] = look.safe, ~look.possible
    return yes, no


def _denied(rules: Sequence[CompiledRule], X: Floats, arms: Ints) -> Bools:
    """Say of each row whether a declared rule denies it."""
    denied = np.zeros(len(X), np.bool_)
    for rule in rules:
        holds = rule.arms[arms].copy()
        for column, low, high in rule.conditions:
            holds &= (low <= X[:, column]) & (X[:, column] <= high)
        denied |= holds
    return denied


def _changed(read: ReadCsv, standing: Standing, order: list[int], name: str) -> Changed | None:
    """Teach a copy, and compare what it believes of cases met of late."""
    recent = standing.recent
    if not len(recent) or not order or len(order) > MOST_LEARNED:
        return None
    limits = standing.limits.copy()
    until = time.monotonic() + SECONDS
    for place, i in enumerate(order):
        if time.monotonic() > until:
            return None
        row = np.frombuffer(read.contexts[i])
        limits.learn(row, read.arms[i], read.rows[i].allowed, standing.key(f"{name}.{place}"))
    before, after = (_marks(one, recent) for one in (standing.limits, limits))
    weight = np.bincount(standing.unit_of, minlength=len(before))[:, None]
    moved = before != after
    to = [int((weight * (moved & (after == mark))).sum()) for mark in (2, 0, 1)]
    return Changed(len(recent), len(recent) * len(standing.unit_of), *to)


def _marks(limits: Beliefs, rows: Floats) -> Ints:
    """Give what is believed of each unit in each context: 2 surely yes, 0 surely no, 1 unsure."""
    look = limits.predict_all(rows)
    return look.possible.astype(np.int64) + look.safe.astype(np.int64)


# --- Teaching from a csv: send it, see what it would change, confirm ----------------------
#
# Nothing is kept in between: the page that asks for confirmation carries what will be taught.


BATCH = 50  # examples in one piece of work: others want to write, too
REQUEST_SECONDS = 5.0  # of one request; then the page asks for the next
LAST = 2**53
TEACH = "POST /v1/agents/{agent}/examples"


async def show(visit: Visit) -> Shown:
    """Show where a csv can be sent."""
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
        schema, arms = await _about(visit)
        read = await visit.service.aside(lambda: read_csv(schema, arms, text))
        standing = await visit.service.do(visit.agent, lambda work: standing_of(work, read))
        found = await visit.service.aside(lambda: preview_of(schema, arms, read, standing, name_of))
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
    return Html("bulk-preview.html", {**values, **said})


async def confirm(visit: Visit) -> Shown:
    """Teach what was confirmed; as much as fits into a request, then the page goes on."""
    form = visit.form
    text = _text(form.need("csv"))
    version = form.whole("version", low=1, high=LAST)
    fine, upto = (form.whole(name, low=0, high=MAX_ROWS) for name in ("fine", "upto"))
    at = form.whole("at", 0, low=0, high=MAX_ROWS)
    try:
        schema, arms = await _about(visit)
        read = await visit.service.aside(lambda: read_csv(schema, arms, text))
    except Problem as problem:
        return await _form(visit, text=text, problem=problem)
    rows = read.rows[:upto]
    name, wrong = name_of(text, version), None
    until = time.monotonic() + REQUEST_SECONDS
    while at < len(rows):
        # A batch is taken as a whole or not at all: whatever is sent again is cut the same way.
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
    return Html("bulk-going.html", values, 200 if wrong is None else wrong.status)


def _batch(visit: Visit, name: str, rows: list[ExampleRow], first: int) -> TeachMany:
    examples = [
        Example(
            context=row.context,
            arm=row.arm,
            allowed=row.allowed,
            id=f"{name}.{first + n}",
        )
        for n, row in enumerate(rows)
    ]
    teacher = visit.form.optional("teacher")
    return TeachMany(examples=tuple(examples), teacher=teacher, **said_of(visit))


def name_of(csv: str, version: int) -> str:
    """Name a csv, and so its examples: what is sent twice is taught once.

    `version` is the agent's when the csv was looked at. So it can be taught again later, if it was
    taken back.
    """
    said = hashlib.blake2b(f"{version}\n{csv}".encode(), digest_size=12).hexdigest()
    return f"{FROM_CSV}{said}"


def _text(sent: str) -> str:
    """Give a csv as it was before a browser sent it: with plain ends of lines."""
    return sent.replace("\r\n", "\n").rstrip("\n") + "\n"


async def _about(visit: Visit) -> tuple[Schema, list[Arm]]:
    def look(work: UnitOfWork) -> tuple[Schema, list[Arm]]:
        state = work.aggregate.state
        return state.settings.features, state.arms

    return await visit.service.do(visit.agent, look)


async def _form(
    visit: Visit, text: str = "", problem: Problem | None = None, taught: int = 0
) -> Html:
    schema, arms = await _about(visit)
    voice = await visit.service.do(visit.agent, lambda work: voice_of(visit, work.aggregate.state))
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
    return Html("bulk.html", values, 200 if problem is None else problem.status)


def _sample(schema: Schema, arms: list[Arm]) -> str:
    """Give some lines as this agent reads them."""
    rows: list[list[object]] = [list(example_columns(schema))]
    for n, context in enumerate(made_contexts(schema, 2, random.Random(1))[:2]):
        values = [context.get(feature.name, f"name {n + 1}") for feature in schema.features]
        rows.append([*values, arms[-n % len(arms)].id, n == 0])
    return written(rows)


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/teach/bulk", handle=show, like=(TEACH,)),
    Page(method="POST", path="/agents/{agent}/teach/bulk", handle=preview, like=(TEACH,)),
    Page(method="POST", path="/agents/{agent}/teach/bulk/confirm", handle=confirm, like=(TEACH,)),
)

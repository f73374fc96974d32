"""What an agent knows of its limits, for people to read. Nothing here changes anything."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.certificates import Certificate
from bridle.certifying import Certification
from bridle.choosing import Chooser
from bridle.decisions import Check, Question
from bridle.errors import NotPossible
from bridle.explaining import Believed, believed_of
from bridle.features import Category, Context, Number, Schema
from bridle.freshstart import FreshStart, fresh_start_of
from bridle.kernels.types import Bools, Floats
from bridle.knowledge import Example, Knowledge
from bridle.known import item_of
from bridle.limits import (
    Beliefs,
    FoundGroup,
    FoundLimits,
    Mixed,
    MixtureLimits,
    Reading,
    RuleLimits,
    Surprise,
    Terms,
)
from bridle.policies import Weighted
from bridle.purse import Purse
from bridle.rules import Rule
from bridle.settings import Arm, ArmId, ItemId, Settings, listed, plain_id
from bridle.teachers import Choice, Teachers
from bridle.thresholds import DEFAULT_LAMBDA_MIN

__all__ = ["Believed", "Exceptions", "OpenQuestion", "Reader", "open_questions", "worth_of"]

# So many denials of one unit and nothing else are said in one sentence.
LEAST_DENIALS = 10
# In wider contexts pairs are too many to be rules.
MAX_WIDTH = 300
# Open questions that are weighed by what an answer is worth.
MOST_WEIGHED = 1_000
# Members of a mixture that no sentence can say.
DEGREES = ("logistic", "pooled")
# A feature that moves P(allowed) by less does not matter.
MATTERS = 0.05
# How a bound is said: "age under about 16 (14 to 17)"; and where it may lie.
_BOUND = re.compile(r"(?P<name>.+) (under|over) (about )?[-0-9.]+.*")
_RANGE = re.compile(r" \(([-0-9.]+) to ([-0-9.]+)\)$")


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that waits for its answer."""

    id: ItemId
    context: tuple[float, ...]  # as the agent encodes it
    arm: ArmId
    decision: ItemId | None  # that it came up in; None if the agent asked to be taught
    item: ArmId | None  # the name of what the context is about
    worth: float | None  # what its answer is worth now, in rewards; None: not weighed
    to: str | None = None  # whom to ask, of declared teachers; None: nobody is worth it


@dataclass(frozen=True, slots=True)
class Exceptions:
    """What is known of exceptions to what is believed safe of one arm, or of a group."""

    unit: str
    judged: int  # first judgements of what was believed safe
    found: int  # of these: denied
    rate: float  # what is expected of an item not yet judged
    coin: float  # the probability with which its next play is checked


def exceptions_of(know: Knowledge) -> tuple[Exceptions, ...]:
    """Return what checks and answers have found, by unit; nothing where plays are not checked."""
    rates = know.believing.rates
    if rates is None:
        return ()
    return tuple(
        Exceptions(unit_name(know, u), int(rates.judged[u].sum()), int(rates.judged[u, 1]),
                   float(rates.rates[u]), rates.coin(u))
        for u in range(rates.units)
    )  # fmt: skip


def unit_name(know: Knowledge, unit: int) -> str:
    """Return what people call a unit: its group, or the label of its only arm."""
    arm = know.arms[int(np.flatnonzero(know.believing.unit_of == unit)[0])]
    shared = know.settings.share == "group" and not isinstance(know.believing.limits, FoundLimits)
    return str(arm.group if shared and arm.group is not None else arm.label)


def worth_of(know: Knowledge, row: Floats, k: int, item: ArmId | None) -> float:
    """Return what an answer about an arm is worth here and now: see `Chooser.value`."""
    return float(Chooser(know).value(row, item)[k])


def open_questions(know: Knowledge) -> tuple[OpenQuestion, ...]:
    """Return the open questions of an agent, the most valuable first, of equals the oldest.

    Of more than 1,000 the oldest 1,000 are weighed; the others follow as they came.
    """
    chooser = Chooser(know)
    values: dict[tuple[bytes, ArmId | None], Floats] = {}
    out = []
    for n, (id, one) in enumerate(know.questions.open.items()):
        row, case, worth = np.frombuffer(one.context), (one.context, one.item), None
        to = None
        if n < MOST_WEIGHED:
            if case not in values:
                values[case] = chooser.value(row, one.item)
            worth = float(values[case][one.arm])
            if know.settings.teachers:
                choice = whom_to_ask(know, one.context, one.item, one.arm)
                to = None if choice is None else choice.teacher
        out.append(
            OpenQuestion(id, tuple(row.tolist()), know.arm_ids[one.arm], one.decision, one.item,
                         worth, to)
        )  # fmt: skip
    if know.settings.legacy:  # as it was: the oldest first
        return tuple(out)
    return tuple(sorted(out, key=lambda one: math.inf if one.worth is None else -one.worth))


def whom_to_ask(
    know: Knowledge,
    context: bytes,
    item: ArmId | None,
    arm: int,
    among: Sequence[str] | None = None,
) -> Choice | None:
    """Return which declared teacher to ask about a case, None if nobody is worth it.

    Not to know costs what an answer is worth (`answer_price`): so much was lost before it is asked.
    """
    case, unit = know.case_key(context, item, arm)
    price = know.settings.answer_price
    assert price is not None  # agents of the first form have no declared teachers
    p = know.prior_of(context, arm)
    return know.teachers.choose(p, price, case=case, unit=unit, among=among)


class Reader:
    """What an agent knows, to be looked at."""

    _knowledge: Knowledge

    @property
    def settings(self) -> Settings:
        """What it was created with."""
        return self._knowledge.settings

    @property
    def schema(self) -> Schema:
        """What a context looks like."""
        return self._knowledge.settings.features

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All arms, in the order of every array."""
        return tuple(self._knowledge.arms)

    @property
    def policy(self) -> Weighted:
        """How scores become a choice, now."""
        return self._knowledge.policy

    @property
    def sigma(self) -> float | None:
        """The dial, if the policy has one."""
        return getattr(self._knowledge.policy, "sigma", None)

    @property
    def version(self) -> int:
        """The number of events folded, `Created` included."""
        return self._knowledge.version

    @property
    def pending(self) -> int:
        """How many decisions wait for a reward."""
        return len(self._knowledge.pending)

    @property
    def dropped(self) -> int:
        """How many decisions were dropped unrewarded, as the oldest of too many."""
        return self._knowledge.dropped

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The declared rules that stand."""
        return tuple(self._knowledge.rules.values())

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples that stand, in the order they were taught."""
        return tuple(self._knowledge.examples.values())

    @property
    def waiting(self) -> tuple[ItemId, ...]:
        """The decisions that asked and are not made yet, oldest first."""
        return tuple(self._knowledge.questions.waiting)

    @property
    def open_questions(self) -> tuple[OpenQuestion, ...]:
        """The questions that wait for an answer, the most valuable first, of equals the oldest.

        Of more than 1,000 the oldest 1,000 are weighed; the others follow as they came.
        """
        return open_questions(self._knowledge)

    @property
    def open_checks(self) -> tuple[Check, ...]:
        """The plays that a coin chose to be judged and that wait for it, oldest first."""
        know = self._knowledge
        return tuple(
            Check(id, tuple(np.frombuffer(one.context).tolist()), know.arm_ids[one.arm], one.item,
                  one.coin)
            for id, one in know.checks.open.items()
        )  # fmt: skip

    @property
    def exceptions(self) -> tuple[Exceptions, ...]:
        """What checks and answers have found of exceptions to what is believed safe, by unit."""
        return exceptions_of(self._knowledge)

    @property
    def promised(self) -> Purse | None:
        """The purse of the promise that it keeps, a copy; None if it keeps none."""
        purse = self._knowledge.purse
        return None if purse is None else purse.copy()

    @property
    def teachers(self) -> Teachers:
        """What is known of the declared teachers, a copy: `rates()`, `sentences()` and more."""
        return self._knowledge.teachers.copy()

    def whom(
        self,
        about: Question | OpenQuestion | Check | ItemId,
        *,
        among: Sequence[str] | None = None,
    ) -> Choice | None:
        """Return which declared teacher to ask: whose answer is worth its price.

        Parameters
        ----------
        about : Question, id of a question, or Check
            A check goes to who errs least and has not judged its case yet.
        among : list of names, optional
            Who can be asked now; by default all.

        Returns
        -------
        Choice or None
            None: nobody is worth it, so `skip` the question; of a check: all have judged it.

        Examples
        --------
        >>> from bridle import Agent
        >>> from bridle.teachers import Teacher
        >>> staff = [Teacher("parent", price=0.35), Teacher("model", price=0.01)]
        >>> agent = Agent(arms=2, features=1, seed=1, budget=5, teachers=staff)
        >>> question = agent.ask([1.0], item="Up")
        >>> agent.whom(question).teacher
        'model'
        >>> _ = agent.answer(question, True, by="model")
        >>> agent.whom(question).teacher
        'parent'
        """
        know = self._knowledge
        if not know.settings.teachers:
            remedy = "Make the agent with teachers=[Teacher(...), ...]."
            raise NotPossible(f"No teachers are declared, so there is nobody to choose. {remedy}")
        if isinstance(about, Check):
            check = know.checks.get(about.id)
            case, unit = know.case_key(check.context, check.item, check.arm)
            return know.teachers.choose_judge(case, unit, among=among)
        id = about.id if isinstance(about, Question | OpenQuestion) else about
        one = know.questions.get(plain_id(id))
        return whom_to_ask(know, one.context, one.item, one.arm, among)

    @property
    def fresh_start(self) -> FreshStart | None:
        """What speaks for beginning anew what was learned of the limits; None if nothing does.

        Answers that do not come as foretold; or a check that denied what a teacher had allowed.
        """
        return fresh_start_of(self._knowledge)

    @property
    def budget_left(self) -> int:
        """How many questions decisions may still ask."""
        return self._knowledge.questions.left

    @property
    def surprises(self) -> tuple[Surprise, ...]:
        """Answers that the limits were sure would not come; kept by ``limits="auto"`` alone.

        If they go on coming, none of the kinds of limits fits, or the teacher errs.
        """
        limits = self._knowledge.believing.limits
        return tuple(limits.surprises) if isinstance(limits, Mixed) else ()

    @property
    def certificate(self) -> Certificate | None:
        """What the agent keeps to, if it was certified."""
        return self._knowledge.certificate

    def certification(
        self,
        contexts: Sequence[Context] | npt.NDArray[Any],
        alpha: float,
        delta: float,
        *,
        lambda_min: float = DEFAULT_LAMBDA_MIN,
        on: str = "",
        ids: Sequence[int | str] | None = None,
        teaching: Iterable[int | str] | npt.ArrayLike | None = None,
        items: Sequence[ArmId | None] | None = None,
    ) -> Certification:
        """Begin to certify the limits as they are now: it asks its questions one by one.

        The contexts must be drawn as the future ones are, and not be those of examples. The
        parameters are those of `bridle.certifying.Certification`; `teaching` is by default what
        the agent was taught, and `items` are the names of what the contexts are about, if they
        have some.
        """
        rows = self.schema.encode_many(contexts)
        know, owner = self._knowledge, "Agent.certification"
        if isinstance(contexts, np.ndarray) and contexts.dtype == object:
            contexts = contexts.tolist()
        if items is not None or isinstance(contexts, list | tuple):
            n = len(rows)
            given = [None] * n if items is None else listed(items, "items", owner, n)
            each = [()] * n if isinstance(contexts, np.ndarray) else contexts
            items = [item_of(know, c, i, owner) for c, i in zip(each, given, strict=True)]
        return self.certification_of(
            rows, alpha, delta, lambda_min=lambda_min, on=on, ids=ids, teaching=teaching,
            items=items,
        )  # fmt: skip

    def certification_of(
        self,
        rows: Floats,
        alpha: float,
        delta: float,
        *,
        lambda_min: float = DEFAULT_LAMBDA_MIN,
        on: str = "",
        ids: Sequence[int | str] | None = None,
        teaching: Iterable[int | str] | npt.ArrayLike | None = None,
        items: Sequence[ArmId | None] | None = None,
    ) -> Certification:
        """Begin a `certification` on contexts that are encoded already; for stores."""
        know = self._knowledge
        if know.examples and ids is None and teaching is None:
            taught = np.frombuffer(b"".join(e.context for e in know.examples.values()))
            teaching = taught.reshape(len(know.examples), -1)
        return Certification(
            self.limits, rows, alpha, delta, lambda_min=lambda_min, on=on, about=self.about,
            ids=ids, teaching=teaching, arms=know.arm_ids,
            standing=self._allowed_to_the_letter(rows, items),
        )  # fmt: skip

    def _allowed_to_the_letter(self, rows: Floats, items: Sequence[ArmId | None] | None) -> Bools:
        know = self._knowledge
        out = np.zeros((len(rows), len(know.arms)), np.bool_)
        if know.remembers:
            named = [None] * len(rows) if items is None else items
            for row, context, item in zip(out, rows, named, strict=True):
                row[know.allowed_here(context, item)] = True
        return out

    @property
    def limits(self) -> Beliefs:
        """What was learned of its limits: a copy, to look at, or to `certify`."""
        return self._knowledge.believing.limits.copy()

    @property
    def about(self) -> str:
        """Names its arms and features, as a certificate does: see `bridle.certify`."""
        return self._knowledge.about

    @property
    def left_out(self) -> tuple[str, ...]:
        """What ``limits="auto"`` could not take in at this size, in sentences."""
        limits = self._knowledge.believing.limits
        return limits.left_out if isinstance(limits, Mixed) else ()

    def believed(self, context: Context, item: ArmId | None = None) -> Believed:
        """Say what is believed of every arm in a context, or of this very item. Changes nothing."""
        named = item_of(self._knowledge, context, item, "Agent.believed")
        return believed_of(self._knowledge, self.schema.encode(context), named)

    def novelty_rate(
        self,
        above: float = 0.5,
        contexts: Sequence[Context] | npt.NDArray[Any] | None = None,
    ) -> float | None:
        """Say in what share of cases contexts leave what was taught. If it rises, teach again.

        New to an arm is a context that has a novelty above this, or holds something that no example
        of the arm held.

        Parameters
        ----------
        above : float, default 0.5
            See `believed(context).novelty`.
        contexts : contexts, optional
            Those of the last day, say: counted are those that are new to every arm. By default the
            plays that wait for their reward: counted are those that are new to the arm played.

        Returns
        -------
        float or None
            None if there is nothing to look at.
        """
        least = validate.FRACTION.check(above, "above", "Agent.novelty_rate")
        know = self._knowledge
        cases: list[tuple[bytes, int | None]] = list(know.pending.values())
        if contexts is not None:
            cases = [(row.tobytes(), None) for row in self.schema.encode_many(contexts)]
        seen: dict[bytes, Bools] = {}
        new = 0
        for raw, k in cases:
            if raw not in seen:
                row = np.frombuffer(raw)
                unseen = np.array([bool(found) for found in know.believing.unseen(row)])
                far = know.believing.novelty(row) > least
                seen[raw] = far | unseen[know.believing.unit_of]
            new += bool(seen[raw].all() if k is None else seen[raw][k])
        return new / len(cases) if cases else None

    def describe(self) -> list[str]:
        """Say the limits in sentences, one for each arm or group of arms.

        Examples
        --------
        >>> from bridle import Agent, Flag
        >>> agent = Agent(arms=2, features=[Flag("horror"), Flag("drama")], limits="rules")
        >>> _ = agent.teach({"horror": True, "drama": False}, 1, False)
        >>> _ = agent.teach({"horror": False, "drama": True}, 1, True)
        >>> agent.describe()
        ['0: unsure: horror, drama', '1: not horror']
        """
        return _sentences(self._knowledge)

    def proposal(self, threshold: float = 0.5) -> list[FoundGroup]:
        """Propose groups of arms that seem to share a rule, for a person to accept or correct.

        They are found in the examples that stand, as rules of single features (up to 12 flags and
        words), whatever the kind of limits and the groups there are. `regroup` takes the list, as
        it is or corrected (`dataclasses.replace`). It takes seconds from hundreds of examples on.
        """
        return _proposal(self._knowledge, threshold)


def _sentences(know: Knowledge) -> list[str]:
    """Say the limits in sentences, one a unit."""
    limits = know.believing.limits
    if not isinstance(limits, RuleLimits | Mixed | FoundLimits):
        raise NotPossible(
            f"Limits of the kind {know.believing.kind!r} are no sentences. Ask what is believed of "
            "a context, agent.believed(context), or make the agent with limits='rules' or 'auto'."
        )
    names, never = know.settings.features.columns, _never_together(know.settings.features)
    out = []
    unread: Reading | None = None  # of units that nothing was said about: all alike
    for unit in range(limits.units):
        first = int(np.flatnonzero(limits.unit_of == unit)[0])
        name = unit_name(know, unit)
        if isinstance(limits, MixtureLimits):
            said_of = _mixture_sentence(know, limits, unit, first, str(name), never)
            out.append(f"{said_of}{_doubted(know, unit)}")
            continue
        if isinstance(limits, Mixed) and limits.by_degrees(unit):
            out.append(f"{name}: by degrees, no rule says it; see believed(context)")
            continue
        untaught = not know.believing.taught(unit)
        said = unread if untaught and unread is not None else limits.describe(unit, names)
        unread = said if untaught else unread
        unsure = tuple(term for term in said.unsure if term not in never)
        out.append(replace(said, unsure=unsure).sentence(str(name)))
    return out


def _doubted(know: Knowledge, unit: int) -> str:
    """Say that exceptions put all in doubt that was not judged itself; else nothing."""
    rates = know.believing.rates
    if rates is None or rates.holds(unit):
        return ""
    clean, found = rates.judged[unit].tolist()
    return (
        f"; checks found exceptions ({found} of {clean + found}): what was not judged itself is "
        "in doubt"
    )


def _mixture_sentence(
    know: Knowledge, limits: MixtureLimits, unit: int, arm: int, name: str, never: set[str]
) -> str:
    """Say the limits of one unit of a mixture: what its rules deny, and what P(allowed) doubts."""
    schema = know.settings.features
    exceptions = _exceptions(know, limits, unit)
    examples = know.believing.examples_of(unit)
    if len(examples) >= LEAST_DENIALS and not any(example.allowed for example in examples):
        return f"{name}: nothing was allowed so far{exceptions}"
    p = _alone(know, limits, unit, arm)
    if limits.by_degrees(unit) or all(one in DEGREES or one == "allowed" for one in limits.members):
        most = _most(schema, p)
        return f"{name}: by degrees, no rule says it{most}; see believed(context){exceptions}"
    weights = limits.weights(unit)
    bounds = limits.members.get("bounds")
    leads = weights.get("bounds", 0.0) > weights.get("singles", 0.0) + weights.get("pairs", 0.0)
    if bounds is not None and leads:
        said = _bound_reading(bounds, unit, schema)
    else:
        said = limits.describe(unit, schema.columns)
    bound = any(" under " in term or " over " in term for term in said.denied) and leads
    words = {} if limits.terms is None else dict(
        zip(limits.terms.names(schema.columns), limits.terms.all(), strict=True)
    )  # fmt: skip
    safe: list[str] = []
    unsure: list[str] = []
    for term, column in words.items():
        if isinstance(column, tuple) or (bound and term not in said.unsure):
            continue  # what a bound denies is not the word's doing
        (safe if p[column] >= 1.0 - limits.doubt else unsure).append(term)
    gone = [term for term in unsure if p[words[term]] <= limits.doubt]
    denied = tuple(dict.fromkeys((*gone, *(term for term in said.denied if term not in safe))))
    safe += _safe_numbers(schema, limits, unit)
    more = [
        term for term in said.unsure
        if term not in never and term not in safe and term not in unsure
    ]  # fmt: skip
    left = tuple(term for term in (*unsure, *more) if term not in denied)
    return replace(said, denied=denied, unsure=left).sentence(name) + exceptions


def _bound_reading(bounds: Any, unit: int, schema: Schema) -> Reading:
    """Read rules with bounds back: "age under about 16, unsure from 14 to 17"."""
    said: Reading = bounds.describe(unit, schema)
    numbers = {f.name for f in schema.features if isinstance(f, Number)}
    unsure: dict[str, None] = {}
    for term in said.unsure:
        number = _BOUND.match(term)
        # Where a bound lies is not said while it is not known that there is one.
        unsure[number["name"] if number and number["name"] in numbers else term] = None
    unsure = {t: None for t in unsure if t in numbers or not _BOUND.match(t)}
    denied = tuple(_RANGE.sub(r", unsure from \1 to \2", term) for term in said.denied)
    return replace(said, denied=denied, unsure=tuple(unsure))


def _alone(know: Knowledge, limits: Beliefs, unit: int, arm: int) -> Floats:
    """Return P(allowed) of an arm where a context holds just one thing: by column, (d + 1,).

    Of a word: where it alone holds. Of a number: how much more likely at its high end than at its
    low end. The last: where nothing holds. Numbers are in the middle of their range, flags and
    words do not hold; what rules and people say of such a context counts.
    """
    schema = know.settings.features
    rest = np.zeros(schema.width)
    numbers = [f for f in schema.features if isinstance(f, Number)]
    for feature in numbers:
        at = schema.place(feature.name)[1]
        middle = 0.0 if feature.low is None else 0.5
        rest[at] = middle if feature.missing is None else feature.scale(feature.missing)
    rows = np.repeat(rest[None], schema.width + 1, axis=0)
    columns = np.arange(schema.width)
    rows[columns, columns] = 1.0
    p: Floats = np.array(limits.look(unit, rows).p)
    for n, row in enumerate(rows):
        if not know.offered(row, None)[arm]:
            p[n] = 0.0
    if numbers:
        ends = [schema.place(feature.name)[1] for feature in numbers]
        low = rows[ends].copy()
        low[np.arange(len(ends)), ends] = 0.0
        p[ends] -= limits.look(unit, low).p
    return p


def _safe_numbers(schema: Schema, limits: MixtureLimits, unit: int) -> list[str]:
    """Name the numbers that leave all allowed, at either end and in the middle of their range."""
    numbers = [f for f in schema.features if isinstance(f, Number) and f.low is not None]
    rest = np.zeros(schema.width)
    places = [schema.place(feature.name)[1] for feature in numbers]
    rest[places] = 0.5
    out = []
    for feature, at in zip(numbers, places, strict=True):
        rows = np.repeat(rest[None], 3, axis=0)
        rows[:, at] = 0.0, 0.5, 1.0
        if limits.look(unit, rows).safe.all():
            out.append(feature.name)
    return out


def _most(schema: Schema, p: Floats) -> str:
    """Name up to three features that matter most, by how far each alone moves P(allowed)."""
    numbers = {schema.place(f.name)[1] for f in schema.features if isinstance(f, Number)}
    moved = [p[at] if at in numbers else p[at] - p[-1] for at in range(schema.width)]
    most = [at for at in np.argsort(-np.abs(moved), kind="stable").tolist()
            if abs(moved[at]) >= MATTERS][:3]  # fmt: skip
    words = [
        f"{'more' if moved[at] > 0.0 else 'less'} likely with "
        f"{'higher ' if at in numbers else ''}{schema.columns[at].rpartition('=')[2]}"
        for at in most
    ]
    return f" ({', '.join(words)})" if words else ""


def printable(name: str) -> str:
    """Return a name without what would break a line, or colour a terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in name)


def _exceptions(know: Knowledge, limits: Beliefs, unit: int) -> str:
    """Name items of which the teacher said otherwise than the limits would: at most three."""
    if not know.remembers:
        return ""
    said: dict[ArmId, Example] = {}
    for example in know.believing.examples_of(unit)[-MOST_WEIGHED:]:
        if example.item is not None and (example.item not in said or not example.allowed):
            said[example.item] = example
    if not said:
        return ""
    rows = np.frombuffer(b"".join(e.context for e in said.values())).reshape(len(said), -1)
    look = limits.look(unit, rows)
    odd = [
        f"{printable(str(item))} {'allowed' if one.allowed else 'denied'}"
        for (item, one), p, safe in zip(
            said.items(), look.p.tolist(), look.safe.tolist(), strict=True
        )
        if (p < 0.5 if one.allowed else safe)
    ]
    more = f" and {len(odd) - 3:,} more" if len(odd) > 3 else ""
    return f"; exceptions: {', '.join(odd[:3])}{more}" if odd else ""


def _never_together(schema: Schema) -> set[str]:
    """Name the pairs that no context holds: of two values of one category."""
    apart = [range(schema.place(f.name)[1], schema.place(f.name)[1] + len(f.values))
             for f in schema.features if isinstance(f, Category)]  # fmt: skip
    if not apart or schema.width > MAX_WIDTH:
        return set()
    terms = Terms(schema.width, pairs=True)
    named = zip(terms.all(), terms.names(schema.columns), strict=True)
    return {
        name
        for term, name in named
        if isinstance(term, tuple) and any(term[0] in one and term[1] in one for one in apart)
    }


def _proposal(know: Knowledge, threshold: float) -> list[FoundGroup]:
    """Propose groups of arms that seem to share a rule."""
    if know.settings.teacher_error is None and know.believing.kind != "found":
        raise NotPossible(
            "Groups are found for a declared rate of error: make the agent with teacher_error=0.1, "
            "say, to have a proposal."
        )
    found = know.believing.found(tuple(know.examples.values()))
    taken = {arm.group for arm in know.arms}
    out = []
    for group in found.proposal(know.settings.features.columns, threshold):
        name, n = group.name, 1
        while name in taken:  # the name of a group that was accepted before
            n += 1
            name = f"{group.name} ({n})"
        taken.add(name)
        ids = tuple(know.arm_ids[int(k)] for k in group.arms)
        out.append(replace(group, name=name, arms=ids))
    return out

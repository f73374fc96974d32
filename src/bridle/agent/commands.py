"""Commands: the first half of every verb, which makes events and changes nothing."""

from __future__ import annotations

import functools
import inspect
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast, get_args

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.agent.config import (
    WAIT,
    Arm,
    ArmId,
    ItemId,
    check_default,
    item_id,
    listed,
    plain_id,
    the_arms,
    words,
)
from bridle.agent.events import (
    MAX_NOTE,
    SCOPES,
    Abstained,
    ArmsAdded,
    ArmsChanged,
    ArmsRestored,
    ArmsRetired,
    ArmsVisited,
    Certified,
    Decided,
    Erased,
    Event,
    Expired,
    ForgettingChanged,
    Judged,
    Lapsed,
    Learned,
    Note,
    PolicyChanged,
    Promised,
    PromiseDropped,
    Regrouped,
    Retracted,
    Rewarded,
    RewardedLate,
    RuleDeclared,
    RuleWithdrawn,
    Scope,
    Shadowed,
    SigmaChanged,
    StartedAnew,
    Taught,
    Uncertified,
    WaitChanged,
    check_event,
)
from bridle.agent.limits_state import Open
from bridle.agent.outcomes import (
    Abstention,
    Check,
    Decision,
    Decisions,
    Question,
    SlateDecision,
)
from bridle.agent.purse import Purse
from bridle.agent.selection import Selector, slate_ids
from bridle.agent.state import AgentState, Example, JudgedCase, item_of
from bridle.agent.teachers import REVIEWED, Key
from bridle.certificates.certificate import Certificate, fingerprint
from bridle.errors import CorruptState, InvalidValue, LimitReached, NotPossible, UnknownId
from bridle.kernels.types import Floats
from bridle.limits import KINDS, FoundGroup
from bridle.limits.declared import Rule
from bridle.policies import Policy, with_default_spread, with_sigma, with_spread
from bridle.reward.base import Forget, check_forget
from bridle.schema import Context
from bridle.slates import PLACES, item_rewards

__all__ = [
    "OVER",
    "Answers",
    "Commands",
    "Contexts",
    "Examples",
    "Rewards",
    "Shadow",
    "follows",
    "time_of",
]

Contexts: TypeAlias = "Sequence[Context] | npt.NDArray[Any]"
Truths: TypeAlias = "Sequence[bool] | npt.NDArray[Any]"
P = ParamSpec("P")
S = TypeVar("S")
Made = TypeVar("Made")
R = TypeVar("R")
Of = TypeVar("Of", "Examples", "Answers")

TIME = validation.FloatRange()
PLAIN = frozenset({int, str})  # types of ids as they are kept
MAX_HISTORY = 10_000_000
# Arms that nobody stored among the candidates of one request.
MAX_VISITORS = 10_000
# So many distinct contexts of a pool are weighed for one question; which ones, its bits say.
MAX_POOL = 2_000
OVER = "Its time is over."  # the note of an example that ends by itself
CONTRADICTED = "A check was denied of what a teacher had allowed: limits have changed."


def follows(
    command: Callable[Concatenate[Commands, P], Made],
) -> Callable[[Callable[[S, Made], R]], Callable[Concatenate[S, P], R]]:
    """Return a decorator that gives a method the parameters of a command.

    The method makes what the command makes, of `self.make` (or of `self`, in `Commands`), and its
    body takes that. So parameters stand once, at the command; `help` shows them at the method, too.
    """

    def decorate(body: Callable[[S, Made], R]) -> Callable[Concatenate[S, P], R]:
        name = command.__name__

        @functools.wraps(body)
        def method(self: S, /, *args: P.args, **given: P.kwargs) -> R:
            made: Made = getattr(getattr(self, "make", self), name)(*args, **given)
            return body(self, made)

        says = inspect.signature(body).return_annotation
        method.__annotations__ = {**command.__annotations__, "return": says}
        signature = inspect.signature(command).replace(return_annotation=says)
        method.__signature__ = signature  # type: ignore[attr-defined]
        return method

    return decorate


def time_of(at: float | None) -> float | None:
    """Return the caller's time as a float."""
    return None if at is None else TIME.check(at, "at", "Agent")


class Examples(NamedTuple):
    """What a teacher's answers come to.

    Attributes
    ----------
    events : list of events
        All that is to be committed.
    examples : list of ids
        The example that each answer makes; None where it did not settle its case.
    declared : bool
        Whether the teacher is a declared one, whose answers are weighed.
    """

    events: list[Event]
    examples: list[ItemId | None]
    declared: bool


class Answers(NamedTuple):
    """What answers to open questions come to: `Examples`, and what they are about.

    Attributes
    ----------
    questions : list of Question or id
        As they were given.
    ids : list of ids
        Of the questions.
    decisions : list of ids
        The decision that waits for each; None where none does.
    """

    events: list[Event]
    examples: list[ItemId | None]
    declared: bool
    questions: list[Any]
    ids: list[ItemId]
    decisions: list[ItemId | None]
    at: float | None


class Rewards(NamedTuple):
    """Rewards of many decisions, as columns: `values` are in the agent's own range."""

    ids: list[ItemId]
    values: Floats
    at: float | None

    @property
    def events(self) -> list[Rewarded]:
        """What goes into the log."""
        pairs = zip(self.ids, self.values.tolist(), strict=True)
        return [Rewarded(id, reward, self.at) for id, reward in pairs]


class Shadow(NamedTuple):
    """What the agent would have played, and the event that another system played otherwise."""

    decision: Decision | Abstention
    event: Shadowed


class _Cases(NamedTuple):
    """What examples are about, as columns, with the scope and the end that they share."""

    rows: Floats
    arms: list[Any]
    allowed: list[bool]
    items: list[ArmId | None]
    ids: Sequence[str] | None
    scope: Scope
    until: float | None


class _AnswerDetails(NamedTuple):
    """What comes along with answers: who gives them, how long they hold, and their ids."""

    by: str | None
    note: str | None
    scope: Scope
    until: float | None
    at: float | None
    words: Sequence[str] | None
    who: str | None


class _Judgement(NamedTuple):
    """What a declared teacher says of one case."""

    context: bytes
    arm: int
    item: ArmId | None
    allowed: bool
    question: ItemId | None = None
    check: ItemId | None = None
    scope: Scope = "all"
    until: float | None = None
    id: ItemId | None = None  # of the example that it makes, if it settles its case
    name: ItemId | None = None  # its own id


class _Weighing:
    """Finds what judgements of a declared teacher settle, on a copy of the teachers' state.

    What is only made changes nothing: the fold finds the same.
    """

    def __init__(
        self,
        state: AgentState,
        by: str,
        note: str | None,
        time: float | None,
        who: str | None,
    ) -> None:
        self.events: list[Event] = []
        self._state = state
        self._by, self._note, self._time, self._who = by, note, time, who
        self._teachers = state.teachers.copy()
        self._judged: dict[tuple[Key, Key], JudgedCase] = {}  # those of these judgements
        self._taught = state.taught
        self._gone: set[ItemId] = set()  # examples that are replaced
        self._answered: set[ItemId] = set()  # checks
        self._anew = False

    def add(self, one: _Judgement) -> ItemId | None:
        """Return the example that a judgement makes; None if it does not settle its case."""
        state = self._state
        key = state.case_key(one.context, one.item, one.arm)
        prior, before = state.prior_of(one.context, one.arm), self._case(key)
        if state.reopens(one.check, key, self._teachers):
            self._teachers.forget(*key)
            before = None
        verdict = self._teachers.judge(self._by, *key, one.allowed, prior)
        event = Judged(
            tuple(np.frombuffer(one.context).tolist()),
            state.arm_ids[one.arm],
            one.allowed,
            self._by,
            prior,
            one.question,
            one.check,
            one.item,
            one.scope,
            one.until,
            self._note,
            self._time,
            one.name,
            self._who,
        )
        self.events.append(event)
        self._judged[key] = state.judged_by(event, before, one.context, one.arm)
        others = self._teachers.review(self._prior, REVIEWED)
        example = None
        if verdict.allowed is not None:
            case = self._judged[key]
            example = self._teach(key, case, verdict.allowed, one)
            self._answer(key, case, verdict.allowed)
        for other in others:
            place = other.case, other.unit
            about = self._case(place)
            if about is None:  # all was begun anew, and earlier judgements are forgotten
                break
            if not self._answer(place, about, other.allowed):
                self._teach(place, about, other.allowed, None)
        return example

    def _case(self, key: tuple[Key, Key]) -> JudgedCase | None:
        if key in self._judged:
            return self._judged[key]
        return None if self._anew else self._state.judged.get(key)

    def _prior(self, case: Key, unit: Key) -> float:
        about = self._case((case, unit))
        assert about is not None
        return self._state.prior_of(about.context, about.arm)

    def _answer(self, key: tuple[Key, Key], case: JudgedCase, label: bool) -> bool:
        """Answer the checks that waited for a case; return whether there were any."""
        open_ = self._state.checks.open
        waiting = [id for id in case.checks if id in open_ and id not in self._answered]
        for id in waiting:
            one = open_[id]
            judged = _Judgement(one.context, one.arm, one.item, label, check=id)
            self._teach(key, case._replace(context=one.context, arm=one.arm), label, judged)
        return bool(waiting)

    def _teach(
        self, key: tuple[Key, Key], case: JudgedCase, label: bool, one: _Judgement | None
    ) -> ItemId:
        """Add the example of a case that is settled, by this judgement or after it."""
        state = self._state
        self._taught += 1
        id = self._taught if one is None or one.id is None else one.id
        question, check = (None, None) if one is None else (one.question, one.check)
        said = self._teachers.said(*key)
        names = (teacher.name for teacher in self._teachers.teachers)
        who = ", ".join(name for name in names if said.get(name) is label)
        replaced: tuple[ItemId, ...] = ()
        if label or not self._anew:  # else what was allowed is forgotten already
            earlier = state.earlier(case.item, case.arm, label, who or None)
            replaced = tuple(other for other in earlier if other not in self._gone)
        self._gone.update(replaced)
        taught = Taught(
            id,
            tuple(np.frombuffer(case.context).tolist()),
            state.arm_ids[case.arm],
            label,
            question,
            who or None,
            None if one is None else self._note,
            self._time,
            case.item,
            check,
            case.scope,
            case.until,
            replaced,
        )
        self.events.append(taught)
        if check is not None:
            self._answered.add(check)
            broken = not label and state.is_allowed(case.arm, case.item)
            if state.purse is not None and broken and not self._anew:
                self.events.append(StartedAnew(CONTRADICTED, None, None, self._time))
                self._anew = True
                self._teachers.forget_all()
                self._judged.clear()
        return id


class Commands:
    """The first half of every verb: check, make the event, change nothing.

    `agent.make` is one. What it returns can be committed somewhere and then folded by
    `Agent.apply`; or thrown away, and nothing has happened. The verb of `Agent` that follows a
    command says what its parameters mean.
    """

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._schema = state.settings.features
        self.selector = Selector(state)

    # -- teaching ----------------------------------------------------------------------------

    def asked(
        self,
        context: Context | None = None,
        *,
        pool: Contexts | None = None,
        item: ArmId | None = None,
        id: str | None = None,
        at: float | None = None,
    ) -> Question:
        """Return a question about an arm: in a context, one of a pool, or one that was met."""
        state = self._state
        name: ItemId = state.questions.asked + 1 if id is None else item_id(id, "Agent.ask")
        state.questions.check(name)
        if context is not None and pool is not None:
            raise InvalidValue("pool", "Agent.ask", "left out where a context is given", pool)
        if context is not None:
            row, named = self._schema.encode(context), self._item(context, item, "Agent.ask")
        else:
            if item is not None:
                raise InvalidValue("item", "Agent.ask", "left out where no context is given", item)
            row, named = self._from_pool(name, pool)
        return self.selector.question(row, name, state.version, time_of(at), named)

    def asked_many(self, contexts: Contexts, *, at: float | None = None) -> list[Question]:
        """Return a question about an arm in each context."""
        rows, time = self._schema.encode_many(contexts), time_of(at)
        first, version = self._state.questions.asked + 1, self._state.version
        items = self._items(contexts, None, len(rows), "Agent.ask_many")
        return [
            self.selector.question(row, first + ahead, version + ahead, time, item)
            for ahead, (row, item) in enumerate(zip(rows, items, strict=True))
        ]

    def example(
        self,
        context: Context,
        arm: ArmId,
        allowed: bool,
        *,
        item: ArmId | None = None,
        id: str | None = None,
        by: str | None = None,
        note: str | None = None,
        scope: Scope = "all",
        until: float | None = None,
        at: float | None = None,
        who: str | None = None,
    ) -> Examples:
        """Return what an example of a teacher comes to, who may be a declared one."""
        owner = "Agent.teach"
        about, answer = self._item(context, item, owner), _truth(allowed, owner)
        cases = _Cases(
            rows=self._schema.encode(context)[None],
            arms=[arm],
            allowed=[answer],
            items=[about],
            ids=None if id is None else [id],
            scope=scope,
            until=until,
        )
        return self._examples(cases, by, note, at, who)

    def examples(
        self,
        contexts: Contexts,
        arms: Sequence[ArmId] | npt.NDArray[Any],
        allowed: Truths,
        *,
        items: Sequence[ArmId | None] | None = None,
        ids: Sequence[str] | None = None,
        by: str | None = None,
        note: str | None = None,
        scope: Scope = "all",
        until: float | None = None,
        at: float | None = None,
        who: str | None = None,
    ) -> Examples:
        """Return what many examples of a teacher come to, who may be a declared one."""
        owner = "Agent.teach_many"
        rows = self._schema.encode_many(contexts)
        cases = _Cases(
            rows=rows,
            arms=listed(arms, "arms", owner, len(rows)),
            allowed=_truths(allowed, len(rows), owner),
            items=self._items(contexts, items, len(rows), owner),
            ids=ids,
            scope=scope,
            until=until,
        )
        return self._examples(cases, by, note, at, who)

    @follows(example)
    def taught(self, made: Examples) -> Taught:
        """Return the event of an example, of a teacher who is taken at their word."""
        return self._at_their_word(made, "examples_by")[0]

    @follows(examples)
    def taught_many(self, made: Examples) -> list[Taught]:
        """Return the events of many examples, of a teacher who is taken at their word."""
        return self._at_their_word(made, "examples_by")

    @follows(examples)
    def examples_by(self, made: Examples) -> Examples:
        """Return what many examples of a declared teacher come to."""
        return _of_declared(made)

    def _examples(
        self,
        cases: _Cases,
        by: str | None,
        note: str | None,
        at: float | None,
        who: str | None,
    ) -> Examples:
        state, n, owner = self._state, len(cases.rows), "Agent.teach"
        by, note, time = _provenance(by, note, at)
        ends = self._life(cases.scope, cases.until, cases.items, owner)
        names = self._names(cases.ids, n, state.taught, owner)
        numbers = list(map(state.arm_number, cases.arms))
        if by is not None and state.declares(by):
            own: list[Any] = [None] * n if cases.ids is None else names
            each = zip(cases.rows, numbers, cases.items, cases.allowed, own, strict=True)
            judged = [
                _Judgement(row.tobytes(), k, item, answer, None, None, cases.scope, ends, id, id)
                for row, k, item, answer, id in each
            ]
            return self._weighed(judged, by, note, time, who)
        _check_declared(owner, who=who)
        state.check_examples(names, numbers)
        replaced: list[tuple[ItemId, ...]] = [()] * n
        if cases.items.count(None) < n:
            replaced = self._replaced(numbers, cases.items, cases.allowed, by, ends)
        columns = zip(
            names, cases.rows.tolist(), numbers, cases.allowed, cases.items, replaced, strict=True
        )
        events: list[Event] = []
        for id, row, k, answer, item, gone in columns:
            example = Taught(
                id,
                tuple(row),
                state.arm_ids[k],
                answer,
                None,
                by,
                note,
                time,
                item,
                None,
                cases.scope,
                ends,
                gone,
            )
            events.append(example)
        return Examples(events, [*names], False)

    def _at_their_word(self, made: Examples | Answers, instead: str) -> list[Taught]:
        if made.declared:
            raise NotPossible(
                "This is a declared teacher, whose answer may not settle a case: "
                f"make.{instead}(...)."
            )
        return cast("list[Taught]", made.events)

    def _life(
        self, scope: Scope, until: float | None, items: list[ArmId | None], owner: str
    ) -> float | None:
        """Return when answers end, or raise what is wrong with their scope or end."""
        if not isinstance(scope, str) or scope != "all":
            validation.one_of(scope, SCOPES, "scope", owner)
        if scope == "item" and None in items:
            remedy = "Name it: item=..., or declare an Id in the schema."
            raise InvalidValue("scope", owner, "'all' where the item has no name", scope, remedy)
        ends = None if until is None else TIME.check(until, "until", owner)
        if (scope != "all" or ends is not None) and not self._state.settings.lives:
            wanted = "left out: this agent was made before answers had a life"
            raise InvalidValue("until", owner, wanted, until)
        return ends

    def _replaced(
        self,
        arms: list[int],
        items: list[ArmId | None],
        answers: list[bool],
        by: str | None,
        ends: float | None = None,
    ) -> list[tuple[ItemId, ...]]:
        """Return, of each answer, what the same teacher said before and takes back by it."""
        out: list[tuple[ItemId, ...]] = []
        met: set[ItemId] = set()
        for k, item, answer in zip(arms, items, answers, strict=True):
            earlier = () if item is None else self._state.earlier(item, k, answer, by)
            gone = tuple(id for id in earlier if id not in met) if earlier else ()
            lasting = [id for id in gone if self._state.examples[id].until is None]
            if ends is not None and answer and lasting:
                raise NotPossible(
                    "The same teacher has denied this without an end (example "
                    f"{lasting[0]!r:.100}): "
                    'an "allowed" that ends would replace it, and nothing would be left. Retract '
                    "the denial first, and teach it again when the time has come."
                )
            met.update(gone)
            out.append(gone)
        return out

    def judged(
        self,
        check: Check | ItemId,
        allowed: bool,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
        word: str | None = None,
        who: str | None = None,
    ) -> list[Event]:
        """Return what a teacher's judgement of a play that a coin chose comes to.

        With a promise, a denial of what the teacher had allowed begins what was learned anew. That
        of a declared teacher answers the check if it settles its case; else the check waits.
        """
        state, owner = self._state, "Agent.judge"
        id = plain_id(_id_of(check))
        open_ = state.checks.get(id)
        answer = _truth(allowed, owner)
        by, note, time = _provenance(by, note, at)
        if state.declares(by):
            own = None if word is None else item_id(word, owner)
            said = _Judgement(open_.context, open_.arm, open_.item, answer, check=id, name=own)
            return self._weighed([said], by, note, time, who).events
        _check_declared(owner, word=word, who=who)
        names = self._names(None, 1, state.taught, owner)
        state.check_examples(names, [open_.arm])
        (gone,) = self._replaced([open_.arm], [open_.item], [answer], by)
        taught = Taught(
            names[0],
            tuple(np.frombuffer(open_.context).tolist()),
            state.arm_ids[open_.arm],
            answer,
            None,
            by,
            note,
            time,
            open_.item,
            id,
            "all",
            None,
            gone,
        )
        events: list[Event] = [taught]
        if state.purse is not None and not answer and state.is_allowed(open_.arm, open_.item):
            events.append(StartedAnew(CONTRADICTED, None, None, time))
        return events

    def answer(
        self,
        question: Question | ItemId,
        allowed: bool,
        *,
        by: str | None = None,
        note: str | None = None,
        scope: Scope = "all",
        until: float | None = None,
        at: float | None = None,
        word: str | None = None,
        who: str | None = None,
    ) -> Answers:
        """Return what the answer to an open question comes to, of any teacher."""
        names = None if word is None else [word]
        given = _AnswerDetails(by, note, scope, until, at, names, who)
        return self._answers([question], [allowed], given)

    def answers(
        self,
        questions: Sequence[Question | ItemId],
        allowed: Truths,
        *,
        by: str | None = None,
        note: str | None = None,
        scope: Scope = "all",
        until: float | None = None,
        at: float | None = None,
        words: Sequence[str] | None = None,
        who: str | None = None,
    ) -> Answers:
        """Return what the answers to many open questions come to, of any teacher."""
        return self._answers(
            questions, allowed, _AnswerDetails(by, note, scope, until, at, words, who)
        )

    @follows(answer)
    def answered(self, made: Answers) -> Taught:
        """Return the event of an answer, of a teacher who is taken at their word."""
        return self._at_their_word(made, "answers_by")[0]

    @follows(answers)
    def answered_many(self, made: Answers) -> list[Taught]:
        """Return the events of many answers, of a teacher who is taken at their word."""
        return self._at_their_word(made, "answers_by")

    @follows(answers)
    def answers_by(self, made: Answers) -> Answers:
        """Return what answers of a declared teacher come to; what is not settled stays open."""
        return _of_declared(made)

    def _answers(
        self, questions: Sequence[Question | ItemId], allowed: Truths, said: _AnswerDetails
    ) -> Answers:
        state, owner = self._state, "Agent.answer"
        given = listed(questions, "questions", owner)
        ids, found, answers = self._open(given, allowed, owner)
        by, note, time = _provenance(said.by, said.note, said.at)
        items = [one.item for one in found]
        ends = self._life(said.scope, said.until, items, owner)
        if state.declares(by):
            made = self._answers_weighed(by, ids, found, answers, said, ends)
        else:
            _check_declared(owner, words=said.words, who=said.who)
            names = self._names(None, len(ids), state.taught, owner)
            state.check_examples(names, [one.arm for one in found])
            replaced = self._replaced([one.arm for one in found], items, answers, by, ends)
            columns = zip(names, found, answers, ids, replaced, strict=True)
            events: list[Event] = [
                Taught(
                    name,
                    tuple(np.frombuffer(one.context).tolist()),
                    state.arm_ids[one.arm],
                    answer,
                    id,
                    by,
                    note,
                    time,
                    one.item,
                    None,
                    said.scope,
                    ends,
                    gone,
                )
                for name, one, answer, id, gone in columns
            ]
            made = Examples(events, [*names], False)
        return Answers(*made, given, ids, [one.decision for one in found], time)

    def _answers_weighed(
        self,
        by: str,
        ids: list[ItemId],
        found: list[Open],
        answers: list[bool],
        said: _AnswerDetails,
        ends: float | None,
    ) -> Examples:
        state = self._state
        own: list[Any] = [None] * len(ids)
        if said.words is not None:
            own = self._names(said.words, len(ids), 0, "Agent.answer")
        judged = [
            _Judgement(
                one.context,
                one.arm,
                one.item,
                answer,
                question=id,
                scope=said.scope,
                until=ends,
                name=name,
            )
            for id, one, answer, name in zip(ids, found, answers, own, strict=True)
        ]
        for one in judged:
            key = state.case_key(one.context, one.item, one.arm)
            if state.teachers.said(*key).get(by) is one.allowed:
                raise NotPossible(
                    f"{by} has said so already of question {one.question!r}, and that does not "
                    "settle it. Ask another, whom agent.whom(question) names, or give it up: "
                    "agent.skip(question)."
                )
        return self._weighed(judged, by, said.note, time_of(said.at), said.who)

    def _open(
        self, questions: Sequence[Question | ItemId], allowed: Truths, owner: str
    ) -> tuple[list[ItemId], list[Open], list[bool]]:
        """Return the ids of open questions, what they are about, and the answers to them."""
        asked = [_id_of(q) for q in questions]
        found = [self._state.questions.get(id) for id in asked]
        ids = _distinct([plain_id(id) for id in asked], "questions", owner)
        return ids, found, _truths(allowed, len(ids), owner)

    def _weighed(
        self,
        judged: Sequence[_Judgement],
        by: str,
        note: str | None,
        time: float | None,
        who: str | None,
    ) -> Examples:
        """Return what judgements of a declared teacher come to, and what they settle."""
        weighing = _Weighing(self._state, by, note, time, _words(who, "who"))
        examples = [weighing.add(one) for one in judged]
        made = [event for event in weighing.events if isinstance(event, Taught)]
        numbers = [self._state.arm_number(event.arm) for event in made]
        names = _distinct([event.id for event in made], "ids", "Agent.teach")
        self._state.check_examples(names, numbers)
        return Examples(weighing.events, examples, True)

    def lapsed(self, question: Question | ItemId, *, at: float | None = None) -> Lapsed:
        """Return the event that an open question will not be answered."""
        id = _id_of(question)
        self._state.questions.get(id)
        return Lapsed(plain_id(id), time_of(at))

    def retracted(
        self,
        example: ItemId | Example,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> Retracted:
        """Return the event that an example is retracted."""
        return self.retracted_many([example], by=by, note=note, at=at)[0]

    def retracted_many(
        self,
        examples: Sequence[ItemId | Example],
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> list[Retracted]:
        """Return the events that many examples are retracted."""
        owner = "Agent.retract"
        given = listed(examples, "examples", owner)
        given = [one.id if isinstance(one, Example) else one for one in given]
        ids = [self._state.standing(id).id for id in given]
        by, note, time = _provenance(by, note, at)
        return [Retracted(id, by, note, time) for id in _distinct(ids, "examples", owner)]

    def ended(self, now: float) -> list[Retracted]:
        """Return the events that end the examples whose time has come."""
        time = TIME.check(now, "now", "Agent.end_examples")
        return [
            Retracted(example.id, None, OVER, time)
            for example in self._state.examples.values()
            if example.until is not None and example.until <= time
        ]

    # -- deciding ----------------------------------------------------------------------------

    def decided(
        self,
        context: Context,
        among: Iterable[ArmId | Arm] | None = None,
        id: str | None = None,
        *,
        item: ArmId | None = None,
        propensity: bool = False,
        ask: bool = True,
        at: float | None = None,
    ) -> Decision | Question | Abstention:
        """Return an arm for a context, among all arms or those given; or a question about one."""
        state = self._state
        named = self._item(context, item, "Agent.decide")
        row = self._schema.encode(context)
        name: ItemId = state.decisions + 1
        if id is not None:
            name = item_id(id, "Agent.decide")
            state.check_decision(name)
        if propensity is not False:
            propensity = validation.truth(propensity, "propensity", "Agent.decide")
        if ask is not True:
            ask = validation.truth(ask, "ask", "Agent.decide")
        chosen, visitors = (None, None) if among is None else self._candidates(among)
        time = None if at is None else time_of(at)
        return self.selector.decision(
            row,
            name,
            state.version,
            chosen,
            propensity,
            time,
            ask=ask and state.settings.budget > 0,
            question=state.questions.asked + 1,
            item=named,
            visitors=visitors,
        )

    def slate(
        self,
        context: Context,
        k: int,
        among: Iterable[ArmId] | None = None,
        id: str | None = None,
        *,
        item: ArmId | None = None,
        propensity: bool = False,
        ask: bool = True,
        at: float | None = None,
    ) -> SlateDecision | Abstention:
        """Return several arms for a context, best first."""
        state, owner = self._state, "Agent.decide"
        places = PLACES.check(k, "k", owner)
        named = self._item(context, item, owner)
        row = self._schema.encode(context)
        first: ItemId = state.decisions + 1 if id is None else item_id(id, owner)
        ids = slate_ids(first, places)
        if id is not None:
            for name in ids:
                state.check_decision(item_id(name, owner))
        chosen = None if among is None else self._among(among)
        return self.selector.slate(
            row,
            ids,
            state.version,
            chosen,
            places,
            validation.truth(propensity, "propensity", owner),
            time_of(at),
            ask=validation.truth(ask, "ask", owner) and state.settings.budget > 0,
            question=state.questions.asked + 1,
            item=named,
        )

    def slate_rewards(
        self,
        slate: SlateDecision | Sequence[ItemId],
        value: float | None = None,
        items: Sequence[float | None] | None = None,
        *,
        at: float | None = None,
    ) -> Rewards:
        """Return what each decision of a slate is credited with, as `item_rewards` says."""
        owner = "Agent.reward_slate"
        ids = slate.ids if isinstance(slate, SlateDecision) else listed(slate, "slate", owner)
        given = None if items is None else listed(items, "items", owner, len(ids))
        each = item_rewards(len(ids), given, value, self._state.settings.reward_range)
        known = [(id, one) for id, one in zip(ids, each.tolist(), strict=True) if one == one]
        return self.rewards([id for id, _ in known], [one for _, one in known], at=at)

    def resumed(
        self, decision: ItemId, *, propensity: bool | None = None, at: float | None = None
    ) -> Decision | Question | Abstention:
        """Return what a decision that waited comes to: its question is answered, or lapsed."""
        state = self._state
        waits = state.questions.ready(decision)
        # A question has no propensity that would say whether one is wanted: what comes of it has.
        wanted = waits.propensity is not None or not state.settings.legacy
        if propensity is not None:
            wanted = validation.truth(propensity, "propensity", "Agent.resume")
        row = np.frombuffer(bytearray(waits.context))
        return self.selector.decision(
            row,
            plain_id(decision),
            state.version,
            waits.among,
            wanted,
            time_of(at),
            ask=True,
            question=state.questions.asked + 1,
            item=waits.item,
            visitors=waits.visitors,
        )

    def decided_many(
        self,
        contexts: Contexts,
        among: Iterable[ArmId] | None = None,
        ids: Sequence[str] | None = None,
        *,
        items: Sequence[ArmId | None] | None = None,
        propensity: bool = False,
        details: bool = True,
        at: float | None = None,
    ) -> Decisions:
        """Return an arm for each context, with a draw of its own for each, never asking."""
        state = self._state
        rows = self._schema.encode_many(contexts)
        owner = "Agent.decide_many"
        propensity = validation.truth(propensity, "propensity", owner)
        details = validation.truth(details, "details", owner)
        time = time_of(at)
        names = self._names(ids, len(rows), state.decisions, owner)
        chosen = None if among is None else self._among(among)
        if ids is not None:
            for name in names:
                state.check_decision(name)
        start, numbers = self.selector.numbers(
            state.decisions + 1, None if ids is None else names, len(rows)
        )
        about = self._items(contexts, items, len(rows), owner)
        chances: list[tuple[float, int | None]] | None = None
        if state.shared is not None:
            arms, shown, parts, odds, chances = self.selector.joint_batch(
                rows, chosen, names, details, propensity, about
            )
            eligible = state.every[None] if shown is None else shown
        else:
            arms, eligible, parts, odds = self.selector.batch(
                rows, chosen, start, numbers, details, propensity, about
            )
        coins = self.selector.coins(names, arms, about)
        return Decisions(
            ids=names,
            numbers=arms.tolist(),
            arms=state.arm_ids,
            contexts=rows,
            first_version=state.version,
            parts=parts,
            eligible=eligible,
            propensities=odds,
            among=chosen,
            at=time,
            certificate=state.certificate,
            items=about,
            coins=coins,
            chances=chances,
        )

    def _among(
        self, among: Iterable[ArmId], name: str = "among", owner: str = "Agent"
    ) -> tuple[ArmId, ...]:
        # In the order of the arms: what is written does not depend on the order of a set.
        given = listed(list(among) if isinstance(among, Set | Iterator) else among, name, owner)
        numbers = {self._state.arm_number(arm) for arm in given}
        return tuple(self._state.arm_ids[k] for k in sorted(numbers))

    def _candidates(
        self, among: Iterable[ArmId | Arm]
    ) -> tuple[tuple[ArmId, ...], tuple[Arm, ...] | None]:
        """Return the ids of what can be had, and those of it that nobody stored."""
        state, owner = self._state, "Agent.decide"
        given = listed(list(among) if isinstance(among, Set | Iterator) else among, "among", owner)
        schema = state.settings.arm_features
        visitors: dict[ArmId, Arm] = {}
        known: list[ArmId] = []
        for one in given:
            if not isinstance(one, Arm):
                known.append(one)
                continue
            met = visitors.get(one.id)
            there = state.arms[state.number_of[one.id]] if one.id in state.number_of else met
            whole = (
                one if one.features is None and there is not None else one.encoded(schema, owner)
            )
            if there is None:
                visitors[one.id] = whole
            elif one.features is not None and whole.features != there.features:
                wanted = f"with the features that arm {one.id!r} has"
                remedy = "Change them first, agent.change_arms([...]), or name the arm by its id."
                raise InvalidValue("among", owner, wanted, one.features, remedy)
            elif met is None:
                known.append(one.id)
        if not visitors:
            return self._among(known), None
        if len(visitors) > MAX_VISITORS:
            raise LimitReached("arms that a request brings along", MAX_VISITORS, "Add them first.")
        if state.shared is None or (state.policy.needs_limits and state.limits_state.pairs is None):
            raise NotPossible(
                "Only where arms share what is learned of them, for reward and for limits, can a "
                "request bring along arms that the agent does not have. Add them: agent.add_arms."
            )
        return (*self._among(known), *visitors), tuple(visitors.values())

    def rewarded(self, decision: ItemId, value: float, *, at: float | None = None) -> Rewarded:
        """Return the event of a decision's reward."""
        self._check_pending(decision)
        self._state.unit_reward(value)
        return Rewarded(plain_id(decision), float(value), None if at is None else time_of(at))

    def rewards(
        self,
        decisions: Sequence[ItemId] | npt.NDArray[Any],
        values: Sequence[float] | npt.NDArray[Any],
        *,
        at: float | None = None,
    ) -> Rewards:
        """Return the rewards of many decisions, checked, as columns."""
        state, owner = self._state, "Agent.reward_many"
        ids = listed(decisions, "decisions", owner)
        pending = state.pending
        if not set(map(type, ids)) <= {int, str} or not all(id in pending for id in ids):
            for id in ids:
                self._check_pending(id)
            ids = [plain_id(id) for id in ids]
        _distinct(ids, "decisions", owner)
        return Rewards(ids, state.check_rewards(values, len(ids), owner), time_of(at))

    @follows(rewards)
    def rewarded_many(self, made: Rewards) -> list[Rewarded]:
        """Return the events of many rewards."""
        return made.events

    def _check_pending(self, decision: object) -> None:
        """Raise `UnknownId` where no such decision waits for a reward, and say what to do."""
        state = self._state
        if type(decision) in PLAIN and decision in state.pending:  # which is the rule
            return
        asked = isinstance(decision, Question)
        id = plain_id(getattr(decision, "decision", None) if asked else decision)
        if id in state.pending and not asked:
            return
        waits = state.questions.waiting.get(id)
        if waits is not None and waits.question is not None:
            raise UnknownId(
                "pending decision",
                decision,
                f"It is not made yet: it waits for the answer to question {waits.question!r}. Give "
                "it, agent.answer(question, allowed), or give it up, agent.skip(question); both "
                "return what the decision came to, whose id takes the reward.",
            )
        if asked or id in state.questions.open:
            raise UnknownId(
                "pending decision",
                decision,
                "This is a question, which earns nothing. Answer it, agent.answer(question, "
                "allowed), or give it up, agent.skip(question), and reward decisions by their id.",
            )
        state.pending_context(cast("ItemId", decision))

    def expired(self, decision: ItemId, *, at: float | None = None) -> Expired:
        """Return the event that nobody waits for the reward of a decision any more."""
        self._state.pending_context(decision)
        return Expired(plain_id(decision), self._state.default_reward, time_of(at))

    def shadow(
        self,
        context: Context,
        arm: ArmId,
        among: Iterable[ArmId] | None = None,
        id: str | None = None,
        *,
        item: ArmId | None = None,
        propensity: bool = False,
        at: float | None = None,
    ) -> Shadow:
        """Return what the agent would play, never asking, while another system plays `arm`."""
        made = self.decided(context, among, id, item=item, propensity=propensity, ask=False, at=at)
        assert isinstance(made, Decision | Abstention)
        return Shadow(made, self.shadowed(made, arm, at=at))

    def shadowed(
        self, decision: Decision | Abstention, arm: ArmId, *, at: float | None = None
    ) -> Shadowed:
        """Return the event that another system played in the place of a decision just made."""
        if not isinstance(decision, Decision | Abstention):
            wanted = "a Decision or an Abstention"
            raise InvalidValue("decision", "Agent.shadow", wanted, decision)
        return self.shadow_of(decision.event, arm, at=at)

    def shadow_of(
        self, decided: Decided | Abstained, arm: ArmId, *, at: float | None = None
    ) -> Shadowed:
        """Return the same, of the event of a decision."""
        if not isinstance(decided, Decided | Abstained):
            raise InvalidValue("decided", "Agent.shadow", "a Decided or an Abstained", decided)
        known = self._state.arm_ids[self._state.arm_number(arm)]
        return Shadowed(decided.id, decided.context, known, time_of(at))

    def learned(
        self,
        contexts: Contexts,
        arms: Sequence[ArmId] | npt.NDArray[Any],
        rewards: Sequence[float] | npt.NDArray[Any],
        *,
        at: float | None = None,
    ) -> Learned:
        """Return the event of history: what was played before, and what it earned."""
        state = self._state
        rows = self._schema.encode_many(contexts)
        n = len(rows)
        if n > MAX_HISTORY:
            raise LimitReached("rows of history in one call", MAX_HISTORY, "Split it.")
        numbers = state.counted(arms, n)
        if numbers is None:
            numbers = state.arm_numbers(listed(arms, "arms", "Agent.learn", n))
        values = state.check_rewards(rewards, n, "Agent.learn")
        shown = state.vouch(rows)
        for array in (numbers, values):
            array.flags.writeable = False
        return Learned(shown, numbers, values, time_of(at))

    # -- changing ----------------------------------------------------------------------------

    def sigma_changed(
        self,
        sigma: float,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> SigmaChanged:
        """Return the event of another sigma."""
        by, note, time = _provenance(by, note, at)
        return SigmaChanged(with_sigma(self._state.policy, sigma).sigma, time, by, note)

    def policy_changed(
        self,
        policy: Policy,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> PolicyChanged:
        """Return the event of another policy."""
        self._state.check_policy(policy)
        policy = with_default_spread(policy, self._state.settings.default_v)
        return PolicyChanged(policy, *_provenance(by, note, at))

    def boldness_changed(
        self,
        boldness: float,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> PolicyChanged:
        """Return the event of the same policy, whose draws have this spread."""
        v = validation.SPREAD.check(boldness, "boldness", "Agent.set_boldness")
        policy = with_spread(self._state.policy, v)
        return PolicyChanged(policy, *_provenance(by, note, at))

    def forgetting_changed(
        self,
        forget: Forget,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> ForgettingChanged:
        """Return the event of another way in which old rewards fade."""
        self._state.check_forget(check_forget(forget, "forget", "Agent.set_forget"))
        return ForgettingChanged(forget, *_provenance(by, note, at))

    def wait_changed(
        self,
        wait: float | None,
        default_reward: float | None = None,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> WaitChanged:
        """Return the event of another wait for rewards, and of what is learned then."""
        owner = "Agent.set_wait"
        seconds = None if wait is None else WAIT.check(wait, "wait", owner)
        reward_range = self._state.settings.reward_range
        reward = check_default(default_reward, reward_range, seconds, owner)
        by, note, time = _provenance(by, note, at)
        return WaitChanged(seconds, reward, by, note, time)

    def noted(self, note: Note) -> Note:
        """Return a note, checked; it changes nothing of the agent's state."""
        if not isinstance(note, get_args(Note)) or isinstance(note, Erased):
            raise InvalidValue(
                "note", "Agent.note", "one of bridle.agent.events, but no Erased", note
            )
        check_event(note)
        if isinstance(note, RewardedLate):
            self._state.unit_reward(note.value)
        return cast("Note", note)

    def arms_added(
        self,
        arms: int | Iterable[Arm | ArmId],
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> ArmsAdded:
        """Return the event of new arms, which may be played from then on."""
        schema = self._state.settings.arm_features
        given = the_arms(arms, first=len(self._state.arms))
        made = tuple(arm.encoded(schema, "Agent.add_arms") for arm in given)
        self._state.check_arms(made)
        by, note, time = _provenance(by, note, at)
        return ArmsAdded(made, time, by, note)

    def arms_visited(self, arms: Iterable[Arm | ArmId], *, at: float | None = None) -> ArmsVisited:
        """Return the event of arms that are played only where a request names them."""
        added = self.arms_added(arms, at=at)
        return ArmsVisited(added.arms, added.at)

    def arms_changed(
        self,
        arms: Iterable[Arm],
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> ArmsChanged:
        """Return the event that arms have other labels or features."""
        given = listed(list(arms) if isinstance(arms, Iterator) else arms, "arms", "Agent")
        for arm in given:
            if not isinstance(arm, Arm):
                raise InvalidValue("arms", "Agent.change_arms", "a list of Arm", arm)
        changed = tuple(arm for _, arm in self._state.check_changed(given))
        return ArmsChanged(changed, *_provenance(by, note, at))

    def arms_retired(
        self,
        arms: Iterable[ArmId],
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> ArmsRetired:
        """Return the event that arms are not played any more."""
        ids = self._among(arms, "arms", "Agent.retire_arms")
        self._state.check_retired(ids)
        return ArmsRetired(ids, *_provenance(by, note, at))

    def arms_restored(
        self,
        arms: Iterable[ArmId],
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> ArmsRestored:
        """Return the event that arms may be played again."""
        ids = self._among(arms, "arms", "Agent.restore_arms")
        return ArmsRestored(ids, *_provenance(by, note, at))

    def regrouped(
        self,
        groups: Mapping[ArmId, str | None] | Iterable[FoundGroup],
        limits: str | None = None,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> Regrouped:
        """Return the event of other groups, with limits of this kind from now on."""
        state, owner = self._state, "Agent.regroup"
        if isinstance(groups, Mapping):
            given = list(groups.items())
        else:
            found = listed(groups, "groups", owner)
            if not all(isinstance(group, FoundGroup) for group in found):
                wanted = (
                    "a mapping from arms to groups, or a list of FoundGroup as proposal() gives"
                )
                raise InvalidValue("groups", owner, wanted, groups)
            given = [(arm, group.name) for group in found for arm in group.arms]
            _distinct([state.arm_ids[state.arm_number(arm)] for arm, _ in given], "groups", owner)
        kind = state.limits_state.kind if limits is None else limits
        if limits is None and state.limits_state.limits.finds_groups:
            kind = "auto"  # groups are declared now: nothing is left to find
        elif limits is None and not state.limits_state.limits.shares_groups:
            raise NotPossible(
                f"Arms share nothing with limits={kind!r}. Give regroup(..., limits=) a kind that "
                "shares: 'auto', 'rules' or 'logistic'."
            )
        if not isinstance(kind, str) or kind != state.settings.limits:
            validation.one_of(kind, KINDS, "limits", owner)
        pairs = tuple(
            (
                state.arm_ids[state.arm_number(arm)],
                None if group is None else words(group, "groups", owner),
            )
            for arm, group in given
        )
        if not pairs:
            raise InvalidValue("groups", owner, "at least one arm and its group", groups)
        by, note, time = _provenance(by, note, at)
        event = Regrouped(pairs, kind, by, note, time)
        state.check_groups(event)
        return event

    def certified(
        self,
        certificate: Certificate,
        *,
        learned_since: bool = False,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> Certified:
        """Return the event that the agent keeps to a certificate."""
        state, owner = self._state, "Agent.adopt"
        if not isinstance(certificate, Certificate):
            raise InvalidValue("certificate", owner, "a Certificate", certificate)
        state.check_certificate(certificate)
        since = validation.truth(learned_since, "learned_since", owner)
        if since and not certificate.about:
            wanted = "one that says which arms and features it is about"
            remedy = "Begin it with agent.certification(...), or certify with about=agent.about."
            raise InvalidValue("certificate", owner, wanted, "one that does not", remedy)
        if not since and certificate.fingerprint != fingerprint(state.limits_state.limits):
            raise InvalidValue(
                "certificate",
                owner,
                "one of the limits that the agent has now",
                f"one of limits with the fingerprint {certificate.fingerprint[:12]}",
                "If they are this agent's own, and it has learned since, say learned_since=True.",
            )
        try:
            Certificate.from_json(certificate.to_json())
        except CorruptState as error:
            wanted = "one that certify() or a Certification made"
            raise InvalidValue(
                "certificate", owner, wanted, certificate.threshold, f"{error}"
            ) from None
        assumed = list(certificate.assumptions)
        if state.settings.safe_arm is not None:
            assumed.append(f"The safe arm {state.settings.safe_arm!r} is allowed in every context.")
        if state.remembers:
            assumed.append(
                "Every standing answer 'allowed' is right: it may be played to the letter."
            )
        certificate = replace(certificate, assumptions=tuple(dict.fromkeys(assumed)))
        by, note, time = _provenance(by, note, at)
        return Certified(certificate, by, note, time)

    def uncertified(
        self, *, by: str | None = None, note: str | None = None, at: float | None = None
    ) -> Uncertified:
        """Return the event that no certificate binds any more."""
        if self._state.certificate is None:
            raise NotPossible("The agent keeps to no certificate.")
        return Uncertified(*_provenance(by, note, at))

    def promised(
        self,
        alpha: float,
        q: float,
        *,
        lag: int = 0,
        b: float | None = None,
        seed: int | None = None,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> Promised:
        """Return the event of a promise; its coins have a seed of their own, drawn if not given."""
        purse = Purse(alpha=alpha, q=q, lag=lag, b=b)
        if seed is None:
            seed = secrets.randbits(63)
        known = validation.SEED.check(seed, "seed", "Agent.promise")
        by, note, time = _provenance(by, note, at)
        event = Promised(purse.alpha, purse.q, purse.lag, purse.b, known, by, note, time)
        self._state.check_promise(event)
        return event

    def promise_dropped(
        self, *, by: str | None = None, note: str | None = None, at: float | None = None
    ) -> PromiseDropped:
        """Return the event that no promise binds any more."""
        if self._state.promise is None:
            raise NotPossible("The agent keeps no promise.")
        return PromiseDropped(*_provenance(by, note, at))

    def started_anew(
        self,
        why: str,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> StartedAnew:
        """Return the event that what was learned is begun anew."""
        reason = words(why, "why", "Agent.start_anew", MAX_NOTE)
        return StartedAnew(reason, *_provenance(by, note, at))

    def rule_declared(
        self,
        rule: Rule,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> RuleDeclared:
        """Return the event of a known rule."""
        if not isinstance(rule, Rule):
            raise InvalidValue("rule", "Agent.declare", "a Rule", rule)
        self._state.compile(rule)
        by, note, time = _provenance(by, note, at)
        return RuleDeclared(rule, time, by, note)

    def rule_withdrawn(
        self,
        rule: str,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> RuleWithdrawn:
        """Return the event that a known rule no longer holds."""
        self._state.check_rule(rule)
        by, note, time = _provenance(by, note, at)
        return RuleWithdrawn(str(rule), time, by, note)

    # -- small parts -------------------------------------------------------------------------

    def _item(self, context: Context, item: ArmId | None, owner: str) -> ArmId | None:
        if item is None and not self._schema.names_items:
            return None
        return item_of(self._state, context, item, owner)

    def _items(
        self, contexts: Contexts, items: Sequence[ArmId | None] | None, n: int, owner: str
    ) -> list[ArmId | None]:
        if isinstance(contexts, np.ndarray) and contexts.dtype == object:
            contexts = contexts.tolist()
        if items is None and not isinstance(contexts, list | tuple):
            return [None] * n
        given = [None] * n if items is None else listed(items, "items", owner, n)
        if isinstance(contexts, np.ndarray):
            contexts = [()] * n
        return [self._item(c, item, owner) for c, item in zip(contexts, given, strict=True)]

    def _from_pool(self, question: ItemId, pool: Contexts | None) -> tuple[Floats, ArmId | None]:
        """Return the context to ask about, of the pool or of what the agent met, and its item."""
        state = self._state
        if pool is None:
            met = list(state.pending.values())
            if not met:
                raise NotPossible(
                    "There is no context to ask about: no decision waits for its reward. "
                    "Give one, agent.ask(context), or several, agent.ask(pool=contexts)."
                )
            cases: list[tuple[bytes, ArmId | None]] = [(context, None) for context, _ in met]
        else:
            rows = self._schema.encode_many(pool)
            items = self._items(pool, None, len(rows), "Agent.ask")
            cases = [(row.tobytes(), item) for row, item in zip(rows, items, strict=True)]
            if not cases:
                raise InvalidValue("pool", "Agent.ask", "at least one context", pool)
        if state.settings.teaching == "pool":
            cases = list(dict.fromkeys(cases))  # of equal cases one is enough to look at
            if len(cases) > MAX_POOL:
                first = self.selector.place(question, len(cases))
                cases = (cases[first:] + cases[:first])[:MAX_POOL]
            best = [
                float(self.selector.value(np.frombuffer(raw), item).max()) for raw, item in cases
            ]
            at = self.selector.most(question, np.array(best))
        else:
            at = self.selector.place(question, len(cases))
        raw, item = cases[at]
        return np.frombuffer(bytearray(raw)), item

    @staticmethod
    def _names(ids: Sequence[str] | None, n: int, so_far: int, owner: str) -> list[ItemId]:
        if ids is None:
            return list(range(so_far + 1, so_far + n + 1))
        names: list[ItemId] = [item_id(id, owner) for id in listed(ids, "ids", owner, n)]
        return _distinct(names, "ids", owner)


def _id_of(question: object) -> Any:
    """Return the id of a question: of a `Question`, of an open one as it is listed, or an id."""
    return question if isinstance(question, int | str) else getattr(question, "id", question)


def _truth(value: object, owner: str) -> bool:
    if value is True or value is False:  # which is the rule
        return value
    return validation.truth(value, "allowed", owner)


def _truths(values: object, length: int, owner: str) -> list[bool]:
    return [_truth(value, owner) for value in listed(values, "allowed", owner, length)]


def _provenance(
    by: str | None, note: str | None, at: float | None
) -> tuple[str | None, str | None, float | None]:
    """Return who made a change, why and when, checked."""
    return _words(by, "by"), _words(note, "note"), time_of(at)


def _words(value: str | None, name: str) -> str | None:
    return None if value is None else words(value, name, "Agent", MAX_NOTE)


def _distinct(values: list[ItemId], name: str, owner: str) -> list[ItemId]:
    if len(set(values)) != len(values):
        twice, _ = Counter(values).most_common(1)[0]
        raise InvalidValue(name, owner, "distinct", twice)
    return values


def _check_declared(owner: str, **given: object) -> None:
    """Raise `InvalidValue` for what says something of a declared teacher, where there is none."""
    for name, value in given.items():
        if value is not None:
            raise InvalidValue(name, owner, "left out unless `by` is a declared teacher", value)


def _of_declared(made: Of) -> Of:
    if not made.declared:
        wanted, remedy = "the name of a declared teacher", "Agent(teachers=[Teacher(...)])."
        raise InvalidValue("by", "Agent", wanted, "another", remedy)
    return made

"""The first half of the verbs that change what an agent is: its dial, arms, groups, rules."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, cast, get_args

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
    Certified,
    Decided,
    Erased,
    Event,
    Expired,
    Judged,
    Lapsed,
    Learned,
    Note,
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
from bridle.agent.outcomes import Abstention, Check, Decision, Decisions, Question
from bridle.agent.purse import Purse
from bridle.agent.selection import Selector
from bridle.agent.state import AgentState, Example, JudgedCase, item_of
from bridle.agent.teachers import REVIEWED, Key
from bridle.certificates.certificate import Certificate, fingerprint
from bridle.errors import CorruptState, InvalidValue, LimitReached, NotPossible
from bridle.kernels.types import Floats
from bridle.limits import KINDS, FoundGroup
from bridle.limits.declared import Rule
from bridle.policies import with_sigma
from bridle.schema import Context

__all__ = [
    "TIME",
    "Commands",
    "Contexts",
    "Heard",
    "Truths",
    "distinct",
    "some_words",
    "time_of",
]


TIME = validation.FloatRange()


def distinct(values: list[ItemId], name: str, owner: str) -> list[ItemId]:
    """Give ids that are all different, or refuse them."""
    if len(set(values)) != len(values):
        twice, _ = Counter(values).most_common(1)[0]
        raise InvalidValue(name, owner, "distinct", twice)
    return values


def some_words(value: str | None, name: str) -> str | None:
    """Give what a person said along with a change, if anything."""
    return None if value is None else words(value, name, "Agent", MAX_NOTE)


def time_of(at: float | None) -> float | None:
    """Give the caller's time as a float."""
    return None if at is None else TIME.check(at, "at", "Agent")


# --- The first half of every verb: look, check, make the event, change nothing ------------
#
# `agent.make` is a `Commands`. What it gives can be committed somewhere and then folded by
# `agent.apply`; or thrown away, and nothing has happened.


Contexts: TypeAlias = "Sequence[Context] | npt.NDArray[Any]"
Truths: TypeAlias = "Sequence[bool] | npt.NDArray[Any]"
MAX_HISTORY = 10_000_000
# So many distinct contexts of a pool are looked at for one question; which ones, its bits say.
MAX_POOL = 2_000
CONTRADICTED = "A check was denied of what a teacher had allowed: limits have changed."


class Heard(NamedTuple):
    """What comes of the words of a declared teacher: all events, and the example of each word.

    None: the word did not settle its case.
    """

    events: list[Event]
    examples: list[ItemId | None]


class _Word(NamedTuple):
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
    word: ItemId | None = None  # its own


class _Hearing:
    """Finds what words of a declared teacher settle, on a copy of what is known of teachers.

    What is only made changes nothing: the fold finds the same.
    """

    def __init__(
        self,
        knowledge: AgentState,
        by: str,
        note: str | None,
        time: float | None,
        who: str | None,
    ) -> None:
        self.events: list[Event] = []
        self._know = knowledge
        self._by, self._note, self._time, self._who = by, note, time, who
        self._teachers = knowledge.teachers.copy()
        self._judged: dict[tuple[Key, Key], JudgedCase] = {}  # those of these words
        self._taught = knowledge.taught
        self._gone: set[ItemId] = set()  # examples that are replaced
        self._answered: set[ItemId] = set()  # checks
        self._anew = False

    def hear(self, word: _Word) -> ItemId | None:
        """Take a word; return the example that it makes, None if it does not settle its case."""
        state, context = self._know, tuple(np.frombuffer(word.context).tolist())
        key = state.case_key(word.context, word.item, word.arm)
        prior, before = state.prior_of(word.context, word.arm), self._case(key)
        if state.reopens(word.check, key, self._teachers):
            self._teachers.forget(*key)
            before = None
        verdict = self._teachers.judge(self._by, *key, word.allowed, prior)
        event = Judged(
            context,
            state.arm_ids[word.arm],
            word.allowed,
            self._by,
            prior,
            word.question,
            word.check,
            word.item,
            word.scope,
            word.until,
            self._note,
            self._time,
            word.word,
            self._who,
        )
        self.events.append(event)
        self._judged[key] = state.judged_by(event, before, word.context, word.arm)
        others = self._teachers.review(self._prior, REVIEWED)
        example = None
        if verdict.allowed is not None:
            case = self._judged[key]
            example = self._teach(key, case, verdict.allowed, word)
            self._answer(key, case, verdict.allowed)
        for one in others:
            place = one.case, one.unit
            about = self._case(place)
            if about is None:  # all was begun anew, and what was said is forgotten
                break
            if not self._answer(place, about, one.allowed):
                self._teach(place, about, one.allowed, None)
        return example

    def _case(self, key: tuple[Key, Key]) -> JudgedCase | None:
        if key in self._judged:
            return self._judged[key]
        return None if self._anew else self._know.judged.get(key)

    def _prior(self, case: Key, unit: Key) -> float:
        about = self._case((case, unit))
        assert about is not None
        return self._know.prior_of(about.context, about.arm)

    def _answer(self, key: tuple[Key, Key], case: JudgedCase, label: bool) -> bool:
        """Answer the checks that waited for a case; return whether there were any."""
        open_ = self._know.checks.open
        waiting = [id for id in case.checks if id in open_ and id not in self._answered]
        for id in waiting:
            one = open_[id]
            word = _Word(one.context, one.arm, one.item, label, check=id)
            self._teach(key, case._replace(context=one.context, arm=one.arm), label, word)
        return bool(waiting)

    def _teach(
        self, key: tuple[Key, Key], case: JudgedCase, label: bool, word: _Word | None
    ) -> ItemId:
        """Write down the example of a case that is settled: of this word, or later."""
        state = self._know
        self._taught += 1
        id = self._taught if word is None or word.id is None else word.id
        question, check = (None, None) if word is None else (word.question, word.check)
        said = self._teachers.said(*key)
        who = ", ".join(one.name for one in self._teachers.teachers if said.get(one.name) is label)
        replaced: tuple[ItemId, ...] = ()
        if label or not self._anew:  # else what was allowed is forgotten already
            earlier = state.earlier(case.item, case.arm, label, who or None)
            replaced = tuple(one for one in earlier if one not in self._gone)
        self._gone.update(replaced)
        taught = Taught(
            id,
            tuple(np.frombuffer(case.context).tolist()),
            state.arm_ids[case.arm],
            label,
            question,
            who or None,
            None if word is None else self._note,
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
    """Makes the events of one agent from what it knows now."""

    def __init__(self, knowledge: AgentState) -> None:
        self._state = knowledge
        self._schema = knowledge.settings.features
        self.chooser = Selector(knowledge)

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
        """Pick the arm to ask about in a context, in one of a pool, or in one that was met."""
        state = self._state
        name: ItemId = state.questions.asked + 1 if id is None else item_id(id, "Agent.ask")
        state.questions.check(name)
        if context is not None and pool is not None:
            raise InvalidValue("pool", "Agent.ask", "left out where a context is given", pool)
        if context is not None:
            row, named = (
                self._schema.encode(context),
                item_of(self._state, context, item, "Agent.ask"),
            )
        else:
            if item is not None:
                raise InvalidValue("item", "Agent.ask", "left out where no context is given", item)
            row, named = self._from_pool(name, pool)
        return self.chooser.question(row, name, state.version, time_of(at), named)

    def asked_many(self, contexts: Contexts, *, at: float | None = None) -> list[Question]:
        """Pick an arm to ask about in each context."""
        rows, time = self._schema.encode_many(contexts), time_of(at)
        first, version = self._state.questions.asked + 1, self._state.version
        items = self._items(contexts, None, len(rows), "Agent.ask_many")
        return [
            self.chooser.question(row, first + ahead, version + ahead, time, item)
            for ahead, (row, item) in enumerate(zip(rows, items, strict=True))
        ]

    def taught(
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
    ) -> Taught:
        """Write down an example of the teacher; of a declared one see `examples_by`."""
        rows = self._schema.encode(context)[None]
        items = [item_of(self._state, context, item, "Agent.teach")]
        answer = validation.truth(allowed, "allowed", "Agent.teach")
        ids = None if id is None else [id]
        return self._taught(rows, [arm], [answer], items, ids, by, note, at, scope, until)[0]

    def taught_many(
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
    ) -> list[Taught]:
        """Write down many examples."""
        rows = self._schema.encode_many(contexts)
        owner = "Agent.teach_many"
        answers = _truths(allowed, len(rows), owner)
        named = self._items(contexts, items, len(rows), owner)
        return self._taught(
            rows,
            listed(arms, "arms", owner, len(rows)),
            answers,
            named,
            ids,
            by,
            note,
            at,
            scope,
            until,
        )

    def _taught(
        self,
        rows: Floats,
        arms: list[Any],
        answers: list[bool],
        items: list[ArmId | None],
        ids: Sequence[str] | None,
        by: str | None,
        note: str | None,
        at: float | None,
        scope: Scope = "all",
        until: float | None = None,
    ) -> list[Taught]:
        state = self._state
        self._undeclared(by, "examples_by")
        by, note, time = some_words(by, "by"), some_words(note, "note"), time_of(at)
        names = self._names(ids, len(rows), state.taught, "Agent.teach")
        numbers = [state.arm_number(arm) for arm in arms]
        state.check_examples(names, numbers)
        ends = self._life(scope, until, items, "Agent.teach")
        replaced = self._replaced(numbers, items, answers, by)
        self._check_ends(ends, answers, replaced)
        said = [state.arm_ids[k] for k in numbers]
        return [
            Taught(
                name, tuple(row), arm, answer, None, by, note, time, item, None, scope, ends, gone
            )
            for name, row, arm, answer, item, gone in zip(
                names, rows.tolist(), said, answers, items, replaced, strict=True
            )
        ]

    def _life(
        self, scope: Scope, until: float | None, items: list[ArmId | None], owner: str
    ) -> float | None:
        """Return when answers end, or refuse their scope or their end."""
        validation.one_of(scope, SCOPES, "scope", owner)
        if scope == "item" and None in items:
            remedy = "Name it: item=..., or declare an Id in the schema."
            raise InvalidValue("scope", owner, "'all' where the item has no name", scope, remedy)
        ends = None if until is None else TIME.check(until, "until", owner)
        if (scope != "all" or ends is not None) and not self._state.settings.lives:
            wanted = "left out: this agent was made before answers had a life"
            raise InvalidValue("until", owner, wanted, until)
        return ends

    def _check_ends(
        self, ends: float | None, answers: list[bool], replaced: list[tuple[ItemId, ...]]
    ) -> None:
        """Refuse an "allowed" that ends, where it would replace a denial that stays."""
        if ends is None:
            return
        for answer, gone in zip(answers, replaced, strict=True):
            lasting = [id for id in gone if self._state.examples[id].until is None]
            if answer and lasting:
                raise NotPossible(
                    "The same teacher has denied this without an end (example "
                    f"{lasting[0]!r:.100}): "
                    'an "allowed" that ends would replace it, and nothing would be left. Retract '
                    "the denial first, and teach it again when the time has come."
                )

    def _replaced(
        self, arms: list[int], items: list[ArmId | None], answers: list[bool], by: str | None
    ) -> list[tuple[ItemId, ...]]:
        """Return, of each answer, what the same teacher said before and takes back by it."""
        earlier = self._state.earlier
        out, met = [], set()
        for k, item, answer in zip(arms, items, answers, strict=True):
            gone = tuple(id for id in earlier(item, k, answer, by) if id not in met)
            met |= set(gone)
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
        """Write down what a teacher says of a play that a coin chose.

        With a promise, a denial of what the teacher had allowed begins what was learned anew. The
        word of a declared teacher answers it if it settles its case; else the check waits. `word`
        and `who` are of a declared teacher: the word's own id, and who says so in their name.
        """
        state, owner = self._state, "Agent.judge"
        id = plain_id(_id_of(check))
        open_ = state.checks.get(id)
        answer = validation.truth(allowed, "allowed", owner)
        by, note, time = some_words(by, "by"), some_words(note, "note"), time_of(at)
        if state.declares(by):
            own = None if word is None else item_id(word, owner)
            said = _Word(open_.context, open_.arm, open_.item, answer, check=id, word=own)
            return self._heard([said], by, note, time, who).events
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

    def answered(
        self,
        question: Question | ItemId,
        allowed: bool,
        *,
        by: str | None = None,
        note: str | None = None,
        scope: Scope = "all",
        until: float | None = None,
        at: float | None = None,
    ) -> Taught:
        """Write down the answer to an open question."""
        said: Any = {"by": by, "note": note, "scope": scope, "until": until, "at": at}
        return self.answered_many([question], [allowed], **said)[0]

    def answered_many(
        self,
        questions: Sequence[Question | ItemId],
        allowed: Truths,
        *,
        by: str | None = None,
        note: str | None = None,
        scope: Scope = "all",
        until: float | None = None,
        at: float | None = None,
    ) -> list[Taught]:
        """Write down the answers to many open questions."""
        state = self._state
        owner = "Agent.answer"
        self._undeclared(by, "answers_by")
        ids, found, answers = self._open(questions, allowed, owner)
        by, note, time = some_words(by, "by"), some_words(note, "note"), time_of(at)
        names = self._names(None, len(ids), state.taught, owner)
        state.check_examples(names, [one.arm for one in found])
        contexts = [tuple(np.frombuffer(one.context).tolist()) for one in found]
        items = [one.item for one in found]
        ends = self._life(scope, until, items, owner)
        replaced = self._replaced([one.arm for one in found], items, answers, by)
        self._check_ends(ends, answers, replaced)
        return [
            Taught(
                name,
                context,
                state.arm_ids[one.arm],
                answer,
                id,
                by,
                note,
                time,
                one.item,
                None,
                scope,
                ends,
                gone,
            )
            for name, context, one, answer, id, gone in zip(
                names, contexts, found, answers, ids, replaced, strict=True
            )
        ]

    def _open(
        self, questions: Sequence[Question | ItemId], allowed: Truths, owner: str
    ) -> tuple[list[ItemId], list[Open], list[bool]]:
        """Return the ids of open questions, what they are about, and the answers to them."""
        asked = [_id_of(q) for q in listed(questions, "questions", owner)]
        found = [self._state.questions.get(id) for id in asked]
        ids = distinct([plain_id(id) for id in asked], "questions", owner)
        return ids, found, _truths(allowed, len(ids), owner)

    # -- several teachers --------------------------------------------------------------------

    def answers_by(
        self,
        questions: Sequence[Question | ItemId],
        allowed: Truths,
        *,
        by: str,
        note: str | None = None,
        scope: Scope = "all",
        until: float | None = None,
        at: float | None = None,
        words: Sequence[str] | None = None,
        who: str | None = None,
    ) -> Heard:
        """Write down what a declared teacher answers to open questions, and what that settles.

        A question whose case is not settled stays open. `words` are ids of the words themselves,
        and `who` says so in the teacher's name.
        """
        state, owner = self._state, "Agent.answer"
        ids, found, answers = self._open(questions, allowed, owner)
        name, note, time = self._declared(by), some_words(note, "note"), time_of(at)
        ends = self._life(scope, until, [one.item for one in found], owner)
        own: list[Any] = [None] * len(ids)
        if words is not None:
            own = self._names(words, len(ids), 0, owner)
        spoken = [
            _Word(
                one.context,
                one.arm,
                one.item,
                answer,
                question=id,
                scope=scope,
                until=ends,
                word=mine,
            )
            for id, one, answer, mine in zip(ids, found, answers, own, strict=True)
        ]
        for word in spoken:
            key = state.case_key(word.context, word.item, word.arm)
            if state.teachers.said(*key).get(name) is word.allowed:
                raise NotPossible(
                    f"{name} has said so already of question {word.question!r}, and that does not "
                    "settle it. Ask another, whom agent.whom(question) names, or give it up: "
                    "agent.skip(question)."
                )
        return self._heard(spoken, name, note, time, who)

    def examples_by(
        self,
        contexts: Contexts,
        arms: Sequence[ArmId] | npt.NDArray[Any],
        allowed: Truths,
        *,
        by: str,
        items: Sequence[ArmId | None] | None = None,
        ids: Sequence[str] | None = None,
        note: str | None = None,
        scope: Scope = "all",
        until: float | None = None,
        at: float | None = None,
        who: str | None = None,
    ) -> Heard:
        """Write down what a declared teacher says of many cases, and what that settles."""
        rows = self._schema.encode_many(contexts)
        state, owner, n = self._state, "Agent.teach_many", len(rows)
        answers = _truths(allowed, n, owner)
        named = self._items(contexts, items, n, owner)
        numbers = [state.arm_number(arm) for arm in listed(arms, "arms", owner, n)]
        names: list[Any] = [None] * n
        if ids is not None:
            names = self._names(ids, n, state.taught, owner)
        ends = self._life(scope, until, named, "Agent.teach")
        name, note, time = self._declared(by), some_words(note, "note"), time_of(at)
        words = [
            _Word(row.tobytes(), k, item, answer, None, None, scope, ends, id, id)
            for row, k, item, answer, id in zip(rows, numbers, named, answers, names, strict=True)
        ]
        return self._heard(words, name, note, time, who)

    def _heard(
        self,
        words: Sequence[_Word],
        by: str,
        note: str | None,
        time: float | None,
        who: str | None,
    ) -> Heard:
        """Write down words of a declared teacher, and the examples that they settle."""
        hearing = _Hearing(self._state, by, note, time, some_words(who, "who"))
        examples = [hearing.hear(word) for word in words]
        made = [event for event in hearing.events if isinstance(event, Taught)]
        numbers = [self._state.arm_number(event.arm) for event in made]
        names = distinct([event.id for event in made], "ids", "Agent.teach")
        self._state.check_examples(names, numbers)
        return Heard(hearing.events, examples)

    def _declared(self, by: str) -> str:
        """Return the name of a declared teacher, or refuse what is none."""
        name = some_words(by, "by")
        if name is None or not self._state.declares(name):
            wanted = "the name of a declared teacher"
            raise InvalidValue("by", "Agent", wanted, by, "Agent(teachers=[Teacher(...)]).")
        return name

    def _undeclared(self, by: object, instead: str) -> None:
        """Refuse to take a declared teacher at their word, past what is known of their errors."""
        if self._state.declares(by):
            raise NotPossible(
                f"{by!r} is a declared teacher, whose word may not settle a case: make.{instead}."
            )

    def lapsed(self, question: Question | ItemId, *, at: float | None = None) -> Lapsed:
        """Write down that an open question will not be answered."""
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
        """Write down that an example is taken back."""
        return self.retracted_many([example], by=by, note=note, at=at)[0]

    def retracted_many(
        self,
        examples: Sequence[ItemId | Example],
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> list[Retracted]:
        """Write down that many examples are taken back."""
        owner = "Agent.retract"
        given = listed(examples, "examples", owner)
        given = [one.id if isinstance(one, Example) else one for one in given]
        ids = [self._state.standing(id).id for id in given]
        by, note, time = some_words(by, "by"), some_words(note, "note"), time_of(at)
        return [Retracted(id, by, note, time) for id in distinct(ids, "examples", owner)]

    def ended(self, now: float) -> list[Retracted]:
        """Write down that examples are over whose time has come."""
        time = TIME.check(now, "now", "Agent.end_examples")
        return [
            Retracted(example.id, None, "Its time is over.", time)
            for example in self._state.examples.values()
            if example.until is not None and example.until <= time
        ]

    # -- deciding ----------------------------------------------------------------------------

    def decided(
        self,
        context: Context,
        among: Iterable[ArmId] | None = None,
        id: str | None = None,
        *,
        item: ArmId | None = None,
        propensity: bool = False,
        ask: bool = True,
        at: float | None = None,
    ) -> Decision | Question | Abstention:
        """Choose an arm for a context, among all arms or those given; or ask about one."""
        state = self._state
        row = self._schema.encode(context)
        named = item_of(self._state, context, item, "Agent.decide")
        name: ItemId = state.decisions + 1
        if id is not None:
            name = item_id(id, "Agent.decide")
            state.check_decision(name)
        if propensity is not False:
            propensity = validation.truth(propensity, "propensity", "Agent.decide")
        if ask is not True:
            ask = validation.truth(ask, "ask", "Agent.decide")
        chosen = None if among is None else self._among(among)
        time = None if at is None else time_of(at)
        return self.chooser.decision(
            row,
            name,
            state.version,
            chosen,
            propensity,
            time,
            ask=ask and state.settings.budget > 0,
            question=state.questions.asked + 1,
            item=named,
        )

    def resumed(
        self, decision: ItemId, *, propensity: bool | None = None, at: float | None = None
    ) -> Decision | Question | Abstention:
        """Go on with a decision that waited: its question is answered, or lapsed."""
        state = self._state
        waits = state.questions.ready(decision)
        # A question has no propensity that would say whether one is wanted: what comes of it has.
        wanted = waits.propensity is not None or not state.settings.legacy
        if propensity is not None:
            wanted = validation.truth(propensity, "propensity", "Agent.resume")
        row = np.frombuffer(bytearray(waits.context))
        return self.chooser.decision(
            row,
            plain_id(decision),
            state.version,
            waits.among,
            wanted,
            time_of(at),
            ask=True,
            question=state.questions.asked + 1,
            item=waits.item,
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
        """Choose an arm for each context, with a draw of its own for each, never asking."""
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
        start, numbers = self.chooser.numbers(
            state.decisions + 1, None if ids is None else names, len(rows)
        )
        about = self._items(contexts, items, len(rows), owner)
        arms, eligible, parts, odds = self.chooser.batch(
            rows, chosen, start, numbers, details, propensity, about
        )
        coins = self.chooser.coins(names, arms, about)
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
        )

    def _among(self, among: Iterable[ArmId]) -> tuple[ArmId, ...]:
        # In the order of the arms: what is written does not depend on the order of a set.
        given = listed(
            list(among) if isinstance(among, Set | Iterator) else among, "among", "Agent"
        )
        numbers = {self._state.arm_number(arm) for arm in given}
        return tuple(self._state.arm_ids[k] for k in sorted(numbers))

    def rewarded(self, decision: ItemId, value: float, *, at: float | None = None) -> Rewarded:
        """Write down the reward of a decision."""
        self._state.pending_context(decision)
        self._state.unit_reward(value)
        return Rewarded(plain_id(decision), float(value), time_of(at))

    def rewarded_many(
        self,
        decisions: Sequence[ItemId] | npt.NDArray[Any],
        values: Sequence[float] | npt.NDArray[Any],
        *,
        at: float | None = None,
    ) -> list[Rewarded]:
        """Write down the rewards of many decisions."""
        ids, rewards, time = self.rewards(decisions, values, at)
        pairs = zip(ids, rewards.tolist(), strict=True)
        return [Rewarded(id, reward, time) for id, reward in pairs]

    def rewards(
        self,
        decisions: Sequence[ItemId] | npt.NDArray[Any],
        values: Sequence[float] | npt.NDArray[Any],
        at: float | None,
    ) -> tuple[list[ItemId], Floats, float | None]:
        """Check the rewards of many decisions; give them as columns: ids, rewards, the time."""
        state, owner = self._state, "Agent.reward_many"
        ids = listed(decisions, "decisions", owner)
        pending = state.pending
        if not set(map(type, ids)) <= {int, str} or not all(id in pending for id in ids):
            for id in ids:
                state.pending_context(id)
            ids = [plain_id(id) for id in ids]
        distinct(ids, "decisions", owner)
        return ids, state.check_rewards(values, len(ids), owner), time_of(at)

    def expired(self, decision: ItemId, *, at: float | None = None) -> Expired:
        """Write down that nobody waits for the reward of a decision any more."""
        self._state.pending_context(decision)
        return Expired(plain_id(decision), self._state.default_reward, time_of(at))

    def shadowed(
        self, decision: Decision | Abstention, arm: ArmId, *, at: float | None = None
    ) -> Shadowed:
        """Write down what another system played in the place of a decision that was just made."""
        if not isinstance(decision, Decision | Abstention):
            wanted = "a Decision or an Abstention"
            raise InvalidValue("decision", "Agent.shadow", wanted, decision)
        return self.shadow_of(decision.event, arm, at=at)

    def shadow_of(
        self, decided: Decided | Abstained, arm: ArmId, *, at: float | None = None
    ) -> Shadowed:
        """Write down the same, of the event of a decision."""
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
        """Write down history: what was played before, and what it earned."""
        state = self._state
        rows = self._schema.encode_many(contexts)
        n = len(rows)
        if n > MAX_HISTORY:
            raise LimitReached("rows of history in one call", MAX_HISTORY, "Split it.")
        numbers = state.arm_numbers(listed(arms, "arms", "Agent.learn", n))
        values = state.check_rewards(rewards, n, "Agent.learn")
        for array in (rows, numbers, values):
            array.flags.writeable = False
        return Learned(rows, numbers, values, time_of(at))

    # -- small parts -------------------------------------------------------------------------

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
        return [
            item_of(self._state, c, item, owner) for c, item in zip(contexts, given, strict=True)
        ]

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
                first = self.chooser.place(question, len(cases))
                cases = (cases[first:] + cases[:first])[:MAX_POOL]
            best = [
                float(self.chooser.value(np.frombuffer(raw), item).max()) for raw, item in cases
            ]
            at = self.chooser.most(question, np.array(best))
        else:
            at = self.chooser.place(question, len(cases))
        raw, item = cases[at]
        return np.frombuffer(bytearray(raw)), item

    @staticmethod
    def _names(ids: Sequence[str] | None, n: int, so_far: int, owner: str) -> list[ItemId]:
        if ids is None:
            return list(range(so_far + 1, so_far + n + 1))
        names: list[ItemId] = [item_id(id, owner) for id in listed(ids, "ids", owner, n)]
        return distinct(names, "ids", owner)

    def sigma_changed(
        self,
        sigma: float,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> SigmaChanged:
        """Write down another sigma."""
        by, note = some_words(by, "by"), some_words(note, "note")
        return SigmaChanged(with_sigma(self._state.policy, sigma).sigma, time_of(at), by, note)

    def wait_changed(
        self,
        wait: float | None,
        default_reward: float | None = None,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> WaitChanged:
        """Write down how long decisions wait for a reward, and what they learn then."""
        owner = "Agent.set_wait"
        seconds = None if wait is None else WAIT.check(wait, "wait", owner)
        reward_range = self._state.settings.reward_range
        reward = check_default(default_reward, reward_range, seconds, owner)
        by, note = some_words(by, "by"), some_words(note, "note")
        return WaitChanged(seconds, reward, by, note, time_of(at))

    def noted(self, note: Note) -> Note:
        """Write down something that changes nothing of what the agent knows."""
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
        """Write down new arms."""
        made = the_arms(arms, first=len(self._state.arms))
        self._state.check_arms(made)
        by, note = some_words(by, "by"), some_words(note, "note")
        return ArmsAdded(made, time_of(at), by, note)

    def regrouped(
        self,
        groups: Mapping[ArmId, str | None] | Iterable[FoundGroup],
        limits: str | None = None,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> Regrouped:
        """Write down that arms belong to these groups, for limits of this kind from now on."""
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
            distinct([state.arm_ids[state.arm_number(arm)] for arm, _ in given], "groups", owner)
        kind = state.limits_state.kind if limits is None else limits
        if limits is None and kind == "found":
            kind = "auto"  # groups are declared now: nothing is left to find
        if limits is None and kind == "linear":
            raise NotPossible(
                "Arms share nothing with limits='linear'. Give regroup(..., limits=) a kind that "
                "shares: 'auto', 'rules' or 'logistic'."
            )
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
        by, note, time = some_words(by, "by"), some_words(note, "note"), time_of(at)
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
        """Write down that the agent keeps to a certificate."""
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
        by, note, time = some_words(by, "by"), some_words(note, "note"), time_of(at)
        return Certified(certificate, by, note, time)

    def uncertified(
        self, *, by: str | None = None, note: str | None = None, at: float | None = None
    ) -> Uncertified:
        """Write down that no certificate binds any more."""
        if self._state.certificate is None:
            raise NotPossible("The agent keeps to no certificate.")
        return Uncertified(some_words(by, "by"), some_words(note, "note"), time_of(at))

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
        """Write down a promise; its coins have a seed of their own, drawn if not given."""
        purse = Purse(alpha=alpha, q=q, lag=lag, b=b)
        if seed is None:
            seed = secrets.randbits(63)
        known = validation.SEED.check(seed, "seed", "Agent.promise")
        by, note = some_words(by, "by"), some_words(note, "note")
        event = Promised(purse.alpha, purse.q, purse.lag, purse.b, known, by, note, time_of(at))
        self._state.check_promise(event)
        return event

    def promise_dropped(
        self, *, by: str | None = None, note: str | None = None, at: float | None = None
    ) -> PromiseDropped:
        """Write down that no promise binds any more."""
        if self._state.promise is None:
            raise NotPossible("The agent keeps no promise.")
        return PromiseDropped(some_words(by, "by"), some_words(note, "note"), time_of(at))

    def started_anew(
        self,
        why: str,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> StartedAnew:
        """Write down that what was learned is begun anew."""
        reason = words(why, "why", "Agent.start_anew", MAX_NOTE)
        return StartedAnew(reason, some_words(by, "by"), some_words(note, "note"), time_of(at))

    def rule_declared(
        self,
        rule: Rule,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> RuleDeclared:
        """Write down a known rule."""
        if not isinstance(rule, Rule):
            raise InvalidValue("rule", "Agent.declare", "a Rule", rule)
        self._state.compile(rule)
        return RuleDeclared(rule, time_of(at), some_words(by, "by"), some_words(note, "note"))

    def rule_withdrawn(
        self,
        rule: str,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> RuleWithdrawn:
        """Write down that a known rule no longer holds."""
        self._state.check_rule(rule)
        by, note = some_words(by, "by"), some_words(note, "note")
        return RuleWithdrawn(str(rule), time_of(at), by, note)


def _id_of(question: object) -> Any:
    """Return the id of a question: of a `Question`, of an open one as it is listed, or an id."""
    return question if isinstance(question, int | str) else getattr(question, "id", question)


def _truths(values: object, length: int, owner: str) -> list[bool]:
    return [
        validation.truth(value, "allowed", owner)
        for value in listed(values, "allowed", owner, length)
    ]

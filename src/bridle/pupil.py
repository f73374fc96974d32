"""The half of an agent that is taught: questions, examples, answers.

Each verb makes its events, hands them to the sink (a store, say) and folds them; if the sink
raises, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy.typing as npt

from bridle.decisions import Abstention, Answer, Check, Decision, Question
from bridle.errors import InvalidValue
from bridle.events import Asked, Event, Judged, Taught
from bridle.features import Context
from bridle.knowledge import Example, Knowledge
from bridle.making import Contexts, Maker, Truths
from bridle.reading import Reader
from bridle.settings import ArmId, ItemId, listed

__all__ = ["Pupil", "Sink"]

Sink: TypeAlias = Callable[[Sequence[Event]], None]
# None only where teachers are declared: who has none need not look.
MaybeId: TypeAlias = ItemId | Any


class Pupil(Reader):
    """What can be taught; `Agent` is one that also decides."""

    sink: Sink | None
    make: Maker

    def ask(
        self,
        context: Context | None = None,
        *,
        pool: Contexts | None = None,
        item: ArmId | None = None,
        id: str | None = None,
        at: float | None = None,
    ) -> Question:
        """Ask the teacher about an arm in `context`.

        Without a context it takes one out of `pool` or, without that, one that the agent met: of a
        decision that waits for its reward. With ``teaching="pool"`` it takes the one where an
        answer teaches most (of at most 2,000 distinct ones), else any with equal probability.
        """
        question = self.make.asked(context, pool=pool, item=item, id=id, at=at)
        self._commit(question.event)
        return question

    def ask_many(self, contexts: Contexts, *, at: float | None = None) -> list[Question]:
        """Ask about an arm in each context: the same questions as one by one."""
        questions = self.make.asked_many(contexts, at=at)
        self._commit_all([question.event for question in questions])
        return questions

    def teach(
        self,
        context: Context,
        arm: ArmId,
        allowed: bool,
        *,
        item: ArmId | None = None,
        id: str | None = None,
        by: str | None = None,
        note: str | None = None,
        scope: str = "all",
        until: float | None = None,
        at: float | None = None,
    ) -> MaybeId:
        """Take an example of the teacher; return its id, for `retract`.

        It replaces what the same teacher (`by`) said before of the same item and arm or group;
        what others said stands beside it. The word of a declared teacher (`Agent.teachers`) is an
        example once it, or it with others', settles the case; None if that is not so yet.

        Parameters
        ----------
        context, arm, allowed
            In this context the arm is allowed, or not.
        item : int or str, optional
            The name of what the context is about: see `Agent.decide`.
        scope : {"all", "item"}
            Whether it says something of all that looks like it, or of this very item alone.
        until : float, optional
            When it ends, in the caller's time; never by default. An agent has no clock: whoever has
            one calls `end_examples`, as the service does.
        """
        if self._knowledge.declares(by):
            return self.teach_many(
                [context], [arm], [allowed], items=[item], ids=None if id is None else [id], by=by,
                note=note, scope=scope, until=until, at=at,
            )[0]  # fmt: skip
        event = self.make.taught(
            context, arm, allowed, item=item, id=id, by=by, note=note, scope=scope, until=until,
            at=at,
        )  # fmt: skip
        self._commit(event)
        return event.id

    def teach_many(
        self,
        contexts: Contexts,
        arms: Sequence[ArmId] | npt.NDArray[Any],
        allowed: Truths,
        *,
        items: Sequence[ArmId | None] | None = None,
        ids: Sequence[str] | None = None,
        by: str | None = None,
        note: str | None = None,
        scope: str = "all",
        until: float | None = None,
        at: float | None = None,
    ) -> list[MaybeId]:
        """Take many examples, all or none: the same bits as one by one.

        (Words of a declared teacher are held against the limits as they are before the first.)
        """
        if self._knowledge.declares(by):
            heard = self.make.examples_by(
                contexts, arms, allowed, by=by, items=items, ids=ids, note=note, scope=scope,
                until=until, at=at,
            )  # fmt: skip
            self._commit_all(heard.events)
            return heard.examples
        events = self.make.taught_many(
            contexts, arms, allowed, items=items, ids=ids, by=by, note=note, scope=scope,
            until=until, at=at,
        )  # fmt: skip
        self._commit_all(events)
        return [event.id for event in events]

    def answer(
        self,
        question: Question | ItemId,
        allowed: bool,
        *,
        by: str | None = None,
        note: str | None = None,
        scope: str = "all",
        until: float | None = None,
        at: float | None = None,
    ) -> Answer:
        """Take the teacher's answer to a question, and go on with the decision that waits for it.

        If a declared teacher (`Agent.teachers`) gives it and it does not settle the case, the
        question stays open, for whom `whom` names next, or until `skip` gives it up. `scope` and
        `until` are as in `teach`.

        Returns
        -------
        Answer
            `example` names the example that it made, for `retract`; `then` is what the decision
            came to, a `Decision`, another `Question` or an `Abstention`, or None if none waited.
            Of an answer that settles nothing: no example, and the same `Question` again.
        """
        said: Any = {"by": by, "note": note, "scope": scope, "until": until, "at": at}
        return self.answer_many([question], [allowed], **said)[0]

    def answer_many(
        self,
        questions: Sequence[Question | ItemId],
        allowed: Truths,
        *,
        by: str | None = None,
        note: str | None = None,
        scope: str = "all",
        until: float | None = None,
        at: float | None = None,
    ) -> list[Answer]:
        """Take the answers to many questions, all or none; then go on with what waited for them."""
        said: Any = {"note": note, "scope": scope, "until": until, "at": at}
        if self._knowledge.declares(by):
            return self._answers_by(questions, allowed, by, said)
        events = self.make.answered_many(questions, allowed, by=by, **said)
        asked = [self._knowledge.questions.open[event.question] for event in events]  # type: ignore[index]
        self._commit_all(events)
        return [
            Answer(event.id, self._go_on(one.decision, at))
            for event, one in zip(events, asked, strict=True)
        ]

    def judge(
        self,
        check: Check | ItemId,
        allowed: bool,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> MaybeId:
        """Take the teacher's judgement of a play that a coin chose; return the example's id.

        It is about the limits as they stood at the play. It teaches as any answer does, and says
        how often what was believed safe is not. With a promise it moves the purse; and a denial of
        what the teacher had allowed begins what was learned anew. The word of a declared teacher
        that does not settle the case does not answer the check: it waits, and None is returned.

        Parameters
        ----------
        check : Check or id
            `Decision.check`, one of `open_checks`, or the id of the decision.
        """
        events = self.make.judged(check, allowed, by=by, note=note, at=at)
        self._commit_all(events)
        id = getattr(events[0], "check", None)  # as an example or as a word, it is of this check
        made = (event for event in events if isinstance(event, Taught) and event.check == id)
        return next((taught.id for taught in made), None)

    def end_examples(self, now: float) -> list[ItemId]:
        """Take back the examples whose time (`until`) is over; return their ids."""
        events = self.make.ended(now)
        self._commit_all(events)
        return [event.example for event in events]

    def skip(self, question: Question | ItemId, *, at: float | None = None) -> Answer:
        """Give a question up: nobody will answer. A decision that waits goes on and plays safe."""
        event = self.make.lapsed(question, at=at)
        decision = self._knowledge.questions.open[event.question].decision
        self._commit(event)
        return Answer(None, self._go_on(decision, at))

    def resume(
        self, decision: ItemId, *, propensity: bool | None = None, at: float | None = None
    ) -> Decision | Question | Abstention:
        """Go on with a decision whose question is answered or skipped.

        `answer` and `skip` do so themselves; this is for a store that was interrupted in between.
        """
        made = self.make.resumed(decision, propensity=propensity, at=at)
        self._commit_all(made.events)
        return made

    def retract(
        self,
        example: ItemId | Example,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> None:
        """Take an example back: the limits of its arm are as if it had never been taught."""
        self._commit(self.make.retracted(example, by=by, note=note, at=at))

    def retract_many(
        self,
        examples: Sequence[ItemId | Example],
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> None:
        """Take many examples back, all or none."""
        self._commit_all(self.make.retracted_many(examples, by=by, note=note, at=at))

    def _answers_by(
        self,
        questions: Sequence[Question | ItemId],
        allowed: Truths,
        by: str,
        said: dict[str, Any],
    ) -> list[Answer]:
        """Take answers of a declared teacher; a question that is not settled is given again."""
        given = listed(questions, "questions", "Agent.answer")
        heard = self.make.answers_by(given, allowed, by=by, **said)
        words = [event for event in heard.events if isinstance(event, Judged)]
        asked = [self._knowledge.questions.open[word.question] for word in words]  # type: ignore[index]
        self._commit_all(heard.events)
        return [
            Answer(None, again if isinstance(again, Question) else self._question(word))
            if example is None
            else Answer(example, self._go_on(one.decision, said["at"]))
            for again, word, one, example in zip(given, words, asked, heard.examples, strict=True)
        ]

    def _question(self, word: Judged) -> Question:
        """Return an open question again, by a word that does not settle it."""
        know, id = self._knowledge, word.question
        assert id is not None
        decision = know.questions.open[id].decision
        waits = None if decision is None else know.questions.waiting.get(decision)
        among, propensity = (None, None) if waits is None else (waits.among, waits.propensity)
        asked = Asked(
            id,
            word.context,
            word.arm,
            know.version,
            word.at,
            decision,
            among,
            propensity,
            word.item,
        )
        return Question(asked)

    def _go_on(
        self, decision: ItemId | None, at: float | None
    ) -> Decision | Question | Abstention | None:
        waits = None if decision is None else self._knowledge.questions.waiting.get(decision)
        if decision is None or waits is None or waits.question is not None:
            return None
        return self.resume(decision, at=at)

    def _become(self, knowledge: Knowledge, sink: Sink | None) -> None:
        if sink is not None and not callable(sink):
            raise InvalidValue("sink", "Agent", "a function that takes a list of events", sink)
        self.sink = sink
        self._knowledge = knowledge
        self.make = Maker(knowledge)

    def _commit(self, event: Event) -> None:
        if self.sink is not None:
            self.sink([event])
        self._knowledge.fold(event)

    def _commit_all(self, events: Sequence[Event]) -> None:
        if self.sink is not None and events:
            self.sink(events)
        for event in events:
            self._knowledge.fold(event)

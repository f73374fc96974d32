"""The half of an agent that is taught: questions, examples, answers.

Each verb makes its events, hands them to the sink (a store, say) and folds them; if the sink
raises, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy.typing as npt

from bridle.decisions import Abstention, Answer, Decision, Question
from bridle.errors import InvalidValue
from bridle.events import Event
from bridle.features import Context
from bridle.knowledge import Example, Knowledge
from bridle.making import Contexts, Maker, Truths
from bridle.reading import Reader
from bridle.settings import ArmId, ItemId

__all__ = ["Pupil", "Sink"]

Sink: TypeAlias = Callable[[Sequence[Event]], None]


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
        at: float | None = None,
    ) -> ItemId:
        """Take an example of the teacher; give its id, for `retract`.

        `item` is the name of what the context is about: see `Agent.decide`.
        """
        event = self.make.taught(context, arm, allowed, item=item, id=id, by=by, note=note, at=at)
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
        at: float | None = None,
    ) -> list[ItemId]:
        """Take many examples, all or none: the same bits as one by one."""
        events = self.make.taught_many(
            contexts, arms, allowed, items=items, ids=ids, by=by, note=note, at=at
        )
        self._commit_all(events)
        return [event.id for event in events]

    def answer(
        self,
        question: Question | ItemId,
        allowed: bool,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> Answer:
        """Take the teacher's answer to a question, and go on with the decision that waits for it.

        Returns
        -------
        Answer
            `example` names the example that it made, for `retract`; `then` is what the decision
            came to, a `Decision`, another `Question` or an `Abstention`, or None if none waited.
        """
        return self.answer_many([question], [allowed], by=by, note=note, at=at)[0]

    def answer_many(
        self,
        questions: Sequence[Question | ItemId],
        allowed: Truths,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> list[Answer]:
        """Take the answers to many questions, all or none; then go on with what waited for them."""
        events = self.make.answered_many(questions, allowed, by=by, note=note, at=at)
        asked = [self._knowledge.questions.open[event.question] for event in events]  # type: ignore[index]
        self._commit_all(events)
        return [
            Answer(event.id, self._go_on(one.decision, at))
            for event, one in zip(events, asked, strict=True)
        ]

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

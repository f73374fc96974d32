"""A driver for the golden agents: an agent, its log, a clock, a teacher and a world.

It was used once, by `write.py`. The golden tests do not import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from bridle import Agent, Decision, Flag, Question
from bridle.agent.events import AuditBegun, Audited, Event
from bridle.audit.log import audits_in
from bridle.certificates.certificate import Certificate

Truth = Callable[[Any, Any], bool]
BEGIN = 1_700_000_000.0


class Life:
    """One agent that lives a fixed life.

    Parameters
    ----------
    contexts : sequence of contexts
        They are met in turn.
    truth : callable
        Say whether an arm, by its id, is allowed in a context.
    settings : keyword arguments
        Those of `Agent`.
    """

    def __init__(self, contexts: Sequence[Any], truth: Truth, **settings: Any) -> None:
        self.contexts = list(contexts)
        self.truth = truth
        self.log: list[Event] = []
        self.now = BEGIN
        self.turn = 0
        self.saved: tuple[int, bytes] | None = None
        self.agent = Agent(sink=self.log.extend, at=self.tick(), **settings)

    def tick(self) -> float:
        """Return the next time: always later, by a fraction of a second that is a float."""
        self.now += 1.1
        return self.now

    def context(self) -> Any:
        """Return the next context."""
        self.turn += 1
        return self.contexts[self.turn * 7 % len(self.contexts)]

    def arm(self) -> Any:
        """Return an arm's id, another at each turn."""
        return self.agent.arms[self.turn * 5 % len(self.agent.arms)].id

    def value(self) -> float:
        """Return a reward in the agent's range, with all its digits."""
        low, high = self.agent.settings.reward_range
        return low + (high - low) * ((self.turn * 0.6180339887498949) % 1.0)

    def said(self, event: Any) -> bool:
        """Return the teacher's answer about the arm of an event."""
        row = np.array(event.context)
        for context in self.contexts:
            if (self.agent.schema.encode(context) == row).all():
                return self.truth(context, event.arm)
        raise LookupError(event)

    # -- teaching ----------------------------------------------------------------------------

    def lessons(self, n: int, wrong: Sequence[int] = ()) -> None:
        """Ask and answer `n` times, in turn named and numbered; `wrong` are answered wrongly."""
        for i in range(n):
            context = self.context()
            name = f"q-{self.turn}" if i % 3 == 1 else None
            asked = self.agent.ask(context, id=name, at=self.tick())
            allowed = self.said(asked.event) != (i in wrong)
            note = "first thought" if i % 4 == 2 else None
            self.agent.answer(asked, allowed, by="Ann", note=note, at=self.tick())

    def teach(self, n: int) -> list[Any]:
        """Teach `n` examples, in turn named and numbered; return their ids."""
        ids = []
        for i in range(n):
            context = self.context()
            arm = self.arm()
            name = f"e-{self.turn}" if i % 3 == 2 else None
            allowed = self.truth(context, arm)
            ids.append(self.agent.teach(context, arm, allowed, id=name, by="Bob", at=self.tick()))
        return ids

    def teach_many(self, n: int, named: bool = False) -> list[Any]:
        """Teach `n` examples at once."""
        contexts = [self.context() for _ in range(n)]
        arms = [self.agent.arms[i * 5 % len(self.agent.arms)].id for i in range(n)]
        said = [self.truth(c, a) for c, a in zip(contexts, arms, strict=True)]
        ids = [f"m-{self.turn}-{i}" for i in range(n)] if named else None
        return self.agent.teach_many(
            contexts, arms, said, ids=ids, by="Bob", note="from a sheet", at=self.tick()
        )

    def ask_many(self, n: int) -> None:
        """Ask `n` questions at once, and answer all but the last, which is skipped."""
        asked = self.agent.ask_many([self.context() for _ in range(n)], at=self.tick())
        said = [self.said(question.event) for question in asked[:-1]]
        self.agent.answer_many(asked[:-1], said, by="Ann", at=self.tick())
        self.agent.skip(asked[-1], at=self.tick())

    # -- deciding ----------------------------------------------------------------------------

    def play(self, n: int, *, skip: Sequence[int] = (), keep: Sequence[int] = ()) -> None:
        """Decide `n` times, answer what is asked, reward what is played.

        `skip`: decisions whose questions are skipped. `keep`: those that are not rewarded.
        """
        for i in range(n):
            context = self.context()
            name = f"d-{self.turn}" if i % 3 == 2 else None
            among = None
            if i % 5 == 4:
                among = [arm.id for arm in self.agent.arms[: 1 + self.turn % 3]]
            made: Any = self.agent.decide(
                context, among, name, propensity=i % 4 != 3, at=self.tick()
            )
            while isinstance(made, Question):
                if i in skip:
                    made = self.agent.skip(made, at=self.tick()).then
                else:
                    allowed = self.said(made.event)
                    made = self.agent.answer(made, allowed, by="Ann", at=self.tick()).then
            if isinstance(made, Decision) and i not in keep and made.id in self.pending():
                self.agent.reward(made.id, self.value(), at=self.tick())

    def decide_among_none(self, **more: Any) -> None:
        """Decide where no arm can be had, as a service may: a verb would raise."""
        made = self.agent.make.decided(self.context(), among=[], at=self.tick(), **more)
        if self.agent.sink is not None:
            self.agent.sink([made.event])
        self.agent.apply(made.event)

    def pending(self) -> list[Any]:
        """Return the decisions that wait for a reward, by the log."""
        return list(self.agent._state.pending)

    def open_doubts(self) -> list[Any]:
        """Return the open questions that came up in decisions."""
        return [one for one in self.agent.open_questions if one.decision is not None]

    def batch(
        self, n: int, *, named: bool = False, details: bool = True, propensity: bool = True
    ) -> None:
        """Decide `n` times at once, and reward every second of them at once."""
        ids = [f"b-{self.turn}-{i}" for i in range(n)] if named else None
        made = self.agent.decide_many(
            [self.context() for _ in range(n)],
            ids=ids,
            propensity=propensity,
            details=details,
            at=self.tick(),
        )
        played = [id for id in made.ids if id in self.pending()][::2]
        values = []
        for _ in played:
            self.turn += 1
            values.append(self.value())
        self.agent.reward_many(played, values, at=self.tick())

    def interrupted(self, rest: Callable[[Life], None] | None = None) -> None:
        """Decide until it asks, answer without going on, do `rest`, and resume the decision."""
        for _ in range(len(self.contexts)):
            made = self.agent.decide(self.context(), propensity=True, at=self.tick())
            if isinstance(made, Question):
                answered = self.agent.make.answered(
                    made, self.said(made.event), by="Ann", at=self.tick()
                )
                self.log.append(answered)
                self.agent.apply(answered)
                if rest is not None:
                    rest(self)
                self.agent.resume(made.decision, at=self.tick())
                return

    def late(self) -> None:
        """Make a decision and a question now and write them down later, as replicas do."""
        one = self.agent.make.decided(
            self.context(), id=f"late-{self.turn}", propensity=True, ask=False, at=self.tick()
        )
        two = self.agent.make.asked(self.context(), id=f"late-q-{self.turn}", at=self.tick())
        self.teach(1)
        for event in (*two.events, *one.events):
            self.log.append(event)
            self.agent.apply(event)

    # -- promises ----------------------------------------------------------------------------

    def begin_audits(self, q: float = 0.5) -> None:
        """Begin audits, with a window."""
        self.agent.note(
            AuditBegun(
                q, 0.05, 2**63 + 11, ((10, 0.1),), by="Cleo", note="since today", at=self.tick()
            )
        )

    def judge(self, n: int) -> None:
        """Judge up to `n` of the decisions that the coin chose."""
        auditing = audits_in(self.log)
        assert auditing is not None
        for i, id in enumerate(list(auditing.pending)[:n]):
            self.agent.note(Audited(id, i % 3 != 1, by="Cleo", at=self.tick()))

    def certificate(self, n: int = 8) -> Certificate:
        """Return a certificate of the limits as they are now."""
        contexts = [self.contexts[i % len(self.contexts)] for i in range(n)]
        asking = self.agent.certification(
            contexts,
            0.3,
            0.2,
            lambda_min=0.4,
            on="a golden day",
            ids=[f"draw {i}" for i in range(n)],
            teaching=["another draw"],
        )
        while (question := asking.question()) is not None:
            index, arm = question
            asking.answer(self.truth(contexts[index], arm))
        return asking.certificate(at=self.tick())


# A life yields in the middle: there the agent is saved.
Lived = Iterable[Life]
PLAIN = [[0.25, -0.5, 1 / 3], [1.0, 0.0, 1.0], [3.0, 1.0, 2.0], [0.1, 0.2, -0.7], [0.0, 0.0, 0.0]]


def flags(names: str) -> list[Any]:
    """Return flags of these one-letter names."""
    return [Flag(name) for name in names]


def all_flags(names: str) -> list[Any]:
    """Return all contexts of some flags."""
    return [
        dict(zip(names, values, strict=True))
        for values in product([False, True], repeat=len(names))
    ]


def some_flags(names: str, n: int, seed: int, share: float = 0.3) -> list[Any]:
    """Return some contexts of many flags."""
    rng = np.random.default_rng(seed)
    rows = rng.random((n, len(names))) < share
    return [dict(zip(names, map(bool, row), strict=True)) for row in rows]

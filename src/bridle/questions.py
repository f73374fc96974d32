"""What an agent has asked and not yet been told, and the decisions that wait for it."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from bridle.errors import InvalidValue, NotPossible, UnknownId
from bridle.settings import ArmId, ItemId, Settings, plain_id

__all__ = ["Case", "Open", "Questions", "Waiting"]

# What answers are certain of: an item by its name, or an encoded context that has none.
Case: TypeAlias = ArmId | bytes


class Open(NamedTuple):
    """A question that waits for its answer."""

    context: bytes  # d float64, as encoded
    arm: int  # the arm's number
    decision: ItemId | None  # that it came up in
    since: int  # decisions made when it was asked
    item: ArmId | None = None

    @property
    def case(self) -> Case:
        """What an answer is certain of: the item or, if it has no name, this very context."""
        return self.context if self.item is None else self.item


class Waiting(NamedTuple):
    """A decision that asked and has not been made yet."""

    context: bytes
    among: tuple[ArmId, ...] | None
    looks: int = 0  # answers that came so far, or did not
    question: ItemId | None = None  # that it waits for; None: it can go on
    settled: int = -1  # the arm that an answer has allowed
    asks: bool = True  # whether it may ask again
    propensity: float | None = None  # of the last question
    item: ArmId | None = None
    allowed: tuple[int, ...] = ()  # arms that answers have allowed in this very decision

    @property
    def case(self) -> Case:
        """What it is about: the item or, if it has no name, this very context."""
        return self.context if self.item is None else self.item


class Questions:
    """Open questions, oldest first, and waiting decisions; both bounded, both part of the fold.

    The budget is of questions that came up in decisions: those answered, and those still open. One
    that lapses gives its place back.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.asked = 0  # so far: the next question's own number is one more
        self.answered = 0  # of those that came up in decisions
        self.lapsed = 0
        self.open: dict[ItemId, Open] = {}
        self.waiting: dict[ItemId, Waiting] = {}
        self._doubts: dict[ItemId, None] = {}  # those of `open` that came up in decisions
        self._here: dict[Case, dict[ItemId, None]] = {}  # the same by case

    @property
    def left(self) -> int:
        """How many questions decisions may still ask."""
        return max(self._settings.budget - self.answered - len(self._doubts), 0)

    def check(self, id: ItemId) -> None:
        """Refuse a question whose id is open already."""
        if id in self.open:
            raise InvalidValue("id", "Agent.ask", "new; a question of this id is open", id)

    def get(self, question: ItemId) -> Open:
        """Give a question that waits for its answer."""
        try:
            return self.open[plain_id(question)]
        except KeyError:
            raise UnknownId(
                "open question",
                question,
                "It was never asked, or is answered, lapsed or dropped already. "
                "What is known all the same can be taught: agent.teach(context, arm, allowed).",
            ) from None

    def ready(self, decision: ItemId) -> Waiting:
        """Give a waiting decision that can go on."""
        try:
            waits = self.waiting[plain_id(decision)]
        except KeyError:
            raise UnknownId(
                "waiting decision", decision, "It was never made, or is made or dropped already."
            ) from None
        if waits.question is not None:
            raise NotPossible(
                f"The decision {decision!r} waits for the answer to question {waits.question!r}. "
                "Answer it, or skip it."
            )
        return waits

    def asked_about(self, case: Case) -> list[int]:
        """Give the arms that decisions have asked about in this case, and wait to hear of."""
        return [self.open[id].arm for id in self._here.get(case, ())]

    # -- the fold ----------------------------------------------------------------------------

    def ask(
        self,
        id: ItemId,
        question: Open,
        among: tuple[ArmId, ...] | None,
        propensity: float | None,
    ) -> None:
        """Take a question in; a decision it came up in waits for it, if that is the agent's way."""
        self.restore(id, question)
        self.asked += 1
        decision = question.decision
        if decision is not None and self._settings.on_doubt == "wait":
            waits = self.waiting.get(decision, Waiting(question.context, among, item=question.item))
            self.waiting[decision] = waits._replace(question=id, settled=-1, propensity=propensity)
        while len(self.open) > self._settings.max_pending:
            self.drop(next(iter(self.open)))
        while len(self.waiting) > self._settings.max_pending:
            oldest = next(iter(self.waiting))
            held = self.waiting[oldest].question
            if held is None:
                del self.waiting[oldest]
            else:
                self.drop(held)

    def restore(self, id: ItemId, question: Open) -> None:
        """Put a question among the open ones, and nothing else."""
        self.open[id] = question
        if question.decision is not None:
            self._doubts[id] = None
            self._here.setdefault(question.case, {})[id] = None

    def answer(self, id: ItemId, allowed: bool) -> None:
        """Take the answer to an open question in."""
        question = self._close(id)
        if question.decision is None:
            return
        self.answered += 1
        waits = self.waiting.get(question.decision)
        if waits is not None:
            sure = allowed and self._settings.remembers
            settled = question.arm if sure and self._settings.legacy else -1
            here = (*waits.allowed, question.arm) if sure and not self._settings.legacy else ()
            self.waiting[question.decision] = waits._replace(
                question=None, looks=waits.looks + 1, settled=settled, allowed=here or waits.allowed
            )

    def disallow(self, case: Case, arm: int) -> None:
        """Take back that an answer has allowed an arm: decisions that wait here look again."""
        for decision, waits in self.waiting.items():
            if arm in waits.allowed and waits.case == case:
                left = tuple(k for k in waits.allowed if k != arm)
                self.waiting[decision] = waits._replace(allowed=left)

    def lapse(self, id: ItemId) -> None:
        """Close a question that nobody will answer; what waits for it goes on and asks no more."""
        question = self._close(id)
        self.lapsed += 1
        waits = None if question.decision is None else self.waiting.get(question.decision)
        if waits is not None and question.decision is not None:
            # It draws anew: given that it asked, the draws that it asked with are not any draws.
            self.waiting[question.decision] = waits._replace(
                question=None, looks=waits.looks + 1, asks=False
            )

    def drop(self, id: ItemId) -> None:
        """Close a question, and forget the decision that waits for it."""
        question = self._close(id)
        self.lapsed += 1
        if question.decision is not None:
            self.waiting.pop(question.decision, None)

    def age(self, decisions: int) -> None:
        """Drop the questions of decisions that lie too far back; `decisions` were made so far."""
        patience = self._settings.patience
        while patience is not None and self._doubts:
            oldest = next(iter(self._doubts))
            if self.open[oldest].since + patience >= decisions:
                break
            self.drop(oldest)

    def _close(self, id: ItemId) -> Open:
        question = self.open.pop(id)
        if question.decision is not None:
            del self._doubts[id]
            here = self._here[question.case]
            del here[id]
            if not here:
                del self._here[question.case]
        return question

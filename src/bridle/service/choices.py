"""What a decision answers with: a decision, an abstention or a question."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from bridle.decisions import Abstention, Decision, Question
from bridle.errors import CorruptState
from bridle.events import Abstained, Asked, Decided, Event
from bridle.service.forms import ArmName, Form, Id, ItemName

__all__ = ["Choice", "Filed", "choice_of", "plain_choice"]


class Filed(Form):
    """A question to a teacher: answer it under …/questions/{id}/answer."""

    id: Id
    arm: ArmName


class Choice(Form):
    """What came of a decision.

    `decision`: play `arm`. `abstention`: play nothing. `question`: wait for the answer, and get
    the decision with it. `question` may also stand beside a decision: filed while it plays safe.
    `check`: a coin chose this play to be judged afterwards, under …/checks/{id}.
    """

    outcome: Literal["decision", "abstention", "question"]
    id: Id
    arm: ArmName | None
    version: Annotated[int, Field(ge=1, description="Of the agent when it was made")]
    propensity: Annotated[float, Field(ge=0, le=1)] | None
    question: Filed | None
    item: ItemName | None
    check: bool
    coin: Annotated[
        float | None,
        Field(ge=0, le=1, description="The probability with which it was to be judged"),
    ]


def choice_of(made: Decision | Abstention | Question | Event) -> Choice:
    """Give what came of a decision, from what was just made or from its event in the log."""
    return Choice(**plain_choice(made))


def plain_choice(made: Decision | Abstention | Question | Event) -> dict[str, Any]:
    """Give the same as plain JSON values, which is faster."""
    filed = None
    event: Any = made
    if isinstance(made, Decision | Abstention | Question):
        event = made.event
        if not isinstance(made, Question) and made.question is not None:
            filed = {"id": made.question.id, "arm": made.question.arm}
    if isinstance(event, Decided):
        outcome, id, arm = "decision", event.id, event.arm
    elif isinstance(event, Abstained):
        outcome, id, arm = "abstention", event.id, None
    elif isinstance(event, Asked) and event.decision is not None:
        outcome, id, arm = "question", event.decision, None
        filed = {"id": event.id, "arm": event.arm}
    else:
        raise CorruptState(f"A {type(event).__name__} is no choice.")
    return {
        "outcome": outcome,
        "id": id,
        "arm": arm,
        "version": event.version,
        "propensity": event.propensity,
        "question": filed,
        "item": event.item,
        "check": isinstance(event, Decided) and event.checked,
        "coin": event.coin if isinstance(event, Decided) else None,
    }

"""A choice that is in the log, made again from the state that it was made from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bridle.choosing import Chooser, _Case
from bridle.decisions import Abstention, Decision, Question
from bridle.events import Asked
from bridle.kernels import choice, doubt, questions
from bridle.kernels.types import Bools, Floats
from bridle.knowledge import Knowledge
from bridle.limits import LinearLimits
from bridle.questions import Case, Waiting
from bridle.replay import Choice
from bridle.settings import ArmId, ItemId

__all__ = [
    "Balance",
    "Remade",
    "agrees",
    "answered_in",
    "balance_of",
    "is_teaching",
    "make_again",
    "remade",
]

# Odds of equal states differ by less, whatever the machine.
SAME = 1e-9


class Remade(NamedTuple):
    """A choice, made again."""

    made: Decision | Question | Abstention
    parts: Floats  # (7, K), as in `Decision`
    eligible: Bools


def is_teaching(event: Choice) -> bool:
    """Whether it is a question of `ask`, that came up in no decision."""
    return isinstance(event, Asked) and event.decision is None


def make_again(
    know: Knowledge, event: Choice, row: Floats, ask: bool = True
) -> Decision | Question | Abstention:
    """Choose again, with the odds of each outcome; without `ask`, as if nothing could be asked."""
    chooser = Chooser(know)
    if is_teaching(event):
        return chooser.question(row, event.id, event.version, event.at, event.item)
    asked = isinstance(event, Asked)
    return chooser.decision(
        row,
        _decision(event),
        event.version,
        event.among,
        True,
        event.at,
        ask=ask and (isinstance(event, Asked) or event.ask),
        question=event.id if asked else know.questions.asked + 1,
        item=event.item,
    )


def remade(know: Knowledge, event: Choice, row: Floats) -> Remade:
    """Choose again; give all scores and draws, whatever comes of it."""
    made = make_again(know, event, row)
    among = None if event.among is None else [know.arm_number(arm) for arm in event.among]
    eligible = know.eligible(row, among, event.item)
    if isinstance(made, Decision):
        return Remade(made, made.parts, eligible)
    parts = _parts(know, row, _decision(event), eligible, event.item)
    return Remade(made, parts, eligible)


def answered_in(know: Knowledge, event: Choice) -> tuple[int, ...]:
    """Return the arms that answers have allowed in this very decision, before this look."""
    waits = know.questions.waiting.get(_decision(event))
    return () if waits is None else waits.allowed


class Balance(NamedTuple):
    """What an answer was worth at a decision, and what not having it had cost; see `Account`."""

    wanted: int | None = None
    worth: float | None = None
    cost: float | None = None
    price: float | None = None
    words: str | None = None


def balance_of(know: Knowledge, event: Choice, row: Floats, again: Remade) -> Balance:
    """Weigh again whether an answer pays; say in words why a decision asked, or did not.

    Examples
    --------
    >>> from bridle import Agent
    >>> agent = Agent(arms=2, features=1, seed=1, budget=5)
    >>> event = agent.make.decided([1.0], ask=False).event
    >>> row = np.array([1.0])
    >>> balance_of(agent._knowledge, event, row, remade(agent._knowledge, event, row)).words
    'Not asked: this decision was made without questions.'
    """
    settings, id = know.settings, _decision(event)
    if settings.answer_price is None or not know.policy.needs_limits or is_teaching(event):
        return Balance()
    waits = know.questions.waiting.get(id, Waiting(b"", None))
    asked = isinstance(event, Asked)
    if not asked:
        why = _why_not(know, waits, getattr(event, "ask", True))
        if why is not None:
            return Balance(words=f"Not asked: {why}.")
    chooser, seen = Chooser(know), know.believing.seen(row.tobytes())
    said = know.said(row, again.eligible, event.item)
    allowed = know._with_unit(waits.allowed)
    said[allowed] = np.where(said[allowed] == doubt.UNASKED, doubt.SAID_YES, said[allowed])
    case = _Case(
        row, id, event.version, event.among, False, event.at, True, again.eligible, event.item
    )
    marks = chooser._marks(seen, said)
    k, worth, lesson, _ = chooser._nearest(case, again.parts, seen, marks, waits.looks)
    if k < 0:
        return Balance(words="Not asked: nothing that is in doubt looked better.")
    here: Case = row.tobytes() if event.item is None else event.item
    unit = int(know.believing.unit_of[k])
    before = know.costs.get(here, {}).get(unit, 0.0)
    price = float(questions.price_of(settings.answer_price, float(seen.information[k])))
    cost = before + worth
    if asked and cost < price:  # this item alone would not pay for it
        alike = know.lessons.get(unit, 0.0) + lesson
        words = (
            f"Asked: not knowing has cost {alike:.2f} of a reward so far in all cases that the "
            f"answer teaches about, and an answer is worth {settings.answer_price:.2f}."
        )
    elif asked:
        words = (
            f"Asked: not knowing has cost {cost:.2f} of a reward so far, and an answer is worth "
            f"{price:.2f}."
        )
    else:
        words = (
            f"Not asked: an answer is worth {price:.2f} of a reward, and not knowing has cost "
            f"{cost:.2f} so far."
        )
    return Balance(k, worth, cost, price, words)


def _why_not(know: Knowledge, waits: Waiting, ask: bool) -> str | None:
    """Return why a decision could not ask at all; None if it could."""
    settings = know.settings
    if settings.budget == 0:
        return "this agent has no budget for questions"
    if not ask:
        return "this decision was made without questions"
    if not waits.asks:
        return "its question went without an answer"
    if know.questions.left <= 0:
        return "the budget for questions is used up"
    if waits.looks >= settings.ask_at_most:
        return f"it had asked as often as one decision may ({settings.ask_at_most})"
    return None


def _decision(event: Choice) -> ItemId:
    """Give the id that keys the draws."""
    came_up_in = event.decision if isinstance(event, Asked) else None
    return event.id if came_up_in is None else came_up_in


def _parts(know: Knowledge, row: Floats, id: ItemId, eligible: Bools, item: ArmId | None) -> Floats:
    """Give all scores and draws of a look that played nothing, as `Decision.parts` has them."""
    parts = np.empty((7, len(know.arms)))
    reward, limits = know.reward_arms.kernel_state, know.believing.limits
    named = isinstance(id, str)
    start, numbers = Chooser(know).numbers(0 if named else int(id), [id] if named else None, 1)
    choice.reward_parts(reward.A, reward.mu, know.pull, row, parts)
    if know.policy.needs_limits or not isinstance(limits, LinearLimits):
        seen = know.believing.seen(row.tobytes())
        parts[2], parts[3] = seen.p, seen.sd
    else:
        parts[2], parts[3] = limits.scores(row)
    if know.policy.needs_limits:
        marks = np.zeros(len(know.arms), np.int8)  # they tell who wins, and not what is drawn
        if know.settings.legacy:
            looks = know.questions.waiting.get(id, Waiting(b"", None)).looks
            said, every = know.said(row, eligible, item), np.arange(len(know.arms))
            doubt.look_at(know.weights, parts, marks, said, every, start, numbers[0], looks)
        else:
            questions.play(know.weights, parts, marks, start, numbers[0])
    else:
        choice.choose(know.weights, parts, eligible, eligible, start, numbers[0])
    return parts


def agrees(event: Choice, made: Decision | Question | Abstention) -> bool:
    """Whether the log and the choice that was made again say the same: arm, and odds to 1e-9."""
    mine: object = made.event
    if isinstance(event, Asked) and not isinstance(made, Question):
        mine = None if made.question is None else made.question.event
    if type(mine) is not type(event) or getattr(mine, "arm", None) != getattr(event, "arm", None):
        return False
    if event.propensity is None:
        return True
    odds: float | None = getattr(mine, "propensity", None)
    return odds is not None and abs(odds - event.propensity) <= SAME

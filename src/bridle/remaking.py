"""A choice that is in the log, made again from the state that it was made from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bridle.choosing import Chooser
from bridle.decisions import Abstention, Decision, Question
from bridle.events import Asked
from bridle.kernels import choice, doubt
from bridle.kernels.types import Bools, Floats
from bridle.knowledge import Knowledge
from bridle.limits import LinearLimits
from bridle.questions import Waiting
from bridle.replay import Choice
from bridle.settings import ItemId

__all__ = ["Remade", "agrees", "is_teaching", "make_again", "remade"]

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


def make_again(know: Knowledge, event: Choice, row: Floats) -> Decision | Question | Abstention:
    """Choose again, with the odds of each outcome."""
    chooser = Chooser(know)
    if is_teaching(event):
        return chooser.question(row, event.id, event.version, event.at)
    asked = isinstance(event, Asked)
    return chooser.decision(
        row,
        _decision(event),
        event.version,
        event.among,
        True,
        event.at,
        ask=isinstance(event, Asked) or event.ask,
        question=event.id if asked else know.questions.asked + 1,
    )


def remade(know: Knowledge, event: Choice, row: Floats) -> Remade:
    """Choose again; give all scores and draws, whatever comes of it."""
    made = make_again(know, event, row)
    among = None if event.among is None else [know.arm_number(arm) for arm in event.among]
    eligible = know.eligible(row, among)
    if isinstance(made, Decision):
        return Remade(made, made.parts, eligible)
    return Remade(made, _parts(know, row, _decision(event), eligible), eligible)


def _decision(event: Choice) -> ItemId:
    """Give the id that keys the draws."""
    came_up_in = event.decision if isinstance(event, Asked) else None
    return event.id if came_up_in is None else came_up_in


def _parts(know: Knowledge, row: Floats, id: ItemId, eligible: Bools) -> Floats:
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
        looks = know.questions.waiting.get(id, Waiting(b"", None)).looks
        said, every = know.said(row, eligible), np.arange(len(know.arms))
        marks = np.zeros(len(every), np.int8)  # they tell who wins, and not what is drawn
        doubt.look_at(know.weights, parts, marks, said, every, start, numbers[0], looks)
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

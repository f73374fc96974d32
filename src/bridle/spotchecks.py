"""Plays that a coin chose to be judged afterwards, and wait for it."""

from __future__ import annotations

from typing import NamedTuple

from bridle.errors import UnknownId
from bridle.settings import ArmId, ItemId, Settings, plain_id

__all__ = ["OpenCheck", "SpotChecks"]


class OpenCheck(NamedTuple):
    """A play that waits to be judged."""

    context: bytes  # d float64, as encoded
    arm: int  # the arm's number
    item: ArmId | None
    coin: float  # the probability with which it was chosen


class SpotChecks:
    """The checks that wait, oldest first, and how many there were; part of the fold.

    At most `max_pending` wait: the oldest are dropped. (A promise counts those as denied.)
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.open: dict[ItemId, OpenCheck] = {}
        self.drawn = 0  # so far
        self.judged = 0
        self.found = 0  # of these: not allowed

    def may(self, decision: int, ahead: int = 0) -> bool:
        """Return whether the settings grant a check of the decision-th decision.

        `ahead` are those that are drawn already and not yet folded.
        """
        most = self._settings.checks
        if most is None:
            return True
        granted = most if isinstance(most, int) else most * decision
        return self.drawn + ahead < granted

    def get(self, decision: object) -> OpenCheck:
        """Return the check of a decision, or raise `UnknownId`."""
        try:
            return self.open[plain_id(decision)]
        except KeyError:
            raise UnknownId(
                "open check",
                decision,
                "Its coin did not fall, or it was judged already. What is known all the same can "
                "be taught: agent.teach(context, arm, allowed).",
            ) from None

    def draw(self, decision: ItemId, check: OpenCheck) -> None:
        """Take in a play whose coin fell."""
        self.open[decision] = check
        self.drawn += 1
        while len(self.open) > self._settings.max_pending:
            del self.open[next(iter(self.open))]

    def cancel(self, decision: ItemId) -> None:
        """Let a check go, if there is one: what it was about was not played."""
        if self.open.pop(decision, None) is not None:
            self.drawn -= 1

    def answer(self, decision: ItemId, allowed: bool) -> None:
        """Take the judgement of a play."""
        del self.open[decision]
        self.judged += 1
        self.found += not allowed

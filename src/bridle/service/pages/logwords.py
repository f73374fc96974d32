"""Choices of a log in words: what a list, a stream and an export say of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bridle.features import Schema
from bridle.service.pages.logsearch import Earned, Made
from bridle.service.pages.rendering import iso, time_words, url
from bridle.service.pages.words import arm_words, context_words, number_words
from bridle.service.serving import Service
from bridle.settings import Arm, ArmId
from bridle.store.kept import Kept
from bridle.store.writing import Desk

__all__ = ["Naming", "arms_like", "earned_words", "reward_words"]

# Names of arms that are kept for those who watch.
MOST_NAMES = 1_000
LONGEST = 300


@dataclass
class Naming:
    """The features of an agent, and the names of the arms that were asked for."""

    agent: str
    schema: Schema
    reward_range: tuple[float, float]
    arms: dict[ArmId, Arm] = field(default_factory=dict)

    @classmethod
    async def of(cls, service: Service, agent: str, arms: Iterable[ArmId] = ()) -> Naming:
        """Give that of an agent; refused if there is none."""
        wanted = set(arms)

        def do(desk: Desk) -> Naming:
            settings = desk.kept.know.settings
            return cls(agent, settings.features, settings.reward_range, _arms(desk.kept, wanted))

        return await service.do(agent, do)

    async def learn(self, service: Service, made: Iterable[Made]) -> None:
        """Get the names of the arms of these choices, as far as they are not known."""
        wanted = {one.arm for one in made if one.arm is not None} - self.arms.keys()
        if not wanted:
            return
        if len(self.arms) > MOST_NAMES:
            self.arms.clear()
        self.arms |= await service.do(self.agent, lambda desk: _arms(desk.kept, wanted))

    def arm(self, id: ArmId | None) -> str:
        """Give an arm in words."""
        if id is None:
            return ""
        return arm_words(self.arms[id]) if id in self.arms else str(id)

    def context(self, made: Made) -> str:
        """Give the context of a choice in a line."""
        if made.context is None:
            return ""
        words = context_words(self.schema.decode(made.context))
        return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"

    def shown(
        self, made: Made, had: Earned | None = None, check: str | None = None
    ) -> dict[str, Any]:
        """Give a choice as plain values, all of them words or numbers."""
        said = {
            "decision": self.arm(made.arm),
            "abstention": "Nothing was played",
            "question": f"about {self.arm(made.arm)}",
        }[made.outcome]
        return {
            "seq": made.seq,
            "id": made.id,
            "outcome": made.outcome,
            "said": "Erased" if made.erased else said,
            "context": self.context(made),
            "clock": time_words(made.at)[11:] if made.at is not None else "–",
            "at": None if made.at is None else iso(made.at),
            "when": time_words(made.at),
            "chance": made.propensity,
            "check": check,
            "erased": made.erased,
            "reward": "" if had is None else reward_words(had),
            "href": None if made.id is None else url("agents", self.agent, "decisions", made.id),
        }


def arms_like(kept: Kept, text: str) -> frozenset[ArmId]:
    """Give the arm of that id, or all whose name or group holds it; on the writer's thread."""
    arms, part = kept.know.arms, text.casefold()
    exact = frozenset(arm.id for arm in arms if str(arm.id) == text)
    return exact or frozenset(
        arm.id for arm in arms
        if part in arm.label.casefold() or part in (arm.group or "").casefold()
    )  # fmt: skip


def reward_words(had: Earned) -> str:
    """Give what became of a reward in a few words.

    Examples
    --------
    >>> reward_words(Earned("came", 0.5, None)), reward_words(Earned("late", 1.0, None))
    ('0.5', '1 (late, not learned)')
    """
    value = number_words(had.value)
    return {
        "came": value,
        "assumed": f"{value} (assumed, none came)",
        "late": f"{value} (late, not learned)",
        "none": "none came",
    }[had.how]


def earned_words(had: Earned) -> str:
    """Give the same where no heading says that it is a reward.

    Examples
    --------
    >>> earned_words(Earned("came", 0.5, None)), earned_words(Earned("none", None, None))
    ('earned 0.5', 'no reward')
    """
    value = number_words(had.value)
    return {
        "came": f"earned {value}",
        "assumed": f"{value} assumed",
        "late": f"{value}, late",
        "none": "no reward",
    }[had.how]


def _arms(kept: Kept, wanted: Iterable[ArmId]) -> dict[ArmId, Arm]:
    """Give arms by their ids, on the writer's thread; those that there are not are left out."""
    know = kept.know
    return {id: know.arms[know.number_of[id]] for id in wanted if id in know.number_of}

"""What an agent answers: a decision, a question or an abstention.

Each holds its event, made and not yet folded, so that a store can commit it first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from bridle.errors import NotPossible
from bridle.events import Abstained, Asked, Context, Decided
from bridle.kernels.types import Bools, Floats
from bridle.settings import ArmId, ItemId

__all__ = ["Abstention", "Decision", "Decisions", "Question"]


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """An arm to play, and how it came to be chosen.

    The arrays have an entry an arm, in the order of `arms`. Standard deviations of the two parts
    are the posterior's own (for v = 1); the blend's has the policy's v in it.

    Attributes
    ----------
    event : Decided
        What goes into the log.
    arms : tuple of arm ids
        All arms of the agent when it decided.
    parts : array (7, K)
        The rows that the properties below name.
    eligible : array of K bools
        Which arms were in the running.
    propensities : array of K floats, or None
        The exact probability of each arm, if it was asked for.
    """

    event: Decided
    arms: tuple[ArmId, ...]
    parts: Floats
    eligible: Bools
    propensities: Floats | None = None

    def _part(self, row: int) -> Floats:
        part: Floats = self.parts[row]
        return part

    @property
    def id(self) -> ItemId:
        """Names the decision when its reward comes."""
        return self.event.id

    @property
    def arm(self) -> ArmId:
        """The id of the arm to play."""
        return self.event.arm

    @property
    def version(self) -> int:
        """The number of events folded when it was made."""
        return self.event.version

    @property
    def context(self) -> Context:
        """The context as the agent encodes it."""
        return self.event.context

    @property
    def propensity(self) -> float | None:
        """The exact probability with which this arm was chosen, if it was asked for."""
        return self.event.propensity

    @property
    def reward_mean(self) -> Floats:
        """Mean of the reward part, in [0, 1] units."""
        return self._part(0)

    @property
    def reward_sd(self) -> Floats:
        """Standard deviation of the reward part."""
        return self._part(1)

    @property
    def limit_mean(self) -> Floats:
        """Mean of the constraint part: the belief that the arm is allowed."""
        return self._part(2)

    @property
    def limit_sd(self) -> Floats:
        """Standard deviation of the constraint part: the doubt."""
        return self._part(3)

    @property
    def mean(self) -> Floats:
        """Mean of the blend."""
        return self._part(4)

    @property
    def sd(self) -> Floats:
        """Standard deviation of the blend."""
        return self._part(5)

    @property
    def draw(self) -> Floats:
        """What was drawn for each arm; the best eligible one won."""
        return self._part(6)


@dataclass(frozen=True, slots=True)
class Question:
    """What the agent would like to be told: whether this arm is allowed in this context."""

    event: Asked

    @property
    def id(self) -> ItemId:
        """Names the question when its answer comes."""
        return self.event.id

    @property
    def context(self) -> Context:
        """The context as the agent encodes it."""
        return self.event.context

    @property
    def arm(self) -> ArmId:
        """The id of the arm it asks about."""
        return self.event.arm

    @property
    def version(self) -> int:
        """The number of events folded when it was made."""
        return self.event.version


@dataclass(frozen=True, slots=True)
class Abstention:
    """Nothing may be played: every arm is ruled out. It earns nothing and teaches nothing."""

    event: Abstained

    @property
    def id(self) -> ItemId:
        """Names the abstention in the log."""
        return self.event.id

    @property
    def context(self) -> Context:
        """The context as the agent encodes it."""
        return self.event.context

    @property
    def version(self) -> int:
        """The number of events folded when it was made."""
        return self.event.version


class Decisions(Sequence[Decision | Abstention]):
    """A batch of decisions, kept as columns; each is made into an object when it is looked at.

    Attributes
    ----------
    ids : list of ids
    chosen : list of arm ids, None where the agent abstained
    """

    def __init__(
        self,
        *,
        ids: list[ItemId],
        numbers: list[int],
        arms: tuple[ArmId, ...],
        contexts: Floats,
        first_version: int,
        parts: Floats | None,
        eligible: Bools,
        propensities: Floats | None,
        among: tuple[ArmId, ...] | None,
        at: float | None,
    ) -> None:
        self.ids = ids
        self.numbers = numbers
        self.contexts = contexts
        self._arms = arms
        self._first_version = first_version
        self._parts = parts
        self._eligible = eligible
        self._propensities = propensities
        self._among = among
        self._at = at

    @property
    def chosen(self) -> list[ArmId | None]:
        """The arm of each decision, None where the agent abstained."""
        return [self._arms[k] if k >= 0 else None for k in self.numbers]

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> Decision | Abstention: ...
    @overload
    def __getitem__(self, place: slice) -> list[Decision | Abstention]: ...
    def __getitem__(
        self, place: int | slice
    ) -> Decision | Abstention | list[Decision | Abstention]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        i = range(len(self))[place]
        event = self._event(i)
        if isinstance(event, Abstained):
            return Abstention(event)
        if self._parts is None:
            raise NotPossible(
                "This batch was made with details=False: it has ids, chosen and events alone."
            )
        odds = None if self._propensities is None else self._propensities[i]
        eligible = self._eligible[i if len(self._eligible) > 1 else 0].copy()
        return Decision(event, self._arms, self._parts[i], eligible, odds)

    def __iter__(self) -> Iterator[Decision | Abstention]:
        return (self[i] for i in range(len(self)))

    def events(self) -> list[Decided | Abstained]:
        """Give what goes into the log."""
        return [self._event(i) for i in range(len(self))]

    def _event(self, i: int) -> Decided | Abstained:
        context = tuple(self.contexts[i].tolist())
        version = self._first_version + i
        k = self.numbers[i]
        if k < 0:
            return Abstained(self.ids[i], context, version, self._among, self._at)
        odds = None if self._propensities is None else float(self._propensities[i, k])
        return Decided(self.ids[i], context, self._arms[k], version, self._among, odds, self._at)

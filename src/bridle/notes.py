"""What is written into a log beside: it changes nothing of what an agent knows.

Audits, calibration and late rewards belong to the same history as the decisions that they are
about, so they stand in the same log, in order. `bridle.store` folds them into meters of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from bridle.kernels.types import Floats
from bridle.settings import ItemId

__all__ = [
    "AuditBegun",
    "Audited",
    "Calibrated",
    "CalibrationBegun",
    "CalibrationDropped",
    "Erased",
    "Erasure",
    "Note",
    "RewardedLate",
    "RunsOn",
]


@dataclass(frozen=True, slots=True)
class RewardedLate:
    """A reward that came when nobody waited for it any more. It is not learned."""

    decision: ItemId
    value: float
    at: float | None = None


@dataclass(frozen=True, slots=True)
class AuditBegun:
    """From here on a coin says which decisions a teacher must judge: see `AuditMeter`.

    `windows` are pairs of a length and a delta. Whoever chooses actions must not know the seed.
    """

    q: float
    delta: float
    seed: int
    windows: tuple[tuple[int, float], ...] = ()
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Audited:
    """A teacher judged a decision that the coin chose."""

    decision: ItemId
    allowed: bool
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationBegun:
    """The limits as they are here are to be certified on these contexts (n, d), by questions."""

    contexts: Floats
    alpha: float
    delta: float
    lambda_min: float
    on: str
    by: str | None = None
    note: str | None = None
    at: float | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CalibrationBegun) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[object, ...]:
        rest = self.alpha, self.delta, self.lambda_min, self.on, self.by, self.note, self.at
        return (self.contexts.shape, self.contexts.tobytes(), *rest)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A teacher answered the calibration question at hand."""

    allowed: bool
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class CalibrationDropped:
    """The calibration was given up: its answers certify nothing."""

    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Erasure:
    """What these events held was erased; from here on it is as if they had never been."""

    events: tuple[int, ...]
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class RunsOn:
    """From here on events are made by these versions, on this platform: bits depend on both."""

    platform: str
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Erased:
    """In the place of an event that was erased. It counts, and says nothing.

    `kind` is what it was; `spaces` are what it was the first to name: "decision", "example", ….
    """

    kind: str
    spaces: tuple[str, ...] = ()


Note: TypeAlias = (
    RewardedLate
    | AuditBegun
    | Audited
    | CalibrationBegun
    | Calibrated
    | CalibrationDropped
    | Erasure
    | RunsOn
    | Erased
)

"""What can happen to an agent: frozen records with a stable form on disk.

An agent is the fold of its events in order. Contexts stand in them as they are encoded, arms by
their ids; `at` is the caller's time in seconds since 1970, kept and never read.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, cast

import numpy as np

from bridle.errors import CorruptState
from bridle.kernels.types import Floats, Ints
from bridle.rules import Rule
from bridle.settings import Arm, ArmId, ItemId, Json, Settings

__all__ = [
    "Abstained",
    "ArmsAdded",
    "Asked",
    "Created",
    "Decided",
    "Event",
    "Learned",
    "Retracted",
    "Rewarded",
    "RuleDeclared",
    "RuleWithdrawn",
    "SigmaChanged",
    "Taught",
    "event_from_json",
    "event_to_json",
]

Context: TypeAlias = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Created:
    """The agent came to be, with every setting in full. The first event of every log."""

    settings: Settings
    at: float | None = None


@dataclass(frozen=True, slots=True)
class ArmsAdded:
    """Arms that know nothing yet came after the others."""

    arms: tuple[Arm, ...]
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """The agent asked whether `arm` is allowed in `context`."""

    id: ItemId
    context: Context
    arm: ArmId
    version: int
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Taught:
    """A teacher said of an arm in a context: allowed, or not. `question`: what it answers."""

    id: ItemId
    context: Context
    arm: ArmId
    allowed: bool
    question: ItemId | None = None
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Retracted:
    """A teacher took an example back."""

    example: ItemId
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """The agent chose an arm. `version`: the number of events folded when it was made."""

    id: ItemId
    context: Context
    arm: ArmId
    version: int
    among: tuple[ArmId, ...] | None = None
    propensity: float | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Abstained:
    """The agent had nothing that it may play."""

    id: ItemId
    context: Context
    version: int
    among: tuple[ArmId, ...] | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Rewarded:
    """The reward of a decision, in the agent's own reward range."""

    decision: ItemId
    value: float
    at: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """History from before the agent: contexts (n, d), arm numbers (n), rewards (n)."""

    contexts: Floats
    arm_numbers: Ints
    rewards: Floats
    at: float | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Learned) and event_to_json(self) == event_to_json(other)

    def __hash__(self) -> int:
        return hash((self.contexts.tobytes(), self.arm_numbers.tobytes(), self.rewards.tobytes()))


@dataclass(frozen=True, slots=True)
class SigmaChanged:
    """The dial was turned."""

    sigma: float
    at: float | None = None


@dataclass(frozen=True, slots=True)
class RuleDeclared:
    """A rule is known, beside what is learned."""

    rule: Rule
    at: float | None = None


@dataclass(frozen=True, slots=True)
class RuleWithdrawn:
    """A known rule no longer holds."""

    rule: str
    at: float | None = None


Event: TypeAlias = (
    Created
    | ArmsAdded
    | Asked
    | Taught
    | Retracted
    | Decided
    | Abstained
    | Rewarded
    | Learned
    | SigmaChanged
    | RuleDeclared
    | RuleWithdrawn
)

_KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        Created, ArmsAdded, Asked, Taught, Retracted, Decided, Abstained, Rewarded, Learned,
        SigmaChanged, RuleDeclared, RuleWithdrawn,
    )
}  # fmt: skip


def event_to_json(event: Event) -> dict[str, Json]:
    """Give an event as plain JSON values, the form it has on disk.

    Examples
    --------
    >>> event_to_json(Rewarded(decision=7, value=0.5))
    {'event': 'Rewarded', 'decision': 7, 'value': 0.5, 'at': None}
    """
    data: dict[str, Json] = {"event": type(event).__name__}
    for field in fields(event):
        data[field.name] = _plain(getattr(event, field.name))
    return data


def event_from_json(data: Mapping[str, Json]) -> Event:
    """Give back the event that `event_to_json` wrote, or raise `CorruptState`."""
    kind = _KINDS.get(str(data.get("event")))
    if kind is None:
        raise CorruptState(f"No event is called {data.get('event')!r}.")
    names = {field.name for field in fields(kind)}
    if set(data) != names | {"event"}:
        raise CorruptState(f"{kind.__name__} has the fields {sorted(names)}, not {sorted(data)}.")
    try:
        return kind(**{name: _READERS[name](data[name]) for name in names})
    except (TypeError, ValueError, KeyError) as error:
        raise CorruptState(f"A damaged {kind.__name__}: {error}") from None


def _plain(value: object) -> Json:
    if isinstance(value, np.ndarray):
        # 64-bit little-endian, whatever machine wrote it.
        raw = value.astype(value.dtype.newbyteorder("<")).tobytes()
        return {"shape": list(value.shape), "base64": base64.b64encode(raw).decode()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Arm | Settings | Rule):
        return cast("Json", value.to_json())
    return cast("Json", value)


def _id(value: object) -> int | str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(f"an id must be an int or a string, not {value!r}")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a number was expected, not {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"a finite number was expected, not {value!r}")
    return float(value)


def _version(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"a version must be a whole number, not {value!r}")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"true or false was expected, not {value!r}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string was expected, not {value!r}")
    return value


def _tuple(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def read_all(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise TypeError(f"a list was expected, not {value!r}")
        return tuple(read(item) for item in value)

    return read_all


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _array(dtype: str, dimensions: int) -> Callable[[Any], np.ndarray[Any, Any]]:
    def read(value: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        raw = base64.b64decode(value["base64"], validate=True)
        shape = _tuple(_version)(value["shape"])
        if len(shape) != dimensions or math.prod(shape) * 8 != len(raw):
            raise ValueError(f"{len(raw)} bytes are no array of shape {shape}")
        array = np.frombuffer(raw, np.dtype(dtype)).reshape(shape)
        array = array.astype(array.dtype.newbyteorder("="))
        array.flags.writeable = False
        return array

    return read


_READERS: dict[str, Callable[[Any], Any]] = {
    "settings": Settings.from_json,
    "arms": _tuple(lambda data: Arm(**data)),
    "rule": lambda data: data if isinstance(data, str) else Rule.from_json(data),
    "id": _id,
    "arm": _id,
    "decision": _id,
    "example": _id,
    "question": _or_none(_id),
    "context": _tuple(_number),
    "among": _or_none(_tuple(_id)),
    "version": _version,
    "allowed": _truth,
    "value": _number,
    "sigma": _number,
    "propensity": _or_none(_number),
    "by": _or_none(_text),
    "note": _or_none(_text),
    "at": _or_none(_number),
    "contexts": _array("<f8", 2),
    "arm_numbers": _array("<i8", 1),
    "rewards": _array("<f8", 1),
}

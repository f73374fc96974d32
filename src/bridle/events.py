"""What can happen to an agent: frozen records with a stable form on disk.

An agent is the fold of its events in order. Contexts stand in them as they are encoded, arms by
their ids; `at` is the caller's time in seconds since 1970, kept and never read.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from bridle import validate
from bridle.errors import BridleError, CorruptState, InvalidValue
from bridle.kernels.types import Floats, Ints
from bridle.limits import KINDS
from bridle.rules import Rule
from bridle.settings import Arm, ArmId, ItemId, Json, Settings, words
from bridle.validate import MAX_MAGNITUDE

__all__ = [
    "Abstained",
    "ArmsAdded",
    "Asked",
    "Created",
    "Decided",
    "Event",
    "Lapsed",
    "Learned",
    "Regrouped",
    "Retracted",
    "Rewarded",
    "RuleDeclared",
    "RuleWithdrawn",
    "SigmaChanged",
    "Taught",
    "check_event",
    "event_from_json",
    "event_to_json",
]

Context: TypeAlias = tuple[float, ...]
MAX_NOTE = 10_000


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
    """The agent asked whether `arm` is allowed in `context`.

    `decision`: of which decision it came up, if it asked because it was in doubt. `propensity`: the
    probability that this decision would ask about this arm.
    """

    id: ItemId
    context: Context
    arm: ArmId
    version: int
    at: float | None = None
    decision: ItemId | None = None
    among: tuple[ArmId, ...] | None = None
    propensity: float | None = None


@dataclass(frozen=True, slots=True)
class Lapsed:
    """A question will not be answered. A decision that waits for it goes on and asks no more."""

    question: ItemId
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
    """The agent chose an arm. `version`: the number of events folded when it was made.

    `ask`: whether it might have asked the teacher instead.
    """

    id: ItemId
    context: Context
    arm: ArmId
    version: int
    among: tuple[ArmId, ...] | None = None
    propensity: float | None = None
    at: float | None = None
    ask: bool = False


@dataclass(frozen=True, slots=True)
class Abstained:
    """The agent had nothing that it may play."""

    id: ItemId
    context: Context
    version: int
    among: tuple[ArmId, ...] | None = None
    at: float | None = None
    ask: bool = False
    propensity: float | None = None


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
class Regrouped:
    """A person put arms into groups: `groups` pairs an arm with its group (None: of its own).

    What was taught is learned anew, in these groups, by limits of the kind `limits`.
    """

    groups: tuple[tuple[ArmId, str | None], ...]
    limits: str
    by: str | None = None
    note: str | None = None
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
    | Lapsed
    | Taught
    | Retracted
    | Decided
    | Abstained
    | Rewarded
    | Learned
    | SigmaChanged
    | Regrouped
    | RuleDeclared
    | RuleWithdrawn
)


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
    if not isinstance(data, Mapping):
        raise CorruptState(f"An event is a JSON object, not {data!r:.100}.")
    name = data.get("event")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise CorruptState(f"No event is called {name!r:.100}.")
    forms = _FORMS_OF[kind]
    missing = forms.keys() - data.keys()
    if len(data) - 1 + len(missing) != len(forms) or (missing and missing != _LATER.get(kind)):
        wanted, got = sorted(forms), sorted(map(str, data))
        raise CorruptState(f"{name} has the fields {wanted}, not {got}."[:1000])
    try:
        return kind(**{name: form.read(data[name]) for name, form in forms.items() if name in data})
    except (BridleError, TypeError, ValueError, KeyError, OverflowError, RecursionError) as error:
        raise CorruptState(f"A damaged {name}: {error}") from None


def check_event(event: Event) -> None:
    """Refuse an event with a field that no event of an agent has.

    What an agent made itself needs no check; what comes from outside does, before it is folded.
    """
    forms = _FORMS_OF.get(type(event))
    if forms is None:
        raise InvalidValue("event", "Agent.apply", "one of bridle.events", event)
    for field, form in forms.items():
        value = getattr(event, field)
        try:
            form.check(value)
        except (BridleError, TypeError, ValueError, OverflowError) as error:
            owner, wanted = type(event).__name__, "as in events that agents make"
            raise InvalidValue(field, owner, wanted, value, f"{error}") from None


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


# -- the form of each field ------------------------------------------------------------------


class _Form(NamedTuple):
    """How a field is read from JSON and how it is checked; both raise if it is wrong."""

    read: Callable[[Any], Any]
    check: Callable[[Any], Any]


def _arm_id(value: object) -> ArmId:
    if type(value) is int and -(2**53) <= value <= 2**53:
        return value
    return _word(value)


def _id(value: object) -> ItemId:
    if type(value) is int and 1 <= value <= 2**53:
        return value
    return _word(value)


def _word(value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"an id is a whole number or a string, not {value!r:.100}")
    return words(value, "id", "Agent")


def _number(value: object) -> float:
    if type(value) is not float and type(value) is not int:
        raise TypeError(f"a number was expected, not {value!r:.100}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"a finite number was expected, not {value!r}")
    return number


def _check_context(value: object) -> None:
    if type(value) is not tuple:
        raise TypeError(f"a context is a tuple, not {value!r:.100}")
    for number in value:
        if type(number) is not float or not -MAX_MAGNITUDE <= number <= MAX_MAGNITUDE:
            raise ValueError(f"a context has floats within ±{MAX_MAGNITUDE:g}, not {number!r:.100}")


def _context(value: object) -> Context:
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, not {value!r:.100}")
    context = tuple(_number(number) for number in value)
    _check_context(context)
    return context


def _version(value: object) -> int:
    if type(value) is not int or value < 1:
        raise TypeError(f"a version is a whole number from 1 on, not {value!r:.100}")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"true or false was expected, not {value!r:.100}")
    return value


def _kind(value: object) -> str:
    return validate.one_of(cast("str", value), KINDS, "limits", "Agent")


def _grouped(value: object) -> tuple[ArmId, str | None]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise TypeError(f"an arm and its group were expected, not {value!r:.100}")
    arm, group = value
    return _arm_id(arm), None if group is None else words(group, "group", "Agent")


def _check_grouped(value: object) -> None:
    if type(value) is not tuple:
        raise TypeError(f"a tuple was expected, not {value!r:.100}")
    _grouped(value)


def _text(value: object) -> str:
    return words(value, "by or note", "Agent", MAX_NOTE)


def _each(one: _Form) -> _Form:
    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise TypeError(f"a list was expected, not {value!r:.100}")
        return tuple(one.read(item) for item in value)

    def check(value: object) -> None:
        if type(value) is not tuple:
            raise TypeError(f"a tuple was expected, not {value!r:.100}")
        for item in value:
            one.check(item)

    return _Form(read, check)


def _maybe(one: _Form) -> _Form:
    return _Form(
        lambda value: None if value is None else one.read(value),
        lambda value: None if value is None else one.check(value),
    )


def _object(kind: type[Arm] | type[Rule] | type[Settings]) -> _Form:
    def read(value: object) -> Arm | Rule | Settings:
        made: Arm | Rule | Settings = kind.from_json(cast("Any", value))
        # A default of today may not have been one then. (Settings see to it themselves.)
        if kind is not Settings and made.to_json() != value:
            raise ValueError(f"{kind.__name__} is not written in full")
        return made

    def check(value: object) -> None:
        if not isinstance(value, kind):
            raise TypeError(f"{kind.__name__} was expected, not {value!r:.100}")

    return _Form(read, check)


def _array(dtype: str, dimensions: int) -> _Form:
    def read(value: object) -> np.ndarray[Any, Any]:
        if not isinstance(value, dict) or set(value) != {"shape", "base64"}:
            raise TypeError("an array is written as shape and base64")
        raw = base64.b64decode(value["base64"], validate=True)
        shape = value["shape"]
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise TypeError(f"the shape of an array is whole numbers, not {shape!r:.100}")
        if len(shape) != dimensions or math.prod(shape) * 8 != len(raw):
            raise ValueError(f"{len(raw)} bytes are no array of shape {shape!r:.100}")
        array = np.frombuffer(raw, np.dtype(dtype)).reshape(shape)
        array = array.astype(array.dtype.newbyteorder("="))
        array.flags.writeable = False
        return array

    def check(value: object) -> None:
        if not isinstance(value, np.ndarray) or value.ndim != dimensions:
            raise TypeError(f"an array of {dimensions} dimensions was expected")
        if value.dtype != np.dtype(dtype).newbyteorder("="):
            raise TypeError(f"an array of {dtype} was expected, not of {value.dtype}")

    return _Form(read, check)


_ARM_ID, _ID, _NUMBER = _Form(_arm_id, _arm_id), _Form(_id, _id), _Form(_number, _number)
_TEXT = _Form(_text, _text)
_PAIR = _Form(_grouped, _check_grouped)

# Fields that logs of the first form do not have. Their defaults are what was meant then.
_LATER: dict[type, set[str]] = {
    Asked: {"decision", "among", "propensity"},
    Decided: {"ask"},
    Abstained: {"ask", "propensity"},
}

# By the name of the field, or by event and name where one name serves two.
_FORMS: dict[str, _Form] = {
    "settings": _object(Settings),
    "arms": _each(_object(Arm)),
    "RuleDeclared.rule": _object(Rule),
    "RuleWithdrawn.rule": _TEXT,
    "id": _ID,
    "arm": _ARM_ID,
    "Asked.decision": _maybe(_ID),
    "Rewarded.decision": _ID,
    "example": _ID,
    "Taught.question": _maybe(_ID),
    "Lapsed.question": _ID,
    "groups": _each(_PAIR),
    "limits": _Form(_kind, _kind),
    "ask": _Form(_truth, _truth),
    "context": _Form(_context, _check_context),
    "among": _maybe(_each(_ARM_ID)),
    "version": _Form(_version, _version),
    "allowed": _Form(_truth, _truth),
    "value": _NUMBER,
    "sigma": _NUMBER,
    "propensity": _maybe(_NUMBER),
    "by": _maybe(_TEXT),
    "note": _maybe(_TEXT),
    "at": _maybe(_NUMBER),
    "contexts": _array("<f8", 2),
    "arm_numbers": _array("<i8", 1),
    "rewards": _array("<f8", 1),
}
_KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        Created, ArmsAdded, Asked, Lapsed, Taught, Retracted, Decided, Abstained, Rewarded,
        Learned, SigmaChanged, Regrouped, RuleDeclared, RuleWithdrawn,
    )
}  # fmt: skip
_FORMS_OF: dict[type, dict[str, _Form]] = {
    kind: {
        field.name: _FORMS.get(f"{name}.{field.name}") or _FORMS[field.name]
        for field in fields(kind)
    }
    for name, kind in _KINDS.items()
}

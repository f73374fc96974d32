"""The forms of the fields of events: how each is read from JSON, and how it is checked."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from bridle import validation
from bridle.agent.config import WAIT, Arm, ArmId, ItemId, Settings, words
from bridle.certificates.certificate import Certificate
from bridle.limits import KINDS
from bridle.limits.declared import Rule
from bridle.validation import MAX_MAGNITUDE

__all__ = ["FORMS", "MAX_NOTE", "SCOPES", "Context", "Form", "Part"]

Context: TypeAlias = tuple[float, ...]
Part: TypeAlias = Arm | Rule | Settings | Certificate
MAX_NOTE = 10_000
# What an answer is about: all that looks like it, or this very item alone.
SCOPES = ("all", "item")
COIN = validation.FloatRange(0.0, 1.0, open_low=True)
_FLOATS = frozenset({float})


class Form(NamedTuple):
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
    context = tuple(value)
    # Nearly always all of them are floats already.
    if not _FLOATS.issuperset(map(type, context)):
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
    return validation.one_of(cast("str", value), KINDS, "limits", "Agent")


def _grouped(value: object) -> tuple[ArmId, str | None]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise TypeError(f"an arm and its group were expected, not {value!r:.100}")
    arm, group = value
    return _arm_id(arm), None if group is None else words(group, "group", "Agent")


def _check_grouped(value: object) -> None:
    if type(value) is not tuple:
        raise TypeError(f"a tuple was expected, not {value!r:.100}")
    _grouped(value)


def _seconds(value: object) -> float:
    return WAIT.check(_number(value), "wait", "Agent")


def _share(value: object) -> float:
    return validation.FRACTION.check(_number(value), "share", "Agent")


def _coin(value: object) -> float:
    return COIN.check(_number(value), "coin", "Agent")


def _name(value: object) -> str:
    return words(value, "by", "Agent")


def _scope(value: object) -> str:
    return validation.one_of(cast("str", value), SCOPES, "scope", "Agent")


def _lag(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"a lag is a whole number, not {value!r:.100}")
    return validation.IntRange(0, 10**6).check(value, "lag", "Agent")


def _seed(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"a seed is a whole number, not {value!r:.100}")
    return validation.SEED.check(value, "seed", "AuditMeter")


def _window(value: object) -> tuple[int, float]:
    if not isinstance(value, list | tuple) or len(value) != 2 or type(value[0]) is not int:
        raise TypeError(f"a window is a length and a delta, not {value!r:.100}")
    return value[0], _number(value[1])


def _check_window(value: object) -> None:
    if type(value) is not tuple:
        raise TypeError(f"a tuple was expected, not {value!r:.100}")
    _window(value)


def _words(value: object) -> str:
    return "" if value == "" else _text(value)


def _text(value: object) -> str:
    return words(value, "by or note", "Agent", MAX_NOTE)


def _each(one: Form) -> Form:
    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise TypeError(f"a list was expected, not {value!r:.100}")
        return tuple(one.read(item) for item in value)

    def check(value: object) -> None:
        if type(value) is not tuple:
            raise TypeError(f"a tuple was expected, not {value!r:.100}")
        for item in value:
            one.check(item)

    return Form(read, check)


def _maybe(one: Form) -> Form:
    return Form(
        lambda value: None if value is None else one.read(value),
        lambda value: None if value is None else one.check(value),
    )


def _object(kind: type[Part]) -> Form:
    def read(value: object) -> Part:
        made: Part = kind.from_json(cast("Any", value))
        # A default of today may not have been one then. (Settings see to it themselves.)
        if kind is not Settings and made.to_json() != value:
            raise ValueError(f"{kind.__name__} is not written in full")
        return made

    def check(value: object) -> None:
        if not isinstance(value, kind):
            raise TypeError(f"{kind.__name__} was expected, not {value!r:.100}")

    return Form(read, check)


def _array(dtype: str, dimensions: int) -> Form:
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

    return Form(read, check)


_ARM_ID, _ID, _NUMBER = Form(_arm_id, _arm_id), Form(_id, _id), Form(_number, _number)
_TEXT = Form(_text, _text)
_PAIR = Form(_grouped, _check_grouped)


# By the name of the field, or by event and name where one name serves two.
FORMS: dict[str, Form] = {
    "settings": _object(Settings),
    "certificate": _object(Certificate),
    "arms": _each(_object(Arm)),
    "RuleDeclared.rule": _object(Rule),
    "RuleWithdrawn.rule": _TEXT,
    "id": _ID,
    "arm": _ARM_ID,
    "item": _maybe(_ARM_ID),
    "wanted": _maybe(_ARM_ID),
    "worth": _maybe(_NUMBER),
    "lesson": _maybe(_NUMBER),
    "coin": _maybe(Form(_coin, _coin)),
    "checked": Form(_truth, _truth),
    "check": _maybe(_ID),
    "scope": Form(_scope, _scope),
    "until": _maybe(_NUMBER),
    "replaces": _each(_ID),
    "lag": Form(_lag, _lag),
    "b": _NUMBER,
    "why": _TEXT,
    "Asked.decision": _maybe(_ID),
    "decision": _ID,
    "example": _ID,
    "Taught.question": _maybe(_ID),
    "Judged.question": _maybe(_ID),
    "Judged.by": Form(_name, _name),
    "Judged.id": _maybe(_ID),
    "who": _maybe(_TEXT),
    "prior": Form(_share, _share),
    "Lapsed.question": _ID,
    "groups": _each(_PAIR),
    "limits": Form(_kind, _kind),
    "ask": Form(_truth, _truth),
    "context": Form(_context, _check_context),
    "among": _maybe(_each(_ARM_ID)),
    "version": Form(_version, _version),
    "allowed": Form(_truth, _truth),
    "value": _NUMBER,
    "Expired.value": _maybe(_NUMBER),
    "wait": _maybe(Form(_seconds, _seconds)),
    "default_reward": _maybe(_NUMBER),
    "q": Form(_share, _share),
    "alpha": Form(_share, _share),
    "delta": Form(_share, _share),
    "lambda_min": Form(_share, _share),
    "seed": Form(_seed, _seed),
    "windows": _each(Form(_window, _check_window)),
    "on": Form(_words, _words),
    "kind": _TEXT,
    "spaces": _each(_TEXT),
    "events": _each(Form(_version, _version)),
    "platform": _TEXT,
    "sigma": _NUMBER,
    "propensity": _maybe(_NUMBER),
    "by": _maybe(_TEXT),
    "note": _maybe(_TEXT),
    "at": _maybe(_NUMBER),
    "contexts": _array("<f8", 2),
    "arm_numbers": _array("<i8", 1),
    "rewards": _array("<f8", 1),
}

"""Ranges, declared once, and one form of message for all of them.

Each function takes a value from outside and gives back the value that the rest of bridle works
with, or raises `InvalidValue`. Nothing past this file checks a type or a range again.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle.errors import InvalidValue

__all__ = [
    "COUNT",
    "FRACTION",
    "MAX_MAGNITUDE",
    "NON_NEGATIVE",
    "OUTCOME",
    "POSITIVE",
    "RIDGE",
    "SEED",
    "SIGMA",
    "SPREAD",
    "FloatRange",
    "IntRange",
    "arrays",
    "floats",
    "indices",
    "matrix",
    "one_of",
    "outcomes",
    "text",
    "truth",
    "truths",
    "vector",
]

# Python counts these among the whole numbers; we do not.
NO_NUMBER = (bool, np.bool_, np.timedelta64)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FloatRange:
    """The finite floats between two ends; `open_low` leaves the lower end out, and so on."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def __str__(self) -> str:
        left = "(" if self.open_low or self.low == -math.inf else "["
        right = ")" if self.open_high or self.high == math.inf else "]"
        return f"a float in the range {left}{self.low:g}, {self.high:g}{right}"

    def check(self, value: object, name: str, owner: str) -> float:
        """Return `value` as a float, or raise `InvalidValue`."""
        if type(value) is float:
            if self.low < value < self.high:  # which is the rule
                return value
        else:
            if not isinstance(value, numbers.Real) or isinstance(value, NO_NUMBER):
                raise InvalidValue(name, owner, str(self), value)
            try:
                value = float(value)
            except OverflowError:  # an int of hundreds of digits
                raise InvalidValue(name, owner, str(self), value) from None
        above = value > self.low or (value == self.low and not self.open_low)
        below = value < self.high or (value == self.high and not self.open_high)
        if not (above and below and math.isfinite(value)):
            raise InvalidValue(name, owner, str(self), value)
        return value


@dataclass(frozen=True)
class IntRange:
    """The whole numbers from `low` to `high`, both included."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"an int in the range [{self.low}, {self.high}]"

    def check(self, value: object, name: str, owner: str) -> int:
        """Return `value` as an int, or raise `InvalidValue`."""
        if not isinstance(value, numbers.Integral) or isinstance(value, NO_NUMBER):
            raise InvalidValue(name, owner, str(self), value)
        number = int(value)
        if not self.low <= number <= self.high:
            raise InvalidValue(name, owner, str(self), value)
        return number


SIGMA = FloatRange(0.0, 1.0)
FRACTION = FloatRange(0.0, 1.0)
DELTA = FloatRange(0.0, 1.0, open_low=True, open_high=True)  # an error probability
NATURAL = IntRange(0, 2**63 - 2)
NON_NEGATIVE = FloatRange(0.0)
POSITIVE = FloatRange(0.0, open_low=True)
# Of draws, in posterior standard deviations: far above any use, far below overflow.
SPREAD = FloatRange(0.0, 1e6)
# Below 1e-6 the first inverse, I / ridge, would already use up the digits that the drift bound of
# LinearArms needs; above 1e12 nothing is ever learned.
RIDGE = FloatRange(1e-6, 1e12)
SEED = IntRange(0, 2**64 - 1)
COUNT = IntRange(1, 2**31 - 1)
# Squares of features are summed a million times and inverted: larger ones leave no digits for it.
MAX_MAGNITUDE = 1e6
OUTCOME = FloatRange(-MAX_MAGNITUDE, MAX_MAGNITUDE)


def one_of(value: object, options: Collection[str], name: str, owner: str) -> str:
    """Return `value` if it is one of the words in `options`."""
    if not isinstance(value, str) or value not in options:
        words = ", ".join(repr(option) for option in options)
        raise InvalidValue(name, owner, f"one of {words}", value)
    return value


def truth(value: object, name: str, owner: str) -> bool:
    """Return `value` as a bool; 0 and 1 count, other numbers and words do not."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, NO_NUMBER) and value in (0, 1):
        return bool(value)
    raise InvalidValue(name, owner, "True or False (or 1 or 0)", value)


def text(value: object, name: str, owner: str, longest: int = 200) -> str:
    """Return `value` if it is a string of 1 to `longest` characters."""
    if not isinstance(value, str) or not 1 <= len(value) <= longest:
        raise InvalidValue(name, owner, f"a string of 1 to {longest} characters", value)
    return value


def vector(value: object, length: int, name: str, owner: str) -> Floats:
    """Return `value` as `length` float64 within ±MAX_MAGNITUDE, contiguous; -0 becomes 0.

    -0 and 0 are the same number but not the same bits, and exact denials compare bits.
    """
    # What is right already is the rule, and an answer is looked at twice: no words for it.
    plain = type(value) is np.ndarray and value.dtype == np.float64
    array: Floats = value if plain else floats(value, name, owner, _numbers(length))  # type: ignore[assignment]
    if array.shape != (length,):
        raise InvalidValue(name, owner, _numbers(length), f"an array of shape {array.shape}")
    if not (np.abs(array) <= MAX_MAGNITUDE).all():
        raise InvalidValue(name, owner, _numbers(length), value)
    return array + 0.0


def matrix(value: object, width: int | None, name: str, owner: str) -> Floats:
    """Return `value` as a matrix of float64 within ±MAX_MAGNITUDE, of `width` columns if given."""
    plain = type(value) is np.ndarray and value.dtype == np.float64
    array: Floats = value if plain else floats(value, name, owner, _columns(width))  # type: ignore[assignment]
    if array.ndim != 2 or (width is not None and array.shape[1] != width):
        raise InvalidValue(name, owner, _columns(width), f"an array of shape {array.shape}")
    good = np.abs(array) <= MAX_MAGNITUDE
    if not good.all():
        row, column = np.argwhere(~good)[0]
        got = f"{array[row, column]} at row {row}, column {column}"
        raise InvalidValue(name, owner, _columns(width), got)
    return np.ascontiguousarray(array) + 0.0


def outcomes(value: object, length: int, name: str, owner: str) -> Floats:
    """Return `value` as `length` outcomes: float64 within ±MAX_MAGNITUDE; True is no outcome."""
    if arrays(value, name, owner, _numbers(length)).dtype.kind == "b":
        raise InvalidValue(name, owner, _numbers(length), value)
    return vector(value, length, name, owner)


def indices(value: object, length: int, below: int, name: str, owner: str) -> Ints:
    """Return `value` as `length` whole numbers in [0, below)."""
    wanted = f"{length} whole numbers in the range [0, {below - 1}]"
    array = arrays(value, name, owner, wanted)
    if length == 0 and array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iu" or array.shape != (length,):
        raise InvalidValue(name, owner, wanted, f"{array.dtype} of shape {array.shape}")
    if length and not (0 <= int(array.min()) and int(array.max()) < below):
        bad = array[(array < 0) | (array >= below)][0]
        raise InvalidValue(name, owner, wanted, int(bad))
    return array.astype(np.int64)


def truths(value: object, length: int, name: str, owner: str) -> Bools:
    """Return `value` as `length` bools; 0 and 1 count, other numbers and words do not."""
    wanted = f"{length} times True or False (or 1 or 0)"
    array = arrays(value, name, owner, wanted)
    good = array.shape == (length,) and (
        array.dtype.kind == "b"
        or (array.dtype.kind in "iu" and bool(np.isin(array, (0, 1)).all()))
        or length == 0
    )
    if not good:
        raise InvalidValue(name, owner, wanted, value)
    return array.astype(np.bool_)


def floats(value: object, name: str, owner: str, wanted: str) -> Floats:
    """Return `value` as a float64 array of any shape; words, objects and complex have none."""
    array = arrays(value, name, owner, wanted)
    if array.dtype.kind not in "fiub":
        raise InvalidValue(name, owner, wanted, value)
    return array.astype(np.float64, copy=False)


def arrays(value: object, name: str, owner: str, wanted: str) -> npt.NDArray[Any]:
    """Return `value` as an array of whatever it holds, but not nested lists of unequal length."""
    try:
        return np.asarray(value)
    except ValueError:
        raise InvalidValue(name, owner, wanted, value) from None


def _columns(width: int | None) -> str:
    wanted = "a matrix" if width is None else f"a matrix with {width} columns"
    return f"{wanted} of numbers in [-{MAX_MAGNITUDE:g}, {MAX_MAGNITUDE:g}]"


def _numbers(length: int) -> str:
    return f"{length} numbers in the range [-{MAX_MAGNITUDE:g}, {MAX_MAGNITUDE:g}]"

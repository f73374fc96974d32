"""Ranges and messages: what is taken, what is refused, and in which words."""

from __future__ import annotations

import decimal
import fractions
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import validation
from bridle.errors import InvalidValue
from bridle.validation import FloatRange, IntRange

NAN, INF = math.nan, math.inf


def refused(call, *args, expected: str, got: str | None = None) -> None:
    """Assert that `call` raises the one form of message, for the parameter 'x' of Owner."""
    with pytest.raises(InvalidValue) as caught:
        call(*args, "x", "Owner")
    error = caught.value
    assert (error.name, error.owner, error.expected) == ("x", "Owner", expected)
    assert str(error).startswith(f"The 'x' parameter of Owner must be {expected}. Got ")
    if got is not None:
        assert str(error).endswith(f"Got {got} instead.")


# Floats

RANGES: dict[str, tuple[str, list[float], list[float]]] = {
    "SIGMA": ("a float in the range [0, 1]", [0.0, 0.5, 1.0], [-1e-300, 1.0000001, 2]),
    "FRACTION": ("a float in the range [0, 1]", [0, 1], [-0.1, 1.1]),
    "NON_NEGATIVE": ("a float in the range [0, inf)", [0.0, 1e308], [-1e-9]),
    "POSITIVE": ("a float in the range (0, inf)", [5e-324, 1e308], [0.0, -0.0, -1.0]),
    "SPREAD": ("a float in the range [0, 1e+06]", [0.0, 1e6], [-1e-9, 1000001]),
    "RIDGE": ("a float in the range [1e-06, 1e+12]", [1e-6, 1.0, 1e12], [0.0, 9e-7, 1.1e12]),
    "OUTCOME": ("a float in the range [-1e+06, 1e+06]", [-1e6, 0, 1e6], [1000001, -1e7]),
}
NEVER_A_FLOAT: list[Any] = [
    NAN,
    INF,
    -INF,
    True,
    False,
    np.True_,
    None,
    "1",
    b"1",
    [1.0],
    1j,
    object(),
]
NEVER_A_FLOAT += [np.array([1.0]), np.float32(NAN), np.complex128(1), decimal.Decimal(1)]
NEVER_A_FLOAT += [10**400, -(10**400), np.timedelta64(1, "s"), np.datetime64("2026-01-01")]


@pytest.mark.parametrize("name", RANGES)
def test_float_ranges(name) -> None:
    expected, inside, outside = RANGES[name]
    allowed = getattr(validation, name)
    assert str(allowed) == expected
    for value in inside:
        taken = allowed.check(value, "x", "Owner")
        assert type(taken) is float
        assert taken == value
    for value in outside:
        refused(allowed.check, value, expected=expected, got=repr(float(value)))
    for value in NEVER_A_FLOAT:
        refused(allowed.check, value, expected=expected)


@pytest.mark.parametrize(
    "value", [1, 1.0, np.float64(1), np.float32(1), np.int8(1), np.uint64(1), fractions.Fraction(1)]
)
def test_every_real_number_becomes_a_float(value) -> None:
    taken = FloatRange().check(value, "x", "Owner")
    assert type(taken) is float
    assert taken == 1.0


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.booleans(),
    st.floats(),
)
def test_the_ends_of_a_range(low, high, open_low, open_high, value) -> None:
    allowed = FloatRange(low, high, open_low, open_high)
    inside = (low < value if open_low else low <= value) and (
        value < high if open_high else value <= high
    )
    try:
        assert allowed.check(value, "x", "Owner") == value
        assert inside
    except InvalidValue:
        assert not inside


def test_ranges_are_written_as_intervals() -> None:
    assert str(FloatRange()) == "a float in the range (-inf, inf)"
    assert str(FloatRange(0.0, 1.0, True, True)) == "a float in the range (0, 1)"
    assert str(FloatRange(-2.5, 3.0, open_high=True)) == "a float in the range [-2.5, 3)"
    assert str(IntRange(1, 9)) == "an int in the range [1, 9]"


# Whole numbers

NEVER_AN_INT: list[Any] = [
    True,
    False,
    np.True_,
    1.0,
    np.float64(1),
    "1",
    None,
    NAN,
    [1],
    np.array([1]),
]
NEVER_AN_INT += [fractions.Fraction(1), 1j, np.timedelta64(1, "s")]


@pytest.mark.parametrize(
    ("allowed", "expected", "inside", "outside"),
    [
        (
            validation.SEED,
            "an int in the range [0, 18446744073709551615]",
            [0, 2**64 - 1],
            [-1, 2**64],
        ),
        (validation.COUNT, "an int in the range [1, 2147483647]", [1, 2**31 - 1], [0, -1, 2**31]),
        (IntRange(-2, 2), "an int in the range [-2, 2]", [-2, 0, np.int8(2), np.uint8(1)], [3, -3]),
    ],
)
def test_int_ranges(allowed, expected, inside, outside) -> None:
    for value in inside:
        taken = allowed.check(value, "x", "Owner")
        assert type(taken) is int
        assert taken == value
    for value in outside:
        refused(allowed.check, value, expected=expected, got=str(value))
    for value in NEVER_AN_INT:
        refused(allowed.check, value, expected=expected)


# Words and truths


def test_one_of() -> None:
    for options in (("a", "b"), {"a": 1, "b": 2}):
        assert validation.one_of("b", options, "x", "Owner") == "b"
        for value in ("c", "", None, 1, ["a"], b"a", "A"):
            with pytest.raises(InvalidValue) as caught:
                validation.one_of(value, options, "x", "Owner")
            assert str(caught.value) == (
                f"The 'x' parameter of Owner must be one of 'a', 'b'. Got {value!r} instead."
            )


def test_text() -> None:
    value: Any
    for value in ("a", "x" * 200, "ä", " "):
        assert validation.text(value, "x", "Owner") == value
    assert validation.text("abc", "x", "Owner", 3) == "abc"
    for value in ("", "x" * 201, None, 1, b"a", ["a"]):
        refused(validation.text, value, expected="a string of 1 to 200 characters")
    with pytest.raises(InvalidValue, match="a string of 1 to 3 characters"):
        validation.text("abcd", "x", "Owner", 3)


def test_truth() -> None:
    value: Any
    for value in (True, False, np.True_, np.False_, 1, 0, np.int8(1), np.uint8(0)):
        taken = validation.truth(value, "x", "Owner")
        assert type(taken) is bool
        assert taken == bool(value)
    for value in (2, -1, 1.0, 0.0, "True", "", None, [], [True], np.array([True]), NAN):
        refused(validation.truth, value, expected="True or False (or 1 or 0)")
    refused(validation.truth, np.timedelta64(1, "s"), expected="True or False (or 1 or 0)")


# Arrays

THREE = "3 numbers in the range [-1e+06, 1e+06]"
NO_NUMBERS: list[Any] = [
    ["a", "b", "c"],
    None,
    [None] * 3,
    [1j, 0, 0],
    [[1], [2, 3], 4],
    [1, "2", 3],
    "abc",
]
NO_NUMBERS += [[10**30, 0, 0], np.array([1, 2, 3], object), np.zeros(3, "M8[s]"), {1, 2, 3}]


@pytest.mark.parametrize("take", [validation.vector, validation.outcomes])
def test_vectors(take) -> None:
    value: Any
    for value in ([1, 2, 3], (1.0, 2.0, 3.0), np.array([1, 2, 3], np.int8), np.arange(1, 4)):
        taken = take(value, 3, "x", "Owner")
        assert taken.dtype == np.float64
        assert taken.tolist() == [1.0, 2.0, 3.0]
    assert take([1e6, -1e6, 999.0], 3, "x", "Owner").tolist() == [1e6, -1e6, 999.0]
    assert take([], 0, "x", "Owner").shape == (0,)
    for value in NO_NUMBERS:
        refused(take, value, 3, expected=THREE)
    for value in ([1, 2, NAN], [INF, 0, 0], [0, -INF, 0], [1000000.1, 0, 0], [0, 0, -1e200]):
        refused(take, value, 3, expected=THREE, got=repr(value))
    for value in ([1.0, 2.0], [[1.0, 2.0, 3.0]], 1.0, []):
        shape = np.shape(value)
        refused(take, value, 3, expected=THREE, got=repr(f"an array of shape {shape}"))


def test_a_context_may_be_of_flags_but_an_outcome_not() -> None:
    assert validation.vector([True, False], 2, "x", "Owner").tolist() == [1.0, 0.0]
    expected = "2 numbers in the range [-1e+06, 1e+06]"
    refused(validation.outcomes, [True, False], 2, expected=expected)


@pytest.mark.parametrize("value", [np.array([-0.0, 1.0]), [-0.0, 1.0]])
def test_minus_zero_becomes_zero_and_the_callers_array_stays(value) -> None:
    taken = validation.vector(value, 2, "x", "Owner")
    assert not np.signbit(taken).any()
    assert np.signbit(value[0])
    taken[1] = 7.0
    assert value[1] == 1.0
    rows = validation.matrix([value], 2, "x", "Owner")
    assert not np.signbit(rows).any()


def test_arrays_come_out_contiguous() -> None:
    table = np.arange(12.0).reshape(3, 4)
    for taken in (
        validation.vector(table[:, 0], 3, "x", "Owner"),
        validation.matrix(table.T, 3, "x", "Owner"),
        validation.matrix(table[:, ::2], None, "x", "Owner"),
    ):
        assert taken.flags.c_contiguous


def test_matrices() -> None:
    value: Any
    expected = "a matrix with 2 columns of numbers in [-1e+06, 1e+06]"
    taken = validation.matrix([[1, 2], [3, 4], [5, 6]], 2, "x", "Owner")
    assert taken.dtype == np.float64
    assert taken.shape == (3, 2)
    assert validation.matrix(np.empty((0, 2)), 2, "x", "Owner").shape == (0, 2)
    assert validation.matrix([[1, 2, 3]], None, "x", "Owner").shape == (1, 3)
    for value in ([[1, 2, 3]], [1, 2], 1, [[[1, 2]]], [], [[]]):
        got = repr(f"an array of shape {np.shape(value)}")
        refused(validation.matrix, value, 2, expected=expected, got=got)
    for value in ([[1, 2], [3]], "ab", [["a", "b"]], None, [[1j, 0]]):
        refused(validation.matrix, value, 2, expected=expected)
    cases = ((NAN, "nan"), (INF, "inf"), (-2e6, "-2000000.0"), (1e200, "1e+200"))
    for bad, shown in cases:
        value = [[0.0, 1.0], [2.0, bad]]
        got = repr(f"{shown} at row 1, column 1")
        refused(validation.matrix, value, 2, expected=expected, got=got)
    any_width = "a matrix of numbers in [-1e+06, 1e+06]"
    refused(validation.matrix, [1.0], None, expected=any_width)


def test_the_largest_floats_are_refused_without_a_warning() -> None:
    # Warnings are errors here: no square may overflow on the way.
    refused(validation.vector, [np.finfo(np.float64).max] * 3, 3, expected=THREE)


def test_indices() -> None:
    value: Any
    expected = "3 whole numbers in the range [0, 4]"
    for value in ([0, 4, 2], np.array([0, 4, 2], np.uint64), np.array([0, 4, 2], np.int8)):
        taken = validation.indices(value, 3, 5, "x", "Owner")
        assert taken.dtype == np.int64
        assert taken.tolist() == [0, 4, 2]
    assert validation.indices([], 0, 5, "x", "Owner").dtype == np.int64
    cases = (([0, 5, 1], "5"), ([-1, 0, 0], "-1"), ([2**63 - 1, 0, 0], str(2**63 - 1)))
    for value, got in cases:
        refused(validation.indices, value, 3, 5, expected=expected, got=got)
    refused(
        validation.indices,
        np.array([2**64 - 1, 0, 0], np.uint64),
        3,
        5,
        expected=expected,
        got=str(2**64 - 1),
    )
    bad = [[0.0, 1.0, 2.0], [True, False, True], [0, 1], [[0, 1, 2]], 1, ["0", "1", "2"], []]
    for value in [*bad, [[0], [1, 2], [3]], None, [10**30, 0, 0]]:
        refused(validation.indices, value, 3, 5, expected=expected)


def test_truths() -> None:
    value: Any
    expected = "3 times True or False (or 1 or 0)"
    for value in ([True, False, True], [1, 0, 1], np.array([1, 0, 1], np.uint8)):
        taken = validation.truths(value, 3, "x", "Owner")
        assert taken.dtype == np.bool_
        assert taken.tolist() == [True, False, True]
    assert validation.truths([], 0, "x", "Owner").dtype == np.bool_
    bad = [[1, 0, 2], [1.0, 0.0, 1.0], ["a", "b", "c"], [True, False], True, None, [[1, 0, 1]]]
    for value in [*bad, [[1], [0, 1], [1]], [-1, 0, 1]]:
        refused(validation.truths, value, 3, expected=expected)


@pytest.mark.parametrize("name", sorted(validation.__all__))
def test_every_public_name_is_there(name) -> None:
    assert hasattr(validation, name)

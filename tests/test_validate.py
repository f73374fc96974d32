import math

import numpy as np
import pytest

from bridle import validate
from bridle.errors import InvalidValue

NO_FLOATS = [True, np.True_, "1", None, [1.0], 1j, math.nan, math.inf, -math.inf, 10**400]


@pytest.mark.parametrize(
    ("allowed", "text"),
    [
        (validate.SIGMA, "a float in the range [0, 1]"),
        (validate.NON_NEGATIVE, "a float in the range [0, inf)"),
        (validate.POSITIVE, "a float in the range (0, inf)"),
        (validate.FloatRange(), "a float in the range (-inf, inf)"),
        (validate.FloatRange(1, 2, open_high=True), "a float in the range [1, 2)"),
    ],
)
def test_a_range_reads_as_mathematicians_write_it(allowed, text: str) -> None:
    assert str(allowed) == text


@pytest.mark.parametrize("value", [0, 0.0, 1, np.float32(0.5), np.int64(1), 0.25])
def test_numbers_inside_come_back_as_plain_floats(value) -> None:
    got = validate.SIGMA.check(value, "sigma", "Agent")
    assert type(got) is float and got == value


@pytest.mark.parametrize("value", [*NO_FLOATS, 1.0000001, -1e-300, np.timedelta64(1)])
def test_what_is_no_number_inside_is_refused(value) -> None:
    with pytest.raises(InvalidValue, match=r"The 'sigma' parameter of Agent must be a float in"):
        validate.SIGMA.check(value, "sigma", "Agent")


def test_open_ends_are_left_out() -> None:
    for value in (0.0, -1.0):
        with pytest.raises(InvalidValue):
            validate.POSITIVE.check(value, "R", "spread_of")
    with pytest.raises(InvalidValue):
        validate.FloatRange(0, 1, open_high=True).check(1.0, "x", "f")
    assert validate.POSITIVE.check(5e-324, "R", "spread_of") > 0


@pytest.mark.parametrize("value", [1, 3, np.uint8(2)])
def test_whole_numbers_inside_come_back_as_plain_ints(value) -> None:
    got = validate.IntRange(1, 3).check(value, "arms", "Agent")
    assert type(got) is int and got == value


@pytest.mark.parametrize("value", [0, 4, 1.0, True, "1", None, np.timedelta64(1), 10**400])
def test_what_is_no_whole_number_inside_is_refused(value) -> None:
    with pytest.raises(InvalidValue, match=r"must be an int in the range \[1, 3\]"):
        validate.IntRange(1, 3).check(value, "arms", "Agent")


def test_one_of_lists_the_words() -> None:
    assert validate.one_of("a", ("a", "b"), "teaching", "Agent") == "a"
    for value in ("c", 1, ["a"]):
        with pytest.raises(InvalidValue, match="must be one of 'a', 'b'"):
            validate.one_of(value, ("a", "b"), "teaching", "Agent")


@pytest.mark.parametrize("value", [True, 1, np.True_, np.int8(1)])
def test_truth_takes_bools_and_0_and_1(value) -> None:
    assert validate.truth(value, "allowed", "Agent") is True
    assert validate.truth(type(value)(0), "allowed", "Agent") is False


@pytest.mark.parametrize("value", [2, 1.0, "yes", None, -1, np.timedelta64(1)])
def test_truth_takes_nothing_else(value) -> None:
    with pytest.raises(InvalidValue, match="must be True or False"):
        validate.truth(value, "allowed", "Agent")


def test_text_has_a_length() -> None:
    assert validate.text("abc", "id", "Agent", 3) == "abc"
    for value in ("", "abcd", 1, None, b"abc"):
        with pytest.raises(InvalidValue, match="a string of 1 to 3 characters"):
            validate.text(value, "id", "Agent", 3)


def test_a_vector_is_a_fresh_contiguous_array_without_minus_zero() -> None:
    given = np.array([[-0.0, 1.0], [2.0, 3.0]])[:, 0]
    got = validate.vector(given, 2, "context", "Agent")
    assert got.tobytes() == np.array([0.0, 2.0]).tobytes()
    got[0] = 5.0
    assert given[0] == 0.0
    largest = np.full(3, validate.MAX_MAGNITUDE)
    assert validate.vector(largest, 3, "context", "Agent").tolist() == largest.tolist()


@pytest.mark.parametrize(
    "value",
    [
        [1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0, [1.0, math.nan], [math.inf, 0.0],
        [1.0, -1.1e6], [1e200, 1e200], ["1", "2"], [None, 1.0], [1j, 1.0], [[1.0], [1.0, 2.0]],
        None, {"a": 1.0},
    ],
)  # fmt: skip
def test_no_vector(value) -> None:
    with pytest.raises(InvalidValue, match="must be 2 numbers in the range"):
        validate.vector(value, 2, "context", "Agent")


def test_a_matrix_says_which_entry_is_wrong() -> None:
    assert (
        validate.matrix([[1, -0.0]], 2, "contexts", "f").tobytes() == np.array([1.0, 0]).tobytes()
    )
    with pytest.raises(InvalidValue, match="nan at row 1, column 0"):
        validate.matrix([[1.0], [math.nan]], 1, "contexts", "f")
    with pytest.raises(InvalidValue, match=r"a matrix with 2 columns.*shape \(1, 1\)"):
        validate.matrix([[1.0]], 2, "contexts", "f")
    with pytest.raises(InvalidValue, match="a matrix of numbers"):
        validate.matrix([1.0], None, "contexts", "f")


def test_outcomes_are_numbers_and_not_answers() -> None:
    assert validate.outcomes([0, 1.5], 2, "outcomes", "f").tolist() == [0.0, 1.5]
    for value in ([True, False], [1.0], [1.0, math.nan]):
        with pytest.raises(InvalidValue):
            validate.outcomes(value, 2, "outcomes", "f")


def test_indices() -> None:
    got = validate.indices(np.array([2, 0], np.uint8), 2, 3, "arms", "f")
    assert got.dtype == np.int64 and got.tolist() == [2, 0]
    assert validate.indices([], 0, 3, "arms", "f").shape == (0,)
    for value in ([0], [0, 3], [-1, 0], [0.0, 1.0], [True, False], ["0", "1"], [[0], [1, 2]]):
        with pytest.raises(InvalidValue, match=r"2 whole numbers in the range \[0, 2\]"):
            validate.indices(value, 2, 3, "arms", "f")


def test_truths() -> None:
    assert validate.truths([1, 0], 2, "allowed", "f").tolist() == [True, False]
    assert validate.truths([], 0, "allowed", "f").dtype == np.bool_
    for value in ([1], [1, 2], [1.0, 0.0], ["a", "b"], [[1], [1, 0]], None):
        with pytest.raises(InvalidValue, match="2 times True or False"):
            validate.truths(value, 2, "allowed", "f")

"""Errors: one tree, one form of message, the facts as attributes."""

from __future__ import annotations

import copy

import pytest

from bridle import errors
from bridle.errors import (
    BridleError,
    CorruptState,
    InvalidValue,
    LimitReached,
    NotPossible,
    UnknownId,
)


def test_every_error_is_in_the_tree_and_public() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert all(issubclass(kind, BridleError) for kind in kinds)
    assert sorted(errors.__all__) == sorted(kind.__name__ for kind in kinds)


def test_errors_are_what_python_would_call_them_too() -> None:
    assert issubclass(InvalidValue, ValueError)
    assert issubclass(UnknownId, LookupError)


def test_invalid_value_says_all() -> None:
    error = InvalidValue("sigma", "Agent", "a float in the range [0, 1]", 1.5)
    assert str(error) == (
        "The 'sigma' parameter of Agent must be a float in the range [0, 1]. Got 1.5 instead."
    )
    facts = (error.name, error.owner, error.expected, error.got, error.remedy)
    assert facts == ("sigma", "Agent", "a float in the range [0, 1]", 1.5, "")


def test_invalid_value_ends_with_the_remedy() -> None:
    error = InvalidValue("id", "Agent.decide", "new", "a", "Leave it out.")
    assert str(error) == (
        "The 'id' parameter of Agent.decide must be new. Got 'a' instead. Leave it out."
    )
    assert error.remedy == "Leave it out."


def test_unknown_id_says_what_and_why() -> None:
    error = UnknownId("decision", 7, "It was rewarded before.")
    assert str(error) == "No decision 7. It was rewarded before."
    assert (error.kind, error.id, error.remedy) == ("decision", 7, "It was rewarded before.")


def test_limit_reached_says_the_limit() -> None:
    error = LimitReached("examples", 1_000_000, "Retract some.")
    assert str(error) == "The limit of 1,000,000 examples is reached. Retract some."
    assert (error.what, error.limit, error.remedy) == ("examples", 1_000_000, "Retract some.")


@pytest.mark.parametrize("kind", [NotPossible, CorruptState])
def test_plain_errors_carry_their_text(kind) -> None:
    assert str(kind("no")) == "no"


@pytest.mark.parametrize("value", [1, "a", None, [1.0, 2.0], "x" * 118])
def test_a_short_value_is_shown_whole(value) -> None:
    assert errors.shown(value) == repr(value)


def test_a_long_value_is_cut() -> None:
    assert errors.shown("x" * 119) == "'" + "x" * 116 + "..."
    assert len(errors.shown(list(range(10_000)))) == 120
    assert len(str(InvalidValue("a", "b", "c", "x" * 10_000))) < 200


@pytest.mark.parametrize(
    "error",
    [
        InvalidValue("a", "b", "c", 1, "d"),
        UnknownId("arm", "x", "y"),
        LimitReached("arms", 3, "z"),
        NotPossible("n"),
        CorruptState("s"),
    ],
)
def test_errors_cross_processes(error) -> None:
    # Studies run on executors: an error must come back from a worker as it was raised.
    back = copy.deepcopy(error)  # by __reduce__, as between processes
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)

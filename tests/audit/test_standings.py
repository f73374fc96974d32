"""The records of the audit meter: windows share their error, standings print as sentences."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.audit.meter import Bounds, Ids, Standing, State, Tally, Window, standing_of, tally_of
from bridle.errors import InvalidValue, NotPossible


def standing(lower: float, upper: float, steps: int = 100, ahead: int = 0) -> Standing:
    tally = Tally(actions=90, found=3, clean=17, pending=2)
    return standing_of(0.1, Bounds(lower, upper), tally, 201, steps, ahead, 0.05)


@pytest.mark.parametrize(
    ("lower", "upper", "state"),
    [
        (0.0, 10.0, "shown good"),
        (0.0, 10.1, "not shown"),
        (10.0, 30.0, "not shown"),
        (10.1, 30.0, "alarm"),
    ],
)
def test_a_level_is_shown_good_not_shown_or_passed(
    lower: float, upper: float, state: State
) -> None:
    assert standing(lower, upper).state == state


def test_steps_to_come_may_all_be_violations() -> None:
    assert standing(0.0, 5.0, steps=95, ahead=5).state == "shown good"
    assert standing(0.0, 5.0, steps=94, ahead=6).state == "not shown"
    assert standing(10.1, 20.0, steps=50, ahead=50).state == "alarm"
    assert standing(10.0, 20.0, steps=50, ahead=50).state == "not shown"


def test_no_steps_show_nothing() -> None:
    assert standing(0.0, 0.0, steps=0).state == "not shown"
    assert "violations in no steps" in str(standing(0.0, 0.0, steps=0))


def test_it_prints_as_a_sentence() -> None:
    tail = (
        " violations in steps 201 to 300, where a level of 0.1 grants 10.0 (3 found in 20 audits, "
        "2 not answered yet; a bound is wrong with probability 0.05 at most)"
    )
    assert str(standing(1.0, 9.0)) == "shown good: at most 9.0" + tail
    assert str(standing(1.0, 1234.5)) == "not shown: between 1.0 and 1,234.5" + tail
    assert str(standing(11.0, 19.0)) == "alarm: at least 11.0" + tail


def test_the_blocks_of_a_window_share_its_error() -> None:
    window = Window(1000, 0.05)
    n = 10_000
    total = math.fsum(window.delta_of(i) for i in range(1, n + 1))
    # What is left of Σ 1/i² lies between 1/(n+1) and 1/n.
    left = 0.05 * 6 / math.pi**2
    assert total + left / (n + 1) <= 0.05 * (1 + 1e-12)
    assert total + left / n >= 0.05 * (1 - 1e-12)


@pytest.mark.parametrize(
    ("length", "delta", "named"),
    [(9, 0.1, "length"), (10.0, 0.1, "length"), (10, 0.0, "delta"), (10, 1.0, "delta")],
)
def test_bad_windows_are_refused(length: Any, delta: Any, named: str) -> None:
    with pytest.raises(InvalidValue, match=f"'{named}' parameter of Window"):
        Window(length, delta)


def test_what_was_weighed_can_be_taken_back() -> None:
    tally = Tally(9, 1, 2, 3)
    assert tally == Tally(*tally.counts) and tally.coins is None
    # Far beyond what a float could add and take back.
    tally.weigh((1, 2**62, 0))
    tally.weigh((0, 1, 5))
    tally.weigh((0, -(2**62), 0))
    assert tally.coins == (1, 1, 5)
    assert tally_of([9, 1, 2, 3], [1, 1, 5]) == tally
    assert tally_of([9, 1, 2, 3]).coins is None
    for row, coins in (([9, 1, 2, -3], [0]), ([9, 1, 2, 3], [-1]), ([9, 1, 2], None)):
        with pytest.raises(ValueError):
            tally_of(row, coins)


@given(st.lists(st.integers(0, 40), unique=True))
def test_numbers_may_come_in_any_order(ids: list[int]) -> None:
    met = Ids()
    for n, id in enumerate(ids):
        assert len(met) == n
        met.add(id)
        assert {i for i in range(42) if i in met} == set(ids[: n + 1])
        with pytest.raises(NotPossible, match="observed before"):
            met.add(id)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(met.ranges()))

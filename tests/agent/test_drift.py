"""The test of surprise: its wealth is fair, it seldom rejects wrongly, and it sees a drift."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from bridle.agent.drift import SurpriseTest
from bridle.errors import CorruptState, InvalidValue

Answers = list[tuple[bool, float]]


def fed(answers: Answers, level: float = 0.05) -> SurpriseTest:
    test = SurpriseTest(level)
    for allowed, foretold in answers:
        test.observe(allowed, foretold)
    return test


def foretell(past: tuple[bool, ...]) -> float:
    """A probability that depends on all answers before."""
    share = (sum(past) + 0.2) / (len(past) + 0.4)
    return 0.03 + 0.94 * share if len(past) % 3 else 0.9


def every_course(n: int, sure: float = 0.0) -> list[tuple[float, Answers]]:
    """All courses of n answers with their probabilities, if each comes as foretold.

    With `sure` the likelier answer comes more often: that share of the others is turned to it.
    """
    courses = []
    for course in itertools.product((False, True), repeat=n):
        chance, answers = 1.0, []
        for i, yes in enumerate(course):
            p = foretell(course[:i])
            true = p + sure * (1 - p) if p > 0.5 else p * (1 - sure)
            chance *= true if yes else 1 - true
            answers.append((yes, p))
        courses.append((chance, answers))
    return courses


# What is promised


def test_the_game_is_fair() -> None:
    courses = every_course(9)
    mean = math.fsum(chance * fed(answers).wealth for chance, answers in courses)
    assert mean == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("level", [0.1, 0.3, 0.6])
def test_it_rejects_wrongly_with_probability_level_at_most(level: float) -> None:
    courses = every_course(11)
    wrong = math.fsum(chance for chance, answers in courses if fed(answers, level).rejected)
    assert wrong <= level  # exactly, over all 2,048 courses
    assert level > 0.1 or wrong > 0


def test_limits_that_are_too_cautious_are_no_surprise() -> None:
    fair, sure = (
        math.fsum(chance * fed(answers).wealth for chance, answers in every_course(8, sure))
        for sure in (0.0, 0.5)
    )
    assert sure < fair
    assert not fed([(True, 0.9)] * 2_000).rejected
    assert not fed([(False, 0.3)] * 2_000).rejected


def test_over_long_runs_too() -> None:
    n, level = 400, 0.05
    rng = np.random.default_rng(8)
    rejected = 0
    for _ in range(n):
        foretold = rng.choice([0.02, 0.3, 0.5, 0.9, 0.999], 300)
        yes = rng.random(300) < foretold
        rejected += fed(list(zip(yes.tolist(), foretold.tolist(), strict=True)), level).rejected
    assert rejected <= binom.isf(1e-6, n, level)  # by Ville, fails wrongly once in a million


# What it sees


@pytest.mark.parametrize("before", [0, 300, 3_000])
def test_it_sees_a_drift_soon_even_after_a_long_calm(before: int) -> None:
    calm = [(i % 50 > 0, 0.98) for i in range(1, before + 1)]
    test = fed(calm, 0.01)
    assert not test.rejected
    for i in range(60):
        test.observe(i % 4 > 0, 0.98)  # every fourth now goes against it
    assert test.rejected_at is not None and before < test.rejected_at <= before + 45


def test_it_sees_both_directions() -> None:
    stricter = [(i % 2 == 0, 0.9) for i in range(40)]
    laxer = [(i % 2 == 0, 0.1) for i in range(40)]
    both = [(i % 2 == 0, 0.9 if i % 4 < 2 else 0.1) for i in range(60)]
    assert fed(stricter).rejected and fed(laxer).rejected and fed(both).rejected


def test_what_could_not_happen_is_seen_at_once() -> None:
    for allowed, foretold in ((True, 0.0), (False, 1.0)):
        test = fed([(allowed, foretold)], level=1e-90)
        assert test.rejected_at == 1 and math.isfinite(test.wealth)
        test.observe(True, 0.5)
        assert math.isfinite(test.wealth)
    assert not fed([(False, 0.0), (True, 1.0)] * 50).rejected


def test_even_odds_say_nothing() -> None:
    assert fed([(True, 0.5)] * 100).wealth == pytest.approx(1.0, abs=1e-12)


# Use


def test_a_rejection_stays() -> None:
    test = fed([(False, 0.99)] * 10, 0.05)
    at, p = test.rejected_at, test.p_value
    for _ in range(500):
        assert test.observe(True, 0.9)
    assert (test.rejected_at, test.p_value, test.answers) == (at, p, 510)
    assert test.wealth < 1 / p


def test_it_says_how_it_stands() -> None:
    test = SurpriseTest(0.05)
    assert (test.wealth, test.p_value, test.rejected_at) == (1.0, 1.0, None)
    test.observe(True, 0.9)
    assert "Nothing speaks against" in str(test) and "1 answers" in str(test)
    assert "seen at answer 2 of 3" in str(fed([(False, 0.99)] * 3))


@pytest.mark.parametrize("level", [0.0, 1.0, math.nan, "x", None])
def test_bad_levels_are_refused(level: Any) -> None:
    with pytest.raises(InvalidValue, match="'level' parameter of SurpriseTest"):
        SurpriseTest(level)


@pytest.mark.parametrize(
    ("allowed", "foretold"), [(2, 0.5), ("yes", 0.5), (True, 1.1), (True, None)]
)
def test_bad_answers_are_refused_and_change_nothing(allowed: Any, foretold: Any) -> None:
    test = SurpriseTest(0.05)
    with pytest.raises(InvalidValue):
        test.observe(allowed, foretold)
    assert test.answers == 0


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), max_size=30), st.integers(0, 30))
def test_a_saved_test_goes_on_with_the_same_bits(answers: Answers, pause: int) -> None:
    whole, saved = fed(answers), fed(answers[:pause]).copy()
    for allowed, foretold in answers[pause:]:
        saved.observe(allowed, foretold)
    for name, array in whole.to_state().items():
        assert array.tobytes() == saved.to_state()[name].tobytes()
    assert saved.level == whole.level


def test_a_copy_goes_its_own_way() -> None:
    test = fed([(True, 0.9)])
    twin = test.copy()
    twin.observe(False, 0.99)
    assert (test.answers, twin.answers) == (1, 2)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("level", np.array([2.0])),
        ("level", np.array([1])),
        ("counts", np.array([-1, 0])),
        ("counts", np.array([2, 3])),
        ("counts", np.array([2, 1])),
        ("peak", np.array([0.5])),
        ("peak", np.array([np.nan])),
        ("peak", np.array([1e6])),
        ("stakes", np.zeros(3)),
        ("stakes", np.full(10, -1.0)),
        ("stakes", np.full(10, np.nan)),
        ("more", np.zeros(1)),
    ],
)
def test_a_damaged_state_is_refused(name: str, array: Any) -> None:
    state = fed([(True, 0.9), (False, 0.4)]).to_state()
    with pytest.raises(CorruptState, match="SurpriseTest"):
        SurpriseTest.from_state({**state, name: array})


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(CorruptState, match="named arrays"):
        SurpriseTest.from_state([1])
    with pytest.raises(CorruptState, match="not its arrays"):
        SurpriseTest.from_state({})
    with pytest.raises(CorruptState, match="not its arrays"):
        SurpriseTest.from_state({1: np.zeros(1), "a": np.zeros(1)})  # type: ignore[dict-item]

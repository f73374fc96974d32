"""Teaching: which arm to ask about is a policy over the limits' own scores."""

from __future__ import annotations

import numpy as np
import pytest

from bridle.errors import InvalidValue
from bridle.limits import LinearLimits
from bridle.policies import DEFAULT_V, TEACHINGS, Scores, Thompson, Uniform, teaching_policy
from tests import reference
from tests.conftest import check_counts, check_same_law


def test_there_are_the_two_ways_of_the_paper() -> None:
    assert TEACHINGS == ("random", "thompson")
    assert teaching_policy("random") == Uniform()
    assert teaching_policy("thompson") == Thompson(v=DEFAULT_V)
    assert teaching_policy("thompson", 0.7) == Thompson(v=0.7)
    assert teaching_policy("random", v=0.7) == Uniform()


@pytest.mark.parametrize("teaching", ["", "Random", "ucb", None, 1])
def test_other_ways_are_refused(teaching) -> None:
    with pytest.raises(InvalidValue) as caught:
        teaching_policy(teaching)
    assert str(caught.value) == (
        "The 'teaching' parameter of teaching_policy must be one of 'random', 'thompson'. "
        f"Got {teaching!r} instead."
    )


def test_a_bad_spread_is_refused() -> None:
    with pytest.raises(InvalidValue, match="The 'v' parameter of Thompson must be a float"):
        teaching_policy("thompson", -1.0)


@pytest.mark.parametrize("teaching", TEACHINGS)
def test_questions_have_the_references_law(teaching) -> None:
    # The sequence of arms asked in three questions, over many lessons: one of 27. Two-sample
    # chi-square, errs once in 1e6.
    contexts = np.array([[1.0, 0.0], [0.5, -1.0], [1.0, 1.0]])
    world = reference.World(
        contexts, np.zeros((3, 3)), np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]], np.bool_)
    )
    rows = np.arange(3)
    lessons, v = 2_000, 0.8
    rng = np.random.default_rng(21)
    theirs, ours, first = np.zeros(27), np.zeros(27), np.zeros(3)
    policy = teaching_policy(teaching, v)
    for lesson in range(lessons):
        asked = reference.teach(world, rows, how=teaching, v=v, rng=rng).asked
        theirs[int(asked @ [9, 3, 1])] += 1
        limits = LinearLimits(arms=3, features=2)
        place = 0
        for t, c in enumerate(contexts):
            arm = policy.choose(Scores(*limits.scores(c)), key=3 * lesson + t)
            limits.learn(c, arm, bool(world.allowed[t, arm]))
            place = 3 * place + arm
        ours[place] += 1
        first[place // 9] += 1
    check_same_law(ours, theirs)
    check_counts(first, np.full(3, 1.0 / 3.0))  # nothing is known yet: errs once in 1e6

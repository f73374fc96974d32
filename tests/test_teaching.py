import pytest

from bridle.errors import InvalidValue
from bridle.policies import Thompson, Uniform
from bridle.teaching import TEACHINGS, teaching_policy


def test_a_way_of_teaching_is_a_policy_over_the_label() -> None:
    assert teaching_policy("random", v=0.3) == Uniform()
    assert teaching_policy("thompson", v=0.3) == Thompson(v=0.3)
    assert teaching_policy("thompson").v == 0.25
    assert TEACHINGS == ("random", "thompson")


@pytest.mark.parametrize("word", ["greedy", "", None, 1])
def test_other_ways_are_refused(word) -> None:
    with pytest.raises(InvalidValue, match="must be one of 'random', 'thompson'"):
        teaching_policy(word)


def test_a_bad_spread_is_refused() -> None:
    with pytest.raises(InvalidValue, match="'v' parameter of Thompson"):
        teaching_policy("thompson", v=-1.0)

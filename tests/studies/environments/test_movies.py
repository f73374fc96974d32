from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from bridle.errors import InvalidValue, NotPossible
from bridle_studies.environments import Movies, synthetic_block
from bridle_studies.environments.bands import BANDS

BLOCK = synthetic_block(people=40, movies=120, seed=2)
AGED = dataclasses.replace(
    BLOCK,
    bands=("young", "old"),
    band=tuple(k % 2 for k in range(40)),
    origin=dataclasses.replace(BLOCK.origin, title="my ratings", synthetic=False),
)


def test_equal_seeds_give_equal_worlds():
    one, two, other = (Movies(BLOCK).world(seed) for seed in (4, 4, 5))
    assert np.array_equal(one.tables.allowed, two.tables.allowed) and one.arms == two.arms
    assert not np.array_equal(one.tables.allowed, other.tables.allowed)
    assert np.array_equal(one.tables.rewards, other.tables.rewards)


def test_a_world_has_words_for_everything():
    world = Movies(BLOCK).world(1)
    assert world.name == "synthetic movies" and world.reward_unit == "five stars"
    assert world.groups == tuple(BANDS) and {arm.group for arm in world.arms} <= set(BANDS)
    assert world.labels[3] == "movie 4" and world.arms[0].id == "person-1"
    assert np.array_equal(world.tables.rewards, BLOCK.ratings / 5.0)


def test_other_limits_do_not_change_the_ages():
    some, many = (Movies(BLOCK, density=density).world(3) for density in (0.1, 0.4))
    assert some.arms == many.arms


def test_ages_of_the_data():
    world = Movies(AGED, ages="data").world(0)
    assert world.name == "movies" and world.groups == ("young", "old")
    assert [arm.group for arm in world.arms[:3]] == ["young", "old", "young"]
    assert np.asarray(world.denied).shape == (2, 10)
    with pytest.raises(NotPossible, match=r"synthetic movies has no ages\. Take ages='census'"):
        Movies(BLOCK, ages="data")


def test_limits_of_ones_own():
    own = np.zeros((7, 10), int)
    own[0, 6] = 1
    recipe = Movies(BLOCK, limits=own.tolist())
    world = recipe.world(9)
    assert np.array_equal(world.denied, own.astype(bool))
    assert recipe.settings()["limits"] == own.tolist()
    horror = BLOCK.contexts[:, 6] == 1.0
    young = np.array([arm.group == "12-17" for arm in world.arms])
    assert np.array_equal(~world.tables.allowed, np.outer(horror, young))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"density": -0.1}, "'density' parameter of Movies"),
        ({"ages": "guess"}, "one of 'census', 'data'. Got 'guess'"),
        ({"limits": [[0, 1]]}, "7 rows .bands. of 10"),
        ({"limits": [[0, 1], [0]]}, "7 rows .bands. of 10"),
        ({"limits": np.full((7, 10), 2)}, "0 and 1"),
        ({"limits": np.full((7, 10), "x")}, "0 and 1"),
    ],
)
def test_bad_input_is_refused(wrong, message):
    with pytest.raises(InvalidValue, match=message):
        Movies(BLOCK, **wrong)


def test_limits_that_shut_out_a_movie_are_refused():
    with pytest.raises(InvalidValue, match="to everybody"):
        Movies(BLOCK, limits=np.ones((7, 10))).world(0)

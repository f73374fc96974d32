from __future__ import annotations

import numpy as np
import pytest

from bridle import Agent
from bridle.errors import InvalidValue, NotPossible
from bridle_studies.environments import synthetic_movies
from bridle_studies.environments.bands import BANDS
from bridle_studies.environments.genres import GENRES


def test_equal_seeds_give_equal_worlds_and_others_do_not():
    one, two, other = (synthetic_movies(people=30, movies=200, seed=s) for s in (5, 5, 6))
    for name in ("contexts", "rewards", "allowed"):
        assert np.array_equal(getattr(one.tables, name), getattr(two.tables, name))
        assert not np.array_equal(getattr(one.tables, name), getattr(other.tables, name))
    assert one.arms == two.arms
    assert np.array_equal(one.denied, two.denied)


def test_limits_do_not_touch_the_ratings():
    strict, free = (synthetic_movies(people=30, density=density) for density in (0.4, 0.0))
    assert np.array_equal(strict.tables.rewards, free.tables.rewards)
    assert free.tables.allowed.all()
    assert not strict.tables.allowed.all()


@pytest.mark.parametrize("seed", range(5))
def test_a_movie_is_denied_if_any_of_its_genres_is_denied_to_the_band(seed):
    world = synthetic_movies(people=25, movies=150, seed=seed)
    for row in range(0, 150, 7):
        genres = world.context(row)["genres"]
        assert genres
        for k, arm in enumerate(world.arms):
            denied = np.asarray(world.denied)[world.groups.index(arm.group)]
            no = {genre for genre, cell in zip(GENRES, denied, strict=True) if cell}
            assert world.tables.allowed[row, k] == no.isdisjoint(genres)
    assert world.tables.allowed.any(axis=1).all()


def test_genres_and_bands_come_by_their_shares():
    # 20,000 draws: a share's standard error is at most .0035, and .02 is 5.6 of that. For all 17
    # shares the probability of a false alarm is below 1e-6.
    many_movies = synthetic_movies(people=10, movies=20_000, density=0.0, seed=1)
    drawn = many_movies.tables.contexts.mean(axis=0)
    assert np.abs(drawn - [*GENRES.values()]).max() < 0.02
    many_people = synthetic_movies(people=10_000, movies=20, density=0.0, seed=1)
    groups = [arm.group for arm in many_people.arms] + [
        arm.group for arm in synthetic_movies(people=10_000, movies=20, density=0.0, seed=2).arms
    ]
    bands = np.array([groups.count(band) for band in BANDS]) / len(groups)
    assert np.abs(bands - [*BANDS.values()]).max() < 0.02


def test_ratings_have_the_declared_level_and_spread():
    stars = synthetic_movies(people=1_000, movies=1_000, density=0.0, seed=1).tables.rewards * 5
    assert set(np.unique(stars).tolist()) == {i / 2 for i in range(1, 11)}
    # Standard error of the mean: √(.40² + .48²) / √1000 = .02, so .1 is 5 of them: a false alarm
    # has a probability below 1e-6. Clipping at 5 stars takes about .01 off.
    assert stars.mean() == pytest.approx(3.45, abs=0.1)
    # The spreads' squares add up; a movie has 2.36 genres on average. Its standard error is 1 %,
    # and clipping takes 3 % off.
    spread = (0.40**2 + 0.48**2 + 2.36 * 0.15**2 + 0.70**2) ** 0.5
    assert stars.std() == pytest.approx(spread, rel=0.07)


def test_an_agent_takes_its_arms_schema_and_contexts():
    world = synthetic_movies(people=10, movies=50)
    agent = Agent(arms=world.arms, features=world.schema)
    for row in range(5):
        made = agent.make.decided(world.context(row))
        assert made.context == tuple(world.tables.contexts[row].tolist())
    assert "synthetic" in world.name and "synthetic" in world.origin.title
    assert world.origin.synthetic


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"people": 0}, "'people' parameter of synthetic_block must be an int in the range"),
        ({"movies": 2.5}, "'movies' parameter"),
        ({"density": 1.5}, r"'density' parameter .* in the range \[0, 1\]. Got 1.5"),
        ({"seed": -1}, "'seed' parameter"),
        ({"people": 10_000, "movies": 100_000}, "at most 20,000,000"),
    ],
)
def test_bad_input_is_refused(wrong, message):
    with pytest.raises(InvalidValue, match=message):
        synthetic_movies(**wrong)


def test_limits_that_cannot_be_are_refused():
    with pytest.raises(NotPossible, match="Take a lower density"):
        synthetic_movies(people=5, movies=20, density=1.0)


def test_the_block_is_like_the_real_one():
    # Facts of the real block of MovieLens 20M: mean 3.647, sd .981; a random arm has R of about
    # .29. The generator's level is its own (3.45), and 1,000 movies are less liked than 200.
    world = synthetic_movies(seed=0)
    stars = world.tables.rewards * 5.0
    assert abs(stars.mean() - 3.647) < 0.3
    assert abs(stars.std() - 0.981) < 0.1
    random_regret = (world.tables.best[:, None] - world.tables.rewards).mean()
    assert abs(random_regret - 0.29) < 0.03

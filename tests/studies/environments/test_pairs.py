from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.errors import InvalidValue
from bridle_studies.environments.movies import Movies
from bridle_studies.environments.pairs import Pairs, allowed_by_pairs, draw_pairs
from bridle_studies.environments.synthetic import synthetic_block

MOVIES = Movies(synthetic_block(people=14, movies=60, seed=2))


def by_hand(world, denied):
    """Go through every movie and person, as the definition reads."""
    names = list(world.groups)
    allowed = np.ones(world.tables.allowed.shape, bool)
    for m, movie in enumerate(world.tables.contexts):
        for k, arm in enumerate(world.arms):
            for i, j in denied[names.index(arm.group)]:
                if movie[i] == 1.0 and movie[j] == 1.0:
                    allowed[m, k] = False
    return allowed


@given(st.integers(0, 50), st.booleans())
def test_the_limits_are_what_they_are_said_to_be(seed, singles):
    recipe = Pairs(MOVIES, singles=singles)
    world, plain = recipe.world(seed), MOVIES.world(seed)
    denied = recipe.denied_pairs(seed)
    assert denied.shape == (7, 4, 2)
    expected = by_hand(world, denied)
    if singles:
        expected &= plain.tables.allowed
    assert (world.tables.allowed == expected).all()
    # The rest is that of the same seed without pairs.
    assert (world.tables.rewards == plain.tables.rewards).all()
    assert world.arms == plain.arms and world.labels == plain.labels
    assert world.denied is None  # the limits are not of that form


def test_equal_seeds_equal_worlds():
    one, same, other = (Pairs(MOVIES).world(seed).tables.allowed for seed in (3, 3, 4))
    assert (one == same).all() and (one != other).any()


def test_pairs_are_different_and_each_as_likely():
    rng = np.random.default_rng(1)
    counts = np.zeros((5, 5))
    for _ in range(500):
        for band in draw_pairs(3, 5, 4, rng):
            assert len({tuple(pair) for pair in band}) == 4
            assert (band[:, 0] < band[:, 1]).all()
            counts[band[:, 0], band[:, 1]] += 1
    seen = counts[np.triu_indices(5, 1)]
    # Binomial(1500, .4) each. By Hoeffding's bound one of ten such counts leaves 600 ± 120 with
    # probability below 20 exp(−2 · 120² / 1500) = 1e-7.
    assert (abs(seen - 600) < 120).all()


def test_names_and_settings():
    assert Pairs(MOVIES).name == "synthetic movies, pairs"
    both = Pairs(MOVIES, singles=True)
    assert both.name == "synthetic movies, both"
    assert both.settings()["pairs"] == 4 and both.settings()["singles"] is True
    assert both.settings()["density"] == 0.33
    assert len(both) == 60 and both.origin.synthetic


def test_no_pairs_deny_nothing():
    assert Pairs(MOVIES, pairs=0).world(1).tables.allowed.all()
    nothing = np.empty((2, 0, 2), np.int64)
    assert allowed_by_pairs(np.ones((1, 3)), nothing, np.array([0, 1])).all()


@pytest.mark.parametrize("pairs", [-1, 46, 1.5, True])
def test_as_many_pairs_as_there_are(pairs):
    with pytest.raises(InvalidValue, match="pairs"):
        Pairs(MOVIES, pairs=pairs)


def test_movies_are_movies():
    with pytest.raises(InvalidValue, match="movies"):
        Pairs(synthetic_block(people=3, movies=5))

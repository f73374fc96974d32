from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.errors import InvalidValue
from bridle_studies.environments.alignment import Aligned
from bridle_studies.environments.synthetic import synthetic_block

BLOCK = synthetic_block(people=14, movies=60, seed=2)


@given(st.integers(0, 50), st.floats(-1, 1), st.sampled_from([0.1, 0.33, 0.5]))
def test_only_what_is_denied_is_moved(seed, alignment, density):
    tables = Aligned(BLOCK, alignment=alignment, density=density).world(seed).tables
    for m in range(0, 60, 7):
        for k in range(14):
            stars = BLOCK.ratings[m, k]
            if not tables.allowed[m, k]:
                stars = min(max(stars - 2.0 * alignment, 0.5), 5.0)
            assert tables.rewards[m, k] == pytest.approx(stars / 5.0, abs=1e-12)


def test_the_limits_are_those_of_the_bands():
    world = Aligned(BLOCK).world(5)
    bands = [world.groups.index(arm.group) for arm in world.arms]
    assert world.denied is not None
    for m, movie in enumerate(world.tables.contexts):
        for k, band in enumerate(bands):
            denied = any(movie[g] and world.denied[band, g] for g in range(10))
            assert world.tables.allowed[m, k] == (not denied)


def test_a_seed_has_one_set_of_limits_and_denser_ones_contain_them():
    at = [Aligned(BLOCK, alignment=a).world(1).tables.allowed for a in (-1, 0, 1)]
    assert (at[0] == at[1]).all() and (at[1] == at[2]).all()
    few, many = (Aligned(BLOCK, density=d).world(1).tables.allowed for d in (0.1, 0.5))
    assert (few | ~many).all() and (few != many).any()
    assert (Aligned(BLOCK).world(1).tables.allowed != Aligned(BLOCK).world(2).tables.allowed).any()


def test_what_can_be_had_inside_does_not_depend_on_alignment():
    inside = [Aligned(BLOCK, alignment=a).world(3).tables.best_allowed for a in (-1, 0, 1)]
    assert (inside[0] == inside[1]).all() and (inside[1] == inside[2]).all()
    best = [Aligned(BLOCK, alignment=a).world(3).tables.best.mean() for a in (-1, 0, 1)]
    assert best[0] > best[1] > best[2]


def test_it_says_that_it_is_made_up():
    recipe = Aligned(BLOCK, alignment=-0.5, density=0.2)
    assert recipe.name == "synthetic density=0.2 alignment=-0.5"
    assert "+1 stars" in recipe.origin.about
    real = dataclasses.replace(BLOCK.origin, title="MovieLens", synthetic=False)
    moved = Aligned(dataclasses.replace(BLOCK, origin=real)).origin
    assert moved.synthetic and moved.title == "synthetic, after MovieLens"
    assert recipe.settings() == {
        "alignment": -0.5,
        "density": 0.2,
        "shift": 2.0,
        "people": 14,
        "movies": 60,
    }
    assert len(recipe) == 60


@pytest.mark.parametrize(
    "wrong", [{"alignment": 1.5}, {"alignment": np.nan}, {"density": -0.1}, {"shift": 9.0}]
)
def test_ranges(wrong):
    with pytest.raises(InvalidValue, match=next(iter(wrong))):
        Aligned(BLOCK, **wrong)

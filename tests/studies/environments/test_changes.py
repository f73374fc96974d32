"""Limits that change: one step stricter or looser by levels, and denied arms that pay."""

from __future__ import annotations

import numpy as np
import pytest

from bridle.agent.config import Arm
from bridle.errors import InvalidValue
from bridle.simulate import Tables
from bridle_studies.environments.changes import looser, paying, stricter
from bridle_studies.environments.exceptions import Exceptions
from bridle_studies.environments.items import Items
from bridle_studies.environments.itemtables import read_items
from bridle_studies.environments.world import World
from tests.studies.environments.made_up import real

BAND = np.array([2, 0, 3, 1, 0, 2, 3, 1])  # in no order, as people come
NAMES = ("a", "b", "c", "d")


def world_of(allowed, band=BAND, names=NAMES) -> World:
    M, K = allowed.shape
    rng = np.random.default_rng(5)
    base = World.from_tables(
        rng.random((M, 2)),
        rng.random((M, K)),
        allowed,
        arms=[Arm(f"p{k}", group=names[b]) for k, b in enumerate(band.tolist())],
    )
    return World(
        name="w",
        origin=base.origin,
        tables=base.tables,
        schema=base.schema,
        arms=base.arms,
        groups=names,
    )


LEVEL = np.array([0, 1, 2, 3, 1, 0])


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 9])
def test_an_item_counts_as_of_another_level(steps):
    world = world_of(LEVEL[:, None] <= BAND)
    after = stricter(world, steps=steps)
    assert np.array_equal(after.allowed, np.minimum(LEVEL + steps, 3)[:, None] <= BAND)
    assert after.allowed[:, BAND == 3].all()
    relaxed = looser(world, steps=steps)
    assert np.array_equal(relaxed.allowed, np.maximum(LEVEL - steps, 0)[:, None] <= BAND)
    for tables in (after, relaxed):
        assert np.array_equal(tables.contexts, world.tables.contexts)
        assert np.array_equal(tables.rewards, world.tables.rewards)
    # The world itself is as it was.
    assert np.array_equal(world.tables.allowed, LEVEL[:, None] <= BAND)


def test_limits_out_of_order_never_change_the_wrong_way():
    world = Exceptions(rate=0.5, scattered=True, items=200, people=20).world(3)
    before = world.tables.allowed
    assert not (stricter(world).allowed & ~before).any()
    assert not (before & ~looser(world).allowed).any()
    assert (stricter(world).allowed != before).any() and (looser(world).allowed != before).any()


def test_the_highest_band_stays_as_it_was():
    by_band = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]], np.bool_)
    world = world_of(by_band[:, BAND])
    top = BAND == 3
    for tables in (stricter(world), looser(world)):
        assert np.array_equal(tables.allowed[:, top], world.tables.allowed[:, top])


def test_worlds_without_bands_are_refused():
    allowed = LEVEL[:, None] <= BAND
    mixed = allowed.copy()
    mixed[1, 0] = ~mixed[1, 0]
    plain = World.from_tables(np.ones((6, 1)), np.full((6, 8), 0.5), allowed)
    for change in (stricter, looser):
        with pytest.raises(InvalidValue, match="different limits in the group 'c'"):
            change(world_of(mixed))
        with pytest.raises(InvalidValue, match="bands in order"):
            change(plain)
        with pytest.raises(InvalidValue, match="no arm in the group 'e'"):
            change(world_of(allowed, names=(*NAMES, "e")))
        with pytest.raises(InvalidValue, match="'steps' parameter"):
            change(world_of(allowed), steps=-1)


def test_denied_arms_pay():
    tables = Tables(np.ones((2, 1)), [[0.2, 0.9, 0.4], [0.1, 0.5, 0.3]], [[0, 0, 1], [1, 0, 1]])
    assert np.allclose(paying(tables, 0.3).rewards, [[0.5, 1.0, 0.4], [0.1, 0.8, 0.3]])
    second = paying(tables, 0.3, contexts=np.array([False, True]))
    assert np.allclose(second.rewards, [[0.2, 0.9, 0.4], [0.1, 0.8, 0.3]])
    assert np.array_equal(second.allowed, tables.allowed) and tables.rewards[0, 0] == 0.2
    with pytest.raises(InvalidValue, match="'bonus' parameter of paying"):
        paying(tables, 1.5)
    with pytest.raises(InvalidValue, match="'contexts' parameter of paying"):
        paying(tables, 0.3, contexts=np.array([True]))


def test_films_one_step_stricter():
    levels = ["G", "PG", "PG-13", "R+NC-17"]
    films = read_items(
        real("mpaa/films.csv"), label="certificate", levels=levels, features=["genres"]
    )
    world = Items(films).world(1)
    band = np.array([levels.index(str(arm.group)) for arm in world.arms])
    after = stricter(world).allowed
    assert np.array_equal(after, np.minimum(films.level + 1, 3)[:, None] <= band)
    assert not after[:, band == 0].any() and after[:, band == 3].all()
    assert after[:, band == 1].any(axis=1).sum() == 38  # what only children saw: G

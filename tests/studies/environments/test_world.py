from __future__ import annotations

import numpy as np
import pytest

from bridle import Arm, Labels, Number, Schema
from bridle.errors import InvalidValue
from bridle_studies.environments import Fixed, Origin, World

TABLES = ([[1.0, 0.0], [0.5, 1.0]], [[0.2, 0.9], [0.3, 0.1]], [[1, 0], [0, 0]])


def test_own_tables_become_a_world():
    world = World.from_tables(
        *TABLES,
        name="mine",
        features=[Number("age", 0, 100, unit="years"), Number("risk")],
        arms=[Arm("a", "the first", "left"), Arm("b", "the second", "right")],
        labels=("one", "two"),
        reward_unit="a sale",
    )
    assert world.groups == ("left", "right") and world.labels == ("one", "two")
    assert world.context(1) == {"age": 50.0, "risk": 1.0}
    assert not world.tables.allowed[1].any()  # a context with nothing allowed is taken as it is
    assert world.origin.title == "mine" and not world.origin.synthetic
    recipe = Fixed(world)
    assert recipe.world(1) is recipe.world(2) is world and len(recipe) == 2
    assert recipe.name == "mine" and recipe.settings() == {} and recipe.origin is world.origin


def test_names_may_be_left_out():
    world = World.from_tables(*TABLES)
    assert [arm.id for arm in world.arms] == [0, 1] and world.groups == ()
    assert world.schema.columns == ("x0", "x1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arms": ["a"]}, "'arms' parameter of World must be 2 of them. Got 1"),
        ({"features": Schema([Labels("x", ["a"])])}, "of width 2, as the contexts. Got 1"),
        ({"labels": ("one",)}, "2 of them, one for each context. Got 1"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(InvalidValue, match=message):
        World.from_tables(*TABLES, **change)


def test_bad_tables_are_refused():
    with pytest.raises(InvalidValue, match=r"in the range \[0, 1\]. Got 1.5"):
        World.from_tables(TABLES[0], np.full((2, 2), 1.5), TABLES[2])


def test_an_origin_is_plain_json():
    origin = Origin(title="t", synthetic=True, files={"a": "b"}, notes=("n",))
    assert origin.to_json()["notes"] == ["n"] and origin.to_json()["files"] == {"a": "b"}


def test_a_world_shows_itself_in_a_line_and_in_a_table():
    world = World.from_tables(
        [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [1.0, 0.0]], [[1, 1], [0, 1]], name="a <b> world"
    )
    assert repr(world) == ("<World 'a <b> world': 2 contexts of 2 features, 2 arms, 25 % denied>")
    assert "a &lt;b&gt; world" in world._repr_html_()
    assert "25 % denied" in world._repr_html_()

"""Worlds of rare exceptions: kinds, who deviates, what it pays, and what belongs together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridle.errors import InvalidValue, NotPossible
from bridle_studies.environments.exceptions import BANDS, Exceptions, draw_features, draw_words
from bridle_studies.environments.itemtables import read_items
from tests.studies.environments.made_up import real

SEEDS = range(8)


def bands(world):
    return np.array([BANDS.index(str(arm.group)) for arm in world.arms])


def table(tmp_path: Path, text: str):
    path = tmp_path / "things.csv"
    path.write_text(text)
    return read_items(path, label="level", levels=["low", "high"])


def things(tmp_path: Path):
    """Things with a number, a flag, a category and labels, each word in 2 of 20 rows or more."""
    rows = [
        f"t{i},{i % 7 + 0.5},{int(i % 5 == 0)},{'xyz'[i % 3]},"
        f"{'|'.join(w for j, w in enumerate('pqrs') if (i + j) % (3 + j) == 0)},"
        f"{'low' if i % 2 else 'high'}"
        for i in range(60)
    ]
    return table(tmp_path, "name,size,new,shape,tags,level\n" + "\n".join(rows) + "\n")


# -- kinds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_limits_are_those_of_the_words_but_for_exceptions(seed):
    recipe = Exceptions(rate=0.05)
    world, kinds = recipe.world(seed), recipe.kinds(seed)
    assert world.tables.contexts.shape == (1_500, 12) and world.tables.arms == 60
    band = bands(world)
    assert set(band.tolist()) == {0, 1, 2, 3}
    # Reckoned anew, an item at a time, from the words alone.
    for m in range(len(recipe)):
        words: Any = world.context(m)["words"]
        held = [f"words={word}" for word in words]
        level = max((kinds.words.get(word, 0) for word in held), default=0)
        assert kinds.level[m] == level and kinds.free[m] == (level == 0)
        if not kinds.exceptions[m]:
            assert np.array_equal(world.tables.allowed[m], level <= band)
    assert not (kinds.exceptions & ~kinds.free).any()
    assert abs(kinds.free.mean() - 0.8) <= 0.02
    assert set(kinds.words.values()) <= {1, 2, 3} and kinds.words
    # An exception has a level: whoever is in a lower band is denied, the highest never.
    theirs = kinds.by_band[kinds.exceptions]
    assert not theirs[:, 0].any() and theirs[:, 3].all()
    assert (np.diff(theirs.astype(int), axis=1) >= 0).all()
    assert world.tables.allowed[:, band == 3].all()


@pytest.mark.parametrize("rate", [0.01, 0.02, 0.05])
def test_the_rate_of_exceptions(rate):
    free = found = 0
    levels = np.zeros(4, int)
    for seed in range(20):
        kinds = Exceptions(rate=rate).kinds(seed)
        free, found = free + int(kinds.free.sum()), found + int(kinds.exceptions.sum())
        levels += np.bincount((~kinds.by_band[kinds.exceptions]).sum(axis=1), minlength=4)
    # Four binomial counts: one beyond 6 standard deviations with probability below 1e-6.
    assert abs(found - rate * free) < 6 * (free * rate * (1.0 - rate)) ** 0.5
    assert levels[0] == 0
    assert (abs(levels[1:] - found / 3) < 6 * (found * 2 / 9) ** 0.5).all()


def test_scattered_exceptions_follow_no_order():
    patterns: dict[tuple[bool, ...], int] = {}
    for seed in range(6):
        kinds = Exceptions(rate=0.3, scattered=True).kinds(seed)
        for row in kinds.by_band[kinds.exceptions].tolist():
            patterns[tuple(row)] = patterns.get(tuple(row), 0) + 1
        others = ~kinds.exceptions
        by_level = kinds.level[:, None] <= np.arange(4)
        assert np.array_equal(kinds.by_band[others], by_level[others])
    # Each way to deny at least one of three bands, equally likely; the highest band is allowed.
    total = sum(patterns.values())
    assert len(patterns) == 7 and all(row[3] and not all(row) for row in patterns)
    # Seven binomial counts: one beyond 6 standard deviations with probability below 1e-6.
    assert all(abs(n - total / 7) < 6 * (total * 6 / 49) ** 0.5 for n in patterns.values())


def test_no_exceptions_and_none_but_exceptions():
    none = Exceptions(rate=0.0).kinds(1)
    assert not none.exceptions.any() and none.by_band[none.free].all()
    every = Exceptions(rate=1.0).kinds(1)
    assert np.array_equal(every.exceptions, every.free)
    free = Exceptions(free=1.0, rate=0.0).world(1)
    assert free.tables.allowed.all() and "Restricted words: none." in free.origin.notes


# -- what belongs together -----------------------------------------------------------------------


def test_worlds_of_one_seed_belong_together():
    low, high = Exceptions(rate=0.01), Exceptions(rate=0.05)
    few, many = low.kinds(4), high.kinds(4)
    assert few.words == many.words and np.array_equal(few.level, many.level)
    assert not (few.exceptions & ~many.exceptions).any()
    assert 0 < few.exceptions.sum() < many.exceptions.sum()
    one, other = low.world(4), high.world(4)
    assert np.array_equal(one.tables.rewards, other.tables.rewards) and one.arms == other.arms
    scattered = Exceptions(rate=0.05, scattered=True)
    assert np.array_equal(scattered.kinds(4).exceptions, many.exceptions)
    again, next_one = high.world(4), high.world(5)
    for name in ("contexts", "rewards", "allowed"):
        assert np.array_equal(getattr(other.tables, name), getattr(again.tables, name))
        assert not np.array_equal(getattr(other.tables, name), getattr(next_one.tables, name))
    assert other.origin == again.origin


def test_exceptions_pay_where_they_are_denied():
    plain, paid = Exceptions(rate=0.05), Exceptions(rate=0.05, pays=0.3)
    before, after = plain.world(2).tables, paid.world(2).tables
    assert np.array_equal(before.allowed, after.allowed)
    pays = plain.kinds(2).exceptions[:, None] & ~before.allowed
    assert pays.any() and (~before.allowed & ~pays).any()
    assert np.array_equal(after.rewards[~pays], before.rewards[~pays])
    assert np.allclose(after.rewards[pays], np.minimum(before.rewards[pays] + 0.3, 1.0))
    assert (after.rewards[pays] > before.rewards[pays]).mean() > 0.9


def test_what_is_told():
    world = Exceptions(rate=0.05, pays=0.3, scattered=True).world(2)
    kinds = Exceptions(rate=0.05, pays=0.3, scattered=True).kinds(2)
    told = " ".join(world.origin.notes)
    allowed = world.tables.allowed
    assert f"{kinds.free.sum():,} of 1,500 items ({kinds.free.mean():.1%})" in told
    assert f"; {kinds.exceptions.sum()} of these (" in told
    assert f"{(~allowed).sum():,} of 90,000 pairs" in told
    assert f"{(~allowed[kinds.exceptions]).sum():,} of them by exceptions" in told
    assert all(f"{word} (level {level})" in told for word, level in kinds.words.items())
    assert world.name == "made-up words, 5 % exceptions, scattered, paying 0.3"
    assert world.origin.synthetic and "synthetic" in world.origin.title
    assert Exceptions(name="mine").world(0).name == "mine"
    assert len(set(world.labels)) == 1_500
    settings = Exceptions(rate=0.05, pays=0.3, scattered=True).settings()
    assert settings["rate"] == 0.05 and settings["scattered"] is True
    assert settings["sha256"] is None and settings["items"] == 1_500


# -- features of a table -------------------------------------------------------------------------


def test_features_of_a_table(tmp_path):
    source = things(tmp_path)
    recipe = Exceptions(features=source, rate=0.1, items=400, people=12)
    world, kinds = recipe.world(1), recipe.kinds(1)
    assert len(recipe) == len(world.tables) == 400 and world.schema is source.schema
    assert np.array_equal(world.tables.contexts, source.contexts[kinds.rows])
    # 400 of 60: some row must come twice, and is two items, with names of their own.
    assert len(np.unique(kinds.rows)) <= 60 and len(set(world.labels)) == 400
    assert world.labels[7] == f"item 8, like {source.labels[kinds.rows[7]]}"
    # A number is no word.
    assert not any(word.startswith("size") for word in kinds.words)
    assert world.origin.files == {"things.csv": source.sha256}
    assert recipe.settings()["sha256"] == source.sha256
    alike = [kinds.exceptions[kinds.rows == row] for row in np.unique(kinds.rows)]
    assert any(group.any() and not group.all() for group in alike)  # no feature tells


def test_tables_that_do_not_serve(tmp_path):
    sizes = "size,level\n1.5,low\n2.5,high\n3.5,low\n3.5,high\n"
    with pytest.raises(InvalidValue, match="a column of words or flags"):
        Exceptions(features=table(tmp_path, sizes))
    one_word = "new,level\n" + "1,low\n0,high\n" * 10
    with pytest.raises(NotPossible, match="about 20% of the items"):
        Exceptions(features=table(tmp_path, one_word)).world(0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("features", "films.csv"),
        ("rate", 1.5),
        ("rate", "much"),
        ("free", -0.1),
        ("pays", 2),
        ("scattered", "yes"),
        ("items", 9),
        ("items", 1e3),
        ("people", 1),
    ],
)
def test_what_is_refused(name, value):
    with pytest.raises(InvalidValue, match=f"'{name}' parameter of Exceptions"):
        Exceptions(**{name: value})
    with pytest.raises(InvalidValue, match="'seed' parameter"):
        Exceptions().world(-1)


# -- words ---------------------------------------------------------------------------------------


def test_words_cover_the_share():
    holds = draw_features(2_000, np.random.default_rng(3)) > 0.5
    drawn = set[tuple[int, ...]]()
    for seed in range(30):
        words = draw_words(holds, 0.2, np.random.default_rng(seed))
        assert words == sorted(set(words))
        assert abs(holds[:, words].any(axis=1).mean() - 0.2) <= 0.02
        drawn.add(tuple(words))
    assert len(drawn) > 3  # by chance, not always the same ones
    assert draw_words(holds, 0.0, np.random.default_rng(0)) == []


def test_rare_words_make_no_kinds():
    holds = np.zeros((1_000, 4), np.bool_)
    holds[:19, 0] = True  # 1.9 %
    holds[100:250, 1] = holds[240:301, 2] = True
    holds[500:, 3] = True  # too many
    for seed in range(10):
        assert draw_words(holds, 0.2, np.random.default_rng(seed)) == [1, 2]
    with pytest.raises(NotPossible, match=r"off by 9\.9%"):
        draw_words(holds, 0.3, np.random.default_rng(0))


def test_made_up_words_are_unequally_frequent():
    held = draw_features(4_000, np.random.default_rng(1))
    assert set(np.unique(held)) == {0.0, 1.0}
    assert np.bincount(held.sum(axis=1).astype(int), minlength=5)[2:].min() > 1_000
    shares = held.mean(axis=0)
    # Frequencies fall from about .6 to .04. The nearest two that are compared, four words apart,
    # differ by more than 8 standard errors: the wrong order has probability below 1e-6.
    assert (shares[:-4] > shares[4:]).all() and shares[0] > 10 * shares[-1] > 0.2


# -- real data -----------------------------------------------------------------------------------


def test_films_and_games():
    levels = ["G", "PG", "PG-13", "R+NC-17"]
    films = read_items(
        real("mpaa/films.csv"), label="certificate", levels=levels, features=["genres"]
    )
    games = read_items(real("esrb/games.csv"), label="esrb_rating", levels=["E", "ET", "T", "M"])
    for source in (films, games):
        recipe = Exceptions(features=source, rate=0.02)
        for seed in range(20):
            kinds = recipe.kinds(seed)
            assert abs(kinds.free.mean() - 0.8) <= 0.02
            assert kinds.exceptions.any() and kinds.by_band[:, 3].all()
        world = recipe.world(0)
        assert world.tables.rewards.shape == (1_500, 60)
        assert world.tables.allowed.any(axis=1).all()

"""Tables of items: how columns are read, what is refused, and the worlds drawn from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bridle.errors import CorruptState, InvalidValue, LimitReached, NotPossible
from bridle.schema import Category, Flag, Labels, Number
from bridle_studies.environments import ages, itemtables
from bridle_studies.environments.ages import Ages, read_ages
from bridle_studies.environments.itemcolumns import read_column
from bridle_studies.environments.items import Items, draw_bands, draw_rewards, read_tastes
from bridle_studies.environments.itemtables import read_items
from tests.studies.environments.made_up import lay_out, real

FILMS = """\
movieId,title,genres,certificate,year,colour,console,studio,note
1,Toy,Comedy|Drama,G,1995,1,true,A,
2,Gold,Action;x,PG,1995,0,false,B,
10,Heat,Action|Crime,R,1997,1,true,A,
11,Show,Comedy,NC-17,2001,,false,,
12,Lost,Drama| Crime |,PG,,0,true,B,
13,Dogs,,TV-MA,1990,1,true,B,
14,Cats,,,1990,1,true,B,
"""


def table(tmp_path: Path, text: str = FILMS, **how):
    path = tmp_path / "films.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    given = {"label": "certificate", "levels": ["G", "PG", "R+NC-17"]} | how
    return read_items(path, **given)


# -- rows, levels, kinds of columns --------------------------------------------------------------


def test_rows_and_levels(tmp_path):
    read = table(tmp_path)
    assert read.levels == ("G", "PG", "R+NC-17") and read.level.tolist() == [0, 1, 2, 2, 1]
    assert read.labels == ("Toy", "Gold", "Heat", "Show", "Lost") and read.name == "films"
    assert read.movies is not None and read.movies.tolist() == [1, 2, 10, 11, 12]
    assert "5 of 7 rows kept, by certificate: G 1, PG 2, R+NC-17 2." in read.notes
    left_out = next(note for note in read.notes if "rows left out" in note)
    assert "2 of 7" in left_out and "TV-MA 1" in left_out and "empty 1" in left_out
    assert len(read) == len(read.contexts) == 5 and len(read.sha256) == 64


def test_columns_by_kind(tmp_path):
    read = table(tmp_path)
    by_name = {feature.name: feature for feature in read.schema.features}
    assert [*by_name] == ["genres", "year", "colour", "console", "studio"]
    genres = by_name["genres"]
    # The first separator that the column has counts: ";" is part of a word where there is "|".
    assert isinstance(genres, Labels)
    assert genres.values == ("Action", "Action;x", "Comedy", "Crime", "Drama")
    year = by_name["year"]
    assert isinstance(year, Number) and (year.low, year.high) == (1995.0, 2001.0)
    assert year.missing == pytest.approx(1997.0)
    assert isinstance(by_name["colour"], Flag) and isinstance(by_name["console"], Flag)
    assert isinstance(by_name["studio"], Category)
    rows = [read.schema.decode(row) for row in read.contexts]
    assert rows[0] == {
        "genres": ("Comedy", "Drama"),
        "year": 1995.0,
        "colour": True,
        "console": True,
        "studio": "A",
    }
    assert rows[3]["colour"] is False and rows[3]["studio"] is None
    assert rows[4]["genres"] == ("Crime", "Drama") and rows[4]["year"] == pytest.approx(1997.0)
    told = " ".join(read.notes)
    assert "column title, all values differ" in told and "column note, it has no values" in told
    assert "column movieId, an id" in told
    assert "colour (1 missing, taken as 0)" in told
    assert "1995 to 2001, 1 missing, taken as the mean 1997" in told


def test_contexts_are_what_the_schema_encodes(tmp_path):
    read = table(tmp_path)
    again = read.schema.encode_many([read.schema.decode(row) for row in read.contexts])
    assert np.array_equal(again, read.contexts)


def test_chosen_columns(tmp_path):
    read = table(tmp_path, features=["studio", "genres:2"])
    # Comedy, Crime and Drama stand in two rows each: ties go by the alphabet.
    assert read.schema.columns == ("studio=A", "studio=B", "genres=Comedy", "genres=Crime")
    told = " ".join(read.notes)
    assert "the 2 most frequent of 5 words; 3 left out, each in at most 2 rows: Drama" in told
    assert "Left out: column" not in told


def test_a_named_column_of_whole_numbers_is_no_id(tmp_path):
    text = "id,certificate\n3,G\n1,PG\n2,G\n"
    with pytest.raises(InvalidValue, match=r"All are left out.*an id"):
        table(tmp_path, text, levels=["G", "PG"])
    read = table(tmp_path, text, levels=["G", "PG"], features=["id"])
    assert read.contexts.tolist() == [[1.0], [0.0], [0.5]]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["0", "1", ""], Flag),
        (["True", "false", "TRUE"], Flag),
        (["0.0", "1", "1"], Flag),
        (["1", "2", "2"], Category),  # two numbers are words
        (["1", "2", "3", "3"], Number),
        (["1.5", "2.5", "3.5"], Number),  # no ids, though all differ
        (["-1e3", "2", "NA", "7", "7"], Number),
        (["1_000", "2", "3", "3"], Category),
        (["a", "b", "a"], Category),
        (["a", "", "a"], Category),
        (["a|b", "c", "a|b"], Labels),
        (["a;b", "b;c", "d"], Labels),
    ],
)
def test_what_a_column_is(values, kind):
    column = read_column("x", values, None, named=False)
    assert not isinstance(column, str) and isinstance(column.feature, kind)
    assert column.encoded.shape[0] == len(values)
    assert column.encoded.min() >= 0.0 and column.encoded.max() <= 1.0


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["", "", ""], "no values"),
        (["NA", "", "null"], "no values"),
        (["5", "5", "5"], "one value only"),
        (["a", "b", "c"], "all values differ"),
        (["Who; me", "b", "c", "d"], "all values differ"),  # a title with a semicolon
        (["1", "2", "3"], "an id"),
        (["a" * 101, "a" * 101, "b"], "long text"),
        (["a" * 101 + "|" + "b" * 101, "c" * 101 + "|" + "a" * 101], "too long"),
    ],
)
def test_what_is_left_out(values, why):
    told = read_column("x", values, None, named=False)
    assert isinstance(told, str) and why in told
    if "an id" not in why:
        with pytest.raises(InvalidValue, match=why):
            read_column("x", values, None, named=True)


def test_of_very_many_words_the_most_frequent_are_kept():
    values = [f"w{i}|w{i + 1}" for i in range(150)] + ["w9"]
    column = read_column("x", values, None, named=False)
    assert not isinstance(column, str) and isinstance(column.feature, Labels)
    assert len(column.feature.values) == 100 and "w9" in column.feature.values
    assert "the 100 most frequent of 151 words; 51 left out" in column.about
    many = read_column("x", [f"c{i // 2}" for i in range(300)], None, named=False)
    assert not isinstance(many, str) and many.encoded.shape == (300, 100)
    assert many.encoded.sum() == 200.0  # rows of other words have none


def test_levels_may_hold_a_plus(tmp_path):
    text = "x,age\n1,E\n0,E10+\n1,T\n1,E10+\n"
    read = table(tmp_path, text, label="age", levels=["E", "E10+", "T"])
    assert read.level.tolist() == [0, 1, 2, 1]


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"label": "certificat"}, "Did you mean 'certificate'"),
        ({"label": ""}, "a column of the table"),
        ({"levels": ["G"]}, "2 to 20 values"),
        ({"levels": "G,PG"}, "2 to 20 values"),
        ({"levels": ["G", "PG", "G"]}, "without repetitions"),
        ({"levels": ["G", "PG+G"]}, "without repetitions"),
        ({"levels": ["G", "X"]}, "values that the column 'certificate' has"),
        ({"levels": ["G", "PG+X"]}, "Got 'X'"),
        ({"features": []}, "a list of columns"),
        ({"features": "genres"}, "a list of columns"),
        ({"features": ["genre"]}, "Did you mean 'genres'"),
        ({"features": ["genres", "genres:3"]}, "without repetitions"),
        ({"features": ["certificate"]}, "other columns than the label"),
        ({"features": ["genres:many"]}, "how many words to keep"),
        ({"features": ["genres:0"]}, "an int in the range"),
        ({"features": ["genres:1001"]}, "an int in the range"),
        ({"features": ["year:3"]}, "only for columns of text"),
        ({"features": ["colour:3"]}, "only for columns of text"),
        ({"features": ["note"]}, "it has no values"),
        ({"features": ["title"]}, "all values differ"),
    ],
)
def test_what_cannot_be_asked_for(tmp_path, how, told):
    with pytest.raises(InvalidValue) as caught:
        table(tmp_path, **how)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("", InvalidValue, "at least one row"),
        ("a,certificate\n", InvalidValue, "at least one row"),
        ("a,certificate\n1,G,2\n", CorruptState, "line 2: 3 values for 2 columns"),
        ("a,a,certificate\n1,2,G\n", CorruptState, "2 columns are called 'a'"),
        ('a,certificate\n"1,G\n', CorruptState, "no csv"),
        (b"a,certificate\n\xe9,G\n", CorruptState, "line 2: byte 0xe9 is not UTF-8"),
        ("certificate\nG\nPG\n", InvalidValue, "a column of features beside the label"),
        (f"{'a' * 201},certificate\n1,G\n", CorruptState, "too long"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, text, error, told):
    with pytest.raises(error) as caught:
        table(tmp_path, text, levels=["G", "PG"])
    assert told in str(caught.value)


def test_files_that_are_not_there(tmp_path):
    for path in (tmp_path / "none.csv", tmp_path, None, "a\0b"):
        with pytest.raises(InvalidValue, match="a csv file that exists"):
            read_items(path, label="a", levels=["b", "c"])


def test_sizes_have_limits(tmp_path, monkeypatch):
    for name, value, told in (
        ("MAX_BYTES", 50, "bytes"),
        ("MAX_ROWS", 3, "rows"),
        ("MAX_COLUMNS", 3, "columns"),
        ("MAX_CELLS", 20, "rows"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(itemtables, name, value)
            with pytest.raises(LimitReached, match=told):
                table(tmp_path)
    monkeypatch.setattr(itemtables, "MAX_WIDTH", 3)
    with pytest.raises(InvalidValue, match="at most 3 features"):
        table(tmp_path)


def test_what_a_table_may_lack_is_noted(tmp_path):
    text = "\n,certificate, colour \n0,G,1\n\n1,PG,0\n,,\n2,G,0"
    read = table(tmp_path, text, levels=["G", "PG"])
    assert read.schema.columns == ("colour",) and read.labels[0] == "item 1"
    assert read.movies is None
    told = " ".join(read.notes)
    assert "Blank rows: 3" in told and "may have been cut short" in told
    many = "x,certificate\n" + "".join(f"{i % 2},C{i}\n" for i in range(12)) + "1,G\n0,PG\n"
    assert "and 6 more values" in " ".join(table(tmp_path, many, levels=["G", "PG"]).notes)


# -- worlds --------------------------------------------------------------------------------------


def test_worlds_with_drawn_tastes(tmp_path):
    recipe = Items(table(tmp_path), people=12)
    one, again, other = recipe.world(1), recipe.world(1), recipe.world(2)
    assert np.array_equal(one.tables.rewards, again.tables.rewards)
    assert not np.array_equal(one.tables.rewards, other.tables.rewards)
    assert one.name == "films" and one.groups == ("G", "PG", "R+NC-17") and len(recipe) == 5
    band = np.array([one.groups.index(str(arm.group)) for arm in one.arms])
    assert np.array_equal(one.tables.allowed, recipe.table.level[:, None] <= band)
    assert set(band.tolist()) == {0, 1, 2}
    assert one.tables.allowed[:, band == 2].all()
    assert not one.origin.synthetic and "Tastes of 12 people are drawn" in one.origin.notes[-1]
    assert recipe.settings()["tastes"] == "drawn" and one.origin.files.keys() == {"films.csv"}
    with pytest.raises(InvalidValue, match="people"):
        Items(table(tmp_path), people=1)


def test_drawn_rewards_follow_the_formula():
    contexts = np.ones((4_000, 1))
    rewards = draw_rewards(contexts, 50, np.random.default_rng(3))
    by_arm = rewards.mean(axis=0)
    # 50 draws of N(.55, .12²), and the mean of 4,000 items' N(0, .08²): beyond 5 standard errors
    # with probability below 1e-6 (clipping at 1 lowers it by less than .001).
    assert abs(by_arm.mean() - 0.55) < 5 * 0.12 / 50**0.5
    # A chi-square of 49 degrees: its standard deviation is within a factor of 1.6 likewise.
    assert 0.12 / 1.6 < by_arm.std() < 0.12 * 1.6
    within = rewards[:, abs(by_arm - 0.5) < 0.1]  # not clipped
    assert within.std(axis=0).mean() == pytest.approx(0.08 * 2**0.5, rel=0.05)
    assert rewards.min() >= 0.0 and rewards.max() <= 1.0


def test_no_band_is_empty():
    rng = np.random.default_rng(0)
    assert all(len(np.unique(draw_bands(6, 4, rng))) == 4 for _ in range(50))
    with pytest.raises(NotPossible, match="more people"):
        draw_bands(3, 4, rng)


def test_tastes_by_ratings(tmp_path):
    ratings = [(user, film, 1 + (user + film) % 5, 0) for user in range(1, 6) for film in (1, 2)]
    ratings += [(5, 10, 4, 0), (4, 10, 2, 0), (7, 99, 5, 0), (5, 11, 3, 0)]
    folder = lay_out(tmp_path / "ml", "ml-20m", ratings=ratings, movies=MOVIES)
    read = table(tmp_path)
    tastes = read_tastes(folder, read, people=4)
    assert tastes.people == ("user 5", "user 4", "user 1", "user 2")  # by ratings, then by id
    assert tastes.rewards.shape == (5, 4) and tastes.rewards[2, 0] == 4 / 5
    assert tastes.rewards[2, 1] == 2 / 5 and set(tastes.files) >= {"ratings.csv"}
    told = " ".join(tastes.notes)
    assert "13 ratings of these items by 5 users" in told and "1 items have no ratings" in told
    fewer = read_tastes(folder, read)
    assert len(fewer.people) == 5 and "100 people were asked for; 5" in " ".join(fewer.notes)
    world = Items(read, tastes, name="mine").world(0)
    assert world.name == "mine" and np.array_equal(world.tables.rewards, tastes.rewards)
    assert Items(read, tastes).settings()["people"] == 4


MOVIES = {movie: (f"Film {movie}", "Drama") for movie in (1, 2, 10, 11, 12, 99)}


FEW = [(1, 99, 5, 0), (2, 1, 3, 0)]


def test_ratings_that_do_not_fit(tmp_path):
    folder = lay_out(tmp_path / "ml", "ml-20m", ratings=FEW, movies=MOVIES)
    with pytest.raises(InvalidValue, match="1 ratings by 1 users"):
        read_tastes(folder, table(tmp_path))
    with pytest.raises(InvalidValue, match="'ratings' parameter"):
        read_tastes(tmp_path / "nothing", table(tmp_path))
    twice = FILMS.replace("2,Gold", "1,Gold")
    with pytest.raises(InvalidValue, match="2 rows with the movieId 1"):
        read_tastes(folder, table(tmp_path, twice))
    for text in (
        FILMS.replace("movieId", "id"),
        FILMS.replace("2,Gold", "tt2,Gold"),
        FILMS.replace("2,Gold", "0,Gold"),
    ):
        read = table(tmp_path, text)
        assert read.movies is None
        with pytest.raises(InvalidValue, match="a column 'movieId'"):
            read_tastes(folder, read)


# -- ages ----------------------------------------------------------------------------------------


def test_ages():
    world = Ages(viewers=300, each=2).world(4)
    years = np.array([world.context(m)["age"] for m in range(300)])
    assert years.min() >= 3 and years.max() <= 80 and (years == years.round()).all()
    least = {"G": 0, "PG": 8, "PG-13": 13, "R": 17}
    for k, arm in enumerate(world.arms):
        assert np.array_equal(world.tables.allowed[:, k], years >= least[str(arm.group)])
    assert world.origin.synthetic and "drawn evenly" in world.origin.about
    again = Ages(viewers=300, each=2).world(4)
    assert np.array_equal(world.tables.rewards, again.tables.rewards)
    for how in ({"viewers": 1}, {"each": 0}):
        with pytest.raises(InvalidValue):
            Ages(**how)
    with pytest.raises(InvalidValue, match="78 shares"):
        Ages(np.ones(3))


def census(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_shares_of_ages(tmp_path):
    rows = [f"{sex},{age},{1 + (sex == 0) * age}" for sex in (0, 1) for age in range(101)]
    good = "SEX,AGE,CENSUS2010POP\n" + "\n".join(rows) + "\n"
    shares = read_ages(census(tmp_path / "c.csv", good))
    assert shares.sum() == pytest.approx(1.0) and shares[1] / shares[0] == pytest.approx(5 / 4)
    recipe = Ages(shares, viewers=50)
    assert "Census" in recipe.world(0).origin.about and recipe.settings()["shares"] is not None
    for bad in (
        good.replace("AGE", "YEARS"),
        good.replace("\n0,40,41", ""),
        good.replace("0,40,41", "0,40,x"),
        "SEX,AGE,CENSUS2010POP\n",
    ):
        with pytest.raises(CorruptState, match="Census' table"):
            read_ages(census(tmp_path / "c.csv", bad))
    with pytest.raises(CorruptState, match="below 0"):
        read_ages(census(tmp_path / "c.csv", good.replace("0,40,41", "0,40,-9")))
    assert ages.AGES == (3, 80)


# -- real data -----------------------------------------------------------------------------------


def test_films_and_games():
    levels = ["G", "PG", "PG-13", "R+NC-17"]
    films = read_items(real("mpaa/films.csv"), label="certificate", levels=levels)
    assert len(films) == 1_010 and np.bincount(films.level).tolist() == [38, 168, 245, 559]
    assert {feature.name for feature in films.schema.features} == {"genres", "keywords"}
    genres = read_items(
        real("mpaa/films.csv"), label="certificate", levels=levels, features=["genres"]
    )
    assert len(np.unique(genres.contexts, axis=0)) == 188
    games = read_items(real("esrb/games.csv"), label="esrb_rating", levels=["E", "ET", "T", "M"])
    assert games.contexts.shape == (1_895, 32)
    assert np.bincount(games.level).tolist() == [416, 403, 689, 387]
    tastes = read_tastes(real("ml-1m"), genres)
    assert tastes.rewards.shape == (1_010, 100) and tastes.people[0] == "user 4169"
    assert read_ages(real("census/nc-est2019-agesex-res.csv")).shape == (78,)

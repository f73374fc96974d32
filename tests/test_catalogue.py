"""Catalogues: what tables become, what they may not be, and agents that follow them."""

from __future__ import annotations

import datetime
import math
import subprocess
import sys
from typing import Any

import numpy as np
import polars as pl
import pytest

from bridle import Agent, Arm, Category, Flag, Labels, Number, Schema, catalogue
from bridle.catalogue import changes_of, read_catalogue, update_catalogue
from bridle.errors import InvalidValue, LimitReached, NotPossible

TEXT = """id,title,genres,rating,year,sequel,plot
tt1,Up,Family|Comedy,PG,2009,no,A house flies.
tt2,Alien,Horror,R,1979,no,"Nobody hears, in space."
tt3,"Toy Story, 2",Family | Comedy,G,1999,yes,Toys.
tt4,Untitled,,NA,,no,
"""


@pytest.fixture
def films(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_a_csv_becomes_arms_with_inferred_features(films):
    got = read_catalogue(films, label="title", skip=["plot"])
    assert [arm.id for arm in got.arms] == ["tt1", "tt2", "tt3", "tt4"]
    assert got.arms[2].label == "Toy Story, 2"
    assert got.schema == Schema(
        [
            Labels("genres", ["Comedy", "Family", "Horror"], optional=True),
            Category("rating", ["G", "PG", "R"], optional=True),
            Number("year", 1979, 2009, clip=True, missing=1999, optional=True),
            Flag("sequel", optional=True),
        ]
    )
    assert dict(got.arms[3].features) == {
        "genres": None,
        "rating": None,
        "year": None,
        "sequel": False,
    }
    assert got.describe() == [
        "4 arms of films.csv: ids from 'id', labels from 'title'",
        "genres: any of 3 words: Comedy, Family, Horror; missing in 1, which limits are in doubt "
        "about",
        "rating: one of 3 words: G, PG, R; missing in 1, which limits are in doubt about",
        "year: a number from 1979 to 2009, clipped; missing in 1, which limits are in doubt about",
        "sequel: yes or no",
        "plot: left out: not asked for",
    ]


def test_the_same_table_by_any_road_is_the_same_catalogue(films, tmp_path):
    frame = pl.read_csv(films, null_values=["NA"])
    frame.write_parquet(tmp_path / "films.parquet")
    frame.write_csv(tmp_path / "films.tsv", separator="\t")
    given = {"label": "title", "skip": ["plot"]}
    want = read_catalogue(films, **given)

    class Series(list):
        def to_list(self):
            return list(self)

    class Pandas:  # what is used of pandas, which has NaN for what is missing
        columns = frame.columns
        dtypes = None

        def __len__(self):
            return len(frame)

        def __getitem__(self, name):
            cells = frame[name].to_list()
            return Series([math.nan if cell is None else cell for cell in cells])

    class Arrow:
        num_rows, column_names = len(frame), frame.columns

        def to_pydict(self):
            return frame.to_dict(as_series=False)

    roads = [
        str(films),
        tmp_path / "films.parquet",
        tmp_path / "films.tsv",
        frame,
        frame.lazy(),
        Pandas(),
        Arrow(),
        frame.to_dicts(),
        iter(frame.to_dicts()),
    ]
    for road in roads:
        got = read_catalogue(road, **given)
        assert got.schema == want.schema, road
        assert got.arms == want.arms, road


def test_whole_numbers_flags_and_lists_of_frames():
    frame = pl.DataFrame(
        {
            "id": [3, 1, 2],
            "tags": [["a", "b"], [], None],
            "fresh": [True, None, False],
            "size": [1.5, 2.0, None],
            "when": [datetime.date(2026, 1, 1)] * 3,
            "same": ["x"] * 3,
        }
    )
    got = read_catalogue(frame)
    assert [arm.id for arm in got.arms] == [3, 1, 2]
    assert got.schema.columns == (  # type: ignore[union-attr]
        "tags=a",
        "tags=b",
        "tags unknown",
        "fresh",
        "fresh unknown",
        "size",
        "size unknown",
    )
    assert [arm.features["tags"] for arm in got.arms] == [("a", "b"), (), None]  # type: ignore[call-overload,index]
    assert got.arms[2].features["size"] is None  # type: ignore[call-overload,index]
    assert got.arms[2].features.row[5] == 0.5  # type: ignore[union-attr]
    assert set(got.left_out) == {"when", "same"}
    arrays = [{"id": np.int64(5), "tags": np.array(["b"]), "size": np.float32(2.0)}]
    again = read_catalogue(arrays, features=got.schema)
    assert again.arms[0] == Arm(5, features=again.arms[0].features)
    assert dict(again.arms[0].features) == {"tags": ("b",), "fresh": None, "size": 2.0}
    floats = [{"id": 4.0, "size": 1}, {"id": 6.0, "size": 2}]
    assert [arm.id for arm in read_catalogue(floats).arms] == [4, 6]


def test_columns_that_say_nothing_of_others_are_left_out():
    rows = [
        {"id": i, "title": f"t{i}", "many": f"w{i // 2}", "few": f"w{i % 3}", "long": "x" * 300}
        for i in range(200)
    ]
    rows[0]["long"] = "y" * 300
    got = read_catalogue(rows)
    assert got.schema.columns == ("few=w0", "few=w1", "few=w2", "few unknown")  # type: ignore[union-attr]
    assert got.left_out == {
        "title": "200 distinct words, more than most_words=50",
        "many": "100 distinct words, more than most_words=50",
        "long": "texts longer than 200 characters",
    }
    assert read_catalogue(rows, most_words=100, features=["many"]).schema.width == 101  # type: ignore[union-attr]
    few = read_catalogue(rows[:12])
    assert few.left_out["title"] == "another word in each row, which says nothing of other arms"


def test_declared_features_hold_their_words_and_ranges(films):
    schema = Schema(
        [Labels("genres", ["Comedy", "Family"], missing=()), Number("year", 1990, 2020)]
    )
    with pytest.raises(InvalidValue) as bad:
        read_catalogue(films, features=schema)
    assert str(bad.value) == (
        "The 'genres' parameter of line 3 of films.csv must be some of its words. Got 'Horror' "
        "instead. Known: 'Comedy', 'Family'. Or read it with unknown='ignore'."
    )
    with pytest.raises(InvalidValue, match=r"'year' parameter of line 3 of films.csv .* \[1990"):
        read_catalogue(films, features=schema, unknown="ignore")
    loose = Schema([schema.features[0], Number("year", 1990, 2020, clip=True)])
    with pytest.raises(InvalidValue, match=r"line 5 of films.csv must be given. Got None"):
        read_catalogue(films, features=loose, unknown="ignore")
    full = Schema([schema.features[0], Number("year", 1990, 2020, clip=True, missing=2000)])
    got = read_catalogue(films, features=full, unknown="ignore", label="title")
    assert got.schema == full
    assert (
        "genres: any of 2 words: Comedy, Family; unknown words ignored in 1 rows"
        in (got.describe()[1])
    )
    assert got.left_out.keys() == {"rating", "sequel", "plot"}
    mixed = read_catalogue(films, features=[full.features[1], "rating"])
    words = ("rating=G", "rating=PG", "rating=R", "rating unknown")
    assert mixed.schema.columns == ("year", *words)  # type: ignore[union-attr]


BAD = [
    ("id,a\n1,2\n1,3\n", {}, "'id' parameter of line 3 of t.csv must be an id of its own: line 2"),
    ("id,a\n1,2\n,3\n", {}, "'id' parameter of line 3 of t.csv must be the id of an arm"),
    ("id,a\n1,2\n\n2,3,4\n", {}, "line 4 of t.csv must be of 2 fields, as its header is. Got '3"),
    ("id,a,a\n1,2,3\n", {}, "'header' parameter of t.csv must be distinct names of columns"),
    ("id;a\n1;2\n", {}, "The columns of t.csv seem to be separated by ';'"),
    ("", {}, "a csv file with a header"),
    ("id,a\n", {}, "a table with rows"),
    ("name,a\nx,1\n", {}, "'id' parameter of read_catalogue must be a column of t.csv"),
    ("id,a\n1,2\n", {"label": "title"}, "'label' parameter .* Known: 'id', 'a'"),
    ("id,a\n1,2\n", {"skip": ["b"]}, "'skip' parameter of read_catalogue"),
    ("id,a\n1,2\n", {"features": ["b"]}, "'features' parameter of read_catalogue"),
    ("id,a\n1,2\n", {"features": [Number("b")]}, "must be a column of t.csv. Got 'b'"),
    ("id,a\n1,x\n", {"features": [Number("a")]}, "line 2 of t.csv must be a number. Got 'x'"),
    ("id,a\n1,3\n", {"features": [Flag("a")]}, "line 2 of t.csv must be yes or no"),
    ("id,a\n1,nan\n", {"features": [Number("a")]}, "line 2 of t.csv must be given"),
    ("id,a\n1,inf\n", {"features": [Number("a")]}, "line 2 of t.csv must be a number"),
    ('id,a\n1,"x\n', {}, "'row' parameter of line 2 of t.csv must be a row of a csv file"),
    ("id,a\n1,2\n", {"unknown": "guess"}, "'unknown' parameter"),
    ("id,a\n1,2\n", {"most_words": 0}, "'most_words' parameter"),
    ("id,a\n1,2\n", {"delimiter": ",,"}, "must be a row of a csv file"),
    ("id,a\n1,2\n", {"encoding": "utf-99"}, "'encoding' parameter"),
    ("id,a\n1,2\n", {"features": 3}, "a Schema, or a list"),
    ("id,a\n" + "x" * 201 + ",2\n", {}, "'id' parameter of line 2 of t.csv must be a string of 1"),
]


@pytest.mark.parametrize(("text", "given", "words"), BAD)
def test_what_cannot_be_read_is_named_by_line_and_column(text, given, words, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidValue, match=words):
        read_catalogue(path, **given)


def test_encodings(tmp_path):
    path = tmp_path / "t.csv"
    text = "id,genre\nAmélie,Comédie\nAlien,Horreur\n"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text(text, encoding=encoding)
        assert read_catalogue(path).arms[0].id == "Amélie"
    for encoding in ("cp1252", "utf-16"):
        path.write_text(text, encoding=encoding)
        with pytest.raises(InvalidValue, match=r"'encoding' parameter .* that of t.csv"):
            read_catalogue(path)
        assert read_catalogue(path, encoding=encoding).arms[0].features["genre"] == "Comédie"  # type: ignore[call-overload,index]


def test_sources_that_are_none(tmp_path):
    wrong = tmp_path / "films.xlsx"
    wrong.write_text("")
    broken = tmp_path / "films.parquet"
    broken.write_text("no parquet")
    for source, words in [
        (wrong, "ends in .csv, .tsv or .parquet"),
        (tmp_path / "none.csv", "a file that can be read.* FileNotFoundError"),
        (broken, "a parquet file"),
        (tmp_path, "ends in"),
        (3, "a path to a .csv"),
        ({"id": [1]}, "a path to a .csv"),
        ([3], "rows as mappings"),
        ([], "a table with rows"),
        (pl.DataFrame(), "a table with rows"),
        ([{3: 4}], "whose columns have names"),
    ]:
        with pytest.raises(InvalidValue, match=words):
            read_catalogue(source)


def test_limits_on_size(monkeypatch, films):
    monkeypatch.setattr(catalogue, "MAX_ROWS", 3)
    for source in (films, pl.read_csv(films), pl.read_csv(films).to_dicts()):
        with pytest.raises(LimitReached, match="3 rows of a catalogue"):
            read_catalogue(source)
    monkeypatch.setattr(catalogue, "MAX_ROWS", 10)
    monkeypatch.setattr(catalogue, "MAX_COLUMNS", 6)
    with pytest.raises(LimitReached, match="6 columns of a catalogue"):
        read_catalogue(films)
    monkeypatch.setattr(catalogue, "MAX_BYTES", 10)
    with pytest.raises(LimitReached, match="10 bytes of a catalogue"):
        read_catalogue(films)


def test_a_csv_needs_neither_polars_nor_pandas(films):
    code = (
        "import sys, bridle; assert 'bridle.catalogue' not in sys.modules;"
        "sys.modules['polars'] = None;"
        f"print(len(bridle.read_catalogue({str(films)!r})));"
        "assert sys.modules['polars'] is None"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "4\n"


# -- agents that follow it ---------------------------------------------------------------------


def rows(*ids, **changed):
    genres = ["Horror", "Comedy", "Drama"]
    return [
        {"id": f"f{i}", "title": f"Film {i}", "genre": changed.get(f"f{i}", genres[i % 3])}
        for i in ids
    ]


def agent_of(first, **given):
    return Agent(
        arms=first.arms,
        features=[Category("band", ["child", "adult"])],
        arm_features=first.schema,
        seed=1,
        **given,
    )


def test_an_agent_follows_its_catalogue_day_by_day():
    first = read_catalogue(rows(*range(6)), label="title")
    seen: list[Any] = []
    agent = agent_of(first, sink=seen.extend)
    agent.retire_arms(["f1"])
    seen.clear()
    again = read_catalogue(rows(*range(6)), label="title", features=first.schema)
    assert changes_of(agent, again).describe() == ["1 restored: f1"]
    second = read_catalogue(
        rows(0, 1, 2, 3, 9, f2="Horror"), label="title", features=agent.settings.arm_features
    )
    done = update_catalogue(agent, second, by="import")
    assert done.describe() == [
        "1 added: f9",
        "1 changed: f2",
        "2 retired: f4, f5",
        "1 restored: f1",
    ]
    assert [type(event).__name__ for event in seen] == [
        "ArmsChanged",
        "ArmsRestored",
        "ArmsAdded",
        "ArmsRetired",
    ]
    assert agent.retired == ("f4", "f5")
    assert agent.arms[2].features["genre"] == "Horror"
    assert changes_of(agent, second).nothing
    version = agent.version
    assert update_catalogue(agent, second).nothing
    assert agent.version == version
    third = update_catalogue(agent, read_catalogue(rows(*range(6)), label="title"))
    assert third.describe() == ["1 changed: f2", "1 retired: f9", "2 restored: f4, f5"]


def test_a_file_that_was_cut_short_retires_nothing():
    first = read_catalogue(rows(*range(6)), label="title")
    agent = agent_of(first, on_empty="safe_arm", safe_arm="f5")
    short = read_catalogue(rows(0, 1), label="title", features=first.schema)
    version = agent.version
    with pytest.raises(NotPossible, match="give most_retired=1"):
        update_catalogue(agent, short, most_retired=0.4)
    assert agent.version == version
    update_catalogue(agent, short, most_retired=1)
    assert agent.retired == ("f2", "f3", "f4")  # never the safe arm


def test_a_sink_that_refuses_leaves_the_agent_as_it_was():
    first = read_catalogue(rows(*range(6)), label="title")
    agent = agent_of(first)

    def refuse(events):
        raise OSError("full")

    agent.sink = refuse
    with pytest.raises(OSError, match="full"):
        update_catalogue(agent, read_catalogue(rows(*range(7)), features=first.schema))
    assert len(agent.arms) == 6


def test_arms_of_another_schema_are_encoded_anew():
    # Equal widths and other ranges: the encoded numbers must not be taken as they are.
    small = read_catalogue([{"id": 1, "size": 0.2}, {"id": 2, "size": 10}])
    large = read_catalogue([{"id": 1, "size": 0.2}, {"id": 2, "size": 5}, {"id": 3, "size": 100}])
    agent = Agent(arms=small.arms, features=1, arm_features=small.schema)
    done = update_catalogue(agent, large)
    assert done.describe() == ["1 added: 3", "1 changed: 2"]
    assert [arm.features["size"] for arm in agent.arms] == [0.2, 5.0, 10.0]  # type: ignore[call-overload,index]


def test_what_is_no_catalogue():
    agent = Agent(arms=2, features=1)
    for given in ([3], [Arm(0), Arm(0)]):
        with pytest.raises(InvalidValue):
            changes_of(agent, given)
    with pytest.raises(InvalidValue, match="an Agent"):
        changes_of(3, [])
    assert update_catalogue(agent, [Arm(0), Arm(1, "one")]).describe() == ["1 changed: 1"]


def test_a_catalogue_without_features_serves_a_plain_agent():
    got = read_catalogue([{"id": "a", "kind": "x"}, {"id": "b", "kind": "y"}], group="kind")
    assert got.schema is None
    agent = Agent(arms=got.arms, features=1)
    assert [arm.group for arm in agent.arms] == ["x", "y"]
    assert repr(got) == "<Catalogue of rows: 2 arms, 0 columns of features>"

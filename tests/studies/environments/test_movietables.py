"""Data that are not as they should be: refused with the line and the value, or a rule that is kept.

The rules stand in the docstring of `read_block`.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from bridle.errors import CorruptState, NotPossible
from bridle_studies.environments import movietables
from bridle_studies.environments.layouts import LAYOUTS, Files, find
from bridle_studies.environments.movielens import read_block
from bridle_studies.environments.movietables import read_bands, read_movies, read_ratings
from tests.studies.environments.made_up import (
    AGES,
    BANDS,
    EDITIONS,
    MOVIES,
    OPTIONS,
    RATINGS,
    RATINGS_FILE,
    lay_out,
    real,
)

HEADER = "userId,movieId,rating,timestamp\n"


def with_ratings(folder, text, edition="ml-20m"):
    lay_out(folder, edition)
    content = text if isinstance(text, bytes) else text.encode()
    (folder / RATINGS_FILE[edition]).write_bytes(content)
    files = find(folder, "test")
    with files.ratings() as path:
        return read_ratings(files, path)


@pytest.mark.parametrize("edition", EDITIONS)
class TestEveryEdition:
    def test_ratings_come_as_they_are(self, edition, tmp_path):
        files = find(lay_out(tmp_path, edition), "test")
        with files.ratings() as path:
            found = read_ratings(files, path)
        columns = (found.users, found.movies, found.stars)
        rows = [*zip(*(c.tolist() for c in columns), strict=True)]
        assert rows == [row[:3] for row in RATINGS]
        assert (found.rows, found.repeated, found.ended) == (len(RATINGS), 0, True)

    def test_movies_come_as_they_are(self, edition, tmp_path):
        found = read_movies(find(lay_out(tmp_path, edition), "test"))
        assert found.ids.tolist() == [*MOVIES]
        assert [*found.titles] == [title for title, _ in MOVIES.values()]
        wanted = [set(genres.split("|")) for _, genres in MOVIES.values()]
        if edition == "ml-100k":
            wanted[[*MOVIES].index(9)] = set()  # flags cannot say "(no genres listed)"
        assert [set(genres) for genres in found.genres] == wanted

    def test_ages_come_in_seven_bands(self, edition, tmp_path):
        expected = BANDS if edition in ("ml-100k", "ml-1m") else None
        assert read_bands(find(lay_out(tmp_path, edition), "test")) == expected

    def test_a_row_that_is_cut_short(self, edition, tmp_path):
        folder = lay_out(tmp_path, edition)
        file = folder / RATINGS_FILE[edition]
        whole = file.read_bytes().rstrip()
        mark = {"u.data": b"\t", "ratings.dat": b"::", "ratings.csv": b","}[file.name]
        lines = len(RATINGS) + (mark == b",")
        for fields in (1, 2, 3):
            cut = whole.rsplit(mark, 4 - fields)[0]
            for end in (b"", b"\n"):
                file.write_bytes(cut + end)
                message = rf"{file.name}, line {lines}: {fields} of 4 fields are there"
                with pytest.raises(CorruptState, match=message):
                    read_block(folder, **OPTIONS)

    @pytest.mark.parametrize("stars", ["0", "5.5", "-1", "3.7", "nan", "inf", "five", ""])
    def test_a_rating_that_is_none(self, edition, stars, tmp_path):
        rows = [list(row) for row in RATINGS]
        rows[7][2] = stars
        folder = lay_out(tmp_path, edition, ratings=rows)
        line = 9 if RATINGS_FILE[edition].endswith("csv") else 8
        message = rf", line {line}: a rating must be a half from 0.5 to 5. Got '{stars}'"
        with pytest.raises(CorruptState, match=message):
            read_block(folder, **OPTIONS)

    @pytest.mark.parametrize("number", ["1.5", "x", "", "0", "-3", "10000001", "9" * 30, "१"])
    @pytest.mark.parametrize("column", [0, 1])
    def test_an_id_that_is_none(self, edition, number, column, tmp_path):
        rows = [list(row) for row in RATINGS]
        rows[7][column] = number
        folder = lay_out(tmp_path, edition, ratings=rows)
        name = ("userId", "movieId")[column]
        with pytest.raises(CorruptState, match=rf"line \d: {name} must be a whole number from 1"):
            read_block(folder, **OPTIONS)

    @pytest.mark.parametrize("shuffled", [False, True])
    def test_duplicates_count_once_and_the_last_of_them(self, edition, shuffled, tmp_path):
        user, movie, stars, time = RATINGS[3]
        other = 1 + stars % 5
        early = (user, movie, other, time - 9)
        late, last = (user, movie, 5, time + 1), (user, movie, 1, time + 1)
        rows = [early, *RATINGS[:3], late, RATINGS[3], last, *RATINGS[4:]]
        if shuffled:
            others = np.random.default_rng(2).permutation(len(RATINGS)).tolist()
            rows = [late, last, *(RATINGS[i] for i in others), early]
        files = find(lay_out(tmp_path, edition, ratings=rows), "test")
        with files.ratings() as path:
            found = read_ratings(files, path)
        assert (found.rows, found.repeated) == (len(RATINGS) + 3, 3)
        cells = zip(found.users.tolist(), found.movies.tolist(), strict=True)
        given = dict(zip(cells, found.stars.tolist(), strict=True))
        # `late` and `last` have the same time: the later line counts.
        assert given == {(u, m): s for u, m, s, _ in RATINGS} | {(user, movie): 1}

    def test_an_empty_file(self, edition, tmp_path):
        for name in (RATINGS_FILE[edition], find(lay_out(tmp_path, edition), "t").layout.movies):
            folder = lay_out(tmp_path, edition)
            (folder / name).write_bytes(b"")
            with pytest.raises(CorruptState, match=rf"{name} is empty"):
                read_block(folder, **OPTIONS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,movie,rating\n1,2,3\n", r"must begin with the line userId,movieId,rating,timestamp"),
        ("1,2,3.0,5\n1,3,3.0,5\n", "Got '1,2,3.0,5' instead"),
        ("userId,userId,movieId,rating\n1,1,2,3\n", "must begin with"),
        (HEADER.encode("utf-16"), "must begin with .* Is it a MovieLens file in UTF-8"),
        ("", r"ratings\.csv is empty"),
        (HEADER, r"ratings\.csv has no ratings"),
        (HEADER + "1,2,3.0,5\n\n1,3,3.0,5\n", "line 3: 1 of 4 fields are there"),
        (HEADER + "1,2,3.0,5\n\n", "line 3: 1 of 4 fields are there"),
        (HEADER + '"1","2","3.0","5"\n', r"line 2: userId must be a whole number .* Got '\"1\"'"),
        (HEADER + "1;2;3,0;5\n", "line 2: 2 of 4 fields"),
        (HEADER.encode() + b"1,2,3.0,5\n\0\0\0\0", "line 3: 1 of 4 fields"),
        (HEADER.encode() + b"1,2,\xff\xfe,5\n", r"line 2: a rating must be .* Got '.*xff"),
        (HEADER + "1,2,3.0,5\n" + "7" * 30_000 + "\n", r"line 3: 1 of 4 fields .*\.\.\."),
        (HEADER + "1,2,3.0,x\n1,2,3.0,5\n", "line 2: a timestamp must be a whole number"),
        (HEADER + "1,2,3.0,\n1,2,3.0,5\n", "line 2: a timestamp must be a whole number"),
    ],
)
def test_bad_csv_is_refused(text, message, tmp_path):
    with pytest.raises(CorruptState, match=message):
        with_ratings(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "1,2,3.0,5\n4,5,0.5,6\n",
        HEADER + "1,2,3,5\n4,5,.5,6",
        (HEADER + "1,2,3.00,5\n4,5,0.5,6\n").replace("\n", "\r\n"),
        "\ufeff" + HEADER + "1,2,3.0,5\n4,5,0.5,6\n",
        "userId,movieId,rating\n1,2,3.0\n4,5,0.5\n",
        "rating,note,movieId,userId\n3.0,a,2,1\n0.5,,5,4\n",
    ],
)
def test_csv_may_differ_in_what_does_not_matter(text, tmp_path):
    found = with_ratings(tmp_path, text)
    assert found.users.tolist() == [1, 4]
    assert found.movies.tolist() == [2, 5]
    assert found.stars.tolist() == [3.0, 0.5]
    assert found.ended == text.endswith("\n")


def test_without_timestamps_the_later_line_counts(tmp_path):
    found = with_ratings(tmp_path, "userId,movieId,rating\n1,2,3\n1,2,4\n1,1,5\n1,2,2\n1,1,1\n")
    assert found.movies.tolist() == [2, 1]
    assert found.stars.tolist() == [2.0, 1.0]
    assert found.repeated == 3


def test_what_polars_refuses_and_we_would_not_is_an_error_of_ours(tmp_path, monkeypatch):
    monkeypatch.setattr(movietables._Table, "_wrong", lambda self, line: "")
    with pytest.raises(CorruptState, match=r"ratings\.csv cannot be read: could not parse `x`"):
        with_ratings(tmp_path, HEADER + "1,2,x,5\n")


def test_without_polars_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(NotPossible, match=r"needs polars: pip install \./studies"):
        with_ratings(tmp_path, HEADER + "1,2,3.0,5\n")


@pytest.mark.parametrize(
    ("edition", "text", "message"),
    [
        ("ml-20m", "id,title,genres\n1,a,Drama\n", "line 1: movieId,title,genres is expected"),
        ("ml-20m", "movieId,title,genres\n1,a,Drama\n2,b\n", r"line 3: .* Got '2,b' instead"),
        ("ml-20m", "movieId,title,genres\nx,a,Drama\n", r"line 2: a movie's id must be .* 'x'"),
        ("ml-20m", "movieId,title,genres\n1,a,Drama\n1,b,Crime\n", "line 3: movie 1 is there a s"),
        ("ml-20m", 'movieId,title,genres\n1,"a,Drama\n', r"line 2: unexpected end of data"),
        ("ml-20m", "movieId,title,genres\n", r"movies\.csv has no movies"),
        ("ml-20m", "movieId,title,genres\n1,Amélie,Drama\n".encode("latin-1"), "byte 0xe9 is not"),
        ("ml-1m", "1::Toy Story\n", "line 1: id::title::genres is expected"),
        ("ml-1m", "1::a::Drama\n\n1::b::Drama\n", "line 3: movie 1 is there a second time"),
        ("ml-1m", "\n", "is empty"),
        ("ml-100k", "1|Toy Story|1995\n", "line 1: .* 19 flags of 0 or 1 is expected"),
        ("ml-100k", "1|a|b||c" + "|0" * 18 + "|x\n", "19 flags"),
    ],
)
def test_bad_movies_are_refused(edition, text, message, tmp_path):
    files = find(lay_out(tmp_path, edition), "test")
    content = text if isinstance(text, bytes) else text.encode()
    (tmp_path / files.layout.movies).write_bytes(content)
    with pytest.raises(CorruptState, match=message):
        read_movies(files)


def test_a_title_may_hold_the_separator(tmp_path):
    files = find(lay_out(tmp_path, "ml-1m"), "test")
    (tmp_path / "movies.dat").write_text("1::Alien :: Again::Horror|Sci-Fi\r\n", newline="")
    found = read_movies(files)
    assert found.titles == ("Alien :: Again",)
    assert found.genres == (("Horror", "Sci-Fi"),)


def test_the_older_layouts_may_have_been_re_coded(tmp_path):
    files = find(lay_out(tmp_path, "ml-1m"), "test")
    for encoding in ("utf-8", "utf-8-sig", "latin-1"):
        (tmp_path / "movies.dat").write_bytes("1::Amélie\x85::Romance\n".encode(encoding))
        assert read_movies(files).titles[0].startswith("Amélie")


@pytest.mark.parametrize(
    ("edition", "text", "message"),
    [
        ("ml-1m", "1::F::17::4::9\n", r"users\.dat, line 1: .* age one of 1, 18, 25, 35, 45, 50"),
        ("ml-1m", "1::F::18::4::9\n2::F\n", "line 2"),
        ("ml-1m", "one::F::18::4::9\n", "line 1"),
        ("ml-100k", "1|young|M|x|5\n", r"u\.user, line 1: id\|age\|gender"),
        ("ml-100k", "1|-5|M|x|5\n", "line 1"),
    ],
)
def test_bad_ages_are_refused(edition, text, message, tmp_path):
    files = find(lay_out(tmp_path, edition), "test")
    (tmp_path / files.layout.users).write_text(text)
    with pytest.raises(CorruptState, match=message):
        read_bands(files)


def test_ages_in_years_go_into_the_bands_of_the_1m(tmp_path):
    ages = {i + 1: age for i, age in enumerate((0, 17, 18, 24, 25, 34, 35, 44, 45, 49, 50, 55, 56))}
    files = find(lay_out(tmp_path, "ml-100k", ages=ages), "test")
    bands = read_bands(files)
    assert bands is not None
    assert [*bands.values()] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]
    assert [*movietables.BANDS.values()][4] == "45-49"


def test_without_a_table_of_users_there_are_no_bands(tmp_path):
    for edition in ("ml-100k", "ml-1m"):
        folder = lay_out(tmp_path / edition, edition)
        (folder / find(folder, "test").layout.users).unlink()
        assert read_block(folder, **OPTIONS).bands is None


def test_a_user_without_an_age(tmp_path):
    ages = {user: age for user, age in AGES.items() if user != 6}
    folder = lay_out(tmp_path, "ml-1m", ages=ages)
    with pytest.raises(CorruptState, match=r"users\.dat has no line for user 6"):
        read_block(folder, **OPTIONS | {"people": 6})


def test_the_catalogue_of_the_20m_is_read_whole():
    # 27,278 movies, as GroupLens says, with quoted titles and doubled quotes.
    home = real("ml-20m/movies.csv").parent
    found = read_movies(Files(layout=LAYOUTS[0], home=home, inside=None, has_users=False))
    assert len(found.ids) == 27_278
    assert int(found.ids.max()) == 131_262
    at = dict(zip(found.ids.tolist(), found.titles, strict=True))
    assert at[11] == "American President, The (1995)"

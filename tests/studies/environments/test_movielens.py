from __future__ import annotations

import collections
import csv
import io
import zipfile

import numpy as np
import pytest

from bridle.errors import InvalidValue, NotPossible
from bridle_studies.environments import movielens
from bridle_studies.environments.blocks import complete
from bridle_studies.environments.movielens import TEN_GENRES, read_block
from tests.studies.environments.made_up import (
    BANDS,
    EDITIONS,
    MOVIES,
    OPTIONS,
    RATINGS,
    lay_out,
    pack,
    real,
)


def counted(rows, genres_of, wanted, movies, people):
    """Count and sort in plain Python: the ids of the block's movies and people."""
    good = {movie for movie, genres in genres_of.items() if set(genres) & set(wanted)}
    by_movie = collections.Counter(row[1] for row in rows if row[1] in good)
    by_user = collections.Counter(row[0] for row in rows if row[1] in good)

    def top(counts, n):
        return sorted(counts, key=lambda id: (-counts[id], id))[:n]

    return top(by_movie, movies), top(by_user, people)


def genres_of(movies):
    return {movie: genres.split("|") for movie, (_, genres) in movies.items()}


@pytest.fixture
def folder(tmp_path):
    return lay_out(tmp_path / "mine", "ml-20m")


class TestTheBlock:
    def test_it_has_the_most_rated_movies_and_who_rated_most(self, folder):
        block = read_block(folder, **OPTIONS)
        movies, people = counted(RATINGS, genres_of(MOVIES), TEN_GENRES, 5, 4)
        assert block.movies == tuple(MOVIES[movie][0] for movie in movies)
        assert block.people == tuple(f"user {user}" for user in people)

    def test_its_contexts_are_the_genres(self, folder):
        block = read_block(folder, **OPTIONS)
        by_title = dict(MOVIES.values())
        assert block.genres == TEN_GENRES
        for title, row in zip(block.movies, block.contexts.tolist(), strict=True):
            genres = by_title[title].split("|")
            assert row == [float(genre in genres) for genre in TEN_GENRES]

    def test_its_ratings_are_those_known_and_the_rest_completed(self, folder):
        block = read_block(folder, **OPTIONS)
        given = {(user, movie): stars for user, movie, stars, _ in RATINGS}
        movies, people = counted(RATINGS, genres_of(MOVIES), TEN_GENRES, 5, 4)
        cells = [[given.get((user, movie), np.nan) for user in people] for movie in movies]
        assert np.isnan(cells).any()
        assert np.array_equal(block.ratings, complete(cells, min_overlap=2))

    @pytest.mark.parametrize(
        "options", [{"min_overlap": 1}, {"positive_only": False}, {"step": 1.0}]
    )
    def test_options_reach_the_completion(self, folder, options):
        wanted = OPTIONS | options
        given = {(user, movie): stars for user, movie, stars, _ in RATINGS}
        movies, people = counted(RATINGS, genres_of(MOVIES), TEN_GENRES, 5, 4)
        cells = [[given.get((user, movie), np.nan) for user in people] for movie in movies]
        how = {name: value for name, value in wanted.items() if name not in ("movies", "people")}
        assert np.array_equal(read_block(folder, **wanted).ratings, complete(cells, **how))

    def test_ties_go_by_ascending_id_in_whatever_order_the_rows_are(self, tmp_path):
        rows = [(user, movie, 3, 1) for user in (9, 4, 7, 2) for movie in (40, 3, 8, 1)]
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(rows)).tolist()
            folder = lay_out(tmp_path, "ml-20m", ratings=[rows[i] for i in order])
            block = read_block(folder, movies=3, people=3)
            assert block.movies == tuple(MOVIES[movie][0] for movie in (1, 3, 8))
            assert block.people == ("user 2", "user 4", "user 7")

    def test_people_are_counted_over_all_movies_that_remain(self, tmp_path):
        # User 1 has rated most, but not within the block of two; the documentary (7) counts for
        # nobody: user 3 would be second with it.
        rows = [(1, movie, 3, 1) for movie in (2, 3, 5, 8)]
        rows += [(2, movie, 3, 1) for movie in (1, 2, 40)]
        rows += [(3, movie, 3, 1) for movie in (1, 2, 7)] + [(4, 1, 3, 1)]
        rows += [(3, 9, 3, 1)]
        folder = lay_out(tmp_path, "ml-20m", ratings=sorted(rows))
        block = read_block(folder, movies=2, people=2)
        assert block.movies == (MOVIES[1][0], MOVIES[2][0])
        assert block.people == ("user 1", "user 2")

    def test_duplicates_count_once_in_the_tops(self, tmp_path):
        again = [(11, 40, 1, 2_000 + i) for i in range(30)]
        folder = lay_out(tmp_path, "ml-20m", ratings=[*RATINGS, *again])
        block = read_block(folder, **OPTIONS)
        once = dict.fromkeys(row[:2] for row in [*RATINGS, *again])
        movies, people = counted(once, genres_of(MOVIES), TEN_GENRES, 5, 4)
        assert block.people == tuple(f"user {user}" for user in people)
        assert block.movies == tuple(MOVIES[movie][0] for movie in movies)
        there = (11, 40) in {row[:2] for row in RATINGS}
        repeats = 30 if there else 29
        expected = f"{repeats} duplicate ratings (same user, same movie): the last counts"
        assert expected in block.origin.notes

    def test_bands_are_those_of_the_people(self, tmp_path):
        block = read_block(lay_out(tmp_path, "ml-1m"), **OPTIONS)
        assert block.bands == ("under 18", "18-24", "25-34", "35-44", "45-49", "50-55", "56+")
        assert block.band == tuple(BANDS[int(name.split()[1])] for name in block.people)

    def test_genres_of_your_own(self, tmp_path):
        for edition in EDITIONS:
            folder = lay_out(tmp_path / edition, edition)
            for children in ("Children", "Children's"):  # editions differ in the name
                genres = (children, "Documentary")
                block = read_block(folder, genres=genres, movies=2, people=3)
                assert block.genres == genres
                assert set(block.movies) == {MOVIES[1][0], MOVIES[7][0]}
                assert sorted(block.contexts.tolist()) == [[0.0, 1.0], [1.0, 0.0]]


class TestTheOrigin:
    def test_it_says_what_was_done(self, tmp_path):
        ratings = [*RATINGS, (12, 999, 3, 1), (12, 998, 3, 1), (13, 999, 3, 1)]
        folder = lay_out(tmp_path / "mine", "ml-20m", ratings=ratings)
        origin = read_block(folder, **OPTIONS).origin
        dropped = sum(movie in (7, 9) for _, movie, _, _ in RATINGS)
        assert origin.title == "MovieLens (csv layout)"
        assert not origin.synthetic
        assert origin.url == "https://grouplens.org/datasets/movielens/"
        assert "no redistribution" in origin.licence
        assert origin.notes[:3] == (
            f"{len(ratings)} ratings of 8 users and {len(MOVIES) + 2} movies were read",
            "3 ratings of 2 movies that the catalogue does not list: dropped",
            f"2 movies with none of the 10 genres: dropped, with their {dropped} ratings",
        )
        assert "% of the 5 × 4 cells are known" in origin.notes[4]
        assert len(origin.notes) == 5 + any("no movie of the block" in n for n in origin.notes)

    @pytest.mark.parametrize(
        ("name", "title", "published"),
        [
            ("ml-20m", "MovieLens 20M", "20,000,263"),
            ("ML-25M", "MovieLens 25M", "25,000,095"),
            ("ml-32m", "MovieLens 32M", "32,000,204"),
            ("my ml-20m (2)", "MovieLens 20M", "20,000,263"),
            ("ml-latest", "MovieLens Latest", ""),
            ("ml-latest-small", "MovieLens Latest Small", ""),
            ("movies", "MovieLens (csv layout)", ""),
        ],
    )
    def test_an_edition_known_by_name_that_is_not_whole(self, name, title, published, tmp_path):
        folder = lay_out(tmp_path / name, "ml-20m")
        for path in (folder, pack(folder, tmp_path / f"{name}.zip", "")):
            origin = read_block(path, **OPTIONS).origin
            assert origin.title == title
            note = f"{len(RATINGS)} ratings, where {title} was published with {published}"
            assert any(n.startswith(note) for n in origin.notes) == bool(published)

    def test_the_folder_in_a_zip_tells_more_than_the_zip(self, tmp_path):
        folder = lay_out(tmp_path / "x", "ml-20m")
        path = pack(folder, tmp_path / "ml-20m.zip", "ml-25m/")
        assert read_block(path, **OPTIONS).origin.title == "MovieLens 25M"

    def test_a_number_of_ratings_tells_too(self, tmp_path, monkeypatch):
        edition = movielens.Edition("MovieLens 2.5M", len(RATINGS))
        monkeypatch.setitem(movielens.EDITIONS, "2.5m", edition)
        folder = lay_out(tmp_path / "x", "ml-20m")
        assert read_block(folder, **OPTIONS).origin.title == "MovieLens 2.5M"

    @pytest.mark.parametrize("edition", ["ml-100k", "ml-1m", "ml-10M100K"])
    def test_else_the_layout_tells(self, edition, tmp_path):
        block = read_block(lay_out(tmp_path / "x", edition), **OPTIONS)
        assert block.origin.title == EDITIONS[edition]

    def test_a_last_line_without_an_end_is_noted(self, folder):
        file = folder / "ratings.csv"
        file.write_bytes(file.read_bytes().rstrip())
        notes = read_block(folder, **OPTIONS).origin.notes
        assert "the last line of ratings.csv has no end: the file may have been cut short" in notes

    def test_genres_that_no_movie_of_the_block_has_are_noted(self, folder):
        block = read_block(folder, genres=("Comedy", "Crime", "Western"), movies=3, people=3)
        assert block.origin.notes[-1] == "no movie of the block has the genre Western"


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"movies": 0}, "'movies' parameter of read_block must be an int in the range"),
            ({"people": 5_001}, "'people' parameter"),
            ({"movies": 100_000, "people": 5_000}, "at most 10,000,000"),
            ({"min_overlap": 0}, "'min_overlap' parameter"),
            ({"step": 0.0}, "'step' parameter"),
            ({"positive_only": "yes"}, "'positive_only' parameter"),
            ({"genres": "Drama"}, "'genres' parameter .* different genres"),
            ({"genres": 3}, "'genres' parameter"),
            ({"genres": ()}, "'genres' parameter"),
            ({"genres": ("Drama", "Drama")}, "'genres' parameter"),
            ({"genres": ("Drama", 3)}, "'genres' parameter"),
            ({"genres": ("Drama", "Dramma")}, r"among those of the movies: Action.* Got 'Dramma'"),
        ],
    )
    def test_bad_options(self, folder, wrong, message):
        with pytest.raises(InvalidValue, match=message):
            read_block(folder, **OPTIONS | wrong)

    def test_fewer_movies_or_people_than_asked_for(self, folder):
        with pytest.raises(InvalidValue, match=r"at most 6, .* Got 1000 instead. Lower 'movies'"):
            read_block(folder)
        with pytest.raises(InvalidValue, match=r"at most 6, .* Got 100 instead. Lower 'people'"):
            read_block(folder, movies=6)

    def test_somebody_who_has_rated_nothing_of_the_block(self, tmp_path):
        rows = [(1, 1, 3, 1), (2, 1, 3, 1), (3, 2, 3, 1), (3, 5, 3, 1)]
        folder = lay_out(tmp_path, "ml-20m", ratings=rows)
        with pytest.raises(NotPossible, match=r"User 3 has rated none of the 1 movies .* Ask for"):
            read_block(folder, movies=1, people=2)


class TestRealOnes:
    """Facts of public data as they came out when this was written; they may not change unseen."""

    def test_the_1m(self):
        path = real("ml-1m/ml-1m.zip")
        block = read_block(path.parent)
        with zipfile.ZipFile(path) as packed:
            lines = packed.read("ml-1m/ratings.dat").decode().splitlines()
            catalogue = packed.read("ml-1m/movies.dat").decode("latin-1").splitlines()
            users = packed.read("ml-1m/users.dat").decode().splitlines()
        rows = [tuple(map(int, line.split("::"))) for line in lines]
        listed = [line.split("::") for line in catalogue]
        genres = {int(movie): kinds.split("|") for movie, _, kinds in listed}
        movies, people = counted(rows, genres, TEN_GENRES, 1_000, 100)
        titles = {int(movie): title for movie, title, _ in listed}
        assert block.movies == tuple(titles[movie] for movie in movies)
        assert block.people == tuple(f"user {user}" for user in people)
        assert block.contexts.tolist() == [
            [float(genre in genres[movie]) for genre in TEN_GENRES] for movie in movies
        ]
        codes = {int(line.split("::")[0]): int(line.split("::")[2]) for line in users}
        assert block.band is not None
        assert [(1, 18, 25, 35, 45, 50, 56)[band] for band in block.band] == [
            codes[user] for user in people
        ]
        # Known ratings stay; 61 % of the cells are known.
        column = {user: k for k, user in enumerate(people)}
        row = {movie: i for i, movie in enumerate(movies)}
        known = [(row[m], column[u], s) for u, m, s, _ in rows if u in column and m in row]
        assert all(block.ratings[i, k] == stars for i, k, stars in known)
        assert len(known) == 60_957
        assert block.ratings.shape == (1_000, 100)
        assert block.people[:3] == ("user 4169", "user 1680", "user 4277")
        assert block.movies[0] == "American Beauty (1999)"
        # The mean reward; and SPEC 3.6: a uniformly random arm has R ≈ .29.
        assert block.ratings.mean() / 5 == pytest.approx(0.697782, abs=1e-9)
        regret = block.ratings.max(axis=1) - block.ratings.mean(axis=1)
        assert regret.mean() / 5 == pytest.approx(0.295718, abs=1e-9)
        assert np.bincount(block.band).tolist() == [1, 19, 47, 21, 9, 2, 1]
        assert block.origin.title == "MovieLens 1M"
        assert block.origin.notes == (
            "1,000,209 ratings of 6,040 users and 3,706 movies were read",
            "272 movies with none of the 10 genres: dropped, with their 39,843 ratings",
            "the 1,000 most rated movies that remain, and the 100 users who rated most of what "
            "remains; ties by ascending id",
            "61.0% of the 1,000 × 100 cells are known; the others were filled by collaborative "
            "filtering",
        )

    def test_the_small_one(self):
        home = real("ml-latest-small")
        block = read_block(home)
        text = (home / "ratings.csv").read_text(encoding="utf-8")
        rows = [
            (int(row["userId"]), int(row["movieId"])) for row in csv.DictReader(io.StringIO(text))
        ]
        text = (home / "movies.csv").read_text(encoding="utf-8")
        listed = {int(row["movieId"]): row for row in csv.DictReader(io.StringIO(text))}
        genres = {movie: row["genres"].split("|") for movie, row in listed.items()}
        movies, people = counted(rows, genres, TEN_GENRES, 1_000, 100)
        assert block.movies == tuple(listed[movie]["title"] for movie in movies)
        assert block.people == tuple(f"user {user}" for user in people)
        assert block.people[:3] == ("user 414", "user 599", "user 474")
        assert block.bands is None
        assert block.band is None
        assert block.ratings.mean() / 5 == pytest.approx(0.702265, abs=1e-9)
        assert block.origin.title == "MovieLens Latest Small"
        assert block.origin.notes[0] == "100,836 ratings of 610 users and 9,724 movies were read"
        assert block.origin.notes[3].startswith("31.6% of the 1,000 × 100 cells are known")

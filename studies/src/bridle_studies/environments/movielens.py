"""MovieLens: a block of its most rated movies and its most active users, out of files as they come.

    block = read_block("ml-1m.zip")

The data are GroupLens': bridle reads a copy of your own and has none in itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bridle import validation
from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.kernels.types import Bools, Floats, Ints
from bridle_studies.environments.blocks import MAX_CELLS, MAX_PEOPLE, OVERLAP, STEP, Block, complete
from bridle_studies.environments.genres import GENRES
from bridle_studies.environments.layouts import Files, find
from bridle_studies.environments.movietables import (
    BANDS,
    FLAGS,
    Movies,
    Ratings,
    pieces,
    read_bands,
    read_movies,
    read_ratings,
)
from bridle_studies.environments.world import Origin

__all__ = ["TEN_GENRES", "read_block"]

# The paper lists nine; Crime is the tenth.
TEN_GENRES = tuple(GENRES)
KNOWN_GENRES = frozenset((*FLAGS[1:], "IMAX"))

MOVIES = validation.IntRange(1, 100_000)
PEOPLE = validation.IntRange(1, MAX_PEOPLE)
MAX_GENRES = 100

URL = "https://grouplens.org/datasets/movielens/"
LICENCE = "GroupLens: research use, no redistribution; see the README of the data set"
ABOUT = (
    "Ratings that users of movielens.org gave to movies, collected by GroupLens, University of "
    "Minnesota: a block of the most rated movies and the most active users."
)


@dataclass(frozen=True)
class Edition:
    """A data set that GroupLens published: its title, and how many ratings it has (0: it grows)."""

    title: str
    ratings: int


EDITIONS = {
    "100k": Edition("MovieLens 100K", 100_000),
    "1m": Edition("MovieLens 1M", 1_000_209),
    "10m": Edition("MovieLens 10M", 10_000_054),
    "20m": Edition("MovieLens 20M", 20_000_263),
    "25m": Edition("MovieLens 25M", 25_000_095),
    "32m": Edition("MovieLens 32M", 32_000_204),
    "latest-small": Edition("MovieLens Latest Small", 0),
    "latest": Edition("MovieLens Latest", 0),
}
# Longer names first, so that "ml-latest-small" is not taken for "ml-latest".
NAMED = re.compile(f"ml-({'|'.join(sorted(EDITIONS, key=len, reverse=True))})", re.IGNORECASE)


def read_block(
    path: str | Path,
    *,
    genres: Iterable[str] = TEN_GENRES,
    movies: int = 1_000,
    people: int = 100,
    min_overlap: int = 5,
    positive_only: bool = True,
    step: float = 0.5,
) -> Block:
    """Read a block of ratings from MovieLens files, and fill its gaps.

    Movies that have none of `genres` are dropped. Of the others, the block has the most rated ones;
    its people are the users who rated most of the others (in the block or not). Ties go by
    ascending id. Both stand in the block in this order. `complete` fills the gaps.

    Parameters
    ----------
    path : str or Path
        A MovieLens file with its companions beside it, its zip, its folder, or a folder that holds
        one of these. Layout and edition (ml-100k, ml-1m, ml-10m, ml-20m, ml-25m, ml-32m, ml-latest,
        ml-latest-small) are recognised from what is there.
    genres : iterable of str, default TEN_GENRES
        The columns of the contexts.
    movies, people : int, default 1000 and 100
        M and K.
    min_overlap, positive_only, step
        As in `complete`.

    Returns
    -------
    Block
        With the age bands of MovieLens 1M where there are ages: those of 1M as they are, those of
        100K (in years) sorted into them. Its origin has the sha256 of each file read (of a zip, the
        zip's) and, as notes, what was dropped and how much of the block was known.

    Raises
    ------
    InvalidValue
        `path` points at no data set or at several, or there are fewer movies or people than asked.
    CorruptState
        A file is damaged: the message has its name, the line and the value.
    NotPossible
        polars is missing, a file cannot be opened, or somebody in the block has rated none of it.

    Notes
    -----
    What is done with data that are not as they should be:

    - A rating that is not a half from 0.5 to 5, an id that is not a whole number from 1 to
      10,000,000, an empty line, missing fields: refused. A timestamp is looked at in the last line,
      and where duplicates make it matter. A last line without an end is noted: the file may have
      been cut short.
    - The same user rated the same movie more than once: the last by timestamp counts (of equal
      ones, the later line). Duplicates are noted, and count once wherever ratings are counted.
    - A rating of a movie that the catalogue does not list: dropped, and noted.
    - A movie with "(no genres listed)", or with none of `genres`: dropped, and noted.
    - A movie that the catalogue lists twice: refused. The same title under two ids: two movies.
    - A person of the block who has rated none of its movies: refused; there is no mean to go by.
    - A csv file that is not UTF-8: refused. The older layouts are read as UTF-8 if they are that,
      else as latin-1.
    - A zip that is damaged, or has a member whose checksum is wrong: refused. A ratings file in a
      zip is unpacked to a temporary file, which is deleted in any case.
    - An edition known by its name whose number of ratings is not the published one: noted.
    """
    owner = "read_block"
    M = MOVIES.check(movies, "movies", owner)
    K = PEOPLE.check(people, "people", owner)
    if M * K > MAX_CELLS:
        raise InvalidValue("movies × people", owner, f"at most {MAX_CELLS:,}", M * K)
    wanted = _genres(genres, owner)
    # Before the long part, not after it.
    OVERLAP.check(min_overlap, "min_overlap", owner)
    STEP.check(step, "step", owner)
    validation.truth(positive_only, "positive_only", owner)

    files = find(path, owner)
    catalogue = read_movies(files)
    has = _has_genre(catalogue, wanted, owner)
    bands = read_bands(files)
    ratings, sums = _read_and_hash(files)
    tops = _Tops.of(ratings, catalogue, has, M, K, owner)
    cells = _cells(ratings, catalogue.ids[tops.movies], tops.people)
    filled = ~np.isnan(cells)
    _refuse_strangers(filled, tops.people)
    contexts = has[tops.movies].astype(np.float64)
    edition = _edition(files, ratings)
    return Block(
        ratings=complete(cells, min_overlap=min_overlap, positive_only=positive_only, step=step),
        contexts=contexts,
        genres=wanted,
        movies=tuple(catalogue.titles[row] for row in tops.movies.tolist()),
        people=tuple(f"user {user}" for user in tops.people.tolist()),
        bands=tuple(BANDS.values()) if bands is not None else None,
        band=_bands_of(tops.people, bands, files) if bands is not None else None,
        origin=Origin(
            title=edition.title,
            synthetic=False,
            about=ABOUT,
            url=URL,
            licence=LICENCE,
            files=sums,
            notes=(
                *tops.notes,
                *_edition_notes(ratings, edition, files),
                *_block_notes(filled, contexts, wanted),
            ),
        ),
    )


def _genres(genres: Iterable[str], owner: str) -> tuple[str, ...]:
    expected = f"1 to {MAX_GENRES} different genres"
    if isinstance(genres, str) or not isinstance(genres, Iterable):
        raise InvalidValue("genres", owner, expected, genres)
    listed = tuple(validation.text(genre, "genres", owner) for genre in genres)
    if not 1 <= len(listed) <= MAX_GENRES or len(set(listed)) < len(listed):
        raise InvalidValue("genres", owner, expected, listed)
    return listed


def _has_genre(catalogue: Movies, wanted: tuple[str, ...], owner: str) -> Bools:
    """Return which movie has which genre: (movies of the catalogue, d)."""
    there = {genre for listed in catalogue.genres for genre in listed}
    for genre in wanted:
        if genre.replace("Children's", "Children") not in there | KNOWN_GENRES:
            known = ", ".join(sorted(genre for genre in there if not genre.startswith("(")))
            raise InvalidValue("genres", owner, f"among those of the movies: {known}", genre)
    column = {genre.replace("Children's", "Children"): i for i, genre in enumerate(wanted)}
    has = np.zeros((len(catalogue.ids), len(wanted)), np.bool_)
    for row, listed in enumerate(catalogue.genres):
        for genre in listed:
            if genre in column:
                has[row, column[genre]] = True
    return has


def _read_and_hash(files: Files) -> tuple[Ratings, dict[str, str]]:
    """Read the ratings and, at the same time, take the sums: hashing lets other threads run."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        sums: Future[dict[str, str]] = pool.submit(files.sums)
        with files.ratings() as path:
            ratings = read_ratings(files, path)
        try:
            return ratings, sums.result()
        except OSError as error:
            raise NotPossible(f"{files} cannot be read: {error}.") from error


@dataclass(frozen=True, eq=False, kw_only=True)
class _Tops:
    """Rows of the catalogue and ids of users, most ratings first; what was left out on the way."""

    movies: Ints
    people: Ints
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, ratings: Ratings, catalogue: Movies, has: Bools, M: int, K: int, owner: str
    ) -> _Tops:
        ids = catalogue.ids
        size = int(max(ratings.movies.max(), ids.max())) + 1
        stays = np.zeros(size, np.bool_)
        stays[ids[has.any(axis=1)]] = True
        by_movie = np.zeros(size, np.int64)
        by_user = np.zeros(int(ratings.users.max()) + 1, np.int64)
        seen = np.zeros(len(by_user), np.bool_)
        for piece in pieces(len(ratings.users)):
            rated, users = ratings.movies[piece], ratings.users[piece]
            by_movie += np.bincount(rated, minlength=size)
            by_user += np.bincount(users[stays[rated]], minlength=len(by_user))
            seen[users] = True

        listed = np.zeros(size, np.bool_)
        listed[ids] = True
        unlisted, dropped = ~listed, listed & ~stays
        notes = [
            f"{ratings.rows:,} ratings of {np.count_nonzero(seen):,} users and "
            f"{np.count_nonzero(by_movie):,} movies were read"
        ]
        if by_movie[unlisted].any():
            notes.append(
                f"{by_movie[unlisted].sum():,} ratings of {np.count_nonzero(by_movie[unlisted]):,} "
                "movies that the catalogue does not list: dropped"
            )
        if dropped.any():
            notes.append(
                f"{np.count_nonzero(dropped):,} movies with none of the {has.shape[1]} genres: "
                f"dropped, with their {by_movie[dropped].sum():,} ratings"
            )
        by_movie[~stays] = 0
        row_of = np.zeros(size, np.int64)
        row_of[ids] = np.arange(len(ids))
        return cls(
            movies=row_of[_top(by_movie, M, "movies", owner)],
            people=_top(by_user, K, "people", owner),
            notes=tuple(notes),
        )


def _top(counts: Ints, wanted: int, name: str, owner: str) -> Ints:
    """Return the ids (places in `counts`) with the highest counts; ties by ascending id."""
    there = np.count_nonzero(counts)
    if there < wanted:
        expected = f"at most {there:,}, as so many have ratings of movies with these genres"
        raise InvalidValue(name, owner, expected, wanted, f"Lower '{name}'.")
    return np.argsort(-counts, kind="stable")[:wanted].astype(np.int64)


def _cells(ratings: Ratings, movies: Ints, people: Ints) -> Floats:
    """Return what these people gave these movies, NaN where they did not: (M, K)."""
    row_of = np.full(int(max(ratings.movies.max(), movies.max())) + 1, -1, np.int64)
    row_of[movies] = np.arange(len(movies))
    column_of = np.full(int(ratings.users.max()) + 1, -1, np.int64)
    column_of[people] = np.arange(len(people))
    cells = np.full((len(movies), len(people)), np.nan)
    for piece in pieces(len(ratings.users)):
        # The people first: they are few among the users.
        column = column_of[ratings.users[piece]]
        theirs = np.flatnonzero(column >= 0)
        row = row_of[ratings.movies[piece][theirs]]
        inside = row >= 0
        stars = ratings.stars[piece][theirs]
        cells[row[inside], column[theirs[inside]]] = stars[inside]
    return cells


def _refuse_strangers(filled: Bools, people: Ints) -> None:
    strangers = people[~filled.any(axis=0)]
    if strangers.size:
        raise NotPossible(
            f"User {strangers[0]} has rated none of the {len(filled):,} movies of the block, so "
            "there is nothing to go by. Ask for more movies, or for fewer people."
        )


def _bands_of(people: Ints, bands: dict[int, int], files: Files) -> tuple[int, ...]:
    for user in people.tolist():
        if user not in bands:
            raise CorruptState(
                f"{files.label(files.layout.users)} has no line for user {user}, who has ratings. "
                "Fetch it again."
            )
    return tuple(bands[user] for user in people.tolist())


def _edition(files: Files, ratings: Ratings) -> Edition:
    """Return which data set it is: by a name, by the number of ratings, or by the layout."""
    for name in files.names:
        if found := NAMED.search(name):
            return EDITIONS[found[1].lower()]
    for edition in EDITIONS.values():
        if edition.ratings == ratings.rows:
            return edition
    if files.layout.ratings == "u.data":
        return EDITIONS["100k"]
    if files.layout.ratings == "ratings.dat":
        return EDITIONS["1m" if files.has_users else "10m"]
    return Edition(f"MovieLens ({files.layout.name})", 0)


def _edition_notes(ratings: Ratings, edition: Edition, files: Files) -> list[str]:
    notes = []
    if edition.ratings not in (0, ratings.rows):
        notes.append(
            f"{ratings.rows:,} ratings, where {edition.title} was published with "
            f"{edition.ratings:,}: this is a part of it, or another"
        )
    if not ratings.ended:
        notes.append(
            f"the last line of {files.layout.ratings} has no end: the file may have been cut short"
        )
    if ratings.repeated:
        notes.append(
            f"{ratings.repeated:,} duplicate ratings (same user, same movie): the last counts"
        )
    return notes


def _block_notes(filled: Bools, contexts: Floats, genres: tuple[str, ...]) -> list[str]:
    M, K = filled.shape
    notes = [
        f"the {M:,} most rated movies that remain, and the {K:,} users who rated most of what "
        "remains; ties by ascending id",
        f"{filled.mean():.1%} of the {M:,} × {K:,} cells are known; the others were filled by "
        "collaborative filtering",
    ]
    missing = [genre for genre, n in zip(genres, contexts.sum(axis=0), strict=True) if n == 0]
    if missing:
        notes.append(f"no movie of the block has the genre {', '.join(missing)}")
    return notes

"""MovieLens files that are made up, in every layout; and the way to the real ones."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from bridle_studies.environments.movietables import FLAGS

# Id → title and genres. 7 and 9 have none of the ten; accents, commas and quotes are as in life.
MOVIES: dict[int, tuple[str, str]] = {
    1: ("Toy Story (1995)", "Animation|Children|Comedy"),
    2: ("Amélie (2001)", "Comedy|Romance"),
    3: ("Seven, The (1995)", "Crime|Thriller"),
    5: ("Alien (1979)", "Horror|Sci-Fi"),
    7: ("Planet (2006)", "Documentary"),
    8: ('"Cats" (1998)', "Drama|Musical"),
    9: ("Nothing (2000)", "(no genres listed)"),
    40: ("Conan (1982)", "Action|Adventure|Fantasy"),
}
# User → age in years.
AGES = {1: 12, 2: 18, 3: 24, 4: 49, 6: 50, 11: 80}
BANDS = {1: 0, 2: 1, 3: 1, 4: 4, 6: 5, 11: 6}
CODES = (1, 18, 25, 35, 45, 50, 56)
CHILDREN = "Children's"  # as the older editions have it
# (user, movie, stars, time), by user and movie as MovieLens has them.
RATINGS: list[tuple[int, int, int, int]] = [
    (user, movie, 1 + (user * 7 + movie * 3) % 5, 1_000 + user)
    for user in AGES
    for movie in MOVIES
    if (user + movie) % 4 != 0
]
OPTIONS = {"movies": 5, "people": 4, "min_overlap": 2}

# The names of five editions, by which their folders and zips go.
EDITIONS = {
    "ml-100k": "MovieLens 100K",
    "ml-1m": "MovieLens 1M",
    "ml-10M100K": "MovieLens 10M",
    "ml-20m": "MovieLens 20M",
    "ml-latest-small": "MovieLens Latest Small",
}
RATINGS_FILE = {
    "ml-100k": "u.data",
    "ml-1m": "ratings.dat",
    "ml-10M100K": "ratings.dat",
    "ml-20m": "ratings.csv",
    "ml-latest-small": "ratings.csv",
}


def lay_out(folder, edition, *, ratings=None, movies=None, ages=None):
    """Write the tables into `folder`, as this edition has them."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    ratings = RATINGS if ratings is None else ratings
    movies = MOVIES if movies is None else movies
    ages = AGES if ages is None else ages
    if edition == "ml-100k":
        _write(folder / "u.data", ["\t".join(map(str, row)) for row in ratings])
        lines = []
        for movie, (title, genres) in movies.items():
            flags = ["1" if genre in genres.split("|") else "0" for genre in FLAGS]
            lines.append("|".join([str(movie), title, "01-Jan-1995", "", "http://x", *flags]))
        _write(folder / "u.item", lines, "latin-1")
        _write(folder / "u.user", [f"{user}|{age}|M|other|55455" for user, age in ages.items()])
    elif edition in ("ml-1m", "ml-10M100K"):
        _write(folder / "ratings.dat", ["::".join(map(str, row)) for row in ratings])
        old = edition == "ml-1m"
        lines = [
            f"{movie}::{title}::{genres.replace('Children', CHILDREN) if old else genres}"
            for movie, (title, genres) in movies.items()
        ]
        _write(folder / "movies.dat", lines, "latin-1" if old else "utf-8")
        if old:
            codes = {user: max(c for c in CODES if c <= max(age, 1)) for user, age in ages.items()}
            _write(folder / "users.dat", [f"{u}::F::{code}::4::9" for u, code in codes.items()])
    else:
        rows = [",".join(map(str, row)) for row in ratings]
        _write(folder / "ratings.csv", ["userId,movieId,rating,timestamp", *rows], end="\r\n")
        lines = ["movieId,title,genres"]
        for movie, (title, genres) in movies.items():
            quoted = '"' + title.replace('"', '""') + '"' if set(title) & set(',"') else title
            lines.append(f"{movie},{quoted},{genres}")
        _write(folder / "movies.csv", lines)
    return folder


def pack(folder, path, inside):
    """Put the files of `folder` into a zip, in a folder called `inside` (or at the top)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(f"{inside}README.txt", "hello")
        for file in sorted(folder.iterdir()):
            packed.write(file, f"{inside}{file.name}")
    return path


def real(name):
    """Give the path of real data, or skip the test that needs them."""
    default = Path(__file__).resolve().parents[4] / "shared" / "data"
    path = Path(os.environ.get("BRIDLE_DATA") or default, name)
    if not path.exists():
        pytest.skip(f"needs real data: {path} is not there (set BRIDLE_DATA to where they are)")
    return path


def _write(path, lines, encoding="utf-8", end="\n"):
    path.write_bytes("".join(line + end for line in lines).encode(encoding))

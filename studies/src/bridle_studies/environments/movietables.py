"""The tables of a MovieLens data set as arrays: its ratings, its movies, the ages of its users.

Ratings may be tens of millions, so polars parses them and looks at each value once, in bulk. Only
if something is wrong is the file read a second time, line by line, to say where.
"""

from __future__ import annotations

import bisect
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from bridle.errors import CorruptState, NotPossible, shown
from bridle.kernels.types import Bools
from bridle_studies.environments.layouts import Files

__all__ = ["BANDS", "Movies", "Ratings", "pieces", "read_bands", "read_movies", "read_ratings"]

# Counts are kept by id, so ids have a limit; those of MovieLens stay below 400,000.
MAX_ID = 10_000_000
MAX_LINE = 10_000
PIECE = 1_000_000

COLUMNS = ("userId", "movieId", "rating", "timestamp")
MOVIE_COLUMNS = ["movieId", "title", "genres"]

# The seven age bands of MovieLens 1M, by the first age in each; its file has these as codes.
BANDS = {
    1: "under 18",
    18: "18-24",
    25: "25-34",
    35: "35-44",
    45: "45-49",
    50: "50-55",
    56: "56+",
}
# What the 19 flags at the end of a line of u.item stand for.
FLAGS = (
    "unknown",
    "Action",
    "Adventure",
    "Animation",
    "Children",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
)
BEFORE_FLAGS = 5  # id, title, two dates, address

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False, kw_only=True)
class Ratings:
    """Who gave which movie how many stars: three columns of equal length.

    Attributes
    ----------
    users, movies : arrays of int32
        Ids, from 1.
    stars : array of float32
        Halves from 0.5 to 5.
    rows : int
        How many rows the file has.
    repeated : int
        How many of them are left out here because the same user rated the same movie again.
    ended : bool
        Whether the last line of the file has an end.
    """

    users: Ids
    movies: Ids
    stars: npt.NDArray[np.float32]
    rows: int
    repeated: int
    ended: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Movies:
    """The catalogue: for each movie an id, a title and its genres."""

    ids: npt.NDArray[np.int64]
    titles: tuple[str, ...]
    genres: tuple[tuple[str, ...], ...]


def pieces(length: int) -> Iterator[slice]:
    """Cut `length` rows into slices, so that what is computed from them stays small."""
    for start in range(0, length, PIECE):
        yield slice(start, min(start + PIECE, length))


def read_ratings(files: Files, path: Path) -> Ratings:
    """Read all ratings from `path`, where those of `files` are; check each value."""
    label, layout = files.label(files.layout.ratings), files.layout
    if path.stat().st_size == 0:
        raise CorruptState(f"{label} is empty. Fetch it again.")
    names = _header(path, label) if layout.header else COLUMNS
    last, ended = _last_line(path)
    table = _Table(path=path, label=label, separator=layout.separator, names=names, files=files)
    if len(last.split(layout.separator.encode())) < len(names):
        table.blame("its last line is cut short")
    columns = table.columns({"userId": "Int32", "movieId": "Int32", "rating": "Float32"})
    users, movies, stars = columns["userId"], columns["movieId"], columns["rating"]
    rows = len(users)
    if rows == 0:
        raise CorruptState(f"{label} has no ratings. Fetch it again.")
    for ids in (users, movies):
        if ids.min() < 1 or ids.max() > MAX_ID:
            table.blame(f"an id is not in the range [1, {MAX_ID}]")
    for piece in pieces(rows):
        some = stars[piece]
        # Written so that NaN fails.
        if not ((some >= 0.5) & (some <= 5.0) & (some * 2.0 == np.floor(some * 2.0))).all():
            table.blame("a rating is not a half from 0.5 to 5")
    keep = _last_of_each(users, movies, table)
    if keep is not None:
        users, movies, stars = users[keep], movies[keep], stars[keep]
    return Ratings(
        users=users,
        movies=movies,
        stars=stars,
        rows=rows,
        repeated=rows - len(users),
        ended=ended,
    )


def _header(path: Path, label: str) -> tuple[str, ...]:
    with path.open("rb") as file:
        line = file.readline(MAX_LINE)
    names = tuple(line.decode("utf-8-sig", "backslashreplace").rstrip("\r\n").split(","))
    if len(set(names)) < len(names) or not set(COLUMNS[:3]) <= set(names):
        raise CorruptState(
            f"{label} must begin with the line {','.join(COLUMNS)}. Got {shown(','.join(names))} "
            "instead. Is it a MovieLens file in UTF-8?"
        )
    return names


def _last_line(path: Path) -> tuple[bytes, bool]:
    """Return the last line, and whether it has an end."""
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - MAX_LINE))
        tail = file.read()
    ended = tail.endswith(b"\n")
    return tail.removesuffix(b"\n").rsplit(b"\n", 1)[-1], ended


def _last_of_each(users: Ids, movies: Ids, table: _Table) -> Bools | None:
    """Return which rows count where a user rated a movie twice; None: all, as nobody did."""
    same = users[1:] == users[:-1]
    # As MovieLens writes them, by user and movie, there is nothing more to do.
    if ((users[1:] > users[:-1]) | (same & (movies[1:] > movies[:-1]))).all():
        return None
    keys = users.astype(np.int64) << 32
    keys |= movies
    ordered = np.sort(keys)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if twice.size == 0:
        return None
    del ordered, same
    # Piece by piece: np.isin would sort all keys once more.
    among = np.zeros(len(keys), np.bool_)
    for piece in pieces(len(keys)):
        place = np.searchsorted(twice, keys[piece]).clip(max=len(twice) - 1)
        among[piece] = twice[place] == keys[piece]
    rows = np.flatnonzero(among)
    if "timestamp" in table.names:
        times = table.columns({"timestamp": "Int64"})["timestamp"][rows]
    else:
        times = np.zeros(len(rows), np.int64)
    # Stable: of equal times the later row comes last.
    order = np.lexsort((times, keys[rows]))
    found = keys[rows][order]
    is_last = np.append(found[1:] != found[:-1], True)
    keep = np.ones(len(keys), np.bool_)
    keep[rows[order[~is_last]]] = False
    return keep


@dataclass(frozen=True, kw_only=True)
class _Table:
    """A file of ratings: to read columns of it, and to say what is wrong with it."""

    path: Path
    label: str
    separator: str
    names: tuple[str, ...]
    files: Files

    def columns(self, wanted: dict[str, str]) -> dict[str, npt.NDArray[Any]]:
        """Read columns, each as the polars type that is named."""
        try:
            import polars as pl
        except ImportError:
            raise NotPossible(
                "Reading MovieLens ratings needs polars: pip install ./studies in bridle's folder."
            ) from None
        # polars separates by one character. Between two colons it sees an empty column.
        gaps = len(self.separator) - 1
        schema: dict[str, Any] = {}
        for number, name in enumerate(self.names):
            if number:
                schema |= {f"gap {number}.{gap}": pl.String for gap in range(gaps)}
            schema[name] = getattr(pl, wanted[name]) if name in wanted else pl.String
        try:
            frame = pl.scan_csv(
                self.path,
                has_header=self.files.layout.header,
                separator=self.separator[0],
                quote_char=None,
                schema=schema,
                glob=False,
            )
            read = frame.select(*wanted).collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            self.blame(str(error).partition("\n")[0])
        if any(read.null_count().row(0)):
            self.blame("a value is missing")
        return {name: read[name].to_numpy() for name in wanted}

    def blame(self, otherwise: str) -> NoReturn:
        """Raise the error for the first line that is wrong; if all look right, for `otherwise`."""
        with self.path.open("rb") as file:
            lines = iter(lambda: file.readline(MAX_LINE), b"")
            for number, line in enumerate(lines, 1):
                text = line.decode("utf-8", "backslashreplace").rstrip("\r\n")
                wrong = "" if number == 1 and self.files.layout.header else self._wrong(text)
                if wrong:
                    raise CorruptState(
                        f"{self.label}, line {number}: {wrong} The line is {shown(text)}. Mend or "
                        "remove it, or fetch the file again."
                    )
        raise CorruptState(f"{self.label} cannot be read: {otherwise}. Fetch it again.")

    def _wrong(self, line: str) -> str:
        fields = line.split(self.separator)
        if len(fields) < len(self.names):
            known = shown(self.separator.join(self.names))
            return f"{len(fields)} of {len(self.names)} fields are there ({known} are expected)."
        for name, field in zip(self.names, fields, strict=False):
            if name in ("userId", "movieId"):
                if not _is_id(field):
                    return f"{name} must be a whole number from 1 to {MAX_ID}. Got {shown(field)}."
            elif name == "rating" and not _is_stars(field):
                return f"a rating must be a half from 0.5 to 5. Got {shown(field)}."
            elif name == "timestamp" and not field.strip().lstrip("-").isdecimal():
                return f"a timestamp must be a whole number of seconds. Got {shown(field)}."
        return ""


def _is_id(text: str) -> bool:
    plain = text.strip()
    return plain.isascii() and plain.isdecimal() and 1 <= int(plain[:20]) <= MAX_ID


def _is_stars(text: str) -> bool:
    try:
        return float(text) * 2.0 in range(1, 11)
    except ValueError:
        return False


def read_movies(files: Files) -> Movies:
    """Read the catalogue. Genres have the names of the csv layout: "Children", not "Children's"."""
    name = files.layout.movies
    label = files.label(name)
    titles: dict[int, str] = {}
    genres: list[tuple[str, ...]] = []
    for line, fields in _movie_lines(files, label):
        if not _is_id(fields[0]):
            raise CorruptState(
                f"{label}, line {line}: a movie's id must be a whole number from 1 to {MAX_ID}. "
                f"Got {shown(fields[0])}. Is the file damaged?"
            )
        number = int(fields[0])
        if number in titles:
            raise CorruptState(
                f"{label}, line {line}: movie {number} is there a second time. Remove one of them."
            )
        titles[number] = fields[1].strip()
        genres.append(tuple(_plain(genre) for genre in fields[2:]))
    if not titles:
        raise CorruptState(f"{label} has no movies. Fetch it again.")
    return Movies(
        ids=np.array([*titles], np.int64), titles=tuple(titles.values()), genres=tuple(genres)
    )


def _plain(genre: str) -> str:
    return genre.strip().replace("Children's", "Children")


def _movie_lines(files: Files, label: str) -> Iterator[tuple[int, list[str]]]:
    """Return the number of each line, and its id, title and genres."""
    text = _text(files.table(files.layout.movies), label, only_utf8=files.layout.header)
    if not text.strip():
        raise CorruptState(f"{label} is empty. Fetch it again.")
    if files.layout.header:
        yield from _csv_movies(text, label)
        return
    separator = files.layout.movie_separator
    for line, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        fields = row.strip("\r").split(separator)
        if separator == "|":
            flags = fields[BEFORE_FLAGS:]
            if len(flags) != len(FLAGS) or not set(flags) <= {"0", "1"}:
                _refuse(label, line, "id|title|date|date|address| and 19 flags of 0 or 1", row)
            named = [genre for genre, flag in zip(FLAGS, flags, strict=True) if flag == "1"]
            yield line, [*fields[:2], *named]
        elif len(fields) < 3:
            _refuse(label, line, "id::title::genres", row)
        else:  # a title may hold the separator
            yield line, [fields[0], separator.join(fields[1:-1]), *fields[-1].split("|")]


def _csv_movies(text: str, label: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for number, row in enumerate(reader):
            if number == 0 and row[:3] != MOVIE_COLUMNS:
                _refuse(label, 1, ",".join(MOVIE_COLUMNS), ",".join(row))
            if row and len(row) < 3:
                _refuse(label, reader.line_num, ",".join(MOVIE_COLUMNS), ",".join(row))
            if number and row:
                yield reader.line_num, [*row[:2], *row[2].split("|")]
    except csv.Error as error:
        raise CorruptState(f"{label}, line {reader.line_num}: {error}. Fetch it again.") from error


def _refuse(label: str, line: int, expected: str, got: str) -> NoReturn:
    raise CorruptState(
        f"{label}, line {line}: {expected} is expected. Got {shown(got)} instead. Is the file cut "
        "short, or another one?"
    )


def _text(content: bytes, label: str, *, only_utf8: bool) -> str:
    """Decode a table. The older layouts came in latin-1; some people have re-coded them."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not only_utf8:
            return content.decode("latin-1")
        line = content.count(b"\n", 0, error.start) + 1
        raise CorruptState(
            f"{label}, line {line}: byte {content[error.start]:#04x} is not UTF-8, in which "
            "MovieLens writes its csv files. Save it as UTF-8, or fetch it again."
        ) from error


def read_bands(files: Files) -> dict[int, int] | None:
    """Return each user's age band, as a number into `BANDS`; None where no ages are published."""
    if not files.has_users:
        return None
    label = files.label(files.layout.users)
    separator = files.layout.movie_separator
    first_ages = [*BANDS]
    bands: dict[int, int] = {}
    text = _text(files.table(files.layout.users), label, only_utf8=False)
    for line, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        fields = row.strip().split(separator)
        # u.user: id|age|gender|…, age in years; users.dat: id::gender::code of the band::…
        in_years = separator == "|"
        age = fields[1 if in_years else 2] if len(fields) > 2 else ""
        good = age.isascii() and age.isdecimal() and len(age) <= 3
        if not (good and _is_id(fields[0]) and (in_years or int(age) in BANDS)):
            known = "id|age|gender|…" if in_years else "id::gender::age::…, age one of "
            codes = "" if in_years else ", ".join(map(str, BANDS))
            _refuse(label, line, known + codes, row)
        bands[int(fields[0])] = max(0, bisect.bisect_right(first_ages, int(age)) - 1)
    return bands

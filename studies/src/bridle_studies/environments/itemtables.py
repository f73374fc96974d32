"""Read a table of items with a label that orders them: films with certificates, games with ratings.

    table = read_items("films.csv", label="certificate", levels=["G", "PG", "PG-13", "R+NC-17"])

What a column is, is read off its values. `ItemTable.notes` says what was made of each of them, and
how many rows were left out and why.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bridle import validation
from bridle.errors import CorruptState, InvalidValue, LimitReached, NotPossible
from bridle.kernels.types import Floats, Ints
from bridle.schema import Schema, known
from bridle_studies.environments.itemcolumns import Column, read_column
from bridle_studies.environments.movietables import MAX_ID

__all__ = ["ItemTable", "read_items"]

OWNER = "read_items"
MOVIE_ID = "movieId"

MAX_BYTES = 64 * 2**20
MAX_ROWS, MAX_COLUMNS, MAX_CELLS = 100_000, 2_000, 20_000_000
MAX_LEVELS = 20
MAX_WIDTH = 1_999  # of the contexts: logistic limits take no more
WORDS = validation.IntRange(1, 1_000)
SHOWN = 6  # names or values in a note


@dataclass(frozen=True, eq=False, kw_only=True)
class ItemTable:
    """Items with features and a level each.

    Attributes
    ----------
    name : str
        The name of the file, without its suffix.
    contexts : array (M, d)
        The features of each item, as `schema` encodes them.
    schema : Schema
        What they are.
    levels : tuple of str
        The levels, lowest first, as they were asked for.
    level : array (M,)
        The number of each item's level.
    labels : tuple of M str
        A name for each item.
    movies : array (M,) or None
        The column `movieId`, where there is one: the key to MovieLens ratings.
    notes : tuple of str
        What was read: rows kept and left out, columns by kind.
    sha256 : str
        Of the file.
    """

    name: str
    contexts: Floats
    schema: Schema
    levels: tuple[str, ...]
    level: Ints
    labels: tuple[str, ...]
    movies: Ints | None
    notes: tuple[str, ...]
    sha256: str

    def __len__(self) -> int:
        return len(self.level)


def read_items(
    path: str | os.PathLike[str],
    *,
    label: str,
    levels: Sequence[str],
    features: Sequence[str] | None = None,
) -> ItemTable:
    """Read a csv of items: a row an item, a column that labels them, and columns of features.

    Columns of 0 and 1 (or true and false) are flags. Other numbers with more than two values are
    numbers, with the range of the column. Text with ``|`` or ``;`` between words is a set of
    labels; other short text is a category. Ids and titles, whose values all differ, are left out,
    as are columns with one value or none and columns of long text. Of very many words the most
    frequent ones are kept.

    A missing flag is 0, a missing number the mean of the others; a missing text has no word.

    Parameters
    ----------
    path : path
        The csv, in UTF-8, with commas and a header. At most 64 MiB and 100,000 rows.
    label : str
        The column that orders the items.
    levels : sequence of str
        Its values, lowest first. ``"R+NC-17"`` joins two values to one level. Rows with another
        value are left out and counted.
    features : sequence of str, optional
        The columns to read; all others by default. ``"keywords:60"`` keeps the 60 most frequent
        words. A column that is named is never left out: it is read, or refused.

    Raises
    ------
    InvalidValue
        The file, the label, a level or a feature is not what it must be.
    CorruptState
        The file is no csv in UTF-8, or a row is not as long as the header.
    LimitReached
        The table is too large.
    NotPossible
        The file cannot be read.
    """
    file = _file(path)
    data = _bytes(file)
    header, rows, notes = _rows(file, data)
    at = _column_at(header, label, "label")
    names, words = _levels(levels, [row[at] for row in rows], label)
    number_of = {word: number for number, words_of in enumerate(words) for word in words_of}
    kept = [row for row in rows if row[at] in number_of]
    notes = [*_row_notes(rows, kept, at, label, names, number_of), *notes]
    values = {name: [row[i] for row in kept] for i, name in enumerate(header) if name}
    read, left_out = _features(values, label, features)
    schema = Schema([column.feature for column in read])
    if schema.width > MAX_WIDTH:
        wanted = f"columns that make at most {MAX_WIDTH:,} features"
        remedy = "Name fewer, or keep fewer words: keywords:60."
        raise InvalidValue("features", OWNER, wanted, f"{schema.width:,} of them", remedy)
    contexts = np.hstack([column.encoded for column in read])
    return ItemTable(
        name=file.stem,
        contexts=np.ascontiguousarray(contexts),
        schema=schema,
        levels=names,
        level=np.array([number_of[row[at]] for row in kept], np.int64),
        labels=_titles(values, len(kept)),
        movies=_movies(values[MOVIE_ID]) if MOVIE_ID in values else None,
        notes=(*notes, *_column_notes(read, left_out)),
        sha256=hashlib.sha256(data).hexdigest(),
    )


# -- the file ------------------------------------------------------------------------------------


def _file(path: str | os.PathLike[str]) -> Path:
    wanted = "a csv file that exists"
    try:
        place = Path(path)
        there = place.is_file()
    except (TypeError, ValueError, OSError):
        raise InvalidValue("items", OWNER, wanted, path) from None
    if not there:
        raise InvalidValue("items", OWNER, wanted, str(place), "Check the path.")
    return place


def _bytes(file: Path) -> bytes:
    try:
        with file.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotPossible(f"{file} cannot be read: {error.strerror or error}.") from None
    if len(data) > MAX_BYTES:
        raise LimitReached(f"bytes in {file}", MAX_BYTES, "Give a part of the table.")
    return data


def _rows(file: Path, data: bytes) -> tuple[list[str], list[list[str]], list[str]]:
    """Return the header, the rows with blanks around values removed, and notes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorruptState(
            f"{file}, line {line}: byte {data[error.start]:#04x} is not UTF-8. Save the table as "
            "UTF-8."
        ) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    rows: list[list[str]] = []
    blank = 0
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if not any(stripped):
                blank += 1
            elif not header:
                header = stripped
                _check_header(file, header)
            elif len(cells) != len(header):
                raise CorruptState(
                    f"{file}, line {reader.line_num}: {len(cells)} values for {len(header)} "
                    "columns. Quote values that hold a comma, or mend the row."
                )
            else:
                rows.append(stripped)
                if len(rows) > MAX_ROWS or len(rows) * len(header) > MAX_CELLS:
                    most = min(MAX_ROWS, MAX_CELLS // len(header))
                    raise LimitReached(f"rows in {file}", most, "Give a part of the table.")
    except csv.Error as error:
        raise CorruptState(f"{file}, line {reader.line_num} is no csv: {error}.") from None
    if not rows:
        raise InvalidValue("items", OWNER, "a csv with a header and at least one row", str(file))
    notes = [f"Blank rows: {blank:,}, skipped."] if blank else []
    if not data.endswith((b"\n", b"\r")):
        notes.append("The last row has no line break: the file may have been cut short.")
    return header, rows, notes


def _check_header(file: Path, header: Sequence[str]) -> None:
    if len(header) > MAX_COLUMNS:
        raise LimitReached(f"columns in {file}", MAX_COLUMNS, "Give a part of the table.")
    twice, times = Counter(name for name in header if name).most_common(1)[0]
    if times > 1:
        raise CorruptState(f"{file}: {times} columns are called {twice[:100]!r}. Rename them.")
    for name in header:
        if len(name) > 200:
            raise CorruptState(f"{file}: the name of a column is too long: {name[:100]!r}…")


def _column_at(header: Sequence[str], name: str, parameter: str) -> int:
    if not isinstance(name, str) or not name or name not in header:
        remedy = known(name, [column for column in header if column])
        raise InvalidValue(parameter, OWNER, "a column of the table", name, remedy)
    return header.index(name)


# -- levels and rows -----------------------------------------------------------------------------


def _levels(
    levels: Sequence[str], there: Sequence[str], label: str
) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return the names of the levels, and the values that make each."""
    if isinstance(levels, str) or not 2 <= len(levels) <= MAX_LEVELS:
        wanted = f"2 to {MAX_LEVELS} values of the column {label!r}, lowest first"
        raise InvalidValue("levels", OWNER, wanted, levels)
    names = tuple(str(level).strip() for level in levels)
    counts = Counter(value for value in there if value)
    words = [[name] if name in counts else [w.strip() for w in name.split("+")] for name in names]
    seen: set[str] = set()
    for word in (word for several in words for word in several):
        if word in seen:
            raise InvalidValue("levels", OWNER, "a list without repetitions", word)
        if word not in counts:
            wanted = f"values that the column {label!r} has"
            offered = [value for value, _ in counts.most_common()]
            raise InvalidValue("levels", OWNER, wanted, word, known(word, offered))
        seen.add(word)
    return names, words


def _row_notes(
    rows: Sequence[Sequence[str]],
    kept: Sequence[Sequence[str]],
    at: int,
    label: str,
    names: Sequence[str],
    number_of: dict[str, int],
) -> list[str]:
    counts = Counter(row[at] for row in kept)
    each = Counter(dict.fromkeys(range(len(names)), 0))
    for word, count in counts.items():
        each[number_of[word]] += count
    by_level = ", ".join(f"{name} {each[number]:,}" for number, name in enumerate(names))
    notes = [f"{len(kept):,} of {len(rows):,} rows kept, by {label}: {by_level}."]
    others = Counter(row[at] for row in rows if row[at] not in number_of)
    if others:
        told = ", ".join(
            f"{_cut(value) if value else 'empty'} {count:,}"
            for value, count in others.most_common(SHOWN)
        )
        more = f" and {len(others) - SHOWN:,} more values" if len(others) > SHOWN else ""
        notes.append(
            f"{others.total():,} of {len(rows):,} rows left out, as their {label} is not among "
            f"the levels: {told}{more}."
        )
    return notes


# -- columns -------------------------------------------------------------------------------------


def _features(
    values: dict[str, list[str]], label: str, features: Sequence[str] | None
) -> tuple[list[Column], list[tuple[str, str]]]:
    """Read the columns that are asked for; return with them those left out, and why."""
    read: list[Column] = []
    left_out: list[tuple[str, str]] = []
    if features is None and MOVIE_ID in values:
        left_out.append((MOVIE_ID, "an id"))
    asked = _asked(values, label, features)
    for name, most in asked.items():
        column = read_column(name, values[name], most, named=features is not None)
        if isinstance(column, str):
            left_out.append((name, column))
        else:
            read.append(column)
    if not read:
        wanted = "a table with a column of features beside the label"
        told = "; ".join(f"{name}: {why}" for name, why in left_out[:SHOWN])
        remedy = f"All are left out ({told})." if told else "Give a table that has one."
        raise InvalidValue("items", OWNER, wanted, [*values], remedy)
    return read, left_out


def _asked(
    values: dict[str, list[str]], label: str, features: Sequence[str] | None
) -> dict[str, int | None]:
    """Return the columns to read, and how many words each may keep."""
    if features is None:
        return {name: None for name in values if name not in (label, MOVIE_ID)}
    if isinstance(features, str) or not features:
        raise InvalidValue("features", OWNER, "a list of columns", features)
    asked: dict[str, int | None] = {}
    for given in features:
        name, most = str(given).strip(), None
        if name not in values and ":" in name:
            name, _, number = (part.strip() for part in name.rpartition(":"))
            if not (number.isascii() and number.isdecimal()):
                wanted = "columns, each with how many words to keep, if any: genres,keywords:60"
                raise InvalidValue("features", OWNER, wanted, given)
            most = WORDS.check(int(number[:9]), "features", OWNER)
        _column_at([*values], name, "features")
        if name == label:
            wanted = "other columns than the label, which is what has to be learned"
            raise InvalidValue("features", OWNER, wanted, name)
        if name in asked:
            raise InvalidValue("features", OWNER, "a list without repetitions", name)
        asked[name] = most
    return asked


def _column_notes(read: Sequence[Column], left_out: Sequence[tuple[str, str]]) -> list[str]:
    notes = []
    for kind in dict.fromkeys(column.kind for column in read):
        mine = [column for column in read if column.kind == kind]
        plain = [column.feature.name for column in mine if not column.about]
        told = [f"{column.feature.name} ({column.about})" for column in mine if column.about]
        if plain:
            told.append(", ".join(plain[:SHOWN]))
            more = len(plain) - SHOWN
            told[-1] += f" and {more:,} more" if more > 0 else ""
        many = f"{len(mine)} columns" if len(mine) > 1 else "1 column"
        notes.append(f"{kind}: {many}, {'; '.join(told)}.")
    notes += [f"Left out: column {name}, {why}." for name, why in left_out]
    return notes


def _titles(values: dict[str, list[str]], rows: int) -> tuple[str, ...]:
    """Name the items: by a title or a name, if there is one, else by number."""
    for name, column in values.items():
        if name.lower() in ("title", "name") and all(column):
            return tuple(_cut(value, 200) for value in column)
    return tuple(f"item {row + 1}" for row in range(rows))


def _movies(column: Sequence[str]) -> Ints | None:
    """Return the ids of the films, or None where these are no ids of MovieLens."""
    good = all(cell.isascii() and cell.isdecimal() and len(cell) <= 9 for cell in column)
    ids = np.array([*map(int, column)] if good else [0], np.int64)
    return ids if 1 <= ids.min() and ids.max() <= MAX_ID else None


def _cut(text: str, longest: int = 30) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"

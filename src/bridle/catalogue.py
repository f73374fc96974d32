"""Catalogues: arms with their features out of a csv or parquet file, a frame, or rows of mappings.

`read_catalogue` reads a table and makes an `Arm` of every row. What a column is like is declared by
a `Schema`, or inferred by the rules that `read_catalogue` states; `Catalogue.describe` says what
came of it. `changes_of` compares a catalogue with an agent, and `update_catalogue` makes the agent
follow it.
"""

from __future__ import annotations

import csv
import datetime
import math
import numbers
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bridle import validation
from bridle.agent.agent import Agent
from bridle.agent.config import MAX_ARMS, Arm, ArmFeatures, ArmId
from bridle.agent.events import Event
from bridle.agent.state import STANDING
from bridle.errors import InvalidValue, LimitReached, NotPossible
from bridle.kernels.types import Floats
from bridle.schema import (
    MAX_VALUES,
    Category,
    Encoded,
    Feature,
    Flag,
    Id,
    Labels,
    Number,
    Schema,
    known,
)

__all__ = ["Catalogue", "Changes", "Column", "changes_of", "read_catalogue", "update_catalogue"]

OWNER = "read_catalogue"
MAX_ROWS = MAX_ARMS
MAX_COLUMNS = 1_000
MAX_BYTES = 2**31
# A column of so many rows in which every row has a word of its own says nothing of other arms.
TELLING = 10
# Characters of a word.
LONGEST = 200
MOST_WORDS = validation.IntRange(1, MAX_VALUES)
SHARE = validation.FRACTION
# Words of a column, and ids of arms, that a sentence names.
SHOWN = 6
YES, NO = ("true", "yes", "y", "t", "1"), ("false", "no", "n", "f", "0")
# What stands for "not known" in text files, beside nothing at all.
NOTHING = frozenset({"", "na", "n/a", "nan", "null", "none"})

Source: TypeAlias = "str | os.PathLike[str] | Iterable[Mapping[str, object]] | Any"
Features: TypeAlias = "Schema | Sequence[Feature | str] | None"


@dataclass(frozen=True, slots=True)
class Column:
    """What a column of a table was taken for.

    Attributes
    ----------
    name : str
    role : {"id", "label", "group", "feature", "left out"}
    words : str
        What it is, or why it was left out.
    missing : int
        Rows in which it has no value.
    unknown : int
        Rows with words that the schema does not have, where those are ignored.
    optional : bool
        Whether it is not known there, so that limits are in doubt.
    """

    name: str
    role: str
    words: str
    missing: int = 0
    unknown: int = 0
    optional: bool = False

    def sentence(self) -> str:
        """Return it as a sentence."""
        said = f"{self.name}: {self.role + ': ' if self.role == 'left out' else ''}{self.words}"
        doubt = ", which limits are in doubt about" if self.optional else ""
        if self.unknown:
            said += f"; unknown words ignored in {self.unknown:,} rows{doubt}"
        return f"{said}; missing in {self.missing:,}{doubt}" if self.missing else said


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """Arms with their features, as a table had them.

    Attributes
    ----------
    arms : tuple of Arm
        One for each row, in the order of the table.
    schema : Schema or None
        Their features: for ``Agent(arm_features=…)``. None of a table that has none.
    columns : tuple of Column
        What each column was taken for.
    source : str
        What was read.
    """

    arms: tuple[Arm, ...]
    schema: Schema | None
    columns: tuple[Column, ...]
    source: str

    def __len__(self) -> int:
        return len(self.arms)

    def __repr__(self) -> str:
        wide = 0 if self.schema is None else self.schema.width
        return f"<Catalogue of {self.source}: {len(self):,} arms, {wide:,} columns of features>"

    @property
    def left_out(self) -> dict[str, str]:
        """The columns that are no features, and why."""
        return {one.name: one.words for one in self.columns if one.role == "left out"}

    def describe(self) -> list[str]:
        """Return what was read, and what each column was taken for, in sentences."""
        roles = [f"{one.role}s from {one.name!r}" for one in self.columns if one.words == ""]
        first = f"{len(self):,} arms of {self.source}: {', '.join(roles)}"
        return [first, *(one.sentence() for one in self.columns if one.words)]


def read_catalogue(
    source: Source,
    *,
    id: str = "id",
    label: str | None = None,
    group: str | None = None,
    features: Features = None,
    skip: Sequence[str] = (),
    separator: str = "|",
    most_words: int = 50,
    unknown: str = "error",
    encoding: str = "utf-8-sig",
    delimiter: str = ",",
) -> Catalogue:
    r"""Read arms with their features from a table.

    Columns that nobody declared are inferred, in this order: only yes/no, true/false or 0/1: a
    `Flag`; only numbers: a `Number` with the range seen (later values outside of it count as the
    nearer end); words with a separator, or lists: `Labels`; at most `most_words` distinct words: a
    `Category`. Left out is a column with one value, with more distinct words, with dates, or with
    another word in each of ten rows or more: it says nothing of other arms.

    A value is missing if it is absent, None, not a number, or in text files empty or "NA", "null"
    and the like. Where a feature is inferred, it is optional: what is missing is not known, and
    limits are in doubt where it may matter. A list that is empty, or a separator alone ("|"), says
    that an arm has none of the words. Of declared features the schema says what a gap means.

    Parameters
    ----------
    source : path, frame, or iterable of mappings
        A file whose name ends in .csv, .tsv or .parquet (read by polars); a frame of polars or
        pandas, a table of pyarrow; or rows as mappings by column. At most 1,000,000 rows, 1,000
        columns and 2 GiB.
    id, label, group : str
        The columns that name the arms (each id once), say what people call them, and put them into
        groups. Of a csv file ids are text.
    features : Schema or list, optional
        What arms are like: columns that it does not have are left out. Features in a list are
        declared, names in it are columns to infer; by default all that are left.
    skip : list of str
        Columns that are no features.
    separator : str, default "|"
        What stands between the words of one value.
    most_words : int, default 50
        How many distinct words a column that is inferred may have.
    unknown : {"error", "ignore"}
        What to do with a word that a declared feature does not have. Ignored: if the feature is
        optional, it is not (wholly) known of the arm.
    encoding, delimiter : str
        Of a csv file.

    Raises
    ------
    InvalidValue
        Names line and column of what cannot be read.
    LimitReached
        Where the table is too large.

    Examples
    --------
    >>> films = [
    ...     {"id": 1, "title": "Up", "genres": "Family|Comedy", "year": 2009},
    ...     {"id": 2, "title": "Alien", "genres": "Horror", "year": 1979},
    ... ]
    >>> catalogue = read_catalogue(films, label="title")
    >>> catalogue.arms[1].label, dict(catalogue.arms[1].features)
    ('Alien', {'genres': ('Horror',), 'year': 1979.0})
    >>> print("\n".join(catalogue.describe()))
    2 arms of rows: ids from 'id', labels from 'title'
    genres: any of 3 words: Comedy, Family, Horror
    year: a number from 1979 to 2009, clipped
    """
    validation.one_of(unknown, ("error", "ignore"), "unknown", OWNER)
    MOST_WORDS.check(most_words, "most_words", OWNER)
    for name, given in (("separator", separator), ("delimiter", delimiter), ("id", id)):
        validation.text(given, name, OWNER)
    table = _table(source, encoding, delimiter)
    roles = {"id": id, "label": label, "group": group}
    for role, column in roles.items():
        if column is not None:
            table.check(column, role)
    used = [column for column in roles.values() if column is not None]
    for column in _names(skip, "skip"):
        table.check(column, "skip")
    reading = _Reading(table, separator, most_words, unknown == "ignore")
    declared, infer = _wanted(features, table, {*used, *skip})
    told: dict[str, Column] = {}
    made: dict[str, Encoded] = {one.name: one for one in declared}
    for name in infer:
        found = reading.infer(name)
        if isinstance(found, str):
            told[name] = Column(name, "left out", found, reading.missing(name))
        else:
            made[name] = found
    schema = Schema(list(made.values())) if made else None
    rows = reading.encode(schema, told, {one.name for one in declared})
    arms = _arms(table, roles, schema, rows)
    for role, column in roles.items():
        if column is not None and column not in told:
            told[column] = Column(column, role, "")
    for name in table.columns:
        told.setdefault(name, Column(name, "left out", "not asked for"))
    order = [*dict.fromkeys([*used, *made, *table.columns])]
    return Catalogue(arms, schema, tuple(told[name] for name in order), table.name)


def _wanted(features: Features, table: _Table, used: set[str]) -> tuple[list[Encoded], list[str]]:
    """Return the features that are declared, and the columns to infer."""
    if features is None:
        return [], [name for name in table.columns if name not in used and name.strip()]
    given = features.features if isinstance(features, Schema) else features
    if not isinstance(given, list | tuple):
        wanted = "a Schema, or a list of features and names of columns"
        raise InvalidValue("features", OWNER, wanted, features)
    declared: list[Encoded] = []
    infer: list[str] = []
    for one in given:
        if isinstance(one, str):
            table.check(one, "features")
            infer.append(one)
        elif isinstance(one, Number | Flag | Category | Labels):
            if one.name not in table.columns and one.missing is None and not one.optional:
                table.check(one.name, "features")
            declared.append(one)
        elif isinstance(one, Id):
            remedy = "The column 'id' of the table names arms: leave the Id out."
            raise InvalidValue("features", OWNER, "features of arms", one, remedy)
        else:
            raise InvalidValue("features", OWNER, "features and names of columns", one)
    return declared, infer


def _arms(
    table: _Table, roles: Mapping[str, str | None], schema: Schema | None, rows: Floats
) -> tuple[Arm, ...]:
    """Return an arm for each row."""
    first: dict[ArmId, int] = {}
    out = []
    ids = table.columns[roles["id"] or ""]
    none: list[object] = [None] * len(ids)
    labels = none if roles["label"] is None else table.columns[roles["label"]]
    groups = none if roles["group"] is None else table.columns[roles["group"]]
    for i, (id, label, group) in enumerate(zip(ids, labels, groups, strict=True)):
        where = table.where(i)
        if _is_missing(id):
            raise InvalidValue(str(roles["id"]), where, "the id of an arm", id)
        plain: Any = id.item() if isinstance(id, np.generic) else id
        if isinstance(plain, float) and plain.is_integer():
            plain = int(plain)  # pandas makes floats of whole numbers beside a missing one
        if plain in first:
            wanted = f"an id of its own: {table.where(first[plain])} has the same"
            raise InvalidValue(str(roles["id"]), where, wanted, plain)
        first[plain] = i
        features = None if schema is None else ArmFeatures(rows[i].tobytes(), schema)
        try:
            arm = Arm(
                plain,
                "" if _is_missing(label) else str(label),
                None if _is_missing(group) else str(group),
                features,
            )
        except InvalidValue as bad:
            column = roles.get(bad.name) or bad.name
            raise InvalidValue(column, where, bad.expected, bad.got, bad.remedy) from None
        out.append(arm)
    return tuple(out)


def _names(given: object, name: str) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Sequence | set | frozenset):
        raise InvalidValue(name, OWNER, "a list of names of columns", given)
    return [validation.text(one, name, OWNER) for one in given]


# --- What columns are like ----------------------------------------------------------------


class _Reading:
    """The columns of a table as features."""

    def __init__(self, table: _Table, separator: str, most_words: int, ignore: bool) -> None:
        self._table, self._separator = table, separator
        self._most, self._ignore = most_words, ignore

    def missing(self, name: str) -> int:
        """Return in how many rows a column has no value."""
        return sum(map(_is_missing, self._table.columns.get(name, ())))

    def infer(self, name: str) -> Encoded | str:
        """Return what feature a column is, or why it is none."""
        there = [one for one in self._table.columns[name] if not _is_missing(one)]
        if not there:
            return "no row has a value"
        if any(isinstance(one, datetime.date | datetime.time) for one in there):
            return "dates: give what matters about them, a year or an age in days"
        if any(isinstance(one, Mapping) for one in there):
            return "nested records: give their parts as columns"
        if all(map(_is_flag, there)):
            if len({_flag(one) for one in there}) == 1 and len(there) == len(self._table):
                return "the same in all rows"
            return Flag(name, optional=True)
        values = list(map(_number, there))
        if None not in values:
            return self._number(name, [v for v in values if v is not None])
        lists = any(isinstance(one, list | tuple | set | frozenset) for one in there)
        if lists or any(self._separator in str(one) for one in there):
            return self._labels(name, there)
        words = Counter(str(one).strip() for one in there)
        if len(words) == 1 and len(there) == len(self._table):
            return "the same in all rows"
        if len(words) > self._most:
            return f"{len(words):,} distinct words, more than most_words={self._most}"
        if any(len(word) > LONGEST for word in words):
            return f"texts longer than {LONGEST} characters"
        if len(words) == len(there) >= TELLING:
            return "another word in each row, which says nothing of other arms"
        return Category(name, sorted(words), optional=True)

    def _number(self, name: str, values: list[float]) -> Number | str:
        low, high = min(values), max(values)
        if low == high:
            return "the same in all rows"
        middle = float(np.median(values))
        middle = min(max(middle, low), high)
        return Number(name, low, high, clip=True, missing=middle, optional=True)

    def _labels(self, name: str, there: list[object]) -> Labels | str:
        words = {word for one in there for word in self._split(one)}
        if not words:
            return "no row has a word"
        if len(words) > self._most:
            return f"{len(words):,} distinct words, more than most_words={self._most}"
        if any(len(word) > LONGEST for word in words):
            return f"texts longer than {LONGEST} characters"
        return Labels(name, sorted(words), optional=True)

    def _split(self, value: object) -> list[str]:
        if isinstance(value, list | tuple | set | frozenset):
            parts = [str(one) for one in value if not _is_missing(one)]
        else:
            parts = str(value).split(self._separator)
        return [part.strip() for part in parts if part.strip()]

    def encode(self, schema: Schema | None, told: dict[str, Column], declared: set[str]) -> Floats:
        """Return the encoded features of all rows, (n, p); say of each what it is."""
        n = len(self._table)
        if schema is None:
            return np.empty((n, 0))
        rows: Floats = np.zeros((n, schema.width))
        for feature, at in schema.encoded:
            name = feature.name
            column = self._table.columns.get(name, [None] * n)
            missing = unknown = 0
            for i, value in enumerate(column):
                if _is_missing(value):
                    missing += 1
                    plain: object = None if feature.optional else feature.missing
                    if plain is None and not feature.optional:
                        remedy = "Declare that it may be left out: optional=True."
                        raise InvalidValue(name, self._table.where(i), "given", value, remedy)
                else:
                    plain, ignored = self._plain(feature, value, i)
                    unknown += ignored
                feature._write(plain, rows[i], at, self._table.where(i))
            told[name] = Column(
                name, "feature", _words_of(feature), missing, unknown, feature.optional
            )
        return rows

    def _plain(self, feature: Encoded, value: object, i: int) -> tuple[object, bool]:
        """Return a value as its feature takes it; whether words of it were ignored."""
        if isinstance(feature, Number):
            number = _number(value)
            if number is None:
                raise InvalidValue(feature.name, self._table.where(i), "a number", value)
            return number, False
        if isinstance(feature, Flag):
            if not _is_flag(value):
                wanted = "yes or no, true or false, 1 or 0"
                raise InvalidValue(feature.name, self._table.where(i), wanted, value)
            return _flag(value), False
        single = isinstance(feature, Category)
        words = [str(value).strip()] if single else self._split(value)
        new = [word for word in words if word not in feature._index]
        if new and not self._ignore:
            remedy = f"{known(new[0], feature.values)} Or read it with unknown='ignore'."
            wanted = "one of its words" if single else "some of its words"
            raise InvalidValue(feature.name, self._table.where(i), wanted, new[0], remedy)
        kept = [word for word in words if word in feature._index]
        if single:
            taken: object = kept[0] if kept else feature.missing
            if taken is None and not feature.optional:
                remedy = "Declare optional=True in the schema: then it is not known."
                raise InvalidValue(
                    feature.name, self._table.where(i), "a known word", value, remedy
                )
            return taken, bool(new)
        holes = isinstance(value, list | tuple | set | frozenset) and any(map(_is_missing, value))
        if feature.optional and (new or holes):
            return [*kept, None], bool(new)  # there is more, which nobody knows here
        return kept, bool(new)


def _words_of(feature: Encoded) -> str:
    """Return a feature in words."""
    absent = None if feature.optional else feature.missing
    if isinstance(feature, Flag):
        return "yes or no" + ("" if absent is None else f"; if missing {'yes' if absent else 'no'}")
    if isinstance(feature, Number):
        said = "a number"
        if feature.low is not None:
            said += (
                f" from {feature.low:g} to {feature.high:g}{', clipped' if feature.clip else ''}"
            )
        return said if absent is None else f"{said}; if missing {absent:g}"
    how = "one of" if isinstance(feature, Category) else "any of"
    return f"{how} {len(feature.values):,} words: {_some(feature.values)}"


def _some(names: Sequence[object]) -> str:
    more = len(names) - SHOWN
    return ", ".join(map(str, names[:SHOWN])) + (f" and {more:,} more" if more > 0 else "")


# --- Values ---------------------------------------------------------------------------------


def _is_missing(value: object) -> bool:
    """Return whether a cell holds nothing: None, not a number, and the like of frames."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, float | np.floating | np.datetime64) and value != value


def _is_flag(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in YES or value.strip().lower() in NO
    if isinstance(value, bool | np.bool_):
        return True
    return isinstance(value, numbers.Real) and value in (0, 1)


def _flag(value: object) -> bool:
    return value.strip().lower() in YES if isinstance(value, str) else bool(value)


def _number(value: object) -> float | None:
    """Return a cell as a finite number, None if it is none."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, str | numbers.Number):
        return None
    if isinstance(value, str) and not value.isascii():
        return None  # digits of other scripts
    try:
        number = float(value.replace("_", "x") if isinstance(value, str) else value)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) <= 1e300 else None


# --- Tables ---------------------------------------------------------------------------------


class _Table:
    """The columns of a table, all of one length.

    Parameters
    ----------
    name : str
        What was read, for messages.
    columns : mapping
        The cells of each column.
    lines : list of int, optional
        The line that each row ends at, of a text file.
    """

    def __init__(
        self, name: str, columns: dict[str, list[object]], lines: list[int] | None = None
    ) -> None:
        self.name, self.columns, self._lines = name, columns, lines
        self._rows = len(next(iter(columns.values()), ()))
        if not columns or not self._rows:
            raise InvalidValue("source", OWNER, "a table with rows", f"{name}, which has none")
        check_size(self._rows, len(columns))
        if not all(isinstance(column, str) for column in columns):
            wrong = next(column for column in columns if not isinstance(column, str))
            raise InvalidValue("source", OWNER, "a table whose columns have names", wrong)

    def __len__(self) -> int:
        return self._rows

    def where(self, i: int) -> str:
        """Return what people call row i."""
        if self._lines is not None:
            return f"line {self._lines[i]:,} of {self.name}"
        return f"row {i:,} (from 0) of {self.name}"

    def check(self, column: str, role: str) -> None:
        """Raise `InvalidValue` unless there is such a column."""
        if not isinstance(column, str) or column not in self.columns:
            wanted = f"a column of {self.name}"
            raise InvalidValue(role, OWNER, wanted, column, known(column, self.columns))


def check_size(rows: int, columns: int) -> None:
    """Raise `LimitReached` if a table is too large."""
    if rows > MAX_ROWS:
        raise LimitReached("rows of a catalogue", MAX_ROWS, "Split it over several agents.")
    if columns > MAX_COLUMNS:
        remedy = "Keep the columns that say what an arm is like."
        raise LimitReached("columns of a catalogue", MAX_COLUMNS, remedy)


def _table(source: Any, encoding: str, delimiter: str) -> _Table:
    """Return the columns of whatever was given."""
    if isinstance(source, str | os.PathLike):
        return _file(Path(source), encoding, delimiter)
    if hasattr(source, "collect_schema") and hasattr(source, "collect"):
        source = source.collect()  # a lazy frame of polars
    if hasattr(source, "to_pydict") and hasattr(source, "column_names"):  # pyarrow
        check_size(source.num_rows, len(source.column_names))
        return _Table("the table", dict(source.to_pydict()))
    if hasattr(source, "columns") and hasattr(source, "__len__") and hasattr(source, "dtypes"):
        names = list(source.columns)
        check_size(len(source), len(names))
        if len(set(names)) < len(names):
            twice = next(name for name, n in Counter(names).items() if n > 1)
            raise InvalidValue("source", OWNER, "a frame whose columns have distinct names", twice)
        return _Table("the frame", {name: _cells(source[name].to_list()) for name in names})
    if isinstance(source, Mapping | bytes) or not isinstance(source, Iterable):
        wanted = "a path to a .csv or .parquet file, a frame, or rows as mappings"
        raise InvalidValue("source", OWNER, wanted, source)
    return _rows(source)


def _cells(cells: list[Any]) -> list[object]:
    """Return cells with lists where frames have arrays."""
    return [one.tolist() if isinstance(one, np.ndarray) else one for one in cells]


def _rows(source: Iterable[Any]) -> _Table:
    rows: list[Mapping[str, object]] = []
    columns: dict[str, None] = {}
    for i, row in enumerate(source):
        if not isinstance(row, Mapping):
            raise InvalidValue("source", OWNER, "rows as mappings by column", row)
        columns |= dict.fromkeys(row)
        check_size(i + 1, len(columns))
        rows.append(row)
    return _Table("rows", {name: _cells([row.get(name) for row in rows]) for name in columns})


def _file(path: Path, encoding: str, delimiter: str) -> _Table:
    kind = path.suffix.lower()
    if kind not in (".csv", ".tsv", ".parquet"):
        wanted = "the path of a file whose name ends in .csv, .tsv or .parquet"
        raise InvalidValue("source", OWNER, wanted, str(path))
    try:
        size = path.stat().st_size
    except OSError as error:
        why = f"{type(error).__name__}."
        raise InvalidValue("source", OWNER, "a file that can be read", str(path), why) from None
    if size > MAX_BYTES:
        raise LimitReached("bytes of a catalogue", MAX_BYTES, "Split it, or read it by polars.")
    if kind == ".parquet":
        return _parquet(path)
    return _csv(path, encoding, "\t" if kind == ".tsv" and delimiter == "," else delimiter)


def _parquet(path: Path) -> _Table:
    try:
        import polars as pl
    except ImportError:
        raise NotPossible("Parquet is read by polars: pip install polars.") from None
    try:
        lazy = pl.scan_parquet(path, glob=False)
        names = lazy.collect_schema().names()
        check_size(int(lazy.select(pl.len()).collect().item()), len(names))
        frame = lazy.collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        said = str(error).partition("\n")[0][:200]
        raise InvalidValue("source", OWNER, "a parquet file", str(path), f"{said}.") from None
    return _Table(path.name, {name: frame[name].to_list() for name in names})


def _csv(path: Path, encoding: str, delimiter: str) -> _Table:
    lines: list[int] = []
    line = 0
    columns: dict[str, list[object]] = {}
    try:
        with path.open(encoding=encoding, newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            header = _header(next(reader, []), path.name, delimiter)
            columns, line = {name: [] for name in header}, reader.line_num
            for cells in reader:
                line = reader.line_num
                if not cells:
                    continue  # an empty line
                if len(cells) != len(header):
                    wanted = f"of {len(header)} fields, as its header is"
                    where = f"line {line:,} of {path.name}"
                    raise InvalidValue("row", where, wanted, f"{len(cells)} fields")
                lines.append(line)
                check_size(len(lines), len(header))
                for column, cell in zip(columns.values(), cells, strict=True):
                    column.append(None if cell.strip().lower() in NOTHING else cell)
    except (UnicodeError, LookupError) as error:
        remedy = f"Give encoding='cp1252' or 'utf-16', say, as the file has it. ({error})"
        raise InvalidValue("encoding", OWNER, f"that of {path.name}", encoding, remedy) from None
    except (csv.Error, TypeError) as error:
        where = f"line {line + 1:,} of {path.name}"
        raise InvalidValue("row", where, "a row of a csv file", f"{error}") from None
    return _Table(path.name, columns, lines)


def _header(cells: list[str], name: str, delimiter: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    check_size(1, len(names))
    if not any(names):
        raise InvalidValue("source", OWNER, "a csv file with a header", f"{name}, which has none")
    if len(names) == 1:
        other = next((one for one in (";", "\t", ",", "|") if one in names[0]), None)
        if other is not None and other != delimiter:
            remedy = f"The columns of {name} seem to be separated by {other!r}."
            raise InvalidValue("delimiter", OWNER, "what separates columns", delimiter, remedy)
    twice = next((one for one, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise InvalidValue("header", name, "distinct names of columns", twice)
    return names


# --- An agent that follows its catalogue ------------------------------------------------------


class Changes(NamedTuple):
    """What an agent has to do to follow a catalogue.

    Attributes
    ----------
    add : tuple of Arm
        Arms that the agent does not have.
    change : tuple of Arm
        Arms whose label or features are others now.
    retire : tuple of arm ids
        Arms that the agent plays and the catalogue does not have any more.
    restore : tuple of arm ids
        Arms that the agent knows and does not play, and the catalogue has (again).
    """

    add: tuple[Arm, ...]
    change: tuple[Arm, ...]
    retire: tuple[ArmId, ...]
    restore: tuple[ArmId, ...]

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to do."""
        return not any(self)

    def describe(self) -> list[str]:
        """Return them in sentences."""
        each = {
            "added": [arm.id for arm in self.add],
            "changed": [arm.id for arm in self.change],
            "retired": list(self.retire),
            "restored": list(self.restore),
        }
        return [f"{len(ids):,} {what}: {_some(ids)}" for what, ids in each.items() if ids]


def changes_of(agent: Agent, catalogue: Catalogue | Iterable[Arm]) -> Changes:
    """Return what an agent has to do to follow a catalogue; nothing is changed.

    Examples
    --------
    >>> films = [{"id": n, "genre": g} for n, g in enumerate(["horror", "drama", "horror"])]
    >>> first = read_catalogue(films)
    >>> agent = Agent(arms=first.arms, features=1, arm_features=first.schema)
    >>> films = [films[0], films[1] | {"genre": "horror"}, {"id": 7, "genre": "drama"}]
    >>> changes_of(agent, read_catalogue(films, features=first.schema)).describe()
    ['1 added: 7', '1 changed: 1', '1 retired: 2']
    """
    if not isinstance(agent, Agent):
        raise InvalidValue("agent", "changes_of", "an Agent", agent)
    given = catalogue.arms if isinstance(catalogue, Catalogue) else tuple(catalogue)
    state, schema = agent._state, agent.settings.arm_features
    add: list[Arm] = []
    change: list[Arm] = []
    restore: list[ArmId] = []
    met: set[ArmId] = set()
    for arm in given:
        if not isinstance(arm, Arm):
            raise InvalidValue("catalogue", "changes_of", "a Catalogue, or arms", arm)
        if arm.id in met:
            raise InvalidValue("catalogue", "changes_of", "arms of distinct ids", arm.id)
        met.add(arm.id)
        one = arm.encoded(schema, "changes_of")
        k = state.number_of.get(arm.id)
        if k is None:
            add.append(one)
            continue
        if one != state.arms[k]:
            change.append(one)
        if state.status[k] != STANDING:
            restore.append(arm.id)
    standing = np.flatnonzero(state.status == STANDING).tolist()
    safe = agent.settings.safe_arm
    gone = [id for id in (state.arm_ids[k] for k in standing) if id not in met and id != safe]
    return Changes(tuple(add), tuple(change), tuple(gone), tuple(restore))


def update_catalogue(
    agent: Agent,
    catalogue: Catalogue | Iterable[Arm],
    *,
    most_retired: float = 0.5,
    by: str | None = None,
    note: str | None = None,
    at: float | None = None,
) -> Changes:
    """Add, change, retire and restore arms so that an agent has those of a catalogue: all or none.

    The events go to the agent's sink together. The arm that is played where no other may be
    (`safe_arm`) is never retired.

    Parameters
    ----------
    agent : Agent
    catalogue : Catalogue, or arms
        Best read with the agent's own features:
        ``read_catalogue(path, features=agent.settings.arm_features, unknown="ignore")``.
    most_retired : float, default 0.5
        Which part of the arms may go at once: a file that was cut short retires no more. 1: any.
    by, note : str, optional
        Who says so, and why, for the log.
    at : float, optional
        The time, for the log.

    Returns
    -------
    Changes
        What was done.
    """
    changes = changes_of(agent, catalogue)
    most = SHARE.check(most_retired, "most_retired", "update_catalogue")
    standing = int((agent._state.status == STANDING).sum())
    if len(changes.retire) > most * standing:
        raise NotPossible(
            f"The catalogue lacks {len(changes.retire):,} of {standing:,} arms: "
            f"{_some(changes.retire)}. If it is whole, and its ids are those of the agent, give "
            "most_retired=1."
        )
    why: dict[str, Any] = {"by": by, "note": note, "at": at}
    events: list[Event] = []
    if changes.change:
        events.append(agent.make.arms_changed(changes.change, **why))
    if changes.restore:
        events.append(agent.make.arms_restored(changes.restore, **why))
    if changes.add:
        events.append(agent.make.arms_added(changes.add, **why))
    if changes.retire:
        events.append(agent.make.arms_retired(changes.retire, **why))
    agent._commit_all(events)
    return changes

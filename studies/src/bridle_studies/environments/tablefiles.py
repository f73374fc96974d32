"""One table of numbers as a file, csv or parquet: what `files` makes worlds of.

Whatever is wrong in a file is said with the file, the row and the column.
"""

from __future__ import annotations

import array
import csv
import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bridle.errors import CorruptState, LimitReached, NotPossible
from bridle.kernels.types import Bools, Floats
from bridle.validation import MAX_MAGNITUDE

__all__ = [
    "FORMATS",
    "MAX_FILE",
    "TABLES",
    "TableFile",
    "bad_cell",
    "check_header",
    "check_size",
    "csv_rows",
    "read_bytes",
    "read_table",
    "same_names",
    "write_csv",
    "write_table",
]

FORMATS = ("csv", "parquet")
MAX_ROWS, MAX_CELLS, MAX_COLUMNS = 1_000_000, 20_000_000, 100_000
MAX_FILE = 512 * 2**20
MAX_LABEL = 1_000
# What the numbers of each table may be, and how to say so.
TABLES: dict[str, tuple[Callable[[Floats], Bools], str]] = {
    "contexts": (
        lambda x: np.abs(x) <= MAX_MAGNITUDE,
        f"a number in [-{MAX_MAGNITUDE:g}, {MAX_MAGNITUDE:g}]",
    ),
    "rewards": (lambda x: (x >= 0.0) & (x <= 1.0), "a number in [0, 1]"),
    "allowed": (lambda x: (x == 0.0) | (x == 1.0), "0 or 1"),
}


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table as it was read: the names of its columns, and M rows of numbers."""

    path: Path
    columns: tuple[str, ...]
    numbers: Floats
    labels: tuple[str, ...] = ()

    def ordered(self, columns: Sequence[str], whose: str) -> Floats:
        """Return the numbers in the order of `columns`, which must be those of the table."""
        same_names(self.path, "column", self.columns, columns, whose)
        if self.columns == tuple(columns):
            return self.numbers
        places = {name: i for i, name in enumerate(self.columns)}
        return self.numbers[:, [places[name] for name in columns]]


def read_bytes(path: Path, files: dict[str, str], limit: int = MAX_FILE) -> bytes:
    """Read a file that is not too large, and enter its sha256 in `files`."""
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= limit else b""
    except OSError as error:
        raise NotPossible(f"{path} cannot be read: {error.strerror or error}.") from error
    if size > limit:
        raise LimitReached(f"bytes in {path}", limit, "Give a part of the data.")
    if not data.strip():
        raise CorruptState(f"{path} is empty.")
    files[path.name] = hashlib.sha256(data).hexdigest()
    return data


def read_table(home: Path, name: str, files: dict[str, str]) -> TableFile:
    """Read one of `TABLES`, whichever format it has, and check its numbers."""
    there = [path for kind in FORMATS if (path := home / f"{name}.{kind}").exists()]
    if not there:
        raise NotPossible(
            f"There is no {name}.csv (or {name}.parquet) in {home}. A world needs "
            f"{', '.join(TABLES)}."
        )
    if len(there) > 1:
        raise NotPossible(f"{home} has both {name}.csv and {name}.parquet. Remove one of them.")
    path = there[0]
    data = read_bytes(path, files)
    labelled = name == "contexts"
    table = (_from_csv if path.suffix == ".csv" else _from_parquet)(path, data, labelled)
    if not table.numbers.size:
        raise CorruptState(f"{path} has no {'rows' if table.columns else 'columns of numbers'}.")
    good, wanted = TABLES[name]
    if not (fine := good(table.numbers)).all():
        row, place = np.argwhere(~fine)[0].tolist()
        raise bad_cell(path, row, table.columns[place], wanted, float(table.numbers[row, place]))
    for row, label in enumerate(table.labels):
        if len(label) > MAX_LABEL:
            wanted = f"a text of at most {MAX_LABEL:,} characters"
            raise bad_cell(path, row, "label", wanted, label)
    return table


def bad_cell(path: Path, row: int, column: str, wanted: str, got: object) -> CorruptState:
    """Make the error for a cell; people count rows from 1."""
    return CorruptState(
        f"{path}, row {row + 1:,}, column {column[:100]!r}: must be {wanted}. "
        f"Got {str(got)[:100]!r} instead."
    )


def check_size(path: Path, rows: int, columns: int) -> None:
    """Raise an error if a table is too large."""
    for count, limit, what in (
        (columns, MAX_COLUMNS, "columns"),
        (rows, MAX_ROWS, "rows"),
        (rows * columns, MAX_CELLS, "cells"),
    ):
        if count > limit:
            raise LimitReached(f"{what} in {path}", limit, "Give a part of the data.")


def check_header(path: Path, columns: Sequence[str], labelled: bool) -> bool:
    """Raise an error if columns lack names or share one; return whether the first has labels."""
    check_size(path, 0, len(columns))
    if "" in columns:
        place = columns.index("") + 1
        raise CorruptState(f"{path}: column {place:,} has no name in the header.")
    if labelled and "label" in columns[1:]:
        place = columns.index("label", 1) + 1
        raise CorruptState(f"{path}: column {place:,} is called 'label'; only the first may be.")
    twice, times = (Counter(columns).most_common(1) or [("", 1)])[0]
    if times > 1:
        raise CorruptState(f"{path}: {times} columns are called {twice[:100]!r}. Rename them.")
    return labelled and columns[0] == "label" if columns else False


def same_names(
    path: Path, what: str, got: Sequence[str], wanted: Sequence[str], whose: str
) -> None:
    """Raise an error unless the names are the wanted ones, in any order."""
    given, others = set(got), set(wanted)
    for name in got:
        if name not in others:
            raise CorruptState(f"{path}: the {what} {name[:100]!r} is not in {whose}.")
    for name in wanted:
        if name not in given:
            raise CorruptState(f"{path}: has no {what} {name[:100]!r}, which is in {whose}.")


def csv_rows(path: Path, data: bytes) -> Iterator[list[str]]:
    """Return the header and then the rows of a csv, all of the same length."""
    if not data.endswith((b"\n", b"\r")):
        raise CorruptState(
            f"{path}: the last row has no line break, so the file may have been cut off. Write it "
            "anew; if it is whole, add one."
        )
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
    width, row = 0, -1
    try:
        for row, cells in enumerate(csv.reader(text, strict=True), start=-1):
            if row < 0:
                width = len(cells)
            elif len(cells) != width:
                raise CorruptState(
                    f"{path}, row {row + 1:,}: has {len(cells):,} values for {width:,} columns."
                )
            yield cells
    except UnicodeDecodeError as error:
        raise CorruptState(f"{path} is not UTF-8: {error.reason}. Save it as UTF-8.") from error
    except csv.Error as error:  # a quote, or a field, without end
        raise CorruptState(f"{path}, after row {row + 1:,}: {error}.") from error


def _from_csv(path: Path, data: bytes, labelled: bool) -> TableFile:
    rows = csv_rows(path, data)
    columns = next(rows)
    skip = int(check_header(path, columns, labelled))
    names, numbers = columns[skip:], array.array("d")
    labels: list[str] = []
    grouped = b"_" in data  # Python takes 1_000 for a number; nobody else does
    for row, cells in enumerate(rows):
        check_size(path, row + 1, len(columns))
        labels += cells[:skip]
        values = cells[skip:]
        try:
            numbers.extend(map(float, values))
            if grouped and any("_" in value for value in values):
                raise ValueError
        except ValueError:
            place = next(i for i, value in enumerate(values) if not _is_number(value))
            wanted = "a number"
            raise bad_cell(path, row, names[place], wanted, values[place]) from None
    table = np.array(numbers, np.float64).reshape(-1, max(len(names), 1))
    return TableFile(path, tuple(names), table, tuple(labels))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _from_parquet(path: Path, data: bytes, labelled: bool) -> TableFile:
    pl = _polars()
    try:
        columns = [*pl.read_parquet_schema(io.BytesIO(data))]
        rows = pl.scan_parquet(io.BytesIO(data)).select(pl.len()).collect().item()
        check_size(path, rows, len(columns))  # before it is unpacked
        frame = pl.read_parquet(io.BytesIO(data))
    # A damaged file can also make polars panic, which is not even an `Exception`.
    except (pl.exceptions.PolarsError, OSError, pl.exceptions.PanicException) as error:
        why = (str(error).splitlines() or ["damaged"])[0][:200]
        raise CorruptState(f"{path} is not a parquet file that can be read: {why}.") from error
    skip = int(check_header(path, columns, labelled))
    for place, series in enumerate(frame):
        words = place < skip
        right = series.dtype == pl.String if words else series.dtype.is_numeric()
        if not right and (words or series.dtype != pl.Boolean):
            wanted = f"{'a text' if words else 'a number'}, not {series.dtype}"
            raise bad_cell(path, 0, series.name, wanted, series[0] if rows else None)
        if series.null_count():
            row = int(series.is_null().arg_max() or 0)
            raise bad_cell(path, row, series.name, "a text" if words else "a number", None)
    numbers = frame[:, skip:].cast(pl.Float64).to_numpy().reshape(rows, len(columns) - skip)
    labels = tuple(frame["label"].to_list()) if skip else ()
    return TableFile(path, tuple(columns[skip:]), np.ascontiguousarray(numbers), labels)


def _polars() -> Any:
    try:
        import polars
    except ImportError:
        why = "Parquet needs polars: pip install ./studies in bridle's folder. Or use csv."
        raise NotPossible(why) from None
    return polars


def write_table(
    path: Path, columns: Sequence[str], numbers: Any, labels: Sequence[str] = ()
) -> None:
    """Write a table in the format that the path's suffix names."""
    header = ["label", *columns] if labels else [*columns]
    if path.suffix == ".csv":
        rows = numbers.tolist()
        if labels:
            rows = [[label, *row] for label, row in zip(labels, rows, strict=True)]
        write_csv(path, header, rows)
    else:
        parts = [[*labels], *numbers.T] if labels else [*numbers.T]
        _polars().DataFrame(dict(zip(header, parts, strict=True))).write_parquet(path)


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a csv; floats in full, as Python shows them."""
    # The writer of Python 3.11 quotes no "\r" of its own accord, and its reader takes one for the
    # end of a row.
    words = (cell for row in (header, *rows) for cell in row if isinstance(cell, str))
    returns = any("\r" in word for word in words)
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(
            out,
            lineterminator="\n",
            quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL,
        )
        writer.writerow(header)
        writer.writerows(rows)

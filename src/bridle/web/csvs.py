"""Csv files of people, parsed into what the API takes; each error names the line and the column.

The first line names the columns: one for each feature, and for examples `arm` and `allowed`, too.
Commas, semicolons or tabs separate cells; ``|`` or ``;`` separates several labels in a cell.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, assert_never

from bridle.agent.config import Arm, ArmId
from bridle.errors import InvalidValue
from bridle.schema import Category, Feature, Flag, Id, Labels, Number, Schema, known
from bridle.server.problems import Problem
from bridle.web.rendering import item_from

__all__ = [
    "MAX_ROWS",
    "BadCsv",
    "ExampleRow",
    "Line",
    "Value",
    "example_columns",
    "plain_cell",
    "read_contexts",
    "read_examples",
    "read_lines",
    "written",
]

Value: TypeAlias = bool | float | str | list[str] | None

MAX_ROWS = 100_000
MOST_NAME = 200  # characters of the name of an item
MAX_COLUMNS = 2_000
MOST_WRONGS = 10
MOST_LOOKED_AT = 5_000  # names that are compared with a misspelled one
DELIMITERS = ",;\t"
# A spreadsheet takes a cell that begins like this for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
ANSWERS = TRUTHS | {"allowed": True, "not allowed": False, "denied": False}


class BadCsv(Problem):
    """A csv that cannot be read. `wrongs` has a sentence for each thing to mend, up to ten."""

    def __init__(self, wrongs: Sequence[str]) -> None:
        self.wrongs = list(wrongs[:MOST_WRONGS])
        super().__init__(
            "invalid_value",
            " ".join(self.wrongs),
            field="csv",
            remedy="Mend the csv and send it again. Nothing of it was taken.",
        )


class Line(NamedTuple):
    """A line of a csv: its number in the text, from 1 on, and its cells by column."""

    number: int
    cells: dict[str, str]


class ExampleRow(NamedTuple):
    """One example of a csv."""

    line: int
    context: dict[str, Value]
    arm: ArmId
    allowed: bool


def read_contexts(schema: Schema, text: str) -> list[dict[str, Value]]:
    r"""Read contexts, one a line, or raise `BadCsv`.

    Examples
    --------
    >>> schema = Schema([Flag("child"), Labels("genres", ["Drama", "Horror"])])
    >>> read_contexts(schema, "child,genres\nyes,Drama|Horror\nno,")
    [{'child': True, 'genres': ['Drama', 'Horror']}, {'child': False, 'genres': []}]
    """
    reading = _Reading(schema, {})
    return [context for _, context, _ in reading.rows(text)]


def read_examples(schema: Schema, arms: Sequence[Arm], text: str) -> list[ExampleRow]:
    r"""Read examples, one a line, or raise `BadCsv`; arms by id, or by a label of their own.

    Examples
    --------
    >>> schema = Schema([Flag("child")])
    >>> read_examples(schema, [Arm("a", "Fog")], "child,arm,allowed\nyes,Fog,no")
    [ExampleRow(line=2, context={'child': True}, arm='a', allowed=False)]
    """
    arm, allowed = example_columns(schema)[-2:]
    reading = _Reading(schema, {arm: _arm_reader(arms), allowed: _answer})
    return [
        ExampleRow(line, context, more[arm], more[allowed])  # type: ignore[arg-type]
        for line, context, more in reading.rows(text)
    ]


def example_columns(schema: Schema) -> list[str]:
    """Return the columns of a csv of examples; the last two are the arm and the answer."""
    names = [feature.name for feature in schema.features]
    for wanted in ("arm", "allowed"):
        while wanted in names:  # a feature may have this name
            wanted += "_"
        names.append(wanted)
    return names


def read_lines(text: str, columns: Sequence[str] = ()) -> Iterator[Line]:
    """Read a csv of any columns, line by line, without its empty lines, or raise `BadCsv`.

    `columns` are expected names, from which the delimiter is inferred.
    """
    text = text.removeprefix("\ufeff")
    delimiter = _delimiter(text, columns)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    names: list[str] = []
    wrongs: list[str] = []
    count = start = 0
    while True:
        start = reader.line_num + 1
        try:
            cells = [_plain(cell) for cell in next(reader)]
        except StopIteration:
            break
        except csv.Error as error:
            raise BadCsv([*wrongs, f"Line {start} is no csv: {error}."]) from None
        if not any(cells):
            continue
        if not names:
            names = _names(cells, start)
            continue
        count += 1
        if count > MAX_ROWS:
            raise BadCsv([f"There are more than {MAX_ROWS:,} lines. Send them in parts."])
        if len(cells) != len(names) and not _padded(cells, len(names)):
            wrongs.append(f"Line {start} has {len(cells)} cells, not {len(names)} as the first.")
            if len(wrongs) >= MOST_WRONGS:
                break
            continue
        if not wrongs:
            yield Line(start, dict(zip(names, cells, strict=False)))
    if wrongs:
        raise BadCsv(wrongs)
    if not count:
        raise BadCsv(["It holds no line below the one that names the columns."])


def written(rows: Sequence[Sequence[object]]) -> str:
    """Return a csv that a spreadsheet opens without running anything in it."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([[plain_cell(c) for c in row] for row in rows])
    return out.getvalue()


def plain_cell(value: object) -> str:
    """Return the text of a cell; no text is taken for a formula.

    Examples
    --------
    >>> plain_cell("=1+1"), plain_cell(-0.5), plain_cell(True), plain_cell(["Drama", "Horror"])
    ("'=1+1", '-0.5', 'yes', 'Drama|Horror')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return str(value).removesuffix(".0")
    text = "|".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text


class _Reading:
    """Reads lines into contexts and further columns; gathers what is wrong."""

    def __init__(self, schema: Schema, more: dict[str, Callable[[str], object]]) -> None:
        self._features = {
            feature.name: (
                _CellReader(feature),
                isinstance(feature, Id) or feature.missing is not None,
            )
            for feature in schema.features
        }
        self._more = more
        self._wrongs: list[str] = []

    def rows(self, text: str) -> Iterator[tuple[int, dict[str, Value], dict[str, object]]]:
        """Yield the number, the context and the further columns of each line; raise at the end."""
        first = True
        for line in read_lines(text, [*self._features, *self._more]):
            if first:
                self._check_columns(line.cells)
                first = False
            context: dict[str, Value] = {}
            rest: dict[str, object] = {}
            for name, cell in line.cells.items():
                try:
                    if name in self._more:
                        rest[name] = self._more[name](cell)
                    else:
                        context[name] = self._features[name][0](cell)
                except _WrongError as wrong:
                    self._complain(line.number, name, str(wrong))
            if not self._wrongs:
                yield line.number, context, rest
        if self._wrongs:
            raise BadCsv(self._wrongs)

    def _check_columns(self, cells: dict[str, str]) -> None:
        columns = [*self._features, *self._more]
        wrongs = [
            f"There is a column {name!r:.200}, of which the agent knows nothing. "
            f"{known(name, columns)}"
            for name in cells
            if name not in columns
        ]
        needed = [n for n, (_, may_miss) in self._features.items() if not may_miss] + [*self._more]
        wrongs += [f"There is no column {name!r}." for name in needed if name not in cells]
        if wrongs:
            raise BadCsv(wrongs)

    def _complain(self, line: int, column: str, text: str) -> None:
        self._wrongs.append(f"Line {line}, column {column!r}: {text}")
        if len(self._wrongs) >= MOST_WRONGS:
            raise BadCsv(self._wrongs)


class _WrongError(Exception):
    """What is wrong with a cell."""


class _CellReader:
    """Reads the cells of one feature. What the schema would refuse is explained here."""

    def __init__(self, feature: Feature) -> None:
        self._feature = feature
        # Checks a value as the whole schema would. An item name has no column.
        self._alone = None if isinstance(feature, Id) else Schema([feature])
        self._known: dict[str, Value] = {}

    def __call__(self, cell: str) -> Value:
        found = self._known.get(cell, self)
        if found is not self:
            return found  # type: ignore[return-value]
        value = self._read(cell)
        if self._alone is None:
            return value
        try:
            self._alone.encode({self._feature.name: value})
        except InvalidValue as error:
            if value is None:
                raise _WrongError("it is empty.") from None
            wrong = f"{error.got!r:.100} is not {self._wanted}. {error.remedy}"
            raise _WrongError(wrong.rstrip()) from None
        if len(self._known) < MAX_ROWS:
            self._known[cell] = value
        return value

    @property
    def _wanted(self) -> str:
        feature = self._feature
        if isinstance(feature, Flag | Category | Labels | Id):
            return "one of its words"
        if isinstance(feature, Number):
            low, high = feature.low, feature.high
            return "a number that is taken" if low is None else f"a number from {low:g} to {high:g}"
        assert_never(feature)

    def _read(self, cell: str) -> Value:
        feature = self._feature
        if isinstance(feature, Labels):
            return self._labels(feature, cell)
        if isinstance(feature, Id):
            if len(cell) > MOST_NAME:
                raise _WrongError(f"it is longer than {MOST_NAME} characters.")
            return item_from(cell)
        if not cell:
            return None
        if isinstance(feature, Number):
            try:
                return float(cell)
            except ValueError:
                raise _WrongError(f"{cell!r:.100} is not a number (write 3.5).") from None
        if isinstance(feature, Flag):
            return _truth(cell, TRUTHS)
        if isinstance(feature, Category):
            return cell
        assert_never(feature)

    @staticmethod
    def _labels(feature: Labels, cell: str) -> Value:
        if not cell:  # no label, or the default of the schema
            return None if feature.missing is not None else []
        if cell in feature.values:  # a label may contain a bar
            return [cell]
        parts = cell.split("|" if "|" in cell else ";")
        return [part.strip() for part in parts if part.strip()]


def _arm_reader(arms: Sequence[Arm]) -> Callable[[str], object]:
    ids: dict[str, ArmId] = {str(arm.id): arm.id for arm in arms}
    labels: dict[str, list[ArmId]] = {}
    for arm in arms:
        labels.setdefault(arm.label, []).append(arm.id)

    def read(cell: str) -> ArmId:
        if cell in ids:
            return ids[cell]
        named = labels.get(cell, [])
        if len(named) == 1:
            return named[0]
        if named:
            some = ", ".join(map(repr, named[:5]))
            raise _WrongError(f"{len(named)} arms are called {cell!r:.100}. Write the id: {some}.")
        near = known(cell, [*ids, *labels][:MOST_LOOKED_AT])
        raise _WrongError(f"there is no arm {cell!r:.100}. {near}")

    return read


def _answer(cell: str) -> bool:
    return _truth(cell, ANSWERS)


def _truth(cell: str, words: dict[str, bool]) -> bool:
    try:
        return words[cell.lower()]
    except KeyError:
        raise _WrongError(f"{cell!r:.100} is neither yes nor no.") from None


def _delimiter(text: str, columns: Sequence[str]) -> str:
    """Return the delimiter under which most columns of the first line are known."""
    first = next((line for line in text.splitlines() if line.strip()), "")[:100_000]

    def fits(delimiter: str) -> tuple[int, int]:
        cells = [cell.strip().strip('"') for cell in first.split(delimiter)]
        return len(set(columns).intersection(cells)), len(cells)

    return max(DELIMITERS, key=fits)


def _names(cells: list[str], line: int) -> list[str]:
    while cells and not cells[-1]:  # a spreadsheet writes empty columns at the end
        cells.pop()
    if "" in cells:
        raise BadCsv([f"Line {line}: column {cells.index('') + 1} has no name."])
    if len(cells) > MAX_COLUMNS:
        raise BadCsv(
            [f"Line {line} names {len(cells):,} columns. At most {MAX_COLUMNS:,} are read."]
        )
    twice = next((name for name, count in Counter(cells).items() if count > 1), None)
    if twice is not None:
        raise BadCsv([f"Line {line}: two columns are called {twice!r:.200}."])
    return cells


def _padded(cells: list[str], wanted: int) -> bool:
    return len(cells) > wanted and not any(cells[wanted:])


def _plain(cell: str) -> str:
    """Return the text of a cell, without the mark that keeps it from being a formula."""
    cell = cell.strip()
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell

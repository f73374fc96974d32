"""Read the patients of the International Warfarin Pharmacogenetics Consortium (IWPC).

They come as the published spreadsheet or as a csv of it; the same data give the same bits. Columns
are found by name. A gap ("NA" or nothing) is filled as `read_patients` says; anything else that is
not understood is an error that names file, row and patient.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.schema import Number, known
from bridle.validation import FloatRange
from bridle_studies.environments.sheets import read_sheets
from bridle_studies.environments.warfarin import (
    CYP2C9,
    DOSE,
    MAX_PATIENTS,
    MEDICATIONS,
    PATIENT_SCHEMA,
    UNKNOWN,
    VKORC1,
    Patients,
)
from bridle_studies.environments.world import Origin

__all__ = ["read_patients"]

OWNER = "read_patients"
URL = "https://www.pharmgkb.org/downloads"
SUFFIXES = (".csv", ".xls", ".xlsx")
MAX_BYTES = 200_000_000  # the published files have 2 to 10 million
MAX_ROWS = MAX_PATIENTS + 100
HEADER_WITHIN = 20  # rows of a sheet, from the top

ID, DOSED = "PharmGKB Subject ID", "Therapeutic Dose of Warfarin"
FLAGS = {
    "Diabetes": "diabetes",
    "Congestive Heart Failure and/or Cardiomyopathy": "heart failure",
    "Valve Replacement": "valve replacement",
    **MEDICATIONS,
    "Current Smoker": "smoker",
}
NUMBERS = {"Height (cm)": "height", "Weight (kg)": "weight"}
GENES = {"VKORC1 -1639 consensus": "VKORC1", "CYP2C9 consensus": "CYP2C9"}
COLUMNS = (ID, DOSED, "Gender", "Race", "Age", *NUMBERS, *FLAGS, *GENES)
# The spreadsheet has the race as reported and as the Office of Management and Budget counts it; the
# csv has the latter.
ALSO = {"Race": ("Race (OMB)",)}

NOTHING = ("", "na")
SEXES = {"male": False, "female": True}
RACE = {
    "white": "White",
    "asian": "Asian",
    "black or african american": "Black",
    "unknown": UNKNOWN,
}
AGES = {f"{10 * i}-{10 * i + 9}": i for i in range(9)} | {"90+": 9}
REFERENCE = {"VKORC1": "G/G", "CYP2C9": "*1/*1"}
GENOTYPES = {"VKORC1": VKORC1[:-1], "CYP2C9": CYP2C9[:-1]}
RARE = re.compile(r"\*\d{1,3}/\*\d{1,3}")
NUMBER = re.compile(r"[-+]?(\d{1,20}(\.\d{0,40})?|\.\d{1,40})([eE][-+]?\d{1,3})?")
# A spreadsheet gives a number's first nine decimals: so many count in a csv too.
DECIMALS = 9
# What a missing number becomes is rounded as the data are.
USUAL = {"age": 0, "height": 2, "weight": 1}


@dataclass(frozen=True)
class Grid:
    """A table as text: its header, and the number of each row as a person counts them."""

    header: Sequence[str]
    rows: Sequence[tuple[int, Sequence[str]]]


def read_patients(path: str | os.PathLike[str]) -> Patients:
    """Read the patients with a known therapeutic dose.

    Missing height or weight: the mean of the known ones (of patients with a dose), rounded as the
    data are. Missing age: the mean decade, rounded. Missing sex: counted as male, the commoner one.
    Missing race: "unknown", which is also a word of the data. Missing flags: 0. A missing genotype
    is "unknown", and so is a rare one of CYP2C9 (*1/*5, *1/*11, …). Patients without a dose are
    left out. `Patients.origin.notes` has the counts.

    Parameters
    ----------
    path : path
        The csv, the published spreadsheet (.xls or .xlsx; this needs the extra ``study``), or a
        folder that holds one of them.

    Raises
    ------
    InvalidValue
        If the path or a value in the file is wrong; with file, row and patient.
    CorruptState
        If the file is damaged.
    """
    file = _file(path)
    data = _bytes(file)
    grid = _csv(data, file.name) if file.suffix.lower() == ".csv" else _sheet(data, file.name)
    place = _places(grid.header, file.name)
    filled = [(n, cells) for n, cells in grid.rows if any(map(str.strip, cells))]
    rows = [Row(cells, place, file.name, n) for n, cells in filled]
    _no_twins(rows)
    # All of them are read, so that a slip is found whether or not the patient has a dose.
    everyone = [(row.dose(), row.context(), row) for row in rows]
    dosed = [(dose, context, row) for dose, context, row in everyone if dose is not None]
    if not dosed:
        wanted = "a file in which at least one patient has a therapeutic dose"
        raise InvalidValue("path", OWNER, wanted, str(file))
    contexts = [context for _, context, _ in dosed]
    rare = Counter(row.text("CYP2C9 consensus") for _, _, row in dosed if row.rare)
    kinds = ", ".join(f"{kind}: {n}" for kind, n in sorted(rare.items()))
    notes = [
        f"without a dose: {len(everyone) - len(dosed):,} of {len(everyone):,} patients, left out",
        *_fill(contexts),
        rare and f"rare CYP2C9 genotype: {rare.total():,} ({kinds}), counted as {UNKNOWN}",
        len(grid.rows) > len(rows) and f"blank rows: {len(grid.rows) - len(rows):,}, skipped",
    ]
    return Patients(
        contexts=PATIENT_SCHEMA.encode_many(contexts),
        dose=np.array([dose for dose, _, _ in dosed]),
        origin=Origin(
            title="IWPC warfarin",
            synthetic=False,
            about="Patients and the dose of warfarin that was right for them, collected by the "
            "International Warfarin Pharmacogenetics Consortium (2009).",
            url=URL,
            licence="PharmGKB, CC BY-SA 4.0",
            files={file.name: hashlib.sha256(data).hexdigest()},
            notes=tuple(str(note) for note in notes if note),
        ),
    )


class Row:
    """One patient as the file has them: reads cells, and knows where it stands if one is wrong."""

    def __init__(
        self, cells: Sequence[str], place: Mapping[str, int], file: str, number: int
    ) -> None:
        self.cells = cells
        self.place = place
        self.number = number
        self.id = cells[place[ID]].strip()
        self.owner = f"{file}, row {number}, patient {self.id or '?'}"
        if not self.id:
            raise InvalidValue(ID, self.owner, "given", "", "Give the patient an id.")

    def text(self, column: str) -> str:
        """Return a cell without blanks around it; what stands for nothing is empty."""
        cell = self.cells[self.place[column]].strip()
        return "" if cell.lower() in NOTHING else cell

    def number_of(self, column: str, limits: FloatRange) -> float | None:
        """Return a cell as a number in the range, None if it is missing."""
        cell = self.text(column)
        if not cell:
            return None
        remedy = "Correct it, or leave it empty if it is not known."
        if not NUMBER.fullmatch(cell):
            raise InvalidValue(column, self.owner, str(limits), cell, remedy)
        value = round(float(cell), DECIMALS)
        try:
            return limits.check(value, column, self.owner)
        except InvalidValue as error:
            raise InvalidValue(column, self.owner, error.expected, cell, remedy) from None

    def one_of(self, column: str, options: Mapping[str, Any], cell: str) -> Any:
        """Return what a word stands for, None if it is missing."""
        if not cell:
            return None
        if cell not in options:
            got = self.text(column)
            raise InvalidValue(
                column, self.owner, "a word of the IWPC data, or empty", got, known(cell, options)
            )
        return options[cell]

    def dose(self) -> float | None:
        """The therapeutic dose, mg a week."""
        return self.number_of(DOSED, DOSE)

    @property
    def rare(self) -> bool:
        """Whether the genotype of CYP2C9 is known, but has no column."""
        column = "CYP2C9 consensus"
        return self._genotype(column) == UNKNOWN and self.text(column) != ""

    def context(self) -> dict[str, Any]:
        """The patient in the words of `PATIENT_SCHEMA`; None where nothing is known."""
        age = re.sub(r"\s", "", self.text("Age")).replace("–", "-")
        context = {
            "age": self.one_of("Age", AGES, age),
            "female": self.one_of("Gender", SEXES, self.text("Gender").lower()),
            "race": self.one_of("Race", RACE, " ".join(self.text("Race").lower().split())),
        }
        for column, name in NUMBERS.items():
            feature, _ = PATIENT_SCHEMA.place(name)
            assert isinstance(feature, Number) and feature.low is not None and feature.high
            context[name] = self.number_of(column, FloatRange(feature.low, feature.high))
        for column, name in FLAGS.items():
            flag = self.text(column)
            number = float(flag) if NUMBER.fullmatch(flag) else flag
            if number not in (0.0, 1.0, ""):
                raise InvalidValue(column, self.owner, "0, 1 or empty", flag)
            context[name] = number == 1.0 if flag else None
        return context | {name: self._genotype(column) for column, name in GENES.items()}

    def _genotype(self, column: str) -> str | None:
        gene, cell = GENES[column], self.text(column).replace(" ", "")
        if cell == REFERENCE[gene]:
            return None
        if cell in GENOTYPES[gene]:
            return cell
        if not cell or (gene == "CYP2C9" and RARE.fullmatch(cell)):
            return UNKNOWN
        options = (REFERENCE[gene], *GENOTYPES[gene])
        raise InvalidValue(column, self.owner, "a genotype", cell, known(cell, options))


def _fill(contexts: Sequence[dict[str, Any]]) -> list[str]:
    """Fill missing numbers with the mean of the known ones; say how many there were."""
    notes = []
    for name, digits in USUAL.items():
        there = [context[name] for context in contexts if context[name] is not None]
        if len(there) == len(contexts):
            continue
        if not there:
            wanted = f"a file in which the {name} of at least one patient with a dose is known"
            raise InvalidValue("path", OWNER, wanted, "none")
        usual = round(math.fsum(there) / len(there), digits)
        unit = getattr(PATIENT_SCHEMA.place(name)[0], "unit", "")
        gaps = len(contexts) - len(there)
        notes.append(f"unknown {name}: {gaps:,}, taken as {usual:g} ({unit})")
        for context in contexts:
            context[name] = usual if context[name] is None else context[name]
    sexless = sum(context["female"] is None for context in contexts)
    return notes + [f"unknown sex: {sexless:,}, counted as male"] * (sexless > 0)


def _file(path: str | os.PathLike[str]) -> Path:
    """Find the one file that is meant."""
    wanted = "the IWPC csv or spreadsheet (.csv, .xls, .xlsx), or a folder that holds one of them"
    remedy = f"The data are at {URL}."
    try:
        place = Path(path)
        found = [place]
        if place.is_dir():
            found = sorted(file for file in place.iterdir() if file.suffix.lower() in SUFFIXES)
    except (TypeError, ValueError, OSError):
        raise InvalidValue("path", OWNER, wanted, path, remedy) from None
    if len(found) > 1:
        remedy = f"It holds {', '.join(file.name for file in found[:5])}: give one of these."
    if len(found) != 1 or found[0].suffix.lower() not in SUFFIXES or not found[0].is_file():
        raise InvalidValue("path", OWNER, wanted, str(path), remedy)
    return found[0]


def _bytes(file: Path) -> bytes:
    try:
        with file.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotPossible(f"{file} cannot be read: {error}.") from None
    if len(data) > MAX_BYTES:
        raise InvalidValue("path", OWNER, f"a file of at most {MAX_BYTES:,} bytes", str(file))
    return data


def _csv(data: bytes, file: str) -> Grid:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorruptState(
            f"{file} is no csv in UTF-8: {error.reason} at byte {error.start}. "
            f"Take the file from {URL} anew, or save it as UTF-8."
        ) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, Sequence[str]]] = []
    header: Sequence[str] = ()
    try:
        header = next(reader, ())
        line = reader.line_num
        for cells in reader:
            # A row may span lines: it is found by the first of them.
            rows.append((line + 1, cells))
            line = reader.line_num
            if cells and len(cells) != len(header):
                raise CorruptState(
                    f"{file}, row {rows[-1][0]} has {len(cells)} fields, the header has "
                    f"{len(header)}. Is the file cut short? Take it from {URL} anew."
                )
            if len(rows) > MAX_ROWS:
                raise InvalidValue("path", OWNER, f"a file of at most {MAX_ROWS:,} rows", file)
    except csv.Error as error:
        raise CorruptState(f"{file}, line {reader.line_num} is no csv: {error}.") from None
    return Grid(header, rows)


def _sheet(data: bytes, file: str) -> Grid:
    """Take the sheet of a workbook that has a column with the dose."""
    sheets = read_sheets(data, file, MAX_ROWS)
    for table in sheets.values():
        rows = [*enumerate(table, 1)]
        for n, cells in rows[:HEADER_WITHIN]:
            if _plain(DOSED) in map(_plain, cells):
                return Grid(cells, rows[n:])
    wanted = f"a workbook with a sheet that has the column {DOSED!r}"
    raise InvalidValue("path", OWNER, wanted, f"{file} with the sheets {[*sheets]}")


def _plain(header: str) -> str:
    return " ".join(header.lower().split())


def _places(header: Sequence[str], file: str) -> dict[str, int]:
    """Find each column by its name, whatever its case and the blanks in it."""
    names = [_plain(name) for name in header]
    place = {}
    missing = []
    for column in COLUMNS:
        # The first name that is there counts.
        options = [_plain(name) for name in (column, *ALSO.get(column, ()))]
        name = next((option for option in options if option in names), None)
        if name is None:
            missing.append(column)
        elif names.count(name) > 1:
            raise InvalidValue("path", OWNER, f"a file with one column {column!r}", file)
        else:
            place[column] = names.index(name)
    if missing:
        lacking = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" * (len(missing) > 5))
        wanted = f"a file with all {len(COLUMNS)} columns that are used"
        raise InvalidValue("path", OWNER, wanted, file, f"It lacks: {lacking}.")
    return place


def _no_twins(rows: Sequence[Row]) -> None:
    seen: dict[str, int] = {}
    for row in rows:
        if row.id in seen:
            wanted = f"an id of their own (row {seen[row.id]} has the same)"
            raise InvalidValue(ID, row.owner, wanted, row.id, "Leave one of the rows out.")
        seen[row.id] = row.number

"""Workbooks as text: what comes back, and that a bad one harms nobody."""

from __future__ import annotations

import subprocess
import sys

import pytest
import xlsxwriter

from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle_studies.environments import sheets
from bridle_studies.environments.sheets import read_sheets


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.xlsx"
    with xlsxwriter.Workbook(path) as made:
        page = made.add_worksheet("first")
        page.write(1, 0, "é\nç")
        page.write(1, 1, 0.1)
        page.write(3, 1, 1 / 3)
        page.write(3, 2, 7.0)
        made.add_worksheet("nothing")
        made.add_worksheet("second").write(0, 0, "NA")
    return path.read_bytes()


WHOLE = {
    "first": [["", "", ""], ["é\nç", "0.1", ""], ["", "", ""], ["", "0.333333333", "7"]],
    "second": [["NA"]],
}


def test_cells_come_as_text_and_rows_stay_where_they_are(book):
    assert read_sheets(book, "book.xlsx", rows=100) == WHOLE


def test_the_child_gives_what_its_parent_reads(book):
    assert sheets._answer(book, 100) == {"sheets": WHOLE}
    assert sheets._answer(book, 1)["sheets"]["first"] == WHOLE["first"][:2]
    assert "Cannot detect file format" in sheets._answer(b"no book", 100)["error"]


def test_limits_on_rows_columns_and_bytes(book, monkeypatch):
    assert read_sheets(book, "book.xlsx", rows=4) == WHOLE
    with pytest.raises(InvalidValue, match=r"at most 3 rows .* Got .*book\.xlsx, sheet 'first'"):
        read_sheets(book, "book.xlsx", rows=3)
    monkeypatch.setattr(sheets, "MAX_UNPACKED", 1_000)
    with pytest.raises(InvalidValue, match="at most 1,000 bytes unpacked"):
        read_sheets(book, "book.xlsx", rows=4)


def test_too_many_columns(tmp_path):
    with xlsxwriter.Workbook(tmp_path / "wide.xlsx") as made:
        made.add_worksheet().write(0, 1_000, "far out")
        made.worksheets()[0].write(0, 0, "here")
    with pytest.raises(InvalidValue, match="and 1,000 columns a sheet"):
        read_sheets((tmp_path / "wide.xlsx").read_bytes(), "wide.xlsx", rows=4)


@pytest.mark.parametrize(
    ("code", "said"), [(1, b"{}"), (-6, b""), (0, b""), (0, b"hello"), (0, b"{}")]
)
def test_a_child_that_dies_or_talks_nonsense(book, monkeypatch, code, said):
    def run(command, **_):
        return subprocess.CompletedProcess(command, code, said, b"")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(CorruptState, match=r"book\.xlsx cannot be read as a spreadsheet"):
        read_sheets(book, "book.xlsx", rows=4)


def test_no_child_to_be_had(book, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(NotPossible, match="No process could be started to read book"):
        read_sheets(book, "book.xlsx", rows=4)

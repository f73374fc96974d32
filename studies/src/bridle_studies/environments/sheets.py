"""Read a workbook (.xls, .xlsx) as text, in a process of its own.

The libraries that read workbooks trust what a file says of its own size: a few wrong bytes make
them ask for a thousand times the memory there is, which ends the process without an error to catch.
So a child reads it, with a limit on its memory. This file is the child's program too, and imports
nothing of bridle until it knows that it is not.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from typing import Any

__all__ = ["read_sheets"]

MAX_UNPACKED = 1_000_000_000  # bytes
MAX_MEMORY = 4 * 2**30  # bytes that the child may have, much of it reserved and never used
MAX_SECONDS = 600
MAX_COLUMNS = 1_000


def read_sheets(data: bytes, file: str, rows: int) -> dict[str, list[list[str]]]:
    """Return the sheets of a workbook by name: rows of cells as text, an empty cell as "".

    Numbers come with at most nine decimals. Empty rows stay, so that a row's number is that of the
    sheet; leading empty columns and sheets with nothing in them do not.

    Parameters
    ----------
    data, file : bytes, str
        The workbook, and what to call it in a message.
    rows : int
        How many a sheet may have, at most.
    """
    import importlib.util
    import os
    import subprocess

    from bridle.errors import CorruptState, InvalidValue, NotPossible

    for library in ("fastexcel", "polars"):
        if importlib.util.find_spec(library) is None:
            raise NotPossible(
                f"Reading a spreadsheet needs {library}: pip install ./studies in bridle's "
                "folder. A csv of the "
                "same data needs nothing more."
            )
    unpacked = _unpacked(data)
    if unpacked > MAX_UNPACKED:
        limit = f"a workbook of at most {MAX_UNPACKED:,} bytes unpacked"
        raise InvalidValue("path", "read_sheets", limit, f"{file} with {unpacked:,}")
    try:
        done = subprocess.run(
            [sys.executable, "-P", __file__, str(rows)],
            input=data,
            capture_output=True,
            timeout=MAX_SECONDS,
            check=False,
            # A pool of threads would reserve memory for each core.
            env={**os.environ, "POLARS_MAX_THREADS": "1", "RUST_BACKTRACE": "0"},
        )
        # One that died has said nothing, or only a part.
        said: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
    except subprocess.TimeoutExpired:
        said = {"error": f"no end after {MAX_SECONDS} s"}
    except ValueError:
        said = {}
    except OSError as error:
        raise NotPossible(f"No process could be started to read {file}: {error}.") from None
    if "sheets" not in said:
        reason = said.get("error", "it asks for too much memory, or breaks its reader")
        raise CorruptState(
            f"{file} cannot be read as a spreadsheet: {reason}. Is it damaged? Get it anew."
        )
    sheets: dict[str, list[list[str]]] = said["sheets"]
    for name, table in sheets.items():
        if len(table) > rows or len(table[0]) > MAX_COLUMNS:
            limit = f"a workbook of at most {rows:,} rows and {MAX_COLUMNS:,} columns a sheet"
            raise InvalidValue("path", "read_sheets", limit, f"{file}, sheet {name!r}")
    return sheets


def _unpacked(data: bytes) -> int:
    """Return how large a workbook becomes: an .xlsx is a zip, an .xls is as large as it is."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return len(data)  # no zip, or a damaged one: its reader will say so


def _answer(data: bytes, rows: int) -> dict[str, Any]:
    """Return the sheets of a workbook, each with one row and column too many if it is too large."""
    try:
        import fastexcel

        sheets = {}
        book = fastexcel.read_excel(data)
        for name in book.sheet_names:
            # From the very top and all as text: nothing is guessed from the first rows.
            sheet: Any = book.load_sheet(
                name, header_row=None, skip_rows=0, n_rows=rows + 1, dtypes="string"
            )
            if sheet.width and sheet.height:
                some = sheet.to_polars()[:, : MAX_COLUMNS + 1]
                sheets[name] = [[cell or "" for cell in row] for row in some.rows()]
    except Exception as error:  # whatever it is, the parent says it in its own words
        return {"error": str(error).partition("\n")[0][:300]}
    return {"sheets": sheets}


def _child(rows: int) -> None:
    """Read a workbook from standard input, write its sheets to standard output as JSON."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    except (ImportError, ValueError, OSError):
        pass  # a system without such limits
    sys.stdout.write(json.dumps(_answer(sys.stdin.buffer.read(), rows)))


if __name__ == "__main__":
    _child(int(sys.argv[1]))

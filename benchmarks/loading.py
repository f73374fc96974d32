"""How long a rating file of 20 million rows takes to load: ``python -m benchmarks.loading``.

The file is made up, in the shape of MovieLens 20M, and kept in ``build`` for the next run. Each
measurement is a process of its own, timed with and without its imports; the peak of memory is what
the system counted for that process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 20_000_263
QUICK_ROWS = 2_000_000
USERS, MOVIES, HIGHEST_ID = 138_493, 26_744, 131_262
# Loading may take so many times a bare scan of the same file, and so much memory at its peak.
MAX_RATIO = 3.0
MAX_BYTES = 1_500_000_000
MARK = "made-up-1"  # changes where the file that is made changes

# Shares of .5, 1, … 5 stars, roughly those of MovieLens 20M.
STARS = np.array([0.012, 0.034, 0.014, 0.072, 0.044, 0.214, 0.110, 0.278, 0.077, 0.145])
GENRES = (
    *("Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller"),
    *("War", "Western"),
)

Tell = Callable[[str], None]

# What a process runs. Its last line of output is seconds, seconds with imports, and peak bytes.
FRAME = """
import resource, sys, time
born = time.perf_counter()
{imports}
start = time.perf_counter()
{code}
end = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(end - start, end - born, peak * (1 if sys.platform == "darwin" else 1024))
"""
SCAN = "pl.scan_csv({path!r}).select(pl.all().sum()).collect()"
SCAN_OF_THREE = """
wanted = {{"userId": pl.Int32, "movieId": pl.Int32, "rating": pl.Float32}}
frame = pl.scan_csv({path!r}, schema_overrides=wanted, quote_char=None)
frame.select(pl.col(*wanted).sum()).collect()
"""
LOAD = """
block = read_block({path!r})
assert block.ratings.shape == (1000, 100)
"""
# Kind of process → what it imports, what it does, with which file.
KINDS = {
    "bare scan": ("import polars as pl", SCAN, "ratings.csv"),
    "bare scan of three columns": ("import polars as pl", SCAN_OF_THREE, "ratings.csv"),
    "load from csv": (
        "import polars\nfrom bridle_studies.environments.movielens import read_block",
        LOAD,
        "ratings.csv",
    ),
    "load from zip": (
        "import polars\nfrom bridle_studies.environments.movielens import read_block",
        LOAD,
        "ml.zip",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one kind of process took: medians of seconds, and the highest peak."""

    seconds: float
    with_imports: float
    peak_bytes: int


def main(
    quick: bool = False, *, folder: Path = Path("build"), tell: Tell = print
) -> dict[str, Any]:
    """Make the files unless they are there, measure, say whether the bars are kept.

    Gives the cost of each kind of process, the ratios to the bare scan, and the verdicts.
    """
    rows = QUICK_ROWS if quick else ROWS
    home = made(rows, folder, tell)
    runs: dict[str, list[tuple[float, float, int]]] = {kind: [] for kind in KINDS}
    turns = 3 if quick else 5
    for turn in range(turns + 1):  # the first turn fills the caches of files
        for kind, (imports, code, name) in KINDS.items():
            if turn == 0 and kind == "load from zip":
                continue
            tell(f"turn {turn} of {turns}: {kind}")
            cost = _measured(imports, code.format(path=str(home / name)))
            if turn:
                runs[kind].append(cost)
    costs = {
        kind: Cost(
            seconds=statistics.median(run[0] for run in found),
            with_imports=statistics.median(run[1] for run in found),
            peak_bytes=max(run[2] for run in found),
        )
        for kind, found in runs.items()
    }
    ours, scan = costs["load from csv"], costs["bare scan"]
    peak = max(ours.peak_bytes, costs["load from zip"].peak_bytes)
    result = {
        "rows": rows,
        "csv_bytes": (home / "ratings.csv").stat().st_size,
        "costs": {kind: asdict(cost) for kind, cost in costs.items()},
        "ratio": ours.seconds / scan.seconds,
        "ratio_with_imports": ours.with_imports / scan.with_imports,
        "ratio_to_three_columns": ours.seconds / costs["bare scan of three columns"].seconds,
        "ratio_of_zip": costs["load from zip"].seconds / scan.seconds,
        "time_kept": ours.seconds <= MAX_RATIO * scan.seconds,
        "memory_kept": peak <= MAX_BYTES,
    }
    _say(result, quick, tell)
    return result


def made(rows: int, folder: Path, tell: Tell = print) -> Path:
    """Give the folder with ratings.csv, movies.csv and ml.zip; make them if they are not there."""
    home = folder / f"loading-{rows}"
    done = home / "done.txt"
    if done.is_file() and done.read_text(encoding="utf-8") == MARK:
        return home
    home.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20)
    tell(f"making {rows:,} ratings in {home} (once)")
    ids = np.sort(rng.choice(HIGHEST_ID, size=MOVIES, replace=False) + 1)
    _make_movies(home / "movies.csv", ids, rng)
    _make_ratings(home / "ratings.csv", ids, rows, rng)
    tell("packing them")
    with zipfile.ZipFile(home / "ml.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
        for name in ("movies.csv", "ratings.csv"):
            packed.write(home / name, f"made-up/{name}")
    done.write_text(MARK, encoding="utf-8")
    return home


def _make_movies(path: Path, ids: np.ndarray[Any, Any], rng: np.random.Generator) -> None:
    lines = ["movieId,title,genres"]
    for movie in ids.tolist():
        genres = rng.choice(GENRES, size=int(rng.integers(1, 5)), replace=False)
        title = f'"Movie {movie}, The (1999)"' if movie % 5 == 0 else f"Movie {movie} (1999)"
        lines.append(f"{movie},{title},{'|'.join(sorted(genres.tolist()))}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _make_ratings(
    path: Path, ids: np.ndarray[Any, Any], rows: int, rng: np.random.Generator
) -> None:
    """Write ratings sorted by user and movie: some people and some movies have many, most few."""
    import polars as pl

    # A rating is a cell of the matrix users × movies; a few draws fall on the same cell, so more
    # are drawn than are kept.
    draws = rows + rows // 3
    share = rng.permutation(1.0 / (np.arange(USERS) + 200.0))
    people = rng.multinomial(draws, share / share.sum())
    person = np.repeat(np.arange(USERS, dtype=np.int64), np.minimum(people, MOVIES // 3))
    fame = 1.0 / (np.arange(MOVIES) + 150.0)
    ladder = np.cumsum(fame / fame.sum())
    rank = np.searchsorted(ladder, rng.random(len(person)) * ladder[-1])
    cells = np.unique(person * MOVIES + rng.permutation(MOVIES)[rank])
    if len(cells) < rows:
        raise RuntimeError(f"Only {len(cells):,} cells were drawn; {rows:,} are needed.")
    keep = np.sort(rng.choice(len(cells), size=rows, replace=False))
    cells = cells[keep]
    frame = pl.DataFrame(
        {
            "userId": (cells // MOVIES + 1).astype(np.int32),
            "movieId": ids[cells % MOVIES].astype(np.int32),
            "rating": rng.choice(10, size=rows, p=STARS / STARS.sum()) / 2.0 + 0.5,
            "timestamp": rng.integers(789_652_009, 1_427_784_002, size=rows),
        }
    )
    frame.write_csv(path)


def _measured(imports: str, code: str) -> tuple[float, float, int]:
    """Run `code` in a process of its own; give seconds, seconds with imports, and peak bytes."""
    line = [sys.executable, "-c", FRAME.format(imports=imports, code=code)]
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"A measured process failed:\n{done.stderr}")
    seconds, with_imports, peak = done.stdout.splitlines()[-1].split()
    return float(seconds), float(with_imports), int(peak)


def _say(result: dict[str, Any], quick: bool, tell: Tell) -> None:
    tell(f"{result['rows']:,} ratings, {result['csv_bytes'] / 1e6:,.0f} MB of csv")
    base = result["costs"]["bare scan"]["seconds"]
    for kind, cost in result["costs"].items():
        tell(
            f"{kind:<28}{cost['seconds']:>7.2f} s {cost['seconds'] / base:>6.2f} × "
            f"({cost['with_imports']:.2f} s with imports) {cost['peak_bytes'] / 1e6:>6,.0f} MB"
        )
    tell(
        f"load from csv / bare scan: {result['ratio']:.2f} (with imports "
        f"{result['ratio_with_imports']:.2f}; of three columns only "
        f"{result['ratio_to_three_columns']:.2f})"
    )
    words = {True: "kept", False: "NOT kept"}
    tell(f"at most {MAX_RATIO:g} × a bare scan: {words[result['time_kept']]}")
    tell(f"at most {MAX_BYTES / 1e6:,.0f} MB at its peak: {words[result['memory_kept']]}")
    if quick:
        tell("A quick run: too short for figures to be quoted.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loading", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 million rows")
    parser.add_argument("--json", type=Path, help="where to write the figures too")
    options = parser.parse_args()
    figures = main(options.quick)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if options.quick or (figures["time_kept"] and figures["memory_kept"]) else 1)

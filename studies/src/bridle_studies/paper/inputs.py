"""What studies are made from: recipes out of files or made up, and the results of earlier ones."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from bridle.errors import InvalidValue, NotPossible
from bridle_studies.environments.files import read_world
from bridle_studies.environments.genres import GENRES
from bridle_studies.environments.iwpc import read_patients
from bridle_studies.environments.movielens import read_block
from bridle_studies.environments.movies import Movies
from bridle_studies.environments.patients import synthetic_patients
from bridle_studies.environments.synthetic import synthetic_block
from bridle_studies.environments.warfarin import Warfarin
from bridle_studies.environments.world import Fixed
from bridle_studies.scaffold.journal import MANIFEST

__all__ = ["movies", "own", "read_results", "warfarin"]

MAX_LIMITS_BYTES = 1_000_000


def movies(
    data: Path | None,
    *,
    genres: tuple[str, ...] | None = None,
    movies: int | None = None,
    people: int | None = None,
    min_overlap: int = 5,
    positive_only: bool = True,
    ages: str = "census",
    density: float = 0.33,
    limits: Path | None = None,
) -> Movies:
    """Return the recipe of the movies: from MovieLens, or synthetic if no data are given."""
    M = 1_000 if movies is None else movies
    K = 100 if people is None else people
    if data is None:
        if genres is not None:
            raise NotPossible("Synthetic movies have their ten genres: give --genres with --data.")
        block = synthetic_block(movies=M, people=K)
    else:
        block = read_block(
            data,
            genres=genres or tuple(GENRES),
            movies=M,
            people=K,
            min_overlap=min_overlap,
            positive_only=positive_only,
        )
    own = None if limits is None else _limits(limits, block.genres)
    return Movies(block, density=density, ages=ages, limits=own)


def warfarin(
    data: Path | None, *, p_feature: float = 0.5, low_below: float = 21.0, high_above: float = 49.0
) -> Warfarin:
    """Return the recipe of Warfarin: from the IWPC data, or synthetic if none are given."""
    patients = synthetic_patients() if data is None else read_patients(data)
    return Warfarin(patients, p_feature=p_feature, low_below=low_below, high_above=high_above)


def own(data: Path) -> Fixed:
    """Return a world of the user's own, as it stands."""
    return Fixed(read_world(data))


def read_results(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the results, curves and lessons that a study wrote."""
    frames = []
    for name in ("results", "curves", "lessons"):
        path = folder / f"{name}.parquet"
        if not path.is_file():
            raise NotPossible(
                f"There is no {name}.parquet in {folder}. Run `bridle study movies --out {folder}` "
                "first; if that was interrupted, run it again: it goes on."
            )
        try:
            frames.append(pl.read_parquet(path))
        except (pl.exceptions.PolarsError, OSError) as error:
            raise NotPossible(
                f"{path} cannot be read ({error}). Run the study anew, with --fresh."
            ) from error
    return frames[0], frames[1], frames[2]


def told_by(folder: Path) -> str:
    """Return in a line what study is in a folder, as far as its manifest tells."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        origin = manifest["origin"]
        kind = " (synthetic)" if origin["synthetic"] else ""
        return f"{folder}: {manifest['world']}, {origin['title']}{kind}, seed {manifest['seed']}"
    except (OSError, ValueError, KeyError, TypeError):
        return f"{folder}: no manifest"


def _limits(path: Path, genres: tuple[str, ...]) -> list[list[int]]:
    """Read limits of the user's own: a header that names the genres, then a row a band."""
    wanted = f"rows of {len(genres)} numbers, 0 or 1 (= denied), by commas"
    try:
        if path.stat().st_size > MAX_LIMITS_BYTES:
            raise InvalidValue("limits", path.name, wanted, "a file of more than a megabyte")
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NotPossible(f"{path} cannot be read: {error}.") from None
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip()]
    header = rows.pop(0) if rows else []
    if sorted(header) != sorted(genres):
        named = f"a first row that names the genres: {','.join(genres)}"
        raise InvalidValue("limits", path.name, named, ",".join(header))
    for number, row in enumerate(rows, 1):
        if len(row) != len(genres) or not set(row) <= {"0", "1"}:
            raise InvalidValue("limits", f"{path.name}, row {number}", wanted, ",".join(row))
    order = [header.index(genre) for genre in genres]
    return [[int(row[at]) for at in order] for row in rows]

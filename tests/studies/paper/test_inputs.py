from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from bridle.errors import InvalidValue, NotPossible
from bridle_studies.environments import write_world
from bridle_studies.environments.genres import GENRES
from bridle_studies.paper import inputs
from tests.studies.small import RECIPE


def test_without_data_worlds_are_synthetic():
    movies = inputs.movies(None, movies=50, people=10, density=0.2)
    assert movies.origin.synthetic and len(movies) == 50 and movies.density == 0.2
    patients = inputs.warfarin(None, p_feature=0.1)
    assert patients.origin.synthetic and len(patients) == 5_528 and patients.p_feature == 0.1


def test_genres_of_synthetic_movies_cannot_be_chosen():
    with pytest.raises(NotPossible, match="give --genres with --data"):
        inputs.movies(None, genres=("Action",))


def test_ones_own_world(tmp_path):
    write_world(RECIPE.world(1), tmp_path / "mine")
    assert len(inputs.own(tmp_path / "mine")) == 60


def test_ones_own_limits(tmp_path):
    path = tmp_path / "limits.csv"
    rows = ["0," * 9 + "1"] + ["0," * 9 + "0"] * 6
    path.write_text("\n".join([",".join(GENRES), *rows]) + "\n")
    recipe = inputs.movies(None, movies=50, people=10, limits=path)
    assert np.asarray(recipe.world(0).denied)[0].tolist() == [False] * 9 + [True]
    # Columns go by their names: here Thriller comes first.
    turned = [",".join(reversed(row.split(","))) for row in rows]
    path.write_text("\n".join([",".join(reversed(GENRES)), *turned]))
    again = inputs.movies(None, movies=50, people=10, limits=path)
    assert np.array_equal(np.asarray(again.limits), np.asarray(recipe.limits))


HEAD = ",".join(GENRES) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "0,1\n", r"limits.csv, row 1 must be rows of 10 numbers"),
        (HEAD + "0," * 9 + "2\n", "row 1"),
        (HEAD + "0," * 9 + "0\n" + "x," * 9 + "0\n", "row 2"),
        (HEAD + "0," * 9 + "0\n", "7 rows .bands."),
        ("0," * 9 + "0\n", "a first row that names the genres: Action,Adventure"),
        ("", "a first row that names the genres"),
    ],
)
def test_bad_limits_are_refused(tmp_path, text, message):
    path = tmp_path / "limits.csv"
    path.write_text(text)
    with pytest.raises(InvalidValue, match=message):
        inputs.movies(None, movies=50, people=10, limits=path)


def test_limits_that_cannot_be_read_are_said(tmp_path):
    with pytest.raises(NotPossible, match=r"gone\.csv cannot be read"):
        inputs.movies(None, movies=50, people=10, limits=tmp_path / "gone.csv")
    path = tmp_path / "big.csv"
    path.write_bytes(b"0" * 1_000_001)
    with pytest.raises(InvalidValue, match="more than a megabyte"):
        inputs.movies(None, movies=50, people=10, limits=path)


def test_results_that_are_not_there_or_damaged_are_said(tmp_path):
    with pytest.raises(NotPossible, match=r"no results\.parquet in .*it goes on"):
        inputs.read_results(tmp_path)
    for name in ("results", "curves", "lessons"):
        pl.DataFrame({"x": [1]}).write_parquet(tmp_path / f"{name}.parquet")
    assert len(inputs.read_results(tmp_path)) == 3
    (tmp_path / "curves.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(NotPossible, match=r"curves\.parquet cannot be read"):
        inputs.read_results(tmp_path)

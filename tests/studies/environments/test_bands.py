from __future__ import annotations

import csv
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bridle.errors import InvalidValue, NotPossible
from bridle_studies.environments.bands import (
    BANDS,
    allowed_by,
    check_limits,
    draw_bands,
    draw_limits,
)
from tests.conftest import check_counts

CENSUS = (
    Path(os.environ.get("BRIDLE_DATA", Path(__file__).parents[4] / "shared" / "data"))
    / "census"
    / "nc-est2019-agesex-res.csv"
)


def test_shares_add_up_and_are_those_of_the_census():
    assert sum(BANDS.values()) == pytest.approx(1.0, abs=1e-6)
    if not CENSUS.is_file():
        pytest.skip(f"no {CENSUS}: the census is not here")
    people = np.zeros(101)
    with CENSUS.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            if row["SEX"] == "0" and row["AGE"] != "999":
                people[int(row["AGE"])] = float(row["CENSUS2010POP"])
    ends = [12, 18, 25, 35, 45, 55, 65, 101]
    counts = np.array([people[a:b].sum() for a, b in pairwise(ends)])
    np.testing.assert_allclose(counts / counts.sum(), [*BANDS.values()], atol=5.1e-7)


def test_bands_are_drawn_by_their_shares():
    drawn = draw_bands(100_000, np.random.default_rng(1))
    check_counts(np.bincount(drawn, minlength=7), [*BANDS.values()])


def test_any_denied_genre_denies_the_movie():
    rng = np.random.default_rng(0)
    contexts = (rng.random((40, 5)) < 0.4).astype(float)
    denied = rng.random((3, 5)) < 0.4
    band = rng.integers(0, 3, 8)
    allowed = allowed_by(contexts, denied, band)
    for m in range(40):
        for k in range(8):
            hit = any(contexts[m, g] and denied[band[k], g] for g in range(5))
            assert allowed[m, k] == (not hit)


@pytest.mark.parametrize("seed", range(20))
def test_drawn_limits_leave_every_movie_to_someone(seed):
    rng = np.random.default_rng(seed)
    contexts = (rng.random((60, 6)) < 0.4).astype(float)
    band = rng.integers(0, 7, 30)
    denied = draw_limits(contexts, band, 7, 0.4, rng)
    assert denied.shape == (7, 6)
    assert allowed_by(contexts, denied, band).any(axis=1).all()


def test_impossible_limits_are_said():
    contexts = np.ones((1, 2))
    with pytest.raises(NotPossible, match="Take a lower density"):
        draw_limits(contexts, np.zeros(1, int), 1, 1.0, np.random.default_rng(0))
    with pytest.raises(InvalidValue, match="deny 1 movies to everybody, 'Alien' among them"):
        check_limits(contexts, np.zeros(1, int), np.ones((1, 2), bool), ("Alien",))
    with pytest.raises(InvalidValue, match="'number 0' among them"):
        check_limits(contexts, np.zeros(1, int), np.ones((1, 2), bool), ())

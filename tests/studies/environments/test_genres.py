from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from bridle.errors import InvalidValue
from bridle_studies.environments.genres import (
    GENRES,
    TOGETHER,
    draw_genre_sets,
    fit_singles,
    genre_sets,
)
from tests.conftest import check_counts

CATALOGUE = (
    Path(os.environ.get("BRIDLE_DATA", Path(__file__).parents[4] / "shared" / "data"))
    / "ml-20m"
    / "movies.csv"
)


def test_sets_have_the_shares_of_the_genres_and_none_is_empty():
    sets, chance = genre_sets()
    assert sets.shape == (1023, 10) and sets.any(axis=1).all()
    assert chance.min() > 0.0 and chance.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(chance @ sets, [*GENRES.values()], atol=1e-10)


def test_genres_go_together_as_they_do_in_movies():
    sets, chance = genre_sets()
    names = [*GENRES]

    def lift(one: str, two: str) -> float:
        both = sets[:, names.index(one)] * sets[:, names.index(two)]
        return float(chance @ both) / (GENRES[one] * GENRES[two])

    assert lift("Action", "Adventure") > 1.5 and lift("Horror", "Thriller") > 1.5
    assert lift("Comedy", "Thriller") < 0.6 and lift("Drama", "Horror") < 0.6


def test_drawn_sets_come_by_their_probabilities():
    sets, chance = genre_sets()
    drawn = draw_genre_sets(50_000, np.random.default_rng(3))
    numbers = (drawn @ 2 ** np.arange(10)).astype(int) - 1
    common = chance > 1e-3  # the others as one class: chi-square wants more than a few in each
    counts = np.bincount(numbers, minlength=1023)
    check_counts([*counts[common], counts[~common].sum()], [*chance[common], chance[~common].sum()])
    assert (drawn == sets[numbers]).all()


def test_the_pairs_are_those_of_the_catalogue():
    """Fit a model of single genres and pairs to the real catalogue: the same 45 numbers."""
    if not CATALOGUE.is_file():
        pytest.skip(f"no {CATALOGUE}: the catalogue of MovieLens 20M is not here")
    names = [*GENRES]
    rows = []
    with CATALOGUE.open(encoding="utf-8", newline="") as file:
        for movie in csv.DictReader(file):
            own = set(movie["genres"].split("|"))
            if not own.isdisjoint(names):
                rows.append([name in own for name in names])
    real = np.array(rows, float)
    assert len(real) == 24_305
    upper = np.triu_indices(10, 1)
    sets, _ = genre_sets()
    features = np.hstack([sets, sets[:, upper[0]] * sets[:, upper[1]]])
    target = np.concatenate([real.mean(0), (real[:, upper[0]] * real[:, upper[1]]).mean(0)])
    weights = np.zeros(55)
    for _ in range(30):
        score = features @ weights
        chance = np.exp(score - score.max())
        chance /= chance.sum()
        mean = chance @ features
        spread = (features * chance[:, None]).T @ features - np.outer(mean, mean)
        step = np.linalg.solve(spread, target - mean)
        weights += step * min(1.0, 2.0 / np.abs(step).max())
    assert np.abs(target - mean).max() < 1e-9
    kept = [value for row in TOGETHER for value in row]
    np.testing.assert_allclose(weights[10:], kept, atol=0.0051)


def test_shares_that_cannot_be_are_refused():
    sets, _ = genre_sets()
    with pytest.raises((InvalidValue, np.linalg.LinAlgError)):
        fit_singles(sets, np.zeros(len(sets)), np.full(10, 1.5))

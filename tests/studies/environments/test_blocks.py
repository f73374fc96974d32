from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.errors import InvalidValue
from bridle_studies.environments.blocks import complete

GAP = math.nan


def plainly(ratings, min_overlap=5, positive_only=True, step=0.5):
    """The formulas of SPEC 3.2, cell by cell. Lists of lists, None in the gaps."""
    M, K = len(ratings), len(ratings[0])
    rated = [[i for i in range(M) if ratings[i][u] is not None] for u in range(K)]
    mean = [math.fsum(ratings[i][u] for i in rated[u]) / len(rated[u]) for u in range(K)]

    def sim(u, n):
        both = [i for i in rated[u] if ratings[i][n] is not None]
        if len(both) < min_overlap:
            return 0.0
        mine = [ratings[i][u] - mean[u] for i in both]
        theirs = [ratings[i][n] - mean[n] for i in both]
        norm = math.sqrt(math.fsum(a * a for a in mine) * math.fsum(b * b for b in theirs))
        if norm == 0.0:
            return 0.0
        found = math.fsum(a * b for a, b in zip(mine, theirs, strict=True)) / norm
        # Rounding can leave a bare zero as ±1e-17.
        if abs(found) < 1e-9 or (positive_only and found < 0.0):
            return 0.0
        return found

    filled = [[0.0] * K for _ in range(M)]
    for u in range(K):
        for i in range(M):
            if ratings[i][u] is not None:
                filled[i][u] = ratings[i][u]
                continue
            over = under = 0.0
            for n in range(K):
                if n != u and ratings[i][n] is not None:
                    over += sim(u, n) * (ratings[i][n] - mean[n])
                    under += abs(sim(u, n))
            guess = mean[u] + (over / under if under > 0.0 else 0.0)
            guess = math.floor(guess / step + 0.5 + 1e-9) * step
            filled[i][u] = min(5.0, max(0.5, guess))
    return filled


@st.composite
def blocks(draw):
    M, K = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    stars = st.integers(1, 10).map(lambda halves: halves / 2)
    cell = st.one_of(st.none(), stars) if draw(st.booleans()) else stars
    rows = [[draw(cell) for _ in range(K)] for _ in range(M)]
    for u in range(K):  # everyone has rated something
        if all(row[u] is None for row in rows):
            rows[draw(st.integers(0, M - 1))][u] = draw(stars)
    return rows


def with_nan(rows):
    return np.array([[GAP if cell is None else cell for cell in row] for row in rows], np.float64)


@given(blocks(), st.integers(1, 6), st.booleans(), st.sampled_from([0.5, 1.0, 0.1]))
def test_it_is_the_formulas_cell_by_cell(rows, min_overlap, positive_only, step):
    found = complete(
        with_nan(rows), min_overlap=min_overlap, positive_only=positive_only, step=step
    )
    expected = np.array(plainly(rows, min_overlap, positive_only, step))
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-9


def test_a_larger_block_is_the_formulas_too():
    rng = np.random.default_rng(3)
    liking = rng.normal(3.4, 0.5, (60, 1)) + rng.normal(0.0, 0.8, (60, 15))
    stars = np.clip(np.round(liking * 2) / 2, 0.5, 5.0)
    rows = [[float(star) if rng.random() < 0.4 else None for star in row] for row in stars.tolist()]
    assert np.array_equal(complete(with_nan(rows)), np.array(plainly(rows)))


def test_known_ratings_stay_and_gaps_are_halves_in_range():
    rng = np.random.default_rng(1)
    stars = rng.integers(1, 11, (40, 12)) / 2.0
    stars[rng.random(stars.shape) < 0.5] = GAP
    before = stars.copy()
    found = complete(stars)
    assert np.array_equal(stars, before, equal_nan=True)  # the argument is left alone
    known = ~np.isnan(stars)
    assert np.array_equal(found[known], stars[known])
    assert set(np.unique(found).tolist()) <= {i / 2 for i in range(1, 11)}


def test_a_block_without_gaps_stays_as_it_is():
    stars = np.array([[0.5, 5.0], [3.0, 2.5]])
    assert np.array_equal(complete(stars), stars)


def test_people_without_neighbours_get_their_mean_and_a_middle_goes_up():
    # Nobody has five movies in common with anybody; the means are 3.25 and 2.75.
    stars = [[3.0, GAP], [3.5, GAP], [GAP, 2.5], [GAP, 3.0]]
    assert complete(stars)[:, 0].tolist() == [3.0, 3.5, 3.5, 3.5]
    assert complete(stars)[:, 1].tolist() == [3.0, 3.0, 2.5, 3.0]


def test_overlap_counts_the_movies_that_both_rated():
    # Five in common: the second person's deviation counts. Four: it does not.
    stars = [[1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [GAP, 5]]
    assert complete(stars)[5, 0] == 4.5  # 3 + (5 − 20/6) = 4.67
    assert complete(stars[1:])[4, 0] == 3.5  # the mean


def test_opposite_tastes_count_only_if_wanted():
    stars = [[1, 5], [2, 4], [3, 3], [4, 2], [5, 1], [GAP, 5]]
    assert complete(stars)[5, 0] == 3.0
    assert complete(stars, positive_only=False)[5, 0] == 1.5  # 3 − (5 − 20/6) = 1.33


def test_somebody_who_gives_everything_the_same_is_similar_to_nobody():
    stars = [[3, 1], [3, 2], [3, 3], [3, 4], [3, 5], [GAP, 5]]
    assert complete(stars, positive_only=False)[5, 0] == 3.0


def test_predictions_are_clipped():
    # 5 − 10/12 and then far above: 4.17 + (5 − 1.67).
    stars = [[5, 2], [5, 2], [5, 2], [5, 2], [2.5, 1], [2.5, 1], [GAP, 5]]
    assert complete(stars)[6, 0] == 5.0
    assert complete(5.5 - np.array(stars))[6, 0] == 0.5


@pytest.mark.parametrize(
    ("ratings", "options", "message"),
    [
        ([[5.5]], {}, r"'ratings' parameter of complete .* Got '5.5 at row 0, column 0'"),
        ([[3.0, math.inf]], {}, "inf at row 0, column 1"),
        ([[0.0]], {}, "0.0 at row 0"),
        ([3.0], {}, r"shape \(1,\)"),
        ([[]], {}, r"shape \(1, 0\)"),
        ([["x"]], {}, "'ratings' parameter"),
        ([[1.0], [1.0, 2.0]], {}, "'ratings' parameter"),
        ([[3.0, GAP], [2.0, GAP]], {}, "at least one rating of every person. Got 'none in col"),
        (np.full((1, 5_001), 3.0), {}, "at most 5,000 people"),
        ([[3.0]], {"min_overlap": 0}, "'min_overlap' parameter"),
        ([[3.0]], {"step": 0.0}, r"'step' parameter .* \(0, 1\]"),
        ([[3.0]], {"positive_only": 2}, "'positive_only' parameter"),
    ],
)
def test_bad_input_is_refused(ratings, options, message):
    with pytest.raises(InvalidValue, match=message):
        complete(ratings, **options)

"""A block of ratings: every person has rated every movie, because the gaps have been filled.

`complete` fills them as the paper's study does: collaborative filtering over similar people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import InvalidValue
from bridle.kernels.types import Floats
from bridle_studies.environments.world import Origin

__all__ = ["Block", "complete"]

LOWEST, HIGHEST = 0.5, 5.0
STEP = validation.FloatRange(0.0, 1.0, open_low=True)
OVERLAP = validation.IntRange(1, 10**9)
MAX_PEOPLE = 5_000
MAX_CELLS = 10_000_000
# Sums come out a little differently on each machine, by some 1e-15. A similarity below this is
# none, and a prediction so near to the middle of two steps is the middle: else the last bits would
# decide what a movie earns.
HAIR = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Block:
    """What K people give M movies, with no gap.

    Attributes
    ----------
    ratings : array (M, K)
        Stars, in halves from 0.5 to 5.
    contexts : array (M, d) of 0.0 and 1.0
        Which movie has which genre; at least one each.
    genres : tuple of d str
        The names of the columns of `contexts`.
    movies, people : tuples of M and K str
        Titles, and ids of the people ("user 4169").
    bands, band : tuple of str and tuple of K ints, or None
        Age bands that stand in the data, and the number of each person's: where the data have them.
    origin : Origin
        Where the ratings came from.
    """

    ratings: Floats
    contexts: Floats
    genres: tuple[str, ...]
    movies: tuple[str, ...]
    people: tuple[str, ...]
    origin: Origin
    bands: tuple[str, ...] | None = None
    band: tuple[int, ...] | None = None


def complete(
    ratings: npt.ArrayLike,
    *,
    min_overlap: int = 5,
    positive_only: bool = True,
    step: float = 0.5,
) -> Floats:
    """Fill the gaps in what K people gave M movies; known ratings stay.

    A person u is expected to like a movie i as similar people did, relative to their own means::

        pred(u, i) = mean_u + Σ_n sim(u, n) (r_ni − mean_n) / Σ_n |sim(u, n)|

    over the people n who rated i. sim is Pearson's correlation over the movies that both rated,
    with each person's mean taken over all their ratings here. Without such people it is mean_u.

    Parameters
    ----------
    ratings : array (M, K)
        Stars from 0.5 to 5; NaN where a person has not rated a movie. Everyone has rated one.
    min_overlap : int, default 5
        People who both rated fewer movies than this are not similar.
    positive_only : bool, default True
        Whether people with opposite tastes are left out, or count with a negative sign.
    step : float, default 0.5
        Predictions are rounded to multiples of this and then clipped to [0.5, 5].

    Notes
    -----
    A prediction in the middle of two steps goes up. Who gave all co-rated movies exactly their own
    mean has no correlation with anybody, and counts as not similar.

    Examples
    --------
    Two people agree on five movies; only the first has rated the sixth, one star above their mean.

    >>> gap = float("nan")
    >>> stars = [[1, 2], [2, 3], [3, 4], [2, 3], [1, 2], [3, gap]]
    >>> float(complete(stars)[5, 1])  # 2.8 + (3 − 2) = 3.8
    4.0
    >>> float(complete(stars, min_overlap=6)[5, 1])
    3.0
    """
    owner = "complete"
    R = _checked(ratings, owner)
    least = OVERLAP.check(min_overlap, "min_overlap", owner)
    positive_only = validation.truth(positive_only, "positive_only", owner)
    width = STEP.check(step, "step", owner)

    there = ~np.isnan(R)  # (M, K)
    W = there.astype(np.float64)
    mean = np.where(there, R, 0.0).sum(axis=0) / W.sum(axis=0)  # (K,)
    D = np.where(there, R - mean, 0.0)  # (M, K): deviations; a gap adds nothing to a sum
    # squares[u, n] = Σ of u's squared deviations over the movies that u and n both rated.
    squares = (D * D).T @ W
    norms = np.sqrt(squares * squares.T)
    sim = np.divide(D.T @ D, norms, out=np.zeros_like(norms), where=norms > 0.0)
    weight = sim if positive_only else np.abs(sim)
    sim = np.where((W.T @ W >= least) & (weight > HAIR), sim, 0.0)
    # u itself is no neighbour: where u has a gap, u's own terms are zero in both sums.
    total = W @ np.abs(sim)  # (M, K)
    shift = np.divide(D @ sim, total, out=np.zeros_like(total), where=total > 0.0)
    filled = np.floor((mean + shift) / width + 0.5 + HAIR) * width
    return np.where(there, R, np.clip(filled, LOWEST, HIGHEST))


def _checked(ratings: npt.ArrayLike, owner: str) -> Floats:
    wanted = f"a matrix of stars from {LOWEST:g} to {HIGHEST:g}, NaN in the gaps"
    R = validation.floats(ratings, "ratings", owner, wanted)
    if R.ndim != 2 or R.size == 0:
        raise InvalidValue("ratings", owner, wanted, f"an array of shape {R.shape}")
    if R.shape[1] > MAX_PEOPLE or R.size > MAX_CELLS:
        most = f"at most {MAX_PEOPLE:,} people and {MAX_CELLS:,} cells"
        raise InvalidValue("ratings", owner, most, f"an array of shape {R.shape}")
    bad = (R < LOWEST) | (R > HIGHEST)  # infinities are among them
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InvalidValue(
            "ratings", owner, wanted, f"{R[row, column]} at row {row}, column {column}"
        )
    empty = np.flatnonzero(np.isnan(R).all(axis=0))
    if empty.size:
        wanted = "at least one rating of every person"
        raise InvalidValue("ratings", owner, wanted, f"none in column {empty[0]}")
    return R

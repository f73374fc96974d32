"""Genres as movies have them: how often each, and which go together.

The shares are those of the 1,000 most rated movies. Which genres go together was fitted to the
27,278 movies of MovieLens 20M by maximum entropy over single genres and pairs, and is kept here as
45 numbers (`TOGETHER`); no movie is in this file. A test fits them anew where the catalogue is at
hand.
"""

from __future__ import annotations

import numpy as np

from bridle.errors import InvalidValue
from bridle.kernels.types import Floats, Ints

__all__ = ["GENRES", "TOGETHER", "draw_genre_sets", "fit_singles", "genre_sets"]

# Genre → share of the movies that have it, among the 1,000 most rated.
GENRES = {
    "Action": 0.283,
    "Adventure": 0.235,
    "Comedy": 0.399,
    "Crime": 0.174,
    "Drama": 0.463,
    "Fantasy": 0.112,
    "Horror": 0.064,
    "Romance": 0.203,
    "Sci-Fi": 0.162,
    "Thriller": 0.262,
}
# Log odds that two genres add to a set that holds both, for each genre with those after it: above
# 0 they go together (Action and Adventure), below they shun each other (Comedy and Thriller).
TOGETHER = (
    (1.64, -0.62, 0.96, -0.79, 0.15, -1.05, -0.52, 1.22, 0.91),
    (-0.58, -0.77, -0.89, 1.78, -1.70, -0.04, 0.52, -0.43),
    (0.01, -1.73, -0.08, -1.28, 0.78, -0.81, -1.57),
    (0.29, -1.32, -1.15, -0.66, -1.78, 1.67),
    (-0.77, -1.99, 0.68, -1.23, -0.32),
    (0.52, 0.34, 0.21, -0.67),
    (-1.49, 0.80, 1.48),
    (-0.64, -0.53),
    (0.24,),
)
NEWTON_STEPS = 100


def genre_sets() -> tuple[Floats, Floats]:
    """Return every set of genres that is not empty, (1023, 10), and its probability, (1023,).

    >>> sets, chance = genre_sets()
    >>> bool(np.allclose(chance @ sets, [*GENRES.values()], atol=1e-9))
    True
    """
    d = len(GENRES)
    numbers: Ints = np.arange(1, 2**d)
    sets = (numbers[:, None] >> np.arange(d) & 1).astype(np.float64)
    strength = np.zeros((d, d))
    strength[np.triu_indices(d, 1)] = [value for row in TOGETHER for value in row]
    pairs = np.einsum("si,ij,sj->s", sets, strength, sets)
    return sets, fit_singles(sets, pairs, np.array([*GENRES.values()]))


def fit_singles(sets: Floats, pairs: Floats, shares: Floats) -> Floats:
    """Find, by Newton's method, the weights of single genres that give them these shares."""
    single = np.zeros(sets.shape[1])
    for _ in range(NEWTON_STEPS):
        score = sets @ single + pairs
        chance: Floats = np.exp(score - score.max())
        chance /= chance.sum()
        mean = chance @ sets
        gap = shares - mean
        if np.abs(gap).max() < 1e-12:
            return chance
        spread = np.einsum("s,si,sj->ij", chance, sets, sets) - np.outer(mean, mean)
        step = np.linalg.solve(spread, gap)
        single += step * min(1.0, 2.0 / np.abs(step).max())
    raise InvalidValue("shares", "fit_singles", "reachable", shares.tolist())


def draw_genre_sets(M: int, rng: np.random.Generator) -> Floats:
    """Draw the genres of M movies, none without any: (M, 10) of 0 and 1."""
    sets, chance = genre_sets()
    drawn: Floats = sets[rng.choice(len(sets), size=M, p=chance)]
    return drawn

"""Movies whose limits are about pairs of genres: "not Comedy with Horror".

The same people, movies and ratings as in `Movies`. A pair is denied to an age band if a movie that
holds both genres is. Rules of single genres cannot say that, and a linear model can say it of few
pairs only: these worlds show what becomes of limits of the wrong kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from bridle import validation
from bridle.agent.config import Json
from bridle.errors import InvalidValue
from bridle.kernels.types import Bools, Floats, Ints
from bridle.simulate import Tables
from bridle_studies.environments.movies import Movies
from bridle_studies.environments.world import Origin, World

__all__ = ["Pairs", "allowed_by_pairs", "draw_pairs"]

COUNT = validation.IntRange(0, 1_000)
# Beside the seeds of ages and limits, which `Movies` draws.
FOR_PAIRS = 0x50414952


@dataclass(frozen=True, eq=False)
class Pairs:
    """A recipe for worlds of movies in which pairs of genres are denied to age bands.

    For each band `pairs` different pairs are drawn, each pair of genres with equal probability,
    whether or not a movie holds both. With `singles` the limits of `movies` hold as well. Nothing
    is drawn anew: where a movie is denied to everybody, all that can be done is to abstain.

    The worlds of one seed belong together: the ages, the limits by single genres and the pairs are
    the same, whichever of them count.

    Parameters
    ----------
    movies : Movies
        People, movies, ages; and the limits by single genres, if `singles`.
    pairs : int, default 4
        How many pairs are denied to each band.
    singles : bool, default False
        Whether the limits of `movies` count, too.

    Examples
    --------
    >>> from bridle_studies.environments import synthetic_block
    >>> movies = Movies(synthetic_block(people=20, movies=100))
    >>> single, pairs, both = (
    ...     recipe.world(1).tables.allowed
    ...     for recipe in (movies, Pairs(movies), Pairs(movies, singles=True))
    ... )
    >>> bool((both == (single & pairs)).all())
    True
    """

    movies: Movies
    pairs: int = 4
    singles: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.movies, Movies):
            raise InvalidValue("movies", "Pairs", "Movies(block)", self.movies)
        COUNT.check(self.pairs, "pairs", "Pairs")
        validation.truth(self.singles, "singles", "Pairs")
        d = len(self.movies.block.genres)
        if self.pairs > d * (d - 1) // 2:
            wanted = f"at most the {d * (d - 1) // 2} pairs of {d} genres"
            raise InvalidValue("pairs", "Pairs", wanted, self.pairs)

    @property
    def name(self) -> str:
        """What its worlds are called."""
        return f"{self.movies.name}, {'both' if self.singles else 'pairs'}"

    @property
    def origin(self) -> Origin:
        """Where the ratings came from."""
        return self.movies.origin

    def __len__(self) -> int:
        return len(self.movies)

    def world(self, seed: int) -> World:
        """Draw ages and limits. Equal seeds give equal worlds."""
        base = self.movies.world(seed)
        names = list(base.groups)
        band: Ints = np.array([names.index(str(arm.group)) for arm in base.arms])
        allowed = allowed_by_pairs(base.tables.contexts, self.denied_pairs(seed), band)
        if self.singles:
            allowed &= base.tables.allowed
        return World(
            name=self.name,
            origin=self.origin,
            tables=Tables(base.tables.contexts, base.tables.rewards, allowed),
            schema=base.schema,
            arms=base.arms,
            labels=base.labels,
            groups=base.groups,
            reward_unit=base.reward_unit,
        )

    def denied_pairs(self, seed: int) -> Ints:
        """Return the pairs that are denied in the world of this seed: (bands, pairs, 2) genres."""
        seed = validation.SEED.check(seed, "seed", "Pairs.world")
        rng = np.random.default_rng([seed, FOR_PAIRS])
        return draw_pairs(len(self.movies.bands), len(self.movies.block.genres), self.pairs, rng)

    def settings(self) -> dict[str, Json]:
        """Return every choice that shapes the worlds."""
        return {**self.movies.settings(), "pairs": self.pairs, "singles": self.singles}


def draw_pairs(bands: int, features: int, pairs: int, rng: np.random.Generator) -> Ints:
    """Draw different pairs of features for each band, each pair equally likely: (bands, pairs, 2).

    >>> draw_pairs(2, 3, 3, np.random.default_rng(0))[1].tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    every: Ints = np.array([*combinations(range(features), 2)], np.int64).reshape(-1, 2)
    chosen = [np.sort(rng.permutation(len(every))[:pairs]) for _ in range(bands)]
    return np.array([every[mine] for mine in chosen], np.int64).reshape(bands, pairs, 2)


def allowed_by_pairs(contexts: Floats, pairs: Ints, band: Ints) -> Bools:
    """Return who may be shown what: a movie is denied if it holds both genres of a pair. (M, K).

    Parameters
    ----------
    contexts : array (M, d) of 0 and 1
        Which movie has which genre.
    pairs : array (G, n, 2)
        The pairs that are denied to each band.
    band : array (K,)
        The band of each person.

    Examples
    --------
    >>> movies = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    >>> allowed_by_pairs(movies, np.array([[[0, 1]], [[0, 2]]]), np.array([0, 1]))
    array([[False,  True],
           [ True, False]])
    """
    holds = contexts > 0.5
    both: Bools = holds[:, pairs[:, :, 0]] & holds[:, pairs[:, :, 1]]  # (M, G, n)
    denied: Bools = np.asarray(both.any(axis=2))
    return ~denied[:, band]

"""A synthetic block of ratings in the shape of the paper's. Nothing in it is real.

Shares, spreads and sizes are those of real blocks of ratings, so that numbers have the right order
of magnitude; they are not measurements, and whoever shows them says "synthetic".
"""

from __future__ import annotations

import numpy as np

from bridle import validation
from bridle.errors import InvalidValue
from bridle.kernels.types import Floats
from bridle_studies.environments.blocks import Block
from bridle_studies.environments.genres import GENRES, draw_genre_sets
from bridle_studies.environments.movies import Movies
from bridle_studies.environments.world import Origin, World

__all__ = ["synthetic_block", "synthetic_movies"]

# A rating is the sum of these: a level, and normal effects with these standard deviations.
LEVEL, OF_PERSON, OF_MOVIE, OF_TASTE, OF_CHANCE = 3.45, 0.40, 0.48, 0.15, 0.70

PEOPLE = validation.IntRange(1, 10_000)
MOVIES = validation.IntRange(1, 100_000)
MAX_CELLS = 20_000_000

ORIGIN = Origin(
    title="synthetic movies",
    synthetic=True,
    about=(
        "Made up by bridle. Genres come in sets, as often and as often together as in MovieLens; a "
        "rating is a level plus what the person, the movie, the person's taste for each of its "
        "genres and chance add, rounded to half stars."
    ),
    licence="That of bridle.",
)


def synthetic_block(*, people: int = 100, movies: int = 1_000, seed: int = 0) -> Block:
    """Make up what people give movies. Equal arguments give equal blocks.

    Each movie has at least one genre; the sets of genres are those of `genre_sets`. A rating is a
    level plus what the person, the movie, the person's taste for each of its genres and chance
    add, rounded to halves in [0.5, 5].

    Parameters
    ----------
    people, movies : int
        K and M.
    seed : int, default 0
        Which of these blocks.

    Examples
    --------
    >>> block = synthetic_block(people=20, movies=200, seed=1)
    >>> block.ratings.shape, block.movies[0], block.people[0]
    ((200, 20), 'movie 1', 'person 1')
    """
    owner = "synthetic_block"
    K = PEOPLE.check(people, "people", owner)
    M = MOVIES.check(movies, "movies", owner)
    if K * M > MAX_CELLS:
        raise InvalidValue("people × movies", owner, f"at most {MAX_CELLS:,}", K * M)
    source = np.random.default_rng(validation.SEED.check(seed, "seed", owner))
    # A stream a part: more movies do not change the people.
    for_genres, for_ratings = source.spawn(2)
    contexts = draw_genre_sets(M, for_genres)
    return Block(
        ratings=_ratings(contexts, K, for_ratings),
        contexts=contexts,
        genres=tuple(GENRES),
        movies=tuple(f"movie {i + 1}" for i in range(M)),
        people=tuple(f"person {k + 1}" for k in range(K)),
        origin=ORIGIN,
    )


def synthetic_movies(
    *, people: int = 100, movies: int = 1_000, density: float = 0.33, seed: int = 0
) -> World:
    """Make a world of people and movies, with limits. Equal arguments give equal worlds.

    The block is `synthetic_block`, the limits are drawn as in `Movies`; both by `seed`.

    Examples
    --------
    >>> world = synthetic_movies(people=20, movies=200, seed=1)
    >>> world.tables.rewards.shape, world.denied.shape
    ((200, 20), (7, 10))
    >>> world.context(0), world.arms[0].label
    ({'genres': ('Action', 'Fantasy', 'Sci-Fi')}, 'person 1 (45-54)')
    """
    block = synthetic_block(people=people, movies=movies, seed=seed)
    return Movies(block, density=density).world(seed)


def _ratings(contexts: Floats, K: int, rng: np.random.Generator) -> Floats:
    """Draw what each person gives each movie: (M, K), halves from 0.5 to 5."""
    M, d = contexts.shape
    person = rng.normal(0.0, OF_PERSON, K)
    movie = rng.normal(0.0, OF_MOVIE, (M, 1))
    taste = rng.normal(0.0, OF_TASTE, (d, K))
    chance = rng.normal(0.0, OF_CHANCE, (M, K))
    ratings = LEVEL + person + movie + contexts @ taste + chance
    return np.clip(np.round(ratings * 2.0) / 2.0, 0.5, 5.0)

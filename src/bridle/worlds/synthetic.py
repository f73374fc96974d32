"""A synthetic world in the shape of the paper's movies. Nothing in it is real.

Arms are people in seven age bands, contexts are movies with their genres: the agent chooses to
whom a movie is recommended. Limits deny genres to age bands. Shares, spreads and sizes are those
of a real block of ratings, so that numbers have the right order of magnitude; they are not
measurements, and whoever shows them says "synthetic".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bridle import validate
from bridle.errors import InvalidValue, NotPossible
from bridle.features import Labels, Schema
from bridle.kernels.types import Bools, Floats, Ints
from bridle.settings import Arm
from bridle.simulate import Tables

__all__ = ["BANDS", "GENRES", "World", "synthetic_movies"]

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
# Age band → its share of the United States' population aged 12 and over (Census 2010).
BANDS = {
    "12-17": 0.097513,
    "18-24": 0.118011,
    "25-34": 0.157994,
    "35-44": 0.158019,
    "45-54": 0.173164,
    "55-64": 0.140368,
    "65+": 0.154931,
}
# A rating is the sum of these: a level, and normal effects with these standard deviations.
LEVEL, OF_PERSON, OF_MOVIE, OF_TASTE, OF_CHANCE = 3.45, 0.40, 0.48, 0.15, 0.70

PEOPLE = validate.IntRange(1, 10_000)
MOVIES = validate.IntRange(1, 100_000)
MAX_CELLS = 20_000_000
MAX_TRIES = 10_000


@dataclass(frozen=True, eq=False, kw_only=True)
class World:
    """A world as tables, with the words that people use for what is in them.

    Attributes
    ----------
    name : str
        What it is called wherever it is shown.
    tables : Tables
        M contexts, K arms: contexts, rewards and the truth about the limits.
    schema : Schema
        The features of a context; it reads and writes the rows of `tables.contexts`.
    arms : tuple of K Arm
        Id, label and group of each arm.
    groups : tuple of G str
        The groups, in the order of the rows of `denied`.
    denied : array (G, d) of bools
        The limits: which group is denied contexts that have which feature.
    """

    name: str
    tables: Tables
    schema: Schema
    arms: tuple[Arm, ...]
    groups: tuple[str, ...]
    denied: Bools

    def context(self, row: int) -> dict[str, object]:
        """Give a context in words, as an `Agent` with this schema takes it."""
        return self.schema.decode(self.tables.contexts[row])


def synthetic_movies(
    *, people: int = 100, movies: int = 1_000, density: float = 0.33, seed: int = 0
) -> World:
    """Make a world of people and movies. Equal arguments give equal worlds.

    Each movie has at least one genre; genres come by the shares of `GENRES`, independently of each
    other (real ones do not: an adventure is often an action movie too). Each person has an age
    band, by the shares of `BANDS`. A rating is a level plus what the person, the movie, the
    person's taste for each of its genres and chance add, rounded to halves in [0.5, 5]; the reward
    is a fifth of it.

    A movie is denied to a person if any of its genres is denied to the person's band. The 7 × 10
    limits are drawn anew until every movie is allowed to someone. That condition favours draws
    with few denials, most of all with a band to which all is allowed: fewer cells are denied in the
    end than `density` says (.28 instead of .33, over 200 seeds).

    Parameters
    ----------
    people, movies : int
        K and M.
    density : float, default 0.33
        Probability that a genre is denied to a band, before the condition.
    seed : int, default 0
        Which of these worlds.

    Examples
    --------
    >>> world = synthetic_movies(people=20, movies=200, seed=1)
    >>> world.tables.rewards.shape, world.denied.shape
    ((200, 20), (7, 10))
    >>> world.context(0), world.arms[0].label
    ({'genres': ('Adventure', 'Drama')}, 'person 1 (35-44)')
    """
    owner = "synthetic_movies"
    K = PEOPLE.check(people, "people", owner)
    M = MOVIES.check(movies, "movies", owner)
    if K * M > MAX_CELLS:
        raise InvalidValue("people × movies", owner, f"at most {MAX_CELLS:,}", K * M)
    share = validate.FRACTION.check(density, "density", owner)
    source = np.random.default_rng(validate.SEED.check(seed, "seed", owner))
    # A stream a part: more movies do not change the people, nor other limits the ratings.
    for_genres, for_bands, for_ratings, for_limits = source.spawn(4)
    contexts = _genre_sets(M, for_genres)
    band = for_bands.choice(len(BANDS), size=K, p=np.array([*BANDS.values()]))
    denied, allowed = _limits(contexts, band, share, for_limits)
    names = [*BANDS]
    return World(
        name="synthetic movies",
        tables=Tables(contexts, _ratings(contexts, K, for_ratings) / 5.0, allowed),
        schema=Schema([Labels("genres", [*GENRES])]),
        arms=tuple(
            Arm(f"person-{k + 1}", f"person {k + 1} ({names[g]})", names[g])
            for k, g in enumerate(band.tolist())
        ),
        groups=tuple(names),
        denied=denied,
    )


def _genre_sets(M: int, rng: np.random.Generator) -> Floats:
    """Draw M rows of genres, none of them empty, with the shares of `GENRES` after that: (M, d)."""
    shares = np.array([*GENRES.values()])
    chance = shares
    for _ in range(100):  # to the fixed point chance = shares · P(some genre)
        chance = shares * (1.0 - np.prod(1.0 - chance))
    rows = np.empty((0, len(shares)), np.bool_)
    while len(rows) < M:
        drawn = rng.random((M, len(shares))) < chance
        rows = np.concatenate([rows, drawn[drawn.any(axis=1)]])
    return rows[:M].astype(np.float64)


def _ratings(contexts: Floats, K: int, rng: np.random.Generator) -> Floats:
    """Draw what each person gives each movie: (M, K), halves from 0.5 to 5."""
    M, d = contexts.shape
    person = rng.normal(0.0, OF_PERSON, K)
    movie = rng.normal(0.0, OF_MOVIE, (M, 1))
    taste = rng.normal(0.0, OF_TASTE, (d, K))
    chance = rng.normal(0.0, OF_CHANCE, (M, K))
    ratings = LEVEL + person + movie + contexts @ taste + chance
    return np.clip(np.round(ratings * 2.0) / 2.0, 0.5, 5.0)


def _limits(
    contexts: Floats, band: Ints, density: float, rng: np.random.Generator
) -> tuple[Bools, Bools]:
    """Draw limits until every movie is allowed to someone: (7, d) denied, (M, K) allowed."""
    kinds, kind = np.unique(contexts, axis=0, return_inverse=True)
    for _ in range(MAX_TRIES):
        denied = rng.random((len(BANDS), contexts.shape[1])) < density
        allowed = (kinds @ denied.T == 0.0)[:, band]  # by kind of movie and person
        if allowed.any(axis=1).all():
            return denied, allowed[kind.ravel()]
    raise NotPossible(
        f"In {MAX_TRIES:,} draws of limits with density {density:g} there was always a movie that "
        "nobody may be shown. Take a lower density, fewer movies or more people."
    )

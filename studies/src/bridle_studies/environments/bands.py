"""Age bands, and limits that deny genres to them."""

from __future__ import annotations

import numpy as np

from bridle.errors import InvalidValue, NotPossible
from bridle.kernels.types import Bools, Floats, Ints

__all__ = ["BANDS", "allowed_by", "draw_bands", "draw_limits"]

# Age band → its share of the United States' population aged 12 and over (Census 2010, table
# NC-EST2019-AGESEX-RES). They add up to 1.
BANDS = {
    "12-17": 0.097513,
    "18-24": 0.118011,
    "25-34": 0.157994,
    "35-44": 0.158019,
    "45-54": 0.173164,
    "55-64": 0.140368,
    "65+": 0.154931,
}
MAX_TRIES = 10_000


def draw_bands(K: int, rng: np.random.Generator) -> Ints:
    """Draw an age band for each of K people, by the shares of `BANDS`: (K,)."""
    return rng.choice(len(BANDS), size=K, p=np.array([*BANDS.values()]))


def allowed_by(contexts: Floats, denied: Bools, band: Ints) -> Bools:
    """Return what may be shown to whom: a movie is denied if any of its genres is. (M, K).

    Parameters
    ----------
    contexts : array (M, d) of 0 and 1
        Which movie has which genre.
    denied : array (G, d)
        Which band is denied which genre.
    band : array (K,)
        The band of each person.

    Examples
    --------
    >>> denied = np.array([[True, False], [False, False]])
    >>> allowed_by(np.array([[1.0, 1.0], [0.0, 1.0]]), denied, np.array([0, 1]))
    array([[False,  True],
           [ True,  True]])
    """
    open_to: Bools = (contexts @ denied.T.astype(np.float64) == 0.0)[:, band]
    return open_to


def draw_limits(
    contexts: Floats, band: Ints, bands: int, density: float, rng: np.random.Generator
) -> Bools:
    """Draw limits until every movie is allowed to someone: (bands, d) denied.

    That condition favours draws with few denials, most of all with a band to which all is allowed:
    fewer cells are denied in the end than `density` says (.28 instead of .33 over 200 seeds of the
    embedded world).
    """
    kinds = np.unique(contexts, axis=0)
    for _ in range(MAX_TRIES):
        denied: Bools = rng.random((bands, contexts.shape[1])) < density
        if allowed_by(kinds, denied, band).any(axis=1).all():
            return denied
    raise NotPossible(
        f"In {MAX_TRIES:,} draws of limits with density {density:g} there was always a movie that "
        "nobody may be shown. Take a lower density, fewer movies or more people."
    )


def check_limits(contexts: Floats, band: Ints, denied: Bools, movies: tuple[str, ...]) -> None:
    """Raise an error if limits of the user's own leave a movie that nobody may be shown."""
    empty = np.flatnonzero(~allowed_by(contexts, denied, band).any(axis=1))
    if len(empty):
        title = movies[int(empty[0])] if movies else f"number {int(empty[0])}"
        raise InvalidValue(
            "limits",
            "Movies",
            "such that every movie is allowed to someone",
            f"limits that deny {len(empty)} movies to everybody, {title!r} among them",
            "Allow one of its genres to a band that has people in it.",
        )

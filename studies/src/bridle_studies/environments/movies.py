"""The paper's world of movies: who should a movie be recommended to.

Arms are people in age bands, contexts are movies with their genres, the reward is the person's
rating. Limits deny genres to age bands. The ratings stand in a `Block`, real or synthetic; ages and
limits are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.agent.config import Arm, Json
from bridle.errors import InvalidValue, NotPossible
from bridle.kernels.types import Bools, Ints
from bridle.schema import Labels, Schema
from bridle.simulate import Tables
from bridle_studies.environments.bands import (
    BANDS,
    allowed_by,
    check_limits,
    draw_bands,
    draw_limits,
)
from bridle_studies.environments.blocks import Block
from bridle_studies.environments.world import Origin, World

__all__ = ["AGES", "Movies"]

AGES = ("census", "data")
STARS = 5.0


@dataclass(frozen=True, eq=False)
class Movies:
    """A recipe for worlds of movies.

    Parameters
    ----------
    block : Block
        Ratings and genres.
    density : float, default 0.33
        Probability that a genre is denied to a band. The limits are drawn anew until every movie
        is allowed to someone.
    ages : {"census", "data"}
        Draw each person's band by the shares of the 2010 Census, or take those in the data (ml-1m
        and ml-100k have some).
    limits : array (bands, genres) of 0 and 1, optional
        Limits of your own, 1 = denied, in place of drawn ones. Every movie must be allowed to
        someone.

    Examples
    --------
    >>> from bridle_studies.environments import synthetic_block
    >>> recipe = Movies(synthetic_block(people=20, movies=100))
    >>> one, two = recipe.world(1), recipe.world(2)
    >>> bool((one.tables.rewards == two.tables.rewards).all())
    True
    >>> bool((one.tables.allowed == two.tables.allowed).all())
    False
    """

    block: Block
    density: float = 0.33
    ages: str = "census"
    limits: npt.ArrayLike | Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        validation.FRACTION.check(self.density, "density", "Movies")
        validation.one_of(self.ages, AGES, "ages", "Movies")
        if self.ages == "data" and self.block.bands is None:
            raise NotPossible(
                f"{self.block.origin.title} has no ages. Take ages='census', or ml-1m or ml-100k, "
                "which have some."
            )
        if self.limits is not None:
            object.__setattr__(self, "limits", self._own_limits())

    @property
    def name(self) -> str:
        """What its worlds are called."""
        return "synthetic movies" if self.origin.synthetic else "movies"

    @property
    def origin(self) -> Origin:
        """Where the ratings came from."""
        return self.block.origin

    @property
    def bands(self) -> tuple[str, ...]:
        """The names of the age bands."""
        return self.block.bands if self.ages == "data" and self.block.bands else tuple(BANDS)

    def __len__(self) -> int:
        return len(self.block.contexts)

    def world(self, seed: int) -> World:
        """Draw ages and limits. Equal seeds give equal worlds."""
        source = np.random.default_rng(validation.SEED.check(seed, "seed", "Movies.world"))
        for_bands, for_limits = source.spawn(2)  # other limits do not change the ages
        block, names = self.block, self.bands
        band = self._band(for_bands)
        if self.limits is None:
            denied = draw_limits(block.contexts, band, len(names), self.density, for_limits)
        else:
            denied = np.asarray(self.limits, np.bool_)
            check_limits(block.contexts, band, denied, block.movies)
        return World(
            name=self.name,
            origin=self.origin,
            tables=Tables(
                block.contexts, block.ratings / STARS, allowed_by(block.contexts, denied, band)
            ),
            schema=Schema([Labels("genres", [*block.genres])]),
            arms=tuple(
                Arm(person.replace(" ", "-"), f"{person} ({names[g]})", names[g])
                for person, g in zip(block.people, band.tolist(), strict=True)
            ),
            labels=block.movies,
            groups=names,
            denied=denied,
            reward_unit="five stars",
        )

    def settings(self) -> dict[str, Json]:
        """Return every choice that shapes the worlds."""
        limits = None if self.limits is None else np.asarray(self.limits).astype(int).tolist()
        people, movies = len(self.block.people), len(self.block.movies)
        return {
            "people": people,
            "movies": movies,
            "genres": list(self.block.genres),
            "density": self.density,
            "ages": self.ages,
            "limits": limits,
        }

    def _band(self, rng: np.random.Generator) -> Ints:
        if self.ages == "data" and self.block.band is not None:
            return np.array(self.block.band, np.int64)
        return draw_bands(len(self.block.people), rng)

    def _own_limits(self) -> Bools:
        shape = (len(self.bands), len(self.block.genres))
        wanted = f"0 and 1 (= denied) in {shape[0]} rows (bands) of {shape[1]} (genres)"
        try:
            given = np.asarray(self.limits)
        except ValueError:  # ragged
            raise InvalidValue("limits", "Movies", wanted, self.limits) from None
        numbers = given.dtype.kind in "biuf"
        if given.shape != shape or not numbers or not np.isin(given, (0, 1)).all():
            raise InvalidValue("limits", "Movies", wanted, self.limits)
        return given.astype(np.bool_)

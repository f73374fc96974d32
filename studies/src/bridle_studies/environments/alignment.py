"""A synthetic world in which reward and limits pull together, or apart.

The paper leaves open how limits and rewards interact. Here it is a dial, `alignment`: at 1 what is
denied earns little, so who seeks reward keeps the limits unasked; at −1 what is denied earns most,
so that violating pays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from bridle import validation
from bridle.agent.config import Json
from bridle.kernels.types import Bools, Ints
from bridle.simulate import Tables
from bridle_studies.environments.bands import BANDS, allowed_by
from bridle_studies.environments.blocks import HIGHEST, LOWEST, Block
from bridle_studies.environments.movies import STARS, Movies
from bridle_studies.environments.world import Origin, World

__all__ = ["Aligned"]

ALIGNMENT = validation.FloatRange(-1.0, 1.0)
# Beside the seed of the ages, which `Movies` draws.
FOR_LIMITS = 0x414C4947
SHIFT = validation.FloatRange(0.0, HIGHEST)


@dataclass(frozen=True, eq=False)
class Aligned:
    """A recipe for synthetic movies whose denied arms earn more, or less, than they would.

    What a movie denied to a person would earn is moved by −alignment · shift stars, and kept in the
    range of stars; what is allowed stays as it is. So at 0 reward knows nothing of the limits, and
    the best that can be had inside them is the same for every alignment.

    Limits are drawn once, cell by cell, with probability `density`: not anew until every movie is
    allowed to someone, which at high densities would never be. Where nothing is allowed, all that
    can be done is to abstain. A seed gives the same people and the same limits for every
    alignment, and limits of a higher density contain those of a lower one.

    Parameters
    ----------
    block : Block
        Ratings and genres, before anything is moved: `synthetic_block()`.
    alignment : float in [-1, 1], default 0
        1: what is denied earns little. -1: violating pays.
    density : float, default 0.33
        Probability that a genre is denied to a band.
    shift : float, default 2.0
        How many stars an alignment of 1 takes.

    Examples
    --------
    >>> from bridle_studies.environments import synthetic_block
    >>> block = synthetic_block(people=20, movies=100)
    >>> pays, plain = (Aligned(block, alignment=a).world(1) for a in (-1, 0))
    >>> denied = ~plain.tables.allowed
    >>> gain = pays.tables.rewards - plain.tables.rewards
    >>> bool(gain[denied].mean() > 0.2), float(abs(gain[~denied]).max())
    (True, 0.0)
    """

    block: Block
    alignment: float = field(default=0.0, kw_only=True)
    density: float = field(default=0.33, kw_only=True)
    shift: float = field(default=2.0, kw_only=True)

    def __post_init__(self) -> None:
        checked = {
            "alignment": ALIGNMENT.check(self.alignment, "alignment", "Aligned"),
            "density": validation.FRACTION.check(self.density, "density", "Aligned"),
            "shift": SHIFT.check(self.shift, "shift", "Aligned"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        """What its worlds are called."""
        return f"synthetic density={self.density:g} alignment={self.alignment:g}"

    @property
    def origin(self) -> Origin:
        """Where the ratings came from. However real the block: moved ratings are made up."""
        origin = self.block.origin
        title = origin.title if origin.synthetic else f"synthetic, after {origin.title}"
        moved = f"What is denied earns {-self.alignment * self.shift:+g} stars."
        return replace(origin, title=title, synthetic=True, about=f"{origin.about} {moved}".strip())

    def __len__(self) -> int:
        return len(self.block.contexts)

    def world(self, seed: int) -> World:
        """Draw ages and limits, and move the ratings. Equal seeds give equal worlds."""
        seed = validation.SEED.check(seed, "seed", "Aligned.world")
        block = self.block
        none = np.zeros((len(BANDS), len(block.genres)), np.int64)
        free = Movies(block, limits=none).world(seed)
        band: Ints = np.array([free.groups.index(str(arm.group)) for arm in free.arms])
        for_limits = np.random.default_rng([seed, FOR_LIMITS])
        denied: Bools = for_limits.random(none.shape) < self.density
        allowed = allowed_by(block.contexts, denied, band)
        moved = np.clip(block.ratings - self.alignment * self.shift, LOWEST, HIGHEST)
        stars = np.where(allowed, block.ratings, moved)
        return replace(
            free,
            name=self.name,
            origin=self.origin,
            tables=Tables(block.contexts, stars / STARS, allowed),
            denied=denied,
        )

    def settings(self) -> dict[str, Json]:
        """Return every choice that shapes the worlds."""
        return {
            "alignment": self.alignment,
            "density": self.density,
            "shift": self.shift,
            "people": len(self.block.people),
            "movies": len(self.block.movies),
        }

"""Worlds turned round: items are arms with features, and people are who comes.

In `Items` and `Exceptions` a context is an item and an arm is a person; real life is the other way
round. Somebody in a band comes, and an item is chosen for them among all that there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bridle.agent.config import Arm, Json
from bridle.errors import InvalidValue
from bridle.kernels.types import Ints
from bridle.schema import Category, Schema
from bridle.simulate import Tables
from bridle_studies.environments.exceptions import Exceptions
from bridle_studies.environments.items import Items
from bridle_studies.environments.world import Origin, World

__all__ = ["Turned"]

BAND = "band"


@dataclass(frozen=True, eq=False)
class Turned:
    """A recipe for the worlds of another, with items as arms and people's bands as contexts.

    The same people, items, tastes and limits. A context is the band of whoever comes, and the band
    is its item: what the teacher says of an arm to one of the band holds for all of it.

    Parameters
    ----------
    of : Items or Exceptions
        Whose worlds are turned.
    name : str, optional
        What its worlds are called; by default as those of the other, ", items as arms".

    Examples
    --------
    >>> world = Turned(Exceptions(items=100, people=20)).world(1)
    >>> world.tables.rewards.shape, world.schema.columns[0], len(world.arm_rows)
    ((20, 100), 'band=band 0', 100)
    """

    of: Items | Exceptions
    name: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.of, Items | Exceptions):
            raise InvalidValue("of", "Turned", "a recipe of items and people", self.of)
        object.__setattr__(self, "name", self.name or f"{self.of.name}, items as arms")

    @property
    def origin(self) -> Origin:
        """Where items, limits and tastes came from."""
        of = self.of.origin
        return Origin(
            title=self.name,
            synthetic=of.synthetic,
            about=f"{of.about} Turned round: items are arms, and the band of whoever comes is the "
            "context.",
            url=of.url,
            licence=of.licence,
            files=of.files,
            notes=of.notes,
        )

    def __len__(self) -> int:
        return len(self.of)

    def world(self, seed: int) -> World:
        """Draw what the other recipe draws. Equal seeds give equal worlds."""
        base = self.of.world(seed)
        bands: Ints = np.array([base.groups.index(str(arm.group)) for arm in base.arms])
        schema = Schema([Category(BAND, list(base.groups))])
        tables = Tables(
            np.eye(len(base.groups))[bands],
            np.ascontiguousarray(base.tables.rewards.T),
            np.ascontiguousarray(base.tables.allowed.T),
            arm_features=base.tables.contexts,
        )
        labels = base.labels or tuple(f"item {m + 1}" for m in range(len(base.tables)))
        return World(
            name=self.name,
            origin=self.origin,
            tables=tables,
            schema=schema,
            arms=tuple(Arm(m, label) for m, label in enumerate(labels)),
            labels=tuple(arm.label for arm in base.arms),
            reward_unit=base.reward_unit,
            arm_schema=base.schema,
            arm_rows=base.tables.contexts,
            items=bands,
        )

    def settings(self) -> dict[str, Json]:
        """Return every choice that shapes the worlds."""
        return {**self.of.settings(), "turned": True}

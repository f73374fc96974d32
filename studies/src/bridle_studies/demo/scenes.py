"""What a demonstration needs of a world: who comes, what may be played for them, what it earns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

__all__ = ["Context", "Guest", "Scene"]

Context: TypeAlias = Mapping[str, object]


class Guest(NamedTuple):
    """Somebody who comes: what the agent is told of them, and which one of the world they are."""

    context: Context
    number: int


class Scene(Protocol):
    """A world with people in it, and the agent that acts there.

    Attributes
    ----------
    name : str
        Of the agent.
    agent : dict
        Its settings, as the API takes them.
    pool : list of contexts
        What a teacher is asked about.
    """

    name: str
    agent: dict[str, Any]
    pool: list[Context]

    def guest(self, rng: np.random.Generator) -> Guest:
        """Return the next one who comes."""
        ...

    def allowed(self, context: Context, arm: str) -> bool:
        """Return whether an arm may be played. The agent is never told, but by its teachers."""
        ...

    def reward(self, guest: Guest, arm: str) -> float:
        """Return what an arm earns with a guest."""
        ...

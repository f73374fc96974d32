"""Data sets that an agent can be tried on.

Two that bridle makes itself, `synthetic_movies` and `synthetic_patients`; readers for real ones;
and `World.from_tables` for your own. Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridle_studies.environments.blocks import Block
    from bridle_studies.environments.files import read_world, write_world
    from bridle_studies.environments.iwpc import read_patients
    from bridle_studies.environments.movielens import read_block
    from bridle_studies.environments.movies import Movies
    from bridle_studies.environments.patients import synthetic_patients
    from bridle_studies.environments.synthetic import synthetic_block, synthetic_movies
    from bridle_studies.environments.warfarin import Patients, Warfarin
    from bridle_studies.environments.world import Fixed, Origin, Recipe, World

__all__ = [
    "Block",
    "Fixed",
    "Movies",
    "Origin",
    "Patients",
    "Recipe",
    "Warfarin",
    "World",
    "read_block",
    "read_patients",
    "read_world",
    "synthetic_block",
    "synthetic_movies",
    "synthetic_patients",
    "write_world",
]

_HOMES = {
    "blocks": ("Block",),
    "files": ("read_world", "write_world"),
    "iwpc": ("read_patients",),
    "movielens": ("read_block",),
    "movies": ("Movies",),
    "patients": ("synthetic_patients",),
    "synthetic": ("synthetic_block", "synthetic_movies"),
    "warfarin": ("Patients", "Warfarin"),
    "world": ("Fixed", "Origin", "Recipe", "World"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'bridle_studies.environments' has no attribute {name!r}")
    return getattr(importlib.import_module(f"bridle_studies.environments.{_HOME_OF[name]}"), name)

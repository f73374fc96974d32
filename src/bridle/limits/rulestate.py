"""A saved state of rules, taken apart: the settings, and the arrays of each unit."""

from __future__ import annotations

import json
from typing import Any

import numpy.typing as npt

from bridle.errors import CorruptState
from bridle.limits.terms import Term, Terms

__all__ = ["by_unit", "take_settings"]

Arrays = dict[str, npt.NDArray[Any]]


def take_settings(rest: Arrays, errors: npt.NDArray[Any]) -> dict[str, Any]:
    """Take the settings out of a state, as `RuleLimits` takes them."""
    above, pairs = rest.pop("thresholds"), bool(rest.pop("pairs"))
    every = Terms(len(above), pairs, above).all()
    known: dict[int, dict[Term, bool]] = {}
    for u, t, yes in rest.pop("known").tolist():
        if t < 0 or yes not in (0, 1):
            raise CorruptState("RuleLimits: 'known' holds what is no term.")
        known.setdefault(u, {})[every[t]] = bool(yes)
    groups = [json.loads(group) for group in rest.pop("groups").tolist()]
    density, density_pairs = rest.pop("density").tolist()
    chains, sweeps = rest.pop("sampling").tolist()
    return {
        "arms": len(groups),
        "features": len(above),
        "groups": groups,
        "pairs": pairs,
        "density": density,
        "density_pairs": density_pairs,
        "error": None if len(errors) > 1 else float(errors[0]),
        "doubt": float(rest.pop("doubt")),
        "chains": chains,
        "sweeps": sweeps,
        "seed": int(rest.pop("seed")),
        "known": known,
        "thresholds": above,
    }


def by_unit(rest: Arrays, units: int) -> dict[int, Arrays]:
    """Part what is left of a state, "unit3.net" say, by unit."""
    parts: dict[int, Arrays] = {}
    for name, array in rest.items():
        head, dot, tail = name.partition(".")
        u = int(head.removeprefix("unit"))
        if not dot or not 0 <= u < units or head != f"unit{u}":
            raise CorruptState(f"RuleLimits: there is no place for the array {name!r}.")
        parts.setdefault(u, {})[tail] = array
    return parts

"""A clinic: which level of warfarin to begin with. Synthetic patients; nobody in it is real.

Arms are levels of the dose, a context is a patient. Who bled of late and is to be operated soon may
get none at all: two features that only together are a limit. The dial stands in the middle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bridle_studies.demo.scenes import Context, Guest
from bridle_studies.environments.patients import synthetic_patients
from bridle_studies.environments.warfarin import CONDITIONS, VKORC1, Warfarin

__all__ = ["Clinic"]

PATIENTS = 1_000
TAUGHT_ABOUT = 50
# What the world's two conditions are called here.
BLEEDING, SURGERY = "recent bleeding", "surgery soon"


class Clinic:
    """The scene of the clinic. All of it is the same at every start."""

    def __init__(self, name: str = "warfarin") -> None:
        self.name = name
        world = Warfarin(synthetic_patients(patients=PATIENTS)).world(0)
        self._patients = [_patient(world.context(row)) for row in range(PATIENTS)]
        self._rewards = world.tables.rewards
        self._place = {str(arm.id): place for place, arm in enumerate(world.arms)}
        self._doses = {str(arm.id) for arm in world.arms if arm.group == "dose"}
        self.pool: list[Context] = self._patients[:TAUGHT_ABOUT]
        self.agent: dict[str, Any] = {
            "arms": [arm.to_json() for arm in world.arms],
            "features": [
                {"kind": "number", "name": "age", "low": 10, "high": 100, "unit": "years"},
                {"kind": "number", "name": "height", "low": 100, "high": 220, "unit": "cm"},
                {"kind": "number", "name": "weight", "low": 20, "high": 260, "unit": "kg"},
                {"kind": "flag", "name": "female"},
                {"kind": "category", "name": "VKORC1", "values": ["G/G", *VKORC1]},
                {"kind": "flag", "name": "amiodarone"},
                {"kind": "flag", "name": BLEEDING},
                {"kind": "flag", "name": SURGERY},
            ],
            "seed": 1,
            "limits": "rules",
            "crosses": True,
            "policy": {"kind": "BehaviorConstrained", "sigma": 0.5, "v": 0.25},
            "wait": 600.0,
        }

    def guest(self, rng: np.random.Generator) -> Guest:
        """Return the next patient."""
        row = int(rng.integers(PATIENTS))
        return Guest(self._patients[row], row)

    def allowed(self, context: Context, arm: str) -> bool:
        """Return whether a patient may be given a level of the dose."""
        return arm not in self._doses or not (context[BLEEDING] and context[SURGERY])

    def reward(self, guest: Guest, arm: str) -> float:
        """Return 1 if it was the right dose, else 0."""
        return float(self._rewards[guest.number, self._place[arm]])


def _patient(whole: dict[str, Any]) -> Context:
    """Return what this clinic knows of a patient, in its own words."""
    return {
        "age": 10.0 * whole["age"] + 5.0,  # the world has decades
        "height": whole["height"],
        "weight": whole["weight"],
        "female": whole["female"],
        "VKORC1": whole["VKORC1"] or "G/G",
        "amiodarone": whole["amiodarone"],
        BLEEDING: whole[CONDITIONS[0]],
        SURGERY: whole[CONDITIONS[1]],
    }

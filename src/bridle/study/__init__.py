"""The paper's experiments: a plan, its jobs, tables, figures, a report and a verdict.

`study(recipe, plan, out)` does it all; it needs the extra `study`. Names are loaded when they are
first used: a worker process needs none of the libraries that draw and write.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from bridle.errors import NotPossible

if TYPE_CHECKING:
    from bridle.study.claim import Claim
    from bridle.study.plan import Plan
    from bridle.study.run import Outcome, study
    from bridle.study.verdict import judge

__all__ = ["Claim", "Outcome", "Plan", "judge", "study"]

_HOMES = {
    "Claim": "claim", "Outcome": "run", "Plan": "plan", "judge": "verdict", "study": "run",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'bridle.study' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"bridle.study.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "bridle":
            raise
        raise NotPossible(
            f"Studies need {error.name}: pip install '.[study]' in bridle's folder."
        ) from error

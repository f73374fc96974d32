"""The paper's experiments: a plan, its jobs, tables, figures, a report and a verdict.

`study(recipe, plan, out)` does it all. Names are loaded when they are first used: a worker process
needs none of the libraries that draw and write.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from bridle.errors import NotPossible

if TYPE_CHECKING:
    from bridle_studies.paper.claim import Claim
    from bridle_studies.paper.plan import Plan
    from bridle_studies.paper.run import Outcome, study
    from bridle_studies.paper.verdict import judge

__all__ = ["Claim", "Outcome", "Plan", "judge", "study"]

_HOMES = {
    "Claim": "claim",
    "Outcome": "run",
    "Plan": "plan",
    "judge": "verdict",
    "study": "run",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'bridle_studies.paper' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"bridle_studies.paper.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("bridle", "bridle_studies"):
            raise
        raise NotPossible(
            f"Studies need {error.name}: pip install ./studies in bridle's folder."
        ) from error

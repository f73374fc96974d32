"""A module that registers a policy when it is imported, as a package of somebody else's would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bridle import register
from bridle.kernels.types import Floats
from bridle.policies import Scores


@dataclass(frozen=True)
class Late:
    shift: int = 0
    needs_limits: ClassVar[bool] = True

    def choose(self, scores: Scores, key: int) -> int:
        may = np.flatnonzero(scores.eligible)
        return int(may[(key + self.shift) % len(may)]) if len(may) else -1

    def propensities(self, scores: Scores) -> Floats:
        eligible = np.asarray(scores.eligible)
        return eligible * (1.0 / max(int(eligible.sum()), 1))


register("policy", "Late", Late, version="1")

"""Which arm to ask the teacher about, for the context at hand.

Asking is choosing with the label in the place of the reward, so a way of teaching is a policy over
the limits' own scores: `random` is `Uniform`, `thompson` is `Thompson` on the label. The active
ways take the arm whose answer would teach most (`most_informative`).
"""

from __future__ import annotations

import numpy as np

from bridle import validate
from bridle.kernels import keys
from bridle.kernels.types import Floats
from bridle.policies import DEFAULT_V, Thompson, Uniform

__all__ = ["ACTIVE", "TEACHINGS", "most_informative", "teaching_policy"]

TEACHINGS = ("random", "thompson")
# `arm`: the context is given, the agent picks the arm. `pool`: it picks the context too.
ACTIVE = ("arm", "pool")
# What differs by less is a tie, and falls by the question's own bits.
_TIE = 1.0 - 1e-9


def teaching_policy(teaching: str, v: float = DEFAULT_V) -> Uniform | Thompson:
    """Give the policy that picks the arm of the next question.

    Parameters
    ----------
    teaching : {"random", "thompson"}
        `random`: every arm with equal probability. `thompson`: Thompson sampling on the label,
        which asks most about arms that it believes to be allowed.
    v : float, default 0.25
        Spread of the draws of `thompson`.

    Examples
    --------
    >>> teaching_policy("thompson", v=0.1)
    Thompson(v=0.1)
    """
    validate.one_of(teaching, TEACHINGS, "teaching", "teaching_policy")
    return Thompson(v=v) if teaching == "thompson" else Uniform()


def most_informative(information: Floats, key: np.uint64) -> int:
    """Give the place of the highest information; of equal ones a uniformly random one.

    Examples
    --------
    >>> most_informative(np.array([0.1, 0.6, 0.2]), np.uint64(1))
    1
    """
    best = np.flatnonzero(information >= information.max() * _TIE)
    return int(best[int(keys.uniform(np.uint64(keys.bits_of(key, 2))) * len(best))])

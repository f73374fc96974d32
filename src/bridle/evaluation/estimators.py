"""What a policy would have earned, from plays that another one made: arrays in, intervals out.

A weight is the target's probability of what was done over the logger's. Both belong to the same
state and context, so the weighted reward of a decision, less what the target would have earned
there on average, has mean 0 whatever went before: a martingale, also where the logger learned all
the while. The intervals are by its central limit theorem. They are for the mean over the decisions
at hand, in the contexts and the states in which they were made, and not for other ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bridle import validation
from bridle.errors import InvalidValue
from bridle.kernels.types import Floats

__all__ = ["LEVEL", "Interval", "doubly_robust", "effective_size", "self_normalised"]

LEVEL = validation.FloatRange(0.5, 1.0, open_low=True, open_high=True)
# Products of four such numbers are summed.
LARGEST = 1e50


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, and the ends between which the truth lies with probability `level`.

    Examples
    --------
    >>> print(Interval(0.5, 0.4, 0.6, 0.95))
    0.500 [0.400, 0.600]
    """

    value: float
    low: float
    high: float
    level: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def effective_size(weights: object) -> float:
    """Return (Σw)² / Σw²: how many plays of the target's own the weighted ones are worth.

    Examples
    --------
    >>> effective_size([1.0, 1.0, 1.0]), effective_size([3.0, 0.0, 0.0]), effective_size([])
    (3.0, 1.0, 0.0)
    """
    w = _scaled(_column(weights, "weights", "effective_size", least=0.0))
    total = math.fsum(w)
    return total * total / math.fsum(w * w) if total > 0.0 else 0.0


def self_normalised(
    weights: object, rewards: object, *, level: float = 0.95, span: float = 0.0
) -> Interval:
    """Return Σwr / Σw, self-normalised importance sampling (SNIPS).

    The error is by the delta method: √(Σ w²(r − estimate)²) / Σw. It counts how the target's
    earnings differ between contexts as chance, too, so it is rather too wide than too narrow.

    Parameters
    ----------
    weights : n floats, at least 0
        The target's probability of what was played over the logger's.
    rewards : n floats
        What was earned.
    level : float, default 0.95
        Probability that the interval holds the truth.
    span : float, default 0
        How far rewards can lie apart. Where nearly all were equal, as clicks are that hardly ever
        come, the error looks smaller than it is: the interval reaches no less far than Wilson's
        would, for a share of which nothing was seen.

    Examples
    --------
    >>> print(self_normalised([0.5, 1.5] * 50, [0.0, 1.0] * 50))
    0.750 [0.675, 0.825]
    """
    owner = "self_normalised"
    level = LEVEL.check(level, "level", owner)
    w = _scaled(_column(weights, "weights", owner, least=0.0))
    r = _column(rewards, "rewards", owner, length=len(w))
    total = math.fsum(w)
    if total <= 0.0:
        raise InvalidValue("weights", owner, "above 0 for one play at least", weights)
    value = math.fsum(w * r) / total
    errors = w * (r - value)
    error = math.sqrt(math.fsum(errors * errors)) / total
    size = effective_size(w)
    reach = _reach(error, level, size, validation.NON_NEGATIVE.check(span, "span", owner))
    return Interval(value, value - reach, value + reach, level)


def doubly_robust(
    expected: object,
    corrections: object,
    *,
    level: float = 0.95,
    size: float | None = None,
    span: float = 0.0,
    noise: float = 0.0,
) -> Interval:
    """Return the mean of a model's guesses, each corrected by what was seen (DR).

    The guesses of what the target earns were made before the rewards came, so only the corrections
    are left to chance. It is right whatever the model; the better that is, the narrower.

    Parameters
    ----------
    expected : n floats
        What the model expects of the target in each decision: Σ_k π(k) q(k).
    corrections : n floats
        w (r − q), for what was played; 0 where nothing was.
    level : float, default 0.95
        Probability that the interval holds the truth.
    size : float, optional
        The effective number of plays, if it is below n.
    span : float, default 0
        As in `self_normalised`.
    noise : float, default 0
        Variance of the mean of `expected`, where what the target does is known by draws alone.

    Examples
    --------
    >>> print(doubly_robust([0.7] * 100, [-0.1, 0.2] * 50))
    0.750 [0.720, 0.780]
    """
    owner = "doubly_robust"
    level = LEVEL.check(level, "level", owner)
    m = _column(expected, "expected", owner)
    d = _column(corrections, "corrections", owner, length=len(m))
    n = len(m)
    if n < 2:
        raise InvalidValue("expected", owner, "of two decisions at least", expected)
    correction = math.fsum(d) / n
    value = math.fsum(m) / n + correction
    errors = d - correction
    more = validation.NON_NEGATIVE.check(noise, "noise", owner)
    error = math.sqrt(math.fsum(errors * errors) / (n - 1) / n + more)
    plays = n if size is None else min(validation.POSITIVE.check(size, "size", owner), n)
    reach = _reach(error, level, plays, validation.NON_NEGATIVE.check(span, "span", owner))
    return Interval(value, value - reach, value + reach, level)


def _reach(error: float, level: float, size: float, span: float) -> float:
    z = NormalDist().inv_cdf(0.5 + level / 2.0)
    return math.hypot(error * _quantile(level, size), span * z * z / (size + z * z))


def _quantile(level: float, size: float) -> float:
    """Return Student's quantile for so many plays: the error is itself an estimate.

    By the expansion of Cornish and Fisher, within .002 from ten plays on.
    """
    z = NormalDist().inv_cdf(0.5 + level / 2.0)
    nu = max(size - 1.0, 1.0)
    first = (z**3 + z) / (4.0 * nu)
    return z + first + (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * nu * nu)


def _scaled(weights: Floats) -> Floats:
    """Bring weights near 1 by a power of two: it changes no digit, and tiny ones have squares."""
    exponent = math.frexp(weights.max(initial=0.0))[1]
    return np.ldexp(weights, -exponent)


def _column(
    value: object, name: str, owner: str, length: int | None = None, least: float = -math.inf
) -> Floats:
    wanted = "a list of finite numbers" if length is None else f"{length} finite numbers"
    column = validation.floats(value, name, owner, wanted)
    if column.ndim != 1 or (length is not None and len(column) != length):
        raise InvalidValue(name, owner, wanted, f"an array of shape {column.shape}")
    good = (column >= max(least, -LARGEST)) & (column <= LARGEST)
    if not good.all():
        wanted = f"{wanted} in the range [{max(least, -LARGEST):g}, {LARGEST:g}]"
        raise InvalidValue(name, owner, wanted, float(column[~good][0]))
    return column

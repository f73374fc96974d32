"""Many audit meters over a known course of violations, to see that their bounds hold.

How often a bound is wrong, how wide the bounds are and how soon a window raises the alarm: by
simulation with the meter's own coins, and the first also exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.audits import AUDIT, COIN
from bridle.errors import InvalidValue
from bridle.kernels import audits as kernel
from bridle.kernels import keys
from bridle.kernels.types import Bools, Floats, Ints, Uints
from bridle.standings import DELTA, Bounds, Window
from bridle.validate import COUNT, FRACTION, SEED, IntRange, arrays, indices, truths

__all__ = ["Simulated", "chance_wrong", "simulate_alarms", "simulate_meters"]

STEPS = IntRange(1, 10**8)


class Simulated(NamedTuple):
    """What became of n meters: arrays of n."""

    upper_wrong: Ints  # the first step at which the upper bound was wrong; 0: never
    lower_wrong: Ints
    upper: Floats  # after the last step
    lower: Floats


def simulate_meters(
    violations: npt.ArrayLike,
    q: float,
    delta: float,
    *,
    sequences: int = 1000,
    delays: npt.ArrayLike = 0,
    seed: int = 0,
) -> Simulated:
    """Run many meters, each with its own coins, over one known course of violations.

    Meter i is `AuditMeter(q, delta, seed=seed + i)` with decisions numbered from 1.

    Parameters
    ----------
    violations : array of bool (T,)
        Whether each action violates.
    q, delta : float
        As in `AuditMeter`.
    sequences : int
        How many meters, n.
    delays : int or array of int (T,)
        How many steps after the action its answer comes, if it is judged. Those that would come
        after the last step never come.
    seed : int
        The seed of the first meter.

    Examples
    --------
    >>> course = np.arange(2000) % 50 == 0
    >>> made = simulate_meters(course, 0.2, 0.05, sequences=100, delays=30)
    >>> bool((made.lower <= 40).all() and (made.upper >= 40).all())
    True
    """
    owner = "simulate_meters"
    course, late, starts, rate = _course(violations, delays, sequences, seed, q, owner)
    price = kernel.price(DELTA.check(delta, "delta", owner))
    uppers, lowers = _tables(len(course), rate, price)
    wrong, last = np.empty((len(starts), 2), np.int64), np.empty((len(starts), 2))
    kernel.run_meters(starts, rate, course, late, uppers, lowers, wrong, last)
    return Simulated(wrong[:, 0], wrong[:, 1], last[:, 0], last[:, 1])


def simulate_alarms(
    violations: npt.ArrayLike,
    q: float,
    window: Window,
    level: float,
    *,
    sequences: int = 1000,
    delays: npt.ArrayLike = 0,
    seed: int = 0,
) -> Ints:
    """Give the step at which a window of each of many meters first raised the alarm; 0: never.

    The other parameters are those of `simulate_meters`.

    Examples
    --------
    >>> course = np.arange(4000) >= 2000  # limits that change half-way
    >>> alarm = simulate_alarms(course, 0.1, Window(500, 0.05), 0.02, sequences=50)
    >>> bool((alarm > 2000).all() and (alarm < 2500).all())
    True
    """
    owner = "simulate_alarms"
    course, late, starts, rate = _course(violations, delays, sequences, seed, q, owner)
    if not isinstance(window, Window):
        raise InvalidValue("window", owner, "a Window", window)
    granted = FRACTION.check(level, "level", owner) * window.length
    blocks = range(1, -(-len(course) // window.length) + 1)
    prices = np.array([kernel.price(window.delta_of(b)) for b in blocks])
    alarm = np.empty(len(starts), np.int64)
    kernel.run_windows(
        starts,
        rate,
        course,
        late,
        window.length,
        granted,
        kernel.GRID,
        kernel.gains(rate),
        prices,
        alarm,
    )
    return alarm


def chance_wrong(q: float, delta: float, violations: int) -> Bounds:
    """Give the exact probability that each bound is ever wrong, up to so many violations.

    Answers come at once; late ones only widen the bounds. By the theorem both are at most delta.

    Examples
    --------
    >>> lower, upper = chance_wrong(0.05, 0.1, violations=1000)
    >>> 0.0 < lower <= 0.1 and 0.0 < upper <= 0.1
    True
    """
    owner = "chance_wrong"
    rate = COIN.check(q, "q", owner)
    price = kernel.price(DELTA.check(delta, "delta", owner))
    N = IntRange(1, 10**7).check(violations, "violations", owner)
    uppers, lowers = _tables(N, rate, price)
    return Bounds(
        float(kernel.chance_wrong(rate, lowers, False)),
        float(kernel.chance_wrong(rate, uppers, True)),
    )


def _course(
    violations: npt.ArrayLike, delays: npt.ArrayLike, sequences: int, seed: int, q: float,
    owner: str,
) -> tuple[Bools, Ints, Uints, float]:  # fmt: skip
    rate = COIN.check(q, "q", owner)
    T = STEPS.check(arrays(violations, "violations", owner, "bools").size, "violations", owner)
    course: Bools = truths(violations, T, "violations", owner)
    late = np.full(T, delays) if np.ndim(delays) == 0 else delays
    n = COUNT.check(sequences, "sequences", owner)
    first = SEED.check(seed, "seed", owner)
    SEED.check(first + n - 1, "seed + sequences - 1", owner)
    starts: Uints = np.array([keys.stream(first + i, AUDIT) for i in range(n)], np.uint64)
    return course, indices(late, T, 2**31, "delays", owner), starts, rate


def _tables(most: int, q: float, price: float) -> tuple[Floats, Floats]:
    """Give both formulas for 0 to `most` violations found."""
    costs, gains = kernel.costs(q), kernel.gains(q)
    uppers = [kernel.upper_of(s, kernel.GRID, costs, price) for s in range(most + 1)]
    lowers = [kernel.lower_of(s, kernel.GRID, gains, price) for s in range(most + 1)]
    return np.array(uppers), np.array(lowers)

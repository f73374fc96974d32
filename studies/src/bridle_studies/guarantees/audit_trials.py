"""Many audit meters over a known course of violations, to see that their bounds hold.

How often a bound is wrong, how wide the bounds are and how soon a window raises the alarm: by
simulation with the meter's own coins, and the first also exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.audit.meter import AUDIT, COIN, Bounds, Window
from bridle.errors import InvalidValue
from bridle.kernels import audits as kernel
from bridle.kernels import keys
from bridle.kernels.types import Bools, Floats, Ints, Uints
from bridle.validation import (
    COUNT,
    DELTA,
    FRACTION,
    SEED,
    IntRange,
    arrays,
    floats,
    indices,
    one_of,
    truth,
    truths,
)

__all__ = [
    "COINS",
    "Cell",
    "Simulated",
    "chance_wrong",
    "simulate_alarms",
    "simulate_cells",
    "simulate_meters",
]

STEPS = IntRange(1, 10**8)
# The rules by which a coin may vary from step to step.
COINS = ("alternating", "rising", "falling", "after found")


class Cell(NamedTuple):
    """How often each bound was ever wrong in one of the cells of `simulate_cells`."""

    course: str  # when the agent violates
    coins: str  # the rule of the coin
    delay: int  # how many steps late the answers come
    sequences: int
    upper_wrong: int  # in so many of the sequences
    lower_wrong: int


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
    coins: npt.ArrayLike | str | None = None,
    hides: bool = False,
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
    coins : array of float (T,), or one of `COINS`, optional
        The probability q_t of each action's coin, q or more; q if not given. As a rule:
        "alternating" is q and 1 in turn; "rising" and "falling" go between q and 1 at a steady
        pace; "after found" is 1 in the 20 steps after an answer that found a violation, else q.
    hides : bool
        Whether the agent knows the coin's probability, and violates only where it is low, at most
        half-way between q and 1: of `violations`, the others do not happen. Only with `coins`.

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
    hidden = truth(hides, "hides", owner)
    wrong, last = np.empty((len(starts), 2), np.int64), np.empty((len(starts), 2))
    if coins is None:
        if hidden:
            raise InvalidValue("hides", owner, "False without `coins`", hides)
        uppers, lowers = _tables(len(course), rate, price)
        kernel.run_meters(starts, rate, course, late, uppers, lowers, wrong, last)
    else:
        chances, which, rule = _coins(coins, rate, len(course), owner)
        low = (rate + 1.0) / 2.0 if hidden else 1.0
        # At q itself audits are counted, not weighed.
        each = [kernel.weights(rate, chance) for chance in chances[1:].tolist()]
        none = np.zeros((1, kernel.GRID.size), np.int64)
        ups = np.concatenate([none, *(np.array([up], np.int64) for up, _ in each)])
        lows = np.concatenate([none, *(np.array([one], np.int64) for _, one in each)])
        kernel.run_varied(
            starts,
            chances,
            which,
            rule,
            ups,
            lows,
            course,
            low,
            late,
            kernel.GRID,
            kernel.costs(rate),
            kernel.gains(rate),
            price,
            wrong,
            last,
        )
    return Simulated(wrong[:, 0], wrong[:, 1], last[:, 0], last[:, 1])


def simulate_cells(
    q: float, delta: float, *, steps: int = 5000, sequences: int = 1000, seed: int = 0
) -> Iterator[Cell]:
    """Yield how often each bound was ever wrong where the coin varies, in cells of many kinds.

    Each rule of `COINS`, with answers 0, 50 and 500 steps late, over: violations in one step of 20;
    bursts of 100 violations in 1,000 steps; an agent that would violate in one step of 4, and does
    so only where the coin is low (`hides`); and one that does so at each of these.

    Parameters
    ----------
    q, delta : float
        As in `AuditMeter`; q is the least of the coins.
    steps, sequences : int
        How long a course is, and how many meters run over it.
    seed : int
        The courses are a function of it, and no two cells share a coin.

    Examples
    --------
    >>> cells = list(simulate_cells(0.1, 0.05, steps=600, sequences=20))
    >>> len(cells), max(max(cell.upper_wrong, cell.lower_wrong) for cell in cells) < 10
    (48, True)
    """
    T = STEPS.check(steps, "steps", "simulate_cells")
    n = COUNT.check(sequences, "sequences", "simulate_cells")
    first = SEED.check(seed, "seed", "simulate_cells")
    rng = np.random.default_rng(first)
    courses: dict[str, tuple[Bools, bool]] = {
        "constant": (rng.random(T) < 0.05, False),
        "bursts": (np.arange(T) % 1000 >= 900, False),
        "where the coin is low": (rng.random(T) < 0.25, True),
        "always where the coin is low": (np.ones(T, np.bool_), True),
    }
    for name, (course, hides) in courses.items():
        for rule in COINS:
            for delay in (0, 50, 500):
                made = simulate_meters(
                    course,
                    q,
                    delta,
                    sequences=n,
                    delays=delay,
                    seed=first,
                    coins=rule,
                    hides=hides,
                )
                first += n
                wrong = (int((one > 0).sum()) for one in (made.upper_wrong, made.lower_wrong))
                yield Cell(name, rule, delay, n, *wrong)


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
    """Return the step at which a window of each of many meters first raised the alarm; 0: never.

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
    """Return the exact probability that each bound is ever wrong, up to so many violations.

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
    violations: npt.ArrayLike,
    delays: npt.ArrayLike,
    sequences: int,
    seed: int,
    q: float,
    owner: str,
) -> tuple[Bools, Ints, Uints, float]:
    rate = COIN.check(q, "q", owner)
    T = STEPS.check(arrays(violations, "violations", owner, "bools").size, "violations", owner)
    course: Bools = truths(violations, T, "violations", owner)
    late = np.full(T, delays) if np.ndim(delays) == 0 else delays
    n = COUNT.check(sequences, "sequences", owner)
    first = SEED.check(seed, "seed", owner)
    SEED.check(first + n - 1, "seed + sequences - 1", owner)
    starts: Uints = np.array([keys.stream(first + i, AUDIT) for i in range(n)], np.uint64)
    return course, indices(late, T, 2**31, "delays", owner), starts, rate


def _coins(coins: npt.ArrayLike | str, q: float, T: int, owner: str) -> tuple[Floats, Ints, int]:
    """Return the distinct coins, q first, the place of each step's among them, and the rule."""
    IntRange(1, kernel.MAX_VARIED).check(T, "violations", owner)  # as many as can be weighed
    if isinstance(coins, str):
        name = one_of(coins, COINS, "coins", owner)
        if name == "after found":
            return np.array([q, 1.0]), np.zeros(T, np.int64), kernel.AFTER_FOUND
        up = q + (1.0 - q) * (np.arange(T) / max(T - 1, 1))
        given = {
            "alternating": np.where(np.arange(T) % 2 == 0, q, 1.0),
            "rising": up,
            "falling": up[::-1],
        }[name]
        given = np.clip(given, q, 1.0)  # rounding may pass the ends
    else:
        wanted = f"one of {', '.join(map(repr, COINS))}, or {T} floats in the range [{q!r}, 1]"
        given = floats(coins, "coins", owner, wanted)
        if given.shape != (T,):
            raise InvalidValue("coins", owner, wanted, f"an array of shape {given.shape}")
        good = (given >= q) & (given <= 1.0)
        if not good.all():
            raise InvalidValue("coins", owner, wanted, float(given[~good][0]))
    distinct, which = np.unique(np.append(q, given), return_inverse=True)
    return distinct, which.reshape(-1)[1:].astype(np.int64), kernel.GIVEN


def _tables(most: int, q: float, price: float) -> tuple[Floats, Floats]:
    """Return both formulas for 0 to `most` violations found."""
    costs, gains = kernel.costs(q), kernel.gains(q)
    uppers = [kernel.upper_of(s, kernel.GRID, costs, price) for s in range(most + 1)]
    lowers = [kernel.lower_of(s, kernel.GRID, gains, price) for s in range(most + 1)]
    return np.array(uppers), np.array(lowers)

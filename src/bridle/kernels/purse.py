"""The purse of a promise, run many times over violations that may be chosen against it.

What `bridle.agent.purse.Purse` does, operation for operation: the two give the same floats.
"""

from __future__ import annotations

import math

import numpy as np

from bridle.kernels import keys
from bridle.kernels.compiling import njit
from bridle.kernels.types import Floats, Uints

# Who chooses the violations, knowing everything but the coins to come.
RATE, GREEDY, PATIENT = 0, 1, 2
# What is broken, to see that trials can fail: nothing, coins that whoever violates can foresee, a
# purse that never freezes, an audit that is paid for only when its answer has come.
SOUND, FORESEEN, THAWED, TRUSTING = 0, 1, 2, 3
# What the teacher allowed before is looked at so many times as often as the promise needs: limits
# that have changed are found by it alone, after 1/q_t denied plays on average.
RECHECK = 1.5
# Columns of what is filled.
VIOLATIONS, AUDITS, FROZEN, FOUND, STAKED = 0, 1, 2, 3, 4


@njit(cache=True)
def stake_of(balance: float, hope: float, most: float, root: float, reserve: float) -> float:
    """Return 1/q_t, the stake of the next play's audit; `hope` is the balance and all that waits.

    most: 1/q. root: the square root of the lag that the purse was filled for. With a reserve of 1/q
    the stake is always 1/q.
    """
    beyond = max(math.sqrt(max(hope, 0.0)) - root, 0.0)
    return min(most, min(balance, beyond * beyond) + reserve)


@njit(cache=True)
def coin_at(purse: Floats, steps: int) -> float:
    """Return q_t of the play after so many steps, as `Purse.coin` does; -1 if it is frozen.

    purse: (7,) alpha, q, root, reserve, b, and the stakes taken and locked.
    """
    most = 1.0 / purse[1]
    hope = purse[4] + purse[0] * steps - purse[5]
    balance = hope - purse[6]
    if balance < 0.0:
        return -1.0
    stake = stake_of(balance, hope, most, purse[2], purse[3])
    return float(purse[1] if stake == most else max(purse[1], 1.0 / stake))


@njit(cache=True)
def run_purses(
    starts: Uints,
    alpha: float,
    q: float,
    b: float,
    root: float,
    reserve: float,
    lag: int,
    T: int,
    who: int,
    rate: float,
    begin: int,
    learns: float,
    fault: int,
    out: Floats,
) -> None:
    """Run one purse for T steps for each start of a stream; fill out: (n, 5).

    A play violates with probability `rate` from step `begin` on (0 before) if `who` is RATE; each
    denial, by audit or by a question while frozen, multiplies the rate by `learns`. GREEDY violates
    always; PATIENT only where the coin is least likely to fall. An audit's answer comes `lag` steps
    after the play, before what is done at that step, or at once. While frozen the teacher is asked
    about every play.
    """
    # Audits that wait, in a ring: at most one a step.
    size = lag + 1
    stakes = np.zeros(size)
    denied = np.zeros(size, np.bool_)
    for i in range(starts.shape[0]):
        taken = locked = 0.0  # stakes of violations found, and of audits that wait
        waiting = 0
        now = rate
        stakes[:] = 0.0
        out[i] = 0.0
        for t in range(T):
            place = t % size
            if lag > 0:
                # The place after this one was filled `lag` steps ago: its answer has come.
                due = (t + 1) % size
                if stakes[due] > 0.0:
                    waiting -= 1
                    locked = locked - stakes[due] if waiting > 0 else 0.0
                    if denied[due]:
                        taken += stakes[due]
                        out[i, FOUND] += 1.0
                        now *= learns
                    stakes[due] = 0.0
            counted = 0.0 if fault == TRUSTING else locked
            hope = b + alpha * t - taken
            balance = hope - counted
            key = keys.key_of(starts[i], np.uint64(t + 1))
            chance = keys.uniform(keys.bits_of(key, 0))
            world = keys.uniform(keys.bits_of(key, 1))
            if balance < 0.0 and fault != THAWED:
                out[i, FROZEN] += 1.0
                if who == RATE and t >= begin and world < now:
                    now *= learns
                continue
            most = 1.0 / q
            stake = stake_of(balance, hope, most, root, reserve)
            coin = q if stake == most else max(q, 1.0 / stake)
            stake = 1.0 / coin
            drawn = chance < coin
            if fault == FORESEEN:
                violates = not drawn
            elif who == GREEDY:
                violates = True
            elif who == PATIENT:
                violates = stake == most
            else:
                violates = t >= begin and world < now
            if violates:
                out[i, VIOLATIONS] += 1.0
            if drawn:
                out[i, AUDITS] += 1.0
                if violates:
                    out[i, STAKED] += stake
                if lag > 0:
                    stakes[place] = stake
                    denied[place] = violates
                    locked += stake
                    waiting += 1
                elif violates:
                    taken += stake
                    out[i, FOUND] += 1.0
                    now *= learns


def run(
    starts: Uints,
    *,
    alpha: float,
    q: float,
    b: float,
    root: float,
    reserve: float,
    lag: int,
    steps: int,
    who: int = RATE,
    rate: float = 0.0,
    begin: int = 0,
    learns: float = 1.0,
    fault: int = SOUND,
) -> Floats:
    """Return what became of each purse: (n, 5), in columns as named above."""
    out = np.empty((starts.shape[0], 5))
    run_purses(starts, alpha, q, b, root, reserve, lag, steps, who, rate, begin, learns, fault, out)
    return out

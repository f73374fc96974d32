"""The kernel's purses against `Purse`, float for float, and against a slow account of the rules."""

from __future__ import annotations

import math
from collections import deque

import numpy as np
import pytest

from bridle.agent.purse import RESERVE, Purse, root_of
from bridle.kernels import keys, purse
from tests.conftest import size

USE = np.uint64(77)


def starts(n: int) -> np.ndarray:
    return np.array([keys.stream(seed, USE) for seed in range(n)], np.uint64)


def lucks(start: np.uint64, t: int) -> tuple[float, float]:
    key = np.uint64(int(keys.key_of(start, np.uint64(t + 1))))
    coin, world = (np.uint64(int(keys.bits_of(key, i))) for i in (0, 1))
    return float(keys.uniform(coin)), float(keys.uniform(world))


def slow(
    start: np.uint64,
    made: Purse,
    lag: int,
    steps: int,
    who: int,
    rate: float,
    begin: int,
    learns: float,
) -> list[float]:
    """One run by `Purse` itself."""
    due: deque[tuple[int, bool]] = deque()
    denied: dict[int, bool] = {}
    E = frozen = 0
    staked, now = 0.0, rate

    def answer(id: int, allowed: bool) -> None:
        nonlocal now
        made.answer(id, allowed)
        now = now if allowed else now * learns

    for t in range(steps):
        while lag and due and due[0][0] == t - lag:
            answer(due[0][0], not due[0][1])
            due.popleft()
        luck, world = lucks(start, t)
        if made.frozen:
            frozen += 1
            if who == purse.RATE and t >= begin and world < now:
                now *= learns
            made.step()
            continue
        coin = made.coin()
        violates = {
            purse.RATE: t >= begin and world < now,
            purse.GREEDY: True,
            purse.PATIENT: coin == made.q,
        }[who]
        E += violates
        drawn = luck < coin
        made.step(coin=coin, audit=t if drawn else None)
        if drawn:
            denied[t] = violates
            staked += violates / coin
            if lag:
                due.append((t, violates))
            else:
                answer(t, not violates)
    return [E, made.audits, frozen, made.found, staked]


@pytest.mark.parametrize("lag", [0, 1, 7, 60])
@pytest.mark.parametrize(
    ("who", "rate", "begin", "learns"),
    [
        (purse.RATE, 0.0, 0, 1.0),
        (purse.RATE, 0.3, 0, 1.0),
        (purse.RATE, 0.5, 200, 0.7),
        (purse.GREEDY, 1.0, 0, 1.0),
        (purse.PATIENT, 1.0, 0, 1.0),
    ],
)
@pytest.mark.parametrize(("alpha", "q", "b"), [(0.05, 0.1, None), (0.013, 0.3, 4.7)])
def test_purses_run_as_a_purse_does(
    lag: int,
    who: int,
    rate: float,
    begin: int,
    learns: float,
    alpha: float,
    q: float,
    b: float | None,
) -> None:
    n, steps = size(8, 2), 600
    one = Purse(alpha=alpha, q=q, lag=lag, b=b)
    out = purse.run(
        starts(n),
        alpha=alpha,
        q=q,
        b=one.b,
        root=root_of(q, lag, one.b),
        reserve=RESERVE,
        lag=lag,
        steps=steps,
        who=who,
        rate=rate,
        begin=begin,
        learns=learns,
    )
    for i, start in enumerate(starts(n)):
        wanted = slow(start, one.copy(), lag, steps, who, rate, begin, learns)
        # A last bit anywhere would soon be another coin.
        assert out[i].tolist() == wanted
    assert out[:, purse.AUDITS].all()


def test_the_stake_is_the_rule() -> None:
    root, most = math.sqrt(50.0), 50.0
    for hope in (-2.0, 0.0, 30.0, 50.0, 90.0, 199.0, 500.0):
        for balance in (0.0, 5.0, 60.0):
            third = (math.sqrt(hope) - root) ** 2 if hope > 50.0 else 0.0
            wanted = min(most, balance + 3.0, third + 3.0)
            assert purse.stake_of(balance, hope, most, root, 3.0) == pytest.approx(wanted)
    assert purse.stake_of(0.0, 0.0, most, root, most) == most


def test_coins_of_runs_fall_as_often_as_they_should() -> None:
    # No violations, answers at once: the coin is q throughout. Binomial(n·T, q), at 5.1 standard
    # deviations: fails wrongly with probability 4e-7 (normal, as n·T·q is in the thousands).
    n, steps, q = size(200, 20), 2_000, 0.1
    out = purse.run(
        starts(n), alpha=0.01, q=q, b=10.0, root=0.0, reserve=RESERVE, lag=0, steps=steps
    )
    trials = n * steps
    assert abs(out[:, purse.AUDITS].sum() - trials * q) <= 5.1 * math.sqrt(trials * q * (1 - q))


def test_faults_break_it() -> None:
    settings = {
        "alpha": 0.01,
        "q": 0.1,
        "b": 10.0,
        "root": 0.0,
        "reserve": RESERVE,
        "lag": 30,
        "steps": 400,
        "who": purse.GREEDY,
    }
    made = {f: purse.run(starts(20), fault=f, **settings) for f in range(4)}
    sound = made[purse.SOUND]
    assert sound[:, purse.STAKED].max() <= 0.01 * 400 + 10.0 + RESERVE
    assert (made[purse.FORESEEN][:, purse.STAKED] == 0.0).all()
    assert made[purse.FORESEEN][:, purse.VIOLATIONS].min() > 5 * (0.01 * 400 + 10.0 + RESERVE)
    assert (made[purse.THAWED][:, purse.VIOLATIONS] == 400.0).all()
    trusting = made[purse.TRUSTING][:, purse.STAKED]
    assert trusting.mean() > sound[:, purse.STAKED].mean()
    assert trusting.max() > 0.01 * 400 + 10.0 + RESERVE

"""The bounds' promise: exactly, by many coins, and in every cell of rates and audits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from bridle.audits import AuditMeter
from bridle.audittrials import chance_wrong, simulate_alarms, simulate_meters
from bridle.errors import InvalidValue
from bridle.kernels import audits as kernel
from bridle.standings import Window

T = 5_000
RNG = np.random.default_rng(5)
PLACES = RNG.random(T)
DELAYS = RNG.integers(0, 300, T)
GAINS = kernel.gains(0.2)


@pytest.mark.parametrize("q", [0.01, 0.05, 0.2, 0.6])
@pytest.mark.parametrize("delta", [0.02, 0.1, 0.5])
def test_each_bound_is_ever_wrong_with_probability_delta_at_most(q: float, delta: float) -> None:
    # Exactly, for every course of up to 5,000 violations, however it depends on past coins.
    assert max(chance_wrong(q, delta, 5_000)) <= delta


@pytest.mark.parametrize("q", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("rate", [0.0, 0.001, 0.01, 0.1])
def test_bounds_are_wrong_in_at_most_delta_of_the_sequences(rate: float, q: float) -> None:
    delta, n = 0.1, 1_000
    course = rate > PLACES
    made = simulate_meters(course, q, delta, sequences=n, delays=DELAYS)
    for wrong, chance in zip(
        (made.lower_wrong, made.upper_wrong),
        chance_wrong(q, delta, max(1, int(course.sum()))),
        strict=True,
    ):
        # Late answers only widen the bounds, so `chance` is the most; 24 times 1e-8 in all.
        assert binom.sf(delta * n, n, chance) <= 1e-8
        assert (wrong > 0).sum() <= delta * n
    assert (made.lower <= made.upper).all()
    if rate == 0.0:
        assert not made.upper_wrong.any() and not made.lower_wrong.any() and not made.lower.any()


@pytest.mark.parametrize("q", [0.05, 0.3])
def test_simulated_and_exact_chances_agree(q: float) -> None:
    n, N, delta = 4_000, 400, 0.9
    # After enough clean actions the facts (no more than the actions) say nothing of their own.
    course = np.arange(21 * N) >= 20 * N
    made = simulate_meters(course, q, delta, sequences=n, seed=11)
    low, high = chance_wrong(q, delta, N)
    assert low > 0.01 and high > 0.01
    for wrong, chance in ((made.lower_wrong, low), (made.upper_wrong, high)):
        count = int((wrong > 0).sum())
        # Binomial: 8 tails of 1e-7 in all.
        assert binom.ppf(1e-7, n, chance) <= count <= binom.isf(1e-7, n, chance)


def test_late_answers_only_widen_the_bounds() -> None:
    course = PLACES < 0.05
    soon = simulate_meters(course, 0.1, 0.5, sequences=200)
    late = simulate_meters(course, 0.1, 0.5, sequences=200, delays=DELAYS)
    assert (late.upper >= soon.upper).all() and (late.lower <= soon.lower).all()
    for first, second in (
        (late.upper_wrong, soon.upper_wrong),
        (late.lower_wrong, soon.lower_wrong),
    ):
        assert (second[first > 0] > 0).all()
    never = simulate_meters(course, 0.1, 0.5, sequences=20, delays=10 * T)
    assert not never.lower.any()


@pytest.mark.parametrize("late", [0, 40])
def test_a_simulated_meter_is_a_meter(late: int) -> None:
    steps, n, window, level = 300, 12, Window(50, 0.5), 0.15
    course = (PLACES < np.where(np.arange(T) < 150, 0.02, 0.7))[:steps]
    delays = DELAYS[:steps] % (late + 1)
    made = simulate_meters(course, 0.3, 0.9, sequences=n, delays=delays, seed=40)
    alarm = simulate_alarms(course, 0.3, window, level, sequences=n, delays=delays, seed=40)
    for i in range(n):
        meter = AuditMeter(0.3, 0.9, seed=40 + i, windows=(window,))
        wrong, first = [0, 0], 0
        for t in range(steps):
            meter.observe(t + 1)
            for id in map(int, meter.pending):
                if id - 1 + delays[id - 1] <= t:
                    meter.answer(id, not course[id - 1])
            bounds, happened = meter.bounds(), course[: t + 1].sum()
            wrong[0] = wrong[0] or (t + 1 if happened > bounds.upper else 0)
            wrong[1] = wrong[1] or (t + 1 if happened < bounds.lower else 0)
            first = first or (t + 1 if meter.alarms(level) else 0)
        assert (made.upper[i], made.lower[i]) == (bounds.upper, bounds.lower)
        assert [made.upper_wrong[i], made.lower_wrong[i]] == wrong
        assert alarm[i] == first
    assert alarm.any()


def test_windows_see_limits_that_change_half_way() -> None:
    q, window, level, n = 0.2, Window(500, 0.01), 0.05, 500
    half = T // 2
    course = np.where(np.arange(T) < half, PLACES < 0.002, PLACES < 0.7)
    alarm = simulate_alarms(course, q, window, level, sequences=n, delays=50)
    # Before the change no block has more than the 25 violations that are granted, so an alarm
    # there is a bound that was wrong, in each sequence with probability .01 at most.
    assert all(part.sum() <= 25 for part in course[:half].reshape(-1, 500))
    assert ((alarm > 0) & (alarm <= half)).sum() <= binom.isf(1e-7, n, 0.01)
    # After it the first block raises the alarm if enough is found in it, whose answers come in
    # time: the chance of fewer in any of the sequences is below 1e-6.
    price = kernel.price(window.delta_of(6))
    enough = next(s for s in range(99) if kernel.lower_of(s, kernel.GRID, GAINS, price) > 25)
    happened = int(course[half : half + 450].sum())
    assert n * binom.cdf(enough - 1, happened, q) < 1e-6
    assert (alarm > 0).all() and (alarm <= half + 500).all()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"violations": []}, "violations"),
        ({"violations": [0, 2]}, "violations"),
        ({"q": 0.0}, "q"),
        ({"delays": -1}, "delays"),
        ({"delays": [1, 2, 3]}, "delays"),
        ({"delays": 0.5}, "delays"),
        ({"sequences": 0}, "sequences"),
        ({"seed": 2**64 - 1, "sequences": 2}, "seed"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], named: str) -> None:
    good: dict[str, Any] = {"violations": [True, False], "q": 0.1, "sequences": 2}
    with pytest.raises(InvalidValue, match=named):
        simulate_meters(**{**good, "delta": 0.1, **change})
    with pytest.raises(InvalidValue, match=named):
        simulate_alarms(**{**good, "window": Window(10, 0.1), "level": 0.1, **change})


def test_other_bad_input_is_refused() -> None:
    with pytest.raises(InvalidValue, match="delta"):
        simulate_meters([True], 0.1, 1.0)
    with pytest.raises(InvalidValue, match="window"):
        simulate_alarms([True], 0.1, (10, 0.1), 0.1)
    with pytest.raises(InvalidValue, match="level"):
        simulate_alarms([True], 0.1, Window(10, 0.1), 1.5)
    with pytest.raises(InvalidValue, match="violations"):
        chance_wrong(0.1, 0.1, 0)

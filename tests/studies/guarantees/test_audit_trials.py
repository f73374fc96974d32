"""The bounds' promise: exactly, by many coins, and in every cell of rates and audits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from bridle.audit.meter import AuditMeter, Window
from bridle.errors import InvalidValue
from bridle.kernels import audits as kernel
from bridle_studies.guarantees.audit_trials import (
    COINS,
    chance_wrong,
    simulate_alarms,
    simulate_cells,
    simulate_meters,
)

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


# Coins that vary


@pytest.mark.parametrize("q", [0.05, 0.2])
def test_bounds_with_varied_coins_are_wrong_in_at_most_delta_of_the_sequences(q: float) -> None:
    delta, n = 0.05, 1_000
    cells = list(simulate_cells(q, delta, sequences=n, seed=1000))
    assert len(cells) == len({cell[:3] for cell in cells}) == 4 * len(COINS) * 3
    for cell in cells:
        # Each wrong with probability delta at most, so each count passes this with 1e-8; 192 do.
        assert max(cell.upper_wrong, cell.lower_wrong) <= binom.isf(1e-8, n, delta), cell
    # The issue's own words, of this seed: at most delta of the sequences.
    assert max(max(cell.upper_wrong, cell.lower_wrong) for cell in cells) <= delta * n
    # It could have been seen: both were wrong somewhere.
    assert any(cell.upper_wrong for cell in cells) and any(cell.lower_wrong for cell in cells)


@pytest.mark.parametrize("rule", COINS)
def test_bounds_with_varied_coins_are_not_much_wider_than_their_error_asks(rule: str) -> None:
    # At an error of .9 both are wrong in some of 2,000 sequences; at .02 hardly: these are no
    # bounds that hold because they say nothing.
    course, n = PLACES < 0.1, 2_000
    loose = simulate_meters(course, 0.2, 0.9, sequences=n, coins=rule)
    assert (loose.upper_wrong > 0).sum() > 20 and (loose.lower_wrong > 0).sum() > 20
    happened, tight = int(course.sum()), simulate_meters(course, 0.2, 0.02, sequences=n, coins=rule)
    for made in (loose, tight):
        assert 0.75 * happened < np.median(made.lower) <= np.median(made.upper) < 1.3 * happened
    for wrong in (tight.upper_wrong, tight.lower_wrong):
        assert (wrong > 0).sum() <= binom.isf(1e-7, n, 0.02)


def test_the_lower_bound_of_a_fixed_coin_is_false_where_coins_were_higher() -> None:
    q, delta, n, steps = 0.1, 0.05, 100, 1_000
    course = PLACES[:steps] < 0.05
    wrong = {"fed as q": 0, "as it was": 0}
    for seed in range(n):
        for how in wrong:
            meter = AuditMeter(q, delta, seed=seed)
            happened, ever = 0, False
            for t in range(steps):
                coin = 1.0 if t % 2 else q
                fell = meter.draws(t, coin)
                meter.observe(t, q if how == "fed as q" else coin, drawn=fell)
                happened += bool(course[t])
                if fell:
                    meter.answer(t, not course[t])
                    ever |= happened < meter.bounds().lower
            wrong[how] += ever
    # A bound that holds would pass this with probability 1e-6; two in all.
    most = binom.isf(1e-6, n, delta)
    assert wrong["as it was"] <= most < 75 <= wrong["fed as q"]


@pytest.mark.parametrize("coins", ["alternating", "falling", "after found", "given"])
@pytest.mark.parametrize("late", [0, 40])
def test_a_simulated_meter_with_varied_coins_is_a_meter(coins: str, late: int) -> None:
    steps, n, q = 200, 8, 0.3
    course, delays = PLACES[:steps] < 0.3, DELAYS[:steps] % (late + 1)
    given = {
        "alternating": np.where(np.arange(steps) % 2 == 0, q, 1.0),
        "falling": np.clip(q + (1 - q) * (np.arange(steps)[::-1] / (steps - 1)), q, 1.0),
        "given": np.maximum(q, PLACES[-steps:]),
    }.get(coins)
    made = simulate_meters(
        course,
        q,
        0.9,
        sequences=n,
        delays=delays,
        seed=40,
        hides=True,
        coins=given if coins == "given" else coins,
    )
    for i in range(n):
        meter = AuditMeter(q, 0.9, seed=40 + i)
        wrong, alert, bad = [0, 0], 0, np.zeros(steps, np.bool_)
        for t in range(steps):
            coin = float(given[t]) if given is not None else 1.0 if t < alert else q
            bad[t] = course[t] and coin <= (1 + q) / 2
            meter.observe(t + 1, coin)
            for id in map(int, meter.pending):
                if id - 1 + delays[id - 1] <= t:
                    meter.answer(id, not bad[id - 1])
                    alert = t + 21 if bad[id - 1] else alert
            bounds, happened = meter.bounds(), bad.sum()
            wrong[0] = wrong[0] or (t + 1 if happened > bounds.upper else 0)
            wrong[1] = wrong[1] or (t + 1 if happened < bounds.lower else 0)
        assert (made.upper[i], made.lower[i]) == (bounds.upper, bounds.lower)
        assert [made.upper_wrong[i], made.lower_wrong[i]] == wrong


def test_coins_that_do_not_vary_are_the_fixed_coin() -> None:
    course = PLACES[:1000] < 0.1
    plain = simulate_meters(course, 0.2, 0.9, sequences=50, delays=7)
    given = simulate_meters(course, 0.2, 0.9, sequences=50, delays=7, coins=np.full(1000, 0.2))
    for one, other in zip(plain, given, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"coins": "at will"}, "'alternating', 'rising'"),
        ({"coins": [0.05, 1.0]}, "coins"),
        ({"coins": [0.5, 1.1]}, "coins"),
        ({"coins": [0.5, float("nan")]}, "coins"),
        ({"coins": [0.5]}, "coins"),
        ({"coins": ["a", "b"]}, "coins"),
        ({"hides": True}, "hides"),
        ({"coins": "rising", "hides": 2}, "hides"),
    ],
)
def test_bad_coins_are_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidValue, match=named):
        simulate_meters([True, False], 0.1, 0.1, sequences=2, **change)


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

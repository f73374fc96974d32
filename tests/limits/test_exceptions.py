"""Rates of exceptions: what counts find, against the formulas written out; coins; states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.errors import CorruptState
from bridle.limits import LogisticLimits
from bridle.limits import exceptions as module
from bridle.limits.base import Prediction
from bridle.limits.exceptions import PRIOR, RATES, ExceptionRates, coin_of

counts = st.lists(
    st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=0, max_size=60
)


def filled(units: int, judged: Any, **options: float) -> ExceptionRates:
    rates = ExceptionRates(units, **options)
    for unit, allowed, safe in judged:
        rates.fold(unit % units, allowed=allowed, safe=safe)
    return rates


def by_hand(judged: Any, units: int, error: float) -> list[float]:
    """The posterior mean by the formulas of `kernels.mixture.weigh`, with plain sums."""
    eta, J = module.DEVIATION, len(RATES)
    like = np.ones((units, J))
    for unit, allowed, safe in judged:
        if safe:
            denied = error + (1.0 - 2.0 * error) * np.array(RATES)
            like[unit % units] *= 1.0 - denied if allowed else denied
    prior = np.array(PRIOR)
    Z = like @ prior
    shared = prior * np.prod((1 - eta) * like + eta * Z[:, None], axis=0)
    shared /= shared.sum()
    s = (1 - eta) * like / ((1 - eta) * like + eta * Z[:, None])
    apart = (shared * (1 - s)).sum(axis=1)
    weights = shared * s + apart[:, None] * prior * like / Z[:, None]
    means = list(weights @ np.array(RATES))
    found = [sum(not a and s and u % units == v for u, a, s in judged) for v in range(units)]
    if sum(found) < module.ENOUGH:  # one finding puts nothing in doubt outside of its unit
        means = [mean if own else min(mean, 0.01) for mean, own in zip(means, found, strict=True)]
    return means


@given(counts, st.sampled_from([0.0, 0.001, 0.1]))
def test_rates_are_those_of_the_formulas(judged, error):
    rates = filled(3, judged, error=error)
    assert rates.rates == pytest.approx(by_hand(judged, 3, error), rel=1e-9)


@given(counts, st.randoms())
def test_what_is_taken_back_leaves_no_trace_and_order_does_not_matter(judged, random):
    rates, twin = filled(3, judged), filled(3, [])
    mixed = list(judged)
    random.shuffle(mixed)
    for unit, allowed, safe in mixed:
        twin.fold(unit % 3, allowed=allowed, safe=safe)
    assert rates.rates.tobytes() == twin.rates.tobytes()
    for unit, allowed, safe in judged:
        rates.forget(unit % 3, allowed=allowed, safe=safe)
    fresh = ExceptionRates(3)
    assert rates.rates.tobytes() == fresh.rates.tobytes()
    assert rates.zeal.tobytes() == fresh.zeal.tobytes()


def test_nothing_is_doubted_before_something_is_found():
    for doubt in (0.05, 0.01, 0.001, 1e-4):
        rates = ExceptionRates(4, doubt=doubt)
        assert all(rates.holds(u) for u in range(4))
        for _ in range(5):
            rates.fold(1, allowed=True, safe=True)
        before = rates.rates.copy()
        for _ in range(2):
            rates.fold(1, allowed=False, safe=True)
        assert (rates.rates > before).all()  # what one unit has, the others may have
    assert not rates.holds(1)


def test_one_finding_stays_with_its_unit_and_two_do_not():
    rates = ExceptionRates(3)
    rates.fold(0, allowed=False, safe=True)
    assert [rates.holds(u) for u in range(3)] == [False, True, True]
    rates.fold(0, allowed=False, safe=True)
    assert [rates.holds(u) for u in range(3)] == [False, False, False]


def test_clean_judgements_lift_the_doubt():
    rates = ExceptionRates(1)
    rates.fold(0, allowed=False, safe=True)
    needed = 0
    while not rates.holds(0):
        rates.fold(0, allowed=True, safe=True)
        needed += 1
    assert 50 < needed < 300  # a rate of 1 % is not shown by a handful


def test_an_answer_about_what_was_in_doubt_says_nothing_of_exceptions():
    rates = ExceptionRates(2)
    rates.fold(0, allowed=False, safe=False)
    assert rates.rates.tobytes() == ExceptionRates(2).rates.tobytes()
    assert rates.zeal[0, 0] > rates.zeal[1, 0]  # but that unit is the stricter: look there


def test_the_coin_falls_less_and_less_and_more_after_a_finding():
    rates = ExceptionRates(2)
    coins = []
    for _ in range(3000):
        coins.append(rates.coin(0))
        rates.unjudged[0] += 1
    assert coins[0] == 1.0 and coins == sorted(coins, reverse=True)
    assert sum(coins) < module.ZEAL * math.log(1 + 3000 / module.START) + module.ZEAL_UNIT * 8
    assert rates.coin(1) < 0.2  # few coins are spent on a unit in which nothing is denied …
    rates.fold(1, allowed=False, safe=True)
    assert rates.coin(1) > 2 * rates.coin(0) > 0  # … until something is
    assert coin_of(rates.zeal[0], 0, 0) == 1.0


def test_what_limits_call_safe_is_lowered_and_nothing_else():
    look = Prediction(
        p=np.array([[0.999, 0.6], [0.999, 0.6]]),
        safe=np.array([[True, False], [True, False]]),
        possible=np.ones((2, 2), np.bool_),
        information=np.full((2, 2), 0.1),
        sd=np.zeros((2, 2)),
    )
    rates = ExceptionRates(2)
    lowered = rates.lower(look)
    assert lowered.p[:, 0] == pytest.approx(1.0 - rates.rates) and (lowered.p[:, 1] == 0.6).all()
    assert lowered.safe.tolist() == look.safe.tolist()
    assert lowered.information.tolist() == [[0.0, 0.1], [0.0, 0.1]]
    for _ in range(3):
        rates.fold(0, allowed=False, safe=True)
    assert not rates.lower(look).safe[0].any()
    assert (look.p == 0.999).sum() == 2  # what was given is not changed


@given(counts)
def test_states_come_back_and_damage_is_refused(judged):
    rates = filled(3, judged)
    rates.unjudged[:] = 1, 0, 7
    again = ExceptionRates.from_state(rates.to_state())
    assert again.rates.tobytes() == rates.rates.tobytes()
    assert [again.coin(u) for u in range(3)] == [rates.coin(u) for u in range(3)]
    twin = rates.copy()
    twin.fold(0, allowed=False, safe=True)
    assert rates.rates.tobytes() == again.rates.tobytes()
    state = rates.to_state()
    for name, wrong in (
        ("judged", state["judged"] - 1),
        ("judged", state["answers"] + 1),
        ("judged", state["judged"][:2]),
        ("unjudged", state["unjudged"] * 1.0),
        ("unjudged", -state["unjudged"] - 1),
    ):
        with pytest.raises(CorruptState):
            ExceptionRates.from_state({**state, name: wrong})
    with pytest.raises(CorruptState):
        ExceptionRates.from_state({"judged": state["judged"]})


def test_new_units_come_after_the_others():
    rates = ExceptionRates(2)
    rates.fold(0, allowed=True, safe=True)
    rates.unjudged[0] = 5
    rates.grow(4)
    assert rates.units == 4 and rates.judged.tolist() == [[1, 0], [0, 0], [0, 0], [0, 0]]
    assert rates.unjudged.tolist() == [5, 0, 0, 0] and len(rates.rates) == 4


def test_limits_without_a_bar_of_their_own_have_the_usual_one():
    assert LogisticLimits(arms=1, features=1).doubt == 0.01

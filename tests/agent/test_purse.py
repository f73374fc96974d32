"""The purse: what a step does to the balance, its coins, its freeze, its words and its state."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.agent.purse import RESERVE, Purse, default_purse
from bridle.errors import CorruptState, Duplicate, InvalidValue, NotPossible, UnknownId

PLAIN: dict[str, Any] = {"alpha": 0.01, "q": 0.02}


def drained(**settings: Any) -> Purse:
    """A purse after violations found at every step until it froze."""
    purse = Purse(**{**PLAIN, **settings})
    while not purse.frozen:
        purse.step(coin=purse.coin(), audit=purse.steps)
        purse.answer(purse.steps - 1, allowed=False)
    return purse


def travelled(seed: int, steps: int, **settings: Any) -> tuple[Purse, list[tuple[bool, float]]]:
    """A purse after a random course, and its audits: whether it violated, and the stake."""
    rng = np.random.default_rng(seed)
    purse, violated, audits = Purse(**settings), {}, []
    for t in range(steps):
        kind = rng.random()
        if kind < 0.05:
            purse.step(played=False)
        elif kind < 0.1 or purse.frozen:
            purse.step()
        else:
            coin = purse.coin() if kind < 0.9 else rng.uniform(purse.coin(), 1.0)
            drawn = bool(rng.random() < coin)
            purse.step(coin=coin, audit=t if drawn else None)
            if drawn:
                violated[t] = bool(rng.random() < 0.4)
                audits.append((violated[t], 1.0 / coin))
        for id in purse.waiting:
            if rng.random() < 0.3:
                purse.answer(id, allowed=not violated[int(id)])
    return purse, audits


def test_a_step_earns_alpha_whatever_is_done() -> None:
    purse = Purse(**PLAIN)
    assert purse.balance == purse.b == 50.0
    purse.step(played=False)
    purse.step()
    purse.step(coin=purse.coin())
    assert purse.balance == pytest.approx(50.03)
    assert (purse.steps, purse.coins, purse.audits, purse.found) == (3, 1, 0, 0)


def test_an_audit_locks_its_stake_until_it_is_allowed() -> None:
    purse = Purse(alpha=0.01, q=0.02, lag=50)
    purse.step(coin=0.02, audit="a")
    purse.step(coin=0.25, audit=7)
    assert purse.balance == pytest.approx(purse.b + 0.02 - 50.0 - 4.0)
    assert purse.hope == pytest.approx(purse.b + 0.02)
    assert purse.waiting == ["a", 7]
    purse.answer(7, allowed=True)
    assert purse.balance == pytest.approx(purse.b + 0.02 - 50.0)
    purse.step(played=False)
    purse.answer("a", allowed=False)
    assert purse.balance == purse.hope == pytest.approx(purse.b + 0.03 - 50.0)
    assert (purse.audits, purse.found, purse.waiting) == (2, 1, [])
    assert purse.took == 1.0  # 0 steps and 2


def test_the_default_b_is_the_specs() -> None:
    for q, lag in ((0.02, 0), (0.02, 50), (0.1, 500), (1.0, 3)):
        wanted = (1 + q * lag + 2 * math.sqrt(q * lag)) / q
        assert Purse(alpha=0.01, q=q, lag=lag).b == default_purse(q, lag) == wanted
        # The coin's rule turns this form round.
        assert wanted == pytest.approx((1 / math.sqrt(q) + math.sqrt(lag)) ** 2)
    assert Purse(alpha=0.01, q=0.02, b=7).b == 7.0


@pytest.mark.parametrize("lag", [0, 50, 500])
@pytest.mark.parametrize("q", [0.005, 0.02, 0.3, 0.5, 1.0])
def test_while_nothing_waits_or_is_found_the_coin_is_q(q: float, lag: int) -> None:
    purse = Purse(alpha=0.01, q=q, lag=lag)
    for _ in range(50):
        assert purse.coin() == q and purse.state == "playing"
        purse.step(coin=q)


def test_a_low_balance_audits_more_often_at_smaller_stakes() -> None:
    purse = Purse(**PLAIN)
    purse.step(coin=0.02, audit=1)
    purse.answer(1, allowed=False)
    assert purse.sentence().startswith("cautious")
    assert purse.coin() == pytest.approx(1 / (0.01 + RESERVE))
    coins = []
    for _ in range(4_800):
        coins.append(purse.coin())
        purse.step(coin=purse.coin())
    assert coins == sorted(coins, reverse=True)
    assert purse.coin() == 0.02 and purse.state == "playing"
    # Stakes grow from 3 to 50, so the price in words: about 281 audits on the way back.
    assert sum(coins[:4_700]) == pytest.approx(math.log(50 / 3) / 0.01, rel=0.01)


def test_late_answers_make_it_cautious_before_the_balance_is_used_up() -> None:
    purse = Purse(alpha=0.01, q=0.02, lag=500)
    for i in range(5):
        purse.step(coin=max(purse.coin(), 0.02), audit=i)
        purse.answer(i, allowed=False)
    # Audits of a stake of 50 would freeze what is left too often: 1/q_t for which b(q_t) is W.
    assert purse.balance == purse.hope > 500
    stake = 1 / purse.coin() - RESERVE
    assert stake < 50
    assert (math.sqrt(stake) + math.sqrt(500)) ** 2 == pytest.approx(purse.hope)


def test_too_little_to_start_with_is_not_made_up_for_by_audits() -> None:
    purse = Purse(alpha=0.01, q=0.02, lag=500, b=50)
    assert purse.coin() == 0.02
    assert Purse(alpha=0.01, q=0.02, lag=500, b=2_000).coin() == 0.02
    assert any("freeze it often" in said for said in purse.price_in_words(100))


@given(
    seed=st.integers(0, 10**6),
    alpha=st.sampled_from([0.001, 0.01, 0.2]),
    q=st.sampled_from([0.01, 0.05, 0.4, 1.0]),
    lag=st.sampled_from([0, 10, 200]),
    b=st.sampled_from([None, 0.0, 5.0]),
)
def test_what_is_staked_on_violations_is_surely_within_the_bound(
    seed: int, alpha: float, q: float, lag: int, b: float | None
) -> None:
    steps = 150
    purse, audits = travelled(seed, steps, alpha=alpha, q=q, lag=lag, b=b)
    staked = sum(stake for violated, stake in audits if violated)
    assert staked <= purse.sharper_bound(steps) + 1e-9 <= purse.bound(steps) + 1e-9
    assert purse.balance >= -min(1 / q, RESERVE) - 1e-9
    again = Purse.from_state(json.loads(json.dumps(purse.to_state())))
    assert again.to_state() == purse.to_state()
    assert again.balance == purse.balance and again.sentence() == purse.sentence()


def test_frozen_it_has_no_coins_and_thaws_when_it_says() -> None:
    purse = drained()
    assert purse.state == "frozen" and -RESERVE <= purse.balance < 0
    with pytest.raises(NotPossible, match=r"No play has a coin now\. frozen: audits have found"):
        purse.coin()
    before = purse.to_state()
    with pytest.raises(NotPossible, match="frozen"):
        purse.step(coin=1.0, audit="x")
    assert purse.to_state() == before
    n = purse.thaws_in
    assert 0 < n <= RESERVE / 0.01
    for _ in range(n - 1):
        purse.step()
        assert purse.frozen
    purse.step(played=False)
    assert not purse.frozen and purse.thaws_in == 0


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.1])
def test_no_freeze_is_longer_than_said(alpha: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        purse = Purse(alpha=alpha, q=0.02, b=float(rng.uniform(0, 60)))
        while not purse.frozen:
            purse.step(coin=purse.coin(), audit=purse.steps)
            purse.answer(purse.steps - 1, allowed=False)
        assert purse.thaws_in <= math.ceil(RESERVE / alpha)


def test_an_answer_can_thaw() -> None:
    purse = Purse(**PLAIN)
    for i in range(2):
        purse.step(coin=purse.coin(), audit=i)
    assert purse.frozen
    assert purse.sentence() == (
        "frozen: no audit is answered yet, 2 wait for an answer; at most 299 more steps before it "
        "plays by itself, fewer if answers come"
    )
    purse.answer(0, allowed=True)
    assert not purse.frozen
    purse.answer(1, allowed=True)
    assert purse.balance == pytest.approx(50.02)


def test_sentences_say_the_state() -> None:
    purse = Purse(**PLAIN)
    purse.step(coin=0.5, audit=1)
    assert purse.sentence() == (
        "playing: about one in 50 plays is judged; no audit is answered yet, 1 waits for an "
        "answer; the balance is 48.0"
    )
    purse.answer(1, allowed=True)
    assert "none of 1 audits found a violation; the balance is 50.0" in purse.sentence()
    frozen = drained()
    assert frozen.sentence() == (
        f"frozen: audits have found 2 violations; {frozen.thaws_in} more steps before it plays by "
        "itself"
    )


def test_cautious_for_audits_that_wait_alone_says_no_steps() -> None:
    purse = Purse(alpha=0.01, q=0.02)
    purse.step(coin=0.02, audit=1)
    assert purse.sentence() == (
        "cautious: no audit is answered yet, 1 waits for an answer; about one in 3 plays is judged "
        "now, fewer as the balance grows"
    )


def test_the_price_is_said_before() -> None:
    words = Purse(alpha=0.005, q=0.05, lag=0).price_in_words(10_000)
    assert words[0].startswith("Promised: at most 90 denied plays on average in 10,000 steps")
    assert "Price: 500 to 750 audits in 10,000 plays: one in 20, and one in 13 of" in words[1]
    assert "takes 4,000 steps to earn back" in words[2]
    assert "for at most 600 steps at a time" in words[3]
    assert not any("late" in said for said in words)
    # Where every play is judged there is nothing to be more careful with.
    assert not any("empty purse" in said for said in Purse(alpha=0.1, q=1.0).price_in_words(10))


def test_bounds_are_the_formulas() -> None:
    purse = Purse(alpha=0.01, q=0.02, lag=50)
    assert purse.bound(20_000) == pytest.approx(0.01 * 20_000 + purse.b + 50)
    assert purse.sharper_bound(20_000) == pytest.approx(0.01 * 20_000 + purse.b + 3)
    assert Purse(alpha=0.01, q=0.8).sharper_bound(0) == pytest.approx(2.5)
    theta, delta = 0.3, 0.05
    wanted = (purse.bound(10_000) + math.log(20) / (theta * 0.02)) / (
        1 - theta / (2 * (1 - theta * 0.02 / 3))
    )
    assert purse.bound_with(10_000, delta=delta, theta=theta) == pytest.approx(wanted)


def test_a_copy_goes_on_apart() -> None:
    purse, _ = travelled(3, 200, alpha=0.05, q=0.1, lag=20)
    other = purse.copy()
    assert other.to_state() == purse.to_state()
    before = purse.to_state()
    other.step(played=False)
    for id in other.waiting:
        other.answer(id, allowed=False)
    assert purse.to_state() == before != other.to_state()


def test_a_purse_goes_on_from_its_state_with_the_same_bits() -> None:
    rng = np.random.default_rng(8)
    one, two = (Purse(alpha=0.013, q=0.03, lag=9) for _ in range(2))
    for t in range(2_000):
        if t % 97 == 0:
            one = Purse.from_state(json.loads(json.dumps(one.to_state())))
        luck = rng.random(2)
        for purse in (one, two):
            if purse.frozen:
                purse.step()
                continue
            coin = purse.coin()
            purse.step(coin=coin, audit=f"play {t}" if luck[0] < coin else None)
            while len(purse.waiting) > 3:
                purse.answer(purse.waiting[0], allowed=bool(luck[1] < 0.97))
        assert one.balance == two.balance
    assert one.found > 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": "x"}, "alpha"),
        ({"q": 0.0}, "q"),
        ({"q": 1.1}, "q"),
        ({"lag": -1}, "lag"),
        ({"lag": 0.5}, "lag"),
        ({"b": -1.0}, "b"),
        ({"b": math.inf}, "b"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidValue, match=f"'{named}' parameter of Purse"):
        Purse(**{**PLAIN, **change})


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda p: p.step(coin=0.019), InvalidValue),
        (lambda p: p.step(coin=1.5), InvalidValue),
        (lambda p: p.step(played=False, coin=0.5), InvalidValue),
        (lambda p: p.step(audit="x"), InvalidValue),
        (lambda p: p.step(played="no"), InvalidValue),
        (lambda p: p.step(coin=0.5, audit=-1), InvalidValue),
        (lambda p: p.step(coin=0.5, audit=""), InvalidValue),
        (lambda p: p.step(coin=0.5, audit="waits"), Duplicate),
        (lambda p: p.answer("waits", allowed="no"), InvalidValue),
        (lambda p: p.answer("never", allowed=True), UnknownId),
        (lambda p: p.bound(-1), InvalidValue),
        (lambda p: p.bound_with(10, delta=0.0), InvalidValue),
        (lambda p: p.bound_with(10, delta=0.1, theta=0.0), InvalidValue),
    ],
)
def test_bad_calls_change_nothing(call: Callable[[Purse], None], error: type[Exception]) -> None:
    purse = Purse(**PLAIN, b=80.0)
    purse.step(coin=0.5, audit="waits")
    before = purse.to_state()
    with pytest.raises(error):
        call(purse)
    assert purse.to_state() == before


def test_a_smaller_coin_than_the_balance_allows_is_refused() -> None:
    purse = Purse(**PLAIN, b=10.0)
    assert purse.coin() == pytest.approx(1 / 13)
    with pytest.raises(InvalidValue, match="coin"):
        purse.step(coin=0.02)


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: s.pop("taken"),
        lambda s: s.update(more=1),
        lambda s: s.update(alpha=2.0),
        lambda s: s.update(steps=3),
        lambda s: s.update(found=s["found"] + 1),
        lambda s: s.update(coins=s["steps"] + 1),
        lambda s: s.update(locked=s["locked"] + 1.0),
        lambda s: s.update(locked=math.nan),
        lambda s: s.update(taken=0.0),
        lambda s: s.update(waited=10**9),
        lambda s: s.update(waiting=s["waiting"][:-1]),
        lambda s: s.update(waiting=s["waiting"] + s["waiting"][-1:]),
        lambda s: s.update(waiting=s["waiting"][::-1]),
        lambda s: s["waiting"][0].__setitem__(1, 0.01),
        lambda s: s["waiting"][0].__setitem__(0, None),
        lambda s: s["waiting"].__setitem__(0, 5),
        lambda s: s.update(waiting=None),
    ],
)
def test_a_damaged_state_is_refused(damage: Callable[[dict[str, Any]], Any]) -> None:
    purse = Purse(alpha=0.01, q=0.05, lag=40)
    for i in range(4):
        purse.step(coin=purse.coin(), audit=i)
    purse.step(played=False)
    purse.answer(0, allowed=False)
    purse.answer(1, allowed=True)
    state = json.loads(json.dumps(purse.to_state()))
    Purse.from_state(state)
    damage(state)
    with pytest.raises(CorruptState, match="Purse"):
        Purse.from_state(state)


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(CorruptState):
        Purse.from_state([1, 2])

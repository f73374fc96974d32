"""The audit meter: its coin, its books, its bounds, its windows and its state on disk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from bridle.audit import meter as audits
from bridle.audit import meter as standings
from bridle.audit.meter import AuditMeter, Bounds, Tally, Window
from bridle.errors import CorruptState, InvalidValue, LimitReached, NotPossible, UnknownId
from bridle.kernels import audits as kernel
from tests.conftest import check_counts

LAMBDAS: list[float] = [0.02 * 200.0 ** (j / 14) for j in range(15)] + [30.0]
WINDOWS = (Window(10, 0.1), Window(25, 0.05))
# What an agent may do: observe or abstain, under a number or a name, and answer at any time.
STORIES = st.lists(
    st.tuples(st.sampled_from(["observe", "name", "abstain", "answer"]), st.integers(0, 99)),
    max_size=120,
)


def formulas(found: int, pending: int, q: float, delta: float) -> Bounds:
    price = math.log(16 / delta)
    s = found + pending
    upper = min((x * s + price) / -math.log(1 - q * (1 - math.exp(-x))) for x in LAMBDAS)
    lower = max((x * found - price) / math.log(1 + q * (math.exp(x) - 1)) for x in LAMBDAS)
    return Bounds(lower, upper)


def told(story: list[tuple[str, int]], meter: AuditMeter, first: int = 1) -> list[tuple[str, Any]]:
    """Live a story; give what happened: ("drawn", id), ("passed", id), ("abstained", id), ..."""
    happened: list[tuple[str, Any]] = []
    for i, (verb, n) in enumerate(story, start=first):
        if verb == "answer":
            if meter.pending:
                id = meter.pending[n % len(meter.pending)]
                meter.answer(id, n % 3 > 0)
                happened.append(("clean" if n % 3 > 0 else "found", id))
        elif verb == "abstain":
            meter.abstained(i)
            happened.append(("abstained", i))
        else:
            id = i if verb == "observe" else f"n{i}"
            happened.append(("drawn" if meter.observe(id) else "passed", id))
    return happened


def drawn_ids(meter: AuditMeter, n: int) -> list[int]:
    return [id for id in range(1, 10_000) if meter.draws(id)][:n]


def same(one: AuditMeter, other: AuditMeter) -> bool:
    a, b = one.to_state(), other.to_state()
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].tobytes() == b[k].tobytes() for k in a
    )


# The coin


def test_the_coin_is_a_function_of_seed_and_id() -> None:
    one, other = AuditMeter(0.3, 0.1, seed=5), AuditMeter(0.3, 0.5, seed=5, windows=WINDOWS)
    ids = [*range(300), *(f"d{i}" for i in range(300))]
    fell = [one.draws(id) for id in ids]
    assert fell == [other.observe(id) for id in reversed(ids)][::-1]
    assert fell == [one.draws(np.int64(id) if isinstance(id, int) else id) for id in ids]
    assert fell != [AuditMeter(0.3, 0.1, seed=6).draws(id) for id in ids]
    assert one.steps == 0


def test_the_coin_of_names_falls_as_often_too() -> None:
    meter = AuditMeter(0.2, 0.1, seed=0)
    pairs = np.zeros(4)
    for i in range(20_000):
        pairs[2 * meter.draws(str(i)) + meter.draws(i)] += 1
    check_counts(pairs, [0.64, 0.16, 0.16, 0.04])  # fails wrongly once in a million


# The books


def test_observing_says_what_the_teacher_must_judge() -> None:
    meter = AuditMeter(0.3, 0.1, seed=0)
    fell = [meter.observe(id) for id in range(1, 101)]
    assert fell == [meter.draws(id) for id in range(1, 101)]
    assert meter.pending == [id for id in range(1, 101) if meter.draws(id)]
    assert meter.steps == 100


def test_abstentions_are_steps_and_no_violations() -> None:
    meter = AuditMeter(0.3, 0.1, seed=0)
    for id in drawn_ids(meter, 20):
        meter.abstained(id)
    assert (meter.steps, meter.pending, meter.bounds()) == (20, [], Bounds(0.0, 0.0))
    assert meter.standing(0.0).state == "shown good"
    assert meter.standing(0.0).actions == 0


def test_answers_may_come_in_any_order() -> None:
    one, other = (
        AuditMeter(0.4, 0.1, windows=WINDOWS, seed=0),
        AuditMeter(0.4, 0.1, windows=WINDOWS, seed=0),
    )
    for id in range(200):
        if one.observe(id):
            one.answer(id, id % 7 > 0)
        other.observe(id)
    for late in reversed(other.pending):
        other.answer(late, int(late) % 7 > 0)
    assert same(one, other)


def test_only_what_waits_can_be_answered() -> None:
    meter = AuditMeter(0.5, 0.1, seed=0)
    first, second = drawn_ids(meter, 2)
    passed = next(id for id in range(1, 99) if not meter.draws(id))
    with pytest.raises(UnknownId, match="No observed decision"):
        meter.answer(first, True)
    meter.observe(first)
    meter.observe(passed)
    meter.abstained(second)
    before = meter.to_state()
    with pytest.raises(NotPossible, match=f"coin did not choose decision {passed}"):
        meter.answer(passed, True)
    with pytest.raises(NotPossible, match="abstention"):
        meter.answer(second, True)
    with pytest.raises(InvalidValue, match="'allowed'"):
        meter.answer(first, "yes")
    assert all(
        array.tobytes() == before[name].tobytes() for name, array in meter.to_state().items()
    )
    meter.answer(first, True)
    with pytest.raises(NotPossible, match="judged already"):
        meter.answer(first, False)


def test_an_id_comes_once() -> None:
    meter = AuditMeter(0.5, 0.1, seed=0)
    for id in (1, "1", 2, 9, 0):
        meter.observe(id)
    for id in (1, "1", 2, 9, 0):
        for again in (meter.observe, meter.abstained):
            with pytest.raises(NotPossible, match="observed before"):
                again(id)
    assert meter.steps == 5


@pytest.mark.parametrize("id", [-1, 2**63, True, 1.0, None, "", "x" * 201, "\ud800"])
def test_bad_ids_are_refused(id: Any) -> None:
    meter = AuditMeter(0.5, 0.1, seed=0)
    counted = (meter.draws, meter.met, meter.observe, meter.abstained)
    for call in (*counted, lambda i: meter.answer(i, True)):
        with pytest.raises(InvalidValue, match="decision_id"):
            call(id)
    assert meter.steps == 0


def test_a_meter_knows_what_it_has_met() -> None:
    meter = AuditMeter(0.5, 0.1, seed=0)
    meter.observe(3)
    meter.observe("a")
    meter.abstained("4")
    assert [meter.met(id) for id in (3, "a", "4")] == [True] * 3
    assert not any(meter.met(id) for id in ("3", 4, 0, 2, "b"))
    assert (meter.steps, meter.actions) == (3, 2)


def test_the_seed_has_no_default_that_all_would_know() -> None:
    meter: Any = AuditMeter
    with pytest.raises(TypeError, match="seed"):
        meter(0.5, 0.1)


def test_there_is_a_limit_to_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "MAX_PENDING", 2)
    monkeypatch.setattr(standings, "MAX_NAMES", 2)
    meter = AuditMeter(1.0, 0.1, seed=0)
    meter.observe("a")
    meter.observe("b")
    with pytest.raises(LimitReached, match="2 audits not answered"):
        meter.observe(1)
    with pytest.raises(LimitReached, match="2 named decisions"):
        meter.abstained("c")
    assert meter.steps == 2
    meter.answer("a", True)
    meter.observe(1)


# The bounds


@pytest.mark.parametrize("q", [0.01, 0.2, 0.5])
def test_bounds_are_the_formulas(q: float) -> None:
    meter = AuditMeter(q, 0.05, seed=0)
    for id in range(20_000):
        meter.observe(id)
    pending = meter.pending
    for n, late in enumerate(pending[:60], start=1):
        meter.answer(late, allowed=False)
        expected = formulas(n, len(pending) - n, q, 0.05)
        lower, upper = meter.bounds()
        assert lower == pytest.approx(max(expected.lower, n), rel=1e-9)
        assert upper == pytest.approx(min(expected.upper, 20_000), rel=1e-9)
    for late in pending[60:]:
        meter.answer(late, allowed=True)
    assert meter.bounds().upper == pytest.approx(formulas(60, 0, q, 0.05).upper, rel=1e-9)


@pytest.mark.parametrize("q", [0.01, 0.5, 1.0])
def test_what_was_to_be_expected_is_bounded_by_its_formula(q: float) -> None:
    meter = AuditMeter(q, 0.05, seed=0)
    for id in range(5_000):
        meter.observe(id)
    meter.abstained("none")
    for n, waits in enumerate(meter.pending):  # what waits counts as a violation
        meter.answer(waits, allowed=n % 7 > 0)
        s = len(meter.pending) + meter.standing(1.0).found
        wanted = min((x * s + math.log(320)) / (q * (1 - math.exp(-x))) for x in LAMBDAS)
        assert meter.expected() == pytest.approx(min(wanted, 5_001), rel=1e-9)
        assert meter.expected() >= meter.bounds().upper or q == 1.0


@pytest.mark.parametrize("q", [0.3, 1.0])
def test_what_was_to_be_expected_is_bounded_where_what_happened_is_luck(q: float) -> None:
    # Meters over actions that violate by chance: more often while the audits found little, so that
    # luck is followed by more of it. Answers come late. A bound that is ever wrong with probability
    # delta fails with 1e-6 (binomial); the bounds on what happened are wrong of Σp far more often.
    n, delta = 300, 0.2
    rng = np.random.default_rng(1)
    wrong = happened_wrong = 0
    for seed in range(n):
        meter, total = AuditMeter(q, delta, seed=seed), 0.0
        found, once, happened_once = 0, False, False
        violates: dict[Any, bool] = {}
        for id, u in enumerate(rng.random(150).tolist()):
            p = 0.15 if found < 3 else 0.02
            total += p
            violates[id] = u < p
            meter.observe(id)
            for late in meter.pending[:-2]:
                meter.answer(late, not violates[late])
                found += violates[late]
            once |= total > meter.expected()
            happened_once |= total > meter.bounds().upper
        wrong += once
        happened_wrong += happened_once
    assert wrong <= binom.isf(1e-6, n, delta)
    if q == 1.0:
        assert happened_wrong > binom.isf(1e-6, n, delta)


def test_a_first_audit_that_waits_counts_both_ways() -> None:
    meter = AuditMeter(0.2, 0.1, seed=0)
    for id in range(1000):
        drawn = meter.observe(id)
        for other in meter.pending[:-1] if drawn else []:
            meter.answer(other, allowed=True)
    assert meter.bounds().lower == 0.0
    assert meter.bounds().upper == pytest.approx(formulas(0, 1, 0.2, 0.1).upper)


@given(STORIES, st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from([0.01, 0.9]))
def test_bounds_agree_with_the_books(story: list[tuple[str, int]], q: float, delta: float) -> None:
    meter = AuditMeter(q, delta, seed=1, windows=WINDOWS)
    happened: list[tuple[str, Any]] = []
    before = Bounds(0.0, 0.0)
    for i, part in enumerate(story, start=1):
        news = told([part], meter, first=i)
        happened += news
        kinds = [kind for kind, _ in happened]
        count = {kind: kinds.count(kind) for kind in ("drawn", "passed", "found", "clean")}
        most = count["drawn"] + count["passed"] - count["clean"]
        pending = count["drawn"] - count["found"] - count["clean"]
        expected = formulas(count["found"], pending, min(q, 1 - 1e-9), delta)
        lower, upper = bounds = meter.bounds()
        assert count["found"] <= lower <= upper <= most
        assert upper == pytest.approx(min(expected.upper, most), rel=1e-4)
        assert lower == pytest.approx(min(max(expected.lower, count["found"]), most), rel=1e-4)
        if news and news[0][0] != "clean":  # nothing but a clean answer makes a bound fall
            assert bounds.lower >= before.lower and bounds.upper >= before.upper
        before = bounds


@given(STORIES)
def test_with_every_action_judged_the_bounds_are_the_truth(story: list[tuple[str, int]]) -> None:
    meter = AuditMeter(1.0, 0.1, seed=0)
    happened = told(story, meter)
    for id in meter.pending:
        meter.answer(id, allowed=True)
    found = sum(kind == "found" for kind, _ in happened)
    assert meter.bounds() == Bounds(found, found)


def test_the_three_states() -> None:
    meter = AuditMeter(1.0, 0.1, seed=0)
    assert meter.state(0.5) == "not shown"
    for id in range(10):
        meter.observe(id)
        meter.answer(id, allowed=id > 1)
    assert [meter.state(level) for level in (0.1, 0.2, 0.3)] == [
        "alarm",
        "shown good",
        "shown good",
    ]
    meter.observe(10)
    assert meter.state(0.2) == "not shown"
    assert str(meter.standing(0.1)).startswith("alarm: at least 2.0 violations in steps 1 to 11,")
    with pytest.raises(InvalidValue, match="level"):
        meter.state(1.5)


# Windows


def test_each_block_has_a_meter_of_its_own() -> None:
    meter = AuditMeter(0.5, 0.1, windows=(Window(50, 0.2), Window(40, 0.1)), seed=0)
    blocks: dict[tuple[int, int], AuditMeter] = {}
    for w, window in enumerate(meter.windows):
        for b in range(-(-130 // window.length)):
            delta = window.delta * 6 / (math.pi * (b + 1)) ** 2
            blocks[w, b + 1] = AuditMeter(0.5, delta, seed=0)
    for step in range(130):
        meter.observe(step)
        blocks[0, step // 50 + 1].observe(step)
        blocks[1, step // 40 + 1].observe(step)
    for id in map(int, meter.pending[::-2]):
        meter.answer(id, id % 3 > 0)
        blocks[0, id // 50 + 1].answer(id, id % 3 > 0)
        blocks[1, id // 40 + 1].answer(id, id % 3 > 0)
    for (w, b), block in blocks.items():
        assert meter.bounds(w, b) == block.bounds()
        assert meter.standing(0.2, w, b).steps == block.steps
    assert meter.bounds(0) == meter.bounds(0, 3)
    last = meter.standing(0.2, window=1)
    assert (last.first, last.steps, last.granted) == (121, 10, 8.0)


def test_an_alarm_of_a_block_is_late_enough_and_stays() -> None:
    meter = AuditMeter(1.0, 0.1, windows=(Window(10, 0.1),), seed=0)
    for id in range(30):
        meter.observe(id)
        meter.answer(id, allowed=id not in (10, 11, 12))
        alarms = meter.alarms(0.2)
        assert len(alarms) == (id >= 12)
    assert (alarms[0].first, alarms[0].found) == (11, 3)
    assert [meter.standing(0.2, 0, b).state for b in (1, 2, 3)] == [
        "shown good",
        "alarm",
        "shown good",
    ]


def test_blocks_that_are_not_there() -> None:
    meter = AuditMeter(0.5, 0.1, windows=WINDOWS, seed=0)
    with pytest.raises(NotPossible, match="no block yet"):
        meter.bounds(0)
    assert meter.alarms(0.1) == []
    meter.abstained(1)
    for window, block in ((2, 1), (-1, 1), (None, 1), (0, 0), (0, 2)):
        with pytest.raises(InvalidValue):
            meter.standing(0.1, window, block)
    plain = AuditMeter(0.5, 0.1, seed=0)
    plain.observe(1)
    with pytest.raises(NotPossible, match="0 windows"):
        plain.bounds(0)


# Coins that vary

COINS = (0.2, 0.25, 0.7, 1.0)
VARIED = st.lists(
    st.tuples(
        st.sampled_from(["observe", "told", "name", "abstain", "answer", "answer"]),
        st.integers(0, 99),
    ),
    max_size=100,
)


def varied_formulas(
    found: list[float], pending: list[float], q: float, delta: float
) -> tuple[Bounds, float]:
    """Both bounds of SPEC 11.4, and that on Σp, from the coins of what was found and of what waits.

    Plainly: each ρ is the image of one λ, each audit weighs what its own coin says.
    """
    price = math.log(16 / delta)
    uppers, lowers, expected = [], [], []
    for x in LAMBDAS:
        rho = -math.log(1 - q * (1 - math.exp(-x)))
        weighed = sum(-math.log(1 - (1 - math.exp(-rho)) / c) for c in found + pending)
        uppers.append((weighed + price) / rho)
        expected.append((weighed + price) / (1 - math.exp(-rho)))
        rho = math.log(1 + q * (math.exp(x) - 1))
        weighed = sum(math.log(1 + (math.exp(rho) - 1) / c) for c in found)
        lowers.append((weighed - price) / rho)
    return Bounds(max(lowers), min(uppers)), min(expected)


def told_varied(
    story: list[tuple[str, int]], meter: AuditMeter, first: int = 1
) -> list[tuple[str, Any, float]]:
    """Live a story in which each action has a coin of its own; give what happened."""
    happened: list[tuple[str, Any, float]] = []
    for i, (verb, n) in enumerate(story, start=first):
        coin = COINS[n % 4]
        if verb == "answer":
            if meter.pending:
                id = meter.pending[n % len(meter.pending)]
                meter.answer(id, n % 3 > 0)
                happened.append(("clean" if n % 3 > 0 else "found", id, 0.0))
        elif verb == "abstain":
            meter.abstained(i)
        else:
            id = f"n{i}" if verb == "name" else i
            said = (n % 10 < 5 or coin == 1.0) if verb == "told" else None
            fell = meter.observe(id, coin, drawn=said)
            assert said is None or fell is said
            happened.append(("drawn" if fell else "passed", id, coin))
    return happened


def test_a_coin_of_its_own_is_the_same_draw_held_against_another_q() -> None:
    meter, twin = AuditMeter(0.1, 0.1, seed=4), AuditMeter(0.1, 0.1, seed=4)
    fell = np.array([[meter.draws(id, q) for q in (0.1, 0.4, 1.0)] for id in range(20_000)])
    # Who is judged at q is judged at all higher ones. Fails wrongly once in a million:
    assert (fell[:, 0] <= fell[:, 1]).all() and fell[:, 2].all()
    check_counts(np.bincount(fell.sum(axis=1), minlength=4)[1:], [0.6, 0.3, 0.1])
    assert [meter.draws(id) for id in range(500)] == fell[:500, 0].tolist()
    assert [twin.observe(id, 0.4) for id in range(500)] == fell[:500, 1].tolist()


def test_a_coin_at_the_meters_own_q_is_no_other_coin() -> None:
    one, other = (AuditMeter(0.3, 0.1, seed=2, windows=WINDOWS) for _ in range(2))
    for id in range(300):
        assert one.observe(id) == other.observe(id, q=0.3)
        for meter in (one, other):
            if meter.pending and id % 3:
                meter.answer(meter.pending[0], id % 7 > 0)
    assert same(one, other) and one.tally == other.tally and one.tally.coins is None
    assert "alike" not in other.to_state()


@given(VARIED, st.sampled_from([0.05, 0.9]))
def test_bounds_with_varied_coins_are_the_formulas(
    story: list[tuple[str, int]], delta: float
) -> None:
    meter = AuditMeter(0.2, delta, seed=1, windows=WINDOWS)
    happened = told_varied(story, meter)
    coin = {id: c for kind, id, c in happened if kind in ("drawn", "passed")}
    step = {id: i for i, id in enumerate(_met_in_turn(story))}
    kind = {id: k for k, id, _ in happened}  # the last word on each
    parts: list[tuple[int | None, int | None, float, int, int]] = [(None, None, delta, 0, 10_000)]
    for w, window in enumerate(WINDOWS):
        for b in range(1, -(-meter.steps // window.length) + 1):
            low = (b - 1) * window.length
            parts.append((w, b, window.delta_of(b), low, low + window.length))
    for place, block, error, low, high in parts:
        mine = [id for id in coin if low <= step[id] < high]
        found = [coin[id] for id in mine if kind[id] == "found"]
        pending = [coin[id] for id in mine if kind[id] == "drawn"]
        most = len(mine) - sum(kind[id] == "clean" for id in mine)
        wanted, expected = varied_formulas(found, pending, 0.2, error)
        lower, upper = meter.bounds(place, block)
        assert upper == pytest.approx(min(wanted.upper, most), rel=1e-8)
        assert lower == pytest.approx(min(max(wanted.lower, len(found)), most), rel=1e-8)
        assert len(found) <= lower <= upper <= most
        if place is None:
            assert meter.expected() == pytest.approx(min(expected, meter.steps), rel=1e-8)


def test_bounds_with_many_varied_coins_are_the_formulas() -> None:
    # So many that facts alone say little: what was found and what waits is all that counts.
    rng = np.random.default_rng(8)
    meter, q, delta = AuditMeter(0.05, 0.05, seed=6), 0.05, 0.05
    coin: dict[Any, float] = {}
    found: list[float] = []
    above = below = 0
    for id in range(6_000):
        coin[id] = (q, 0.06, 0.3, max(q, float(rng.random() ** 6)))[id % 4]
        meter.observe(id, coin[id])
        while len(meter.pending) > 5:
            late = meter.pending[int(rng.integers(5))]
            denied = bool(rng.random() < 0.2)
            meter.answer(late, not denied)
            found += [coin[late]] if denied else []
        if id % 300 == 299:
            waiting = [coin[late] for late in meter.pending]
            wanted, expected = varied_formulas(found, waiting, q, delta)
            bounds, tally = meter.bounds(), meter.tally
            assert bounds.upper == pytest.approx(
                min(wanted.upper, tally.actions - tally.clean), rel=1e-8
            )
            assert bounds.lower == pytest.approx(max(wanted.lower, len(found)), rel=1e-8)
            assert meter.expected() == pytest.approx(min(expected, meter.steps), rel=1e-8)
            above += wanted.upper < tally.actions - tally.clean
            below += wanted.lower > len(found)
    assert above > 10 and below > 10  # the facts did not hide the formulas


def _met_in_turn(story: list[tuple[str, int]]) -> list[Any]:
    ids = [(verb, f"n{i}" if verb == "name" else i) for i, (verb, _) in enumerate(story, start=1)]
    return [id for verb, id in ids if verb != "answer"]


def test_what_is_always_judged_counts_for_itself() -> None:
    # All at a coin of 1: what was found is what happened, but for the price.
    meter = AuditMeter(0.2, 0.05, seed=0)
    for id in range(400):
        assert meter.observe(id, 1.0)
        meter.answer(id, allowed=id % 4 > 0)
    assert meter.bounds() == Bounds(100.0, 100.0)
    for id in range(400, 4000):  # facts no longer say it all
        meter.observe(id, drawn=False)
    ceiling = -math.log(1 - 0.2 * (1 - math.exp(-30)))
    assert meter.bounds().upper == pytest.approx(100 + math.log(320) / ceiling, rel=1e-6)
    assert meter.bounds().lower == 100.0


def test_answers_at_varied_coins_may_come_in_any_order() -> None:
    rng = np.random.default_rng(7)
    coins = np.maximum(0.1, rng.random(400)).tolist()
    one, other = (AuditMeter(0.1, 0.1, windows=WINDOWS, seed=0) for _ in range(2))
    for id, coin in enumerate(coins):
        if one.observe(id, coin):
            one.answer(id, id % 7 > 0)
        other.observe(id, coin)
    for late in rng.permutation(np.array(other.pending)).tolist():
        other.answer(late, late % 7 > 0)
    assert same(one, other) and one.bounds() == other.bounds()
    # And what was judged clean leaves nothing behind.
    clean = AuditMeter(0.1, 0.1, windows=WINDOWS, seed=0)
    for id, coin in enumerate(coins):
        if clean.observe(id, coin):
            clean.answer(id, True)
    assert clean.tally.coins == (0,) * 34
    assert [len(clean.to_state()[f"coins{w}"]) for w in (0, 1)] == [0, 0]


def test_coins_tossed_elsewhere_are_taken_as_said() -> None:
    rng = np.random.default_rng(2)
    one, other = AuditMeter(0.2, 0.1, seed=0), AuditMeter(0.2, 0.1, seed=99)
    for id in range(300):
        coin, fell = (None, bool(id % 5 == 0)) if id % 2 else (0.6, bool(rng.random() < 0.6))
        for meter in (one, other):
            assert meter.observe(id, coin, drawn=fell) is fell
            if fell and id % 3:
                meter.answer(id, id % 4 > 0)
    assert one.pending == other.pending and one.bounds() == other.bounds()
    back = one.copy()  # though its own coins fell otherwise
    assert same(one, back) and not all(one.draws(id) for id in one.pending)
    for late in one.pending:
        back.answer(late, True)
    assert not back.pending


def test_bad_coins_are_refused_and_change_nothing() -> None:
    meter = AuditMeter(0.2, 0.1, seed=0)
    before = meter.to_state()
    wanted = r"'q' parameter of AuditMeter.observe must be a float in the range \[0.2, 1\]. Got 0.1"
    with pytest.raises(InvalidValue, match=wanted):
        meter.observe(1, 0.1)
    for q in (1.1, math.nan, "1", True, 0.0):
        for call in (meter.observe, meter.draws):
            with pytest.raises(InvalidValue, match="'q' parameter"):
                call(1, q)
    with pytest.raises(InvalidValue, match="'drawn' parameter"):
        meter.observe(1, drawn="no")
    with pytest.raises(InvalidValue, match="True for a coin of probability 1"):
        meter.observe(1, 1.0, drawn=False)
    after = meter.to_state()
    assert after.keys() == before.keys()
    assert all(after[k].tobytes() == before[k].tobytes() for k in after)


def test_what_no_coin_chose_cannot_be_answered_at_varied_coins_either() -> None:
    meter = AuditMeter(0.2, 0.1, seed=0)
    meter.observe(1, 0.5, drawn=False)
    with pytest.raises(NotPossible, match="its coin did not choose it"):
        meter.answer(1, True)


def test_there_is_a_limit_to_what_is_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    # That of the 63 bits: so many of the heaviest fit.
    heaviest = max(max(part) for part in kernel.weights(0.5, 0.5 + 2**-53))
    assert heaviest * kernel.MAX_VARIED < 2**63
    monkeypatch.setattr(audits, "MAX_VARIED", 2)
    meter = AuditMeter(0.5, 0.1, seed=0)
    for id in (1, 2):
        meter.observe(id, 1.0)
    with pytest.raises(LimitReached, match="2 audits at another coin"):
        meter.observe(3, 1.0)
    meter.observe(3, drawn=True)
    meter.answer(1, True)
    meter.observe(4, 1.0)
    assert meter.steps == 4


def test_bounds_at_a_tally_are_those_that_held() -> None:
    meter = AuditMeter(0.1, 0.1, seed=3)
    kept = []
    for id in range(600):
        meter.observe(id, None if id < 200 else (0.1, 0.5, 1.0)[id % 3])
        if len(meter.pending) > 3:
            meter.answer(meter.pending[0], int(meter.pending[0]) % 6 > 0)
        kept.append((meter.tally, meter.bounds()))
    plainer = False
    for n, (tally, held) in enumerate(kept, start=1):
        assert meter.bounds_at(tally) == held
        # Without what it says of other coins: as it was before there were any, then wider.
        lower, upper = meter.bounds_at(Tally(*tally.counts))
        assert lower <= held.lower and upper >= held.upper
        assert n > 200 or (lower, upper) == held
        plainer |= lower < held.lower and upper > held.upper
    assert plainer and kept[199][0].coins is None and kept[200][0].coins is not None


def test_each_block_with_varied_coins_has_a_meter_of_its_own() -> None:
    meter = AuditMeter(0.3, 0.1, windows=(Window(50, 0.2),), seed=0)
    blocks = [AuditMeter(0.3, Window(50, 0.2).delta_of(b), seed=0) for b in (1, 2, 3)]
    for id in range(130):
        coin = (0.3, 0.6, 0.9)[id % 3]
        meter.observe(id, coin)
        blocks[id // 50].observe(id, coin)
    for id in map(int, meter.pending[::-2]):
        meter.answer(id, id % 3 > 0)
        blocks[id // 50].answer(id, id % 3 > 0)
    for b, block in enumerate(blocks, start=1):
        assert meter.bounds(0, b) == block.bounds() == meter.copy().bounds(0, b)


def test_alarms_with_varied_coins_are_those_of_all_blocks_looked_at_one_by_one() -> None:
    rng = np.random.default_rng(3)
    meter = AuditMeter(0.2, 0.05, seed=9, windows=(Window(50, 0.1),))
    for step in range(1, 2_001):
        if meter.observe(step, 1.0 if step % 3 else 0.2):
            meter.answer(step, bool(rng.random() > (0.05 if step < 1_000 else 0.6)))
    for level in (0.0, 0.1, 0.3, 0.9):
        each = [meter.standing(level, 0, b) for b in range(1, 41)]
        assert meter.alarms(level) == [one for one in each if one.state == "alarm"]
    assert meter.alarms(0.1) and not meter.alarms(0.9)


@pytest.mark.parametrize("low", [0.2, 0.5])
def test_what_was_to_be_expected_is_bounded_at_coins_that_depend_on_the_action(low: float) -> None:
    # The agent violates by chance, and knows when it does: its coin is low just then. Wrong with
    # probability delta at most, so this fails with 1e-6; the bound on what happened is wrong of Σp
    # far more often.
    n, delta = 300, 0.2
    rng = np.random.default_rng(5)
    wrong = happened_wrong = 0
    for seed in range(n):
        meter, total = AuditMeter(low, delta, seed=seed), 0.0
        found, once, happened_once = 0, False, False
        violates: dict[Any, bool] = {}
        for id, u in enumerate(rng.random(150).tolist()):
            p = 0.15 if found < 3 else 0.02
            total += p
            violates[id] = u < p
            meter.observe(id, (low if id % 2 else (low + 1.0) / 2.0) if u < p else 1.0)
            for late in meter.pending[:-2]:
                meter.answer(late, not violates[late])
                found += violates[late]
            once |= total > meter.expected()
            happened_once |= total > meter.bounds().upper
        wrong += once
        happened_wrong += happened_once
    assert wrong <= binom.isf(1e-6, n, delta)
    assert happened_wrong > 3 * wrong


@given(VARIED, VARIED)
def test_a_saved_meter_with_varied_coins_goes_on_with_the_same_bits(
    story: list[tuple[str, int]], rest: list[tuple[str, int]]
) -> None:
    meter = AuditMeter(0.2, 0.1, seed=9, windows=WINDOWS)
    told_varied(story, meter)
    back = AuditMeter.from_state(meter.to_state())
    assert same(meter, back) and meter.tally == back.tally
    assert told_varied(rest, meter, 500) == told_varied(rest, back, 500)
    assert same(meter, back) and meter.bounds() == back.bounds()
    assert meter.expected() == back.expected()


def _varied() -> AuditMeter:
    meter = AuditMeter(0.5, 0.1, windows=(Window(10, 0.1),), seed=0)
    for id in range(45):
        if meter.observe(id, (0.5, 0.7, 1.0)[id % 3]) and id % 4:
            meter.answer(id, id % 5 > 0)
    meter.observe("told", drawn=True)
    return meter


VARIED_DAMAGE: dict[str, Any] = {
    "none alike": ("alike", lambda a: None),
    "alike for too long": ("alike", lambda a: a + 99),
    "alike before all": ("alike", lambda a: a - 99),
    "no sums": ("coins", lambda a: None),
    "sums of none": ("coins", lambda a: a * 0),
    "fewer sums": ("coins", lambda a: a[:-1]),
    "one more found": ("coins", lambda a: a + np.eye(34, dtype=np.int64)[0]),
    "one more waits": ("coins", lambda a: a + np.eye(34, dtype=np.int64)[1]),
    "a unit more": ("coins", lambda a: a + np.eye(34, dtype=np.int64)[20]),
    "floats": ("coins", lambda a: a.astype(float)),
    "a coin too low": ("pending_coins", lambda a: np.where(a < 1, 0.4, a)),
    "another coin": ("pending_coins", lambda a: np.where(a < 1, 0.71, a)),
    "no coin": ("pending_coins", lambda a: a * np.nan),
    "a coin less": ("pending_coins", lambda a: a[:-1]),
    "told by nobody": ("pending_told", lambda a: a + 2),
    "not told": ("pending_told", lambda a: None),
    "another block": ("coins0", lambda a: a + np.eye(1, 35, dtype=np.int64)),
    "a block that is not": ("coins0", lambda a: a + 99 * np.eye(1, 35, dtype=np.int64)),
    "a block less": ("coins0", lambda a: a[1:]),
    "a shorter block": ("coins0", lambda a: a[:, :-1]),
}


@pytest.mark.parametrize("what", VARIED_DAMAGE)
def test_a_damaged_state_with_varied_coins_is_refused(what: str) -> None:
    name, change = VARIED_DAMAGE[what]
    state = _varied().to_state()
    assert AuditMeter.from_state(dict(state)).bounds() == _varied().bounds()
    changed = change(state.pop(name))
    if changed is not None:
        state[name] = changed
    with pytest.raises(CorruptState, match="AuditMeter"):
        AuditMeter.from_state(state)


# For life, and on disk


def test_q_and_delta_are_for_life() -> None:
    meter = AuditMeter(0.2, 0.1, seed=3)
    for change in ({"q": 0.3}, {"delta": 0.2}):
        name, value = next(iter(change.items()))
        with pytest.raises(NotPossible, match=f"The {name} of this meter is"):
            setattr(meter, name, value)
        with pytest.raises(NotPossible, match=f"The {name} of this meter is"):
            AuditMeter.from_state(meter.to_state(), **change)
    assert AuditMeter.from_state(meter.to_state(), q=0.2, delta=0.1).q == 0.2
    assert (meter.q, meter.delta, meter.seed, meter.windows) == (0.2, 0.1, 3, ())


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"q": 0.0}, "q"),
        ({"q": 1.1}, "q"),
        ({"q": math.nan}, "q"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"seed": -1}, "seed"),
        ({"windows": 5}, "windows"),
        ({"windows": [(10, 0.1)]}, "windows"),
        ({"windows": [Window(10, 0.1)] * 17}, "windows"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidValue, match=f"'{named}' parameter of AuditMeter"):
        AuditMeter(**{"q": 0.5, "delta": 0.1, "seed": 0, **settings})


@given(STORIES, STORIES)
def test_a_saved_meter_goes_on_with_the_same_bits(
    story: list[tuple[str, int]], rest: list[tuple[str, int]]
) -> None:
    meter = AuditMeter(0.4, 0.1, seed=9, windows=WINDOWS)
    told(story, meter)
    back, twin = AuditMeter.from_state(meter.to_state()), meter.copy()
    assert same(meter, back)
    assert told(rest, meter, 500) == told(rest, back, 500)
    assert same(meter, back) and meter.bounds() == back.bounds()
    assert twin.steps == sum(verb != "answer" for verb, _ in story)


def _living() -> AuditMeter:
    meter = AuditMeter(0.5, 0.1, windows=(Window(10, 0.1),), seed=0)
    for id in range(25):
        if meter.observe(id) and id % 2:
            meter.answer(id, id % 3 > 0)
    meter.observe("a\0")
    meter.abstained("b")
    return meter


def test_names_survive_as_they_are() -> None:
    meter = AuditMeter(1.0, 0.1, seed=0)
    meter.observe("a\0")
    assert meter.copy().pending == ["a\0"]


DAMAGE: dict[str, Any] = {
    "another q": ("coin", lambda a: np.array([0.01, 0.1])),
    "no q": ("coin", lambda a: a[:1]),
    "a wild q": ("coin", lambda a: a * 9),
    "fewer steps": ("steps", lambda a: a - 1),
    "fractions of steps": ("steps", lambda a: a + 0.5),
    "more actions": ("total", lambda a: a + np.array([5, 0, 0, 0])),
    "more found": ("total", lambda a: a + np.array([0, 1, 0, 0])),
    "less than nothing": ("total", lambda a: a - [0, 99, 0, 0]),
    "a tally too short": ("total", lambda a: a[:3] - a[:3]),
    "none pending": ("pending", lambda a: np.frombuffer(b"[]", np.uint8)),
    "no JSON": ("pending", lambda a: np.frombuffer(b"[1", np.uint8)),
    "pending of no step": ("pending_steps", lambda a: a + 99),
    "two of one step": ("pending_steps", lambda a: a * 0),
    "ranges that overlap": ("numbers", lambda a: np.array([[0, 4], [5, 24]])),
    "fractions of numbers": ("numbers", lambda a: a.astype(float)),
    "other numbers met": ("numbers", lambda a: a + 1_000_000),
    "other names met": ("names", lambda a: a[:1]),
    "another block": ("blocks0", lambda a: a[::-1].copy()),
    "a block less": ("blocks0", lambda a: a[:-1]),
    "other lengths": ("lengths", lambda a: a + 1),
    "no lengths": ("lengths", lambda a: a[:0]),
    "an array more": ("more", lambda a: np.zeros(1, np.int64)),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_state_is_refused(what: str) -> None:
    name, change = DAMAGE[what]
    state = _living().to_state()
    state[name] = change(state.get(name))
    with pytest.raises(CorruptState, match="AuditMeter"):
        AuditMeter.from_state(state)


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(CorruptState, match="named arrays"):
        AuditMeter.from_state([1])
    for name in _living().to_state():
        state = _living().to_state()
        del state[name]
        with pytest.raises(CorruptState, match=name):
            AuditMeter.from_state(state)


def test_alarms_are_those_of_all_blocks_looked_at_one_by_one():
    rng = np.random.default_rng(3)
    meter = AuditMeter(0.5, 0.05, seed=9, windows=[Window(20, 0.1), Window(50, 0.05)])
    for step in range(1, 2_001):
        if meter.observe(step):
            meter.answer(step, bool(rng.random() > (0.05 if step < 1_000 else 0.6)))
    for level in (0.0, 0.01, 0.1, 0.3, 0.9):
        blocks = [(w, b) for w, length in ((0, 20), (1, 50)) for b in range(1, 2_000 // length + 1)]
        each = [meter.standing(level, w, b) for w, b in blocks]
        assert meter.alarms(level) == [one for one in each if one.state == "alarm"]
    assert meter.alarms(0.1) and not meter.alarms(0.9)

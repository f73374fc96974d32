"""The mixture: one probability and one bar, weighed by evidence, with room for exceptions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.limits import BoundLimits, LogisticLimits, MixtureLimits, PooledLimits, RuleLimits
from bridle.limits.base import Beliefs
from bridle.limits.mixture import (
    DEVIATION,
    EXACT,
    EXCEPTIONS,
    FLOOR,
    PRIOR,
    MixturePredictions,
)
from tests.conftest import size

ALL = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
NAN = math.nan
# Where features are numbers: a word, a number with a range and one without.
NUMBERS: dict[str, Any] = {"thresholds": [0.5, NAN, NAN], "unbounded": [2]}
KINDS: dict[str, dict[str, Any]] = {
    "words": {},
    "numbers": NUMBERS,
    "no words": {"thresholds": [NAN] * 3},
    "no ranges": {"thresholds": [0.5, NAN, NAN], "unbounded": [1, 2]},
    "errs": {"error": 0.1},
    "error unknown": {"error": None},
    "known": {"known": {0: {0: True}, 1: {(1, 2): True, 1: False}}},
}


def limits_of(**options: Any) -> MixtureLimits:
    return MixtureLimits(**({"arms": 3, "features": 3, "groups": ["a", None, "a"]} | options))


def bits(limits: MixtureLimits) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in limits.to_state().items()}


def answers(seed: int, n: int, numbers: bool = False):
    """Answers of a teacher who denies features 0 and 1 together; one in 20 is another."""
    rng = np.random.default_rng(seed)
    C = rng.random((n, 3)) if numbers else (rng.random((n, 3)) < 0.5).astype(float)
    allowed = (C[:, :2] > 0.5).sum(axis=1) < 2
    return C, rng.integers(0, 3, n), allowed ^ (rng.random(n) < 0.05), rng.integers(0, 2**62, n)


def teach(limits, told):
    for c, k, allowed, key in zip(*told, strict=True):
        limits.learn(c, int(k), bool(allowed), int(key))
    return limits


def same_look(one, other):
    for name in ("p", "safe", "possible", "information", "sd"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


def test_it_keeps_the_protocol() -> None:
    limits = limits_of()
    assert isinstance(limits, Beliefs) and limits.members
    assert (limits.arms, limits.features, limits.units) == (3, 3, 2)
    assert limits.unit_of.tolist() == [0, 1, 0] and limits.groups == ("a", None, "a")
    total = math.fsum(PRIOR.values())
    prior = {name: weight / total for name, weight in PRIOR.items()}
    assert limits.weights() == pytest.approx(prior) == limits.weights(0)
    assert limits.learn(np.ones(3), 0, True).tolist() == [0, 1]
    assert limits.left_out == () and limits.doubt == 0.01


def test_evidence_and_weights_are_those_of_the_formula() -> None:
    """SPEC 11.2 in plain numpy, with members that learn on their own."""
    limits = limits_of()
    alike: dict[str, Any] = {"arms": 3, "features": 3, "groups": ["a", None, "a"]}
    alone: dict[str, Any] = {
        "singles": RuleLimits(**alike),
        "pairs": RuleLimits(**alike, pairs=True),
        "logistic": LogisticLimits(**alike),
        "pooled": PooledLimits(**alike),
    }
    names = ["allowed", *alone]
    assert list(limits.members) == names
    evidence = np.zeros((2, 5))
    none, some, odds = np.zeros((3, 2, 5))
    rare, (a, b) = FLOOR, EXCEPTIONS

    def rates() -> Any:
        out = np.zeros((2, 5))
        for m in range(3):
            chance = (1 - EXACT) / EXACT * math.exp(odds[:, m].sum())
            chance /= 1 + chance
            own = (a + some[:, m]) / (a + b + none[:, m] + some[:, m])
            out[:, m] = chance * own + (1 - chance) * rare
        return out

    C, arms, said, keys = answers(1, size(25, 8))
    C[:, 2] = 1.0  # something in each
    for c, k, allowed, key in zip(C, arms.tolist(), said.tolist(), keys.tolist(), strict=True):
        u = int(limits.unit_of[k])
        Q = [1 - FLOOR]
        Q += [float(alone[name].predictive(u, c[None])[1][0]) for name in ("singles", "pairs")]
        Q += [float(alone[name].predict(u, c[None]).p[0]) for name in ("logistic", "pooled")]
        q = np.clip(Q, FLOOR, 1 - FLOOR)
        foretold = np.clip(q * (1 - rates()[u]), FLOOR, 1 - FLOOR)
        evidence[u] += np.log(foretold if allowed else 1 - foretold)
        for m in range(5):
            rate = (a + some[u, m]) / (a + b + none[u, m] + some[u, m])
            if allowed:
                none[u, m] += 1
                odds[u, m] += math.log((1 - rate) / (1 - rare))
            else:
                odds[u, m] += math.log((1 - q[m] + q[m] * rate) / (1 - q[m] + q[m] * rare))
                some[u, m] += q[m] * rate / (1 - q[m] + q[m] * rate)
        for member in alone.values():
            member.learn(c, k, allowed, key)
        limits.learn(c, k, allowed, key)
    e = np.exp(evidence)
    Z = e @ limits.prior
    mixed = (1 - DEVIATION) * e + DEVIATION * Z[:, None]
    shared = limits.prior * mixed.prod(axis=0)
    shared /= shared.sum()
    s = (1 - DEVIATION) * e / mixed
    r = shared * s + ((1 - s) @ shared)[:, None] * limits.prior * e / Z[:, None]
    assert limits.weights() == pytest.approx(dict(zip(names, shared, strict=True)), rel=1e-6)
    for u in range(2):
        assert list(limits.weights(u).values()) == pytest.approx(r[u], rel=1e-6, abs=1e-12)
        assert list(limits.exceptions(u).values()) == pytest.approx(rates()[u], rel=1e-6)
        held = ALL[ALL.any(axis=1)]
        P = [np.full(len(held), 1 - FLOOR)]
        P += [alone[name].predictive(u, held)[0] for name in ("singles", "pairs")]
        P += [alone[name].predict(u, held).p for name in ("logistic", "pooled")]
        Q = np.clip(np.array(P) * (1 - rates()[u][:, None]), FLOOR, 1 - FLOOR)
        assert limits.predict(u, held).p == pytest.approx(r[u] @ Q, rel=1e-6)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_what_is_kept_up_to_date_is_what_is_looked_at(options) -> None:
    """`predictions`, `predict_all` and `predict` in bits, after each answer and retraction."""
    limits = limits_of(**options)
    C = answers(7, 5, numbers="thresholds" in options)[0]
    C = np.vstack([C, np.zeros(3)])
    kept = limits.predictions(C)
    assert isinstance(kept, MixturePredictions)

    def check() -> None:
        look = limits.predict_all(C)
        same_look(kept.predict(), look)
        for u in range(2):
            one = limits.predict(u, C)
            for name in ("p", "safe", "possible", "information", "sd"):
                assert getattr(one, name).tobytes() == getattr(look, name)[u].tobytes()
        assert look.safe.tolist() == (look.p >= 1.0 - limits.doubt).tolist()
        assert look.possible.tolist() == (look.p >= limits.doubt).tolist()
        assert ((look.p > 0.0) & (look.p < 1.0)).all() and (look.information >= 0.0).all()

    check()
    told = answers(8, size(8, 3), numbers="thresholds" in options)
    for c, k, allowed, key in zip(*told, strict=True):
        limits.learn(c, int(k), bool(allowed), int(key))
        check()
    limits.refit(0, told[0][:2], told[2][:2], told[3][:2])
    check()
    predicted = limits.predict_answer(1, C)
    assert ((predicted > 0.0) & (predicted < 1.0)).all()


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_a_restart_and_a_copy_have_the_bits_of_none(options) -> None:
    first, second = (answers(s, size(8, 3), numbers="thresholds" in options) for s in (3, 4))
    whole = teach(limits_of(**options), first)
    read, twin = MixtureLimits.from_state(whole.to_state()), whole.copy()
    assert bits(read) == bits(whole) == bits(twin)
    teach(whole, second)
    assert bits(twin) == bits(read) != bits(whole)  # they learn apart
    for other in (read, twin):
        teach(other, second)
        assert bits(other) == bits(whole)
        same_look(other.predict_all(ALL), whole.predict_all(ALL))
        other.grow(2, ["a", "new"])
    whole.grow(2, ["a", "new"])
    assert bits(read) == bits(whole) and whole.unit_of.tolist() == [0, 1, 0, 0, 2]
    assert whole.weights(2) != whole.weights(0)


@pytest.mark.parametrize("options", [{}, NUMBERS, {"error": None}], ids=["words", "numbers", "?"])
def test_relearning_leaves_the_belief_of_what_stands(options) -> None:
    """In bits: all of it where there is one unit; with several, each member and each unit's own
    tallies. What pooled limits gave to answers of other units before stays in their evidence."""
    C, arms, said, keys = answers(5, size(12, 5), numbers=bool(options.get("thresholds")))
    stand = np.arange(len(C)) % 3 > 0
    for groups in (["x"] * 3, ["a", None, "a"]):
        limits = teach(limits_of(groups=groups, **options), (C, arms, said, keys))
        mine = limits.unit_of[arms] == 0
        limits.refit(0, C[mine & stand], said[mine & stand], keys[mine & stand])
        left = ~mine | stand
        never = teach(
            limits_of(groups=groups, **options), [part[left] for part in (C, arms, said, keys)]
        )
        one, other = bits(limits), bits(never)
        members = {name for name in one if "/" in name}
        assert {n: one[n] for n in members} == {n: other[n] for n in members}
        assert limits.to_state()["allowed"].tolist() == never.to_state()["allowed"].tolist()
        if limits.units == 1:
            same = one.keys() - {"counts", "surprises"}  # answers are counted again
            assert {n: one[n] for n in same} == {n: other[n] for n in same}
            same_look(limits.predict_all(C), never.predict_all(C))


def test_known_terms_bind_the_rules_and_can_be_replaced() -> None:
    limits = limits_of(known={0: {0: True, (1, 2): True}})
    look = limits.members["pairs"].predict(0, ALL)
    assert look.p[ALL[:, 0] == 1.0].tolist() == [0.0] * 4
    told = answers(2, 6)
    teach(limits, told)
    limits.set_known(0, {})
    assert limits.members["pairs"].predict(0, [[1.0, 0.0, 0.0]]).p[0] > 0.0
    before = bits(limits)
    bad: Any
    for bad in ({9: True}, {(0, 9): True}, [0]):
        with pytest.raises(InvalidValue):
            limits.set_known(0, bad)
    assert bits(limits) == before
    assert limits.to_state()["evidence"][0].tolist() == [0.0] * 5


def test_what_holds_nothing_must_have_been_allowed_once() -> None:
    limits = limits_of()
    empty = np.zeros((1, 3))
    assert limits.predict(1, empty).p[0] < 0.6
    for n in range(3):
        limits.learn([0.0, 0.0, 1.0], 1, True, n)
    assert limits.predict(1, empty).p[0] > 0.9 and limits.predict(0, empty).p[0] < 0.6


def test_the_kind_that_fits_wins_and_one_exception_is_not_forgotten() -> None:
    rng = np.random.default_rng(6)
    limits = limits_of()
    for n in range(80):
        c = (rng.random(3) < 0.5).astype(float)
        limits.learn(c, int(rng.integers(3)), bool(c[:2].sum() < 2), n)
    assert limits.weights()["pairs"] > 0.5 and limits.surprised == 0
    truth = (ALL[:, :2].sum(axis=1) < 2).tolist()
    assert limits.predict(0, ALL).safe.tolist() == truth == limits.predict(1, ALL).safe.tolist()
    before = limits.predict(0, ALL[:2]).p
    for n in range(2):
        limits.learn([0.0, 0.0, 1.0], 0, False, 90 + n)
    assert limits.surprised == 2 and limits.surprises[0].unit == 0
    assert (limits.predict(0, ALL[:2]).p < before).all() and not limits.predict(0, ALL).safe.any()
    assert limits.exceptions(0)["pairs"] > limits.doubt


@pytest.mark.parametrize("error", [0.02, 0.1, None])
def test_a_teacher_who_errs_can_still_be_believed(error) -> None:
    """Else nothing would ever be safe: no answer is surer than 1 − error, but their sum is."""
    limits = limits_of(error=error)
    for n in range(60):
        limits.learn([1.0, 0.0, 0.0], 0, True, n)
    assert limits.predict(0, [[1.0, 0.0, 0.0]]).safe[0]
    assert limits.predict_answer(0, [[1.0, 0.0, 0.0]])[0] <= 1.0 - (error or 0.0)


def test_a_doubt_of_your_own_can_be_reached() -> None:
    limits = limits_of(doubt=0.001)
    for n in range(1500):
        limits.learn([1.0, 0.0, 0.0], n % 2, True, n)
    assert limits.predict(0, [[1.0, 0.0, 0.0]]).safe[0]


def test_members_follow_from_the_features() -> None:
    for name, members, said in (
        ("words", ["allowed", "singles", "pairs", "logistic", "pooled"], 0),
        ("numbers", ["allowed", "singles", "pairs", "logistic", "pooled", "bounds"], 1),
        ("no words", ["allowed", "logistic", "pooled", "bounds"], 1),
        ("no ranges", ["allowed", "singles", "pairs", "logistic", "pooled"], 1),
    ):
        limits = limits_of(**KINDS[name])
        assert list(limits.members) == members and len(limits.left_out) == said
        assert math.fsum(limits.prior) == pytest.approx(1.0)
    assert isinstance(limits_of(**NUMBERS).members["bounds"], BoundLimits)
    unknown = limits_of(**NUMBERS, error=None)
    assert "bounds" not in unknown.members and "declared rate of error" in unknown.left_out[0]


def test_a_rule_is_read_back_and_degrees_are_named() -> None:
    limits = teach(limits_of(), answers(2, 30))
    reading = limits.describe(0, ["x", "y", "z"])
    assert reading is not None and limits.by_degrees(0) in (True, False)
    with pytest.raises(NotPossible, match="no rules among their members"):
        limits_of(thresholds=[NAN] * 3).describe(0, ["x", "y", "z"])
    only = limits_of(prior={"logistic": 1.0, "pooled": 2.0})
    assert only.by_degrees(0) and only.terms is None
    assert only.weights() == pytest.approx({"logistic": 1 / 3, "pooled": 2 / 3})


@pytest.mark.parametrize(
    "bad",
    [
        {"prior": {"nobody": 1.0}},
        {"prior": {"pairs": 0.0}},
        {"doubt": 0.7},
        {"error": 0.9},
        {"arms": 0},
        {"groups": ["a"]},
    ],
    ids=str,
)
def test_bad_values_are_refused(bad) -> None:
    with pytest.raises(InvalidValue):
        limits_of(**bad)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("learn", ([1.0], 0, True)),
        ("learn", ([1.0] * 3, 3, True)),
        ("learn", ([1.0] * 3, 0, 2)),
        ("predict", (2, ALL)),
        ("predict", (0, [[1.0]])),
        ("weights", (2,)),
        ("exceptions", (-1,)),
        ("refit", (0, ALL, [True], [0])),
        ("refit", (0, ALL[:1], [True], [0, 1])),
        ("grow", (1, ["a", "b"])),
        ("predictions", ([[1.0]],)),
    ],
    ids=str,
)
def test_bad_input_is_refused_and_changes_nothing(method, arguments) -> None:
    limits = teach(limits_of(), answers(1, 3))
    before = bits(limits)
    with pytest.raises(InvalidValue):
        getattr(limits, method)(*arguments)
    assert bits(limits) == before


def test_a_damaged_state_is_refused() -> None:
    limits = teach(limits_of(), answers(1, 4))
    good = limits.to_state()
    for name in good:
        if name.endswith(".wrong"):
            continue  # rules of earlier versions kept none: they count anew
        with pytest.raises(CorruptState):
            MixtureLimits.from_state({n: array for n, array in good.items() if n != name})
    damages: list[tuple[str, Any]] = [
        ("evidence", np.zeros((1, 5))),
        ("evidence", np.full((2, 5), NAN)),
        ("tallies", np.full((3, 5, 2), -1.0)),
        ("tallies", np.full((3, 5, 2), math.inf)),
        ("allowed", np.array([-1, 0])),
        ("counts", np.array([-1, 0])),
        ("prior", np.zeros(5)),
        ("doubt", np.array([0.7, 0.001])),
        ("doubt", np.array([0.01, 0.6])),
        ("groups", np.array(["null"] * 3)),
        ("members", np.array(["singles"])),
        ("members", np.array(["nobody"])),
        ("surprises", np.array([[1, 9, 1]])),
        ("surprise", np.array([NAN])),
        ("more", np.zeros(1)),
    ]
    for name, array in damages:
        with pytest.raises(CorruptState):
            MixtureLimits.from_state({**good, name: array})
    nothing: Any
    for nothing in (None, 3, {}):
        with pytest.raises(CorruptState):
            MixtureLimits.from_state(nothing)

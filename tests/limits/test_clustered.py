"""Groups found: the belief held against a sum over all partitions; what is proposed to a person."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.errors import CorruptState, InvalidValue
from bridle.limits.base import Beliefs
from bridle.limits.clustered import FoundGroup, FoundLimits, groups_of, joined
from bridle.limits.rules import Reading, RuleLimits
from tests.conftest import size
from tests.kernels.test_found import crp, partitions

NAMES = ["Comedy", "Drama", "Horror"]


def bits(limits: FoundLimits) -> dict[str, bytes]:
    everything = limits.to_state() | {"p": limits.predict_all(every(limits.features)).p}
    return {name: array.tobytes() for name, array in everything.items()}


def every(d: int):
    """All contexts of d features."""
    return ((np.arange(1 << d)[:, None] >> np.arange(d)) & 1).astype(float)


def answers(seed: int, n: int = 30, K: int = 6, d: int = 3):
    """Even arms deny feature 0, odd ones features 1 and 2."""
    rng = np.random.default_rng(seed)
    C = (rng.random((n, d)) < 0.5).astype(float)
    which = rng.integers(0, K, n)
    denied = np.where(which % 2 == 0, C[:, 0] > 0, C[:, 1:].any(axis=1))
    keys = rng.integers(0, 2**64, n, dtype=np.uint64).tolist()
    return list(zip(C, which.tolist(), (~denied).tolist(), keys, strict=True))


def taught(told, K: int = 6, d: int = 3, **settings) -> FoundLimits:
    limits = FoundLimits(arms=K, features=d, **{"chains": size(20, 3), "others": 4, **settings})
    for answer in told:
        limits.learn(*answer)
    return limits


def test_found_limits_keep_the_protocol() -> None:
    limits = FoundLimits(arms=5, features=4)
    assert isinstance(limits, Beliefs)
    assert (limits.arms, limits.features, limits.units) == (5, 4, 5)
    assert limits.unit_of.tolist() == [0, 1, 2, 3, 4]
    assert limits.learn([1, 0, 0, 0], 4, True).tolist() == [0, 1, 2, 3, 4]
    assert limits.found == 1.0
    assert limits.classes.tolist() == [[-1, -1, -1, -1, 0]] * 60


@given(st.integers(0, 10**6), st.integers(0, 12), st.sampled_from([0.001, 0.1]))
def test_a_single_arm_has_the_exact_belief_of_its_rule(seed, n, error) -> None:
    found = FoundLimits(arms=1, features=3, density=0.2, error=error, doubt=0.01, chains=2)
    exact = RuleLimits(arms=1, features=3, density=0.2, error=error, doubt=0.01)
    for context, _, allowed, key in answers(seed, n, K=1):
        found.learn(context, 0, allowed, key)
        exact.learn(context, 0, allowed, key)
    a, b = found.predict(0, every(3)), exact.predict(0, every(3))
    assert a.p == pytest.approx(b.p, abs=1e-12)
    assert a.information == pytest.approx(b.information, abs=1e-9)
    assert found.predict_answer(0, every(3)) == pytest.approx(
        exact.predict_answer(0, every(3)), abs=1e-12
    )
    assert found.marginals(0) == pytest.approx(exact.marginals(0), abs=1e-12)
    assert found.describe(0, NAMES) == exact.describe(0, NAMES)


def test_the_belief_is_that_of_a_sum_over_all_partitions_and_rules() -> None:
    # 4 arms, one of them without an answer. A chain's belief is in [0, 1] and chains are apart, so
    # a mean over C is off by sqrt(ln(2 / e) / 2C) with probability e (Hoeffding); e = 1e-6 / 16.
    C, K, T, error, density, alpha = size(40_000, 300), 4, 2, 0.1, 0.3, 0.8
    told = [([1, 0], 0, False, 5), ([1, 0], 1, False, 6), ([1, 1], 2, True, 7)]
    told += [([0, 1], 0, True, 8), ([1, 0], 1, True, 9), ([0, 1], 2, False, 10)]
    told += [([0, 0], 0, True, 11), ([0, 0], 1, True, 12), ([0, 0], 2, True, 13)]
    limits = taught(
        told, K, T, chains=C, others=6, error=error, density=density, concentration=alpha
    )
    rules = every(T)
    prior = density ** rules.sum(1) * (1 - density) ** (T - rules.sum(1))
    like = np.ones((K, 1 << T))
    for context, k, allowed, _ in told:
        like[k] *= np.where((rules @ context == 0) == allowed, 1 - error, error)
    p, total = np.zeros((K, 1 << T)), 0.0
    for row in partitions(K):
        parts = {c: prior * np.prod([like[k] for k in range(K) if row[k] == c], 0) for c in row}
        weight = crp(row, alpha) * math.prod(part.sum() for part in parts.values())
        total += weight
        for k, c in enumerate(row):
            p[k] += weight * ((rules @ rules.T == 0) @ parts[c]) / parts[c].sum()
    slack = math.sqrt(math.log(2 * 16 / 1e-6) / (2 * C))
    assert np.abs(limits.predict_all(rules).p - p / total).max() <= slack


@given(st.integers(0, 10**6))
def test_a_look_at_all_is_a_look_at_each(seed) -> None:
    limits = taught(answers(seed, 12))
    C = every(3)
    all_ = limits.predict_all(C)
    for u in range(limits.units):
        one = limits.predict(u, C)
        for name in ("p", "safe", "possible", "information"):
            assert getattr(one, name).tolist() == getattr(all_, name)[u].tolist()
    assert (all_.p >= 0).all() and (all_.p <= 1).all()
    assert (all_.information >= 0).all()
    assert (all_.possible | ~all_.safe).all()
    assert (all_.safe == (all_.p >= 1 - limits.doubt)).all()
    open_ = (all_.p >= limits.dismiss) & (all_.p <= limits.defer)
    assert (all_.possible == (all_.safe | open_)).all()


def test_what_is_nearly_sure_waits_unless_told_otherwise() -> None:
    told = [([1, 0, 0], 0, True, 1), ([0, 1, 0], 0, True, 2)]
    waits, asks = taught(told, doubt=5e-4), taught(told, doubt=5e-4, defer=1.0)
    C = [[1, 1, 0], [0, 0, 1]]
    a, b = waits.predict(0, C), asks.predict(0, C)
    assert a.p.tolist() == b.p.tolist()
    assert 0.95 < a.p[0] < 0.9995 and a.p[1] < 0.7
    assert (a.possible.tolist(), b.possible.tolist()) == ([False, True], [True, True])
    assert not a.safe.any()


def test_what_one_arm_teaches_moves_its_like() -> None:
    limits = taught(answers(1, 60), chains=size(60, 10))
    assert limits.predict(0, every(3)).p.round(1).tolist() == [1, 0, 1, 0, 1, 0, 1, 0]
    before = limits.predict(4, [[0, 1, 1]]).p[0]
    assert before > 0.9
    assert limits.found < 3.5


# The same bits


@settings(max_examples=size(50, 5))
@given(st.integers(0, 10**6), st.data())
def test_relearning_is_the_fold_of_what_stands_in_order(seed, data) -> None:
    told = answers(seed, 15)
    gone = data.draw(st.sets(st.integers(0, 14)))
    stands = [answer for i, answer in enumerate(told) if i not in gone]
    limits = taught(told)
    assert limits.refit_all(iter(stands)).tolist() == list(range(6))
    assert bits(limits) == bits(taught(stands))


def test_keys_and_seeds_are_all_the_chance_there_is() -> None:
    told = answers(2, 20)
    other = [(*answer[:3], answer[3] ^ 1) for answer in told]
    assert bits(taught(told)) == bits(taught(told))
    assert not np.array_equal(taught(told).classes, taught(other).classes)
    assert not np.array_equal(taught(told).classes, taught(told, seed=1).classes)


def test_answers_without_keys_are_not_all_one_draw() -> None:
    limits = FoundLimits(arms=2, features=1, chains=1, others=0, density=0.5, error=0.4)
    limits.learn([0.0], 0, True)
    seen = set()
    for _ in range(60):  # an empty context teaches nothing: two classes, or one, at 1 : 1
        limits.learn([0.0], 1, True)
        seen.add(limits.found)
    assert seen == {1.0, 2.0}  # wrongly with probability 2^-59


def test_grown_limits_are_as_if_the_arms_had_been_there() -> None:
    told = answers(3, 20, K=2)
    few, many = taught(told, 2), taught(told, 5)
    few.grow()
    few.grow(2)
    few.grow(0)
    assert few.arms == 5
    assert bits(few) == bits(many)
    late = ([1, 1, 0], 4, False, 9)
    few.learn(*late)
    many.learn(*late)
    assert bits(few) == bits(many)


def test_a_new_arm_starts_with_what_most_arms_have_in_common() -> None:
    told = [([1, 0, 0], k, False, k) for k in range(5)] + [
        ([0, 1, 0], k, True, k) for k in range(5)
    ]
    limits = taught(told, 5, chains=20)
    limits.grow()
    p = limits.predict(5, [[1, 0, 0], [0, 1, 0], [0, 0, 1]]).p
    assert p[0] < 0.3 and p[1] > 0.85 and 0.5 < p[2] < 0.8


def test_a_copy_learns_apart() -> None:
    limits = taught(answers(4, 10))
    twin = limits.copy()
    before = bits(limits)
    assert bits(twin) == before
    twin.learn([1, 1, 1], 0, False, 3)
    assert bits(limits) == before
    assert bits(twin) != before


def test_a_restart_has_the_bits_of_none() -> None:
    told = answers(5, 20)
    above = [0.5, 0.2, np.nan]
    whole = taught(told, thresholds=above, seed=2**64 - 1, dismiss=0.2)
    limits = taught(told[:9], thresholds=above, seed=2**64 - 1, dismiss=0.2)
    limits = FoundLimits.from_state(limits.to_state())
    for answer in told[9:]:
        limits.learn(*answer)
    assert bits(limits) == bits(whole)
    fresh = FoundLimits(arms=3, features=3)
    assert bits(FoundLimits.from_state(fresh.to_state())) == bits(fresh)


# The proposal


def test_the_groups_that_are_there_are_proposed_and_accepted() -> None:
    told = answers(6, 150, K=10)
    limits = taught(told, 11, chains=size(60, 6), others=10)
    groups = limits.proposal(NAMES)
    assert sorted(group.arms for group in groups) == [(0, 2, 4, 6, 8), (1, 3, 5, 7, 9)]
    even, odd = sorted(groups, key=lambda group: group.arms)
    assert even.rule == Reading(("Comedy",), (), ("Drama", "Horror"))
    assert str(odd).startswith("These 5 arms seem to share a rule (9")
    assert str(odd).endswith(" % sure): not Drama, not Horror")
    named = [dataclasses.replace(even, name="young"), dataclasses.replace(odd, arms=(1, 3, 5, 7))]
    accepted = groups_of(named, 11)
    assert accepted == ["young", odd.name] * 4 + ["young", None, None]
    rules = RuleLimits(arms=11, features=3, groups=accepted)
    assert rules.units == 4
    assert {group.name for group in groups} == {"found 1", "found 2"}
    assert limits.proposal(threshold=0.0)[0].arms == tuple(range(10))
    assert FoundLimits(arms=2, features=3).proposal(NAMES) == []


def test_joining_is_by_the_mean_over_pairs() -> None:
    same = np.array([[1.0, 0.9, 0.7, 0.0], [0.9, 1, 0.2, 0.0], [0.7, 0.2, 1, 0.1], [0, 0, 0.1, 1]])
    assert joined(same, 0.5) == [[0, 1], [2], [3]]
    assert joined(same, 0.44) == [[0, 1, 2], [3]]
    assert joined(same, 0.95) == [[0], [1], [2], [3]]
    assert joined(same, 0.0) == [[0, 1, 2, 3]]
    assert joined(np.empty((0, 0)), 0.5) == []


READ = Reading((), (), ())
BAD_PROPOSALS = {
    "two homes": [FoundGroup("a", (0, 1), 1.0, READ), FoundGroup("b", (1,), 1.0, READ)],
    "no such arm": [FoundGroup("a", (0, 3), 1.0, READ)],
    "no name": [FoundGroup("", (0,), 1.0, READ)],
    "no group": [(0, 1)],
}


@pytest.mark.parametrize("name", BAD_PROPOSALS)
def test_a_proposal_that_cannot_be_is_refused(name) -> None:
    with pytest.raises(InvalidValue, match="The 'proposal' parameter of groups_of must be"):
        groups_of(BAD_PROPOSALS[name], 3)


# Errors


def test_more_terms_than_can_be_weighed_are_refused_with_a_way_out() -> None:
    with pytest.raises(InvalidValue, match=r"at most 12 features .* Got 13 .* Use RuleLimits"):
        FoundLimits(arms=1, features=13)
    few = FoundLimits(arms=1, features=13, thresholds=[np.nan] * 12 + [0.5])
    assert len(few.terms) == 1


BAD_SETTINGS = [
    {"arms": 0},
    {"arms": 2**24},
    {"features": 0},
    {"density": 0.0},
    {"error": 0.5},
    {"doubt": 0.5},
    {"dismiss": 0.0},
    {"defer": 1.1},
    {"chains": 0},
    {"others": -1},
    {"concentration": 0.0},
    {"seed": -1},
]


@pytest.mark.parametrize("bad", BAD_SETTINGS)
def test_bad_settings_are_refused(bad) -> None:
    with pytest.raises(InvalidValue, match=f"The '{next(iter(bad))}' parameter of"):
        FoundLimits(**{"arms": 1, "features": 1, **bad})


C3 = [1.0, 0.0, 1.0]
BAD_CALLS = {
    "answer": (lambda x: x.learn(C3, 0, "yes"), "'allowed' parameter of FoundLimits.learn"),
    "arm": (lambda x: x.learn(C3, 6, True), "'arm' parameter of"),
    "context": (lambda x: x.learn([1.0], 0, True), "'context' parameter of"),
    "key": (lambda x: x.learn(C3, 0, True, -1), "'key' parameter of"),
    "relearn": (
        lambda x: x.refit_all([(C3, 0, True, 1), (C3, 9, True, 1)]),
        "'arm' parameter of FoundLimits.refit_all",
    ),
    "unit": (lambda x: x.predict(6, [C3]), "'unit' parameter of FoundLimits.predict"),
    "contexts": (lambda x: x.predict_all([1.0]), "'contexts' parameter of FoundLimits.predict_all"),
    "marginals": (lambda x: x.marginals(-1), "'unit' parameter of FoundLimits.marginals"),
    "names": (lambda x: x.proposal(["one"]), "'columns' parameter of"),
    "threshold": (lambda x: x.proposal(NAMES, 1.5), "'threshold' parameter of"),
    "grow": (lambda x: x.grow(-1), "'arms' parameter of FoundLimits.grow"),
    "grow too far": (lambda x: x.grow(2**24), "'arms' parameter of FoundLimits.grow"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_call_says_what_is_wrong_and_changes_nothing(name) -> None:
    call, message = BAD_CALLS[name]
    limits = taught(answers(7, 8))
    before = bits(limits)
    with pytest.raises(InvalidValue) as caught:
        call(limits)
    assert message in str(caught.value)
    assert bits(limits) == before


DAMAGE = {
    "no classes": lambda state: state.pop("classes"),
    "one more": lambda state: state.update(more=np.zeros(1)),
    "three settings": lambda state: state.update(settings=state["settings"][:3]),
    "a setting out of range": lambda state: state["settings"].__setitem__(0, 2.0),
    "a setting that is no number": lambda state: state["settings"].__setitem__(1, np.nan),
    "counts of another size": lambda state: state.update(wrong=state["wrong"][:, :4]),
    "counts of another type": lambda state: state.update(wrong=state["wrong"].astype(float)),
    "counts below 0": lambda state: state["wrong"].__setitem__((0, 0), -1),
    "more wrong than answers": lambda state: state["wrong"].__setitem__((0, 0), 99),
    "a class too far": lambda state: state["classes"].__setitem__((0, 0), 5),
    "an asked arm without class": lambda state: state["classes"].__setitem__((0, 0), -1),
    "a class without answers": lambda state: state["classes"].__setitem__((0, 6), 0),
    "chains of another number": lambda state: state.update(sampling=np.array([7, 4])),
    "no array": lambda state: state.update(answers=None),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_state_is_refused(name) -> None:
    state = taught(answers(8, 40), 7).to_state()
    DAMAGE[name](state)
    with pytest.raises(CorruptState, match=r"^FoundLimits"):
        FoundLimits.from_state(state)


@pytest.mark.parametrize("state", [None, 3, [], "state"])
def test_what_is_no_state_is_refused(state) -> None:
    with pytest.raises(CorruptState):
        FoundLimits.from_state(state)

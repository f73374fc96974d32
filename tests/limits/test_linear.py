"""Limits: the teacher's answers, coded and folded; a retraction is a fold of what stands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import Tables
from bridle.errors import CorruptState, InvalidValue
from bridle.limits import LABEL_CODINGS, Beliefs, Limits, LinearLimits
from bridle.simulate import online_asking, teach_beliefs
from tests import reference


def bits(limits: LinearLimits) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in limits.to_state().items()}


def answers(seed: int, n: int = 40, K: int = 3, d: int = 4):
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    return C, rng.integers(0, K, n), rng.random(n) < 0.5


def taught(seed: int, coding: str = "1/0", n: int = 40, K: int = 3, d: int = 4) -> LinearLimits:
    limits = LinearLimits(arms=K, features=d, label_coding=coding)
    for c, k, allowed in zip(*answers(seed, n, K, d), strict=True):
        limits.learn(c, k, allowed)
    return limits


class Broken:
    """Has all but one of the methods."""

    arms = features = 1

    def learn(self): ...
    def refit(self): ...
    def scores(self): ...
    def scores_many(self): ...
    def grow(self): ...


def test_linear_limits_keep_the_protocol() -> None:
    limits = LinearLimits(arms=3, features=4)
    assert isinstance(limits, Limits)
    assert (limits.arms, limits.features) == (3, 4)
    assert not isinstance(Broken(), Limits)
    assert not isinstance(object(), Limits)


def test_the_codings_are_the_specifications() -> None:
    assert LABEL_CODINGS == reference.LABELS
    assert LinearLimits(arms=1, features=1).label_coding == "1/0"


@pytest.mark.parametrize("coding", LABEL_CODINGS)
def test_each_coding_folds_its_two_numbers(coding) -> None:
    high, low = LABEL_CODINGS[coding]
    limits = LinearLimits(arms=3, features=1, label_coding=coding)
    limits.learn([1.0], 0, True)
    limits.learn([1.0], 1, False)
    mean, sd = limits.scores([1.0])
    assert mean.tolist() == [high / 2.0, low / 2.0, 0.0]
    assert sd == pytest.approx([np.sqrt(0.5), np.sqrt(0.5), 1.0], rel=1e-15)
    assert limits.code([True, False, 1, 0]).tolist() == [high, low, high, low]


@pytest.mark.parametrize("coding", LABEL_CODINGS)
@pytest.mark.parametrize("ridge", [0.5, 1.0])
def test_the_belief_is_the_references(coding, ridge) -> None:
    limits = LinearLimits(arms=3, features=4, ridge=ridge, label_coding=coding)
    plain = reference.Arms(3, 4, ridge)
    C, which, allowed = answers(1)
    for c, k, answer in zip(C, which, allowed, strict=True):
        limits.learn(c, int(k), bool(answer))
        plain.update(c, int(k), reference.LABELS[coding][0 if answer else 1])
    for c in C:
        mean, sd = limits.scores(c)
        assert mean == pytest.approx(plain.means(c), abs=1e-9)
        assert sd == pytest.approx(plain.spreads(c), abs=1e-9)
    means, sds = limits.scores_many(C)
    each = [limits.scores(c) for c in C]
    assert means.tolist() == [mean.tolist() for mean, _ in each]
    assert sds.tolist() == [sd.tolist() for _, sd in each]


@given(st.integers(0, 10**6), st.sampled_from(sorted(LABEL_CODINGS)), st.data())
def test_relearning_is_the_fold_of_what_stands_in_order(seed, coding, data) -> None:
    C, which, allowed = answers(seed, n=data.draw(st.integers(1, 30)))
    gone = data.draw(st.sets(st.integers(0, len(C) - 1)))
    arm = data.draw(st.integers(0, 2))
    limits = LinearLimits(arms=3, features=4, label_coding=coding)
    without = LinearLimits(arms=3, features=4, label_coding=coding)
    for i, (c, k, answer) in enumerate(zip(C, which, allowed, strict=True)):
        limits.learn(c, k, answer)
        if k != arm or i not in gone:
            without.learn(c, k, answer)
    stands = [i for i in range(len(C)) if which[i] == arm and i not in gone]
    limits.refit(arm, C[stands], allowed[stands])
    assert bits(limits) == bits(without)


def test_relearning_nothing_forgets_the_arm() -> None:
    limits = taught(2)
    limits.refit(1, np.empty((0, 4)), [])
    fresh = LinearLimits(arms=3, features=4)
    for name, array in limits.linear.to_state().items():
        if name != "ridge":
            assert array[1].tolist() == fresh.linear.to_state()[name][1].tolist()


def test_grown_limits_are_as_if_the_arms_had_been_there() -> None:
    few, many = taught(3, K=2), LinearLimits(arms=5, features=4)
    for c, k, answer in zip(*answers(3, K=2), strict=True):
        many.learn(c, k, answer)
    few.grow()
    few.grow(2)
    assert few.arms == 5
    assert bits(few) == bits(many)


def test_a_copy_learns_apart() -> None:
    limits = taught(4, "0/-1")
    twin = limits.copy()
    before = bits(limits)
    assert bits(twin) == before
    twin.learn(np.ones(4), 0, False)
    assert bits(limits) == before
    assert bits(twin) != before


@pytest.mark.parametrize("coding", LABEL_CODINGS)
def test_a_restart_has_the_bits_of_none(coding) -> None:
    C, which, allowed = answers(5)
    whole = taught(5, coding)
    limits = LinearLimits(arms=3, features=4, label_coding=coding)
    for i, (c, k, answer) in enumerate(zip(C, which, allowed, strict=True)):
        if i == 17:
            limits = LinearLimits.from_state(limits.to_state())
            assert limits.label_coding == coding
        limits.learn(c, k, answer)
    assert bits(limits) == bits(whole)


# As beliefs


@pytest.mark.parametrize("coding", LABEL_CODINGS)
def test_the_label_is_the_probability_on_a_scale_from_denied_to_allowed(coding) -> None:
    limits = taught(8, coding)
    C = answers(9)[0]
    assert isinstance(limits, Beliefs)
    assert (limits.units, limits.unit_of.tolist()) == (3, [0, 1, 2])
    high, low = LABEL_CODINGS[coding]
    means, sds = limits.scores_many(C)
    for k in range(3):
        look = limits.predict(k, C)
        p, sd = (means[:, k] - low) / (high - low), sds[:, k] / (high - low)
        assert look.p == pytest.approx(np.clip(p, 0.0, 1.0), abs=1e-12)
        assert look.sd == pytest.approx(sd, abs=1e-12)
        assert look.safe.tolist() == (p - sd >= 0.5).tolist()
        assert look.possible.tolist() == (p + sd >= 0.5).tolist()
        assert look.information == pytest.approx(0.5 * np.log(1.0 + sds[:, k] ** 2), abs=1e-12)


def test_they_are_taught_and_ask_like_other_beliefs() -> None:
    tables = Tables(np.eye(2), np.array([[0.9, 0.2], [0.8, 0.3]]), np.array([[0, 1], [1, 1]]))
    start = LinearLimits(arms=2, features=2)
    for questions in ("arm", "pool"):
        lesson = teach_beliefs(tables, beliefs=start, examples=60, questions=questions)
        safe = lesson.beliefs[60].predict_all(tables.contexts).safe
        assert safe.T.tolist() == tables.allowed.astype(bool).tolist()
    run = online_asking(tables, beliefs=start, steps=300, seed=1)
    # An answer counts as exact: four cases, each asked about once at most.
    assert run.E[-1] == 0 and 1 <= len(run.said) <= 4


# Errors


@pytest.mark.parametrize("coding", ["0/1", "", None, 1, "1/0 "])
def test_other_codings_are_refused(coding) -> None:
    with pytest.raises(InvalidValue) as caught:
        LinearLimits(arms=1, features=1, label_coding=coding)
    assert str(caught.value).startswith(
        "The 'label_coding' parameter of LinearLimits must be one of '1/0', '1/-1', '0/-1'. Got "
    )


@pytest.mark.parametrize("bad", [{"arms": 0}, {"features": -1}, {"ridge": 0.0}])
def test_bad_sizes_are_refused(bad) -> None:
    with pytest.raises(InvalidValue, match=f"The '{next(iter(bad))}' parameter of LinearArms"):
        LinearLimits(**{"arms": 1, "features": 1, **bad})


C4 = [1.0, 2.0, 3.0, 4.0]
BAD_CALLS = {
    "answer": (
        lambda x: x.learn(C4, 0, "yes"),
        "'allowed' parameter of LinearLimits.learn must be",
    ),
    "no answer": (lambda x: x.learn(C4, 0, None), "True or False (or 1 or 0). Got None instead."),
    "answer 2": (lambda x: x.learn(C4, 0, 2), "Got 2 instead."),
    "arm": (lambda x: x.learn(C4, 3, True), "'arm' parameter of"),
    "context": (lambda x: x.learn([1.0], 0, True), "'context' parameter of"),
    "relearn arm": (
        lambda x: x.refit(3, [C4], [True]),
        "'unit' parameter of LinearLimits.refit",
    ),
    "relearn contexts": (
        lambda x: x.refit(0, [[1.0]], [True]),
        "'contexts' parameter of LinearLi",
    ),
    "relearn answers": (lambda x: x.refit(0, [C4], [True, False]), "1 times True or False"),
    "relearn halves": (
        lambda x: x.refit(0, [C4], [0.5]),
        "'allowed' parameter of LinearLimits.re",
    ),
    "scores": (lambda x: x.scores([1.0]), "'context' parameter"),
    "scores_many": (lambda x: x.scores_many([1.0]), "'contexts' parameter"),
    "grow": (lambda x: x.grow(-1), "'arms' parameter"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_call_says_what_is_wrong_and_changes_nothing(name) -> None:
    call, message = BAD_CALLS[name]
    limits = taught(6)
    before = bits(limits)
    with pytest.raises(InvalidValue) as caught:
        call(limits)
    assert message in str(caught.value)
    assert bits(limits) == before


DAMAGE = {
    "no coding": lambda state: state.pop("coding"),
    "unknown coding": lambda state: state.update(coding=np.array([2.0, 0.0])),
    "coding of three": lambda state: state.update(coding=np.array([1.0, 0.0, 0.0])),
    "no mean": lambda state: state.pop("mu"),
    "inverse of another size": lambda state: state.update(A=state["A"][:2]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_state_is_refused(name) -> None:
    state = taught(7).to_state()
    DAMAGE[name](state)
    with pytest.raises(CorruptState, match=r"^Linear(Limits|Arms)"):
        LinearLimits.from_state(state)


@pytest.mark.parametrize("state", [None, 3, [], "state"])
def test_what_is_no_state_is_refused(state) -> None:
    with pytest.raises(CorruptState):
        LinearLimits.from_state(state)

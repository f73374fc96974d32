"""What all kinds of limits have in common: a look at all units, growth, states that last."""

from __future__ import annotations

import io

import numpy as np
import pytest

from bridle.errors import BridleError, CorruptState, InvalidValue
from bridle.limits import KINDS, FoundLimits, LinearLimits, limits_from_state, make_limits
from bridle.limits.base import Beliefs
from bridle.schema import Flag, Schema

NAMES = ("p", "safe", "possible", "information", "sd")
SCHEMA = Schema([Flag(f"f{i}") for i in range(6)])
GROUPS = ["a", None, "a", None, "b", None]
# What a state of "auto" is called: in states "auto" is that of the first form.
STATE = {"auto": "mixture"}
CASES = {
    "auto": ("auto", {}),
    "auto, error estimated": ("auto", {"error": None}),
    "auto, known": ("auto", {"known": {1: {2: True}, 3: {(0, 1): True}}}),
    "rules": ("rules", {}),
    "rules, known": ("rules", {"known": {1: {2: True}, 3: {0: False}}}),
    "rules with pairs": ("rules", {"crosses": True, "error": None}),
    "logistic": ("logistic", {}),
    "logistic with crosses": ("logistic", {"crosses": True}),
    "found": ("found", {}),
    "linear": ("linear", {}),
    "linear 1/-1": ("linear", {"label_coding": "1/-1"}),
}
# The dtypes that a snapshot can hold, beside words.
SAVED = {"f8", "i8", "u8", "i4", "i1", "u1", "b1"}


def answers(seed: int, n: int = 24, arms: int = 4):
    """Answers about the first arms only: the others stay untaught."""
    rng = np.random.default_rng(seed)
    C = (rng.random((n, 6)) < 0.5).astype(float)
    return C, rng.integers(0, arms, n), C[:, 0] < 1.0, rng.integers(0, 2**63, n)


def make(case: str):
    kind, settings = CASES[case]
    return make_limits(kind, schema=SCHEMA, groups=GROUPS, seed=3, **settings)


def taught(case: str, seed: int = 1):
    limits = make(case)
    for c, k, allowed, key in zip(*answers(seed), strict=True):
        limits.learn(c, int(k), bool(allowed), int(key))
    return limits


def bits(limits: Beliefs) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in limits.to_state().items()}


def test_every_kind_is_tried() -> None:
    assert {kind for kind, _ in CASES.values()} == set(KINDS)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("learn", [False, True])
def test_a_look_at_all_units_has_the_bits_of_one_look_each(case, learn) -> None:
    limits = taught(case) if learn else make(case)
    rng = np.random.default_rng(2)
    C = (rng.random((9, 6)) < 0.5).astype(float)
    for contexts in (C, C[:1], C[:0]):
        every = limits.predict_all(contexts)
        for name in NAMES:
            array = getattr(every, name)
            assert array.shape == (limits.units, len(contexts))
            for u in range(limits.units):
                one = getattr(limits.predict(u, contexts), name)
                assert one.dtype == array.dtype
                assert array[u].tobytes() == one.tobytes(), (name, u)


@pytest.mark.parametrize("case", CASES)
def test_a_look_is_sound(case) -> None:
    limits = taught(case)
    rng = np.random.default_rng(2)
    look = limits.predict_all((rng.random((9, 6)) < 0.5).astype(float))
    assert ((look.p >= 0.0) & (look.p <= 1.0)).all()
    assert (look.possible | ~look.safe).all()
    assert (look.information >= 0.0).all() and (look.sd >= 0.0).all()
    if not isinstance(limits, LinearLimits):  # a normal belief may be wider than [0, 1] is
        assert (look.sd <= np.sqrt(look.p * (1.0 - look.p)) + 1e-9).all()


@pytest.mark.parametrize("case", CASES)
def test_bad_contexts_and_units_are_refused(case) -> None:
    limits = make(case)
    for bad in ([1.0] * 6, [[1.0] * 5], [[np.nan] * 6], "x"):
        with pytest.raises(InvalidValue, match="'contexts' parameter of"):
            limits.predict_all(bad)
    with pytest.raises(InvalidValue, match="'unit' parameter of"):
        limits.predict(limits.units, np.zeros((1, 6)))


@pytest.mark.parametrize("case", CASES)
def test_all_kinds_learn_relearn_and_grow_alike(case) -> None:
    limits = taught(case)
    assert isinstance(limits, Beliefs)
    C, which, allowed, key = answers(4)
    changed = limits.learn(C[0], 0, bool(allowed[0]), int(key[0]))
    assert changed.dtype == np.int64 and int(limits.unit_of[0]) in changed.tolist()
    if not isinstance(limits, FoundLimits):
        units = limits.unit_of
        mine = units[which] == units[1]
        again = limits.refit(int(units[1]), C[mine], allowed[mine], key[mine])
        assert again.dtype == np.int64 and int(units[1]) in again.tolist()
    before, arms = limits.units, limits.arms
    limits.grow(2, ["a", None])
    assert limits.arms == arms + 2 == len(limits.unit_of)
    look = limits.predict_all(C[:2])
    assert look.p.shape == (limits.units, 2)
    alone = isinstance(limits, FoundLimits | LinearLimits)  # every arm is a unit there
    assert limits.units == before + (2 if alone else 1)


@pytest.mark.parametrize("case", CASES)
def test_a_state_goes_through_a_file_and_back(case) -> None:
    limits = taught(case)
    state = limits.to_state()
    for name, array in state.items():
        assert isinstance(array, np.ndarray), name
        assert array.dtype.str[1:] in SAVED or array.dtype.kind == "U", (name, array.dtype)
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    with np.load(file) as read:
        again = limits_from_state(
            STATE.get(CASES[case][0], CASES[case][0]), {name: read[name] for name in read.files}
        )
    assert bits(again) == bits(limits)
    C, which, allowed, key = answers(5)
    for c, k, answer, bit in zip(C, which, allowed, key, strict=True):
        for each in (limits, again):
            each.learn(c, int(k), bool(answer), int(bit))
    assert bits(again) == bits(limits)
    for name in NAMES:
        a, b = (getattr(each.predict_all(C), name).tobytes() for each in (limits, again))
        assert a == b


@pytest.mark.parametrize("case", CASES)
def test_any_array_that_is_damaged_is_refused_or_read_whole(case) -> None:
    """Nothing but bridle's own error, whatever is done to whichever array."""
    kind = CASES[case][0]
    state = taught(case).to_state()
    damage = (
        lambda a: a[None],
        lambda a: a.ravel()[:0],
        lambda a: np.concatenate([a.ravel(), a.ravel()]),
        lambda a: a.astype(np.float32) if a.dtype.kind in "fiub" else np.zeros(a.shape),
        lambda a: np.full_like(a, np.nan) if a.dtype.kind == "f" else a[None, None],
        lambda a: (
            np.full(a.shape, "[" * 10_000)
            if a.dtype.kind == "U"
            else a - 2 * a - 1
            if a.dtype.kind == "i"
            else a[None]
        ),
        lambda a: np.full_like(a, np.iinfo(a.dtype).max) if a.dtype.kind in "iu" else a[None],
    )
    for name, array in state.items():
        for hurt in damage:
            try:
                limits = limits_from_state(STATE.get(kind, kind), {**state, name: hurt(array)})
            except CorruptState:
                continue
            assert isinstance(limits, Beliefs)  # a setting that may be so


HUGE = {
    "found": {"sampling": np.array([100_000, 20])},
    "rules with pairs": {"sampling": np.array([100_000, 3])},
    "auto": {"pairs/sampling": np.array([100_000, 3])},
}


@pytest.mark.parametrize("case", HUGE)
def test_more_than_a_state_holds_cannot_be_claimed(case) -> None:
    with pytest.raises(CorruptState):
        limits_from_state(
            STATE.get(CASES[case][0], CASES[case][0]), taught(case).to_state() | HUGE[case]
        )


def test_arms_that_are_claimed_and_not_there_are_refused_at_once() -> None:
    state = taught("found").to_state()
    many = np.zeros(200_000, np.int64)
    with pytest.raises(CorruptState, match="'wrong' must be int32"):
        limits_from_state("found", state | {"answers": many})
    with pytest.raises(BridleError):
        limits_from_state("linear", taught("linear").to_state() | {"mu": np.zeros((200_000, 6))})

import numpy as np
import pytest

from bridle.errors import CorruptState, InvalidValue
from bridle.limits import LABEL_CODINGS, Limits, LinearLimits
from tests import reference


def taught(coding: str = "1/0", n: int = 40) -> tuple[LinearLimits, np.ndarray, np.ndarray, list]:
    rng = np.random.default_rng(5)
    limits = LinearLimits(arms=3, features=4, ridge=2.0, label_coding=coding)
    contexts, arms = rng.normal(size=(n, 4)), rng.integers(0, 3, n)
    answers = (rng.random(n) < 0.5).tolist()
    for context, arm, answer in zip(contexts, arms, answers, strict=True):
        limits.learn(context, arm, answer)
    return limits, contexts, arms, answers


def bits(limits: LinearLimits) -> list[bytes]:
    return [array.tobytes() for array in limits.to_state().values()]


def test_linear_limits_are_limits() -> None:
    assert isinstance(LinearLimits(arms=1, features=1), Limits)


@pytest.mark.parametrize("coding", LABEL_CODINGS)
def test_they_are_the_posterior_of_the_coded_labels(coding: str) -> None:
    limits, contexts, arms, answers = taught(coding)
    high, low = LABEL_CODINGS[coding]
    probe = np.array([0.3, -1.0, 0.0, 2.0])
    mean, sd = limits.scores(probe)
    for k in range(3):
        pairs = [
            (c, high if answer else low)
            for c, arm, answer in zip(contexts, arms, answers, strict=True)
            if arm == k
        ]
        B = 2.0 * np.eye(4) + sum(np.outer(c, c) for c, _ in pairs)
        f = sum(c * y for c, y in pairs)
        assert abs(mean[k] - probe @ np.linalg.solve(B, f)) < 1e-9
        assert abs(sd[k] - np.sqrt(probe @ np.linalg.solve(B, probe))) < 1e-9
    many = limits.scores_many(np.array([probe, probe]))
    assert many[0][1].tobytes() == mean.tobytes() and many[1][0].tobytes() == sd.tobytes()
    assert reference.LABELS  # the codings of the reference are these


def test_relearn_is_the_fold_of_what_stands_in_order() -> None:
    limits, contexts, arms, answers = taught()
    stand = [t for t in range(len(arms)) if arms[t] == 1 and t % 3]
    limits.relearn(1, contexts[stand], [answers[t] for t in stand])
    again = LinearLimits(arms=3, features=4, ridge=2.0)
    for t in range(len(arms)):
        if arms[t] != 1 or t in stand:
            again.learn(contexts[t], arms[t], answers[t])
    assert bits(limits) == bits(again)


def test_relearn_from_nothing_is_the_prior() -> None:
    limits, *_ = taught()
    limits.relearn(0, np.empty((0, 4)), [])
    assert limits.scores([1.0, 0, 0, 0])[0][0] == 0.0
    assert limits.scores([1.0, 0, 0, 0])[1][0] == np.sqrt(0.5)


def test_copies_and_states_learn_apart_with_the_same_bits() -> None:
    limits, contexts, *_ = taught("0/-1")
    twin, restored = limits.copy(), LinearLimits.from_state(limits.to_state())
    before = bits(limits)
    for other in (twin, restored):
        other.learn(contexts[0], 2, False)
    assert bits(limits) == before != bits(twin)
    limits.learn(contexts[0], 2, False)
    assert bits(limits) == bits(twin) == bits(restored)
    assert restored.label_coding == "0/-1"


def test_new_arms_know_nothing_and_change_nothing() -> None:
    limits, *_ = taught()
    mean = limits.scores([1.0, 2, 3, 4])[0]
    limits.grow(2)
    assert limits.arms == 5 and limits.features == 4
    assert limits.scores([1.0, 2, 3, 4])[0].tolist() == [*mean.tolist(), 0.0, 0.0]


def test_bad_input_is_refused_and_changes_nothing() -> None:
    limits, *_ = taught()
    before = bits(limits)
    row = [1.0, 0.0, 0.0, 0.0]
    for call in (
        lambda: limits.learn(row, 3, True),
        lambda: limits.learn(row, 0, "yes"),
        lambda: limits.learn([1.0], 0, True),
        lambda: limits.relearn(0, [row, row], [True]),
        lambda: limits.relearn(9, [row], [True]),
        lambda: limits.relearn(0, [[np.nan] * 4], [True]),
        lambda: limits.relearn(0, [row, row], [[True], [True, False]]),
        lambda: limits.grow(0),
        lambda: LinearLimits(arms=1, features=1, label_coding="2/1"),
    ):
        with pytest.raises(InvalidValue):
            call()
    assert bits(limits) == before


def test_a_damaged_state_is_refused() -> None:
    state = taught()[0].to_state()
    for damaged in (
        None,
        {**state, "coding": np.array([7.0, 7.0])},
        {name: array for name, array in state.items() if name != "coding"},
        {name: array for name, array in state.items() if name != "A"},
        {**state, "A": state["A"][:, :2]},
        {**state, "mu": state["mu"] * np.nan},
        {**state, "f": state["f"].tolist()},
    ):
        with pytest.raises(CorruptState):
            LinearLimits.from_state(damaged)

"""Tables with arm features: the compiled loop against the model step by step, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from bridle.agent.joint import best_few
from bridle.errors import InvalidValue, NotPossible
from bridle.kernels import choice, keys
from bridle.limits import LinearLimits
from bridle.policies import BehaviorConstrained, EpsilonGreedy, Greedy, LinUCB, SquareCB, Thompson
from bridle.reward.shared import SharedArms
from bridle.simulate import Tables, online


def world(seed=0, M=40, K=70, d=2, p=3):
    rng = np.random.default_rng(seed)
    contexts, rows = rng.random((M, d)), rng.normal(size=(K, p))
    fit = contexts @ rng.normal(size=(d, p)) @ rows.T
    rewards = np.clip(0.5 + 0.2 * fit + 0.1 * rng.normal(size=(M, K)), 0, 1)
    return Tables(contexts, rewards, rng.random((M, K)) < 0.9, arm_features=rows)


def by_steps(tables, policy, shown, seed, eligible=None):
    """Play through the public methods of the model alone."""
    model = SharedArms(rows=tables.arm_features, features=tables.features)
    start, w = keys.stream(seed, keys.DECIDE), policy.weights
    played = []
    for t, row in enumerate(shown.tolist()):
        c, key = tables.contexts[row], np.uint64(keys.key_of(start, np.uint64(t + 1)))
        may = np.ones(tables.arms, bool) if eligible is None else eligible[row]
        aside = np.uint64(keys.aside(key))
        if w.epsilon and keys.uniform(aside) < w.epsilon:
            k = choice.random_arm(aside, may, may)
        else:
            scores = model.draw(c, int(key), w.v) + w.bonus * model.scores(c)[1]
            k = best_few(scores, may, key, 1)[0]
        model.fold(int(k), c, float(tables.rewards[row, k]))
        played.append(int(k))
    return np.array(played), model


@pytest.mark.parametrize(
    "policy", [Thompson(v=0.3), LinUCB(alpha=0.2), Greedy(), EpsilonGreedy(epsilon=0.3)]
)
def test_the_loop_is_the_model_step_by_step(policy):
    tables = world()
    shown = np.random.default_rng(1).integers(0, len(tables), 350)
    rng = np.random.default_rng(2)
    eligible = rng.random((len(tables), tables.arms)) < 0.8
    for may in (None, eligible):
        run = online(tables, policy=policy, rows=shown, seed=5, eligible=may)
        played, model = by_steps(tables, policy, shown, 5, may)
        np.testing.assert_array_equal(run.played, played)
        for name, array in model.to_state().items():
            np.testing.assert_array_equal(array, run.arms.to_state()[name], err_msg=name)


def test_what_one_arm_earns_teaches_the_others():
    tables = world(3, M=200, K=300)
    alone = Tables(tables.contexts, tables.rewards, tables.allowed)
    shared = online(tables, policy=Thompson(v=0.3), steps=1500, seed=1)
    apart = online(alone, policy=Thompson(v=0.05), steps=1500, seed=1, prior="centred")
    assert shared.R[-1] < 0.6 * apart.R[-1]


def test_policies_with_a_formula_run_step_by_step():
    tables = world(4, M=5, K=6)
    run = online(tables, policy=SquareCB(), steps=30, seed=1)
    assert isinstance(run.arms, SharedArms)
    assert run.arms.plays == 30


def test_what_cannot_be_is_refused():
    tables = world(5, M=4, K=5)
    with pytest.raises(InvalidValue, match="arm_features"):
        Tables(tables.contexts, tables.rewards, tables.allowed, arm_features=np.ones((4, 2)))
    with pytest.raises(NotPossible, match="blends"):
        online(
            tables,
            policy=BehaviorConstrained(sigma=0.5),
            limits=LinearLimits(arms=5, features=2),
            steps=3,
        )

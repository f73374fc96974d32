"""Estimates from weights and rewards: the formulas, and that the intervals hold what they say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from bridle.errors import InvalidValue
from bridle.evaluation.estimators import (
    Interval,
    _quantile,
    doubly_robust,
    effective_size,
    self_normalised,
)

LOGS, STEPS, KINDS, ARMS = 4_000, 150, 4, 4


def soft(means: Any, heat: float) -> Any:
    e = np.exp(heat * (means - means.max(axis=1, keepdims=True)))
    return e / e.sum(axis=1, keepdims=True)


def many_logs(logger: float, targets: tuple[float, ...], chance: bool) -> dict[str, Any]:
    """Run agents that learn, all at once: they play by a softmax of the mean rewards so far.

    `truth` is what each target earns on average in the same contexts and states.
    """
    rng = np.random.default_rng(5)
    tables = 0.1 + 0.8 * rng.random((LOGS, KINDS, ARMS))
    sums, plays = np.full(tables.shape, 0.5), np.ones(tables.shape)
    every = np.arange(LOGS)
    names = ("weight", "expected", "guess", "truth")
    out: dict[str, Any] = {name: np.empty((len(targets), LOGS, STEPS)) for name in names}
    out["reward"] = np.empty((LOGS, STEPS))
    for t in range(STEPS):
        kind = rng.integers(0, KINDS, LOGS)
        means, rewards = sums[every, kind] / plays[every, kind], tables[every, kind]
        p = soft(means, logger)
        arm = (p.cumsum(axis=1) < rng.random(LOGS)[:, None]).sum(axis=1).clip(0, ARMS - 1)
        got = rewards[every, arm]
        if chance:
            got = (rng.random(LOGS) < got).astype(float)
        out["reward"][:, t] = got
        for j, heat in enumerate(targets):
            pi = soft(means, heat)
            out["weight"][j, :, t] = (pi / p)[every, arm]
            out["expected"][j, :, t] = (pi * means).sum(axis=1)
            out["guess"][j, :, t] = means[every, arm]
            out["truth"][j, :, t] = (pi * rewards).sum(axis=1)
        sums[every, kind, arm] += got
        plays[every, kind, arm] += 1.0
    return out


@pytest.mark.parametrize("chance", [True, False])
def test_intervals_of_agents_that_learn_hold_the_truth(chance):
    # Of 4,000 intervals that hold the truth with probability .95, more than 280 fail to with a
    # probability of 1e-8. Two targets, two estimates: 4e-8 in all.
    found = many_logs(4.0, (3.0, 12.0), chance)
    r = found["reward"]
    for j in range(2):
        w, m, q = found["weight"][j], found["expected"][j], found["guess"][j]
        truth = found["truth"][j].mean(axis=1)
        ips = sum(truth[i] in self_normalised(w[i], r[i]) for i in range(LOGS))
        dr = sum(truth[i] in doubly_robust(m[i], w[i] * (r[i] - q[i])) for i in range(LOGS))
        assert ips >= 0.93 * LOGS and dr >= 0.93 * LOGS, (j, ips, dr)


def test_the_size():
    assert effective_size([]) == 0.0 and effective_size([0.0, 0.0]) == 0.0
    assert effective_size([2.0] * 7) == 7.0
    assert effective_size([1.0, 3.0]) == pytest.approx(16.0 / 10.0)


def test_tiny_and_huge_weights_are_as_good_as_others():
    rng = np.random.default_rng(2)
    w, r = rng.random(30), rng.random(30)
    for power in (-900, -40, 3, 160):
        scaled = np.ldexp(w, power)
        assert effective_size(scaled) == effective_size(w)
        assert self_normalised(scaled, r) == self_normalised(w, r)
    assert effective_size([5e-324, 5e-324]) == 2.0


def test_weights_of_one_give_the_plain_mean():
    r = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    found = self_normalised(np.ones(6), r)
    assert found.value == pytest.approx(r.mean())
    sd = math.sqrt(((r - r.mean()) ** 2).sum()) / 6.0
    assert (found.high - found.value) / sd == pytest.approx(_quantile(0.95, 6.0))
    robust = doubly_robust(np.full(6, 0.3), r - 0.3)
    assert robust.value == pytest.approx(r.mean()) and robust.level == 0.95


def test_moving_and_stretching_rewards_moves_and_stretches_the_interval():
    rng = np.random.default_rng(1)
    w, r = rng.random(30), rng.random(30)
    plain, moved = self_normalised(w, r), self_normalised(3.0 * w, 10.0 * r - 2.0)
    for end in ("value", "low", "high"):
        assert getattr(moved, end) == pytest.approx(10.0 * getattr(plain, end) - 2.0)


def test_a_perfect_model_leaves_nothing_to_chance():
    found = doubly_robust([0.2, 0.4, 0.9], [0.0, 0.0, 0.0])
    assert (found.low, found.high) == (found.value, found.value) == (0.5, 0.5)


def test_a_higher_level_and_fewer_plays_make_it_wider():
    m, d = [0.5] * 20, [0.1, -0.1] * 10

    def width(**how: float) -> float:
        found = doubly_robust(m, d, **how)
        return found.high - found.low

    assert width(level=0.9) < width() < width(level=0.99) and width() < width(size=5.0)
    assert width(size=100.0) == width(size=20.0) == width()


@pytest.mark.parametrize("size", [10, 20, 50, 1000])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_the_quantile_is_students(size, level):
    exact = student.ppf(0.5 + level / 2.0, size - 1)
    assert _quantile(level, float(size)) == pytest.approx(exact, abs=0.02)
    if level == 0.95:
        assert _quantile(level, float(size)) == pytest.approx(exact, abs=0.004)


def test_an_interval_reads_well():
    found = Interval(0.25, 0.125, 0.375, 0.95)
    assert str(found) == "0.250 [0.125, 0.375]"
    assert 0.125 in found and 0.375 in found and 0.4 not in found


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: self_normalised([1.0, -0.1], [0.0, 0.0]), "weights"),
        (lambda: self_normalised([0.0, 0.0], [0.0, 0.0]), "weights"),
        (lambda: self_normalised([1.0, math.nan], [0.0, 0.0]), "weights"),
        (lambda: self_normalised([1.0], [0.0, 0.0]), "rewards"),
        (lambda: self_normalised([1.0], ["a"]), "rewards"),
        (lambda: self_normalised([1.0], [1.0], level=1.0), "level"),
        (lambda: doubly_robust([1.0, 2.0], [1.0]), "corrections"),
        (lambda: doubly_robust([1.0], [1.0]), "expected"),
        (lambda: doubly_robust([[1.0]], [1.0]), "expected"),
        (lambda: doubly_robust([1.0, 1.0], [1.0, 1.0], level=0.2), "level"),
        (lambda: doubly_robust([1.0, 1.0], [1.0, 1.0], size=math.nan), "size"),
        (lambda: doubly_robust([1.0, 1.0], [1.0, 1.0], size=0.0), "size"),
        (lambda: doubly_robust([1e308, 1e308], [1.0, 1.0]), "expected"),
        (lambda: doubly_robust([0.0, 0.0], [-math.inf, 1.0]), "corrections"),
        (lambda: effective_size([[1.0]]), "weights"),
        (lambda: effective_size(None), "weights"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(InvalidValue) as caught:
        call()
    assert caught.value.name == name

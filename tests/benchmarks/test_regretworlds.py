"""The worlds of the regret benchmark are as they are defined, and the same for everybody."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks import regretworlds
from benchmarks.regretworlds import MAKERS, World, uniform

ROOT = Path(__file__).parents[2]


def logit(p):
    return np.log(p / (1.0 - p))


@pytest.mark.parametrize("name", MAKERS)
def test_a_world_is_a_function_of_its_name_and_seed(name):
    first, again, other = (regretworlds.make(name, seed, 50) for seed in (4, 4, 5))
    assert isinstance(first, World) and isinstance(again, World) and isinstance(other, World)
    assert first.contexts.tobytes() == again.contexts.tobytes()
    assert first.means(49).tobytes() == again.means(49).tobytes()
    assert first.means(49).tobytes() != other.means(49).tobytes()
    assert len(first) == 50 and first.name == name
    assert all(0.0 <= first.means(t).min() and first.means(t).max() <= 1.0 for t in range(50))


def test_rewards_are_those_of_the_step_and_the_arm():
    world = regretworlds.drift(1, 10)
    again = regretworlds.drift(1, 10)
    assert [world.reward(t, 3, 0.5) for t in range(10)] == [
        again.reward(t, 3, 0.5) for t in reversed(range(10))
    ][::-1]
    assert world.reward(2, 3, 0.5) != world.reward(2, 4, 0.5)
    assert regretworlds.drift(2, 10).reward(2, 3, 0.5) != world.reward(2, 3, 0.5)


def test_noise_is_that_of_the_definition():
    # The draws are fixed by the seed. Of 20,000 uniform ones the mean is off by more than .015,
    # seven standard errors, with probability below 1e-11; the share of clicks likewise.
    draws = np.array([uniform(3, t, k) for t in range(2_000) for k in range(10)])
    assert abs(draws.mean() - 0.5) < 0.015 and 0.0 < draws.min() and draws.max() < 1.0
    clicks = regretworlds.clicks(0, 1)
    assert {clicks.reward(t, 0, 0.3) for t in range(50)} == {0.0, 1.0}
    share = np.mean([clicks.reward(t, k, 0.3) for t in range(2_000) for k in range(10)])
    assert abs(share - 0.3) < 0.025
    noisy = np.array([regretworlds.drift(0, 2).reward(t, 0, 0.5) for t in range(5_000)])
    assert abs(noisy.std() - 0.2) < 0.02 and abs(noisy.mean() - 0.5) < 0.02
    assert noisy.min() >= 0.0 and noisy.max() <= 1.0


def test_clicks_are_rare_and_clipped():
    world = regretworlds.clicks(0, 500)
    means = np.array([world.means(t) for t in range(500)])
    assert means.shape == (500, 50) and world.contexts.shape == (500, 10)
    assert means.min() >= 0.001 and means.max() <= 0.2 and 0.01 < means.mean() < 0.05
    assert set(np.unique(world.contexts)) == {0.0, 1.0} and world.contexts[:, 0].all()
    high = regretworlds.clicks_high(0, 500)
    assert np.quantile([high.means(t).max() for t in range(500)], 0.5) > 0.6


@pytest.mark.parametrize("name", ["bilinear", "turnover"])
def test_what_an_arm_earns_is_bilinear_in_both_sides(name):
    world = regretworlds.make(name, 1, 400)
    assert isinstance(world, World) and world.arm_features is not None
    assert world.arm_features.shape[1] == 20 and world.contexts.shape == (400, 8)
    assert np.allclose(np.linalg.norm(world.arm_features, axis=1), 1.0)
    assert (world.contexts[:, 0] == 0.5).all()
    z = np.array([(logit(world.means(t)) + 1.0) / 2.4 for t in range(400)])  # (T, K)
    half, _, _, _ = np.linalg.lstsq(world.contexts, z, rcond=None)
    W = np.linalg.lstsq(world.arm_features, half.T, rcond=None)[0].T  # (d, p)
    assert np.allclose(world.contexts @ W @ world.arm_features.T, z)
    assert 0.7 < W.std() < 1.3


def test_a_catalogue_turns_over_two_per_cent_a_day():
    world = regretworlds.make("turnover", 0)
    assert isinstance(world, World)
    assert len(world) == 20_000 and [*world.changes] == [1_000 * day for day in range(1, 20)]
    there = set(world.arms.tolist())
    assert len(there) == 500
    for leaving, coming in world.changes.values():
        assert len(leaving) == len(coming) == 10
        assert set(leaving.tolist()) <= there and not set(coming.tolist()) & there
        there = (there - set(leaving.tolist())) | set(coming.tolist())
    assert len(there) == 500 and world.arm_features is not None
    assert len(world.arm_features) == len(world.means(0)) == 500 + 19 * 10


def test_drift_is_half_way_and_whole():
    world = regretworlds.drift(0, 1_000)
    rows = [row.tobytes() for row in world.contexts]
    at = {row: t for t, row in enumerate(rows[:500])}
    again = [(at[row], t) for t, row in enumerate(rows) if row in at]
    for earlier, later in again:
        same = np.array_equal(world.means(earlier), world.means(later))
        assert same == (later < 500)
    assert len({later >= 500 for _, later in again}) == 2


def test_cold_arms_are_much_alike():
    world = regretworlds.cold(0, 200)
    z = np.array([logit(world.means(t)) for t in range(200)])
    W = np.linalg.lstsq(world.contexts, z, rcond=None)[0].T  # (K, d)
    assert W.shape == (1_000, 10)
    spread = W.std(axis=0)
    # 1,000 draws: a standard deviation is off by a fifth with probability below 1e-15.
    assert np.allclose(spread[1:], 0.25, rtol=0.2)
    assert math.isclose(spread[0], math.hypot(0.25, 0.5), rel_tol=0.2)


def test_movies_say_why_they_cannot_be_had(tmp_path):
    said = regretworlds.make("movies", 0, 10, tmp_path)
    assert isinstance(said, str) and "ml-1m" in said and "--data" in said


def test_movies_are_those_of_the_block():
    data = Path(os.environ.get("BRIDLE_DATA", ROOT.parent / "shared" / "data"))
    if not (data / "ml-1m").is_dir():
        pytest.skip(f"The real data are not here: no {data / 'ml-1m'}. Set BRIDLE_DATA.")
    world = regretworlds.make("movies", 0, 300, data)
    assert isinstance(world, World)
    assert world.contexts.shape == (300, 10) and world.means(0).shape == (100,)
    assert world.reward(5, 7, 0.6) == 0.6
    stars = np.array([world.means(t) for t in range(300)]) * 10.0
    assert np.allclose(stars, stars.round()) and stars.max() == 10.0

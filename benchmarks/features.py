"""Regret where features of arms say nothing: ``python -m benchmarks.features [--seeds 6]``.

What the shared reward model loses there, beside the same arms without features. In `intercepts`
arms differ by as much in every context, which own effects can learn. In `slopes` and `clicks` each
arm has its own response to contexts, which they cannot; arms alone can. In `films` arms are a
hundred people and contexts are films (MovieLens 1M). Numbers in a name are arms, and the noise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks import regretworlds
from benchmarks.cases import Floats
from benchmarks.regretworlds import sigmoid
from bridle.policies import Thompson
from bridle.reward.base import boldness_of
from bridle.simulate import Tables, online

STEPS, ARM_FEATURES = 20_000, 5
FIRST_SEED = 100  # the regret benchmark reports 0 to 2
Made = tuple[Floats, Floats, Floats]  # contexts (T, d), expected rewards (T, K), rewards (T, K)


def _flags(rng: np.random.Generator, features: int, share: float) -> Floats:
    contexts = (rng.random((STEPS, features)) < share).astype(np.float64)
    contexts[:, 0] = 1.0
    return contexts


def _noisy(rng: np.random.Generator, means: Floats, noise: float) -> Floats:
    return np.asarray((means + noise * rng.standard_normal(means.shape)).clip(0.0, 1.0))


def intercepts(seed: int, arms: int, noise: float) -> Made:
    """Arms that differ by as much in every context."""
    rng = np.random.default_rng(seed)
    contexts = _flags(rng, 8, 0.4)
    common = contexts @ rng.normal(0.0, 0.07, 8)
    means = (0.45 + common[:, None] + rng.normal(0.0, 0.15, arms)).clip(0.02, 0.98)
    return contexts, means, _noisy(rng, means, noise)


def slopes(seed: int, arms: int, noise: float) -> Made:
    """Arms each of which has weights of its own for contexts."""
    rng = np.random.default_rng(seed)
    contexts = _flags(rng, 8, 0.4)
    means = sigmoid(contexts @ rng.normal(0.0, 0.5, (arms, 8)).T)
    return contexts, means, _noisy(rng, means, noise)


def clicks(seed: int, arms: int, noise: float) -> Made:
    """The same, clicked in 1 to 5 % of the cases."""
    rng = np.random.default_rng(seed)
    contexts = _flags(rng, 10, 0.3)
    weights = rng.normal(0.0, 0.35, (arms, 10))
    weights[:, 0] -= 3.8
    means = sigmoid(contexts @ weights.T).clip(0.001, 0.2)
    return contexts, means, (rng.random(means.shape) < means).astype(np.float64)


def films(seed: int, data: Path | None) -> Made | None:
    """A hundred people as arms; None where there is no data."""
    world = regretworlds.movies(seed, STEPS, data)
    if isinstance(world, str):
        return None
    means = np.array([world.means(step) for step in range(STEPS)])
    return world.contexts, means, means


MAKERS: dict[str, Callable[[int, int, float], Made]] = {
    "intercepts": intercepts,
    "slopes": slopes,
    "clicks": clicks,
}
NOISES = {"intercepts": (0.02, 0.3), "slopes": (0.02, 0.3), "clicks": (0.0,)}
ARMS = (10, 50, 500)


def regrets(made: Made, seed: int) -> tuple[float, float, float]:
    """Return the mean regret with useless features, and of arms alone, scaled and centred."""
    contexts, means, rewards = made
    steps, arms = means.shape
    rows = np.random.default_rng([seed, 1]).standard_normal((arms, ARM_FEATURES))
    allowed, every = np.ones(means.shape, np.bool_), np.arange(steps)
    alone = Tables(contexts, rewards, allowed)
    runs = (
        (Tables(contexts, rewards, allowed, arm_features=rows), Thompson(), "scaled"),
        (alone, Thompson(v=boldness_of(arms)), "scaled"),
        (alone, Thompson(v=0.05), "centred"),
    )
    found = []
    for tables, policy, prior in runs:
        run = online(tables, policy=policy, rows=every, checkpoints=[steps], seed=seed, prior=prior)
        found.append(float((means.max(axis=1) - means[every, run.played]).mean()))
    return found[0], found[1], found[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Play every world and print a line each, the means over seeds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.features", description=__doc__)
    parser.add_argument("--seeds", type=int, default=6, help=f"how many, from {FIRST_SEED}")
    parser.add_argument("--data", type=Path, help="where ml-1m is [$BRIDLE_DATA, ../shared/data]")
    options = parser.parse_args(arguments)
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    print(f"{'':20} {'features':>9} {'scaled':>9} {'centred':>9}")
    for name, make in MAKERS.items():
        for arms in ARMS:
            for noise in NOISES[name]:
                found = [regrets(make(seed, arms, noise), seed) for seed in seeds]
                label = f"{name} {arms}" + (f" {noise}" if noise else "")
                print(f"{label:20}", *(f"{one:9.4f}" for one in np.mean(found, axis=0)), flush=True)
    people = [(seed, films(seed, options.data)) for seed in seeds]
    there = [regrets(made, seed) for seed, made in people if made is not None]
    if there:
        print(f"{'films 100':20}", *(f"{one:9.4f}" for one in np.mean(there, axis=0)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

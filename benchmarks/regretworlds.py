"""The worlds of the regret benchmark: what arms earn on average, known to the judge alone.

A world is a function of its name, seed and length. Who plays sees contexts, features of arms where
the world has them, and the reward of the arm that was played. Noise is a function of seed, step and
arm: whoever plays the same arm at the same step sees the same reward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist

import numpy as np

from benchmarks.cases import Floats, Ints

MASK = 2**64 - 1
NORMAL = NormalDist()
LEAST, MOST = 0.001, 0.2  # of a click, in `clicks`
STEEP, LOW = 2.4, -1.0  # of `bilinear` and `turnover`
ARMS, ARM_FEATURES, FEATURES = 500, 20, 8
DAY, SHARE = 1_000, 0.02


@dataclass(frozen=True, eq=False, kw_only=True)
class World:
    """What is played: a context a step, and what each arm earns in it.

    Attributes
    ----------
    contexts : array (T, d)
        What is shown at each step.
    means : function of a step, returning an array (K,)
        The expected reward of every arm that ever is there.
    noise : float or None
        Standard deviation of what is added to the expected reward, which is then clipped to [0, 1];
        None: a reward is 1 with that probability, else 0.
    arm_features : array (K, p) or None
        What arms are like.
    arms : array
        The arms that are there at first.
    changes : mapping from steps to (arms that leave, arms that come)
        Before that step.
    """

    name: str
    seed: int
    contexts: Floats
    means: Callable[[int], Floats]
    noise: float | None
    arms: Ints
    arm_features: Floats | None = None
    changes: Mapping[int, tuple[Ints, Ints]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.contexts)

    def reward(self, step: int, arm: int, mean: float) -> float:
        """Return what is earned by an arm at a step."""
        if self.noise == 0.0:
            return mean
        u = uniform(self.seed, step, arm)
        if self.noise is None:
            return float(u < mean)
        return min(max(mean + self.noise * NORMAL.inv_cdf(u), 0.0), 1.0)


def uniform(seed: int, step: int, arm: int) -> float:
    """Return a number in (0, 1) that is always the same for a seed, a step and an arm.

    >>> uniform(1, 2, 3) == uniform(1, 2, 3), uniform(1, 2, 3) == uniform(1, 2, 4)
    (True, False)
    """
    z = 0
    for part in (seed, step, arm):  # splitmix64, a part at a time
        z = (z + part + 1) * 0x9E3779B97F4A7C15 & MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        z ^= z >> 31
    return ((z >> 11) + 0.5) * 2.0**-53


def sigmoid(z: Floats) -> Floats:
    """Return 1 / (1 + exp(-z))."""
    return np.asarray(1.0 / (1.0 + np.exp(-z)))


def _binary(rng: np.random.Generator, steps: int, features: int, share: float) -> Floats:
    """Draw contexts of flags, of which the first is always set."""
    contexts = (rng.random((steps, features)) < share).astype(np.float64)
    contexts[:, 0] = 1.0
    return contexts


def _directions(rng: np.random.Generator, rows: int, columns: int) -> Floats:
    """Draw unit vectors of any direction."""
    drawn = rng.standard_normal((rows, columns))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def clicks(seed: int, steps: int) -> World:
    """Fifty arms that are clicked in 1 to 5 % of the cases."""
    rng = np.random.default_rng(seed)
    contexts = _binary(rng, steps, 10, 0.3)
    weights = rng.normal(0.0, 0.35, (50, 10))
    weights[:, 0] += -3.8

    def means(step: int) -> Floats:
        return np.asarray(sigmoid(weights @ contexts[step]).clip(LEAST, MOST))

    return _alone("clicks", seed, contexts, means, None, 50)


def clicks_high(seed: int, steps: int) -> World:
    """Fifty arms that are clicked in 20 to 90 % of the cases."""
    rng = np.random.default_rng(seed)
    contexts = _binary(rng, steps, 10, 0.3)
    weights = rng.normal(0.0, 0.7, (50, 10))
    weights[:, 0] += -0.5
    return _alone(
        "clicks-high", seed, contexts, lambda step: sigmoid(weights @ contexts[step]), None, 50
    )


def drift(seed: int, steps: int) -> World:
    """Twenty arms, whose weights are drawn anew half-way."""
    rng = np.random.default_rng(seed)
    contexts = _binary(rng, steps, 8, 0.4)
    weights = rng.normal(0.0, 0.5, (2, 20, 8))
    turn = steps // 2

    def means(step: int) -> Floats:
        return sigmoid(weights[int(step >= turn)] @ contexts[step])

    return _alone("drift", seed, contexts, means, 0.2, 20)


def cold(seed: int, steps: int) -> World:
    """A thousand arms that are much alike, and twenty decisions for each."""
    rng = np.random.default_rng(seed)
    contexts = _binary(rng, steps, 10, 0.3)
    shared = rng.normal(0.0, 0.5, 10)
    weights = shared + rng.normal(0.0, 0.25, (1_000, 10))
    weights[:, 0] += rng.normal(-0.5, 0.5, 1_000)
    return _alone(
        "cold", seed, contexts, lambda step: sigmoid(weights @ contexts[step]), 0.2, 1_000
    )


def _alone(
    name: str,
    seed: int,
    contexts: Floats,
    means: Callable[[int], Floats],
    noise: float | None,
    arms: int,
) -> World:
    """Return a world whose arms have no features."""
    every = np.arange(arms)
    return World(name=name, seed=seed, contexts=contexts, means=means, noise=noise, arms=every)


def bilinear(seed: int, steps: int) -> World:
    """Five hundred arms with features, which decide what they earn."""
    return _bilinear("bilinear", seed, steps, days=1)


def turnover(seed: int, steps: int) -> World:
    """The same; and each day, of a twentieth of the steps, 2 % of the arms are replaced."""
    return _bilinear("turnover", seed, steps, days=max(2, steps // DAY))


def _bilinear(name: str, seed: int, steps: int, days: int) -> World:
    rng = np.random.default_rng(seed)
    each = round(SHARE * ARMS)
    contexts = _directions(rng, steps, FEATURES)
    contexts[:, 0] = 0.5
    rows = _directions(rng, ARMS + each * (days - 1), ARM_FEATURES)
    W = rng.standard_normal((FEATURES, ARM_FEATURES))
    weights = rows @ W.T  # (K, d)
    there, changes = np.arange(ARMS), {}
    for day in range(1, days):
        leaving = np.sort(rng.choice(there, each, replace=False))
        coming = np.arange(ARMS + each * (day - 1), ARMS + each * day)
        changes[day * steps // days] = (leaving, coming)
        there = np.concatenate([np.setdiff1d(there, leaving), coming])
    return World(
        name=name,
        seed=seed,
        contexts=contexts,
        means=lambda step: sigmoid(STEEP * (weights @ contexts[step]) + LOW),
        noise=0.15,
        arms=np.arange(ARMS),
        arm_features=rows,
        changes=changes,
    )


def movies(seed: int, steps: int, data: Path | None = None) -> World | str:
    """What a hundred people give a thousand films (MovieLens 1M), or why it cannot be had."""
    from bridle.errors import BridleError
    from bridle_studies.environments import read_block
    from bridle_studies.real.worlds import data_folder

    try:
        folder = data_folder(data) / "ml-1m"
        if not folder.is_dir():
            return f"no {folder}: give --data, or set BRIDLE_DATA"
        if folder not in _BLOCKS:
            block = read_block(folder)
            _BLOCKS[folder] = (block.contexts, block.ratings / 5.0)
    except BridleError as error:
        return str(error)
    films, rewards = _BLOCKS[folder]
    shown = np.random.default_rng(seed).integers(0, len(films), steps)
    return _alone(
        "movies", seed, films[shown], lambda step: rewards[shown[step]], 0.0, rewards.shape[1]
    )


_BLOCKS: dict[Path, tuple[Floats, Floats]] = {}

STEPS = {
    "clicks": 50_000,
    "clicks-high": 50_000,
    "bilinear": 20_000,
    "drift": 20_000,
    "cold": 20_000,
    "movies": 20_000,
    "turnover": 20_000,
}
MAKERS: dict[str, Callable[[int, int], World]] = {
    "clicks": clicks,
    "clicks-high": clicks_high,
    "bilinear": bilinear,
    "drift": drift,
    "cold": cold,
    "turnover": turnover,
}


def make(name: str, seed: int, steps: int | None = None, data: Path | None = None) -> World | str:
    """Make a world by its name; a sentence says why it cannot be had."""
    length = STEPS[name] if steps is None else steps
    return movies(seed, length, data) if name == "movies" else MAKERS[name](seed, length)

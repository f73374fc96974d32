"""The worlds of the regret benchmark: contexts, expected rewards, and what each arm would earn.

A world is drawn whole from its seed: step t has one context and one potential reward for each
arm, so all who play it meet the same stream. Regret is counted in expected rewards; only the
potential reward of the arm played is seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Decisions of one day in `turnover`, and the share of the catalogue that a day replaces.
DAY, TURNOVER = 500, 0.02


class Missing(Exception):
    """The data of a world are not here; the message says what would help."""


@dataclass(frozen=True, eq=False)
class World:
    """A world, drawn.

    Attributes
    ----------
    name, seed
        Its name, and what it was drawn from.
    contexts : array (T, d)
        What is shown at each step.
    expected : array (T, K)
        The expected reward of each arm.
    rewards : array (T, K)
        What each arm would earn, in [0, 1].
    arm_features : array (K, p) or None
        What arms look like, where the world says so.
    here : array (T, K) of bools, or None
        The arms that are in the catalogue at each step; all of them by default.
    """

    name: str
    seed: int
    contexts: Floats
    expected: Floats
    rewards: Floats
    arm_features: Floats | None = None
    here: Bools | None = None

    @property
    def steps(self) -> int:
        return len(self.contexts)

    @property
    def arms(self) -> int:
        return int(self.expected.shape[1])

    @property
    def features(self) -> int:
        return int(self.contexts.shape[1])

    def regrets(self, played: Ints) -> Floats:
        """Return what each of the first steps lost, in expected rewards."""
        n = len(played)
        expected = self.expected[:n]
        among = expected if self.here is None else np.where(self.here[:n], expected, -np.inf)
        best: Floats = among.max(axis=1)
        return best - expected[np.arange(n), played]


def sigmoid(z: Floats) -> Floats:
    """Return 1 / (1 + exp(−z))."""
    result: Floats = 1.0 / (1.0 + np.exp(-z))
    return result


def clicks(
    seed: int,
    *,
    steps: int = 50_000,
    arms: int = 50,
    features: int = 10,
    spread: float = 0.35,
    intercept: float = -3.8,
    clip: tuple[float, float] = (0.001, 0.2),
    name: str = "clicks",
) -> World:
    """Return clicks of 1 to 5 %: single events that are mostly chance."""
    rng = _rng(name, seed)
    weights = rng.normal(0.0, spread, (arms, features))
    weights[:, 0] = rng.normal(intercept, spread, arms)
    contexts = _flags(rng, steps, features, 0.3)
    expected = np.clip(sigmoid(contexts @ weights.T), *clip)
    rewards = (rng.random(expected.shape) < expected).astype(np.float64)
    return World(name, seed, contexts, expected, rewards)


def clicks_high(seed: int, *, steps: int = 50_000) -> World:
    """Return clicks of 20 to 90 %."""
    return clicks(
        seed, steps=steps, spread=0.7, intercept=-0.5, clip=(0.0, 1.0), name="clicks-high"
    )


def bilinear(
    seed: int,
    *,
    steps: int = 20_000,
    arms: int = 500,
    features: int = 8,
    arm_features: int = 20,
) -> World:
    """Return arms with features, whose worth is a product of theirs and the context's."""
    rng = _rng("bilinear", seed)
    mixed = rng.normal(size=(features, arm_features))
    rows = _directions(rng, arms, arm_features)
    contexts = _directions(rng, steps, features)
    contexts[:, 0] = 0.5
    expected = sigmoid(2.4 * (contexts @ mixed @ rows.T) - 1.0)
    return World("bilinear", seed, contexts, expected, _noisy(rng, expected, 0.15), rows)


def drift(seed: int, *, steps: int = 20_000, arms: int = 20, features: int = 8) -> World:
    """Return a world whose weights are drawn anew half-way."""
    rng = _rng("drift", seed)
    before, after = rng.normal(0.0, 0.5, (2, arms, features))
    contexts = _flags(rng, steps, features, 0.4)
    half = steps // 2
    expected = sigmoid(np.concatenate([contexts[:half] @ before.T, contexts[half:] @ after.T]))
    return World("drift", seed, contexts, expected, _noisy(rng, expected, 0.2))


def cold(seed: int, *, steps: int = 20_000, arms: int = 1_000, features: int = 10) -> World:
    """Return many arms that are much alike, and few steps for each."""
    rng = _rng("cold", seed)
    shared = rng.normal(0.0, 0.5, features)
    weights = shared + rng.normal(0.0, 0.25, (arms, features))
    weights[:, 0] += rng.normal(-0.5, 0.5, arms)
    contexts = _flags(rng, steps, features, 0.3)
    expected = sigmoid(contexts @ weights.T)
    return World("cold", seed, contexts, expected, _noisy(rng, expected, 0.2))


def movies(seed: int, *, steps: int = 20_000) -> World:
    """Return the ml-1m block: to whom is a movie recommended; the rating comes as it is."""
    contexts, ratings = _block()
    rows = _rng("movies", seed).integers(len(contexts), size=steps)
    return World("movies", seed, contexts[rows], ratings[rows], ratings[rows])


def turnover(
    seed: int,
    *,
    steps: int = 20_000,
    arms: int = 500,
    features: int = 8,
    arm_features: int = 20,
    day: int = DAY,
    share: float = TURNOVER,
) -> World:
    """Return `bilinear` with own effects N(0, .3²) and a catalogue that turns over day by day."""
    rng = _rng("turnover", seed)
    days = -(-steps // day)
    fresh = round(share * arms)
    total = arms + fresh * (days - 1)
    mixed = rng.normal(size=(features, arm_features))
    rows = _directions(rng, total, arm_features)
    own = rng.normal(0.0, 0.3, total)
    contexts = _directions(rng, steps, features)
    contexts[:, 0] = 0.5
    expected = sigmoid(2.4 * (contexts @ mixed @ rows.T) + own - 1.0)
    here = np.zeros((steps, total), np.bool_)
    now = np.arange(arms)
    for number in range(days):
        if number:
            kept = np.sort(rng.permutation(arms)[fresh:])
            first = arms + fresh * (number - 1)
            now = np.concatenate([now[kept], np.arange(first, first + fresh)])
        here[number * day : (number + 1) * day, now] = True
    return World("turnover", seed, contexts, expected, _noisy(rng, expected, 0.15), rows, here)


WORLDS: dict[str, Callable[..., World]] = {
    "clicks": clicks,
    "clicks-high": clicks_high,
    "bilinear": bilinear,
    "drift": drift,
    "cold": cold,
    "movies": movies,
    "turnover": turnover,
}


def data_folder() -> Path:
    """Return where public data are looked for: `BRIDLE_DATA`, or ../shared/data."""
    return Path(os.environ.get("BRIDLE_DATA") or Path("..", "shared", "data"))


def _rng(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([*name.encode(), seed])


def _flags(rng: np.random.Generator, steps: int, features: int, p: float) -> Floats:
    contexts = (rng.random((steps, features)) < p).astype(np.float64)
    contexts[:, 0] = 1.0
    return contexts


def _directions(rng: np.random.Generator, count: int, features: int) -> Floats:
    drawn = rng.normal(size=(count, features))
    result: Floats = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return result


def _noisy(rng: np.random.Generator, expected: Floats, sd: float) -> Floats:
    result: Floats = np.clip(expected + rng.normal(0.0, sd, expected.shape), 0.0, 1.0)
    return result


@cache
def _block() -> tuple[Floats, Floats]:
    from bridle_studies.environments.movielens import read_block

    folder = data_folder() / "ml-1m"
    if not folder.exists():
        raise Missing(f"{folder} is not there: set BRIDLE_DATA to a folder with ml-1m/ in it.")
    block = read_block(folder)
    return np.asarray(block.contexts, np.float64), np.asarray(block.ratings, np.float64) / 5.0

"""The worlds that every contestant is timed on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEPS = 50_000
"""T of the goals. A contestant that cannot do it within its budget does fewer."""

V = 0.25
"""The spread v of the draws, the same for every Thompson sampler."""

GENRE_SHARES = (0.283, 0.235, 0.399, 0.174, 0.463, 0.112, 0.064, 0.203, 0.162, 0.262)
"""Shares of ten genres among the most rated movies: how sparse binary contexts are."""

NOISE = 0.1


@dataclass(frozen=True, kw_only=True)
class Case:
    """A size of problem: K arms, d features, binary or dense contexts."""

    name: str
    arms: int
    features: int
    binary: bool = False
    batch: int = 1_000


CASES = (
    Case(name="100x10", arms=100, features=10, binary=True),
    Case(name="4x41", arms=4, features=41),
    Case(name="1000x50", arms=1_000, features=50),
)


@dataclass(frozen=True, kw_only=True)
class World:
    """Tables of a case: every contestant sees the same contexts in the same order."""

    case: Case
    contexts: Floats  # (M, d)
    rewards: Floats  # (M, K), in [0, 1]
    rows: Ints  # (T,), the context of each step
    log_arms: Ints  # (T,), the arms of a log to fit from


def make_world(case: Case, *, steps: int = STEPS, size: int = 2_000, seed: int = 7) -> World:
    """Draw contexts, and rewards that are linear in them plus noise."""
    rng = np.random.default_rng(seed)
    contexts = _contexts(case, size, rng)
    weights = rng.uniform(0.0, 1.0, (case.arms, case.features))
    weights /= contexts.sum(axis=1).max()
    clean = 0.2 + contexts @ weights.T
    rewards = np.clip(clean + rng.normal(0.0, NOISE, clean.shape), 0.0, 1.0)
    return World(
        case=case,
        contexts=contexts,
        rewards=rewards,
        rows=rng.integers(0, size, steps),
        log_arms=rng.integers(0, case.arms, steps),
    )


def _contexts(case: Case, size: int, rng: np.random.Generator) -> Floats:
    if not case.binary:
        return rng.uniform(0.0, 1.0, (size, case.features))
    shares = np.resize(np.array(GENRE_SHARES), case.features)
    kept = np.zeros((0, case.features))
    while len(kept) < size:  # a movie without any genre is not in the block
        drawn = (rng.random((size, case.features)) < shares).astype(np.float64)
        kept = np.vstack([kept, drawn[drawn.any(axis=1)]])
    return np.ascontiguousarray(kept[:size])

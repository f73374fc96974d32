"""Cases of arms with features: a catalogue of ten or a hundred thousand, one model for all arms.

Contestants: bridle, VW with arm-dependent features, and a bare float32 product of the catalogue
with one vector a decision, which is the least that scoring every candidate costs.
"""

from __future__ import annotations

import random
import time
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from benchmarks.cases import Floats, Ints
from benchmarks.measure import Contest, Mode

STEPS = 2_000
SHARE = 0.1
"""Share of the words that an arm has: a film has one or two genres of twenty."""


@dataclass(frozen=True, kw_only=True)
class CatalogueCase:
    """A size of problem: arms, their features, features of a context."""

    name: str
    arms: int
    arm_features: int
    features: int
    peers: tuple[str, ...]


CATALOGUES = (
    CatalogueCase(
        name="10000x20x10",
        arms=10_000,
        arm_features=20,
        features=10,
        peers=("matvec", "vowpalwabbit"),
    ),
    CatalogueCase(
        name="100000x20x10", arms=100_000, arm_features=20, features=10, peers=("matvec",)
    ),
)


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """The tables of a case: binary contexts and arms, and a reward that is bilinear in them."""

    case: CatalogueCase
    contexts: Floats  # (M, d)
    rows: Floats  # (K, p)
    weights: Floats  # (K, d): W z of each arm
    order: Ints  # (T,), the context of each step

    def reward(self, row: int, arm: int) -> float:
        """Return what an arm earns in a context, in [0, 1]."""
        return float(1.0 / (1.0 + np.exp(1.0 - self.contexts[row] @ self.weights[arm])))

    def rewards(self, row: int, arms: Sequence[int]) -> list[float]:
        """Return what several arms earn in a context."""
        scores = self.weights[arms] @ self.contexts[row]
        earned: list[float] = (1.0 / (1.0 + np.exp(1.0 - scores))).tolist()
        return earned

    def allowed(self, row: int, arm: int) -> bool:
        """Return whether an arm is allowed: not with its first word where the first flag is set."""
        return not (self.contexts[row, 0] and self.rows[arm, 0])


def make_catalogue(
    case: CatalogueCase, *, steps: int = STEPS, size: int = 200, seed: int = 7
) -> Catalogue:
    """Draw arms, contexts and the weights of their products."""
    rng = np.random.default_rng(seed)
    rows = (rng.random((case.arms, case.arm_features)) < SHARE).astype(np.float64)
    contexts = (rng.random((size, case.features)) < 0.3).astype(np.float64)
    contexts[:, -1] = 1.0
    W = rng.standard_normal((case.arm_features, case.features))
    order = rng.integers(0, size, steps)
    return Catalogue(case=case, contexts=contexts, rows=rows, weights=rows @ W, order=order)


class Stepper(Protocol):
    """What a contestant does: choose for a row of the contexts, learn what came of it."""

    def choose(self, row: int) -> int: ...

    def learn(self, row: int, arm: int, reward: float) -> None: ...


class Matvec:
    """A bare float32 product of all candidates with one vector, and nothing else."""

    name = "matvec"

    def __init__(self, world: Catalogue) -> None:
        ones = np.ones((world.case.arms, 1))
        self.rows = np.ascontiguousarray(np.hstack([ones, world.rows]), dtype=np.float32)
        self.w = np.random.default_rng(1).standard_normal((self.rows.shape[1],), np.float32)
        self.out = np.empty(len(self.rows), np.float32)

    def choose(self, row: int) -> int:
        np.dot(self.rows, self.w, out=self.out)
        return 0

    def learn(self, row: int, arm: int, reward: float) -> None:
        """Learn nothing."""


class VowpalWabbitAdf:
    """VW with features of arms, and products of both sides (``-q``); strings formatted before."""

    name = "vowpalwabbit"

    def __init__(self, world: Catalogue) -> None:
        command = "--cb_explore_adf -q ca --epsilon 0.05 --quiet"
        self.workspace: Any = import_module("vowpalwabbit").Workspace(command)
        self.shared = ["shared |c " + self._words(context) for context in world.contexts]
        self.arms = ["|a " + self._words(arm) for arm in world.rows]
        self.random = random.Random(1)
        self.chance = 1.0

    @staticmethod
    def _words(row: Floats) -> str:
        return " ".join(f"f{i}" for i in np.flatnonzero(row))

    def choose(self, row: int) -> int:
        chances = self.workspace.predict([self.shared[row], *self.arms])
        sums = list(accumulate(chances))
        arm = min(bisect(sums, self.random.random() * sums[-1]), len(sums) - 1)
        self.chance = chances[arm]
        return arm

    def learn(self, row: int, arm: int, reward: float) -> None:
        lines = [self.shared[row], *self.arms]
        lines[arm + 1] = f"0:{-reward}:{self.chance} {self.arms[arm]}"
        self.workspace.learn(lines)


PEERS: dict[str, Callable[[Catalogue], Stepper]] = {
    "matvec": Matvec,
    "vowpalwabbit": VowpalWabbitAdf,
}


def stepping(who: str, mode: Mode, peer: Stepper, world: Catalogue) -> Contest:
    """Build the contest of choosing and learning, one step after the other."""
    order = world.order.tolist()

    def run(n: int) -> float:
        start = time.perf_counter()
        for row in order[:n]:
            arm = peer.choose(row)
            peer.learn(row, arm, world.reward(row, arm) if arm >= 0 else 0.0)
        return time.perf_counter() - start

    return Contest(who=who, mode=mode, run=run, most=len(order))

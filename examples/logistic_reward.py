"""Bayesian logistic regression as a reward model of one's own, for clicks: rewards of 0 and 1.

Each arm has a normal belief N(m, H⁻¹) about its weights. A reward is folded by one Newton step (an
extended Kalman filter), and what is predicted is the probability of a click.

    python examples/logistic_reward.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import bridle
from bridle.testing import check_reward_model

Floats = np.ndarray[Any, np.dtype[np.float64]]


class LogisticReward:
    def __init__(self, *, arms: int, features: int, precision: float = 1.0) -> None:
        self.arms, self.features, self._precision = 0, features, precision
        self._m = np.zeros((0, features + 1))  # the last is the intercept
        self._H = np.zeros((0, features + 1, features + 1))
        self.grow(arms)

    def update(self, arm: int, context: Floats, outcome: float) -> None:
        x = np.append(context, 1.0)
        p = 1.0 / (1.0 + np.exp(-self._m[arm] @ x))
        self._H[arm] += p * (1.0 - p) * np.outer(x, x)
        self._m[arm] += np.linalg.solve(self._H[arm], (outcome - p) * x)

    def scores(self, context: Floats) -> tuple[Floats, Floats]:
        x = np.append(context, 1.0)
        variance = np.array([x @ np.linalg.solve(H, x) for H in self._H])
        z = np.array([m @ x for m in self._m]) / np.sqrt(1.0 + np.pi / 8.0 * variance)
        p = 1.0 / (1.0 + np.exp(-z))
        return p, p * (1.0 - p) * np.sqrt(variance)  # the delta method

    def scores_many(self, contexts: Floats) -> tuple[Floats, Floats]:
        both = np.array([self.scores(row) for row in contexts]).reshape(-1, 2, self.arms)
        return both[:, 0].copy(), both[:, 1].copy()

    def grow(self, arms: int = 1) -> None:
        d = self.features + 1
        self.arms += arms
        self._m = np.concatenate([self._m, np.zeros((arms, d))])
        self._H = np.concatenate([self._H, np.tile(self._precision * np.eye(d), (arms, 1, 1))])

    def to_state(self) -> dict[str, Any]:
        return {"m": self._m.copy(), "H": self._H.copy(), "precision": np.array(self._precision)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> LogisticReward:
        K, d = state["m"].shape
        model = cls(arms=K, features=d - 1, precision=float(state["precision"]))
        model._m, model._H = state["m"].copy(), state["H"].copy()
        return model


bridle.register("reward", "logistic", LogisticReward, version="1")

if __name__ == "__main__":
    print(f"{check_reward_model(LogisticReward).ran} checks of a reward model hold.")
    rng, clicks = np.random.default_rng(1), {"red": 0.1, "blue": 0.3, "green": 0.2}
    policy = bridle.Thompson(v=1.0)
    agent = bridle.Agent(arms=list(clicks), features=1, policy=policy, reward="logistic", seed=1)
    for _ in range(1_000):
        decision = agent.decide([1.0])
        assert isinstance(decision, bridle.Decision)
        agent.reward(decision.id, float(rng.random() < clicks[str(decision.arm)]))
    last = agent.decide([1.0])
    assert isinstance(last, bridle.Decision)
    for arm, p in zip(clicks, last.reward_mean, strict=True):
        print(f"{arm}: a click in {p:.0%} of all cases, in truth {clicks[arm]:.0%}")

"""SquareCB as a policy of one's own: probabilities by how far each arm falls behind the best.

SquareCB (Foster and Rakhlin 2020) plays an arm whose predicted reward falls behind the best by
`gap` with probability 1 / (A + gamma · gap), for A arms that may be played; the best has the rest.

    python examples/squarecb.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import bridle
from bridle.agent.events import Event
from bridle.policies import Scores
from bridle.testing import check_policy


@dataclass(frozen=True)
class SquareCB:
    gamma: float = 200.0  # the higher, the greedier
    needs_limits: ClassVar[bool] = True  # only what is surely allowed is ever eligible

    def propensities(self, scores: Scores) -> np.ndarray:
        parts, eligible, _ = scores.parts()  # checked: a bad score is refused here
        if not eligible.any():
            return np.zeros(len(eligible))
        mean = np.where(eligible, parts[0], -np.inf)
        behind = mean.max() - mean
        odds = np.where(eligible, 1.0 / (eligible.sum() + self.gamma * behind), 0.0)
        best = behind == 0.0
        odds[best] += (1.0 - odds.sum()) / best.sum()  # ties share what is left
        return odds

    def choose(self, scores: Scores, key: int) -> int:
        odds = self.propensities(scores)
        if not odds.any():
            return -1
        u = np.random.Generator(np.random.Philox(key=key)).random()
        return int(np.searchsorted(odds.cumsum(), u * odds.sum(), side="right"))


bridle.register("policy", "SquareCB", SquareCB, version="1")


def main() -> None:
    print(f"{check_policy(SquareCB()).ran} checks of a policy hold.")
    arms, log = ["horror", "drama", "comedy"], list[Event]()
    agent = bridle.Agent(arms=arms, features=2, policy=SquareCB(), seed=1, sink=log.extend)
    child, adult = [1.0, 0.0], [0.0, 1.0]
    for _ in range(3):
        for arm in arms:
            agent.teach(child, arm, allowed=arm != "horror")
            agent.teach(adult, arm, allowed=True)
    earns = {"horror": 0.9, "drama": 0.4, "comedy": 0.6}
    played = {"child": dict.fromkeys(earns, 0), "adult": dict.fromkeys(earns, 0)}
    for step in range(400):
        who = "child" if step % 2 else "adult"
        decision = agent.decide(child if who == "child" else adult)
        if isinstance(decision, bridle.Decision):
            played[who][str(decision.arm)] += 1
            agent.reward(decision.id, earns[str(decision.arm)])
    for who, counts in played.items():
        print(f"{who}: " + ", ".join(f"{arm} {n}" for arm, n in counts.items()))
    found = bridle.Agent.replay(log)
    print(f"From its log {found.checked} choices were made again; {len(found.differing)} differ.")


if __name__ == "__main__":
    main()

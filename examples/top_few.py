"""A policy of one's own: one of the few best arms, each as often as the other.

python examples/top_few.py
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
class TopFew:
    few: int = 2  # the fewer, the greedier
    needs_limits: ClassVar[bool] = True  # only what is surely allowed is ever eligible

    def propensities(self, scores: Scores) -> np.ndarray:
        parts, eligible, _ = scores.parts()  # checked: a bad score is refused here
        places = min(self.few, int(eligible.sum()))
        if not places:
            return np.zeros(len(eligible))
        mean = np.where(eligible, parts[0], -np.inf)
        last = np.sort(mean)[-places]  # of the places that there are
        above, at = mean > last, mean == last
        shares: np.ndarray = above / places + at * (1.0 - above.sum() / places) / at.sum()
        return shares  # ties share a place

    def choose(self, scores: Scores, key: int) -> int:
        odds = self.propensities(scores)
        if not odds.any():
            return -1
        u = np.random.Generator(np.random.Philox(key=key)).random()
        return int(np.searchsorted(odds.cumsum(), u * odds.sum(), side="right"))


bridle.register("policy", "TopFew", TopFew, version="1")


def main() -> None:
    print(f"{check_policy(TopFew()).ran} checks of a policy hold.")
    arms, log = ["horror", "drama", "comedy"], list[Event]()
    agent = bridle.Agent(arms=arms, features=2, policy=TopFew(), seed=1, sink=log.extend)
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

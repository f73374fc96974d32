"""bridle as a contestant, through its public interface only.

The same adapter as a peer's for one step at a time, batches and logs, and beside it
the compiled loop of ``bridle.simulate``, which no peer has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from benchmarks.cases import STEPS, Floats, Ints, V, World
from benchmarks.catalogue import Catalogue
from benchmarks.measure import Contest, Mode
from benchmarks.peers import Peer


class Bridle(Peer):
    """The Agent with the paper's plain Thompson policy (CTS)."""

    name = "bridle"
    draws = "anew"

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        import bridle
        from bridle.policies import Thompson

        # The peers know no denials, so the look-up of exact denials is off as in the paper.
        self.agent: Any = bridle.Agent(
            arms=self.arms,
            features=self.features,
            policy=Thompson(v=V),
            exact_denials=False,
            seed=seed,
        )
        self.given = list(self.contexts)  # the caller has a context in hand
        self.decision_id: Any = None
        self.batch_ids: list[Any] = []

    def choose(self, row: int) -> int:
        decision = self.agent.decide(self.given[row])
        self.decision_id = decision.id
        return int(decision.arm)

    def learn(self, row: int, arm: int, reward: float) -> None:
        self.agent.reward(self.decision_id, reward)

    def choose_many(self, rows: Ints) -> Ints:
        # As the peers give: arms alone, without every arm's scores and draws.
        decisions = self.agent.decide_many(self.contexts[rows], details=False)
        self.batch_ids = decisions.ids
        return np.array(decisions.chosen)

    def learn_many(self, rows: Ints, arms: Ints, rewards: Floats) -> None:
        self.agent.reward_many(self.batch_ids, rewards)

    def prepare_log(self, rows: Ints, arms: Ints, rewards: Floats) -> Callable[[], None]:
        contexts = self.contexts[rows]

        def fit() -> None:
            self.agent.learn(contexts, arms, rewards)

        return fit


def compiled_loop(world: World) -> Contest:
    """Build the contest of the compiled loop, always over all T steps."""
    play = loop_runner(world)
    most = len(world.rows)
    return Contest(who="bridle", mode="loop", run=play, most=most, least=min(STEPS, most))


def loop_runner(world: World) -> Callable[[int], float]:
    """Return what plays the first n steps of a world in the compiled loop, and times it."""
    from bridle import simulate
    from bridle.policies import Thompson

    allowed = np.ones(world.rewards.shape, dtype=np.bool_)
    tables: Any = simulate.Tables(contexts=world.contexts, rewards=world.rewards, allowed=allowed)
    policy = Thompson(v=V)

    def play(n: int) -> float:
        rows = world.rows[:n]
        start = time.perf_counter()
        simulate.online(tables, policy=policy, rows=rows, seed=1)
        return time.perf_counter() - start

    return play


class BridleCatalogue:
    """bridle where arms have features: its model alone, its agent, its agent inside limits.

    `loop` is the shared model without the bookkeeping of an agent: one joint draw, the best arm of
    it, one update. `loop-limits` is the agent with limits over pairs that it was taught. `slate-1`
    and `slate-10` are the agent that chooses so many arms at once and learns what each has earned.
    """

    name = "bridle"
    MODES: ClassVar[tuple[Mode, ...]] = ("loop", "single", "loop-limits", "slate-1", "slate-10")
    PLACES: ClassVar[dict[Mode, int]] = {"slate-1": 1, "slate-10": 10}

    def __init__(self, world: Catalogue, mode: Mode) -> None:
        import bridle
        from bridle.policies import LearnedMask, Thompson
        from bridle.reward.shared import SharedArms

        self.mode, self.contexts, self.given = mode, world.contexts, list(world.contexts)
        self.steps, self.decision_id = 0, None
        self.world, self.places = world, self.PLACES.get(mode)
        self.slate: Any = None
        if mode == "loop":
            self.model = SharedArms(rows=world.rows, features=world.case.features)
            self.may = np.ones(world.case.arms, np.bool_)
            return
        words = [f"f{i}" for i in range(world.case.arm_features)]
        named = [
            bridle.Arm(k, features={"words": [words[i] for i in np.flatnonzero(row)]})
            for k, row in enumerate(world.rows)
        ]
        limited = mode == "loop-limits"
        self.agent: Any = bridle.Agent(
            arms=named,
            features=world.case.features,
            arm_features=bridle.Schema([bridle.Labels("words", words)]),
            policy=LearnedMask() if limited else Thompson(),
            seed=1,
        )
        if limited:
            rng = np.random.default_rng(2)
            for row, arm in rng.integers(0, (len(world.contexts), world.case.arms), (100, 2)):
                self.agent.teach(self.given[row], int(arm), allowed=world.allowed(row, arm))

    def choose(self, row: int) -> int:
        if self.mode == "loop":
            self.steps += 1
            model = self.model
            return int(model.best(self.contexts[row], self.may, self.steps, model.spread)[0])
        if self.places is not None:
            self.slate = self.agent.decide(self.given[row], k=self.places, ask=False)
            return int(self.slate.arms[0])
        made = self.agent.decide(self.given[row], ask=False)
        self.decision_id = made.id if hasattr(made, "arm") else None
        return -1 if self.decision_id is None else int(made.arm)

    def learn(self, row: int, arm: int, reward: float) -> None:
        if self.mode == "loop":
            self.model.fold(arm, self.contexts[row], reward)
        elif self.slate is not None:
            self.agent.reward_slate(self.slate, items=self.world.rewards(row, self.slate.arms))
        elif self.decision_id is not None:
            self.agent.reward(self.decision_id, reward)

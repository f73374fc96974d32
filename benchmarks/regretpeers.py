"""Contestants from outside in the regret benchmark, each as its documentation has it.

Bandits whose arms learn alone get the contexts as they are, whose first number is always 1. Where
arms have features, those that can share what they learn get products of both sides.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable
from importlib import import_module
from itertools import accumulate
from typing import Any

import numpy as np

from benchmarks.cases import Floats, Ints, V
from benchmarks.regretworlds import World


class Mabwiser:
    """MABWiser's LinTS or LinUCB with the spread of the other benchmarks, .25."""

    def __init__(self, world: World, seed: int, policy: str) -> None:
        mab = import_module("mabwiser.mab")
        learning = getattr(mab.LearningPolicy, policy)(alpha=V)
        self.model: Any = mab.MAB(world.arms.tolist(), learning, seed=seed)
        # It wants some history before its first choice: one play of no reward.
        self.model.fit(world.arms[:1], np.zeros(1), np.zeros((1, world.contexts.shape[1])))

    def choose(self, context: Floats) -> int:
        return int(self.model.predict(context[None]))

    def learn(self, context: Floats, arm: int, reward: float) -> None:
        self.model.partial_fit(np.array([arm]), np.array([reward]), context[None])

    def change(self, leaving: Ints, coming: Ints) -> None:
        for arm in leaving.tolist():
            self.model.remove_arm(arm)
        for arm in coming.tolist():
            self.model.add_arm(arm)


class River:
    """river's LinUCBDisjoint as it comes."""

    def __init__(self, world: World, seed: int) -> None:
        self.model: Any = import_module("river.bandit").LinUCBDisjoint(seed=seed)
        self.arms = world.arms.tolist()

    def choose(self, context: Floats) -> int:
        self.shown = {i: x for i, x in enumerate(context.tolist()) if x}
        return int(self.model.pull(self.arms, self.shown))

    def learn(self, context: Floats, arm: int, reward: float) -> None:
        self.model.update(arm, self.shown, reward)

    def change(self, leaving: Ints, coming: Ints) -> None:
        gone = set(leaving.tolist())
        self.arms = [arm for arm in self.arms if arm not in gone] + coming.tolist()


class BayesianBandits:
    """bayesianbandits' Thompson sampling, by learners that find out how noisy rewards are.

    Where arms have features one learner is shared by all, over products of both sides.
    """

    def __init__(self, world: World, seed: int) -> None:
        library = self.library = import_module("bayesianbandits")
        policy, rows = library.ThompsonSampling(), world.arm_features
        self.shared = rows is not None
        arms = [self._arm(arm) for arm in world.arms.tolist()]
        if rows is None:
            self.model: Any = library.ContextualAgent(arms, policy, random_seed=seed)
            return
        wide = np.hstack([np.ones((len(rows), 1)), rows])  # (K, 1 + p)

        def products(shown: Floats, tokens: list[int]) -> Floats:
            """Return (1, x) ⊗ (1, a) of each context and arm: (contexts, features, arms)."""
            x = np.hstack([np.ones((len(shown), 1)), shown])
            every = x[:, :, None, None] * wide[tokens].T[None, None]
            return np.asarray(every.reshape(len(x), -1, len(tokens)))

        self.model = library.LipschitzContextualAgent(
            arms,
            policy,
            library.FunctionArmFeaturizer(products),
            library.NormalInverseGammaRegressor(),
            random_seed=seed,
        )

    def _arm(self, arm: int) -> Any:
        learner = None if self.shared else self.library.NormalInverseGammaRegressor()
        return self.library.Arm(arm, learner=learner)

    def choose(self, context: Floats) -> int:
        return int(self.model.pull(context[None])[0])

    def learn(self, context: Floats, arm: int, reward: float) -> None:
        self.model.update(context[None], np.array([reward]))

    def change(self, leaving: Ints, coming: Ints) -> None:
        for arm in leaving.tolist():
            self.model.remove_arm(arm)
        for arm in coming.tolist():
            self.model.add_arm(self._arm(arm))


class VowpalWabbit:
    """VW's contextual bandit over candidates with features, or with their id where they have none.

    The arm is drawn from its probabilities.
    """

    def __init__(self, world: World, seed: int, exploration: str) -> None:
        command = f"--cb_explore_adf -q ca {exploration} --quiet --random_seed {seed + 1}"
        self.workspace: Any = import_module("vowpalwabbit").Workspace(command)
        rows = world.arm_features
        every = range(
            1 + max([int(world.arms[-1]), *(int(c[-1]) for _, c in world.changes.values())])
        )
        self.lines = [f"|a k{k}" if rows is None else "|a " + self._words(rows[k]) for k in every]
        self.arms = world.arms.tolist()
        self.random = random.Random(seed)
        self.chance, self.place, self.shown = 1.0, 0, ""

    @staticmethod
    def _words(row: Floats) -> str:
        return " ".join(f"f{i}:{x:.6g}" for i, x in enumerate(row.tolist()) if x)

    def _candidates(self) -> list[str]:
        return [self.shown, *(self.lines[arm] for arm in self.arms)]

    def choose(self, context: Floats) -> int:
        self.shown = "shared |c " + self._words(context)
        chances = self.workspace.predict(self._candidates())
        sums = list(accumulate(chances))
        self.place = min(bisect(sums, self.random.random() * sums[-1]), len(sums) - 1)
        self.chance = chances[self.place]
        return int(self.arms[self.place])

    def learn(self, context: Floats, arm: int, reward: float) -> None:
        lines = self._candidates()
        lines[self.place + 1] = f"0:{-reward}:{self.chance} {lines[self.place + 1]}"
        self.workspace.learn(lines)

    def change(self, leaving: Ints, coming: Ints) -> None:
        gone = set(leaving.tolist())
        self.arms = [arm for arm in self.arms if arm not in gone] + coming.tolist()


PEERS: dict[str, Callable[[World, int], Any]] = {
    "mabwiser-lints": lambda world, seed: Mabwiser(world, seed, "LinTS"),
    "mabwiser-linucb": lambda world, seed: Mabwiser(world, seed, "LinUCB"),
    "river": River,
    "bayesianbandits": BayesianBandits,
    "vw-epsilon": lambda world, seed: VowpalWabbit(world, seed, "--epsilon 0.05"),
    "vw-squarecb": lambda world, seed: VowpalWabbit(world, seed, "--squarecb"),
}

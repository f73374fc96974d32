"""A decision tree of scikit-learn as limits of one's own: safe is a leaf where nothing was denied.

pip install scikit-learn && python examples/tree_limits.py
"""

from __future__ import annotations

import numpy as np
from sklearn.tree import DecisionTreeClassifier

import bridle
from bridle.limits import Beliefs, Prediction
from bridle.testing import check_limits


class TreeLimits(Beliefs):
    arms, features = 0, 0
    shares_groups = False  # every arm has a tree of its own

    def __init__(self, *, arms, features, groups=(), seed=0, depth=4, enough=4):
        self.arms, self.features, self._rest = arms, features, (seed, depth, enough)
        self._said: list[list] = [[] for _ in range(arms)]  # the answers of each arm, in order

    def learn(self, context, arm, allowed, key=0):
        self._said[arm].append((np.array(context, float), bool(allowed)))
        return np.array([arm])

    def refit(self, unit, contexts, allowed, keys=(), /):
        self._said[unit] = []
        for n, context in enumerate(contexts):
            self.learn(context, unit, allowed[n])
        return np.array([unit])

    def predict(self, unit, contexts):
        yes = no = np.zeros(len(contexts))  # answers in the leaf of each context
        seed, depth, enough = self._rest
        if self._said[unit] and len(contexts):
            X, y = (np.array(part) for part in zip(*self._said[unit], strict=True))
            tree = DecisionTreeClassifier(max_depth=depth, random_state=seed % 2**32).fit(X, y)
            alike = tree.apply(contexts)[:, None] == tree.apply(X)  # in the same leaf
            yes, no = (alike[:, y == said].sum(axis=1) for said in (True, False))
        p = (yes + 0.5) / (yes + no + 1.0)
        sd = np.sqrt(p * (1.0 - p) / (yes + no + 2.0))
        safe, possible = (no == 0) & (yes >= enough), (yes > 0) | (no < enough)
        return Prediction(p, safe, possible, sd**2, sd)

    def grow(self, arms=1, groups=None):
        self.arms += arms
        self._said += [[] for _ in range(arms)]

    def copy(self):
        return self.from_state(self.to_state())

    def to_state(self):
        said = [(k, a, *c) for k, mine in enumerate(self._said) for c, a in mine]
        sizes = np.array([self.arms, self.features, *self._rest], np.uint64)
        return {"sizes": sizes, "said": np.array(said, float).reshape(-1, 2 + self.features)}

    @classmethod
    def from_state(cls, state):
        K, d, seed, depth, enough = state["sizes"].tolist()
        limits = cls(arms=K, features=d, seed=seed, depth=depth, enough=enough)
        for arm, allowed, *context in state["said"]:
            limits.learn(context, int(arm), allowed)
        return limits


bridle.register("limits", "tree", TreeLimits, version="1")

if __name__ == "__main__":
    print(f"{check_limits(TreeLimits).ran} checks of limits hold.")
    flags = [bridle.Flag("child"), bridle.Flag("late")]
    agent = bridle.Agent(arms=["horror"], features=flags, limits="tree", seed=1)
    cases = [(True, True), (True, False), (False, True), (False, False)]
    for child, late in cases * 5:
        agent.teach({"child": child, "late": late}, "horror", allowed=not (child and late))
    for child, late in cases:
        p = agent.believed({"child": child, "late": late}).p[0]
        print(f"Horror for a child: {child}, late at night: {late}. P(allowed) = {p:.2f}")

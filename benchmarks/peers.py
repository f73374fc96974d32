"""The contestants from outside, each in its fastest documented usage.

An adapter does what one step of a bandit needs and no more: ``choose`` an arm for
a context, ``learn`` from its reward. What a user would do once (formatting VW's
strings, river's dictionaries) is done in the constructor, before the clock starts.
Where a library needs history before its first choice (mabwiser, contextualbandits),
it gets one reward per arm there too.

Every Thompson sampler has ridge 1 and spread v; none has an intercept except VW,
whose command line is the one of the comparison.
"""

from __future__ import annotations

import random
import tempfile
from bisect import bisect
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.cases import Floats, Ints, V, World


class Peer:
    """What the harness asks of a contestant; the bulk forms fall back on one by one."""

    name: ClassVar[str]
    draws: ClassVar[str]  # how a batch is decided: "anew", "shared" or "none"
    remark: ClassVar[str] = ""
    fits_by_row: ClassVar[bool] = False  # a fit's cost is then its rows' alone

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.arms = world.case.arms
        self.features = world.case.features
        self.contexts = world.contexts

    def choose(self, row: int) -> int:
        """Pick an arm for the context in this row of the tables."""
        raise NotImplementedError

    def learn(self, row: int, arm: int, reward: float) -> None:
        """Take the reward of the arm that was played."""
        raise NotImplementedError

    def choose_many(self, rows: Ints) -> Ints:
        """Pick an arm for each of many contexts before any reward comes."""
        return np.array([self.choose(row) for row in rows.tolist()])

    def learn_many(self, rows: Ints, arms: Ints, rewards: Floats) -> None:
        """Take the rewards of a batch."""
        for row, arm, reward in zip(rows.tolist(), arms.tolist(), rewards.tolist(), strict=True):
            self.learn(row, arm, reward)

    def prepare_log(self, rows: Ints, arms: Ints, rewards: Floats) -> Callable[[], None]:
        """Return what fits from a log; whatever formatting it needs is done by then."""
        return lambda: self.learn_many(rows, arms, rewards)

    def _one_reward_each(self) -> tuple[Floats, Ints, Floats]:
        arms = np.arange(self.arms)
        rows = arms % len(self.contexts)
        return self.contexts[rows], arms, self.world.rewards[rows, arms]


def by_arm(arms: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each arm that occurs, with the places where it does, in their order."""
    order = np.argsort(arms, kind="stable")
    played, starts = np.unique(arms[order], return_index=True)
    yield from zip(played.tolist(), np.split(order, starts[1:]), strict=True)


class PseudoCode(Peer):
    """The paper's algorithm as printed: a d-vector per arm, and an inverse for it."""

    name = "pseudo-code"
    draws = "anew"
    fits_by_row = True

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.rng = np.random.default_rng(seed)
        self.B = [np.eye(self.features) for _ in range(self.arms)]
        self.f = [np.zeros(self.features) for _ in range(self.arms)]
        self.mu = [np.zeros(self.features) for _ in range(self.arms)]

    def choose(self, row: int) -> int:
        context = self.contexts[row]
        scores = np.empty(self.arms)
        for k in range(self.arms):
            covariance = V**2 * np.linalg.inv(self.B[k])
            scores[k] = context @ self.rng.multivariate_normal(self.mu[k], covariance)
        return int(np.argmax(scores))

    def learn(self, row: int, arm: int, reward: float) -> None:
        context = self.contexts[row]
        self.B[arm] += np.outer(context, context)
        self.f[arm] += context * reward
        self.mu[arm] = np.linalg.inv(self.B[arm]) @ self.f[arm]


class VectorisedNumpy(Peer):
    """What a careful NumPy user writes: all arms at once, one draw each, rank-one updates."""

    name = "numpy"
    draws = "anew"

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        d = self.features
        self.rng = np.random.default_rng(seed)
        self.A = np.tile(np.eye(d), (self.arms, 1, 1))  # inverses: (K, d, d)
        self.f = np.zeros((self.arms, d))
        self.mu = np.zeros((self.arms, d))

    def choose(self, row: int) -> int:
        context = self.contexts[row]
        # c'Ac as one matrix-vector product of (K, d*d) with the outer product: BLAS
        # does it several times faster than einsum does at these sizes.
        outer = np.multiply.outer(context, context).ravel()
        spread = np.sqrt(self.A.reshape(self.arms, -1) @ outer)
        scores = self.mu @ context + V * spread * self.rng.standard_normal(self.arms)
        return int(scores.argmax())

    def learn(self, row: int, arm: int, reward: float) -> None:
        context = self.contexts[row]
        A = self.A[arm]
        moved = A @ context
        A -= np.multiply.outer(moved, moved / (1.0 + context @ moved))
        self.f[arm] += context * reward
        self.mu[arm] = A @ self.f[arm]

    def choose_many(self, rows: Ints) -> Ints:
        contexts = self.contexts[rows]
        d = self.features
        outer = (contexts[:, :, None] * contexts[:, None, :]).reshape(-1, d * d)
        spread = np.sqrt(outer @ self.A.reshape(self.arms, -1).T)
        means = contexts @ self.mu.T
        scores = means + V * spread * self.rng.standard_normal(means.shape)
        chosen: Ints = scores.argmax(axis=1)
        return chosen

    def learn_many(self, rows: Ints, arms: Ints, rewards: Floats) -> None:
        for arm, part in by_arm(arms):
            if len(part) < self.features:  # rank-one updates are cheaper than two inverses
                for row, reward in zip(rows[part].tolist(), rewards[part].tolist(), strict=True):
                    self.learn(row, arm, reward)
                continue
            contexts = self.contexts[rows[part]]
            self.A[arm] = np.linalg.inv(np.linalg.inv(self.A[arm]) + contexts.T @ contexts)
            self.f[arm] += contexts.T @ rewards[part]
            self.mu[arm] = self.A[arm] @ self.f[arm]

    def prepare_log(self, rows: Ints, arms: Ints, rewards: Floats) -> Callable[[], None]:
        contexts = self.contexts[rows]

        def fit() -> None:
            B = np.tile(np.eye(self.features), (self.arms, 1, 1))
            for arm, part in by_arm(arms):
                mine = contexts[part]
                B[arm] += mine.T @ mine
                self.f[arm] = mine.T @ rewards[part]
            self.A = np.asarray(np.linalg.inv(B), dtype=np.float64)
            self.mu = (self.A @ self.f[:, :, None])[:, :, 0]

        return fit


class Mabwiser(Peer):
    """MABWiser's LinTS: a d-vector per arm and context from ``multivariate_normal``."""

    name = "mabwiser"
    draws = "anew"

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        mab = import_module("mabwiser.mab")
        policy = mab.LearningPolicy.LinTS(alpha=V, l2_lambda=1.0)
        self.model: Any = mab.MAB(list(range(self.arms)), policy, seed=seed)
        contexts, arms, rewards = self._one_reward_each()
        self.model.fit(arms, rewards, contexts)

    def choose(self, row: int) -> int:
        return int(self.model.predict(self.contexts[row : row + 1]))

    def learn(self, row: int, arm: int, reward: float) -> None:
        self.model.partial_fit(np.array([arm]), np.array([reward]), self.contexts[row : row + 1])

    def choose_many(self, rows: Ints) -> Ints:
        return np.atleast_1d(np.array(self.model.predict(self.contexts[rows])))

    def learn_many(self, rows: Ints, arms: Ints, rewards: Floats) -> None:
        self.model.partial_fit(arms, rewards, self.contexts[rows])

    def prepare_log(self, rows: Ints, arms: Ints, rewards: Floats) -> Callable[[], None]:
        contexts = self.contexts[rows]
        return lambda: self.model.fit(arms, rewards, contexts)


class ContextualBandits(Peer):
    """contextualbandits' LinTS that samples the score and not the coefficients."""

    name = "contextualbandits"
    draws = "anew"

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.seed = seed
        self.model = self._new("sm")  # rank-one updates: its advice for small batches
        contexts, arms, rewards = self._one_reward_each()
        self.model.fit(contexts, arms, rewards)

    def _new(self, method: str) -> Any:
        # Sampling from "ci" multiplies the standard deviation by v_sq as it stands.
        return import_module("contextualbandits.online").LinTS(
            nchoices=self.arms,
            v_sq=V,
            fit_intercept=False,
            sample_from="ci",
            method=method,
            random_state=self.seed,
            njobs=1,
        )

    def choose(self, row: int) -> int:
        return int(self.model.predict(self.contexts[row : row + 1])[0])

    def learn(self, row: int, arm: int, reward: float) -> None:
        self.model.partial_fit(self.contexts[row : row + 1], np.array([arm]), np.array([reward]))

    def choose_many(self, rows: Ints) -> Ints:
        return np.asarray(self.model.predict(self.contexts[rows]))

    def learn_many(self, rows: Ints, arms: Ints, rewards: Floats) -> None:
        self.model.partial_fit(self.contexts[rows], arms, rewards)

    def prepare_log(self, rows: Ints, arms: Ints, rewards: Floats) -> Callable[[], None]:
        model, contexts = self._new("chol"), self.contexts[rows]

        def fit() -> None:
            model.fit(contexts, arms, rewards)

        return fit


class VowpalWabbit(Peer):
    """VW's epsilon-greedy contextual bandit, the arm sampled from its probabilities.

    Parsing once and labelling the parsed example would be faster, but VW 9.11 learns
    nothing from an example labelled after its prediction; so each string is parsed twice.
    """

    name = "vowpalwabbit"
    draws = "anew"
    remark = "epsilon-greedy on SGD, not Thompson; strings formatted before the clock starts"
    fits_by_row = True

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.open: Any = import_module("vowpalwabbit").Workspace
        self.command = f"--cb_explore {self.arms} --epsilon 0.05 --quiet"
        self.workspace: Any = self.open(self.command)
        self.random = random.Random(seed)
        self.lines = [self._line(context) for context in self.contexts]
        self.chance: dict[tuple[int, int], float] = {}

    def _line(self, context: Floats) -> str:
        if self.world.case.binary:
            return "| " + " ".join(f"f{i}" for i in np.flatnonzero(context))
        return "| " + " ".join(f"f{i}:{x:.6g}" for i, x in enumerate(context.tolist()))

    def choose(self, row: int) -> int:
        chances = self.workspace.predict(self.lines[row])
        sums = list(accumulate(chances))
        arm = min(bisect(sums, self.random.random() * sums[-1]), self.arms - 1)
        self.chance[row, arm] = chances[arm]
        return arm

    def learn(self, row: int, arm: int, reward: float) -> None:
        chance = self.chance[row, arm]
        self.workspace.learn(f"{arm + 1}:{-reward}:{chance} {self.lines[row]}")

    def prepare_log(self, rows: Ints, arms: Ints, rewards: Floats) -> Callable[[], None]:
        chance = 1.0 / self.arms
        log = zip(rows.tolist(), arms.tolist(), rewards.tolist(), strict=True)
        text = "\n".join(f"{k + 1}:{-r}:{chance} {self.lines[row]}" for row, k, r in log)
        self.folder = tempfile.TemporaryDirectory(prefix="bridle-bench-")
        path = Path(self.folder.name) / "log.vw"
        path.write_text(text + "\n", encoding="utf-8")
        # Its own reader of files is the fastest way in; it also opens the workspace.
        return lambda: self.open(f"{self.command} -d {path}").finish()


class River(Peer):
    """river's LinUCBDisjoint: upper bounds, no draws; contexts are dictionaries."""

    name = "river"
    draws = "none"
    remark = "LinUCB, not Thompson; no bulk form"
    fits_by_row = True

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        self.model: Any = import_module("river.bandit").LinUCBDisjoint(seed=seed)
        self.ids = list(range(self.arms))
        self.mappings = [self._mapping(context) for context in self.contexts]

    def _mapping(self, context: Floats) -> dict[int, float]:
        kept = np.flatnonzero(context) if self.world.case.binary else range(self.features)
        return {int(i): float(context[i]) for i in kept}

    def choose(self, row: int) -> int:
        return int(self.model.pull(self.ids, self.mappings[row]))

    def learn(self, row: int, arm: int, reward: float) -> None:
        self.model.update(arm, self.mappings[row], reward)


class BayesianBandits(Peer):
    """bayesianbandits' contextual agent with a NormalRegressor per arm."""

    name = "bayesianbandits"
    draws = "shared"
    remark = "a batch shares one draw per arm, so its batch is not comparable"

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(world, seed)
        library = import_module("bayesianbandits")
        # Precision (I + sum cc') / v**2 is the posterior whose spread is v.
        scale = 1.0 / V**2
        learners = [library.NormalRegressor(alpha=scale, beta=scale) for _ in range(self.arms)]
        arms = [library.Arm(k, learner=learner) for k, learner in enumerate(learners)]
        policy = library.ThompsonSampling()
        self.model: Any = library.ContextualAgent(arms, policy, random_seed=seed)

    def choose(self, row: int) -> int:
        return int(self.model.pull(self.contexts[row : row + 1])[0])

    def learn(self, row: int, arm: int, reward: float) -> None:
        # The arm that was pulled last is the one that is updated: no need to look it up.
        self.model.update(self.contexts[row : row + 1], np.array([reward]))

    def choose_many(self, rows: Ints) -> Ints:
        return np.array(self.model.pull(self.contexts[rows]))

    def learn_many(self, rows: Ints, arms: Ints, rewards: Floats) -> None:
        for arm, part in by_arm(arms):
            contexts = self.contexts[rows[part]]
            self.model.select_for_update(arm).update(contexts, rewards[part])


PEERS: tuple[type[Peer], ...] = (
    PseudoCode,
    VectorisedNumpy,
    Mabwiser,
    ContextualBandits,
    VowpalWabbit,
    River,
    BayesianBandits,
)

"""What the checks of agents tell them, and how they look at what an agent knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from bridle.agent import Agent
from bridle.decisions import Abstention, Decision, Question
from bridle.kernels.types import Bools, Floats, Ints
from bridle.policies import BehaviorConstrained
from bridle.settings import ArmId, ItemId

__all__ = ["MakeAgent", "Story"]

K, D = 4, 3
Made: TypeAlias = Decision | Question | Abstention


class MakeAgent(Protocol):
    """Gives a new agent; `bridle.Agent` itself, or a function that adds settings of its own."""

    def __call__(self, **settings: object) -> Agent:
        """Give an agent with these settings."""
        ...


def new(make: MakeAgent, **settings: object) -> Agent:
    """Give an agent of K arms over D features.

    A mask plays nothing before it is taught, so it is checked with the dial in its place.
    """
    given: dict[str, object] = {"arms": K, "features": D, "seed": 5, **settings}
    if make(**{**given, "sink": None}).policy.needs_limits:
        given |= {"policy": BehaviorConstrained(), "budget": 0}
    return make(**given)


def contexts(n: int, seed: int) -> Floats:
    """Give contexts out of few, so that some meet again."""
    return np.random.default_rng(seed).choice([0.0, 0.5, 1.0], size=(n, D))


@dataclass(frozen=True)
class History:
    """Examples of a teacher, or plays with what they earned: one row each."""

    contexts: Floats
    arms: Ints
    values: Floats

    @property
    def allowed(self) -> Bools:
        """The values as answers of a teacher."""
        return self.values > 0.5


def history(n: int, seed: int, arms: int = K) -> History:
    """Give n rows."""
    rng = np.random.default_rng(seed)
    return History(contexts(n, seed + 1), rng.integers(0, arms, n), rng.random(n))


@dataclass
class Story:
    """A life of an agent: every verb, in an order that the seed fixes."""

    seed: int
    waiting: list[ItemId] = field(default_factory=list)
    standing: list[ItemId] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def go(self, agent: Agent, steps: int) -> None:
        """Let `agent` live through the next steps."""
        for _ in range(steps):
            self._step(agent, self._rng.random(), self._rng.choice([0.0, 0.5, 1.0], size=D))

    def _step(self, agent: Agent, coin: float, context: Floats) -> None:
        pick, value = int(self._rng.integers(10**6)), float(self._rng.random())
        arms = [arm.id for arm in agent.arms]
        if coin < 0.40:
            among = None if value < 0.7 else arms[: 1 + pick % len(arms)]
            made = agent.decide(context, among, propensity=value < 0.5)
            if isinstance(made, Decision):
                self.waiting.append(made.id)
        elif coin < 0.65 and agent.pending:
            del self.waiting[: -agent.pending]  # the oldest may have been dropped
            agent.reward(self.waiting.pop(pick % len(self.waiting)), value)
        elif coin < 0.80:
            self.standing.append(agent.teach(context, arms[pick % len(arms)], value < 0.6))
        elif coin < 0.90:
            told = agent.answer(agent.ask(context), value < 0.6, by="check")
            if told.example is not None:
                self.standing.append(told.example)
        elif coin < 0.95 and self.standing:
            agent.retract(self.standing.pop(pick % len(self.standing)))
        elif coin < 0.98:
            rows = history(3, pick)
            agent.learn(rows.contexts, rows.arms.tolist(), rows.values)
        elif len(arms) < K + 3:
            agent.add_arms([1_000 + len(arms)])


def seen(made: Made) -> tuple[object, ...]:
    """Give all of a decision or abstention, in a form in which equal means equal bits."""
    if not isinstance(made, Decision):
        return (made.event,)
    odds = None if made.propensities is None else made.propensities.tobytes()
    return (made.event, made.parts.tobytes(), made.eligible.tobytes(), odds)


def knows(agent: Agent) -> tuple[object, ...]:
    """Give what an agent knows, as far as it can be seen: what it would do next, and why."""
    rows = (*np.eye(D), *contexts(3, 99))
    return (
        agent.version,
        agent.pending,
        agent.dropped,
        agent.sigma,
        agent.arms,
        agent.rules,
        agent.examples,
        agent.make.asked(np.ones(D)).event,
        *(seen(agent.make.decided(row, propensity=True)) for row in rows),
    )


def numbers_of(agent: Agent, chosen: list[ArmId | None]) -> Ints:
    """Give the numbers of chosen arms, −1 for an abstention."""
    number: dict[ArmId | None, int] = {arm.id: k for k, arm in enumerate(agent.arms)}
    return np.array([number.get(arm, -1) for arm in chosen], np.int64)


def a_decision(made: Made) -> Decision:
    """Give `made`, which must be a decision."""
    if not isinstance(made, Decision):
        raise TypeError(f"a decision was expected, not {made!r}")
    return made

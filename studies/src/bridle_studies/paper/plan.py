"""What a study runs: the paper's grid, with every choice in one place."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from bridle import validation
from bridle.agent.config import Json
from bridle.errors import InvalidValue
from bridle.limits import LABEL_CODINGS
from bridle.policies import DEFAULT_V, TEACHINGS, BehaviorConstrained, KnownMask, Policy
from bridle_studies.paper.published import (
    MASKS,
    PAPER_EXAMPLES,
    PAPER_FOLDS,
    PAPER_SIGMAS,
    PAPER_STEPS,
    PAPER_TEACHINGS,
)
from bridle_studies.scaffold.extensions import Extension

__all__ = [
    "Plan",
    "agent_name",
]

# The masks by the name that results give them.
READINGS = {"mask": "argmax", "mask-filter": "filter"}

FOLDS = validation.IntRange(1, 1_000)
EXAMPLES = validation.IntRange(1, 100_000_000)
STEPS = validation.IntRange(1, 100_000_000)
POINTS = validation.IntRange(1, 100_000)
CONTEXTS = validation.IntRange(1, 100_000_000)
MAX_VALUES = 1_000


def agent_name(sigma: float) -> str:
    """Return the name that results have for this sigma.

    >>> agent_name(0.25), agent_name(1.0)
    ('sigma=0.25', 'sigma=1')
    """
    text = repr(float(sigma))  # the shortest digits that give the same float again
    return f"sigma={text.removesuffix('.0')}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A grid of runs: teaching × N × agent × fold. The defaults are the paper's.

    Parameters
    ----------
    teaching : tuple of {"random", "thompson"}
        How the questions to the teacher are chosen.
    examples : tuple of int
        N: how many are asked.
    sigmas : tuple of float
        The dial. Both masks are always run. sigma = 1 does not look at what was taught, so it is
        run once a fold, as the masks are.
    folds : int
        How many parts the contexts are cut into; each teaches on its own.
    steps : int
        T.
    teaching_contexts : int, optional
        Contexts that a fold teaches on, all others are for the online phase; by default the
        contexts are divided evenly over the folds.
    redraw_constraints : bool
        Draw limits (and what else the recipe leaves to chance) anew for each fold.
    seed : int
        Two equal plans give equal results, to the bit.
    v, v_constraint, v_teaching : float
        Spread of the draws: of the reward part, of the limits part (v by default), and while
        teaching (v by default).
    ridge, ridge_limits : float
        Prior precision of the reward part and of the limits part.
    label_coding : {"1/0", "1/-1", "0/-1"}
        Numbers for "allowed" and "not allowed".
    exact_denials : bool
        Never play what the teacher denied for the very same context and arm. Not in the paper.
    checkpoints : int
        Points of a curve.
    policies : tuple of Extension
        Policies of others, a row each beside the dial. Where one keeps to limits, it may play what
        is safe by what was taught.
    reward : Extension, optional
        A reward model of somebody else's, which all agents learn with, in the place of ours.
    """

    teaching: tuple[str, ...] = PAPER_TEACHINGS
    examples: tuple[int, ...] = PAPER_EXAMPLES
    sigmas: tuple[float, ...] = PAPER_SIGMAS
    folds: int = PAPER_FOLDS
    steps: int = PAPER_STEPS["movies"]
    teaching_contexts: int | None = None
    redraw_constraints: bool = True
    seed: int = 0
    v: float = DEFAULT_V
    v_constraint: float | None = None
    v_teaching: float | None = None
    ridge: float = 1.0
    ridge_limits: float = 1.0
    label_coding: str = "1/0"
    exact_denials: bool = False
    checkpoints: int = 100
    policies: tuple[Extension, ...] = ()
    reward: Extension | None = None

    def __post_init__(self) -> None:
        owner = "Plan"
        ways = _several(self.teaching, "teaching")
        sizes = _several(self.examples, "examples")
        dial = _several(self.sigmas, "sigmas")
        checked: dict[str, object] = {
            "teaching": tuple(validation.one_of(x, TEACHINGS, "teaching", owner) for x in ways),
            "examples": tuple(sorted(EXAMPLES.check(x, "examples", owner) for x in sizes)),
            "sigmas": tuple(sorted(validation.SIGMA.check(x, "sigmas", owner) + 0.0 for x in dial)),
            "folds": FOLDS.check(self.folds, "folds", owner),
            "steps": STEPS.check(self.steps, "steps", owner),
            "redraw_constraints": validation.truth(
                self.redraw_constraints, "redraw_constraints", owner
            ),
            "seed": validation.SEED.check(self.seed, "seed", owner),
            "v": validation.SPREAD.check(self.v, "v", owner),
            "ridge": validation.RIDGE.check(self.ridge, "ridge", owner),
            "ridge_limits": validation.RIDGE.check(self.ridge_limits, "ridge_limits", owner),
            "label_coding": validation.one_of(
                self.label_coding, LABEL_CODINGS, "label_coding", owner
            ),
            "exact_denials": validation.truth(self.exact_denials, "exact_denials", owner),
            "checkpoints": POINTS.check(self.checkpoints, "checkpoints", owner),
        }
        for name in ("v_constraint", "v_teaching"):
            value = getattr(self, name)
            if value is not None:
                checked[name] = validation.SPREAD.check(value, name, owner)
        if self.teaching_contexts is not None:
            number = CONTEXTS.check(self.teaching_contexts, "teaching_contexts", owner)
            checked["teaching_contexts"] = number
        for one in (*self.policies, *(() if self.reward is None else (self.reward,))):
            kind = "reward" if one is self.reward else "policy"
            if not isinstance(one, Extension) or one.kind != kind:
                raise InvalidValue(kind, owner, "as `find_extensions` returns it", one)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for name in ("teaching", "examples", "sigmas", "policies"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise InvalidValue(name, owner, "a list without repetitions", values)

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents' names, in the order of the tables."""
        return *MASKS, *self.dial, *self.others

    @property
    def dial(self) -> dict[str, float]:
        """Sigma by the agent's name."""
        return {agent_name(sigma): sigma for sigma in self.sigmas}

    @property
    def others(self) -> dict[str, Extension]:
        """Policies of others by the agent's name."""
        return {policy.label: policy for policy in self.policies}

    @property
    def blends(self) -> tuple[str, ...]:
        """The agents that weigh what was taught: every sigma below 1."""
        return tuple(agent_name(sigma) for sigma in self.sigmas if sigma < 1.0)

    @property
    def untaught(self) -> tuple[str, ...]:
        """The agents that never look at what was taught: run once a fold."""
        return *MASKS, *(agent_name(sigma) for sigma in self.sigmas if sigma == 1.0)

    @property
    def runs(self) -> int:
        """How many online runs are made."""
        cells = len(self.teaching) * len(self.examples)
        taught = len(self.blends) + len(self.others)
        return self.folds * (cells * taught + len(self.untaught))

    def policy(self, agent: str) -> Policy:
        """Return the policy that results call `agent`."""
        if agent in MASKS:
            return KnownMask(reading=READINGS[agent], v=self.v)
        if agent in self.others:
            made: Policy = self.others[agent].load().factory()
            return made
        sigma = self.dial[agent]
        return BehaviorConstrained(sigma=sigma, v=self.v, v_constraint=self.v_constraint)

    def contexts_to_teach(self, contexts: int) -> int:
        """Return how many contexts a fold teaches on, out of all; at least one is left."""
        if contexts < max(self.folds, 2):
            remedy = f"Each teaches on its own: give at most {contexts // 2 or 1} folds."
            wanted = f"few enough for a world of {contexts} contexts"
            raise InvalidValue("folds", "Plan", wanted, self.folds, remedy)
        each = self.teaching_contexts
        if each is None:
            each = contexts // max(self.folds, 2)
        if each >= contexts or each * self.folds > contexts:
            raise InvalidValue(
                "teaching_contexts",
                "Plan",
                f"such that {self.folds} folds of them, each its own, fit into {contexts} contexts "
                "and some are left to go online with",
                each,
            )
        return each

    def to_json(self) -> dict[str, Json]:
        """Return every choice as plain JSON values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        # Left out where there are none: so a study of ours is what it was before.
        policies, reward = values.pop("policies"), values.pop("reward")
        made: dict[str, Json] = {
            k: list(v) if isinstance(v, tuple) else v for k, v in values.items()
        }
        if policies:
            made["policies"] = [policy.to_json() for policy in policies]
        if reward is not None:
            made["reward"] = reward.to_json()
        return made


def _several(values: object, name: str) -> Sequence[object]:
    wanted = f"a list of 1 to {MAX_VALUES:,} values"
    if not isinstance(values, list | tuple) or not 1 <= len(values) <= MAX_VALUES:
        raise InvalidValue(name, "Plan", wanted, values)
    return values

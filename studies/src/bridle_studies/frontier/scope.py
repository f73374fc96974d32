"""How much of the frontier is run: which methods, how long, with how many answers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

from bridle import validation
from bridle.agent.config import Json
from bridle.errors import InvalidValue
from bridle_studies.paper.plan import Plan, agent_name
from bridle_studies.scaffold.extensions import Extension

__all__ = ["DOUBTS", "HEADLINE", "METHODS", "NOISY_RANDOM", "SIGMAS", "Doubt", "Point", "Scope"]

SIGMAS = (0.0, 0.5, 0.75)  # beside .25, at one N
DENSITIES = (0.1, 0.2, 0.33, 0.5)
ALIGNMENTS = (-1.0, -0.5, 0.0, 0.5, 1.0)


class Doubt(NamedTuple):
    """How a method that asks when in doubt is made."""

    limits: str
    grouped: bool
    prior: str  # of the reward side
    noisy: bool = False  # a teacher who errs, at a rate that nobody tells


DOUBTS = {
    "doubt": Doubt("logistic", False, "paper"),
    "doubt+prior": Doubt("logistic", False, "centred"),
    "doubt+groups": Doubt("logistic", True, "centred"),
    "doubt+rules": Doubt("rules", False, "centred"),
    "doubt+rules+groups": Doubt("rules", True, "centred"),
    "doubt+rules+found": Doubt("found", False, "centred"),
    "doubt+auto+groups": Doubt("auto", True, "centred"),
    "noisy+doubt+rules+groups": Doubt("rules", True, "centred", noisy=True),
}
NOISY_RANDOM = "noisy-random"
# All methods, in the order in which they are shown.
METHODS = (
    "best-allowed",
    "best-linear",
    "mask",
    "mask+prior",
    "mask-filter",
    *map(agent_name, (0.0, 0.25, 0.5, 0.75, 1.0)),
    "logistic-mask",
    "groups",
    "active-pool",
    "active-pool-own",
    *(method for method in DOUBTS if not DOUBTS[method].noisy),
    NOISY_RANDOM,
    *(method for method in DOUBTS if DOUBTS[method].noisy),
)
# What the headline shows: ours, the paper's, and what can be had by those who are given the limits.
HEADLINE = (
    "best-allowed",
    "best-linear",
    "mask+prior",
    "mask",
    "sigma=0.25",
    "doubt+auto+groups",
    "doubt+rules+groups",
)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """How much is run. The defaults are those of the issue; `quick` is a small one.

    Parameters
    ----------
    folds, steps, seed, teaching_contexts
        As in `Plan`: each fold teaches on contexts of its own and goes online on the others.
    examples : tuple of int
        N at which sigma = .25 is taught at random; the other sigmas at `taught` alone, and the
        random examples of a teacher who errs.
    masks, groups, pool : tuples of int
        N for logistic masks: taught at random an arm, at random in groups, by chosen questions.
    sweep_steps : int
        T of the sweep over density and alignment.
    densities, alignments : tuples of float
        What the sweep runs over.
    methods : tuple of str
        Which methods are run; all by default.
    limits : tuple of Extension
        Limits of others: a method each that asks when in doubt, outside of the sweep.
    """

    folds: int = 5
    steps: int = 50_000
    seed: int = 0
    teaching_contexts: int | None = None
    examples: tuple[int, ...] = (5_000, 10_000, 50_000, 75_000, 100_000)
    taught: int = 50_000
    masks: tuple[int, ...] = (10_000, 50_000)
    groups: tuple[int, ...] = (2_000,)
    pool: tuple[int, ...] = (500, 1_000, 2_000, 5_000)
    sweep_steps: int = 10_000
    densities: tuple[float, ...] = DENSITIES
    alignments: tuple[float, ...] = ALIGNMENTS
    methods: tuple[str, ...] = METHODS
    limits: tuple[Extension, ...] = ()

    def __post_init__(self) -> None:
        if self.taught not in self.examples:
            raise InvalidValue("taught", "Scope", f"one of {self.examples}", self.taught)
        for method in self.methods:
            validation.one_of(method, METHODS, "methods", "Scope")
        for one in self.limits:
            if not isinstance(one, Extension) or one.kind != "limits":
                raise InvalidValue("limits", "Scope", "as `find_extensions` returns them", one)
        self.plan()  # checks what both have

    @classmethod
    def quick(cls) -> Scope:
        """Return a scope that takes seconds and shows nothing but that it runs."""
        return cls(
            folds=2,
            steps=2_000,
            examples=(500, 2_000),
            taught=2_000,
            masks=(500, 2_000),
            groups=(500,),
            pool=(200, 500),
            sweep_steps=500,
            densities=(0.1, 0.33),
            alignments=(-1.0, 0.0, 1.0),
        )

    @property
    def others(self) -> dict[str, Extension]:
        """Limits of others by the method's name."""
        return {f"doubt+{one.label}": one for one in self.limits}

    def headline(self) -> Scope:
        """Return the same with few methods, and the paper's dial at one N only."""
        return dataclasses.replace(self, examples=(self.taught,), methods=HEADLINE)

    def plan(self, *, sweep: bool = False) -> Plan:
        """Return the plan by whose folds it runs."""
        most = max(*self.examples, *self.masks, *self.groups)
        return Plan(
            examples=(most,),
            folds=self.folds,
            steps=self.sweep_steps if sweep else self.steps,
            seed=self.seed,
            teaching_contexts=None if sweep else self.teaching_contexts,
        )

    def to_json(self) -> dict[str, Json]:
        """Return every choice as plain JSON values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        limits = values.pop("limits")  # left out where there are none
        made: dict[str, Json] = {
            k: list(v) if isinstance(v, tuple) else v for k, v in values.items()
        }
        return made | ({"limits": [one.to_json() for one in limits]} if limits else {})


@dataclass(frozen=True)
class Point:
    """A run: what a method cost and gave.

    `examples` is the N it was taught with beforehand, None where it was not taught or asked online;
    `answers` is what the teacher was asked in all, None where the method was given the truth.
    """

    method: str
    examples: int | None
    answers: int | None
    R: float
    Rc: float
    E: int
    abstentions: int

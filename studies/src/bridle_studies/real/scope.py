"""How much of the study of real limits is run: methods, seeds, steps; its jobs and results."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from bridle import validation
from bridle.agent.config import Json
from bridle.errors import InvalidValue
from bridle_studies.environments.world import Recipe
from bridle_studies.scaffold.extensions import Extension

__all__ = [
    "ALONE_5",
    "ALPHA",
    "AT_WORD_20",
    "CALIBRATION",
    "CHANGES",
    "COIN",
    "DEFAULT",
    "EXCEPTIONS",
    "KINDS",
    "LIMITS",
    "METHODS",
    "NEWCOMERS",
    "OWN",
    "PROMISE",
    "RATES_5",
    "RATES_20",
    "SAID",
    "STAFF",
    "TEACHERS",
    "TOLD",
    "UNCHECKED",
    "USUAL",
    "Job",
    "Result",
    "Scene",
    "Scope",
    "Voice",
    "cost",
    "jobs",
    "order_of",
]

# Ours, as an agent is made where nothing is set; no other name begins so.
DEFAULT = "default"
# The same with a promise beside its checks, and without any check.
PROMISE, UNCHECKED = "promise", "unchecked"
TOLD = "told"
# Teachers who err: beside one who does not a cheap one who is wrong in 20 or 5 %, both rates to be
# learned; the same two taken at their word; and one alone, wrong in 5 %, of whom that is told.
RATES_20, RATES_5, AT_WORD_20, ALONE_5 = "rates-20", "rates-5", "at-word-20", "alone-5"
# All methods, in the order in which they are shown. (One more needs a name here and in `COSTS`, a
# run in `methods.RUNS`, words and a colour in `canvas`.)
METHODS = (
    DEFAULT,
    PROMISE,
    UNCHECKED,
    RATES_20,
    RATES_5,
    AT_WORD_20,
    ALONE_5,
    "rules",
    "logistic",
    "bcts",
    TOLD,
)
# Those of a world for which nothing else is said.
USUAL = (DEFAULT, UNCHECKED, "rules", "logistic", "bcts", TOLD)
# What a world is there to show: limits as they are, rare exceptions to them, limits that change,
# teachers who err.
KINDS = LIMITS, EXCEPTIONS, CHANGES, TEACHERS = "limits", "exceptions", "changes", "teachers"
# The promise: at most this share of denied plays, with a coin of at least this probability.
ALPHA, COIN = 0.01, 0.02
# A job of its own, which is no method: what is believed after random answers.
CALIBRATION = "calibration"
# Another: what is believed of arms that come late.
NEWCOMERS = "newcomers"
# Calibration after the method's own questions, beside that after so many random ones.
OWN = "own"
# "Allowed with at least this probability": where the doubt is held against the truth.
SAID = (0.5, 0.8, 0.9, 0.95, 0.99, 0.995)


class Voice(NamedTuple):
    """A teacher of the study: how often they err, what an answer costs, what is told of the error.

    Nothing is told (None) where it is to be learned.
    """

    name: str
    error: float
    price: float = 0.35
    told: float | None = None


# Who is asked. The first of each is held against `DEFAULT`, where the same one is asked alone.
STAFF: dict[str, tuple[Voice, ...]] = {
    DEFAULT: (Voice("good", 0.0, told=0.0),),
    RATES_20: (Voice("good", 0.0), Voice("cheap", 0.2, 0.02)),
    RATES_5: (Voice("good", 0.0), Voice("cheap", 0.05, 0.02)),
    AT_WORD_20: (Voice("good", 0.0, told=0.0), Voice("cheap", 0.2, 0.02, told=0.0)),
    ALONE_5: (Voice("errs", 0.05, told=0.05),),
}

COUNT = validation.IntRange(1, 1_000)
STEPS = validation.IntRange(1, 10_000_000)
MAX_SIZES = 10

# What a job gives, as plain JSON: `run`, the measures; `calibration`, counts by answers; where
# limits change `course`, measures on the way; where teachers err `teachers`, what each said.
Result: TypeAlias = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Scope:
    """How much is run. The defaults are those of the issue; `quick` is a small one.

    Parameters
    ----------
    seeds, seeds_found, seeds_exceptions : int
        Draws of each world; of the one whose groups are found; of those with rare exceptions.
    steps, steps_rules : int
        T; in the worlds of the frontier, whose limits are rules.
    seed : int
        Equal seeds give equal results, to the bit.
    taught : int
        Random examples of the paper's agent, `bcts`.
    calibrated : tuple of int
        Random answers after which the doubt is held against the truth.
    limits : tuple of Extension
        Limits of others: a method each, in every world of one teacher. It asks when in doubt, as
        "rules" and "logistic" do.
    """

    seeds: int = 10
    seeds_found: int = 30
    seeds_exceptions: int = 20
    steps: int = 20_000
    steps_rules: int = 50_000
    seed: int = 0
    taught: int = 50_000
    calibrated: tuple[int, ...] = (100, 300, 1_000)
    limits: tuple[Extension, ...] = ()

    def __post_init__(self) -> None:
        for name in ("seeds", "seeds_found", "seeds_exceptions"):
            COUNT.check(getattr(self, name), name, "Scope")
        for name in ("steps", "steps_rules", "taught"):
            STEPS.check(getattr(self, name), name, "Scope")
        validation.SEED.check(self.seed, "seed", "Scope")
        sizes = self.calibrated
        if not isinstance(sizes, tuple) or not 1 <= len(set(sizes)) == len(sizes) <= MAX_SIZES:
            wanted = f"1 to {MAX_SIZES} different numbers of answers"
            raise InvalidValue("calibrated", "Scope", wanted, sizes)
        for size in sizes:
            STEPS.check(size, "calibrated", "Scope")
        for one in self.limits:
            if not isinstance(one, Extension) or one.kind != "limits":
                raise InvalidValue("limits", "Scope", "as `find_extensions` returns them", one)

    @classmethod
    def quick(cls) -> Scope:
        """Return a scope that takes seconds and shows nothing but that it runs."""
        return cls(
            seeds=2,
            seeds_found=2,
            seeds_exceptions=1,
            steps=400,
            steps_rules=400,
            taught=1_000,
            calibrated=(20, 60),
        )

    def to_json(self) -> dict[str, Json]:
        """Return every choice as plain JSON values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        limits = values.pop("limits")  # left out where there are none
        made: dict[str, Json] = {
            k: list(v) if isinstance(v, tuple) else v for k, v in values.items()
        }
        return made | ({"limits": [one.to_json() for one in limits]} if limits else {})


@dataclass(frozen=True, eq=False, kw_only=True)
class Scene:
    """A world of the study, and how it is run.

    Attributes
    ----------
    name : str
        What results call it.
    recipe : Recipe
        What its worlds are drawn from.
    rules : bool
        Whether it is a world of the frontier: folds, each taught on contexts of its own.
    steps, seeds : int
        T, and how many draws.
    teaching_contexts : int, optional
        Of a fold, as in `Plan`.
    limits : str
        The kind of limits of the default method.
    about : str
        What its limits are, in a few words.
    kind : str
        One of `KINDS`: what it is there to show.
    methods : tuple of str
        What is run in it, among `METHODS`, and limits of others by their labels.
    calibrated : bool
        Whether the doubt is held against the truth.
    pays : float
        What a denied arm earns more: violating pays.
    stricter : bool
        Whether limits become one step stricter half-way.
    newcomers : bool
        Whether arms that come late are held against the truth: a job of its own.
    """

    name: str
    recipe: Recipe
    steps: int
    seeds: int
    rules: bool = False
    teaching_contexts: int | None = None
    limits: str = "auto"
    about: str = ""
    kind: str = LIMITS
    methods: tuple[str, ...] = USUAL
    calibrated: bool = True
    pays: float = 0.0
    stricter: bool = False
    newcomers: bool = False

    @property
    def turn(self) -> int | None:
        """The first step at which other limits are in force, if there are."""
        return self.steps // 2 if self.stricter else None


class Job(NamedTuple):
    """A method in one world with one seed, or its calibration."""

    world: str
    seed: int
    part: str

    @property
    def key(self) -> str:
        """A name that no other job of the study has, also as a file."""
        plain = "".join(letter if letter.isalnum() else "-" for letter in self.world)
        return f"{plain[:60]}-{self.seed}-{quote(self.part, safe='')}"


def order_of(method: str) -> tuple[int, str]:
    """Return where a method is shown: ours as in `METHODS`, then those of others by name."""
    return METHODS.index(method) if method in METHODS else len(METHODS), method


def jobs(scenes: list[Scene]) -> list[Job]:
    """Cut the study into jobs, those of one world and seed one after the other."""
    return [
        Job(scene.name, seed, part)
        for scene in scenes
        for seed in range(scene.seeds)
        for part in (
            *scene.methods,
            *([CALIBRATION] if scene.calibrated else []),
            *([NEWCOMERS] if scene.newcomers else []),
        )
    ]


# Seconds of a job on one core at full length, roughly: for the bar.
COSTS = {
    DEFAULT: 3.0,
    PROMISE: 3.5,
    UNCHECKED: 1.5,
    RATES_20: 4.0,
    RATES_5: 4.0,
    AT_WORD_20: 6.0,
    ALONE_5: 8.0,
    "rules": 0.1,
    "logistic": 0.1,
    "bcts": 0.1,
    TOLD: 0.05,
    CALIBRATION: 1.5,
    NEWCOMERS: 30.0,
}
OTHERS = 30.0  # in plain Python
# So much of that where nearly all is free for all, as there is less to learn, and where groups are
# found, as every arm is a unit.
FREE, UNGROUPED = 0.7, 2.7
# Where arms have features: many arms, and limits over pairs.
PAIRED = 10.0


def cost(job: Job, scene: Scene) -> float:
    """Guess what a job costs, beside others."""
    if job.part == NEWCOMERS:
        return COSTS[NEWCOMERS]
    scale = FREE if scene.kind == EXCEPTIONS else UNGROUPED if scene.limits == "found" else 1.0
    scale = PAIRED if scene.newcomers else scale
    return COSTS.get(job.part, OTHERS) * scale

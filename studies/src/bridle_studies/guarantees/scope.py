"""How much of the study of promises is tried: kinds of limits, rates, coins, cases; its jobs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bridle import validation
from bridle.agent.config import Json
from bridle.audit.meter import MAX_VARIED
from bridle.certificates.binomial import contexts_needed
from bridle_studies.scaffold.journal import file_name

__all__ = [
    "AFTER",
    "ALPHAS",
    "AUDIT_DELTA",
    "BATCH",
    "BEFORE",
    "CASES",
    "COINS",
    "DELTA",
    "FAR",
    "KINDS",
    "LAGS",
    "LATE",
    "LEAST_COIN",
    "LEVEL",
    "LOGGED",
    "LOGGED_V",
    "NEAR",
    "PAYS",
    "PLAIN",
    "PLAYERS",
    "PROMISED",
    "PROMISE_Q",
    "RAISE",
    "RATES",
    "SIGMAS",
    "SURE",
    "Found",
    "Job",
    "Kind",
    "Scope",
    "cost",
    "jobs",
]

ALPHAS = (0.05, 0.01)
DELTA = 0.1  # of a certificate
RATES, COINS, AUDIT_DELTA = (0.0, 0.001, 0.01, 0.1), (0.01, 0.05, 0.2), 0.05
# Limits that change half-way: violations a step before and after, and what is granted.
BEFORE, AFTER, LEVEL = 0.002, 0.1, 0.02
# An answer comes up to so many steps late.
LATE = 200
# Meters whose coin varies: the least it is.
LEAST_COIN = 0.05
# The promise that acts: alpha and q, how late audits are answered, and who plays.
PROMISED, PROMISE_Q, LAGS = 0.01, 0.02, (0, 50, 250, 500)
SURE = 0.3  # what a belief that is always sure has of its plays denied
PLAYERS = {
    "always sure": f"believes all it plays is allowed; {100 * SURE:g} % of it is not",
    "limits change": f"does nothing wrong at first; from half-way on {100 * SURE:g} % is denied",
    "violating pays": "plays what is denied whenever it may",
    "clean": "plays nothing that is denied",
}
SIGMAS = np.linspace(0.0, 1.0, 11)
# What a denied arm earns more, where violating pays.
RAISE = 0.4
PLAIN, PAYS = "as they are", "raised where denied"
# Logs are of sigma = .5, with wide draws: a log that tries much can speak of much.
LOGGED, LOGGED_V, NEAR, FAR = 0.5, 0.5, 0.4, 1.0
# What the cases of the evaluation are.
CASES = {
    "near": f"sigma {LOGGED:g} to {NEAR:g}",
    "far": f"sigma {LOGGED:g} to {FAR:g}",
    "no support": "a learned mask to random play",
}
Found: TypeAlias = dict[str, Any]


class Kind(NamedTuple):
    """Limits that are certified: of what kind, whether arms share them, and in what world."""

    limits: str
    grouped: bool
    pairs: bool = False  # where pairs of genres are denied


KINDS = {
    "auto": Kind("auto", True),
    "rules": Kind("rules", True),
    "logistic": Kind("logistic", True),
    "found": Kind("found", False),
    "linear": Kind("linear", False),
    # Rules of single genres cannot say such limits: they are confidently wrong.
    "rules (pairs denied)": Kind("rules", True, pairs=True),
}


@dataclass(frozen=True, kw_only=True)
class Scope:
    """How much is tried. The defaults are those of the issue; `quick` is a small one.

    Parameters
    ----------
    seed : int
        Equal seeds give equal results, to the bit.
    folds : int
        Draws of limits; each is taught and certified anew.
    recalibrations : int
        Certificates of each fold, kind and alpha.
    contexts : int
        Calibration contexts of each.
    taught, taught_linear : int
        Random answers that limits are taught with; the paper's linear ones need many.
    steps, adaptive : int
        T of a run inside the certified sets, and with how many certificates of each fold.
    later : int
        Steps after the pilot by which a sigma is chosen.
    sequences, length : int
        Audit meters of each cell, and their steps.
    varied : int
        Steps of the meters whose coin varies; there are `sequences` of them in each cell as well.
    runs, horizon : int
        Purses of each case and lag of the promise that acts, and their steps, T.
    logs, decisions : int
        Logs that are evaluated, and the length of each.
    """

    seed: int = 0
    folds: int = 5
    recalibrations: int = 60
    contexts: int = 600
    taught: int = 200
    taught_linear: int = 50_000
    steps: int = 10_000
    adaptive: int = 4
    later: int = 5_000
    sequences: int = 1_000
    length: int = 10_000
    varied: int = 5_000
    runs: int = 2_000
    horizon: int = 20_000
    logs: int = 480
    decisions: int = 150

    def __post_init__(self) -> None:
        validation.SEED.check(self.seed, "seed", "Scope")
        least = {
            "contexts": contexts_needed(min(ALPHAS), DELTA),
            "length": 100,
            "runs": 2,
            "decisions": 10,
        }
        most = {"varied": MAX_VARIED, "runs": 10**6}
        for field in dataclasses.fields(self)[1:]:
            allowed = validation.IntRange(least.get(field.name, 1), most.get(field.name, 10**7))
            allowed.check(getattr(self, field.name), field.name, "Scope")
        top = validation.IntRange(1, self.recalibrations)
        top.check(self.adaptive, "adaptive", "Scope")

    @classmethod
    def quick(cls) -> Scope:
        """Return a scope that takes seconds and shows little but that it runs."""
        return cls(
            folds=2,
            recalibrations=20,
            contexts=300,
            taught=100,
            taught_linear=5_000,
            steps=2_000,
            adaptive=1,
            later=1_000,
            sequences=100,
            length=2_000,
            varied=1_500,
            runs=200,
            logs=24,
            decisions=100,
        )

    def to_json(self) -> dict[str, Json]:
        """Return every choice as plain JSON values."""
        return dataclasses.asdict(self)


class Job(NamedTuple):
    """A piece of work: its part, what it is about (a kind, a player or nothing), and numbers."""

    part: str
    name: str = ""
    number: int = 0  # of the fold, the first log or the cell; the lag
    rate: float = 0.0
    q: float = 0.0

    @property
    def key(self) -> str:
        """A name that no other job of the study has, also as a file."""
        return file_name(*self)


BATCH = 40  # logs of a job


def jobs(scope: Scope) -> list[Job]:
    """Cut the study into jobs.

    >>> [job.part for job in jobs(Scope.quick())][-1]
    'course'
    """
    folds = range(scope.folds)
    return [
        *(Job("certificate", kind, fold) for kind in KINDS for fold in folds),
        *(Job("pilot", "", fold) for fold in folds),
        Job("varied", "", 0, 0.0, LEAST_COIN),
        *(Job("promise", player, lag) for player in PLAYERS for lag in LAGS),
        *(Job("evaluate", "", first) for first in range(0, scope.logs, BATCH)),
        *(Job("audit", "", i, rate, q) for i, rate in enumerate(RATES) for q in COINS),
        *(Job("alarm", "", 0, 0.0, q) for q in COINS),
        Job("course", "", 0, 0.01, 0.05),
    ]


def cost(job: Job) -> float:
    """Guess what a job costs, beside others: for the bar."""
    return {"certificate": 4.0, "pilot": 3.0, "evaluate": 4.0, "varied": 6.0}.get(job.part, 1.0)

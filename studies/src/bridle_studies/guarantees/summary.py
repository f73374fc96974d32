"""What the tries of each promise add up to: `promises.json`, and the numbers beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bridle.certificates.binomial import binomial_quantile
from bridle_studies.guarantees.scope import (
    ALPHAS,
    AUDIT_DELTA,
    CASES,
    COINS,
    DELTA,
    KINDS,
    PAYS,
    PLAIN,
    RATES,
    Found,
)

__all__ = [
    "Certified",
    "Piloted",
    "alarms",
    "certified",
    "held",
    "most",
    "piloted",
    "promised",
    "summary",
    "varied",
]


@dataclass(frozen=True, kw_only=True)
class Certified:
    """All certificates of one kind of limits and one alpha.

    Attributes
    ----------
    limits, alpha, taught
        Whose, for what share, after how many random answers.
    shares : list of float
        Of each certificate: the exact share of the pool whose certified set holds a denied arm.
    one_arm : list of float
        The same for the threshold of the shortcut.
    rates : mapping from the rewards to a list of float
        Violations a step of agents that learn inside the certified sets.
    beyond : int
        How many of those runs had more violations than the certificate's bound for them.
    free : mapping from the rewards to a float
        Violations a step of the same agent without limits.
    answers, keeps, abstains, Rc, told : float
        The price, means: answers to calibrate, share of contexts that keep an arm, share of steps
        without a play, regret inside the limits (Rc); and Rc of an agent that is told the limits.
    """

    limits: str
    alpha: float
    taught: int
    shares: list[float]
    one_arm: list[float]
    rates: dict[str, list[float]]
    beyond: int
    free: dict[str, float]
    answers: float
    keeps: float
    abstains: float
    Rc: float
    told: float

    @property
    def broken(self) -> int:
        """How many certificates broke their promise."""
        return sum(share > self.alpha for share in self.shares)

    @property
    def one_arm_broken(self) -> int:
        """How many thresholds of the shortcut did."""
        return sum(share > self.alpha for share in self.one_arm)


@dataclass(frozen=True, kw_only=True)
class Piloted:
    """All sigmas that were chosen on a pilot, for one alpha and kind of rewards."""

    rewards: str
    alpha: float
    runs: int
    none: int  # in so many no sigma would do
    broken: int
    rate: float  # violations a step afterwards, where one was chosen


def summary(found: Sequence[Found]) -> dict[str, list[dict[str, Any]]]:
    """Return what `promises.json` holds."""
    cells = _of(found, "audit")
    logs = [log for batch in _of(found, "evaluate") for log in batch["logs"]]
    return {
        "certificate": [
            {
                "limits": cell.limits,
                "alpha": cell.alpha,
                "delta": DELTA,
                "recalibrations": len(cell.shares),
                "broken": cell.broken,
            }
            for cell in certified(found)
        ],
        "audit": [
            {
                "rate": rate,
                "q": q,
                "delta": AUDIT_DELTA,
                "sequences": cell["sequences"],
                "wrong": cell["wrong"],
            }
            for rate in RATES
            for q in COINS
            for cell in cells
            if (cell["rate"], cell["q"]) == (rate, q)
        ],
        "evaluate": [
            {
                "case": case,
                "logs": len(mine),
                "covered": sum(log["dr"] for log in mine),
                "refused": sum(log["refused"] for log in mine),
            }
            for case in CASES
            if (mine := [log for log in logs if log["case"] == case])
        ],
        "promise": [one["row"] for one in promised(found)],
        "meter_varying": varied(found),
    }


def certified(found: Sequence[Found]) -> list[Certified]:
    """Gather the certificates by kind of limits and alpha."""
    out = []
    for kind in KINDS:
        folds = [one for one in _of(found, "certificate") if one["limits"] == kind]
        for alpha in ALPHAS if folds else ():
            parts = [part for one in folds for part in one["by_alpha"] if part["alpha"] == alpha]
            runs = [run for part in parts for run in part["runs"]]
            plain = [run for run in runs if run["rewards"] == PLAIN]
            out.append(
                Certified(
                    limits=kind,
                    alpha=alpha,
                    taught=folds[0]["taught"],
                    shares=[share for part in parts for share in part["shares"]],
                    one_arm=[share for part in parts for share in part["one_arm"]],
                    rates={
                        rewards: [r["E"] / r["steps"] for r in runs if r["rewards"] == rewards]
                        for rewards in (PLAIN, PAYS)
                    },
                    beyond=sum(run["E"] > run["most"] for run in runs),
                    free={r: mean(one["free"][r] for one in folds) for r in (PLAIN, PAYS)},
                    answers=mean(run["answers"] for run in plain),
                    keeps=mean(kept for part in parts for kept in part["keeps"]),
                    abstains=mean(run["abstentions"] / run["steps"] for run in plain),
                    Rc=mean(run["Rc"] for run in plain),
                    told=mean(one["told_Rc"] for one in folds),
                )
            )
    return out


def piloted(found: Sequence[Found]) -> list[Piloted]:
    """Gather the pilots by rewards and alpha."""
    runs = [run for one in _of(found, "pilot") for run in one["runs"]]
    out = []
    for rewards in (PLAIN, PAYS):
        for alpha in ALPHAS:
            mine = [run for run in runs if (run["rewards"], run["alpha"]) == (rewards, alpha)]
            chosen = [run for run in mine if run["sigma"] is not None]
            out.append(
                Piloted(
                    rewards=rewards,
                    alpha=alpha,
                    runs=len(mine),
                    none=len(mine) - len(chosen),
                    broken=sum(run["broken"] for run in mine),
                    rate=mean(run["rate"] for run in chosen),
                )
            )
    return out


def alarms(found: Sequence[Found]) -> list[dict[str, Any]]:
    """Return, for each q, the delays of the alarms after the change, and how many were false."""
    out = []
    for one in _of(found, "alarm"):
        changed = one["changed"]
        out.append(
            {
                **one,
                "runs": len(one["alarms"]),
                "delays": sorted(a - changed for a in one["alarms"] if a > changed),
                "false": sum(0 < a <= changed for a in one["alarms"]),
                "never": sum(a == 0 for a in one["alarms"]),
            }
        )
    return out


def promised(found: Sequence[Found]) -> list[Found]:
    """Return what became of the purses, by player and lag."""
    return _of(found, "promise")


def held(one: Found) -> bool:
    """Return whether the mean of these runs is one that the promise, if it holds, can have.

    It is if it is within the bound; where runs are few, luck may add to that (error 1e-6).
    """
    return bool(one["row"]["mean_E"] <= one["refuted"])


def varied(found: Sequence[Found]) -> list[dict[str, Any]]:
    """Return the cells of the meters whose coin varies."""
    return [
        {"q": one["q"], "delta": AUDIT_DELTA, **cell}
        for one in _of(found, "varied")
        for cell in one["cells"]
    ]


def most(tries: int, chance: float) -> int:
    """Return how often at most something of this chance is seen in so many tries, but for 1e-6.

    >>> most(300, 0.1)
    57
    """
    return binomial_quantile(tries, chance, 1e-6)


def mean(values: Iterable[float]) -> float:
    """Return the mean, 0 of nothing."""
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else 0.0


def _of(found: Sequence[Found], part: str) -> list[Found]:
    return [one for one in found if one["part"] == part]

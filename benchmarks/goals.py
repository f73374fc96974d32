"""The goals that bridle sets itself, each judged on the figures of one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.growth import Startup
from benchmarks.measure import Mode, Result
from benchmarks.peers import PEERS

Rates = Mapping[tuple[str, Mode, str], float]
"""Items per second by case, mode and contestant."""

SPEED_GOALS: tuple[tuple[str, Mode, str, float], ...] = (
    ("100x10", "loop", "vowpalwabbit", 60.0),
    ("100x10", "loop", "mabwiser", 5_000.0),
    ("100x10", "loop", "numpy", 18.0),
    ("4x41", "loop", "vowpalwabbit", 13.0),
    ("1000x50", "loop", "vowpalwabbit", 5.0),
    ("100x10", "single", "vowpalwabbit", 3.0),
    ("100x10", "single", "mabwiser", 300.0),
    ("1000x50", "single", "vowpalwabbit", 2.0),
    ("1000x50", "single", "numpy", 1.2),
    ("4x41", "batch", "contextualbandits", 1.2),
    ("100x10", "fit", "numpy", 1.0),
    ("4x41", "fit", "numpy", 1.0),
    ("1000x50", "fit", "numpy", 1.0),
    ("10000x20x10", "loop", "vowpalwabbit", 1_000.0),
    ("10000x20x10", "single", "vowpalwabbit", 200.0),
    ("100000x20x10", "loop", "matvec", 0.5),
)
# The loop inside learned limits over the loop without: in time.
LIMITS_GOAL = 2.0
# Ten arms at once, each with its reward, over one: in time, and for the case of ten thousand arms.
SLATE_GOAL = 1.3
SLATE_CASE = "10000x20x10"

STARTUP_GOAL = 3.0
REFIT_GOAL = 50.0
MASK_GOAL = 2.0
# One answer of auto over one of 4f134e2: by features and units.
AUTO_GOALS = {(10, 7): 2.0, (10, 30): 2.0, (41, 7): 2.0, (41, 30): 2.0, (200, 30): 0.1}


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A ratio that was wanted and the one that came out."""

    text: str
    wanted: float
    got: float
    at_most: bool = False

    @property
    def reached(self) -> bool:
        """Whether the ratio is on the right side of what was wanted."""
        return self.got <= self.wanted if self.at_most else self.got >= self.wanted


def judge_study(grid: Mapping[str, float] | None, loading: Mapping[str, Any] | None) -> list[Goal]:
    """Judge the goals of the study: the whole grid, and reading 20 million ratings."""
    found = []
    if grid is not None:
        text = "the grid of the movies: pseudo-code / bridle"
        found += [Goal(text=text, wanted=3_000.0, got=grid["pseudo-code ratio"])]
    if loading is not None:
        text = "loading MovieLens 20M / a bare scan"
        found += [Goal(text=text, wanted=3.0, got=loading["ratio"], at_most=True)]
        peak = loading["costs"]["load from csv"]["peak_bytes"] / 1e9
        found += [Goal(text="its peak of memory, in GB", wanted=1.5, got=peak, at_most=True)]
    return found


def judge_limits(
    refit: float, masks: Mapping[str, float], duels: Mapping[tuple[int, int], float]
) -> list[Goal]:
    """Judge the goals of limits: a refit, a decision inside a learned mask, an answer of auto.

    ``duels`` are ratios by features and units; those that no goal is about are passed over.
    """
    text = "a refit of logistic limits (123 contexts × 10) / a compiled decision (100x10)"
    found = [Goal(text=text, wanted=REFIT_GOAL, got=refit, at_most=True)]
    for case, ratio in masks.items():
        text = f"{case}: a decision inside a learned mask / one of BCTS"
        found.append(Goal(text=text, wanted=MASK_GOAL, got=ratio, at_most=True))
    for (d, U), wanted in AUTO_GOALS.items():
        if (d, U) in duels:
            text = f"{d} features, {U} units: an answer of auto / one of 4f134e2"
            found.append(Goal(text=text, wanted=wanted, got=duels[d, U], at_most=True))
    return found


def rates_of(results: Iterable[Result]) -> dict[tuple[str, Mode, str], float]:
    """Index results by case, mode and contestant."""
    return {(r.case, r.mode, r.who): r.per_second for r in results}


def judge(rates: Rates, startup: Startup | None) -> list[Goal]:
    """Judge every goal whose figures are there; a skipped peer has none."""
    goals = []
    for case, mode, who, wanted in SPEED_GOALS:
        got = _ratio(rates, case, mode, who)
        if got is not None:
            text = f"{case} {mode}: bridle / {who}"
            goals.append(Goal(text=text, wanted=wanted, got=got))
    goals += _batch_goals(rates)
    for case in dict.fromkeys(case for case, _, _ in rates):
        free = rates.get((case, "loop", "bridle"))
        limited = rates.get((case, "loop-limits", "bridle"))
        if free is not None and limited is not None:
            text = f"{case}: the time of loop-limits / of loop"
            goals.append(Goal(text=text, wanted=LIMITS_GOAL, got=free / limited, at_most=True))
        # The agent inside limits beside the agent without: `loop` has no agent.
        alone = rates.get((case, "single", "bridle"))
        if alone is not None and limited is not None:
            text = f"{case}: the time of loop-limits / of single"
            goals.append(Goal(text=text, wanted=LIMITS_GOAL, got=alone / limited, at_most=True))
    one = rates.get((SLATE_CASE, "slate-1", "bridle"))
    ten = rates.get((SLATE_CASE, "slate-10", "bridle"))
    if one is not None and ten is not None:
        text = f"{SLATE_CASE}: the time of slate-10 / of slate-1"
        goals.append(Goal(text=text, wanted=SLATE_GOAL, got=one / ten, at_most=True))
    if startup is not None:
        for text, got in (
            ("import bridle / import numpy", startup.import_ratio),
            ("bridle --help / import numpy", startup.help_ratio),
        ):
            goals.append(Goal(text=text, wanted=STARTUP_GOAL, got=got, at_most=True))
    return goals


def _batch_goals(rates: Rates) -> list[Goal]:
    """Judge batches against the fastest peer that draws anew for each context."""
    anew = {peer.name for peer in PEERS if peer.draws == "anew"}
    goals = []
    for case in dict.fromkeys(case for case, _, _ in rates):
        ratios = {who: _ratio(rates, case, "batch", who) for who in anew}
        known = {who: ratio for who, ratio in ratios.items() if ratio is not None}
        if known:
            nearest = min(known, key=lambda who: known[who])
            text = f"{case} batch: bridle / {nearest} (fastest that draws anew)"
            goals.append(Goal(text=text, wanted=1.0, got=known[nearest]))
    return goals


def _ratio(rates: Rates, case: str, mode: Mode, who: str) -> float | None:
    ours, theirs = rates.get((case, mode, "bridle")), rates.get((case, mode, who))
    return None if ours is None or theirs is None else ours / theirs

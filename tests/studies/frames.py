"""Made-up results, curves and lessons in which the paper's claims hold, to be mutated by tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

PAPER_N = (5_000, 10_000, 50_000, 75_000, 100_000)
SIGMAS = (0.0, 0.25, 0.5, 0.75, 1.0)
TEACHINGS = ("random", "thompson")
# Under random teaching at 100K. R of the masks: .205 and .221.
BASE_R = {0.0: 0.280, 0.25: 0.198, 0.5: 0.190, 0.75: 0.180, 1.0: 0.166}
BASE_E = {0.0: 0, 0.25: 0, 0.5: 120, 0.75: 1_600, 1.0: 22_000}

RESULTS = {
    "world": pl.String,
    "fold": pl.Int64,
    "teaching": pl.String,
    "examples": pl.Int64,
    "agent": pl.String,
    "sigma": pl.Float64,
    "steps": pl.Int64,
    "R": pl.Float64,
    "Rc": pl.Float64,
    "E": pl.Int64,
    "abstentions": pl.Int64,
    "blend_regret": pl.Float64,
}
CURVES = {
    "world": pl.String,
    "fold": pl.Int64,
    "teaching": pl.String,
    "examples": pl.Int64,
    "agent": pl.String,
    "t": pl.Int64,
    "R": pl.Float64,
    "Rc": pl.Float64,
    "E": pl.Int64,
    "abstentions": pl.Int64,
    "blend_regret": pl.Float64,
}
LESSONS = {
    "world": pl.String,
    "fold": pl.Int64,
    "teaching": pl.String,
    "n": pl.Int64,
    "denied": pl.Int64,
    "regret": pl.Float64,
}


@dataclass
class Frames:
    results: pl.DataFrame
    curves: pl.DataFrame
    lessons: pl.DataFrame

    def __iter__(self):
        return iter((self.results, self.curves, self.lessons))

    def only(self, where: pl.Expr) -> Frames:
        """Keep the results (and curves) where this is so."""
        return Frames(self.results.filter(where), self.curves.filter(where), self.lessons)

    def change(self, measure: str, where: pl.Expr, to: pl.Expr | float) -> Frames:
        """Put another number into the results."""
        value = to if isinstance(to, pl.Expr) else pl.lit(to)
        kind = RESULTS[measure]
        changed = pl.when(where).then(value).otherwise(pl.col(measure)).cast(kind).alias(measure)
        return Frames(self.results.with_columns(changed), self.curves, self.lessons)

    def bend(self, measure: str, where: pl.Expr, to: Callable[[np.ndarray], np.ndarray]) -> Frames:
        """Put other curves in: `to` makes them of t / T."""
        x = (self.curves["t"] / self.curves["t"].max()).to_numpy()
        bent = pl.Series(measure, to(x)).cast(CURVES[measure])
        chosen = pl.when(where).then(pl.col("bent")).otherwise(pl.col(measure)).alias(measure)
        curves = self.curves.with_columns(bent.alias("bent")).with_columns(chosen).drop("bent")
        return Frames(self.results, curves, self.lessons)


def runs(teachings, examples, sigmas):
    """List (teaching, examples, agent, sigma) of each run of a fold."""
    once = [("mask", None), ("mask-filter", None)] + [("sigma=1", 1.0)] * (1.0 in sigmas)
    listed = [(None, None, agent, sigma) for agent, sigma in once]
    for teaching in teachings:
        for N in examples:
            listed += [(teaching, N, f"sigma={s:g}", s) for s in sigmas if s < 1.0]
    return listed


def level(world, teaching, N, agent, sigma):
    """Give R and E of a cell, without noise."""
    if agent == "mask":
        return (0.5 if "movies" not in world else 0.205), 0
    if agent == "mask-filter":
        return (0.51 if "movies" not in world else 0.221), 0
    R, E = BASE_R[sigma], BASE_E[sigma]
    if sigma < 1.0:
        E += {5_000: 300, 10_000: 60}.get(N, 0) + (0 if N is None or N > 5_000 else 100)
        if teaching == "thompson":
            R, E = R + 0.01, E + 350
    if sigma == 0.25 and E > 0:
        E += 5
    if "movies" not in world:
        R = {0.0: 0.6, 0.25: 0.52, 0.5: 0.45, 0.75: 0.4, 1.0: 0.33}[sigma]
        E = {0.25: 1_900, 0.5: 2_500, 0.75: 3_500, 1.0: 4_860}.get(sigma, 1_500) + E % 50
        if teaching == "random" and sigma < 1.0:
            R, E = R + 0.02, E - 1_400
    return R, E


def make(
    world="movies",
    steps=None,
    folds=5,
    teachings=TEACHINGS,
    examples=PAPER_N,
    sigmas=SIGMAS,
    seed=0,
) -> Frames:
    """Make a study in which every claim of the paper holds (where it can be judged)."""
    rng = np.random.default_rng(seed)
    T = steps or (50_000 if "movies" in world else 20_000)
    t = np.unique(np.linspace(0, T, 101).astype(int)[1:])
    rows, curves, lessons = [], [], []
    for fold in range(folds):
        shift = rng.normal(0.0, 0.004)  # shared by the fold: pairing takes it out
        for teaching, N, agent, sigma in runs(teachings, examples, sigmas):
            R, E = level(world, teaching, N, agent, sigma)
            R += shift + rng.normal(0.0, 0.0005)
            E = int(E * T / 50_000) if "movies" in world else int(E * T / 20_000)
            E += int(rng.integers(0, 3)) if E > 20 else 0
            blend = None
            if sigma is not None:
                blend = 100.0 + 400.0 * (10_000 / N if N else 1.0) ** 0.5 + rng.normal()
            key = (world, fold, teaching, N, agent)
            rows.append((*key, sigma, T, R, R + 0.01, E, 0, blend))
            for step in t.tolist():
                x = step / T
                bent = None if blend is None else blend * x**0.6
                curves.append((*key, step, R, R, round(E * x), 0, bent))
        for teaching in teachings:
            for n in np.unique(np.linspace(0, max(examples), 101).astype(int)[1:]).tolist():
                regret = 0.4 * n if teaching == "random" else 5.0 * n**0.5
                lessons.append((world, fold, teaching, n, int(regret), regret))
    return Frames(
        pl.DataFrame(rows, schema=RESULTS, orient="row"),
        pl.DataFrame(curves, schema=CURVES, orient="row"),
        pl.DataFrame(lessons, schema=LESSONS, orient="row"),
    )

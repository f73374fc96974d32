"""Results as tables: a row a run, a row a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from bridle_studies.paper.plan import Plan
from bridle_studies.paper.published import MASKS
from bridle_studies.paper.work import Batch, BatchResult, Class, ClassResult

__all__ = ["curves_frame", "lessons_frame", "results_frame"]

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


def curves_frame(
    world: str, batches: Sequence[Batch], results: Mapping[str, BatchResult]
) -> pl.DataFrame:
    """Return every measure of every run at every checkpoint, in the order of the jobs."""
    parts = []
    for job in batches:
        result = results[job.key]
        for a, agent in enumerate(job.agents):
            columns: dict[str, Any] = {
                "world": world,
                "fold": job.fold,
                "teaching": job.teaching,
                "examples": job.examples,
                "agent": agent,
                "t": result.t,
                "R": result.R[a],
                "Rc": result.Rc[a],
                "E": result.E[a],
                "abstentions": result.abstentions[a],
                "blend_regret": np.full(len(result.t), np.nan)
                if agent in MASKS
                else result.blend_regret[a],
            }
            parts.append(pl.DataFrame(columns, schema=CURVES))
    return pl.concat(parts).with_columns(pl.col("blend_regret").fill_nan(None))


def results_frame(curves: pl.DataFrame, plan: Plan) -> pl.DataFrame:
    """Return a row a run: the measures at its end."""
    sigma = pl.col("agent").replace_strict(plan.dial, default=None, return_dtype=pl.Float64)
    return (
        curves.filter(pl.col("t") == plan.steps)
        .rename({"t": "steps"})
        .with_columns(sigma=sigma)
        .select(
            "world",
            "fold",
            "teaching",
            "examples",
            "agent",
            "sigma",
            "steps",
            "R",
            "Rc",
            "E",
            "abstentions",
            "blend_regret",
        )
    )


def lessons_frame(
    world: str, classes: Sequence[Class], results: Mapping[str, ClassResult]
) -> pl.DataFrame:
    """Return the curve of every lesson."""
    parts = []
    for job in classes:
        result = results[job.key]
        columns: dict[str, Any] = {
            "world": world,
            "fold": job.fold,
            "teaching": job.teaching,
            "n": result.n,
            "denied": result.denied,
            "regret": result.regret,
        }
        parts.append(pl.DataFrame(columns, schema=LESSONS))
    return pl.concat(parts)

"""The numbers of the study of real limits: `real.csv`, `calibration.csv`, and means over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from bridle_studies.real.scope import (
    CALIBRATION,
    DEFAULT,
    LIMITS,
    NEWCOMERS,
    OWN,
    SAID,
    TOLD,
    Job,
    Result,
    order_of,
)

__all__ = [
    "CALIBRATION_SCHEMA",
    "COURSE_SCHEMA",
    "DOUBT",
    "NEWCOMERS_SCHEMA",
    "RUNS_SCHEMA",
    "Cell",
    "Said",
    "calibration_frame",
    "calibrations",
    "cells",
    "course_frame",
    "newcomers_frame",
    "runs_frame",
]

RUNS_SCHEMA: dict[str, Any] = {
    "world": pl.String,
    "method": pl.String,
    "seed": pl.Int64,
    "answers": pl.Int64,
    "audits": pl.Int64,
    "E": pl.Int64,
    "T": pl.Int64,
    "R": pl.Float64,
    "Rc": pl.Float64,
    "told_Rc": pl.Float64,
    "abstentions": pl.Int64,
    "found": pl.Int64,
    "frozen": pl.Int64,
    "anew": pl.Int64,
    "E_after": pl.Int64,
    "kind": pl.String,
}
CALIBRATION_SCHEMA: dict[str, Any] = {
    "world": pl.String,
    "answers": pl.String,
    "said_at_least": pl.Float64,
    "pairs": pl.Int64,
    "true_share": pl.Float64,
}
COURSE_SCHEMA: dict[str, Any] = {
    "world": pl.String,
    "method": pl.String,
    "seed": pl.Int64,
    "t": pl.Int64,
    "answers": pl.Int64,
    "audits": pl.Int64,
    "E": pl.Int64,
}
NEWCOMERS_SCHEMA: dict[str, Any] = {
    "world": pl.String,
    "seed": pl.Int64,
    "pairs": pl.Int64,
    "sure": pl.Int64,
    "right": pl.Int64,
    "safe": pl.Int64,
    "safe_right": pl.Int64,
}


DOUBT = 0.01  # what is believed to be denied with at most this is played


@dataclass(frozen=True)
class Cell:
    """A method in a world, over its seeds: means, unless a name says otherwise.

    `share` is E/T, the share of denied plays, `broke` the number of seeds in which it is above the
    doubt; `spent` is answers and audits together; `excess` is Rc above that of the mask that is
    told the limits, with the same seed; `frozen` is a share of the steps. `after` is E after the
    limits changed, and `after_most` its largest, where they do.
    """

    world: str
    method: str
    kind: str
    seeds: int
    T: int
    answers: float
    fewest: int
    most: int
    audits: float
    spent: float
    found: float
    E: float
    share: float
    worst: float
    broke: int
    R: float
    Rc: float
    excess: float
    abstentions: float
    frozen: float
    anew: float
    after: float | None
    after_most: int | None

    @property
    def ours(self) -> bool:
        """Whether it is the product's default."""
        return self.method == DEFAULT


@dataclass(frozen=True)
class Said:
    """What was said to be allowed with at least a probability, and how much of it was."""

    world: str
    answers: str
    least: float
    pairs: int
    true_share: float | None


def runs_frame(
    done: Sequence[tuple[Job, Result]], kinds: Mapping[str, str] | None = None
) -> pl.DataFrame:
    """Return a row a run, in the order of worlds, methods and seeds: `real.csv`.

    Parameters
    ----------
    done : sequence of (Job, Result)
        Every method's runs; the mask that is told the limits must be among them.
    kinds : mapping from worlds to str, optional
        What each is there to show; by default limits as they are.
    """
    told = {(job.world, job.seed): result["run"]["Rc"] for job, result in done if job.part == TOLD}
    worlds = [*dict.fromkeys(job.world for job, _ in done)]
    rows = [
        {
            "world": job.world,
            "method": job.part,
            "seed": job.seed,
            "told_Rc": told[job.world, job.seed],
            **result["run"],
            "kind": (kinds or {}).get(job.world, LIMITS),
        }
        for job, result in done
        if job.part not in (CALIBRATION, NEWCOMERS)
    ]
    rows.sort(key=lambda row: (worlds.index(row["world"]), order_of(row["method"]), row["seed"]))
    return pl.DataFrame(rows, schema=RUNS_SCHEMA)


def calibration_frame(done: Sequence[tuple[Job, Result]]) -> pl.DataFrame:
    """Return what was said and what is so, counted over all seeds: `calibration.csv`."""
    counted: dict[tuple[str, str], list[list[int]]] = {}
    for job, result in done:
        for answers, counts in result.get("calibration", {}).items():
            sums = counted.setdefault((job.world, answers), [[0, 0] for _ in SAID])
            for total, (pairs, allowed) in zip(sums, counts, strict=True):
                total[0] += pairs
                total[1] += allowed
    worlds = [*dict.fromkeys(job.world for job, _ in done)]
    order = sorted(
        counted, key=lambda key: (worlds.index(key[0]), key[1] == OWN, len(key[1]), key[1])
    )
    rows = [
        (world, answers, least, pairs, allowed / pairs if pairs else None)
        for world, answers in order
        for least, (pairs, allowed) in zip(SAID, counted[world, answers], strict=True)
    ]
    return pl.DataFrame(rows, schema=CALIBRATION_SCHEMA, orient="row")


def course_frame(done: Sequence[tuple[Job, Result]]) -> pl.DataFrame:
    """Return how runs went in which limits change, a row a mark: `course.csv`."""
    frames = [
        pl.DataFrame(result["course"]).with_columns(
            world=pl.lit(job.world), method=pl.lit(job.part), seed=pl.lit(job.seed)
        )
        for job, result in done
        if "course" in result
    ]
    empty = pl.DataFrame(schema=COURSE_SCHEMA)
    return pl.concat(
        [
            empty,
            *(
                frame.select(pl.col(n).cast(t) for n, t in COURSE_SCHEMA.items())
                for frame in frames
            ),
        ]
    )


def newcomers_frame(done: Sequence[tuple[Job, Result]]) -> pl.DataFrame:
    """Return what was believed of arms that came late, a row a draw: `newcomers.csv`."""
    rows = [
        {"world": job.world, "seed": job.seed, **result["newcomers"]}
        for job, result in done
        if job.part == NEWCOMERS
    ]
    return pl.DataFrame(rows, schema=NEWCOMERS_SCHEMA)


def cells(runs: pl.DataFrame) -> list[Cell]:
    """Gather runs into a cell for each world and method, in the order in which they stand."""
    share = pl.col("E") / pl.col("T")
    gathered = runs.group_by("world", "method", maintain_order=True).agg(
        pl.col("kind").first(),
        pl.len().alias("seeds"),
        pl.col("T").max(),
        pl.col("answers").mean(),
        (pl.col("answers") + pl.col("audits")).mean().alias("spent"),
        pl.col("answers").min().alias("fewest"),
        pl.col("answers").max().alias("most"),
        pl.col("audits").mean(),
        pl.col("found").mean(),
        pl.col("E").mean(),
        share.mean().alias("share"),
        share.max().alias("worst"),
        (share > DOUBT).sum().cast(pl.Int64).alias("broke"),
        pl.col("R").mean(),
        pl.col("Rc").mean(),
        (pl.col("Rc") - pl.col("told_Rc")).mean().alias("excess"),
        pl.col("abstentions").mean(),
        (pl.col("frozen") / pl.col("T")).mean(),
        pl.col("anew").mean(),
        pl.col("E_after").mean().alias("after"),
        pl.col("E_after").max().alias("after_most"),
    )
    return [Cell(**row) for row in gathered.iter_rows(named=True)]


def calibrations(frame: pl.DataFrame) -> Mapping[str, Mapping[str, list[Said]]]:
    """Gather calibration by world and by answers, in the order in which they stand."""
    found: dict[str, dict[str, list[Said]]] = {}
    for row in frame.iter_rows():
        said = Said(*row)
        found.setdefault(said.world, {}).setdefault(said.answers, []).append(said)
    return found

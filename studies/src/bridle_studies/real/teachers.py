"""Teachers who err, in the study of real limits: what each said, and what was learned of them.

`teachers.csv` has a row a run and teacher, `rates.csv` the learned rate on the way. A learned rate
is held against two things: how often the teacher errs, and how often they did err in the answers
that were given. The second is all that anybody can learn, and by chance it is not the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from bridle.simulate import Asking, Tables
from bridle_studies.real.scope import DEFAULT, STAFF, Job, Result, Voice
from bridle_studies.real.summary import Cell

__all__ = [
    "AFTER",
    "BARS",
    "RATES_SCHEMA",
    "TEACHERS_SCHEMA",
    "VOICE",
    "TeacherCell",
    "hear",
    "judge",
    "rates_frame",
    "teacher_cells",
    "teachers_frame",
]

AFTER = 300  # answers after which rates are looked at
OFTEN = 10  # answers from one mark to the next
# What is asked for: E/T, answers of the good one beside what it takes alone, and rates within.
BARS = {"share": 0.002, "of_alone": 1.5, "within": 0.05}

TEACHERS_SCHEMA: dict[str, Any] = {
    "world": pl.String,
    "method": pl.String,
    "seed": pl.Int64,
    "teacher": pl.String,
    "error": pl.Float64,
    "price": pl.Float64,
    "told": pl.Float64,
    "questions": pl.Int64,
    "checks": pl.Int64,
    "wrong": pl.Int64,
    "alone": pl.Int64,
    "rate": pl.Float64,
    "rate_300": pl.Float64,
    "wrong_300": pl.Float64,
    "rate_300_all": pl.Float64,
    "wrong_300_all": pl.Float64,
}
RATES_SCHEMA: dict[str, Any] = {
    "world": pl.String,
    "method": pl.String,
    "seed": pl.Int64,
    "teacher": pl.String,
    "answers": pl.Int64,
    "rate": pl.Float64,
    "wrong_share": pl.Float64,
}
# What a job says of one teacher.
VOICE = {
    *TEACHERS_SCHEMA.keys() - {"world", "method", "seed", "alone"},
    "marks",
}


def hear(run: Asking, method: str, tables: Tables) -> list[dict[str, Any]]:
    """Return what a run says of each of its teachers, as plain JSON.

    Parameters
    ----------
    run : Asking
    method : str
        One of `STAFF`.
    tables : Tables
        The world's, which says what is so.
    """
    staff = STAFF[method]
    if not len(run.words):
        (voice,) = staff
        so = tables.allowed[run.asked_rows, run.asked_arms]
        wrong = np.count_nonzero(run.said != so) + np.count_nonzero(run.judged == run.found)
        return [_entry(voice, len(run.said), len(run.found), int(wrong))]
    entries = []
    for place, voice in enumerate(staff):
        mine = run.heard[:, 0] == place
        # What was known after each word of theirs, and the share of these that were wrong.
        rates, wrong = run.learned[mine, place], run.heard[mine, 1]
        shares = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
        more: dict[str, Any] = {}
        if voice.told is None and len(rates):
            more["rate"] = float(run.rates[place])
            more["marks"] = [
                [n, float(rates[n - 1]), float(shares[n - 1])]
                for n in sorted({*range(OFTEN, len(rates) + 1, OFTEN), len(rates)})
            ]
            if len(rates) >= AFTER:
                more["rate_300"] = float(rates[AFTER - 1])
                more["wrong_300"] = float(shares[AFTER - 1])
            first = int(np.count_nonzero(mine[:AFTER]))
            if len(mine) >= AFTER and first:
                more["rate_300_all"] = float(rates[first - 1])
                more["wrong_300_all"] = float(shares[first - 1])
        questions, checks = (int(count) for count in run.words[place])
        entries.append(_entry(voice, questions, checks, int(wrong.sum())) | more)
    return entries


def _entry(voice: Voice, questions: int, checks: int, wrong: int) -> dict[str, Any]:
    return {
        "teacher": voice.name,
        "error": voice.error,
        "price": voice.price,
        "told": voice.told,
        "questions": questions,
        "checks": checks,
        "wrong": wrong,
        "rate": voice.told,
        "rate_300": None,
        "wrong_300": None,
        "rate_300_all": None,
        "wrong_300_all": None,
        "marks": [],
    }


def teachers_frame(done: Sequence[tuple[Job, Result]]) -> pl.DataFrame:
    """Return a row a run and teacher: `teachers.csv`.

    `alone` are the questions that the one who does not err takes alone, with the same seed.
    """
    heard = [(job, result["teachers"]) for job, result in done if "teachers" in result]
    alone = {
        (job.world, job.seed): voices[0]["questions"]
        for job, voices in heard
        if job.part == DEFAULT
    }
    rows = [
        {
            "world": job.world,
            "method": job.part,
            "seed": job.seed,
            "alone": alone[job.world, job.seed],
            **voice,
        }
        for job, voices in heard
        for voice in voices
    ]
    worlds = [*dict.fromkeys(job.world for job, _ in heard)]
    order = [*STAFF]
    rows.sort(key=lambda row: (worlds.index(row["world"]), order.index(row["method"])))
    return pl.DataFrame(
        [{name: row[name] for name in TEACHERS_SCHEMA} for row in rows], schema=TEACHERS_SCHEMA
    )


def rates_frame(done: Sequence[tuple[Job, Result]]) -> pl.DataFrame:
    """Return what was learned of each rate, a row a mark: `rates.csv`."""
    rows = [
        (job.world, job.part, job.seed, voice["teacher"], *mark)
        for job, result in done
        for voice in result.get("teachers", ())
        for mark in voice["marks"]
    ]
    return pl.DataFrame(rows, schema=RATES_SCHEMA, orient="row")


@dataclass(frozen=True)
class TeacherCell:
    """A teacher of a method in a world, over its seeds: means, unless a name says otherwise.

    `of_alone` are their questions beside those of the one who does not err and is alone, with the
    same seed, and `of_alone_most` the largest. Rates that were learned: `rate` at the end; after
    300 answers of their own, and of all together, the mean, the largest distance from how often
    they err, in how many of how many seeds it was above .05, and the largest distance from how
    often they did err in those answers.
    """

    world: str
    method: str
    teacher: str
    error: float
    price: float
    told: float | None
    seeds: int
    questions: float
    checks: float
    wrong: float
    of_alone: float
    of_alone_most: float
    rate: float | None
    own: After | None
    all: After | None


@dataclass(frozen=True)
class After:
    """What was known after 300 answers."""

    seeds: int
    rate: float
    off: float
    beyond: int
    from_given: float


def teacher_cells(frame: pl.DataFrame) -> list[TeacherCell]:
    """Gather `teachers.csv` by world, method and teacher, in the order in which they stand."""
    found = []
    groups = frame.group_by("world", "method", "teacher", maintain_order=True)
    for (world, method, teacher), mine in groups:
        ratio = mine["questions"] / mine["alone"].clip(lower_bound=1)
        told, rates = mine["told"][0], mine["rate"].drop_nulls()
        found.append(
            TeacherCell(
                world=str(world),
                method=str(method),
                teacher=str(teacher),
                error=mine["error"][0],
                price=mine["price"][0],
                told=told,
                seeds=len(mine),
                questions=_mean(mine["questions"]),
                checks=_mean(mine["checks"]),
                wrong=_mean(mine["wrong"]),
                of_alone=_mean(ratio),
                of_alone_most=float(str(ratio.max())),
                rate=None if rates.is_empty() else _mean(rates),
                own=_after(mine, "300"),
                all=_after(mine, "300_all"),
            )
        )
    return found


def _after(mine: pl.DataFrame, name: str) -> After | None:
    there = mine.drop_nulls(f"rate_{name}")
    if there.is_empty():
        return None
    rate, error, given = there[f"rate_{name}"], there["error"], there[f"wrong_{name}"]
    off = (rate - error).abs()
    return After(
        seeds=len(there),
        rate=_mean(rate),
        off=float(str(off.max())),
        beyond=int((off > BARS["within"]).sum()),
        from_given=float(str((rate - given).abs().max())),
    )


def judge(runs: Sequence[Cell], voices: Sequence[TeacherCell]) -> list[dict[str, Any]]:
    """Return `teachers.json`: a method in a world, what each teacher said, and the bars.

    Parameters
    ----------
    runs : sequence of Cell
        Of worlds whose teachers err.
    voices : sequence of TeacherCell
    """
    by_cell: dict[tuple[str, str], list[TeacherCell]] = {}
    for voice in voices:
        by_cell.setdefault((voice.world, voice.method), []).append(voice)
    return [
        {
            "world": cell.world,
            "method": cell.method,
            "seeds": cell.seeds,
            "T": cell.T,
            "E": cell.E,
            "share": cell.share,
            "worst_share": cell.worst,
            "abstentions": cell.abstentions,
            "Rc_above_told": cell.excess,
            "teachers": [_plain(voice) for voice in by_cell[cell.world, cell.method]],
            "holds": holds(cell, by_cell[cell.world, cell.method]),
        }
        for cell in runs
        if (cell.world, cell.method) in by_cell
    ]


def holds(cell: Cell, voices: Sequence[TeacherCell]) -> dict[str, bool | None]:
    """Return which of the bars hold; None: it is not asked of this method, or cannot be said.

    E/T is of the worst seed and the answers of the good one are a mean over seeds. Rates are those
    after 300 answers of their own, in every seed that has so many.
    """
    learned = [voice for voice in voices if voice.told is None]
    there = [voice.own for voice in learned if voice.own is not None]
    good = next((voice for voice in learned if voice.error == 0.0), None)
    return {
        "share": cell.worst <= BARS["share"],
        "of_alone": None if good is None else good.of_alone <= BARS["of_alone"],
        "within": None
        if not learned or len(there) < len(learned)
        else all(one.beyond == 0 for one in there),
    }


def _plain(voice: TeacherCell) -> Mapping[str, Any]:
    return {name: value for name, value in asdict(voice).items() if name not in ("world", "method")}


def _mean(values: pl.Series) -> float:
    return float(str(values.mean()))

"""Means over folds, their 95 % intervals, and differences of the same folds.

A *cell* is a teaching, a number of examples and an agent. The masks and sigma = 1 depend neither
on teaching nor on examples: they ran once a fold and stand in every cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl
from scipy.special import stdtrit

from bridle.errors import InvalidValue, NotPossible
from bridle_studies.paper.published import MASKS, PAPER_TEACHINGS, Figures, agrees, published

__all__ = [
    "COLUMNS",
    "MEASURES",
    "Cell",
    "Compared",
    "Interval",
    "Runs",
    "beside_the_paper",
    "interval",
    "nearest_examples",
    "paired",
    "summarise",
]

LEVEL = 0.95
ONCE = (*MASKS, "sigma=1")  # they neither look at teaching nor at N
MEASURES = ("R", "Rc", "E", "abstentions", "blend_regret")
NEEDED = ("world", "fold", "teaching", "examples", "agent", "sigma", "steps", *MEASURES)
NEVER_NULL = ("world", "fold", "agent", "steps", "R", "Rc", "E")
COLUMNS: Mapping[str, type[pl.DataType]] = {
    "world": pl.String,
    "teaching": pl.String,
    "examples": pl.Int64,
    "agent": pl.String,
    **dict.fromkeys(
        ("R", "R_low", "R_high", "E", "E_low", "E_high", "Rc", "paper_R", "paper_E"), pl.Float64
    ),
}


class Cell(NamedTuple):
    """Which runs are meant: "thompson", 50_000, "sigma=0.25"."""

    teaching: str | None
    examples: int | None
    agent: str


class Compared(NamedTuple):
    """A cell of ours with what the paper printed for it."""

    agent: str
    R: float
    E: float
    paper: Figures

    @property
    def agrees(self) -> bool:
        """Whether both agree, as far as the paper printed a number."""
        return agrees(self.R, self.E, self.paper)


@dataclass(frozen=True)
class Interval:
    """A mean over folds with the 95 % interval of Student's t; without one for a single fold.

    Attributes
    ----------
    mean : float
    low, high : float or None
    count : int
        Over how many folds.
    """

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def below(self) -> bool:
        """Whether all of it lies below 0; False without an interval."""
        return self.high is not None and self.high < 0.0

    @property
    def above(self) -> bool:
        """Whether all of it lies above 0; False without an interval."""
        return self.low is not None and self.low > 0.0


def interval(values: Iterable[float], floor: float = -math.inf) -> Interval:
    """Return the mean of `values` with the 95 % interval of Student's t.

    Parameters
    ----------
    values : numbers
        One a fold; at least one.
    floor : float
        What the quantity cannot be below: the lower end stops there.

    Examples
    --------
    >>> interval([1.0, 2.0, 3.0])
    Interval(mean=2.0, low=-0.48..., high=4.48..., count=3)
    >>> interval([1.0, 2.0, 3.0], floor=0.0).low
    0.0
    >>> interval([4.0])
    Interval(mean=4.0, low=None, high=None, count=1)
    """
    numbers = [float(value) for value in values]
    n = len(numbers)
    if n == 0:
        raise InvalidValue("values", "interval", "at least one number", numbers)
    mean = math.fsum(numbers) / n
    if n == 1:
        return Interval(mean, None, None, 1)
    variance = math.fsum((x - mean) ** 2 for x in numbers) / (n - 1)
    half = float(stdtrit(n - 1, 0.5 + LEVEL / 2)) * math.sqrt(variance / n)
    return Interval(mean, max(mean - half, floor), mean + half, n)


class Runs:
    """The runs of one study, found by their cell.

    Parameters
    ----------
    results : DataFrame
        A row a run made, as in `results.parquet`.

    Attributes
    ----------
    world : str
    steps : int
        T, the same for every run.
    folds, teachings, examples, sigmas : tuple
        What the runs were made with, each in order; `sigmas` as numbers.
    agents : tuple of str
        The masks, then each sigma.
    """

    def __init__(self, results: pl.DataFrame) -> None:
        _check(results)
        self.world: str = results["world"][0]
        self.steps = int(results["steps"][0])
        self.folds = tuple(sorted(set(results["fold"].to_list())))
        self.teachings = _in_order(results["teaching"].drop_nulls().to_list())
        self.examples = tuple(sorted(set(results["examples"].drop_nulls().to_list())))
        named = dict(zip(results["agent"].to_list(), results["sigma"].to_list(), strict=True))
        self._sigmas: dict[float, str] = {s: name for name, s in named.items() if s is not None}
        self.sigmas = tuple(sorted(self._sigmas))
        masks = [name for name, s in named.items() if s is None]
        known = [name for name in MASKS if name in masks]
        others = sorted(set(masks) - set(known))
        self.agents = (*known, *others, *(self._sigmas[s] for s in self.sigmas))
        self._rows: dict[Cell, dict[int, dict[str, float | None]]] = {}
        for row in results.select(NEEDED).iter_rows(named=True):
            cell = Cell(row["teaching"], row["examples"], row["agent"])
            folds = self._rows.setdefault(cell, {})
            if row["fold"] in folds:
                expected = "one row for each fold, teaching, examples and agent"
                raise InvalidValue(
                    "results", "Runs", expected, f"two of fold {row['fold']}, {cell}"
                )
            folds[row["fold"]] = {measure: row[measure] for measure in MEASURES}

    @property
    def grid(self) -> list[tuple[str | None, int | None]]:
        """Each teaching with each number of examples that ran; (None, None) if nothing was taught.

        Random teaching first, then fewer examples first.
        """
        ran = {(cell.teaching, cell.examples) for cell in self._rows}
        cells = [(t, n) for t in self.teachings for n in self.examples if (t, n) in ran]
        return [*cells] or [(None, None)]

    def agent(self, sigma: float) -> str:
        """Name the agent with this sigma, whether it ran or not."""
        return self._sigmas.get(sigma, f"sigma={sigma:g}")

    def values(self, cell: Cell, measure: str) -> dict[int, float]:
        """Return `measure` by fold; empty if the cell did not run or has no such number."""
        rows = self._rows.get(cell) or self._rows.get(Cell(None, None, cell.agent)) or {}
        found = {fold: row[measure] for fold, row in sorted(rows.items())}
        return {fold: float(value) for fold, value in found.items() if value is not None}

    def mean(self, cell: Cell, measure: str) -> float | None:
        """Return the mean over folds, or None if the cell did not run."""
        values = self.values(cell, measure)
        return math.fsum(values.values()) / len(values) if values else None

    def paired(self, one: Cell, two: Cell, measure: str) -> Interval | None:
        """Return the mean of `one` − `two` over folds that both have; None if there is none."""
        first, second = self.values(one, measure), self.values(two, measure)
        both = [fold for fold in first if fold in second]
        return interval(first[fold] - second[fold] for fold in both) if both else None


def paired(results: pl.DataFrame, one: Cell, two: Cell, measure: str) -> Interval | None:
    """Return the difference of two cells, fold by fold: its mean and 95 % interval.

    The folds differ more than the agents do, and every agent of a fold met the same contexts; so
    the differences within folds say more than two intervals side by side.

    Parameters
    ----------
    results : DataFrame
        A row a run.
    one, two : Cell
        The difference is `one` − `two`.
    measure : {"R", "Rc", "E", "abstentions", "blend_regret"}
        Of what.
    """
    return Runs(results).paired(Cell(*one), Cell(*two), measure)


def summarise(results: pl.DataFrame) -> pl.DataFrame:
    """Return the long form: a row a cell, with means over folds and 95 % intervals.

    Runs that do not depend on teaching and examples are repeated in every cell. The paper's
    numbers stand beside ours where it printed any for that N and T, be the world real or
    synthetic.

    Parameters
    ----------
    results : DataFrame
        A row a run.

    Returns
    -------
    DataFrame
        With `COLUMNS`, in the order of teaching (random first), examples and agent (the masks,
        then each sigma). The ends of an interval are null for a single fold, and not below 0.
    """
    runs = Runs(results)
    rows = []
    for teaching, examples in runs.grid:
        for agent in runs.agents:
            cell = Cell(teaching, examples, agent)
            if not runs.values(cell, "R"):
                continue
            R, E = (interval(runs.values(cell, m).values(), floor=0.0) for m in ("R", "E"))
            printed = published(runs.world, runs.steps, *cell) or (None, None)
            numbers = (R.mean, R.low, R.high, E.mean, E.low, E.high, runs.mean(cell, "Rc"))
            rows.append((runs.world, *cell, *numbers, *printed))
    return pl.DataFrame(rows, schema=dict(COLUMNS), orient="row")


def beside_the_paper(summary: pl.DataFrame) -> list[Compared]:
    """Return each *different cell* that the paper has a number for, with that number.

    The masks and sigma = 1 ran once a fold and stand in every row: they are one cell each, set
    beside the mean of what the paper printed for them in those rows.

    Parameters
    ----------
    summary : DataFrame
        As `summarise` gives it.
    """
    rows: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for row in summary.iter_rows(named=True):
        if row["paper_R"] is row["paper_E"] is None:
            continue
        where = () if row["agent"] in ONCE else (row["teaching"], row["examples"])
        rows.setdefault((row["agent"], *where), []).append(row)
    found = []
    for same in rows.values():
        R, E = ([row[f"paper_{x}"] for row in same if row[f"paper_{x}"] is not None] for x in "RE")
        middle = Figures(*(math.fsum(x) / len(x) if x else None for x in (R, E)))
        found.append(Compared(same[0]["agent"], same[0]["R"], same[0]["E"], middle))
    return found


def nearest_examples(frame: pl.DataFrame, examples: int) -> int | None:
    """Return the N of the grid nearest to `examples` (by ratio), None if nothing was taught.

    >>> nearest_examples(pl.DataFrame({"examples": [None, 500, 20_000]}), 50_000)
    20000
    """
    sizes = frame["examples"].drop_nulls().unique().sort().to_list()
    wanted = math.log(max(examples, 1))
    # Of two equally near the larger.
    by_ratio = min(sizes, key=lambda n: (abs(math.log(max(n, 1)) - wanted), -n), default=None)
    return None if by_ratio is None else int(by_ratio)


def _in_order(teachings: Iterable[str]) -> tuple[str, ...]:
    """Put the paper's two first, then any others by name."""
    found = set(teachings)
    known = [name for name in PAPER_TEACHINGS if name in found]
    return (*known, *sorted(found - set(known)))


def _check(results: pl.DataFrame) -> None:
    owner = "summarise"
    missing = [name for name in NEEDED if name not in results.columns]
    if missing:
        raise InvalidValue(
            "results",
            owner,
            f"a table with the columns {', '.join(NEEDED)}",
            f"one without {', '.join(missing)}",
        )
    if results.is_empty():
        raise NotPossible("There are no results yet: not one run is finished. Run the study first.")
    for name in ("fold", "examples", "sigma", "steps", *MEASURES):
        kind = results.schema[name]
        if not (kind.is_numeric() or kind == pl.Null):
            raise InvalidValue("results", owner, f"a table with numbers in {name!r}", str(kind))
    for name in NEVER_NULL:
        if results[name].null_count() > 0:
            raise InvalidValue(
                "results",
                owner,
                f"a table with a value in every row of {name!r}",
                f"{results[name].null_count()} rows without",
            )
    for name in ("R", "Rc", "blend_regret"):
        if not results[name].cast(pl.Float64).drop_nulls().is_finite().all():
            raise InvalidValue(
                "results", owner, f"a table of finite numbers in {name!r}", "one that is not finite"
            )
    for name in ("world", "steps"):
        found = results[name].unique(maintain_order=True).to_list()
        if len(found) > 1:
            raise InvalidValue("results", owner, f"of one study, with one value of {name!r}", found)

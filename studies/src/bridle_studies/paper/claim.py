"""What a judged claim is, and the words in which its evidence is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bridle_studies.paper.published import MOVIES
from bridle_studies.paper.summary import Cell, Interval, Runs

__all__ = [
    "MASK_WORDS",
    "ONE_FOLD",
    "Claim",
    "beside",
    "by_fold",
    "combine",
    "errors",
    "named",
    "noise",
    "of_the_movies",
    "shown",
    "some",
    "span",
]

MASK_WORDS = {
    "mask": "the mask that takes the best allowed arm",
    "mask-filter": "the mask that swaps a denied pick for a random allowed arm",
}
MOVIES_ONLY = (
    "The paper says this of the movies, so it is not judged here. Our numbers all the same:"
)
ONE_FOLD = "one fold: no interval"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, judged.

    Attributes
    ----------
    key : str
        "a", "b", …; "d-mask" and "d-mask-filter" where it is judged against each mask, "i-T",
        "i-N" and "i-online" for the three parts of (i).
    title : str
        The claim as we test it, in a line.
    paper : str
        What the paper says.
    holds : bool or None
        None if it cannot be judged from these results; the evidence says why.
    evidence : tuple of str
        Sentences with numbers.
    caveat : str
        What must be said in the same breath as the verdict: "not settled by 5 folds"; or nothing.
    """

    key: str
    title: str
    paper: str
    holds: bool | None
    evidence: tuple[str, ...]
    caveat: str = ""


def combine(parts: Iterable[bool | None]) -> bool | None:
    """Judge a claim of several parts: one that fails decides; one that is open leaves it open."""
    found = list(parts)
    return False if False in found else None if None in found or not found else True


def of_the_movies(
    runs: Runs, holds: bool | None, evidence: list[str]
) -> tuple[bool | None, list[str]]:
    """Leave open on other worlds what the paper says of the movies; the numbers are told."""
    return (holds, evidence) if runs.world in MOVIES else (None, [MOVIES_ONLY, *evidence])


def named(teaching: str | None, examples: int | None) -> str:
    """Return which row is meant: "random teaching, 50,000 answers"."""
    if teaching is None or examples is None:
        return "nothing taught"
    who = "Thompson" if teaching == "thompson" else teaching
    return f"{who} teaching, {examples:,} answers"


def errors(E: float) -> str:
    """Show a number of errors: whole, or with one digit where that matters."""
    return f"{E:,.0f}" if E >= 100.0 or E == int(E) else f"{E:.1f}"


def shown(measure: str, value: float) -> str:
    """Show a value of R or E."""
    return f"{value:.3f}" if measure == "R" else errors(value)


def span(gap: Interval, measure: str) -> str:
    """Show a 95 % interval, with signs, as a gap is meant."""
    if gap.low is None or gap.high is None:
        return f"({ONE_FOLD})"
    digits = "+.3f" if measure == "R" else "+,.0f" if abs(gap.mean) >= 100 else "+,.1f"
    return f"(95 %: {gap.low:{digits}} to {gap.high:{digits}})"


def noise(clear: bool) -> str:
    """Return whether a difference is clear."""
    return "beyond noise" if clear else "within noise"


def beside(runs: Runs, cell: Cell, mask: str, gap: Interval) -> str:
    """Return how the R of a cell stands to that of a mask."""
    R = runs.mean(cell, "R") or 0.0
    word = "more" if gap.mean >= 0.0 else "less"
    return f"{R:.3f}, {abs(gap.mean):.3f} {word} than {mask} {span(gap, 'R')}"


def by_fold(runs: Runs, cell: Cell) -> str:
    """List the errors of each fold."""
    return "; ".join(errors(E) for E in runs.values(cell, "E").values())


def some(lines: list[str], most: int = 6) -> list[str]:
    """Show the first few, and say how many more there are."""
    rest = len(lines) - most
    return lines if rest <= 0 else [*lines[:most], f"… and {rest} more like these."]

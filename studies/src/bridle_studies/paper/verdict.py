"""Which of the paper's claims hold on our results, each with its evidence.

The rules are in `claims`, `claims_masks` and `claims_growth`, as the docstring of each claim's
function. A claim that does not hold is reported as not holding; one that these results cannot
decide, as not judged.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.text import Text

from bridle.errors import NotPossible
from bridle_studies.paper.claim import Claim
from bridle_studies.paper.claims import (
    falls_with_examples,
    random_errs_less,
    sigma_is_a_dial,
    taught_alone_errs_least,
)
from bridle_studies.paper.claims_growth import (
    errs_linearly,
    falls_online,
    sublinear_in_examples,
    sublinear_in_steps,
)
from bridle_studies.paper.claims_masks import error_free_and_better, near_the_mask, warfarin_quarter
from bridle_studies.paper.published import (
    MASKS,
    MOVIES,
    PAPER_EXAMPLES,
    PAPER_FOLDS,
    PAPER_STEPS,
    WARFARIN,
)
from bridle_studies.paper.summary import Runs

__all__ = ["Claim", "judge", "print_verdict", "verdict_in_words", "write_verdict"]

WORDS = {True: "holds", False: "does not hold", None: "not judged"}
FEWEST_FOLDS, SMALLEST_PART = 3, 10  # below: too small to judge
COLOURS = {True: "green", False: "red", None: "yellow"}


def judge(results: pl.DataFrame, curves: pl.DataFrame, lessons: pl.DataFrame) -> list[Claim]:
    """Judge the paper's claims (a) to (i).

    Parameters
    ----------
    results : DataFrame
        A row a run.
    curves : DataFrame
        A row a run and checkpoint.
    lessons : DataFrame
        A row a lesson and checkpoint.

    Returns
    -------
    list of Claim
        In the order of the letters; (d), (f) and (g) once for each mask, (i) in three parts. With
        fewer than 3 folds, or a T below a tenth of the paper's (of its smaller one, 20,000, where
        the world is not the paper's), none is judged: the numbers are told, but rest on noise.
    """
    runs = Runs(results)
    found = [
        sigma_is_a_dial(runs),
        random_errs_less(runs),
        falls_with_examples(runs),
        *(near_the_mask(runs, mask) for mask in MASKS),
        errs_linearly(runs, curves),
        *(warfarin_quarter(runs, mask) for mask in MASKS),
        *(error_free_and_better(runs, mask) for mask in MASKS),
        taught_alone_errs_least(runs),
        sublinear_in_steps(runs, curves),
        sublinear_in_examples(runs, lessons),
        falls_online(runs),
    ]
    small, notes = _too_small(runs), _notes(runs)
    if small:
        found = [replace(c, holds=None, caveat="", evidence=(small, *c.evidence)) for c in found]
    return [replace(claim, evidence=(*claim.evidence, *notes)) for claim in found]


def verdict_in_words(claims: Sequence[Claim]) -> str:
    """Count the verdicts in a sentence.

    Examples
    --------
    >>> verdict_in_words([Claim("a", "", "", True, ()), Claim("b", "", "", None, ())])
    '1 of 2 holds, 0 do not, 1 is not judged.'
    """
    yes, no, open_ = (sum(claim.holds is value for claim in claims) for value in WORDS)
    return (
        f"{yes} of {len(claims)} {'holds' if yes == 1 else 'hold'}, {no} "
        f"{'does' if no == 1 else 'do'} not, {open_} {'is' if open_ == 1 else 'are'} not judged."
    )


def print_verdict(console: Console, claims: Sequence[Claim], *, brief: bool = False) -> None:
    """Print each claim with what the paper says, our verdict and, unless brief, the evidence.

    What stands in the evidence of every claim is printed once, on top.
    """
    console.print(Text("The paper's claims, on these results", style="bold"))
    shared = [
        line
        for line in (claims[0].evidence if len(claims) > 1 else ())
        if all(line in claim.evidence for claim in claims)
    ]
    for line in shared:
        console.print(Text(_wrapped(console, line, "", "")))
    for claim in claims:
        word = WORDS[claim.holds].upper()
        caveat = f", {claim.caveat}" if claim.caveat else ""
        said = f"({claim.key}) {word}{caveat}: {claim.title}"
        head = Text(_wrapped(console, said, "", "    "))
        start = len(claim.key) + 3  # behind the letter in brackets
        head.stylize("bold", 0, start + len(word))
        head.stylize(COLOURS[claim.holds], start, start + len(word))
        if brief:
            console.print(head)
            continue
        console.print()
        console.print(head)
        said = _wrapped(console, f"The paper: {claim.paper}", "  ", "  ")
        console.print(Text(said, style="italic"))
        for line in (line for line in claim.evidence if line not in shared):
            console.print(Text(_wrapped(console, line, "  - ", "    ")))
    console.print()
    console.print(Text(verdict_in_words(claims)))


def write_verdict(out: Path, claims: Sequence[Claim]) -> Path:
    """Write `verdict.json` into the folder `out` and give its path."""
    path = Path(out) / "verdict.json"
    body = {"summary": verdict_in_words(claims), "claims": [asdict(claim) for claim in claims]}
    text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise NotPossible(f"{path} cannot be written: {error.strerror}.") from error
    return path


def _wrapped(console: Console, text: str, first: str, rest: str) -> str:
    return textwrap.fill(
        text,
        max(console.width, 40),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _too_small(runs: Runs) -> str:
    """Return why these results are too small to judge by; nothing if they are not."""
    full = PAPER_STEPS.get(runs.world, min(PAPER_STEPS.values()))
    why = []
    if len(runs.folds) < FEWEST_FOLDS:
        count = "1 fold" if len(runs.folds) == 1 else f"{len(runs.folds)} folds"
        why.append(f"{count}, at least {FEWEST_FOLDS} are needed")
    if runs.steps * SMALLEST_PART < full:
        why.append(f"T = {runs.steps:,}, at least {full // SMALLEST_PART:,} are needed")
    return f"Too small to judge: {'; '.join(why)}. The numbers all the same:" if why else ""


def _notes(runs: Runs) -> list[str]:
    """Return what a reader must know of these results before relying on a verdict."""
    notes = []
    if runs.world.startswith("synthetic"):
        notes.append(
            f"These are {runs.world}, made up by bridle from published statistics, not the "
            "paper's data."
        )
    elif runs.world not in (*MOVIES, *WARFARIN):
        notes.append(f"The world {runs.world!r} is neither of the paper's two.")
    full = PAPER_STEPS.get(runs.world)
    less = []
    if full is not None and runs.steps != full:
        less.append(f"T = {runs.steps:,} (the paper: {full:,})")
    if len(runs.folds) < PAPER_FOLDS:
        count = "1 fold" if len(runs.folds) == 1 else f"{len(runs.folds)} folds"
        less.append(f"{count} (the paper: {PAPER_FOLDS})")
    if not set(PAPER_EXAMPLES) <= set(runs.examples):
        listed = ", ".join(f"{N:,}" for N in runs.examples) or "none"
        less.append(f"N = {listed} (the paper: {', '.join(f'{N:,}' for N in PAPER_EXAMPLES)})")
    if less:
        notes.append(f"Not the paper's whole grid: {'; '.join(less)}.")
    return notes

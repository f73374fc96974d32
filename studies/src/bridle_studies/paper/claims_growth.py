"""The paper's claims about growth: (e), errors of sigma = 1, and (i), Theorem 2.

An exponent is fitted on logarithms from the last nine tenths of a curve, fold by fold; the mean
over folds counts. Between .95 and 1.05 growth is called linear, below .95 sub-linear, in both
claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from bridle.errors import InvalidValue
from bridle_studies.paper.claim import Claim, named, noise, some
from bridle_studies.paper.summary import Cell, Interval, Runs, interval
from bridle_studies.theory import growth_exponent

__all__ = [
    "errs_linearly",
    "exponent",
    "falls_online",
    "sublinear_in_examples",
    "sublinear_in_steps",
]

Floats = npt.NDArray[np.float64]
Line = tuple[Floats, Floats]

LINEAR = (0.95, 1.05)
STRAIGHT = 0.99  # the least R²
FEWEST_POINTS = 3
THEOREM = "Against the best blend, regret is sub-linear in T and in the number of examples N."


def exponent(sizes: Floats, values: Floats) -> float | None:
    """Fit values ≈ constant · size^exponent from a tenth of the largest size on.

    None where fewer than three points above 0 are left; 0 where the values stay 0, which is no
    growth at all.

    Examples
    --------
    >>> t = np.arange(1.0, 101.0)
    >>> round(exponent(t, 3.0 * t**0.5), 6)
    0.5
    >>> exponent(t, 0.0 * t)
    0.0
    """
    if len(sizes) == 0:
        return None
    late = sizes >= sizes.max() / 10.0
    if len(sizes) >= FEWEST_POINTS and not values[late].any():
        return 0.0
    kept = late & (values > 0.0)
    if kept.sum() < FEWEST_POINTS:
        return None
    return growth_exponent(sizes[kept], values[kept])


def errs_linearly(runs: Runs, curves: pl.DataFrame) -> Claim:
    """(e) The errors of sigma = 1 grow linearly in t.

    From T/10 on, the mean exponent of E(t) lies in [.95, 1.05], and in every fold a straight line
    explains at least 99 % of E(t)'s variation (R²).
    """
    lines = _lines(curves, "E", ("agent",), only=runs.agent(1.0))
    fits: list[float] = []
    straight: list[float] = []
    early: list[float] = []
    late: list[float] = []
    for t, E in lines.values():
        fitted = exponent(t, E)
        if fitted is None or not E.any():
            continue
        fits.append(fitted)
        kept = t >= t.max() / 10.0
        straight.append(_straightness(t[kept], E[kept]))
        half = float(np.interp(t.max() / 2.0, t, E))
        start = float(np.interp(t.max() / 10.0, t, E))
        early.append((half - start) / (0.4 * t.max()))
        late.append((E[-1] - half) / (0.5 * t.max()))
    holds: bool | None = None
    if fits:
        mean = sum(fits) / len(fits)
        holds = LINEAR[0] <= mean <= LINEAR[1] and min(straight) >= STRAIGHT
        evidence = [
            f"E(t) of sigma=1 grows like t to the power {mean:.3f} from T/10 on (by fold: "
            f"{', '.join(f'{fit:.3f}' for fit in fits)}); 1 is a straight line, and we take 0.95 "
            "to 1.05 for one.",
            f"A straight line explains at least {100.0 * min(straight):.2f} % of E(t) in every "
            "fold; we ask for 99 %.",
            f"It errs {1_000.0 * sum(early) / len(early):.0f} times in 1,000 plays up to T/2 and "
            f"{1_000.0 * sum(late) / len(late):.0f} after.",
        ]
    else:
        evidence = [
            f"Needs the curve of sigma=1 with errors in it: {len(lines)} such curves, 0 of them "
            "with enough errors to fit."
        ]
    return Claim(
        key="e",
        title="sigma=1 errs linearly in t",
        paper="sigma=1 makes a linear number of errors, in both domains.",
        holds=holds,
        evidence=tuple(evidence),
    )


def sublinear_in_steps(runs: Runs, curves: pl.DataFrame) -> Claim:
    """(i), in T: the regret against the best blend (sigma* = sigma) grows sub-linearly online.

    From T/10 on, the mean exponent over folds is below .95 in every cell: each sigma, teaching and
    N.
    """
    lines = _lines(curves, "blend_regret", ("teaching", "examples", "agent"))
    fits: dict[Cell, list[float]] = {}
    for (teaching, N, agent, _), (t, regret) in lines.items():
        fitted = exponent(t, regret)
        if fitted is not None:
            fits.setdefault(Cell(teaching, N, agent), []).append(fitted)
    means = {cell: sum(values) / len(values) for cell, values in fits.items()}
    linear = [cell for cell, mean in means.items() if mean >= LINEAR[0]]
    evidence: list[str] = []
    if means:
        worst = max(means, key=lambda cell: means[cell])
        largest = max(max(values) for values in fits.values())
        evidence.append(
            f"The regret grows like T to a power below 0.95 in {len(means) - len(linear)} of "
            f"{len(means)} cells. The largest mean is {means[worst]:.3f} ({_cell(worst)}), the "
            f"largest of a single fold {largest:.3f}."
        )
        evidence += _by_sigma(runs, means)
        if any(cell.agent != runs.agent(1.0) for cell in linear):
            evidence.append(
                "Why it can fail for sigma < 1: what was taught is frozen online, so its mistakes "
                "cost the same at every step, and that part grows with exponent 1."
            )
    else:
        evidence.append("Needs curves of the regret against the best blend: 0 could be fitted.")
    return Claim(
        key="i-T",
        title="Theorem 2: regret against the best blend is sub-linear in T",
        paper=THEOREM,
        holds=not linear if means else None,
        evidence=tuple(evidence),
    )


def sublinear_in_examples(runs: Runs, lessons: pl.DataFrame) -> Claim:
    """(i), in N: the regret of the questions grows sub-linearly in their number.

    The theorem's second part is about teaching by Thompson sampling, so that is judged: the mean
    exponent over folds of the lessons' regret is below .95, from a tenth of the questions on.
    """
    fits: dict[str, list[float]] = {}
    for (teaching, _), (n, regret) in _lines(lessons, "regret", ("teaching",), size="n").items():
        fitted = exponent(n, regret)
        if fitted is not None and isinstance(teaching, str):
            fits.setdefault(teaching, []).append(fitted)
    holds: bool | None = None
    evidence: list[str] = []
    if "thompson" in fits:
        mean = sum(fits["thompson"]) / len(fits["thompson"])
        holds = mean < LINEAR[0]
        evidence.append(
            f"Thompson teaching: the regret of its questions grows like N to the power {mean:.3f} "
            f"(largest of a fold: {max(fits['thompson']):.3f}); below 0.95 counts as sub-linear."
        )
    else:
        evidence.append("Needs lessons by Thompson teaching: 0 could be fitted.")
    if "random" in fits:
        mean = sum(fits["random"]) / len(fits["random"])
        evidence.append(
            f"Random teaching: {mean:.3f}. It asks about any arm and does not try to hear "
            '"allowed", so 1 is what to expect; the theorem is not about it.'
        )
    return Claim(
        key="i-N",
        title="Theorem 2: the regret of the questions is sub-linear in N",
        paper=THEOREM,
        holds=holds,
        evidence=tuple(evidence),
    )


def falls_online(runs: Runs) -> Claim:
    """(i), what N buys: the online regret against the best blend, at T, falls with N.

    For each teaching and sigma < 1, the exponent of blend regret against N, fitted fold by fold,
    is below 0 by the mean over folds. The theorem's bound grows with N; this is what a reader
    would hope for.
    """
    found: dict[tuple[str, float], Interval] = {}
    for teaching in runs.teachings:
        for sigma in (s for s in runs.sigmas if s < 1.0):
            fits = _against_examples(runs, teaching, runs.agent(sigma))
            if fits:
                found[teaching, sigma] = interval(fits)
    rising = [key for key, fit in found.items() if fit.mean > -1e-9]
    evidence: list[str] = []
    if found:
        evidence.append(
            f"The online regret against the best blend falls with N in {len(found) - len(rising)} "
            f"of {len(found)} lines (a teaching and a sigma)."
        )
    else:
        evidence.append(
            f"Needs at least two values of N with a regret above 0: there are {len(runs.examples)}."
        )
    for (teaching, sigma), fit in found.items():
        cells = [Cell(teaching, N, runs.agent(sigma)) for N in runs.examples]
        ran = [(c.examples, runs.mean(c, "blend_regret")) for c in cells]
        told = [(N, value) for N, value in ran if value is not None]
        clear = "" if fit.low is None else f", {noise(fit.below or fit.above)}"
        evidence.append(
            f"{named(teaching, 0).split(',')[0].capitalize()}, {runs.agent(sigma)}: "
            f"{told[0][1]:,.0f} at {told[0][0]:,} answers, {told[-1][1]:,.0f} at "
            f"{told[-1][0]:,}; exponent {fit.mean:+.3f}{clear}."
        )
    return Claim(
        key="i-online",
        title="Beside Theorem 2: more answers leave less regret online",
        paper=THEOREM,
        holds=not rising if found else None,
        evidence=tuple(evidence),
    )


def _against_examples(runs: Runs, teaching: str, agent: str) -> list[float]:
    """Fit the blend regret at T against N, fold by fold."""
    by_fold: dict[int, list[tuple[int, float]]] = {}
    for N in runs.examples:
        for fold, value in runs.values(Cell(teaching, N, agent), "blend_regret").items():
            if value > 0.0:
                by_fold.setdefault(fold, []).append((N, value))
    return [
        growth_exponent([N for N, _ in line], [value for _, value in line])
        for line in by_fold.values()
        if len(line) >= 2
    ]


def _by_sigma(runs: Runs, means: Mapping[Cell, float]) -> list[str]:
    lines = []
    for teaching in (None, *runs.teachings):
        for sigma in runs.sigmas:
            agent = runs.agent(sigma)
            cells = {c: m for c, m in means.items() if (c.teaching, c.agent) == (teaching, agent)}
            if not cells:
                continue
            low, high = (pick(cells, key=lambda c: cells[c]) for pick in (min, max))
            where = named(teaching, 0).split(",")[0].capitalize() if teaching else "Any teaching"
            if low.examples == high.examples:
                told = f"exponent {cells[low]:.3f}"
            else:
                told = (
                    f"exponents from {cells[low]:.3f} (N = {low.examples:,}) to "
                    f"{cells[high]:.3f} (N = {high.examples:,})"
                )
            lines.append(f"{where}, {agent}: {told}.")
    return some(lines, most=20)


def _cell(cell: Cell) -> str:
    if cell.teaching is None:
        return cell.agent
    return f"{cell.agent}, {named(cell.teaching, cell.examples)}"


def _lines(
    frame: pl.DataFrame,
    measure: str,
    keys: tuple[str, ...],
    *,
    size: str = "t",
    only: str | None = None,
) -> dict[tuple[Any, ...], Line]:
    """Split curves into lines: key columns and fold → sizes and values, both in order."""
    columns = (*keys, "fold", size, measure)
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise InvalidValue(
            "curves or lessons",
            "judge",
            f"with the columns {', '.join(columns)}",
            f"a table without {', '.join(missing)}",
        )
    for name in (size, measure):
        kind = frame.schema[name]
        if not (kind.is_numeric() or kind == pl.Null):
            wanted = f"with numbers in {name!r}"
            raise InvalidValue("curves or lessons", "judge", wanted, str(kind))
    if only is not None:
        frame = frame.filter(pl.col("agent") == only)
    kept = frame.select(columns).drop_nulls([size, measure]).sort(size)
    parts = kept.partition_by([*keys, "fold"], as_dict=True, maintain_order=True)
    found: dict[tuple[Any, ...], Line] = {}
    for key in sorted(parts, key=str):
        x, y = (parts[key][name].cast(pl.Float64).to_numpy() for name in (size, measure))
        finite = np.isfinite(x) & np.isfinite(y) & (x > 0.0)
        found[key] = (x[finite], y[finite])
    return found


def _straightness(t: Floats, E: Floats) -> float:
    """Return R² of the straight line through (t, E); 0 where there is nothing to explain."""
    x, y = t - t.mean(), E - E.mean()
    across, up = float(x @ x), float(y @ y)
    return float(x @ y) ** 2 / (across * up) if across * up > 0.0 else 0.0

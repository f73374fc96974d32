"""What limits cost: a refit, an answer, a decision inside a learned mask.

Everything is timed in turns with the compiled loop of `simulate`, in one process, and told in its
units: one compiled decision among 100 arms with 10 features, its reward learned. So the figures
carry over to another machine, and a busy minute falls on all alike.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks import limitchart, measure
from benchmarks.cases import CASES, Case, Floats, V, make_world
from benchmarks.goals import Goal, judge_limits
from benchmarks.measure import Contest, Effort
from benchmarks.ours import loop_runner
from benchmarks.report import number
from bridle.errors import InvalidValue
from bridle.kernels import logistic
from bridle.limits import (
    AutoLimits,
    Beliefs,
    BoundLimits,
    FoundLimits,
    LogisticLimits,
    MixtureLimits,
    PooledLimits,
    RuleLimits,
)
from bridle.policies import BehaviorConstrained, Thompson
from bridle.simulate import Tables, learned_mask, online, teach

FULL = Effort(slice=0.1, rounds=5)
QUICK = Effort(slice=0.03, rounds=2)
ARMS = 70
DISTINCT = 123  # contexts of a refit: as many as the movies of one fold have
SIGMA = 0.5
DECISION = "one compiled decision, 100x10"
NUMBER_EACH = 5  # where contexts have numbers, so far apart; all other features are words
OLD, NEW = "auto of 4f134e2", "auto"
DUEL_FEATURES, DUEL_UNITS, DUEL_ANSWERS = (10, 41, 200), (7, 30), 300
DUEL_QUESTIONS = 24  # each turn is all of them: what an answer costs depends on what it says


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large limits are when one more answer comes."""

    features: int = 10
    units: int = 7
    answers: int = 100

    @property
    def name(self) -> str:
        """A short name: features, units, answers."""
        return f"d = {self.features}, {self.units} units, {self.answers:,} answers"


# What grows, one at a time; the others are as in Size().
LADDERS: dict[str, tuple[int, ...]] = {
    "features": (10, 41, 200),
    "units": (1, 7, 70),
    "answers": (10, 100, 1_000),
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one answer costs limits of a kind and size; or why there are none."""

    kind: str
    size: Size
    decisions: float | None  # in compiled decisions
    seconds: float | None
    refusal: str = ""


@dataclass(frozen=True, kw_only=True)
class Duel:
    """What one answer costs `auto`, and what it cost that of 4f134e2, which old logs still use."""

    size: Size
    held: float  # share of the features that a context holds
    usual: bool  # contexts as everywhere here; if not, they hold about half: no goal is about that
    old: float  # in compiled decisions
    new: float
    ratio: float  # new / old


@dataclass(frozen=True, kw_only=True)
class Found:
    """Everything that a run found out."""

    decision: float  # seconds of a compiled decision
    refit: float  # learn and look, in compiled decisions
    fit: float  # of it the kernel
    masks: dict[str, float]  # by case: a decision inside a learned mask / one of the paper's blend
    answers: list[Answer]
    duels: list[Duel]

    @property
    def ratios(self) -> dict[tuple[int, int], float]:
        """An answer of auto over one of 4f134e2 in the usual contexts: by features and units."""
        return {(d.size.features, d.size.units): d.ratio for d in self.duels if d.usual}

    def to_json(self) -> dict[str, Any]:
        """Return all as plain JSON values."""
        return asdict(self)


def _logistic(size: Size, groups: list[str]) -> Beliefs:
    return LogisticLimits(arms=ARMS, features=size.features, groups=groups)


def _crosses(size: Size, groups: list[str]) -> Beliefs:
    return LogisticLimits(arms=ARMS, features=size.features, groups=groups, crosses=True)


def _rules(size: Size, groups: list[str]) -> Beliefs:
    return RuleLimits(arms=ARMS, features=size.features, groups=groups)


def _pairs(size: Size, groups: list[str]) -> Beliefs:
    return RuleLimits(arms=ARMS, features=size.features, groups=groups, pairs=True)


def _found(size: Size, groups: list[str]) -> Beliefs:
    return FoundLimits(arms=size.units, features=size.features)  # it is given no groups


def _pooled(size: Size, groups: list[str]) -> Beliefs:
    return PooledLimits(arms=ARMS, features=size.features, groups=groups)


def _bounds(size: Size, groups: list[str]) -> Beliefs:
    above = np.full(size.features, 0.5)
    above[::NUMBER_EACH] = np.nan
    return BoundLimits(arms=ARMS, features=size.features, groups=groups, thresholds=above)


def _auto(size: Size, groups: list[str]) -> Beliefs:
    return MixtureLimits(arms=ARMS, features=size.features, groups=groups)


def _old_auto(size: Size, groups: list[str]) -> Beliefs:
    return AutoLimits(arms=ARMS, features=size.features, groups=groups)


KINDS: dict[str, Callable[[Size, list[str]], Beliefs]] = {
    "logistic": _logistic,
    "logistic, crosses": _crosses,
    "rules": _rules,
    "rules, pairs": _pairs,
    "found": _found,
    "pooled": _pooled,
    "bounds": _bounds,
    "auto": _auto,
}
WITH_NUMBERS = ("bounds",)


def main(
    quick: bool = False,
    console: Console | None = None,
    folder: Path = Path("build"),
    dense: bool = False,
) -> Found:
    """Measure, print a table, draw a figure and give every number."""
    console = console or Console(highlight=False)
    effort = QUICK if quick else FULL
    columns = (TextColumn("{task.description:<52}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        sizes = [(kind, size) for kind in KINDS for size in every_size(quick)]
        duels = every_duel(quick, dense)
        contests = len(sizes) + 2 * len(duels) + 3 + 2 * 2
        lessons = len(sizes) + 2 * len(duels)
        task = progress.add_task("", total=lessons + contests * measure.turns(effort))

        def tick(text: str) -> None:
            progress.update(task, description=text, advance=1)

        found = _measure(sizes, duels, effort, tick)
    show(found, console)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "bench-limits.png"
    limitchart.draw(found, path)
    console.print(f"written: {path}")
    return found


def every_size(quick: bool = False) -> list[Size]:
    """Return each size of the ladders once; a quick run leaves out the highest steps.

    >>> len(every_size()), len(every_size(quick=True))
    (7, 4)
    """
    most = 2 if quick else 3
    made = [replace(Size(), **{what: n}) for what, steps in LADDERS.items() for n in steps[:most]]
    return [*dict.fromkeys(made)]


def every_duel(quick: bool = False, dense: bool = False) -> list[tuple[Size, bool]]:
    """Return the sizes of the duels, and whether contexts are the usual ones.

    A quick run leaves out the most features; ``dense`` adds the largest size with contexts that
    hold half of the features, which takes minutes.

    >>> len(every_duel()), len(every_duel(quick=True)), len(every_duel(dense=True))
    (6, 4, 7)
    """
    most = 2 if quick else 3
    made = [
        (Size(features=d, units=U, answers=DUEL_ANSWERS), True)
        for d in DUEL_FEATURES[:most]
        for U in DUEL_UNITS
    ]
    largest = Size(features=DUEL_FEATURES[-1], units=DUEL_UNITS[-1], answers=DUEL_ANSWERS)
    return [*made, (largest, False)] if dense else made


def _measure(
    sizes: list[tuple[str, Size]],
    duels: list[tuple[Size, bool]],
    effort: Effort,
    tick: Callable[[str], None],
) -> Found:
    contests, refusals = {DECISION: _compiled(), **_refits()}, {}
    for kind, size in sizes:
        tick(f"teaching {kind}: {size.name}")
        who = f"{kind}: {size.name}"
        try:
            contests[who] = _answering(who, *_taught(kind, size))
        except InvalidValue as error:
            refusals[who] = str(error)
    for size, usual in duels:
        for who, make in ((OLD, _old_auto), (NEW, _auto)):
            name = _duellist(who, size, usual)
            tick(f"teaching {name}")
            contests[name] = _answering(name, *_learned(make, size, usual=usual), whole=True)
    cases = [case for case in CASES if case.name in ("100x10", "4x41")]
    for case in cases:
        contests |= _masked(case)
    held = measure.hold([*contests.values()], "limits", effort, tick)
    seconds = {result.who: 1.0 / result.per_second for result in held}
    unit = seconds[DECISION]
    answers = []
    for kind, size in sizes:
        took = seconds.get(f"{kind}: {size.name}")
        answers.append(
            Answer(
                kind=kind,
                size=size,
                decisions=None if took is None else took / unit,
                seconds=took,
                refusal=refusals.get(f"{kind}: {size.name}", ""),
            )
        )
    masks = {c.name: seconds[f"{c.name} masked"] / seconds[f"{c.name} blend"] for c in cases}
    return Found(
        decision=unit,
        refit=seconds["refit"] / unit,
        fit=seconds["fit"] / unit,
        masks=masks,
        answers=answers,
        duels=[_duel(size, usual, seconds, unit) for size, usual in duels],
    )


def _duellist(who: str, size: Size, usual: bool) -> str:
    return f"{who} in a duel: {size.name}{'' if usual else ', half held'}"


def _duel(size: Size, usual: bool, seconds: dict[str, float], unit: float) -> Duel:
    old, new = (seconds[_duellist(who, size, usual)] / unit for who in (OLD, NEW))
    held = float(_contexts(size.features, 1_000, usual=usual).mean())
    return Duel(size=size, held=held, usual=usual, old=old, new=new, ratio=new / old)


# -- what is timed -------------------------------------------------------------------------------


def _compiled() -> Contest:
    world = make_world(CASES[0])
    n = len(world.rows)
    return Contest(who=DECISION, mode="loop", run=loop_runner(world), most=n, least=n)


def _refits() -> dict[str, Contest]:
    """One more answer about a known context, then a look at one: the unit is fitted anew.

    And beside it the kernel alone, on the same counts: the rest is Python around it.
    """
    contexts = _contexts(10, size=2_000)
    first = np.unique(contexts, axis=0, return_index=True)[1]
    distinct = contexts[np.sort(first)[:DISTINCT]]
    rng = np.random.default_rng(1)
    denied = rng.random(10) < 0.3
    limits = LogisticLimits(arms=1, features=10)
    for row in np.repeat(distinct, 4, axis=0):
        limits.learn(row, 0, not (row * denied).any())
    assert len(limits.counts(0)[0]) == DISTINCT

    def run(n: int) -> float:
        rows = [distinct[i % DISTINCT] for i in range(n)]
        said = [not (row * denied).any() for row in rows]
        twin, seconds = limits.copy(), 0.0
        for row, answer in zip(rows, said, strict=True):
            start = time.perf_counter()
            twin.learn(row, 0, answer)
            twin.predict(0, row[None])
            seconds += time.perf_counter() - start
        return seconds

    C, yes, no = limits.counts(0)
    counts = C, yes.astype(np.float64), no.astype(np.float64)
    precision = 1.0 / limits.prior_sd**2
    w, cov = np.empty(limits.columns), np.empty((limits.columns, limits.columns))

    def fit(n: int) -> float:
        start = time.perf_counter()
        for _ in range(n):
            logistic.fit(*counts, False, precision, w, cov)
        return time.perf_counter() - start

    return {
        name: Contest(who=name, mode="single", run=go, most=1_000)
        for name, go in (("refit", run), ("fit", fit))
    }


Question = tuple[Floats, int, bool]


def _taught(kind: str, size: Size) -> tuple[Beliefs, list[Question]]:
    """Teach limits of a kind, and give more questions with their answers."""
    return _learned(KINDS[kind], size, numbers=kind in WITH_NUMBERS)


def _learned(
    make: Callable[[Size, list[str]], Beliefs],
    size: Size,
    *,
    numbers: bool = False,
    usual: bool = True,
) -> tuple[Beliefs, list[Question]]:
    groups = [str(k % size.units) for k in range(ARMS)]
    limits = make(size, groups)
    questions = _questions(size, limits.arms, numbers=numbers, usual=usual)
    for i in range(size.answers):
        context, arm, said = next(questions)
        limits.learn(context, arm, said, i)
    look(limits, np.zeros(size.features))  # what is fitted at the first look is fitted
    return limits, [next(questions) for _ in range(64)]


def _questions(
    size: Size, arms: int, *, numbers: bool = False, usual: bool = True
) -> Iterator[Question]:
    """Ask at random about limits by rules: about half of all answers are "not allowed".

    A number is denied above .5. Of contexts that are not the usual ones more are denied.
    """
    contexts = _contexts(size.features, 1_000, usual=usual)
    if numbers:
        values = contexts[:, ::NUMBER_EACH]
        values[:] = np.random.default_rng(4).random(values.shape)
    rng = np.random.default_rng(3)
    denied = rng.random((size.units, size.features)) < min(0.33, 3.0 / size.features)
    while True:
        row, arm = contexts[rng.integers(len(contexts))], int(rng.integers(arms))
        yield row, arm, not ((row > 0.5) & denied[arm % size.units]).any()


def _contexts(features: int, size: int, *, usual: bool = True) -> Floats:
    if not usual:
        drawn = np.random.default_rng(7).random((size, features)) < 0.5
        return drawn.astype(np.float64)
    case = Case(name="limits", arms=1, features=features, binary=True)
    return make_world(case, steps=1, size=size).contexts


def _answering(
    who: str, limits: Beliefs, questions: list[Question], *, whole: bool = False
) -> Contest:
    """One more answer, and what the next decision needs: a look at all units in one context.

    ``whole``: a slow contestant, too, is timed on `DUEL_QUESTIONS` of them, not on the first alone.
    """

    def run(n: int) -> float:
        seconds = 0.0
        for i in range(n):
            context, arm, said = questions[i % len(questions)]
            after = questions[(i + 1) % len(questions)][0]
            twin = limits.copy()  # always the same number of answers so far
            start = time.perf_counter()
            twin.learn(context, arm, said, i)
            look(twin, after)
            seconds += time.perf_counter() - start
        return seconds

    if whole:
        n = DUEL_QUESTIONS
        return Contest(who=who, mode="single", run=run, most=n, least=n)
    return Contest(who=who, mode="single", run=run, most=1_000)


def look(limits: Beliefs, context: Floats) -> None:
    """Predict for all units in one context."""
    limits.predict_all(context[None])


def _masked(case: Case) -> dict[str, Contest]:
    """Decisions inside a mask of frozen limits, its making included; and the paper's blend."""
    world = make_world(case)
    rng = np.random.default_rng(5)
    weights = rng.normal(0.0, 1.0, (case.features, case.arms))
    scores = world.contexts @ weights
    allowed = scores > np.quantile(scores, 0.33, axis=0)
    tables = Tables(contexts=world.contexts, rewards=world.rewards, allowed=allowed)
    N = 5_000
    lesson = teach(tables, examples=N, seed=1)
    limits = LogisticLimits(arms=case.arms, features=case.features)
    rows, arms = lesson.rows[:N], lesson.arms[:N]
    limits.learn_many(tables.contexts[rows], arms, allowed[rows, arms])
    blend, plain = BehaviorConstrained(sigma=SIGMA), Thompson(v=V)

    def blended(n: int) -> float:
        start = time.perf_counter()
        online(tables, policy=blend, limits=lesson.limits[N], rows=world.rows[:n], seed=1)
        return time.perf_counter() - start

    def masked(n: int) -> float:
        start = time.perf_counter()
        may = learned_mask(tables, limits)
        online(tables, policy=plain, eligible=may, rows=world.rows[:n], seed=1)
        return time.perf_counter() - start

    n = len(world.rows)
    return {
        f"{case.name} {name}": Contest(
            who=f"{case.name} {name}", mode="loop", run=run, most=n, least=n
        )
        for name, run in (("blend", blended), ("masked", masked))
    }


# -- what is shown -------------------------------------------------------------------------------


def show(found: Found, console: Console) -> None:
    """Print the table of answers, what refuses and why, and the goals."""
    table = Table(
        title="One answer, in compiled decisions",
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("kind", no_wrap=True)
    table.add_column("base", justify="right")
    grown = [size for size in dict.fromkeys(a.size for a in found.answers) if size != Size()]
    for size in grown:
        table.add_column(_head(size), justify="right")
    for kind in KINDS:
        cells = [_cell(found, kind, size) for size in [Size(), *grown]]
        table.add_row(kind, *cells)
    console.print(table)
    console.print(
        f"One answer is learned, and all units looked at in one context. Base: {Size().name}; the "
        "other columns change one of them. found has no groups: its units are arms. For bounds "
        f"one feature in {NUMBER_EACH} is a number. A compiled "
        f"decision (100 arms, 10 features) took {found.decision * 1e6:.2f} µs.",
        style="dim",
    )
    refused = {a.kind: a for a in reversed(found.answers) if a.refusal}  # the smallest of each
    for kind, answer in refused.items():
        text = f"– {kind}, {_grown(answer.size)}: {answer.refusal}"
        console.print(text, style="yellow", markup=False)
    _show_duels(found.duels, console)
    for goal in judge_limits(found.refit, found.masks, found.ratios):
        console.print(_told(goal))
    around = found.refit - found.fit
    console.print(f"Of the refit: {found.fit:.1f} in the kernel, {around:.1f} in Python around it.")


def _show_duels(duels: list[Duel], console: Console) -> None:
    table = Table(
        title=f"One answer after {DUEL_ANSWERS} in compiled decisions: auto, and that of 4f134e2",
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for head in ("features", "units", "held", "4f134e2", "now", "now / 4f134e2"):
        table.add_column(head, justify="right")
    for duel in duels:
        table.add_row(
            str(duel.size.features),
            str(duel.size.units),
            f"{duel.held:.0%}",
            number(duel.old),
            number(duel.new),
            f"{duel.ratio:.2f}",
        )
    console.print(table)
    console.print(
        f"Each is the mean of the same {DUEL_QUESTIONS} answers, by AutoLimits and MixtureLimits. "
        "Held is the share of the features that a context holds; what holds half is not judged.",
        style="dim",
    )


def _told(goal: Goal) -> str:
    verdict = "[green]reached[/]" if goal.reached else "[red]not reached[/]"
    return f"{goal.text}: {number(goal.got)} (goal: at most {number(goal.wanted)}): {verdict}"


def _grown(size: Size) -> str:
    base = asdict(Size())
    what, n = next((k, v) for k, v in asdict(size).items() if v != base[k])
    return f"{n:,} {what}" if n > 1 else f"1 {what.removesuffix('s')}"


def _head(size: Size) -> str:
    return _grown(size).replace("features", "feat.").replace("answers", "answ.")


def _cell(found: Found, kind: str, size: Size) -> str:
    (answer,) = (a for a in found.answers if (a.kind, a.size) == (kind, size))
    return "–" if answer.decisions is None else number(answer.decisions)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="in seconds, rough figures")
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder for the figure")
    parser.add_argument(
        "--dense", action="store_true", help="auto in contexts that hold half, too: minutes more"
    )
    given = parser.parse_args()
    main(given.quick, folder=given.out, dense=given.dense)

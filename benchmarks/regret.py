"""Regret beside peers, nothing set by hand: ``python -m benchmarks.regret [--quick]``.

Everybody plays the same contexts, and sees the same reward where it plays the same arm at the same
step. Told is the mean expected regret a decision: what the best arm there earns on average, less
what the arm played does.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import openbandit, regretreport, regretworlds
from benchmarks.cases import Floats, Ints
from benchmarks.regretpeers import PEERS
from benchmarks.regretreport import LADDER, Curve, Row
from benchmarks.regretworlds import World

QUICK = 300
LEAST = 20  # steps between two looks at the clock
NOTE = (
    "Means over seeds. @n: a slow contestant was stopped at its budget, after so many decisions on "
    "average; regret falls with decisions, so compare it with the others' at as many, in the "
    "figure. –: it stopped before the world changed, or was not there."
)


class Player(Protocol):
    """What a contestant does, a step at a time."""

    def choose(self, context: Floats) -> int: ...

    def learn(self, context: Floats, arm: int, reward: float) -> None: ...

    def change(self, leaving: Ints, coming: Ints) -> None: ...


class Bridle:
    """An `Agent` that is told nothing but arms, features and a seed.

    No arm is denied in these worlds, so its policy is that part of the default which remains where
    all is allowed: Thompson sampling with the spread of the default. What can be set beside it is
    `settings`, for those that are not the default.
    """

    def __init__(self, world: World, seed: int, v: float | None = None, **settings: object) -> None:
        import bridle

        self.rows = world.arm_features
        given: dict[str, Any] = {
            "arms": [self._arm(int(k)) for k in world.arms],
            "features": world.contexts.shape[1],
            "seed": seed,
        }
        if self.rows is not None:
            given["arm_features"] = self.rows.shape[1]
        given |= settings
        if v is None:
            v = bridle.Agent(**given).policy.v  # type: ignore[attr-defined]
        self.agent = bridle.Agent(**given, policy=bridle.Thompson(v=v))
        self.made: Any = None

    def _arm(self, k: int) -> Any:
        import bridle

        return k if self.rows is None else bridle.Arm(k, features=self.rows[k])

    def choose(self, context: Floats) -> int:
        # A batch of one: the arm alone, without the scores that `decide` keeps for `explain`.
        self.made = self.agent.decide_many(context[None], details=False)
        return int(self.made.chosen[0])

    def learn(self, context: Floats, arm: int, reward: float) -> None:
        self.agent.reward(self.made.ids[0], reward)

    def change(self, leaving: Ints, coming: Ints) -> None:
        self.agent.retire_arms(leaving.tolist())
        self.agent.add_arms([self._arm(int(k)) for k in coming])


def centred(world: World, seed: int) -> Player:
    """Each arm alone, with the spread and ridge that were set by hand before."""
    return Bridle(world, seed, v=0.05, prior="centred", reward="linear")


def without_forgetting(world: World, seed: int) -> Player:
    """Return the default that forgets nothing."""
    return Bridle(world, seed, forget="never")


Maker = Callable[[World, int], Player]
OURS: dict[str, Maker] = {
    "bridle": Bridle,
    "bridle-centred": centred,
    "bridle-no-forgetting": without_forgetting,
}
ONLY = {"bridle-no-forgetting": ("drift",)}


def contestants() -> dict[str, Maker]:
    """Return who can play, by name."""
    return OURS | PEERS


def play(
    world: World,
    player: Player,
    budget: float = float("inf"),
    tick: Callable[[int], None] = lambda steps: None,
) -> Floats:
    """Play a world to its end, or until the budget of seconds is used up: the regret of each step.

    The budget is of the process' own time, so that it buys about as much on a busy machine.
    """
    regrets = np.empty(len(world))
    there, began = world.arms, time.process_time()
    for step in range(len(world)):
        if step % LEAST == 0:
            tick(LEAST)
            if time.process_time() - began > budget:
                return regrets[:step]
        if step in world.changes:
            leaving, coming = world.changes[step]
            player.change(leaving, coming)
            there = np.concatenate([np.setdiff1d(there, leaving), coming])
        context, means = world.contexts[step], world.means(step)
        arm = player.choose(context)
        mean = float(means[arm])
        regrets[step] = means[there].max() - mean
        player.learn(context, arm, world.reward(step, arm, mean))
    return regrets


def rows_of(world: World, who: str, regrets: Floats) -> list[Row]:
    """Return a row for each number of decisions at which a world is read; none was played: none."""
    n = len(regrets)
    return [
        Row(
            world=world.name,
            who=who,
            seed=world.seed,
            n=mark,
            mean=float(regrets[:mark].mean()),
            second_half=float(regrets[mark // 2 : mark].mean()),
        )
        for mark in sorted({min(mark, n) for mark in regretreport.marks_of(world.name)})
        if mark
    ]


def curve_of(world: World, who: str, regrets: Floats) -> Curve:
    """Return how the mean regret went, up to the last decision."""
    n = len(regrets)
    at = sorted({mark for mark in LADDER if mark < n} | {n}) if n else []
    mean = [float(regrets[:mark].mean()) for mark in at]
    return Curve(world=world.name, who=who, seed=world.seed, at=at, mean=mean)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, print, and write regret.json, regret-curves.json and regret.png."""
    options = _options(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)  # a log file has no width of its own
    rows: list[Row] = []
    curves: list[Curve] = []
    columns = (TextColumn("{task.description:<40}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("")

        def played(who: str, made: list[Row], curve: Curve | None = None) -> None:
            rows.extend(made)
            curves.extend([] if curve is None else [curve])
            regretreport.write(rows, curves, options.out)  # what is there if it is stopped
            if options.verbose:
                for row in made:
                    console.print(f"{row.world} {row.seed} {who}: {row.mean:.4f} in {row.n:,}")

        def skip(what: str, why: str) -> None:
            console.print(f"skipped: {what} ({why})", style="yellow")

        every = {who: make for who, make in contestants().items() if who in options.who}
        everybody = {who: make for who, make in every.items() if _installed(who, make, skip)}
        for name in options.worlds:
            if name == openbandit.NAME:
                progress.reset(task, total=None, description=name)
                _predict(options, played, skip)
                continue
            for seed in range(options.seeds):
                made = regretworlds.make(name, seed, QUICK if options.quick else None, options.data)
                if isinstance(made, str):
                    skip(name, made)
                    break
                for who, make in everybody.items():
                    if name not in ONLY.get(who, (name,)):
                        continue
                    progress.reset(task, total=len(made), description=f"{name} {seed}: {who}")
                    regrets = play(
                        made,
                        make(made, seed),
                        float("inf") if who in OURS else options.budget,
                        lambda steps: progress.advance(task, steps),
                    )
                    played(who, rows_of(made, who, regrets), curve_of(made, who, regrets))
    paths = regretreport.write(rows, curves, options.out)
    if rows:
        console.print(regretreport.table(rows))
        console.print(NOTE, style="dim")
    for goal in regretreport.judge(rows):
        said = "reached" if goal.reached else "NOT reached"
        console.print(
            f"{goal.text}: {goal.got:.4g}, wanted ≤ {goal.wanted:g}: {said}",
            style="green" if goal.reached else "red",
        )
    if curves:
        paths.append(options.out / "regret.png")
        regretreport.draw(curves, paths[-1])
    console.print("written: " + ", ".join(str(path) for path in paths))
    return 0


def _installed(who: str, make: Maker, skip: Callable[[str, str], None]) -> bool:
    """Return whether a contestant can be made."""
    try:
        make(regretworlds.drift(0, 1), 0)
    except ImportError as error:
        skip(who, f"not installed: {error}")
        return False
    return True


def _predict(
    options: argparse.Namespace,
    played: Callable[[str, list[Row]], None],
    skip: Callable[[str, str], None],
) -> None:
    """Fit models on a real log. Its three campaigns stand in the place of seeds."""
    wheel = openbandit.fetch(options.cache)
    if isinstance(wheel, str):
        skip(openbandit.NAME, wheel)
        return
    for campaign, log in enumerate(openbandit.campaigns(wheel)):
        if campaign >= options.seeds:
            break
        for who, make in openbandit.MODELS.items():
            if who not in options.who and who in contestants():
                continue
            losses = openbandit.losses(log.few(QUICK) if options.quick else log, make)
            n = len(losses)
            mean, half = float(losses.mean()), float(losses[n // 2 :].mean())
            row = Row(
                world=openbandit.NAME, who=who, seed=campaign, n=n, mean=mean, second_half=half
            )
            played(who, [row])


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regret", description=__doc__)
    worlds = [*regretworlds.STEPS, openbandit.NAME]
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} steps of each world")
    parser.add_argument("--seeds", type=int, default=3, help="how many: 0 to one less")
    parser.add_argument("--worlds", nargs="+", choices=worlds, default=worlds)
    parser.add_argument("--who", nargs="+", choices=contestants(), default=[*contestants()])
    parser.add_argument(
        "--budget", type=float, default=60.0, help="seconds of a peer's run; then it stops"
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bridle"
    parser.add_argument("--cache", type=Path, default=cache, help="where open-bandit is kept")
    parser.add_argument("--data", type=Path, help="where ml-1m is [$BRIDLE_DATA, ../shared/data]")
    parser.add_argument("--verbose", action="store_true", help="print each run as it ends")
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder for the files")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

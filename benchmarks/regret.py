"""Regret beside peers, nothing set by hand: ``python -m benchmarks.regret [--quick]``.

Everybody plays the same contexts, and sees the same reward where it plays the same arm at the same
step. Told is the mean expected regret a decision: what the best arm there earns on average, less
what the arm played does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import regretworlds
from benchmarks.cases import Floats, Ints
from benchmarks.regretpeers import PEERS
from benchmarks.regretworlds import World

MARKS = {"bilinear": (2_000, 20_000)}
QUICK = 300
LEAST = 20  # steps between two looks at the clock


@dataclass(frozen=True, kw_only=True)
class Row:
    """A contestant's regret in a world: a line of regret.json."""

    world: str
    who: str
    seed: int
    n: int
    mean: float
    second_half: float


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
    from bridle import Agent

    off = {"forget": None} if "forget" in signature(Agent).parameters else {}
    return Bridle(world, seed, **off)


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


def rows_of(world: World, who: str, regrets: Floats) -> Iterator[Row]:
    """Yield a row for each number of decisions at which a world is read."""
    n = len(regrets)
    for mark in sorted({min(mark, n) for mark in MARKS.get(world.name, (n,))}):
        yield Row(
            world=world.name,
            who=who,
            seed=world.seed,
            n=mark,
            mean=float(regrets[:mark].mean()),
            second_half=float(regrets[mark // 2 : mark].mean()),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, print, and write regret.json."""
    options = _options(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    rows: list[Row] = []
    skipped: dict[str, str] = {}
    columns = (TextColumn("{task.description:<40}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("")
        for name in options.worlds:
            for seed in range(options.seeds):
                made = regretworlds.make(name, seed, QUICK if options.quick else None, options.data)
                if isinstance(made, str):
                    skipped[name] = made
                    break
                for who in options.who:
                    if name not in ONLY.get(who, (name,)):
                        continue
                    progress.reset(task, total=len(made), description=f"{name} {seed}: {who}")
                    regrets = play(
                        made,
                        contestants()[who](made, seed),
                        options.budget,
                        lambda steps: progress.advance(task, steps),
                    )
                    rows += rows_of(made, who, regrets)
                    _write(rows, options.out)
                    if options.verbose:
                        console.print(rows[-1])
    for name, why in skipped.items():
        console.print(f"{name} skipped: {why}", style="yellow")
    path = _write(rows, options.out)
    for (world, who, n), mean, half in means_of(rows):
        console.print(f"{world:12} {who:22} {n:7,} {mean:.4f} {half:.4f}")
    console.print(f"written: {path}")
    return 0


def _write(rows: Sequence[Row], folder: Path) -> Path:
    """Write what there is so far: a long run that is stopped leaves what it found."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "regret.json"
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return path


def means_of(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, str, int], float, float]]:
    """Yield the mean over seeds of each world, contestant and number of decisions."""
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.world, row.who, row.n), []).append(row)
    for key, group in groups.items():
        yield (
            key,
            float(np.mean([row.mean for row in group])),
            float(np.mean([row.second_half for row in group])),
        )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regret", description=__doc__)
    worlds = [*regretworlds.STEPS]
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} steps of each world")
    parser.add_argument("--seeds", type=int, default=3, help="how many: 0 to one less")
    parser.add_argument("--worlds", nargs="+", choices=worlds, default=worlds)
    parser.add_argument("--who", nargs="+", choices=contestants(), default=[*contestants()])
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each run")
    parser.add_argument("--data", type=Path, help="where ml-1m is [$BRIDLE_DATA, ../shared/data]")
    parser.add_argument("--verbose", action="store_true", help="print each run as it ends")
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder for the files")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

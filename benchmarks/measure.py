"""How a rate is measured: interleaved rounds, and the best of them.

The machine may be shared. A contestant that is timed in a busy minute must not lose
to one that is timed in a quiet one, so all contestants of a case and mode take turns
in short slices, several rounds of them, and each keeps its fastest slice.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.cases import World
from benchmarks.peers import Peer

Mode = Literal["loop", "single", "batch", "fit", "loop-limits", "slate-1", "slate-10"]
MODES: tuple[Mode, ...] = (
    "loop",
    "single",
    "batch",
    "fit",
    "loop-limits",
    "slate-1",
    "slate-10",
)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one contestant reached in one mode of one case."""

    case: str
    mode: Mode
    who: str
    per_second: float
    steps: int  # in one timed slice: fewer than T for a slow contestant


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long to look: seconds a slice, and how many rounds of slices."""

    slice: float
    rounds: int


FULL = Effort(slice=0.8, rounds=4)
QUICK = Effort(slice=0.15, rounds=2)


@dataclass(kw_only=True)
class Contest:
    """One contestant in one mode. ``run(n)`` does n steps and returns the seconds."""

    who: str
    mode: Mode
    run: Callable[[int], float]
    most: int
    least: int = 1
    steps: int = 0
    rates: list[float] = field(default_factory=list)

    def calibrate(self, effort: Effort) -> None:
        """Find how many steps fill a slice, up to ``most``; it also warms up."""
        n = min(self.least, self.most)
        self.run(n)  # caches, lazy imports and compilation are not part of a rate
        seconds = self.run(n)
        while n < self.most and seconds < effort.slice / 4.0:
            wanted = int(n * effort.slice / max(seconds, 1e-7))
            n = min(self.most, max(2 * n, min(wanted, 16 * n)))
            seconds = self.run(n)
        self.steps = n

    def take_turn(self, effort: Effort) -> None:
        """Time one more slice: as long for a fast contestant, in several runs, as for a slow one.

        Otherwise the fastest slice of short ones would be quieter than that of long ones.
        """
        gc.collect()
        steps, seconds = 0, 0.0
        while seconds < effort.slice / 2.0:
            seconds += self.run(self.steps)
            steps += self.steps
        self.rates.append(steps / seconds)

    def result(self, case: str) -> Result:
        """Keep the fastest slice: the one that was least disturbed."""
        best = max(self.rates)
        return Result(case=case, mode=self.mode, who=self.who, per_second=best, steps=self.steps)


def hold(
    contests: Sequence[Contest], case: str, effort: Effort, tick: Callable[[str], None]
) -> list[Result]:
    """Run all contestants in turns; ``tick`` is called before each turn."""
    for contest in contests:
        tick(f"{case} {contest.mode}: {contest.who}")
        contest.calibrate(effort)
    for _ in range(effort.rounds):
        for contest in contests:
            tick(f"{case} {contest.mode}: {contest.who}")
            contest.take_turn(effort)
    return [contest.result(case) for contest in contests]


def turns(effort: Effort) -> int:
    """How often one contest ticks."""
    return 1 + effort.rounds


def stepwise(make: type[Peer], world: World) -> Contest:
    """Build the contest of one step at a time: choose an arm, then learn its reward."""
    peer = make(world, seed=1)
    rows, rewards = world.rows.tolist(), world.rewards
    most = len(rows)

    def run(n: int) -> float:
        todo = rows[:n]
        choose, learn = peer.choose, peer.learn
        start = time.perf_counter()
        for row in todo:
            arm = choose(row)
            learn(row, arm, float(rewards[row, arm]))
        return time.perf_counter() - start

    return Contest(who=make.name, mode="single", run=run, most=most)


def batchwise(make: type[Peer], world: World) -> Contest:
    """Build the contest of whole batches: choose for all contexts, then learn all rewards."""
    peer = make(world, seed=1)
    rows, rewards, size = world.rows, world.rewards, world.case.batch
    # One that has no bulk form goes one by one whatever the size: let it do fewer.
    has_bulk = make.choose_many is not Peer.choose_many

    def run(n: int) -> float:
        start = time.perf_counter()
        for first in range(0, n, size):
            part = rows[first : min(first + size, n)]
            arms = peer.choose_many(part)
            peer.learn_many(part, arms, rewards[part, arms])
        return time.perf_counter() - start

    least = size if has_bulk else 1
    return Contest(who=make.name, mode="batch", run=run, most=len(rows), least=least)


def from_log(make: type[Peer], world: World) -> Contest:
    """Build the contest of a fit from a log, each time from an untrained model."""
    rows, arms = world.rows, world.log_arms
    rewards = world.rewards[rows, arms]

    def run(n: int) -> float:
        fit = make(world, seed=1).prepare_log(rows[:n], arms[:n], rewards[:n])
        start = time.perf_counter()
        fit()
        return time.perf_counter() - start

    # A model that solves for its arms at the end pays for K of them whatever the log's
    # length: a short log would make it look slow, so it always gets the whole one.
    least = 1_000 if make.fits_by_row else len(rows)
    return Contest(who=make.name, mode="fit", run=run, most=len(rows), least=least)

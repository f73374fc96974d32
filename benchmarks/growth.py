"""How bridle's cost grows: with arms, features and steps; memory an arm; start-up."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.cases import Case, World, make_world
from benchmarks.catalogue import Catalogue, CatalogueCase, make_catalogue
from benchmarks.ours import Bridle, BridleCatalogue, loop_runner

Tick = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Seconds against a size, and the slope of the line through them, log against log."""

    size: str  # "K", "d" or "T"
    fixed: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]  # a step; for T, the whole run
    exponent: float
    fit: float  # R squared of the line


def fitted(size: str, fixed: str, sizes: Sequence[int], seconds: Sequence[float]) -> Growth:
    """Fit seconds = a * size ** exponent by least squares on logarithms.

    >>> fitted("K", "", [1, 10, 100], [2.0, 20.0, 200.0]).exponent
    1.0
    """
    x, y = np.log(sizes), np.log(seconds)
    slope, level = np.polyfit(x, y, 1)
    spread = float(np.sum((y - y.mean()) ** 2))
    left = float(np.sum((y - slope * x - level) ** 2))
    return Growth(
        size=size,
        fixed=fixed,
        sizes=tuple(sizes),
        seconds=tuple(float(s) for s in seconds),
        exponent=round(float(slope), 3),
        fit=round(1.0 - left / spread, 4) if spread > 0.0 else 1.0,
    )


@dataclass(frozen=True, kw_only=True)
class Ladders:
    """Which sizes to climb, and how often to repeat."""

    arms: tuple[int, ...]
    features: tuple[int, ...]
    lengths: tuple[int, ...]
    catalogues: tuple[int, ...]  # arms with features
    catalogue_lengths: tuple[int, ...]
    steps: int
    repeats: int
    processes: int  # of each kind, for start-up times

    @property
    def turns(self) -> int:
        """How often progress is told."""
        sizes = self.arms + self.features + self.lengths
        sizes += self.catalogues + self.catalogue_lengths
        return len(sizes) + 1 + self.processes


FULL = Ladders(
    arms=(10, 30, 100, 300, 1_000),
    features=(5, 10, 20, 40, 80),
    lengths=(5_000, 10_000, 20_000, 40_000, 80_000),
    catalogues=(12_500, 25_000, 50_000, 100_000, 200_000),
    catalogue_lengths=(2_000, 4_000, 8_000, 16_000),
    steps=10_000,
    repeats=3,
    processes=7,
)
QUICK = Ladders(
    arms=(10, 30, 100, 300),
    features=(5, 10, 20, 40),
    lengths=(2_000, 4_000, 8_000),
    catalogues=(12_500, 25_000, 50_000),
    catalogue_lengths=(1_000, 2_000, 4_000),
    steps=2_000,
    repeats=2,
    processes=3,
)


def growth(ladders: Ladders, tick: Tick) -> list[Growth]:
    """Measure the compiled loop over ladders of K, d and T on dense contexts."""

    def climb(name: str, sizes: Sequence[int], seconds: Callable[[int], float]) -> list[float]:
        found = []
        for size in sizes:
            tick(f"growth: {name} = {size:,}")
            found.append(seconds(size))
        return found

    steps, repeats = ladders.steps, ladders.repeats
    by_arms = climb("K", ladders.arms, lambda k: _per_step(k, 10, steps, repeats))
    by_features = climb("d", ladders.features, lambda d: _per_step(20, d, steps, repeats))
    by_length = climb("T", ladders.lengths, lambda t: t * _per_step(100, 10, t, repeats))
    words = climb("catalogue K", ladders.catalogues, lambda k: _catalogue_step(k, 1_000, repeats))
    length = climb(
        "catalogue T", ladders.catalogue_lengths, lambda t: t * _catalogue_step(10_000, t, 1)
    )
    return [
        fitted("K", f"d = 10, T = {steps:,}", ladders.arms, by_arms),
        fitted("d", f"K = 20, T = {steps:,}", ladders.features, by_features),
        fitted("T", "K = 100, d = 10", ladders.lengths, by_length),
        fitted("K", "arms with 20 features, d = 10, T = 1,000", ladders.catalogues, words),
        fitted("T", "10,000 arms with 20 features, d = 10", ladders.catalogue_lengths, length),
    ]


def _per_step(arms: int, features: int, steps: int, repeats: int) -> float:
    case = Case(name=f"{arms}x{features}", arms=arms, features=features)
    play = loop_runner(make_world(case, steps=steps, size=500))
    play(min(steps, 10))
    return min(play(steps) for _ in range(repeats)) / steps


def _catalogue_step(arms: int, steps: int, repeats: int) -> float:
    """Return the seconds of a step of the model that arms with features share, from its first."""
    from bridle.reward.shared import SharedArms

    case = _case_of(arms)
    world = make_catalogue(case, steps=steps)
    may, best = np.ones(arms, np.bool_), float("inf")
    for _ in range(repeats):
        model = SharedArms(rows=world.rows, features=case.features)
        model.best(world.contexts[0], may, 0, model.spread)  # arms are put in order before
        start = time.perf_counter()
        for t, row in enumerate(world.order.tolist()):
            arm, _ = model.best(world.contexts[row], may, t + 1, model.spread)
            model.fold(arm, world.contexts[row], world.reward(row, arm))
        best = min(best, time.perf_counter() - start)
    return best / steps


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes that one more arm costs an Agent, beside the numbers that it must hold."""

    case: str
    bytes_per_arm: float
    bare_bytes: int  # B, its inverse, f and mu as plain float64; with features (1, a) and Σ(1, x)


def memory_per_arm(case: Case) -> Memory:
    """Compare agents with K and 2K arms after some steps, as Python's allocator saw them."""
    small = _held(case.arms, case.features)
    large = _held(2 * case.arms, case.features)
    d = case.features
    return Memory(
        case=case.name,
        bytes_per_arm=(large - small) / case.arms,
        bare_bytes=8 * (2 * d * d + 2 * d),
    )


def memory_of_catalogue(case: CatalogueCase) -> Memory:
    """Return what an arm with features takes: its part of an `Agent`, beside (1, a) and (1, x)."""
    world = make_catalogue(case, steps=50)
    gc.collect()
    tracemalloc.start()
    try:
        agent = BridleCatalogue(world, "single")
        for row in world.order.tolist():
            arm = agent.choose(row)
            agent.learn(row, arm, world.reward(row, arm))
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    bare = 8 * (case.arm_features + 1 + case.features + 1)
    return Memory(case=case.name, bytes_per_arm=held / case.arms, bare_bytes=bare)


def _held(arms: int, features: int) -> int:
    world = make_world(Case(name="memory", arms=arms, features=features), steps=50, size=50)
    _play(Bridle(world, seed=1), world)  # compile outside of the count
    gc.collect()
    tracemalloc.start()
    try:
        agent = Bridle(world, seed=1)
        _play(agent, world)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def _play(contestant: Bridle, world: World) -> None:
    for row in world.rows.tolist():
        arm = contestant.choose(row)
        contestant.learn(row, arm, float(world.rewards[row, arm]))


@dataclass(frozen=True, kw_only=True)
class Startup:
    """Seconds of whole processes, the best of several."""

    python: float  # an interpreter that does nothing
    numpy: float
    bridle: float
    help: float

    @property
    def import_ratio(self) -> float:
        """Cost of ``import bridle`` over that of ``import numpy``, the interpreter apart."""
        return (self.bridle - self.python) / (self.numpy - self.python)

    @property
    def help_ratio(self) -> float:
        """Cost of ``bridle --help`` over that of ``import numpy``, the interpreter apart."""
        return (self.help - self.python) / (self.numpy - self.python)


def startup(ladders: Ladders, tick: Tick) -> Startup:
    """Time fresh processes in turns, so that a busy moment hits all of them alike."""
    command = Path(sys.executable).with_name("bridle")
    # Without the installed command (a bare checkout) the same function is called.
    call = "import sys; sys.argv = ['bridle', '--help']; from bridle.cli import main; main()"
    shown = [str(command), "--help"] if command.exists() else [sys.executable, "-c", call]
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "numpy": [sys.executable, "-c", "import numpy"],
        "bridle": [sys.executable, "-c", "import bridle"],
        "help": shown,
    }
    best = dict.fromkeys(commands, float("inf"))
    for turn in range(ladders.processes + 1):  # the first turn fills the caches of files
        tick("start-up")
        for name, line in commands.items():
            start = time.perf_counter()
            subprocess.run(line, check=True, capture_output=True)
            if turn:
                best[name] = min(best[name], time.perf_counter() - start)
    return Startup(**best)


@dataclass(frozen=True, kw_only=True)
class Whole:
    """What an agent of a whole catalogue costs, from arms to its file. Seconds of processor."""

    arms: int
    kinds: int
    make: float  # the agent, of arms that are there
    first: float  # its first decision, before which arms are put in order
    step: tuple[float, float]  # afterwards: one arm; and with its reward
    slate: tuple[float, float]  # ten arms at once; and with their rewards
    add: float  # one arm more
    bytes_per_arm: float  # all that the process has grown by, the arms themselves included


def whole_catalogue(arms: int, steps: int = 1_000) -> Whole:
    """Measure one agent of so many arms with 20 features."""
    world = make_catalogue(_case_of(arms), steps=steps)
    _play_catalogue(make_catalogue(_case_of(1_000), steps=20))  # compile before
    gc.collect()
    before = _resident()

    def timed(run: Callable[[], object]) -> float:
        start = time.process_time()
        run()
        return time.process_time() - start

    made: list[BridleCatalogue] = []
    make = timed(lambda: made.append(BridleCatalogue(world, "slate-1")))
    peer = made[0]
    first = timed(lambda: peer.choose(0))
    step = _steps(peer, world, steps, 1)
    slate = _steps(peer, world, steps // 10, 10)
    held = _resident() - before
    import bridle

    one = [bridle.Arm("new", features={"words": ["f1"]})]
    add = timed(lambda: peer.agent.add_arms(one))
    return Whole(
        arms=arms,
        kinds=len(np.unique(world.rows, axis=0)),
        make=make,
        first=first,
        step=step,
        slate=slate,
        add=add,
        bytes_per_arm=held / arms,
    )


def _case_of(arms: int) -> CatalogueCase:
    return CatalogueCase(name="", arms=arms, arm_features=20, features=10, peers=())


def _play_catalogue(world: Catalogue) -> None:
    peer = BridleCatalogue(world, "slate-1")
    _steps(peer, world, len(world.order), 1)
    _steps(peer, world, len(world.order), 10)


def _steps(peer: BridleCatalogue, world: Catalogue, steps: int, places: int) -> tuple[float, float]:
    """Return the seconds of a choice of so many arms, and with their rewards."""
    peer.places = places
    choices, both = 0.0, 0.0
    for row in world.order[:steps].tolist():
        start = time.process_time()
        arm = peer.choose(row)
        choices += time.process_time() - start
        peer.learn(row, arm, 0.0)
        both += time.process_time() - start
    return choices / steps, both / steps


def _resident() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what agents of whole catalogues cost: ``python -m benchmarks.growth 1000000``."""
    sizes = [int(one) for one in (sys.argv[1:] if arguments is None else arguments)]
    for arms in sizes or [10_000, 100_000]:
        found = whole_catalogue(arms)
        one, ten = ("/".join(f"{t * 1e3:.2f}" for t in each) for each in (found.step, found.slate))
        print(
            f"{found.arms:,} arms of {found.kinds:,} kinds: made in {found.make:.1f} s, "
            f"first decision {found.first:.2f} s; a choice / with its reward: {one} ms, "
            f"ten at once {ten} ms; one arm more {found.add * 1e3:.0f} ms; "
            f"{found.bytes_per_arm:,.0f} bytes an arm"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

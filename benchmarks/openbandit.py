"""How well a model that is fitted on a real log of clicks predicts the days that follow.

The log is the sample of the Open Bandit Dataset (ZOZO, Inc.) that the package `obp` carries: three
campaigns of a fashion shop, a week each, whose ads were drawn evenly; one in 250 was clicked. The
package is fetched by pip, without what it depends on, kept in a folder, and only read from.
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import Floats

NAME = "open-bandit"
CAMPAIGNS = ("all", "men", "women")
PATH = "obp/dataset/obd/random/{0}/{1}.csv"
USER = tuple(f"user_feature_{i}" for i in range(4))
SHOWN = (*USER, "position")
WORDS = tuple(f"item_feature_{i}" for i in range(1, 4))
NUMBER = "item_feature_0"
PATIENCE = 300.0

Cells = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Log:
    """A campaign: its plays by day, and what its ads are like."""

    days: list[list[Cells]]
    items: list[Cells]

    def few(self, plays: int) -> Log:
        """Return a log of so many plays a day."""
        return Log(days=[day[:plays] for day in self.days], items=self.items)


def fetch(folder: Path) -> Path | str:
    """Return the package, fetched if it is not in the folder yet; or why it cannot be had."""
    there = sorted(folder.glob("obp-*.whl"))
    if there:
        return there[-1]
    line = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    line += ["--quiet", "--dest", str(folder), "obp"]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"pip download obp: {error}"
    there = sorted(folder.glob("obp-*.whl"))
    if done.returncode or not there:
        last = done.stderr.strip().splitlines()[-1:] or ["no wheel came"]
        return f"pip download obp: {last[0]:.200}"
    return there[-1]


def read(wheel: Path, campaign: str) -> Log:
    """Read a campaign out of the package, its plays in their order in time."""
    with zipfile.ZipFile(wheel) as package:
        plays, items = (
            list(csv.DictReader(io.StringIO(package.read(PATH.format(campaign, name)).decode())))
            for name in (campaign, "item_context")
        )
    plays.sort(key=lambda cells: cells["timestamp"])
    days: dict[str, list[Cells]] = {}
    for cells in plays:
        days.setdefault(cells["timestamp"][:10], []).append(cells)
    return Log(days=list(days.values()), items=items)


Predict = Callable[[Cells], float]


class Constant:
    """The share of clicks so far, whatever is shown to whom."""

    def __init__(self, log: Log, seed: int) -> None:
        self.clicks, self.plays = 0.0, 0

    def learn(self, plays: Sequence[Cells]) -> None:
        self.clicks += sum(float(cells["click"]) for cells in plays)
        self.plays += len(plays)

    def predict(self, cells: Cells) -> float:
        return self.clicks / self.plays


class Bridle:
    """An `Agent` that learns from the log, each ad alone or by what ads are like."""

    def __init__(self, log: Log, seed: int, *, by_features: bool = False) -> None:
        import bridle

        every = [cells for day in log.days for cells in day]
        contexts = [bridle.Category(name, levels(every, name)) for name in SHOWN]
        arms: list[Any] = [item["item_id"] for item in log.items]
        given: dict[str, Any] = {}
        if by_features:
            numbers = [float(item[NUMBER]) for item in log.items]
            about = [bridle.Category(name, levels(log.items, name)) for name in WORDS]
            given["interactions"] = "none"  # products of all would be 1,176 columns
            given["arm_features"] = [bridle.Number(NUMBER, min(numbers), max(numbers)), *about]
            arms = [
                bridle.Arm(
                    item["item_id"],
                    features={NUMBER: float(item[NUMBER])} | {name: item[name] for name in WORDS},
                )
                for item in log.items
            ]
        self.numbers = {item["item_id"]: k for k, item in enumerate(log.items)}
        self.agent = bridle.Agent(
            arms=arms,
            features=contexts,
            policy=bridle.Thompson(),
            limits="linear",  # of what is allowed nothing is learned here: those that cost least
            seed=seed,
            **given,
        )
        self.seen: dict[tuple[str, ...], Floats] = {}

    def learn(self, plays: Sequence[Cells]) -> None:
        contexts = [{name: cells[name] for name in SHOWN} for cells in plays]
        arms = [cells["item_id"] for cells in plays]
        self.agent.learn(contexts, arms, [float(cells["click"]) for cells in plays])
        self.seen.clear()

    def predict(self, cells: Cells) -> float:
        key = tuple(cells[name] for name in SHOWN)
        if key not in self.seen:
            made = self.agent.decide(dict(zip(SHOWN, key, strict=True)))
            self.seen[key] = made.reward_mean  # type: ignore[union-attr]
        return float(self.seen[key][self.numbers[cells["item_id"]]])


def levels(cells: Sequence[Cells], name: str) -> list[str]:
    """Return what a column holds, in order."""
    return sorted({one[name] for one in cells})


MODELS: dict[str, Callable[[Log, int], Any]] = {
    "constant": Constant,
    "bridle": Bridle,
    "bridle-item-features": lambda log, seed: Bridle(log, seed, by_features=True),
}


def losses(log: Log, make: Callable[[Log, int], Any], seed: int = 0) -> Floats:
    """Return the log loss of each play from the second day on, by what the days before taught.

    A prediction is kept between 1/n and 1 − 1/n, with n plays to learn from: a linear model may
    well foretell less than nothing, and no log of n plays says more than that.
    """
    model = make(log, seed)
    model.learn(log.days[0])
    n, found = len(log.days[0]), []
    for day in log.days[1:]:
        for cells in day:
            p = min(max(model.predict(cells), 1.0 / n), 1.0 - 1.0 / n)
            found.append(-np.log(p if float(cells["click"]) else 1.0 - p))
        model.learn(day)
        n += len(day)
    return np.array(found)


def campaigns(wheel: Path) -> Iterator[Log]:
    """Yield the campaigns in their order."""
    for campaign in CAMPAIGNS:
        yield read(wheel, campaign)

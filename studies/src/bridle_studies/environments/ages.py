"""A world whose limits are about a number: films that may not be shown below an age.

Contexts are viewers with an age and two flags that have nothing to do with the limits. Arms are
films in four certificate groups. A film is allowed from its group's age on.
"""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bridle import validation
from bridle.agent.config import Arm, Json
from bridle.errors import CorruptState, InvalidValue
from bridle.kernels.types import Bools, Floats
from bridle.schema import Flag, Number, Schema
from bridle.simulate import Tables
from bridle_studies.environments.items import draw_rewards
from bridle_studies.environments.tablefiles import read_bytes
from bridle_studies.environments.world import Origin, World

__all__ = ["AGES", "CERTIFICATES", "Ages", "read_ages"]

# Not allowed to viewers younger than this.
CERTIFICATES = {"G": 0, "PG": 8, "PG-13": 13, "R": 17}
AGES = (3, 80)
SCHEMA = Schema([Number("age", *AGES, unit="years"), Flag("subscriber"), Flag("weekend")])
VIEWERS = validation.IntRange(2, 100_000)
EACH = validation.IntRange(1, 250)
MAX_BYTES = 1_000_000
COLUMNS = ("SEX", "AGE", "CENSUS2010POP")
FLAG_SHARE = 0.5


def read_ages(path: str | Path) -> Floats:
    """Read how many people there are of each age from the Census' table: shares by `AGES`.

    The table is NC-EST2019-AGESEX-RES, a csv with the columns SEX (0: both), AGE and
    CENSUS2010POP.
    """
    file, files = Path(path), dict[str, str]()
    low, high = AGES
    people: dict[int, int] = {}
    try:
        text = read_bytes(file, files, MAX_BYTES).decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        for row in reader:
            if int(row["SEX"]) == 0:
                people[int(row["AGE"])] = int(row["CENSUS2010POP"])
        shares: Floats = np.array([people[age] for age in range(low, high + 1)], np.float64)
    except (UnicodeDecodeError, csv.Error, KeyError, ValueError, TypeError) as error:
        raise CorruptState(
            f"{file} is not the Census' table with {', '.join(COLUMNS)} and a row for each age "
            f"from {low} to {high}: {error!r:.100}. Fetch it again."
        ) from None
    if shares.min() < 0.0 or shares.sum() <= 0.0:
        raise CorruptState(f"{file}: a number of people is below 0. Fetch it again.")
    out: Floats = shares / shares.sum()
    return out


@dataclass(frozen=True, eq=False)
class Ages:
    """A recipe for worlds of viewers and films with a least age.

    Parameters
    ----------
    shares : array, optional
        How frequent each age from 3 to 80 is, as `read_ages` returns it; equally by default.
    viewers : int, default 1000
        Contexts.
    each : int, default 15
        Films in each of the four groups.

    Examples
    --------
    >>> world = Ages(viewers=50, each=2).world(seed=1)
    >>> world.tables.contexts.shape, [arm.group for arm in world.arms[:3]]
    ((50, 3), ['G', 'G', 'PG'])
    """

    shares: Floats | None = None
    viewers: int = field(default=1_000, kw_only=True)
    each: int = field(default=15, kw_only=True)

    def __post_init__(self) -> None:
        VIEWERS.check(self.viewers, "viewers", "Ages")
        EACH.check(self.each, "each", "Ages")
        wanted = AGES[1] - AGES[0] + 1
        if self.shares is not None and np.shape(self.shares) != (wanted,):
            raise InvalidValue("shares", "Ages", f"{wanted} shares", np.shape(self.shares))

    @property
    def name(self) -> str:
        """What its worlds are called."""
        return "ages"

    @property
    def origin(self) -> Origin:
        """What was drawn, and by what shares."""
        low, high = AGES
        by = "drawn evenly" if self.shares is None else "drawn by the shares of the 2010 Census"
        ends = ", ".join(f"{name} {age}" for name, age in CERTIFICATES.items())
        return Origin(
            title="ages (synthetic)",
            synthetic=True,
            about=f"Made-up viewers with an age from {low} to {high} years, {by}, and two flags "
            f"that do not matter; {4 * self.each} made-up films, each with the least age of its "
            f"certificate ({ends}).",
        )

    def __len__(self) -> int:
        return self.viewers

    def world(self, seed: int) -> World:
        """Draw viewers and tastes. Equal seeds give equal worlds."""
        source = np.random.default_rng(validation.SEED.check(seed, "seed", "Ages.world"))
        for_viewers, for_tastes = source.spawn(2)
        low, high = AGES
        age = for_viewers.choice(np.arange(low, high + 1), self.viewers, p=self.shares)
        flags = for_viewers.random((self.viewers, 2)) < FLAG_SHARE
        number, _ = SCHEMA.place("age")
        assert isinstance(number, Number)
        scaled = np.array([number.scale(float(years)) for years in age.tolist()])
        contexts: Floats = np.column_stack([scaled, flags.astype(np.float64)])
        least = np.repeat([*CERTIFICATES.values()], self.each)
        allowed: Bools = age[:, None] >= least
        groups = np.repeat([*CERTIFICATES], self.each).tolist()
        return World(
            name=self.name,
            origin=self.origin,
            tables=Tables(contexts, draw_rewards(contexts, len(least), for_tastes), allowed),
            schema=SCHEMA,
            arms=tuple(
                Arm(f"film-{k + 1}", f"film {k + 1} ({group})", group)
                for k, group in enumerate(groups)
            ),
            labels=tuple(f"viewer {m + 1}, {years}" for m, years in enumerate(age.tolist())),
            groups=tuple(CERTIFICATES),
            reward_unit="the highest reward",
        )

    def settings(self) -> dict[str, Json]:
        """Return every choice that shapes the worlds."""
        digest = None
        if self.shares is not None:
            digest = hashlib.sha256(np.ascontiguousarray(self.shares).tobytes()).hexdigest()
        return {"viewers": self.viewers, "each": self.each, "shares": digest}

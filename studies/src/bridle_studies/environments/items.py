"""Worlds of items with levels that people really set: which item may be shown to whom.

Contexts are items (films, games), arms are people in bands, a band for each level. An item is
allowed to a person if its level is not above the person's band. What a person likes comes from
MovieLens ratings, or is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bridle import validation
from bridle.agent.config import Arm, Json
from bridle.errors import InvalidValue, NotPossible
from bridle.kernels.types import Bools, Floats, Ints
from bridle.simulate import Tables
from bridle_studies.environments.blocks import complete
from bridle_studies.environments.itemtables import MOVIE_ID, ItemTable
from bridle_studies.environments.layouts import find
from bridle_studies.environments.movietables import read_ratings
from bridle_studies.environments.world import Origin, World

__all__ = ["Items", "Tastes", "draw_bands", "draw_rewards", "read_tastes"]

OWNER = "read_items"
STARS = 5.0
PEOPLE = validation.IntRange(2, 1_000)
MAX_TRIES = 1_000
# Drawn rewards: a level, and the standard deviations of a person's tastes, an item and chance.
LEVEL, TASTE, NOISE = 0.55, 0.12, 0.08


@dataclass(frozen=True, eq=False, kw_only=True)
class Tastes:
    """What K people give M items, by their ratings.

    Attributes
    ----------
    rewards : array (M, K)
        Stars / 5, gaps filled.
    people : tuple of K str
        Who they are: "user 4169".
    notes : tuple of str
        How many ratings there were, and how many cells were filled.
    files : mapping from name to sha256
        What was read.
    """

    rewards: Floats
    people: tuple[str, ...]
    notes: tuple[str, ...]
    files: dict[str, str]


def read_tastes(path: str | Path, table: ItemTable, *, people: int = 100) -> Tastes:
    """Read what the people who rated most of these items gave them, and fill the gaps.

    People are the users with the most ratings of items in the table, ties by ascending id.
    `complete` fills the gaps.

    Parameters
    ----------
    path : path
        MovieLens: a file, a zip or a folder, as for `read_block`.
    table : ItemTable
        With the column `movieId`.
    people : int, default 100
        How many; fewer if there are not so many, but not fewer than levels.
    """
    K = PEOPLE.check(people, "people", OWNER)
    if table.movies is None:
        wanted = f"given with a table that has a column {MOVIE_ID!r} of MovieLens ids"
        remedy = "Add the column, or leave --ratings out: then tastes are drawn."
        raise InvalidValue("ratings", OWNER, wanted, str(path), remedy)
    ids, times = np.unique(table.movies, return_counts=True)
    if times.max() > 1:
        wanted = f"given with a table in which each {MOVIE_ID} has one row"
        got = f"{times.max()} rows with the {MOVIE_ID} {ids[times.argmax()]}"
        raise InvalidValue("ratings", OWNER, wanted, got, "Remove the others.")
    try:
        files = find(path, OWNER)
    except InvalidValue as error:
        raise InvalidValue("ratings", OWNER, error.expected, error.got, error.remedy) from None
    with files.ratings() as unpacked:
        ratings = read_ratings(files, unpacked)
    row_of = np.full(int(max(ratings.movies.max(), table.movies.max())) + 1, -1, np.int64)
    row_of[table.movies] = np.arange(len(table))
    row = row_of[ratings.movies]
    inside = row >= 0
    row, user, stars = row[inside], ratings.users[inside], ratings.stars[inside]
    counts = np.bincount(user, minlength=1)
    raters = int(np.count_nonzero(counts))
    if raters < len(table.levels):
        wanted = f"ratings of the table's items by at least {len(table.levels)} users"
        got = f"{len(row):,} ratings by {raters:,} users"
        raise InvalidValue("ratings", OWNER, wanted, got, f"Is {MOVIE_ID} that of this data set?")
    users = np.argsort(-counts, kind="stable")[: min(K, raters)]
    column_of = np.full(len(counts), -1, np.int64)
    column_of[users] = np.arange(len(users))
    theirs = column_of[user] >= 0
    cells = np.full((len(table), len(users)), np.nan)
    cells[row[theirs], column_of[user[theirs]]] = stars[theirs]
    known = ~np.isnan(cells)
    unrated = len(table) - int(np.count_nonzero(np.bincount(row, minlength=len(table))))
    notes = [
        f"{len(row):,} ratings of these items by {raters:,} users; the {len(users):,} users who "
        "rated most of them are the arms.",
        f"{known.mean():.1%} of the {known.shape[0]:,} × {known.shape[1]:,} cells are known; the "
        "others were filled by collaborative filtering.",
    ]
    if unrated:
        notes.append(f"{unrated:,} items have no ratings: each person's mean stands for them.")
    if raters < K:
        notes.append(f"{K:,} people were asked for; {raters:,} have rated any of these items.")
    return Tastes(
        rewards=complete(cells) / STARS,
        people=tuple(f"user {user}" for user in users.tolist()),
        notes=tuple(notes),
        files=files.sums(),
    )


def draw_bands(people: int, bands: int, rng: np.random.Generator) -> Ints:
    """Draw a band for each person, all equally likely, until no band is empty: (K,).

    >>> sorted(set(draw_bands(5, 4, np.random.default_rng(1)).tolist()))
    [0, 1, 2, 3]
    """
    for _ in range(MAX_TRIES):
        band = rng.integers(0, bands, people)
        if len(np.unique(band)) == bands:
            return band.astype(np.int64)
    raise NotPossible(
        f"In {MAX_TRIES:,} draws of {people} people into {bands} bands a band was always empty. "
        "Take more people or fewer levels."
    )


def draw_rewards(contexts: Floats, arms: int, rng: np.random.Generator) -> Floats:
    """Draw what each arm earns in each context: .55 + x·w + item + noise, in [0, 1]: (M, K).

    w ~ N(0, .12²) for each arm and feature; item ~ N(0, .08²) for each context, noise ~ N(0, .08²)
    for each cell.
    """
    M, d = contexts.shape
    w = rng.normal(0.0, TASTE, (d, arms))
    item = rng.normal(0.0, NOISE, (M, 1))
    noise = rng.normal(0.0, NOISE, (M, arms))
    # Summed by hand: a library's product may differ in the last bits between machines.
    taste = np.zeros((M, arms))
    for j in range(d):
        taste += contexts[:, j : j + 1] * w[j]
    return np.clip(LEVEL + taste + item + noise, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Items:
    """A recipe for worlds of items with levels.

    Parameters
    ----------
    table : ItemTable
        The items.
    tastes : Tastes, optional
        What people give them; drawn for each world if left out.
    name : str, optional
        What its worlds are called; the table's name by default.
    people : int, default 60
        Arms, where tastes are drawn.
    """

    table: ItemTable
    tastes: Tastes | None = None
    name: str = field(default="", kw_only=True)
    people: int = field(default=60, kw_only=True)

    def __post_init__(self) -> None:
        PEOPLE.check(self.people, "people", "Items")
        object.__setattr__(self, "name", self.name or self.table.name)

    @property
    def origin(self) -> Origin:
        """Where items, limits and tastes came from."""
        tastes = self.tastes
        drawn = (
            f"Tastes of {self.people} people are drawn: reward = {LEVEL:g} + x·w + item + noise, w "
            f"~ N(0, {TASTE:g}²), item and noise ~ N(0, {NOISE:g}²), clipped to [0, 1].",
        )
        files = {f"{self.table.name}.csv": self.table.sha256}
        return Origin(
            title=self.name,
            synthetic=False,
            about="Items with a level that people set. Arms are people in bands, one for each "
            "level; an item is allowed to a person if its level is not above their band.",
            files=files if tastes is None else files | tastes.files,
            notes=(*self.table.notes, *(drawn if tastes is None else tastes.notes)),
        )

    def __len__(self) -> int:
        return len(self.table)

    def world(self, seed: int) -> World:
        """Draw bands, and tastes if there are no ratings. Equal seeds give equal worlds."""
        source = np.random.default_rng(validation.SEED.check(seed, "seed", "Items.world"))
        for_bands, for_tastes = source.spawn(2)
        table = self.table
        if self.tastes is None:
            names = tuple(f"person {k + 1}" for k in range(self.people))
            rewards = draw_rewards(table.contexts, self.people, for_tastes)
        else:
            names, rewards = self.tastes.people, self.tastes.rewards
        band = draw_bands(len(names), len(table.levels), for_bands)
        allowed: Bools = table.level[:, None] <= band
        return World(
            name=self.name,
            origin=self.origin,
            tables=Tables(table.contexts, rewards, allowed),
            schema=table.schema,
            arms=tuple(
                Arm(name.replace(" ", "-"), f"{name} (up to {table.levels[b]})", table.levels[b])
                for name, b in zip(names, band.tolist(), strict=True)
            ),
            labels=table.labels,
            groups=table.levels,
            reward_unit="the highest reward" if self.tastes is None else "five stars",
        )

    def settings(self) -> dict[str, Json]:
        """Return every choice that shapes the worlds."""
        return {
            "items": len(self.table),
            "levels": list(self.table.levels),
            "features": self.table.schema.width,
            "sha256": self.table.sha256,
            "people": self.people if self.tastes is None else len(self.tastes.people),
            "tastes": "drawn" if self.tastes is None else "ratings",
        }

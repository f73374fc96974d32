"""Worlds of rare exceptions: most items are of kinds that are free for all, and a few deviate.

A kind is a word: a genre, a flag. Items that hold none of some words are free for all, but for
exceptions that no feature tells. An agent that never checks what it believes safe never meets
them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from bridle import validation
from bridle.agent.config import Arm, Json
from bridle.errors import InvalidValue, NotPossible
from bridle.kernels.types import Bools, Floats, Ints
from bridle.schema import Category, Flag, Labels, Schema
from bridle.simulate import Tables
from bridle_studies.environments.changes import paying
from bridle_studies.environments.items import LEVEL, NOISE, PEOPLE, TASTE, draw_bands, draw_rewards
from bridle_studies.environments.itemtables import ItemTable
from bridle_studies.environments.world import Origin, World

__all__ = ["BANDS", "Exceptions", "Kinds", "draw_features", "draw_words"]

BANDS = ("band 0", "band 1", "band 2", "band 3")
ITEMS = validation.IntRange(10, 100_000)
# Made-up items hold so many of these words, the first ones more often. The last ones are rare
# enough to make several sets of words that a fifth of the items hold.
WORDS = tuple("ABCDEFGHIJKL")
HELD, FALL = (2, 4), 0.75
SCHEMA = Schema([Labels("words", WORDS)])
# Of all items: the rarest word that makes a kind, how near the share of free items should come
# to what was asked for, and how far it may be away.
RAREST, NEAR, FAR = 0.02, 0.01, 0.05
MAX_DRAWS = 200


@dataclass(frozen=True, eq=False, kw_only=True)
class Kinds:
    """Which items of a world are free for all, and which deviate.

    Attributes
    ----------
    rows : array (M,)
        The row of the table that each item has its features from; all -1 without a table.
    words : mapping from str to int
        The words that restrict an item, by column of the schema, and the level of each.
    level : array (M,)
        The level that an item has by its words: the highest of them; 0 is free for all.
    exceptions : array (M,) of bools
        The items of free kinds that deviate.
    by_band : array (M, 4) of bools
        What is allowed to each band, exceptions included.
    """

    rows: Ints
    words: dict[str, int]
    level: Ints
    exceptions: Bools
    by_band: Bools

    @property
    def free(self) -> Bools:
        """The items of kinds that are free for all, exceptions among them: (M,)."""
        free: Bools = self.level == 0
        return free


@dataclass(frozen=True, eq=False, kw_only=True)
class Exceptions:
    """A recipe for worlds in which a few items of free kinds are denied all the same.

    Words are drawn such that the items with none of them are about the share `free`: these are
    free for all. A word has a level of 1, 2 or 3; an item has the highest level of its words and
    is allowed to people whose band is not below it. Each item of a free kind is an exception with
    probability `rate`. All is allowed to the highest band.

    The worlds of one seed belong together: with the same `features`, `items`, `people` and `free`
    they have the same items, kinds and people, the exceptions of a lower rate are among those of
    a higher one, and rewards differ by what exceptions pay alone.

    Parameters
    ----------
    features : ItemTable, optional
        Whose rows of features are drawn, with replacement; its levels are not used. Left out, each
        item holds two to four of twelve made-up words.
    rate : float, default .02
        How many of the items of free kinds deviate.
    free : float, default .8
        Which share of the items is of free kinds.
    pays : float, default 0
        What an exception earns more with those whom it is denied to.
    scattered : bool, default False
        What an exception is denied to. By default it has a level, 1, 2 or 3 equally likely.
        Scattered, it is denied to each band but the highest with probability ½, at least to one.
    items : int, default 1500
        Contexts. Each is an item of its own, also where features are equal.
    people : int, default 60
        Arms.
    name : str, optional
        What its worlds are called.

    Examples
    --------
    >>> recipe = Exceptions(rate=0.05, items=1000)
    >>> kinds = recipe.kinds(seed=1)
    >>> int(kinds.free.sum()), int(kinds.exceptions.sum()), len(recipe.world(1).tables)
    (800, 43, 1000)
    """

    features: ItemTable | None = None
    rate: float = 0.02
    free: float = 0.8
    pays: float = 0.0
    scattered: bool = False
    items: int = 1_500
    people: int = 60
    name: str = ""

    def __post_init__(self) -> None:
        if self.features is not None and not isinstance(self.features, ItemTable):
            raise InvalidValue("features", "Exceptions", "an ItemTable or None", self.features)
        for name in ("rate", "free", "pays"):
            value = validation.FRACTION.check(getattr(self, name), name, "Exceptions")
            object.__setattr__(self, name, value)
        scattered = validation.truth(self.scattered, "scattered", "Exceptions")
        object.__setattr__(self, "scattered", scattered)
        ITEMS.check(self.items, "items", "Exceptions")
        PEOPLE.check(self.people, "people", "Exceptions")
        if not _columns(self._schema):
            wanted = "a table with a column of words or flags"
            raise InvalidValue("features", "Exceptions", wanted, self._schema.columns)
        object.__setattr__(self, "name", self.name or self._usual_name())

    @property
    def origin(self) -> Origin:
        """What was drawn, and from where."""
        table = self.features
        source = (
            f"Made-up items, each with {HELD[0]} to {HELD[1]} of {len(WORDS)} words"
            if table is None
            else f"Items with the features of {table.name}, rows drawn with replacement"
        )
        how = (
            f"denied to each of the {len(BANDS) - 1} lower bands with probability 1/2"
            if self.scattered
            else f"of a level from 1 to {len(BANDS) - 1}"
        )
        pays = f" It earns {self.pays:g} more with those whom it is denied to." if self.pays else ""
        drawn = (
            f"Tastes of {self.people} people are drawn: reward = {LEVEL:g} + x·w + item + noise, w "
            f"~ N(0, {TASTE:g}²), item and noise ~ N(0, {NOISE:g}²), clipped to [0, 1]."
        )
        return Origin(
            title=f"{self.name} (synthetic)",
            synthetic=True,
            about=f"{source}; made-up limits. About {self.free:.0%} of the items are of kinds that "
            f"are free for all. Of these each deviates with probability {self.rate:g} and is "
            f"{how}.{pays} Arms are people in {len(BANDS)} bands.",
            files={} if table is None else {f"{table.name}.csv": table.sha256},
            notes=(*(() if table is None else table.notes), drawn),
        )

    def __len__(self) -> int:
        return self.items

    def kinds(self, seed: int) -> Kinds:
        """Return which items of the world of this seed are free, and which deviate."""
        return self._draw(seed)[0]

    def world(self, seed: int) -> World:
        """Draw items, kinds, exceptions, people and tastes. Equal seeds give equal worlds."""
        kinds, contexts, (for_bands, for_tastes) = self._draw(seed)
        band = draw_bands(self.people, len(BANDS), for_bands)
        rewards = draw_rewards(contexts, self.people, for_tastes)
        tables = Tables(contexts, rewards, kinds.by_band[:, band])
        if self.pays:
            tables = paying(tables, self.pays, contexts=kinds.exceptions)
        origin = self.origin
        return World(
            name=self.name,
            origin=replace(origin, notes=(*origin.notes, *_counted(kinds, tables.allowed))),
            tables=tables,
            schema=self._schema,
            arms=tuple(
                Arm(f"person-{k + 1}", f"person {k + 1} ({BANDS[b]})", BANDS[b])
                for k, b in enumerate(band.tolist())
            ),
            labels=self._labels(kinds.rows),
            groups=BANDS,
            reward_unit="the highest reward",
        )

    def settings(self) -> dict[str, Json]:
        """Return every choice that shapes the worlds."""
        return {
            "items": self.items,
            "people": self.people,
            "rate": self.rate,
            "free": self.free,
            "pays": self.pays,
            "scattered": self.scattered,
            "features": self._schema.width,
            "sha256": None if self.features is None else self.features.sha256,
        }

    @property
    def _schema(self) -> Schema:
        return SCHEMA if self.features is None else self.features.schema

    def _draw(
        self, seed: int
    ) -> tuple[Kinds, Floats, tuple[np.random.Generator, np.random.Generator]]:
        """Draw kinds and contexts; and return the sources for what else there is to draw."""
        source = np.random.default_rng(validation.SEED.check(seed, "seed", "Exceptions.world"))
        # A source for each, so that a setting changes nothing but what it is about.
        for_items, for_words, for_exceptions, for_bands, for_tastes = source.spawn(5)
        if self.features is None:
            rows: Ints = np.full(self.items, -1, np.int64)
            contexts = draw_features(self.items, for_items)
        else:
            rows = for_items.integers(0, len(self.features), self.items).astype(np.int64)
            contexts = np.ascontiguousarray(self.features.contexts[rows])
        columns = _columns(self._schema)
        holds: Bools = contexts[:, columns] > 0.5  # (M, words)
        drawn = draw_words(holds, 1.0 - self.free, for_words)
        levels = for_words.integers(1, len(BANDS), len(drawn)).tolist()
        level: Ints = np.zeros(self.items, np.int64)
        for word, of_word in zip(drawn, levels, strict=True):
            level = np.where(holds[:, word], np.maximum(level, of_word), level)
        # Drawn for every item, whatever the rate: exceptions of a lower rate stay exceptions.
        chance = for_exceptions.random(self.items)
        other = for_exceptions.integers(1, len(BANDS), self.items)
        patterns = for_exceptions.integers(1, 2 ** (len(BANDS) - 1), self.items)
        exceptions: Bools = (level == 0) & (chance < self.rate)
        by_band = np.where(exceptions, other, level)[:, None] <= np.arange(len(BANDS))
        if self.scattered:
            # The bits of 1 to 7 are the ways to deny three bands, none left out but "to nobody".
            denied = (patterns[:, None] >> np.arange(len(BANDS))) & 1 == 1  # the highest: never
            by_band = np.where(exceptions[:, None], ~denied, by_band)
        kinds = Kinds(
            rows=rows,
            words={
                self._schema.columns[columns[word]]: of_word
                for word, of_word in zip(drawn, levels, strict=True)
            },
            level=level,
            exceptions=exceptions,
            by_band=by_band,
        )
        return kinds, contexts, (for_bands, for_tastes)

    def _labels(self, rows: Ints) -> tuple[str, ...]:
        if self.features is None:
            return tuple(f"item {m + 1}" for m in range(self.items))
        # Numbered, as a row may be drawn more than once and each time is another item.
        return tuple(
            f"item {m + 1}, like {self.features.labels[row]}" for m, row in enumerate(rows.tolist())
        )

    def _usual_name(self) -> str:
        parts = [
            "made-up words" if self.features is None else self.features.name,
            f"{100 * self.rate:g} % exceptions",
            *(["scattered"] if self.scattered else []),
            *([f"paying {self.pays:g}"] if self.pays else []),
        ]
        return ", ".join(parts)


def draw_features(items: int, rng: np.random.Generator) -> Floats:
    """Draw which of twelve words each item holds, two to four: (M, 12) of 0 and 1.

    Words are drawn without replacement, each with 3/4 of the weight of the one before: the first is
    in most of the items, the last in few.

    >>> held = draw_features(200, np.random.default_rng(1))
    >>> sorted(set(held.sum(axis=1).tolist())), bool(held[:, 0].mean() > 3 * held[:, 11].mean())
    ([2.0, 3.0, 4.0], True)
    """
    weights = [FALL**j for j in range(len(WORDS))]
    shares = [weight / math.fsum(weights) for weight in weights]
    counts = rng.integers(HELD[0], HELD[1] + 1, items)
    held: Floats = np.zeros((items, len(WORDS)))
    for m, count in enumerate(counts.tolist()):
        held[m, rng.choice(len(WORDS), count, replace=False, p=shares)] = 1.0
    return held


def draw_words(holds: Bools, share: float, rng: np.random.Generator) -> list[int]:
    """Draw words such that about `share` of the items hold at least one of them; ascending.

    Words are taken in a random order, each if it does not lead too far, until the share is reached
    to within 1 %; in another order where it is not. Words in less than 2 % of the items are never
    taken. Of 200 orders the one that came nearest counts.

    Parameters
    ----------
    holds : array (M, n) of bools
        Which item holds which word.
    share : float
        Of the items, to be covered.
    rng : Generator
        The source of randomness.

    Raises
    ------
    NotPossible
        No words come within 5 % of it.
    """
    M = len(holds)
    common = np.flatnonzero(holds.mean(axis=0) >= RAREST)
    best, distance = list[int](), share
    for _ in range(MAX_DRAWS):
        if distance <= NEAR:
            break
        taken, covered = list[int](), np.zeros(M, np.bool_)
        for word in rng.permutation(common).tolist():
            if abs(int(covered.sum()) / M - share) <= NEAR:
                break
            more = covered | holds[:, word]
            if int(more.sum()) / M <= share + NEAR:
                taken, covered = [*taken, word], more
        off = abs(int(covered.sum()) / M - share)
        if off < distance:
            best, distance = taken, off
    if distance > FAR:
        raise NotPossible(
            f"No set of words drawn is held by about {share:.0%} of the items: the nearest is off "
            f"by {distance:.1%}. Take features with more words, or another share of free items."
        )
    return sorted(best)


def _columns(schema: Schema) -> list[int]:
    """Return the columns that say whether an item holds a word."""
    columns = list[int]()
    for feature in schema.features:
        if isinstance(feature, Flag):
            columns.append(schema.place(feature.name)[1])
        elif isinstance(feature, Category | Labels):
            at = schema.place(feature.name)[1]
            columns.extend(range(at, at + len(feature.values)))
    return columns


def _counted(kinds: Kinds, allowed: Bools) -> tuple[str, ...]:
    M, free = len(kinds.level), int(kinds.free.sum())
    found, cells = int(kinds.exceptions.sum()), allowed.size
    denied = int(np.count_nonzero(~allowed))
    by_exceptions = int(np.count_nonzero(~allowed[kinds.exceptions]))
    words = ", ".join(f"{word} (level {level})" for word, level in kinds.words.items())
    return (
        f"Restricted words: {words or 'none'}.",
        f"{free:,} of {M:,} items ({free / M:.1%}) are of free kinds; {found:,} of these "
        f"({found / max(free, 1):.1%}) are exceptions.",
        f"{denied:,} of {cells:,} pairs of item and person ({denied / cells:.1%}) are denied, "
        f"{by_exceptions:,} of them by exceptions.",
    )

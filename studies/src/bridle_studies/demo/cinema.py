"""A cinema: which movie to recommend to whom. Out of `worlds.synthetic_block`; nothing is real.

Arms are movies, grouped by their genres; a context is a viewer. Which genres are denied to which
age is drawn at random, as in the paper. Who comes with a child may see no crime and no thriller,
which has to be taught, and no horror, which is declared as a rule.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from bridle_studies.demo.scenes import Context, Guest
from bridle_studies.environments.bands import BANDS, allowed_by, draw_bands, draw_limits
from bridle_studies.environments.synthetic import synthetic_block

__all__ = ["AGES", "CHILD", "Cinema"]

AGES = tuple(BANDS)
CHILD = "with a child"
WITH_A_CHILD = 0.15
PEOPLE, MOVIES, DENSITY = 700, 1_000, 0.33
# One in which the youngest may see no horror, and everybody some of all movies.
LIMITS_SEED = 1_885
NOT_FOR_CHILDREN = frozenset({"Horror", "Crime", "Thriller"})
# Titles are made up, by the genres of the movie; the world has movies of all of these.
TITLES = {
    "Comedy": ("Two Left Shoes", "Mind the Goat", "The Wrong Piano"),
    "Drama": ("The Salt House", "A Letter in March", "Her Father's Boat"),
    "Comedy, Drama": ("Sunday at Olga's", "Paper Umbrellas", "The Deaf Conductor"),
    "Drama, Romance": ("Before the Harvest", "The Lighthouse Years", "What the River Aggregate"),
    "Comedy, Romance": ("Married by Mistake", "Lemon Season", "The Dog Walkers"),
    "Crime, Drama": ("The Quiet Ledger", "North Dock", "Nine Witnesses"),
    "Action, Adventure": ("Ridge of Storms", "The Copper Map", "Skyrunners"),
    "Drama, Thriller": ("The Glass Tenant", "A Room Above the Bank"),
    "Adventure, Comedy": ("Camels and Captains", "The Great Balloon Error", "Lost with Aunt May"),
    "Adventure": ("Beyond the Ice Shelf", "River of Birds"),
    "Adventure, Fantasy": ("The Moth King", "Seven Doors North"),
    "Action, Sci-Fi": ("Orbit Nine", "The Iron Tide"),
    "Horror, Thriller": ("The Long Night", "It Hums Below", "Fog on the Stairs"),
    "Comedy, Crime": ("The Cake Heist", "Honest Thieves"),
    "Action, Thriller": ("Eleven Minutes", "Cold Receipt"),
    "Fantasy": ("A Spoon for the Moon",),
}


class Cinema:
    """The scene of the cinema. All of it is the same at every start."""

    def __init__(self, name: str = "movies") -> None:
        self.name = name
        block = synthetic_block(people=PEOPLE, movies=MOVIES)
        rng = np.random.default_rng(LIMITS_SEED)
        sets = [_words(block.genres, row) for row in block.contexts]
        rows, arms = [], []
        for genres, titles in TITLES.items():
            here = [row for row, words in enumerate(sets) if words == genres]
            for row, title in zip(here, titles, strict=False):
                rows.append(row)
                arms.append({"id": _slug(title), "label": title, "group": genres})
        contexts = block.contexts[rows]
        ages = np.arange(len(AGES))
        self.denied = draw_limits(contexts, ages, len(AGES), DENSITY, rng)
        open_to = allowed_by(contexts, self.denied, ages)
        self._place = {str(arm["id"]): place for place, arm in enumerate(arms)}
        self._open = {
            arm["id"]: {age for age, fine in zip(AGES, row, strict=True) if fine}
            for arm, row in zip(arms, open_to, strict=True)
        }
        self._genres = {arm["id"]: frozenset(arm["group"].split(", ")) for arm in arms}
        self._ratings = block.ratings[rows]  # a row a movie, a column a person
        band = draw_bands(PEOPLE, rng)
        self._people = [np.flatnonzero(band == age) for age in ages]
        self.arms: list[dict[str, Any]] = arms
        self.agent = self._agent()
        self.pool: list[Context] = [
            {"age": age, CHILD: child} for child in (False, True) for age in AGES
        ]

    def guest(self, rng: np.random.Generator) -> Guest:
        """Return the next viewer."""
        age = int(rng.choice(len(AGES), p=np.array([*BANDS.values()])))
        person = int(rng.choice(self._people[age]))
        return Guest({"age": AGES[age], CHILD: bool(rng.random() < WITH_A_CHILD)}, person)

    def allowed(self, context: Context, arm: str) -> bool:
        """Return whether a movie may be shown to a viewer."""
        if context[CHILD] and self._genres[arm] & NOT_FOR_CHILDREN:
            return False
        return context["age"] in self._open[arm]

    def reward(self, guest: Guest, arm: str) -> float:
        """Return the viewer's stars, of five."""
        return float(self._ratings[self._place[arm], guest.number]) / 5.0

    def _agent(self) -> dict[str, Any]:
        horror = sorted({arm["group"] for arm in self.arms if "Horror" in arm["group"]})
        return {
            "arms": self.arms,
            "features": [
                {"kind": "category", "name": "age", "values": AGES},
                {"kind": "flag", "name": CHILD},
            ],
            "seed": 1,
            "limits": "rules",
            "policy": {"kind": "LearnedMask", "sigma": 0.75, "v": 0.25},
            "prior": "centred",  # so wide that the visitors see it ask
            "budget": 5_000,
            "on_doubt": "play_safe",
            "patience": 300,  # what nobody answers for so many decisions is asked anew, if need be
            "rules": [
                {
                    "id": "no horror with a child",
                    "when": [{"feature": CHILD, "equals": True}],
                    "groups": horror,
                    "note": "A rule of the house.",
                }
            ],
            "wait": 600.0,
        }


def _words(genres: tuple[str, ...], row: Any) -> str:
    return ", ".join(genre for genre, there in zip(genres, row, strict=True) if there)


def _slug(title: str) -> str:
    return re.sub("[^a-z0-9]+", "-", title.lower().replace("'", ""))

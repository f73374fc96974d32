"""The worlds of the study of real limits: from one table, or from all the data that are there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bridle.errors import InvalidValue, NotPossible
from bridle.study import inputs
from bridle.study.real_scope import Scene, Scope
from bridle.worlds.ages import Ages, read_ages
from bridle.worlds.items import Items, Tastes, read_tastes
from bridle.worlds.itemtables import ItemTable, read_items
from bridle.worlds.pairs import Pairs
from bridle.worlds.world import Recipe

__all__ = ["NAMES", "Found", "data_folder", "own_scene", "scenes"]

OWNER = "study"
FILMS, GAMES, PATIENTS = "mpaa/films.csv", "esrb/games.csv", "warfarin/warfarin.csv"
RATINGS, CENSUS = "ml-1m", "census/nc-est2019-agesex-res.csv"
CERTIFICATES = ("G", "PG", "PG-13", "R+NC-17")
RATED = ("E", "ET", "T", "M")
GENRES, KEYWORDS, ESRB = "MPAA genres", "MPAA genres and keywords", "ESRB"
WARFARIN, AGES, FOUND = "Warfarin", "ages", "groups found"
SINGLE, PAIRS, BOTH = "single rules", "pairs", "both"
NAMES = (GENRES, KEYWORDS, ESRB, WARFARIN, AGES, SINGLE, PAIRS, BOTH, FOUND)
# In a quick study so many people, movies and viewers.
SMALL = {"movies": 200, "people": 30, "viewers": 200}


@dataclass(frozen=True)
class Found:
    """The worlds that can be run, and a sentence for each that cannot."""

    scenes: list[Scene]
    skipped: list[str]


def data_folder(given: Path | None) -> Path:
    """Return where data are looked for: the folder given, `BRIDLE_DATA`, or ../shared/data."""
    place = given or Path(os.environ.get("BRIDLE_DATA") or Path("..", "shared", "data"))
    if given is not None and not place.is_dir():
        wanted = "a folder with mpaa/, esrb/, warfarin/, census/ and ml-1m/ in it, as far as there"
        raise InvalidValue("data", OWNER, wanted, str(given))
    return place


def own_scene(
    items: Path,
    scope: Scope,
    *,
    label: str,
    levels: Sequence[str],
    features: Sequence[str] | None = None,
    ratings: Path | None = None,
) -> Scene:
    """Return the world of a table of the user's own."""
    table = read_items(items, label=label, levels=levels, features=features)
    tastes = None if ratings is None else read_tastes(ratings, table)
    return _of_items(table.name, Items(table, tastes), scope, label)


def scenes(
    folder: Path, scope: Scope, *, only: Sequence[str] | None = None, small: bool = False
) -> Found:
    """Return all worlds whose data are in a folder.

    Parameters
    ----------
    folder : Path
        With `mpaa`, `esrb`, `warfarin`, `ml-1m` and `census`, as far as they are there.
    scope : Scope
        How long, and how often.
    only : sequence of str, optional
        Names of worlds; all by default.
    small : bool
        Few people, movies and viewers.
    """
    for name in only or ():
        if name not in NAMES:
            raise InvalidValue("worlds", OWNER, f"among {', '.join(NAMES)}", name)
    wanted = NAMES if only is None else tuple(name for name in NAMES if name in only)
    found, skipped = dict[str, Scene](), list[str]()
    for names, needs, make in _MAKERS:
        asked = [name for name in names if name in wanted]
        missing = [need for need in needs if not (folder / need).exists()]
        if asked and missing:
            skipped.append(f"{', '.join(asked)}: skipped, as {folder / missing[0]} is not there.")
        elif asked:
            found |= {scene.name: scene for scene in make(folder, scope, asked, small)}
    if not found:
        raise NotPossible(f"No world can be run. {' '.join(skipped)} Give --data or --items.")
    return Found([found[name] for name in NAMES if name in found], skipped)


def _of_items(name: str, recipe: Items, scope: Scope, label: str) -> Scene:
    about = f"{len(recipe):,} items, {len(recipe.table.levels)} levels of {label}"
    return Scene(name=name, recipe=recipe, steps=scope.steps, seeds=scope.seeds, about=about)


def _films(folder: Path, scope: Scope, asked: Sequence[str], small: bool) -> Iterator[Scene]:
    columns = {GENRES: ["genres"], KEYWORDS: ["genres", "keywords:60"]}
    tastes: Tastes | None = None
    for name in asked:
        table: ItemTable = read_items(
            folder / FILMS, label="certificate", levels=CERTIFICATES, features=columns[name]
        )
        # The same films in both: their ratings are read once.
        tastes = tastes or read_tastes(
            folder / RATINGS, table, people=SMALL["people"] if small else 100
        )
        yield _of_items(name, Items(table, tastes, name=name), scope, "MPAA certificate")


def _games(folder: Path, scope: Scope, asked: Sequence[str], small: bool) -> Iterator[Scene]:
    table = read_items(folder / GAMES, label="esrb_rating", levels=RATED)
    recipe = Items(table, name=ESRB, people=SMALL["people"] if small else 60)
    yield _of_items(ESRB, recipe, scope, "ESRB rating")


def _warfarin(folder: Path, scope: Scope, asked: Sequence[str], small: bool) -> Iterator[Scene]:
    yield Scene(
        name=WARFARIN, recipe=inputs.warfarin(folder / PATIENTS), steps=scope.steps,
        seeds=scope.seeds, rules=True, teaching_contexts=200,
        about="no dose with both of two conditions; patients of the IWPC",
    )  # fmt: skip


def _ages(folder: Path, scope: Scope, asked: Sequence[str], small: bool) -> Iterator[Scene]:
    census = folder / CENSUS
    shares = read_ages(census) if census.exists() else None
    recipe = Ages(shares, viewers=SMALL["viewers"] if small else 1_000)
    yield Scene(
        name=AGES, recipe=recipe, steps=scope.steps, seeds=scope.seeds,
        about="films from an age of 0, 8, 13 or 17 on; made-up viewers",
    )  # fmt: skip


def _rules(folder: Path, scope: Scope, asked: Sequence[str], small: bool) -> Iterator[Scene]:
    M, K = (SMALL["movies"], SMALL["people"]) if small else (None, None)
    movies = inputs.movies(folder / RATINGS, movies=M, people=K)
    kinds: dict[str, tuple[Recipe, str]] = {
        SINGLE: (movies, "drawn: single genres denied to age bands"),
        PAIRS: (Pairs(movies), "drawn: pairs of genres denied to age bands"),
        BOTH: (Pairs(movies, singles=True), "drawn: single genres and pairs denied to age bands"),
        FOUND: (movies, "as single rules, but nobody says who is in which band"),
    }
    for name in asked:
        recipe, about = kinds[name]
        yield Scene(
            name=name, recipe=recipe, steps=scope.steps_rules, rules=True, about=about,
            seeds=scope.seeds_found if name == FOUND else scope.seeds,
            limits="found" if name == FOUND else "auto",
        )  # fmt: skip


# Names of worlds, the files that they need, and how they are made.
_Maker = Callable[[Path, Scope, Sequence[str], bool], Iterator[Scene]]
_MAKERS: tuple[tuple[tuple[str, ...], tuple[str, ...], _Maker], ...] = (
    ((GENRES, KEYWORDS), (FILMS, RATINGS), _films),
    ((ESRB,), (GAMES,), _games),
    ((WARFARIN,), (PATIENTS,), _warfarin),
    ((AGES,), (), _ages),
    ((SINGLE, PAIRS, BOTH, FOUND), (RATINGS,), _rules),
)

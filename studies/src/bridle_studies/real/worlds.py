"""The worlds of the study of real limits: from one table, or from all the data that are there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bridle.errors import InvalidValue, NotPossible
from bridle_studies.environments.ages import Ages, read_ages
from bridle_studies.environments.exceptions import Exceptions
from bridle_studies.environments.items import Items, Tastes, read_tastes
from bridle_studies.environments.itemtables import ItemTable, read_items
from bridle_studies.environments.pairs import Pairs
from bridle_studies.environments.turned import Turned
from bridle_studies.environments.world import Recipe
from bridle_studies.paper import inputs
from bridle_studies.real.scope import (
    ALONE_5,
    AT_WORD_20,
    CHANGES,
    DEFAULT,
    EXCEPTIONS,
    PROMISE,
    RATES_5,
    RATES_20,
    TEACHERS,
    TOLD,
    UNCHECKED,
    USUAL,
    Scene,
    Scope,
)

__all__ = ["FAMILIES", "NAMES", "Found", "data_folder", "own_scene", "scenes"]

OWNER = "study"
FILMS, GAMES, PATIENTS = "mpaa/films.csv", "esrb/games.csv", "warfarin/warfarin.csv"
RATINGS, CENSUS = "ml-1m", "census/nc-est2019-agesex-res.csv"
CERTIFICATES = ("G", "PG", "PG-13", "R+NC-17")
RATED = ("E", "ET", "T", "M")
GENRES, KEYWORDS, ESRB = "MPAA genres", "MPAA genres and keywords", "ESRB"
WARFARIN, AGES, FOUND = "Warfarin", "ages", "groups found"
SINGLE, PAIRS, BOTH = "single rules", "pairs", "both"
PAYING, STRICTER = "MPAA violating pays", "MPAA stricter half-way"
FILMS_AS_ARMS, GAMES_AS_ARMS = "MPAA films as arms", "ESRB games as arms"
TAUGHT_FILMS, TAUGHT_GAMES = "MPAA teachers who err", "ESRB teachers who err"
BONUS = 0.3  # what a denied play earns more, where violating pays
# Rare exceptions inside free kinds: whose features the items have, how many deviate, what they pay.
# No name has a comma in it: `--worlds` takes them by commas.
FEATURES, RATES = ("MPAA", "ESRB", "made-up"), (0.01, 0.02, 0.05)
RARE: dict[str, tuple[str, float, float]] = {
    f"exceptions {100 * rate:g} % {features}{' paying' if pays else ''}": (features, rate, pays)
    for features in FEATURES
    for rate in RATES
    for pays in (0.0, BONUS)
}
NAMES = (
    GENRES,
    KEYWORDS,
    ESRB,
    WARFARIN,
    AGES,
    SINGLE,
    PAIRS,
    BOTH,
    FOUND,
    PAYING,
    STRICTER,
    TAUGHT_FILMS,
    TAUGHT_GAMES,
    FILMS_AS_ARMS,
    GAMES_AS_ARMS,
    *RARE,
)
# Names for several worlds at once.
FAMILIES = {
    "items as arms": (FILMS_AS_ARMS, GAMES_AS_ARMS),
    "teachers who err": (TAUGHT_FILMS, TAUGHT_GAMES),
    "exceptions": tuple(RARE),
    **{
        f"exceptions {features}": tuple(name for name, (of, *_) in RARE.items() if of == features)
        for features in FEATURES
    },
}
# With the promise beside the default; and what is run where others would not be at home.
PROMISED = (DEFAULT, PROMISE, *USUAL[1:])
OURS = (DEFAULT, PROMISE, UNCHECKED, TOLD)
PAIRED = (DEFAULT, UNCHECKED, "rules", "logistic", TOLD)
TAUGHT = (DEFAULT, RATES_20, RATES_5, AT_WORD_20, ALONE_5, TOLD)
# In a quick study so many people, movies, viewers, and items of worlds with exceptions.
SMALL = {"movies": 200, "people": 30, "viewers": 200, "items": 300}


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
        Names of worlds, or of `FAMILIES` of them; all by default.
    small : bool
        Few people, movies and viewers.
    """
    for name in only or ():
        if name not in NAMES and name not in FAMILIES:
            known = (*NAMES, *FAMILIES)
            raise InvalidValue("worlds", OWNER, f"among {', '.join(known)}", name)
    chosen = {each for name in only or NAMES for each in FAMILIES.get(name, (name,))}
    wanted = tuple(name for name in NAMES if name in chosen)
    found, skipped = dict[str, Scene](), list[str]()
    for names, needs, make in _MAKERS:
        asked = [name for name in names if name in wanted]
        missing = [need for need in needs if not (folder / need).exists()]
        if asked and missing:
            skipped.append(f"{_listed(asked)}: skipped, as {folder / missing[0]} is not there.")
        elif asked:
            found |= {scene.name: scene for scene in make(folder, scope, asked, small)}
    if not found:
        raise NotPossible(f"No world can be run. {' '.join(skipped)} Give --data or --items.")
    return Found([found[name] for name in NAMES if name in found], skipped)


def _listed(names: Sequence[str]) -> str:
    """Name worlds; a whole family by its own name."""
    family = next((name for name, members in FAMILIES.items() if members == tuple(names)), None)
    return family or ", ".join(names)


def _of_items(name: str, recipe: Items, scope: Scope, label: str) -> Scene:
    about = f"{len(recipe):,} items, {len(recipe.table.levels)} levels of {label}"
    return Scene(name=name, recipe=recipe, steps=scope.steps, seeds=scope.seeds, about=about)


def _films(folder: Path, scope: Scope, asked: Sequence[str], small: bool) -> Iterator[Scene]:
    tastes: Tastes | None = None
    for name in asked:
        table = _read_films(folder, keywords=name == KEYWORDS)
        # The same films in all: their ratings are read once.
        tastes = tastes or read_tastes(
            folder / RATINGS, table, people=SMALL["people"] if small else 100
        )
        scene = _of_items(name, Items(table, tastes, name=name), scope, "MPAA certificate")
        if name == PAYING:
            about = f"as {GENRES}, but what is denied earns {BONUS:g} more"
            scene = replace(scene, about=about, methods=OURS, calibrated=False, pays=BONUS)
        elif name == STRICTER:
            about = f"as {GENRES}; half-way every certificate counts as the next higher one"
            scene = replace(
                scene, about=about, kind=CHANGES, methods=OURS, calibrated=False, stricter=True
            )
        elif name == TAUGHT_FILMS:
            scene = _taught(scene, GENRES)
        elif name == FILMS_AS_ARMS:
            scene = _turned(scene, "film", GENRES)
        elif name == GENRES:
            scene = replace(scene, methods=PROMISED)
        yield scene


def _taught(scene: Scene, as_in: str) -> Scene:
    about = f"as {as_in}; answers are wrong, or cheap, or both"
    return replace(scene, about=about, kind=TEACHERS, methods=TAUGHT, calibrated=False)


def _turned(scene: Scene, item: str, as_in: str) -> Scene:
    assert isinstance(scene.recipe, Items)
    recipe = Turned(scene.recipe, name=scene.name)
    about = f"as {as_in}, turned round: each {item} is an arm with features, the band a context"
    return replace(
        scene, recipe=recipe, about=about, methods=PAIRED, calibrated=False, newcomers=True
    )


def _read_films(folder: Path, *, keywords: bool = False) -> ItemTable:
    columns = ["genres", "keywords:60"] if keywords else ["genres"]
    return read_items(folder / FILMS, label="certificate", levels=CERTIFICATES, features=columns)


def _games(folder: Path, scope: Scope, asked: Sequence[str], small: bool) -> Iterator[Scene]:
    table = read_items(folder / GAMES, label="esrb_rating", levels=RATED)
    for name in asked:
        recipe = Items(table, name=name, people=SMALL["people"] if small else 60)
        scene = _of_items(name, recipe, scope, "ESRB rating")
        if name == GAMES_AS_ARMS:
            yield _turned(scene, "game", ESRB)
        else:
            yield _taught(scene, ESRB) if name == TAUGHT_GAMES else replace(scene, methods=PROMISED)


def _exceptions(folder: Path, scope: Scope, asked: Sequence[str], small: bool) -> Iterator[Scene]:
    tables: dict[str, Callable[[], ItemTable | None]] = {
        "MPAA": lambda: _read_films(folder),
        "ESRB": lambda: read_items(folder / GAMES, label="esrb_rating", levels=RATED),
        "made-up": lambda: None,
    }
    table = tables[RARE[asked[0]][0]]()  # a maker's names have their features in common
    for name in asked:
        _, rate, pays = RARE[name]
        more = f" and earn {pays:g} more" if pays else ""
        yield Scene(
            name=name,
            recipe=Exceptions(
                features=table,
                rate=rate,
                pays=pays,
                name=name,
                items=SMALL["items"] if small else 1_500,
                people=SMALL["people"] if small else 60,
            ),
            steps=scope.steps,
            seeds=scope.seeds_exceptions,
            kind=EXCEPTIONS,
            calibrated=False,
            methods=(DEFAULT, UNCHECKED, TOLD),
            about=f"{100 * rate:g} % of what is free for all deviate{more}",
        )


def _warfarin(folder: Path, scope: Scope, asked: Sequence[str], small: bool) -> Iterator[Scene]:
    yield Scene(
        name=WARFARIN,
        recipe=inputs.warfarin(folder / PATIENTS),
        steps=scope.steps,
        seeds=scope.seeds,
        rules=True,
        teaching_contexts=200,
        about="no dose with both of two conditions; patients of the IWPC",
    )


def _ages(folder: Path, scope: Scope, asked: Sequence[str], small: bool) -> Iterator[Scene]:
    census = folder / CENSUS
    shares = read_ages(census) if census.exists() else None
    recipe = Ages(shares, viewers=SMALL["viewers"] if small else 1_000)
    yield Scene(
        name=AGES,
        recipe=recipe,
        steps=scope.steps,
        seeds=scope.seeds,
        about="films from an age of 0, 8, 13 or 17 on; made-up viewers",
    )


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
            name=name,
            recipe=recipe,
            steps=scope.steps_rules,
            rules=True,
            about=about,
            seeds=scope.seeds_found if name == FOUND else scope.seeds,
            limits="found" if name == FOUND else "auto",
        )


# Names of worlds, the files that they need, and how they are made.
_Maker = Callable[[Path, Scope, Sequence[str], bool], Iterator[Scene]]
_MAKERS: tuple[tuple[tuple[str, ...], tuple[str, ...], _Maker], ...] = (
    ((GENRES, KEYWORDS, PAYING, STRICTER, TAUGHT_FILMS, FILMS_AS_ARMS), (FILMS, RATINGS), _films),
    ((ESRB, TAUGHT_GAMES, GAMES_AS_ARMS), (GAMES,), _games),
    ((WARFARIN,), (PATIENTS,), _warfarin),
    ((AGES,), (), _ages),
    ((SINGLE, PAIRS, BOTH, FOUND), (RATINGS,), _rules),
    (FAMILIES["exceptions MPAA"], (FILMS,), _exceptions),
    (FAMILIES["exceptions ESRB"], (GAMES,), _exceptions),
    (FAMILIES["exceptions made-up"], (), _exceptions),
)

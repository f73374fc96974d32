"""The frontier: how much regret and how many violations a number of the teacher's answers buys.

Every method of the paper's, and ours, on the same worlds, contexts and seeds. A *part* is a few
methods that share what is costly; a job is a part in one world and fold, and its result depends on
nothing else. So the study's engines run it anywhere, with the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bridle_studies.environments.alignment import Aligned
from bridle_studies.environments.blocks import Block
from bridle_studies.environments.movies import Movies
from bridle_studies.environments.pairs import Pairs
from bridle_studies.environments.synthetic import synthetic_block
from bridle_studies.environments.world import Recipe
from bridle_studies.frontier.methods import COSTS, GIVES, PARTS, others_doubt
from bridle_studies.frontier.scope import DOUBTS, NOISY_RANDOM, Point, Scope
from bridle_studies.paper.work import Fold, Work
from bridle_studies.scaffold.journal import file_name

__all__ = ["Frontier", "Job", "cost", "jobs", "scenes", "sweep"]

# Ten times the cost of others, and rules of single features: not where pairs are denied.
COSTLY = ("doubt+rules+found",)
# Only in the movies' world of single genres, which their rules can say.
NOISY = (NOISY_RANDOM, *(method for method, how in DOUBTS.items() if how.noisy))


class Job(NamedTuple):
    """A part of the methods in one world and fold."""

    world: str
    fold: int
    part: str

    @property
    def key(self) -> str:
        """A name that no other job of the study has, also as a file."""
        return file_name(*self)


class Frontier:
    """Does jobs of the frontier, as `Work` does those of a study.

    Parameters
    ----------
    recipes : mapping from names to recipes
        The worlds, by the names that results give them.
    scope : Scope
        How much is run.
    """

    def __init__(self, recipes: Mapping[str, Recipe], scope: Scope) -> None:
        self.recipes = dict(recipes)
        self.scope = scope
        self._last: tuple[str, Work] | None = None

    def do(self, job: Job) -> list[Point]:
        """Do one job."""
        fold, others = self.fold(job.world, job.fold), self.scope.others
        if job.part in others:
            return [*others_doubt(job.part, others[job.part])(fold, self.scope)]
        found = PARTS[job.part](fold, self.scope)
        return [point for point in found if point.method in self.scope.methods]

    def fold(self, world: str, index: int) -> Fold:
        """Draw a fold of a world; the last one made is kept."""
        if self._last is None or self._last[0] != world:
            recipe = self.recipes[world]
            plan = self.scope.plan(sweep=isinstance(recipe, Aligned))
            self._last = (world, Work(recipe, plan))
        return self._last[1].fold(index)


def scenes(recipe: Recipe) -> dict[str, Recipe]:
    """Return the worlds that a recipe is tried in: movies with three kinds of limits, others as is.

    >>> from bridle_studies.environments import synthetic_block
    >>> [*scenes(Movies(synthetic_block(people=5, movies=20)))]
    ['synthetic single', 'synthetic pairs', 'synthetic both']
    """
    if not isinstance(recipe, Movies):
        return {recipe.name: recipe}
    made_up = "synthetic " if recipe.origin.synthetic else ""
    kinds: dict[str, Recipe] = {
        "single": recipe,
        "pairs": Pairs(recipe),
        "both": Pairs(recipe, singles=True),
    }
    return {f"{made_up}{name}": found for name, found in kinds.items()}


def sweep(scope: Scope, block: Block | None = None) -> dict[str, Recipe]:
    """Return the synthetic worlds of the sweep over density and alignment."""
    block = block or synthetic_block()
    made = [
        Aligned(block, density=density, alignment=alignment)
        for density in scope.densities
        for alignment in scope.alignments
    ]
    return {recipe.name: recipe for recipe in made}


def jobs(recipes: Mapping[str, Recipe], scope: Scope) -> list[Job]:
    """Cut the frontier into jobs, those of one world and fold one after the other."""
    return [
        Job(world, fold, part)
        for world, recipe in recipes.items()
        for fold in range(scope.folds)
        for part in (*PARTS, *scope.others)
        if (part == "sweep") == isinstance(recipe, Aligned)
        and not (part in COSTLY and isinstance(recipe, Pairs))
        and not (part in NOISY and not isinstance(recipe, Movies))
        and not {*scope.methods, *scope.others}.isdisjoint(GIVES.get(part, (part,)))
    ]


def cost(job: Job) -> float:
    """Guess what a job costs, beside others: for the bar."""
    return COSTS.get(job.part, 1.0)

"""`bridle demo`: a two-phase story in the terminal, on worlds that bridle makes itself.

A teacher answers, an agent learns its limits from that, goes online and is measured for several
values of sigma; then one live `Agent` explains what it does; then the movies are the arms. Every
sentence about the outcome is computed from the numbers of this very run.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bridle.agent.agent import Agent
from bridle.agent.config import Arm, ArmId
from bridle.agent.events import Event
from bridle.agent.outcomes import Abstention, Decision
from bridle.errors import NotPossible
from bridle.kernels.types import Floats
from bridle.limits.mixture import DOUBT
from bridle.policies import BehaviorConstrained, KnownMask, Uniform, Weighted
from bridle.schema import Category, Labels
from bridle.simulate import Lesson, online, teach
from bridle_studies.environments import World, synthetic_movies
from bridle_studies.environments.genres import GENRES
from bridle_studies.scaffold.waiting import patience

__all__ = ["Comparison", "Size", "check_out", "compare", "demo", "draw", "reading"]

FIGURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is simulated."""

    worlds: int = 10
    people: int = 100
    movies: int = 1_000
    teaching_movies: int = 200  # the others are for the online phase
    examples: int = 10_000  # N
    steps: int = 50_000  # T


FULL, QUICK = Size(), Size(steps=5_000)

SIGMAS = (0.0, 0.25, 0.5, 0.75, 1.0)
ARGMAX, FILTER, RANDOM = "mask, argmax", "mask, filter", "a random arm"
CONTESTANTS: dict[str, Weighted] = {
    **{f"sigma = {sigma:g}": BehaviorConstrained(sigma=sigma) for sigma in SIGMAS},
    ARGMAX: KnownMask(reading="argmax"),
    FILTER: KnownMask(reading="filter"),
    RANDOM: Uniform(),
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What the contestants reached: for each name an array with an entry a world."""

    size: Size
    reward: dict[str, Floats] = field(default_factory=dict)
    R: dict[str, Floats] = field(default_factory=dict)
    Rc: dict[str, Floats] = field(default_factory=dict)
    E: dict[str, Floats] = field(default_factory=dict)


def compare(
    worlds: Sequence[World], size: Size, first_seed: int, tick: Callable[[], None] = lambda: None
) -> tuple[Comparison, list[Lesson]]:
    """Teach in each world, then let every contestant go online there, with the same contexts."""
    found = Comparison(size=size)
    lessons = []
    for measure in (found.reward, found.R, found.Rc, found.E):
        measure.update({name: np.empty(len(worlds)) for name in CONTESTANTS})
    for w, world in enumerate(worlds):
        seed = first_seed + w
        rng = np.random.default_rng([seed, 1])  # apart from the world's own draws
        shown = rng.integers(0, size.teaching_movies, size.examples)
        lesson = teach(world.tables, examples=size.examples, rows=shown, seed=seed)
        lessons.append(lesson)
        tick()
        rows = rng.integers(size.teaching_movies, len(world.tables), size.steps)
        for name, policy in CONTESTANTS.items():
            run = online(
                world.tables,
                policy=policy,
                limits=lesson.limits[size.examples],
                rows=rows,
                checkpoints=[],
                seed=seed,
            )
            found.reward[name][w] = world.tables.rewards[run.rows, run.played].mean()
            found.R[name][w], found.Rc[name][w] = run.R[-1], run.Rc[-1]
            found.E[name][w] = run.E[-1]
            tick()
    return found, lessons


def reading(found: Comparison) -> list[str]:
    """Return what the table shows, in sentences that are computed from it."""
    steps = found.size.steps
    low, high = f"sigma = {SIGMAS[0]:g}", f"sigma = {SIGMAS[-1]:g}"
    dial = [f"sigma = {sigma:g}" for sigma in SIGMAS]

    def share(name: str) -> str:
        percent = 100.0 * found.E[name].mean() / steps
        return f"{percent:.2g} %" if percent < 9.5 else f"{percent:.0f} %"

    best = min(dial, key=lambda name: float(found.Rc[name].mean()))
    best_R = min(dial, key=lambda name: float(found.R[name].mean()))
    reward = {name: found.reward[name].mean() for name in (low, high)}
    way = "more" if reward[high] > reward[low] else "no more"
    return [
        f"A random arm is denied in {share(RANDOM)} of the steps. {high}, which never looks at "
        f"what was taught, plays a denied arm in {share(high)}, {low} in {share(low)}.",
        f"Reward alone ({high}) earns {way} than the limits alone ({low}): "
        f"{reward[high]:.3f} against {reward[low]:.3f} a step.",
        f"R is lowest at {best_R}, but R counts what denied plays earn. If they earn nothing "
        f"(Rc), {best} is the best of the five, with {share(best)} of its plays denied.",
        f"The mask is told the limits, which no agent is. By Rc, {best} is "
        f"{_beside(found.Rc[best], found.Rc[ARGMAX])} its argmax reading and "
        f"{_beside(found.Rc[best], found.Rc[FILTER])} its filter reading.",
    ]


def _beside(ours: Floats, theirs: Floats) -> str:
    """Return how we stand to them: the same worlds, so the differences are what varies."""
    gap = ours - theirs
    mean, error = float(gap.mean()), _error(gap)
    if not abs(mean) > 2.0 * error:
        return f"level, within two standard errors ({mean:+.3f} ± {error:.3f}), with"
    word = "worse than" if mean > 0.0 else "better than"
    return f"{abs(mean):.3f} ± {error:.3f} {word}"


def _error(values: Floats) -> float:
    """Return the standard error of the mean over worlds; nan for a single one."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan


# -- the figure ----------------------------------------------------------------------------------


def check_out(path: Path) -> None:
    """Raise an error, before anything is computed, if the figure could not be written."""
    if path.suffix.lower() not in FIGURES:
        raise NotPossible(f"The name of a figure ends in {', '.join(FIGURES)}. Got {path.name!r}.")
    if not path.parent.is_dir():
        raise NotPossible(f"There is no folder {str(path.parent)!r}.")
    if importlib.util.find_spec("matplotlib") is None:
        raise NotPossible("A figure needs matplotlib: pip install ./studies in bridle's folder.")


def draw(found: Comparison, path: Path) -> None:
    """Draw regret and violations by sigma."""
    from matplotlib.figure import Figure

    size = found.size
    figure = Figure(figsize=(9.0, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    dial = [f"sigma = {sigma:g}" for sigma in SIGMAS]
    style = {"marker": "o", "capsize": 3, "markersize": 5, "linewidth": 1.6}
    handles = []
    for values, color, label in (
        (found.R, "#1f77b4", "R: against the best arm of all"),
        (found.Rc, "#d95f02", "Rc: against the best allowed arm,\na denied play earning 0"),
    ):
        means = [values[name].mean() for name in dial]
        errors = [_error(values[name]) for name in dial]
        handles += [left.errorbar(SIGMAS, means, errors, color=color, label=label, **style)]
    for name, dash in ((ARGMAX, "--"), (FILTER, ":")):
        line = {"color": "#d95f02", "linewidth": 1, "linestyle": dash}
        handles += [left.axhline(found.Rc[name].mean(), label=f"Rc of the known {name}", **line)]
    left.set(ylabel="average regret (lower is better)")
    left.set_ylim(bottom=0.0)
    left.legend(handles=handles, fontsize=7.5, loc="upper left", frameon=False)

    means = [found.E[name].mean() for name in dial]
    errors = [_error(found.E[name]) for name in dial]
    right.errorbar(SIGMAS, means, errors, color="#7b3294", **style)
    for x, mean in zip(SIGMAS, means, strict=True):
        place, side = ((6, -12), "left") if x < 1.0 else ((0, 9), "center")
        note = {"xytext": place, "textcoords": "offset points", "ha": side, "fontsize": 8}
        right.annotate(f"{mean:,.0f}", (x, mean), **note)
    random = found.E[RANDOM].mean()
    right.axhline(random, color="#555555", linewidth=1, linestyle=":", label=RANDOM)
    right.set_yscale("symlog", linthresh=10.0)
    right.set(ylabel=f"E: denied arms played, of {size.steps:,}")
    right.set_ylim(0.0, size.steps * 2.5)
    right.legend(fontsize=7.5, loc="lower right", frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.1)
        axes.set_xlabel("sigma: 0 = only what was taught, 1 = only reward")
        axes.set_xticks(SIGMAS, [f"{sigma:g}" for sigma in SIGMAS])
    figure.suptitle(
        f"Synthetic movies: {size.people} people, {size.examples:,} answers taught, "
        f"{size.steps:,} steps; mean of {size.worlds} worlds ± standard error",
        fontsize=9.5,
    )
    figure.savefig(path, dpi=110, metadata={})


# -- the story -----------------------------------------------------------------------------------


def demo(
    *, seed: int = 0, quick: bool = False, out: Path | None = None, console: Console | None = None
) -> None:
    """Print the story, and save its figure if `out` is given."""
    if out is not None:
        check_out(out)
    size = QUICK if quick else FULL
    console = console or Console(highlight=False)
    console.print(
        "[bold]bridle[/]: an agent that learns its limits by example. Everything here happens in "
        "[bold]synthetic[/] worlds of movies and people, made up on the spot."
    )
    with patience(console):
        _warm_up()
    first = seed * size.worlds  # another --seed has no world in common
    worlds = [
        synthetic_movies(people=size.people, movies=size.movies, seed=first + w)
        for w in range(size.worlds)
    ]
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        total = size.worlds * (1 + len(CONTESTANTS))
        task = progress.add_task("teaching and acting online", total=total)
        found, lessons = compare(worlds, size, first, lambda: progress.advance(task))
    _tell_teaching(console, worlds[0], lessons[0], size)
    _tell_online(console, found)
    _tell_live(console, worlds[0], seed)
    _tell_catalogue(console, worlds[0], seed)
    if out is not None:
        draw(found, out)
        console.print(f"The figure is in {out}.")


def _warm_up() -> None:
    """Call each kernel that the story needs, so that it is compiled or loaded."""
    tiny = synthetic_movies(people=7, movies=30)
    compare([tiny], Size(teaching_movies=20, examples=10, steps=10), 0)
    agent = Agent(arms=tiny.arms, features=tiny.schema, limits="linear", prior="paper")
    agent.retract(agent.teach(tiny.context(0), tiny.arms[0].id, False))
    agent.ask(tiny.context(0))
    agent.reward(agent.decide(tiny.context(0), propensity=True).id, 1.0)
    _live_with(_shelf(tiny, range(6), 0), tiny, visits=6, seed=0)


def _tell_teaching(console: Console, world: World, lesson: Lesson, size: Size) -> None:
    console.rule("1. Teaching", align="left")
    console.print(
        f"{size.people} people (the arms) in seven age bands. A movie comes (the context), the "
        "agent picks a person to recommend it to. In the first world these genres are denied, "
        "which the agent is never told:\n"
    )
    genres = [*GENRES]
    for group, row in zip(world.groups, np.asarray(world.denied), strict=True):
        listed = ", ".join(genre for genre, no in zip(genres, row, strict=True) if no)
        console.print(f"  {group:>5}: {listed or 'nothing is denied'}")
    said = world.tables.allowed[lesson.rows, lesson.arms]
    chosen = [*np.flatnonzero(~said)[:3], *np.flatnonzero(said)[:2]]
    console.print(
        f"\nIt asks {size.examples:,} questions, each about a random person and one of "
        f"{size.teaching_movies} movies. Some of the answers:\n"
    )
    for i in sorted(int(i) for i in chosen):
        movie = ", ".join(_genres(world.context(lesson.rows[i])))
        verdict = "allowed" if said[i] else "[red]not allowed[/]"
        group = world.arms[lesson.arms[i]].group
        console.print(f"  {group:>5} × {movie} movie: {verdict}")
    console.print(f'\n{100.0 * (1.0 - said.mean()):.0f} % of the answers were "not allowed".\n')


def _tell_online(console: Console, found: Comparison) -> None:
    size = found.size
    console.rule("2. Online", align="left")
    console.print(
        f"Now {size.steps:,} steps over the {size.movies - size.teaching_movies} other movies: one "
        "comes, the agent picks a person, sees that person's rating and learns. Nobody says a word "
        "about limits any more. sigma is the dial: 0 plays only by what was taught, 1 only by "
        "reward. Two masks that are told all limits are the yardstick.\n"
    )
    table = _table("who", "reward", "R", "Rc", "E")
    for name in CONTESTANTS:
        table.add_row(
            name,
            f"{found.reward[name].mean():.3f}",
            *(_plus_minus(values[name], ".3f") for values in (found.R, found.Rc)),
            _plus_minus(found.E[name], ",.0f"),
            end_section=name in (f"sigma = {SIGMAS[-1]:g}", FILTER),
        )
    table.caption = (
        f"Synthetic. Mean of {size.worlds} worlds ± standard error. reward: of a step, 1 = five "
        "stars. R: average regret against the best arm. Rc: against the best allowed arm, a "
        f"denied play earning 0. E: denied arms played, of {size.steps:,}. Linear limits, no "
        "exact denials: the paper's mode."
    )
    console.print(table)
    console.print()
    listed = Table.grid(padding=(0, 1))
    for sentence in reading(found):
        listed.add_row("-", sentence)
    console.print(listed, "")


def _plus_minus(values: Floats, form: str) -> str:
    error = _error(values)
    return f"{values.mean():{form}}" + ("" if math.isnan(error) else f" ± {error:{form}}")


def _tell_live(console: Console, world: World, seed: int) -> None:
    console.rule("3. One agent, live", align="left")
    person: dict[ArmId, int] = {}  # the first of each band
    for k, arm in enumerate(world.arms):
        person.setdefault(str(arm.group), k)
    bands = [group for group in world.groups if group in person]
    truth, rewards = world.tables.allowed, world.tables.rewards
    log: list[Event] = []
    agent = Agent(
        arms=bands,
        features=world.schema,
        sigma=0.25,
        limits="linear",
        prior="paper",
        seed=seed,
        sink=log.extend,
    )
    rng = np.random.default_rng([seed, 2])
    for row in rng.integers(0, len(world.tables), 150).tolist():
        question = agent.ask(world.context(row))
        agent.answer(question, truth[row, person[question.arm]], by="teacher")
    for row in rng.integers(0, len(world.tables), 500).tolist():
        decision = _decided(agent, world.context(row))
        agent.reward(decision.id, rewards[row, person[decision.arm]])
    row = _new_movie(world, agent, [person[band] for band in bands])
    context = world.context(row)
    console.print(
        f"A new agent with {len(bands)} arms, one person of each band, and sigma = {agent.sigma}. "
        f"It has {len(agent.examples)} answers of its teacher and 500 rewards behind it. Now comes "
        "a movie that nobody was asked about in just this combination of genres:\n"
    )
    console.print(f'  agent.decide({{"genres": {_genres(context)}}}, propensity=True)\n')
    first = _decided(agent, context)
    console.print(_explained(first, [bool(truth[row, person[band]]) for band in bands]))
    console.print(
        f"\nThe highest draw won: {first.arm}. The chance of that was {first.propensity:.3f}: "
        "computed exactly, not counted.\n"
    )
    example = agent.teach(context, first.arm, allowed=False, by="teacher", note="not this one")
    denied = _decided(agent, context)
    agent.retract(example, by="teacher")
    again = _decided(agent, context)
    agent.set_sigma(1.0)
    free = _decided(agent, context)
    states = {"at first": first, "denied": denied, "retracted": again, "sigma = 1": free}
    table = _table("chance of", *states)
    for k, band in enumerate(bands):
        table.add_row(band, *(_chance(made, k) for made in states.values()))
    table.caption = (
        f"The same movie: at first; after the teacher denied {first.arm} for it; after that was "
        "taken back; with the dial turned to reward alone."
    )
    console.print(table)
    same = np.array_equal(first.parts[:6], again.parts[:6])
    replayed = Agent.replay(log)
    verdict = "all came out the same" if replayed.agrees else f"{replayed.differing} differ"
    console.print(
        f"\nAfter the retraction every number is {'' if same else 'NOT '}what it was before the "
        f"denial. All {len(log):,} events were kept; a replay made {replayed.checked:,} decisions "
        f"and questions anew: {verdict}.\n"
    )


@dataclass(kw_only=True)
class _Visits:
    """What came of visits to a catalogue."""

    places: int = 0
    denied: int = 0
    questions: int = 0
    checks: int = 0


def _shelf(world: World, rows: Sequence[int], seed: int) -> Agent:
    """Return an agent whose arms are these movies, described by their genres."""
    return Agent(
        arms=[_movie(world, row) for row in rows],
        features=[Category("who", world.groups)],
        arm_features=[Labels("genres", list(GENRES))],
        budget=1_000,
        on_doubt="play_safe",
        seed=seed,
    )


def _movie(world: World, row: int) -> Arm:
    return Arm(row, world.labels[row], features={"genres": _genres(world.context(row))})


def _first_of(world: World) -> dict[str, int]:
    """Return the first person of each band."""
    person: dict[str, int] = {}
    for k, arm in enumerate(world.arms):
        person.setdefault(str(arm.group), k)
    return person


def _live_with(agent: Agent, world: World, visits: int, seed: int) -> _Visits:
    """Show people three movies at a time; a teacher answers what is asked, and judges checks."""
    person, rng, found = _first_of(world), np.random.default_rng([seed, 3]), _Visits()
    truth, rewards = world.tables.allowed, world.tables.rewards
    for n in rng.integers(0, len(person), visits).tolist():
        band, k = list(person.items())[n]
        slate = agent.decide({"who": band}, k=3)
        if slate.question is not None:
            row = cast("int", slate.question.arm)
            agent.answer(slate.question, bool(truth[row, k]), by="teacher")
            found.questions += 1
        if isinstance(slate, Abstention):
            continue
        rows = cast("list[int]", slate.arms)
        agent.reward_slate(slate, items=[float(rewards[row, k]) for row in rows])
        for made in slate:
            if made.check is not None:
                agent.judge(made.check, bool(truth[cast("int", made.arm), k]), by="teacher")
                found.checks += 1
        found.places += len(rows)
        found.denied += int((~truth[rows, k]).sum())
    return found


def _tell_catalogue(console: Console, world: World, seed: int) -> None:
    console.rule("4. The movies are the arms", align="left")
    some = np.random.default_rng([seed, 4]).permutation(len(world.tables)).tolist()
    shelf, coming = some[: len(some) // 2], some[len(some) // 2 :]
    agent = _shelf(world, shelf, seed)
    with patience(console):
        found = _live_with(agent, world, 300, seed)
    console.print(
        f"Turned round: {len(shelf)} movies with their genres are what an agent chooses, and who "
        "watches is the context. It was told nothing beforehand. In 300 visits it showed "
        f"{found.places} movies, {found.denied} of them to somebody who may not see them, for "
        f"{found.questions} questions and {found.checks} checks. What it has learned:\n"
    )
    for sentence in agent.describe()[:6]:
        console.print(f"  {sentence}")
    agent.add_arms([_movie(world, row) for row in coming])
    sure = right = 0
    for band, k in _first_of(world).items():
        believed = agent.believed({"who": band})
        for row, playable, p in zip(
            coming, believed.playable[-len(coming) :], believed.p[-len(coming) :], strict=True
        ):
            if playable or p <= DOUBT:
                sure += 1
                right += bool(playable) == bool(world.tables.allowed[row, k])
    pairs = len(coming) * len(_first_of(world))
    console.print(
        f"\n{len(coming)} movies come later. Of {sure} in {pairs} pairs of a movie and a band it "
        f"is sure at once, and right in {right}; about the others it asks when that pays.\n"
    )


def _new_movie(world: World, agent: Agent, people: Sequence[int]) -> int:
    """Find a movie of two genres that was not asked about, denied to some people but not to all."""
    contexts = world.tables.contexts
    asked = {example.context for example in agent.examples}
    new = np.array([context.tobytes() not in asked for context in contexts])
    may = world.tables.allowed[:, people].sum(axis=1)
    mixed = (may >= 2) & (may <= len(people) - 2)
    return int(np.argmax(4 * new + 2 * mixed + (contexts.sum(axis=1) == 2)))


def _decided(agent: Agent, context: dict[str, object]) -> Decision:
    made = agent.decide(context, propensity=True)
    assert isinstance(made, Decision)  # not all are denied: every movie is allowed to someone
    return made


def _explained(decision: Decision, truth: Sequence[bool]) -> Table:
    table = _table("arm", "reward part", "limits part", "blend", "draw", "chance", "truth")
    pairs = (
        (decision.reward_mean, decision.reward_sd),
        (decision.limit_mean, decision.limit_sd),
        (decision.mean, decision.sd),
    )
    for k, arm in enumerate(decision.arms):
        cells = [f"{mean[k]:.2f} ± {sd[k]:.2f}" for mean, sd in pairs]
        cells += [f"{decision.draw[k]:.2f}", _chance(decision, k)]
        cells += ["ok" if truth[k] else "denied"]
        table.add_row(str(arm), *cells, style="bold" if arm == decision.arm else None)
    table.caption = (
        "Limits part: 1 = allowed, 0 = denied, as far as it was taught. Blend: .25 × reward part + "
        ".75 × limits part. ±: standard deviation (in the blend times v = .25). The truth is for "
        "you; the agent does not see it."
    )
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(caption_justify="left", caption_style="dim")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _chance(decision: Decision, k: int) -> str:
    if decision.propensities is None or not decision.eligible[k]:
        return "out"
    return f"{decision.propensities[k]:.3f}"


def _genres(context: dict[str, object]) -> list[str]:
    return list(cast("tuple[str, ...]", context["genres"]))

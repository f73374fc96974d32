"""What the study of real limits says: sentences, tables in the terminal, and one page to read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
from rich.console import Console
from rich.table import Table

from bridle_studies.real.canvas import WORDS, words_of
from bridle_studies.real.scope import (
    ALONE_5,
    ALPHA,
    AT_WORD_20,
    CHANGES,
    COIN,
    DEFAULT,
    EXCEPTIONS,
    LIMITS,
    OWN,
    PROMISE,
    RATES_5,
    RATES_20,
    TEACHERS,
    TOLD,
    UNCHECKED,
    order_of,
)
from bridle_studies.real.summary import DOUBT, Cell, Said, calibrations, cells
from bridle_studies.real.teachers import AFTER, BARS, After, TeacherCell, holds, teacher_cells
from bridle_studies.real.teachers_figure import ALONE
from bridle_studies.scaffold.canvas import number
from bridle_studies.scaffold.report import (
    drawings,
    facts,
    link,
    listed,
    mapping,
    run_view,
    write_page,
)

__all__ = ["lead", "print_real", "write_real_report"]

SURE = 0.99  # what the default plays is at least as probable
MEANINGS = {
    "Answers": "How often the teacher was asked whether an arm is allowed. The paper’s agent is "
    "taught with random examples beforehand.",
    "Checks": "Plays that the teacher judged afterwards because a coin said so; “found” are those "
    "that were not allowed. Answers and checks are counted apart.",
    "E": "Plays that were not allowed. E/T is their share of all plays; “worst” is that of the "
    "worst seed.",
    "R": "Average regret: the best reward of all arms, denied ones too, less that of the arm "
    "played.",
    "Rc": "Average regret against the best allowed arm; a play that was not allowed earns nothing.",
    "Rc − told": "Rc above that of a mask that is told the limits and learns rewards as we do: "
    "what not knowing the limits costs.",
    "E after": "E from the step on at which limits changed, in the worst seed below it.",
    "Frozen": "Share of the steps at which the promise let nothing be played that the teacher did "
    "not allow at that very step; “anew” is how often what was learned was begun anew.",
    "Abstentions": "Steps in which nothing was played, because nothing was known to be allowed.",
    "default": "bridle as it comes: what kind of limits there are is found out from the answers, "
    "arms in a declared group share theirs, it asks when in doubt, and a coin has plays checked.",
    "promise": f"The default with a promise of α = {ALPHA:g}: every play has a coin of at least "
    f"{COIN:g}, and what its checks find freezes it in time.",
    "unchecked": "The default without any check.",
    "rates-20, rates-5": "Two teachers: one never errs and costs .35 an answer, the other is wrong "
    "in 20 % (5 %) and costs .02. Nobody says so: both rates are learned from cases that both "
    "judged, and a question goes to whom it pays to ask.",
    "at-word-20": "The same two, wrong in 20 %, taken at their word: the agent is told that "
    "neither errs, so the cheap one is asked.",
    "alone-5": "One teacher, wrong in 5 % of questions and checks, which is told. No answer is "
    "certain; it may ask in one of ten steps on average.",
    "rules, logistic": "The same questions, but only rules are learned, or only log odds.",
    "bcts": "The paper’s agent: it blends reward with what it was taught, σ = .25.",
    "Pairs": "An item and a unit: a band of people who share their limits, or a person where "
    "nobody declared bands.",
}


def lead(
    runs: pl.DataFrame, calibration: pl.DataFrame, teachers: pl.DataFrame | None = None
) -> list[str]:
    """Return what came out, in sentences computed from the results alone."""
    by_kind: dict[str, dict[str, list[Cell]]] = {}
    for cell in cells(runs):
        by_kind.setdefault(cell.kind, {}).setdefault(cell.method, []).append(cell)
    limits, rare, changes = (by_kind.get(kind, {}) for kind in (LIMITS, EXCEPTIONS, CHANGES))
    ours = limits.get(DEFAULT, [])
    told = [
        _on_errors(ours),
        _on_answers(ours),
        _on_promise(limits),
        _on_exceptions(rare),
        *_on_changes(changes),
        *_on_teachers(by_kind.get(TEACHERS, {}), _voices(teachers)),
        _on_others(limits),
        _on_doubt(calibration),
    ]
    return [sentence for sentence in told if sentence]


def _on_errors(ours: Sequence[Cell]) -> str:
    """Return where the default kept the share of denied plays below its doubt, in every seed."""
    if not ours:
        return ""
    kept = [cell for cell in ours if cell.worst <= DOUBT]
    broke = [cell for cell in ours if cell.worst > DOUBT]
    runs = sum(cell.seeds for cell in ours)
    if not broke:
        worst = max(ours, key=lambda cell: cell.worst)
        return (
            f"In every one of {runs} runs of the default at most {100 * worst.worst:.2f} % of the "
            f"plays were not allowed (the most in “{worst.world}”); it grants itself "
            f"{100 * DOUBT:g} %."
        )
    each = "; ".join(
        f"“{cell.world}” {100 * cell.share:.1f} % on average, {100 * cell.worst:.1f} % in the "
        "worst seed"
        for cell in sorted(broke, key=lambda cell: -cell.worst)
    )
    return (
        f"The default grants itself {100 * DOUBT:g} % of plays that are not allowed. It kept to "
        f"that in every seed of {len(kept)} of {len(ours)} worlds, and did NOT in {each}."
    )


def _on_answers(ours: Sequence[Cell]) -> str:
    """Return what the default asked for, and what not knowing the limits cost."""
    if not ours:
        return ""
    least, most = (end(ours, key=lambda cell: cell.answers) for end in (min, max))
    dear = max(ours, key=lambda cell: cell.excess)
    if least.answers == most.answers:
        asked = f"{number(most.answers, 'E')} answers{_range(most)}"
    else:
        asked = (
            f"{number(least.answers, 'E')} (“{least.world}”) to {number(most.answers, 'E')} "
            f"answers (“{most.world}”) on average"
        )
    checks = max(cell.audits for cell in ours)
    checked = f" and had up to {number(checks, 'E')} plays checked" if checks else ""
    where = f" (“{dear.world}”)" if len(ours) > 1 and dear.excess else ""
    return (
        f"It asked for {asked}{checked}. Its regret is on average {dear.excess:.3f} above "
        f"that of a mask that is told the limits{where}."
    )


def _range(cell: Cell) -> str:
    return "" if cell.fewest == cell.most else f" ({cell.fewest:,} to {cell.most:,})"


def _on_promise(limits: Mapping[str, Sequence[Cell]]) -> str:
    """Return what a promise adds to the default."""
    told = [
        f"in “{cell.world}” {number(cell.E, 'E')} denied plays, {number(cell.answers, 'E')} "
        f"answers and {number(cell.audits, 'E')} checks, {100 * cell.frozen:.1f} % of the steps "
        "frozen"
        for cell in limits.get(PROMISE, ())
    ]
    return f"With a promise of {100 * ALPHA:g} %: {'; '.join(told)}." if told else ""


def _on_exceptions(rare: Mapping[str, Sequence[Cell]]) -> str:
    """Return what checks do about rare exceptions, and what they cost."""
    checked, unchecked = rare.get(DEFAULT, ()), rare.get(UNCHECKED, ())
    if not checked or not unchecked:
        return ""
    each = []
    for members in (checked, unchecked):
        worst = max(members, key=lambda cell: cell.worst)
        seeds, broke = (sum(getattr(cell, name) for cell in members) for name in ("seeds", "broke"))
        least, most = (end(cell.spent for cell in members) for end in (min, max))
        each.append(
            f"{broke} of {seeds} runs played more than {100 * DOUBT:g} % of denied arms, the worst "
            f"{100 * worst.worst:.2f} % (“{worst.world}”), for {_between(least, most)}"
        )
    return (
        f"Where a few of the things that are free for all deviate: with checks {each[0]} answers "
        f"and checks on average; without checks {each[1]} answers."
    )


def _on_changes(changes: Mapping[str, Sequence[Cell]]) -> list[str]:
    """Return what was violated after limits changed, a sentence a world."""
    worlds = dict.fromkeys(cell.world for members in changes.values() for cell in members)
    told = []
    for world in worlds:
        each = [
            f"{cell.method} {number(cell.after, 'E')} ({cell.after_most:,} in the worst seed)"
            for method in sorted(changes, key=order_of)
            for cell in changes[method]
            if cell.world == world and cell.after is not None and method != TOLD
        ]
        told.append(f"Denied plays after the change in “{world}”: {', '.join(each)}.")
    return told


_Voices: TypeAlias = Mapping[tuple[str, str], Sequence[TeacherCell]]


def _voices(teachers: pl.DataFrame | None) -> _Voices:
    found: dict[tuple[str, str], list[TeacherCell]] = {}
    for voice in [] if teachers is None else teacher_cells(teachers):
        found.setdefault((voice.world, voice.method), []).append(voice)
    return found


def _on_teachers(taught: Mapping[str, Sequence[Cell]], voices: _Voices) -> list[str]:
    """Return what teachers who err cost, and what was learned of them, some sentences a world."""
    told = []
    for method in (RATES_20, RATES_5, AT_WORD_20, ALONE_5):
        for cell in taught.get(method, ()):
            mine = voices.get((cell.world, method), ())
            if not mine:
                continue
            wrong = f"{100 * max(voice.error for voice in mine):g} %"
            errors = (
                f"{number(cell.E, 'E')} denied plays ({100 * cell.worst:.2f} % in the worst seed)"
            )
            if method == AT_WORD_20:
                told.append(
                    f"The same two taken at their word in “{cell.world}”: {errors}; the cheap one "
                    f"answers {number(mine[1].questions, 'E')} questions, the good one "
                    f"{number(mine[0].questions, 'E')}."
                )
            elif method == ALONE_5:
                told.append(
                    f"One alone who errs in {wrong}, which is told, in “{cell.world}”: {errors}, "
                    f"{number(cell.answers, 'E')} answers, and nothing is played in "
                    f"{100 * cell.abstentions / cell.T:.0f} % of the steps."
                )
            else:
                good, cheap = mine
                told.append(
                    f"Beside a cheap one who errs in {wrong}, rates not told, in “{cell.world}”: "
                    f"{errors}; the good one answers {number(good.questions, 'E')} questions, "
                    f"{good.of_alone:.2f} × of what it takes alone (at most "
                    f"{good.of_alone_most:.2f} ×), the cheap one {number(cheap.questions, 'E')}."
                    f"{_on_rates(mine)}"
                )
    return told


def _on_rates(voices: Sequence[TeacherCell]) -> str:
    """Return how far off learned rates were after 300 answers, and what nobody could have known."""
    told = [
        f"{voice.teacher} off by up to {voice.own.off:.3f} (by more than {BARS['within']:g} in "
        f"{voice.own.beyond} of {voice.own.seeds} seeds; up to {voice.own.from_given:.3f} from the "
        "share that were wrong among these very answers)"
        for voice in voices
        if voice.own is not None
    ]
    return f" Rates after {AFTER} answers of their own: {'; '.join(told)}." if told else ""


def _between(least: float, most: float) -> str:
    low, high = number(least, "E"), number(most, "E")
    return low if low == high else f"{low} to {high}"


def _on_others(limits: Mapping[str, Sequence[Cell]]) -> str:
    told = []
    for method in (*WORDS, *sorted(set(limits) - {*WORDS, TOLD})):
        mine = limits.get(method, ())
        if mine and method != DEFAULT:
            worst = max(mine, key=lambda cell: cell.worst)
            kept = sum(cell.worst <= DOUBT for cell in mine)
            told.append(
                f"{method} kept below {100 * DOUBT:g} % in {kept} of {len(mine)} worlds (the worst "
                f"run: {100 * worst.worst:.1f} %, “{worst.world}”)"
            )
    return f"Beside it: {'; '.join(told)}." if told else ""


def _on_doubt(calibration: pl.DataFrame) -> str:
    """Return how right the doubt is, where it matters most: at the bar for playing."""
    told = []
    for by_answers in calibrations(calibration).values():
        for one in by_answers.get(OWN, ()):
            if one.least == SURE and one.true_share is not None:
                wrong = 100 * (1 - one.true_share)
                told.append(f"“{one.world}” {wrong:.2f} % of {one.pairs:,}")
    if not told:
        return ""
    return (
        f"Of pairs that it never asked about and was {100 * SURE:g} % sure of, so many are not "
        f"allowed: {'; '.join(told)}."
    )


# -- the terminal --------------------------------------------------------------------------------


HEADINGS = ("answers", "checks", "E", "E/T, worst")
# What follows, by how many columns only this world has: as much as 80 letters have room for.
MORE = (("R", "Rc − told", "abst."), ("Rc − told", "abst."), ("Rc − told",))


def print_real(console: Console, runs: pl.DataFrame, teachers: pl.DataFrame | None = None) -> None:
    """Show the table of each world in the terminal, and one of all worlds with exceptions."""
    voices = _voices(teachers)
    rare: dict[str, list[Cell]] = {}
    for world, members in _by_world(runs).items():
        if members[0].kind == EXCEPTIONS:
            rare[world] = members
            continue
        table = _grid(world, members[0], "method")
        also = _also(members)
        columns = (*HEADINGS, *also, *MORE[len(also)])
        for name in columns:
            table.add_column(name, justify="right", no_wrap=True)
        for cell in members:
            entries = _entries(cell)
            table.add_row(
                cell.method,
                *(entries[name] for name in columns),
                style="bold" if cell.ours else None,
            )
        console.print()
        console.print(table)
        if members[0].kind == TEACHERS:
            console.print()
            console.print(_voices_table(members, voices))
    if rare:
        console.print()
        console.print(_rare_table(rare))


def _grid(title: str, first: Cell, of: str) -> Table:
    """Return a table without rows; all worlds in it are as long as the first."""
    table = Table(
        title=f"{title}: T = {first.T:,}, means over {_seeds(first)}",
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column(of, no_wrap=True)
    return table


def _rare_table(rare: Mapping[str, Sequence[Cell]]) -> Table:
    """Return a row a world with exceptions: the default, and beside it what no checks would do."""
    table = _grid("Rare exceptions", next(iter(rare.values()))[0], "world")
    names = (
        "answers",
        "checks",
        "E/T, worst",
        "> 1 %",
        "unchecked:\nanswers",
        "E/T, worst",
        "> 1 %",
    )
    for name in names:
        table.add_column(name if "\n" in name else f"\n{name}", justify="right", no_wrap=True)
    for world, members in rare.items():
        by_method = {cell.method: cell for cell in members}
        entries = list[str]()
        for method in (DEFAULT, UNCHECKED):
            cell = by_method[method]
            entries += [
                number(cell.answers, "E"),
                *([number(cell.audits, "E")] if cell.ours else []),
                f"{100 * cell.worst:.2f} %",
                f"{cell.broke}/{cell.seeds}",
            ]
        table.add_row(world.removeprefix("exceptions "), *entries)
    return table


def _voices_table(members: Sequence[Cell], voices: _Voices) -> Table:
    """Return a row a teacher of each method."""
    table = _grid(f"{members[0].world}, by teacher", members[0], "method")
    table.add_column("teacher", no_wrap=True)
    for name in (
        "errs",
        "questions",
        "× alone",
        "checks",
        "learned",
        f"at {AFTER}:\noff by",
        "> .05",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for cell in members:
        for place, voice in enumerate(voices.get((cell.world, cell.method), ())):
            table.add_row(
                "" if place else cell.method,
                voice.teacher,
                f"{100 * voice.error:g} %",
                number(voice.questions, "E"),
                f"{voice.of_alone:.2f}",
                number(voice.checks, "E"),
                _rate(voice),
                "–" if voice.own is None else f"{voice.own.off:.3f}",
                "–" if voice.own is None else f"{voice.own.beyond}/{voice.own.seeds}",
            )
    return table


def _rate(voice: TeacherCell) -> str:
    if voice.rate is None:
        return "–"
    return f"{100 * voice.rate:.1f} %" if voice.told is None else f"told {100 * voice.rate:g} %"


def _seeds(cell: Cell) -> str:
    return f"{cell.seeds} seed{'s' if cell.seeds > 1 else ''}"


def _also(members: Sequence[Cell]) -> list[str]:
    """Return the columns that only some worlds have."""
    also = ["E after"] if any(cell.after is not None for cell in members) else []
    return [*also, *(["frozen"] if any(cell.method == PROMISE for cell in members) else [])]


def _entries(cell: Cell) -> dict[str, str]:
    """Return every entry that a row may have, by its column."""
    told = cell.method == TOLD
    return {
        "answers": "told" if told else f"{number(cell.answers, 'E')}{_range(cell)}",
        "checks": number(cell.audits, "E"),
        "E": number(cell.E, "E"),
        "E/T, worst": f"{100 * cell.worst:.2f} %",
        "E after": "–" if cell.after is None else number(cell.after, "E"),
        "frozen": f"{100 * cell.frozen:.1f} %" if cell.method == PROMISE else "–",
        "R": f"{cell.R:.3f}",
        "Rc − told": "–" if told else f"{cell.excess:+.3f}",
        "abst.": number(cell.abstentions, "E"),
    }


def _by_world(runs: pl.DataFrame) -> dict[str, list[Cell]]:
    found: dict[str, list[Cell]] = {}
    for cell in cells(runs):
        found.setdefault(cell.world, []).append(cell)
    return found


# -- the page ------------------------------------------------------------------------------------


def about_newcomers(newcomers: pl.DataFrame | None) -> list[str]:
    """Return a sentence for each world in which arms came late."""
    if newcomers is None or newcomers.is_empty():
        return []
    out = []
    for (world,), mine in newcomers.group_by("world", maintain_order=True):
        pairs, sure, right, safe, safe_right = (
            int(mine[name].sum()) for name in ("pairs", "sure", "right", "safe", "safe_right")
        )
        out.append(
            f"{world}: of arms that came late the limits were sure at once of {sure / pairs:.1%} "
            f"of {pairs:,} pairs, and right in {right / max(sure, 1):.2%} of those; of what they "
            f"called surely allowed, {safe_right / max(safe, 1):.2%} is."
        )
    return out


def write_real_report(
    out: Path,
    *,
    manifest: Mapping[str, Any],
    runs: pl.DataFrame,
    calibration: pl.DataFrame,
    figures: Mapping[str, Path],
    teachers: pl.DataFrame | None = None,
    newcomers: pl.DataFrame | None = None,
) -> Path:
    """Write `report.html` into the folder `out` and return its path.

    Parameters
    ----------
    out : Path
        A folder that is there.
    manifest : mapping
        How the study was made, as in `manifest.json`. What is absent is left out.
    runs, calibration : DataFrame
        What `real.csv` and `calibration.csv` hold.
    figures : mapping from file name to path
        As `draw_real` returns it. The SVG files are taken into the page.
    teachers : DataFrame, optional
        What `teachers.csv` holds.
    newcomers : DataFrame, optional
        What `newcomers.csv` holds.
    """
    view = _view(manifest, runs, calibration, figures, teachers)
    view["lead"] = [*view["lead"], *about_newcomers(newcomers)]
    return write_page(out, "real.html.j2", view)


def _view(
    manifest: Mapping[str, Any],
    runs: pl.DataFrame,
    calibration: pl.DataFrame,
    figures: Mapping[str, Path],
    teachers: pl.DataFrame | None,
) -> dict[str, Any]:
    """Return everything that the page shows, as texts."""
    origins = mapping(manifest.get("origins"))
    return {
        "title": "Limits that people really set",
        "facts": _facts(manifest, runs),
        "lead": lead(runs, calibration, teachers),
        "skipped": listed(manifest.get("skipped")),
        "drawings": drawings(figures),
        "words": MEANINGS,
        "tables": [_table(members) for members in _by_world(runs).values()],
        "voices": _voices_view(runs, _voices(teachers)),
        "doubts": [_doubt(world, said) for world, said in calibrations(calibration).items()],
        "origins": _origins(origins),
        **run_view(manifest),
    }


def _facts(manifest: Mapping[str, Any], runs: pl.DataFrame) -> list[str]:
    worlds = runs["world"].n_unique()
    many = f"{worlds} world{'s' if worlds > 1 else ''}"
    return [many, f"{len(runs):,} runs", *facts(manifest)]


def _table(members: Sequence[Cell]) -> dict[str, Any]:
    first, also = members[0], _also(members)
    return {
        "also": also,
        "caption": f"{first.world}: T = {first.T:,}, {_seeds(first)}",
        "rows": [
            {
                "method": cell.method,
                "words": _words(cell),
                "ours": cell.ours,
                "entries": _pairs(cell, also),
            }
            for cell in members
        ],
    }


def _words(cell: Cell) -> str:
    if cell.kind == TEACHERS and cell.method == DEFAULT:
        return ALONE
    return "told the limits" if cell.method == TOLD else words_of(cell.method)


def _pairs(cell: Cell, also: Sequence[str]) -> list[tuple[str, str, bool | None]]:
    """Return the entries of a row: a value, what stands below it, and whether it is good."""
    told = cell.method == TOLD
    ends = "" if told or cell.fewest == cell.most else f"{cell.fewest:,}–{cell.most:,}"
    good = None if told else cell.worst <= DOUBT
    anew = f"anew {number(cell.anew, 'E')} ×" if cell.anew else ""
    after = "–" if cell.after is None else number(cell.after, "E")
    extra = {
        "E after": (after, f"worst {cell.after_most:,}" if cell.after_most else "", None),
        "frozen": (f"{100 * cell.frozen:.1f} %" if cell.method == PROMISE else "–", anew, None),
    }
    return [
        ("told" if told else number(cell.answers, "E"), ends, None),
        (number(cell.audits, "E"), f"found {number(cell.found, 'E')}" if cell.audits else "", None),
        (number(cell.E, "E"), f"{100 * cell.share:.2f} %", None),
        (f"{100 * cell.worst:.2f} %", "", good),
        *(extra[name] for name in also),
        (f"{cell.R:.3f}", "", None),
        (f"{cell.Rc:.3f}", "", None),
        ("–" if told else f"{cell.excess:+.3f}", "", None),
        (number(cell.abstentions, "E"), "", None),
    ]


def _voices_view(runs: pl.DataFrame, voices: _Voices) -> list[dict[str, Any]]:
    """Return a table a world: a row a teacher of each method."""
    tables = []
    for world, members in _by_world(runs).items():
        rows = [
            {
                "method": cell.method,
                "ours": False,
                "words": f"{voice.teacher}: errs in {100 * voice.error:g} %, {voice.price:g} each",
                "entries": _voice_entries(cell, voice, voices[world, cell.method]),
            }
            for cell in members
            for voice in voices.get((world, cell.method), ())
        ]
        if rows:
            tables.append({"caption": f"{world}: {_seeds(members[0])}", "rows": rows})
    return tables


def _voice_entries(
    cell: Cell, voice: TeacherCell, beside: Sequence[TeacherCell]
) -> list[tuple[str, str, bool | None]]:
    good = voice.told is None and voice.error == 0.0
    bars = holds(cell, beside)
    answers = voice.questions + voice.checks
    share = f"{100 * voice.wrong / answers:.1f} %" if answers else ""
    given = "–" if voice.own is None else f"±{voice.own.from_given:.3f}"
    return [
        (f"{100 * cell.worst:.2f} %", "", bars["share"]),
        (number(voice.questions, "E"), "", None),
        (
            f"{voice.of_alone:.2f}",
            f"most {voice.of_alone_most:.2f}",
            bars["of_alone"] if good else None,
        ),
        (number(voice.checks, "E"), "", None),
        (number(voice.wrong, "E"), share, None),
        (_rate(voice), "", None),
        *(_after_entries(one) for one in (voice.own, voice.all)),
        (given, "", None),
    ]


def _after_entries(after: After | None) -> tuple[str, str, bool | None]:
    if after is None:
        return "–", "", None
    words = f"±{after.off:.3f}, {after.beyond} of {after.seeds}"
    return f"{100 * after.rate:.1f} %", words, after.beyond == 0


def _doubt(world: str, by_answers: Mapping[str, Sequence[Said]]) -> dict[str, Any]:
    rows = []
    for answers, said in by_answers.items():
        after = "own questions" if answers == OWN else f"{int(answers):,} random"
        entries = [
            ("–", "", None)
            if one.true_share is None
            else (
                f"{100 * one.true_share:.2f} %",
                f"of {one.pairs:,}",
                one.true_share >= one.least,
            )
            for one in said
        ]
        rows.append({"after": after, "entries": entries})
    thresholds = [f"≥ {one.least:g}" for one in next(iter(by_answers.values()))]
    return {"world": world, "columns": thresholds, "rows": rows}


def _origins(origins: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return where data came from; worlds that share theirs stand together.

    Worlds of one table may differ by a sentence: then each has its own.
    """
    found: dict[str, dict[str, Any]] = {}
    for world, given in origins.items():
        origin = mapping(given)
        limits, about = (str(origin.get(key) or "") for key in ("limits", "about"))
        same = {
            key: value for key, value in origin.items() if key not in ("limits", "about", "title")
        }
        entry = found.setdefault(
            json.dumps(same, sort_keys=True, default=str),
            {
                "worlds": [],
                "synthetic": bool(origin.get("synthetic")),
                "abouts": {},
                "licence": str(origin.get("licence") or ""),
                "link": link(origin.get("url")),
                "notes": listed(origin.get("notes")),
                "files": mapping(origin.get("files")),
            },
        )
        entry["worlds"].append((world, limits))
        entry["abouts"].setdefault(about, []).append(world)
    return [*found.values()]

"""The paper's tables with our numbers: as csv, for people, and in the terminal.

`table1.csv` (Thompson teaching) and `table2.csv` (random teaching) are laid out as the paper's,
with its number beside each of ours, to six places. `tables.csv` is the long form of `summarise`, in
full; `tables.md` is for people.

Agreement is counted by *different cells*: the masks and sigma = 1, which do not depend on teaching
and N, count once.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bridle.errors import NotPossible
from bridle_studies.paper.claim import errors, named
from bridle_studies.paper.published import MASKS, MOVIES, WARFARIN, Figures, agrees, prototype
from bridle_studies.paper.summary import Cell, Runs, beside_the_paper, nearest_examples, summarise

__all__ = ["TABLES", "paper_table", "print_tables", "write_tables"]

# File → teaching, what the paper calls the table, and what we do.
TABLES = {
    "table1.csv": ("thompson", "Table 1", "Thompson teaching"),
    "table2.csv": ("random", "Table 2", "Random teaching"),
}
PLACES = 6  # of the numbers in these two
IN_TERMINAL = 50_000  # the N that the terminal shows, or the nearest
AGREEMENT = {"R": "R within 0.02", "E": "E within a factor of 2 or 20 plays"}
LEGEND = (
    "R: average regret against the best arm of all. Rc: against the best allowed arm, a denied "
    "play earning 0; R alone rewards violating, so read both. E: denied arms played, of {steps:,}. "
    "Means over {folds}."
)
OTHERS_NOTE = (
    "of others, by the name and version registered. What keeps to limits plays what is safe by "
    "what was taught."
)
MASK_NOTE = (
    "mask: plays the best allowed arm. mask-filter: plays a random allowed arm in place of a "
    "denied pick. The masks and sigma=1 do not depend on teaching or N: they ran once a fold and "
    "are repeated."
)
ONE_MASK = (
    "The paper has one mask and does not say how it chooses; its number stands beside both of ours."
)


HEADS = ("", "R", "95 %", "paper", "Rc", "E", "95 %", "paper", "like")
# What is left out first where a terminal is narrow: the intervals, Rc, the marks, the paper's.
DROPPED = (("the intervals", (2, 6)), ("Rc", (4,)), ("like", (8,)), ("the paper's", (3, 7)))


@dataclass(frozen=True)
class Line:
    """A row of a table for people."""

    agent: str
    R: str
    R_span: str
    paper_R: str
    Rc: str
    E: str
    E_span: str
    paper_E: str
    like_paper: bool | None
    like_prototype: bool | None
    prototype: Figures | None
    covered: bool  # whether our 95 % intervals have the prototype's figures in them
    once: bool  # whether it stands in other cells too


def paper_table(summary: pl.DataFrame, teaching: str) -> pl.DataFrame:
    """Lay out one teaching as the paper does: a row an N; R of the masks, R and E of each sigma.

    Beside each column for which the paper printed numbers stands one with them: "sigma=0.25 R" and
    "sigma=0.25 R (paper)".

    Parameters
    ----------
    summary : DataFrame
        As `summarise` gives it.
    teaching : str
        "random" or "thompson"; another gives a table without rows.
    """
    agents = list(dict.fromkeys(summary["agent"].to_list()))
    columns: dict[str, type[pl.DataType]] = {"N": pl.Int64}
    for agent in agents:
        of_agent = summary.filter(pl.col("agent") == agent)
        for measure in ("R",) if agent in MASKS else ("R", "E"):
            columns[f"{agent} {measure}"] = pl.Float64
            if of_agent[f"paper_{measure}"].is_not_null().any():
                columns[f"{agent} {measure} (paper)"] = pl.Float64
    rows: dict[int, dict[str, float | None]] = {}
    for row in summary.filter(pl.col("teaching") == teaching).iter_rows(named=True):
        line = rows.setdefault(row["examples"], dict.fromkeys(columns))
        line["N"] = row["examples"]
        for measure in ("R", "E"):
            for source, suffix in ((measure, ""), (f"paper_{measure}", " (paper)")):
                name, value = f"{row['agent']} {measure}{suffix}", row[source]
                if name in columns and value is not None:
                    line[name] = round(value, PLACES)
    return pl.DataFrame([rows[N] for N in sorted(rows)], schema=columns)


def write_tables(out: Path, results: pl.DataFrame, *, data: str = "") -> list[Path]:
    """Write `table1.csv`, `table2.csv`, `tables.csv` and `tables.md` into the folder `out`.

    Parameters
    ----------
    out : Path
        A folder that is there.
    results : DataFrame
        A row a run.
    data : str
        What the data are called ("MovieLens 1M"), for the heading; the prototype's figures are
        compared on the data that it ran on.

    Returns
    -------
    list of Path
        What was written. A table whose teaching did not run has a heading and no rows.
    """
    summary = summarise(results)
    texts = {name: paper_table(summary, how).write_csv() for name, (how, *_) in TABLES.items()}
    texts["tables.csv"] = summary.write_csv()
    texts["tables.md"] = _markdown(Runs(results), summary, data)
    paths = []
    for name, text in texts.items():
        path = Path(out) / name
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise NotPossible(f"{path} cannot be written: {error.strerror}.") from error
        paths.append(path)
    return paths


def print_tables(
    console: Console, results: pl.DataFrame, *, data: str = "", full: bool = False
) -> None:
    """Print the same tables in the terminal, each row on a line.

    Where it is narrower than 80 columns, columns are left out, and that is said: no number is cut.

    Parameters
    ----------
    console : rich Console
    results, data
        As in `write_tables`.
    full : bool, default False
        Print every N, not only 50,000 (or the nearest to it).
    """
    runs, summary = Runs(results), summarise(results)
    shown, listed = summary, runs.examples
    if not full and len(listed) > 1:
        only = nearest_examples(summary, IN_TERMINAL)
        shown = summary.filter(pl.col("examples") == only)
    console.print(Text(_heading(runs, data), style="bold"))
    left_out: dict[str, None] = {}
    for teaching, title in _teachings(runs):
        groups = [*_groups(runs, shown, teaching, data)]
        if not groups:
            continue
        console.print()
        left_out |= dict.fromkeys(_print_table(console, title, groups))
    if left_out:
        words = [*left_out]
        listing = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
        _say(console, f"Too narrow for {listing}: see tables.md.")
    if shown is not summary:
        others = [f"{N:,}" for N in listed if N not in shown["examples"].unique().to_list()]
        is_ = "is" if len(others) == 1 else "are"
        _say(console, f"The other N ({', '.join(others)}) {is_} in tables.md.")
    for note in _notes(runs, summary, data):
        _say(console, note)
    lines = [line for _, line in _rows(runs, shown, data)]
    letters = []
    if any(line.like_paper is not None for line in lines):
        letters.append("p agrees with the paper")
    if any(line.like_prototype is not None for line in lines):
        with_ = "t" if letters else "t agrees"
        letters.append(f"{with_} with {_prototype(runs)}")
    if letters and "like" not in left_out:
        _say(console, f"like: {'; '.join(letters)}; - does not.")


def _print_table(
    console: Console, title: str, groups: Sequence[tuple[int | None, list[Line]]]
) -> list[str]:
    """Print one table with as many columns as there is room for; give what was left out."""
    filled = [_columns(line) for _, lines in groups for line in lines]
    used = [i for i in range(len(HEADS)) if any(cells[i] for cells in filled)]
    left_out: list[str] = []
    wide = console.options.update(width=1_000)
    table = _table(title, groups, used)
    for what, columns in DROPPED:
        if Measurement.get(console, wide, table).maximum <= console.width:
            break
        if any(i in used for i in columns):
            used = [i for i in used if i not in columns]
            left_out.append(what)
            table = _table(title, groups, used)
    table.width = Measurement.get(console, wide, table).maximum  # a number is never cut
    console.print(table, crop=False)
    return left_out


def _table(
    title: str, groups: Sequence[tuple[int | None, list[Line]]], used: Sequence[int]
) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 0),
        title_style="bold",
        pad_edge=False,
        collapse_padding=True,
    )
    for i in used:
        table.add_column(HEADS[i], justify="right" if i else "left", no_wrap=True)
    for N, lines in groups:
        if N is not None:
            table.add_row(Text(f"N = {N:,}", style="bold"))
        for line in lines:
            cells = _columns(line)
            table.add_row(*(cells[i] for i in used), end_section=line is lines[-1])
    return table


def _say(console: Console, text: str) -> None:
    """Print a note; its further lines are indented, so that each note is seen to begin."""
    width = max(console.width, 40)
    console.print(Text(textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False)))


def _markdown(runs: Runs, summary: pl.DataFrame, data: str) -> str:
    parts = [f"# {_heading(runs, data)}", *_notes(runs, summary, data)]
    head = [
        "N",
        "agent",
        "R",
        "95 %",
        "paper's R",
        "Rc",
        "E",
        "95 %",
        "paper's E",
        "like the paper",
        "like the prototype",
    ]
    for teaching, title in _teachings(runs):
        rows = [head, ["---:", "---", *["---:"] * 7, ":---:", ":---:"]]
        for N, lines in _groups(runs, summary, teaching, data):
            for line in lines:
                like = (_yes(line.like_paper), _yes(line.like_prototype))
                rows.append(
                    [
                        "" if N is None else f"{N:,}",
                        line.agent,
                        line.R,
                        line.R_span,
                        line.paper_R,
                        line.Rc,
                        line.E,
                        line.E_span,
                        line.paper_E,
                        *like,
                    ]
                )
        parts += [f"## {title}", "\n".join(f"| {' | '.join(row)} |" for row in rows)]
    if any(line.like_prototype is not None for _, line in _rows(runs, summary, data)):
        parts.append(f"“The prototype” is {_prototype(runs)}.")
    unlike = _disagreements(runs, summary, data)
    if unlike:
        parts += ["Unlike the prototype:", "\n".join(unlike)]
    return "\n\n".join(parts) + "\n"


def _heading(runs: Runs, data: str) -> str:
    """Name the world; synthetic ones have that in their name."""
    known = data.lower() in ("", runs.world.lower())
    title = runs.world if known else f"{runs.world} ({data})"
    return f"{title[:1].upper()}{title[1:]}: {runs.steps:,} steps, {_folds(runs)}"


def _folds(runs: Runs) -> str:
    return f"{len(runs.folds)} folds" if len(runs.folds) > 1 else "1 fold"


def _teachings(runs: Runs) -> list[tuple[str | None, str]]:
    """List the tables of this study, the paper's two first and as it numbers them."""
    ours = runs.world not in MOVIES  # the paper has tables of the movies only
    titles = {how: said if ours else f"{table}: {said}" for how, table, said in TABLES.values()}
    known = [(t, title) for t, title in titles.items() if t in runs.teachings]
    others = [(t, f"{t} teaching") for t in runs.teachings if t not in titles]
    return [*known, *others] or [(None, "Without teaching")]


def _prototype(runs: Runs) -> str:
    """Return what the prototype is, wherever a reader meets it."""
    data = "the IWPC data" if runs.world in WARFARIN else "MovieLens 1M"
    return f"an earlier prototype of ours, on {data}"


def _groups(
    runs: Runs, summary: pl.DataFrame, teaching: str | None, data: str
) -> Iterator[tuple[int | None, list[Line]]]:
    """Return the lines of each N of a teaching."""
    chosen = summary.filter(pl.col("teaching").eq_missing(pl.lit(teaching, pl.String)))
    for N in dict.fromkeys(chosen["examples"].to_list()):
        rows = chosen.filter(pl.col("examples").eq_missing(pl.lit(N, pl.Int64)))
        yield N, [_line(runs, row, data) for row in rows.iter_rows(named=True)]


def _line(runs: Runs, row: dict[str, object], data: str) -> Line:
    def number(name: str) -> float | None:
        value = row[name]
        return float(value) if isinstance(value, int | float) else None

    def text(name: str, form: Callable[[float], str]) -> str:
        value = number(name)
        return "" if value is None else form(value)

    def span(measure: str, form: Callable[[float], str]) -> str:
        low, high = number(f"{measure}_low"), number(f"{measure}_high")
        return "" if low is None or high is None else f"{form(low)} – {form(high)}"

    R, E = number("R"), number("E")
    printed = Figures(number("paper_R"), number("paper_E"))
    teaching, N, agent = row["teaching"], row["examples"], str(row["agent"])
    before = prototype(
        runs.world,
        data,
        runs.steps,
        teaching if isinstance(teaching, str) else None,
        N if isinstance(N, int) else None,
        agent,
    )

    def like(figures: Figures | None) -> bool | None:
        if figures is None or figures == (None, None) or R is None or E is None:
            return None
        return agrees(R, E, figures)

    def within(measure: str, theirs: float | None) -> bool:
        low, high = number(f"{measure}_low"), number(f"{measure}_high")
        if theirs is None:
            return True
        return low is not None and high is not None and low <= theirs <= high

    return Line(
        agent=agent,
        R=text("R", _regret),
        R_span=span("R", _regret),
        paper_R=text("paper_R", _regret),
        Rc=text("Rc", _regret),
        E=text("E", errors),
        E_span=span("E", errors),
        paper_E=text("paper_E", errors),
        like_paper=like(printed),
        like_prototype=like(before),
        prototype=before,
        covered=before is not None and within("R", before.R) and within("E", before.E),
        once=bool(runs.values(Cell(None, None, agent), "R")),
    )


def _columns(line: Line) -> tuple[str, ...]:
    return (
        line.agent,
        line.R,
        line.R_span,
        line.paper_R,
        line.Rc,
        line.E,
        line.E_span,
        line.paper_E,
        _letters(line),
    )


def _regret(value: float) -> str:
    return f"{value:.3f}"


def _yes(like: bool | None) -> str:
    return "" if like is None else "yes" if like else "no"


def _letters(line: Line) -> str:
    pairs = ((line.like_paper, "p"), (line.like_prototype, "t"))
    return "".join(letter if like else "-" for like, letter in pairs if like is not None)


def _rows(runs: Runs, summary: pl.DataFrame, data: str) -> list[tuple[str, Line]]:
    """Return every line with the name of its row."""
    return [
        (named(teaching, N).capitalize(), line)
        for teaching, _ in _teachings(runs)
        for N, lines in _groups(runs, summary, teaching, data)
        for line in lines
    ]


def _notes(runs: Runs, summary: pl.DataFrame, data: str) -> list[str]:
    """Return how to read the tables, and how many cells agree with whom."""
    notes = [LEGEND.format(steps=runs.steps, folds=_folds(runs))]
    if len(runs.folds) > 1:
        notes[0] += " 95 %: Student's t over folds."
    else:
        notes[0] += " A single fold has no interval."
    rows = _rows(runs, summary, data)
    if any(mask in runs.agents for mask in MASKS):
        notes.append(MASK_NOTE)
    if any(line.paper_R for _, line in rows if line.agent in MASKS):
        notes[-1] += f" {ONE_MASK}"
    others = [agent for agent in runs.agents if "@" in agent]
    if others:
        notes.append(f"{', '.join(others)}: {OTHERS_NOTE}")
    if runs.world.startswith("synthetic") and any(line.paper_E for _, line in rows):
        notes.append(
            f"Ours are {runs.world}, made up by bridle; the paper's numbers beside them are of "
            "real data."
        )
    notes += _with_the_paper(summary)
    tried = _once([row for row in rows if row[1].like_prototype is not None])
    if tried:
        agree = sum(bool(line.like_prototype) for _, line in tried)
        ages = ", which drew ages by other shares than the study" if runs.world in MOVIES else ""
        notes.append(
            f"{agree} of {len(tried)} different cells agree with {_prototype(runs)}{ages} "
            f"({', '.join(AGREEMENT.values())})."
        )
    return notes


def _with_the_paper(summary: pl.DataFrame) -> list[str]:
    """Return how many different cells agree with the paper, by the measures that it gives."""
    cells = beside_the_paper(summary)
    if not cells:
        return []
    given = [x for x in ("R", "E") if any(getattr(cell.paper, x) is not None for cell in cells)]
    how = ", ".join(AGREEMENT[x] for x in given)
    if len(given) == 1:
        how += f"; the paper gives no {'R' if given == ['E'] else 'E'}"
    agree = sum(cell.agrees for cell in cells)
    if len(cells) == 1:
        verb = "agrees" if agree else "does not agree"
        return [f"The one cell that the paper gives a number for {verb} with it ({how})."]
    return [
        f"{agree} of {len(cells)} different cells agree with the paper ({how}). The masks and "
        "sigma=1 count once, beside the mean of the paper's rows."
    ]


def _disagreements(runs: Runs, summary: pl.DataFrame, data: str) -> list[str]:
    """List the cells that are unlike the prototype's."""
    rows = [row for row in _rows(runs, summary, data) if row[1].like_prototype is False]
    listed = []
    for where, line in _once(rows):
        theirs = line.prototype or Figures(None, None)
        R = "" if theirs.R is None else _regret(theirs.R)
        E = "" if theirs.E is None else errors(theirs.E)
        place = "" if line.once else f"{where}, "
        noise = " Both lie within our 95 % intervals." if line.covered else ""
        listed.append(
            f"- {place}{line.agent}: ours R {line.R}, E {line.E}; its R {R}, E {E}.{noise}"
        )
    return listed


def _once(rows: list[tuple[str, Line]]) -> list[tuple[str, Line]]:
    """Keep one of those that stand in every row."""
    return [
        *{
            (line.agent if line.once else (where, line.agent)): (where, line)
            for where, line in rows
        }.values()
    ]

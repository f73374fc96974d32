"""What the study of promises says: sentences, a table in the terminal, and one page to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bridle_studies.guarantees.acting import cell as _cell
from bridle_studies.guarantees.acting import (
    on_promise,
    on_varying,
    players,
    promise_table,
    varying_table,
)
from bridle_studies.guarantees.scope import (
    AFTER,
    AUDIT_DELTA,
    BEFORE,
    CASES,
    DELTA,
    PAYS,
    PLAIN,
    Found,
)
from bridle_studies.guarantees.summary import alarms, certified, mean, most, piloted, summary
from bridle_studies.scaffold.report import (
    drawings,
    facts,
    mapping,
    origin_view,
    run_view,
    write_page,
)

__all__ = ["lead", "print_promises", "write_promises_report"]

# What 95 % intervals must hold, at least.
LEAST = 0.93
WORDS = {
    "α, δ": "A certificate promises that at most a share α of the contexts has a denied arm in its "
    "certified set. With probability δ, at most, it may be wrong.",
    "Broken": "The exact share, counted over the whole pool of contexts, is above α.",
    "The pool": "All contexts that nobody was taught on. Calibration contexts and steps are drawn "
    "from it, independently.",
    "Keeps": "Share of the pool whose certified set has an arm at all. In the rest the agent "
    "abstains.",
    "Rc": "Average regret against the best allowed arm; a denied play earns nothing. Beside it "
    "stands an agent that is told the limits.",
    "Violating pays": "Denied arms earn .4 more than they would, up to 1: an agent that learns "
    "finds them, if it may.",
    "q": "The probability that a play is audited. Its answer comes up to 200 steps late.",
    "Wrong": "A bound was on the wrong side of the truth at any step.",
    "Purse": "What stands behind a promise that acts. It holds b at first and earns α a step. An "
    "audit takes a stake, at most 1/q, and gives it back once the play is found to be allowed. "
    "Promised are at most αT + b + 1/q denied plays in T steps, on average.",
    "Frozen": "The purse is empty: only what the teacher allows at that very step is played, or "
    "nothing. Each such step costs a question, or a play.",
    "Lag": "How many steps late audits are answered. Stakes are locked until then, so the purse "
    "must hold more (b), and the promise is weaker by as much.",
    "Player": players(),
    "Without it": "Denied plays of the same player where nobody freezes it, as with a meter that "
    "only counts.",
    "Coins that vary": "Each play has its own probability to be judged. Rules: q and 1 in turn "
    "(alternating), rising, falling, and 1 for a while after a violation was found. “Where the "
    "coin is low”: an agent that knows these odds, and violates only where few plays are judged.",
    "Refused": "The log has too little to say about the target, and the answer is a sentence in "
    "the place of a number.",
}


def lead(found: Sequence[Found]) -> list[str]:
    """Return what came out, in sentences computed from the results alone."""
    return [
        _on_certificates(found),
        _on_runs(found),
        _on_shortcuts(found),
        _on_audits(found),
        on_varying(found),
        _on_alarms(found),
        on_promise(found),
        _on_evaluations(found),
    ]


def _on_certificates(found: Sequence[Found]) -> str:
    cells = certified(found)
    worst = max(cells, key=lambda cell: cell.broken)
    tries = len(worst.shares)
    bound = most(tries, DELTA)
    verdict = "Certificates held" if worst.broken <= bound else "Certificates did NOT hold"
    return (
        f"{verdict}: of {tries} recalibrations for each kind of limits and α, {worst.broken} were "
        f"broken in the worst case ({worst.limits}, α = {100 * worst.alpha:g} %), where δ = "
        f"{100 * DELTA:g} % grants {DELTA * tries:g} on average. More than {bound} would refute it."
    )


def _on_runs(found: Sequence[Found]) -> str:
    cells = certified(found)
    pays = [rate for cell in cells for rate in cell.rates[PAYS]]
    free = mean(cell.free[PAYS] for cell in cells)
    beyond = sum(cell.beyond for cell in cells)
    runs = sum(len(rates) for cell in cells for rates in cell.rates.values())
    means = "; ".join(
        f"{100 * mean(r for c in cells if c.alpha == alpha for r in c.rates[rewards]):.2f} % "
        f"(α = {100 * alpha:g} %, rewards {rewards})"
        for alpha in dict.fromkeys(cell.alpha for cell in cells)
        for rewards in (PLAIN, PAYS)
    )
    return (
        f"Agents that learn inside the certified sets violated, on average, in {means} of their "
        f"steps; at most in {100 * max(pays, default=0.0):.1f} %. Without limits it would be "
        f"{100 * free:.0f} % where violating pays. {beyond} of {runs} runs had more violations "
        "than their certificate's bound for so many steps."
    )


def _on_shortcuts(found: Sequence[Found]) -> str:
    arm = max(certified(found), key=lambda cell: cell.one_arm_broken)
    pilot = max(piloted(found), key=lambda one: one.broken)
    refuted = [
        name
        for name, broken, tries in (
            ("certifying one random arm of each set", arm.one_arm_broken, len(arm.one_arm)),
            ("choosing σ on a pilot", pilot.broken, pilot.runs),
        )
        if broken > most(tries, DELTA)
    ]
    verdict = f"Not sound: {' and '.join(refuted)}. " if refuted else ""
    return (
        f"{verdict}Of {len(arm.one_arm)} promises by one random arm {arm.one_arm_broken} were "
        f"broken in the worst case ({arm.limits}, α = {100 * arm.alpha:g} %); of {pilot.runs} by a "
        f"pilot {pilot.broken} (rewards {pilot.rewards}, α = {100 * pilot.alpha:g} %)."
    )


def _on_audits(found: Sequence[Found]) -> str:
    cells = summary(found)["audit"]
    worst = max(cells, key=lambda cell: cell["wrong"] / cell["sequences"])
    held = worst["wrong"] <= AUDIT_DELTA * worst["sequences"]
    return (
        f"The audit meter's bounds {'held' if held else 'did NOT hold'}: in the worst of "
        f"{len(cells)} cells {worst['wrong']} of {worst['sequences']:,} meters were ever wrong "
        f"with either bound, where δ = {100 * AUDIT_DELTA:g} % grants "
        f"{AUDIT_DELTA * worst['sequences']:g} to each."
    )


def _on_alarms(found: Sequence[Found]) -> str:
    told = []
    for one in alarms(found):
        delays = one["delays"]
        when = f", half of them within {delays[len(delays) // 2]:,} steps" if delays else ""
        told.append(f"q = {one['q']:g}: {len(delays):,} of {one['runs']:,} meters{when}")
    false = sum(one["false"] for one in alarms(found))
    return (
        f"Where violations go from {100 * BEFORE:g} % to {100 * AFTER:g} % of the plays half-way, "
        f"windows raised the alarm at {'; at '.join(told)}. Before the change there were {false} "
        "false alarms."
    )


def _on_evaluations(found: Sequence[Found]) -> str:
    told = []
    for case in summary(found)["evaluate"]:
        spoken = case["logs"] - case["refused"]
        held = f"{case['covered']} of {spoken} intervals held the truth" if spoken else "no number"
        told.append(
            f"{case['case']} ({CASES[case['case']]}): {held}, {case['refused']} of "
            f"{case['logs']} logs refused"
        )
    return f"What another setting would have earned, 95 % intervals. {'; '.join(told)}."


def print_promises(console: Console, found: Sequence[Found]) -> None:
    """Show the tables in the terminal."""
    for table in _tables(found):
        shown = Table(
            title=table["caption"],
            title_justify="left",
            title_style="bold",
            box=None,
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        for place, name in enumerate(table["columns"]):
            shown.add_column(name, justify="right" if place else "left", no_wrap=place > 0)
        for row in table["rows"]:
            shown.add_row(*(cell["text"] for cell in row))
        console.print()
        console.print(shown)


def write_promises_report(
    out: Path, *, manifest: Mapping[str, Any], found: Sequence[Found], figures: Mapping[str, Path]
) -> Path:
    """Write `report.html` into the folder `out` and return its path.

    Parameters
    ----------
    out : Path
        A folder that is there.
    manifest : mapping
        How the study was made, as in `manifest.json`. What is absent is left out.
    found : results of the jobs
        What was tried.
    figures : mapping from file name to path
        As `draw_promises` returns it. The SVG files are taken into the page.
    """
    return write_page(out, "promises.html.j2", _view(manifest, found, figures))


def _view(
    manifest: Mapping[str, Any], found: Sequence[Found], figures: Mapping[str, Path]
) -> dict[str, Any]:
    """Return everything that the page shows, as texts."""
    origin = mapping(manifest.get("origin"))
    name = str(origin.get("title") or manifest.get("world") or "a world")
    return {
        "title": f"Promises that hold: {name}",
        "synthetic": bool(origin.get("synthetic")),
        "facts": facts(manifest),
        "lead": lead(found),
        "drawings": drawings(figures),
        "words": WORDS,
        "tables": _tables(found),
        **origin_view(origin),
        **run_view(manifest),
    }


# -- tables --------------------------------------------------------------------------------------


def _tables(found: Sequence[Found]) -> list[dict[str, Any]]:
    """Return each table as a caption, the names of its columns, and rows of cells."""
    return [
        _certificates(found),
        _price(found),
        _pilots(found),
        _audits(found),
        varying_table(found),
        promise_table(found),
        _cases(found),
    ]


def _certificates(found: Sequence[Found]) -> dict[str, Any]:
    rows = []
    for c in certified(found):
        tries = len(c.shares)
        rows.append(
            [
                _cell(c.limits),
                _cell(f"{100 * c.alpha:g} %"),
                _cell(f"{c.broken} of {tries}", c.broken <= most(tries, DELTA)),
                _cell(f"{100 * mean(c.shares):.2f} %"),
                _cell(f"{100 * max(c.shares):.2f} %"),
                _cell(f"{100 * mean(c.rates[PLAIN]):.2f} %"),
                _cell(f"{100 * mean(c.rates[PAYS]):.2f} %"),
                _cell(f"{c.one_arm_broken} of {tries}", c.one_arm_broken <= most(tries, DELTA)),
            ]
        )
    return {
        "caption": "Certificates: how often broken, and what agents did inside",
        "columns": [
            "limits",
            "α",
            "broken",
            "share, mean",
            "worst",
            "violates",
            "if it pays",
            "one arm: broken",
        ],
        "rows": rows,
    }


def _price(found: Sequence[Found]) -> dict[str, Any]:
    rows = [
        [
            _cell(c.limits),
            _cell(f"{100 * c.alpha:g} %"),
            _cell(f"{c.taught:,}"),
            _cell(f"{c.answers:,.0f}"),
            _cell(f"{100 * c.keeps:.1f} %"),
            _cell(f"{100 * c.abstains:.1f} %"),
            _cell(f"{c.Rc:.3f}"),
            _cell(f"{c.told:.3f}"),
        ]
        for c in certified(found)
    ]
    return {
        "caption": "What a certificate costs",
        "columns": [
            "limits",
            "α",
            "taught",
            "calibration",
            "keeps",
            "abstains",
            "Rc",
            "Rc, told the limits",
        ],
        "rows": rows,
    }


def _pilots(found: Sequence[Found]) -> dict[str, Any]:
    rows = [
        [
            _cell(p.rewards),
            _cell(f"{100 * p.alpha:g} %"),
            _cell(f"{p.broken} of {p.runs}", p.broken <= most(p.runs, DELTA)),
            _cell(f"{p.none}"),
            _cell(f"{100 * p.rate:.2f} %"),
        ]
        for p in piloted(found)
    ]
    return {
        "caption": "σ chosen on a pilot, which is not sound",
        "columns": ["rewards", "α", "broken later", "none chosen", "violates later"],
        "rows": rows,
    }


def _audits(found: Sequence[Found]) -> dict[str, Any]:
    rows = []
    for one in sorted(
        (f for f in found if f["part"] == "audit"), key=lambda f: (f["rate"], f["q"])
    ):
        n = one["sequences"]
        rows.append(
            [
                _cell(f"{100 * one['rate']:g} %"),
                _cell(f"{one['q']:g}"),
                _cell(f"{one['wrong']} of {n:,}", one["wrong"] <= AUDIT_DELTA * n),
                _cell(f"{one['upper_wrong']}"),
                _cell(f"{one['lower_wrong']}"),
                _cell(f"{one['lower']:,.0f}"),
                _cell(f"{one['violations']:,}"),
                _cell(f"{one['upper']:,.0f}"),
            ]
        )
    return {
        "caption": f"Audits, δ = {AUDIT_DELTA:g} for each bound: ever wrong, and where they end",
        "columns": ["rate", "q", "wrong", "upper", "lower", "at least", "truth", "at most"],
        "rows": rows,
    }


def _cases(found: Sequence[Found]) -> dict[str, Any]:
    rows = []
    for case in summary(found)["evaluate"]:
        told = case["logs"] - case["refused"]
        share = case["covered"] / told if told else None
        rows.append(
            [
                _cell(f"{case['case']}: {CASES[case['case']]}"),
                _cell(f"{case['logs']}"),
                _cell(f"{case['refused']}"),
                _cell(f"{case['covered']} of {told}" if told else "–"),
                _cell(
                    "–" if share is None else f"{100 * share:.1f} %",
                    None if share is None else share >= LEAST,
                ),
            ]
        )
    return {
        "caption": "Evaluation: 95 % intervals",
        "columns": ["case", "logs", "refused", "truth inside", "share"],
        "rows": rows,
    }

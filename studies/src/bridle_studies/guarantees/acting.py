"""What the study says of the promise that acts and of meters whose coin varies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridle_studies.guarantees.scope import AUDIT_DELTA, PLAYERS, Found
from bridle_studies.guarantees.summary import held, most, promised, varied

__all__ = [
    "FROZEN",
    "cell",
    "on_promise",
    "on_varying",
    "players",
    "promise_table",
    "varying_table",
]

# Of the steps, where nothing is violated: what is granted.
FROZEN = 0.05


def on_promise(found: Sequence[Found]) -> str:
    """Return whether the promise held, what it stopped, and what it costs who needs none."""
    tried = promised(found)
    broken = [one for one in tried if not held(one)]
    near = max(tried, key=lambda one: one["row"]["mean_E"] / one["row"]["bound"])
    worst = max(tried, key=lambda one: (one["without"], -one["row"]["lag"]))
    row, at = near["row"], worst["row"]
    verdict = "did NOT hold" if broken else "held"
    clean = max(one["row"]["frozen_share_clean"] for one in tried)
    late = max(one["row"]["lag"] for one in tried)
    audits = max(one["audits"] for one in tried if one["row"]["case"] == "clean")
    return (
        f"The promise that acts {verdict} (α = {100 * at['alpha']:g} %, q = {at['q']:g}, "
        f"{row['runs']:,} runs each): at most {at['bound']:,.0f} denied plays in "
        f"{worst['steps']:,} steps were promised, on average, with answers {_late(at['lag'])}. An "
        f"agent that breaks the limits wherever it can ({at['case']}) would have made "
        f"{worst['without']:,.0f}; the promise stopped it at {at['mean_E']:,.0f}. Nearest to what "
        f"was promised: {row['case']}, answers {_late(row['lag'])}, {row['mean_E']:,.0f} of "
        f"{row['bound']:,.0f}. One that breaks none had about {audits:,.0f} plays judged, and was "
        f"frozen in at most {_share(clean)} of its steps, with answers up to {late:,} steps late."
    )


def on_varying(found: Sequence[Found]) -> str:
    """Return whether the meter's bounds held where the coin varies."""
    cells = varied(found)
    n = cells[0]["sequences"]
    upper = max(one["upper_wrong"] for one in cells)
    lower = max(one["lower_wrong"] for one in cells)
    bound = most(n, AUDIT_DELTA)
    verdict = "held" if max(upper, lower) <= bound else "did NOT hold"
    return (
        f"Where the coin varies, from {cells[0]['q']:g} up to 1 and also by what was found, the "
        f"audit meter's bounds {verdict}: in the worst of {len(cells)} cells the upper one was "
        f"ever wrong in {upper} and the lower one in {lower} of {n:,} sequences, where δ = "
        f"{100 * AUDIT_DELTA:g} % grants {AUDIT_DELTA * n:g} to each. More than {bound} would "
        "refute it."
    )


def cell(text: str, holds: bool | None = None) -> dict[str, Any]:
    """Return a cell of a table: its text, and whether it is within what was promised."""
    return {"text": text, "holds": holds}


def promise_table(found: Sequence[Found]) -> dict[str, Any]:
    """Return the table of the promise: denied plays beside what was promised, and the price."""
    tried = promised(found)
    rows = []
    for one in tried:
        row, clean = one["row"], one["row"]["case"] == "clean"
        rows.append(
            [
                cell(row["case"]),
                cell(f"{row['lag']}"),
                cell(f"{row['b']:,.0f}"),
                cell(f"{one['without']:,.0f}"),
                cell(f"{row['mean_E']:,.0f}", held(one)),
                cell(f"{row['bound']:,.0f}"),
                cell(f"{one['worst_E']:,.0f}"),
                cell(f"{one['audits']:,.0f}"),
                cell(_share(one["frozen_share"]), one["frozen_share"] <= FROZEN if clean else None),
            ]
        )
    first = tried[0]
    row = first["row"]
    return {
        "caption": f"A promise that acts: α = {100 * row['alpha']:g} %, q = {row['q']:g}, "
        f"{first['steps']:,} steps, {row['runs']:,} runs each; denied plays, on average and in the "
        "worst run",
        "columns": [
            "player",
            "lag",
            "b",
            "without it",
            "denied",
            "promised",
            "worst run",
            "audits",
            "frozen",
        ],
        "rows": rows,
    }


def varying_table(found: Sequence[Found]) -> dict[str, Any]:
    """Return the table of meters whose coin varies: the worst cell of each bound."""
    cells = varied(found)
    n = cells[0]["sequences"]
    bound = most(n, AUDIT_DELTA)
    rows = []
    for course in dict.fromkeys(one["course"] for one in cells):
        mine = [one for one in cells if one["course"] == course]
        row = [cell(course)]
        for wrong in ("upper_wrong", "lower_wrong"):
            worst = max(mine, key=lambda one: one[wrong])
            where = f"{worst['coins']}, {worst['delay']} late" if worst[wrong] else "–"
            row += [cell(f"{worst[wrong]}", worst[wrong] <= bound), cell(where)]
        rows.append(row)
    return {
        "caption": f"Audits whose coin varies, from q = {cells[0]['q']:g}, δ = {AUDIT_DELTA:g} for "
        f"each bound: ever wrong in so many of {n:,} sequences, at the worst coins and lag",
        "columns": ["violations", "upper", "its worst", "lower", "its worst"],
        "rows": rows,
    }


def players() -> str:
    """Return in words who plays in the cases of the promise."""
    return "; ".join(f"{name}: {what}" for name, what in PLAYERS.items()) + "."


def _late(lag: int) -> str:
    return f"{lag:,} steps late" if lag else "at once"


def _share(share: float) -> str:
    """Return a share as a percentage that is 0 only for nothing at all."""
    return f"{100 * share:.1f} %" if share == 0.0 or share >= 0.0005 else "< 0.1 %"

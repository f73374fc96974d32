"""How figures look, and how they are written: one style for commands and studies."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure

from bridle.errors import NotPossible

__all__ = ["DIAL", "FAINT", "GREY", "INK", "save_figure", "styled"]

# Okabe and Ito's colours, which people with any colour vision tell apart, from cool (only what was
# taught) to hot (only reward). A sigma in between has a colour in between.
DIAL = ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00")
INK, GREY, FAINT = "#222222", "#6b6b6b", "#8a8a8a"
STYLE = {
    "svg.hashsalt": "bridle",
    "svg.fonttype": "path",
    # A world's name is shown as it is, not read as a formula.
    "text.parse_math": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e8e8e8",
    "grid.linewidth": 0.8,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in our style, whatever the user's matplotlibrc says."""
    with warnings.catch_warnings(), matplotlib.style.context(["default", STYLE]):
        # A world's name may hold letters that the font has not got: they are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def save_figure(
    figure: Figure, out: Path, name: str, title: str, words: str, dpi: int = 200
) -> dict[str, Path]:
    """Write a figure as PNG and SVG, with its title and words in both; return the paths."""
    # No dates and no versions: equal frames give equal files.
    about = {"Title": title, "Description": words}
    kinds: dict[str, dict[str, Any]] = {
        "png": {"dpi": dpi, "metadata": {**about, "Software": None}},
        "svg": {"metadata": {**about, "Date": None, "Creator": None}},
    }
    paths = {}
    for kind, how in kinds.items():
        path = out / f"{name}.{kind}"
        try:
            out.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, **how)
        except OSError as error:
            why = error.strerror or error
            raise NotPossible(f"The figure {str(path)!r} cannot be written: {why}.") from error
        paths[path.name] = path
    return paths

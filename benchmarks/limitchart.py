"""What an answer costs as a picture: a panel for each thing that grows, a line for each kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.limits import Found

# Okabe and Ito's colours, which people with any colour vision tell apart; markers say it again.
LOOKS = {
    "logistic": ("#0072B2", "o"),
    "logistic, crosses": ("#56B4E9", "v"),
    "rules": ("#009E73", "s"),
    "rules, pairs": ("#E69F00", "D"),
    "found": ("#CC79A7", "P"),
    "pooled": ("#000000", "X"),
    "bounds": ("#F0E442", "<"),
    "auto": ("#D55E00", "^"),
}
PANELS = {"features": "features", "units": "units (groups of arms)", "answers": "answers so far"}


def draw(found: Found, path: Path) -> None:
    """Draw the cost of one answer over features, units and answers so far, all logarithmic."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11.5, 4.2), sharey=True, layout="constrained")
    base = {"features": 10, "units": 7, "answers": 100}
    for axis, (what, words) in zip(axes, PANELS.items(), strict=True):
        others = {name: n for name, n in base.items() if name != what}
        for kind, (tint, marker) in LOOKS.items():
            here = sorted(
                (getattr(a.size, what), a.decisions)
                for a in found.answers
                if a.kind == kind
                and a.decisions is not None
                and all(getattr(a.size, name) == n for name, n in others.items())
            )
            axis.plot(
                [x for x, _ in here], [y for _, y in here], color=tint, marker=marker, label=kind
            )
        axis.set_xscale("log")
        axis.set_yscale("log")
        ticks = sorted({getattr(a.size, what) for a in found.answers})
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.set_xticks([], minor=True)
        fixed = ", ".join(f"{n} {name}" for name, n in others.items())
        axis.set_title(f"over {words}\n({fixed})", fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="#e4e7ea", linewidth=0.8)
    axes[0].set_ylabel("compiled decisions (100 × 10)")
    axes[-1].legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(
        f"What one answer costs, in compiled decisions of {found.decision * 1e6:.2f} µs",
        fontsize=12,
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)

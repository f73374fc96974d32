"""Break everything: ``python -m faults [--only kill9,power] [--short] [--seed N] [--out FILE]``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from faults.machine import fsync_ms, machine

# What must be 0 or True, and how much there must be at least, in a full run.
NEEDED: dict[str, tuple[dict[str, int], tuple[str, ...]]] = {
    "kill9": ({"kills": 100, "acknowledged": 100_000}, ("lost", "double", "replay_equal")),
    "power_full": ({"cuts": 2_000}, ("lost", "corrupt")),
    "power_normal": ({"cuts": 2_000, "lost": 1}, ()),
    "disk": ({"faults": 500}, ("false_acks", "false_refusals", "not_503", "not_mended")),
    "postgres": ({"restarts": 20}, ("lost", "double", "replicas_equal")),
    "fuzz": ({"cases": 20_000}, ("status_500", "undocumented", "invalid_accepted")),
}
SHORT = 0.01  # of the least numbers, in a short run


class Part(NamedTuple):
    """One part: what it is called, and how it is run in full and in short."""

    name: str
    run: Callable[..., dict[str, Any]]
    full: dict[str, Any]
    short: dict[str, Any]


def parts() -> list[Part]:
    """Give all parts, in the order in which they run."""
    from faults.disk import disk
    from faults.fuzz import fuzz
    from faults.kill9 import kill9
    from faults.power import power
    from faults.replicas import replicas

    return [
        Part(
            "kill9",
            kill9,
            {"kills": 120, "acknowledged": 110_000, "seconds": 5.0},
            {"kills": 10, "seconds": 1.5},
        ),
        Part("power_full", power, {"cuts": 3_000}, {"cuts": 60}),
        Part(
            "power_normal",
            power,
            {"cuts": 2_000, "synchronous": "NORMAL"},
            {"cuts": 60, "synchronous": "NORMAL"},
        ),
        Part("disk", disk, {"faults": 1_000, "requests": 120}, {"faults": 40, "requests": 12}),
        Part("postgres", replicas, {"restarts": 30}, {"restarts": 2, "seconds": 1.0}),
        Part("fuzz", fuzz, {"cases": 22_000}, {"cases": 300}),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts, print a table, write the file; give 1 if anything went wrong."""
    from tests.store.postgres_server import NoPostgres

    options = _options(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)  # a log file has no width of its own
    result = _earlier(options.out)
    ran, failed = [], []
    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}"),
    )
    for part in parts():
        if options.only and not any(part.name.startswith(name) for name in options.only):
            continue
        began = time.monotonic()
        with Progress(*columns, console=console) as progress:
            task = progress.add_task(part.name, total=None, text="")

            def tick(done: int, total: int, text: str, at: Any = (progress, task)) -> None:
                at[0].update(at[1], completed=done, total=total, text=text)

            sizes = part.short if options.short else part.full
            try:
                found = part.run(**sizes, seed=options.seed, tick=tick)
            except NoPostgres as reason:
                console.print(f"{part.name}: left out, {reason}", style="yellow")
                continue
        found |= {"seed": options.seed, "seconds": round(time.monotonic() - began, 1)}
        result[part.name] = found
        ran.append(part.name)
        failed += [f"{part.name}: {why}" for why in judge(part.name, found, short=options.short)]
    result |= {"seed": options.seed, "fsync_ms": fsync_ms(), "machine": machine()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    _print(console, result, ran)
    for why in failed:
        console.print(why, style="red")
    console.print(f"written: {options.out}")
    return 1 if failed else 0


def judge(name: str, found: dict[str, Any], *, short: bool = False) -> list[str]:
    """Say in words what of a part is not as it must be."""
    least, never = NEEDED[name]
    share = SHORT if short else 1.0
    wrong = [
        f"{key} is {found[key]:,}, and must be at least {number * share:,.0f}"
        for key, number in least.items()
        if found[key] < number * share
    ]
    for key in never:
        good = found[key] is True or (found[key] == 0 and found[key] is not False)
        if not good:
            wrong.append(f"{key} is {found[key]}: {found['examples'][:3]}")
    return wrong


def _earlier(path: Path) -> dict[str, Any]:
    """Give what an earlier run wrote: parts that are not run now are kept."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _print(console: Console, result: dict[str, Any], ran: list[str]) -> None:
    table = Table(
        title=f"fsync {result['fsync_ms']} ms, seed {result['seed']}, {result['machine']}"
    )
    table.add_column("part")
    table.add_column("figures")
    table.add_column("from")
    for name in NEEDED:
        if name in result:
            least, never = NEEDED[name]
            keys = dict.fromkeys([*least, "acknowledged", *never])
            figures = ", ".join(
                f"{key} {found:,}" if isinstance(found, int) else f"{key} {found}"
                for key in keys
                if (found := result[name].get(key)) is not None
            )
            table.add_row(name, figures, "this run" if name in ran else "an earlier run")
    console.print(table)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        metavar="PART,…",
        help=f"of {', '.join(NEEDED)}; a beginning will do",
    )
    parser.add_argument("--short", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/faults.json"))
    options = parser.parse_args(arguments)
    for name in options.only or ():
        if not any(part.startswith(name) for part in NEEDED):
            parser.error(f"no part is called {name!r}")
    return options


if __name__ == "__main__":
    sys.exit(main())

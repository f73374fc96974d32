"""Commands of other packages: entry points in the group `bridle.commands`.

`bridle_studies` adds `study`, `data`, `demo` and what `serve --demo` shows. Where it is missing,
those commands stand here and say how to get it.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import typer

from bridle.errors import NotPossible

__all__ = ["COMMANDS", "DEMONSTRATION", "add_to", "demonstration"]

COMMANDS = "bridle.commands"
DEMONSTRATION = "bridle.demonstration"
# The commands of `bridle_studies`, and what each does: known here so that help can name them.
_STUDIES = {
    "study": "The paper's experiments, and ours beside them.",
    "data": "Data sets: list, fetch, where they are.",
    "demo": "Teach and act in small synthetic worlds.",
}
_MISSING = (
    "The studies are a package of their own, which is not installed: pip install ./studies in "
    "bridle's folder (`make setup` does it)."
)


def add_to(app: typer.Typer) -> None:
    """Add the commands of installed packages, and a remedy for each of ours that is missing."""
    found = {one.name: one for one in entry_points(group=COMMANDS)}
    for name, about in _STUDIES.items():
        if name not in found:
            _add_missing(app, name, f"{about} (not installed)", _MISSING)
    for name, one in found.items():
        try:
            command = one.load()
        except Exception as error:  # somebody else's package; the other commands go on
            _add_missing(app, name, _STUDIES.get(name, name), f"It cannot be loaded: {error!r}")
            continue
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)


def demonstration() -> Any:
    """Return the module that `bridle serve --demo` runs, of the first package that has one."""
    for one in entry_points(group=DEMONSTRATION):
        return one.load()
    raise NotPossible(_MISSING)


def _add_missing(app: typer.Typer, name: str, about: str, why: str) -> None:
    @app.command(
        name,
        help=about,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def missing(_: typer.Context) -> None:
        typer.echo(why, err=True)
        raise typer.Exit(1)

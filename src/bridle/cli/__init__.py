"""The command line: thin, and light to start. Each command is one library call.

Nothing heavy is imported here; a command imports what it needs when it runs. Help and errors are
plain text (`rich_markup_mode=None`), as rich would more than double the time of `bridle --help`.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import bridle
from bridle.cli.evaluate import evaluate
from bridle.cli.plugins import add_to as add_study_commands
from bridle.cli.serve import serve, warm
from bridle.cli.store import add_to as add_store_commands

__all__ = ["app", "main"]

app = typer.Typer(
    name="bridle",
    help="An online decision agent that learns its limits by example.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(evaluate)
app.command()(serve)
app.command()(warm)
add_store_commands(app)
add_study_commands(app)


def _version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Learn limits by example, decide online, stay inside them."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"bridle {bridle.__version__}")


def main() -> None:
    """Run the command line."""
    # A terminal that knows no "±" shows "?" in its place and not a traceback.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(prog_name="bridle")

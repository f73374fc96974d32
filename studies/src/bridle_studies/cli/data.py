"""`bridle data`: public data sets, in the user's cache.

What a person reads goes to the error stream; only a path, or a list, goes to the output.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["data"]

data = typer.Typer(
    name="data",
    help="Public data sets: what there is, where it is, and how to get it.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(help="Which data set; 'bridle data list' has the names.")]
To = Annotated[
    Path | None,
    typer.Option(
        "--to", metavar="DIR", help="The folder; else $BRIDLE_CACHE, else the user's cache."
    ),
]


@data.command()
def fetch(
    name: Name,
    to: To = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Take this file, which you have; no download."),
    ] = None,
    url: Annotated[str | None, typer.Option(metavar="URL", help="Download it from there.")] = None,
    sha256: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="Its checksum, instead of the one that we know."),
    ] = None,
) -> None:
    """Download a data set, check it and print its path.

    Nothing is downloaded if it is there already and right.
    """
    from bridle_studies.environments.fetch import fetch as get

    with _plain_errors(), _bar(name) as progress:
        path = get(name, to=to, file=file, url=url, sha256=sha256, progress=progress, say=_say)
    typer.echo(path)


@data.command("list")
def list_(to: To = None) -> None:
    """Show what there is: licence, checksum, and where it is or how to get it."""
    from bridle_studies.environments.fetch import DATASETS, cached, how_to_get

    with _plain_errors():
        for name, dataset in DATASETS.items():
            path = cached(name, to)
            get = _command(name, to) if dataset.url else how_to_get(name, to)
            typer.echo(
                f"{name}: {dataset.title}\n"
                f"  page      {dataset.page}\n"
                f"  licence   {_wrapped(dataset.licence)}\n"
                f"  checksum  {dataset.trust}\n"
                f"  {f'here      {path}' if path else f'not here  {get}'}\n"
            )


@data.command()
def where(name: Name, to: To = None) -> None:
    """Print where a data set is, for --data "$(bridle data where ml-1m)"."""
    from bridle_studies.environments.fetch import DATASETS, cache_folder, cached, how_to_get

    with _plain_errors():
        path = cached(name, to)
        if path is None:
            get = f"Run '{_command(name, to)}'." if DATASETS[name].url else how_to_get(name, to)
            _say(f"{name} is not in {cache_folder(to)}. {get}")
            raise typer.Exit(1)
    typer.echo(path)


def _wrapped(text: str) -> str:
    indent = " " * 12
    return textwrap.fill(
        text,
        78,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    ).strip()


def _command(name: str, to: Path | None) -> str:
    return f"bridle data fetch {name}" if to is None else f"bridle data fetch {name} --to {to}"


def _say(line: str) -> None:
    typer.echo(line, err=True)


@contextmanager
def _plain_errors() -> Iterator[None]:
    from bridle.errors import BridleError

    try:
        yield
    except BridleError as error:
        _say(f"Error: {error}")
        raise typer.Exit(1) from None


@contextmanager
def _bar(name: str) -> Iterator[_Bar]:
    """Return a bar that is shown from its first byte on."""
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.DownloadColumn(),
        rich.TransferSpeedColumn(),
        rich.TimeRemainingColumn(),
    )
    bar = _Bar(rich.Progress(*columns, console=Console(stderr=True)), name)
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    """A bar of rich in the form that pooch takes."""

    def __init__(self, shown: Any, name: str) -> None:
        self._shown = shown
        self._task = shown.add_task(name, total=None)
        self._total = 0
        self._on = False

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, size: int) -> None:
        self._total = size
        self._shown.update(self._task, total=size or None)  # 0: the server did not say
        self._shown.start()
        self._on = True

    def update(self, n: int) -> None:
        self._shown.update(self._task, advance=n)

    def reset(self) -> None:
        # Only the count: the clock goes on, so that the speed stays right.
        self._shown.update(self._task, completed=0)

    def close(self) -> None:
        if self._on:  # each stop prints a line, also of a bar that never was
            self._on = False
            self._shown.stop()

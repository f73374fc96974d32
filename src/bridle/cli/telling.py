"""Errors and interruptions, told to the person at the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

__all__ = ["told"]

# Whose parameters have an option of the same name.
OWNERS = (
    "Plan", "Movies", "Warfarin", "study", "read_block", "read_items", "read_patients",
    "synthetic_block",
)  # fmt: skip

# Which extra brings a module; studies need most of them.
EXTRAS = {
    "psycopg": "postgres", "uvicorn": "serve", "pydantic": "serve",
    "pydantic_core": "serve", "prometheus_client": "serve", "httpx2": "serve", "uvloop": "serve",
}  # fmt: skip


@contextmanager
def told(interrupted: str = "The same command goes on from here.") -> Iterator[None]:
    """Show an error of ours as a message, and say what an interrupted study does."""
    from bridle.errors import BridleError

    try:
        yield
    except BridleError as error:
        typer.echo(f"Error: {_by_option(error)}", err=True)
        raise typer.Exit(2) from None
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("bridle"):
            raise
        extra = EXTRAS.get(error.name or "", "study")
        remedy = f"pip install '.[{extra}]' in bridle's folder"
        typer.echo(f"Error: This needs {error.name}: {remedy}.", err=True)
        raise typer.Exit(2) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        typer.echo(f"Error: {error}. What was finished is kept.", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo(f"\nInterrupted. {interrupted}", err=True)
        raise typer.Exit(130) from None


def _by_option(error: Exception) -> str:
    """Say it of the option, which is what the user wrote, where the error is about one."""
    from bridle.errors import InvalidValue, shown

    if not isinstance(error, InvalidValue) or error.owner not in OWNERS:
        return str(error)
    name = "--data" if error.name == "path" else f"--{error.name.replace('_', '-')}"
    text = f"{name} must be {error.expected}. Got {shown(error.got)} instead."
    return f"{text} {error.remedy}".strip()

"""What commands share: options, declared once as dataclasses, and how errors are shown.

A command takes each as one argument: `with_options(grid=Grid)` puts the fields of `Grid` into the
signature that typer reads, and hands the command a `Grid`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

__all__ = ["Grid", "Where", "friendly_errors", "numbers", "with_options", "words"]


Option = typer.Option


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What a study runs; None stands for the paper's value, or a small one with --quick."""

    teaching: Annotated[
        str, Option(help="How questions are chosen: random, thompson or both, by commas.")
    ] = "random,thompson"
    examples: Annotated[
        str | None, Option(help="N, answers taught, by commas. [5000,10000,50000,75000,100000]")
    ] = None
    sigmas: Annotated[str, Option(help="Positions of the dial, by commas.")] = "0,0.25,0.5,0.75,1"
    folds: Annotated[int | None, Option(help="Folds; each teaches on contexts of its own. [5]")] = (
        None
    )
    steps: Annotated[
        int | None, Option(help="T, steps of an online phase. [50000; Warfarin: 20000]")
    ] = None
    teaching_contexts: Annotated[
        int | None,
        Option(help="Contexts that a fold teaches on. [an equal share; Warfarin: 200]"),
    ] = None
    redraw_constraints: Annotated[
        bool,
        Option("--redraw-constraints/--same-constraints", help="Draw limits anew for each fold."),
    ] = True
    seed: Annotated[int, Option(min=0, help="Equal seeds give equal results, to the bit.")] = 0
    v: Annotated[float | None, Option(help="Spread of the draws. [0.25]")] = None
    spread: Annotated[
        str | None,
        Option(metavar="R,Z,GAMMA", help="In place of --v: R · sqrt(24/z · d · ln(1/gamma))."),
    ] = None
    v_constraint: Annotated[
        float | None, Option(help="Spread of the draws of the limits part. [v]")
    ] = None
    v_teaching: Annotated[float | None, Option(help="Spread in Thompson teaching. [v]")] = None
    ridge: Annotated[float, Option(help="Prior precision of the reward part.")] = 1.0
    ridge_limits: Annotated[float, Option(help="Prior precision of the limits part.")] = 1.0
    label_coding: Annotated[str, Option(help="Numbers for allowed/denied: 1/0, 1/-1 or 0/-1.")] = (
        "1/0"
    )
    exact_denials: Annotated[
        bool, Option("--exact-denials", help="Never play what was denied to the letter.")
    ] = False
    checkpoints: Annotated[int, Option(help="Points of each curve.")] = 100


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where a study runs and writes."""

    out: Annotated[Path, Option(metavar="DIR", help="Write everything into this folder.")]
    quick: Annotated[
        bool, Option("--quick", help="In seconds, roughly: 2 folds, N = 500 and 2000, T = 2000.")
    ] = False
    engine: Annotated[
        str, Option(help="processes, in-process or ray: equal results, to the bit.")
    ] = "processes"
    workers: Annotated[int | None, Option(help="Jobs at a time. [all cores]")] = None
    address: Annotated[
        str | None, Option(help="Of a Ray cluster, with --engine ray; else one is started.")
    ] = None
    fresh: Annotated[
        bool, Option("--fresh", help="Start anew, whatever study is in the folder.")
    ] = False


def with_options(**groups: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: the command takes groups of options, each as one argument."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = get_type_hints(command, include_extras=True)
        parameters = [
            parameter.replace(annotation=own[name], kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in inspect.signature(command).parameters.items()
            if name not in groups
        ]
        for group in groups.values():
            hints = get_type_hints(group, include_extras=True)
            for field in fields(group):
                default = inspect.Parameter.empty if _needed(field.default) else field.default
                parameters.append(
                    inspect.Parameter(
                        field.name,
                        inspect.Parameter.KEYWORD_ONLY,
                        default=default,
                        annotation=hints[field.name],
                    )
                )

        @wraps(command)
        def wrapper(**values: Any) -> None:
            packed = {
                name: group(**{field.name: values.pop(field.name) for field in fields(group)})
                for name, group in groups.items()
            }
            command(**values, **packed)

        # What typer reads.
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
        del wrapper.__wrapped__  # else it would read that instead
        return wrapper

    return decorate


def words(text: str | None, option: str) -> tuple[str, ...] | None:
    """Cut a list at its commas."""
    if text is None:
        return None
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise typer.BadParameter(f"{text!r} is no list by commas.", param_hint=f"'{option}'")
    return found


def numbers(text: str | None, option: str, kind: type[Any]) -> tuple[Any, ...] | None:
    """Cut a list of numbers at its commas."""
    try:
        return None if text is None else tuple(kind(part) for part in words(text, option) or ())
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise typer.BadParameter(
            f"{text!r} is no list of {what} by commas.", param_hint=f"'{option}'"
        ) from None


def _needed(default: object) -> bool:
    return default.__class__.__name__ == "_MISSING_TYPE"


# --- Errors and interruptions, as messages for the person at the terminal -------------------------


# Whose parameters have an option of the same name.
OWNERS = (
    "Plan",
    "Movies",
    "Warfarin",
    "study",
    "read_block",
    "read_items",
    "read_patients",
    "synthetic_block",
)

# Which extra brings a module; studies need most of them.
EXTRAS = {
    "psycopg": "postgres",
    "starlette": "serve",
    "uvicorn": "serve",
    "pydantic": "serve",
    "pydantic_core": "serve",
    "prometheus_client": "serve",
    "httpx2": "serve",
    "uvloop": "serve",
}


@contextmanager
def friendly_errors(interrupted: str = "The same command goes on from here.") -> Iterator[None]:
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
    """Return the message, in terms of the option that the user wrote where it is about one."""
    from bridle.errors import InvalidValue, shown

    if not isinstance(error, InvalidValue) or error.owner not in OWNERS:
        return str(error)
    name = "--data" if error.name == "path" else f"--{error.name.replace('_', '-')}"
    text = f"{name} must be {error.expected}. Got {shown(error.got)} instead."
    return f"{text} {error.remedy}".strip()

"""Options by which a study takes policies, limits and reward models of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Option

from bridle.cli.console import words

if TYPE_CHECKING:
    from bridle.registry import Kind
    from bridle_studies.scaffold.extensions import Extension

__all__ = ["Limits", "Others", "Plugins", "named"]

Plugins = Annotated[
    str | None,
    Option(
        "--plugin",
        metavar="FILES",
        help="Files or modules that register these names, by commas: examples/top_few.py.",
    ),
]
Limits = Annotated[
    str | None,
    Option(
        "--limits",
        metavar="NAMES",
        help="Limits of others, registered by these names, by commas: a method each.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Others:
    """What of others takes part in the paper's grid."""

    policy: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help="Policies of others, registered by these names, by commas: a row each.",
        ),
    ] = None
    reward: Annotated[
        str | None,
        Option(metavar="NAME", help="Learn rewards by this registered model, in place of ours."),
    ] = None
    plugin: Plugins = None


def named(kind: Kind, names: str | None, plugin: str | None) -> tuple[Extension, ...]:
    """Return what is registered by the names of an option, after its plug-ins are loaded."""
    from bridle_studies.scaffold.extensions import find_extensions

    option = f"--{kind}"
    return find_extensions(kind, words(names, option) or (), words(plugin, "--plugin") or ())

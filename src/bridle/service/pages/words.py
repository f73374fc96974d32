"""Contexts, arms and numbers in words that a person reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridle.features import Category, Flag, Id, Labels, Number, Schema
from bridle.settings import Arm

__all__ = [
    "arm_words",
    "context_words",
    "item_from",
    "number_words",
    "schema_context_words",
    "short_words",
]

MOST_WORDS = 6  # parts of a context in a question itself


def context_words(context: Mapping[str, object]) -> str:
    """Give a decoded context in a line.

    Examples
    --------
    >>> context_words(
    ...     {"genres": ["Horror", "Thriller"], "age": "12-17", "child": True, "late": False}
    ... )
    'Horror, Thriller · age 12-17 · child · not late'
    """
    parts = [_feature_words(name, value) for name, value in context.items()]
    return " · ".join(parts) or "nothing is known"


def schema_context_words(schema: Schema, context: Mapping[str, object]) -> list[tuple[str, str]]:
    """Give a decoded context as pairs of a feature's name and its value, in words."""
    found = []
    for feature in schema.features:
        if isinstance(feature, Id):
            continue
        value = context[feature.name]
        if isinstance(feature, Flag):
            text = "yes" if value else "no"
        elif isinstance(feature, Category):
            text = "not known" if value is None else str(value)
        elif isinstance(feature, Labels):
            text = _listed(value)
        else:
            assert isinstance(feature, Number)
            text = f"{number_words(value)} {feature.unit or ''}".rstrip()
        found.append((feature.name, text))
    return found


def short_words(schema: Schema, context: dict[str, Any]) -> str:
    """Give what a context holds, without the names that go without saying.

    Examples
    --------
    >>> schema = Schema(
    ...     [Labels("genres", ["Drama", "Horror"]), Flag("late"), Category("age", ["12"])]
    ... )
    >>> short_words(schema, {"genres": ["Drama", "Horror"], "late": False, "age": "12"})
    'Drama, Horror · 12'
    """
    parts = []
    for feature in schema.features:
        value = context.get(feature.name)
        if isinstance(feature, Id):
            continue
        if isinstance(feature, Flag):
            parts += [feature.name] if value else []
        elif isinstance(feature, Category):
            parts += [] if value is None else [str(value)]
        elif isinstance(feature, Labels):
            parts += [", ".join(value)] if value else []
        else:
            parts.append(f"{feature.name} {number_words(value)} {feature.unit or ''}".rstrip())
    more = " …" if len(parts) > MOST_WORDS else ""
    return " · ".join(parts[:MOST_WORDS]) + more or "Nothing special"


def item_from(text: str) -> int | str | None:
    """Read the name of an item: a whole number or a text, as the log has them; None if empty.

    Examples
    --------
    >>> item_from("tt0499549"), item_from("17"), item_from("017"), item_from("")
    ('tt0499549', 17, '017', None)
    """
    if text.isascii() and text.isdigit() and len(text) < 16 and str(int(text)) == text:
        return int(text)
    return text or None


def arm_words(arm: Arm) -> str:
    """Give an arm: its label if it has one of its own, and its group.

    Examples
    --------
    >>> arm_words(Arm(7, "The Long Night", "Horror")), arm_words(Arm("nature"))
    ('The Long Night (Horror)', 'nature')
    """
    name = arm.label or str(arm.id)
    return name if arm.group is None or arm.group == name else f"{name} ({arm.group})"


def number_words(value: object, digits: int = 3) -> str:
    """Give a number as short as it can be read; a dash if there is none.

    Examples
    --------
    >>> number_words(1234567), number_words(0.12345), number_words(3.0), number_words(None)
    ('1,234,567', '0.123', '3', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def _feature_words(name: str, value: object) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if value is None:
        return f"{name} not known"
    if isinstance(value, list | tuple):
        return _listed(value, f"no {name}")
    if isinstance(value, str):
        return f"{name} {value}"
    return f"{name} {number_words(value)}"


def _listed(value: object, nothing: str = "none") -> str:
    assert isinstance(value, Sequence)
    return ", ".join(map(str, value)) or nothing

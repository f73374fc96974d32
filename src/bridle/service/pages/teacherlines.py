"""Teachers as a person writes them, one a line: a name, a price and how often they err."""

from __future__ import annotations

from typing import Any

from bridle.service.problems import Problem
from bridle.teachers import ERROR, MAX_TEACHERS, PRICE

__all__ = ["read_teachers"]


def read_teachers(text: str) -> list[dict[str, Any]]:
    r"""Read teachers, or say which line is wrong.

    Examples
    --------
    >>> read_teachers("editor, 0.35\nmodel, 0.01, 10 %")
    [{'name': 'editor', 'price': 0.35}, {'name': 'model', 'price': 0.01, 'error': 0.1}]
    """
    lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > MAX_TEACHERS:
        raise _wrong(f"There are {len(lines):,} teachers; {MAX_TEACHERS} are the most.")
    found: list[dict[str, Any]] = []
    for n, line in lines:
        name, *rest = (part.strip() for part in line.split(","))
        if not name or len(name) > 200 or len(rest) > 2:
            raise _wrong(f"Line {n}: it needs a name, then a price and a rate, as 'model, 0.01'.")
        if any(one["name"] == name for one in found):
            raise _wrong(f"Line {n}: {name[:100]!r} stands twice.")
        one: dict[str, Any] = {"name": name}
        if rest and rest[0]:
            one["price"] = _number(n, "price", rest[0], PRICE.low, PRICE.high)
        if len(rest) == 2 and rest[1]:
            one["error"] = _share(n, rest[1])
        found.append(one)
    return found


def _share(n: int, text: str) -> float:
    """Read a share, as 0.1 or as 10 %."""
    plain = text.removesuffix("%").strip()
    per = 100.0 if text.endswith("%") else 1.0
    most = f"{per * ERROR.high:g}{' %' if per > 1 else ''}"
    return _number(n, "rate of errors", plain, 0.0, per * ERROR.high, f"0 to {most}") / per


def _number(n: int, what: str, text: str, low: float, high: float, said: str = "") -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        wanted = said or f"{low:g} to {high:,.0f}"
        raise _wrong(f"Line {n}: the {what} must be a number from {wanted}, not {text[:40]!r}.")
    return value


def _wrong(message: str) -> Problem:
    return Problem("invalid_value", message, field="teachers")

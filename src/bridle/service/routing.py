"""From an address to a row of the table.

A tree of the parts between slashes: the time it takes does not grow with the table, and all methods
of an address are known where it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import unquote

from bridle.service.problems import Problem

__all__ = ["Routes", "parameters_of", "parts_of"]

T = TypeVar("T")
LONGEST_PART = 200
MOST_PARTS = 16


@dataclass
class _Node(Generic[T]):
    fixed: dict[str, _Node[T]] = field(default_factory=dict)
    any: _Node[T] | None = None
    rows: dict[str, tuple[tuple[str, ...], T]] = field(default_factory=dict)


class Routes(Generic[T]):
    """What stands at which address.

    Examples
    --------
    >>> routes = Routes[str]()
    >>> routes.add("GET", "/v1/agents/{agent}", "look")
    >>> routes.find("GET", ["v1", "agents", "ann"])
    ('look', {'agent': 'ann'})
    """

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def add(self, method: str, path: str, row: T) -> None:
        """Add a row. A part in braces stands for anything."""
        node = self._root
        for part in path.strip("/").split("/"):
            if part.startswith("{"):
                if node.any is None:
                    node.any = _Node()
                node = node.any
            else:
                node = node.fixed.setdefault(part, _Node())
        if method in node.rows:
            raise ValueError(f"{method} {path} stands twice in the table")
        node.rows[method] = parameters_of(path), row

    def find(self, method: str, parts: Sequence[str]) -> tuple[T, dict[str, str]]:
        """Give the row at an address and its parameters, or raise a 404 or 405."""
        found = _walk(self._root, parts, 0, ())
        if found is None:
            raise Problem(
                "not_found", "There is nothing at this address.", remedy="See /openapi.json."
            )
        node, values = found
        if method not in node.rows:
            allowed = ", ".join(sorted(node.rows))
            raise Problem(
                "wrong_method", f"This address takes {allowed} only.", headers={"Allow": allowed}
            )
        names, row = node.rows[method]
        return row, dict(zip(names, values, strict=True))


def _walk(
    node: _Node[T], parts: Sequence[str], at: int, values: tuple[str, ...]
) -> tuple[_Node[T], tuple[str, ...]] | None:
    if at == len(parts):
        return (node, values) if node.rows else None
    part = parts[at]
    fixed = node.fixed.get(part)
    if fixed is not None:
        found = _walk(fixed, parts, at + 1, values)
        if found is not None:
            return found
    if node.any is None or not _can_be_a_name(part):
        return None
    return _walk(node.any, parts, at + 1, (*values, part))


def parameters_of(path: str) -> tuple[str, ...]:
    """Give the names in braces."""
    return tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))


def parts_of(raw_path: bytes) -> list[str]:
    """Give what stands between the slashes of a path that is still percent-encoded."""
    try:
        parts = raw_path.decode("ascii").split("/", MOST_PARTS)[1:]
        if b"%" in raw_path:
            parts = [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError:
        raise Problem("malformed", "The path is not percent-encoded UTF-8.") from None
    return parts


def _can_be_a_name(part: str) -> bool:
    return 0 < len(part) <= LONGEST_PART and part.isprintable()

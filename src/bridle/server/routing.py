"""From an address to a row of the table.

A tree of the parts between slashes: the time it takes does not grow with the table, and all methods
of an address are known where it ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, unquote

from pydantic import BaseModel, ValidationError

from bridle.server.problems import Problem, wrong_form

__all__ = ["QueryReader", "Routes", "parameters_of", "parts_of", "properties_of"]


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


# --- What stands after the question mark, read as strictly as a body ----------------------


MOST_PARAMETERS = 32
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,19})")


class QueryReader:
    """Reads the parameters of one endpoint.

    pydantic takes " 5", "5.0" and "1_000" for 5; here a number is written as in JSON.
    """

    def __init__(self, model: type[BaseModel] | None) -> None:
        self._model = model
        self._kinds = {} if model is None else _kinds(model)

    def read(self, query: bytes) -> BaseModel | None:
        """Give the parameters, or raise a 400 or 422."""
        if not query:
            return None if self._model is None else self._validated({})
        try:
            pairs = parse_qsl(
                query.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=MOST_PARAMETERS,
            )
        except ValueError:
            raise Problem("malformed", "The query is not percent-encoded UTF-8.") from None
        given: dict[str, Any] = {}
        for name, value in pairs:
            if name in given:
                raise Problem("invalid_value", "A parameter stands twice.", field=name)
            given[name] = self._plain(name, value)
        if self._model is not None:
            return self._validated(given)
        if given:
            field = next(iter(given))
            raise Problem("invalid_value", "This address takes no parameters.", field=field)
        return None

    def _validated(self, given: dict[str, Any]) -> BaseModel:
        assert self._model is not None
        try:
            return self._model.model_validate(given, strict=True)
        except ValidationError as error:
            raise wrong_form(error, "query") from None

    def _plain(self, name: str, text: str) -> object:
        kinds = self._kinds.get(name, {"string"})
        if "string" in kinds:
            return text
        if "boolean" in kinds and text in ("true", "false"):
            return text == "true"
        if kinds & {"integer", "number"} and _WHOLE.fullmatch(text):
            return int(text)
        if "number" in kinds and _NUMBER.fullmatch(text):
            return float(text)
        return text  # what it is not, the model says


def _kinds(model: type[BaseModel]) -> dict[str, set[str]]:
    return {name: set(_types(schema)) for name, schema in properties_of(model).items()}


def properties_of(model: type[BaseModel]) -> dict[str, Any]:
    """Give the schema of each parameter. A parameter that is left out is null; none is sent so."""
    schema = model.model_json_schema()
    assert "$defs" not in schema, "parameters are plain values"
    found = {}
    for name, inner in schema.get("properties", {}).items():
        options = [option for option in inner.get("anyOf", ()) if option.get("type") != "null"]
        plain = {key: value for key, value in inner.items() if key not in ("title", "anyOf")}
        if plain.get("default", 0) is None:
            del plain["default"]
        if len(options) == 1:
            plain = {**options[0], **plain}
        elif options:
            plain["anyOf"] = options
        found[name] = plain
    return found


def _types(schema: dict[str, Any]) -> list[str]:
    if "anyOf" in schema:
        return [kind for option in schema["anyOf"] for kind in _types(option)]
    if "enum" in schema or "const" in schema:
        return ["string"]
    return [schema["type"]]

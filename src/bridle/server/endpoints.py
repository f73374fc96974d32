"""An endpoint: one row of the table that the whole API is made of.

From the table come the routes, the OpenAPI document, who may call what, and the tests that walk
all of it. A handler takes a `Call` whose parts are checked already and returns a `Reply`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from pydantic import BaseModel, TypeAdapter, ValidationError

from bridle.api.base import ROLES, Role
from bridle.server.problems import Problem, wrong_form

if TYPE_CHECKING:
    from bridle.server.service import Service

__all__ = [
    "ROLES",
    "Call",
    "Caller",
    "Endpoint",
    "QueryReader",
    "Reply",
    "Role",
    "may_be_empty",
    "parameters_of",
    "properties_of",
]

MAX_PART = 200  # characters of a name in a path


class Caller(NamedTuple):
    """The owner of a token."""

    id: str
    role: Role
    agents: tuple[str, ...] | None  # None: all
    note: str


class Call(NamedTuple):
    """A request whose parts are checked."""

    service: Service
    caller: Caller | None  # None: the endpoint is open to all
    path: Mapping[str, str]
    query: Any  # of the endpoint's `query` model, or None
    body: Any  # of the endpoint's `body`, or None


class Reply(NamedTuple):
    """An answer. `body` is a model of the endpoint's, a plain JSON value, or text."""

    status: int
    body: Any
    headers: Mapping[str, str] = {}


Handler: TypeAlias = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One row of the table.

    Attributes
    ----------
    method, path : str
        "POST", "/v1/agents/{agent}/decisions". A path with {agent} is open to tokens of that agent.
    roles : tuple of roles, or None
        Who may call it; None: anyone, without a token.
    handle : coroutine function
        Takes a `Call`, returns a `Reply`.
    summary, description : str
        For the documentation.
    body : type, optional
        Anything that `pydantic.TypeAdapter` takes: a model, or a union of models.
    query : model, optional
        The parameters after the question mark.
    replies : mapping from status to (model or media type, description)
        Its answers on success.
    problems : mapping from status to description
        Its errors beyond those of every endpoint: see `bridle.server.table.problem_statuses`.
    """

    method: str
    path: str
    roles: tuple[Role, ...] | None
    handle: Handler
    summary: str
    description: str = ""
    body: Any = None
    query: type[BaseModel] | None = None
    replies: Mapping[int, tuple[Any, str]] = field(default_factory=dict)
    problems: Mapping[int, str] = field(default_factory=dict)


def parameters_of(path: str) -> tuple[str, ...]:
    """Return the names in the braces of a path."""
    return tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))


def may_be_empty(body: TypeAdapter[Any]) -> bool:
    """Return whether a body may be left out."""
    try:
        body.validate_python(None)
    except ValidationError:
        return False
    return True


# --- The query --------------------------------------------------------------------------------

MAX_PARAMETERS = 32
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,19})")


class QueryReader:
    """Reads the query of one endpoint, as strictly as a body.

    pydantic takes " 5", "5.0" and "1_000" for 5; here a number is written as in JSON.
    """

    def __init__(self, model: type[BaseModel] | None) -> None:
        self._model = model
        self._kinds = {} if model is None else _kinds(model)

    def read(self, query: bytes) -> BaseModel | None:
        """Return the parameters; raise a 400 or 422."""
        if not query:
            return None if self._model is None else self._validated({})
        try:
            pairs = parse_qsl(
                query.decode("ascii"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=MAX_PARAMETERS,
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
        return text  # the model says what is wrong with it


def _kinds(model: type[BaseModel]) -> dict[str, set[str]]:
    return {name: set(_types(schema)) for name, schema in properties_of(model).items()}


def properties_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of each parameter; null, which only stands for "left out", is dropped."""
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

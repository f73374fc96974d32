"""What stands after the question mark, read as strictly as a body."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from bridle.service.problems import Problem, wrong_form

__all__ = ["QueryReader", "properties_of"]

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

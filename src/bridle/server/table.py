"""The table of all endpoints, and the OpenAPI 3.1 document made from it and from nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from pydantic import TypeAdapter

from bridle.server.endpoints import (
    MAX_PART,
    Endpoint,
    may_be_empty,
    parameters_of,
    properties_of,
)
from bridle.server.handlers import (
    agents,
    certificates,
    checks,
    decisions,
    explanations,
    operations,
    promise,
    teachers,
    teaching,
)
from bridle.server.problems import CODES, ErrorAnswer

__all__ = ["document", "endpoints", "operation_id", "problem_statuses"]


def endpoints(*, open_metrics: bool = False) -> tuple[Endpoint, ...]:
    """Return all rows. With `open_metrics`, /metrics needs no token."""
    return (
        *agents.ENDPOINTS,
        *teaching.ENDPOINTS,
        *teachers.ENDPOINTS,
        *decisions.ENDPOINTS,
        *checks.ENDPOINTS,
        *promise.ENDPOINTS,
        *certificates.ENDPOINTS,
        *explanations.ENDPOINTS,
        *operations.endpoints(open_metrics=open_metrics),
    )


# --- The document -----------------------------------------------------------------------------


Json = dict[str, Any]
_REF = "#/components/schemas/{model}"
_ABOUT = """Online decision agents that learn their limits by example.

Every answer to a change is given after it is durable. Ids may be yours: the same id and body get
the same answer again, so that a request whose answer was lost can be sent again.
"""
_PARAMETERS = {
    "agent": "The agent's name",
    "id": "Its id",
}
# Sent with 429 and 503.
_RETRY: Json = {
    "Retry-After": {
        "description": "Seconds to wait before another try",
        "schema": {"type": "integer", "minimum": 1},
    }
}

# The end of the log, sent with every reply about an agent.
_HEAD: Json = {
    "Bridle-Head": {
        "description": "SEQ:HASH of the log, for `bridle verify --expect`: keep it elsewhere",
        "schema": {"type": "string", "pattern": "^[0-9]+:[0-9a-f]{64}$"},
    }
}


def document(table: Sequence[Endpoint]) -> Json:
    """Return the OpenAPI document of a table."""
    schemas, components = _schemas(table)
    paths: dict[str, Json] = {}
    for endpoint in table:
        operation = _operation(endpoint, schemas)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    bearer = {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "brd_<id>_<secret>",
        "description": "A token. Its role and its agents say what it may do.",
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "bridle", "version": version("bridle-agent"), "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": bearer}},
    }


def operation_id(endpoint: Endpoint) -> str:
    """Return the name of a row: "post_agents_decisions_reward"."""
    words = re.findall(r"[a-z]+", re.sub(r"\{[^}]*\}|/v1/|\.json", "/", endpoint.path))
    each = "_each" if endpoint.path.endswith("}") else ""
    return "_".join([endpoint.method.lower(), *words]) + each


def problem_statuses(endpoint: Endpoint) -> dict[int, str]:
    """Return the error statuses of an endpoint, each with its meaning."""
    possible = {400, 405, 422, 431, 500, 503}
    if endpoint.roles is not None:
        possible |= {401, 403, 429}
    if parameters_of(endpoint.path):
        possible |= {404}
    if endpoint.body is not None:
        possible |= {408, 413, 415}
    words: dict[int, list[str]] = {}
    for status, meaning in CODES.values():
        if status in possible:
            words.setdefault(status, []).append(meaning)
    described = {status: "; or: ".join(meanings) for status, meanings in words.items()}
    return described | dict(endpoint.problems)


def _operation(endpoint: Endpoint, schemas: Mapping[tuple[str, str], Json]) -> Json:
    operation: Json = {
        "operationId": operation_id(endpoint),
        "summary": endpoint.summary,
        "tags": [_tag(endpoint)],
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    if endpoint.roles is not None:
        operation["security"] = [{"token": []}]
        roles = f"Roles: {', '.join(endpoint.roles)}."
        operation["description"] = f"{endpoint.description}\n\n{roles}".strip()
    else:
        operation["security"] = []
    parameters = [*_path_parameters(endpoint), *_query_parameters(endpoint)]
    if parameters:
        operation["parameters"] = parameters
    key = f"{endpoint.method} {endpoint.path}"
    if endpoint.body is not None:
        content = {"application/json": {"schema": schemas[key, "validation"]}}
        operation["requestBody"] = {
            "required": not may_be_empty(TypeAdapter(endpoint.body)),
            "content": content,
        }
    operation["responses"] = {
        **{str(s): _reply(s, endpoint, schemas) for s in sorted(endpoint.replies)},
        **{str(s): _problem(s, words) for s, words in sorted(problem_statuses(endpoint).items())},
    }
    return operation


def _reply(status: int, endpoint: Endpoint, schemas: Mapping[tuple[str, str], Json]) -> Json:
    what, words = endpoint.replies[status]
    if status == 204:
        return {"description": words}
    if isinstance(what, str):
        content = {what.partition(";")[0]: {"schema": {"type": "string"}}}
    else:
        schema = schemas[f"{endpoint.method} {endpoint.path} {status}", "serialization"]
        content = {"application/json": {"schema": schema}}
    found: Json = {"description": words, "content": content}
    if "{agent}" in endpoint.path:
        found["headers"] = _HEAD
    return found


def _problem(status: int, words: str) -> Json:
    schema = {"$ref": _REF.format(model="ErrorAnswer")}
    found: Json = {"description": words, "content": {"application/json": {"schema": schema}}}
    if status in (429, 503):
        found["headers"] = _RETRY
    return found


def _path_parameters(endpoint: Endpoint) -> list[Json]:
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_PART}
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PARAMETERS.get(name, name),
            "schema": schema,
        }
        for name in parameters_of(endpoint.path)
    ]


def _query_parameters(endpoint: Endpoint) -> list[Json]:
    if endpoint.query is None:
        return []
    required = endpoint.query.model_json_schema().get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in properties_of(endpoint.query).items()
    ]


def _schemas(table: Sequence[Endpoint]) -> tuple[dict[tuple[str, str], Json], Json]:
    """Return the schema of each body and reply by its key, and all that they refer to."""
    inputs: list[tuple[str, Any, TypeAdapter[Any]]] = []
    for endpoint in table:
        key = f"{endpoint.method} {endpoint.path}"
        if endpoint.body is not None:
            inputs.append((key, "validation", TypeAdapter(endpoint.body)))
        for status, (what, _) in endpoint.replies.items():
            if not isinstance(what, str) and what is not None:
                inputs.append((f"{key} {status}", "serialization", TypeAdapter(what)))
    inputs.append(("problem", "serialization", TypeAdapter(ErrorAnswer)))
    schemas, rest = TypeAdapter.json_schemas(inputs, ref_template=_REF)
    return {key: dict(schema) for key, schema in schemas.items()}, dict(rest.get("$defs", {}))


def _tag(endpoint: Endpoint) -> str:
    parts = [p for p in endpoint.path.split("/") if p and p != "v1" and not p.startswith("{")]
    return parts[0] if parts[0] != "agents" or len(parts) == 1 else parts[1]

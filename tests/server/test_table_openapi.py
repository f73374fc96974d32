from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bridle.server.endpoints import parameters_of
from bridle.server.table import document, endpoints, operation_id, problem_statuses
from tests.server.driving import Server

TABLE = endpoints()
DOCUMENT = document(TABLE)


def within(value: Any) -> Iterator[Any]:
    """Give a JSON value and all in it."""
    yield value
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from within(inner)


def test_the_document_is_served_to_anyone(server: Server):
    answer = server.call("GET", "/openapi.json", token=None)
    assert answer.json == json.loads(json.dumps(DOCUMENT))
    assert answer.headers["content-type"] == "application/json"


def test_every_row_stands_in_it_and_nothing_else():
    rows = {(row.path, row.method.lower()) for row in TABLE}
    assert rows == {(path, method) for path, item in DOCUMENT["paths"].items() for method in item}


def test_every_reference_leads_somewhere():
    references = [
        value["$ref"] for value in within(DOCUMENT) if isinstance(value, dict) and "$ref" in value
    ]
    assert references
    for reference in references:
        found: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def test_names_of_operations_are_distinct():
    names = [operation_id(row) for row in TABLE]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.method} {row.path}")
def test_what_a_row_says(row):
    operation = DOCUMENT["paths"][row.path][row.method.lower()]
    assert operation["summary"]
    statuses = {*row.replies, *problem_statuses(row)}
    assert set(operation["responses"]) == {str(status) for status in statuses}
    assert operation["security"] == ([] if row.roles is None else [{"token": []}])
    given = operation.get("parameters", [])
    assert tuple(p["name"] for p in given if p["in"] == "path") == parameters_of(row.path)
    query = [] if row.query is None else list(row.query.model_fields)
    assert [p["name"] for p in given if p["in"] == "query"] == query
    assert ("requestBody" in operation) == (row.body is not None)
    for status in problem_statuses(row):
        content = operation["responses"][str(status)]["content"]
        assert content["application/json"]["schema"]["$ref"].endswith("/ErrorAnswer")


def test_schemas_are_schemas():
    validators = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    for value in within(DOCUMENT):
        if isinstance(value, dict) and isinstance(value.get("schema"), dict):
            validators.Draft202012Validator.check_schema(value["schema"])
    for schema in DOCUMENT["components"]["schemas"].values():
        validators.Draft202012Validator.check_schema(schema)


def test_answers_are_as_documented(server: Server):
    validators = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    made = server.call("POST", "/v1/tokens", {"role": "agent"}).json["id"]
    seen = 0
    for method, path, template in (
        ("GET", "/healthz", "/healthz"),
        ("GET", "/readyz", "/readyz"),
        ("GET", "/openapi.json", "/openapi.json"),
        ("GET", "/v1/tokens", "/v1/tokens"),
        ("GET", "/v1/agents", "/v1/agents"),
        ("DELETE", f"/v1/tokens/{made}", "/v1/tokens/{id}"),
        ("DELETE", "/v1/tokens/nobody", "/v1/tokens/{id}"),
        ("POST", "/v1/tokens", "/v1/tokens"),
    ):
        answer = server.call(method, path)
        told = DOCUMENT["paths"][template][method.lower()]["responses"][str(answer.status)]
        schema = told["content"][answer.headers["content-type"]]["schema"]
        whole = {**schema, "components": DOCUMENT["components"]}
        validators.Draft202012Validator(whole).validate(answer.json)
        seen += 1
    assert seen == 8

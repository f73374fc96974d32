from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from bridle.server.endpoints import QueryReader, properties_of
from bridle.server.problems import Problem


class Query(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    limit: Annotated[int, Field(ge=1, le=10)] = 5
    level: float | None = None
    full: bool = False
    name: str | None = None
    order: Literal["up", "down"] = "up"
    either: int | str | None = None


@pytest.mark.parametrize(
    ("query", "name", "value"),
    [
        (b"", "limit", 5),
        (b"limit=10", "limit", 10),
        (b"level=1.5e-3", "level", 0.0015),
        (b"level=-2", "level", -2.0),
        (b"full=true", "full", True),
        (b"full=false", "full", False),
        (b"name=5", "name", "5"),
        (b"name=", "name", ""),
        (b"name=a%20b%C3%A9", "name", "a bé"),
        (b"order=down", "order", "down"),
        (b"either=5", "either", "5"),
    ],
)
def test_what_is_read(query: bytes, name: str, value: object):
    found = QueryReader(Query).read(query)
    assert getattr(found, name) == value
    assert type(getattr(found, name)) is type(value)


@pytest.mark.parametrize(
    "query",
    [
        b"limit=",
        b"limit=11",
        b"limit=5.0",
        b"limit=%205",
        b"limit=1_0",
        b"limit=%2B5",
        b"limit=05",
        b"limit=5&limit=5",
        b"limit=null",
        b"limit=true",
        b"limit=" + b"9" * 5_000,
        b"full=1",
        b"full=True",
        b"level=nan",
        b"level=inf",
        b"level=1e999",
        b"level=.5",
        b"level=1.",
        b"order=UP",
        b"unknown=1",
    ],
)
def test_what_is_refused(query: bytes):
    with pytest.raises(Problem) as caught:
        QueryReader(Query).read(query)
    assert caught.value.status == 422
    assert caught.value.field == query.partition(b"=")[0].decode()


@pytest.mark.parametrize("query", [b"name=%ff", b"name=\xff", b"a=1&" * 40])
def test_what_is_no_query(query: bytes):
    with pytest.raises(Problem) as caught:
        QueryReader(Query).read(query)
    assert caught.value.status == 400


def test_where_there_are_no_parameters():
    reader = QueryReader(None)
    assert reader.read(b"") is None
    with pytest.raises(Problem) as caught:
        reader.read(b"x=1")
    assert (caught.value.status, caught.value.field) == (422, "x")


def test_how_parameters_are_documented():
    found = properties_of(Query)
    assert found["limit"] == {"type": "integer", "minimum": 1, "maximum": 10, "default": 5}
    assert found["level"] == {"type": "number"}
    assert found["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert found["order"] == {"type": "string", "enum": ["up", "down"], "default": "up"}

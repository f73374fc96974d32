"""Which row answers at which address: Starlette's router, with our names in paths."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.routing import Router

from bridle.server.pipeline import Exchange, encoded_path, routes_of
from bridle.server.problems import Problem

ROWS = (
    ("GET", "/a"),
    ("POST", "/a"),
    ("GET", "/a/{one}"),
    ("GET", "/a/fixed"),
    ("GET", "/a/{one}/b/{two}"),
    ("DELETE", "/a/{one}/b"),
)


def row(name: str, answers: list[Any]) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        answers.append((name, scope["path_params"]))

    return app


def find(method: str, path: str | bytes, rows: Any = ROWS, **more: Any) -> tuple[str, Any]:
    """Return the row that answers, and its parameters."""
    answers: list[tuple[str, Any]] = []

    async def nothing(*given: Any) -> None:
        raise Problem("not_found", "nothing")

    made = [(one, where, row(f"{one} {where}", answers)) for one, where in rows]
    router = Router(routes_of(made, **more), redirect_slashes=False, default=nothing)
    raw = path if isinstance(path, bytes) else path.encode()
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": "not looked at",
        "raw_path": raw,
        "query_string": b"",
        "headers": [],
    }
    scope["bridle"] = Exchange(scope, 1_000)
    scope["path"] = encoded_path(scope)
    asyncio.run(router(scope, None, None))
    [found] = answers
    return found


@pytest.mark.parametrize(
    ("method", "path", "name", "values"),
    [
        ("GET", "/a", "GET /a", {}),
        ("POST", "/a", "POST /a", {}),
        ("GET", "/a/x", "GET /a/{one}", {"one": "x"}),
        ("GET", "/a/fixed", "GET /a/fixed", {}),
        ("GET", "/%61/fi%78ed", "GET /a/fixed", {}),
        ("GET", "/a/x/b/y", "GET /a/{one}/b/{two}", {"one": "x", "two": "y"}),
        # What is fixed comes first, but is no dead end.
        ("GET", "/a/fixed/b/y", "GET /a/{one}/b/{two}", {"one": "fixed", "two": "y"}),
        ("DELETE", "/a/x/b", "DELETE /a/{one}/b", {"one": "x"}),
        ("GET", "/a/%C3%A9%2Fz", "GET /a/{one}", {"one": "é/z"}),
        ("GET", "/a/a:b@c~%25%20%2e", "GET /a/{one}", {"one": "a:b@c~% ."}),
        ("GET", "/a/" + "%C3%A9" * 200, "GET /a/{one}", {"one": "é" * 200}),
    ],
)
def test_what_stands_where(method: str, path: str, name: str, values):
    assert find(method, path) == (name, values)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/b",
        "/a/",
        "/a/x/b/",
        "/a//b",
        "/a/x/b/y/z",
        "/a/%00",
        "/a/x%0a",
        "/a/" + "x" * 201,
        "/" * 100_000,
    ],
)
def test_where_nothing_stands(path: str):
    with pytest.raises(Problem) as caught:
        find("GET", path)
    assert caught.value.status == 404


@pytest.mark.parametrize("method", ["PUT", "HEAD", "OPTIONS", "get"])
def test_other_methods(method: str):
    with pytest.raises(Problem) as caught:
        find(method, "/a")
    assert caught.value.status == 405
    assert caught.value.headers == {"Allow": "GET, POST"}


@pytest.mark.parametrize("path", [b"/\xff", b"/%ff", b"/%C3"])
def test_paths_that_are_no_text(path: bytes):
    with pytest.raises(Problem) as caught:
        find("GET", path)
    assert caught.value.status == 400


def test_a_path_without_its_raw_form():
    assert encoded_path({"path": "/a/b"}) == "/a/b"
    with pytest.raises(Problem):
        encoded_path({"path": "/é"})


def test_a_row_stands_once():
    with pytest.raises(ValueError, match="stands twice"):
        find("GET", "/a", rows=[*ROWS, ("GET", "/a/{one}")])
    with pytest.raises(ValueError, match="the same address"):
        find("GET", "/a", rows=[*ROWS, ("PUT", "/a/{any}")])


def test_what_is_busiest_is_tried_first():
    made = [(method, path, row(path, [])) for method, path in ROWS]
    paths = [route.path for route in routes_of(made, first="/a/{one}/b")]
    assert paths[:2] == ["/a/{one:bridle_name}/b", "/a/{one:bridle_name}/b/{two:bridle_name}"]
    assert paths.index("/a/fixed") < paths.index("/a/{one:bridle_name}")

from __future__ import annotations

import pytest

from bridle.server.problems import Problem
from bridle.server.routing import Routes, parts_of


@pytest.fixture
def routes() -> Routes[str]:
    routes = Routes[str]()
    for method, path in (
        ("GET", "/a"),
        ("POST", "/a"),
        ("GET", "/a/{one}"),
        ("GET", "/a/fixed"),
        ("GET", "/a/{one}/b/{two}"),
        ("DELETE", "/a/{other}/b"),
    ):
        routes.add(method, path, f"{method} {path}")
    return routes


@pytest.mark.parametrize(
    ("method", "path", "row", "values"),
    [
        ("GET", "/a", "GET /a", {}),
        ("POST", "/a", "POST /a", {}),
        ("GET", "/a/x", "GET /a/{one}", {"one": "x"}),
        ("GET", "/a/fixed", "GET /a/fixed", {}),
        ("GET", "/a/x/b/y", "GET /a/{one}/b/{two}", {"one": "x", "two": "y"}),
        # What is fixed comes first, but is no dead end.
        ("GET", "/a/fixed/b/y", "GET /a/{one}/b/{two}", {"one": "fixed", "two": "y"}),
        ("DELETE", "/a/x/b", "DELETE /a/{other}/b", {"other": "x"}),
        ("GET", "/a/%C3%A9%2Fz", "GET /a/{one}", {"one": "é/z"}),
    ],
)
def test_what_stands_where(routes, method: str, path: str, row: str, values):
    assert routes.find(method, parts_of(path.encode())) == (row, values)


@pytest.mark.parametrize(
    "path", ["/", "", "/b", "/a/", "/a/x/b/", "/a//b", "/a/x/b/y/z", "/a/%00", "/a/" + "x" * 201]
)
def test_where_nothing_stands(routes, path: str):
    with pytest.raises(Problem) as caught:
        routes.find("GET", parts_of(path.encode()))
    assert caught.value.status == 404


def test_other_methods(routes):
    with pytest.raises(Problem) as caught:
        routes.find("PUT", ["a"])
    assert caught.value.status == 405
    assert caught.value.headers == {"Allow": "GET, POST"}


@pytest.mark.parametrize("path", [b"/\xff", b"/%ff", b"/%C3"])
def test_paths_that_are_no_text(path: bytes):
    with pytest.raises(Problem) as caught:
        parts_of(path)
    assert caught.value.status == 400


def test_a_row_stands_once(routes):
    with pytest.raises(ValueError, match="stands twice"):
        routes.add("GET", "/a/{any}", "again")


def test_a_path_of_many_slashes_is_cut():
    assert len(parts_of(b"/" * 100_000)) == 16

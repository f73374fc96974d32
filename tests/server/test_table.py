"""Every route × every role × every kind of token. It grows with the table by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from bridle.server.endpoints import ROLES, Endpoint
from bridle.server.table import endpoints, problem_statuses
from tests.server.driving import Server

TABLE = endpoints()


def name_of(row: Endpoint) -> str:
    return f"{row.method} {row.path}"


NAMES = [name_of(row) for row in TABLE]
MINE, OTHER = "ann", "bob"


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("table"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def tokens(server: Server) -> dict[str, dict[str, str]]:
    """Give for each role a token of each kind."""
    found: dict[str, dict[str, str]] = {}
    for role in ROLES:
        revoked = server.grant(role)
        server.runner.run(server.service.tokens.revoke(revoked.row.id))
        expired = server.grant(role, expires=server.clock.now + 10.0)
        good = server.grant(role)
        wrong = good.text[:-1] + ("A" if good.text[-1] != "A" else "B")
        found[role] = {
            "good": good.text,
            "mine": server.grant(role, agents=(MINE,)).text,
            "other": server.grant(role, agents=(OTHER,)).text,
            "wrong secret": wrong,
            "unknown id": "brd_" + "z" * 12 + good.text[16:],
            "malformed": good.text.replace("brd_", "brd-"),
            "cut": good.text[:-1],
            "expired": expired.text,
            "revoked": revoked.text,
        }
    server.clock.now += 10.0
    return found


def path_of(row: Endpoint) -> str:
    return row.path.replace("{agent}", MINE).replace("{id}", "7")


def expected(row: Endpoint, role: str, kind: str) -> str:
    """Say what must come of it, from the table alone."""
    if row.roles is None:
        return "let in"
    if kind not in ("good", "mine", "other"):
        return "401"
    if role not in row.roles:
        return "403"
    return "403" if kind == "other" and "{agent}" in row.path else "let in"


KINDS = (
    "good",
    "mine",
    "other",
    "wrong secret",
    "unknown id",
    "malformed",
    "cut",
    "expired",
    "revoked",
)


@pytest.mark.parametrize("row", TABLE, ids=NAMES)
def test_who_may_call_what(row: Endpoint, server: Server, tokens):
    tried: Counter[str] = Counter()
    for role in ROLES:
        for kind in KINDS:
            answer = server.call(row.method, path_of(row), token=tokens[role][kind])
            wanted = expected(row, role, kind)
            tried[wanted] += 1
            if wanted == "let in":
                # Without a body most of it is refused further on, but not at the door.
                assert answer.status not in (401, 403), (role, kind, answer)
                assert answer.status in {*row.replies, *problem_statuses(row)}, (role, kind, answer)
                assert answer.status < 500
            else:
                assert answer.status == int(wanted), (role, kind, answer)
                assert answer.code == {"401": "no_token", "403": "forbidden"}[wanted]
                assert ("www-authenticate" in answer.headers) == (wanted == "401")
    # Nothing was left out, and who has a right somewhere can use it.
    assert tried.total() == len(ROLES) * len(KINDS)
    assert tried["let in"] >= 1


@pytest.mark.parametrize("row", TABLE, ids=NAMES)
def test_without_a_token(row: Endpoint, server: Server):
    answer = server.call(row.method, path_of(row), token=None)
    if row.roles is None:
        assert answer.status in row.replies
    else:
        assert answer.status == 401
        assert answer.code == "no_token"


@pytest.mark.parametrize("row", TABLE, ids=NAMES)
def test_other_methods_are_refused(row: Endpoint, server: Server):
    allowed = sorted(other.method for other in TABLE if other.path == row.path)
    for method in {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE"} - {
        *allowed
    }:
        answer = server.call(method, path_of(row))
        assert answer.status == 405
        assert answer.code == "wrong_method"
        assert answer.headers["allow"] == ", ".join(allowed)


@pytest.mark.parametrize("row", [row for row in TABLE if row.body is not None], ids=name_of)
def test_bodies_are_refused_that_are_no_json(row: Endpoint, server: Server):
    for body, status in (
        (b"", 400),
        (b"{", 400),
        (b'{"x":"\xff"}', 400),
        (b'{"x":"\\ud800"}', 400),
        (b"[" * 5_000 + b"]" * 5_000, 400),
        (b'"x"', 422),
        (b"{}x", 400),
        (b'{"no such field":1}', 422),
    ):
        answer = server.call(row.method, path_of(row), body)
        assert answer.status == status, (body[:20], answer)
        assert answer.code == {400: "malformed", 422: "invalid_value"}[status]


def test_the_open_routes_are_these():
    # Whoever opens another must write it here, too.
    assert {row.path for row in TABLE if row.roles is None} == {
        "/healthz",
        "/readyz",
        "/openapi.json",
    }
    opened = {row.path for row in endpoints(open_metrics=True) if row.roles is None}
    assert opened == {"/healthz", "/readyz", "/openapi.json", "/metrics"}


def test_only_an_admin_changes_who_may_call():
    assert all(row.roles == ("admin",) for row in TABLE if row.path.startswith("/v1/tokens"))

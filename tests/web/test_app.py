from __future__ import annotations

import asyncio
import json
import logging

import pytest
from pydantic import BaseModel

from bridle.errors import (
    Busy,
    CorruptState,
    Duplicate,
    InvalidValue,
    LimitReached,
    NotPossible,
    StoreFailed,
    UnknownId,
)
from bridle.server.endpoints import Call, Reply
from bridle.server.limits import Limits
from bridle.server.service import Service
from bridle.server.table import problem_statuses
from bridle.store.sqlite import SqliteStore
from bridle.web.app import create_app
from tests.server.driving import Server, endpoint, fine, never


class Form(BaseModel, extra="forbid", strict=True, allow_inf_nan=False):
    text: str = ""
    anything: object = None


async def echo(call: Call) -> Reply:
    return Reply(200, {"length": len(call.body.text)})


ECHO = endpoint("/echo", echo, method="POST", body=Form)


# -- sizes ---------------------------------------------------------------------------------------


def body_of(size: int) -> bytes:
    return b'{"text":"' + b"x" * (size - 11) + b'"}'


@pytest.mark.parametrize("length", [True, False], ids=["length", "chunked"])
@pytest.mark.parametrize("pieces", [1, 7])
def test_a_body_may_be_as_large_as_it_may(serve, length: bool, pieces: int):
    server = serve(limits=Limits(body_bytes=2_000), more=[ECHO])
    for size, status in ((2_000, 200), (2_001, 413)):
        body = body_of(size)
        step = -(-size // pieces)
        parts = [body[i : i + step] for i in range(0, size, step)]
        answer = server.call("POST", "/echo", parts=parts, length=length)
        assert answer.status == status
        if status == 413:
            assert answer.code == "too_large"
            # Whatever may still come is not waited for.
            assert answer.headers["connection"] == "close"


def test_what_is_declared_too_large_is_not_read(serve):
    server = serve(limits=Limits(body_bytes=2_000), more=[ECHO])
    assert server.call("POST", "/echo", body_of(2_001)).status == 413
    assert server.read == 0


def test_an_endless_body_is_read_up_to_the_limit(serve):
    server = serve(limits=Limits(body_bytes=2_000), more=[ECHO])
    parts = [b"x" * 100] * 1_000
    assert server.call("POST", "/echo", parts=parts, length=False).status == 413
    assert server.read == 21


def test_a_length_that_lies_does_not_help(serve):
    server = serve(limits=Limits(body_bytes=2_000), more=[ECHO])
    for lie in ("10", "-1", "9" * 30, "x"):
        headers = [("content-length", lie)]
        answer = server.call("POST", "/echo", parts=[body_of(3_000)], headers=headers, length=False)
        assert answer.status == 413


def test_too_many_headers_and_too_large_ones(serve):
    server = serve(limits=Limits(head_bytes=2_000, head_fields=20), more=[ECHO])
    many = [(f"x-{i}", "1") for i in range(20)]
    for headers in (many, [("x-long", "1" * 2_000)]):
        answer = server.call("GET", "/healthz", headers=headers)
        assert answer.status == 431
        assert answer.code == "head_too_large"
    assert server.call("GET", "/healthz?" + "x" * 2_000).status == 431


# -- times ---------------------------------------------------------------------------------------


def test_a_body_that_does_not_come(serve):
    server = serve(limits=Limits(read_seconds=0.01), more=[ECHO])
    for parts in ([None], [b'{"te', None]):
        answer = server.call("POST", "/echo", parts=parts, length=False)
        assert answer.status == 408
        assert answer.code == "too_slow"
        assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_answer_that_does_not_come(serve, method: str):
    row = endpoint("/never", never, method=method, body=Form if method == "POST" else None)
    server = serve(limits=Limits(answer_seconds=0.01), more=[row])
    answer = server.call(method, "/never", {} if method == "POST" else None)
    assert answer.status == 503
    assert answer.code == "timed_out"
    assert answer.headers["retry-after"] == "1"
    assert server.service.in_flight == 0


def test_a_handlers_own_timeout_is_no_timeout_of_ours(serve):
    async def impatient(call: Call) -> Reply:
        raise TimeoutError("mine")

    answer = serve(more=[endpoint("/x", impatient)]).call("GET", "/x")
    assert answer.status == 500


def test_whoever_hangs_up_is_not_answered(serve):
    server = serve(more=[ECHO])
    sent: list[object] = []

    async def gone() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        sent.append(message)

    token = f"Bearer {server.token}".encode()
    headers = [(b"authorization", token), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/echo",
        "raw_path": b"/echo",
        "query_string": b"",
        "headers": headers,
    }
    server.runner.run(server.app(scope, gone, send))
    assert sent == []
    assert server.service.in_flight == 0
    assert b'path="/echo",status="499"} 1.0' in server.service.metrics.text()


def test_a_crowd_is_sent_away_but_the_open_routes_answer(serve):
    server = serve(limits=Limits(in_flight=1), more=[endpoint("/fine", fine)])
    server.service.in_flight = 1
    answer = server.call("GET", "/fine")
    assert (answer.status, answer.code) == (503, "busy")
    assert answer.headers["retry-after"] == "1"
    assert server.call("GET", "/healthz", token=None).status == 200
    server.service.in_flight = 0
    assert server.call("GET", "/fine").status == 200


# -- what is said --------------------------------------------------------------------------------


def test_each_kind_of_media_that_is_no_json(serve):
    server = serve(more=[ECHO])
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""):
        answer = server.call("POST", "/echo", {}, headers=[("content-type", kind)])
        assert (answer.status, answer.code) == (415, "no_json")
    encoded = server.call("POST", "/echo", {}, headers=[("content-encoding", "gzip")])
    assert encoded.status == 415
    kind = "Application/JSON; charset=utf-8"
    assert server.call("POST", "/echo", {}, headers=[("content-type", kind)]).status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"text":"a","text":"b"}', 400),
        (b'{"anything":{"a":{"b":1,"b":2}}}', 400),
        (b'{"anything":[1,{"b":1,"b":2}]}', 400),
        (b'{"anything":NaN}', 400),
        (b'{"anything":[1,-Infinity]}', 400),
        (b'{"anything":"NaN, Infinity: \\":"}', 200),
        (b'{"text":"a:b:c","anything":{"a:b":[{"c":1},{"c":1}]}}', 200),
        (b' { "text" : "a" } ', 200),
    ],
)
def test_names_that_stand_twice_and_numbers_that_are_none(serve, body: bytes, status: int):
    answer = serve(more=[ECHO]).call("POST", "/echo", body)
    assert answer.status == status
    assert status == 200 or answer.code == "malformed"


def test_a_wrong_value_is_named_and_cut(serve):
    answer = serve(more=[ECHO]).call("POST", "/echo", {"text": ["x" * 10_000]})
    assert (answer.status, answer.code) == (422, "invalid_value")
    assert answer.json["error"]["field"] == "text"
    answer = serve(more=[ECHO]).call("POST", "/echo", {"y" * 10_000: "x" * 10_000})
    assert answer.status == 422
    assert len(answer.body) < 1_000


class Rows(BaseModel, extra="forbid", strict=True):
    rows: list[int]


def test_of_very_many_wrong_values_only_the_number_is_told(serve):
    server = serve(more=[endpoint("/rows", fine, method="POST", body=Rows)])
    answer = server.call("POST", "/rows", {"rows": ["x"] * 2_000})
    assert answer.json["error"]["field"] == "rows.0"
    answer = server.call("POST", "/rows", {"rows": ["x"] * 2_001})
    assert (answer.status, answer.code) == (422, "invalid_value")
    assert answer.json["error"]["message"].startswith("2,001 values")


def test_of_several_forms_the_nearest_is_told(serve):
    server = serve(more=[endpoint("/either", fine, method="POST", body=Form | Rows)])
    answer = server.call("POST", "/either", {"rows": [1, "x"]})
    assert answer.json["error"]["field"] == "Rows.rows.1"


ERRORS = [
    (InvalidValue("sigma", "Agent", "a float", "x"), 422, "invalid_value", "sigma"),
    (UnknownId("example", "x", "Teach it."), 404, "not_found", "example"),
    (UnknownId("arm", "x", "Add it."), 422, "invalid_value", "arm"),
    (Duplicate("agent", "x", "Another name."), 409, "conflict", "agent"),
    (NotPossible("Not now."), 409, "conflict", None),
    (LimitReached("arms", 3, "Fewer."), 422, "limit_reached", "arms"),
    (Busy(7, 2.5), 503, "busy", None),
    (StoreFailed("/secret/path is full"), 503, "store_failed", None),
    (StoreFailed("/secret/path is full", True), 503, "store_failed", None),
    (CorruptState("/secret/path is damaged"), 500, "failed", None),
    (RuntimeError("/secret/path"), 500, "failed", None),
    (KeyError("/secret/path"), 500, "failed", None),
]


@pytest.mark.parametrize(("error", "status", "code", "field"), ERRORS, ids=lambda value: str(value))
def test_each_error_has_its_answer(serve, caplog, error, status: int, code: str, field):
    async def fail(call: Call) -> Reply:
        raise error

    answer = serve(more=[endpoint("/fail", fail)]).call("GET", "/fail")
    assert (answer.status, answer.code) == (status, code)
    assert answer.json["error"]["field"] == field
    assert ("retry-after" in answer.headers) == (status == 503)
    assert b"/secret" not in answer.body
    if b"secret" not in str(error).encode():
        assert str(error) in answer.json["error"]["message"]
    else:
        assert "/secret/path" in caplog.text  # the operator is told
    if isinstance(error, Busy):
        assert answer.headers["retry-after"] == "3"


def test_all_answers_have_the_security_headers(server: Server):
    for path in ("/healthz", "/nothing", "/v1/tokens", "/metrics"):
        headers = server.call("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["referrer-policy"] == "no-referrer"


def test_a_request_has_an_id_that_is_safe(server: Server):
    def id_of(asked: str) -> str:
        return server.call("GET", "/healthz", headers=[("X-Request-Id", asked)]).headers[
            "x-request-id"
        ]

    assert id_of("abc-1.2_3") == "abc-1.2_3"
    for unsafe in ("", "a b", "a" * 65, 'a"b', "a<b", "é"):
        made = id_of(unsafe)
        assert made != unsafe
        assert made.isalnum()
    assert id_of("") != id_of("")


def test_paths_that_are_none(server: Server):
    for path in ("", "//", "/v1", "/v1/", "/healthz/", "/v1/tokens/", "/a" * 100):
        answer = server.call("GET", path)
        assert (answer.status, answer.code) == (404, "not_found")
    for path in ("/v1/tokens/%ff", "/v1/tokens/é"):
        answer = server.call("DELETE", path)
        assert (answer.status, answer.code) == (400, "malformed")
    for id in ("%00", "%0a", "a" * 201, "%F0%9F%98%80", "..", "a%2Fb"):
        assert server.call("DELETE", f"/v1/tokens/{id}").status == 404


# -- logs ----------------------------------------------------------------------------------------


def test_no_secret_gets_into_a_log_or_an_answer(serve, caplog):
    caplog.set_level(logging.DEBUG)

    async def fail(call: Call) -> Reply:
        raise RuntimeError("unforeseen")

    server = serve(more=[ECHO, endpoint("/fail/{id}", fail)])
    secret = server.token.split("_", 2)[2]
    digest = server.store.tokens()[0].hash
    bodies = []
    for method, path in (
        ("GET", "/v1/tokens"),
        ("GET", f"/v1/tokens?token={server.token}"),
        ("GET", f"/v1/{server.token}"),
        ("GET", f"/fail/{server.token}"),
        ("POST", "/echo"),
    ):
        bodies.append(server.call(method, path, {} if method == "POST" else None).body)
        bodies.append(server.call(method, path, token=server.token + "x").body)
    made = server.call("POST", "/v1/tokens", {"role": "agent", "note": "of ann"})
    assert len([r for r in caplog.records if r.name == "bridle.access"]) == 11
    told = caplog.text + b"".join(bodies).decode() + repr(server.first)
    for hidden in (secret, made.json["token"].split("_", 2)[2], digest.hex(), repr(digest)[2:-1]):
        assert hidden not in told
    assert server.token.split("_")[1] in told  # the id may be seen


def test_a_line_of_the_access_log(serve, caplog):
    caplog.set_level(logging.INFO, "bridle.access")
    server = serve()
    server.call("GET", "/v1/tokens?password=hunter2", headers=[("x-request-id", "r1")])
    [record] = [r for r in caplog.records if r.name == "bridle.access"]
    line = json.loads(record.getMessage())
    assert line.pop("ms") >= 0.0
    assert line.pop("at") > 0.0
    assert line == {
        "request": "r1",
        "method": "GET",
        "path": "/v1/tokens",
        "status": 422,
        "token": server.token.split("_")[1],
    }


# -- the server's side ---------------------------------------------------------------------------


def test_lifespan_starts_and_stops_the_service(tmp_path):
    store = SqliteStore(tmp_path / "a.db")
    service = Service(store)
    app = create_app(service)
    told: list[str] = []
    states: list[bool] = []
    messages = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> dict[str, str]:
        states.append(service.running)
        return {"type": next(messages)}

    async def send(message: dict[str, str]) -> None:
        told.append(message["type"])

    asyncio.run(app({"type": "lifespan"}, receive, send))
    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert states == [False, True]
    assert not service.running
    store.close()


def test_web_sockets_are_closed(server: Server):
    told: list[object] = []

    async def send(message: object) -> None:
        told.append(message)

    server.runner.run(server.app({"type": "websocket"}, send, send))
    assert told == [{"type": "websocket.close"}]


def test_every_status_that_is_seen_here_is_documented():
    documented = set(problem_statuses(ECHO))
    assert {400, 401, 403, 405, 408, 413, 415, 422, 429, 431, 500, 503} <= documented

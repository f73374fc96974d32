"""When a client tries again, and when it must not."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the serve extra is not installed")

import httpx2

from bridle.client import Client, ServiceError
from bridle.client import client as clients
from bridle.client.client import FIRST_WAIT, LONGEST_WAIT, TRIED_AGAIN, Sent, Tries, Verbs
from bridle.client.errors import refusal_of
from bridle.errors import BridleError, InvalidValue, NotPossible

URL = "http://service.test"
DONE = {"version": 7}
CHOICE = {
    "outcome": "decision",
    "id": "a",
    "arm": "x",
    "version": 3,
    "propensity": None,
    "question": None,
    "item": None,
    "check": False,
    "coin": None,
}


class Time:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def time(monkeypatch) -> Time:
    found = Time()

    def tries(self: Any, sent: Sent[Any]) -> Tries[Any]:
        return Tries(
            sent, deadline=self._deadline, timeout=self._timeout, now=found, chance=lambda: 0.5
        )

    monkeypatch.setattr(Verbs, "_tries", tries)
    monkeypatch.setattr(clients, "time", SimpleNamespace(sleep=found.sleep, time=found))
    return found


class Script(httpx2.BaseTransport):
    """Answers as it is told, and keeps what was sent. An error in the script is raised."""

    def __init__(self, *steps: Any, then: Any = None) -> None:
        self.steps: Iterator[Any] = iter(steps)
        self.then = then
        self.sent: list[tuple[str, str, bytes]] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append((request.method, request.url.raw_path.decode(), request.read()))
        step = next(self.steps, self.then)
        if isinstance(step, Exception):
            raise step
        return step()  # type: ignore[no-any-return]


def says(status: int, body: Any, **headers: str) -> Callable[[], httpx2.Response]:
    return lambda: httpx2.Response(status, json=body, headers=headers)


def refuses(status: int, code: str, **headers: str) -> Callable[[], httpx2.Response]:
    error = {"code": code, "message": "No.", "field": None, "remedy": None, "request": "r1"}
    return says(status, {"error": error}, **headers)


BUSY = refuses(503, "busy", **{"Retry-After": "3"})
FAILED = refuses(503, "store_failed", **{"Retry-After": "1"})
OFTEN = refuses(429, "too_often", **{"Retry-After": "2"})


def client(*steps: Any, then: Any = None, **given: Any) -> tuple[Client, Script]:
    script = Script(*steps, then=then)
    return Client(URL, "brd_x", transport=script, **given), script


# -- trying again --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lost",
    [
        httpx2.ConnectError("refused"),
        httpx2.ReadError("reset"),
        httpx2.ReadTimeout("slow"),
        httpx2.RemoteProtocolError("cut"),
        BUSY,
        FAILED,
        OFTEN,
        says(502, "gateway"),
        says(504, "gateway"),
    ],
)
def test_the_same_bytes_are_sent_again(time: Time, lost):
    one, script = client(lost, lost, says(200, CHOICE))
    assert one.decide("ann", {"a": True}).arm == "x"
    assert len(script.sent) == 3
    assert len(set(script.sent)) == 1
    assert json.loads(script.sent[0][2])["id"]


def test_retry_after_is_waited_for_and_more(time: Time):
    one, _ = client(BUSY, OFTEN, says(200, CHOICE))
    one.decide("ann", {})
    assert time.slept == [3.0 + 0.75 * FIRST_WAIT, 2.0 + 0.75 * 2.0 * FIRST_WAIT]


def test_waits_double_up_to_a_longest():
    sent = Sent("GET", "/", "read", dict)
    waits = Tries(sent, deadline=1e9, timeout=1.0, now=lambda: 0.0, chance=lambda: 0.0)
    slow = Tries(sent, deadline=1e9, timeout=1.0, now=lambda: 0.0, chance=lambda: 1.0)
    short = [waits.failed(OSError(), arrived=False) for _ in range(2_000)]
    long = [slow.failed(OSError(), arrived=False) for _ in range(2_000)]
    assert long[:3] == [FIRST_WAIT, 2 * FIRST_WAIT, 4 * FIRST_WAIT]
    assert long[-1] == LONGEST_WAIT
    assert short == [0.5 * wait for wait in long]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 431, 500])
def test_what_is_refused_is_not_sent_again(time: Time, status: int):
    assert status not in TRIED_AGAIN
    one, script = client(refuses(status, "some_code"))
    with pytest.raises(ServiceError) as caught:
        one.decide("ann", {})
    assert len(script.sent) == 1
    assert (caught.value.status, caught.value.code) == (status, "some_code")
    assert caught.value.request == "r1"
    assert caught.value.unknown == (status == 500)


# -- the deadline --------------------------------------------------------------------------------


def test_the_deadline_is_for_all_tries_together(time: Time):
    one, script = client(then=BUSY, deadline=10.0)
    with pytest.raises(ServiceError) as caught:
        one.decide("ann", {})
    # Each wait is a little over 3 s: a fifth try would come too late.
    assert len(script.sent) == 4
    assert time.now <= 110.0
    assert (caught.value.status, caught.value.retry_after) == (503, 3.0)
    assert not caught.value.unknown


def test_a_retry_after_beyond_the_deadline_is_not_waited_for(time: Time):
    one, script = client(then=refuses(429, "too_often", **{"Retry-After": "60"}))
    with pytest.raises(ServiceError, match="429 too_often"):
        one.decide("ann", {})
    assert (len(script.sent), time.slept) == (1, [])


def test_a_try_has_no_more_time_than_is_left(time: Time):
    one, script = client(then=BUSY, deadline=5.0, timeout=4.0)
    left: list[float] = []
    real = script.handle_request

    def watched(request: httpx2.Request) -> httpx2.Response:
        left.append(request.extensions["timeout"]["read"])
        return real(request)

    script.handle_request = watched  # type: ignore[method-assign]
    with pytest.raises(ServiceError):
        one.decide("ann", {})
    assert left[0] == 4.0
    assert left[1] == pytest.approx(5.0 - 3.0 - 0.75 * FIRST_WAIT)


def test_an_answer_that_trickles_is_given_up_at_the_deadline(time: Time):
    def trickle() -> httpx2.Response:
        def parts() -> Iterator[bytes]:
            for _ in range(100):
                time.now += 1.0
                yield b" "

        return httpx2.Response(200, content=parts())

    one, script = client(then=trickle, deadline=5.0)
    with pytest.raises(ServiceError, match="too slowly") as caught:
        one.decide("ann", {})
    assert caught.value.unknown
    assert (len(script.sent), time.now) == (1, 105.0)


# -- what may not be sent twice ------------------------------------------------------------------

ONCE: list[Callable[[Client], object]] = [
    lambda one: one.create("ann", arms=["x"], features=1),
    lambda one: one.change("ann", sigma=0.5),
    lambda one: one.certify("ann", [{}], 0.1, 0.1),
    lambda one: one.calibrate("ann", True),
    lambda one: one.drop_certificate("ann"),
    lambda one: one.begin_audits("ann", q=0.1, delta=0.1),
    lambda one: one.make_token("agent"),
]


@pytest.mark.parametrize("call", ONCE)
@pytest.mark.parametrize("lost", [httpx2.ReadError("reset"), FAILED, says(502, "gateway")])
def test_what_has_no_id_is_not_sent_again_once_it_may_have_arrived(time: Time, call, lost):
    one, script = client(lost, says(200, DONE))
    with pytest.raises(ServiceError) as caught:
        call(one)
    assert len(script.sent) == 1
    assert caught.value.unknown


@pytest.mark.parametrize("call", ONCE)
@pytest.mark.parametrize("lost", [httpx2.ConnectError("refused"), BUSY, OFTEN])
def test_what_did_not_arrive_is_sent_again(time: Time, call, lost):
    one, script = client(lost, refuses(403, "forbidden"))
    with pytest.raises(ServiceError, match="forbidden") as caught:
        call(one)
    assert len(script.sent) == 2
    assert not caught.value.unknown


def test_a_refusal_after_a_lost_try_is_still_unknown(time: Time):
    one, _ = client(httpx2.ReadError("reset"), refuses(401, "no_token"))
    with pytest.raises(ServiceError) as caught:
        one.decide("ann", {})
    assert caught.value.unknown


def test_a_read_that_is_lost_did_nothing(time: Time):
    one, _ = client(then=httpx2.ReadError("reset"), deadline=1.0)
    with pytest.raises(ServiceError) as caught:
        one.agents()
    assert (caught.value.status, caught.value.code) == (None, "no_answer")
    assert not caught.value.unknown


# -- answers that are not bridle's, and errors ---------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        lambda: httpx2.Response(200, content=b"<html>"),
        says(200, []),
        says(200, {"outcome": "decision"}),
        says(404, "nothing"),
        says(404, {"error": "nothing"}),
        lambda: httpx2.Response(307, headers={"Location": "http://elsewhere.test/"}),
    ],
)
def test_answers_of_others_are_no_crash(time: Time, answer):
    one, script = client(then=answer)
    with pytest.raises(ServiceError) as caught:
        one.decide("ann", {})
    assert caught.value.code == "unexpected"
    assert len(script.sent) == 1


@pytest.mark.parametrize("body", [{}, [], {"agents": None}], ids=repr)
def test_an_answer_without_its_list_is_an_error_of_the_service(time: Time, body: Any):
    made, _ = client(says(200, body))
    with pytest.raises(ServiceError, match="no list 'agents'"):
        made.agents()


def test_an_answer_that_is_too_large_is_not_read(time: Time, monkeypatch):
    monkeypatch.setattr(clients, "MAX_ANSWER", 10)
    one, _ = client(says(200, CHOICE))
    with pytest.raises(ServiceError, match="smaller pages"):
        one.decide("ann", {})


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5.0), ("-5", None), ("Wed, 21 Oct 2026", None), ("9" * 12, None)]
)
def test_retry_after_is_whole_seconds(text: str, seconds: float | None):
    assert refusal_of(503, {"retry-after": text}, b"").retry_after == seconds


def test_an_error_can_be_copied_and_keeps_its_facts():
    error = ServiceError(409, "conflict", "No.", field="id", remedy="Another.", unknown=True)
    again = copy.copy(error)
    assert isinstance(again, BridleError)
    assert (str(again), vars(again)) == (str(error), vars(error))


# -- the client itself ---------------------------------------------------------------------------


def test_a_closed_client_says_so():
    one, script = client(says(200, CHOICE))
    with one:
        pass
    with pytest.raises(NotPossible, match="closed"):
        one.decide("ann", {})
    assert script.sent == []


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"url": "service.test"}, "url"),
        ({"url": "ftp://service.test"}, "url"),
        ({"url": "http://ann:secret@service.test"}, "url"),
        ({"url": "http://service.test/?a=1"}, "url"),
        ({"url": "http://service.test:99999"}, "url"),
        ({"url": None}, "url"),
        ({"token": "brd_ü"}, "token"),
        ({"token": "brd_x\nX-Other: 1"}, "token"),
        ({"token": 5}, "token"),
        ({"timeout": 0.0}, "timeout"),
        ({"deadline": float("inf")}, "deadline"),
    ],
)
def test_what_no_client_can_be_made_of(given, name: str):
    with pytest.raises(InvalidValue) as caught:
        Client(**{"url": URL, "token": "brd_x", **given})
    assert caught.value.name == name
    assert "secret" not in str(caught.value)


def test_neither_repr_nor_errors_show_the_token(time: Time):
    one, _ = client(then=httpx2.ReadError("reset"), deadline=1.0)
    assert "brd_x" not in repr(one)
    with pytest.raises(ServiceError) as caught:
        one.agents()
    assert "brd_x" not in str(caught.value)


def test_without_httpx2_the_remedy_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "httpx2", None)
    with pytest.raises(NotPossible, match=r"\[client\]"):
        Client(URL)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), b"bytes"])
def test_what_json_cannot_hold_is_not_sent(value):
    one, script = client(says(200, CHOICE))
    with pytest.raises(InvalidValue):
        one.decide("ann", {"a": value})
    assert script.sent == []


@pytest.mark.parametrize(
    ("module", "without"),
    [("bridle.client", ("numba", "httpx2", "bridle.agent.agent")), ("bridle", ("pydantic",))],
)
def test_importing_stays_light(module, without):
    code = f"import sys, {module}; print([one for one in {without!r} if one in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_without_pydantic_the_remedy_is_said():
    code = "import sys; sys.modules['pydantic'] = None; import bridle.client"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 1 and "[client]" in found.stderr

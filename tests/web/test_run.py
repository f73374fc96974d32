"""A real process on a real port: what uvicorn leaves to us, and how it ends."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the serve extra is not installed")
pytest.importorskip("uvloop", reason="the serve extra is not installed")

from bridle.store.sqlite import SqliteStore

PROGRAM = """
import json, sys
from bridle.server.limits import Limits
from bridle.web.run import ServerSettings, run

def tell(token):
    print(json.dumps({"token": token.text}), flush=True)

def ready(port):
    print(json.dumps({"port": port}), flush=True)

limits = Limits(head_bytes=2_000, head_seconds=float(sys.argv[2]))
run(ServerSettings(db=sys.argv[1], port=0, limits=limits), tell=tell, ready=ready)
"""


class Process:
    """A server in a process of its own."""

    def __init__(self, db: Path, head_seconds: float = 600.0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(db), str(head_seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.token = ""
        self.port = 0
        assert self.process.stdout is not None
        while not self.port:
            line = self.process.stdout.readline()
            if not line:
                _, errors = self.process.communicate()
                pytest.fail(f"the server ended before it was ready:\n{errors}")
            told = json.loads(line)
            self.token = told.get("token", self.token)
            self.port = told.get("port", 0)

    def stop(self) -> str:
        """End it as an operator would; give what it logged."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors
        return errors

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def raw(self, sent: bytes) -> bytes:
        """Send bytes, and give all that comes until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(sent)
            got = b""
            while part := connection.recv(65_536):
                got += part
        return got


@pytest.fixture(scope="module")
def running(tmp_path_factory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("running") / "a.db")
    yield process
    process.stop()


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Process]:
    """Give a server that waits for nobody. Only what is never sent may be tried on it."""
    process = Process(tmp_path / "a.db", head_seconds=0.1)
    yield process
    process.stop()


def refused(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert b"content-type: application/json" in head
    assert b"content-length: %d" % len(body) in head
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def test_a_head_that_is_too_large(running: Process):
    line = b"GET /healthz HTTP/1.1\r\n"
    assert refused(running.raw(line + b"x: " + b"y" * 3_000)) == (431, "head_too_large")
    many = b"".join(b"x-%d: y\r\n" % i for i in range(500))
    assert refused(running.raw(line + many)) == (431, "head_too_large")


def test_a_whole_head_that_is_too_large(running: Process):
    sent = b"GET /healthz HTTP/1.1\r\nconnection: close\r\nx: " + b"y" * 3_000 + b"\r\n\r\n"
    assert refused(running.raw(sent)) == (431, "head_too_large")


def test_a_head_that_does_not_come(hasty: Process):
    for begun in (b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nx: "):
        assert refused(hasty.raw(begun)) == (408, "too_slow")


def test_what_is_no_http(running: Process):
    assert refused(running.raw(b"hello\r\n\r\n")) == (400, "malformed")


def test_a_request_that_comes_in_pieces_and_one_after_it(running: Process):
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection:
        for pieces in (
            (b"GET /hea", b"lthz HTTP/1.1\r\n", b"\r\n"),
            (b"GET /healthz HTTP/1.1\r\n\r\n",),
        ):
            for piece in pieces:
                connection.sendall(piece)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            assert (answer.status, json.load(answer)) == (200, {"status": "ok"})
            assert answer.headers["server"] is None
            answer.close()


def test_no_web_sockets(running: Process):
    sent = (
        b"GET /healthz HTTP/1.1\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n"
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n"
    )
    assert b"101" not in running.raw(sent).split(b"\r\n")[0]


def test_a_life(tmp_path: Path):
    db = tmp_path / "a.db"
    first = Process(db)
    assert first.token.startswith("brd_")
    agent = {"name": "ann", "agent": {"arms": ["a", "b"], "features": 2}}
    first.call("POST", "/v1/agents", agent)
    made = first.call("POST", "/v1/agents/ann/decisions", {"context": [0.5, 0.5]})
    log = first.stop()
    assert first.token.split("_", 2)[2] not in log
    assert '"path": "/v1/agents/ann/decisions"' in log
    # It ended well: what it knew is kept, to begin with the next time.
    store = SqliteStore(db)
    head = store.head("ann")
    assert head is not None
    assert store.snapshots("ann") == [head.seq]
    store.close()
    second = Process(db)
    assert second.token == ""
    second.token = first.token
    again = second.call("POST", "/v1/agents/ann/decisions", {"context": [0.5, 0.5]})
    assert again["version"] > made["version"]
    second.stop()

"""Clients against a server in a process of its own, over connections that are cut."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the serve extra is not installed")
pytest.importorskip("uvicorn", reason="the serve extra is not installed")

from bridle import Flag, Schema
from bridle.client import Client, ServiceError, Trial
from bridle.errors import NotPossible

AGENT: dict[str, Any] = {
    "arms": ["crime", "nature"],
    "features": Schema([Flag("child")]),
    "limits": "rules",
    "seed": 1,
}
CHILD = {"child": True}


class Cutting:
    """A proxy on a socket: passes a request on, waits for the whole answer, and hangs up."""

    def __init__(self, url: str, cuts: int) -> None:
        self.cuts = cuts
        self.count = 0
        self._host, _, port = url.removeprefix("http://").partition(":")
        self._port = int(port)
        self._door = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            caller, _ = self._door.accept()
            with caller:
                request = read_message(caller)
                if request is None:
                    return
                with socket.create_connection((self._host, self._port)) as service:
                    service.sendall(request)
                    answer = read_message(service)
                self.count += 1
                if self.count > self.cuts and answer is not None:
                    caller.sendall(answer)

    def close(self) -> None:
        socket.create_connection(self._door.getsockname()).close()
        self._thread.join()
        self._door.close()


def read_message(stream: socket.socket) -> bytes | None:
    """Read one message with a Content-Length, or none; None if there is nothing."""
    read = b""
    while b"\r\n\r\n" not in read:
        part = stream.recv(65_536)
        if not part:
            return None
        read += part
    head, _, body = read.partition(b"\r\n\r\n")
    lengths = [
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    while len(body) < sum(lengths):
        body += stream.recv(65_536)
    return head + b"\r\n\r\n" + body


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    with Trial() as trial:
        yield trial


def test_a_server_that_does_not_start(monkeypatch):
    false = shutil.which("false")
    assert false is not None
    monkeypatch.setattr("bridle.client.trial.sys", SimpleNamespace(executable=false))
    with pytest.raises(NotPossible, match="did not start"):
        Trial()


def test_a_connection_that_is_cut_after_the_commit(trial: Trial):
    with trial.client() as client:
        client.create("ann", **AGENT)
        client.teach("ann", CHILD, "nature", True)
    proxy = Cutting(trial.url, cuts=2)
    try:
        with Client(proxy.url, trial.token) as client:
            choice = client.decide("ann", CHILD)
    finally:
        proxy.close()
    assert proxy.count == 3
    with trial.client() as client:
        decided = [one.event for one in client.events("ann") if one.kind == "Decided"]
        assert [one["id"] for one in decided if one is not None] == [choice.id]


def test_nobody_is_there():
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    client = Client(f"http://127.0.0.1:{port}", deadline=0.2)
    with client, pytest.raises(ServiceError) as caught:
        client.health()
    assert (caught.value.code, caught.value.unknown) == ("no_answer", False)


def test_an_agent_that_was_made_and_not_heard_of(trial: Trial):
    proxy = Cutting(trial.url, cuts=1)
    try:
        with Client(proxy.url, trial.token) as client, pytest.raises(ServiceError) as caught:
            client.create("bob", **AGENT)
    finally:
        proxy.close()
    assert caught.value.unknown
    assert proxy.count == 1
    with trial.client() as client:
        assert client.agent("bob").version == 1

"""A service to test, and a client that speaks ASGI to it, without any network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bridle.server.endpoints import Call, Endpoint, Reply, Role
from bridle.server.limits import Limits
from bridle.server.service import Service
from bridle.server.table import endpoints
from bridle.server.tokens import NewToken, make_token
from bridle.store.log import Store
from bridle.store.sqlite import SqliteStore
from bridle.web.app import App

ERROR_KEYS = {"code", "message", "field", "remedy", "request"}


class Clock:
    """A clock that stands until it is set."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """What went wrong; the whole shape is checked on the way."""
        assert set(self.json) == {"error"}
        error = self.json["error"]
        assert set(error) == ERROR_KEYS
        assert error["request"] == self.headers["x-request-id"]
        assert error["message"] and "Traceback" not in error["message"]
        assert self.headers["content-type"] == "application/json"
        return str(error["code"])


class Server:
    """A service on a store of its own, in an event loop of its own."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: Limits | None = None,
        more: Sequence[Endpoint] = (),
        store: Store | None = None,
    ) -> None:
        self.runner = asyncio.Runner()
        self.clock = Clock()
        self.steady = Clock(0.0)
        self._owns = store is None
        self.store = SqliteStore(folder / "service.db") if store is None else store
        self.service = Service(
            self.store, limits=limits or Limits(), clock=self.clock, steady=self.steady
        )
        self.first = self.runner.run(self.service.start(ticking=False))
        self.app = App(self.service, (*endpoints(), *more))
        self.token = self.first.text if self.first is not None else ""

    def close(self) -> None:
        self.runner.run(self.service.stop())
        if self._owns:
            self.store.close()
        self.runner.close()

    def grant(self, role: Role, agents: tuple[str, ...] | None = None, **more: Any) -> NewToken:
        made = make_token(role, now=self.clock.now, agents=agents, **more)
        self.runner.run(self.service.tokens.add(made))
        return made

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: Iterable[tuple[str, str]] = (),
        parts: Sequence[bytes | None] | None = None,
        length: bool = True,
    ) -> Answer:
        """Send a request. `parts` are raw pieces of a body; None among them: nothing ever comes."""
        given = [(name.lower().encode(), value.encode()) for name, value in headers]
        names = {name for name, _ in given}
        if token is not None and b"authorization" not in names:
            given.append((b"authorization", f"Bearer {token or self.token}".encode()))
        if body is not None:
            parts = [body if isinstance(body, bytes) else json.dumps(body).encode()]
        if parts is not None:
            if b"content-type" not in names:
                given.append((b"content-type", b"application/json"))
            if length:
                size = sum(len(part or b"") for part in parts)
                given.append((b"content-length", b"%d" % size))
            else:
                given.append((b"transfer-encoding", b"chunked"))
        return self.runner.run(self._call(method, path, given, list(parts or [b""])))

    async def _call(
        self,
        method: str,
        path: str,
        headers: list[tuple[bytes, bytes]],
        parts: list[bytes | None],
    ) -> Answer:
        bare, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": bare,
            "raw_path": bare.encode(),
            "query_string": query.encode(),
            "headers": headers,
        }
        sent: list[Any] = []
        self.read = 0

        async def receive() -> dict[str, Any]:
            part = parts[self.read] if self.read < len(parts) else None
            self.read += 1
            if part is None:  # nothing comes, and nobody hangs up
                await asyncio.get_running_loop().create_future()
            return {"type": "http.request", "body": part, "more_body": self.read < len(parts)}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start, *rest = sent
        body = b"".join(message["body"] for message in rest)
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        assert len(found) == len(start["headers"])
        if start["status"] in (204, 304):
            assert not body and "content-length" not in found
        elif len(rest) == 1 or not rest[0].get("more_body"):  # else it came piece by piece
            assert found["content-length"] == str(len(body))
        return Answer(start["status"], found, body)


def endpoint(path: str, handle: Any, **more: Any) -> Endpoint:
    """Give a row for a test's own handler."""
    given: dict[str, Any] = {
        "method": "GET",
        "roles": ("agent", "admin"),
        "summary": "For a test",
        "replies": {200: (dict[str, Any], "Fine")},
    }
    return Endpoint(path=path, handle=handle, **(given | more))


async def fine(call: Call) -> Reply:
    """Tell what was given."""
    return Reply(200, {"path": dict(call.path), "caller": call.caller and call.caller.id})


async def never(call: Call) -> Reply:
    """Take for ever."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError

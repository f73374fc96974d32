"""The API as an ASGI application: every request goes through one function, from top to bottom.

Pure ASGI and no framework: what a request costs beside its decision is a few lookups, one hash of a
token, one pass over the body and one over the answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json

from bridle.server import guards
from bridle.server.endpoints import Call, Caller, Endpoint, Reply, Role
from bridle.server.guards import Gone, Head, Receive, Scope, Send
from bridle.server.openapi import document
from bridle.server.problems import Problem, later, problem_of, wrong_form
from bridle.server.routing import QueryReader, Routes, parts_of
from bridle.server.service import Service
from bridle.server.table import endpoints
from bridle.web.site import Site

__all__ = ["App", "create_app"]

access = logging.getLogger("bridle.access")

JSON = "application/json"
HUNG_UP = 499  # in metrics and logs; nobody gets it as an answer


class _Row:
    """An endpoint with all that can be prepared once."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.handle = endpoint.handle
        self.roles: frozenset[Role] | None = None
        if endpoint.roles is not None:
            self.roles = frozenset(endpoint.roles)
        self.query = QueryReader(endpoint.query)
        self.body: TypeAdapter[Any] | None = None
        self.may_be_empty = False
        if endpoint.body is not None:
            self.body = TypeAdapter(endpoint.body)
            self.may_be_empty = takes_none(self.body)
        self.media = {
            status: (what if isinstance(what, str) else JSON).encode()
            for status, (what, _) in endpoint.replies.items()
        }


class _Answer(NamedTuple):
    status: int
    media: bytes
    payload: bytes
    headers: Mapping[str, str]


class App:
    """The application. `table` is what it is made of."""

    def __init__(self, service: Service, table: Sequence[Endpoint]) -> None:
        self.service = service
        self.table = tuple(table)
        self._routes: Routes[_Row] = Routes()
        for endpoint in self.table:
            self._routes.add(endpoint.method, endpoint.path, _Row(endpoint))
        service.document = to_json(document(self.table))
        self._site = Site(service, self.table)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await send({"type": "websocket.close"})

    # -- one request -------------------------------------------------------------------------

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self.service
        began = time.perf_counter()
        head = guards.read_head(scope, service.limits)
        row: _Row | None = None
        caller: Caller | None = None
        status = HUNG_UP
        raw_path = _raw_path(scope)
        if self._site.is_for(scope, raw_path):
            await self._page(scope, head, raw_path, receive, send, began)
            return
        service.in_flight += 1
        try:
            try:
                guards.check_head(scope, service.limits)
                row, path = self._routes.find(scope["method"], parts_of(raw_path))
                if row.roles is not None:
                    self._check_crowd()
                    await service.tokens.fresh()
                    caller = service.tokens.caller(head.authorization)
                    service.tokens.spend(caller)
                    guards.check_rights(caller, row.roles, path.get("agent"))
                answer = await self._handled(row, caller, path, scope, head, receive)
            except Gone:
                return
            except Exception as error:
                answer = _told(problem_of(error), head)
            status = answer.status
            await _send(answer, head, service.limits.body_bytes, send)
        finally:
            service.in_flight -= 1
            seconds = time.perf_counter() - began
            label = "-" if row is None else row.endpoint.path
            method = "-" if row is None else row.endpoint.method
            service.metrics.answered(method, label, status, seconds)
            if access.isEnabledFor(logging.INFO):
                _log(scope, head, caller, status, seconds)

    async def _page(
        self, scope: Scope, head: Head, path: bytes, receive: Receive, send: Send, began: float
    ) -> None:
        service = self.service
        service.in_flight += 1
        status, label, caller = HUNG_UP, "page", None
        try:
            status, label, caller = await self._site.answer(scope, head, path, receive, send)
        finally:
            service.in_flight -= 1
            seconds = time.perf_counter() - began
            method = scope["method"] if scope["method"] in ("GET", "POST") else "-"
            service.metrics.answered(method, label, status, seconds)
            if access.isEnabledFor(logging.INFO):
                _log(scope, head, caller, status, seconds)

    async def _handled(
        self,
        row: _Row,
        caller: Caller | None,
        path: Mapping[str, str],
        scope: Scope,
        head: Head,
        receive: Receive,
    ) -> _Answer:
        limits = self.service.limits
        query = row.query.read(scope["query_string"])
        form: Any = None
        reading = row.body is not None
        try:
            async with asyncio.timeout(
                limits.read_seconds if reading else limits.answer_seconds
            ) as deadline:
                if row.body is not None:
                    form = await self._read(row, row.body, head, receive)
                    reading = False
                    now = asyncio.get_running_loop().time()
                    deadline.reschedule(now + limits.answer_seconds)
                reply = await row.handle(Call(self.service, caller, path, query, form))
        except TimeoutError:
            if not deadline.expired():
                raise
            raise _late(reading, limits.read_seconds, limits.answer_seconds) from None
        end = self.service.head_of(path["agent"]) if "agent" in path else None
        if end is not None:
            reply = reply._replace(headers={**reply.headers, "bridle-head": str(end)})
        return _written(row, reply)

    async def _read(
        self, row: _Row, adapter: TypeAdapter[Any], head: Head, receive: Receive
    ) -> Any:
        if row.may_be_empty and not head.has_body:
            return None
        body = await guards.read_body(head, receive, self.service.limits)
        try:
            form = adapter.validate_json(body)
        except ValidationError as error:
            raise wrong_form(error) from None
        guards.check_json(body, form)
        return form

    def _check_crowd(self) -> None:
        service = self.service
        if service.in_flight > service.limits.in_flight:
            raise Problem(
                "busy", f"{service.in_flight - 1:,} requests are under way.", headers=later(1.0)
            )

    # -- the server's beginning and end ------------------------------------------------------

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        mine = False
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                if not self.service.running:
                    await self.service.start()
                    mine = True
                await send({"type": "lifespan.startup.complete"})
            else:
                if mine:
                    await self.service.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


def create_app(service: Service) -> App:
    """Give the application of a service.

    Who starts the service by hand gets its first admin token from `Service.start`; a server that
    knows ASGI's lifespan starts it otherwise, and shows no token.
    """
    return App(service, endpoints(open_metrics=service.limits.open_metrics))


def takes_none(adapter: TypeAdapter[Any]) -> bool:
    """Say whether a body may be left out."""
    try:
        adapter.validate_python(None)
    except ValidationError:
        return False
    return True


def _raw_path(scope: Scope) -> bytes:
    raw: bytes | None = scope.get("raw_path")
    return raw if raw is not None else str(scope["path"]).encode()


def _written(row: _Row, reply: Reply) -> _Answer:
    status, body, headers = reply
    media = row.media[status]
    if isinstance(body, bytes):
        payload = body
    elif media != b"application/json":
        payload = body.encode() if body is not None else b""
    elif isinstance(body, BaseModel):
        payload = body.__pydantic_serializer__.to_json(body)
    else:
        payload = to_json(body, inf_nan_mode="null")
    return _Answer(status, media, payload, headers)


def _told(problem: Problem, head: Head) -> _Answer:
    payload = to_json(problem.body(head.id))
    return _Answer(problem.status, b"application/json", payload, problem.headers)


async def _send(answer: _Answer, head: Head, most: int, send: Send) -> None:
    status, media, payload, more = answer
    headers = [
        (b"content-length", b"%d" % len(payload)),
        (b"x-request-id", head.id.encode()),
        *guards.SECURITY,
    ]
    if status != 204:
        headers.append((b"content-type", media))
    for name, value in more.items():
        headers.append((name.lower().encode(), value.encode()))
    endless = head.has_body and (head.length is None or head.length > most)
    if status == 408 or (status >= 400 and endless):
        # The rest of the body is not waited for, however long it may be.
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": payload})


def _late(reading: bool, read: float, answer: float) -> Problem:
    if reading:
        return Problem("too_slow", f"A body must come within {read:g} s.")
    return Problem(
        "timed_out",
        f"It was not done within {answer:g} s.",
        remedy="It may be done all the same: send it again with the same id.",
        headers=later(1.0),
    )


def _log(scope: Scope, head: Head, caller: Caller | None, status: int, seconds: float) -> None:
    """Write one line. The query is left out: what stands there is the client's."""
    line = {
        "at": round(time.time(), 3),
        "request": head.id,
        "method": scope["method"],
        "path": guards.without_secrets(scope["path"][:200]),
        "status": status,
        "ms": round(1_000.0 * seconds, 3),
        "token": None if caller is None else caller.id,
    }
    access.info(json.dumps(line))

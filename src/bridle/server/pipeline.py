"""The way of a request: one pipeline for the API and the pages, around Starlette's router.

`Pipeline` is the middleware around all routes: it reads the head, counts what is under way, turns
errors into answers, adds the headers that every answer has, and writes metrics and the access log.
Inside of it an `Address` finds the row for the method, and the row's adapter does the rest: an
`ApiRow` here, a page's in `bridle.web.app`. Both `admit` callers and hold to the same `deadlines`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridle.server.endpoints import (
    MAX_PART,
    Call,
    Caller,
    Endpoint,
    QueryReader,
    Reply,
    Role,
    may_be_empty,
)
from bridle.server.limits import Limits
from bridle.server.problems import Problem, problem_of, retry_after, wrong_form
from bridle.server.service import Service

__all__ = [
    "API_HEADERS",
    "PAGE_HEADERS",
    "Address",
    "ApiRow",
    "Exchange",
    "Pipeline",
    "admit",
    "deadlines",
    "routes_of",
]

access = logging.getLogger("bridle.access")
T = TypeVar("T")

JSON = "application/json"
HUNG_UP = 499  # in metrics and logs; nobody gets it as an answer
NOT_FOUND = "There is nothing at this address."

# In every answer of the API: data, of which nothing may run, be framed or be cached by others.
API_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
# In every page; whether it may be cached, it says itself.
PAGE_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"vary", b"Cookie"),
)

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TOKEN = re.compile(r"brd_[A-Za-z0-9]*(_[A-Za-z0-9_-]*)?")
_ids = itertools.count(1)
_process = secrets.token_hex(6)


# --- One request ------------------------------------------------------------------------------


class Exchange:
    """What is known of one request and its answer; it stands in the scope, as "bridle".

    Attributes
    ----------
    id : str
        The client's own, if it is a safe one.
    path : str
        As the server has decoded it, for people and logs. The scope's path is still encoded: see
        `encoded_path`.
    authorization : bytes or None
        The header; empty if there are two of them.
    content_type : bytes
        The header; "(encoded)" if the body is compressed.
    length : int or None
        The declared length of the body.
    has_body : bool
        Whether a body is announced.
    caller : Caller or None
        Set once the caller is known.
    route : str or None
        The row's path, set once it is found.
    is_page : bool or None
        Whether the answer is for a person; None: not known yet.
    status : int
        Of the answer, once it is under way.
    """

    __slots__ = (
        "authorization",
        "caller",
        "content_type",
        "has_body",
        "id",
        "is_page",
        "length",
        "path",
        "route",
        "size",
        "status",
    )

    def __init__(self, scope: Scope, max_body: int) -> None:
        authorization, content_type, encoding, asked = None, b"", b"", b""
        length: int | None = None
        chunked = False
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        for name, value in scope["headers"]:
            size += len(name) + len(value)
            if name == b"authorization":
                # Two of them: whose request is it?
                authorization = value if authorization is None else b""
            elif name == b"content-type":
                content_type = value
            elif name == b"content-length":
                length = int(value) if value.isdigit() and len(value) < 16 else max_body + 1
            elif name == b"transfer-encoding":
                chunked = True
            elif name == b"content-encoding":
                encoding = value
            elif name == b"x-request-id":
                asked = value
        safe = asked and _REQUEST_ID.fullmatch(asked)
        self.id = asked.decode() if safe else f"{_process}{next(_ids):08x}"
        self.path: str = scope["path"]
        self.authorization = authorization
        self.content_type = content_type if encoding in (b"", b"identity") else b"(encoded)"
        self.length = length
        self.has_body = chunked or bool(length)
        self.size = size
        self.caller: Caller | None = None
        self.route: str | None = None
        self.is_page: bool | None = None
        self.status = HUNG_UP

    def check_size(self, scope: Scope, limits: Limits) -> None:
        """Raise a 431 if the head is too large. The server has stopped reading it long before."""
        if len(scope["headers"]) > limits.head_fields:
            raise Problem("head_too_large", f"There are over {limits.head_fields} headers.")
        if self.size > limits.head_bytes:
            raise Problem("head_too_large", f"The headers have over {limits.head_bytes:,} bytes.")

    async def read_body(self, receive: Receive, limits: Limits) -> bytes:
        """Return the body; raise a 413 as soon as it is too large."""
        most = limits.body_bytes
        if self.length is not None and self.length > most:
            raise _too_large(most)
        message = await receive()
        if not message.get("more_body") and message["type"] == "http.request":
            body = message.get("body", b"")  # all at once, as nearly always
            if len(body) > most:
                raise _too_large(most)
            return bytes(body)
        parts: list[bytes] = []
        size = 0
        while True:
            if message["type"] != "http.request":
                raise ClientDisconnect
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                raise _too_large(most)
            parts.append(part)
            if not message.get("more_body"):
                return b"".join(parts)
            message = await receive()


def _too_large(most: int) -> Problem:
    return Problem("too_large", f"A body may have {most:,} bytes.", remedy="Send it in parts.")


async def admit(
    exchange: Exchange,
    service: Service,
    header: bytes | None,
    roles: frozenset[Role],
    agent: str | None,
) -> Caller:
    """Return who calls; raise a 503 in a crowd, a 401 or 403 without the right, a 429 too often."""
    if service.in_flight > service.limits.in_flight:
        raise Problem(
            "busy",
            f"{service.in_flight - 1:,} requests are under way.",
            headers=retry_after(1.0),
        )
    exchange.caller = caller = await service.tokens.admit(header, roles, agent)
    return caller


async def deadlines(
    exchange: Exchange,
    limits: Limits,
    read: Callable[[], Awaitable[Any]] | None,
    handle: Callable[[Any], Awaitable[T]],
) -> T:
    """Read the body, if there is one to read, and handle the request, each within its time."""
    reading, body = read is not None, None
    try:
        async with asyncio.timeout(
            limits.read_seconds if reading else limits.answer_seconds
        ) as deadline:
            if read is not None:
                body = await read()
                reading = False
                now = asyncio.get_running_loop().time()
                deadline.reschedule(now + limits.answer_seconds)
            return await handle(body)
    except TimeoutError:
        if not deadline.expired():
            raise
    if reading:
        raise Problem("too_slow", f"A body must come within {limits.read_seconds:g} s.")
    again = "It may be done all the same: send it again with the same id."
    raise Problem(
        "timed_out",
        f"It was not done within {limits.answer_seconds:g} s.",
        remedy=None if exchange.is_page else again,
        headers=retry_after(1.0),
    )


# --- Around all routes ------------------------------------------------------------------------


class Pipeline:
    """Middleware: from the head of a request to its line in the log.

    Parameters
    ----------
    app : ASGI application
        The routes.
    service : Service
        Its limits, counts and tokens.
    problem_page : callable
        Returns a problem as a page, or None if the request is for the API.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        service: Service,
        problem_page: Callable[[Scope, Exchange, Problem], Awaitable[Response | None]],
    ) -> None:
        self.app = app
        self.service = service
        self.problem_page = problem_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http":  # the lifespan
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        service, limits = self.service, self.service.limits
        exchange = scope["bridle"] = Exchange(scope, limits.body_bytes)

        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                message["headers"] = _with_ours(message["headers"], exchange, limits.body_bytes)
            await send(message)

        service.in_flight += 1
        try:
            exchange.check_size(scope, limits)
            scope["path"] = encoded_path(scope)
            await self.app(scope, receive, respond)
        except ClientDisconnect:
            pass
        except Exception as error:
            if exchange.status != HUNG_UP:  # half of an answer is sent: the server must cut it off
                raise
            response = await self._response_to(scope, exchange, problem_of(error))
            await response(scope, receive, respond)
        finally:
            service.in_flight -= 1
            _record(service, scope, exchange, time.perf_counter() - began)

    async def _response_to(self, scope: Scope, exchange: Exchange, problem: Problem) -> Response:
        page = await self.problem_page(scope, exchange, problem)
        if page is not None:
            return page
        body = to_json(problem.body(exchange.id))
        return Response(body, problem.status, problem.headers, JSON)


def _with_ours(
    headers: Iterable[tuple[bytes, bytes]], exchange: Exchange, most: int
) -> list[tuple[bytes, bytes]]:
    ours = PAGE_HEADERS if exchange.is_page else API_HEADERS
    found = [*headers, (b"x-request-id", exchange.id.encode()), *ours]
    status = exchange.status
    if status >= 400:
        endless = exchange.has_body and (exchange.length is None or exchange.length > most)
        if endless or status == 408:
            # The rest of the body is not waited for, however long it may be.
            found.append((b"connection", b"close"))
    return found


def _record(service: Service, scope: Scope, exchange: Exchange, seconds: float) -> None:
    """Count a request and log it. The query is left out of the log: it is the client's."""
    method, route = scope["method"], exchange.route
    if route is None:
        route = "page -" if exchange.is_page else "-"
    if exchange.route is None and not (exchange.is_page and method in ("GET", "POST")):
        method = "-"
    service.metrics.answered(method, route, exchange.status, seconds)
    if access.isEnabledFor(logging.INFO):
        line = {
            "at": round(time.time(), 3),
            "request": exchange.id,
            "method": scope["method"],
            "path": without_secrets(exchange.path[:200]),
            "status": exchange.status,
            "ms": round(1_000.0 * seconds, 3),
            "token": None if exchange.caller is None else exchange.caller.id,
        }
        access.info(json.dumps(line))


def without_secrets(text: str) -> str:
    """Return a text in which no token can be read: what follows its id is cut out."""
    return _TOKEN.sub("brd_…", text) if "brd_" in text else text


# --- Routes -----------------------------------------------------------------------------------


def encoded_path(scope: Scope) -> str:
    """Return the path, percent-encoded in one way only; raise a 400 if it is not UTF-8.

    Routes match it before it is decoded, so that a name may hold a slash, as "%2F".
    """
    raw = scope.get("raw_path")
    try:
        path: str = scope["path"] if raw is None else raw.decode("ascii")
        if "%" in path:
            return "/".join(quote(unquote(p, errors="strict"), safe="") for p in path.split("/"))
        return path.encode("ascii").decode("ascii") if raw is None else path
    except UnicodeError:
        raise Problem("malformed", "The path is not percent-encoded UTF-8.") from None


class _Name(Convertor[str]):
    """A name in a path: one part of it, decoded."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        name = unquote(value) if "%" in value else value
        if len(name) > MAX_PART or not name.isprintable():
            raise Problem("not_found", NOT_FOUND, remedy="See /openapi.json.")
        return name

    def to_string(self, value: str) -> str:
        return quote(value, safe="")


register_url_convertor("bridle_name", _Name())


class Address:
    """All rows of one path, by method: an ASGI application."""

    def __init__(self, rows: Mapping[str, ASGIApp], *, is_page: bool) -> None:
        self._rows = rows
        self._is_page = is_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the row of the method, or raise a 405."""
        scope["bridle"].is_page = self._is_page
        row = self._rows.get(scope["method"])
        if row is None:
            allowed = ", ".join(sorted(self._rows))
            raise Problem(
                "wrong_method", f"This address takes {allowed} only.", headers={"Allow": allowed}
            )
        await row(scope, receive, send)


def routes_of(
    rows: Iterable[tuple[str, str, ASGIApp]], *, is_page: bool = False, first: str = "-"
) -> list[Route]:
    """Return the routes of rows (method, path, application), one for each path.

    A fixed part comes before a name at the same place. Starlette tries one route after the other:
    paths that begin with `first` are tried before all others.
    """
    paths: dict[str, dict[str, ASGIApp]] = {}
    shapes: dict[str, str] = {}
    for method, path, app in rows:
        shape = re.sub(r"\{\w+\}", "{}", path)
        if shapes.setdefault(shape, path) != path:
            raise ValueError(f"{path} and {shapes[shape]} are the same address")
        if method in paths.setdefault(path, {}):
            raise ValueError(f"{method} {path} stands twice in the table")
        paths[path][method] = app

    def order(path: str) -> tuple[bool, list[bool]]:
        return not path.startswith(first), [part.startswith("{") for part in path.split("/")]

    return [
        Route(
            re.sub(r"\{(\w+)\}", r"{\1:bridle_name}", path), Address(paths[path], is_page=is_page)
        )
        for path in sorted(paths, key=order)
    ]


# --- A row of the API -------------------------------------------------------------------------


class ApiRow:
    """An endpoint as an ASGI application, with all that can be prepared once."""

    def __init__(self, endpoint: Endpoint, service: Service) -> None:
        self._service = service
        self._path = endpoint.path
        self._handle = endpoint.handle
        self._roles = None if endpoint.roles is None else frozenset(endpoint.roles)
        self._query = QueryReader(endpoint.query)
        self._takes_query = endpoint.query is not None
        self._body: TypeAdapter[Any] | None = None
        self._may_be_empty = False
        if endpoint.body is not None:
            self._body = TypeAdapter(endpoint.body)
            self._may_be_empty = may_be_empty(self._body)
        self._media = {
            status: what if isinstance(what, str) else JSON
            for status, (what, _) in endpoint.replies.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange: Exchange = scope["bridle"]
        exchange.route = self._path
        service, path = self._service, scope["path_params"]
        agent = path.get("agent")
        caller = None
        if self._roles is not None:
            caller = await admit(exchange, service, exchange.authorization, self._roles, agent)
        query = None
        if self._takes_query or scope["query_string"]:
            query = self._query.read(scope["query_string"])
        adapter = self._body
        reply = await deadlines(
            exchange,
            service.limits,
            None if adapter is None else lambda: self._read(adapter, exchange, receive),
            lambda body: self._handle(Call(service, caller, path, query, body)),
        )
        headers = dict(reply.headers)
        head = None if agent is None else service.head_of(agent)
        if head is not None:
            headers["bridle-head"] = str(head)
        await self._response(reply, headers)(scope, receive, send)

    async def _read(
        self, adapter: TypeAdapter[Any], exchange: Exchange, receive: Receive
    ) -> object:
        if self._may_be_empty and not exchange.has_body:
            return None
        if exchange.content_type.partition(b";")[0].strip().lower() != b"application/json":
            raise Problem(
                "no_json",
                "The body must be JSON, as it is.",
                remedy="Send the header 'Content-Type: application/json', and no Content-Encoding.",
            )
        body = await exchange.read_body(receive, self._service.limits)
        try:
            form = adapter.validate_json(body)
        except ValidationError as error:
            raise wrong_form(error) from None
        check_json(body, form)
        return form

    def _response(self, reply: Reply, headers: Mapping[str, str]) -> Response:
        status, body, _ = reply
        media = self._media[status]
        if isinstance(body, bytes) or media != JSON:
            payload = body
        elif isinstance(body, BaseModel):
            payload = body.__pydantic_serializer__.to_json(body)
        else:
            payload = to_json(body, inf_nan_mode="null")
        return Response(payload, status, headers, None if status == 204 else media)


def check_json(body: bytes, parsed: object) -> None:
    """Raise a 400 for what pydantic lets pass: NaN where anything may stand, and repeated names.

    Both are rare, and a full look is slow. So it is taken only if the bytes give a reason: if there
    are more colons than names in what was read.
    """
    if body.count(b":") != _names(parsed) or b"NaN" in body or b"Infinity" in body:
        try:
            json.loads(body, object_pairs_hook=_unique, parse_constant=_no_constant)
        except RecursionError:
            raise Problem("malformed", "The body is nested too deeply.", field="body") from None


def _names(value: object) -> int:
    if isinstance(value, BaseModel):
        given = value.model_fields_set
        fields = value.__dict__
        return len(given) + sum(_names(fields[name]) for name in given)
    if isinstance(value, dict):
        return len(value) + sum(_names(inner) for inner in value.values())
    if isinstance(value, list | tuple):
        # Long rows of numbers are nearly all there is: their types tell, in one go.
        if _PLAIN.issuperset(map(type, value)):
            return 0
        return sum(_names(inner) for inner in value)
    return 0


_PLAIN = frozenset({float, int, str, bool, type(None)})


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Problem(
            "malformed", f"The name {twice[:100]!r} stands twice in an object.", field="body"
        )
    return found


def _no_constant(name: str) -> object:
    raise Problem("malformed", f"{name} is no number of JSON.", field="body")

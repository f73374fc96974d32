"""What every request must pass before a handler sees it. Pure functions and plain ASGI."""

from __future__ import annotations

import itertools
import json
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple, TypeAlias

from pydantic import BaseModel

from bridle.server.endpoints import Caller, Role
from bridle.server.limits import Limits
from bridle.server.problems import Problem

__all__ = [
    "SECURITY",
    "Gone",
    "Head",
    "Receive",
    "Scope",
    "Send",
    "check_json",
    "check_rights",
    "read_body",
    "read_bytes",
    "read_head",
    "without_secrets",
]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

# In every answer. The API gives data, and nothing of it may run, be framed or be kept by others.
SECURITY: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TOKEN = re.compile(r"brd_[A-Za-z0-9]*(_[A-Za-z0-9_-]*)?")
_ids = itertools.count(1)
_process = secrets.token_hex(6)


class Gone(Exception):
    """The client hung up: there is nobody to answer to."""


class Head(NamedTuple):
    """What is of interest among a request's headers."""

    id: str
    authorization: bytes | None
    content_type: bytes
    length: int | None
    has_body: bool


def read_head(scope: Scope, limits: Limits) -> Head:
    """Read the headers once; the id of the request is the client's if it is a safe one."""
    authorization, content_type, encoding = None, b"", b""
    length: int | None = None
    chunked = False
    asked = b""
    headers = scope["headers"]
    for name, value in headers:
        if name == b"authorization":
            # Two of them: whose request is it?
            authorization = value if authorization is None else b""
        elif name == b"content-type":
            content_type = value
        elif name == b"content-length":
            length = int(value) if value.isdigit() and len(value) < 16 else limits.body_bytes + 1
        elif name == b"transfer-encoding":
            chunked = True
        elif name == b"content-encoding":
            encoding = value
        elif name == b"x-request-id":
            asked = value
    id = asked.decode() if _REQUEST_ID.fullmatch(asked) else f"{_process}{next(_ids):08x}"
    if encoding not in (b"", b"identity"):
        content_type = b"(encoded)"
    return Head(id, authorization, content_type, length, chunked or bool(length))


def check_head(scope: Scope, limits: Limits) -> None:
    """Refuse too many headers, or too large ones. The server has stopped reading them long ago."""
    headers = scope["headers"]
    if len(headers) > limits.head_fields:
        raise Problem("head_too_large", f"There are over {limits.head_fields} headers.")
    size = len(scope.get("raw_path", b"")) + len(scope.get("query_string", b""))
    for name, value in headers:
        size += len(name) + len(value)
    if size > limits.head_bytes:
        raise Problem("head_too_large", f"The headers have over {limits.head_bytes:,} bytes.")


def check_rights(caller: Caller, roles: frozenset[Role], agent: str | None) -> None:
    """Refuse a role that may not, and an agent that the token is not for."""
    if caller.role not in roles:
        raise Problem(
            "forbidden",
            f"A token of the role {caller.role!r} may not do this.",
            remedy=f"It takes one of: {', '.join(sorted(roles))}.",
        )
    if agent is not None and caller.agents is not None and agent not in caller.agents:
        raise Problem("forbidden", "The token is not for this agent.", field="agent")


async def read_body(head: Head, receive: Receive, limits: Limits) -> bytes:
    """Read a body of JSON, counting; refuse it as soon as it is too large."""
    if head.content_type.partition(b";")[0].strip().lower() != b"application/json":
        raise Problem(
            "no_json",
            "The body must be JSON, as it is.",
            remedy="Send the header 'Content-Type: application/json', and no Content-Encoding.",
        )
    return await read_bytes(head, receive, limits)


async def read_bytes(head: Head, receive: Receive, limits: Limits) -> bytes:
    """Read a body of any kind, counting; refuse it as soon as it is too large."""
    most = limits.body_bytes
    if head.length is not None and head.length > most:
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
            raise Gone
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()


def check_json(body: bytes, parsed: object) -> None:
    """Refuse what pydantic lets pass: NaN where anything may stand, and names that stand twice.

    Both are rare, and a full look is slow. So it is taken only if the bytes give a reason: if there
    are more colons than names in what was read.
    """
    if body.count(b":") != _names(parsed) or b"NaN" in body or b"Infinity" in body:
        try:
            json.loads(body, object_pairs_hook=_once, parse_constant=_refuse)
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
        # Long rows of numbers are nearly all there is: they are told by their types, in one go.
        if _PLAIN.issuperset(map(type, value)):
            return 0
        return sum(_names(inner) for inner in value)
    return 0


_PLAIN = frozenset({float, int, str, bool, type(None)})


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Problem(
            "malformed", f"The name {twice[:100]!r} stands twice in an object.", field="body"
        )
    return found


def _refuse(name: str) -> object:
    raise Problem("malformed", f"{name} is no number of JSON.", field="body")


def without_secrets(text: str) -> str:
    """Give a text in which no token can be read; what follows its id is cut out."""
    return _TOKEN.sub("brd_…", text) if "brd_" in text else text


def _too_large(most: int) -> Problem:
    return Problem("too_large", f"A body may have {most:,} bytes.", remedy="Send it in parts.")

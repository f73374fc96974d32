"""Answers that come piece by piece: read until enough is there, and then leave."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.server.driving import Answer
from tests.web.browsing import HOST, Person


def stream(
    person: Person,
    path: str,
    *,
    until: Callable[[bytes], bool] = lambda body: False,
    during: Callable[[int], Awaitable[None]] | None = None,
    **headers: str,
) -> Answer:
    """Read an answer to its end, or until it holds what is wanted.

    `during` is called with the number of pieces that came so far, after each of them.
    """
    bare, _, query = path.partition("?")
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    given += [(b"host", HOST.encode()), (b"cookie", person.cookie.encode())]
    scope = {
        "type": "http",
        "method": "GET",
        "path": bare,
        "raw_path": bare.encode(),
        "query_string": query.encode(),
        "headers": given,
    }
    sent: list[Any] = []

    async def run() -> None:
        left = asyncio.Event()
        asked = False

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            if message["type"] == "http.response.body":
                if during is not None:
                    await during(len(sent) - 1)
                if until(b"".join(one["body"] for one in sent[1:])):
                    left.set()

        async with asyncio.timeout(30.0):
            await person.server.app(scope, receive, send)

    person.server.runner.run(run())
    start, *rest = sent
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(message["body"] for message in rest))

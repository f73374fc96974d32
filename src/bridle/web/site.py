"""The site: every request for a page goes through one function, as in the API.

Rights are the API's. Who has not signed in is sent to the page where one does; what goes wrong is a
page, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from bridle.server import guards
from bridle.server.endpoints import ROLES, Caller, Endpoint, Role
from bridle.server.guards import Gone, Head, Receive, Scope, Send
from bridle.server.problems import Problem, later, problem_of
from bridle.server.routing import Routes, parts_of
from bridle.server.service import Service
from bridle.web import page as session
from bridle.web.agents import read_status
from bridle.web.forms import Fields, read_form, read_query
from bridle.web.page import Data, Html, Page, Redirect, Shown, Stream, Visit
from bridle.web.rendering import Rendering, url
from bridle.web.table import pages

__all__ = ["Site"]

MOST_STREAMS = 64
# What the head of an agent's pages tells is told to those who may read it.
PROMISE, CHECKS = "GET /v1/agents/{agent}/promise", "GET /v1/agents/{agent}/checks"
# Of the API and of those who watch over it, whatever a browser would rather have.
NO_PAGES = ("v1", "openapi.json", "metrics", "healthz", "readyz")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class _Row:
    def __init__(self, page: Page, rendering: Rendering) -> None:
        self.page = page
        self.roles: frozenset[Role] | None = None
        if page.like:
            self.roles = frozenset(ROLES).intersection(*(rendering.roles[e] for e in page.like))


class Site:
    """All pages of a service.

    Parameters
    ----------
    service : Service
        What the pages show.
    table : sequence of Endpoint
        The API's table: the pages have its rights.
    """

    def __init__(self, service: Service, table: Sequence[Endpoint]) -> None:
        self.service = service
        self.rendering = Rendering(table)
        self._routes: Routes[_Row] = Routes()
        self._firsts: set[str] = set()
        self._streams = 0
        for page in pages():
            self._routes.add(page.method, page.path, _Row(page, self.rendering))
            self._firsts.add(page.path.split("/")[1])

    def is_for(self, scope: Scope, path: bytes) -> bool:
        """Say whether a request is for a page: by its address, or since a person is asking."""
        first = path.split(b"/", 2)[1].decode("latin-1") if path.startswith(b"/") else ""
        if path == b"/" or (first and first in self._firsts):
            return True
        accepts = next((v for n, v in scope["headers"] if n == b"accept"), b"")
        return b"text/html" in accepts and first not in NO_PAGES

    async def answer(
        self, scope: Scope, head: Head, path: bytes, receive: Receive, send: Send
    ) -> tuple[int, str, Caller | None]:
        """Answer a request; give the status, the page's address and who it was."""
        label, caller = "page -", None
        try:
            guards.check_head(scope, self.service.limits)
            row, found = self._routes.find(scope["method"], parts_of(path))
            label = f"page {row.page.path}"
            session.check_origin(scope)
            caller = await self._caller(scope, row, found.get("agent"))
            shown = await self._written(
                scope, caller, await self._handled(scope, head, row, caller, found, receive)
            )
        except Gone:
            return 499, label, caller
        except Exception as error:
            shown = await self._written(scope, caller, self._refusal(scope, problem_of(error)))
        return await self._send(head, shown, receive, send), label, caller

    # -- one request -------------------------------------------------------------------------

    async def _caller(self, scope: Scope, row: _Row, agent: str | None) -> Caller | None:
        """Say who has signed in. Where nobody must have, nobody may have."""
        tokens = self.service.tokens
        token = session.token_of(scope)
        if row.roles is None:
            if token is None:
                return None
            with contextlib.suppress(Problem):
                await tokens.fresh()
                return tokens.caller(token)
            return None
        if self.service.in_flight > self.service.limits.in_flight:
            raise Problem("busy", "Too many requests are under way.", headers=later(1.0))
        await tokens.fresh()
        caller = tokens.caller(token)
        tokens.spend(caller)
        guards.check_rights(caller, row.roles, agent)
        return caller

    async def _handled(
        self,
        scope: Scope,
        head: Head,
        row: _Row,
        caller: Caller | None,
        path: Mapping[str, str],
        receive: Receive,
    ) -> Shown:
        limits = self.service.limits
        form = Fields([])
        if scope["method"] == "POST":
            try:
                async with asyncio.timeout(limits.read_seconds):
                    body = await guards.read_bytes(head, receive, limits)
            except TimeoutError:
                raise Problem("too_slow", "The form did not come in time.") from None
            form = read_form(head.content_type, body)
        visit = Visit(
            self.service,
            self.rendering,
            caller,
            path,
            read_query(scope["query_string"]),
            form,
            scope["path"],
            {"scope": scope},
        )
        try:
            async with asyncio.timeout(limits.answer_seconds):
                return await row.page.handle(visit)
        except TimeoutError:
            raise Problem(
                "timed_out",
                f"It was not done within {limits.answer_seconds:g} s.",
                headers=later(1.0),
            ) from None

    def _refusal(self, scope: Scope, problem: Problem) -> Shown:
        if problem.code == "no_token" and scope["method"] == "GET":
            wanted = scope["path"]
            if scope["query_string"]:
                wanted += "?" + scope["query_string"].decode("latin-1")
            said = "ended" if session.token_of(scope) is not None else ""
            return Redirect(url("sign-in", next=session.local_path(wanted), said=said))
        return Html("problem.html", {"problem": problem}, problem.status)

    # -- the answer --------------------------------------------------------------------------

    async def _written(self, scope: Scope, caller: Caller | None, shown: Shown) -> Shown:
        """Make a page of its template."""
        if not isinstance(shown, Html):
            return shown
        may, agent = self._rights(caller), shown.values.get("agent")
        stands = None
        if agent is not None and may(PROMISE) and may(CHECKS):
            stands = await read_status(self.service, agent)
        body = self.rendering.page(
            shown.template,
            {
                "caller": caller,
                "address": scope["path"],
                "agent": None,
                **_said(scope),
                **shown.values,
                "may": may,
                "stands": stands,
            },
        )
        return Data(body, "text/html; charset=utf-8", status=shown.status)

    async def _send(self, head: Head, shown: Shown, receive: Receive, send: Send) -> int:
        headers: list[tuple[bytes, bytes]] = [
            *SECURITY,
            (b"x-request-id", head.id.encode()),
            (b"vary", b"Cookie"),
        ]
        if isinstance(shown, Stream):
            return await self._send_stream(shown, headers, receive, send)
        status, body = 200, b""
        caching = b"no-store"
        if isinstance(shown, Redirect):
            status = 303
            headers.append((b"location", shown.to.encode("ascii", "replace")))
            headers += [(b"set-cookie", cookie.encode()) for cookie in shown.cookies]
        else:
            assert isinstance(shown, Data)
            status, body = shown.status, shown.body
            headers.append((b"content-type", shown.media.encode()))
            headers += _as_file(shown.name)
            for name, value in shown.headers.items():
                if name == "cache-control":
                    caching = value.encode()
                else:
                    headers.append((name.encode(), value.encode()))
        headers += [(b"content-length", b"%d" % len(body)), (b"cache-control", caching)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return status

    def _rights(self, caller: Caller | None) -> Any:
        """Give what a template asks whether to show something."""
        roles = self.rendering.roles
        return lambda endpoint: caller is not None and caller.role in roles[endpoint]

    async def _send_stream(
        self, shown: Stream, headers: list[tuple[bytes, bytes]], receive: Receive, send: Send
    ) -> int:
        if self._streams >= MOST_STREAMS:
            await shown.pieces.aclose()  # type: ignore[attr-defined]
            body = b"Too many are watching. Try again later.\n"
            headers.append((b"retry-after", b"5"))
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return 503
        headers += [(b"content-type", shown.media.encode()), (b"cache-control", b"no-store")]
        headers += _as_file(shown.name)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self._streams += 1
        left = asyncio.ensure_future(_hung_up(receive))
        try:
            async for piece in _until(shown.pieces, left):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            if not left.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            self._streams -= 1
            left.cancel()
        return 200


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _until(pieces: AsyncIterator[bytes], left: asyncio.Future[None]) -> AsyncIterator[bytes]:
    """Give pieces until the one who reads them has left."""
    try:
        while True:
            following: asyncio.Future[bytes] = asyncio.ensure_future(anext(pieces))
            both: set[asyncio.Future[Any]] = {following, left}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if left.done():
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                    await following
                return
            try:
                yield following.result()
            except StopAsyncIteration:
                return
    finally:
        await pieces.aclose()  # type: ignore[attr-defined]


def _said(scope: Scope) -> dict[str, Any]:
    """Give what the page before has to tell: `said` in the query names a text of the templates."""
    said = ""
    with contextlib.suppress(Problem):
        said = read_query(scope["query_string"]).get("said")
    return {"said": said, "now": time.time()}


def _as_file(name: str | None) -> list[tuple[bytes, bytes]]:
    if name is None:
        return []
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    return [(b"content-disposition", f'attachment; filename="{safe}"'.encode())]

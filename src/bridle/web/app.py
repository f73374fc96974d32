"""The application: the API's rows and the pages' on one pipeline, with Starlette's router.

Pages have the rights of the API. Who has not signed in is sent to the page where one does, and what
goes wrong is a page, too.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Router
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from bridle.server.endpoints import ROLES, Caller, Endpoint, Role
from bridle.server.pipeline import (
    NOT_FOUND,
    ApiRow,
    Exchange,
    Pipeline,
    admit,
    deadlines,
    routes_of,
)
from bridle.server.problems import Problem
from bridle.server.service import Service
from bridle.server.table import document, endpoints
from bridle.web import (
    agent_settings,
    agents,
    checks,
    decisions,
    dial,
    limits,
    live,
    new_agent,
    promises,
    settings,
    teach,
    visitor,
)
from bridle.web import page as session
from bridle.web.agents import read_status
from bridle.web.forms import Fields, read_form, read_query
from bridle.web.page import Data, Html, Page, Redirect, Shown, Stream, Visit
from bridle.web.rendering import Rendering, url

__all__ = ["App", "create_app", "pages"]

MAX_STREAMS = 64
FOREVER = "public, max-age=31536000, immutable"
# What is called most is tried first.
BUSIEST = "/v1/agents/{agent}/decisions"
# Who may read both sees where an agent stands in the head of its pages.
PROMISE, CHECKS = "GET /v1/agents/{agent}/promise", "GET /v1/agents/{agent}/checks"
# The API, and those who watch over it: never a page, whatever the client accepts.
NO_PAGES = ("v1", "openapi.json", "metrics", "healthz", "readyz")


class App(Router):
    """The application of a service.

    Parameters
    ----------
    service : Service
        What is served.
    table : sequence of Endpoint
        The API's rows; the pages take their rights from it.
    """

    def __init__(self, service: Service, table: Sequence[Endpoint]) -> None:
        self.service = service
        self.table = tuple(table)
        self.rendering = Rendering(self.table)
        service.document = to_json(document(self.table))
        site, rows = _Site(service, self.rendering), pages()
        self._first_parts = {row.path.split("/")[1] for row in rows} | {"static"}
        api = [(row.method, row.path, ApiRow(row, service)) for row in self.table]
        super().__init__(
            [
                *routes_of(api, first=BUSIEST),
                *routes_of(
                    [(row.method, row.path, _PageRow(row, site)) for row in rows], is_page=True
                ),
                Mount("/static", _Static(self.rendering)),
            ],
            redirect_slashes=False,
            default=_nothing_here,
            lifespan=self._lifespan,
            middleware=[
                Middleware(Pipeline, service=service, problem_page=self._problem_page),
            ],
        )
        self._site = site

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: object) -> AsyncIterator[None]:
        """Start the service, if nobody has, and stop it again."""
        ours = not self.service.running
        if ours:
            await self.service.start()
        try:
            yield
        finally:
            if ours:
                await self.service.stop()

    async def _problem_page(
        self, scope: Scope, exchange: Exchange, problem: Problem
    ) -> Response | None:
        if exchange.is_page is None:
            exchange.is_page = self._is_for_a_page(scope)
        if not exchange.is_page:
            return None
        if problem.code == "no_token" and scope["method"] == "GET":
            wanted = exchange.path
            if scope["query_string"]:
                wanted += "?" + scope["query_string"].decode("latin-1")
            ended = session.token_of(Headers(scope=scope)) is not None
            said = "ended" if ended else ""
            to = url("sign-in", next=session.local_path(wanted), said=said)
            return await self._site.response(scope, Redirect(to))
        shown = Html("problem.html", {"problem": problem}, problem.status)
        response = await self._site.response(scope, shown)
        response.headers.update(problem.headers)
        return response

    def _is_for_a_page(self, scope: Scope) -> bool:
        """Return whether a request that no route took is for a page, by its path or a browser's."""
        path = scope["path"]
        first = path.split("/", 2)[1] if path.startswith("/") else ""
        if path == "/" or (first and first in self._first_parts):
            return True
        accepts = Headers(scope=scope).get("accept", "")
        return "text/html" in accepts and first not in NO_PAGES


def create_app(service: Service) -> App:
    """Return the application of a service.

    Whoever starts the service by hand gets its first admin token from `Service.start`; a server
    that knows ASGI's lifespan starts it otherwise, and shows no token.
    """
    return App(service, endpoints(open_metrics=service.limits.open_metrics))


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    raise Problem("not_found", NOT_FOUND, remedy="See /openapi.json.")


# --- A page of the table ----------------------------------------------------------------------


class _PageRow:
    """A page as an ASGI application."""

    def __init__(self, page: Page, site: _Site) -> None:
        self._page = page
        self._site = site
        self._roles: frozenset[Role] | None = None
        if page.like:
            rights = site.rendering.roles
            self._roles = frozenset(ROLES).intersection(*(rights[row] for row in page.like))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange: Exchange = scope["bridle"]
        exchange.route = f"page {self._page.path}"
        site, path, headers = self._site, scope["path_params"], Headers(scope=scope)
        service = site.service
        session.check_origin(scope["method"], headers)
        caller = await self._caller(exchange, headers, path.get("agent"))
        query = read_query(scope["query_string"])

        async def read() -> Fields:
            body = await exchange.read_body(receive, service.limits)
            return await read_form(exchange.content_type, body)

        async def handle(form: Fields | None) -> Shown:
            form = Fields([]) if form is None else form
            visit = Visit(
                service, site.rendering, caller, path, query, form, exchange.path, headers
            )
            return await self._page.handle(visit)

        shown = await deadlines(
            exchange, service.limits, read if scope["method"] == "POST" else None, handle
        )
        response = await site.response(scope, shown)
        await response(scope, receive, send)

    async def _caller(
        self, exchange: Exchange, headers: Headers, agent: str | None
    ) -> Caller | None:
        """Return who has signed in. On an open page that may be nobody."""
        service, token = self._site.service, session.token_of(headers)
        if self._roles is not None:
            return await admit(exchange, service, token, self._roles, agent)
        if token is not None:
            with contextlib.suppress(Problem):
                exchange.caller = await service.tokens.authenticate(token)
        return exchange.caller


class _Site:
    """Turns what pages return into responses."""

    def __init__(self, service: Service, rendering: Rendering) -> None:
        self.service = service
        self.rendering = rendering
        self._streams = 0

    async def response(self, scope: Scope, shown: Shown) -> Response:
        """Return the response of a page."""
        response: Response
        match shown:
            case Html():
                response = await self._render(scope, shown)
            case Redirect():
                response = RedirectResponse(shown.to, 303)
                for cookie in shown.cookies:
                    response.headers.append("set-cookie", cookie)
            case Data():
                headers = {"content-type": shown.media, **_as_file(shown.name), **shown.headers}
                response = Response(shown.body, shown.status, headers)
            case Stream():
                response = await self._stream(shown)
        response.headers.setdefault("cache-control", "no-store")
        return response

    async def _render(self, scope: Scope, shown: Html) -> Response:
        exchange: Exchange = scope["bridle"]
        caller, agent = exchange.caller, shown.values.get("agent")
        roles = self.rendering.roles

        def may(endpoint: str) -> bool:
            return caller is not None and caller.role in roles[endpoint]

        stands = None
        if agent is not None and may(PROMISE) and may(CHECKS):
            stands = await read_status(self.service, agent)
        # What the page before has to say: `said` in the query names a text of the templates.
        said = ""
        with contextlib.suppress(Problem):
            said = read_query(scope["query_string"]).get("said")
        values: dict[str, Any] = {
            "caller": caller,
            "address": exchange.path,
            "agent": None,
            "said": said,
            "now": time.time(),
            **shown.values,
            "may": may,
            "stands": stands,
        }
        return self.rendering.page(Request(scope), shown.template, values, shown.status)

    async def _stream(self, shown: Stream) -> Response:
        if self._streams >= MAX_STREAMS:
            await _close(shown.pieces)
            body = "Too many are watching. Try again later.\n"
            return PlainTextResponse(body, 503, {"retry-after": "5"})
        headers = {"content-type": shown.media, **_as_file(shown.name)}
        return _Streaming(self, shown, headers)


class _Streaming(StreamingResponse):
    """A stream that is counted, and whose source is closed however it ends."""

    def __init__(self, site: _Site, shown: Stream, headers: dict[str, str]) -> None:
        super().__init__(shown.pieces, headers=headers)
        self._site = site
        self._pieces = shown.pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._site._streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._site._streams -= 1
            await _close(self._pieces)


async def _close(pieces: AsyncIterator[bytes]) -> None:
    await pieces.aclose()  # type: ignore[attr-defined]


def _as_file(name: str | None) -> dict[str, str]:
    if name is None:
        return {}
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    return {"content-disposition": f'attachment; filename="{safe}"'}


class _Static(StaticFiles):
    """The files that pages use; under an address with their hash they may be cached for ever."""

    def __init__(self, rendering: Rendering) -> None:
        super().__init__(packages=[("bridle.web", "static")])
        self._rendering = rendering

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope["bridle"]
        exchange.is_page, exchange.route = True, "page /static/{name}"
        try:
            await super().__call__(scope, receive, send)
        except HTTPException as error:
            if error.status_code == 405:
                headers = error.headers
                raise Problem("wrong_method", "Files are only read.", headers=headers) from None
            raise Problem("not_found", "There is no such file.") from None

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        current = scope["query_string"] == f"v={self._rendering.hashes.get(path)}".encode()
        response.headers["cache-control"] = FOREVER if current else "no-cache"
        return response


# --- The front page, signing in and out -------------------------------------------------------


async def _front(visit: Visit) -> Shown:
    return Redirect("/agents" if visit.caller is not None else "/sign-in")


async def _sign_in_form(visit: Visit) -> Shown:
    return _sign_in_page(visit, session.local_path(visit.query.get("next")))


async def _sign_in(visit: Visit) -> Shown:
    wanted = session.local_path(visit.form.get("next"))
    token = visit.form.get("token")
    try:
        header = b"Bearer " + token.encode("latin-1", "replace")
        caller = await visit.service.tokens.authenticate(header)
    except Problem as problem:
        return _sign_in_page(visit, wanted, problem.message, 401)
    if caller.role == "agent":
        why = "This token is for programs. Sign in with one of a teacher, an auditor or an admin."
        return _sign_in_page(visit, wanted, why, 403)
    cookie = session.sign_in_cookie(visit.headers, token)
    return Redirect("/agents" if wanted == "/" else wanted, (cookie,))


def _sign_in_page(visit: Visit, wanted: str, wrong: str = "", status: int = 200) -> Html:
    values = {"next": wanted, "wrong": wrong, "guests": visit.service.guests}
    return Html("sign-in.html", values, status)


async def _sign_out(visit: Visit) -> Shown:
    return Redirect(url("sign-in", said="signed-out"), (session.sign_out_cookie(),))


def pages() -> tuple[Page, ...]:
    """Return the table of all pages."""
    return (
        Page(method="GET", path="/", handle=_front),
        Page(method="GET", path="/sign-in", handle=_sign_in_form),
        Page(method="POST", path="/sign-in", handle=_sign_in),
        Page(method="POST", path="/sign-out", handle=_sign_out),
        *agents.PAGES,
        *agent_settings.PAGES,
        *checks.PAGES,
        *decisions.PAGES,
        *dial.PAGES,
        *limits.PAGES,
        *live.PAGES,
        *new_agent.PAGES,
        *promises.PAGES,
        *settings.PAGES,
        *teach.PAGES,
        *visitor.PAGES,
    )

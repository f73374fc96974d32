"""Pages: rows of a table, as endpoints are; what their handlers take and return; and sessions.

A session is a cookie that holds the token itself. So it ends when its token is revoked or expires,
works on every replica, and nothing that is stored could be used to sign in. Scripts cannot read it,
other sites cannot send it, and only pages take it: the API wants its header.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from bridle.errors import BridleError
from bridle.server.endpoints import Call, Caller, Handler, Reply
from bridle.server.problems import Problem

if TYPE_CHECKING:
    from bridle.server.service import Service
    from bridle.web.forms import Fields
    from bridle.web.rendering import Rendering

__all__ = [
    "COOKIE",
    "Data",
    "Html",
    "Page",
    "Redirect",
    "Saying",
    "Shown",
    "Stream",
    "Visit",
    "check_origin",
    "local_path",
    "said_of",
    "sign_in_cookie",
    "sign_out_cookie",
    "token_of",
]


COOKIE = "bridle"
SECONDS = 12 * 3600  # a working day, and no longer


def token_of(headers: Headers) -> bytes | None:
    """Return the token of a request's cookie, as the API's header would have it."""
    # By hand: what else this host has set, of whatever form, must not hide ours. Of two that are
    # called like ours, one was put there by somebody else.
    parts = [part.strip() for text in headers.getlist("cookie") for part in text.split(";")]
    found = [part.removeprefix(f"{COOKIE}=") for part in parts if part.startswith(f"{COOKIE}=")]
    return b"Bearer " + found[0].encode("latin-1") if len(found) == 1 else None


def sign_in_cookie(headers: Headers, token: str) -> str:
    """Return the cookie of a session. Where the page came over TLS, it goes over nothing else."""
    secure = "; Secure" if _only(headers, "origin").startswith("https:") else ""
    return f"{COOKIE}={token}; Path=/; Max-Age={SECONDS}; HttpOnly; SameSite=Strict{secure}"


def sign_out_cookie() -> str:
    """Return the cookie that ends a session."""
    return f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"


def check_origin(method: str, headers: Headers) -> None:
    """Raise a 403 for a change that another site asks for.

    Browsers say where a request comes from in Sec-Fetch-Site, older ones in Origin. One that says
    neither is refused: it is no browser, and programs have the API.
    """
    if method in ("GET", "HEAD"):
        return
    site = _only(headers, "sec-fetch-site")
    if site:
        if site != "same-origin":
            raise _foreign()
        return
    origin, host = _only(headers, "origin"), _only(headers, "host")
    if not origin or not host or urlsplit(origin).netloc.lower() != host.lower():
        raise _foreign()


def local_path(text: str) -> str:
    """Return an address on this site to go to; the front page for any other."""
    fine = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if fine and len(text) < 2_000 else "/"


def _only(headers: Headers, name: str) -> str:
    found = headers.getlist(name)
    return found[0] if len(found) == 1 else ""


def _foreign() -> Problem:
    return Problem(
        "forbidden",
        "This request does not come from a page of this service.",
        remedy="Open the page here and send the form from there.",
    )


# --- Pages, their handlers' argument and their results ----------------------------------------
#
# A handler takes a `Visit` and returns what is shown. All that it changes or reads of an agent it
# has the API's own handlers do, through `Visit.api`, so that a page can do nothing that the API
# would not.


class Html(NamedTuple):
    """A page made of a template."""

    template: str
    values: Mapping[str, Any] = {}
    status: int = 200


class Redirect(NamedTuple):
    """A way to elsewhere on this site, with GET. `cookies` are whole Set-Cookie headers."""

    to: str
    cookies: tuple[str, ...] = ()


class Data(NamedTuple):
    """Bytes of some media type; with a name, to be saved as a file."""

    body: bytes
    media: str
    name: str | None = None
    headers: Mapping[str, str] = {}
    status: int = 200


class Stream(NamedTuple):
    """Bytes that come piece by piece: an export, or events as they happen."""

    pieces: AsyncIterator[bytes]
    media: str
    name: str | None = None


Shown: TypeAlias = Html | Redirect | Data | Stream


@dataclass(frozen=True)
class Visit:
    """A request for a page, whose parts are checked.

    Attributes
    ----------
    caller : Caller or None
        Who has signed in; None on pages that are open to all.
    path : mapping
        What stands in the braces of the page's address.
    query, form : Fields
        What stands after the question mark, and in the body.
    address : str
        The path that was asked for, without the query.
    headers : Headers
        Of the request.
    """

    service: Service
    rendering: Rendering
    caller: Caller | None
    path: Mapping[str, str]
    query: Fields
    form: Fields
    address: str
    headers: Headers = field(default_factory=Headers)

    @property
    def agent(self) -> str:
        """The agent that the page is about."""
        return self.path["agent"]

    async def api(self, handle: Handler, body: Any = None, query: Any = None, **path: str) -> Any:
        """Return what a handler of the API answers to who has signed in.

        `path` adds to the page's own. The page's row must name the endpoint in `like`, so that the
        right to do it was checked.
        """
        reply: Reply = await handle(
            Call(self.service, self.caller, {**self.path, **path}, query, body)
        )
        return reply.body

    async def still(self) -> bool:
        """Return whether who has signed in still has the same rights, in a long answer."""
        tokens = self.service.tokens
        try:
            return await tokens.authenticate(token_of(self.headers)) == self.caller
        except (Problem, BridleError):
            return False

    def may(self, endpoint: str) -> bool:
        """Return whether who has signed in may call an endpoint: "PATCH /v1/agents/{agent}"."""
        return self.caller is not None and self.caller.role in self.rendering.roles[endpoint]


@dataclass(frozen=True, kw_only=True)
class Page:
    """One row of the table of pages.

    Attributes
    ----------
    method, path : str
        "GET", "/agents/{agent}/teach".
    handle : coroutine function
        Takes a `Visit`, returns what is `Shown`.
    like : tuple of str
        The endpoints of the API whose rights it takes: who may call all of them may come here.
        Empty: anyone, without signing in.
    """

    method: str
    path: str
    handle: Callable[[Visit], Awaitable[Shown]]
    like: tuple[str, ...] = ()


# --- The author and the reason of a change, for the log ---------------------------------------


MAX_NOTE = 1_000  # characters


class Saying(TypedDict):
    """The fields of `bridle.api.requests.Said`."""

    by: str | None
    note: str | None


def said_of(visit: Visit) -> Saying:
    """Return who has signed in, as their token calls them, and the reason in the field "note"."""
    note = visit.form.optional("note")
    if note is not None and len(note) > MAX_NOTE:
        raise Problem(
            "invalid_value", f"The reason is longer than {MAX_NOTE:,} characters.", field="note"
        )
    by = None if visit.caller is None else visit.caller.note.strip() or None
    return {"by": by, "note": note}

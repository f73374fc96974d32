"""What a page is: one row of a table, as an endpoint is one of the API's.

A handler gets a `Visit` and gives back what is shown. All that it changes or reads of an agent it
has the API's own handlers do, through `Visit.api`, so that a page can do nothing that the API would
not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from bridle.errors import BridleError
from bridle.service.endpoints import Call, Caller, Handler, Reply
from bridle.service.pages.session import token_of
from bridle.service.problems import Problem

if TYPE_CHECKING:
    from bridle.service.pages.fields import Fields
    from bridle.service.pages.rendering import Rendering
    from bridle.service.serving import Service

__all__ = ["Data", "Html", "Page", "Redirect", "Shown", "Stream", "Visit"]


class Html(NamedTuple):
    """A page made of a template."""

    template: str
    values: Mapping[str, Any] = {}
    status: int = 200


class Redirect(NamedTuple):
    """Go elsewhere on this site, with GET. `cookies` are whole Set-Cookie headers."""

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
    """What comes piece by piece: an export, or events as they happen."""

    pieces: AsyncIterator[bytes]
    media: str
    name: str | None = None


Shown: TypeAlias = Html | Redirect | Data | Stream


@dataclass(frozen=True)
class Visit:
    """A request for a page, checked: who, where and what.

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
    """

    service: Service
    rendering: Rendering
    caller: Caller | None
    path: Mapping[str, str]
    query: Fields
    form: Fields
    address: str
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def agent(self) -> str:
        """The agent that the page is about."""
        return self.path["agent"]

    async def api(self, handle: Handler, body: Any = None, query: Any = None, **path: str) -> Any:
        """Have a handler of the API do something, as who has signed in; give what it answers.

        `path` adds to the page's own. The page's row must name the endpoint in `like`, so that the
        right to do it was checked.
        """
        reply: Reply = await handle(
            Call(self.service, self.caller, {**self.path, **path}, query, body)
        )
        return reply.body

    async def still(self) -> bool:
        """Say whether who has signed in still has the same rights: for answers that take long."""
        tokens = self.service.tokens
        try:
            await tokens.fresh()
            return tokens.caller(token_of(self.more["scope"])) == self.caller
        except (Problem, BridleError):
            return False

    def may(self, endpoint: str) -> bool:
        """Say whether who has signed in may call an endpoint: "PATCH /v1/agents/{agent}"."""
        return self.caller is not None and self.caller.role in self.rendering.roles[endpoint]

    def must(self, endpoint: str) -> None:
        """Refuse who may not call an endpoint that only a part of the page needs."""
        if not self.may(endpoint):
            roles = ", ".join(sorted(self.rendering.roles[endpoint]))
            raise Problem(
                "forbidden", "Your role may not do this.", remedy=f"It takes one of: {roles}."
            )


@dataclass(frozen=True, kw_only=True)
class Page:
    """One row of the table of pages.

    Attributes
    ----------
    method, path : str
        "GET", "/agents/{agent}/teach".
    handle : coroutine function
        Takes a `Visit`, gives what is `Shown`.
    like : tuple of str
        The endpoints of the API whose rights it takes: who may call all of them may come here.
        Empty: anyone, without signing in.
    """

    method: str
    path: str
    handle: Callable[[Visit], Awaitable[Shown]]
    like: tuple[str, ...] = ()

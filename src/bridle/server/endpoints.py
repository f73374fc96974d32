"""What an endpoint is: one row of the table that the whole API is made of.

From the table come the routes, the OpenAPI document, who may call what, and the tests that walk
all of it. A handler gets a `Call` whose parts are checked already, and gives a `Reply`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pydantic import BaseModel

from bridle.api.base import ROLES, Role

if TYPE_CHECKING:
    from bridle.server.service import Service

__all__ = ["ROLES", "Call", "Caller", "Endpoint", "Reply", "Role"]


class Caller(NamedTuple):
    """Whose token it is."""

    id: str
    role: Role
    agents: tuple[str, ...] | None  # None: all
    note: str


class Call(NamedTuple):
    """A request, checked: who, where and what."""

    service: Service
    caller: Caller | None  # None: an endpoint that is open to all
    path: Mapping[str, str]
    query: Any  # of the endpoint's `query` model, or None
    body: Any  # of the endpoint's `body`, or None


class Reply(NamedTuple):
    """What is answered. `body` is a model of the endpoint's, a plain JSON value, or text."""

    status: int
    body: Any
    headers: Mapping[str, str] = {}


Handler: TypeAlias = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One row of the table.

    Attributes
    ----------
    method, path : str
        "POST", "/v1/agents/{agent}/decisions". A path with {agent} is open to tokens of that agent.
    roles : tuple of roles, or None
        Who may call it; None: anyone, without a token.
    handle : coroutine function
        Takes a `Call`, gives a `Reply`.
    summary, description : str
        For the documentation.
    body : type, optional
        What `pydantic.TypeAdapter` takes: a model, or a union of models.
    query : model, optional
        The parameters after the question mark.
    replies : mapping from status to (model or media type, words)
        What it answers when all is well.
    problems : mapping from status to words
        What else it may answer, beyond what every endpoint may (400, 401, 403, 404, 405, 408, 413,
        415, 422, 429, 500, 503).
    """

    method: str
    path: str
    roles: tuple[Role, ...] | None
    handle: Handler
    summary: str
    description: str = ""
    body: Any = None
    query: type[BaseModel] | None = None
    replies: Mapping[int, tuple[Any, str]] = field(default_factory=dict)
    problems: Mapping[int, str] = field(default_factory=dict)

"""Tokens over HTTP: list them, make one, revoke one. For admins.

An admin whose token is for some agents only can grant no more than that, and sees no more.
"""

from __future__ import annotations

from bridle.api.replies import TokenList, TokenMade, TokenShown
from bridle.api.requests import Grant
from bridle.errors import InvalidValue, UnknownId
from bridle.server.endpoints import Call, Caller, Endpoint, Reply
from bridle.server.problems import Problem
from bridle.server.tokens import make_token
from bridle.store.log import TokenRow

__all__ = ["ENDPOINTS"]


async def look(call: Call) -> Reply:
    """List tokens."""
    rows = await call.service.tokens.all()
    shown = [_plain(row) for row in rows if _covers(call.caller, row.agents)]
    return Reply(200, {"tokens": shown})


async def grant(call: Call) -> Reply:
    """Make a token."""
    form: Grant = call.body
    now = call.service.clock()
    if form.expires is not None and form.expires <= now:
        raise InvalidValue("expires", "POST /v1/tokens", "a time to come", form.expires)
    if not _covers(call.caller, form.agents):
        raise Problem("forbidden", "Your token is not for all of these agents.", field="agents")
    made = make_token(form.role, now=now, agents=form.agents, expires=form.expires, note=form.note)
    await call.service.tokens.add(made)
    return Reply(201, {**_plain(made.row), "token": made.text})


async def revoke(call: Call) -> Reply:
    """Revoke a token."""
    id, tokens = call.path["id"], call.service.tokens
    rows = await tokens.all()
    row = next((row for row in rows if row.id == id and _covers(call.caller, row.agents)), None)
    if row is None:
        raise UnknownId("token", id, "See GET /v1/tokens.")
    await tokens.revoke(id)
    again = next((row for row in await tokens.all() if row.id == id), row)
    return Reply(200, _plain(again))


def _covers(caller: Caller | None, agents: tuple[str, ...] | None) -> bool:
    """Return whether a caller may manage a token for these agents."""
    if caller is None or caller.agents is None:
        return True
    return agents is not None and set(agents) <= set(caller.agents)


def _plain(row: TokenRow) -> dict[str, object]:
    shown = row._asdict()
    del shown["hash"]
    return shown


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/tokens",
        roles=("admin",),
        handle=look,
        summary="List tokens",
        description="Also those that have expired or were revoked. No secrets: they are not kept.",
        replies={200: (TokenList, "All that your token has a say over")},
    ),
    Endpoint(
        method="POST",
        path="/v1/tokens",
        roles=("admin",),
        handle=grant,
        summary="Make a token",
        description="The answer is the only place where its secret is ever shown.",
        body=Grant,
        replies={201: (TokenMade, "The token, with its secret")},
    ),
    Endpoint(
        method="DELETE",
        path="/v1/tokens/{id}",
        roles=("admin",),
        handle=revoke,
        summary="Revoke a token",
        description="Here it acts at once, in other processes within two seconds.",
        replies={200: (TokenShown, "It is revoked")},
        problems={409: "It is the last admin token of all agents"},
    ),
)

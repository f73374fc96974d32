"""For those who run it: tokens, and whether it is alive, ready and what it offers.

An admin whose token is for some agents only can grant no more than that, and sees no more.
"""

from __future__ import annotations

from typing import Any

from bridle.api.replies import Fine, TokenList, TokenMade, TokenShown
from bridle.api.requests import Grant
from bridle.errors import BridleError, InvalidValue, UnknownId
from bridle.server.endpoints import Call, Caller, Endpoint, Reply
from bridle.server.problems import Problem, retry_after
from bridle.server.tokens import make_token
from bridle.store.log import TokenRow

__all__ = ["METRICS_TYPE", "endpoints", "grant", "list_tokens", "revoke"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


# --- tokens -----------------------------------------------------------------------------------


async def list_tokens(call: Call) -> Reply:
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


_TOKENS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/tokens",
        roles=("admin",),
        handle=list_tokens,
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


# --- health, metrics and the document ---------------------------------------------------------


async def healthz(call: Call) -> Reply:
    """Answer: the process lives."""
    return Reply(200, {"status": "ok"})


async def readyz(call: Call) -> Reply:
    """Answer if requests can be served; raise if not."""
    try:
        await call.service.check_ready()
    except BridleError as error:
        message = "The store does not answer, or does not take what is written."
        raise Problem("store_failed", message, headers=retry_after(1.0)) from error
    return Reply(200, {"status": "ok"})


async def metrics(call: Call) -> Reply:
    """Return all metrics."""
    return Reply(200, call.service.metrics.text())


async def openapi(call: Call) -> Reply:
    """Return the OpenAPI document."""
    return Reply(200, call.service.document)


def endpoints(*, open_metrics: bool) -> tuple[Endpoint, ...]:
    """Return the rows of the table."""
    return (
        *_TOKENS,
        Endpoint(
            method="GET",
            path="/healthz",
            roles=None,
            handle=healthz,
            summary="Does the process live?",
            replies={200: (Fine, "It does")},
        ),
        Endpoint(
            method="GET",
            path="/readyz",
            roles=None,
            handle=readyz,
            summary="Can requests be served?",
            description="The store answers, and takes what is written.",
            replies={200: (Fine, "They can")},
        ),
        Endpoint(
            method="GET",
            path="/metrics",
            roles=None if open_metrics else ("auditor", "admin"),
            handle=metrics,
            summary="Counts, in the form that Prometheus reads",
            replies={200: (METRICS_TYPE, "All counts")},
        ),
        Endpoint(
            method="GET",
            path="/openapi.json",
            roles=None,
            handle=openapi,
            summary="This document",
            replies={200: (dict[str, Any], "OpenAPI 3.1")},
        ),
    )

"""The list of agents, with what each is doing now."""

from __future__ import annotations

from bridle.service import agents as api
from bridle.service.forms import Page as ListPage
from bridle.service.pages.page import Html, Page, Shown, Visit

__all__ = ["PAGES"]

A_PAGE = 20


async def listing(visit: Visit) -> Shown:
    """List the agents of who has signed in."""
    after = visit.query.whole("after", 0, low=0, high=10**9)
    found = await visit.api(api.listing, query=ListPage(after=after, limit=A_PAGE + 1))
    lines = found.agents
    return Html("agents.html", {
        "agents": lines[:A_PAGE], "after": after, "more": len(lines) > A_PAGE, "size": A_PAGE,
    })  # fmt: skip


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents", handle=listing, like=("GET /v1/agents",)),
)

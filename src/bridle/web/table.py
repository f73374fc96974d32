"""The table of pages, gathered."""

from __future__ import annotations

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
    sign_in,
    teach,
    visitor,
)
from bridle.web.page import Page

__all__ = ["pages"]


def pages() -> tuple[Page, ...]:
    """Give all pages."""
    return (
        *agents.PAGES,
        *agent_settings.PAGES,
        *checks.PAGES,
        *decisions.PAGES,
        *dial.PAGES,
        *sign_in.PAGES,
        *limits.PAGES,
        *live.PAGES,
        *new_agent.PAGES,
        *promises.PAGES,
        *settings.PAGES,
        *teach.PAGES,
        *visitor.PAGES,
    )

"""The table of pages, gathered."""

from __future__ import annotations

from bridle.service.pages import (
    agents,
    agentsettings,
    audits,
    backups,
    bulk,
    checks,
    decisions,
    declared,
    dial,
    doors,
    limits,
    live,
    newagent,
    promised,
    promises,
    settings,
    teach,
    teachers,
    visitor,
    voices,
    whatif,
    why,
)
from bridle.service.pages.page import Page

__all__ = ["pages"]


def pages() -> tuple[Page, ...]:
    """Give all pages."""
    return (
        *agents.PAGES,
        *agentsettings.PAGES,
        *audits.PAGES,
        *backups.PAGES,
        *bulk.PAGES,
        *checks.PAGES,
        *decisions.PAGES,
        *declared.PAGES,
        *dial.PAGES,
        *doors.PAGES,
        *limits.PAGES,
        *live.PAGES,
        *newagent.PAGES,
        *promised.PAGES,
        *promises.PAGES,
        *settings.PAGES,
        *teach.PAGES,
        *teachers.PAGES,
        *visitor.PAGES,
        *voices.PAGES,
        *whatif.PAGES,
        *why.PAGES,
    )

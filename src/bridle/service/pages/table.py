"""The table of pages, gathered."""

from __future__ import annotations

from bridle.service.pages import agents, doors
from bridle.service.pages.page import Page

__all__ = ["pages"]


def pages() -> tuple[Page, ...]:
    """Give all pages."""
    return (*doors.PAGES, *agents.PAGES)

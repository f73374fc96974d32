"""Who says so, and why: what a page sends along with every change, for the log."""

from __future__ import annotations

from typing import TypedDict

from bridle.service.pages.page import Visit
from bridle.service.problems import Problem

__all__ = ["Saying", "said_of"]

MOST_WORDS = 1_000


class Saying(TypedDict):
    """The fields of `bridle.service.forms.Said`."""

    by: str | None
    note: str | None


def said_of(visit: Visit) -> Saying:
    """Give who has signed in, as their token calls them, and what stands in the field "note"."""
    note = visit.form.optional("note")
    if note is not None and len(note) > MOST_WORDS:
        raise Problem(
            "invalid_value", f"The reason is longer than {MOST_WORDS:,} characters.", field="note"
        )
    by = None if visit.caller is None else visit.caller.note.strip() or None
    return {"by": by, "note": note}

"""Settings of the site: who may do what, a copy of everything, and what is in force.

For admins. One whose token is for some agents sees and grants no more than that.
"""

from __future__ import annotations

import platform
import re
from dataclasses import fields
from typing import Any

from pydantic import ValidationError

import bridle
from bridle.errors import BridleError
from bridle.service import granting
from bridle.service.endpoints import ROLES
from bridle.service.granting import Grant
from bridle.service.limits import Limits
from bridle.service.pages import backups
from bridle.service.pages.fields import Fields
from bridle.service.pages.page import Html, Page, Redirect, Shown, Visit
from bridle.service.pages.rendering import url
from bridle.service.problems import Problem, problem_of
from bridle.store.sqlite import SqliteStore

__all__ = ["PAGES"]

SEE = "GET /v1/tokens"
GRANT = "POST /v1/tokens"
REVOKE = "DELETE /v1/tokens/{id}"
PER_PAGE = 50
DAYS = {"1": "a day", "7": "a week", "30": "30 days", "90": "90 days", "365": "a year", "": "ever"}
DAY = 86_400.0

ROLE_WORDS = {
    "agent": "A program that decides and reports rewards. It opens no page.",
    "teacher": "Teaches, answers questions, judges audits and makes certificates.",
    "auditor": "Reads everything, and changes nothing.",
    "admin": "May do all of it, also make agents and tokens.",
}


async def look(visit: Visit) -> Shown:
    """Show the tokens, the backup and what is in force."""
    return await _page(visit)


async def grant(visit: Visit) -> Shown:
    """Make a token, and show it: here and never again."""
    try:
        made = await visit.api(granting.grant, _grant(visit))
    except (Problem, BridleError, ValidationError) as error:
        return await _page(visit, visit.form, problem_of(error))
    return Html("settings-token.html", {"made": made, "role_words": ROLE_WORDS[made["role"]]})


async def revoke(visit: Visit) -> Shown:
    """Revoke a token."""
    await visit.api(granting.revoke)
    return Redirect(url("settings", said="revoked"))


async def _page(visit: Visit, typed: Fields | None = None, wrong: Problem | None = None) -> Html:
    after = visit.query.whole("after", 0, low=0, high=2**53)
    every = visit.query.get("all") == "1"
    now = visit.service.clock()
    rows = (await visit.api(granting.look))["tokens"]
    # The newest first; those that are over only for who asks.
    rows = [row for row in reversed(rows) if every or _state(row, now) == "in force"]
    copying = backups.may_copy(visit)
    values = {
        "tokens": [(row, _state(row, now)) for row in rows[after : after + PER_PAGE]],
        "total": len(rows), "after": after, "per_page": PER_PAGE, "every": every,
        "typed": typed, "wrong": wrong, "roles": [(one, ROLE_WORDS[one]) for one in ROLES],
        "days": DAYS, "scope": None if visit.caller is None else visit.caller.agents,
        "copying": copying, "backup": backups.latest(visit) if copying else None,
        "here": _here(visit), "limits": _limits(visit.service.limits) if copying else [],
    }  # fmt: skip
    return Html("settings.html", values, 200 if wrong is None else wrong.status)


def _grant(visit: Visit) -> Grant:
    form = visit.form
    days = form.get("days")
    if days not in DAYS:
        raise Problem("invalid_value", "It is not said how long it is for.", field="days")
    expires = None if not days else visit.service.clock() + int(days) * DAY
    named = [name for name in re.split(r"[,;\s]+", form.get("agents")) if name]
    agents = tuple(dict.fromkeys(named)) or None
    if agents is None and form.get("scope") == "some":
        raise Problem(
            "invalid_value", "No agent is named.", field="agents",
            remedy="Name some, or make it for all agents.",
        )  # fmt: skip
    if form.get("scope") == "all":
        agents = None
    note = form.get("note")
    return Grant.model_validate(
        {"role": form.get("role"), "agents": agents, "expires": expires, "note": note}
    )


def _state(row: dict[str, Any], now: float) -> str:
    if row["revoked"] is not None:
        return "revoked"
    return "in force" if row["expires"] is None or row["expires"] > now else "expired"


def _here(visit: Visit) -> list[tuple[str, str]]:
    sqlite = isinstance(visit.service.store, SqliteStore)
    return [
        ("bridle", bridle.__version__),
        ("Python", platform.python_version()),
        ("System", f"{platform.system()} {platform.machine()}"),
        ("Store", "a SQLite file" if sqlite else "PostgreSQL"),
        ("Agents in memory", f"{visit.service.agents_held:,}"),
    ]


def _limits(limits: Limits) -> list[tuple[str, str]]:
    return [
        (field.name.replace("_", " "), _plain(getattr(limits, field.name)))
        for field in fields(limits)
    ]


def _plain(value: bool | float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/settings", handle=look, like=(SEE,)),
    Page(method="POST", path="/settings/tokens", handle=grant, like=(SEE, GRANT)),
    Page(method="POST", path="/settings/tokens/{id}/revoke", handle=revoke, like=(SEE, REVOKE)),
)

"""Settings of the service: tokens, a backup, and the limits in force.

A backup is made in the background and then fetched as one file. It holds every log and the hashes
of all tokens: it is for admins of all agents, and stays on the disk of the server for an hour.
"""

from __future__ import annotations

import asyncio
import platform
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

import bridle
from bridle.api.requests import Grant
from bridle.errors import BridleError
from bridle.server.endpoints import ROLES
from bridle.server.handlers import operations
from bridle.server.limits import Limits
from bridle.server.problems import Problem, problem_of
from bridle.store.log import Head, Store
from bridle.store.maintenance import backup
from bridle.store.sqlite import SqliteStore
from bridle.web.forms import Fields
from bridle.web.jobs import Job, Progress, jobs_of
from bridle.web.page import Html, Page, Redirect, Shown, Stream, Visit
from bridle.web.rendering import url

__all__ = ["PAGES", "Backup", "latest", "may_copy"]


SEE = "GET /v1/tokens"
GRANT = "POST /v1/tokens"
KEY = "backup"
MOST_SECONDS = 3_600.0  # that a backup can be fetched
PIECE = 2**18


class Backup(NamedTuple):
    """A backup on the disk of the server."""

    path: Path
    size: int
    heads: dict[str, Head]


def may_copy(visit: Visit) -> bool:
    """Whether the caller may have a copy of everything."""
    return visit.caller is not None and visit.caller.agents is None and visit.may(GRANT)


def latest(visit: Visit) -> Job | None:
    """Return the latest backup; an old one is removed."""
    jobs = jobs_of(visit.service)
    job = jobs.find(KEY)
    if job is None or job.ended is None or visit.service.clock() < job.ended + MOST_SECONDS:
        return job
    jobs.forget(KEY)
    return None


async def start(visit: Visit) -> Shown:
    """Begin to copy everything."""
    _check(visit)
    store = visit.service.store
    jobs_of(visit.service).start(
        KEY, "Copying everything", lambda progress: _make_backup(store, progress), drop=_drop
    )
    return Redirect("/settings#backup")


async def fetch(visit: Visit) -> Shown:
    """Send the backup as a file."""
    _check(visit)
    job = latest(visit)
    if job is None or job.state != "done":
        raise Problem("not_found", "There is no backup.", remedy="Make one, and fetch it then.")
    made: Backup = job.result
    day = datetime.fromtimestamp(job.began, UTC).strftime("%Y-%m-%d")
    return Stream(_pieces(made.path), "application/vnd.sqlite3", f"bridle-{day}.db")


async def remove(visit: Visit) -> Shown:
    """Remove the backup from the server."""
    _check(visit)
    await visit.service.aside(lambda: jobs_of(visit.service).forget(KEY))
    return Redirect("/settings?said=removed#backup")


def _check(visit: Visit) -> None:
    if not may_copy(visit):
        raise Problem(
            "forbidden",
            "A backup holds all agents, and your token is not for all of them.",
            remedy="Ask somebody whose token is for all agents.",
        )


def _make_backup(store: Store, progress: Progress) -> Backup:
    folder = Path(tempfile.mkdtemp(prefix="bridle-backup-"))  # for nobody else to read
    try:
        path = folder / "backup.db"
        heads = backup(store, path, progress=progress)
        return Backup(path, path.stat().st_size, heads)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _drop(made: Backup) -> None:
    shutil.rmtree(made.path.parent, ignore_errors=True)


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    # An open file can be read to the end even if it is removed meanwhile.
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece
    finally:
        file.close()


# --- The page: tokens, the backup, and the limits in force --------------------------------
#
# For admins. One whose token is for some agents sees and grants no more than that.

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


async def show(visit: Visit) -> Shown:
    """Show the tokens, the backup and the settings in force."""
    return await _page(visit)


async def grant(visit: Visit) -> Shown:
    """Make a token, and show it: here and never again."""
    try:
        made = await visit.api(operations.grant, _grant(visit))
    except (Problem, BridleError, ValidationError) as error:
        return await _page(visit, visit.form, problem_of(error))
    return Html("settings-token.html", {"made": made, "role_words": ROLE_WORDS[made["role"]]})


async def revoke(visit: Visit) -> Shown:
    """Revoke a token."""
    await visit.api(operations.revoke)
    return Redirect(url("settings", said="revoked"))


async def _page(visit: Visit, typed: Fields | None = None, wrong: Problem | None = None) -> Html:
    after = visit.query.whole("after", 0, low=0, high=2**53)
    every = visit.query.get("all") == "1"
    now = visit.service.clock()
    rows = (await visit.api(operations.list_tokens))["tokens"]
    # The newest first; expired and revoked ones only on demand.
    rows = [row for row in reversed(rows) if every or _state(row, now) == "in force"]
    copying = may_copy(visit)
    values = {
        "tokens": [(row, _state(row, now)) for row in rows[after : after + PER_PAGE]],
        "total": len(rows),
        "after": after,
        "per_page": PER_PAGE,
        "every": every,
        "typed": typed,
        "wrong": wrong,
        "roles": [(one, ROLE_WORDS[one]) for one in ROLES],
        "days": DAYS,
        "scope": None if visit.caller is None else visit.caller.agents,
        "copying": copying,
        "backup": latest(visit) if copying else None,
        "here": _here(visit),
        "limits": _limits(visit.service.limits) if copying else [],
    }
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
            "invalid_value",
            "No agent is named.",
            field="agents",
            remedy="Name some, or make it for all agents.",
        )
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
    Page(method="POST", path="/settings/backup", handle=start, like=(SEE, GRANT)),
    Page(method="GET", path="/settings/backup", handle=fetch, like=(SEE, GRANT)),
    Page(method="POST", path="/settings/backup/remove", handle=remove, like=(SEE, GRANT)),
    Page(method="GET", path="/settings", handle=show, like=(SEE,)),
    Page(method="POST", path="/settings/tokens", handle=grant, like=(SEE, GRANT)),
    Page(method="POST", path="/settings/tokens/{id}/revoke", handle=revoke, like=(SEE, REVOKE)),
)

"""A copy of everything, to keep elsewhere: made in the background, then fetched as one file.

It holds every log and the hashes of all tokens: it is for admins of all agents, and stays on the
server's disk no longer than need be.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bridle.service.pages.jobs import Job, Progress, jobs_of
from bridle.service.pages.page import Page, Redirect, Shown, Stream, Visit
from bridle.service.problems import Problem
from bridle.store.copying import backup
from bridle.store.records import Head, Store

__all__ = ["PAGES", "Made", "latest", "may_copy"]

SEE = "GET /v1/tokens"
GRANT = "POST /v1/tokens"
KEY = "backup"
MOST_SECONDS = 3_600.0  # that one stays to be fetched
PIECE = 2**18


class Made(NamedTuple):
    """A backup on the disk of the server."""

    path: Path
    size: int
    heads: dict[str, Head]


def may_copy(visit: Visit) -> bool:
    """Say whether who has signed in may have a copy of everything."""
    return visit.caller is not None and visit.caller.agents is None and visit.may(GRANT)


def latest(visit: Visit) -> Job | None:
    """Give the latest backup; one that has stood for long is removed."""
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
        KEY, "Copying everything", lambda progress: _made(store, progress), drop=_drop
    )
    return Redirect("/settings#backup")


async def fetch(visit: Visit) -> Shown:
    """Give the backup as a file."""
    _check(visit)
    job = latest(visit)
    if job is None or job.state != "done":
        raise Problem("not_found", "There is no backup.", remedy="Make one, and fetch it then.")
    made: Made = job.result
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
            "forbidden", "A backup holds all agents, and your token is not for all of them.",
            remedy="Ask somebody whose token is for all agents.",
        )  # fmt: skip


def _made(store: Store, progress: Progress) -> Made:
    folder = Path(tempfile.mkdtemp(prefix="bridle-backup-"))  # for nobody else to read
    try:
        path = folder / "backup.db"
        heads = backup(store, path, progress=progress)
        return Made(path, path.stat().st_size, heads)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _drop(made: Made) -> None:
    shutil.rmtree(made.path.parent, ignore_errors=True)


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    # Who has it open reads it to the end, also if it is removed meanwhile.
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece
    finally:
        file.close()


PAGES: tuple[Page, ...] = (
    Page(method="POST", path="/settings/backup", handle=start, like=(SEE, GRANT)),
    Page(method="GET", path="/settings/backup", handle=fetch, like=(SEE, GRANT)),
    Page(method="POST", path="/settings/backup/remove", handle=remove, like=(SEE, GRANT)),
)

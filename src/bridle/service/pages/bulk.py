"""Teaching from a csv: send it, see what it would change, confirm.

Nothing is kept in between: the page that asks for confirmation carries what will be taught.
"""

from __future__ import annotations

import hashlib
import random
import time
from typing import Any

from bridle.errors import BridleError
from bridle.features import Schema
from bridle.service import teaching
from bridle.service.pages.bulkpreview import AGAINST, preview_of, read_csv, standing_of
from bridle.service.pages.csvs import MAX_ROWS, BadCsv, ExampleRow, example_columns, written
from bridle.service.pages.nextquestion import made_contexts
from bridle.service.pages.page import Html, Page, Redirect, Shown, Visit
from bridle.service.pages.progress import FROM_CSV
from bridle.service.pages.rendering import url
from bridle.service.pages.saying import said_of
from bridle.service.pages.voices import voice_of
from bridle.service.problems import Problem, problem_of
from bridle.service.teaching import Example, TeachMany
from bridle.settings import Arm
from bridle.store.writing import Desk

__all__ = ["PAGES"]

BATCH = 50  # examples in one piece of work: others want to write, too
SECONDS = 5.0  # of one request; then the page asks for the next
LAST = 2**53
TEACH = "POST /v1/agents/{agent}/examples"


async def show(visit: Visit) -> Shown:
    """Show where a csv can be sent."""
    taught = visit.query.whole("taught", 0, low=0, high=MAX_ROWS)
    return await _form(visit, taught=taught)


async def preview(visit: Visit) -> Shown:
    """Show what a csv would change."""
    text = visit.form.get("csv")
    try:
        if "file" in visit.form.files:
            text = visit.form.files["file"].text
        if not text.strip():
            raise BadCsv(["Choose a file, or write some lines."])
        schema, arms = await _about(visit)
        read = await visit.service.aside(lambda: read_csv(schema, arms, text))
        standing = await visit.service.do(visit.agent, lambda desk: standing_of(desk, read))
        found = await visit.service.aside(lambda: preview_of(schema, arms, read, standing, name_of))
        most = visit.service.limits.body_bytes * 9 // 10
        if len(found.csv.encode()) + found.csv.count("\n") > most:
            raise BadCsv([f"It is too large to be sent back: at most {most:,} bytes. Send parts."])
    except Problem as problem:
        return await _form(visit, text=text, problem=problem)
    values = {
        "agent": visit.agent,
        "found": found,
        "against": sum(found.counts[e] for e in AGAINST),
    }
    said = {"note": visit.form.get("note"), "teacher": visit.form.get("teacher")}
    return Html("bulk-preview.html", {**values, **said})


async def confirm(visit: Visit) -> Shown:
    """Teach what was confirmed; as much as fits into a request, then the page goes on."""
    form = visit.form
    text = _text(form.need("csv"))
    version = form.whole("version", low=1, high=LAST)
    fine, upto = (form.whole(name, low=0, high=MAX_ROWS) for name in ("fine", "upto"))
    at = form.whole("at", 0, low=0, high=MAX_ROWS)
    try:
        schema, arms = await _about(visit)
        read = await visit.service.aside(lambda: read_csv(schema, arms, text))
    except Problem as problem:
        return await _form(visit, text=text, problem=problem)
    rows = read.rows[:upto]
    name, wrong = name_of(text, version), None
    until = time.monotonic() + SECONDS
    while at < len(rows):
        # A batch is taken as a whole or not at all: whatever is sent again is cut the same way.
        end = min(at + BATCH, fine if at < fine else len(rows), len(rows))
        try:
            await visit.api(teaching.teach, _batch(visit, name, rows[at:end], at))
        except (BridleError, Problem) as error:
            wrong = problem_of(error)
            break
        at = end
        if time.monotonic() >= until:
            break
    if wrong is None and at >= len(rows):
        return Redirect(url("agents", visit.agent, "teach", "bulk", taught=len(rows)))
    values = {
        "agent": visit.agent, "csv": text, "version": version, "fine": fine, "upto": upto,
        "at": at, "total": len(rows), "note": form.get("note"), "problem": wrong,
        "teacher": form.get("teacher"),
    }  # fmt: skip
    return Html("bulk-going.html", values, 200 if wrong is None else wrong.status)


def _batch(visit: Visit, name: str, rows: list[ExampleRow], first: int) -> TeachMany:
    examples = [
        Example(
            context=row.context,
            arm=row.arm,
            allowed=row.allowed,
            id=f"{name}.{first + n}",
        )
        for n, row in enumerate(rows)
    ]
    teacher = visit.form.optional("teacher")
    return TeachMany(examples=tuple(examples), teacher=teacher, **said_of(visit))


def name_of(csv: str, version: int) -> str:
    """Name a csv, and so its examples: what is sent twice is taught once.

    `version` is the agent's when the csv was looked at. So it can be taught again later, if it was
    taken back.
    """
    said = hashlib.blake2b(f"{version}\n{csv}".encode(), digest_size=12).hexdigest()
    return f"{FROM_CSV}{said}"


def _text(sent: str) -> str:
    """Give a csv as it was before a browser sent it: with plain ends of lines."""
    return sent.replace("\r\n", "\n").rstrip("\n") + "\n"


async def _about(visit: Visit) -> tuple[Schema, list[Arm]]:
    def look(desk: Desk) -> tuple[Schema, list[Arm]]:
        know = desk.kept.know
        return know.settings.features, know.arms

    return await visit.service.do(visit.agent, look)


async def _form(
    visit: Visit, text: str = "", problem: Problem | None = None, taught: int = 0
) -> Html:
    schema, arms = await _about(visit)
    voice = await visit.service.do(visit.agent, lambda desk: voice_of(visit, desk.kept.know))
    wrongs: list[str] = []
    if problem is not None:
        wrongs = problem.wrongs if isinstance(problem, BadCsv) else [problem.message]
    values: dict[str, Any] = {
        "agent": visit.agent, "text": text, "wrongs": wrongs, "taught": taught,
        "note": visit.form.get("note"), "sample": _sample(schema, arms), "most": MAX_ROWS,
        "remedy": problem.remedy if problem is not None else None, "voice": voice,
    }  # fmt: skip
    return Html("bulk.html", values, 200 if problem is None else problem.status)


def _sample(schema: Schema, arms: list[Arm]) -> str:
    """Give some lines as this agent reads them."""
    rows: list[list[object]] = [list(example_columns(schema))]
    for n, context in enumerate(made_contexts(schema, 2, random.Random(1))[:2]):
        values = [context.get(feature.name, f"name {n + 1}") for feature in schema.features]
        rows.append([*values, arms[-n % len(arms)].id, n == 0])
    return written(rows)


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/teach/bulk", handle=show, like=(TEACH,)),
    Page(method="POST", path="/agents/{agent}/teach/bulk", handle=preview, like=(TEACH,)),
    Page(method="POST", path="/agents/{agent}/teach/bulk/confirm", handle=confirm, like=(TEACH,)),
)

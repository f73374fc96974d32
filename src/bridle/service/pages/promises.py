"""The certificate: what it says and assumes; made by answering its questions, dropped with why."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import ValidationError

from bridle.binomial import contexts_needed
from bridle.errors import BridleError, NotPossible
from bridle.service import acting, promising
from bridle.service.acting import PromiseQuery
from bridle.service.pages.audits import standing_words
from bridle.service.pages.calibrations import Cost, Draft, cost_of, draft_of
from bridle.service.pages.page import Html, Page, Redirect, Shown, Visit
from bridle.service.pages.promised import reserve_of
from bridle.service.pages.rendering import url
from bridle.service.pages.saying import said_of
from bridle.service.pages.words import arm_words, schema_context_words
from bridle.service.problems import Problem, problem_of
from bridle.service.promising import AuditQuery, Calibrate, CalibrationAnswer, Drop
from bridle.store.writing import Desk

__all__ = ["PAGES"]

SEE = "GET /v1/agents/{agent}/certificate"
BEGIN = "POST /v1/agents/{agent}/certificate"
ANSWER = "POST /v1/agents/{agent}/certificate/answer"
DROP = "DELETE /v1/agents/{agent}/certificate"
KEPT = "GET /v1/agents/{agent}/promise"
AUDITS = "GET /v1/agents/{agent}/audit"
MOST_LINES = 40  # features that a question shows at once
LEVEL = 0.01  # of violations, at which audits are told here


class _More(NamedTuple):
    """What the page tells beyond the certificate."""

    audits: bool
    waiting: int
    surprises: int | None  # None: the limits do not count them
    rules: int
    examples: int
    exact: bool  # whether denials hold to the letter


async def promises(visit: Visit) -> Shown:
    """Show what is promised: the certificate, the audits, and what was declared."""
    promise = await visit.api(promising.promise)
    more = await visit.service.do(visit.agent, _more)
    kept = (await visit.api(acting.promise, query=PromiseQuery())).promise
    audit = None
    if more.audits:
        audit = (await visit.api(promising.audits, query=AuditQuery(level=LEVEL, limit=1))).total
    values = {
        "agent": visit.agent, "certificate": promise.certificate,
        "calibration": promise.calibration, "more": more, "audit": audit,
        "words": None if audit is None else standing_words(audit),
        "kept": kept, "reserve": None if kept is None else reserve_of(kept),
    }  # fmt: skip
    return Html("promises.html", values)


def _more(desk: Desk) -> _More:
    kept = desk.kept
    auto = kept.know.believing.kind == "auto"
    return _More(
        kept.auditing.meter is not None, len(kept.auditing.pending),
        len(kept.agent.surprises) if auto else None, len(kept.know.rules), len(kept.know.examples),
        kept.know.remembers,
    )  # fmt: skip


# -- making one ------------------------------------------------------------------------------


async def begin_form(visit: Visit) -> Shown:
    """Show how a certificate is begun."""
    promise = await visit.api(promising.promise)
    if promise.calibration is not None:
        return Redirect(url("agents", visit.agent, "promises", "question"))
    return await _begin_form(visit, Draft())


async def begin(visit: Visit) -> Shown:
    """Begin a calibration; or only look what it would take."""
    draft = Draft.of(visit.form)
    try:
        form = Calibrate(**await draft_of(visit, draft), **said_of(visit))
        if visit.form.get("do") == "look":
            return await _begin_form(visit, draft, cost=await cost_of(visit, form))
        promise = await visit.api(promising.begin, form)
    except (Problem, BridleError, ValidationError) as error:
        # A person chose a file and typed: that is shown again, with what is wrong with it.
        return await _begin_form(visit, draft, wrong=problem_of(error))
    if promise.calibration is None:  # nothing was worth a question
        return Redirect(url("agents", visit.agent, "promises", said="made"))
    return Redirect(url("agents", visit.agent, "promises", "question", said="begun"))


async def _begin_form(
    visit: Visit, draft: Draft, *, wrong: Problem | None = None, cost: Cost | None = None
) -> Html:
    def features(desk: Desk) -> tuple[list[str], int]:
        return [one.name for one in desk.kept.agent.schema.features], len(desk.kept.know.arms)

    columns, arms = await visit.service.do(visit.agent, features)
    needed = [(alpha, contexts_needed(alpha, 0.1)) for alpha in (0.1, 0.05, 0.02, 0.01)]
    values = {
        "agent": visit.agent, "draft": draft, "wrong": wrong, "cost": cost, "columns": columns,
        "arms": arms, "needed": needed,
    }  # fmt: skip
    return Html("promises-begin.html", values, 200 if wrong is None else wrong.status)


# -- its questions ---------------------------------------------------------------------------


async def question(visit: Visit) -> Shown:
    """Ask the calibration question at hand."""
    promise = await visit.api(promising.promise)
    asked = promise.calibration
    if asked is None:
        return Redirect(url("agents", visit.agent, "promises"))

    def in_words(desk: Desk) -> tuple[str, list[tuple[str, str]]]:
        kept = desk.kept
        arm = kept.know.arms[kept.know.arm_number(asked.arm)]
        return arm_words(arm), schema_context_words(kept.agent.schema, asked.context)

    arm, context = await visit.service.do(visit.agent, in_words)
    values = {
        "agent": visit.agent, "asked": asked, "arm": arm, "features": context,
        "later": visit.query.get("later") == "1", "most_lines": MOST_LINES,
    }  # fmt: skip
    return Html("promises-question.html", values)


async def answer(visit: Visit) -> Shown:
    """Take an answer, if it is for the question at hand: two quick presses are one."""
    allowed = visit.form.need("allowed")
    if allowed not in ("yes", "no"):
        raise Problem("invalid_value", "The answer is neither yes nor no.", field="allowed")
    before = visit.form.whole("answers", low=0, high=2**53)
    form = CalibrationAnswer(allowed=allowed == "yes", answers=before, **said_of(visit))
    here = ("agents", visit.agent, "promises")
    try:
        promise = await visit.api(promising.calibrate, form)
    except NotPossible:
        if (await visit.api(promising.promise)).calibration is None:
            raise
        return Redirect(url(*here, "question", later=1))
    if promise.refused is not None:
        remedy = "Your answers stand in the log. Teach more, and try again on fresh contexts."
        raise Problem("conflict", promise.refused, remedy=remedy)
    if promise.calibration is None:
        return Redirect(url(*here, said="made"))
    return Redirect(url(*here, "question"))


async def drop(visit: Visit) -> Shown:
    """Give up the calibration, or drop the certificate: the one that is named."""
    what = visit.form.need("what")
    if what not in ("calibration", "certificate"):
        raise Problem("invalid_value", "It is not said what to drop.", field="what")
    note = said_of(visit)
    if what == "certificate" and note["note"] is None:
        raise Problem("invalid_value", "Say why the certificate is dropped.", field="note")
    await visit.api(promising.drop, query=Drop.model_validate({"what": what, **note}))
    return Redirect(url("agents", visit.agent, "promises", said="dropped"))


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/promises", handle=promises, like=(SEE, AUDITS, KEPT)),
    Page(method="GET", path="/agents/{agent}/promises/begin", handle=begin_form, like=(BEGIN,)),
    Page(method="POST", path="/agents/{agent}/promises/begin", handle=begin, like=(BEGIN,)),
    Page(method="GET", path="/agents/{agent}/promises/question", handle=question, like=(ANSWER,)),
    Page(method="POST", path="/agents/{agent}/promises/answer", handle=answer, like=(ANSWER,)),
    Page(method="POST", path="/agents/{agent}/promises/drop", handle=drop, like=(DROP,)),
)

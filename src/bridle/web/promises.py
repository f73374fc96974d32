"""The pages of promises: the one that the agent acts on with its price, and the certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import ValidationError

from bridle.agent.events import Abstained, Asked, Decided
from bridle.agent.purse import RESERVE
from bridle.api.replies import PriceShown, PromiseKept
from bridle.api.requests import (
    MAX_CALIBRATION,
    AuditQuery,
    Calibrate,
    CalibrationAnswer,
    Drop,
    PriceWanted,
    PromiseDrop,
    PromiseQuery,
    PromiseWanted,
)
from bridle.certificates.binomial import contexts_needed, most_broken
from bridle.errors import BridleError, NotPossible
from bridle.kernels.purse import RECHECK
from bridle.schema import Schema
from bridle.server.handlers import certificates, promise
from bridle.server.handlers import promise as acting
from bridle.server.problems import Problem, problem_of
from bridle.store.aggregate import event_of
from bridle.store.log import Store
from bridle.store.writer import UnitOfWork
from bridle.web.agents import one_in, plays
from bridle.web.checks import audit_words
from bridle.web.csvs import read_contexts
from bridle.web.forms import Fields
from bridle.web.page import Html, Page, Redirect, Shown, Visit, said_of
from bridle.web.rendering import described, number_words, schema_context_words, url

__all__ = [
    "PAGES",
    "Cost",
    "Draft",
    "Reserve",
    "cost_of",
    "draft_of",
    "latest_contexts",
    "price_words",
    "reserve_of",
]


PRICE = "POST /v1/agents/{agent}/promise/price"
KEEP = "PUT /v1/agents/{agent}/promise"
DROP = "DELETE /v1/agents/{agent}/promise"


class Terms(NamedTuple):
    """The terms of a promise, as they were typed."""

    level: str = "1"  # in 100
    every: str = "50"  # one play in so many is checked
    lag: str = "0"
    steps: str = "20000"

    @classmethod
    def of(cls, form: Fields) -> Terms:
        """Read what was typed."""
        return cls(*(form.get(name)[:40] for name in cls._fields))

    def read(self) -> dict[str, Any]:
        """Return the terms as the API takes them, or raise a `Problem`."""
        form = Fields(list(self._asdict().items()))
        return {
            "alpha": form.number("level", low=0.0001, high=100.0) / 100.0,
            "q": 1.0 / form.number("every", low=1.0, high=1e6),
            "lag": form.whole("lag", 0, low=0, high=10**6),
        }


class Reserve(NamedTuple):
    """The balance on a rail, in percent of its length, and in words."""

    zero: float
    balance: float
    words: str


async def terms(visit: Visit) -> Shown:
    """Show the form for a promise."""
    return _form(visit, Terms())


async def price(visit: Visit) -> Shown:
    """Show what a promise would give and cost. It is switched on from here, and not before."""
    typed = Terms.of(visit.form)
    try:
        steps = Fields([("steps", typed.steps)]).whole("steps", 20_000, low=1, high=10**9)
        wanted = PriceWanted(**typed.read(), steps=steps)
        shown: PriceShown = await visit.api(promise.price, wanted)
    except (Problem, BridleError, ValidationError) as error:
        return _form(visit, typed, problem_of(error))
    values = {"agent": visit.agent, "typed": typed, "price": shown, "words": price_words(shown)}
    return Html("promises-price.html", values)


async def keep(visit: Visit) -> Shown:
    """Switch a promise on."""
    typed = Terms.of(visit.form)
    try:
        await visit.api(promise.keep, PromiseWanted(**typed.read(), **said_of(visit)))
    except (Problem, BridleError, ValidationError) as error:
        return _form(visit, typed, problem_of(error))
    return Redirect(url("agents", visit.agent, "promises", said="promised"))


async def drop(visit: Visit) -> Shown:
    """Switch the promise off."""
    said = said_of(visit)
    if said["note"] is None:
        raise Problem("invalid_value", "Say why the promise is dropped.", field="note")
    await visit.api(promise.drop, query=PromiseDrop(**said))
    return Redirect(url("agents", visit.agent, "promises", said="dropped"))


def _form(visit: Visit, typed: Terms, wrong: Problem | None = None) -> Html:
    values = {"agent": visit.agent, "typed": typed, "wrong": wrong}
    return Html("promises-keep.html", values, 200 if wrong is None else wrong.status)


# -- in words --------------------------------------------------------------------------------


def price_words(one: PriceShown) -> list[tuple[str, str]]:
    """Return what a promise gives and costs: a heading and a sentence each."""
    alpha, q, many = one.alpha, one.q, f"{one.steps:,} decisions"
    first, again = one.bound - alpha * one.steps, min(1.0, RECHECK * q)
    said = [
        (
            "You get",
            f"In {many} at most {_n(one.bound)} plays that are not allowed, on average, whatever "
            f"happens: {_n(100.0 * alpha)} in 100 decisions ({_n(alpha * one.steps)}), and "
            f"{_n(first)} once, at the start.",
        ),
        (
            "You judge",
            f"About {_n(q * one.steps)} to {_n(again * one.steps)} plays in {many}: "
            f"{plays(q)}, and {one_in(again)} of those that a person has allowed "
            "before, since limits can change.",
        ),
    ]
    if one.lag:
        said.append(
            (
                "Late verdicts",
                f"Verdicts may come {one.lag:,} decisions late. For that it may start with "
                f"{_n(one.b)} in reserve, which is part of what is promised at most.",
            )
        )
    if 1.0 / q > RESERVE:
        said.append(
            (
                "If a check finds one",
                f"It becomes careful: it checks more often, up to {plays(1.0 / RESERVE)}, and less "
                f"and less again over about {_n(1.0 / q / alpha)} decisions.",
            )
        )
    longest = math.ceil(round(min(1.0 / q, RESERVE) / alpha, 6))
    said += [
        (
            "If checks find too many",
            "It freezes: it plays only what a person allows at that moment, or nothing, for at "
            f"most {longest:,} decisions at a time. If nobody judges, it freezes, too.",
        ),
        (
            "It holds only if",
            "people judge rightly, by what was allowed when it was played; and nobody who chooses "
            "the cases knows beforehand which plays are checked.",
        ),
    ]
    return said


def reserve_of(one: PromiseKept) -> Reserve:
    """Return the balance on a rail: full at the left end of what it began with, frozen below 0."""
    low, high = -RESERVE, max(one.b, one.balance, 1.0)
    per = 100.0 / (high - low)
    words = (
        f"In reserve: {number_words(round(one.balance, 1))}; at the start it was "
        f"{number_words(round(one.b, 1))}. Each decision adds {number_words(one.alpha)}. A play "
        f"found not allowed takes up to {_n(1.0 / one.q)}, as does one that waits to be judged. "
        "Below 0 it is frozen."
    )
    return Reserve(-low * per, min(max(one.balance - low, 0.0) * per, 100.0), words)


def _n(value: float) -> str:
    """Return an expected count in words: whole where it is large."""
    return number_words(round(value) if value >= 20.0 else value)


# --- Calibration: its contexts, out of a csv or out of the log, and what it costs ---


MOST_SHOWN = 200_000  # characters of a csv that the form shows again
PAGE = 1_000  # entries of a log at a time
MOST_ENTRIES = 20_000  # of a log that are searched for contexts
# Events that change the limits: contexts from before them are not fresh.
LESSONS = frozenset({"Taught", "Retracted", "Regrouped"})


@dataclass(frozen=True)
class Draft:
    """The form of a calibration, as it was filled in: it is shown again if something is wrong."""

    source: str = "log"  # or "csv"
    number: str = "100"
    text: str = ""
    lost: bool = False  # whether there was a csv that is too long to be shown again
    alpha: str = "5"
    delta: str = "10"
    on: str = ""
    note: str = ""

    @classmethod
    def of(cls, form: Fields) -> Draft:
        """Read the fields of a form; an uploaded file takes the place of pasted text."""
        upload = form.files.get("file")
        source = form.get("source") or "log"
        if upload is not None and upload.body:
            source = "csv"
            text = upload.body.decode("utf-8-sig", "replace")
        else:
            text = form.get("csv")
        return cls(
            source=source,
            number=form.get("number"),
            text=text[:MOST_SHOWN],
            lost=len(text) > MOST_SHOWN,
            alpha=form.get("alpha"),
            delta=form.get("delta"),
            on=form.get("on"),
            note=form.get("note"),
        )


class Cost(NamedTuple):
    """What a calibration would cost."""

    contexts: int
    most: int  # questions, at most
    affords: int  # contexts that may have a denied arm among those let through


async def draft_of(visit: Visit, draft: Draft) -> dict[str, Any]:
    """Return the fields of `Calibrate`, or raise a `Problem`."""
    form = visit.form
    alpha = form.number("alpha", low=0.01, high=99.0) / 100.0
    delta = form.number("delta", low=0.01, high=99.0) / 100.0
    if draft.source not in ("log", "csv"):
        raise Problem("invalid_value", "It is not said where the contexts come from.")
    if len(draft.on) > 1_000:
        raise Problem("invalid_value", "Where they come from is longer than 1,000 characters.")
    service, agent = visit.service, visit.agent
    schema = await service.do(agent, lambda work: work.aggregate.agent.schema)
    if draft.source == "log":
        number = form.whole("number", low=1, high=MOST_ENTRIES)
        contexts = await service.aside(
            lambda: latest_contexts(service.store, agent, schema, number)
        )
        remedy = "Wait until more have come since the agent was last taught, or give a csv."
        on = draft.on or f"the last {len(contexts):,} contexts of decisions since the last lesson"
    else:
        upload = form.files.get("file")
        text = upload.text if upload is not None and upload.body else form.get("csv")
        if not text.strip():
            raise Problem("invalid_value", "There is no csv. Choose a file, or paste one.")
        contexts = await service.aside(lambda: read_contexts(schema, text))
        remedy = "Give more of them, or promise less."
        on = draft.on or (upload.name[:200] if upload is not None else "")
    least = contexts_needed(alpha, delta)
    if len(contexts) < least:
        raise Problem(
            "conflict",
            f"There are {len(contexts):,} cases, and {least:,} are the least for this promise.",
            remedy=remedy,
        )
    if len(contexts) > MAX_CALIBRATION:
        raise Problem("invalid_value", f"There are more than {MAX_CALIBRATION:,} contexts.")
    return {"contexts": tuple(contexts), "alpha": alpha, "delta": delta, "on": on}


async def cost_of(visit: Visit, form: Calibrate) -> Cost:
    """Return how many questions a calibration would ask. Nothing is begun."""

    def do(work: UnitOfWork) -> Cost:
        agent = work.aggregate.agent
        rows = agent.schema.encode_many(form.contexts)
        asking = agent.certification_of(rows, form.alpha, form.delta, lambda_min=form.lambda_min)
        _, contexts, _, most = asking.progress
        return Cost(contexts, most, most_broken(contexts, form.alpha, form.delta))

    return await visit.service.do(visit.agent, do)


def latest_contexts(store: Store, agent: str, schema: Schema, most: int) -> list[dict[str, Any]]:
    """Return the contexts of the latest decisions, none from before the limits changed last.

    These are fresh: no example can come from them. Each counts once, at its first
    entry, whether the agent played, abstained or asked.
    """
    head = store.head(agent)
    last = 0 if head is None else head.seq
    lowest = max(0, last - MOST_ENTRIES)
    found: list[dict[str, Any]] = []
    while last > lowest and len(found) < most:
        after = max(lowest, last - PAGE)
        names = store.names(agent, after, last - after)
        for entry in reversed(store.read(agent, after, last - after)):
            if entry.kind in LESSONS or len(found) == most:
                return found[::-1]
            met = any(name.space == "decision" for name in names.get(entry.seq, ()))
            event = event_of(entry) if met and entry.payload is not None else None
            if isinstance(event, Decided | Abstained | Asked):
                found.append(schema.decode(event.context))
        last = after
    return found[::-1]


# --- The certificate: what it says and assumes, its questions, and dropping it ---


SEE = "GET /v1/agents/{agent}/certificate"
BEGIN = "POST /v1/agents/{agent}/certificate"
ANSWER = "POST /v1/agents/{agent}/certificate/answer"
DROP_CERTIFICATE = "DELETE /v1/agents/{agent}/certificate"
KEPT = "GET /v1/agents/{agent}/promise"
AUDITS = "GET /v1/agents/{agent}/audit"
MOST_LINES = 40  # features that a question shows at once
LEVEL = 0.01  # of violations, for which audits are shown here


class _Extras(NamedTuple):
    """What the page shows beyond the certificate."""

    audits: bool
    waiting: int
    surprises: int | None  # None: the limits do not count them
    rules: int
    examples: int
    exact: bool  # whether denials hold to the letter


async def promises(visit: Visit) -> Shown:
    """Show what is promised: the certificate, the audits, and what was declared."""
    promise = await visit.api(certificates.promise)
    more = await visit.service.do(visit.agent, _extras)
    kept = (await visit.api(acting.promise, query=PromiseQuery())).promise
    audit = None
    if more.audits:
        audit = (await visit.api(certificates.audits, query=AuditQuery(level=LEVEL, limit=1))).total
    values = {
        "agent": visit.agent,
        "certificate": promise.certificate,
        "calibration": promise.calibration,
        "more": more,
        "audit": audit,
        "words": None if audit is None else audit_words(audit),
        "kept": kept,
        "reserve": None if kept is None else reserve_of(kept),
    }
    return Html("promises.html", values)


def _extras(work: UnitOfWork) -> _Extras:
    aggregate = work.aggregate
    auto = bool(aggregate.state.limits_state.limits.members)
    return _Extras(
        aggregate.auditing.meter is not None,
        len(aggregate.auditing.pending),
        len(aggregate.agent.surprises) if auto else None,
        len(aggregate.state.rules),
        len(aggregate.state.examples),
        aggregate.state.remembers,
    )


# -- making one ------------------------------------------------------------------------------


async def begin_form(visit: Visit) -> Shown:
    """Show the form that begins a certificate."""
    promise = await visit.api(certificates.promise)
    if promise.calibration is not None:
        return Redirect(url("agents", visit.agent, "promises", "question"))
    return await _begin_form(visit, Draft())


async def begin(visit: Visit) -> Shown:
    """Begin a calibration, or only show what it would cost."""
    draft = Draft.of(visit.form)
    try:
        form = Calibrate(**await draft_of(visit, draft), **said_of(visit))
        if visit.form.get("do") == "look":
            return await _begin_form(visit, draft, cost=await cost_of(visit, form))
        promise = await visit.api(certificates.begin, form)
    except (Problem, BridleError, ValidationError) as error:
        # The form is shown again as it was filled in, with what is wrong.
        return await _begin_form(visit, draft, wrong=problem_of(error))
    if promise.calibration is None:  # nothing was worth a question
        return Redirect(url("agents", visit.agent, "promises", said="made"))
    return Redirect(url("agents", visit.agent, "promises", "question", said="begun"))


async def _begin_form(
    visit: Visit, draft: Draft, *, wrong: Problem | None = None, cost: Cost | None = None
) -> Html:
    def features(work: UnitOfWork) -> tuple[list[str], int]:
        return [one.name for one in work.aggregate.agent.schema.features], len(
            work.aggregate.state.arms
        )

    columns, arms = await visit.service.do(visit.agent, features)
    needed = [(alpha, contexts_needed(alpha, 0.1)) for alpha in (0.1, 0.05, 0.02, 0.01)]
    values = {
        "agent": visit.agent,
        "draft": draft,
        "wrong": wrong,
        "cost": cost,
        "columns": columns,
        "arms": arms,
        "needed": needed,
    }
    return Html("promises-begin.html", values, 200 if wrong is None else wrong.status)


# -- its questions ---------------------------------------------------------------------------


async def question(visit: Visit) -> Shown:
    """Show the present question of the calibration."""
    promise = await visit.api(certificates.promise)
    asked = promise.calibration
    if asked is None:
        return Redirect(url("agents", visit.agent, "promises"))

    def in_words(work: UnitOfWork) -> tuple[str, list[tuple[str, str]]]:
        aggregate = work.aggregate
        arm = aggregate.state.arms[aggregate.state.arm_number(asked.arm)]
        return described(arm), schema_context_words(aggregate.agent.schema, asked.context)

    arm, context = await visit.service.do(visit.agent, in_words)
    values = {
        "agent": visit.agent,
        "asked": asked,
        "arm": arm,
        "features": context,
        "later": visit.query.get("later") == "1",
        "most_lines": MOST_LINES,
    }
    return Html("promises-question.html", values)


async def answer(visit: Visit) -> Shown:
    """Record an answer, if it is to the present question: two quick presses count once."""
    allowed = visit.form.need("allowed")
    if allowed not in ("yes", "no"):
        raise Problem("invalid_value", "The answer is neither yes nor no.", field="allowed")
    before = visit.form.whole("answers", low=0, high=2**53)
    form = CalibrationAnswer(allowed=allowed == "yes", answers=before, **said_of(visit))
    here = ("agents", visit.agent, "promises")
    try:
        promise = await visit.api(certificates.calibrate, form)
    except NotPossible:
        if (await visit.api(certificates.promise)).calibration is None:
            raise
        return Redirect(url(*here, "question", later=1))
    if promise.refused is not None:
        remedy = "Your answers stand in the log. Teach more, and try again on fresh contexts."
        raise Problem("conflict", promise.refused, remedy=remedy)
    if promise.calibration is None:
        return Redirect(url(*here, said="made"))
    return Redirect(url(*here, "question"))


async def drop_certificate(visit: Visit) -> Shown:
    """Drop the calibration or the certificate, as named."""
    what = visit.form.need("what")
    if what not in ("calibration", "certificate"):
        raise Problem("invalid_value", "It is not said what to drop.", field="what")
    note = said_of(visit)
    if what == "certificate" and note["note"] is None:
        raise Problem("invalid_value", "Say why the certificate is dropped.", field="note")
    await visit.api(certificates.drop, query=Drop.model_validate({"what": what, **note}))
    return Redirect(url("agents", visit.agent, "promises", said="dropped"))


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/promises/keep", handle=terms, like=(PRICE,)),
    Page(method="POST", path="/agents/{agent}/promises/price", handle=price, like=(PRICE,)),
    Page(method="POST", path="/agents/{agent}/promises/keep", handle=keep, like=(KEEP,)),
    Page(method="POST", path="/agents/{agent}/promises/unkeep", handle=drop, like=(DROP,)),
    Page(method="GET", path="/agents/{agent}/promises", handle=promises, like=(SEE, AUDITS, KEPT)),
    Page(method="GET", path="/agents/{agent}/promises/begin", handle=begin_form, like=(BEGIN,)),
    Page(method="POST", path="/agents/{agent}/promises/begin", handle=begin, like=(BEGIN,)),
    Page(method="GET", path="/agents/{agent}/promises/question", handle=question, like=(ANSWER,)),
    Page(method="POST", path="/agents/{agent}/promises/answer", handle=answer, like=(ANSWER,)),
    Page(
        method="POST",
        path="/agents/{agent}/promises/drop",
        handle=drop_certificate,
        like=(DROP_CERTIFICATE,),
    ),
)

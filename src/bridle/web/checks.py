"""Plays that people judge: spot checks, one at a time, and audits with their bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bridle.agent.config import Arm, ItemId
from bridle.agent.events import Decided
from bridle.agent.queries import unit_name
from bridle.agent.state import AgentState
from bridle.api.base import WindowForm
from bridle.api.replies import AuditShown, CheckJudged, CheckList, CheckShown, StandingShown
from bridle.api.requests import AuditForm, AuditQuery, CheckJudgement, CheckQuery, Judge, StartAnew
from bridle.errors import Duplicate, NotPossible, UnknownId
from bridle.server.handlers import certificates, promise
from bridle.server.handlers import checks as checking
from bridle.server.handlers.agents import who
from bridle.server.problems import Problem
from bridle.store.aggregate import event_of
from bridle.store.idempotency import id_of, text_of
from bridle.store.log import Store
from bridle.store.writer import UnitOfWork
from bridle.web.agents import one_in, plays
from bridle.web.charts import Line
from bridle.web.page import Html, Page, Redirect, Shown, Visit, said_of
from bridle.web.progress import ExampleLine, Reversal, example_line, is_by, retracted_example
from bridle.web.rendering import described, number_words, schema_context_words, short_words, url
from bridle.web.teach import JudgingAs, judgement_id, judgement_query, judging_as

__all__ = ["PAGES", "audit_words", "whole_bounds"]

SEE = "GET /v1/agents/{agent}/checks"
JUDGE = "POST /v1/agents/{agent}/checks/{id}"
FRESH = "POST /v1/agents/{agent}/fresh-start"
MOST_UNITS = 50  # rows of the table
MOST_LINES = 12  # of a context that are shown; the rest is folded away


class PendingCheck(NamedTuple):
    """A play that waits to be judged, in words."""

    id: str
    title: str
    lines: list[tuple[str, str]]
    arm: Arm
    item: str | None
    coin: str
    at: float | None


class UnitRow(NamedTuple):
    """What checks found in a group of arms, or in an arm."""

    name: str
    judged: int
    found: int
    rate: float
    coin: str  # which plays are checked now


class Findings(NamedTuple):
    """What checks have found so far."""

    judged: int
    found: int
    drawn: int
    units: list[UnitRow]
    left_out: int
    off: bool
    promised: bool
    frozen: bool


class _PageData(NamedTuple):
    waiting: PendingCheck | None
    found: Findings
    last: ExampleLine | None
    undone: Reversal | None
    open: int


async def show(visit: Visit) -> Shown:
    """Show the oldest play that waits, and what was found so far."""
    after = visit.query.whole("after", 0, low=0, high=2**53)
    voice = await visit.service.do(
        visit.agent, lambda work: judging_as(visit, work.aggregate.state)
    )
    listed = await _list_checks(visit, voice, after)
    if not listed.checks and after:  # all others were skipped, or judged meanwhile
        passed, after = after, 0
        listed = await _list_checks(visit, voice, 0)
    else:
        passed = after
    one = listed.checks[0] if listed.checks else None
    last, undone = visit.query.get("last"), visit.query.get("undone")
    mine, to = voice.mine if voice.names else _mine(visit), visit.query.get("to")

    def read(work: UnitOfWork) -> _PageData:
        return _PageData(
            None if one is None else _pending_check(work, one),
            _findings(work.aggregate.state),
            _last(work.aggregate.state, mine, last),
            retracted_example(work, mine, undone) if undone else None,
            len(work.aggregate.state.checks.open),
        )

    data = await visit.service.do(visit.agent, read)
    values = {
        "agent": visit.agent,
        "total": listed.total,
        "after": after,
        "passed": passed,
        "most_lines": MOST_LINES,
        "voice": voice,
        "to": to if to in voice.names else "",
        "elsewhere": data.open - listed.total,
        **data._asdict(),
    }
    return Html("checks.html", values)


async def _list_checks(visit: Visit, voice: JudgingAs, after: int) -> CheckList:
    """List what waits; with several teachers, for the one that this person is."""
    query = CheckQuery(after=after, limit=1, teacher=voice.mine)
    listed: CheckList = await visit.api(checking.checks, query=query)
    return listed


async def judge(visit: Visit) -> Shown:
    """Record a person's verdict on a play; the same verdict twice counts once."""
    given = visit.form.need("answer")
    if given not in ("allowed", "denied"):
        raise Problem("invalid_value", f"{given[:40]!r} is no answer.", field="answer")
    after = visit.form.whole("after", 0, low=0, high=2**53) or None
    here = ("agents", visit.agent, "checks")
    decision, teacher = visit.form.need("decision"), visit.form.optional("teacher")
    word = None if teacher is None else judgement_id(decision, teacher, given)
    form = CheckJudgement(allowed=given == "allowed", teacher=teacher, id=word, **said_of(visit))
    try:
        taken: CheckJudged = await visit.api(checking.judge, form, id=decision)
    except (Duplicate, NotPossible, UnknownId):
        return Redirect(url(*here, after=after, said="before"))
    query = {} if taken.judgement is None else judgement_query(taken.judgement, form.allowed)
    if taken.started_anew:
        query["said"] = "begun-anew"
    last = "" if taken.example is None else text_of(taken.example)
    return Redirect(url(*here, after=after, last=last, **query))


async def start_again(visit: Visit) -> Shown:
    """Start the learned limits again, where that is proposed."""
    if visit.form.get("sure") != "yes":
        why = "Starting again cannot be undone: tick that you know it."
        raise Problem("invalid_value", why, field="sure")
    said = "anew"
    try:
        await visit.api(promise.start_anew, StartAnew(**said_of(visit)))
    except NotPossible:
        said = "not-anew"
    return Redirect(url("agents", visit.agent, "teach", said=said))


# -- in words --------------------------------------------------------------------------------


def _pending_check(work: UnitOfWork, one: CheckShown) -> PendingCheck:
    state = work.aggregate.state
    schema, id = state.settings.features, text_of(one.decision)
    lines = schema_context_words(schema, one.context)
    if len(lines) > MOST_LINES:
        lines.sort(key=lambda line: line[1] in ("no", "none", "not known"))
    return PendingCheck(
        id,
        short_words(schema, one.context),
        lines,
        state.arms[state.arm_number(one.arm)],
        None if one.item is None else str(one.item),
        one_in(one.coin),
        _when(work, id),
    )


def _when(work: UnitOfWork, id: str) -> float | None:
    """Return when a play was made; one that asked first was made when it was settled."""
    for existing in (work.find("settled", id), work.find("decision", id)):
        if existing is not None and isinstance(existing.event, Decided):
            return existing.event.at
    return None


def _last(state: AgentState, mine: str | None, text: str) -> ExampleLine | None:
    """Return the example that this person taught last, if it is in force."""
    example = state.examples.get(id_of(text)) if text else None
    is_mine = example is not None and is_by(state, example.by, mine)
    return example_line(state, example) if example is not None and is_mine else None


def _findings(state: AgentState) -> Findings:
    checks, rates, purse = state.checks, state.limits_state.rates, state.purse
    frozen = purse is not None and purse.frozen
    units: list[UnitRow] = []
    many = 0
    if rates is not None:
        many = rates.units
        least = 0.0 if purse is None or frozen else purse.coin()
        granted = checks.may(state.decisions + 1)
        # The worst first, then those with most verdicts.
        order = np.lexsort((-rates.judged.sum(axis=1), -rates.rates, -rates.judged[:, 1]))
        for u in order[:MOST_UNITS].tolist():
            coin = max(rates.coin(u) if granted and not frozen else 0.0, least)
            units.append(
                UnitRow(
                    unit_name(state, u),
                    int(rates.judged[u].sum()),
                    int(rates.judged[u, 1]),
                    float(rates.rates[u]),
                    plays(coin) if coin > 0.0 else "none",
                )
            )
    off = rates is None and purse is None
    return Findings(
        checks.judged,
        checks.found,
        checks.drawn,
        units,
        many - len(units),
        off,
        purse is not None,
        frozen,
    )


def _mine(visit: Visit) -> str | None:
    """Return the name under which the log knows the caller."""
    return who(visit.caller, said_of(visit)["by"])


# --- Audits: both bounds of the meter, what they say for a level, and pending decisions ---


SEE_AUDITS = "GET /v1/agents/{agent}/audit"
BEGIN_AUDITS = "POST /v1/agents/{agent}/audit"
JUDGE_AUDIT = "POST /v1/agents/{agent}/audits/{id}/answer"
PER_PAGE = 10
MOST_ALARMS = 20
MOST_AUDIT_LINES = 40  # features of a decision that are shown
NEAR = 1e-9  # tolerance of rounding


class PendingAudit(NamedTuple):
    """A decision that waits to be audited, in words; without them if it was erased."""

    id: str
    at: float | None
    arm: str | None
    features: list[tuple[str, str]]
    more: int = 0  # features that are not shown


class Gauge(NamedTuple):
    """Both bounds on a rail, in percent of its length."""

    lower: float
    upper: float
    granted: float
    most: float  # the value at the end of the rail


async def audits(visit: Visit) -> Shown:
    """Show the audit meter."""
    if not await visit.service.do(
        visit.agent, lambda work: work.aggregate.auditing.meter is not None
    ):
        return Html("checks-audits-none.html", {"agent": visit.agent})
    level = visit.query.number("level", 1.0, low=0.0, high=100.0)
    after = visit.query.whole("after", 0, low=0, high=2**53)
    audit = await _audit(visit, level, after)
    if not audit.pending and after:  # judged meanwhile
        after = max(0, (audit.pending_total - 1) // PER_PAGE * PER_PAGE)
        audit = await _audit(visit, level, after)
    ids = [one.decision for one in audit.pending]
    events = await visit.service.aside(lambda: _events(visit.service.store, visit.agent, ids))
    values = {
        "agent": visit.agent,
        "audit": audit,
        "level": level,
        "after": after,
        "per_page": PER_PAGE,
        "words": audit_words(audit.total),
        "bounds": whole_bounds(audit.total),
        "gauge": _gauge(audit.total),
        "alarms": [(one, audit_words(one)) for one in reversed(audit.alarms[-MOST_ALARMS:])],
        "waiting": await visit.service.do(visit.agent, lambda work: _in_words(work, ids, events)),
        "lines": await visit.service.do(visit.agent, _lines),
    }
    return Html("checks-audits.html", values)


async def _audit(visit: Visit, level: float, after: int) -> AuditShown:
    query = AuditQuery(level=level / 100.0, after=after, limit=PER_PAGE)
    shown: AuditShown = await visit.api(certificates.audits, query=query)
    return shown


async def audits_moved(visit: Visit) -> Shown:
    """Redirect from the former address of the audits."""
    return Redirect(url("agents", visit.agent, "promises", "audits"))


async def begin_audits(visit: Visit) -> Shown:
    """Begin audits, for the life of the agent."""
    form = visit.form
    if form.get("sure") != "yes":
        raise Problem("invalid_value", "Audits are for life: tick that you know it.", field="sure")
    q = form.number("q", low=0.0001, high=100.0) / 100.0
    delta = form.number("delta", low=0.01, high=99.0) / 100.0
    windows = []
    if form.get("length"):
        length = form.whole("length", low=10, high=2**31 - 1)
        windows.append(WindowForm(length=length, delta=delta))
    await visit.api(certificates.audit, AuditForm(q=q, delta=delta, windows=tuple(windows)))
    return Redirect(url("agents", visit.agent, "promises", "audits", said="begun"))


async def judge_audit(visit: Visit) -> Shown:
    """Record a judgement of an audited decision."""
    allowed = visit.form.need("allowed")
    if allowed not in ("yes", "no"):
        raise Problem("invalid_value", "The answer is neither yes nor no.", field="allowed")
    after = visit.form.whole("after", 0, low=0, high=2**53)
    level = visit.form.number("level", 1.0, low=0.0, high=100.0)
    # Without a note, so that the same answer sent twice is one request.
    form = Judge(allowed=allowed == "yes", by=said_of(visit)["by"])
    await visit.api(certificates.judge, form)
    to = url("agents", visit.agent, "promises", "audits", after=after or None, level=f"{level:g}")
    return Redirect(f"{to}#waiting")


# -- in words --------------------------------------------------------------------------------


def audit_words(one: StandingShown) -> str:
    """Return what audits show for a level, in words."""
    level, granted = f"{100.0 * one.level:g} %", number_words(one.granted)
    least, most = (number_words(end) for end in whole_bounds(one))
    if not one.steps:
        return "Nothing was decided yet."
    if one.state == "shown good":
        return f"At most {most} broke the limits, and a level of {level} grants {granted}."
    if one.state == "alarm":
        return f"At least {least} broke the limits, and a level of {level} grants only {granted}."
    return (
        f"Between {least} and {most} broke the limits, and a level of {level} grants {granted}: "
        "it may be kept, or not."
    )


def whole_bounds(one: StandingShown) -> tuple[int, int]:
    """Return both bounds as whole numbers, as they bound a count."""
    return math.ceil(one.lower - NEAR), math.floor(one.upper + NEAR)


def _gauge(one: StandingShown) -> Gauge:
    most = max(one.upper, one.granted, 1.0) * 1.05
    return Gauge(
        100.0 * one.lower / most, 100.0 * one.upper / most, 100.0 * one.granted / most, most
    )


def _lines(work: UnitOfWork) -> list[Line]:
    """Return both bounds over the log: at most a few hundred points."""
    meter = work.aggregate.auditing.meter
    assert meter is not None
    tallies = [span.audits for span in work.aggregate.timeline.spans if span.audits is not None]
    points = [(float(tally.actions), meter.bounds_at(tally)) for tally in tallies]
    return [
        Line("at most", [(x, bounds.upper) for x, bounds in points], "c2"),
        Line("at least", [(x, bounds.lower) for x, bounds in points], "c1"),
    ]


def _events(store: Store, agent: str, ids: Sequence[ItemId]) -> dict[str, Decided]:
    """Return decisions from the log; erased ones are left out."""
    texts = [text_of(id) for id in ids]
    # A decision that asked first was made when it was settled.
    places = store.find(agent, "decision", texts) | store.find(agent, "settled", texts)
    found = {}
    for text, place in places.items():
        [entry] = store.read(agent, place.seq - 1, 1)
        event = event_of(entry)
        if isinstance(event, Decided):
            found[text] = event
    return found


def _in_words(
    work: UnitOfWork, ids: Sequence[ItemId], events: dict[str, Decided]
) -> list[PendingAudit]:
    state, schema = work.aggregate.state, work.aggregate.agent.schema
    shown = []
    for id in ids:
        text = text_of(id)
        event = events.get(text)
        if event is None:
            shown.append(PendingAudit(text, None, None, []))
            continue
        arm = described(state.arms[state.arm_number(event.arm)])
        features = schema_context_words(schema, schema.decode(event.context))
        more = max(0, len(features) - MOST_AUDIT_LINES)
        shown.append(PendingAudit(text, event.at, arm, features[:MOST_AUDIT_LINES], more))
    return shown


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/checks", handle=show, like=(SEE,)),
    Page(method="POST", path="/agents/{agent}/checks/judge", handle=judge, like=(JUDGE,)),
    Page(method="POST", path="/agents/{agent}/fresh-start", handle=start_again, like=(FRESH,)),
    Page(method="GET", path="/agents/{agent}/audits", handle=audits_moved, like=(SEE_AUDITS,)),
    Page(method="GET", path="/agents/{agent}/promises/audits", handle=audits, like=(SEE_AUDITS,)),
    Page(
        method="POST",
        path="/agents/{agent}/promises/audits",
        handle=begin_audits,
        like=(BEGIN_AUDITS,),
    ),
    Page(
        method="POST",
        path="/agents/{agent}/promises/audits/{id}",
        handle=judge_audit,
        like=(JUDGE_AUDIT,),
    ),
)

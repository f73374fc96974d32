"""The audit meter: both bounds, what they say for a level, and the decisions that wait."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from bridle.agent.config import ItemId
from bridle.agent.events import Decided
from bridle.api.base import WindowForm
from bridle.api.replies import AuditShown, StandingShown
from bridle.api.requests import AuditForm, AuditQuery, Judge
from bridle.server.handlers import certificates
from bridle.server.problems import Problem
from bridle.store.aggregate import event_of
from bridle.store.idempotency import text_of
from bridle.store.log import Store
from bridle.store.writer import UnitOfWork
from bridle.web.charts import Line
from bridle.web.page import Html, Page, Redirect, Shown, Visit, said_of
from bridle.web.rendering import arm_words, number_words, schema_context_words, url

__all__ = ["PAGES", "standing_words", "whole_bounds"]

SEE = "GET /v1/agents/{agent}/audit"
BEGIN = "POST /v1/agents/{agent}/audit"
JUDGE = "POST /v1/agents/{agent}/audits/{id}/answer"
PER_PAGE = 10
MOST_ALARMS = 20
MOST_LINES = 40  # features of a decision that are shown
NEAR = 1e-9  # what floats may lack to a whole number


class Waiting(NamedTuple):
    """A decision that waits for a judge, in words; without them if it was erased."""

    id: str
    at: float | None
    arm: str | None
    features: list[tuple[str, str]]
    more: int = 0  # features that are not shown


class Gauge(NamedTuple):
    """Where both bounds stand on a rail, in percent of its length."""

    lower: float
    upper: float
    granted: float
    most: float  # what the end of the rail stands for


async def audits(visit: Visit) -> Shown:
    """Show the audit meter."""
    if not await visit.service.do(
        visit.agent, lambda work: work.aggregate.auditing.meter is not None
    ):
        return Html("audits-none.html", {"agent": visit.agent})
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
        "words": standing_words(audit.total),
        "bounds": whole_bounds(audit.total),
        "gauge": _gauge(audit.total),
        "alarms": [(one, standing_words(one)) for one in reversed(audit.alarms[-MOST_ALARMS:])],
        "waiting": await visit.service.do(visit.agent, lambda work: _in_words(work, ids, events)),
        "lines": await visit.service.do(visit.agent, _lines),
    }
    return Html("audits.html", values)


async def _audit(visit: Visit, level: float, after: int) -> AuditShown:
    query = AuditQuery(level=level / 100.0, after=after, limit=PER_PAGE)
    shown: AuditShown = await visit.api(certificates.audits, query=query)
    return shown


async def moved(visit: Visit) -> Shown:
    """Go to where audits are."""
    return Redirect(url("agents", visit.agent, "promises", "audits"))


async def begin(visit: Visit) -> Shown:
    """Begin audits, for life."""
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


async def judge(visit: Visit) -> Shown:
    """Take a judgement of a decision."""
    allowed = visit.form.need("allowed")
    if allowed not in ("yes", "no"):
        raise Problem("invalid_value", "The answer is neither yes nor no.", field="allowed")
    after = visit.form.whole("after", 0, low=0, high=2**53)
    level = visit.form.number("level", 1.0, low=0.0, high=100.0)
    # Without a reason: the same answer twice, by one person, is then one and the same request.
    form = Judge(allowed=allowed == "yes", by=said_of(visit)["by"])
    await visit.api(certificates.judge, form)
    to = url("agents", visit.agent, "promises", "audits", after=after or None, level=f"{level:g}")
    return Redirect(f"{to}#waiting")


# -- in words --------------------------------------------------------------------------------


def standing_words(one: StandingShown) -> str:
    """Say what audits show for a level."""
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
    """Give both bounds as whole numbers, as what they bound is one."""
    return math.ceil(one.lower - NEAR), math.floor(one.upper + NEAR)


def _gauge(one: StandingShown) -> Gauge:
    most = max(one.upper, one.granted, 1.0) * 1.05
    return Gauge(
        100.0 * one.lower / most, 100.0 * one.upper / most, 100.0 * one.granted / most, most
    )


def _lines(work: UnitOfWork) -> list[Line]:
    """Give both bounds in the course of the log: at most a few hundred points."""
    meter = work.aggregate.auditing.meter
    assert meter is not None
    tallies = [span.audits for span in work.aggregate.timeline.spans if span.audits is not None]
    points = [(float(tally.actions), meter.bounds_at(tally)) for tally in tallies]
    return [
        Line("at most", [(x, bounds.upper) for x, bounds in points], "c2"),
        Line("at least", [(x, bounds.lower) for x, bounds in points], "c1"),
    ]


def _events(store: Store, agent: str, ids: Sequence[ItemId]) -> dict[str, Decided]:
    """Find decisions in the log; what was erased is left out."""
    texts = [text_of(id) for id in ids]
    # One that asked first was made when it was settled.
    places = store.find(agent, "decision", texts) | store.find(agent, "settled", texts)
    found = {}
    for text, place in places.items():
        [entry] = store.read(agent, place.seq - 1, 1)
        event = event_of(entry)
        if isinstance(event, Decided):
            found[text] = event
    return found


def _in_words(work: UnitOfWork, ids: Sequence[ItemId], events: dict[str, Decided]) -> list[Waiting]:
    state, schema = work.aggregate.state, work.aggregate.agent.schema
    shown = []
    for id in ids:
        text = text_of(id)
        event = events.get(text)
        if event is None:
            shown.append(Waiting(text, None, None, []))
            continue
        arm = arm_words(state.arms[state.arm_number(event.arm)])
        features = schema_context_words(schema, schema.decode(event.context))
        more = max(0, len(features) - MOST_LINES)
        shown.append(Waiting(text, event.at, arm, features[:MOST_LINES], more))
    return shown


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/audits", handle=moved, like=(SEE,)),
    Page(method="GET", path="/agents/{agent}/promises/audits", handle=audits, like=(SEE,)),
    Page(method="POST", path="/agents/{agent}/promises/audits", handle=begin, like=(BEGIN,)),
    Page(method="POST", path="/agents/{agent}/promises/audits/{id}", handle=judge, like=(JUDGE,)),
)

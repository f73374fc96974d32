"""Promises: the certificate, the audit meter, and what another dial setting would have earned."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np

from bridle.agent.events import (
    AuditBegun,
    Audited,
    Calibrated,
    CalibrationBegun,
    CalibrationDropped,
    Event,
)
from bridle.api.base import WindowForm
from bridle.api.replies import (
    Answered,
    AuditShown,
    CalibrationQuestion,
    CertificateShown,
    EvaluationList,
    EvaluationShown,
    IntervalShown,
    PendingAudit,
    Promise,
    Recommended,
    StandingShown,
)
from bridle.api.requests import (
    AuditForm,
    AuditQuery,
    Calibrate,
    CalibrationAnswer,
    Drop,
    Evaluate,
    Judge,
    digest_of,
)
from bridle.audit.log import audits_in, meter_of
from bridle.audit.meter import Standing
from bridle.certificates.certificate import Certificate
from bridle.errors import BridleError, Duplicate, NotPossible
from bridle.evaluation.evaluate import Evaluation, evaluate
from bridle.evaluation.recommend import recommend
from bridle.server.endpoints import Call, Endpoint, Reply
from bridle.server.handlers.agents import who
from bridle.store.aggregate import Aggregate, events_in, log_head
from bridle.store.idempotency import id_of
from bridle.store.writer import UnitOfWork

__all__ = ["ENDPOINTS"]


# -- the certificate -------------------------------------------------------------------------


async def promise(call: Call) -> Reply:
    """Show the certificate."""
    return Reply(
        200, await call.service.do(call.path["agent"], lambda work: _promise(work.aggregate))
    )


async def begin(call: Call) -> Reply:
    """Begin a calibration."""
    form: Calibrate = call.body
    by = who(call.caller, form.by)

    def do(work: UnitOfWork) -> Promise:
        aggregate = work.aggregate
        rows = aggregate.agent.schema.encode_many(form.contexts)
        rows.flags.writeable = False
        aggregate.record(
            CalibrationBegun(
                rows, form.alpha, form.delta, form.lambda_min, form.on, by, form.note, work.now
            )
        )
        return _promise(aggregate, _finish(work, by))

    return Reply(201, await call.service.do(call.path["agent"], do))


async def calibrate(call: Call) -> Reply:
    """Answer the calibration question at hand."""
    form: CalibrationAnswer = call.body
    by = who(call.caller, form.by)

    def do(work: UnitOfWork) -> Promise:
        asking, before = work.aggregate.calibration.now, form.answers
        if asking is not None and before is not None and asking.progress.answers != before:
            raise NotPossible("Another answer came meanwhile. Look at the question at hand.")
        work.aggregate.record(Calibrated(form.allowed, by, form.note, work.now))
        return _promise(work.aggregate, _finish(work, by))

    return Reply(200, await call.service.do(call.path["agent"], do))


async def drop(call: Call) -> Reply:
    """Drop the calibration that is under way; or, if none is, the certificate."""
    query: Drop = call.query
    by = who(call.caller, query.by)

    def do(work: UnitOfWork) -> Promise:
        aggregate = work.aggregate
        at_hand = "certificate" if aggregate.calibration.now is None else "calibration"
        if query.what not in (None, at_hand):
            raise NotPossible(f"It is not the {query.what} that is to be dropped now.")
        if at_hand == "calibration":
            aggregate.record(CalibrationDropped(by, query.note, work.now))
        else:
            aggregate.record(aggregate.agent.make.uncertified(by=by, note=query.note, at=work.now))
        return _promise(aggregate)

    return Reply(200, await call.service.do(call.path["agent"], do))


def _finish(work: UnitOfWork, by: str | None) -> str | None:
    """Adopt the certificate when the last answer is in; return why there is none, if so."""
    asking = work.aggregate.calibration.now
    if asking is None or asking.question() is not None:
        return None
    make = work.aggregate.agent.make
    try:
        certificate = asking.certificate(at=work.now)
        event: Event = make.certified(certificate, learned_since=True, by=by, at=work.now)
    except BridleError as error:
        # The answers stand in the log; another try needs fresh contexts.
        why = f"No certificate: {error}"[:1_000]
        work.aggregate.record(CalibrationDropped(by, why, work.now))
        return why
    work.aggregate.record(event)
    return None


def _promise(aggregate: Aggregate, refused: str | None = None) -> Promise:
    asking, certificate = aggregate.calibration.now, aggregate.state.certificate
    question = None
    if asking is not None and (now := asking.question()) is not None:
        done, contexts, answers, most = asking.progress
        row = np.asarray(asking.calibration.contexts)[now[0]]
        question = CalibrationQuestion(
            context=aggregate.agent.schema.decode(row),
            arm=now[1],
            done=done,
            contexts=contexts,
            answers=answers,
            at_most=most,
        )
    shown = None if certificate is None else _certificate(certificate)
    return Promise(
        version=aggregate.version, certificate=shown, calibration=question, refused=refused
    )


def _certificate(one: Certificate) -> CertificateShown:
    return CertificateShown(
        alpha=one.alpha,
        delta=one.delta,
        n=one.n,
        threshold=one.threshold,
        broken=one.broken,
        answers=one.answers,
        keeps=one.keeps,
        at=one.at,
        on=one.on,
        assumptions=tuple(one.assumptions),
        kind=one.kind,
        fingerprint=one.fingerprint,
        sentence=one.sentence(),
    )


# -- audits ----------------------------------------------------------------------------------


async def audit(call: Call) -> Reply:
    """Begin audits."""
    form: AuditForm = call.body
    by = who(call.caller, None)

    def do(work: UnitOfWork) -> AuditShown:
        windows = tuple((window.length, window.delta) for window in form.windows)
        begun = AuditBegun(form.q, form.delta, secrets.randbits(64), windows, by, None, work.now)
        meter_of(begun)
        work.aggregate.record(begun)
        return _audit(work.aggregate, AuditQuery())

    return Reply(201, await call.service.do(call.path["agent"], do))


async def audits(call: Call) -> Reply:
    """Show the audit meter."""
    query: AuditQuery = call.query

    def do(work: UnitOfWork) -> AuditShown:
        return _audit(work.aggregate, query)

    return Reply(200, await call.service.do(call.path["agent"], do))


async def judge(call: Call) -> Reply:
    """Record a teacher's judgement of a decision that the coin chose."""
    form: Judge = call.body
    by, text, digest = who(call.caller, form.by), call.path["id"], digest_of(form)

    def do(work: UnitOfWork) -> Answered:
        before = work.find("judgement", text)
        if before is not None:
            if before.digest != digest:
                raise Duplicate("judgement", text, "An audit is answered once.")
            return Answered(version=before.seq)
        event = Audited(id_of(text), form.allowed, by, form.note, work.now)
        work.aggregate.record(event, digest)
        return Answered(version=work.aggregate.version)

    return Reply(200, await call.service.do(call.path["agent"], do))


def _audit(aggregate: Aggregate, query: AuditQuery) -> AuditShown:
    meter, auditing = aggregate.auditing.meter, aggregate.auditing
    if meter is None:
        raise NotPossible("This agent has no audits. Begin them: POST …/audit.")
    waiting = list(auditing.pending)
    return AuditShown(
        q=meter.q,
        delta=meter.delta,
        windows=tuple(WindowForm(length=one.length, delta=one.delta) for one in meter.windows),
        steps=meter.steps,
        before=auditing.before,
        total=_standing(meter.standing(query.level)),
        alarms=tuple(_standing(one) for one in meter.alarms(query.level)[-100:]),
        pending=tuple(PendingAudit(decision=id) for id in waiting[query.after :][: query.limit]),
        pending_total=len(waiting),
    )


def _standing(one: Standing) -> StandingShown:
    return StandingShown(
        state=one.state,
        level=one.level,
        granted=one.granted,
        lower=one.bounds.lower,
        upper=one.bounds.upper,
        first=one.first,
        steps=one.steps,
        found=one.found,
        judged=one.judged,
        pending=one.pending,
        delta=one.delta,
    )


# -- evaluation ------------------------------------------------------------------------------


async def evaluation(call: Call) -> Reply:
    """Estimate what other positions of the dial would have earned."""
    form: Evaluate = call.body
    agent, store = call.path["agent"], call.service.store

    def run() -> EvaluationList:
        until = log_head(store, agent).seq

        def log() -> Iterator[Event]:
            return events_in(store, agent, until)

        meter = audits_in(log())
        found = evaluate(log(), sigma=list(form.sigmas), level=form.level, audits=meter)
        best = None
        if form.budget is not None:
            advice = recommend(log(), form.budget, list(form.sigmas), audits=meter)
            best = Recommended(sigma=advice.sigma, basis=advice.basis, sentence=advice.sentence)
        shown = [_evaluation(one) for one in found]
        return EvaluationList(version=until, evaluations=tuple(shown), recommended=best)

    return Reply(200, await call.service.aside(run))


def _evaluation(one: Evaluation) -> EvaluationShown:
    def interval(found: Any) -> IntervalShown | None:
        if found is None:
            return None
        return IntervalShown(value=found.value, low=found.low, high=found.high)

    return EvaluationShown(
        sigma=one.sigma or 0.0,
        decisions=one.decisions,
        left_out=one.left_out,
        missing=one.missing,
        logged=one.logged,
        abstains=one.abstains,
        ips=interval(one.ips),
        dr=interval(one.dr),
        effective_plays=one.support.size,
        support=one.support.choices,
        believed=one.believed,
        believed_logged=one.believed_logged,
        audited=one.audited,
        refused=one.refused,
        draws=one.draws,
        sampling=one.sampling,
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/agents/{agent}/certificate",
        roles=("teacher", "auditor", "admin"),
        handle=promise,
        summary="Show the certificate",
        replies={200: (Promise, "The certificate, and the calibration under way")},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/certificate",
        roles=("teacher", "admin"),
        handle=begin,
        body=Calibrate,
        summary="Begin to certify the limits",
        replies={201: (Promise, "The first question")},
        problems={409: "A calibration is under way, or this agent cannot be certified"},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/certificate/answer",
        roles=("teacher", "admin"),
        handle=calibrate,
        body=CalibrationAnswer,
        summary="Answer the calibration question at hand",
        replies={200: (Promise, "The next question, or the certificate")},
        problems={409: "No calibration is under way, or another answer came meanwhile"},
    ),
    Endpoint(
        method="DELETE",
        path="/v1/agents/{agent}/certificate",
        roles=("teacher", "admin"),
        handle=drop,
        query=Drop,
        summary="Drop the calibration under way, or else the certificate",
        replies={200: (Promise, "It is dropped")},
        problems={409: "There is neither, or not the one that is meant"},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/audit",
        roles=("admin",),
        handle=audit,
        body=AuditForm,
        summary="Begin audits",
        replies={201: (AuditShown, "They have begun")},
        description="A coin that nobody knows chooses decisions to be judged. For life.",
        problems={409: "Audits have begun already"},
    ),
    Endpoint(
        method="GET",
        path="/v1/agents/{agent}/audit",
        roles=("teacher", "auditor", "admin"),
        handle=audits,
        query=AuditQuery,
        summary="Show the audit meter",
        replies={200: (AuditShown, "Both bounds, and the audits that wait")},
        problems={409: "This agent has no audits"},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/audits/{id}/answer",
        roles=("teacher", "admin"),
        handle=judge,
        body=Judge,
        summary="Judge a decision that the coin chose",
        replies={200: (Answered, "The judgement is taken")},
        problems={409: "It waits for no judgement, or was judged otherwise"},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/evaluate",
        roles=("auditor", "admin"),
        handle=evaluation,
        body=Evaluate,
        summary="Say what other positions of the dial would have earned",
        replies={200: (EvaluationList, "From the log, with refusals where it cannot tell")},
        problems={409: "The log cannot tell"},
    ),
)

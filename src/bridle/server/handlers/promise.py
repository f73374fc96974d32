"""The promise that the agent acts on: purse, price and meter; and limits that are begun anew."""

from __future__ import annotations

from bridle.agent.purse import Purse
from bridle.agent.queries import fresh_start_of
from bridle.api.models import PromiseForm
from bridle.api.replies import (
    FreshStartProposed,
    FreshStartShown,
    MeterShown,
    PriceShown,
    PromiseKept,
    PromiseShown,
)
from bridle.api.requests import (
    STEPS,
    PriceWanted,
    PromiseDrop,
    PromiseQuery,
    PromiseWanted,
    StartAnew,
)
from bridle.errors import NotPossible
from bridle.server.endpoints import Call, Endpoint, Reply
from bridle.server.handlers.agents import who
from bridle.store.aggregate import Aggregate
from bridle.store.writer import UnitOfWork

__all__ = ["ENDPOINTS"]

DELTA = 0.05  # the error of the bound that holds at every time


# -- the promise -----------------------------------------------------------------------------


async def promise(call: Call) -> Reply:
    """Show the promise."""
    query: PromiseQuery = call.query

    def do(work: UnitOfWork) -> PromiseShown:
        return _shown(work.aggregate, query.steps)

    return Reply(200, await call.service.do(call.path["agent"], do))


async def keep(call: Call) -> Reply:
    """Set the promise that the agent keeps; the same one again changes nothing."""
    form: PromiseWanted = call.body
    by = who(call.caller, form.by)

    def do(work: UnitOfWork) -> tuple[int, PromiseShown]:
        aggregate = work.aggregate
        purse, wanted = aggregate.state.purse, _purse(form)
        if purse is not None and _terms(purse) == _terms(wanted):
            return 200, _shown(aggregate, STEPS)
        event = aggregate.agent.make.promised(
            form.alpha, form.q, lag=form.lag, b=form.b, by=by, note=form.note, at=work.now
        )
        aggregate.record(event)
        return 201, _shown(aggregate, STEPS)

    return Reply(*await call.service.do(call.path["agent"], do))


async def drop(call: Call) -> Reply:
    """Keep no promise any more."""
    query: PromiseDrop = call.query
    by = who(call.caller, query.by)

    def do(work: UnitOfWork) -> PromiseShown:
        aggregate = work.aggregate
        aggregate.record(aggregate.agent.make.promise_dropped(by=by, note=query.note, at=work.now))
        return _shown(aggregate, STEPS)

    return Reply(200, await call.service.do(call.path["agent"], do))


async def price(call: Call) -> Reply:
    """Return what a promise would give and cost. Changes nothing."""
    form: PriceWanted = call.body

    def do(work: UnitOfWork) -> PriceShown:
        purse, steps = _purse(form), form.steps
        return PriceShown(
            alpha=purse.alpha,
            q=purse.q,
            lag=purse.lag,
            b=purse.b,
            steps=steps,
            bound=purse.bound(steps),
            sharper=purse.sharper_bound(steps),
            sure=purse.bound_with(steps, delta=DELTA),
            price=tuple(purse.price_in_words(steps)),
        )

    return Reply(200, await call.service.do(call.path["agent"], do))


def _purse(form: PromiseForm) -> Purse:
    return Purse(alpha=form.alpha, q=form.q, lag=form.lag, b=form.b)


def _terms(purse: Purse) -> tuple[float, float, int, float]:
    return purse.alpha, purse.q, purse.lag, purse.b


def _shown(aggregate: Aggregate, horizon: int) -> PromiseShown:
    purse, event = aggregate.state.purse, aggregate.state.promise
    if purse is None or event is None:
        return PromiseShown(version=aggregate.version, promise=None)
    steps = purse.steps
    shown = PromiseKept(
        alpha=purse.alpha,
        q=purse.q,
        lag=purse.lag,
        b=purse.b,
        since=event.at,
        state=purse.state,
        frozen=purse.frozen,
        sentence=purse.sentence(),
        balance=purse.balance,
        steps=steps,
        coins=purse.coins,
        audits=purse.audits,
        found=purse.found,
        waiting=len(purse.waiting),
        took=purse.took,
        thaws_in=purse.thaws_in,
        bound=purse.bound(steps),
        sharper=purse.sharper_bound(steps),
        sure=purse.bound_with(steps, delta=DELTA),
        meter=_meter(aggregate),
        price=tuple(purse.price_in_words(horizon)),
    )
    return PromiseShown(version=aggregate.version, promise=shown)


def _meter(aggregate: Aggregate) -> MeterShown | None:
    meter = aggregate.auditing.promise_meter
    if meter is None:
        return None
    tally, (lower, upper) = meter.tally, meter.bounds()
    return MeterShown(
        lower=lower,
        upper=upper,
        delta=meter.delta,
        steps=meter.steps,
        actions=tally.actions,
        found=tally.found,
        judged=tally.found + tally.clean,
        pending=tally.pending,
    )


# -- fresh starts ----------------------------------------------------------------------------


async def fresh_start(call: Call) -> Reply:
    """Show what speaks for beginning anew."""

    def do(work: UnitOfWork) -> FreshStartShown:
        return _proposed(work.aggregate)

    return Reply(200, await call.service.do(call.path["agent"], do))


async def start_anew(call: Call) -> Reply:
    """Begin anew what was learned of the limits."""
    form: StartAnew = call.body
    by = who(call.caller, form.by)

    def do(work: UnitOfWork) -> FreshStartShown:
        aggregate = work.aggregate
        proposed, why = fresh_start_of(aggregate.state), form.why
        if why is None and proposed is not None:
            why = proposed.why
        if why is None:
            raise NotPossible("Nothing speaks for beginning anew. If you know better, say why.")
        aggregate.record(aggregate.agent.make.started_anew(why, by=by, note=form.note, at=work.now))
        return _proposed(aggregate)

    return Reply(200, await call.service.do(call.path["agent"], do))


def _proposed(aggregate: Aggregate) -> FreshStartShown:
    one = fresh_start_of(aggregate.state)
    shown = None if one is None else FreshStartProposed(why=one.why, kept=one.kept, lost=one.lost)
    return FreshStartShown(version=aggregate.version, proposal=shown)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/v1/agents/{agent}/promise",
        roles=("teacher", "auditor", "admin"),
        handle=promise,
        query=PromiseQuery,
        summary="Show the promise that binds",
        replies={200: (PromiseShown, "Where it stands, what it bounds, what it costs")},
    ),
    Endpoint(
        method="PUT",
        path="/v1/agents/{agent}/promise",
        roles=("admin",),
        handle=keep,
        body=PromiseWanted,
        summary="Keep a promise",
        description="From here on a secret coin chooses plays to be judged, and when they have "
        "found too much only what a teacher allows at that very decision is played. The same "
        "promise again changes nothing.",
        replies={
            200: (PromiseShown, "It binds already"),
            201: (PromiseShown, "It binds from here on"),
        },
        problems={409: "Another promise binds: drop that first"},
    ),
    Endpoint(
        method="DELETE",
        path="/v1/agents/{agent}/promise",
        roles=("admin",),
        handle=drop,
        query=PromiseDrop,
        summary="Drop the promise",
        replies={200: (PromiseShown, "No promise binds any more")},
        problems={409: "No promise binds"},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/promise/price",
        roles=("teacher", "auditor", "admin"),
        handle=price,
        body=PriceWanted,
        summary="Say what a promise would give and cost",
        description="In sentences, before it is switched on. Nothing is changed.",
        replies={200: (PriceShown, "The price in words, and the bounds")},
    ),
    Endpoint(
        method="GET",
        path="/v1/agents/{agent}/fresh-start",
        roles=("teacher", "auditor", "admin"),
        handle=fresh_start,
        summary="Show what speaks for beginning the limits anew",
        replies={200: (FreshStartShown, "Why, what is kept and what is lost")},
    ),
    Endpoint(
        method="POST",
        path="/v1/agents/{agent}/fresh-start",
        roles=("teacher", "admin"),
        handle=start_anew,
        body=StartAnew,
        summary="Begin the limits anew",
        description="What was allowed is forgotten, with what was concluded from it. Denials, "
        "declared rules and what was learned from rewards stay.",
        replies={200: (FreshStartShown, "They are begun anew")},
        problems={409: "Nothing speaks for it, and no reason is given"},
    ),
)

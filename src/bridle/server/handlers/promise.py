"""The promise that acts: its purse, its price, its meter; and limits that are begun anew."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bridle.agent.purse import Purse
from bridle.agent.queries import fresh_start_of
from bridle.api.models import Answered, Form, PromiseForm, Said
from bridle.errors import NotPossible
from bridle.server.endpoints import Call, Endpoint, Reply
from bridle.server.handlers.agents import who
from bridle.store.aggregate import Aggregate
from bridle.store.writer import UnitOfWork

__all__ = ["ENDPOINTS"]

STEPS = 20_000  # over which a price is said, if nothing else is wished
DELTA = 0.05  # the error of the bound that holds at every time

Steps = Annotated[
    int, Field(ge=1, le=1_000_000_000, description="Decisions over which the price is said")
]


class PromiseWanted(Said, PromiseForm):
    """A promise: at most alpha denied plays a decision, by audits with probability q or more."""


class PriceWanted(PromiseForm):
    """A promise whose price is asked for; nothing is changed."""

    steps: Steps = STEPS


class PromiseQuery(Form):
    """Over how many decisions the price is said."""

    steps: Steps = STEPS


class PromiseDrop(Said):
    """Who drops it, and why."""

    # It stands in the address, where there is less room than in a body.
    note: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None


class MeterShown(Form):
    """What audits with varying coins say of the violations since the promise began.

    Each bound is wrong at any time with probability `delta` at most, whatever the agent does. Plays
    that the teacher allowed at that very decision are no actions here.
    """

    lower: float
    upper: float
    delta: float
    steps: int
    actions: int
    found: int
    judged: int
    pending: int


class PromiseKept(Form):
    """The promise that binds, and where it stands.

    `bound`: alpha·steps + b + 1/q, at most so many denied plays are to be expected; `sharper`: the
    same, as this purse's own coins have it; `sure`: with probability 0.95 there are no more, at any
    time. `took`: steps that answers took on average, to hold against `lag`.
    """

    alpha: float
    q: float
    lag: int
    b: float
    since: float | None
    state: Literal["playing", "cautious", "frozen"]
    frozen: bool
    sentence: str
    balance: float
    steps: int
    coins: Annotated[int, Field(description="Plays that had a coin")]
    audits: Annotated[int, Field(description="Plays whose coin fell, answered and waiting")]
    found: int
    waiting: int
    took: float | None
    thaws_in: Annotated[int, Field(description="Decisions until it plays by itself; 0: it does")]
    bound: float
    sharper: float
    sure: float
    meter: MeterShown | None
    price: Annotated[list[str], Field(description="What it gives and costs, in sentences")]


class PromiseShown(Answered):
    """The promise that binds; null if none does."""

    promise: PromiseKept | None


class PriceShown(Form):
    """What a promise would give and cost, in sentences, and the bound over so many decisions."""

    alpha: float
    q: float
    lag: int
    b: float
    steps: int
    bound: float
    sharper: float
    sure: float
    price: list[str]


class StartAnew(Said):
    """Begin anew what was learned of the limits; denials stay.

    `why` may be left out where it is proposed: see GET.
    """

    why: Annotated[str, Field(min_length=1, max_length=10_000)] | None = None


class FreshStartProposed(Form):
    """A proposal to begin anew, in sentences."""

    why: str
    kept: str
    lost: str


class FreshStartShown(Answered):
    """What speaks for beginning anew; null if nothing does."""

    proposal: FreshStartProposed | None


# -- the promise -----------------------------------------------------------------------------


async def promise(call: Call) -> Reply:
    """Show the promise."""
    query: PromiseQuery = call.query

    def do(work: UnitOfWork) -> PromiseShown:
        return _shown(work.aggregate, query.steps)

    return Reply(200, await call.service.do(call.path["agent"], do))


async def keep(call: Call) -> Reply:
    """Have the agent keep a promise; the same one again changes nothing."""
    form: PromiseWanted = call.body
    by = who(call.caller, form.by)

    def do(work: UnitOfWork) -> tuple[int, PromiseShown]:
        kept = work.aggregate
        purse, wanted = kept.state.purse, _purse(form)
        if purse is not None and _terms(purse) == _terms(wanted):
            return 200, _shown(kept, STEPS)
        event = kept.agent.make.promised(
            form.alpha, form.q, lag=form.lag, b=form.b, by=by, note=form.note, at=work.now
        )
        kept.record(event)
        return 201, _shown(kept, STEPS)

    return Reply(*await call.service.do(call.path["agent"], do))


async def drop(call: Call) -> Reply:
    """Keep no promise any more."""
    query: PromiseDrop = call.query
    by = who(call.caller, query.by)

    def do(work: UnitOfWork) -> PromiseShown:
        kept = work.aggregate
        kept.record(kept.agent.make.promise_dropped(by=by, note=query.note, at=work.now))
        return _shown(kept, STEPS)

    return Reply(200, await call.service.do(call.path["agent"], do))


async def price(call: Call) -> Reply:
    """Say what a promise would give and cost. Changes nothing."""
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
            price=purse.price_in_words(steps),
        )

    return Reply(200, await call.service.do(call.path["agent"], do))


def _purse(form: PromiseForm) -> Purse:
    return Purse(alpha=form.alpha, q=form.q, lag=form.lag, b=form.b)


def _terms(purse: Purse) -> tuple[float, float, int, float]:
    return purse.alpha, purse.q, purse.lag, purse.b


def _shown(kept: Aggregate, horizon: int) -> PromiseShown:
    purse, event = kept.state.purse, kept.state.promise
    if purse is None or event is None:
        return PromiseShown(version=kept.version, promise=None)
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
        meter=_meter(kept),
        price=purse.price_in_words(horizon),
    )
    return PromiseShown(version=kept.version, promise=shown)


def _meter(kept: Aggregate) -> MeterShown | None:
    meter = kept.auditing.promise_meter
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
        kept = work.aggregate
        proposed, why = fresh_start_of(kept.state), form.why
        if why is None and proposed is not None:
            why = proposed.why
        if why is None:
            raise NotPossible("Nothing speaks for beginning anew. If you know better, say why.")
        kept.record(kept.agent.make.started_anew(why, by=by, note=form.note, at=work.now))
        return _proposed(kept)

    return Reply(200, await call.service.do(call.path["agent"], do))


def _proposed(kept: Aggregate) -> FreshStartShown:
    one = fresh_start_of(kept.state)
    shown = None if one is None else FreshStartProposed(why=one.why, kept=one.kept, lost=one.lost)
    return FreshStartShown(version=kept.version, proposal=shown)


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

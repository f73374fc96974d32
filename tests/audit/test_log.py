"""The audit meters of a log: its own, and that of a promise."""

from __future__ import annotations

from typing import Any

import pytest

from bridle import Agent, AuditMeter
from bridle.agent.events import (
    Abstained,
    AuditBegun,
    Audited,
    Decided,
    Erased,
    Promised,
    PromiseDropped,
    Taught,
)
from bridle.audit.log import PROMISE_DELTA, Auditing, audits_in
from bridle.audit.meter import Window
from bridle.errors import InvalidValue, NotPossible
from bridle.evaluation.evaluate import evaluate


def decide(agent: Any, context: list[float], id: str, *, nothing: bool, **more: Any) -> Any:
    """Return a decision; or the abstention of a service that was sent no arms to choose among."""
    made = agent.make.decided(context, [] if nothing else None, id, **more)
    agent.sink(made.events)
    for event in made.events:
        agent.apply(event)
    return made


def test_it_is_the_meter_that_one_would_keep_by_hand():
    log: list[Any] = []
    agent: Any = Agent(arms=2, features=1, sigma=0.5, sink=log.extend)
    assert audits_in(log) is None
    agent.decide([1.0])  # before the audits: not their matter
    agent.note(AuditBegun(0.5, 0.05, 11, ((20, 0.01),), by="officer"))
    meter = AuditMeter(0.5, 0.05, seed=11, windows=(Window(20, 0.01),))
    for n in range(50):
        made = decide(agent, [1.0], f"d{n}", nothing=n % 10 == 0, propensity=True)
        if not isinstance(made.event, Decided):
            meter.abstained(n + 1)
        elif meter.observe(n + 1) and n % 3:
            meter.answer(n + 1, n % 7 > 0)
            agent.note(Audited(made.id, n % 7 > 0))
    found: Any = audits_in(log)
    assert found.before == 1 and found.meter.steps == 50
    assert found.meter.bounds() == meter.bounds()
    assert found.meter.bounds(0, 2) == meter.bounds(0, 2)
    assert found.pending == {f"d{int(step) - 1}": step for step in meter.pending}
    for decision in ("d0", "d1", "nobody"):
        if decision not in found.pending:
            with pytest.raises(NotPossible, match="waits for no judgement"):
                found.fold(Audited(decision, True))
    with pytest.raises(InvalidValue, match="begun before the first decision"):
        evaluate(log, sigma=[0.5], audits=found)
    agent.note(AuditBegun(0.1, 0.05, 11))
    with pytest.raises(NotPossible, match=r"begun already, with q = 0\.5 for life"):
        audits_in(log)


def test_an_erased_decision_leaves_the_bounds_true():
    log: list[Any] = []
    agent: Any = Agent(arms=2, features=1, sigma=0.5, sink=log.extend)
    agent.note(AuditBegun(1.0, 0.05, 11))
    for _ in range(3):
        agent.note(Audited(agent.decide([1.0], propensity=True).id, True))
    assert evaluate(log, sigma=[0.5], audits=audits_in(log))[0].audited == (0.0, 0.0)
    log[2:4] = [Erased("Decided", ("decision",)), Erased("Audited", ("judgement",))]
    found: Any = audits_in(log)
    assert found.meter.steps == 3 and found.meter.bounds() == (0.0, 1.0)


# -- the meter of a promise ----------------------------------------------------------------------


def promising(n: int = 300, **more: Any) -> tuple[Any, list[Any]]:
    """Return an agent that plays whatever it is shown, by a promise, and its log."""
    log: list[Any] = []
    agent: Any = Agent(arms=2, features=1, sink=log.extend, seed=5, **more)
    rule = [[1.0], [0.0]] * 4
    for arm in (0, 1):
        agent.teach_many(rule, [arm] * 8, [True] * 8)
    agent.promise(0.2, 0.25, seed=11)
    for k in range(n):
        made = decide(agent, [float(k % 2)], f"d{k}", nothing=k % 10 == 9)
        if getattr(made, "check", None) is not None and k % 3:
            agent.judge(made.check, True)
    return agent, log


def test_the_meter_of_a_promise_is_told_the_coins_of_the_plays():
    agent, log = promising()
    found = Auditing()
    for event in log:
        found.fold(event)
    by_hand = AuditMeter(0.25, PROMISE_DELTA, seed=11)
    steps: dict[Any, int] = {}
    coins = set()
    for event in log[log.index(agent._state.promise) + 1 :]:
        step = by_hand.steps + 1
        if isinstance(event, Abstained):
            by_hand.abstained(step)
        elif isinstance(event, Decided):
            assert event.coin is not None and event.coin >= 0.25
            coins.add(event.coin)
            if by_hand.observe(step, event.coin, drawn=event.checked):
                steps[event.id] = step
        elif isinstance(event, Taught):
            by_hand.answer(steps.pop(event.check), event.allowed)
    meter = found.promise_meter
    plays = sum(isinstance(event, Decided) for event in log)
    assert meter is not None and meter.steps == 300 and meter.actions == plays > 100
    assert len(coins) > 1 and meter.tally == by_hand.tally
    assert meter.bounds() == by_hand.bounds() and found.promise_pending == steps
    assert list(steps) == agent.promised.waiting and len(steps) > 5
    assert found.meter is None and found.needs_events and audits_in(log) is None
    # The other meter is not touched by it, nor this one by the other's judgements.
    for event in (AuditBegun(0.5, 0.05, 3), Decided("x", (1.0,), 0, 1, coin=0.25, checked=True)):
        found.fold(event)
    assert found.meter is not None and found.meter.steps == 1 and meter.steps == 301
    found.fold(PromiseDropped())
    assert found.promise_meter is None and found.promise_pending == {} and found.needs_events
    found.fold(Taught(999, (1.0,), 0, True, check="x"))  # of a promise that is no more
    found.fold(Promised(0.1, 0.5, 0, 2.0, 12))
    assert found.promise_meter is not None and found.promise_meter.q == 0.5
    assert found.promise_meter.steps == 0


def test_what_the_promise_had_no_coin_for_leaves_its_bounds_true():
    found = Auditing()
    found.fold(Decided(1, (1.0,), 0, 1, coin=0.1, checked=True))
    found.fold(Promised(0.1, 0.5, 0, 2.0, 12))
    meter = found.promise_meter
    assert meter is not None
    # What was drawn before it began is not its matter.
    found.fold(Taught(1, (1.0,), 0, False, check=1))
    assert meter.steps == 0 and meter.bounds() == (0.0, 0.0)
    # Allowed at that very step: no action.
    found.fold(Decided(2, (1.0,), 0, 1))
    assert (meter.steps, meter.actions) == (1, 0)
    # Made before the promise, by a lower coin, or erased since: the meter's own coin falls, and
    # what it chose waits for ever, which counts as a violation.
    for n in range(3, 23):
        found.fold(Decided(n, (1.0,), 0, 1, coin=0.1, checked=n % 2 == 0))
        found.fold(Erased("Decided", ("decision",)))
        found.fold(Erased("Rewarded", ("outcome",)))
    assert (meter.steps, meter.actions) == (41, 40) and found.promise_pending == {}
    assert meter.tally.pending > 5 and meter.bounds().upper >= meter.tally.pending


def test_a_meter_that_is_full_ends_and_refuses_no_log(monkeypatch):
    found = Auditing()
    found.fold(Promised(0.1, 0.5, 0, 2.0, 12))
    monkeypatch.setattr("bridle.audit.meter.MAX_PENDING", 2)
    for n in range(1, 5):
        found.fold(Decided(n, (1.0,), 0, 1, coin=0.75, checked=True))
    assert found.promise_meter is None and found.promise_pending == {}


def test_the_bounds_of_a_promise_hold_where_it_is_violated():
    # Each bound is wrong at any time with probability 0.05 at most; that both hold at the end of
    # these 8 fixed seeds is seen, and by the same draws each time.
    for seed in range(8):
        log: list[Any] = []
        agent: Any = Agent(arms=2, features=1, sink=log.extend, seed=seed, sigma=1.0)
        agent.promise(1.0, 0.3, seed=seed + 100)
        denied = 0
        for n in range(200):
            made = agent.decide([n / 200])  # each another, as a denial binds its very context
            if isinstance(made.event, Abstained):  # frozen
                continue
            bad = n % 8 == 0
            denied += bad
            if made.check is not None:
                agent.judge(made.check, not bad)
        found = Auditing()
        for event in log:
            found.fold(event)
        assert found.promise_meter is not None
        lower, upper = found.promise_meter.bounds()
        assert 10 < denied and lower <= denied <= upper < 200

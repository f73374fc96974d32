"""The audit meter of a log."""

from __future__ import annotations

from typing import Any

import pytest

from bridle import Agent, AuditMeter
from bridle.auditing import audits_in
from bridle.errors import InvalidValue, NotPossible
from bridle.evaluating import evaluate
from bridle.events import Decided
from bridle.notes import AuditBegun, Audited, Erased
from bridle.standings import Window


def test_it_is_the_meter_that_one_would_keep_by_hand():
    log: list[Any] = []
    agent: Any = Agent(arms=2, features=1, sigma=0.5, sink=log.extend)
    assert audits_in(log) is None
    agent.decide([1.0])  # before the audits: not their matter
    agent.note(AuditBegun(0.5, 0.05, 11, ((20, 0.01),), by="officer"))
    meter = AuditMeter(0.5, 0.05, seed=11, windows=(Window(20, 0.01),))
    for n in range(50):
        made = agent.decide([1.0], propensity=True, among=[] if n % 10 == 0 else None, id=f"d{n}")
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

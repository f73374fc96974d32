"""The audit meter of a log."""

from __future__ import annotations

from typing import Any

import pytest

from bridle import Agent, AuditMeter
from bridle.auditing import audits_in
from bridle.errors import NotPossible
from bridle.events import Decided
from bridle.notes import AuditBegun, Audited
from bridle.standings import Window


def test_it_is_the_meter_that_one_would_keep_by_hand():
    log: list[Any] = []
    agent: Any = Agent(arms=2, features=1, sigma=0.5, sink=log.extend)
    assert audits_in(log) is None
    agent.decide([1.0])  # before the audits: not their matter
    agent.note(AuditBegun(0.5, 0.05, 11, ((20, 0.01),), by="officer"))
    meter = AuditMeter(0.5, 0.05, seed=11, windows=(Window(20, 0.01),))
    for n in range(50):
        made = agent.decide([1.0], among=[] if n % 10 == 0 else None, id=f"d{n}")
        if not isinstance(made.event, Decided):
            meter.abstained(made.id)
        elif meter.observe(made.id) and n % 3:
            meter.answer(made.id, n % 7 > 0)
            agent.note(Audited(made.id, n % 7 > 0))
    found = audits_in(log)
    assert found is not None and found.steps == 50
    assert found.bounds() == meter.bounds() and found.bounds(0, 2) == meter.bounds(0, 2)
    assert found.pending == meter.pending
    agent.note(AuditBegun(0.1, 0.05, 11))
    with pytest.raises(NotPossible, match=r"begun already, with q = 0\.5 for life"):
        audits_in(log)

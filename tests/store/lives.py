"""Agents that live in a store: pieces of work, and how to compare what is left of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bridle import Agent, Flag, Question
from bridle.agent.events import (
    AuditBegun,
    Audited,
    Calibrated,
    CalibrationBegun,
    Created,
    RewardedLate,
)
from bridle.store.aggregate import Aggregate
from bridle.store.writer import UnitOfWork, Writer
from tests.histories import bits

FEATURES = [Flag("child"), Flag("late")]
CONTEXTS = [{"child": c, "late": late} for c in (True, False) for late in (True, False)]


def created(**more: Any) -> Created:
    given = {"arms": ["crime", "nature"], "features": FEATURES, "limits": "rules", "seed": 3}
    return Created(Agent(**(given | more)).settings, 0.0)


def begin(writer: Writer, name: str = "movies", **more: Any) -> None:
    writer.do(name, lambda work: None, created=created(**more))


def decide(n: int, id: str | None = None) -> Callable[[UnitOfWork], Any]:
    def do(work: UnitOfWork) -> Any:
        context = CONTEXTS[n % 4]
        made = work.aggregate.agent.make.decided(context, id=id, propensity=True, at=work.now)
        for event in made.events:
            work.aggregate.record(event, b"d" * 32)
        return made

    return do


def teach(n: int, allowed: bool) -> Callable[[UnitOfWork], Any]:
    def do(work: UnitOfWork) -> Any:
        make = work.aggregate.agent.make
        event = make.taught(CONTEXTS[n % 4], ["crime", "nature"][n // 4 % 2], allowed, by="Ann")
        work.aggregate.record(event)
        return event.id

    return do


def live(writer: Writer, steps: int, name: str = "movies", first: str = "d") -> None:
    """Do something of everything."""
    for n in range(steps):
        writer.do(name, teach(n, n % 3 > 0))
        made = writer.do(name, decide(n, f"{first}{n}" if n % 2 else None))
        writer.do(name, partial(_then, made=made, n=n))


def _then(work: UnitOfWork, made: Any, n: int) -> None:
    kept = work.aggregate
    make, at = kept.agent.make, work.now
    if isinstance(made, Question):
        kept.record(make.answered(made.id, n % 2 > 0, at=at))
        for event in make.resumed(made.decision, at=at).events:
            kept.record(event)
    elif made.id in kept.state.pending:
        if n % 5 == 0:
            kept.record(make.expired(made.id, at=at))
            kept.record(RewardedLate(made.id, 0.5, at))
        elif n % 5 < 4:
            kept.record(make.rewarded(made.id, n % 3 / 2, at=at))
    if n == 3:
        kept.record(AuditBegun(0.5, 0.05, 7, ((10, 0.05),)))
    if n == 5:
        rows = kept.agent.schema.encode_many(CONTEXTS * 20)
        kept.record(CalibrationBegun(rows, 0.1, 0.1, 0.5, "here"))
    if n > 5 and kept.calibration.now is not None and kept.calibration.now.question() is not None:
        kept.record(Calibrated(True))
    if n % 4 == 1 and kept.auditing.pending:
        kept.record(Audited(next(iter(kept.auditing.pending)), n % 3 > 0))
    if n % 4 == 2:
        other = make.decided(CONTEXTS[n % 4], ask=False, at=at)
        for event in other.events:
            kept.record(event)
        kept.record(make.shadowed(other, "crime", at=at))


def state(kept: Aggregate) -> list[Any]:
    """All that follows from a log, in bits."""
    meter, asking = kept.auditing.meter, kept.calibration.now
    promised = kept.auditing.promise_meter
    return [
        bits(kept.agent),
        kept.head,
        kept.auditing.before,
        kept.auditing.pending,
        None if meter is None else _arrays(meter.to_state()),
        kept.auditing.promise_pending,
        None if promised is None else _arrays(promised.to_state()),
        sorted(kept.erasures.examples),
        None if asking is None else _arrays(asking.to_state()),
        [pair for pair in kept.deadlines.since if pair[0] in kept.state.pending],
        kept.shadows.to_list(),
    ]


def _arrays(arrays: dict[str, Any]) -> list[tuple[str, bytes]]:
    return [(name, np.asarray(array).tobytes()) for name, array in sorted(arrays.items())]

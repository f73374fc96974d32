"""The audit meters of a log: folds of its decisions and of what a teacher said of some of them."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any, ClassVar

from bridle.agent.config import ItemId
from bridle.agent.events import (
    Abstained,
    AuditBegun,
    Audited,
    Decided,
    Erased,
    Event,
    Promised,
    PromiseDropped,
    Taught,
)
from bridle.agent.snapshot import Arrays
from bridle.audit.meter import AuditMeter, Window
from bridle.errors import LimitReached, NotPossible

__all__ = ["PROMISE_DELTA", "Auditing", "audits_in", "meter_of", "under"]

# The error of each bound of a promise's meter.
PROMISE_DELTA = 0.05


class Auditing:
    """Folds events into an `AuditMeter`, from `AuditBegun` on; and into one of the promise.

    A meter counts by the number of the step, not by the decision's id: no id comes twice in a
    log, so none need be remembered, and memory stays flat.

    Attributes
    ----------
    meter : AuditMeter or None
        None as long as no audit has begun.
    before : int
        Decisions and abstentions before that.
    pending : dict from decisions to steps
        The decisions that a teacher has still to judge, oldest first.
    promise_meter : AuditMeter or None
        Of the promise that binds, since it began: its coins vary, and the purse tosses them. A play
        that the teacher allowed at that very step has none, and counts as an abstention: it is no
        violation. None if no promise binds.
    promise_pending : dict from decisions to steps
        The plays that the promise's coins chose and that wait, oldest first.
    """

    # The kinds of events that `check` looks at.
    CHECKS: ClassVar[tuple[type[Event], ...]] = (AuditBegun, Audited)

    def __init__(self) -> None:
        self.meter: AuditMeter | None = None
        self.before = 0
        self.pending: dict[ItemId, int] = {}
        self.promise_meter: AuditMeter | None = None
        self.promise_pending: dict[ItemId, int] = {}

    @property
    def needs_events(self) -> bool:
        """Whether a meter runs, which must see every decision."""
        return self.meter is not None or self.promise_meter is not None

    def fold_many(self, made: Sized, first: int) -> None:
        """Update it with a batch of decisions, while no meter runs."""
        self.before += len(made)

    def fold(self, event: Event, seq: int = 0) -> None:
        """Update it with one event; those that are no matter of audits change nothing."""
        try:
            self._fold_promise(event)
        except LimitReached:
            # A log is never refused for it: the promise stands by its purse, and this meter ends.
            self._end_promise()
        if isinstance(event, AuditBegun):
            self.meter = meter_of(event, self.meter)
        elif isinstance(event, Decided | Abstained):
            if self.meter is None:
                self.before += 1
                return
            step = self.meter.steps + 1
            if isinstance(event, Abstained):
                self.meter.abstained(step)
            elif self.meter.observe(step):
                self.pending[event.id] = step
        elif isinstance(event, Audited):
            self.check(event)
            assert self.meter is not None
            self.meter.answer(self.pending.pop(event.decision), event.allowed)
        elif isinstance(event, Erased) and self.meter is not None and "decision" in event.spaces:
            # What it was is gone. An action that nobody audits leaves both bounds true; the coin
            # may have chosen it, and then it waits for ever.
            self.meter.observe(self.meter.steps + 1)

    def _fold_promise(self, event: Event) -> None:
        if isinstance(event, Promised):
            self._end_promise()
            self.promise_meter = AuditMeter(event.q, PROMISE_DELTA, seed=event.seed)
            return
        meter = self.promise_meter
        if meter is None:
            return
        step = meter.steps + 1
        if isinstance(event, PromiseDropped):
            self._end_promise()
        elif isinstance(event, Decided):
            if event.coin is None:
                meter.abstained(step)
            elif event.coin < meter.q:
                # It was made before the promise was. That nobody audits it leaves both bounds
                # true: the meter's own coin may choose it, and then it waits for ever.
                meter.observe(step)
            elif meter.observe(step, event.coin, drawn=event.checked):
                self.promise_pending[event.id] = step
        elif isinstance(event, Abstained):
            meter.abstained(step)
        elif isinstance(event, Taught) and event.check in self.promise_pending:
            meter.answer(self.promise_pending.pop(event.check), event.allowed)
        elif isinstance(event, Erased) and "decision" in event.spaces:
            meter.observe(step)

    def _end_promise(self) -> None:
        self.promise_meter, self.promise_pending = None, {}

    def check(self, event: Event) -> None:
        """Raise if audits begin a second time, or if nobody waits for a judgement."""
        if isinstance(event, AuditBegun):
            meter_of(event, self.meter)
        if isinstance(event, Audited) and event.decision not in self.pending:
            raise NotPossible(
                f"The decision {event.decision!r:.100} waits for no judgement: the coin did not "
                "choose it, or it was judged already. Others may not count, or the bounds would "
                "not hold."
            )

    def to_state(self) -> tuple[dict[str, Any], Arrays]:
        """Return what a snapshot holds of it: plain values, and the meters' arrays."""
        facts = {
            "audited_before": self.before,
            "audits_pending": [[id, step] for id, step in self.pending.items()],
            "audits": self.meter is not None,
            "promise_pending": [[id, step] for id, step in self.promise_pending.items()],
            "promise": self.promise_meter is not None,
        }
        arrays: Arrays = {}
        for prefix, meter in (("audits.", self.meter), ("promise.", self.promise_meter)):
            if meter is not None:
                arrays |= {prefix + name: array for name, array in meter.to_state().items()}
        return facts, arrays

    def restore(self, facts: dict[str, Any], arrays: Arrays) -> None:
        """Restore what `to_state` returned."""
        self.before = facts["audited_before"]
        self.pending = dict(facts["audits_pending"])
        if facts["audits"]:
            self.meter = AuditMeter.from_state(under("audits.", arrays))
        # Snapshots from before there were promises have none of this.
        self.promise_pending = dict(facts.get("promise_pending", ()))
        if facts.get("promise", False):
            self.promise_meter = AuditMeter.from_state(under("promise.", arrays))


def under(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays whose names begin so, without that beginning."""
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def meter_of(event: AuditBegun, before: AuditMeter | None = None) -> AuditMeter:
    """Return the meter that begins here; a log has one, for life."""
    if before is not None:
        raise NotPossible(
            f"Audits have begun already, with q = {before.q:g} for life: with another coin in "
            "mid-life the bounds would not hold."
        )
    windows = tuple(Window(*pair) for pair in event.windows)
    return AuditMeter(event.q, event.delta, seed=event.seed, windows=windows)


def audits_in(events: Iterable[Event]) -> Auditing | None:
    """Return the audits of a log; None if none was begun in it.

    Examples
    --------
    >>> from bridle import Agent
    >>> log = []
    >>> agent = Agent(arms=2, features=1, sigma=0.5, sink=log.extend)
    >>> agent.note(AuditBegun(q=1.0, delta=0.05, seed=7))
    >>> made = agent.decide([1.0])
    >>> agent.note(Audited(made.id, allowed=True))
    >>> audits_in(log).meter.bounds()
    Bounds(lower=0.0, upper=0.0)
    """
    auditing = Auditing()
    for event in events:
        auditing.fold(event)
    return None if auditing.meter is None else auditing

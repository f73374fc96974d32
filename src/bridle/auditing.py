"""The audit meter of a log: a fold of its decisions and of what a teacher said of some of them."""

from __future__ import annotations

from collections.abc import Iterable

from bridle.audits import AuditMeter
from bridle.errors import NotPossible
from bridle.events import Abstained, Decided, Event
from bridle.notes import AuditBegun, Audited
from bridle.standings import Window

__all__ = ["Auditing", "audits_in"]


class Auditing:
    """Folds events into an `AuditMeter`, from the first `AuditBegun` on.

    Attributes
    ----------
    meter : AuditMeter or None
        None as long as no audit has begun.
    """

    def __init__(self) -> None:
        self.meter: AuditMeter | None = None

    def fold(self, event: Event) -> None:
        """Take one event; those that are no matter of audits change nothing."""
        if isinstance(event, AuditBegun):
            self.meter = meter_of(event, self.meter)
        elif self.meter is None:
            return
        elif isinstance(event, Decided):
            self.meter.observe(event.id)
        elif isinstance(event, Abstained):
            self.meter.abstained(event.id)
        elif isinstance(event, Audited):
            self.meter.answer(event.decision, event.allowed)


def meter_of(event: AuditBegun, before: AuditMeter | None = None) -> AuditMeter:
    """Give the meter that begins here; a log has one, for life."""
    if before is not None:
        raise NotPossible(
            f"Audits have begun already, with q = {before.q:g} for life: with another coin in "
            "mid-life the bounds would not hold."
        )
    windows = tuple(Window(*pair) for pair in event.windows)
    return AuditMeter(event.q, event.delta, seed=event.seed, windows=windows)


def audits_in(events: Iterable[Event]) -> AuditMeter | None:
    """Give the meter of a log; None if no audit was begun in it.

    Examples
    --------
    >>> from bridle import Agent
    >>> log = []
    >>> agent = Agent(arms=2, features=1, sigma=0.5, sink=log.extend)
    >>> agent.note(AuditBegun(q=1.0, delta=0.05, seed=7))
    >>> made = agent.decide([1.0])
    >>> agent.note(Audited(made.id, allowed=True))
    >>> audits_in(log).bounds()
    Bounds(lower=0.0, upper=0.0)
    """
    auditing = Auditing()
    for event in events:
        auditing.fold(event)
    return auditing.meter

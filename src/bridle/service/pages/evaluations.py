"""What each position of the dial is expected to give: worked out of the whole log, in a thread.

It takes milliseconds a decision, so a page begins it and looks at it later. All that the page wants
to tell of any budget is found in one go, so that asking for another costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from bridle.advising import Recommendation, recommend
from bridle.auditing import Auditing
from bridle.errors import BridleError, InvalidValue, NotPossible
from bridle.evaluating import MOST_MISSING, MOST_UNSUPPORTED, Evaluation, evaluate
from bridle.events import Abstained, Certified, Created, Decided, Event, SigmaChanged, Uncertified
from bridle.service.pages.jobs import Progress
from bridle.store.keeping import events_in
from bridle.store.records import Store
from bridle.surveying import RestsOnErased

__all__ = ["Advice", "Evaluated", "Turn", "evaluated", "positions_for", "why_refused"]

MOST_TURNS = 20
EVERY = 200  # events between two reports of progress
# With more decisions than that, fewer positions are worked out: each costs as much as the next.
STEPS = ((5_000, 0.05), (50_000, 0.1))
COARSE = 0.25


class Turn(NamedTuple):
    """The dial was turned."""

    sigma: float
    by: str | None
    note: str | None
    at: float | None


class Advice(NamedTuple):
    """Which position is recommended for a budget; None if none is within it.

    `basis` is "certificate", "audits" or "belief", and `rate` what it leaves of violations.
    """

    sigma: float | None
    basis: str
    rate: float


@dataclass(frozen=True)
class Evaluated:
    """What was found.

    Attributes
    ----------
    version : int
        Events of the log that it is from.
    decisions : int
        Those in it.
    positions : tuple of Evaluation
        By sigma; empty if the log cannot say anything of rewards.
    why_not : str
        Why, then.
    audits : str
        "none", "part" if they do not count all of the log's decisions, or "used".
    turns : tuple of Turn
        The last changes of the dial, the latest first.
    """

    version: int
    decisions: int
    positions: tuple[Evaluation, ...]
    why_not: str
    audits: str
    turns: tuple[Turn, ...]
    rates: tuple[tuple[float, float], ...]
    basis: str
    alpha: float | None
    no_advice: str

    def advice(self, budget: float) -> Advice | None:
        """Give the largest position that stays within a budget; None where none can be given."""
        if self.alpha is not None and self.alpha <= budget:
            return Advice(max(sigma for sigma, _ in self.rates), "certificate", self.alpha)
        if not self.rates:
            return None
        within = list(takewhile(lambda pair: pair[1] <= budget, self.rates))
        if within:
            return Advice(within[-1][0], self.basis, within[-1][1])
        return Advice(None, self.basis, min(rate for _, rate in self.rates))


def positions_for(decisions: int, sigma: float) -> list[float]:
    """Give the positions to work out: a grid, and where the dial is.

    Examples
    --------
    >>> positions_for(10**6, 0.3)
    [0.0, 0.25, 0.3, 0.5, 0.75, 1.0]
    """
    step = next((step for most, step in STEPS if decisions <= most), COARSE)
    n = round(1 / step)
    grid = [round(i * step, 2) for i in range(n + 1)]
    if all(abs(sigma - one) > 1e-9 for one in grid):
        grid.append(sigma)
    return sorted(grid)


def evaluated(store: Store, agent: str, sigma: float, progress: Progress) -> Evaluated:
    """Work it out; `sigma` is where the dial is."""
    head = store.head(agent)
    until = 0 if head is None else head.seq
    log = _Log(store, agent, until, progress)
    first = _first(log)
    sigmas = positions_for(first.decisions, sigma)
    audits = first.audits if first.audits is not None and not first.audits.before else None
    extra = (audits is not None) + first.certified
    log.passes = 2 + extra
    try:
        positions, why_not = _positions(log, sigmas, audits)
    except InvalidValue as error:
        if error.name != "audits":
            raise
        audits = None  # they do not count all that this log has, some of which may be erased
        positions, why_not = _positions(log, sigmas, audits)
    rates, basis, alpha, no_advice = _rates(log, first, sigmas, audits, positions)
    return Evaluated(
        version=until,
        decisions=first.decisions,
        positions=tuple(positions),
        why_not=why_not,
        audits="none" if first.audits is None else "part" if audits is None else "used",
        turns=tuple(reversed(first.turns)),
        rates=rates,
        basis=basis,
        alpha=alpha,
        no_advice=no_advice,
    )


def why_refused(one: Evaluation) -> str:
    """Say in plain words why the log cannot tell what a position would have earned."""
    if one.missing > MOST_MISSING * one.decisions:
        return f"The reward is missing for {one.missing:,} of {one.decisions:,} choices."
    lack = 1.0 - one.support.choices
    if lack > MOST_UNSUPPORTED:
        return f"{lack:.0%} of what it would do was hardly ever tried."
    return f"Only about {one.support.size:.0f} choices in the log were like those it would make."


# -- the parts -------------------------------------------------------------------------------


class _Log:
    """A log that is read several times, with its progress over all of them."""

    def __init__(self, store: Store, agent: str, until: int, progress: Progress) -> None:
        self._read: Callable[[], Iterator[Event]] = lambda: events_in(store, agent, until)
        self._until, self._progress = until, progress
        self._begun = 0
        self.passes = 3

    def __call__(self) -> Iterator[Event]:
        """Read it from the start."""
        before = self._begun * self._until
        self._begun = min(self._begun + 1, self.passes - 1)
        total = self.passes * self._until
        for n, event in enumerate(self._read()):
            if n % EVERY == 0:
                self._progress(before + n, total)
            yield event


class _First(NamedTuple):
    """What a first look at the log shows."""

    decisions: int
    asks: bool
    audits: Auditing | None
    certified: bool
    turns: deque[Turn]


def _first(log: _Log) -> _First:
    auditing = Auditing()
    turns: deque[Turn] = deque(maxlen=MOST_TURNS)
    decisions, asks, certified = 0, False, False
    for event in log():
        auditing.fold(event)
        if isinstance(event, Decided | Abstained):
            decisions += 1
        elif isinstance(event, SigmaChanged):
            turns.append(Turn(event.sigma, event.by, event.note, event.at))
        elif isinstance(event, Certified | Uncertified):
            certified = isinstance(event, Certified)
        elif isinstance(event, Created):
            asks = event.settings.budget > 0
    audits = None if auditing.meter is None else auditing
    return _First(decisions, asks, audits, certified, turns)


def _positions(
    log: _Log, sigmas: Sequence[float], audits: Auditing | None
) -> tuple[list[Evaluation], str]:
    try:
        return evaluate(log(), sigma=list(sigmas), audits=audits), ""
    except RestsOnErased as error:
        return [], str(error)
    except NotPossible:
        return [], (
            "The log does not say how likely each choice was, so it cannot tell what another "
            "position would have earned. Programs that ask for decisions must ask for the "
            "propensity, too."
        )


def _rates(
    log: _Log,
    first: _First,
    sigmas: Sequence[float],
    audits: Auditing | None,
    positions: Sequence[Evaluation],
) -> tuple[tuple[tuple[float, float], ...], str, float | None, str]:
    """Give what each position leaves of violations, by what that is known, and a certificate's α.

    `recommend` reads the log once more, and can be spared it where the model's belief is all there
    is and was found already.
    """
    if not first.decisions:
        return (), "", None, "There is no decision yet to judge by."
    if first.asks:
        return (), "", None, (
            "This agent asks a teacher when in doubt. What it would have asked, been told and "
            "played at another position is not in its log."
        )  # fmt: skip
    if audits is None and not first.certified and positions and not positions[0].left_out:
        return (
            tuple(zip(sigmas, (one.believed for one in positions), strict=True)),
            "belief",
            None,
            "",
        )
    try:
        # With a budget of 0 no certificate answers, and with one of 1 any that is in force does.
        least: Recommendation = recommend(log(), 0.0, list(sigmas), audits=audits)
        most = recommend(log(), 1.0, list(sigmas), audits=audits) if first.certified else least
    except BridleError as error:
        return (), "", None, str(error)
    alpha = most.rates[0][1] if most.basis == "certificate" else None
    return least.rates, least.basis, alpha, ""

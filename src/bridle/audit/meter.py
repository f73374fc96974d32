"""`AuditMeter`: bounds on the violations so far, from plays that a coin chose to be judged.

The bounds hold at all times at once. `Standing` is what a meter says, `Window` meters blocks of
steps on their own.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from operator import add
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from bridle.agent.config import ItemId, listed, words
from bridle.agent.limits_state import hashed
from bridle.errors import (
    BridleError,
    CorruptState,
    InvalidValue,
    LimitReached,
    NotPossible,
    UnknownId,
)
from bridle.kernels import audits as kernel
from bridle.kernels import keys
from bridle.kernels.types import Floats
from bridle.validation import DELTA, FRACTION, NATURAL, SEED, FloatRange, IntRange, truth

__all__ = [
    "MAX_NAMES",
    "AuditMeter",
    "Bounds",
    "Ids",
    "Standing",
    "State",
    "Tally",
    "Window",
    "standing_of",
    "tally_of",
]


State = Literal["shown good", "not shown", "alarm"]

# A shorter block could say nothing.
LENGTH = IntRange(10, 2**31 - 1)
# Each is kept as a 64-bit hash, to see that none comes twice.
MAX_NAMES = 4_000_000


class Bounds(NamedTuple):
    """Bounds on a number of violations."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Window:
    """Blocks of steps, one after the other, that are each metered on their own: for drift.

    Block i = 1, 2, … has the error δ_i = delta · 6 / (π² i²); they add up to delta. So with
    probability 1 − delta or more no upper bound of any block is ever wrong, and the same for the
    lower bounds.

    Parameters
    ----------
    length : int
        Steps of a block.
    delta : float
        The error of all blocks together.
    """

    length: int
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", LENGTH.check(self.length, "length", "Window"))
        object.__setattr__(self, "delta", DELTA.check(self.delta, "delta", "Window"))

    def delta_of(self, block: int) -> float:
        """Return the error of one block, numbered from 1."""
        return self.delta * 6.0 / (math.pi * block) ** 2


@dataclass(frozen=True)
class Standing:
    """What audits say for a level, and the numbers behind it. It prints as a sentence.

    Attributes
    ----------
    state : {"shown good", "not shown", "alarm"}
        Whether the upper bound is within what the level grants, the lower bound beyond it, or
        neither.
    level : float
        Violations that are granted, per step.
    granted : float
        Violations that are granted: the level times the steps; of a block, times its length.
    bounds : Bounds
        On the violations so far. Each is wrong with probability at most `delta`.
    first, steps : int
        The first of the steps that are meant (from 1), and how many there were so far.
    actions, judged, found, pending : int
        Steps that were no abstentions; audits answered; violations among them; audits that wait.
    delta : float
        The error of each bound.
    """

    state: State
    level: float
    granted: float
    bounds: Bounds
    first: int
    steps: int
    actions: int
    judged: int
    found: int
    pending: int
    delta: float

    def __str__(self) -> str:
        lower, upper = (f"{bound:,.1f}" for bound in self.bounds)
        said = {
            "shown good": f"at most {upper}",
            "not shown": f"between {lower} and {upper}",
            "alarm": f"at least {lower}",
        }[self.state]
        where = f"steps {self.first:,} to {self.first + self.steps - 1:,}"
        return (
            f"{self.state}: {said} violations in {where if self.steps else 'no steps'}, where a "
            f"level of {self.level:g} grants {self.granted:,.1f} ({self.found:,} found in "
            f"{self.judged:,} audits, {self.pending:,} not answered yet; a bound is wrong with "
            f"probability {self.delta:.2g} at most)"
        )


@dataclass(slots=True)
class Tally:
    """What became of the actions of some steps.

    Attributes
    ----------
    actions, found, clean, pending : int
        Steps that were no abstentions; violations found; audits judged clean; audits that wait.
    coins : tuple of int or None
        Of the audits at another coin than the meter's own q: how many of them were found, how many
        wait, what those found or waiting weigh together for each λ of the upper bound, and what
        those found weigh for each λ of the lower one (`kernels.audits.weights`). None: there were
        none, or whoever kept the tally did not keep this.
    """

    actions: int = 0
    found: int = 0
    clean: int = 0
    pending: int = 0
    coins: tuple[int, ...] | None = None

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The four counts."""
        return self.actions, self.found, self.clean, self.pending

    def weigh(self, more: tuple[int, ...]) -> None:
        """Add to `coins`; whole numbers, so what is added can be taken away again."""
        self.coins = more if self.coins is None else tuple(map(add, self.coins, more))


def tally_of(row: list[int], coins: list[int] | None = None) -> Tally:
    """Return a tally that was written as a row of counts, and one of `coins` if it had any."""
    actions, found, clean, pending = (NATURAL.check(n, "count", "AuditMeter") for n in row)
    kept = None if coins is None else tuple(NATURAL.check(n, "coins", "AuditMeter") for n in coins)
    return Tally(actions, found, clean, pending, kept)


def standing_of(
    level: float, bounds: Bounds, tally: Tally, first: int, steps: int, ahead: int, delta: float
) -> Standing:
    """Return where these steps stand; `ahead` are those that still belong to them."""
    granted = level * (steps + ahead)
    state: State = "not shown"
    if steps and bounds.upper + ahead <= granted:
        state = "shown good"
    elif bounds.lower > granted:
        state = "alarm"
    judged = tally.found + tally.clean
    return Standing(
        state,
        level,
        granted,
        bounds,
        first,
        steps,
        tally.actions,
        judged,
        tally.found,
        tally.pending,
        delta,
    )


class Ids:
    """Which ids were met: numbers as ranges, as most come in turn; names as 64-bit hashes."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []  # the first number after each range
        self.names: set[int] = set()

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Return each range of numbers, with the first number after it."""
        return zip(self.starts, self.ends, strict=True)

    def __len__(self) -> int:
        return sum(self.ends) - sum(self.starts) + len(self.names)

    def __contains__(self, id: ItemId) -> bool:
        if isinstance(id, str):
            return hashed(id) in self.names
        at = bisect_right(self.starts, id)
        return at > 0 and id < self.ends[at - 1]

    def add(self, id: ItemId) -> None:
        """Keep an id, or refuse one that was met."""
        if id in self:
            raise NotPossible(
                f"Decision {id!r} was observed before, and its coin may be known: a violation "
                "could hide behind it. Give each decision an id of its own."
            )
        if isinstance(id, str):
            if len(self.names) >= MAX_NAMES:
                remedy = "Use numbers as ids, or go on with a new meter."
                raise LimitReached("named decisions", MAX_NAMES, remedy)
            self.names.add(hashed(id))
            return
        at = bisect_right(self.starts, id)
        if at > 0 and self.ends[at - 1] == id:
            self.ends[at - 1] += 1
        else:
            self.starts.insert(at, id)
            self.ends.insert(at, id + 1)
            at += 1
        if at < len(self.starts) and self.starts[at] == id + 1:  # the gap to the next is closed
            self.ends[at - 1] = self.ends.pop(at)
            del self.starts[at]


# --- How many violations there were, by audits: bounds that hold at any time, whatever the agent
# does
#
# After each action a coin of known probability, q or more, decides whether the teacher judges it.
# From the violations found follow two bounds on E(t), the violations among all steps so far.
# Nothing is assumed of contexts, drift or policy: only that the coin is independent of what was
# done, and that the answers are right.
#
# Where it comes from, with the coin always q: let S be the violations found. Each violation
# multiplies e^(−λS) by 1 − q(1 − e^(−λ)) on average, so e^(−λS) / (1 − q(1 − e^(−λ)))^E is a
# martingale that starts at 1. By Ville's inequality it ever reaches J/δ with probability at most
# δ/J. Taken for J fixed values of λ together, that is the upper bound; with −λ for λ, the lower
# one.
#
# A third bound is on what was to be expected, Σp: the sum over the steps of the probability, given
# all before the action, that it would violate. A step's violation is found with probability qp, so
# e^(−λS) / Π(1 − qp(1 − e^(−λ))) is a martingale as well; and as −ln(1 − x) ≥ x, the same steps
# bound Σp by (λS + ln(J/δ)) / q(1 − e^(−λ)).
#
# With a coin q_t ≥ q for each play, which may depend on the past, the context and the play: fix
# what a violation is to cost, e^(−ρ), and let what is found weigh λ_t, such that it costs just
# that: 1 − q_t(1 − e^(−λ_t)) = e^(−ρ), or λ_t = −ln(1 − (1 − e^(−ρ))/q_t), which there is for all
# q_t ≥ q if ρ < −ln(1 − q). Given all up to the play, a violation multiplies e^(−Σ_found λ_t) by
# e^(−ρ) on average, whatever q_t was chosen, so e^(ρE − Σ_found λ_t) is a martingale and, for J
# fixed ρ, by Ville E ≤ (Σ_found λ_t + ln(J/δ))/ρ. Mirrored, 1 + q_t(e^(λ_t) − 1) = e^ρ gives
# λ_t = ln(1 + (e^ρ − 1)/q_t) for any ρ > 0, and E ≥ (Σ_found λ_t − ln(J/δ))/ρ. (To weigh all alike
# is wrong: what is found at a coin above q stands for fewer violations than 1/q.)
#
# The grid of ρ is the image of the grid of λ: ρ_j = −ln(1 − q(1 − e^(−λ_j))), and ln(1 + q(e^(λ_j)
# − 1)) for the lower bound. With r = q/q_t then λ_t = −ln(1 − r(1 − e^(−λ_j))), and ln(1 +
# r(e^(λ_j) − 1)). At q_t = q that is λ_j: the bounds of a fixed coin are these bounds, bit for
# bit, and one meter serves both. At q_t = 1 it is ρ_j: a violation found among what is always
# judged counts for one.
#
# The bound on Σp stays: if the play violates with probability p, by odds that may tie play and coin
# together, e^(−Σ_found λ_t) is multiplied by 1 − p(1 − e^(−ρ)) on average, as all violations cost
# the same. So Σp ≤ (Σ_found λ_t + ln(J/δ))/(1 − e^(−ρ)), and 1 − e^(−ρ_j) = q(1 − e^(−λ_j)).


# Below, the coin's 52 bits would no longer be q to nine digits.
COIN = FloatRange(1e-6, 1.0)
MAX_WINDOWS = 16
MAX_PENDING = 1_000_000
MAX_VARIED = kernel.MAX_VARIED
# What the coin's streams are for: "AUDIT" in ASCII, for decisions with numbers and with names.
AUDIT, AUDIT_NAMED = np.uint64(0x4155444954), np.uint64(0x41554449544E)
# The arrays of a state, but for the tallies of the windows' blocks.
_DTYPES = {
    "coin": "f8",
    "deltas": "f8",
    "seed": "u8",
    "names": "u8",
    "pending": "u1",
    "lengths": "i8",
    "steps": "i8",
    "total": "i8",
    "pending_steps": "i8",
    "numbers": "i8",
    "pending_coins": "f8",
    "pending_told": "u1",
}
# Of `Tally.coins`.
_J = kernel.GRID.size
_NONE = (0,) * _J
_NO_COINS = (0, 0, *_NONE, *_NONE)
_DAMAGE = (
    BridleError,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
)


class AuditMeter:
    """Bounds on the violations so far, from audits that a coin chooses.

    Each of the two bounds holds at all times at once with probability 1 − delta or more (both of
    them: 1 − 2 delta). This needs that whoever chooses an action does not know its coin, and that
    each id comes once. Questions that the agent asks in doubt are no audits.

    Parameters
    ----------
    q : float
        Probability that an action is judged, in [1e-6, 1]; if `observe` is told another one for
        some actions, the least. Fixed for life, as delta is.
    delta : float
        The error of each bound.
    seed : int
        The coin of a decision is a function of the seed and the decision's id alone. So whoever can
        choose ids or actions must not know it, or violations can be put where no coin falls. It has
        no default, which all would know: take ``secrets.randbits(64)``, and keep it.
    windows : sequence of Window
        Blocks of steps that are metered on their own as well.

    Examples
    --------
    >>> meter = AuditMeter(0.2, 0.05, seed=3)
    >>> for decision in range(1, 1001):
    ...     if meter.observe(decision):
    ...         meter.answer(decision, allowed=decision % 40 > 0)
    >>> lower, upper = meter.bounds()
    >>> lower <= 25 <= upper
    True
    >>> print(meter.standing(0.1))
    shown good: at most 94.5 violations in steps 1 to 1,000, where a level of 0.1 grants 100.0
    (7 found in 196 audits, 0 not answered yet; a bound is wrong with probability 0.05 at most)
    """

    def __init__(
        self, q: float, delta: float, *, seed: int, windows: tuple[Window, ...] = ()
    ) -> None:
        self._q = COIN.check(q, "q", "AuditMeter")
        self._delta = DELTA.check(delta, "delta", "AuditMeter")
        self._seed = SEED.check(seed, "seed", "AuditMeter")
        given = listed(windows, "windows", "AuditMeter")
        if len(given) > MAX_WINDOWS or not all(isinstance(window, Window) for window in given):
            wanted = f"a list of at most {MAX_WINDOWS} Window"
            raise InvalidValue("windows", "AuditMeter", wanted, windows)
        self._windows: tuple[Window, ...] = tuple(given)
        self._numbered = keys.stream(self._seed, AUDIT)
        self._named = keys.stream(self._seed, AUDIT_NAMED)
        self._costs, self._gains = kernel.costs(self._q), kernel.gains(self._q)
        self._expected_costs = -self._q * np.expm1(-kernel.GRID)
        self._alike: int | None = None  # actions before the first coin that was not this meter's
        self._steps = 0
        self._total = Tally()
        self._blocks: list[list[Tally]] = [[] for _ in self._windows]
        self._pending: dict[ItemId, int] = {}  # the step, from 0, of each audit not answered
        # The coin of those whose coin was not this meter's, and whether it was tossed elsewhere.
        self._others: dict[ItemId, tuple[float, bool]] = {}
        self._met = Ids()

    @property
    def q(self) -> float:
        """Probability that an action is judged, where `observe` is told no other: the least."""
        return self._q

    @q.setter
    def q(self, value: object) -> None:
        # An agent, or its owner, could lower q when it starts to go wrong.
        raise _fixed("q", self._q)

    @property
    def delta(self) -> float:
        """Probability, at most, that a bound is ever wrong."""
        return self._delta

    @delta.setter
    def delta(self, value: object) -> None:
        raise _fixed("delta", self._delta)

    @property
    def seed(self) -> int:
        """The coin's seed."""
        return self._seed

    @property
    def windows(self) -> tuple[Window, ...]:
        """The declared windows."""
        return self._windows

    @property
    def steps(self) -> int:
        """The steps so far, t: actions and abstentions."""
        return self._steps

    @property
    def actions(self) -> int:
        """The steps at which an action was taken."""
        return self._total.actions

    @property
    def pending(self) -> list[ItemId]:
        """The decisions that the teacher has still to judge, oldest first."""
        return list(self._pending)

    def met(self, decision_id: ItemId) -> bool:
        """Return whether a decision was counted, as an action or as an abstention."""
        return _checked(decision_id, "met") in self._met

    def draws(self, decision_id: ItemId, q: float | None = None) -> bool:
        """Return how a decision's coin falls. Changes nothing; not for whoever chooses the action.

        Parameters
        ----------
        decision_id : int or str
            The decision.
        q : float, optional
            The probability of its coin, if it is not the meter's own.
        """
        return self._falls(_checked(decision_id, "draws"), self._chance(q, "draws"))

    def observe(
        self, decision_id: ItemId, q: float | None = None, *, drawn: bool | None = None
    ) -> bool:
        """Count a step at which an action was taken; return whether the teacher must judge it.

        Parameters
        ----------
        decision_id : int or str
            The decision; each comes once.
        q : float, optional
            The probability of this action's coin, from the meter's own `q` (the default) up to 1.
            It may depend on all that was before the coin, the action included.
        drawn : bool, optional
            How the coin fell, if it was tossed elsewhere, with probability `q` and independent of
            all before: the meter's seed is not used then. Default: the meter tosses it.

        Examples
        --------
        >>> meter = AuditMeter(0.1, 0.05, seed=3)
        >>> for decision in range(1, 1001):  # every other action is judged in any case
        ...     if meter.observe(decision, q=1.0 if decision % 2 else 0.1):
        ...         meter.answer(decision, allowed=decision % 40 > 0)
        >>> lower, upper = meter.bounds()
        >>> lower <= 25 <= upper
        True
        """
        id = _checked(decision_id, "observe")
        chance = self._chance(q, "observe")
        told = drawn is not None
        fell = truth(drawn, "drawn", "AuditMeter.observe") if told else self._falls(id, chance)
        if not fell and chance == 1.0:
            wanted = "True for a coin of probability 1"
            raise InvalidValue("drawn", "AuditMeter.observe", wanted, drawn)
        if fell and len(self._pending) >= MAX_PENDING:
            raise LimitReached("audits not answered", MAX_PENDING, "Answer some of them first.")
        varied = chance != self._q
        if fell and varied and sum((self._total.coins or _NO_COINS)[:2]) >= MAX_VARIED:
            what = "audits at another coin than the meter's that found a violation or wait"
            raise LimitReached(what, MAX_VARIED, "Go on with a new meter.")
        self._step(id)
        if (varied or told) and self._alike is None:
            self._alike = self._total.actions
        for tally in self._tallies(self._steps - 1):
            tally.actions += 1
            tally.pending += fell
            if fell and varied:
                tally.weigh((0, 1, *kernel.weights(self._q, chance)[0], *_NONE))
        if fell:
            self._pending[id] = self._steps - 1
            if varied or told:
                self._others[id] = chance, told
        return fell

    def abstained(self, decision_id: ItemId) -> None:
        """Count a step at which no action was taken: it is no violation, and never judged."""
        self._step(_checked(decision_id, "abstained"))

    def answer(self, decision_id: ItemId, allowed: bool) -> None:
        """Fold the teacher's judgement of a decision that the coin chose, at any later time."""
        id = _checked(decision_id, "answer")
        good = truth(allowed, "allowed", "AuditMeter.answer")
        if id not in self._pending:
            raise self._not_pending(id)
        chance, _ = self._others.pop(id, (self._q, False))
        ups, lows = kernel.weights(self._q, chance) if chance != self._q else (_NONE, _NONE)
        for tally in self._tallies(self._pending.pop(id)):
            tally.pending -= 1
            tally.clean += good
            tally.found += not good
            if chance != self._q:
                tally.weigh((0, -1, *(-x for x in ups), *_NONE) if good else (1, -1, *_NONE, *lows))

    def bounds(self, window: int | None = None, block: int | None = None) -> Bounds:
        """Return bounds on the violations so far, or on those in a block of a window.

        An audit that is not answered counts as a violation in the upper bound and as clean in the
        lower one. Facts come first: no fewer than were found, no more than the actions that were
        not judged clean. (As the answers are right, no bound becomes wrong by it.) The upper bound
        falls only when an action is judged clean. The lower one never falls, unless it stood above
        what those facts leave: then it was wrong before.

        Parameters
        ----------
        window : int, optional
            Which of the windows, from 0; all steps if not given.
        block : int, optional
            Which of its blocks, from 1; the newest if not given.
        """
        if window is None and block is None:
            return self._bounds(self._total, self._delta)
        w, b = self._place(window, block, "bounds")
        return self._bounds(self._blocks[w][b - 1], self._windows[w].delta_of(b))

    @property
    def tally(self) -> Tally:
        """What became of the actions of all steps so far; `bounds_at` says what it bounds."""
        one = self._total
        coins = one.coins if self._alike is None else one.coins or _NO_COINS
        return Tally(*one.counts, coins)

    def bounds_at(self, tally: Tally) -> Bounds:
        """Return the bounds that held when `tally` was what had been found.

        A tally kept without its `coins`, from a time after the first coin that was not the meter's
        own, still gives bounds that hold, but wider ones: as if, in each of the two, all audits had
        been at the coin that is worst for it.
        """
        if tally.coins is None and self._alike is not None and tally.actions > self._alike:
            # At q an audit weighs most in both; at 1 what was found counts for no more than itself.
            return Bounds(float(tally.found), self._bounds(tally, self._delta).upper)
        return self._bounds(tally, self._delta)

    def expected(self) -> float:
        """Bound, from above, the violations that were to be expected so far: Σp.

        p is the probability, given all before an action, that it would violate: by the agent's own
        odds, in the situation it was in. Of `bounds`, what happened, it differs by luck. It holds
        at all times at once with probability 1 − delta or more; if it is used beside the upper one
        of `bounds`, both hold with 1 − 2 delta. An audit not answered counts as a violation. It
        holds for coins that vary too, also if they depend on the action.

        Examples
        --------
        >>> meter = AuditMeter(1.0, 0.05, seed=3)
        >>> for decision in range(1, 1001):
        ...     if meter.observe(decision):
        ...         meter.answer(decision, allowed=True)
        >>> meter.bounds().upper, round(meter.expected(), 2)  # luck cannot be ruled out
        (0.0, 5.77)
        """
        most = self._upper(self._total, self._expected_costs, kernel.price(self._delta))
        # What was judged clean, or an abstention, may have been luck; but no step has p above 1.
        return float(min(most, self._steps))

    def state(self, level: float) -> State:
        """Return whether at most `level` violations a step are shown, not shown or passed."""
        return self.standing(level).state

    def standing(
        self, level: float, window: int | None = None, block: int | None = None
    ) -> Standing:
        """Return the state for a level, with the numbers behind it.

        A block is held to what its whole length is granted: its first violation raises no alarm,
        an alarm stays, and it is shown good when it can no longer pass that, in general at its end.
        Over all steps it is the steps so far that count.
        """
        rate = FRACTION.check(level, "level", "AuditMeter.standing")
        if window is None and block is None:
            return standing_of(rate, self.bounds(), self._total, 1, self._steps, 0, self._delta)
        w, b = self._place(window, block, "standing")
        length = self._windows[w].length
        before = (b - 1) * length
        steps = min(self._steps - before, length)
        delta = self._windows[w].delta_of(b)
        tally = self._blocks[w][b - 1]
        bounds = self._bounds(tally, delta)
        return standing_of(rate, bounds, tally, before + 1, steps, length - steps, delta)

    def alarms(self, level: float) -> list[Standing]:
        """Return the blocks, of all windows, that surely had more violations than were granted."""
        rate = FRACTION.check(level, "level", "AuditMeter.alarms")
        alarms = []
        for w, (window, blocks) in enumerate(zip(self._windows, self._blocks, strict=True)):
            # There may be very many blocks. The first has the largest δ, and so the largest lower
            # bound for what was found: where that raises no alarm, no other block's does. What was
            # found at a coin above q only says less.
            price, granted = kernel.price(window.delta_of(1)), rate * window.length
            may: dict[int, bool] = {}
            for b, tally in enumerate(blocks, 1):
                found = tally.found
                if found not in may:
                    lower = kernel.lower_of(found, kernel.GRID, self._gains, price)
                    may[found] = max(lower, found) > granted
                if may[found]:
                    standing = self.standing(rate, w, b)
                    if standing.state == "alarm":
                        alarms.append(standing)
        return alarms

    def copy(self) -> AuditMeter:
        """Return a meter that stands where this one does and goes on apart from it."""
        return AuditMeter.from_state(self.to_state())

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that the meter knows, as named arrays."""
        ids = json.dumps(list(self._pending)).encode()
        state: dict[str, npt.NDArray[Any]] = {
            "coin": np.array([self._q, self._delta]),
            "seed": np.array(self._seed, np.uint64),
            "lengths": np.array([window.length for window in self._windows], np.int64),
            "deltas": np.array([window.delta for window in self._windows], np.float64),
            "steps": np.array(self._steps, np.int64),
            "total": np.array(self._total.counts, np.int64),
            # As JSON: numpy's own strings drop a trailing NUL.
            "pending": np.frombuffer(ids, np.uint8).copy(),
            "pending_steps": np.array(list(self._pending.values()), np.int64),
            "numbers": np.array([self._met.starts, self._met.ends], np.int64),
            "names": np.array(sorted(self._met.names), np.uint64),
        }
        for w, blocks in enumerate(self._blocks):
            rows = [tally.counts for tally in blocks]
            state[f"blocks{w}"] = np.array(rows, np.int64).reshape(len(rows), 4)
        if self._alike is None:
            return state
        own = self._q, False
        others = [self._others.get(id, own) for id in self._pending]
        state["alike"] = np.array(self._alike, np.int64)
        state["coins"] = np.array(self._total.coins or _NO_COINS, np.int64)
        state["pending_coins"] = np.array([chance for chance, _ in others], np.float64)
        state["pending_told"] = np.array([told for _, told in others], np.uint8)
        for w, blocks in enumerate(self._blocks):  # there may be many, and few of them with any
            coins = ((b, tally.coins or ()) for b, tally in enumerate(blocks))
            kept = [(b, *one) for b, one in coins if any(one)]
            state[f"coins{w}"] = np.array(kept, np.int64).reshape(len(kept), 1 + len(_NO_COINS))
        return state

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, npt.NDArray[Any]],
        *,
        q: float | None = None,
        delta: float | None = None,
    ) -> Self:
        """Return a meter as it was at `to_state`; another q or delta than it had is refused."""
        if not isinstance(state, Mapping):
            raise CorruptState(f"AuditMeter needs named arrays, not {state!r:.200}.")
        try:
            self = cls._read(dict(state))
        except _DAMAGE as error:
            raise CorruptState(f"AuditMeter: the state is damaged: {error}") from None
        for name, wanted in (("q", q), ("delta", delta)):
            if wanted is not None and wanted != getattr(self, name):
                raise _fixed(name, getattr(self, name))
        return self

    @classmethod
    def _read(cls, rest: dict[str, npt.NDArray[Any]]) -> Self:
        for name, array in rest.items():
            if array.dtype != np.dtype(_DTYPES.get(name, "i8")):
                raise CorruptState(f"the array {name!r} is of {array.dtype}.")
        lengths, deltas = rest.pop("lengths").tolist(), rest.pop("deltas").tolist()
        windows = tuple(Window(*pair) for pair in zip(lengths, deltas, strict=True))
        q, delta = rest.pop("coin").tolist()
        self = cls(q, delta, seed=rest.pop("seed").tolist(), windows=windows)
        self._steps = NATURAL.check(rest.pop("steps").tolist(), "steps", "AuditMeter")
        ids = [_checked(id, "from_state") for id in json.loads(rest.pop("pending").tobytes())]
        self._pending = dict(zip(ids, rest.pop("pending_steps").tolist(), strict=True))
        self._met.starts, self._met.ends = rest.pop("numbers").tolist()
        self._met.names = set(rest.pop("names").tolist())
        varied = "alike" in rest
        coins = rest.pop("coins").tolist() if varied else None
        self._total = tally_of(rest.pop("total").tolist(), coins)
        for w in range(len(windows)):
            kept = {b: row for b, *row in rest.pop(f"coins{w}").tolist()} if varied else {}
            rows = rest.pop(f"blocks{w}").tolist()
            self._blocks[w] = [tally_of(row, kept.pop(b, None)) for b, row in enumerate(rows)]
            if kept:
                raise CorruptState(f"there are no blocks {sorted(kept)}.")
        if varied:
            self._alike = NATURAL.check(rest.pop("alike").tolist(), "alike", "AuditMeter")
            chances, by = rest.pop("pending_coins").tolist(), rest.pop("pending_told").tolist()
            for id, chance, told in zip(ids, chances, by, strict=True):
                other = self._chance(chance, "from_state"), truth(told, "told", "AuditMeter")
                if other != (self._q, False):
                    self._others[id] = other
        if rest:
            raise CorruptState(f"there is no place for the arrays {sorted(rest)}.")
        self._check()
        return self

    def _check(self) -> None:
        """Raise `CorruptState` unless the numbers of a state agree with each other."""
        steps = list(self._pending.values())
        own = self._q, False
        others = {id: self._others.get(id, own) for id in self._pending}
        fell = (told or self._falls(id, chance) for id, (chance, told) in others.items())
        total = self._total
        edges = [edge for pair in self._met.ranges() for edge in pair]
        good = (
            all(id in self._met for id in self._pending)
            and all(fell)
            and all(low < high for low, high in pairwise(edges))
            and len(self._met) == self._steps >= total.actions
            and total.actions >= total.found + total.clean + total.pending
            and len(set(steps)) == len(steps) == total.pending
            and all(0 <= step < self._steps for step in steps)
            and (self._alike is None or self._alike < total.actions)
        )
        # What waits at other coins, by step: no tally may have kept anything else of it.
        waits = [(self._pending[id], others[id][0]) for id in self._others]
        good = good and self._weighed(total, [chance for _, chance in waits])
        for window, blocks in zip(self._windows, self._blocks, strict=True):
            sums = tuple(map(sum, zip(*(tally.counts for tally in blocks), strict=True)))
            coins = [tally.coins for tally in blocks if tally.coins is not None]
            good = good and len(blocks) == -(-self._steps // window.length)
            good = good and (sums or (0, 0, 0, 0)) == total.counts
            good = good and all(len(one) == len(_NO_COINS) for one in coins)
            both = tuple(map(sum, zip(*coins, strict=True))) if good else ()
            good = good and (both or _NO_COINS) == (total.coins or _NO_COINS)
            waiting = [0] * len(blocks)
            chances: list[list[float]] = [[] for _ in blocks]
            for step in steps if good else ():
                waiting[step // window.length] += 1
            for step, chance in waits if good else ():
                chances[step // window.length].append(chance)
            good = good and waiting == [tally.pending for tally in blocks]
            good = good and all(map(self._weighed, blocks, chances))
        if not good:
            raise CorruptState("its counts contradict each other.")

    def _weighed(self, tally: Tally, waiting: list[float]) -> bool:
        """Return whether what a tally has of other coins can be, where audits at these wait."""
        varied = [chance for chance in waiting if chance != self._q]
        if tally.coins is None:
            return not varied
        if len(tally.coins) != len(_NO_COINS):
            return False
        found, pending = tally.coins[:2]
        up, low = list(tally.coins[2 : 2 + _J]), tally.coins[2 + _J :]
        for chance in varied:
            for j, weight in enumerate(kernel.weights(self._q, chance)[0]):
                up[j] -= weight
        # Each one found weighs between what it does at 1 and what it would at q.
        ups, lows = kernel.weights(self._q, 1.0)
        most = [math.ceil(x * kernel.UNIT) + 1 for x in kernel.GRID.tolist()]
        return (
            found <= tally.found
            and pending == len(varied)
            and found + pending <= MAX_VARIED
            and all(found * a <= x <= found * b for a, x, b in zip(ups, up, most, strict=True))
            and all(found * a <= x <= found * b for a, x, b in zip(lows, low, most, strict=True))
        )

    def _chance(self, q: float | None, verb: str) -> float:
        if q is None:
            return self._q
        owner = f"AuditMeter.{verb}"
        chance = COIN.check(q, "q", owner)
        if chance < self._q:
            wanted = f"a float in the range [{self._q!r}, 1]"
            remedy = "A meter's own q is the least: start one with the least that may come."
            raise InvalidValue("q", owner, wanted, q, remedy)
        return chance

    def _falls(self, id: ItemId, chance: float) -> bool:
        if isinstance(id, int):
            return bool(kernel.coin(self._numbered, np.uint64(id), chance))
        return bool(kernel.coin(self._named, np.uint64(hashed(id)), chance))

    def _step(self, id: ItemId) -> None:
        self._met.add(id)
        for window, blocks in zip(self._windows, self._blocks, strict=True):
            if self._steps % window.length == 0:
                blocks.append(Tally())
        self._steps += 1

    def _tallies(self, step: int) -> Iterator[Tally]:
        yield self._total
        for window, blocks in zip(self._windows, self._blocks, strict=True):
            yield blocks[step // window.length]

    def _bounds(self, tally: Tally, delta: float) -> Bounds:
        price = kernel.price(delta)
        most = tally.actions - tally.clean
        upper = self._upper(tally, self._costs, price)
        if tally.coins is None:
            lower = kernel.lower_of(tally.found, kernel.GRID, self._gains, price)
        else:
            found, sums = tally.found - tally.coins[0], np.array(tally.coins[2 + _J :], np.int64)
            lower = kernel.lower_varied(found, sums, kernel.GRID, self._gains, price)
        return Bounds(float(min(max(lower, tally.found), most)), float(min(upper, most)))

    def _upper(self, tally: Tally, costs: Floats, price: float) -> float:
        found = tally.found + tally.pending
        if tally.coins is None:
            return float(kernel.upper_of(found, kernel.GRID, costs, price))
        found -= tally.coins[0] + tally.coins[1]
        sums = np.array(tally.coins[2 : 2 + _J], np.int64)
        return float(kernel.upper_varied(found, sums, kernel.GRID, costs, price))

    def _place(self, window: int | None, block: int | None, verb: str) -> tuple[int, int]:
        owner = f"AuditMeter.{verb}"
        if not self._steps or not self._windows:
            raise NotPossible(
                f"{owner}: there is no block yet: {len(self._windows)} windows were declared, and "
                f"{self._steps} steps observed. Windows are declared when a meter is made."
            )
        w = IntRange(0, len(self._windows) - 1).check(window, "window", owner)
        newest = len(self._blocks[w])
        number = newest if block is None else block
        return w, IntRange(1, newest).check(number, "block", owner)

    def _not_pending(self, id: ItemId) -> BridleError:
        if id not in self._met:
            return UnknownId("observed decision", id, "Call `observe` for it first.")
        if self._alike is None and not self._falls(id, self._q):
            return NotPossible(
                f"The coin did not choose decision {id!r}: its judgement may not count, or the "
                "bounds would not hold. Answer only those for which `observe` gave True."
            )
        return NotPossible(
            f"Decision {id!r} waits for no judgement: it was judged already, or was an abstention"
            f"{', or its coin did not choose it' if self._alike is not None else ''}. "
            "Answer each of those in `pending` once."
        )


def _checked(value: object, verb: str) -> ItemId:
    if isinstance(value, str):
        return words(value, "decision_id", f"AuditMeter.{verb}")
    return NATURAL.check(value, "decision_id", f"AuditMeter.{verb}")


def _fixed(name: str, value: float) -> NotPossible:
    return NotPossible(
        f"The {name} of this meter is {value!r} for life: with another in mid-life its bounds "
        f"would not hold. Start a new AuditMeter, with a seed of its own, for another {name}."
    )

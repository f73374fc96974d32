"""How many violations there were, by audits: bounds that hold at any time, whatever the agent does.

After each action a coin of fixed probability q decides whether the teacher judges it. From the
violations found follow two bounds on E(t), the violations among all steps so far. Nothing is
assumed of contexts, drift or policy: only that the coin is independent of what was done, and that
the answers are right.

Where it comes from: let S be the violations found. Each violation multiplies e^(−λS) by
1 − q(1 − e^(−λ)) on average, so e^(−λS) / (1 − q(1 − e^(−λ)))^E is a martingale that starts at 1.
By Ville's inequality it ever reaches J/δ with probability at most δ/J. Taken for J fixed values of
λ together, that is the upper bound; with −λ for λ, the lower one.

A third bound is on what was to be expected, Σp: the sum over the steps of the probability, given
all before the action, that it would violate. A step's violation is found with probability qp, so
e^(−λS) / Π(1 − qp(1 − e^(−λ))) is a martingale as well; and as −ln(1 − x) ≥ x, the same steps bound
Σp by (λS + ln(J/δ)) / q(1 − e^(−λ)).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle.believing import hashed
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
from bridle.settings import ItemId, listed, words
from bridle.standings import (
    DELTA,
    NUMBER,
    Bounds,
    Ids,
    Standing,
    State,
    Tally,
    Window,
    standing_of,
    tally_of,
)
from bridle.validate import FRACTION, SEED, FloatRange, IntRange, truth

__all__ = [
    "AuditMeter",
    "Bounds",
    "Standing",
    "Window",
]

# Below, the coin's 52 bits would no longer be q to nine digits.
COIN = FloatRange(1e-6, 1.0)
MAX_WINDOWS = 16
MAX_PENDING = 1_000_000
# What the coin's streams are for: "AUDIT" in ASCII, for decisions with numbers and with names.
AUDIT, AUDIT_NAMED = np.uint64(0x4155444954), np.uint64(0x41554449544E)
# The arrays of a state, but for the tallies of the windows' blocks.
_DTYPES = {
    "coin": "f8", "deltas": "f8", "seed": "u8", "names": "u8", "pending": "u1", "lengths": "i8",
    "steps": "i8", "total": "i8", "pending_steps": "i8", "numbers": "i8",
}  # fmt: skip
_DAMAGE = (
    BridleError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


class AuditMeter:
    """Bounds on the violations so far, from audits that a coin chooses.

    Each of the two bounds holds at all times at once with probability 1 − delta or more (both of
    them: 1 − 2 delta). This needs that whoever chooses an action does not know its coin, and that
    each id comes once. Questions that the agent asks in doubt are no audits.

    Parameters
    ----------
    q : float
        Probability that an action is judged, in [1e-6, 1]. Fixed for life, as delta is.
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
        self._steps = 0
        self._total = Tally()
        self._blocks: list[list[Tally]] = [[] for _ in self._windows]
        self._pending: dict[ItemId, int] = {}  # the step, from 0, of each audit not answered
        self._met = Ids()

    @property
    def q(self) -> float:
        """Probability that an action is judged."""
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
        """Say whether a decision was counted, as an action or as an abstention."""
        return _checked(decision_id, "met") in self._met

    def draws(self, decision_id: ItemId) -> bool:
        """Say how a decision's coin falls. Changes nothing; not for whoever chooses the action."""
        return self._coin(_checked(decision_id, "draws"))

    def observe(self, decision_id: ItemId) -> bool:
        """Count a step at which an action was taken; say whether the teacher must judge it."""
        id = _checked(decision_id, "observe")
        drawn = self._coin(id)
        if drawn and len(self._pending) >= MAX_PENDING:
            raise LimitReached("audits not answered", MAX_PENDING, "Answer some of them first.")
        self._step(id)
        for tally in self._tallies(self._steps - 1):
            tally.actions += 1
            tally.pending += drawn
        if drawn:
            self._pending[id] = self._steps - 1
        return drawn

    def abstained(self, decision_id: ItemId) -> None:
        """Count a step at which no action was taken: it is no violation, and never judged."""
        self._step(_checked(decision_id, "abstained"))

    def answer(self, decision_id: ItemId, allowed: bool) -> None:
        """Take the teacher's judgement of a decision that the coin chose, at any later time."""
        id = _checked(decision_id, "answer")
        good = truth(allowed, "allowed", "AuditMeter.answer")
        if id not in self._pending:
            raise self._not_pending(id)
        for tally in self._tallies(self._pending.pop(id)):
            tally.pending -= 1
            tally.clean += good
            tally.found += not good

    def bounds(self, window: int | None = None, block: int | None = None) -> Bounds:
        """Give bounds on the violations so far, or on those in a block of a window.

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
        return Tally(one.actions, one.found, one.clean, one.pending)

    def bounds_at(self, tally: Tally) -> Bounds:
        """Give the bounds that held when `tally` was what had been found."""
        return self._bounds(tally, self._delta)

    def expected(self) -> float:
        """Bound, from above, the violations that were to be expected so far: Σp.

        p is the probability, given all before an action, that it would violate: by the agent's own
        odds, in the situation it was in. Of `bounds`, what happened, it differs by luck. It holds
        at all times at once with probability 1 − delta or more; if it is used beside the upper one
        of `bounds`, both hold with 1 − 2 delta. An audit not answered counts as a violation.

        Examples
        --------
        >>> meter = AuditMeter(1.0, 0.05, seed=3)
        >>> for decision in range(1, 1001):
        ...     if meter.observe(decision):
        ...         meter.answer(decision, allowed=True)
        >>> meter.bounds().upper, round(meter.expected(), 2)  # luck cannot be ruled out
        (0.0, 5.77)
        """
        price = kernel.price(self._delta)
        found = self._total.found + self._total.pending
        most = kernel.upper_of(found, kernel.GRID, self._expected_costs, price)
        # What was judged clean, or an abstention, may have been luck; but no step has p above 1.
        return float(min(most, self._steps))

    def state(self, level: float) -> State:
        """Say whether at most `level` violations a step are shown, not shown, or surely passed."""
        return self.standing(level).state

    def standing(
        self, level: float, window: int | None = None, block: int | None = None
    ) -> Standing:
        """Give the state for a level, with the numbers behind it.

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
        """Give the blocks, of all windows, that surely had more violations than were granted."""
        rate = FRACTION.check(level, "level", "AuditMeter.alarms")
        alarms = []
        for w, (window, blocks) in enumerate(zip(self._windows, self._blocks, strict=True)):
            # There may be very many blocks. The first has the largest δ, and so the largest lower
            # bound for what was found: where that raises no alarm, no other block's does.
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
        """Give a meter that stands where this one does and goes on apart from it."""
        return AuditMeter.from_state(self.to_state())

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that the meter knows, as named arrays."""
        ids = json.dumps(list(self._pending)).encode()
        state: dict[str, npt.NDArray[Any]] = {
            "coin": np.array([self._q, self._delta]),
            "seed": np.array(self._seed, np.uint64),
            "lengths": np.array([window.length for window in self._windows], np.int64),
            "deltas": np.array([window.delta for window in self._windows], np.float64),
            "steps": np.array(self._steps, np.int64),
            "total": np.array(astuple(self._total), np.int64),
            # As JSON: numpy's own strings drop a trailing NUL.
            "pending": np.frombuffer(ids, np.uint8).copy(),
            "pending_steps": np.array(list(self._pending.values()), np.int64),
            "numbers": np.array([self._met.starts, self._met.ends], np.int64),
            "names": np.array(sorted(self._met.names), np.uint64),
        }
        for w, blocks in enumerate(self._blocks):
            rows = [astuple(tally) for tally in blocks]
            state[f"blocks{w}"] = np.array(rows, np.int64).reshape(len(rows), 4)
        return state

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, npt.NDArray[Any]],
        *,
        q: float | None = None,
        delta: float | None = None,
    ) -> Self:
        """Give a meter as it was at `to_state`; another q or delta than it had is refused."""
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
        self._steps = NUMBER.check(rest.pop("steps").tolist(), "steps", "AuditMeter")
        ids = [_checked(id, "from_state") for id in json.loads(rest.pop("pending").tobytes())]
        self._pending = dict(zip(ids, rest.pop("pending_steps").tolist(), strict=True))
        self._met.starts, self._met.ends = rest.pop("numbers").tolist()
        self._met.names = set(rest.pop("names").tolist())
        self._total = tally_of(rest.pop("total").tolist())
        for w in range(len(windows)):
            self._blocks[w] = [tally_of(row) for row in rest.pop(f"blocks{w}").tolist()]
        if rest:
            raise CorruptState(f"there is no place for the arrays {sorted(rest)}.")
        self._check()
        return self

    def _check(self) -> None:
        """Refuse a state whose numbers do not agree with each other."""
        steps = list(self._pending.values())
        met = all(id in self._met and self._coin(id) for id in self._pending)
        total = self._total
        edges = [edge for pair in self._met.ranges() for edge in pair]
        good = (
            met
            and all(low < high for low, high in pairwise(edges))
            and len(self._met) == self._steps >= total.actions
            and total.actions >= total.found + total.clean + total.pending
            and len(set(steps)) == len(steps) == total.pending
            and all(0 <= step < self._steps for step in steps)
        )
        for window, blocks in zip(self._windows, self._blocks, strict=True):
            sums = tuple(map(sum, zip(*map(astuple, blocks), strict=True))) or (0, 0, 0, 0)
            waiting = [0] * len(blocks)
            good = good and len(blocks) == -(-self._steps // window.length)
            for step in steps if good else ():
                waiting[step // window.length] += 1
            good = good and sums == astuple(total) and waiting == [b.pending for b in blocks]
        if not good:
            raise CorruptState("its counts contradict each other.")

    def _coin(self, id: ItemId) -> bool:
        if isinstance(id, int):
            return bool(kernel.coin(self._numbered, np.uint64(id), self._q))
        return bool(kernel.coin(self._named, np.uint64(hashed(id)), self._q))

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
        upper = kernel.upper_of(tally.found + tally.pending, kernel.GRID, self._costs, price)
        lower = kernel.lower_of(tally.found, kernel.GRID, self._gains, price)
        return Bounds(float(min(max(lower, tally.found), most)), float(min(upper, most)))

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
        if not self._coin(id):
            return NotPossible(
                f"The coin did not choose decision {id!r}: its judgement may not count, or the "
                "bounds would not hold. Answer only those for which `observe` gave True."
            )
        return NotPossible(
            f"Decision {id!r} waits for no judgement: it was judged already, or was an abstention. "
            "Answer each of those in `pending` once."
        )


def _checked(value: object, verb: str) -> ItemId:
    if isinstance(value, str):
        return words(value, "decision_id", f"AuditMeter.{verb}")
    return NUMBER.check(value, "decision_id", f"AuditMeter.{verb}")


def _fixed(name: str, value: float) -> NotPossible:
    return NotPossible(
        f"The {name} of this meter is {value!r} for life: with another in mid-life its bounds "
        f"would not hold. Start a new AuditMeter, with a seed of its own, for another {name}."
    )

"""A promise that needs no assumption: the purse.

``promise=(alpha, q)``: on average at most αT + b + 1/q denied plays in T steps, whatever contexts,
limits, rewards and beliefs are. After each play a secret coin of probability q_t ≥ q decides
whether the teacher judges it. A balance S, at first b, earns α a step; an audit takes its stake
1/q_t, which is given back if the answer is "allowed". Below zero the agent is frozen.

    +----------------------+  stakes taken or locked:    +----------------------+
    | PLAYING              |  S or S + waiting is low    | CAUTIOUS             |
    | (and learning)       | --------------------------> | plays as always, but |
    | plays as always,     |                             | q_t > q: audits are  |
    | q_t = q              | <-------------------------- | more often, stakes   |
    +----------------------+  α a step; stakes back by   | smaller              |
        ^                     answers "allowed"          +----------------------+
        |                                                   |                ^
        |                                  S < 0, by at     |                |  S >= 0, by α a
        |                                  most RESERVE     v                |  step or by answers
        |                                                +----------------------+
        |                                                | FROZEN               |
        |                                                | plays only what the  |
        |                                                | teacher allows at    |
        |                                                | this very step, or   |
        |                                                | abstains: no coins   |
        |                                                +----------------------+
        |
        |   an audit is denied of what the teacher had said yes to, in any of the three states
        |       +------------------------------------------------------------------+
        +-------| STARTING ANEW: what was learned is dropped, denials stay. The    |
                | purse does not start anew: its balance, and so its state, stays. |
                +------------------------------------------------------------------+

*The coin* has the stake 1/q_t = min(1/q, S + r, (√W − √lag)₊² + r), where r is `RESERVE` and W
the balance if all that waits were allowed. So an audit can take the balance to −r at the lowest,
and a freeze lasts r/α steps at most, where stakes of 1/q would make it 1/(qα). Answers that take
`lag` steps keep about `lag` of the balance locked whatever q_t is, give or take √(lag/q_t); the
third term is the stake for which W would be the b to start with, b = (1/√q + √lag)²
= (1 + q·lag + 2√(q·lag))/q. While nothing is found W ≥ b, and then it asks for no more than q.

*Theorem.* Let V_t = 1 if the play at t is denied, A_t = 1 if its coin falls. If answers are right
and each coin is independent of all before it and of its play, then for every T, surely,

    Σ_{t≤T} A_t V_t/q_t ≤ αT + b + r    (r ≤ 1/q is the stake of the last one beyond its balance),

so E[E(T)] ≤ αT + b + r. *Proof.* Let τ be the last step up to T with A V = 1. The play had a coin,
so `step` saw S ≥ 0 before it credited τ's α. At that time S = b + α(τ−1) − D, where D holds the
stake of every audit denied or not answered, and thus of every A_t V_t = 1 before τ:
Σ_{t<τ} A_t V_t/q_t ≤ D = b + α(τ−1) − S. The stake at τ is at most S + r by the rule (which `step`
checks; and at most 1/q), so the sum up to τ is at most b + α(τ−1) + r. As q_t is fixed before the
coin falls, E[A_t V_t/q_t | past, play] = V_t, and E[E(T)] is the mean of that sum. ∎ When the
answers come, and in what order, plays no part: an audit that waits counts as denied.
With probability 1 − δ for all T at once: e^{κ(V − AV/q_t)} ≤ e^{κ²V/(2q(1 − κ/3))} on average for
κ = θq (Bernstein; V − AV/q_t ≤ 1 has variance below V/q), and Ville's inequality: `bound_with`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from bridle.agent.config import ItemId, words
from bridle.errors import BridleError, CorruptState, Duplicate, InvalidValue, NotPossible, UnknownId
from bridle.kernels.purse import RECHECK
from bridle.kernels.types import Floats
from bridle.validation import DELTA, NATURAL, FloatRange, IntRange, truth

__all__ = ["RESERVE", "Purse", "default_purse"]

State = Literal["playing", "cautious", "frozen"]

# r: how far below zero an audit may take the balance. Smaller ones audit more after a finding,
# larger ones freeze for longer. Of 1 to 50 those of 2 to 5 cost fewest audits and questions in all
# where findings teach (`simulate_promise` with `learns` below 1, answers at once or 50 steps late).
RESERVE = 3.0
# Below, the coin's 52 bits would no longer be q to nine digits.
COIN = FloatRange(1e-6, 1.0)
LEVEL = FloatRange(1e-6, 1.0)
THETA = FloatRange(0.0, 1.0, open_low=True)
LAG = IntRange(0, 10**6)
FILLED = FloatRange(0.0, 1e9)
HORIZON = IntRange(0, 2**53)
TOTAL = FloatRange(0.0, 1e15)
_NAMES = (
    "alpha",
    "q",
    "lag",
    "b",
    "steps",
    "coins",
    "audits",
    "found",
    "clean",
    "waited",
    "taken",
    "locked",
    "waiting",
)
_DAMAGE = (BridleError, KeyError, TypeError, ValueError, OverflowError)


class _Audit(NamedTuple):
    coin: float
    step: int  # from 1


def default_purse(q: float, lag: int) -> float:
    """Return b = (1 + q·lag + 2√(q·lag))/q, the balance to start with.

    With it a purse that finds nothing is seldom frozen by audits that wait for `lag` steps.

    Examples
    --------
    >>> default_purse(0.02, 0), round(default_purse(0.02, 50), 3)
    (50.0, 200.0)
    """
    rate, late = COIN.check(q, "q", "default_purse"), LAG.check(lag, "lag", "default_purse")
    return (1.0 + rate * late + 2.0 * math.sqrt(rate * late)) / rate


class Purse:
    """The balance that stands behind a promise: the coin of each play, and when to freeze.

    A step is: `frozen`, then the play, then ``step(coin=purse.coin(), audit=id)`` if the coin fell,
    ``step(coin=purse.coin())`` if it did not, ``step()`` if the teacher allowed the play at this
    very step, ``step(played=False)`` for an abstention. `answer` comes at any later time.

    The purse holds no coins. Whoever draws them keeps their seed from whoever chooses contexts,
    ids or limits.

    Parameters
    ----------
    alpha : float
        Denied plays a step that are promised in the long run, in [1e-6, 1].
    q : float
        Least probability that a play is judged, in [1e-6, 1].
    lag : int, default 0
        Steps that an audit's answer is expected to take. Later ones break nothing, but freeze.
    b : float, optional
        The balance to start with; `default_purse` of q and lag if not given.

    Examples
    --------
    >>> purse = Purse(alpha=0.01, q=0.02)
    >>> purse.bound(20_000)
    300.0
    >>> purse.step(coin=purse.coin(), audit="film 7")
    >>> purse.answer("film 7", allowed=False)
    >>> print(purse.sentence())
    cautious: audits have found 1 violation; about one in 3 plays is judged now, fewer as the
    balance grows, one in 50 again in 4,699 steps if nothing more is found
    >>> purse.step(coin=purse.coin(), audit="film 8")
    >>> purse.answer("film 8", allowed=False)
    >>> print(purse.sentence())
    frozen: audits have found 2 violations; 299 more steps before it plays by itself
    """

    def __init__(self, *, alpha: float, q: float, lag: int = 0, b: float | None = None) -> None:
        self._alpha = LEVEL.check(alpha, "alpha", "Purse")
        self._q = COIN.check(q, "q", "Purse")
        self._lag = LAG.check(lag, "lag", "Purse")
        full = default_purse(self._q, self._lag)
        self._b = full if b is None else FILLED.check(b, "b", "Purse")
        self._root = root_of(self._q, self._lag, self._b)
        self._steps = 0
        self._coins = 0  # plays that had a coin
        self._audits = 0
        self._found = 0
        self._clean = 0
        self._waited = 0  # steps that answers took, in all
        self._taken = 0.0  # stakes of violations found
        self._locked = 0.0  # stakes of audits that wait
        # No limit of its own: each locks 1 or more, so the balance limits them.
        self._waiting: dict[ItemId, _Audit] = {}

    @property
    def alpha(self) -> float:
        """Denied plays a step that are promised in the long run."""
        return self._alpha

    @property
    def q(self) -> float:
        """Least probability that a play is judged."""
        return self._q

    @property
    def lag(self) -> int:
        """Steps that an audit's answer was expected to take."""
        return self._lag

    @property
    def b(self) -> float:
        """The balance at first."""
        return self._b

    @property
    def steps(self) -> int:
        """The steps so far: plays and abstentions."""
        return self._steps

    @property
    def coins(self) -> int:
        """The plays that had a coin."""
        return self._coins

    @property
    def audits(self) -> int:
        """The plays whose coin fell: answered and waiting."""
        return self._audits

    @property
    def found(self) -> int:
        """The audits that the teacher denied."""
        return self._found

    @property
    def waiting(self) -> list[ItemId]:
        """The plays that the teacher has still to judge, oldest first."""
        return list(self._waiting)

    @property
    def took(self) -> float | None:
        """The steps that answers took on average, to hold against `lag`; None before the first."""
        answered = self._found + self._clean
        return self._waited / answered if answered else None

    @property
    def hope(self) -> float:
        """The balance if all audits that wait were answered "allowed" now."""
        return self._b + self._alpha * self._steps - self._taken

    @property
    def balance(self) -> float:
        """The balance S; an audit that waits counts as denied."""
        return self.hope - self._locked

    @property
    def frozen(self) -> bool:
        """Whether only what the teacher allows at this very step may be played."""
        return self.balance < 0.0

    @property
    def state(self) -> State:
        """Where it stands: "playing", "cautious" (audits more often than q) or "frozen"."""
        if self.frozen:
            return "frozen"
        return "cautious" if self.coin() > self._q else "playing"

    @property
    def thaws_in(self) -> int:
        """Steps until it plays by itself, if no answer comes before; 0 if it is not frozen."""
        n = max(0, math.ceil(-self.balance / self._alpha))
        # Rounding may be off by one, and the state is what counts.
        while self._b + self._alpha * (self._steps + n) - self._taken - self._locked < 0.0:
            n += 1
        return n

    def coin(self, *, known: bool = False) -> float:
        """Return q_t ≥ q, the least probability with which the next play must be judged.

        What is `known` to have been allowed is looked at 1.5 times as often: limits that have
        changed are found by it alone.

        Raises
        ------
        NotPossible
            If it is frozen: then no play has a coin.
        """
        balance = self.balance
        if balance < 0.0:
            raise NotPossible(f"No play has a coin now. {self._frozen()}")
        beyond = max(math.sqrt(max(self.hope, 0.0)) - self._root, 0.0)
        stake = min(1.0 / self._q, min(balance, beyond * beyond) + RESERVE)
        # 1/(1/q) may be off q by a last bit, to either side.
        coin = self._q if stake == 1.0 / self._q else max(self._q, 1.0 / stake)
        return min(1.0, RECHECK * coin) if known else coin

    def step(
        self, *, played: bool = True, coin: float | None = None, audit: ItemId | None = None
    ) -> None:
        """Count one step: a play with its coin, one that the teacher allowed, or an abstention.

        Parameters
        ----------
        played : bool, default True
            Whether anything was played.
        coin : float, optional
            The probability with which the play's coin fell, `coin()` or more. None only for a play
            that the teacher allowed at this very step, and for an abstention.
        audit : int or str, optional
            The id of the play, if its coin fell; it waits for `answer` then.

        Raises
        ------
        NotPossible
            If a play has a coin while it is frozen.
        """
        acted = truth(played, "played", "Purse.step")
        if coin is None:
            if audit is not None:
                raise InvalidValue("audit", "Purse.step", "None where no coin was drawn", audit)
            self._steps += 1
            return
        if not acted:
            raise InvalidValue("coin", "Purse.step", "None for an abstention", coin)
        least = self.coin()
        chance = FloatRange(least, 1.0).check(coin, "coin", "Purse.step")
        if audit is not None:
            id = _id(audit, "audit", "Purse.step")
            if id in self._waiting:
                raise Duplicate("waiting audit", str(id), "Each play has an id of its own.")
        self._steps += 1
        self._coins += 1
        if audit is not None:
            self._audits += 1
            self._locked += 1.0 / chance
            self._waiting[id] = _Audit(chance, self._steps)

    def answer(self, id: ItemId, allowed: bool) -> None:
        """Take the teacher's judgement of a play whose coin fell: by the limits at that play."""
        name = _id(id, "id", "Purse.answer")
        good = truth(allowed, "allowed", "Purse.answer")
        if name not in self._waiting:
            raise UnknownId("waiting audit", name, "Its coin did not fall, or it was answered.")
        audit = self._waiting.pop(name)
        stake = 1.0 / audit.coin
        # Else rounding would leave a rest of nothing.
        self._locked = self._locked - stake if self._waiting else 0.0
        self._waited += self._steps - audit.step
        if good:
            self._clean += 1
        else:
            self._found += 1
            self._taken += stake

    def cancel(self, id: ItemId) -> None:
        """Drop a waiting audit, with its stake: what it was about was not played."""
        audit = self._waiting.pop(id, None)
        if audit is not None:
            self._audits -= 1
            self._locked = self._locked - 1.0 / audit.coin if self._waiting else 0.0

    def __contains__(self, id: object) -> bool:
        return id in self._waiting

    def take(self, coin: float | None, audit: ItemId | None) -> None:
        """Count one step as it happened: the fold of a log.

        What was made from an earlier state may have another coin than `coin` gives now; it counts
        as it is.
        """
        self._steps += 1
        if coin is None:
            return
        self._coins += 1
        if audit is not None:
            self._audits += 1
            self._locked += 1.0 / coin
            self._waiting[audit] = _Audit(coin, self._steps)

    def pass_by(self, steps: int) -> None:
        """Count steps at which no audit was drawn, all at once."""
        self._steps += NATURAL.check(steps, "steps", "Purse.pass_by")

    @property
    def kernel_state(self) -> Floats:
        """What `kernels.purse.coin_at` takes."""
        return np.array(
            [self._alpha, self._q, self._root, RESERVE, self._b, self._taken, self._locked]
        )

    def bound(self, T: int) -> float:
        """Return αT + b + 1/q: no more denied plays are to be expected in T steps."""
        steps = HORIZON.check(T, "T", "Purse.bound")
        return self._alpha * steps + self._b + 1.0 / self._q

    def sharper_bound(self, T: int) -> float:
        """Return αT + b + min(1/q, r): the same, as this purse's own coins have it."""
        steps = HORIZON.check(T, "T", "Purse.sharper_bound")
        return self._alpha * steps + self._b + min(1.0 / self._q, RESERVE)

    def bound_with(self, T: int, *, delta: float, theta: float = 0.5) -> float:
        """Return a bound on the denied plays that holds at every T with probability 1 − delta.

        Parameters
        ----------
        T : int
            Steps.
        delta : float
            The error, for all T at once.
        theta : float, default 0.5
            In (0, 1], chosen beforehand: small ones are for large T.

        Examples
        --------
        >>> round(Purse(alpha=0.01, q=0.02).bound_with(20_000, delta=0.05), 1)
        800.3
        """
        error = DELTA.check(delta, "delta", "Purse.bound_with")
        share = THETA.check(theta, "theta", "Purse.bound_with")
        return with_luck(self.bound(T), self._q, error, share)

    def price_in_words(self, T: int) -> list[str]:
        """Return what the promise gives and costs over T steps, in words, before it is made.

        Examples
        --------
        >>> for sentence in Purse(alpha=0.01, q=0.02, lag=50).price_in_words(20_000):
        ...     print("-", sentence)
        - Promised: at most 450 denied plays on average in 20,000 steps, whatever is shown, wanted
          or believed: 200 that grow with the steps (0.01 a step), 200 that the purse holds at
          first, and 50 for the last audit.
        - Price: 400 to 600 audits in 20,000 plays: one in 50, and one in 33 of what a teacher has
          allowed before, which may have changed; about 100 at least for any method that assumes
          as little.
        - Answers are expected 50 steps late. For that the purse holds 200 at first; with answers at
          once 50 would do, and the bound would be lower by 150.
        - A violation found costs up to 50, which takes 5,000 steps to earn back. From an empty
          purse that is about 281 audits in the place of 94: up to one in 3 plays is judged.
        - Below zero it is frozen: it plays only what the teacher allows at that very step, or
          nothing, for at most 300 steps at a time.
        - It holds if audits, and questions at the step of a play, are answered rightly, by the
          limits at that time, and if nobody who chooses contexts, ids or limits knows the coins.
        """
        steps = HORIZON.check(T, "T", "Purse.price_in_words")
        alpha, q, b, most = self._alpha, self._q, self._b, 1.0 / self._q
        grown = alpha * steps
        said = [
            f"Promised: at most {_n(self.bound(steps))} denied plays on average in {steps:,} "
            f"steps, whatever is shown, wanted or believed: {_n(grown)} that grow with the steps "
            f"({alpha:g} a step), {_n(b)} that the purse holds at first, and {_n(most)} for the "
            "last audit.",
            f"Price: {_n(q * steps)} to {_n(RECHECK * q * steps)} audits in {steps:,} plays: "
            f"{_one_in(q)}, and {_one_in(RECHECK * q)} of what a teacher has allowed before, which "
            f"may have changed; about {_n(1.0 / alpha)} at least for any method that assumes as "
            "little.",
        ]
        at_once = default_purse(q, 0)
        if self._lag and b > at_once:
            said.append(
                f"Answers are expected {self._lag:,} steps late. For that the purse holds {_n(b)} "
                f"at first; with answers at once {_n(at_once)} would do, and the bound would be "
                f"lower by {_n(b - at_once)}."
            )
        elif self._lag:
            said.append(
                f"Answers are expected {self._lag:,} steps late, but the purse holds only {_n(b)} "
                "at first: audits that wait will freeze it often."
            )
        costs = (
            f"A violation found costs up to {_n(most)}, which takes {_n(most / alpha)} steps to "
            "earn back."
        )
        if most > RESERVE:
            # From 0 the stake is αt + r until it is 1/q.
            audits, plain = math.log(most / RESERVE) / alpha, (most - RESERVE) * q / alpha
            costs += (
                f" From an empty purse that is about {_n(audits)} audits in the place of "
                f"{_n(plain)}: up to {_one_in(1.0 / RESERVE)} plays is judged."
            )
        longest = math.ceil(round(min(most, RESERVE) / alpha, 6))
        said.append(costs)
        said.append(
            "Below zero it is frozen: it plays only what the teacher allows at that very step, or "
            f"nothing, for at most {longest:,} steps at a time."
        )
        said.append(
            "It holds if audits, and questions at the step of a play, are answered rightly, by the "
            "limits at that time, and if nobody who chooses contexts, ids or limits knows the "
            "coins."
        )
        return said

    def sentence(self) -> str:
        """Return the state in words."""
        if self.frozen:
            return self._frozen()
        coin = self.coin()
        if coin == self._q:
            return (
                f"playing: about {_one_in(coin)} plays is judged; {self._said()}; the "
                f"balance is {self.balance:,.1f}"
            )
        text = (
            f"cautious: {self._said()}; about {_one_in(coin)} plays is judged now, "
            "fewer as the balance grows"
        )
        # What W must be for the stake to be 1/q again, with nothing waiting.
        enough = (self._root + math.sqrt(max(1.0 / self._q - RESERVE, 0.0))) ** 2
        steps = math.ceil((enough - self.hope) / self._alpha)
        if steps > 0:
            least = _one_in(self._q)
            text += f", {least} again in {steps:,} steps if nothing more is found"
        return text

    def copy(self) -> Purse:
        """Return a purse that stands where this one does and goes on apart from it."""
        made = Purse(alpha=self._alpha, q=self._q, lag=self._lag, b=self._b)
        made.__dict__.update(self.__dict__)
        made._waiting = dict(self._waiting)
        return made

    def to_state(self) -> dict[str, Any]:
        """Return all that the purse knows, as JSON values."""
        state = {name: getattr(self, f"_{name}") for name in _NAMES[:-1]}
        state["waiting"] = [[id, audit.coin, audit.step] for id, audit in self._waiting.items()]
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return a purse as it was at `to_state`: what follows has the same bits."""
        if not isinstance(state, Mapping) or set(state) != set(_NAMES):
            raise CorruptState(f"Purse: a state has the names {', '.join(_NAMES)}.")
        try:
            return cls._read(state)
        except _DAMAGE as error:
            raise CorruptState(f"Purse: the state is damaged: {error}") from None

    @classmethod
    def _read(cls, state: Mapping[str, Any]) -> Self:
        self = cls(alpha=state["alpha"], q=state["q"], lag=state["lag"], b=state["b"])
        for name in ("steps", "coins", "audits", "found", "clean", "waited"):
            setattr(self, f"_{name}", NATURAL.check(state[name], name, "Purse"))
        for name in ("taken", "locked"):
            setattr(self, f"_{name}", TOTAL.check(state[name], name, "Purse"))
        for id, coin, step in state["waiting"]:
            # It may be below q: a decision that was made before the promise and folded after it.
            chance = FloatRange(0.0, 1.0, open_low=True).check(coin, "coin", "Purse")
            made = _Audit(chance, IntRange(1, self._steps).check(step, "step", "Purse"))
            self._waiting[_id(id, "waiting", "Purse")] = made
        self._check(len(state["waiting"]))
        return self

    def _check(self, waiting: int) -> None:
        """Raise `CorruptState` where the numbers do not agree with each other."""
        steps = [audit.step for audit in self._waiting.values()]
        locked = math.fsum(1.0 / audit.coin for audit in self._waiting.values())
        slack = 1e-9 * (1.0 + self._taken + locked) * (1.0 + self._audits)
        good = (
            len(steps) == waiting
            and all(a < b for a, b in pairwise(steps))
            and self._audits == self._found + self._clean + waiting
            and self._audits <= self._coins <= self._steps
            and abs(self._locked - locked) <= slack
            and self._found - slack <= self._taken
            and self._waited <= (self._found + self._clean) * self._steps
        )
        if not good:
            raise CorruptState("its numbers contradict each other.")

    def _said(self) -> str:
        if self._found:
            said = f"audits have found {self._found:,} violation{'s' if self._found > 1 else ''}"
        elif self._clean:
            said = f"none of {self._clean:,} audits found a violation"
        else:
            said = "no audit is answered yet"
        wait = len(self._waiting)
        return f"{said}, {wait:,} {'wait' if wait > 1 else 'waits'} for an answer" if wait else said

    def _frozen(self) -> str:
        most = f"{self.thaws_in:,} more step{'s' if self.thaws_in > 1 else ''}"
        until = "before it plays by itself"
        if self._waiting:
            return f"frozen: {self._said()}; at most {most} {until}, fewer if answers come"
        return f"frozen: {self._said()}; {most} {until}"


def root_of(q: float, lag: int, b: float) -> float:
    """Return the root of the lag that b pays for, √b − 1/√q, and at most √lag.

    With less than the default to start with, cautious coins from the first step on would be of no
    use: audits that wait freeze it all the same.
    """
    return min(math.sqrt(lag), max(math.sqrt(b) - math.sqrt(1.0 / q), 0.0))


def with_luck(sure: float, q: float, delta: float, theta: float) -> float:
    """Return a bound on E at error delta where Σ A V/q_t ≤ `sure`; for a theta fixed before."""
    lucky = sure + math.log(1.0 / delta) / (theta * q)
    return lucky / (1.0 - theta / (2.0 * (1.0 - theta * q / 3.0)))


def _id(value: object, name: str, owner: str) -> ItemId:
    if isinstance(value, str):
        return words(value, name, owner)
    return NATURAL.check(value, name, owner)


def _one_in(coin: float) -> str:
    return f"one in {1.0 / coin:,.0f}" if coin < 0.35 else f"one in {1.0 / coin:.2g}"


def _n(value: float) -> str:
    """Return a number in words, where it is a count in the mean: whole where it is large."""
    if value >= 20.0 or abs(value - round(value)) < 1e-9:
        return f"{value:,.0f}"
    return f"{value:.3g}"

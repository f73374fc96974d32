"""One pass over a log that asks, at every decision, what each of several policies would have done.

The table that it makes has a row a decision and a column a policy; the first column is the log's
own agent. Estimates are made from it elsewhere.

Questions that have a price are judged by draws of their own, and a play has its probability given
that nothing is asked. So there the questions of the log are taken as they were asked, and the
policies are compared in what they play. In logs of the first form a question has its chance, too.

Where arms share what is learned, odds are shares of n + 1 joint draws, of which the one that was
played is any: given which arms won in all of them, the odds are exact, and all that follows from
odds holds. A policy is shown the same draws, and its own share of them has the mean of its
probability. What arms never won is not seen, and counts as never done. More draws see more.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from bridle.agent.config import ArmId, ItemId
from bridle.agent.events import (
    Abstained,
    Asked,
    Created,
    Decided,
    Erased,
    Erasure,
    Event,
    Expired,
    Rewarded,
    Shadowed,
    check_event,
)
from bridle.agent.joint import DRAWS, JointChoice, scores_for
from bridle.agent.outcomes import Decision, Odds
from bridle.agent.replay import WINDOW
from bridle.agent.selection import Choice, Made, Selector
from bridle.agent.state import AgentState
from bridle.errors import BridleError, CorruptState, InvalidValue, NotPossible
from bridle.kernels import choice, doubt, wins
from bridle.kernels.types import Bools, Floats
from bridle.policies import Policy, Weighted, odds_of

__all__ = [
    "EARNED",
    "PENDING",
    "PLAYED_NOTHING",
    "UNFINISHED",
    "RestsOnErased",
    "Survey",
    "events_of",
    "mean_of",
    "survey",
]

# What became of a decision: it waits for an answer, or for its reward; it has it; it abstained.
UNFINISHED, PENDING, EARNED, PLAYED_NOTHING = 0, 1, 2, 3
# What a policy does more than so many times as often as the log's agent counts as never done by
# it, as one such play would decide all: √t at the t-th decision, and at least 10. (Ionides 2008
# cuts at √n.)
LEAST_CUT = 10.0
# Odds are exact to about 1e-12, here as where the log was written.
SAME = 1e-9
# The columns of the table: a number a decision, and a number a decision and policy.
SINGLE = ("reward", "guess", "draws", "floor")
DOUBLE = (
    "weight",
    "expected",
    "unseen",
    "rest",
    "lack",
    "idle",
    "square",
    "belief",
    "apart",
    "sampled",
    "noise",
)
REWARD, GUESS, DRAWN, FLOOR, WEIGHT = 0, 1, 2, 3, 0


class RestsOnErased(NotPossible):
    """What all decisions of a log rested on was erased since."""


class _Look(NamedTuple):
    """What each policy makes of one look of a decision: arrays of J, but for the guess."""

    guess: float  # what the agent expected of what came of it
    ratio: Floats
    expected: Floats
    unseen: Floats
    lack: Floats
    idle: Floats
    square: Floats
    belief: Floats
    apart: Floats
    sampled: Floats
    noise: Floats
    draws: int  # 0: the log's odds are exact
    floor: bool


class _Sight(NamedTuple):
    """A look: the odds of the log's agent and of the policies, over n arms that could be had."""

    odds: list[Odds]
    at: int  # the outcome: an arm that is played, then one that is asked about; -1 for none
    guesses: Floats  # (n,)
    denied: Floats  # (n,)

    @property
    def log(self) -> Floats:
        """The log's own odds of each outcome: (2n,)."""
        return np.concatenate([self.odds[0].play, self.odds[0].ask])


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """The table: (n, J) arrays by decision and policy, and (n,) arrays by decision.

    Attributes
    ----------
    policies : list of J policies
        As they stood at the last decision. The first is the log's own.
    reward_span : float
        How far the rewards of two plays can lie apart.
    reward_range : (float, float)
        Between what any decision earns. An abstention earns 0, also where no reward does.
    ids : list of n ids
        Of the decisions, as the log has them.
    fate : (n,) ints
        UNFINISHED, PENDING, EARNED or PLAYED_NOTHING.
    known : (n,) bools
        Whether the log has its propensity.
    reward : (n,) floats
        In the agent's own reward range; 0 where it abstained or none is known.
    guess : (n,) floats
        What the agent expected of what it did.
    weight : (n, J)
        The policy's probability of what was done over the log's; 0 where the cut took it.
    expected : (n, J)
        What the agent then expected the policy to earn, by what the log can speak of.
    unseen : (n, J)
        The same, of all else.
    rest : (n, J)
        rest + weight · reward is how far what came corrects `expected`.
    lack, idle : (n, J)
        Probability that the policy does what the log cannot speak of, or plays nothing. Of a
        decision that asked first it is an estimate: exact up to its first answer, then weighted.
    square : (n, J)
        The mean of weight², as the odds have it.
    belief : (n, J)
        Probability that it plays an arm that is denied, as the limits had it; after answers an
        estimate, too, and without what follows on questions that the log cannot speak of.
    apart : (n, J)
        Probability that it has to play another arm than the log's agent.
    draws : (n,) ints
        By how many draws the log's odds were estimated; 0 where they are exact.
    floor : (n,) floats
        1 where what was played won in none of them, so that its propensity is 1 / (draws + 1).
    sampled : (n, J)
        The share of weight² that is due to draws being few, up to chance.
    noise : (n, J)
        Variance of `expected` by the draws that the policy's odds were estimated by.
    gone, gone_done : int
        Decisions that are not in the table: they were erased, or what they rested on was. How many,
        and how many of them do not wait for an answer.
    """

    policies: list[Policy]
    reward_range: tuple[float, float]
    reward_span: float
    ids: list[ItemId]
    fate: npt.NDArray[np.int8]
    known: Bools
    reward: Floats
    guess: Floats
    weight: Floats
    expected: Floats
    unseen: Floats
    rest: Floats
    lack: Floats
    idle: Floats
    square: Floats
    belief: Floats
    apart: Floats
    draws: Floats
    floor: Floats
    sampled: Floats
    noise: Floats
    gone: int = 0
    gone_done: int = 0

    def __len__(self) -> int:
        return len(self.fate)

    def only(self, rows: Bools) -> Survey:
        """Return the table of these decisions alone."""
        arrays = {name: getattr(self, name)[rows] for name in ("fate", "known", *SINGLE, *DOUBLE)}
        ids = [id for id, kept in zip(self.ids, rows, strict=True) if kept]
        return replace(self, ids=ids, **arrays)


def mean_of(column: Floats) -> float:
    """Return a mean that does not depend on how a machine adds."""
    return math.fsum(column) / max(len(column), 1)


class _Table:
    """Grows row by row into a `Survey`."""

    def __init__(self, policies: int) -> None:
        self._ids: list[ItemId] = []
        self.fate = np.zeros(64, np.int8)
        self.known = np.zeros(64, np.bool_)
        self.single = np.zeros((64, len(SINGLE)))
        self.double = np.zeros((64, len(DOUBLE), policies))

    def begin(self, id: ItemId) -> int:
        """Add a decision; give its row."""
        n = len(self._ids)
        if n == len(self.fate):
            for name in ("fate", "known", "single", "double"):
                full = getattr(self, name)
                setattr(self, name, np.concatenate([full, np.zeros_like(full)]))
        self.double[n, WEIGHT] = 1.0
        self._ids.append(id)
        return n

    def take(self, row: int, look: _Look, first: bool) -> None:
        """Add a look to a decision. Later looks count as often as the policy gets there.

        What is summed with `weight` so far has the mean, over the log's own chances, of what the
        policy would meet: the weight is how much more often it asks what was asked on the way.
        """
        weight, expected, unseen, rest, lack, idle, square, belief, apart, sampled, noise = (
            self.double[row]
        )
        unseen += weight * look.unseen
        lack += weight * look.lack
        idle += weight * look.idle
        belief += weight * look.belief
        if first:
            expected[:], square[:], apart[:] = look.expected, look.square, look.apart
            sampled[:], noise[:] = look.sampled, look.noise
        else:
            rest += weight * look.expected
        weight *= look.ratio
        rest -= weight * look.guess
        self.single[row, [GUESS, DRAWN, FLOOR]] = look.guess, look.draws, look.floor

    def survey(self, policies: list[Policy], reward_range: tuple[float, float]) -> Survey:
        """Return all of it."""
        n = len(self._ids)
        low, high = reward_range
        columns = {name: self.single[:n, i] for i, name in enumerate(SINGLE)}
        columns |= {name: self.double[:n, i] for i, name in enumerate(DOUBLE)}
        return Survey(
            policies=policies,
            reward_range=(min(low, 0.0), max(high, 0.0)),
            reward_span=high - low,
            ids=self._ids,
            fate=self.fate[:n],
            known=self.known[:n],
            **columns,  # type: ignore[arg-type]
        )


def events_of(events: object, owner: str) -> Iterator[Event]:
    """Return what a log holds, one after the other; what it is shows when it is folded."""
    try:
        return iter(events)  # type: ignore[call-overload, no-any-return]
    except TypeError:
        raise InvalidValue("events", owner, "a list of events", events) from None


def survey(
    events: Iterable[Event], targets: Sequence[Callable[[Policy], Policy]], owner: str
) -> Survey:
    """Fold a log, and ask at each decision what the targets would have done at that state.

    `targets` make a policy each of the one that the agent has at the time.
    """
    stream = events_of(events, owner)
    created = next(stream, None)
    if not isinstance(created, Created):
        raise CorruptState("A log begins with the event Created.")
    check_event(created)
    surveyor = _Surveyor(AgentState(created.settings), targets)
    state = surveyor.state
    ahead: deque[Event] = deque()
    made_at: dict[int, list[tuple[int, Choice]]] = defaultdict(list)
    looks: dict[int, _Look | None] = {}
    place = 1  # of the event at hand, from 1
    try:
        while True:
            for event in islice(stream, WINDOW - len(ahead)):
                place = state.version + len(ahead) + 1
                check_event(event)
                if surveyor.is_look(event):
                    if event.version < state.version:
                        wanted = f"at least {state.version}, {WINDOW:,} events before its own"
                        raise InvalidValue("version", type(event).__name__, wanted, event.version)
                    made_at[event.version].append((place, event))
                ahead.append(event)
            for place, event in made_at.pop(state.version, ()):
                looks[place] = surveyor.look(event)
            if not ahead:
                break
            place = state.version + 1
            event = ahead.popleft()
            surveyor.take(event, looks.pop(place, None))
            surveyor.erasures.fold(place, event)
            state.fold(event)
        return surveyor.found()
    except RestsOnErased:
        raise
    except BridleError as error:
        raise CorruptState(f"Event {place} of the log does not fit: {error}") from error


class _Erasures:
    """What was erased of a log, and which looks of it rest on that.

    From an event that was erased to its erasure, looks were made from a state that is gone. Where
    one of them does not come out the same, all of that span are left out: to keep those that happen
    to fit would choose decisions by what they played.
    """

    def __init__(self) -> None:
        self.decisions = 0
        self._first = 0
        self._spans: list[tuple[int, int]] = []
        self._looks: list[tuple[ItemId, int, CorruptState | None]] = []

    def fold(self, seq: int, event: Event) -> None:
        if isinstance(event, Erased):
            self.decisions += "decision" in event.spaces
            self._first = self._first or seq
        elif isinstance(event, Erasure) and event.events:
            self._spans.append((min(event.events), seq))

    def met(self, id: ItemId, version: int, unlike: CorruptState | None) -> None:
        """Note a look, and how it differs; refuse that where nothing was erased before it."""
        if self._first:
            self._looks.append((id, version, unlike))
        elif unlike is not None:
            raise unlike

    def resting(self) -> set[ItemId]:
        """Return the decisions to leave out."""
        if self._first and not self._spans:  # erased by hand, and never written down
            self._spans.append((self._first, sys.maxsize))
        differing: set[tuple[int, int]] = set()
        for _, version, unlike in self._looks:
            mine = [span for span in self._spans if span[0] <= version < span[1]]
            if unlike is not None and not mine:
                raise unlike
            if unlike is not None:
                differing.update(mine)
        return {
            id
            for id, version, _ in self._looks
            if any(first <= version < last for first, last in differing)
        }


class _Surveyor:
    """Looks at decisions with the eyes of several policies."""

    def __init__(self, state: AgentState, targets: Sequence[Callable[[Policy], Policy]]) -> None:
        self.state = state
        self._selector = Selector(state)
        self._targets = targets
        self._waits = state.settings.on_doubt == "wait"
        self._row_of: dict[ItemId, int] = {}
        self._policies = [state.policy, *(target(state.policy) for target in targets)]
        self._others_choose = [Selector(state, policy) for policy in self._policies[1:]]
        self._table = _Table(1 + len(targets))
        self.erasures = _Erasures()

    def found(self) -> Survey:
        """Return all that was looked at, and does not rest on what was erased since."""
        found = self._table.survey(self._policies, self.state.settings.reward_range)
        resting = self.erasures.resting()
        out = np.array([id in resting for id in found.ids], np.bool_)
        gone = int(out.sum())
        if gone and gone == len(found):
            raise RestsOnErased(
                f"What {gone:,} decisions rested on was erased, so they cannot be made again, and "
                "there are no others. Decisions from now on can be evaluated."
            )
        erased, done = self.erasures.decisions, int((found.fate[out] != UNFINISHED).sum())
        return replace(found.only(~out), gone=erased + gone, gone_done=erased + done)

    def is_look(self, event: Event) -> TypeGuard[Choice]:
        """Whether a decision ends in this event, or waits from it on."""
        if isinstance(event, Asked):
            return self._waits and event.decision is not None
        return isinstance(event, Decided | Abstained)

    def take(self, event: Event, look: _Look | None) -> None:
        """Enter what an event says, just before it is folded."""
        if isinstance(event, Shadowed):
            # How often the other system plays this arm is not known: the log cannot speak of it.
            self._table.known[self._row_of.pop(event.decision)] = False
        elif isinstance(event, Rewarded | Expired):
            row = self._row_of.pop(event.decision, None)
            if row is not None and event.value is not None:
                self._table.fate[row] = EARNED
                self._table.single[row, REWARD] = event.value
        elif self.is_look(event):
            id = event.decision if isinstance(event, Asked) else event.id
            assert id is not None
            first = id not in self.state.questions.waiting
            if first:
                self._row_of[id] = self._table.begin(id)
            row = self._row_of[id]
            if look is not None:
                # Where questions are taken as they were asked, only the last look counts.
                self._table.take(row, look, first or not self.state.settings.legacy)
            fate = {Asked: UNFINISHED, Decided: PENDING, Abstained: PLAYED_NOTHING}[type(event)]
            self._table.fate[row] = fate
            self._table.known[row] = event.propensity is not None and not _is_place(event)

    def look(self, event: Choice) -> _Look | None:
        """Return what each policy makes of a look; None where nothing was left to chance."""
        state = self.state
        if isinstance(event, Asked) and not state.settings.legacy:
            return None
        if _is_place(event):
            return None
        row = np.frombuffer(bytearray(state.raw(event.context)))
        id = event.decision if isinstance(event, Asked) else event.id
        assert id is not None
        self._follow_policy()
        see = self._apart if state.shared is None else self._together
        sight = see(event, row, id)
        if sight is None:
            return None
        told = sight.odds[0].abstain if sight.at < 0 else sight.log[sight.at]
        self.erasures.met(id, event.version, self._unlike(event, float(told)))
        return _look_of(sight, max(LEAST_CUT, math.sqrt(state.decisions + 1.0)))

    def _follow_policy(self) -> None:
        """Make the targets anew where the agent's own policy has changed: its dial was turned."""
        own = self.state.policy
        if own is not self._policies[0]:
            self._policies = [own, *(target(own) for target in self._targets)]
            self._others_choose = [Selector(self.state, one) for one in self._policies[1:]]

    def _apart(self, event: Choice, row: Floats, id: ItemId) -> _Sight | None:
        """Look where each arm learns alone; None where nothing was left to chance."""
        state = self.state
        made = self._made(self._selector, event, row)
        mine = made.odds
        if mine is None:
            return None
        at = -1
        if not isinstance(event, Abstained):
            at = state.arm_number(event.arm) + len(state.arms) * isinstance(event, Asked)
        denied = 1.0 - self._allowed(row, id, event.item)
        odds = [mine, *self._others(event, row, made, mine)]
        return _Sight(odds, at, self._guesses(row, made), denied)

    def _together(self, event: Choice, row: Floats, id: ItemId) -> _Sight | None:
        """Look where arms share what is learned, at all candidates of the decision."""
        assert not isinstance(event, Asked)  # such logs take questions as they were asked
        state, draws = self.state, getattr(event, "draws", None) or DRAWS
        choices = [
            JointChoice(one, row, id, event.among, event.visitors or (), event.item)
            for one in (self._selector, *self._others_choose)
        ]
        odds = [one.odds(one.choose(), draws)[0] for one in choices]
        mine = choices[0]
        ids = mine.candidates.ids
        arm = event.arm if isinstance(event, Decided) else None
        at = ids.index(arm) if arm is not None and arm in ids else -1
        low, high = state.settings.reward_range
        guesses = low + (high - low) * np.minimum(np.maximum(mine.means()[0], 0.0), 1.0)
        allowed = mine.believed()
        safe = state.settings.safe_arm
        if safe is not None and safe in ids:
            allowed[ids.index(safe)] = 1.0
        return _Sight(odds, at, guesses, 1.0 - allowed)

    def _others(self, event: Choice, row: Floats, made: Made, mine: Odds) -> Iterator[Odds]:
        """Return the odds of each target, in the agent's place."""
        own, plays = self.state.policy, float(self.state.totals[1])
        for selector in self._others_choose:
            if not own.needs_limits and not selector.policy.needs_limits:
                yield _blended(selector, made, plays) if isinstance(made, Decision) else mine
                continue
            theirs = self._made(selector, event, row).odds
            yield mine if theirs is None else theirs

    def _made(self, selector: Selector, event: Choice, row: Floats) -> Made:
        return selector.again(event, row, ask=self.state.settings.legacy, propensity=True)

    def _unlike(self, event: Choice, odds: float) -> CorruptState | None:
        """Return an error if the odds in the log are not those of its own states, else None."""
        told = event.propensity
        if odds > 0.0 and (told is None or abs(told - odds) <= SAME):
            return None
        return CorruptState(
            f"its propensity, {told}, is not that of the state it was made from, {odds}. Was "
            "the log written by this version of bridle? Agent.replay(events) checks all of it."
        )

    def _guesses(self, row: Floats, made: Made) -> Floats:
        """Return what each arm is expected to earn here, in the agent's own reward range."""
        state = self.state
        if isinstance(made, Decision):
            parts = made.parts
        else:
            parts = np.empty((7, len(state.arms)))
            state.reward_parts(row, parts)
        low, high = state.settings.reward_range
        guesses: Floats = low + (high - low) * np.minimum(np.maximum(parts[0], 0.0), 1.0)
        return guesses

    def _allowed(self, row: Floats, id: ItemId, item: ArmId | None) -> Floats:
        """Return the probability that each arm is allowed; what people said of it is certain."""
        state = self.state
        said = state.said(row, state.offered(row, None, item), item)
        waits = state.questions.waiting.get(id)
        if waits is not None:  # what answers have allowed in this very decision
            for k in state._with_unit(waits.allowed):
                said[k] = doubt.SAID_YES if said[k] == doubt.UNASKED else said[k]
        p = state.limits_state.seen(row.tobytes()).p.copy()
        if state.settings.safe_arm is not None:
            p[state.arm_number(state.settings.safe_arm)] = 1.0
        return np.where(said == doubt.SAID_NO, 0.0, np.where(said == doubt.SAID_YES, 1.0, p))


def _is_place(event: Choice) -> bool:
    """Whether a play is one of several of a slate: its propensity is not that of a single play."""
    return isinstance(event, Decided) and event.slate is not None


def _look_of(sight: _Sight, cut: float) -> _Look:
    """Return what each policy makes of a look; what it does `cut` times as often is not seen."""
    odds, at, p = sight.odds, sight.at, sight.log
    q = np.concatenate([sight.guesses, sight.guesses])
    play = np.array([one.play for one in odds])
    pi = np.concatenate([play, np.array([one.ask for one in odds])], axis=1)  # (J, 2n)
    seen = pi <= cut * p
    ratio = np.divide(pi, p, out=np.zeros(pi.shape), where=seen & (p > 0.0))
    known, other = np.where(seen, pi, 0.0), np.where(seen, 0.0, pi)
    sampled, floor = np.zeros(len(odds)), False
    if at >= 0:
        sampled, floor = _sampled(odds, float(p[at]), pi[:, at])
    return _Look(
        guess=float(q[at]) if at >= 0 else 0.0,
        ratio=ratio[:, at] if at >= 0 else np.zeros(len(odds)),
        expected=(known * q).sum(axis=1),
        unseen=(other * q).sum(axis=1),
        lack=other.sum(axis=1),
        idle=np.array([one.abstain for one in odds]),
        square=(pi * ratio).sum(axis=1),
        belief=(play * sight.denied).sum(axis=1),
        apart=np.maximum(play - odds[0].play, 0.0).sum(axis=1),
        sampled=sampled,
        noise=_noise(odds, pi, q),
        draws=odds[0].draws or 0,
        floor=floor,
    )


def _sampled(odds: list[Odds], p: float, pi: Floats) -> tuple[Floats, bool]:
    """Return the share of each weight² that draws being few adds, and whether p is at its floor.

    With M of n + 1 draws for what was played, w² = (π/p̂)² has (1 − p̂)/(M + 1) more than it would
    have at the exact p, on average and exactly: E[p (n+1)(n+2) / (M (M+1))] = 1/p. A target's own
    share X of n + 1 draws adds (1 − π̂)(n + 1)/(n X), as X(X − 1)/(n(n + 1)) has the mean π². Both
    are of the same draws, which only makes it less: the weight of the log's own policy is 1.
    """
    draws = odds[0].draws
    hits = 0.0 if draws is None else round(p * (draws + 1.0))
    own = 0.0 if draws is None else (1.0 - p) / (hits + 1.0)
    out = np.zeros(len(odds))
    for j, one in enumerate(odds):
        theirs = 0.0
        if one.draws is not None and pi[j] > 0.0:
            n = one.draws
            theirs = min((1.0 - pi[j]) / (n * pi[j]), 1.0)
        out[j] = 1.0 - (1.0 - own) * (1.0 - theirs) if j else 0.0
    return out, hits == 1.0


def _noise(odds: list[Odds], pi: Floats, q: Floats) -> Floats:
    """Return the variance of Σ π̂q of each target by its draws; pi: (J, 2n), q: (2n,)."""
    out = np.zeros(len(odds))
    for j, one in enumerate(odds):
        if j and one.draws is not None:
            mean = float((pi[j] * q).sum())
            out[j] = float((pi[j] * (q - mean) ** 2).sum()) / one.draws
    return out


def _blended(selector: Selector, made: Decision, plays: float) -> Odds:
    """Return the odds of a policy that has the same arms in the running as the agent had.

    The scores are there already: it is four times as fast as to decide anew.
    """
    eligible, policy = made.eligible.copy(), selector.policy
    play, none = np.zeros((2, len(eligible)))
    if not isinstance(policy, Weighted):
        return Odds(odds_of(policy, scores_for(made.parts, eligible, plays)), none, 0.0)
    w = selector.weights
    loc, scale = choice.locations(w, made.parts), choice.spreads(w, made.parts)
    wins.propensities(w, loc, scale, eligible, eligible, play)
    return Odds(play, none, 0.0)

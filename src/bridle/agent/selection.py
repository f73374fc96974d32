"""What an agent chooses: a function of its state, its policy, the context and the id alone.

So a replay can make every choice again (`Selector.again`). Contexts are encoded rows here, and all
input was checked. Our policies and our reward model run in compiled loops; where either is
somebody else's, the same steps are taken in plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bridle.agent.config import Arm, ArmId, ItemId
from bridle.agent.events import Abstained, Asked, Decided
from bridle.agent.joint import DRAWS, JointChoice, JointScoring, scores_for
from bridle.agent.limits_state import Case, Seen, Waiting, hashed
from bridle.agent.outcomes import Abstention, Decision, Odds, Question, SlateDecision
from bridle.agent.purse import Purse
from bridle.agent.scoring import Scoring
from bridle.agent.state import AgentState
from bridle.errors import LimitReached
from bridle.kernels import choice, doubt, keys, loop, questions, wins
from bridle.kernels.types import Bools, Floats, Ints, Uints, Weights
from bridle.limits.exceptions import coin_of
from bridle.limits.legacy import look_twice
from bridle.policies import (
    ACTIVE,
    Masked,
    Policy,
    Uniform,
    Weighted,
    chosen,
    kernel_weights,
    most_informative,
    odds_of,
    teaching_policy,
)
from bridle.reward.posterior import LinearArms
from bridle.reward.scaled import ScaledArms
from bridle.slates import Slate, choose_slate, drawn, place_odds

__all__ = ["Choice", "Made", "Selector", "scores_for"]

# What stands in the log of a choice, and what comes of making it.
Choice: TypeAlias = Asked | Decided | Abstained
Made: TypeAlias = Decision | Question | Abstention

# From so many arms on it pays to leave out, in a batch, the scores that cannot win.
MANY = 32
LN2 = math.log(2.0)
# Numbers that a batch with details may have where arms are many.
MOST_DETAILS = 50_000_000
NOTHING_LOST: tuple[Any, Any, Any] = (None, None, None)
NO_COIN: tuple[float | None, bool] = (None, False)
WEIGHT_OF_LIMITS = 1  # its place in `Weights`
FALL_BACK = {"abstain": doubt.ABSTAIN, "least_bad": doubt.LEAST_BAD}


def slate_ids(first: ItemId, places: int) -> list[ItemId]:
    """Return the ids of the decisions of a slate by that of the first."""
    if isinstance(first, int):
        return [first + n for n in range(places)]
    return [first, *(f"{first}/{n + 1}" for n in range(1, places))]


class _Case(NamedTuple):
    """What a decision is about."""

    row: Floats
    id: ItemId
    version: int
    among: tuple[ArmId, ...] | None
    propensity: bool
    at: float | None
    ask: bool
    eligible: Bools
    item: ArmId | None
    visitors: tuple[Arm, ...] | None = None


class JointBatch(NamedTuple):
    """The choices of a batch where arms share what is learned of them."""

    arms: Ints  # (n,), -1 where nothing may be played
    eligible: Bools | None  # (n, K)
    parts: Floats | None  # (n, 7, K)
    odds: Floats | None  # (n, K)
    chances: list[tuple[float, int | None]] | None  # of what was played, and by how many draws


class _ChosenSlate(NamedTuple):
    """A slate as it was chosen, and what else may be asked of it; arms by their numbers."""

    slate: Slate
    scored: Callable[[], Floats | JointScoring]
    odds: Callable[[Ints], list[tuple[float, int | None]]]
    fall_back: Callable[[], int]
    nearest: Callable[[], tuple[int, float, float, bool]]


class Selector:
    """Makes the choices of one agent from its state as it is now.

    Parameters
    ----------
    state : AgentState
        Read at every choice, and never changed.
    policy : Policy, optional
        Chooses in the place of the agent's own.
    """

    def __init__(self, state: AgentState, policy: Policy | None = None) -> None:
        settings = state.settings
        seed = settings.seed
        self.state = self._state = state
        self._last_slate: tuple[Any, Any] = (None, None)
        self._other = policy
        self._other_acting: Policy | None = None
        self._other_weights: Floats | None = None
        self._decide_start = keys.stream(seed, keys.DECIDE)
        self._decide_named = keys.stream(seed, keys.DECIDE_NAMED)
        self._ask_start = keys.stream(seed, keys.ASK)
        self._ask_named = keys.stream(seed, keys.ASK_NAMED)
        self._doubt_start = keys.stream(seed, keys.DOUBT)
        self._doubt_named = keys.stream(seed, keys.DOUBT_NAMED)
        self._check_start = keys.stream(seed, keys.CHECK)
        self._check_named = keys.stream(seed, keys.CHECK_NAMED)
        self._active = settings.teaching in ACTIVE
        asking = (
            Uniform() if self._active else teaching_policy(settings.teaching, settings.v_teaching)
        )
        self._ask_weights = np.array(asking.weights)
        self._other_unit: float | None = None
        self._weighed: Floats | None = None  # the weights that `_quick` looked at last
        self._by_reward = False

    @property
    def policy(self) -> Policy:
        """What chooses: the agent's policy as it is now, or the one given in its place."""
        if self._other is None:
            return self._state.acting
        self._take_other(self._other)
        assert self._other_acting is not None
        return self._other_acting

    @property
    def weights(self) -> Floats:
        """What its policy makes of scores, as the kernels take it."""
        return self._weights

    def decide_key(self, id: ItemId) -> tuple[Any, Any]:
        """Return the stream and the place in it that the draws of a decision are keyed by."""
        return self._key(id, self._decide_start, self._decide_named)

    def doubt_key(self, id: ItemId) -> np.uint64:
        """Return the key of the draws that the questions of a decision are judged by."""
        start, number = self._key(id, self._doubt_start, self._doubt_named)
        return np.uint64(keys.key_of(start, number))

    @property
    def _weights(self) -> Floats:
        if self._other is None:
            return self._state.weights
        self._take_other(self._other)
        assert self._other_weights is not None
        return self._other_weights

    def _take_other(self, policy: Policy) -> None:
        """Take the policy in the place of the agent's own as it acts in the state as it is now."""
        unit = None if self._state.scaled is None else self._state.scaled.unit
        if self._other_acting is None or unit != self._other_unit:
            self._other_acting = self._state.as_acting(policy)
            self._other_weights = kernel_weights(self._other_acting)
            self._other_unit = unit

    def again(
        self, event: Choice, row: Floats, *, ask: bool = True, propensity: bool | None = None
    ) -> Made:
        """Choose again what an event says was chosen, from a state of the version that it names.

        Parameters
        ----------
        event : Asked, Decided or Abstained
            Of the log. An `Asked` may come up anew in a decision, as its `question`.
        row : array
            Its context, encoded.
        ask : bool
            False: as if nothing could be asked.
        propensity : bool, optional
            Whether to compute the probability of each outcome; by default as the event has it.
        """
        id: ItemId = event.id
        question: ItemId = self._state.questions.asked + 1
        asks = isinstance(event, Asked) or event.ask
        if isinstance(event, Asked):
            if event.decision is None:
                return self.question(row, event.id, event.version, event.at, event.item)
            id, question = event.decision, event.id
        if isinstance(event, Decided | Abstained) and event.places is not None:
            return self._slate_again(event, row, ask, propensity)
        return self.decision(
            row,
            id,
            event.version,
            event.among,
            event.propensity is not None if propensity is None else propensity,
            event.at,
            ask=ask and asks,
            question=question,
            item=event.item,
            visitors=event.visitors,
        )

    def _slate_again(
        self, event: Decided | Abstained, row: Floats, ask: bool, propensity: bool | None
    ) -> Decision | Abstention:
        """Choose a slate again, and return the place of it that an event has."""
        assert event.places is not None
        first, place = event.id, 1
        if isinstance(event, Decided):
            assert event.slate is not None and event.place is not None
            first, place = event.slate, event.place
        wanted = event.propensity is not None if propensity is None else propensity
        # The slate of the place before is at hand, mostly.
        name = (first, event.version, event.places, wanted, ask and event.ask)
        if name != self._last_slate[0]:
            made = self.slate(
                row,
                slate_ids(first, event.places),
                event.version,
                event.among,
                event.places,
                wanted,
                event.at,
                ask=ask and event.ask,
                question=self._state.questions.asked + 1,
                item=event.item,
            )
            self._last_slate = (name, made)
        found = self._last_slate[1]
        if isinstance(found, SlateDecision):
            return found[place - 1] if place <= len(found) else found[0]
        assert isinstance(found, Abstention)
        return found

    # -- questions ---------------------------------------------------------------------------

    def question(
        self, row: Floats, id: ItemId, version: int, at: float | None, item: ArmId | None = None
    ) -> Question:
        """Pick the arm to ask about in a context."""
        state = self._state
        start, number = self._key(id, self._ask_start, self._ask_named)
        if self._active:
            key = np.uint64(keys.key_of(start, number))
            k = most_informative(self.value(row, item), key)
        else:
            parts = np.zeros((7, len(state.arms)))
            parts[0], parts[1] = self._limit_scores(row)
            k = choice.choose(self._ask_weights, parts, state.every, state.every, start, number)
        asked = Asked(id, tuple(row.tolist()), state.arm_ids[k], version, at, item=item)
        return Question(asked)

    def information(self, row: Floats, item: ArmId | None = None) -> Floats:
        """Return what an answer about each arm would teach; 0 where it is certain already."""
        state = self._state
        said = state.said(row, state.eligible(row, None, item, self.policy), item)
        known: Floats = state.limits_state.seen(row.tobytes()).information
        return np.where(said == doubt.UNASKED, known, 0.0)

    def value(self, row: Floats, item: ArmId | None = None) -> Floats:
        """Return what an answer about each arm is worth here, in rewards: (K,).

        What the arm is expected to earn beyond the best safe one, times the probability that it is
        allowed; and what the answer teaches about other cases, a bit of it at the price of an
        answer. In logs of the first form it is what the answer teaches alone.
        """
        state = self._state
        teaches = self.information(row, item)
        price = state.settings.answer_price
        if price is None or not self.policy.needs_limits:
            return teaches
        seen = state.limits_state.seen(row.tobytes())
        eligible = state.eligible(row, None, item, self.policy)
        marks = self._marks(seen, state.said(row, eligible, item))
        parts = np.empty((7, len(state.arms)))
        state.reward_parts(row, parts)
        safe = marks == questions.SAFE
        base = parts[0, safe].max() if safe.any() else 0.0
        more = seen.hope * np.maximum(parts[0] - base, 0.0)
        gain = np.where(marks == questions.IN_DOUBT, more, 0.0)
        return gain + price * teaches / LN2

    def place(self, question: ItemId, n: int) -> int:
        """Return a random place among n, by the bits of a question."""
        start, number = self._key(question, self._ask_start, self._ask_named)
        return int(keys.place(start, number, n))

    def most(self, question: ItemId, information: Floats) -> int:
        """Return the place of the highest information, ties by the bits of a question."""
        start, number = self._key(question, self._ask_start, self._ask_named)
        key = np.uint64(keys.key_of(start, number))
        return most_informative(information, np.uint64(keys.aside(key)))

    # -- one decision ------------------------------------------------------------------------

    def decision(
        self,
        row: Floats,
        id: ItemId,
        version: int,
        among: tuple[ArmId, ...] | None,
        propensity: bool,
        at: float | None,
        *,
        ask: bool = False,
        question: ItemId | None = None,
        item: ArmId | None = None,
        visitors: tuple[Arm, ...] | None = None,
    ) -> Made:
        """Choose an arm, or ask about one if `ask` (the question's id is then `question`)."""
        state, policy = self._state, self.policy
        if state.shared is not None:
            every = state.every  # who may be played is found there
            case = _Case(row, id, version, among, propensity, at, ask, every, item, visitors)
            return self._joint(case, question)
        numbers = None if among is None else [state.arm_number(arm) for arm in among]
        eligible = state.eligible(row, numbers, item, policy)
        case = _Case(row, id, version, among, propensity, at, ask, eligible, item)
        if not propensity and self._quick():
            if not policy.needs_limits:
                return self._picked(case)
            if not state.settings.legacy:
                return self._masked(case, None, question)
        parts = np.empty((7, len(state.arms)))
        if policy.needs_limits:
            masked = self._masked_legacy if state.settings.legacy else self._masked
            return masked(case, parts, question)
        start, number = self._key(id, self._decide_start, self._decide_named)
        limits, model = state.limits_state.limits, state.reward_model
        if state.purse is not None and state.purse.frozen:
            case = case._replace(eligible=np.zeros(len(state.arms), np.bool_))
        may = case.eligible
        ours = isinstance(policy, Weighted) and isinstance(model, LinearArms)
        if ours and isinstance(model, LinearArms) and limits.linear is not None:
            reward, limit = model.kernel_state, limits.linear.kernel_state
            k = choice.decide(
                self._weights,
                reward.A,
                reward.mu,
                state.pull,
                limit.A,
                limit.mu,
                row,
                may,
                start,
                number,
                parts,
            )
        else:
            state.reward_parts(row, parts)
            parts[2], parts[3] = self._limit_scores(row)
            k = int(choice.choose(self._weights, parts, may, may, start, number))
            if not isinstance(policy, Weighted):
                k = self._chosen(parts, may, start, number)
        odds = None
        if propensity:
            play, none = np.zeros((2, len(state.arms)))
            if k >= 0 and isinstance(policy, Weighted):
                wins.propensities(self._weights, parts[4], parts[5], may, may, play)
            elif k >= 0:
                play = odds_of(policy, scores_for(parts, may, state.totals[1]))
            odds = Odds(play, none, float(k < 0))
        return self._made(case, k, parts, odds, coin=self._coin(case, k))

    def _quick(self) -> bool:
        """Return whether an arm can be chosen, and it pays, without the scores of all arms.

        It does for many arms, where the score is of the reward alone and all is ours.
        """
        state, weights = self._state, self._weights
        if weights is not self._weighed:
            policy, w = self.policy, Weights(*weights.tolist())
            sure = w.epsilon == 0.0 or not policy.needs_limits  # inside a mask no coin is thrown
            self._by_reward = isinstance(policy, Weighted) and w.limit == 0.0 != w.reward and sure
            self._weighed = weights
        return (
            self._by_reward
            and len(state.arms) >= MANY
            and type(state.reward_model) in (LinearArms, ScaledArms)
            and state.limits_state.limits.linear is None
        )

    def _pick(self, case: _Case, may: Bools) -> tuple[int, Scoring]:
        """Return the arm that is chosen, or -1, and its scores to be."""
        state, model = self._state, self._state.reward_model
        assert isinstance(model, LinearArms)  # `_quick` has seen to it
        start, number = self._key(case.id, self._decide_start, self._decide_named)
        weights, pull = self._weights, state.pull
        k = model.pick(weights, pull, case.row, may, start, number)
        return k, Scoring(state, case.row, weights, pull, start, number)

    def _picked(self, case: _Case) -> Made:
        """Choose an arm by its reward alone, in arms that are all in the running."""
        purse = self._state.purse
        if purse is not None and purse.frozen:
            case = case._replace(eligible=np.zeros(len(case.eligible), np.bool_))
        k, scoring = self._pick(case, case.eligible)
        return self._made(case, k, scoring, None, coin=self._coin(case, k))

    def _chosen(self, parts: Floats, may: Bools, start: Any, number: Any) -> int:
        """Return what somebody else's policy plays, by the bits that ours would draw from."""
        scores = scores_for(parts, may, self._state.totals[1])
        return chosen(self.policy, scores, int(keys.key_of(start, number)))

    def _coin(self, case: _Case, k: int, here: Sequence[int] = ()) -> tuple[float | None, bool]:
        """Return the probability with which a play is to be judged afterwards; whether it is.

        Not of what the teacher allowed in this very decision, `here`.
        """
        if k < 0 or k in here:
            return NO_COIN
        state = self._state
        if state.purse is None and not self.policy.needs_limits:
            return NO_COIN
        coin, rates = 0.0, state.limits_state.rates if self.policy.needs_limits else None
        known = state.is_allowed(k, case.item)
        if rates is not None and not known and state.checks.may(state.decisions + 1):
            coin = rates.coin(state.limits_state.rate_unit(k))
        if state.purse is not None:
            coin = max(coin, state.purse.coin(known=known))
        return (coin, self._falls(case.id, coin, state.purse)) if coin > 0.0 else (None, False)

    def _falls(self, id: ItemId, coin: float, purse: Purse | None) -> bool:
        """Return whether the coin of a decision falls on "judge it".

        A promise's coins are secret. They also go by the step, which nobody chooses: an id that
        comes again, after its reward, would have the coin that it had.
        """
        start, number = self._key(id, self._check_start, self._check_named)
        promise = self._state.promise
        if promise is not None and purse is not None:
            use = keys.CHECK if isinstance(id, int) else keys.CHECK_NAMED
            stream = keys.stream(promise.seed, use)
            start = np.uint64(keys.key_of(stream, np.uint64(purse.steps + 1)))
        return float(keys.uniform(np.uint64(keys.key_of(start, number)))) < coin

    def _masked(self, case: _Case, parts: Floats | None, question: ItemId | None) -> Made:
        """Play the best arm that is surely allowed; ask first, if an answer pays.

        Without `parts` to fill, scores are computed where a question may be asked alone.
        """
        state, settings = self._state, self._state.settings
        waits = state.questions.waiting.get(case.id, Waiting(b"", None))
        raw = case.row.tobytes()
        seen, said = state.limits_state.seen(raw), state.said(case.row, case.eligible, case.item)
        allowed = state._with_unit(waits.allowed)
        said[allowed] = np.where(said[allowed] == doubt.UNASKED, doubt.SAID_YES, said[allowed])
        marks = self._marks(seen, said)
        frozen = state.purse is not None and state.purse.frozen
        if frozen:  # only what is allowed in this very decision
            marks[marks == questions.SAFE] = questions.IN_DOUBT
            marks[[k for k in allowed if said[k] == doubt.SAID_YES]] = questions.SAFE
        may_ask = (
            question is not None
            and case.ask
            and waits.asks
            and state.questions.left > 0
            and waits.looks < settings.ask_at_most
        )
        scored: Floats | Scoring
        if parts is None and not (may_ask and (marks == questions.IN_DOUBT).any()):
            k, scored = self._pick(case, marks == questions.SAFE)
            may_ask = False  # there is nothing to ask about
        else:
            parts = np.empty((7, len(marks))) if parts is None else parts
            scored = parts
            k = self._played(case, parts, seen, marks)
        if k < 0 and not frozen:
            k = self._fall_back(case.row, case.among, case.item, seen.p, said)
        wanted, worth, lesson, asks = -1, 0.0, 0.0, False
        if may_ask and parts is not None:
            wanted, worth, lesson, asks = self._nearest(case, parts, seen, marks, waits.looks)
        odds = None
        if case.propensity and parts is not None and not (asks and settings.on_doubt == "wait"):
            odds = self._play_odds(parts, marks, k)
        lost = None if wanted < 0 or asks else (state.arm_ids[wanted], worth, lesson)
        waits_for_it = asks and settings.on_doubt == "wait"
        coin = (None, False) if waits_for_it else self._coin(case, k, allowed)
        made = self._made(case, k, scored, odds, lost=lost, coin=coin)
        if not asks or question is None:
            return made
        context, arm = tuple(case.row.tolist()), state.arm_ids[wanted]
        asked = Asked(
            question, context, arm, case.version, case.at, case.id, case.among, None, case.item
        )
        if settings.on_doubt == "wait":
            return Question(asked)
        return replace(made, question=Question(asked))

    def _joint(self, case: _Case, question: ItemId | None) -> Made:
        """Choose where arms have features and share what is learned of them."""
        state, settings = self._state, self._state.settings
        visitors = case.visitors
        joint = JointChoice(self, case.row, case.id, case.among, visitors or (), case.item)
        ids, at = joint.candidates.ids, joint.choose()
        may_ask = (
            question is not None
            and case.ask
            and joint.waits.asks
            and self.policy.needs_limits
            and state.questions.left > 0
            and joint.waits.looks < settings.ask_at_most
        )
        wanted, worth, lesson, asks = joint.nearest() if may_ask else (-1, 0.0, 0.0, False)
        waiting = asks and settings.on_doubt == "wait"
        odds, chance, draws = None, None, None
        if case.propensity and not waiting:
            odds, chance, draws = joint.odds(at)
            if not joint.candidates.visitors:
                odds = joint.spread_odds(odds)
        lost: tuple[ArmId | None, float | None, float | None] = (None, None, None)
        if wanted >= 0 and not asks:
            lost = (ids[wanted], worth, lesson)
        context = tuple(case.row.tolist())
        sure = None if state.certificate is None else state.certified(case.row)
        made: Decision | Abstention
        if at < 0:
            event = Abstained(
                case.id,
                context,
                case.version,
                case.among,
                case.at,
                case.ask,
                chance,
                case.item,
                *lost,
                visitors,
            )
            made = Abstention(event, odds, sure)
        else:
            number = joint.candidates.number(at)
            coin: tuple[float | None, bool] = (None, False)
            if not waiting:
                coin = self._coin(case, number, tuple(joint.allowed_now))
            decided = Decided(
                case.id,
                context,
                ids[at],
                case.version,
                case.among,
                chance,
                case.at,
                case.ask,
                case.item,
                *lost,
                *coin,
                visitors,
                draws,
            )
            arms = ids if joint.candidates.visitors else state.arm_ids
            made = Decision(decided, arms, joint.scored(), joint.shown_may(), odds, sure)
        if not asks or question is None:
            return made
        asked = Asked(
            question,
            context,
            ids[wanted],
            case.version,
            case.at,
            case.id,
            case.among,
            None,
            case.item,
            visitors,
        )
        return Question(asked) if waiting else replace(made, question=Question(asked))

    def _played(self, case: _Case, parts: Floats, seen: Seen, marks: Any) -> int:
        """Fill `parts` and return the best arm that is surely allowed, or -1."""
        start, number = self._key(case.id, self._decide_start, self._decide_named)
        self._state.reward_parts(case.row, parts)
        parts[2], parts[3] = seen.p, seen.sd
        k = int(questions.play(self._weights, parts, marks, start, number))
        if isinstance(self.policy, Weighted):
            return k
        return self._chosen(parts, marks == questions.SAFE, start, number)

    @staticmethod
    def _marks(seen: Seen, said: Any) -> Any:
        """Return what may be done with each arm: play it, ask about it, or neither."""
        safe = (said == doubt.SAID_YES) | (seen.marks == doubt.SAFE)
        marks = np.where(safe, questions.SAFE, questions.IN_DOUBT)
        return np.where(said == doubt.SAID_NO, questions.OUT, marks).astype(np.int8)

    def _nearest(
        self, case: _Case, parts: Floats, seen: Seen, marks: Any, look: int
    ) -> tuple[int, float, float, bool]:
        """Return the arm in doubt that is nearest to paying for an answer, as the kernel does.

        Of what is asked about already, no more is asked.
        """
        state = self._state
        here: Case = case.row.tobytes() if case.item is None else case.item
        taken = self._asked_about(here)
        if taken is not None:
            marks = np.where(taken & (marks == questions.IN_DOUBT), questions.ASKED, marks)
            marks = marks.astype(np.int8)
        start, number = self._key(case.id, self._doubt_start, self._doubt_named)
        key = np.uint64(doubt.look_key(np.uint64(keys.key_of(start, number)), look))
        limits = state.limits_state
        costs, lessons = np.zeros((2, limits.accounts))
        price = state.settings.answer_price
        assert price is not None  # only logs of the first form have none
        for u, cost in state.costs.get(here, {}).items():
            costs[u] = cost
        for u, cost in state.lessons.items():
            lessons[u] = cost
        # Where nothing is safe, any arm would do; summed by kind, as in a simulation.
        starved = 0.0
        if limits.pairs is not None and not (marks == questions.SAFE).any():
            starved = float(questions.total_of(costs))
        drawn, scale, judged = parts[4], parts[5], np.empty(0)
        if state.scaled is not None:
            w = Weights(*self._weights.tolist())
            level = w.reward * parts[0] + w.limit * parts[2]
            wide = (w.reward * state.scaled.noise) * parts[1]
            drawn, judged, marks = questions.look_wide(drawn, scale, level, wide, marks, key)
            scale = np.zeros(len(drawn))
        k, worth, lesson, pays = questions.nearest(
            drawn,
            scale,
            seen.hope,
            seen.information,
            marks,
            limits.account_of,
            costs,
            lessons,
            price,
            limits.dearer(case.row, np.arange(len(costs))),
            starved,
            key,
            judged,
            np.empty(len(costs)),
            np.empty(len(costs), np.int64),
        )
        return int(k), float(worth), float(lesson), bool(pays)

    def _play_odds(self, parts: Floats, marks: Any, k: int) -> Odds:
        """Return the exact probability of each play, given that nothing is asked."""
        play, ask = np.zeros((2, len(marks)))
        safe = marks == questions.SAFE
        if safe.any() and not isinstance(self.policy, Weighted):
            play = odds_of(self.policy, scores_for(parts, safe, self._state.totals[1]))
        elif safe.any():
            wins.win_probabilities(parts[4], parts[5], safe, play)
        elif k >= 0:
            play[k] = 1.0
        return Odds(play, ask, float(not safe.any() and k < 0))

    def _masked_legacy(self, case: _Case, parts: Floats, question: ItemId | None) -> Made:
        """Choose as logs of the first form do: ask, if what may be allowed looks better."""
        state, settings = self._state, self._state.settings
        start, number = self._key(case.id, self._decide_start, self._decide_named)
        waits = state.questions.waiting.get(case.id, Waiting(b"", None))
        raw = case.row.tobytes()
        seen, said = state.limits_state.seen(raw), state.said(case.row, case.eligible)
        state.reward_parts(case.row, parts)
        parts[2], parts[3] = seen.p, seen.sd
        settled = waits.settled >= 0 and said[waits.settled] == doubt.SAID_YES
        look = waits.looks - settled  # what was settled is shown as it was asked
        taken = self._asked_about(raw) if case.ask and settings.on_doubt == "wait" else None
        safe, wanted, marks = look_twice(
            self._weights, parts, seen.marks, seen.p, said, taken, start, number, look
        )
        if settled:
            return self._made(case, waits.settled, parts, None, waits.propensity)
        k = safe if safe >= 0 else self._fall_back(case.row, case.among, None, seen.p, said)
        may_ask = (
            question is not None
            and case.ask
            and waits.asks
            and state.questions.left > 0
            and waits.looks < settings.ask_at_most
        )
        waiting = may_ask and settings.on_doubt == "wait"
        odds = self._odds(parts, marks, said, k, waiting) if case.propensity else None
        made = self._made(case, k, parts, odds)
        if question is None or not may_ask or wanted == safe:
            return made
        context, arm = tuple(case.row.tolist()), state.arm_ids[wanted]
        chance = float(odds.ask[wanted]) if waiting and odds is not None else None
        asked = Asked(question, context, arm, case.version, case.at, case.id, case.among, chance)
        if waiting:
            return Question(asked, odds)
        taken = self._asked_about(raw)
        if taken is not None and taken[wanted]:
            return made
        return replace(made, question=Question(asked))

    def _asked_about(self, case: Case) -> Bools | None:
        """Return of which arms another decision awaits an answer here; None if of none."""
        state = self._state
        account_of = state.limits_state.account_of
        accounts = [account_of[k] for k in state.questions.asked_about(case)]
        return np.isin(account_of, accounts) if accounts else None

    def _odds(self, parts: Floats, marks: Any, said: Any, k: int, waiting: bool) -> Odds:
        """Return the exact probability of each outcome of a look."""
        play, ask = np.zeros((2, len(said)))
        certain = said == doubt.SAID_YES
        open_ = said != doubt.SAID_NO
        safe = open_ & (certain | (marks == doubt.SAFE))
        running = open_ & (certain | (marks != doubt.DENIED)) if waiting else safe
        if running.any():
            wins.win_probabilities(parts[4], parts[5], running, play)
            ask[~safe] = play[~safe]
            play[~safe] = 0.0
        elif k >= 0:
            play[k] = 1.0
        return Odds(play, ask, float(not running.any() and k < 0))

    def _fall_back(
        self, row: Floats, among: tuple[ArmId, ...] | None, item: ArmId | None, p: Floats, said: Any
    ) -> int:
        """Return the arm to play where none is safe, or -1. A safe arm needs no certificate."""
        state = self._state
        if state.settings.on_empty == "safe_arm":
            k = state.number_of[state.settings.safe_arm]  # type: ignore[index]
            numbers = None if among is None else [state.arm_number(arm) for arm in among]
            return k if state.offered(row, numbers, item)[k] else -1
        empty = FALL_BACK[state.settings.on_empty]
        return int(doubt.fall_back(empty, p, said, np.arange(len(said))))

    def _made(
        self,
        case: _Case,
        k: int,
        scored: Floats | Scoring,
        odds: Odds | None,
        chance: float | None = None,
        lost: tuple[ArmId, float, float] | None = None,
        coin: tuple[float | None, bool] = (None, False),
    ) -> Decision | Abstention:
        state = self._state
        context = tuple(case.row.tolist())
        wanted, worth, lesson = (None, None, None) if lost is None else lost
        sure = None if state.certificate is None else state.certified(case.row)
        if k < 0:
            if odds is not None:
                chance = odds.abstain
            event = Abstained(
                case.id,
                context,
                case.version,
                case.among,
                case.at,
                case.ask,
                chance,
                case.item,
                wanted,
                worth,
                lesson,
            )
            return Abstention(event, odds, sure)
        if odds is not None:
            chance = float(odds.play[k])
        decided = Decided(
            case.id,
            context,
            state.arm_ids[k],
            case.version,
            case.among,
            chance,
            case.at,
            case.ask,
            case.item,
            wanted,
            worth,
            lesson,
            *coin,
        )
        shown = state.every_shown if case.eligible is state.every else case.eligible
        return Decision(decided, state.arm_ids, scored, shown, odds, sure)

    # -- a slate -----------------------------------------------------------------------------

    def slate(
        self,
        row: Floats,
        ids: list[ItemId],
        version: int,
        among: tuple[ArmId, ...] | None,
        places: int,
        propensity: bool,
        at: float | None,
        *,
        ask: bool = False,
        question: ItemId | None = None,
        item: ArmId | None = None,
    ) -> SlateDecision | Abstention:
        """Choose several arms at once, best first; the id of the first keys their draws.

        It waits for nobody: a question is filed with the first place, where agents file some.
        """
        state, id = self._state, ids[0]
        numbers = None if among is None else [state.arm_number(arm) for arm in among]
        eligible = state.eligible(row, numbers, item, self.policy)
        case = _Case(row, id, version, among, propensity, at, ask, eligible, item)
        if state.shared is not None:
            chosen = self._joint_slate(case, places)
        else:
            chosen = self._plain_slate(case, places)
        arms = chosen.slate.arms
        if not len(arms):
            k = -1 if state.purse is not None and state.purse.frozen else chosen.fall_back()
            arms = np.array([k] if k >= 0 else [], np.int64)
        shares = chosen.odds(arms) if propensity and len(arms) else None
        wanted, worth, lesson, asks = -1, 0.0, 0.0, False
        may_ask = ask and state.settings.on_doubt == "play_safe" and state.questions.left > 0
        if may_ask and question is not None and self.policy.needs_limits:
            wanted, worth, lesson, asks = chosen.nearest()
        lost = NOTHING_LOST
        if wanted >= 0 and not asks:
            lost = (state.arm_ids[wanted], worth, lesson)
        context = tuple(row.tolist())
        sure = None if state.certificate is None else state.certified(row)
        asked = None
        if asks and question is not None:
            arm = state.arm_ids[wanted]
            asked = Question(Asked(question, context, arm, version, at, id, among, None, item))
        if not len(arms):
            chance = None if not propensity else 1.0
            nothing = Abstained(
                id, context, version, among, at, ask, chance, item, *lost, None, places
            )
            return Abstention(nothing, None, sure, asked)
        coins = self.coins(ids[: len(arms)], arms.copy(), [item] * len(arms))
        share, draws = (None, None) if shares is None else shares[0]
        event = Decided(
            id,
            context,
            state.arm_ids[arms[0]],
            version,
            among,
            share,
            at,
            ask,
            item,
            *lost,
            *(NO_COIN if coins is None else coins[0]),
            None,
            draws,
            id,
            1,
            places,
        )
        first = Decision(event, state.arm_ids, chosen.scored(), eligible, None, sure, asked)
        how, bound = chosen.slate.how, chosen.slate.bound
        return SlateDecision(first, ids[: len(arms)], arms.tolist(), shares, coins, how, bound)

    def _joint_slate(self, case: _Case, places: int) -> _ChosenSlate:
        """Choose a slate where arms share what is learned of them."""
        joint = JointChoice(self, case.row, case.id, case.among, (), case.item)
        slate = joint.slate(places)

        def odds(arms: Ints) -> list[tuple[float, int | None]]:
            if not len(slate.arms):
                return [(1.0, None)]
            if slate.chain is not None:
                return [(share, None) for share in slate.chain.tolist()]
            return [(share, DRAWS) for share in joint.slate_odds(arms, places).tolist()]

        def fall_back() -> int:
            at = joint.fall_back()
            return joint.candidates.number(at) if at >= 0 else -1

        def nearest() -> tuple[int, float, float, bool]:
            at, worth, lesson, pays = joint.nearest()
            return (joint.candidates.number(at) if at >= 0 else -1), worth, lesson, pays

        return _ChosenSlate(slate, joint.scored, odds, fall_back, nearest)

    def _plain_slate(self, case: _Case, places: int) -> _ChosenSlate:
        """Choose a slate where every arm learns alone."""
        state, policy = self._state, self.policy
        start, number = self.decide_key(case.id)
        key = int(keys.key_of(start, number))
        parts = np.empty((7, len(state.arms)))
        state.reward_parts(case.row, parts)
        seen = state.limits_state.seen(case.row.tobytes())
        said = state.said(case.row, case.eligible, case.item)
        marks = self._marks(seen, said)
        parts[2], parts[3] = self._limit_scores(case.row)
        may = marks == questions.SAFE if policy.needs_limits else case.eligible.copy()
        if state.purse is not None and state.purse.frozen:
            may = np.zeros(len(may), np.bool_)
        choice.choose(self._weights, parts, may, may, start, number)
        inner = policy.policy if isinstance(policy, Masked) else policy
        scores = scores_for(parts, may, state.totals[1])
        draws = isinstance(inner, Weighted) and inner.weights.epsilon == 0.0
        if draws:
            slate = choose_slate(parts[6], may, places, state.sets, key)
        else:
            slate = drawn(policy, scores, places, key, state.sets)

        def odds(arms: Ints) -> list[tuple[float, int | None]]:
            if not len(slate.arms):
                return [(1.0, None)]
            if slate.chain is not None:
                return [(share, None) for share in slate.chain.tolist()]
            aside = np.uint64(keys.aside(np.uint64(key)))
            scratch = parts.copy()

            def draw(i: int) -> Floats:
                choice.choose(self._weights, scratch, may, may, aside, np.uint64(i))
                scores: Floats = scratch[6]
                return scores

            found = place_odds(draw, DRAWS, arms, may, places, state.sets, int(aside))
            return [(share, DRAWS) for share in found.places.tolist()]

        def fall_back() -> int:
            if not policy.needs_limits:
                return -1
            return self._fall_back(case.row, case.among, case.item, seen.p, said)

        def nearest() -> tuple[int, float, float, bool]:
            return self._nearest(case, parts, seen, marks, 0)

        return _ChosenSlate(slate, lambda: parts, odds, fall_back, nearest)

    # -- a batch -----------------------------------------------------------------------------

    def numbers(self, first: int, names: list[ItemId] | None, n: int) -> tuple[Any, Uints]:
        """Return the keys of a batch of decisions: the stream, and the places in it."""
        if names is None:
            return self._decide_start, np.arange(first, first + n, dtype=np.uint64)
        return self._decide_named, np.array([hashed(str(name)) for name in names], np.uint64)

    def batch(
        self,
        rows: Floats,
        among: tuple[ArmId, ...] | None,
        start: Any,
        numbers: Uints,
        details: bool,
        propensity: bool,
        items: list[ArmId | None],
    ) -> tuple[Ints, Bools, Floats | None, Floats | None]:
        """Choose an arm for each row, never asking: arms, eligible, parts, propensities."""
        state, policy = self._state, self.policy
        n, K = len(rows), len(state.arms)
        masked = policy.needs_limits
        eligible = self._eligible_many(rows, among, items)
        running = eligible
        belief = spread = np.zeros((1, K))
        parts = odds = None
        certain: list[Any] = []
        ours = isinstance(policy, Weighted)
        compiled = ours and isinstance(state.reward_model, LinearArms)
        wanted = details or propensity or not compiled
        if masked or wanted or self._weights[WEIGHT_OF_LIMITS] != 0.0:
            belief, spread, running, certain = self._limits_many(rows, eligible, items)
        arms = np.empty(n, np.int64)
        if wanted:
            parts = np.empty((n, 7, K))
            state.reward_parts_many(rows, parts)
            parts[:, 2], parts[:, 3] = belief, spread
            choice.choose_many(self._weights, parts, running, start, numbers, arms)
        else:
            self._pick_many(rows, belief, spread, running, start, numbers, arms)
        if parts is not None and not ours:
            for i, may in enumerate(np.broadcast_to(running, (n, K))):
                arms[i] = self._chosen(parts[i], may, start, numbers[i])
        if masked:
            for i in np.flatnonzero(arms < 0).tolist():
                arms[i] = self._fall_back(rows[i], among, items[i], belief[i], certain[i])
        if parts is not None and propensity:
            odds = np.empty((n, K))
            if ours:
                wins.propensities_many(self._weights, parts, running, odds)
            else:
                for i, may in enumerate(np.broadcast_to(running, (n, K))):
                    odds[i] = odds_of(policy, scores_for(parts[i], may, state.totals[1]))
            if masked:
                for i in np.flatnonzero(~running.any(axis=1) & (arms >= 0)).tolist():
                    odds[i] = np.arange(K) == arms[i]
        return arms, eligible, parts if details or propensity else None, odds

    def joint_batch(
        self,
        rows: Floats,
        among: tuple[ArmId, ...] | None,
        ids: list[ItemId],
        details: bool,
        propensity: bool,
        items: list[ArmId | None],
    ) -> JointBatch:
        """Choose an arm for each row where arms share what is learned of them, never asking."""
        K, n = len(self._state.arms), len(rows)
        if details and 7 * n * K > MOST_DETAILS:
            remedy = "Say details=False, or decide fewer at once."
            raise LimitReached("numbers in the details of a batch", MOST_DETAILS, remedy)
        made = JointBatch(np.empty(n, np.int64), None, None, None, None)
        if details:
            made = made._replace(
                eligible=np.zeros((n, K), np.bool_), parts=np.zeros((n, 7, K)), odds=None
            )
        chances: list[tuple[float, int | None]] = []
        odds = np.zeros((n, K)) if propensity and details else None
        for i, (row, id, item) in enumerate(zip(rows, ids, items, strict=True)):
            joint = JointChoice(self, row, id, among, (), item)
            at, numbers = joint.choose(), joint.candidates.numbers
            made.arms[i] = joint.candidates.number(at) if at >= 0 else -1
            which = slice(None) if numbers is None else numbers
            if made.parts is not None and made.eligible is not None:
                made.parts[i] = joint.shown()
                made.eligible[i] = joint.shown_may()
            if propensity:
                each, chance, draws = joint.odds(at)
                chances.append((chance, draws))
                if odds is not None:
                    odds[i][which] = each.play
        return made._replace(odds=odds, chances=chances if propensity else None)

    def _pick_many(
        self,
        rows: Floats,
        belief: Floats,
        spread: Floats,
        running: Bools,
        start: Any,
        numbers: Uints,
        arms: Ints,
    ) -> None:
        """Fill `arms` with the choices of a batch of which no scores are wanted, the fast way."""
        state, model = self._state, self._state.reward_arms
        x = state.reward_rows(rows)
        if len(state.arms) < MANY:
            mean, sd = model.pulled_scores(x, state.pull)
            choice.pick_many(self._weights, mean, sd, belief, spread, running, start, numbers, arms)
            return
        loop.run(
            Weights(*self._weights.tolist()),
            model.kernel_state,
            model.ridge,
            x,
            np.empty((0, len(state.arms))),
            running,
            running,
            belief,
            spread,
            np.arange(len(rows)),
            start,
            numbers,
            False,
            arms,
            state.centred,
            state.totals if state.scaled is None else state.scaled.totals,
        )

    def coins(
        self, ids: list[ItemId], arms: Ints, items: list[ArmId | None]
    ) -> list[tuple[float | None, bool]] | None:
        """Return the coin of each play of a batch, as one by one; None if there are none.

        Where the promise is frozen nothing is played: `arms` is changed to -1 there.
        """
        state = self._state
        rates = state.limits_state.rates if self.policy.needs_limits else None
        purse = None if state.purse is None else state.purse.copy()
        if rates is None and purse is None:
            return None
        rate_unit = state.limits_state.rate_unit
        unjudged = [] if rates is None else rates.unjudged.tolist()
        plays, drawn = sum(unjudged), 0
        out: list[tuple[float | None, bool]] = []
        for ahead, (id, k, item) in enumerate(zip(ids, arms.tolist(), items, strict=True)):
            if purse is not None and purse.frozen:
                arms[ahead] = k = -1
            coin, judged, u = 0.0, k >= 0 and state.is_allowed(k, item), rate_unit(k)
            new = rates is not None and k >= 0 and not judged
            if new and rates is not None and state.checks.may(state.decisions + ahead + 1, drawn):
                coin = coin_of(rates.zeal[u], plays, unjudged[u])
            if k >= 0 and purse is not None:
                coin = max(coin, purse.coin(known=judged))
            falls = coin > 0.0 and self._falls(id, coin, purse)
            out.append((coin or None, falls))
            drawn += falls
            if coin > 0.0 and new:
                unjudged[u] += 1
                plays += 1
            if purse is not None:
                purse.take(coin or None, id if falls else None)
        return out

    def _limits_many(
        self, rows: Floats, eligible: Bools, items: list[ArmId | None]
    ) -> tuple[Floats, Floats, Bools, list[Any]]:
        """Return belief, doubt and the arms in the running for each row; and what is certain."""
        state, masked = self._state, self.policy.needs_limits
        limits = state.limits_state.limits
        if limits.linear is not None and not masked:
            return *limits.scores_many(rows), eligible, []
        seen = [state.limits_state.seen(row.tobytes()) for row in rows]
        shape = len(rows), len(state.arms)
        belief = np.array([one.p for one in seen]).reshape(shape)
        spread = np.array([one.sd for one in seen]).reshape(shape)
        if not masked:
            return belief, spread, eligible, []
        may = np.broadcast_to(eligible, shape)
        each = zip(rows, may, items, strict=True)
        certain = [state.said(row, one, item) for row, one, item in each]
        running = np.array(
            [
                (told == doubt.SAID_YES) | ((told == doubt.UNASKED) & (one.marks == doubt.SAFE))
                for told, one in zip(certain, seen, strict=True)
            ],
            np.bool_,
        )
        return belief, spread, running.reshape(shape), certain

    def _eligible_many(
        self, rows: Floats, among: tuple[ArmId, ...] | None, items: list[ArmId | None]
    ) -> Bools:
        state = self._state
        numbers = None if among is None else [state.arm_number(arm) for arm in among]
        plain = numbers is None and not state.rules and state.certificate is None
        if plain and not (state.denials and state.remembers):
            return state.every[None]  # one row that serves all
        if plain:
            denied = state.denials
            raw = [row.tobytes() for row in rows]
            if denied.keys().isdisjoint(raw) and denied.keys().isdisjoint(items):
                return state.every[None]
            found = np.broadcast_to(state.every, (len(rows), len(state.arms))).copy()
            for i, (one, item) in enumerate(zip(raw, items, strict=True)):
                if one in denied or item in denied:
                    found[i] = state.eligible(rows[i], None, item, self.policy)
            return found
        each = zip(rows, items, strict=True)
        eligible = [state.eligible(row, numbers, item, self.policy) for row, item in each]
        return np.array(eligible, np.bool_).reshape(len(rows), len(state.arms))

    # -- small parts -------------------------------------------------------------------------

    def _limit_scores(self, row: Floats) -> tuple[Floats, Floats]:
        limits = self._state.limits_state.limits
        if limits.linear is not None:
            return limits.scores(row)
        seen = self._state.limits_state.seen(row.tobytes())
        return seen.p, seen.sd

    def _key(self, id: ItemId, start: Any, named: Any) -> tuple[Any, Any]:
        if isinstance(id, int):
            return start, np.uint64(id)
        return named, np.uint64(hashed(id))

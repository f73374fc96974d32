"""`Account`: why a choice came out as it did.

The choice is made again from the state that it was made from, with every score and draw.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from bridle import validation
from bridle.agent.agent import Agent
from bridle.agent.config import ArmId, ItemId, listed
from bridle.agent.events import Abstained, Asked, Decided, Event, check_event
from bridle.agent.joint import JointChoice
from bridle.agent.limits_state import Case, Waiting
from bridle.agent.outcomes import Abstention, Decision, Odds, Question
from bridle.agent.queries import Believed, believed_of
from bridle.agent.replay import state_at
from bridle.agent.selection import Choice, Selector, _Case
from bridle.agent.state import VISITING, AgentState
from bridle.errors import InvalidValue, NotPossible
from bridle.explain.attribution import (
    Contributions,
    Influence,
    Influences,
    Share,
    influences_of,
    limit_shares,
    reward_shares,
)
from bridle.explain.sharing import ArmInfluence, ArmInfluences, taught_by
from bridle.kernels import choice, doubt, questions
from bridle.kernels.types import Bools, Floats, Ints
from bridle.policies import policy_to_json, with_sigma

__all__ = [
    "Account",
    "ArmAccount",
    "ArmInfluence",
    "ArmInfluences",
    "Balance",
    "Contributions",
    "Influence",
    "Influences",
    "Otherwise",
    "Promise",
    "Remade",
    "Share",
    "account_of",
    "agrees",
    "answered_in",
    "balance_of",
    "is_teaching",
    "make_again",
    "remade",
]


# Odds of equal states differ by less, whatever the machine.
SAME = 1e-9
# Of more arms the likeliest are shown, and no other sigma is tried.
MOST_ARMS = 1_000


class Remade(NamedTuple):
    """A choice, made again."""

    made: Decision | Question | Abstention
    parts: Floats  # (7, K), as in `Decision`
    eligible: Bools
    odds: Odds | None  # of each outcome, in the same order
    state: AgentState  # with the arms that a request brought along after all others


def is_teaching(event: Choice) -> bool:
    """Whether it is a question of `ask`, that came up in no decision."""
    return isinstance(event, Asked) and event.decision is None


def make_again(
    state: AgentState, event: Choice, row: Floats, ask: bool = True
) -> Decision | Question | Abstention:
    """Choose again, with the odds of each outcome; without `ask`, as if nothing could be asked."""
    return Selector(state).again(event, row, ask=ask, propensity=True)


def remade(state: AgentState, event: Choice, row: Floats) -> Remade:
    """Choose again; return all scores and draws, whatever comes of it."""
    if state.shared is not None:
        return _remade_jointly(state, event, row)
    made = make_again(state, event, row)
    among = None if event.among is None else [state.arm_number(arm) for arm in event.among]
    eligible = state.eligible(row, among, event.item)
    if isinstance(made, Decision):
        return Remade(made, made.parts, eligible, made.odds, state)
    parts = _parts(state, row, _decision(event), eligible, event.item)
    return Remade(made, parts, eligible, made.odds, state)


def _remade_jointly(state: AgentState, event: Choice, row: Floats) -> Remade:
    """Choose again where arms share a reward model; return the scores of all arms."""
    many = len(state.arms) > MOST_ARMS
    selector = Selector(state)
    made = selector.again(event, row, propensity=None if many else True)
    every = JointChoice(selector, row, _key_of(event), None, (), event.item)
    here = _joint(selector, event, row)
    known = _with_visitors(state, here)
    parts = every.parts()
    if here.candidates.visitors:
        parts = np.concatenate([parts, here.parts()[:, here.candidates.stored :]], axis=1)
    numbers = here.candidates.numbers
    eligible = np.zeros(len(known.arms), np.bool_)
    eligible[slice(None) if numbers is None else numbers] = here.candidates.may
    return Remade(made, parts, eligible, _spread(made.odds, here, len(eligible)), known)


def _joint(selector: Selector, event: Choice, row: Floats) -> JointChoice:
    visitors = event.visitors or ()
    return JointChoice(selector, row, _key_of(event), event.among, visitors, event.item)


def _key_of(event: Choice) -> ItemId:
    """Return the id that keys the draws: of a slate that of its first place."""
    slate = event.slate if isinstance(event, Decided) else None
    return _decision(event) if slate is None else slate


def _with_visitors(state: AgentState, here: JointChoice) -> AgentState:
    """Return the state itself or, where a request brought arms along, a copy that has them."""
    if not here.candidates.visitors:
        return state
    known = copy.deepcopy(state)
    known.add_arms(here.candidates.visitors, VISITING)
    return known


def _spread(odds: Odds | None, here: JointChoice, arms: int) -> Odds | None:
    """Return odds by the numbers of arms, also where they are of the candidates alone."""
    numbers = here.candidates.numbers
    if odds is None or numbers is None or len(odds.play) == arms:
        return odds
    play, ask = np.zeros(arms), np.zeros(arms)
    if len(odds.play) == len(numbers):
        play[numbers], ask[numbers] = odds.play, odds.ask
    else:  # of all that are stored
        play[: len(odds.play)], ask[: len(odds.ask)] = odds.play, odds.ask
    return Odds(play, ask, odds.abstain)


def answered_in(state: AgentState, event: Choice) -> tuple[int, ...]:
    """Return the arms that answers have allowed in this very decision, before this look."""
    waits = state.questions.waiting.get(_decision(event))
    return () if waits is None else waits.allowed


class Balance(NamedTuple):
    """What an answer was worth at a decision, and what not having it had cost; see `Account`."""

    wanted: int | None = None
    worth: float | None = None
    cost: float | None = None
    price: float | None = None
    words: str | None = None


def balance_of(state: AgentState, event: Choice, row: Floats, again: Remade) -> Balance:
    """Weigh again whether an answer pays; say in words why a decision asked, or did not.

    Examples
    --------
    >>> from bridle import Agent
    >>> agent = Agent(arms=2, features=1, seed=1, budget=5)
    >>> event = agent.make.decided([1.0], ask=False).event
    >>> row = np.array([1.0])
    >>> balance_of(agent._state, event, row, remade(agent._state, event, row)).words
    'Not asked: this decision was made without questions.'
    """
    settings, id = state.settings, _decision(event)
    if settings.answer_price is None or not state.policy.needs_limits or is_teaching(event):
        return Balance()
    waits = state.questions.waiting.get(id, Waiting(b"", None))
    asked = isinstance(event, Asked)
    if not asked:
        why = _why_not(state, waits, getattr(event, "ask", True))
        if why is not None:
            return Balance(words=f"Not asked: {why}.")
    if state.shared is not None:
        return _weighed(state, event, _joint(Selector(state), event, row))
    selector, seen = Selector(state), state.limits_state.seen(row.tobytes())
    said = state.said(row, again.eligible, event.item)
    allowed = state._with_unit(waits.allowed)
    said[allowed] = np.where(said[allowed] == doubt.UNASKED, doubt.SAID_YES, said[allowed])
    case = _Case(
        row, id, event.version, event.among, False, event.at, True, again.eligible, event.item
    )
    marks = selector._marks(seen, said)
    k, worth, lesson, _ = selector._nearest(case, again.parts, seen, marks, waits.looks)
    if k < 0:
        return Balance(words="Not asked: nothing that is in doubt looked better.")
    here: Case = row.tobytes() if event.item is None else event.item
    unit = int(state.limits_state.unit_of[k])
    before = state.costs.get(here, {}).get(unit, 0.0)
    information = float(seen.information[k])
    return _balance(state, asked, (k, worth, lesson), before, unit, information)


def _weighed(state: AgentState, event: Choice, here: JointChoice) -> Balance:
    """Do what `balance_of` does where arms share what is learned of them."""
    at, worth, lesson, _ = here.nearest()
    if at < 0:
        return Balance(words="Not asked: nothing that is in doubt looked better.")
    place = np.array([at])
    account = int(state.limits_state.kinds(here.candidates, place)[0])
    before = state.costs.get(here.case, {}).get(account, 0.0)
    information = float(state.limits_state.look(here.row, here.candidates, place).information[0])
    wanted = here.candidates.number(at), worth, lesson
    return _balance(state, isinstance(event, Asked), wanted, before, account, information)


def _balance(
    state: AgentState,
    asked: bool,
    wanted: tuple[int, float, float],
    before: float,
    account: int,
    information: float,
) -> Balance:
    """Return what an answer was worth, in words, too; `wanted`: an arm, its worth and lesson."""
    k, worth, lesson = wanted
    settings = state.settings
    assert settings.answer_price is not None
    price = float(questions.price_of(settings.answer_price, information))
    cost = before + worth
    if asked and cost < price:  # this item alone would not pay for it
        alike = state.lessons.get(account, 0.0) + lesson
        words = (
            f"Asked: not knowing has cost {alike:.2f} of a reward so far in all cases that the "
            f"answer teaches about, and an answer is worth {settings.answer_price:.2f}."
        )
    elif asked:
        words = (
            f"Asked: not knowing has cost {cost:.2f} of a reward so far, and an answer is worth "
            f"{price:.2f}."
        )
    else:
        words = (
            f"Not asked: an answer is worth {price:.2f} of a reward, and not knowing has cost "
            f"{cost:.2f} so far."
        )
    return Balance(k, worth, cost, price, words)


def _why_not(state: AgentState, waits: Waiting, ask: bool) -> str | None:
    """Return why a decision could not ask at all; None if it could."""
    settings = state.settings
    if settings.budget == 0:
        return "this agent has no budget for questions"
    if not ask:
        return "this decision was made without questions"
    if not waits.asks:
        return "its question went without an answer"
    if state.questions.left <= 0:
        return "the budget for questions is used up"
    if waits.looks >= settings.ask_at_most:
        return f"it had asked as often as one decision may ({settings.ask_at_most})"
    return None


def _decision(event: Choice) -> ItemId:
    """Return the id that keys the draws."""
    came_up_in = event.decision if isinstance(event, Asked) else None
    return event.id if came_up_in is None else came_up_in


def _parts(
    state: AgentState, row: Floats, id: ItemId, eligible: Bools, item: ArmId | None
) -> Floats:
    """Return all scores and draws of a choice that played nothing, as `Decision.parts` does."""
    parts = np.empty((7, len(state.arms)))
    limits = state.limits_state.limits
    named = isinstance(id, str)
    start, numbers = Selector(state).numbers(0 if named else int(id), [id] if named else None, 1)
    state.reward_parts(row, parts)
    if state.policy.needs_limits or limits.linear is None:
        seen = state.limits_state.seen(row.tobytes())
        parts[2], parts[3] = seen.p, seen.sd
    else:
        parts[2], parts[3] = limits.scores(row)
    if state.policy.needs_limits:
        marks = np.zeros(len(state.arms), np.int8)  # they tell who wins, and not what is drawn
        if state.settings.legacy:
            looks = state.questions.waiting.get(id, Waiting(b"", None)).looks
            said, every = state.said(row, eligible, item), np.arange(len(state.arms))
            doubt.look_at(state.weights, parts, marks, said, every, start, numbers[0], looks)
        else:
            questions.play(state.weights, parts, marks, start, numbers[0])
    else:
        choice.choose(state.weights, parts, eligible, eligible, start, numbers[0])
    return parts


def agrees(event: Choice, made: Decision | Question | Abstention) -> bool:
    """Whether the log and the choice that was made again say the same: arm, and odds to 1e-9."""
    mine: object = made.event
    if isinstance(event, Asked) and not isinstance(made, Question):
        mine = None if made.question is None else made.question.event
    if type(mine) is not type(event) or getattr(mine, "arm", None) != getattr(event, "arm", None):
        return False
    if event.propensity is None:
        return True
    odds: float | None = getattr(mine, "propensity", None)
    return odds is not None and abs(odds - event.propensity) <= SAME


# --- The account of one choice: what was believed of every arm, and what made it so -------
#
# It is computed from an agent as it was when it chose, and changes nothing of it.


OWNER = "account_of"
SIGMAS = (0.0, 0.25, 0.5, 0.75, 1.0)
MAX_SIGMAS = 101
KINDS = {Decided: "decision", Abstained: "abstention", Asked: "question"}
MOST = validation.IntRange(0, 100_000)
TOP = validation.IntRange(0, 1_000)


@dataclass(frozen=True, slots=True)
class ArmAccount:
    """What was believed of one arm, and how it fared.

    Attributes
    ----------
    arm : arm id
    reward_mean, reward_sd, limit_mean, limit_sd : float
        The reward part, in [0, 1] units, and the constraint part: see `Decision`.
    mean, sd, draw : float or None
        The blend, and what was drawn from it; the highest draw of those in the running won. None
        where a question was picked to be taught by: that is no blend.
    play, ask : float or None
        The exact probability that it is played, or asked about. None where there was no such
        chance: an answer had settled it, or it was a question to be taught by.
    information : float
        What an answer about it would teach, in nats; nothing if it is certain.
    p : float
        Probability that it is allowed; 0 or 1 where people or rules say so.
    eligible, safe, possible : bool
        Whether it was in the running, was surely allowed, was not surely denied.
    certified : bool or None
        Whether the certificate lets it through; None without one.
    why_not : str or None
        Why a mask may not play it; None if it may.
    novelty : float
        How much of the context was never taught of it, or its group.
    unseen : tuple of str
        What the context holds that no example of it, or its group, held.
    """

    arm: ArmId
    reward_mean: float
    reward_sd: float
    limit_mean: float
    limit_sd: float
    mean: float | None
    sd: float | None
    draw: float | None
    play: float | None
    ask: float | None
    information: float
    p: float
    eligible: bool
    safe: bool
    possible: bool
    certified: bool | None
    why_not: str | None
    novelty: float
    unseen: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Promise:
    """The certificate that was in force."""

    alpha: float
    delta: float
    threshold: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Otherwise:
    """What another sigma would have done in its place: with the same draws, and by its odds.

    Where questions have a price, `play` and `abstain` are given that nothing is asked.
    `play` and `ask` are in the order of the arms. Of a question that was filed beside a decision
    (``on_doubt="play_safe"``) it is what that decision would have been.
    """

    sigma: float
    kind: str
    arm: ArmId | None
    play: tuple[float, ...]
    ask: tuple[float, ...]
    abstain: float


@dataclass(frozen=True, slots=True, repr=False)
class Account:
    """The account of one choice, in plain values; as text (`str`) it is short, whatever they are.

    Attributes
    ----------
    id, version, at
        As logged.
    kind : {"decision", "abstention", "question"}
    arm : arm id or None
        That was played or asked about; None of an abstention.
    decision : id or None
        Of a question: the decision that it came up in.
    context : dict
        In words, by feature.
    among : tuple of arm ids, or None
        The arms that could be had; None: all.
    policy : dict
        Its kind, and its parameters.
    sigma : float or None
        The dial, if the policy has one.
    propensity : float or None
        As logged.
    abstain : float or None
        The exact probability that nothing is played.
    settled : bool
        Whether an answer had settled it, so that nothing was left to chance.
    agrees : bool
        Whether the same comes of it when it is made again: the arm, and the odds to 1e-9. If not,
        the event is not of this agent, or was made by another version of bridle.
    certificate : Promise or None
        That was in force.
    arms : tuple of ArmAccount
    about : arm id
        The arm that contributions and examples are about: the one that was chosen or, of an
        abstention, the one that is most likely allowed.
    contributions : tuple of Contributions
        To the reward and to the constraint part, of `about` and of the arms that were asked for.
    sigmas : tuple of Otherwise
        What other sigmas would have done; empty if the policy has none, or nothing was left to it.
    examples : Influences
        Those that move what is believed of `about` most when left out.
    reward : float or None
        If it came.
    item : arm id or None
        The name of what the context is about.
    wanted : arm id or None
        The arm in doubt that came nearest to paying for an answer; None if none would have been
        better, if nothing could be asked, or where questions have no price.
    worth : float or None
        What not knowing about `wanted` cost at this decision, in [0, 1] units of reward.
    cost : float or None
        What it has cost so far, this decision included.
    price : float or None
        What an answer is worth: once `cost` reaches it, the teacher is asked. It is the agent's
        `answer_price`, less what the answer teaches about other cases. The teacher is asked, too,
        once not knowing has cost as much in all the cases that an answer would teach about.
    answered : tuple of arm ids
        What the teacher has allowed in this very decision before, with all arms of its group.
    asking : str or None
        In words, why a decision asked or did not; None where questions have no price.
    slate, place, places : id, int, int, or None
        Of a decision in a slate: the slate's id, its place in it from 1 on, and how many there
        were to fill.
    taught : ArmInfluences or None
        Where arms share a reward model: the arms whose plays move what is expected of `about` most.
    of_arms : int
        How many arms there were. Of more than 1,000 `arms` has those that came nearest to being
        played, with those that were asked for.
    """

    id: ItemId
    kind: str
    arm: ArmId | None
    version: int
    at: float | None
    decision: ItemId | None
    context: dict[str, object]
    among: tuple[ArmId, ...] | None
    policy: dict[str, float | str | None]
    sigma: float | None
    propensity: float | None
    abstain: float | None
    settled: bool
    agrees: bool
    certificate: Promise | None
    arms: tuple[ArmAccount, ...]
    about: ArmId
    contributions: tuple[Contributions, ...]
    sigmas: tuple[Otherwise, ...]
    examples: Influences
    reward: float | None
    item: ArmId | None
    wanted: ArmId | None
    worth: float | None
    cost: float | None
    price: float | None
    asking: str | None
    answered: tuple[ArmId, ...]
    slate: ItemId | None
    place: int | None
    places: int | None
    taught: ArmInfluences | None
    of_arms: int

    def __repr__(self) -> str:
        about = "" if self.arm is None else f": {self.arm!r}"
        return f"<Account of {self.kind} {self.id!r}{about}, among {self.of_arms:,} arms>"

    def __str__(self) -> str:
        return "\n".join(_told(self))

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        data: dict[str, Any] = _plain(self)
        return data


def account_of(
    agent: Agent,
    event: Decided | Abstained | Asked,
    *,
    arms: Sequence[ArmId] = (),
    sigmas: Sequence[float] = SIGMAS,
    most: int | None = None,
    top: int = 5,
    reward: float | None = None,
    plays: Sequence[tuple[ArmId, Sequence[float], float]] | None = None,
    log: Iterable[Event] | None = None,
) -> Account:
    """Explain one choice of an agent.

    Parameters
    ----------
    agent : Agent
        As it was when it chose: ``agent.version == event.version``. It is not changed. Of a choice
        that lies further back, give the `log` as well.
    event : Decided, Abstained or Asked
        The choice, as logged.
    arms : list of arm ids
        Those whose contributions are wanted, too.
    sigmas : list of floats
        Of which to say what they would have done.
    most : int, optional
        How many examples to leave out in turn, however long that takes. By default up to 200 of the
        nearest, and fewer where that would take much more than half a second.
    top : int, default 5
        How many of the examples to give.
    reward : float, optional
        What the choice earned, if it is known.
    plays : list of (arm id, encoded context, reward), optional
        All that the agent has learned from, if it is at hand: then `Account.taught` is exact.
    log : list of events, optional
        The agent's log from its beginning: it is folded up to where the choice was made from.

    Examples
    --------
    >>> agent = Agent(arms=["horror", "drama"], features=2, seed=1)
    >>> _ = agent.teach([1.0, 0.0], "horror", allowed=False, item="Up", by="a parent")
    >>> _ = agent.teach([1.0, 0.0], "drama", allowed=True, item="Up")
    >>> made = agent.make.decided([1.0, 0.0], item="Up")
    >>> account = account_of(agent, made.event)
    >>> account.arm, account.arms[0].why_not
    ('drama', 'denied by the teacher for this item')
    >>> print(str(account).splitlines()[0])
    decision 1: 'drama' was played, of 2 arms
    >>> account.examples.examples[0].id, account.examples.examples[0].change < 0
    (2, True)
    """
    if log is not None:
        agent = _folded(agent, event, log)
    before = _checked(agent, event)
    row = np.frombuffer(bytearray(before.raw(event.context)))
    dials = _sigmas(sigmas)
    tries = None if most is None else MOST.check(most, "most", OWNER)
    count = TOP.check(top, "top", OWNER)
    if reward is not None:
        before.unit_reward(reward)
        reward = float(reward)
    again = remade(before, event, row)
    state, odds = again.state, again.odds
    wanted = [state.arm_number(arm) for arm in listed(arms, "arms", OWNER)]
    answered = answered_in(before, event)
    believed = believed_of(state, row, event.item, answered)
    k = _about(state, event, believed)
    taught_by_it = is_teaching(event)
    chance = taught_by_it is False and state.policy.needs_limits and not state.settings.legacy
    numbers = dict.fromkeys([k, *wanted])
    balance = balance_of(before, event, row, again)
    shown = _shown(again, [*numbers, *([] if balance.wanted is None else [balance.wanted])])
    slate = event if isinstance(event, Decided) else None
    tried = agent.sigma is not None and (odds is not None or chance)
    tried = tried and len(state.arms) <= MOST_ARMS
    if isinstance(event, Decided | Abstained) and event.places is not None:
        tried = False  # a slate is not chosen again by other positions of the dial
    return Account(
        id=event.id,
        kind=KINDS[type(event)],
        arm=None if isinstance(event, Abstained) else event.arm,
        version=event.version,
        at=event.at,
        decision=event.decision if isinstance(event, Asked) else None,
        context=state.settings.features.decode(row),
        among=event.among,
        policy=policy_to_json(state.policy),
        sigma=agent.sigma,
        propensity=event.propensity,
        abstain=None if odds is None else odds.abstain,
        settled=odds is None and not taught_by_it and state.settings.legacy,
        agrees=agrees(event, again.made),
        certificate=_promise(state),
        arms=_arms(again, row, believed, taught_by_it, event.item, shown),
        about=state.arm_ids[k],
        contributions=tuple(
            shares(state, row, j) for j in numbers for shares in (reward_shares, limit_shares)
        ),
        sigmas=tuple(_otherwise(again, event, row, sigma, before) for sigma in dials)
        if tried
        else (),
        examples=influences_of(state, row, k, tries, count, event.item),
        reward=reward,
        item=event.item,
        wanted=None if balance.wanted is None else state.arm_ids[balance.wanted],
        worth=balance.worth,
        cost=balance.cost,
        price=balance.price,
        asking=balance.words,
        answered=tuple(state.arm_ids[k] for k in state._with_unit(answered)),
        slate=None if slate is None else slate.slate,
        place=None if slate is None else slate.place,
        places=None if slate is None else slate.places,
        taught=None
        if state.shared is None
        else taught_by(state, row, k, count, _plays(state, plays)),
        of_arms=len(state.arms),
    )


def _plays(
    state: AgentState, plays: Sequence[tuple[ArmId, Sequence[float], float]] | None
) -> list[tuple[int, Floats, float]] | None:
    if plays is None:
        return None
    return [
        (state.arm_number(arm), np.frombuffer(state.raw(context)), state.unit_reward(value))
        for arm, context, value in listed(plays, "plays", OWNER)
    ]


# -- its parts ----------------------------------------------------------------------


def _shown(again: Remade, asked_for: Sequence[int]) -> Ints:
    """Return the arms that an account shows, in order: all, or those nearest to being played."""
    K = len(again.state.arms)
    if K <= MOST_ARMS:
        return np.arange(K)
    draws = np.where(again.eligible, again.parts[6], -np.inf)
    best = np.argsort(-draws, kind="stable")[: MOST_ARMS - len(asked_for)]
    return np.unique(np.concatenate([best, np.array(asked_for, np.int64)]))


def _arms(
    again: Remade,
    row: Floats,
    believed: Believed,
    taught_by_it: bool,
    item: ArmId | None,
    shown: Ints,
) -> tuple[ArmAccount, ...]:
    state, odds = again.state, again.odds
    parts = again.parts.tolist()
    nothing = [None] * len(state.arms)
    blend = [nothing] * 3 if taught_by_it else parts[4:7]
    chances = [nothing] * 2 if odds is None else [odds.play.tolist(), odds.ask.tolist()]
    columns: list[list[Any]] = [
        list(state.arm_ids),
        *parts[:4],
        *blend,
        *chances,
        Selector(state).information(row, item).tolist(),
        believed.p.tolist(),
        again.eligible.tolist(),
        believed.safe.tolist(),
        believed.possible.tolist(),
        nothing if believed.certified is None else believed.certified.tolist(),
        list(believed.why),
        believed.novelty.tolist(),
        list(believed.unseen),
    ]
    if not all(len(column) == len(nothing) for column in columns):
        raise AssertionError("A column of an account is not of all arms.")
    return tuple(ArmAccount(*(column[k] for column in columns)) for k in shown.tolist())


def _otherwise(
    again: Remade, event: Choice, row: Floats, sigma: float, before: AgentState
) -> Otherwise:
    selector = Selector(before, with_sigma(before.policy, sigma))
    made = selector.again(event, row, propensity=True)
    odds = made.odds
    if odds is None and not before.settings.legacy:  # it asks: the odds of what it would play else
        odds = selector.again(event, row, ask=False, propensity=True).odds
    assert odds is not None  # whether an answer settled it is not for sigma to say
    if before.shared is not None:
        odds = _spread(odds, _joint(selector, event, row), len(again.state.arms))
        assert odds is not None
    return Otherwise(
        sigma=sigma,
        kind=KINDS[type(made.event)],
        arm=None if isinstance(made, Abstention) else made.arm,
        play=tuple(odds.play.tolist()),
        ask=tuple(odds.ask.tolist()),
        abstain=odds.abstain,
    )


def _about(state: AgentState, event: Choice, believed: Believed) -> int:
    if not isinstance(event, Abstained):
        return state.arm_number(event.arm)
    among = range(len(state.arms))
    if event.among:
        among = [state.arm_number(arm) for arm in event.among]  # type: ignore[assignment]
    return max(among, key=lambda k: (believed.p[k], -k))


def _promise(state: AgentState) -> Promise | None:
    given = state.certificate
    if given is None:
        return None
    return Promise(given.alpha, given.delta, given.threshold, given.sentence())


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


# -- as text ---------------------------------------------------------------------------------


# Arms, features and values that a text names; characters of a value.
SAID, LONGEST = 5, 60
DONE = {"decision": "was played", "question": "was asked about"}


def _told(account: Account) -> list[str]:
    """Return an account in a few lines, however many arms there are."""
    what = "nothing was played" if account.arm is None else f"{account.arm!r} "
    lines = [
        f"{account.kind} {account.id!r}: {what}{DONE.get(account.kind, '')}, "
        f"of {account.of_arms:,} arms"
    ]
    context = [f"{name}={_cut(value)}" for name, value in account.context.items()]
    lines.append(f"context: {_few(context)}")
    if account.item is not None:
        lines.append(f"item: {_cut(account.item)}")
    if account.asking is not None:
        lines.append(account.asking)
    lines.append("arms, by their draw:")
    order = sorted(account.arms, key=lambda one: (-_drawn(one), str(one.arm)))
    first = [one for one in order if one.arm == account.about]
    for one in [*first, *(one for one in order if one.arm != account.about)][:SAID]:
        may = "may be played" if one.why_not is None else one.why_not
        lines.append(
            f"  {_cut(one.arm)}: reward {one.reward_mean:.3g} ± {one.reward_sd:.2g}, "
            f"P(allowed) {one.p:.3g}, {may}"
        )
    more = account.of_arms - min(SAID, len(order))
    if more:
        playable = sum(one.why_not is None for one in account.arms)
        lines.append(
            f"  and {more:,} more; of {len(account.arms):,} in `arms`, {playable:,} may be played"
        )
    for part in account.contributions[:2]:
        moved = sorted(part.shares, key=lambda share: -abs(share.gave))
        each = [f"{share.feature} {share.gave:+.3g}" for share in moved]
        said = _few(each) if each else "no feature gave anything"
        lines.append(f"{part.part} of {_cut(part.arm)} ({part.unit} {part.total:.3g}): {said}")
    told = account.examples
    if told.examples:
        each = [
            f"{one.id!r} ({'allowed' if one.allowed else 'denied'}) {one.change:+.3g}"
            for one in told.examples
        ]
        lines.append(f"answers that matter most, of {told.of:,}: {_few(each)}")
    if account.taught is not None and account.taught.arms:
        each = [f"{_cut(one.arm)} {one.change:+.3g}" for one in account.taught.arms]
        lines.append(f"other arms that taught it: {_few(each)}")
    if not account.agrees:
        lines.append("Made again it comes out otherwise: it is of another agent, or version.")
    return lines


def _drawn(one: ArmAccount) -> float:
    return -math.inf if one.draw is None or not one.eligible else one.draw


def _few(words: Sequence[str]) -> str:
    more = len(words) - SAID
    return f"{', '.join(words[:SAID])}{f' and {more:,} more' if more > 0 else ''}"


def _cut(value: object) -> str:
    said = repr(value)
    return said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"


# -- bad input -------------------------------------------------------------------------------


def _checked(agent: Agent, event: Choice) -> AgentState:
    if not isinstance(agent, Agent):
        raise InvalidValue("agent", OWNER, "an Agent", agent)
    if not isinstance(event, Choice):
        wanted = "a Decided, Abstained or Asked"
        raise InvalidValue("event", OWNER, wanted, event)
    check_event(event)
    if agent.version != event.version:
        raise NotPossible(
            f"This choice was made from {event.version:,} events, and the agent holds "
            f"{agent.version:,}. Give the log that it was folded from, account_of(agent, event, "
            "log=events): it is folded up to there. Without a log, ask before the next event; what "
            "is kept of a past choice is its event."
        )
    return agent._state


def _folded(agent: Agent, event: Choice, log: Iterable[Event]) -> Agent:
    """Return an agent as it was when it chose, by its log."""
    if not isinstance(agent, Agent):
        raise InvalidValue("agent", OWNER, "an Agent", agent)
    if not isinstance(event, Choice):
        raise InvalidValue("event", OWNER, "a Decided, Abstained or Asked", event)
    if not isinstance(log, Iterable) or isinstance(log, str | bytes):
        raise InvalidValue("log", OWNER, "a list of events", log)
    found = Agent.of(state_at(log, event.version))
    if found.version != event.version:
        wanted = f"of {event.version:,} events or more, as the choice was made from so many"
        raise InvalidValue("log", OWNER, wanted, f"{found.version:,} events")
    return found


def _sigmas(sigmas: object) -> list[float]:
    given = listed(sigmas, "sigmas", OWNER)
    if len(given) > MAX_SIGMAS:
        raise InvalidValue("sigmas", OWNER, f"at most {MAX_SIGMAS}", f"{len(given):,} of them")
    return [validation.SIGMA.check(sigma, "sigmas", OWNER) for sigma in given]

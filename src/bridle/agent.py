"""Agent: teach → decide → reward. The face of the library.

A fold over events: no clock, no files, no network. Each verb has two halves. `agent.make` makes
the event and changes nothing; `apply` folds it. The verb itself makes, hands the event to the sink
(a store, say) and folds; if the sink raises, nothing has changed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy.typing as npt

from bridle.certificates import Certificate
from bridle.decisions import Abstention, Decision, Decisions, Question
from bridle.errors import CorruptState, InvalidValue
from bridle.events import Created, Event, Rewarded, check_event
from bridle.features import Context, Feature, Schema
from bridle.knowledge import Knowledge
from bridle.limits import FoundGroup
from bridle.making import Contexts, time_of
from bridle.notes import Note
from bridle.policies import (
    CENTRED_V,
    DEFAULT_V,
    BehaviorConstrained,
    LearnedMask,
    Weighted,
    with_sigma,
)
from bridle.pupil import Pupil, Sink
from bridle.replay import Replay, replay
from bridle.rules import Rule
from bridle.settings import FORM, Arm, ArmId, ItemId, Settings, listed, the_arms, the_schema
from bridle.snapshot import knowledge_from_state, knowledge_to_state, read_state, write_state
from bridle.teachers import Teacher

__all__ = ["NO_CHECKS", "Agent"]

NO_CHECKS = (
    "checks=0: what is believed to be allowed is never looked at again, so exceptions to it are "
    "never met. `bridle study real --worlds exceptions` shows what that costs."
)


class Agent(Pupil):
    """An online decision agent that learns its limits by example.

    Parameters
    ----------
    arms : int, or list of ids or of `Arm`
        What it can choose. A number K stands for the ids 0 … K−1.
    features : int, `Schema` or list of features
        What a context looks like. A number d stands for d plain numbers.
    sigma : float, optional
        The paper's dial: 0 plays only by what was taught, 1 only by reward, and nothing is ever
        quite ruled out. Short for ``policy=BehaviorConstrained(sigma=sigma)``.
    policy : policy, optional
        How scores become a choice; any of `bridle.policies` that is not told the truth. By default
        `LearnedMask`: the best arm among those that are surely allowed. (With ``limits="linear"``
        the paper's dial at 0.25.)
    seed : int, default 0
        Two agents with equal settings, seeds and events are equal, bit for bit.
    reward_range : (float, float), default (0, 1)
        What rewards can be; mapped to [0, 1].
    limits : {"auto", "rules", "logistic", "found", "linear"}
        What kind of limits is learned. `auto` weighs rules and logistic limits by how well each
        foretold the answers; `linear` are the paper's. See docs/limits.md.
    share : {"group", "arm"}
        Whether arms of one group share what was taught. (`linear` and `found` never do: the one
        is the paper's, the other finds its groups.)
    crosses : bool, default False
        With `rules` and `logistic`: two features together may be denied, too.
    teacher_error : float or None, default 0.001
        How often an answer is wrong. Above .02, or if None (the rate is then found out, by `rules`
        and `auto`), no single answer is taken for certain. Logistic and linear limits have no rate
        in their formulas.
    doubt : float, optional
        With `rules`, `auto` and `found`: how improbable "denied" must be before an arm is played;
        .01 by default (`found`: .005), .001 if the teacher errs.
    on_empty : {"abstain", "safe_arm", "least_bad"}
        What a mask does where no arm is surely allowed: nothing; play `safe_arm`, of which you say
        that it always may be played; or the arm that is most likely allowed.
    safe_arm : arm id, optional
        For ``on_empty="safe_arm"``.
    budget : int, default 0
        How many answers `decide` may ask for when it is in doubt: when an arm that may be allowed
        looks better than those that surely are. A question that is skipped or lapses gives its
        place back.
    on_doubt : {"wait", "play_safe"}
        `wait`: `decide` returns the `Question`, and `answer` goes on with the decision.
        `play_safe`: it plays the best arm that is surely allowed and files the question with it.
    ask_at_most : int, default 3
        Questions that one decision may ask.
    answer_price : float, default 0.35
        What an answer of the teacher is worth, as a part of the reward range: the agent gives up
        about so much, for one item and group of arms, before it asks. An answer that teaches
        about other cases, too, is cheaper. 0 asks whenever it matters.
    patience : int, optional
        A question that came up in a decision lapses after so many later decisions.
    exact_denials : bool, default True
        An arm that the teacher denied in this very context is never played there, whatever sigma,
        unless the teacher errs (`teacher_error`). False is the paper's way.
    checks : int or float, optional
        How many plays may be chosen, by a coin, to be judged by the teacher afterwards: `Decision.
        check`, for `judge`. What is believed safe is never asked about, so without checks rare
        exceptions are never met. By default there are as many as they are worth: many in the
        beginning, few later. A whole number is the most there may be in all, a share below 1 the
        most of all decisions; 0 switches them off. (Policies that do not keep to what is safe have
        none.)
    promise : (float, float), optional
        ``(alpha, q)``: keep to at most alpha denied plays a decision, on average and whatever
        happens, by audits with probability q or more: see `promise`, and `Purse` for its price.
    teachers : list of `Teacher`
        Several teachers, who may err at different rates: what an answer of each costs (on the scale
        of `answer_price`), and how often they err, if that is known. Give their name as `by`: their
        word is an example once it settles its case. `whom` says whose answer is worth its price.
        Who is not declared is taken at their word.
    rules : list of `Rule`
        What is known for certain: arms or groups that are denied under a condition.
    teaching : {"random", "thompson", "arm", "pool"}, optional
        How `ask` picks the arm. `arm`: where the answer teaches most; `pool`: the context, too, if
        it may choose. `pool` by default, `random` with ``limits="linear"``.
    v_teaching : float, default 0.25
        Spread of the draws of thompson teaching.
    label_coding : {"1/0", "1/-1", "0/-1"}
        The numbers that stand for allowed/denied in linear limits.
    ridge, ridge_limits : float, default 1.0
        Prior precision of the reward part and of linear limits.
    prior : {"centred", "paper"}
        What is expected of an arm before it is tried: the mean of all rewards so far, with an
        intercept for each arm; or 0, as in the paper. The default policies have v = .05 with
        `centred` and .25 with `paper`. Where rewards are mostly chance, such as single clicks, .05
        explores too little: give ``policy=LearnedMask(v=0.25)``.
    max_pending : int, default 1,000,000
        Decisions that wait for a reward (and questions for an answer); the oldest are dropped.
    max_examples : int, default 1,000,000
        Examples that stand at any time.
    wait : float, optional
        Seconds that a decision waits for its reward; for ever by default. An agent has no clock:
        whoever has one calls `expire`, as the service does.
    default_reward : float, optional
        What a decision learns that waited in vain; nothing by default.
    sink : callable, optional
        Takes a list of events before they are folded. If it raises, they are not folded.
    at : float, optional
        The time of creation, for the log.

    Examples
    --------
    >>> agent = Agent(arms=["horror", "drama"], features=2, seed=1)
    >>> child, adult = [1.0, 0.0], [0.0, 1.0]
    >>> _ = agent.teach(child, "horror", allowed=False, item="Ann")
    >>> _ = agent.teach(child, "drama", allowed=True, item="Ann")
    >>> decision = agent.decide(child, item="Ann")
    >>> decision.arm
    'drama'
    >>> agent.reward(decision.id, 0.8)
    """

    def __init__(
        self,
        *,
        arms: int | Iterable[Arm | ArmId],
        features: int | Schema | Sequence[Feature],
        sigma: float | None = None,
        policy: Weighted | None = None,
        seed: int = 0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        limits: str = "auto",
        share: str = "group",
        crosses: bool = False,
        teacher_error: float | None = 0.001,
        doubt: float | None = None,
        on_empty: str = "abstain",
        safe_arm: ArmId | None = None,
        budget: int = 0,
        on_doubt: str = "wait",
        ask_at_most: int = 3,
        answer_price: float = 0.35,
        patience: int | None = None,
        exact_denials: bool = True,
        checks: int | float | None = None,
        promise: tuple[float, float] | None = None,
        teachers: Sequence[Teacher] = (),
        rules: Sequence[Rule] = (),
        teaching: str | None = None,
        v_teaching: float = 0.25,
        label_coding: str = "1/0",
        ridge: float = 1.0,
        ridge_limits: float = 1.0,
        prior: str = "centred",
        max_pending: int = 1_000_000,
        max_examples: int = 1_000_000,
        wait: float | None = None,
        default_reward: float | None = None,
        sink: Sink | None = None,
        at: float | None = None,
    ) -> None:
        linear = isinstance(limits, str) and limits == "linear"
        if policy is None:
            paper = isinstance(prior, str) and prior == "paper"
            v = DEFAULT_V if paper else CENTRED_V
            if linear or sigma is not None:
                policy = BehaviorConstrained(sigma=0.25 if sigma is None else sigma, v=v)
            else:
                policy = LearnedMask(v=v)
        elif sigma is not None:
            policy = with_sigma(policy, sigma)
        if teaching is None:
            teaching = "random" if linear else "pool"
        masked = getattr(policy, "needs_limits", False) and not linear
        if checks is None and not masked:
            checks = 0
        elif masked and not isinstance(checks, bool) and checks == 0:
            warnings.warn(NO_CHECKS, stacklevel=2)
        if promise is not None and (not isinstance(promise, tuple | list) or len(promise) != 2):
            wanted = "two floats (alpha, q), (0.01, 0.02) say"
            raise InvalidValue("promise", "Agent", wanted, promise)
        settings = Settings(
            arms=the_arms(arms),
            features=the_schema(features),
            policy=policy,
            limits=limits,
            share=share,
            crosses=crosses,
            doubt=doubt,
            teacher_error=teacher_error,
            label_coding=label_coding,
            teaching=teaching,
            v_teaching=v_teaching,
            ridge=ridge,
            ridge_limits=ridge_limits,
            prior=prior,
            reward_range=reward_range,
            exact_denials=exact_denials,
            rules=tuple(listed(rules, "rules", "Agent")),
            on_empty=on_empty,
            safe_arm=safe_arm,
            budget=budget,
            on_doubt=on_doubt,
            ask_at_most=ask_at_most,
            patience=patience,
            answer_price=answer_price,
            checks=checks,
            teachers=tuple(listed(teachers, "teachers", "Agent")),
            form=FORM,
            seed=seed,
            max_pending=max_pending,
            max_examples=max_examples,
            wait=wait,
            default_reward=default_reward,
        )
        created = Created(settings, time_of(at))
        self._become(Knowledge(settings), sink)
        begun: list[Event] = [created]
        if promise is not None:
            begun.append(self.make.promised(*promise, at=at))
        if sink is not None:
            sink(begun)
        for event in begun[1:]:
            self._knowledge.fold(event)

    # -- deciding ----------------------------------------------------------------------------

    def decide(
        self,
        context: Context,
        among: Iterable[ArmId] | None = None,
        id: str | None = None,
        *,
        item: ArmId | None = None,
        propensity: bool = False,
        ask: bool = True,
        at: float | None = None,
    ) -> Decision | Question | Abstention:
        """Choose an arm for a context, or ask about one.

        Parameters
        ----------
        context : mapping, or array where all features are numbers
            What is known about the case at hand.
        among : arm ids, optional
            The arms that can be had now; all by default.
        id : str, optional
            Your own name for the decision; it also keys its draws. A number by default.
        item : int or str, optional
            The name of what the context is about, a film's say. What the teacher says of it is
            certain for this very item and evidence for all that look like it. Without one,
            "allowed" is certain for this decision only. Or declare an `Id` in the schema.
        propensity : bool, default False
            Also compute the exact probability of every outcome.
        ask : bool, default True
            Whether it may ask this time, if the agent has a budget for questions.
        at : float, optional
            The time, for the log.

        Returns
        -------
        Decision, Question or Abstention
            An abstention if no arm may be played. A question if it is in doubt, has a budget and
            waits for answers; with ``on_doubt="play_safe"`` it is in `question` of what it gives.
        """
        made = self.make.decided(
            context, among, id, item=item, propensity=propensity, ask=ask, at=at
        )
        self._commit_all(made.events)
        return made

    def decide_many(
        self,
        contexts: Contexts,
        among: Iterable[ArmId] | None = None,
        ids: Sequence[str] | None = None,
        *,
        items: Sequence[ArmId | None] | None = None,
        propensity: bool = False,
        details: bool = True,
        at: float | None = None,
    ) -> Decisions:
        """Choose an arm for each context: the same bits as one by one, a draw of its own for each.

        A batch never asks: it plays what is surely allowed. With ``details=False`` only ids and
        arms are kept, not every arm's scores and draws, which is faster: draws that cannot win are
        never computed.
        """
        made = self.make.decided_many(
            contexts, among, ids, items=items, propensity=propensity, details=details, at=at
        )
        if self.sink is not None and len(made):
            self.sink(made.events())
        self._knowledge.fold_decisions(
            made.ids, made.contexts, made.numbers, made.items, made.coins
        )
        return made

    def reward(self, decision: ItemId, value: float, *, at: float | None = None) -> None:
        """Learn what a decision earned. Rewards may come late and in any order."""
        self._commit(self.make.rewarded(decision, value, at=at))

    def reward_many(
        self,
        decisions: Sequence[ItemId] | npt.NDArray[Any],
        values: Sequence[float] | npt.NDArray[Any],
        *,
        at: float | None = None,
    ) -> None:
        """Learn what many decisions earned, all or none: the same bits as one by one."""
        ids, rewards, time = self.make.rewards(decisions, values, at)
        if self.sink is not None and ids:
            pairs = zip(ids, rewards.tolist(), strict=True)
            self.sink([Rewarded(id, reward, time) for id, reward in pairs])
        self._knowledge.fold_rewards(ids, rewards)

    def expire(self, decision: ItemId, *, at: float | None = None) -> None:
        """Wait no longer for the reward of a decision: learn the `default_reward`, if any."""
        self._commit(self.make.expired(decision, at=at))

    def shadow(
        self,
        context: Context,
        arm: ArmId,
        among: Iterable[ArmId] | None = None,
        id: str | None = None,
        *,
        item: ArmId | None = None,
        propensity: bool = False,
        at: float | None = None,
    ) -> Decision | Abstention:
        """Say what it would play while another system plays `arm`; the reward will be that arm's.

        It never asks. Give the reward by `reward`, with the id of what this returns.
        """
        made = self.make.decided(
            context, among, id, item=item, propensity=propensity, ask=False, at=at
        )
        assert isinstance(made, Decision | Abstention)
        self._commit_all([*made.events, self.make.shadowed(made, arm, at=at)])
        return made

    def learn(
        self,
        contexts: Contexts,
        arms: Sequence[ArmId] | npt.NDArray[Any],
        rewards: Sequence[float] | npt.NDArray[Any],
        *,
        at: float | None = None,
    ) -> None:
        """Start from history: contexts, the arms that were played there and what they earned."""
        self._commit(self.make.learned(contexts, arms, rewards, at=at))

    # -- settings that change ----------------------------------------------------------------

    def set_sigma(
        self,
        sigma: float,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> None:
        """Turn the dial: 0 plays only by what was taught, 1 only by reward."""
        self._commit(self.make.sigma_changed(sigma, by=by, note=note, at=at))

    def set_wait(
        self,
        wait: float | None,
        default_reward: float | None = None,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> None:
        """Say how long decisions wait for a reward, and what they learn then: see `Agent`."""
        self._commit(self.make.wait_changed(wait, default_reward, by=by, note=note, at=at))

    def note(self, note: Note) -> None:
        """Write something into the log that changes nothing of what is known: `bridle.notes`."""
        self._commit(self.make.noted(note))

    def add_arms(
        self,
        arms: int | Iterable[Arm | ArmId],
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> None:
        """Add arms that know nothing yet. A number stands for so many, numbered from K on."""
        self._commit(self.make.arms_added(arms, by=by, note=note, at=at))

    def regroup(
        self,
        groups: Mapping[ArmId, str | None] | Iterable[FoundGroup],
        limits: str | None = None,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> None:
        """Put arms into groups that share what was taught; it is all learned anew.

        Parameters
        ----------
        groups : mapping from arm ids to groups, or list of FoundGroup
            None takes an arm out of its group. A `proposal` can be given as it is, or corrected.
        limits : str, optional
            The kind of limits from now on; as it was by default, `auto` in the place of `found`.
        """
        self._commit(self.make.regrouped(groups, limits, by=by, note=note, at=at))

    def promise(
        self,
        alpha: float,
        q: float,
        *,
        lag: int = 0,
        b: float | None = None,
        seed: int | None = None,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> list[str]:
        """Keep a promise: at most alpha·T + b + 1/q denied plays on average in T decisions.

        Nothing is assumed of contexts, limits, rewards or beliefs. A secret coin of probability q
        or more chooses plays that the teacher judges (`Decision.check`, `judge`); when they have
        found too much, only what the teacher allows at that very decision is played. See
        `bridle.purse`.

        Parameters
        ----------
        alpha, q, lag, b
            As in `Purse`. What it costs is said before by ``Purse(...).price_in_words(T)``.
        seed : int, optional
            Of the coins; drawn at random if left out. Who chooses contexts, ids or limits must not
            know it.

        Returns
        -------
        list of str
            Its price in words, over 20,000 decisions.
        """
        event = self.make.promised(alpha, q, lag=lag, b=b, seed=seed, by=by, note=note, at=at)
        self._commit(event)
        assert self._knowledge.purse is not None
        return self._knowledge.purse.price_in_words(20_000)

    def drop_promise(
        self, *, by: str | None = None, note: str | None = None, at: float | None = None
    ) -> None:
        """Keep no promise any more."""
        self._commit(self.make.promise_dropped(by=by, note=note, at=at))

    def start_anew(
        self,
        why: str,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> None:
        """Forget what was learned of the limits, as they have changed; denials stay.

        `fresh_start` proposes it where answers speak for it, and says what is kept and lost.
        """
        self._commit(self.make.started_anew(why, by=by, note=note, at=at))

    def adopt(
        self,
        certificate: Certificate,
        *,
        learned_since: bool = False,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> None:
        """Keep to the certified set of a certificate, whatever the policy, beside the live limits.

        What the teacher has allowed to the letter may be played, too. A certificate of limits that
        have learned since needs ``learned_since=True``: it binds with its own frozen copy.
        """
        self._commit(
            self.make.certified(certificate, learned_since=learned_since, by=by, note=note, at=at)
        )

    def drop_certificate(
        self, *, by: str | None = None, note: str | None = None, at: float | None = None
    ) -> None:
        """Keep to no certificate any more."""
        self._commit(self.make.uncertified(by=by, note=note, at=at))

    def declare(
        self,
        rule: Rule,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> None:
        """Declare a rule that is known for certain, beside what is learned."""
        self._commit(self.make.rule_declared(rule, by=by, note=note, at=at))

    def withdraw(
        self,
        rule: str,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> None:
        """Withdraw a declared rule, by its id."""
        self._commit(self.make.rule_withdrawn(rule, by=by, note=note, at=at))

    # -- the fold ----------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Fold an event: the second half of every verb. The sink is not told."""
        check_event(event)
        self._knowledge.fold(event)

    @classmethod
    def replay(cls, events: Iterable[Event], *, sink: Sink | None = None) -> Replay[Self]:
        """Fold a log and re-derive every decision and question in it.

        Each is made again from the state at the version that it names, and compared: arm, and
        propensity where the log has one. A log that cannot be folded raises `CorruptState`.
        """
        return replay(lambda knowledge: cls.of(knowledge, sink=sink), events)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that the agent knows to a file (no pickle), whole or not at all."""
        meta, arrays = knowledge_to_state(self._knowledge)
        write_state(path, meta, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, sink: Sink | None = None) -> Self:
        """Read an agent from a file: what follows has the same bits as with no pause."""
        state = read_state(path)
        try:
            knowledge = knowledge_from_state(*state)
        except CorruptState as error:
            raise CorruptState(f"{path}: {error}") from error
        return cls.of(knowledge, sink=sink)

    @classmethod
    def of(cls, knowledge: Knowledge, *, sink: Sink | None = None) -> Self:
        """Give an agent that knows this."""
        self = object.__new__(cls)
        self._become(knowledge, sink)
        return self

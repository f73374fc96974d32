"""Agent: teach → decide → reward. The face of the library.

A fold over events: no clock, no files, no network. Each verb has two halves. `agent.make` makes
the event and changes nothing; `apply` folds it. The verb itself makes, hands the event to the sink
(a store, say) and folds; if the sink raises, nothing has changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeAlias

import numpy.typing as npt

from bridle.decisions import Abstention, Decision, Decisions, Question
from bridle.errors import CorruptState, InvalidValue
from bridle.events import Created, Event, Rewarded, check_event
from bridle.features import Context, Feature, Schema
from bridle.knowledge import Example, Knowledge
from bridle.making import Contexts, Maker, Truths, time_of
from bridle.policies import BehaviorConstrained, Weighted, with_sigma
from bridle.replay import Replay, replay
from bridle.rules import Rule
from bridle.settings import Arm, ArmId, ItemId, Settings, listed, the_arms, the_schema
from bridle.snapshot import knowledge_from_state, knowledge_to_state, read_state, write_state

__all__ = ["Agent"]

Sink: TypeAlias = Callable[[Sequence[Event]], None]


class Agent:
    """An online decision agent that learns its limits by example.

    Parameters
    ----------
    arms : int, or list of ids or of `Arm`
        What it can choose. A number K stands for the ids 0 … K−1.
    features : int, `Schema` or list of features
        What a context looks like. A number d stands for d plain numbers.
    sigma : float, optional
        The dial: 0 plays only by what was taught, 1 only by reward. Short for
        ``policy=BehaviorConstrained(sigma=sigma)``; 0.25 if neither is given.
    policy : policy, optional
        How scores become a choice; any of `bridle.policies` that is not told the truth.
    seed : int, default 0
        Two agents with equal settings, seeds and events are equal, bit for bit.
    reward_range : (float, float), default (0, 1)
        What rewards can be; mapped to [0, 1].
    exact_denials : bool, default True
        An arm that the teacher denied in this very context is never played there, whatever sigma.
        False is the paper's way: what was taught is only a score.
    rules : list of `Rule`
        What is known for certain: arms or groups that are denied under a condition.
    teaching : {"random", "thompson"}, default "random"
        How `ask` picks the arm.
    v_teaching : float, default 0.25
        Spread of the draws of thompson teaching.
    limits : {"linear"}
        What kind of limits is learned.
    label_coding : {"1/0", "1/-1", "0/-1"}
        The numbers that stand for allowed/denied.
    ridge, ridge_limits : float, default 1.0
        Prior precision of the reward part and of the constraint part.
    prior : {"paper"}
        The reward part's prior.
    max_pending : int, default 1,000,000
        Decisions that wait for a reward (and questions for an answer); the oldest are dropped.
    max_examples : int, default 1,000,000
        Examples that stand at any time.
    sink : callable, optional
        Takes a list of events before they are folded. If it raises, they are not folded.
    at : float, optional
        The time of creation, for the log.

    Examples
    --------
    >>> agent = Agent(arms=["horror", "drama"], features=2, sigma=0.0, seed=1)
    >>> child, adult = [1.0, 0.0], [0.0, 1.0]
    >>> for _ in range(20):
    ...     _ = agent.teach(child, "horror", allowed=False)
    ...     _ = agent.teach(child, "drama", allowed=True)
    >>> decision = agent.decide(child)
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
        exact_denials: bool = True,
        rules: Sequence[Rule] = (),
        teaching: str = "random",
        v_teaching: float = 0.25,
        limits: str = "linear",
        label_coding: str = "1/0",
        ridge: float = 1.0,
        ridge_limits: float = 1.0,
        prior: str = "paper",
        max_pending: int = 1_000_000,
        max_examples: int = 1_000_000,
        sink: Sink | None = None,
        at: float | None = None,
    ) -> None:
        if policy is None:
            policy = BehaviorConstrained(sigma=0.25 if sigma is None else sigma)
        elif sigma is not None:
            policy = with_sigma(policy, sigma)
        settings = Settings(
            arms=the_arms(arms),
            features=the_schema(features),
            policy=policy,
            limits=limits,
            label_coding=label_coding,
            teaching=teaching,
            v_teaching=v_teaching,
            ridge=ridge,
            ridge_limits=ridge_limits,
            prior=prior,
            reward_range=reward_range,
            exact_denials=exact_denials,
            rules=tuple(listed(rules, "rules", "Agent")),
            seed=seed,
            max_pending=max_pending,
            max_examples=max_examples,
        )
        created = Created(settings, time_of(at))
        self._become(Knowledge(settings), sink)
        if sink is not None:
            sink([created])

    # -- teaching ----------------------------------------------------------------------------

    def ask(
        self, context: Context | None = None, *, id: str | None = None, at: float | None = None
    ) -> Question:
        """Ask the teacher about an arm in `context`.

        Without a context it takes one that the agent met: of a decision that waits for its
        reward, each with equal probability.
        """
        question = self.make.asked(context, id=id, at=at)
        self._commit(question.event)
        return question

    def ask_many(self, contexts: Contexts, *, at: float | None = None) -> list[Question]:
        """Ask about an arm in each context: the same questions as one by one."""
        questions = self.make.asked_many(contexts, at=at)
        self._commit_all([question.event for question in questions])
        return questions

    def teach(
        self,
        context: Context,
        arm: ArmId,
        allowed: bool,
        *,
        id: str | None = None,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> ItemId:
        """Take an example of the teacher; give its id, for `retract`."""
        event = self.make.taught(context, arm, allowed, id=id, by=by, note=note, at=at)
        self._commit(event)
        return event.id

    def teach_many(
        self,
        contexts: Contexts,
        arms: Sequence[ArmId] | npt.NDArray[Any],
        allowed: Truths,
        *,
        ids: Sequence[str] | None = None,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> list[ItemId]:
        """Take many examples, all or none: the same bits as one by one."""
        events = self.make.taught_many(contexts, arms, allowed, ids=ids, by=by, note=note, at=at)
        self._commit_all(events)
        return [event.id for event in events]

    def answer(
        self,
        question: Question | ItemId,
        allowed: bool,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> ItemId:
        """Take the teacher's answer to a question; give the id of the example it makes."""
        event = self.make.answered(question, allowed, by=by, note=note, at=at)
        self._commit(event)
        return event.id

    def answer_many(
        self,
        questions: Sequence[Question | ItemId],
        allowed: Truths,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> list[ItemId]:
        """Take the answers to many questions, all or none."""
        events = self.make.answered_many(questions, allowed, by=by, note=note, at=at)
        self._commit_all(events)
        return [event.id for event in events]

    def retract(
        self,
        example: ItemId,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> None:
        """Take an example back: the limits of its arm are as if it had never been taught."""
        self._commit(self.make.retracted(example, by=by, note=note, at=at))

    def retract_many(
        self,
        examples: Sequence[ItemId],
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> None:
        """Take many examples back, all or none."""
        self._commit_all(self.make.retracted_many(examples, by=by, note=note, at=at))

    # -- deciding ----------------------------------------------------------------------------

    def decide(
        self,
        context: Context,
        among: Iterable[ArmId] | None = None,
        id: str | None = None,
        *,
        propensity: bool = False,
        at: float | None = None,
    ) -> Decision | Question | Abstention:
        """Choose an arm for a context.

        Parameters
        ----------
        context : mapping, or array where all features are numbers
            What is known about the case at hand.
        among : arm ids, optional
            The arms that can be had now; all by default.
        id : str, optional
            Your own name for the decision; it also keys its draws. A number by default.
        propensity : bool, default False
            Also compute the exact probability of every arm.
        at : float, optional
            The time, for the log.

        Returns
        -------
        Decision, Question or Abstention
            An abstention if every arm is ruled out. (Linear limits never ask by themselves.)
        """
        made = self.make.decided(context, among, id, propensity=propensity, at=at)
        self._commit(made.event)
        return made

    def decide_many(
        self,
        contexts: Contexts,
        among: Iterable[ArmId] | None = None,
        ids: Sequence[str] | None = None,
        *,
        propensity: bool = False,
        details: bool = True,
        at: float | None = None,
    ) -> Decisions:
        """Choose an arm for each context: the same bits as one by one, a draw of its own for each.

        With ``details=False`` only ids and arms are kept, not every arm's scores and draws, which
        is faster: draws that cannot win are never computed.
        """
        made = self.make.decided_many(
            contexts, among, ids, propensity=propensity, details=details, at=at
        )
        if self.sink is not None and len(made):
            self.sink(made.events())
        self._knowledge.fold_decisions(made.ids, made.contexts, made.numbers)
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

    def set_sigma(self, sigma: float, *, at: float | None = None) -> None:
        """Turn the dial: 0 plays only by what was taught, 1 only by reward."""
        self._commit(self.make.sigma_changed(sigma, at=at))

    def add_arms(self, arms: int | Iterable[Arm | ArmId], *, at: float | None = None) -> None:
        """Add arms that know nothing yet. A number stands for so many, numbered from K on."""
        self._commit(self.make.arms_added(arms, at=at))

    def declare(self, rule: Rule, *, at: float | None = None) -> None:
        """Declare a rule that is known for certain, beside what is learned."""
        self._commit(self.make.rule_declared(rule, at=at))

    def withdraw(self, rule: str, *, at: float | None = None) -> None:
        """Withdraw a declared rule, by its id."""
        self._commit(self.make.rule_withdrawn(rule, at=at))

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

    # -- what it knows -----------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """What it was created with."""
        return self._knowledge.settings

    @property
    def schema(self) -> Schema:
        """What a context looks like."""
        return self._knowledge.settings.features

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All arms, in the order of every array."""
        return tuple(self._knowledge.arms)

    @property
    def policy(self) -> Weighted:
        """How scores become a choice, now."""
        return self._knowledge.policy

    @property
    def sigma(self) -> float | None:
        """The dial, if the policy has one."""
        return getattr(self._knowledge.policy, "sigma", None)

    @property
    def version(self) -> int:
        """The number of events folded, `Created` included."""
        return self._knowledge.version

    @property
    def pending(self) -> int:
        """How many decisions wait for a reward."""
        return len(self._knowledge.pending)

    @property
    def dropped(self) -> int:
        """How many decisions were dropped unrewarded, as the oldest of too many."""
        return self._knowledge.dropped

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The declared rules that stand."""
        return tuple(self._knowledge.rules.values())

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples that stand, in the order they were taught."""
        return tuple(self._knowledge.examples.values())

    def _become(self, knowledge: Knowledge, sink: Sink | None) -> None:
        if sink is not None and not callable(sink):
            raise InvalidValue("sink", "Agent", "a function that takes a list of events", sink)
        self.sink = sink
        self._knowledge = knowledge
        self.make = Maker(knowledge)

    def _commit(self, event: Event) -> None:
        if self.sink is not None:
            self.sink([event])
        self._knowledge.fold(event)

    def _commit_all(self, events: Sequence[Event]) -> None:
        if self.sink is not None and events:
            self.sink(events)
        for event in events:
            self._knowledge.fold(event)

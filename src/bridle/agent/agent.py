"""`Agent`, the public class of the library: teach, decide, reward, ask, inspect, save.

A fold over events: no clock, no files, no network. Each verb has two halves. A command of
`agent.make` makes the event and changes nothing; `apply` folds it. The verb itself makes, hands the
event to the sink (a store, say) and folds; if the sink raises, nothing has changed. The parameters
of a verb stand at its command: see `follows`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any, Self, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.agent.commands import Answers, Commands, Examples, Rewards, Shadow, follows, time_of
from bridle.agent.config import (
    Arm,
    ArmId,
    Interactions,
    ItemId,
    LabelCoding,
    LimitsKind,
    OnDoubt,
    OnEmpty,
    Prior,
    Settings,
    Share,
    Teaching,
    listed,
    plain_id,
)
from bridle.agent.events import (
    ArmsAdded,
    ArmsChanged,
    ArmsRestored,
    ArmsRetired,
    ArmsVisited,
    Asked,
    Certified,
    Created,
    Event,
    Expired,
    ForgettingChanged,
    Lapsed,
    Learned,
    Note,
    PolicyChanged,
    Promised,
    PromiseDropped,
    Regrouped,
    Retracted,
    Rewarded,
    RuleDeclared,
    RuleWithdrawn,
    SigmaChanged,
    StartedAnew,
    Taught,
    Uncertified,
    WaitChanged,
    check_event,
)
from bridle.agent.limits_state import StandingExample
from bridle.agent.outcomes import (
    MOST_SHOWN,
    Abstention,
    Answer,
    Check,
    Decision,
    Decisions,
    Question,
    SlateDecision,
    html_table,
)
from bridle.agent.purse import Purse
from bridle.agent.queries import (
    Believed,
    Exceptions,
    FreshStart,
    OpenQuestion,
    believed_of,
    exceptions_of,
    fresh_start_of,
    open_questions,
    proposal_of,
    sentences_of,
    whom_to_ask,
)
from bridle.agent.replay import Replay, replay
from bridle.agent.snapshot import read_state, state_from_arrays, state_to_arrays, write_state
from bridle.agent.state import RETIRED, AgentState, item_of
from bridle.agent.teachers import Choice, Teacher, Teachers
from bridle.certificates.calibration import Certification
from bridle.certificates.certificate import DEFAULT_LAMBDA_MIN, Certificate
from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.kernels.types import Bools, Floats
from bridle.limits import Beliefs, FoundGroup, Surprise
from bridle.limits.declared import Rule
from bridle.policies import Policy
from bridle.reward.base import Forget
from bridle.schema import Context, Feature, Schema
from bridle.slates import SetLimits

__all__ = ["Agent", "Sink"]

Sink: TypeAlias = Callable[[Sequence[Event]], None]
# None only where teachers are declared: who has none need not look.
MaybeId: TypeAlias = ItemId | Any

# Parameters of `Agent` that are no settings of it.
BESIDE = ("self", "promise", "sink", "at")
NO_CHECKS = (
    "checks=0: what is believed to be allowed is never looked at again, so exceptions to it are "
    "never met. `bridle study real --worlds exceptions` shows what that costs."
)


class Agent:
    """An online decision agent that learns its limits by example.

    Parameters
    ----------
    arms : int or list of arms
        What it can choose: ids, or `Arm`. A number K stands for the ids 0 … K−1.
    features : int, `Schema` or list of features
        What a context looks like. A number d stands for d plain numbers.
    sigma : float, optional
        The paper's dial: 0 plays only by what was taught, 1 only by reward, and nothing is ever
        quite ruled out. Short for ``policy=BehaviorConstrained(sigma=sigma)``.
    boldness : float, optional
        Spread of the draws: `v` of the policy. With the scaled prior it is in units of the noise;
        where each arm learns alone draws narrow by 7 % with each doubling of the rewards.
    policy : policy, optional
        How scores become a choice; any of `bridle.policies` that is not told the truth, or one that
        is registered (`bridle.register`). By default
        `LearnedMask`: the best arm among those that are surely allowed. (With ``limits="linear"``
        the paper's dial at 0.25.)
    seed : int, default 0
        Two agents with equal settings, seeds and events are equal, bit for bit.
    reward_range : (float, float), default (0, 1)
        What rewards can be; mapped to [0, 1].
    limits : {"auto", "rules", "logistic", "found", "linear"}
        What kind of limits is learned. `auto` weighs rules and logistic limits by how well each
        predicted the answers; `linear` are the paper's. See docs/limits.md.
        Or the name of limits that are registered (`bridle.register`).
    limits_options : mapping, optional
        What registered limits are made with, beside arms, features, groups and seed.
    reward : str, optional
        What learns from rewards: `linear`, each arm alone; `shared`, by what arms are like, which
        is what they do if they have features; or the name of a reward model that is registered
        (then `ridge` and `prior` say nothing).
    reward_options : mapping, optional
        What a registered reward model is made with, beside arms and features.
    arm_features : int, `Schema` or list of features, optional
        What an arm looks like: ``Arm(id, features={...})``. What is learned of one arm, by rewards
        and by teaching, then serves all that are like it, and new ones at once.
    interactions : "all", "none" or list of pairs of names, default all
        Which features of contexts and arms are weighed together by the shared reward model, beside
        each alone: ``[("age", "genre")]``.
    set_limits : `SetLimits`, optional
        What no slate may hold together: at most so many of a kind, not both of two.
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
    teachers : list of `Teacher`, optional
        Several teachers, who may err at different rates: what an answer of each costs (on the scale
        of `answer_price`), and how often they err, if that is known. Give their name as `by`: their
        word is an example once it settles its case. `whom` says whose answer is worth its price.
        Who is not declared is taken at their word.
    rules : list of `Rule`, optional
        What is known for certain: arms or groups that are denied under a condition.
    teaching : {"random", "thompson", "arm", "pool"}, optional
        How `ask` picks the arm. `arm`: where the answer teaches most; `pool`: the context, too, if
        it may choose. `pool` by default, `random` with ``limits="linear"``.
    v_teaching : float, default 0.25
        Spread of the draws of thompson teaching.
    label_coding : {"1/0", "1/-1", "0/-1"}
        The numbers that stand for allowed/denied in linear limits.
    ridge : float, default 1.0
        Prior precision of the reward part.
    ridge_limits : float, default 1.0
        Prior precision of linear limits.
    prior : {"scaled", "centred", "paper"}, optional
        What is expected of an arm before it is tried: the mean of all rewards so far, with an
        intercept for each arm; or 0, as in the paper. `scaled`, the default of our own reward
        models, also finds out how much rewards and arms differ, so that clicks of 1 % and stars of
        1 to 5 need no settings of their own. Policies that leave out `v` have .05 with `centred`
        and .25 with `paper`; with `scaled` .75 of an honest spread for fifty arms, less for more,
        and it narrows as plays are learned.
    forget : {"auto", "never"} or float, optional
        How old rewards fade. A number: of rewards after which what was learned counts half.
        `auto`, the default where each arm learns alone: nothing fades, but where recent rewards
        are much better explained without the old ones, what is recent alone counts from then on.
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

    _state: AgentState

    sink: Sink | None
    make: Commands

    def __init__(
        self,
        *,
        arms: int | Iterable[Arm | ArmId],
        features: int | Schema | Sequence[Feature],
        sigma: float | None = None,
        boldness: float | None = None,
        policy: Policy | None = None,
        seed: int = Settings.seed,
        reward_range: tuple[float, float] = Settings.reward_range,
        limits: LimitsKind | str = Settings.limits,
        limits_options: Mapping[str, Any] | None = Settings.limits_options,
        reward: str | None = Settings.reward,
        reward_options: Mapping[str, Any] | None = Settings.reward_options,
        arm_features: int | Schema | Sequence[Feature] | None = Settings.arm_features,
        interactions: Interactions = Settings.interactions,
        set_limits: SetLimits | None = Settings.set_limits,
        share: Share = Settings.share,
        crosses: bool = Settings.crosses,
        teacher_error: float | None = Settings.teacher_error,
        doubt: float | None = Settings.doubt,
        on_empty: OnEmpty = Settings.on_empty,
        safe_arm: ArmId | None = Settings.safe_arm,
        budget: int = Settings.budget,
        on_doubt: OnDoubt = Settings.on_doubt,
        ask_at_most: int = Settings.ask_at_most,
        answer_price: float | None = Settings.answer_price,
        patience: int | None = Settings.patience,
        exact_denials: bool = Settings.exact_denials,
        checks: int | float | None = Settings.checks,
        promise: tuple[float, float] | None = None,
        teachers: Sequence[Teacher] = Settings.teachers,
        rules: Sequence[Rule] = Settings.rules,
        teaching: Teaching | None = Settings.teaching,
        v_teaching: float = Settings.v_teaching,
        label_coding: LabelCoding = Settings.label_coding,
        ridge: float = Settings.ridge,
        ridge_limits: float = Settings.ridge_limits,
        prior: Prior | None = Settings.prior,
        forget: Forget | None = Settings.forget,
        max_pending: int = Settings.max_pending,
        max_examples: int = Settings.max_examples,
        wait: float | None = Settings.wait,
        default_reward: float | None = Settings.default_reward,
        sink: Sink | None = None,
        at: float | None = None,
    ) -> None:
        # The parameters are those that `Settings` declares; a test holds the two together.
        given = {name: value for name, value in locals().items() if name not in BESIDE}
        settings = Settings.of(**given)
        if settings.checks == 0 and settings.checkable(settings.policy, settings.limits):
            warnings.warn(NO_CHECKS, stacklevel=2)
        if promise is not None and (not isinstance(promise, tuple | list) or len(promise) != 2):
            wanted = "two floats (alpha, q), (0.01, 0.02) say"
            raise InvalidValue("promise", "Agent", wanted, promise)
        begun: list[Event] = [Created(settings, time_of(at))]
        self._start(AgentState(settings), sink)
        if promise is not None:
            begun.append(self.make.promised(*promise, at=at))
        if sink is not None:
            sink(begun)
        for event in begun[1:]:
            self._state.fold(event)

    # -- to teach ------------------------------------------------------------------------

    @follows(Commands.example)
    def teach(self, made: Examples) -> MaybeId:
        """Take an example of the teacher; return its id, for `retract`.

        It replaces what the same teacher (`by`) said before of the same item and arm or group;
        what others said stands beside it. What a declared teacher (`Agent.teachers`) says is an
        example once it, or it with others', settles the case; None if that is not so yet.

        Parameters
        ----------
        context, arm, allowed
            In this context the arm is allowed, or not.
        item : int or str, optional
            The name of what the context is about: see `Agent.decide`.
        scope : {"all", "item"}
            Whether it says something of all that looks like it, or of this very item alone.
        until : float, optional
            When it ends, in the caller's time; never by default. An agent has no clock: whoever has
            one calls `end_examples`, as the service does.
        by, note : str, optional
            Who says so, and why, for the log.
        id : str, optional
            Your own name for the example. A number by default.
        at : float, optional
            The time, for the log.
        who : str, optional
            Who answers in the name of a declared teacher.
        """
        self._commit_all(made.events)
        return made.examples[0]

    @follows(Commands.examples)
    def teach_many(self, made: Examples) -> list[MaybeId]:
        """Take many examples, all or none: the same bits as one by one.

        (What a declared teacher says is held against the limits as they are before the first.)
        """
        self._commit_all(made.events)
        return made.examples

    @follows(Commands.retracted)
    def retract(self, made: Retracted) -> None:
        """Take an example back: the limits of its arm are as if it had never been taught."""
        self._commit(made)

    @follows(Commands.retracted_many)
    def retract_many(self, made: list[Retracted]) -> None:
        """Take many examples back, all or none."""
        self._commit_all(made)

    @follows(Commands.ended)
    def end_examples(self, made: list[Retracted]) -> list[ItemId]:
        """Take back the examples whose time (`until`) is over; return their ids."""
        self._commit_all(made)
        return [event.example for event in made]

    @follows(Commands.rule_declared)
    def declare(self, made: RuleDeclared) -> None:
        """Declare a rule that is known for certain, beside what is learned."""
        self._commit(made)

    @follows(Commands.rule_withdrawn)
    def withdraw(self, made: RuleWithdrawn) -> None:
        """Withdraw a declared rule, by its id."""
        self._commit(made)

    # -- to decide -----------------------------------------------------------------------

    @overload
    def decide(
        self,
        context: Context,
        among: Iterable[ArmId | Arm] | None = None,
        id: str | None = None,
        *,
        k: None = None,
        item: ArmId | None = None,
        propensity: bool = False,
        ask: bool = True,
        at: float | None = None,
    ) -> Decision | Question | Abstention: ...
    @overload
    def decide(
        self,
        context: Context,
        among: Iterable[ArmId] | None = None,
        id: str | None = None,
        *,
        k: int,
        item: ArmId | None = None,
        propensity: bool = False,
        ask: bool = True,
        at: float | None = None,
    ) -> SlateDecision | Abstention: ...
    def decide(
        self,
        context: Context,
        among: Iterable[Any] | None = None,
        id: str | None = None,
        *,
        k: int | None = None,
        item: ArmId | None = None,
        propensity: bool = False,
        ask: bool = True,
        at: float | None = None,
    ) -> Decision | Question | Abstention | SlateDecision:
        """Choose an arm for a context, or ask about one; with `k`, choose several at once.

        Parameters
        ----------
        context : mapping, or array where all features are numbers
            What is known about the case at hand.
        among : arm ids or arms, optional
            The arms that can be had now, at least one; all by default. Where arms have features,
            also some that the agent does not have, ``Arm("tt9", features={...})``: those that are
            played or asked about are known from then on, and played where a request names them.
        id : str, optional
            Your own name for the decision; it also keys its draws. A number by default.
        k : int, optional
            How many arms to play at once, best first, inside the agent's `set_limits`: each place
            is a decision of its own, with its id, for its own reward. A slate waits for no answer:
            with ``on_doubt="play_safe"`` its question is filed with it.
        item : int or str, optional
            The name of what the context is about, a film's say. What the teacher says of it is
            certain for this very item and evidence for all that look like it. Without one,
            "allowed" is certain for this decision only. Or declare an `Id` in the schema.
        propensity : bool, default False
            Also compute the probability of every outcome: exactly, or by draws where arms share
            what is learned of them (`Decided.draws` says how many).
        ask : bool, default True
            Whether it may ask this time, if the agent has a budget for questions.
        at : float, optional
            The time, for the log.

        Returns
        -------
        Decision, Question or Abstention
            An abstention if no arm may be played. A question if it is in doubt, has a budget and
            waits for answers; with ``on_doubt="play_safe"`` it is in `question` of what it gives.
            With `k` a `SlateDecision` or an abstention; fewer than k where no more may be played,
            or stand together.
        """
        make = self.make
        made: Decision | Question | Abstention | SlateDecision
        if k is None:
            made = make.decided(
                context, among, id, item=item, propensity=propensity, ask=ask, at=at
            )
        else:
            made = make.slate(
                context, k, among, id, item=item, propensity=propensity, ask=ask, at=at
            )
        if among is not None:
            _check_among(made.event.among)
        if isinstance(made, SlateDecision) and made.lost_nothing:
            if self.sink is not None:
                self.sink(made.events)
            self._state.fold_slate(made.event, made.ids, made.numbers, made.coins)
        else:
            self._commit_all(made.events)
        return made

    @follows(Commands.slate_rewards)
    def reward_slate(self, made: Rewards) -> None:
        """Learn what a slate earned: give `items`, or one `value` for all.

        Parameters
        ----------
        slate : SlateDecision or list of ids
            The slate, or the ids of its decisions.
        value : float, optional
            What all of it earned together, in k times the reward range: the sum of what its items
            earned, of which each is credited with an equal share.
        items : list of floats or None, optional
            What each item earned; None where that is not known, as nobody looked at it.
        """
        if self.sink is not None and made.ids:
            self.sink(made.events)
        self._state.fold_rewards(made.ids, made.values)

    @follows(Commands.decided_many)
    def decide_many(self, made: Decisions) -> Decisions:
        """Choose an arm for each context: the same bits as one by one, a draw of its own for each.

        A batch never asks: it plays what is surely allowed. With ``details=False`` only ids and
        arms are kept, not every arm's scores and draws, which is faster: draws that cannot win are
        never computed.
        """
        _check_among(made.among)
        if self.sink is not None and len(made):
            self.sink(made.events())
        self._state.fold_decisions(made.ids, made.contexts, made.numbers, made.items, made.coins)
        return made

    @follows(Commands.shadow)
    def shadow(self, made: Shadow) -> Decision | Abstention:
        """Return what it would play while another system plays `arm`; the reward is that arm's.

        It never asks. Give the reward by `reward`, with the id of what this returns.
        """
        _check_among(made.decision.event.among)
        self._commit_all([*made.decision.events, made.event])
        return made.decision

    @follows(Commands.judged)
    def judge(self, made: list[Event]) -> MaybeId:
        """Take the teacher's judgement of a play that a coin chose; return the example's id.

        It is about the limits as they stood at the play. It teaches as any answer does, and says
        how often what was believed safe is not. With a promise it moves the purse; and a denial of
        what the teacher had allowed begins what was learned anew. If that of a declared teacher
        does not settle the case, the check waits on, and None is returned.

        Parameters
        ----------
        check : Check or id
            `Decision.check`, one of `open_checks`, or the id of the decision.
        word, who : str, optional
            Of a declared teacher: your own id of this judgement, and who judges in their name.
        """
        self._commit_all(made)
        # The first event is of this check, be it an example or a judgement.
        check = getattr(made[0], "check", None)
        found = (event for event in made if isinstance(event, Taught) and event.check == check)
        return next((taught.id for taught in found), None)

    # -- to reward -----------------------------------------------------------------------

    @follows(Commands.rewarded)
    def reward(self, made: Rewarded) -> None:
        """Learn what a decision earned. Rewards may come late and in any order."""
        self._commit(made)

    @follows(Commands.rewards)
    def reward_many(self, made: Rewards) -> None:
        """Learn what many decisions earned, all or none: the same bits as one by one."""
        if self.sink is not None and made.ids:
            self.sink(made.events)
        self._state.fold_rewards(made.ids, made.values)

    @follows(Commands.expired)
    def expire(self, made: Expired) -> None:
        """Wait no longer for the reward of a decision: learn the `default_reward`, if any."""
        self._commit(made)

    @follows(Commands.learned)
    def learn(self, made: Learned) -> None:
        """Start from history: contexts, the arms that were played there and what they earned."""
        self._commit(made)

    # -- to ask --------------------------------------------------------------------------

    @follows(Commands.asked)
    def ask(self, made: Question) -> Question:
        """Ask the teacher about an arm in `context`.

        Without a context it takes one out of `pool` or, without that, one that the agent met: of a
        decision that waits for its reward. With ``teaching="pool"`` it takes the one where an
        answer teaches most (of at most 2,000 distinct ones), else any with equal probability.
        """
        self._commit(made.event)
        return made

    @follows(Commands.asked_many)
    def ask_many(self, made: list[Question]) -> list[Question]:
        """Ask about an arm in each context: the same questions as one by one."""
        self._commit_all([question.event for question in made])
        return made

    @follows(Commands.answer)
    def answer(self, made: Answers) -> Answer:
        """Take the teacher's answer to a question, and go on with the decision that waits for it.

        If a declared teacher (`Agent.teachers`) gives it and it does not settle the case, the
        question stays open, for whom `whom` names next, or until `skip` gives it up. `by`, `note`,
        `scope`, `until` and `who` are as in `teach`; `word` is your own id of the answer.

        Returns
        -------
        Answer
            `example` names the example that it made, for `retract`; `then` is what the decision
            came to, a `Decision`, another `Question` or an `Abstention`, or None if none waited.
            Of an answer that settles nothing: no example, and the same `Question` again.
        """
        (answer,) = self._answered(made)
        return answer

    @follows(Commands.answers)
    def answer_many(self, made: Answers) -> list[Answer]:
        """Take the answers to many questions, all or none; then go on with what waited for them."""
        return self._answered(made)

    @follows(Commands.lapsed)
    def skip(self, made: Lapsed) -> Answer:
        """Close a question that nobody will answer. What waits for it goes on and plays safe."""
        decision = self._state.questions.open[made.question].decision
        self._commit(made)
        return Answer(None, self._go_on(decision, made.at))

    @follows(Commands.resumed)
    def resume(self, made: Decision | Question | Abstention) -> Decision | Question | Abstention:
        """Continue a decision whose question is answered or skipped.

        `answer` and `skip` do so themselves; this is for a store that was interrupted in between.
        """
        self._commit_all(made.events)
        return made

    def whom(
        self,
        about: Question | OpenQuestion | Check | ItemId,
        *,
        among: Sequence[str] | None = None,
    ) -> Choice | None:
        """Return which declared teacher to ask: whose answer is worth its price.

        Parameters
        ----------
        about : Question, id of a question, or Check
            A check goes to who errs least and has not judged its case yet.
        among : list of names, optional
            Who can be asked now; by default all.

        Returns
        -------
        Choice or None
            None: nobody is worth it, so `skip` the question; of a check: all have judged it.

        Examples
        --------
        >>> from bridle import Agent
        >>> from bridle.agent.teachers import Teacher
        >>> staff = [Teacher("parent", price=0.35), Teacher("model", price=0.01)]
        >>> agent = Agent(arms=2, features=1, seed=1, budget=5, teachers=staff)
        >>> question = agent.ask([1.0], item="Up")
        >>> agent.whom(question).teacher
        'model'
        >>> _ = agent.answer(question, True, by="model")
        >>> agent.whom(question).teacher
        'parent'
        """
        state = self._state
        if not state.settings.teachers:
            remedy = "Make the agent with teachers=[Teacher(...), ...]."
            raise NotPossible(f"No teachers are declared, so there is nobody to choose. {remedy}")
        if isinstance(about, Check):
            check = state.checks.get(about.id)
            case, unit = state.case_key(check.context, check.item, check.arm)
            return state.teachers.choose_judge(case, unit, among=among)
        id = about.id if isinstance(about, Question | OpenQuestion) else about
        one = state.questions.get(plain_id(id))
        return whom_to_ask(state, one.context, one.item, one.arm, among)

    # -- to change -----------------------------------------------------------------------

    @follows(Commands.sigma_changed)
    def set_sigma(self, made: SigmaChanged) -> None:
        """Turn the dial: 0 plays only by what was taught, 1 only by reward."""
        self._commit(made)

    @follows(Commands.policy_changed)
    def set_policy(self, made: PolicyChanged) -> None:
        """Choose by another policy from now on; what was learned stays.

        A policy by itself goes by reward alone: `Masked(SquareCB())` keeps one inside the limits.
        Questions and checks are of policies that keep to the limits: under another there are none.
        """
        self._commit(made)

    @follows(Commands.boldness_changed)
    def set_boldness(self, made: PolicyChanged) -> None:
        """Choose by the same policy with another spread of its draws, `v`, from now on.

        With the scaled prior it is in units of the noise: 1 explores as an honest posterior would,
        less settles sooner, 0 never tries anything out.
        """
        self._commit(made)

    @follows(Commands.forgetting_changed)
    def set_forget(self, made: ForgettingChanged) -> None:
        """Let old rewards fade in another way from now on: see the setting `forget`.

        What has faded stays so.
        """
        self._commit(made)

    @follows(Commands.wait_changed)
    def set_wait(self, made: WaitChanged) -> None:
        """Set how long decisions wait for a reward, and what they learn then: see `Agent`."""
        self._commit(made)

    @follows(Commands.arms_added)
    def add_arms(self, made: ArmsAdded) -> None:
        """Add arms. A number stands for so many, numbered from K on.

        Arms with features are judged at once by what was learned of others; without, they know
        nothing yet.
        """
        self._commit(made)

    @follows(Commands.arms_visited)
    def visit_arms(self, made: ArmsVisited) -> None:
        """Know arms that are played only where a request names them; to be taught about, say."""
        self._commit(made)

    @follows(Commands.arms_changed)
    def change_arms(self, made: ArmsChanged) -> None:
        """Change the labels or features of arms: give each as an `Arm` of the same id and group.

        From now on the new features count; what an arm earned before counts with the old ones.
        """
        self._commit(made)

    @follows(Commands.arms_retired)
    def retire_arms(self, made: ArmsRetired) -> None:
        """Play these arms no more, even where a request names them; what was learned stays."""
        self._commit(made)

    @follows(Commands.arms_restored)
    def restore_arms(self, made: ArmsRestored) -> None:
        """Play arms again that were retired, or that requests alone brought along until now."""
        self._commit(made)

    @follows(Commands.regrouped)
    def regroup(self, made: Regrouped) -> None:
        """Put arms into groups that share what was taught; it is all learned anew.

        Parameters
        ----------
        groups : mapping from arm ids to groups, or list of FoundGroup
            None takes an arm out of its group. A `proposal` can be given as it is, or corrected.
        limits : str, optional
            The kind of limits from now on; as it was by default, `auto` in the place of `found`.
        """
        self._commit(made)

    @follows(Commands.promised)
    def promise(self, made: Promised) -> list[str]:
        """Keep a promise: at most alpha·T + b + 1/q denied plays on average in T decisions.

        Nothing is assumed of contexts, limits, rewards or beliefs. A secret coin of probability q
        or more chooses plays that the teacher judges (`Decision.check`, `judge`); when they have
        found too much, only what the teacher allows at that very decision is played. See
        `bridle.agent.purse`.

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
        self._commit(made)
        assert self._state.purse is not None
        return self._state.purse.price_in_words(20_000)

    @follows(Commands.promise_dropped)
    def drop_promise(self, made: PromiseDropped) -> None:
        """Keep no promise any more."""
        self._commit(made)

    @follows(Commands.started_anew)
    def start_anew(self, made: StartedAnew) -> None:
        """Forget what was learned of the limits, as they have changed; denials stay.

        `fresh_start` proposes it where answers speak for it, and says what is kept and lost.
        """
        self._commit(made)

    @follows(Commands.certified)
    def adopt(self, made: Certified) -> None:
        """Keep to the certified set of a certificate, whatever the policy, beside the live limits.

        What the teacher has allowed to the letter may be played, too. A certificate of limits that
        have learned since needs ``learned_since=True``: it binds with its own frozen copy.
        """
        self._commit(made)

    @follows(Commands.uncertified)
    def drop_certificate(self, made: Uncertified) -> None:
        """Keep to no certificate any more."""
        self._commit(made)

    @follows(Commands.noted)
    def note(self, made: Note) -> None:
        """Put a note of `bridle.agent.events` into the log; the state stays as it is."""
        self._commit(made)

    def __repr__(self) -> str:
        state, settings = self._state, self._state.settings
        counts = {
            "arm": len(state.arms),
            "column": settings.features.width,
            "example": len(state.examples),
            "decision": state.decisions,
        }
        arms, columns, *rest = (f"{n:,} {noun}{'s' * (n != 1)}" for noun, n in counts.items())
        kind = f"limits={state.limits_state.kind!r}"
        parts = [arms, columns, kind, repr(state.policy), *rest, f"version {state.version:,}"]
        return f"<Agent {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        arms = self._state.arms
        rows = [
            [escape(str(arm.id)), escape(arm.label), escape(arm.group or "")]
            for arm in arms[:MOST_SHOWN]
        ]
        return html_table(repr(self), ["arm", "label", "group"], rows, len(arms))

    # -- to inspect ----------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """What it was created with."""
        return self._state.settings

    @property
    def schema(self) -> Schema:
        """What a context looks like."""
        return self._state.settings.features

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All arms, in the order of every array; also those that are `retired`."""
        return tuple(self._state.arms)

    @property
    def retired(self) -> tuple[ArmId, ...]:
        """The ids of the arms that are not played, in their order."""
        state = self._state
        return tuple(state.arm_ids[k] for k in np.flatnonzero(state.status == RETIRED))

    @property
    def policy(self) -> Policy:
        """How scores become a choice, now."""
        return self._state.policy

    @property
    def sigma(self) -> float | None:
        """The dial, if the policy has one."""
        return getattr(self._state.policy, "sigma", None)

    @property
    def version(self) -> int:
        """The number of events folded, `Created` included."""
        return self._state.version

    @property
    def pending(self) -> int:
        """How many decisions wait for a reward."""
        return len(self._state.pending)

    @property
    def dropped(self) -> int:
        """How many decisions were dropped unrewarded, as the oldest of too many."""
        return self._state.dropped

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The declared rules that stand."""
        return tuple(self._state.rules.values())

    @property
    def examples(self) -> tuple[StandingExample, ...]:
        """The examples that stand, in the order they were taught.

        Each has its context by feature (`features`, beside the bytes in `context`), and the id of
        its arm (`arm_id`; `arm` is its number).
        """
        state = self._state
        return tuple(
            StandingExample.of(one, state.settings.features, state.arm_ids[one.arm])
            for one in state.examples.values()
        )

    @property
    def waiting(self) -> tuple[ItemId, ...]:
        """The decisions that asked and are not made yet, oldest first."""
        return tuple(self._state.questions.waiting)

    @property
    def open_questions(self) -> tuple[OpenQuestion, ...]:
        """The questions that wait for an answer, the most valuable first, of equals the oldest.

        Of more than 1,000 the oldest 1,000 are weighed; the others follow as they came.
        """
        return open_questions(self._state)

    @property
    def open_checks(self) -> tuple[Check, ...]:
        """The plays that a coin chose to be judged and that wait for it, oldest first."""
        state = self._state
        return tuple(
            Check(
                id,
                tuple(np.frombuffer(one.context).tolist()),
                state.arm_ids[one.arm],
                one.item,
                one.coin,
            )
            for id, one in state.checks.open.items()
        )

    @property
    def exceptions(self) -> tuple[Exceptions, ...]:
        """What checks and answers have found of exceptions to what is believed safe, by unit."""
        return exceptions_of(self._state)

    @property
    def promised(self) -> Purse | None:
        """The purse of the promise that it keeps, a copy; None if it keeps none."""
        purse = self._state.purse
        return None if purse is None else purse.copy()

    @property
    def teachers(self) -> Teachers:
        """What is known of the declared teachers, a copy: `rates()`, `sentences()` and more."""
        return self._state.teachers.copy()

    @property
    def fresh_start(self) -> FreshStart | None:
        """What speaks for beginning anew what was learned of the limits; None if nothing does.

        Answers that do not come as predicted; or a check that denied what a teacher had allowed.
        """
        return fresh_start_of(self._state)

    @property
    def budget_left(self) -> int:
        """How many questions decisions may still ask."""
        return self._state.questions.left

    @property
    def surprises(self) -> tuple[Surprise, ...]:
        """Answers that the limits were sure would not come; kept by ``limits="auto"`` alone.

        If they go on coming, none of the kinds of limits fits, or the teacher errs.
        """
        return tuple(self._state.limits_state.limits.surprises)

    @property
    def certificate(self) -> Certificate | None:
        """What the agent keeps to, if it was certified."""
        return self._state.certificate

    @property
    def limits(self) -> Beliefs:
        """What was learned of its limits: a copy, to look at, or to `certify`."""
        return self._state.limits_state.limits.copy()

    @property
    def about(self) -> str:
        """Names its arms and features, as a certificate does: see `bridle.certify`."""
        return self._state.about

    @property
    def left_out(self) -> tuple[str, ...]:
        """What ``limits="auto"`` could not take in at this size, in sentences."""
        return self._state.limits_state.limits.left_out

    def believed(self, context: Context, item: ArmId | None = None) -> Believed:
        """Return what is believed of every arm in a context, or of this very item."""
        named = item_of(self._state, context, item, "Agent.believed")
        return believed_of(self._state, self.schema.encode(context), named)

    def novelty_rate(
        self,
        above: float = 0.5,
        contexts: Sequence[Context] | npt.NDArray[Any] | None = None,
    ) -> float | None:
        """Return in what share of cases contexts leave what was taught. If it rises, teach again.

        New to an arm is a context that has a novelty above this, or holds something that no example
        of the arm held.

        Parameters
        ----------
        above : float, default 0.5
            See `believed(context).novelty`.
        contexts : contexts, optional
            Those of the last day, say: counted are those that are new to every arm. By default the
            plays that wait for their reward: counted are those that are new to the arm played.

        Returns
        -------
        float or None
            None if there is nothing to look at.
        """
        least = validation.FRACTION.check(above, "above", "Agent.novelty_rate")
        state = self._state
        cases: list[tuple[bytes, int | None]] = list(state.pending.values())
        if contexts is not None:
            cases = [(row.tobytes(), None) for row in self.schema.encode_many(contexts)]
        seen: dict[bytes, Bools] = {}
        new = 0
        for raw, k in cases:
            if raw not in seen:
                row = np.frombuffer(raw)
                unseen = np.array([bool(found) for found in state.limits_state.unseen(row)])
                far = state.limits_state.novelty(row) > least
                seen[raw] = far | unseen[state.limits_state.unit_of]
            new += bool(seen[raw].all() if k is None else seen[raw][k])
        return new / len(cases) if cases else None

    def describe(self) -> list[str]:
        """Return the limits in sentences, one for each arm or group of arms.

        Examples
        --------
        >>> from bridle import Agent, Flag
        >>> agent = Agent(arms=2, features=[Flag("horror"), Flag("drama")], limits="rules")
        >>> _ = agent.teach({"horror": True, "drama": False}, 1, False)
        >>> _ = agent.teach({"horror": False, "drama": True}, 1, True)
        >>> agent.describe()
        ['0: unsure: horror, drama', '1: not horror']
        """
        return sentences_of(self._state)

    def proposal(self, threshold: float = 0.5) -> list[FoundGroup]:
        """Propose groups of arms that seem to share a rule, for a person to accept or correct.

        They are found in the examples that stand, as rules of single features (up to 12 flags and
        words), whatever the kind of limits and the groups there are. `regroup` takes the list, as
        it is or corrected (`dataclasses.replace`). It takes seconds from hundreds of examples on.
        """
        return proposal_of(self._state, threshold)

    # -- to certify ----------------------------------------------------------------------

    def certification(
        self,
        contexts: Sequence[Context] | npt.NDArray[Any],
        alpha: float,
        delta: float,
        *,
        lambda_min: float = DEFAULT_LAMBDA_MIN,
        on: str = "",
        ids: Sequence[int | str] | None = None,
        teaching: Iterable[int | str] | npt.ArrayLike | None = None,
        items: Sequence[ArmId | None] | None = None,
    ) -> Certification:
        """Begin to certify the limits as they are now: it asks its questions one by one.

        The contexts must be drawn as the future ones are, and not be those of examples. The
        parameters are those of `bridle.certificates.calibration.Certification`; `teaching` is by
        default what the agent was taught, and `items` are the names of what the contexts are
        about, if they have some.
        """
        rows = self.schema.encode_many(contexts)
        state, owner = self._state, "Agent.certification"
        if isinstance(contexts, np.ndarray) and contexts.dtype == object:
            contexts = contexts.tolist()
        if items is not None or isinstance(contexts, list | tuple):
            n = len(rows)
            given = [None] * n if items is None else listed(items, "items", owner, n)
            each = [()] * n if isinstance(contexts, np.ndarray) else contexts
            items = [item_of(state, c, i, owner) for c, i in zip(each, given, strict=True)]
        return self.certification_of(
            rows,
            alpha,
            delta,
            lambda_min=lambda_min,
            on=on,
            ids=ids,
            teaching=teaching,
            items=items,
        )

    def certification_of(
        self,
        rows: Floats,
        alpha: float,
        delta: float,
        *,
        lambda_min: float = DEFAULT_LAMBDA_MIN,
        on: str = "",
        ids: Sequence[int | str] | None = None,
        teaching: Iterable[int | str] | npt.ArrayLike | None = None,
        items: Sequence[ArmId | None] | None = None,
    ) -> Certification:
        """Begin a `certification` on contexts that are encoded already; for stores."""
        state = self._state
        if state.examples and ids is None and teaching is None:
            taught = np.frombuffer(b"".join(e.context for e in state.examples.values()))
            teaching = taught.reshape(len(state.examples), -1)
        return Certification(
            self.limits,
            rows,
            alpha,
            delta,
            lambda_min=lambda_min,
            on=on,
            about=self.about,
            ids=ids,
            teaching=teaching,
            arms=state.arm_ids,
            standing=self._allowed_to_the_letter(rows, items),
        )

    def _allowed_to_the_letter(self, rows: Floats, items: Sequence[ArmId | None] | None) -> Bools:
        state = self._state
        out = np.zeros((len(rows), len(state.arms)), np.bool_)
        if state.remembers:
            named = [None] * len(rows) if items is None else items
            for row, context, item in zip(out, rows, named, strict=True):
                row[state.allowed_here(context, item)] = True
        return out

    # -- to save -------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Fold an event: the second half of every verb. Nothing goes to the sink."""
        check_event(event)
        self._state.fold(event)

    @classmethod
    def replay(cls, events: Iterable[Event], *, sink: Sink | None = None) -> Replay[Self]:
        """Fold a log and re-derive every decision and question in it.

        Each is made again from the state at the version that it names, and compared: arm, and
        propensity where the log has one. A log that cannot be folded raises `CorruptState`.
        """
        return replay(lambda state: cls.of(state, sink=sink), events)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the state of the agent to a file (no pickle), whole or not at all."""
        meta, arrays = state_to_arrays(self._state)
        write_state(path, meta, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, sink: Sink | None = None) -> Self:
        """Read an agent from a file: what follows has the same bits as with no pause."""
        saved = read_state(path)
        try:
            state = state_from_arrays(*saved)
        except CorruptState as error:
            raise CorruptState(f"{path}: {error}") from error
        return cls.of(state, sink=sink)

    @classmethod
    def of(cls, state: AgentState, *, sink: Sink | None = None) -> Self:
        """Return an agent of this state."""
        self = object.__new__(cls)
        self._start(state, sink)
        return self

    # -- small parts ---------------------------------------------------------------------

    def _start(self, state: AgentState, sink: Sink | None) -> None:
        if sink is not None and not callable(sink):
            raise InvalidValue("sink", "Agent", "a function that takes a list of events", sink)
        self.sink = sink
        self._state = state
        self.make = Commands(state)

    def _commit(self, event: Event) -> None:
        if self.sink is not None:
            self.sink([event])
        self._state.fold(event)

    def _commit_all(self, events: Sequence[Event]) -> None:
        if self.sink is not None and events:
            self.sink(events)
        for event in events:
            self._state.fold(event)

    def _answered(self, made: Answers) -> list[Answer]:
        """Commit answers and go on with what waited; what is not settled is asked again."""
        self._commit_all(made.events)
        each = zip(made.questions, made.ids, made.examples, made.decisions, strict=True)
        return [
            Answer(example, self._go_on(decision, made.at))
            if example is not None
            else Answer(None, again if isinstance(again, Question) else self._asked(id, made.at))
            for again, id, example, decision in each
        ]

    def _asked(self, id: ItemId, at: float | None) -> Question:
        """Return an open question once more."""
        state, one = self._state, self._state.questions.open[id]
        waits = None if one.decision is None else state.questions.waiting.get(one.decision)
        among, propensity = (None, None) if waits is None else (waits.among, waits.propensity)
        asked = Asked(
            id,
            tuple(np.frombuffer(one.context).tolist()),
            state.arm_ids[one.arm],
            state.version,
            at,
            one.decision,
            among,
            propensity,
            one.item,
        )
        return Question(asked)

    def _go_on(
        self, decision: ItemId | None, at: float | None
    ) -> Decision | Question | Abstention | None:
        waits = None if decision is None else self._state.questions.waiting.get(decision)
        if decision is None or waits is None or waits.question is not None:
            return None
        return self.resume(decision, at=at)


def _check_among(among: tuple[ArmId, ...] | None) -> None:
    if among == ():
        remedy = "Leave it out for all arms; where none can be had, there is nothing to decide."
        raise InvalidValue("among", "Agent.decide", "at least one arm", [], remedy)

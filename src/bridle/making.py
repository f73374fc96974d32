"""The first half of every verb: look, check, make the event, change nothing.

`agent.make` is a `Maker`. What it gives can be committed somewhere and then folded by
`agent.apply`; or thrown away, and nothing has happened.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.decisions import Abstention, Decision, Decisions, Question
from bridle.errors import InvalidValue, LimitReached, NotPossible
from bridle.events import (
    MAX_NOTE,
    Abstained,
    ArmsAdded,
    Asked,
    Decided,
    Learned,
    Retracted,
    Rewarded,
    RuleDeclared,
    RuleWithdrawn,
    SigmaChanged,
    Taught,
)
from bridle.features import Context
from bridle.kernels import choice, keys, loop, wins
from bridle.kernels.types import Bools, Floats
from bridle.knowledge import Knowledge
from bridle.policies import with_sigma
from bridle.rules import Rule
from bridle.settings import Arm, ArmId, ItemId, item_id, listed, plain_id, the_arms, words
from bridle.teaching import teaching_policy

__all__ = ["Contexts", "Maker", "Truths", "time_of"]

Contexts: TypeAlias = "Sequence[Context] | npt.NDArray[Any]"
Truths: TypeAlias = "Sequence[bool] | npt.NDArray[Any]"
TIME = validate.FloatRange()
MAX_HISTORY = 10_000_000
# From so many arms on it pays to leave out, in a batch, the scores that cannot win.
MANY = 32


class Maker:
    """Makes the events of one agent from what it knows now."""

    def __init__(self, knowledge: Knowledge) -> None:
        settings = knowledge.settings
        seed = settings.seed
        self._knowledge = knowledge
        self._schema = settings.features
        self._decide_start = keys.stream(seed, keys.DECIDE)
        self._decide_named = keys.stream(seed, keys.DECIDE_NAMED)
        self._ask_start = keys.stream(seed, keys.ASK)
        self._ask_named = keys.stream(seed, keys.ASK_NAMED)
        asking = teaching_policy(settings.teaching, settings.v_teaching)
        self._ask_weights = np.array(asking.weights)

    # -- teaching ----------------------------------------------------------------------------

    def asked(
        self, context: Context | None = None, *, id: str | None = None, at: float | None = None
    ) -> Question:
        """Pick the arm to ask about in a context, or in one that the agent met."""
        name: ItemId = self._knowledge.questions + 1 if id is None else item_id(id, "Agent.ask")
        self._knowledge.check_question(name)
        row = self._met(name) if context is None else self._schema.encode(context)
        return self.question(row, name, self._knowledge.version, time_of(at))

    def asked_many(self, contexts: Contexts, *, at: float | None = None) -> list[Question]:
        """Pick an arm to ask about in each context."""
        rows, time = self._schema.encode_many(contexts), time_of(at)
        first, version = self._knowledge.questions + 1, self._knowledge.version
        return [
            self.question(row, first + ahead, version + ahead, time)
            for ahead, row in enumerate(rows)
        ]

    def question(self, row: Floats, id: ItemId, version: int, at: float | None) -> Question:
        """Pick the arm to ask about: a function of what is known, the context and the id.

        The row is an encoded context, and all else was checked before.
        """
        know = self._knowledge
        parts = np.zeros((7, len(know.arms)))
        parts[0], parts[1] = know.limits.scores(row)
        start, number = self._key(id, self._ask_start, self._ask_named)
        k = choice.choose(self._ask_weights, parts, know.every, know.every, start, number)
        return Question(Asked(id, tuple(row.tolist()), know.arm_ids[k], version, at))

    def taught(
        self,
        context: Context,
        arm: ArmId,
        allowed: bool,
        *,
        id: str | None = None,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> Taught:
        """Write down an example of the teacher."""
        rows = self._schema.encode(context)[None]
        answer = validate.truth(allowed, "allowed", "Agent.teach")
        ids = None if id is None else [id]
        return self._taught(rows, [arm], [answer], ids, by, note, at)[0]

    def taught_many(
        self,
        contexts: Contexts,
        arms: Sequence[ArmId] | npt.NDArray[Any],
        allowed: Truths,
        *,
        ids: Sequence[str] | None = None,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> list[Taught]:
        """Write down many examples."""
        rows = self._schema.encode_many(contexts)
        owner = "Agent.teach_many"
        answers = _truths(allowed, len(rows), owner)
        return self._taught(
            rows, listed(arms, "arms", owner, len(rows)), answers, ids, by, note, at
        )

    def _taught(
        self,
        rows: Floats,
        arms: list[Any],
        answers: list[bool],
        ids: Sequence[str] | None,
        by: str | None,
        note: str | None,
        at: float | None,
    ) -> list[Taught]:
        know = self._knowledge
        by, note, time = _words(by, "by"), _words(note, "note"), time_of(at)
        names = self._names(ids, len(rows), know.taught, "Agent.teach")
        know.check_examples(names)
        said = [know.arm_ids[know.arm_number(arm)] for arm in arms]
        return [
            Taught(name, tuple(row), arm, answer, None, by, note, time)
            for name, row, arm, answer in zip(names, rows.tolist(), said, answers, strict=True)
        ]

    def answered(
        self,
        question: Question | ItemId,
        allowed: bool,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> Taught:
        """Write down the answer to an open question."""
        return self.answered_many([question], [allowed], by=by, note=note, at=at)[0]

    def answered_many(
        self,
        questions: Sequence[Question | ItemId],
        allowed: Truths,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> list[Taught]:
        """Write down the answers to many open questions."""
        know = self._knowledge
        owner = "Agent.answer"
        asked = listed(questions, "questions", owner)
        asked = [q.id if isinstance(q, Question) else q for q in asked]
        found = [know.open_question(id) for id in asked]
        ids = _distinct([plain_id(id) for id in asked], "questions", owner)
        answers = _truths(allowed, len(ids), owner)
        by, note, time = _words(by, "by"), _words(note, "note"), time_of(at)
        names = self._names(None, len(ids), know.taught, owner)
        know.check_examples(names)
        contexts = [tuple(np.frombuffer(raw).tolist()) for raw, _ in found]
        return [
            Taught(name, context, know.arm_ids[k], answer, id, by, note, time)
            for name, context, (_, k), answer, id in zip(
                names, contexts, found, answers, ids, strict=True
            )
        ]

    def retracted(
        self,
        example: ItemId,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> Retracted:
        """Write down that an example is taken back."""
        return self.retracted_many([example], by=by, note=note, at=at)[0]

    def retracted_many(
        self,
        examples: Sequence[ItemId],
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> list[Retracted]:
        """Write down that many examples are taken back."""
        owner = "Agent.retract"
        ids = [self._knowledge.standing(id).id for id in listed(examples, "examples", owner)]
        by, note, time = _words(by, "by"), _words(note, "note"), time_of(at)
        return [Retracted(id, by, note, time) for id in _distinct(ids, "examples", owner)]

    # -- deciding ----------------------------------------------------------------------------

    def decided(
        self,
        context: Context,
        among: Iterable[ArmId] | None = None,
        id: str | None = None,
        *,
        propensity: bool = False,
        at: float | None = None,
    ) -> Decision | Question | Abstention:
        """Choose an arm for a context, among all arms or those given."""
        know = self._knowledge
        row = self._schema.encode(context)
        name: ItemId = know.decisions + 1
        if id is not None:
            name = item_id(id, "Agent.decide")
            know.check_decision(name)
        if propensity is not False:
            propensity = validate.truth(propensity, "propensity", "Agent.decide")
        chosen = None if among is None else self._among(among)
        time = None if at is None else time_of(at)
        return self.decision(row, name, know.version, chosen, propensity, time)

    def decision(
        self,
        row: Floats,
        id: ItemId,
        version: int,
        among: tuple[ArmId, ...] | None,
        propensity: bool,
        at: float | None,
    ) -> Decision | Question | Abstention:
        """Choose an arm: a function of what is known, the context, `among` and the id.

        The row is an encoded context, and all else was checked before.
        """
        know = self._knowledge
        numbers = None if among is None else [know.arm_number(arm) for arm in among]
        eligible = know.eligible(row, numbers)
        parts = np.empty((7, len(know.arms)))
        start, number = self._key(id, self._decide_start, self._decide_named)
        reward, limit = know.reward_arms.kernel_state, know.limits.linear.kernel_state
        k = choice.decide(
            know.weights, reward.A, reward.mu, limit.A, limit.mu, row, eligible, start, number,
            parts,
        )  # fmt: skip
        context = tuple(row.tolist())
        if k < 0:
            return Abstention(Abstained(id, context, version, among, at))
        odds = chance = None
        if propensity:
            odds = np.empty(len(know.arms))
            wins.propensities(know.weights, parts[4], parts[5], eligible, eligible, odds)
            chance = float(odds[k])
        event = Decided(id, context, know.arm_ids[k], version, among, chance, at)
        shown = know.every_shown if eligible is know.every else eligible
        return Decision(event, know.arm_ids, parts, shown, odds)

    def decided_many(
        self,
        contexts: Contexts,
        among: Iterable[ArmId] | None = None,
        ids: Sequence[str] | None = None,
        *,
        propensity: bool = False,
        details: bool = True,
        at: float | None = None,
    ) -> Decisions:
        """Choose an arm for each context, with a draw of its own for each."""
        know = self._knowledge
        rows = self._schema.encode_many(contexts)
        n, K = len(rows), len(know.arms)
        owner = "Agent.decide_many"
        propensity = validate.truth(propensity, "propensity", owner)
        details = validate.truth(details, "details", owner)
        time = time_of(at)
        names = self._names(ids, n, know.decisions, owner)
        chosen = None if among is None else self._among(among)
        start = self._decide_start
        numbers = np.arange(know.decisions + 1, know.decisions + n + 1, dtype=np.uint64)
        if ids is not None:
            for name in names:
                know.check_decision(name)
            start = self._decide_named
            numbers = np.array([_hashed(str(name)) for name in names], np.uint64)
        eligible = self._eligible_many(rows, chosen)
        arms = np.empty(n, np.int64)
        parts = odds = None
        reward, limit = know.reward_arms.kernel_state, know.limits.linear.kernel_state
        if details or propensity:
            parts = np.empty((n, 7, K))
            choice.decide_many(
                know.weights, reward.A, reward.mu, limit.A, limit.mu, rows, eligible, start,
                numbers, parts, arms,
            )  # fmt: skip
        else:
            belief = doubt = np.zeros((1, K))
            if know.policy.weights.limit != 0.0:
                belief, doubt = know.limits.scores_many(rows)
            if K < MANY:
                mean, sd = know.reward_arms.scores_many(rows)
                choice.pick_many(
                    know.weights, mean, sd, belief, doubt, eligible, start, numbers, arms
                )
            else:
                nothing = np.empty((0, K))
                loop.run(
                    know.policy.weights, reward, know.reward_arms.ridge, rows, nothing, eligible,
                    eligible, belief, doubt, np.arange(n), start, numbers, False, arms, False,
                    np.zeros(2),
                )  # fmt: skip
        if parts is not None and propensity:
            odds = np.empty((n, K))
            wins.propensities_many(know.weights, parts, eligible, odds)
        return Decisions(
            ids=names,
            numbers=arms.tolist(),
            arms=know.arm_ids,
            contexts=rows,
            first_version=know.version,
            parts=parts,
            eligible=eligible,
            propensities=odds,
            among=chosen,
            at=time,
        )

    def _among(self, among: Iterable[ArmId]) -> tuple[ArmId, ...]:
        # In the order of the arms: what is written does not depend on the order of a set.
        given = listed(
            list(among) if isinstance(among, Set | Iterator) else among, "among", "Agent"
        )
        numbers = {self._knowledge.arm_number(arm) for arm in given}
        return tuple(self._knowledge.arm_ids[k] for k in sorted(numbers))

    def _eligible_many(self, rows: Floats, among: tuple[ArmId, ...] | None) -> Bools:
        know = self._knowledge
        numbers = None if among is None else [know.arm_number(arm) for arm in among]
        if numbers is None and not know.rules and not (know.denials and know.exact_denials):
            return know.every[None]  # one row that serves all
        eligible = [know.eligible(row, numbers) for row in rows]
        return np.array(eligible, np.bool_).reshape(len(rows), len(know.arms))

    def rewarded(self, decision: ItemId, value: float, *, at: float | None = None) -> Rewarded:
        """Write down the reward of a decision."""
        self._knowledge.pending_context(decision)
        self._knowledge.unit_reward(value)
        return Rewarded(plain_id(decision), float(value), time_of(at))

    def rewarded_many(
        self,
        decisions: Sequence[ItemId] | npt.NDArray[Any],
        values: Sequence[float] | npt.NDArray[Any],
        *,
        at: float | None = None,
    ) -> list[Rewarded]:
        """Write down the rewards of many decisions."""
        ids, rewards, time = self.rewards(decisions, values, at)
        pairs = zip(ids, rewards.tolist(), strict=True)
        return [Rewarded(id, reward, time) for id, reward in pairs]

    def rewards(
        self,
        decisions: Sequence[ItemId] | npt.NDArray[Any],
        values: Sequence[float] | npt.NDArray[Any],
        at: float | None,
    ) -> tuple[list[ItemId], Floats, float | None]:
        """Check the rewards of many decisions; give them as columns: ids, rewards, the time."""
        know, owner = self._knowledge, "Agent.reward_many"
        ids = listed(decisions, "decisions", owner)
        pending = know.pending
        if not set(map(type, ids)) <= {int, str} or not all(id in pending for id in ids):
            for id in ids:
                know.pending_context(id)
            ids = [plain_id(id) for id in ids]
        _distinct(ids, "decisions", owner)
        return ids, know.check_rewards(values, len(ids), owner), time_of(at)

    def learned(
        self,
        contexts: Contexts,
        arms: Sequence[ArmId] | npt.NDArray[Any],
        rewards: Sequence[float] | npt.NDArray[Any],
        *,
        at: float | None = None,
    ) -> Learned:
        """Write down history: what was played before, and what it earned."""
        know = self._knowledge
        rows = self._schema.encode_many(contexts)
        n = len(rows)
        if n > MAX_HISTORY:
            raise LimitReached("rows of history in one call", MAX_HISTORY, "Split it.")
        numbers = know.arm_numbers(listed(arms, "arms", "Agent.learn", n))
        values = know.check_rewards(rewards, n, "Agent.learn")
        for array in (rows, numbers, values):
            array.flags.writeable = False
        return Learned(rows, numbers, values, time_of(at))

    # -- settings that change ----------------------------------------------------------------

    def sigma_changed(self, sigma: float, *, at: float | None = None) -> SigmaChanged:
        """Write down another sigma."""
        return SigmaChanged(with_sigma(self._knowledge.policy, sigma).sigma, time_of(at))

    def arms_added(
        self, arms: int | Iterable[Arm | ArmId], *, at: float | None = None
    ) -> ArmsAdded:
        """Write down new arms."""
        made = the_arms(arms, first=len(self._knowledge.arms))
        self._knowledge.check_arms(made)
        return ArmsAdded(made, time_of(at))

    def rule_declared(self, rule: Rule, *, at: float | None = None) -> RuleDeclared:
        """Write down a known rule."""
        if not isinstance(rule, Rule):
            raise InvalidValue("rule", "Agent.declare", "a Rule", rule)
        self._knowledge.compile(rule)
        return RuleDeclared(rule, time_of(at))

    def rule_withdrawn(self, rule: str, *, at: float | None = None) -> RuleWithdrawn:
        """Write down that a known rule no longer holds."""
        self._knowledge.check_rule(rule)
        return RuleWithdrawn(str(rule), time_of(at))

    # -- small parts -------------------------------------------------------------------------

    def _met(self, question: ItemId) -> Floats:
        pending = self._knowledge.pending
        if not pending:
            raise NotPossible(
                "There is no context to ask about: no decision waits for its reward. "
                "Give one, as in agent.ask(context)."
            )
        start, number = self._key(question, self._ask_start, self._ask_named)
        at = int(keys.place(start, number, len(pending)))
        raw = next(itertools.islice(pending.values(), at, None))[0]
        return np.frombuffer(bytearray(raw))

    def _key(self, id: ItemId, start: Any, named: Any) -> tuple[Any, Any]:
        if isinstance(id, int):
            return start, np.uint64(id)
        return named, np.uint64(_hashed(id))

    @staticmethod
    def _names(ids: Sequence[str] | None, n: int, so_far: int, owner: str) -> list[ItemId]:
        if ids is None:
            return list(range(so_far + 1, so_far + n + 1))
        names: list[ItemId] = [item_id(id, owner) for id in listed(ids, "ids", owner, n)]
        return _distinct(names, "ids", owner)


def _hashed(id: str) -> int:
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest(), "little")


def _truths(values: object, length: int, owner: str) -> list[bool]:
    return [
        validate.truth(value, "allowed", owner)
        for value in listed(values, "allowed", owner, length)
    ]


def _distinct(values: list[ItemId], name: str, owner: str) -> list[ItemId]:
    if len(set(values)) != len(values):
        twice, _ = Counter(values).most_common(1)[0]
        raise InvalidValue(name, owner, "distinct", twice)
    return values


def _words(value: str | None, name: str) -> str | None:
    return None if value is None else words(value, name, "Agent", MAX_NOTE)


def time_of(at: float | None) -> float | None:
    """Give the caller's time as a float."""
    return None if at is None else TIME.check(at, "at", "Agent")

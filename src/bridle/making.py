"""The first half of every verb: look, check, make the event, change nothing.

`agent.make` is a `Maker`. What it gives can be committed somewhere and then folded by
`agent.apply`; or thrown away, and nothing has happened.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.decisions import Abstention, Decision, Decisions, Question
from bridle.errors import InvalidValue, LimitReached, NotPossible
from bridle.events import (
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
from bridle.settings import Arm, ArmId, ItemId, item_id, the_arms
from bridle.teaching import teaching_policy

__all__ = ["Contexts", "Maker", "Truths"]

Contexts: TypeAlias = "Sequence[Context] | npt.NDArray[Any]"
Truths: TypeAlias = "Sequence[bool] | npt.NDArray[Any]"
TIME = validate.FloatRange()
MAX_NOTE = 10_000
MAX_HISTORY = 10_000_000


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
        (name,) = self._names(None if id is None else [id], 1, self._knowledge.questions)
        if name in self._knowledge.asked:
            raise InvalidValue("id", "Agent.ask", "new; a question of this id is open", name)
        row = self._met(name) if context is None else self._schema.encode(context)
        return self.question(row, name, self._knowledge.version, _time(at))

    def asked_many(self, contexts: Contexts, *, at: float | None = None) -> list[Question]:
        """Pick an arm to ask about in each context."""
        rows = self._schema.encode_many(contexts)
        names = self._names(None, len(rows), self._knowledge.questions)
        version = self._knowledge.version
        return [
            self.question(row, name, version + ahead, _time(at))
            for ahead, (row, name) in enumerate(zip(rows, names, strict=True))
        ]

    def question(self, row: Floats, id: ItemId, version: int, at: float | None) -> Question:
        """Pick the arm to ask about: a function of what is known, the context and the id."""
        know = self._knowledge
        parts = np.zeros((7, len(know.arms)))
        parts[0], parts[1] = know.limits.scores(row)
        start, number = self._key(id, self._ask_start, self._ask_named)
        k = choice.choose(self._ask_weights, parts, know.every, know.every, start, number)
        return Question(Asked(id, tuple(row.tolist()), know.arms[k].id, version, at))

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
        answer = validate.truth(allowed, "allowed", "Agent.teach")
        ids = None if id is None else [id]
        return self._taught(self._schema.encode(context)[None], [arm], [answer], ids, by, note, at)[0]

    def taught_many(
        self,
        contexts: Contexts,
        arms: Sequence[ArmId],
        allowed: Truths,
        *,
        ids: Sequence[str] | None = None,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> list[Taught]:
        """Write down many examples."""
        rows = self._schema.encode_many(contexts)
        arms = _of_length("arms", arms, len(rows), "Agent.teach_many")
        answers = validate.truths(allowed, len(rows), "allowed", "Agent.teach_many").tolist()
        return self._taught(rows, arms, answers, ids, by, note, at)

    def _taught(
        self,
        rows: Floats,
        arms: Sequence[ArmId],
        answers: Sequence[bool],
        ids: Sequence[str] | None,
        by: str | None,
        note: str | None,
        at: float | None,
    ) -> list[Taught]:
        know = self._knowledge
        by, note, time = _words(by, "by"), _words(note, "note"), _time(at)
        names = self._names(ids, len(rows), know.taught)
        know.check_examples(names)
        for arm in arms:
            know.arm_number(arm)
        return [
            Taught(name, tuple(row), arm, answer, None, by, note, time)
            for name, row, arm, answer in zip(names, rows.tolist(), arms, answers, strict=True)
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
        asked = [q.id if isinstance(q, Question) else q for q in questions]
        _distinct(asked, "questions", "Agent.answer")
        found = [know.open_question(id) for id in asked]
        answers = [validate.truth(answer, "allowed", "Agent.answer") for answer in allowed]
        _of_length("allowed", answers, len(asked), "Agent.answer")
        by, note, time = _words(by, "by"), _words(note, "note"), _time(at)
        names = self._names(None, len(asked), know.taught)
        know.check_examples(names)
        return [
            Taught(
                name, tuple(np.frombuffer(raw).tolist()), know.arms[k].id, answer, id, by, note, time
            )
            for name, (raw, k), answer, id in zip(names, found, answers, asked, strict=True)
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
        _distinct(examples, "examples", "Agent.retract")
        for example in examples:
            self._knowledge.standing(example)
        by, note, time = _words(by, "by"), _words(note, "note"), _time(at)
        return [Retracted(example, by, note, time) for example in examples]

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
        chosen = None if among is None else tuple(dict.fromkeys(among))
        return self.decision(row, name, know.version, chosen, propensity, _time(at))

    def decision(
        self,
        row: Floats,
        id: ItemId,
        version: int,
        among: tuple[ArmId, ...] | None,
        propensity: bool,
        at: float | None,
    ) -> Decision | Question | Abstention:
        """Choose an arm: a function of what is known, the context, `among` and the id."""
        know = self._knowledge
        numbers = None if among is None else [know.arm_number(arm) for arm in among]
        eligible = know.eligible(row, row.tobytes(), numbers)
        parts = np.empty((7, len(know.arms)))
        start, number = self._key(id, self._decide_start, self._decide_named)
        reward, limit = know.reward_arms.kernel_state, know.limits.linear.kernel_state
        k = choice.decide(
            know.weights, reward.A, reward.mu, limit.A, limit.mu, row, eligible, start, number, parts
        )
        context = tuple(row.tolist())
        if k < 0:
            return Abstention(Abstained(id, context, version, among, at))
        odds = chance = None
        if propensity:
            odds = np.empty(len(know.arms))
            wins.propensities(know.weights, parts[4], parts[5], eligible, eligible, odds)
            chance = float(odds[k])
        event = Decided(id, context, know.arms[k].id, version, among, chance, at)
        return Decision(event, know.arm_ids, parts, eligible, odds)

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
        names = self._names(ids, n, know.decisions)
        if ids is not None:
            for name in names:
                know.check_decision(name)
        chosen = None if among is None else tuple(dict.fromkeys(among))
        start = self._decide_start
        numbers = np.arange(know.decisions + 1, know.decisions + n + 1, dtype=np.uint64)
        if ids is not None:
            start = self._decide_named
            numbers = np.array([_hashed(name) for name in ids], np.uint64)
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
            nothing = np.empty((0, K))
            loop.run(
                know.policy.weights, reward, know.reward_arms.ridge, rows, nothing, eligible,
                eligible, belief, doubt, np.arange(n), start, numbers, False, arms,
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
            at=_time(at),
        )

    def _eligible_many(self, rows: Floats, among: tuple[ArmId, ...] | None) -> Bools:
        know = self._knowledge
        numbers = None if among is None else [know.arm_number(arm) for arm in among]
        if numbers is None and not know.rules and not (know.denials and know.exact_denials):
            return know.every[None]  # one row that serves all
        return np.array([know.eligible(row, row.tobytes(), numbers) for row in rows]).reshape(
            len(rows), len(know.arms)
        )

    def rewarded(
        self, decision: ItemId, value: float, *, at: float | None = None
    ) -> Rewarded:
        """Write down the reward of a decision."""
        self._knowledge.pending_context(decision)
        self._knowledge.unit_reward(value)
        return Rewarded(decision, float(value), _time(at))

    def rewarded_many(
        self,
        decisions: Sequence[ItemId],
        values: Sequence[float] | npt.NDArray[Any],
        *,
        at: float | None = None,
    ) -> tuple[list[ItemId], Floats, float | None]:
        """Check the rewards of many decisions; give ids, rewards and time."""
        know = self._knowledge
        ids = list(decisions)
        pending = know.pending
        if not all(id in pending for id in ids):
            for id in ids:
                know.pending_context(id)
        _distinct(ids, "decisions", "Agent.reward_many")
        rewards = know.check_rewards(values, len(ids), "Agent.reward_many")
        return ids, rewards, _time(at)

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
        numbers = know.arm_numbers(_of_length("arms", arms, n, "Agent.learn"))
        values = know.check_rewards(rewards, n, "Agent.learn")
        for array in (rows, numbers, values):
            array.flags.writeable = False
        return Learned(rows, numbers, values, _time(at))

    # -- settings that change ----------------------------------------------------------------

    def sigma_changed(self, sigma: float, *, at: float | None = None) -> SigmaChanged:
        """Write down another sigma."""
        return SigmaChanged(with_sigma(self._knowledge.policy, sigma).sigma, _time(at))

    def arms_added(
        self, arms: int | Iterable[Arm | ArmId], *, at: float | None = None
    ) -> ArmsAdded:
        """Write down new arms."""
        made = the_arms(arms)
        self._knowledge.check_arms(made)
        return ArmsAdded(made, _time(at))

    def rule_declared(self, rule: Rule, *, at: float | None = None) -> RuleDeclared:
        """Write down a known rule."""
        if not isinstance(rule, Rule):
            raise InvalidValue("rule", "Agent.declare", "a Rule", rule)
        self._knowledge.compile(rule)
        return RuleDeclared(rule, _time(at))

    def rule_withdrawn(self, rule: str, *, at: float | None = None) -> RuleWithdrawn:
        """Write down that a known rule no longer holds."""
        self._knowledge.check_rule(rule)
        return RuleWithdrawn(rule, _time(at))

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
    def _names(ids: Sequence[str] | None, n: int, so_far: int) -> list[ItemId]:
        if ids is None:
            return list(range(so_far + 1, so_far + n + 1))
        names: list[ItemId] = [item_id(id, "Agent") for id in ids]
        _of_length("ids", names, n, "Agent")
        _distinct(names, "ids", "Agent")
        return names


def _hashed(id: str) -> int:
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest(), "little")


def _of_length(name: str, values: Any, length: int, owner: str) -> Any:
    if isinstance(values, str) or not hasattr(values, "__len__") or len(values) != length:
        raise InvalidValue(name, owner, f"a list of {length}, one for each", values)
    return values


def _distinct(values: Sequence[ItemId], name: str, owner: str) -> None:
    if len(set(values)) != len(values):
        twice = next(value for value in values if list(values).count(value) > 1)
        raise InvalidValue(name, owner, "distinct", twice)


def _words(value: str | None, name: str) -> str | None:
    return None if value is None else validate.text(value, name, "Agent", MAX_NOTE)


def _time(at: float | None) -> float | None:
    return None if at is None else TIME.check(at, "at", "Agent")

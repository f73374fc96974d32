"""What an agent knows: the fold of its events, and nothing else.

`fold` takes one event; every check stands before the first change, so an event that cannot be
folded leaves all as it was. No randomness, no clock, no files.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bridle import validate
from bridle.arms import LinearArms
from bridle.errors import InvalidValue, LimitReached, NotPossible, UnknownId
from bridle.events import (
    Abstained,
    ArmsAdded,
    Asked,
    Context,
    Created,
    Decided,
    Event,
    Learned,
    Retracted,
    Rewarded,
    RuleDeclared,
    RuleWithdrawn,
    SigmaChanged,
    Taught,
)
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import LinearLimits
from bridle.policies import with_sigma
from bridle.rules import CompiledRule, Rule, compile_rule, denied_arms
from bridle.settings import Arm, ArmId, ItemId, Settings, check_size, plain_id

__all__ = ["Example", "Knowledge"]

MAX_RULES = 10_000
MINUS_ZERO = array("d", [-0.0]).tobytes()


class Example(NamedTuple):
    """An answer of the teacher that stands."""

    id: ItemId
    context: bytes  # d float64, as encoded
    arm: int  # the arm's number
    allowed: bool
    by: str | None
    note: str | None


class Knowledge:
    """The state of an agent.

    Pending decisions and open questions are kept up to `max_pending` each; the oldest are dropped
    by count, which is part of the fold. Examples are kept, as any of them may be retracted.
    """

    def __init__(self, settings: Settings) -> None:
        d = settings.features.width
        self.settings = settings
        self.policy = settings.policy
        self.weights = np.array(settings.policy.weights)
        self.exact_denials = settings.exact_denials
        low, high = settings.reward_range
        self._reward_range = validate.FloatRange(low, high)
        self._reward_span = high - low
        self.version = 1  # Created is the first event
        self.decisions = 0  # made so far: the next decision's own number is one more
        self.questions = 0
        self.taught = 0
        self.dropped = 0  # pending decisions that were dropped unrewarded
        self.arms: list[Arm] = []
        self.number_of: dict[ArmId, int] = {}
        self.arm_ids: tuple[ArmId, ...] = ()
        self.every = self.every_shown = np.empty(0, np.bool_)
        self.reward_arms = LinearArms(arms=1, features=d, ridge=settings.ridge)
        self.limits = LinearLimits(
            arms=1, features=d, ridge=settings.ridge_limits, label_coding=settings.label_coding
        )
        self.pending: dict[ItemId, tuple[bytes, int]] = {}
        self.asked: dict[ItemId, tuple[bytes, int]] = {}
        self.examples: dict[ItemId, Example] = {}
        self.examples_of: list[dict[ItemId, Example]] = []
        self.denials: dict[bytes, dict[int, int]] = {}  # context → arm → standing denials
        self.rules: dict[str, Rule] = {}
        self.compiled_rules: list[CompiledRule] = []
        self.add_arms(settings.arms)
        self.set_rules(settings.rules)

    # -- questions ---------------------------------------------------------------------------

    def arm_number(self, arm: object) -> int:
        """Give the number of an arm, by its id."""
        try:
            return self.number_of[plain_id(arm)]
        except KeyError:
            known = ", ".join(repr(known.id) for known in self.arms[:5])
            more = ", …" if len(self.arms) > 5 else ""
            raise UnknownId("arm", arm, f"The agent has {len(self.arms)}: {known}{more}.") from None

    def eligible(self, context: Floats, among: Sequence[int] | None) -> Bools:
        """Say which arms may be played: asked for, not denied by a rule, not denied exactly."""
        denied_here = None
        if self.denials and self.exact_denials:
            denied_here = self.denials.get(context.tobytes())
        if among is None and denied_here is None and not self.compiled_rules:
            return self.every
        if among is None:
            eligible = self.every.copy()
        else:
            eligible = np.zeros(len(self.arms), np.bool_)
            eligible[among] = True
        if denied_here is not None:
            eligible[list(denied_here)] = False
        if self.compiled_rules:
            eligible &= ~denied_arms(self.compiled_rules, context, len(self.arms))
        return eligible

    def arm_numbers(self, arms: Iterable[object]) -> Ints:
        """Give the numbers of many arms, by their ids."""
        return np.array([self.arm_number(arm) for arm in arms], np.int64)

    def check_rewards(self, values: object, n: int, owner: str) -> Floats:
        """Give n rewards in the agent's range, not yet mapped."""
        low, high = self.settings.reward_range
        wanted = f"{n} floats in the range [{low:g}, {high:g}]"
        kinds = map(type, values) if isinstance(values, list | tuple) else ()
        if bool in kinds or getattr(values, "dtype", None) == np.bool_:
            raise InvalidValue("rewards", owner, wanted, values)
        rewards = validate.floats(values, "rewards", owner, wanted)
        if rewards.shape != (n,):
            raise InvalidValue("rewards", owner, wanted, f"an array of shape {rewards.shape}")
        good = (rewards >= low) & (rewards <= high)
        if not good.all():
            raise InvalidValue("rewards", owner, wanted, float(rewards[~good][0]))
        return rewards.copy()

    def unit_rewards(self, values: Floats) -> Floats:
        """Map rewards from the agent's range to [0, 1]."""
        low, high = self.settings.reward_range
        return (values - low) / (high - low)

    def unit_reward(self, value: object) -> float:
        """Map a reward from the agent's range to [0, 1]."""
        number = self._reward_range.check(value, "value", "Agent.reward")
        return (number - self._reward_range.low) / self._reward_span

    def pending_context(self, decision: ItemId) -> tuple[bytes, int]:
        """Give context and arm number of a decision that waits for its reward."""
        try:
            return self.pending[plain_id(decision)]
        except KeyError:
            raise UnknownId(
                "pending decision",
                decision,
                "It was never made, is rewarded already, or was dropped as one of the oldest of "
                f"more than {self.settings.max_pending:,} (max_pending).",
            ) from None

    def check_decision(self, id: ItemId) -> None:
        """Refuse a decision whose id is pending already."""
        if id in self.pending:
            raise InvalidValue("id", "Agent.decide", "new; a decision of this id is pending", id)

    def check_question(self, id: ItemId) -> None:
        """Refuse a question whose id is open already."""
        if id in self.asked:
            raise InvalidValue("id", "Agent.ask", "new; a question of this id is open", id)

    def open_question(self, question: ItemId) -> tuple[bytes, int]:
        """Give context and arm number of a question that waits for its answer."""
        try:
            return self.asked[plain_id(question)]
        except KeyError:
            raise UnknownId(
                "open question", question, "It was never asked, or is answered or dropped already."
            ) from None

    def standing(self, example: ItemId) -> Example:
        """Give an example that stands."""
        try:
            return self.examples[plain_id(example)]
        except KeyError:
            raise UnknownId(
                "standing example", example, "It was never taught, or is retracted already."
            ) from None

    def check_examples(self, ids: Sequence[ItemId]) -> None:
        """Refuse examples whose ids stand already, or that are too many."""
        for id in ids:
            if id in self.examples:
                raise InvalidValue("id", "Agent.teach", "new; an example of this id stands", id)
        if len(self.examples) + len(ids) > self.settings.max_examples:
            remedy = "Create the agent with a higher max_examples."
            raise LimitReached("examples", self.settings.max_examples, remedy)

    def check_arms(self, arms: Sequence[Arm]) -> None:
        """Refuse arms whose ids are taken, or that are too many."""
        check_size(len(self.arms) + len(arms), self.settings.features.width)
        seen = set(self.number_of)
        for arm in arms:
            if arm.id in seen:
                raise InvalidValue("arms", "Agent", "arms of distinct ids", arm.id)
            seen.add(arm.id)

    def compile(self, rule: Rule) -> CompiledRule:
        """Give a new rule in the form that decides, or refuse it."""
        if rule.id in self.rules:
            raise InvalidValue("rule", "Agent.declare", "of a new id", rule.id)
        if len(self.rules) >= MAX_RULES:
            raise LimitReached("rules", MAX_RULES, "Withdraw some first.")
        return self._compile(rule)

    def check_rule(self, rule: str) -> None:
        """Refuse the id of a rule that does not stand."""
        if plain_id(rule) not in self.rules:
            raise UnknownId("rule", rule, f"These stand: {sorted(self.rules)[:10]}.")

    # -- the fold ----------------------------------------------------------------------------

    def fold(self, event: Event) -> None:
        """Fold one event of our own, or one that `check_event` let pass."""
        _FOLDERS[type(event)](self, event)
        self.version += 1

    def fold_decisions(self, ids: Iterable[ItemId], rows: Floats, arms: Sequence[int]) -> None:
        """Fold many decisions at once: the same state as `fold` of their events, one by one."""
        width = rows.shape[1] * 8
        raw = rows.tobytes()
        contexts = [raw[at : at + width] for at in range(0, len(raw), width)]
        made = zip(ids, zip(contexts, arms, strict=True), strict=True)
        every = min(arms, default=0) >= 0
        self.pending.update(made if every else [one for one in made if one[1][1] >= 0])
        self._drop(self.pending)
        self.decisions += len(arms)
        self.version += len(arms)

    def fold_rewards(self, ids: Sequence[ItemId], rewards: Floats) -> None:
        """Fold many rewards at once: the same state as `fold` of their events, one by one."""
        taken = [self.pending.pop(id) for id in ids]
        arms = np.array([k for _, k in taken], np.int64)
        raw = bytearray().join([raw for raw, _ in taken])
        contexts = np.frombuffer(raw).reshape(len(taken), self.settings.features.width)
        self.reward_arms.fold_many(arms, contexts, self.unit_rewards(rewards))
        self.version += len(taken)

    def _created(self, event: Created) -> None:
        raise NotPossible("An agent is created once; a Created can only be the first event.")

    def _arms_added(self, event: ArmsAdded) -> None:
        self.add_arms(event.arms)

    def _taught(self, event: Taught) -> None:
        k = self.arm_number(event.arm)
        self.check_examples([event.id])
        self._check_id(event.id, self.taught)
        raw = self.raw(event.context)
        self.limits.learn(np.frombuffer(raw), k, event.allowed)
        self.remember(Example(event.id, raw, k, event.allowed, event.by, event.note))
        if event.question is not None:
            self.asked.pop(event.question, None)
        self.taught += 1

    def _retracted(self, event: Retracted) -> None:
        example = self.standing(event.example)
        k = example.arm
        stand = [other for other in self.examples_of[k].values() if other is not example]
        contexts = np.frombuffer(b"".join(other.context for other in stand))
        self.limits.relearn(
            k,
            contexts.reshape(len(stand), self.settings.features.width),
            np.array([other.allowed for other in stand], np.bool_),
        )
        del self.examples[example.id], self.examples_of[k][example.id]
        if not example.allowed:
            here = self.denials[example.context]
            here[k] -= 1
            if not here[k]:
                del here[k]
            if not here:
                del self.denials[example.context]

    def _asked(self, event: Asked) -> None:
        k = self.arm_number(event.arm)
        self.check_question(event.id)
        self._check_id(event.id, self.questions, event.version)
        self.asked[event.id] = (self.raw(event.context), k)
        self._drop(self.asked)
        self.questions += 1

    def _decided(self, event: Decided) -> None:
        k = self.arm_number(event.arm)
        self.check_decision(event.id)
        self._check_id(event.id, self.decisions, event.version)
        self.pending[event.id] = (self.raw(event.context), k)
        self._drop(self.pending)
        self.decisions += 1

    def _abstained(self, event: Abstained) -> None:
        self.check_decision(event.id)
        self._check_id(event.id, self.decisions, event.version)
        self.raw(event.context)
        self.decisions += 1

    def _rewarded(self, event: Rewarded) -> None:
        raw, k = self.pending_context(event.decision)
        unit = self.unit_reward(event.value)
        del self.pending[event.decision]
        self.reward_arms.fold(k, np.frombuffer(bytearray(raw)), unit)

    def _learned(self, event: Learned) -> None:
        rewards = self.check_rewards(event.rewards, len(event.contexts), "Agent.apply")
        units = self.unit_rewards(rewards)
        self.reward_arms.update_many(event.arm_numbers, event.contexts, units)

    def _sigma_changed(self, event: SigmaChanged) -> None:
        self.policy = with_sigma(self.policy, event.sigma)
        self.weights = np.array(self.policy.weights)

    def _rule_declared(self, event: RuleDeclared) -> None:
        self._declare(event.rule)

    def _rule_withdrawn(self, event: RuleWithdrawn) -> None:
        self.check_rule(event.rule)
        del self.rules[event.rule]
        self._compile_rules()

    # -- small parts -------------------------------------------------------------------------

    def raw(self, context: Context) -> bytes:
        """Give a context as the bytes of its d float64, equal where contexts are equal."""
        if len(context) != self.settings.features.width:
            wanted = f"{self.settings.features.width} numbers"
            raise InvalidValue("context", "Agent.apply", wanted, context)
        raw = array("d", context).tobytes()
        if 0x80 in raw and MINUS_ZERO in raw:  # the first look is ten times as fast
            raw = (np.frombuffer(raw) + 0.0).tobytes()
        return raw

    def _check_id(self, id: ItemId, so_far: int, version: int = 1) -> None:
        # Numbers are given by the agent, in turn: one from further on would be given again.
        if type(id) is int and id > so_far + 1:
            raise InvalidValue("id", "Agent.apply", f"a string, or at most {so_far + 1}", id)
        if version > self.version:
            wanted = f"at most {self.version}, as so many events are folded"
            raise InvalidValue("version", "Agent.apply", wanted, version)

    def _drop(self, items: dict[ItemId, tuple[bytes, int]]) -> None:
        while len(items) > self.settings.max_pending:
            del items[next(iter(items))]
            if items is self.pending:
                self.dropped += 1

    def add_arms(self, arms: Sequence[Arm]) -> None:
        """Put arms that know nothing after the others."""
        self.check_arms(arms)
        fresh = not self.arms
        for arm in arms:
            self.number_of[arm.id] = len(self.arms)
            self.arms.append(arm)
            self.examples_of.append({})
        more = len(arms) - fresh  # the first arm is there from the start
        if more:
            self.reward_arms.grow(more)
            self.limits.grow(more)
        self.arm_ids = tuple(arm.id for arm in self.arms)
        self.every = np.ones(len(self.arms), np.bool_)
        self.every_shown = self.every.view()  # to hand out
        self.every_shown.flags.writeable = False
        self._compile_rules()

    def remember(self, example: Example) -> None:
        """Keep an example, for exact denials and for a retraction."""
        self.examples[example.id] = example
        self.examples_of[example.arm][example.id] = example
        if not example.allowed:
            here = self.denials.setdefault(example.context, {})
            here[example.arm] = here.get(example.arm, 0) + 1

    def set_rules(self, rules: Iterable[Rule]) -> None:
        """Put these rules in the place of all others."""
        self.rules, self.compiled_rules = {}, []
        for rule in rules:
            self._declare(rule)

    def _declare(self, rule: Rule) -> None:
        self.compiled_rules.append(self.compile(rule))
        self.rules[rule.id] = rule

    def _compile(self, rule: Rule) -> CompiledRule:
        groups = [arm.group for arm in self.arms]
        return compile_rule(rule, self.settings.features, self.arm_ids, groups)

    def _compile_rules(self) -> None:
        # A rule for a group covers the arms that join it later.
        self.compiled_rules = [self._compile(rule) for rule in self.rules.values()]


_FOLDERS: dict[type, Callable[[Knowledge, Any], None]] = {
    Created: Knowledge._created,
    ArmsAdded: Knowledge._arms_added,
    Asked: Knowledge._asked,
    Taught: Knowledge._taught,
    Retracted: Knowledge._retracted,
    Decided: Knowledge._decided,
    Abstained: Knowledge._abstained,
    Rewarded: Knowledge._rewarded,
    Learned: Knowledge._learned,
    SigmaChanged: Knowledge._sigma_changed,
    RuleDeclared: Knowledge._rule_declared,
    RuleWithdrawn: Knowledge._rule_withdrawn,
}

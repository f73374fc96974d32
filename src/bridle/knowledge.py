"""What an agent knows: the fold of its events, and nothing else.

`fold` takes one event; every check stands before the first change, so an event that cannot be
folded leaves all as it was. No randomness, no clock, no files.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np

from bridle import validate
from bridle.believing import Believing, Example
from bridle.errors import InvalidValue, NotPossible
from bridle.events import (
    Abstained,
    ArmsAdded,
    Asked,
    Certified,
    Created,
    Decided,
    Event,
    Expired,
    Judged,
    Lapsed,
    Learned,
    Promised,
    PromiseDropped,
    Regrouped,
    Retracted,
    Rewarded,
    RuleDeclared,
    RuleWithdrawn,
    Shadowed,
    SigmaChanged,
    StartedAnew,
    Taught,
    Uncertified,
    WaitChanged,
)
from bridle.kernels.types import Floats
from bridle.known import JudgedCase, Known
from bridle.notes import Erased, Note, RewardedLate
from bridle.policies import with_sigma
from bridle.questions import Case, Open
from bridle.rules import Rule
from bridle.settings import Arm, ArmId, ItemId, check_default
from bridle.spotchecks import OpenCheck
from bridle.teachers import Key, Teachers

__all__ = ["Example", "Knowledge"]

MAX_RULES = 10_000
# Cases whose lack of an answer is accounted for; the oldest are dropped.
MAX_COSTS = 1_000_000
# What one decision may lose, in rewards: far above what any can.
MAX_WORTH = 1e9
MINUS_ZERO = array("d", [-0.0]).tobytes()
# The mean of all rewards before the first of them, and how many rewards it counts for.
FIRST_GUESS = (0.5, 1.0)
ONE = array("d", [1.0]).tobytes()


class Knowledge(Known):
    """The fold of an agent's events."""

    # -- the fold ----------------------------------------------------------------------------

    def fold(self, event: Event) -> None:
        """Fold one event of our own, or one that `check_event` let pass."""
        _FOLDERS[type(event)](self, event)
        self.version += 1

    def fold_decisions(
        self,
        ids: Sequence[ItemId],
        rows: Floats,
        arms: Sequence[int],
        items: Sequence[ArmId | None],
        coins: Sequence[tuple[float | None, bool]] | None,
    ) -> None:
        """Fold many decisions at once: the same state as `fold` of their events, one by one."""
        width = rows.shape[1] * 8
        raw = rows.tobytes()
        contexts = [raw[at : at + width] for at in range(0, len(raw), width)]
        made = zip(ids, zip(contexts, arms, strict=True), strict=True)
        every = min(arms, default=0) >= 0
        self.pending.update(made if every else [one for one in made if one[1][1] >= 0])
        self._drop()
        self.decisions += len(arms)
        self.questions.age(self.decisions)
        if coins is not None:
            for id, raw_row, k, item, (coin, checked) in zip(
                ids, contexts, arms, items, coins, strict=True
            ):
                self._take_coin(id, raw_row, k, item, coin, checked)
        self.version += len(arms)

    def _take_coin(
        self,
        id: ItemId,
        raw: bytes,
        arm: int,
        item: ArmId | None,
        coin: float | None,
        checked: bool,
    ) -> None:
        """Count a step for the promise; and a play with a coin, which may have chosen it."""
        if self.purse is not None:
            self.purse.take(coin, id if checked else None)
        if coin is None:
            return
        if not self.is_allowed(arm, item):
            self.believing.count_play(arm)
        if checked:
            self.checks.draw(id, OpenCheck(raw, arm, item, coin))

    def fold_rewards(self, ids: Sequence[ItemId], rewards: Floats) -> None:
        """Fold many rewards at once: the same state as `fold` of their events, one by one."""
        taken = [self.pending.pop(id) for id in ids]
        arms = np.array([k for _, k in taken], np.int64)
        raw = bytearray().join([raw for raw, _ in taken])
        contexts = np.frombuffer(raw).reshape(len(taken), self.settings.features.width)
        units = self.unit_rewards(rewards)
        self.reward_arms.fold_many(arms, self.reward_rows(contexts), units)
        self._count(units)
        self.version += len(taken)

    def _count(self, units: Floats) -> None:
        total = float(self.totals[0])
        for unit in units.tolist():  # in order: a sum in pairs would have other bits
            total += unit
        self.totals[0] = total
        self.totals[1] += len(units)

    def _created(self, event: Created) -> None:
        raise NotPossible("An agent is created once; a Created can only be the first event.")

    def _arms_added(self, event: ArmsAdded) -> None:
        self.add_arms(event.arms)

    def _taught(self, event: Taught) -> None:
        k = self.arm_number(event.arm)
        self.check_examples([event.id], [k])
        self._check_id(event.id, self.taught)
        raw = self.raw(event.context)
        self.check_item(event.item)
        self._check_question(event, k, raw)
        self._check_life(event, k, raw)
        contradicted = event.check is not None and self.is_allowed(k, event.item)
        for earlier in event.replaces:
            if earlier in self.examples:  # else it was taken back meanwhile
                self._forget(self.examples[earlier])
        example = Example(
            event.id, raw, k, event.allowed, event.by, event.note, event.item, event.scope,
            event.until,
        )  # fmt: skip
        self.believing.learn(example)
        self.remember(example)
        if event.question in self.questions.open:
            self.questions.answer(event.question, event.allowed)
        if event.check is not None:
            if not event.allowed and contradicted:
                self.contradictions += 1
            if self.purse is not None and event.check in self.purse:
                self.purse.answer(event.check, event.allowed)
            self.checks.answer(event.check, event.allowed)
        if self.judged:
            self.teachers.settle(*self.case_key(raw, event.item, k), event.allowed)
        self.taught += 1

    def _judged(self, event: Judged) -> None:
        k, raw = self.arm_number(event.arm), self.raw(event.context)
        if not self.declares(event.by):
            wanted = f"a declared teacher, one of {sorted(self._names)}"
            raise InvalidValue("by", "Agent.apply", wanted, event.by)
        self._check_question(event, k, raw)
        self._check_about(event, k, raw)
        key = self.case_key(raw, event.item, k)
        if self.reopens(event.check, key, self.teachers):
            self._drop_words(key)
        self.teachers.judge(event.by, *key, event.allowed, event.prior)
        self.judged[key] = self.judged_by(event, self.judged.get(key), raw, k)

    def judged_by(self, event: Judged, before: JudgedCase | None, raw: bytes, k: int) -> JudgedCase:
        """Return what is kept of a case after another word about it."""
        waiting = () if before is None else tuple(c for c in before.checks if c in self.checks.open)
        if event.check is not None and event.check not in waiting:
            waiting = (*waiting, event.check)
        return JudgedCase(raw, k, event.item, event.scope, event.until, waiting)

    def reopens(self, check: ItemId | None, key: tuple[Key, Key], known: Teachers) -> bool:
        """Return whether a word opens a case anew: a check of what is settled, as limits change.

        Weighed beside what was said before a change, it might settle nothing, with nobody left.
        """
        return check is not None and known.settled(*key) is not None

    def _drop_words(self, key: tuple[Key, Key]) -> None:
        """Let go of who said what of a case; what it taught about who errs stays."""
        if self.judged.pop(key, None) is not None:
            self.teachers.forget(*key)

    def _drop_all_words(self) -> None:
        self.teachers.forget_all()
        self.judged.clear()

    def _check_about(self, event: Taught | Judged, k: int, raw: bytes) -> None:
        """Refuse a judgement of a play that was another, and a scope that cannot be."""
        if event.check is not None:
            check = self.checks.get(event.check)
            if (check.arm, check.context, check.item) != (k, raw, event.item):
                wanted = "a decision that played this arm in this context"
                raise InvalidValue("check", "Agent.apply", wanted, event.check)
        if event.scope == "item" and event.item is None:
            wanted = "'all' where the item has no name"
            raise InvalidValue("scope", "Agent.teach", wanted, event.scope)

    def _check_life(self, event: Taught, k: int, raw: bytes) -> None:
        """Refuse what answers of earlier forms have not, and a judgement of something else."""
        self._check_about(event, k, raw)
        plain = event.scope == "all" and event.until is None and not event.replaces
        if not plain and not self.settings.lives:
            wanted = "left out: this agent was made before answers had a life"
            raise InvalidValue("until", "Agent.teach", wanted, event.until)
        if len(set(event.replaces)) != len(event.replaces):
            raise InvalidValue("replaces", "Agent.apply", "distinct examples", event.replaces)

    def _check_question(self, event: Taught | Judged, k: int, raw: bytes) -> None:
        """Refuse an answer that names an open question and is about something else."""
        asked = None if event.question is None else self.questions.open.get(event.question)
        if asked is None or self.settings.legacy:
            return
        if (asked.arm, asked.context, asked.item) != (k, raw, event.item):
            wanted = "about the arm, context and item that the question is about"
            raise InvalidValue("question", "Agent.apply", wanted, event.question)

    def _retracted(self, event: Retracted) -> None:
        example = self.standing(event.example)
        self._forget(example)
        self._drop_words(self.case_key(example.context, example.item, example.arm))

    def _forget(self, example: Example) -> None:
        """Take an example back."""
        del self.examples[example.id]
        if example.item is not None:
            here = self.about_item[example.item]
            del here[example.id]
            if not here:
                del self.about_item[example.item]
        self.believing.forget(example, self.examples.values())
        if example.allowed:
            self.questions.disallow(example.case, example.arm)
        certain = self.allowances if example.allowed else self.denials
        said = certain[example.case]
        said[example.arm] -= 1
        if not said[example.arm]:
            del said[example.arm]
        if not said:
            del certain[example.case]

    def _asked(self, event: Asked) -> None:
        k = self.arm_number(event.arm)
        self.questions.check(event.id)
        self._check_id(event.id, self.questions.asked, event.version)
        raw = self.raw(event.context)
        self.check_item(event.item)
        if event.decision is not None:
            self._check_id(event.decision, self.decisions)
            if self.settings.on_doubt == "wait":
                self._start(event.decision, raw, event.item)
        question = Open(raw, k, event.decision, self.decisions, event.item)
        if self.judged:
            # Asked anew: of a thing without a name it may be another; of what was settled, limits
            # may have changed.
            key = self.case_key(raw, event.item, k)
            if event.item is None or self.teachers.settled(*key) is not None:
                self._drop_words(key)
        if event.decision is not None:
            self._settle(question.case, k)
        self.questions.ask(event.id, question, event.among, event.propensity)

    def _lapsed(self, event: Lapsed) -> None:
        self.questions.get(event.question)
        self.questions.lapse(event.question)

    def _decided(self, event: Decided) -> None:
        k = self.arm_number(event.arm)
        self._check_id(event.id, self.decisions, event.version)
        raw = self.raw(event.context)
        wanted = self._wanted(event)
        self._start(event.id, raw, event.item)
        self.questions.waiting.pop(event.id, None)
        self._charge(raw, event, wanted)
        self._take_coin(event.id, raw, k, event.item, event.coin, event.checked)
        self.pending[event.id] = (raw, k)
        self._drop()

    def _abstained(self, event: Abstained) -> None:
        self._check_id(event.id, self.decisions, event.version)
        raw, wanted = self.raw(event.context), self._wanted(event)
        self._start(event.id, raw, event.item)
        self.questions.waiting.pop(event.id, None)
        self._charge(raw, event, wanted)
        self._take_coin(event.id, raw, -1, event.item, None, False)

    def _start(self, decision: ItemId, context: bytes, item: ArmId | None) -> None:
        """Count a decision, at its first event; or see that it may go on."""
        if decision in self.questions.waiting:
            waits = self.questions.ready(decision)
            if waits.context != context:
                wanted = "of the context in which the decision asked"
                raise InvalidValue("context", "Agent.apply", wanted, decision)
            if waits.item != item:
                wanted = f"{waits.item!r}, of which the decision asked"
                raise InvalidValue("item", "Agent.apply", wanted, item)
            return
        self.check_decision(decision)
        self.decisions += 1
        self.questions.age(self.decisions)

    def _rewarded(self, event: Rewarded) -> None:
        raw, k = self.pending_context(event.decision)
        unit = self.unit_reward(event.value)
        del self.pending[event.decision]
        row = np.frombuffer(bytearray(raw + ONE if self.centred else raw))
        self.reward_arms.fold(k, row, unit)
        self.totals += (unit, 1.0)

    def _expired(self, event: Expired) -> None:
        if event.value is not None:
            self._rewarded(Rewarded(event.decision, event.value))
        else:
            self.pending_context(event.decision)
            del self.pending[event.decision]

    def _shadowed(self, event: Shadowed) -> None:
        k, raw = self.arm_number(event.arm), self.raw(event.context)
        self._check_id(event.decision, self.decisions - 1)
        if self.pending.get(event.decision, (raw, k))[0] != raw:
            wanted = "of the context that the decision was made in"
            raise InvalidValue("context", "Agent.apply", wanted, event.decision)
        self.pending[event.decision] = (raw, k)
        self._drop()
        # Another system played: of this agent nothing was, so there is nothing to judge.
        self.checks.cancel(event.decision)
        if self.purse is not None:
            self.purse.cancel(event.decision)

    def _learned(self, event: Learned) -> None:
        rewards = self.check_rewards(event.rewards, len(event.contexts), "Agent.apply")
        units = self.unit_rewards(rewards)
        rows = validate.matrix(
            event.contexts, self.settings.features.width, "contexts", "Agent.apply"
        )
        self.reward_arms.update_many(event.arm_numbers, self.reward_rows(rows), units)
        self._count(units)

    def _sigma_changed(self, event: SigmaChanged) -> None:
        self.policy = with_sigma(self.policy, event.sigma)
        self.weights = np.array(self.policy.weights)

    def _wait_changed(self, event: WaitChanged) -> None:
        reward = check_default(
            event.default_reward, self.settings.reward_range, event.wait, "Agent.set_wait"
        )
        self.wait, self.default_reward = event.wait, reward

    def _noted(self, event: Note) -> None:
        if isinstance(event, Erased):
            self.decisions += "decision" in event.spaces
            if self.purse is not None and "decision" in event.spaces:
                self.purse.take(None, None)
            self.taught += "example" in event.spaces
            self.questions.asked += "question" in event.spaces
        elif isinstance(event, RewardedLate):
            self.unit_reward(event.value)

    def _regrouped(self, event: Regrouped) -> None:
        self.regroup(self.check_groups(event), event.limits, tuple(self.rules.values()))
        self._drop_all_words()  # they were of units that are no more
        self.believing.learn_all(self.examples.values())

    def regroup(self, arms: Sequence[Arm], kind: str, rules: Sequence[Rule]) -> None:
        """Begin anew with limits of this kind, for the same arms in these groups."""
        believing = Believing(self.settings, kind, arms)
        self.arms, self.believing = list(arms), believing
        self.costs.clear()  # they were of units that are no more
        self.lessons.clear()
        self.set_rules(rules)

    def _adopted(self, event: Certified) -> None:
        self.check_certificate(event.certificate)
        self.certificate = event.certificate
        self._certified.clear()

    def _uncertified(self, event: Uncertified) -> None:
        self.certificate = None
        self._certified.clear()

    def _promised(self, event: Promised) -> None:
        self.purse = self.check_promise(event)
        self.promise = event

    def _promise_dropped(self, event: PromiseDropped) -> None:
        self.purse, self.promise = None, None

    def _started_anew(self, event: StartedAnew) -> None:
        kept = [example for example in self.examples.values() if not example.allowed]
        self.examples, self.about_item, self.allowances, self.denials = {}, {}, {}, {}
        self.contradictions = 0
        self._drop_all_words()
        for decision, waits in self.questions.waiting.items():
            self.questions.waiting[decision] = waits._replace(allowed=())
        self.regroup(self.arms, self.believing.kind, tuple(self.rules.values()))
        for example in kept:
            self.remember(example)
        self.believing.learn_all(kept)

    def _rule_declared(self, event: RuleDeclared) -> None:
        self._declare(event.rule)
        self._know_rules()

    def _rule_withdrawn(self, event: RuleWithdrawn) -> None:
        self.check_rule(event.rule)
        del self.rules[event.rule]
        self._compile_rules()
        self._know_rules()

    # -- small parts -------------------------------------------------------------------------

    def _check_id(self, id: ItemId, so_far: int, version: int = 1) -> None:
        # Numbers are given by the agent, in turn: one from further on would be given again.
        if type(id) is int and id > so_far + 1:
            raise InvalidValue("id", "Agent.apply", f"a string, or at most {so_far + 1}", id)
        if version > self.version:
            wanted = f"at most {self.version}, as so many events are folded"
            raise InvalidValue("version", "Agent.apply", wanted, version)

    def _drop(self) -> None:
        while len(self.pending) > self.settings.max_pending:
            del self.pending[next(iter(self.pending))]
            self.dropped += 1

    def add_arms(self, arms: Sequence[Arm]) -> None:
        """Put arms after the others; in a known group they start with what it knows."""
        self.check_arms(arms)
        if not arms:
            return
        self.arms = [*self.arms, *arms]
        self.reward_arms.grow(len(arms))
        self.believing.grow(arms)
        self._name_arms()
        self._compile_rules()
        self._know_rules()

    def remember(self, example: Example) -> None:
        """Keep an example, for what it makes certain and for a retraction."""
        self.examples[example.id] = example
        if example.item is not None:
            self.about_item.setdefault(example.item, {})[example.id] = example
        certain = self.allowances if example.allowed else self.denials
        here = certain.setdefault(example.case, {})
        here[example.arm] = here.get(example.arm, 0) + 1
        self._settle(example.case, example.arm)

    # -- what not asking costs -----------------------------------------------------------------

    def _wanted(self, event: Decided | Abstained) -> int | None:
        """Return the number of the arm that a decision would have liked to play, checked."""
        self.check_item(event.item)
        given = [part is not None for part in (event.wanted, event.worth, event.lesson)]
        if any(given) != all(given):
            wanted = "given, with worth and lesson, or left out with them"
            raise InvalidValue("wanted", "Agent.apply", wanted, event.wanted)
        if event.wanted is None or event.worth is None or event.lesson is None:
            return None
        sound = 0.0 < event.worth <= MAX_WORTH and 0.0 <= event.lesson <= event.worth
        if self.settings.legacy or not sound:
            wanted = (
                f"above 0, at most {MAX_WORTH:g}, and no less than lesson; not of the first form"
            )
            raise InvalidValue("worth", "Agent.apply", wanted, event.worth)
        return self.arm_number(event.wanted)

    def _charge(self, raw: bytes, event: Decided | Abstained, wanted: int | None) -> None:
        """Add what a decision lost to the account of its case and of the unit that it wanted."""
        if wanted is None or event.worth is None:
            return
        case: Case = raw if event.item is None else event.item
        unit = int(self.believing.unit_of[wanted])
        here = self.costs.setdefault(case, {})
        here[unit] = here.get(unit, 0.0) + event.worth
        if event.lesson:
            self.lessons[unit] = self.lessons.get(unit, 0.0) + event.lesson
        while len(self.costs) > MAX_COSTS:
            del self.costs[next(iter(self.costs))]

    def _settle(self, case: Case, arm: int) -> None:
        """Close the account of a case and unit: the teacher is asked, or has spoken."""
        unit = int(self.believing.unit_of[arm])
        self.lessons.pop(unit, None)
        here = self.costs.get(case)
        if here is not None:
            here.pop(unit, None)
            if not here:
                del self.costs[case]


_FOLDERS: dict[type, Callable[[Knowledge, Any], None]] = {
    Created: Knowledge._created,
    ArmsAdded: Knowledge._arms_added,
    Asked: Knowledge._asked,
    Lapsed: Knowledge._lapsed,
    Taught: Knowledge._taught,
    Judged: Knowledge._judged,
    Retracted: Knowledge._retracted,
    Decided: Knowledge._decided,
    Abstained: Knowledge._abstained,
    Rewarded: Knowledge._rewarded,
    Expired: Knowledge._expired,
    Shadowed: Knowledge._shadowed,
    Learned: Knowledge._learned,
    SigmaChanged: Knowledge._sigma_changed,
    WaitChanged: Knowledge._wait_changed,
    Regrouped: Knowledge._regrouped,
    Certified: Knowledge._adopted,
    Uncertified: Knowledge._uncertified,
    Promised: Knowledge._promised,
    PromiseDropped: Knowledge._promise_dropped,
    StartedAnew: Knowledge._started_anew,
    RuleDeclared: Knowledge._rule_declared,
    RuleWithdrawn: Knowledge._rule_withdrawn,
    **dict.fromkeys(get_args(Note), Knowledge._noted),
}

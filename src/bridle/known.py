"""What an agent knows, and what can be asked of it. Only `Knowledge`, the fold, changes it."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.arms import LinearArms
from bridle.believing import Believing, Example
from bridle.certificates import Certificate, about_of
from bridle.errors import InvalidValue, LimitReached, NotPossible, UnknownId
from bridle.events import Promised, Regrouped
from bridle.features import Context as AnyContext
from bridle.fieldforms import Context
from bridle.kernels import doubt, loop
from bridle.kernels.types import Bools, Floats, Ints
from bridle.purse import Purse
from bridle.questions import Case, Questions
from bridle.rules import CompiledRule, Rule, compile_rule, denied_arms
from bridle.settings import Arm, ArmId, ItemId, Settings, arm_id, check_size, plain_id
from bridle.spotchecks import SpotChecks
from bridle.teachers import LEAST_P, SETTLES, Key, Teachers

__all__ = ["JudgedCase", "Known", "item_of"]

MAX_RULES = 10_000
# What was certified in so many contexts is kept: truths, of all arms together.
MAX_CERTIFIED = 16_000_000
MINUS_ZERO = array("d", [-0.0]).tobytes()
# The mean of all rewards before the first of them, and how many rewards it counts for.
FIRST_GUESS = (0.5, 1.0)
ONE = array("d", [1.0]).tobytes()


class JudgedCase(NamedTuple):
    """A case that declared teachers judged: what is taught of it once it is settled."""

    context: bytes  # d float64, as encoded
    arm: int
    item: ArmId | None
    scope: str = "all"  # scope and end as the last word about it had them
    until: float | None = None
    checks: tuple[ItemId, ...] = ()  # that were judged by it, and wait for it to be settled


class Known:
    """The state of an agent.

    Pending decisions and open questions are kept up to `max_pending` each; the oldest are dropped
    by count, which is part of the fold. Examples are kept, as any of them may be retracted.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.policy = settings.policy
        self.weights = np.array(settings.policy.weights)
        self.remembers = settings.remembers
        low, high = settings.reward_range
        self._reward_range = validate.FloatRange(low, high)
        self._reward_span = high - low
        self.wait, self.default_reward = settings.wait, settings.default_reward
        self.version = 1  # Created is the first event
        self.decisions = 0  # made so far: the next decision's own number is one more
        self.taught = 0
        self.dropped = 0  # pending decisions that were dropped unrewarded
        self.arms: list[Arm] = list(settings.arms)
        self.number_of: dict[ArmId, int] = {}
        self.check_arms(settings.arms)
        self.centred = settings.prior == "centred"
        self.reward_arms = LinearArms(
            arms=len(self.arms),
            features=settings.features.width + self.centred,
            ridge=settings.ridge,
        )
        self.totals = np.array(FIRST_GUESS)  # sum and number of all rewards
        self.questions = Questions(settings)
        self.pending: dict[ItemId, tuple[bytes, int]] = {}
        self.examples: dict[ItemId, Example] = {}
        self.about_item: dict[ArmId, dict[ItemId, Example]] = {}  # those with a named item
        self.denials: dict[Case, dict[int, int]] = {}  # case → arm → standing denials
        self.allowances: dict[Case, dict[int, int]] = {}  # the same of what was allowed
        # What not asking has cost, in rewards: case → unit → cost.
        self.costs: dict[Case, dict[int, float]] = {}
        # The same of all cases together, by what an answer would have taught: unit → cost.
        self.lessons: dict[int, float] = {}
        self.checks = SpotChecks(settings)
        # Checks that denied what a teacher had allowed, since what was learned began.
        self.contradictions = 0
        # What declared teachers said, how often each errs, and what each case is about.
        self.teachers = Teachers(settings.teachers, doubt=SETTLES)
        self.judged: dict[tuple[Key, Key], JudgedCase] = {}
        self._names = {teacher.name for teacher in settings.teachers}
        self.promise: Promised | None = None
        self.purse: Purse | None = None
        self.certificate: Certificate | None = None
        self._certified: dict[bytes, Bools] = {}
        self.rules: dict[str, Rule] = {}
        self.compiled_rules: list[CompiledRule] = []
        self._name_arms()
        self.believing = Believing(settings, settings.limits, self.arms)
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

    def eligible(
        self, context: Floats, among: Sequence[int] | None, item: ArmId | None = None
    ) -> Bools:
        """Say which arms may be played: `offered`, and certified or allowed to the letter.

        With a certificate the live limits bind every policy, too; a mask sees to that itself.
        """
        offered = self.offered(context, among, item)
        certified = self.certified(context)
        if certified is None:
            return offered
        certified = certified.copy()
        if not self.policy.needs_limits:
            certified &= self.believing.seen(context.tobytes()).marks == doubt.SAFE
        certified[self.allowed_here(context, item)] = True
        return offered & certified

    def certified(self, context: Floats) -> Bools | None:
        """Say which arms the certificate lets through; None without one. Not a copy."""
        if self.certificate is None:
            return None
        raw = context.tobytes()
        found = self._certified.get(raw)
        if found is None or len(found) != len(self.arms):
            found = self.certificate.lets_through(context, len(self.arms))
            found.flags.writeable = False
            if (len(self._certified) + 1) * len(self.arms) > MAX_CERTIFIED:
                self._certified.clear()
            self._certified[raw] = found
        return found

    def check_certificate(self, certificate: Certificate) -> None:
        """Refuse a certificate that cannot bind this agent."""
        if self.settings.on_empty == "least_bad":
            raise NotPossible(
                "With on_empty='least_bad' the agent plays what no certificate lets through. "
                "Make it with on_empty='abstain', or with a safe_arm."
            )
        K, d = len(self.arms), self.settings.features.width
        if (certificate.arms, certificate.features) != (K, d):
            wanted = f"for {K} arms and {d} features, as the agent"
            got = f"one for {certificate.arms} arms and {certificate.features} features"
            remedy = "It is a certificate from other limits."
            raise InvalidValue("certificate", "Agent.adopt", wanted, got, remedy)
        if certificate.about not in ("", self.about):
            got = f"one about others, by their sha256 {certificate.about[:12]}"
            remedy = "It is a certificate from other limits."
            wanted = "about the arms and features of this agent"
            raise InvalidValue("certificate", "Agent.adopt", wanted, got, remedy)

    def check_promise(self, event: Promised) -> Purse:
        """Return the purse of a promise, or refuse it."""
        if not self.settings.lives:
            raise NotPossible(
                "This agent was made before plays could be checked, and its plays have no coins: "
                "it can keep no promise. Make a new agent, and teach it what this one was taught."
            )
        if self.promise is not None:
            raise NotPossible(
                "The agent keeps a promise already, and a purse is filled once. Drop that first: "
                "agent.drop_promise()."
            )
        return Purse(alpha=event.alpha, q=event.q, lag=event.lag, b=event.b)

    @property
    def about(self) -> str:
        """Names the arms and features that limits are about, as a certificate does."""
        return about_of(self.arm_ids, self.settings.features.to_json())

    def denied_here(self, context: Floats, item: ArmId | None = None) -> list[int]:
        """Return the arms that the teacher denied in this very case.

        With an item that has a name, what was said of it; and what was said of this very context
        where no name was given. An answer about an arm is about all arms of its unit.
        """
        if not self.denials or not self.remembers:
            return []
        return self._said_of(self.denials, context, item)

    def allowed_here(self, context: Floats, item: ArmId | None = None) -> list[int]:
        """Return the arms that the teacher allowed in this very case.

        Without a name for what the context is about, "allowed" is certain for its own decision
        only: two things may look alike.
        """
        if not self.allowances or not self.remembers:
            return []
        if self.settings.legacy:
            return list(self.allowances.get(context.tobytes(), ()))
        return [] if item is None else self._with_unit(self.allowances.get(item, ()))

    def is_allowed(self, arm: int, item: ArmId | None) -> bool:
        """Return whether the teacher allowed an arm, or one of its unit, for this very item."""
        here = None if item is None or not self.remembers else self.allowances.get(item)
        if not here:
            return False
        unit_of = self.believing.unit_of
        return any(unit_of[k] == unit_of[arm] for k in here)

    # -- several teachers --------------------------------------------------------------------

    def declares(self, by: object) -> TypeGuard[str]:
        """Return whether this is the name of a declared teacher."""
        return isinstance(by, str) and by in self._names

    def settled_by(self, by: str | None) -> bool:
        """Return whether this names declared teachers, one or several who settled a case."""
        return by is not None and bool(self._names) and self._names.issuperset(by.split(", "))

    def case_key(self, context: bytes, item: ArmId | None, arm: int) -> tuple[Key, Key]:
        """Return what names a case among those that declared teachers judged.

        An item by its own name; a context that has none by its hash, and the unit as a string, so
        that no item can have the same.
        """
        unit = int(self.believing.unit_of[arm])
        if item is not None:
            return item, unit
        return hashlib.blake2b(context, digest_size=16).hexdigest(), str(unit)

    def prior_of(self, context: bytes, arm: int) -> float:
        """Return the limits' own P(allowed), as far from sure as judgements take it."""
        p = float(self.believing.seen(context).p[arm])
        return min(max(p, LEAST_P), 1.0 - LEAST_P)

    # -- what was said -----------------------------------------------------------------------

    def earlier(
        self, item: ArmId | None, arm: int, allowed: bool, by: str | None
    ) -> tuple[ItemId, ...]:
        """Return what a teacher said before of an item and the unit of an arm, and takes back now.

        Nothing of a teacher who errs: there each answer is one more piece of evidence.
        """
        if item is None or not self.settings.lives or not self.remembers:
            return ()
        unit_of = self.believing.unit_of
        return tuple(
            example.id
            for example in self.about_item.get(item, {}).values()
            if (example.by == by or (self.settled_by(example.by) and self.settled_by(by)))
            and example.allowed != allowed
            and unit_of[example.arm] == unit_of[arm]
        )

    def _said_of(
        self, said: dict[Case, dict[int, int]], context: Floats, item: ArmId | None
    ) -> list[int]:
        here = list(said.get(context.tobytes(), ()))
        if self.settings.legacy:
            return here
        if item is not None:
            here += said.get(item, ())
        return self._with_unit(here)

    def _with_unit(self, arms: Iterable[int]) -> list[int]:
        """Return all arms of the units that these arms belong to."""
        listed = list(arms)
        if not listed:
            return []
        unit_of = self.believing.unit_of
        return np.flatnonzero(np.isin(unit_of, unit_of[listed])).tolist()

    def offered(
        self, context: Floats, among: Sequence[int] | None, item: ArmId | None = None
    ) -> Bools:
        """Say which arms are asked for, not denied by a rule and not denied exactly."""
        denied_here = self.denied_here(context, item)
        if among is None and not denied_here and not self.compiled_rules:
            return self.every
        if among is None:
            eligible = self.every.copy()
        else:
            eligible = np.zeros(len(self.arms), np.bool_)
            eligible[among] = True
        eligible[denied_here] = False
        if self.compiled_rules:
            eligible &= ~denied_arms(self.compiled_rules, context, len(self.arms))
        return eligible

    def said(
        self, context: Floats, eligible: Bools, item: ArmId | None = None
    ) -> npt.NDArray[np.int8]:
        """Say what is certain of every arm here: SAID_NO, SAID_YES or UNASKED, as in `doubt`."""
        said = np.where(eligible, doubt.UNASKED, doubt.SAID_NO).astype(np.int8)
        for k in self.allowed_here(context, item):
            if said[k] == doubt.UNASKED:
                said[k] = doubt.SAID_YES
        return said

    @property
    def pull(self) -> float:
        """How far the means of all arms are drawn to the mean of all rewards."""
        if not self.centred:
            return 0.0
        return float(loop.pull_of(True, self.reward_arms.ridge, self.totals))

    def check_item(self, item: ArmId | None) -> None:
        """Refuse the name of an item where the log is of a form that knows none."""
        if item is not None and self.settings.legacy:
            raise InvalidValue(
                "item", "Agent", "left out: this agent was made before items had names", item,
                "Make a new agent, and teach it the examples of this one.",
            )  # fmt: skip

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
        if id in self.questions.waiting:
            wanted = "new; a decision of this id waits for an answer"
            raise InvalidValue("id", "Agent.decide", wanted, id)
        if id in self.checks.open or (self.purse is not None and id in self.purse):
            wanted = "new; the play of a decision of this id waits to be judged"
            raise InvalidValue("id", "Agent.decide", wanted, id)

    def standing(self, example: ItemId) -> Example:
        """Give an example that stands."""
        try:
            return self.examples[plain_id(example)]
        except KeyError:
            raise UnknownId(
                "standing example", example, "It was never taught, or is retracted already."
            ) from None

    def check_examples(self, ids: Sequence[ItemId], arms: Iterable[int]) -> None:
        """Refuse examples whose ids stand already, or that are too many."""
        for id in ids:
            if id in self.examples:
                raise InvalidValue("id", "Agent.teach", "new; an example of this id stands", id)
        if len(self.examples) + len(ids) > self.settings.max_examples:
            remedy = "Create the agent with a higher max_examples."
            raise LimitReached("examples", self.settings.max_examples, remedy)
        self.believing.check(int(self.believing.unit_of[k]) for k in arms)

    def check_arms(self, arms: Sequence[Arm]) -> None:
        """Refuse arms whose ids are taken, or that are too many."""
        more = len(arms) if self.number_of else 0
        width = self.settings.features.width + (self.settings.prior == "centred")
        check_size(len(self.arms) + more, width)
        if self.number_of:
            self.believing.check_grow(len(arms))
        seen = set(self.number_of)
        for arm in arms:
            if arm.id in seen:
                raise InvalidValue("arms", "Agent", "arms of distinct ids", arm.id)
            seen.add(arm.id)

    def check_groups(self, event: Regrouped) -> list[Arm]:
        """Give all arms in their new groups, or refuse these."""
        if self.settings.share == "arm":
            raise NotPossible(
                "This agent was made with share='arm': groups would share nothing. Make it with "
                "share='group'."
            )
        arms = list(self.arms)
        for arm, group in event.groups:
            k = self.arm_number(arm)
            arms[k] = replace(arms[k], group=group)
        names = {arm.group for arm in arms}
        for rule in self.rules.values():
            for group in rule.groups:
                if group not in names:
                    wanted = f"such that {group!r}, which rule {rule.id!r} names, keeps an arm"
                    raise InvalidValue("groups", "Agent.regroup", wanted, dict(event.groups))
        believing = Believing(self.settings, event.limits, arms)  # refuses a kind that does not fit
        believing.check(int(believing.unit_of[e.arm]) for e in self.examples.values())
        return arms

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

    def set_rules(self, rules: Iterable[Rule]) -> None:
        """Put these rules in the place of all others."""
        self.rules, self.compiled_rules = {}, []
        for rule in rules:
            self._declare(rule)
        self._know_rules()

    def _name_arms(self) -> None:
        self.number_of = {arm.id: k for k, arm in enumerate(self.arms)}
        self.arm_ids = tuple(self.number_of)
        self.every: Bools = np.ones(len(self.arms), np.bool_)
        self.every_shown = self.every.view()  # to hand out
        self.every_shown.flags.writeable = False

    def _declare(self, rule: Rule) -> None:
        self.compiled_rules.append(self.compile(rule))
        self.rules[rule.id] = rule

    def _compile(self, rule: Rule) -> CompiledRule:
        groups = [arm.group for arm in self.arms]
        return compile_rule(rule, self.settings.features, self.arm_ids, groups)

    def _compile_rules(self) -> None:
        # A rule for a group covers the arms that join it later.
        self.compiled_rules = [self._compile(rule) for rule in self.rules.values()]

    def _know_rules(self) -> None:
        self.believing.know(self.compiled_rules, self.examples.values())

    def reward_rows(self, contexts: Floats) -> Floats:
        """Give contexts (n, d) as the reward part takes them."""
        if not self.centred:
            return contexts
        return np.hstack([contexts, np.ones((len(contexts), 1))])


def item_of(know: Known, context: AnyContext, item: ArmId | None, owner: str) -> ArmId | None:
    """Return the name of what a context is about: as given, or as its `Id` says."""
    own = know.settings.features.item(context)
    if own is None and item is None:
        return None
    named = [arm_id(one, owner, "item") for one in (own, item) if one is not None]
    if len(set(named)) > 1:
        wanted = f"{own!r}, as the context says, or left out"
        raise InvalidValue("item", owner, wanted, item)
    know.check_item(named[0])
    return named[0]

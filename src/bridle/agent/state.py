"""The state of an agent: the fold of its events, and nothing else.

`AgentState.fold` takes one event; every check stands before the first change, so an event that
cannot be folded leaves all as it was. No randomness, no clock, no files.
"""

from __future__ import annotations

import hashlib
import weakref
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from struct import pack
from typing import Any, NamedTuple, TypeGuard, get_args

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.agent.config import (
    MAX_RULES,
    Arm,
    ArmId,
    ItemId,
    Settings,
    arm_id,
    check_default,
    check_size,
    meant,
    plain_id,
    rows_of,
    sets_of,
)
from bridle.agent.events import (
    Abstained,
    ArmsAdded,
    ArmsChanged,
    ArmsRestored,
    ArmsRetired,
    ArmsVisited,
    Asked,
    Certified,
    Context,
    Created,
    Decided,
    Erased,
    Event,
    Expired,
    ForgettingChanged,
    Judged,
    Lapsed,
    Learned,
    Note,
    PolicyChanged,
    Promised,
    PromiseDropped,
    Regrouped,
    Retracted,
    Rewarded,
    RewardedLate,
    RuleDeclared,
    RuleWithdrawn,
    Scope,
    Shadowed,
    SigmaChanged,
    StartedAnew,
    Taught,
    Uncertified,
    WaitChanged,
)
from bridle.agent.limits_state import Case, Example, LimitsState, Open, Questions
from bridle.agent.purse import Purse
from bridle.agent.scoring import Unscored
from bridle.agent.teachers import LEAST_P, SETTLES, Key, Teachers
from bridle.certificates.certificate import Certificate, about_of
from bridle.errors import InvalidValue, LimitReached, NotPossible, UnknownId
from bridle.kernels import choice, doubt
from bridle.kernels.posterior import add_in_order
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits.declared import CompiledRule, Rule, compile_rule, denied_arms
from bridle.policies import (
    Policy,
    Weighted,
    in_units,
    kernel_weights,
    policy_to_json,
    with_default_spread,
    with_sigma,
)
from bridle.reward.base import DEFAULT as OUR_REWARD
from bridle.reward.base import SHARED as OUR_SHARED
from bridle.reward.base import Forget, RewardModel, make_model, scores_of
from bridle.reward.posterior import LinearArms
from bridle.reward.scaled import ScaledArms
from bridle.reward.shared import SharedArms
from bridle.schema import Context as AnyContext
from bridle.slates import Sets

__all__ = ["AgentState", "Example", "JudgedCase", "OpenCheck", "SpotChecks", "item_of"]


class OpenCheck(NamedTuple):
    """A play that waits to be judged."""

    context: bytes  # d float64, as encoded
    arm: int  # the arm's number
    item: ArmId | None
    coin: float  # the probability with which it was chosen


class SpotChecks:
    """The checks that wait, oldest first, and how many there were; part of the fold.

    At most `max_pending` wait: the oldest are dropped. (A promise counts those as denied.)
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.open: dict[ItemId, OpenCheck] = {}
        self.drawn = 0  # so far
        self.judged = 0
        self.found = 0  # of these: not allowed

    def may(self, decision: int, ahead: int = 0) -> bool:
        """Return whether the settings grant a check of the decision-th decision.

        `ahead` are those that are drawn already and not yet folded.
        """
        most = self._settings.checks
        if most is None:
            return True
        granted = most if isinstance(most, int) else most * decision
        return self.drawn + ahead < granted

    def get(self, decision: object) -> OpenCheck:
        """Return the check of a decision, or raise `UnknownId`."""
        try:
            return self.open[plain_id(decision)]
        except KeyError:
            raise UnknownId(
                "open check",
                decision,
                "Its coin did not fall, or it was judged already. What is known all the same can "
                "be taught: agent.teach(context, arm, allowed).",
            ) from None

    def draw(self, decision: ItemId, check: OpenCheck) -> None:
        """Add a play whose coin fell."""
        self.open[decision] = check
        self.drawn += 1
        while len(self.open) > self._settings.max_pending:
            del self.open[next(iter(self.open))]

    def cancel(self, decision: ItemId) -> None:
        """Drop a check, if there is one: what it was about was not played."""
        if self.open.pop(decision, None) is not None:
            self.drawn -= 1

    def answer(self, decision: ItemId, allowed: bool) -> None:
        """Count the judgement of a play."""
        del self.open[decision]
        self.judged += 1
        self.found += not allowed


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
    scope: Scope = "all"  # scope and end as the last word about it had them
    until: float | None = None
    checks: tuple[ItemId, ...] = ()  # that were judged by it, and wait for it to be settled


def item_of(state: AgentState, context: AnyContext, item: ArmId | None, owner: str) -> ArmId | None:
    """Return the name of what a context is about: as given, or as its `Id` says."""
    own = state.settings.features.item(context)
    if own is None and item is None:
        return None
    named = [arm_id(one, owner, "item") for one in (own, item) if one is not None]
    if len(set(named)) > 1:
        wanted = f"{own!r}, as the context says, or left out"
        raise InvalidValue("item", owner, wanted, item)
    state.check_item(named[0])
    return named[0]


# Variance of an arm's own effect, in units of that of the noise, where it is not found.
OWN_EFFECTS = 0.1
# What may be done with an arm: play it; play it where a request names it; not play it.
STANDING, VISITING, RETIRED = np.int8(0), np.int8(1), np.int8(2)
# Cases whose lack of an answer is accounted for; the oldest are dropped.
MAX_COSTS = 1_000_000
# What one decision may lose, in rewards: far above what any can.
MAX_WORTH = 1e9


class AgentState:
    """The fold of an agent's events."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.remembers = settings.remembers
        self._packed = f"={settings.features.width}d"  # a context as bytes
        low, high = settings.reward_range
        self._reward_range = validation.FloatRange(low, high)
        self._reward_span = high - low
        self.wait, self.default_reward = settings.wait, settings.default_reward
        self.version = 1  # Created is the first event
        self.decisions = 0  # made so far: the next decision's own number is one more
        self.taught = 0
        self.dropped = 0  # pending decisions that were dropped unrewarded
        self.arms: list[Arm] = list(settings.arms)
        self.number_of: dict[ArmId, int] = {}
        self.arm_ids: tuple[ArmId, ...] = ()
        self.ids_are_numbers = True
        self.check_arms(settings.arms)
        # The encoded features of arms, (K, p); None if they have none.
        self.arm_rows: Floats | None = None
        if settings.arm_features is not None:
            self.arm_rows = rows_of(self.arms, settings.arm_features.width)
        self.status: npt.NDArray[np.int8] = np.zeros(len(self.arms), np.int8)
        self.centred = settings.reward == OUR_REWARD and settings.prior != "paper"
        self.reward_model: RewardModel | SharedArms = self._new_model()
        self.set_policy(settings.policy)
        self._total, self._number = FIRST_GUESS  # sum and number of all rewards
        self._vouched: weakref.ref[Floats] | None = None  # rows of history that were just checked
        self.unscored = Unscored()  # decisions in use, for what they may be asked yet
        self.questions = Questions(settings)
        self.pending: dict[ItemId, tuple[bytes, int]] = {}
        self.examples: dict[ItemId, Example] = {}
        self.about_item: dict[ArmId, dict[ItemId, Example]] = {}  # those with a named item
        self.denials: dict[Case, dict[int, int]] = {}  # case → arm → standing denials
        self.allowances: dict[Case, dict[int, int]] = {}  # the same of what was allowed
        # Examples that allowed an arm as it was before its features changed: no longer certain.
        self.outdated: set[ItemId] = set()
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
        self._sets: Sets | None = None
        self.certificate: Certificate | None = None
        self._certified: dict[bytes, Bools] = {}
        self.rules: dict[str, Rule] = {}
        self.compiled_rules: list[CompiledRule] = []
        self._name_arms()
        self.limits_state = LimitsState(settings, settings.limits, self.arms, (), self.arm_rows)
        self.set_rules(settings.rules)

    def set_policy(self, policy: Policy) -> None:
        """Choose by this policy from now on."""
        self.policy = policy
        self._set_units()
        self.compiled = isinstance(policy, Weighted)  # else it chooses in plain Python

    def _set_units(self) -> None:
        """Take the spread of draws in the units that the reward model finds, if it does."""
        self.acting = self.as_acting(self.policy)
        self.weights = kernel_weights(self.acting)

    def as_acting(self, policy: Policy) -> Policy:
        """Return a policy as it acts now: its spread by default, in the units of its draws."""
        whole = with_default_spread(policy, self.settings.default_v)
        return (
            whole if self.scaled is None else in_units(whole, self.scaled.unit, self.scaled.noise)
        )

    def check_policy(self, policy: Policy) -> None:
        """Raise an error for a policy that no agent can choose by."""
        policy_to_json(policy)
        if getattr(policy, "needs_truth", False):
            wanted = "one that is not told the truth"
            raise InvalidValue("policy", "Agent.set_policy", wanted, policy)

    # -- the reward part ---------------------------------------------------------------------

    def _new_model(self) -> RewardModel | SharedArms:
        """Return a reward model that has learned nothing yet."""
        settings = self.settings
        if settings.joint is not None and self.arm_rows is not None:
            # Unless it finds its own scale, equal-looking arms differ by a little.
            scaled = settings.prior == "scaled"
            return SharedArms(
                rows=self.arm_rows,
                features=settings.features.width,
                interactions=settings.joint,
                lam=None if scaled else settings.ridge,
                rho=None if scaled else OWN_EFFECTS,
                forget=None if settings.forget == "never" else settings.forget,
            )
        if settings.reward == OUR_REWARD and settings.prior == "scaled":
            forget = settings.forget
            assert forget is not None
            width = settings.features.width + 1
            return ScaledArms(arms=len(self.arms), features=width, forget=forget)
        if settings.reward == OUR_REWARD:
            return LinearArms(
                arms=len(self.arms),
                features=settings.features.width + self.centred,
                ridge=settings.ridge,
            )
        return make_model(
            settings.reward,
            settings.reward_version,
            arms=len(self.arms),
            features=settings.features.width,
            options=settings.reward_options or {},
        )

    @property
    def shared(self) -> SharedArms | None:
        """The reward model that arms share by what they are like; None if it is another."""
        return self.reward_model if isinstance(self.reward_model, SharedArms) else None

    @property
    def scaled(self) -> ScaledArms | None:
        """The reward model that finds its scale, an arm alone; None if it is another."""
        return self.reward_model if isinstance(self.reward_model, ScaledArms) else None

    @property
    def reward_arms(self) -> LinearArms:
        """Our own reward model; raises `NotPossible` where it is somebody else's."""
        if not isinstance(self.reward_model, LinearArms):
            raise NotPossible(
                f"This agent has the reward model {self.settings.reward!r}, and this is known of "
                "bridle's own alone."
            )
        return self.reward_model

    @property
    def pull(self) -> float:
        """How far the means of all arms are drawn to the mean of all rewards."""
        if not self.centred:
            return 0.0
        if isinstance(self.reward_model, ScaledArms):
            return self.reward_model.pull
        # As in `loop.pull_of`, without a call of a kernel.
        return self.settings.ridge * self._total / self._number

    @property
    def totals(self) -> Floats:
        """The sum and the number of all rewards, those of `FIRST_GUESS` with them: (2,), a copy."""
        return np.array([self._total, self._number])

    @totals.setter
    def totals(self, totals: Floats) -> None:
        self._total, self._number = totals.tolist()

    def reward_parts(self, row: Floats, parts: Floats) -> None:
        """Predict the reward of every arm: parts[0] becomes its mean, parts[1] its sd."""
        model = self.reward_model
        if isinstance(model, LinearArms):
            arms = model.kernel_state
            choice.reward_parts(arms.A, arms.mu, self.pull, row, parts)
        elif isinstance(model, SharedArms):
            parts[0], parts[1] = model.scores(row)
        else:
            parts[0], parts[1] = scores_of(model, row)

    def reward_parts_many(self, rows: Floats, parts: Floats) -> None:
        """Predict for each row: parts is (n, 7, K)."""
        if isinstance(self.reward_model, LinearArms):
            arms = self.reward_model.kernel_state
            choice.reward_parts_many(arms.A, arms.mu, self.pull, rows, parts)
        else:
            for row, one in zip(rows, parts, strict=True):
                self.reward_parts(row, one)

    def _update_reward(self, arms: Ints, contexts: Floats, units: Floats) -> None:
        """Fold rewards of [0, 1], in order, into the reward part: contexts are (n, d)."""
        if isinstance(self.reward_model, LinearArms | SharedArms):
            self.reward_model.fold_many(arms, contexts, units)  # the first adds a trailing 1
            self._set_units()
        else:
            for arm, row, unit in zip(arms.tolist(), contexts, units.tolist(), strict=True):
                self.reward_model.update(arm, row, unit)
        self._count_rewards(units)

    def _count_rewards(self, units: Floats) -> None:
        self._total = float(add_in_order(self._total, units))
        self._number += len(units)

    # -- questions ---------------------------------------------------------------------------

    def arm_number(self, arm: object) -> int:
        """Return the number of an arm, by its id."""
        try:
            # An id that is right already is the rule.
            return self.number_of[arm if type(arm) is str or type(arm) is int else plain_id(arm)]
        except KeyError:
            known = ", ".join(repr(known.id) for known in self.arms[:5])
            more = ", …" if len(self.arms) > 5 else ""
            there = f"The agent has {len(self.arms)}: {known}{more}."
            hint = meant(arm, self.arms, self.settings.arm_features)
            raise UnknownId("arm", arm, f"{hint} {there}" if hint else there) from None

    def eligible(
        self,
        context: Floats,
        among: Sequence[int] | None,
        item: ArmId | None = None,
        policy: Policy | None = None,
    ) -> Bools:
        """Return which arms may be played: `offered`, and certified or allowed to the letter.

        With a certificate the live limits bind every policy, too; a mask sees to that itself.
        """
        offered = self.offered(context, among, item)
        if self.certificate is None:  # which is the rule
            return offered
        certified = self.certified(context)
        assert certified is not None
        certified = certified.copy()
        if not (self.policy if policy is None else policy).needs_limits:
            certified &= self.limits_state.seen(context.tobytes()).marks == doubt.SAFE
        certified[self.allowed_here(context, item)] = True
        return offered & certified

    def certified(self, context: Floats) -> Bools | None:
        """Return which arms the certificate lets through; None without one. Not a copy."""
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
        """Raise an error if a certificate cannot bind this agent."""
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
        """Return the purse of a promise, or raise `NotPossible`."""
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
        if not here or arm >= len(self.arms):  # or one that a request brought along
            return False
        unit_of = self.limits_state.unit_of
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
        unit = int(self.limits_state.unit_of[arm])
        if item is not None:
            return item, unit
        return hashlib.blake2b(context, digest_size=16).hexdigest(), str(unit)

    def prior_of(self, context: bytes, arm: int) -> float:
        """Return the limits' own P(allowed), as far from sure as judgements take it."""
        p = float(self.limits_state.seen(context).p[arm])
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
        unit_of = self.limits_state.unit_of
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
        unit_of = self.limits_state.unit_of
        return np.flatnonzero(np.isin(unit_of, unit_of[listed])).tolist()

    def offered(
        self, context: Floats, among: Sequence[int] | None, item: ArmId | None = None
    ) -> Bools:
        """Return which arms are asked for, not denied by a rule and not denied exactly."""
        denied_here = self.denied_here(context, item)
        if among is None and not denied_here and not self.compiled_rules:
            return self.every
        if among is None:
            eligible = self.every.copy()
        else:
            eligible = np.zeros(len(self.arms), np.bool_)
            eligible[among] = self.status[among] != RETIRED
        eligible[denied_here] = False
        if self.compiled_rules:
            eligible &= ~denied_arms(self.compiled_rules, context, len(self.arms))
        return eligible

    def said(
        self, context: Floats, eligible: Bools, item: ArmId | None = None
    ) -> npt.NDArray[np.int8]:
        """Return what is certain of every arm: SAID_NO, SAID_YES or UNASKED, as in `doubt`."""
        said = np.where(eligible, doubt.UNASKED, doubt.SAID_NO).astype(np.int8)
        for k in self.allowed_here(context, item):
            if said[k] == doubt.UNASKED:
                said[k] = doubt.SAID_YES
        return said

    def check_item(self, item: ArmId | None) -> None:
        """Raise `InvalidValue` for the name of an item in a log whose form has none."""
        if item is not None and self.settings.legacy:
            raise InvalidValue(
                "item",
                "Agent",
                "left out: this agent was made before items had names",
                item,
                "Make a new agent, and teach it the examples of this one.",
            )

    def arm_numbers(self, arms: Iterable[object]) -> Ints:
        """Return the numbers of many arms, by their ids."""
        return np.array([self.arm_number(arm) for arm in arms], np.int64)

    def counted(self, arms: object, n: int) -> Ints | None:
        """Return the numbers of n arms whose ids are their numbers, at once; None for all else."""
        if not (type(arms) is np.ndarray and arms.dtype == np.int64 and arms.shape == (n,)):
            return None
        if not self.ids_are_numbers or not n or not 0 <= arms.min() <= arms.max() < len(self.arms):
            return None
        return arms.copy()

    def vouch(self, rows: Floats) -> Floats:
        """Return rows that were checked, for an event to hold: `_learned` looks at no other twice.

        Nobody can write into what is returned. Kernels read what is behind it: of an array that
        cannot be written they would need a version of their own.
        """
        shown = rows.view()
        shown.flags.writeable = False
        self._vouched = weakref.ref(shown)
        return shown

    def check_rewards(self, values: object, n: int, owner: str) -> Floats:
        """Return n rewards in the agent's range, not yet mapped."""
        low, high = self.settings.reward_range
        wanted = f"{n} floats in the range [{low:g}, {high:g}]"
        kinds = map(type, values) if isinstance(values, list | tuple) else ()
        if bool in kinds or getattr(values, "dtype", None) == np.bool_:
            raise InvalidValue("rewards", owner, wanted, values)
        rewards = validation.floats(values, "rewards", owner, wanted)
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
        """Return context and arm number of a decision that waits for its reward."""
        try:
            return self.pending[plain_id(decision)]
        except KeyError:
            why = (
                "It was never made, is rewarded already, or was dropped as one of the oldest of "
                f"more than {self.settings.max_pending:,} (max_pending)."
            )
            if hasattr(decision, "id"):
                why = "Give its id: decision.id."
            raise UnknownId("pending decision", decision, why) from None

    def check_decision(self, id: ItemId) -> None:
        """Raise `InvalidValue` for a decision whose id is pending already."""
        if id in self.pending:
            raise InvalidValue("id", "Agent.decide", "new; a decision of this id is pending", id)
        if id in self.questions.waiting:
            wanted = "new; a decision of this id waits for an answer"
            raise InvalidValue("id", "Agent.decide", wanted, id)
        if id in self.checks.open or (self.purse is not None and id in self.purse):
            wanted = "new; the play of a decision of this id waits to be judged"
            raise InvalidValue("id", "Agent.decide", wanted, id)

    def standing(self, example: ItemId) -> Example:
        """Return an example that stands."""
        try:
            return self.examples[plain_id(example)]
        except KeyError:
            raise UnknownId(
                "standing example", example, "It was never taught, or is retracted already."
            ) from None

    def check_examples(self, ids: Sequence[ItemId], arms: Iterable[int]) -> None:
        """Raise an error for examples whose ids stand already, or that are too many."""
        for id in ids:
            if id in self.examples:
                raise InvalidValue("id", "Agent.teach", "new; an example of this id stands", id)
        if len(self.examples) + len(ids) > self.settings.max_examples:
            remedy = "Create the agent with a higher max_examples."
            raise LimitReached("examples", self.settings.max_examples, remedy)
        self.limits_state.check([int(self.limits_state.unit_of[k]) for k in arms])

    def check_arms(self, arms: Sequence[Arm]) -> None:
        """Raise an error for arms whose ids are taken, or that are too many."""
        more = len(arms) if self.number_of else 0
        width = self.settings.features.width + (self.settings.prior != "paper")
        check_size(len(self.arms) + more, 0 if self.settings.reward == OUR_SHARED else width)
        if self.number_of:
            self.limits_state.check_grow(len(arms))
        seen: set[ArmId] = set()
        for arm in arms:
            if arm.id in seen or arm.id in self.number_of:
                remedy = "Agent.change_arms changes an arm, restore_arms brings back a retired one."
                raise InvalidValue("arms", "Agent", "arms of distinct ids", arm.id, remedy)
            seen.add(arm.id)

    def check_groups(self, event: Regrouped) -> list[Arm]:
        """Return all arms in their new groups, or raise an error."""
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
        # Refuses a kind that does not fit.
        limits_state = LimitsState(self.settings, event.limits, arms, (), self.arm_rows)
        limits_state.check(int(limits_state.unit_of[e.arm]) for e in self.examples.values())
        return arms

    def check_changed(self, arms: Sequence[Arm]) -> list[tuple[int, Arm]]:
        """Return arms as they will be, encoded, with their numbers; or raise an error."""
        out: list[tuple[int, Arm]] = []
        met: set[int] = set()
        for arm in arms:
            k = self.arm_number(arm.id)
            if k in met:
                raise InvalidValue("arms", "Agent.change_arms", "arms of distinct ids", arm.id)
            met.add(k)
            if arm.group != self.arms[k].group:
                wanted = f"of the group that it has, {self.arms[k].group!r}"
                remedy = "Groups are changed by agent.regroup."
                raise InvalidValue(
                    f"arm {arm.id!r}", "Agent.change_arms", wanted, arm.group, remedy
                )
            out.append((k, arm.encoded(self.settings.arm_features, "Agent.change_arms")))
        return out

    def check_retired(self, arms: Sequence[ArmId]) -> list[int]:
        """Return the numbers of arms that may be retired, or raise an error."""
        numbers = [self.arm_number(arm) for arm in arms]
        safe = self.settings.safe_arm
        if safe is not None and self.number_of[safe] in numbers:
            raise NotPossible(
                f"The arm {safe!r} is the safe arm of this agent, which is played where no other "
                "may be: it cannot be retired."
            )
        return numbers

    def compile(self, rule: Rule) -> CompiledRule:
        """Return a new rule in the form that decides, or raise an error."""
        if rule.id in self.rules:
            raise InvalidValue("rule", "Agent.declare", "of a new id", rule.id)
        if len(self.rules) >= MAX_RULES:
            raise LimitReached("rules", MAX_RULES, "Withdraw some first.")
        return self._compile(rule)

    def check_rule(self, rule: str) -> None:
        """Raise `UnknownId` for a rule that does not stand."""
        if plain_id(rule) not in self.rules:
            raise UnknownId("rule", rule, f"These stand: {sorted(self.rules)[:10]}.")

    # -- small parts -------------------------------------------------------------------------

    def raw(self, context: Context) -> bytes:
        """Return a context as the bytes of its d float64, equal where contexts are equal."""
        if len(context) != self.settings.features.width:
            wanted = f"{self.settings.features.width} numbers"
            raise InvalidValue("context", "Agent.apply", wanted, context)
        raw = pack(self._packed, *context)
        if 0x80 in raw and MINUS_ZERO in raw:  # the first look is ten times as fast
            raw = (np.frombuffer(raw) + 0.0).tobytes()
        return raw

    def set_rules(self, rules: Iterable[Rule]) -> None:
        """Put these rules in the place of all others."""
        self.rules, self.compiled_rules = {}, []
        for rule in rules:
            self._declare(rule)
        self._know_rules()

    @property
    def sets(self) -> Sets | None:
        """What no slate may hold together, over the arms as they are; None if anything may be."""
        limits = self.settings.set_limits
        if limits is None:
            return None
        if self._sets is None:
            self._sets = sets_of(limits, self.arms, self.settings.arm_features)
        return self._sets

    def _name_arms(self) -> None:
        """Number the arms that have no number yet: all of them, or those that were added."""
        K = len(self.arm_ids)
        ids = [arm.id for arm in self.arms[K:]]
        self.number_of.update(zip(ids, range(K, K + len(ids)), strict=True))
        self.arm_ids = (*self.arm_ids, *ids)
        self.ids_are_numbers = self.ids_are_numbers and ids == list(range(K, K + len(ids)))
        self._sets = None
        self._offer_arms()

    def _offer_arms(self) -> None:
        self.every: Bools = self.status == STANDING
        self.every_shown = self.every.view()  # to hand out
        self.every_shown.flags.writeable = False

    def _declare(self, rule: Rule) -> None:
        self.compiled_rules.append(self.compile(rule))
        self.rules[rule.id] = rule

    def _compile(self, rule: Rule) -> CompiledRule:
        groups = [arm.group for arm in self.arms]
        settings = self.settings
        return compile_rule(
            rule, settings.features, self.arm_ids, groups, settings.arm_features, self.arm_rows
        )

    def _compile_rules(self) -> None:
        # A rule for a group covers the arms that join it later.
        self.compiled_rules = [self._compile(rule) for rule in self.rules.values()]

    def _know_rules(self) -> None:
        self.limits_state.set_rules(self.compiled_rules, self.examples.values())

    def reward_rows(self, contexts: Floats) -> Floats:
        """Return contexts (n, d) as our reward model takes them."""
        if not self.centred:
            return contexts
        return np.hstack([contexts, np.ones((len(contexts), 1))])

    # -- the fold ----------------------------------------------------------------------------

    def fold(self, event: Event) -> None:
        """Fold one event of our own, or one that `check_event` let pass."""
        kind = type(event)
        if kind not in CHOICES:
            if kind not in LEAVES_SCORES:
                self.unscored.score_all()
            self.unscored.moved += 1
        _FOLDERS[kind](self, event)
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
        self._fold_choices(ids, contexts, arms, items, coins)

    def fold_slate(
        self,
        first: Decided,
        ids: Sequence[ItemId],
        arms: Sequence[int],
        coins: Sequence[tuple[float | None, bool]] | None,
    ) -> None:
        """Fold a slate that was just made and has lost nothing: as its events, one by one."""
        n = len(ids)
        self._fold_choices(ids, [self.raw(first.context)] * n, arms, [first.item] * n, coins)

    def _fold_choices(
        self,
        ids: Sequence[ItemId],
        contexts: Sequence[bytes],
        arms: Sequence[int],
        items: Sequence[ArmId | None],
        coins: Sequence[tuple[float | None, bool]] | None,
    ) -> None:
        made = zip(ids, zip(contexts, arms, strict=True), strict=True)
        every = min(arms, default=0) >= 0
        self.pending.update(made if every else [one for one in made if one[1][1] >= 0])
        self._drop()
        self.decisions += len(arms)
        if self.settings.patience is not None:
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
            self.limits_state.count_play(arm)
        if checked:
            self.checks.draw(id, OpenCheck(raw, arm, item, coin))

    def fold_rewards(self, ids: Sequence[ItemId], rewards: Floats) -> None:
        """Fold many rewards at once: the same state as `fold` of their events, one by one."""
        self.unscored.score_all()
        self.unscored.moved += 1
        taken = [self.pending.pop(id) for id in ids]
        arms = np.array([k for _, k in taken], np.int64)
        raw = bytearray().join([raw for raw, _ in taken])
        contexts = np.frombuffer(raw).reshape(len(taken), self.settings.features.width)
        units = self.unit_rewards(rewards)
        if self.scaled is None:
            self._update_reward(arms, contexts, units)
        else:
            self.scaled.fold_each(arms, contexts, units)
            self._set_units()
            self._count_rewards(units)
        self.version += len(taken)

    def _created(self, event: Created) -> None:
        raise NotPossible("An agent is created once; a Created can only be the first event.")

    def _arms_added(self, event: ArmsAdded) -> None:
        self.add_arms(event.arms)

    def _arms_visited(self, event: ArmsVisited) -> None:
        self.add_arms(event.arms, VISITING)

    def _arms_changed(self, event: ArmsChanged) -> None:
        changed = self.check_changed(event.arms)
        arms = list(self.arms)
        before = self.arm_rows
        rows = None if before is None else before.copy()
        for k, arm in changed:
            arms[k] = arm
            if rows is not None and self.settings.arm_features is not None:
                rows[k] = rows_of([arm], self.settings.arm_features.width)[0]
        self.arms, self.arm_rows = arms, rows
        self._sets = None
        if rows is None:
            return
        for k, _ in changed:
            if isinstance(self.reward_model, SharedArms):
                self.reward_model.change(k, rows[k])
        if self.limits_state.pairs is not None and before is not None:
            self._outdate({k for k, _ in changed if (rows[k] != before[k]).any()})
        groups = [arm.group for _, arm in changed]
        self.limits_state.change_arms([k for k, _ in changed], rows, groups)
        self._compile_rules()
        self._know_rules()

    def _arms_retired(self, event: ArmsRetired) -> None:
        self._mark(self.check_retired(event.arms), RETIRED)

    def _arms_restored(self, event: ArmsRestored) -> None:
        self._mark([self.arm_number(arm) for arm in event.arms], STANDING)

    def _mark(self, numbers: Sequence[int], status: np.int8) -> None:
        marked = self.status.copy()
        marked[numbers] = status
        self.set_status(marked)

    def set_status(self, status: npt.NDArray[np.int8]) -> None:
        """Take what may be done with each arm: (K,) of STANDING, VISITING and RETIRED."""
        self.status = status
        self._offer_arms()

    def _policy_changed(self, event: PolicyChanged) -> None:
        self.check_policy(event.policy)
        self.set_policy(event.policy)

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
            event.id,
            raw,
            k,
            event.allowed,
            event.by,
            event.note,
            event.item,
            event.scope,
            event.until,
        )
        self.limits_state.learn(example)
        self.remember(example)
        if event.question in self.questions.open:
            asked = self.questions.open[event.question]
            if event.allowed and asked.decision is not None and self.limits_state.pairs is not None:
                # What was lost at other arms so far was lost for want of any one of them.
                self.costs.pop(example.case, None)
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
        """Drop who said what of a case; what it taught about who errs stays."""
        if self.judged.pop(key, None) is not None:
            self.teachers.forget(*key)

    def _drop_all_words(self) -> None:
        self.teachers.forget_all()
        self.judged.clear()

    def _check_about(self, event: Taught | Judged, k: int, raw: bytes) -> None:
        """Raise `InvalidValue` for a judgement of another play, or a scope that cannot be."""
        if event.check is not None:
            check = self.checks.get(event.check)
            if (check.arm, check.context, check.item) != (k, raw, event.item):
                wanted = "a decision that played this arm in this context"
                raise InvalidValue("check", "Agent.apply", wanted, event.check)
        if event.scope == "item" and event.item is None:
            wanted = "'all' where the item has no name"
            raise InvalidValue("scope", "Agent.teach", wanted, event.scope)

    def _check_life(self, event: Taught, k: int, raw: bytes) -> None:
        """Raise `InvalidValue` for what answers of earlier forms have not, or for another play."""
        self._check_about(event, k, raw)
        plain = event.scope == "all" and event.until is None and not event.replaces
        if not plain and not self.settings.lives:
            wanted = "left out: this agent was made before answers had a life"
            raise InvalidValue("until", "Agent.teach", wanted, event.until)
        if len(set(event.replaces)) != len(event.replaces):
            raise InvalidValue("replaces", "Agent.apply", "distinct examples", event.replaces)

    def _check_question(self, event: Taught | Judged, k: int, raw: bytes) -> None:
        """Raise `InvalidValue` for an answer to an open question about something else."""
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
        """Remove an example."""
        del self.examples[example.id]
        if example.item is not None:
            here = self.about_item[example.item]
            del here[example.id]
            if not here:
                del self.about_item[example.item]
        self.limits_state.forget(example, self.examples.values())
        if example.id in self.outdated:
            self.outdated.discard(example.id)
        else:
            self._unsay(example)

    def _outdate(self, arms: set[int]) -> None:
        """Let what allowed these arms be evidence alone, as they are others now; denials stay."""
        for example in self.examples.values():
            if example.allowed and example.arm in arms and example.id not in self.outdated:
                self.outdated.add(example.id)
                self._unsay(example)

    def _unsay(self, example: Example) -> None:
        """Let what an example says be certain no more."""
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
        if event.visitors is not None:
            self._meet(event, [event.arm])
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
        schema = self.settings.arm_features
        visitors = event.visitors and tuple(arm.encoded(schema) for arm in event.visitors)
        self.questions.ask(event.id, question, event.among, event.propensity, visitors)

    def _lapsed(self, event: Lapsed) -> None:
        self.questions.get(event.question)
        self.questions.lapse(event.question)

    def _meet(self, event: Asked | Decided | Abstained, arms: Sequence[ArmId | None]) -> None:
        """Take in those of these arms that a request brought along."""
        known = {arm.id: arm for arm in event.visitors or ()}
        named = dict.fromkeys(arm for arm in arms if arm in known and arm not in self.number_of)
        if named:
            self.add_arms([known[arm] for arm in named if arm is not None], VISITING)

    def _decided(self, event: Decided) -> None:
        if not (event.slate is event.place is event.places is None):
            whole = None not in (event.slate, event.place, event.places)
            if not whole or not 1 <= (event.place or 0) <= (event.places or 0):
                expected = "with slate, place and places, or with none of them"
                raise InvalidValue("place", "Agent.apply", expected, event.place)
        if event.visitors is not None:
            self._meet(event, [event.arm, event.wanted])
        k = self.arm_number(event.arm)
        self._check_id(event.id, self.decisions, event.version)
        raw = self.raw(event.context)
        wanted = self._wanted(event)
        self._start(event.id, raw, event.item)
        self.questions.waiting.pop(event.id, None)
        if wanted is not None:
            self._charge(raw, event, wanted)
        if event.coin is not None or self.purse is not None:
            self._take_coin(event.id, raw, k, event.item, event.coin, event.checked)
        self.pending[event.id] = (raw, k)
        self._drop()

    def _abstained(self, event: Abstained) -> None:
        self._check_id(event.id, self.decisions, event.version)
        if event.visitors is not None:
            self._meet(event, [event.wanted])
        raw, wanted = self.raw(event.context), self._wanted(event)
        self._start(event.id, raw, event.item)
        self.questions.waiting.pop(event.id, None)
        if wanted is not None:
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
        if self.settings.patience is not None:
            self.questions.age(self.decisions)

    def _rewarded(self, event: Rewarded) -> None:
        raw, k = self.pending_context(event.decision)
        unit = self.unit_reward(event.value)
        row = np.frombuffer(bytearray(raw + ONE if self.centred else raw))
        model = self.reward_model
        if isinstance(model, LinearArms):
            self.unscored.save(k, model.kernel_state.A, model.kernel_state.mu)
            if model.fold(k, row, unit) and isinstance(model, ScaledArms):
                self.unscored.score_all()  # other arms move, too
                model.rescale()
                self._set_units()
        elif isinstance(model, SharedArms):
            model.fold(k, row, unit)
        else:
            model.update(k, row, unit)
        del self.pending[event.decision]
        self._total += unit
        self._number += 1.0

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
        given: Any = event.contexts
        vouched = None if self._vouched is None else self._vouched() is given
        rows = given.base if vouched and given.base.shape == given.shape else None
        if rows is None:
            rows = validation.matrix(given, self.settings.features.width, "contexts", "Agent.apply")
        arms = validation.indices(
            event.arm_numbers, len(rows), len(self.arms), "arms", "Agent.apply"
        )
        self._update_reward(arms, rows, units)

    def _sigma_changed(self, event: SigmaChanged) -> None:
        self.set_policy(with_sigma(self.policy, event.sigma))

    def check_forget(self, forget: Forget) -> None:
        """Raise `NotPossible` where the reward model cannot forget."""
        if self.settings.prior != "scaled" and forget != "never":
            raise NotPossible(
                "Only reward models with the scaled prior forget. Make the agent with "
                "prior='scaled'."
            )

    def _forgetting_changed(self, event: ForgettingChanged) -> None:
        self.check_forget(event.forget)
        self.unscored.score_all()
        if self.scaled is not None:
            self.scaled.set_forget(event.forget)
        elif self.shared is not None:
            self.shared.forget(None if event.forget == "never" else event.forget)

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
            met = [arm for arm in event.arms or () if arm.id not in self.number_of]
            self.add_arms(met, VISITING)
        elif isinstance(event, RewardedLate):
            self.unit_reward(event.value)

    def _regrouped(self, event: Regrouped) -> None:
        self.regroup(self.check_groups(event), event.limits, tuple(self.rules.values()))
        self._drop_all_words()  # they were of units that are no more
        self.limits_state.learn_all(self.examples.values())

    def regroup(self, arms: Sequence[Arm], kind: str, rules: Sequence[Rule]) -> None:
        """Begin anew with limits of this kind, for the same arms in these groups."""
        limits_state = LimitsState(self.settings, kind, arms, (), self.arm_rows)
        self.arms, self.limits_state = list(arms), limits_state
        self._sets = None
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
        self.outdated.clear()
        self.contradictions = 0
        self._drop_all_words()
        for decision, waits in self.questions.waiting.items():
            self.questions.waiting[decision] = waits._replace(allowed=())
        self.regroup(self.arms, self.limits_state.kind, tuple(self.rules.values()))
        for example in kept:
            self.remember(example)
        self.limits_state.learn_all(kept)

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

    def add_arms(self, arms: Sequence[Arm], status: np.int8 = STANDING) -> None:
        """Put arms after the others; in a known group they start with what it knows."""
        schema = self.settings.arm_features
        arms = [arm.encoded(schema) for arm in arms]
        self.check_arms(arms)
        if not arms:
            return
        self.unscored.moved += 1
        self.arms = [*self.arms, *arms]
        self.status = np.concatenate([self.status, np.full(len(arms), status)])
        rows = None
        if schema is not None and self.arm_rows is not None:
            rows = rows_of(arms, schema.width)
            self.arm_rows = np.concatenate([self.arm_rows, rows])
        if isinstance(self.reward_model, SharedArms):
            assert rows is not None
            self.reward_model.grow(rows)
        else:
            self.reward_model.grow(len(arms))
        self.limits_state.grow(arms, rows)
        self._name_arms()
        self._compile_rules()
        self._know_rules()

    def remember(self, example: Example) -> None:
        """Keep an example, for what it makes certain and for a retraction."""
        self.examples[example.id] = example
        if example.item is not None:
            self.about_item.setdefault(example.item, {})[example.id] = example
        if example.id in self.outdated:  # as it was saved
            return
        certain = self.allowances if example.allowed else self.denials
        here = certain.setdefault(example.case, {})
        here[example.arm] = here.get(example.arm, 0) + 1
        self._settle(example.case, example.arm)

    # -- what not asking costs -----------------------------------------------------------------

    def _wanted(self, event: Decided | Abstained) -> int | None:
        """Return the number of the arm that a decision would have liked to play, checked."""
        if event.item is event.wanted is event.worth is event.lesson is None:  # which is the rule
            return None
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

    def _charge(self, raw: bytes, event: Decided | Abstained, wanted: int) -> None:
        """Add what a decision lost to the account of its case and of the unit that it wanted."""
        assert event.worth is not None
        case: Case = raw if event.item is None else event.item
        unit = int(self.limits_state.account_of[wanted])
        here = self.costs.setdefault(case, {})
        here[unit] = here.get(unit, 0.0) + event.worth
        if event.lesson:
            self.lessons[unit] = self.lessons.get(unit, 0.0) + event.lesson
        while len(self.costs) > MAX_COSTS:
            del self.costs[next(iter(self.costs))]

    def _settle(self, case: Case, arm: int) -> None:
        """Close the account of a case and unit: the teacher is asked, or has spoken."""
        unit = int(self.limits_state.account_of[arm])
        self.lessons.pop(unit, None)
        here = self.costs.get(case)
        if here is not None:
            here.pop(unit, None)
            if not here:
                del self.costs[case]


# After these, decisions made before can still compute their scores; see `Unscored`.
LEAVES_SCORES = frozenset({Decided, Abstained, Asked, Rewarded, Expired, Shadowed})
# These move no score.
CHOICES = frozenset({Decided, Abstained, Asked})

_FOLDERS: dict[type, Callable[[AgentState, Any], None]] = {
    Created: AgentState._created,
    ArmsAdded: AgentState._arms_added,
    ArmsVisited: AgentState._arms_visited,
    ArmsChanged: AgentState._arms_changed,
    ArmsRetired: AgentState._arms_retired,
    ArmsRestored: AgentState._arms_restored,
    Asked: AgentState._asked,
    Lapsed: AgentState._lapsed,
    Taught: AgentState._taught,
    Judged: AgentState._judged,
    Retracted: AgentState._retracted,
    Decided: AgentState._decided,
    Abstained: AgentState._abstained,
    Rewarded: AgentState._rewarded,
    Expired: AgentState._expired,
    Shadowed: AgentState._shadowed,
    Learned: AgentState._learned,
    SigmaChanged: AgentState._sigma_changed,
    PolicyChanged: AgentState._policy_changed,
    ForgettingChanged: AgentState._forgetting_changed,
    WaitChanged: AgentState._wait_changed,
    Regrouped: AgentState._regrouped,
    Certified: AgentState._adopted,
    Uncertified: AgentState._uncertified,
    Promised: AgentState._promised,
    PromiseDropped: AgentState._promise_dropped,
    StartedAnew: AgentState._started_anew,
    RuleDeclared: AgentState._rule_declared,
    RuleWithdrawn: AgentState._rule_withdrawn,
    **dict.fromkeys(get_args(Note), AgentState._noted),
}

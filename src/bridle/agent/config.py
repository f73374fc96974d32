"""Every choice that is made when an agent is created, in full.

The `Created` event holds all of it, so that a default that changes in a later version never
changes what an old log means.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import islice
from typing import Any, TypeAlias, cast

import numpy as np

from bridle import registry, validation
from bridle.agent.teachers import MAX_TEACHERS, Teacher
from bridle.errors import BridleError, CorruptState, InvalidValue, LimitReached, NotRegistered
from bridle.limits import KINDS, LABEL_CODINGS
from bridle.limits.declared import Rule
from bridle.policies import ACTIVE, TEACHINGS, Policy, policy_from_json, policy_to_json
from bridle.reward.base import DEFAULT as OUR_REWARD
from bridle.schema import Feature, Schema

__all__ = [
    "Arm",
    "ArmId",
    "ItemId",
    "Json",
    "Settings",
    "arm_id",
    "check_default",
    "check_size",
    "item_id",
    "listed",
    "plain_id",
    "the_arms",
    "the_schema",
    "words",
]

ArmId: TypeAlias = int | str
# Of decisions, questions and examples: a number is given by the agent, a string by the caller.
ItemId: TypeAlias = int | str
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

PENDING = validation.IntRange(1, 100_000_000)
EXAMPLES = validation.IntRange(1, 100_000_000)
QUESTIONS = validation.IntRange(0, 2**53)
AT_MOST = validation.IntRange(1, 1_000)
DOUBT = validation.FloatRange(0.0, 0.5, open_low=True, open_high=True)
ERROR = validation.FloatRange(1e-6, 0.49)
# A teacher who errs more often than this is not taken at their word in any single case.
NOISY_ABOVE = 0.02
# Seconds; a century is for ever.
WAIT = validation.FloatRange(0.0, 3.2e9, open_low=True)
PRICE = validation.FloatRange(0.0, 1e6)
ARM_NUMBER = validation.IntRange(-(2**53), 2**53)
PRIORS = ("centred", "paper")
SHARES = ("group", "arm")
ON_EMPTY = ("abstain", "safe_arm", "least_bad")
ON_DOUBT = ("wait", "play_safe")
# Settings that logs of the first form do not have, and what was meant then.
LATER: dict[str, Json] = {
    "share": "arm",
    "crosses": False,
    "doubt": None,
    "teacher_error": 0.001,
    "on_empty": "abstain",
    "safe_arm": None,
    "budget": 0,
    "on_doubt": "wait",
    "ask_at_most": 3,
    "patience": None,
}
# The same of the second form.
LAST: dict[str, Json] = {"wait": None, "default_reward": None}
# The same of logs from before questions had a price: `limits.legacy` says what they mean.
FIRST_FORM: dict[str, Json] = {"form": 1, "answer_price": None}
# The same of logs from before plays were checked, and several teachers had names.
SECOND_FORM: dict[str, Json] = {"checks": 0, "teachers": []}
# Settings of limits and reward models of others: an agent with ours writes none of them.
EXTENSIONS: dict[str, Json] = {
    "reward": OUR_REWARD,
    "reward_version": "",
    "reward_options": {},
    "limits_version": "",
    "limits_options": {},
}
# What new agents are. 2: limits are a mixture with one bar, answers are certain by item and unit,
# and the teacher is asked where an answer pays. 3: a coin has plays checked, and what is found is
# in every probability; a teacher's later answer replaces the earlier.
FORM = 3
MAX_ARMS = 1_000_000
# Arms × features²: the numbers in the covariances of either part. 32 GiB of them.
MAX_NUMBERS = 2**32


@dataclass(frozen=True, slots=True)
class Arm:
    """One thing that the agent can choose.

    Parameters
    ----------
    id : int or str
        What names it in calls and in the log.
    label : str, optional
        What people call it; the id by default.
    group : str, optional
        Arms of one group (an age band, a ward) share known rules and what was taught.
    """

    id: ArmId
    label: str = ""
    group: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", arm_id(self.id, "Arm"))
        label: object = self.label
        named = not isinstance(label, str) or label != ""
        object.__setattr__(self, "label", words(label if named else str(self.id), "label", "Arm"))
        if self.group is not None:
            object.__setattr__(self, "group", words(self.group, "group", "Arm"))

    def to_json(self) -> dict[str, Json]:
        """Give the arm as plain JSON values."""
        return {"id": self.id, "label": self.label, "group": self.group}

    @classmethod
    def from_json(cls, data: object) -> Arm:
        """Give back the arm that `to_json` wrote."""
        if not isinstance(data, Mapping) or set(data) != {"id", "label", "group"}:
            raise CorruptState(f"An arm is written with id, label and group, not as {data!r:.100}.")
        return cls(**data)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `Agent` was created with; its parameters are explained there."""

    arms: tuple[Arm, ...]
    features: Schema
    policy: Policy
    limits: str
    share: str
    crosses: bool
    doubt: float | None
    teacher_error: float | None
    label_coding: str
    teaching: str
    v_teaching: float
    ridge: float
    ridge_limits: float
    prior: str
    reward_range: tuple[float, float]
    exact_denials: bool
    rules: tuple[Rule, ...]
    on_empty: str
    safe_arm: ArmId | None
    budget: int
    on_doubt: str
    ask_at_most: int
    patience: int | None
    seed: int
    max_pending: int
    max_examples: int
    wait: float | None
    default_reward: float | None
    answer_price: float | None
    checks: int | float | None
    teachers: tuple[Teacher, ...] = ()
    form: int
    reward: str = OUR_REWARD
    reward_version: str = ""
    reward_options: registry.Options = field(default_factory=dict, hash=False)
    limits_version: str = ""
    limits_options: registry.Options = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        owner = "Agent"
        object.__setattr__(self, "arms", _all_of(Arm, self.arms, "arms"))
        object.__setattr__(self, "rules", _all_of(Rule, self.rules, "rules"))
        if type(self.form) is not int or not 1 <= self.form <= FORM:
            raise InvalidValue(
                "form", owner, f"a form that this version knows, 1 to {FORM}", self.form
            )
        if (self.answer_price is None) != (self.form == 1):
            raise InvalidValue("answer_price", owner, "a float", self.answer_price)
        if not self.arms:
            raise InvalidValue("arms", owner, "at least one arm", self.arms)
        if not isinstance(self.features, Schema):
            raise InvalidValue("features", owner, "a Schema", self.features)
        policy_to_json(self.policy)
        if getattr(self.policy, "needs_truth", False):
            raise InvalidValue(
                "policy",
                owner,
                "one that is not told the truth",
                self.policy,
                "Declare what you know as rules=[Rule(...)].",
            )
        object.__setattr__(self, "teachers", self._teachers())
        self._check_extension("limits", KINDS)
        self._check_extension("reward", (OUR_REWARD,))
        object.__setattr__(self, "checks", _checks(self.checks))
        if self.checks != 0 and not self.checkable(self.policy, self.limits):
            what = type(self.policy).__name__ if self.limits != "linear" else "limits='linear'"
            wanted = f"0 with {what}: it does not keep to what is surely allowed"
            raise InvalidValue("checks", owner, wanted, self.checks)
        if self.checks != 0 and self.form < 3:
            raise InvalidValue("checks", owner, "0 in logs of this form", self.checks)
        validation.one_of(self.share, SHARES, "share", owner)
        validation.one_of(self.label_coding, LABEL_CODINGS, "label_coding", owner)
        validation.one_of(self.teaching, (*TEACHINGS, *ACTIVE), "teaching", owner)
        centred = validation.one_of(self.prior, PRIORS, "prior", owner) == "centred"
        check_size(len(self.arms), self.features.width + centred)
        validation.one_of(self.on_empty, ON_EMPTY, "on_empty", owner)
        validation.one_of(self.on_doubt, ON_DOUBT, "on_doubt", owner)
        checked = {
            "crosses": validation.truth(self.crosses, "crosses", owner),
            "doubt": _maybe(DOUBT, self.doubt, "doubt"),
            "teacher_error": _maybe(ERROR, self.teacher_error, "teacher_error"),
            "safe_arm": self._safe_arm(),
            "budget": QUESTIONS.check(self.budget, "budget", owner),
            "ask_at_most": AT_MOST.check(self.ask_at_most, "ask_at_most", owner),
            "patience": _maybe(QUESTIONS, self.patience, "patience"),
            "v_teaching": validation.SPREAD.check(self.v_teaching, "v_teaching", owner),
            "ridge": validation.RIDGE.check(self.ridge, "ridge", owner),
            "ridge_limits": validation.RIDGE.check(self.ridge_limits, "ridge_limits", owner),
            "reward_range": _range(self.reward_range),
            "exact_denials": validation.truth(self.exact_denials, "exact_denials", owner),
            "seed": validation.SEED.check(self.seed, "seed", owner),
            "max_pending": PENDING.check(self.max_pending, "max_pending", owner),
            "max_examples": EXAMPLES.check(self.max_examples, "max_examples", owner),
            "wait": _maybe(WAIT, self.wait, "wait"),
            "answer_price": _maybe(PRICE, self.answer_price, "answer_price"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

        reward = check_default(self.default_reward, self.reward_range, self.wait, owner)
        object.__setattr__(self, "default_reward", reward)
        if self.crosses and self.limits not in ("rules", "logistic"):
            wanted = f"left out with limits={self.limits!r}"
            raise InvalidValue("crosses", owner, wanted, self.crosses)
        if self.budget and not self.policy.needs_limits:
            remedy = "Give policy=LearnedMask(...), and no sigma."
            wanted = f"0 with {type(self.policy).__name__}, which never asks"
            raise InvalidValue("budget", owner, wanted, self.budget, remedy)

    def _check_extension(self, kind: registry.Kind, ours: Sequence[str]) -> None:
        """Fill in the version of limits or of a reward model of somebody else's."""
        name = getattr(self, kind)
        options = registry.options_of(getattr(self, f"{kind}_options"), f"{kind}_options", "Agent")
        version = getattr(self, f"{kind}_version")
        if isinstance(name, str) and name in ours:
            if options or version:
                wanted = f"left out with {kind}={name!r}"
                raise InvalidValue(f"{kind}_options", "Agent", wanted, options)
        elif isinstance(version, str) and version:
            registry.require(kind, name, version)
        else:
            found = registry.find(kind, name)
            if found is None:
                registered = (*ours, *registry.registered(kind))
                raise InvalidValue(
                    kind, "Agent", f"one of {', '.join(map(repr, registered))}", name
                )
            version = found.version
        object.__setattr__(self, f"{kind}_options", options)
        object.__setattr__(self, f"{kind}_version", version)

    @staticmethod
    def checkable(policy: Policy, limits: str) -> bool:
        """Return whether plays are checked by default: where they keep to what is believed safe."""
        return policy.needs_limits and limits != "linear"

    @cached_property
    def legacy(self) -> bool:
        """Whether its log is of the first form: see `bridle.limits.legacy`."""
        return self.form == 1

    @cached_property
    def lives(self) -> bool:
        """Whether answers have a life and a scope, and plays may be checked: the third form."""
        return self.form >= 3

    @cached_property
    def remembers(self) -> bool:
        """Whether an answer about this very context and arm is taken for certain from then on."""
        sure = self.teacher_error is not None and self.teacher_error <= NOISY_ABOVE
        return self.exact_denials and sure

    def _teachers(self) -> tuple[Teacher, ...]:
        """Return the declared teachers, or refuse them."""
        declared: tuple[Teacher, ...] = _all_of(Teacher, self.teachers, "teachers")
        if declared and not self.lives:
            raise InvalidValue("teachers", "Agent", "left out in logs of this form", declared)
        if len(declared) > MAX_TEACHERS:
            raise LimitReached("teachers", MAX_TEACHERS, "Let several share a name.")
        names = [words(teacher.name, "teachers", "Agent") for teacher in declared]
        if len(set(names)) != len(names):
            raise InvalidValue("teachers", "Agent", "teachers of distinct names", names)
        for name in names:
            if "," in name:  # several are listed so where they settled a case together
                raise InvalidValue("teachers", "Agent", "names without commas", name)
        return declared

    def _safe_arm(self) -> ArmId | None:
        if self.on_empty != "safe_arm":
            if self.safe_arm is not None:
                wanted = "left out, unless on_empty='safe_arm'"
                raise InvalidValue("safe_arm", "Agent", wanted, self.safe_arm)
            return None
        if self.safe_arm is None or plain_id(self.safe_arm) not in {arm.id for arm in self.arms}:
            wanted = "the id of an arm, as on_empty='safe_arm'"
            raise InvalidValue("safe_arm", "Agent", wanted, self.safe_arm)
        return plain_id(self.safe_arm)

    def to_json(self) -> dict[str, Json]:
        """Give every setting as plain JSON values."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        data["arms"] = [arm.to_json() for arm in self.arms]
        data["features"] = self.features.to_json()
        data["policy"] = policy_to_json(self.policy)
        data["rules"] = [rule.to_json() for rule in self.rules]
        data["teachers"] = [teacher.to_json() for teacher in self.teachers]
        data["reward_range"] = list(self.reward_range)
        return {name: value for name, value in data.items() if value != EXTENSIONS.get(name, ...)}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Settings:
        """Give back the settings that `to_json` wrote, or raise `CorruptState`.

        What is not written in full is refused: a default of today may not have been one then.
        """
        if isinstance(data, Mapping) and not data.keys() & LATER.keys():
            data = {**data, **LATER}
        if isinstance(data, Mapping) and not data.keys() & LAST.keys():
            data = {**data, **LAST}
        if isinstance(data, Mapping) and not data.keys() & FIRST_FORM.keys():
            data = {**data, **FIRST_FORM}
        early = isinstance(data, Mapping) and data.get("form") in (1, 2)
        if early and not data.keys() & SECOND_FORM.keys():
            data = {**data, **SECOND_FORM}
        names = {field.name for field in fields(cls)}
        if not isinstance(data, Mapping) or set(data) | EXTENSIONS.keys() != names:
            raise CorruptState(f"The settings of an agent are not {data!r:.200}.")
        values = cast("dict[str, Any]", {**EXTENSIONS, **data})
        try:
            values["arms"] = tuple(Arm.from_json(arm) for arm in values["arms"])
            values["features"] = Schema.from_json(values["features"])
            values["policy"] = policy_from_json(values["policy"])
            values["rules"] = tuple(Rule.from_json(rule) for rule in values["rules"])
            values["teachers"] = tuple(Teacher.from_json(one) for one in values["teachers"])
            settings = cls(**values)
            whole = settings.to_json() == data
        except NotRegistered:
            raise
        except (BridleError, TypeError, ValueError, OverflowError) as error:
            raise CorruptState(f"The settings of an agent cannot be read: {error}") from None
        if not whole:
            raise CorruptState("The settings of an agent are not written in full.")
        return settings


def the_arms(arms: int | Iterable[Arm | ArmId], first: int = 0) -> tuple[Arm, ...]:
    """Give arms as a tuple of `Arm`: from a number (ids from `first` on), from ids or from arms."""
    if isinstance(arms, numbers.Integral) and not isinstance(arms, bool):
        count = validation.IntRange(1, MAX_ARMS).check(arms, "arms", "Agent")
        return tuple(Arm(k) for k in range(first, first + count))
    # The arms of a set would come in another order each time.
    if isinstance(arms, str | bytes | Set) or not _iterable(arms):
        raise InvalidValue("arms", "Agent", "a number or a list of ids or of Arm", arms)
    given = islice(cast("Iterable[Arm | ArmId]", arms), MAX_ARMS + 1)
    made = tuple(arm if isinstance(arm, Arm) else Arm(arm) for arm in given)
    if not made:
        raise InvalidValue("arms", "Agent", "at least one arm", arms)
    return made


def the_schema(features: int | Schema | Sequence[Feature]) -> Schema:
    """Give features as a `Schema`: from a number d of plain numbers, or from features."""
    if isinstance(features, Schema):
        return features
    if isinstance(features, numbers.Integral) and not isinstance(features, bool):
        return Schema.plain(int(features))
    if not isinstance(features, list | tuple):
        wanted = "a number, a Schema or a list of features"
        raise InvalidValue("features", "Agent", wanted, features)
    return Schema(features)


def check_default(
    value: float | None, reward_range: tuple[float, float], wait: float | None, owner: str
) -> float | None:
    """Give what is learned where no reward came in time, or refuse it."""
    if value is None:
        return None
    if wait is None:
        wanted, remedy = "left out where decisions wait for ever", "Say how long: wait=3600, say."
        raise InvalidValue("default_reward", owner, wanted, value, remedy)
    return validation.FloatRange(*reward_range).check(value, "default_reward", owner)


def check_size(arms: int, width: int) -> None:
    """Refuse more arms, or larger ones, than an agent can hold."""
    if arms > MAX_ARMS:
        raise LimitReached("arms", MAX_ARMS, "Use fewer arms.")
    if arms * width * width > MAX_NUMBERS:
        what = "numbers (arms × features²)"
        raise LimitReached(what, MAX_NUMBERS, "Use fewer arms or features.")


def arm_id(value: object, owner: str, name: str = "id") -> ArmId:
    """Give the id of an arm, or of an item: a whole number or a short string."""
    if isinstance(value, str):
        return words(value, name, owner)
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return ARM_NUMBER.check(value, name, owner)
    raise InvalidValue(name, owner, "an int or a string of 1 to 200 characters", value)


def item_id(value: object, owner: str) -> str:
    """Give an id that a caller chose: a short string. Numbers are the agent's own."""
    return words(value, "id", owner)


def plain_id(value: object) -> ItemId:
    """Give an id as Python's own int or str; what cannot be one becomes "", which names nothing.

    True == 1 == 1.0, and a dict finds one by the other: no bool or float may name anything.
    """
    if type(value) is int or type(value) is str:
        return value
    if isinstance(value, np.integer):
        return int(value)
    return str(value) if isinstance(value, str) else ""


def listed(values: object, name: str, owner: str, length: int | None = None) -> list[Any]:
    """Give values that come in an order as a list, of this length if it is given."""
    bare: Any = values.tolist() if isinstance(values, np.ndarray) else values
    good = isinstance(bare, list | tuple) or (
        isinstance(bare, Iterable)
        and isinstance(bare, Sized)
        and not isinstance(bare, str | bytes | Mapping | Set)
    )
    result = list(bare) if good else []
    if not good or (length is not None and len(result) != length):
        wanted = "a list" if length is None else f"a list of {length}, one for each"
        raise InvalidValue(name, owner, wanted, values)
    return result


def words(value: object, name: str, owner: str, longest: int = 200) -> str:
    """Give `value` as a string of 1 to `longest` characters that can be written as UTF-8."""
    # What is right already is the rule.
    right = type(value) is str and 1 <= len(value) <= longest
    text = str(value if right else validation.text(value, name, owner, longest))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValue(name, owner, "text that UTF-8 can hold", text) from None
    return text


def _maybe(allowed: Any, value: Any, name: str) -> Any:
    return None if value is None else allowed.check(value, name, "Agent")


def _checks(value: object) -> int | float | None:
    """Return how many plays may be checked: so many in all, such a share of them, or any (None)."""
    wanted = "None, a whole number of checks in all, or a share of the plays below 1"
    if value is None:
        return None
    if isinstance(value, numbers.Integral) and not isinstance(value, bool | np.bool_):
        return QUESTIONS.check(value, "checks", "Agent")
    if isinstance(value, float) and 0.0 <= value < 1.0:
        return float(value) if value else 0
    raise InvalidValue("checks", "Agent", wanted, value)


def _iterable(value: object) -> bool:
    # An array of no dimensions has the method, and fails when it is called.
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0


def _all_of(kind: type, values: object, name: str) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(v, kind) for v in values):
        raise InvalidValue(name, "Agent", f"a list of {kind.__name__}", values)
    return tuple(values)


def _range(value: object) -> tuple[float, float]:
    wanted = "two floats (low, high) with low < high"
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidValue("reward_range", "Agent", wanted, value)
    finite = validation.FloatRange(-1e300, 1e300)
    low = finite.check(value[0], "reward_range", "Agent")
    high = finite.check(value[1], "reward_range", "Agent")
    if not low < high:
        raise InvalidValue("reward_range", "Agent", wanted, value)
    return low, high

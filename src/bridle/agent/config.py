"""Every choice that is made when an agent is created: declared once, checked, and stored in full.

`Settings` declares each setting with its type, range or choices, default and one line of help. The
parameters of `Agent`, the body of the HTTP API, the form of the pages and `docs/api.md` follow
from it. The `Created` event holds every setting, so that a default that changes in a later version
never changes what an old log means.
"""

# `_setting` is `dataclasses.field`, which the linter knows by that name alone.
# ruff: noqa: RUF009

from __future__ import annotations

import difflib
import numbers
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from bridle import registry, validation
from bridle.agent.teachers import MAX_TEACHERS, Teacher
from bridle.errors import (
    BridleError,
    CorruptState,
    InvalidValue,
    LimitReached,
    NotPossible,
    NotRegistered,
)
from bridle.kernels.types import Bools, Floats
from bridle.limits.declared import Rule, compile_rule
from bridle.limits.kinds import KINDS, check_kind
from bridle.policies import (
    CENTRED_V,
    DEFAULT_V,
    BehaviorConstrained,
    LearnedMask,
    Policy,
    policy_from_json,
    policy_to_json,
    with_default_spread,
    with_sigma,
    with_spread,
)
from bridle.reward.base import DEFAULT as OUR_REWARD
from bridle.reward.base import SHARED as OUR_SHARED
from bridle.reward.base import Forget, boldness_of, half_life_of
from bridle.schema import Category, Context, Feature, Flag, Labels, Schema
from bridle.slates import SetLimits, Sets

__all__ = [
    "SETTINGS",
    "Arm",
    "ArmFeatures",
    "ArmId",
    "Interactions",
    "ItemId",
    "Json",
    "LabelCoding",
    "LimitsKind",
    "OnDoubt",
    "OnEmpty",
    "Prior",
    "Setting",
    "Settings",
    "Share",
    "Teaching",
    "arm_id",
    "check_default",
    "check_size",
    "item_id",
    "joint_mask",
    "listed",
    "meant",
    "plain_id",
    "rows_of",
    "sets_of",
    "the_arms",
    "the_schema",
    "words",
]

ArmId: TypeAlias = int | str
# Of decisions, questions and examples: a number is given by the agent, a string by the caller.
ItemId: TypeAlias = int | str
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

LimitsKind: TypeAlias = Literal["auto", "rules", "logistic", "found", "linear"]
Share: TypeAlias = Literal["group", "arm"]
OnEmpty: TypeAlias = Literal["abstain", "safe_arm", "least_bad"]
OnDoubt: TypeAlias = Literal["wait", "play_safe"]
Teaching: TypeAlias = Literal["random", "thompson", "arm", "pool"]
LabelCoding: TypeAlias = Literal["1/0", "1/-1", "0/-1"]
Prior: TypeAlias = Literal["scaled", "centred", "paper"]
# "all", "none", or which feature of a context goes with which of an arm, by their names.
Interactions: TypeAlias = "str | Sequence[tuple[str, str]]"

MANY = validation.IntRange(1, 100_000_000)
QUESTIONS = validation.IntRange(0, 2**53)
DOUBT = validation.FloatRange(0.0, 0.5, open_low=True, open_high=True)
ERROR = validation.FloatRange(1e-6, 0.49)
# A teacher who errs more often than this is not taken at their word in any single case.
NOISY_ABOVE = 0.02
# Seconds; a century is for ever.
WAIT = validation.FloatRange(0.0, 3.2e9, open_low=True)
PRICE = validation.FloatRange(0.0, 1e6)
ARM_NUMBER = validation.IntRange(-(2**53), 2**53)
# Where the dial stands if nobody turns it.
DEFAULT_SIGMA = 0.25
MAX_RULES = 10_000
# Arms that are looked at for what an unknown id could have meant, and near spellings compared.
MOST_LOOKED = 20_000
MOST_NEAR = 2_000
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
# Settings of limits and reward models of others, and of arms with features: an agent without these
# writes none of them.
EXTENSIONS: dict[str, Json] = {
    "reward": OUR_REWARD,
    "reward_version": "",
    "reward_options": None,
    "limits_version": "",
    "limits_options": None,
    "arm_features": None,
    "interactions": "all",
    "set_limits": None,
    "forget": "never",
}
# The spread of draws where arms share what is learned, in its own standard deviations.
SHARED_V = 0.3
# What new agents are. 2: limits are a mixture with one bar, answers are certain by item and unit,
# and the teacher is asked where an answer pays. 3: a coin has plays checked, and what is found is
# in every probability; a teacher's later answer replaces the earlier.
FORM = 3
MAX_ARMS = 1_000_000
# Numbers of a context and of an arm, taken together, that the shared reward model weighs.
MAX_JOINT = 2_048
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
    features : mapping, optional
        What it is like, by the agent's `arm_features`: what is learned of one arm then serves all
        that are like it. A list or an array of numbers where all of those are numbers.

    Examples
    --------
    >>> Arm("tt0081505", "The Shining", features={"genres": ["Horror"], "year": 1980}).label
    'The Shining'
    """

    id: ArmId
    label: str = ""
    group: str | None = None
    features: Context | ArmFeatures | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", arm_id(self.id, "Arm"))
        label: object = self.label
        named = not isinstance(label, str) or label != ""
        object.__setattr__(self, "label", words(label if named else str(self.id), "label", "Arm"))
        if self.group is not None:
            object.__setattr__(self, "group", words(self.group, "group", "Arm"))

    def encoded(self, schema: Schema | None, owner: str = "Agent") -> Arm:
        """Return the arm with its features as an agent keeps them, or raise `InvalidValue`."""
        given = self.features
        if schema is None:
            if given is None:
                return self
            remedy = "Declare what arms are like: Agent(arm_features=Schema([...]))."
            wanted = "without features where the agent declares no arm_features"
            raise InvalidValue("arms", owner, wanted, f"arm {self.id!r} with features", remedy)
        if isinstance(given, ArmFeatures):
            if given.schema is schema:
                return self
            if given.schema is not None and given.schema != schema:  # other ranges, other words
                return Arm(self.id, self.label, self.group, dict(given)).encoded(schema, owner)
            if given.width != schema.width:
                wanted = f"arms with {schema.width} encoded features"
                raise InvalidValue("arms", owner, wanted, f"{given.width} of arm {self.id!r}")
            raw = given.raw
        else:
            try:
                raw = schema.encode({} if given is None else given).tobytes()
            except InvalidValue as bad:
                where = f"the features of arm {self.id!r}"
                raise InvalidValue(bad.name, where, bad.expected, bad.got, bad.remedy) from None
        made = object.__new__(Arm)  # all but the features was checked before
        for name in ("id", "label", "group"):
            object.__setattr__(made, name, getattr(self, name))
        object.__setattr__(made, "features", ArmFeatures(raw, schema))
        return made

    def to_json(self) -> dict[str, Json]:
        """Return the arm as plain JSON values; its features as they are encoded, if it has some."""
        data: dict[str, Json] = {"id": self.id, "label": self.label, "group": self.group}
        if self.features is not None:
            if not isinstance(self.features, ArmFeatures):
                raise NotPossible("The features of an arm are written once an agent encoded them.")
            data["features"] = self.features.row.tolist()
        return data

    @classmethod
    def from_json(cls, data: object) -> Arm:
        """Return the arm that `to_json` wrote."""
        plain = {"id", "label", "group"}
        if not isinstance(data, Mapping) or not plain <= set(data) <= {*plain, "features"}:
            raise CorruptState(f"An arm is written with id, label and group, not as {data!r:.100}.")
        features = ArmFeatures.from_json(data["features"]) if "features" in data else None
        return cls(data["id"], data["label"], data["group"], features)


class ArmFeatures(Mapping[str, object]):
    """The features of an arm as an agent keeps them: few bytes, read as the mapping they were.

    Parameters
    ----------
    raw : bytes
        Of p float64, as the schema encodes them.
    schema : Schema, optional
        What they mean; None until an agent has taken them in.
    """

    __slots__ = ("raw", "schema")

    def __init__(self, raw: bytes, schema: Schema | None = None) -> None:
        self.raw = raw
        self.schema = schema

    @property
    def width(self) -> int:
        """Number of columns, p."""
        return len(self.raw) // 8

    @property
    def row(self) -> Floats:
        """The encoded row, (p,); read only."""
        return np.frombuffer(self.raw)

    def _decoded(self) -> dict[str, object]:
        if self.schema is None:
            return dict(enumerate(self.row.tolist()))  # type: ignore[arg-type]
        return self.schema.decode(self.row)

    def __getitem__(self, name: str) -> object:
        return self._decoded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        return self.width if self.schema is None else len(self.schema.encoded)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ArmFeatures):
            return self.raw == other.raw
        return isinstance(other, Mapping) and self._decoded() == dict(other)

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return repr(self._decoded())

    @classmethod
    def from_json(cls, data: object) -> ArmFeatures:
        """Return the features that stand in the JSON of an arm: a list of numbers."""
        if not isinstance(data, list) or not all(type(one) in (int, float) for one in data):
            raise CorruptState(f"The features of an arm are numbers, not {data!r:.100}.")
        row = np.array(data, np.float64) + 0.0
        if not row.size or not (np.abs(row) <= validation.MAX_MAGNITUDE).all():
            raise CorruptState(f"The features of an arm cannot be {data!r:.100}.")
        return cls(row.tobytes())


REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of an agent, as it is declared.

    Attributes
    ----------
    default : object
        What it is if it is left out; `REQUIRED` if it may not be.
    help : str
        What it says, in one line.
    range : FloatRange or IntRange, optional
        The numbers that it may be.
    choices : mapping from str to str
        The words that it may be, each with what it means.
    optional : bool
        Whether it may be None.
    kind : str
        What it is, where neither range nor choices say so.
    applies : str
        Where it has an effect; everywhere if empty.
    registers : bool
        Whether it may also be a name that is registered (`bridle.register`).
    """

    default: Any
    help: str
    range: validation.FloatRange | validation.IntRange | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False
    kind: str = ""
    applies: str = ""
    registers: bool = False

    def check(self, value: Any, name: str) -> Any:
        """Return `value` as it is stored, or raise `InvalidValue`; what has no range passes."""
        if value is None and self.optional:
            return None
        if self.choices and not self.registers:
            return validation.one_of(value, self.choices, name, "Agent")
        if self.range is not None:
            return self.range.check(value, name, "Agent")
        if isinstance(self.default, bool):
            return validation.truth(value, name, "Agent")
        return value

    @property
    def type(self) -> str:
        """What it is, as docstrings say it: "int", "float or None", a set of words."""
        if self.choices:
            return "{" + ", ".join(f'"{word}"' for word in self.choices) + "}"
        plain = "float" if isinstance(self.range, validation.FloatRange) else "int"
        kind = self.kind or ("bool" if isinstance(self.default, bool) else plain)
        return f"{kind} or None" if self.optional and self.default is not None else kind

    @property
    def default_words(self) -> str:
        """Its default, as docstrings say it; "" if there is none to name."""
        if self.default in (REQUIRED, None, ()) or self.choices:
            return ""
        if isinstance(self.default, tuple):
            return f"({', '.join(f'{part:g}' for part in self.default)})"
        return f"{self.default:,}" if type(self.default) is int else str(self.default)


def _setting(default: Any, help: str, **more: Any) -> Any:
    """Declare a field of `Settings`; its default is a class attribute, for `Agent` to take."""
    metadata = {"setting": Setting(default, help, **more)}
    if default is REQUIRED:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an agent is created with: the declaration of all settings, and their values in full.

    `Settings.of` takes what `Agent` takes. The order of the fields is that of the log.

    Examples
    --------
    >>> Settings.of(arms=2, features=3, sigma=0.5).policy
    BehaviorConstrained(sigma=0.5, v=1.0, v_constraint=None)
    >>> Settings.of(arms=2, features=3, on_empty="safe_arm", safe_arm="b")
    Traceback (most recent call last):
    bridle.errors.InvalidValue: The 'safe_arm' parameter of Agent must be the id of an arm, ...
    """

    arms: tuple[Arm, ...] = _setting(
        REQUIRED, "What it can choose; a number K stands for 0 … K−1.", kind="int or list of arms"
    )
    features: Schema = _setting(
        REQUIRED,
        "What a context looks like; a number d stands for d plain numbers.",
        kind="int, `Schema` or list of features",
    )
    policy: Policy = _setting(
        None, "How scores become a choice; `LearnedMask` unless sigma is given.", kind="policy"
    )
    limits: LimitsKind | str = _setting(
        "auto",
        "What kind of limits is learned.",
        choices={
            "auto": "Find out: rules or degrees, whichever fits what is taught",
            "rules": "Rules: some words or flags are not allowed",
            "logistic": "Degrees: each feature makes it more or less likely",
            "found": "Rules, and find out which choices share them",
            "linear": "Linear, as in the paper",
        },
        registers=True,
    )
    share: Share = _setting(
        "group",
        "Whether arms of one group share what was taught.",
        choices={"group": "Arms of a group share it", "arm": "Each arm learns alone"},
        applies='not with limits="linear" or "found"',
    )
    crosses: bool = _setting(
        False, "Whether two features together may be denied, too.", applies="limits rules, logistic"
    )
    doubt: float | None = _setting(
        None,
        'How improbable "denied" must be before an arm is played.',
        range=DOUBT,
        optional=True,
        applies="limits auto, rules, found",
    )
    teacher_error: float | None = _setting(
        0.001,
        "How often an answer is wrong; None: the rate is estimated.",
        range=ERROR,
        optional=True,
        applies="limits auto, rules, found",
    )
    label_coding: LabelCoding = _setting(
        "1/0",
        "The numbers that stand for allowed/denied.",
        choices={"1/0": "1 and 0", "1/-1": "1 and −1", "0/-1": "0 and −1"},
        applies="limits linear",
    )
    teaching: Teaching = _setting(
        None,
        'How `ask` picks the arm; "pool", or "random" with limits="linear", if left out.',
        choices={
            "random": "Any arm",
            "thompson": "By a draw from what is believed",
            "arm": "The arm whose answer teaches most",
            "pool": "The context, too, if it may choose",
        },
    )
    v_teaching: float = _setting(
        0.25,
        "Spread of the draws that pick the arm.",
        range=validation.SPREAD,
        applies='teaching="thompson"',
    )
    ridge: float = _setting(1.0, "Prior precision of the reward part.", range=validation.RIDGE)
    ridge_limits: float = _setting(
        1.0, "Prior precision of the limits.", range=validation.RIDGE, applies="limits linear"
    )
    prior: Prior = _setting(
        None,
        "What is expected of an arm before it is tried; `scaled` with our own reward models, if "
        "left out.",
        choices={
            "scaled": "The mean of all rewards so far; how much arms and rewards differ is found",
            "centred": "The mean of all rewards so far",
            "paper": "0, as in the paper",
        },
    )
    forget: Forget | None = _setting(
        None,
        "How old rewards fade: `never`; a number of rewards after which what was learned counts "
        "half; `auto`, which begins anew where recent rewards are better explained without the "
        "old ones. Left out: `auto` where each arm learns alone, with the scaled prior.",
        kind='{"auto", "never"} or float',
        optional=True,
        applies="prior scaled",
    )
    reward_range: tuple[float, float] = _setting(
        (0.0, 1.0), "What rewards can be; mapped to [0, 1].", kind="(float, float)"
    )
    exact_denials: bool = _setting(
        True, "Whether an arm denied in this very context is never played there."
    )
    rules: tuple[Rule, ...] = _setting(
        (), "What is known for certain to be denied.", kind="list of `Rule`"
    )
    on_empty: OnEmpty = _setting(
        "abstain",
        "What happens where no arm is surely allowed.",
        choices={
            "abstain": "Nothing is played",
            "safe_arm": "`safe_arm` is played",
            "least_bad": "The arm that is most likely allowed is played",
        },
        applies="policies that keep to the limits",
    )
    safe_arm: ArmId | None = _setting(
        None,
        "An arm that always may be played.",
        optional=True,
        kind="arm id",
        applies='on_empty="safe_arm"',
    )
    budget: int = _setting(
        0,
        "How many answers decisions may ask for when they are in doubt.",
        range=QUESTIONS,
        applies="policies that keep to the limits",
    )
    on_doubt: OnDoubt = _setting(
        "wait",
        "What a decision does while it waits for an answer.",
        choices={"wait": "The decision waits", "play_safe": "It does what it is sure of"},
        applies="budget above 0",
    )
    ask_at_most: int = _setting(
        3,
        "Questions that one decision may ask.",
        range=validation.IntRange(1, 1_000),
        applies="budget above 0",
    )
    patience: int | None = _setting(
        None,
        "A question of a decision lapses after so many later decisions.",
        range=QUESTIONS,
        optional=True,
        applies="budget above 0",
    )
    seed: int = _setting(
        0, "Equal settings, seeds and events give equal bits.", range=validation.SEED
    )
    max_pending: int = _setting(
        1_000_000, "Decisions that wait for a reward; the oldest are dropped.", range=MANY
    )
    max_examples: int = _setting(1_000_000, "Examples that stand at any time.", range=MANY)
    wait: float | None = _setting(
        None,
        "Seconds that a decision waits for its reward; for ever if left out.",
        range=WAIT,
        optional=True,
    )
    default_reward: float | None = _setting(
        None,
        "What a decision learns that waited in vain; nothing if left out.",
        optional=True,
        kind="float",
        applies="where `wait` is given",
    )
    answer_price: float | None = _setting(
        0.35,
        "What an answer is worth, as a part of the reward range; 0 asks whenever it matters.",
        range=PRICE,
        applies="budget above 0",
    )
    checks: int | float | None = _setting(
        None,
        "Plays that a coin may choose to be judged: so many in all, or a share below 1.",
        optional=True,
        kind="int or float",
        applies="policies that keep to the limits",
    )
    teachers: tuple[Teacher, ...] = _setting(
        (), "Several teachers, who may err at different rates.", kind="list of `Teacher`"
    )
    form: int = FORM
    reward: str = _setting(
        None,
        "What learns from rewards: each arm alone (`linear`), by what arms are like (`shared`, if "
        "they have features), or a reward model that is registered.",
        kind="str",
    )
    reward_options: registry.Options | None = _setting(
        None,
        "What a registered reward model is made with, beside arms and features.",
        kind="mapping",
        optional=True,
        applies="reward models that are registered",
    )
    limits_options: registry.Options | None = _setting(
        None,
        "What registered limits are made with, beside arms, features, groups and seed.",
        kind="mapping",
        optional=True,
        applies="limits that are registered",
    )
    reward_version: str = ""
    limits_version: str = ""
    arm_features: Schema | None = _setting(
        None,
        "What an arm looks like; what is learned of one then serves all that are like it.",
        kind="int, `Schema` or list of features",
        optional=True,
    )
    interactions: Interactions = _setting(
        "all",
        "Which features of contexts and arms are weighed together, beside each alone.",
        kind='"all", "none" or list of pairs of names',
        applies="arm_features",
    )
    set_limits: SetLimits | None = _setting(
        None,
        "What no slate may hold together: at most so many of a kind, not both of two.",
        kind="`SetLimits`",
        optional=True,
        applies="slates",
    )

    def __post_init__(self) -> None:
        owner = "Agent"
        self._store(arms=_all_of(Arm, self.arms, "arms"), rules=_all_of(Rule, self.rules, "rules"))
        if type(self.form) is not int or not 1 <= self.form <= FORM:
            wanted = f"a form that this version knows, 1 to {FORM}"
            raise InvalidValue("form", owner, wanted, self.form)
        if (self.answer_price is None) != (self.form == 1):
            raise InvalidValue("answer_price", owner, "a float", self.answer_price)
        if not self.arms:
            raise InvalidValue("arms", owner, "at least one arm", self.arms)
        if not isinstance(self.features, Schema):
            raise InvalidValue("features", owner, "a Schema", self.features)
        if self.features.optional:
            wanted = "without optional features: only arms may lack some"
            remedy = (
                "Give them in each context; or give a gap a word of its own ('unrated'), or "
                "declare what to take for it (missing=)."
            )
            got = self.features.optional[0][0]
            raise InvalidValue("features", owner, wanted, got, remedy)
        self._encode_arms()
        self._resolve()
        policy_to_json(self.policy)
        if getattr(self.policy, "needs_truth", False):
            wanted, remedy = "one that is not told the truth", "Declare what you know as rules."
            raise InvalidValue("policy", owner, wanted, self.policy, remedy)
        self._store(teachers=self._teachers(), checks=_checks(self.checks))
        for name, setting in _DECLARED.items():
            value = getattr(self, name)
            if value is not None or name != "answer_price":  # logs of the first form have none
                self._store(**{name: setting.check(value, name)})
        self._check_extension("limits", KINDS)
        self._check_extension("reward", (OUR_REWARD, OUR_SHARED))
        self._check_reward()
        self._store(reward_range=_range(self.reward_range), safe_arm=self._safe_arm())
        reward = check_default(self.default_reward, self.reward_range, self.wait, owner)
        self._store(default_reward=reward)
        self._check_together()

    def _store(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _encode_arms(self) -> None:
        """Check what arms look like, and keep it encoded."""
        schema: object = self.arm_features
        if schema is None:
            if not isinstance(self.interactions, str) or self.interactions != "all":
                wanted = "left out where there are no arm_features"
                raise InvalidValue("interactions", "Agent", wanted, self.interactions)
        elif not isinstance(schema, Schema):
            raise InvalidValue("arm_features", "Agent", "a Schema", schema)
        elif schema.names_items:
            wanted = "without an Id: an arm has its id"
            raise InvalidValue("arm_features", "Agent", wanted, schema)
        if not isinstance(self.interactions, str):
            pairs = listed(self.interactions, "interactions", "Agent")
            whole = (tuple(one) if isinstance(one, list | tuple) else one for one in pairs)
            self._store(interactions=tuple(whole))
        if self.arm_features is not None:
            joint_mask(self.interactions, self.features, self.arm_features)
        self._store(arms=tuple(arm.encoded(self.arm_features) for arm in self.arms))

    def _check_reward(self) -> None:
        """Raise an error for a reward model that is too large, or that arms are not made for."""
        if self.reward == OUR_SHARED and self.arm_features is None:
            wanted = f"another than {OUR_SHARED!r} where arms have no features"
            remedy = "Declare what arms are like: Agent(arm_features=Schema([...]))."
            raise InvalidValue("reward", "Agent", wanted, self.reward, remedy)
        ours = self.reward in (OUR_REWARD, OUR_SHARED)
        if self.prior == "scaled" and not ours:
            wanted = f"'centred' or 'paper' with reward={self.reward!r}"
            raise InvalidValue("prior", "Agent", wanted, self.prior)
        if not self._is("forget", "never"):
            half_life_of(self.forget, "Agent")
            if self.prior != "scaled":
                wanted = f"'never' with prior={self.prior!r}"
                raise InvalidValue("forget", "Agent", wanted, self.forget)
        if self.reward != OUR_SHARED or self.arm_features is None:
            check_size(len(self.arms), self.features.width + (self.prior != "paper"))
            return
        check_size(len(self.arms), 0)
        if self.prior == "paper":
            wanted = f"another than 'paper' with reward={OUR_SHARED!r}"
            raise InvalidValue("prior", "Agent", wanted, self.prior)
        mask = joint_mask(self.interactions, self.features, self.arm_features)
        if mask.sum() > MAX_JOINT:
            what = f"joint features, of {self.features.width} and {self.arm_features.width} columns"
            remedy = (
                "Say which go together, interactions=[('age', 'genre')], or that none do: "
                "interactions='none'."
            )
            raise LimitReached(what, MAX_JOINT, remedy)

    def _resolve(self) -> None:
        """Fill in what was left out and depends on other settings."""
        linear = isinstance(self.limits, str) and self.limits == "linear"
        if self.reward is None:
            self._store(reward=OUR_REWARD if self.arm_features is None else OUR_SHARED)
        if self.prior is None:
            ours = self._is("reward", OUR_REWARD) or self._is("reward", OUR_SHARED)
            self._store(prior="scaled" if ours else "centred")
        if self.forget is None:
            alone = self._is("reward", OUR_REWARD) and self._is("prior", "scaled")
            self._store(forget="auto" if alone else "never")
        v = self.default_v
        if self.policy is not None:
            self._store(policy=with_default_spread(self.policy, v))
        else:
            mask = LearnedMask(v=v)
            self._store(policy=BehaviorConstrained(sigma=DEFAULT_SIGMA, v=v) if linear else mask)
        if self.teaching is None:
            self._store(teaching="random" if linear else "pool")
        if self.checks is None and (linear or not getattr(self.policy, "needs_limits", False)):
            self._store(checks=0)

    def _check_extension(self, kind: registry.Kind, ours: Sequence[str]) -> None:
        """Check the name of limits or a reward model, and fill in the version of others'."""
        name, version = getattr(self, kind), getattr(self, f"{kind}_version")
        options = registry.options_of(getattr(self, f"{kind}_options"), f"{kind}_options", "Agent")
        if isinstance(name, str) and name in ours:
            if options or version:
                wanted = f"left out with {kind}={name!r}"
                raise InvalidValue(f"{kind}_options", "Agent", wanted, options)
        elif isinstance(version, str) and version:
            registry.require(kind, name, version)
        else:
            found = registry.find(kind, name)
            if found is None:
                known = ", ".join(map(repr, (*ours, *registry.registered(kind))))
                raise InvalidValue(kind, "Agent", f"one of {known}", name)
            version = found.version
        if version and not self.lives:
            raise InvalidValue(kind, "Agent", "one of bridle's own in logs of this form", name)
        self._store(**{f"{kind}_options": options or None, f"{kind}_version": version})

    def _check_together(self) -> None:
        """Raise `InvalidValue` where one setting rules another out."""
        owner = "Agent"
        if self.set_limits is not None and not isinstance(self.set_limits, SetLimits):
            raise InvalidValue("set_limits", owner, "SetLimits", self.set_limits)
        if self.checks != 0 and not self.checkable(self.policy, self.limits):
            what = type(self.policy).__name__ if self.limits != "linear" else "limits='linear'"
            wanted = f"0 with {what}: it does not keep to what is surely allowed"
            raise InvalidValue("checks", owner, wanted, self.checks)
        if self.checks != 0 and self.form < 3:
            raise InvalidValue("checks", owner, "0 in logs of this form", self.checks)
        if self.crosses and self.limits not in ("rules", "logistic"):
            wanted = f"left out with limits={self.limits!r}"
            raise InvalidValue("crosses", owner, wanted, self.crosses)
        if self.budget and not self.policy.needs_limits:
            remedy = (
                "Give policy=LearnedMask(...), and no sigma; Masked(policy) keeps another policy "
                "inside the limits."
            )
            wanted = f"0 with {type(self.policy).__name__}, which never asks"
            raise InvalidValue("budget", owner, wanted, self.budget, remedy)

    @classmethod
    def of(
        cls,
        *,
        arms: int | Iterable[Arm | ArmId],
        features: int | Schema | Sequence[Feature],
        sigma: float | None = None,
        boldness: float | None = None,
        policy: Policy | None = None,
        **others: Any,
    ) -> Settings:
        """Return the settings of what `Agent` takes, every one checked, without an agent.

        Raises
        ------
        InvalidValue, LimitReached, NotPossible
            As `Agent` would.
        """
        if sigma is not None:
            dial = BehaviorConstrained(sigma=sigma)
            policy = dial if policy is None else with_sigma(policy, sigma)
        if boldness is not None:
            v = validation.SPREAD.check(boldness, "boldness", "Agent")
            by_taught = others.get("limits") == "linear"
            chosen = BehaviorConstrained(sigma=DEFAULT_SIGMA) if by_taught else LearnedMask()
            policy = with_spread(chosen if policy is None else policy, v)
        for name in ("rules", "teachers"):
            if name in others:
                others[name] = tuple(listed(others[name], name, "Agent"))
        given: dict[str, Any] = {"policy": policy, **others}
        if given.get("arm_features") is not None:
            given["arm_features"] = the_schema(given["arm_features"], "arm_features")
        made = cls(arms=the_arms(arms), features=the_schema(features), **given)
        made.check()
        return made

    @cached_property
    def arm_rows(self) -> Floats | None:
        """The encoded features of the arms that it was created with, (K, p); None without."""
        return None if self.arm_features is None else rows_of(self.arms, self.arm_features.width)

    @cached_property
    def joint(self) -> Bools | None:
        """Which products of context and arm the shared reward model weighs; None without one."""
        if self.reward != OUR_SHARED or self.arm_features is None:
            return None
        return joint_mask(self.interactions, self.features, self.arm_features)

    def check(self) -> None:
        """Raise where no agent can have these settings, though each is well formed.

        Arms that have one id, limits that cannot hold the features, rules about what is not there.
        Nothing is allocated: it takes microseconds where an agent takes memory.
        """
        ids, groups = [arm.id for arm in self.arms], [arm.group for arm in self.arms]
        for arm, times in Counter(ids).items() if len(set(ids)) != len(ids) else ():
            if times > 1:
                raise InvalidValue("arms", "Agent", "arms of distinct ids", arm)
        check_kind(
            self.limits,
            schema=self.features,
            arms=len(ids),
            error=self.teacher_error,
            doubt=self.doubt,
            crosses=self.crosses,
        )
        if self.set_limits is not None:
            sets_of(self.set_limits, self.arms, self.arm_features)
        if len(self.rules) > MAX_RULES:
            raise LimitReached("rules", MAX_RULES, "Withdraw some first.")
        met: set[str] = set()
        for rule in self.rules:
            if rule.id in met:
                raise InvalidValue("rule", "Agent.declare", "of a new id", rule.id)
            met.add(rule.id)
            compile_rule(rule, self.features, ids, groups, self.arm_features, self.arm_rows)

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
        """Return the declared teachers, or raise what is wrong with them."""
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

    @property
    def default_v(self) -> float:
        """The spread of draws where a policy leaves it out."""
        if self._is("prior", "scaled"):
            return SHARED_V if self._is("reward", OUR_SHARED) else boldness_of(len(self.arms))
        return DEFAULT_V if self._is("prior", "paper") else CENTRED_V

    def _is(self, name: str, word: str) -> bool:
        """Return whether a setting is this word, also where it was not checked yet."""
        value = getattr(self, name)
        return isinstance(value, str) and value == word

    def to_json(self) -> dict[str, Json]:
        """Return every setting as plain JSON values."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        data["arms"] = [arm.to_json() for arm in self.arms]
        data["features"] = self.features.to_json()
        data["policy"] = policy_to_json(self.policy)
        data["rules"] = [rule.to_json() for rule in self.rules]
        data["teachers"] = [teacher.to_json() for teacher in self.teachers]
        data["reward_range"] = list(self.reward_range)
        if self.arm_features is not None:
            data["arm_features"] = self.arm_features.to_json()
        if self.set_limits is not None:
            data["set_limits"] = self.set_limits.to_json()
        if not isinstance(self.interactions, str):
            data["interactions"] = [list(pair) for pair in self.interactions]
        return {name: value for name, value in data.items() if value != EXTENSIONS.get(name, ...)}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Settings:
        """Return the settings that `to_json` wrote, or raise `CorruptState`.

        What is not written in full is corrupt: a default of today may not have been one then.
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
            if values["arm_features"] is not None:
                values["arm_features"] = Schema.from_json(values["arm_features"])
            if values["set_limits"] is not None:
                values["set_limits"] = SetLimits.from_json(values["set_limits"])
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


_DECLARED: dict[str, Setting] = {
    one.name: one.metadata["setting"] for one in fields(Settings) if "setting" in one.metadata
}
# Every parameter of `Agent` that says what it is; `sigma` and `promise` are stored in other forms.
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        **_DECLARED,
        "sigma": Setting(
            None,
            "The paper's dial: 0 plays only by what was taught, 1 only by reward.",
            range=validation.SIGMA,
            optional=True,
            applies="policies with a dial",
        ),
        "boldness": Setting(
            None,
            "Spread of the draws, `v` of the policy; with the scaled prior in units of the noise.",
            range=validation.SPREAD,
            optional=True,
            applies="policies that draw",
        ),
        "promise": Setting(
            None,
            "Keep to at most alpha denied plays a decision, by audits with probability q or more.",
            optional=True,
            kind="(float, float)",
        ),
    }
)


def the_arms(arms: int | Iterable[Arm | ArmId], first: int = 0) -> tuple[Arm, ...]:
    """Return arms as a tuple of `Arm`: from a number (ids from `first` on), ids or arms."""
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


def the_schema(features: int | Schema | Sequence[Feature], name: str = "features") -> Schema:
    """Return features as a `Schema`: from a number d of plain numbers, or from features."""
    if isinstance(features, Schema):
        return features
    if isinstance(features, numbers.Integral) and not isinstance(features, bool):
        return Schema.plain(int(features))
    if not isinstance(features, list | tuple):
        wanted = "a number, a Schema or a list of features"
        raise InvalidValue(name, "Agent", wanted, features)
    return Schema(features)


def rows_of(arms: Sequence[Arm], width: int) -> Floats:
    """Return the encoded features of arms that an agent took in: (n, p), a copy."""
    raw = [arm.features.raw for arm in arms if isinstance(arm.features, ArmFeatures)]
    return np.frombuffer(bytearray().join(raw)).reshape(len(arms), width)


def sets_of(limits: SetLimits, arms: Sequence[Arm], schema: Schema | None) -> Sets:
    """Return limits on slates as arrays over these arms, or raise `InvalidValue`."""
    named = {one.feature for one in limits.at_most} | {one.feature for one in limits.not_both}
    features: dict[str, list[Any]] = {}
    for name in sorted(str(one) for one in named if one is not None):
        if schema is None:
            wanted = "left out where arms have no features: then kinds are groups"
            raise InvalidValue("feature", "SetLimits", wanted, name)
        feature, at = schema.place(name, "SetLimits")
        if not isinstance(feature, Flag | Category | Labels):
            wanted = "a flag, a category or labels of arms"
            raise InvalidValue("feature", "SetLimits", wanted, name)
        if not isinstance(feature, Flag):
            for value in _values_named(limits, name):
                if value not in feature.values:
                    wanted = f"a value of {name!r}, such as {feature.values[0]!r}"
                    raise InvalidValue("value", "SetLimits", wanted, value)
        rows = rows_of(arms, schema.width)
        features[name] = [feature._read(row, at) for row in rows]
    ids, groups = [arm.id for arm in arms], [arm.group for arm in arms]
    return limits.arrays(ids=ids, groups=groups, features=features)


def _values_named(limits: SetLimits, feature: str) -> list[object]:
    """Return the values of a feature that limits on slates name."""
    named: list[object] = [one.value for one in limits.at_most if one.feature == feature]
    named += [value for one in limits.not_both if one.feature == feature for value in one.values]
    return [value for value in named if value is not None]


def joint_mask(interactions: Interactions, contexts: Schema, arms: Schema) -> Bools:
    """Return which products of (1, context) and (1, arm) are weighed: (d + 1, p + 1) bools.

    Each feature alone is, whatever the interactions.

    >>> context, arm = Schema.plain(2), Schema([Flag("price")])
    >>> joint_mask([("x1", "price")], context, arm).astype(int).tolist()
    [[1, 1], [1, 0], [1, 1]]
    """
    mask: Bools = np.zeros((contexts.width + 1, arms.width + 1), np.bool_)
    mask[0], mask[:, 0] = True, True
    if isinstance(interactions, str):
        if validation.one_of(interactions, ("all", "none"), "interactions", "Agent") == "all":
            mask[:] = True
        return mask
    for pair in interactions:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            wanted = "pairs of the name of a context's feature and the name of an arm's"
            raise InvalidValue("interactions", "Agent", wanted, pair)
        sides = zip((contexts, arms), pair, ("a context", "an arm"), strict=True)
        mask[np.ix_(*(_columns_of(schema, name, of) for schema, name, of in sides))] = True
    return mask


def _columns_of(schema: Schema, name: str, of: str) -> list[int]:
    """Return the columns of a feature, counted from 1 on as in (1, x)."""
    starts = {feature.name: at for feature, at in schema.encoded}
    if not isinstance(name, str) or name not in starts:
        remedy = f"They are called {', '.join(map(repr, list(starts)[:5]))}."
        raise InvalidValue("interactions", "Agent", f"names of features of {of}", name, remedy)
    later = [at for at in starts.values() if at > starts[name]]
    return list(range(starts[name] + 1, min(later, default=schema.width) + 1))


def check_default(
    value: float | None, reward_range: tuple[float, float], wait: float | None, owner: str
) -> float | None:
    """Return what is learned where no reward came in time, or raise `InvalidValue`."""
    if value is None:
        return None
    if wait is None:
        wanted, remedy = "left out where decisions wait for ever", "Say how long: wait=3600, say."
        raise InvalidValue("default_reward", owner, wanted, value, remedy)
    return validation.FloatRange(*reward_range).check(value, "default_reward", owner)


def check_size(arms: int, width: int) -> None:
    """Raise `LimitReached` for more arms, or larger ones, than an agent can hold."""
    if arms > MAX_ARMS:
        remedy = (
            "Split the catalogue over several agents; or keep most arms yourself, and give each "
            "decision the few that could be played, with their features: decide(among=[Arm(…)])."
        )
        raise LimitReached("arms", MAX_ARMS, remedy)
    if arms * width * width > MAX_NUMBERS:
        what = "numbers (arms × features²)"
        raise LimitReached(what, MAX_NUMBERS, "Use fewer arms or features.")


def arm_id(value: object, owner: str, name: str = "id") -> ArmId:
    """Return the id of an arm, or of an item: a whole number or a short string."""
    if isinstance(value, str):
        return words(value, name, owner)
    if type(value) is int and ARM_NUMBER.low <= value <= ARM_NUMBER.high:  # which is the rule
        return value
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return ARM_NUMBER.check(value, name, owner)
    raise InvalidValue(name, owner, "an int or a string of 1 to 200 characters", value)


def meant(name: object, arms: Sequence[Arm], schema: Schema | None) -> str:
    """Return what could have been meant by the id of an arm that nobody has; "" if nothing is near.

    Another spelling, what people call an arm, a group, or a word of what arms are like.

    >>> meant("up", [Arm("tt1", "Up", "Films"), Arm("tt2", "Alien", "Films")], None)
    "Did you mean 'tt1', which is called 'Up'?"
    """
    if not isinstance(name, str | int) or len(str(name)) > 200:
        return ""
    word = str(name).casefold()
    arms = arms[:MOST_LOOKED]
    for arm in arms:
        if str(arm.id).casefold() == word:
            return f"Did you mean {arm.id!r}?"
    called = [arm for arm in arms if arm.label.casefold() == word]
    if called:
        more = f" (or one of {len(called) - 1:,} more of that name)" if len(called) > 1 else ""
        return f"Did you mean {called[0].id!r}, which is called {called[0].label!r}?{more}"
    if any(arm.group is not None and arm.group.casefold() == word for arm in arms):
        return "That is a group of arms: name one of them."
    for feature in () if schema is None else schema.features:
        if word == feature.name.casefold():
            return f"That is a feature of arms, and no arm: name the id of one that has {name!r}."
        values = feature.values if isinstance(feature, Category | Labels) else ()
        for value in values:
            if value.casefold() == word:
                key = "has" if isinstance(feature, Labels) else "equals"
                return (
                    f"That is one of the words of {feature.name!r}, which arms have, and no arm. "
                    "Teach about arms that have it, by their ids; or, if it is known for certain, "
                    f"declare Rule(..., when=[When(arm={feature.name!r}, {key}={value!r})])."
                )
    near: dict[str, ArmId] = {}
    for arm in arms:  # what begins alike: to compare all would take too long
        for one in (str(arm.id), arm.label):
            if one[:2].casefold() == word[:2]:
                near.setdefault(one, arm.id)
        if len(near) >= MOST_NEAR:
            break
    found = difflib.get_close_matches(str(name), near, n=2)
    each = [repr(near[one]) + (f" ({one!r})" if one != str(near[one]) else "") for one in found]
    return f"Did you mean {' or '.join(each)}?" if each else ""


def item_id(value: object, owner: str) -> str:
    """Return an id that a caller chose: a short string. Numbers are the agent's own."""
    return words(value, "id", owner)


def plain_id(value: object) -> ItemId:
    """Return an id as Python's own int or str; what cannot be one becomes "", which names nothing.

    True == 1 == 1.0, and a dict finds one by the other: no bool or float may name anything.
    """
    if type(value) is int or type(value) is str:
        return value
    if isinstance(value, np.integer):
        return int(value)
    return str(value) if isinstance(value, str) else ""


def listed(values: object, name: str, owner: str, length: int | None = None) -> list[Any]:
    """Return values that come in an order as a list, of this length if it is given."""
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
    """Return `value` as a string of 1 to `longest` characters that can be written as UTF-8."""
    # What is right already is the rule.
    right = type(value) is str and 1 <= len(value) <= longest
    text = str(value if right else validation.text(value, name, owner, longest))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValue(name, owner, "text that UTF-8 can hold", text) from None
    return text


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

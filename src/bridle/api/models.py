"""The form of an agent: every setting of `Agent`, as a client writes it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from bridle.agent.config import (
    SETTINGS,
    Arm,
    LabelCoding,
    OnDoubt,
    OnEmpty,
    Prior,
    Settings,
    Share,
    Teaching,
)
from bridle.agent.teachers import MAX_TEACHERS, Teacher
from bridle.api.base import MAX_WIDTH, ArmName, Form, Note, Words
from bridle.errors import InvalidValue, LimitReached
from bridle.limits.declared import Rule
from bridle.policies import Policy, policy_of
from bridle.reward.base import SHARED, Forget
from bridle.schema import KINDS, Feature
from bridle.slates import MAX_LIMITS, MAX_NAMED, MAX_PLACES, AtMost, NotBoth, SetLimits

__all__ = [
    "AgentForm",
    "ArmForm",
    "CandidateForm",
    "PolicyForm",
    "PromiseForm",
    "RuleForm",
    "TeacherForm",
    "arms_of",
    "candidates_of",
    "check_growth",
    "policy_in",
    "promise_of",
    "rule_of",
    "settings_of",
]


# What a policy, limits or a reward model of somebody else's are made with.
RegisteredOptions: TypeAlias = Annotated[
    dict[
        Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$", max_length=200)],
        bool
        | Annotated[int, Field(ge=-(2**53), le=2**53)]
        | Annotated[float, Field(ge=-1e6, le=1e6)]
        | Note
        | None,
    ],
    Field(max_length=100),
]
MAX_ARMS = 100_000
MAX_RULES = 1_000
# What is known of reward takes so many numbers, of 8 bytes, and some copies of them.
MAX_NUMBERS = 20_000_000
# Settings that `Agent` takes in another form than the one in which they are written.
OTHERWISE = (
    "arms",
    "features",
    "policy",
    "rules",
    "seed",
    "promise",
    "teachers",
    "arm_features",
    "set_limits",
)
MAX_PAIRS = 10_000

FeaturesOfArm: TypeAlias = Annotated[
    dict[Words, bool | int | float | str | list[str | None] | None] | list[float] | None,
    Field(
        max_length=MAX_WIDTH,
        description="What it is like, by the agent's `arm_features`: by name; or a list, where "
        "all of those are plain numbers",
    ),
]


class ArmForm(Form):
    """One thing that the agent can choose."""

    id: ArmName
    label: Words | None = None
    group: Words | None = None
    features: FeaturesOfArm = None


class CandidateForm(Form):
    """An arm that a request brings along. The agent need not have it."""

    id: ArmName
    label: Words | None = None
    features: FeaturesOfArm = None


Optional: TypeAlias = Annotated[
    bool,
    Field(description="Of arms: it may be left out and then is not known, so limits are in doubt"),
]


class NumberForm(Form):
    """A number, scaled to [0, 1] if it has a range."""

    kind: Literal["number"]
    name: Words
    low: float | None = None
    high: float | None = None
    clip: bool = False
    missing: float | None = None
    unit: Annotated[str, Field(min_length=1, max_length=40)] | None = None
    optional: Optional = False


class FlagForm(Form):
    """Something that is so or not."""

    kind: Literal["flag"]
    name: Words
    missing: bool | None = None
    optional: Optional = False


Values: TypeAlias = Annotated[tuple[Words, ...], Field(min_length=1, max_length=1_000)]


class CategoryForm(Form):
    """One word out of several."""

    kind: Literal["category"]
    name: Words
    values: Values
    missing: Words | Annotated[tuple[Words, ...], Field(max_length=0)] | None = None
    optional: Optional = False


class LabelsForm(Form):
    """Any of several words."""

    kind: Literal["labels"]
    name: Words
    values: Values
    missing: Annotated[tuple[Words, ...], Field(max_length=1_000)] | None = None
    optional: Optional = False


class IdForm(Form):
    """The name of what a context is about. It has no column; at most one feature is an id."""

    kind: Literal["id"]
    name: Words
    missing: None = None


FeatureForm: TypeAlias = Annotated[
    NumberForm | FlagForm | CategoryForm | LabelsForm | IdForm, Field(discriminator="kind")
]


class PolicyForm(Form):
    """How scores become a choice; see docs/api.md for what each kind takes."""

    kind: Annotated[
        Words,
        Field(
            description="LearnedMask, BehaviorConstrained, Thompson, Uniform, Greedy, "
            "EpsilonGreedy, LinUCB, SquareCB, Softmax, PlackettLuce, Masked, or a policy that is "
            "registered at the server"
        ),
    ]
    sigma: Annotated[float, Field(ge=0, le=1)] | None = None
    v: Annotated[float, Field(ge=0, le=1e6)] | None = None
    v_constraint: Annotated[float, Field(ge=0, le=1e6)] | None = None
    epsilon: Annotated[float, Field(ge=0, le=1)] | None = None
    alpha: Annotated[float, Field(ge=0, le=1e6)] | None = None
    gamma: Annotated[float, Field(ge=0, le=1e12)] | None = None
    temperature: Annotated[float, Field(ge=1e-6, le=1e6)] | None = None
    policy: Annotated[
        Words | None,
        Field(description="Of Masked: the kind inside, whose parameters stand beside it"),
    ] = None
    options: Annotated[
        RegisteredOptions | None, Field(description="Parameters of a policy that is registered")
    ] = None


class WhenForm(Form):
    """A condition on one feature: of the context (`feature`), or of the arm (`arm`)."""

    feature: Words | None = None
    arm: Annotated[Words | None, Field(description="The name of a feature of the arm")] = None
    equals: bool | Words | None = None
    has: Words | None = None
    at_least: float | None = None
    at_most: float | None = None


class RuleForm(Form):
    """Denies arms in every context in which all its conditions hold."""

    id: Words
    when: Annotated[tuple[WhenForm, ...], Field(max_length=100)] = ()
    arms: Annotated[tuple[ArmName, ...], Field(max_length=MAX_ARMS)] = ()
    groups: Annotated[tuple[Words, ...], Field(max_length=MAX_ARMS)] = ()
    note: Annotated[str, Field(max_length=1_000)] = ""


class AtMostForm(Form):
    """At most so many arms of a kind in one slate; without `feature`, kinds are groups."""

    most: Annotated[int, Field(ge=0, le=MAX_PLACES)]
    feature: Words | None = None
    value: Annotated[
        bool | Words | None, Field(description="Of this kind alone; left out: of each")
    ] = None


class NotBothForm(Form):
    """Arms, or two kinds of arms, that are not to stand in one slate."""

    arms: Annotated[tuple[ArmName, ...], Field(max_length=MAX_NAMED)] = ()
    feature: Words | None = None
    values: Annotated[tuple[bool | Words, ...], Field(max_length=2)] = ()


class SetLimitsForm(Form):
    """What no slate may hold together."""

    at_most: Annotated[tuple[AtMostForm, ...], Field(max_length=MAX_LIMITS)] = ()
    not_both: Annotated[tuple[NotBothForm, ...], Field(max_length=MAX_LIMITS)] = ()


Level: TypeAlias = Annotated[
    float, Field(ge=1e-6, le=1, description="Denied plays a decision that are promised at most")
]
Coin: TypeAlias = Annotated[
    float, Field(ge=1e-6, le=1, description="The least probability that a play is judged")
]


class PromiseForm(Form):
    """A promise, whatever happens: at most alpha·T + b + 1/q denied plays in T decisions."""

    alpha: Level
    q: Coin
    lag: Annotated[
        int, Field(ge=0, le=10**6, description="Decisions that judgements are expected to take")
    ] = 0
    b: Annotated[
        float | None, Field(ge=0, le=1e9, description="Balance at first; by q and lag if left out")
    ] = None


class TeacherForm(Form):
    """One of several teachers, who may err."""

    name: Annotated[Words, Field(pattern=r"^[^,]*$", description="Without commas")]
    price: Annotated[
        float, Field(ge=0, le=1e6, description="What an answer of theirs costs, in rewards")
    ] = 0.35
    error: Annotated[
        float | None, Field(ge=0, le=0.5, description="How often they err; null: it is learned")
    ] = None


def declared(name: str, **others: Any) -> Any:
    """Return the field of a setting as `Settings` declares it: default, range and help.

    `others` are what is otherwise over HTTP.
    """
    setting = SETTINGS[name]
    said: dict[str, Any] = {"default": setting.default, "description": setting.help}
    span = setting.range
    if span is not None:
        said["gt" if getattr(span, "open_low", False) else "ge"] = span.low
        said["lt" if getattr(span, "open_high", False) else "le"] = span.high
    return Field(**{**said, **others})


FeaturesForm: TypeAlias = (
    Annotated[int, Field(ge=1, le=MAX_WIDTH)]
    | Annotated[tuple[FeatureForm, ...], Field(min_length=1, max_length=1_000)]
)
# The name of a feature of contexts, and of one of arms.
PairForm: TypeAlias = tuple[Words, Words]


class AgentForm(Form):
    """An agent: its arms, its features and how it learns. What is left out has its default."""

    arms: Annotated[tuple[ArmForm | ArmName, ...], Field(min_length=1, max_length=MAX_ARMS)]
    features: FeaturesForm
    sigma: float | None = declared("sigma")
    boldness: float | None = declared("boldness")
    policy: PolicyForm | None = declared("policy")
    seed: int | None = declared("seed", default=None, le=2**53, description="Random if left out")
    reward_range: tuple[float, float] = declared("reward_range")
    # The words are in its description: names that are registered are taken as well.
    limits: Words = declared(
        "limits", json_schema_extra={"examples": list(SETTINGS["limits"].choices)}
    )
    limits_options: RegisteredOptions | None = declared("limits_options")
    reward: Words | None = declared("reward")
    reward_options: RegisteredOptions | None = declared("reward_options")
    arm_features: FeaturesForm | None = declared("arm_features")
    interactions: (
        Literal["all", "none"] | Annotated[tuple[PairForm, ...], Field(max_length=MAX_PAIRS)]
    ) = declared("interactions")
    set_limits: SetLimitsForm | None = declared("set_limits")
    share: Share = declared("share")
    crosses: bool = declared("crosses")
    teacher_error: float | None = declared("teacher_error")
    doubt: float | None = declared("doubt")
    on_empty: OnEmpty = declared("on_empty")
    safe_arm: ArmName | None = declared("safe_arm")
    budget: int = declared("budget")
    on_doubt: OnDoubt = declared("on_doubt")
    ask_at_most: int = declared("ask_at_most")
    answer_price: float = declared("answer_price")
    patience: int | None = declared("patience")
    exact_denials: bool = declared("exact_denials")
    rules: tuple[RuleForm, ...] = declared("rules", max_length=MAX_RULES)
    teaching: Teaching | None = declared("teaching")
    v_teaching: float = declared("v_teaching")
    label_coding: LabelCoding = declared("label_coding")
    # Of these two the settings say which are too small or too large.
    ridge: float = declared("ridge", gt=0, ge=None, le=None)
    ridge_limits: float = declared("ridge_limits", gt=0, ge=None, le=None)
    prior: Prior | None = declared("prior")
    forget: Forget | None = declared("forget")
    # A service holds many agents.
    max_pending: int = declared("max_pending", le=10_000_000)
    max_examples: int = declared("max_examples", le=10_000_000)
    wait: float | None = declared("wait")
    default_reward: float | None = declared("default_reward")
    checks: Annotated[int, Field(ge=0, le=2**53)] | Annotated[float, Field(ge=0, lt=1)] | None = (
        declared("checks")
    )
    promise: PromiseForm | tuple[Level, Coin] | None = declared("promise")
    teachers: tuple[TeacherForm, ...] = declared("teachers", max_length=MAX_TEACHERS)


def settings_of(form: AgentForm) -> Settings:
    """Return the settings of an agent, every one in full, or raise what `Agent` would."""
    _check_size(form)
    given: dict[str, Any] = {
        name: getattr(form, name) for name in AgentForm.model_fields if name not in OTHERWISE
    }
    given["policy"] = None if form.policy is None else policy_in(form.policy)
    given["set_limits"] = None if form.set_limits is None else _set_limits(form.set_limits)
    given["rules"] = [rule_of(rule) for rule in form.rules]
    given["teachers"] = [Teacher(one.name, one.price, one.error) for one in form.teachers]
    given["seed"] = secrets.randbits(53) if form.seed is None else form.seed
    for name in ("features", "arm_features"):
        features = getattr(form, name)
        plain = features is None or isinstance(features, int)
        given[name] = features if plain else [_feature(feature) for feature in features]
    return Settings.of(arms=arms_of(form.arms), **given)


def promise_of(form: AgentForm) -> PromiseForm | None:
    """Return the promise that a new agent is to keep, if any."""
    given = form.promise
    return PromiseForm(alpha=given[0], q=given[1]) if isinstance(given, tuple) else given


def _check_size(form: AgentForm) -> None:
    """Raise `LimitReached` where an agent would take more memory than it may have."""
    width = _width(form.features)
    others = None if form.arm_features is None else _width(form.arm_features)
    shared = others is not None and form.reward in (None, SHARED)
    check_growth(len(form.arms), width, others, shared=shared)


def check_growth(arms: int, width: int, arm_width: int | None, *, shared: bool) -> None:
    """Raise `LimitReached` where so many arms would take more memory than an agent may have.

    Parameters
    ----------
    arms, width, arm_width : int
        How many arms, and columns of a context and of an arm; no `arm_width` without features.
    shared : bool
        Whether arms share what is learned of them.
    """
    if arms > MAX_ARMS:
        raise LimitReached("arms", MAX_ARMS, "Use fewer arms.")
    if not shared:
        if arms * (width + 1) ** 2 > MAX_NUMBERS:
            what = f"arms × features² ({arms:,} arms, {width:,} columns)"
            raise LimitReached(what, MAX_NUMBERS, "Use fewer arms or features.")
    elif (width + 1) * ((arm_width or 0) + 1) > MAX_NUMBERS:
        what = f"features × features of arms ({width:,} and {arm_width:,} columns)"
        raise LimitReached(what, MAX_NUMBERS, "Use fewer features.")
    if arm_width is not None and arms * (width + arm_width + 2) > MAX_NUMBERS:
        what = f"arms × features ({arms:,} arms, {width + arm_width:,} columns)"
        raise LimitReached(what, MAX_NUMBERS, "Use fewer arms or features.")


def _width(features: FeaturesForm) -> int:
    """Return the columns of features."""
    if isinstance(features, int):
        return features
    return sum(
        0
        if isinstance(one, IdForm)
        else (len(one.values) if isinstance(one, CategoryForm | LabelsForm) else 1) + one.optional
        for one in features
    )


def arms_of(arms: Sequence[ArmForm | int | str]) -> list[Arm]:
    """Return arms as `Agent` takes them."""
    return [
        Arm(arm.id, arm.label or "", arm.group, arm.features)
        if isinstance(arm, ArmForm)
        else Arm(arm)
        for arm in arms
    ]


def candidates_of(among: Sequence[CandidateForm | int | str]) -> list[Arm | int | str]:
    """Return what can be had as `Agent.decide` takes it: ids, and arms that came with it."""
    return [
        Arm(one.id, one.label or "", None, one.features) if isinstance(one, CandidateForm) else one
        for one in among
    ]


def _set_limits(form: SetLimitsForm) -> SetLimits:
    return SetLimits(
        at_most=tuple(AtMost(**one.model_dump()) for one in form.at_most),
        not_both=tuple(NotBoth(**one.model_dump()) for one in form.not_both),
    )


def rule_of(form: RuleForm) -> Rule:
    """Return a rule as `Agent` takes it."""
    return Rule.from_json(form.model_dump(mode="json", exclude_none=True))


def policy_in(form: PolicyForm) -> Policy:
    """Return a policy as `Agent` takes it, or raise what is wrong with it."""
    given = form.model_dump(exclude_none=True, exclude={"kind", "options"})
    if form.kind == "KnownMask":
        wanted = "one that is not told the truth"
        raise InvalidValue("policy", "Agent", wanted, form.kind, "Declare what you know as rules.")
    return policy_of(form.kind, given | (form.options or {}))


def _feature(form: FeatureForm) -> Feature:
    made: Feature = KINDS[form.kind](**form.model_dump(exclude={"kind"}))
    return made

"""Every choice that is made when an agent is created, in full.

The `Created` event holds all of it, so that a default that changes in a later version never
changes what an old log means.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias, cast

from bridle import validate
from bridle.errors import CorruptState, InvalidValue
from bridle.features import Feature, Schema
from bridle.limits import LABEL_CODINGS
from bridle.policies import Weighted, policy_from_json, policy_to_json
from bridle.rules import Rule
from bridle.teaching import TEACHINGS

__all__ = ["Arm", "ArmId", "ItemId", "Json", "Settings", "arm_id", "item_id", "the_arms"]

ArmId: TypeAlias = int | str
# Of decisions, questions and examples: a number is given by the agent, a string by the caller.
ItemId: TypeAlias = int | str
Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"

PENDING = validate.IntRange(1, 100_000_000)
EXAMPLES = validate.IntRange(1, 100_000_000)
ARM_NUMBER = validate.IntRange(-(2**53), 2**53)


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
        Arms of one group (an age band, a ward) share known rules and, later, what was taught.
    """

    id: ArmId
    label: str = ""
    group: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", arm_id(self.id, "Arm"))
        if not self.label:
            object.__setattr__(self, "label", str(self.id))
        validate.text(self.label, "label", "Arm")
        if self.group is not None:
            validate.text(self.group, "group", "Arm")

    def to_json(self) -> dict[str, Json]:
        """Give the arm as plain JSON values."""
        return {"id": self.id, "label": self.label, "group": self.group}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `Agent` was created with; its parameters are explained there."""

    arms: tuple[Arm, ...]
    features: Schema
    policy: Weighted
    limits: str
    label_coding: str
    teaching: str
    v_teaching: float
    ridge: float
    ridge_limits: float
    prior: str
    reward_range: tuple[float, float]
    exact_denials: bool
    rules: tuple[Rule, ...]
    seed: int
    max_pending: int
    max_examples: int

    def __post_init__(self) -> None:
        owner = "Agent"
        policy_to_json(self.policy)
        if self.policy.needs_truth:
            raise InvalidValue(
                "policy", owner, "one that is not told the truth", self.policy,
                "Declare what you know as rules=[Rule(...)].",
            )  # fmt: skip
        validate.one_of(self.limits, ("linear",), "limits", owner)
        validate.one_of(self.label_coding, LABEL_CODINGS, "label_coding", owner)
        validate.one_of(self.teaching, TEACHINGS, "teaching", owner)
        validate.one_of(self.prior, ("paper",), "prior", owner)
        checked = {
            "v_teaching": validate.NON_NEGATIVE.check(self.v_teaching, "v_teaching", owner),
            "ridge": validate.RIDGE.check(self.ridge, "ridge", owner),
            "ridge_limits": validate.RIDGE.check(self.ridge_limits, "ridge_limits", owner),
            "reward_range": _range(self.reward_range),
            "exact_denials": validate.truth(self.exact_denials, "exact_denials", owner),
            "seed": validate.SEED.check(self.seed, "seed", owner),
            "max_pending": PENDING.check(self.max_pending, "max_pending", owner),
            "max_examples": EXAMPLES.check(self.max_examples, "max_examples", owner),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def to_json(self) -> dict[str, Json]:
        """Give every setting as plain JSON values."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        data["arms"] = [arm.to_json() for arm in self.arms]
        data["features"] = self.features.to_json()
        data["policy"] = policy_to_json(self.policy)
        data["rules"] = [rule.to_json() for rule in self.rules]
        data["reward_range"] = list(self.reward_range)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Settings:
        """Give back the settings that `to_json` wrote."""
        values = cast("dict[str, object]", dict(data))
        if set(values) != {field.name for field in fields(cls)}:
            raise CorruptState(f"The settings of an agent are not {sorted(values)}.")
        try:
            values["arms"] = tuple(Arm(**arm) for arm in values["arms"])  # type: ignore[attr-defined]
            values["features"] = Schema.from_json(values["features"])  # type: ignore[arg-type]
            values["policy"] = policy_from_json(values["policy"])  # type: ignore[arg-type]
            values["rules"] = tuple(Rule.from_json(rule) for rule in values["rules"])  # type: ignore[attr-defined]
            values["reward_range"] = tuple(values["reward_range"])  # type: ignore[arg-type]
        except TypeError as error:
            raise CorruptState(f"The settings of an agent cannot be read: {error}") from None
        return cls(**values)  # type: ignore[arg-type]


def the_arms(arms: int | Iterable[Arm | ArmId]) -> tuple[Arm, ...]:
    """Give arms as a tuple of `Arm`: from a number K (ids 0 … K−1), from ids or from arms."""
    if isinstance(arms, numbers.Integral) and not isinstance(arms, bool):
        count = validate.IntRange(1, 1_000_000).check(arms, "arms", "Agent")
        return tuple(Arm(k) for k in range(count))
    if isinstance(arms, str) or not isinstance(arms, Iterable):
        raise InvalidValue("arms", "Agent", "a number or a list of ids or of Arm", arms)
    made = tuple(arm if isinstance(arm, Arm) else Arm(arm) for arm in arms)
    if not made:
        raise InvalidValue("arms", "Agent", "at least one arm", arms)
    return made


def the_schema(features: int | Schema | Sequence[Feature]) -> Schema:
    """Give features as a `Schema`: from a number d of plain numbers, or from features."""
    if isinstance(features, Schema):
        return features
    if isinstance(features, numbers.Integral) and not isinstance(features, bool):
        return Schema.plain(int(features))
    if isinstance(features, str) or not isinstance(features, Sequence):
        raise InvalidValue("features", "Agent", "a number, a Schema or a list of features", features)
    return Schema(tuple(features))


def arm_id(value: object, owner: str) -> ArmId:
    """Give the id of an arm: a whole number or a short string."""
    if isinstance(value, str):
        return validate.text(value, "id", owner)
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return ARM_NUMBER.check(value, "id", owner)
    raise InvalidValue("id", owner, "an int or a string of 1 to 200 characters", value)


def item_id(value: object, owner: str) -> str:
    """Give an id that a caller chose: a short string. Numbers are the agent's own."""
    return validate.text(value, "id", owner)


def _range(value: object) -> tuple[float, float]:
    wanted = "two floats (low, high) with low < high"
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidValue("reward_range", "Agent", wanted, value)
    finite = validate.FloatRange(-1e300, 1e300)
    low = finite.check(value[0], "reward_range", "Agent")
    high = finite.check(value[1], "reward_range", "Agent")
    if not low < high:
        raise InvalidValue("reward_range", "Agent", wanted, value)
    return low, high

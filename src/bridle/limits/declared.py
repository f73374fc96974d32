"""Limits that are known beforehand, declared as data: arm or group × feature condition → denied.

A `Rule` is in the words of the schema and of the arms, and can be saved. `compile_rule` checks it
against both and gives what a decision needs: which arms, and which columns between which values.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, TypeAlias, assert_never

import numpy as np

from bridle.errors import InvalidValue
from bridle.schema import Category, Flag, Id, Labels, Number, Schema, known
from bridle.validation import Bools, FloatRange, Floats, text, truth

__all__ = [
    "ArmId",
    "CompiledRule",
    "Rule",
    "When",
    "compile_rule",
    "denied_arms",
    "describe",
]

ArmId: TypeAlias = int | str

MAX_CONDITIONS = 100
MAX_NAMES = 10_000
MAX_NOTE = 2_000


@dataclass(frozen=True, slots=True)
class When:
    """A condition on one feature: give `equals`, or `has`, or one or both of the other two.

    Parameters
    ----------
    feature : str
        The name of a feature of the context.
    arm : str
        Instead of that: the name of a feature of the arm.
    equals : bool or str, optional
        For a flag True or False, for a category one of its values.
    has : str, optional
        For labels one of their values.
    at_least, at_most : float, optional
        For a number, in raw units, in its range or not. A value at the threshold counts as
        holding, and so may one that scaling cannot tell from it. A rule sees what the schema made
        of a value: if the feature clips, no threshold outside its range is ever passed.

    Examples
    --------
    >>> When("age", at_least=12, at_most=17)
    When(feature='age', equals=None, has=None, at_least=12.0, at_most=17.0)
    >>> When(arm="genres", has="Horror").to_json()
    {'has': 'Horror', 'arm': 'genres'}
    """

    feature: str | None = None
    _: KW_ONLY
    equals: bool | str | None = None
    has: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    arm: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.feature is None) == (self.arm is None):
            wanted = "the name of a feature; or left out, with arm= that of an arm's"
            raise InvalidValue("feature", "When", wanted, self.feature)
        if self.arm is not None:
            text(self.arm, "arm", "When")
        else:
            text(self.feature, "feature", "When")
        owner = f"When {self.name!r}"
        bounded = self.at_least is not None or self.at_most is not None
        if (self.equals is not None) + (self.has is not None) + bounded != 1:
            got = {f.name: getattr(self, f.name) for f in fields(self)}
            raise InvalidValue(
                "equals, has, at_least, at_most", owner, "given one (or the last two)", got
            )
        if isinstance(self.equals, str):
            text(self.equals, "equals", owner)
        elif self.equals is not None:
            object.__setattr__(self, "equals", truth(self.equals, "equals", owner))
        if self.has is not None:
            text(self.has, "has", owner)
        for name in ("at_least", "at_most"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, FloatRange().check(value, name, owner))
        low, high = self._interval()
        if low > high:
            raise InvalidValue("at_least", owner, f"no more than at_most = {high}", low)

    @property
    def name(self) -> str:
        """The name of the feature, of the context's or of the arm's."""
        return str(self.feature if self.arm is None else self.arm)

    def __repr__(self) -> str:
        names = ("equals", "has", "at_least", "at_most")
        about = f"feature={self.feature!r}" if self.arm is None else f"arm={self.arm!r}"
        return f"When({', '.join([about, *(f'{n}={getattr(self, n)!r}' for n in names)])})"

    def _interval(self) -> tuple[float, float]:
        """Return the raw values, both included, between which a number makes this hold."""
        low = -math.inf if self.at_least is None else self.at_least
        high = math.inf if self.at_most is None else self.at_most
        return low, high

    def _words(self) -> str:
        if self.has is not None:
            return f"{self.name} has {self.has}"
        if isinstance(self.equals, bool):
            return f"{self.name} is {'true' if self.equals else 'false'}"
        if self.equals is not None:
            return f"{self.name} is {self.equals}"
        ends = [("at least", self.at_least), ("at most", self.at_most)]
        # repr and not a format: a threshold must be readable to its last digit.
        shown = [f"{word} {end!r}".removesuffix(".0") for word, end in ends if end is not None]
        return f"{self.name} is {' and '.join(shown)}"

    def to_json(self) -> dict[str, object]:
        """Return the condition as plain JSON values, without what is not set.

        >>> When("genres", has="Horror").to_json()
        {'feature': 'genres', 'has': 'Horror'}
        """
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, data: object) -> When:
        """Make the condition that `to_json` gave; an unknown key is an error.

        >>> When.from_json({"feature": "genres", "has": "Horror"}) == When("genres", has="Horror")
        True
        """
        side = "arm" if isinstance(data, dict) and "arm" in data else "feature"
        return cls(**_settings(cls, data, [side], "When.from_json"))


@dataclass(frozen=True, slots=True)
class Rule:
    """Denies arms in every context in which all its conditions hold.

    Parameters
    ----------
    id : str
        Its name, for logs and explanations.
    when : list or tuple of When
        The conditions, at most 100, on the context and, if arms have features, on the arm; with
        none the arms are always denied.
    arms, groups : list or tuple
        The ids (int or str) of the denied arms, and the groups whose arms are denied. With
        neither, every arm is.
    note : str
        Why, in words.

    Examples
    --------
    >>> rule = Rule("no-horror", when=[When("genres", has="Horror")], groups=["12-17"])
    >>> describe(rule)
    '12-17: not if genres has Horror'
    >>> Rule.from_json(rule.to_json()) == rule
    True
    >>> describe(Rule("r", when=[When("age", at_most=17), When(arm="genres", has="Horror")]))
    'every arm if genres has Horror: not if age is at most 17'
    """

    id: str
    when: Sequence[When] = ()
    arms: Sequence[ArmId] = ()
    groups: Sequence[str] = ()
    note: str = ""

    def __post_init__(self) -> None:
        owner = f"Rule {text(self.id, 'id', 'Rule')!r}"
        when = _listed(self.when, MAX_CONDITIONS, "When", "when", owner)
        for condition in when:
            if not isinstance(condition, When):
                raise InvalidValue("when", owner, "a list or tuple of When", condition)
        arms = _listed(self.arms, MAX_NAMES, "arm ids", "arms", owner)
        groups = _listed(self.groups, MAX_NAMES, "groups", "groups", owner)
        object.__setattr__(self, "when", when)
        object.__setattr__(self, "arms", tuple(_arm_id(arm, owner) for arm in arms))
        object.__setattr__(self, "groups", tuple(text(g, "groups", owner) for g in groups))
        if self.note != "":
            text(self.note, "note", owner, MAX_NOTE)

    def to_json(self) -> dict[str, object]:
        """Return the rule as plain JSON values, every setting in full.

        >>> Rule("closed", arms=[3]).to_json()
        {'id': 'closed', 'when': [], 'arms': [3], 'groups': [], 'note': ''}
        """
        return {
            "id": self.id,
            "when": [condition.to_json() for condition in self.when],
            "arms": list(self.arms),
            "groups": list(self.groups),
            "note": self.note,
        }

    @classmethod
    def from_json(cls, data: object) -> Rule:
        """Make the rule that `to_json` gave; an unknown key is an error.

        >>> Rule.from_json({"id": "closed", "arms": [3]}) == Rule("closed", arms=[3])
        True
        """
        settings = _settings(cls, data, ["id"], "Rule.from_json")
        when = settings.pop("when", [])
        if isinstance(when, list):  # anything else is the constructor's to refuse
            when = [When.from_json(condition) for condition in when[: MAX_CONDITIONS + 1]]
        return cls(when=when, **settings)


@dataclass(frozen=True, slots=True, eq=False)
class CompiledRule:
    """A rule in terms of columns and arm numbers, made by `compile_rule`.

    Parameters
    ----------
    rule : Rule
        Where it comes from.
    arms : ndarray of bool, shape (K,)
        The arms that it denies, read only: named, and with features that fulfil its conditions.
    conditions : tuple of (column, low, high)
        It holds where each column of the context is in its closed interval, in encoded units.
    arm_conditions : tuple of (column, low, high)
        The same of the columns of an arm.
    arm_gaps : tuple of int
        For each of these the column that says that the feature is not known, -1 if it always is.
        What may hold is taken to hold.

    Examples
    --------
    >>> CompiledRule(Rule("warm"), np.array([True]), ((0, 0.5, 1.0),)).denied(np.array([0.5]))
    True
    """

    rule: Rule
    arms: Bools
    conditions: tuple[tuple[int, float, float], ...]
    arm_conditions: tuple[tuple[int, float, float], ...] = ()
    arm_gaps: tuple[int, ...] = ()

    def denied(self, context: Floats) -> bool:
        """Return whether all conditions hold in an encoded context, so that `arms` are denied."""
        return all(low <= context[column] <= high for column, low, high in self.conditions)

    def speaks_of(self, arm: ArmId, group: str | None, row: Floats | None) -> bool:
        """Return whether it is about an arm, maybe one that no agent has stored."""
        rule = self.rule
        named = not rule.arms and not rule.groups
        if not named and arm not in rule.arms and group not in rule.groups:
            return False
        each = zip(self.arm_conditions, self.arm_gaps, strict=True)
        return row is None or all(
            low <= row[at] <= high or (gap >= 0 and row[gap] > 0.5) for (at, low, high), gap in each
        )


def compile_rule(
    rule: Rule,
    schema: Schema,
    arm_ids: Sequence[ArmId],
    arm_groups: Sequence[str | None],
    arm_schema: Schema | None = None,
    arm_rows: Floats | None = None,
) -> CompiledRule:
    """Check a rule against the schema and the arms, and make it ready for decisions.

    Parameters
    ----------
    rule : Rule
        The rule.
    schema : Schema
        The features that its conditions name.
    arm_ids, arm_groups : sequence, length K
        The id and the group (None for none) of each arm.
    arm_schema, arm_rows : Schema and array (K, p), optional
        The features of arms, and those of each arm, encoded.

    Examples
    --------
    >>> schema = Schema([Number("age", low=0, high=100)])
    >>> rule = Rule("minors", when=[When("age", at_most=17)], groups=["bar"])
    >>> compiled = compile_rule(rule, schema, ["juice", "gin"], [None, "bar"])
    >>> compiled.arms, compiled.conditions
    (array([False,  True]), ((0, -inf, 0.17),))
    >>> compiled.denied(schema.encode({"age": 17}))
    True
    """
    owner = f"Rule {rule.id!r}"
    if len(arm_ids) != len(arm_groups):
        got = len(arm_groups)
        raise InvalidValue(
            "arm_groups", "compile_rule", f"one for each of {len(arm_ids)} arms", got
        )
    for name, wanted, there in (
        ("arms", rule.arms, dict.fromkeys(arm_ids)),
        ("groups", rule.groups, dict.fromkeys(group for group in arm_groups if group is not None)),
    ):
        for one in wanted:
            if one not in there:
                # Cut, for the search takes 5 µs an arm.
                remedy = known(one, [*there][:MAX_NAMES]) if there else "There are none."
                raise InvalidValue(name, owner, f"{name} of the agent", one, remedy)
    everyone = not rule.arms and not rule.groups
    listed, groups = set(rule.arms), set(rule.groups)
    pairs = zip(arm_ids, arm_groups, strict=True)
    arms = np.array([everyone or arm in listed or group in groups for arm, group in pairs], bool)
    ours = [when for when in rule.when if when.arm is None]
    theirs = [when for when in rule.when if when.arm is not None]
    if theirs and (arm_schema is None or arm_rows is None):
        remedy = "Declare what arms are like: Agent(arm_features=Schema([...]))."
        wanted = "a condition on the context, as arms have no features"
        raise InvalidValue(f"when arm {theirs[0].arm}", owner, wanted, theirs[0].to_json(), remedy)
    conditions = tuple(_condition(when, schema, owner) for when in ours)
    of_arms: tuple[tuple[int, float, float], ...] = ()
    gaps: tuple[int, ...] = ()
    if arm_schema is not None and arm_rows is not None:
        of_arms = tuple(_condition(when, arm_schema, owner) for when in theirs)
        known_by = {feature.name: gap for feature, gap in arm_schema.optional}
        gaps = tuple(known_by.get(when.name, -1) for when in theirs)
        for (column, low, high), gap in zip(of_arms, gaps, strict=True):
            holds = (low <= arm_rows[:, column]) & (arm_rows[:, column] <= high)
            arms &= holds | (arm_rows[:, gap] > 0.5) if gap >= 0 else holds
    arms.flags.writeable = False
    return CompiledRule(rule, arms, conditions, of_arms, gaps)


def denied_arms(rules: Sequence[CompiledRule], context: Floats, K: int) -> Bools:
    """Return for each of K arms whether some rule denies it in an encoded context: (K,).

    >>> rule = compile_rule(Rule("closed", arms=["b"]), Schema.plain(1), ["a", "b"], [None, None])
    >>> denied_arms([rule], np.zeros(1), 2)
    array([False,  True])
    """
    denied = np.zeros(K, dtype=np.bool_)
    for rule in rules:
        if rule.denied(context):
            denied |= rule.arms
    return denied


def describe(rule: Rule) -> str:
    """Return a rule as a plain sentence.

    >>> describe(Rule("r", when=[When("age", at_most=17), When("smoker", equals=True)], arms=[3]))
    '3: not if age is at most 17 and smoker is true'
    >>> describe(Rule("closed", groups=["bar"]))
    'bar: never'
    """
    names = [str(name) for name in (*rule.arms, *rule.groups)]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    who = f"{', '.join(names[:5])}{more}" if names else "every arm"
    like = " and ".join(one._words() for one in rule.when if one.arm is not None)
    who += f" if {like}" if like else ""
    what = " and ".join(one._words() for one in rule.when if one.arm is None)
    return f"{who}: not if {what}" if what else f"{who}: never"


def _condition(when: When, schema: Schema, owner: str) -> tuple[int, float, float]:
    """Return the column of a condition and the closed interval in which it holds."""
    feature, column = schema.place(when.name, owner)
    name, kind = f"when {when.name}", type(feature).__name__.lower()
    if isinstance(feature, Id):
        remedy = "An item is denied by its name: agent.teach(context, arm, False, item=...)."
        wanted = "a condition on a feature; an Id has no column"
        raise InvalidValue(name, owner, wanted, when.to_json(), remedy)
    if isinstance(feature, Number):
        if when.equals is None and when.has is None:
            low, high = when._interval()
            # The very operation that `encode` applies to a value. It is monotone, rounding
            # included, so a value at the threshold holds, as does one beyond, whatever the digits.
            return column, feature.scale(low), feature.scale(high)
        way = "at_least= or at_most="
    elif isinstance(feature, Flag):
        if isinstance(when.equals, bool):
            return (column, 0.5, math.inf) if when.equals else (column, -math.inf, 0.5)
        way = "equals=True or equals=False"
    elif isinstance(feature, Category | Labels):
        several = isinstance(feature, Labels)
        word = when.has if several else when.equals
        if isinstance(word, str):
            return column + _place(word, feature.values, name, owner), 0.5, math.inf
        way = f"{'has' if several else 'equals'}= one of its values"
    else:
        assert_never(feature)
    expected = f"a condition on a {kind}" if kind != "labels" else "a condition on labels"
    raise InvalidValue(name, owner, expected, when.to_json(), f"Write {way}.")


def _place(word: str, values: Sequence[str], name: str, owner: str) -> int:
    if word not in values:
        raise InvalidValue(name, owner, "one of its values", word, known(word, values))
    return values.index(word)


def _settings(kind: type[Any], data: object, needed: list[str], owner: str) -> dict[str, Any]:
    """Return `data` as keyword arguments: a dict with no key too many or too few."""
    names = [f.name for f in fields(kind)]
    if not isinstance(data, dict) or any(name not in data for name in needed):
        raise InvalidValue("data", owner, f"a dict with the key {', '.join(needed)}", data)
    for key in data:
        if key not in names:
            expected = f"a dict with no keys but {', '.join(names)}"
            raise InvalidValue("data", owner, expected, key, known(key, names))
    return dict(data)


def _listed(value: object, most: int, what: str, name: str, owner: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or len(value) > most:
        raise InvalidValue(name, owner, f"a list or tuple of at most {most:,} {what}", value)
    return tuple(value)


def _arm_id(value: object, owner: str) -> ArmId:
    # True == 1 and hash(True) == hash(1): a bool would silently name arm 1.
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and 1 <= len(value) <= 200:
        return value
    raise InvalidValue("arms", owner, "ids: int, or str of 1 to 200 characters", value)

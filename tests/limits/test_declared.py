"""Known rules: what they say, what is refused, and that they hold exactly where they should."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bridle.errors import InvalidValue
from bridle.limits.declared import Rule, When, compile_rule, denied_arms, describe
from bridle.schema import Category, Flag, Labels, Number, Schema

SCHEMA = Schema(
    [
        Number("age", low=18, high=89),
        Number("dose"),
        Number("pain", low=0, high=10, clip=True),
        Flag("smoker"),
        Category("sky", ["clear", "cloudy"], missing=()),
        Labels("genres", ["Comedy", "Drama", "Horror"]),
    ]
)
ARMS = [1, "1", "b", 7]
GROUPS = ["low", None, "high", "low"]
CONTEXT = {"age": 30, "dose": 0, "pain": 5, "smoker": False, "sky": "clear", "genres": ["Drama"]}


def refused(call, *parts):
    """The call raises InvalidValue, in the one form, with these parts in its message."""
    with pytest.raises(InvalidValue) as caught:
        call()
    message = str(caught.value)
    assert message.startswith("The '") and " must be " in message and " instead." in message
    for part in parts:
        assert part in message


def compiled(*when, schema=SCHEMA, **who):
    return compile_rule(Rule("r", when, **who), schema, ARMS, GROUPS)


def holds(when, **changed):
    return compiled(*when).denied(SCHEMA.encode({**CONTEXT, **changed}))


words = st.text(min_size=1, max_size=5)
finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def conditions(draw):
    kind = draw(st.sampled_from(["equals", "has", "ends"]))
    name = draw(words)
    if kind == "equals":
        return When(name, equals=draw(st.booleans() | words))
    if kind == "has":
        return When(name, has=draw(words))
    low, high = draw(st.none() | finite), draw(st.none() | finite)
    assume(low is not None or high is not None)
    if low is not None and high is not None:
        low, high = sorted([low, high])
    return When(name, at_least=low, at_most=high)


rules = st.builds(
    Rule,
    words,
    st.lists(conditions(), max_size=3),
    st.lists(st.integers() | words, max_size=3),
    st.lists(words, max_size=3),
    st.text(max_size=5),
)


@st.composite
def compiled_rules(draw):
    """Rules over SCHEMA that mostly hold somewhere."""
    ages = st.floats(0, 100)
    one = st.one_of(
        ages.map(lambda x: When("age", at_least=x)),
        ages.map(lambda x: When("age", at_most=x)),
        st.booleans().map(lambda x: When("smoker", equals=x)),
        st.sampled_from(["clear", "cloudy"]).map(lambda x: When("sky", equals=x)),
        st.sampled_from(["Comedy", "Drama", "Horror"]).map(lambda x: When("genres", has=x)),
    )
    when = draw(st.lists(one, max_size=2))
    arms = draw(st.lists(st.sampled_from(ARMS), max_size=2))
    groups = draw(st.lists(st.sampled_from(["low", "high"]), max_size=1))
    return compiled(*when, arms=arms, groups=groups)


contexts = st.fixed_dictionaries(
    {
        "age": st.floats(18, 89),
        "dose": st.floats(-1e6, 1e6),
        "pain": st.floats(-5, 15),
        "smoker": st.booleans(),
        "sky": st.sampled_from(["clear", "cloudy", None]),
        "genres": st.sets(st.sampled_from(["Comedy", "Drama", "Horror"])),
    }
)


def plainly_denied(rule, context, arm, group):
    """The rule as a person reads it, on raw values."""
    for when in rule.when:
        value = context[when.feature]
        if when.has is not None:
            held = when.has in value
        elif when.equals is not None:
            held = value == when.equals
        else:
            held = (when.at_least is None or value >= when.at_least) and (
                when.at_most is None or value <= when.at_most
            )
        if not held:
            return False
    everyone = not rule.arms and not rule.groups
    return everyone or arm in rule.arms or group in rule.groups


# --- where a rule holds -------------------------------------------------------------------


@given(st.lists(compiled_rules(), max_size=4), st.lists(contexts, max_size=4))
def test_the_compiled_and_the_plain_reading_agree(all_rules, raw):
    for context, row in zip(raw, SCHEMA.encode_many(raw), strict=True):
        given_row = denied_arms(all_rules, row, len(ARMS))
        assert given_row.shape == (len(ARMS),) and given_row.dtype == np.bool_
        # Within rounding of a threshold the plain reading may differ, to the safe side: below.
        ages = [end for r in all_rules for w in r.rule.when for end in (w.at_least, w.at_most)]
        if all(end is None or abs(end - context["age"]) > 1e-9 for end in ages):
            expected = [
                any(plainly_denied(r.rule, context, arm, group) for r in all_rules)
                for arm, group in zip(ARMS, GROUPS, strict=True)
            ]
            assert given_row.tolist() == expected


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9), st.data())
def test_a_value_at_or_beyond_the_threshold_always_holds(low, high, data):
    assume(low < high)
    schema = Schema([Number("x", low, high)])
    threshold = data.draw(st.floats(low, high))
    x = data.draw(st.just(threshold) | st.floats(low, high))
    row = schema.encode([x])
    least = compiled(When("x", at_least=threshold), schema=schema)
    most = compiled(When("x", at_most=threshold), schema=schema)
    both = compiled(When("x", at_least=threshold, at_most=threshold), schema=schema)
    assert least.denied(row) or x < threshold
    assert most.denied(row) or x > threshold
    assert both.denied(row) or x != threshold
    for rule in (least, most, both):
        assert denied_arms([rule], row, 4).all() == rule.denied(row)
    # A value that is clearly on the other side does not.
    margin = 1e-9 * (high - low)
    assert not (least.denied(row) and x < threshold - max(margin, 4 * math.ulp(threshold)))
    assert not (most.denied(row) and x > threshold + max(margin, 4 * math.ulp(threshold)))


def test_thresholds_outside_the_range_hold_always_or_never():
    assert holds([When("age", at_least=0)]) and holds([When("age", at_most=1e308)])
    assert not holds([When("age", at_least=90)], age=89)
    assert not holds([When("age", at_most=-1e308)], age=18)
    assert holds([When("dose", at_least=-1e300)]) and not holds([When("dose", at_least=1e300)])


def test_a_rule_sees_the_clipped_value():
    assert holds([When("pain", at_least=10)], pain=99)
    assert not holds([When("pain", at_least=11)], pain=99)


def test_each_kind_of_condition():
    assert holds([When("dose", at_most=0)], dose=-0.0)
    assert holds([When("age", at_least=30, at_most=30)]) and not holds([When("age", at_least=31)])
    assert holds([When("smoker", equals=False)])
    assert not holds([When("smoker", equals=False)], smoker=True)
    assert holds([When("smoker", equals=True)], smoker=1)
    assert not holds([When("smoker", equals=True)])
    assert holds([When("sky", equals="clear")])
    assert not holds([When("sky", equals="cloudy")])
    assert not holds([When("sky", equals="clear")], sky=None)
    assert holds([When("genres", has="Drama")]) and not holds([When("genres", has="Horror")])
    both = [When("genres", has="Drama"), When("genres", has="Horror")]
    assert not holds(both) and holds(both, genres=["Horror", "Drama"])
    assert holds([])


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ({}, [True, True, True, True]),
        ({"arms": [1]}, [True, False, False, False]),
        ({"arms": ["1"]}, [False, True, False, False]),
        ({"groups": ["low"]}, [True, False, False, True]),
        ({"arms": ["b", np.int64(7)], "groups": ["high"]}, [False, False, True, True]),
    ],
)
def test_the_arms_of_a_rule(who, expected):
    rule = compiled(**who)
    assert rule.arms.tolist() == expected and rule.arms.dtype == np.bool_
    assert not rule.arms.flags.writeable
    assert denied_arms([rule], SCHEMA.encode(CONTEXT), 4).tolist() == expected


def test_no_rules_deny_nothing():
    assert not denied_arms([], np.zeros(3), 5).any()


def test_conditions_are_columns_and_closed_intervals():
    rule = compiled(
        When("age", at_most=53.5),
        When("smoker", equals=False),
        When("sky", equals="cloudy"),
        When("genres", has="Horror"),
    )
    assert rule.conditions == (
        (0, -math.inf, 0.5),
        (3, -math.inf, 0.5),
        (5, 0.5, math.inf),
        (8, 0.5, math.inf),
    )


# --- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "parts"),
    [
        (When("genre", has="Drama"), ["'feature'", "Did you mean 'genres'?"]),
        (When("genres", has="Dramma"), ["'when genres'", "Did you mean 'Drama'?"]),
        (When("sky", equals="claer"), ["'when sky'", "Did you mean 'clear'?"]),
        (When("genres", equals="Drama"), ["Write has= one of its values."]),
        (When("genres", equals=True), ["Write has="]),
        (When("genres", at_least=1), ["a condition on labels", "Write has="]),
        (When("sky", has="clear"), ["a condition on a category", "Write equals= one of"]),
        (When("sky", equals=True), ["Write equals= one of"]),
        (When("sky", at_most=1), ["Write equals= one of"]),
        (When("smoker", equals="yes"), ["a condition on a flag", "equals=True or equals=False"]),
        (When("smoker", has="yes"), ["Write equals=True"]),
        (When("smoker", at_least=1), ["Write equals=True"]),
        (When("age", equals=True), ["a condition on a number", "at_least= or at_most="]),
        (When("age", equals="18"), ["Write at_least="]),
        (When("age", has="18"), ["Write at_least="]),
    ],
)
def test_conditions_must_fit_the_schema(when, parts):
    refused(lambda: compiled(when), "Rule 'r'", *parts)


def test_arms_and_groups_must_be_there():
    refused(lambda: compiled(arms=[2]), "'arms' parameter of Rule 'r'", "Got 2", "Known:")
    refused(lambda: compiled(arms=["7"]), "'arms'", "Got '7'", "Did you mean 7?")
    refused(lambda: compiled(groups=["lo"]), "'groups'", "Did you mean 'low'?")
    none = Rule("r", groups=["low"])
    refused(lambda: compile_rule(none, SCHEMA, [1], [None]), "'groups'", "There are none.")
    refused(lambda: compile_rule(none, SCHEMA, [1, 2], ["low"]), "'arm_groups'", "2 arms", "Got 1")


def undeclarable(name, *cases, part=""):
    """None of the cases, a dict of arguments, makes a When (if it has a feature) or a Rule."""
    for case in cases:
        kind: Any = When if "feature" in case else Rule
        refused(lambda kind=kind, case=case: kind(**case), f"'{name}' parameter of", part)


def test_conditions_that_cannot_be_declared():
    bad: Any
    undeclarable("feature", {"feature": ""}, {"feature": 3, "has": "x"}, part="When")
    one = "equals, has, at_least, at_most"
    undeclarable(one, {"feature": "x"}, part="given one")
    undeclarable(one, {"feature": "x", "has": "a", "equals": "a"}, part="given one")
    undeclarable(one, {"feature": "x", "has": "a", "at_most": 1}, part="given one")
    undeclarable(one, {"feature": "x", "equals": False, "at_least": 1}, part="given one")
    undeclarable("equals", {"feature": "x", "equals": ""}, part="a string")
    for bad in (2, 1.0, ["a"], math.nan):
        undeclarable("equals", {"feature": "x", "equals": bad}, part="True or False")
    for bad in ("", True, ["a"], 3):
        undeclarable("has", {"feature": "x", "has": bad}, part="a string")
    for bad in (True, math.nan, math.inf, "1", [1]):
        undeclarable("at_least", {"feature": "x", "at_least": bad}, part="a float")
        undeclarable("at_most", {"feature": "x", "at_most": bad, "at_least": 0}, part="a float")
    crossed = {"feature": "x", "at_least": 2, "at_most": 1}
    undeclarable("at_least", crossed, part="no more than at_most = 1.0. Got 2.0")


def test_rules_that_cannot_be_declared():
    bad: Any
    when = When("x", has="a")
    undeclarable("id", {"id": ""}, {"id": 5}, {"id": "x" * 201}, part="1 to 200")
    undeclarable("when", {"id": "r", "when": when}, {"id": "r", "when": "x"}, part="at most 100")
    undeclarable("when", {"id": "r", "when": [when] * 101}, part="at most 100")
    undeclarable("when", {"id": "r", "when": [when, "x"]}, part="a list or tuple of When")
    for bad in ("ab", 3, {3}, range(3), [0] * 10_001):
        undeclarable("arms", {"id": "r", "arms": bad}, part="a list or tuple of at most 10,000")
        undeclarable("groups", {"id": "r", "groups": bad}, part="a list or tuple of at most 10,000")
    for bad in (True, np.True_, 1.0, None, "", "x" * 201, ["a"]):
        undeclarable("arms", {"id": "r", "arms": ["a", bad]}, part="1 to 200 characters")
        undeclarable("groups", {"id": "r", "groups": ["a", bad]}, part="1 to 200 characters")
    undeclarable("note", {"id": "r", "note": None}, {"id": "r", "note": "x" * 2001}, part="2000")


# --- JSON and words -----------------------------------------------------------------------


@given(rules)
def test_json_round_trip(rule):
    data = rule.to_json()
    again = Rule.from_json(json.loads(json.dumps(data, allow_nan=False)))
    assert again == rule and hash(again) == hash(rule) and again.to_json() == data
    assert copy.deepcopy(rule) == rule
    assert describe(again) == describe(rule)


def test_json_is_plain():
    seven: Any = np.int64(7)
    when = [When("x", equals=False), When("y", at_least=1)]
    rule = Rule("r", when, [seven, "a"], ["g"], "n")
    assert rule.to_json() == {
        "id": "r",
        "when": [{"feature": "x", "equals": False}, {"feature": "y", "at_least": 1.0}],
        "arms": [7, "a"],
        "groups": ["g"],
        "note": "n",
    }
    assert type(rule.arms[0]) is int and isinstance(rule.when, tuple)
    assert When("x", equals=np.True_).equals is True is When("x", equals=1).equals


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (None, ["'data' parameter of Rule.from_json", "a dict"]),
        ([], ["a dict with the key id"]),
        ({}, ["a dict with the key id"]),
        ({"id": "r", "arm": [1]}, ["Got 'arm'", "Did you mean 'arms'?"]),
        ({"id": "r", 3: 4}, ["Got 3"]),
        ({"id": "r", "when": {"feature": "x", "has": "a"}}, ["'when'", "a list or tuple"]),
        ({"id": "r", "when": None}, ["'when'", "a list or tuple"]),
        ({"id": "r", "when": ["x"]}, ["When.from_json", "a dict with the key feature"]),
        ({"id": "r", "when": [{"has": "a"}]}, ["a dict with the key feature"]),
        ({"id": "r", "when": [{"feature": "x", "hass": "a"}]}, ["Did you mean 'has'?"]),
        ({"id": "r", "when": [{"feature": "x", "has": "a"}] * 101}, ["'when'", "at most 100"]),
        ({"id": "r", "arms": "ab"}, ["'arms'"]),
        ({"id": "r", "arms": [True]}, ["'arms'"]),
        ({"id": "r", "arms": None}, ["'arms'"]),
        ({"id": 1}, ["'id'"]),
    ],
)
def test_json_is_strict(data, parts):
    refused(lambda: Rule.from_json(data), *parts)


def test_values_are_frozen_and_slotted():
    for value, name in ((When("x", has="a"), "has"), (Rule("r"), "id"), (compiled(), "arms")):
        with pytest.raises(AttributeError):
            setattr(value, name, "other")
        assert not hasattr(value, "__dict__")
    with pytest.raises(TypeError):
        positional: Any = When
        positional("x", True)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (
            Rule("r", [When("genres", has="Horror")], groups=["12-17"]),
            "12-17: not if genres has Horror",
        ),
        (Rule("r"), "every arm: never"),
        (Rule("r", arms=[3, "b"], groups=["g"]), "3, b, g: never"),
        (Rule("r", arms=list(range(8))), "0, 1, 2, 3, 4 and 3 more: never"),
        (Rule("r", [When("f", equals=True)]), "every arm: not if f is true"),
        (Rule("r", [When("f", equals=False)]), "every arm: not if f is false"),
        (Rule("r", [When("sky", equals="red")]), "every arm: not if sky is red"),
        (Rule("r", [When("x", at_least=1)]), "every arm: not if x is at least 1"),
        (
            Rule("r", [When("x", at_least=0.1, at_most=1234567.5), When("f", equals=True)]),
            "every arm: not if x is at least 0.1 and at most 1234567.5 and f is true",
        ),
    ],
)
def test_describe(rule, sentence):
    assert describe(rule) == sentence

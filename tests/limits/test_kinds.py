"""Limits made by name from an agent's settings, with errors that speak of those settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridle.errors import CorruptState, InvalidValue
from bridle.limits import (
    KINDS,
    AutoLimits,
    FoundLimits,
    LinearLimits,
    LogisticLimits,
    MixtureLimits,
    RuleLimits,
    limits_from_state,
    make_limits,
)
from bridle.limits.clustered import DEFAULT_DOUBT
from bridle.schema import Category, Flag, Labels, Number, Schema

FLAGS = Schema([Flag("a"), Flag("b"), Flag("c")])
AGES = Schema([Number("age", 0, 100)])
MIXED = Schema([Number("age", 0, 100), Flag("smoker"), Category("ward", ["x", "y"])])
GROUPS = ["g", "g", None]


def test_each_name_gives_its_kind() -> None:
    kinds = [MixtureLimits, RuleLimits, LogisticLimits, FoundLimits, LinearLimits]
    for kind, made in zip(KINDS, kinds, strict=True):
        limits = make_limits(kind, schema=MIXED, groups=GROUPS)
        assert type(limits) is made
        assert (limits.arms, limits.features) == (3, MIXED.width)
        assert limits.units == (3 if kind in ("found", "linear") else 2)
        state = "mixture" if kind == "auto" else kind
        assert type(limits_from_state(state, limits.to_state())) is made


def test_auto_of_the_first_form_is_what_it_was() -> None:
    limits = make_limits("auto", schema=MIXED, groups=GROUPS, legacy=True)
    assert type(limits) is AutoLimits
    assert type(limits_from_state("auto", limits.to_state())) is AutoLimits


def test_settings_arrive() -> None:
    known = {0: {0: True, (1, 2): True}}
    auto = make_limits(
        "auto", schema=FLAGS, groups=GROUPS, error=None, doubt=0.2, seed=7, known=known
    )
    assert isinstance(auto, MixtureLimits) and auto.doubt == 0.2 and auto.left_out == ()
    pairs = auto.members["pairs"]
    assert isinstance(pairs, RuleLimits) and pairs.seed == 7 and len(pairs.errors) > 1
    assert pairs.predict(0, [[1, 0, 0], [0, 1, 1]]).p.tolist() == [0.0, 0.0]
    rules = make_limits("rules", schema=FLAGS, groups=GROUPS, error=0.2, doubt=0.1, crosses=True)
    assert isinstance(rules, RuleLimits)
    assert (rules.errors.tolist(), rules.doubt, rules.terms.pairs) == ([0.2], 0.1, True)
    logistic = make_limits("logistic", schema=FLAGS, groups=GROUPS, crosses=True)
    assert isinstance(logistic, LogisticLimits) and logistic.crosses
    found = make_limits("found", schema=FLAGS, groups=GROUPS, error=0.01)
    assert isinstance(found, FoundLimits)
    assert (found.error, found.doubt) == (0.01, DEFAULT_DOUBT)
    found = make_limits("found", schema=FLAGS, groups=GROUPS, doubt=0.02)
    assert isinstance(found, FoundLimits) and found.doubt == 0.02
    linear = make_limits("linear", schema=FLAGS, groups=GROUPS, ridge=2.0, label_coding="1/-1")
    assert isinstance(linear, LinearLimits)
    assert (linear.linear.ridge, linear.label_coding) == (2.0, "1/-1")


def test_what_a_rule_can_deny_follows_from_the_schema() -> None:
    for schema, columns in (
        (MIXED, [1, 2, 3]),
        (Schema([Labels("genres", ["x", "y"]), Number("age", 0, 9)]), [0, 1]),
        (Schema.plain(3), [0, 1, 2]),  # contexts of 0 and 1, it seems
        (Schema([Number("n"), Flag("f")]), [1]),
    ):
        rules = make_limits("rules", schema=schema, groups=[None])
        assert isinstance(rules, RuleLimits)
        assert rules.terms.columns.tolist() == columns


def test_auto_without_a_term_has_bounds_on_numbers_and_says_so() -> None:
    for schema in (AGES, Schema.plain(2, 0.0, 1.0)):
        auto = make_limits("auto", schema=schema, groups=GROUPS)
        assert isinstance(auto, MixtureLimits)
        assert list(auto.members) == ["allowed", "logistic", "pooled", "bounds"]
        (said,) = auto.left_out
        assert said.startswith("Rules are left out: no feature is a flag")
        again = limits_from_state("mixture", auto.to_state())
        assert isinstance(again, MixtureLimits) and again.left_out == auto.left_out
        auto.learn(np.zeros(schema.width), 0, True)
        auto.refit(0, np.zeros((1, schema.width)), [True], [0])
        auto.set_known(0, {})


def test_auto_sets_no_bounds_to_numbers_without_a_range_and_says_so() -> None:
    schema = Schema([Number("n"), Flag("f")])
    auto = make_limits("auto", schema=schema, groups=GROUPS)
    assert isinstance(auto, MixtureLimits) and "bounds" not in auto.members
    assert auto.left_out[-1].startswith("Rules set no bounds to 1 numbers without a range")
    both = make_limits("auto", schema=Schema([Number("n"), Number("a", 0, 1)]), groups=GROUPS)
    assert isinstance(both, MixtureLimits) and "bounds" in both.members
    none = make_limits("auto", schema=MIXED, groups=GROUPS, error=None)
    assert isinstance(none, MixtureLimits) and "bounds" not in none.members
    assert "they need a declared rate of error" in none.left_out[-1]


def test_auto_with_too_many_pairs_leaves_them_out_and_says_so() -> None:
    auto = make_limits("auto", schema=Schema.plain(320), groups=[None])
    assert isinstance(auto, MixtureLimits)
    assert list(auto.members) == ["allowed", "singles", "logistic", "pooled"]
    (said,) = auto.left_out
    assert "320 features make 51,360 terms, and 5,050 is the most" in said
    again = limits_from_state("mixture", auto.to_state())
    assert isinstance(again, MixtureLimits) and again.left_out == (said,)


def test_auto_with_too_many_columns_leaves_logistic_limits_out() -> None:
    auto = make_limits("auto", schema=Schema.plain(2_000), groups=[None])
    assert isinstance(auto, MixtureLimits)
    assert list(auto.members) == ["allowed", "singles"] and len(auto.left_out) == 2
    assert auto.left_out[1].startswith("Logistic limits are left out: 2,000 features")


PAIRS = {"crosses": True}
# Kind, schema, settings; the agent's parameter, and what is said of it.
BAD: dict[str, tuple[str, Schema, dict[str, Any], str, str]] = {
    "kind": ("linaer", FLAGS, {}, "limits", "one of 'auto', 'rules'"),
    "crosses found": ("found", FLAGS, PAIRS, "crosses", "left out with limits='found'"),
    "crosses linear": ("linear", FLAGS, PAIRS, "crosses", "left out with limits='linear'"),
    "crosses": ("rules", FLAGS, {"crosses": 2}, "crosses", "True or False"),
    "doubt logistic": ("logistic", FLAGS, {"doubt": 0.1}, "doubt", "left out with limits="),
    "doubt linear": ("linear", FLAGS, {"doubt": 0.1}, "doubt", "left out with limits='linear'"),
    "doubt": ("auto", FLAGS, {"doubt": 0.7}, "doubt", "a float in the range (0, 0.5)"),
    "no error": ("found", FLAGS, {"error": None}, "teacher_error", "a float with limits='found'"),
    "error": ("auto", FLAGS, {"error": 0.9}, "teacher_error", "a float in the range"),
    "no term": ("rules", AGES, {}, "limits", "another kind than 'rules' where no feature"),
    "no term found": ("found", AGES, {}, "limits", "Declare flags, categories or labels, or"),
    "many terms": ("found", Schema.plain(13), {}, "limits", "rules can deny more than 12 words"),
    "many pairs": ("rules", Schema.plain(320), PAIRS, "crosses", "at most 50,000 terms"),
    "many columns": ("logistic", Schema.plain(2_000), {}, "limits", "more than 2,000 columns"),
    "many crosses": ("logistic", Schema.plain(64), PAIRS, "crosses", "at most 2,000 columns"),
    "groups": ("auto", FLAGS, {"groups": [1.5]}, "groups", "names of groups"),
    "known": ("rules", FLAGS, {"known": {0: {9: True}}}, "term", "a column in [0, 2]"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_speak_of_the_agents_settings(name) -> None:
    kind, schema, settings, parameter, message = BAD[name]
    with pytest.raises(InvalidValue) as caught:
        make_limits(kind, **{"schema": schema, "groups": GROUPS, **settings})
    assert message in str(caught.value)
    assert (caught.value.owner, caught.value.name) == ("Agent", parameter)


def test_found_limits_of_too_many_arms_say_what_to_do() -> None:
    with pytest.raises(InvalidValue, match="for more than 4,096 arms with 12 features"):
        make_limits("found", schema=Schema.plain(12), groups=[None] * 5_000)


def test_what_is_no_state_of_the_kind_is_refused() -> None:
    state = make_limits("rules", schema=FLAGS, groups=GROUPS).to_state()
    for kind in KINDS:
        if kind != "rules":
            with pytest.raises(CorruptState):
                limits_from_state(kind, state)
    with pytest.raises(InvalidValue, match="'limits' parameter"):
        limits_from_state("other", state)

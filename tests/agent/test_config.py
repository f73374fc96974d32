"""Settings: every choice of an agent, in full, there and back."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import fields, replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given

from bridle import (
    Agent,
    Arm,
    BehaviorConstrained,
    Flag,
    Number,
    Rule,
    Schema,
    Teacher,
    Thompson,
    When,
)
from bridle.agent import config
from bridle.agent.config import (
    Settings,
    check_size,
    item_id,
    listed,
    plain_id,
    the_arms,
    the_schema,
    words,
)
from bridle.api.models import AgentForm
from bridle.errors import CorruptState, InvalidValue, LimitReached, NotPossible
from bridle.limits import KINDS, LABEL_CODINGS
from bridle.policies import ACTIVE, TEACHINGS
from tests.histories import FEATURES, PAPER, POLICIES, settings_of_agents
from tools import settings as settings_table

SETTINGS = Agent(
    **PAPER, arms=2, features=2, rules=[Rule("r", when=[When("x0", at_least=1.0)])]
).settings


# Agents with our own limits and reward model write nothing of those of others.
WRITTEN = {field.name for field in fields(Settings)} - config.EXTENSIONS.keys()


@given(settings_of_agents())
def test_settings_come_back_as_they_were(arguments):
    settings = Agent(**{k: v for k, v in arguments.items() if k != "world"}).settings
    read = Settings.from_json(json.loads(json.dumps(settings.to_json())))
    assert read == settings
    for field in fields(Settings):
        assert type(getattr(read, field.name)) is type(getattr(settings, field.name))


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("features", FEATURES)
def test_every_policy_and_schema_comes_back(policy, features):
    settings = Agent(**PAPER, arms=2, features=FEATURES[features], policy=policy).settings
    data = json.loads(json.dumps(settings.to_json()))
    assert Settings.from_json(data) == settings
    assert set(data) == WRITTEN
    own = {field.name for field in fields(policy)}
    assert set(data["policy"]) == own | {"kind"}
    assert all(set(feature) >= {"kind", "name", "missing"} for feature in data["features"])


def test_values_are_kept_as_plain_python():
    settings = Agent(
        **PAPER,
        arms=np.array([3, 4]),
        features=np.int64(2),
        ridge=np.float32(0.5),
        seed=np.uint64(7),
        reward_range=[np.int64(-1), 1],
        exact_denials=np.bool_(False),
        max_pending=np.int8(5),
        v_teaching=1,
        sigma=1,
    ).settings
    assert settings == replace(settings) == Settings.from_json(settings.to_json())
    json.dumps(settings.to_json())
    assert settings.reward_range == (-1.0, 1.0) and settings.exact_denials is False
    kinds = [
        type(getattr(settings, name)) for name in ("ridge", "seed", "max_pending", "v_teaching")
    ]
    assert kinds == [float, int, int, float]
    assert [type(arm.id) for arm in settings.arms] == [int, int]


def test_what_is_not_written_in_full_is_refused():
    data: Any = SETTINGS.to_json()
    parts: list[dict[str, Any]] = [
        {"policy": {"kind": "BehaviorConstrained", "sigma": 0.25}},
        {"arms": [{"id": 0, "label": "0", "group": None}, {"id": 1}]},
        {"features": [{"kind": "number", "name": "x0"}, *data["features"][1:]]},
        {"rules": [{"id": "r"}]},
    ]
    for part in parts:
        with pytest.raises(CorruptState):
            Settings.from_json({**data, **part})


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_damaged_settings_are_corrupt(name):
    data: Any = SETTINGS.to_json()
    with pytest.raises(CorruptState, match="The settings of an agent are not"):
        Settings.from_json({key: value for key, value in data.items() if key != name})
    bad: list[Any] = [None, -1, 10**400, "no such", [], {}, [None], {"kind": "KnownMask"}, [[1, 2]]]
    may_be_none = name in (
        "doubt",
        "teacher_error",
        "patience",
        "safe_arm",
        "wait",
        "default_reward",
    )
    for wrong in bad[may_be_none:]:
        if (name, wrong) not in (("rules", []), ("teachers", [])):
            with pytest.raises(CorruptState):
                Settings.from_json({**data, name: wrong})


@pytest.mark.parametrize("data", [None, 5, [], "settings", {}, {"arms": 2}], ids=repr)
def test_what_is_no_settings_is_corrupt(data):
    with pytest.raises(CorruptState, match="The settings of an agent are not"):
        Settings.from_json(data)


def test_the_parts_of_settings_are_what_they_should_be():
    for name, wrong in (("arms", ("a",)), ("rules", ("r",)), ("features", 2), ("policy", 5)):
        with pytest.raises(InvalidValue, match=f"'{name}'"):
            replace(SETTINGS, **{name: wrong})
    assert replace(SETTINGS, arms=list(SETTINGS.arms)) == SETTINGS


# -- arms ------------------------------------------------------------------------------------


def test_an_arm_is_called_by_its_id_unless_it_has_a_label():
    assert Arm("a") == Arm("a", label="a") == Arm(np.str_("a"))
    assert (Arm(7).label, Arm(7, "seven", "g").label) == ("7", "seven")
    assert Arm.from_json(Arm(7, "seven", "g").to_json()) == Arm(7, "seven", "g")


@pytest.mark.parametrize(
    "arguments",
    [
        {"id": True},
        {"id": 1.0},
        {"id": ""},
        {"id": None},
        {"id": "x" * 201},
        {"id": 2**53 + 1},
        {"id": "\ud800"},
        {"id": 1, "label": 5},
        {"id": 1, "label": None},
        {"id": 1, "label": []},
        {"id": 1, "label": "x" * 201},
        {"id": 1, "group": ""},
        {"id": 1, "group": 5},
        {"id": ["a"]},
    ],
    ids=repr,
)
def test_what_is_no_arm_is_refused(arguments):
    with pytest.raises(InvalidValue, match="parameter of Arm"):
        Arm(**arguments)


def test_arms_are_a_number_ids_or_arms():
    assert the_arms(2) == (Arm(0), Arm(1)) and the_arms(2, first=5) == (Arm(5), Arm(6))
    assert the_arms(["a", Arm(7)]) == (Arm("a"), Arm(7))
    assert the_arms(arm for arm in "ab") == the_arms({"a": 1, "b": 2}) == (Arm("a"), Arm("b"))
    bad: list[Any] = [0, -1, True, 1.5, None, "ab", b"ab", {1, 2}, frozenset([1]), [], 10**7]
    for wrong in [*bad, np.array(2.0)]:
        with pytest.raises(InvalidValue, match="'arms'"):
            the_arms(wrong)


def test_features_are_a_number_features_or_a_schema():
    schema = Schema([Number("x0"), Number("x1")])
    assert the_schema(2) == the_schema(np.int8(2)) == the_schema(list(schema.features)) == schema
    assert the_schema(schema) is schema
    for wrong in (0, True, 1.5, None, "ab", {"x0": 1}, [1], np.zeros(2)):
        with pytest.raises(InvalidValue):
            the_schema(wrong)


def test_there_is_a_limit_to_what_an_agent_can_hold():
    check_size(1_000_000, 65)
    check_size(42, 10_000)
    for arms, width in ((1_000_001, 1), (1_000_000, 66), (43, 10_000)):
        with pytest.raises(LimitReached):
            check_size(arms, width)


# -- small parts -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        ("a", "a"),
        (np.int8(5), 5),
        (np.str_("a"), "a"),
        (True, ""),
        (1.0, ""),
        (None, ""),
        ([], ""),
        (np.bool_(True), ""),
        (np.float64(1), ""),
        (b"a", ""),
        (np.array(1), ""),
    ],
    ids=repr,
)
def test_an_id_is_plain_or_names_nothing(value, expected):
    assert plain_id(value) == expected and type(plain_id(value)) is type(expected)


def test_lists_come_in_an_order():
    for good in ([1, 2], (1, 2), range(1, 3), np.array([1, 2]), {0: 1, 1: 2}.values()):
        assert listed(good, "x", "f") == [1, 2]
    for wrong in ("ab", b"ab", {1, 2}, {1: 2}, 5, None, np.array(5), iter([1]), object()):
        with pytest.raises(InvalidValue, match="a list"):
            listed(wrong, "x", "f")
    with pytest.raises(InvalidValue, match="a list of 3, one for each"):
        listed([1, 2], "x", "f", 3)


def test_words_are_short_and_can_be_written():
    assert item_id("a" * 200, "f") == "a" * 200 and type(words(np.str_("é"), "x", "f")) is str
    for wrong in ("", "a" * 201, 5, None, b"a"):
        with pytest.raises(InvalidValue, match="1 to 200 characters"):
            item_id(wrong, "f")
    with pytest.raises(InvalidValue, match="UTF-8"):
        item_id("\udcff", "f")


def test_an_agent_without_settings_of_its_own_has_those_of_the_paper():
    settings = Agent(**PAPER, arms=2, features=2).settings
    assert settings.policy == BehaviorConstrained(sigma=0.25, v=0.25)
    assert (settings.teaching, settings.label_coding, settings.prior) == ("random", "1/0", "paper")
    assert (settings.max_pending, settings.exact_denials) == (1_000_000, True)
    assert Agent(**PAPER, arms=2, features=2, policy=Thompson()).settings.policy == Thompson(v=0.25)


# -- one declaration -------------------------------------------------------------------------


LITERALS = {
    "limits": config.LimitsKind,
    "share": config.Share,
    "on_empty": config.OnEmpty,
    "on_doubt": config.OnDoubt,
    "teaching": config.Teaching,
    "label_coding": config.LabelCoding,
    "prior": config.Prior,
}
BESIDE = {"sink", "at"}
VERSIONS = {"limits_version", "reward_version"}  # filled in from what is registered


def test_the_parameters_of_an_agent_are_the_declared_settings():
    parameters = inspect.signature(Agent).parameters
    assert set(parameters) - BESIDE == set(config.SETTINGS)
    for name, setting in config.SETTINGS.items():
        default = parameters[name].default
        required = setting.default is config.REQUIRED
        assert default is (inspect.Parameter.empty if required else setting.default), name
        assert setting.help.endswith(".") and "\n" not in setting.help
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
    stored = {field.name for field in fields(Settings)} - {"form", *VERSIONS}
    assert stored == set(config.SETTINGS) - {"sigma", "promise", "boldness"}


def test_the_docstring_of_an_agent_says_what_is_declared():
    text = inspect.getdoc(Agent)
    assert text is not None
    said = dict(re.findall(r"^(\w+) : (.+)$", text, re.MULTILINE))
    assert set(said) - BESIDE == set(config.SETTINGS)
    for name, setting in config.SETTINGS.items():
        if setting.default is config.REQUIRED:
            end = ""
        elif setting.default in (None, ()):
            end = ", optional"
        else:
            end = f", default {setting.default_words}" if setting.default_words else ""
        assert said[name] == setting.type + end, name


def test_the_words_of_a_setting_are_a_type_of_its_own():
    assert {name for name, setting in config.SETTINGS.items() if setting.choices} == set(LITERALS)
    for name, literal in LITERALS.items():
        assert get_args(literal) == tuple(config.SETTINGS[name].choices)
    assert get_args(config.LimitsKind) == KINDS
    assert set(get_args(config.LabelCoding)) == set(LABEL_CODINGS)
    assert get_args(config.Teaching) == (*TEACHINGS, *ACTIVE)


def test_the_form_of_the_service_is_the_declaration():
    assert set(AgentForm.model_fields) == set(config.SETTINGS)
    form = AgentForm.model_validate_json('{"arms": ["a"], "features": 1}')
    for name, setting in config.SETTINGS.items():
        if setting.default is not config.REQUIRED and name != "seed":  # drawn where it is left out
            assert getattr(form, name) == setting.default, name
            assert AgentForm.model_fields[name].description == setting.help


def test_the_table_in_the_docs_is_up_to_date():
    text = settings_table.PAGE.read_text(encoding="utf-8")
    assert settings_table.page(text) == text, "Run: python -m tools.settings"


ONE = {"arms": ["a", "b"], "features": [Flag("x")]}
RULE = Rule("r", when=[When("x", equals=True)], arms=["b"])
WRONG: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "arms of one id": ({"arms": ["a", "a"]}, InvalidValue),
    "a safe arm that is none": ({"on_empty": "safe_arm", "safe_arm": "c"}, InvalidValue),
    "rules without a term": (
        {"features": [Number("age", 0, 100)], "limits": "rules"},
        InvalidValue,
    ),
    "too many columns": ({"features": 3_000, "limits": "logistic"}, InvalidValue),
    "groups of too many arms": (
        {"arms": 10**6, "limits": "found", "features": [Flag(f"x{n}") for n in range(12)]},
        InvalidValue,
    ),
    "an error that found limits do not estimate": (
        {"limits": "found", "teacher_error": None},
        InvalidValue,
    ),
    "doubt of logistic limits": ({"limits": "logistic", "doubt": 0.1}, InvalidValue),
    "crosses of auto": ({"crosses": True}, InvalidValue),
    "a rule about no arm": ({"rules": [Rule("r", arms=["c"])]}, InvalidValue),
    "a rule about no group": ({"rules": [Rule("r", groups=["g"])]}, InvalidValue),
    "a rule about no feature": (
        {"rules": [Rule("r", when=[When("y", equals=True)])]},
        InvalidValue,
    ),
    "two rules of one id": ({"rules": [RULE, RULE]}, InvalidValue),
    "too many arms": ({"arms": 10**6, "features": 66}, LimitReached),
    "sigma of a policy without": ({"policy": Thompson(), "sigma": 0.5}, NotPossible),
    "a sigma that is none": ({"sigma": 2}, InvalidValue),
    "questions of a policy that never asks": ({"sigma": 0.5, "budget": 5}, InvalidValue),
    "checks of a policy that rules nothing out": ({"sigma": 0.5, "checks": 5}, InvalidValue),
    "a default reward without a wait": ({"default_reward": 0.5}, InvalidValue),
    "a word that is no choice": ({"limits": "magic"}, InvalidValue),
    "teachers of one name": ({"teachers": [Teacher("t"), Teacher("t")]}, InvalidValue),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_settings_are_found_without_an_agent(name, monkeypatch):
    given, error = WRONG[name]
    with pytest.raises(error) as by_agent:
        Agent(**{**ONE, **given})
    for made in ("bridle.agent.state.LinearArms", "bridle.agent.limits_state.make_limits"):
        monkeypatch.setattr(made, None)
    with pytest.raises(error) as by_settings:
        Settings.of(**{**ONE, **given})
    assert str(by_settings.value) == str(by_agent.value)


def test_good_settings_are_those_of_the_agent():
    for more in ({}, {"sigma": 0.5}, {"limits": "linear"}, {"rules": [RULE], "budget": 3}):
        assert Settings.of(**{**ONE, **more}) == Agent(**{**ONE, **more}).settings

"""Events: a form on disk that never changes, and nothing read that was not written."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import (
    Agent,
    Arm,
    BehaviorConstrained,
    Category,
    EpsilonGreedy,
    Flag,
    Labels,
    Number,
    Rule,
    Schema,
    When,
)
from bridle.agent.config import EXTENSIONS, ArmFeatures, Settings
from bridle.agent.events import (
    Abstained,
    ArmsAdded,
    ArmsChanged,
    ArmsRestored,
    ArmsRetired,
    ArmsVisited,
    Asked,
    AuditBegun,
    Audited,
    Calibrated,
    CalibrationBegun,
    CalibrationDropped,
    Certified,
    Created,
    Decided,
    Erased,
    Erasure,
    Event,
    Expired,
    ForgettingChanged,
    Judged,
    Lapsed,
    Learned,
    PolicyChanged,
    Promised,
    PromiseDropped,
    Regrouped,
    Retracted,
    Rewarded,
    RewardedLate,
    RuleDeclared,
    RuleWithdrawn,
    RunsOn,
    Shadowed,
    SigmaChanged,
    StartedAnew,
    Taught,
    Uncertified,
    WaitChanged,
    check_event,
    event_from_json,
    event_to_json,
    event_to_text,
)
from bridle.agent.teachers import Teacher
from bridle.errors import CorruptState, InvalidValue
from tests.histories import PAPER

RULE = Rule("minors", when=[When("age", at_most=17.0)], arms=[1], groups=["bar"], note="the law")
SETTINGS = Agent(
    **PAPER,
    arms=[Arm("a"), Arm(1, label="one", group="bar")],
    features=[
        Number("age", low=0, high=100, clip=True, missing=50),
        Flag("smoker", missing=False),
        Category("sky", ["clear", "grey"], missing=()),
        Labels("genres", ["Drama"], missing=["Drama"]),
    ],
    policy=BehaviorConstrained(sigma=0.5),
    rules=[RULE],
    seed=2**64 - 1,
    wait=3600,
    default_reward=0,
    teachers=[Teacher("parent"), Teacher("model", price=0.01, error=0.125)],
).settings
HISTORY = Learned(np.array([[1.0, -0.5]]), np.array([1]), np.array([0.25]), None)

# The very bytes of each kind of event. A change here changes what every log ever written means:
# add a new kind of event instead.
GOLDEN: list[tuple[Event, str]] = [
    (
        Created(SETTINGS, 1.5),
        '{"event": "Created", "settings": {"arms": [{"id": "a", "label": "a", "group": null}, '
        '{"id": 1, "label": "one", "group": "bar"}], "features": [{"kind": "number", "name": '
        '"age", "low": 0.0, "high": 100.0, "clip": true, "missing": 50.0}, {"kind": "flag", '
        '"name": "smoker", "missing": false}, {"kind": "category", "name": "sky", "values": '
        '["clear", "grey"], "missing": []}, {"kind": "labels", "name": "genres", "values": '
        '["Drama"], "missing": ["Drama"]}], "policy": {"kind": "BehaviorConstrained", "sigma": '
        '0.5, "v": 0.25, "v_constraint": null}, "limits": "linear", "share": "group", '
        '"crosses": false, "doubt": null, "teacher_error": 0.001, "label_coding": "1/0", '
        '"teaching": "random", "v_teaching": 0.25, "ridge": 1.0, "ridge_limits": 1.0, "prior": '
        '"paper", "reward_range": [0.0, 1.0], "exact_denials": true, "rules": [{"id": "minors",'
        ' "when": [{"feature": "age", "at_most": 17.0}], "arms": [1], "groups": ["bar"], '
        '"note": "the law"}], "on_empty": "abstain", "safe_arm": null, "budget": 0, "on_doubt": '
        '"wait", "ask_at_most": 3, "patience": null, "seed": 18446744073709551615, '
        '"max_pending": 1000000, "max_examples": 1000000, "wait": 3600.0, "default_reward": 0.0, '
        '"answer_price": 0.35, "checks": 0, "teachers": [{"name": "parent", "price": 0.35, '
        '"error": null}, {"name": "model", "price": 0.01, "error": 0.125}], "form": 3}, "at": 1.5}',
    ),
    (
        ArmsAdded((Arm(2, group="bar"),), None, "Ann", "spring"),
        '{"event": "ArmsAdded", "arms": [{"id": 2, "label": "2", "group": "bar"}], "at": null, '
        '"by": "Ann", "note": "spring"}',
    ),
    (
        Asked(3, (0.5, -1.0), "a", 7, 2.0, 12, ("a",), 0.25, "film"),
        '{"event": "Asked", "id": 3, "context": [0.5, -1.0], "arm": "a", "version": 7, "at": 2.0, '
        '"decision": 12, "among": ["a"], "propensity": 0.25, "item": "film"}',
    ),
    (
        Lapsed(3, 4.0),
        '{"event": "Lapsed", "question": 3, "at": 4.0}',
    ),
    (
        Taught("e", (0.1, 1e-300), 1, False, 3, "Ann", "é", None, 7, 5, "item", 9.0, (2, "d")),
        '{"event": "Taught", "id": "e", "context": [0.1, 1e-300], "arm": 1, "allowed": false, '
        '"question": 3, "by": "Ann", "note": "\\u00e9", "at": null, "item": 7, "check": 5, '
        '"scope": "item", "until": 9.0, "replaces": [2, "d"]}',
    ),
    (
        Judged(
            (0.1, 1e-300), 1, False, "model", 0.25, 3, 5, 7, "item", 9.0, "\u00e9", 2.5, "w", "Ann"
        ),
        '{"event": "Judged", "context": [0.1, 1e-300], "arm": 1, "allowed": false, "by": "model", '
        '"prior": 0.25, "question": 3, "check": 5, "item": 7, "scope": "item", "until": 9.0, '
        '"note": "\\u00e9", "at": 2.5, "id": "w", "who": "Ann"}',
    ),
    (
        Retracted("e", "Ann", None, None),
        '{"event": "Retracted", "example": "e", "by": "Ann", "note": null, "at": null}',
    ),
    (
        Decided(
            1,
            (1.0, 0.3333333333333333),
            "a",
            4,
            ("a", 1),
            0.75,
            None,
            True,
            "film",
            1,
            0.125,
            0.0625,
            0.5,
            True,
        ),
        '{"event": "Decided", "id": 1, "context": [1.0, 0.3333333333333333], "arm": "a", '
        '"version": 4, "among": ["a", 1], "propensity": 0.75, "at": null, "ask": true, '
        '"item": "film", "wanted": 1, "worth": 0.125, "lesson": 0.0625, "coin": 0.5, '
        '"checked": true}',
    ),
    (
        Abstained(2, (0.0, 0.0), 5, None, None, False, 1.0, None, "a", 0.5, 0.0),
        '{"event": "Abstained", "id": 2, "context": [0.0, 0.0], "version": 5, "among": null, "at": '
        'null, "ask": false, "propensity": 1.0, "item": null, "wanted": "a", "worth": 0.5, '
        '"lesson": 0.0}',
    ),
    (
        Rewarded("d", -3.5, 9.0),
        '{"event": "Rewarded", "decision": "d", "value": -3.5, "at": 9.0}',
    ),
    (
        HISTORY,
        '{"event": "Learned", "contexts": {"shape": [1, 2], "base64": "AAAAAAAA8D8AAAAAAADgvw=="}, '
        '"arm_numbers": {"shape": [1], "base64": "AQAAAAAAAAA="}, "rewards": {"shape": [1], '
        '"base64": "AAAAAAAA0D8="}, "at": null}',
    ),
    (
        Expired("d", 0.5, 9.0),
        '{"event": "Expired", "decision": "d", "value": 0.5, "at": 9.0}',
    ),
    (
        Shadowed(4, (0.5,), "a", None),
        '{"event": "Shadowed", "decision": 4, "context": [0.5], "arm": "a", "at": null}',
    ),
    (
        ArmsVisited((Arm("x", features=ArmFeatures(np.array([1.0, 0.5]).tobytes())),), 2.0),
        '{"event": "ArmsVisited", "arms": [{"id": "x", "label": "x", "group": null, "features": '
        '[1.0, 0.5]}], "at": 2.0}',
    ),
    (
        ArmsChanged((Arm("x", "new"),), "Ann", "renamed"),
        '{"event": "ArmsChanged", "arms": [{"id": "x", "label": "new", "group": null}], "by": '
        '"Ann", "note": "renamed", "at": null}',
    ),
    (
        ArmsRetired(("x", 2), None, "sold out", 2.5),
        '{"event": "ArmsRetired", "arms": ["x", 2], "by": null, "note": "sold out", "at": 2.5}',
    ),
    (
        ArmsRestored(("x",), "Ann"),
        '{"event": "ArmsRestored", "arms": ["x"], "by": "Ann", "note": null, "at": null}',
    ),
    (
        ForgettingChanged("auto", "Ann"),
        '{"event": "ForgettingChanged", "forget": "auto", "by": "Ann", "note": null, "at": null}',
    ),
    (
        ForgettingChanged(250.0),
        '{"event": "ForgettingChanged", "forget": 250.0, "by": null, "note": null, "at": null}',
    ),
    (
        PolicyChanged(EpsilonGreedy(epsilon=0.25), "Ann"),
        '{"event": "PolicyChanged", "policy": {"kind": "EpsilonGreedy", "epsilon": 0.25}, "by": '
        '"Ann", "note": null, "at": null}',
    ),
    (
        Decided(
            2,
            (1.0,),
            "x",
            4,
            ("a", "x"),
            0.5,
            visitors=(Arm("x", features=ArmFeatures(np.array([1.0]).tobytes())),),
            draws=1000,
            slate=1,
            place=2,
            places=3,
        ),
        '{"event": "Decided", "id": 2, "context": [1.0], "arm": "x", "version": 4, "among": '
        '["a", "x"], "propensity": 0.5, "at": null, "ask": false, "item": null, "wanted": null, '
        '"worth": null, "lesson": null, "coin": null, "checked": false, "visitors": [{"id": "x", '
        '"label": "x", "group": null, "features": [1.0]}], "draws": 1000, "slate": 1, "place": 2, '
        '"places": 3}',
    ),
    (
        SigmaChanged(0.125, None, "Ann", "try"),
        '{"event": "SigmaChanged", "sigma": 0.125, "at": null, "by": "Ann", "note": "try"}',
    ),
    (
        WaitChanged(60.0, None, "Ann", None, 1.0),
        '{"event": "WaitChanged", "wait": 60.0, "default_reward": null, "by": "Ann", "note": null, '
        '"at": 1.0}',
    ),
    (
        RewardedLate(7, 0.5, 9.0),
        '{"event": "RewardedLate", "decision": 7, "value": 0.5, "at": 9.0}',
    ),
    (
        AuditBegun(0.1, 0.05, 2**64 - 1, ((1000, 0.01),), "Ann", None, None),
        '{"event": "AuditBegun", "q": 0.1, "delta": 0.05, "seed": 18446744073709551615, "windows": '
        '[[1000, 0.01]], "by": "Ann", "note": null, "at": null}',
    ),
    (
        Audited("d", False, "Ann", "no", 2.0),
        '{"event": "Audited", "decision": "d", "allowed": false, "by": "Ann", "note": "no", "at": '
        "2.0}",
    ),
    (
        CalibrationBegun(np.array([[1.0, -0.5]]), 0.05, 0.1, 0.5, "", "Ann", None, 2.0),
        '{"event": "CalibrationBegun", "contexts": {"shape": [1, 2], "base64": '
        '"AAAAAAAA8D8AAAAAAADgvw=="}, "alpha": 0.05, "delta": 0.1, "lambda_min": 0.5, "on": "", '
        '"by": "Ann", "note": null, "at": 2.0}',
    ),
    (
        Calibrated(True, "Ann", None, 2.0),
        '{"event": "Calibrated", "allowed": true, "by": "Ann", "note": null, "at": 2.0}',
    ),
    (
        CalibrationDropped("Ann", "enough", None),
        '{"event": "CalibrationDropped", "by": "Ann", "note": "enough", "at": null}',
    ),
    (
        Erasure((3, 4), "Ann", "as asked", 5.0),
        '{"event": "Erasure", "events": [3, 4], "by": "Ann", "note": "as asked", "at": 5.0}',
    ),
    (
        RunsOn("bridle 1", None),
        '{"event": "RunsOn", "platform": "bridle 1", "at": null}',
    ),
    (
        Erased("Decided", ("decision",)),
        '{"event": "Erased", "kind": "Decided", "spaces": ["decision"]}',
    ),
    (
        Regrouped((("a", "bar"), (1, None)), "rules", "Ann", None, 2.5),
        '{"event": "Regrouped", "groups": [["a", "bar"], [1, null]], "limits": "rules", "by": '
        '"Ann", "note": null, "at": 2.5}',
    ),
    (
        Uncertified("Ann", "over", 3.0),
        '{"event": "Uncertified", "by": "Ann", "note": "over", "at": 3.0}',
    ),
    (
        Promised(0.01, 0.02, 50, 200.0, 2**64 - 1, "Ann", None, 3.0),
        '{"event": "Promised", "alpha": 0.01, "q": 0.02, "lag": 50, "b": 200.0, "seed": '
        '18446744073709551615, "by": "Ann", "note": null, "at": 3.0}',
    ),
    (
        PromiseDropped("Ann", "over", None),
        '{"event": "PromiseDropped", "by": "Ann", "note": "over", "at": null}',
    ),
    (
        StartedAnew("New law.", None, None, 4.0),
        '{"event": "StartedAnew", "why": "New law.", "by": null, "note": null, "at": 4.0}',
    ),
    (
        RuleDeclared(RULE, 1.0, "Ann", None),
        '{"event": "RuleDeclared", "rule": {"id": "minors", "when": [{"feature": "age", "at_most": '
        '17.0}], "arms": [1], "groups": ["bar"], "note": "the law"}, "at": 1.0, "by": '
        '"Ann", "note": null}',
    ),
    (
        RuleWithdrawn("minors", None, None, "repealed"),
        '{"event": "RuleWithdrawn", "rule": "minors", "at": null, "by": null, "note": "repealed"}',
    ),
]
# The same as logs of the first form have it: they are still read.
FIRST: list[tuple[Event, str]] = [
    (
        Created(
            replace(
                SETTINGS,
                share="arm",
                wait=None,
                default_reward=None,
                form=1,
                answer_price=None,
                checks=0,
                teachers=(),
            ),
            1.5,
        ),
        '{"event": "Created", "settings": {"arms": [{"id": "a", "label": "a", "group": null}, '
        '{"id": 1, "label": "one", "group": "bar"}], "features": [{"kind": "number", "name": '
        '"age", "low": 0.0, "high": 100.0, "clip": true, "missing": 50.0}, {"kind": "flag", '
        '"name": "smoker", "missing": false}, {"kind": "category", "name": "sky", "values": '
        '["clear", "grey"], "missing": []}, {"kind": "labels", "name": "genres", "values": '
        '["Drama"], "missing": ["Drama"]}], "policy": {"kind": "BehaviorConstrained", "sigma": '
        '0.5, "v": 0.25, "v_constraint": null}, "limits": "linear", "label_coding": "1/0", '
        '"teaching": "random", "v_teaching": 0.25, "ridge": 1.0, "ridge_limits": 1.0, "prior": '
        '"paper", "reward_range": [0.0, 1.0], "exact_denials": true, "rules": [{"id": "minors",'
        ' "when": [{"feature": "age", "at_most": 17.0}], "arms": [1], "groups": ["bar"], '
        '"note": "the law"}], "seed": 18446744073709551615, "max_pending": 1000000, '
        '"max_examples": 1000000}, "at": 1.5}',
    ),
    (
        Asked(3, (0.5, -1.0), "a", 7, 2.0),
        '{"event": "Asked", "id": 3, "context": [0.5, -1.0], "arm": "a", "version": 7, "at": 2.0}',
    ),
    (
        Decided(1, (1.0, 0.3333333333333333), "a", 4, ("a", 1), 0.75, None),
        '{"event": "Decided", "id": 1, "context": [1.0, 0.3333333333333333], "arm": "a", '
        '"version": 4, "among": ["a", 1], "propensity": 0.75, "at": null}',
    ),
    (
        Abstained(2, (0.0, 0.0), 5, None, None),
        '{"event": "Abstained", "id": 2, "context": [0.0, 0.0], "version": 5, "among": null, "at": '
        "null}",
    ),
    (
        Judged((0.5,), "a", True, "model", 0.5, at=2.0),
        '{"event": "Judged", "context": [0.5], "arm": "a", "allowed": true, "by": "model", '
        '"prior": 0.5, "question": null, "check": null, "item": null, "scope": "all", '
        '"until": null, "note": null, "at": 2.0}',
    ),
    (SigmaChanged(0.125, None), '{"event": "SigmaChanged", "sigma": 0.125, "at": null}'),
    (RuleWithdrawn("r"), '{"event": "RuleWithdrawn", "rule": "r", "at": null}'),
]
# Fields that earlier forms lack: of the second and of the third form.
LATER = (
    "item",
    "wanted",
    "worth",
    "lesson",
    "coin",
    "checked",
    "check",
    "scope",
    "until",
    "replaces",
)
# Fields that are written only where there is something to write.
SPARSE = {"features", "visitors", "draws", "slate", "place", "places"}
KINDS = pytest.mark.parametrize(
    ("event", "text"), GOLDEN, ids=[type(event).__name__ for event, _ in GOLDEN]
)


@KINDS
def test_the_form_on_disk_stays(event, text):
    assert json.dumps(event_to_json(event)) == text
    assert json.loads(event_to_text(event)) == json.loads(text)
    read = event_from_json(json.loads(text))
    assert read == event and type(read) is type(event)
    assert hash(read) == hash(event)
    check_event(event)


def test_logs_of_the_first_form_are_read():
    for event, text in FIRST:
        data = json.loads(text)
        assert event_from_json(data) == event
        later = event_to_json(event).keys() - data.keys()
        if len(later) > 1:  # all of the fields that a form added, or none
            with pytest.raises(CorruptState):
                event_from_json({**data, min(later): None})


def test_logs_from_before_checks_are_read():
    """Those of the second form: items and prices, but no coins, and answers for ever."""
    for event in (
        Decided(1, (1.0,), "a", 4, ("a", 1), 0.75, None, True, "film", "a", 0.5, 0.25),
        Taught("e", (0.1,), 1, False, 3, "Ann", None, None, "film"),
    ):
        data = {k: v for k, v in event_to_json(event).items() if k not in LATER[4:]}
        assert event_from_json(data) == event
        for name in set(LATER[4:]) & event_to_json(event).keys():
            with pytest.raises(CorruptState):
                event_from_json({**data, name: event_to_json(event)[name]})


def test_logs_from_before_items_are_read():
    """The form between: questions that come up in decisions, but no items and no prices."""
    for event in (
        Asked(3, (0.5, -1.0), "a", 7, 2.0, 12, ("a",), 0.25),
        Decided(1, (1.0,), "a", 4, ("a", 1), 0.75, None, True),
        Abstained(2, (0.0, 0.0), 5, None, None, True, 1.0),
        Taught("e", (0.1,), 1, False, 3, "Ann"),
    ):
        data = dict(event_to_json(event))
        for name in LATER:
            data.pop(name, None)
        assert event_from_json(data) == event
        if len(event_to_json(event)) - len(data) > 1:
            with pytest.raises(CorruptState):
                event_from_json({**data, "item": None, "coin": None})


def test_every_kind_has_its_form_here():
    # A certificate has a form of its own: tests/certificates.
    assert {type(event) for event, _ in GOLDEN} | {Certified} == set(get_args(Event))


def test_created_holds_every_setting_in_full():
    data: Any = event_to_json(Created(SETTINGS))["settings"]
    written = [field.name for field in fields(Settings) if field.name not in EXTENSIONS]
    assert list(data) == written
    for name in data:
        less = {key: value for key, value in data.items() if key != name}
        with pytest.raises(CorruptState):
            event_from_json({"event": "Created", "settings": less, "at": None})


@KINDS
def test_events_are_frozen(event, text):
    with pytest.raises(FrozenInstanceError):
        setattr(event, fields(event)[0].name, 5.0)


def test_history_is_compared_by_its_numbers():
    again = Learned(HISTORY.contexts.copy(), HISTORY.arm_numbers.copy(), HISTORY.rewards.copy())
    assert again == HISTORY and hash(again) == hash(HISTORY)
    assert again != Learned(again.contexts + 1.0, again.arm_numbers, again.rewards)
    assert again != Learned(again.contexts, again.arm_numbers, again.rewards, at=1.0)
    assert again != "history"
    # Read-only, whatever was read.
    read: Any = event_from_json(event_to_json(HISTORY))
    with pytest.raises(ValueError, match="read-only"):
        read.contexts[0, 0] = 2.0


# -- there and back --------------------------------------------------------------------------

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
item = st.integers(1, 2**53) | text
arm_ids = st.integers(-(2**53), 2**53) | text
coordinate = st.floats(-1e6, 1e6)
finite = st.floats(allow_nan=False, allow_infinity=False)
context = st.lists(coordinate, max_size=4).map(tuple)
at, word = st.none() | finite, st.none() | text
version = st.integers(1, 2**53)
among = st.none() | st.lists(arm_ids, max_size=3).map(tuple)
arm = st.builds(Arm, arm_ids, text, st.none() | text)
when = st.builds(When, text, at_least=finite) | st.builds(When, text, has=text)
rule = st.builds(Rule, text, st.lists(when, max_size=2), st.lists(arm_ids, max_size=2))


@st.composite
def histories(draw: st.DrawFn) -> Learned:
    n, d = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    rows = draw(st.lists(coordinate, min_size=n * d, max_size=n * d))
    arms = draw(st.lists(st.integers(0, 2**62), min_size=n, max_size=n))
    rewards = draw(st.lists(finite, min_size=n, max_size=n))
    contexts = np.array(rows, np.float64).reshape(n, d)
    return Learned(contexts, np.array(arms, np.int64), np.array(rewards, np.float64), draw(at))


events: st.SearchStrategy[Event] = st.one_of(
    st.builds(ArmsAdded, st.lists(arm, max_size=3).map(tuple), at),
    st.builds(Asked, item, context, arm_ids, version, at),
    st.builds(Taught, item, context, arm_ids, st.booleans(), st.none() | item, word, word, at),
    st.builds(
        Judged,
        context,
        arm_ids,
        st.booleans(),
        text,
        st.floats(0, 1),
        st.none() | item,
        st.none() | item,
        st.none() | arm_ids,
        st.sampled_from(["all", "item"]),
        at,
        word,
        at,
    ),
    st.builds(Retracted, item, word, word, at),
    st.builds(Decided, item, context, arm_ids, version, among, st.none() | st.floats(0, 1), at),
    st.builds(Abstained, item, context, version, among, at),
    st.builds(Rewarded, item, finite, at),
    st.builds(Expired, item, st.none() | finite, at),
    st.builds(Shadowed, item, context, arm_ids, at),
    st.builds(WaitChanged, st.none() | st.floats(1e-3, 1e9), st.none() | finite, word, word, at),
    st.builds(RewardedLate, item, finite, at),
    st.builds(Audited, item, st.booleans(), word, word, at),
    st.builds(SigmaChanged, st.floats(0, 1), at, word, word),
    st.builds(RuleDeclared, rule, at),
    st.builds(RuleWithdrawn, text, at),
    st.builds(Created, st.just(SETTINGS), at),
    histories(),
)


@given(events)
def test_an_event_comes_back_as_it_was(event):
    check_event(event)
    written = json.dumps(event_to_json(event), allow_nan=False)
    read = event_from_json(json.loads(written))
    assert read == event and json.dumps(event_to_json(read)) == written
    check_event(read)


# -- damage ----------------------------------------------------------------------------------

DAMAGE: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    float("nan"),
    float("inf"),
    10**400,
    2**64,
    1e7,
    "",
    "x" * 20_000,
    "\ud800",
    [],
    [[]],
    {},
    {"a": 1},
    [None],
    [float("nan")],
    [True],
    ["a"],
    {"kind": "Thompson"},
    {"shape": [1], "base64": "AAAA"},
    {"shape": [10**30], "base64": ""},
    {"shape": "", "base64": 5},
    {"shape": [0], "base64": "é"},
    {"shape": [-1], "base64": ""},
]


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    below = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    return [path, *(place for key, value in below for place in places(value, (*path, key)))]


def damaged(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = damaged(copy[path[0]], path[1:], value)
    return copy


@KINDS
def test_a_damaged_event_is_corrupt_or_still_an_event(event, text):
    whole, refused = json.loads(text), 0
    for path in places(whole):
        for value in DAMAGE:
            try:
                read = event_from_json(damaged(whole, path, value))
            except CorruptState as error:
                assert str(error)
                refused += 1
            else:
                check_event(read)
                assert event_from_json(json.loads(json.dumps(event_to_json(read)))) == read
    assert refused > len(DAMAGE)


@KINDS
def test_a_key_too_many_or_too_few_is_corrupt(event, text):
    data = json.loads(text)
    for path in places(data):
        part = data
        for key in path:
            part = part[key]
        if not isinstance(part, dict):
            continue
        for wrong in (
            {**part, "more": 1},
            *({k: part[k] for k in part if k != key} for key in part),
        ):
            if "feature" in part and "more" not in wrong:
                continue  # a condition has the keys that it needs
            if part.get("event") in ("Asked", "Taught") and set(part) - set(wrong) == {"item"}:
                continue  # the form before items had names
            if set(part) - set(wrong) <= SPARSE and "more" not in wrong:
                continue  # left out where there is none
            with pytest.raises(CorruptState):
                event_from_json(damaged(data, path, wrong))


NO_EVENT: list[Any] = [None, 5, "Rewarded", [], {}, {"event": None}, {"event": []}, {1: 2}]


@pytest.mark.parametrize("data", NO_EVENT, ids=repr)
def test_what_is_no_event_is_corrupt(data):
    with pytest.raises(CorruptState):
        event_from_json(data)


def test_a_rule_is_declared_whole_and_withdrawn_by_name():
    with pytest.raises(CorruptState):
        event_from_json({"event": "RuleDeclared", "rule": "minors", "at": None})
    whole: Any = RULE.to_json()
    with pytest.raises(CorruptState):
        event_from_json({"event": "RuleWithdrawn", "rule": whole, "at": None})


def test_deep_json_is_corrupt():
    deep: Any = 1.0
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(CorruptState):
        event_from_json({"event": "Rewarded", "decision": 1, "value": deep, "at": None})


def test_an_event_of_another_kind_is_no_event():
    class Other(Rewarded):
        pass

    for wrong in (Other(1, 0.5), Rewarded, None, {"event": "Rewarded"}):
        with pytest.raises(InvalidValue, match="one of bridle"):
            check_event(wrong)


def test_a_wrong_field_is_named():
    with pytest.raises(InvalidValue, match="'value' parameter of Rewarded"):
        check_event(Rewarded(1, "0.5"))
    with pytest.raises(InvalidValue, match=r"'rewards' parameter of Learned .* not of int64"):
        check_event(Learned(HISTORY.contexts, HISTORY.arm_numbers, HISTORY.arm_numbers))


def test_a_log_written_by_older_defaults_gives_the_agent_that_it_was(monkeypatch):
    old: Any = Agent(**PAPER, arms=["a", 1], features=Schema.plain(2), seed=3)
    written = json.dumps(event_to_json(Created(old.settings)))
    # All defaults change: of the agent, of the policy, of the schema and of the arms.
    monkeypatch.setattr(
        Agent.__init__, "__kwdefaults__", dict.fromkeys(Agent.__init__.__kwdefaults__)
    )
    monkeypatch.setattr(
        BehaviorConstrained.__init__, "__kwdefaults__", {"sigma": 1, "v": 9, "v_constraint": 9}
    )
    monkeypatch.setattr(Number.__init__, "__defaults__", (-5.0, 5.0, True, 3.0, "m"))
    monkeypatch.setattr(Arm.__init__, "__defaults__", ("another", "another"))
    again: Any = Agent.replay([event_from_json(json.loads(written))]).agent
    assert again.settings == old.settings
    assert again.settings.policy == BehaviorConstrained(sigma=0.25, v=0.25, v_constraint=None)
    assert again.decide([1.0, 2.0]).parts.tobytes() == old.decide([1.0, 2.0]).parts.tobytes()

"""Bad input: a clear error, and the agent is as it was. Every method, before = after."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import json
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import (
    Abstention,
    Agent,
    Arm,
    BehaviorConstrained,
    KnownMask,
    Question,
    Rule,
    Thompson,
    When,
)
from bridle.agent.commands import Commands
from bridle.agent.events import (
    Abstained,
    AuditBegun,
    Audited,
    Calibrated,
    CalibrationBegun,
    CalibrationDropped,
    Erased,
    Erasure,
    Event,
    PromiseDropped,
    RewardedLate,
    RunsOn,
    Uncertified,
    check_event,
    event_from_json,
    event_to_json,
)
from bridle.certificates.calibration import Calibration, certify
from bridle.certificates.certificate import Certificate
from bridle.errors import BridleError, InvalidValue, LimitReached, NotPossible, UnknownId
from bridle.limits import LogisticLimits
from tests.histories import PAPER, bits

NAN, INF, HUGE = float("nan"), float("inf"), 10**400
C = [1.0, 0.5, 0.0]


MASKED: dict[str, Any] = {"limits": "rules", "budget": 20, "on_empty": "least_bad"}


def an_agent(masked: bool = False) -> tuple[Agent, list[Event]]:
    """An agent with something of everything: pending, open, taught, declared, waiting."""
    log: list[Event] = []
    arms = [Arm(0, group="g"), Arm(1, group="g"), Arm("b"), Arm("c")]
    mine = MASKED if masked else PAPER
    agent = Agent(**mine, arms=arms, features=3, seed=3, sink=log.extend, max_examples=8)
    for c in np.eye(3):
        agent.decide(c, ask=False)
        agent.ask(c)
        agent.teach(c, "b", False)
    agent.decide(C, id="d", ask=False)
    agent.ask(C, id="q")
    agent.teach(C, 1, True, id="e")
    agent.reward(1, 0.5)
    agent.answer(1, True)
    agent.retract(1)
    agent.declare(Rule("r", when=[When("x0", at_least=5.0)], groups=["g"]))
    agent.teach(C, "c", True, id="ends", until=3.0)
    if masked:
        for name in ("waits", "ready"):
            question: Any = agent.decide([0.0, 1.0, 1.0], id=name)
            assert isinstance(question, Question)
        lapsed = agent.make.lapsed(question)
        agent.apply(lapsed)
        log.append(lapsed)
    return agent, log


def a_certificate() -> Certificate:
    """One for 4 arms and 3 features, of limits that know nothing."""
    limits = LogisticLimits(arms=4, features=3)
    calibration = Calibration(contexts=np.ones((100, 3)), allowed=np.ones((100, 4), bool))
    return certify(limits, calibration, alpha=0.1, delta=0.1, about=an_agent()[0].about)


SCALARS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    3,
    -1,
    0.0,
    -0.0,
    0.5,
    1.0,
    1.5,
    NAN,
    INF,
    -INF,
    HUGE,
    -HUGE,
    2**63,
    2**64,
    1e300,
    1j,
    Decimal("0.5"),
    Fraction(1, 2),
    Fraction(HUGE),
    "",
    "b",
    "d",
    "q",
    "e",
    "r",
    "no such",
    "x" * 300,
    "\ud800",
    b"b",
    date(2026, 1, 1),
    object(),
    len,
    Ellipsis,
    np.int64(1),
    np.float32(0.5),
    np.float64(NAN),
    np.bool_(True),
    np.str_("b"),
    np.datetime64("2026-01-01"),
    Arm("z"),
    Arm(0),
    Rule("s"),
    Rule("r"),
    Rule("s", groups=["nobody"]),
    Rule("s", arms=["nobody"]),
    Rule("s", when=[When("x9", at_most=1)]),
    Rule("s", when=[When("x0", equals=True)]),
    Thompson(),
]
ARRAYS: list[Any] = [
    [],
    (),
    {},
    set(),
    [[]],
    [C],
    [C, C],
    C,
    tuple(C),
    [1.0, 2.0],
    [1.0, 2.0, NAN],
    [1.0, 2.0, HUGE],
    [1.0, [2.0], 3.0],
    [[1.0], [1.0, 2.0]],
    ["a", "b", "c"],
    [True, False],
    [True, 0.5],
    [0, 1],
    [1, 1],
    [1, True],
    ["b", "b"],
    ["b", ["c"]],
    [{}],
    [None],
    [1, None],
    [0.5, 7.0],
    [3, "d"],
    ["q", 2],
    "bc",
    {"x0": 1.0},
    {"x0": 1.0, "x1": 2.0, "x2": 3.0},
    {"x0": 1.0, "x1": 2.0, "x2": "a"},
    {1: 2},
    {"x9": 0},
    {0, 1},
    frozenset(["b"]),
    range(3),
    np.array(1),
    np.array(C),
    np.array([C, C]),
    np.zeros((0, 3)),
    np.zeros((2, 2)),
    np.zeros((2, 3, 4)),
    np.array([1.0, NAN, 0.0]),
    np.array([1e7, 0.0, 0.0]),
    np.array(["b", "c"]),
    np.array([True, False]),
    np.array([1, 2], object),
    np.array([[0, 1]]),
    np.array([1j, 2j]),
    np.array(["2026-01-01"], "M8[D]"),
    [np.array(C)],
    [np.array([0, 1]), 2],
    np.ma.array(C),
    memoryview(b"abc"),
]
junk = st.sampled_from([*SCALARS, *ARRAYS])
one_of_junk = junk | st.lists(junk, max_size=3) | st.tuples(junk, junk)

GOOD: dict[str, Any] = {
    "context": C,
    "contexts": [C, np.ones(3)],
    "arm": "b",
    "arms": ["b", 1],
    "allowed": True,
    "question": "q",
    "questions": ["q", 2],
    "example": "e",
    "examples": ["e", 2],
    "among": ["b", 0],
    "decision": "d",
    "decisions": ["d", 2],
    "value": 0.5,
    "values": [0.5, 1.0],
    "rewards": [0.5, 1.0],
    "sigma": 0.7,
    "rule": "r",
    "id": "new",
    "ids": ["new", "newer"],
    "by": "me",
    "note": "why",
    "at": 5.0,
    "propensity": True,
    "details": False,
    "pool": None,
    "ask": True,
    "groups": {0: "g", "b": "h"},
    "limits": "logistic",
    "learned_since": True,
    "wait": 60.0,
    "default_reward": 0.5,
    "decided": None,
    "item": "film",
    "items": ["film", "show"],
    "scope": "item",
    "until": 9.0,
    "now": 5.0,
    "check": "d",
    "why": "new law",
    "alpha": 0.1,
    "q": 0.5,
    "lag": 3,
    "b": 10.0,
    "seed": 7,
    "k": None,
    "slate": ["d", 2],
    "policy": Thompson(v=0.1),
    "boldness": 0.2,
    "forget": "never",
    "word": "w",
    "words": ["w", "v"],
    "who": "token 1",
}
# Where a name means something else: by method, or by method and name.
GOOD_OF: dict[tuple[str, str], Any] = {
    ("teach_many", "allowed"): [True, 0],
    ("taught_many", "allowed"): [True, 0],
    ("answer_many", "allowed"): [False, 1],
    ("answered_many", "allowed"): [False, 1],
    ("add_arms", "arms"): ["new", Arm(9)],
    ("arms_added", "arms"): ["new", Arm(9)],
    **{(name, "arms"): [Arm("c", "other")] for name in ("change_arms", "arms_changed")},
    **{(name, "arms"): [Arm("x"), "y"] for name in ("visit_arms", "arms_visited")},
    **{(name, "items"): [0.5, None] for name in ("reward_slate", "slate_rewards")},
    **{(name, "value"): None for name in ("reward_slate", "slate_rewards")},
    ("slate", "k"): 2,
    ("declare", "rule"): Rule("s", arms=[0]),
    ("rule_declared", "rule"): Rule("s", arms=[0]),
    ("resume", "decision"): "ready",
    ("resumed", "decision"): "ready",
    ("note", "note"): Audited("d", True),
    ("noted", "note"): RewardedLate("d", 0.5),
    # The questions there are about nothing with a name.
    **{(verb, "scope"): "all" for verb in ("answer", "answer_many", "answered", "answered_many")},
    ("shadow_of", "decided"): Abstained(1, (1.0, 0.5, 0.0), 2),
    ("shadowed", "decision"): Abstention(Abstained(1, (1.0, 0.5, 0.0), 2)),
}
VERBS = (
    "ask",
    "ask_many",
    "teach",
    "teach_many",
    "answer",
    "answer_many",
    "retract",
    "retract_many",
    "decide",
    "decide_many",
    "reward",
    "reward_many",
    "reward_slate",
    "learn",
    "set_sigma",
    "set_policy",
    "set_boldness",
    "set_forget",
    "add_arms",
    "visit_arms",
    "change_arms",
    "retire_arms",
    "restore_arms",
    "declare",
    "withdraw",
    "skip",
    "regroup",
    "adopt",
    "expire",
    "shadow",
    "set_wait",
    "note",
    "promise",
    "start_anew",
    "end_examples",
)
MAKES = (
    "asked",
    "asked_many",
    "example",
    "examples",
    "taught",
    "taught_many",
    "answer",
    "answers",
    "answered",
    "answered_many",
    "retracted",
    "retracted_many",
    "decided",
    "decided_many",
    "rewarded",
    "rewarded_many",
    "slate",
    "slate_rewards",
    "learned",
    "sigma_changed",
    "policy_changed",
    "boldness_changed",
    "forgetting_changed",
    "arms_added",
    "arms_visited",
    "arms_changed",
    "arms_retired",
    "arms_restored",
    "rule_declared",
    "rule_withdrawn",
    "lapsed",
    "regrouped",
    "certified",
    "expired",
    "shadow",
    "shadowed",
    "shadow_of",
    "wait_changed",
    "noted",
    "promised",
    "started_anew",
    "ended",
    "judged",
)


GOOD["certificate"] = a_certificate()
GOOD |= dict.fromkeys(("who", "word", "words"))  # of declared teachers alone
CALLS = [(False, verb) for verb in VERBS] + [
    (True, verb) for verb in ("answer", "ask", "decide", "decide_many", "resume", "skip", "judge")
]


def arguments_of(owner: type, method: str) -> dict[str, Any]:
    names = [
        name for name in inspect.signature(getattr(owner, method)).parameters if name != "self"
    ]
    return {name: GOOD_OF.get((method, name), GOOD[name]) for name in names}


def test_every_verb_is_in_this_file():
    public = {name for name in dir(Agent) if not name.startswith("_")}
    values = {name for name in public if isinstance(getattr(Agent, name), property)}
    looks = {"believed", "describe", "proposal", "novelty_rate", "whom"}
    looks |= {"certification", "certification_of"}
    rest = {"apply", "replay", "save", "load", "of", "resume", "drop_certificate"}
    rest |= {"judge", "drop_promise"}
    assert public - values == {*VERBS, *looks, *rest}
    made = {name for name in dir(Commands) if not name.startswith("_")}
    # The last takes what was checked before.
    # Declared teachers: tests/agent/test_agent_teachers.py.
    declared = {"answers_by", "examples_by"}
    assert made == {*MAKES, "resumed", "uncertified", "rewards", "promise_dropped", *declared}


@pytest.mark.parametrize(("masked", "verb"), CALLS)
def test_the_good_arguments_are_good(masked, verb):
    agent, log = an_agent(masked)
    before, events = bits(agent), len(log)
    getattr(agent, verb)(**arguments_of(Agent, verb))
    assert bits(agent) != before and len(log) > events


def sound(agent: Agent, log: list[Event]) -> None:
    """What was taken can be written, read and replayed, and gives the same agent."""
    disk = json.loads(json.dumps([event_to_json(event) for event in log], allow_nan=False))
    events = [event_from_json(data) for data in disk]
    assert events == log
    for event in log:
        check_event(event)
    replay = Agent.replay(events)
    assert replay.agrees and bits(replay.agent) == bits(agent)


@pytest.mark.parametrize(("masked", "verb"), CALLS)
def test_a_verb_with_one_bad_argument(masked, verb):
    agent, log = an_agent(masked)
    before, events, refused = bits(agent), len(log), 0
    for name, good in arguments_of(Agent, verb).items():
        for value in [
            *SCALARS,
            *ARRAYS,
            *([one] for one in SCALARS),
            *([good, x] for x in SCALARS),
        ]:
            try:
                getattr(agent, verb)(**arguments_of(Agent, verb) | {name: value})
            except BridleError:
                assert bits(agent) == before and len(log) == events, (name, value)
                refused += 1
            else:
                sound(agent, log)
                agent, log = an_agent(masked)
    assert refused > 100


@given(st.sampled_from(CALLS), st.data())
def test_a_verb_takes_what_is_good_and_refuses_the_rest_whole(call, data):
    masked, verb = call
    agent, log = an_agent(masked)
    arguments = arguments_of(Agent, verb)
    for name in data.draw(st.sets(st.sampled_from(sorted(arguments)), min_size=1, max_size=2)):
        arguments[name] = data.draw(one_of_junk, label=name)
    before, events = bits(agent), len(log)
    try:
        getattr(agent, verb)(**arguments)
    except BridleError as error:
        assert str(error)
        assert bits(agent) == before and len(log) == events
    else:
        sound(agent, log)


@given(st.booleans(), st.sampled_from(MAKES), st.data())
def test_the_first_half_changes_nothing_whatever_it_is_given(masked, make, data):
    agent, log = an_agent(masked)
    arguments = arguments_of(Commands, make)
    for name in data.draw(st.sets(st.sampled_from(sorted(arguments)), max_size=2)):
        arguments[name] = data.draw(one_of_junk, label=name)
    before, events = bits(agent), len(log)
    try:
        getattr(agent.make, make)(**arguments)
    except BridleError as error:
        assert str(error)
    assert bits(agent) == before and len(log) == events


def some_events() -> list[Event]:
    agent, _ = an_agent()
    events: list[Any] = [
        agent.make.asked(C),
        agent.make.decided(C),
        agent.make.decided(C, among=[]),
    ]
    events = [made.event for made in events]
    events += [agent.make.taught(C, "b", True), agent.make.answered("q", False)]
    events += [agent.make.retracted("e"), agent.make.rewarded("d", 0.5)]
    events += [agent.make.learned([C], ["b"], [0.5]), agent.make.sigma_changed(0.1)]
    events += [agent.make.arms_added(["new"]), agent.make.rule_declared(Rule("s"))]
    events += [agent.make.lapsed("q"), agent.make.regrouped({0: "h"}, "rules")]
    events += [agent.make.certified(a_certificate(), learned_since=True), Uncertified()]
    shadowed = agent.make.shadowed(Abstention(Abstained("d", tuple(C), 1)), 0)
    events += [agent.make.expired("d"), shadowed, agent.make.wait_changed(5.0, 0.5)]
    events += [RewardedLate("d", 0.5), AuditBegun(0.5, 0.1, 3), Audited("d", True)]
    events += [CalibrationBegun(np.ones((1, 3)), 0.1, 0.1, 0.5, "here"), Calibrated(True)]
    events += [CalibrationDropped(), Erased("Decided", ("decision",))]
    events += [Erasure((1, 2)), RunsOn("here")]
    events += [agent.make.promised(0.1, 0.5, seed=1), PromiseDropped()]
    events += [agent.make.started_anew("new law"), agent.make.policy_changed(Thompson(v=0.5))]
    events += [agent.make.arms_visited(["x"]), agent.make.arms_changed([Arm("c", "other")])]
    events += [agent.make.arms_retired(["c"]), agent.make.arms_restored(["c"])]
    events += [agent.make.boldness_changed(0.2), agent.make.forgetting_changed("never")]
    return [*events, agent.make.rule_withdrawn("r")]


def test_there_is_an_event_of_every_kind():
    kinds = {type(event).__name__ for event in some_events()}
    # Words of declared teachers: tests/agent/test_agent_teachers.py.
    assert kinds | {"Created", "Judged"} == {kind.__name__ for kind in get_args(Event)}


@pytest.mark.parametrize("which", range(38))
def test_an_event_with_one_bad_field(which):
    agent, _ = an_agent()
    before, good = bits(agent), some_events()[which]
    for field in dataclasses.fields(good):
        for value in [*SCALARS, *ARRAYS, *((one,) for one in SCALARS)]:
            event = copy.copy(good)
            object.__setattr__(event, field.name, value)
            try:
                agent.apply(event)
            except BridleError:
                assert bits(agent) == before, (field, value)
            else:
                assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event
                agent, _ = an_agent()


@given(st.integers(0, 11), st.data())
def test_apply_takes_what_is_good_and_refuses_the_rest_whole(which, data):
    agent, log = an_agent()
    event = copy.copy(some_events()[which])
    names = [field.name for field in dataclasses.fields(event)]
    for name in data.draw(st.sets(st.sampled_from(names), max_size=2)):
        object.__setattr__(event, name, data.draw(one_of_junk, label=name))
    before = bits(agent)
    try:
        agent.apply(event)
    except BridleError as error:
        assert str(error)
        assert bits(agent) == before
    else:
        log.append(event)
        disk = [event_from_json(json.loads(json.dumps(event_to_json(one)))) for one in log]
        # What was not chosen by this agent is folded all the same: the replay says so.
        assert bits(Agent.replay(disk).agent) == bits(agent)


@given(one_of_junk)
def test_apply_refuses_what_is_no_event(value):
    agent, _ = an_agent()
    before = bits(agent)
    with pytest.raises(InvalidValue, match="one of bridle"):
        agent.apply(value)
    assert bits(agent) == before


CREATE = [name for name in inspect.signature(Agent).parameters if name not in ("sink",)]


@pytest.mark.parametrize("name", CREATE)
def test_an_agent_is_created_whole_or_refused(name):
    for value in [*SCALARS, *ARRAYS, *([one] for one in SCALARS), *((0, one) for one in SCALARS)]:
        log: list[Event] = []
        try:
            agent = Agent(**{**PAPER, "arms": 2, "features": 2, "sink": log.extend} | {name: value})
        except BridleError as error:
            assert str(error) and not log
        else:
            sound(agent, log)


BAD: list[tuple[type[BridleError], str, str, tuple[Any, ...], dict[str, Any]]] = [
    (InvalidValue, "Got nan", "decide", ([NAN, 0, 0],), {}),
    (InvalidValue, "width 3", "decide", ([1.0, 2.0],), {}),
    (InvalidValue, "'id'", "decide", (C,), {"id": 5}),
    (InvalidValue, "UTF-8", "decide", (C,), {"id": "\ud800"}),
    (InvalidValue, "is pending", "decide", (C,), {"id": "d"}),
    (InvalidValue, "is pending", "decide_many", ([C],), {"ids": ["d"]}),
    (InvalidValue, "distinct", "decide_many", ([C, C],), {"ids": ["x", "x"]}),
    (InvalidValue, "a list of 2", "decide_many", ([C, C],), {"ids": "xy"[:1]}),
    (InvalidValue, "a list of 2", "decide_many", ([C, C],), {"ids": "xy"}),
    (InvalidValue, "'among'", "decide", (C, "bc"), {}),
    (InvalidValue, "'among'", "decide", (C, 5), {}),
    (UnknownId, "No arm 'a'", "decide", (C, ["a"]), {}),
    (UnknownId, "No arm True", "decide", (C, [True]), {}),
    (UnknownId, "No arm 1.0", "teach", (C, 1.0, True), {}),
    (UnknownId, "No arm \\[", "teach", (C, ["b"], True), {}),
    (InvalidValue, "True or False", "teach", (C, "b", "yes"), {}),
    (InvalidValue, "True or False", "teach", (C, "b", 0.5), {}),
    (InvalidValue, "stands", "teach", (C, "b", True), {"id": "e"}),
    (InvalidValue, "'by'", "teach", (C, "b", True), {"by": ""}),
    (InvalidValue, "'note'", "teach", (C, "b", True), {"note": "x" * 10_001}),
    (InvalidValue, "'at'", "teach", (C, "b", True), {"at": HUGE}),
    (InvalidValue, "a list of 2", "teach_many", ([C, C], ["b"], [True, True]), {}),
    (InvalidValue, "a list of 2", "teach_many", ([C, C], ["b", "c"], [True]), {}),
    (LimitReached, "8 examples", "teach_many", ([C] * 9, ["b"] * 9, [True] * 9), {}),
    (UnknownId, "No open question 1", "answer", (1, True), {}),
    (UnknownId, "No open question True", "answer", (True, True), {}),
    (InvalidValue, "distinct", "answer_many", ([2, 2], [True, True]), {}),
    (InvalidValue, "a list of 1", "answer_many", ([2], [True, True]), {}),
    (UnknownId, "No standing example 1", "retract", (1,), {}),
    (InvalidValue, "distinct", "retract_many", (["e", "e"],), {}),
    (UnknownId, "No standing example 99", "retract_many", (["e", 99],), {}),
    (InvalidValue, "a list", "retract_many", ("e",), {}),
    (UnknownId, "is rewarded already", "reward", (1, 0.5), {}),
    (UnknownId, "No pending decision 99", "reward", (99, 0.5), {}),
    (UnknownId, "No pending decision 2.0", "reward", (2.0, 0.5), {}),
    (InvalidValue, "range \\[0, 1\\]. Got 2", "reward", (2, 2), {}),
    (InvalidValue, "Got True", "reward", (2, True), {}),
    (InvalidValue, "Got 1000", "reward", (2, HUGE), {}),
    (InvalidValue, "2 floats", "reward_many", ([2, 3], [True, 0.5]), {}),
    (InvalidValue, "2 floats", "reward_many", ([2, 3], np.array([True, False])), {}),
    (InvalidValue, "Got 1.5", "reward_many", ([2, 3], [0.5, 1.5]), {}),
    (InvalidValue, "shape \\(1,\\)", "reward_many", ([2, 3], [0.5]), {}),
    (InvalidValue, "distinct", "reward_many", ([2, 2], [0.5, 0.5]), {}),
    (UnknownId, "No pending decision 1", "reward_many", ([2, 1], [0.5, 0.5]), {}),
    (UnknownId, "No pending decision \\[", "reward_many", ([[2]], [0.5]), {}),
    (UnknownId, "No arm 7", "learn", ([C], [7], [0.5]), {}),
    (InvalidValue, "Got nan", "learn", ([C], ["b"], [NAN]), {}),
    (InvalidValue, "Got 1.5", "set_sigma", (1.5,), {}),
    (InvalidValue, "Got 1000", "set_sigma", (HUGE,), {}),
    (InvalidValue, "distinct ids. Got 0", "add_arms", ([7, 0],), {}),
    (InvalidValue, "distinct ids. Got 'z'", "add_arms", (["z", "z"],), {}),
    (InvalidValue, "at least one", "add_arms", ([],), {}),
    (InvalidValue, "list of ids", "add_arms", ({"y", "z"},), {}),
    (InvalidValue, "a Rule", "declare", ("r",), {}),
    (InvalidValue, "of a new id", "declare", (Rule("r"),), {}),
    (UnknownId, "No rule 's'. These stand", "withdraw", ("s",), {}),
    (UnknownId, "No rule \\[", "withdraw", (["r"],), {}),
]


@pytest.mark.parametrize(("kind", "words", "verb", "arguments", "named"), BAD)
def test_the_error_is_clear_and_nothing_has_changed(kind, words, verb, arguments, named):
    agent, log = an_agent()
    before, events = bits(agent), len(log)
    with pytest.raises(kind, match=words):
        getattr(agent, verb)(*arguments, **named)
    assert bits(agent) == before and len(log) == events


@pytest.mark.parametrize(
    ("kind", "words", "arguments"),
    [
        (InvalidValue, "at least one arm", {"arms": []}),
        (InvalidValue, "a number or a list", {"arms": "abc"}),
        (InvalidValue, "a number or a list", {"arms": {"a", "b"}}),
        (InvalidValue, "distinct ids", {"arms": ["a", "a"]}),
        (InvalidValue, "'id' parameter of Arm", {"arms": [True]}),
        (LimitReached, "arms × features²", {"arms": 1000, "features": 10_000}),
        (InvalidValue, "a list of features", {"features": "abc"}),
        (InvalidValue, "not told the truth", {"policy": KnownMask()}),
        (InvalidValue, "one of bridle's own", {"policy": "thompson"}),
        (NotPossible, "Thompson has no sigma", {"policy": Thompson(), "sigma": 0.5}),
        (InvalidValue, "'sigma'", {"sigma": -0.1}),
        (InvalidValue, "low < high", {"reward_range": (1.0, 1.0)}),
        (InvalidValue, "low, high", {"reward_range": 5}),
        (InvalidValue, "a list of Rule", {"rules": ["r"]}),
        (InvalidValue, "a list", {"rules": 5}),
        (InvalidValue, "'sink'", {"sink": 5}),
        (InvalidValue, "'at'", {"at": "now"}),
        (InvalidValue, "'linear'", {"limits": "quadratic"}),
        (InvalidValue, "'paper'", {"prior": "flat"}),
        (InvalidValue, "'seed'", {"seed": -1}),
        (InvalidValue, "'max_pending'", {"max_pending": 0}),
    ],
)
def test_bad_settings_are_refused(kind, words, arguments):
    with pytest.raises(kind, match=words):
        Agent(**{**PAPER, "arms": 2, "features": 2} | arguments)


def test_arms_have_a_limit(monkeypatch):
    monkeypatch.setattr("bridle.agent.config.MAX_ARMS", 5)
    for arms in (6, range(6), itertools.count()):
        with pytest.raises((LimitReached, InvalidValue), match="5"):
            Agent(**PAPER, arms=arms, features=2)
    agent = Agent(**PAPER, arms=4, features=2)
    before = bits(agent)
    with pytest.raises(LimitReached, match="The limit of 5 arms is reached"):
        agent.add_arms(["a", "b"])
    assert bits(agent) == before
    agent.add_arms(["a"])


def test_a_wrong_call_is_a_type_error():
    agent: Any = an_agent()[0]
    create: Any = Agent
    before = bits(agent)
    for call in (
        agent.decide,
        agent.reward,
        lambda: agent.decide(C, nothing=1),
        lambda: create(2, 2),
    ):
        with pytest.raises(TypeError):
            call()
    assert bits(agent) == before


def test_sigma_needs_a_policy_that_has_one():
    agent = Agent(**PAPER, arms=2, features=2, policy=Thompson())
    before = bits(agent)
    with pytest.raises(NotPossible, match="Thompson has no sigma"):
        agent.set_sigma(0.5)
    assert bits(agent) == before and agent.sigma is None
    assert (
        Agent(**PAPER, arms=2, features=2, policy=BehaviorConstrained(v=0.1), sigma=0.9).sigma
        == 0.9
    )

"""Agent: every verb, its two halves, its sink, and what an agent learns from them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import (
    Abstention,
    Agent,
    Answer,
    Arm,
    BehaviorConstrained,
    Category,
    Decision,
    Flag,
    Labels,
    LinearArms,
    LinearLimits,
    Number,
    Question,
    Rule,
    Schema,
    When,
)
from bridle.agent.commands import Commands
from bridle.agent.events import Abstained, Asked, Created, Decided, Learned, Rewarded, Taught
from bridle.errors import InvalidValue, NotPossible, UnknownId
from tests.histories import PAPER, bits

SCHEMA = Schema(
    [
        Number("age", low=0, high=100),
        Flag("smoker", missing=False),
        Category("sky", ["clear", "grey"]),
        Labels("genres", ["Drama", "Horror"]),
    ]
)
YOUNG = {"age": 10, "sky": "grey", "genres": ["Horror"]}
OLD = {"age": 80, "smoker": True, "sky": "clear", "genres": {"Drama", "Horror"}}
ARRAY, OTHER = np.array([1.0, 0.5, 0.0]), [0.0, 1.0, 2.0]


def new(**more: Any) -> Any:
    arms = [Arm("a", group="g"), Arm("b", group="g"), Arm(7, label="seven")]
    return Agent(**{**PAPER, "arms": arms, "features": 3, "seed": 11, **more})


def an_agent(features: Any = 3, **more: Any) -> tuple[Any, list[Any], Any, Any]:
    """An agent with a past, its log, and two contexts."""
    log: list[Any] = []
    agent = new(features=features, sink=log.extend, **more)
    one, two = (YOUNG, OLD) if features is SCHEMA else (ARRAY, OTHER)
    for context, arm in ((one, "a"), (two, "b"), (two, 7)):
        agent.teach(context, arm, arm != "a")
        agent.ask(context)
        agent.decide(context)
    agent.declare(Rule("closed", arms=[7]))
    return agent, log, one, two


# Each verb as (the whole, its first half as a list of events); `x`, `y` are contexts.
Verb = tuple[Callable[[Any, Any, Any], Any], Callable[[Any, Any, Any], list[Any]]]
VERBS: dict[str, Verb] = {
    "ask": (lambda a, x, y: a.ask(x, at=1), lambda a, x, y: [a.make.asked(x, at=1).event]),
    "ask met": (lambda a, x, y: a.ask(), lambda a, x, y: [a.make.asked().event]),
    "ask named": (
        lambda a, x, y: a.ask(y, id="q"),
        lambda a, x, y: [a.make.asked(y, id="q").event],
    ),
    "ask_many": (
        lambda a, x, y: a.ask_many([x, y]),
        lambda a, x, y: [q.event for q in a.make.asked_many([x, y])],
    ),
    "teach": (
        lambda a, x, y: a.teach(x, "b", False, by="me", note="no", at=3.5),
        lambda a, x, y: [a.make.taught(x, "b", False, by="me", note="no", at=3.5)],
    ),
    "teach named": (
        lambda a, x, y: a.teach(x, 7, 1, id="e"),
        lambda a, x, y: [a.make.taught(x, 7, 1, id="e")],
    ),
    "teach_many": (
        lambda a, x, y: a.teach_many([x, y], ["a", 7], [True, False], ids=["e", "f"], by="me"),
        lambda a, x, y: a.make.taught_many(
            [x, y], ["a", 7], [True, False], ids=["e", "f"], by="me"
        ),
    ),
    "answer": (lambda a, x, y: a.answer(2, False), lambda a, x, y: [a.make.answered(2, False)]),
    "answer_many": (
        lambda a, x, y: a.answer_many([3, 1], np.array([True, False]), by="me"),
        lambda a, x, y: a.make.answered_many([3, 1], np.array([True, False]), by="me"),
    ),
    "retract": (lambda a, x, y: a.retract(1), lambda a, x, y: [a.make.retracted(1)]),
    "retract_many": (
        lambda a, x, y: a.retract_many([3, 1], by="me"),
        lambda a, x, y: a.make.retracted_many([3, 1], by="me"),
    ),
    "decide": (lambda a, x, y: a.decide(x), lambda a, x, y: [a.make.decided(x).event]),
    "decide among": (
        lambda a, x, y: a.decide(x, ["b", "a"], "d", propensity=True, at=1.0),
        lambda a, x, y: [a.make.decided(x, ["b", "a"], "d", propensity=True, at=1.0).event],
    ),
    "abstain": (lambda a, x, y: a.decide(x, [7]), lambda a, x, y: [a.make.decided(x, [7]).event]),
    "decide_many": (
        lambda a, x, y: a.decide_many([x, y, x], propensity=True),
        lambda a, x, y: a.make.decided_many([x, y, x], propensity=True).events(),
    ),
    "decide_many fast": (
        lambda a, x, y: a.decide_many([x, y], ["a"], ["d", "e"], details=False),
        lambda a, x, y: a.make.decided_many([x, y], ["a"], ["d", "e"], details=False).events(),
    ),
    "reward": (lambda a, x, y: a.reward(2, 0.5), lambda a, x, y: [a.make.rewarded(2, 0.5)]),
    "reward_many": (
        lambda a, x, y: a.reward_many([3, 1], [0.0, 1.0], at=9),
        lambda a, x, y: a.make.rewarded_many([3, 1], [0.0, 1.0], at=9),
    ),
    "learn": (
        lambda a, x, y: a.learn([x, y], ["b", 7], [0.25, 1]),
        lambda a, x, y: [a.make.learned([x, y], ["b", 7], [0.25, 1])],
    ),
    "set_sigma": (lambda a, x, y: a.set_sigma(0.9), lambda a, x, y: [a.make.sigma_changed(0.9)]),
    "add_arms": (
        lambda a, x, y: a.add_arms([Arm("late", group="g"), 9]),
        lambda a, x, y: [a.make.arms_added([Arm("late", group="g"), 9])],
    ),
    "declare": (
        lambda a, x, y: a.declare(Rule("r", groups=["g"]), at=2.0),
        lambda a, x, y: [a.make.rule_declared(Rule("r", groups=["g"]), at=2.0)],
    ),
    "withdraw": (
        lambda a, x, y: a.withdraw("closed"),
        lambda a, x, y: [a.make.rule_withdrawn("closed")],
    ),
}
BULK = {
    "ask_many": 2,
    "teach_many": 2,
    "answer_many": 2,
    "retract_many": 2,
    "decide_many": 3,
    "decide_many fast": 2,
    "reward_many": 2,
}
FEATURES = pytest.mark.parametrize("features", [3, SCHEMA], ids=["arrays", "mappings"])


@FEATURES
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_its_two_halves(verb, features):
    whole, half = VERBS[verb]
    agent, log, x, y = an_agent(features)
    twin, _, _, _ = an_agent(features)
    before, events = bits(agent), len(log)
    made = half(agent, x, y)
    assert bits(agent) == before and len(log) == events  # the first half changes nothing
    whole(agent, x, y)
    assert log[events:] == made and len(made) == BULK.get(verb, 1)  # the sink sees what was made
    assert bits(agent) != before
    for event in made:
        twin.apply(event)
    assert bits(twin) == bits(agent)  # the second half does the rest
    assert agent.version == len(log) == twin.version


@FEATURES
@pytest.mark.parametrize("verb", VERBS)
def test_a_sink_that_raises_leaves_all_as_it_was(verb, features):
    agent, _, x, y = an_agent(features)
    twin, _, _, _ = an_agent(features)
    told: list[int] = []

    def sink(events):
        told.append(len(events))
        raise OSError("the disk is full")

    before = bits(agent)
    agent.sink = sink
    with pytest.raises(OSError, match="disk is full"):
        VERBS[verb][0](agent, x, y)
    assert told == [BULK.get(verb, 1)]  # once, with all of a batch
    assert bits(agent) == before
    agent.sink = twin.sink = None
    VERBS[verb][0](agent, x, y)
    VERBS[verb][0](twin, x, y)
    assert bits(agent) == bits(twin)  # and it can be tried again


def test_an_agent_whose_creation_cannot_be_written_is_none():
    def sink(events):
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        new(sink=sink)


def test_empty_batches_do_nothing():
    agent, log, _, _ = an_agent()
    before, events = bits(agent), len(log)
    assert agent.ask_many([]) == agent.teach_many([], [], []) == agent.answer_many([], []) == []
    assert (
        list(agent.decide_many([]))
        == list(agent.decide_many(np.zeros((0, 3)), details=False))
        == []
    )
    agent.retract_many([])
    agent.reward_many([], [])
    assert bits(agent) == before and len(log) == events


def test_the_first_event_holds_the_settings_and_the_time():
    log: list[Any] = []
    agent = new(sink=log.extend, at=12.5)
    assert log == [Created(agent.settings, 12.5)]
    assert agent.schema is agent.settings.features and agent.schema == Schema.plain(3)
    assert agent.version == 1


def test_what_the_verbs_give_back():
    agent, log, x, _ = an_agent()
    assert agent.teach(x, "a", True) == 4 and agent.teach(x, "a", True, id="mine") == "mine"
    question = agent.ask(x)
    assert (question.id, question.arm in ("a", "b", 7), question.version) == (4, True, len(log) - 1)
    assert question.context == tuple(x)
    assert agent.answer(question, True).example == 6
    assert log[-1] == Taught(6, question.context, question.arm, True, question=4)
    assert agent.teach_many([x], [7], [0]) == [7]
    told = agent.answer_many([agent.ask(x), agent.ask(x)], [True, False])
    assert told == [Answer(8), Answer(9)]
    assert [example.id for example in agent.examples][-4:] == [6, 7, 8, 9]
    assert isinstance(agent.decide(x, [7]), Abstention)
    made = agent.decide(x)
    assert isinstance(made, Decision) and made.id == 5  # the abstention was the fourth
    assert agent.reward(made.id, 1.0) is None


def test_ids_of_numpy_are_written_as_plain_ones():
    agent, log, x, _ = an_agent()
    agent.reward(np.int64(1), np.float32(0.5))
    agent.reward_many([np.int64(2), 3], np.array([0, 1]))
    agent.teach(x, np.int64(7), np.bool_(True), id=np.str_("e"))
    agent.decide(x, np.array([7, 7]))
    agent.answer(np.int32(1), np.int8(0))
    agent.retract(np.str_("e"))
    agent.learn(np.array([x]), np.array(["a"]), np.array([1], np.int8))
    assert log[-7] == Rewarded(2, 0.0) and type(log[-7].decision) is int
    assert log[-5] == Taught("e", tuple(x), 7, True, None) and type(log[-5].arm) is int
    assert type(log[-5].id) is str and type(log[-5].allowed) is bool
    assert log[-4] == Abstained(4, tuple(x), log[-4].version, (7,))


def test_among_is_a_set_of_arms():
    agent = new()
    for among in (["b", "a"], {"a", "b"}, ("a", "b", "b"), (arm for arm in ("b", "a"))):
        made = agent.decide(ARRAY, among)
        assert made.event.among == ("a", "b")
        assert made.eligible.tolist() == [True, True, False] and made.arm in ("a", "b")
    assert agent.decide(ARRAY).event.among is None


def test_to_choose_among_no_arms_is_an_error_that_says_what_to_do():
    agent = new()
    before = bits(agent)
    nothing: list[Any] = [(), [], set(), iter(())]
    for among in nothing:
        with pytest.raises(InvalidValue, match=r"at least one arm.*Leave it out for all arms"):
            agent.decide(ARRAY, among)
    with pytest.raises(InvalidValue, match="'among'"):
        agent.decide_many([ARRAY], [])
    with pytest.raises(InvalidValue, match="'among'"):
        agent.shadow(ARRAY, "a", [])
    assert bits(agent) == before
    # What a log holds, or a service was sent, is made and folded as ever.
    made = agent.make.decided(ARRAY, ())
    assert isinstance(made, Abstention)
    agent.apply(made.event)


def test_a_verb_has_the_parameters_of_its_command_and_a_docstring_of_its_own():
    verbs = {"teach": "example", "shadow": "shadow", "reward": "rewarded", "adopt": "certified"}
    for verb, command in verbs.items():
        own = inspect.signature(getattr(Agent, verb))
        assert own.parameters == inspect.signature(getattr(Commands, command)).parameters
        assert inspect.getdoc(getattr(Agent, verb)) != inspect.getdoc(getattr(Commands, command))
    # Of two commands: that of one arm, and that of a slate.
    both = {*inspect.signature(Commands.decided).parameters, "k"}
    assert {*inspect.signature(Agent.decide).parameters} == both
    assert list(inspect.signature(Agent.reward).parameters) == ["self", "decision", "value", "at"]
    assert "None" in str(inspect.signature(Agent.reward).return_annotation)


def test_a_question_earns_nothing_and_the_error_says_what_to_do():
    agent = Agent(arms=["a", "b"], features=[Flag("x")], budget=5, answer_price=0.0, seed=1)
    question = agent.decide({"x": True})
    assert isinstance(question, Question)
    for wrong in (question, question.decision):
        with pytest.raises(UnknownId, match=r"waits for the answer to question 1.*agent\.answer"):
            agent.reward(wrong, 0.5)
    asked: Any = agent.ask({"x": False}, id="mine")
    for wrong in (asked, "mine"):
        with pytest.raises(UnknownId, match=r"This is a question.*agent\.skip"):
            agent.reward_many([wrong], [0.5])
    with pytest.raises(UnknownId, match="never made"):
        agent.reward("nobody", 0.5)
    made = agent.answer(question, True).then
    assert made is not None
    agent.reward(made.id, 0.5)


# -- what is learned -------------------------------------------------------------------------


def test_teaching_and_rewards_go_where_the_paper_says():
    agent = new(ridge=0.5, ridge_limits=2.0, label_coding="1/-1", reward_range=(-1.0, 3.0))
    rng = np.random.default_rng(1)
    rewards = LinearArms(arms=3, features=3, ridge=0.5)
    limits = LinearLimits(arms=3, features=3, ridge=2.0, label_coding="1/-1")
    ids = {"a": 0, "b": 1, 7: 2}
    for _ in range(60):
        c = rng.standard_normal(3)
        question = agent.ask(c)
        agent.answer(question, c[0] > 0)
        limits.learn(c, ids[question.arm], c[0] > 0)
        made = agent.decide(c)
        value = rng.uniform(-1, 3)
        agent.reward(made.id, value)
        rewards.update(ids[made.arm], c, (value + 1.0) / 4.0)
    made = agent.decide(ARRAY)
    mean, sd = rewards.scores(ARRAY)
    belief, doubt = limits.scores(ARRAY)
    for part, expected in zip(made.parts[:4], (mean, sd, belief, doubt), strict=True):
        assert part.tobytes() == expected.tobytes()


def test_an_abstention_is_logged_earns_nothing_and_teaches_nothing():
    log: list[Any] = []
    agent = new(sink=log.extend)
    for arm in ("a", "b", 7):
        agent.teach(ARRAY, arm, False)
    arms, pending = agent._state.reward_arms.to_state(), agent.pending
    made = agent.decide(ARRAY)
    assert made == Abstention(Abstained(1, tuple(ARRAY), 4))
    assert (made.id, made.context, made.version) == (1, tuple(ARRAY), 4)
    assert log[-1] == made.event and agent.version == 5
    assert agent.pending == pending == 0
    with pytest.raises(UnknownId, match="No pending decision 1"):
        agent.reward(made.id, 1.0)
    after = agent._state.reward_arms.to_state()
    assert all(arms[name].tobytes() == after[name].tobytes() for name in arms)
    assert agent.decide(OTHER).id == 2  # it has used up its number, and so its draws
    batch = agent.decide_many([ARRAY, OTHER, ARRAY], details=False)
    assert [arm is None for arm in batch.chosen] == [True, False, True] and agent.pending == 2


def test_sigma_is_a_dial_that_turns_as_an_event():
    agent: Any = Agent(
        **PAPER, arms=2, features=1, policy=BehaviorConstrained(sigma=0.0, v=0.01), seed=2
    )
    assert agent.sigma == 0.0
    agent.teach_many([[1.0]] * 300, [0, 1] * 150, [False, True] * 150)
    agent.learn([[1.0]] * 300, [0, 1] * 150, [1.0, 0.0] * 150)
    agent._state.denials.clear()  # scores alone
    assert set(agent.decide_many([[1.0]] * 50).chosen) == {1}
    agent.set_sigma(1.0)
    assert (agent.sigma, agent.policy) == (1.0, BehaviorConstrained(sigma=1.0, v=0.01))
    assert set(agent.decide_many([[1.0]] * 50).chosen) == {0}
    assert agent.settings.policy.sigma == 0.0  # what it was created with


@given(
    st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)).filter(lambda r: r[0] < r[1]),
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6),
)
def test_rewards_are_mapped_from_their_range_to_the_unit_interval(ends, shares):
    low, high = ends
    values = [min(max(low + share * (high - low), low), high) for share in [*shares, 0.0, 1.0]]
    agent = Agent(**PAPER, arms=1, features=1, reward_range=ends)
    agent.learn([[1.0]] * len(values), [0] * len(values), values)
    units = [(value - low) / (high - low) for value in values]
    assert all(0.0 <= unit <= 1.0 for unit in units)
    expected = LinearArms(arms=1, features=1)
    expected.update_many([0] * len(units), [[1.0]] * len(units), units)
    assert agent._state.reward_arms.means.tobytes() == expected.means.tobytes()
    for wrong in (np.nextafter(low, -math.inf), np.nextafter(high, math.inf)):
        with pytest.raises(InvalidValue, match="rewards"):
            agent.learn([[1.0]], [0], [wrong])


def test_history_is_learned_with_the_bits_of_rewards_one_by_one():
    rng = np.random.default_rng(8)
    C, arms, values = (
        rng.standard_normal((1500, 3)),
        rng.integers(0, 3, 1500),
        rng.uniform(-2, 2, 1500),
    )
    past, lived = new(reward_range=(-2, 2)), new(reward_range=(-2, 2))
    ids = [("a", "b", 7)[k] for k in arms]
    past.learn(C[:700], ids[:700], values[:700])
    past.learn(C[700:], ids[700:], values[700:].tolist())
    for c, arm, value in zip(C, ids, values.tolist(), strict=True):
        lived.reward(lived.decide(c, [arm]).id, value)
    states = [agent._state.reward_arms.to_state() for agent in (past, lived)]
    assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[0])
    assert past.version == 3 and past.pending == 0


def test_history_has_a_limit_and_is_written_once_and_for_all(monkeypatch):
    agent, log, x, y = an_agent()
    rows = np.array([x, y], float)
    agent.learn(rows, ["a", "b"], [0.5, 1.0])
    event = log[-1]
    assert isinstance(event, Learned)
    rows[:] = 9.0
    assert event.contexts.tolist() == [list(x), list(y)]
    for array in (event.contexts, event.arm_numbers, event.rewards):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    monkeypatch.setattr("bridle.agent.commands.MAX_HISTORY", 1)
    with pytest.raises(Exception, match="limit of 1 rows of history"):
        agent.learn(rows, ["a", "b"], [0.5, 1.0])


def test_asking_without_a_context_takes_one_that_was_met():
    agent = new()
    with pytest.raises(NotPossible, match="no decision waits"):
        agent.ask()
    agent.decide_many(np.diag([1.0, 2.0, 3.0]))
    met = [agent.ask().context for _ in range(200)]
    # 200 uniform draws out of 3 miss none of them but for 3 · (2/3)^200 = 2e-35.
    assert set(met) == {(1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 3.0)}


def test_arms_can_come_later():
    agent: Any = Agent(**PAPER, arms=2, features=3)
    agent.learn([ARRAY] * 2, [0, 1], [0.5, 1.0])
    before = agent.decide(ARRAY)
    agent.add_arms(2)
    agent.add_arms([Arm("x", label="the last", group="g")])
    assert [arm.id for arm in agent.arms] == [0, 1, 2, 3, "x"]
    after = agent.decide(ARRAY)
    assert after.arms == (0, 1, 2, 3, "x") and before.arms == (0, 1)
    assert after.parts[:4, :2].tobytes() == before.parts[:4].tobytes()
    assert after.reward_mean[2:].tolist() == [0.0] * 3
    agent.teach(ARRAY, "x", True)
    assert isinstance(agent.ask(ARRAY), Question)


# -- known rules -----------------------------------------------------------------------------


def test_rules_deny_and_can_be_declared_and_withdrawn():
    minors = Rule(
        "minors", when=[When("genres", has="Horror"), When("age", at_most=17)], groups=["g"]
    )
    agent = new(features=SCHEMA, rules=[minors])
    assert agent.rules == (minors,)
    made = agent.decide(YOUNG, propensity=True)
    assert (made.arm, made.eligible.tolist()) == (7, [False, False, True])
    assert made.propensities == pytest.approx([0.0, 0.0, 1.0], abs=1e-12)
    assert made.propensity == made.propensities[2]
    assert agent.decide(OLD).eligible.all()
    agent.declare(Rule("closed", arms=[7]))
    assert isinstance(agent.decide(YOUNG), Abstention)
    agent.add_arms([Arm("late", group="g"), Arm("free")])
    assert agent.decide(YOUNG).eligible.tolist() == [False, False, False, False, True]
    agent.withdraw("minors")
    assert agent.decide(YOUNG).eligible.tolist() == [True, True, False, True, True]
    assert [rule.id for rule in agent.rules] == ["closed"]
    agent.declare(minors)
    batch = agent.decide_many([YOUNG, OLD])
    assert [d.eligible.tolist() for d in batch] == [[0, 0, 0, 0, 1], [1, 1, 0, 1, 1]]


def test_rules_have_a_limit(monkeypatch):
    monkeypatch.setattr("bridle.agent.state.MAX_RULES", 2)
    agent = new(rules=[Rule("one")])
    agent.declare(Rule("two"))
    before = bits(agent)
    with pytest.raises(Exception, match="limit of 2 rules"):
        agent.declare(Rule("three"))
    assert bits(agent) == before


def test_what_is_handed_out_is_not_the_agents_own():
    agent, twin = new(), new()
    for one in (agent, twin):
        one.teach(ARRAY, "a", True)
        made = [
            one.decide(ARRAY, propensity=True),
            *one.decide_many([ARRAY, OTHER]),
            one.decide(OTHER, ["a"]),
        ]
        if one is agent:
            for decision in made:
                decision.parts[:] = 9.0
                if decision.eligible.flags.writeable:
                    decision.eligible[:] = False
    assert bits(agent) == bits(twin)
    assert agent.decide(ARRAY).parts.tobytes() == twin.decide(ARRAY).parts.tobytes()
    assert agent.decide(ARRAY).eligible.all()


def test_the_events_of_a_day():
    """What a log looks like, from the first event on."""
    log: list[Any] = []
    agent = Agent(**PAPER, arms=["yes"], features=1, sink=log.extend)
    agent.answer(agent.ask([1.0]), True, by="teacher", at=1.0)
    agent.reward(agent.decide([1.0], at=2.0).id, 0.5, at=3.0)
    assert log[1:] == [
        Asked(1, (1.0,), "yes", 1, None),
        Taught(1, (1.0,), "yes", True, 1, "teacher", None, 1.0),
        Decided(1, (1.0,), "yes", 3, None, None, 2.0),
        Rewarded(1, 0.5, 3.0),
    ]

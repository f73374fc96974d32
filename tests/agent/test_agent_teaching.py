"""Teaching an agent: which question it asks, whole stories saved and replayed, bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridle import Abstention, Agent, Arm, Decision, Labels, LearnedMask, Question, Rule, When
from bridle.agent.events import (
    Abstained,
    Asked,
    Decided,
    Event,
    Regrouped,
    check_event,
    event_from_json,
    event_to_json,
)
from bridle.agent.teachers import Teacher
from bridle.errors import BridleError, CorruptState, InvalidValue, NotPossible, UnknownId
from bridle.limits import LinearLimits
from bridle.limits.base import Prediction
from tests.conftest import check_counts, size
from tests.histories import bits, seen

KINDS = ["auto", "rules", "logistic", "found", "linear"]
WORDS = ["Action", "Crime", "Drama", "Horror"]
FEATURES = [Labels("genres", WORDS)]
ARMS = [Arm("a", group="young"), Arm("b", group="young"), Arm("c", group="old"), Arm("d")]


def of(*genres: str) -> dict[str, Any]:
    return {"genres": list(genres)}


EVERY = [of(*genres) for n in range(5) for genres in combinations(WORDS, n)]


def allowed(context: dict[str, Any], arm: Any) -> bool:
    denied = {"a": {"Horror"}, "b": {"Horror"}, "c": {"Drama", "Crime"}, "d": set()}[str(arm)]
    return not denied & set(context["genres"])


def agent_of(**options: Any) -> Agent:
    given = {"arms": ARMS, "features": FEATURES, "limits": "rules", "seed": 7}
    if options.get("limits") == "linear":
        given["policy"] = LearnedMask()
    return Agent(**(given | options))


def value(agent: Agent, context: Any, item: Any = None) -> list[float]:
    """What an answer about each arm is worth, unit by unit, in rewards.

    Nothing where it is certain: a denial of this very context, any answer about this very item. No
    reward came yet, so every arm is expected to earn the same, and one that is safe leaves nothing
    to be gained.
    """
    state = agent._state
    limits, row = state.limits_state.limits, agent.schema.encode(context)
    unit_of = limits.unit_of
    every, rates = limits.predict_all(row[None]), state.limits_state.rates
    if rates is not None:  # what it calls safe may have exceptions
        every = rates.lower(every)
    looks = [
        Prediction(*(getattr(every, f.name)[int(u)] for f in fields(Prediction))) for u in unit_of
    ]
    heard = [e for e in agent.examples if agent.settings.remembers]
    no = {
        int(unit_of[e.arm])
        for e in heard
        if not e.allowed and (e.context == row.tobytes() if e.item is None else e.item == item)
    }
    yes = {
        int(unit_of[e.arm]) for e in heard if e.allowed and e.item is not None and e.item == item
    }
    out = []
    safe_somewhere = any(
        (int(u) in yes or look.safe[0]) and int(u) not in no and state.eligible(row, None, item)[k]
        for k, (u, look) in enumerate(zip(unit_of, looks, strict=True))
    )
    pull = state.pull
    mean = pull * float(state.reward_arms.covariances[0][-1] @ np.append(row, 1.0))
    for k, (u, look) in enumerate(zip(unit_of, looks, strict=True)):
        certain = int(u) in no | yes or not state.eligible(row, None, item)[k]
        teaches = 0.0 if certain else float(look.information[0])
        gain = 0.0
        if not certain and not look.safe[0] and not safe_somewhere:
            hope = limits.hope(look) if isinstance(limits, LinearLimits) else look.p
            gain = float(hope[0]) * mean
        price = agent.settings.answer_price
        assert price is not None
        out.append(gain + price * teaches / np.log(2.0))
    return out


# -- which question --------------------------------------------------------------------------


@pytest.mark.parametrize("teaching", ["arm", "pool"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_asks_where_an_answer_is_worth_most(kind, teaching):
    agent = agent_of(limits=kind, teaching=teaching)
    agent.declare(Rule("r", when=[When("genres", has="Crime")], arms=["d"]))
    for n in range(size(24, 6)):
        context = EVERY[n * 5 % 16]
        item = n % 3 or None
        each = value(agent, context, item)
        made = agent.ask(context, item=item)
        k = [arm.id for arm in agent.arms].index(made.arm)
        assert each[k] >= max(each) * (1 - 1e-9)
        agent.answer(made, allowed(context, made.arm))


@pytest.mark.parametrize("kind", KINDS)
def test_it_never_asks_what_is_certain_while_something_is_open(kind):
    agent = agent_of(limits=kind, teaching="arm")
    heard = set()
    units = int(agent._state.limits_state.unit_of.max()) + 1
    for _ in range(units):
        made = agent.ask(of("Drama"), item="film")
        unit = int(agent._state.limits_state.unit_of["abcd".index(str(made.arm))])
        assert unit not in heard
        heard.add(unit)
        agent.answer(made, True)
    assert len(heard) == units
    agent.ask(of("Drama"), item="film")  # nothing is open: any will do


def test_a_teacher_who_errs_is_asked_again():
    agent = agent_of(teaching="arm", teacher_error=0.1)
    made = [agent.answer(agent.ask(of("Drama")), True) for _ in range(12)]
    assert len({example.arm for example in agent.examples}) <= 4 < len(made)


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_pool_it_takes_the_context_where_an_answer_is_worth_most(kind):
    agent = agent_of(limits=kind, teaching="pool")
    for _ in range(size(12, 4)):
        best = max(max(value(agent, context)) for context in EVERY)
        made = agent.ask(pool=EVERY)
        context = of(*(word for word, x in zip(WORDS, made.context, strict=True) if x))
        k = [arm.id for arm in agent.arms].index(made.arm)
        assert value(agent, context)[k] >= best * (1 - 1e-9)
        agent.answer(made, allowed(context, made.arm))


def test_a_few_questions_of_its_own_choice_teach_all():
    """Three units of four words are twelve bits, and rules are learned exactly."""
    agent = agent_of(teaching="pool")
    for _ in range(24):
        made = agent.ask(pool=EVERY)
        context = of(*(word for word, x in zip(WORDS, made.context, strict=True) if x))
        agent.answer(made, allowed(context, made.arm))
    for context in EVERY:
        believed = agent.believed(context)
        for k, arm in enumerate(agent.arms):
            truth = allowed(context, arm.id)
            assert believed.safe[k] == truth and believed.possible[k] == truth


def test_without_a_pool_it_asks_about_what_it_met():
    agent = agent_of(teaching="pool", on_empty="least_bad")
    with pytest.raises(NotPossible, match=r"agent.ask\(pool=contexts\)"):
        agent.ask()
    met = [of("Horror"), of("Drama"), of("Drama")]
    for context in met:
        agent.decide(context)
    agent.teach(of("Drama"), "a", True)  # less is open there now
    made = agent.ask()
    assert made.context == tuple(agent.schema.encode(of("Horror")))
    for id in range(1, 4):
        agent.reward(id, 0.5)
    with pytest.raises(NotPossible, match="no decision waits for its reward"):
        agent.ask()


@pytest.mark.parametrize("teaching", ["random", "thompson", "arm"])
def test_where_it_may_not_choose_any_context_of_the_pool_will_do(teaching):
    """Each with equal probability: wrong once in a million."""
    agent = agent_of(teaching=teaching)
    pool = [of("Drama"), of("Horror"), of("Drama", "Horror"), of("Drama")]
    counts = np.zeros(3)
    rows = [tuple(agent.schema.encode(context)) for context in pool[:3]]
    for i in range(size(2000, 200)):
        counts[rows.index(agent.make.asked(pool=pool, id=str(i)).context)] += 1
    check_counts(counts, [0.5, 0.25, 0.25])


def test_ties_fall_with_equal_probability():
    """All arms and contexts are alike before the first answer: wrong once in a million."""
    agent = agent_of(teaching="pool", share="arm")
    pool = [of(word) for word in WORDS]
    counts = np.zeros((4, 4))
    for i in range(size(4000, 400)):
        made = agent.make.asked(pool=pool, id=str(i))
        counts[int(np.argmax(made.context)), "abcd".index(str(made.arm))] += 1
    check_counts(counts.ravel(), np.full(16, 1 / 16))


@pytest.mark.parametrize("teaching", ["random", "thompson", "arm", "pool"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_of_teaching_with_every_kind(kind, teaching):
    log: list[Event] = []
    agent = agent_of(limits=kind, teaching=teaching, sink=log.extend)
    one_by_one = agent_of(limits=kind, teaching=teaching)
    assert agent.ask_many(EVERY[:6]) == [one_by_one.ask(context) for context in EVERY[:6]]
    agent.answer_many([1, 3, 5], [True, False, True])
    agent.ask(pool=EVERY, id="named", at=1.0)
    agent.skip(2)
    agent.decide(of("Drama"), id="d")
    if agent.pending:
        agent.ask()
    again = Agent.replay(log)
    assert again.agrees and again.checked >= 8 and bits(again.agent) == bits(agent)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"context": of("Drama"), "pool": [of("Drama")]}, "left out where a context is given"),
        ({"pool": []}, "at least one context"),
        ({"pool": 3}, "contexts"),
        ({"pool": [of("Horor")]}, "Horror"),
        ({"context": of("Drama"), "id": "open"}, "new; a question of this id is open"),
        ({"context": of("Drama"), "id": 7}, "'id' parameter of Agent.ask"),
        ({"context": of("Drama"), "at": "now"}, "'at' parameter"),
    ],
)
def test_questions_that_are_refused_change_nothing(given, message):
    agent = agent_of()
    agent.ask(of("Drama"), id="open")
    before = bits(agent)
    with pytest.raises(BridleError, match=message):
        agent.ask(**given)
    assert bits(agent) == before


# -- whole stories ---------------------------------------------------------------------------

Step = Callable[[Agent], Any]
NO_HORROR = Rule("no horror", when=[When("genres", has="Horror")], groups=["young"])


def any_open(agent: Agent, yes: bool) -> Any:
    questions = [q for q in agent.open_questions if q.decision is not None]
    return [agent.answer(questions[0].id, yes).then] if questions else []


def settle(agent: Agent) -> Any:
    """An answer whose decision does not go on yet: a store that was interrupted."""
    questions = [q for q in agent.open_questions if q.decision is not None]
    if not questions:
        return []
    event = agent.make.answered(questions[-1].id, True)
    agent.sink([event])  # type: ignore[misc]
    agent.apply(event)
    return []


def go_on(agent: Agent) -> Any:
    waits = agent._state.questions.waiting
    ready = [id for id, one in waits.items() if one.question is None]
    return [agent.resume(id) for id in ready]


STORY: list[Step] = [
    lambda agent: [agent.teach(of("Drama"), "a", True), agent.teach(of("Drama"), "c", True)][:0],
    lambda agent: [agent.decide(of("Drama"), propensity=True)],
    lambda agent: [agent.decide(of("Horror"), id="h", propensity=True, at=1.5)],
    lambda agent: any_open(agent, False),
    lambda agent: [agent.decide(of("Crime"), ["a", "c", "d"], propensity=True)],
    lambda agent: [agent.ask(pool=EVERY), agent.ask(of("Action"), id="q")],
    lambda agent: [agent.answer("q", True, by="t", note="so").then],
    settle,
    lambda agent: agent.declare(NO_HORROR),
    lambda agent: [agent.decide(of("Horror", "Action"), propensity=True)],
    go_on,
    lambda agent: agent.add_arms([Arm("e", group="young"), Arm("f")]),
    lambda agent: [agent.skip(q.id).then for q in agent.open_questions[:1]],
    lambda agent: [*agent.decide_many([of("Drama"), of()], propensity=True)],
    lambda agent: agent.reward_many(list(agent._state.pending)[:2], [0.2, 0.9][: agent.pending]),
    lambda agent: [agent.decide(of("Action"), propensity=True)],
    lambda agent: agent.regroup({"c": "young", "d": "x", "f": "x"}, "auto", by="t"),
    lambda agent: any_open(agent, True),
    lambda agent: [agent.decide(of("Action", "Drama"), propensity=True)],
    lambda agent: agent.retract(1),
    lambda agent: agent.withdraw("no horror"),
    lambda agent: [agent.decide(of("Crime", "Horror"), propensity=n % 2 > 0) for n in range(3)],
    lambda agent: any_open(agent, False),
    lambda agent: [agent.decide(of(), ["e", "f"], ask=False, propensity=True)],
    lambda agent: [agent.teach(of("Drama"), arm.id, True, item="film") for arm in agent.arms][:0],
    lambda agent: [agent.decide(of("Drama"), item="film", propensity=True) for _ in range(2)],
    lambda agent: [agent.decide(of("Drama"), item=2), agent.ask(of("Drama"), item=2)],
    lambda agent: [*agent.decide_many([of("Drama"), of()], items=["film", None])],
]


def story_agent(kind: str, doubt: str, log: list[Event], **options: Any) -> Agent:
    return agent_of(limits=kind, budget=9, on_doubt=doubt, patience=5, sink=log.extend, **options)


def tell(agent: Agent, steps: list[Step]) -> list[Any]:
    made: list[Any] = []
    for step in steps:
        made += [one for one in step(agent) or [] if one is not None]
    return made


TEACHERS: dict[str, dict[str, Any]] = {
    "exact": {},
    "errs": {"teacher_error": 0.1, "on_empty": "least_bad"},
    "wide": {"policy": LearnedMask(v=1.0)},
}


@pytest.mark.parametrize("options", TEACHERS.values(), ids=TEACHERS)
@pytest.mark.parametrize("doubt", ["wait", "play_safe"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_log_is_replayed_through_json(kind, doubt, options):
    log: list[Event] = []
    agent = story_agent(kind, doubt, log, **options)
    tell(agent, STORY)
    kinds = {type(event).__name__ for event in log}
    assert kinds >= {"Asked", "Lapsed", "Regrouped", "Retracted", "RuleDeclared", "Decided"}
    text = [json.dumps(event_to_json(event)) for event in log]
    read = [event_from_json(json.loads(line)) for line in text]
    assert read == log
    for event in read:
        check_event(event)
    again = Agent.replay(read)
    assert again.differing == () and bits(again.agent) == bits(agent)
    choices = [event for event in log if isinstance(event, Asked | Decided | Abstained)]
    assert again.checked == len(choices)
    # Any part of the log is a log.
    for n in range(1, len(log), 7):
        assert Agent.replay(log[:n]).agrees


@pytest.mark.parametrize("doubt", ["wait", "play_safe"])
@pytest.mark.parametrize("kind", KINDS)
def test_saved_in_the_middle_it_goes_on_with_the_same_bits(kind, doubt, tmp_path):
    whole_log: list[Event] = []
    whole = story_agent(kind, doubt, whole_log)
    made = seen(tell(whole, STORY))
    log: list[Event] = []
    agent = story_agent(kind, doubt, log)
    mine: list[Any] = []
    for n, step in enumerate(STORY):
        path = tmp_path / f"{n}"
        agent.save(path)
        loaded = Agent.load(path, sink=log.extend)
        assert bits(loaded) == bits(agent), n
        assert loaded.open_questions == agent.open_questions and loaded.waiting == agent.waiting
        assert loaded.budget_left == agent.budget_left
        mine += tell(loaded, [step])
        agent = loaded
    assert seen(mine) == made and log == whole_log and bits(agent) == bits(whole)


def test_a_question_given_up_and_saved_is_not_asked_again(tmp_path):
    agent = agent_of(budget=9)
    made = agent.decide(of("Horror"), propensity=True)
    assert isinstance(made, Question)
    agent.apply(agent.make.lapsed(made))
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent")
    assert bits(loaded) == bits(agent) and list(loaded.waiting) == [made.decision]
    then = loaded.resume(1)
    assert isinstance(then, Abstention) and then.event.propensity == 1.0


@pytest.mark.parametrize("doubt", ["wait", "play_safe"])
def test_the_story_is_one_of_everything(doubt):
    """So that the tests above mean something: what they pass through is counted."""
    log: list[Event] = []
    agent = story_agent("rules", doubt, log)
    found = {"open": 0, "waiting": 0, "settled": 0, "lapsed": 0, "costs": 0}
    for step in STORY:
        step(agent)
        questions = agent._state.questions
        found["open"] = max(found["open"], len(questions.open))
        found["waiting"] = max(found["waiting"], len(questions.waiting))
        settled = [one for one in questions.waiting.values() if one.allowed]
        found["settled"] = max(found["settled"], len(settled))
        found["lapsed"] = questions.lapsed
        found["costs"] = max(found["costs"], len(agent._state.costs))
    assert found["open"] >= 2 and found["lapsed"] >= 1
    if doubt == "wait":
        assert found["waiting"] >= 2 and found["settled"] >= 1


def test_a_log_that_was_changed_is_found_out():
    log: list[Event] = []
    tell(story_agent("rules", "wait", log), STORY)
    doubts = [n for n, e in enumerate(log) if isinstance(e, Asked) and e.decision is not None]
    n = doubts[1]
    event: Any = log[n]
    others = [arm.id for arm in ARMS if arm.id != event.arm]
    changed = Agent.replay([*log[:n], replace(event, propensity=0.123), *log[n + 1 :]])
    assert event.id in changed.differing
    asked = replace(event, arm=others[0])
    assert event.id in Agent.replay([*log[:n], asked]).differing
    with pytest.raises(CorruptState, match="the question is about"):
        Agent.replay([*log[:n], asked, *log[n + 1 :]])
    k = next(n for n, e in enumerate(log) if isinstance(e, Decided) and e.propensity is not None)
    made: Any = log[k]
    assert made.id in Agent.replay([*log[:k], replace(made, propensity=0.25)]).differing


def test_events_of_the_new_kinds_are_checked():
    agent = agent_of(budget=3)
    made = agent.decide(of("Drama"))
    assert isinstance(made, Question)
    before = bits(agent)
    for bad in (
        Regrouped((("a", "x"),), "guess"),
        Regrouped((("a", ""),), "rules"),
        Regrouped((("a",),), "rules"),
        Regrouped((("z", "x"),), "rules"),
        replace(made.event, id=2, decision=2, propensity=float("nan")),
        replace(made.event, id=2, decision=2, among=["a"]),
        replace(made.event, id=2, decision=True),
        replace(made.event, id=2, decision=2, version=99),
        replace(made.event, id=2, decision=2, arm="z"),
        Decided(2, made.context, "a", 1, ask=1),
    ):
        with pytest.raises(BridleError):
            agent.apply(bad)
        assert bits(agent) == before


def test_a_damaged_file_is_refused(tmp_path):
    agent = agent_of(budget=3)
    agent.decide(of("Drama"))
    path = Path(tmp_path) / "agent"
    agent.save(path)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(bytes(raw))
    with pytest.raises(BridleError):
        Agent.load(path)


# -- bad settings ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"limits": "guess"}, "'limits' parameter of Agent must be one of 'auto'"),
        ({"limits": None}, "'limits' parameter"),
        ({"share": "all"}, "'share' parameter of Agent must be one of 'group', 'arm'"),
        ({"crosses": 3}, "'crosses' parameter"),
        ({"teacher_error": 0.0}, "'teacher_error' parameter"),
        ({"teacher_error": 0.5}, "'teacher_error' parameter"),
        ({"teacher_error": "often"}, "'teacher_error' parameter"),
        ({"teacher_error": None, "limits": "found"}, "'teacher_error' parameter"),
        ({"doubt": 0.0}, "'doubt' parameter"),
        ({"doubt": 0.5}, "'doubt' parameter"),
        ({"doubt": 0.1, "limits": "logistic"}, "'doubt' parameter"),
        ({"doubt": 0.1, "limits": "linear"}, "'doubt' parameter"),
        ({"on_empty": "guess"}, "'on_empty' parameter of Agent must be one of 'abstain'"),
        ({"on_empty": "safe_arm"}, "the id of an arm, as on_empty='safe_arm'. Got None"),
        ({"on_empty": "safe_arm", "safe_arm": "z"}, "Got 'z'"),
        ({"on_empty": "safe_arm", "safe_arm": True}, "Got True"),
        ({"safe_arm": "a"}, "left out, unless on_empty='safe_arm'"),
        ({"budget": -1}, "'budget' parameter"),
        ({"budget": 1.5}, "'budget' parameter"),
        ({"budget": True}, "'budget' parameter"),
        ({"budget": 3, "sigma": 0.5}, r"Give policy=LearnedMask\(...\)"),
        ({"on_doubt": "guess"}, "'on_doubt' parameter of Agent must be one of 'wait'"),
        ({"ask_at_most": 0}, "'ask_at_most' parameter"),
        ({"ask_at_most": 5000}, "'ask_at_most' parameter"),
        ({"patience": -1}, "'patience' parameter"),
        ({"patience": 0.5}, "'patience' parameter"),
        ({"exact_denials": None}, "'exact_denials' parameter"),
        ({"teaching": "guess"}, "'teaching' parameter of Agent must be one of 'random'"),
        ({"prior": "flat"}, "'prior' parameter of Agent must be one of 'scaled'"),
        ({"features": [Labels("g", [f"g{i}" for i in range(13)])], "limits": "found"}, "than 12"),
        ({"rules": [NO_HORROR, NO_HORROR]}, "of a new id"),
    ],
)
def test_settings_that_are_refused(wrong, message):
    with pytest.raises(InvalidValue, match=message):
        agent_of(**wrong)


@pytest.mark.parametrize("options", [{"ask": None}, {"ask": "no"}, {"propensity": 3}])
def test_flags_of_a_decision_are_true_or_false(options):
    agent = agent_of(budget=3)
    before = bits(agent)
    with pytest.raises(InvalidValue, match=f"'{next(iter(options))}' parameter of Agent.decide"):
        agent.decide(of("Drama"), **options)
    for among in (["z"], [True]):
        with pytest.raises(UnknownId, match="The agent has 4"):
            agent.decide(of("Drama"), among)
    assert bits(agent) == before


def test_an_answer_names_its_example():
    agent = agent_of(budget=3, prior="centred")  # draws so narrow that one answer is enough
    made = agent.decide(of("Horror"))
    assert isinstance(made, Question)
    answer = agent.answer(made, True)
    assert isinstance(answer.then, Decision) and answer.example is not None
    agent.retract(answer.example)
    assert not agent.examples and agent.budget_left == 2  # it was asked and answered all the same


@pytest.mark.parametrize("teachers", [(), (Teacher("editor", error=0.0),)])
def test_an_answer_may_be_for_one_item_and_end(teachers):
    log: list[Event] = []
    agent = Agent(
        arms=ARMS, features=FEATURES, limits="rules", seed=1, teachers=teachers, sink=log.extend
    )
    by = "editor" if teachers else None
    named, nameless = agent.ask(of("Horror"), item="Saw"), agent.ask(of("Drama"))
    for wrong in ({"scope": "this"}, {"until": float("nan")}):
        with pytest.raises(InvalidValue):
            agent.answer(named, True, by=by, **wrong)
    with pytest.raises(InvalidValue, match="the item has no name"):
        agent.answer(nameless, True, by=by, scope="item")
    agent.answer(named, False, by=by, scope="item", until=9.0)
    agent.answer(nameless, True, by=by)
    lives = [(example.scope, example.until) for example in agent.examples]
    assert lives == [("item", 9.0), ("all", None)]
    # Of one item alone: others that look like it are not denied.
    place = [arm.id for arm in ARMS].index(named.arm)
    assert agent.believed(of("Horror")).p[place] > 0.3
    assert not agent.believed(of("Horror"), item="Saw").playable[place]
    again = Agent.replay([event_from_json(event_to_json(event)) for event in log]).agent
    assert bits(again) == bits(agent)
    assert [example.until for example in again.examples] == [9.0, None]
    assert len(agent.end_examples(9.0)) == 1


def test_of_a_large_pool_some_are_looked_at(monkeypatch):
    monkeypatch.setattr("bridle.agent.commands.MAX_POOL", 3)
    agent = agent_of()
    asked = [agent.ask(pool=EVERY, id=f"q{n}") for n in range(30)]
    assert len({question.context for question in asked}) > 3

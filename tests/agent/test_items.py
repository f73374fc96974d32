"""What is said of an item is certain for it; and what not asking costs is accounted for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bridle import (
    Abstention,
    Agent,
    Arm,
    Decision,
    Id,
    Labels,
    LearnedMask,
    Question,
    Rule,
    Schema,
    When,
)
from bridle.agent import state as knowledge_module
from bridle.agent.events import Abstained, Asked, Decided, Event, event_from_json, event_to_json
from bridle.agent.snapshot import state_from_arrays, state_to_arrays
from bridle.errors import CorruptState, InvalidValue
from bridle.schema import Flag
from tests.histories import bits

WORDS = ["Action", "Drama", "Horror"]
FEATURES = [Labels("genres", WORDS)]
ARMS = [Arm("a", group="young"), Arm("b", group="young"), Arm("c", group="old"), Arm("d")]
DRAMA, HORROR = {"genres": ["Drama"]}, {"genres": ["Horror"]}
KINDS = ["auto", "rules", "logistic", "found", "linear"]


def agent_of(**options: Any) -> Agent:
    return Agent(**({"arms": ARMS, "features": FEATURES, "budget": 100, "seed": 2} | options))


def arms_played(agent: Agent, context: Any, **options: Any) -> set[Any]:
    """The arms that may be played here, by trying each on its own."""
    made = [agent.make.decided(context, [arm.id], ask=False, **options) for arm in agent.arms]
    return {one.arm for one in made if isinstance(one, Decision)}


# -- identity --------------------------------------------------------------------------------


def test_a_yes_holds_for_the_item_and_all_arms_of_the_unit_and_for_no_other_item():
    agent = agent_of()
    agent.teach(DRAMA, "a", True, item="film")
    assert arms_played(agent, DRAMA, item="film") == {"a", "b"}
    assert arms_played(agent, HORROR, item="film") == {"a", "b"}  # whatever it is described as
    assert arms_played(agent, DRAMA, item="other") == arms_played(agent, DRAMA) == set()


def test_a_no_of_an_item_holds_for_it_and_is_evidence_for_others():
    agent = agent_of(limits="linear", policy=None, sigma=1.0, budget=0)
    agent.teach(DRAMA, "a", False, item=7)
    assert arms_played(agent, DRAMA, item=7) == {"b", "c", "d"}  # each arm is a unit here
    assert arms_played(agent, DRAMA, item="7") == {"a", "b", "c", "d"}  # a number is no string
    assert arms_played(agent, DRAMA) == {"a", "b", "c", "d"}


def test_without_an_item_a_yes_is_certain_for_its_own_decision_only():
    agent = agent_of()
    made = agent.decide(DRAMA, among=["a", "b"])
    assert isinstance(made, Question)
    then = agent.answer(made, True).then
    assert isinstance(then, Decision) and then.arm in ("a", "b")
    assert arms_played(agent, DRAMA) == set()
    agent.teach(DRAMA, "a", True)
    assert not agent._state.allowed_here(agent.schema.encode(DRAMA))


def test_without_an_item_a_no_binds_this_very_context_and_the_unit():
    agent = agent_of(policy=None, limits="linear", sigma=1.0, budget=0)
    agent.teach(DRAMA, "a", False)
    for item in (None, "film"):
        assert "a" not in arms_played(agent, DRAMA, item=item)
    assert "a" in arms_played(agent, HORROR)
    grouped = agent_of(limits="rules", sigma=1.0, budget=0)
    grouped.teach(DRAMA, "a", False)
    assert arms_played(grouped, DRAMA) == {"c", "d"}


def test_what_was_denied_of_an_item_is_not_played_even_as_the_safe_arm():
    agent = agent_of(on_empty="safe_arm", safe_arm="d")
    agent.teach(DRAMA, "d", False, item="film")
    assert isinstance(agent.decide(DRAMA, item="film", ask=False), Abstention)
    (many,) = agent.decide_many([DRAMA], items=["film"])
    assert isinstance(many, Abstention)
    other = agent.decide(DRAMA, item="other", ask=False)
    assert isinstance(other, Decision) and other.arm == "d"


def test_equal_contexts_with_other_answers_are_no_contradiction():
    agent = agent_of()
    for n in range(12):
        agent.teach(DRAMA, "c", n % 3 > 0, item=n)
    believed = agent._state.limits_state.seen(agent.schema.encode(DRAMA).tobytes())
    assert 0.3 < believed.p[2] < 0.95
    for n in range(12):
        assert ("c" in arms_played(agent, DRAMA, item=n)) == (n % 3 > 0)


def test_a_retraction_takes_back_what_was_certain():
    agent = agent_of()
    example = agent.teach(DRAMA, "a", True, item="film")
    denial = agent.teach(DRAMA, "c", False, item="film")
    agent.retract(example)
    agent.retract(denial)
    assert arms_played(agent, DRAMA, item="film") == set()
    assert not agent._state.denials and not agent._state.allowances


def test_a_teacher_who_errs_makes_no_item_certain():
    agent = agent_of(teacher_error=0.1, answer_price=0.0)
    agent.teach(DRAMA, "a", True, item="film")
    agent.teach(DRAMA, "c", False, item="film")
    assert arms_played(agent, DRAMA, item="film") == set()
    made = agent.make.decided(DRAMA, item="film", among=["c"])
    assert isinstance(made, Question)


# -- how an item is named ----------------------------------------------------------------------


def test_an_id_of_the_schema_is_the_item():
    agent = agent_of(features=[Id("title"), *FEATURES])
    film = {"title": "Alien", "genres": ["Horror"]}
    agent.teach(film, "a", True)
    assert agent.examples[0].item == "Alien" and agent.schema.width == 3
    assert arms_played(agent, film) == {"a", "b"}
    assert arms_played(agent, HORROR, item="Alien") == {"a", "b"}
    assert arms_played(agent, HORROR) == set()  # a context may leave it out
    agent.decide(film, item="Alien", ask=False)
    with pytest.raises(InvalidValue, match="'Alien', as the context says, or left out"):
        agent.decide(film, item="Aliens")
    assert agent.ask(pool=[film, {**film, "title": 3}]).event.item in ("Alien", 3)
    batch = agent.decide_many([film, HORROR, {**film, "title": 3}])
    assert batch.items == ["Alien", None, 3]
    assert [one.event.item for one in batch] == ["Alien", None, 3]
    agent.teach_many([film, HORROR], ["c", "c"], [True, False])
    assert [e.item for e in agent.examples] == ["Alien", "Alien", None]
    with pytest.raises(InvalidValue):
        agent.declare(Rule("r", when=[When("title", equals="Alien")]))


def test_a_schema_has_one_id_and_it_has_no_column():
    with pytest.raises(InvalidValue, match="at most one Id"):
        Schema([Id("a"), Id("b"), Flag("x")])
    with pytest.raises(InvalidValue):
        Schema([Id("a"), Flag("a")])
    schema = Schema([Flag("x"), Id("a")])
    assert schema.columns == ("x",) and Schema.from_json(schema.to_json()) == schema
    assert schema.decode(schema.encode({"a": 3, "x": True})) == {"x": True}


@pytest.mark.parametrize("bad", [True, 1.5, "", "x" * 300, b"a", ["a"], 2**60])
def test_names_that_are_none_are_refused(bad):
    agent = agent_of(features=[Id("title"), *FEATURES])
    before = bits(agent)
    for verb in (
        lambda: agent.decide(DRAMA, item=bad),
        lambda: agent.teach(DRAMA, "a", True, item=bad),
        lambda: agent.ask(DRAMA, item=bad),
        lambda: agent.shadow(DRAMA, "a", item=bad),
        lambda: agent.decide_many([DRAMA], items=[bad]),
        lambda: agent.decide({"title": bad, **DRAMA}),
        lambda: agent.decide_many([DRAMA], items=["x", "y"]),
        lambda: agent.ask(item="film"),
    ):
        with pytest.raises(InvalidValue):
            verb()
    assert bits(agent) == before


@pytest.mark.parametrize("kind", KINDS)
def test_items_in_a_batch_are_those_of_one_by_one(kind):
    agent = agent_of(limits=kind, budget=0, sigma=0.5)
    masked = agent_of(limits=kind, on_empty="least_bad", policy=LearnedMask())
    items = ["x", None, "y", 3]
    for one in (agent, masked):
        one.teach_many([DRAMA] * 4, ["a", "c", "d", "a"], [True, False, True, False], items=items)
        many = one.make.decided_many([DRAMA] * 4, ids=list("pqrs"), items=items, propensity=True)
        for item, id, batch in zip(items, "pqrs", many, strict=True):
            single = one.make.decided(DRAMA, id=id, item=item, propensity=True, ask=False)
            # A coin also depends on the plays before it: tests/agent/test_spot_checks.py.
            plain = {"version": 0} | ({} if one is agent else {"coin": None, "checked": False})
            assert replace(single.event, **plain) == replace(batch.event, **plain)
            assert single.event.item == item
        for text, event in zip(many.texts(), many.events(), strict=True):
            assert event_from_json(json.loads(text)) == event


# -- what not asking costs -----------------------------------------------------------------------


def costing(price: float = 50.0, **options: Any) -> tuple[Agent, list[Event]]:
    """An agent that knows c to be safe and gives up d, which is far better, at each decision."""
    log: list[Event] = []
    agent = agent_of(answer_price=price, sink=log.extend, limits="rules", **options)
    for _ in range(2):
        agent.teach(DRAMA, "c", True)
    agent.learn([DRAMA] * 8, ["c"] * 4 + ["d"] * 4, [0.1] * 4 + [0.9] * 4)
    return agent, log


def test_costs_stand_in_the_log_and_are_folded():
    agent, log = costing()
    worths = []
    for _ in range(3):
        made = agent.decide(DRAMA, ["c", "d"], item="film")
        assert isinstance(made, Decision) and made.arm == "c"
        assert made.event.wanted == "d" and made.event.worth is not None
        worths.append(made.event.worth)
    agent.decide(DRAMA, ["d"])  # nothing to play: it costs all that d could earn
    event = log[-1]
    assert isinstance(event, Abstained) and event.worth is not None and event.worth > worths[0]
    unit = int(agent._state.limits_state.unit_of[3])
    here = agent.schema.encode(DRAMA).tobytes()
    assert agent._state.costs["film"] == {unit: sum(worths)}
    assert agent._state.costs[here] == {unit: event.worth}
    read = [event_from_json(event_to_json(one)) for one in log]
    again = Agent.replay(read)
    assert again.agrees and bits(again.agent) == bits(agent)
    quiet = agent.decide(DRAMA, ["c", "d"], item="film", ask=False)
    assert not isinstance(quiet, Question)
    assert quiet.event.wanted is None and quiet.event.worth is None


def test_an_answer_a_question_and_new_groups_close_the_account():
    for close in (
        lambda agent: agent.teach(DRAMA, "d", False, item="film"),
        lambda agent: agent.teach(DRAMA, "d", True, item="film"),
        lambda agent: agent.regroup({"d": "old"}),
        lambda agent: agent.apply(
            Asked(1, tuple(agent.schema.encode(DRAMA).tolist()), "d", 1, decision=9, item="film")
        ),
    ):
        agent, _ = costing()
        for n in range(8):
            agent.decide(DRAMA, ["c", "d"], item="film" if n < 4 else "kept")
        assert set(agent._state.costs) == {"film", "kept"}
        close(agent)
        assert "film" not in agent._state.costs
        agent.teach(DRAMA, "c", True, item="kept")  # of another unit
        assert ("kept" in agent._state.costs) == (agent.arms[3].group is None)


def test_accounts_are_bounded_and_the_oldest_give_way(monkeypatch):
    monkeypatch.setattr(knowledge_module, "MAX_COSTS", 3)
    agent, _ = costing()
    for n in range(5):
        agent.decide(DRAMA, ["c", "d"], item=n)
    assert list(agent._state.costs) == [2, 3, 4]


def test_once_not_asking_has_cost_as_much_as_an_answer_it_asks():
    agent, _ = costing()
    lost = 0.0
    for _ in range(100):
        made = agent.decide(DRAMA, ["c", "d"], item="film")
        if isinstance(made, Question):
            break
        assert made.event.worth is not None
        lost += made.event.worth
    assert isinstance(made, Question) and made.arm == "d" and made.event.item == "film"
    seen = agent._state.limits_state.seen(agent.schema.encode(DRAMA).tobytes())
    due = 50.0 * (1.0 - seen.information[3] / np.log(2.0))
    assert lost < due <= lost + 0.9 and not agent._state.costs
    other = agent.decide(DRAMA, ["c", "d"], item="other")
    assert isinstance(other, Decision)  # each item has an account of its own


@pytest.mark.parametrize("kind", KINDS)
def test_a_free_answer_is_asked_for_at_once_and_a_dear_one_never(kind):
    free, dear = (
        agent_of(limits=kind, answer_price=price, policy=LearnedMask()) for price in (0.0, 1e6)
    )
    assert isinstance(free.decide(DRAMA), Question)
    assert all(isinstance(dear.decide(DRAMA, item="x"), Abstention) for _ in range(30))
    assert dear._state.costs["x"] and dear.budget_left == 100


def test_at_most_three_questions_a_decision():
    agent = agent_of(answer_price=0.0, share="arm")
    made: Any = agent.decide(DRAMA)
    asked = 0
    while isinstance(made, Question):
        asked += 1
        made = agent.answer(made, False).then
    assert asked == 3 and isinstance(made, Abstention)


def test_playing_safe_files_a_question_once_while_it_is_open():
    agent, log = costing(price=0.0, on_doubt="play_safe")
    first = agent.decide(DRAMA, ["c", "d"], item="film")
    assert isinstance(first, Decision) and first.arm == "c" and first.question is not None
    again = agent.decide(DRAMA, ["c", "d"], item="film")
    assert isinstance(again, Decision) and again.question is None
    assert again.event.wanted is None  # no more is owed while it is asked about
    other = agent.decide(DRAMA, ["c", "d"], item="other")
    assert isinstance(other, Decision) and other.question is not None  # of another item it is
    agent.answer(first.question, True)
    then = agent.decide(DRAMA, ["c", "d"], item="film")
    assert isinstance(then, Decision) and then.arm == "d" and then.question is None
    assert Agent.replay(log).agrees


@pytest.mark.parametrize(
    "bad",
    [
        {"wanted": "d"},
        {"worth": 0.5},
        {"wanted": "d", "worth": 0.5},
        {"wanted": "nobody", "worth": 0.5, "lesson": 0.1},
        {"wanted": "d", "worth": 0.0, "lesson": 0.0},
        {"wanted": "d", "worth": -1.0, "lesson": 0.0},
        {"wanted": "d", "worth": 0.1, "lesson": 0.2},
        {"wanted": "d", "worth": 0.1, "lesson": -0.1},
    ],
    ids=str,
)
def test_costs_that_cannot_be_are_refused(bad):
    agent, _ = costing()
    row = tuple(agent.schema.encode(DRAMA).tolist())
    before = bits(agent)
    for event in (Decided(1, row, "c", 1, **bad), Abstained(1, row, 1, **bad)):
        with pytest.raises((InvalidValue, LookupError, ValueError)):
            agent.apply(event)
    assert bits(agent) == before


def test_a_decision_goes_on_with_the_item_that_it_asked_about():
    agent = agent_of(answer_price=0.0)
    made = agent.decide(DRAMA, item="film")
    assert isinstance(made, Question)
    agent.apply(agent.make.answered(made, True))
    before = bits(agent)
    with pytest.raises(InvalidValue, match="'film', of which the decision asked"):
        agent.apply(Decided(1, made.context, "a", 1, item="other"))
    assert bits(agent) == before


# -- files and logs ----------------------------------------------------------------------------


def midway() -> tuple[Agent, list[Event]]:
    agent, log = costing()
    for item in ("film", None, 3):
        agent.decide(DRAMA, ["c", "d"], item=item)
    agent.ask(HORROR, item="asked")
    return agent, log


def test_a_file_written_in_the_middle_of_a_question_goes_on_with_the_same_bits(tmp_path):
    whole, parts = (agent_of(answer_price=0.0, share="arm") for _ in range(2))
    for agent in (whole, parts):
        agent.teach(DRAMA, "a", True, item="film")
    costs, _ = midway()
    costs.save(tmp_path / "costs")
    back = Agent.load(tmp_path / "costs")
    assert bits(back) == bits(costs) and set(back._state.costs) >= {"film", 3}
    one, two = (agent.decide(HORROR, id="x", item="new") for agent in (whole, parts))
    assert isinstance(one, Question) and isinstance(two, Question)
    for n, answer in enumerate((True, None)):
        parts.save(tmp_path / str(n))
        parts = Agent.load(tmp_path / str(n))
        assert bits(parts) == bits(whole)
        if answer:
            for agent in (whole, parts):
                agent.apply(agent.make.answered(1, True))
            assert parts._state.questions.waiting["x"].allowed
    assert parts.resume("x").event == whole.resume("x").event and bits(parts) == bits(whole)


def test_a_file_whose_items_or_costs_are_damaged_is_refused():
    agent, _ = midway()
    meta, arrays = state_to_arrays(agent._state)
    costs: Any = meta["costs"]
    questions: Any = meta["questions"]
    examples: Any = meta["examples"]
    assert state_from_arrays(meta, arrays).costs == agent._state.costs
    (case, ((unit, cost),)) = costs[0]
    damages: list[dict[str, Any]] = [
        {"costs": [[case, [[99, cost]]]]},
        {"costs": [[case, [[unit, -1.0]]]]},
        {"costs": [[case, [[unit, float("inf")]]]]},
        {"costs": [[[1.0], [[unit, cost]]]]},
        {"costs": [[True, [[unit, cost]]]]},
        {"costs": 3},
        {"costs": [[case]]},
        {"questions": [one[:-1] for one in questions]},
        {"questions": [[*one[:-1], 1.5] for one in questions]},
        {"examples": [one[:-1] for one in examples]},
        {"examples": [[*one, None] for one in examples]},
    ]
    for damage in damages:
        with pytest.raises(CorruptState):
            state_from_arrays({**meta, **damage}, arrays)
    with pytest.raises(CorruptState):
        state_from_arrays({k: v for k, v in meta.items() if k != "costs"}, arrays)


@pytest.mark.parametrize("doubt", ["wait", "play_safe"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_log_with_items_is_replayed_in_bits(kind, doubt):
    log: list[Event] = []
    agent = agent_of(limits=kind, on_doubt=doubt, sink=log.extend, policy=LearnedMask(v=0.3))
    rng = np.random.default_rng(1)
    for n in range(25):
        context = {"genres": [w for w in WORDS if rng.random() < 0.5]}
        item = [None, "x", "y", 4][n % 4]
        made: Any = agent.decide(context, item=item, propensity=n % 2 > 0)
        while isinstance(made, Question):
            made = agent.answer(made, bool(rng.random() < 0.6)).then
        if made.question is not None and n % 3 > 0:
            agent.answer(made.question, True)
        if isinstance(made, Decision):
            agent.reward(made.id, float(rng.random()))
    read = [event_from_json(event_to_json(event)) for event in log]
    assert read == log
    again = Agent.replay(read)
    assert again.differing == () and bits(again.agent) == bits(agent)


def test_a_contradiction_about_one_item_stays_with_that_item():
    agent = Agent(arms=ARMS_OF_TWO, features=FLAGS, seed=1)
    for n in range(30):
        agent.teach({"horror": False, "drama": n % 2 == 0}, "a", True, item=f"film {n}")
    agent.teach({"horror": False, "drama": True}, "a", True, item="odd")
    before = agent.believed({"horror": False, "drama": True}).p.tolist()
    retracted = agent.teach({"horror": False, "drama": True}, "a", False, item="odd", by="other")
    assert agent.believed({"horror": False, "drama": True}).p.tolist() == before
    odd = agent.believed({"horror": False, "drama": True}, item="odd")
    assert odd.p[0] == 0.0 and not odd.safe[0]
    agent.retract(retracted)
    assert agent.believed({"horror": False, "drama": True}, item="odd").p[0] == 1.0
    # What is said twice of the same item is one piece of evidence.
    agent.teach({"horror": False, "drama": True}, "a", True, item="odd")
    assert agent.believed({"horror": False, "drama": True}).p.tolist() == pytest.approx(before)


def test_the_first_answer_that_stands_is_the_evidence():
    context = {"horror": True, "drama": False}
    one = Agent(arms=ARMS_OF_TWO, features=FLAGS, seed=1)
    first = one.teach(context, "a", True, item="film", id="first")
    one.teach(context, "a", False, item="film", id="second", by="other")
    one.retract(first)
    two = Agent(arms=ARMS_OF_TWO, features=FLAGS, seed=1)
    two.teach(context, "a", False, item="film", id="second")
    assert one.believed(context).p.tolist() == two.believed(context).p.tolist()


ARMS_OF_TWO = [Arm("a", group="x"), Arm("b", group="y")]
FLAGS = Schema([Flag("horror"), Flag("drama")])


def test_an_open_question_is_answered_as_it_is_listed():
    agent = Agent(arms=ARMS_OF_TWO, features=FLAGS, budget=9, on_doubt="play_safe", seed=1)
    agent.decide({"horror": False, "drama": True}, item="film")
    (question,) = agent.open_questions
    agent.answer(question, True)
    assert not agent.open_questions and agent.examples[0].item == "film"
    agent.decide({"horror": True, "drama": True}, item="other")
    agent.skip(agent.open_questions[0])
    assert not agent.open_questions


def test_a_group_to_which_nothing_was_allowed_is_said_to_be_one():
    agent = Agent(arms=ARMS_OF_TWO, features=FLAGS, seed=1)
    for n in range(12):
        agent.teach({"horror": n % 2 == 0, "drama": n % 3 == 0}, "a", False, item=n)
    assert agent.describe()[0] == "x: nothing was allowed so far"


def test_names_are_found_in_arrays_of_objects_too():
    agent = Agent(arms=["a"], features=Schema([Id("title"), Flag("f")]), seed=1)
    for n in range(60):
        agent.teach({"title": n, "f": False}, "a", True)
    named = np.array([{"title": "bad", "f": False}], dtype=object)
    agent.teach_many(named, ["a"], [False])
    assert agent.examples[-1].item == "bad"
    assert agent.decide_many(named).chosen == [None]
    assert agent.decide(np.array({"title": "bad", "f": False}, dtype=object)).event.item == "bad"
    with pytest.raises(InvalidValue, match="item"):
        agent.decide_many(named, items=["another"])
    with pytest.raises(InvalidValue, match="item"):
        agent.decide({"title": 1, "f": True}, item=np.array([1, 2]))  # type: ignore[call-overload]


def test_an_answer_is_about_what_was_asked():
    agent = Agent(arms=ARMS_OF_TWO, features=FLAGS, budget=9, answer_price=0.0, seed=1)
    question = agent.decide({"horror": False, "drama": True}, item="film")
    assert isinstance(question, Question)
    answer = agent.make.answered(question, True)
    before = bits(agent)
    other = "b" if answer.arm == "a" else "a"
    for wrong in ({"item": "other"}, {"context": (0.0, 0.0)}, {"arm": other}):
        with pytest.raises(InvalidValue, match="the question is about"):
            agent.apply(replace(answer, **wrong))
    assert bits(agent) == before
    agent.apply(answer)

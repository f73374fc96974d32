"""Several teachers inside an agent: words, what they settle, whom to ask."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bridle import Agent, Arm, Decision, Question, Tables
from bridle.agent.events import Event, Judged, StartedAnew, Taught, event_from_json, event_to_json
from bridle.agent.snapshot import state_from_arrays, state_to_arrays
from bridle.agent.teachers import Teacher
from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.limits import make_limits
from bridle.simulate import Asking, online_asking
from bridle_studies.environments import synthetic_movies
from tests.conftest import size
from tests.histories import bits

GOOD, CHEAP = Teacher("parent", price=0.35), Teacher("model", price=0.02)
X, Y = [1.0, 0.0], [0.0, 1.0]


def agent_of(*teachers: Teacher, **given: Any) -> tuple[Agent, list[Event]]:
    log: list[Event] = []
    given = {"arms": ["a", "b"], "features": 2, "seed": 1, "budget": 100, **given}
    return Agent(teachers=list(teachers) or [GOOD, CHEAP], sink=log.extend, **given), log


def state_of(agent: Agent) -> tuple[str, dict[str, bytes]]:
    meta, arrays = state_to_arrays(agent._state)
    return json.dumps(meta), {name: array.tobytes() for name, array in arrays.items()}


def told() -> list[Teacher]:
    """Two whose rates are told: the one's word settles a case, the other's does not."""
    return [Teacher("parent", error=0.001), Teacher("model", price=0.02, error=0.2)]


# -- words ---------------------------------------------------------------------------------------


def test_a_word_that_settles_nothing_teaches_nothing():
    agent, log = agent_of(*told())
    limits = agent.limits.to_state()
    assert agent.teach(X, "a", True, item="Up", by="model") is None
    assert [type(event) for event in log[1:]] == [Judged]
    assert not agent.examples
    assert all((limits[n] == a).all() for n, a in agent.limits.to_state().items())
    assert agent.teachers.said("Up", 0) == {"model": True}
    example = agent.teach(X, "a", True, item="Up", by="parent")
    assert [type(event) for event in log[2:]] == [Judged, Taught]
    (one,) = agent.examples
    assert (one.id, one.by, one.allowed, one.item) == (example, "parent, model", True, "Up")


def test_who_is_not_declared_is_taken_at_their_word():
    agent, log = agent_of(*told())
    agent.teach(X, "a", True, item="Up", by="model")
    assert agent.teach(X, "a", False, item="Up", by="Ann") == 1
    assert agent.teach(X, "b", False, item="Up") == 2
    assert [type(event) for event in log[2:]] == [Taught, Taught]
    # Nobody need look at it any more.
    assert agent.teachers.open == ()


def test_a_question_goes_on_until_it_is_settled():
    agent, _ = agent_of(*told(), answer_price=0.0)
    made = agent.decide(X, item="Up")
    assert isinstance(made, Question)
    left = agent.budget_left
    answer = agent.answer(made, True, by="model")
    assert answer.example is None and answer.then is made
    assert agent.waiting == (made.decision,) and agent.budget_left == left
    with pytest.raises(NotPossible, match=r"model has said so already.*agent\.whom"):
        agent.answer(made, True, by="model")
    again = agent.answer(made.id, False, by="model").then  # on second thoughts
    assert isinstance(again, Question) and again.id == made.id and again.arm == made.arm
    assert again.decision == made.decision
    then = agent.answer(made, True, by="parent")
    assert then.example == 1 and isinstance(then.then, Decision | Question)
    assert then.then.id != made.id or isinstance(then.then, Decision)


def test_a_question_of_the_agent_s_own_stays_open():
    agent, _ = agent_of(*told())
    question = agent.ask(X, item="Up")
    assert agent.answer(question, True, by="model").then is question
    assert len(agent.open_questions) == 1
    assert agent.answer(question, True, by="parent").then is None
    assert not agent.open_questions


def test_whom_to_ask():
    agent, _ = agent_of(answer_price=0.35)
    question = agent.ask(X, item="Up")
    first = agent.whom(question)
    assert first is not None and first.teacher == "model" and first.explores
    assert agent.open_questions[0].to == "model"
    agent.answer(question, True, by="model")
    then = agent.whom(question.id)
    assert then is not None and then.teacher == "parent"
    assert agent.whom(question, among=["model"]) is None
    cheap, _ = agent_of(*told(), answer_price=0.01)  # nobody is worth that
    asked = cheap.ask(X)
    assert cheap.whom(asked) is None and cheap.open_questions[0].to is None
    plain = Agent(arms=2, features=2)
    with pytest.raises(NotPossible, match="No teachers are declared"):
        plain.whom(plain.ask(X))
    assert plain.teachers.rates() == {} and plain.open_questions[0].to is None


def test_one_who_is_declared_alone_is_taken_at_their_word():
    agent, _ = agent_of(Teacher("parent"))
    assert agent.teach(X, "a", False, by="parent") == 1
    assert "nobody to compare with" in agent.teachers.sentences()[0]


def test_a_case_that_is_settled_later_is_taught_then():
    agent, log = agent_of(Teacher("model"), Teacher("other"))
    agent.teach(X, "a", False, item="late", by="model", scope="item", until=9.0)
    assert agent.examples == ()
    for n in range(150):  # they always agree
        for by in ("model", "other"):
            agent.teach(Y, "b", n % 2 == 0, item=n, by=by)
    late = [e for e in log if isinstance(e, Taught) and e.item == "late"]
    assert len(late) == 1
    assert (late[0].by, late[0].scope, late[0].until, late[0].allowed) == (
        "model",
        "item",
        9.0,
        False,
    )
    assert agent.teachers.settled("late", 0) is False


def test_a_later_verdict_replaces_the_earlier():
    agent, _ = agent_of(*told())
    agent.teach(X, "a", True, item="Up", by="parent")
    agent.teach(X, "a", False, item="Up", by="parent")
    (one,) = agent.examples
    assert not one.allowed and one.by == "parent"


def test_what_is_retracted_can_be_judged_anew():
    agent, _ = agent_of(*told())
    example = agent.teach(X, "a", True, item="Up", by="parent")
    assert example is not None
    agent.retract(example)
    assert agent.examples == () and agent.teachers.said("Up", 0) == {}
    assert agent.teach(X, "a", False, item="Up", by="parent") == 2


def test_what_has_no_name_is_another_thing_when_it_is_asked_about_again():
    agent, _ = agent_of(*told())
    agent.answer(agent.ask(X), True, by="model")
    assert len(agent.teachers) == 1
    agent.ask(X)  # the same arm: it knows nothing yet
    agent.ask(X)
    asked = {question.arm for question in agent.open_questions}
    assert len(agent.teachers) == 0 or len(asked) > 1
    agent.start_anew("the law has changed")
    assert len(agent.teachers) == 0 and agent._state.judged == {}


# -- checks and promises -------------------------------------------------------------------------


def test_an_unsettled_word_does_not_answer_a_check():
    agent, log = agent_of(*told(), limits="rules", promise=(0.05, 1.0))
    for n in range(3):
        agent.teach(X, "a", True, item=f"known {n}")
    made = agent.decide(X, item="Up")
    assert isinstance(made, Decision) and made.check is not None
    purse = agent.promised
    assert purse is not None
    chosen = agent.whom(made.check)
    assert chosen is not None and chosen.teacher == "parent"
    assert agent.judge(made.check, False, by="model") is None
    assert [one.id for one in agent.open_checks] == [made.id]
    waiting = agent.promised
    assert waiting is not None and waiting.to_state() == purse.to_state()
    # The parent denies what limits and model think of: it is less sure, and settled all the same.
    assert agent.judge(made.check, False, by="parent") is not None
    assert agent.open_checks == ()
    assert isinstance(log[-1], Taught) and log[-1].check == made.id


def test_a_check_is_answered_once_its_case_is_settled():
    agent, log = agent_of(*told(), limits="rules", promise=(0.05, 1.0))
    for n in range(3):
        agent.teach(X, "a", True, item=f"known {n}")
    made = agent.decide(X, item="Up")
    assert isinstance(made, Decision) and made.check is not None
    agent.judge(made.check, False, by="model")
    agent.teach(X, "a", True, item="Up", by="parent")
    assert agent.open_checks == ()
    assert [e.check for e in log if isinstance(e, Taught)][-2:] == [None, made.id]


def test_a_denied_check_of_what_was_allowed_begins_anew():
    agent, log = agent_of(*told(), limits="rules", promise=(0.05, 1.0))
    for n in range(3):
        agent.teach(X, "a", True, item=n, by="parent")
    made = agent.decide(X, item=0)
    while isinstance(made, Decision) and made.check is None:
        made = agent.decide(X, item=0)
    assert isinstance(made, Decision) and made.check is not None
    agent.judge(made.check, False, by="parent")
    assert [type(event) for event in log[-3:]] == [Judged, Taught, StartedAnew]
    assert len(agent.teachers) == 0
    assert [(e.item, e.allowed) for e in agent.examples] == [(0, False)]


# -- the fold ------------------------------------------------------------------------------------


def lived() -> tuple[Agent, list[Event]]:
    agent, log = agent_of(Teacher("parent", price=0.05), CHEAP, answer_price=0.05)
    rng = np.random.default_rng(2)
    for n in range(size(60, 15)):
        item = n % 25 if n % 3 else None
        made: Any = agent.decide(X if n % 2 else Y, item=item)
        while isinstance(made, Question):
            chosen = agent.whom(made)
            if chosen is None:
                made = agent.skip(made).then
                continue
            wrong = chosen.teacher == "model" and rng.random() < 0.2
            made = agent.answer(made, (made.arm == "a") != wrong, by=chosen.teacher).then
        if isinstance(made, Decision):
            agent.reward(made.id, 0.5)
            if made.check is not None:
                agent.judge(made.check, made.arm == "a", by="parent")
    agent.teach(X, "a", True, item="open", by="model", until=5.0)
    return agent, log


def test_a_log_replays_and_a_state_goes_on(tmp_path):
    agent, log = lived()
    assert sum(isinstance(event, Judged) for event in log) > 5
    disk = [event_from_json(json.loads(json.dumps(event_to_json(event)))) for event in log]
    again = Agent.replay(disk)
    assert again.agrees and state_of(again.agent) == state_of(agent)
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent")
    assert state_of(loaded) == state_of(agent)
    for one in (agent, loaded):
        one.teach(X, "a", False, item="open", by="parent")
        one.teach(Y, "b", False, item="more", by="model")
    assert state_of(loaded) == state_of(agent)
    assert loaded.teachers.rates() == agent.teachers.rates()


def test_what_is_made_changes_nothing():
    agent, _ = lived()
    before = state_of(agent)
    heard = agent.make.examples_by([X], ["a"], [True], items=["open"], by="parent")
    assert len(heard.events) >= 2 and state_of(agent) == before
    for event in heard.events:
        agent.apply(event)
    twin, _ = lived()
    assert [twin.teach(X, "a", True, item="open", by="parent")] == heard.examples
    assert state_of(agent) == state_of(twin)


def test_a_damaged_state_is_refused():
    agent, _ = lived()
    meta, arrays = state_to_arrays(agent._state)
    judged: Any = meta["judged"]
    assert len(judged) > 1
    first = judged[0]
    for wrong in (
        judged[1:],
        [*judged, first],
        [[99, *first[1:]], *judged[1:]],
        [[first[0], [1.0], *first[2:]], *judged[1:]],
        [[*first[:2], "nobody", *first[3:]], *judged[1:]],
        [[*first[:3], "most", *first[4:]], *judged[1:]],
        [[*first[:5], [0.5]], *judged[1:]],
        None,
    ):
        with pytest.raises(CorruptState):
            state_from_arrays({**meta, "judged": wrong}, arrays)
    for name in [name for name in arrays if name.startswith("teachers.")]:
        with pytest.raises(CorruptState):
            state_from_arrays(meta, {n: a for n, a in arrays.items() if n != name})
    plain = Agent(arms=["a", "b"], features=2)
    other, few = state_to_arrays(plain._state)
    with pytest.raises(CorruptState, match="Nobody is declared"):
        state_from_arrays({**other, "judged": [first]}, few)


def test_bad_values_are_refused():
    agent, _ = agent_of()
    before = state_of(agent)
    with pytest.raises(InvalidValue, match="declared teacher"):
        agent.apply(Judged((1.0, 0.0), "a", True, "nobody", 0.5))
    with pytest.raises(NotPossible, match="examples_by"):
        agent.make.taught(X, "a", True, by="parent")
    with pytest.raises(NotPossible, match="answers_by"):
        agent.make.answered_many([], [], by="parent")
    with pytest.raises(InvalidValue, match="declared teacher"):
        agent.make.examples_by([X], ["a"], [True], by="Ann")
    with pytest.raises(InvalidValue, match="scope"):
        agent.teach(X, "a", True, by="parent", scope="item")
    assert state_of(agent) == before
    wrong: Any
    for wrong in (["parent"], [GOOD, GOOD], [Teacher("a, b")], "parent"):
        with pytest.raises(InvalidValue, match="teachers"):
            Agent(arms=2, features=1, teachers=wrong)


# -- against the simulator -----------------------------------------------------------------------


def live(
    agent: Agent, tables: Tables, run: Asking, seed: int, named: bool, staff: Any
) -> list[int]:
    """Put an agent through the steps of a run, with teachers who say the same."""
    from bridle.simulate import _staff

    voices = _staff(staff, seed, "test")
    assert voices is not None
    number = {arm.id: k for k, arm in enumerate(agent.arms)}
    _, kind = np.unique(tables.contexts, axis=0, return_inverse=True)
    played = []
    for row in run.rows.tolist():
        item = row if named else int(kind.ravel()[row])

        def word(who: str, arm: Any, row: int = row, item: int = item) -> bool:
            k = number[arm]
            unit = int(agent._state.limits_state.unit_of[k])
            return voices.word(int(who), item, unit, bool(tables.allowed[row, k]))

        made: Any = agent.decide(tables.contexts[row], item=row if named else None)
        while isinstance(made, Question):
            chosen = agent.whom(made)
            if chosen is None:
                made = agent.skip(made).then
            else:
                said = word(chosen.teacher, made.arm)
                made = agent.answer(made, said, by=chosen.teacher).then
        played.append(-1)
        if isinstance(made, Decision):
            played[-1] = number[made.arm]
            agent.reward(made.id, tables.rewards[row, played[-1]])
            while made.check is not None and agent.open_checks:
                if made.id not in {one.id for one in agent.open_checks}:
                    break
                chosen = agent.whom(made.check)
                if chosen is None:
                    break
                agent.judge(made.check, word(chosen.teacher, made.arm), by=chosen.teacher)
    return played


@pytest.mark.parametrize("promise", [None, (0.05, 0.2)], ids=["no promise", "promise"])
@pytest.mark.parametrize("named", [True, False], ids=["items", "no items"])
def test_an_agent_is_the_simulator_bit_for_bit(named, promise):
    world = synthetic_movies(seed=1, people=9, movies=40)
    tables, arms = world.tables, [Arm(one.id, one.label, one.group) for one in world.arms]
    staff = [(0.0, 0.35), (0.2, 0.02)]
    declared = [Teacher(str(n), price=price) for n, (_, price) in enumerate(staff)]
    # By the default a check comes to hang here, and the two count one word apart.
    prior: Any = "centred" if promise is not None and not named else "scaled"
    agent = Agent(
        arms=arms,
        features=tables.features,
        seed=3,
        budget=10**6,
        teachers=declared,
        limits="rules",
        prior=prior,
    )
    if promise is not None:
        agent.promise(*promise, seed=3)
    run = online_asking(
        tables,
        beliefs=make_limits(
            "rules", schema=agent.schema, groups=[arm.group for arm in arms], seed=3
        ),
        prior=prior,
        checks=True,
        promise=promise,
        identity=named,
        steps=size(250, 8),
        seed=3,
        teachers=staff,
    )
    assert live(agent, tables, run, 3, named, staff) == run.played.tolist()
    assert agent._state.reward_arms.means.tobytes() == run.arms.means.tobytes()
    assert [rate.mean for rate in agent.teachers.rates().values()] == run.rates.tolist()
    assert [rate.answers for rate in agent.teachers.rates().values()] <= run.words.sum(1).tolist()
    mine, theirs = agent._state.limits_state.limits.to_state(), run.beliefs.to_state()
    assert {n: a.tobytes() for n, a in mine.items()} == {n: a.tobytes() for n, a in theirs.items()}
    assert run.words[:, 0].min() > size(5, -1) and run.words[0, 1] > size(0, -1)


def test_a_check_of_what_is_settled_is_judged_anew():
    # Weighed beside the words from before limits changed, the editor's would settle nothing, and
    # nobody would be left to ask.
    staff = [Teacher("editor", error=0.001), Teacher("model", price=0.01, error=0.1)]
    log: list[Event] = []
    agent = Agent(arms=1, features=1, seed=1, budget=10, teachers=staff, sink=log.extend)
    for n in range(60):
        agent.teach([1.0], 0, True, item=f"k{n}", by="editor")
    agent.teach([1.0], 0, True, item="it", by="model")
    agent.teach([1.0], 0, True, item="it", by="editor")
    agent.promise(0.01, 1.0, seed=3)
    made = agent.decide([1.0], item="it")
    assert isinstance(made, Decision) and made.check is not None
    for _ in staff:
        if made.check.id in [one.id for one in agent.open_checks]:
            whom = agent.whom(made.check)
            assert whom is not None
            agent.judge(made.check, False, by=whom.teacher)
    assert not agent.open_checks
    assert any(isinstance(event, StartedAnew) for event in log)
    found = Agent.replay(log)
    assert found.agrees and bits(found.agent) == bits(agent)

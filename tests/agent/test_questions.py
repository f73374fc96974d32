"""What was asked and not yet told: decisions that wait, questions that are filed, the budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bridle import Abstention, Agent, Arm, Decision, Flag, Labels, LearnedMask, Question, Rule
from bridle.agent.events import Abstained, Asked, Decided, Event, Lapsed, Taught
from bridle.errors import InvalidValue, LimitReached, NotPossible, UnknownId
from tests.histories import bits

KINDS = ["auto", "rules", "logistic", "found", "linear"]
FEATURES = [Labels("genres", ["Action", "Drama", "Horror"])]
ARMS = [Arm("a", group="young"), Arm("b", group="young"), Arm("c", group="old"), Arm("d")]
DRAMA, HORROR, ACTION = ({"genres": [word]} for word in ("Drama", "Horror", "Action"))
NOTHING: dict[str, Any] = {"genres": []}


def agent_of(**options: Any) -> Agent:
    given = {"arms": ARMS, "features": FEATURES, "limits": "rules", "budget": 100, "seed": 2}
    if options.get("limits") == "linear":
        given["policy"] = LearnedMask()
    return Agent(**(given | options))


def asked(agent: Agent, context: Any = DRAMA, **options: Any) -> Question:
    made = agent.decide(context, **options)
    assert isinstance(made, Question)
    return made


def decided(made: object) -> Decision:
    assert isinstance(made, Decision)
    return made


def question(made: object) -> Question:
    assert isinstance(made, Question)
    return made


# -- waiting ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_allowed_is_played(kind):
    log: list[Event] = []
    agent = agent_of(limits=kind, sink=log.extend, ask_at_most=1)
    first = asked(agent, item="film", propensity=True)
    assert (
        list(agent.waiting) == [1] and first.decision == 1 and first.id == 1 and first.version == 1
    )
    # Questions are judged by draws of their own, and have no place among the outcomes of a play.
    assert first.odds is None and first.propensity is None and first.event.item == "film"
    assert agent.pending == 0 and agent.version == 2
    answer = agent.answer(first, True, by="t", note="so", at=3.0)
    then = decided(answer.then)
    unit_of = agent._state.limits_state.unit_of
    asked_of, plays = (unit_of["abcd".index(str(one.arm))] for one in (first, then))
    assert plays == asked_of and then.id == 1 and then.context == first.context
    assert then.odds is not None and then.propensity == then.odds.play["abcd".index(str(then.arm))]
    assert list(agent.waiting) == [] and agent.pending == 1 and answer.example == 1
    assert [type(event) for event in log[1:]] == [Asked, Taught, Decided]
    assert {getattr(event, "item", "film") for event in log} == {"film"}
    assert then.version == 3 and agent.version == 4 and then.event.at == 3.0
    agent.reward(then.id, 0.5)
    again = agent.decide(DRAMA, item="film", among=[then.arm])
    assert decided(again).id == 2  # known to the letter by now


@pytest.mark.parametrize("kind", KINDS)
def test_denied_is_never_played_here_and_it_looks_again(kind):
    agent = agent_of(limits=kind, ask_at_most=4, answer_price=0.0)
    gone: list[Any] = []
    made: Any = agent.decide(DRAMA, propensity=True)
    while isinstance(made, Question):
        assert made.decision == 1 and made.arm not in gone and made.propensity is None
        gone.append(made.arm)
        made = agent.answer(made, False).then
    assert isinstance(made, Abstention) and made.id == 1 and list(agent.waiting) == []
    assert made.odds is not None and made.odds.abstain == 1.0
    assert agent.decide(DRAMA, among=gone, ask=False).id == 2
    assert isinstance(agent.decide(DRAMA, among=gone), Abstention)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_it_asks_no_more_than_so_often(most):
    agent = agent_of(share="arm", ask_at_most=most)
    made: Any = agent.decide(DRAMA)
    for n in range(most):
        assert question(made).id == n + 1
        made = agent.answer(made, False).then
    assert isinstance(made, Abstention) and agent.budget_left == 100 - most
    assert isinstance(agent.decide(DRAMA), Question)  # another decision may ask again


def test_what_is_safe_is_played_after_a_denial():
    agent = agent_of(seed=0)
    for _ in range(2):
        agent.teach(DRAMA, "c", True)
    agent.learn([DRAMA] * 4, ["c"] * 2 + ["d"] * 2, [0.1, 0.1, 0.9, 0.9])
    made = asked(agent, among=["c", "d"], propensity=True)
    assert made.arm == "d" and made.event.among == ("c", "d")
    assert made.odds is None and made.propensity is None
    then = decided(agent.answer(made, False).then)
    assert then.arm == "c" and then.event.among == ("c", "d")
    assert then.propensity == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_skipped_question_lets_it_play_safe(kind):
    log: list[Event] = []
    agent = agent_of(limits=kind, sink=log.extend, on_empty="safe_arm", safe_arm="d")
    made = asked(agent, propensity=True)
    answer = agent.skip(made, at=1.0)
    assert answer.example is None and decided(answer.then).arm == "d"
    assert decided(answer.then).propensity == 1.0
    assert [type(event) for event in log[1:]] == [Asked, Lapsed, Decided]
    assert agent.budget_left == 100 and list(agent.waiting) == [] and agent.open_questions == ()
    with pytest.raises(UnknownId, match="answered, lapsed or dropped already"):
        agent.skip(made)


def test_a_skipped_question_of_a_teaching_phase_holds_nothing_up():
    agent = agent_of()
    made = agent.ask(DRAMA)
    assert agent.skip(made.id).then is None and agent.open_questions == ()
    assert agent.budget_left == 100


def test_an_interrupted_store_goes_on():
    """The answer is folded, what follows is not: resume gives what answer would have given."""
    whole, cut = agent_of(), agent_of()
    q1, q2 = asked(whole, propensity=True), asked(cut, propensity=True)
    with pytest.raises(NotPossible, match=r"waits for the answer to question 1\. Answer it, or"):
        cut.resume(1)
    expected = whole.answer(q1, True).then
    cut.apply(cut.make.answered(q2, True))
    assert list(cut.waiting) == [1] and cut.open_questions == ()
    assert decided(cut.resume(1)).event == decided(expected).event
    assert bits(cut) == bits(whole)
    with pytest.raises(UnknownId, match="waiting decision 1"):
        cut.resume(1)
    for other in (99, "x", True, None, 1.0):
        with pytest.raises(UnknownId, match="never made, or is made or dropped"):
            cut.resume(other)


def test_resume_computes_the_propensity_if_asked():
    # A question does not say whether a propensity was wanted: by default there is one.
    for wanted, expected in ((None, True), (True, True), (False, False)):
        agent = agent_of(ask_at_most=1)
        made = asked(agent)
        agent.apply(agent.make.answered(made, False))
        then = agent.resume(1, propensity=wanted)
        assert (then.event.propensity is not None) == expected
    agent = agent_of()
    agent.apply(agent.make.answered(asked(agent, propensity=True), False))
    before = bits(agent)
    with pytest.raises(InvalidValue, match=r"'propensity' parameter of Agent\.resume"):
        agent.resume(1, propensity="yes")
    assert bits(agent) == before


def test_a_sink_that_fails_between_leaves_the_answer():
    log: list[Event] = []
    agent = agent_of(sink=log.extend)
    made = asked(agent)
    calls = 0

    def failing(events: Sequence[Event]) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError("full")

    agent.sink = failing
    with pytest.raises(OSError, match="full"):
        agent.answer(made, True)
    assert list(agent.waiting) == [1] and len(agent.examples) == 1
    assert decided(agent.resume(1)).arm == made.arm


def test_ids_that_are_taken_are_refused():
    agent = agent_of(ask_at_most=1)
    made = asked(agent, id="mine")
    before = bits(agent)
    with pytest.raises(InvalidValue, match="new; a decision of this id waits for an answer"):
        agent.decide(DRAMA, id="mine")
    with pytest.raises(InvalidValue, match="waits for an answer"):
        agent.decide_many([DRAMA], ids=["mine"])
    with pytest.raises(UnknownId, match="pending decision 'mine'"):
        agent.reward("mine", 0.5)
    assert bits(agent) == before
    assert decided(agent.answer(made, True).then).id == "mine"
    with pytest.raises(InvalidValue, match="a decision of this id is pending"):
        agent.decide(DRAMA, id="mine")


@pytest.mark.parametrize("bad", [99, "x", None, True, 1.0, [1]])
def test_a_question_that_is_not_open_is_refused(bad):
    agent = agent_of()
    asked(agent)
    before = bits(agent)
    for verb in (lambda: agent.answer(bad, True), lambda: agent.skip(bad)):
        with pytest.raises(UnknownId, match="open question"):
            verb()
    assert bits(agent) == before


def test_no_question_is_answered_twice():
    agent = agent_of()
    made = asked(agent)
    agent.answer(made, True)
    before = bits(agent)
    with pytest.raises(UnknownId, match=r"can be taught: agent.teach\(context, arm, allowed\)"):
        agent.answer(made, True)
    second = asked(agent, HORROR)
    with pytest.raises(InvalidValue, match="distinct"):
        agent.answer_many([second, second.id], [True, False])
    agent.skip(second)
    assert bits(agent) != before


@pytest.mark.parametrize("bad", ["yes", None, 2, 0.0])
def test_an_answer_is_true_or_false(bad):
    agent = agent_of()
    made = asked(agent)
    before = bits(agent)
    with pytest.raises(InvalidValue, match=r"'allowed' parameter of Agent\.answer"):
        agent.answer(made, bad)
    with pytest.raises(InvalidValue, match="'at' parameter"):
        agent.answer(made, True, at="now")
    with pytest.raises(InvalidValue, match="'at' parameter"):
        agent.skip(made, at=float("nan"))
    with pytest.raises(InvalidValue, match="a list of 1"):
        agent.answer_many([made], [True, True])
    assert bits(agent) == before


# -- what changes while a decision waits -----------------------------------------------------


def test_a_rule_declared_meanwhile_holds():
    agent = agent_of(share="arm")
    made = asked(agent, HORROR)
    agent.declare(Rule("closed", arms=[made.arm]))
    then = agent.answer(made, True).then
    assert isinstance(then, Question) and then.arm != made.arm and then.decision == made.decision
    agent.declare(Rule("shut"))
    assert isinstance(agent.answer(then, True).then, Abstention)


def test_a_denial_of_the_same_arm_meanwhile_holds():
    agent = agent_of()
    made = asked(agent, HORROR)
    agent.teach(HORROR, made.arm, False)
    assert question(agent.answer(made, True).then).arm != made.arm


def test_an_example_taken_back_meanwhile_is_as_if_never_taught():
    agent, never = agent_of(), agent_of()
    example = agent.teach(HORROR, "d", True, id="mistake")
    made, same = asked(agent, HORROR, among=["a", "c"]), asked(never, HORROR, among=["a", "c"])
    agent.retract(example)
    one, two = agent.answer(made, False).then, never.answer(same, False).then
    assert question(one).arm == question(two).arm != made.arm
    limits = [a._state.limits_state.limits.to_state() for a in (agent, never)]
    assert all(array.tobytes() == limits[1][name].tobytes() for name, array in limits[0].items())


def test_the_very_answer_taken_back_before_it_goes_on_is_not_played():
    """Nothing says any more that the arm is allowed: it has to look again."""
    agent = agent_of()
    made = asked(agent, HORROR)
    answer = agent.make.answered(made, True)
    agent.apply(answer)
    agent.retract(answer.id)
    assert not agent.believed(HORROR).safe.any()
    assert isinstance(agent.resume(made.decision), Question)
    named = agent_of()
    made = asked(named, HORROR, item="film")
    answer = named.make.answered(made, True)
    named.apply(answer)
    named.retract(answer.id)
    assert isinstance(named.resume(made.decision), Question)


def test_an_arm_added_meanwhile_takes_part():
    agent = agent_of(ask_at_most=9)
    every, some = asked(agent, DRAMA), asked(agent, HORROR, among=["a"])
    agent.add_arms([Arm("e")])
    assert isinstance(agent.answer(some, False).then, Abstention)  # not among those asked for
    heard: set[Any] = set()
    made: Any = every
    while isinstance(made, Question):
        heard.add(made.arm)
        made = agent.answer(made, False).then
    assert "e" in heard


def test_answers_may_come_in_another_order():
    agent = agent_of(share="arm", prior="centred")  # of draws so narrow that one answer is enough
    first, second, third = asked(agent, DRAMA), asked(agent, HORROR), asked(agent, ACTION)
    assert list(agent.waiting) == [1, 2, 3] and [q.id for q in agent.open_questions] == [1, 2, 3]
    assert decided(agent.answer(third, True).then).id == 3
    assert question(agent.answer(first, False).then).decision == 1
    assert decided(agent.answer(second, True).then).id == 2
    assert list(agent.waiting) == [1] and agent.pending == 2 and agent.budget_left == 96


def test_many_answers_are_folded_before_anything_goes_on():
    agent, twin = agent_of(share="arm"), agent_of(share="arm")
    for one in (agent, twin):
        for context in (DRAMA, HORROR, ACTION):
            asked(one, context, propensity=True)
        one.ask(NOTHING)
    told = agent.answer_many([3, 1, 4], [True, False, True])
    assert [answer.example for answer in told] == [1, 2, 3]
    assert decided(told[0].then).id == 3 and question(told[1].then).decision == 1
    assert told[2].then is None and list(agent.waiting) == [1, 2]
    for event in twin.make.answered_many([3, 1, 4], [True, False, True]):
        twin.apply(event)
    assert list(twin.waiting) == [1, 2, 3]
    assert twin.resume(3).event == decided(told[0].then).event
    assert twin.resume(1).event == question(told[1].then).event
    assert bits(agent) == bits(twin)
    assert agent.answer_many([], []) == []


def test_decisions_are_numbered_when_they_first_ask():
    agent = agent_of()
    first = asked(agent, DRAMA)
    second = asked(agent, HORROR)
    assert (first.decision, second.decision) == (1, 2)
    assert agent.decide(DRAMA, ask=False).id == 3
    assert decided(agent.answer(first, True).then).id == 1
    assert agent.decide(ACTION, ask=False).id == 4


def test_events_that_do_not_fit_a_waiting_decision_are_refused():
    agent = agent_of()
    made = asked(agent)
    before = bits(agent)
    going = Decided(1, made.context, "a", 2, None, None, None, True)
    with pytest.raises(NotPossible, match="waits for the answer"):
        agent.apply(going)
    with pytest.raises(NotPossible, match="waits for the answer"):
        agent.apply(Abstained(1, made.context, 2))
    with pytest.raises(NotPossible, match="waits for the answer"):
        agent.apply(Asked(2, made.context, "b", 2, decision=1))
    with pytest.raises(InvalidValue, match=r"'id' parameter of Agent\.ask"):
        agent.apply(Asked(1, made.context, "b", 2, decision=2))
    with pytest.raises(InvalidValue, match="at most 2"):
        agent.apply(Asked(2, made.context, "b", 2, decision=9))
    with pytest.raises(UnknownId, match="open question"):
        agent.apply(Lapsed(7))
    assert bits(agent) == before
    agent.apply(agent.make.answered(made, False))
    before = bits(agent)
    with pytest.raises(InvalidValue, match="of the context in which the decision asked"):
        agent.apply(Decided(1, (0.0, 0.0, 0.0), "a", 3))
    assert bits(agent) == before


# -- the budget ------------------------------------------------------------------------------


@pytest.mark.parametrize("doubt", ["wait", "play_safe"])
def test_the_budget_counts_what_is_open_and_what_is_answered(doubt):
    agent = agent_of(budget=2, on_doubt=doubt, share="arm", ask_at_most=1)
    open_ = [
        made if isinstance(made := agent.decide(c), Question) else made.question
        for c in (DRAMA, HORROR)
    ]
    assert agent.budget_left == 0 and all(one is not None for one in open_)
    third = agent.decide(ACTION)
    assert isinstance(third, Abstention) and third.question is None
    assert agent.ask(ACTION).decision is None  # to be taught costs nothing
    agent.skip(question(open_[0]))
    assert agent.budget_left == 1
    agent.answer(question(open_[1]), True)
    assert agent.budget_left == 1
    last = agent.decide(ACTION)
    assert isinstance(last, Question) or last.question is not None
    assert agent.budget_left == 0


@pytest.mark.parametrize("doubt", ["wait", "play_safe"])
@pytest.mark.parametrize("patience", [0, 2])
def test_patience_runs_out_and_gives_the_budget_back(doubt, patience):
    agent = agent_of(budget=1, on_doubt=doubt, patience=patience)
    made = agent.decide(HORROR)
    filed = made if isinstance(made, Question) else made.question
    assert filed is not None
    lesson = agent.ask(DRAMA)
    for _ in range(patience):
        agent.decide(DRAMA)
        assert agent.budget_left == 0
    agent.decide(DRAMA)
    assert agent.budget_left == 1 and list(agent.waiting) == []
    assert [one.id for one in agent.open_questions] == [lesson.id]  # that one is not in a hurry
    with pytest.raises(UnknownId, match="lapsed or dropped"):
        agent.answer(filed, True)
    assert agent.decide(DRAMA) is not None and agent.budget_left == 0


def test_a_batch_takes_the_same_patience():
    one, many = agent_of(patience=1), agent_of(patience=1)
    for agent in (one, many):
        asked(agent, HORROR)
        asked(agent, ACTION)
    many.decide_many([DRAMA] * 2)
    for _ in range(2):
        one.decide(DRAMA, ask=False)
    assert bits(one) == bits(many) and one.waiting == ()


def test_the_oldest_give_way():
    agent = agent_of(max_pending=2, share="arm")
    first, second = asked(agent, DRAMA), asked(agent, HORROR)
    third = asked(agent, ACTION)
    assert list(agent.waiting) == [2, 3] and [q.id for q in agent.open_questions] == [2, 3]
    assert agent.budget_left == 98
    agent.ask(DRAMA)
    assert list(agent.waiting) == [3]
    with pytest.raises(UnknownId, match="open question 1"):
        agent.answer(first, True)
    with pytest.raises(UnknownId, match="waiting decision 2"):
        agent.resume(second.decision)
    assert decided(agent.answer(third, True).then).id == 3


def test_too_many_examples_leave_the_question_open():
    agent = agent_of(max_examples=1)
    made = asked(agent)
    agent.teach(HORROR, "a", True)
    before = bits(agent)
    with pytest.raises(LimitReached, match="higher max_examples"):
        agent.answer(made, True)
    assert bits(agent) == before
    assert isinstance(agent.skip(made).then, Abstention)


def test_quiet_decisions_and_agents_without_a_budget_never_ask():
    for agent, ask in ((agent_of(), False), (agent_of(budget=0), True)):
        made = agent.decide(HORROR, ask=ask)
        assert isinstance(made, Abstention) and made.question is None and not made.event.ask
        assert len(agent.decide_many([DRAMA, HORROR]).events()) == 2 and not agent.open_questions


# -- teachers who err ------------------------------------------------------------------------


@pytest.mark.parametrize("error", [0.1, None])
@pytest.mark.parametrize("kind", ["auto", "rules"])
def test_a_single_answer_of_one_who_errs_is_not_certain(kind, error):
    agent = agent_of(limits=kind, teacher_error=error, ask_at_most=1)
    assert not agent.settings.remembers
    made = asked(agent, HORROR, among=["a"], propensity=True)
    then = agent.answer(made, True).then
    assert isinstance(then, Abstention) and then.odds is not None and then.odds.abstain == 1.0
    believed = agent.believed(HORROR)
    assert 0.67 < believed.p[0] < 1.0 and not believed.safe[0] and believed.possible[0]
    agent.teach(HORROR, "d", False)
    assert agent.believed(HORROR).p[3] > 0.0 and agent.believed(HORROR).possible[3]
    # Many answers of one mind are as good as certain.
    for _ in range(40):
        agent.teach(HORROR, "a", True)
    assert decided(agent.decide(HORROR, among=["a"])).arm == "a"


@pytest.mark.parametrize("error", [0.02, 1e-6])
def test_a_teacher_who_hardly_errs_is_taken_at_their_word(error):
    agent = agent_of(teacher_error=error)
    assert decided(agent.answer(asked(agent, among=["a"]), True).then).arm == "a"
    quiet = agent_of(teacher_error=error, exact_denials=False)
    assert not quiet.settings.remembers


def test_nothing_is_asked_twice_at_a_time():
    agent = Agent(arms=1, features=[Flag("x")], limits="rules", budget=5)
    first = agent.decide({"x": True})
    assert isinstance(first, Question)
    second = agent.decide({"x": True}, propensity=True)
    assert isinstance(second, Abstention) and second.odds is not None and second.odds.abstain == 1.0
    assert isinstance(agent.answer(first, True).then, Decision)
    assert isinstance(agent.decide({"x": True}), Decision) and agent.budget_left == 4


def test_what_was_put_off_is_asked_where_nothing_else_is_left():
    agent = Agent(
        arms=1, features=[Flag("a"), Flag("b")], limits="found", teacher_error=0.05, budget=1000
    )
    context = {"a": True, "b": False}
    made: Any = agent.decide(context)
    for _ in range(20):
        if not isinstance(made, Question):
            break
        made = agent.answer(made, True).then
    assert isinstance(made, Decision)

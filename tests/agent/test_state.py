"""What an agent knows: exact denials, retraction, what waits, what the fold refuses, memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import Abstention, Agent, BehaviorConstrained, Decision, LinearLimits, Rule, Thompson
from bridle.agent.config import Arm
from bridle.agent.events import Abstained, ArmsAdded, Created, Event, Learned, SigmaChanged
from bridle.errors import InvalidValue, LimitReached, NotPossible, UnknownId
from tests.histories import PAPER, POLICIES, bits

C, NEAR = (0.5, 0.0, -1.0), (0.5, 0.0, np.nextafter(-1.0, 0.0))


def new(**more: Any) -> Any:
    return Agent(**{**PAPER, "arms": 3, "features": 3, "seed": 5, **more})


# -- exact denials ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [*[p for p in POLICIES if not p.needs_limits], BehaviorConstrained(sigma=1.0)],
    ids=repr,
)
def test_an_arm_denied_in_this_very_context_is_not_played_whatever_the_policy(policy):
    agent = new(policy=policy)
    agent.learn([C] * 20, [1] * 20, [1.0] * 20)  # the best by far
    agent.teach(C, 1, False)
    made = agent.decide(C, propensity=True)
    assert made.eligible.tolist() == [True, False, True]
    assert made.propensities[1] == 0.0 and made.propensities.sum() == pytest.approx(1.0, abs=1e-9)
    batch = agent.decide_many([C] * 200, propensity=True)
    assert 1 not in batch.chosen and 1 not in agent.decide_many([C] * 200, details=False).chosen
    assert all(decision.propensities[1] == 0.0 for decision in batch)
    elsewhere = agent.decide(NEAR, propensity=True)
    assert elsewhere.eligible.all() and elsewhere.propensities[1] > 0.0


def test_without_exact_denials_what_was_taught_is_only_a_score():
    agent = new(exact_denials=False, sigma=1.0)
    agent.learn([C] * 200, [1] * 200, [1.0] * 200)
    agent.teach(C, 1, False)
    made = agent.decide(C, propensity=True)
    assert made.eligible.all() and made.propensities[1] > 0.5


def test_minus_zero_is_zero():
    plus, minus = [0.0, 1.0, 0.0], np.array([-0.0, 1.0, -0.0])
    for taught, asked in ((plus, minus), (minus, plus)):
        agent = new()
        agent.teach(taught, 0, False)
        assert not agent.decide(asked).eligible[0]
        assert not agent.decide_many([asked])[0].eligible[0]
    # Also where the event comes from elsewhere, with the sign in it.
    agent, twin = new(), new()
    event = agent.make.taught(plus, 0, False)
    agent.apply(event)
    twin.apply(replace(event, context=(-0.0, 1.0, -0.0)))
    assert bits(agent) == bits(twin)


def test_any_standing_denial_wins_over_any_allowance():
    agent = new()
    agent.teach(C, 0, True)
    first, second = agent.teach(C, 0, False), agent.teach(C, 0, False)
    for _ in range(5):
        agent.teach(C, 0, True)
    assert not agent.decide(C).eligible[0]
    agent.retract(first)
    assert not agent.decide(C).eligible[0]
    agent.retract(second)
    assert agent.decide(C).eligible[0]
    assert not agent._state.denials  # nothing is kept of it
    agent.teach(C, 0, False)
    assert not agent.decide(C).eligible[0]


def test_when_every_arm_is_denied_nothing_is_played():
    agent = new()
    examples = agent.teach_many([C] * 3, [0, 1, 2], [False] * 3)
    assert isinstance(agent.decide(C), Abstention)
    assert isinstance(agent.decide(C, among=[1]), Abstention)
    assert isinstance(agent.decide(NEAR), Decision)
    agent.retract(examples[1])
    assert agent.decide(C).arm == 1
    agent.declare(Rule("closed", arms=[1]))  # all that is left is denied by a rule
    assert isinstance(agent.decide(C, propensity=True), Abstention)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=15),
    st.lists(st.integers(0, 14), max_size=8),
)
def test_eligible_is_what_no_standing_example_denies(examples, retracted):
    pool = [C, NEAR, (0.0, 0.0, 0.0)]
    agent = new()
    ids = agent.teach_many(
        [pool[c] for c, _, _ in examples], [k for _, k, _ in examples], [a for _, _, a in examples]
    )
    gone = {ids[i] for i in retracted if i < len(ids)}
    agent.retract_many(sorted(gone))
    stand = [example for id, example in zip(ids, examples, strict=True) if id not in gone]
    for c in range(3):
        denied = {k for where, k, allowed in stand if where == c and not allowed}
        expected = [k not in denied for k in range(3)]
        made = agent.decide(pool[c], propensity=True)
        if not any(expected):
            assert isinstance(made, Abstention)
        else:
            assert made.eligible.tolist() == expected
            assert (made.propensities > 0.0).tolist() == expected


# -- retraction ------------------------------------------------------------------------------

example = st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans())


@given(st.lists(example, min_size=1, max_size=20), st.data())
def test_after_a_retraction_limits_are_the_fold_of_what_stands(examples, data):
    pool = np.random.default_rng(3).standard_normal((4, 3))
    agent = new(label_coding="1/-1", ridge_limits=0.7)
    ids = [agent.teach(pool[c], k, allowed) for c, k, allowed in examples]
    before = agent._state.limits_state.limits.to_state()
    gone = data.draw(st.sets(st.sampled_from(ids), min_size=1))
    for id in data.draw(st.permutations(sorted(gone))):
        agent.retract(id)
    stand = [e for id, e in zip(ids, examples, strict=True) if id not in gone]
    fold = LinearLimits(arms=3, features=3, ridge=0.7, label_coding="1/-1")
    for c, k, allowed in stand:
        fold.learn(pool[c], k, allowed)
    after, expected = agent._state.limits_state.limits.to_state(), fold.to_state()
    for name in after:
        assert after[name].tobytes() == expected[name].tobytes(), name
    touched = {examples[ids.index(id)][1] for id in gone}
    for k in {0, 1, 2} - touched:  # other arms: not a bit
        for name in before.keys() - {"ridge", "coding"}:
            assert after[name][k].tobytes() == before[name][k].tobytes()
    assert [one.id for one in agent.examples] == [id for id in ids if id not in gone]


def test_an_example_is_retracted_once():
    agent = new()
    id = agent.teach(C, 0, False, id="mine")
    agent.retract(id)
    before = bits(agent)
    for unknown in (id, 1, "other", True, None, [id]):
        with pytest.raises(UnknownId, match="never taught, or is retracted already"):
            agent.retract(unknown)
    assert bits(agent) == before
    assert agent.teach(C, 1, True, id="mine") == "mine"  # the id is free again


def test_examples_have_a_limit_and_a_retraction_makes_room():
    agent = new(max_examples=2)
    ids = agent.teach_many([C, C], [0, 1], [True, True])
    question = agent.ask(C)
    for more in (lambda: agent.teach(C, 0, True), lambda: agent.answer(question, True)):
        before = bits(agent)
        with pytest.raises(LimitReached, match="limit of 2 examples"):
            more()
        assert bits(agent) == before
    agent.retract(ids[0])
    assert agent.answer(question, True).example == 3


# -- what waits ------------------------------------------------------------------------------


def test_the_oldest_decisions_are_dropped_by_count():
    agent = new(max_pending=3)
    made = [agent.decide(C) for _ in range(2)] + list(agent.decide_many([C] * 4))
    assert (agent.pending, agent.dropped) == (3, 3)
    for decision in made[:3]:
        before = bits(agent)
        with pytest.raises(UnknownId, match="dropped as one of the oldest of more than 3"):
            agent.reward(decision.id, 1.0)
        with pytest.raises(UnknownId):
            agent.reward_many([made[3].id, decision.id], [1.0, 1.0])
        assert bits(agent) == before
    agent.reward_many([made[5].id, made[3].id, made[4].id], [0.0, 0.5, 1.0])
    assert (agent.pending, agent.dropped) == (0, 3)


def test_a_batch_larger_than_what_may_wait_leaves_its_last():
    agent = new(max_pending=2)
    made = agent.decide_many(np.eye(3)[[0, 1, 2, 0, 1]])
    assert list(agent._state.pending) == made.ids[3:] and agent.dropped == 3


def test_the_oldest_questions_are_dropped_too():
    agent = new(max_pending=2)
    first, *rest = agent.ask_many([C] * 3)
    with pytest.raises(UnknownId, match="No open question 1"):
        agent.answer(first, True)
    agent.answer_many(rest, [True, False])
    with pytest.raises(UnknownId, match="answered, lapsed or dropped already"):
        agent.answer(rest[0], True)


def test_rewards_may_be_late_and_out_of_order():
    rng = np.random.default_rng(4)
    contexts, values = rng.random((30, 3)), rng.random(30)
    order = rng.permutation(30)
    agent = new()
    made = [agent.decide(c) for c in contexts]
    version = agent.version
    for i in order:
        agent.reward(made[i].id, values[i])
    assert agent.version == version + 30
    twin = new()  # what counts is the order of the rewards
    twin.learn(contexts[order], [made[i].arm for i in order], values[order])
    states = [one._state.reward_arms.to_state() for one in (agent, twin)]
    assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[0])


@pytest.mark.parametrize(
    "id", [0, -1, 99, "99", "", None, 1.0, True, (1,), [1], {}, np.zeros(2)], ids=repr
)
def test_a_reward_for_what_does_not_wait_is_one_clear_error(id):
    agent = new()
    agent.decide(C)
    rewarded = agent.decide(C)
    agent.reward(rewarded.id, 0.5)
    before = bits(agent)
    for wrong in (id, rewarded.id):
        with pytest.raises(UnknownId, match="never made, is rewarded already, or was dropped"):
            agent.reward(wrong, 0.5)
        with pytest.raises(UnknownId, match="never made, is rewarded already, or was dropped"):
            agent.reward_many([1, wrong], [0.5, 0.5])
    assert bits(agent) == before


def test_memory_stays_flat_without_a_sink():
    agent = Agent(**PAPER, arms=4, features=6, max_pending=100)
    context = np.ones(6)

    def live(pairs):
        for _ in range(pairs):
            agent.reward(agent.decide(context).id, 0.5)
            agent.decide(context)  # never rewarded: one of these is dropped each time

    live(2_000)
    tracemalloc.start()
    try:
        live(500)
        before, _ = tracemalloc.get_traced_memory()
        live(20_000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 20,000 events or contexts of at least 100 bytes each would be 2 MB. What may grow: the 100
    # that wait, all traced only from the start on (100 × 500 bytes), and a dict that is resized.
    assert after - before < 100_000
    assert (agent.pending, agent.dropped) == (100, 22_400)


# -- what the fold refuses -------------------------------------------------------------------


def refuses(agent: Agent, event: Event, kind: type[Exception], words: str) -> None:
    before = bits(agent)
    with pytest.raises(kind, match=words):
        agent.apply(event)
    assert bits(agent) == before


def test_an_agent_is_created_once():
    agent = new()
    refuses(agent, Created(agent.settings), NotPossible, "created once")


def test_numbers_are_given_by_the_agent_in_turn():
    agent = new()
    decided, asked = agent.make.decided(C).event, agent.make.asked(C).event
    taught = agent.make.taught(C, 0, True)
    for event in (decided, asked, taught, Abstained(1, C, 1)):
        for far in (2, 1000):
            refuses(agent, replace(event, id=far), InvalidValue, "a string, or at most 1")
        for wrong in (0, -1, 2**64, True, 1.0, ""):
            refuses(agent, replace(event, id=wrong), InvalidValue, "'id'")
    agent.apply(decided)
    refuses(agent, decided, InvalidValue, "is pending")
    refuses(agent, Abstained(1, C, 1), InvalidValue, "is pending")
    agent.apply(asked)
    refuses(agent, asked, InvalidValue, "is open")
    agent.apply(taught)
    refuses(agent, taught, InvalidValue, "stands")
    agent.apply(replace(decided, id="mine"))
    assert agent.decide(C).id == 3 and agent.ask(C).id == 2 and agent.teach(C, 0, True) == 2


def test_no_event_comes_from_the_future():
    agent = new()
    for event in (agent.make.decided(C).event, agent.make.asked(C).event, Abstained(1, C, 1)):
        refuses(agent, replace(event, version=2), InvalidValue, "at most 1, as so many events")
    agent.teach(C, 0, True)
    agent.apply(agent.make.decided(C).event)  # from now
    agent.apply(replace(agent.make.decided(C).event, version=1))  # from before


def test_contexts_in_events_fit_the_agent():
    agent = new()
    decided, taught = agent.make.decided(C).event, agent.make.taught(C, 0, True)
    for event in (decided, taught, agent.make.asked(C).event, Abstained(1, C, 1)):
        for wrong in ((), (1.0,), (*C, 1.0)):
            refuses(agent, replace(event, context=wrong), InvalidValue, "3 numbers")
        for bad in (float("nan"), float("inf"), 1e7):
            refuses(agent, replace(event, context=(1.0, bad, 0.0)), InvalidValue, "within")
    for wrong_arm in ("a", 3, -1):
        refuses(agent, replace(decided, arm=wrong_arm), UnknownId, "No arm")


def test_history_in_events_fits_the_agent():
    agent = new()
    good = agent.make.learned([C, C], [0, 1], [0.5, 1.0])
    refuses(agent, replace(good, arm_numbers=np.array([0, 3])), InvalidValue, "arms")
    refuses(agent, replace(good, arm_numbers=np.array([0])), InvalidValue, "arms")
    refuses(agent, replace(good, rewards=np.array([0.5, 1.5])), InvalidValue, "Got 1.5")
    refuses(agent, replace(good, contexts=np.zeros((2, 2))), InvalidValue, "3 columns")
    refuses(agent, replace(good, contexts=np.full((2, 3), np.nan)), InvalidValue, "nan")
    agent.apply(Learned(good.contexts, good.arm_numbers, good.rewards))


def test_settings_in_events_fit_the_agent():
    agent = new(policy=Thompson())
    refuses(agent, SigmaChanged(0.5), NotPossible, "no sigma")
    refuses(new(), SigmaChanged(1.5), InvalidValue, "range")
    refuses(agent, ArmsAdded((Arm("x"), Arm(0))), InvalidValue, "distinct ids")
    agent.apply(ArmsAdded((Arm("x"),)))
    refuses(agent, ArmsAdded((Arm("x"),)), InvalidValue, "distinct ids")

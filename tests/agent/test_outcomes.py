"""What an agent answers, and that it says how it came to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from bridle import (
    Abstention,
    Agent,
    Arm,
    BehaviorConstrained,
    Decision,
    EpsilonGreedy,
    Flag,
    Labels,
    LinUCB,
    Number,
    Rule,
    Thompson,
    Uniform,
)
from bridle.agent.events import Abstained, Decided
from bridle.errors import NotPossible
from tests.conftest import check_counts
from tests.histories import PAPER, POLICIES, Life, lives, settings_of_agents
from tests.reference import win_probabilities

C = np.array([1.0, 0.5, -0.25])


def taught(**more: Any) -> Any:
    agent = Agent(**{**PAPER, "arms": ["a", "b", "c", "d"], "features": 3, "seed": 2, **more})
    rng = np.random.default_rng(6)
    rows, arms = rng.standard_normal((40, 3)), [agent.arms[k].id for k in rng.integers(0, 4, 40)]
    agent.teach_many(rows, arms, rng.random(40) < 0.5)
    agent.learn(rows[::-1], arms, rng.random(40))
    return agent


def test_a_decision_says_how_it_came_to_be():
    agent = taught(policy=BehaviorConstrained(sigma=0.3, v=0.2, v_constraint=0.5))
    made = agent.decide(C, propensity=True)
    assert type(made) is Decision
    state = agent._state
    for (mean, sd), arms in (
        ((made.reward_mean, made.reward_sd), state.reward_arms),
        ((made.limit_mean, made.limit_sd), state.limits_state.limits),
    ):
        expected = arms.scores(C)
        assert mean.tobytes() == expected[0].tobytes() and sd.tobytes() == expected[1].tobytes()
    assert made.mean == pytest.approx(0.3 * made.reward_mean + 0.7 * made.limit_mean, rel=1e-12)
    spread = np.hypot(0.3 * 0.2 * made.reward_sd, 0.7 * 0.5 * made.limit_sd)
    assert made.sd == pytest.approx(spread, rel=1e-12)
    assert made.arms == ("a", "b", "c", "d") and made.arm == made.arms[int(made.draw.argmax())]
    assert (made.id, made.version, made.context) == (1, agent.version - 1, tuple(C))
    odds: Any = made.propensities
    assert made.propensity == odds[made.arms.index(made.arm)]
    assert odds == pytest.approx(win_probabilities(made.mean, made.sd), abs=1e-9)


def test_the_propensity_comes_when_asked_for():
    agent = taught()
    made = agent.decide(C)
    assert made.propensity is None and made.propensities is None
    batch = agent.decide_many([C])
    assert batch[0].propensities is None and batch.events()[0].propensity is None


@pytest.mark.parametrize("policy", [p for p in POLICIES if not p.needs_limits], ids=repr)
@pytest.mark.parametrize("among", [None, ["a", "d"], ["b"]], ids=repr)
def test_the_best_eligible_draw_wins_and_propensities_sum_to_one(policy, among):
    agent = taught(policy=policy, rules=[Rule("closed", arms=["c"])])
    agent.teach(C, "a", False)
    for made in agent.decide_many([C, -C] * 20, among, propensity=True):
        names = set(made.arms if among is None else among) - {"c"}
        names -= {"a"} if made.context == tuple(C) else set()
        assert made.eligible.tolist() == [arm in names for arm in made.arms]
        assert made.propensities.sum() == pytest.approx(1.0, abs=1e-9)
        assert (made.propensities[~made.eligible] == 0.0).all()
        assert made.arm in names and made.propensity > 0.0
        if not isinstance(policy, EpsilonGreedy | Uniform):
            best = made.draw[made.eligible].max()
            assert made.draw[made.arms.index(made.arm)] == best


@given(settings_of_agents(), lives)
def test_propensities_are_probabilities_over_eligible_arms_whatever_happened(arguments, life):
    lived = Life.of(arguments).go(life)
    made = lived.agent.decide(lived.context(1), propensity=True, ask=False)  # a question has none
    odds = made.odds
    assert abs(odds.play.sum() + odds.ask.sum() + odds.abstain - 1.0) < 1e-9
    assert (odds.play >= 0.0).all() and (odds.ask >= 0.0).all() and made.event.propensity > 0.0
    if type(made) is Decision:
        assert not odds.play[~made.eligible].any()


@pytest.mark.parametrize(
    "policy",
    [BehaviorConstrained(sigma=0.5), Thompson(v=0.4), EpsilonGreedy(epsilon=0.5)],
    ids=repr,
)
def test_arms_are_played_as_often_as_propensities_say(policy):
    # Chi-square over 20,000 draws of an agent: fails wrongly once in 1e6.
    agent = taught(policy=policy, rules=[Rule("closed", arms=["c"])])
    expected = agent.decide(C, propensity=True).propensities
    chosen = agent.decide_many([C] * 20_000, details=False).chosen
    check_counts([chosen.count(arm) for arm in ("a", "b", "c", "d")], expected / expected.sum())


def test_an_arm_that_is_alone_is_played():
    made = taught().decide(C, ["c"], propensity=True)
    assert made.arm == "c" and made.propensity == pytest.approx(1.0, abs=1e-12)


# -- batches ---------------------------------------------------------------------------------


def test_a_batch_is_a_sequence():
    agent = taught(rules=[Rule("closed", arms=["a", "b"])])
    agent.teach_many([C, C], ["c", "d"], [False, False])
    version = agent.version
    batch = agent.decide_many([C, -C, 2 * C], propensity=True, at=7.0)
    assert len(batch) == 3 and batch.ids == [1, 2, 3]
    assert [type(one) for one in batch] == [Abstention, Decision, Decision]
    assert [one.version for one in batch] == [version, version + 1, version + 2]
    assert batch.chosen == [None, batch[1].arm, batch[-1].arm]
    assert (
        [one.event for one in batch[1:]] == batch.events()[1:] == [batch[1].event, batch[-1].event]
    )
    assert batch.events()[0] == Abstained(1, tuple(C), version, None, 7.0, False, 1.0)
    assert isinstance(batch.events()[1], Decided) and batch.events()[1].at == 7.0
    assert batch[::-2][0].id == 3
    with pytest.raises(IndexError):
        batch[3]


def test_a_batch_without_details_has_ids_arms_and_events():
    agent = taught()
    agent.teach_many([C] * 4, ["a", "b", "c", "d"], [False] * 4)
    batch = agent.decide_many([C, -C], details=False)
    assert batch.chosen[0] is None and isinstance(batch[0], Abstention)
    assert [event.id for event in batch.events()] == batch.ids
    with pytest.raises(NotPossible, match="details=False"):
        batch[1]
    # Propensities are details.
    assert agent.decide_many([-C], details=False, propensity=True)[0].propensity > 0.0


def test_one_row_of_eligible_serves_a_batch_of_any_length():
    agent = taught()
    for n in (1, 2, 5):
        assert all(made.eligible.all() for made in agent.decide_many([C] * n))
        for made in agent.decide_many([C] * n, ["b"]):
            assert made.eligible.tolist() == [False, True, False, False]


def test_an_agent_of_one_arm_always_plays_it():
    agent: Any = Agent(**PAPER, arms=[Arm("only")], features=1, policy=LinUCB())
    assert agent.decide([0.0], propensity=True).propensities.tolist() == [1.0]
    assert agent.decide_many([[0.0]] * 3, details=False).chosen == ["only"] * 3


# -- as people see them ------------------------------------------------------------------------


def test_outcomes_are_shown_in_one_informative_line():
    agent = Agent(
        arms=["<i>horror", "drama"],
        features=[Flag("x"), Number("age", 0, 100), Labels("genres", ["a", "b"])],
        budget=3,
        answer_price=0.0,
        seed=1,
    )
    case = {"x": True, "age": 7, "genres": ["a"]}
    question = agent.decide(case, item="Ann")
    assert repr(question) == "<Question 1: is '<i>horror' allowed?, for 'Ann', decision 1 asks>"
    assert repr(agent.decide(case, ask=False)) == "<Abstention 2: nothing may be played>"
    agent.answer(1, True)
    made = agent.decide(case, ["<i>horror"], "d", item="Ann", propensity=True)
    line = "<Decision 'd': play '<i>horror', for 'Ann', among 1, with probability 1"
    assert repr(made).startswith(line)
    smallest = repr(Agent(arms=1, features=1))
    assert smallest.startswith("<Agent 1 arm, 1 column, ") and "0 examples, 0 decisions" in smallest
    assert repr(agent).startswith("<Agent 2 arms, 4 columns, limits='auto', LearnedMask(")
    assert "1 example," in repr(agent) and repr(agent).endswith(f"version {agent.version}>")
    shown = "<Schema flag x, number age 0 to 100, labels genres of 2; 4 columns>"
    assert repr(agent.schema) == shown
    assert repr(agent.decide_many([case] * 3)) == "<Decisions of 3 contexts, 3 abstentions>"
    for one in (question, made, agent, agent.schema):
        page = one._repr_html_()
        assert "\n" not in repr(one) and "<i>" not in page and "script" not in page


def test_what_a_notebook_shows_is_short():
    agent = Agent(arms=1_000, features=500, sigma=0.5)
    for one in (agent, agent.decide(np.zeros(500)), agent.schema):
        assert len(repr(one)) < 300
        assert len(one._repr_html_()) < 5_000 and "more" in one._repr_html_()

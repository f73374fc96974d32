from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import event as note
from hypothesis import given, settings

from bridle import (
    Agent,
    Arm,
    BehaviorConstrained,
    Category,
    Decision,
    Flag,
    Greedy,
    Labels,
    LearnedMask,
    Number,
    Question,
    Rule,
    Schema,
)
from bridle.agent.events import Abstained, Asked, Decided, Event, Rewarded
from bridle.agent.queries import DENIED_HERE, DENIED_ITEM
from bridle.certificates.calibration import Calibration, certify
from bridle.errors import CorruptState, InvalidValue, NotPossible, UnknownId
from bridle.explain.account import account_of
from tests.histories import (
    FEATURES,
    PAPER,
    POLICIES,
    POOLS,
    Life,
    bits,
    first_form,
    lives,
    settings_of_agents,
)

MIXED = FEATURES["mixed"]
FILM = {"age": 30, "smoker": True, "sky": "grey", "genres": ["Horror"]}
KINDS = ("linear", "logistic", "rules", "auto", "found")


def choices(log):
    """Every choice of a log, each with the agent as it was when it chose."""
    agent, made_at = Agent.replay(log[:1]).agent, defaultdict(list)
    for one in log:
        if isinstance(one, Decided | Abstained | Asked):
            made_at[one.version].append(one)
    for one in log[1:]:
        yield from ((agent, choice) for choice in made_at[agent.version])
        agent.apply(one)


def taught(kind="rules", **rest):
    """An agent that was taught and rewarded, in two groups."""
    arms = [Arm(k, group="ab"[k % 2]) for k in range(4)]
    agent = Agent(**{"arms": arms, "features": MIXED, "limits": kind, "seed": 5, **rest})
    for i, context in enumerate(POOLS["mixed"] * 3):
        agent.teach(context, i % 4, i % 3 > 0, by="t", note=f"n{i}")
    agent.learn(POOLS["mixed"], [0, 1, 2], [0.2, 0.9, 0.4])
    return agent


def plain(value):
    """Whether a value is made of Python's own plain kinds alone."""
    if is_dataclass(value):
        return all(plain(getattr(value, field.name)) for field in fields(value))
    if type(value) in (tuple, list):
        return all(map(plain, value))
    if type(value) is dict:
        return all(type(key) is str and plain(item) for key, item in value.items())
    return value is None or type(value) in (str, int, bool, float)


def check_sums(account):
    by_arm = {one.arm: one for one in account.arms}
    for one in account.contributions:
        gave = [share.gave for share in one.shares]
        if one.unit == "change of the probability":
            assert one.base is None
            continue
        assert math.isclose(math.fsum([one.base, *gave]), one.total, rel_tol=0, abs_tol=1e-9)
        if one.part == "reward":
            mean = by_arm[one.arm].reward_mean
            assert math.isclose(one.total, mean, rel_tol=1e-9, abs_tol=1e-9)


@settings(max_examples=60)
@given(settings_of_agents(), lives)
def test_every_choice_of_a_life_has_its_account(arguments, life):
    lived = Life.of(arguments).go(life)
    made = {one.event: one for one in lived.made}
    for agent, choice in choices(lived.log):
        before = bits(agent)
        account = account_of(agent, choice, arms=[agent.arms[-1].id])
        assert bits(agent) == before
        note(f"{account.kind} {agent._state.limits_state.kind}")

        assert account.agrees
        assert (account.id, account.version) == (choice.id, choice.version)
        assert account.arm == getattr(choice, "arm", None)
        assert account.propensity == choice.propensity
        assert agent.schema.encode(account.context).tolist() == list(choice.context)
        if getattr(choice, "visitors", None) is None:  # else those that the request named
            assert [one.arm for one in account.arms] == [arm.id for arm in agent.arms]
        data = account.to_json()
        assert plain(account)
        assert plain(data)
        assert json.loads(json.dumps(data, allow_nan=False)) == data
        check_sums(account)
        if not isinstance(choice, Asked) and choice.places is not None:
            assert account.sigmas == ()
            continue  # a place of a slate has no odds of its own: test_sharing.py
        if agent._state.shared is not None and choice.among is not None:
            continue  # arms that were not named have no scores: test_sharing.py

        play, ask = [one.play for one in account.arms], [one.ask for one in account.arms]
        if account.abstain is None:
            teaching = account.kind == "question" and account.decision is None
            # A question that has a price has no chance of its own.
            assert not account.settled and (teaching or account.kind == "question")
            assert {*play, *ask} == {None}
            assert account.sigmas == () or not teaching
        else:
            chances = [chance for chance in [*play, *ask] if chance is not None]
            assert len(chances) == 2 * len(agent.arms)
            assert math.isclose(math.fsum([*chances, account.abstain]), 1.0, abs_tol=1e-9)
            for one in account.sigmas:
                total = math.fsum([*one.play, *one.ask, one.abstain])
                assert math.isclose(total, 1.0, abs_tol=1e-9)
            assert len(account.sigmas) == (5 if agent.sigma is not None else 0)

        was = made.get(choice)
        if isinstance(was, Decision):
            names = ("reward_mean", "reward_sd", "limit_mean", "limit_sd", "mean", "sd", "draw")
            for name in names:
                assert [getattr(one, name) for one in account.arms] == getattr(was, name).tolist()
            assert [one.eligible for one in account.arms] == was.eligible.tolist()
            if was.odds is not None:
                assert play == was.odds.play.tolist()
                assert ask == was.odds.ask.tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_the_odds_are_those_of_the_decision(kind, policy):
    agent = taught(kind, policy=policy, on_empty="least_bad")
    made = agent.make.decided(FILM, propensity=True)
    bare = agent.make.decided(FILM)
    for event in (made.event, bare.event):
        account = account_of(agent, event)
        assert [one.play for one in account.arms] == made.odds.play.tolist()
        assert account.propensity == event.propensity
        assert account.policy["kind"] == type(policy).__name__
        check_sums(account)
    own = getattr(policy, "sigma", None)
    assert account.sigma == own
    if own is None:
        assert account.sigmas == ()
    else:
        (same,) = account_of(agent, made.event, sigmas=[own]).sigmas
        assert same.play == tuple(made.odds.play.tolist())
        kind = "decision" if isinstance(made, Decision) else "abstention"
        assert (same.kind, same.arm) == (kind, getattr(made, "arm", None))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", [LearnedMask(sigma=0.6), BehaviorConstrained(sigma=0.6)])
def test_another_sigma_does_what_an_agent_with_that_sigma_does(kind, policy):
    agent = taught(kind, policy=policy, budget=9 if policy.needs_limits else 0)
    account = account_of(agent, agent.make.decided(FILM).event, sigmas=[0.0, 0.3, 1.0])
    for one in account.sigmas:
        twin = taught(kind, policy=replace(policy, sigma=one.sigma), budget=agent.settings.budget)
        made = twin.make.decided(FILM, propensity=True)
        assert one.arm == getattr(made, "arm", None)
        if made.odds is None:  # it asks: the odds are of what it would play else
            made = twin.make.decided(FILM, propensity=True, ask=False)
        assert list(one.play) == made.odds.play.tolist()
        assert list(one.ask) == made.odds.ask.tolist()
        assert one.abstain == made.odds.abstain


@pytest.mark.parametrize("prior", ["paper", "centred"])
def test_a_linear_agents_shares_make_both_means(prior):
    agent = taught("linear", policy=BehaviorConstrained(), prior=prior, label_coding="1/-1")
    every = [arm.id for arm in agent.arms]
    account = account_of(agent, agent.make.decided(FILM).event, arms=every)
    assert account.contributions[0].arm == account.contributions[1].arm == account.arm
    assert len(account.contributions) == 2 * len(every)
    for one in account.contributions:
        arm = account.arms[every.index(one.arm)]
        mean = arm.reward_mean if one.part == "reward" else arm.limit_mean
        assert one.unit == ("reward" if one.part == "reward" else "label")
        assert math.isclose(one.total, mean, abs_tol=1e-9)
        named = ["age", "smoker", "sky=grey", "genres=Horror"]
        assert [share.feature for share in one.shares] == named
        assert (one.base == 0.0) == (one.part == "constraint" or prior == "paper")


def test_an_arm_that_was_never_tried_has_the_mean_of_all_rewards_and_no_more():
    agent = taught(prior="centred")
    account = account_of(agent, agent.make.decided(FILM).event, arms=[3])
    one = next(one for one in account.contributions if (one.arm, one.part) == (3, "reward"))
    total, count = agent._state.totals
    assert math.isclose(one.base, total / count, abs_tol=1e-12)
    assert all(abs(share.gave) < 1e-12 for share in one.shares)


def test_an_arm_that_was_never_tried_has_what_is_earned_on_average_in_such_a_context():
    agent = taught()
    account = account_of(agent, agent.make.decided(FILM).event, arms=[3])
    one = next(one for one in account.contributions if (one.arm, one.part) == (3, "reward"))
    model = agent._state.reward_model
    assert math.isclose(one.base, model.rate + model.common[-1], abs_tol=1e-12)
    shown = agent.schema.encode(FILM)
    gave = [share.gave for share in one.shares]
    assert math.isclose(math.fsum(gave), float(shown @ model.common[:-1]), abs_tol=1e-12)
    assert max(map(abs, gave)) > 0.0


@pytest.mark.parametrize("crosses", [False, True])
def test_logistic_shares_are_log_odds(crosses):
    agent = taught("logistic", crosses=crosses)
    made = agent.make.decided(FILM)
    account = account_of(agent, made.event, arms=[0])
    limits, row = agent.limits, agent.schema.encode(FILM)
    for one in account.contributions[1::2]:
        assert (one.part, one.unit) == ("constraint", "log-odds")
        mean, _ = limits.log_odds(int(limits.unit_of[one.arm]), row[None])
        assert math.isclose(one.total, float(mean[0]), abs_tol=1e-9)
        names = [share.feature for share in one.shares]
        assert ("smoker & sky=grey" in names) == crosses
        assert len(names) == (10 if crosses else 4)
        assert all(share.value != 0.0 for share in one.shares)


@pytest.mark.parametrize("kind", ["rules", "auto", "found"])
def test_where_there_are_rules_a_feature_gave_what_is_lost_without_it(kind):
    features = [
        Flag("horror"),
        Number("age", 0, 100, missing=50),
        Labels("who", ["a", "b"]),
        Category("sky", ["clear", "grey"], missing="grey"),
    ]
    agent = Agent(arms=2, features=features, limits=kind)
    film = {"horror": True, "age": 0, "who": ["a", "b"], "sky": "clear"}
    agent.teach(film, 0, False)
    agent.teach({**film, "horror": False}, 0, True)
    account = account_of(agent, agent.make.asked(film).event, arms=[0])
    one = next(one for one in account.contributions if one.arm == 0 and one.part == "constraint")
    row, limits = agent.schema.encode(film), agent.limits
    without = {"horror": (0, 0.0), "age": (1, 0.5), "who=a": (2, 0.0), "who=b": (3, 0.0)}
    without["sky=clear"] = (4, 0.0)
    assert [share.feature for share in one.shares] == list(without)
    assert one.total == float(limits.predict(0, row[None]).p[0])
    for share in one.shares:
        column, absent = without[share.feature]
        other = row.copy()
        other[column] = absent
        assert share.value == row[column]
        assert share.gave == one.total - float(limits.predict(0, other[None]).p[0])
    horror = one.shares[0].gave
    assert horror == min(share.gave for share in one.shares)
    assert horror < -0.5


def test_why_an_arm_may_not_be_played():
    agent = taught("rules", rules=[Rule("first", arms=[1])])
    film = {**FILM, "age": 31}
    agent.teach(film, 2, False)
    row = agent.believed(film)
    account = account_of(agent, agent.make.decided(film, among=[0, 1, 2]).event)
    assert account.among == (0, 1, 2)
    assert [one.why_not for one in account.arms] == list(row.why)
    assert account.arms[1].why_not == "denied by the rule 'first'"
    assert account.arms[2].why_not == DENIED_HERE
    # What is said of an arm is said of its group.
    assert [one.eligible for one in account.arms] == [False, False, False, False]
    assert account.arms[0].why_not == DENIED_HERE
    later = {**FILM, "age": 77}
    agent.teach(later, 2, False, item="It")
    named = account_of(agent, agent.make.decided(later, item="It").event)
    assert named.item == "It" and named.arms[2].why_not == DENIED_ITEM
    other = account_of(agent, agent.make.decided(later, item="Us").event)
    assert other.arms[2].why_not not in (DENIED_ITEM, DENIED_HERE)
    assert [one.novelty for one in account.arms] == row.novelty.tolist()
    assert [one.unseen for one in account.arms] == list(row.unseen)
    assert {one.certified for one in account.arms} == {None}


def test_a_question_that_pays_and_what_its_answer_lets_play():
    log: list[Event] = []
    agent = Agent(arms=3, features=MIXED, limits="rules", budget=5, ask_at_most=1, sink=log.extend)
    question = agent.decide(FILM, item="It", propensity=True)
    assert isinstance(question, Question)
    played = agent.answer(question.id, True).then
    assert isinstance(played, Decision) and played.propensity is not None
    (_, asked), (_, decided) = choices_with_accounts(log)
    assert (asked.kind, asked.decision, asked.arm) == ("question", 1, question.arm)
    assert asked.item == decided.item == "It"
    assert asked.wanted == question.arm and asked.agrees and decided.agrees
    assert asked.cost == asked.worth > 0.0 and 0.0 <= asked.price
    assert asked.price <= agent.settings.answer_price
    assert asked.asking.startswith("Asked: not knowing has cost ")
    assert asked.propensity is None and not asked.settled
    assert (decided.kind, decided.arm, decided.settled) == ("decision", question.arm, False)
    assert decided.asking is not None


def test_what_not_knowing_costs_adds_up_until_an_answer_pays():
    log: list[Event] = []
    agent = Agent(arms=2, features=2, budget=5, seed=3, answer_price=0.9, sink=log.extend)
    for _ in range(4):
        agent.teach([1.0, 0.0], 0, True, item="Up")
        agent.teach([1.0, 0.0], 1, False)
        agent.teach([0.0, 1.0], 1, True)
        agent.teach([0.0, 1.0], 0, True)
    agent.learn([[1.0, 1.0]] * 20, [0, 1] * 10, [0.5, 0.9] * 10)
    while not isinstance(log[-1], Asked):
        agent.decide([1.0, 1.0], item="Up")
    told = [account for _, account in choices_with_accounts(log)]
    waited, asked = told[:-1], told[-1]
    assert waited
    so_far = 0.0
    for one in waited:
        if one.wanted is None:
            assert one.asking == "Not asked: nothing that is in doubt looked better."
            continue
        so_far += one.worth
        assert one.cost == pytest.approx(so_far) and one.cost < one.price
        said = f"an answer is worth {one.price:.2f} of a reward, and not knowing has cost"
        assert one.asking == f"Not asked: {said} {one.cost:.2f} so far."
    assert asked.cost == pytest.approx(so_far + asked.worth)
    assert asked.cost >= asked.price or "in all cases" in asked.asking


@pytest.mark.parametrize(
    ("options", "ask", "why"),
    [
        ({}, True, "Not asked: this agent has no budget for questions."),
        ({"budget": 3}, False, "Not asked: this decision was made without questions."),
        ({"policy": Greedy()}, True, None),
    ],
)
def test_why_nothing_could_be_asked(options, ask, why):
    agent = taught(**options)
    account = account_of(agent, agent.make.decided(FILM, ask=ask).event)
    assert account.asking == why
    assert (account.wanted, account.worth, account.cost, account.price) == (None,) * 4


def test_a_question_that_a_decision_waits_for_and_what_its_answer_settles():
    log: list[Event] = []
    agent = first_form(arms=3, features=MIXED, limits="rules", budget=5, sink=log.extend)
    question = agent.decide(FILM, propensity=True)
    assert isinstance(question, Question)
    assert question.odds is not None
    agent.answer(question.id, True)
    (first, asked), (second, decided) = choices_with_accounts(log)
    assert (asked.kind, asked.decision, asked.arm) == ("question", 1, question.arm)
    assert asked.propensity == next(one.ask for one in asked.arms if one.arm == question.arm)
    assert [one.ask for one in asked.arms] == question.odds.ask.tolist()
    assert not asked.settled
    assert len(asked.sigmas) == 5
    best = max(asked.arms, key=lambda one: one.draw)
    assert best.arm == question.arm
    assert (decided.kind, decided.settled, decided.abstain) == ("decision", True, None)
    assert decided.arm == question.arm
    assert decided.sigmas == ()
    # What was settled is shown as it was asked.
    assert [one.draw for one in decided.arms] == [one.draw for one in asked.arms]
    assert first.version == question.version < second.version


def choices_with_accounts(log):
    return [(choice, account_of(agent, choice)) for agent, choice in choices(log)]


def test_a_question_that_is_filed_beside_a_decision():
    log: list[Event] = []
    agent = Agent(
        arms=3,
        features=MIXED,
        limits="rules",
        budget=5,
        on_doubt="play_safe",
        sink=log.extend,
    )
    agent.teach(FILM, 0, True)
    while not log or not isinstance(log[-1], Asked):
        agent.decide(FILM)
    (_, played), (_, filed) = choices_with_accounts(log)[-2:]
    assert (played.kind, played.arm) == ("decision", 0)
    assert (filed.kind, filed.decision) == ("question", played.id)
    assert filed.agrees
    assert filed.arm != 0
    for account in (filed, played):
        assert [one.play for one in account.arms] == pytest.approx([1.0, 0.0, 0.0], abs=1e-12)


@pytest.mark.parametrize("teaching", ["random", "thompson", "arm", "pool"])
def test_a_question_to_be_taught_by(teaching):
    agent = taught(teaching=teaching)
    asked = agent.make.asked(FILM)
    account = account_of(agent, asked.event)
    assert (account.kind, account.decision, account.arm) == ("question", None, asked.arm)
    assert account.agrees
    assert not account.settled
    assert {(one.mean, one.sd, one.draw, one.play, one.ask) for one in account.arms} == {
        (None,) * 5
    }
    if teaching in ("arm", "pool"):
        told = {one.arm: one.information for one in account.arms}
        assert told[asked.arm] == max(told.values())


def test_an_abstention_is_about_the_arm_that_is_most_likely_allowed():
    agent = taught(policy=LearnedMask(sigma=0.5))
    for arm in range(4):
        agent.teach(FILM, arm, False)
    made = agent.make.decided(FILM, propensity=True)
    account = account_of(agent, made.event)
    assert (account.kind, account.arm, account.abstain) == ("abstention", None, 1.0)
    assert {one.why_not for one in account.arms} == {DENIED_HERE}
    assert {(one.kind, one.arm, one.abstain) for one in account.sigmas} == {
        ("abstention", None, 1.0)
    }
    assert all(one.draw is not None for one in account.arms)
    agent = Agent(arms=3, features=MIXED, limits="rules")
    agent.teach({**FILM, "genres": []}, 2, True)
    made = agent.make.decided(FILM)
    assert isinstance(made.event, Abstained)
    account = account_of(agent, made.event)
    assert account.about == 2
    assert account.about == max(account.arms, key=lambda one: one.p).arm
    assert account_of(agent, agent.make.decided(FILM, among=[0]).event).about == 0
    assert account_of(agent, agent.make.decided(FILM, among=[]).event).about == 2


def test_the_certificate_in_force():
    agent = Agent(arms=2, features=2, limits="logistic", policy=BehaviorConstrained(sigma=0.5))
    for _ in range(20):
        agent.teach([1.0, 0.0], 0, True)
        agent.teach([1.0, 0.0], 1, False)
    rows = agent.schema.encode_many([[1.0, 0.0]] * 60)
    calibration = Calibration(contexts=rows, allowed=np.tile([True, False], (60, 1)))
    certificate = certify(agent.limits, calibration, alpha=0.05, delta=0.1, on="a test")
    assert account_of(agent, agent.make.decided([1.0, 0.0]).event).certificate is None
    agent.adopt(certificate)
    account = account_of(agent, agent.make.decided([1.0, 0.0]).event)
    promise, held = account.certificate, agent.certificate
    assert promise is not None
    assert held is not None
    assert (promise.alpha, promise.delta) == (0.05, 0.1)
    assert promise.threshold == certificate.threshold
    assert promise.sentence == held.sentence()
    assert [one.certified for one in account.arms] == [True, False]
    assert [one.eligible for one in account.arms] == [True, False]
    assert [one.play for one in account.arms] == pytest.approx([1.0, 0.0], abs=1e-9)


def test_the_reward_if_it_came():
    agent = taught(reward_range=(-3.0, 5.0), policy=Greedy())
    event = agent.make.decided(FILM).event
    assert account_of(agent, event).reward is None
    assert account_of(agent, event, reward=4).to_json()["reward"] == 4.0
    with pytest.raises(InvalidValue):
        account_of(agent, event, reward=6.0)


def test_an_agent_at_another_version_cannot_say():
    agent = taught()
    event = agent.decide(FILM).event
    with pytest.raises(NotPossible, match=r"made from 11 events, and the agent holds 12"):
        account_of(agent, event)


def test_an_event_of_another_agent_does_not_agree():
    policy = BehaviorConstrained(**{"sigma": 0.5})
    agent = taught(on_empty="least_bad", policy=policy, exact_denials=False)
    event = agent.make.decided(FILM, propensity=True).event
    other = next(arm.id for arm in agent.arms if arm.id != event.arm)
    assert account_of(agent, event).agrees
    assert not account_of(agent, replace(event, arm=other)).agrees
    assert not account_of(agent, replace(event, propensity=event.propensity / 2)).agrees
    abstained = Abstained(event.id, event.context, event.version)
    assert not account_of(agent, abstained).agrees
    asked = Asked(9, event.context, event.arm, event.version, decision=event.id)
    assert not account_of(agent, asked).agrees


@pytest.mark.parametrize(
    "bad",
    [
        {"sigmas": [1.5]},
        {"sigmas": ["a"]},
        {"sigmas": 0.5},
        {"sigmas": [0.5] * 102},
        {"sigmas": [math.nan]},
        {"most": -1},
        {"most": 1.5},
        {"top": -1},
        {"top": True},
        {"reward": 2.0},
        {"reward": "1"},
        {"arms": 3},
        {"arms": "ab"},
    ],
)
def test_bad_input_is_refused(bad):
    agent = taught()
    event = agent.make.decided(FILM).event
    before = bits(agent)
    with pytest.raises(InvalidValue):
        account_of(agent, event, **bad)
    assert bits(agent) == before


def test_bad_agents_events_and_arms_are_refused():
    agent = taught()
    event = agent.make.decided(FILM).event
    with pytest.raises(InvalidValue, match="'agent' parameter of account_of"):
        account_of(agent._state, event)
    for wrong in (None, Rewarded(1, 0.5), agent.make.decided(FILM)):
        with pytest.raises(InvalidValue, match="'event' parameter of account_of"):
            account_of(agent, wrong)
    for change in ({"context": (1.0,)}, {"context": (math.inf,) * 6}, {"version": "1"}):
        with pytest.raises(InvalidValue):
            account_of(agent, replace(event, **change))
    with pytest.raises(UnknownId):
        account_of(agent, event, arms=["nobody"])
    with pytest.raises(UnknownId):
        account_of(agent, Decided(1, event.context, "nobody", event.version))
    with pytest.raises(UnknownId):
        account_of(agent, replace(event, among=("nobody",)))


def test_the_papers_agent_has_its_account():
    agent = Agent(arms=3, features=2, **PAPER)
    agent.teach([1.0, 0.0], 1, True)
    account = account_of(agent, agent.make.decided([1.0, 0.5]).event, arms=[1])
    label = next(one for one in account.contributions if (one.arm, one.unit) == (1, "label"))
    assert [(share.feature, share.gave) for share in label.shares] == [("x0", 0.5), ("x1", 0.0)]


# -- as text, and of what is past --


def many_films(n=3_000):
    genres = ["Horror", "Drama", "Comedy"]
    arms = [
        Arm(f"f{k}", f"Film {k}", features={"genres": [genres[k % 3]], "year": 1960 + k % 60})
        for k in range(n)
    ]
    schema = Schema([Labels("genres", genres, optional=True), Number("year", 1960, 2020)])
    agent = Agent(
        arms=arms, features=[Flag("child")], arm_features=schema, on_empty="least_bad", seed=2
    )
    for k in range(40):
        agent.teach({"child": k % 2 == 0}, f"f{k}", k % 2 == 1 or k % 3 != 0)
    return agent


def test_a_catalogues_account_is_short_as_text_and_whole_as_an_object():
    agent = many_films()
    made = agent.decide({"child": False}, among=None)
    agent.reward(made.id, 1.0)
    event = agent.make.decided({"child": True}).event
    account = account_of(agent, event, arms=["f1", "f2"])
    text = str(account)
    assert len(text) < 4_000 and text.count("\n") < 25
    assert f"{event.arm!r}" in text and "context: child=True" in text
    assert f"and {3_000 - 5:,} more" in text
    assert len(repr(account)) < 200
    assert len(account.to_json()["arms"]) == len(account.arms) >= 990
    small = Agent(arms=["a", "b"], features=2, seed=1)
    event = small.make.decided([1.0, 0.0]).event
    assert "more" not in str(account_of(small, event)).partition("arms, by their draw:")[2]


def test_every_choice_has_a_text():
    agent = taught(budget=3, answer_price=0.0)
    for event in (agent.make.asked(FILM).event, agent.make.decided(FILM).event):
        assert str(account_of(agent, event)).startswith(account_of(agent, event).kind)
    unsure = Agent(arms=2, features=1, budget=0, seed=1)
    event = unsure.make.decided([1.0]).event
    assert str(account_of(unsure, event)).startswith("abstention 1: nothing was played, of 2 arms")


def test_a_choice_that_is_past_is_explained_from_the_log():
    log: list[Event] = []
    agent = taught(sink=log.extend)
    made = agent.decide(FILM)
    wanted = account_of(Agent.replay(log[:-1]).agent, made.event)
    if isinstance(made, Decision):
        agent.reward(made.id, 2.0)
    agent.teach(FILM, 1, True)
    with pytest.raises(NotPossible, match=r"account_of\(agent, event, log=events\)"):
        account_of(agent, made.event)
    before = bits(agent)
    assert account_of(agent, made.event, log=log).to_json() == wanted.to_json()
    assert account_of(agent, made.event, log=iter(log)).agrees
    assert bits(agent) == before
    for wrong in (log[:3], 3, "log"):
        with pytest.raises(InvalidValue, match="'log' parameter of account_of"):
            account_of(agent, made.event, log=wrong)
    for wrong in (log[1:], []):
        with pytest.raises(CorruptState):
            account_of(agent, made.event, log=wrong)

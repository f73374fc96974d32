"""Agents that keep to a certificate."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bridle import (
    Abstention,
    Agent,
    BehaviorConstrained,
    Decision,
    Flag,
    LearnedMask,
    Rule,
    Thompson,
    When,
)
from bridle.agent.events import Certified, Uncertified, event_from_json, event_to_json
from bridle.certificates.calibration import Calibration, Certification, certify
from bridle.certificates.certificate import Certificate
from bridle.errors import InvalidValue, NotPossible
from tests.histories import bits

FEATURES = [Flag("horror"), Flag("late")]
ROWS = [[h, late] for h in (0.0, 1.0) for late in (0.0, 1.0)]


def allowed(row: list[float], arm: int) -> bool:
    return arm == 0 or not row[0]


def taught(**options: Any) -> Any:
    given = {"arms": 2, "features": FEATURES, "limits": "logistic", "seed": 3}
    agent = Agent(**(given | options))
    for row in ROWS * 3:
        for arm in (0, 1):
            context = {"horror": bool(row[0]), "late": bool(row[1])}
            agent.teach(context, arm, allowed(row, arm))
    return agent


def certificate_of(agent: Agent, n: int = 100) -> Certificate:
    contexts = np.array(ROWS * n)
    truth = np.array([[allowed(row, k) for k in (0, 1)] for row in ROWS * n])
    calibration = Calibration(contexts=contexts, allowed=truth)
    return certify(agent.limits, calibration, alpha=0.05, delta=0.1, about=agent.about)


LATE = {"horror": True, "late": True}
POLICIES = [LearnedMask(), Thompson(), BehaviorConstrained(sigma=1.0)]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_every_policy_keeps_to_the_certified_set(policy, tmp_path):
    log: list[Any] = []
    agent = taught(policy=policy, exact_denials=False, sink=log.extend)
    agent.learn([LATE] * 50, [1] * 50, [1.0] * 50)  # violating pays
    agent.learn([LATE] * 50, [0] * 50, [0.0] * 50)
    free = agent.decide_many([LATE] * 50).chosen
    agent.adopt(certificate_of(agent), by="officer")
    assert agent.certificate is not None
    assert agent.believed(LATE).certified.tolist() == [True, False]
    assert set(agent.decide_many([LATE] * 50).chosen) == {0}
    made = agent.decide(LATE, propensity=True)
    assert isinstance(made, Decision) and made.odds is not None
    assert made.odds.play.tolist() == pytest.approx([1.0, 0.0])
    if policy != LearnedMask():
        assert 1 in free
    # It is an event like all others.
    disk = [event_from_json(json.loads(json.dumps(event_to_json(event)))) for event in log]
    replay = Agent.replay(disk)
    assert replay.agrees and bits(replay.agent) == bits(agent)
    agent.save(tmp_path / "agent")
    assert bits(Agent.load(tmp_path / "agent")) == bits(agent)
    agent.drop_certificate(note="over")
    assert agent.certificate is None and isinstance(log[-1], Uncertified)
    with pytest.raises(NotPossible, match="keeps to no certificate"):
        agent.drop_certificate()


def test_what_was_allowed_to_the_letter_may_be_played():
    agent = taught()
    certificate = certificate_of(agent)
    agent.adopt(certificate)
    agent.retract_many([e.id for e in agent.examples if e.arm == 1 and not e.allowed])
    agent.teach(LATE, 1, True, item="It")  # the teacher has another view now
    assert not agent.believed(LATE, "It").certified[1]
    assert isinstance(agent.decide(LATE, among=[1], item="It"), Decision)
    assert isinstance(agent.decide(LATE, among=[1], item="Us"), Abstention)
    other = {"horror": True, "late": False}
    assert isinstance(agent.decide(other, among=[1]), Abstention)


def test_the_live_limits_go_on_learning_and_count_too():
    agent = taught(exact_denials=False)
    certificate = certificate_of(agent)
    context = {"horror": False, "late": True}
    for _ in range(30):
        agent.teach(context, 1, False)
    with pytest.raises(InvalidValue, match="learned_since=True"):
        agent.adopt(certificate)
    agent.adopt(certificate, learned_since=True)
    assert agent.believed(context).certified.all() and not agent.believed(context).safe[1]
    assert isinstance(agent.decide(context, among=[1]), Abstention)
    agent.add_arms(["new"])  # not certified, whatever it is
    assert agent.believed(context).certified.tolist() == [True, True, False]


def test_a_safe_arm_is_among_the_assumptions_and_needs_no_certificate():
    log: list[Any] = []
    agent = taught(on_empty="safe_arm", safe_arm=1, sink=log.extend)
    agent.adopt(certificate_of(agent))
    assert "The safe arm 1 is allowed in every context." in log[-1].certificate.assumptions
    agent.drop_certificate()
    agent.adopt(log[-2].certificate)
    assert sum("safe arm" in said for said in agent.certificate.assumptions) == 1


def test_what_cannot_bind_is_refused():
    agent = taught()
    certificate = certificate_of(agent)
    before = bits(agent)
    with pytest.raises(InvalidValue, match="a Certificate"):
        agent.adopt("trust me")
    other = Agent(arms=3, features=FEATURES)
    with pytest.raises(InvalidValue, match="certificate from other limits"):
        other.adopt(certificate)
    # Of the same size, and yet about something else: other arms, other features.
    for arms, features in ((["a", "b"], FEATURES), (2, [Flag("horror"), Flag("early")])):
        other = Agent(arms=arms, features=features, limits="logistic")
        with pytest.raises(InvalidValue, match="about the arms and features of this agent"):
            other.adopt(certificate, learned_since=True)
        with pytest.raises(InvalidValue, match="about the arms and features of this agent"):
            other.apply(Certified(certificate))
    with pytest.raises(InvalidValue, match="says which arms and features it is about"):
        agent.adopt(replace(certificate, about=""), learned_since=True)
    with pytest.raises(InvalidValue, match="'about' parameter of certify must be a sha256"):
        rows, fine = np.ones((50, 2)), np.ones((50, 2), bool)
        certify(agent.limits, Calibration(rows, fine), alpha=0.1, delta=0.1, about="mine")
    reckless = taught(on_empty="least_bad")
    with pytest.raises(NotPossible, match="least_bad"):
        reckless.adopt(certificate_of(reckless))
    with pytest.raises(NotPossible, match="least_bad"):
        reckless.apply(Certified(certificate))
    assert bits(agent) == before


def test_a_certification_asks_for_what_it_needs():
    agent = taught()
    contexts = [{"horror": bool(h), "late": bool(late)} for h, late in ROWS] * 60
    certification = agent.certification(contexts, alpha=0.05, delta=0.1)
    while (question := certification.question()) is not None:
        index, arm = question
        certification.answer(allowed(ROWS[index % 4], arm))
    assert certification.disagreements == []
    agent.adopt(certification.certificate())
    assert agent.certificate is not None and agent.certificate.answers > 0


def test_it_says_what_the_certificate_takes_out():
    rule = Rule("never late", arms=[1], when=[When("late", equals=True)])
    agent = taught(exact_denials=False, policy=Thompson())
    plain = {"horror": False, "late": False}
    scary = {"horror": True, "late": False}
    assert agent.decide(plain).certified is None
    agent.adopt(certificate_of(agent))
    made: Any = agent.decide(scary)
    said = agent.believed(scary)
    assert made.certified.tolist() == [True, False] and isinstance(made, Decision)
    assert said.why == (None, "not certified") and said.playable.tolist() == [True, False]
    nothing: Any = agent.decide(scary, among=[1])
    assert nothing.certified.tolist() == [True, False] and isinstance(nothing, Abstention)
    batch = agent.decide_many([scary, plain])
    assert [one.certified.tolist() for one in batch] == [[True, False], [True, True]]
    agent.declare(rule)
    assert agent.believed(LATE).why == (None, "denied by the rule 'never late'")
    for _ in range(40):
        agent.teach(plain, 1, False)
    assert agent.believed(plain).why[1] == "surely denied, by the limits"
    assert agent.believed(plain).certified.all() and not agent.believed(plain).playable[1]
    exact = taught()
    assert exact.believed(scary).why[1] == "denied by the teacher in this very context"
    unsure = Agent(arms=1, features=FEATURES, limits="logistic")
    assert unsure.believed(scary).why == ("not surely allowed, by the limits",)


def test_contexts_that_were_taught_are_refused():
    agent = Agent(arms=2, features=6, limits="logistic")
    rows = np.random.default_rng(1).random((60, 6))
    agent.teach_many(rows, [0] * 60, [True] * 60)
    for contexts in (rows, np.vstack([rows, rows[:1]])):  # also with one of them twice
        with pytest.raises(InvalidValue, match="fresh"):
            agent.certification(contexts, alpha=0.05, delta=0.1)


def test_a_certificate_that_was_made_by_hand_is_refused():
    agent = taught()
    forged = replace(certificate_of(agent), alpha=1e-6)
    with pytest.raises(InvalidValue, match="certify"):
        agent.adopt(forged)


def test_its_questions_name_the_arms_and_disagreement_is_loud():
    agent = Agent(arms=["crime", "nature"], features=FEATURES, limits="logistic")
    contexts = [{"horror": bool(h), "late": bool(late)} for h, late in ROWS] * 15
    items = list(range(len(contexts)))
    for n in range(20):
        for arm in ("crime", "nature"):
            agent.teach(contexts[n], arm, True, by="editor", item=n)
    asking = agent.certification(contexts, alpha=0.5, delta=0.1, items=items)
    assert asking.question() in ((0, "crime"), (0, "nature"))
    while (question := asking.question()) is not None:
        _, arm = question
        asking.answer(arm != "crime")  # compliance has another view
    assert asking.disagreements and {arm for _, arm in asking.disagreements} == {"crime"}
    again = Certification.from_state(asking.to_state())
    assert again.disagreements == asking.disagreements
    made = asking.certificate()
    assert again.certificate() == made
    told = f"{len(asking.disagreements)} calibration answers deny what an example that stands"
    assert told in made.sentence() and "Retract those examples." in made.sentence()
    for example in agent.examples:  # as they are, not by their ids
        if example.arm == 0:
            agent.retract(example)
    assert {example.arm for example in agent.examples} == {1}

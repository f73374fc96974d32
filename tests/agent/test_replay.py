"""A log is folded again, and every choice in it made again from the version that it names."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from bridle import Agent, Arm, Rule, Uniform
from bridle.agent.events import Abstained, Asked, Created, Decided, Rewarded
from bridle.agent.replay import Replay
from bridle.errors import CorruptState, InvalidValue
from tests.histories import PAPER, bits

C = np.array([1.0, -0.5])


def a_log(**more: Any) -> tuple[Any, list[Any]]:
    log: list[Any] = []
    agent: Any = Agent(**PAPER, arms=["a", "b", "c"], features=2, seed=8, sink=log.extend, **more)
    rng = np.random.default_rng(9)
    for i in range(15):
        c = rng.standard_normal(2)
        agent.answer(agent.ask(c), bool(i % 3))
        made = agent.decide(c, propensity=bool(i % 2))
        if i % 4:
            agent.reward(made.id, rng.random())
    return agent, log


def place_of(log: list[Any], kind: type) -> int:
    return next(i for i, event in enumerate(log) if isinstance(event, kind) and i > 20)


def changed(log: list[Any], place: int, **fields: Any) -> list[Any]:
    return [*log[:place], replace(log[place], **fields), *log[place + 1 :]]


def test_a_version_is_the_number_of_events_folded_when_it_was_made():
    agent, log = a_log()
    for place, event in enumerate(log):
        if isinstance(event, Asked | Decided):
            assert event.version == place
    assert agent.version == len(log)
    batch = agent.decide_many([C] * 3)
    assert [event.version for event in batch.events()] == [len(log) - 3, len(log) - 2, len(log) - 1]
    assert [q.version for q in agent.ask_many([C] * 2)] == [len(log) - 2, len(log) - 1]


def test_a_replay_gives_the_agent_and_what_it_checked():
    agent, log = a_log()
    told: list[Any] = []
    replay = Agent.replay(iter(log), sink=told.extend)
    assert isinstance(replay, Replay) and replay.agrees and replay.differing == ()
    assert replay.checked == 30
    assert bits(replay.agent) == bits(agent)
    assert not told  # what is replayed is in the log already
    replay.agent.decide(C)
    assert len(told) == 1
    assert Agent.replay(log[:1]).checked == 0


def test_replicas_make_at_one_version_and_commit_later():
    agent, log = a_log()
    version = agent.version
    made = [agent.make.decided(C, id=f"d{i}", propensity=True) for i in range(4)]
    made += [agent.make.asked(C, id=f"q{i}") for i in range(2)]
    made.append(agent.make.decided(C, [], id="nothing"))
    assert {one.version for one in made} == {version}
    agent.learn([C] * 50, ["a"] * 50, [1.0] * 50)  # what it knows is another thing now
    agent.set_sigma(1.0)
    for i, one in enumerate(made):
        agent.apply(one.event)
        log.append(one.event)
        agent.reward_many(["d0"] if i == 2 else [], [0.5] if i == 2 else [])
    agent.decide(C)
    replay = Agent.replay(log)
    assert replay.agrees and replay.checked == 30 + len(made) + 1
    assert bits(replay.agent) == bits(agent)
    # A choice made then is not what would be chosen now: the version matters.
    now = [
        replace(e, version=i) if getattr(e, "version", 0) == version else e
        for i, e in enumerate(log)
    ]
    assert not Agent.replay(now).agrees


@pytest.mark.parametrize("kind", [Decided, Asked])
def test_a_tampered_arm_is_found(kind):
    _, log = a_log()
    place = place_of(log, kind)
    event = log[place]
    other = next(arm for arm in "abc" if arm != event.arm)
    # Up to there: an answer to a question about another arm no longer fits.
    assert event.id in Agent.replay(changed(log, place, arm=other)[: place + 1]).differing


def test_a_tampered_propensity_is_found_to_the_last_bit():
    _, log = a_log()
    place = next(
        i for i, e in enumerate(log) if isinstance(e, Decided) and e.propensity is not None
    )
    wrong = float(np.nextafter(log[place].propensity, 1.0))
    replay = Agent.replay(changed(log, place, propensity=wrong))
    assert replay.differing == (log[place].id,)


def test_a_tampered_draw_is_found():
    # A draw is a function of seed, id and arm. With other draws 60 uniform choices out of 3 come
    # out the same with a probability of 3^-60.
    log: list[Any] = []
    agent: Any = Agent(**PAPER, arms=3, features=2, policy=Uniform(), seed=8, sink=log.extend)
    agent.decide_many([C] * 60, ids=[f"d{i}" for i in range(60)])
    other_seed = [Created(replace(agent.settings, seed=9)), *log[1:]]
    other_ids = [log[0], *(replace(event, id=f"{event.id}x") for event in log[1:])]
    assert Agent.replay(log).agrees
    for tampered in (other_seed, other_ids):
        # About 40 of 60 differ; fewer than 20 with a probability below 1e-7.
        assert len(Agent.replay(tampered).differing) >= 20


def test_a_decision_that_was_none_is_found():
    agent, log = a_log()
    made = agent.decide(C, among=["a"])
    place = len(log) - 1
    for lie in (
        Abstained(made.id, made.context, made.version, ("a",)),
        replace(made.event, among=("b",)),
        replace(made.event, among=("a", "no such arm")),
        replace(made.event, arm="b"),
    ):
        assert made.id in Agent.replay([*log[:place], lie]).differing
    agent.declare(Rule("closed"))
    nothing = agent.decide(C)
    lie = Decided(nothing.id, nothing.context, "a", nothing.version)
    assert Agent.replay([*log[:-1], lie]).differing == (nothing.id,)


def test_an_arm_that_came_later_could_not_be_chosen():
    agent, log = a_log()
    early = agent.make.decided(C, id="early").event
    agent.add_arms([Arm("late")])
    replay = Agent.replay([*log, replace(early, arm="late")])
    assert replay.differing == ("early",)


def test_the_order_of_a_log_matters():
    _, log = a_log()
    swaps = 0
    for place, (one, two) in enumerate(pairwise(log)):
        if isinstance(one, Rewarded) and isinstance(two, Asked):
            swapped = [*log[:place], two, one, *log[place + 2 :]]
            with pytest.raises(CorruptState, match=f"Event {place + 1} "):
                Agent.replay(swapped)  # the question names a version that had not been
            swaps += 1
    assert swaps > 5


@pytest.mark.parametrize("version", [0, -1, 10**6, True, 1.0, None], ids=repr)
@pytest.mark.parametrize("kind", [Decided, Asked, Abstained])
def test_an_impossible_version_is_found(kind, version):
    agent, log = a_log()
    agent.declare(Rule("closed"))
    agent.decide(C)
    place = place_of(log, kind)
    with pytest.raises(CorruptState, match=f"Event {place + 1} of the log does not fit"):
        Agent.replay(changed(log, place, version=version))
    if kind is not Abstained:
        with pytest.raises(CorruptState, match=f"at most {place}, as so many"):
            Agent.replay(changed(log, place, version=place + 1))


def test_a_log_begins_with_created():
    _, log = a_log()
    bad: list[Any] = [[], log[1:], [None, *log], "log", {}]
    for wrong in bad:
        with pytest.raises(CorruptState, match="begins with the event Created"):
            Agent.replay(wrong)
    with pytest.raises(InvalidValue, match="a list of events"):
        Agent.replay(5)
    with pytest.raises(CorruptState, match=r"Event 2 .* created once"):
        Agent.replay([log[0], log[0]])
    with pytest.raises(CorruptState, match="Event 1 "):
        Agent.replay([Created(None)])
    settings = replace(log[0].settings, arms=(Arm(1), Arm(1)))
    with pytest.raises(CorruptState, match=r"Event 1 .* distinct"):
        Agent.replay([Created(settings)])


def test_what_cannot_be_folded_is_named_by_its_place():
    _, log = a_log()
    bad: list[tuple[Any, str]] = [
        (Rewarded(999, 0.5), "No pending decision 999"),
        (Rewarded(1, 7.0), "range"),
        (None, "one of bridle"),
        ("Rewarded", "one of bridle"),
        (Decided("x", (1.0,), "a", 3), "2 numbers"),
        (Decided("x", (1.0, 1.0), "no such", 31), "No arm"),
    ]
    for wrong, words in bad:
        with pytest.raises(CorruptState, match=f"Event 31 of the log does not fit: .*{words}"):
            Agent.replay([*log[:30], wrong, *log[30:]])
    with pytest.raises(InvalidValue, match="'sink'"):
        Agent.replay(log, sink=5)


def test_choices_are_looked_up_ahead_within_a_window(monkeypatch):
    agent, log = a_log()
    monkeypatch.setattr("bridle.agent.replay.WINDOW", 5)
    assert Agent.replay(log).agrees
    made = agent.make.decided(C, id="late").event
    for _ in range(3):
        agent.teach(C, "a", True)
    replay = Agent.replay([*log, made])
    assert replay.agrees and replay.checked == 31
    for _ in range(3):
        agent.teach(C, "a", True)
    with pytest.raises(CorruptState, match="no more than 5 events before"):
        Agent.replay([*log, made])

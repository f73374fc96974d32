"""A batch is one by one, a replay is the life itself, a restart is no restart: to the bit."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import Abstention, Agent, Arm, Decision, Question, Rule
from bridle.agent.events import (
    Abstained,
    ArmsVisited,
    Asked,
    Created,
    Decided,
    Erased,
    Event,
    Judged,
    event_from_json,
    event_to_json,
)
from tests.histories import OPS, PAPER, POLICIES, Life, bits, lives, seen, settings_of_agents


def test_the_lives_below_hold_every_kind_of_event():
    arguments = {"world": "plain", "arms": 5, "features": 3, "exact_denials": True}
    # Else it would play nothing: it is taught too little to be sure of anything.
    arguments |= {"on_empty": "safe_arm", "safe_arm": 0, "prior": "scaled"}
    arms = [Arm(k, group="ab"[k % 2]) for k in range(5)]
    life = [(op, n, 0.5) for n in (2, 7) for op in OPS] + [("note", n, 0.5) for n in range(8)]
    life.append(("expire", 1, 0.5))  # what was decided last
    life += [("set_policy", n, 0.1) for n in (2, 7)]
    lived = Life.of({**arguments, "arms": arms}).go([*life, ("decide_quietly", 1, 0.5), *life])
    # No agent makes an Erased: a store puts it in the place of what was erased.
    # Words of declared teachers: tests/agent/test_agent_teachers.py.
    # Arms that nobody stored: where arms have features, below.
    never = {Erased, Judged, ArmsVisited}
    assert {type(event) for event in lived.log} | never == set(get_args(Event))
    assert {type(one) for one in lived.made} == {Decision, Question, Abstention}


@given(settings_of_agents(), lives)
def test_a_batch_has_the_bits_of_one_by_one(arguments, life):
    many, single = Life.of(arguments).go(life), Life.of(arguments, bulk=False).go(life)
    assert seen(many.made) == seen(single.made)
    assert many.log == single.log
    assert bits(many.agent) == bits(single.agent)


@given(settings_of_agents(), lives)
def test_a_replay_makes_every_choice_again_and_ends_in_the_same_bits(arguments, life):
    lived = Life.of(arguments).go(life)
    disk = json.loads(json.dumps([event_to_json(event) for event in lived.log]))
    log = [event_from_json(data) for data in disk]
    assert log == lived.log
    replay = Agent.replay(log)
    assert bits(replay.agent) == bits(lived.agent)
    choices = [event for event in log if isinstance(event, Decided | Abstained | Asked)]
    assert replay.agrees and replay.checked == len(choices)


@given(settings_of_agents(), lives, lives)
def test_a_restart_is_no_restart(arguments, before, after):
    lived = Life.of(arguments).go(before)
    with tempfile.TemporaryDirectory() as folder:
        lived.agent.save(Path(folder, "agent"))
        loaded = Agent.load(Path(folder, "agent"))
    assert bits(loaded) == bits(lived.agent)
    twin = lived.go_on_as(loaded).go(after)
    lived.made.clear()
    log = len(lived.log)
    lived.go(after)
    assert seen(twin.made) == seen(lived.made)
    assert twin.log == lived.log[log:]
    assert bits(twin.agent) == bits(lived.agent)


@given(settings_of_agents(), lives)
def test_folding_what_the_sink_saw_gives_the_same_agent(arguments, life):
    lived = Life.of(arguments).go(life)
    created, *rest = lived.log
    twin = Agent(sink=None, **{k: v for k, v in arguments.items() if k != "world"})
    for event in rest:
        twin.apply(event)
    assert bits(twin) == bits(lived.agent)
    assert Created(twin.settings) == created
    assert twin.version == len(lived.log)


@given(settings_of_agents(), lives, st.data())
def test_a_tampered_choice_is_found(arguments, life, data):
    lived = Life.of(arguments).go([*life, ("decide", 1, 0.0), ("ask", 2, 0.0), ("abstain", 3, 0.0)])
    choices = [i for i, event in enumerate(lived.log) if isinstance(event, Decided | Asked)]
    place = data.draw(st.sampled_from(choices))
    event = lived.log[place]
    others = [arm.id for arm in lived.agent.arms if arm.id != event.arm]
    arms_then = {arm.id for arm in arguments["arms"]}
    other = data.draw(st.sampled_from([arm for arm in others if arm in arms_then]))
    fields = event_to_json(event) | {"arm": other}
    # Up to there: what follows may no longer fit, as an answer to a question about another arm.
    replay = Agent.replay([*lived.log[:place], event_from_json(fields)])
    assert event.id in replay.differing and not replay.agrees


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize(("K", "d"), [(5, 4), (30, 20), (40, 4), (40, 20)])
def test_details_do_not_change_what_is_chosen(policy, K, d):
    # Few arms, many arms over few features, many arms over many: each has a way of its own.
    rng = np.random.default_rng(5)
    C = rng.random((60, d)) * (rng.random((60, d)) < 0.5)
    among = [k for k in range(K) if k % 5]
    agents: list[Any] = [
        Agent(**PAPER, arms=K, features=d, seed=9, policy=policy) for _ in range(3)
    ]
    for agent in agents:
        agent.teach_many(C[:40], np.arange(40) % K, C[:40, 0] > 0.2)
        agent.learn(C[:50], np.arange(50) % K, C[:50, 1])
    for given_among, rules in ((None, []), (among, []), (None, [Rule("r", arms=[1, 2])])):
        for agent in agents:
            for rule in rules:
                agent.declare(rule)
        plain, detailed = (agents[i].decide_many(C, given_among, details=i > 0) for i in (0, 1))
        single = [agents[2].decide(c, given_among) for c in C]
        assert plain.events() == detailed.events() == [decision.event for decision in single]
        assert bits(agents[0]) == bits(agents[1]) == bits(agents[2])


def test_equal_contexts_in_a_batch_get_draws_of_their_own():
    made: Any = Agent(**PAPER, arms=3, features=2, seed=1).decide_many(np.ones((50, 2)))
    draws = np.array([decision.draw for decision in made])
    assert len(np.unique(draws)) == draws.size


SCRIPT = """
import hashlib, sys
import numpy as np
from bridle import Agent
rng = np.random.default_rng(3)
paper = {"limits": "linear", "prior": "paper", "teaching": "thompson"}
agent = Agent(arms=12, features=24, sigma=0.4, seed=5, **paper)
digest = hashlib.sha256()
for step in range(150):
    C = rng.standard_normal((4, 24))
    for question in agent.ask_many(C):
        agent.answer(question, rng.random() < 0.7)
    made = agent.decide_many(C, propensity=True)
    for decision in made:
        digest.update(decision.parts.tobytes() + decision.propensities.tobytes())
    agent.reward_many(made.ids, rng.random(4))
    one = agent.decide(C[0], propensity=True)
    digest.update(repr(one.event).encode())
agent.save(sys.argv[1])
digest.update(open(sys.argv[1], "rb").read())
print(digest.hexdigest())
"""


def test_the_bits_do_not_depend_on_the_threads_of_blas(tmp_path):
    digests = set()
    for threads in "12":
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        source = Path(__file__).resolve().parents[2] / "src"
        environment = os.environ | dict.fromkeys(names, threads) | {"PYTHONPATH": str(source)}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / f"agent{threads}")],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        digests.add(run.stdout.strip())
    assert len(digests) == 1 and len(digests.pop()) == len(hashlib.sha256().hexdigest())


def test_other_seeds_and_other_names_give_other_draws():
    def draws(seed: int, **named: Any) -> bytes:
        made: Any = Agent(**PAPER, arms=4, features=2, seed=seed).decide([1.0, 2.0], **named)
        return bytes(made.draw.tobytes())

    calls = [
        (seed, named) for seed in (0, 1, 2**64 - 1) for named in ({}, {"id": "1"}, {"id": "2"})
    ]
    assert len({draws(seed, **named) for seed, named in calls}) == len(calls)
    assert draws(7, id="x") == draws(7, id="x")


@pytest.mark.parametrize("teaching", ["random", "thompson"])
def test_questions_have_draws_of_their_own(teaching):
    agent = Agent(**PAPER, arms=1000, features=2, seed=4, teaching=teaching)
    arms = [question.arm for question in agent.ask_many(np.ones((20, 2)))]
    # 20 uniform draws out of 1,000 are the same at most 5 times but for 1e-9.
    assert len(set(arms)) >= 15

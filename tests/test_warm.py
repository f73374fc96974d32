"""What compiles the kernels beforehand: it lives small lives, reports, stops, and stops nobody."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from bridle import Agent, Arm, Decision, Thompson, warm
from bridle.cli import app
from bridle.kernels.compiling import compiled
from bridle.kernels.scaled import COUNT, MASS
from bridle.reward.scaled import ScaledArms
from tests.conftest import JIT


def test_every_step_runs_and_is_named():
    named: list[str] = []
    kernels, seconds = warm.warm(named.append)
    assert named == list(warm.STEPS)
    assert kernels >= 0 and seconds > 0.0
    before = compiled()
    assert warm.warm()[0] == 0  # all is there
    assert compiled() == before


@pytest.mark.skipif(not JIT, reason="nothing is compiled without numba's compiler")
@pytest.mark.parametrize("limits", ["auto", "rules", "logistic", "linear"])
def test_nothing_is_left_to_compile_for_an_agent(limits):
    warm.warm()
    before = compiled()
    agent = Agent(arms=["a", "b", "c"], features=4, limits=limits, seed=3)
    agent.teach(np.ones(4), "a", allowed=True)
    agent.teach([0.0, 0.5, 0.0, 1.0], "b", allowed=False)
    made = agent.decide(np.ones(4), propensity=True)
    if isinstance(made, Decision):
        agent.reward(made.id, 1.0)
    agent.decide_many(np.eye(4))
    agent.believed(np.ones(4))
    assert compiled() == before


@pytest.mark.skipif(not JIT, reason="nothing is compiled without numba's compiler")
def test_nothing_is_left_to_compile_where_rewards_change():
    warm.warm()
    before = compiled()
    arms = ScaledArms(arms=2, features=1)
    for reward in (0.9, 0.1):
        arms.update_many(np.arange(1000) % 2, np.ones((1000, 1)), np.full(1000, reward))
    assert arms.num[MASS] < arms.num[COUNT]
    assert compiled() == before


@pytest.mark.skipif(not JIT, reason="nothing is compiled without numba's compiler")
def test_nothing_is_left_to_compile_for_arms_with_features():
    warm.warm()
    before = compiled()
    arms = [Arm(k, features=[float(k), 1.0]) for k in range(5)]
    agent = Agent(arms=arms, features=3, arm_features=2, budget=3, seed=3)
    agent.teach(np.ones(3), 1, allowed=True)
    agent.teach(np.zeros(3), 2, allowed=False)
    agent.set_policy(Thompson(v=0.3))
    made = agent.decide(np.ones(3), propensity=True)
    assert isinstance(made, Decision)
    agent.reward(made.id, 1.0)
    agent.decide(np.ones(3), k=3, propensity=True)
    agent.believed(np.ones(3))
    assert compiled() == before


def test_it_stops_before_the_next_step(monkeypatch):
    stop, done = threading.Event(), []

    def first() -> None:
        done.append("first")
        stop.set()

    monkeypatch.setattr(warm, "STEPS", {"first": first, "second": lambda: done.append("second")})
    warm.warm(stop=stop)
    assert done == ["first"]


def wait_for(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(timeout=60.0)
            assert not thread.is_alive()


def test_in_the_background_failure_is_logged_and_stops_nobody(monkeypatch, caplog):
    def fail() -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(warm, "STEPS", {"only": fail})
    warm.warm_in_background()
    wait_for("bridle-warm")
    assert "could not be compiled" in caplog.text
    assert "no compiler" in caplog.text


def test_in_the_background_it_says_what_was_compiled(monkeypatch, caplog):
    caplog.set_level("INFO", logger="bridle.kernels")
    monkeypatch.setattr(warm, "warm", lambda *, stop: (7, 3.0))
    started = time.perf_counter()
    warm.warm_in_background()
    wait_for("bridle-warm")
    assert time.perf_counter() - started < 60.0
    assert caplog.messages == ["7 kernels compiled in 3 s; they are kept"]


@pytest.mark.parametrize(
    ("kernels", "line"), [(7, "7 kernels compiled in 3 s"), (0, "All kernels were there already")]
)
def test_the_command_says_what_it_did(monkeypatch, kernels, line):
    def compile_kernels(progress):
        for name in warm.STEPS:
            progress(name)
        return kernels, 3.0

    monkeypatch.setattr(warm, "warm", compile_kernels)
    done = CliRunner().invoke(app, ["warm"])
    assert done.exit_code == 0
    assert line in done.stderr
    assert done.stdout == ""
    assert CliRunner().invoke(app, ["warm", "--quiet"]).output == ""

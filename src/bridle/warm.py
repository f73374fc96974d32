"""Compile every kernel beforehand, so that no first call waits: `bridle warm`.

A kernel is compiled for the types that it is called with, so what compiles them all is small runs:
each kind of limits, each policy, both phases of a simulation, an audit, a certificate, an estimate.
What is compiled is kept on disk; where all of it is there already, this takes a few seconds.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from bridle.agent.agent import Agent
from bridle.agent.config import Arm
from bridle.agent.events import Event
from bridle.agent.outcomes import Decision, Question
from bridle.agent.teachers import Teacher
from bridle.audit.meter import AuditMeter
from bridle.certificates.calibration import Calibration, certify
from bridle.evaluation.evaluate import evaluate
from bridle.kernels.compiling import compiled, notices_to
from bridle.policies import (
    BehaviorConstrained,
    EpsilonGreedy,
    Greedy,
    KnownMask,
    LinUCB,
    PlackettLuce,
    Softmax,
    SquareCB,
    Thompson,
    Uniform,
)
from bridle.reward.scaled import ScaledArms
from bridle.schema import Flag, Labels, Number, Schema
from bridle.simulate import Tables, online, online_asking, teach, teach_beliefs
from bridle.slates import AtMost, NotBoth, SetLimits

__all__ = ["STEPS", "warm", "warm_in_background"]

LOG = logging.getLogger("bridle.kernels")

SCHEMA = Schema(
    [Labels("genres", ["Comedy", "Drama", "Horror"]), Flag("late"), Number("age", low=0, high=99)]
)
CONTEXTS: list[dict[str, Any]] = [
    {"genres": ["Comedy"], "late": False, "age": 7},
    {"genres": ["Drama", "Horror"], "late": True, "age": 40},
    {"genres": [], "late": False, "age": 70},
]
ARMS = [Arm("children", "all"), Arm("teens", "all"), Arm("adults", "some"), Arm("nobody", "some")]


def _live(agent: Agent) -> None:
    """Teach, ask, decide, reward and read back, in a few contexts."""
    for number, context in enumerate(CONTEXTS):
        agent.teach(context, ARMS[number].id, allowed=number != 1, item=f"item {number}")
    agent.teach_many(CONTEXTS, [arm.id for arm in ARMS[:3]], [True, False, True])
    for context in (*CONTEXTS, *CONTEXTS):
        made: object = agent.decide(context, propensity=True)
        for _ in range(9):
            if not isinstance(made, Question):
                break
            made = agent.answer(made, allowed=True).then
        if isinstance(made, Decision):
            agent.reward(made.id, 0.5)
            if made.check is not None:
                agent.judge(made.check, allowed=True)
    agent.decide_many(CONTEXTS)
    agent.ask(CONTEXTS[0])
    agent.learn(CONTEXTS, [arm.id for arm in ARMS[:3]], [0.1, 0.2, 0.3])
    agent.believed(CONTEXTS[0])


def _agent(**settings: Any) -> Agent:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # settings that nobody should use without a reason
        return Agent(arms=ARMS, features=SCHEMA, seed=1, **settings)


def _limits(kind: str) -> Callable[[], None]:
    def live() -> None:
        _live(_agent(limits=kind, sigma=0.5))
        if kind != "linear":
            _live(_agent(limits=kind, budget=50))
        if kind in ("rules", "logistic"):
            _live(_agent(limits=kind, crosses=True, budget=50))

    return live


def _sampled_rules() -> None:
    """Learn rules over so many terms that their posterior is sampled."""
    genres = [f"genre {number}" for number in range(40)]
    agent = Agent(arms=4, features=[Labels("genres", genres)], limits="rules", budget=5)
    for number in range(6):
        shown = {"genres": genres[3 * number : 3 * number + 4]}
        agent.teach(shown, number % 4, allowed=number % 3 > 0)
        agent.decide(shown)


def _teachers() -> None:
    _live(_agent(teachers=[Teacher("Ann"), Teacher("Bob", price=0.1)], budget=9))
    _live(_agent(teacher_error=None, budget=9))
    _live(_agent(promise=(0.01, 0.05), budget=9))


def _policies() -> None:
    for policy in (
        Thompson(),
        Uniform(),
        Greedy(),
        EpsilonGreedy(epsilon=0.1),
        LinUCB(),
        SquareCB(),
        Softmax(),
    ):
        for prior in ("scaled", "centred", "paper"):
            _live(_agent(policy=policy, limits="linear", prior=prior))


def _catalogue() -> None:
    """Live with arms that have features: by every kind of limits, in slates, as they change."""
    schema = Schema([Labels("kinds", ["a", "b"]), Flag("new"), Number("price", low=0, high=9)])
    arms = [
        Arm(arm.id, arm.label, arm.group, {"kinds": ["a", "b"][: k % 3], "new": k > 1, "price": k})
        for k, arm in enumerate(ARMS)
    ]
    sets = SetLimits(at_most=(AtMost(1),), not_both=(NotBoth(arms=("children", "nobody")),))
    more: dict[str, Any] = {"arm_features": schema, "seed": 1}
    for kind in ("auto", "rules", "logistic"):
        agent = Agent(arms=arms, features=SCHEMA, limits=kind, budget=50, **more)
        _live(agent)
        agent.change_arms([arms[0]])
        agent.retract(agent.examples[0])
        agent.describe()
    for policy in (Thompson(v=0.3), EpsilonGreedy(epsilon=0.1), LinUCB(), PlackettLuce()):
        for limits in (None, sets):
            agent = Agent(arms=arms, features=SCHEMA, policy=policy, set_limits=limits, **more)
            _live(agent)
            agent.decide(CONTEXTS[0], k=2, propensity=True)
    plain = _tables()
    tables = Tables(plain.contexts, plain.rewards, plain.allowed, arm_features=np.eye(4))
    for policy in (Thompson(v=0.3), LinUCB(), EpsilonGreedy(epsilon=0.1)):
        online(tables, policy=policy, steps=20)


def _scale() -> None:
    """Let arms find their scale, forget, and begin anew."""
    for forget in ("auto", "never", 16.0):
        arms = ScaledArms(arms=3, features=2, forget=forget)
        many = np.arange(20) % 3
        arms.fold_many(many, np.ones((20, 1)), np.full(20, 0.5))
        for k in many.tolist():
            arms.update(k, np.ones(2), k / 3.0)
        arms.update_many(many, np.ones((20, 2)), np.full(20, 0.5))
        arms.merge(arms.copy())
        arms.pulled_scores(np.ones((1, 2)), arms.pull)
    arms = ScaledArms(arms=1, features=1)
    for reward in (1.0, 0.0):
        arms.update_many(np.zeros(600, np.int64), np.ones((600, 1)), np.full(600, reward))
    tables = _tables()
    online(tables, policy=Thompson(), prior="scaled", steps=20)


def _many_arms() -> None:
    """Decide among so many arms that scores wait until they are asked for."""
    for d in (2, 20):
        agent = Agent(arms=40, features=d, limits="logistic", seed=1)
        made = agent.decide(np.ones(d), among=range(40))
        agent.set_policy(Thompson(v=0.25))
        for _ in range(3):
            made = agent.decide(np.ones(d))
            if isinstance(made, Decision):
                agent.reward(made.id, 0.5)
                made.parts.sum()
        agent.decide_many(np.eye(d), details=False)


def _tables() -> Tables:
    random = np.random.default_rng(1)
    allowed = np.array([[1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 1]], np.bool_)
    return Tables(np.eye(3), random.random((3, 4)), allowed)


def _simulate() -> None:
    tables = _tables()
    lesson = teach(tables, examples=20)
    teach(tables, examples=20, teaching="thompson")
    for policy in (Thompson(), Uniform(), KnownMask(reading="filter"), KnownMask(reading="argmax")):
        online(tables, policy=policy, steps=20)
    for prior in ("paper", "centred"):
        online(
            tables,
            policy=BehaviorConstrained(sigma=0.5),
            limits=lesson.limits[20],
            steps=20,
            prior=prior,
        )


def _simulate_asking() -> None:
    tables = _tables()
    for kind in ("auto", "rules", "logistic", "found"):
        beliefs = Agent(arms=4, features=3, limits=kind).limits
        teach_beliefs(tables, beliefs=beliefs, examples=4)
        online_asking(tables, beliefs=beliefs, steps=20, checks=kind == "auto")
    beliefs = Agent(arms=4, features=3).limits
    online_asking(tables, beliefs=beliefs, steps=20, checks=True, promise=(0.01, 0.05), lag=2)
    online_asking(tables, beliefs=beliefs, steps=20, prior="centred")
    online_asking(tables, beliefs=beliefs, steps=20, teachers=[(0.0, 0.35), (0.2, 0.02)])


def _guarantees() -> None:
    log: list[Event] = []
    agent = Agent(arms=ARMS, features=SCHEMA, seed=1, sigma=0.5, limits="linear", sink=log.extend)
    for number in range(150):
        made = agent.decide(CONTEXTS[number % 3], propensity=True)
        if isinstance(made, Decision):
            agent.reward(made.id, 0.5)
    evaluate(log, sigma=[0.45, 0.5])
    meter = AuditMeter(0.5, 0.05, seed=1)
    for decision in range(20):
        if meter.observe(decision, q=0.5 if decision % 2 else 0.9):
            meter.answer(decision, allowed=True)
    meter.bounds()
    meter.standing(0.1)
    tables = _tables()
    beliefs = Agent(arms=4, features=3).limits
    rows = np.repeat(tables.contexts, 30, axis=0)
    answers = np.repeat(tables.allowed, 30, axis=0)
    certify(beliefs, Calibration(rows, answers), alpha=0.2, delta=0.1)


# What is done, by a name for people. The default agent first: who waits, waits for that.
STEPS: dict[str, Callable[[], object]] = {
    "the default agent": _limits("auto"),
    "rules": _limits("rules"),
    "rules over many terms": _sampled_rules,
    "logistic limits": _limits("logistic"),
    "clustered limits": _limits("found"),
    "linear limits": _limits("linear"),
    "policies": _policies,
    "arms with features, slates": _catalogue,
    "arms that find their scale": _scale,
    "many arms": _many_arms,
    "teachers who err, and promises": _teachers,
    "simulations": _simulate,
    "simulations that ask": _simulate_asking,
    "audits, certificates, estimates": _guarantees,
}


def warm(
    progress: Callable[[str], None] | None = None, stop: threading.Event | None = None
) -> tuple[int, float]:
    """Compile what is not compiled yet; return how many kernels that were, and the seconds it took.

    Parameters
    ----------
    progress : callable, optional
        Takes the name of each step of `STEPS` before it is done.
    stop : threading.Event, optional
        Ends it before the next step.
    """
    before, start = compiled(), time.perf_counter()
    with notices_to(lambda _: None):
        for name, step in STEPS.items():
            if stop is not None and stop.is_set():
                break
            if progress is not None:
                progress(name)
            step()
    return compiled() - before, time.perf_counter() - start


def warm_in_background() -> threading.Event:
    """Warm up on a thread beside; set the event that is returned to end it.

    What goes wrong there is logged and stops nobody: the kernels compile at their first call then.
    """
    stop = threading.Event()

    def run() -> None:
        try:
            kernels, seconds = warm(stop=stop)
        except Exception:
            LOG.exception("the kernels could not be compiled beforehand")
        else:
            if kernels:
                LOG.info("%d kernels compiled in %.0f s; they are kept", kernels, seconds)

    threading.Thread(target=run, name="bridle-warm", daemon=True).start()
    return stop

"""The lives of the golden agents by policy, and in earlier forms of the log: see `agents.py`."""

from __future__ import annotations

from typing import Any

from bridle import Arm, EpsilonGreedy, Greedy, LearnedMask, LinUCB, Rule, Thompson, Uniform, When
from tests.golden.life import PLAIN, Life, Lived, all_flags, flags

PAPER: dict[str, Any] = {"limits": "linear", "prior": "paper"}


def paper(**more: Any) -> Lived:
    """The paper's limits and prior, by any policy."""
    life = Life(
        PLAIN,
        lambda c, arm: (c[0] > 0.2) == (arm != 1),
        **{"arms": 3, "features": 3, "seed": 13, **PAPER, **more},
    )
    life.lessons(5)
    life.teach_many(3)
    life.play(6)
    yield life
    if life.agent.sigma is not None:
        life.agent.set_sigma(0.9, at=life.tick())
    life.agent.retract(life.agent.examples[2], at=life.tick())
    life.agent.learn(PLAIN[:3], [0, 1, 2], [0.5, 0.25, 1.0], at=life.tick())
    life.play(6, keep=[4])
    life.batch(4)
    life.batch(3, named=True, details=False)
    yield life


def linear() -> Lived:
    """Labels 1/0, the default dial, no exact denials."""
    return paper(exact_denials=False, ridge_limits=0.5)


def linear_signs() -> Lived:
    """Labels 1/-1, Thompson sampling."""
    return paper(label_coding="1/-1", policy=Thompson(v=0.3), teaching="thompson")


def linear_minus() -> Lived:
    """Labels 0/-1, LinUCB, the centred prior."""
    return paper(label_coding="0/-1", policy=LinUCB(alpha=0.7), prior="centred", teaching="arm")


def epsilon() -> Lived:
    """Forty arms by an epsilon-greedy policy: a batch leaves out what cannot win."""
    life = Life(
        [[0.5, 1.0], [1.0, 0.25], [0.0, -1.0]],
        lambda c, arm: arm % 4 > 0,
        arms=40,
        features=2,
        seed=14,
        policy=EpsilonGreedy(epsilon=0.3),
        **PAPER,
    )
    life.teach(3)
    life.batch(8, details=False)
    life.play(3)
    yield life
    life.batch(6, named=True)
    life.batch(6, propensity=False, details=False)
    yield life


def crowd() -> Lived:
    """Forty arms by Thompson sampling and rules that are shared by groups."""
    life = Life(
        all_flags("xy"),
        lambda c, arm: not (c["x"] and arm % 2),
        arms=[Arm(k, group="ab"[k % 2]) for k in range(40)],
        features=flags("xy"),
        seed=15,
        limits="rules",
        policy=LearnedMask(v=0.25),
    )
    life.lessons(6)
    life.batch(5, details=False, propensity=False)
    yield life
    life.play(4)
    life.batch(5, details=False, propensity=False)
    yield life


def greedy() -> Lived:
    """A greedy policy, with rules that nothing is masked by but exact denials."""
    life = Life(
        all_flags("xy"),
        lambda c, arm: not (c["x"] and arm == "b"),
        arms=["a", "b", "c"],
        features=flags("xy"),
        limits="rules",
        seed=16,
        policy=Greedy(),
    )
    life.teach(4)
    life.play(5)
    yield life
    life.play(6)
    life.batch(4)
    yield life


def uniform() -> Lived:
    """A uniform policy that keeps to a certificate."""
    life = Life(
        all_flags("xy"),
        lambda c, arm: not (c["x"] and arm == "b"),
        arms=["a", "b", "c"],
        features=flags("xy"),
        limits="rules",
        seed=17,
        policy=Uniform(),
    )
    life.lessons(6)
    life.play(4)
    life.agent.adopt(life.certificate(), by="Cleo", at=life.tick())
    yield life
    life.play(6)
    life.batch(4)
    life.agent.drop_certificate(at=life.tick())
    life.play(3)
    yield life


def first_form() -> Lived:
    """What the first form of logs could hold: `write.py` takes the later keys out of it."""
    life = Life(
        PLAIN,
        lambda c, arm: c[2] > 0 or arm == "b",
        arms=["a", "b"],
        features=3,
        seed=18,
        sigma=0.4,
        share="arm",
        **PAPER,
    )
    life.lessons(4)
    life.play(4)
    life.agent.declare(Rule("r", when=[When("x0", at_least=0.9)], arms=["a"]), at=life.tick())
    yield life
    life.agent.add_arms(["c"], at=life.tick())
    life.agent.set_sigma(0.6, at=life.tick())
    life.play(4)
    life.decide_among_none()
    life.agent.withdraw("r", at=life.tick())
    life.agent.ask(life.context(), at=life.tick())
    life.play(3, keep=[0])
    yield life


def second_form() -> Lived:
    """What the second form of logs could hold: all but how long decisions wait."""
    life = Life(
        all_flags("xyz"),
        lambda c, arm: not (c["x"] and arm == "a"),
        arms=["a", "b"],
        features=flags("xyz"),
        seed=19,
        budget=6,
    )
    life.lessons(3)
    life.play(5)
    yield life
    life.play(5, skip=[1])
    life.agent.teach(life.contexts[3], "b", True, at=life.tick())
    life.agent.teach(life.contexts[3], "b", True, at=life.tick())
    life.agent.teach(life.contexts[3], "b", False, at=life.tick())
    assert life.agent.surprises
    yield life

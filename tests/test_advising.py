"""The largest sigma within a budget of violations, and by what that is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bridle import Agent
from bridle.advising import _largest, recommend
from bridle.certifying import Calibration, certify
from bridle.errors import InvalidValue, NotPossible
from tests.histories import PAPER

SIGMAS = [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.fixture(scope="module")
def log() -> list[Any]:
    """Log an agent whose denied arm pays, so that a higher sigma is believed to violate more."""
    log: list[Any] = []
    agent: Any = Agent(**PAPER, arms=2, features=1, sigma=0.25, exact_denials=False, seed=1,
                       sink=log.extend)  # fmt: skip
    for i in range(40):
        agent.teach([1.0], i % 2, bool(i % 2))
    for _ in range(60):
        made = agent.decide([1.0])  # neither propensities nor all rewards are needed
        agent.reward(made.id, 1.0 - made.arm)
    return log


def audits(lower: float, upper: float) -> Any:
    return SimpleNamespace(bounds=lambda: SimpleNamespace(lower=lower, upper=upper), steps=60)


def test_by_belief(log):
    found = recommend(log, 0.05, SIGMAS)
    rates = dict(found.rates)
    assert list(rates) == SIGMAS and found.basis == "belief"
    assert found.sigma == max(s for s in SIGMAS if rates[s] <= 0.05) < 1.0
    assert rates[0.0] < rates[1.0] and "which nobody has checked" in str(found)
    assert recommend(log, 1.0, SIGMAS).sigma == 1.0
    none = recommend(log, 0.0, SIGMAS)
    assert none.sigma is None and "No sigma is within 0" in str(none)


def test_by_audits(log):
    # At the log's own sigma nothing is played otherwise: what the audits bound is all there is.
    found = recommend(log, 0.2, SIGMAS, audits=audits(0.0, 6.0))
    rates = dict(found.rates)
    assert found.basis == "audits" and rates[0.25] == pytest.approx(0.1)
    assert all(rates[s] >= 0.1 for s in SIGMAS) and rates[1.0] > 0.2
    assert found.sigma == max(s for s in SIGMAS if rates[s] <= 0.2)
    assert "by the audits at most 0.1 in the log" in str(found)
    few = recommend(log, 0.05, SIGMAS, audits=audits(0.0, 60.0))
    assert few.sigma is None and few.basis == "audits"
    assert "No sigma is shown" in str(few) and "belief alone: sigma = " in str(few)
    assert "belief alone: no sigma" in str(recommend(log, 0.0, [1.0], audits=audits(0.0, 6.0)))


def certified(alpha: float, **options: Any) -> tuple[Any, list[Any]]:
    """An agent that keeps to a certificate from its first decision on, and its log."""
    log: list[Any] = []
    agent: Any = Agent(arms=2, features=1, limits="rules", sigma=0.5, sink=log.extend, **options)
    calibration = Calibration(contexts=np.ones((500, 1)), allowed=np.ones((500, 2), bool))
    limits = agent._knowledge.believing.limits
    agent.adopt(certify(limits, calibration, alpha=alpha, delta=0.1))
    agent.decide([1.0])
    return agent, log


def test_by_certificate():
    agent, log = certified(0.01)
    found = recommend(log, 0.01, SIGMAS, None)
    assert found.basis == "certificate" and found.sigma == 1.0
    assert set(dict(found.rates).values()) == {0.01} and "δ = 0.1" in str(found)
    # One that promises less than the budget asks for is no help, nor one that was dropped.
    assert recommend(log, 0.005, SIGMAS).basis == "belief"
    agent.drop_certificate()
    agent.decide([1.0])
    assert recommend(log, 0.01, SIGMAS).basis == "belief"


def test_a_sigma_beyond_one_that_fails_is_not_recommended():
    assert _largest({0.0: 0.0, 0.5: 0.3, 1.0: 0.0}, 0.1) == 0.0


def test_an_agent_that_asks_is_refused():
    log: list[Any] = []
    agent: Any = Agent(arms=2, features=1, limits="rules", budget=5, sink=log.extend)
    agent.decide([1.0])
    with pytest.raises(NotPossible, match="asks when in doubt"):
        recommend(log, 0.1, SIGMAS)


def test_bad_arguments_are_named(log):
    for budget, sigmas in ((-0.1, SIGMAS), (0.1, []), (0.1, "0.5"), (0.1, 0.5), (0.1, [2.0])):
        with pytest.raises(InvalidValue, match="recommend"):
            recommend(log, budget, sigmas)
    with pytest.raises(InvalidValue, match="AuditMeter"):
        recommend(log, 0.1, SIGMAS, audits=7)
    with pytest.raises(NotPossible, match="no decision"):
        recommend(log[:1], 0.1, SIGMAS)

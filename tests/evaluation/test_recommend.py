"""The largest sigma within a budget of violations, and by what that is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from bridle import Agent, AuditMeter, BehaviorConstrained
from bridle.agent.events import Decided
from bridle.certificates.calibration import Calibration, certify
from bridle.errors import BridleError, CorruptState, InvalidValue, NotPossible
from bridle.evaluation.recommend import _largest, recommend
from bridle.evaluation.table import survey
from bridle.kernels import wins
from tests.histories import PAPER

SIGMAS = [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.fixture(scope="module")
def log() -> list[Any]:
    """Log an agent whose denied arm pays, so that a higher sigma is believed to violate more."""
    log: list[Any] = []
    agent: Any = Agent(
        **PAPER, arms=2, features=1, sigma=0.25, exact_denials=False, seed=1, sink=log.extend
    )
    for i in range(40):
        agent.teach([1.0], i % 2, bool(i % 2))
    for _ in range(60):
        made = agent.decide([1.0])  # neither propensities nor all rewards are needed
        agent.reward(made.id, 1.0 - made.arm)
    return log


def audits(log: list[Any], found: int = 0, *, q: float = 1.0) -> AuditMeter:
    """Audit the plays of a log; the first `found` that the coin chooses are judged violations."""
    meter = AuditMeter(q, 0.05, seed=4)
    for event in log:
        if isinstance(event, Decided) and meter.observe(event.id):
            meter.answer(event.id, found <= 0)
            found -= 1
    return meter


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
    meter = audits(log, 1)
    own = meter.expected() / 60.0
    found = recommend(log, 0.2, SIGMAS, audits=meter)
    rates = dict(found.rates)
    assert found.basis == "audits" and rates[0.25] == pytest.approx(own) and 0.1 < own < 0.2
    targets: list[Any] = [lambda _, s=s: BehaviorConstrained(sigma=s) for s in SIGMAS]
    apart = survey(log, targets, "recommend").apart
    for j, s in enumerate(SIGMAS):
        assert rates[s] == pytest.approx(min(own + apart[:, 1 + j].mean(), 1.0))
    assert all(rates[s] >= own for s in SIGMAS) and rates[1.0] > 0.2
    assert found.sigma == max(s for s in SIGMAS if rates[s] <= 0.2)
    assert str(found).startswith(f"sigma = {found.sigma:g} is within 0.2 expected violations a dec")
    for words in (
        "in the situations of this log's 60 decisions",
        f"at most {own:.4g} for the log's own agent",
        f"at most {rates[found.sigma]:.4g} for this one (wrong with probability 0.05 at most",
    ):
        assert words in str(found)
    few = recommend(log, 0.05, SIGMAS, audits=audits(log, 60))
    assert few.sigma is None and few.basis == "audits" and max(dict(few.rates).values()) == 1.0
    assert "No sigma is shown" in str(few) and "up to 1 for the best" in str(few)
    assert "belief alone: sigma = " in str(few)
    assert "belief alone: no sigma" in str(recommend(log, 0.0, [1.0], audits=audits(log, 6)))


def test_what_audits_bound_is_what_is_to_be_expected_of_each_sigma():
    # Of each of 120 logs the truth is Σ_k π(k) denied(k) at its contexts and states, by the paper's
    # formula. All rates of a log hold at once with probability 1 − delta or more: this fails with a
    # probability of 1e-6 (binomial). A bound on what happened, as it stands, is not one on this.
    n, delta, wrong, happened_wrong = 120, 0.3, 0, 0
    for seed in range(n):
        rng = np.random.default_rng(seed)
        denied = rng.random((4, 2)) < 0.15
        log: list[Any] = []
        agent: Any = Agent(
            **PAPER, arms=2, features=4, sigma=0.5, exact_denials=False, seed=seed, sink=log.extend
        )
        meter = AuditMeter(1.0, delta, seed=1_000 + seed)
        truth = np.zeros(3)
        for _ in range(6):
            rows = rng.integers(0, 4, 8)
            made = agent.decide_many(np.eye(4)[rows])
            parts = np.array([one.parts for one in made])
            for j, sigma in enumerate((0.25, 0.5, 0.75)):
                parts[:, 4] = sigma * parts[:, 0] + (1.0 - sigma) * parts[:, 2]
                parts[:, 5] = agent.policy.v * np.hypot(
                    sigma * parts[:, 1], (1.0 - sigma) * parts[:, 3]
                )
                pi = np.empty((8, 2))
                every = np.ones((1, 2), np.bool_)
                wins.propensities_many(np.array(BehaviorConstrained().weights), parts, every, pi)
                truth[j] += (pi * denied[rows]).sum() / 48.0
            for one, row in zip(made, rows, strict=True):
                meter.observe(one.id)
                meter.answer(one.id, not denied[row, one.arm])
            agent.reward_many(made.ids, rng.random(8))
        rates = dict(recommend(log, 0.5, [0.25, 0.5, 0.75], audits=meter).rates)
        wrong += any(truth > np.array(list(rates.values())))
        happened_wrong += truth[1] > meter.bounds().upper / 48.0
    assert wrong <= binom.isf(1e-6, n, delta)
    assert happened_wrong > 0.25 * n  # of these seeds: no chance is left


def test_audits_of_another_log_are_refused(log):
    ids = [event.id for event in log if isinstance(event, Decided)]
    for counted, told in (
        ([], "It has met none of them"),
        ([f"other-{i}" for i in ids], "It has met none of them: it is of another log"),
        (ids[5:], f"It started later, at the decision {ids[5]!r}. Call"),
        (ids[:-5], f"It stopped earlier, after the decision {ids[-6]!r}. Call"),
        (ids[5:-5], f"started later, at the decision {ids[5]!r} and stopped earlier, after"),
        (ids[:9] + ids[10:], f"It has not met the decision {ids[9]!r}, which lies in between"),
        ([*ids, "one", 10**9], "It has met 2 more, which are not in this log"),
        (["one", *ids[1:]], "It started later"),
    ):
        meter = AuditMeter(0.5, 0.1, seed=1)
        for id in counted:
            meter.observe(id)
        with pytest.raises(InvalidValue, match=r"audits.*60 decisions counted once") as caught:
            recommend(log, 0.1, SIGMAS, audits=meter)
        assert told in str(caught.value) and f"one of {len(counted)} steps" in str(caught.value)
    meter = AuditMeter(0.5, 0.1, seed=1)
    for id in ids:
        meter.abstained(id) if id == ids[3] else meter.observe(id)
    with pytest.raises(InvalidValue, match="counted 59 actions, where the log has 60"):
        recommend(log, 0.1, SIGMAS, audits=meter)


def certified(alpha: float, **options: Any) -> tuple[Any, list[Any]]:
    """An agent that keeps to a certificate from its first decision on, and its log."""
    log: list[Any] = []
    agent: Any = Agent(arms=2, features=1, limits="rules", sigma=0.5, sink=log.extend, **options)
    calibration = Calibration(contexts=np.ones((500, 1)), allowed=np.ones((500, 2), bool))
    limits = agent._state.limits_state.limits
    agent.adopt(certify(limits, calibration, alpha=alpha, delta=0.1))
    agent.decide([1.0])
    return agent, log


def test_by_certificate():
    agent, log = certified(0.01)
    found = recommend(log, 0.01, SIGMAS, None)
    assert found.basis == "certificate" and found.sigma == 1.0
    assert set(dict(found.rates).values()) == {0.01} and "δ = 0.1" in str(found)
    # One that promises less than the budget asks for is no help, nor one that was dropped.
    less = recommend(log, 0.005, SIGMAS)
    assert less.basis == "belief" and "its α is 0.01, more than the budget" in less.sentence
    agent.drop_certificate()
    assert recommend(log, 0.01, SIGMAS).basis == "belief"  # it binds no more
    agent.decide([1.0])
    assert recommend(log, 0.01, SIGMAS).basis == "belief"


def test_a_certificate_that_audits_refute_is_not_trusted():
    log: list[Any] = []
    agent: Any = Agent(arms=2, features=1, limits="rules", sigma=0.5, sink=log.extend)
    for arm in (0, 1):
        agent.teach([1.0], arm, True)
    calibration = Calibration(contexts=np.ones((500, 1)), allowed=np.ones((500, 2), bool))
    agent.adopt(certify(agent.limits, calibration, alpha=0.01, delta=0.1))
    for _ in range(200):
        agent.decide([1.0])
    meter = AuditMeter(1.0, 0.05, seed=3)
    for id in range(1, 201):
        assert meter.observe(id)
        meter.answer(id, allowed=id % 2 == 0)
    found = recommend(log, 0.01, SIGMAS, audits=meter)
    assert found.basis == "audits" and found.sigma is None
    assert "the audits show more violations than it allows" in found.sentence


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
    for nothing in (7, AuditMeter, "audits", object()):
        with pytest.raises(InvalidValue, match="AuditMeter"):
            recommend(log, 0.1, SIGMAS, audits=nothing)
    with pytest.raises(NotPossible, match="no decision"):
        recommend(log[:1], 0.1, SIGMAS)
    for events in (7, None, "log", b"log", {"a": 1}, [7], [log[0], 7], [], [None], AuditMeter):
        with pytest.raises((InvalidValue, CorruptState)) as caught:
            recommend(events, 0.1, SIGMAS)
        assert isinstance(caught.value, BridleError)

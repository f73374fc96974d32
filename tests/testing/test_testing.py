"""The checks of ours: all of ours pass all of them, and each fails on something built to fail it.

The examples, right and broken, stand in broken_models.py and broken_agents.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bridle import (
    Agent,
    BehaviorConstrained,
    EpsilonGreedy,
    Greedy,
    KnownMask,
    LinearArms,
    LinearLimits,
    LinUCB,
    Masked,
    PlackettLuce,
    Rule,
    Softmax,
    SquareCB,
    Thompson,
    Uniform,
    When,
    testing,
)
from bridle.errors import BridleError, InvalidValue, NotPossible
from bridle.kernels.choice import locations, spreads
from bridle.testing import CheckFailed, Report
from bridle.testing.base import ERROR, Check, Fit, Miss, expect_bits, expect_near, expect_refusal
from tests import broken_agents, broken_models
from tests.broken_models import PlainArms, PlainLimits, PlainThompson
from tests.conformance import STRICT, Sampler

# How many checks there are. A check that is lost, or skipped, shows here.
COUNTS = {"arms": 11, "limits": 11, "policy": 9, "sampler": 2, "agent": 17}


def checks_for(kind: str) -> tuple[Check[Any], ...]:
    return STRICT[kind]


def run(kind: str, subject: Any) -> Report:
    ran = []
    for check in checks_for(kind):
        check(subject)
        ran.append(check.name)
    return Report(kind, tuple(ran))


def failing(kind, subject):
    """The names of the checks that fail."""
    found = {}
    for check in checks_for(kind):
        try:
            check(subject)
        except CheckFailed as error:
            found[check.name] = error
    return found


# -- all of ours, and these, pass -----------------------------------------------------------------


def law(policy):
    """The law of the policy's draws, from its own weights."""

    def of(scores):
        parts = scores.parts()[0]
        w = np.array(policy.weights)
        return locations(w, parts), spreads(w, parts)

    return of


def blend(sigma, v, v_limit):
    """SPEC 2.5 written out."""

    def of(s):
        return (
            sigma * s.reward_mean + (1 - sigma) * s.limit_mean,
            np.hypot(sigma * v * s.reward_sd, (1 - sigma) * v_limit * s.limit_sd),
        )

    return of


def agent(**settings):
    """Make agents with settings of one's own, where the check gives no others."""
    return lambda **given: Agent(**{**settings, **given})


RULES = [Rule("never both", [When("x0", at_least=1.0), When("x1", at_least=1.0)], arms=[1])]
POLICIES: list[Any] = [
    Thompson(),
    *(BehaviorConstrained(sigma=sigma) for sigma in (0.0, 0.25, 1.0)),
    KnownMask(reading="argmax"),
    KnownMask(reading="filter", v=1.0),
    Uniform(),
    Greedy(),
    EpsilonGreedy(epsilon=0.3),
    LinUCB(),
    SquareCB(),
    Softmax(temperature=0.5),
    PlackettLuce(temperature=0.5),
    Masked(EpsilonGreedy(epsilon=0.3)),
    PlainThompson(),
]
OURS: dict[str, dict[str, Any]] = {
    "arms": {"LinearArms": LinearArms, "PlainArms": PlainArms},
    "limits": {
        "PlainLimits": PlainLimits,
        **{
            coding: partial(LinearLimits, label_coding=coding) for coding in ("1/0", "1/-1", "0/-1")
        },
        "ridge 20": partial(LinearLimits, ridge=20.0),
    },
    "policy": {
        ("PlainThompson" if isinstance(policy, PlainThompson) else repr(policy)): policy
        for policy in POLICIES
    },
    "sampler": {
        "Thompson": Sampler(Thompson(v=0.5), lambda s: (s.reward_mean, 0.5 * s.reward_sd)),
        "blend": Sampler(
            BehaviorConstrained(sigma=0.4, v=0.5, v_constraint=2.0), blend(0.4, 0.5, 2.0)
        ),
        "only limits": Sampler(BehaviorConstrained(sigma=0.0, v=0.25), blend(0.0, 0.25, 0.25)),
        "LinUCB": Sampler(LinUCB(alpha=0.5), law(LinUCB(alpha=0.5))),
    },
    "agent": {
        "defaults": Agent,
        "the paper's": agent(limits="linear", prior="paper"),
        "logistic": agent(limits="logistic", policy=BehaviorConstrained(sigma=0.5)),
        "Thompson, narrow": agent(policy=Thompson(v=0.05), ridge=30.0, reward_range=(-2.0, 2.0)),
        "LinUCB, thompson teaching": agent(policy=LinUCB(), teaching="thompson"),
        "EpsilonGreedy, the paper's denials": agent(
            policy=EpsilonGreedy(), exact_denials=False, label_coding="1/-1"
        ),
        "Uniform, few pending": agent(policy=Uniform(), max_pending=30),
        "Greedy, a rule": agent(policy=Greedy(), rules=RULES),
    },
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, subjects in OURS.items() for name in subjects]
)
def test_ours_pass_every_check_and_every_check_ran(kind, name):
    report = run(kind, OURS[kind][name])
    assert report == Report(kind, tuple(check.name for check in checks_for(kind)))
    assert report.ran == COUNTS[kind]


def test_every_policy_and_model_of_ours_is_checked():
    kinds = {type(policy) for policy in POLICIES} - {PlainThompson}
    assert kinds == {
        Thompson,
        BehaviorConstrained,
        KnownMask,
        Uniform,
        Greedy,
        EpsilonGreedy,
        LinUCB,
        SquareCB,
        Softmax,
        PlackettLuce,
        Masked,
    }
    assert (
        sum(COUNTS[kind] * len(subjects) for kind, subjects in OURS.items())
        == 22 + 55 + 135 + 8 + 136
    )


# -- what is broken fails ----------------------------------------------------------------------

BROKEN = [*broken_models.BROKEN, *broken_agents.BROKEN]


def name_of(subject):
    if isinstance(subject, Sampler):
        return type(subject.policy).__name__
    return getattr(subject, "__name__", type(subject).__name__)


@pytest.mark.parametrize(
    ("kind", "name", "subject"),
    [pytest.param(*row, id=f"{row[0]}-{name_of(row[2])}") for row in BROKEN],
)
def test_a_broken_example_fails_its_check_and_no_other(kind, name, subject, monkeypatch):
    if kind == "agent":  # a scale that is given: where it is found fewer bits are held
        make = subject(monkeypatch)
        found = failing(kind, lambda **given: make(**{"prior": "centred", **given}))
    else:
        found = failing(kind, subject)
    assert set(found) == {name}, "\n".join(str(error) for error in found.values())
    error = found[name]
    assert error.check == f"{kind}.{name}"
    assert str(error).startswith(f"{kind}.{name}: expected {error.expected}. Saw ")
    assert error.expected != "no error"


def test_every_check_has_a_broken_example():
    for kind in COUNTS:
        shown = {name for of, name, _ in BROKEN if of == kind}
        assert shown == {check.name for check in checks_for(kind)}


# -- what checks are made of ----------------------------------------------------------------------


def test_there_are_as_many_checks_as_we_count():
    assert {kind: len(checks_for(kind)) for kind in COUNTS} == COUNTS
    for kind in COUNTS:
        assert [str(check) for check in checks_for(kind)] == [
            f"{kind}.{check.name}" for check in checks_for(kind)
        ]
        assert all(check.what.endswith(".") for check in checks_for(kind))
    with pytest.raises(InvalidValue, match="'kind' parameter of checks_for"):
        testing.checks_for("arm")


def test_an_error_inside_a_check_is_a_failure_of_that_check():
    class Raises(PlainArms):
        def grow(self, arms=1):
            raise OverflowError("no room")

    found = failing("arms", Raises)
    assert "no error" in found["grow_keeps_the_rest"].expected
    assert "OverflowError('no room')" in str(found["grow_keeps_the_rest"])
    assert isinstance(found["grow_keeps_the_rest"].__cause__, OverflowError)
    assert isinstance(found["grow_keeps_the_rest"], BridleError | AssertionError)


def test_a_missing_method_is_named():
    lacking = type("Lacking", (), {n: v for n, v in vars(PlainLimits).items() if n != "refit"})
    error = failing("limits", lacking)["fits_the_protocol"]
    assert "every method of Limits" in str(error) and "refit" in str(error)


@pytest.mark.parametrize("p", [0.0, 1e-4, 0.01, 0.25, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("n", [1, 40, 2_500])
@pytest.mark.parametrize("cells", [1, 40])
def test_a_fit_errs_with_at_most_the_probability_that_it_says(p, n, cells):
    def judged(count):
        fit = Fit()
        for _ in range(cells):
            fit.add("x", count, n, p)
        try:
            fit.judge()
        except Miss:
            return False
        return True

    # Exactly: the probability, under p, of the counts that are refused. Per comparison it may
    # be ERROR / cells, so that all of them together stay below ERROR.
    odds = stats.binom.pmf(np.arange(n + 1), n, p)
    refused = sum(odds[count] for count in range(n + 1) if odds[count] < 1e-5 and not judged(count))
    assert refused <= ERROR / cells
    assert judged(round(n * p))
    if 0.0 < p < 1.0 and n == 2_500:  # and it is not blind: seven standard deviations are refused
        far = n * p + 9.0 * np.sqrt(n * p * (1.0 - p)) + 9.0
        assert far > n or not judged(int(far))


def test_a_fit_refuses_what_cannot_be():
    fit = Fit()
    fit.add_counts("arm", [0, 0, 1], [1.0, 0.0])
    with pytest.raises(Miss, match="arm: 0"):
        fit.judge()
    fit = Fit()
    fit.add_counts("arm", [0, -1, 0], [1.0])
    with pytest.raises(Miss, match="arm"):
        fit.judge()


def test_what_differs_is_said():
    with pytest.raises(Miss, match="float64 of shape"):
        expect_bits(np.zeros(2), np.zeros(3), "the same")
    with pytest.raises(Miss, match="shape"):
        expect_near([1.0], [1.0, 2.0], 1.0, "nearly the same")
    with pytest.raises(Miss, match="nan"):
        expect_near([np.nan], [1.0], np.inf, "nearly the same")

    def refuse():
        raise NotPossible("not now")

    expect_refusal(refuse, "a call")
    with pytest.raises(Miss, match="as a ValueError"):
        expect_refusal(refuse, "a call", ValueError)


def test_a_check_can_be_made_of_any_function():
    def is_even(number):
        """A number must be even."""
        if number % 2:
            raise Miss("an even number", number)

    check: Check[int] = Check.of("number", is_even)
    check(2)
    assert (check.name, check.what) == ("is_even", "A number must be even.")
    with pytest.raises(CheckFailed) as caught:
        check(3)
    assert str(caught.value) == "number.is_even: expected an even number. Saw 3 instead."

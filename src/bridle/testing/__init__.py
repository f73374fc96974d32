"""What any arms model, limits, policy or agent must do, as checks that you can run on your own.

Each `check_…` runs every check of its kind and gives a `Report` of what ran, so that a check that
was left out is seen; the first that does not hold raises `CheckFailed`. `checks_for` gives the same
checks one by one, for a test runner:

    @pytest.mark.parametrize("check", checks_for("arms"), ids=str)
    def test_my_arms(check):
        check(MyArms)

Checks of frequencies use fixed keys and seeds, so that they give the same answer each time; on
something that is right each of them would fail with a probability of at most 1e-6.
"""

from __future__ import annotations

from typing import Any, TypeVar

from bridle.policies import Policy
from bridle.testing.agents import AGENT, MakeAgent
from bridle.testing.base import Check, CheckFailed, Report
from bridle.testing.models import ARMS, LIMITS, ArmsModel, MakeArms, MakeLimits
from bridle.testing.policies import POLICY, SAMPLER, Law, Sampler
from bridle.validation import one_of

__all__ = [
    "ArmsModel",
    "Check",
    "CheckFailed",
    "Report",
    "Sampler",
    "check_agent",
    "check_arms",
    "check_limits",
    "check_policy",
    "check_sampler",
    "checks_for",
]

Subject = TypeVar("Subject")

_KINDS: dict[str, tuple[Check[Any], ...]] = {
    "arms": ARMS,
    "limits": LIMITS,
    "policy": POLICY,
    "sampler": SAMPLER,
    "agent": AGENT,
}


def checks_for(kind: str) -> tuple[Check[Any], ...]:
    """Give the checks of one kind, in order: "arms", "limits", "policy", "sampler" or "agent".

    Each is called with what the `check_…` of its kind takes; those for "sampler" take a `Sampler`.

    Examples
    --------
    >>> from bridle import Uniform
    >>> [check.name for check in checks_for("sampler")]
    ['choices_follow_the_law', 'propensities_follow_the_law']
    >>> checks_for("policy")[0](Uniform())
    """
    return _KINDS[one_of(kind, _KINDS, "kind", "checks_for")]


def check_arms(make: MakeArms) -> Report:
    """Check an arms model.

    Parameters
    ----------
    make : callable
        Gives a new `ArmsModel` from the keywords arms, features and ridge; a class that is made
        so serves as it stands.

    Returns
    -------
    Report
        The checks that ran.

    Raises
    ------
    CheckFailed
        At the first check that does not hold.

    Examples
    --------
    >>> from bridle import LinearArms
    >>> report = check_arms(LinearArms)
    >>> report.ran == len(checks_for("arms"))
    True
    """
    return _run("arms", ARMS, make)


def check_limits(make: MakeLimits) -> Report:
    """Check limits: `make` gives new `bridle.limits.Limits` from the keywords arms and features.

    They must also have the class method `from_state`. See `check_arms` for what it gives and
    raises.
    """
    return _run("limits", LIMITS, make)


def check_policy(policy: Policy) -> Report:
    """Check a policy: that what it says of its choices is true. See `check_arms`.

    Scores come with every field, `eligible` and `allowed` too. `Scores.parts` refuses what makes
    no sense in them.
    """
    return _run("policy", POLICY, policy)


def check_sampler(policy: Policy, law: Law) -> Report:
    """Check that a policy draws each arm's score from the normal law that it should.

    Parameters
    ----------
    policy : Policy
        One that plays the arm with the highest draw.
    law : callable
        From `Scores` to the mean and standard deviation of the draw of every arm: two arrays of K.

    Examples
    --------
    >>> from bridle import Thompson
    >>> check_sampler(Thompson(v=0.5), lambda s: (s.reward_mean, 0.5 * s.reward_sd)).ran
    2
    """
    return _run("sampler", SAMPLER, Sampler(policy, law))


def check_agent(make: MakeAgent) -> Report:
    """Check an agent: `make` gives a new one from the keywords of `bridle.Agent`.

    Settings of your own go into `make`; the checks give arms, features and seed, and where they
    are about one of them also policy, exact_denials, reward_range, ridge, ridge_limits,
    label_coding and sink. See `check_arms` for what it gives and raises.
    """
    return _run("agent", AGENT, make)


def _run(kind: str, checks: tuple[Check[Subject], ...], subject: Subject) -> Report:
    ran = []
    for check in checks:
        check(subject)
        ran.append(check.name)
    return Report(kind, tuple(ran))

"""What any policy, limits, reward model or agent must do, as checks that you can run on your own.

Each `check_…` runs every check of its kind and returns a `Report` of what ran, so that a check that
was left out is seen; the first that does not hold raises `CheckFailed`. `checks_for` returns the
same checks one by one, for a test runner:

    @pytest.mark.parametrize("check", checks_for("reward"), ids=str)
    def test_my_model(check):
        check(MyModel)

Checks of frequencies use fixed keys and seeds, so that they come out the same each time; on
something that is right each of them would fail with a probability of at most 1e-6.
"""

from __future__ import annotations

from typing import Any, TypeVar

from bridle.policies import Policy
from bridle.testing.agents import AGENT, MakeAgent
from bridle.testing.base import Check, CheckFailed, Report
from bridle.testing.limits import LIMITS, MakeLimits
from bridle.testing.models import REWARD, MakeReward
from bridle.testing.policies import POLICY
from bridle.validation import one_of

__all__ = [
    "Check",
    "CheckFailed",
    "Report",
    "check_agent",
    "check_limits",
    "check_policy",
    "check_reward_model",
    "checks_for",
]

Subject = TypeVar("Subject")

_KINDS: dict[str, tuple[Check[Any], ...]] = {
    "policy": POLICY,
    "limits": LIMITS,
    "reward": REWARD,
    "agent": AGENT,
}


def checks_for(kind: str) -> tuple[Check[Any], ...]:
    """Return the checks of one kind, in order: "policy", "limits", "reward" or "agent".

    Each is called with what the `check_…` of its kind takes.

    Examples
    --------
    >>> from bridle import Uniform
    >>> [check.name for check in checks_for("policy")][:2]
    ['answers_have_their_form', 'choice_is_of_scores_and_key_alone']
    >>> checks_for("policy")[0](Uniform())
    """
    return _KINDS[one_of(kind, _KINDS, "kind", "checks_for")]


def check_policy(policy: Policy) -> Report:
    """Check a policy: that its choices have the probabilities that it says, and no others.

    Scores come with every field, `eligible` and `allowed` too; `Scores.parts` checks them.

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
    >>> from bridle import Thompson
    >>> check_policy(Thompson()).ran == len(checks_for("policy"))
    True
    """
    return _run("policy", POLICY, policy)


def check_limits(make: MakeLimits) -> Report:
    """Check limits. See `check_policy` for what it returns and raises.

    Parameters
    ----------
    make : callable
        Makes new `bridle.limits.Beliefs` from the keywords arms, features, groups and seed; a class
        that is made so serves as it stands.
    """
    return _run("limits", LIMITS, make)


def check_reward_model(make: MakeReward) -> Report:
    """Check a reward model. See `check_policy` for what it returns and raises.

    Parameters
    ----------
    make : callable
        Makes a new `bridle.RewardModel` from the keywords arms and features; a class that is made
        so serves as it stands.

    Examples
    --------
    >>> from bridle import LinearArms
    >>> check_reward_model(LinearArms).ran == len(checks_for("reward"))
    True
    """
    return _run("reward", REWARD, make)


def check_agent(make: MakeAgent) -> Report:
    """Check an agent: `make` returns a new one from the keywords of `bridle.Agent`.

    Settings of your own go into `make`; the checks give arms, features and seed, and where they
    are about one of them also policy, exact_denials, reward_range, ridge, ridge_limits,
    label_coding, arm_features, reward and sink. See `check_policy` for what it returns and raises.
    """
    return _run("agent", AGENT, make)


def _run(kind: str, checks: tuple[Check[Subject], ...], subject: Subject) -> Report:
    ran = []
    for check in checks:
        check(subject)
        ran.append(check.name)
    return Report(kind, tuple(ran))

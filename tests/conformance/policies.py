"""What our policies must do beyond what `bridle.testing` asks of any policy.

They refuse what makes no sense, and draw scores from a known law.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from bridle.kernels.types import Floats
from bridle.policies import Policy, Scores
from bridle.testing.base import Check, Fit, each, expect_bits, expect_near, expect_refusal
from bridle.testing.policies import KEYS, scores_of
from bridle.testing.policies import POLICY as ANY_POLICY

# Mean and standard deviation of the score that a policy draws for each arm: two arrays of K.
Law: TypeAlias = Callable[[Scores], tuple[Floats, Floats]]


def bad_input_changes_nothing(policy: Policy) -> None:
    """What makes no sense is refused with an error of bridle, and nothing has changed."""
    good = scores_of("certain scores, two on top")
    before = policy.propensities(good)
    values = {field.name: getattr(good, field.name) for field in fields(Scores)}
    calls = each(
        "the key {}", lambda key: policy.choose(good, key), (-1, 2**64, True, 1.0, "1", None)
    )
    for name, wrong in _wrong_scores().items():
        bad = [Scores(**{**values, name: value}) for value in wrong]
        calls += each(f"choose with a bad {name} in {{}}", lambda s: policy.choose(s, 1), bad)
        calls += each(f"propensities with a bad {name} in {{}}", policy.propensities, bad)
    for what, call in calls:
        expect_refusal(call, what, ValueError)
        expect_bits(policy.propensities(good), before, f"the same propensities after {what}")


def _wrong_scores() -> dict[str, list[Any]]:
    ones = [1.0] * 3
    numbers: list[Any] = [[*ones, bad] for bad in (np.nan, np.inf, -np.inf, "a", None)]
    numbers += [ones, [ones] * 4, "abcd"]
    truths: list[Any] = [[True] * 3, [0, 1, 2, 1], ["yes"] * 4, [0.5] * 4, "abcd"]
    return {
        "reward_mean": numbers,
        "reward_sd": [*numbers, [*ones, -1e-3]],
        "limit_mean": numbers,
        "limit_sd": [*numbers, [*ones, -1e-3]],
        "eligible": truths,
        "allowed": truths,
    }


@dataclass(frozen=True, slots=True)
class Sampler:
    """A policy that draws a normal score for each arm and plays the best, and the law it says."""

    policy: Policy
    law: Law


def choices_follow_the_law(sampler: Sampler) -> None:
    """Between two arms the first is chosen with probability Φ(gap of means / joint spread)."""
    fit = Fit()
    for case, scores, p in _duels(sampler.law):
        seen = [sampler.policy.choose(scores, key) for key in range(KEYS)]
        fit.add_counts(f"{case}, arm", seen, [p, 1.0 - p])
    fit.judge()


def propensities_follow_the_law(sampler: Sampler) -> None:
    """The propensities of two arms are Φ(gap of means / joint spread) and the rest."""
    for case, scores, p in _duels(sampler.law):
        expect_near(
            sampler.policy.propensities(scores),
            [p, 1.0 - p],
            1e-9,
            f"the propensities of the law ({case})",
        )


def _duels(law: Law) -> list[tuple[str, Scores, float]]:
    """Give pairs of arms, and the first one's probability by the law, not far from Φ(1)."""
    both = np.ones(2, np.bool_)
    named = {
        "spreads 1 and 0.5": ([1.0, 0.5], [0.0, 0.0], 1.0, 0.0),
        "spreads 1 and 0.001": ([1.0, 0.001], [0.0, 0.0], 1.0, 0.0),
        "a gap in the limits": ([0.3, 0.2], [0.7, 0.4], 0.0, 1.0),
        "a gap in both": ([0.3, 0.9], [0.7, 0.1], 1.0, 0.5),
    }
    duels = []
    for case, (reward_sd, limit_sd, by_reward, by_limit) in named.items():
        best: tuple[float, Scores, float] | None = None
        for gap in np.geomspace(1e-3, 1e2, 26):
            scores = Scores(
                np.array([by_reward * gap, 0.0]),
                np.array(reward_sd),
                np.array([by_limit * gap, 0.0]),
                np.array(limit_sd),
                both,
                both,
            )
            p = _first_wins(*law(scores))
            # 0.84 tells a wrong spread best: it moves most there.
            if best is None or abs(p - 0.84) < abs(best[2] - 0.84):
                best = (gap, scores, p)
        assert best is not None
        duels.append((f"{case}, gap {best[0]:.3g}", best[1], best[2]))
    return duels


def _first_wins(mean: Floats, sd: Floats) -> float:
    gap, spread = float(mean[0] - mean[1]), math.hypot(float(sd[0]), float(sd[1]))
    if spread == 0.0:
        return 0.5 if gap == 0.0 else float(gap > 0.0)
    return 0.5 * math.erfc(-gap / spread * math.sqrt(0.5))


POLICY: tuple[Check[Policy], ...] = (
    *ANY_POLICY,
    Check.of("policy", bad_input_changes_nothing),
)
SAMPLER: tuple[Check[Sampler], ...] = tuple(
    Check.of("sampler", run) for run in (choices_follow_the_law, propensities_follow_the_law)
)

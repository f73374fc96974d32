"""What any policy must do, and what one must do that draws scores from a known law."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from bridle.kernels.types import Floats
from bridle.policies import Policy, Scores
from bridle.testing.base import Check, Fit, each, expect, expect_bits, expect_near, expect_refusal

__all__ = ["POLICY", "SAMPLER", "Law", "Sampler"]

KEYS = 1_500
# Mean and standard deviation of the score that a policy draws for each arm: two arrays of K.
Law: TypeAlias = Callable[[Scores], tuple[Floats, Floats]]


def scores_of(name: str) -> Scores:
    """Give what a policy sees in one of the cases, in arrays of its own."""
    mean, sd, limit_mean, limit_sd, eligible, allowed = (np.array(row) for row in CASES[name])
    return Scores(mean, sd, limit_mean, limit_sd, eligible, allowed)


# reward mean and sd, limit mean and sd, eligible, allowed; some arm is always both.
CASES: dict[str, tuple[list[float] | list[bool], ...]] = {
    "spread scores, an arm ruled out": (
        [0.2, 0.5, 0.4, 0.9],
        [0.8, 0.6, 1.0, 0.7],
        [0.3, 0.1, 0.6, 0.9],
        [0.5, 0.9, 0.3, 0.6],
        [True, True, True, False],
        [True, True, False, True],
    ),
    "equal scores": (
        [0.5] * 4,
        [1.0] * 4,
        [0.25] * 4,
        [1.0] * 4,
        [True] * 4,
        [True] * 4,
    ),
    "certain scores, two on top": (
        [0.5, 0.2, 0.5, 0.9],
        [0.0] * 4,
        [0.5, 0.2, 0.5, 0.9],
        [0.0] * 4,
        [True, True, True, False],
        [True] * 4,
    ),
    "spreads in a ratio of 1,000": (
        [0.5, 0.45, 0.52, 0.55],
        [1e-3, 1.0, 0.05, 0.0],
        [0.5, 0.45, 0.52, 0.55],
        [1e-3, 1.0, 0.05, 0.0],
        [True] * 4,
        [True] * 4,
    ),
}


def answers_have_their_form(policy: Policy) -> None:
    """`choose` gives the number of an eligible arm, `propensities` a float for every arm."""
    for case in CASES:
        scores = scores_of(case)
        eligible = np.asarray(scores.eligible)
        for key in (0, 1, 2**32, 2**64 - 1):
            arm = policy.choose(scores, key)
            expect(type(arm) is int, f"an int from choose ({case})", repr(arm))
            fine = arm == -1 or (0 <= arm < len(eligible) and eligible[arm])
            expect(fine, f"an eligible arm ({case})", arm)
        odds = policy.propensities(scores)
        good = (
            isinstance(odds, np.ndarray)
            and odds.dtype == np.float64
            and odds.shape == eligible.shape
        )
        expect(good, f"{len(eligible)} float64 from propensities ({case})", repr(odds))


def choice_is_of_scores_and_key_alone(policy: Policy) -> None:
    """Equal scores and an equal key give the same choice, whatever was asked in between."""
    for case in CASES:
        keys = [*range(40), 2**32 + 1, 2**63, 2**64 - 1]
        first = {key: policy.choose(scores_of(case), key) for key in keys}
        policy.propensities(scores_of(case))
        again = {key: policy.choose(scores_of(case), key) for key in reversed(keys)}
        differ = [key for key in keys if first[key] != again[key]]
        expect(
            not differ,
            f"the same choice for the same key ({case})",
            f"another for keys {differ[:5]}",
        )


def leaves_its_input_alone(policy: Policy) -> None:
    """Neither question changes the scores that it is given."""
    for case in CASES:
        given, kept = scores_of(case), scores_of(case)
        policy.choose(given, 1)
        policy.propensities(given)
        for field in fields(Scores):
            array = getattr(kept, field.name)
            expect_bits(getattr(given, field.name), array, f"{field.name} as it was given ({case})")


def propensities_are_probabilities(policy: Policy) -> None:
    """Propensities are ≥ 0, sum to one, and are zero for arms that may not be played."""
    for case in CASES:
        scores = scores_of(case)
        odds = policy.propensities(scores)
        expect((odds >= 0.0).all(), f"no propensity below 0 ({case})", odds)
        expect(
            abs(odds.sum() - 1.0) <= 1e-9, f"propensities that sum to 1 ({case})", float(odds.sum())
        )
        out = odds[~np.asarray(scores.eligible)]
        expect((out == 0.0).all(), f"propensity 0 for an arm that is not eligible ({case})", out)


def nothing_eligible_is_an_abstention(policy: Policy) -> None:
    """Where no arm may be played, `choose` gives −1 and every propensity is zero."""
    for case in CASES:
        scores = scores_of(case)
        np.asarray(scores.eligible)[:] = False
        seen = {policy.choose(scores, key) for key in range(50)}
        expect(seen == {-1}, f"-1 from choose where no arm is eligible ({case})", seen)
        odds = policy.propensities(scores)
        expect((odds == 0.0).all(), f"propensities of 0 where no arm is eligible ({case})", odds)


def propensities_match_the_draws(policy: Policy) -> None:
    """Over many keys each arm is chosen as often as its propensity says, ties included."""
    fit = Fit()
    for case in CASES:
        scores = scores_of(case)
        seen = [policy.choose(scores, key) for key in range(KEYS)]
        fit.add_counts(f"{case}, arm", seen, policy.propensities(scores))
    fit.judge()


def order_of_arms_does_not_matter(policy: Policy) -> None:
    """Other numbers for the same arms: the same propensities under the other numbers."""
    for case in CASES:
        plain = policy.propensities(scores_of(case))
        for order in ((3, 2, 1, 0), (1, 2, 3, 0), (2, 0, 3, 1), (0, 1, 3, 2)):
            at = np.array(order)
            values = (getattr(scores_of(case), field.name)[at] for field in fields(Scores))
            seen = policy.propensities(Scores(*values))
            expect_near(
                seen, plain[at], 1e-9, f"the same propensities in the order {order} ({case})"
            )


def keys_draw_independently(policy: Policy) -> None:
    """Where several arms may win, choices differ by the key and are independent between keys."""
    case = "equal scores"
    scores = scores_of(case)
    odds = policy.propensities(scores)
    expect(odds.max() < 0.99, f"more than one arm that may win ({case})", odds)
    K = len(odds)
    fit = Fit()
    for far in (1, 2**32, 2**63):
        firsts = [2 * i for i in range(KEYS // 6)] if far == 1 else list(range(KEYS // 6))
        pairs = np.array(
            [(policy.choose(scores, a), policy.choose(scores, a + far)) for a in firsts]
        )
        both = np.where((pairs < 0).any(axis=1), -1, pairs[:, 0] * K + pairs[:, 1])
        fit.add_counts(f"keys {far} apart, pair of arms", both, np.outer(odds, odds).ravel())
    fit.judge()


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


POLICY: tuple[Check[Policy], ...] = tuple(
    Check.of("policy", run)
    for run in (
        answers_have_their_form,
        choice_is_of_scores_and_key_alone,
        leaves_its_input_alone,
        propensities_are_probabilities,
        nothing_eligible_is_an_abstention,
        propensities_match_the_draws,
        order_of_arms_does_not_matter,
        keys_draw_independently,
        bad_input_changes_nothing,
    )
)
SAMPLER: tuple[Check[Sampler], ...] = tuple(
    Check.of("sampler", run) for run in (choices_follow_the_law, propensities_follow_the_law)
)

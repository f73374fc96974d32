"""What any policy must do."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from bridle.policies import Policy, Scores
from bridle.testing.base import Check, Fit, expect, expect_bits, expect_near

__all__ = ["POLICY"]

KEYS = 1_500
# What a policy sees of each arm.
ARRAYS = tuple(field.name for field in fields(Scores) if field.name != "plays")


def scores_of(name: str) -> Scores:
    """Return what a policy sees in one of the cases, in arrays of its own."""
    mean, sd, limit_mean, limit_sd, eligible, allowed = (np.array(row) for row in CASES[name])
    return Scores(mean, sd, limit_mean, limit_sd, eligible, allowed, plays=9.0)


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
        for name in ARRAYS:
            array = getattr(kept, name)
            expect_bits(getattr(given, name), array, f"{name} as it was given ({case})")


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
            values = {name: getattr(scores_of(case), name)[at] for name in ARRAYS}
            seen = policy.propensities(replace(scores_of(case), **values))
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
    )
)

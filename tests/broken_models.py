"""Arms, limits and policies that others might write, right ones and broken ones, for test_checks.

`PlainArms`, `PlainLimits` and `PlainThompson` are plain, of their own arithmetic, and right. Every
broken one has one flaw, and must fail one check alone: the one that `BROKEN` names.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from bridle import Thompson, validation
from tests.conformance import Sampler
from tests.reference import win_probabilities

# -- what others might write ----------------------------------------------------------------------


class PlainArms:
    """Sums, and a solve whenever one asks."""

    def __init__(self, *, arms, features, ridge=0.7):
        K = validation.COUNT.check(arms, "arms", "PlainArms")
        self.d = validation.COUNT.check(features, "features", "PlainArms")
        self.ridge = validation.POSITIVE.check(ridge, "ridge", "PlainArms")
        self.B = np.tile(self.ridge * np.eye(self.d), (K, 1, 1))
        self.f = np.zeros((K, self.d))

    arms = property(lambda self: len(self.f))
    features = property(lambda self: self.d)

    def update(self, arm, context, outcome):
        c = validation.vector(context, self.d, "context", "PlainArms")
        k = validation.IntRange(0, len(self.f) - 1).check(arm, "arm", "PlainArms")
        self.fold(k, c, validation.OUTCOME.check(outcome, "outcome", "PlainArms"))

    def fold(self, k, c, y):
        self.B[k] += c[:, None] * c
        self.f[k] += c * y

    def update_many(self, arms, contexts, outcomes):
        C = validation.matrix(contexts, self.d, "contexts", "PlainArms")
        y = validation.outcomes(outcomes, len(C), "outcomes", "PlainArms")
        for row in zip(
            validation.indices(arms, len(C), len(self.f), "arms", "PlainArms"), C, y, strict=True
        ):
            self.fold(*row)

    def refold(self, k, C, y):
        self.B[k], self.f[k] = self.ridge * np.eye(self.d), 0.0
        for row in zip(C, y, strict=True):
            self.fold(k, *row)

    def inverses(self):
        return np.linalg.inv(self.B)

    def scores(self, context):
        c = validation.vector(context, self.d, "context", "PlainArms")
        A = self.inverses()
        across = (A * c).sum(axis=2)  # (K, d)
        return (across * self.f).sum(axis=1), np.sqrt(np.maximum((across * c).sum(axis=1), 0.0))

    def scores_many(self, contexts):
        C = validation.matrix(contexts, self.d, "contexts", "PlainArms")
        pairs = [self.scores(c) for c in C]
        shape = (len(C), len(self.f))
        return tuple(np.array([pair[i] for pair in pairs]).reshape(shape) for i in (0, 1))

    def grow(self, arms=1):
        more = validation.COUNT.check(arms, "arms", "PlainArms")
        self.B = np.concatenate([self.B, np.tile(self.ridge * np.eye(self.d), (more, 1, 1))])
        self.f = np.concatenate([self.f, np.zeros((more, self.d))])

    def to_state(self):
        return {"B": self.B.copy(), "f": self.f.copy(), "ridge": np.array(self.ridge)}

    @classmethod
    def from_state(cls, state):
        self = cls(arms=len(state["f"]), features=state["f"].shape[1], ridge=float(state["ridge"]))
        self.B, self.f = state["B"].copy(), state["f"].copy()
        return self


class PlainLimits:
    """`PlainArms` of labels."""

    kind = PlainArms

    def __init__(self, *, arms, features):
        self.linear = self.kind(arms=arms, features=features)

    arms = property(lambda self: self.linear.arms)
    features = property(lambda self: self.linear.features)

    def learn(self, context, arm, allowed):
        self.linear.update(arm, context, float(validation.truth(allowed, "allowed", "PlainLimits")))

    def refit(self, arm, contexts, allowed):
        C = validation.matrix(contexts, self.linear.d, "contexts", "PlainLimits")
        answers = validation.truths(allowed, len(C), "allowed", "PlainLimits")
        k = validation.IntRange(0, self.arms - 1).check(arm, "arm", "PlainLimits")
        self.linear.refold(k, C, answers.astype(float))

    def scores(self, context):
        return self.linear.scores(context)

    def scores_many(self, contexts):
        return self.linear.scores_many(contexts)

    def grow(self, arms=1):
        self.linear.grow(arms)

    def to_state(self):
        return self.linear.to_state()

    @classmethod
    def from_state(cls, state):
        self = cls(arms=1, features=1)
        self.linear = cls.kind.from_state(state)
        return self


class PlainThompson:
    """Thompson sampling by numpy's own generator, with propensities by adaptive quadrature."""

    def choose(self, scores, key):
        parts, eligible, _ = scores.parts()
        rng = np.random.Generator(np.random.Philox(validation.SEED.check(key, "key", "Plain")))
        drawn = np.where(
            eligible, parts[0] + parts[1] * rng.standard_normal(len(eligible)), -np.inf
        )
        best = np.flatnonzero(drawn == drawn.max())
        return int(rng.choice(best)) if eligible.any() else -1

    def propensities(self, scores):
        parts, eligible, _ = scores.parts()
        odds = np.zeros(len(eligible))
        if eligible.any():
            odds[eligible] = win_probabilities(parts[0, eligible], parts[1, eligible])
        return odds


# -- arms and limits with one flaw ----------------------------------------------------------------


class SaysTheWrongShape(PlainArms):
    features = property(lambda self: self.d + 1)


class ForgetsTheRidgeAtFirst(PlainArms):
    """The covariance of an untrained arm is I whatever the ridge; the first example mends it."""

    def inverses(self):
        untrained = (self.f == 0.0).all(axis=1) & (self.B == self.ridge * np.eye(self.d)).all(
            (1, 2)
        )
        return np.where(untrained[:, None, None], np.eye(self.d), super().inverses())


class Shrinks(PlainArms):
    def scores(self, context):
        mean, sd = super().scores(context)
        return mean * (1.0 - 1e-8), sd


class RoundsArmThreeOtherwise(PlainArms):
    def scores(self, context):
        mean, sd = super().scores(context)
        mean[3:4] *= 1.0 + 1e-13
        return mean, sd


class LeaksIntoTheOthers(PlainArms):
    def fold(self, k, c, y):
        self.f[np.arange(len(self.f)) != k] *= 1.0 - 1e-14
        super().fold(k, c, y)

    def refold(self, k, C, y):
        others = self.f.copy()
        super().refold(k, C, y)
        self.f[np.arange(len(self.f)) != k] = np.delete(others, k, axis=0)


class SumsOtherwiseInABatchOfScores(PlainArms):
    def scores_many(self, contexts):
        mean, sd = super().scores_many(contexts)
        return mean * (1.0 + 2.0**-50), sd


class SumsABatchFirst(PlainArms):
    def update_many(self, arms, contexts, outcomes):
        fresh = PlainArms(arms=self.arms, features=self.d, ridge=self.ridge)
        fresh.update_many(arms, contexts, outcomes)
        self.B += fresh.B - self.ridge * np.eye(self.d)
        self.f += fresh.f


class LosesItsInverseOnRestart(PlainArms):
    """Keeps an inverse by rank-one updates, but not in its state: other bits after a restart."""

    A = None

    def inverses(self):
        return super().inverses() if self.A is None else self.A

    def fold(self, k, c, y):
        self.A = self.inverses().copy()
        super().fold(k, c, y)
        u = self.A[k] @ c
        self.A[k] -= u[:, None] * u / (1.0 + c @ u)

    def refold(self, k, C, y):
        if self.A is not None:
            self.A[k] = np.eye(self.d) / self.ridge
        super().refold(k, C, y)

    def grow(self, arms=1):
        super().grow(arms)
        if self.A is not None:
            more = super().inverses()[len(self.A) :]
            self.A = np.concatenate([self.A, more])


class HandsOutItself(PlainArms):
    def to_state(self):
        return {"B": self.B, "f": self.f, "ridge": np.array(self.ridge)}


class KeepsWhatItWasReadFrom(PlainArms):
    @classmethod
    def from_state(cls, state):
        self = super().from_state(state)
        self.f = state["f"]
        return self


class GrowsWithAnotherRidge(PlainArms):
    def grow(self, arms=1):
        K = self.arms
        super().grow(arms)
        self.B[K:] = np.eye(self.d)


class ForgetsWhenItGrows(PlainArms):
    def grow(self, arms=1):
        super().grow(arms)
        self.f[0] = 0.0


class FoldsUntilItMeetsTheBadRow(PlainArms):
    def update_many(self, arms, contexts, outcomes):
        C, k = np.asarray(contexts), np.asarray(arms)
        y = np.asarray(outcomes)
        if C.ndim != 2 or not C.shape[0] == k.shape[:1][0] == y.shape[:1][0]:
            super().update_many(arms, contexts, outcomes)
        for row in zip(k, C, y, strict=True):
            self.update(int(row[0]), row[1], float(row[2]))


class TakesTrueForOne(PlainArms):
    def update(self, arm, context, outcome):
        super().update(int(arm) if arm is True else arm, context, outcome)


SHARED = [
    ("fits_the_protocol", SaysTheWrongShape),
    ("order_of_arms_does_not_matter", RoundsArmThreeOtherwise),
    ("other_arms_are_untouched", LeaksIntoTheOthers),
    ("batch_of_scores_is_one_by_one", SumsOtherwiseInABatchOfScores),
    ("restart_is_no_restart", LosesItsInverseOnRestart),
    ("state_is_a_copy", HandsOutItself),
    ("state_is_a_copy", KeepsWhatItWasReadFrom),
    ("grow_keeps_the_rest", GrowsWithAnotherRidge),
    ("grow_keeps_the_rest", ForgetsWhenItGrows),
]


class HearsOnlyYes(PlainLimits):
    def learn(self, context, arm, allowed):
        validation.truth(allowed, "allowed", "HearsOnlyYes")
        super().learn(context, arm, True)

    def refit(self, arm, contexts, allowed):
        C = validation.matrix(contexts, self.linear.d, "contexts", "HearsOnlyYes")
        validation.truths(allowed, len(C), "allowed", "HearsOnlyYes")
        super().refit(arm, C, np.ones(len(C), bool))


class DoubtsEverMore(PlainLimits):
    def scores(self, context):
        mean, sd = self.linear.scores(context)
        return mean, sd * np.trace(self.linear.B, axis1=1, axis2=2)

    def scores_many(self, contexts):
        mean, sd = self.linear.scores_many(contexts)
        return mean, sd * np.trace(self.linear.B, axis1=1, axis2=2)


class ForgetsNothing(PlainLimits):
    def refit(self, arm, contexts, allowed):
        before = self.linear.to_state()
        super().refit(arm, contexts, allowed)
        self.linear.B[arm] += before["B"][arm]


class RelearnsBackwards(PlainLimits):
    def refit(self, arm, contexts, allowed):
        C = validation.matrix(contexts, self.linear.d, "contexts", "PlainLimits")
        answers = validation.truths(allowed, len(C), "allowed", "PlainLimits")
        super().refit(arm, C[::-1], answers[::-1])


def limits_of(arms_class):
    return type(f"{arms_class.__name__}Limits", (PlainLimits,), {"kind": arms_class})


# -- policies with one flaw -----------------------------------------------------------------------


class AnswersInNumpy(Thompson):
    def choose(self, scores, key):
        return np.int64(super().choose(scores, key))


class CountsItsCalls(Thompson):
    calls = itertools.count()

    def choose(self, scores, key):
        validation.SEED.check(key, "key", "CountsItsCalls")
        return super().choose(scores, next(self.calls))


class WritesIntoTheScores(Thompson):
    def choose(self, scores, key):
        arm = super().choose(scores, key)
        scores.reward_mean[~scores.eligible] = -9.0
        return arm


class SumsToMore(Thompson):
    def propensities(self, scores):
        return super().propensities(scores) * (1.0 + 1e-6)


class PlaysRegardless(Thompson):
    def choose(self, scores, key):
        return max(super().choose(scores, key), 0)


class SaysAnotherSpread(Thompson):
    def propensities(self, scores):
        return Thompson(v=2.0 * self.weights.v).propensities(scores)


class ForgetsWhoMayPlay(Thompson):
    """Propensities over all arms, then cut to the eligible ones and scaled to sum to one."""

    def propensities(self, scores):
        _, eligible, _ = scores.parts()
        odds = super().propensities(replace(scores, eligible=np.ones(len(eligible), bool)))
        odds = odds * eligible
        return odds / odds.sum() if odds.any() else super().propensities(scores)


class FixedRule(Thompson):
    """Forty points whatever the spreads: it misses what is narrow."""

    def propensities(self, scores):
        parts, eligible, _ = scores.parts()
        at, weight = np.polynomial.hermite_e.hermegauss(40)
        m, s = parts[0], np.maximum(self.v * parts[1], 1e-9)
        odds = np.zeros(len(m))
        for k in np.flatnonzero(eligible):
            below = stats.norm.cdf((m[k] + s[k] * at[:, None] - m) / s)
            below[:, ~eligible] = 1.0
            below[:, k] = 1.0
            odds[k] = weight @ below.prod(axis=1)
        return odds / (odds.sum() if eligible.any() else 1.0)


class FavoursLaterArms(Thompson):
    def propensities(self, scores):
        odds = super().propensities(scores)
        odds = odds * (1.0 + 1e-7 * np.arange(len(odds)))
        return odds / (odds.sum() or 1.0)


class DropsABitOfTheKey(Thompson):
    def choose(self, scores, key):
        return super().choose(scores, validation.SEED.check(key, "key", "Drops") & ~1)


class UsesHalfTheKey(Thompson):
    def choose(self, scores, key):
        return super().choose(scores, validation.SEED.check(key, "key", "Half") % 2**32)


class TakesAnyKey(Thompson):
    def choose(self, scores, key):
        return super().choose(scores, key % 2**64 if isinstance(key, int) else key)


class PlaysAnotherSpread(Thompson):
    def choose(self, scores, key):
        return Thompson(v=1.5 * self.weights.v).choose(scores, key)


class DrawsOnceForAllArms(Thompson):
    def choose(self, scores, key):
        z = np.random.Generator(np.random.Philox(key)).standard_normal()
        return int(np.argmax(scores.reward_mean + self.weights.v * z * scores.reward_sd))


BROKEN: list[tuple[str, str, Any]] = [
    *(("arms", name, flawed) for name, flawed in SHARED),
    ("arms", "bad_input_changes_nothing", TakesTrueForOne),
    ("arms", "untrained_is_the_prior", ForgetsTheRidgeAtFirst),
    ("arms", "posterior_is_the_direct_solve", Shrinks),
    ("arms", "batch_of_updates_is_one_by_one", SumsABatchFirst),
    ("arms", "bad_input_changes_nothing", FoldsUntilItMeetsTheBadRow),
    *(("limits", name, limits_of(flawed)) for name, flawed in SHARED),
    ("limits", "bad_examples_change_nothing", limits_of(TakesTrueForOne)),
    ("limits", "answers_move_the_belief", HearsOnlyYes),
    ("limits", "doubt_never_rises", DoubtsEverMore),
    ("limits", "relearn_is_the_fold", ForgetsNothing),
    ("limits", "relearn_is_the_fold", RelearnsBackwards),
    ("policy", "answers_have_their_form", AnswersInNumpy()),
    ("policy", "choice_is_of_scores_and_key_alone", CountsItsCalls()),
    ("policy", "leaves_its_input_alone", WritesIntoTheScores()),
    ("policy", "propensities_are_probabilities", SumsToMore()),
    ("policy", "nothing_eligible_is_an_abstention", PlaysRegardless()),
    ("policy", "propensities_match_the_draws", SaysAnotherSpread()),
    ("policy", "propensities_match_the_draws", ForgetsWhoMayPlay(v=0.5)),
    ("policy", "order_of_arms_does_not_matter", FavoursLaterArms()),
    ("policy", "keys_draw_independently", DropsABitOfTheKey()),
    ("policy", "keys_draw_independently", UsesHalfTheKey()),
    ("policy", "bad_input_changes_nothing", TakesAnyKey()),
    *(
        ("sampler", name, Sampler(policy, lambda s: (s.reward_mean, 0.5 * s.reward_sd)))
        for name, policy in (
            ("choices_follow_the_law", PlaysAnotherSpread(v=0.5)),
            ("choices_follow_the_law", DrawsOnceForAllArms(v=0.5)),
            ("propensities_follow_the_law", SaysAnotherSpread(v=0.5)),
            ("propensities_follow_the_law", FixedRule(v=0.5)),
        )
    ),
]

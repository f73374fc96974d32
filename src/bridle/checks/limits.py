"""What any limits must do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from bridle.checks import models
from bridle.checks.arms import bad_arms, bad_contexts
from bridle.checks.base import (
    Calls,
    Check,
    State,
    as_bytes_and_back,
    each,
    expect,
    expect_bits,
    expect_refusal,
    expect_same_state,
)
from bridle.checks.models import D, Examples, Family, K, examples, look
from bridle.kernels.types import Floats
from bridle.limits import Limits

__all__ = ["LIMITS", "MakeLimits"]


class MakeLimits(Protocol):
    """Gives new limits; the class itself, if it is made with these keywords.

    What it gives has, beside the methods of `bridle.limits.Limits`, the class method
    `from_state(state)`.
    """

    def __call__(self, *, arms: int, features: int) -> Limits:
        """Give limits of which nothing was taught."""
        ...


def _new(make: MakeLimits, arms: int, features: int) -> Limits:
    return make(arms=arms, features=features)


def _feed(model: Limits, arm: int, context: Floats, outcome: float) -> None:
    model.learn(context, arm, outcome > 0.5)


def _read(model: Limits, state: State) -> Limits:
    read: Callable[[State], Limits] = type(model).from_state  # type: ignore[attr-defined]
    return read(state)


FAMILY: Family[MakeLimits, Limits] = Family(Limits, _new, _feed, _read)


def answers_move_the_belief(make: MakeLimits) -> None:
    """Each "allowed" raises the belief in that very context, each "denied" lowers it."""
    for context in (np.ones(D), np.array([0.0, 0.5, -2.0]), np.array([0.01, 0.0, 0.0])):
        for allowed in (True, False):
            limits = _new(make, K, D)
            # From the middle: some codings hold an untaught arm for denied, or for allowed.
            for answer in (True, False, False, True):
                limits.learn(context, 1, answer)
            before = limits.scores(context)[0][1]
            for count in range(1, 30):
                limits.learn(context, 1, allowed)
                after = limits.scores(context)[0][1]
                expect(
                    after > before if allowed else after < before,
                    f"a {'higher' if allowed else 'lower'} belief in {context.tolist()} after the "
                    f"same answer {count} times",
                    f"{after!r} after {before!r}",
                )
                before = after


def doubt_never_rises(make: MakeLimits) -> None:
    """Answers about one context never raise the doubt there, and lower it in the end."""
    for context in (np.ones(D), np.array([0.0, 0.5, -2.0])):
        for answers in ([True] * 40, [False] * 40, [True, False] * 20):
            limits = _new(make, K, D)
            first = before = limits.scores(context)[1][2]
            for answer in answers:
                limits.learn(context, 2, answer)
                after = limits.scores(context)[1][2]
                expect(
                    0.0 <= after <= before * (1.0 + 1e-12),
                    f"a doubt of at most {before!r} in {context.tolist()}",
                    float(after),
                )
                before = after
            expect(before < first, f"a doubt below {first!r} after 40 answers", float(before))


def relearn_is_the_fold(make: MakeLimits) -> None:
    """`relearn` leaves the arm as if it had been taught these answers alone, in order, in bits."""
    stream = examples(120)
    mine = np.flatnonzero(stream.arms == 1)
    for stand in (mine[1:], mine[:-1], mine[::2], mine[:1], mine[:0]):
        limits = FAMILY.trained(make, stream)
        before = look(limits)[:, :, [0, 2, 3]]
        limits.relearn(1, stream.contexts[stand], stream.outcomes[stand] > 0.5)
        fold = FAMILY.trained(make, stream.only(stand))
        what = f"the fold of the {len(stand)} answers that stand"
        expect_bits(look(limits)[:, :, 1], look(fold)[:, :, 1], what)
        expect_bits(look(limits)[:, :, [0, 2, 3]], before, "the other arms as they were")
        more = Examples(np.full(6, 1), stream.contexts[:6], stream.outcomes[:6])
        FAMILY.learn(limits, more)
        FAMILY.learn(fold, more)
        expect_bits(look(limits)[:, :, 1], look(fold)[:, :, 1], f"{what} and of further ones")


def bad_input_changes_nothing(make: MakeLimits) -> None:
    """What makes no sense is refused with an error of bridle, and nothing has changed."""
    limits = FAMILY.trained(make, examples(30))
    before, state = look(limits), as_bytes_and_back(limits.to_state())
    for what, call in _bad_calls(limits, make):
        expect_refusal(call, what, ValueError)
        expect_bits(look(limits), before, f"the same scores after {what}")
        expect_same_state(limits.to_state(), state, f"the same state after {what}")


def _bad_calls(limits: Limits, make: MakeLimits) -> Calls:
    good, rows, yes = np.ones(D), np.ones((3, D)), [True, False, True]
    last = [np.where(np.arange(3)[:, None] == 2, bad, rows) for bad in (np.nan, np.inf, -np.inf)]
    counts = (0, -1, True, 1.5, "2", None)

    def of(**changed: Any) -> object:
        return make(**{"arms": K, "features": D, **changed})

    return [
        *each("learn in {}", lambda c: limits.learn(c, 0, True), bad_contexts()),
        *each("learn of the arm {}", lambda k: limits.learn(good, k, True), bad_arms()),
        *each(
            "the answer {}",
            lambda answer: limits.learn(good, 0, answer),
            (2, -1, 0.5, "yes", "True", None, np.nan, [True]),
        ),
        *each("relearn of the arm {}", lambda k: limits.relearn(k, rows, yes), bad_arms()),
        *each(
            "relearn in {}",
            lambda C: limits.relearn(0, C, yes),
            (*last, rows[:2], rows[:, :-1], good, "abc", None),
        ),
        *each(
            "relearn of the answers {}",
            lambda answers: limits.relearn(0, rows, answers),
            (yes[:2], [True, False, 2], [0.5] * 3, ["yes"] * 3, True, None),
        ),
        *each("scores of {}", limits.scores, bad_contexts()),
        *each("scores_many of {}", limits.scores_many, (*last, good, np.ones((2, D + 1)), None)),
        *each("grow({})", limits.grow, counts),
        *each("{} arms", lambda n: of(arms=n), counts),
        *each("{} features", lambda n: of(features=n), counts),
    ]


LIMITS: tuple[Check[MakeLimits], ...] = (
    Check.of("limits", models.fits_the_protocol, FAMILY),
    Check.of("limits", answers_move_the_belief),
    Check.of("limits", doubt_never_rises),
    Check.of("limits", relearn_is_the_fold),
    Check.of("limits", models.order_of_arms_does_not_matter, FAMILY),
    Check.of("limits", models.other_arms_are_untouched, FAMILY),
    Check.of("limits", models.batch_of_scores_is_one_by_one, FAMILY),
    Check.of("limits", models.restart_is_no_restart, FAMILY),
    Check.of("limits", models.state_is_a_copy, FAMILY),
    Check.of("limits", models.grow_keeps_the_rest, FAMILY),
    Check.of("limits", bad_input_changes_nothing),
)

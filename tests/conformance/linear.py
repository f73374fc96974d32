"""What our linear arms and linear limits must do beyond what `bridle.testing` asks of any model.

They share nothing between arms, have the bits of the formulas, and refuse what makes no sense.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from bridle.kernels.types import Floats
from bridle.limits import Limits
from bridle.testing.base import (
    Calls,
    Check,
    State,
    as_bytes_and_back,
    each,
    expect,
    expect_bits,
    expect_near,
    expect_refusal,
    expect_same_state,
)
from bridle.testing.models import (
    D,
    Examples,
    Family,
    K,
    Kind,
    Make,
    batch_of_scores_is_one_by_one,
    examples,
    fits_the_protocol,
    probes,
    restart_is_no_restart,
    scores_in,
    state_is_a_copy,
)


def order_of_arms_does_not_matter(make: Make, family: Family[Make, Kind]) -> None:
    """Other numbers for the same arms: the same scores, in bits, under the other numbers."""
    stream = examples(80)
    plain = scores_in(family.trained(make, stream))
    for order in ([3, 0, 2, 1], [1, 2, 3, 0]):
        place = np.array(order)
        other = Examples(place[stream.arms], stream.contexts, stream.outcomes)
        seen = scores_in(family.trained(make, other))
        expect_bits(seen[:, :, place], plain, f"the same scores with the arms numbered {order}")


def other_arms_are_untouched(make: Make, family: Family[Make, Kind]) -> None:
    """An example of one arm changes what is known of that arm and of no other."""
    stream = examples(60)
    model = family.trained(make, stream)
    for arm, context, outcome in examples(12, seed=8):
        before = scores_in(model)
        family.feed(model, arm, context, outcome)
        others = np.arange(K) != arm
        expect_bits(
            scores_in(model)[:, :, others],
            before[:, :, others],
            f"an example of arm {arm} to leave the rest",
        )


def grow_keeps_the_rest(make: Make, family: Family[Make, Kind]) -> None:
    """`grow` keeps what is known and adds arms that know nothing and learn like the others."""
    stream = examples(60)
    model = family.trained(make, stream)
    before = scores_in(model)
    untrained = scores_in(family.new(make, 1, D))[:, :, 0]
    for more in (1, 2):
        known = model.arms
        model.grow(more)
        seen = scores_in(model)
        expect_bits(seen[:, :, :K], before, f"what was known before grow({more})")
        for arm in range(known, known + more):
            expect_bits(seen[:, :, arm], untrained, f"arm {arm} to know nothing after grow({more})")
    for arm, context, outcome in stream:
        family.feed(model, K + 2 if arm == 0 else arm, context, outcome)
    expect_bits(scores_in(model)[:, :, K + 2], before[:, :, 0], "a grown arm to learn as arm 0 did")


# --- What any arms model must do ----------------------------------------------------------


RIDGES = (1e-3, 0.5, 1.0, 40.0)


@runtime_checkable
class ArmsModel(Protocol):
    """What any arms model can do: K posteriors over the outcome, one an arm.

    Arms are numbers 0 … K−1, contexts have d numbers. The belief about an arm's weights is
    N(μ, B⁻¹) with B = ridge·I + Σ c cᵀ and μ = B⁻¹ Σ c·y over the examples (c, y) of that arm.
    """

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        ...

    @property
    def features(self) -> int:
        """Length of a context, d."""
        ...

    def update(self, arm: int, context: npt.ArrayLike, outcome: float) -> None:
        """Fold one example into an arm."""
        ...

    def update_many(
        self, arms: npt.ArrayLike, contexts: npt.ArrayLike, outcomes: npt.ArrayLike
    ) -> None:
        """Fold examples in order, all or none: the same bits as `update` one by one."""
        ...

    def scores(self, context: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean cᵀμ and standard deviation √(cᵀB⁻¹c) of every arm: two arrays of K."""
        ...

    def scores_many(self, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of every arm for each context: two arrays (n, K)."""
        ...

    def grow(self, arms: int = 1) -> None:
        """Add arms that know nothing yet, after the others."""
        ...

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that the arms know, as named arrays."""
        ...

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Arms as they were at `to_state`."""
        ...


class MakeArms(Protocol):
    """Gives a new arms model; the class itself, if it is made with these keywords."""

    def __call__(self, *, arms: int, features: int, ridge: float) -> ArmsModel:
        """Give a model of so many arms that know nothing."""
        ...


def _new(make: MakeArms, arms: int, features: int) -> ArmsModel:
    return make(arms=arms, features=features, ridge=0.7)


def _feed(model: ArmsModel, arm: int, context: Floats, outcome: float) -> None:
    # Of full precision, so that the order of sums shows in the bits.
    model.update(arm, context, outcome * 0.7 + context[0] * 0.1)


def _read(model: ArmsModel, state: State) -> ArmsModel:
    return type(model).from_state(state)


_ARMS_FAMILY: Family[MakeArms, ArmsModel] = Family(ArmsModel, _new, _feed, _read)


def untrained_is_the_prior(make: MakeArms) -> None:
    """Of an untrained arm, precision × covariance = I whatever the ridge, and the mean is 0."""
    C = probes()
    for ridge in RIDGES:
        mean, sd = scores_in(make(arms=K, features=D, ridge=ridge), C)
        expect_bits(mean, np.zeros_like(mean), f"mean 0 of an untrained arm at ridge {ridge}")
        squares = np.repeat((C * C).sum(axis=1)[:, None], K, axis=1)
        expect_near(
            ridge * sd * sd,
            squares,
            1e-9 * squares,
            f"ridge·sd² = cᵀc of an untrained arm at ridge {ridge}",
        )


def posterior_is_the_direct_solve(make: MakeArms) -> None:
    """After examples mean and sd are those of B = ridge·I + Σ c cᵀ and μ = B⁻¹ Σ c·y."""
    stream = examples(1_500)
    stream.arms[:8] = [0, 1, 2, 3, 0, 1, 2, 3]
    outcomes = np.random.default_rng(3).normal(stream.contexts.sum(axis=1))
    C = probes()
    for ridge, n in ((RIDGES[0], 8), (RIDGES[1], 40), (RIDGES[2], 1_500), (RIDGES[3], 400)):
        model = make(arms=K, features=D, ridge=ridge)
        model.update_many(stream.arms[:n], stream.contexts[:n], outcomes[:n])
        mean, sd = scores_in(model, C)
        for arm in range(K):
            mine = stream.arms[:n] == arm
            X, y = stream.contexts[:n][mine], outcomes[:n][mine]
            B = ridge * np.eye(D) + X.T @ X
            wanted = C @ np.linalg.solve(B, X.T @ y)
            spread = np.sqrt(np.einsum("nd,dn->n", C, np.linalg.solve(B, C.T)))
            where = f"of arm {arm} after {mine.sum()} examples at ridge {ridge}"
            expect_near(
                mean[:, arm], wanted, 1e-9 * (1.0 + np.abs(wanted)), f"the solved mean {where}"
            )
            expect_near(sd[:, arm], spread, 1e-9 * spread, f"the solved sd {where}")


def batch_of_updates_is_one_by_one(make: MakeArms) -> None:
    """`update_many` has the bits of `update`, however the examples are split."""
    stream = examples(240)
    outcomes = stream.outcomes * 0.7 + stream.contexts[:, 0] * 0.1
    single = _ARMS_FAMILY.trained(make, stream)
    for cuts in ([], [120], [1, 2, 3], [0, 37, 37, 200], list(range(0, 240, 16))):
        model = _new(make, K, D)
        edges = [0, *cuts, 240]
        for a, b in itertools.pairwise(edges):
            model.update_many(stream.arms[a:b], stream.contexts[a:b], outcomes[a:b])
        expect_bits(
            scores_in(model),
            scores_in(single),
            f"the scores of one by one, in batches cut at {cuts}",
        )
        expect_same_state(
            model.to_state(),
            single.to_state(),
            f"the state of one by one, in batches cut at {cuts}",
        )


def bad_input_changes_nothing(make: MakeArms) -> None:
    """What makes no sense is refused with an error of bridle, and nothing has changed."""
    model = _ARMS_FAMILY.trained(make, examples(30))
    before, state = scores_in(model), as_bytes_and_back(model.to_state())
    for what, call in _bad_calls(model, make):
        expect_refusal(call, what, ValueError)
        expect_bits(scores_in(model), before, f"the same scores after {what}")
        expect_same_state(model.to_state(), state, f"the same state after {what}")


def _bad_calls(model: ArmsModel, make: MakeArms) -> Calls:
    good, rows, many = np.ones(D), np.ones((5, D)), np.ones(5)
    arms = np.array([0, 1, 2, 3, 0])
    # All but the last row is good, so that one who folds as he goes has folded.
    last = [np.where(np.arange(5)[:, None] == 4, bad, rows) for bad in (np.nan, np.inf, -np.inf)]
    last_arms = [np.where(np.arange(5) == 4, bad, arms) for bad in (-1, K)]
    counts = (0, -1, True, 1.5, "2", None)

    def of(**changed: Any) -> object:
        return make(**{"arms": K, "features": D, "ridge": 1.0, **changed})

    return [
        *each("update with the context {}", lambda c: model.update(0, c, 1.0), bad_contexts()),
        *each("update of the arm {}", lambda k: model.update(k, good, 1.0), bad_arms()),
        *each(
            "update with the outcome {}",
            lambda y: model.update(0, good, y),
            (np.nan, np.inf, -np.inf, True, "1", None, [1.0], 1j),
        ),
        *each("update_many with {}", lambda C: model.update_many(arms, C, many), last),
        *each(
            "update_many with the outcomes {}",
            lambda y: model.update_many(arms, rows, y),
            (*(bad[:, 0] for bad in last), many[:4], ["a"] * 5, 1.0, None),
        ),
        *each(
            "update_many of the arms {}",
            lambda k: model.update_many(k, rows, many),
            (*last_arms, arms[:4], arms + 0.5, arms > 0, ["0"] * 5, 0, None),
        ),
        *each(
            "update_many with the contexts {}",
            lambda C: model.update_many(arms, C, many),
            (rows[:, :-1], rows[:4], good, "abc", None),
        ),
        *each("scores of {}", model.scores, bad_contexts()),
        *each(
            "scores_many of {}", model.scores_many, (*last, good, np.ones((2, D + 1)), "a", None)
        ),
        *each("grow({})", model.grow, counts),
        *each("{} arms", lambda n: of(arms=n), counts),
        *each("{} features", lambda n: of(features=n), counts),
        *each("ridge {}", lambda r: of(ridge=r), (0.0, -1.0, np.nan, np.inf, True, "1", None)),
    ]


def bad_contexts() -> list[Any]:
    """Give what is no context of D numbers."""
    good = [1.0] * (D - 1)
    return [
        [*good, np.nan],
        [*good, np.inf],
        [*good, -np.inf],
        good,
        [*good, 1.0, 1.0],
        [],
        1.0,
        [[*good, 1.0]],
        "abc",
        ["a"] * D,
        [*good, None],
        [*good, 1j],
        None,
    ]


def bad_arms() -> list[Any]:
    """Give what is no number of one of K arms."""
    return [-1, K, 2**70, True, 0.0, "0", None, np.nan, [0]]


ARMS: tuple[Check[MakeArms], ...] = (
    Check.of("arms", fits_the_protocol, _ARMS_FAMILY),
    Check.of("arms", untrained_is_the_prior),
    Check.of("arms", posterior_is_the_direct_solve),
    Check.of("arms", order_of_arms_does_not_matter, _ARMS_FAMILY),
    Check.of("arms", other_arms_are_untouched, _ARMS_FAMILY),
    Check.of("arms", batch_of_scores_is_one_by_one, _ARMS_FAMILY),
    Check.of("arms", batch_of_updates_is_one_by_one),
    Check.of("arms", restart_is_no_restart, _ARMS_FAMILY),
    Check.of("arms", state_is_a_copy, _ARMS_FAMILY),
    Check.of("arms", grow_keeps_the_rest, _ARMS_FAMILY),
    Check.of("arms", bad_input_changes_nothing),
)


# --- What any limits must do --------------------------------------------------------------


class MakeLimits(Protocol):
    """Gives new limits; the class itself, if it is made with these keywords.

    What it gives has, beside the methods of `bridle.limits.Limits`, the class method
    `from_state(state)`.
    """

    def __call__(self, *, arms: int, features: int) -> Limits:
        """Give limits of which nothing was taught."""
        ...


def _new_limits(make: MakeLimits, arms: int, features: int) -> Limits:
    return make(arms=arms, features=features)


def _feed_limits(model: Limits, arm: int, context: Floats, outcome: float) -> None:
    model.learn(context, arm, outcome > 0.5)


def _read_limits(model: Limits, state: State) -> Limits:
    read: Callable[[State], Limits] = type(model).from_state  # type: ignore[attr-defined]
    return read(state)


_LIMITS_FAMILY: Family[MakeLimits, Limits] = Family(Limits, _new_limits, _feed_limits, _read_limits)


def answers_move_the_belief(make: MakeLimits) -> None:
    """Each "allowed" raises the belief in that very context, each "denied" lowers it."""
    for context in (np.ones(D), np.array([0.0, 0.5, -2.0]), np.array([0.01, 0.0, 0.0])):
        for allowed in (True, False):
            limits = _new_limits(make, K, D)
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
            limits = _new_limits(make, K, D)
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
    """`refit` leaves the arm as if it had been taught these answers alone, in order, in bits."""
    stream = examples(120)
    mine = np.flatnonzero(stream.arms == 1)
    for stand in (mine[1:], mine[:-1], mine[::2], mine[:1], mine[:0]):
        limits = _LIMITS_FAMILY.trained(make, stream)
        before = scores_in(limits)[:, :, [0, 2, 3]]
        limits.refit(1, stream.contexts[stand], stream.outcomes[stand] > 0.5)
        fold = _LIMITS_FAMILY.trained(make, stream.only(stand))
        what = f"the fold of the {len(stand)} answers that stand"
        expect_bits(scores_in(limits)[:, :, 1], scores_in(fold)[:, :, 1], what)
        expect_bits(scores_in(limits)[:, :, [0, 2, 3]], before, "the other arms as they were")
        more = Examples(np.full(6, 1), stream.contexts[:6], stream.outcomes[:6])
        _LIMITS_FAMILY.learn(limits, more)
        _LIMITS_FAMILY.learn(fold, more)
        expect_bits(
            scores_in(limits)[:, :, 1], scores_in(fold)[:, :, 1], f"{what} and of further ones"
        )


def bad_examples_change_nothing(make: MakeLimits) -> None:
    """What makes no sense is refused with an error of bridle, and nothing has changed."""
    limits = _LIMITS_FAMILY.trained(make, examples(30))
    before, state = scores_in(limits), as_bytes_and_back(limits.to_state())
    for what, call in _bad_examples(limits, make):
        expect_refusal(call, what, ValueError)
        expect_bits(scores_in(limits), before, f"the same scores after {what}")
        expect_same_state(limits.to_state(), state, f"the same state after {what}")


def _bad_examples(limits: Limits, make: MakeLimits) -> Calls:
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
        *each("refit of the arm {}", lambda k: limits.refit(k, rows, yes), bad_arms()),
        *each(
            "refit in {}",
            lambda C: limits.refit(0, C, yes),
            (*last, rows[:2], rows[:, :-1], good, "abc", None),
        ),
        *each(
            "refit of the answers {}",
            lambda answers: limits.refit(0, rows, answers),
            (yes[:2], [True, False, 2], [0.5] * 3, ["yes"] * 3, True, None),
        ),
        *each("scores of {}", limits.scores, bad_contexts()),
        *each("scores_many of {}", limits.scores_many, (*last, good, np.ones((2, D + 1)), None)),
        *each("grow({})", limits.grow, counts),
        *each("{} arms", lambda n: of(arms=n), counts),
        *each("{} features", lambda n: of(features=n), counts),
    ]


LIMITS: tuple[Check[MakeLimits], ...] = (
    Check.of("limits", fits_the_protocol, _LIMITS_FAMILY),
    Check.of("limits", answers_move_the_belief),
    Check.of("limits", doubt_never_rises),
    Check.of("limits", relearn_is_the_fold),
    Check.of("limits", order_of_arms_does_not_matter, _LIMITS_FAMILY),
    Check.of("limits", other_arms_are_untouched, _LIMITS_FAMILY),
    Check.of("limits", batch_of_scores_is_one_by_one, _LIMITS_FAMILY),
    Check.of("limits", restart_is_no_restart, _LIMITS_FAMILY),
    Check.of("limits", state_is_a_copy, _LIMITS_FAMILY),
    Check.of("limits", grow_keeps_the_rest, _LIMITS_FAMILY),
    Check.of("limits", bad_examples_change_nothing),
)

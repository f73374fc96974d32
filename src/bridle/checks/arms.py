"""What any arms model must do."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from bridle.checks import models
from bridle.checks.base import (
    Calls,
    Check,
    State,
    as_bytes_and_back,
    each,
    expect_bits,
    expect_near,
    expect_refusal,
    expect_same_state,
)
from bridle.checks.models import D, Family, K, examples, look, probes
from bridle.kernels.types import Floats

__all__ = ["ARMS", "ArmsModel", "MakeArms"]

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


FAMILY: Family[MakeArms, ArmsModel] = Family(ArmsModel, _new, _feed, _read)


def untrained_is_the_prior(make: MakeArms) -> None:
    """Of an untrained arm, precision × covariance = I whatever the ridge, and the mean is 0."""
    C = probes()
    for ridge in RIDGES:
        mean, sd = look(make(arms=K, features=D, ridge=ridge), C)
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
        mean, sd = look(model, C)
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
    single = FAMILY.trained(make, stream)
    for cuts in ([], [120], [1, 2, 3], [0, 37, 37, 200], list(range(0, 240, 16))):
        model = _new(make, K, D)
        edges = [0, *cuts, 240]
        for a, b in itertools.pairwise(edges):
            model.update_many(stream.arms[a:b], stream.contexts[a:b], outcomes[a:b])
        expect_bits(
            look(model), look(single), f"the scores of one by one, in batches cut at {cuts}"
        )
        expect_same_state(
            model.to_state(),
            single.to_state(),
            f"the state of one by one, in batches cut at {cuts}",
        )


def bad_input_changes_nothing(make: MakeArms) -> None:
    """What makes no sense is refused with an error of bridle, and nothing has changed."""
    model = FAMILY.trained(make, examples(30))
    before, state = look(model), as_bytes_and_back(model.to_state())
    for what, call in _bad_calls(model, make):
        expect_refusal(call, what, ValueError)
        expect_bits(look(model), before, f"the same scores after {what}")
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
        [*good, np.nan], [*good, np.inf], [*good, -np.inf], good, [*good, 1.0, 1.0], [], 1.0,
        [[*good, 1.0]], "abc", ["a"] * D, [*good, None], [*good, 1j], None,
    ]  # fmt: skip


def bad_arms() -> list[Any]:
    """Give what is no number of one of K arms."""
    return [-1, K, 2**70, True, 0.0, "0", None, np.nan, [0]]


ARMS: tuple[Check[MakeArms], ...] = (
    Check.of("arms", models.fits_the_protocol, FAMILY),
    Check.of("arms", untrained_is_the_prior),
    Check.of("arms", posterior_is_the_direct_solve),
    Check.of("arms", models.order_of_arms_does_not_matter, FAMILY),
    Check.of("arms", models.other_arms_are_untouched, FAMILY),
    Check.of("arms", models.batch_of_scores_is_one_by_one, FAMILY),
    Check.of("arms", batch_of_updates_is_one_by_one),
    Check.of("arms", models.restart_is_no_restart, FAMILY),
    Check.of("arms", models.state_is_a_copy, FAMILY),
    Check.of("arms", models.grow_keeps_the_rest, FAMILY),
    Check.of("arms", bad_input_changes_nothing),
)

"""What any kind of limits must do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from bridle.kernels.types import Floats
from bridle.limits import Beliefs
from bridle.testing.base import (
    Check,
    State,
    as_bytes_and_back,
    expect,
    expect_bits,
    expect_same_state,
)

__all__ = ["LIMITS", "MakeLimits"]

K, D = 5, 4
GROUPS = ("a", None, "a", "b", None)
PARTS = {"p": np.float64, "safe": np.bool_, "possible": np.bool_}
PARTS |= {"information": np.float64, "sd": np.float64}
# An answer: context, arm, whether it is allowed, and its own random bits.
Answer = tuple[Floats, int, bool, int]


class MakeLimits(Protocol):
    """Makes new limits; the class itself, if it is made with these keywords."""

    def __call__(
        self, *, arms: int, features: int, groups: Sequence[str | None], seed: int
    ) -> Beliefs:
        """Return limits of which nothing was taught."""
        ...


def answers(n: int, seed: int = 7) -> list[Answer]:
    """Return n answers by one rule: flag 0 is denied to arms 0 and 2, flag 1 to arm 3."""
    rng = np.random.default_rng(seed)
    C = (rng.random((n, D)) < 0.5).astype(np.float64)
    arms = rng.integers(0, K, n).tolist()
    bits = rng.integers(0, 2**63, n).tolist()
    denied = {0: 0, 2: 0, 3: 1}
    return [
        (C[i], k, not (k in denied and C[i, denied[k]] > 0.5), bits[i]) for i, k in enumerate(arms)
    ]


def probes() -> Floats:
    """Return every context of D flags: (2^D, D)."""
    return np.array([[float(n >> i & 1) for i in range(D)] for n in range(2**D)])


def made(make: MakeLimits, taught: Iterable[Answer] = ()) -> Beliefs:
    """Return limits of K arms over D features after these answers."""
    limits = make(arms=K, features=D, groups=list(GROUPS), seed=3)
    learn(limits, taught)
    return limits


def learn(limits: Beliefs, taught: Iterable[Answer]) -> None:
    """Fold answers one by one."""
    for context, arm, allowed, key in taught:
        limits.learn(context.copy(), arm, allowed, key)


def seen(limits: Beliefs) -> dict[str, Any]:
    """Return all that is predicted of every unit at every probe."""
    found = limits.predict_all(probes())
    return {name: getattr(found, name) for name in PARTS}


def expect_same(got: State, wanted: State, expected: str) -> None:
    """Both must predict the same, in bits."""
    for name in PARTS:
        expect_bits(got[name], wanted[name], f"{expected} ({name})")


def fits_the_contract(make: MakeLimits) -> None:
    """Shapes, dtypes and ranges are those of `Prediction`; what is safe is possible."""
    for limits in (made(make), made(make, answers(40))):
        expect(isinstance(limits, Beliefs), "limits that are `bridle.limits.Beliefs`", limits)
        expect((limits.arms, limits.features) == (K, D), f"arms, features = {K, D}", limits)
        unit_of = np.asarray(limits.unit_of)
        expect(
            unit_of.shape == (K,) and set(unit_of.tolist()) == set(range(limits.units)),
            f"unit_of with the unit of each of {K} arms, numbered from 0",
            unit_of,
        )
        found = seen(limits)
        for name, dtype in PARTS.items():
            array, shape = found[name], (limits.units, 2**D)
            good = array.shape == shape and array.dtype == dtype and np.isfinite(array).all()
            expect(good, f"'{name}' of {np.dtype(dtype)} and shape {shape}, finite", array)
        expect(((found["p"] >= 0) & (found["p"] <= 1)).all(), "p in [0, 1]", found["p"])
        expect(not (found["safe"] & ~found["possible"]).any(), "what is safe to be possible", found)
        expect((found["information"] >= 0).all(), "no information below 0", found["information"])
        expect((found["sd"] >= 0).all(), "no sd below 0", found["sd"])


def one_unit_is_as_all_units(make: MakeLimits) -> None:
    """`predict_all` has the bits of `predict` unit by unit, one context or many."""
    for limits in (made(make), made(make, answers(40))):
        found, C = seen(limits), probes()
        for unit in range(limits.units):
            for rows in (slice(None), slice(3, 4), slice(0, 0)):
                one = limits.predict(unit, C[rows])
                for name in PARTS:
                    wanted = found[name][unit, rows]
                    expect_bits(getattr(one, name), wanted, f"'{name}' of unit {unit} alone")


def predictions_change_nothing(make: MakeLimits) -> None:
    """To predict changes nothing."""
    limits = made(make, answers(40))
    before, state = seen(limits), as_bytes_and_back(limits.to_state())
    limits.predict(0, probes())
    expect_same(seen(limits), before, "the same predictions when asked again")
    expect_same_state(limits.to_state(), state, "the same state after predictions")


def equal_answers_give_equal_bits(make: MakeLimits) -> None:
    """Equal answers with equal keys in the same order give equal states and predictions."""
    one, two = (made(make, answers(60)) for _ in range(2))
    expect_same_state(two.to_state(), one.to_state(), "the state of equal answers")
    expect_same(seen(two), seen(one), "the predictions of equal answers")


def answers_move_the_belief(make: MakeLimits) -> None:
    """Where "denied" was said thirty times an arm is not safe, and less likely allowed."""
    context = probes()[5]
    yes, no = (made(make, [(context, 1, said, key) for key in range(30)]) for said in (True, False))
    unit = int(np.asarray(yes.unit_of)[1])
    allowed, denied = (limits.predict(unit, context[None]) for limits in (yes, no))
    expect(bool(allowed.possible[0]), "what was allowed 30 times to be possible", allowed)
    expect(not denied.safe[0], "what was denied 30 times not to be safe", denied)
    expect(denied.p[0] < 0.5 < allowed.p[0], "p on either side of .5", (denied.p, allowed.p))


def restart_is_no_restart(make: MakeLimits) -> None:
    """Limits read back from their state go on as if there had been no pause, in bits."""
    every = answers(80)
    for pause in (0, 1, 50):
        limits = made(make, every[:pause])
        back = type(limits).from_state(as_bytes_and_back(limits.to_state()))
        what = f"without a restart after {pause} answers"
        expect_same(seen(back), seen(limits), f"the predictions {what}")
        for one in (limits, back):
            learn(one, every[pause : pause + 30])
            one.grow(2, ["a", None])
        expect_same(seen(back), seen(limits), f"the predictions {what}")
        expect_same_state(back.to_state(), limits.to_state(), f"the state {what}")


def copies_learn_apart(make: MakeLimits) -> None:
    """What is copied or handed out is not shared: changing it changes nothing here."""
    limits = made(make, answers(40))
    before = seen(limits)
    twin = limits.copy()
    expect_same(seen(twin), before, "a copy that predicts the same")
    learn(twin, answers(30, seed=8))
    for array in limits.to_state().values():
        if array.flags.writeable:
            array[...] = array[::-1] if array.ndim else array
    expect_same(seen(limits), before, "no change by a change of a copy")


def grow_keeps_the_rest(make: MakeLimits) -> None:
    """`grow` keeps what is believed of the units there are, and new arms can be taught."""
    limits = made(make, answers(40))
    before, units = seen(limits), limits.units
    limits.grow(2, ["a", None])
    expect(limits.arms == K + 2, f"arms {K + 2} after grow(2)", limits.arms)
    for name in PARTS:
        expect_bits(seen(limits)[name][:units], before[name], f"'{name}' as before grow(2)")
    learn(limits, [(probes()[5], K + 1, False, key) for key in range(30)])
    unit = int(np.asarray(limits.unit_of)[K + 1])
    found = limits.predict(unit, probes()[5:6])
    expect(not found.safe[0] and found.p[0] < 0.5, "a new arm that learns what is denied", found)


def refit_forgets_the_rest(make: MakeLimits) -> None:
    """`refit` leaves a unit with these answers alone: those that are gone move nothing."""
    context, every = probes()[5], answers(40)
    limits = made(make, [*every, *((context, 1, False, key) for key in range(30))])
    unit = int(np.asarray(limits.unit_of)[1])
    mine = [one for one in every if int(np.asarray(limits.unit_of)[one[1]]) == unit]
    rows = np.array([one[0] for one in mine]).reshape(-1, D)
    said = np.array([one[2] for one in mine], np.bool_)
    bits = np.array([one[3] for one in mine], np.uint64)
    before = float(limits.predict(unit, context[None]).p[0])

    def refit() -> None:
        if limits.finds_groups:  # any answer moves all units
            limits.refit_all(every)
        else:
            limits.refit(unit, rows, said, bits)

    refit()
    after = float(limits.predict(unit, context[None]).p[0])
    expect(after > before, "p above what 30 denials made it, once they are gone", (before, after))
    first = seen(limits)
    refit()
    expect_same(seen(limits), first, "the same predictions from the same answers")


LIMITS: tuple[Check[MakeLimits], ...] = tuple(
    Check.of("limits", run)
    for run in (
        fits_the_contract,
        one_unit_is_as_all_units,
        predictions_change_nothing,
        equal_answers_give_equal_bits,
        answers_move_the_belief,
        restart_is_no_restart,
        copies_learn_apart,
        grow_keeps_the_rest,
        refit_forgets_the_rest,
    )
)

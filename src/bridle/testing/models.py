"""What any reward model must do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from bridle.kernels.types import Floats, Ints
from bridle.reward.base import RewardModel
from bridle.testing.base import (
    Check,
    State,
    as_bytes_and_back,
    expect,
    expect_bits,
    expect_same_state,
)

__all__ = ["REWARD", "Family", "MakeReward", "Model"]


K, D = 4, 3


class Model(Protocol):
    """What the checks of this file use of arms or limits."""

    @property
    def arms(self) -> int: ...  # noqa: D102
    @property
    def features(self) -> int: ...  # noqa: D102
    def scores(self, context: Floats, /) -> tuple[Floats, Floats]: ...  # noqa: D102
    def scores_many(self, contexts: Floats, /) -> tuple[Floats, Floats]: ...  # noqa: D102
    def grow(self, arms: int = 1, /) -> None: ...  # noqa: D102
    def to_state(self) -> dict[str, npt.NDArray[Any]]: ...  # noqa: D102


Make = TypeVar("Make")
Kind = TypeVar("Kind", bound=Model)


@dataclass(frozen=True)
class Family(Generic[Make, Kind]):
    """How the models of one kind are made, fed and read back."""

    protocol: type
    new: Callable[[Make, int, int], Kind]
    feed: Callable[[Kind, int, Floats, float], None]
    read: Callable[[Kind, State], Kind]

    def trained(self, make: Make, examples: Examples) -> Kind:
        """Return a model of K arms over D features after these examples."""
        model = self.new(make, K, D)
        self.learn(model, examples)
        return model

    def learn(self, model: Kind, examples: Examples) -> None:
        """Feed examples one by one."""
        for arm, context, outcome in examples:
            self.feed(model, arm, context, outcome)


@dataclass(frozen=True)
class Examples:
    """A stream of (arm, context, outcome); outcomes are 0 or 1."""

    arms: Ints
    contexts: Floats
    outcomes: Floats

    def __iter__(self) -> Iterator[tuple[int, Floats, float]]:
        rows = zip(self.arms.tolist(), self.contexts, self.outcomes.tolist(), strict=True)
        return ((arm, context.copy(), outcome) for arm, context, outcome in rows)

    def only(self, keep: slice | Ints) -> Examples:
        """Return those at these places."""
        return Examples(self.arms[keep], self.contexts[keep], self.outcomes[keep])


def examples(n: int, seed: int = 7) -> Examples:
    """Return n examples of K arms: contexts of full precision, with zeros among them."""
    rng = np.random.default_rng(seed)
    return Examples(
        rng.integers(0, K, n),
        rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.8),
        rng.integers(0, 2, n).astype(np.float64),
    )


def probes(n: int = 12, seed: int = 11) -> Floats:
    """Return contexts to compare models in: random ones, unit vectors and zero."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(n, D)), np.eye(D), np.zeros((1, D))])


def scores_in(model: Model, contexts: Floats | None = None) -> Floats:
    """Return mean and sd of every arm at every probe, one context at a time: (2, n, K)."""
    pairs = [
        model.scores(context.copy()) for context in (probes() if contexts is None else contexts)
    ]
    return np.array([[mean for mean, _ in pairs], [sd for _, sd in pairs]])


def fits_the_protocol(make: Make, family: Family[Make, Kind]) -> None:
    """The model has every method of its kind, says its shape, and its scores have that shape."""
    model = family.new(make, K, D)
    names = [name for name in (*vars(family.protocol), "from_state") if not name.startswith("_")]
    missing = ", ".join(name for name in names if not hasattr(model, name))
    expect(not missing, f"every method of {family.protocol.__name__}", f"none called {missing}")
    expect(
        (model.arms, model.features) == (K, D),
        f"arms, features = {K, D}",
        (model.arms, model.features),
    )
    model.grow(2)
    expect((model.arms, model.features) == (K + 2, D), f"arms {K + 2} after grow(2)", model.arms)
    C = probes()
    for name, answer, shape in (
        ("scores", model.scores(C[0]), (K + 2,)),
        ("scores_many", model.scores_many(C), (len(C), K + 2)),
    ):
        for array in answer:
            good = (
                isinstance(array, np.ndarray) and array.shape == shape and array.dtype == np.float64
            )
            expect(good, f"{name} to give two float64 arrays of shape {shape}", array)
            expect(np.isfinite(array).all(), f"{name} to give finite numbers", array)
        expect((answer[1] >= 0.0).all(), f"{name} to give no sd below 0", answer[1])


def batch_of_scores_is_one_by_one(make: Make, family: Family[Make, Kind]) -> None:
    """`scores_many` has the bits of `scores`, whatever the size of the batch."""
    model = family.trained(make, examples(80))
    C = probes(40)
    single = scores_in(model, C)
    for size in (1, 2, 7, len(C)):
        parts = [model.scores_many(C[at : at + size]) for at in range(0, len(C), size)]
        for row, name in enumerate(("mean", "sd")):
            together = np.concatenate([part[row] for part in parts])
            expect_bits(together, single[row], f"the {name} of `scores` in batches of {size}")
    nothing = model.scores_many(np.empty((0, D)))
    expect(
        nothing[0].shape == nothing[1].shape == (0, K), f"shape {(0, K)} for no contexts", nothing
    )


def restart_is_no_restart(make: Make, family: Family[Make, Kind]) -> None:
    """A model read back from its state goes on as if there had been no pause, in bits."""
    # Long enough for whatever is done "every so many updates" to fall before and after.
    stream = examples(1_300)
    stream.arms[np.arange(1_300) % 10 > 0] = 1
    for pause, more in ((0, 10), (1, 50), (700, 600), (1_200, 50)):
        model = family.trained(make, stream.only(slice(pause)))
        back = family.read(model, as_bytes_and_back(model.to_state()))
        expect_same_state(
            back.to_state(), model.to_state(), f"the state written after {pause} examples"
        )
        expect_bits(
            scores_in(back), scores_in(model), f"the scores from before the restart after {pause}"
        )
        family.learn(model, stream.only(slice(pause, pause + more)))
        family.learn(back, stream.only(slice(pause, pause + more)))
        expect_bits(
            scores_in(back), scores_in(model), f"the scores without a restart after {pause}"
        )
        model.grow()
        back.grow()
        expect_same_state(
            back.to_state(), model.to_state(), f"the state without a restart after {pause}"
        )


def state_is_a_copy(make: Make, family: Family[Make, Kind]) -> None:
    """What goes in and out is copied: changing it afterwards changes nothing."""
    stream = examples(40)
    model = family.trained(make, stream)
    before, state = scores_in(model), as_bytes_and_back(model.to_state())
    handed = model.to_state()
    _scribble(*handed.values())
    _scribble(*model.scores(probes()[0]), *model.scores_many(probes()))
    expect_bits(scores_in(model), before, "no change by a change of what was handed out")
    expect_same_state(model.to_state(), state, "no change by a change of what was handed out")
    given = as_bytes_and_back(state)
    back = family.read(model, given)
    before = scores_in(back)
    _scribble(*given.values())
    expect_bits(scores_in(back), before, "no change by a change of the state that it was read from")
    twin, context = family.trained(make, stream), np.ones(D)
    family.feed(model, 0, np.ones(D), 1.0)
    family.feed(twin, 0, context, 1.0)
    context[:] = 5.0
    expect_bits(
        scores_in(twin), scores_in(model), "no change by a change of a context after its example"
    )


def _scribble(*arrays: npt.NDArray[Any]) -> None:
    for array in arrays:
        if array.flags.writeable:  # one that cannot be changed is as good as a copy
            array[...] = ~array if array.dtype.kind == "b" else array + 1


class MakeReward(Protocol):
    """Makes a new reward model; the class itself, if it is made with these keywords."""

    def __call__(self, *, arms: int, features: int) -> RewardModel:
        """Return a model of so many arms that know nothing."""
        ...


def _new(make: MakeReward, arms: int, features: int) -> RewardModel:
    return make(arms=arms, features=features)


def _feed(model: RewardModel, arm: int, context: Floats, outcome: float) -> None:
    # Of full precision, so that the order of sums shows in the bits.
    model.update(arm, context, min(max(outcome * 0.7 + context[0] * 0.1, 0.0), 1.0))


def _read(model: RewardModel, state: State) -> RewardModel:
    return type(model).from_state(state)


_FAMILY: Family[MakeReward, RewardModel] = Family(RewardModel, _new, _feed, _read)


def equal_updates_give_equal_bits(make: MakeReward) -> None:
    """Two models with equal updates in the same order have equal states and scores, in bits."""
    one, two = (_FAMILY.trained(make, examples(120)) for _ in range(2))
    expect_same_state(two.to_state(), one.to_state(), "the state of equal updates")
    expect_bits(scores_in(two), scores_in(one), "the scores of equal updates")


def scores_change_nothing(make: MakeReward) -> None:
    """To ask for scores changes nothing."""
    model = _FAMILY.trained(make, examples(60))
    before = as_bytes_and_back(model.to_state())
    first = scores_in(model)
    model.scores_many(probes())
    expect_bits(scores_in(model), first, "the same scores when asked again")
    expect_same_state(model.to_state(), before, "the same state after scores")


def rewards_move_the_mean(make: MakeReward) -> None:
    """An arm that earns 1 in a context is worth more there than before, one that earns 0 less."""
    context = np.array([1.0, 0.5, 0.0])
    for reward in (1.0, 0.0):
        model = _new(make, K, D)
        # From the middle: what an untried arm is worth is the model's own affair.
        for outcome in (1.0, 0.0) * 4:
            model.update(1, context.copy(), outcome)
        before = float(model.scores(context)[0][1])
        for _ in range(40):
            model.update(1, context.copy(), reward)
        after = float(model.scores(context)[0][1])
        expect(
            after > before if reward else after < before,
            f"a {'higher' if reward else 'lower'} mean after 40 rewards of {reward:g}",
            f"{after!r} after {before!r}",
        )


def grow_keeps_the_rest(make: MakeReward) -> None:
    """`grow` keeps the scores of the arms there are; the new ones learn."""
    model = _FAMILY.trained(make, examples(60))
    before = scores_in(model)
    model.grow(2)
    expect_bits(scores_in(model)[:, :, :K], before, "what was known before grow(2)")
    context = np.ones(D)
    first = float(model.scores(context)[0][K + 1])
    for _ in range(40):
        model.update(K + 1, context.copy(), 1.0)
    after = float(model.scores(context)[0][K + 1])
    expect(
        after > first, "a higher mean of a new arm after 40 rewards of 1", f"{after} after {first}"
    )


REWARD: tuple[Check[MakeReward], ...] = (
    Check.of("reward", fits_the_protocol, _FAMILY),
    Check.of("reward", equal_updates_give_equal_bits),
    Check.of("reward", scores_change_nothing),
    Check.of("reward", rewards_move_the_mean),
    Check.of("reward", batch_of_scores_is_one_by_one, _FAMILY),
    Check.of("reward", restart_is_no_restart, _FAMILY),
    Check.of("reward", state_is_a_copy, _FAMILY),
    Check.of("reward", grow_keeps_the_rest),
)

"""What arms and limits must do alike: both learn from examples of single arms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from bridle.checks.base import (
    State,
    as_bytes_and_back,
    expect,
    expect_bits,
    expect_same_state,
)
from bridle.kernels.types import Floats, Ints

__all__ = ["Family", "Model"]

K, D = 4, 3


class Model(Protocol):
    """What the checks of this file use of arms or limits."""

    @property
    def arms(self) -> int: ...  # noqa: D102
    @property
    def features(self) -> int: ...  # noqa: D102
    def scores(self, context: npt.ArrayLike) -> tuple[Floats, Floats]: ...  # noqa: D102
    def scores_many(self, contexts: npt.ArrayLike) -> tuple[Floats, Floats]: ...  # noqa: D102
    def grow(self, arms: int = 1) -> None: ...  # noqa: D102
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
        """Give a model of K arms over D features after these examples."""
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
        """Give those at these places."""
        return Examples(self.arms[keep], self.contexts[keep], self.outcomes[keep])


def examples(n: int, seed: int = 7) -> Examples:
    """Give n examples of K arms: contexts of full precision, with zeros among them."""
    rng = np.random.default_rng(seed)
    return Examples(
        rng.integers(0, K, n),
        rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.8),
        rng.integers(0, 2, n).astype(np.float64),
    )


def probes(n: int = 12, seed: int = 11) -> Floats:
    """Give contexts to look at a model with: random ones, unit vectors and zero."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(n, D)), np.eye(D), np.zeros((1, D))])


def look(model: Model, contexts: Floats | None = None) -> Floats:
    """Give mean and sd of every arm at every probe, one context at a time: (2, n, K)."""
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


def order_of_arms_does_not_matter(make: Make, family: Family[Make, Kind]) -> None:
    """Other numbers for the same arms: the same scores, in bits, under the other numbers."""
    stream = examples(80)
    plain = look(family.trained(make, stream))
    for order in ([3, 0, 2, 1], [1, 2, 3, 0]):
        place = np.array(order)
        other = Examples(place[stream.arms], stream.contexts, stream.outcomes)
        seen = look(family.trained(make, other))
        expect_bits(seen[:, :, place], plain, f"the same scores with the arms numbered {order}")


def other_arms_are_untouched(make: Make, family: Family[Make, Kind]) -> None:
    """An example of one arm changes what is known of that arm and of no other."""
    stream = examples(60)
    model = family.trained(make, stream)
    for arm, context, outcome in examples(12, seed=8):
        before = look(model)
        family.feed(model, arm, context, outcome)
        others = np.arange(K) != arm
        expect_bits(
            look(model)[:, :, others],
            before[:, :, others],
            f"an example of arm {arm} to leave the rest",
        )


def batch_of_scores_is_one_by_one(make: Make, family: Family[Make, Kind]) -> None:
    """`scores_many` has the bits of `scores`, whatever the size of the batch."""
    model = family.trained(make, examples(80))
    C = probes(40)
    single = look(model, C)
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
        expect_bits(look(back), look(model), f"the scores from before the restart after {pause}")
        family.learn(model, stream.only(slice(pause, pause + more)))
        family.learn(back, stream.only(slice(pause, pause + more)))
        expect_bits(look(back), look(model), f"the scores without a restart after {pause}")
        model.grow()
        back.grow()
        expect_same_state(
            back.to_state(), model.to_state(), f"the state without a restart after {pause}"
        )


def state_is_a_copy(make: Make, family: Family[Make, Kind]) -> None:
    """What goes in and out is copied: changing it afterwards changes nothing."""
    stream = examples(40)
    model = family.trained(make, stream)
    before, state = look(model), as_bytes_and_back(model.to_state())
    handed = model.to_state()
    _scribble(*handed.values())
    _scribble(*model.scores(probes()[0]), *model.scores_many(probes()))
    expect_bits(look(model), before, "no change by a change of what was handed out")
    expect_same_state(model.to_state(), state, "no change by a change of what was handed out")
    given = as_bytes_and_back(state)
    back = family.read(model, given)
    before = look(back)
    _scribble(*given.values())
    expect_bits(look(back), before, "no change by a change of the state that it was read from")
    twin, context = family.trained(make, stream), np.ones(D)
    family.feed(model, 0, np.ones(D), 1.0)
    family.feed(twin, 0, context, 1.0)
    context[:] = 5.0
    expect_bits(look(twin), look(model), "no change by a change of a context after its example")


def grow_keeps_the_rest(make: Make, family: Family[Make, Kind]) -> None:
    """`grow` keeps what is known and adds arms that know nothing and learn like the others."""
    stream = examples(60)
    model = family.trained(make, stream)
    before = look(model)
    untrained = look(family.new(make, 1, D))[:, :, 0]
    for more in (1, 2):
        known = model.arms
        model.grow(more)
        seen = look(model)
        expect_bits(seen[:, :, :K], before, f"what was known before grow({more})")
        for arm in range(known, known + more):
            expect_bits(seen[:, :, arm], untrained, f"arm {arm} to know nothing after grow({more})")
    for arm, context, outcome in stream:
        family.feed(model, K + 2 if arm == 0 else arm, context, outcome)
    expect_bits(look(model)[:, :, K + 2], before[:, :, 0], "a grown arm to learn as arm 0 did")


def _scribble(*arrays: npt.NDArray[Any]) -> None:
    for array in arrays:
        if array.flags.writeable:  # one that cannot be changed is as good as a copy
            array[...] = ~array if array.dtype.kind == "b" else array + 1

"""What an arm is worth: the contract of a reward model, and how one of somebody else's is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, Self, TypeAlias, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from bridle import registry, validation
from bridle.errors import BridleError, CorruptState, InvalidValue, NotPossible
from bridle.kernels.types import Floats

__all__ = [
    "DEFAULT",
    "SHARED",
    "Forget",
    "RewardModel",
    "boldness_of",
    "check_forget",
    "half_life_of",
    "make_model",
    "model_from_state",
    "scores_of",
]

# The name of ours: `bridle.reward.posterior.LinearArms`.
DEFAULT = "linear"
# The name of ours where arms have features: `bridle.reward.shared.SharedArms`.
SHARED = "shared"

# How old rewards fade: not at all, by a half-life in rewards, or as the model finds best.
Forget: TypeAlias = float | Literal["auto", "never"]
HALF_LIVES = validation.FloatRange(10.0, 1e9)
# How wide draws are at first where rewards find their scale, in honest standard deviations: .75 of
# fifty arms, and narrower the more there are. The best of many draws is far out, so an honest
# spread tries every arm again and again.
BOLDNESS, FIFTY, FALL = 0.75, 50, 0.3
# How a half-life is kept where it is none.
NEVER, AUTO = 0.0, -1.0


@runtime_checkable
class RewardModel(Protocol):
    """What any reward model can do; its class is made with the keywords `arms` and `features`.

    Arms are numbers 0 … K−1, contexts are encoded, d finite float64; outcomes are rewards in
    [0, 1]. All of it was checked before. What the model knows is a function of the updates in
    their order: equal updates give equal bits, and `from_state(to_state())` goes on as if there had
    been no pause. No clock, no randomness but from its own options. An update of one arm may
    move the scores of others: models that share what they learn are welcome.

    Ours (`LinearArms`) is compiled; any other runs in plain Python.
    """

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        ...

    @property
    def features(self) -> int:
        """Length of a context, d."""
        ...

    def update(self, arm: int, context: Floats, outcome: float, /) -> None:
        """Fold the reward that an arm earned in a context."""
        ...

    def scores(self, context: Floats, /) -> tuple[Floats, Floats]:
        """Predict the reward of every arm: mean and standard deviation, two arrays of K."""
        ...

    def scores_many(self, contexts: Floats, /) -> tuple[Floats, Floats]:
        """Predict for each context, two arrays (n, K): the bits of `scores` one by one."""
        ...

    def grow(self, arms: int = 1, /) -> None:
        """Add arms of which nothing is known yet, after the others."""
        ...

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known as named arrays of numbers; copies."""
        ...

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]], /) -> Self:
        """Return the model that `to_state` wrote."""
        ...


def make_model(
    name: str, version: str, *, arms: int, features: int, options: registry.Options
) -> RewardModel:
    """Return an untrained model that is registered by that name; errors speak of the agent."""
    factory = registry.require("reward", name, version).factory
    try:
        model = factory(arms=arms, features=features, **options)
    except BridleError:
        raise
    except (TypeError, ValueError) as error:
        wanted = f"what the reward model {name!r} takes: {error}"
        raise InvalidValue("reward_options", "Agent", wanted, options) from None
    return _checked(model, name, arms, features)


def model_from_state(
    name: str, version: str, state: Mapping[str, npt.NDArray[Any]], *, arms: int, features: int
) -> RewardModel:
    """Return the model that was saved, or raise `CorruptState`."""
    factory = registry.require("reward", name, version).factory
    try:
        return _checked(factory.from_state(state), name, arms, features)
    except (BridleError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptState(f"The reward model {name!r} cannot be read: {error!r}") from error


def scores_of(model: RewardModel, context: Floats) -> tuple[Floats, Floats]:
    """Return what somebody else's model predicts in a context, checked: two arrays of K."""
    mean, sd = (np.asarray(part, np.float64) for part in model.scores(context))
    fits = mean.shape == sd.shape == (model.arms,)
    if not fits or not np.isfinite(mean).all() or not (np.isfinite(sd) & (sd >= 0.0)).all():
        raise NotPossible(
            f"The reward model {type(model).__name__} predicts {mean!r:.100} and {sd!r:.100}: not "
            f"two arrays of {model.arms} finite numbers, the second at least 0. "
            "bridle.testing.check_reward_model shows what a model must do."
        )
    return mean, sd


def boldness_of(arms: int) -> float:
    """Return how wide draws among so many arms are at first, in honest standard deviations.

    >>> boldness_of(4), boldness_of(50), boldness_of(1000)
    (1.0, 0.75, 0.305)
    """
    return min(1.0, round(BOLDNESS * float((FIFTY / arms) ** FALL), 3))


def check_forget(forget: object, name: str, owner: str) -> Forget:
    """Return a way to forget, checked, or raise `InvalidValue`."""
    if isinstance(forget, str):
        return cast("Forget", validation.one_of(forget, ("auto", "never"), name, owner))
    return HALF_LIVES.check(forget, name, owner)


def half_life_of(forget: object, owner: str) -> float:
    """Return how a half-life is kept: 0 for never, -1 for `auto`; raise `InvalidValue`."""
    checked = check_forget(forget, "forget", owner)
    return AUTO if checked == "auto" else NEVER if checked == "never" else float(checked)


def _checked(model: Any, name: str, arms: int, features: int) -> RewardModel:
    if not isinstance(model, RewardModel) or (model.arms, model.features) != (arms, features):
        wanted = f"a RewardModel of {arms} arms and {features} features, as {name!r} was asked for"
        raise InvalidValue("reward", "Agent", wanted, model)
    return model

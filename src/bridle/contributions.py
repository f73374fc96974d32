"""What each feature of a context gave to what is expected and believed of an arm in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bridle.features import Number, Schema
from bridle.kernels.types import Floats
from bridle.knowledge import Knowledge
from bridle.limits import Beliefs, LinearLimits, LogisticLimits
from bridle.limits.crosses import expand
from bridle.settings import ArmId

__all__ = ["Contributions", "Share", "limit_shares", "reward_shares"]


@dataclass(frozen=True, slots=True)
class Share:
    """What one feature, or two together, gave."""

    feature: str  # the column's name; "a & b" of two
    value: float  # as encoded
    gave: float


@dataclass(frozen=True, slots=True)
class Contributions:
    """What each feature gave to one part of an arm's score. Those that are 0 gave nothing.

    Attributes
    ----------
    arm : arm id
    part : {"reward", "constraint"}
    unit : {"reward", "label", "log-odds", "change of the probability"}
        What the numbers are. The first three add up: `base` and what was given make `total`. The
        reward is in [0, 1] units, the label is that of linear limits, the log-odds are those of
        "allowed" by the likeliest weights. The last does not add up: it is how much lower
        P(allowed), the total, would be without the feature: a flag or word that is not held, a
        number at what the schema takes if it is missing (or else at 0).
    total : float
        What all of them make.
    base : float or None
        What is there before any feature.
    shares : tuple of Share
    """

    arm: ArmId
    part: str
    unit: str
    total: float
    base: float | None
    shares: tuple[Share, ...]


def reward_shares(know: Knowledge, row: Floats, k: int) -> Contributions:
    """Say what each feature gave to the mean reward of an arm."""
    post = know.reward_arms.kernel_state
    weights, base = post.mu[k], 0.0
    if know.centred:
        # The posterior mean of the weights where that of the intercept, before any reward, is the
        # mean of all rewards.
        weights = weights + know.pull * post.A[k, -1]
        base = float(weights[-1])
    return _linear(know, row, k, "reward", "reward", weights, base)


def limit_shares(know: Knowledge, row: Floats, k: int) -> Contributions:
    """Say what each feature gave to what is believed of an arm's limits."""
    limits = know.believing.limits
    if isinstance(limits, LinearLimits):
        weights = limits.linear.kernel_state.mu[k]
        return _linear(know, row, k, "constraint", "label", weights, 0.0)
    unit = int(know.believing.unit_of[k])
    if isinstance(limits, LogisticLimits):
        return _log_odds(know, limits, row, k, unit)
    return _left_out(know, limits, row, k, unit)


def _linear(
    know: Knowledge, row: Floats, k: int, part: str, unit: str, weights: Floats, base: float
) -> Contributions:
    names = know.settings.features.columns
    shares = tuple(
        Share(names[i], float(row[i]), float(row[i] * weights[i]))
        for i in np.flatnonzero(row).tolist()
    )
    total = math.fsum([base, *(share.gave for share in shares)])
    return Contributions(know.arm_ids[k], part, unit, total, base, shares)


def _log_odds(
    know: Knowledge, limits: LogisticLimits, row: Floats, k: int, unit: int
) -> Contributions:
    features = know.settings.features.columns
    d = len(features)
    weights, _ = limits.weights(unit)
    x = expand(row[None], limits.crosses)[0]
    names = [*features, ""]
    if limits.crosses:
        names += [f"{features[i]} & {features[j]}" for i in range(d) for j in range(i + 1, d)]
    shares = tuple(
        Share(names[i], float(x[i]), float(x[i] * weights[i]))
        for i in np.flatnonzero(x).tolist()
        if i != d
    )
    base = float(weights[d])
    total = math.fsum([base, *(share.gave for share in shares)])
    return Contributions(know.arm_ids[k], "constraint", "log-odds", total, base, shares)


def _left_out(know: Knowledge, limits: Beliefs, row: Floats, k: int, unit: int) -> Contributions:
    absent = _absent(know.settings.features)
    there = np.flatnonzero(row != absent)
    rows: Floats = np.tile(row, (len(there) + 1, 1))
    rows[np.arange(len(there)) + 1, there] = absent[there]
    p = limits.look(unit, rows).p.tolist()
    names = know.settings.features.columns
    shares = tuple(
        Share(names[i], float(row[i]), p[0] - without)
        for i, without in zip(there.tolist(), p[1:], strict=True)
    )
    unit_name = "change of the probability"
    return Contributions(know.arm_ids[k], "constraint", unit_name, p[0], None, shares)


def _absent(schema: Schema) -> Floats:
    """Give each column's value where its feature is not there."""
    out = np.zeros(schema.width)
    for feature in schema.features:
        if isinstance(feature, Number) and feature.missing is not None:
            out[schema.place(feature.name)[1]] = feature.scale(feature.missing)
    return out

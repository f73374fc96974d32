"""Which threshold a calibration bears out: the mathematics of certified limits, on plain arrays.

In each calibration context counts w, the highest score of a denied arm; a threshold λ is broken
there if w > λ. λ̂ is the lowest threshold whose share of broken contexts is shown to be alpha or
less, there and everywhere above. So all arms above it are certified at once, as a set; the two
shortcuts at the end of this file certify less than that, and do not hold.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.binomial import CHANCE, contexts_needed, most_broken
from bridle.errors import InvalidValue, NotPossible
from bridle.kernels.types import Bools, Floats

__all__ = [
    "DEFAULT_LAMBDA_MIN",
    "LAMBDA_MIN",
    "affordable",
    "lambda_hat",
    "table_of_truths",
    "unsound_one_arm",
    "unsound_pilot",
    "worst_scores",
]

# At 1 nothing could ever be certified: no score is above it.
LAMBDA_MIN = validate.FloatRange(0.0, 1.0, open_high=True)
# What limits believe to be rather denied is not certified, and not asked about.
DEFAULT_LAMBDA_MIN = 0.5


def worst_scores(
    scores: npt.ArrayLike, allowed: npt.ArrayLike, lambda_min: float = DEFAULT_LAMBDA_MIN
) -> Floats:
    """Give w: for each context the highest score of a denied arm, −∞ if none is above lambda_min.

    Parameters
    ----------
    scores : array (n, K)
        Scores of the arms.
    allowed : array (n, K) of bools
        The truth.
    lambda_min : float
        Below it nothing matters.

    Examples
    --------
    >>> worst_scores([[0.9, 0.8], [0.7, 0.3]], [[True, False], [True, False]]).tolist()
    [0.8, -inf]
    """
    owner = "worst_scores"
    S = _scores(scores, owner)
    fine = table_of_truths(allowed, S.shape, "allowed", owner)
    low = LAMBDA_MIN.check(lambda_min, "lambda_min", owner)
    return np.asarray(np.where(~fine & (S > low), S, -np.inf).max(axis=1))


def lambda_hat(
    worst: npt.ArrayLike, alpha: float, delta: float, lambda_min: float = DEFAULT_LAMBDA_MIN
) -> float:
    """Give the threshold: the lowest at which the contexts bear alpha out, and everywhere above.

    Candidates are lambda_min and the w above it; a candidate λ is borne out if the Clopper-Pearson
    bound for #{w > λ} of n is alpha or less. As that count only falls with λ, if it is borne out
    somewhere it is so everywhere above, and λ̂ is the (k+1)-th highest w, where k is the most that
    may be broken; or lambda_min, if that is higher.

    Examples
    --------
    >>> lambda_hat([0.9] + [0.8] * 8 + [0.6] * 291, alpha=0.05, delta=0.1)
    0.6
    """
    owner = "lambda_hat"
    w = validate.floats(worst, "worst", owner, "a list of scores, -inf where no arm is denied")
    if w.ndim != 1 or not len(w) or np.isnan(w).any():
        wanted = "a list of scores, -inf where no arm is denied"
        raise InvalidValue("worst", owner, wanted, worst)
    low = LAMBDA_MIN.check(lambda_min, "lambda_min", owner)
    k = affordable(len(w), alpha, delta, owner)
    return max(low, float(np.sort(w)[len(w) - 1 - k]))


def affordable(n: int, alpha: float, delta: float, owner: str) -> int:
    """Give how many of n contexts may be broken, or refuse if n is too small for any answers."""
    a, d = CHANCE.check(alpha, "alpha", owner), CHANCE.check(delta, "delta", owner)
    k = most_broken(n, a, d)
    if k < 0:
        raise NotPossible(
            f"{n:,} calibration contexts cannot show alpha={a:g} at delta={d:g}, whatever the "
            f"answers: at least {contexts_needed(a, d):,} are needed. Draw more, or promise less."
        )
    return k


# -- two shortcuts that do not hold ----------------------------------------------------------


def unsound_one_arm(
    scores: npt.ArrayLike,
    allowed: npt.ArrayLike,
    alpha: float,
    delta: float,
    rng: np.random.Generator,
    lambda_min: float = DEFAULT_LAMBDA_MIN,
) -> float:
    """Give the threshold of a shortcut that does NOT hold, to show that it does not.

    It asks, in each calibration context, about one random arm of the set above λ, and takes the
    share of denied ones for the risk. That is the risk of a policy that plays at random; one that
    learns finds the denied arms where they pay. `lambda_hat` counts any denied arm in the set.
    """
    owner = "unsound_one_arm"
    S = _scores(scores, owner)
    denied = ~table_of_truths(allowed, S.shape, "allowed", owner)
    low = LAMBDA_MIN.check(lambda_min, "lambda_min", owner)
    k = affordable(len(S), alpha, delta, owner)
    order = np.argsort(-S, axis=1, kind="stable")
    lots = rng.random(S.shape)
    # The arm played of a set is the one with the highest lot, so that it changes only where a
    # lower threshold lets a higher lot in.
    drawn = lots == np.maximum.accumulate(lots, axis=1)
    pick = np.maximum.accumulate(np.where(drawn, np.arange(S.shape[1]), 0), axis=1)
    loss = np.take_along_axis(np.take_along_axis(denied, order, 1), pick, 1).astype(np.int64)
    change = np.diff(loss, axis=1, prepend=0)
    values, which = np.unique(np.take_along_axis(S, order, 1), return_inverse=True)
    steps = np.bincount(which.ravel(), change.ravel(), len(values))
    above = values > low
    # From the highest score down; then lambda_min itself. count[i]: broken at candidates[i].
    candidates: list[float] = [*values[above][::-1].tolist(), low]
    count = np.concatenate([[0.0], np.cumsum(steps[above][::-1])])
    bad = np.flatnonzero(count > k)
    return candidates[int(bad[0]) - 1 if len(bad) else -1]


def unsound_pilot(
    sigmas: npt.ArrayLike, violated: npt.ArrayLike, alpha: float, delta: float
) -> float | None:
    """Give the sigma of a shortcut that does NOT hold, to show that it does not.

    It runs each sigma in a pilot and takes the largest whose violations there bear alpha out, as
    do those of every smaller one (None: none does). But the agent goes on learning what pays, and
    with the same sigma later violates more than it did.

    Parameters
    ----------
    sigmas : array (S,)
        Rising.
    violated : array (S, n) of bools
        Whether the pilot with each sigma broke the limits at each step.
    """
    owner = "unsound_pilot"
    tried = validate.floats(sigmas, "sigmas", owner, "a rising list of numbers")
    if tried.ndim != 1 or (np.diff(tried) <= 0.0).any():
        raise InvalidValue("sigmas", owner, "a rising list of numbers", sigmas)
    hits = validate.arrays(violated, "violated", owner, "a matrix of bools")
    if hits.dtype.kind != "b" or hits.ndim != 2 or len(hits) != len(tried) or not hits.size:
        raise InvalidValue("violated", owner, f"{len(tried)} rows of bools", violated)
    fine = hits.sum(axis=1) <= affordable(hits.shape[1], alpha, delta, owner)
    good = int(np.argmin([*fine, False]))
    return float(tried[good - 1]) if good else None


def _scores(value: npt.ArrayLike, owner: str) -> Floats:
    S = validate.matrix(value, None, "scores", owner)
    if not S.size:
        raise InvalidValue("scores", owner, "a matrix with rows and columns", S.shape)
    return S


def table_of_truths(value: npt.ArrayLike, shape: tuple[int, ...], name: str, owner: str) -> Bools:
    """Give `value` as bools of a shape; 0 and 1 count."""
    wanted = f"a matrix of bools of shape {shape}"
    array = validate.arrays(value, name, owner, wanted)
    if array.shape != shape:
        raise InvalidValue(name, owner, wanted, f"an array of shape {array.shape}")
    return validate.truths(array.ravel(), array.size, name, owner).reshape(shape)

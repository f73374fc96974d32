"""The paper's theorems as functions, and what can be said in their place.

Every bound here is on the *sum* of regrets over T steps, T·R(T), and not on the average R(T).
Rewards lie in [0, 1], so a bound above T says nothing: it is called vacuous. `lemma`, `theorem1`
and `theorem2` are formulas of sizes and constants, vacuous at the paper's own. `proof_step` is
what Theorem 1's proof can show, from a run's data: an inequality that holds in every run.
`blend_regret` measures the regret that Theorem 2 is about, `growth_exponent` how it grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle.errors import InvalidValue
from bridle.validation import COUNT, NON_NEGATIVE, SIGMA, FloatRange, floats, matrix, one_of

__all__ = [
    "Bound",
    "blend_regret",
    "growth_exponent",
    "lemma",
    "proof_step",
    "theorem1",
    "theorem2",
]

Floats = npt.NDArray[np.float64]
OPEN_UNIT = FloatRange(0.0, 1.0, open_low=True, open_high=True)

PRINTED = (
    "The printed lemma has gamma as a factor, so it goes to 0 as gamma does: a misprint. "
    "form='agrawal13' has gamma in the logarithm only."
)
ORDER = (
    "The lemma's source states an order: a constant factor is left out. It is also about one "
    "vector for all arms; K arms with a vector each are one vector of K*d features."
)
NOT_CTS = (
    "The lemma is about CTS. With 0 < sigma < 1 the limits take part in the choice of arm, and "
    "the proof does not show that the lemma still holds for the reward part."
)
OVER_N = (
    "The second part is summed over the N questions, but the regret runs over T steps: limits "
    "that are learned from N answers and then frozen cost their error at every step."
)
TWO_SIGMAS = (
    "sigma is not sigma_star: the two blends may rank the arms differently at every step, and "
    "then the regret grows like T whatever is learned. (The proof takes sigma_star*a - sigma*b to "
    "be at most max(sigma_star, sigma)*|a - b|, which is false for sigma_star > sigma, a = b > 0.)"
)
LEMMA_WARNINGS: dict[str, tuple[str, ...]] = {"printed": (PRINTED, ORDER), "agrawal13": (ORDER,)}


@dataclass(frozen=True)
class Bound:
    """A bound on the sum of regrets over T steps.

    Attributes
    ----------
    value : float
        The bound on T·R(T).
    T : int
        Steps; as rewards lie in [0, 1], also the most that the regret can be.
    warnings : tuple of str
        What to know before relying on `value`.

    Examples
    --------
    >>> print(lemma(T=50_000, d=10, z=0.5, gamma=0.1))
    1.67e+06 for a regret of at most 50,000: vacuous
    """

    value: float
    T: int
    warnings: tuple[str, ...] = ()

    @property
    def vacuous(self) -> bool:
        """Whether the bound is above T, which every agent keeps."""
        return self.value > self.T

    def __str__(self) -> str:
        text = f"{self.value:.3g} for a regret of at most {self.T:,}"
        return f"{text}: vacuous" if self.vacuous else text


def lemma(T: int, d: int, *, z: float, gamma: float, form: str = "printed") -> Bound:
    """Bound the regret of CTS: L(T) = (d γ / z) · sqrt(T^(z+1)) · (ln T · d) · ln(1/γ).

    That is the lemma as printed. Its first γ is a misprint: the bound would vanish with γ, as if
    certainty cost nothing. `form="agrawal13"` leaves that factor out.

    Parameters
    ----------
    T, d : int
        Steps, and features of a context.
    z, gamma : float
        The constants of CTS, both in (0, 1); the bound is claimed with probability 1 − gamma.
    form : {"printed", "agrawal13"}
        Which lemma.

    Examples
    --------
    >>> round(lemma(T=50_000, d=10, z=0.5, gamma=0.1).value)
    1666063
    >>> round(lemma(T=50_000, d=10, z=0.5, gamma=0.1, form="agrawal13").value)
    16660635
    """
    return Bound(_lemma(T, d, z, gamma, form, "lemma"), int(T), LEMMA_WARNINGS[form])


def theorem1(
    T: int,
    d: int,
    *,
    sigma: float,
    c_max: float,
    mu_star_max: float,
    mu_e_max: float,
    z: float,
    gamma: float,
    form: str = "printed",
) -> Bound:
    """Bound the regret against the best arm: σ·L(T) + (1−σ)·c_max·T·(μ*_max + μ^e_max).

    The statement prints μ^e_min where its proof, and the definitions under it, have μ^e_max: a
    slip. The sum of norms also belies the remark that the bound comes near that of CTS as μ^e
    comes near μ*; that is true of `proof_step`, which has their difference. And it can fail: with
    labels 1/−1, one feature, σ = .9, μ* = (.2, 0) and the better arm denied, BCTS does not play
    that arm: its regret is .2·T, the bound's second part .12·T, and L(T) is small for large T.

    Parameters
    ----------
    T, d, z, gamma, form
        As in `lemma`.
    sigma : float
        The weight of the reward part, in [0, 1].
    c_max, mu_star_max, mu_e_max : float
        The largest ‖c‖₂, and the largest L1 norm of an arm's reward and constraint vector.

    Examples
    --------
    >>> sizes = {"c_max": 1.0, "mu_star_max": 1.0, "mu_e_max": 0.5}
    >>> theorem1(T=100, d=1, sigma=0.0, z=0.5, gamma=0.1, **sizes).value
    150.0
    """
    owner = "theorem1"
    sigma = SIGMA.check(sigma, "sigma", owner)
    first = _lemma(T, d, z, gamma, form, owner)
    c_max = NON_NEGATIVE.check(c_max, "c_max", owner)
    mu_star_max = NON_NEGATIVE.check(mu_star_max, "mu_star_max", owner)
    mu_e_max = NON_NEGATIVE.check(mu_e_max, "mu_e_max", owner)
    second = c_max * T * (mu_star_max + mu_e_max)
    warnings = LEMMA_WARNINGS[form] if sigma > 0.0 else ()
    if 0.0 < sigma < 1.0:
        warnings += (NOT_CTS,)
    return Bound(sigma * first + (1.0 - sigma) * second, int(T), warnings)


def theorem2(
    T: int,
    N: int,
    d: int,
    *,
    sigma: float,
    sigma_star: float,
    z: float,
    gamma: float,
    form: str = "printed",
) -> Bound:
    """Bound Definition 2's regret: max(σ*, σ)·L(T) + max(1−σ*, 1−σ)·L(N).

    The second part bounds what is lost while teaching, over N steps; what the frozen limits lose
    online adds up over T. `blend_regret` measures the regret that this is about.

    Parameters
    ----------
    T, d, z, gamma, form
        As in `lemma`.
    N : int
        Questions to the teacher.
    sigma, sigma_star : float
        The agent's weight of the reward part, and that of the blend it is measured by.

    Examples
    --------
    >>> bound = theorem2(T=50_000, N=5_000, d=10, sigma=0.5, sigma_star=0.5, z=0.5, gamma=0.1)
    >>> bound.warnings[-1].split(":")[0]
    'The second part is summed over the N questions, but the regret runs over T steps'
    """
    owner = "theorem2"
    sigma = SIGMA.check(sigma, "sigma", owner)
    sigma_star = SIGMA.check(sigma_star, "sigma_star", owner)
    first = _lemma(T, d, z, gamma, form, owner)
    second = _lemma(N, d, z, gamma, form, owner, size="N")
    value = max(sigma_star, sigma) * first + max(1.0 - sigma_star, 1.0 - sigma) * second
    warnings = LEMMA_WARNINGS[form]
    if min(sigma_star, sigma) < 1.0:
        warnings += (OVER_N,)
    if sigma != sigma_star:
        warnings += (TWO_SIGMAS,)
    return Bound(value, int(T), warnings)


def proof_step(
    contexts: object,
    played: object,
    *,
    sigma: float,
    mu_star: object,
    mu_e: object,
    reward_errors: object,
    limit_errors: object = None,
    arms: str = "both",
) -> Floats:
    """Bound a run's cumulated regret by how far its scores were from c·μ*, at two arms a step.

    Let a_j and b_j be the reward score and the constraint score of arm j at step t, so that the
    arm played, k, is the highest of σ·a + (1−σ)·b, and let k* be the highest of c·μ*. Then

    c·μ*_{k*} − c·μ*_k  =  σ·(c·μ*_{k*} − a_{k*}) + (1−σ)·(c·μ*_{k*} − b_{k*})
                           + [σ·a_{k*} + (1−σ)·b_{k*}] − [σ·a_k + (1−σ)·b_k]
                           + σ·(a_k − c·μ*_k) + (1−σ)·(b_k − c·μ*_k),

    and the middle line is never positive. So, whatever vectors μ^e are named, the step's regret is
    at most the sum over j = k* and j = k of

    σ·|a_j − c·μ*_j| + (1−σ)·(‖c‖·‖μ*_j − μ^e_j‖ + |b_j − c·μ^e_j|).

    No chance is involved: it holds at every step of every run, provided that

    - the regret is that of the mean rewards, and these are c·μ*;
    - k was the best of a set of arms that k* was in: no mask, exact denial or list of eligible
      arms took k* away, and nothing was abstained from;
    - the errors are those of the scores that were compared, draws included. If μ^e are the very
      vectors drawn at each step (T, K, d), then b_j = c·μ^e_j and `limit_errors` is left out; if
      they are the learned means (K, d), the draws' distance from those must be given. An agent
      that draws the blend at once may put the noise of that draw, divided by σ, into
      `reward_errors`, or, divided by 1−σ, into `limit_errors`.

    The paper's proof has one k for both arms and so loses one of them. `arms="best"` and
    `arms="played"` are the two readings of it; neither bounds anything, as the example shows.

    Parameters
    ----------
    contexts : (T, d) floats
        As shown, in order.
    played : (T,) ints
        The arms played.
    sigma : float
        The weight of the reward part, in [0, 1].
    mu_star : (K, d) floats
        The true reward vectors.
    mu_e : (K, d) or (T, K, d) floats
        The constraint vectors: the same for the whole run, or those of each step.
    reward_errors : (T, K) floats
        |a_j − c·μ*_j| for every arm.
    limit_errors : (T, K) floats, optional
        |b_j − c·μ^e_j| for every arm; zero if left out.
    arms : {"both", "best", "played"}
        Where the errors are taken; only "both" is sound.

    Returns
    -------
    (T,) floats
        The bound on the regret cumulated up to each step; the last one bounds T·R(T).

    Examples
    --------
    One feature, two arms; the limits prefer the worse arm, and σ = 0 plays it, at regret 1.

    >>> run = {"contexts": [[1.0]], "played": [1], "sigma": 0.0, "reward_errors": [[0.0, 0.0]]}
    >>> world = {"mu_star": [[1.0], [0.0]], "mu_e": [[0.4], [0.5]]}
    >>> proof_step(**run, **world)
    array([1.1])
    >>> proof_step(**run, **world, arms="best")
    array([0.6])
    """
    owner = "proof_step"
    sigma = SIGMA.check(sigma, "sigma", owner)
    one_of(arms, ("both", "best", "played"), "arms", owner)
    c, star, chosen = _run(contexts, mu_star, played, owner)
    shape = (len(c), len(star))
    vectors = floats(mu_e, "mu_e", owner, "an array of finite numbers")
    vectors = _shaped(vectors, (len(c),) * (vectors.ndim == 3) + star.shape, "mu_e", owner)
    errors = _shaped(reward_errors, shape, "reward_errors", owner, low=0.0)
    slack = np.zeros(shape) if limit_errors is None else limit_errors
    slack = _shaped(slack, shape, "limit_errors", owner, low=0.0)
    gaps = np.linalg.norm(c, axis=1)[:, None] * np.linalg.norm(star - vectors, axis=-1)  # (T, K)
    terms = sigma * errors + (1.0 - sigma) * (gaps + slack)
    step = np.arange(len(c))
    at_best, at_played = terms[step, (c @ star.T).argmax(axis=1)], terms[step, chosen]
    summed = {"both": at_best + at_played, "best": at_best, "played": at_played}
    return np.cumsum(summed[arms])


def blend_regret(
    contexts: object, played: object, *, mu_star: object, mu_e_star: object, sigma_star: float
) -> Floats:
    """Measure Definition 2's regret: against the best arm of σ*·c·μ* + (1−σ*)·c·μ^e*.

    Both arms are valued by the true blend. (The proof of Theorem 2 values the arm played by the
    agent's own estimate, which is no regret: it can be negative.) `sigma_star=1` gives the plain
    regret T·R(T) of mean rewards.

    Parameters
    ----------
    contexts, played
        As in `proof_step`.
    mu_star, mu_e_star : (K, d) floats
        The true vectors of the rewards and of the limits.
    sigma_star : float
        The blend's weight of the reward part, in [0, 1].

    Returns
    -------
    (T,) floats
        The regret cumulated up to each step.

    Examples
    --------
    >>> true = {"mu_star": [[1.0], [0.0]], "mu_e_star": [[0.0], [0.5]]}
    >>> blend_regret([[1.0], [1.0]], [1, 0], sigma_star=0.5, **true)
    array([0.25, 0.25])
    """
    owner = "blend_regret"
    sigma_star = SIGMA.check(sigma_star, "sigma_star", owner)
    c, star, chosen = _run(contexts, mu_star, played, owner)
    limits = _shaped(mu_e_star, star.shape, "mu_e_star", owner)
    values = c @ (sigma_star * star + (1.0 - sigma_star) * limits).T  # (T, K)
    return np.cumsum(values.max(axis=1) - values[np.arange(len(c)), chosen])


def growth_exponent(sizes: object, regrets: object) -> float:
    """Fit regret ≈ constant · size^exponent by least squares on logarithms; below 1 is sub-linear.

    `sizes` are values of T, with the regret cumulated up to each; or values of N, with the regret
    summed over the N questions (what Theorem 2's second part is about), or with the online regret
    after N answers (which should fall: a negative exponent). All must be above zero. Early steps
    are all exploration: sizes from T/10 on, say, show how the regret grows after it.

    Examples
    --------
    >>> round(growth_exponent([100, 400, 900], [20.0, 40.0, 60.0]), 9)
    0.5
    """
    owner = "growth_exponent"
    x, y = _logarithms(sizes, "sizes", owner), _logarithms(regrets, "regrets", owner)
    if len(x) != len(y):
        raise InvalidValue("regrets", owner, f"{len(x)} numbers, one for each size", regrets)
    if x.min() == x.max():
        raise InvalidValue("sizes", owner, "at least two different numbers", sizes)
    centred = x - x.mean()
    return float(centred @ y / (centred @ centred))


def _lemma(T: int, d: int, z: float, gamma: float, form: str, owner: str, size: str = "T") -> float:
    T, d = COUNT.check(T, size, owner), COUNT.check(d, "d", owner)
    z, gamma = OPEN_UNIT.check(z, "z", owner), OPEN_UNIT.check(gamma, "gamma", owner)
    factor = gamma if one_of(form, LEMMA_WARNINGS, "form", owner) == "printed" else 1.0
    return d * factor / z * math.sqrt(T ** (z + 1.0)) * (math.log(T) * d) * -math.log(gamma)


def _run(
    contexts: object, mu_star: object, played: object, owner: str
) -> tuple[Floats, Floats, npt.NDArray[np.int64]]:
    c = matrix(contexts, None, "contexts", owner)
    star = matrix(mu_star, c.shape[1], "mu_star", owner)
    arms = _shaped(played, (len(c),), "played", owner)
    if len(star) == 0 or not np.isin(arms, np.arange(len(star))).all():
        wanted = f"numbers of arms, from 0 and below the {len(star)} rows of 'mu_star'"
        remedy = "Leave out steps at which nothing was played."
        raise InvalidValue("played", owner, wanted, played, remedy)
    return c, star, arms.astype(np.int64)


def _shaped(
    value: object, shape: tuple[int, ...], name: str, owner: str, low: float = -math.inf
) -> Floats:
    wanted = f"an array of shape {shape} of finite numbers" + " from 0 up" * (low == 0.0)
    array = floats(value, name, owner, wanted)
    if array.shape != shape:
        raise InvalidValue(name, owner, wanted, f"an array of shape {array.shape}")
    if not (np.isfinite(array) & (array >= low)).all():
        raise InvalidValue(name, owner, wanted, value)
    return array


def _logarithms(value: object, name: str, owner: str) -> Floats:
    wanted = "a row of at least two finite numbers above 0"
    array = floats(value, name, owner, wanted)
    if array.ndim != 1 or len(array) < 2 or not ((array > 0.0) & np.isfinite(array)).all():
        raise InvalidValue(name, owner, wanted, value)
    return np.log(array)

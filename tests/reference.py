"""The paper's pseudo-code as it stands: plain, slow, and meant to be read against the paper.

Everything fast in bridle is held against this file, so nothing here is clever: vectors are drawn
whole, matrices are inverted, sums are sums. Section numbers are those of the specification.
A world is three tables, and the order of a run is an array of row numbers:

contexts: (M, d), rewards: (M, K) in [0, 1], allowed: (M, K) of bool.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad
from scipy.special import ndtr

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ABSTAINED = -1
# (label of allowed, label of denied)
LABELS = {"1/0": (1.0, 0.0), "1/-1": (1.0, -1.0), "0/-1": (0.0, -1.0)}


@dataclass(frozen=True)
class World:
    """The tables that a run reads."""

    contexts: Floats
    rewards: Floats
    allowed: Bools


@dataclass(frozen=True)
class Taught:
    """What the teaching phase leaves: the limits, and what was asked and answered."""

    limits: Arms
    asked: Ints
    labels: Floats


@dataclass(frozen=True)
class Run:
    """One online phase (1). Curves hold the value after each step; the scalars are their ends."""

    arms: Ints  # (T,), ABSTAINED where nothing was played
    R_curve: Floats
    Rc_curve: Floats
    E_curve: Ints
    abstentions: int
    vectors: Floats  # (T, K, d), the reward vectors drawn at each step
    limit_vectors: Floats  # (T, K, d), the constraint vectors drawn; (T, K, 0) where none are

    @property
    def R(self) -> float:
        return float(self.R_curve[-1])

    @property
    def Rc(self) -> float:
        return float(self.Rc_curve[-1])

    @property
    def E(self) -> int:
        return int(self.E_curve[-1])


# Arms (2.1)


class Arms:
    """K Bayesian linear models: B = ridge I + sum c c', f = sum c y, mu = inv(B) f."""

    def __init__(self, K: int, d: int, ridge: float = 1.0) -> None:
        self.B = np.stack([ridge * np.eye(d) for _ in range(K)])
        self.f = np.zeros((K, d))
        self.inverse = np.stack([np.linalg.inv(B) for B in self.B])
        self.mu = np.zeros((K, d))

    def update(self, c: Floats, k: int, outcome: float) -> None:
        self.B[k] = self.B[k] + np.outer(c, c)
        self.f[k] = self.f[k] + c * outcome
        self.inverse[k] = np.linalg.inv(self.B[k])
        self.mu[k] = self.inverse[k] @ self.f[k]

    def draw(self, v: float, rng: np.random.Generator) -> Floats:
        """Draw a vector for each arm from N(mu, v^2 inv(B)): (K, d)."""
        L = np.linalg.cholesky(self.inverse)  # L L' = inv(B), so L z ~ N(0, inv(B))
        z = rng.standard_normal(self.mu.shape)
        noise: Floats = np.einsum("kij,kj->ki", L, z)
        return self.mu + v * noise

    def means(self, c: Floats) -> Floats:
        return self.mu @ c

    def spreads(self, c: Floats) -> Floats:
        """sqrt(c' inv(B) c) of every arm."""
        return np.array([np.sqrt(c @ A @ c) for A in self.inverse])


class AsPrinted(Arms):
    """The same arms with nothing put by: each draw inverts B, arm by arm, as the paper prints it.

    `Arms` inverts at the update and draws all arms at once, so that tests end in time.
    """

    def update(self, c: Floats, k: int, outcome: float) -> None:
        self.B[k] = self.B[k] + np.outer(c, c)
        self.f[k] = self.f[k] + c * outcome
        self.mu[k] = np.linalg.inv(self.B[k]) @ self.f[k]

    def draw(self, v: float, rng: np.random.Generator) -> Floats:
        vectors = [
            rng.multivariate_normal(mu, v**2 * np.linalg.inv(B))
            for mu, B in zip(self.mu, self.B, strict=True)
        ]
        return np.array(vectors)


def posterior(contexts: Any, outcomes: Any, d: int, ridge: float = 1.0) -> tuple[Floats, Floats]:
    """Give (mu, B) of one arm from its (context, outcome) pairs, by direct sums and a solve."""
    B = ridge * np.eye(d)
    f = np.zeros(d)
    for c, y in zip(contexts, outcomes, strict=True):
        B = B + np.outer(c, c)
        f = f + np.asarray(c) * y
    return np.asarray(np.linalg.solve(B, f), dtype=np.float64), B


def paper_v(R: float, z: float, gamma: float, d: int) -> float:
    """v = R sqrt((24 / z) d ln(1 / gamma)) (2.2)."""
    return float(R * np.sqrt(24.0 / z * d * np.log(1.0 / gamma)))


# Teaching (2.4)


def teach(
    world: World,
    rows: Ints,
    *,
    how: str,
    v: float,
    rng: np.random.Generator,
    coding: str = "1/0",
    ridge: float = 1.0,
    kind: type[Arms] = Arms,
) -> Taught:
    """Algorithm 2, lines 2 to 8: ask about an arm of each context, learn from the label."""
    K, d = world.rewards.shape[1], world.contexts.shape[1]
    limits = kind(K, d, ridge)
    asked, labels = [], []
    for row in rows:
        c = world.contexts[row]
        if how == "random":
            k = int(rng.integers(K))
        elif how == "thompson":
            k = best(limits.draw(v, rng) @ c, rng)
        else:
            raise ValueError(how)
        label = LABELS[coding][0] if world.allowed[row, k] else LABELS[coding][1]
        limits.update(c, k, label)
        asked.append(k)
        labels.append(label)
    return Taught(limits, np.array(asked, dtype=np.int64), np.array(labels))


# The online phase


def cts(world: World, rows: Ints, *, v: float, rng: np.random.Generator, ridge: float = 1.0) -> Run:
    """Algorithm 1, Contextual Thompson Sampling (2.2)."""
    return mask(world, rows, v=v, rng=rng, reading="none", ridge=ridge)


def mask(
    world: World,
    rows: Ints,
    *,
    v: float,
    rng: np.random.Generator,
    reading: str = "argmax",
    ridge: float = 1.0,
    kind: type[Arms] = Arms,
) -> Run:
    """CTS that knows what is allowed, in both readings (2.6); `reading="none"` is plain CTS."""

    def choose(row: int, c: Floats, vectors: Floats, _: Floats) -> int:
        allowed = world.allowed[row]
        scores = vectors @ c
        if reading == "none":
            return best(scores, rng)
        if not allowed.any():
            return ABSTAINED
        if reading == "argmax":
            return best(np.where(allowed, scores, -np.inf), rng)
        if reading == "filter":
            k = best(scores, rng)
            return k if allowed[k] else int(rng.choice(np.flatnonzero(allowed)))
        raise ValueError(reading)

    return play(world, rows, choose, v=v, rng=rng, ridge=ridge, kind=kind)


def bcts(
    world: World,
    rows: Ints,
    limits: Arms,
    *,
    sigma: float,
    v: float,
    rng: np.random.Generator,
    v_constraint: float | None = None,
    ridge: float = 1.0,
    kind: type[Arms] = Arms,
) -> Run:
    """Algorithm 2, lines 9 to 22, Behavior Constrained Thompson Sampling (2.5)."""

    def choose(row: int, c: Floats, vectors: Floats, limit_vectors: Floats) -> int:
        return best(sigma * (vectors @ c) + (1.0 - sigma) * (limit_vectors @ c), rng)

    v_e = v if v_constraint is None else v_constraint
    return play(
        world, rows, choose, v=v, rng=rng, ridge=ridge, limits=limits, v_constraint=v_e, kind=kind
    )


def play(
    world: World,
    rows: Ints,
    choose: Callable[[int, Floats, Floats, Floats], int],
    *,
    v: float,
    rng: np.random.Generator,
    ridge: float = 1.0,
    limits: Arms | None = None,
    v_constraint: float = 0.0,
    kind: type[Arms] = Arms,
) -> Run:
    """Play `rows` in order: draw, choose, observe, update the reward arms only; then count (1)."""
    K, d = world.rewards.shape[1], world.contexts.shape[1]
    arms = kind(K, d, ridge)
    played, drawn, drawn_limits = [], [], []
    regrets, allowed_regrets, errors = [], [], []
    for row in rows:
        c, rewards, allowed = world.contexts[row], world.rewards[row], world.allowed[row]
        vectors = arms.draw(v, rng)
        limit_vectors = np.zeros((K, 0)) if limits is None else limits.draw(v_constraint, rng)
        k = choose(int(row), c, vectors, limit_vectors)
        earned, earned_if_allowed, error = 0.0, 0.0, 0
        if k != ABSTAINED:
            earned = float(rewards[k])
            earned_if_allowed = earned if allowed[k] else 0.0
            error = 0 if allowed[k] else 1
            arms.update(c, k, earned)
        best_allowed = rewards[allowed].max() if allowed.any() else 0.0
        played.append(k)
        drawn.append(vectors)
        drawn_limits.append(limit_vectors)
        regrets.append(rewards.max() - earned)
        allowed_regrets.append(best_allowed - earned_if_allowed)
        errors.append(error)
    steps = np.arange(1, len(rows) + 1)
    return Run(
        arms=np.array(played, dtype=np.int64),
        R_curve=np.cumsum(regrets) / steps,
        Rc_curve=np.cumsum(allowed_regrets) / steps,
        E_curve=np.cumsum(errors),
        abstentions=played.count(ABSTAINED),
        vectors=np.array(drawn),
        limit_vectors=np.array(drawn_limits),
    )


# Choices, and their probabilities


def best(scores: Floats, rng: np.random.Generator) -> int:
    """The arm with the highest score; ties are broken uniformly."""
    top = np.flatnonzero(scores == scores.max())
    return int(top[0] if len(top) == 1 else rng.choice(top))


def shares(scores: Floats) -> Floats:
    """The probability of each arm under `best`: 1 / ties for the highest, else 0."""
    top = (scores == scores.max()).astype(np.float64)
    return np.asarray(top / top.sum())


def greedy_shares(arms: Arms, c: Floats) -> Floats:
    return shares(arms.means(c))


def epsilon_greedy_shares(arms: Arms, c: Floats, epsilon: float) -> Floats:
    """With probability epsilon a uniform arm (which may be the best one), else greedy."""
    K = len(arms.mu)
    return epsilon / K + (1.0 - epsilon) * greedy_shares(arms, c)


def linucb_shares(arms: Arms, c: Floats, alpha: float) -> Floats:
    """The highest of c'mu + alpha sqrt(c' inv(B) c)."""
    return shares(arms.means(c) + alpha * arms.spreads(c))


def blend_moments(
    arms: Arms, limits: Arms, c: Floats, *, sigma: float, v: float, v_constraint: float
) -> tuple[Floats, Floats]:
    """Mean and sd of sigma c'mu~ + (1 - sigma) c'mu~e for every arm (2.3)."""
    mean = sigma * arms.means(c) + (1.0 - sigma) * limits.means(c)
    reward_part = (sigma * v * arms.spreads(c)) ** 2
    limit_part = ((1.0 - sigma) * v_constraint * limits.spreads(c)) ** 2
    return mean, np.sqrt(reward_part + limit_part)


def win_probabilities(means: Any, sds: Any) -> Floats:
    """P(arm k has the highest of independent draws from N(means, sds^2)), ties shared equally.

    An arm with sd = 0 always draws its mean. Of those only the highest can win, and it wins if all
    draws of the others are below it. Any other arm k wins with probability

        integral over x > floor of pdf_k(x) prod_{j != k, sd_j > 0} cdf_j(x) dx,

    floor = the highest fixed score. Adaptive quadrature between breakpoints m_j + t s_j.
    """
    m, s = np.asarray(means, dtype=float), np.asarray(sds, dtype=float)
    random = s > 0.0
    floor = m[~random].max() if (~random).any() else -np.inf
    p = np.zeros(len(m))
    for k in np.flatnonzero(random):
        others = random.copy()
        others[k] = False
        p[k] = _win(m[k], s[k], m[others], s[others], floor)
    fixed = ~random & (m == floor)
    if fixed.any():
        p[fixed] = np.prod(ndtr((floor - m[random]) / s[random])) / fixed.sum()
    return p


def _win(m: float, s: float, m_others: Floats, s_others: Floats, floor: float) -> float:
    reach = 9.0  # a normal is beyond 9 sd with probability 2e-19
    low, high = max(m - reach * s, floor), m + reach * s
    if low >= high:
        return 0.0

    def integrand(x: float) -> float:
        density = np.exp(-0.5 * ((x - m) / s) ** 2) / (s * np.sqrt(2.0 * np.pi))
        return float(density * np.prod(ndtr((x - m_others) / s_others)))

    marks = np.array([-9.0, -6.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 6.0, 9.0])
    points = np.concatenate([m + marks * s, *(m_others + t * s_others for t in marks)])
    edges = np.unique(np.clip(points, low, high))
    pieces = itertools.pairwise(edges)
    return float(sum(quad(integrand, a, b, epsabs=1e-13, epsrel=1e-10)[0] for a, b in pieces))

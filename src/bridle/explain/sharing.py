"""What an arm's score rests on where arms share a reward model: features, itself, other arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bridle.agent.config import ArmId
from bridle.agent.state import AgentState
from bridle.kernels import shared as kernel
from bridle.kernels.types import Floats
from bridle.reward.shared import SharedArms

__all__ = ["ArmInfluence", "ArmInfluences", "Play", "shared_parts", "taught_by"]

# Arms whose plays are taken away in turn: those that move the score most, to first order.
MOST = 64
# A change of less is none.
ROUNDING = 1e-12

# The arm's number, its encoded context, its reward in [0, 1].
Play = tuple[int, Floats, float]


@dataclass(frozen=True, slots=True)
class ArmInfluence:
    """An arm, and what would be expected without its plays."""

    arm: ArmId
    plays: float  # with forgetting their weight
    change: float  # of the score, if they had never been


@dataclass(frozen=True, slots=True)
class ArmInfluences:
    """The arms whose plays move the score of one arm in a context most.

    Attributes
    ----------
    arm : arm id
        Whose score it is.
    score : float
        The mean that is expected of it, in [0, 1] units.
    own : float
        How the score would change if the arm itself had never been played.
    how : str
        How plays were taken away. From plays it is exact: the score that the model would have with
        the same λ and ρ. From what the agent keeps, an arm's plays count by their number, their
        mean context and their mean reward: exact where an arm was played in one context only, and
        else what its average alone has taught.
    arms : tuple of ArmInfluence
        The others, by how far they move it.
    """

    arm: ArmId
    score: float
    own: float
    how: str
    arms: tuple[ArmInfluence, ...]


def shared_parts(
    state: AgentState, row: Floats, k: int
) -> tuple[float, list[tuple[str, str, float, float]]]:
    """Return what is there before any feature, and what each part gave to an arm's mean reward.

    A part is a side ("context", "arm", "both" or "own"), a name, a value and what it gave. With the
    first number they add up to the mean.
    """
    model, arm_schema = state.shared, state.settings.arm_features
    assert model is not None and arm_schema is not None
    theta, (own, _) = model.theta, model.own_effects(np.array([k]))
    x, a = np.append(1.0, row), np.append(1.0, _row(model, k))
    context_names, arm_names = state.settings.features.columns, arm_schema.columns
    parts: list[tuple[str, str, float, float]] = []
    gave = np.outer(x, a) * theta
    for i, j in np.argwhere((gave != 0.0) & model.kept).tolist():
        if i == 0 and j == 0:
            continue
        names = [context_names[i - 1]] * (i > 0) + [arm_names[j - 1]] * (j > 0)
        side = "both" if i and j else "context" if i else "arm"
        parts.append((side, " & ".join(names), float(x[i] * a[j]), float(gave[i, j])))
    plays = float(model.counts[k])
    if plays:
        parts.append(("own", "its own plays", plays, float(own[0])))
    return float(gave[0, 0]), parts


def taught_by(
    state: AgentState, row: Floats, k: int, top: int, plays: Sequence[Play] | None = None
) -> ArmInfluences:
    """Return which arms' plays move the score of arm k in an encoded context most.

    `plays`: all that were learned, if they are at hand; then it is exact, unless what was learned
    fades or the features of an arm have changed.
    """
    model = state.shared
    assert model is not None
    whole = plays is not None and model.half_life is None and not _changed(model)
    without = _Without(model, row, k, plays if whole else None)
    order = without.first_order()
    moved = [
        (j, change)
        for j in order[:MOST]
        if j != k and abs(change := without.score(j) - without.before) > ROUNDING
    ]
    moved.sort(key=lambda one: (-abs(one[1]), one[0]))
    counts = model.counts
    own = without.score(k) - without.before if counts[k] else 0.0
    return ArmInfluences(
        arm=state.arm_ids[k],
        score=without.before,
        own=own,
        how="without its plays" if whole else "without the mean of its plays",
        arms=tuple(
            ArmInfluence(state.arm_ids[j], float(counts[j]), change) for j, change in moved[:top]
        ),
    )


def _changed(model: SharedArms) -> bool:
    return bool((model.kernel_state.old_of[: model.arms] >= 0).any())


def _row(model: SharedArms, k: int) -> Floats:
    return model.kernel_state.rows[k, 1:]


class _Without:
    """The score of one arm in one context without the plays of another.

    With θ = G(f + r̄λe₀), G = B⁻¹, arm j adds M to B and m to f, where M = Σφφᵀ − c SSᵀ and
    m = Σφr − c SR over its plays, c = ρ / (1 + nρ). Where only n, S and R are known, M is
    w SSᵀ and m is w SR, w = 1 / (n(1 + nρ)): the same of n plays in the mean context.
    """

    def __init__(
        self, model: SharedArms, row: Floats, k: int, plays: Sequence[Play] | None
    ) -> None:
        st = model.kernel_state
        self._model, self._k = model, k
        self._G = model.covariance / model.scale**2
        self._theta = model.theta[model.kept]
        passed = float(st.num[kernel.PASSED])
        self._n, self._R = model.counts, st.own[: model.arms, 1] * passed
        self._played = np.flatnonzero(self._n > 0.0)
        phi = np.empty(model.joint_features)
        kernel.joint(st.at, np.append(1.0, row), st.rows[k], phi)
        self._phi = phi
        self._kappa = model.rho / (1.0 + model.rho * float(self._n[k]))
        self._passed = passed
        self._of: dict[int, list[tuple[Floats, float]]] | None = None
        if plays is not None:
            self._of = {}
            for arm, context, reward in plays:
                self._of.setdefault(arm, []).append((context, reward))
        self.before = self._score(self._theta)

    def _sum(self, j: int) -> Floats:
        """Return S of an arm."""
        out = np.empty(self._model.joint_features)
        kernel.arm_sum(self._model.kernel_state, j, out)
        return out * self._passed

    def _score(self, theta: Floats, own: bool = True) -> float:
        """Return the score for a mean of θ, with or without the arm's own effect."""
        score = float(self._phi @ theta)
        if own and self._n[self._k]:
            k = self._k
            score += self._kappa * float(self._R[k] - self._sum(k) @ theta)
        return score

    def first_order(self) -> list[int]:
        """Return the arms that were played, those first that move the score most, roughly."""
        model, st = self._model, self._model.kernel_state
        t = self._phi - (self._kappa * self._sum(self._k) if self._n[self._k] else 0.0)
        played, both = self._played, []
        for vector in (self._G @ t, self._theta):
            V = np.zeros(model.kept.shape)
            V[model.kept] = vector
            one = ((st.X[played] @ V) * st.rows[played]).sum(axis=1)
            for i, j in enumerate(played.tolist()):
                if st.old_of[j] >= 0:
                    one[i] += st.old[st.old_of[j]] @ vector
            both.append(one * self._passed)
        n = self._n[played]
        moves = both[0] * (self._R[played] - both[1]) / (n * (1.0 + n * model.rho))
        order = np.argsort(-np.abs(moves), kind="stable")
        return [int(j) for j in played[order]]

    def score(self, j: int) -> float:
        """Return the score without the plays of arm j."""
        model = self._model
        n, R, S = float(self._n[j]), float(self._R[j]), self._sum(j)
        st = model.kernel_state
        left = float(st.num[kernel.MASS]) - n
        rate = (float(st.num[kernel.SUM_R]) - R + 0.5) / (left + 1.0)
        pull = 0.0 if kernel.zero_mean(st) else (rate - model.base_rate) * model.lam[0]
        first = np.zeros(len(S))
        first[0] = pull
        theta = self._theta_without(j, n, R, S, first)
        return self._score(theta, own=j != self._k)

    def _theta_without(self, j: int, n: float, R: float, S: Floats, first: Floats) -> Floats:
        G, rho = self._G, self._model.rho
        if self._of is None:
            w = 1.0 / (n * (1.0 + n * rho))
            gone = G @ S
            y = self._theta - w * R * gone + G @ first
            return np.asarray(y + gone * (w * float(S @ y) / (1.0 - w * float(S @ gone))))
        mine = self._of.get(j, [])
        rows = self._model.kernel_state.rows[j]
        at = self._model.kernel_state.at
        each = np.empty((len(mine), len(S)))
        for i, (context, _) in enumerate(mine):
            kernel.joint(at, np.append(1.0, context), rows, each[i])
        r = np.array([reward for _, reward in mine])
        c = rho / (1.0 + len(mine) * rho)
        W = np.eye(len(mine)) - c
        B = np.linalg.inv(G)
        f = B @ self._theta - each.T @ (W @ r) + first
        return np.linalg.solve(B - each.T @ W @ each, f)

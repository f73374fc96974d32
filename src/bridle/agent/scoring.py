"""Scores of decisions that are computed when somebody asks for them.

To choose an arm, most arms' scores need not be computed; to explain the choice, all are. So a
decision keeps what its scores are made of. The reward part changes in place: before an arm learns
from a reward, what it knew is put aside for the decisions that were made from it. Before anything
else changes, their scores are computed.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from bridle.kernels import choice
from bridle.kernels.types import Floats

if TYPE_CHECKING:
    from bridle.agent.state import AgentState

__all__ = ["MOST_SAVED", "MOST_UNSCORED", "Scoring", "Unscored"]

# Decisions whose scores are not computed; of more that are in use, the oldest are.
MOST_UNSCORED = 64
# Arms that have learned since a decision; after more, its scores are computed.
MOST_SAVED = 8


class Scoring:
    """The scores of one decision, as they were when it was made.

    Parameters
    ----------
    state : AgentState
        That it was made from, of a policy of ours and a reward model of ours.
    row : array
        Its context, encoded.
    weights : array
        Of the policy.
    pull : float
        `AgentState.pull`.
    start, number : uint64
        The key of its draws.
    """

    __slots__ = (
        "__weakref__",
        "_key",
        "_parts",
        "_pull",
        "_row",
        "_state",
        "_weights",
        "saved",
    )

    def __init__(
        self,
        state: AgentState,
        row: Floats,
        weights: Floats,
        pull: float,
        start: Any,
        number: Any,
    ) -> None:
        self._state: AgentState | None = state
        self._row = row if row.base is None else row.copy()
        self._weights = weights.tobytes()
        self._key = start, number
        self._pull = pull
        self._parts: Floats | None = None
        # What arms knew that have learned since: inverse and mean.
        self.saved: dict[int, tuple[bytes, bytes]] = {}
        state.unscored.add(self)

    @property
    def computed(self) -> bool:
        """Whether the scores are there already."""
        return self._parts is not None

    def parts(self) -> Floats:
        """Return the scores, (7, K) as in `Decision`: always the same array.

        Safe beside a thread in which the agent learns: no arm learns in the course of one kernel,
        and what it knew is put aside before. Scores that are there already are never replaced.
        """
        state, done = self._state, self._parts
        if done is None and state is not None:
            arms = state.reward_arms.kernel_state
            parts = np.empty((7, len(arms.mu)))
            choice.reward_parts(arms.A, arms.mu, self._pull, self._row, parts)
            one = np.empty((7, 1))
            d = arms.mu.shape[1]
            for k, kept in list(self.saved.items()):  # only now: of all that learned before
                A, mu = (np.frombuffer(bytearray(part)) for part in kept)
                choice.reward_parts(
                    A.reshape(1, d, d), mu.reshape(1, d), self._pull, self._row, one
                )
                parts[:2, k] = one[:2, 0]
            seen = state.limits_state.seen(self._row.tobytes())
            parts[2], parts[3] = seen.p, seen.sd
            weights = np.frombuffer(bytearray(self._weights))
            choice.choose(weights, parts, state.every, state.every, *self._key)
            if self._parts is None:
                self._parts = parts
        done = self._parts
        assert done is not None
        self._state = None
        self.saved = {}
        return done

    def __reduce__(self) -> tuple[Any, tuple[Floats]]:
        return np.array, (self.parts(),)  # a copy has the numbers alone


class Unscored:
    """The decisions in use whose scores are not computed; not part of the fold."""

    def __init__(self) -> None:
        self.moved = 0  # how often something was folded that can move a score
        self._waiting: list[weakref.ref[Scoring]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __len__(self) -> int:
        return len(self._in_use())

    def add(self, one: Scoring) -> None:
        """Add a decision that was just made."""
        self._waiting.append(weakref.ref(one))
        if len(self._waiting) > MOST_UNSCORED:
            waiting = self._in_use()
            for old in waiting[: max(len(waiting) - MOST_UNSCORED // 2, 0)]:
                old.parts()
            self._in_use()

    def save(self, arm: int, A: Floats, mu: Floats) -> None:
        """Put aside what an arm knows, before it learns."""
        block: tuple[bytes, bytes] | None = None
        in_use = []
        for ref in self._waiting:
            one = ref()
            if one is None or one._parts is not None:
                continue
            if arm not in one.saved:
                if len(one.saved) >= MOST_SAVED:
                    one.parts()
                    continue
                if block is None:
                    block = A[arm].tobytes(), mu[arm].tobytes()
                one.saved[arm] = block
            in_use.append(ref)
        self._waiting = in_use

    def score_all(self) -> None:
        """Compute the scores of all, before something changes that they are made of."""
        for one in self._in_use():
            one.parts()
        self._waiting.clear()

    def _in_use(self) -> list[Scoring]:
        """Return those that somebody still has; the others are dropped."""
        found = [one for ref in self._waiting if (one := ref()) is not None and not one.computed]
        if len(found) < len(self._waiting):
            self._waiting = [weakref.ref(one) for one in found]
        return found

"""Teaching phases for limits that know what they do not know.

Three ways to choose the next question. `random`: any context, any arm. `arm`: the context comes as
it comes, and the agent asks about the arm from which it would learn most. `pool`: it chooses the
context too, out of all that there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.asking import check_world
from bridle.kernels import keys
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import Beliefs
from bridle.simulate import STEPS, Tables
from bridle.teaching import most_informative

__all__ = ["QUESTIONS", "Taught", "teach_beliefs"]

QUESTIONS = ("random", "arm", "pool")


@dataclass(frozen=True, eq=False)
class Taught:
    """What a teaching phase gave.

    Attributes
    ----------
    beliefs : mapping from N to Beliefs
        What is believed after the first N answers, for each N asked for.
    rows, arms, said : arrays
        What was asked, in order: the context's row and the arm; and the answer.
    """

    beliefs: Mapping[int, Beliefs]
    rows: Ints
    arms: Ints
    said: Bools


def teach_beliefs(
    tables: Tables,
    *,
    beliefs: Beliefs,
    examples: int | Sequence[int],
    questions: str = "pool",
    pool: npt.ArrayLike | None = None,
    seed: int = 0,
    flips: float = 0.0,
) -> Taught:
    """Ask N questions and fold the answers.

    Parameters
    ----------
    tables : Tables
        The world; its `allowed` is what the teacher answers by.
    beliefs : Beliefs
        Where to start from. They are copied.
    examples : int or list of ints
        N, or several: one pass serves all.
    questions : {"random", "arm", "pool"}
        How the next question is chosen.
    pool : array of ints, optional
        The rows that may be asked about; all by default.
    seed : int, default 0
        Two lessons with equal arguments are equal.
    flips : float
        Share of the answers that are wrong.

    Examples
    --------
    >>> from bridle.limits import LogisticLimits
    >>> tables = Tables(np.eye(2), np.ones((2, 2)), np.array([[1, 0], [1, 1]]))
    >>> taught = teach_beliefs(tables, beliefs=LogisticLimits(arms=2, features=2), examples=40)
    >>> taught.beliefs[40].look(1, tables.contexts).p.round(1).tolist()
    [0.1, 0.9]
    """
    owner = "teach_beliefs"
    check_world(tables, beliefs, owner)
    validate.one_of(questions, QUESTIONS, "questions", owner)
    wrong = validate.FRACTION.check(flips, "flips", owner)
    several = isinstance(examples, list | tuple | range)
    sizes = {STEPS.check(N, "examples", owner) for N in (examples if several else [examples])}  # type: ignore[union-attr]
    given = np.arange(len(tables)) if pool is None else np.asarray(pool)
    rows = validate.indices(given, given.size, len(tables), "pool", owner)
    start = keys.stream(validate.SEED.check(seed, "seed", owner), keys.ASK)
    answers = keys.stream(seed, keys.ANSWER)
    chooser = _Chooser(tables, beliefs.copy(), rows, questions)
    kept: dict[int, Beliefs] = {}
    asked: list[tuple[int, int, bool]] = []
    for n in range(max(sizes, default=0) + 1):
        if n in sizes:
            kept[n] = chooser.beliefs.copy()
        if n == max(sizes, default=0):
            break
        row, k = chooser.next(np.uint64(keys.key_of(start, np.uint64(n + 1))))
        bits = np.uint64(keys.key_of(answers, np.uint64(n + 1)))
        answer = bool(tables.allowed[row, k])
        answer ^= wrong > 0.0 and float(keys.uniform(bits)) < wrong
        asked.append((row, k, answer))
        chooser.learn(row, k, answer, int(bits))
    columns = np.array([entry[:2] for entry in asked], np.int64).reshape(-1, 2)
    said = np.array([entry[2] for entry in asked], np.bool_)
    return Taught(kept, columns[:, 0], columns[:, 1], said)


class _Chooser:
    """Knows what each question would teach, as long as the limits do not change."""

    def __init__(self, tables: Tables, beliefs: Beliefs, rows: Ints, questions: str) -> None:
        self.tables, self.beliefs, self.rows, self.questions = tables, beliefs, rows, questions
        self.kinds, first, kind = np.unique(
            tables.contexts[rows], axis=0, return_index=True, return_inverse=True
        )
        self.kind = kind.ravel()
        self.row_of = rows[first]  # a row that stands for each distinct context
        self.members = [np.flatnonzero(beliefs.unit_of == u) for u in range(beliefs.units)]
        self.information: Floats = np.zeros((len(self.kinds), beliefs.units))
        if questions != "random":
            self._look(np.arange(beliefs.units))

    def next(self, key: np.uint64) -> tuple[int, int]:
        """Choose a row and an arm; ties, and what does not matter, fall by the key."""
        place = int(keys.uniform(np.uint64(keys.bits_of(key, 0))) * len(self.rows))
        if self.questions == "random":
            k = int(keys.uniform(np.uint64(keys.bits_of(key, 1))) * self.tables.arms)
            return int(self.rows[place]), k
        if self.questions == "arm":
            here = self.kind[place]
            unit = most_informative(self.information[here], key)
            return int(self.rows[place]), self._arm(unit, key)
        best = most_informative(self.information.ravel(), key)
        at, unit = divmod(best, self.information.shape[1])
        return int(self.row_of[at]), self._arm(unit, key)

    def learn(self, row: int, arm: int, allowed: bool, key: int) -> None:
        """Fold an answer."""
        changed = self.beliefs.learn(self.tables.contexts[row], arm, allowed, key)
        if self.questions != "random":
            self._look(changed)

    def _look(self, units: Ints) -> None:
        for u in units:
            self.information[:, u] = self.beliefs.look(int(u), self.kinds).information

    def _arm(self, unit: int, key: np.uint64) -> int:
        members = self.members[unit]
        return int(members[int(keys.uniform(np.uint64(keys.bits_of(key, 1))) * len(members))])

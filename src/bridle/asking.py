"""The online phase with questions: play what is surely allowed, ask where it matters.

Step for step: each look draws every arm's score; if the best arm that is not surely denied is also
surely allowed, it is played. Else the teacher is asked about it, as long as there is a budget. If
it is allowed it is played; if not it is dropped, and the agent looks again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.arms import LinearArms
from bridle.errors import InvalidValue
from bridle.kernels import doubt, keys, loop
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import Beliefs
from bridle.policies import BehaviorConstrained, Thompson
from bridle.simulate import FIRST_GUESS, PRIORS, STEPS, Run, Tables, marks_at, shown_rows, with_one

__all__ = ["ON_EMPTY", "Asking", "check_world", "learned_mask", "online_asking"]

ON_EMPTY = ("abstain", "safe_arm", "least_bad")
MOST = validate.IntRange(0, 1_000)


@dataclass(frozen=True, eq=False)
class Asking(Run):
    """What an online phase with questions gave: a `Run`, and what was asked.

    Attributes
    ----------
    asked_at, asked_rows, asked_arms : arrays (answers,)
        Of each question: the step, the context's row and the arm.
    said : array (answers,) of bools
        What the teacher answered.
    answers : array
        Answers so far, at each checkpoint.
    beliefs : Beliefs
        The limits after the last answer.
    """

    asked_at: Ints
    asked_rows: Ints
    asked_arms: Ints
    said: npt.NDArray[np.bool_]
    answers: Ints
    beliefs: Beliefs

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, answers={len(self.said)})"


def online_asking(
    tables: Tables,
    *,
    beliefs: Beliefs,
    policy: Thompson | BehaviorConstrained | None = None,
    budget: int = 1_000_000,
    most: int = 3,
    steps: int | None = None,
    rows: npt.ArrayLike | None = None,
    checkpoints: npt.NDArray[np.integer] | list[int] | None = None,
    seed: int = 0,
    ridge: float = 1.0,
    prior: str = "centred",
    on_empty: str = "abstain",
    safe_arm: int | None = None,
    flips: float = 0.0,
    remember: bool = True,
    tell: Callable[[int, int], None] | None = None,
) -> Asking:
    """Run the online phase, asking the teacher when in doubt.

    Parameters
    ----------
    tables : Tables
        The world; its `allowed` is what the teacher answers by.
    beliefs : Beliefs
        Limits that know what they do not know, with whatever they were taught. They are copied.
    policy : Thompson or BehaviorConstrained, optional
        How arms inside the limits are compared; Thompson with v = .05 (.25 with the paper's prior)
        by default. With sigma below 1 the probability of "allowed" takes part.
    budget, most : int
        How many questions may be asked, in all and in one step. With a budget of 0 the limits are
        a learned mask.
    steps, rows, checkpoints, seed, ridge, prior
        As in `online`.
    on_empty : {"abstain", "safe_arm", "least_bad"}
        Where no arm is safe: play nothing, the arm `safe_arm`, or the one most likely allowed.
    flips : float
        Share of the teacher's answers that are wrong.
    remember : bool
        Take an answer for this very context and arm as certain from then on. Not for a teacher
        who errs: then an answer is one more piece of evidence, and the agent looks again before
        it plays.

    Examples
    --------
    >>> from bridle.limits import RuleLimits
    >>> tables = Tables(np.eye(2), np.array([[0.9, 0.2], [0.8, 0.3]]), np.array([[0, 1], [1, 1]]))
    >>> run = online_asking(tables, beliefs=RuleLimits(arms=2, features=2), steps=500, seed=1)
    >>> int(run.E[-1]), len(run.said) <= 4
    (0, True)
    """
    owner = "online_asking"
    check_world(tables, beliefs, owner)
    centred = validate.one_of(prior, PRIORS, "prior", owner) == "centred"
    if policy is None:
        policy = Thompson(v=0.05 if centred else 0.25)
    if not isinstance(policy, Thompson | BehaviorConstrained):
        raise InvalidValue("policy", owner, "Thompson or BehaviorConstrained", policy)
    wrong = validate.FRACTION.check(flips, "flips", owner)
    empty = _on_empty(on_empty, safe_arm, tables.arms, owner)
    left = STEPS.check(budget, "budget", owner)
    most = MOST.check(most, "most", owner)
    shown = shown_rows(tables, rows, steps, seed, owner)
    T = len(shown)
    kinds, kind = np.unique(tables.contexts, axis=0, return_inverse=True)
    kind = kind.ravel().astype(np.int64)
    believed = beliefs.copy()
    marks = np.empty((len(kinds), believed.units), np.int8)
    p = np.empty(marks.shape)
    _look(believed, np.arange(believed.units), kinds, marks, p)
    said = np.zeros((len(kinds), tables.arms), np.int8)
    contexts = with_one(tables.contexts) if centred else tables.contexts
    arms = LinearArms(arms=tables.arms, features=contexts.shape[1], ridge=ridge)
    start = keys.stream(validate.SEED.check(seed, "seed", owner), keys.DECIDE)
    answers = keys.stream(seed, keys.ANSWER)
    numbers = np.arange(1, T + 1, dtype=np.uint64)
    totals = FIRST_GUESS.copy()
    unit = np.ascontiguousarray(believed.unit_of, np.int64)
    played = np.empty(T, np.int64)
    asked: list[tuple[int, int, int, bool]] = []
    at, look, settled = 0, 0, -1
    while True:
        step, k = doubt.run(
            policy.weights, arms.kernel_state, arms.ridge, contexts, tables.rewards, kind, unit,
            marks, p, said, shown, start, numbers, centred, totals, empty, left, most, at, look,
            settled, played,
        )  # fmt: skip
        if k < 0:
            break
        row = int(shown[step])
        bits = np.uint64(keys.key_of(answers, np.uint64(len(asked) + 1)))
        truth = bool(tables.allowed[row, k])
        answer = truth != (wrong > 0.0 and float(keys.uniform(bits)) < wrong)
        asked.append((step, row, k, answer))
        left -= 1
        look = look + 1 if step == at else 1
        at, settled = step, k if answer and remember else -1
        if remember:
            said[kind[row], k] = doubt.SAID_YES if answer else doubt.SAID_NO
        changed = believed.learn(tables.contexts[row], k, answer, int(bits))
        _look(believed, changed, kinds, marks, p)
        if tell is not None:
            tell(step, len(asked))
    marks_t = marks_at(checkpoints, T)
    out = np.zeros((4, len(marks_t)))
    loop.tally(
        shown, played, tables.rewards, tables.allowed, tables.best, tables.best_allowed, marks_t,
        out,
    )  # fmt: skip
    columns = np.array([entry[:3] for entry in asked], np.int64).reshape(-1, 3)
    return Asking(
        marks_t, out[0], out[1], out[2].astype(np.int64), out[3].astype(np.int64), shown, played,
        arms, columns[:, 0], columns[:, 1], columns[:, 2],
        np.array([entry[3] for entry in asked], np.bool_),
        np.searchsorted(columns[:, 0], marks_t), believed,
    )  # fmt: skip


def check_world(tables: object, beliefs: object, owner: str) -> None:
    """Refuse what is no world, or limits that are not of its size."""
    if not isinstance(tables, Tables):
        raise InvalidValue("tables", owner, "Tables(contexts, rewards, allowed)", tables)
    if not isinstance(beliefs, Beliefs):
        raise InvalidValue("beliefs", owner, "limits such as RuleLimits", beliefs)
    if (beliefs.arms, beliefs.features) != (tables.arms, tables.features):
        wanted = f"limits over {tables.arms} arms and {tables.features} features"
        raise InvalidValue("beliefs", owner, wanted, (beliefs.arms, beliefs.features))


def learned_mask(tables: Tables, beliefs: Beliefs) -> Bools:
    """Say where an arm is surely allowed, for `online(eligible=...)`: frozen limits, at full speed.

    Examples
    --------
    >>> from bridle.limits import RuleLimits
    >>> tables = Tables(np.eye(2), np.ones((2, 2)), np.ones((2, 2)) == 1)
    >>> limits = RuleLimits(arms=2, features=2)
    >>> for _ in range(2):
    ...     _ = limits.learn([1.0, 0.0], 1, True)
    >>> learned_mask(tables, limits).tolist()
    [[False, True], [False, False]]
    """
    kinds, kind = np.unique(tables.contexts, axis=0, return_inverse=True)
    safe = beliefs.look_all(kinds).safe
    return np.ascontiguousarray(safe.T[kind.ravel()][:, beliefs.unit_of])


def _look(
    beliefs: Beliefs, units: Ints, kinds: Floats, marks: npt.NDArray[np.int8], p: Floats
) -> None:
    """Write down what is believed of these units in every distinct context."""
    if len(units) > 1:  # all at once is far cheaper
        seen = beliefs.look_all(kinds)
        p[:] = seen.p.T
        marks[:] = np.where(seen.safe, doubt.SAFE, np.where(seen.possible, doubt.UNSURE, 0)).T
        return
    for u in units:
        seen = beliefs.look(int(u), kinds)
        p[:, u] = seen.p
        marks[:, u] = np.where(seen.safe, doubt.SAFE, np.where(seen.possible, doubt.UNSURE, 0))


def _on_empty(on_empty: str, safe_arm: int | None, arms: int, owner: str) -> int:
    validate.one_of(on_empty, ON_EMPTY, "on_empty", owner)
    if on_empty == "safe_arm":
        return validate.IntRange(0, arms - 1).check(safe_arm, "safe_arm", owner)
    if safe_arm is not None:
        raise InvalidValue("safe_arm", owner, "left out, unless on_empty='safe_arm'", safe_arm)
    return doubt.ABSTAIN if on_empty == "abstain" else doubt.LEAST_BAD

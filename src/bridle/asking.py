"""The online phase with questions: play what is surely allowed, ask where an answer pays.

Step for step: what the best arm in doubt would earn beyond the best safe one, times the probability
that it is allowed, is added to the account of its item and unit. Once the account holds what an
answer costs, the teacher is asked, and the agent looks again. Else the best safe arm is played.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.arms import LinearArms
from bridle.errors import InvalidValue
from bridle.kernels import doubt, keys, loop, questions
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import Beliefs, MixtureLimits
from bridle.limits.linear import hope_of
from bridle.policies import BehaviorConstrained, Thompson
from bridle.simulate import FIRST_GUESS, PRIORS, STEPS, Run, Tables, marks_at, shown_rows, with_one

__all__ = ["ON_EMPTY", "Asking", "check_world", "learned_mask", "online_asking"]

ON_EMPTY = ("abstain", "safe_arm", "least_bad")
MOST = validate.IntRange(0, 1_000)
PRICE = validate.FloatRange(0.0, 1e6)


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
    items: npt.ArrayLike | None = None,
    identity: bool = True,
    answer_price: float = 0.35,
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
        Take an answer as certain for its own item and unit. Not for a teacher who errs: then an
        answer is one more piece of evidence.
    items : array (M,) of ints, optional
        Which item each row is about; by default every row is an item of its own.
    identity : bool, default True
        Whether items can be told apart. If not, an answer "allowed" is certain for its own step
        only, and one "not allowed" for this very vector of features.
    answer_price : float, default 0.35
        What an answer is worth, in rewards: about so much is given up, by item and unit, before the
        teacher is asked. An answer that teaches about other cases, too, is cheaper.

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
    price = PRICE.check(answer_price, "answer_price", owner)
    shown = shown_rows(tables, rows, steps, seed, owner)
    T = len(shown)
    kinds, kind = np.unique(tables.contexts, axis=0, return_inverse=True)
    kind = kind.ravel().astype(np.int64)
    item = _items(items, kind, validate.truth(identity, "identity", owner), owner)
    believed = beliefs.copy()
    table = _Table(believed, kinds)
    said = np.zeros((int(item.max()) + 1, believed.units), np.int8)
    account = np.zeros(said.shape)
    lessons = np.zeros(believed.units)
    here = np.zeros(believed.units, np.int8)
    contexts = with_one(tables.contexts) if centred else tables.contexts
    arms = LinearArms(arms=tables.arms, features=contexts.shape[1], ridge=ridge)
    start = keys.stream(validate.SEED.check(seed, "seed", owner), keys.DECIDE)
    ask_start = keys.stream(seed, keys.DOUBT)
    answers = keys.stream(seed, keys.ANSWER)
    numbers = np.arange(1, T + 1, dtype=np.uint64)
    totals = FIRST_GUESS.copy()
    unit = np.ascontiguousarray(believed.unit_of, np.int64)
    played = np.empty(T, np.int64)
    asked: list[tuple[int, int, int, bool]] = []
    at, look = 0, 0
    while True:
        step, k = questions.run(
            policy.weights, arms.kernel_state, arms.ridge, contexts, tables.rewards, kind, item,
            unit, table.safe, table.p, table.hope, table.information, said, here, account, lessons,
            price, shown, start, ask_start, numbers, centred, totals, empty, left, most, at, look,
            played,
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
        at = step
        if remember:
            here[unit[k]] = doubt.SAID_YES if answer else doubt.SAID_NO
            if identity or not answer:
                said[item[row], unit[k]] = here[unit[k]]
        table.update(believed.learn(tables.contexts[row], k, answer, int(bits)))
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


class _Table:
    """What is believed of every unit in every distinct context: arrays (kinds, U)."""

    def __init__(self, beliefs: Beliefs, kinds: Floats) -> None:
        self._beliefs, self._kinds = beliefs, kinds
        self._predictions = (
            beliefs.predictions(kinds) if isinstance(beliefs, MixtureLimits) else None
        )
        shape = len(kinds), beliefs.units
        self.safe: Bools = np.empty(shape, np.bool_)
        self.p, self.hope, self.information = np.empty((3, *shape))
        self.update(np.arange(beliefs.units))

    def update(self, units: Ints) -> None:
        """Look again at these units."""
        names = ("safe", "p", "information")
        if len(units) > 1 or self._predictions is not None:  # all at once is far cheaper
            every = self._predictions
            look = self._beliefs.look_all(self._kinds) if every is None else every.look()
            for name in names:
                getattr(self, name)[:] = getattr(look, name).T
            self.hope[:] = hope_of(self._beliefs, look).T
            return
        for u in units:
            look = self._beliefs.look(int(u), self._kinds)
            for name in names:
                getattr(self, name)[:, u] = getattr(look, name)
            self.hope[:, u] = hope_of(self._beliefs, look)


def _items(items: npt.ArrayLike | None, kind: Ints, identity: bool, owner: str) -> Ints:
    """Return the number of the item of each row; without identity that of its distinct context."""
    if not identity:
        if items is not None:
            wanted = "left out with identity=False"
            raise InvalidValue("items", owner, wanted, items)
        return kind
    if items is None:
        return np.arange(len(kind))
    given = np.asarray(items)
    most = 100 * len(kind)  # said and account have a row each
    return validate.indices(given, len(kind), most, "items", owner)


def _on_empty(on_empty: str, safe_arm: int | None, arms: int, owner: str) -> int:
    validate.one_of(on_empty, ON_EMPTY, "on_empty", owner)
    if on_empty == "safe_arm":
        return validate.IntRange(0, arms - 1).check(safe_arm, "safe_arm", owner)
    if safe_arm is not None:
        raise InvalidValue("safe_arm", owner, "left out, unless on_empty='safe_arm'", safe_arm)
    return doubt.ABSTAIN if on_empty == "abstain" else doubt.LEAST_BAD

"""The online phase with questions: play what is surely allowed, ask where an answer pays.

Step for step: what the best arm in doubt would earn beyond the best safe one, times the probability
that it is allowed, is added to the account of its item and unit. Once the account holds what an
answer costs, the teacher is asked, and the agent looks again. Else the best safe arm is played.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.arms import LinearArms
from bridle.errors import InvalidValue
from bridle.kernels import doubt, keys, loop, questions
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import Beliefs, MixtureLimits
from bridle.limits.base import Look
from bridle.limits.exceptions import START, ExceptionRates, doubt_of
from bridle.limits.linear import hope_of
from bridle.policies import BehaviorConstrained, Thompson
from bridle.purse import Purse
from bridle.simulate import FIRST_GUESS, PRIORS, STEPS, Run, Tables, marks_at, shown_rows, with_one
from bridle.teachers import ERROR, LEAST_P, REVIEWED, SETTLES, Settled, Teacher, Teachers

__all__ = ["ON_EMPTY", "Asking", "check_world", "learned_mask", "online_asking"]

ON_EMPTY = ("abstain", "safe_arm", "least_bad")
MOST = validate.IntRange(0, 1_000)
PRICE = validate.FloatRange(0.0, 1e6)
# Of a teacher who is said to be always right, as an agent has it.
LEAST_ERROR = 0.001


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
    checked_at : array (checks,)
        The steps whose plays a coin chose to be judged.
    found : array (checks,) of bools
        Which of these were not allowed.
    judged : array (checks,) of bools
        What the teacher said of these; with several teachers what is so.
    frozen : int
        Steps at which the promise let nothing be played that was not allowed at that very step.
    anew : array
        The steps at which what was learned was begun anew.
    words : array (teachers, 2)
        With several teachers: how often each answered a question, and judged a check.
    rates : array (teachers,)
        What was learned of how often each errs: the means.
    heard : array (words, 2)
        Every word of several teachers, of questions and checks: whose it was, and whether wrong.
    learned : array (words, teachers)
        What was known of the rates after each word: the means.
    """

    asked_at: Ints
    asked_rows: Ints
    asked_arms: Ints
    said: npt.NDArray[np.bool_]
    answers: Ints
    beliefs: Beliefs
    checked_at: Ints
    found: npt.NDArray[np.bool_]
    judged: npt.NDArray[np.bool_]
    frozen: int
    anew: Ints
    words: Ints
    rates: Floats
    heard: Ints
    learned: Floats

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, answers={len(self.said)}, checks={len(self.found)})"


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
    checks: bool = False,
    promise: tuple[float, float] | None = None,
    lag: int = 0,
    later: tuple[int, npt.ArrayLike] | None = None,
    teachers: Sequence[tuple[float, ...]] = (),
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
        Share of the teacher's answers that are wrong, to questions and to checks, at random.
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
    checks : bool, default False
        Let a coin choose plays that the teacher judges afterwards: see `ExceptionRates`.
    promise : (alpha, q), optional
        Keep a promise: see `Purse`. A check that denies what the teacher had allowed begins what
        was learned anew; denials stay.
    lag : int, default 0
        Steps that the answer to a check takes; the purse is made for it.
    later : (int, array (M, K) of bools), optional
        What is allowed from this step on, where limits change.
    teachers : list of (error, price) or (error, price, told)
        Several teachers: how often each errs, what an answer of theirs costs, and what the agent is
        told of the error, which need not be true; by default nothing. A question goes to whom
        `Teachers.choose` names until its case is settled, or until nobody is worth it; then it is
        given up for this step. A check goes to who errs least. Who is asked again says the same.
        Every answer is in `said`.

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
    staff = _staff(teachers, seed, owner)
    if staff is not None and wrong > 0.0:
        raise InvalidValue("flips", owner, "0 with several teachers: each has an error", flips)
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
    rates = _rates(believed, wrong) if checks else None
    purse = None if promise is None else Purse(alpha=promise[0], q=promise[1], lag=lag)
    table = _Table(believed, kinds, rates)
    said = np.zeros((int(item.max()) + 1, believed.units), np.int8)
    account = np.zeros(said.shape)
    lessons = np.zeros(believed.units)
    here = np.zeros(believed.units, np.int8)
    contexts = with_one(tables.contexts) if centred else tables.contexts
    arms = LinearArms(arms=tables.arms, features=contexts.shape[1], ridge=ridge)
    start = keys.stream(validate.SEED.check(seed, "seed", owner), keys.DECIDE)
    ask_start = keys.stream(seed, keys.DOUBT)
    answers = keys.stream(seed, keys.ANSWER)
    of_checks = keys.stream(seed, keys.ANSWER_NAMED)
    numbers = np.arange(1, T + 1, dtype=np.uint64)
    totals = FIRST_GUESS.copy()
    unit = np.ascontiguousarray(believed.unit_of, np.int64)
    played = np.empty(T, np.int64)
    asked: list[tuple[int, int, int, bool]] = []
    checked: list[tuple[int, bool, bool]] = []
    anew: list[int] = []
    due: deque[tuple[int, int, int, int, bool]] = deque()  # checks whose answers are to come
    allowed = [tables.allowed] * 2
    turn = T
    if later is not None:
        turn = STEPS.check(later[0], "later", owner)
        changed = validate.arrays(later[1], "later", owner, "what is allowed, as in the tables")
        if changed.shape != tables.allowed.shape or changed.dtype != np.bool_:
            wanted = f"a step, and bools of shape {tables.allowed.shape}"
            raise InvalidValue("later", owner, wanted, f"{changed.dtype} of shape {changed.shape}")
        allowed[1] = changed
    coins = questions.Coins(
        keys.stream(seed, keys.CHECK), np.zeros((0, 2)), START, np.zeros(believed.units, np.int64),
        np.zeros(0), np.zeros(2),
    )  # fmt: skip

    denied: list[tuple[int, int, int]] = []  # of each denial the row, the arm and the key
    taught = 0

    def learn(row: int, k: int, answer: bool, bits: int | None = None) -> None:
        nonlocal taught
        u, own = int(unit[k]), item[row]
        if bits is None:
            taught += 1
            number = len(asked) + len(checked) if staff is None else taught
            bits = int(keys.key_of(answers, np.uint64(number)))
            if not answer:
                denied.append((row, k, bits))
        account[own, u], lessons[u] = 0.0, 0.0
        if said[own, u] != doubt.UNASKED:  # the first answer alone is evidence about others
            return
        if rates is not None:
            rates.fold(u, allowed=answer, safe=bool(table.sure[kind[row], u]))
        if remember and (identity or not answer):
            said[own, u] = doubt.SAID_YES if answer else doubt.SAID_NO
        table.update(believed.learn(tables.contexts[row], k, answer, bits))

    def judge(step: int, row: int, k: int, answer: bool) -> None:
        nonlocal believed, rates, table
        broken = said[item[row], unit[k]] == doubt.SAID_YES and not answer
        if purse is not None:
            purse.answer(step + 1, answer)
        if purse is None or not broken:
            learn(row, k, answer)
            return
        anew.append(step)
        said[said == doubt.SAID_YES] = doubt.UNASKED
        believed = beliefs.copy()
        rates = None if rates is None else _rates(believed, wrong)
        coins.unjudged[:] = 0
        table = _Table(believed, kinds, rates)
        account[:], lessons[:] = 0.0, 0.0
        if staff is not None:
            staff.forget()
        for place, arm, bits in denied:
            said[item[place], unit[arm]] = doubt.UNASKED
            learn(place, arm, False, bits)
        learn(row, k, answer)

    def prior_of(row: int, k: int) -> float:
        return min(max(float(table.p[kind[row], unit[k]]), LEAST_P), 1.0 - LEAST_P)

    def hear(who: int, row: int, k: int, word: bool) -> tuple[bool | None, tuple[Settled, ...]]:
        """Take the word of one of several teachers: what it settles of its case, and of others."""
        assert staff is not None
        own, u = int(item[row]), int(unit[k])
        staff.cases[own, u] = row, k
        verdict = staff.known.judge(str(who), own, u, word, prior_of(row, k))
        staff.learned.append([rate.mean for rate in staff.known.rates().values()])
        others = staff.known.review(lambda case, v: prior_of(*staff.cases[case, v]), REVIEWED)  # type: ignore[index]
        return verdict.allowed, others

    def answer_hung(place: tuple[int, int], label: bool) -> bool:
        """Judge the checks that waited for a case to be settled; return whether there were any."""
        assert staff is not None
        hung = staff.hung.pop(place, [])
        for held in hung:
            judge(*held, label)
        return bool(hung)

    def learn_others(others: tuple[Settled, ...]) -> None:
        assert staff is not None
        for one in others:
            place = (int(one.case), int(one.unit))
            if place not in staff.cases:  # all was begun anew, and what was said is forgotten
                return
            if not answer_hung(place, one.allowed):
                learn(*staff.cases[place], one.allowed)

    def consult(step: int, row: int, k: int, truth: bool) -> bool | None:
        """Ask several teachers until a question is settled, or nobody is worth asking."""
        assert staff is not None
        own, u = int(item[row]), int(unit[k])
        if not identity or staff.known.settled(own, u) is not None:
            staff.drop(own, u)
        while True:
            choice = staff.known.choose(prior_of(row, k), price, case=own, unit=u)
            if choice is None:
                return None
            who = int(choice.teacher)
            word = staff.word(who, own, u, truth)
            asked.append((step, row, k, word))
            staff.words[who, 0] += 1
            label, others = hear(who, row, k, word)
            if label is not None:
                if remember:
                    here[u] = doubt.SAID_YES if label else doubt.SAID_NO
                learn(row, k, label)
                answer_hung((own, u), label)
            learn_others(others)
            if label is not None:
                return label

    def audit(step: int, row: int, k: int, truth: bool) -> None:
        """Have a check judged, by several teachers if need be; what is not settled waits.

        Of one teacher it is their word, not the truth.
        """
        if staff is None:
            judge(step, row, k, truth)
            return
        own, u = int(item[row]), int(unit[k])
        if staff.known.settled(own, u) is not None:  # limits may have changed
            staff.drop(own, u)
        while (choice := staff.known.choose_judge(own, u)) is not None:
            who = int(choice.teacher)
            word = staff.word(who, own, u, truth)
            staff.words[who, 1] += 1
            label, others = hear(who, row, k, word)
            if label is not None:
                judge(step, row, k, label)
                answer_hung((own, u), label)
            learn_others(others)
            if label is not None:
                return
        staff.hung.setdefault((own, u), []).append((step, row, k))

    at, look = 0, 0
    while True:
        while due and due[0][0] <= at:
            audit(*due.popleft()[1:])
        until = min(T, due[0][0]) if due else T
        coins = coins._replace(
            zeal=np.zeros((0, 2)) if rates is None else rates.zeal,
            purse=np.zeros(0) if purse is None else purse.kernel_state,
        )
        step, k, why = questions.run(
            policy.weights, arms.kernel_state, arms.ridge, contexts, tables.rewards, kind, item,
            unit, table.safe, table.p, table.hope, table.information, said, here, account, lessons,
            price, shown, start, ask_start, numbers, centred, totals, empty, left, most, coins, at,
            until, look, played,
        )  # fmt: skip
        if why == questions.OVER:
            at, look = step, 0
            if step >= T:
                break
            continue
        row = int(shown[step])
        truth = bool(allowed[step >= turn][row, k])
        if why == questions.CHECKS:
            at, look = step + 1, 0
            found = not truth
            if staff is None and wrong > 0.0:
                bits = np.uint64(keys.key_of(of_checks, np.uint64(step + 1)))
                truth = truth != (float(keys.uniform(bits)) < wrong)
            checked.append((step, found, truth))
            if purse is not None:
                purse.pass_by(step - purse.steps)
                purse.step(coin=float(coins.drawn[0]), audit=step + 1)
            due.append((at + lag, step, row, k, truth))
            continue
        if staff is not None:
            look = look + 1 if step == at else 1
            at = step
            if consult(step, row, k, truth) is None:
                look = most
            else:
                left -= 1
            if tell is not None:
                tell(step, len(asked))
            continue
        bits = np.uint64(keys.key_of(answers, np.uint64(len(asked) + len(checked) + 1)))
        answer = truth != (wrong > 0.0 and float(keys.uniform(bits)) < wrong)
        asked.append((step, row, k, answer))
        left -= 1
        look = look + 1 if step == at else 1
        at = step
        if remember:
            here[unit[k]] = doubt.SAID_YES if answer else doubt.SAID_NO
        learn(row, k, answer)
        if tell is not None:
            tell(step, len(asked))
    marks_t = marks_at(checkpoints, T)
    out = np.zeros((4, len(marks_t)))
    told, seen = tables, shown
    if later is not None:  # rows of the second half are those of other limits
        told = Tables(
            np.concatenate([tables.contexts] * 2), np.concatenate([tables.rewards] * 2),
            np.concatenate(allowed),
        )  # fmt: skip
        seen = shown + len(tables) * (np.arange(T) >= turn)
    loop.tally(seen, played, told.rewards, told.allowed, told.best, told.best_allowed, marks_t, out)
    columns = np.array([entry[:3] for entry in asked], np.int64).reshape(-1, 3)
    return Asking(
        marks_t, out[0], out[1], out[2].astype(np.int64), out[3].astype(np.int64), shown, played,
        arms, columns[:, 0], columns[:, 1], columns[:, 2],
        np.array([entry[3] for entry in asked], np.bool_),
        np.searchsorted(columns[:, 0], marks_t), believed,
        np.array([step for step, _, _ in checked], np.int64),
        np.array([found for _, found, _ in checked], np.bool_),
        np.array([word for _, _, word in checked], np.bool_), int(coins.drawn[1]),
        np.array(anew, np.int64),
        np.zeros((0, 2), np.int64) if staff is None else staff.words,
        np.array([] if staff is None else [one.mean for one in staff.known.rates().values()]),
        np.array([] if staff is None else staff.heard, np.int64).reshape(-1, 2),
        np.zeros((0, 0)) if staff is None else np.array(staff.learned).reshape(-1, len(teachers)),
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


class _Staff:
    """Several teachers in a run: what they say, and what is known of them."""

    def __init__(self, errors: Sequence[float], known: Teachers, seed: int) -> None:
        self.known = known
        self.words = np.zeros((len(errors), 2), np.int64)
        self.heard: list[tuple[int, bool]] = []
        self.learned: list[list[float]] = []
        self.cases: dict[tuple[int, int], tuple[int, int]] = {}  # the row and the arm of each
        # Checks that wait for their case to be settled: step, row, arm.
        self.hung: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self._errors = errors
        # The stream of what has a name, which nothing has here.
        self._start = keys.stream(seed, keys.ANSWER_NAMED)

    def word(self, who: int, item: int, unit: int, truth: bool) -> bool:
        """Return what a teacher says, which is the same whenever they are asked."""
        key = keys.key_of(self._start, np.uint64(who))
        key = keys.key_of(np.uint64(key), np.uint64(item))
        bits = np.uint64(keys.bits_of(np.uint64(key), unit))
        errs = float(keys.uniform(bits)) < self._errors[who]
        self.heard.append((who, errs))
        return truth != errs

    def drop(self, item: int, unit: int) -> None:
        """Let what was said of a case go, as it is asked about anew."""
        if self.known.said(item, unit):
            self.known.forget(item, unit)

    def forget(self) -> None:
        """Let all cases go, as limits have changed; of teachers it stays what is known."""
        self.known.forget_all()
        self.cases.clear()


def _staff(teachers: object, seed: int, owner: str) -> _Staff | None:
    wanted = "a list of (error, price) or (error, price, told), errors in [0, 0.5]"
    if not isinstance(teachers, list | tuple):
        raise InvalidValue("teachers", owner, wanted, teachers)
    if not teachers:
        return None
    if not all(isinstance(one, list | tuple) and len(one) in (2, 3) for one in teachers):
        raise InvalidValue("teachers", owner, wanted, teachers)
    errors = [ERROR.check(one[0], "teachers", owner) for one in teachers]
    known = [
        Teacher(str(n), price=one[1], error=one[2] if len(one) > 2 else None)
        for n, one in enumerate(teachers)
    ]
    return _Staff(errors, Teachers(known, doubt=SETTLES), validate.SEED.check(seed, "seed", owner))


class _Table:
    """What is believed of every unit in every distinct context: arrays (kinds, U).

    `sure` is what the limits themselves call safe; the rest is less the exceptions to it.
    """

    def __init__(
        self, beliefs: Beliefs, kinds: Floats, rates: ExceptionRates | None = None
    ) -> None:
        self._beliefs, self._kinds, self._rates = beliefs, kinds, rates
        self._predictions = (
            beliefs.predictions(kinds) if isinstance(beliefs, MixtureLimits) else None
        )
        shape = beliefs.units, len(kinds)
        self._p, self._sd, self._information, self._hope = np.empty((4, *shape))
        self._safe, self._possible = np.empty((2, *shape), np.bool_)
        self.update(np.arange(beliefs.units))

    def update(self, units: Ints) -> None:
        """Look again at these units."""
        if len(units) > 1 or self._predictions is not None:  # all at once is far cheaper
            every = self._predictions
            look = self._beliefs.look_all(self._kinds) if every is None else every.look()
            self._take(slice(None), look)
        else:
            for u in units:
                self._take(int(u), self._beliefs.look(int(u), self._kinds))
        look = Look(self._p, self._safe, self._possible, self._information, self._sd)
        hope = self._hope
        if self._rates is not None:
            look = self._rates.lower(look)
            hope = np.minimum(hope, look.p)
        # As the kernel takes them, which reads a context at a time.
        self.sure: Bools = np.ascontiguousarray(self._safe.T)
        self.safe: Bools = np.ascontiguousarray(look.safe.T)
        self.p: Floats = np.ascontiguousarray(look.p.T)
        self.information: Floats = np.ascontiguousarray(look.information.T)
        self.hope: Floats = np.ascontiguousarray(hope.T)

    def _take(self, u: int | slice, look: Look) -> None:
        for name in ("p", "sd", "information", "safe", "possible"):
            getattr(self, f"_{name}")[u] = getattr(look, name)
        self._hope[u] = hope_of(self._beliefs, look)


def _rates(beliefs: Beliefs, error: float) -> ExceptionRates:
    return ExceptionRates(beliefs.units, doubt=doubt_of(beliefs), error=max(error, LEAST_ERROR))


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

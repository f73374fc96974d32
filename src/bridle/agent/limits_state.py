"""The limits of one agent, the examples behind them, and the questions that are open.

`LimitsState` holds the limits and all that answers have taught; `Questions` what the agent has
asked, and the decisions that wait for it. Both are part of the fold.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from bridle.agent.config import Arm, ArmId, ItemId, Settings, plain_id
from bridle.agent.drift import SurpriseTest
from bridle.errors import InvalidValue, NotPossible, UnknownId
from bridle.kernels import doubt, keys
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import Beliefs, Prediction, Term
from bridle.limits.declared import CompiledRule
from bridle.limits.exceptions import ExceptionRates
from bridle.limits.kinds import KINDS, make_limits
from bridle.limits.pairs import PAIR_KINDS, PairLimits
from bridle.schema import Schema

if TYPE_CHECKING:
    from bridle.agent.joint import Candidates

__all__ = [
    "Case",
    "Example",
    "LimitsState",
    "Open",
    "Questions",
    "Seen",
    "StandingExample",
    "Waiting",
    "hashed",
]


# What answers are certain of: an item by its name, or an encoded context that has none.
Case: TypeAlias = ArmId | bytes


class Open(NamedTuple):
    """A question that waits for its answer."""

    context: bytes  # d float64, as encoded
    arm: int  # the arm's number
    decision: ItemId | None  # that it came up in
    since: int  # decisions made when it was asked
    item: ArmId | None = None

    @property
    def case(self) -> Case:
        """What an answer is certain of: the item or, if it has no name, this very context."""
        return self.context if self.item is None else self.item


class Waiting(NamedTuple):
    """A decision that asked and has not been made yet."""

    context: bytes
    among: tuple[ArmId, ...] | None
    looks: int = 0  # answers that came so far, or did not
    question: ItemId | None = None  # that it waits for; None: it can go on
    settled: int = -1  # the arm that an answer has allowed
    asks: bool = True  # whether it may ask again
    propensity: float | None = None  # of the last question
    item: ArmId | None = None
    allowed: tuple[int, ...] = ()  # arms that answers have allowed in this very decision
    visitors: tuple[Arm, ...] | None = None  # those of `among` that its request brought along

    @property
    def case(self) -> Case:
        """What it is about: the item or, if it has no name, this very context."""
        return self.context if self.item is None else self.item


class Questions:
    """Open questions, oldest first, and waiting decisions; both bounded, both part of the fold.

    The budget is of questions that came up in decisions: those answered, and those still open. One
    that lapses gives its place back.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.asked = 0  # so far: the next question's own number is one more
        self.answered = 0  # of those that came up in decisions
        self.lapsed = 0
        self.open: dict[ItemId, Open] = {}
        self.waiting: dict[ItemId, Waiting] = {}
        self._doubts: dict[ItemId, None] = {}  # those of `open` that came up in decisions
        self._here: dict[Case, dict[ItemId, None]] = {}  # the same by case

    @property
    def left(self) -> int:
        """How many questions decisions may still ask."""
        return max(self._settings.budget - self.answered - len(self._doubts), 0)

    def check(self, id: ItemId) -> None:
        """Raise `InvalidValue` if a question of this id is open already."""
        if id in self.open:
            raise InvalidValue("id", "Agent.ask", "new; a question of this id is open", id)

    def get(self, question: ItemId) -> Open:
        """Return a question that waits for its answer."""
        try:
            return self.open[plain_id(question)]
        except KeyError:
            raise UnknownId(
                "open question",
                question,
                "It was never asked, or is answered, lapsed or dropped already. "
                "What is known all the same can be taught: agent.teach(context, arm, allowed).",
            ) from None

    def ready(self, decision: ItemId) -> Waiting:
        """Return a waiting decision that can go on."""
        try:
            waits = self.waiting[plain_id(decision)]
        except KeyError:
            raise UnknownId(
                "waiting decision", decision, "It was never made, or is made or dropped already."
            ) from None
        if waits.question is not None:
            raise NotPossible(
                f"The decision {decision!r} waits for the answer to question {waits.question!r}. "
                "Answer it, or skip it."
            )
        return waits

    def asked_about(self, case: Case) -> list[int]:
        """Return the arms of the open questions that decisions have asked in this case."""
        return [self.open[id].arm for id in self._here.get(case, ())]

    # -- the fold ----------------------------------------------------------------------------

    def ask(
        self,
        id: ItemId,
        question: Open,
        among: tuple[ArmId, ...] | None,
        propensity: float | None,
        visitors: tuple[Arm, ...] | None = None,
    ) -> None:
        """Fold a question; with `on_doubt="wait"` the decision that it came up in waits for it."""
        self.restore(id, question)
        self.asked += 1
        decision = question.decision
        if decision is not None and self._settings.on_doubt == "wait":
            first = Waiting(question.context, among, item=question.item, visitors=visitors)
            waits = self.waiting.get(decision, first)
            self.waiting[decision] = waits._replace(question=id, settled=-1, propensity=propensity)
        while len(self.open) > self._settings.max_pending:
            self.drop(next(iter(self.open)))
        while len(self.waiting) > self._settings.max_pending:
            oldest = next(iter(self.waiting))
            held = self.waiting[oldest].question
            if held is None:
                del self.waiting[oldest]
            else:
                self.drop(held)

    def restore(self, id: ItemId, question: Open) -> None:
        """Add a question to the open ones, and do nothing else."""
        self.open[id] = question
        if question.decision is not None:
            self._doubts[id] = None
            self._here.setdefault(question.case, {})[id] = None

    def answer(self, id: ItemId, allowed: bool) -> None:
        """Fold the answer to an open question."""
        question = self._close(id)
        if question.decision is None:
            return
        self.answered += 1
        waits = self.waiting.get(question.decision)
        if waits is not None:
            sure = allowed and self._settings.remembers
            settled = question.arm if sure and self._settings.legacy else -1
            here = (*waits.allowed, question.arm) if sure and not self._settings.legacy else ()
            self.waiting[question.decision] = waits._replace(
                question=None, looks=waits.looks + 1, settled=settled, allowed=here or waits.allowed
            )

    def disallow(self, case: Case, arm: int) -> None:
        """Withdraw that an answer has allowed an arm, in the decisions that wait in this case."""
        for decision, waits in self.waiting.items():
            if arm in waits.allowed and waits.case == case:
                left = tuple(k for k in waits.allowed if k != arm)
                self.waiting[decision] = waits._replace(allowed=left)

    def lapse(self, id: ItemId) -> None:
        """Close a question that nobody will answer; what waits for it goes on and asks no more."""
        question = self._close(id)
        self.lapsed += 1
        waits = None if question.decision is None else self.waiting.get(question.decision)
        if waits is not None and question.decision is not None:
            # It draws anew: given that it asked, the draws that it asked with are not any draws.
            self.waiting[question.decision] = waits._replace(
                question=None, looks=waits.looks + 1, asks=False
            )

    def drop(self, id: ItemId) -> None:
        """Close a question, and forget the decision that waits for it."""
        question = self._close(id)
        self.lapsed += 1
        if question.decision is not None:
            self.waiting.pop(question.decision, None)

    def age(self, decisions: int) -> None:
        """Drop the questions of decisions that lie too far back; `decisions` were made so far."""
        patience = self._settings.patience
        while patience is not None and self._doubts:
            oldest = next(iter(self._doubts))
            if self.open[oldest].since + patience >= decisions:
                break
            self.drop(oldest)

    def _close(self, id: ItemId) -> Open:
        question = self.open.pop(id)
        if question.decision is not None:
            del self._doubts[id]
            here = self._here[question.case]
            del here[id]
            if not here:
                del self._here[question.case]
        return question


# --- What an agent believes of its limits: the limits themselves, and the answers behind them
#
# Limits are made of the settings, the arms' groups and the known rules, and are a fold of the
# answers that stand, each with a key of its own. So they can be made anew at any time, with the
# same bits.


# What was seen in so many contexts is kept: numbers, of all arms together.
MAX_SEEN = 4_000_000
# Probability, at most, that a fresh start is ever proposed though answers come as foretold.
DRIFT = 0.001


class Example(NamedTuple):
    """An answer of the teacher that stands."""

    id: ItemId
    context: bytes  # d float64, as encoded
    arm: int  # the arm's number
    allowed: bool
    by: str | None
    note: str | None
    item: ArmId | None = None
    scope: str = "all"  # "item": it says nothing of other items
    until: float | None = None  # when it ends

    @property
    def case(self) -> Case:
        """What it is certain of: the item or, if it has no name, this very context."""
        return self.context if self.item is None else self.item


class StandingExample(Example):
    """An answer that stands, as it is shown: its context in words, and the id of its arm."""

    schema: Schema | None = None
    arm_id: ArmId | None = None

    @classmethod
    def of(cls, example: Example, schema: Schema, arm_id: ArmId) -> StandingExample:
        """Return an answer with what reads its context."""
        made = cls(*example)
        made.schema, made.arm_id = schema, arm_id
        return made

    @property
    def features(self) -> dict[str, object]:
        """The context that it is about, by feature: `context` has its bytes, as encoded."""
        return {} if self.schema is None else self.schema.decode(np.frombuffer(self.context))

    def __repr__(self) -> str:
        said = "allowed" if self.allowed else "denied"
        about = "" if self.item is None else f", item {self.item!r}"
        return f"<Example {self.id!r}: {self.arm_id!r} {said} in {self.features}{about}>"


class Seen(NamedTuple):
    """What is believed of every arm in one context: arrays of K."""

    p: Floats  # probability of "allowed"
    sd: Floats  # its standard deviation
    marks: npt.NDArray[np.int8]  # SAFE, UNSURE or DENIED, as in kernels.doubt
    information: Floats  # what an answer would teach
    hope: Floats  # probability of "allowed" by which a question is judged


class LimitsState:
    """The limits of one agent.

    Parameters
    ----------
    settings : Settings
        What the agent was created with.
    kind : str
        The kind of limits; another than the settings' after arms were put into groups.
    arms : list of Arm
        All arms, with the groups that they have now.
    rules : list of CompiledRule
        What is known for certain. A rule that denies a single feature, or two together, to all
        arms of a unit is a certain term of that unit's own rule: it explains denials.
    rows : array (K, p), optional
        The features of arms, where they have some.

    Attributes
    ----------
    unit_of : array (K,)
        What an answer about an arm is certain of: its group's arms, or the arm alone.
    account_of : array (K,)
        By what the cost of not asking is summed up: the unit, or the kind of arm where arms have
        features.
    """

    def __init__(
        self,
        settings: Settings,
        kind: str,
        arms: Sequence[Arm],
        rules: Sequence[CompiledRule] = (),
        rows: Floats | None = None,
    ) -> None:
        self.kind = kind
        self._of_others = kind not in KINDS
        self._settings = settings
        self._numbered = keys.stream(settings.seed, keys.ANSWER)
        self._named = keys.stream(settings.seed, keys.ANSWER_NAMED)
        self._seen: dict[bytes, Seen] = {}
        # Whether an answer settles its own item and unit; not in logs of the first form.
        self._settled = settings.remembers and not settings.legacy
        self.limits: Beliefs = self._make(arms, rows)
        self._known: dict[int, dict[Term, bool]] = {}
        # How often what the limits call safe is denied all the same.
        self.rates: ExceptionRates | None = None
        # The examples that were the first judgement of their pair; whether the limits called it
        # safe then.
        self.first: dict[ItemId, bool] = {}
        if settings.checks != 0 and settings.teacher_error is not None:
            units = 1 if isinstance(self.limits, PairLimits) else self.limits.units
            self.rates = ExceptionRates(units, **self._bar())
        # Whether answers come as foretold. Not of a teacher whose errors are still being found out.
        self.drift: SurpriseTest | None = None
        if settings.lives and self.limits.calibrated and settings.teacher_error is not None:
            self.drift = SurpriseTest(DRIFT)
        self.take(self.limits, ())
        self.set_rules(rules)

    def _make(self, arms: Sequence[Arm], rows: Floats | None) -> Beliefs:
        """Return limits that were taught nothing yet."""
        settings, kind = self._settings, self.kind
        crosses = settings.crosses and kind in ("rules", "logistic")
        if settings.arm_features is not None and rows is not None and kind in PAIR_KINDS:
            return PairLimits(
                kind=kind,
                context=settings.features,
                arm=settings.arm_features,
                rows=rows,
                groups=self._groups(arms),
                error=settings.teacher_error,
                doubt=settings.doubt,
                crosses=crosses,
                seed=settings.seed,
            )
        return make_limits(
            kind,
            schema=settings.features,
            groups=self._groups(arms),
            error=settings.teacher_error,
            doubt=settings.doubt,
            crosses=crosses,
            seed=settings.seed,
            ridge=settings.ridge_limits,
            label_coding=settings.label_coding,
            legacy=settings.legacy,
            version=settings.limits_version if kind == settings.limits else "",
            options=settings.limits_options if kind == settings.limits else None,
        )

    @property
    def pairs(self) -> PairLimits | None:
        """The limits, if they are over pairs of a context and an arm; else None."""
        return self.limits if isinstance(self.limits, PairLimits) else None

    def rate_unit(self, arm: int) -> int:
        """Return to whose rate of exceptions an arm belongs."""
        return 0 if isinstance(self.limits, PairLimits) else int(self.unit_of[arm])

    def _bar(self) -> dict[str, float]:
        return {"doubt": self.limits.doubt, "error": self._settings.teacher_error or 0.0}

    def take_rates(self, state: Mapping[str, npt.NDArray[np.int64]]) -> None:
        """Restore rates that were saved."""
        self.rates = ExceptionRates.from_state(state, **self._bar())

    def take(self, limits: Beliefs, examples: Iterable[Example]) -> None:
        """Replace the limits by others that were taught these examples."""
        self.limits = limits
        self._number_units()
        self._of: defaultdict[int, dict[ItemId, Example]] = defaultdict(dict)
        self._judged: defaultdict[int, Counter[ArmId]] = defaultdict(Counter)
        for example in examples:
            self._keep(example)
        self._seen.clear()

    def _number_units(self) -> None:
        self.unit_of: Ints = self.limits.unit_of
        self.account_of: Ints = self.unit_of if self.pairs is None else self.pairs.kind_of

    @property
    def accounts(self) -> int:
        """How many accounts there can be of one case."""
        return self.limits.units if self.pairs is None else self.pairs.kinds

    def learn(self, example: Example) -> None:
        """Fold one answer; of one item and unit the first alone is evidence about others.

        What is said again of the same thing, or against what was said, is about that thing.
        """
        if example.scope == "all" and not (self._settled and self._judged_before(example)):
            row = np.frombuffer(example.context) + 0.0  # kernels take arrays that can be written
            before = self.limits.update(row, example.arm, example.allowed, self.key(example.id))
            unit, safe, p = self.rate_unit(example.arm), bool(before.safe[0]), float(before.p[0])
            if self.rates is not None:
                if safe:
                    p = min(p, 1.0 - float(self.rates.rates[unit]))
                self.rates.fold(unit, allowed=example.allowed, safe=safe)
                self.first[example.id] = safe
            if self.drift is not None:
                least = self._settings.teacher_error or 0.0
                self.drift.update(example.allowed, min(max(p, least), 1.0 - least))
        self._keep(example)
        self._seen.clear()

    def learn_all(self, examples: Iterable[Example]) -> None:
        """Fold answers, in order."""
        for example in examples:
            self.learn(example)

    def forget(self, example: Example, standing: Iterable[Example]) -> None:
        """Remove an answer and refit; `standing` are all that remain, in order."""
        unit = int(self.unit_of[example.arm])
        safe = self.first.pop(example.id, None)
        if self.rates is not None and safe is not None:
            self.rates.forget(self.rate_unit(example.arm), allowed=example.allowed, safe=safe)
        del self._of[unit][example.id]
        if example.item is not None:
            self._judged[unit][example.item] -= 1
            if not self._judged[unit][example.item]:
                del self._judged[unit][example.item]
        self._refit([unit], standing)

    def set_rules(self, rules: Sequence[CompiledRule], standing: Iterable[Example] = ()) -> None:
        """Update what is known for certain; refit the units where that has changed."""
        if not self.limits.term_size:
            return
        known = self._terms(rules)
        units = sorted({*known, *self._known})
        changed = [u for u in units if known.get(u) != self._known.get(u)]
        for unit in changed:
            self.limits.set_known(unit, known.get(unit, {}))
        self._known = known
        self._refit(changed, standing)

    def grow(self, arms: Sequence[Arm], rows: Floats | None = None) -> None:
        """Add arms, after the others; one in a known group starts with what the group knows.

        rows: (n, p), their features, where they have some.
        """
        if self.pairs is not None:
            self.pairs.grow(len(arms), self._groups(arms), rows)
        else:
            self.limits.grow(len(arms), self._groups(arms))
            if self.rates is not None:
                self.rates.grow(self.limits.units)
        self._number_units()
        self._seen.clear()

    def change_arms(self, arms: Sequence[int], rows: Floats, groups: Sequence[str | None]) -> None:
        """Take other features of some arms; what was taught of them counts with the old ones."""
        if self.pairs is not None:
            for k, group in zip(arms, groups, strict=True):
                self.pairs.change(k, rows[k], group if self._settings.share == "group" else None)
        self._number_units()
        self._seen.clear()

    def check(self, units: Iterable[int]) -> None:
        """Raise `LimitReached` if limits have no room for an answer about each of these units."""
        room = self.limits.room
        if room is None:
            return
        for unit, more in Counter(units).items():
            if len(self._of[unit]) + more > room:  # some may be about the same context
                self.limits.check_room(unit, more)

    def check_grow(self, arms: int) -> None:
        """Raise `LimitReached` if limits cannot take so many arms more."""
        self.limits.check_grow(arms)

    def count_play(self, arm: int) -> None:
        """Count a play that had a coin, of what nobody had judged."""
        if self.rates is not None:
            self.rates.unjudged[self.rate_unit(arm)] += 1

    def seen(self, context: bytes) -> Seen:
        """Return what is believed of every arm in an encoded context. Not a copy."""
        found = self._seen.get(context)
        if found is None:
            found = self._predict(np.frombuffer(context)[None])
            if (len(self._seen) + 1) * 5 * len(self.unit_of) > MAX_SEEN:
                self._seen.clear()
            self._seen[context] = found
        return found

    def look(self, row: Floats, those: Candidates, places: Ints) -> Seen:
        """Return what is believed of some candidates in a context: arrays of as many.

        Of pairs no more is worked out than is asked for.
        """
        pairs, stored = self.pairs, those.stored
        numbers = places if those.numbers is None else those.numbers[places]
        if pairs is None:
            seen = self.seen(row.tobytes())
            return Seen(
                seen.p[numbers],
                seen.sd[numbers],
                seen.marks[numbers],
                seen.information[numbers],
                seen.hope[numbers],
            )
        new = places >= stored
        found = pairs.predict_pairs(row, numbers[~new])
        if new.any():
            which = places[new] - stored
            groups = self._groups([those.visitors[i] for i in which.tolist()])
            met = pairs.predict_rows(row[None], those.rows[which], groups)
            found = _woven(found, met, new)
        return self._seen_of(found)

    def kinds(self, those: Candidates, places: Ints) -> Ints:
        """Return by which accounts the cost of not asking about candidates is summed up.

        Those that nobody stored have none yet: each is one of its own, past all others.
        """
        numbers = places if those.numbers is None else those.numbers[places]
        K = len(self.account_of)
        return np.where(
            numbers < K, self.account_of[np.minimum(numbers, K - 1)], self.accounts + numbers
        )

    def dearer(self, row: Floats, accounts: Ints) -> Floats:
        """Return by how much an answer is dearer in some accounts, where arms share one."""
        out: Floats = np.ones(len(accounts))
        if self.pairs is not None:
            known = accounts < self.accounts
            out[known] = self.pairs.dearer(row, accounts[known])
        return out

    def _seen_of(self, prediction: Prediction) -> Seen:
        """Return what pairs are believed to be, less the exceptions to what is called safe."""
        p, safe, information = prediction.p, prediction.safe, prediction.information
        hope = self.limits.hope(prediction)
        if self.rates is not None:
            p = np.where(safe, np.minimum(p, 1.0 - self.rates.rates[0]), p)
            information = np.where(safe, 0.0, information)
            safe = safe & self.rates.holds(0)
            hope = np.minimum(hope, p)
        doubtful = np.where(prediction.possible, doubt.UNSURE, doubt.DENIED)
        marks = np.where(safe, doubt.SAFE, doubtful).astype(np.int8)
        return Seen(p, prediction.sd, marks, information, hope)

    def novelty(self, row: Floats) -> Floats:
        """Return how much of a context was never taught of each arm: (K,), 1: all, near 0: nothing.

        It is the leverage xᵀ(I + Σxxᵀ)⁻¹x over the unit's examples, with x = [context, 1], as a
        share of xᵀx: what it would be with no example. A word that was never seen adds all of its
        weight, a number far outside of what was taught most of it.
        """
        if self.pairs is not None:
            return self.pairs.novelty(row)
        x = np.append(row, 1.0)
        out: Floats = np.ones(self.limits.units)
        for unit, mine in self._of.items():
            if mine:
                C = np.frombuffer(b"".join(e.context for e in mine.values())).reshape(len(mine), -1)
                X = np.hstack([C, np.ones((len(mine), 1))])
                out[unit] = x @ np.linalg.solve(np.eye(len(x)) + X.T @ X, x) / (x @ x)
        return out[self.unit_of]

    def unseen(self, row: Floats) -> list[list[int]]:
        """Return, for each unit, the columns in which a context leaves what was taught of it.

        Flags and words that it holds and no example did; numbers outside of the examples' range.
        Of a unit that was taught nothing, all that the context holds.
        """
        schema = self._settings.features
        number = np.zeros(len(row), np.bool_)
        number[[at for _, at in schema.numbers]] = True
        if self.pairs is not None:  # what was taught of one arm says something of all
            every = {id: one for mine in self._of.values() for id, one in mine.items()}
            return [self._unseen(row, number, every)] * self.limits.units
        return [self._unseen(row, number, self._of.get(u)) for u in range(self.limits.units)]

    def _unseen(
        self, row: Floats, number: Bools, mine: Mapping[ItemId, Example] | None
    ) -> list[int]:
        new = row != 0.0
        if mine:
            C = np.frombuffer(b"".join(e.context for e in mine.values())).reshape(len(mine), -1)
            low, high = C.min(axis=0), C.max(axis=0)
            new = np.where(number, (row < low) | (row > high), (row != 0.0) & (high == 0.0))
        return np.flatnonzero(new).tolist()

    def examples_of(self, unit: int) -> list[Example]:
        """Return the examples of a unit that stand, in order."""
        return list(self._of.get(unit, {}).values())

    def evidence(self, examples: Iterable[Example]) -> list[Example]:
        """Return those of some examples, in order, that the limits learn from: see `learn`."""
        examples = [example for example in examples if example.scope == "all"]
        if not self._settled:
            return examples
        met: set[tuple[int, ArmId]] = set()
        out = []
        for example in examples:
            if example.item is None:
                out.append(example)
            elif (place := (int(self.unit_of[example.arm]), example.item)) not in met:
                met.add(place)
                out.append(example)
        return out

    def _judged_before(self, example: Example) -> bool:
        unit = int(self.unit_of[example.arm])
        return example.item is not None and self._judged[unit][example.item] > 0

    def _keep(self, example: Example) -> None:
        unit = int(self.unit_of[example.arm])
        self._of[unit][example.id] = example
        if example.item is not None:
            self._judged[unit][example.item] += 1

    def taught(self, unit: int) -> bool:
        """Whether any answer, or rule, says something of this very unit."""
        return bool(self._of.get(unit)) or unit in self._known

    def found(self, examples: Sequence[Example]) -> Beliefs:
        """Return limits that found groups among all arms, from these answers."""
        if self.limits.finds_groups:
            return self.limits
        made = make_limits(
            "found",
            schema=self._settings.features,
            groups=[None] * len(self.unit_of),
            error=self._settings.teacher_error,
            seed=self._settings.seed,
        )
        made.refit_all(self._answers(examples))
        return made

    def _predict(self, rows: Floats) -> Seen:
        if self.pairs is not None:
            every = np.arange(self.pairs.arms)
            return self._seen_of(self.pairs.predict_pairs(rows[0], every))
        prediction = self.limits.predict_all(rows)
        if self._of_others:
            prediction = Prediction.checked(prediction, self.limits.units, len(rows), self.kind)
        hope = self.limits.hope(prediction)
        if self.rates is not None:
            prediction = self.rates.lower(prediction)
            hope = np.minimum(hope, prediction.p)
        marks = np.where(
            prediction.safe, doubt.SAFE, np.where(prediction.possible, doubt.UNSURE, doubt.DENIED)
        )
        if self.limits.asks_consent and self.limits.holds_nothing(rows)[0]:
            marks[(marks[:, 0] == doubt.SAFE) & ~self._ever_allowed()] = doubt.UNSURE
        each = (prediction.p, prediction.sd, marks.astype(np.int8), prediction.information, hope)
        return Seen(*(np.ascontiguousarray(part[self.unit_of, 0]) for part in each))

    def _ever_allowed(self) -> Bools:
        """Return for each unit whether an answer "allowed" stands."""
        out: Bools = np.zeros(self.limits.units, np.bool_)
        for unit, mine in self._of.items():
            out[unit] = any(example.allowed for example in mine.values())
        return out

    def _refit(self, units: Iterable[int], standing: Iterable[Example]) -> None:
        if self.limits.finds_groups:  # any answer moves all that is believed
            self.limits.refit_all(self._answers(standing))
        else:
            for unit in units:
                mine = self.evidence(self._of[unit].values())
                rows = np.frombuffer(b"".join(e.context for e in mine))
                self.limits.refit(
                    unit,
                    rows.reshape(len(mine), self.limits.features),
                    np.array([e.allowed for e in mine], np.bool_),
                    np.array([self.key(e.id) for e in mine], np.uint64),
                )
        self._seen.clear()

    def _answers(self, examples: Iterable[Example]) -> list[tuple[Floats, int, bool, int]]:
        return [
            (np.frombuffer(e.context), e.arm, e.allowed, self.key(e.id))
            for e in self.evidence(examples)
        ]

    def _groups(self, arms: Sequence[Arm]) -> list[str | None]:
        shared = self._settings.share == "group"
        return [arm.group if shared else None for arm in arms]

    def key(self, id: ItemId) -> int:
        """Return the key of the draws of an answer."""
        if isinstance(id, int):
            return int(keys.key_of(self._numbered, np.uint64(id)))
        return int(keys.key_of(self._named, np.uint64(hashed(id))))

    def _terms(self, rules: Sequence[CompiledRule]) -> dict[int, dict[Term, bool]]:
        """By unit, the terms that known rules deny to all its arms."""
        amounts = {at for _, at in self._settings.features.numbers}
        known: dict[int, dict[Term, bool]] = {}
        for rule in rules:
            columns = sorted({column for column, _, _ in rule.conditions})
            held = all(
                (low, high) == (0.5, math.inf) and column not in amounts
                for column, low, high in rule.conditions
            )
            if not held or not 1 <= len(columns) <= self.limits.term_size:
                continue
            term: Term = (columns[0], columns[1]) if len(columns) == 2 else columns[0]
            for unit in self._wholly(rule.arms):
                known.setdefault(unit, {})[term] = True
        return known

    def _wholly(self, arms: Bools) -> list[int]:
        """Return the units all of whose arms are among these."""
        outside = set(self.unit_of[~arms].tolist())
        return [u for u in dict.fromkeys(self.unit_of[arms].tolist()) if u not in outside]


def _woven(stored: Prediction, new: Prediction, which: Bools) -> Prediction:
    """Return two predictions as one, that of `new` in the places `which`."""
    parts = []
    for name in ("p", "safe", "possible", "information", "sd"):
        one, other = getattr(stored, name), getattr(new, name)[:, 0]
        both = np.empty(len(which), other.dtype)
        both[~which], both[which] = one, other
        parts.append(both)
    return Prediction(*parts)


def hashed(id: str) -> int:
    """Return the 64 bits that stand for a name among the keys."""
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest(), "little")

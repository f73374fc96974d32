"""Several teachers who err at different rates: whose word counts how much, and whom to ask.

A fold of judgements: who said what of which case. Error rates are learned where teachers judged the
same case, from questions that were asked again, and weakly from what the limits expected. From them
follow the probability that a case is allowed given all that was said of it, whether that settles
it, and whose answer is worth its price.

What is settled is evidence for the limits, as one example. What is not shifts the probability of
its own case and nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import (
    BridleError,
    CorruptState,
    Duplicate,
    InvalidValue,
    LimitReached,
    UnknownId,
)
from bridle.kernels.teachers import FAULTS, MOST_EXACT, RATES, Answer, Joint, Messages, mean_of

__all__ = [
    "REVIEWED",
    "SETTLES",
    "Choice",
    "Rate",
    "Settled",
    "Teacher",
    "Teachers",
    "Verdict",
    "information",
]

Key: TypeAlias = int | str

PRICE = validation.FloatRange(0.0, 1e6)
# Who errs in half of all answers says nothing; who errs in more should be asked the other way.
ERROR = validation.FloatRange(0.0, 0.5)
DOUBT = validation.FloatRange(0.0, 0.5, open_low=True, open_high=True)
TRUST = validation.FloatRange(0.0, 0.1)
COST = validation.FloatRange(0.0)
NUMBER = validation.IntRange(-(2**63), 2**63 - 1)

# The doubt at which an agent takes a case for settled: what is settled is certain from then on.
SETTLES = 0.004
# Open cases that an agent looks at again with each judgement, in turn.
REVIEWED = 200
MAX_TEACHERS = 64
MAX_CASES = 1_000_000
# The limits are never so sure of a case that nobody could tell them otherwise.
LEAST_P = 0.02
# Nobody is without error: what is told as less counts as this.
LEAST_ERROR = RATES[0]
# A trusted word that another contradicts must be at least so likely.
CONTRADICTED = 0.9
# Where all who judged agree, two or more, they are trusted like one; and as long as it is not known
# how often they err, this is enough: else nothing would be settled at first, the limits would learn
# nothing, and who of two is the worse is known only by what the limits expect.
AGREED = 0.95
# How likely a teacher hardly ever errs, before anything is known: nobody pays more for a worse
# one. Two who disagree are told apart by what the limits expect and by this.
CAREFUL, CAREFUL_DEAR, CAREFUL_CHEAP = 0.3, 0.6, 0.1
DEAR = 2.0
# A rate is known once its 99 % interval is about so far to either side; and after so many cases
# that others judged too no more are asked for its sake. (With 90 %, 56 cases were enough for
# "10 %", and it was 20.)
WITHIN = 0.05
MOST_SHARED = 300
# Who is trusted is not compared with others any more, so it takes more than a mean: at most this
# probability that they err more often, or as many cases as are asked for. (By the mean alone 19
# cases without a disagreement were enough, which one who errs in 5 % has in 4 of 10 runs.)
UNSURE = 0.01
NORMAL_99 = 2.576
# How often who is asked again just repeats what they said: learned, as people may and models do.
COPIES = (0.0, 0.5, 0.9, 0.999)
# What is thought through before a question: so many answers ahead, among so many teachers.
AHEAD = 3
MOST_CANDIDATES = 5


@dataclass(frozen=True)
class Teacher:
    """Someone, or something, that judges.

    Parameters
    ----------
    name : str
    price : float, default 0.35
        What an answer of theirs costs, in rewards.
    error : float, optional
        How often they err, if that is known; in [0, 0.5]. By default it is learned.

    Examples
    --------
    >>> Teacher("model", price=0.01).to_json()
    {'name': 'model', 'price': 0.01, 'error': None}
    """

    name: str
    price: float = 0.35
    error: float | None = None

    def __post_init__(self) -> None:
        validation.text(self.name, "name", "Teacher")
        object.__setattr__(self, "price", PRICE.check(self.price, "price", "Teacher"))
        if self.error is not None:
            object.__setattr__(self, "error", ERROR.check(self.error, "error", "Teacher"))

    def to_json(self) -> dict[str, float | str | None]:
        """Return it as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Return a teacher from what `to_json` gave, or raise `InvalidValue`."""
        if not isinstance(data, Mapping) or not {"name"} <= set(data) <= {"name", "price", "error"}:
            raise InvalidValue("data", "Teacher.from_json", "a dict of name, price and error", data)
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a teacher errs, as far as is known.

    Attributes
    ----------
    mean, low, high : float
        The mean of the posterior and a 90 % interval; all the same if the rate was told.
    answers : int
        Cases that they judged; a newer answer replaces an older one.
    shared : int
        Cases among them that others judged too.
    told : bool
        Whether the rate was told and is not learned.
    known : bool
        Whether it is told, or learned within about .05.
    trusted : bool
        Whether their word alone settles a case.
    """

    mean: float
    low: float
    high: float
    answers: int
    shared: int
    told: bool
    known: bool
    trusted: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What stands of a case: the probability that it is allowed, and whether that settles it."""

    p: float
    allowed: bool | None


@dataclass(frozen=True, slots=True)
class Settled:
    """A case that is settled now and was not before."""

    case: Key
    unit: Key
    allowed: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """Whom to ask, and why.

    Attributes
    ----------
    teacher : str
    cost : float
        What is expected to be spent until the case is settled or given up, in rewards.
    explores : bool
        Whether it is asked to learn how often a teacher errs.
    reason : str
        In words.
    """

    teacher: str
    cost: float
    explores: bool
    reason: str


class _Case:
    """What was said of one case: by place of the teacher, in the order of their first answers.

    A copy of `Teachers` shares it: it is changed by putting another in its place.
    """

    __slots__ = ("prior", "repeats", "said", "settled")

    def __init__(self, prior: float) -> None:
        self.prior = prior
        self.said: dict[int, bool] = {}
        # Questions asked again: how often the answer was the same, and how often it was not.
        self.repeats: dict[int, tuple[int, int]] = {}
        self.settled: bool | None = None

    def copy(self) -> _Case:
        other = _Case(self.prior)
        other.said, other.repeats = dict(self.said), dict(self.repeats)
        other.settled = self.settled
        return other


class Teachers:
    """What several teachers said, how often each errs, and whom to ask next.

    The posterior of the rates of up to three teachers who were not told is exact; of more it is an
    approximation, good where three or more judge the same cases. Of two who disagree, neither is
    known to be the worse but by what the limits expect, by who costs more, and by others. One
    teacher alone cannot be told apart from limits that are odd: the rate stays near its prior mean,
    moved a little by the limits' own expectation, and a teacher who is the only one and whose rate
    was not told is taken at their word, as if there were no `Teachers`.

    Parameters
    ----------
    teachers : list of Teacher
        The first ones; others may be added later.
    doubt : float, default 0.01
        A case is settled once it is allowed with a probability of at least 1 - doubt, or at most
        doubt.
    trust : float, default 0.02
        Who errs in no more than this share of answers settles a case alone, whatever the limits
        expected of it, unless another contradicts and the case is then less likely than .9. If the
        rate was learned, the mean must be so low, and a higher rate have a probability of 1 % or
        less, or 300 cases have been judged by others too. Where two or more agree and nobody
        contradicts, 1 - trust is enough; and .95 at first, until their rates are known.

    Examples
    --------
    >>> teachers = Teachers([Teacher("editor", error=0.001), Teacher("model", price=0.01)])
    >>> teachers.judge("model", "Up", "children", False, prior=0.6)
    Verdict(p=0.126..., allowed=None)
    >>> teachers.judge("editor", "Up", "children", True, prior=0.6)
    Verdict(p=0.993..., allowed=True)
    >>> print(teachers.sentence("model"))
    model errs in about 18 % of answers (3 to 40 %), not known well yet: 1 case of 1 judged by \
others too.
    """

    def __init__(
        self, teachers: Iterable[Teacher] = (), *, doubt: float = 0.01, trust: float = 0.02
    ) -> None:
        self.doubt = DOUBT.check(doubt, "doubt", "Teachers")
        self.trust = TRUST.check(trust, "trust", "Teachers")
        self._teachers: list[Teacher] = []
        self._places: dict[str, int] = {}
        # Place among the learned, by place; -1: told.
        self._learned: list[int] = []
        self._answers: list[int] = []
        self._shared: list[int] = []
        self._repeats: list[tuple[int, int]] = []
        self._cases: dict[tuple[Key, Key], _Case] = {}
        # The cases that `review` looks at: judged and not settled, as keys of a dict for its order.
        self._open: dict[tuple[Key, Key], None] = {}
        self._belief: Joint | Messages = Joint()
        self._rates: dict[str, Rate] | None = None
        self._add([self._teacher(one) for one in teachers])

    def __repr__(self) -> str:
        names = ", ".join(teacher.name for teacher in self._teachers)
        return f"Teachers({names}; cases={len(self._cases)}, open={len(self._open)})"

    def __len__(self) -> int:
        """Return the number of cases that are at hand."""
        return len(self._cases)

    def copy(self) -> Self:
        """Return teachers who know the same, and go ways of their own from here on."""
        other = object.__new__(type(self))
        other.doubt, other.trust = self.doubt, self.trust
        other._teachers, other._places = list(self._teachers), dict(self._places)
        other._learned, other._answers = list(self._learned), list(self._answers)
        other._shared, other._repeats = list(self._shared), list(self._repeats)
        other._cases, other._open = dict(self._cases), dict(self._open)
        other._belief, other._rates = self._belief.copy(), self._rates
        return other

    @property
    def teachers(self) -> tuple[Teacher, ...]:
        """All teachers, in the order in which they were added."""
        return tuple(self._teachers)

    def add(self, teacher: Teacher) -> None:
        """Add a teacher, or raise `Duplicate` if there is one of that name."""
        self._add([self._teacher(teacher)])

    def judge(self, teacher: str, case: Key, unit: Key, allowed: bool, prior: float) -> Verdict:
        """Fold one judgement, and return what stands of its case now.

        A newer answer of the same teacher about the same case replaces the older one, and both
        together say how steady they are.

        Parameters
        ----------
        teacher : str
        case, unit : int or str
            The item (or whatever names the case) and the arm or group that is judged.
        allowed : bool
        prior : float
            The limits' own probability that it is allowed, before anybody judged it. What came with
            the first judgement of a case stands for what it says of rates.
        """
        place = self._place(teacher, "judge")
        key = _key(case, unit, "judge")
        said = validation.truth(allowed, "allowed", "Teachers.judge")
        p = _prior(prior, "judge")
        found = self._cases.get(key)
        if found is None:
            if len(self._cases) == MAX_CASES:
                raise LimitReached("judged cases", MAX_CASES, "Forget those that are settled.")
            found = _Case(p)
        found = self._cases[key] = found.copy()
        if place in found.said:
            same = found.said[place] == said
            self._repeat(place, int(same), int(not same))
            one, other = found.repeats.get(place, (0, 0))
            found.repeats[place] = (one + same, other + (not same))
        else:
            self._answers[place] += 1
            self._share(found, place, 1)
        self._fold(key, found, {**found.said, place: said})
        verdict = self._verdict(found, p, self.doubt)
        found.settled = verdict.allowed
        if verdict.allowed is None:
            self._open[key] = None
        else:
            self._open.pop(key, None)
        return verdict

    def settle(self, case: Key, unit: Key, allowed: bool) -> None:
        """Take a case for settled, whoever settled it; nothing if nobody judged it."""
        key = _key(case, unit, "settle")
        label = validation.truth(allowed, "allowed", "Teachers.settle")
        if key in self._cases:
            found = self._cases[key] = self._cases[key].copy()
            found.settled = label
            self._open.pop(key, None)

    def settled(self, case: Key, unit: Key) -> bool | None:
        """Return as what a case was settled; None if it is open, or nobody judged it."""
        found = self._cases.get(_key(case, unit, "settled"))
        return None if found is None else found.settled

    def retract(self, teacher: str, case: Key, unit: Key) -> None:
        """Take back what a teacher said of a case, with all that it taught about rates."""
        place, key = self._place(teacher, "retract"), _key(case, unit, "retract")
        found = self._cases.get(key)
        if found is None or place not in found.said:
            raise UnknownId("judgement", [teacher, case, unit], "It was never made, or forgotten.")
        found = self._cases[key] = found.copy()
        same, other = found.repeats.pop(place, (0, 0))
        self._repeat(place, -same, -other)
        self._answers[place] -= 1
        self._share(found, place, -1)
        self._fold(key, found, {who: said for who, said in found.said.items() if who != place})
        if not found.said:
            del self._cases[key]
            self._open.pop(key, None)
        elif found.settled is not None and self.sure(case, unit, found.prior) is None:
            found.settled = None
            self._open[key] = None

    def forget(self, case: Key, unit: Key) -> None:
        """Drop a case: who said what of it. What it taught about error rates stays.

        For cases that will not come again, and for limits that changed: what was said before the
        change is no error.
        """
        key = _key(case, unit, "forget")
        found = self._cases.pop(key, None)
        if found is None:
            raise UnknownId("case", [case, unit], "Nobody judged it, or it was forgotten.")
        self._open.pop(key, None)
        if isinstance(self._belief, Joint):
            self._belief.forget(found.prior, self._spoken(found.said))
        else:
            self._belief.forget(key)

    def forget_all(self) -> None:
        """Drop all cases, as `forget` does."""
        for case, unit in list(self._cases):
            self.forget(case, unit)

    def said(self, case: Key, unit: Key) -> dict[str, bool]:
        """Return who said what of a case, in the order of their first answers."""
        found = self._cases.get(_key(case, unit, "said"))
        said = {} if found is None else found.said
        return {self._teachers[place].name: allowed for place, allowed in said.items()}

    def posterior(self, case: Key, unit: Key, prior: float) -> float:
        """Return the probability that this very case is allowed, given all that was said of it.

        `prior` is the limits' own, without these answers, as it is now; of a case that nobody
        judged it is returned as it is.
        """
        found = self._cases.get(_key(case, unit, "posterior"))
        p = validation.FRACTION.check(prior, "prior", "Teachers.posterior")
        return p if found is None else self._posterior(found, _clipped(p))

    def sure(self, case: Key, unit: Key, prior: float, doubt: float | None = None) -> bool | None:
        """Return True or False if a case is settled as allowed or denied, None if it is not."""
        found = self._cases.get(_key(case, unit, "sure"))
        p = _prior(prior, "sure")
        bar = self._doubt(doubt, "sure")
        return None if found is None else self._verdict(found, p, bar).allowed

    def review(
        self, prior: Callable[[Key, Key], float] | None = None, most: int | None = None
    ) -> tuple[Settled, ...]:
        """Return the cases that have become settled since, by what is known of the rates now.

        Call it after judgements: a case that was open when its answers came is settled later, once
        it is known how often who gave them errs, or once the limits know more. Each is returned
        once; those that `judge` returned as settled are not among them.

        Parameters
        ----------
        prior : function of case and unit, optional
            The limits' own probability of a case as it is now; of an open case they have learned
            nothing, so it is still without its answers. By default that of its first judgement.
        most : int, optional
            So many of the open cases are looked at, others with each judgement; by default all.
        """
        settled = []
        waiting = list(self._open)
        if most is not None and len(waiting) > most:
            # By bits of the number of answers: the number itself may grow as the cases do.
            first = (sum(self._answers) * 2654435761 % 2**32) * len(waiting) >> 32
            waiting = (waiting[first:] + waiting[:first])[:most]
        for key in waiting:
            found = self._cases[key]
            p = found.prior if prior is None else _prior(prior(*key), "review")
            allowed = self._verdict(found, p, self.doubt).allowed
            if allowed is not None:
                found = self._cases[key] = found.copy()
                found.settled = allowed
                del self._open[key]
                settled.append(Settled(*key, allowed))
        return tuple(settled)

    @property
    def open(self) -> tuple[tuple[Key, Key], ...]:
        """The cases that were judged and are not settled."""
        return tuple(self._open)

    def rates(self) -> dict[str, Rate]:
        """Return how often each teacher errs, as far as is known, by name."""
        if self._rates is None:
            marginals = self._belief.marginals()
            self._rates = {
                teacher.name: self._rate(place, marginals)
                for place, teacher in enumerate(self._teachers)
            }
        return dict(self._rates)

    def faults(self) -> float:
        """Return how often the limits are wrong beyond what their own probability says (mean)."""
        return mean_of(self._belief.faults(), FAULTS)

    def sentence(self, name: str) -> str:
        """Return what is known of a teacher's error rate, in words."""
        self._place(name, "sentence")
        rate = self.rates()[name]
        if rate.told:
            return f"{name} errs in {_percent(rate.mean)} % of answers, as told."
        alone = rate.trusted and rate.mean > self.trust
        how = "" if rate.known else ", not known well yet"
        many = "case" if rate.shared == 1 else "cases"
        basis = f"{rate.shared:,} {many} of {rate.answers:,} judged by others too"
        end = (
            " There is nobody to compare with, so their word is taken as it is."
            if alone
            else " Their word alone settles a case."
            if rate.trusted
            else ""
        )
        return (
            f"{name} errs in about {_percent(rate.mean)} % of answers ({_percent(rate.low)} to "
            f"{_percent(rate.high)} %){how}: {basis}.{end}"
        )

    def sentences(self) -> list[str]:
        """Return what is known of each teacher's error rate, in words."""
        return [self.sentence(teacher.name) for teacher in self._teachers]

    def by_trust(self) -> list[str]:
        """Return the names of all, who errs least first; of equals who costs less."""
        rates = self.rates()
        order = sorted(self._teachers, key=lambda one: (rates[one.name].mean, one.price))
        return [teacher.name for teacher in order]

    def worth(self, teacher: str, p: float) -> float:
        """Return what a teacher's answer about a case with P(allowed) = p is expected to say.

        In bits: the mutual information of answer and truth, at the mean of the error rate.
        """
        self._place(teacher, "worth")
        p = validation.FRACTION.check(p, "p", "Teachers.worth")
        return information(p, self.rates()[teacher].mean)

    def choose(
        self,
        p: float,
        cost_of_not_knowing: float,
        *,
        case: Key | None = None,
        unit: Key | None = None,
        among: Sequence[str] | None = None,
        doubt: float | None = None,
    ) -> Choice | None:
        """Return whom to ask about a case, or None if no answer is worth its price.

        At first, two teachers are asked about the same case until it is known how often each errs,
        and whether their word alone may settle a case: of about 300 cases at most.
        Then it is who makes the expected cost least: of their price, of what those cost who are
        asked after them if their word does not settle it, and of giving up. So a cheap teacher is
        asked where their word has a good chance to settle it, and a person else.

        Parameters
        ----------
        p : float
            The limits' own probability that it is allowed, without answers about this case.
        cost_of_not_knowing : float
            What it costs not to know, in rewards: of the account of a case, what not asking has
            cost so far. To ask again about a case that is still open, pass the same once more.
        case, unit : int or str, optional
            The case: what was said of it counts, and nobody is asked twice.
        among : list of names, optional
            Who can be asked now; by default all.
        doubt : float, optional
            As in the constructor.
        """
        found = None
        if (case is None) != (unit is None):
            raise InvalidValue("unit", "Teachers.choose", "given where 'case' is", unit)
        if case is not None and unit is not None:
            found = self._cases.get(_key(case, unit, "choose"))
        prior = _prior(p, "choose")
        cost = COST.check(cost_of_not_knowing, "cost_of_not_knowing", "Teachers.choose")
        bar = self._doubt(doubt, "choose")
        places = (
            range(len(self._teachers))
            if among is None
            else sorted({self._place(name, "choose") for name in among})
        )
        said = found.said if found is not None else {}
        free = [place for place in places if place not in said]
        if not free:
            return None
        explored = self._explore(free, list(said), cost)
        if explored is not None:
            return explored
        now = Verdict(prior, None) if found is None else self._verdict(found, prior, bar)
        if now.allowed is not None:
            return None
        candidates = self._candidates(now.p, free)
        best, place = self._least(now.p, cost, bar, candidates, AHEAD, set(said.values()))
        if place is None:
            return None
        name = self._teachers[place].name
        reason = f"{name} is expected to settle it for {best:.2g}; not knowing costs {cost:.2g}."
        return Choice(name, best, False, reason)

    def choose_judge(
        self, case: Key, unit: Key, *, among: Sequence[str] | None = None
    ) -> Choice | None:
        """Return who judges a play that a coin chose: who errs least and has not judged its case.

        Of a case that is settled anybody may be asked again: limits may have changed.
        """
        found = self._cases.get(_key(case, unit, "choose_judge"))
        said = {} if found is None or found.settled is not None else found.said
        names = None if among is None else {*among}
        for name in self.by_trust():
            place = self._places[name]
            if place not in said and (names is None or name in names):
                reason = f"{name} errs least of those who have not judged it."
                return Choice(name, self._teachers[place].price, False, reason)
        return None

    # --- rates ----------------------------------------------------------------------------

    def _rate(self, place: int, marginals: Sequence[Sequence[float]]) -> Rate:
        teacher, learned = self._teachers[place], self._learned[place]
        counts = (self._answers[place], self._shared[place])
        if teacher.error is not None:
            e = teacher.error
            return Rate(e, e, e, *counts, told=True, known=True, trusted=e <= self.trust)
        weights = marginals[learned]
        mean = mean_of(weights, RATES)
        square = mean_of(weights, [(rate - mean) * (rate - mean) for rate in RATES])
        low, high = _quantile(weights, 0.05), _quantile(weights, 0.95)
        known = NORMAL_99 * math.sqrt(square) <= WITHIN
        above = mean_of(weights, [float(rate > self.trust) for rate in RATES])
        compared = above <= UNSURE or self._shared[place] >= MOST_SHARED
        trusted = (mean <= self.trust and compared) or len(self._teachers) == 1
        return Rate(mean, low, high, *counts, told=False, known=known, trusted=trusted)

    def _repeat(self, place: int, same: int, other: int) -> None:
        """Count answers to a question that was asked again, and weigh the rates by them."""
        learned = self._learned[place]
        was = self._repeats[place]
        now = (was[0] + same, was[1] + other)
        self._repeats[place] = now
        if learned >= 0 and now != was:
            ratio = [math.exp(b - a) for a, b in zip(_steady(*was), _steady(*now), strict=True)]
            self._belief.reweigh(learned, ratio)

    def _share(self, found: _Case, place: int, sign: int) -> None:
        others = [who for who in found.said if who != place]
        if others:
            self._shared[place] += sign
        if len(others) == 1:  # that one was, or would be, alone
            self._shared[others[0]] += sign

    def _fold(self, key: tuple[Key, Key], found: _Case, said: dict[int, bool]) -> None:
        if isinstance(self._belief, Joint):
            self._belief.change(found.prior, self._spoken(found.said), self._spoken(said))
        else:
            self._belief.change(key, found.prior, self._spoken(said))
        found.said = said
        self._rates = None

    def _spoken(self, said: Mapping[int, bool]) -> list[Answer]:
        answers = []
        for place, allowed in said.items():
            error = self._teachers[place].error
            told = 0.0 if error is None else max(error, LEAST_ERROR)
            answers.append((self._learned[place], told, allowed))
        return answers

    def _posterior(self, found: _Case, p: float) -> float:
        return self._belief.posterior(p, self._spoken(found.said))

    def _verdict(self, found: _Case, prior: float, doubt: float) -> Verdict:
        p = self._posterior(found, prior)
        rates = list(self.rates().values())
        words = {said for place, said in found.said.items() if rates[place].trusted}
        if len(words) == 1:
            word = words.pop()
            against = any(said != word for said in found.said.values())
            if not against or (p if word else 1.0 - p) >= CONTRADICTED:
                return Verdict(p, word)
        if len(found.said) > 1 and len(set(found.said.values())) == 1:
            known = all(rates[place].known for place in found.said)
            doubt = max(doubt, self.trust if known else 1.0 - AGREED)
        return Verdict(p, _settled(p, doubt))

    # --- whom to ask ----------------------------------------------------------------------

    def _explore(self, free: Sequence[int], said: Sequence[int], cost: float) -> Choice | None:
        """Return who is asked so that two have judged the same case, if a rate is not known."""
        if len(said) > 1:
            return None
        rates = list(self.rates().values())
        # Also of who may yet turn out to be one whose word alone settles a case.
        learning = [
            place
            for place, rate in enumerate(rates)
            if not (rate.known and (rate.trusted or rate.low > self.trust))
            and self._shared[place] < MOST_SHARED
        ]

        def price(place: int) -> float:
            return self._teachers[place].price

        def best(places: list[int]) -> int:
            return min(places, key=lambda place: (rates[place].mean, price(place), place))

        def least_met(places: list[int]) -> int:
            return min(places, key=lambda place: (self._shared[place], price(place), place))

        wanted = [place for place in free if place in learning]
        if said and (said[0] in learning or wanted):
            pair = [best(list(free)) if said[0] in learning else least_met(wanted)]
        elif wanted and not said and len(free) > 1:
            one = least_met(wanted)
            pair = [one, best([place for place in free if place != one])]
        else:
            return None
        # Both are paid where a person alone would be: what is learned of a cheap one costs no
        # question that would not have been asked.
        if cost < max(price(place) for place in pair):
            return None
        # The one whose word may settle it comes last, so that the other is asked at all.
        first = min(pair, key=lambda place: (rates[place].trusted, price(place), place))
        name = self._teachers[first].name
        reason = f"{name} is asked so that two have judged it: error rates are not known yet."
        return Choice(name, math.fsum(price(place) for place in pair), True, reason)

    def _candidates(self, p: float, free: Sequence[int]) -> list[int]:
        """Return the few who may be worth it: the most said for a price, the most reliable."""
        rates = list(self.rates().values())
        # Who costs as much and errs as much is as good: one of each will do, for each step ahead.
        alike: dict[tuple[float, float], int] = {}
        kept = []
        for place in free:
            same = (self._teachers[place].price, rates[place].mean)
            alike[same] = alike.get(same, 0) + 1
            if alike[same] <= AHEAD:
                kept.append(place)

        def by_price(place: int) -> tuple[float, int]:
            bits = information(p, rates[place].mean)
            return -bits / max(self._teachers[place].price, 1e-9), place

        reliable = sorted(kept, key=lambda place: (rates[place].mean, place))
        chosen = sorted(kept, key=by_price)[: MOST_CANDIDATES - 2] + reliable
        return sorted(dict.fromkeys(chosen), key=chosen.index)[:MOST_CANDIDATES]

    def _least(
        self,
        p: float,
        cost: float,
        doubt: float,
        places: Sequence[int],
        ahead: int,
        words: set[bool],
    ) -> tuple[float, int | None]:
        """Return the least expected cost until a case is settled or given up, and whom to ask.

        To give up costs what it costs not to know: a word that settles nothing saves nothing.
        """
        rates = list(self.rates().values())
        known = all(rates[place].known for place in places)
        agreed = max(doubt, self.trust if known else 1.0 - AGREED)
        least, first = cost, None
        for place in places if ahead else ():
            rate, total = rates[place], self._teachers[place].price
            if not rate.trusted and total <= least:
                error = max(rate.mean, LEAST_ERROR)
                rest = [other for other in places if other != place]
                for word in (True, False):
                    right, wrong = (1.0 - error, error) if word else (error, 1.0 - error)
                    said = p * right + (1.0 - p) * wrong
                    then = p * right / said
                    if _settled(then, agreed if words == {word} else doubt) is None:
                        all_words = words | {word}
                        further = self._least(then, cost, doubt, rest, ahead - 1, all_words)
                        total += said * further[0]
            # Of equal costs an answer is taken: as much was lost already by not asking.
            if total < least or (first is None and total == least):
                least, first = total, place
        return least, first

    # --- teachers -------------------------------------------------------------------------

    def _add(self, teachers: list[Teacher]) -> None:
        names = [teacher.name for teacher in [*self._teachers, *teachers]]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise Duplicate("teacher", name)
        if len(names) > MAX_TEACHERS:
            raise LimitReached("teachers", MAX_TEACHERS, "Let several share a name.")
        prices = [teacher.price for teacher in [*self._teachers, *teachers]]
        for teacher in teachers:
            self._places[teacher.name] = len(self._teachers)
            self._teachers.append(teacher)
            self._answers.append(0)
            self._shared.append(0)
            self._repeats.append((0, 0))
            learned = sum(one >= 0 for one in self._learned)
            if teacher.error is None:
                if learned == MOST_EXACT and isinstance(self._belief, Joint):
                    spoken = [
                        (key, case.prior, self._spoken(case.said))
                        for key, case in self._cases.items()
                    ]
                    self._belief = Messages.of(self._belief, spoken)
                self._belief.add(_careful(teacher.price, min(prices), max(prices)))
            self._learned.append(learned if teacher.error is None else -1)
        self._rates = None

    def _teacher(self, teacher: object) -> Teacher:
        if not isinstance(teacher, Teacher):
            raise InvalidValue("teacher", "Teachers", "a Teacher", teacher)
        return teacher

    def _place(self, name: object, method: str) -> int:
        place = self._places.get(name) if isinstance(name, str) else None
        if place is None:
            known = ", ".join(repr(one) for one in self._places) or "nobody"
            raise UnknownId("teacher", name, f"Teachers.{method} knows {known}: add them first.")
        return place

    def _doubt(self, doubt: float | None, method: str) -> float:
        return self.doubt if doubt is None else DOUBT.check(doubt, "doubt", f"Teachers.{method}")

    # --- state ----------------------------------------------------------------------------

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays.

        `teachers` and `keys` are JSON, as bytes; answers are in one table, a row for each teacher
        and case, in the order of the cases.
        """
        cases = list(self._cases.values())
        index = {key: i for i, key in enumerate(self._cases)}
        rows = [
            (i, place, said, *case.repeats.get(place, (0, 0)))
            for i, case in enumerate(cases)
            for place, said in case.said.items()
        ]
        settled = [-1 if case.settled is None else int(case.settled) for case in cases]
        state: dict[str, npt.NDArray[Any]] = {
            "settings": np.array([self.doubt, self.trust]),
            "teachers": _bytes([teacher.to_json() for teacher in self._teachers]),
            "counts": _ints(
                [
                    (a, s, *r)
                    for a, s, r in zip(self._answers, self._shared, self._repeats, strict=True)
                ],
                4,
            ),
            "keys": _bytes(list(self._cases)),
            "priors": np.array([case.prior for case in cases]),
            "settled": np.array(settled, np.int64),
            "open": np.array([index[key] for key in self._open], np.int64),
            "said": _ints(rows, 5),
        }
        belief = self._belief
        if isinstance(belief, Joint):
            return state | {"weights": belief.weights.ravel(), "kept": belief.kept.ravel()}
        told = [
            (index[key], place, *message)
            for key, case in belief.cases.items()
            for place, message in case.messages.items()
        ]
        return state | {
            "rates": np.array(belief.weights).reshape(-1),
            "faults": np.array(belief.limits),
            "turn": np.array([index[key] for key in belief.cases], np.int64),
            "told": np.array([row[:2] for row in told], np.int64).reshape(-1, 2),
            "messages": np.array([one for row in told for one in row[2:]], np.float64),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return teachers as they were at `to_state`: what follows has the same bits.

        Raises
        ------
        CorruptState
            If the arrays do not fit each other, or hold what cannot be.
        """
        try:
            return cls._of(dict(state))
        except CorruptState:
            raise
        except (
            BridleError,
            KeyError,
            IndexError,
            TypeError,
            ValueError,
            OverflowError,
            RecursionError,
            AttributeError,
        ) as error:
            raise CorruptState(f"Teachers: the state is damaged: {error!r:.200}") from None

    @classmethod
    def _of(cls, state: dict[str, npt.NDArray[Any]]) -> Self:
        def take(name: str, dtype: type, shape: tuple[int, ...]) -> npt.NDArray[Any]:
            array = state.pop(name)
            fits = array.dtype == np.dtype(dtype) and len(shape) == array.ndim
            if not fits or any(n not in (-1, m) for n, m in zip(shape, array.shape, strict=True)):
                raise CorruptState(f"Teachers: {name!r} is {array.dtype} of {array.shape}.")
            if dtype is np.float64 and not (np.isfinite(array) & (array >= 0.0)).all():
                raise CorruptState(f"Teachers: {name!r} holds what is no weight.")
            return array

        doubt, trust = take("settings", np.float64, (2,)).tolist()
        self = cls(doubt=doubt, trust=trust)
        self._add([Teacher.from_json(one) for one in _parsed(take("teachers", np.int64, (-1,)))])
        n = len(self._teachers)
        counts = take("counts", np.int64, (n, 4))
        keys = [
            _key(case, unit, "from_state") for case, unit in _parsed(take("keys", np.int64, (-1,)))
        ]
        m = len(keys)
        _hold(m <= MAX_CASES and len(set(keys)) == m, "a case stands twice, or there are too many")
        priors = take("priors", np.float64, (m,))
        _hold(
            bool(((priors >= LEAST_P) & (priors <= 1 - LEAST_P)).all()), "a prior is out of range"
        )
        settled = take("settled", np.int64, (m,)).tolist()
        for key, prior, one in zip(keys, priors.tolist(), settled, strict=True):
            _hold(one in (-1, 0, 1), "a case is settled as what cannot be")
            self._cases[key] = case = _Case(prior)
            case.settled = None if one < 0 else bool(one)
        self._read_said(keys, take("said", np.int64, (-1, 5)), counts)
        waiting = take("open", np.int64, (-1,)).tolist()
        _hold(
            sorted(waiting) == [i for i, one in enumerate(settled) if one < 0],
            "the open cases are not those that are not settled",
        )
        self._open = {keys[i]: None for i in waiting}
        belief = self._belief
        if isinstance(belief, Joint):
            shape = belief.weights.shape
            belief.weights = _weights(take("weights", np.float64, (math.prod(shape),)), shape)
            belief.kept = _weights(take("kept", np.float64, (math.prod(shape),)), shape)
        else:
            learned = len(belief.weights)
            rates = take("rates", np.float64, (learned * len(RATES),))
            belief.weights = _weights(rates, (learned, len(RATES))).tolist()
            belief.limits = _weights(take("faults", np.float64, (len(FAULTS),)), (-1,)).tolist()
            turn = take("turn", np.int64, (m,)).tolist()
            _hold(sorted(turn) == list(range(m)), "the cases' turns are not in order")
            for i in turn:
                case = self._cases[keys[i]]
                belief.put(keys[i], case.prior, self._spoken(case.said))
            told = take("told", np.int64, (-1, 2)).tolist()
            messages = take("messages", np.float64, (-1,)).tolist()
            belief.take([(keys[i], place) for i, place in told if i >= 0], messages)
        _hold(not state, f"there is no place for {sorted(state)}")
        return self

    def _read_said(
        self, keys: list[tuple[Key, Key]], said: npt.NDArray[Any], counts: npt.NDArray[Any]
    ) -> None:
        """Take over who said what, and hold the counts against it."""
        n = len(self._teachers)
        found = np.zeros((n, 4), np.int64)
        before = 0
        for i, place, allowed, same, other in said.tolist():
            fits = before <= i < len(keys) and 0 <= place < n and allowed in (0, 1)
            _hold(fits and min(same, other) >= 0, "an answer is of nobody, or of no case")
            before = i
            case = self._cases[keys[i]]
            _hold(place not in case.said, "a teacher judged a case twice")
            case.said[place] = bool(allowed)
            if same or other:
                case.repeats[place] = (same, other)
        for case in self._cases.values():
            _hold(bool(case.said), "a case was judged by nobody")
            for place in case.said:
                found[place] += (1, len(case.said) > 1, *case.repeats.get(place, (0, 0)))
        # Cases that were forgotten are counted still.
        _hold(bool((counts >= found).all()), "there are more answers than were counted")
        for place, (answers, shared, same, other) in enumerate(counts.tolist()):
            self._answers[place], self._shared[place] = answers, shared
            self._repeats[place] = (same, other)


def information(p: float, error: float) -> float:
    """Return the bits that an answer says of a case with P(allowed) = p, wrong at rate `error`.

    Examples
    --------
    >>> information(0.5, 0.0), round(information(0.5, 0.2), 3), information(0.5, 0.5)
    (1.0, 0.278, 0.0)
    """
    said = p * (1.0 - error) + (1.0 - p) * error
    return max(_entropy(said) - _entropy(error), 0.0)


def _entropy(p: float) -> float:
    if p <= 0.0 or p >= 1.0:
        return 0.0
    return -p * math.log2(p) - (1.0 - p) * math.log2(1.0 - p)


def _settled(p: float, doubt: float) -> bool | None:
    return True if p >= 1.0 - doubt else False if p <= doubt else None


def _steady(same: int, other: int) -> list[float]:
    """Return the log likelihood of each rate, given how often a repeated question had each outcome.

    Who is asked again copies what they said with an unknown probability, or judges anew. A model
    that always repeats itself is thus not taken for one that never errs.
    """
    logs = []
    for rate in RATES:
        parts = []
        for copies in COPIES:
            differ = (1.0 - copies) * 2.0 * rate * (1.0 - rate)
            parts.append(same * math.log1p(-differ) + other * math.log(differ))
        most = max(parts)
        logs.append(most + math.log(math.fsum(math.exp(part - most) for part in parts)))
    top = max(logs)
    return [one - top for one in logs]


def _careful(price: float, lowest: float, highest: float) -> float:
    """Return how likely a teacher of this price hardly ever errs, beside those of other prices."""
    dear, cheap = price > lowest and price >= DEAR * lowest, price * DEAR <= highest > price
    return CAREFUL if dear == cheap else CAREFUL_DEAR if dear else CAREFUL_CHEAP


def _quantile(weights: Sequence[float], level: float) -> float:
    total = math.fsum(weights)
    below = 0.0
    for rate, weight in zip(RATES, weights, strict=True):
        below += weight
        if below >= level * total:
            return rate
    return RATES[-1]


def _clipped(p: float) -> float:
    return min(max(p, LEAST_P), 1.0 - LEAST_P)


def _prior(p: object, method: str) -> float:
    return _clipped(validation.FRACTION.check(p, "prior", f"Teachers.{method}"))


def _key(case: object, unit: object, method: str) -> tuple[Key, Key]:
    return _name(case, "case", method), _name(unit, "unit", method)


def _name(value: object, name: str, method: str) -> Key:
    if isinstance(value, str):
        return str(validation.text(value, name, f"Teachers.{method}"))
    return NUMBER.check(value, name, f"Teachers.{method}")


def _percent(rate: float) -> str:
    return f"{100 * rate:.2g}"


def _bytes(data: object) -> npt.NDArray[np.int64]:
    return np.frombuffer(json.dumps(data).encode(), np.uint8).astype(np.int64)


def _parsed(array: npt.NDArray[Any]) -> list[Any]:
    data = json.loads(bytes(array.tolist()))
    if not isinstance(data, list):
        raise CorruptState("Teachers: a list is not one.")
    return data


def _ints(rows: Sequence[Sequence[int]], width: int) -> npt.NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(-1, width)


def _weights(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    _hold(bool((array > 0.0).all()), "a weight is 0")
    return array.reshape(shape).copy()


def _hold(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CorruptState(f"Teachers: {otherwise}.")

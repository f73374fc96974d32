"""Error rates of several teachers, from what they said of the same cases: Dawid-Skene, two labels.

A case is allowed with probability p (the limits' own, which err at a rate of their own), and each
teacher says what is so, except with their error rate. Rates are on a fixed grid.

`Joint` keeps the posterior of all rates together, exactly: between two teachers who disagree only
the sum of their errors is sure at first, and a rate at a time cannot hold that. It has a cell for
each combination, so it is for three teachers at most. `Messages` is for more: the posterior a rate
at a time, by belief propagation over the cases; where three or more overlap, each is known by the
others.

No loops are compiled and no logarithms taken: weights are multiplied by ratios of likelihoods,
element by element, and sums run in a fixed order. So the bits are the same on any processor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from typing import TypeAlias

import numpy as np

from bridle.kernels.types import Floats

__all__ = [
    "FAULTS",
    "FAULTS_PRIOR",
    "MOST_EXACT",
    "RATES",
    "Answer",
    "Joint",
    "Key",
    "Messages",
    "mean_of",
    "prior_of",
]

# What a teacher's error rate may be. The ends of the cells lie half-way between.
RATES = (0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
# How often the limits' word is turned round, beyond what their own p says, and how likely that is.
FAULTS = (0.0, 0.03, 0.1, 0.2, 0.35)
FAULTS_PRIOR = (0.3, 0.25, 0.2, 0.15, 0.1)
# 5 · 11³ = 6,655 cells.
MOST_EXACT = 3
# Weights are kept from vanishing, so that what comes later can bring any of them back.
LEAST = 1e-250
# Cases that are looked at again with each judgement, as the rates have moved since.
AGAIN = 8
SWEEPS = 4

# What names a case: the item, and the arm or group that is judged.
Key: TypeAlias = tuple[int | str, int | str]
# Of one case: whose answer (its place among the learned, or -1 if the rate is told), the told rate,
# and what was said.
Answer: TypeAlias = tuple[int, float, bool]


def _beta_1_9() -> tuple[float, ...]:
    """Return the mass of Beta(1, 9) in the cell of each rate."""
    ends = [0.0, *((low + high) / 2 for low, high in pairwise(RATES)), 1.0]
    above = []
    for end in ends:
        product = 1.0
        for _ in range(9):  # no `pow`: its last bit is the library's own
            product *= 1.0 - end
        above.append(product)
    return tuple(low - high for low, high in pairwise(above))


_BETA = _beta_1_9()


def prior_of(careful: float) -> list[float]:
    """Return the prior of `RATES`: Beta(1, 9), and a share on the lowest for who hardly errs."""
    prior = [(1.0 - careful) * mass for mass in _BETA]
    prior[0] += careful
    return prior


_R = np.array(RATES)
_NOT_R = 1.0 - _R
_F = np.array(FAULTS)


def mean_of(weights: Sequence[float], values: Sequence[float]) -> float:
    """Return the mean of values with weights that need not add up to 1."""
    total = above = 0.0
    for weight, value in zip(weights, values, strict=True):
        total += weight
        above += weight * value
    return above / total


class Joint:
    """The posterior of the rates of up to three teachers and of the limits' faults, together.

    Attributes
    ----------
    weights : array (faults, rates, …, rates)
        An axis for each learned teacher, in their order; the highest is 1.
    kept : array, like `weights`
        The part of it that came from cases which are no longer at hand.
    """

    def __init__(self) -> None:
        self.weights: Floats = np.array(FAULTS_PRIOR)
        self.kept: Floats = np.array(FAULTS_PRIOR)

    def copy(self) -> Joint:
        """Return the same knowledge. Arrays are shared: none is ever changed in place."""
        other = Joint()
        other.weights, other.kept = self.weights, self.kept
        return other

    def add(self, careful: float) -> None:
        """Add a teacher who hardly errs with this probability, as the last axis."""
        prior = np.array(prior_of(careful))
        self.weights = _scaled(self.weights[..., np.newaxis] * prior)
        self.kept = _scaled(self.kept[..., np.newaxis] * prior)

    def change(self, p: float, old: Sequence[Answer], new: Sequence[Answer]) -> None:
        """Fold what is said of a case now, in the place of what was said of it before."""
        ratio = self._likelihood(p, new)
        if old:
            ratio = ratio / self._likelihood(p, old)
        self.weights = _scaled(self.weights * ratio)

    def forget(self, p: float, answers: Sequence[Answer]) -> None:
        """Forget a case; what it taught stays."""
        self.kept = _scaled(self.kept * self._likelihood(p, answers))

    def reweigh(self, place: int, ratio: Sequence[float]) -> None:
        """Multiply the weights of one teacher's rates by what is known from elsewhere."""
        along = _along(np.array(ratio), place + 1, self.weights.ndim)
        self.weights = _scaled(self.weights * along)
        self.kept = _scaled(self.kept * along)

    def marginals(self) -> list[list[float]]:
        """Return the weights of each teacher's rates, in their order."""
        return [_over(self.weights, (axis,)).tolist() for axis in range(1, self.weights.ndim)]

    def faults(self) -> list[float]:
        """Return the weights of the limits' faults."""
        faults: list[float] = _over(self.weights, (0,)).tolist()
        return faults

    def posterior(self, p: float, answers: Sequence[Answer]) -> float:
        """Return the probability that a case is allowed, p before its answers, over all rates."""
        axes = tuple(sorted(axis + 1 for axis, _, _ in answers if axis >= 0))
        weights = _over(self.weights, axes)
        place = {axis: i for i, axis in enumerate(axes)}
        local = [(place.get(axis + 1, -1), rate, said) for axis, rate, said in answers]
        yes, no = _sides(p, 1.0 - p, local, len(axes), 0)
        share = weights * (yes / (yes + no))
        return float(_over(share, ())) / float(_over(weights, ()))

    def _likelihood(self, p: float, answers: Sequence[Answer]) -> Floats:
        allowed = _along(p + _F * (1.0 - 2.0 * p), 0, self.weights.ndim)
        yes, no = _sides(allowed, 1.0 - allowed, answers, self.weights.ndim, 1)
        both: Floats = yes + no
        return both


def _along(values: Floats, axis: int, axes: int) -> Floats:
    return values.reshape([-1 if i == axis else 1 for i in range(axes)])


def _sides(
    yes: Floats | float, no: Floats | float, answers: Sequence[Answer], axes: int, first: int
) -> tuple[Floats, Floats]:
    """Multiply the likelihoods of a case, if allowed and if denied, by those of its answers."""
    yes, no = np.asarray(yes), np.asarray(no)
    for place, rate, said in answers:
        if place >= 0:
            wrong, right = _along(_R, place + first, axes), _along(_NOT_R, place + first, axes)
        else:
            wrong, right = np.asarray(rate), np.asarray(1.0 - rate)
        yes, no = yes * (right if said else wrong), no * (wrong if said else right)
    return yes, no


def _scaled(weights: Floats) -> Floats:
    """Divide by the highest, which becomes 1, and keep the rest from vanishing."""
    scaled: Floats = np.maximum(weights / weights.max(), LEAST)
    return scaled


def _over(weights: Floats, keep: tuple[int, ...]) -> Floats:
    """Sum over all axes but those to keep, slice by slice: numpy's own order is not promised."""
    for axis in reversed(range(weights.ndim)):
        if axis not in keep:
            slices = np.moveaxis(weights, axis, 0)
            total = slices[0].copy()
            for part in slices[1:]:
                total = total + part
            weights = total
    return weights


class _Case:
    """One case of `Messages`: its answers, and what each of its rates was told of it."""

    __slots__ = ("answers", "messages", "p")

    def __init__(self, p: float) -> None:
        self.p = p
        self.answers: list[Answer] = []
        # By place among the learned; -1: the limits.
        self.messages: dict[int, list[float]] = {}


class Messages:
    """The posterior of each teacher's rate on its own, for any number of teachers.

    A case tells each of its teachers how likely they were right, from the limits and from what the
    others said, each with their rate as it is without this case. As rates move, the cases in turn
    are looked at again, a few with each judgement.
    """

    def __init__(self) -> None:
        self.weights: list[list[float]] = []
        self.limits: list[float] = list(FAULTS_PRIOR)
        # In the order in which they are looked at again.
        self.cases: dict[Key, _Case] = {}

    @classmethod
    def of(cls, joint: Joint, cases: Iterable[tuple[Key, float, Sequence[Answer]]]) -> Messages:
        """Return the same knowledge as `joint` has of these cases, and of those it let go."""
        self = cls()
        kept = joint.kept
        self.weights = [_over(kept, (axis,)).tolist() for axis in range(1, kept.ndim)]
        self.limits = _over(kept, (0,)).tolist()
        for key, p, answers in cases:
            self.put(key, p, answers)
        for _ in range(SWEEPS):
            for case in self.cases.values():
                self._refresh(case)
        return self

    def copy(self) -> Messages:
        """Return the same knowledge."""
        other = Messages()
        other.weights, other.limits = [list(one) for one in self.weights], list(self.limits)
        for key, case in self.cases.items():
            twin = other.cases[key] = _Case(case.p)
            # Lists of answers and messages are replaced, and never changed.
            twin.answers, twin.messages = case.answers, dict(case.messages)
        return other

    def add(self, careful: float) -> None:
        """Add a teacher who hardly errs with this probability, as the last."""
        self.weights.append(prior_of(careful))

    def change(self, key: Key, p: float, new: Sequence[Answer]) -> None:
        """Fold what is said of a case now, in the place of what was said of it before."""
        self._refresh(self.put(key, p, new))
        for _ in range(min(AGAIN, len(self.cases))):
            again = next(iter(self.cases))
            self.cases[again] = case = self.cases.pop(again)
            self._refresh(case)
        if not new:  # all was taken back, and its messages are spent
            case = self.cases.pop(key)
            self._tell(case, -1, [1.0] * len(FAULTS))

    def forget(self, key: Key) -> None:
        """Forget a case; what it taught stays."""
        del self.cases[key]

    def reweigh(self, place: int, ratio: Sequence[float]) -> None:
        """Multiply the weights of one teacher's rates by what is known from elsewhere."""
        _multiply(self.weights[place], ratio)

    def marginals(self) -> list[list[float]]:
        """Return the weights of each teacher's rates, in their order."""
        return [list(weights) for weights in self.weights]

    def faults(self) -> list[float]:
        """Return the weights of the limits' faults."""
        return list(self.limits)

    def posterior(self, p: float, answers: Sequence[Answer]) -> float:
        """Return the probability that a case is allowed, p before its answers, over all rates."""
        yes, no = p, 1.0 - p
        for place, told, said in answers:
            rate = told if place < 0 else mean_of(self.weights[place], RATES)
            yes, no = yes * (1.0 - rate if said else rate), no * (rate if said else 1.0 - rate)
        return yes / (yes + no)

    def take(self, told: Sequence[tuple[Key, int]], messages: Sequence[float]) -> None:
        """Take over what the cases had told, of which the weights know already.

        Raise ValueError if it does not fit the cases.
        """
        rest = iter(messages)
        for key, place in told:
            case = self.cases[key]
            wanted = {-1, *(one for one, _, _ in case.answers)}
            length = len(FAULTS) if place < 0 else len(RATES)
            message = list(islice(rest, length))
            if place not in wanted or place in case.messages or len(message) != length:
                raise ValueError("a message is of nobody, stands twice, or is cut off")
            if min(message) <= 0.0:
                raise ValueError("a message is 0")
            case.messages[place] = message
        if next(rest, None) is not None:
            raise ValueError("messages are left over")
        for case in self.cases.values():
            if set(case.messages) != {-1, *(one for one, _, _ in case.answers)}:
                raise ValueError("a message is missing")

    def put(self, key: Key, p: float, answers: Sequence[Answer]) -> _Case:
        """Put answers in the place of a case's older ones; nothing is told of them yet."""
        case = self.cases.setdefault(key, _Case(p))
        places = {place for place, _, _ in answers}
        for place in [place for place in case.messages if place >= 0 and place not in places]:
            self._tell(case, place, [1.0] * len(RATES))
            del case.messages[place]
        case.answers = list(answers)
        return case

    def _refresh(self, case: _Case) -> None:
        m = self._cavity(case, -1, FAULTS)
        limits = (case.p + m * (1.0 - 2.0 * case.p), 1.0 - case.p - m * (1.0 - 2.0 * case.p))
        sides = []
        for place, told, said in case.answers:
            rate = told if place < 0 else self._cavity(case, place, RATES)
            sides.append((1.0 - rate, rate) if said else (rate, 1.0 - rate))
        news: list[tuple[int, list[float]]] = []
        for i, (place, _, said) in enumerate(case.answers):
            if place < 0:
                continue
            yes, no = limits
            for k, side in enumerate(sides):
                if k != i:
                    yes, no = yes * side[0], no * side[1]
            right, wrong = (yes, no) if said else (no, yes)
            right, wrong = right / (right + wrong), wrong / (right + wrong)
            news.append((place, [right * (1.0 - rate) + wrong * rate for rate in RATES]))
        yes = no = 1.0
        for side in sides:
            yes, no = yes * side[0], no * side[1]
        yes, no = yes / (yes + no), no / (yes + no)
        one = [case.p + fault * (1.0 - 2.0 * case.p) for fault in FAULTS]
        news.append((-1, [yes * p + no * (1.0 - p) for p in one]))
        for place, message in news:
            self._tell(case, place, message)

    def _cavity(self, case: _Case, place: int, values: Sequence[float]) -> float:
        """Return the mean of a rate without what this case has told of it."""
        weights = self.limits if place < 0 else self.weights[place]
        if message := case.messages.get(place):
            weights = [weight / told for weight, told in zip(weights, message, strict=True)]
        return mean_of(weights, values)

    def _tell(self, case: _Case, place: int, message: list[float]) -> None:
        before = case.messages.get(place, [1.0] * len(message))
        ratio = [now / was for now, was in zip(message, before, strict=True)]
        _multiply(self.limits if place < 0 else self.weights[place], ratio)
        case.messages[place] = message


def _multiply(weights: list[float], ratio: Sequence[float]) -> None:
    new = [weight * one for weight, one in zip(weights, ratio, strict=True)]
    most = max(new)
    weights[:] = [max(weight / most, LEAST) for weight in new]

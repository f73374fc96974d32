"""ScaledArms: each arm's posterior, with a scale that it finds, and that follows change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import CorruptState, InvalidValue
from bridle.kernels import posterior as kernel
from bridle.kernels import scaled
from bridle.kernels.scaled import (
    COUNT,
    HALF_LIFE,
    MASS,
    NOISE,
    PRECISION,
    SQUARES,
    SUM,
    SURPLUS,
    WIDTH,
    Recent,
)
from bridle.kernels.types import Floats, Ints, Places, Posterior
from bridle.reward.base import AUTO, HALF_LIVES, NEVER, Forget, half_life_of
from bridle.reward.posterior import LinearArms, arrays_of, untrained

__all__ = ["ScaledArms"]

# Of rewards that are learned in bulk, only so many half-lives are recent.
TAIL = int(8 * scaled.RECENT)


class ScaledArms(LinearArms):
    """LinearArms that find their prior and the noise in what they learn, and forget.

    Before it is played an arm is expected to earn what is earned on average in such a context: its
    weights are N(r̄e + w, s²Λ⁻¹), e the trailing 1 of contexts, r̄ the mean of all rewards, w what
    explains r − r̄ of all plays together, Λ diagonal with one precision for the intercept and one
    for all slopes. The noise s, w, and Λ are found in what was
    learned of all arms, at fixed counts of examples: s and w eight times while the count doubles,
    Λ, by its evidence, whenever it is four times what it was. So the spread of a draw,
    v·`unit`·√(cᵀB⁻¹c), needs no knowledge of how large rewards are or how much they scatter.

    Whoever folds one by one calls `rescale` where `fold` says so; `update` does it by itself.

    Parameters
    ----------
    arms, features : int
        As in `LinearArms`; the last feature of every context is 1.
    forget : {"auto", "never"} or float, default "auto"
        How old examples fade. A number: the count of examples after which what was learned counts
        half. `auto`: nothing fades; but where recent examples alone, halved in 500, predict much
        better than all, those alone count from then on.

    Examples
    --------
    >>> arms = ScaledArms(arms=2, features=1)
    >>> for _ in range(50):
    ...     arms.update(0, [1.0], 0.2)
    >>> round(arms.noise, 2), round(arms.rate, 2)
    (0.04, 0.21)
    """

    def __init__(self, *, arms: int, features: int, forget: Forget = "auto") -> None:
        super().__init__(arms=arms, features=features, ridge=scaled.RIDGE_GUESS)
        self.prior: Floats = np.zeros((2, features))
        self.prior[PRECISION] = scaled.RIDGE_GUESS
        self.kernel_state = self._untrained(arms)
        self.num = np.zeros(scaled.NUMBERS)
        self.num[WIDTH] = 1.0
        self.num[NOISE] = np.sqrt(scaled.FIRST_SQUARE)
        self.recent = _all_recent(0, features, 0)
        self._work = _work(features)
        self.set_forget(forget)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise, as it was found last."""
        return float(self.num[NOISE])

    @property
    def unit(self) -> float:
        """How wide the draws of a policy with v = 1 are, in √(cᵀB⁻¹c): s at first, then less.

        The more was learned, the less there is to gain by trying: 7 % less with each doubling of
        the plays that count.
        """
        return float(self.num[NOISE] * self.num[WIDTH])

    @property
    def rate(self) -> float:
        """The mean of all rewards that count, r̄."""
        return float(scaled.rate_of(self.num[SUM], self.num[MASS]))

    @property
    def common(self) -> Floats:
        """What all arms are expected to have in common beside r̄, w: (d,)."""
        common: Floats = self.prior[scaled.MEAN].copy()
        return common

    @property
    def pull(self) -> float:
        """How far the means of arms are drawn to r̄: see `kernels.loop.pull_of`."""
        num, ridge = self.num, self.kernel_state.ridge  # without a call of a kernel
        pull: float = ridge * (num.item(SUM) + scaled.FIRST) / (num.item(MASS) + 1.0)
        return pull

    @property
    def totals(self) -> Floats:
        """The sum and the number of the rewards that count, and of the first guess."""
        total, mass = self.num[SUM : MASS + 1].tolist()
        return np.array([total + scaled.FIRST, mass + 1.0])

    @property
    def forget(self) -> Forget:
        """How old examples fade."""
        half_life = float(self.num[HALF_LIFE])
        return "never" if half_life == NEVER else "auto" if half_life == AUTO else half_life

    def set_forget(self, forget: Forget) -> None:
        """Let examples fade in another way from now on; what has faded stays so."""
        self.num[HALF_LIFE] = half_life_of(forget, "ScaledArms")
        self.num[SURPLUS] = 0.0
        if (forget == "auto") == self._keeps_recent:
            return
        # What was learned so far is as recent as any.
        arms = self.arms if forget == "auto" else 0
        self.recent = _all_recent(arms, self.features, self._block())
        self.num[scaled.NEW_SUM : SURPLUS] = self.num[SUM:NOISE] if arms else 0.0
        scaled.keep_rates(self.num)

    def update(self, arm: int, context: npt.ArrayLike, outcome: float) -> None:
        """Fold one example into an arm, and find the scale anew where it is time."""
        k = self._arm(arm, "update")
        c = validation.vector(context, self.features, "context", "ScaledArms.update")
        y = validation.OUTCOME.check(outcome, "outcome", "ScaledArms.update")
        if self.fold(k, c, y):
            self.rescale()

    def fold(self, arm: int, context: Floats, outcome: float) -> bool:
        """Fold an example that was checked before. True: `rescale` is to be called."""
        due: bool = scaled.fold_one(
            *self.kernel_state,
            *self.recent,
            self.prior,
            self.num,
            arm,
            context,
            outcome,
            *self._work,
        )
        return due

    def rescale(self) -> None:
        """Find the scale anew, forget, or begin anew: what is due at this count of examples."""
        num, n = self.num, int(self.num[COUNT])
        if num[SURPLUS] > scaled.SURE:
            self._begin_anew()
        if num[HALF_LIFE] > 0.0 and n % (every := scaled.block_of(num[HALF_LIFE])) == 0:
            g = 2.0 ** (-every / float(num[HALF_LIFE]))
            scaled.fade_all(self.kernel_state, self.prior, g)
            num[SUM:NOISE] *= g
        self._find(n >= 16 and n & (n - 1) == 0 and n.bit_length() % 2 == 1)

    def update_many(
        self, arms: npt.ArrayLike, contexts: npt.ArrayLike, outcomes: npt.ArrayLike
    ) -> None:
        """Fold examples in order: the same bits as `update` one by one."""
        owner = "ScaledArms.update_many"
        C = validation.matrix(contexts, self.features, "contexts", owner)
        y = validation.outcomes(outcomes, len(C), "outcomes", owner)
        k = validation.indices(arms, len(C), self.arms, "arms", owner)
        self.fold_each(k, C, y)

    def fold_each(self, arms: Ints, contexts: Floats, outcomes: Floats) -> None:
        """`update_many` for values that were checked before; contexts may lack their trailing 1."""
        C = np.ascontiguousarray(with_last(contexts, self.features))
        first = 0
        while first < len(arms):
            first, due = scaled.fold_until_due(
                self.kernel_state,
                self.recent,
                self.prior,
                self.num,
                arms,
                C,
                outcomes,
                first,
            )
            if due:
                self.rescale()

    def fold_many(self, arms: Ints, contexts: Floats, outcomes: Floats) -> None:
        """Learn from a history at once: the scale is found when all of it is there.

        The last examples are recent. It is not looked for changes within.
        """
        num, before, n = self.num, int(self.num[COUNT]), len(outcomes)
        keeps, post = self._keeps_recent, self.kernel_state
        if keeps:
            block = (before + n) // scaled.BLOCK
            scaled.fade_all_recent(post, self.recent, self.prior, block)
            scaled.turn_recent(post, self.recent, self.prior)
            C = with_last(contexts[-TAIL:], self.features)
            first = n - len(C)
            last = (arms[first:], C, outcomes[first:])
            scaled.fold_recent(self.recent, num, before + first, *last)
        kernel.sum_many(post, arms, contexts, outcomes)
        num[COUNT] += n
        for place, terms in ((SUM, outcomes), (SQUARES, outcomes * outcomes)):
            num[place] = kernel.add_in_order(float(num[place]), terms)
        num[MASS] += n
        if keeps:
            scaled.turn_recent(post, self.recent, self.prior)
            scaled.keep_rates(num)
        self._find_at_once(int(num[COUNT]).bit_length() > before.bit_length())

    def scores(self, context: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of every arm's reward: two arrays of K."""
        c = validation.vector(context, self.features, "context", "ScaledArms.scores")
        mean, sd = self.pulled_scores(c[None, :], self.pull)
        return mean[0], sd[0] * self.noise

    def scores_many(self, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of every arm's reward for each context: two arrays (n, K)."""
        C = validation.matrix(contexts, self.features, "contexts", "ScaledArms.scores_many")
        each = [self.scores(c) for c in C]
        shape = (len(C), self.arms)
        mean, sd = (np.array([one[i] for one in each]).reshape(shape) for i in (0, 1))
        return mean, sd

    def grow(self, arms: int = 1) -> None:
        """Add arms that know nothing yet, after the others."""
        super().grow(arms)
        if self._keeps_recent:
            new = _all_recent(arms, self.features, self._block())
            joined: Any = map(np.concatenate, zip(self.recent, new, strict=True))
            self.recent = Recent(*joined)

    def reset(self, arm: int) -> None:
        """Forget every example of one arm; the mean of all rewards and the noise stay."""
        super().reset(arm)
        if self._keeps_recent:
            new = _all_recent(1, self.features, self._block())
            for mine, blank in zip(self.recent, new, strict=True):
                mine[arm] = blank[0]

    def merge(self, other: LinearArms) -> None:
        """Take in what `other` learned apart from these arms; the scale is found anew.

        What is recent is that of both.
        """
        kind = (self.arms, self.features, self.forget)
        if not isinstance(other, ScaledArms) or kind != (other.arms, other.features, other.forget):
            wanted = f"ScaledArms of the same (arms, features, forget) {kind}"
            raise InvalidValue("other", "ScaledArms.merge", wanted, other)
        its = other.copy()
        for each in (self, its):
            block = each._block()
            scaled.fade_all_recent(each.kernel_state, each.recent, each.prior, block)
        for mine, others in zip(self.recent[:2], its.recent[:2], strict=True):
            mine += others
        # Of its sums all that is left of the prior is what `merge_sums` takes out.
        scaled.change_mean(its.kernel_state, its.prior, np.zeros(self.features))
        scaled.change_precision(its.kernel_state, its.prior, self.ridge, self.ridge)
        kernel.merge_sums(self.kernel_state, its.kernel_state)
        kernel.refresh_all(self.kernel_state)
        self.num[COUNT:NOISE] += its.num[COUNT:NOISE]
        self.num[scaled.NEW_SUM : SURPLUS] += its.num[scaled.NEW_SUM : SURPLUS]
        self.recent.stamps[:] = -1 - self._block()
        scaled.keep_rates(self.num)
        self._find(True)

    def copy(self) -> ScaledArms:
        """Arms with the same knowledge that learn apart from now on."""
        twin = object.__new__(ScaledArms)
        mine = arrays_of(self.kernel_state)
        twin.kernel_state = Posterior(
            **{name: part.copy() for name, part in mine.items()}, ridge=self.ridge
        )
        twin.recent = _copied(self.recent)
        twin.num, twin.prior, twin._kept = self.num.copy(), self.prior.copy(), None
        twin._work = _work(self.features)
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that the arms know, as named arrays."""
        state = {**super().to_state(), "num": self.num.copy(), "prior": self.prior.copy()}
        if self._keeps_recent:
            recent = self.recent._asdict().items()
            state |= {f"recent_{name}": part.copy() for name, part in recent}
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Arms as they were at `to_state`: what follows has the same bits as with no pause."""
        if not isinstance(state, Mapping) or not {"num", "prior"} <= set(state):
            raise CorruptState("ScaledArms needs the arrays 'num' and 'prior', too.")
        parts = dict(state)
        num, prior = parts.pop("num"), parts.pop("prior")
        names = [f"recent_{name}" for name in Recent._fields]
        recent = [parts.pop(name) for name in names if name in parts]
        self = super().from_state(parts)
        _check_numbers(num)
        _check_prior(prior, self.features, self.ridge)
        if (num[HALF_LIFE] == AUTO) != bool(recent):
            raise CorruptState("ScaledArms: what is recent is there exactly where it is 'auto'.")
        self.num, self.prior, self._work = num.copy(), prior.copy(), _work(self.features)
        self.recent = _all_recent(self.arms if recent else 0, self.features, self._block())
        if recent:
            _check_recent(recent, self.recent, self._block())
            self.recent = _copied(recent)
        return self

    @property
    def _keeps_recent(self) -> bool:
        return bool(self.recent.stamps.size)

    def _block(self) -> int:
        return int(self.num[COUNT]) // scaled.BLOCK

    def _begin_anew(self) -> None:
        """Let what is recent take the place of what was learned."""
        post, num = self.kernel_state, self.num
        scaled.fade_all_recent(post, self.recent, self.prior, self._block())
        scaled.begin_anew(post, self.recent)
        kernel.refresh_all(post)
        num[SUM:NOISE] = num[scaled.NEW_SUM : SURPLUS]
        num[SURPLUS] = 0.0
        scaled.keep_rates(num)

    def _find(self, precision: bool) -> None:
        """Find what arms have in common and the noise anew, and the prior's precision if asked."""
        total, sums = self._totals()
        self._set_common(self._found_common(total, sums, False))
        if precision:
            self._find_precision(total, sums, scaled.RIDGE_GUESS, scaled.RIDGE_DOUBT)
        self._find_noise(total, sums)

    def _find_at_once(self, precision: bool) -> None:
        """Find all of it where only the sums are right, and compute A and μ by them."""
        total, sums = self._totals()
        self.num[NOISE] = scaled.scatter(self.num)  # until more is known
        common = self._found_common(total, sums, precision)
        scaled.change_mean(self.kernel_state, self.prior, common)
        if precision:
            guess = scaled.guess_of(self.rate, self.noise)
            self._find_precision(total, sums, guess, scaled.SCALE_DOUBT)
        kernel.refresh_all(self.kernel_state)
        self._find_noise(total, sums)

    def _totals(self) -> tuple[Floats, Floats]:
        d = self.features
        total, sums = np.empty((d, d)), np.empty(d)
        scaled.add_up(self.kernel_state, self.prior, self.num, total, sums)
        return total, sums

    def _found_common(self, total: Floats, sums: Floats, hold: bool) -> Floats:
        common = np.empty(self.features)
        scaled.find_common(total, sums, self.num, hold, common)
        return common

    def _find_precision(self, total: Floats, sums: Floats, guess: float, doubt: float) -> None:
        """Find the prior's precision anew; where it changes, compute A and μ by it."""
        post = self.kernel_state
        slopes, intercept = scaled.best_prior(post, self.prior, self.num, total, sums, guess, doubt)
        if (slopes, intercept) != (self.prior[PRECISION, 0], self.ridge):
            scaled.change_precision(post, self.prior, slopes, intercept)
            self.kernel_state = post._replace(ridge=intercept)
            kernel.refresh_all(self.kernel_state)

    def _find_noise(self, total: Floats, sums: Floats) -> None:
        num = self.num
        num[NOISE] = scaled.noise_of(self.kernel_state, self.prior, num, total, sums)
        num[WIDTH] = scaled.width_of(num[MASS])
        self._kept = None

    def _set_common(self, common: Floats) -> None:
        scaled.shift(self.kernel_state, self.prior, common)

    def _untrained(self, arms: int) -> Posterior:
        """Return arms that expect what all have in common."""
        post, prior = untrained(arms, self.features, self.ridge), np.zeros((2, self.features))
        prior[PRECISION] = self.ridge
        slopes = float(self.prior[PRECISION, 0])
        scaled.change_precision(post, prior, slopes, self.ridge)
        scaled.change_mean(post, prior, self.prior[scaled.MEAN])
        kernel.refresh_all(post)
        return post


def with_last(contexts: Floats, width: int) -> Floats:
    """Return contexts (n, width), with the trailing 1 that they may lack."""
    if contexts.shape[1] == width:
        return contexts
    return np.hstack([contexts, np.ones((len(contexts), 1))])


def _all_recent(arms: int, features: int, block: int) -> Recent:
    """Return arms of which nothing has faded up to a block."""
    return Recent(
        gram=np.zeros((arms, features * (features + 1) // 2)),
        f=np.zeros((arms, features)),
        weights=np.zeros((arms, 2, features)),
        scales=np.zeros((arms, 3)),
        stamps=np.full(arms, -1 - block, np.int64),
    )


def _copied(parts: Iterable[npt.NDArray[Any]]) -> Recent:
    copies: Any = (part.copy() for part in parts)
    return Recent(*copies)


def _work(features: int) -> tuple[Places, Floats, Floats]:
    """Return what `fold` works in."""
    return np.zeros(features, np.uint32), np.zeros(features), np.zeros(2)


def _check_recent(given: Sequence[npt.NDArray[Any]], blank: Recent, block: int) -> None:
    """Raise `CorruptState` unless arrays are what is recent of such arms."""
    right = len(given) == len(blank) and all(
        one.shape == other.shape and one.dtype == other.dtype and np.isfinite(one).all()
        for one, other in zip(given, blank, strict=True)
    )
    if not right or (np.maximum(given[-1], -1 - given[-1]) > block).any():
        raise CorruptState("ScaledArms: what is recent is not of these arms.")


def _check_numbers(num: npt.NDArray[Any]) -> None:
    """Raise `CorruptState` unless these are numbers that arms can have."""
    right = num.shape == (scaled.NUMBERS,) and num.dtype == np.float64
    if not right or not np.isfinite(num).all():
        raise CorruptState("ScaledArms: array 'num' is not what it must be.")
    half_life = float(num[HALF_LIFE])
    sane = (
        (num[:HALF_LIFE] >= 0.0).all()
        and (num[scaled.RATE :] >= 0.0).all()
        and num[NOISE] > 0.0
        and 0.0 < num[WIDTH] <= 1.0
        and float(num[COUNT]).is_integer()
        and (half_life in (NEVER, AUTO) or HALF_LIVES.low <= half_life <= HALF_LIVES.high)
    )
    if not sane:
        raise CorruptState("ScaledArms: array 'num' holds numbers out of range.")


def _check_prior(prior: npt.NDArray[Any], features: int, ridge: float) -> None:
    """Raise `CorruptState` unless arms of this ridge can have it."""
    right = prior.shape == (2, features) and prior.dtype == np.float64
    if not right or not np.isfinite(prior).all():
        raise CorruptState("ScaledArms: array 'prior' is not what it must be.")
    held = prior[PRECISION]
    if held[-1] != ridge or not (held[:-1] == held[0]).all() or held[0] < ridge:
        raise CorruptState("ScaledArms: array 'prior' does not go with the ridge.")

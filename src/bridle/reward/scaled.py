"""ScaledArms: each arm's posterior, with a scale that it finds, and that follows change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import CorruptState, InvalidValue
from bridle.kernels import posterior as kernel
from bridle.kernels import scaled
from bridle.kernels.scaled import COUNT, HALF_LIFE, MASS, NOISE, SQUARES, SUM, SURPLUS, WIDTH
from bridle.kernels.types import Floats, Ints, Posterior
from bridle.reward.base import AUTO, HALF_LIVES, NEVER, Forget, half_life_of
from bridle.reward.posterior import LinearArms, arrays_of, untrained

__all__ = ["ScaledArms"]

# Of rewards that are learned in bulk, only so many half-lives are recent.
TAIL = int(8 * scaled.RECENT)


class ScaledArms(LinearArms):
    """LinearArms that find their prior and the noise in what they learn, and forget.

    Before it is played an arm is expected to earn what is earned on average in such a context: its
    weights are N(r̄e + w, s²/ridge·I), e the trailing 1 of contexts, r̄ the mean of all rewards, w
    what explains r − r̄ of all plays together. The noise s, w, and the ridge are found in what was
    learned of all arms, at fixed counts of examples: s and w eight times while the count doubles,
    the ridge, by its evidence, whenever it is four times what it was. So the spread of a draw,
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
        self.common: Floats = np.zeros(features)
        self.kernel_state = self._untrained(arms)
        self.num = np.zeros(scaled.NUMBERS)
        self.num[WIDTH] = 1.0
        self.num[NOISE] = np.sqrt(scaled.FIRST_SQUARE)
        self.recent = _none(self.features, self.ridge)
        self.stamps: Ints = np.zeros(0, np.int64)
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
    def pull(self) -> float:
        """How far the means of arms are drawn to r̄: see `kernels.loop.pull_of`."""
        total, mass = self.num[SUM : MASS + 1].tolist()  # without a call of a kernel
        pull: float = self.ridge * (total + scaled.FIRST) / (mass + 1.0)
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
        if forget == "auto" and not self.stamps.size:
            # What was learned so far is as recent as any.
            self.recent = _copied(self.kernel_state)
            self.stamps = np.full(self.arms, self._block(), np.int64)
            self.num[scaled.NEW_SUM : SURPLUS] = self.num[SUM:NOISE]
        elif forget != "auto":
            self.recent = _none(self.features, self.ridge)
            self.stamps = np.zeros(0, np.int64)
            self.num[scaled.NEW_SUM : SURPLUS] = 0.0

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
            *self.kernel_state[:-1],
            *self.recent[:-1],
            self.kernel_state.ridge,
            self.common,
            self.stamps,
            self.num,
            arm,
            context,
            outcome,
        )
        return due

    def rescale(self) -> None:
        """Find the scale anew, forget, or begin anew: what is due at this count of examples."""
        num, n = self.num, int(self.num[COUNT])
        if num[SURPLUS] > scaled.SURE:
            self._begin_anew()
        if num[HALF_LIFE] > 0.0 and n % (every := scaled.block_of(num[HALF_LIFE])) == 0:
            g = 2.0 ** (-every / float(num[HALF_LIFE]))
            scaled.fade_all(self.kernel_state, self.common, g)
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
                self.common,
                self.stamps,
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
        num, before = self.num, int(self.num[COUNT])
        if self.stamps.size:
            C = with_last(contexts[-TAIL:], self.features)
            first = len(outcomes) - len(C)
            scaled.fold_recent(
                self.recent,
                self.common,
                self.stamps,
                num,
                before + first,
                arms[first:],
                C,
                outcomes[first:],
            )
        kernel.sum_many(self.kernel_state, arms, contexts, outcomes)
        num[COUNT] += len(outcomes)
        for place, terms in ((SUM, outcomes), (SQUARES, outcomes * outcomes)):
            num[place] = kernel.add_in_order(float(num[place]), terms)
        num[MASS] += len(outcomes)
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
        if self.stamps.size:
            new = arrays_of(self._untrained(arms))
            old = arrays_of(self.recent)
            joined = {name: np.concatenate([old[name], new[name]]) for name in old}
            self.recent = Posterior(**joined, ridge=self.ridge)
            self.stamps = np.concatenate([self.stamps, np.full(arms, self._block(), np.int64)])

    def reset(self, arm: int) -> None:
        """Forget every example of one arm; the mean of all rewards and the noise stay."""
        super().reset(arm)
        if self.stamps.size:
            new = arrays_of(self._untrained(1))
            for name, mine in arrays_of(self.recent).items():
                mine[arm] = new[name][0]

    def merge(self, other: LinearArms) -> None:
        """Take in what `other` learned apart from these arms; the scale is found anew.

        What is recent is that of both.
        """
        kind = (self.arms, self.features, self.forget)
        if not isinstance(other, ScaledArms) or kind != (other.arms, other.features, other.forget):
            wanted = f"ScaledArms of the same (arms, features, forget) {kind}"
            raise InvalidValue("other", "ScaledArms.merge", wanted, other)
        its = other.copy()
        its._change_ridge(self.ridge)
        its._set_common(self.common)
        pairs = [(self.kernel_state, its.kernel_state)]
        if self.stamps.size:
            for each in (self, its):
                scaled.fade_all_to(each.recent, each.common, each.stamps, each._block())
            pairs.append((self.recent, its.recent))
            self.num[scaled.NEW_SUM : SURPLUS] += its.num[scaled.NEW_SUM : SURPLUS]
        for mine, others in pairs:
            scaled.expect(others, its.common, -1.0)
            kernel.merge_sums(mine, others)
            kernel.refresh_all(mine)
        self.num[COUNT:NOISE] += its.num[COUNT:NOISE]
        if self.stamps.size:
            self.stamps[:] = self._block()
        self._find(True)

    def copy(self) -> ScaledArms:
        """Arms with the same knowledge that learn apart from now on."""
        twin = object.__new__(ScaledArms)
        twin.kernel_state, twin.recent = _copied(self.kernel_state), _copied(self.recent)
        twin.num, twin.stamps, twin._kept = self.num.copy(), self.stamps.copy(), None
        twin.common = self.common.copy()
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that the arms know, as named arrays."""
        state = {**super().to_state(), "num": self.num.copy(), "common": self.common.copy()}
        if self.stamps.size:
            recent = {
                f"recent_{name}": part.copy() for name, part in arrays_of(self.recent).items()
            }
            state |= {**recent, "stamps": self.stamps.copy()}
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Arms as they were at `to_state`: what follows has the same bits as with no pause."""
        if not isinstance(state, Mapping) or not {"num", "common", "ridge"} <= set(state):
            raise CorruptState("ScaledArms needs the arrays 'num', 'common' and 'ridge', too.")
        parts = dict(state)
        num, common, ridge = parts.pop("num"), parts.pop("common"), parts["ridge"]
        stamps = parts.pop("stamps", np.zeros(0, np.int64))
        recent = {
            name.removeprefix("recent_"): parts.pop(name)
            for name in list(parts)
            if name.startswith("recent_")
        }
        self = super().from_state(parts)
        _check_numbers(num)
        right = common.shape == (self.features,) and common.dtype == np.float64
        if not right or not np.isfinite(common).all():
            raise CorruptState("ScaledArms: array 'common' is not what it must be.")
        if (num[HALF_LIFE] == AUTO) != bool(recent):
            raise CorruptState("ScaledArms: what is recent is there exactly where it is 'auto'.")
        self.recent = _none(self.features, self.ridge)
        if recent:
            self.recent = LinearArms.from_state({**recent, "ridge": ridge}).kernel_state
        block = int(num[COUNT]) // int(scaled.block_of(scaled.RECENT))
        if (
            stamps.shape != (self.arms if recent else 0,)
            or stamps.dtype != np.int64
            or (recent and self.recent.mu.shape != self.kernel_state.mu.shape)
            or (np.maximum(stamps, -1 - stamps) > block).any()
        ):
            raise CorruptState("ScaledArms: what is recent is not of these arms.")
        self.num, self.stamps, self.common = num.copy(), stamps.copy(), common.copy()
        return self

    def _block(self) -> int:
        return int(self.num[COUNT]) // int(scaled.block_of(scaled.RECENT))

    def _begin_anew(self) -> None:
        """Let what is recent take the place of what was learned."""
        scaled.fade_all_to(self.recent, self.common, self.stamps, self._block())
        mine, new = arrays_of(self.kernel_state), arrays_of(self.recent)
        for name in mine:
            if name != "times":  # plays are counted on
                mine[name][:] = new[name]
        self.num[SUM:NOISE] = self.num[scaled.NEW_SUM : SURPLUS]
        self.num[SURPLUS] = 0.0

    def _find(self, ridge: bool) -> None:
        """Find what arms have in common and the noise anew, and the ridge if asked."""
        total, sums = self._totals()
        self._set_common(self._found_common(total, sums, False))
        if ridge:
            found = self._found_ridge(total, sums, scaled.RIDGE_GUESS, scaled.RIDGE_DOUBT)
            if found != self.ridge:
                self._change_ridge(found)
        self._find_noise(total, sums)

    def _find_at_once(self, ridge: bool) -> None:
        """Find all of it where only the sums are right, and compute A and μ by them."""
        total, sums = self._totals()
        self.num[NOISE] = scaled.scatter(self.num)  # until more is known
        common = self._found_common(total, sums, ridge)
        both = (self.kernel_state, self.recent)
        for post in both:
            scaled.expect(post, common - self.common, 1.0)
        self.common = common
        if ridge:
            guess = scaled.guess_of(self.rate, self.noise)
            found = self._found_ridge(total, sums, guess, scaled.SCALE_DOUBT)
            for post in both:
                scaled.change_prior(post, common, found - post.ridge)
            self.kernel_state, self.recent = (post._replace(ridge=found) for post in both)
        kernel.refresh_all(self.kernel_state)
        self.stamps = np.where(self.stamps < 0, self.stamps, -1 - self.stamps)
        self._find_noise(total, sums)

    def _totals(self) -> tuple[Floats, Floats]:
        d = self.features
        total, sums = np.empty((d, d)), np.empty(d)
        scaled.add_up(self.kernel_state, self.common, self.num, total, sums)
        return total, sums

    def _found_common(self, total: Floats, sums: Floats, hold: bool) -> Floats:
        common = np.empty(self.features)
        scaled.find_common(total, sums, self.num, hold, common)
        return common

    def _found_ridge(self, total: Floats, sums: Floats, guess: float, doubt: float) -> float:
        return float(
            scaled.best_ridge(self.kernel_state, self.common, self.num, total, sums, guess, doubt)
        )

    def _find_noise(self, total: Floats, sums: Floats) -> None:
        num = self.num
        num[NOISE] = scaled.noise_of(self.kernel_state, self.common, num, total, sums)
        num[WIDTH] = scaled.width_of(num[MASS])
        self._kept = None

    def _set_common(self, common: Floats) -> None:
        for post in (self.kernel_state, self.recent):
            scaled.shift(post, common - self.common)
        self.common = common.copy()

    def _change_ridge(self, ridge: float) -> None:
        both = []
        for post in (self.kernel_state, self.recent):
            scaled.change_prior(post, self.common, ridge - post.ridge)
            both.append(post._replace(ridge=ridge))
            kernel.refresh_all(both[-1])
        self.kernel_state, self.recent = both

    def _untrained(self, arms: int) -> Posterior:
        """Return arms that expect what all have in common."""
        post = untrained(arms, self.features, self.ridge)
        scaled.expect(post, self.common, 1.0)
        kernel.refresh_all(post)
        return post


def with_last(contexts: Floats, width: int) -> Floats:
    """Return contexts (n, width), with the trailing 1 that they may lack."""
    if contexts.shape[1] == width:
        return contexts
    return np.hstack([contexts, np.ones((len(contexts), 1))])


def _none(features: int, ridge: float) -> Posterior:
    return untrained(0, features, ridge)


def _copied(post: Posterior) -> Posterior:
    return Posterior(
        **{name: part.copy() for name, part in arrays_of(post).items()}, ridge=post.ridge
    )


def _check_numbers(num: npt.NDArray[Any]) -> None:
    """Raise `CorruptState` unless these are numbers that arms can have."""
    right = num.shape == (scaled.NUMBERS,) and num.dtype == np.float64
    if not right or not np.isfinite(num).all():
        raise CorruptState("ScaledArms: array 'num' is not what it must be.")
    half_life = float(num[HALF_LIFE])
    sane = (
        (num[:HALF_LIFE] >= 0.0).all()
        and num[NOISE] > 0.0
        and 0.0 < num[WIDTH] <= 1.0
        and float(num[COUNT]).is_integer()
        and (half_life in (NEVER, AUTO) or HALF_LIVES.low <= half_life <= HALF_LIVES.high)
    )
    if not sane:
        raise CorruptState("ScaledArms: array 'num' holds numbers out of range.")

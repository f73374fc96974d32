"""SharedArms: one linear posterior over joint features of contexts and arms, with own effects."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import CorruptState, InvalidValue, LimitReached
from bridle.kernels import shared as kernel
from bridle.kernels.keys import bits_of
from bridle.kernels.shared import (
    ARMS,
    FIXED,
    GAMMA,
    KINDS,
    LAM,
    MASS,
    NOISE,
    OLD,
    PASSED,
    PLAYS,
    RHO,
    SIZE,
    Shared,
)
from bridle.kernels.types import Bools, Floats, Ints, Singles, Uints, Wholes

__all__ = ["MAX_JOINT", "SharedArms", "kept_pairs"]

MAX_ARMS = 4_000_000
# Of joint features: the covariance has MAX_JOINT² numbers.
MAX_JOINT = 4096
# So many arms that are added later are kinds of their own, before all are put in order again.
LATE = 1_024
HALF_LIFE = validation.FloatRange(10.0, 1e12)
NOISE_RANGE = validation.FloatRange(1e-6, 1e6)
OWN_RANGE = validation.FloatRange(0.0, 1e6)
DRAWS = validation.IntRange(1, 10_000_000)
# How much of the honest posterior spread draws have by themselves.
OWN_SPREAD = 0.3
# `forget="auto"` keeps what is known beside the same with two half-lives: the shorter one of so
# many plays for each joint feature, as the fewer say little, and at least so many; the longer one.
PLAYS_EACH, SHORTEST, LONGER = 4.0, 300.0, 5.0
# How much better, in log likelihood, another one must have predicted before it takes the lead.
MARGIN = 3.0


def kept_pairs(features: int, arm_features: int, interactions: object = "all") -> Bools:
    """Return which entries of (1, x) ⊗ (1, a) are kept: a mask (d+1, p+1).

    "all" keeps every product, "none" the constant, x and a alone; a mask is taken as it is.
    """
    mask = np.ones((features + 1, arm_features + 1), np.bool_)
    if isinstance(interactions, str) and interactions == "none":
        mask[1:, 1:] = False
    elif not (isinstance(interactions, str) and interactions == "all"):
        mask = np.array(interactions)
        if mask.dtype != np.bool_ or mask.shape != (features + 1, arm_features + 1):
            wanted = f"'all', 'none' or a mask of bools ({features + 1}, {arm_features + 1})"
            raise InvalidValue("interactions", "SharedArms", wanted, interactions)
    if not mask.any():
        raise InvalidValue("interactions", "SharedArms", "a mask that keeps something", mask)
    if mask.sum() > MAX_JOINT:
        remedy = (
            f"These interactions make {int(mask.sum())}: name the pairs that matter in "
            "'interactions', or use interactions='none'."
        )
        raise LimitReached("joint features", MAX_JOINT, remedy)
    return mask


class SharedArms:
    """A Bayesian linear model of reward over joint features, shared by all arms.

    r = θᵀφ(x, a_k) + u_k + noise with φ = (1, x) ⊗ (1, a): θ ~ N(r̄e₀, s²Λ⁻¹) is shared, the own
    effect u_k ~ N(0, ρs²) lets arms that look alike differ. Own effects are integrated out exactly.
    Λ is diagonal, with a λ for what the context alone says, one for the arm alone, and one for what
    both say together. The noise s follows from the residuals; λs and ρ have the largest posterior
    probability on fixed grids after 12, 24, 48, … plays, unless they are set. r̄ is the mean of all
    rewards. Where ρ is not set, draws of own effects are wider than those of θ: how much arms
    differ is learned from the few that are played, and what looks like nothing is never looked at
    again.

    What is known is a function of the plays in their order, bit for bit, however they are split
    into batches. Arms are numbers; `fold` and the like take what was checked before.

    Parameters
    ----------
    rows : array of (K, p)
        Encoded features of the arms.
    features : int
        Length of a context, d.
    interactions : "all", "none" or mask (d+1, p+1), default "all"
        Which products of (1, x) and (1, a) are features.
    lam : float or three of them, optional
        Fixed values of λ: for the joint features of the context alone (with the constant), of the
        arm alone, and of both.
    rho, noise : float, optional
        Fixed values of ρ and s. λ and ρ are set together or not at all.
    forget : float or "auto", optional
        Plays after which what was learned has half its weight; None: never. "auto" learns with no
        half-life, a long one and a short one side by side, and all that it says and draws is that
        of the one which has foreseen recent rewards best: thrice the memory, four times the work.

    Examples
    --------
    >>> arms = SharedArms(rows=[[0.0], [1.0], [1.0]], features=1)
    >>> for _ in range(20):
    ...     arms.update(0, [1.0], 0.2)
    ...     arms.update(1, [1.0], 0.8)
    >>> mean, sd = arms.scores([1.0])
    >>> bool(mean[2] > 0.55)  # never played: what arm 1 taught
    True
    """

    def __init__(
        self,
        *,
        rows: npt.ArrayLike,
        features: int,
        interactions: object = "all",
        lam: float | Sequence[float] | None = None,
        rho: float | None = None,
        noise: float | None = None,
        forget: float | Literal["auto"] | None = None,
    ) -> None:
        d = validation.IntRange(0, MAX_JOINT).check(features, "features", "SharedArms")
        A = _rows(rows, None)
        if (lam is None) != (rho is None):
            raise InvalidValue("rho", "SharedArms", "set if 'lam' is, and None if not", rho)
        self.kept = kept_pairs(d, A.shape[1], interactions)
        state = _untrained(self.kept)
        if lam is not None and rho is not None:
            state.counts[FIXED] = 1
            state.num[kernel.OWN] = 1.0
            state.num[LAM : LAM + KINDS] = _lams(lam)
            state.num[RHO] = OWN_RANGE.check(rho, "rho", "SharedArms")
        if noise is not None:
            state.num[NOISE] = NOISE_RANGE.check(noise, "noise", "SharedArms")
        self._arrays = state
        self._stale = False  # whether arms have other features than when they were ordered
        self._tail = 0  # arms that were added since, one kind each
        self.computed = 0  # own effects that the last choice needed
        # With forget="auto" the rivals; `kernel_state` is that of the one in the lead.
        self._rivals: list[SharedArms] = []
        self._lead = 0
        self._merits = np.zeros(0)  # faded log likelihoods of the rewards foreseen, one a rival
        kernel.refresh(state)
        self.grow(A)
        self._stale = True
        if forget is not None:
            self.forget(forget)

    # -- what there is ----------------------------------------------------------------------

    @property
    def kernel_state(self) -> Shared:
        """The arrays that kernels take, with the arms in order by their features."""
        if self._stale:
            self._arrange()
        return self._arrays

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return int(self._arrays.counts[ARMS])

    @property
    def kinds(self) -> int:
        """Number of kinds: arms with equal features are one, but for a few that were added late."""
        return int(self.kernel_state.sizes[0])

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return int(self.kept.shape[0] - 1)

    @property
    def arm_features(self) -> int:
        """Length of an arm's features, p."""
        return int(self.kept.shape[1] - 1)

    @property
    def joint_features(self) -> int:
        """Number of kept joint features, D."""
        return int(self.kernel_state.vec.shape[1])

    @property
    def rows(self) -> Floats:
        """Features of the arms, (K, p)."""
        return self.kernel_state.rows[: self.arms, 1:].copy()

    @property
    def counts(self) -> Floats:
        """Plays folded, by arm; with forgetting their weight."""
        return np.asarray(self.kernel_state.own[: self.arms, 0] * self.kernel_state.num[PASSED])

    @property
    def plays(self) -> int:
        """Plays folded, all together."""
        return int(self.kernel_state.counts[PLAYS])

    @property
    def scale(self) -> float:
        """The standard deviation of the noise, s."""
        return float(kernel.noise(self.kernel_state))

    @property
    def spread(self) -> float:
        """The rule's own spread of draws, in units of the posterior's standard deviation."""
        return OWN_SPREAD

    @property
    def lam(self) -> tuple[float, float, float]:
        """λ = s²/τ², the prior's precision in units of the noise's.

        Three: of joint features of the context alone (with the constant), the arm alone, and both.
        """
        of_context, of_arm, of_both = self.kernel_state.num[LAM : LAM + KINDS].tolist()
        return of_context, of_arm, of_both

    @property
    def ridge(self) -> Floats:
        """The λ of every kept joint feature, (D,)."""
        out = np.empty(self.joint_features)
        kernel.ridges(self.kernel_state.at, self.kernel_state.num[LAM : LAM + KINDS], out)
        return out

    @property
    def rho(self) -> float:
        """ρ = ω²/s², the variance of own effects in units of the noise's."""
        return float(self.kernel_state.num[RHO])

    @property
    def base_rate(self) -> float:
        """The mean of all rewards, r̄."""
        return float(kernel.base_rate(self.kernel_state))

    @property
    def half_life(self) -> float | None:
        """Plays after which what was learned has half its weight; None: never."""
        gamma = float(self.kernel_state.num[GAMMA])
        return None if gamma == 1.0 else math.log(0.5) / math.log(gamma)

    @property
    def half_lives(self) -> tuple[float | None, ...]:
        """With forget="auto", half-lives that are tried side by side; else empty."""
        return tuple(rival.half_life for rival in self._rivals)

    @property
    def theta(self) -> Floats:
        """The posterior mean of θ, (d+1, p+1), 0 where a joint feature is not kept."""
        mean = np.empty(self.joint_features)
        kernel.centre(self.kernel_state, mean)
        out = np.zeros(self.kept.shape)
        out[self.kept] = mean
        return out

    @property
    def covariance(self) -> Floats:
        """The posterior covariance of θ over the kept joint features, (D, D), s² included."""
        st = self.kernel_state
        return np.asarray(st.lower @ st.lower.T * (self.scale**2 / st.num[PASSED]))

    @property
    def memory_per_arm(self) -> int:
        """Bytes that one more arm takes."""
        st = self.kernel_state
        names = (
            "rows",
            "X",
            "own",
            "old_of",
            "kind_of",
            "order",
            "place_of",
            "kinds",
            "seats",
            "seat_of",
        )
        one = sum(getattr(st, name).nbytes for name in names) / len(st.rows)
        one += st.hint.nbytes / st.hint.shape[1]
        one += (st.tiles.nbytes + st.marks.nbytes + st.starts.nbytes) / self.arms
        total = max(1, len(self._rivals)) * float(one)
        return math.ceil(total)

    def own_effects(self, arms: Ints | None = None) -> tuple[Floats, Floats]:
        """Mean and standard deviation of own effects at the posterior mean of θ, and given it."""
        st = self.kernel_state
        which = self._which(arms)
        mean = np.empty(self.joint_features)
        kernel.centre(st, mean)
        kappa = st.num[RHO] / (1.0 + st.num[RHO] * st.num[PASSED] * st.own[which, 0])
        grid, means = np.empty((st.rows.shape[1], st.X.shape[1])), np.empty(st.X.shape[1])
        kernel.grid_of(st.at, mean, grid)
        fits = np.empty(len(which))
        for i, k in enumerate(which.tolist()):
            kernel.column_sums(grid, st.rows[k], means)
            fits[i] = kernel.fitted(st.X, st.old_of, st.old, k, mean, means)
        effects = kappa * st.num[PASSED] * (st.own[which, 1] - fits)
        return effects, self.scale * np.sqrt(kappa)

    # -- learning ---------------------------------------------------------------------------

    def update(self, arm: int, context: npt.ArrayLike, outcome: float) -> None:
        """Fold the reward that an arm earned in a context."""
        k = validation.IntRange(0, self.arms - 1).check(arm, "arm", "SharedArms.update")
        x = validation.vector(context, self.features, "context", "SharedArms.update")
        r = validation.OUTCOME.check(outcome, "outcome", "SharedArms.update")
        self.fold(k, x, r)

    def update_many(
        self, arms: npt.ArrayLike, contexts: npt.ArrayLike, outcomes: npt.ArrayLike
    ) -> None:
        """Fold plays in order: the bits of `update` one by one."""
        owner = "SharedArms.update_many"
        C = validation.matrix(contexts, self.features, "contexts", owner)
        y = validation.outcomes(outcomes, len(C), "outcomes", owner)
        k = validation.indices(arms, len(C), self.arms, "arms", owner)
        self.fold_many(k, C, y)

    def fold(self, arm: int, context: Floats, outcome: float) -> None:
        """`update` for values that were checked before."""
        if self._rivals:
            self._fold_rivals(arm, context, outcome)
        else:
            kernel.fold_one(*self.kernel_state, arm, context, outcome)

    def fold_many(self, arms: Ints, contexts: Floats, outcomes: Floats) -> None:
        """`update_many` for values that were checked before."""
        if self._rivals:
            for k, x, r in zip(arms.tolist(), contexts, outcomes.tolist(), strict=True):
                self._fold_rivals(k, x, r)
        else:
            kernel.fold_many(self.kernel_state, arms, contexts, outcomes)

    def _fold_rivals(self, arm: int, context: Floats, outcome: float) -> None:
        """Fold one play into every rival, after what each has foreseen of it.

        All errors are measured by the noise of the one in the lead: that is proper for means, of
        clicks, too, and nobody wins by what it says of its own noise.
        """
        fading = 0.5 ** (1.0 / float(self._rivals[-1].half_life or math.inf))
        square = self.scale**2
        which = np.array([arm])
        for i, rival in enumerate(self._rivals):
            off = outcome - float(rival.draw(context, 0, 0.0, which)[0])
            self._merits[i] = fading * self._merits[i] - 0.5 * off * off / square
        for rival in self._rivals:
            rival.fold(arm, context, outcome)
        self._follow()

    def _follow(self) -> None:
        """Let the best rival lead if it is far enough ahead."""
        best = int(self._merits.argmax())
        if self._merits[best] > self._merits[self._lead] + MARGIN:
            self._lead = best
        self._arrays, self._stale = self._rivals[self._lead].kernel_state, False

    def grow(self, rows: npt.ArrayLike) -> None:
        """Add arms that nobody played yet, after the others: rows (n, p)."""
        more = _rows(rows, self.arm_features)
        K = self.arms
        if not K + len(more):
            raise InvalidValue("rows", "SharedArms", "at least one arm", rows)
        if K + len(more) > MAX_ARMS:
            raise LimitReached("arms", MAX_ARMS, "Split the catalogue over several agents.")
        if self._rivals:
            for rival in self._rivals:
                rival.grow(more)
            self._follow()
            return
        self._arrays = st = _with_room(self._arrays, K + len(more))
        st.rows[K : K + len(more), 0] = 1.0
        st.rows[K : K + len(more), 1:] = more
        st.counts[ARMS] += len(more)
        self._tail += len(more)
        if self._stale or self._tail > max(LATE, K // 8):
            self._stale = True
            return
        st.order[K : K + len(more)] = np.arange(K, K + len(more))
        self._arrays = st = _with_kinds(st, int(st.sizes[0]) + len(more))
        kernel.arrange(st, K, np.ones(len(more), np.bool_))

    def change(self, arm: int, row: npt.ArrayLike) -> None:
        """Change the features of an arm: what it earned before counts with the old ones."""
        k = validation.IntRange(0, self.arms - 1).check(arm, "arm", "SharedArms.change")
        new = validation.vector(row, self.arm_features, "row", "SharedArms.change")
        if self._rivals:
            for rival in self._rivals:
                rival.change(k, new)
            self._follow()
            return
        st = self._arrays
        if st.own[k, 0] > 0.0:
            st = self._with_old(k)
            kernel.keep_old(st, k)
        st.rows[k, 1:] = new
        self._stale = True

    def forget(self, half_life: float | Literal["auto"] | None) -> None:
        """From now on, let what was learned have half its weight after so many plays.

        None: all of it keeps the weight that it has. "auto": see the parameter of that name. What
        is known keeps its weight at this moment, and after "auto" it is what the leader knows.
        """
        if isinstance(half_life, str):
            if half_life != "auto":
                wanted = "a number of plays, 'auto' or None"
                raise InvalidValue("half_life", "SharedArms.forget", wanted, half_life)
            if not self._rivals:
                short = max(SHORTEST, PLAYS_EACH * self.joint_features)
                rivals = [self.copy() for _ in range(3)]
                for rival, plays in zip(rivals, (None, LONGER * short, short), strict=True):
                    rival.forget(plays)
                self._rivals, self._lead, self._merits = rivals, 0, np.zeros(3)
                self._follow()
            return
        if half_life is not None:
            HALF_LIFE.check(half_life, "half_life", "SharedArms.forget")
        self._rivals, self._lead, self._merits = [], 0, np.zeros(0)
        st = self.kernel_state
        if half_life is None:
            kernel.refresh(st)
            st.num[GAMMA] = 1.0
            if st.raw.size:
                kernel.form(st, st.raw)
                self._arrays = st = st._replace(raw=np.empty(0))
        else:
            gamma = 0.5 ** (1.0 / half_life)
            kernel.refresh(st)
            st.num[GAMMA] = gamma
            if not st.raw.size:
                self._arrays = st = st._replace(raw=kernel.raw_sums(st))
        kernel.refresh(st)

    # -- scores and draws -------------------------------------------------------------------

    def scores(self, context: npt.ArrayLike, arms: Ints | None = None) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the score of every arm (or of `arms`), each by itself."""
        x = validation.vector(context, self.features, "context", "SharedArms.scores")
        which = self._which(arms)
        mean, sd = np.empty(len(which)), np.empty(len(which))
        kernel.scores(self.kernel_state, kernel.with_first(x), which, mean, sd)
        return mean, sd

    def means(self, context: Floats) -> Floats:
        """Mean of the score of every arm, the bits of `scores`, in a few passes over the arms."""
        mean = np.empty(self.arms)
        kernel.means(self.kernel_state, kernel.with_first(context), mean)
        return mean

    def scores_many(self, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of every arm for each context: two arrays (n, K)."""
        C = validation.matrix(contexts, self.features, "contexts", "SharedArms.scores_many")
        both = np.empty((2, len(C), self.arms))
        which = self._which(None)
        for t, x in enumerate(C):
            kernel.scores(self.kernel_state, kernel.with_first(x), which, both[0, t], both[1, t])
        return both[0], both[1]

    def score_rows(self, context: Floats, rows: Floats) -> tuple[Floats, Floats]:
        """Do what `scores` does for arms that nobody stored: rows (n, p)."""
        mean, sd = np.empty(len(rows)), np.empty(len(rows))
        kernel.score_rows(self.kernel_state, kernel.with_first(context), rows, mean, sd)
        return mean, sd

    def draw(self, context: Floats, key: int, spread: float, arms: Ints | None = None) -> Floats:
        """Scores of every arm (or of `arms`) in the one joint draw that belongs to a key."""
        which = self._which(arms)
        out = np.empty(len(which))
        x = kernel.with_first(context)
        kernel.draw_some(self.kernel_state, x, np.uint64(key), float(spread), which, out)
        return out

    def draw_rows(
        self, context: Floats, key: int, spread: float, rows: Floats, ids: Uints
    ) -> Floats:
        """Scores in the same draw of arms that nobody stored: rows (n, p), one id each."""
        out = np.empty(len(rows))
        x = kernel.with_first(context)
        kernel.draw_rows(self.kernel_state, x, np.uint64(key), float(spread), rows, ids, out)
        return out

    def best(self, context: Floats, may: Bools, key: int, spread: float) -> tuple[int, int]:
        """The arm with the highest score of the draw among those that may be played; -1 for none.

        Beside it, how many own effects had to be computed for it.
        """
        arms, _ = self.top(context, may, key, spread, 1)
        return int(arms[0]), self.computed

    def top(
        self,
        context: Floats,
        may: Bools,
        key: int,
        spread: float,
        places: int,
        bonus: float = 0.0,
    ) -> tuple[Ints, Floats]:
        """The arms with the highest scores of the draw, best first, and their scores.

        With a `bonus` scores are mean + bonus·sd and nothing is drawn: the key breaks ties. -1
        fills the places for which there is no arm.
        """
        arms, top = np.empty(places, np.int64), np.empty(places)
        self.computed = kernel.choose_one(
            *self.kernel_state,
            context,
            may,
            np.uint64(key),
            float(spread),
            float(bonus),
            arms,
            top,
        )
        return arms, top

    def win_shares(self, context: Floats, may: Bools, key: int, spread: float, draws: int) -> Ints:
        """How often each arm has the highest score in joint draws with their own keys."""
        return np.asarray(self.place_shares(context, may, key, spread, draws, 1)[0])

    def place_shares(
        self, context: Floats, may: Bools, key: int, spread: float, draws: int, places: int
    ) -> Ints:
        """How often each arm has each of the first places: counts (places, K)."""
        n = DRAWS.check(draws, "draws", "SharedArms.win_shares")
        counts = np.zeros((places, self.arms), np.int64)
        x = kernel.with_first(context)
        self.computed = kernel.win_counts(
            self.kernel_state, x, may, np.uint64(key), float(spread), n, places, counts
        )
        return counts

    @staticmethod
    def draw_key(key: int, number: int) -> int:
        """The key of draw `number` of `win_shares`."""
        return int(bits_of(np.uint64(key), number))

    # -- state ------------------------------------------------------------------------------

    def merge(self, other: SharedArms) -> None:
        """Take in what `other` learned of the same arms apart from these.

        Σφφᵀ, Σφr and the sums of the arms are added and the posterior is formed anew with λ and ρ
        of the one that has more plays. Equal to one fold of both histories with these λ and ρ,
        but for rounding.
        """
        if not isinstance(other, SharedArms):
            raise InvalidValue("other", "SharedArms.merge", "a SharedArms", other)
        same = np.array_equal(self.kept, other.kept) and np.array_equal(self.rows, other.rows)
        rivals = len(self._rivals) == len(other._rivals)
        if not same or not rivals or (not self._rivals and self.half_life != other.half_life):
            wanted = "of the same arms, features, interactions and half-life"
            raise InvalidValue("other", "SharedArms.merge", wanted, other)
        if self._rivals:
            for rival, its_rival in zip(self._rivals, other._rivals, strict=True):
                rival.merge(its_rival)
            self._merits += other._merits
            self._follow()
            return
        its = other.copy().kernel_state
        mine = self.kernel_state
        kernel.refresh(mine)
        kernel.refresh(its)
        raw = (mine.raw if mine.raw.size else kernel.raw_sums(mine)) + (
            its.raw if its.raw.size else kernel.raw_sums(its)
        )
        if other.plays > self.plays:
            both = [*range(LAM, LAM + KINDS), RHO]
            mine.num[both] = its.num[both]
        K = self.arms
        mine.X[:K] += its.X[:K]
        mine.own[:K] += its.own[:K]
        for k in np.flatnonzero(its.old_of[:K] >= 0).tolist():
            mine = self._with_old(k)
            mine.old[mine.old_of[k]] += its.old[its.old_of[k]]
        mine.num[MASS : MASS + 3] += its.num[MASS : MASS + 3]
        mine.num[SIZE : SIZE + KINDS] += its.num[SIZE : SIZE + KINDS]
        mine.num[kernel.RSS] += its.num[kernel.RSS]
        mine.counts[PLAYS] += its.counts[PLAYS]
        if mine.raw.size:
            mine.raw[:] = raw
        kernel.form(mine, raw)
        self._stale = True
        kernel.refresh(self.kernel_state)

    def copy(self) -> SharedArms:
        """A model with the same knowledge that learns apart from now on."""
        twin = object.__new__(SharedArms)
        twin.kept = self.kept
        twin.computed = 0
        twin._rivals = [rival.copy() for rival in self._rivals]
        twin._lead, twin._merits = self._lead, self._merits.copy()
        if twin._rivals:
            twin._follow()
            return twin
        copies = {name: part.copy() for name, part in self.kernel_state._asdict().items()}
        twin._arrays, twin._stale, twin._tail = Shared(**copies), False, self._tail
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that is known, as named arrays; of arms never played the features alone."""
        if self._rivals:
            parts = {
                f"{i}.{name}": array
                for i, rival in enumerate(self._rivals)
                for name, array in rival.to_state().items()
            }
            return {"merits": self._merits.copy(), "lead": np.array([self._lead]), **parts}
        st, K = self.kernel_state, self.arms
        played = np.flatnonzero(st.own[:K, 0] > 0.0)
        changed = np.flatnonzero(st.old_of[:K] >= 0)
        state = {name: getattr(st, name).copy() for name in _WHOLE}
        return {
            **state,
            "kept": self.kept.copy(),
            "rows": self.rows,
            "played": played,
            "X": st.X[played],
            "own": st.own[played],
            "changed": changed,
            "old": st.old[st.old_of[changed]],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """A model as it was at `to_state`: what follows has the same bits as with no pause."""
        if isinstance(state, Mapping) and "merits" in state:
            return cls._rivals_from(state)
        names = {*_WHOLE, "kept", "rows", "played", "X", "own", "changed", "old"}
        named = isinstance(state, Mapping) and all(
            isinstance(array, np.ndarray) for array in state.values()
        )
        if not named or set(state) != names:
            raise CorruptState(f"SharedArms needs the arrays {sorted(names)}, not {state!r:.200}.")
        kept, rows = state["kept"], state["rows"]
        if kept.ndim != 2 or kept.dtype != np.bool_ or not 1 <= kept.sum() <= MAX_JOINT:
            raise CorruptState("SharedArms: 'kept' is no mask of joint features.")
        if rows.ndim != 2 or not 1 <= len(rows) <= MAX_ARMS:
            raise CorruptState("SharedArms: 'rows' has no arms.")
        _check_state(state)
        self = object.__new__(cls)
        self.kept = np.array(kept)
        self.computed = 0
        self._rivals, self._lead, self._merits = [], 0, np.zeros(0)
        blank = _untrained(self.kept)
        whole = {name: np.array(state[name], order="C") for name in _WHOLE}
        old = np.array(state["old"], order="C")
        st = _with_room(blank._replace(**whole, old=old), len(rows))
        st.rows[: len(rows), 0] = 1.0
        st.rows[: len(rows), 1:] = rows
        st.X[state["played"]] = state["X"]
        st.own[state["played"]] = state["own"]
        st.old_of[state["changed"]] = np.arange(len(old))
        st.counts[ARMS], st.counts[OLD] = len(rows), len(old)
        self._arrays, self._stale, self._tail = st, True, 0
        return self

    @classmethod
    def _rivals_from(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        merits, lead = state["merits"], state.get("lead", np.zeros(0))
        rest = {name: array for name, array in state.items() if name not in ("merits", "lead")}
        parts: list[dict[str, npt.NDArray[Any]]] = [{}, {}, {}]
        for name, array in rest.items():
            number, _, short = name.partition(".")
            if number not in ("0", "1", "2"):
                raise CorruptState(f"SharedArms knows no array {name!r:.100}.")
            parts[int(number)][short] = array
        rivals = [cls.from_state(part) for part in parts]
        first = rivals[0]
        sane = (
            all(isinstance(array, np.ndarray) for array in (merits, lead))
            and merits.shape == (3,)
            and merits.dtype == np.float64
            and bool(np.isfinite(merits).all())
            and lead.shape == (1,)
            and lead.dtype == np.int64
            and 0 <= int(lead[0]) < 3
            and rivals[-1].half_life is not None
            and all(np.array_equal(one.kept, first.kept) for one in rivals)
            and all(np.array_equal(one.rows, first.rows) for one in rivals)
        )
        if not sane:
            raise CorruptState("SharedArms: 'merits' and 'lead' do not fit three equal models.")
        self = object.__new__(cls)
        self.kept, self.computed = first.kept, 0
        self._rivals, self._lead, self._merits = list(rivals), int(lead[0]), merits.copy()
        self._arrays, self._stale = rivals[self._lead].kernel_state, False
        self._tail = 0
        return self

    def _arrange(self) -> None:
        """Bring the arms into an order in which those with equal features are neighbours."""
        st, K = self._arrays, self.arms
        order, new = _in_order(st.rows[:K, 1:])
        self._arrays = st = _with_kinds(st._replace(**_no_kinds(self.kept)), int(new.sum()))
        st.order[:K] = order
        st.sizes[0] = 0
        kernel.arrange(st, 0, new)
        played = np.flatnonzero(st.own[:K, 0] > 0.0)
        st.seats[: len(played)] = played
        st.sizes[1], st.sizes[2] = len(played), 0
        self._stale, self._tail = False, 0
        kernel.look_again(st)

    def _which(self, arms: Ints | None) -> Ints:
        return np.arange(self.arms) if arms is None else np.asarray(arms, np.int64)

    def _with_old(self, k: int) -> Shared:
        """Return the arrays with a row of `old` for arm k."""
        st = self._arrays
        if st.old_of[k] < 0:
            if st.counts[OLD] == len(st.old):
                more = np.zeros((max(1, len(st.old)), self.joint_features))
                self._arrays = st = st._replace(old=np.concatenate([st.old, more]))
            st.old_of[k] = st.counts[OLD]
            st.counts[OLD] += 1
        return st


_WHOLE = ("tri", "vec", "lower", "raw", "num", "counts")


def _rows(rows: npt.ArrayLike, width: int | None) -> Floats:
    given = np.asarray(rows, np.float64)
    if given.ndim != 2:
        raise InvalidValue("rows", "SharedArms", "an array of (arms, features)", rows)
    wide = given.shape[1] if width is None else width
    return validation.matrix(given, wide, "rows", "SharedArms")


def _lams(given: object) -> list[float]:
    """Return λ of each kind of joint feature."""
    several = given if isinstance(given, Sequence) else [given] * KINDS
    if len(several) != KINDS:
        raise InvalidValue("lam", "SharedArms", f"one number or {KINDS}", given)
    return [validation.RIDGE.check(one, "lam", "SharedArms") for one in several]


def _untrained(kept: Bools) -> Shared:
    """Return a model of no arms."""
    d1, p1 = kept.shape
    D = int(kept.sum())
    num = np.zeros(kernel.NUMBERS)
    num[LAM : LAM + KINDS] = 1.0
    num[[RHO, PASSED, GAMMA]] = kernel.RHO_START, 1.0, 1.0
    num[kernel.OWN] = kernel.OWN_BOLDNESS
    return Shared(
        rows=np.zeros((0, p1)),
        X=np.zeros((0, d1)),
        own=np.zeros((0, 2)),
        old_of=np.zeros(0, np.int32),
        old=np.zeros((0, D)),
        at=np.array(np.nonzero(kept), np.uint32),
        tri=np.zeros((3, D * (D + 1) // 2)),
        vec=np.zeros((5, D)),
        lower=np.zeros((D, D)),
        raw=np.empty(0),
        num=num,
        counts=np.zeros(kernel.COUNTS, np.int64),
        ref=np.zeros(D),
        hint=np.zeros((4, 0), np.float32),
        peak=np.zeros((4, 0), np.float32),
        kind_of=np.zeros(0, np.uint32),
        order=np.zeros(0, np.uint32),
        place_of=np.zeros(0, np.uint32),
        kinds=np.zeros(0, np.uint32),
        seats=np.zeros(0, np.uint32),
        seat_of=np.zeros(0, np.uint32),
        sizes=np.zeros(3, np.int64),
        **_no_kinds(kept),
    )


def _no_kinds(kept: Bools) -> dict[str, Any]:
    """Return the arrays about kinds of arms, of none."""
    p1 = kept.shape[1]
    return {
        "tiles": np.zeros((0, p1, kernel.LANES), np.float32),
        "marks": np.zeros((0, p1), np.uint64),
        "binary": np.ones(p1, np.bool_),
        "starts": np.zeros(1, np.uint32),
    }


def _with_kinds(st: Shared, kinds: int) -> Shared:
    """Return the arrays with room for so many kinds; an eighth more if they were full."""
    room = len(st.starts) - 1
    if kinds <= room:
        return st
    more = kinds + (kinds // 8 if room else 0)
    more += -more % kernel.LANES
    wide = {"tiles": more // kernel.LANES, "marks": more // kernel.LANES, "starts": more + 1}
    grown = {}
    for name, length in wide.items():
        part = getattr(st, name)
        grown[name] = np.zeros((length, *part.shape[1:]), part.dtype)
        grown[name][: len(part)] = part
    return st._replace(**grown)


def _in_order(rows: Floats) -> tuple[Wholes, Bools]:
    """Return the numbers of rows in an order in which equal ones are neighbours.

    And which of them, in that order, differ from the one before. First by which of the first 64
    columns are 0, so that neighbours are alike, then by a hash of all bits. Where two rows have
    the same hash, equal ones may stand apart: that costs time alone.
    """
    K, p = rows.shape
    alike: Uints = np.zeros(K, np.uint64)
    hashes: Uints = np.zeros(K, np.uint64)
    odd: Uints = np.array(np.random.default_rng(0).integers(1 << 63, size=p, dtype=np.uint64))
    odd |= np.uint64(1)
    for j in range(p):
        bits = np.ascontiguousarray(rows[:, j]).view(np.uint64)
        if j < 64:
            alike |= (rows[:, j] != 0.0).astype(np.uint64) << np.uint64(j)
        hashes += (bits ^ (bits >> np.uint64(32))) * odd[j]
    order = np.lexsort((hashes, alike))
    new = np.ones(K, np.bool_)
    step = 1 << 16
    for at in range(1, K, step):
        here, before = order[at : at + step], order[at - 1 : at - 1 + step][: K - at]
        new[at : at + step] = (rows[here] != rows[before]).any(axis=1)
    return order.astype(np.uint32), new


def _with_room(st: Shared, arms: int) -> Shared:
    """Return the arrays with room for so many arms; half as many again if they were full."""
    room = len(st.rows)
    if arms <= room:
        return st
    more = max(arms, room + room // 2)
    more += -more % kernel.LANES

    def longer(part: npt.NDArray[Any], fill: int = 0) -> npt.NDArray[Any]:
        shape = (more, *part.shape[1:])
        out = np.full(shape, fill, part.dtype) if fill else np.zeros(shape, part.dtype)
        out[: len(part)] = part
        return out

    def wider(part: Singles, size: int) -> Singles:
        out = np.zeros((len(part), size), np.float32)
        out[:, : part.shape[1]] = part
        return out

    names = ("rows", "X", "own", "kind_of", "order", "place_of", "kinds", "seats", "seat_of")
    return st._replace(
        **{name: longer(getattr(st, name)) for name in names},
        hint=wider(st.hint, more),
        peak=wider(st.peak, more // kernel.LANES),
        old_of=longer(st.old_of, -1),
    )


def _check_state(state: Mapping[str, npt.NDArray[Any]]) -> None:
    """Raise `CorruptState` unless every array has its type, its shape and sensible numbers."""
    kept, K = state["kept"], len(state["rows"])
    D = int(kept.sum())
    T = D * (D + 1) // 2
    played, changed = len(state["played"]), len(state["changed"])
    raw = (T + D,) if state["raw"].size else (0,)
    shapes: dict[str, tuple[type, tuple[int, ...]]] = {
        "rows": (np.float64, (K, kept.shape[1] - 1)),
        "played": (np.int64, (played,)),
        "X": (np.float64, (played, kept.shape[0])),
        "own": (np.float64, (played, 2)),
        "changed": (np.int64, (changed,)),
        "old": (np.float64, (changed, D)),
        "tri": (np.float64, (3, T)),
        "vec": (np.float64, (5, D)),
        "lower": (np.float64, (D, D)),
        "raw": (np.float64, raw),
        "num": (np.float64, (kernel.NUMBERS,)),
        "counts": (np.int64, (kernel.COUNTS,)),
    }
    for name, (dtype, shape) in shapes.items():
        given = state[name]
        if given.shape != shape or given.dtype != dtype:
            raise CorruptState(
                f"SharedArms: array '{name}' must be {np.dtype(dtype)} of shape {shape}. "
                f"Got {given.dtype} of shape {given.shape} instead."
            )
        if not np.isfinite(given).all():
            raise CorruptState(f"SharedArms: array '{name}' holds numbers that are not finite.")
    for name in ("played", "changed"):
        numbers = state[name]
        if len(numbers) and (numbers[0] < 0 or numbers[-1] >= K or (np.diff(numbers) <= 0).any()):
            raise CorruptState(f"SharedArms: array '{name}' must hold arm numbers in order.")
    num, count = state["num"], state["counts"]
    lams = num[LAM : LAM + KINDS]
    sane = (
        (lams >= validation.RIDGE.low).all()
        and (lams <= validation.RIDGE.high).all()
        and 0.0 <= num[RHO] <= OWN_RANGE.high
        and 0.5 <= num[PASSED] <= 1.0
        and 0.0 < num[GAMMA] <= 1.0
        and (num[[kernel.RSS, MASS, NOISE, kernel.OWN]] >= 0.0).all()
        and (num[SIZE:] >= 0.0).all()
        and (state["own"][:, 0] > 0.0).all()
        and (count >= 0).all()
        and bool(state["raw"].size) == (num[GAMMA] < 1.0)
    )
    if not sane:
        raise CorruptState("SharedArms: 'num', 'own' or 'counts' holds numbers out of range.")

"""One linear model for all arms over joint features, with an own effect an arm: fold, draw, score.

A reward is θᵀφ(x, a_k) + u_k + noise, with φ = (1, x) ⊗ (1, a). In units of the noise, with
ρ = ω²/s² the variance of an own effect, and n_k, S_k = Σφ, R_k = Σr over the plays of arm k:

    κ = ρ / (1 + n_k ρ),  v = φ − κ S_k,  y = r − κ R_k,  w = 1 / (1 + κ)
    B = Λ + Σ w v vᵀ,  f = Σ w v y

with n_k, S_k, R_k as before each play, and Λ diagonal: joint features of the context alone, of the
arm alone and of both have a λ = s²/τ² each. Then θ | data ~ N(B⁻¹f, s²B⁻¹), and
u_k | θ ~ N(κ(R_k − S_kᵀθ), s²κ). With L (D, D), LLᵀ = B⁻¹, a play changes L by one outer product
(Potter 1963), and a draw is μ + s·Lz. L has a row for each joint feature, as most of v is 0.

The prior mean of θ is r̄, the mean of all rewards, on the constant feature: as Σ w v (1 − κ n_k) is
the first column of Σ w v vᵀ, the mean is B⁻¹f + r̄·λ₀·B⁻¹e₀, and nothing but r̄ is kept for it.

Forgetting multiplies what was learned by γ before each play. All sums are stored in units of g, the
power of γ that has passed since the last refresh, so that a play multiplies nothing; a refresh
brings g back to 1 and the prior to its full weight. Loops run along rows (vector code) and in a
fixed order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.kernels.choice import random_arm
from bridle.kernels.compiling import njit
from bridle.kernels.keys import (
    GOLDEN,
    aside,
    bits_of,
    key_of,
    mix,
    normal,
    uniform,
)
from bridle.kernels.lanes import MARKS, ROWS, add_marked, add_rows, row_products, take_outer
from bridle.kernels.posterior import SETTLE_AFTER, add, add_scaled
from bridle.kernels.types import Bools, Floats, Ints, Places, Singles, Uints, Wholes

# Arms that are scored together, one lane each.
LANES = MARKS
# Draws that share one reading of the root.
DRAWS = 8
# How far draws are from their means, in standard deviations: what most agents take.
USUAL_SPREAD = 0.3
# Arms that were played whose scores are computed first, beside two for each place.
FRONT = 6
# Columns of the inverse of a factor that are computed together.
COLUMNS = 64
# Powers of γ below this are not waited for: a refresh restores the prior.
FADED = 0.9
# The noise before anything was seen, as one observation: rewards are in [0, 1].
FIRST_NOISE = 0.0625
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
# No draw is further from its mean than this; and what sums in single precision may be off by.
_FURTHEST, _SLACK = np.float32(8.5), np.float32(2e-6)
_NEVER = np.float32(-1e30)
_TOP_SQUARE = np.float32(2.0 * math.log(2.0) * (31 + 127) * (1.0 + 1e-6) + 1e-3)
# Tangents of the root at 0.5, 1.5 and 3.5.
_N, _N_2, _M, _M_2, _W, _W_2 = (np.float32(x) for c in (0.5, 1.5, 3.5) for x in (0.5 / c, 0.5 * c))
_PER_BIT = np.float32(2.0 * math.log(2.0) / 2**23)
_STEP, _ROUND_1, _ROUND_2 = map(np.uint32, (0x9E3779B9, 0x7FEB352D, 0x846CA68B))
_S15, _S16, _S32 = np.uint32(15), np.uint32(16), np.uint64(32)
_ROOT_KEY = np.uint64(0xA0761D6478BD642F)

# Kinds of joint features: those of the context alone (with the constant), the arm alone, and both.
KINDS = 3
# Places in `num`; LAM and SIZE have one of each kind.
LAM, RHO, PASSED, GAMMA, RSS, MASS, SUM_R, SUM_RR, NOISE, OWN, SIZE = 0, *range(3, 13)
NUMBERS = SIZE + KINDS
# Places in `counts`.
ARMS, PLAYS, SINCE, OLD, FIXED = range(5)
COUNTS = 5

# The grids of ρ and of every λ: half decades.
RHOS = np.array([m * 10.0**e for e in range(-5, 5) for m in (1.0, 3.0)])
LAMS = np.array([m * 10.0**e for e in range(-4, 7) for m in (1.0, 3.0)])
# How many steps to either side are looked at.
STEPS = 2
# Before anything is known: of ρ, and what is expected of the variances of own effects, and of what
# all joint features of a kind say together, in units of (r̄(1 − r̄))², that is on the scale of log
# odds; with how far they may be off, as factors e^(±doubt). In units of the noise they would vanish
# with it: who sees few arms again and again finds little noise, and would believe that no other arm
# can be much better. A variance of each weight would say more, the more features there are. Arms
# are thought to differ more than features say: what is wrongly put down to features is not tried
# again.
RHO_START = 1.0
OWN_GUESS, OWN_DOUBT = 0.5, 1.5
WEIGHT_GUESS, WEIGHT_DOUBT = 0.1, 3.0
# Own effects are drawn this much wider than θ: how much arms differ is learned from the few that
# are played, and what looks like nothing is never looked at again.
OWN_BOLDNESS = 2.5


class Shared(NamedTuple):
    """The arrays of the model: C ≥ K arms have room, D kept joint features, T = D(D+1)/2.

    Arms with equal features are one kind: what the shared weights say of them is worked out once.
    Arms are ordered by kind, and kinds so that those that share features are neighbours. Those that
    were played have a seat, too, in the same order but for the newest. `LANES` arms, or seats, that
    follow each other are a block, which is passed over as a whole where none of it can win.
    """

    rows: Floats  # (C, p+1) (1, a) of every arm
    X: Floats  # (C, d+1) Σ (1, x) over an arm's plays with its present features
    own: Floats  # (C, 2) n_k and R_k
    old_of: npt.NDArray[np.int32]  # (C,) row of `old` of an arm whose features have changed, or -1
    old: Floats  # (M, D) Σφ over an arm's plays with former features
    at: Places  # (2, D) context and arm index of every kept joint feature
    tri: Floats  # (3, T) lower triangle of Σ w v vᵀ: sum, what rounding dropped, the newest
    vec: Floats  # (5, D) f, what rounding dropped, the newest; then μ = B⁻¹f and B⁻¹e₀
    lower: Floats  # (D, D) L
    raw: Floats  # (T + D,) Σφφᵀ and Σφr, kept while forgetting; else (0,)
    num: Floats  # (NUMBERS,) λs, ρ, g, γ, residual squares, weight, Σr, Σr², s if set, own, Σ|φ|²
    counts: Ints  # (COUNTS,) arms, plays, plays since the last refresh, rows of old, fixed λ and ρ
    ref: Floats  # (D,) θ for which `hint` was computed
    hint: Singles  # (4, C) by seat, see `bound_effect`: what bounds the own effect of each arm
    peak: Singles  # (4, C/LANES) no less than `hint` in each block
    tiles: Singles  # (Q/LANES, p+1, LANES) (1, a) of every kind, kinds last
    marks: Uints  # (Q/LANES, p+1) a bit for every kind that has a 1
    binary: Bools  # (p+1,) features that are 0 or 1 for all kinds
    kind_of: Wholes  # (C,) the kind of each arm
    starts: Wholes  # (Q + 1,) the first place of each kind
    order: Wholes  # (C,) the arm at each place
    place_of: Wholes  # (C,) the place of each arm
    kinds: Wholes  # (C,) the kind at each place
    seats: Wholes  # (C,) the arm at each seat
    seat_of: Wholes  # (C,) the seat of each arm that was played
    sizes: Ints  # (3,) number of kinds, of seats, and of seats that are in order


@njit(cache=True, inline="always")
def zero_mean(st: Shared) -> bool:
    """Return whether there is no constant feature, so that the prior mean is 0."""
    return bool(st.at[0, 0] != 0 or st.at[1, 0] != 0)


@njit(cache=True, inline="always")
def base_rate(st: Shared) -> float:
    """Return r̄, the mean of all rewards and of one of .5; 0 where there is no constant feature."""
    if zero_mean(st):
        return 0.0
    rate: float = (st.num[SUM_R] + 0.5) / (st.num[MASS] + 1.0)
    return rate


@njit(cache=True, inline="always")
def noise(st: Shared) -> float:
    """Return s, the standard deviation of the noise: what was set, or what was seen so far."""
    given: float = st.num[NOISE]
    if given > 0.0:
        return given
    return math.sqrt((st.num[RSS] + FIRST_NOISE) / (st.num[MASS] + 1.0))


@njit(cache=True, inline="always")
def own_spread(st: Shared, spread: float) -> float:
    """Return the spread of own effects in a draw, in units of √κ."""
    return float(spread * noise(st) * st.num[OWN])


@njit(cache=True, inline="always")
def kind_of(at: Places, e: int) -> int:
    """Return the kind of joint feature e: 0 of the context alone, 1 of the arm alone, 2 of both."""
    if at[1, e] == 0:
        return 0
    return 1 if at[0, e] == 0 else 2


@njit(cache=True)
def ridges(at: Places, lams: Floats, out: Floats) -> None:
    """Fill the diagonal of Λ from the λ of each kind."""
    for e in range(out.shape[0]):
        out[e] = lams[kind_of(at, e)]


@njit(cache=True)
def with_first(x: Floats) -> Floats:
    """Return (1, x)."""
    out = np.empty(x.shape[0] + 1)
    out[0] = 1.0
    out[1:] = x
    return out


@njit(cache=True)
def joint(at: Places, x: Floats, a: Floats, out: Floats) -> None:
    """Fill φ from (1, x) and (1, a)."""
    for e in range(out.shape[0]):
        out[e] = x[at[0, e]] * a[at[1, e]]


@njit(cache=True)
def arm_sum(st: Shared, k: int, out: Floats) -> None:
    """Fill S_k, in units of g."""
    joint(st.at, st.X[k], st.rows[k], out)
    if st.old_of[k] >= 0:
        add_scaled(out, 1.0, st.old[st.old_of[k]])


@njit(cache=True, inline="always")
def shrink(st: Shared, k: int) -> float:
    """Return κ = ρ / (1 + n_k ρ)."""
    kappa: float = st.num[RHO] / (1.0 + st.num[RHO] * st.num[PASSED] * st.own[k, 0])
    return kappa


@njit(cache=True)
def centre(st: Shared, out: Floats) -> None:
    """Fill the posterior mean of θ."""
    pull = base_rate(st) * st.num[LAM]
    for e in range(out.shape[0]):
        out[e] = st.vec[3, e] + pull * st.vec[4, e]


@njit(cache=True)
def onto_root(root: Floats, v: Floats, out: Floats) -> None:
    """Fill Lᵀv, from the rows of the entries of v that are not 0."""
    for r in range(out.shape[0]):
        out[r] = 0.0
    for e in range(v.shape[0]):
        if v[e] != 0.0:
            add_scaled(out, v[e], root[e])


@njit(cache=True)
def by_inverse(root: Floats, f: Floats, work: Floats, out: Floats) -> None:
    """Add B⁻¹f to `out`; work: (2, D) scratch."""
    onto_root(root, f, work[0])
    row_products(work[1], root, work[0])
    for e in range(out.shape[0]):
        out[e] += work[1, e]


@njit(cache=True)
def settle(st: Shared) -> None:
    """Move the newest sums into the sums before them."""
    high, low, new = st.tri[0], st.tri[1], st.tri[2]
    for i in range(high.shape[0]):
        add(high, low, i, new[i])
        new[i] = 0.0
    high, low, new = st.vec[0], st.vec[1], st.vec[2]
    for i in range(high.shape[0]):
        add(high, low, i, new[i])
        new[i] = 0.0


@njit(cache=True)
def add_outer(tri: Floats, weight: float, v: Floats) -> None:
    """Add weight·v vᵀ to a packed lower triangle."""
    p = 0
    for i in range(v.shape[0]):
        c = weight * v[i]
        if c != 0.0:
            add_scaled(tri[p : p + i + 1], c, v[: i + 1])
        p += i + 1


@njit(cache=True)
def factor(tri: Floats, low: Floats, new: Floats, ridge: Floats, U: Floats) -> float:
    """Fill U, upper, UᵀU = Λ + the triangle, with the diagonal of Λ; return log det.

    As the matrix is at least Λ, no pivot is below its λ. Where rounding has eaten one, only λ is
    known of what is left, and the rest of its row is noise.
    """
    D = U.shape[0]
    p = 0
    for j in range(D):
        for i in range(j + 1):
            U[i, j] = tri[p + i] + (low[p + i] + new[p + i])
        p += j + 1
    log_det = 0.0
    for i in range(D):
        lam = ridge[i]
        U[i, i] += lam
        diagonal = U[i, i]
        row = U[i, i:]
        fours = i - i % 4
        for r in range(0, fours, 4):
            u0, u1, u2, u3 = -U[r, i], -U[r + 1, i], -U[r + 2, i], -U[r + 3, i]
            r0, r1, r2, r3 = U[r, i:], U[r + 1, i:], U[r + 2, i:], U[r + 3, i:]
            for j in range(row.shape[0]):
                row[j] = (((row[j] + u0 * r0[j]) + u1 * r1[j]) + u2 * r2[j]) + u3 * r3[j]
        for r in range(fours, i):
            add_scaled(row, -U[r, i], U[r, i:])
        if not row[0] >= max(lam * (1.0 - 1e-9), D * 2e-15 * diagonal):
            row[0] = max(lam, row[0])
            for j in range(1, row.shape[0]):
                row[j] = 0.0
        log_det += math.log(row[0])
        scale = 1.0 / math.sqrt(row[0])
        for j in range(row.shape[0]):
            row[j] *= scale
    return log_det


@njit(cache=True)
def invert_factor(U: Floats, L: Floats) -> None:
    """Fill L = U⁻¹, upper, in columns of some width: what is left of them is 0."""
    D = U.shape[0]
    L[:] = 0.0
    for low in range(0, D, COLUMNS):
        high = min(D, low + COLUMNS)
        for i in range(high - 1, -1, -1):
            first = max(i, low)
            row = L[i, first:high]
            if i + 1 < high:
                factors = U[i, i + 1 : high]
                add_rows(row, factors, L[i + 1 : high, first:high])
            for j in range(row.shape[0]):
                row[j] = -row[j]
            if i >= low:
                row[0] += 1.0
            scale = 1.0 / U[i, i]
            for j in range(row.shape[0]):
                row[j] *= scale


@njit(cache=True)
def missing(st: Shared, i: int) -> float:
    """Entry i of f − Bμ, with products and sums to twice the usual precision."""
    high: float = st.vec[0, i]
    low: float = st.vec[1, i] + st.vec[2, i]
    D = st.vec.shape[1]
    for j in range(D + 1):
        if j == D:  # the prior's part
            a = st.num[LAM + kind_of(st.at, i)]
            rest = 0.0
            b = st.vec[3, i]
        else:
            p = i * (i + 1) // 2 + j if j <= i else j * (j + 1) // 2 + i
            a = st.tri[0, p]
            rest = st.tri[1, p] + st.tri[2, p]
            b = st.vec[3, j]
        # Dekker's product: a·b = x + y exactly, from halves of 26 bits.
        a_top = 134217729.0 * a
        a_top -= a_top - a
        b_top = 134217729.0 * b
        b_top -= b_top - b
        x = a * b
        y = ((a_top * b_top - x) + a_top * (b - b_top) + (a - a_top) * b_top) + (a - a_top) * (
            b - b_top
        )
        new = high - x
        part = new - high
        low += (high - (new - part)) - (x + part) - y
        low -= rest * b
        high = new
    return high + low


@njit(cache=True)
def bring_back(st: Shared) -> None:
    """Multiply every sum by g, the power of γ that has passed, and begin with g = 1 again."""
    g = st.num[PASSED]
    if g == 1.0:
        return
    for i in range(2):
        for j in range(st.tri.shape[1]):
            st.tri[i, j] *= g
        for j in range(st.vec.shape[1]):
            st.vec[i, j] *= g
    for j in range(st.raw.shape[0]):
        st.raw[j] *= g
    for k in range(st.counts[ARMS]):
        if st.own[k, 0] > 0.0:
            st.own[k, 0] *= g
            st.own[k, 1] *= g
            for i in range(st.X.shape[1]):
                st.X[k, i] *= g
    for m in range(st.counts[OLD]):
        for e in range(st.old.shape[1]):
            st.old[m, e] *= g
    st.num[PASSED] = 1.0


@njit(cache=True)
def residue(st: Shared) -> float:
    """Return Σ(r − r̄)² − Σ_k c_k Y_k² − fᵀB⁻¹f of what was learned: the noise's sum of squares."""
    r = base_rate(st)
    rho = st.num[RHO]
    total: float = st.num[SUM_RR] - 2.0 * r * st.num[SUM_R] + r * r * st.num[MASS]
    for k in range(st.counts[ARMS]):
        n = st.own[k, 0]
        if n > 0.0:
            y = st.own[k, 1] - r * n
            total -= rho / (1.0 + rho * n) * y * y
    D = st.vec.shape[1]
    p = 0
    for e in range(D):
        # f − r̄·(the first column), times μ of it: B⁻¹f + r̄(λB⁻¹e₀ − e₀).
        f = st.vec[0, e] + (st.vec[1, e] + st.vec[2, e])
        mu = st.vec[3, e] + r * st.num[LAM] * st.vec[4, e]
        if r != 0.0:
            f -= r * (st.tri[0, p] + (st.tri[1, p] + st.tri[2, p]))
        if e == 0:
            mu -= r
        total -= f * mu
        p += e + 1
    return max(total, 0.0)


@njit(cache=True)
def look_ahead(st: Shared, k: int) -> None:
    """Compute anew what bounds the own effect of an arm that was played."""
    if st.own[k, 0] == 0.0:
        return
    seat = int(np.int64(st.seat_of[k]))
    bound_effects(st, seat, seat + 1)
    block = seat // LANES
    for i in range(st.peak.shape[0]):
        st.peak[i, block] = max(st.peak[i, block], st.hint[i, seat])


@njit(cache=True)
def bound_effects(st: Shared, first: int, last: int) -> None:
    """Fill `hint` of the arms at some seats: own effect at `ref`, √κ, κ‖X_k‖ and κ‖old‖.

    The mean of its own effect is κ(R_k − S_kᵀθ). S_kᵀ(θ − ref) is at most ‖X_k‖ times the sum of
    the columns' lengths of θ − ref, one for each feature of an arm, each times |a|. What was earned
    with former features adds ‖old‖·‖θ − ref‖.
    """
    rows, X, own, old_of, old = st.rows, st.X, st.own, st.old_of, st.old
    hint, ref, seats, kind_of = st.hint, st.ref, st.seats, st.kind_of
    rho, g, fades = st.num[RHO], st.num[PASSED], st.num[GAMMA] < 1.0
    grid, means = np.empty((rows.shape[1], X.shape[1])), np.empty(X.shape[1])
    grid_of(st.at, ref, grid)
    kind = np.uint32(0xFFFFFFFF)
    for seat in range(first, last):
        k = int(np.int64(seats[seat]))
        if kind_of[k] != kind:
            kind = kind_of[k]
            column_sums(grid, rows[k], means)
        fit = fitted(X, old_of, old, k, ref, means)
        effect, kappa = own_mean(rho, g, own[k, 0], own[k, 1], fit)
        length, before = 0.0, 0.0
        for i in range(means.shape[0]):
            length += X[k, i] * X[k, i]
        if old_of[k] >= 0:
            for e in range(ref.shape[0]):
                before += old[old_of[k], e] * old[old_of[k], e]
        margin = 1e-5 * abs(kappa * g * fit) + 1e-5 * abs(effect)
        wide = 1.0 + 1e-5
        if fades:  # until the next refresh n_k may fall to FADED of what it is
            margin += (1.0 / FADED - 1.0) * abs(effect)
            wide /= FADED
        hint[0, seat] = effect + margin
        hint[1, seat] = math.sqrt(kappa) * wide
        hint[2, seat] = kappa * g * math.sqrt(length) * wide
        hint[3, seat] = kappa * g * math.sqrt(before) * wide


@njit(cache=True)
def look_again(st: Shared) -> None:
    """Bring seats into order, and compute anew what bounds the own effects of their arms."""
    centre(st, st.ref)
    n = st.sizes[1]
    seats, seat_of, order, place_of = st.seats, st.seat_of, st.order, st.place_of
    done = st.sizes[2]
    late = np.empty(n - done, np.uint32)
    for i in range(late.shape[0]):
        late[i] = place_of[seats[done + i]]
    late.sort()
    to = n - 1
    for i in range(late.shape[0] - 1, -1, -1):  # from the end, past those that are in order
        while done > 0 and place_of[seats[done - 1]] > late[i]:
            done -= 1
            seats[to] = seats[done]
            to -= 1
        seats[to] = order[late[i]]
        to -= 1
    for seat in range(to + 1, n):
        seat_of[seats[seat]] = seat
    st.sizes[2] = n
    bound_effects(st, 0, n)
    hint, peak = st.hint, st.peak
    peak[:] = _ZERO
    for i in range(peak.shape[0]):
        for seat in range(n):
            peak[i, seat // LANES] = max(peak[i, seat // LANES], hint[i, seat])


@njit(cache=True)
def has_moved(st: Shared) -> bool:
    """Return whether `ref` is further from what is believed of θ now than a draw is, about."""
    D = st.ref.shape[0]
    now = np.empty(D)
    centre(st, now)
    off = 0.0
    wide = 0.0
    squares, root = np.zeros(D), st.lower
    for r in range(D):
        off += (now[r] - st.ref[r]) * (now[r] - st.ref[r])
        for e in range(D):
            squares[e] += root[r, e] * root[r, e]
    for e in range(D):
        wide += squares[e]
    scale = USUAL_SPREAD * noise(st)
    return bool(off > scale * scale * wide / st.num[PASSED])


@njit(cache=True)
def refresh(st: Shared) -> None:
    """Compute L, μ and B⁻¹e₀ anew from the sums, and what bounds own effects."""
    solve(st)
    look_again(st)


@njit(cache=True)
def solve(st: Shared) -> None:
    """Compute L, μ and B⁻¹e₀ anew from the sums, by Cholesky."""
    bring_back(st)
    settle(st)
    st.counts[SINCE] = 0
    D = st.vec.shape[1]
    U = np.empty((D, D))
    ridge = np.empty(D)
    ridges(st.at, st.num[LAM : LAM + KINDS], ridge)
    factor(st.tri[0], st.tri[1], st.tri[2], ridge, U)
    invert_factor(U, st.lower)
    work = np.empty((2, D))
    f = np.empty(D)
    for e in range(D):
        f[e] = st.vec[0, e] + (st.vec[1, e] + st.vec[2, e])
        st.vec[3, e] = 0.0
        st.vec[4, e] = 0.0
    by_inverse(st.lower, f, work, st.vec[3])
    # f is as large as B, and B⁻¹f loses what would be kept: once more, with what is missing.
    for e in range(D):
        f[e] = missing(st, e)
    by_inverse(st.lower, f, work, st.vec[3])
    if not zero_mean(st):
        row_products(st.vec[4], st.lower, st.lower[0])
    if st.num[GAMMA] == 1.0:
        st.num[RSS] = residue(st)


@njit(cache=True)
def fold_sums(st: Shared, k: int, x: Floats, r: float, v: Floats, S: Floats) -> float:
    """Add one play to the sums; fill v, return y. x: (1, context); v, S: (D) scratch."""
    num = st.num
    if num[GAMMA] < 1.0:
        for i in (PASSED, RSS, MASS, SUM_R, SUM_RR, SIZE, SIZE + 1, SIZE + 2):
            num[i] *= num[GAMMA]
    g = num[PASSED]
    kappa = shrink(st, k)
    joint(st.at, x, st.rows[k], v)
    for e in range(v.shape[0]):
        num[SIZE + kind_of(st.at, e)] += v[e] * v[e]
    if st.raw.shape[0] > 0:
        T = st.tri.shape[1]
        add_outer(st.raw[:T], 1.0 / g, v)
        add_scaled(st.raw[T:], r / g, v)
    y = r
    if st.own[k, 0] > 0.0 and kappa > 0.0:
        arm_sum(st, k, S)
        add_scaled(v, -kappa * g, S)
        y -= kappa * g * st.own[k, 1]
    weight = 1.0 / ((1.0 + kappa) * g)
    add_outer(st.tri[2], weight, v)
    add_scaled(st.vec[2], weight * y, v)
    if st.own[k, 0] == 0.0:
        st.seats[st.sizes[1]] = k
        st.seat_of[k] = st.sizes[1]
        st.sizes[1] += 1
    st.own[k, 0] += 1.0 / g
    st.own[k, 1] += r / g
    add_scaled(st.X[k], 1.0 / g, x)
    num[MASS] += 1.0
    num[SUM_R] += r
    num[SUM_RR] += r * r
    st.counts[PLAYS] += 1
    st.counts[SINCE] += 1
    if st.counts[SINCE] % SETTLE_AFTER == 0:
        settle(st)
    return y


@njit(cache=True)
def fold_root(st: Shared, weight: float, v: Floats, y: float, rate: float, work: Floats) -> None:
    """Take one play into L, μ, B⁻¹e₀ and the noise; `rate` is r̄ before it; work: (3, D) scratch."""
    h, b = work[0], work[1]
    D = v.shape[0]
    root = st.lower
    onto_root(root, v, h)
    q = 0.0
    fit = 0.0
    first = 0.0
    for e in range(D):
        q += h[e] * h[e]
        fit += v[e] * st.vec[3, e]
        first += v[e] * st.vec[4, e]
    q *= weight
    share = weight / (1.0 + q)
    off = y - (fit + rate * st.num[LAM] * first)
    st.num[RSS] += st.num[PASSED] * share * off * off
    # (I − βhhᵀ)² = I − hhᵀ·weight/(1 + q)
    beta = share / (1.0 + 1.0 / math.sqrt(1.0 + q))
    less = work[2]
    for r in range(D):
        less[r] = beta * h[r]
    for r in range(0, D, ROWS):  # b = Lh, and L − b·βhᵀ, with one reading of L
        end = min(r + ROWS, D)
        rows = root[r:end]
        row_products(b[r:end], rows, h)
        take_outer(rows, b[r:end], less)
    add_scaled(st.vec[3], share * (y - fit), b)
    add_scaled(st.vec[4], -share * first, b)


@njit(cache=True, inline="always")
def is_due(plays: int) -> bool:
    """Return whether λ and ρ are estimated after so many plays: 12·2^j."""
    times = plays // 12
    return plays % 12 == 0 and times > 0 and times & (times - 1) == 0


@njit(cache=True)
def period(D: int, gamma: float) -> int:
    """Return after how many plays L is computed anew."""
    most = max(100, D)
    if gamma < 1.0:
        most = min(most, int(math.log(FADED) / math.log(gamma)))
    return max(most, 1)


@njit(cache=True)
def fold(st: Shared, k: int, x: Floats, r: float, v: Floats, work: Floats, every: int) -> None:
    """Fold one play: arm k in context x, (1, context), earned r. v (D), work (3, D) are scratch."""
    rate = base_rate(st)
    n = st.own[k, 0]
    y = fold_sums(st, k, x, r, v, work[0])
    due = is_due(st.counts[PLAYS]) and st.counts[FIXED] == 0
    if due or st.counts[SINCE] >= every:
        finish(st, k, due)
        return
    kappa = st.num[RHO] / (1.0 + st.num[RHO] * st.num[PASSED] * n)
    fold_root(st, 1.0 / ((1.0 + kappa) * st.num[PASSED]), v, y, rate, work)
    look_ahead(st, k)


@njit(cache=True)
def finish(st: Shared, k: int, due: bool) -> None:
    """Refresh after a play of arm k, with λ and ρ estimated before if that is due."""
    if due:
        bring_back(st)
        settle(st)
        estimate(st)
        refresh(st)
        return
    solve(st)
    if st.num[GAMMA] < 1.0 or has_moved(st):
        look_again(st)
    else:
        look_ahead(st, k)


@njit(cache=True)
def fold_many(st: Shared, arms: Ints, C: Floats, y: Floats) -> None:
    """Fold plays in order: the bits of one by one.

    A refresh needs the sums alone, so before the last one of the batch L is left as it is. With
    forgetting the noise is not a function of the sums, and every play is taken in.
    """
    D = st.vec.shape[1]
    v = np.empty(D)
    work = np.empty((3, D))
    every = period(D, st.num[GAMMA])
    last = -1
    plays, since = st.counts[PLAYS], st.counts[SINCE]
    if st.num[GAMMA] == 1.0:
        for t in range(arms.shape[0]):
            plays += 1
            since += 1
            if since >= every or (is_due(plays) and st.counts[FIXED] == 0):
                last = t
                since = 0
    for t in range(arms.shape[0]):
        x = with_first(C[t])
        if t > last:
            fold(st, arms[t], x, y[t], v, work, every)
        else:
            fold_sums(st, arms[t], x, y[t], v, work[0])
            due = is_due(st.counts[PLAYS]) and st.counts[FIXED] == 0
            if t == last:
                finish(st, arms[t], due)
                look_again(st)
            elif due:
                bring_back(st)
                settle(st)
                estimate(st)
                st.counts[SINCE] = 0
            elif st.counts[SINCE] >= every:
                settle(st)
                st.counts[SINCE] = 0


@njit(cache=True)
def own_sums(st: Shared, start: Floats, rhos: Floats, now: float) -> tuple[Floats, Floats]:
    """Return Σ w v vᵀ (n, T) and f (n, D) for each of n values of ρ, from those for `now` (T + D,).

    They differ by Σ_k (c_k(ρ) − c_k(now)) S_k S_kᵀ and S_k R_k, with c_k = ρ / (1 + n_k ρ). Arms of
    equal n_k are summed first, as their c_k are equal for every ρ.
    """
    D = st.vec.shape[1]
    T = D * (D + 1) // 2
    tris = np.empty((rhos.shape[0], T))
    fs = np.empty((rhos.shape[0], D))
    for i in range(rhos.shape[0]):
        tris[i] = start[:T]
        fs[i] = start[T:]
    played = np.nonzero(st.own[: st.counts[ARMS], 0] > 0.0)[0]
    order = np.argsort(st.own[played, 0], kind="mergesort")
    S = np.empty(D)
    group = np.zeros(T)
    both = np.zeros(D)
    for place in range(order.shape[0]):
        k = played[order[place]]
        n = st.own[k, 0]
        arm_sum(st, k, S)
        add_outer(group, 1.0, S)
        add_scaled(both, st.own[k, 1], S)
        if place + 1 < order.shape[0] and st.own[played[order[place + 1]], 0] == n:
            continue
        for i in range(rhos.shape[0]):
            change = rhos[i] / (1.0 + n * rhos[i]) - now / (1.0 + n * now)
            if change != 0.0:
                add_scaled(tris[i], -change, group)
                add_scaled(fs[i], -change, both)
        group[:] = 0.0
        both[:] = 0.0
    return tris, fs


@njit(cache=True)
def evidence(st: Shared, tri: Floats, f: Floats, lams: Floats, rho: float, U: Floats) -> float:
    """Return the log posterior of λs and ρ but for a constant, s profiled; U (D, D) is scratch."""
    D = f.shape[0]
    r = base_rate(st)
    none = np.zeros(tri.shape[0])
    ridge = np.empty(D)
    ridges(st.at, lams, ridge)
    log_det: float = factor(tri, none, none, ridge, U)
    for e in range(D):
        log_det -= math.log(ridge[e])
    total: float = st.num[SUM_RR] - 2.0 * r * st.num[SUM_R] + r * r * st.num[MASS]
    for k in range(st.counts[ARMS]):
        n = st.own[k, 0]
        if n > 0.0:
            y = st.own[k, 1] - r * n
            total -= rho / (1.0 + rho * n) * y * y
            log_det += math.log(1.0 + n * rho)
    left = np.empty(D)
    p = 0
    for e in range(D):
        left[e] = f[e] - r * tri[p] if r != 0.0 else f[e]
        p += e + 1
    for i in range(D):
        y = left[i] / U[i, i]
        total -= y * y
        add_scaled(left[i + 1 :], -y, U[i, i + 1 :])
    n = float(st.num[MASS])
    square = (max(total, 0.0) + FIRST_NOISE) / (n + 1.0)
    rate = (st.num[SUM_R] + 0.5) / (n + 1.0)
    unit = max((rate * (1.0 - rate)) ** 2, 1e-8)
    far = math.log(square * rho / (unit * OWN_GUESS)) / OWN_DOUBT
    surprise = far * far
    for kind in range(KINDS):
        size = st.num[SIZE + kind] / n
        if size > 0.0:
            far = math.log(square / lams[kind] * size / (unit * WEIGHT_GUESS)) / WEIGHT_DOUBT
            surprise += far * far
    return -0.5 * ((n + 1.0) * math.log(square) + log_det + surprise)


@njit(cache=True)
def nearest(grid: Floats, x: float) -> int:
    """Return the place of the value of a grid that is nearest to x > 0, by their ratio."""
    best = 0
    for i in range(1, grid.shape[0]):
        if abs(math.log(grid[i] / x)) < abs(math.log(grid[best] / x)):
            best = i
    return best


@njit(cache=True)
def estimate(st: Shared) -> None:
    """Choose λs and ρ by their posterior among the nearest on their grids, in turns, twice.

    The sums were settled before, with g = 1. Σ w v vᵀ and f are formed anew for the new ρ.
    """
    D = st.vec.shape[1]
    T = D * (D + 1) // 2
    start = np.empty(T + D)
    now = st.num[RHO]
    if st.raw.shape[0] > 0:
        start[:] = st.raw
        now = 0.0
    else:
        start[:T] = st.tri[0] + st.tri[1]
        start[T:] = st.vec[0] + st.vec[1]
    U = np.empty((D, D))
    tris, fs = np.empty((0, T)), np.empty((0, D))
    rho = nearest(RHOS, st.num[RHO])
    places, lams = np.empty(KINDS, np.int64), np.empty(KINDS)
    for kind in range(KINDS):
        places[kind] = nearest(LAMS, st.num[LAM + kind])
        lams[kind] = LAMS[places[kind]]
    low, seen = 0, -1
    for _turn in range(2):
        if rho != seen:
            low, seen = max(0, rho - STEPS), rho
            tris, fs = own_sums(st, start, RHOS[low : rho + STEPS + 1], now)
        top = -math.inf
        for i in range(tris.shape[0]):
            value = evidence(st, tris[i], fs[i], lams, RHOS[low + i], U)
            if value > top:
                rho, top = low + i, value
        moved = False
        for kind in range(KINDS):
            if st.num[SIZE + kind] > 0.0:
                before = places[kind]
                for j in range(max(0, before - STEPS), min(LAMS.shape[0], before + STEPS + 1)):
                    if j == before:
                        continue
                    lams[kind] = LAMS[j]
                    value = evidence(st, tris[rho - low], fs[rho - low], lams, RHOS[rho], U)
                    if value > top:
                        places[kind], top = j, value
                lams[kind] = LAMS[places[kind]]
                moved |= places[kind] != before
        if not moved and rho == seen:
            break
    st.num[LAM : LAM + KINDS] = lams
    if RHOS[rho] != st.num[RHO] or st.raw.shape[0] > 0:
        st.num[RHO] = RHOS[rho]
        st.tri[0] = tris[rho - low]
        st.vec[0] = fs[rho - low]
        for i in (1, 2):
            st.tri[i] = 0.0
            st.vec[i] = 0.0


# -- draws ----------------------------------------------------------------------------------


@njit(cache=True, inline="always")
def half_bits(low: np.uint32, high: np.uint32, k: np.uint32) -> np.uint32:
    """Return 32 random bits of arm k under a key in two halves.

    Rounds of a 32-bit mixer (Wellons 2018, lowbias32): many arms at once in vector code, which the
    64-bit one of `keys` is not.
    """
    x = np.uint32(np.uint32(k * _STEP) + low)
    x = np.uint32(np.uint32(x ^ np.uint32(x >> _S16)) * _ROUND_1)
    x = np.uint32(np.uint32(x ^ np.uint32(x >> _S15)) + high)
    x = np.uint32(x * _ROUND_2)
    x = np.uint32(np.uint32(x ^ np.uint32(x >> _S16)) * _ROUND_1)
    return np.uint32(x ^ np.uint32(x >> _S15))


@njit(cache=True, inline="always")
def own_bits(key: np.uint64, k: int) -> np.uint64:
    """Return the random bits of the own effect of arm k: the upper half from `half_bits`."""
    half = half_bits(np.uint32(key), np.uint32(key >> _S32), np.uint32(k))
    return (np.uint64(half) << _S32) | (bits_of(key, k) >> _S32)


@njit(cache=True)
def draw_theta(st: Shared, key: np.uint64, spread: float, z: Floats, out: Floats) -> None:
    """Fill θ̃, one joint draw. z (2, D) is scratch."""
    centre(st, out)
    scale = spread * noise(st) / math.sqrt(st.num[PASSED])
    if scale > 0.0:
        mine = mix(key ^ _ROOT_KEY)
        for e in range(out.shape[0]):
            z[0, e] = scale * normal(bits_of(mine, e))
        row_products(z[1], st.lower, z[0])
        for e in range(out.shape[0]):
            out[e] += z[1, e]


@njit(cache=True)
def distances(st: Shared, theta: Floats, columns: Singles) -> float:
    """Fill the lengths of the columns of θ̃ − ref, one an arm's feature; return the whole length."""
    squares = np.zeros(columns.shape[0])
    total = 0.0
    for e in range(theta.shape[0]):
        off = theta[e] - st.ref[e]
        squares[st.at[1, e]] += off * off
        total += off * off
    for j in range(columns.shape[0]):
        columns[j] = math.sqrt(squares[j]) * (1.0 + 1e-5)
    return math.sqrt(total) * (1.0 + 1e-5)


@njit(cache=True)
def contract(at: Places, theta: Floats, x: Floats, out: Floats) -> None:
    """Fill w = Θᵀ(1, x), p + 1 numbers."""
    for j in range(out.shape[0]):
        out[j] = 0.0
    for e in range(theta.shape[0]):
        out[at[1, e]] += x[at[0, e]] * theta[e]


@njit(cache=True)
def tile_scores(
    tiles: Singles, marks: Uints, binary: Bools, w: Singles, t: int, score: Singles
) -> None:
    """Fill (1, a)ᵀw of the kinds of tile t, in single precision, feature after feature.

    Features that are 0 or 1 are read as bits. Adding w·0 changes no number, so nothing depends on
    which features are.
    """
    P = w.shape[0]
    low = np.uint64(t * LANES)
    for i in range(LANES):
        score[low + np.uint64(i)] = _ZERO
    begin = 0
    while begin < P:
        end = begin + 1
        while end < P and binary[end] == binary[begin]:
            end += 1
        if binary[begin]:
            add_marked(score, w, marks, t, begin, end)
        else:
            add_columns(tiles[t, begin:end], w[begin:end], score[t * LANES : (t + 1) * LANES])
        begin = end


@njit(cache=True)
def tile_sizes(
    tiles: Singles, marks: Uints, binary: Bools, r: Singles, t: int, out: Singles
) -> None:
    """Fill |(1, a)|ᵀr of the kinds of tile t."""
    low = t * LANES
    mine = out[low : low + LANES]
    mine[:] = _ZERO
    for j in range(r.shape[0]):
        if binary[j]:
            add_marked(out, r, marks, t, j, j + 1)
        else:
            r0 = r[j]
            row = tiles[t, j]
            for i in range(LANES):
                mine[i] += r0 * abs(row[i])


@njit(cache=True)
def add_columns(tile: Singles, w: Singles, out: Singles) -> None:
    """Add w[0]·tile[0], w[1]·tile[1], … to `out`."""
    P = w.shape[0]
    fours = P - P % 4
    for j in range(0, fours, 4):
        w0, w1, w2, w3 = w[j], w[j + 1], w[j + 2], w[j + 3]
        r0, r1, r2, r3 = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
        for i in range(out.shape[0]):
            out[i] = (((out[i] + w0 * r0[i]) + w1 * r1[i]) + w2 * r2[i]) + w3 * r3[i]
    for j in range(fours, P):
        w0 = w[j]
        row = tile[j]
        for i in range(out.shape[0]):
            out[i] += w0 * row[i]


@njit(cache=True)
def highest(x: Singles, first: np.uint64, work: Singles) -> np.float32:
    """Return the largest of LANES numbers from x[first] on; work (LANES / 2) is scratch."""
    # Halves of a fixed length, which the compiler makes vector code of.
    for i in range(32):
        a, b = x[first + np.uint64(i)], x[first + np.uint64(i + 32)]
        work[i] = a if a > b else b
    for i in range(16):
        a, b = work[i], work[i + 16]
        work[i] = a if a > b else b
    for i in range(8):
        a, b = work[i], work[i + 8]
        work[i] = a if a > b else b
    best: np.float32 = work[0]
    for i in range(1, 8):
        best = max(best, work[i])
    return best


@njit(cache=True)
def grid_of(at: Places, theta: Floats, out: Floats) -> None:
    """Fill (p+1, d+1): by an arm's feature, what θ says of a context's."""
    out[:] = 0.0
    for e in range(theta.shape[0]):
        out[at[1, e], at[0, e]] = theta[e]


@njit(cache=True)
def column_sums(grid: Floats, a: Floats, out: Floats) -> None:
    """Fill Σ_j a_j times row j of a grid: of θ, what it says of an arm by a context's features."""
    out[:] = 0.0
    for j in range(a.shape[0]):
        if a[j] != 0.0:
            add_scaled(out, a[j], grid[j])


@njit(cache=True)
def fitted(
    X: Floats, old_of: npt.NDArray[np.int32], old: Floats, k: int, theta: Floats, means: Floats
) -> float:
    """Return S_kᵀθ, in units of g; means: the `column_sums` of θ's grid for its features."""
    total = 0.0
    for i in range(means.shape[0]):
        total += X[k, i] * means[i]
    if old_of[k] >= 0:
        before = old[old_of[k]]
        for e in range(theta.shape[0]):
            total += before[e] * theta[e]
    return total


@njit(cache=True, inline="always")
def own_mean(rho: float, g: float, plays: float, earned: float, fit: float) -> tuple[float, float]:
    """Return the mean of ũ_k of an arm that was played, given θ̃, and κ."""
    kappa = rho / (1.0 + rho * g * plays)
    return kappa * g * (earned - fit), kappa


@njit(cache=True)
def draw_some(
    st: Shared, x: Floats, key: np.uint64, spread: float, arms: Ints, out: Floats
) -> None:
    """Fill the scores of one joint draw for the given arms; x: (1, context)."""
    D, P = st.vec.shape[1], st.rows.shape[1]
    theta = np.empty(D)
    draw_theta(st, key, spread, np.empty((2, D)), theta)
    w = np.empty(P)
    contract(st.at, theta, x, w)
    single = w.astype(np.float32)
    scale = own_spread(st, spread)
    score = np.empty(st.tiles.shape[0] * LANES, np.float32)
    known = np.zeros(st.tiles.shape[0], np.bool_)
    grid, means = np.empty((P, st.X.shape[1])), np.empty(st.X.shape[1])
    grid_of(st.at, theta, grid)
    X, own, rows, old_of, old = st.X, st.own, st.rows, st.old_of, st.old
    tiles, marks, binary, kind_of = st.tiles, st.marks, st.binary, st.kind_of
    rho, g = st.num[RHO], st.num[PASSED]
    fresh = scale * math.sqrt(rho)
    for i in range(arms.shape[0]):
        k = arms[i]
        kind = int(np.int64(kind_of[k]))
        if not known[kind // LANES]:
            tile_scores(tiles, marks, binary, single, kind // LANES, score)
            known[kind // LANES] = True
        out[i] = np.float64(score[kind])
        if own[k, 0] > 0.0 and rho > 0.0:
            column_sums(grid, rows[k], means)
            fit = fitted(X, old_of, old, k, theta, means)
            effect, kappa = own_mean(rho, g, own[k, 0], own[k, 1], fit)
            if scale > 0.0:
                effect += scale * math.sqrt(kappa) * normal(own_bits(key, k))
            out[i] += effect
        elif fresh > 0.0:
            out[i] += fresh * normal(own_bits(key, k))


@njit(cache=True)
def draw_rows(
    st: Shared,
    x: Floats,
    key: np.uint64,
    spread: float,
    rows: Floats,
    ids: Uints,
    out: Floats,
) -> None:
    """Fill the scores of one joint draw for arms that nobody stored: rows (n, p), one key each."""
    D, P = st.vec.shape[1], st.rows.shape[1]
    theta = np.empty(D)
    draw_theta(st, key, spread, np.empty((2, D)), theta)
    w = np.empty(P)
    contract(st.at, theta, x, w)
    single = w.astype(np.float32)
    scale = own_spread(st, spread) * math.sqrt(st.num[RHO])
    for i in range(rows.shape[0]):
        total = single[0]
        for j in range(1, P):
            total += single[j] * np.float32(rows[i, j - 1])
        out[i] = np.float64(total)
        if scale > 0.0:
            out[i] += scale * normal(mix(key ^ mix(ids[i] + GOLDEN)))


@njit(cache=True)
def furthest(arms: Wholes, first: int, last: int, key: np.uint64) -> float:
    """Return a bound on the draws of own effects of arms[first:last], as `reach_of_draw` has it."""
    low, high = np.uint32(key), np.uint32(key >> _S32)
    least = np.uint32(0xFFFFFFFF)
    for i in range(np.uint64(first), np.uint64(last)):
        tail = np.uint32(~half_bits(low, high, arms[i]))
        least = tail if tail < least else least
    square = -2.0 * math.log((np.float64(least) + 1.0) / 2147483648.0)
    return math.sqrt(square) * (1.0 + 1e-6) + 1e-6 if square > 0.0 else 0.0


@njit(cache=True)
def reach_draws(
    arms: Wholes, first: int, key: np.uint64, scale: np.float32, tail: Singles, draws: Singles
) -> None:
    """Fill a bound on the draws of own effects of a block of arms; tail is scratch."""
    if scale > _ZERO:
        low, high = np.uint32(key), np.uint32(key >> _S32)
        for i in range(LANES):
            at = np.uint64(first) + np.uint64(i)
            tail[i] = np.float32(~half_bits(low, high, arms[at])) + _ONE
        reach_of_draw(tail, draws)
    else:
        for i in range(LANES):
            draws[i] = _ZERO


@njit(cache=True)
def reach_fresh(
    score: Singles, kinds: Wholes, first: int, fresh: np.float32, draws: Singles, reach: Singles
) -> None:
    """Fill an upper bound on the score of arms of a block as if nobody had played them."""
    for i in range(LANES):
        reach[i] = score[np.uint64(kinds[np.uint64(first) + np.uint64(i)])]
    for i in range(LANES):
        more = fresh * draws[i]
        reach[i] = reach[i] + (more + _SLACK * (abs(reach[i]) + more))


@njit(cache=True)
def reach_seats(
    score: Singles,
    size: Singles,
    held: Wholes,
    hint: Singles,
    first: int,
    scale: np.float32,
    far: np.float32,
    draws: Singles,
    reach: Singles,
) -> None:
    """Fill an upper bound on the score of arms of a block of seats.

    score, size: by kind, (1, a)ᵀw and |(1, a)|ᵀ times the columns' lengths of θ̃ − ref; held: the
    kind at each seat, (LANES,); scale: see `own_spread`; far: ‖θ̃ − ref‖, 0 where no arm has former
    features.
    """
    effect, root, length, before = hint[0], hint[1], hint[2], hint[3]
    for i in range(LANES):
        reach[i] = score[np.uint64(held[i])]
    for i in range(LANES):
        at = np.uint64(first) + np.uint64(i)
        more = scale * (draws[i] * root[at]) + far * before[at]
        more += size[np.uint64(held[i])] * length[at]
        reach[i] = (reach[i] + effect[at]) + (
            more + _SLACK * (abs(reach[i]) + (abs(effect[at]) + more))
        )


@njit(cache=True)
def reach_of_draw(tail: Singles, reach: Singles) -> None:
    """Fill a bound on standard normals from their random bits' distance from 1, times 2³².

    With t the random bits' distance from 1, z ≤ √(−2 ln 2t), and −log₂ is at most what exponent
    and mantissa of a float say, read as one number.
    """
    whole = tail.view(np.int32)
    for i in range(LANES):
        # 2 ln 2 · (31 + 127 − bits / 2²³), and a little more; then √z² ≤ (z²/c + c) / 2.
        square = _TOP_SQUARE - _PER_BIT * np.float32(whole[i])
        near, middle, wide = _N * square + _N_2, _M * square + _M_2, _W * square + _W_2
        middle = middle if middle < wide else wide
        reach[i] = near if near < middle else middle


@njit(cache=True)
def score_kinds(tiles: Singles, marks: Uints, binary: Bools, w: Singles, score: Singles) -> None:
    """Fill (1, a)ᵀw of all kinds; it takes arrays one by one, as a named tuple of them is slow."""
    for t in range(score.shape[0] // LANES):
        tile_scores(tiles, marks, binary, w, t, score)


@njit(cache=True)
def glance(
    score: Singles, kinds: Wholes, arms: int, fresh: float, work: Singles, most: Singles
) -> None:
    """Fill an upper bound on the scores of the arms of every block, if nobody had played them."""
    more = np.float32(fresh) * _FURTHEST
    for c in range(most.shape[0]):
        first = np.uint64(kinds[np.uint64(c * LANES)])
        last = np.uint64(kinds[np.uint64(min(arms, (c + 1) * LANES) - 1)])
        if last - first == np.uint64(LANES - 1):
            high = highest(score, first, work)
        else:
            high = highest_of(score, first, last)
        most[c] = high + (more + _SLACK * (abs(high) + more))


@njit(cache=True, inline="always")
def highest_of(x: Singles, first: np.uint64, last: np.uint64) -> np.float32:
    """Return the largest of the numbers from x[first] to x[last]."""
    best: np.float32 = x[first]
    while first < last:
        first += np.uint64(1)
        best = max(best, x[first])
    return best


@njit(cache=True)
def sift(best: Ints, top: Floats, tie: Uints, n: int, k: int, s: float, b: np.uint64) -> None:
    """Put arm k in the place of the first of a heap of n, whose lowest stands first."""
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        other = child + 1
        if other < n and (
            top[other] < top[child] or (top[other] == top[child] and tie[other] < tie[child])
        ):
            child = other
        if not (top[child] < s or (top[child] == s and tie[child] < b)):
            break
        best[i] = best[child]
        top[i] = top[child]
        tie[i] = tie[child]
        i = child
    best[i] = k
    top[i] = s
    tie[i] = b


@njit(cache=True)
def insert(best: Ints, top: Floats, tie: Uints, k: int, s: float, b: np.uint64) -> None:
    """Put arm k with score s among the best so far, a heap; ties fall by random bits."""
    if s > top[0] or best[0] < 0 or (s == top[0] and b > tie[0]):
        sift(best, top, tie, best.shape[0], k, s, b)


@njit(cache=True)
def in_order(best: Ints, top: Floats, tie: Uints) -> None:
    """Bring a heap into order, best first."""
    for n in range(best.shape[0] - 1, 0, -1):
        k, s, b = best[n], top[n], tie[n]
        best[n], top[n], tie[n] = best[0], top[0], tie[0]
        sift(best, top, tie, n, k, s, b)


@njit(cache=True)
def best_of(
    st: Shared,
    theta: Floats,
    w: Floats,
    may: Bools,
    key: np.uint64,
    scale: float,
    score: Singles,
    most: Singles,
    best: Ints,
    top: Floats,
) -> int:
    """Fill `best` with the arms of the highest scores of one draw, best first; `top` with those.

    Own effects are computed only for arms that can still win. score (a number for each lane of all
    tiles) and most (one a block) are scratch. Return how many were computed. An arm is -1 where
    there is none.
    """
    tie = np.zeros(best.shape[0], np.uint64)
    best[:] = -1
    top[:] = -math.inf
    K, kinds, order = st.counts[ARMS], st.kinds, st.order
    plain = st.num[RHO] == 0.0
    fresh = scale * math.sqrt(st.num[RHO])
    work = np.empty((3, LANES), np.float32)
    tail, draws, reach = work[0], work[1], work[2]
    score_kinds(st.tiles, st.marks, st.binary, w.astype(np.float32), score)
    glance(score, kinds, K, fresh, tail, most)
    computed = 0
    # The most promising block goes first, then all that were played, then the other blocks: most
    # of them are passed over at a glance.
    first = int(np.argmax(most))
    for turn in range(-2, most.shape[0]):
        if turn == -1:
            computed += best_played(st, theta, may, key, scale, score, work, best, top, tie)
            continue
        block = first if turn < 0 else turn
        if turn == first or (best[0] >= 0 and most[block] < top[0]):
            continue
        low = block * LANES
        end = min(K, low + LANES)
        if best[0] >= 0 and fresh > 0.0:
            # As far as the furthest of these draws goes, instead of the furthest of all.
            high = most[block] - fresh * (np.float64(_FURTHEST) - furthest(order, low, end, key))
            if high + 1e-5 * (abs(high) + abs(most[block])) < top[0]:
                continue
        reach_draws(order, low, key, np.float32(fresh), tail, draws)
        reach_fresh(score, kinds, low, np.float32(fresh), draws, reach)
        if best[0] >= 0 and highest(reach, np.uint64(0), tail) < top[0]:
            continue
        for place in range(low, end):
            k = int(np.int64(order[place]))
            if not may[k] or (best[0] >= 0 and reach[place - low] < top[0]):
                continue
            if st.own[k, 0] > 0.0 and not plain:
                continue
            drawn = float(score[kinds[place]])
            if fresh > 0.0:
                drawn += fresh * normal(own_bits(key, k))
            computed += not plain
            insert(best, top, tie, k, drawn, bits_of(key, k))
    in_order(best, top, tie)
    return computed


@njit(cache=True)
def best_played(
    st: Shared,
    theta: Floats,
    may: Bools,
    key: np.uint64,
    scale: float,
    score: Singles,
    work: Singles,
    best: Ints,
    top: Floats,
    tie: Uints,
) -> int:
    """Put the arms that were played among the best so far; return how many were computed."""
    n = st.sizes[1] if st.num[RHO] > 0.0 else 0
    if n == 0:
        return 0
    seats, kind_of = st.seats, st.kind_of
    blocks = (n + LANES - 1) // LANES
    high, reach = np.empty(blocks, np.float32), np.empty(blocks * LANES, np.float32)
    reach_played(st, theta, key, scale, score, work, top[0], high, reach)
    grid, means = np.empty((st.rows.shape[1], st.X.shape[1])), np.empty(st.X.shape[1])
    grid_of(st.at, theta, grid)
    # The most promising ones first: then few others reach what has been found.
    front = most_promising(high, reach, n, 2 * best.shape[0] + FRONT)
    computed = 0
    kind = np.uint32(0xFFFFFFFF)
    X, own, rows, old_of, old = st.X, st.own, st.rows, st.old_of, st.old
    rho, g = st.num[RHO], st.num[PASSED]
    for turn in range(-1, blocks):
        if turn >= 0 and best[0] >= 0 and high[turn] < top[0]:
            continue
        low = turn * LANES
        for i in range(front.shape[0] if turn < 0 else min(n - low, LANES)):
            seat = front[i] if turn < 0 else low + i
            k = int(np.int64(seats[seat]))
            if not may[k] or (best[0] >= 0 and reach[seat] < top[0]):
                continue
            if turn < 0:
                reach[seat] = _NEVER
            elif reach[seat] == _NEVER:
                continue
            if kind_of[k] != kind:
                kind = kind_of[k]
                column_sums(grid, rows[k], means)
            fit = fitted(X, old_of, old, k, theta, means)
            effect, kappa = own_mean(rho, g, own[k, 0], own[k, 1], fit)
            drawn = float(score[kind])
            if scale > 0.0:
                if best[0] >= 0 and drawn + effect + 8.5 * scale * math.sqrt(kappa) < top[0]:
                    continue
                effect += scale * math.sqrt(kappa) * normal(own_bits(key, k))
            drawn += effect
            computed += 1
            insert(best, top, tie, k, drawn, bits_of(key, k))
    return computed


@njit(cache=True)
def most_promising(high: Singles, reach: Singles, n: int, most: int) -> Ints:
    """Return the seats of the highest reach, at most so many, in any order."""
    found, count = np.empty(min(n, most), np.int64), 0
    low = 0
    for block in range(high.shape[0]):
        if count == found.shape[0] and high[block] <= reach[found[low]]:
            continue
        for seat in range(block * LANES, min(n, (block + 1) * LANES)):
            if count < found.shape[0]:
                found[count] = seat
                count += 1
            elif reach[seat] > reach[found[low]]:
                found[low] = seat
            else:
                continue
            if count == found.shape[0]:
                low = 0
                for i in range(1, count):
                    if reach[found[i]] < reach[found[low]]:
                        low = i
    return found


@njit(cache=True)
def reach_played(
    st: Shared,
    theta: Floats,
    key: np.uint64,
    scale: float,
    score: Singles,
    work: Singles,
    least: float,
    high: Singles,
    reach: Singles,
) -> None:
    """Fill an upper bound on the score of every seat's arm, and of each block of seats.

    A block that is below `least` as a whole has its bound alone, and no arm of it one.
    """
    n, tiles, marks, binary, seats = st.sizes[1], st.tiles, st.marks, st.binary, st.seats
    hint, peak, sorted_, kind_of = st.hint, st.peak, st.sizes[2], st.kind_of
    columns = np.empty(st.rows.shape[1], np.float32)
    far = np.float32(distances(st, theta, columns))
    if st.counts[OLD] == 0:
        far = _ZERO
    size, sized = np.empty(score.shape[0], np.float32), np.zeros(tiles.shape[0], np.bool_)
    held = np.zeros(LANES, np.uint32)
    wide = np.float32(scale)
    tail, draws, mine = work[0], work[1], work[2]
    for block in range(high.shape[0]):
        low = block * LANES
        end = min(n, low + LANES)
        for i in range(end - low):
            held[i] = kind_of[seats[low + i]]
        # Neighbours in order need no looking up one by one.
        best, length = -np.float32(np.inf), _ZERO
        close = end <= sorted_ and held[end - low - 1] - held[0] <= 2 * LANES
        for t in range(held[0] // LANES, held[end - low - 1] // LANES + 1 if close else 0):
            if not sized[t]:
                tile_sizes(tiles, marks, binary, columns, t, size)
                sized[t] = True
        if close:
            best = highest_of(score, np.uint64(held[0]), np.uint64(held[end - low - 1]))
            length = highest_of(size, np.uint64(held[0]), np.uint64(held[end - low - 1]))
        else:
            for i in range(end - low):
                t = held[i] // LANES
                if not sized[t]:
                    tile_sizes(tiles, marks, binary, columns, t, size)
                    sized[t] = True
                best = max(best, score[held[i]])
                length = max(length, size[held[i]])
        base = (best + peak[0, block]) + (length * peak[2, block] + far * peak[3, block])
        base += np.float32(1e-5) * (abs(best) + abs(base))
        base += np.float32(wide * (_FURTHEST * peak[1, block]) * np.float32(1.0 + 1e-5))
        if base < least:
            high[block] = base
            reach[low : low + LANES] = _NEVER
            continue
        reach_draws(seats, low, key, wide, tail, draws)
        reach_seats(score, size, held, hint, low, wide, far, draws, mine)
        for i in range(end - low, LANES):
            mine[i] = _NEVER
        reach[low : low + LANES] = mine
        high[block] = highest(reach, np.uint64(low), tail)


@njit(cache=True)
def best_arms(
    st: Shared, x: Floats, may: Bools, key: np.uint64, spread: float, best: Ints, top: Floats
) -> int:
    """Do what `best_of` does for the joint draw under a key; x: (1, context)."""
    D, P = st.vec.shape[1], st.rows.shape[1]
    theta = np.empty(D)
    draw_theta(st, key, spread, np.empty((2, D)), theta)
    w = np.empty(P)
    contract(st.at, theta, x, w)
    scale = own_spread(st, spread)
    score, most = scores_room(st), blocks_room(st)
    return best_of(st, theta, w, may, key, scale, score, most, best, top)


@njit(cache=True)
def scores_room(st: Shared) -> Singles:
    """Return room for the score of every kind."""
    return np.empty((st.sizes[0] + LANES - 1) // LANES * LANES, np.float32)


@njit(cache=True)
def blocks_room(st: Shared) -> Singles:
    """Return room for a number for every block of arms."""
    return np.empty((st.counts[ARMS] + LANES - 1) // LANES, np.float32)


@njit(cache=True)
def draw_thetas(st: Shared, keys: Uints, spread: float, out: Floats) -> None:
    """Fill joint draws, one a row, with one reading of the root; the bits of one by one."""
    n, D = out.shape
    scale = spread * noise(st) / math.sqrt(st.num[PASSED])
    z = np.empty((n, D))
    for m in range(n):
        centre(st, out[m])
        mine = mix(keys[m] ^ _ROOT_KEY)
        if scale > 0.0:
            for e in range(D):
                z[m, e] = scale * normal(bits_of(mine, e))
    if scale == 0.0:
        return
    off, root = np.empty((n, D)), st.lower
    for r in range(0, D, ROWS):
        end = min(r + ROWS, D)
        for m in range(n):
            row_products(off[m, r:end], root[r:end], z[m])
    for m in range(n):
        for e in range(D):
            out[m, e] += off[m, e]


@njit(cache=True)
def win_counts(
    st: Shared,
    x: Floats,
    may: Bools,
    key: np.uint64,
    spread: float,
    draws: int,
    places: int,
    counts: Ints,
) -> int:
    """Add to counts (places, K) how often each arm has each place in draws with their own keys.

    Return how many own effects were computed. Draw number m has the key `bits_of(key, m)`.
    """
    D, P = st.vec.shape[1], st.rows.shape[1]
    score, most = scores_room(st), blocks_room(st)
    theta = np.empty((DRAWS, D))
    keys = np.empty(DRAWS, np.uint64)
    w = np.empty(P)
    best = np.empty(places, np.int64)
    top = np.empty(places)
    scale = own_spread(st, spread)
    computed = 0
    for start in range(0, draws, DRAWS):
        n = min(DRAWS, draws - start)
        for m in range(n):
            keys[m] = bits_of(key, start + m)
        draw_thetas(st, keys[:n], spread, theta[:n])
        for m in range(n):
            contract(st.at, theta[m], x, w)
            computed += best_of(st, theta[m], w, may, keys[m], scale, score, most, best, top)
            for place in range(places):
                if best[place] >= 0:
                    counts[place, best[place]] += 1
    return computed


# -- means and standard deviations ------------------------------------------------------------


@njit(cache=True)
def contracted_covariance(st: Shared, x: Floats) -> Floats:
    """Return C (p+1, p+1), the covariance of Θᵀ(1, x) in units of s²."""
    D, P = st.vec.shape[1], st.rows.shape[1]
    at, root = st.at, st.lower
    E = np.zeros((P, D))  # ((1, x) ⊗ I)ᵀL
    for e in range(D):
        if x[at[0, e]] != 0.0:
            add_scaled(E[at[1, e]], x[at[0, e]], root[e])
    C = np.empty((P, P))
    for j in range(P):
        row_products(C[j], E, E[j])
    for j in range(P):
        for i in range(P):
            C[j, i] /= st.num[PASSED]
    return C


@njit(cache=True)
def square_of(C: Floats, a: Floats, h: Floats) -> float:
    """Return aᵀCa; h is scratch."""
    for j in range(a.shape[0]):
        h[j] = 0.0
    for j in range(a.shape[0]):
        if a[j] != 0.0:
            add_scaled(h, a[j], C[j])
    total = 0.0
    for j in range(a.shape[0]):
        total += h[j] * a[j]
    return max(total, 0.0)


@njit(cache=True)
def effect_square(st: Shared, k: int, x: Floats, v: Floats, S: Floats, h: Floats) -> float:
    """Return the variance of the score of an arm that was played, in units of s²."""
    kappa = shrink(st, k)
    g = st.num[PASSED]
    joint(st.at, x, st.rows[k], v)
    arm_sum(st, k, S)
    add_scaled(v, -kappa * g, S)
    onto_root(st.lower, v, h)
    total = 0.0
    for e in range(h.shape[0]):
        total += h[e] * h[e]
    return float(total / g + kappa)


@njit(cache=True)
def scores(st: Shared, x: Floats, arms: Ints, mean: Floats, sd: Floats) -> None:
    """Fill mean and standard deviation of the score of the given arms; x: (1, context)."""
    D, P = st.vec.shape[1], st.rows.shape[1]
    theta = np.empty(D)
    centre(st, theta)
    w = np.empty(P)
    contract(st.at, theta, x, w)
    C = contracted_covariance(st, x)
    s = noise(st)
    rho = st.num[RHO]
    work = np.empty((3, D))
    h, sums = np.empty(P), np.empty(st.X.shape[1])
    grid = np.empty((P, st.X.shape[1]))
    grid_of(st.at, theta, grid)
    for i in range(arms.shape[0]):
        k = arms[i]
        a = st.rows[k]
        total = 0.0
        for j in range(P):
            total += w[j] * a[j]
        if rho > 0.0 and st.own[k, 0] > 0.0:
            column_sums(grid, a, sums)
            fit = fitted(st.X, st.old_of, st.old, k, theta, sums)
            total += own_mean(rho, st.num[PASSED], st.own[k, 0], st.own[k, 1], fit)[0]
            square = effect_square(st, k, x, work[0], work[1], work[2])
        else:
            square = square_of(C, a, h) + rho
        mean[i] = total
        sd[i] = s * math.sqrt(square)


@njit(cache=True)
def kind_means(
    rows: Floats, order: Wholes, starts: Wholes, marks: Uints, binary: Bools, w: Floats, out: Floats
) -> None:
    """Fill (1, a)ᵀw of all kinds, in double precision: the bits of `scores`, arm by arm."""
    Q = out.shape[0]
    sums = np.empty(LANES)
    for t in range((Q + LANES - 1) // LANES):
        low = t * LANES
        end = min(Q - low, LANES)
        sums[:] = 0.0
        for j in range(w.shape[0]):
            weight = w[j]
            if binary[j]:
                bits = marks[t, j]
                for i in range(LANES):
                    sums[i] += weight if (bits >> np.uint64(i)) & np.uint64(1) else 0.0
            else:
                for i in range(end):
                    sums[i] += weight * rows[order[starts[low + i]], j]
        out[low : low + end] = sums[:end]


@njit(cache=True)
def means(st: Shared, x: Floats, mean: Floats) -> None:
    """Fill the mean of the score of every arm, K: what `scores` says, without its spread."""
    D, P, Q = st.vec.shape[1], st.rows.shape[1], st.sizes[0]
    theta, w, of_kind = np.empty(D), np.empty(P), np.empty(Q)
    centre(st, theta)
    contract(st.at, theta, x, w)
    kind_means(st.rows, st.order, st.starts, st.marks, st.binary, w, of_kind)
    kind_of, seats = st.kind_of, st.seats
    for k in range(mean.shape[0]):
        mean[k] = of_kind[kind_of[k]]
    rho, g = st.num[RHO], st.num[PASSED]
    if rho == 0.0:
        return
    X, own, rows, old_of, old = st.X, st.own, st.rows, st.old_of, st.old
    grid, sums = np.empty((P, X.shape[1])), np.empty(X.shape[1])
    grid_of(st.at, theta, grid)
    for seat in range(st.sizes[1]):
        k = int(np.int64(seats[seat]))
        column_sums(grid, rows[k], sums)
        fit = fitted(X, old_of, old, k, theta, sums)
        mean[k] += own_mean(rho, g, own[k, 0], own[k, 1], fit)[0]


@njit(cache=True)
def score_rows(st: Shared, x: Floats, rows: Floats, mean: Floats, sd: Floats) -> None:
    """Do what `scores` does for arms that nobody stored: rows (n, p)."""
    D, P = st.vec.shape[1], st.rows.shape[1]
    theta = np.empty(D)
    centre(st, theta)
    w = np.empty(P)
    contract(st.at, theta, x, w)
    C = contracted_covariance(st, x)
    h = np.empty(P)
    for i in range(rows.shape[0]):
        a = with_first(rows[i])
        total = 0.0
        for j in range(P):
            total += w[j] * a[j]
        mean[i] = total
        sd[i] = noise(st) * math.sqrt(square_of(C, a, h) + st.num[RHO])


@njit(cache=True)
def fold_one(
    rows: Floats,
    X: Floats,
    own: Floats,
    old_of: npt.NDArray[np.int32],
    old: Floats,
    at: Places,
    tri: Floats,
    vec: Floats,
    root: Floats,
    raw: Floats,
    num: Floats,
    counts: Ints,
    ref: Floats,
    hint: Singles,
    peak: Singles,
    tiles: Singles,
    marks: Uints,
    binary: Bools,
    kind_of: Wholes,
    starts: Wholes,
    order: Wholes,
    place_of: Wholes,
    kinds: Wholes,
    seats: Wholes,
    seat_of: Wholes,
    sizes: Ints,
    k: int,
    context: Floats,
    r: float,
) -> None:
    """Fold one play; the model in pieces, as numba looks up a named tuple 100 times slower."""
    st = Shared(
        rows,
        X,
        own,
        old_of,
        old,
        at,
        tri,
        vec,
        root,
        raw,
        num,
        counts,
        ref,
        hint,
        peak,
        tiles,
        marks,
        binary,
        kind_of,
        starts,
        order,
        place_of,
        kinds,
        seats,
        seat_of,
        sizes,
    )
    D = vec.shape[1]
    fold(st, k, with_first(context), r, np.empty(D), np.empty((3, D)), period(D, num[GAMMA]))


@njit(cache=True)
def widest(root: Floats, at: Places, out: Floats) -> None:
    """Fill (d+1, p+1) with √(B⁻¹)_ee of every joint feature e, 0 where one is not kept."""
    out[:] = 0.0
    for e in range(root.shape[0]):
        square = 0.0
        for r in range(root.shape[1]):
            square += root[e, r] * root[e, r]
        out[at[0, e], at[1, e]] = math.sqrt(square)


@njit(cache=True)
def bound_kinds(
    tiles: Singles,
    marks: Uints,
    binary: Bools,
    w: Singles,
    r: Singles,
    fresh: np.float32,
    score: Singles,
    reach: Singles,
) -> None:
    """Fill (1, a)ᵀw of all kinds, and no less than (1, a)ᵀw + |(1, a)|ᵀr + fresh."""
    for t in range(score.shape[0] // LANES):
        tile_scores(tiles, marks, binary, w, t, score)
        tile_sizes(tiles, marks, binary, r, t, reach)
        low = t * LANES
        mine = reach[low : low + LANES]
        for i in range(LANES):
            more = mine[i] + fresh
            mine[i] = (score[low + i] + more) + _SLACK * (abs(score[low + i]) + more)


@njit(cache=True)
def best_bound(
    st: Shared, x: Floats, may: Bools, key: np.uint64, bonus: float, best: Ints, top: Floats
) -> int:
    """Fill `best` with the arms of the highest mean + bonus·sd, best first; `top` with those.

    -1 where there is none. Return how many sds were computed: √(aᵀCa) ≤ Σ_j |a_j| √C_jj says of
    most kinds that they cannot win, and so does the same sum of joint features for arms that were
    played.
    """
    D, P, Q = st.vec.shape[1], st.rows.shape[1], st.sizes[0]
    theta, w = np.empty(D), np.empty(P)
    centre(st, theta)
    contract(st.at, theta, x, w)
    C = contracted_covariance(st, x)
    s, rho = noise(st), st.num[RHO]
    up = max(bonus, 0.0) * s * (1.0 + 1e-6)
    r = np.empty(P, np.float32)
    for j in range(P):
        r[j] = up * math.sqrt(max(C[j, j], 0.0)) * (1.0 + 1e-6)
    score, reach = scores_room(st), scores_room(st)
    fresh = np.float32(up * math.sqrt(rho))
    bound_kinds(st.tiles, st.marks, st.binary, w.astype(np.float32), r, fresh, score, reach)
    tie = np.zeros(best.shape[0], np.uint64)
    best[:] = -1
    top[:] = -math.inf
    # The most promising kind first, then the arms that were played, then the other kinds.
    first = int(np.argmax(reach[:Q]))
    computed = bound_kind(st, first, C, score, may, key, bonus, s, best, top, tie)
    if rho > 0.0:
        computed += bound_played(st, x, theta, score, may, key, bonus, s, best, top, tie)
    for kind in range(Q):
        if kind != first and not (best[0] >= 0 and reach[kind] < top[0]):
            computed += bound_kind(st, kind, C, score, may, key, bonus, s, best, top, tie)
    in_order(best, top, tie)
    return computed


@njit(cache=True)
def bound_kind(
    st: Shared,
    kind: int,
    C: Floats,
    score: Singles,
    may: Bools,
    key: np.uint64,
    bonus: float,
    s: float,
    best: Ints,
    top: Floats,
    tie: Uints,
) -> int:
    """Put the arms of a kind that nobody played among the best so far: all have the same bound."""
    rho = st.num[RHO]
    computed, value = 0, 0.0
    for place in range(np.int64(st.starts[kind]), np.int64(st.starts[kind + 1])):
        k = int(np.int64(st.order[place]))
        if not may[k] or (rho > 0.0 and st.own[k, 0] > 0.0):
            continue
        if computed == 0:
            square = square_of(C, st.rows[k], np.empty(st.rows.shape[1])) + rho
            value = np.float64(score[kind]) + bonus * (s * math.sqrt(square))
            computed = 1
        if best[0] >= 0 and value < top[0]:
            break
        insert(best, top, tie, k, value, bits_of(key, k))
    return computed


@njit(cache=True)
def bound_played(
    st: Shared,
    x: Floats,
    theta: Floats,
    score: Singles,
    may: Bools,
    key: np.uint64,
    bonus: float,
    s: float,
    best: Ints,
    top: Floats,
    tie: Uints,
) -> int:
    """Put the arms that were played among the best so far; return how many sds were computed.

    v = (x − κX_k) ⊗ a, so ‖Rv‖ ≤ Σ |x − κX_k|_i |a|_j √(B⁻¹)_ij. Arms whose features have changed
    since they were played have no bound.
    """
    D, P = st.vec.shape[1], st.rows.shape[1]
    X, rows, own = st.X, st.rows, st.own
    rho, g = st.num[RHO], st.num[PASSED]
    up = max(bonus, 0.0) * s * (1.0 + 1e-6)
    work, sums = np.empty((3, D)), np.empty(X.shape[1])
    wide, grid = np.empty((X.shape[1], P)), np.empty((P, X.shape[1]))
    widest(st.lower, st.at, wide)
    grid_of(st.at, theta, grid)
    computed = 0
    for i in range(st.sizes[1]):
        k = int(np.int64(st.seats[i]))
        if not may[k]:
            continue
        kappa = rho / (1.0 + rho * g * own[k, 0])
        mean = np.float64(score[st.kind_of[k]])
        column_sums(grid, rows[k], sums)
        mean += kappa * g * (own[k, 1] - fitted(X, st.old_of, st.old, k, theta, sums))
        if best[0] >= 0 and st.old_of[k] < 0:
            length = 0.0
            for j in range(P):
                if rows[k, j] != 0.0:
                    part = 0.0
                    for e in range(wide.shape[0]):
                        part += abs(x[e] - kappa * g * X[k, e]) * wide[e, j]
                    length += part * abs(rows[k, j])
            more = up * (length / math.sqrt(g) + math.sqrt(kappa))
            if mean + more + 1e-9 * (abs(mean) + more) < top[0]:
                continue
        sd = s * math.sqrt(effect_square(st, k, x, work[0], work[1], work[2]))
        computed += 1
        insert(best, top, tie, k, mean + bonus * sd, bits_of(key, k))
    return computed


@njit(cache=True)
def choose_one(
    rows: Floats,
    X: Floats,
    own: Floats,
    old_of: npt.NDArray[np.int32],
    old: Floats,
    at: Places,
    tri: Floats,
    vec: Floats,
    root: Floats,
    raw: Floats,
    num: Floats,
    counts: Ints,
    ref: Floats,
    hint: Singles,
    peak: Singles,
    tiles: Singles,
    marks: Uints,
    binary: Bools,
    kind_of: Wholes,
    starts: Wholes,
    order: Wholes,
    place_of: Wholes,
    kinds: Wholes,
    seats: Wholes,
    seat_of: Wholes,
    sizes: Ints,
    context: Floats,
    may: Bools,
    key: np.uint64,
    spread: float,
    bonus: float,
    best: Ints,
    top: Floats,
) -> int:
    """Find the best arms of one draw, or of mean + bonus·sd; the model in pieces."""
    st = Shared(
        rows,
        X,
        own,
        old_of,
        old,
        at,
        tri,
        vec,
        root,
        raw,
        num,
        counts,
        ref,
        hint,
        peak,
        tiles,
        marks,
        binary,
        kind_of,
        starts,
        order,
        place_of,
        kinds,
        seats,
        seat_of,
        sizes,
    )
    if bonus != 0.0:
        return best_bound(st, with_first(context), may, key, bonus, best, top)
    return best_arms(st, with_first(context), may, key, spread, best, top)


@njit(cache=True)
def set_kind(st: Shared, kind: int, row: Floats) -> None:
    """Store the features of a kind: row (1, a)."""
    bit = np.uint64(1) << np.uint64(kind % LANES)
    for j in range(row.shape[0]):
        a = row[j]
        st.tiles[kind // LANES, j, kind % LANES] = np.float32(a)
        if a == 1.0:
            st.marks[kind // LANES, j] |= bit
        else:
            st.marks[kind // LANES, j] &= ~bit
            st.binary[j] &= a == 0.0


@njit(cache=True)
def arrange(st: Shared, first: int, new: Bools) -> None:
    """Number the kinds of the arms at places from `first` on, in their order.

    new: (K − first,) whether the arm at a place is of another kind than the one before.
    """
    K = st.counts[ARMS]
    for place in range(first, K):
        k = int(np.int64(st.order[place]))
        if new[place - first]:
            st.starts[st.sizes[0]] = place
            set_kind(st, st.sizes[0], st.rows[k])
            st.sizes[0] += 1
        st.place_of[k] = place
        st.kind_of[k] = st.sizes[0] - 1
        st.kinds[place] = st.sizes[0] - 1
    st.starts[st.sizes[0]] = K


@njit(cache=True)
def keep_old(st: Shared, k: int) -> None:
    """Keep Σφ of arm k by its features as they are in its row of `old`, before they change."""
    S = np.empty(st.old.shape[1])
    arm_sum(st, k, S)
    st.old[st.old_of[k]] = S
    st.X[k] = 0.0


@njit(cache=True)
def raw_sums(st: Shared) -> Floats:
    """Return Σφφᵀ and Σφr, (T + D,), from what is kept; g = 1 and settled."""
    T = st.tri.shape[1]
    start = np.empty(T + st.vec.shape[1])
    start[:T] = st.tri[0] + st.tri[1]
    start[T:] = st.vec[0] + st.vec[1]
    tris, fs = own_sums(st, start, np.zeros(1), st.num[RHO])
    start[:T] = tris[0]
    start[T:] = fs[0]
    return start


@njit(cache=True)
def form(st: Shared, raw: Floats) -> None:
    """Form Σ w v vᵀ and f anew from Σφφᵀ and Σφr and the sums of the arms."""
    tris, fs = own_sums(st, raw, np.full(1, st.num[RHO]), 0.0)
    st.tri[0] = tris[0]
    st.vec[0] = fs[0]
    for i in (1, 2):
        st.tri[i] = 0.0
        st.vec[i] = 0.0


# -- whole simulations ------------------------------------------------------------------------


@njit(cache=True)
def run(
    st: Shared,
    C: Floats,
    rewards: Floats,
    may: Bools,
    pattern: Ints,
    shown: Ints,
    start: np.uint64,
    numbers: Uints,
    spread: float,
    bonus: float,
    epsilon: float,
    learn: bool,
    arms: Ints,
) -> int:
    """Run len(shown) steps: fill `arms` with what is played (-1: nothing), fold into the model.

    C: (M, d), rewards: (M, K). Step t shows row shown[t] under the key of decision numbers[t]; the
    arms that may be played there are may[pattern[row]]. Return how many own effects were computed.
    """
    D, P = st.vec.shape[1], st.rows.shape[1]
    score, most = scores_room(st), blocks_room(st)
    theta, z, v, w = np.empty(D), np.empty((2, D)), np.empty(D), np.empty(P)
    work = np.empty((3, D))
    best, top = np.empty(1, np.int64), np.empty(1)
    every = period(D, st.num[GAMMA])
    computed = 0
    for t in range(shown.shape[0]):
        row = shown[t]
        x = with_first(C[row])
        mine = may[pattern[row]]
        key = key_of(start, numbers[t])
        if epsilon > 0.0 and uniform(aside(key)) < epsilon:
            best[0] = random_arm(aside(key), mine, mine)
        elif bonus != 0.0:
            computed += best_bound(st, x, mine, key, bonus, best, top)
        else:
            draw_theta(st, key, spread, z, theta)
            contract(st.at, theta, x, w)
            scale = own_spread(st, spread)
            computed += best_of(st, theta, w, mine, key, scale, score, most, best, top)
        arms[t] = best[0]
        if learn and best[0] >= 0:
            fold(st, best[0], x, rewards[row, best[0]], v, work, every)
    return computed

"""Fit a logistic model whose units share what they have in common, and give each unit's belief.

Log odds of unit u in context c: β_u·x with x = [c, 1], β_u = (w + v_u, a_u). Given w the units have
nothing to do with each other, so each is eliminated by itself, and what couples them is one matrix
of d × d: time goes with U·d³, not with (U·d)³.

Let D be the prior's covariance of (v_u, a_u), X the contexts of a unit, W the weights n·p(1−p) of
its answers there. A unit is kept as the Cholesky factor of D⁻¹ + XᵀWX, p × p; or, if it has few
contexts, as M = (W⁻¹ + XDXᵀ)⁻¹, n × n (Woodbury): the unit's *form*. The precision of w, all else
integrated out, is S = I/common + Σ_u XᵀMX over the features.

The order of every sum is fixed, and every fit starts from zero: the same counts give the same bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bridle.kernels.compiling import njit
from bridle.kernels.logistic import (
    CAPPED,
    LEFT,
    MAX_STEPS,
    STEP_CAP,
    SURE,
    curvature,
    factor,
    inverse,
    solve,
    table,
    terms,
)
from bridle.kernels.posterior import add_scaled
from bridle.kernels.types import Bools, Floats, Ints, Places

# Newton is done when its step moves no score further than this; it is still taken. The covariance
# is that of the point before it.
NEAR = 1e-8
# … or when it is this far, in posterior standard deviations, squared: nothing but rounding.
NOTHING = 1e-24
# With features of a million and as many answers a step may be nothing but rounding: it is made
# shorter while the slope at its end is below minus that at its start, so that it lowers nothing,
# and given up below this length.
SHORTEST = 1e-9
# D − DXᵀMXD loses digits as answers · xᵀDx grows: a unit where it is beyond this is not kept as M.
WELL_KNOWN = 1e5

# Variances of the prior: of a weight that all units share, of a unit's own part of it, and of a
# unit's intercept.
Variances = tuple[float, float, float]
Fitted = tuple[Ints, Ints, Floats, Floats, Floats, Bools, Ints, Floats, Ints, Places, Floats]


class Units(NamedTuple):
    """The units of one fit: their contexts, and what is worked out for each."""

    ends: Ints  # (U + 1) where the rows of each begin
    small: Bools  # (U,) whether the form is M
    at: Ints  # (U + 1) where the form of each begins
    forms: Floats  # the forms, at the weights as they stand
    held: Ints  # (U + 1) where XDXᵀ of each begins
    grams: Floats  # XDXᵀ of the small ones
    start: Ints  # (n + 1) where the entries of each row begin
    where: Places  # columns of the entries
    x: Floats  # values of the entries
    scale: Floats  # (p,) the diagonal of D


@njit(cache=True)
def block(flat: Floats, at: Ints, u: int) -> Floats:
    """Return the square matrix of unit u out of all units' in a row."""
    side = round(math.sqrt(at[u + 1] - at[u]))
    return flat[at[u] : at[u + 1]].reshape((side, side))


@njit(cache=True)
def rows_of(units: Units, u: int) -> Ints:
    """Return where the entries of each row of unit u begin, and where the last end."""
    return units.start[units.ends[u] : units.ends[u + 1] + 1]


@njit(cache=True, inline="always")
def row_times(low: int, high: int, where: Places, x: Floats, y: Floats) -> float:
    """Return x·y for the sparse row x of the entries from low to high."""
    total = 0.0
    for a in range(low, high):
        total += x[a] * y[where[a]]
    return total


@njit(cache=True)
def is_small(start: Ints, x: Floats, where: Places, yes: Floats, no: Floats, scale: Floats) -> bool:
    """Return whether a unit is kept as M: of few contexts, and not too well known for it."""
    n = start.shape[0] - 1
    if 2 * n >= scale.shape[0]:
        return False
    for i in range(n):
        total = 0.0
        for a in range(start[i], start[i + 1]):
            total += x[a] * x[a] * scale[where[a]]
        if (yes[i] + no[i]) * total > WELL_KNOWN:
            return False
    return True


@njit(cache=True)
def add_rows(y: Floats, a: Floats, B: Floats) -> None:
    """Add a[r]·B[r] to y, row after row, as far as y goes; y is read and written once in four."""
    k, n = a.shape[0], y.shape[0]
    fours = k - k % 4
    for r in range(0, fours, 4):
        a0, a1, a2, a3 = a[r], a[r + 1], a[r + 2], a[r + 3]
        if a0 != 0.0 or a1 != 0.0 or a2 != 0.0 or a3 != 0.0:
            x0, x1, x2, x3 = B[r, :n], B[r + 1, :n], B[r + 2, :n], B[r + 3, :n]
            for i in range(n):
                y[i] = (((y[i] + a0 * x0[i]) + a1 * x1[i]) + a2 * x2[i]) + a3 * x3[i]
    for r in range(fours, k):
        add_scaled(y, a[r], B[r, :n])


@njit(cache=True)
def times(A: Floats, B: Floats) -> Floats:
    """Return A·B."""
    out = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        add_rows(out[i], A[i], B)
    return out


@njit(cache=True)
def times_rows(A: Floats, start: Ints, where: Places, x: Floats, scale: Floats) -> Floats:
    """Return A·X·diag(scale), for the sparse rows X of a unit: one for each column of A.

    Columns of X from the length of `scale` on are left out.
    """
    out = np.zeros((A.shape[0], scale.shape[0]))
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            for b in range(start[j], start[j + 1]):
                u = where[b]
                if u < scale.shape[0]:
                    out[i, u] += A[i, j] * (x[b] * scale[u])
    return out


@njit(cache=True)
def gram(start: Ints, where: Places, x: Floats, scale: Floats, K: Floats) -> None:
    """Write K = X·diag(scale)·Xᵀ for the sparse rows X of a unit."""
    row = np.zeros(scale.shape[0])
    for i in range(K.shape[0]):
        for a in range(start[i], start[i + 1]):
            row[where[a]] = x[a] * scale[where[a]]
        for j in range(i + 1):
            K[i, j] = row_times(start[j], start[j + 1], where, x, row)
            K[j, i] = K[i, j]
        for a in range(start[i], start[i + 1]):
            row[where[a]] = 0.0


@njit(cache=True)
def small_form(K: Floats, weight: Floats, M: Floats) -> None:
    """Write M = (W⁻¹ + K)⁻¹ = W^½ (I + W^½ K W^½)⁻¹ W^½, which a weight of 0 does not hurt."""
    n = weight.shape[0]
    root = np.sqrt(weight)
    B = np.empty((n, n))
    for i in range(n):
        for j in range(i, n):
            B[i, j] = root[i] * root[j] * K[i, j]
        B[i, i] += 1.0
    factor(B, 1.0)
    inverse(B, M)
    for i in range(n):
        for j in range(n):
            M[i, j] *= root[i] * root[j]


@njit(cache=True)
def large_form(
    start: Ints, where: Places, x: Floats, weight: Floats, scale: Floats, H: Floats
) -> None:
    """Write the factor of H = D⁻¹ + XᵀWX, with D = diag(scale), into its upper triangle."""
    p = scale.shape[0]
    for i in range(p):
        for j in range(i, p):
            H[i, j] = 0.0
        H[i, i] = 1.0 / scale[i]
    curvature(start, where, x, np.zeros(weight.shape[0]), weight, np.zeros(p), H)
    factor(H, 1.0 / scale.max())


@njit(cache=True)
def lift(units: Units, u: int, S: Floats) -> None:
    """Add what unit u says of w to the upper triangle of S."""
    start, form = rows_of(units, u), block(units.forms, units.at, u)
    where, x, scale = units.where, units.x, units.scale
    q = S.shape[0]
    if units.small[u]:
        Z = times_rows(form, start, where, x, np.ones(q))
        for i in range(form.shape[0]):
            for a in range(start[i], start[i + 1] - 1):  # the last is the intercept
                k = where[a]
                add_scaled(S[k, k:], x[a], Z[i, k:])
    else:
        # XᵀMX = D⁻¹ − D⁻¹·A·D⁻¹: what is subtracted is never larger than D⁻¹.
        A = np.empty(form.shape)
        inverse(form, A)
        for i in range(q):
            S[i, i] += 1.0 / scale[i]
            add_scaled(S[i, i:], -1.0 / (scale[i] * scale[i]), A[i, i:q])


@njit(cache=True)
def apply(units: Units, u: int, y: Floats, out: Floats) -> None:
    """Write (D⁻¹ + XᵀWX)⁻¹·y, with the contexts X of unit u."""
    start, form = rows_of(units, u), block(units.forms, units.at, u)
    where, x, scale = units.where, units.x, units.scale
    if not units.small[u]:
        solve(form, y, out)
        return
    n = form.shape[0]
    f, h = np.empty(n), np.zeros(n)
    for i in range(y.shape[0]):
        out[i] = scale[i] * y[i]
    for i in range(n):
        f[i] = row_times(start[i], start[i + 1], where, x, out)
    add_rows(h, f, form)
    for i in range(n):
        for a in range(start[i], start[i + 1]):
            k = where[a]
            out[k] -= scale[k] * (x[a] * h[i])


@njit(cache=True)
def stride(
    m: Floats,
    move: Floats,
    yes: Floats,
    no: Floats,
    precision: float,
    along: float,
    square: float,
    gain: float,
    most: float,
    far: float,
    rest: Floats,
    weight: Floats,
) -> float:
    """Return how much of a Newton step to take; fill residuals and weights there.

    The log posterior is concave, so it does not fall on the way to where the slope along the step
    is not yet negative. A step that overshoots is halved until it does not, or is too short to do
    harm (`SURE`); one that ends where much of the slope is left is tried longer, up to `most`.
    The prior's part of the slope is −precision·(along + t·square). Returns 0 where the step leads
    nowhere, being nothing but rounding.
    """
    t = min(1.0, most)
    slope = terms(m, move, t, yes, no, rest, weight) - precision * (along + t * square)
    while slope > LEFT * gain and t < most:
        longer = min(most, t * gain / max(gain - slope, 0.5 * gain))
        slope = terms(m, move, longer, yes, no, rest, weight)
        slope -= precision * (along + longer * square)
        if slope < 0.0:
            slope = 0.0
            terms(m, move, t, yes, no, rest, weight)
            break
        t = longer
    while slope < 0.0 and (far * t > SURE or slope < -gain):
        t *= 0.5
        if t < SHORTEST:
            return 0.0
        slope = terms(m, move, t, yes, no, rest, weight) - precision * (along + t * square)
    return t


@njit(cache=True)
def lay_out(
    start: Ints, where: Places, x: Floats, yes: Floats, no: Floats, ends: Ints, scale: Floats
) -> tuple[Bools, Ints, Floats, Ints, Floats]:
    """Return which units are small, room for the forms of all, and XDXᵀ of those that are small.

    The last two are each where a unit begins, and the numbers of all units in a row.
    """
    U, p = ends.shape[0] - 1, scale.shape[0]
    small = np.empty(U, np.bool_)
    at, held = np.zeros((2, U + 1), np.int64)
    for u in range(U):
        low, high = ends[u], ends[u + 1]
        small[u] = is_small(start[low : high + 1], x, where, yes[low:high], no[low:high], scale)
        n = high - low
        at[u + 1] = at[u] + (n * n if small[u] else p * p)
        held[u + 1] = held[u] + (n * n if small[u] else 0)
    grams = np.empty(held[U])
    for u in range(U):
        if small[u]:
            gram(start[ends[u] : ends[u + 1] + 1], where, x, scale, block(grams, held, u))
    return small, at, np.empty(at[U]), held, grams


@njit(cache=True)
def direction(
    units: Units,
    variances: Variances,
    weight: Floats,
    rest: Floats,
    w: Floats,
    v: Floats,
    S: Floats,
    step_w: Floats,
    step: Floats,
    move: Floats,
) -> None:
    """Write Newton's step for w, v_u and a_u, how it moves each score, and the factor of S.

    Slopes are those by w and by β_u: the answers know of β_u alone, the prior ties it to w.
    """
    ends, small, at, forms, held, grams, start, where, x, scale = units
    common, own, _ = variances
    U, p = v.shape
    q = p - 1
    slope_w, rhs, slope, moved = np.empty(q), np.zeros(q), np.empty((U, p)), np.empty(p)
    for i in range(q):
        slope_w[i] = -w[i] / common
        for j in range(i, q):
            S[i, j] = 0.0
        S[i, i] = 1.0 / common
    for u in range(U):
        low, high = ends[u], ends[u + 1]
        form = block(forms, at, u)
        for i in range(p):
            slope[u, i] = -v[u, i] / scale[i]
        add_scaled(slope_w, -1.0, slope[u, :q])
        for i in range(low, high):
            for a in range(start[i], start[i + 1]):
                slope[u, where[a]] += rest[i] * x[a]
        if small[u]:
            small_form(block(grams, held, u), weight[low:high], form)
        else:
            large_form(rows_of(units, u), where, x, weight[low:high], scale, form)
        lift(units, u, S)
        apply(units, u, slope[u], moved)
        add_scaled(rhs, 1.0 / own, moved[:q])
    add_scaled(rhs, 1.0, slope_w)
    factor(S, 1.0 / common)
    solve(S, rhs, step_w)
    for u in range(U):
        add_scaled(slope[u, :q], 1.0 / own, step_w)
        apply(units, u, slope[u], moved)
        for i in range(ends[u], ends[u + 1]):
            move[i] = row_times(start[i], start[i + 1], where, x, moved)
        for i in range(p):  # of β_u, then of v_u and a_u
            step[u, i] = moved[i] - (step_w[i] if i < q else 0.0)


@njit(cache=True)
def measure(
    w: Floats, v: Floats, step_w: Floats, step: Floats, common: float, scale: Floats
) -> tuple[float, float, float]:
    """Return θ·P·step, step·P·step with P the precisions of the prior, and the largest entry."""
    along, square, longest = 0.0, 0.0, 0.0
    for i in range(w.shape[0]):
        along += w[i] * step_w[i] / common
        square += step_w[i] * step_w[i] / common
        longest = max(longest, abs(step_w[i]))
    for u in range(v.shape[0]):
        for i in range(v.shape[1]):
            along += v[u, i] * step[u, i] / scale[i]
            square += step[u, i] * step[u, i] / scale[i]
            longest = max(longest, abs(step[u, i]))
    return along, square, longest


@njit(cache=True)
def fit(C: Floats, yes: Floats, no: Floats, ends: Ints, variances: Variances) -> Fitted:
    """Fit the answers of all taught units: the highest posterior, by damped Newton from zero.

    Rows of C (n, d) are the distinct contexts of the units, unit after unit; `ends` (U + 1) says
    where each begins, and where the last ends. Returns what `belief` takes: `ends`; which columns
    occur, q features and the intercept as the last; w (q); v_u and a_u (U, q + 1); the covariance
    of w (q, q); which units are small, where the form of each begins, the forms; and the sparse
    rows of C.
    """
    common, own, offset = variances
    start, where, x, used = table(C, False, C.shape[1] + 1)
    if C.shape[0] == 0:
        used = np.array([C.shape[1]])
    n, U, p = C.shape[0], ends.shape[0] - 1, used.shape[0]
    q = p - 1
    scale = np.full(p, own)
    scale[q] = offset
    small, at, forms, held, grams = lay_out(start, where, x, yes, no, ends, scale)
    units = Units(ends, small, at, forms, held, grams, start, where, x, scale)
    w, v, step_w, step = np.zeros(q), np.zeros((U, p)), np.zeros(q), np.zeros((U, p))
    m, move, rest, weight = np.zeros(n), np.zeros(n), np.empty(n), np.empty(n)
    S, T = np.empty((q, q)), np.empty((q, q))
    for i in range(n):  # at zero p is a half
        rest[i] = 0.5 * (yes[i] - no[i])
        weight[i] = 0.25 * (yes[i] + no[i])
    for steps in range(1, MAX_STEPS + 1):
        direction(units, variances, weight, rest, w, v, S, step_w, step, move)
        along, square, longest = measure(w, v, step_w, step, common, scale)
        gain, far = -along, 0.0  # the slope along the step, also where that is not Newton's
        for i in range(n):
            gain += rest[i] * move[i]
            far = max(far, abs(move[i]))
        t = 1.0
        if far > NEAR:
            if not gain > NOTHING or steps == MAX_STEPS:
                break
            most = STEP_CAP / min(longest, far) if steps <= CAPPED else math.inf
            t = stride(m, move, yes, no, 1.0, along, square, gain, most, far, rest, weight)
        add_scaled(m, t, move)
        add_scaled(w, t, step_w)
        for u in range(U):
            add_scaled(v[u], t, step[u])
        if far <= NEAR or t == 0.0:
            break
    inverse(S, T)
    return ends, used, w, v, T, small, at, forms, start, where, x


@njit(cache=True)
def belief(
    ends: Ints,
    used: Ints,
    w: Floats,
    v: Floats,
    T: Floats,
    small: Bools,
    at: Ints,
    forms: Floats,
    starts: Ints,
    where: Places,
    x: Floats,
    u: int,
    variances: Variances,
    mean: Floats,
    cov: Floats,
) -> None:
    """Write mean (d + 1) and covariance (d + 1, d + 1) of β_u, the intercept last.

    What `fit` returned, then the number of the unit among those that it was given; u = -1 is any
    other unit, of which nothing is known but w.
    """
    common, own, offset = variances
    p = used.shape[0]
    q = p - 1
    low, high = (ends[u], ends[u + 1]) if u >= 0 else (0, 0)
    n, start = high - low, starts[low : high + 1]
    form = block(forms, at, u) if u >= 0 else np.empty((0, 0))
    scale = np.full(p, own)
    scale[q] = offset
    last = mean.shape[0] - 1
    for i in range(last + 1):
        mean[i] = 0.0
        for j in range(last + 1):
            cov[i, j] = 0.0
        cov[i, i] = common + own if i < last else offset
    for i in range(p):
        mean[used[i]] = (v[u, i] if u >= 0 else 0.0) + (w[i] if i < q else 0.0)
    part = np.zeros((p, p))
    if u < 0 or small[u]:
        # T + D − DXᵀQ − (DXᵀQ)ᵀ with Q = M·X·T + ½(M − M·X·T·Xᵀ·M)·X·D.
        Y = np.zeros((n, q))
        for i in range(n):
            for a in range(start[i], start[i + 1] - 1):
                add_scaled(Y[i], x[a], T[where[a]])
        inner = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                inner[i, j] = row_times(start[j], start[j + 1] - 1, where, x, Y[i])
        half = 0.5 * (form - times(times(form, inner), form))
        Q = times_rows(half, start, where, x, scale)
        for i in range(n):
            add_rows(Q[i, :q], form[i], Y)
            for a in range(start[i], start[i + 1]):
                k = where[a]
                add_scaled(part[k], x[a] * scale[k], Q[i])
        for i in range(p):
            for j in range(p):
                total = T[i, j] if i < q and j < q else 0.0
                if i == j:
                    total += scale[i]
                cov[used[i], used[j]] = total - (part[i, j] + part[j, i])
    else:
        # A + F·T·Fᵀ, where F = A·D⁻¹ over the features.
        A = np.empty((p, p))
        inverse(form, A)
        J = times(A[:, :q], T)
        for i in range(p):
            add_rows(part[i, : i + 1], J[i], A)
            for j in range(i + 1):
                total = A[i, j] + part[i, j] / (own * own)
                cov[used[i], used[j]] = total
                cov[used[j], used[i]] = total
